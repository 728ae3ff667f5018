/* SPDX-License-Identifier: MIT */
/* The embedded templates are a closed world. */
#include <criterion/criterion.h>
#include <string.h>

#include "codegen/template_set.h"

static bool has_template(const char *name, size_t length)
{
    for (size_t i = 0; i < ftj_num_templates; i++) {
        if (strlen(ftj_templates[i].name) == length &&
            strncmp(ftj_templates[i].name, name, length) == 0)
            return true;
    }
    return false;
}

Test(template_set, is_in_order_of_name_and_whole)
{
    cr_assert_gt(ftj_num_templates, 5);
    cr_expect(has_template("block/params.h", 14));
    cr_expect(has_template("ptx/ptx_sm80.cuh", 16));
    for (size_t i = 0; i < ftj_num_templates; i++) {
        const struct ftj_template *t = &ftj_templates[i];
        cr_expect_eq(t->size, strlen(t->text), "%s", t->name);
        cr_expect_eq(t->text[t->size - 1], '\n', "%s is cut", t->name);
        if (i > 0)
            cr_expect_lt(strcmp(ftj_templates[i - 1].name, t->name), 0, "%s", t->name);
    }
}

Test(template_set, has_a_digest_of_64_hex_digits)
{
    cr_expect_eq(strlen(ftj_templates_digest), 64);
    cr_expect_eq(strspn(ftj_templates_digest, "0123456789abcdef"), 64);
}

/* No toolkit header: a kernel must compile with nothing but these files. */
Test(template_set, includes_nothing_from_outside)
{
    static const char directive[] = "#include ";
    for (size_t i = 0; i < ftj_num_templates; i++) {
        const struct ftj_template *t = &ftj_templates[i];
        /* Host headers, which NVRTC never sees. */
        const bool is_for_host = strstr(t->name, "cpu") || strcmp(t->name, "block/params.h") == 0;
        for (const char *at = t->text; (at = strstr(at, directive)) != NULL;) {
            at += sizeof(directive) - 1;
            if (*at == '"')
                cr_expect(has_template(at + 1, strcspn(at + 1, "\"")), "%s includes %.40s", t->name,
                          at);
            else
                cr_expect(is_for_host, "%s includes %.40s", t->name, at);
        }
    }
}
