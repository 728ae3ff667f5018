/* SPDX-License-Identifier: MIT */
#include "codegen/compile.h"

#include <stdio.h>
#include <string.h>

void ftj_binary_finish(struct ftj_binary *binary)
{
    ftj_bytes_finish(&binary->code);
    ftj_bytes_finish(&binary->log);
    *binary = (struct ftj_binary){0};
}

void ftj_binary_complaint(const struct ftj_binary *binary, char *text, size_t size)
{
    const char *log = binary->log.data ? (const char *)binary->log.data : "";
    const char *start = strstr(log, "error");
    while (start && start > log && start[-1] != '\n')
        start--;
    if (!start)
        start = log;
    snprintf(text, size, "%.*s", (int)strcspn(start, "\n"), start);
}

void ftj_compiler_finish(struct ftj_compiler *compiler)
{
    if (compiler->finish)
        compiler->finish(compiler);
    *compiler = (struct ftj_compiler){0};
}
