/* SPDX-License-Identifier: MIT */
/* One attention on two streams at once, each call with its own workspace: it gives the bits that it
 * gives alone, though its grid, which would fill the device, finds a part of it taken. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/check_extend.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_ROUNDS 300
#define NUM_CALLS  4 /* of a round, on each stream, without a pause between them */

enum op { DECODE, EXTEND };
static const char *const op_names[] = {"decode", "extend"};

/* One of the two: inputs, memory and a stream of its own. */
struct lane {
    struct extend_case c;
    struct extend_device device;
    struct CUstream_st *stream;
    uint16_t *alone; /* what a call gives when nothing else runs */
    uint16_t *o;
};

static const struct check_buffer *output(const struct lane *lane, enum op op)
{
    return op == DECODE ? &lane->device.attention.o : &lane->device.o;
}

static bool call(struct check_row *row, ftj_attention *attn, const struct lane *lane, enum op op)
{
    return op == DECODE
               ? check_ok(row,
                          ftj_attention_decode(attn, &lane->device.attention.args, lane->stream),
                          "ftj_attention_decode")
               : check_ok(row, ftj_attention_extend(attn, &lane->device.args, lane->stream),
                          "ftj_attention_extend");
}

static bool lane_init(struct lane *lane, struct check_row *row, ftj_kv_format format)
{
    const struct extend_shape shape = {
        .attention = {.k_format = format,
                      .v_format = format,
                      .dtype = FTJ_DTYPE_BF16,
                      .head_dim = 128,
                      .num_kv_heads = 8,
                      .group = 4,
                      .page_size = 64,
                      .batch = 4,
                      .lengths = {4000, 900, 2500, 130}},
        .q_lens = {500, 33, 1, 130},
    };
    if (!extend_case_init(&lane->c, row, &shape))
        return false;
    struct attention_case *decode = &lane->c.attention;
    decode->desc.ops = FTJ_OP_DECODE | FTJ_OP_EXTEND;
    extend_case_fill_random(&lane->c, &row->random);
    memcpy(decode->q, lane->c.q + lane->c.qo_indptr[0] * decode->q_batch_stride, decode->q_bytes);
    return extend_device_init(&lane->device, row, &lane->c) &&
           check_ok(row, ftj_stream_create(row->ctx, &lane->stream), "ftj_stream_create");
}

static void lane_finish(struct lane *lane, struct check_row *row)
{
    ftj_stream_destroy(row->ctx, lane->stream);
    extend_device_finish(&lane->device, row);
    extend_case_finish(&lane->c);
    free(lane->alone);
    free(lane->o);
}

/* O of what has been called, once the stream is idle. */
static bool read_output(struct check_row *row, const struct lane *lane, enum op op, uint16_t *o)
{
    return check_ok(row, ftj_stream_synchronize(row->ctx, lane->stream),
                    "ftj_stream_synchronize") &&
           check_buffer_read(output(lane, op), row, o);
}

static bool run_alone(struct check_row *row, ftj_attention *attn, struct lane *lane, enum op op)
{
    free(lane->alone);
    free(lane->o);
    lane->alone = check_alloc(output(lane, op)->bytes);
    lane->o = check_alloc(output(lane, op)->bytes);
    return attention_poison(&lane->device.attention, row) && extend_poison(&lane->device, row) &&
           call(row, attn, lane, op) && read_output(row, lane, op, lane->alone);
}

static bool run_round(struct check_row *row, ftj_attention *attn, struct lane lanes[2], enum op op)
{
    bool done = true;
    for (int i = 0; i < 2 && done; i++)
        done = check_ok(row,
                        ftj_memory_fill(row->ctx, output(&lanes[i], op)->device, CHECK_POISON_BYTE,
                                        output(&lanes[i], op)->bytes),
                        "ftj_memory_fill");
    for (int i = 0; i < 2 * NUM_CALLS && done; i++)
        done = call(row, attn, &lanes[i % 2], op);
    for (int i = 0; i < 2 && done; i++)
        done = read_output(row, &lanes[i], op, lanes[i].o);
    return done;
}

static void run_both(struct check_row *row, struct lane lanes[2], ftj_kv_format format, enum op op)
{
    ftj_attention *attn = lanes[0].device.attention.attn;
    if (!run_alone(row, attn, &lanes[0], op) || !run_alone(row, attn, &lanes[1], op))
        return;
    if (memcmp(lanes[0].alone, lanes[1].alone, output(&lanes[0], op)->bytes) == 0)
        check_fail(row, "both streams have the same work");
    for (int round = 0; round < NUM_ROUNDS && row->outcome != CHECK_FAILED; round++) {
        if (!run_round(row, attn, lanes, op))
            return;
        for (int i = 0; i < 2; i++) {
            if (memcmp(lanes[i].o, lanes[i].alone, output(&lanes[i], op)->bytes) != 0)
                check_fail(row, "%s, %s, stream %d: other bits than alone in round %d",
                           op_names[op], ftj_kv_format_name(format), i, round + 1);
        }
    }
}

static void at_once(struct check_row *row, ftj_kv_format format)
{
    struct lane lanes[2] = {{.stream = NULL}, {.stream = NULL}};
    if (lane_init(&lanes[0], row, format) && lane_init(&lanes[1], row, format)) {
        run_both(row, lanes, format, DECODE);
        run_both(row, lanes, format, EXTEND);
    }
    lane_finish(&lanes[0], row);
    lane_finish(&lanes[1], row);
}

static void at_once_in_16_bits(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    at_once(row, FTJ_KV_16BIT);
}

static void at_once_over_codes(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    at_once(row, FTJ_KV_FP8);
    at_once(row, FTJ_KV_NVFP4);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"two streams run one attention at once, 16 bits", at_once_in_16_bits},
        {"two streams run one attention at once, codes", at_once_over_codes},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
