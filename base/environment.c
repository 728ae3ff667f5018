/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* secure_getenv() */
#include "base/environment.h"

#include <stdlib.h>

const char *ftj_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}

const char *ftj_temp_folder(void)
{
    const char *folder = ftj_variable("TMPDIR");
    return folder ? folder : "/tmp";
}
