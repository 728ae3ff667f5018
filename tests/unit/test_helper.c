/* SPDX-License-Identifier: MIT */
/* Compiles in a process of its own, with a fake NVRTC that meets every fate there. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "codegen/helper_compile.h"
#include "log_catcher.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static char dir[256];
static struct ftj_compiler compiler;
static struct ftj_binary binary;

#define expect_in(text, part) cr_expect(strstr(text, part), "\"%s\" is not in: %s", part, text)

static void set_up(void)
{
    temp_dir_init(dir);
    setenv("TMPDIR", dir, 1);
    setenv("FTJIT_CC", FTJIT_CC_PATH, 1);
    cr_assert_eq(ftj_nvrtc_find(&compiler, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_OK);
    compiler.mode = FTJ_COMPILE_PROCESS;
}

static void tear_down(void)
{
    ftj_binary_finish(&binary);
    ftj_compiler_finish(&compiler);
    cr_expect_eq(temp_dir_count(dir, "", NULL), 0, "a file was left behind");
    temp_dir_finish(dir);
}

TestSuite(helper, .init = set_up, .fini = tear_down);

static ftj_status compile(const char *text)
{
    char *copy = strdup(text);
    struct ftj_source source = {.template_id = "attn_decode",
                                .text = {.data = copy, .size = strlen(copy)}};
    snprintf(source.target, sizeof(source.target), "sm_90a");
    ftj_binary_finish(&binary);
    const ftj_status status = compiler.compile(&compiler, &source, &binary);
    free(copy);
    return status;
}

static const char *complaint(void)
{
    static char text[512];
    ftj_binary_complaint(&binary, text, sizeof(text));
    return text;
}

static bool is_loaded_here(void)
{
    return dlopen(FAKE_NVRTC_PATH, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

static size_t num_folders(void)
{
    struct stat about;
    cr_assert_eq(stat(dir, &about), 0);
    return (size_t)about.st_nlink - 2;
}

Test(helper, compiles_what_the_thread_compiles)
{
    cr_assert_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    cr_expect_not(is_loaded_here(), "NVRTC came into this process");
    struct ftj_binary there = binary;
    binary = (struct ftj_binary){0};
    compiler.mode = FTJ_COMPILE_THREAD;
    cr_assert_eq(compile("// any"), FTJ_OK);
    cr_expect(is_loaded_here());
    cr_assert_eq(there.code.size, binary.code.size);
    cr_expect_arr_eq(there.code.data, binary.code.data, binary.code.size);
    cr_assert_eq(there.log.size, binary.log.size);
    cr_expect_str_eq((const char *)there.log.data, (const char *)binary.log.data);
    cr_expect_eq(there.registers, 40);
    cr_expect_eq(there.smem_bytes, 1024);
    cr_expect_eq(there.spill_bytes, 20);
    cr_expect_gt(there.compile_us, 0);
    cr_expect_eq(num_folders(), 0);
    ftj_binary_finish(&there);
}

Test(helper, answers_with_the_compilers_failures)
{
    cr_expect_eq(compile("syntax error"), FTJ_E_COMPILE);
    expect_in(complaint(), "unit.cu(3): error: expected a \";\"");
    cr_expect_null(binary.code.data);
    setenv("FAKE_NVRTC_FAIL", "nvrtcCompileProgram:5", 1);
    cr_expect_eq(compile("// any"), FTJ_E_COMPILER);
    expect_in(catcher.last, "too old for sm_90a");
    setenv("FAKE_NVRTC_FAIL", "nvrtcVersion", 1);
    cr_expect_eq(compile("// any"), FTJ_E_COMPILER);
    expect_in(catcher.last, "nvrtcVersion answered");
}

Test(helper, dies_alone)
{
    static const struct {
        const char *fate;
        const char *said;
    } rows[] = {
        {"crash", "was ended by signal 11"},
        {"abort", "was ended by signal 6"},
        {"kill", "was ended by signal 9"},
        {"exit", "ended with code 7 and without an answer"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        setenv("FAKE_NVRTC_FATE", rows[i].fate, 1);
        cr_expect_eq(compile("// any"), FTJ_E_COMPILE, "%s", rows[i].fate);
        expect_in(complaint(), rows[i].said);
        cr_expect_null(binary.code.data);
        cr_expect_eq(num_folders(), 0);
    }
    unsetenv("FAKE_NVRTC_FATE");
    cr_expect_eq(compile("// any"), FTJ_OK);
}

Test(helper, that_hangs_is_killed_when_its_time_is_over)
{
    setenv("FAKE_NVRTC_FATE", "hang", 1);
    compiler.timeout_s = 1;
    const uint64_t start = ftj_now_us();
    cr_expect_eq(compile("// any"), FTJ_E_COMPILE);
    expect_in(complaint(), "had not ended after 1 seconds (FTJIT_COMPILE_TIMEOUT) and was killed");
    cr_expect_lt(ftj_now_us() - start, 20000000u);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
    cr_expect_eq(num_folders(), 0);
}

Test(helper, works_in_a_host_that_ignores_its_children)
{
    signal(SIGCHLD, SIG_IGN);
    cr_expect_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    setenv("FAKE_NVRTC_FATE", "kill", 1);
    cr_expect_eq(compile("// any"), FTJ_E_COMPILE);
    expect_in(complaint(), "ended without an answer");
}

/* ---- kept for the next compile ---- */

