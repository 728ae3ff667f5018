/* SPDX-License-Identifier: MIT */
/* What the subcommands of `ftjit` share: exit codes, the device, sentences. */
#ifndef FTJ_CLI_H
#define FTJ_CLI_H

#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/log.h"
#include "ftjit/ftjit.h"

/* Documented in `ftjit --help`. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,    /* a check, a kernel or a file */
    CLI_USAGE = 2,     /* an option, a value or a shape that cannot be */
    CLI_NO_DEVICE = 3, /* no driver, or no such device */
};

/* A subcommand: argv[0] is its own name. */
int cli_info(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_source(int argc, char **argv);
int cli_warm(int argc, char **argv);
int cli_cache(int argc, char **argv);

/* Options that every subcommand with a device has. */
struct cli_device {
    ftj_settings settings;
    bool is_json;
    bool is_verbose;
};
// clang-format off
#define CLI_DEVICE_OPTIONS                                                                         \
    {"device", required_argument, NULL, 'd'},                                                      \
    {"cache-dir", required_argument, NULL, 'C'},                                                   \
    {"json", no_argument, NULL, 'j'},                                                              \
    {"verbose", no_argument, NULL, 'v'},                                                           \
    {"help", no_argument, NULL, 'h'}
// clang-format on
#define CLI_DEVICE_HELP                                                                            \
    "  --device D       cpu, cuda (the first GPU, and the default) or the number of a GPU\n"       \
    "  --cache-dir DIR  where compiled kernels are kept (default: FTJIT_CACHE_DIR, then\n"         \
    "                   $XDG_CACHE_HOME/ftjit, then ~/.cache/ftjit)\n"                             \
    "  --json           for programs: one JSON document on standard output\n"                      \
    "  --verbose        say what is compiled, and why\n"                                           \
    "  --help           this text\n"

/* Take an option of CLI_DEVICE_OPTIONS other than help. False: it was bad, and has been said. */
bool cli_device_option(struct cli_device *device, const char *command, int option,
                       const char *value);
/* Open the device; a failure has been said, and `code` is what to exit with. */
ftj_context *cli_device_open(const struct cli_device *device, const char *command, int *code);

/* Say what is wrong with the way the command was called; CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) FTJ_PRINTF(2, 3);
/* Say a failed call's sentence; the exit code that fits the status. */
int cli_failure(const char *command, ftj_status status);
/* After getopt_long() answered '?' or ':'. */
int cli_bad_option(const char *command, char **argv, int option);

/* A number from low to high. False: it is none, and has been said. */
bool cli_number(const char *command, const char *option, const char *text, uint64_t low,
                uint64_t high, uint64_t *number);
/* "I/N", one part of up to 65536. False: it is no such, and that has been said. */
bool cli_shard(const char *command, const char *text, uint32_t *index, uint32_t *count);
/* The index of `text` in `names` (NULL ends it). -1: it is none of them, and that has been said. */
int cli_name(const char *command, const char *option, const char *text, const char *const *names);

/* Print and delete a document; CLI_OK, or CLI_FAILED with a sentence. */
int cli_print_json(const char *command, cJSON *json, FILE *out);

#endif
