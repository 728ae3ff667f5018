/* SPDX-License-Identifier: MIT */
/* A store's options: the caller's, else the environment's, else the default. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/gc.h"
#include "cache/store_state.h"

/* A text and where it comes from, for sentences. */
struct option {
    const char *text; /* "" when it is not set */
    const char *origin;
};

static struct option option_of(const char *given, const char *field, const char *variable)
{
    if (given && given[0])
        return (struct option){given, field};
    const char *value = ftj_cache_variable(variable);
    return (struct option){value ? value : "", variable};
}

static ftj_status choose_match(struct ftj_store *store, const struct ftj_store_options *options)
{
    const struct option match =
        option_of(options->match, "the setting compiler_match", "FTJIT_COMPILER_MATCH");
    store->any_compiler = !options->has_compiler;
    if (!match.text[0])
        return FTJ_OK;
    if (strcmp(match.text, "exact") != 0 && strcmp(match.text, "any") != 0)
        return ftj_fail(&store->log, FTJ_E_INVALID,
                        "%s \"%s\" is not known; it must be \"exact\" or \"any\"", match.origin,
                        match.text);
    store->any_compiler = !strcmp(match.text, "any");
    return FTJ_OK;
}

/* Bytes, or with K, M or G behind it 1024 to that power. */
static ftj_status choose_cap(struct ftj_store *store, const struct ftj_store_options *options)
{
    const char *text = ftj_cache_variable("FTJIT_CACHE_MAX_BYTES");
    if (options->max_bytes || !text) {
        store->max_bytes = options->max_bytes ? options->max_bytes : FTJ_DEFAULT_MAX_BYTES;
        return FTJ_OK;
    }
    static const char units[] = "KMG";
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const bool is_good = text[0] >= '0' && text[0] <= '9' && !errno && number > 0 &&
                         (*end == '\0' || (unit && end[1] == '\0')) &&
                         number <= UINT64_MAX >> shift;
    if (!is_good)
        return ftj_fail(&store->log, FTJ_E_INVALID,
                        "FTJIT_CACHE_MAX_BYTES \"%s\" is not known; it must be a number of bytes, "
                        "1 or more, with or without K, M or G behind it",
                        text);
    store->max_bytes = (uint64_t)number << shift;
    return FTJ_OK;
}

static ftj_status open_tiers(struct ftj_store *store, const struct ftj_store_options *options)
{
    const struct option path =
        option_of(options->path, "the setting cache_path", "FTJIT_CACHE_PATH");
    const struct option digest =
        option_of(options->bundle_digest, "the setting bundle_digest", "FTJIT_BUNDLE_SHA256");
    const struct option list =
        option_of(options->owners, "the setting cache_owners", "FTJIT_CACHE_OWNERS");
    struct ftj_owners owners;
    struct ftj_pins pins;
    ftj_status status = ftj_owners_init(&owners, list.text, list.origin, &store->log);
    if (!status)
        status = ftj_pins_init(&pins, digest.text, digest.origin, &store->log);
    if (status || !path.text[0])
        return status;
    return ftj_tiers_init(&store->tiers, path.text, path.origin, &owners, &pins, &store->log);
}

ftj_status ftj_store_configure(struct ftj_store *store, const struct ftj_store_options *options)
{
    ftj_status status = choose_match(store, options);
    if (!status)
        status = choose_cap(store, options);
    if (!status && !store->is_disabled)
        status = open_tiers(store, options);
    return status;
}
