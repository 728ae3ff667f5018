/* SPDX-License-Identifier: MIT */
/*
 * What the library and ftjit-cc say to each other: one request, one answer.
 *
 * A message is its magic, the bytes that follow (32 bits), then fields in a fixed order: numbers of
 * 32 bits, and texts with their length before them and a zero at their end. Both sides run on one
 * machine and are of one build, which the request's digest of the templates proves; still, neither
 * trusts a length.
 */
#ifndef FTJ_CODEGEN_HELPER_MESSAGE_H
#define FTJ_CODEGEN_HELPER_MESSAGE_H

#include "codegen/compile.h"

#define FTJ_HELPER_MAX_OPTIONS  8
#define FTJ_HELPER_HEADER_BYTES 8
#define FTJ_HELPER_MAX_BYTES    (256u << 20)

/* Pointers are borrowed: of the writer, or from the message that was read. */
struct ftj_helper_request {
    const char *templates;    /* digest of them; of this build when written */
    const char *nvrtc;        /* libnvrtc's file */
    uint32_t timeout_s;       /* after which the helper ends by itself */
    struct ftj_source source; /* not to be finished */
    const char *options[FTJ_HELPER_MAX_OPTIONS];
    size_t num_options;
};

struct ftj_helper_answer {
    ftj_status status;
    const char *sentence;     /* behind a failure that is not FTJ_E_COMPILE; else "" */
    struct ftj_binary binary; /* owned */
};

/* Appending sets message->failed where there is no memory. */
void ftj_helper_write_request(struct ftj_text *message, const struct ftj_helper_request *request);
void ftj_helper_write_answer(struct ftj_text *message, const struct ftj_helper_answer *answer);

/* How long the whole message is, from its first FTJ_HELPER_HEADER_BYTES; 0: it is none. */
size_t ftj_helper_message_bytes(const void *header);

/* A whole message. False: it is none, and nothing is to be finished. FTJ_E_NO_MEMORY is a status of
 * the answer. */
bool ftj_helper_read_request(const void *message, size_t size, struct ftj_helper_request *request);
bool ftj_helper_read_answer(const void *message, size_t size, struct ftj_helper_answer *answer);

#endif
