/* SPDX-License-Identifier: MIT */
/* The problems the compile matrix builds: a few with reasons for CI, and the whole product. */
#ifndef FTJ_TESTS_MATRIX_ROWS_H
#define FTJ_TESTS_MATRIX_ROWS_H

#include "ftjit/attention.h"

struct matrix_row {
    ftj_dtype dtype;
    ftj_kv_format k_format;
    ftj_kv_format v_format;
    uint32_t head_dim;
    uint32_t group;
    uint32_t page_size;
    ftj_kv_order order;
    ftj_kv_table table;
    float softcap;
    ftj_dtype io_dtype; /* of stored rows and of the oracle's Q and O; 0: dtype */
};

/* Rows of the CI subset, or with `all` of the whole product. */
size_t matrix_num_rows(bool all);
struct matrix_row matrix_row_at(bool all, size_t index);

/* The descriptor of a row, checked. */
FTJ_NODISCARD ftj_status matrix_row_desc(const struct matrix_row *row, ftj_attention_desc *desc);

/* "fp8+nvfp4 bf16 d128 g4 p64 packed blocks" into text. */
void matrix_row_text(const struct matrix_row *row, char *text, size_t size);

#endif
