/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "codegen/inline_source.h"
#include "log_catcher.h"

#define TEMPLATE(name, text)                                                                       \
    {                                                                                              \
        name, text, sizeof(text) - 1                                                               \
    }

static const struct ftj_template templates[] = {
    TEMPLATE("block/inner.h", "#ifndef INNER\n#define INNER\n#include <stdint.h>\n#endif\n"),
    TEMPLATE("block/outer.cuh", "// first\n#pragma once\n#include \"block/inner.h\"\nint outer;\n"),
    TEMPLATE("block/no_newline.cuh", "int last;"),
    TEMPLATE("block/broken.cuh", "\n\n#include \"block/absent.cuh\"\n"),
    TEMPLATE("block/circle.cuh", "#include \"block/circle.cuh\"\nint circle;\n"),
};
#define NUM_TEMPLATES (sizeof(templates) / sizeof(*templates))

static void expect_unit(const char *source, const char *expected)
{
    struct ftj_text unit = {0};
    cr_assert_eq(ftj_inline_source(templates, NUM_TEMPLATES, "kernel", source, NULL, &unit),
                 FTJ_OK);
    cr_expect_str_eq(unit.data, expected);
    ftj_text_finish(&unit);
}

Test(inline_source, puts_each_template_in_once_and_says_where_lines_come_from)
{
    expect_unit("// title\n"
                "#include \"block/outer.cuh\"\n"
                "#include \"block/inner.h\"\n"
                "int kernel;\n",
                "#line 1 \"kernel\"\n"
                "// title\n"
                "#line 1 \"block/outer.cuh\"\n"
                "// first\n"
                "\n"
                "#line 1 \"block/inner.h\"\n"
                "#ifndef INNER\n"
                "#define INNER\n"
                "#include <stdint.h>\n"
                "#endif\n"
                "#line 4 \"block/outer.cuh\"\n"
                "int outer;\n"
                "#line 3 \"kernel\"\n"
                "#line 4 \"kernel\"\n"
                "int kernel;\n");
}

Test(inline_source, ends_every_file_with_a_newline)
{
    expect_unit("  #  include   \"block/no_newline.cuh\"  // why",
                "#line 1 \"kernel\"\n"
                "#line 1 \"block/no_newline.cuh\"\n"
                "int last;\n"
                "#line 2 \"kernel\"\n"
                "\n");
}

Test(inline_source, survives_a_template_that_includes_itself)
{
    expect_unit("#include \"block/circle.cuh\"\n", "#line 1 \"kernel\"\n"
                                                   "#line 1 \"block/circle.cuh\"\n"
                                                   "#line 2 \"block/circle.cuh\"\n"
                                                   "int circle;\n"
                                                   "#line 2 \"kernel\"\n");
}

Test(inline_source, names_a_missing_template_and_who_asks_for_it)
{
    struct log_catcher catcher = {0};
    const struct ftj_log log = {.write = catch_sentence, .data = &catcher};
    struct ftj_text unit = {0};
    cr_expect_eq(ftj_inline_source(templates, NUM_TEMPLATES, "kernel",
                                   "#include \"block/broken.cuh\"\n", &log, &unit),
                 FTJ_E_NOT_FOUND);
    cr_expect_str_eq(
        catcher.last,
        "block/broken.cuh, line 3, includes \"block/absent.cuh\", which is no template");
    ftj_text_finish(&unit);
}
