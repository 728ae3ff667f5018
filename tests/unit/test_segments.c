/* SPDX-License-Identifier: MIT */
/* block/segments.cuh on the CPU target: every tile of every unit is dealt once, in equal shares,
 * and attn_combine.cuh finds each part where the decode left it.
 *
 * Long because the kernel that deals, and what holds it against each way to deal, stand beside the
 * rows. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernel.h"
#include "templates/block/params.h"

#define MAX_BATCH  96
#define MAX_BLOCKS 300
#define MAX_RUNS   2048 /* of one block */
#define TOKENS     64
#define GROUP      12 /* query heads, in units of 8 */
#define UNITS      2  /* of a kv head */

/* For one query a request, or with HAS_RUNS for runs of them. */
static const char unit[] =
    "#include \"ptx/ptx_cpu.cuh\"\n"
    "#include \"block/launch_in_order.cuh\"\n"
    "#include \"kernel/attn_combine.cuh\"\n"
    "struct Config {\n"
    "    using Element = ftj::Bf16;\n"
    "    static constexpr int head_dim = 64;\n"
    "    static constexpr int n_tiles = 1;\n"
    "    static constexpr int num_threads = 32;\n"
    "    static constexpr int smem_bytes = 32 * 24 + 32;\n"
    "    static constexpr bool slot_table = false;\n"
    "    static constexpr bool takes_turns = true;\n"
    "    static constexpr bool has_runs = HAS_RUNS;\n"
    "};\n"
    "using Table = ftj::RequestTable<Config>;\n"
    "struct Run { uint32_t request, unit, tile, count, tiles, slot; };\n"
    "struct Parts { uint32_t request, unit, first_slot, count; };\n"
    "extern \"C\" __global__ void ftj_kernel(const __grid_constant__ ftj_decode_params p) {\n"
    "    using namespace ftj;\n"
    "    const uint32_t block = ptx::block_index();\n"
    "    const auto work = WorkRange<64, Table>::of_block(p, nullptr);\n"
    "    const auto split = AttnCombine<Config>::find_split(p, block);\n"
    "    if (ptx::thread_index() != 0)\n"
    "        return;\n"
    "    Run* to = pointer<Run>(p.o) + 2048 * block;\n"
    "    auto segment = work.first;\n"
    "    for (uint32_t begin = 0; begin < work.count;) {\n"
    "        const uint32_t count = min_of(work.count - begin, segment.tiles - segment.tile);\n"
    "        const bool whole = segment.tile == 0 && count == segment.tiles;\n"
    "        *to++ = {segment.request,\n"
    "                 segment.head_set * segment.keys.head_blocks(p) + segment.head_block,\n"
    "                 segment.tile, count, segment.tiles,\n"
    "                 whole ? 0xffffffffu : 2 * block + (begin != 0)};\n"
    "        begin += count;\n"
    "        if (begin < work.count)\n"
    "            segment.next(p, work);\n"
    "    }\n"
    "    uint32_t request = split.columns.row;\n"
    "    const auto* starts = pointer<const int32_t>(p.qo_indptr);\n"
    "    for (request = HAS_RUNS ? 0 : request; HAS_RUNS && split.parts; request++)\n"
    "        if (starts[request + 1] > int32_t(split.columns.row))\n"
    "            break;\n"
    "    if (split.parts)\n"
    "        pointer<Parts>(p.lse)[block] = {\n"
    "            request,\n"
    "            split.columns.head / p.group / p.unit_heads *\n"
    "                    Table::keys(p, request).head_blocks(p) +\n"
    "                split.columns.first / 8,\n"
    "            split.first_slot, split.parts};\n"
    "}\n"
    "FTJ_CPU_ENTRY(ftj_kernel, ftj_decode_params)\n";

/* A run of tiles of one unit, as a block has it. */
struct run {
    uint32_t request, unit, tile, count, tiles, slot;
};

struct parts {
    uint32_t request, unit, first_slot, count;
};

