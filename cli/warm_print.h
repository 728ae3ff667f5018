/* SPDX-License-Identifier: MIT */
/* What `ftjit warm` says on standard output. */
#ifndef FTJ_CLI_WARM_PRINT_H
#define FTJ_CLI_WARM_PRINT_H

#include "cli/warm_run.h"

/* A bundle that was asked for; `count` is 0 until it is written. */
struct warm_bundle {
    const char *path;
    char digest[65];
    size_t count;
};

/* All of them return an exit code. */
int warm_print_models(void);
int warm_print_kernels(const struct warm_list *list);
int warm_print_result(const struct warm_list *list, const struct warm_result *result,
                      const struct warm_bundle *bundle, bool is_json);

#endif
