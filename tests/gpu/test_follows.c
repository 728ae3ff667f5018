/* SPDX-License-Identifier: MIT */
/* A decode or an extend whose lengths and page table the kernel before it writes: on sm_90 a decode
 * starts, and looks at them, while that one still runs (templates/block/first_tiles.cuh). They lie
 * in the cache of a second attention, whose store writes them as rows, the last of many. And
 * extends that follow each other, with one workspace: its combine starts while an extend runs. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/check_extend.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_REPEATS 300
#define BATCH       4
#define ROW_INTS    32 /* a row of 64 16-bit values */
#define PAGE_SIZE   16
#define MAX_ROWS    64
#define STORED_ROWS 65536 /* more than the store has room for at once */

enum op { DECODE, EXTEND };
static const char *const op_names[] = {"decode", "extend"};

/* Row 0 of `words` is the lengths, the others are the table. */
struct order {
    int32_t words[MAX_ROWS * ROW_INTS];
    struct check_buffer rows;
    uint16_t *o; /* what a call gives that had them written long before */
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
    return done;
}

static bool call(struct check_row *row, struct extend_device *device, enum op op)
{
    ftj_attention *attn = device->attention.attn;
    return op == DECODE ? check_ok(row, ftj_attention_decode(attn, &device->attention.args, NULL),
                                   "ftj_attention_decode")
                        : check_ok(row, ftj_attention_extend(attn, &device->args, NULL),
                                   "ftj_attention_extend");
}

/* O of it, into `o`. */
static bool write_and_call(struct check_row *row, struct writer *writer,
                           struct extend_device *device, const struct order *order, enum op op,
                           bool at_once, uint16_t *o)
{
    writer->store.k = order->rows.device;
    writer->store.v = order->rows.device;
    return check_ok(row, ftj_kv_store(writer->attn, &writer->store, NULL), "ftj_kv_store") &&
           (at_once || check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "the store")) &&
           call(row, device, op) &&
           check_ok(row, ftj_stream_synchronize(row->ctx, NULL), op_names[op]) &&
           check_buffer_read(op == DECODE ? &device->attention.o : &device->o, row, o);
}

/* The same outputs as long after the store. */
static void follow_as(struct check_row *row, struct writer *writer, struct extend_device *device,
                      struct order orders[2], enum op op, size_t o_bytes)
{
    uint16_t *o = check_alloc(o_bytes);
    for (int i = 0; i < 2; i++)
        orders[i].o = check_alloc(o_bytes);
    if (!write_and_call(row, writer, device, &orders[0], op, false, orders[0].o) ||
        !write_and_call(row, writer, device, &orders[1], op, false, orders[1].o))
        goto cleanup;
    if (memcmp(orders[0].o, orders[1].o, o_bytes) == 0)
        check_fail(row, "both orders give the same output");
    for (int i = 0; i < NUM_REPEATS && row->outcome != CHECK_FAILED; i++) {
        if (!write_and_call(row, writer, device, &orders[i % 2], op, true, o))
            break;
        if (memcmp(o, orders[i % 2].o, o_bytes) != 0)
            check_fail(row, "%s %d goes by what the store had yet to write", op_names[op], i + 1);
    }

cleanup:
    free(o);
    for (int i = 0; i < 2; i++)
        free(orders[i].o);
}

static bool build(struct extend_case *c, struct check_row *row, ftj_kv_format format)
{
    const struct extend_shape shape = {
        .attention = {.k_format = format,
                      .v_format = format,
                      .dtype = FTJ_DTYPE_BF16,
                      .head_dim = 128,
                      .num_kv_heads = 4,
                      .group = 4,
                      .page_size = 64,
                      .batch = BATCH,
                      .lengths = {900, 3000, 64, 130}},
        .q_lens = {60, 33, 1, 50},
    };
    if (!extend_case_init(c, row, &shape))
        return false;
    struct attention_case *decode = &c->attention;
    decode->desc.ops = FTJ_OP_DECODE | FTJ_OP_EXTEND;
    extend_case_fill_random(c, &row->random);
    memcpy(decode->q, c->q + c->qo_indptr[0] * decode->q_batch_stride, decode->q_bytes);
    return true;
}

static void follow(struct check_row *row, ftj_kv_format format)
{
    struct extend_case c = {0};
    struct extend_device device = {0};
    struct writer writer = {0};
    struct order orders[2] = {{.o = NULL}, {.o = NULL}};
    if (!build(&c, row, format) || !extend_device_init(&device, row, &c) ||
        !writer_init(&writer, row) || !order_init(&orders[0], row, &c.attention, 0) ||
        !order_init(&orders[1], row, &c.attention, 1))
        goto cleanup;
    const int32_t *words = writer.k_codes.device;
    ftj_requests *const requests[] = {&device.attention.args.requests, &device.args.requests};
    for (int i = 0; i < 2; i++) {
        requests[i]->lengths = words;
        requests[i]->block_table = words + ROW_INTS;
    }
    follow_as(row, &writer, &device, orders, DECODE, c.attention.q_bytes);
    follow_as(row, &writer, &device, orders, EXTEND, c.q_bytes);

cleanup:
    check_buffer_finish(&orders[0].rows, row);
    check_buffer_finish(&orders[1].rows, row);
    writer_finish(&writer, row);
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

static void follows_a_store(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    follow(row, FTJ_KV_16BIT);
    follow(row, FTJ_KV_FP8);
    follow(row, FTJ_KV_NVFP4);
}

/* Two extends of other keys in turn, without a pause, with the workspace of the first: the second
 * must not write there what the first one's combine has yet to read. */
static void take_turns(struct check_row *row, ftj_kv_format format)
{
    struct extend_case c[2] = {{.q = NULL}, {.q = NULL}};
    struct extend_device device[2] = {{.args = {.q = NULL}}, {.args = {.q = NULL}}};
    uint16_t *alone[2] = {NULL, NULL}, *o = NULL;
    for (int i = 0; i < 2; i++) {
        if (!build(&c[i], row, format) || !extend_device_init(&device[i], row, &c[i]))
            goto cleanup;
        alone[i] = check_alloc(c[i].q_bytes);
        device[i].args.workspace = device[0].args.workspace;
        if (!call(row, &device[i], EXTEND) ||
            !check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "the extend") ||
            !check_buffer_read(&device[i].o, row, alone[i]))
            goto cleanup;
    }
    o = check_alloc(c[0].q_bytes);
    for (int i = 0; i < NUM_REPEATS && row->outcome != CHECK_FAILED; i++) {
        for (int n = 0; n < 4; n++)
            call(row, &device[(i + n) % 2], EXTEND);
        check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "the extends");
        for (int n = 0; n < 2; n++) {
            if (!check_buffer_read(&device[n].o, row, o))
                break;
            if (memcmp(o, alone[n], c[n].q_bytes) != 0)
                check_fail(row, "%s: extends in turn give other bits than alone",
                           ftj_kv_format_name(format));
        }
    }

cleanup:
    free(o);
    for (int i = 0; i < 2; i++) {
        free(alone[i]);
        extend_device_finish(&device[i], row);
        extend_case_finish(&c[i]);
    }
}

static void take_turns_with_a_workspace(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    take_turns(row, FTJ_KV_16BIT);
    take_turns(row, FTJ_KV_FP8);
    take_turns(row, FTJ_KV_NVFP4);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a decode and an extend see the lengths and pages that a store writes", follows_a_store},
        {"extends in turn share a workspace", take_turns_with_a_workspace},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
