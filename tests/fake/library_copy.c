/* SPDX-License-Identifier: MIT */
#include "library_copy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_SIZE 512

/* Rename the symbol in every string table: the loader's hash still leads to it, its name differs.
 */
static int rename_symbol(char *data, size_t size, const char *symbol)
{
    const size_t length = strlen(symbol) + 1;
    int found = 0;
    for (size_t i = 1; i + length <= size; i++) {
        if (data[i - 1] == 0 && memcmp(data + i, symbol, length) == 0) {
            data[i] = '?';
            found = 1;
        }
    }
    return found;
}

int library_copy(const char *from, const char *to, const char *without)
{
    int done = 0;
    char *data = NULL;
    FILE *out = NULL;
    FILE *in = fopen(from, "rb");
    if (!in || fseek(in, 0, SEEK_END))
        goto cleanup;
    const long end = ftell(in);
    const size_t size = end > 0 ? (size_t)end : 0;
    rewind(in);
    data = malloc(size + 1);
    if (!data || fread(data, 1, size, in) != size)
        goto cleanup;
    if (without && !rename_symbol(data, size, without))
        goto cleanup;
    out = fopen(to, "wb");
    done = out && fwrite(data, 1, size, out) == size;

cleanup:
    if (out && fclose(out))
        done = 0;
    if (in)
        fclose(in);
    free(data);
    return done;
}

void library_path(char path[PATH_SIZE], const char *first, ...)
{
    va_list parts;
    va_start(parts, first);
    size_t used = (size_t)snprintf(path, PATH_SIZE, "%s", first);
    for (const char *part; (part = va_arg(parts, const char *)) != NULL;) {
        mkdir(path, 0700);
        used += (size_t)snprintf(path + used, PATH_SIZE - used, "/%s", part);
    }
    va_end(parts);
}