struct deal {
    uint32_t batch;
    uint32_t heads;      /* sets of kv heads */
    uint32_t unit_heads; /* kv heads of a set; 0: one */
    uint32_t window;
    uint32_t blocks;
    uint32_t unit_cost;
    uint32_t slack;
    uint32_t min_shift;
    int32_t lengths[MAX_BATCH];
    bool is_one_block; /* a kv head has as many query heads as a unit has columns */
    bool has_runs;
    int32_t qo_indptr[MAX_BATCH + 1];
    struct run *runs;    /* [blocks][MAX_RUNS], ended by one without tiles */
    struct parts *parts; /* [blocks] */
};

static void run(struct ftj_backend *backend, struct ftj_module *module, struct deal *deal)
{
    deal->runs = calloc((size_t)deal->blocks * MAX_RUNS, sizeof(*deal->runs));
    deal->parts = calloc(deal->blocks, sizeof(*deal->parts));
    cr_assert(deal->runs && deal->parts);
    const uint32_t head_blocks = deal->is_one_block ? 1 : UNITS;
    const uint32_t num_units = deal->batch * deal->heads * head_blocks;
    const uint32_t unit_heads = deal->unit_heads ? deal->unit_heads : 1;
    const ftj_decode_params params = {
        .requests = {.lengths = (uintptr_t)deal->lengths,
                     .batch = deal->batch,
                     .window = deal->window},
        .qo_indptr = (uintptr_t)deal->qo_indptr,
        .o = (uintptr_t)deal->runs,
        .lse = (uintptr_t)deal->parts,
        .num_kv_heads = deal->heads * unit_heads,
        .unit_heads = unit_heads,
        .head_sets = deal->heads,
        .group = deal->is_one_block ? 8 : GROUP,
        .head_blocks = head_blocks,
        .blocks = deal->blocks,
        .tile_shift = 6,
        .min_shift = deal->min_shift,
        .unit_cost = deal->unit_cost,
        .most_idle = deal->slack ? 0 : deal->blocks / 32,
        .slack = deal->slack,
        .unit_pieces = num_units && num_units < deal->blocks ? deal->blocks / num_units : 1,
        .block_units = num_units > deal->blocks ? (num_units + deal->blocks - 1) / deal->blocks : 1,
    };
    const struct ftj_grid grid = {.num_blocks = deal->blocks};
    cr_assert_eq(backend->ops->launch(backend, module, grid, &params, sizeof(params), NULL),
                 FTJ_OK);
}

static uint32_t queries_of(const struct deal *deal, uint32_t request)
{
    return deal->has_runs ? (uint32_t)(deal->qo_indptr[request + 1] - deal->qo_indptr[request]) : 1;
}

/* The first query of a run sees the first key. */
static uint32_t tiles_of(const struct deal *deal, uint32_t request)
{
    const uint32_t end = (uint32_t)deal->lengths[request];
    const uint32_t queries = queries_of(deal, request);
    const uint32_t seen = deal->window + queries - 1;
    const uint32_t begin = deal->window && end > seen ? end - seen : 0;
    return end > begin && queries ? (end - 1) / TOKENS - begin / TOKENS + 1 : 0;
}

static uint32_t units_of(const struct deal *deal, uint32_t request)
{
    return deal->heads * ((queries_of(deal, request) * GROUP + 7) / 8);
}

/* The run in a slot for parts; NULL when the block has left none there. */
static const struct run *run_in_slot(const struct deal *deal, uint32_t slot)
{
    for (const struct run *run = &deal->runs[(size_t)(slot / 2) * MAX_RUNS]; run->count; run++) {
        if (run->slot == slot)
            return run;
    }
    return NULL;
}

