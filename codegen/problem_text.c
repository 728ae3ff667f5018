/* SPDX-License-Identifier: MIT */
#include "codegen/problem_text.h"

#include <stdio.h>
#include <string.h>

static const char version[] = "ftjit-problem-1";

static const char *const op_names[] = {"store",         "decode", "combine",        "merge",
                                       "generic",       "extend", "extend_combine", "short",
                                       "short_combine", NULL};
static const char *const dtype_names[] = {"bf16", "fp16", "fp32", NULL};
static const char *const format_names[] = {"16bit", "fp8", "nvfp4", NULL};
static const char *const order_names[] = {"packed", "hnd", "nhd", NULL};
static const char *const table_names[] = {"blocks", "slots", NULL};

#define NUM_ARRAYS  6
#define MAX_SMEM    (1u << 20)
#define MAX_QUERIES 64

uint32_t ftj_kernel_op_bit(enum ftj_kernel_op op)
{
    static const uint32_t bits[FTJ_NUM_KERNEL_OPS] = {
        [FTJ_KERNEL_STORE] = FTJ_OP_STORE,           [FTJ_KERNEL_DECODE] = FTJ_OP_DECODE,
        [FTJ_KERNEL_COMBINE] = FTJ_OP_DECODE,        [FTJ_KERNEL_MERGE] = FTJ_OP_MERGE,
        [FTJ_KERNEL_GENERIC] = FTJ_OP_GENERIC,       [FTJ_KERNEL_EXTEND] = FTJ_OP_EXTEND,
        [FTJ_KERNEL_EXTEND_COMBINE] = FTJ_OP_EXTEND, [FTJ_KERNEL_SHORT] = FTJ_OP_EXTEND,
        [FTJ_KERNEL_SHORT_COMBINE] = FTJ_OP_EXTEND,
    };
    return bits[op];
}

const char *ftj_kernel_op_name(enum ftj_kernel_op op)
{
    return (unsigned)op < FTJ_NUM_KERNEL_OPS ? op_names[op] : "?";
}

/* The layout's arrays in the order they are written, and how many numbers each has. */
static void list_arrays(ftj_kv_layout *kv, ftj_kv_array *arrays[NUM_ARRAYS])
{
    ftj_kv_array *const all[NUM_ARRAYS] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                           &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    memcpy(arrays, all, sizeof(all));
}

static bool is_same_array(const ftj_kv_array *a, const ftj_kv_array *b)
{
    return a->row_bytes == b->row_bytes && a->offset_bytes == b->offset_bytes &&
           a->page_stride_bytes == b->page_stride_bytes &&
           a->head_stride_bytes == b->head_stride_bytes &&
           a->slot_stride_bytes == b->slot_stride_bytes;
}

/* Strides that were changed after ftj_kv_layout_init() are written out; "-" stands for its own. */
static void write_strides(struct ftj_text *text, const ftj_kv_layout *kv)
{
    ftj_kv_layout given = *kv;
    ftj_kv_layout fresh;
    ftj_kv_array *arrays[NUM_ARRAYS];
    ftj_kv_array *expected[NUM_ARRAYS];
    bool is_own = ftj_kv_layout_init(&fresh, &kv->shape) == FTJ_OK;
    list_arrays(&given, arrays);
    list_arrays(&fresh, expected);
    for (size_t i = 0; i < NUM_ARRAYS && is_own; i++)
        is_own = is_same_array(arrays[i], expected[i]);
    if (is_own) {
        ftj_text_printf(text, "-");
        return;
    }
    for (size_t i = 0; i < NUM_ARRAYS; i++)
        ftj_text_printf(text, "%s%llu/%llu/%llu/%llu", i ? "," : "",
                        (unsigned long long)arrays[i]->offset_bytes,
                        (unsigned long long)arrays[i]->page_stride_bytes,
                        (unsigned long long)arrays[i]->head_stride_bytes,
                        (unsigned long long)arrays[i]->slot_stride_bytes);
}

