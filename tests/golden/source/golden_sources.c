/* SPDX-License-Identifier: MIT */
/*
 * The generated source of a few kernels against the files beside this one, and their keys against
 * keys.txt; and the numbers of the tuners against tuned.txt. Prints TAP; with --write it writes the
 * files anew (update.sh), so that a change of what is generated is read as a change of these files.
 *
 * The keys are made with a fixed digest of templates and a fixed compiler: an edited template shows
 * in its own file's history, whereas a key that moves here moves for every user.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/key.h"
#include "codegen/compile.h"
#include "tests/compile/matrix_rows.h"
#include "tests/golden/source/tuned_numbers.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct golden_case {
    const char *name; /* of the file, without ".cu" */
    const char *target;
    enum ftj_kernel_op op;
    struct matrix_row row;
};

static const struct golden_case cases[] = {
    {"store_fp8_nvfp4_sm_90a",
     "sm_90a",
     FTJ_KERNEL_STORE,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"store_fp32_rows_nhd_cpu",
     "cpu",
     FTJ_KERNEL_STORE,
     {FTJ_DTYPE_FP16, FTJ_KV_16BIT, FTJ_KV_16BIT, 80, 1, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 0,
      FTJ_DTYPE_FP32}},
    {"decode_bf16_sm_80",
     "sm_80",
     FTJ_KERNEL_DECODE,
     {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
      0}},
    {"decode_nvfp4_sm_90a",
     "sm_90a",
     FTJ_KERNEL_DECODE,
     {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 128, 8, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
      0}},
    {"decode_fp8_nvfp4_slots_sm_75",
     "sm_75",
     FTJ_KERNEL_DECODE,
     {FTJ_DTYPE_FP16, FTJ_KV_FP8, FTJ_KV_NVFP4, 64, 24, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 30, 0}},
    {"decode_fp8_cpu",
     "cpu",
     FTJ_KERNEL_DECODE,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8, 96, 6, 16, FTJ_KV_HND, FTJ_TABLE_BLOCKS, 0, 0}},
    {"short_fp8_sm_90a",
     "sm_90a",
     FTJ_KERNEL_SHORT,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"short_combine_sm_80",
     "sm_80",
     FTJ_KERNEL_SHORT_COMBINE,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"combine_sm_90a",
     "sm_90a",
     FTJ_KERNEL_COMBINE,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"extend_fp8_nvfp4_sm_80",
     "sm_80",
     FTJ_KERNEL_EXTEND,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"extend_bf16_slots_sm_75",
     "sm_75",
     FTJ_KERNEL_EXTEND,
     {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 512, 8, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 30, 0}},
    {"extend_bf16_sm_90a",
     "sm_90a",
     FTJ_KERNEL_EXTEND,
     {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
      0}},
    {"extend_fp8_nvfp4_sm_90a",
     "sm_90a",
     FTJ_KERNEL_EXTEND,
     {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0}},
    {"extend_combine_sm_90a",
     "sm_90a",
     FTJ_KERNEL_EXTEND_COMBINE,
     {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
      0}},
    {"merge_sm_120a",
     "sm_120a",
     FTJ_KERNEL_MERGE,
     {FTJ_DTYPE_FP16, FTJ_KV_16BIT, FTJ_KV_16BIT, 256, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
      0}},
    {"generic_nvfp4_sm_100a",
     "sm_100a",
     FTJ_KERNEL_GENERIC,
     {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 512, 8, 784, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 50,
      FTJ_DTYPE_FP32}},
};

/* The key a user gets, but for templates and compiler; kernels of the CPU target, which another
 * compiler builds, without options. */
static ftj_status key_of(const struct ftj_source *source, const struct ftj_device *device,
                         struct ftj_key *key)
{
    struct ftj_compiler compiler = {0};
    ftj_status status = ftj_nvrtc_find(&compiler, NULL, NULL);
    if (status)
        return status;
    const char *options[16];
    char storage[64];
    size_t num_options = 0;
    if (device->kind == FTJ_DEVICE_CUDA)
        num_options = compiler.options(&compiler, source, options, COUNT(options), storage);
    status = ftj_key_init(key, &(struct ftj_key_input){
                                   .template_id = source->template_id,
                                   .source = source->text.data,
                                   .source_bytes = source->text.size,
                                   .templates = "golden templates",
                                   .options = options,
                                   .num_options = num_options,
                                   .target = source->target,
                                   .output = compiler.output,
                                   .compiler = "golden compiler",
                               });
    ftj_compiler_finish(&compiler);
    return status;
}

