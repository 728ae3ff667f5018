/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "tests/unit/temp_dir.h"

#define NUM_ENTRIES 5

struct fixture {
    char dir[256];
    char path[300];
    char digest[65];
    struct ftj_key keys[NUM_ENTRIES];
};

static const struct ftj_owners nobody = {.count = 0};
static const struct ftj_pins no_pins = {.count = 0};

static struct ftj_key key_of(int index, const char *compiler)
{
    char source[24];
    struct ftj_key key = {0};
    snprintf(source, sizeof(source), "kernel %d", index);
    cr_assert_eq(ftj_key_init(&key,
                              &(struct ftj_key_input){
                                  .template_id = "t",
                                  .source = source,
                                  .source_bytes = strlen(source),
                                  .templates = "00",
                                  .target = index % 2 ? "sm_90a" : "sm_80",
                                  .output = "cubin",
                                  .compiler = compiler,
                              }),
                 FTJ_OK);
    return key;
}

static void put(struct ftj_bundle_writer *writer, const struct ftj_key *key, uint32_t compile_us)
{
    char log[32];
    const int size = snprintf(log, sizeof(log), "took %u us", compile_us);
    const struct ftj_entry entry = {
        .code = {(uint8_t *)key->hex, 32},
        .log = {(uint8_t *)log, (size_t)size},
        .facts = {.registers = 99, .compile_us = compile_us},
    };
    cr_assert_eq(ftj_bundle_writer_put(writer, key, &entry), FTJ_OK);
}

/* `order` 1 or NUM_ENTRIES - 1: forwards or backwards. */
static void write_bundle(const struct fixture *f, const char *path, int order, char digest[65])
{
    struct ftj_bundle_writer *writer = NULL;
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    for (int i = 0; i < NUM_ENTRIES; i++)
        put(writer, &f->keys[(i * order) % NUM_ENTRIES], (uint32_t)(order * 1000 + i));
    put(writer, &f->keys[0], 5); /* once more */
    cr_assert_eq(ftj_bundle_writer_save(writer, path, digest), FTJ_OK, "%s", ftj_last_error());
    ftj_bundle_writer_destroy(writer);
}

static void init(struct fixture *f)
{
    *f = (struct fixture){0};
    temp_dir_init(f->dir);
    snprintf(f->path, sizeof(f->path), "%s/a.ftb", f->dir);
    for (int i = 0; i < NUM_ENTRIES; i++)
        f->keys[i] = key_of(i, "c");
    write_bundle(f, f->path, 1, f->digest);
}

static void finish(struct fixture *f)
{
    for (int i = 0; i < NUM_ENTRIES; i++)
        ftj_key_finish(&f->keys[i]);
    temp_dir_finish(f->dir);
}

static ftj_status open_at(const char *path, const struct ftj_pins *pins, struct ftj_bundle **bundle,
                          struct ftj_reason *reason)
{
    *bundle = NULL;
    return ftj_bundle_open(path, &nobody, pins, bundle, reason);
}

/* The entry of a key, byte for byte what was put. */
static ftj_status get(const struct ftj_bundle *bundle, const struct ftj_key *key)
{
    size_t count = 0;
    struct ftj_bytes file = {0};
    struct ftj_entry entry = {0};
    const size_t first = ftj_bundle_find(bundle, key, &count);
    if (count == 0)
        return FTJ_E_NOT_FOUND;
    ftj_status status = ftj_bundle_read(bundle, first, &file);
    if (!status)
        status = ftj_entry_decode(key, FTJ_MATCH_WHOLE, file.data, file.size, &entry);
    if (!status) {
        cr_expect_eq(entry.code.size, 32);
        cr_expect_arr_eq(entry.code.data, key->hex, 32);
        cr_expect_eq(entry.facts.registers, 99);
    }
    ftj_entry_finish(&entry);
    ftj_bytes_finish(&file);
    return status;
}

static size_t read_file(const char *path, uint8_t **data)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    cr_assert(file && !fstat(fileno(file), &info));
    *data = malloc((size_t)info.st_size);
    cr_assert_eq(fread(*data, 1, (size_t)info.st_size, file), (size_t)info.st_size);
    fclose(file);
    return (size_t)info.st_size;
}

