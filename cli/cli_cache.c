/* SPDX-License-Identifier: MIT */
/* `ftjit cache`: what lies in the cache, whether it is sound, and getting rid of it. */
#include <string.h>

#include "base/environment.h"
#include "cache/gc.h"
#include "cache/scan.h"
#include "cache/tier.h"
#include "cli/cache_items.h"
#include "cli/cli.h"

static const char help[] =
    "use: ftjit cache path|ls|gc|clear [OPTIONS]\n"
    "     ftjit cache show KEY [--source | --log | --code FILE] [OPTIONS]\n"
    "     ftjit cache verify [FILE.ftb...] [--recompile] [OPTIONS]\n"
    "\n"
    "path    The folder that kernels are written to, then what FTJIT_CACHE_PATH adds, and why a\n"
    "        part of it cannot be used.\n"
    "ls      The entries of the cache, or of the bundle in --bundle.\n"
    "show    One entry: its facts, or a part of it. KEY is the first digits of its key.\n"
    "verify  Checks every entry: its checksum, and that it lies under its own name. With bundles,\n"
    "        theirs instead: every SHA-256. With --recompile each is compiled again where the "
    "same\n"
    "        compiler is here, and must come out byte for byte.\n"
    "gc      Removes what was not used for longest, if there is more than --max-bytes, and what\n"
    "        processes that were killed left behind.\n"
    "clear   Removes all entries, and nothing that is not ours.\n"
    "\n"
    "  --bundle FILE    ls, show: look into this bundle\n"
    "  --max-bytes N    gc: with K, M or G behind it (default: FTJIT_CACHE_MAX_BYTES, else 1G)\n"
    "  --source         show: the source\n"
    "  --log            show: the compiler's log\n"
    "  --code FILE      show: write the machine code to a file\n"
    "  --recompile      verify: compile again and compare\n"
    "  --cache-dir DIR  the cache (default: FTJIT_CACHE_DIR, then $XDG_CACHE_HOME/ftjit, then\n"
    "                   ~/.cache/ftjit)\n"
    "  --json           one JSON document\n"
    "  --help           this text\n"
    "\n"
    "Examples:\n"
    "  ftjit cache ls\n"
    "  ftjit cache verify kernels.ftb --recompile\n"
    "  ftjit cache gc --max-bytes 200M\n"
    "\n"
    "Exit codes: 0; 1 something is damaged or cannot be read; 2 bad usage.\n";

enum {
    OPT_BUNDLE = 256,
    OPT_MAX_BYTES,
    OPT_SOURCE,
    OPT_LOG,
    OPT_CODE,
    OPT_RECOMPILE,
};

static const struct option options[] = {
    {"bundle", required_argument, NULL, OPT_BUNDLE},
    {"max-bytes", required_argument, NULL, OPT_MAX_BYTES},
    {"source", no_argument, NULL, OPT_SOURCE},
    {"log", no_argument, NULL, OPT_LOG},
    {"code", required_argument, NULL, OPT_CODE},
    {"recompile", no_argument, NULL, OPT_RECOMPILE},
    {"cache-dir", required_argument, NULL, 'C'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static void take_option(struct cache_request *request, int option)
{
    switch (option) {
    case OPT_BUNDLE:
        request->bundle = optarg;
        break;
    case OPT_MAX_BYTES:
        request->max_bytes = optarg;
        break;
    case OPT_SOURCE:
        request->show_source = true;
        break;
    case OPT_LOG:
        request->show_log = true;
        break;
    case OPT_CODE:
        request->code_path = optarg;
        break;
    case OPT_RECOMPILE:
        request->recompiles = true;
        break;
    case 'C':
        request->cache_dir = optarg;
        break;
    default:
        request->is_json = true;
        break;
    }
}

/* ---- path, gc, clear ---- */

static void say(void *data, ftj_log_level level, const char *sentence)
{
    (void)data;
    (void)level;
    fprintf(stderr, "ftjit cache: %s\n", sentence);
}

/* The tiers as a context would open them; what it would pass over is said. */
static ftj_status open_tiers(struct ftj_tiers *tiers)
{
    const struct ftj_log log = {say, NULL, FTJ_LOG_WARNING};
    const char *path = ftj_variable("FTJIT_CACHE_PATH");
    struct ftj_owners owners;
    struct ftj_pins pins;
    ftj_status status =
        ftj_owners_init(&owners, ftj_variable("FTJIT_CACHE_OWNERS"), "FTJIT_CACHE_OWNERS", NULL);
    if (!status)
        status =
            ftj_pins_init(&pins, ftj_variable("FTJIT_BUNDLE_SHA256"), "FTJIT_BUNDLE_SHA256", NULL);
    if (status || !path)
        return status;
    return ftj_tiers_init(tiers, path, "FTJIT_CACHE_PATH", &owners, &pins, &log);
}

static void print_tier(const struct ftj_tier *tier)
{
    if (tier->bundle)
        printf("then, read only: %s, a bundle of %zu entries, sha256 %s\n",
               ftj_bundle_path(tier->bundle), ftj_bundle_count(tier->bundle),
               ftj_bundle_digest(tier->bundle));
    else
        printf("then, read only: %s\n", tier->dir.root);
}

static cJSON *tier_json(const struct ftj_tier *tier)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "path",
                            tier->bundle ? ftj_bundle_path(tier->bundle) : tier->dir.root);
    if (tier->bundle) {
        cJSON_AddNumberToObject(json, "entries", (double)ftj_bundle_count(tier->bundle));
        cJSON_AddStringToObject(json, "sha256", ftj_bundle_digest(tier->bundle));
    }
    return json;
}

