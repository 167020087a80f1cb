/* Random numbers from a state of 64 bits that is handed in, not 0, and changed in place. */
#ifndef PACSENT_RANDOM_H
#define PACSENT_RANDOM_H

#include "exponential.h"

/* The next 64 random bits: xorshift64. */
INLINE uint64_t next_bits(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x;
}

/* One of the indices below n with the probabilities of Walker's alias table (keep, other). */
INLINE Size draw_index(uint64_t *state, const double *keep, const int32_t *other, Size n) {
  const uint64_t bits = next_bits(state);
  const Size i = (Size)(((bits >> 32) * (uint64_t)n) >> 32);
  const Size instead = other[i]; /* read in any case: a branch would wait for both */
  const double low = (double)(bits & 0xFFFFFFFFu);
  return low >= keep[i] * 4294967296.0 ? instead : i;
}

/* Two independent standard normal numbers from 64 random bits (Box and Muller). */
INLINE void normal_pair(uint32_t first, uint32_t second, float *x, float *y) {
  const float u = ((float)first + 0.5f) * 0x1p-32f;
  const float log_u = natural_log(u);
  const float radius = sqrtf(-2.0f * (log_u < 0.0f ? log_u : 0.0f));

  /* an angle within an eighth of a turn of 0 */
  const float eighth = (float)((int32_t)(second >> 2) - (1 << 29));
  const float t = eighth * 1.4629180792671596e-09f; /* pi / 2^31 */
  const float q = t * t;
  const float sine = t + t * q * (-1.0f / 6 + q * (1.0f / 120 - q * (1.0f / 5040)));
  const float cosine =
      1.0f - q * (0.5f - q * (1.0f / 24 - q * (1.0f / 720 - q * (1.0f / 40320))));

  /* two bits turn it anywhere */
  const int is_turned = (second & 2) != 0;
  const float sign = 1.0f - 2.0f * (float)(int32_t)(second & 1);
  *x = radius * sign * (is_turned ? sine : cosine);
  *y = radius * sign * (is_turned ? cosine : sine);
}

/* Overwrite `out` with n independent standard normal numbers; the second ones of all pairs come
 * after the first ones. */
static inline void fill_normal(uint64_t *state, float *out, Size n) {
  enum { BLOCK = 128 };
  uint32_t first[BLOCK], second[BLOCK];
  float x[BLOCK], y[BLOCK];

  const Size half = (n + 1) / 2;
  for (Size begin = 0; begin < half; begin += BLOCK) {
    const Size n_pairs = smaller(BLOCK, half - begin);
    for (Size i = 0; i < n_pairs; i++) {
      const uint64_t bits = next_bits(state);
      first[i] = (uint32_t)(bits >> 32);
      second[i] = (uint32_t)bits;
    }

    for (Size i = 0; i < n_pairs; i++) normal_pair(first[i], second[i], x + i, y + i);

    const Size n_second = smaller(n_pairs, n - half - begin);
    memcpy(out + begin, x, n_pairs * sizeof *x);
    if (n_second > 0) memcpy(out + half + begin, y, n_second * sizeof *y);
  }
}

#endif
