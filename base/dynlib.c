/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* dlinfo() */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

/* The file behind a name such as "libcuda.so.1", as the loader found it. */
static void write_path(void *library, const char *name, char *path, size_t size)
{
    struct link_map *map = NULL;
    const bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
    snprintf(path, size, "%s", known ? map->l_name : name);
}

void *ftj_dynlib_open(const char *const *names, struct ftj_text *tried, char *path, size_t size)
{
    ftj_text_append(tried, "", 0);
    for (size_t i = 0; names[i]; i++) {
        ftj_text_printf(tried, "%s%s", tried->size > 0 ? ", " : "", names[i]);
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            continue;
        if (path)
            write_path(library, names[i], path, size);
        return library;
    }
    return NULL;
}

void *ftj_dynlib_symbol(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

void ftj_dynlib_close(void *library)
{
    if (library)
        dlclose(library);
}