/* What a block of the combine adds up is one whole unit. Returns how many parts it has. */
static uint32_t check_parts(const struct deal *deal, uint32_t block)
{
    const struct parts *parts = &deal->parts[block];
    const uint32_t first = parts->first_slot / 2;
    uint32_t tile = 0, tiles = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct run *part = run_in_slot(deal, i == 0 ? parts->first_slot : 2 * (first + i));
        cr_assert(part && part->request == parts->request && part->unit == parts->unit &&
                      part->tile == tile,
                  "block %u: part %u of a unit is not where it should be", block, i);
        tile += part->count;
        tiles = part->tiles;
    }
    cr_assert_eq(tile, tiles, "block %u: the parts of a unit end at tile %u of %u", block, tile,
                 tiles);
    return parts->count;
}

/* Every unit once and whole: block b has unit b, and every one that is as many further on as blocks
 * have any. */
static void check_in_turn(const struct deal *deal)
{
    const uint32_t units = deal->batch * deal->heads;
    const uint32_t each = (units + deal->blocks - 1) / deal->blocks;
    const uint32_t blocks = (units + each - 1) / each;
    for (uint32_t block = 0; block < deal->blocks; block++) {
        const struct run *run = &deal->runs[(size_t)block * MAX_RUNS];
        for (uint32_t index = block; block < blocks && index < units; index += blocks, run++) {
            cr_assert(run->request == index / deal->heads && run->unit == index % deal->heads &&
                          run->tile == 0 && run->count == tiles_of(deal, run->request) &&
                          run->tiles == run->count && run->slot == UINT32_MAX,
                      "block %u: request %u head %u; expected index %u", block, run->request,
                      run->unit, index);
        }
        cr_assert_eq(run->count, 0, "block %u has more than its turns", block);
        cr_assert_eq(deal->parts[block].count, 0, "block %u: nothing is to be added up", block);
    }
}

/* Every tile once, in order; no slot twice; every part in one combine. Returns the largest share,
 * with what the starts of its runs cost. */
static uint64_t check_runs(const struct deal *deal)
{
    uint32_t request = 0, at_unit = 0, tile = 0, num_parts = 0, num_added = 0;
    uint64_t most = 0;
    for (uint32_t block = 0; block < deal->blocks; block++) {
        uint64_t share = 0;
        uint32_t last_slot = UINT32_MAX;
        const struct run *run = &deal->runs[(size_t)block * MAX_RUNS];
        for (; run->count; run++) {
            while (tiles_of(deal, request) == 0)
                request++;
            cr_assert(run->request == request && run->unit == at_unit && run->tile == tile &&
                          run->tiles == tiles_of(deal, request),
                      "block %u: request %u unit %u tile %u; expected %u, %u, %u", block,
                      run->request, run->unit, run->tile, request, at_unit, tile);
            tile += run->count;
            share += run->count + deal->unit_cost;
            if (run->slot != UINT32_MAX) {
                cr_assert_neq(run->slot, last_slot, "block %u: two parts in a slot", block);
                last_slot = run->slot;
                num_parts++;
            }
            if (tile < run->tiles)
                continue;
            tile = 0;
            at_unit = at_unit + 1 == units_of(deal, request) ? 0 : at_unit + 1;
            request += at_unit == 0;
        }
        most = share > most ? share : most;
        num_added += check_parts(deal, block);
    }
    while (request < deal->batch && tiles_of(deal, request) == 0)
        request++;
    cr_assert_eq(request, deal->batch, "tiles of request %u are left over", request);
    cr_assert_eq(num_added, num_parts, "%u of %u parts are added up", num_added, num_parts);
    return most;
}

static void check(const struct deal *deal)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < deal->batch; r++) {
        const uint32_t tiles = tiles_of(deal, r);
        total += (uint64_t)(tiles ? tiles + deal->unit_cost : 0) * units_of(deal, r);
    }
    const uint64_t most = check_runs(deal);
    const uint64_t least = (1u << deal->min_shift) + deal->unit_cost;
    const uint64_t busy = deal->blocks - deal->blocks / 32;
    const uint64_t hardly_more = (total + busy - 1) / busy; /* for units cut by pieces */
    cr_expect_leq(most, (hardly_more > least ? hardly_more : least) + deal->unit_cost + deal->slack,
                  "%llu of %llu in %u blocks", (unsigned long long)most, (unsigned long long)total,
                  deal->blocks);
}

