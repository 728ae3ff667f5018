/* SPDX-License-Identifier: MIT */
/* Where libnvrtc is, and which build it is, by looking at files only. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "codegen/nvrtc.h"

#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/environment.h"
#include "codegen/elf_image.h"

#define BUILD_ID_SIZE 72
#define MAX_BUILTINS  4

static const char *const library_names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
#define NUM_LIBRARY_NAMES (sizeof(library_names) / sizeof(*library_names))

struct search {
    struct ftj_text *tried;
    char *file; /* the answer */
    size_t size;
};

/* A place: `pattern` as it is, or below the folder an environment variable names. */
struct place {
    const char *variable;
    const char *pattern;
};

/* The loader's folders, then the toolkit's. Newest first where a pattern has several. */
static const struct place toolkit_places[] = {
    {NULL, "/lib/x86_64-linux-gnu"},
    {NULL, "/usr/lib/x86_64-linux-gnu"},
    {NULL, "/lib/aarch64-linux-gnu"},
    {NULL, "/usr/lib/aarch64-linux-gnu"},
    {NULL, "/usr/lib64"},
    {NULL, "/usr/lib"},
    {NULL, "/usr/local/lib"},
    {"CUDA_HOME", "/lib64"},
    {"CUDA_PATH", "/lib64"},
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda-*/lib64"},
    {NULL, "/usr/local/cuda*/targets/*/lib"},
    {NULL, "/opt/cuda/lib64"},
    {"CONDA_PREFIX", "/lib"},
};

/* Where Python keeps packages. */
static const struct place python_places[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/dist-packages"},
    {NULL, "/usr/lib/python3*/site-packages"},
    {NULL, "/usr/lib/python3*/dist-packages"},
};

/* Where NVIDIA's wheels put it in there: CUDA 13, CUDA 12. */
static const char *const wheel_folders[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};

/* Below a folder that was named: itself, a toolkit, or what `pip install --target` made. */
static const char *const named_folders[] = {"", "/lib64", "/lib", "/nvidia/cu13/lib",
                                            "/nvidia/cuda_nvrtc/lib"};

static bool is_kind(const char *path, mode_t kind)
{
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

static bool try_file(struct search *search, const char *path)
{
    char resolved[PATH_MAX];
    if (!is_kind(path, S_IFREG) || !realpath(path, resolved))
        return false;
    if (strlen(resolved) >= search->size)
        return false;
    memcpy(search->file, resolved, strlen(resolved) + 1);
    return true;
}

static bool try_folder(struct search *search, const char *folder)
{
    for (size_t i = 0; i < NUM_LIBRARY_NAMES; i++) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof(path), "%s/%s", folder, library_names[i]);
        if (length > 0 && (size_t)length < sizeof(path) && try_file(search, path))
            return true;
    }
    return false;
}

static bool try_pattern(struct search *search, const char *pattern)
{
    glob_t matches = {0};
    bool found = false;
    if (glob(pattern, 0, NULL, &matches) == 0) {
        /* Names ascend, so versions are tried from the newest down. */
        for (size_t i = matches.gl_pathc; i > 0 && !found; i--)
            found = try_folder(search, matches.gl_pathv[i - 1]);
    }
    globfree(&matches);
    return found;
}

static void note(struct search *search, const char *what)
{
    ftj_text_printf(search->tried, "%s%s", search->tried->size ? ", " : "", what);
}

static bool try_places(struct search *search, const struct place *places, size_t num_places,
                       const char *const *below, size_t num_below)
{
    for (size_t i = 0; i < num_places; i++) {
        const char *root = places[i].variable ? ftj_variable(places[i].variable) : "";
        if (!root)
            continue;
        for (size_t k = 0; k < num_below; k++) {
            char pattern[PATH_MAX];
            const int length =
                snprintf(pattern, sizeof(pattern), "%s%s%s", root, places[i].pattern, below[k]);
            if (length < 0 || (size_t)length >= sizeof(pattern))
                continue;
            if (k == 0)
                note(search, pattern);
            if (try_pattern(search, pattern))
                return true;
        }
    }
    return false;
}

/* A file, or a folder with it. */
static bool try_named(struct search *search, const char *source, const char *path)
{
    ftj_text_printf(search->tried, "%s=%s", source, path);
    if (!is_kind(path, S_IFDIR))
        return try_file(search, path);
    for (size_t i = 0; i < sizeof(named_folders) / sizeof(*named_folders); i++) {
        char folder[PATH_MAX];
        const int length = snprintf(folder, sizeof(folder), "%s%s", path, named_folders[i]);
        if (length > 0 && (size_t)length < sizeof(folder) && try_folder(search, folder))
            return true;
    }
    return false;
}

