/* SPDX-License-Identifier: MIT */
/* Timing rested and sustained. */
#include "bench/bench_states.h"

#include <time.h>

#define REST_NS     60000000
#define NUM_SAMPLES 7
/* Sustained: ten stretches follow each other; the first two are left out, the card is falling. */
#define STRETCH_US  50000.0
#define NUM_FALLING 2
#define NUM_STEADY  8
#define MAX_STRETCH 100000

const char *bench_state_name(enum bench_state state)
{
    return state == BENCH_SUSTAINED ? "sustained" : "rested";
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

/* One sample: the time of a call over some replays, and the clock. */
static ftj_status sample(struct bench_replay *replay, uint32_t times, double *us, double *mhz)
{
    unsigned clock = 0;
    double total_us = 0;
    const ftj_status status = bench_replay_run(replay, times, &total_us, &clock);
    *us = total_us / ((double)times * replay->num_calls);
    *mhz = clock;
    return status;
}

static ftj_status time_rested(struct bench_replay *replay, bool rest_each,
                              struct bench_timing *timing)
{
    double us[NUM_SAMPLES] = {0};
    double mhz[NUM_SAMPLES] = {0};
    double unused_us;
    double unused_mhz;
    const bool on_gpu = replay->exec;
    ftj_status status = sample(replay, 1, &unused_us, &unused_mhz);
    for (int i = 0; i < NUM_SAMPLES && !status; i++) {
        if (on_gpu && (i == 0 || rest_each))
            rest();
        status = sample(replay, 1, &us[i], &mhz[i]);
    }
    timing->us = bench_stats_of(us, NUM_SAMPLES);
    timing->mhz = (unsigned)bench_stats_of(mhz, NUM_SAMPLES).median;
    return status;
}

static ftj_status time_sustained(struct bench_replay *replay, struct bench_timing *timing)
{
    double us[NUM_STEADY] = {0};
    double mhz[NUM_STEADY] = {0};
    double first_us = 0;
    ftj_status status = bench_replay_run(replay, 1, &first_us, NULL);
    const double fitting = replay->exec && first_us > 0 ? STRETCH_US / first_us + 1 : 1;
    const uint32_t times = fitting < MAX_STRETCH ? (uint32_t)fitting : MAX_STRETCH;
    for (int i = -NUM_FALLING; i < NUM_STEADY && !status; i++) {
        double stretch_us;
        double stretch_mhz;
        status = sample(replay, times, &stretch_us, &stretch_mhz);
        if (i >= 0) {
            us[i] = stretch_us;
            mhz[i] = stretch_mhz;
        }
    }
    timing->us = bench_stats_of(us, NUM_STEADY);
    timing->mhz = (unsigned)bench_stats_of(mhz, NUM_STEADY).median;
    return status;
}

ftj_status bench_states_time(struct bench_timer *timer, const struct bench_task *task,
                             struct bench_timing timings[BENCH_NUM_STATES])
{
    struct bench_replay replay;
    ftj_status status = bench_replay_init(&replay, timer, task->call, task->data, task->num_calls);
    if (!status && task->states & 1u << BENCH_RESTED)
        status = time_rested(&replay, task->rest_each, &timings[BENCH_RESTED]);
    if (!status && task->states & 1u << BENCH_SUSTAINED)
        status = time_sustained(&replay, &timings[BENCH_SUSTAINED]);
    bench_replay_finish(&replay);
    return status;
}
