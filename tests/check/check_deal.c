/* SPDX-License-Identifier: MIT */
#include "tests/check/check_deal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* Nobody's data: new, or what this process or another made of it. */
static bool is_for_dealing(int file)
{
    struct stat about;
    return fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
           (about.st_size == 0 || about.st_size == sizeof(uint64_t));
}

/* The file holds the number of the next row. */
static ftj_status map_next(struct check_deal *deal, const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    ftj_status status = FTJ_OK;
    if (file >= 0 && !is_for_dealing(file))
        status = ftj_fail(NULL, FTJ_E_INVALID,
                          "--deal %s holds something else; it must be a new file, or one that "
                          "others deal by",
                          path);
    else if (file >= 0 && ftruncate(file, sizeof(*deal->next)) == 0)
        memory = mmap(NULL, sizeof(*deal->next), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!status && memory == MAP_FAILED)
        status = ftj_fail(NULL, FTJ_E_IO, "--deal %s: it cannot be made or written: %s", path,
                          strerror(errno));
    if (file >= 0)
        close(file);
    if (!status)
        deal->next = memory;
    return status;
}

ftj_status check_deal_init(struct check_deal *deal, const struct check_options *options)
{
    *deal = (struct check_deal){
        .shard_index = options->shard_index,
        .shard_count = options->shard_count ? options->shard_count : 1,
    };
    if (!options->deal || options->list)
        return FTJ_OK;
    return map_next(deal, options->deal);
}

bool check_deal_next(struct check_deal *deal)
{
    const uint64_t row = deal->num_seen++;
    if (!deal->next)
        return row % deal->shard_count == deal->shard_index;
    if (!deal->has_mine)
        deal->mine = atomic_fetch_add(deal->next, 1);
    deal->has_mine = row != deal->mine;
    return !deal->has_mine;
}

void check_deal_finish(struct check_deal *deal)
{
    if (deal->next)
        munmap((void *)deal->next, sizeof(*deal->next));
    *deal = (struct check_deal){0};
}