/* Stop at the first library that is called libnvrtc.so.N. */
static int match_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    const char *slash = strrchr(name, '/');
    const bool is_nvrtc = strncmp(slash ? slash + 1 : name, "libnvrtc.so", 11) == 0;
    return is_nvrtc && try_file(data, name);
}

static bool try_loader_path(struct search *search)
{
    const char *list = ftj_variable("LD_LIBRARY_PATH");
    while (list && *list) {
        const size_t length = strcspn(list, ":");
        char folder[PATH_MAX];
        if (length > 0 && length < sizeof(folder)) {
            memcpy(folder, list, length);
            folder[length] = 0;
            note(search, folder);
            if (try_folder(search, folder))
                return true;
        }
        list += length + (list[length] == ':');
    }
    return false;
}

bool ftj_nvrtc_locate(const char *path, struct ftj_text *tried, char *file, size_t size)
{
    struct search search = {.tried = tried, .file = file, .size = size};
    const char *const itself[] = {""};
    if (path && *path)
        return try_named(&search, "compiler_path", path);
    path = ftj_variable("FTJIT_NVRTC");
    if (path)
        return try_named(&search, "FTJIT_NVRTC", path);
    return dl_iterate_phdr(match_loaded, &search) || try_loader_path(&search) ||
           try_places(&search, toolkit_places, sizeof(toolkit_places) / sizeof(*toolkit_places),
                      itself, 1) ||
           try_places(&search, python_places, sizeof(python_places) / sizeof(*python_places),
                      wheel_folders, sizeof(wheel_folders) / sizeof(*wheel_folders));
}

/* A library without a build-id is known by its bytes instead. */
static void hash_file(const char *path, char *text, size_t size)
{
    snprintf(text, size, "unreadable");
    FILE *file = fopen(path, "rbe");
    XXH3_state_t *hash = XXH3_createState();
    if (!file || !hash)
        goto cleanup;
    XXH3_128bits_reset(hash);
    unsigned char block[1 << 14];
    for (size_t got; (got = fread(block, 1, sizeof(block), file)) > 0;)
        XXH3_128bits_update(hash, block, got);
    const XXH128_hash_t digest = XXH3_128bits_digest(hash);
    snprintf(text, size, "xxh3-%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);

cleanup:
    XXH3_freeState(hash);
    if (file)
        fclose(file);
}

static void build_of(const char *path, char *text, size_t size)
{
    if (!ftj_elf_build_id(path, text, size))
        hash_file(path, text, size);
}

/* libnvrtc loads libnvrtc-builtins.so.<major>.<minor> from its own folder. A file named by its
 * major version only does not say which minor it is: then every one of that major counts, so that
 * the id may change too often but never too seldom. */
static void append_builtins(const char *file, const char *version, char *id, size_t size)
{
    const char *slash = strrchr(file, '/');
    const size_t folder = slash ? (size_t)(slash - file) : 0;
    const char *dot = strchr(version, '.');
    const size_t digits =
        dot ? (size_t)(dot - version) + 1 + strspn(dot + 1, "0123456789") : strlen(version);
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof(pattern), "%.*s/libnvrtc-builtins.so.%.*s*", (int)folder, file,
             (int)digits, version);

    glob_t matches = {0};
    char last[BUILD_ID_SIZE] = "";
    size_t num_builtins = 0;
    if (glob(pattern, 0, NULL, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc && num_builtins < MAX_BUILTINS; i++) {
            char build[BUILD_ID_SIZE];
            build_of(matches.gl_pathv[i], build, sizeof(build));
            if (strcmp(build, last) == 0)
                continue; /* a symlink to the one before */
            const size_t used = strlen(id);
            snprintf(id + used, size - used, "%s%s", num_builtins++ ? "+" : " ", build);
            memcpy(last, build, sizeof(last));
        }
    }
    globfree(&matches);
    if (num_builtins == 0) {
        const size_t used = strlen(id);
        snprintf(id + used, size - used, " no-builtins");
    }
}

void ftj_nvrtc_identify(const char *file, char *id, size_t size)
{
    const char *mark = strstr(file, "libnvrtc.so.");
    const char *version = mark ? mark + strlen("libnvrtc.so.") : "unversioned";
    char build[BUILD_ID_SIZE];
    build_of(file, build, sizeof(build));
    snprintf(id, size, "nvrtc %s %s", version, build);
    append_builtins(file, version, id, size);
}
