/* SPDX-License-Identifier: MIT */
/* Finding NVRTC and compiling with it, with a fake one. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/nvrtc.h"
#include "codegen/template_set.h"
#include "library_copy.h"
#include "log_catcher.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static char dir[256];

#define expect_said(part)                                                                          \
    cr_expect(strstr(catcher.last, part), "\"%s\" is not in: %s", part, catcher.last)

static void expect_complaint(const struct ftj_binary *binary, const char *part)
{
    char complaint[256];
    ftj_binary_complaint(binary, complaint, sizeof(complaint));
    cr_expect(strstr(complaint, part), "\"%s\" is not in: %s", part, complaint);
}

static void set_up(void)
{
    temp_dir_init(dir);
    unsetenv("FTJIT_NVRTC");
}

static void tear_down(void)
{
    temp_dir_finish(dir);
}

TestSuite(nvrtc, .init = set_up, .fini = tear_down);

static struct ftj_source source_of(const char *target, char *text, bool allow_fma)
{
    struct ftj_source source = {
        .template_id = "attn_decode",
        .text = {.data = text, .size = strlen(text)},
        .allow_fma = allow_fma,
    };
    snprintf(source.target, sizeof(source.target), "%s", target);
    return source;
}

static ftj_status compile_once(const char *path, const char *target, struct ftj_binary *binary)
{
    char text[] = "// as good as any\n";
    const struct ftj_source source = source_of(target, text, true);
    struct ftj_compiler compiler = {0};
    cr_assert_eq(ftj_nvrtc_find(&compiler, path, &log_to_catcher), FTJ_OK);
    const ftj_status status = compiler.compile(&compiler, &source, binary);
    ftj_compiler_finish(&compiler);
    return status;
}

/* A helper of the fake that is loaded from `path`. */
static void look_up(const char *path, void *function, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(library, "%s is not loaded", path);
    void *address = dlsym(library, name);
    cr_assert_not_null(address);
    memcpy(function, &address, sizeof(address));
}

