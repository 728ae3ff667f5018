/* SPDX-License-Identifier: MIT */
/* The read and copy ceilings: streaming kernels through NVRTC, and the driver's copy, on a GPU;
 * plain loops on the CPU. */
#include "bench/bench_ceiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_random.h"
#include "codegen/compile.h"
#include "ftjit/memory.h"

#define CEILING_BYTES     (8ull << 30)
#define CEILING_BYTES_CPU (64ull << 20)
#define STREAM_THREADS    512
#define STREAM_BLOCKS     2 /* per SM: as many as fit with eight loads in registers */

/* Eight independent loads of 16 bytes in flight per thread; what is read must reach the sum, and
 * the sum must be able to reach memory, or the compiler would drop the loads. */
static const char read_source[] =
    "extern \"C\" __global__ __launch_bounds__(512, 2)\n"
    "void ftj_bench_read(const uint4 *in, unsigned long long count, uint4 *out) {\n"
    "    const unsigned long long all = gridDim.x * 512ull;\n"
    "    const unsigned long long first = blockIdx.x * 512ull + threadIdx.x;\n"
    "    uint4 sum = {0, 0, 0, 0};\n"
    "    for (unsigned long long at = first; at < count; at += 8 * all) {\n"
    "        uint4 part[8];\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < 8; i++) {\n"
    "            const unsigned long long index = at + i * all;\n"
    "            part[i] = index < count ? __ldcs(in + index) : sum;\n"
    "        }\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < 8; i++) {\n"
    "            sum.x ^= part[i].x; sum.y += part[i].y; sum.z ^= part[i].z; sum.w += part[i].w;\n"
    "        }\n"
    "    }\n"
    "    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u && sum.x == 0x7f4a7c15u)\n"
    "        out[0] = sum;\n"
    "}\n";

/* The same, but every load is stored. */
static const char copy_source[] =
    "extern \"C\" __global__ __launch_bounds__(512, 2)\n"
    "void ftj_bench_copy(const uint4 *in, unsigned long long count, uint4 *out) {\n"
    "    const unsigned long long all = gridDim.x * 512ull;\n"
    "    const unsigned long long first = blockIdx.x * 512ull + threadIdx.x;\n"
    "    for (unsigned long long at = first; at < count; at += 8 * all) {\n"
    "        uint4 part[8];\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < 8; i++)\n"
    "            if (at + i * all < count)\n"
    "                part[i] = __ldcs(in + at + i * all);\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < 8; i++)\n"
    "            if (at + i * all < count)\n"
    "                __stcs(out + at + i * all, part[i]);\n"
    "    }\n"
    "}\n";

enum stream_kind { STREAM_READ, STREAM_COPY, STREAM_DRIVER_COPY };

ftj_status bench_kernel_load(const struct bench_session *session, const char *name,
                             const char *source, struct CUmod_st **module,
                             struct CUfunc_st **function)
{
    const struct bench_driver *driver = &session->timer.driver;
    const char *path = session->info.compiler_path;
    struct ftj_compiler compiler = {0};
    struct ftj_source unit = {.template_id = name, .allow_fma = true};
    struct ftj_binary binary = {0};

    snprintf(unit.target, sizeof(unit.target), "%s", session->info.target);
    ftj_text_append(&unit.text, source, strlen(source));
    ftj_status status = ftj_nvrtc_find(&compiler, path[0] ? path : NULL, NULL);
    if (!status)
        status = compiler.compile(&compiler, &unit, &binary);
    if (status == FTJ_E_COMPILE) {
        char complaint[256];
        ftj_binary_complaint(&binary, complaint, sizeof(complaint));
        status =
            ftj_fail(NULL, status, "%s for %s does not compile: %s", name, unit.target, complaint);
    }
    if (!status)
        status = bench_driver_check(driver, driver->module_load(module, binary.code.data),
                                    "cuModuleLoadData");
    if (!status)
        status = bench_driver_check(
            driver, driver->module_function(function, *module, ftj_kernel_symbol(name).name),
            "cuModuleGetFunction");

    ftj_binary_finish(&binary);
    ftj_source_finish(&unit);
    ftj_compiler_finish(&compiler);
    return status;
}

/* One read or copy of a graph: `bytes` each, at places of the buffer in turn. */
struct stream_job {
    struct bench_session *session;
    uint64_t bytes;
    uint32_t num_places;
    enum stream_kind kind;
    uint64_t sum; /* of what the CPU read: keeps the loop alive */
};

static ftj_status stream_on_gpu(void *data, uint32_t index, struct CUstream_st *stream)
{
    const struct stream_job *job = data;
    const struct bench_driver *driver = &job->session->timer.driver;
    const struct bench_ceiling *ceiling = &job->session->ceiling;
    unsigned long long base = (uintptr_t)ceiling->buffer;
    if (job->kind == STREAM_DRIVER_COPY)
        return bench_driver_check(
            driver, driver->copy_on_device(base + job->bytes, base, job->bytes, stream),
            "cuMemcpyDtoDAsync");

    const bool is_copy = job->kind == STREAM_COPY;
    unsigned long long in = is_copy ? base : base + index % job->num_places * job->bytes;
    unsigned long long out = is_copy ? base + job->bytes : base;
    unsigned long long count = job->bytes / 16;
    void *arguments[] = {&in, &count, &out};
    return bench_driver_check(driver,
                              driver->launch(is_copy ? ceiling->copy : ceiling->read,
                                             STREAM_BLOCKS * job->session->info.num_sms, 1, 1,
                                             STREAM_THREADS, 1, 1, 0, stream, arguments, NULL),
                              "cuLaunchKernel");
}

