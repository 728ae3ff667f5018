/* SPDX-License-Identifier: MIT */
/* block/unit_deal.cuh on the CPU target: every tile of every unit is given out once, in equal
 * shares, and the parts of a unit are where its first says they are. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernel.h"
#include "templates/block/params.h"

#define MAX_BATCH  96
#define MAX_PARTS  4096 /* of one block */
#define BLOCK_ROWS 128
#define TOKENS     128
#define UNIT_COST  3
#define PAIRED     (1u << 31)
#define MOST_SHORT 512 /* keys of a request whose units may be dealt whole */

/* Of a kernel for blocks alone, and of one that may be launched in clusters of two. */
#define ALONE "#define HAS_PEER false\n"
#define PAIRS "#define HAS_PEER true\n"

#define UNIT(has_peer)                                                                             \
    has_peer                                                                                       \
        "#include \"ptx/ptx_cpu.cuh\"\n"                                                           \
        "#include \"block/unit_deal.cuh\"\n"                                                       \
        "struct Config {\n"                                                                        \
        "    static constexpr int num_threads = 384;\n"                                            \
        "    static constexpr int block_rows = 128;\n"                                             \
        "    static constexpr int tile_tokens = 128;\n"                                            \
        "    static constexpr int new_tokens = 128;\n"                                             \
        "    static constexpr bool slot_table = false;\n"                                          \
        "    static constexpr bool has_peer = HAS_PEER;\n"                                         \
        "};\n"                                                                                     \
        "struct Part { uint32_t request, index, head, tile, end, tiles, slot, parts, paired; };\n" \
        "extern \"C\" __global__ void ftj_kernel(const __grid_constant__ ftj_extend_params p) {\n" \
        "    using namespace ftj;\n"                                                               \
        "    using Deal = UnitDeal<Config>;\n"                                                     \
        "    unsigned char* shared = ptx::dynamic_shared();\n"                                     \
        "    Deal& deal = *reinterpret_cast<Deal*>(shared + Deal::shared_bytes);\n"                \
        "    Deal::deal(p, shared, deal);\n"                                                       \
        "    if (ptx::thread_index() != 0)\n"                                                      \
        "        return;\n"                                                                        \
        "    Part* to = pointer<Part>(p.o) + 4096 * ptx::block_index();\n"                         \
        "    for (deal.advance(p); deal.end > deal.unit.tile; deal.advance(p))\n"                  \
        "        *to++ = {deal.unit.request, deal.unit.index, deal.unit.head, deal.unit.tile,\n"   \
        "                 deal.end, deal.unit.tiles, deal.slot, deal.parts, deal.is_paired};\n"    \
        "}\n"                                                                                      \
        "FTJ_CPU_ENTRY(ftj_kernel, ftj_extend_params)\n"

struct part {
    uint32_t request, index, head, tile, end, tiles, slot, parts, paired;
};

struct deal {
    uint32_t batch;
    uint32_t heads;
    uint32_t group;
    uint32_t window;
    uint32_t blocks;
    bool in_pairs; /* launched as clusters */
    int32_t lengths[MAX_BATCH];
    int32_t qo_indptr[MAX_BATCH + 1];
    struct part *parts; /* [blocks][MAX_PARTS], ended by one without tiles */
};

static void run(struct ftj_backend *backend, struct ftj_module *module, struct deal *deal)
{
    const size_t bytes = (size_t)deal->blocks * MAX_PARTS * sizeof(*deal->parts);
    deal->parts = calloc(1, bytes);
    cr_assert_not_null(deal->parts);
    const ftj_extend_params params = {
        .requests = {.lengths = (uintptr_t)deal->lengths,
                     .batch = deal->batch,
                     .window = deal->window},
        .qo_indptr = (uintptr_t)deal->qo_indptr,
        .o = (uintptr_t)deal->parts,
        .num_kv_heads = deal->heads,
        .group = deal->group,
        .heads_inverse = UINT32_MAX / deal->heads,
        .group_inverse = UINT32_MAX / deal->group,
        .block_rows = BLOCK_ROWS,
    };
    const struct ftj_grid grid = {deal->blocks, deal->in_pairs ? 2 : 1};
    cr_assert_eq(backend->ops->launch(backend, module, grid, &params, sizeof(params), NULL),
                 FTJ_OK);
}

static const struct part *part_at(const struct deal *deal, uint32_t block, uint32_t i)
{
    return &deal->parts[(size_t)block * MAX_PARTS + i];
}

static bool same_unit(const struct part *a, const struct part *b)
{
    return a->request == b->request && a->index == b->index && a->head == b->head;
}

