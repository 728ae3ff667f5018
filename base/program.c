/* SPDX-License-Identifier: MIT */
#include "base/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

bool ftj_is_program(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

static int add_file(posix_spawn_file_actions_t *actions, int file, int as)
{
    return file < 0 ? posix_spawn_file_actions_addopen(actions, as, "/dev/null",
                                                       as == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0)
                    : posix_spawn_file_actions_adddup2(actions, file, as);
}

/* A file that is passed on may have the number of a standard one, where the host has closed those:
 * it is taken before that number is given away. */
static int add_files(posix_spawn_file_actions_t *actions, const struct ftj_program *program)
{
    int error = program->input < 0 ? 0 : add_file(actions, program->input, STDIN_FILENO);
    if (!error)
        error = add_file(actions, program->output, STDOUT_FILENO);
    if (!error)
        error = add_file(actions, STDOUT_FILENO, STDERR_FILENO);
    if (!error && program->input < 0)
        error = add_file(actions, -1, STDIN_FILENO);
    return error;
}

static void set_signals(posix_spawnattr_t *attributes, bool has_group)
{
    static const int defaults[] = {SIGCHLD, SIGPIPE, SIGALRM};
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(attributes, &signals);
    for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++)
        sigaddset(&signals, defaults[i]);
    posix_spawnattr_setsigdefault(attributes, &signals);
    if (has_group) {
        posix_spawnattr_setpgroup(attributes, 0);
        flags |= POSIX_SPAWN_SETPGROUP;
    }
    posix_spawnattr_setflags(attributes, flags);
}

int ftj_program_start(const struct ftj_program *program, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    set_signals(&attributes, program->has_group);
    error = add_files(&actions, program);
    if (!error)
        error = posix_spawn(child, program->argv[0], &actions, &attributes,
                            (char *const *)(uintptr_t)program->argv,
                            program->environment ? program->environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}
