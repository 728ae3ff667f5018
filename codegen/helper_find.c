/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* dladdr */
#include "codegen/helper_process.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/program.h"

#define HELPER_NAME "ftjit-cc"

static bool try_path(const char *path, char *found, size_t size, struct ftj_text *tried)
{
    ftj_text_printf(tried, "%s%s", tried->size ? ", " : "", path);
    if (strlen(path) >= size || !ftj_is_program(path))
        return false;
    memcpy(found, path, strlen(path) + 1);
    return true;
}

/* Beside a file, and where an installation with that file has its libexec. */
static bool try_beside(const char *file, char *found, size_t size, struct ftj_text *tried)
{
    static const char *const below[] = {"", "/../libexec/ftjit", "/../../libexec/ftjit"};
    const char *slash = strrchr(file, '/');
    for (size_t i = 0; slash && i < sizeof(below) / sizeof(*below); i++) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof(path), "%.*s%s/%s", (int)(slash - file), file,
                                    below[i], HELPER_NAME);
        if (length < (int)sizeof(path) && try_path(path, found, size, tried))
            return true;
    }
    return false;
}

/* The name that dladdr() has for the program itself is what its caller called it, so that one is
 * asked of the system. */
bool ftj_helper_find(char *path, size_t size, struct ftj_text *tried)
{
    static const char anchor = 0;
    const char *named = ftj_variable("FTJIT_CC");
    if (named)
        return try_path(named, path, size, tried);

    char file[PATH_MAX];
    Dl_info about = {0};
    if (dladdr(&anchor, &about) && about.dli_fname && realpath(about.dli_fname, file) &&
        try_beside(file, path, size, tried))
        return true;
    const ssize_t length = readlink("/proc/self/exe", file, sizeof(file) - 1);
    if (length > 0) {
        file[length] = '\0';
        if (try_beside(file, path, size, tried))
            return true;
    }
    return try_path(FTJ_LIBEXEC_DIR "/" HELPER_NAME, path, size, tried);
}
