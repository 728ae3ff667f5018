/* SPDX-License-Identifier: MIT */
/* Copies that are issued, and only made when somebody waits for them, so that a kernel that reads
 * too early is wrong every time: cp.async of one thread, gathered in groups, or the bulk copies of
 * a block, each counted by an mbarrier. */
#ifndef FTJ_RUNTIME_CPU_COPY_H
#define FTJ_RUNTIME_CPU_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ftj_cpu_copy;

/* A zeroed one is empty. */
struct ftj_cpu_copies {
    struct ftj_cpu_copy *list; /* owned; oldest first */
    size_t num_issued;
    size_t capacity;
    uint32_t num_groups; /* committed so far */
    uint32_t num_done;   /* of them, made */
};

/* False: no memory. The destination reads as 0xFF until the copy is made. */
bool ftj_cpu_copy_issue(struct ftj_cpu_copies *copies, void *to, const void *from, uint32_t bytes);
void ftj_cpu_copy_commit(struct ftj_cpu_copies *copies);
/* Make the copies of all groups but the last `pending`. */
void ftj_cpu_copy_wait(struct ftj_cpu_copies *copies, uint32_t pending);

/* The same for a bulk copy. */
bool ftj_cpu_bulk_copy_issue(struct ftj_cpu_copies *copies, void *to, const void *from,
                             uint32_t bytes, uint32_t barrier);
/* The same of four bytes that are given here. */
bool ftj_cpu_value_copy_issue(struct ftj_cpu_copies *copies, void *to, uint32_t value,
                              uint32_t barrier);
/* How many are to be made out of that memory, or a part of it. */
size_t ftj_cpu_bulk_copies_from(const struct ftj_cpu_copies *copies, const void *memory,
                                size_t bytes);
/* Make those that a barrier counts; returns their bytes. */
uint32_t ftj_cpu_bulk_copy_make(struct ftj_cpu_copies *copies, uint32_t barrier);

void ftj_cpu_copies_clear(struct ftj_cpu_copies *copies); /* keeps its memory */
void ftj_cpu_copies_finish(struct ftj_cpu_copies *copies);

#endif
