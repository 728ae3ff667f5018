/* SPDX-License-Identifier: MIT */
/* What the files around NVRTC share: where it is, and one compile with it. */
#ifndef FTJ_CODEGEN_NVRTC_H
#define FTJ_CODEGEN_NVRTC_H

#include "codegen/compile.h"
#include "codegen/nvrtc_symbols.h"

/* libnvrtc, loaded. */
struct ftj_nvrtc {
    void *library;
    void *builtins; /* what it would open by itself; NULL when they are not beside it */
    int major;
    int minor;
#define FTJ_NVRTC_MEMBER(symbol, arguments) int(*symbol) arguments;
    FTJ_NVRTC_SYMBOL_MAP(FTJ_NVRTC_MEMBER)
#undef FTJ_NVRTC_MEMBER
    const char *(*error_string)(int result);
};

/* nvrtc_find.c: the file of libnvrtc, resolved, into `file`; false when there is none. `tried` gets
 * the places that were looked at. Nothing is loaded. */
bool ftj_nvrtc_locate(const char *path, struct ftj_text *tried, char *file, size_t size);

/* nvrtc_find.c: "nvrtc <version> <build-id> <build-id of the builtins beside it>". */
void ftj_nvrtc_identify(const char *file, char *id, size_t size);

/* nvrtc_program.c: load the library; FTJ_E_COMPILER says what is wrong with it. */
FTJ_NODISCARD ftj_status ftj_nvrtc_load(struct ftj_nvrtc *nvrtc, const char *file,
                                        const struct ftj_log *log);

void ftj_nvrtc_unload(struct ftj_nvrtc *nvrtc);

/* nvrtc_program.c: compile a source with `options`, which decide the code, and those that make
 * NVRTC a good guest, on a thread of its own. `binary` gets the log in any case, everything else on
 * success only. */
FTJ_NODISCARD ftj_status ftj_nvrtc_compile(const struct ftj_nvrtc *nvrtc,
                                           const struct ftj_source *source,
                                           const char *const *options, size_t num_options,
                                           const struct ftj_log *log, struct ftj_binary *binary);

#endif