Test(nvrtc, is_found_as_a_file_and_not_loaded)
{
    char copy[512];
    library_path(copy, dir, "libnvrtc.so.13", NULL);
    cr_assert(library_copy(FAKE_NVRTC_PATH, copy, NULL));
    struct ftj_compiler compiler = {0};
    setenv("FTJIT_NVRTC", "/nonexistent", 1);
    cr_assert_eq(ftj_nvrtc_find(&compiler, copy, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(compiler.path, copy);
    cr_expect_str_eq(compiler.id, "nvrtc 13 " FAKE_NVRTC_BUILD_ID " no-builtins");
    cr_expect_str_eq(compiler.output, "cubin");
    cr_expect_null(dlopen(copy, RTLD_NOW | RTLD_NOLOAD));
    ftj_compiler_finish(&compiler);
    cr_expect_null(compiler.state);
}

Test(nvrtc, is_found_in_a_folder_that_is_named)
{
    /* itself; a toolkit; what pip --target makes for CUDA 13 and for CUDA 12 */
    static const char *const folders[][4] = {
        {"here", NULL},
        {"toolkit", "lib64", NULL},
        {"wheel13", "nvidia", "cu13", "lib"},
        {"wheel12", "nvidia", "cuda_nvrtc", "lib"},
    };
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        char root[512];
        char folder[512];
        char copy[512];
        const char *const *f = folders[i];
        library_path(root, dir, f[0], NULL);
        library_path(folder, dir, f[0], f[1], f[1] ? f[2] : NULL, f[2] ? f[3] : NULL, NULL);
        library_path(copy, folder, i == 3 ? "libnvrtc.so.12" : "libnvrtc.so.13", NULL);
        cr_assert(library_copy(FAKE_NVRTC_PATH, copy, NULL), "%s", copy);
        setenv("FTJIT_NVRTC", root, 1);
        struct ftj_compiler compiler = {0};
        cr_assert_eq(ftj_nvrtc_find(&compiler, NULL, &log_to_catcher), FTJ_OK);
        cr_expect_str_eq(compiler.path, copy);
        ftj_compiler_finish(&compiler);
    }
}

Test(nvrtc, of_the_loaders_path_or_already_loaded_comes_before_a_toolkit)
{
    char first[512];
    char second[512];
    library_path(first, dir, "first", "libnvrtc.so.12", NULL);
    library_path(second, dir, "second", "libnvrtc.so.13", NULL);
    cr_assert(library_copy(FAKE_NVRTC_PATH, first, NULL));
    cr_assert(library_copy(FAKE_NVRTC_PATH, second, NULL));
    char list[1024];
    snprintf(list, sizeof(list), "/nonexistent::%s/first:%s/second", dir, dir);
    setenv("LD_LIBRARY_PATH", list, 1);

    struct ftj_compiler compiler = {0};
    cr_assert_eq(ftj_nvrtc_find(&compiler, NULL, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(compiler.path, first);
    ftj_compiler_finish(&compiler);

    cr_assert_not_null(dlopen(second, RTLD_NOW | RTLD_LOCAL));
    cr_assert_eq(ftj_nvrtc_find(&compiler, NULL, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(compiler.path, second);
    ftj_compiler_finish(&compiler);
}

Test(nvrtc, that_is_missing_is_said_by_the_first_compile)
{
    struct ftj_compiler compiler = {0};
    struct ftj_binary binary = {0};
    char text[] = "";
    const struct ftj_source source = source_of("sm_90a", text, true);
    setenv("FTJIT_NVRTC", "/nonexistent/folder", 1);
    cr_assert_eq(ftj_nvrtc_find(&compiler, NULL, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(compiler.path, "");
    cr_expect_str_eq(compiler.id, "");
    cr_expect_str_eq(compiler.missing, "FTJIT_NVRTC=/nonexistent/folder");
    cr_expect_eq(catcher.num_sentences, 0);
    cr_expect_eq(compiler.compile(&compiler, &source, &binary), FTJ_E_COMPILER);
    expect_said("attn_decode for sm_90a");
    expect_said("looked at FTJIT_NVRTC=/nonexistent/folder;");
    cr_expect_null(binary.code.data);
    ftj_compiler_finish(&compiler);
}

Test(nvrtc, id_tells_builds_apart)
{
    char library[512];
    char builtins[512];
    struct ftj_compiler compiler = {0};
    library_path(library, dir, "libnvrtc.so.13", NULL);
    library_path(builtins, dir, "libnvrtc-builtins.so.13.0", NULL);
    cr_assert(library_copy(FAKE_NVRTC_PATH, library, NULL));
    cr_assert(library_copy(FAKE_NVRTC_PATH, builtins, NULL));
    cr_assert_eq(ftj_nvrtc_find(&compiler, dir, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(compiler.id, "nvrtc 13 " FAKE_NVRTC_BUILD_ID " " FAKE_NVRTC_BUILD_ID);
    ftj_compiler_finish(&compiler);

    /* No build-id: its bytes count. */
    cr_assert(library_copy(FAKE_CUDA_PATH, builtins, NULL));
    cr_assert_eq(ftj_nvrtc_find(&compiler, dir, &log_to_catcher), FTJ_OK);
    const char *start = "nvrtc 13 " FAKE_NVRTC_BUILD_ID " xxh3-";
    cr_expect_eq(strncmp(compiler.id, start, strlen(start)), 0, "%s", compiler.id);
    char before[sizeof(compiler.id)];
    memcpy(before, compiler.id, sizeof(before));
    ftj_compiler_finish(&compiler);
    cr_assert(library_copy(FAKE_CUDA_PATH, builtins, "cuInit"));
    cr_assert_eq(ftj_nvrtc_find(&compiler, dir, &log_to_catcher), FTJ_OK);
    cr_expect_str_neq(compiler.id, before);
    ftj_compiler_finish(&compiler);
}

Test(nvrtc, options_are_the_ones_that_decide_the_code)
{
    struct ftj_compiler compiler = {0};
    char text[] = "";
    char storage[64];
    const char *options[8];
    cr_assert_eq(ftj_nvrtc_find(&compiler, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_OK);
    struct ftj_source source = source_of("sm_120a", text, true);
    cr_assert_eq(compiler.options(&compiler, &source, options, 8, storage), 3);
    cr_expect_str_eq(options[0], "--gpu-architecture=sm_120a");
    cr_expect_str_eq(options[1], "-std=c++17");
    cr_expect_str_eq(options[2], "-default-device");
    source.allow_fma = false;
    cr_assert_eq(compiler.options(&compiler, &source, options, 8, storage), 4);
    cr_expect_str_eq(options[3], "--fmad=false");
    ftj_compiler_finish(&compiler);
}

Test(nvrtc, compiles_quietly_on_a_thread_with_room)
{
    struct ftj_binary binary = {0};
    cr_assert_eq(compile_once(FAKE_NVRTC_PATH, "sm_90a", &binary), FTJ_OK, "%s", catcher.last);
    cr_expect_gt(binary.code.size, 64);
    cr_expect_eq(binary.registers, 40);
    cr_expect_eq(binary.smem_bytes, 1024);
    cr_expect_eq(binary.spill_bytes, 8 + 12);
    cr_expect(strstr((const char *)binary.log.data, "Used 40 registers"));

    const char *(*text)(void) = NULL;
    size_t (*stack_bytes)(void) = NULL;
    look_up(FAKE_NVRTC_PATH, &text, "fake_nvrtc_options");
    cr_expect_str_eq(text(), "--gpu-architecture=sm_90a -std=c++17 -default-device -Xptxas=-v "
                             "--no-source-include -modify-stack-limit=false --minimal "
                             "--no-cache");
    look_up(FAKE_NVRTC_PATH, &text, "fake_nvrtc_headers");
    for (size_t i = 0; i < ftj_num_templates; i++)
        cr_expect(strstr(text(), ftj_templates[i].name), "%s", ftj_templates[i].name);
    look_up(FAKE_NVRTC_PATH, &stack_bytes, "fake_nvrtc_stack_bytes");
    cr_expect_geq(stack_bytes(), 2u << 20);
    cr_expect_eq(catcher.num_sentences, 0);
    ftj_binary_finish(&binary);
}

Test(nvrtc, is_given_no_option_that_it_is_too_old_for)
{
    static const struct {
        const char *version;
        bool is_minimal;
        bool has_cache;
    } rows[] = {{"11.9", false, false}, {"12.7", false, false}, {"12.8", true, false},
                {"12.9", true, true},   {"13.5", true, true},   {"14.0", true, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_binary binary = {0};
        const char *(*options)(void) = NULL;
        setenv("FAKE_NVRTC_VERSION", rows[i].version, 1);
        cr_assert_eq(compile_once(FAKE_NVRTC_PATH, "sm_80", &binary), FTJ_OK);
        look_up(FAKE_NVRTC_PATH, &options, "fake_nvrtc_options");
        cr_expect_eq(strstr(options(), "--minimal") != NULL, rows[i].is_minimal, "%s",
                     rows[i].version);
        cr_expect_eq(strstr(options(), "--no-cache") != NULL, rows[i].has_cache, "%s",
                     rows[i].version);
        ftj_binary_finish(&binary);
    }
}

Test(nvrtc, returns_the_log_of_a_source_it_rejects)
{
    struct ftj_compiler compiler = {0};
    struct ftj_binary binary = {0};
    char text[] = "a syntax error\n";
    const struct ftj_source source = source_of("sm_80", text, true);
    cr_assert_eq(ftj_nvrtc_find(&compiler, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_OK);
    cr_expect_eq(compiler.compile(&compiler, &source, &binary), FTJ_E_COMPILE);
    expect_complaint(&binary, "unit.cu(3): error: expected a \";\"");
    cr_expect_eq(catcher.num_sentences, 0, "the sentence is the caller's");
    cr_expect_null(binary.code.data);
    cr_assert_not_null(binary.log.data);
    cr_expect(strstr((const char *)binary.log.data, "1 error detected"));
    ftj_binary_finish(&binary);
    ftj_compiler_finish(&compiler);
}

Test(nvrtc, failures_have_a_status_and_a_sentence)
{
    static const struct {
        const char *failure;
        ftj_status status;
        const char *said;
    } rows[] = {
        {"nvrtcVersion", FTJ_E_COMPILER, "nvrtcVersion"},
        {"nvrtcCreateProgram", FTJ_E_COMPILE, "nvrtcCreateProgram"},
        {"nvrtcCreateProgram:1", FTJ_E_NO_MEMORY, "no memory to compile attn_decode for sm_80"},
        {"nvrtcCompileProgram:5", FTJ_E_COMPILER, "too old for sm_80"},
        {"nvrtcCompileProgram:11", FTJ_E_COMPILE, "error: expected"},
        {"nvrtcGetCUBINSize", FTJ_E_COMPILE, "NVRTC_ERROR_FAKE"},
        {"nvrtcGetCUBIN", FTJ_E_COMPILE, "NVRTC_ERROR_FAKE"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_binary binary = {0};
        setenv("FAKE_NVRTC_FAIL", rows[i].failure, 1);
        cr_expect_eq(compile_once(FAKE_NVRTC_PATH, "sm_80", &binary), rows[i].status, "%s",
                     rows[i].failure);
        if (rows[i].status == FTJ_E_COMPILE)
            expect_complaint(&binary, rows[i].said);
        else
            expect_said(rows[i].said);
        cr_expect_null(binary.code.data, "%s", rows[i].failure);
        ftj_binary_finish(&binary);
    }
    struct ftj_binary binary = {0};
    setenv("FAKE_NVRTC_FAIL", "nvrtcGetProgramLogSize", 1);
    cr_expect_eq(compile_once(FAKE_NVRTC_PATH, "sm_80", &binary), FTJ_OK, "the code is there");
    ftj_binary_finish(&binary);
}

Test(nvrtc, too_old_for_a_target_is_no_fault_of_the_kernel)
{
    struct ftj_binary binary = {0};
    setenv("FAKE_NVRTC_NEWEST", "90", 1);
    setenv("FAKE_NVRTC_VERSION", "12.1", 1);
    cr_expect_eq(compile_once(FAKE_NVRTC_PATH, "sm_100a", &binary), FTJ_E_COMPILER);
    expect_said("NVRTC 12.1 is too old for sm_100a");
    ftj_binary_finish(&binary);
}

Test(nvrtc, code_that_is_not_what_was_asked_for_is_refused)
{
    static const struct {
        const char *fault;
        const char *said;
    } rows[] = {
        {"empty", "empty"},
        {"foreign", "not GPU machine code"},
        {"other_sm", "another architecture"},
        {"nameless", "does not hold the kernel"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_binary binary = {0};
        setenv("FAKE_NVRTC_CUBIN", rows[i].fault, 1);
        cr_expect_eq(compile_once(FAKE_NVRTC_PATH, "sm_90a", &binary), FTJ_E_COMPILE);
        expect_complaint(&binary, rows[i].said);
        cr_expect_null(binary.code.data);
        ftj_binary_finish(&binary);
    }
}

Test(nvrtc, without_one_of_its_symbols_is_refused)
{
    static const char *const symbols[] = {FTJ_NVRTC_ERROR_STRING,
#define SYMBOL_NAME(symbol, arguments) #symbol,
                                          FTJ_NVRTC_SYMBOL_MAP(SYMBOL_NAME)
#undef SYMBOL_NAME
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        char path[512];
        struct ftj_binary binary = {0};
        library_path(path, dir, symbols[i], NULL);
        cr_assert(library_copy(FAKE_NVRTC_PATH, path, symbols[i]), "%s", symbols[i]);
        cr_expect_eq(compile_once(path, "sm_80", &binary), FTJ_E_COMPILER, "%s", symbols[i]);
        char part[64];
        snprintf(part, sizeof(part), "has no %s:", symbols[i]);
        expect_said(part);
        ftj_binary_finish(&binary);
    }
}

Test(nvrtc, that_is_no_library_is_refused)
{
    char path[512];
    struct ftj_binary binary = {0};
    library_path(path, dir, "libnvrtc.so.13", NULL);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fclose(file), 0);
    cr_expect_eq(compile_once(path, "sm_80", &binary), FTJ_E_COMPILER);
    expect_said("cannot be loaded");
    ftj_binary_finish(&binary);
}

struct shared_compile {
    struct ftj_compiler *compiler;
    ftj_status status;
    struct ftj_binary binary;
};

static void *compile_shared(void *data)
{
    struct shared_compile *shared = data;
    char text[] = "// one of many\n";
    const struct ftj_source source = source_of("sm_86", text, false);
    shared->status = shared->compiler->compile(shared->compiler, &source, &shared->binary);
    return NULL;
}

Test(nvrtc, may_be_used_by_many_threads_from_the_first_compile_on)
{
    struct ftj_compiler compiler = {0};
    cr_assert_eq(ftj_nvrtc_find(&compiler, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_OK);
    pthread_t threads[8];
    struct shared_compile shared[8];
    for (size_t i = 0; i < 8; i++) {
        shared[i] = (struct shared_compile){.compiler = &compiler, .status = FTJ_E_IO};
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_shared, &shared[i]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_expect_eq(shared[i].status, FTJ_OK);
        ftj_binary_finish(&shared[i].binary);
    }
    unsigned int (*calls)(const char *) = NULL;
    look_up(FAKE_NVRTC_PATH, &calls, "fake_nvrtc_calls");
    cr_expect_eq(calls("nvrtcCompileProgram"), 8);
    cr_expect_eq(calls("nvrtcDestroyProgram"), 8);
    ftj_compiler_finish(&compiler);
}
