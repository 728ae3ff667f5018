/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/kv_layout.h"

static ftj_kv_layout layout_of(ftj_kv_shape shape)
{
    ftj_kv_layout layout;
    cr_assert_eq(ftj_kv_layout_init(&layout, &shape), FTJ_OK, "%s", ftj_last_error());
    return layout;
}

static ftj_kv_shape shape_of(ftj_kv_format k, ftj_kv_format v, ftj_kv_order order, uint32_t heads,
                             uint32_t head_dim, uint32_t page_size)
{
    return (ftj_kv_shape){k, v, order, heads, head_dim, page_size};
}

Test(kv_layout, O27_rows_have_the_bytes_of_the_table)
{
    struct row {
        uint32_t head_dim, bytes[3];
    };
    static const struct row rows[] = {{64, {128, 68, 40}},
                                      {128, {256, 132, 76}},
                                      {256, {512, 260, 148}},
                                      {512, {1024, 516, 292}}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int format = FTJ_KV_16BIT; format <= FTJ_KV_NVFP4; format++) {
            const ftj_kv_layout layout = layout_of(
                shape_of((ftj_kv_format)format, FTJ_KV_FP8, FTJ_KV_PACKED, 1, rows[i].head_dim, 1));
            cr_expect_eq(layout.k.row_bytes, rows[i].bytes[format], "head_dim %u, format %d",
                         rows[i].head_dim, format);
            cr_expect_eq(layout.v.row_bytes, rows[i].bytes[FTJ_KV_FP8]);
        }
    }
}

Test(kv_layout, a_token_has_the_bytes_of_the_planner)
{
    /* Per layer: H 2, D 128, nvfp4: 608 over two layers; H 4, D 64 over three: 3072, 1536 + 96. */
    cr_expect_eq(
        2 * layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_KV_NHD, 2, 128, 64)).token_bytes,
        608);
    cr_expect_eq(
        3 * layout_of(shape_of(FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_HND, 4, 64, 16)).token_bytes,
        3072);
    cr_expect_eq(
        3 * layout_of(shape_of(FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_PACKED, 4, 64, 16)).token_bytes,
        1536 + 96);
    /* Hybrid pool: full H 2, D 64; window H 2, D 128. The benchmark: H 4, D 128. */
    cr_expect_eq(layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_KV_NHD, 2, 64, 1)).token_bytes,
                 160);
    cr_expect_eq(layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_KV_NHD, 2, 128, 1)).token_bytes,
                 304);
    cr_expect_eq(layout_of(shape_of(FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_NHD, 4, 128, 1)).token_bytes,
                 1056);
    cr_expect_eq(layout_of(shape_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_NHD, 8, 128, 64)).token_bytes,
                 8 * (132 + 76));
}

static void expect_array(const char *what, const ftj_kv_array *array, uint32_t row, uint64_t offset,
                         uint64_t page, uint64_t head, uint64_t slot)
{
    cr_expect_eq(array->row_bytes, row, "%s row", what);
    cr_expect_eq(array->offset_bytes, offset, "%s offset %lu", what, array->offset_bytes);
    cr_expect_eq(array->page_stride_bytes, page, "%s page %lu", what, array->page_stride_bytes);
    cr_expect_eq(array->head_stride_bytes, head, "%s head %lu", what, array->head_stride_bytes);
    cr_expect_eq(array->slot_stride_bytes, slot, "%s slot %lu", what, array->slot_stride_bytes);
}

Test(kv_layout, packed_is_one_record_per_page_and_head)
{
    const ftj_kv_layout l =
        layout_of(shape_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_PACKED, 8, 128, 64));
    const uint64_t record = 64 * (132 + 76);
    cr_expect_eq(l.page_bytes, 8 * record);
    expect_array("k codes", &l.k.codes, 128, 0, 8 * record, record, 128);
    expect_array("k row scales", &l.k.row_scales, 4, 8192, 8 * record, record, 4);
    expect_array("k block scales", &l.k.block_scales, 0, 0, 0, 0, 0);
    expect_array("v codes", &l.v.codes, 64, 8448, 8 * record, record, 64);
    expect_array("v row scales", &l.v.row_scales, 4, 12544, 8 * record, record, 4);
    expect_array("v block scales", &l.v.block_scales, 8, 12800, 8 * record, record, 8);
}

Test(kv_layout, packed_pads_the_parts_of_a_small_page)
{
    /* One token of nvfp4, head_dim 96: codes 48, row scale 4, block scales 6 (aligned to 2). */
    const ftj_kv_layout l =
        layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_KV_PACKED, 3, 96, 1));
    expect_array("k block scales", &l.k.block_scales, 6, 52, 3 * 128, 128, 6);
    expect_array("v codes", &l.v.codes, 48, 64, 3 * 128, 128, 48);
    expect_array("v block scales", &l.v.block_scales, 6, 116, 3 * 128, 128, 6);
    cr_expect_eq(l.token_bytes, 3 * 2 * 58);
    cr_expect_eq(l.page_bytes, 3 * 128);
}

