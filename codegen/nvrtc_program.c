/* SPDX-License-Identifier: MIT */
/* Loading libnvrtc, and one compile with it. */
#include "codegen/nvrtc.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dynlib.h"
#include "codegen/elf_image.h"
#include "codegen/template_set.h"

#define MAX_SENTENCE 240
#define MAX_OPTIONS  16
#define NUM_MANNERS  5
/* NVRTC dies on less than 96 KB, and with -modify-stack-limit=false it no longer asks for more by
 * itself. Untouched pages of a stack cost nothing. */
#define STACK_BYTES (8u << 20)

/* NVRTC opens its builtins by name only, which fails where the loader does not know the folder and
 * the library was built without an $ORIGIN path. Once open, the name finds them. When they are not
 * there, the compile says so. */
static void *open_builtins(const char *file, int major, int minor)
{
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    const int folder = slash ? (int)(slash - file) + 1 : 0;
    snprintf(path, sizeof(path), "%.*slibnvrtc-builtins.so.%d.%d", folder, file, major, minor);
    const char *const names[] = {path, NULL};
    struct ftj_text tried = {0};
    void *builtins = ftj_dynlib_open(names, &tried, NULL, 0);
    ftj_text_finish(&tried);
    return builtins;
}

void ftj_nvrtc_unload(struct ftj_nvrtc *nvrtc)
{
    ftj_dynlib_close(nvrtc->builtins);
    ftj_dynlib_close(nvrtc->library);
    *nvrtc = (struct ftj_nvrtc){0};
}

