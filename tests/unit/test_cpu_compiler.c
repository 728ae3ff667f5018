/* SPDX-License-Identifier: MIT */
/* The host's compiler: how it is found, what it leaves behind, what it says when it fails. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu_kernel.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {.write = catch_sentence, .data = &catcher};

static void find(struct ftj_compiler *compiler, const char *path)
{
    cr_assert_eq(ftj_host_compiler_find(compiler, path, &log_to_catcher), FTJ_OK);
}

Test(cpu_compiler, is_found_on_path_with_its_version)
{
    struct ftj_compiler compiler = {0};
    unsetenv("FTJIT_CXX");
    find(&compiler, NULL);
    cr_expect_eq(compiler.path[0], '/', "%s", compiler.path);
    cr_expect_not_null(strpbrk(compiler.id, "0123456789"), "%s", compiler.id);
    cr_expect_null(strchr(compiler.id, '\n'));
    cr_expect_str_eq(compiler.missing, "");
    cr_expect_str_eq(compiler.output, "so");
}

Test(cpu_compiler, named_by_the_environment_is_the_only_one_tried)
{
    struct ftj_compiler compiler = {0};
    setenv("FTJIT_CXX", "no-such-compiler", 1);
    find(&compiler, NULL);
    cr_expect_str_eq(compiler.path, "");
    cr_expect_str_eq(compiler.id, "");
    cr_expect_str_eq(compiler.missing, "no-such-compiler");
}

Test(cpu_compiler, named_by_the_caller_comes_before_the_environment)
{
    struct ftj_compiler named = {0}, compiler = {0};
    unsetenv("FTJIT_CXX");
    find(&named, NULL);
    setenv("FTJIT_CXX", "no-such-compiler", 1);
    find(&compiler, named.path);
    cr_expect_str_eq(compiler.path, named.path);
    cr_expect_str_eq(compiler.id, named.id);
}

Test(cpu_compiler, that_is_missing_is_said_when_it_is_needed)
{
    struct ftj_bytes code = {0};
    char folder[256];
    temp_dir_init(folder);
    setenv("PATH", folder, 1);
    unsetenv("FTJIT_CXX");
    cr_expect_eq(cpu_kernel_compile("int x;\n", &log_to_catcher, &code), FTJ_E_COMPILER);
    static const char *const named[] = {"tried c", " g++", "clang++", "FTJIT_CXX"};
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        cr_expect_not_null(strstr(catcher.last, named[i]), "%s", catcher.last);
    temp_dir_finish(folder);
}

Test(cpu_compiler, is_given_options_without_a_path)
{
    struct ftj_compiler compiler = {0};
    const struct ftj_source source = {.template_id = "test"};
    const char *options[32];
    char storage[64];
    find(&compiler, NULL);
    const size_t count = compiler.options(&compiler, &source, options, 32, storage);
    cr_assert(count >= 8 && count < 32);
    cr_expect_str_eq(options[0], "-std=c++17");
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(options[i][0], '-', "%s", options[i]);
        cr_expect_null(strchr(options[i], '/'), "%s", options[i]);
    }
}

Test(cpu_compiler, leaves_no_file_behind)
{
    struct ftj_bytes code = {0};
    char folder[256];
    temp_dir_init(folder);
    setenv("TMPDIR", folder, 1);
    cr_expect_eq(cpu_kernel_compile("int x;\n", &log_to_catcher, &code), FTJ_OK);
    cr_expect(code.size > 4 && !memcmp(code.data, "\177ELF", 4));
    cr_expect_eq(cpu_kernel_compile("int x = y;\n", &log_to_catcher, &code), FTJ_E_COMPILE);
    cr_expect_eq(temp_dir_count(folder, "", NULL), 0u);
    ftj_bytes_finish(&code);
    temp_dir_finish(folder);
}

Test(cpu_compiler, quotes_the_first_error_and_keeps_the_whole_log)
{
    struct ftj_compiler compiler = {0};
    struct ftj_source source = {.template_id = "some_kernel"};
    struct ftj_binary binary = {0};
    find(&compiler, NULL);
    ftj_text_printf(&source.text, "int a;\nint b = c;\nint d = e;\n");
    cr_expect_eq(compiler.compile(&compiler, &source, &binary), FTJ_E_COMPILE);
    char complaint[256];
    ftj_binary_complaint(&binary, complaint, sizeof(complaint));
    cr_expect(strstr(complaint, "some_kernel:2:") && strstr(complaint, "error"), "%s", complaint);
    cr_expect_eq(catcher.num_sentences, 0, "the sentence is the caller's");
    const char *log = (const char *)binary.log.data;
    cr_assert_not_null(log);
    cr_expect_not_null(strstr(log, "some_kernel:3:"), "%s", log);
    cr_expect_eq(binary.code.size, 0u);
    ftj_bytes_finish(&binary.log);
    ftj_text_finish(&source.text);
}

/* The next file that is opened, which is what the compiler prints into, gets their number. */
Test(cpu_compiler, works_in_a_process_that_has_closed_its_standard_input)
{
    struct ftj_compiler compiler = {0};
    cr_assert_eq(close(STDIN_FILENO), 0);
    cr_assert_eq(ftj_host_compiler_find(&compiler, NULL, NULL), FTJ_OK);
    cr_expect_str_neq(compiler.id, "", "what it prints is lost");
    ftj_compiler_finish(&compiler);
}