Test(kv_layout, hnd_and_nhd_keep_every_array_apart)
{
    const ftj_kv_layout hnd =
        layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_16BIT, FTJ_KV_HND, 2, 96, 784));
    expect_array("hnd codes", &hnd.k.codes, 48, 0, 2 * 784 * 48, 784 * 48, 48);
    expect_array("hnd scales", &hnd.k.row_scales, 4, 0, 2 * 784 * 4, 784 * 4, 4);
    expect_array("hnd blocks", &hnd.k.block_scales, 6, 0, 2 * 784 * 6, 784 * 6, 6);
    expect_array("hnd v", &hnd.v.codes, 192, 0, 2 * 784 * 192, 784 * 192, 192);
    expect_array("hnd no scales", &hnd.v.row_scales, 0, 0, 0, 0, 0);
    cr_expect_eq(hnd.page_bytes, 784 * 2 * (58 + 192));

    const ftj_kv_layout nhd =
        layout_of(shape_of(FTJ_KV_NVFP4, FTJ_KV_16BIT, FTJ_KV_NHD, 2, 96, 784));
    expect_array("nhd codes", &nhd.k.codes, 48, 0, 2 * 784 * 48, 48, 2 * 48);
    expect_array("nhd scales", &nhd.k.row_scales, 4, 0, 2 * 784 * 4, 4, 2 * 4);
    expect_array("nhd blocks", &nhd.k.block_scales, 6, 0, 2 * 784 * 6, 6, 2 * 6);
    cr_expect_eq(nhd.page_bytes, hnd.page_bytes);
}

/* Every row of a page in its place, none over another: mark all bytes and count. */
static void expect_no_overlap(const ftj_kv_layout *l)
{
    const uint64_t num_pages = 2;
    uint8_t *marks = calloc(num_pages, l->page_bytes);
    const ftj_kv_array *arrays[] = {&l->k.codes, &l->k.row_scales, &l->k.block_scales,
                                    &l->v.codes, &l->v.row_scales, &l->v.block_scales};
    uint64_t marked = 0;
    for (size_t a = 0; a < 6; a++) {
        const uint64_t num_rows = num_pages * l->shape.num_kv_heads * l->shape.page_size;
        for (uint64_t row = 0; row < num_rows && arrays[a]->row_bytes > 0; row++) {
            const uint64_t slot = row % l->shape.page_size;
            const uint64_t head = row / l->shape.page_size % l->shape.num_kv_heads;
            const uint64_t page = row / l->shape.page_size / l->shape.num_kv_heads;
            const uint64_t at = arrays[a]->offset_bytes + page * arrays[a]->page_stride_bytes +
                                head * arrays[a]->head_stride_bytes +
                                slot * arrays[a]->slot_stride_bytes;
            cr_assert_leq(at + arrays[a]->row_bytes, num_pages * l->page_bytes);
            cr_assert_eq(marks[at], 0, "array %zu row %lu", a, row);
            memset(marks + at, 1, arrays[a]->row_bytes);
            marked += arrays[a]->row_bytes;
        }
    }
    uint64_t counted = 0;
    for (uint64_t i = 0; i < num_pages * l->page_bytes; i++)
        counted += marks[i];
    cr_expect_eq(counted, marked);
    cr_expect_eq(marked, num_pages * l->shape.page_size * l->token_bytes);
    free(marks);
}

Test(kv_layout, packed_rows_never_overlap)
{
    static const uint32_t page_sizes[] = {1, 3, 16, 17};
    static const uint32_t head_dims[] = {32, 80, 96, 128};
    for (int pair = 0; pair < 9; pair++) {
        for (size_t p = 0; p < 4; p++) {
            for (size_t d = 0; d < 4; d++) {
                const ftj_kv_layout l =
                    layout_of(shape_of((ftj_kv_format)(pair / 3), (ftj_kv_format)(pair % 3),
                                       FTJ_KV_PACKED, 3, head_dims[d], page_sizes[p]));
                expect_no_overlap(&l);
            }
        }
    }
}

static void expect_aligned(const ftj_kv_array *array, uint64_t alignment)
{
    cr_expect_eq(array->offset_bytes % alignment, 0);
    cr_expect_eq(array->head_stride_bytes % alignment, 0);
    cr_expect_eq(array->page_stride_bytes % alignment, 0);
    cr_expect_eq(array->slot_stride_bytes % alignment, 0);
}

static uint64_t gcd16(uint64_t bytes)
{
    uint64_t alignment = 16;
    while (bytes % alignment != 0)
        alignment /= 2;
    return alignment;
}

