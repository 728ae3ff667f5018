/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target without libFuzzer: its seeds, then changes of them, the same ones in every run.
 *
 *   fuzz_NAME [ROUNDS]          replay
 *   fuzz_NAME --seeds FOLDER    write the seeds, for libFuzzer to begin with
 *   fuzz_NAME FILE...           replay files: what libFuzzer has found
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_target.h"

#define MAX_BYTES 65536

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t next_random(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* In a block of its own size, so that a sanitizer sees its end. */
static void test(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        exit(1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Flip, cut, repeat, or put a number where lengths break. */
static size_t mutate(uint8_t *data, size_t size)
{
    static const uint8_t numbers[][4] = {
        {0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0x80}, {0xff, 0xff, 0xff, 0x7f}};
    const uint32_t at = next_random((uint32_t)size);
    switch (next_random(5)) {
    case 0:
        data[at] ^= (uint8_t)(1u << next_random(8));
        return size;
    case 1:
        data[at] = (uint8_t)next_random(256);
        return size;
    case 2:
        if (at + 4 <= size)
            memcpy(data + at, numbers[next_random(4)], 4);
        return size;
    case 3:
        return at + 1;
    default:
        if (size + 16 <= MAX_BYTES) {
            memmove(data + at + 16, data + at, size - at);
            return size + 16;
        }
        return size;
    }
}

static int replay(long rounds)
{
    static uint8_t seed[MAX_BYTES];
    static uint8_t data[MAX_BYTES];
    int num_seeds = 0;
    for (size_t size; (size = fuzz_seed(num_seeds, seed, sizeof(seed))) > 0; num_seeds++) {
        test(seed, size);
        for (long round = 0; round < rounds; round++) {
            size_t changed = size;
            memcpy(data, seed, size);
            for (uint32_t i = next_random(4) + 1; i > 0 && changed > 0; i--)
                changed = mutate(data, changed);
            test(data, changed);
        }
    }
    test(data, 0);
    printf("%d seeds, %ld changes of each\n", num_seeds, rounds);
    return num_seeds > 0 ? 0 : 1;
}

static int write_seeds(const char *folder)
{
    static uint8_t data[MAX_BYTES];
    for (int i = 0;; i++) {
        char path[4096];
        const size_t size = fuzz_seed(i, data, sizeof(data));
        if (size == 0)
            return i > 0 ? 0 : 1;
        snprintf(path, sizeof(path), "%s/seed_%d", folder, i);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, size, file) != size || fclose(file))
            return 1;
    }
}

static int replay_file(const char *path)
{
    static uint8_t data[MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    test(data, fread(data, 1, sizeof(data), file));
    fclose(file);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--seeds"))
        return write_seeds(argv[2]);
    if (argc == 1 || (argc == 2 && strspn(argv[1], "0123456789") == strlen(argv[1])))
        return replay(argc == 2 ? atol(argv[1]) : 2000);
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_file(argv[i]);
    return failed;
}
