/* SPDX-License-Identifier: MIT */
/* The command `ftjit`: finds the subcommand. Nothing here touches a driver. */
#include <string.h>

#include "cli/cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} commands[] = {
    {"info", cli_info, "the device, the driver, NVRTC, the cache, and why each kernel fits or not"},
    {"verify", cli_verify, "prove the kernels right on this device, or on your own q, k and v"},
    {"bench", cli_bench, "measure the kernels, against what the device can do"},
    {"source", cli_source, "print the generated source and the key of a kernel, for any target"},
    {"warm", cli_warm, "compile kernels ahead, for devices that need not be here"},
    {"cache", cli_cache, "list, show, check, shrink or clear the cache of compiled kernels"},
};

static const char introduction[] =
    "ftjit runs attention over a quantised, paged KV cache with kernels that are specialised and\n"
    "compiled on this machine.\n"
    "\n"
    "use: ftjit COMMAND [OPTIONS]\n"
    "\n";

static const char conclusion[] =
    "\n"
    "  ftjit COMMAND --help   what a command does, with examples\n"
    "  ftjit --version        the version\n"
    "\n"
    "Examples:\n"
    "  ftjit info                      what was found here\n"
    "  ftjit info --device cpu         the same for the CPU target, which needs no GPU\n"
    "  ftjit verify --quick            a first check of every kernel\n"
    "  ftjit bench decode --quick      one line: speed, share of the read ceiling, accuracy\n"
    "  ftjit warm --targets sm_90a --model gpt-oss-20b    compiled ahead, into the cache\n"
    "\n"
    "Exit codes: 0 all is well; 1 something failed: a check, a kernel, a file; 2 bad usage: an\n"
    "option, a value or a shape that cannot be; 3 no driver, or no such device.\n"
    "\n"
    "Environment: FTJIT_CACHE_DIR, FTJIT_CACHE_PATH, FTJIT_FEATURES, FTJIT_NVRTC, FTJIT_CXX,\n"
    "FTJIT_CUDA_DRIVER and more (docs/environment.md).\n";

static void print_help(FILE *out)
{
    fputs(introduction, out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].about);
    fputs(conclusion, out);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return CLI_OK;
    }
    if (!strcmp(name, "--version")) {
        printf("ftjit %s\n", ftj_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        if (!strcmp(name, commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    }
    if (name[0])
        fprintf(stderr, "ftjit: %s is not a command\n\n", name);
    print_help(stderr);
    return CLI_USAGE;
}