Test(kv_layout, packed_parts_are_aligned_and_waste_nothing_from_16_tokens_on)
{
    for (uint32_t head_dim = 32; head_dim <= 512; head_dim += 16) {
        for (uint32_t page_size = 1; page_size <= 96; page_size++) {
            for (int pair = 0; pair < 9; pair++) {
                const ftj_kv_layout l =
                    layout_of(shape_of((ftj_kv_format)(pair / 3), (ftj_kv_format)(pair % 3),
                                       FTJ_KV_PACKED, 2, head_dim, page_size));
                expect_aligned(&l.k.codes, gcd16(l.k.codes.row_bytes));
                expect_aligned(&l.v.codes, gcd16(l.v.codes.row_bytes));
                expect_aligned(&l.k.row_scales, 4);
                expect_aligned(&l.v.row_scales, 4);
                expect_aligned(&l.k.block_scales, gcd16(l.k.block_scales.row_bytes));
                expect_aligned(&l.v.block_scales, gcd16(l.v.block_scales.row_bytes));
                cr_expect_eq(l.v.codes.offset_bytes % 16, 0);
                cr_expect_eq(l.k.codes.head_stride_bytes % 16, 0);

                const uint64_t padding = l.page_bytes - page_size * l.token_bytes;
                if (page_size % 16 == 0)
                    cr_expect_eq(padding, 0, "head_dim %u page_size %u", head_dim, page_size);
                else
                    cr_expect_lt(padding, 2 * 32, "head_dim %u page_size %u", head_dim, page_size);
            }
        }
    }
}

struct refusal {
    ftj_kv_shape shape;
    const char *field, *value;
};

Test(kv_layout, O27_what_cannot_be_is_refused_by_name)
{
    static const struct refusal refusals[] = {
        {{FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_KV_PACKED, 8, 72, 16}, "head_dim", "72"},
        {{FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_PACKED, 8, 0, 16}, "head_dim", "0"},
        {{FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_HND, 8, 16, 16}, "head_dim", "16"},
        {{FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_HND, 8, 528, 16}, "head_dim", "528"},
        {{FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_HND, 0, 128, 16}, "num_kv_heads", "0"},
        {{FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_HND, 8, 128, 0}, "page_size", "0"},
        {{(ftj_kv_format)3, FTJ_KV_FP8, FTJ_KV_HND, 8, 128, 16}, "k_format", "3"},
        {{FTJ_KV_FP8, (ftj_kv_format)-1, FTJ_KV_HND, 8, 128, 16}, "v_format", "-1"},
        {{FTJ_KV_FP8, FTJ_KV_FP8, (ftj_kv_order)3, 8, 128, 16}, "order", "3"},
        {{FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_HND, UINT32_MAX, 512, UINT32_MAX},
         "page_size",
         "4294967295"},
        {{FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_PACKED, 1u << 24, 512, 1u << 31},
         "page_size",
         "2147483648"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        ftj_kv_layout layout, untouched;
        memset(&layout, 0xa5, sizeof(layout));
        memset(&untouched, 0xa5, sizeof(untouched));
        cr_expect_eq(ftj_kv_layout_init(&layout, &refusals[i].shape), FTJ_E_INVALID, "row %zu", i);
        cr_expect_eq(memcmp(&layout, &untouched, sizeof(layout)), 0, "row %zu", i);
        const char *field = strstr(ftj_last_error(), refusals[i].field);
        cr_expect_not_null(field, "row %zu: %s", i, ftj_last_error());
        cr_expect_not_null(strstr(ftj_last_error(), refusals[i].value), "%s", ftj_last_error());
    }
}

Test(kv_layout, head_dim_is_refused_with_the_16_it_must_be_a_multiple_of)
{
    const ftj_kv_shape shape = {.num_kv_heads = 8, .head_dim = 72, .page_size = 16};
    ftj_kv_layout layout;
    cr_expect_eq(ftj_kv_layout_init(&layout, &shape), FTJ_E_INVALID);
    cr_expect_str_eq(ftj_last_error(),
                     "head_dim is 72; it must be a multiple of 16 from 32 to 512");
}

Test(kv_layout, the_largest_that_64_bits_can_count_is_exact)
{
    const ftj_kv_layout l =
        layout_of(shape_of(FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_PACKED, 1u << 21, 512, UINT32_MAX));
    cr_expect_eq(l.page_bytes, (uint64_t)UINT32_MAX * 2048 * (1u << 21));
}

Test(kv_layout, formats_and_orders_have_names)
{
    cr_expect_str_eq(ftj_kv_format_name(FTJ_KV_16BIT), "16bit");
    cr_expect_str_eq(ftj_kv_format_name(FTJ_KV_FP8), "fp8");
    cr_expect_str_eq(ftj_kv_format_name(FTJ_KV_NVFP4), "nvfp4");
    cr_expect_str_eq(ftj_kv_format_name((ftj_kv_format)9), "?");
    cr_expect_str_eq(ftj_kv_order_name(FTJ_KV_PACKED), "packed");
    cr_expect_str_eq(ftj_kv_order_name(FTJ_KV_HND), "hnd");
    cr_expect_str_eq(ftj_kv_order_name(FTJ_KV_NHD), "nhd");
    cr_expect_str_eq(ftj_kv_order_name((ftj_kv_order)9), "?");
}
