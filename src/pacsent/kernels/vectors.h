/* Vectors of floats, as wide as the instruction set has them, and fetching ahead of use. */
#ifndef PACSENT_VECTORS_H
#define PACSENT_VECTORS_H

#include "common.h"

/* Floats in a vector. */
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif

typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Lanes __attribute__((vector_size(4 * WIDTH)));
typedef float VectorAnywhere __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* place[0:WIDTH], wherever it is in memory. */
INLINE Vector load(const float *place) { return *(const VectorAnywhere *)place; }

/* place[0:WIDTH] = vector */
INLINE void store(float *place, Vector vector) { *(VectorAnywhere *)place = vector; }

/* Before a loop of few rounds over an array of vectors: written out, so that it has registers. */
#define UNROLL _Pragma("GCC unroll 64")

/* Before a loop that adds to the totals: in any order, without which a sum of floats is no vector
 * code. A sum that is not marked is added up in the order in which it is written. */
#define SUM_IN_ANY_ORDER(...) PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define PRAGMA(...) _Pragma(#__VA_ARGS__)

/* ---- Sums of the lanes ----------------------------------------------------------------------- */

/* concatenate(u, v)[lanes] */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(u, v, ...) __builtin_shufflevector(u, v, __VA_ARGS__)
#else
#define SHUFFLE(u, v, ...) __builtin_shuffle(u, v, (Lanes){__VA_ARGS__})
#endif

/* fold_N cuts u and v into groups of 2 N lanes and adds the second half of each to the first; the
 * groups of the result, of N lanes, are of u and of v in turn. */
#if WIDTH == 16
INLINE Vector fold_8(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         SHUFFLE(u, v, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
INLINE Vector fold_4(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
         SHUFFLE(u, v, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
}
INLINE Vector fold_2(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
         SHUFFLE(u, v, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
INLINE Vector fold_1(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         SHUFFLE(u, v, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}
#elif WIDTH == 8
INLINE Vector fold_4(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(u, v, 4, 5, 6, 7, 12, 13, 14, 15);
}
INLINE Vector fold_2(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLE(u, v, 2, 3, 10, 11, 6, 7, 14, 15);
}
INLINE Vector fold_1(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 8, 2, 10, 4, 12, 6, 14) + SHUFFLE(u, v, 1, 9, 3, 11, 5, 13, 7, 15);
}
#else
INLINE Vector fold_2(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 1, 4, 5) + SHUFFLE(u, v, 2, 3, 6, 7);
}
INLINE Vector fold_1(Vector u, Vector v) {
  return SHUFFLE(u, v, 0, 4, 2, 6) + SHUFFLE(u, v, 1, 5, 3, 7);
}
#endif

/* Lane j of the result is the sum of the lanes of v[j]; the WIDTH vectors are used up. A tree of
 * WIDTH - 1 additions, where as many sums by themselves would take WIDTH log2(WIDTH). */
INLINE Vector lane_sums(Vector *v) {
#if WIDTH >= 16
  UNROLL for (int i = 0; i < 8; i++) v[i] = fold_8(v[i], v[i + 8]);
#endif
#if WIDTH >= 8
  UNROLL for (int i = 0; i < 4; i++) v[i] = fold_4(v[i], v[i + 4]);
#endif
  UNROLL for (int i = 0; i < 2; i++) v[i] = fold_2(v[i], v[i + 2]);
  return fold_1(v[0], v[1]);
}

/* ---- Memory: asking for a row beforehand ----------------------------------------------------- */

enum { LINE = 16 }; /* floats in a line of cache */

/* Have a row of n floats brought into the second cache. */
INLINE void fetch_row(const float *row, Size n) {
  for (Size i = 0; i < n; i += LINE) __builtin_prefetch(row + i, 0, 2);
}

#endif
