/* SPDX-License-Identifier: MIT */
/* A store's options: the caller's, else the environment's, else the default. */
#include <string.h>

#include "base/environment.h"
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
    const char *value = ftj_variable(variable);
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
        status = ftj_gc_cap(NULL, NULL, &store->log, &store->max_bytes);
    if (!status && options->max_bytes)
        store->max_bytes = options->max_bytes;
    if (!status && !store->is_disabled)
        status = open_tiers(store, options);
    return status;
}