Test(bundle, serves_what_was_put_and_nothing_else)
{
    struct fixture f;
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    init(&f);
    cr_assert_eq(open_at(f.path, &no_pins, &bundle, &reason), FTJ_OK, "%s", reason.text);
    cr_expect_eq(ftj_bundle_count(bundle), NUM_ENTRIES);
    cr_expect_str_eq(ftj_bundle_digest(bundle), f.digest);
    for (int i = 0; i < NUM_ENTRIES; i++)
        cr_expect_eq(get(bundle, &f.keys[i]), FTJ_OK, "%d", i);
    struct ftj_key other = key_of(NUM_ENTRIES, "c");
    cr_expect_eq(get(bundle, &other), FTJ_E_NOT_FOUND);
    ftj_key_finish(&other);
    ftj_bundle_close(bundle);
    cr_expect_eq(temp_dir_count(f.dir, "", NULL), 1, "no temporary is left");
    finish(&f);
}

Test(bundle, is_the_same_bytes_in_whatever_order_and_time_it_was_compiled)
{
    struct fixture f;
    char path[300], digest[65];
    uint8_t *one = NULL, *two = NULL;
    init(&f);
    snprintf(path, sizeof(path), "%s/b.ftb", f.dir);
    write_bundle(&f, path, NUM_ENTRIES - 1, digest);
    cr_expect_str_eq(digest, f.digest);
    const size_t size = read_file(f.path, &one);
    cr_assert_eq(read_file(path, &two), size);
    cr_expect_arr_eq(one, two, size);
    free(one);
    free(two);
    finish(&f);
}

Test(bundle, entries_of_several_compilers_lie_side_by_side)
{
    struct fixture f;
    char digest[65];
    size_t count = 0;
    struct ftj_bundle *bundle = NULL;
    struct ftj_bundle_writer *writer = NULL;
    struct ftj_reason reason;
    init(&f);
    struct ftj_key other = key_of(3, "another compiler");
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    put(writer, &f.keys[3], 1);
    put(writer, &other, 1);
    put(writer, &f.keys[4], 1);
    cr_assert_eq(ftj_bundle_writer_save(writer, f.path, digest), FTJ_OK);
    ftj_bundle_writer_destroy(writer);
    cr_assert_eq(open_at(f.path, &no_pins, &bundle, &reason), FTJ_OK);
    ftj_bundle_find(bundle, &other, &count);
    cr_expect_eq(count, 2);
    ftj_bundle_find(bundle, &f.keys[4], &count);
    cr_expect_eq(count, 1);
    ftj_bundle_find(bundle, &f.keys[2], &count);
    cr_expect_eq(count, 0);
    ftj_bundle_close(bundle);
    ftj_key_finish(&other);
    finish(&f);
}

Test(bundle, an_empty_one_is_fine)
{
    struct fixture f;
    char digest[65];
    struct ftj_bundle *bundle = NULL;
    struct ftj_bundle_writer *writer = NULL;
    struct ftj_reason reason;
    init(&f);
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_save(writer, f.path, digest), FTJ_OK);
    ftj_bundle_writer_destroy(writer);
    cr_assert_eq(open_at(f.path, &no_pins, &bundle, &reason), FTJ_OK);
    cr_expect_eq(get(bundle, &f.keys[0]), FTJ_E_NOT_FOUND);
    ftj_bundle_close(bundle);
    finish(&f);
}

/* True when something is noticed: at the opening, or at the reading of an entry. */
static bool is_noticed(const struct fixture *f, const char *path, bool *at_open)
{
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    *at_open = open_at(path, &no_pins, &bundle, &reason) == FTJ_E_DAMAGED;
    bool noticed = *at_open;
    for (int i = 0; i < NUM_ENTRIES && !*at_open; i++)
        noticed |= get(bundle, &f->keys[i]) == FTJ_E_DAMAGED;
    ftj_bundle_close(bundle);
    return noticed;
}

