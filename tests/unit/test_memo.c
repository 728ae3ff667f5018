/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "cache/memo.h"

static struct ftj_key key_of(const char *source)
{
    const struct ftj_key_input input = {
        .template_id = "t",
        .source = source,
        .source_bytes = strlen(source),
        .templates = "00",
        .target = "cpu",
        .output = "so",
        .compiler = "c",
    };
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key, &input), FTJ_OK);
    return key;
}

struct builder {
    int num_builds;
    ftj_status status; /* of the next build */
    int values[8];
};

static ftj_status build(void *data, void **value)
{
    struct builder *builder = data;
    if (builder->status)
        return ftj_fail(NULL, builder->status, "build %d failed", builder->num_builds);
    *value = &builder->values[builder->num_builds++];
    return FTJ_OK;
}

static void count_free(void *value, void *data)
{
    (*(int *)value)++;
    (*(int *)data)++;
}

Test(memo, builds_once_and_frees_once)
{
    int num_freed = 0;
    struct builder builder = {0};
    struct ftj_memo *memo = NULL;
    cr_assert_eq(ftj_memo_create(count_free, &num_freed, &memo), FTJ_OK);
    struct ftj_key one = key_of("one");
    struct ftj_key two = key_of("two");
    void *first = NULL, *again = NULL, *second = NULL;
    cr_expect_eq(ftj_memo_get(memo, &one, build, &builder, &first), FTJ_OK);
    cr_expect_eq(ftj_memo_get(memo, &two, build, &builder, &second), FTJ_OK);
    cr_expect_eq(ftj_memo_get(memo, &one, build, &builder, &again), FTJ_OK);
    cr_expect_eq(builder.num_builds, 2);
    cr_expect_eq(first, again);
    cr_expect_neq(first, second);
    ftj_key_finish(&one);
    ftj_key_finish(&two);
    ftj_memo_destroy(memo);
    cr_expect_eq(num_freed, 2);
    cr_expect_eq(builder.values[0], 1);
    cr_expect_eq(builder.values[1], 1);
}

Test(memo, one_hash_with_two_manifests_is_two_kernels)
{
    int num_freed = 0;
    struct builder builder = {0};
    struct ftj_memo *memo = NULL;
    cr_assert_eq(ftj_memo_create(count_free, &num_freed, &memo), FTJ_OK);
    struct ftj_key one = key_of("one");
    struct ftj_key two = key_of("two");
    memcpy(two.hex, one.hex, sizeof(two.hex)); /* as a collision would have it */
    void *first = NULL, *second = NULL;
    cr_expect_eq(ftj_memo_get(memo, &one, build, &builder, &first), FTJ_OK);
    cr_expect_eq(ftj_memo_get(memo, &two, build, &builder, &second), FTJ_OK);
    cr_expect_neq(first, second);
    ftj_key_finish(&one);
    ftj_key_finish(&two);
    ftj_memo_destroy(memo);
}

Test(memo, a_manifest_that_begins_another_is_another)
{
    int num_freed = 0;
    struct builder builder = {0};
    struct ftj_memo *memo = NULL;
    cr_assert_eq(ftj_memo_create(count_free, &num_freed, &memo), FTJ_OK);
    const struct ftj_key whole = {.hex = "00", .manifest = {(uint8_t *)"abc", 3}};
    const struct ftj_key part = {.hex = "00", .manifest = {(uint8_t *)"ab", 2}};
    void *first = NULL, *second = NULL;
    cr_expect_eq(ftj_memo_get(memo, &whole, build, &builder, &first), FTJ_OK);
    cr_expect_eq(ftj_memo_get(memo, &part, build, &builder, &second), FTJ_OK);
    cr_expect_neq(first, second);
    ftj_memo_destroy(memo);
    cr_expect_eq(num_freed, 2);
}

Test(memo, a_failure_is_answered_and_not_remembered)
{
    int num_freed = 0;
    struct builder builder = {.status = FTJ_E_COMPILE};
    struct ftj_memo *memo = NULL;
    cr_assert_eq(ftj_memo_create(count_free, &num_freed, &memo), FTJ_OK);
    struct ftj_key key = key_of("one");
    void *value = &builder;
    cr_expect_eq(ftj_memo_get(memo, &key, build, &builder, &value), FTJ_E_COMPILE);
    cr_expect_eq(value, &builder, "untouched on failure");
    cr_expect_str_eq(ftj_last_error(), "build 0 failed");
    builder.status = FTJ_OK;
    cr_expect_eq(ftj_memo_get(memo, &key, build, &builder, &value), FTJ_OK);
    cr_expect_eq(value, &builder.values[0]);
    ftj_key_finish(&key);
    ftj_memo_destroy(memo);
    cr_expect_eq(num_freed, 1);
}

Test(memo, nothing_can_be_destroyed)
{
    ftj_memo_destroy(NULL);
}

/* A build that may take another kernel meanwhile: the table is not locked while it runs. */
struct nested {
    struct ftj_memo *memo;
    struct ftj_key inner;
    struct builder builder;
};

static ftj_status build_two(void *data, void **value)
{
    struct nested *nested = data;
    return ftj_memo_get(nested->memo, &nested->inner, build, &nested->builder, value);
}

Test(memo, a_build_may_ask_for_another_kernel)
{
    int num_freed = 0;
    struct nested nested = {.inner = key_of("inner")};
    struct ftj_key outer = key_of("outer");
    cr_assert_eq(ftj_memo_create(count_free, &num_freed, &nested.memo), FTJ_OK);
    void *value = NULL;
    cr_expect_eq(ftj_memo_get(nested.memo, &outer, build_two, &nested, &value), FTJ_OK);
    cr_expect_eq(value, &nested.builder.values[0]);
    ftj_key_finish(&outer);
    ftj_key_finish(&nested.inner);
    ftj_memo_destroy(nested.memo);
}
