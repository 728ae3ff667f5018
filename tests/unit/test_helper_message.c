/* SPDX-License-Identifier: MIT */
/* The messages between the library and ftjit-cc, whole and damaged. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/helper_message.h"
#include "codegen/template_set.h"

static struct ftj_text request_message(void)
{
    static char source[] = "a source\0with a zero";
    struct ftj_helper_request request = {
        .nvrtc = "/lib/libnvrtc.so.13",
        .timeout_s = 60,
        .source = {.template_id = "attn_decode",
                   .text = {.data = source, .size = sizeof(source) - 1},
                   .target = "sm_90a"},
        .options = {"-std=c++17", "--gpu-architecture=sm_90a"},
        .num_options = 2,
    };
    struct ftj_text message = {0};
    ftj_helper_write_request(&message, &request);
    cr_assert_not(message.failed);
    return message;
}

static struct ftj_text answer_message(void)
{
    uint8_t code[300];
    char log[] = "ptxas info";
    memset(code, 0xA5, sizeof(code));
    const struct ftj_helper_answer answer = {
        .status = FTJ_E_COMPILER,
        .sentence = "a sentence",
        .binary = {.code = {code, sizeof(code)},
                   .log = {(uint8_t *)log, strlen(log)},
                   .registers = 1,
                   .smem_bytes = 2,
                   .spill_bytes = 3,
                   .compile_us = 4},
    };
    struct ftj_text message = {0};
    ftj_helper_write_answer(&message, &answer);
    cr_assert_not(message.failed);
    return message;
}

Test(helper_message, request_comes_back_as_it_was)
{
    struct ftj_text message = request_message();
    struct ftj_helper_request read = {0};
    cr_assert(ftj_helper_read_request(message.data, message.size, &read));
    cr_expect_str_eq(read.templates, ftj_templates_digest);
    cr_expect_str_eq(read.nvrtc, "/lib/libnvrtc.so.13");
    cr_expect_eq(read.timeout_s, 60);
    cr_expect_str_eq(read.source.template_id, "attn_decode");
    cr_expect_str_eq(read.source.target, "sm_90a");
    cr_expect_eq(read.source.text.size, strlen("a source") + 1 + strlen("with a zero"));
    cr_expect_str_eq(read.source.text.data + strlen("a source") + 1, "with a zero");
    cr_assert_eq(read.num_options, 2);
    cr_expect_str_eq(read.options[0], "-std=c++17");
    cr_expect_str_eq(read.options[1], "--gpu-architecture=sm_90a");
    ftj_text_finish(&message);
}

Test(helper_message, answer_comes_back_as_it_was)
{
    struct ftj_text message = answer_message();
    struct ftj_helper_answer read = {0};
    cr_assert(ftj_helper_read_answer(message.data, message.size, &read));
    cr_expect_eq(read.status, FTJ_E_COMPILER);
    cr_expect_str_eq(read.sentence, "a sentence");
    cr_expect_eq(read.binary.registers, 1);
    cr_expect_eq(read.binary.smem_bytes, 2);
    cr_expect_eq(read.binary.spill_bytes, 3);
    cr_expect_eq(read.binary.compile_us, 4);
    cr_assert_eq(read.binary.code.size, 300);
    cr_expect_eq(read.binary.code.data[299], 0xA5);
    cr_expect_str_eq((const char *)read.binary.log.data, "ptxas info");
    cr_expect_eq(read.binary.log.size, strlen("ptxas info"));
    ftj_binary_finish(&read.binary);
    ftj_text_finish(&message);
}

/* Under AddressSanitizer: no byte past the copy is read. */
static bool is_read(const struct ftj_text *message, size_t size, bool is_request)
{
    char *copy = malloc(size ? size : 1);
    cr_assert_not_null(copy);
    memcpy(copy, message->data, size);
    struct ftj_helper_request request = {0};
    struct ftj_helper_answer answer = {0};
    const bool read = is_request ? ftj_helper_read_request(copy, size, &request)
                                 : ftj_helper_read_answer(copy, size, &answer);
    ftj_binary_finish(&answer.binary);
    free(copy);
    return read;
}

Test(helper_message, cut_short_or_too_long_is_none)
{
    for (int is_request = 0; is_request < 2; is_request++) {
        struct ftj_text message = is_request ? request_message() : answer_message();
        for (size_t size = 0; size < message.size; size++)
            cr_expect_not(is_read(&message, size, is_request), "%zu bytes", size);
        cr_expect(is_read(&message, message.size, is_request));
        ftj_text_append(&message, "x", 1);
        cr_expect_not(is_read(&message, message.size, is_request));
        ftj_text_finish(&message);
    }
}

/* Also with the length in the header adjusted, which gets a reader past its first check. */
Test(helper_message, damaged_never_leads_out_of_its_bytes)
{
    for (int is_request = 0; is_request < 2; is_request++) {
        struct ftj_text message = is_request ? request_message() : answer_message();
        for (size_t at = 0; at < message.size; at++) {
            const char before = message.data[at];
            message.data[at] = (char)0xFF;
            const bool read = is_read(&message, message.size, is_request);
            cr_expect(at >= FTJ_HELPER_HEADER_BYTES || !read, "a damaged header at %zu", at);
            message.data[at] = before;
        }
        for (size_t size = FTJ_HELPER_HEADER_BYTES; size < message.size; size++) {
            const uint32_t rest = (uint32_t)(size - FTJ_HELPER_HEADER_BYTES);
            memcpy(message.data + 4, &rest, sizeof(rest));
            cr_expect_not(is_read(&message, size, is_request), "%zu bytes", size);
        }
        ftj_text_finish(&message);
    }
}
