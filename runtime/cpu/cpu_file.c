/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"

#define CLOSE_ON_EXEC 1u /* MFD_CLOEXEC, which old headers lack */

/* In memory, which works where every folder is read-only or forbids programs; else on disk. */
int ftj_cpu_file_open(void)
{
    int file = -1;
#ifdef SYS_memfd_create
    file = (int)syscall(SYS_memfd_create, "ftjit", CLOSE_ON_EXEC);
    if (file >= 0)
        return file;
#endif
    char path[512];
    if (snprintf(path, sizeof(path), "%s/ftjit-XXXXXX", ftj_temp_folder()) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkstemp(path);
    if (file >= 0) {
        unlink(path);
        fcntl(file, F_SETFD, FD_CLOEXEC);
    }
    return file;
}

bool ftj_cpu_file_write(int file, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        const ssize_t written = write(file, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

bool ftj_cpu_file_read(int file, struct ftj_bytes *bytes)
{
    struct stat about;
    if (fstat(file, &about) || about.st_size < 0)
        return false;
    const size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size + 1);
    if (!data)
        return false;

    size_t done = 0;
    while (done < size) {
        const ssize_t got = pread(file, data + done, size - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(data);
            return false;
        }
        done += (size_t)got;
    }
    data[size] = 0;
    ftj_bytes_finish(bytes);
    *bytes = (struct ftj_bytes){.data = data, .size = size};
    return true;
}