/* The name of the one folder there is, which is of the one process. */
static void name_folder(char name[300])
{
    char pattern[300];
    glob_t found = {0};
    snprintf(pattern, sizeof(pattern), "%s/ftjit-cc-*", dir);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "no process is kept");
    cr_expect_eq(found.gl_pathc, 1);
    snprintf(name, 300, "%s", found.gl_pathv[0]);
    globfree(&found);
}

Test(helper, that_is_kept_compiles_again_and_ends_with_its_compiler)
{
    char first[300];
    char second[300];
    compiler.keeps_helpers = true;
    cr_assert_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    name_folder(first);
    cr_expect_eq(compile("syntax error"), FTJ_E_COMPILE);
    cr_expect_eq(compile("// other"), FTJ_OK, "%s", catcher.last);
    name_folder(second);
    cr_expect_str_eq(second, first, "another process was started");
    ftj_compiler_finish(&compiler);
    cr_expect_eq(num_folders(), 0);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

/* Ask by hand, and wait for the whole answer. */
static void ask(const struct ftj_helper *helper, const struct ftj_text *message)
{
    char block[4096];
    size_t size = FTJ_HELPER_HEADER_BYTES;
    cr_assert_eq(write(helper->socket, message->data, message->size), (ssize_t)message->size);
    for (size_t got = 0; got < size;) {
        struct pollfd poll_file = {.fd = helper->socket, .events = POLLIN};
        cr_assert_eq(poll(&poll_file, 1, 20000), 1);
        const ssize_t part = read(helper->socket, block, got ? sizeof(block) : size);
        cr_assert_gt(part, 0);
        if (got == 0)
            size = ftj_helper_message_bytes(block);
        got += (size_t)part;
    }
}

/* Under a sanitizer its exit code says, too, whether it leaks. */
Test(helper, ends_by_itself_when_its_host_is_gone)
{
    char text[] = "// any";
    struct ftj_helper *helper = NULL;
    struct ftj_text message = {0};
    struct ftj_helper_request request = {
        .nvrtc = FAKE_NVRTC_PATH,
        .timeout_s = 60,
        .source = {.template_id = "attn_decode",
                   .target = "sm_90a",
                   .text = {.data = text, .size = strlen(text)}},
        .options = {"--gpu-architecture=sm_90a"},
        .num_options = 1,
    };
    ftj_helper_write_request(&message, &request);
    cr_assert_not(message.failed);
    cr_assert_eq(ftj_helper_start(FTJIT_CC_PATH, &log_to_catcher, &helper), FTJ_OK);
    ask(helper, &message);
    ask(helper, &message);
    const struct ftj_helper_end end = ftj_helper_end(helper, ftj_now_us() + 20000000);
    cr_expect_not(end.is_late);
    cr_expect(end.is_known);
    cr_expect(WIFEXITED(end.fate) && WEXITSTATUS(end.fate) == 0, "it ended with %x", end.fate);
    cr_expect_eq(num_folders(), 0);
    ftj_text_finish(&message);
}

Test(helper, that_is_kept_dies_alone)
{
    compiler.keeps_helpers = true;
    cr_assert_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(compile("// fate: crash"), FTJ_E_COMPILE);
    expect_in(complaint(), "was ended by signal 11");
    cr_expect_eq(num_folders(), 0);
    cr_expect_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    compiler.timeout_s = 1;
    cr_expect_eq(compile("// fate: hang"), FTJ_E_COMPILE);
    expect_in(complaint(), "had not ended after 1 seconds");
    compiler.timeout_s = 60;
    cr_expect_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(num_folders(), 1);
}

/* As the system does that runs out of memory: nobody's compile is lost by it. */
Test(helper, that_is_kept_and_killed_meanwhile_is_replaced)
{
    char children[64];
    long pid = 0;
    compiler.keeps_helpers = true;
    cr_assert_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    snprintf(children, sizeof(children), "/proc/self/task/%ld/children", (long)getpid());
    FILE *file = fopen(children, "r");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    cr_assert_eq(kill((pid_t)pid, SIGKILL), 0);
    siginfo_t fate;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &fate, WEXITED | WNOWAIT), 0);
    cr_expect_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(num_folders(), 1);
}

