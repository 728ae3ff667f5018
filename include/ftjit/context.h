/* SPDX-License-Identifier: MIT */
/* A context: one device, probed once, and every kernel built for it. */
#ifndef FTJIT_CONTEXT_H
#define FTJIT_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ftjit/kernel_event.h"
#include "ftjit/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's own types, forward declared: no CUDA header is needed to use this library. */
struct CUctx_st;
struct CUstream_st;

typedef struct ftj_context ftj_context;

typedef enum ftj_device_kind {
    FTJ_DEVICE_CUDA = 0, ///< an NVIDIA GPU, through the driver API
    FTJ_DEVICE_CPU = 1,  ///< the host: the same kernels, for tests and debugging, slow
} ftj_device_kind;

typedef enum ftj_log_level {
    FTJ_LOG_ERROR = 0,
    FTJ_LOG_WARNING = 1,
    FTJ_LOG_INFO = 2,  ///< one line per compile, with its cause
    FTJ_LOG_DEBUG = 3, ///< cache look-ups, launches
} ftj_log_level;

/** Where NVRTC runs. The CPU target's compiler is a process of its own in any case. */
typedef enum ftj_compile_mode {
    FTJ_COMPILE_DEFAULT = 0, ///< as FTJIT_COMPILE says, else on a thread
    FTJ_COMPILE_THREAD = 1,  ///< in this process, on a thread of its own
    FTJ_COMPILE_PROCESS =
        2, ///< in a process of its own, ftjit-cc: whatever happens to it is an error
} ftj_compile_mode;

/** Receives one full sentence, without a newline. May be called from any thread. */
typedef void (*ftj_log_fn)(void *data, ftj_log_level level, const char *sentence);

/** How to open a device. A zeroed struct is GPU 0 with every default. Borrowed for the call. */
typedef struct ftj_settings {
    ftj_device_kind kind;
    int device;                    ///< CUDA ordinal
    struct CUctx_st *cuda_context; ///< kept until destroy; NULL: the device's primary context
    const char *features;          ///< narrows the probe's answer, "-fp8_convert,-cp_async" or
                                   ///< "none"; NULL: FTJIT_FEATURES
    const char *cache_dir;         ///< writable cache root; NULL: FTJIT_CACHE_DIR, XDG, HOME
    const char *driver_path;       ///< libcuda; NULL: FTJIT_CUDA_DRIVER, then the loader's names,
                                   ///< WSL's folder and the usual ones
    const char *compiler_path;     ///< libnvrtc (CUDA) or the C++ compiler (CPU); NULL:
                                   ///< FTJIT_NVRTC or FTJIT_CXX, then the usual places
    bool no_cache;                 ///< keep compiled kernels in memory only; cache_path is not
                                   ///< looked into either
    ftj_log_fn log;                ///< NULL: errors and warnings to nobody, see ftj_last_error()
    void *log_data;                ///< kept until destroy
    ftj_log_level log_level;       ///< sentences above this level are dropped
    ftj_compile_mode compile_mode; ///< a forked process compiles in a process of its own anyway
    const char *cache_path;        ///< bundles and roots that are only read, asked in this order
                                   ///< after cache_dir, "a.ftb:/opt/cache"; NULL: FTJIT_CACHE_PATH
    const char *bundle_digest;     ///< SHA-256 that the bundles must have, in hex; several with
                                   ///< commas between; NULL: FTJIT_BUNDLE_SHA256, else any
    const char *cache_owners;      ///< users beside root and our own whose cache_path is to be
                                   ///< trusted, "1000,1001"; NULL: FTJIT_CACHE_OWNERS, else none
    const char *compiler_match;    ///< "exact": only what the compiler found here would make;
                                   ///< "any": other compilers' too; NULL: FTJIT_COMPILER_MATCH,
                                   ///< else "any" where no compiler is found
    uint64_t cache_max_bytes;      ///< of cache_dir; 0: FTJIT_CACHE_MAX_BYTES, else 1 GiB
    const char *record_path;       ///< file that gets a line for each kernel in no cache, for
                                   ///< `ftjit warm --from`; NULL: FTJIT_RECORD, else none
    const char *stats_path;        ///< file that gets a line of JSON with the counters when the
                                   ///< context is destroyed; NULL: FTJIT_STATS, else none
    ftj_kernel_event_fn on_kernel; ///< told of each kernel that was not in memory; NULL: nobody
    void *on_kernel_data;          ///< kept until destroy
} ftj_settings;