struct dealer {
    struct ftj_backend backend;
    struct ftj_module module;
    struct ftj_bytes code;
    struct ftj_log log;
};

static void dealer_init(struct dealer *dealer, bool has_runs)
{
    const struct ftj_config config = {.num_threads = 32, .smem_bytes = 32 * 24 + 32};
    struct ftj_text source = {0};
    memset(dealer, 0, sizeof(*dealer));
    ftj_text_printf(&source, "#define HAS_RUNS %d\n%s", has_runs, unit);
    cr_assert_eq(cpu_kernel_compile(source.data, &dealer->log, &dealer->code), FTJ_OK);
    ftj_text_finish(&source);
    cr_assert_eq(ftj_cpu_backend_init(&dealer->backend, &(ftj_settings){.kind = FTJ_DEVICE_CPU},
                                      &dealer->log),
                 FTJ_OK);
    cr_assert_eq(
        dealer->backend.ops->module_load(&dealer->backend, &dealer->code, &config, &dealer->module),
        FTJ_OK);
}

static void dealer_finish(struct dealer *dealer)
{
    dealer->backend.ops->module_unload(&dealer->backend, &dealer->module);
    ftj_backend_finish(&dealer->backend);
    ftj_bytes_finish(&dealer->code);
}

static void deal_finish(struct deal *deal)
{
    free(deal->runs);
    free(deal->parts);
}

/* A pseudo-random number below `bound`. */
static uint32_t next_below(uint32_t *state, uint32_t bound)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * bound >> 24);
}

Test(segments, every_tile_once_in_equal_shares)
{
    struct dealer dealer;
    uint32_t state = 1;
    dealer_init(&dealer, false);
    for (uint32_t i = 0; i < 60; i++) {
        struct deal deal = {.heads = 1 + i % 4,
                            .unit_heads = 1u << i % 3,
                            .window = i % 5 == 4 ? 700 : 0,
                            .blocks = 1 + next_below(&state, i % 3 ? 40 : MAX_BLOCKS),
                            .unit_cost = i % 7,
                            .slack = i % 7 / 3,
                            .min_shift = i % 3,
                            .batch = next_below(&state, i % 2 ? 8 : MAX_BATCH)};
        const uint32_t longest = i % 4 == 1 ? 100 : i % 4 == 2 ? 3000 : 40000;
        for (uint32_t r = 0; r < deal.batch; r++)
            deal.lengths[r] =
                r % 6 == 5 ? 0 : (int32_t)next_below(&state, r % 5 == 3 ? longest : 900);
        run(&dealer.backend, &dealer.module, &deal);
        check(&deal);
        deal_finish(&deal);
    }
    dealer_finish(&dealer);
}

/* As many as fit, none with more than one run, and all of one size. */
Test(segments, equal_lengths_are_cut_into_a_piece_a_block)
{
    static const struct {
        uint32_t batch, length, blocks, pieces; /* pieces: of a unit */
    } rows[] = {
        {1, 131072, 264, 66}, {1, 1024, 264, 4}, {8, 1024, 132, 4},
        {16, 16384, 256, 4},  {1, 64, 8, 1},
    };
    struct dealer dealer;
    dealer_init(&dealer, false);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct deal deal = {.heads = 2,
                            .blocks = rows[i].blocks,
                            .unit_cost = 3,
                            .min_shift = 2,
                            .batch = rows[i].batch};
        for (uint32_t r = 0; r < deal.batch; r++)
            deal.lengths[r] = (int32_t)rows[i].length;
        run(&dealer.backend, &dealer.module, &deal);
        check(&deal);
        const uint32_t tiles = rows[i].length / TOKENS;
        const uint32_t pieces = rows[i].batch * units_of(&deal, 0) * rows[i].pieces;
        for (uint32_t block = 0; block < deal.blocks; block++) {
            const struct run *first = &deal.runs[(size_t)block * MAX_RUNS];
            const uint32_t least = block < pieces ? tiles / rows[i].pieces : 0;
            cr_expect(first->count == least || first->count == least + (block < pieces),
                      "row %zu, block %u: %u tiles", i, block, first->count);
            cr_expect_eq(first[first->count != 0].count, 0, "row %zu, block %u: two runs", i,
                         block);
        }
        deal_finish(&deal);
    }
    dealer_finish(&dealer);
}

