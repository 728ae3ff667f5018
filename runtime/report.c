/* SPDX-License-Identifier: MIT */
/* Report files of a failed compile: <tmp>/ftjit-XXXXXX/<key>.cu and .log, readable by their owner.
 */
#include "runtime/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

static bool write_file(const char *folder, const char *name, const char *ending, const void *data,
                       size_t size)
{
    char path[512];
    if (snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ending) >= (int)sizeof(path))
        return false;
    FILE *file = fopen(path, "wx");
    if (!file)
        return false;
    const bool written = fwrite(data, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

void ftj_report_compile(const struct ftj_log *log, const struct ftj_key *key,
                        const struct ftj_source *source, const struct ftj_binary *binary)
{
    char folder[256];
    const int length = snprintf(folder, sizeof(folder), "%s/ftjit-XXXXXX", ftj_temp_folder());
    char complaint[300];
    ftj_binary_complaint(binary, complaint, sizeof(complaint));
    const char *text = binary->log.data ? (const char *)binary->log.data : "";

    const bool saved = length < (int)sizeof(folder) && mkdtemp(folder) &&
                       write_file(folder, key->hex, "cu", source->text.data, source->text.size) &&
                       write_file(folder, key->hex, "log", text, binary->log.size);
    if (saved)
        (void)ftj_fail(log, FTJ_E_COMPILE, "%s for %s does not compile: %s; see %s/%s.cu and .log",
                       source->template_id, source->target, complaint, folder, key->hex);
    else
        (void)ftj_fail(log, FTJ_E_COMPILE, "%s for %s does not compile: %s", source->template_id,
                       source->target, complaint);
}