Test(bundle, every_flipped_bit_is_noticed_and_in_the_index_at_once)
{
    struct fixture f;
    uint8_t *data = NULL;
    size_t num_missed = 0, num_late = 0;
    init(&f);
    const size_t size = read_file(f.path, &data);
    const size_t index_bytes = 64 + NUM_ENTRIES * 88;
    const int fd = open(f.path, O_WRONLY);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bool at_open = false;
        const uint8_t flipped = data[bit / 8] ^ (uint8_t)(1u << bit % 8);
        cr_assert_eq(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        num_missed += !is_noticed(&f, f.path, &at_open);
        num_late += bit / 8 < index_bytes && !at_open;
        cr_assert_eq(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(fd);
    cr_expect_eq(num_missed, 0, "%zu of %zu", num_missed, 8 * size);
    cr_expect_eq(num_late, 0, "%zu of %zu", num_late, 8 * index_bytes);
    free(data);
    finish(&f);
}

Test(bundle, every_truncation_and_every_byte_more_is_noticed_at_once)
{
    struct fixture f;
    struct stat info;
    bool at_open = false;
    size_t num_missed = 0;
    init(&f);
    cr_assert_eq(stat(f.path, &info), 0);
    cr_assert_eq(truncate(f.path, info.st_size + 1), 0);
    cr_expect(is_noticed(&f, f.path, &at_open) && at_open);
    for (off_t size = info.st_size - 1; size >= 0; size--) {
        cr_assert_eq(truncate(f.path, size), 0);
        num_missed += !is_noticed(&f, f.path, &at_open) || !at_open;
    }
    cr_expect_eq(num_missed, 0, "%zu of %zu", num_missed, (size_t)info.st_size);
    finish(&f);
}

/* What a file system may do to one that is in use: misses, and no signal. */
Test(bundle, one_that_is_cut_short_while_it_is_open_gives_damage)
{
    struct fixture f;
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    init(&f);
    cr_assert_eq(open_at(f.path, &no_pins, &bundle, &reason), FTJ_OK);
    cr_assert_eq(truncate(f.path, 100), 0);
    for (int i = 0; i < NUM_ENTRIES; i++)
        cr_expect_eq(get(bundle, &f.keys[i]), FTJ_E_DAMAGED);
    ftj_bundle_close(bundle);
    finish(&f);
}

Test(bundle, serves_after_it_was_moved_or_removed)
{
    struct fixture f;
    char path[300];
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    init(&f);
    snprintf(path, sizeof(path), "%s/elsewhere.ftb", f.dir);
    cr_assert_eq(rename(f.path, path), 0);
    cr_assert_eq(open_at(path, &no_pins, &bundle, &reason), FTJ_OK);
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(get(bundle, &f.keys[2]), FTJ_OK);
    ftj_bundle_close(bundle);
    finish(&f);
}

Test(bundle, pins_are_compared_and_refused_when_they_are_no_digests)
{
    struct fixture f;
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    struct ftj_pins pins = {0};
    char list[140];
    init(&f);
    snprintf(list, sizeof(list), "%064d,%s", 0, f.digest);
    cr_assert_eq(ftj_pins_init(&pins, list, "X", NULL), FTJ_OK);
    cr_expect_eq(pins.count, 2);
    cr_expect_eq(open_at(f.path, &pins, &bundle, &reason), FTJ_OK);
    ftj_bundle_close(bundle);
    pins.count = 1;
    cr_expect_eq(open_at(f.path, &pins, &bundle, &reason), FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(reason.text, f.digest), "%s", reason.text);

    static const char *const bad[] = {"0", "x", ",", "00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_expect_eq(ftj_pins_init(&pins, bad[i], "VARIABLE", NULL), FTJ_E_INVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(ftj_last_error(), "VARIABLE"));
    }
    cr_expect_eq(ftj_pins_init(&pins, "", "X", NULL), FTJ_OK);
    cr_expect_eq(pins.count, 0);
    finish(&f);
}

Test(bundle, one_that_others_may_write_to_needs_a_pin)
{
    struct fixture f;
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    struct ftj_pins pins = {0};
    init(&f);
    cr_assert_eq(chmod(f.path, 0622), 0);
    cr_expect_eq(open_at(f.path, &no_pins, &bundle, &reason), FTJ_E_IO);
    cr_expect_not_null(strstr(reason.text, "others may write"), "%s", reason.text);
    cr_assert_eq(ftj_pins_init(&pins, f.digest, "X", NULL), FTJ_OK);
    cr_expect_eq(open_at(f.path, &pins, &bundle, &reason), FTJ_OK);
    ftj_bundle_close(bundle);
    finish(&f);
}

Test(bundle, what_is_no_file_is_refused)
{
    struct fixture f;
    char path[300];
    struct ftj_bundle *bundle = NULL;
    struct ftj_reason reason;
    init(&f);
    snprintf(path, sizeof(path), "%s/pipe", f.dir);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(open_at(path, &no_pins, &bundle, &reason), FTJ_E_DAMAGED);
    cr_expect_eq(open_at("/nowhere/x.ftb", &no_pins, &bundle, &reason), FTJ_E_NOT_FOUND);
    cr_expect_not_null(strstr(reason.text, "No such file"), "%s", reason.text);
    finish(&f);
}

Test(bundle, a_place_that_cannot_be_written_to_is_said)
{
    struct fixture f;
    char digest[65] = "untouched";
    struct ftj_bundle_writer *writer = NULL;
    init(&f);
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    put(writer, &f.keys[0], 1);
    cr_expect_eq(ftj_bundle_writer_save(writer, "/nowhere/x.ftb", digest), FTJ_E_IO);
    cr_expect_not_null(strstr(ftj_last_error(), "/nowhere"), "%s", ftj_last_error());
    cr_expect_str_eq(digest, "untouched");
    ftj_bundle_writer_destroy(writer);
    finish(&f);
}
