/* SPDX-License-Identifier: MIT */
/* Source to machine code. One interface; NVRTC behind it, or the host's C++ compiler for "cpu". */
#ifndef FTJ_CODEGEN_COMPILE_H
#define FTJ_CODEGEN_COMPILE_H

#include "base/bytes.h"
#include "codegen/source.h"

/* What came out of a compile. A zeroed one is empty. */
struct ftj_binary {
    struct ftj_bytes code; /* owned */
    struct ftj_bytes log;  /* owned */
    uint32_t registers;
    uint32_t smem_bytes;
    uint32_t spill_bytes;
    uint32_t compile_us;
};
void ftj_binary_finish(struct ftj_binary *binary);

/* The compiler's first complaint, for a sentence: the first line of the log that says "error", else
 * its first line. */
void ftj_binary_complaint(const struct ftj_binary *binary, char *text, size_t size);

/* A compiler that was found. `id` and `path` are known without loading it; compile() loads it on
 * first use. Any thread. */
struct ftj_compiler {
    char id[256]; /* enters the key: "nvrtc 13.0.88 65be0db3.../ab12..." ; "" when none is there */
    char path[256];     /* "" when none is there */
    char missing[1024]; /* when none is there: what was tried, for the sentence */
    const char *output; /* "cubin" or "so" */
    const struct ftj_log *log;
    /* The options for a source, in order; static strings and strings kept in `storage`. Returns how
     * many. They are part of the key. */
    size_t (*options)(const struct ftj_compiler *compiler, const struct ftj_source *source,
                      const char **options, size_t max_options, char storage[64]);
    /* FTJ_E_COMPILE is the one failure that compile() leaves to its caller to report, who knows
     * more about it: binary->log then says why. */
    ftj_status (*compile)(struct ftj_compiler *compiler, const struct ftj_source *source,
                          struct ftj_binary *binary);
    void (*finish)(struct ftj_compiler *compiler);
    /* Where it runs (NVRTC only), and for how long at most where it is a process of its own. As
     * FTJIT_COMPILE and FTJIT_COMPILE_TIMEOUT say, until somebody who knows better sets them. */
    ftj_compile_mode mode;
    uint32_t timeout_s;
    bool keeps_helpers; /* such processes stay for the next compile, until finish() */
    void *state;        /* owned by the implementation */
};

/* Find NVRTC: `path`, FTJIT_NVRTC, what the process already has, the loader's folders, the
 * toolkit's, pip's wheels. Not finding it is no failure: compile() then says what was tried. */
FTJ_NODISCARD ftj_status ftj_nvrtc_find(struct ftj_compiler *compiler, const char *path,
                                        const struct ftj_log *log);
/* FTJIT_COMPILE_TIMEOUT, else 60 seconds; FTJ_E_INVALID. */
FTJ_NODISCARD ftj_status ftj_compile_timeout(uint32_t *seconds, const struct ftj_log *log);
void ftj_compiler_finish(struct ftj_compiler *compiler); /* zeroed is fine */

#endif
