/* SPDX-License-Identifier: MIT */
/* The kernels `ftjit warm` has to see to: each once, in an order that does not depend on how they
 * were named. */
#ifndef FTJ_CLI_WARM_LIST_H
#define FTJ_CLI_WARM_LIST_H

#include "cache/entry.h"
#include "codegen/compile.h"
#include "codegen/preset.h"

enum warm_outcome { WARM_PENDING, WARM_HIT, WARM_COMPILED, WARM_FAILED };

struct warm_item {
    char label[80]; /* who wants it first: "gpt-oss-20b window fp8" */
    struct ftj_compiler *compiler;
    struct ftj_source source;
    struct ftj_key key;
    uint32_t cost_ms; /* of a compile, about */
    enum warm_outcome outcome;
    struct ftj_entry entry; /* kept where a bundle is to be made */
};

/* A device that is not there, and who compiles for it. */
struct warm_target {
    struct ftj_device device;
    struct ftj_compiler *compiler;
};

#define WARM_MAX_TARGETS 32

/* A zeroed one is empty. */
struct warm_list {
    struct ftj_compiler nvrtc;
    struct ftj_compiler host;
    bool has_nvrtc; /* looked for: it may be missing all the same */
    bool has_host;
    struct warm_target targets[WARM_MAX_TARGETS];
    size_t num_targets;
    struct warm_item *items;          /* owned */
    struct warm_item **longest_first; /* owned; the same in another order, once settled */
    size_t count;
    size_t capacity;
    struct ftj_text skipped; /* "model kind: reason" lines */
    size_t num_skipped;
};

void warm_list_finish(struct warm_list *list);

/* Targets separated by commas. */
FTJ_NODISCARD ftj_status warm_list_add_targets(struct warm_list *list, const char *names);

#define WARM_DEFAULT_OPS (FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_EXTEND)

/* Every layer of a model ("all": of all), in every format (NULL), or the one of this name, for
 * every target: the kernels of `ops`. FTJ_E_INVALID: there is no such model or format. */
FTJ_NODISCARD ftj_status warm_list_add_model(struct warm_list *list, const char *model,
                                             const char *format, uint32_t ops,
                                             const struct ftj_preset_choice *choice);

/* The problems of a file of recorded misses, each for the device it was recorded on or, if there
 * are targets, for all of those. FTJ_E_INVALID: with a sentence that names the line. */
FTJ_NODISCARD ftj_status warm_list_add_file(struct warm_list *list, const char *path);

/* Sort, drop repetitions, and keep each `num_shards`-th from `shard` on. The last call that changes
 * the list. FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status warm_list_settle(struct warm_list *list, uint32_t shard,
                                          uint32_t num_shards);

#endif
