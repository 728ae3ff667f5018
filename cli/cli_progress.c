/* SPDX-License-Identifier: MIT */
/* [######........]  123/456  27 s left  decode on attn_decode_sm80 */
#include "cli/cli_progress.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/bench_stats.h"

#define BAR_COLUMNS 24

/* Between two drawings: a terminal over a slow line must not slow the work. */
#define REDRAW_NS 100000000u

bool cli_progress_is_useful(void)
{
    return isatty(STDERR_FILENO);
}

void cli_progress_init(struct cli_progress *progress, uint64_t total)
{
    *progress = (struct cli_progress){
        .total = total,
        .start_ns = bench_now_ns(),
        .is_shown = total && cli_progress_is_useful(),
    };
}

void cli_progress_step(struct cli_progress *progress, const char *what)
{
    static const char bar[] = "########################........................";
    const uint64_t now = bench_now_ns();
    progress->done++;
    if (!progress->is_shown || now - progress->shown_ns < REDRAW_NS)
        return;
    progress->shown_ns = now;

    const uint64_t done = progress->done < progress->total ? progress->done : progress->total;
    const int filled = (int)(done * BAR_COLUMNS / progress->total);
    const double left =
        cli_progress_seconds(progress) * (double)(progress->total - done) / (double)done;
    fprintf(stderr, "\r\033[K[%.*s]  %llu/%llu  %.0f s left  %.40s", BAR_COLUMNS,
            bar + BAR_COLUMNS - filled, (unsigned long long)done,
            (unsigned long long)progress->total, left, what);
    fflush(stderr);
}

void cli_progress_clear(struct cli_progress *progress)
{
    if (!progress->is_shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->shown_ns = 0;
}

double cli_progress_seconds(const struct cli_progress *progress)
{
    return 1e-9 * (double)(bench_now_ns() - progress->start_ns);
}