void ftj_problem_write(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_device *device)
{
    char features[256];
    ftj_kv_layout kv = problem->kv;
    if (!kv.shape.page_size) /* the kernel does not depend on the cache: any will do */
        kv.shape = (ftj_kv_shape){.num_kv_heads = 1, .head_dim = problem->head_dim, .page_size = 1};
    ftj_features_text(device->features, features, sizeof(features));
    ftj_text_printf(text, "%s target=%s features=%s smem=%u smem_sm=%u", version, device->target,
                    features, device->smem_bytes, device->smem_per_sm_bytes);
    ftj_text_printf(text, " op=%s dtype=%s io=%s k=%s v=%s head_dim=%u group=%u",
                    op_names[problem->op], dtype_names[problem->dtype - FTJ_DTYPE_BF16],
                    dtype_names[problem->io_dtype - FTJ_DTYPE_BF16],
                    format_names[problem->k_format], format_names[problem->v_format],
                    problem->head_dim, problem->group ? problem->group : 1);
    ftj_text_printf(text, " kv_heads=%u page=%u order=%s table=%s softcap=%d",
                    kv.shape.num_kv_heads, kv.shape.page_size, order_names[kv.shape.order],
                    table_names[problem->table], problem->has_softcap);
    if (problem->run_queries)
        ftj_text_printf(text, " queries=%u", problem->run_queries);
    if (problem->has_few_keys)
        ftj_text_printf(text, " few_keys=1");
    ftj_text_printf(text, " strides=");
    if (problem->kv.shape.page_size)
        write_strides(text, &kv);
    else
        ftj_text_printf(text, "-");
    ftj_text_printf(text, "\n");
}

/* ---- reading ---- */

struct cursor {
    const char *at;
    const char *end;
    ftj_status status; /* of the first field that could not be taken */
};

/* The next field's value, which must be of this name. "" once something was wrong. */
static void take(struct cursor *cursor, const char *name, char *value, size_t size)
{
    const size_t name_size = strlen(name);
    const size_t left = (size_t)(cursor->end - cursor->at);
    value[0] = '\0';
    if (cursor->status)
        return;
    if (left < name_size + 2 || cursor->at[0] != ' ' ||
        memcmp(cursor->at + 1, name, name_size) != 0 || cursor->at[1 + name_size] != '=') {
        cursor->status = ftj_fail(NULL, FTJ_E_INVALID, "%s= is expected at \"%.*s\"", name,
                                  (int)(left < 40 ? left : 40), cursor->at);
        return;
    }
    const char *start = cursor->at + name_size + 2;
    const char *stop = memchr(start, ' ', (size_t)(cursor->end - start));
    const size_t used = (size_t)((stop ? stop : cursor->end) - start);
    if (used == 0 || used >= size || memchr(start, '\0', used)) {
        cursor->status =
            ftj_fail(NULL, FTJ_E_INVALID, "%s= has no value, or one that is too long", name);
        return;
    }
    memcpy(value, start, used);
    value[used] = '\0';
    cursor->at = start + used;
}

static uint32_t take_name(struct cursor *cursor, const char *name, const char *const *names)
{
    char value[16];
    take(cursor, name, value, sizeof(value));
    for (uint32_t i = 0; names[i] && !cursor->status; i++) {
        if (!strcmp(names[i], value))
            return i;
    }
    if (!cursor->status)
        cursor->status = ftj_fail(NULL, FTJ_E_INVALID, "%s=%s is not known", name, value);
    return 0;
}

/* Decimal digits from `at` on, which is moved; false when there are none, or too many. */
static bool parse_number(const char **at, uint64_t max, uint64_t *number)
{
    uint64_t sum = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        const uint64_t digit = (uint64_t)(**at - '0');
        if (digit > max || sum > (max - digit) / 10)
            return false;
        sum = 10 * sum + digit;
    }
    *number = sum;
    return *at != start;
}