static int run_path(struct cache_request *request)
{
    struct ftj_tiers tiers = {0};
    const ftj_status status = open_tiers(&tiers);
    if (status)
        return cli_failure("cache", status);
    cJSON *json = request->is_json ? cJSON_CreateObject() : NULL;
    if (json) {
        cJSON_AddStringToObject(json, "root", request->dir.root);
        cJSON_AddStringToObject(json, "origin", request->dir.origin);
    } else {
        printf("%s\n", request->dir.root);
    }
    cJSON *list = json ? cJSON_AddArrayToObject(json, "path") : NULL;
    for (size_t i = 0; i < tiers.count; i++) {
        if (json)
            cJSON_AddItemToArray(list, tier_json(&tiers.items[i]));
        else
            print_tier(&tiers.items[i]);
    }
    ftj_tiers_finish(&tiers);
    return json ? cli_print_json("cache", json, stdout) : CLI_OK;
}

static int fail_root(const struct cache_request *request, ftj_status status,
                     const struct ftj_reason *reason)
{
    if (status == FTJ_E_NO_MEMORY)
        return cli_failure("cache", status);
    fprintf(stderr, "ftjit cache: %s (from %s): %s\n", request->dir.root, request->dir.origin,
            reason->text);
    return CLI_FAILED;
}

static int run_gc(struct cache_request *request)
{
    uint64_t max_bytes = 0;
    struct ftj_gc_result result = {0};
    struct ftj_reason reason;
    const ftj_status parsed = ftj_gc_cap(request->max_bytes, "--max-bytes", NULL, &max_bytes);
    if (parsed)
        return cli_failure("cache", parsed);
    const ftj_status status = ftj_gc_run(&request->dir, max_bytes, 0, &result, &reason);
    if (status && status != FTJ_E_NOT_FOUND)
        return fail_root(request, status, &reason);
    if (!request->is_json) {
        printf("%zu entries removed, %zu left with %llu bytes (at most %llu); %zu temporaries "
               "swept\n",
               result.num_evicted, result.num_entries, (unsigned long long)result.bytes_after,
               (unsigned long long)max_bytes, result.num_swept);
        return CLI_OK;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "removed", (double)result.num_evicted);
    cJSON_AddNumberToObject(json, "entries", (double)result.num_entries);
    cJSON_AddNumberToObject(json, "bytes", (double)result.bytes_after);
    cJSON_AddNumberToObject(json, "swept", (double)result.num_swept);
    return cli_print_json("cache", json, stdout);
}

static int run_clear(struct cache_request *request)
{
    size_t num_files = 0;
    struct ftj_reason reason;
    const ftj_status status = ftj_cache_clear(&request->dir, &num_files, &reason);
    if (status && status != FTJ_E_NOT_FOUND)
        return fail_root(request, status, &reason);
    if (!request->is_json) {
        printf("%zu files removed from %s\n", num_files, request->dir.root);
        return CLI_OK;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "removed", (double)num_files);
    return cli_print_json("cache", json, stdout);
}

/* ---- the command ---- */

static const struct {
    const char *name;
    int (*run)(struct cache_request *request);
    int min_arguments;
    int max_arguments;
} actions[] = {
    {"path", run_path, 0, 0}, {"ls", cache_run_ls, 0, 0},           {"show", cache_run_show, 1, 1},
    {"gc", run_gc, 0, 0},     {"verify", cache_run_verify, 0, 999}, {"clear", run_clear, 0, 0},
};

static int run_action(struct cache_request *request, const char *name)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
        if (strcmp(name, actions[i].name) != 0)
            continue;
        if (request->num_arguments < actions[i].min_arguments)
            return cli_usage("cache", "%s needs the first digits of a key", name);
        if (request->num_arguments > actions[i].max_arguments)
            return cli_usage("cache", "%s is not expected",
                             request->arguments[actions[i].max_arguments]);
        return actions[i].run(request);
    }
    return cli_usage("cache", "%s is not known; it is path, ls, show, verify, gc or clear", name);
}

int cli_cache(int argc, char **argv)
{
    struct cache_request request = {0};
    struct ftj_reason reason;
    int option;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == '?' || option == ':')
            return cli_bad_option("cache", argv, option);
        take_option(&request, option);
    }
    if (optind == argc)
        return cli_usage("cache", "path, ls, show, verify, gc or clear is needed");
    request.arguments = argv + optind + 1;
    request.num_arguments = argc - optind - 1;

    const ftj_status status = ftj_cache_dir_init(&request.dir, request.cache_dir, &reason);
    if (status == FTJ_E_NOT_FOUND) {
        fprintf(stderr, "ftjit cache: no cache directory: FTJIT_CACHE_DIR, XDG_CACHE_HOME and HOME "
                        "are all unset\n");
        return CLI_FAILED;
    }
    if (status) {
        fprintf(stderr, "ftjit cache: %s\n", status == FTJ_E_IO ? reason.text : ftj_last_error());
        return CLI_FAILED;
    }
    const int code = run_action(&request, argv[optind]);
    ftj_cache_dir_finish(&request.dir);
    return code;
}
