/* SPDX-License-Identifier: MIT */
/* The kernel of clusters of ring_kernel.h, compiled for every target that has clusters: what the
 * compile matrix cannot see as long as no kernel of the library uses all of it. Exits 77 when there
 * is no NVRTC. */
#include <stdio.h>
#include <stdlib.h>

#include "codegen/compile.h"
#include "tests/compile/ring_kernel.h"

static bool compile_for(struct ftj_compiler *compiler, const char *target)
{
    struct ftj_source source = {.template_id = "ring", .allow_fma = true};
    struct ftj_binary binary = {0};
    snprintf(source.target, sizeof(source.target), "%s", target);
    ftj_text_printf(&source.text, "%s", RING_UNIT);
    const ftj_status status = compiler->compile(compiler, &source, &binary);
    const bool is_good = !status && !binary.spill_bytes;
    char complaint[1024] = "";
    if (status == FTJ_E_COMPILE)
        ftj_binary_complaint(&binary, complaint, sizeof(complaint));
    else if (status)
        snprintf(complaint, sizeof(complaint), "%s", ftj_last_error());
    printf("%s - ring for %s: %u registers, %u bytes spilled\n", is_good ? "ok" : "not ok", target,
           binary.registers, binary.spill_bytes);
    if (status)
        printf("# %s\n", complaint);
    ftj_binary_finish(&binary);
    ftj_text_finish(&source.text);
    return is_good;
}

int main(void)
{
    static const char *const targets[] = {"sm_90", "sm_90a", "sm_100a", "sm_120a"};
    struct ftj_compiler compiler = {0};
    int code = EXIT_SUCCESS;
    if (ftj_nvrtc_find(&compiler, NULL, NULL))
        return EXIT_FAILURE;
    if (!compiler.path[0]) {
        printf("1..0 # SKIP no NVRTC on this machine\n");
        code = 77;
    }
    for (size_t i = 0; compiler.path[0] && i < sizeof(targets) / sizeof(*targets); i++) {
        if (!compile_for(&compiler, targets[i]))
            code = EXIT_FAILURE;
    }
    ftj_compiler_finish(&compiler);
    return code;
}
