/* SPDX-License-Identifier: MIT */
/* Files without a name: what a child process prints, what the loader loads. */
#ifndef FTJ_RUNTIME_CPU_FILE_H
#define FTJ_RUNTIME_CPU_FILE_H

#include "base/bytes.h"

/* An empty file of this process alone, or -1 with errno set. The caller closes it. */
int ftj_cpu_file_open(void);
/* Append; false with errno set. */
bool ftj_cpu_file_write(int file, const void *data, size_t size);
/* The whole of a file. `bytes` is untouched on failure; one byte past its size is zero. */
bool ftj_cpu_file_read(int file, struct ftj_bytes *bytes);

#endif
