/* Rows of tables in single precision: products and sums. */
#ifndef PACSENT_ROWS_H
#define PACSENT_ROWS_H

#include "vectors.h"

typedef float FourLanes __attribute__((vector_size(16), aligned(4), may_alias));

INLINE FourLanes four_at(const float *place) { return *(const FourLanes *)place; }

INLINE FourLanes sums_of_four(Vector lanes) {
  const float *parts = (const float *)&lanes;
  FourLanes four = four_at(parts);
  for (int i = 4; i < WIDTH; i += 4) four += four_at(parts + i);
  return four;
}

INLINE float sum_of_four(FourLanes four) { return (four[0] + four[2]) + (four[1] + four[3]); }

/* a @ b, with a sum for each lane of four vectors */
INLINE float dot(const float *a, const float *b, Size n_dims) {
  enum { STEP = 4 * WIDTH };
  Vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  Size d = 0;
  for (; d + STEP <= n_dims; d += STEP) {
    s0 += load(a + d) * load(b + d);
    s1 += load(a + d + WIDTH) * load(b + d + WIDTH);
    s2 += load(a + d + 2 * WIDTH) * load(b + d + 2 * WIDTH);
    s3 += load(a + d + 3 * WIDTH) * load(b + d + 3 * WIDTH);
  }
  for (; d + WIDTH <= n_dims; d += WIDTH) s0 += load(a + d) * load(b + d);

  FourLanes four = sums_of_four((s0 + s1) + (s2 + s3));
  for (; d + 4 <= n_dims; d += 4) four += four_at(a + d) * four_at(b + d);

  float sum = sum_of_four(four);
  for (; d < n_dims; d++) sum += a[d] * b[d];
  return sum;
}

/* to += amount * row */
INLINE void add_row(float amount, const float *row, float *to, Size n_dims) {
  Size d = 0;
  for (; d + WIDTH <= n_dims; d += WIDTH)
    store(to + d, load(to + d) + amount * load(row + d));
  for (; d + 4 <= n_dims; d += 4)
    *(FourLanes *)(to + d) = four_at(to + d) + amount * four_at(row + d);
  for (; d < n_dims; d++) to[d] += amount * row[d];
}

#endif
