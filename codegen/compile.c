/* SPDX-License-Identifier: MIT */
#include "codegen/compile.h"

void ftj_binary_finish(struct ftj_binary *binary)
{
    ftj_bytes_finish(&binary->code);
    ftj_bytes_finish(&binary->log);
    *binary = (struct ftj_binary){0};
}

void ftj_compiler_finish(struct ftj_compiler *compiler)
{
    if (compiler->finish)
        compiler->finish(compiler);
    *compiler = (struct ftj_compiler){0};
}
