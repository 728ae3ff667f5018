// SPDX-License-Identifier: MIT
// Row encoder of a 16-bit cache: the bits as they are, or rounded to nearest even.
//
// Every encode_*.cuh offers encode<lanes>(values, row, lane, is_stored): a row is spread over
// `lanes` lanes, 16 values each; all lanes of the warp call it, those with is_stored false write
// nothing.
#pragma once
#include "block/cache_row.cuh"
#include "block/source_values.cuh"

namespace ftj {

template <class Element>
struct Encode16bit {
    template <int lanes, class Source>
    static __device__ __forceinline__ void encode(const SourceValues<Source>& values,
                                                  const CacheRow& row, uint32_t lane,
                                                  bool is_stored) {
        if (!is_stored)
            return;
        const SourceValues<Element> narrowed = narrow(values);
        auto* to = pointer<ptx::Words4>(row.codes) + lane * SourceValues<Element>::num_vectors;
#pragma unroll
        for (int i = 0; i < SourceValues<Element>::num_vectors; i++) {
            const uint32_t* w = narrowed.words + 4 * i;
            to[i] = {{w[0], w[1], w[2], w[3]}};
        }
    }

private:
    static __device__ __forceinline__ SourceValues<Element> narrow(
        const SourceValues<Element>& values) {
        return values;
    }

    template <class Source>
    static __device__ __forceinline__ SourceValues<Element> narrow(
        const SourceValues<Source>& values) {
        SourceValues<Element> narrowed;
#pragma unroll
        for (int i = 0; i < SourceValues<Element>::num_words; i++) {
            const uint32_t low = Element::narrow(values.value(2 * i));
            const uint32_t high = Element::narrow(values.value(2 * i + 1));
            narrowed.words[i] = low | high << 16;
        }
        return narrowed;
    }
};

}  // namespace ftj
