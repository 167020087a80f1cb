/* Rows of a table pooled into vectors, for tables of float16, float32 and float64, and a step of
 * Adam on rows of a table. `pooling.py` has the same in NumPy. */
#include "vectors.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* ---- Vectors of numbers of one type, read from numbers of another ---------------------------- */

typedef uint16_t Half; /* the bits of a float16 */

/* float32(place[0:WIDTH]) */
INLINE Vector load_halves(const Half *place) {
#if WIDTH == 16
  return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)place));
#elif WIDTH == 8 && defined(__F16C__)
  return (Vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)place));
#elif defined(__aarch64__)
  return (Vector)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(place)));
#else
  Lanes bits;
  for (int i = 0; i < WIDTH; i++) bits[i] = place[i];

  /* the exponent moved by a product, which is right for subnormal numbers too */
  const Lanes magnitude = (bits & 0x7FFF) << 13;
  const Lanes sign = (bits & 0x8000) << 16;
  const Vector scaled = (Vector)magnitude * 0x1p112f;
  const Lanes is_infinite_or_nan = magnitude >= 0x7C00 << 13;
  return (Vector)((Lanes)scaled | (is_infinite_or_nan & 0x7F800000) | sign);
#endif
}

typedef double DoubleVector __attribute__((vector_size(4 * WIDTH)));
typedef double DoublesAnywhere __attribute__((vector_size(4 * WIDTH), aligned(8), may_alias));

/* place[0:WIDTH / 2] */
INLINE DoubleVector load_doubles(const double *place) { return *(const DoublesAnywhere *)place; }

/* ---- Pooling --------------------------------------------------------------------------------- */

enum {
  BLOCK = 64, /* tokens summed on their own: rounding errors grow with a block, not with the text */
  AHEAD = 8, /* tokens whose rows are asked for before they are summed */
  TILE = 1024, /* columns whose sums are held at once */
};

/* The same code for every type of table. */
#define POOL_ROWS pool_float16
#define Entry Half
#define Real float
#define Numbers Vector
#define LOAD load_halves
#include "pool_rows.h"

#define POOL_ROWS pool_float32
#define Entry float
#define Real float
#define Numbers Vector
#define LOAD load
#include "pool_rows.h"

#define POOL_ROWS pool_float64
#define Entry double
#define Real double
#define Numbers DoubleVector
#define LOAD load_doubles
#include "pool_rows.h"

/* ---- Adam ------------------------------------------------------------------------------------ */

/* pooling.adam_step; 0 where a row is not one of the table. */
Size KERNEL(adam_step)(const int32_t *rows, Size n, const float *gradients, float *table,
                      float *first, float *second, Size n_rows, Size n_dims, double rate,
                      double bias1, double bias2) {
  const float scale = (float)(rate / bias1);
  const float shrink = (float)(1.0 / bias2);

  for (Size j = 0; j < n; j++) {
    const Size r = rows[j];
    if (r < 0 || r >= n_rows) return 0;
    const float *gradient = gradients + j * n_dims;
    float *row = table + r * n_dims;
    float *mean = first + r * n_dims;
    float *square = second + r * n_dims;

#pragma omp simd
    for (Size d = 0; d < n_dims; d++) {
      const float g = gradient[d];
      mean[d] += 0.1f * (g - mean[d]);
      square[d] += 0.001f * (g * g - square[d]);
      row[d] -= scale * mean[d] / (sqrtf(square[d] * shrink) + 1e-8f);
    }
  }
  return 1;
}