/** What the probe found. Filled by ftj_context_info(). */
typedef struct ftj_device_info {
    ftj_device_kind kind;
    int ordinal;
    char name[128];
    char target[16];      ///< what kernels are compiled for: "sm_90a", "cpu"
    char features[256];   ///< after narrowing, comma separated
    char probed[256];     ///< before narrowing
    int capability_major; ///< 0 on the CPU
    int capability_minor;
    int driver_version; ///< 13000 is CUDA 13.0; 0 on the CPU
    uint32_t num_sms;
    uint32_t smem_bytes; ///< shared memory one block may ask for
    uint64_t l2_bytes;
    uint64_t memory_bytes;
    char driver_path[256];   ///< libcuda as it was opened
    char compiler[256];      ///< "nvrtc 13.0 (build-id ...)", "" when none was found
    char compiler_path[256]; ///< file, "" when none was found
    char cache_dir[256];     ///< in use for writing; "" when kernels are kept in memory only
} ftj_device_info;

/** What happened to kernels so far. Filled by ftj_context_stats(). */
typedef struct ftj_stats {
    uint64_t memory_hits;
    uint64_t disk_hits;
    uint64_t compiles;
    uint64_t compile_us;
    uint64_t damaged_entries; ///< entries that failed their checks and were replaced
    uint64_t dropped_writes;  ///< entries that could not be saved
    uint64_t waits;           ///< times that another process of the node was waited for
    uint64_t sealed_misses;   ///< kernels that were in no cache after ftj_context_seal()
    uint64_t shared_hits;     ///< of disk_hits: from roots that are only read
    uint64_t bundle_hits;     ///< of disk_hits: from bundles
    uint64_t evictions;       ///< entries removed to keep cache_dir below its limit
} ftj_stats;

/**
 * Open a device: load the driver, probe once, find the compiler and the cache.
 *
 * Compiles nothing. The calling thread's current CUDA context is left as it was. Any thread.
 *
 * @param settings Borrowed for the call; NULL is GPU 0 with every default.
 * @param out      Receives the context; the caller frees it with ftj_context_destroy().
 *                 Untouched on failure.
 *
 * @return FTJ_OK, or
 *         FTJ_E_INVALID      a setting or a variable is not allowed, or names no such device or
 *                            feature;
 *         FTJ_E_DRIVER       no driver (the sentence lists what was tried), or it failed;
 *         FTJ_E_UNSUPPORTED  the device is older than compute capability 7.5;
 *         FTJ_E_NO_MEMORY.
 *
 * A cache or a compiler that is not there, or cannot be used, is no failure.
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_context_create(const ftj_settings *settings,
                                                    ftj_context **out);

/**
 * Free a context and every kernel in it. NULL is fine. No call may be running on it.
 *
 * A child that was forked after ftj_context_create() has no use of the context: neither driver nor
 * threads survive a fork. There every call on it fails with FTJ_E_INVALID, and this one does
 * nothing. The child may create a context of its own, on the GPU if its parent never used CUDA.
 */
FTJ_API void ftj_context_destroy(ftj_context *ctx);

/**
 * Declare that every kernel is there: from now on one that would have to be compiled is a miss.
 *
 * What is in memory or in a cache is served as before. FTJIT_SEALED=error or count seals a context
 * from the start. A context stays sealed. Any thread.
 *
 * @param strict True: a miss fails with FTJ_E_SEALED. False: it is compiled, said in a warning and
 *               counted in ftj_stats.sealed_misses.
 */
FTJ_API void ftj_context_seal(ftj_context *ctx, bool strict);

/** Copy out what the probe found. Any thread. */
FTJ_API void ftj_context_info(const ftj_context *ctx, ftj_device_info *info);

/** Copy out the counters. Any thread. */
FTJ_API void ftj_context_stats(const ftj_context *ctx, ftj_stats *stats);

/** Library version, "0.1.0". Static. Any thread. */
FTJ_API const char *ftj_version(void);

#ifdef __cplusplus
}
#endif

#endif
