/* SPDX-License-Identifier: MIT */
#include "cache/finder.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE     sizeof(((struct ftj_place *)0)->name)
#define MAX_COMPILERS 64 /* of one kernel: more are not looked at */

struct names {
    char names[MAX_COMPILERS][NAME_SIZE];
    size_t count;
};

static ftj_status get_one(const struct ftj_finder *finder, int folder,
                          const struct ftj_place *place, const char *name,
                          const struct ftj_key *key, enum ftj_match match, struct ftj_entry *entry)
{
    struct ftj_bytes file = {0};
    struct stat seen;
    struct ftj_reason reason;
    const char *what = reason.text;
    ftj_status status = ftj_entry_file_read(finder->owners, folder, name, &seen, &file, &reason);
    if (!status) {
        status = ftj_entry_decode(key, match, file.data, file.size, entry);
        if (status == FTJ_E_NOT_FOUND) {
            what = "holds another kernel";
            status = FTJ_E_DAMAGED;
        }
    }
    ftj_bytes_finish(&file);
    if (status == FTJ_OK)
        ftj_entry_file_touch(folder, name, &seen);
    if (status == FTJ_E_DAMAGED)
        finder->on_fault(finder->data, &(struct ftj_fault){folder, place, name, &seen, what});
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Every entry whose name has the stem, in order. */
static void list_stem(int folder, const struct ftj_place *place, struct names *names)
{
    names->count = 0;
    const int fd = dup(folder); /* closedir() closes its own */
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        if (fd >= 0)
            close(fd);
        return;
    }
    rewinddir(list); /* the position is the folder's, not the descriptor's */
    for (struct dirent *item = readdir(list); item && names->count < MAX_COMPILERS;
         item = readdir(list)) {
        if (strncmp(item->d_name, place->name, FTJ_PLACE_STEM_SIZE) == 0 &&
            strlen(item->d_name) == strlen(place->name))
            memcpy(names->names[names->count++], item->d_name, strlen(place->name) + 1);
    }
    closedir(list);
    qsort(names->names, names->count, NAME_SIZE, compare_names);
}

ftj_status ftj_finder_get(const struct ftj_finder *finder, int folder,
                          const struct ftj_place *place, const struct ftj_key *key,
                          enum ftj_match match, struct ftj_entry *entry, char name[NAME_SIZE])
{
    memcpy(name, place->name, NAME_SIZE);
    if (match == FTJ_MATCH_WHOLE)
        return get_one(finder, folder, place, place->name, key, match, entry);

    struct names names;
    ftj_status worst = FTJ_E_NOT_FOUND;
    list_stem(folder, place, &names);
    for (size_t i = 0; i < names.count; i++) {
        const ftj_status status = get_one(finder, folder, place, names.names[i], key, match, entry);
        if (status == FTJ_OK)
            memcpy(name, names.names[i], NAME_SIZE);
        if (status == FTJ_OK || status == FTJ_E_NO_MEMORY)
            return status;
        if (status == FTJ_E_DAMAGED)
            worst = status;
    }
    return worst;
}
