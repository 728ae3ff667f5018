/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/program.h"
#include "runtime/cpu/cpu_file.h"

bool ftj_cpu_process_find(const char *name, char *path, size_t size)
{
    const size_t name_size = strlen(name) + 1;
    if (memchr(name, '/', name_size)) {
        if (name_size > size)
            return false;
        memcpy(path, name, name_size);
        return ftj_is_program(path);
    }
    const char *folder = ftj_variable("PATH");
    while (folder && *folder) {
        const size_t length = strcspn(folder, ":");
        if (length > 0 && length + 1 + name_size <= size) {
            memcpy(path, folder, length);
            path[length] = '/';
            memcpy(path + length + 1, name, name_size);
            if (ftj_is_program(path))
                return true;
        }
        folder += length + (folder[length] == ':');
    }
    return false;
}

/* Wait for a child's end, but not for ever; waitpid()'s answer. */
static pid_t wait_for_end(pid_t child, uint32_t timeout_s, int *fate, bool *is_late)
{
    const uint64_t deadline_us = ftj_now_us() + (uint64_t)timeout_s * 1000000u;
    const struct timespec pause = {.tv_nsec = 2000000};
    *is_late = false;
    for (;;) {
        const pid_t ended = waitpid(child, fate, *is_late ? 0 : WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
            return ended;
        if (ended == 0)
            nanosleep(&pause, NULL);
        if (!*is_late && ftj_now_us() >= deadline_us)
            *is_late = kill(-child, SIGKILL) == 0;
    }
}

/* What a compiler cannot say itself, in the words its log would have. */
static void append_fate(struct ftj_bytes *output, const char *path, int signal_number, bool is_late,
                        uint32_t timeout_s)
{
    struct ftj_text text = {0};
    if (output->data)
        ftj_text_append(&text, output->data, output->size);
    if (is_late)
        ftj_text_printf(&text,
                        "error: %s had not ended after %u seconds (FTJIT_COMPILE_TIMEOUT) and was "
                        "killed\n",
                        path, timeout_s);
    else
        ftj_text_printf(&text, "error: %s was ended by signal %d, %s\n", path, signal_number,
                        strsignal(signal_number));
    if (text.failed) {
        ftj_text_finish(&text);
        return;
    }
    ftj_bytes_finish(output);
    *output = (struct ftj_bytes){.data = (uint8_t *)text.data, .size = text.size};
}

bool ftj_cpu_process_run(const char *const *argv, uint32_t timeout_s, struct ftj_bytes *output,
                         bool *is_success)
{
    const int file = ftj_cpu_file_open();
    if (file < 0)
        return false;

    pid_t child = 0;
    int ended = 0;
    bool has_run = false;
    errno = ftj_program_start(
        &(struct ftj_program){.argv = argv, .input = -1, .output = file, .has_group = true},
        &child);
    if (errno)
        goto cleanup;
    bool is_late = false;
    const pid_t waited = wait_for_end(child, timeout_s, &ended, &is_late);
    /* A host that ignores SIGCHLD has its children's fates thrown away: ECHILD, once they ended.
     * What the child was to leave behind then tells. */
    *is_success = !is_late && (waited < 0 || (WIFEXITED(ended) && WEXITSTATUS(ended) == 0));
    has_run = ftj_cpu_file_read(file, output);
    if (has_run && (is_late || (waited == child && WIFSIGNALED(ended))))
        append_fate(output, argv[0], WIFSIGNALED(ended) ? WTERMSIG(ended) : 0, is_late, timeout_s);

cleanup:
    close(file);
    return has_run;
}
