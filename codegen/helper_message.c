/* SPDX-License-Identifier: MIT */
#include "codegen/helper_message.h"

#include <stdio.h>
#include <string.h>

#include "codegen/template_set.h"

static const char magic[4] = {'F', 'T', 'J', '1'};

/* ---- writing ---- */

static void put_number(struct ftj_text *message, uint32_t number)
{
    ftj_text_append(message, &number, sizeof(number));
}

/* The zero is not counted. */
static void put_bytes(struct ftj_text *message, const void *data, size_t size)
{
    if (size > FTJ_HELPER_MAX_BYTES) {
        message->failed = 1;
        return;
    }
    put_number(message, (uint32_t)size);
    ftj_text_append(message, data ? data : "", size);
    ftj_text_append(message, "", 1);
}

static void put_text(struct ftj_text *message, const char *text)
{
    put_bytes(message, text, strlen(text));
}

static void begin(struct ftj_text *message)
{
    ftj_text_append(message, magic, sizeof(magic));
    put_number(message, 0); /* end() knows it */
}

static void end(struct ftj_text *message)
{
    if (message->failed || message->size > FTJ_HELPER_MAX_BYTES) {
        message->failed = 1;
        return;
    }
    const uint32_t size = (uint32_t)message->size - FTJ_HELPER_HEADER_BYTES;
    memcpy(message->data + sizeof(magic), &size, sizeof(size));
}

void ftj_helper_write_request(struct ftj_text *message, const struct ftj_helper_request *request)
{
    begin(message);
    put_text(message, ftj_templates_digest);
    put_text(message, request->nvrtc);
    put_number(message, request->timeout_s);
    put_text(message, request->source.template_id);
    put_text(message, request->source.target);
    put_bytes(message, request->source.text.data, request->source.text.size);
    put_number(message, (uint32_t)request->num_options);
    for (size_t i = 0; i < request->num_options; i++)
        put_text(message, request->options[i]);
    end(message);
}

void ftj_helper_write_answer(struct ftj_text *message, const struct ftj_helper_answer *answer)
{
    const struct ftj_binary *binary = &answer->binary;
    begin(message);
    put_number(message, (uint32_t)answer->status);
    put_text(message, answer->sentence);
    put_number(message, binary->registers);
    put_number(message, binary->smem_bytes);
    put_number(message, binary->spill_bytes);
    put_number(message, binary->compile_us);
    put_bytes(message, binary->code.data, binary->code.size);
    put_bytes(message, binary->log.data, binary->log.size);
    end(message);
}

/* ---- reading ---- */

struct reader {
    const char *at;
    size_t left;
    bool failed;
};

static uint32_t get_number(struct reader *reader)
{
    uint32_t number = 0;
    if (reader->left < sizeof(number)) {
        reader->failed = true;
        return 0;
    }
    memcpy(&number, reader->at, sizeof(number));
    reader->at += sizeof(number);
    reader->left -= sizeof(number);
    return number;
}

static const char *get_bytes(struct reader *reader, size_t *size)
{
    const size_t length = get_number(reader);
    if (reader->failed || reader->left <= length || reader->at[length] != '\0') {
        reader->failed = true;
        *size = 0;
        return "";
    }
    const char *bytes = reader->at;
    reader->at += length + 1;
    reader->left -= length + 1;
    *size = length;
    return bytes;
}

static const char *get_text(struct reader *reader)
{
    size_t size = 0;
    const char *text = get_bytes(reader, &size);
    if (strlen(text) != size)
        reader->failed = true;
    return text;
}

size_t ftj_helper_message_bytes(const void *header)
{
    uint32_t size = 0;
    memcpy(&size, (const char *)header + sizeof(magic), sizeof(size));
    if (memcmp(header, magic, sizeof(magic)) != 0 || size > FTJ_HELPER_MAX_BYTES)
        return 0;
    return FTJ_HELPER_HEADER_BYTES + (size_t)size;
}

static struct reader open_message(const void *message, size_t size)
{
    struct reader reader = {0};
    if (size < FTJ_HELPER_HEADER_BYTES || ftj_helper_message_bytes(message) != size) {
        reader.failed = true;
        return reader;
    }
    reader.at = (const char *)message + FTJ_HELPER_HEADER_BYTES;
    reader.left = size - FTJ_HELPER_HEADER_BYTES;
    return reader;
}

bool ftj_helper_read_request(const void *message, size_t size, struct ftj_helper_request *request)
{
    struct reader reader = open_message(message, size);
    struct ftj_helper_request read = {0};
    size_t source_bytes = 0;
    read.templates = get_text(&reader);
    read.nvrtc = get_text(&reader);
    read.timeout_s = get_number(&reader);
    read.source.template_id = get_text(&reader);
    const char *target = get_text(&reader);
    const char *source = get_bytes(&reader, &source_bytes);
    read.num_options = get_number(&reader);
    if (reader.failed || read.num_options > FTJ_HELPER_MAX_OPTIONS ||
        strlen(target) >= sizeof(read.source.target))
        return false;
    for (size_t i = 0; i < read.num_options; i++)
        read.options[i] = get_text(&reader);
    if (reader.failed || reader.left > 0)
        return false;
    snprintf(read.source.target, sizeof(read.source.target), "%s", target);
    /* Only read: a source's text is not const because its owner may append to it. */
    memcpy(&read.source.text.data, &source, sizeof(source));
    read.source.text.size = source_bytes;
    *request = read;
    return true;
}

bool ftj_helper_read_answer(const void *message, size_t size, struct ftj_helper_answer *answer)
{
    struct reader reader = open_message(message, size);
    struct ftj_helper_answer read = {0};
    size_t code_bytes = 0;
    size_t log_bytes = 0;
    read.status = (ftj_status)get_number(&reader);
    read.sentence = get_text(&reader);
    read.binary.registers = get_number(&reader);
    read.binary.smem_bytes = get_number(&reader);
    read.binary.spill_bytes = get_number(&reader);
    read.binary.compile_us = get_number(&reader);
    const char *code = get_bytes(&reader, &code_bytes);
    const char *log = get_bytes(&reader, &log_bytes);
    if (reader.failed || reader.left > 0)
        return false;

    /* The log's terminating zero is copied with it. */
    if ((code_bytes > 0 && ftj_bytes_copy(&read.binary.code, code, code_bytes)) ||
        (log_bytes > 0 && ftj_bytes_copy(&read.binary.log, log, log_bytes + 1))) {
        ftj_binary_finish(&read.binary);
        read.status = FTJ_E_NO_MEMORY;
        read.sentence = "no memory for the answer of ftjit-cc";
    } else if (log_bytes > 0) {
        read.binary.log.size = log_bytes;
    }
    *answer = read;
    return true;
}