/* Lengths of as many tiles, if not of as many tokens; and with a window. */
Test(segments, whole_units_are_dealt_in_turn)
{
    static const struct {
        uint32_t batch, heads, blocks, window;
    } rows[] = {{64, 8, 132, 0}, {32, 8, 132, 0}, {33, 8, 132, 0}, {66, 3, 100, 0},
                {90, 2, 61, 0},  {96, 1, 48, 0},  {96, 5, 31, 0},  {64, 8, 132, 1024}};
    struct dealer dealer;
    dealer_init(&dealer, false);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct deal deal = {.heads = rows[i].heads,
                            .blocks = rows[i].blocks,
                            .window = rows[i].window,
                            .unit_cost = 3,
                            .slack = 1000,
                            .min_shift = 2,
                            .batch = rows[i].batch,
                            .is_one_block = true};
        for (uint32_t r = 0; r < deal.batch; r++)
            deal.lengths[r] = 4096 - (int32_t)(rows[i].window ? 0 : r % 60);
        run(&dealer.backend, &dealer.module, &deal);
        check_in_turn(&deal);
        deal_finish(&deal);
    }
    dealer_finish(&dealer);
}

/* One long request and many of a tile: the short ones do not queue up in a few blocks. */
Test(segments, short_units_are_spread)
{
    struct dealer dealer;
    dealer_init(&dealer, false);
    struct deal deal = {.heads = 4, .blocks = 264, .unit_cost = 3, .min_shift = 2, .batch = 16};
    deal.lengths[0] = 16384;
    for (uint32_t r = 1; r < deal.batch; r++)
        deal.lengths[r] = TOKENS;
    run(&dealer.backend, &dealer.module, &deal);
    check(&deal);
    for (uint32_t block = 0; block < deal.blocks; block++)
        cr_expect_eq(deal.runs[(size_t)block * MAX_RUNS + 3].count, 0, "block %u: four units",
                     block);
    deal_finish(&deal);
    dealer_finish(&dealer);
}

/* Ragged: none, one, and more than fit a unit; and equal, which is cut into pieces. */
Test(segments, runs_of_queries_have_as_many_units_as_they_need)
{
    struct dealer dealer;
    uint32_t state = 7;
    dealer_init(&dealer, true);
    for (uint32_t i = 0; i < 60; i++) {
        struct deal deal = {.has_runs = true,
                            .heads = 1 + i % 3,
                            .unit_heads = 1u << i % 3,
                            .window = i % 5 == 4 ? 700 : 0,
                            .blocks = 1 + next_below(&state, i % 3 ? 40 : MAX_BLOCKS),
                            .unit_cost = i % 7,
                            .slack = i % 7 / 3,
                            .min_shift = i % 3,
                            .batch = next_below(&state, i % 2 ? 8 : 40)};
        const uint32_t queries = 1 + i % 9;
        for (uint32_t r = 0; r < deal.batch; r++) {
            const uint32_t mine = i % 4 == 0 ? queries : next_below(&state, 10);
            deal.lengths[r] = i % 4 == 0   ? 4000
                              : r % 6 == 5 ? 0
                                           : (int32_t)next_below(&state, r % 5 ? 900 : 9000);
            deal.qo_indptr[r + 1] = deal.qo_indptr[r] + (int32_t)mine;
        }
        run(&dealer.backend, &dealer.module, &deal);
        check(&deal);
        deal_finish(&deal);
    }
    dealer_finish(&dealer);
}
