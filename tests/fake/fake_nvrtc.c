/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "fake_nvrtc.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_calls.h"

#define MACHINE_CUDA  190
#define OSABI_CUDA_V2 65

enum {
    INVALID_INPUT = 3,
};

/* The prototypes are the library's own: a list that disagrees with its users does not compile. */
#define FAKE_NVRTC_PROTOTYPE(symbol, arguments) int symbol arguments;
FTJ_NVRTC_SYMBOL_MAP(FAKE_NVRTC_PROTOTYPE)
#undef FAKE_NVRTC_PROTOTYPE
const char *nvrtcGetErrorString(int result);

enum { SYMBOL_BYTES = 64 };
static const char good_log[] =
    "ptxas info    : Compiling entry function 'some_kernel'\n"
    "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
    "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\n";
static const char bad_log[] = "note: as the test asked\n"
                              "unit.cu(3): error: expected a \";\"\n"
                              "1 error detected\n";

struct ftj_nvrtc_program {
    char *source;
    const char *log;
    unsigned char code[sizeof(Elf64_Ehdr) + 1 + SYMBOL_BYTES];
    size_t code_bytes;
};

/* What the last calls were given, for the tests to read once no call is running. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char last_options[1024];
static char last_headers[4096];
static size_t last_stack_bytes;

static int begin(const char *symbol)
{
    return fake_call("FAKE_NVRTC_FAIL", symbol);
}

static int number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : otherwise;
}

unsigned int fake_nvrtc_calls(const char *symbol)
{
    return fake_calls_of(symbol);
}

const char *fake_nvrtc_options(void)
{
    return last_options;
}

const char *fake_nvrtc_headers(void)
{
    return last_headers;
}

size_t fake_nvrtc_stack_bytes(void)
{
    return last_stack_bytes;
}

static void join(char *text, size_t size, int count, const char *const *words)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", words[i]);
}

const char *nvrtcGetErrorString(int result)
{
    return result == FTJ_NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_FAKE";
}

int nvrtcVersion(int *major, int *minor)
{
    const char *text = getenv("FAKE_NVRTC_VERSION");
    if (sscanf(text ? text : "13.0", "%d.%d", major, minor) != 2)
        return INVALID_INPUT;
    return begin("nvrtcVersion");
}

int nvrtcCreateProgram(struct ftj_nvrtc_program **program, const char *source, const char *name,
                       int num_headers, const char *const *headers,
                       const char *const *include_names)
{
    (void)name;
    (void)headers;
    const int result = begin("nvrtcCreateProgram");
    if (result)
        return result;
    pthread_mutex_lock(&mutex);
    join(last_headers, sizeof(last_headers), num_headers, include_names);
    pthread_mutex_unlock(&mutex);
    struct ftj_nvrtc_program *created = calloc(1, sizeof(*created));
    char *copy = strdup(source);
    if (!created || !copy) {
        free(created);
        free(copy);
        return FTJ_NVRTC_ERROR_OUT_OF_MEMORY;
    }
    created->source = copy;
    created->log = "";
    *program = created;
    return 0;
}

int nvrtcDestroyProgram(struct ftj_nvrtc_program **program)
{
    free((*program)->source);
    free(*program);
    *program = NULL;
    return begin("nvrtcDestroyProgram");
}

/* The name of the kernel that a source defines, or what tests without a source ask for. */
static void write_symbol(const char *source, char *symbol)
{
    const char *name = strstr(source, "void ftj_");
    if (name)
        snprintf(symbol, SYMBOL_BYTES, "%.*s", (int)strcspn(name + 5, "("), name + 5);
    else
        snprintf(symbol, SYMBOL_BYTES, "ftj_attn_decode");
}

