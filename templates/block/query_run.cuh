// SPDX-License-Identifier: MIT
// The run of queries of a request, and what each of them sees.
#pragma once
#include "block/divisor.cuh"

namespace ftj {

// Keys by position in the request.
struct KeyRange {
    uint32_t begin;
    uint32_t end;
};

// The queries of one request: query i stands at position `position` + i.
struct QueryRun {
    uint32_t first;  // row of qo_indptr: the run's first query
    uint32_t queries;
    uint32_t length;   // keys of the request, the queries' own included
    int32_t position;  // negative: more queries than keys; those before key 0 see nothing

    template <class Params>
    static __device__ __forceinline__ QueryRun of(const Params& p, uint32_t request) {
        const auto* starts = pointer<const int32_t>(p.qo_indptr);
        const int32_t first = starts[request];
        const int32_t queries = max_of(starts[request + 1] - first, 0);
        int32_t length;
        if (p.requests.indptr) {
            const auto* indptr = pointer<const int32_t>(p.requests.indptr);
            length = max_of(indptr[request + 1] - indptr[request], 0);
        } else {
            length = max_of(pointer<const int32_t>(p.requests.lengths)[request], 0);
        }
        return {uint32_t(first), uint32_t(queries), uint32_t(length), length - queries};
    }

    // What one query sees. Queries past the last are no worse off than it.
    __device__ __forceinline__ KeyRange seen_by(uint32_t query, uint32_t window) const {
        const int32_t stop = min_of(position + int32_t(query) + 1, int32_t(length));
        const uint32_t end = max_of(stop, 0);
        return {window && end > window ? end - window : 0, end};  // any window, up to 2^32 - 1
    }

    __device__ __forceinline__ uint32_t num_rows(uint32_t group) const { return queries * group; }

    // Keys at and past it are in k_new and v_new.
    __device__ __forceinline__ uint32_t cached(const ftj_extend_params& p) const {
        return p.k_new ? uint32_t(max_of(position, 0)) : length;
    }
};

}  // namespace ftj