Test(helper, that_is_kept_is_not_shared_with_a_forked_process)
{
    char folder[300];
    compiler.keeps_helpers = true;
    cr_assert_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    name_folder(folder);
    const pid_t child = fork();
    if (child == 0) { /* nothing of Criterion may run here */
        const bool works = compile("// any") == FTJ_OK;
        ftj_compiler_finish(&compiler);
        _exit(works && num_folders() == 1 ? 0 : 1);
    }
    int fate = 0;
    cr_assert_eq(waitpid(child, &fate, 0), child);
    cr_expect_eq(fate, 0);
    cr_expect_eq(access(folder, F_OK), 0, "the child removed it");
    cr_expect_eq(compile("// any"), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(num_folders(), 1);
}

/* ---- who asks for it, and what goes wrong ---- */

/* In the child nothing of Criterion may run. */
Test(helper, compiles_for_a_forked_process_that_did_not_ask_for_it)
{
    compiler.mode = FTJ_COMPILE_THREAD;
    const pid_t child = fork();
    if (child == 0)
        _exit(compile("// any") != FTJ_OK ? 1 : is_loaded_here() ? 2 : 0);
    int fate = 0;
    cr_assert_eq(waitpid(child, &fate, 0), child);
    cr_expect_eq(fate, 0, "1: it failed; 2: NVRTC was loaded: %d", WEXITSTATUS(fate));
}

Test(helper, that_is_missing_is_said_once_and_not_needed)
{
    setenv("FTJIT_CC", "/nonexistent/ftjit-cc", 1);
    cr_expect_eq(compile("// any"), FTJ_OK);
    cr_expect_eq(catcher.level, FTJ_LOG_WARNING);
    expect_in(catcher.last, "no ftjit-cc");
    expect_in(catcher.last, "/nonexistent/ftjit-cc");
    cr_expect_eq(compile("// any"), FTJ_OK);
    cr_expect_eq(catcher.num_sentences, 1);
}

static void write_script(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, 0700), 0);
    setenv("FTJIT_CC", path, 1);
}

Test(helper, that_is_another_program_is_an_error)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/other", dir);
    write_script(path, "#!/bin/sh\nprintf 'good morning' >&0\n");
    cr_expect_eq(compile("// any"), FTJ_E_COMPILER);
    expect_in(catcher.last, "is no ftjit-cc");
    write_script(path, "#!/bin/sh\nexit 0\n");
    cr_expect_eq(compile("// any"), FTJ_E_COMPILE);
    expect_in(complaint(), "ended with code 0 and without an answer");
    write_script(path, "#!/nonexistent/interpreter\n");
    cr_expect_eq(compile("// any"), FTJ_E_COMPILER);
    expect_in(catcher.last, "cannot be run");
    write_script(path, "#!/bin/sh\nexec 0<&-\nexec sleep 60\n");
    compiler.timeout_s = 1;
    cr_expect_eq(compile("// any"), FTJ_E_COMPILE, "one that will not talk");
    expect_in(complaint(), "had not ended after 1 seconds");
    unlink(path);
}

Test(helper, has_a_folder_for_its_files_that_goes_with_it)
{
    char path[300];
    char report[300];
    snprintf(path, sizeof(path), "%s/looks", dir);
    snprintf(report, sizeof(report), "%s/report", dir);
    setenv("REPORT", report, 1);
    write_script(path, "#!/bin/sh\n"
                       "mkdir \"$TMPDIR/deep\" && echo x >\"$TMPDIR/deep/file\"\n"
                       "stat -c '%a %n' \"$TMPDIR\" >\"$REPORT\"\n");
    cr_expect_eq(compile("// any"), FTJ_E_COMPILE);
    char line[300] = "";
    char expected[300];
    FILE *file = fopen(report, "r");
    cr_assert_not_null(file);
    cr_expect_not_null(fgets(line, sizeof(line), file));
    fclose(file);
    snprintf(expected, sizeof(expected), "700 %s/ftjit-cc-", dir);
    cr_expect_eq(strncmp(line, expected, strlen(expected)), 0, "%s", line);
    cr_expect_eq(num_folders(), 0);
    unlink(report);
    unlink(path);
}

Test(helper, is_chosen_by_the_environment)
{
    struct ftj_compiler chosen = {0};
    setenv("FTJIT_COMPILE", "process", 1);
    setenv("FTJIT_COMPILE_TIMEOUT", "7", 1);
    cr_assert_eq(ftj_nvrtc_find(&chosen, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_OK);
    cr_expect_eq(chosen.mode, FTJ_COMPILE_PROCESS);
    cr_expect_eq(chosen.timeout_s, 7);
    ftj_compiler_finish(&chosen);

    static const char *const bad[] = {"0", "-1", "x", "1x", "86401"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        setenv("FTJIT_COMPILE_TIMEOUT", bad[i], 1);
        cr_expect_eq(ftj_nvrtc_find(&chosen, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_E_INVALID);
        expect_in(catcher.last, "FTJIT_COMPILE_TIMEOUT");
        expect_in(catcher.last, bad[i]);
    }
    unsetenv("FTJIT_COMPILE_TIMEOUT");
    setenv("FTJIT_COMPILE", "elsewhere", 1);
    cr_expect_eq(ftj_nvrtc_find(&chosen, FAKE_NVRTC_PATH, &log_to_catcher), FTJ_E_INVALID);
    expect_in(catcher.last, "FTJIT_COMPILE is \"elsewhere\"; allowed: thread, process");
}
