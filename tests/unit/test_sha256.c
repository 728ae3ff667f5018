/* SPDX-License-Identifier: MIT */
/* Against the vectors of FIPS 180-4's examples and NIST's CAVP. */
#include <criterion/criterion.h>
#include <string.h>

#include "cache/sha256.h"

static void expect_digest(const void *data, size_t size, const char *expected)
{
    uint8_t digest[FTJ_SHA256_BYTES];
    char hex[65];
    ftj_sha256(data, size, digest);
    ftj_sha256_text(digest, hex);
    cr_expect_str_eq(hex, expected, "of %zu bytes: %s", size, hex);
}

Test(sha256, gives_the_published_digests)
{
    static const char long_message[] =
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlm"
        "nopqrsmnopqrstnopqrstu";
    expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_digest(long_message, 112,
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    expect_digest("\xd3", 1, "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
    expect_digest("\x74\xba\x25\x21", 4,
                  "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
}

Test(sha256, a_million_letters_in_uneven_pieces)
{
    static char letters[1009];
    struct ftj_sha256 hash;
    uint8_t digest[FTJ_SHA256_BYTES];
    char hex[65];
    memset(letters, 'a', sizeof(letters));
    ftj_sha256_init(&hash);
    size_t left = 1000000;
    for (size_t piece = 0; left > 0; piece = (piece + 7) % sizeof(letters)) {
        const size_t size = piece < left ? piece : left;
        ftj_sha256_update(&hash, letters, size);
        left -= size;
    }
    ftj_sha256_final(&hash, digest);
    ftj_sha256_text(digest, hex);
    cr_expect_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The padding has two blocks from 56 bytes on, and the length's place is the same everywhere. */
Test(sha256, pieces_change_nothing_around_a_block)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(7 * i);
    for (size_t size = 0; size <= sizeof(data); size++) {
        uint8_t whole[FTJ_SHA256_BYTES];
        ftj_sha256(data, size, whole);
        for (size_t cut = 0; cut <= size; cut += 13) {
            struct ftj_sha256 hash;
            uint8_t digest[FTJ_SHA256_BYTES];
            ftj_sha256_init(&hash);
            ftj_sha256_update(&hash, data, cut);
            ftj_sha256_update(&hash, data + cut, size - cut);
            ftj_sha256_final(&hash, digest);
            cr_expect_arr_eq(digest, whole, sizeof(digest), "%zu cut at %zu", size, cut);
        }
    }
}
