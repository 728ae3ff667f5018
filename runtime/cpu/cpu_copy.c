/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_copy.h"

#include <stdlib.h>
#include <string.h>

struct ftj_cpu_copy {
    void *to;
    const void *from; /* NULL: `value` */
    uint32_t value;
    uint32_t bytes;
    uint32_t group; /* or barrier */
};

static bool issue(struct ftj_cpu_copies *copies, void *to, const void *from, uint32_t bytes,
                  uint32_t group)
{
    if (copies->num_issued == copies->capacity) {
        const size_t capacity = copies->capacity ? 2 * copies->capacity : 16;
        struct ftj_cpu_copy *list = realloc(copies->list, capacity * sizeof(*list));
        if (!list)
            return false;
        copies->list = list;
        copies->capacity = capacity;
    }
    memset(to, 0xff, bytes);
    copies->list[copies->num_issued++] =
        (struct ftj_cpu_copy){.to = to, .from = from, .bytes = bytes, .group = group};
    return true;
}

bool ftj_cpu_copy_issue(struct ftj_cpu_copies *copies, void *to, const void *from, uint32_t bytes)
{
    return issue(copies, to, from, bytes, copies->num_groups);
}

bool ftj_cpu_bulk_copy_issue(struct ftj_cpu_copies *copies, void *to, const void *from,
                             uint32_t bytes, uint32_t barrier)
{
    return issue(copies, to, from, bytes, barrier);
}

bool ftj_cpu_value_copy_issue(struct ftj_cpu_copies *copies, void *to, uint32_t value,
                              uint32_t barrier)
{
    if (!issue(copies, to, NULL, sizeof(value), barrier))
        return false;
    copies->list[copies->num_issued - 1].value = value;
    return true;
}

size_t ftj_cpu_bulk_copies_from(const struct ftj_cpu_copies *copies, const void *memory,
                                size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < copies->num_issued; i++) {
        const struct ftj_cpu_copy *copy = &copies->list[i];
        const uintptr_t from = (uintptr_t)copy->from;
        const uintptr_t begin = (uintptr_t)memory;
        count += copy->from && from < begin + bytes && begin < from + copy->bytes;
    }
    return count;
}

uint32_t ftj_cpu_bulk_copy_make(struct ftj_cpu_copies *copies, uint32_t barrier)
{
    uint32_t bytes = 0;
    size_t num_left = 0;
    for (size_t i = 0; i < copies->num_issued; i++) {
        const struct ftj_cpu_copy copy = copies->list[i];
        if (copy.group != barrier) {
            copies->list[num_left++] = copy;
            continue;
        }
        memcpy(copy.to, copy.from ? copy.from : &copy.value, copy.bytes);
        bytes += copy.bytes;
    }
    copies->num_issued = num_left;
    return bytes;
}

void ftj_cpu_copy_commit(struct ftj_cpu_copies *copies)
{
    copies->num_groups++;
}

void ftj_cpu_copy_wait(struct ftj_cpu_copies *copies, uint32_t pending)
{
    const uint32_t num_open = copies->num_groups - copies->num_done;
    if (num_open <= pending)
        return;
    copies->num_done = copies->num_groups - pending;

    size_t num_made = 0;
    while (num_made < copies->num_issued && copies->list[num_made].group < copies->num_done) {
        const struct ftj_cpu_copy *copy = &copies->list[num_made++];
        memcpy(copy->to, copy->from, copy->bytes);
    }
    if (num_made == 0)
        return;
    copies->num_issued -= num_made;
    memmove(copies->list, copies->list + num_made, copies->num_issued * sizeof(*copies->list));
}

void ftj_cpu_copies_clear(struct ftj_cpu_copies *copies)
{
    copies->num_issued = 0;
    copies->num_groups = 0;
    copies->num_done = 0;
}

void ftj_cpu_copies_finish(struct ftj_cpu_copies *copies)
{
    free(copies->list);
    *copies = (struct ftj_cpu_copies){0};
}
