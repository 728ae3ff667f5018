/* SPDX-License-Identifier: MIT */
/* What is read of ELF files: build ids. */
#include <criterion/criterion.h>

#include "codegen/elf_image.h"

Test(elf_image, build_id_is_that_of_a_real_library)
{
    char hex[72];
    char small[41];
    cr_assert(ftj_elf_build_id(FAKE_NVRTC_PATH, hex, sizeof(hex)));
    cr_expect_str_eq(hex, FAKE_NVRTC_BUILD_ID);
    cr_expect(ftj_elf_build_id(FAKE_NVRTC_PATH, small, sizeof(small)));
    cr_expect_not(ftj_elf_build_id(FAKE_NVRTC_PATH, small, sizeof(small) - 1), "no room");
    cr_expect_not(ftj_elf_build_id(FAKE_CUDA_PATH, hex, sizeof(hex)), "it has none");
    cr_expect_not(ftj_elf_build_id("/dev/null", hex, sizeof(hex)));
    cr_expect_not(ftj_elf_build_id("/nonexistent", hex, sizeof(hex)));
}