ftj_status ftj_nvrtc_load(struct ftj_nvrtc *nvrtc, const char *file, const struct ftj_log *log)
{
    const char *const names[] = {file, NULL};
    struct ftj_text tried = {0};
    struct ftj_nvrtc loaded = {.library = ftj_dynlib_open(names, &tried, NULL, 0)};
    ftj_text_finish(&tried);
    if (!loaded.library)
        return ftj_fail(log, FTJ_E_COMPILER, "%s was found but cannot be loaded", file);

    /* memcpy: ISO C has no conversion from an object pointer to a function pointer. */
    const char *missing = NULL;
    void *address = ftj_dynlib_symbol(loaded.library, FTJ_NVRTC_ERROR_STRING);
    memcpy(&loaded.error_string, &address, sizeof(address));
    if (!address)
        missing = FTJ_NVRTC_ERROR_STRING;
#define FTJ_NVRTC_RESOLVE(symbol, arguments)                                                       \
    address = ftj_dynlib_symbol(loaded.library, #symbol);                                          \
    memcpy(&loaded.symbol, &address, sizeof(address));                                             \
    if (!address)                                                                                  \
        missing = #symbol;
    FTJ_NVRTC_SYMBOL_MAP(FTJ_NVRTC_RESOLVE)
#undef FTJ_NVRTC_RESOLVE

    ftj_status status = FTJ_OK;
    int result = 0;
    if (missing)
        status = ftj_fail(log, FTJ_E_COMPILER, "%s has no %s: it is too old, or no NVRTC", file,
                          missing);
    else if ((result = loaded.nvrtcVersion(&loaded.major, &loaded.minor)) != 0)
        status = ftj_fail(log, FTJ_E_COMPILER, "%s: nvrtcVersion answered %s", file,
                          loaded.error_string(result));
    if (status) {
        ftj_nvrtc_unload(&loaded);
        return status;
    }
    loaded.builtins = open_builtins(file, loaded.major, loaded.minor);
    *nvrtc = loaded;
    return FTJ_OK;
}

/* What makes NVRTC a good guest, and is no part of the key because the instructions are the same
 * with and without: register counts in the log; no look at the working directory for includes; no
 * change of the process's stack limit; none of the declarations of textures and of the device
 * runtime, which cost some milliseconds and which templates do not use (from 12.8 on); and no cache
 * of its own, which from 12.9 on would load libcuda, call cuInit and so break every later fork. */
static size_t add_manners(const struct ftj_nvrtc *nvrtc, const char **options, size_t count)
{
    options[count++] = "-Xptxas=-v";
    options[count++] = "--no-source-include";
    options[count++] = "-modify-stack-limit=false";
    if (nvrtc->major > 12 || (nvrtc->major == 12 && nvrtc->minor >= 8))
        options[count++] = "--minimal";
    if (nvrtc->major > 12 || (nvrtc->major == 12 && nvrtc->minor >= 9))
        options[count++] = "--no-cache";
    return count;
}

/* What the compile thread is given, and what it leaves. It reports nothing itself: the sentence
 * belongs to the thread that called. */
struct job {
    const struct ftj_nvrtc *nvrtc;
    const struct ftj_source *source;
    const char *const *options;
    size_t num_options;
    struct ftj_bytes code; /* owned */
    struct ftj_bytes log;  /* owned; terminated by the bytes' last one, a zero */
    const char *call;      /* that answered `result` */
    int result;
    bool out_of_memory;
};

static int create_program(struct job *job, struct ftj_nvrtc_program **program)
{
    const char **strings = calloc(2 * ftj_num_templates, sizeof(*strings));
    if (!strings) {
        job->out_of_memory = true;
        return FTJ_NVRTC_ERROR_OUT_OF_MEMORY;
    }
    const char **texts = strings;
    const char **names = strings + ftj_num_templates;
    for (size_t i = 0; i < ftj_num_templates; i++) {
        texts[i] = ftj_templates[i].text;
        names[i] = ftj_templates[i].name;
    }
    char name[80];
    snprintf(name, sizeof(name), "%s.cu", job->source->template_id);
    job->call = "nvrtcCreateProgram";
    const int result = job->nvrtc->nvrtcCreateProgram(program, job->source->text.data, name,
                                                      (int)ftj_num_templates, texts, names);
    free(strings); /* NVRTC copies every text while it creates the program */
    return result;
}

/* Room for a text or an image whose size was asked for. */
static char *reserve(struct job *job, struct ftj_bytes *bytes, size_t size)
{
    bytes->data = calloc(1, size + 1);
    bytes->size = bytes->data ? size : 0;
    job->out_of_memory |= !bytes->data;
    return (char *)bytes->data;
}

static int fetch_log(struct job *job, struct ftj_nvrtc_program *program)
{
    size_t size = 0;
    int result = job->nvrtc->nvrtcGetProgramLogSize(program, &size);
    if (result || size == 0 || !reserve(job, &job->log, size))
        return result;
    result = job->nvrtc->nvrtcGetProgramLog(program, (char *)job->log.data);
    job->log.size = strlen((const char *)job->log.data);
    return result;
}

static int fetch_code(struct job *job, struct ftj_nvrtc_program *program)
{
    size_t size = 0;
    job->call = "nvrtcGetCUBINSize";
    const int result = job->nvrtc->nvrtcGetCUBINSize(program, &size);
    if (result || size == 0 || !reserve(job, &job->code, size))
        return result;
    job->call = "nvrtcGetCUBIN";
    return job->nvrtc->nvrtcGetCUBIN(program, (char *)job->code.data);
}

static void *run_job(void *data)
{
    struct job *job = data;
    struct ftj_nvrtc_program *program = NULL;
    job->result = create_program(job, &program);
    if (job->result)
        return NULL;
    job->call = "nvrtcCompileProgram";
    job->result = job->nvrtc->nvrtcCompileProgram(program, (int)job->num_options, job->options);
    /* A log that cannot be had is no reason to lose the code. */
    (void)fetch_log(job, program);
    if (job->result == 0)
        job->result = fetch_code(job, program);
    job->nvrtc->nvrtcDestroyProgram(&program);
    return NULL;
}

/* On a thread of its own: the caller's may be a fibre or have a small stack. Signals stay with the
 * engine's threads. */
static bool run_on_thread(struct job *job)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return false;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_t thread;
    bool started = false;
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
        pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
        started = pthread_create(&thread, &attributes, run_job, job) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return started && pthread_join(thread, NULL) == 0;
}

