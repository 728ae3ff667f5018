/* SPDX-License-Identifier: MIT */
/* What a call answers. Values are pinned: they may be stored and compared across versions. */
#ifndef FTJIT_STATUS_H
#define FTJIT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTJ_API       __attribute__((visibility("default")))
#define FTJ_NODISCARD __attribute__((warn_unused_result))
#else
#define FTJ_API
#define FTJ_NODISCARD
#endif

/* X(name, value, text) */
#define FTJ_STATUS_MAP(X)                                                                          \
    X(FTJ_OK, 0, "success")                                                                        \
    X(FTJ_E_INVALID, 1, "an argument is out of range")                                             \
    X(FTJ_E_UNSUPPORTED, 2, "no kernel covers this problem on this device")                        \
    X(FTJ_E_NO_MEMORY, 3, "out of memory")                                                         \
    X(FTJ_E_NOT_FOUND, 4, "not there")                                                             \
    X(FTJ_E_IO, 5, "a file could not be read or written")                                          \
    X(FTJ_E_DAMAGED, 6, "stored data fails its checks")                                            \
    X(FTJ_E_DRIVER, 7, "the GPU driver is missing or refused a call")                              \
    X(FTJ_E_COMPILER, 8, "the compiler is missing or too old")                                     \
    X(FTJ_E_COMPILE, 9, "the compiler rejected a kernel")                                          \
    X(FTJ_E_LAUNCH, 10, "a kernel could not be launched")                                          \
    X(FTJ_E_CAPTURE, 11, "the call would have to compile or load inside a stream capture")         \
    X(FTJ_E_SEALED, 12, "a kernel would have to be compiled, which was ruled out")

typedef enum ftj_status {
#define FTJ_STATUS_ENUM(name, value, text) name = value,
    FTJ_STATUS_MAP(FTJ_STATUS_ENUM)
#undef FTJ_STATUS_ENUM
} ftj_status;

/** Name of a status, "FTJ_E_INVALID"; "FTJ_E_?" for a value that is none. Static. Any thread. */
FTJ_API const char *ftj_status_name(ftj_status status);

/** What a status means, in a few words. Static. Any thread. */
FTJ_API const char *ftj_status_text(ftj_status status);

/**
 * The sentence behind the calling thread's last failed call: argument, value, what is allowed.
 *
 * Valid until this thread's next ftj_ call that fails; "" before the first. Never NULL.
 */
FTJ_API const char *ftj_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
