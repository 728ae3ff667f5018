/* SPDX-License-Identifier: MIT */
/* Rows dealt among processes: each to exactly one. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "temp_dir.h"
#include "tests/check/check_deal.h"

enum { NUM_ROWS = 20 };

static struct check_deal deal_of(const struct check_options *options)
{
    struct check_deal deal;
    cr_assert_eq(check_deal_init(&deal, options), FTJ_OK);
    return deal;
}

Test(check_deal, shards_take_turns)
{
    struct check_deal third = deal_of(&(struct check_options){.shard_index = 2, .shard_count = 3});
    struct check_deal whole = deal_of(&(struct check_options){0});
    for (int row = 0; row < NUM_ROWS; row++) {
        cr_expect_eq(check_deal_next(&third), row % 3 == 2);
        cr_expect(check_deal_next(&whole));
    }
    check_deal_finish(&third);
    check_deal_finish(&whole);
}

/* One is four rows behind the other: what is left to it are those that the other did not take. */
Test(check_deal, of_a_file_gives_each_row_to_who_asks_first)
{
    char dir[256], path[300];
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/deal", dir);
    const struct check_options options = {.deal = path};
    struct check_deal deals[2] = {deal_of(&options), deal_of(&options)};
    int takers[NUM_ROWS] = {0};
    for (int row = 0; row < 4; row++)
        takers[row] += check_deal_next(&deals[0]);
    for (int row = 0; row < NUM_ROWS; row++) {
        takers[row] += check_deal_next(&deals[1]);
        if (row + 4 < NUM_ROWS)
            takers[row + 4] += check_deal_next(&deals[0]);
    }
    for (int row = 0; row < NUM_ROWS; row++)
        cr_expect_eq(takers[row], 1, "row %d was taken %d times", row, takers[row]);

    struct check_deal late = deal_of(&options);
    for (int row = 0; row < NUM_ROWS; row++)
        cr_expect_not(check_deal_next(&late));
    struct check_deal list = deal_of(&(struct check_options){.deal = path, .list = true});
    cr_expect(check_deal_next(&list), "a list has all rows and takes none");
    check_deal_finish(&deals[0]);
    check_deal_finish(&deals[1]);
    check_deal_finish(&late);
    check_deal_finish(&list);
    temp_dir_finish(dir);
}

Test(check_deal, leaves_a_file_alone_that_holds_something_else)
{
    char dir[256], path[300], after[32] = {0};
    struct check_deal deal;
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/notes", dir);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs("more than a number", file) >= 0 && fclose(file) == 0);
    cr_expect_eq(check_deal_init(&deal, &(struct check_options){.deal = path}), FTJ_E_INVALID);
    file = fopen(path, "r");
    cr_assert(file && fgets(after, sizeof(after), file) && fclose(file) == 0);
    cr_expect_str_eq(after, "more than a number");
    temp_dir_finish(dir);
}

Test(check_deal, needs_its_file)
{
    struct check_deal deal;
    cr_expect_eq(check_deal_init(&deal, &(struct check_options){.deal = "/nowhere/deal"}),
                 FTJ_E_IO);
}