/* Number in front of `unit`, summed over the log: "12 bytes spill stores" and so on. */
static uint32_t sum_before(const char *log, const char *unit)
{
    uint32_t sum = 0;
    for (const char *at = log; (at = strstr(at, unit)) != NULL; at += strlen(unit)) {
        const char *digits = at;
        while (digits > log && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        sum += (uint32_t)strtoul(digits, NULL, 10);
    }
    return sum;
}

/* Put why the kernel could not be had in front of the log, where the report looks for it. */
static ftj_status explain(const struct job *job, const char *call, const char *fault,
                          struct ftj_binary *binary)
{
    struct ftj_text text = {0};
    ftj_text_printf(&text, "error: NVRTC %d.%d: %s: %s\n%s", job->nvrtc->major, job->nvrtc->minor,
                    call, fault, binary->log.data ? (const char *)binary->log.data : "");
    if (text.failed) {
        ftj_text_finish(&text);
        return FTJ_E_COMPILE;
    }
    ftj_bytes_finish(&binary->log);
    binary->log = (struct ftj_bytes){.data = (uint8_t *)text.data, .size = text.size};
    return FTJ_E_COMPILE;
}

static ftj_status judge(const struct job *job, const struct ftj_log *log, struct ftj_binary *binary)
{
    const struct ftj_nvrtc *nvrtc = job->nvrtc;
    const char *template_id = job->source->template_id;
    const char *target = job->source->target;
    char line[MAX_SENTENCE];
    ftj_binary_complaint(binary, line, sizeof(line));

    if (job->out_of_memory || job->result == FTJ_NVRTC_ERROR_OUT_OF_MEMORY)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory to compile %s for %s", template_id,
                        target);
    if (job->result == FTJ_NVRTC_ERROR_INVALID_OPTION)
        return ftj_fail(log, FTJ_E_COMPILER,
                        "NVRTC %d.%d is too old for %s: it refused the options of %s: %s",
                        nvrtc->major, nvrtc->minor, target, template_id, line);
    if (job->result)
        return strstr(line, "error")
                   ? FTJ_E_COMPILE
                   : explain(job, job->call, nvrtc->error_string(job->result), binary);

    const unsigned int sm = (unsigned int)strtoul(target + strcspn(target, "0123456789"), NULL, 10);
    const struct ftj_symbol symbol = ftj_kernel_symbol(template_id);
    const char *fault = ftj_elf_cubin_fault(job->code.data, job->code.size, sm, symbol.name);
    return fault ? explain(job, "what it returned is unusable", fault, binary) : FTJ_OK;
}

ftj_status ftj_nvrtc_compile(const struct ftj_nvrtc *nvrtc, const struct ftj_source *source,
                             const char *const *options, size_t num_options,
                             const struct ftj_log *log, struct ftj_binary *binary)
{
    const char *all[MAX_OPTIONS];
    assert(num_options + NUM_MANNERS <= MAX_OPTIONS);
    memcpy(all, options, num_options * sizeof(*all));
    struct job job = {.nvrtc = nvrtc,
                      .source = source,
                      .options = all,
                      .num_options = add_manners(nvrtc, all, num_options)};
    const uint64_t start = ftj_now_us();
    if (!run_on_thread(&job))
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no thread with a stack of %u bytes to compile on",
                        STACK_BYTES);

    binary->log = job.log;
    const ftj_status status = judge(&job, log, binary);
    if (status) {
        ftj_bytes_finish(&job.code);
        return status;
    }
    const char *text = binary->log.data ? (const char *)binary->log.data : "";
    binary->registers = sum_before(text, " registers");
    binary->smem_bytes = sum_before(text, " bytes smem");
    binary->spill_bytes =
        sum_before(text, " bytes spill stores") + sum_before(text, " bytes spill loads");
    binary->code = job.code;
    binary->compile_us = (uint32_t)(ftj_now_us() - start);
    return FTJ_OK;
}