static void write_code(struct ftj_nvrtc_program *program, int sm)
{
    const char *fault = getenv("FAKE_NVRTC_CUBIN");
    fault = fault ? fault : "";
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
                    OSABI_CUDA_V2},
        .e_type = ET_EXEC,
        .e_machine = strcmp(fault, "foreign") == 0 ? EM_X86_64 : MACHINE_CUDA,
        .e_flags = (Elf64_Word)(strcmp(fault, "other_sm") == 0 ? 70 : sm) << 8,
    };
    memcpy(program->code, &header, sizeof(header));
    memset(program->code + sizeof(header), 0, 1 + SYMBOL_BYTES);
    write_symbol(program->source, (char *)program->code + sizeof(header) + 1);
    program->code_bytes = strcmp(fault, "empty") == 0      ? 0
                          : strcmp(fault, "nameless") == 0 ? sizeof(header)
                                                           : sizeof(program->code);
}

static size_t stack_bytes_here(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return 0;
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    return bytes;
}

/* One write of one line, so that many processes may share the file. */
static void record(const char *source)
{
    const char *path = getenv("FAKE_NVRTC_RECORD");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = source; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    char line[32];
    const int length = snprintf(line, sizeof(line), "%016llx\n", (unsigned long long)hash);
    if (write(file, line, (size_t)length) != length)
        abort();
    close(file);
}

static void meet_fate(const char *source)
{
    const char *named = strstr(source, "fate: ");
    const char *fate = named ? named + strlen("fate: ") : getenv("FAKE_NVRTC_FATE");
    fate = fate ? fate : "";
    if (strcmp(fate, "crash") == 0) {
        /* Without a sanitizer's report, and on a thread that blocks every signal. */
        sigset_t fault;
        sigemptyset(&fault);
        sigaddset(&fault, SIGSEGV);
        signal(SIGSEGV, SIG_DFL);
        pthread_sigmask(SIG_UNBLOCK, &fault, NULL);
        raise(SIGSEGV);
    }
    if (strcmp(fate, "abort") == 0)
        abort();
    if (strcmp(fate, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(fate, "exit") == 0)
        _exit(7);
    while (strcmp(fate, "hang") == 0)
        pause();
}

int nvrtcCompileProgram(struct ftj_nvrtc_program *program, int num_options,
                        const char *const *options)
{
    static const char prefix[] = "--gpu-architecture=sm_";
    const long delay_ms = number("FAKE_NVRTC_DELAY_MS", 0);
    const struct timespec delay = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000};
    record(program->source);
    meet_fate(program->source);
    nanosleep(&delay, NULL);
    int sm = 0;
    for (int i = 0; i < num_options; i++) {
        if (strncmp(options[i], prefix, sizeof(prefix) - 1) == 0)
            sm = atoi(options[i] + sizeof(prefix) - 1);
    }
    pthread_mutex_lock(&mutex);
    join(last_options, sizeof(last_options), num_options, options);
    last_stack_bytes = stack_bytes_here();
    pthread_mutex_unlock(&mutex);

    int result = begin("nvrtcCompileProgram");
    if (!result && (sm == 0 || sm > number("FAKE_NVRTC_NEWEST", 121)))
        result = FTJ_NVRTC_ERROR_INVALID_OPTION;
    if (!result && strstr(program->source, "syntax error"))
        result = FTJ_NVRTC_ERROR_COMPILATION;
    program->log = result ? bad_log : good_log;
    if (!result)
        write_code(program, sm);
    return result;
}

int nvrtcGetProgramLogSize(struct ftj_nvrtc_program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return begin("nvrtcGetProgramLogSize");
}

int nvrtcGetProgramLog(struct ftj_nvrtc_program *program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1);
    return begin("nvrtcGetProgramLog");
}

int nvrtcGetCUBINSize(struct ftj_nvrtc_program *program, size_t *size)
{
    *size = program->code_bytes;
    return begin("nvrtcGetCUBINSize");
}

int nvrtcGetCUBIN(struct ftj_nvrtc_program *program, char *code)
{
    memcpy(code, program->code, program->code_bytes);
    return begin("nvrtcGetCUBIN");
}