static ftj_status render(const struct golden_case *golden, struct ftj_source *source,
                         struct ftj_key *key)
{
    struct ftj_device device = {0};
    ftj_attention_desc desc = {0};
    ftj_status status = ftj_device_of_target(golden->target, NULL, &device);
    if (!status)
        status = matrix_row_desc(&golden->row, &desc);
    if (status)
        return status;

    struct ftj_problem problem = {0};
    struct ftj_config config = {0};
    ftj_problem_init(&problem, golden->op, &desc);
    const struct ftj_variant *variant = ftj_variant_select(&problem, &device, &config);
    if (!variant)
        return ftj_fail(NULL, FTJ_E_UNSUPPORTED, "no variant serves it on %s", golden->target);
    status = ftj_source_init(source, variant, &problem, &config, &device);
    return status ? status : key_of(source, &device, key);
}

/* The whole file; empty when it cannot be read. */
static void read_file(const char *path, struct ftj_text *text)
{
    char block[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    for (size_t size; (size = fread(block, 1, sizeof(block), file)) > 0;)
        ftj_text_append(text, block, size);
    fclose(file);
}

static bool write_file(const char *path, const struct ftj_text *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    const bool written = fwrite(text->data, 1, text->size, file) == text->size;
    return !fclose(file) && written;
}

/* Line of the first difference, counted from 1; 0 when both are the same. */
static size_t first_difference(const struct ftj_text *a, const struct ftj_text *b)
{
    const size_t shorter = a->size < b->size ? a->size : b->size;
    size_t line = 1;
    for (size_t i = 0; i < shorter; i++) {
        if (a->data[i] != b->data[i])
            return line;
        line += a->data[i] == '\n';
    }
    return a->size == b->size ? 0 : line;
}

/* One TAP line: the file is as generated. */
static bool compare(size_t number, const char *folder, const char *file,
                    const struct ftj_text *generated)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    struct ftj_text golden = {0};
    read_file(path, &golden);
    const size_t line = first_difference(&golden, generated);
    printf("%sok %zu - %s is as generated\n", line ? "not " : "", number, file);
    if (line)
        printf("# differs from line %zu on; run tests/golden/source/update.sh and read the diff\n",
               line);
    ftj_text_finish(&golden);
    return !line;
}

static bool write_golden(const char *folder, const char *file, const struct ftj_text *generated)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    if (write_file(path, generated))
        return true;
    fprintf(stderr, "%s cannot be written\n", path);
    return false;
}

int main(int argc, char **argv)
{
    const bool writes = argc == 3 && !strcmp(argv[1], "--write");
    if (argc != 2 && !writes) {
        fprintf(stderr, "use: golden_sources [--write] FOLDER\n");
        return 2;
    }
    const char *folder = argv[argc - 1];
    struct ftj_text keys = {0};
    bool good = true;
    if (!writes)
        printf("1..%zu\n", COUNT(cases) + 2);

    for (size_t i = 0; i < COUNT(cases); i++) {
        char file[128];
        struct ftj_source source = {0};
        struct ftj_key key = {0};
        snprintf(file, sizeof(file), "%s.cu", cases[i].name);
        if (render(&cases[i], &source, &key)) {
            fprintf(stderr, "%s: %s\n", cases[i].name, ftj_last_error());
            good = false;
        }
        ftj_text_printf(&keys, "%s %s\n", key.hex, cases[i].name);
        good &= writes ? write_golden(folder, file, &source.text)
                       : compare(i + 1, folder, file, &source.text);
        ftj_key_finish(&key);
        ftj_source_finish(&source);
    }
    good &= writes ? write_golden(folder, "keys.txt", &keys)
                   : compare(COUNT(cases) + 1, folder, "keys.txt", &keys);
    ftj_text_finish(&keys);

    struct ftj_text tuned = {0};
    tuned_numbers_write(&tuned);
    good &= writes ? write_golden(folder, "tuned.txt", &tuned)
                   : compare(COUNT(cases) + 2, folder, "tuned.txt", &tuned);
    ftj_text_finish(&tuned);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
