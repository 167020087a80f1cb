/* Exponential functions in single precision, in operations that a compiler turns into vectors: no
 * call, no branch. */
#ifndef PACSENT_EXPONENTIAL_H
#define PACSENT_EXPONENTIAL_H

#include "common.h"

INLINE int32_t bits_of(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

INLINE float float_of(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* np.exp2(t) to 4e-6 relative, for t cut at -80 and 80. 2^-80 is as good as 0, and times a weight
 * it is not subnormal, which would be slow. */
INLINE float power_of_two(float t) {
  t = t < -80.0f ? -80.0f : t;
  t = t > 80.0f ? 80.0f : t;

  /* 1.5 * 2^23 added, the last bits hold round(t) */
  const float shifted = t + 12582912.0f;
  const float r = t - (shifted - 12582912.0f);
  const int32_t whole = bits_of(shifted) - 0x4B400000;

  /* 2^r on [-1/2, 1/2] */
  float p = 0.0013333558f;
  p = p * r + 0.009618129f;
  p = p * r + 0.05550411f;
  p = p * r + 0.24022651f;
  p = p * r + 0.6931472f;
  p = p * r + 1.0f;
  return p * float_of((whole + 127) << 23);
}

/* 1 / (1 + np.exp(-x)) to 4e-6 relative */
INLINE float sigmoid(float x) { return 1.0f / (1.0f + power_of_two(x * -1.4426950408889634f)); }

/* np.log(u) to 1e-6, for u > 0 that is not subnormal */
INLINE float natural_log(float u) {
  /* u = 2^whole * (1 + m), 1 + m between sqrt(1/2) and sqrt(2) */
  const int32_t root_half = 0x3F3504F3;
  const int32_t bits = bits_of(u) - root_half;
  const float whole = (float)(bits >> 23);
  const float m = float_of((bits & 0x007FFFFF) + root_half) - 1.0f;

  float p = 0.070376836f;
  p = p * m - 0.11514610f;
  p = p * m + 0.11676998f;
  p = p * m - 0.12420141f;
  p = p * m + 0.14249323f;
  p = p * m - 0.16668057f;
  p = p * m + 0.20000714f;
  p = p * m - 0.24999994f;
  p = p * m + 0.33333331f;
  const float log_of_rest = m - 0.5f * m * m + p * m * m * m;
  return whole * 0.6931471805599453f + log_of_rest;
}

#endif