/* A unit that a block starts and others end: where are the others? */
static void check_parts(const struct deal *deal, uint32_t block, const struct part *first)
{
    uint32_t tile = first->end;
    for (uint32_t i = 1; i < first->parts; i++) {
        const struct part *next = part_at(deal, block + i, 0);
        while (next->end && next->slot != 2 * (block + i))
            next++;
        cr_assert(next->end && same_unit(first, next) && next->tile == tile,
                  "block %u: part %u of a unit is not where it should be", block, i);
        tile = next->end;
    }
    cr_assert_eq(tile, first->tiles, "block %u: the parts of a unit end at tile %u of %u", block,
                 tile, first->tiles);
}

/* The other block of the cluster has, at the same time, the other query tile of two. */
static void check_pair(const struct deal *deal, uint32_t block, const struct part *part)
{
    const struct part *its = part_at(deal, block ^ 1, (uint32_t)(part - part_at(deal, block, 0)));
    cr_assert(its->paired && its->request == part->request && its->index == (part->index ^ 1) &&
                  its->head == part->head && its->tile == part->tile && its->end == part->end,
              "block %u: query tile %u is paired, and %u of block %u is not", block, part->index,
              its->index, block ^ 1);
}

static uint64_t check_block(const struct deal *deal, uint32_t block, uint32_t *seen)
{
    uint64_t cost = 0;
    for (const struct part *part = part_at(deal, block, 0); part->end; part++) {
        const uint32_t query_tiles = MAX_PARTS / 8;
        uint32_t *unit_seen =
            seen + ((size_t)part->request * query_tiles + part->index) * deal->heads + part->head;
        cr_assert_lt(part->index, query_tiles);
        cr_assert_leq(part->end, part->tiles);
        *unit_seen += part->end - part->tile;
        cost += part->end - part->tile + (part->tile ? 0 : UNIT_COST);
        if (part->paired) {
            *unit_seen |= PAIRED;
            check_pair(deal, block, part);
        }
        if (part->parts)
            check_parts(deal, block, part);
        else
            cr_assert(part->tile > 0 || part->end == part->tiles, "a unit without its end");
    }
    return cost;
}

/* Tiles of keys that query tiles `first` to `last` of a request see. */
static uint32_t tiles_seen(const struct deal *deal, uint32_t r, uint32_t first, uint32_t last)
{
    const int32_t queries = deal->qo_indptr[r + 1] - deal->qo_indptr[r];
    const uint32_t rows = (uint32_t)queries * deal->group;
    const uint32_t end_row = (last + 1) * BLOCK_ROWS < rows ? (last + 1) * BLOCK_ROWS : rows;
    const int32_t end = deal->lengths[r] - queries + (int32_t)((end_row - 1) / deal->group) + 1;
    const int32_t from = deal->lengths[r] - queries + (int32_t)(first * BLOCK_ROWS / deal->group) +
                         1 - (int32_t)deal->window;
    const int32_t begin = deal->window && from > 0 ? from : 0;
    return end > begin ? (uint32_t)((end - 1) / TOKENS - begin / TOKENS + 1) : 1;
}

static void check_request(const struct deal *deal, uint32_t r, const uint32_t *seen)
{
    const uint32_t queries = (uint32_t)(deal->qo_indptr[r + 1] - deal->qo_indptr[r]);
    for (uint32_t i = 0; i * BLOCK_ROWS < queries * deal->group; i++) {
        for (uint32_t h = 0; h < deal->heads; h++) {
            const uint32_t its = seen[((size_t)r * (MAX_PARTS / 8) + i) * deal->heads + h];
            const uint32_t paired = its & PAIRED ? 1 : 0;
            const uint32_t tiles = tiles_seen(deal, r, i & ~paired, i | paired);
            cr_assert_eq(its & ~PAIRED, tiles, "request %u, query tile %u, head %u: %u of %u tiles",
                         r, i, h, its & ~PAIRED, tiles);
        }
    }
}

static void check(const struct deal *deal)
{
    const size_t units = (size_t)deal->batch * (MAX_PARTS / 8) * deal->heads;
    uint32_t *seen = calloc(units, sizeof(*seen));
    cr_assert_not_null(seen);
    uint64_t least = UINT64_MAX, most = 0, total = 0;
    for (uint32_t block = 0; block < deal->blocks; block++) {
        const uint64_t cost = check_block(deal, block, seen);
        least = cost < least ? cost : least;
        most = cost > most ? cost : most;
        total += cost;
    }
    /* A unit's cost falls to one block even where the cut is within it, and so does a unit that is
     * dealt whole. Of what is paired, a sixteenth is taken to be saved. */
    const uint64_t saved = deal->in_pairs ? total / deal->blocks / 16 : 0;
    cr_expect_leq(most, total / deal->blocks + 1 + 2 * UNIT_COST + MOST_SHORT / TOKENS + 1 + saved,
                  "%llu of %llu in %u blocks", (unsigned long long)most, (unsigned long long)total,
                  deal->blocks);
    for (uint32_t r = 0; r < deal->batch; r++)
        check_request(deal, r, seen);
    free(seen);
}

