/* SPDX-License-Identifier: MIT */
#include "tests/unit/temp_dir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void temp_dir_init(char path[256])
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, 256, "%s/ftjit_test_XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
}

static int is_folder(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Call `visit` with the path of everything in a folder, not deeper. */
static void each_in(const char *path, void (*visit)(const char *child, void *data), void *data)
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *item = readdir(folder); item; item = readdir(folder)) {
        char child[512];
        const int size = snprintf(child, sizeof(child), "%s/%s", path, item->d_name);
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 &&
            size < (int)sizeof(child))
            visit(child, data);
    }
    closedir(folder);
}

static void remove_tree(const char *path, void *data)
{
    if (!is_folder(path)) {
        unlink(path);
        return;
    }
    chmod(path, 0700);
    each_in(path, remove_tree, data);
    rmdir(path);
}

void temp_dir_finish(const char *path)
{
    remove_tree(path, NULL);
}

struct count {
    const char *ending;
    char *first;
    size_t num_files;
};

static void count_file(const char *path, void *data)
{
    struct count *count = data;
    if (is_folder(path)) {
        each_in(path, count_file, data);
        return;
    }
    const size_t size = strlen(path);
    const size_t ending_size = strlen(count->ending);
    if (size < ending_size || strcmp(path + size - ending_size, count->ending) != 0)
        return;
    if (count->first && count->num_files == 0)
        snprintf(count->first, 512, "%s", path);
    count->num_files++;
}

size_t temp_dir_count(const char *path, const char *ending, char first[512])
{
    struct count count = {.ending = ending, .first = first};
    each_in(path, count_file, &count);
    return count.num_files;
}
