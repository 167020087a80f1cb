/* Rows of tables in single precision: products, sums, fetching. */
#ifndef PACSENT_ROWS_H
#define PACSENT_ROWS_H

#include "common.h"

/* As many floats of a row as a vector register holds. */
#if defined(__AVX512F__)
enum { ROW_LANES = 16 };
#elif defined(__AVX__)
enum { ROW_LANES = 8 };
#else
enum { ROW_LANES = 4 };
#endif
typedef float RowLanes __attribute__((vector_size(4 * ROW_LANES), aligned(4), may_alias));
typedef float FourLanes __attribute__((vector_size(16), aligned(4), may_alias));

INLINE RowLanes lanes_at(const float *place) { return *(const RowLanes *)place; }
INLINE FourLanes four_at(const float *place) { return *(const FourLanes *)place; }

INLINE FourLanes sums_of_four(RowLanes lanes) {
  const float *parts = (const float *)&lanes;
  FourLanes four = four_at(parts);
  for (int i = 4; i < ROW_LANES; i += 4) four += four_at(parts + i);
  return four;
}

INLINE float sum_of_four(FourLanes four) { return (four[0] + four[2]) + (four[1] + four[3]); }

/* Ask for a row to be brought into the second cache. */
INLINE void fetch_row(const float *row, Size n_dims) {
  for (Size d = 0; d < n_dims; d += 16) __builtin_prefetch(row + d, 0, 2);
}

/* a @ b, with a sum for each lane of four vectors */
INLINE float dot(const float *a, const float *b, Size n_dims) {
  enum { STEP = 4 * ROW_LANES };
  RowLanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  Size d = 0;
  for (; d + STEP <= n_dims; d += STEP) {
    s0 += lanes_at(a + d) * lanes_at(b + d);
    s1 += lanes_at(a + d + ROW_LANES) * lanes_at(b + d + ROW_LANES);
    s2 += lanes_at(a + d + 2 * ROW_LANES) * lanes_at(b + d + 2 * ROW_LANES);
    s3 += lanes_at(a + d + 3 * ROW_LANES) * lanes_at(b + d + 3 * ROW_LANES);
  }
  for (; d + ROW_LANES <= n_dims; d += ROW_LANES) s0 += lanes_at(a + d) * lanes_at(b + d);

  FourLanes four = sums_of_four((s0 + s1) + (s2 + s3));
  for (; d + 4 <= n_dims; d += 4) four += four_at(a + d) * four_at(b + d);

  float sum = sum_of_four(four);
  for (; d < n_dims; d++) sum += a[d] * b[d];
  return sum;
}

/* to += amount * row */
INLINE void add_row(float amount, const float *row, float *to, Size n_dims) {
  Size d = 0;
  for (; d + ROW_LANES <= n_dims; d += ROW_LANES)
    *(RowLanes *)(to + d) = lanes_at(to + d) + amount * lanes_at(row + d);
  for (; d + 4 <= n_dims; d += 4)
    *(FourLanes *)(to + d) = four_at(to + d) + amount * four_at(row + d);
  for (; d < n_dims; d++) to[d] += amount * row[d];
}

#endif