static void add_request(struct deal *deal, int32_t queries, int32_t length)
{
    deal->lengths[deal->batch] = length;
    deal->qo_indptr[deal->batch + 1] = deal->qo_indptr[deal->batch] + queries;
    deal->batch++;
}

/* A long request's units take tiles of all blocks; what the others' cost, all blocks pay alike. */
static void check_short_ones_are_spread(const struct deal *deal)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t block = 0; block < deal->blocks; block++) {
        uint32_t count = 0;
        for (const struct part *part = part_at(deal, block, 0); part->end; part++) {
            if (part->request != 0) {
                cr_expect_eq(part->end - part->tile, part->tiles, "it is not whole");
                count++;
            }
        }
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    cr_expect_leq(most - least, 1, "%u to %u of a block", least, most);
}

struct session {
    struct ftj_log log;
    struct ftj_bytes code;
    struct ftj_backend backend;
    struct ftj_module module;
};

static void open_session(struct session *session, const char *unit)
{
    const struct ftj_config config = {
        .num_threads = 384, .smem_bytes = 384 * 4 + 12 * 24 + 1024, .cluster_blocks = 2};
    *session = (struct session){0};
    cr_assert_eq(cpu_kernel_compile(unit, &session->log, &session->code), FTJ_OK);
    cr_assert_eq(ftj_cpu_backend_init(&session->backend, &(ftj_settings){.kind = FTJ_DEVICE_CPU},
                                      &session->log),
                 FTJ_OK);
    cr_assert_eq(session->backend.ops->module_load(&session->backend, &session->code, &config,
                                                   &session->module),
                 FTJ_OK);
}

static void close_session(struct session *session)
{
    session->backend.ops->module_unload(&session->backend, &session->module);
    ftj_backend_finish(&session->backend);
    ftj_bytes_finish(&session->code);
}

Test(unit_deal, spreads_the_units_of_short_requests)
{
    struct session session;
    open_session(&session, UNIT(ALONE));
    for (uint32_t blocks = 20; blocks < 60; blocks += 13) {
        struct deal deal = {.heads = 8, .group = 4, .blocks = blocks};
        add_request(&deal, 8000, 8000);
        for (int i = 0; i < 63; i++)
            add_request(&deal, 128, 128);
        run(&session.backend, &session.module, &deal);
        check(&deal);
        check_short_ones_are_spread(&deal);
        free(deal.parts);
    }
    close_session(&session);
}

static uint32_t count_paired(const struct deal *deal)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < deal->blocks; block++) {
        for (const struct part *part = part_at(deal, block, 0); part->end; part++)
            count += part->paired;
    }
    return count;
}

static void deal_all(const char *unit, bool in_pairs)
{
    struct session session;
    uint32_t num_paired = 0;
    open_session(&session, unit);
    for (uint32_t i = 0; i < 24; i++) {
        struct deal deal = {.heads = 1 + i % 8, .group = 1 + i * 5 % 9, .in_pairs = in_pairs};
        deal.blocks = in_pairs ? 2 + i * 6 % 40 : 1 + i * 7 % 40;
        deal.window = i % 3 == 2 ? 300 : 0;
        if (i % 4 != 1)
            add_request(&deal, 900 + 211 * (int32_t)i, 2000 + 400 * (int32_t)i); /* in rounds */
        for (uint32_t r = 0; r < i * 4 % 60; r++)
            add_request(&deal, (int32_t)((r * 37 + i) % 200), (int32_t)((r * 911 + i) % 1900));
        if (i % 4 == 1)
            add_request(&deal, 1, 70000); /* one query over a long prefix */
        if (i % 4 == 2)
            add_request(&deal, 4000, 4000);
        run(&session.backend, &session.module, &deal);
        check(&deal);
        num_paired += count_paired(&deal);
        free(deal.parts);
    }
    cr_expect_eq(num_paired > 100, in_pairs, "%u units were paired", num_paired);
    close_session(&session);
}

Test(unit_deal, gives_every_tile_once_in_equal_shares)
{
    deal_all(UNIT(ALONE), false);
}

Test(unit_deal, gives_the_blocks_of_a_cluster_the_same_keys)
{
    deal_all(UNIT(PAIRS), true);
}

Test(unit_deal, pairs_no_blocks_that_are_launched_alone)
{
    deal_all(UNIT(PAIRS), false);
}
