/* SPDX-License-Identifier: MIT */
/* The acceptance cases that run on a device, by the id they are known under. */
#ifndef FTJ_TESTS_ACCEPTANCE_H
#define FTJ_TESTS_ACCEPTANCE_H

#include "tests/check/check_extend.h"

void acceptance_o01_different_row_pitches(struct check_row *row);
void acceptance_o02_padding_slot(struct check_row *row);
void acceptance_o03_zero_and_vanishing_rows(struct check_row *row);
void acceptance_o04_e4m3_bytes(struct check_row *row);
void acceptance_o05_nvfp4_bytes(struct check_row *row);
void acceptance_o06_offsets_past_2_31(struct check_row *row);
void acceptance_o07_stale_nan_after_the_end(struct check_row *row);
void acceptance_o08_request_with_no_keys(struct check_row *row);
void acceptance_o09_every_split_count(struct check_row *row);
void acceptance_o10_lse_base_and_sign(struct check_row *row);
void acceptance_o11_more_than_65535_requests(struct check_row *row);
void acceptance_o12_odd_geometry(struct check_row *row);
void acceptance_o13_scores_far_below_zero(struct check_row *row);
void acceptance_o13_extend_far_below_zero(struct check_row *row);
void acceptance_o14_queries_are_the_tail(struct check_row *row);
void acceptance_o15_window_counts_itself(struct check_row *row);
void acceptance_o15_window_hides_whole_tiles(struct check_row *row);
void acceptance_o16_decode_and_extend_agree(struct check_row *row);
void acceptance_o16_short_runs_agree(struct check_row *row);
void acceptance_o20_other_runs_in_place(struct check_row *row);
void acceptance_chunks_equal_the_whole(struct check_row *row);
void acceptance_extend_of_large_logits(struct check_row *row);
void acceptance_extend_of_rising_logits(struct check_row *row);
void acceptance_extend_of_any_queries(struct check_row *row);
void acceptance_extend_of_any_values(struct check_row *row);
void acceptance_extend_of_parts(struct check_row *row);
void acceptance_extend_of_pairs(struct check_row *row);
void acceptance_extend_of_uneven_pairs(struct check_row *row);
void acceptance_extend_of_sinks(struct check_row *row);
void acceptance_extend_of_staggered_windows(struct check_row *row);
void acceptance_extend_refusals(struct check_row *row);
void acceptance_shared_keys(struct check_row *row);
void acceptance_large_groups(struct check_row *row);
void acceptance_many_requests(struct check_row *row);
void acceptance_o20_other_lengths_in_place(struct check_row *row);
void acceptance_t13_k_scale_once(struct check_row *row);
void acceptance_t14_denominator_unscaled(struct check_row *row);
void acceptance_t21_unwritten_slots(struct check_row *row);
void acceptance_t33_group_of_24(struct check_row *row);

/* Decode a case with q, K and V already in it and compare with numbers from the case's own sheet:
 * O of every element of a head within one ulp of bf16 and 1e-3, LSE within `lse_tolerance`.
 * Both are [batch][num_q_heads]. */
void acceptance_expect(struct check_row *row, const struct attention_case *c, const double *o,
                       const double *lse, double lse_tolerance);

/* The second half of it. */
void acceptance_compare(struct check_row *row, const struct attention_case *c,
                        const struct attention_result *result, const double *o, const double *lse,
                        double lse_tolerance);

/* q = 0 and V row j of a request all value(request, head, j): O is their mean. K is anything. */
typedef float (*acceptance_value)(uint32_t request, uint32_t kv_head, uint32_t j);
void acceptance_fill_mean(struct attention_case *c, acceptance_value value);

/* One kv head, one query head, one request: what most cases are made of. */
struct attention_shape acceptance_small_shape(ftj_kv_format format, uint32_t length);

/* A decode of random inputs against the references. */
void acceptance_decode_random(struct check_row *row, const struct attention_shape *shape);
/* The same; and that rows of this variant do run through it. NULL: of none. */
void acceptance_decode_random_by(struct check_row *row, const struct attention_shape *shape,
                                 const char *variant);

/* acceptance_fill_mean(), then acceptance_expect(). */
void acceptance_expect_mean(struct check_row *row, const struct attention_shape *shape,
                            acceptance_value value, const double *o, const double *lse);

/* Two keys; q, k0 and k1 are given by their first two elements, v0 and v1 are constant. */
void acceptance_expect_pair(struct check_row *row, const struct attention_shape *shape,
                            const float q[2], const float k[2][2], const float v[2], double o,
                            double lse, double lse_tolerance);

/* One request of random inputs, in one call and in chunks of each of `sizes` queries: the same
 * within one rounding of each row's largest value, or two where p is rounded as coarsely as O. */
void acceptance_compare_chunks(struct check_row *row, const struct extend_shape *shape,
                               const uint32_t *sizes, size_t num_sizes);

/* All elements of a row of 512 at most. */
void acceptance_constant_row(float value, float *row);

#endif
