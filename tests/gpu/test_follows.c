/* SPDX-License-Identifier: MIT */
/* A decode whose lengths and page table the kernel before it writes: on sm_90 it starts, and looks
 * at them, while that one still runs (templates/block/first_tiles.cuh). They lie in the cache of a
 * second attention, whose store writes them as rows, the last of many. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/check_attention.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_REPEATS 300
#define BATCH       4
#define ROW_INTS    32 /* a row of 64 16-bit values */
#define PAGE_SIZE   16
#define MAX_ROWS    64
#define STORED_ROWS 65536 /* more than the store has room for at once */

/* Row 0 of `words` is the lengths, the others are the table. */
struct order {
    int32_t words[MAX_ROWS * ROW_INTS];
    struct check_buffer rows;
    uint16_t *o; /* what a decode gives that had them written long before */
};

struct writer {
    ftj_attention *attn;
    struct check_buffer k_codes, v_codes, slots;
    ftj_store_args store;
};

static bool writer_init(struct writer *writer, struct check_row *row)
{
    const ftj_kv_shape shape = {.order = FTJ_KV_HND,
                                .k_format = FTJ_KV_16BIT,
                                .v_format = FTJ_KV_16BIT,
                                .num_kv_heads = 1,
                                .head_dim = 64,
                                .page_size = PAGE_SIZE};
    ftj_attention_desc desc = {.ops = FTJ_OP_STORE};
    const size_t bytes = STORED_ROWS * ROW_INTS * sizeof(int32_t);
    int32_t *slots = check_alloc(STORED_ROWS * sizeof(*slots));
    for (uint32_t i = 0; i < STORED_ROWS; i++) /* slot 0 comes last */
        slots[i] = (int32_t)(STORED_ROWS - 1 - i);
    const bool done =
        check_ok(row, ftj_kv_layout_init(&desc.kv, &shape), "ftj_kv_layout_init") &&
        check_ok(row, ftj_attention_create(row->ctx, &desc, &writer->attn),
                 "ftj_attention_create") &&
        check_buffer_init(&writer->k_codes, row, "lengths and table", bytes) &&
        check_buffer_init(&writer->v_codes, row, "v", bytes) &&
        check_buffer_init_with(&writer->slots, row, "slots", slots, STORED_ROWS * sizeof(*slots));
    free(slots);
    writer->store = (ftj_store_args){.cache = {.k_codes = writer->k_codes.device,
                                               .v_codes = writer->v_codes.device,
                                               .num_pages = STORED_ROWS / PAGE_SIZE},
                                     .slots = writer->slots.device,
                                     .num_tokens = STORED_ROWS};
    return done;
}

static void writer_finish(struct writer *writer, struct check_row *row)
{
    ftj_attention_destroy(writer->attn);
    check_buffer_finish(&writer->k_codes, row);
    check_buffer_finish(&writer->v_codes, row);
    check_buffer_finish(&writer->slots, row);
}

/* Requests turned by `turn`: each has another's keys. */
static bool order_init(struct order *order, struct check_row *row, const struct attention_case *c,
                       uint32_t turn)
{
    const size_t width = (size_t)c->table_stride;
    const size_t bytes = STORED_ROWS * ROW_INTS * sizeof(int32_t);
    int32_t *rows = check_alloc(bytes);
    if ((BATCH * width + ROW_INTS - 1) / ROW_INTS >= MAX_ROWS) {
        check_fail(row, "the table has more rows than there is room for");
        free(rows);
        return false;
    }
    memset(rows, 0, bytes);
    for (uint32_t r = 0; r < BATCH; r++) {
        const uint32_t from = (r + turn) % BATCH;
        order->words[r] = (int32_t)c->shape.lengths[from];
        memcpy(order->words + ROW_INTS + r * width, c->table + from * width, width * 4);
    }
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        memcpy(rows + (STORED_ROWS - 1 - i) * ROW_INTS, order->words + i * ROW_INTS, ROW_INTS * 4);
    const bool done = check_buffer_init_with(&order->rows, row, "rows", rows, bytes);
    free(rows);
    order->o = check_alloc(c->q_bytes);
    return done;
}

static void order_finish(struct order *order, struct check_row *row)
{
    check_buffer_finish(&order->rows, row);
    free(order->o);
}

static bool write_and_decode(struct check_row *row, struct writer *writer,
                             struct attention_device *device, const struct order *order,
                             bool at_once)
{
    writer->store.k = order->rows.device;
    writer->store.v = order->rows.device;
    return check_ok(row, ftj_kv_store(writer->attn, &writer->store, NULL), "ftj_kv_store") &&
           (at_once || check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "the store")) &&
           check_ok(row, ftj_attention_decode(device->attn, &device->args, NULL),
                    "ftj_attention_decode") &&
           check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "the decode");
}

static void follow(struct check_row *row, ftj_kv_format format)
{
    const struct attention_shape shape = {
        .k_format = format,
        .v_format = format,
        .dtype = FTJ_DTYPE_BF16,
        .head_dim = 128,
        .num_kv_heads = 4,
        .group = 4,
        .page_size = 64,
        .batch = BATCH,
        .lengths = {900, 3000, 64, 130},
    };
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct writer writer = {0};
    struct order orders[2] = {{.o = NULL}, {.o = NULL}};
    uint16_t *o = NULL;
    if (!attention_case_init(&c, row, &shape))
        goto cleanup;
    attention_case_fill_random(&c, &row->random);
    if (!attention_device_init(&device, row, &c) || !writer_init(&writer, row) ||
        !order_init(&orders[0], row, &c, 0) || !order_init(&orders[1], row, &c, 1))
        goto cleanup;
    o = check_alloc(c.q_bytes);
    device.args.requests.lengths = writer.k_codes.device;
    device.args.requests.block_table = (int32_t *)writer.k_codes.device + ROW_INTS;
    for (int i = 0; i < 2; i++) {
        if (!write_and_decode(row, &writer, &device, &orders[i], false) ||
            !check_buffer_read(&device.o, row, orders[i].o))
            goto cleanup;
    }
    if (memcmp(orders[0].o, orders[1].o, c.q_bytes) == 0)
        check_fail(row, "both orders give the same output");
    for (int i = 0; i < NUM_REPEATS && row->outcome != CHECK_FAILED; i++) {
        if (!write_and_decode(row, &writer, &device, &orders[i % 2], true) ||
            !check_buffer_read(&device.o, row, o))
            break;
        if (memcmp(o, orders[i % 2].o, c.q_bytes) != 0)
            check_fail(row, "%s: call %d decodes by what the store had yet to write",
                       ftj_kv_format_name(format), i + 1);
    }

cleanup:
    free(o);
    order_finish(&orders[0], row);
    order_finish(&orders[1], row);
    writer_finish(&writer, row);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

static void follows_a_store(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    follow(row, FTJ_KV_16BIT);
    follow(row, FTJ_KV_FP8);
    follow(row, FTJ_KV_NVFP4);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a decode sees the lengths and pages that the kernel before it writes", follows_a_store},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