static uint32_t take_number(struct cursor *cursor, const char *name, uint32_t low, uint32_t high)
{
    char value[16];
    uint64_t number = 0;
    take(cursor, name, value, sizeof(value));
    if (cursor->status)
        return low;
    const char *at = value;
    if (parse_number(&at, high, &number) && *at == '\0' && number >= low)
        return (uint32_t)number;
    cursor->status = ftj_fail(NULL, FTJ_E_INVALID, "%s=%s: a number from %u to %u is needed", name,
                              value, low, high);
    return low;
}

/* A feature may be missing, as narrowing does it, but none can be more than the target has. */
static void take_features(struct cursor *cursor, struct ftj_device *device)
{
    char value[256];
    take(cursor, "features", value, sizeof(value));
    if (cursor->status)
        return;
    uint32_t named = 0;
    if (strcmp(value, "none") != 0) {
        uint32_t others = ~0u;
        cursor->status = ftj_features_narrow(&others, value, NULL);
        named = ~others;
    }
    if (!cursor->status && named & ~device->features)
        cursor->status =
            ftj_fail(NULL, FTJ_E_INVALID, "features=%s: more than %s has", value, device->target);
    device->features = named;
}

static void take_device(struct cursor *cursor, struct ftj_device *device)
{
    char target[16];
    take(cursor, "target", target, sizeof(target));
    if (!cursor->status)
        cursor->status = ftj_device_of_target(target, NULL, device);
    if (!cursor->status && strcmp(target, device->target) != 0)
        cursor->status =
            ftj_fail(NULL, FTJ_E_INVALID, "target=%s is written %s", target, device->target);
    if (cursor->status)
        return;
    take_features(cursor, device);
    device->smem_bytes = take_number(cursor, "smem", 0, MAX_SMEM);
    device->smem_per_sm_bytes = take_number(cursor, "smem_sm", 0, MAX_SMEM);
}

static bool parse_strides(const char *at, ftj_kv_layout *kv)
{
    ftj_kv_array *arrays[NUM_ARRAYS];
    list_arrays(kv, arrays);
    for (size_t i = 0; i < NUM_ARRAYS; i++) {
        uint64_t *const numbers[] = {&arrays[i]->offset_bytes, &arrays[i]->page_stride_bytes,
                                     &arrays[i]->head_stride_bytes, &arrays[i]->slot_stride_bytes};
        for (size_t j = 0; j < 4; j++) {
            const char separator = j < 3 ? '/' : i < NUM_ARRAYS - 1 ? ',' : '\0';
            if (!parse_number(&at, UINT64_MAX, numbers[j]) || *at != separator)
                return false;
            at += separator != '\0';
        }
    }
    return true;
}

static void take_strides(struct cursor *cursor, ftj_kv_layout *kv)
{
    char value[FTJ_PROBLEM_TEXT_MAX];
    take(cursor, "strides", value, sizeof(value));
    if (!cursor->status && strcmp(value, "-") != 0 && !parse_strides(value, kv))
        cursor->status = ftj_fail(NULL, FTJ_E_INVALID,
                                  "strides= is neither - nor six times offset/page/head/slot");
}

/* Whether a field that some problems have comes next. */
static bool comes_next(const struct cursor *cursor, const char *name)
{
    const size_t size = strlen(name);
    return !cursor->status && (size_t)(cursor->end - cursor->at) >= size + 2 &&
           cursor->at[0] == ' ' && memcmp(cursor->at + 1, name, size) == 0 &&
           cursor->at[1 + size] == '=';
}

