/* SPDX-License-Identifier: MIT */
/* A progress bar for long work, on standard error and only where that is a terminal. */
#ifndef FTJ_CLI_PROGRESS_H
#define FTJ_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
    uint64_t total;
    uint64_t done;
    uint64_t start_ns;
    uint64_t shown_ns;
    bool is_shown;
};

/* True where a bar would be seen. */
bool cli_progress_is_useful(void);
/* `total` 0: no bar. */
void cli_progress_init(struct cli_progress *progress, uint64_t total);
/* One more is done; `what` names it. Redraws a few times a second. */
void cli_progress_step(struct cli_progress *progress, const char *what);
/* Make room for a line of text; the next step draws the bar again. */
void cli_progress_clear(struct cli_progress *progress);
/* Since init. */
double cli_progress_seconds(const struct cli_progress *progress);

#endif