Test(cpu_compiler, works_in_a_process_that_ignores_its_children)
{
    struct ftj_bytes code = {0};
    cr_assert_neq(signal(SIGCHLD, SIG_IGN), SIG_ERR);
    cr_expect_eq(cpu_kernel_compile("int x;\n", &log_to_catcher, &code), FTJ_OK, "%s",
                 catcher.last);
    cr_expect_gt(code.size, 0u);
    ftj_bytes_finish(&code);
    cr_expect_eq(cpu_kernel_compile("int x = y;\n", &log_to_catcher, &code), FTJ_E_COMPILE);
}

static void write_script(char path[300], const char *folder, const char *text)
{
    snprintf(path, 300, "%s/compiler", folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert(
        fprintf(file, "#!/bin/sh\n[ \"$1\" != --version ] || exec echo script 1\n%s\n", text) > 0);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, 0700), 0);
}

Test(cpu_compiler, that_dies_or_hangs_is_an_error_and_no_more)
{
    static const struct {
        const char *script;
        const char *said;
    } rows[] = {
        {"kill -SEGV $$", "was ended by signal 11"},
        {"kill -KILL $$", "was ended by signal 9"},
        {"echo 'unit:1: error: first'; kill -KILL $$", "unit:1: error: first"},
        {"sleep 600 & wait", "had not ended after 1 seconds (FTJIT_COMPILE_TIMEOUT)"},
    };
    char folder[256];
    char path[300];
    char complaint[512];
    temp_dir_init(folder);
    setenv("FTJIT_COMPILE_TIMEOUT", "1", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_compiler compiler = {0};
        struct ftj_source source = {.template_id = "some_kernel"};
        struct ftj_binary binary = {0};
        write_script(path, folder, rows[i].script);
        find(&compiler, path);
        cr_assert_str_neq(compiler.id, "");
        ftj_text_printf(&source.text, "int a;\n");
        cr_expect_eq(compiler.compile(&compiler, &source, &binary), FTJ_E_COMPILE);
        ftj_binary_complaint(&binary, complaint, sizeof(complaint));
        cr_expect(strstr(complaint, rows[i].said), "%s", complaint);
        cr_expect_null(binary.code.data);
        ftj_binary_finish(&binary);
        ftj_text_finish(&source.text);
    }
    setenv("FTJIT_COMPILE_TIMEOUT", "soon", 1);
    struct ftj_compiler compiler = {0};
    cr_expect_eq(ftj_host_compiler_find(&compiler, path, &log_to_catcher), FTJ_E_INVALID);
    temp_dir_finish(folder);
}

Test(cpu_compiler, without_a_place_to_work_says_so)
{
    struct ftj_bytes code = {0};
    setenv("TMPDIR", "/no-such-folder", 1);
    cr_expect_eq(cpu_kernel_compile("int x;\n", &log_to_catcher, &code), FTJ_E_IO);
    cr_expect_not_null(strstr(catcher.last, "/no-such-folder"), "%s", catcher.last);
}
