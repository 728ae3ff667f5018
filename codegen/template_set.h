/* SPDX-License-Identifier: MIT */
/* The kernel templates, embedded at build time by embed.py. */
#ifndef FTJ_CODEGEN_TEMPLATE_SET_H
#define FTJ_CODEGEN_TEMPLATE_SET_H

#include <stddef.h>

struct ftj_template {
    const char *name; /* as included: "kernel/attn_decode.cuh" */
    const char *text;
    size_t size;
};

extern const struct ftj_template ftj_templates[];
extern const size_t ftj_num_templates;

/* Hex digest over every name and text, in order of name: a changed template is a changed key. */
extern const char ftj_templates_digest[];

#endif