static ftj_status stream_on_cpu(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct stream_job *job = data;
    uint8_t *buffer = job->session->ceiling.buffer;
    (void)stream;
    if (job->kind != STREAM_READ) {
        memcpy(buffer + job->bytes, buffer, job->bytes);
        return FTJ_OK;
    }
    const uint8_t *from = buffer + index % job->num_places * job->bytes;
    uint64_t sum = job->sum;
    for (uint64_t at = 0; at + sizeof(sum) <= job->bytes; at += sizeof(sum)) {
        uint64_t word;
        memcpy(&word, from + at, sizeof(word));
        sum += word;
    }
    job->sum = sum;
    return FTJ_OK;
}

/* GB/s; a copy's bytes count twice. */
static ftj_status stream_gbs(struct bench_session *session, uint64_t bytes, enum stream_kind kind,
                             double *gbs)
{
    const bool on_gpu = session->info.kind == FTJ_DEVICE_CUDA;
    const uint64_t places = session->ceiling.bytes / bytes;
    struct stream_job job = {
        .session = session,
        .bytes = bytes,
        .num_places = places < 1024 ? (uint32_t)places : 1024,
        .kind = kind,
    };
    const uint32_t enough = on_gpu ? (uint32_t)((4ull << 30) / bytes) : 1;
    const uint32_t num_calls = enough < 1 ? 1 : enough > 512 ? 512 : enough;
    struct bench_stats us = {0};
    const ftj_status status =
        bench_time(&session->timer, on_gpu ? stream_on_gpu : stream_on_cpu, &job, num_calls, &us);
    if (status)
        return status;
    *gbs = 1e-3 * (double)bytes * (kind == STREAM_READ ? 1 : 2) / us.median;
    return FTJ_OK;
}

ftj_status bench_ceiling_read(struct bench_session *session, uint64_t bytes, double *gbs)
{
    const uint64_t whole = bytes < 4096 ? 4096 : bytes & ~(uint64_t)15;
    return stream_gbs(session, whole < session->ceiling.bytes ? whole : session->ceiling.bytes,
                      STREAM_READ, gbs);
}

/* Random bytes all over: drawn once, then copied along. */
static ftj_status fill_buffer(struct bench_session *session)
{
    const uint64_t drawn = 16ull << 20;
    struct bench_random random = {session->seed};
    uint64_t *host = malloc(drawn);
    if (!host)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for the ceiling's inputs");
    for (uint64_t i = 0; i < drawn / sizeof(*host); i++)
        host[i] = bench_random_bits(&random);

    ftj_status status = FTJ_OK;
    uint8_t *buffer = session->ceiling.buffer;
    for (uint64_t at = 0; at < session->ceiling.bytes && !status; at += drawn) {
        const uint64_t left = session->ceiling.bytes - at;
        status = ftj_memory_write(session->ctx, buffer + at, host, left < drawn ? left : drawn);
    }
    free(host);
    return status;
}

/* What the device copies at best: which of the two is faster differs from GPU to GPU. */
static ftj_status measure_copy(struct bench_session *session)
{
    struct bench_ceiling *ceiling = &session->ceiling;
    const uint64_t half = ceiling->bytes / 2;
    ftj_status status = stream_gbs(session, half, STREAM_COPY, &ceiling->copy_gbs);
    if (status || session->info.kind != FTJ_DEVICE_CUDA)
        return status;
    double by_driver = 0;
    status = stream_gbs(session, half, STREAM_DRIVER_COPY, &by_driver);
    if (by_driver > ceiling->copy_gbs)
        ceiling->copy_gbs = by_driver;
    return status;
}

ftj_status bench_ceiling_init(struct bench_session *session)
{
    struct bench_ceiling *ceiling = &session->ceiling;
    const bool on_gpu = session->info.kind == FTJ_DEVICE_CUDA;
    ceiling->bytes = on_gpu ? CEILING_BYTES : CEILING_BYTES_CPU;
    while (ceiling->bytes > session->info.memory_bytes / 4 && ceiling->bytes > (64ull << 20))
        ceiling->bytes /= 2;

    ftj_status status = ftj_memory_alloc(session->ctx, ceiling->bytes, &ceiling->buffer);
    if (!status)
        status = fill_buffer(session);
    if (!status && on_gpu)
        status =
            bench_kernel_load(session, "bench_read", read_source, &ceiling->module, &ceiling->read);
    if (!status && on_gpu)
        status = bench_kernel_load(session, "bench_copy", copy_source, &ceiling->copy_module,
                                   &ceiling->copy);
    if (!status)
        status = stream_gbs(session, ceiling->bytes, STREAM_READ, &ceiling->read_gbs);
    if (!status)
        status = measure_copy(session);
    return status;
}

void bench_ceiling_finish(struct bench_session *session)
{
    if (session->ceiling.module)
        session->timer.driver.module_unload(session->ceiling.module);
    if (session->ceiling.copy_module)
        session->timer.driver.module_unload(session->ceiling.copy_module);
    if (session->ctx)
        ftj_memory_free(session->ctx, session->ceiling.buffer);
    session->ceiling = (struct bench_ceiling){0};
}
