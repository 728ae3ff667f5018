/* SPDX-License-Identifier: MIT */
#include "codegen/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

#define DEFAULT_TIMEOUT_S 60u
#define MAX_TIMEOUT_S     86400u

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

ftj_status ftj_compile_timeout(uint32_t *seconds, const struct ftj_log *log)
{
    const char *text = ftj_variable("FTJIT_COMPILE_TIMEOUT");
    *seconds = DEFAULT_TIMEOUT_S;
    if (!text)
        return FTJ_OK;
    char *end = NULL;
    const unsigned long number = strtoul(text, &end, 10);
    if (*end || *text == '-' || number < 1 || number > MAX_TIMEOUT_S)
        return ftj_fail(log, FTJ_E_INVALID,
                        "FTJIT_COMPILE_TIMEOUT is \"%s\"; allowed: 1 to %u seconds", text,
                        MAX_TIMEOUT_S);
    *seconds = (uint32_t)number;
    return FTJ_OK;
}

void ftj_compiler_finish(struct ftj_compiler *compiler)
{
    if (compiler->finish)
        compiler->finish(compiler);
    *compiler = (struct ftj_compiler){0};
}
