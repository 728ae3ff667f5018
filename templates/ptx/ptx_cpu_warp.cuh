// SPDX-License-Identifier: MIT
// The CPU target: barriers, shuffles, votes, movmatrix, ldmatrix and stmatrix. Included by
// ptx_cpu.cuh. Each lane leaves its operands; the last of the warp to come computes for all.
#pragma once

namespace ftj {
namespace ptx {

constexpr uint32_t all_lanes = 0xffffffffu;

// ---- what the last lane computes ---------------------------------------------------------------
static void compute_nothing(ftj_cpu_lane*) {}

// w[0] of the lane that w[1] names.
static void compute_select(ftj_cpu_lane* lanes) {
    uint32_t values[FTJ_CPU_WARP_LANES];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        values[i] = lanes[i].w[0];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = values[lanes[i].w[1] % FTJ_CPU_WARP_LANES];
}

static void compute_any(ftj_cpu_lane* lanes) {
    uint32_t any = 0;
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        any |= lanes[i].w[0];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = any;
}

// What is said to be the same in all lanes must be.
static void compute_uniform(ftj_cpu_lane* lanes) {
    for (int i = 1; i < FTJ_CPU_WARP_LANES; i++) {
        if (lanes[i].w[0] != lanes[0].w[0])
            __builtin_trap();
    }
}

static void compute_max(ftj_cpu_lane* lanes) {
    uint32_t most = 0;
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        most = lanes[i].w[0] > most ? lanes[i].w[0] : most;
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = most;
}

static void compute_first_lane(ftj_cpu_lane* lanes) {
    uint32_t first = 0;
    while (first < FTJ_CPU_WARP_LANES - 1 && !lanes[first].w[0])
        first++;
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = first;
}

// Any lane may be the one that is elected; here it is the last.
static void compute_elected(ftj_cpu_lane* lanes) {
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = i == FTJ_CPU_WARP_LANES - 1;
}

// Element (row, column) is half column % 2 of lane 4 * row + column / 2.
static void compute_transpose(ftj_cpu_lane* lanes) {
    uint32_t matrix[8][8];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++) {
        matrix[i / 4][2 * (i % 4)] = lanes[i].w[0] & 0xffffu;
        matrix[i / 4][2 * (i % 4) + 1] = lanes[i].w[0] >> 16;
    }
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i].w[0] = matrix[2 * (i % 4)][i / 4] | matrix[2 * (i % 4) + 1][i / 4] << 16;
}

// Row r of matrix m is what lane 8 * m + r has read.
static void compute_matrices(ftj_cpu_lane* lanes) {
    uint32_t halves[FTJ_CPU_WARP_LANES][8];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++) {
        for (int column = 0; column < 8; column++)
            halves[i][column] = lanes[i].w[column / 2] >> (16 * (column % 2)) & 0xffffu;
    }
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++) {
        for (int m = 0; m < 4; m++)
            lanes[i].w[m] =
                halves[8 * m + 2 * (i % 4)][i / 4] | halves[8 * m + 2 * (i % 4) + 1][i / 4] << 16;
    }
}

// w[m] of lanes (r, 0) to (r, 3) to lane 8 * m + r.
static void compute_rows(ftj_cpu_lane* lanes) {
    ftj_cpu_lane rows[FTJ_CPU_WARP_LANES];
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++) {
        for (int c = 0; c < 4; c++)
            rows[i].w[c] = lanes[i % 8 * 4 + c].w[i / 8];
    }
    for (int i = 0; i < FTJ_CPU_WARP_LANES; i++)
        lanes[i] = rows[i];
}

// ---- what a lane calls -------------------------------------------------------------------------
FTJ_DEVICE uint32_t collective(const char* name, ftj_cpu_compute compute, uint32_t w0,
                               uint32_t w1) {
    ftj_cpu_lane lane = {{w0, w1}};
    running_block->calls->warp_collective(running_block, name, compute, &lane);
    return lane.w[0];
}

FTJ_DEVICE void sync_warp() { collective("sync_warp", compute_nothing, 0, 0); }
FTJ_DEVICE void sync_block() { running_block->calls->sync_block(running_block); }

FTJ_DEVICE uint32_t shfl(uint32_t v, uint32_t lane) {
    return collective("shfl", compute_select, v, lane);
}
FTJ_DEVICE float shfl(float v, uint32_t lane) { return bits_float(shfl(float_bits(v), lane)); }
FTJ_DEVICE uint32_t uniform(uint32_t v) { return collective("uniform", compute_uniform, v, 0); }
FTJ_DEVICE uint32_t max_of_warp(uint32_t v) { return collective("max_of_warp", compute_max, v, 0); }
FTJ_DEVICE uint32_t shfl_xor(uint32_t v, uint32_t mask) {
    return collective("shfl_xor", compute_select, v, thread_index() ^ mask);
}
FTJ_DEVICE float shfl_xor(float v, uint32_t mask) {
    return bits_float(shfl_xor(float_bits(v), mask));
}
FTJ_DEVICE uint32_t shfl_up(uint32_t v, uint32_t delta) {
    const uint32_t lane = thread_index() % FTJ_CPU_WARP_LANES;
    return collective("shfl_up", compute_select, v, lane < delta ? lane : lane - delta);
}
FTJ_DEVICE bool any(bool predicate) { return collective("any", compute_any, predicate, 0); }
FTJ_DEVICE uint32_t first_lane(bool predicate) {
    return collective("first_lane", compute_first_lane, predicate, 0);
}
FTJ_DEVICE bool elect_lane() { return collective("elect_lane", compute_elected, 0, 0); }
FTJ_DEVICE uint32_t movmatrix_trans(uint32_t v) {
    return collective("movmatrix_trans", compute_transpose, v, 0);
}
FTJ_DEVICE Words4 ldmatrix_trans(uint32_t address) {
    const Words4 row = ld_shared_v4(address);
    ftj_cpu_lane lane = {{row.w[0], row.w[1], row.w[2], row.w[3]}};
    running_block->calls->warp_collective(running_block, "ldmatrix_trans", compute_matrices, &lane);
    return {{lane.w[0], lane.w[1], lane.w[2], lane.w[3]}};
}
FTJ_DEVICE void stmatrix(uint32_t address, const Words4& v) {
    ftj_cpu_lane lane = {{v.w[0], v.w[1], v.w[2], v.w[3]}};
    running_block->calls->warp_collective(running_block, "stmatrix", compute_rows, &lane);
    st_shared_v4(address, {{lane.w[0], lane.w[1], lane.w[2], lane.w[3]}});
}

}  // namespace ptx
}  // namespace ftj