/* A decode, or its combine, that is for runs of queries has a field more. */
static void take_run(struct cursor *cursor, enum ftj_kernel_op *op, ftj_attention_desc *desc)
{
    if (!comes_next(cursor, "queries"))
        return;
    desc->short_queries = take_number(cursor, "queries", 2, MAX_QUERIES);
    if (*op == FTJ_KERNEL_DECODE)
        *op = FTJ_KERNEL_SHORT;
    else if (*op == FTJ_KERNEL_COMBINE)
        *op = FTJ_KERNEL_SHORT_COMBINE;
    else if (!cursor->status)
        cursor->status =
            ftj_fail(NULL, FTJ_E_INVALID, "queries= is for op=decode and op=combine, not op=%s",
                     op_names[*op]);
}

/* So has one whose window is small; any such window stands for it. */
static void take_few_keys(struct cursor *cursor, enum ftj_kernel_op op, ftj_attention_desc *desc)
{
    if (!comes_next(cursor, "few_keys"))
        return;
    desc->window = take_number(cursor, "few_keys", 1, 1);
    if (!cursor->status && op != FTJ_KERNEL_DECODE && op != FTJ_KERNEL_SHORT)
        cursor->status =
            ftj_fail(NULL, FTJ_E_INVALID, "few_keys= is for op=decode, not op=%s", op_names[op]);
}

/* The descriptor of which the problem is a part. */
static void take_desc(struct cursor *cursor, enum ftj_kernel_op *op, ftj_attention_desc *desc)
{
    ftj_kv_shape shape = {0};
    *op = (enum ftj_kernel_op)take_name(cursor, "op", op_names);
    desc->dtype = (ftj_dtype)(FTJ_DTYPE_BF16 + take_name(cursor, "dtype", dtype_names));
    desc->store_dtype = (ftj_dtype)(FTJ_DTYPE_BF16 + take_name(cursor, "io", dtype_names));
    desc->generic_dtype = desc->store_dtype;
    shape.k_format = (ftj_kv_format)take_name(cursor, "k", format_names);
    shape.v_format = (ftj_kv_format)take_name(cursor, "v", format_names);
    shape.head_dim = take_number(cursor, "head_dim", 16, 1024);
    const uint32_t group = take_number(cursor, "group", 1, 64);
    shape.num_kv_heads = take_number(cursor, "kv_heads", 1, FTJ_MAX_KV_HEADS);
    shape.page_size = take_number(cursor, "page", 1, FTJ_MAX_PAGE_TOKENS);
    shape.order = (ftj_kv_order)take_name(cursor, "order", order_names);
    desc->table = (ftj_kv_table)take_name(cursor, "table", table_names);
    desc->softcap = take_number(cursor, "softcap", 0, 1) ? 1.0f : 0.0f;
    desc->num_q_heads = group * shape.num_kv_heads;
    take_run(cursor, op, desc);
    take_few_keys(cursor, *op, desc);
    if (!cursor->status)
        cursor->status = ftj_kv_layout_init(&desc->kv, &shape);
    take_strides(cursor, &desc->kv);
}

ftj_status ftj_problem_parse(const char *line, size_t size, struct ftj_problem *problem,
                             struct ftj_device *device)
{
    const size_t head = sizeof(version) - 1;
    if (size < head || size > FTJ_PROBLEM_TEXT_MAX || memcmp(line, version, head) != 0)
        return ftj_fail(NULL, FTJ_E_INVALID, "it does not begin with %s", version);
    struct cursor cursor = {.at = line + head, .end = line + size};
    struct ftj_device found = {0};
    ftj_attention_desc desc = {0};
    enum ftj_kernel_op op;
    take_device(&cursor, &found);
    take_desc(&cursor, &op, &desc);
    if (!cursor.status && cursor.at != cursor.end)
        cursor.status = ftj_fail(NULL, FTJ_E_INVALID, "there is more after strides=");
    if (!cursor.status)
        cursor.status = ftj_desc_check(&desc, NULL);
    if (cursor.status)
        return cursor.status;
    ftj_problem_init(problem, op, &desc);
    *device = found;
    return FTJ_OK;
}
