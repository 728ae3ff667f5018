/* SPDX-License-Identifier: MIT */
/* Options, sentences and exit codes, the same in every subcommand. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "ftjit %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "; see `ftjit %s --help`\n", command);
    return CLI_USAGE;
}

int cli_failure(const char *command, ftj_status status)
{
    const char *sentence = ftj_last_error();
    fprintf(stderr, "ftjit %s: %s\n", command, sentence[0] ? sentence : ftj_status_text(status));
    switch (status) {
    case FTJ_E_INVALID:
    case FTJ_E_UNSUPPORTED:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

int cli_bad_option(const char *command, char **argv, int option)
{
    const char *given = argv[optind - 1];
    return option == ':' ? cli_usage(command, "%s needs a value", given)
                         : cli_usage(command, "%s is not an option", given);
}

bool cli_number(const char *command, const char *option, const char *text, uint64_t low,
                uint64_t high, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long parsed = strtoull(text, &end, 10);
    const bool is_number = text[0] >= '0' && text[0] <= '9' && !*end && !errno;
    if (!is_number || parsed < low || parsed > high) {
        cli_usage(command, "%s %s: a number from %llu to %llu is needed", option, text,
                  (unsigned long long)low, (unsigned long long)high);
        return false;
    }
    *number = parsed;
    return true;
}

bool cli_shard(const char *command, const char *text, uint32_t *index, uint32_t *count)
{
    const unsigned most = 65536;
    unsigned part = 0;
    unsigned parts = 0;
    char rest = 0;
    const bool is_number = text[0] >= '0' && text[0] <= '9';
    if (!is_number || sscanf(text, "%9u/%9u%c", &part, &parts, &rest) != 2 || part >= parts ||
        parts > most) {
        cli_usage(command, "--shard %s: I/N is needed, with I from 0 to N - 1, N at most %u", text,
                  most);
        return false;
    }
    *index = part;
    *count = parts;
    return true;
}

int cli_name(const char *command, const char *option, const char *text, const char *const *names)
{
    struct ftj_text list = {0};
    for (int i = 0; names[i]; i++) {
        if (!strcmp(names[i], text)) {
            ftj_text_finish(&list);
            return i;
        }
        ftj_text_printf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    cli_usage(command, "%s %s is not known; it is one of %s", option, text,
              list.data ? list.data : "");
    ftj_text_finish(&list);
    return -1;
}

static bool parse_device(ftj_settings *settings, const char *command, const char *text)
{
    uint64_t ordinal = 0;
    settings->kind = strcmp(text, "cpu") ? FTJ_DEVICE_CUDA : FTJ_DEVICE_CPU;
    settings->device = 0;
    if (!strcmp(text, "cpu") || !strcmp(text, "cuda"))
        return true;
    if (text[0] < '0' || text[0] > '9') {
        cli_usage(command, "--device %s is not known; it is cpu, cuda or the number of a GPU",
                  text);
        return false;
    }
    if (!cli_number(command, "--device", text, 0, 1023, &ordinal))
        return false;
    settings->device = (int)ordinal;
    return true;
}

bool cli_device_option(struct cli_device *device, const char *command, int option,
                       const char *value)
{
    switch (option) {
    case 'd':
        return parse_device(&device->settings, command, value);
    case 'C':
        device->settings.cache_dir = value;
        return true;
    case 'j':
        device->is_json = true;
        return true;
    default:
        device->is_verbose = true;
        return true;
    }
}

/* Failures are said once, by whoever gives up on them. */
static void say(void *data, ftj_log_level level, const char *sentence)
{
    (void)data;
    if (level != FTJ_LOG_ERROR)
        fprintf(stderr, "ftjit: %s\n", sentence);
}

ftj_context *cli_device_open(const struct cli_device *device, const char *command, int *code)
{
    ftj_settings settings = device->settings;
    ftj_context *ctx = NULL;
    settings.log = say;
    settings.log_level = device->is_verbose ? FTJ_LOG_INFO : FTJ_LOG_WARNING;
    const ftj_status status = ftj_context_create(&settings, &ctx);
    if (!status)
        return ctx;
    *code = cli_failure(command, status);
    if (status == FTJ_E_DRIVER)
        *code = CLI_NO_DEVICE;
    return NULL;
}

int cli_print_json(const char *command, cJSON *json, FILE *out)
{
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (!text || fprintf(out, "%s\n", text) < 0 || fflush(out)) {
        fprintf(stderr, "ftjit %s: the JSON document could not be written\n", command);
        cJSON_free(text);
        return CLI_FAILED;
    }
    cJSON_free(text);
    return CLI_OK;
}
