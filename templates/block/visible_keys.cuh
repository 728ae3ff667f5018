// SPDX-License-Identifier: MIT
// Which keys a decode's requests show to their queries, and how many units that makes: what dealing
// (segments.cuh) depends on, and only the device knows.
#pragma once
#include "block/query_run.cuh"
#include "block/types.cuh"

namespace ftj {

// The keys one request shows to its query.
struct Visible {
    static constexpr bool is_run = false;
    uint32_t begin;
    uint32_t end;

    __device__ __forceinline__ uint32_t num_tiles(uint32_t tile_shift) const {
        return end > begin ? ((end - 1) >> tile_shift) - (begin >> tile_shift) + 1 : 0;
    }
    static __device__ __forceinline__ uint32_t num_queries() { return 1; }
    // Of q and o: the query's.
    static __device__ __forceinline__ uint32_t first_row(uint32_t request) { return request; }
    __device__ __forceinline__ Visible seen_by_all(const ftj_decode_params&) const { return *this; }

    // Blocks of columns that a kv head has. A request's units are those of all sets of them: a
    // factor that all requests have alike, and one of its own.
    static __device__ __forceinline__ uint32_t head_blocks(const ftj_decode_params& p) {
        return p.head_blocks;
    }
    static __device__ __forceinline__ uint32_t units_alike(const ftj_decode_params& p) {
        return p.head_sets * p.head_blocks;
    }
    static __device__ __forceinline__ uint32_t own_units(const ftj_decode_params&) { return 1; }

    __device__ __forceinline__ Visible of_lane(uint32_t lane) const {
        return {ptx::shfl(begin, lane), ptx::shfl(end, lane)};
    }
};

// The keys that some query of a request's run sees, and the run. Blocks have block_columns columns.
template <uint32_t block_columns>
struct VisibleToRun : Visible {
    static constexpr bool is_run = true;
    uint32_t first;  // of the rows of q and o
    uint32_t queries;

    __device__ __forceinline__ uint32_t num_queries() const { return queries; }
    __device__ __forceinline__ uint32_t first_row(uint32_t) const { return first; }

    // What one query sees. Queries past the last are no worse off than it.
    __device__ __forceinline__ KeyRange seen_by(uint32_t query, uint32_t window) const {
        const QueryRun run = {first, queries, end, int32_t(end) - int32_t(queries)};
        return run.seen_by(query, window);
    }
    __device__ __forceinline__ Visible seen_by_all(const ftj_decode_params& p) const {
        return {seen_by(queries - 1, p.requests.window).begin, seen_by(0, 0).end};
    }

    __device__ __forceinline__ uint32_t head_blocks(const ftj_decode_params& p) const {
        return (queries * p.group + block_columns - 1) / block_columns;
    }
    static __device__ __forceinline__ uint32_t units_alike(const ftj_decode_params& p) {
        return p.head_sets;
    }
    __device__ __forceinline__ uint32_t own_units(const ftj_decode_params& p) const {
        return head_blocks(p);
    }

    __device__ __forceinline__ VisibleToRun of_lane(uint32_t lane) const {
        return {Visible::of_lane(lane), ptx::shfl(first, lane), ptx::shfl(queries, lane)};
    }
};

FTJ_DEVICE Visible visible_of(const ftj_requests_params& requests, int32_t given) {
    const auto length = static_cast<uint32_t>(max_of(given, 0));
    const uint32_t window = requests.window;
    return {window && length > window ? length - window : 0, length};
}

template <bool slot_table>
FTJ_DEVICE Visible visible_keys(const ftj_requests_params& requests, uint32_t request) {
    int32_t given;
    if constexpr (slot_table) {
        const auto* indptr = pointer<const int32_t>(requests.indptr);
        given = indptr[request + 1] - indptr[request];
    } else {
        given = pointer<const int32_t>(requests.lengths)[request];
    }
    return visible_of(requests, given);
}

// Requests whose lengths a block may read early, at most (first_tiles.cuh).
constexpr uint32_t most_early_requests = 128;

// How the keys of a request are found out: the kind of table is known when a kernel is compiled,
// or not, or there are runs of queries. The newest() are those that a block begins with, which, if
// `is_early`, the kernel before may have yet to write (first_tiles.cuh).
template <bool slot_table, bool turns>
struct OfTable {
    using Keys = Visible;
    static constexpr bool takes_turns = turns;  // with whole units: segments.cuh
    static constexpr int32_t most_early = (1 << 27) / most_early_requests;  // the row has room
    static __device__ __forceinline__ Keys keys(const ftj_decode_params& p, uint32_t request) {
        return visible_keys<slot_table>(p.requests, request);
    }
    static __device__ __forceinline__ Keys newest(const ftj_decode_params& p, uint32_t request,
                                                  bool is_early) {
        if constexpr (slot_table)
            return keys(p, request);
        const auto* lengths = pointer<const int32_t>(p.requests.lengths);
        const auto length = int32_t(ptx::ld_past_l1(lengths + request, is_early ? 1 : 0));
        return visible_of(p.requests, is_early ? min_of(length, most_early) : length);
    }
};
struct OfAnyTable {
    using Keys = Visible;
    static constexpr bool takes_turns = false;  // nor anything to do where there are any
    static __device__ __forceinline__ Keys keys(const ftj_decode_params& p, uint32_t request) {
        return p.requests.indptr ? visible_keys<true>(p.requests, request)
                                 : visible_keys<false>(p.requests, request);
    }
    static __device__ __forceinline__ Keys newest(const ftj_decode_params& p, uint32_t request,
                                                  bool) {
        return keys(p, request);
    }
};
template <uint32_t block_columns>
struct OfRuns {
    using Keys = VisibleToRun<block_columns>;
    static constexpr bool takes_turns = false;
    static __device__ __forceinline__ Keys keys(const ftj_decode_params& p, uint32_t request) {
        const QueryRun run = QueryRun::of(p, request);
        if (run.queries == 0)
            return {};
        return {{run.seen_by(0, p.requests.window).begin, run.length}, run.first, run.queries};
    }
    static __device__ __forceinline__ Keys newest(const ftj_decode_params& p, uint32_t request,
                                                  bool) {
        return keys(p, request);
    }
};

// The keys of a request, which end where `ends` says, if it is given.
template <class Table>
FTJ_DEVICE typename Table::Keys keys_of(const ftj_decode_params& p, uint32_t request,
                                        const uint32_t* ends) {
    if constexpr (!Table::Keys::is_run) {
        if (ends)
            return visible_of(p.requests, int32_t(ends[request]));
    }
    return Table::keys(p, request);
}

// Reads a request's row of the table, or its run of slots.
struct TablePages {
    __device__ __forceinline__ uint32_t operator()(const int32_t* row, uint32_t column) const {
        return static_cast<uint32_t>(row[column]);
    }
};

// One of these, by what a kernel is for.
template <class One, class Run, bool has_runs>
struct OneOrRun {
    using Type = One;
};
template <class One, class Run>
struct OneOrRun<One, Run, true> {
    using Type = Run;
};
template <class Config>
using RequestTable = typename OneOrRun<OfTable<Config::slot_table, Config::takes_turns>,
                                       OfRuns<8 * Config::n_tiles>, Config::has_runs>::Type;

}  // namespace ftj
