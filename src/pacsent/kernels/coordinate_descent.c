/* Logistic regressions on sparse and dense features, by coordinate ascent in the dual.
 * `coordinate_descent.py` says what is solved, and has the same in NumPy.
 *
 * Several problems stand side by side as columns, a multiple of eight: a row of sparse weights is
 * read once for all, and all that is done for a column is vector code over the columns. */
#include "vectors.h"

/* The numbers of a text, each for all columns: a, u, C, s, q. */
enum { DUAL, LOGIT, COST, SIGN, SQUARES, N_CELLS };

/* Eight columns. */
typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightLanes __attribute__((vector_size(32)));
typedef float EightAnywhere __attribute__((vector_size(32), aligned(4), may_alias));

/* place[0:8] */
INLINE Eight load_8(const float *place) { return *(const EightAnywhere *)place; }

/* place[0:8] = x */
INLINE void store_8(float *place, Eight x) { *(EightAnywhere *)place = x; }

/* where(condition, x, y) */
INLINE Eight where(EightLanes condition, Eight x, Eight y) {
  return (Eight)((condition & (EightLanes)x) | (~condition & (EightLanes)y));
}

/* abs(x) */
INLINE Eight absolute(Eight x) { return (Eight)((EightLanes)x & 0x7FFFFFFF); }

/* x.sum() */
INLINE float sum_8(Eight x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/* ---- Columns of a table ---------------------------------------------------------------------- */

/* The most that the instruction set has of eight columns, and how many of these they are. */
enum { N_IN_PART = WIDTH == 4 ? 4 : 8, N_PARTS = 8 / N_IN_PART };
typedef float Part __attribute__((vector_size(4 * N_IN_PART), aligned(4), may_alias));

/* sums[0:width] += values @ table[rows, 0:width], for n rows; width is 8 or 16, a constant. Odd and
 * even rows, or every fourth, are summed by themselves: none waits for the one before. */
INLINE void add_products_of(float *sums, const float *table, Size n_columns, const int32_t *rows,
                            const float *values, Size n, const int width) {
  const int n_parts = N_PARTS * width / 8;
  const int n_chains = 32 / width;
  Part kept[4 * N_PARTS] = {0};

  Size t = 0;
  for (; t + n_chains <= n; t += n_chains) {
    UNROLL for (int chain = 0; chain < n_chains; chain++) {
      const float *row = table + rows[t + chain] * n_columns;
      UNROLL for (int p = 0; p < n_parts; p++) {
        kept[chain * n_parts + p] += values[t + chain] * *(const Part *)(row + p * N_IN_PART);
      }
    }
  }
  for (; t < n; t++) {
    const float *row = table + rows[t] * n_columns;
    UNROLL for (int p = 0; p < n_parts; p++) {
      kept[p] += values[t] * *(const Part *)(row + p * N_IN_PART);
    }
  }

  UNROLL for (int p = 0; p < n_parts; p++) {
    UNROLL for (int chain = 1; chain < n_chains; chain++) kept[p] += kept[chain * n_parts + p];
    *(Part *)(sums + p * N_IN_PART) += kept[p];
  }
}

/* table[rows, 0:width] += outer(values, factors[0:width]), for n rows; width is 8 or 16. */
INLINE void add_outer_of(const float *factors, float *table, Size n_columns, const int32_t *rows,
                         const float *values, Size n, const int width) {
  const int n_parts = N_PARTS * width / 8;
  Part kept[2 * N_PARTS];
  UNROLL for (int p = 0; p < n_parts; p++) kept[p] = *(const Part *)(factors + p * N_IN_PART);

  for (Size t = 0; t < n; t++) {
    float *row = table + rows[t] * n_columns;
    UNROLL for (int p = 0; p < n_parts; p++) {
      *(Part *)(row + p * N_IN_PART) += values[t] * kept[p];
    }
  }
}

/* sums += values @ table[rows] */
static void add_products(float *sums, const float *table, Size n_columns, const int32_t *rows,
                         const float *values, Size n) {
  Size c = 0;
  for (; c + 16 <= n_columns; c += 16) {
    add_products_of(sums + c, table + c, n_columns, rows, values, n, 16);
  }
  if (c < n_columns) add_products_of(sums + c, table + c, n_columns, rows, values, n, 8);
}

/* table[rows] += outer(values, factors), rows all different */
static void add_outer(const float *factors, float *table, Size n_columns, const int32_t *rows,
                      const float *values, Size n) {
  Size c = 0;
  for (; c + 16 <= n_columns; c += 16) {
    add_outer_of(factors + c, table + c, n_columns, rows, values, n, 16);
  }
  if (c < n_columns) add_outer_of(factors + c, table + c, n_columns, rows, values, n, 8);
}

/* ---- One text -------------------------------------------------------------------------------- */

/* exp(-u) to a relative 3e-5 where |u| < 30, else as there: exp(x) = exp(x / 512)^512, by a
 * polynomial and nine squarings. */
INLINE Eight exp_minus(Eight u) {
  const Eight most = {30.0f, 30.0f, 30.0f, 30.0f, 30.0f, 30.0f, 30.0f, 30.0f};
  Eight x = where(u < -most, most, -u);
  x = where(x < -most, -most, x) * (1.0f / 512.0f);

  const Eight third = 1.0f / 6.0f + x * (1.0f / 24.0f + x * (1.0f / 120.0f));
  Eight e = 1.0f + x * (1.0f + x * (0.5f + x * third));
  UNROLL for (int i = 0; i < 9; i++) e *= e;
  return e;
}

/* The brackets of the roots u of u + constant + qC / (1 + exp(-u)). */
INLINE void find_brackets(const float *z, const float *dual, const float *C, const float *sign,
                          const float *q, float *constant, float *low, float *high, Size m) {
  for (Size c = 0; c < m; c += 8) {
    const Eight constants = load_8(sign + c) * load_8(z + c) - load_8(q + c) * load_8(dual + c);
    store_8(constant + c, constants);
    store_8(low + c, -constants - load_8(q + c) * load_8(C + c));
    store_8(high + c, -constants);
  }
}

/* One step of Newton to these roots, from `logit`; brackets become narrower. Returns the sum of the
 * squares of the steps. */
INLINE float step_to_roots(float *logit, float *low, float *high, const float *constant,
                           const float *C, const float *q, Size m) {
  Eight squares = {0};

  for (Size c = 0; c < m; c += 8) {
    const Eight below = load_8(low + c);
    const Eight above = load_8(high + c);
    const Eight middle = 0.5f * (below + above);
    Eight u = load_8(logit + c);
    u = where(u >= below, u, middle);
    u = where(u <= above, u, middle);

    const Eight e = 1.0f + exp_minus(u);
    const Eight qC = load_8(q + c) * load_8(C + c);
    const Eight value = (u + load_8(constant + c)) * e + qC; /* has the sign of the function */
    const Eight step = value * e / (e * e + qC * (e - 1.0f));

    store_8(high + c, where(value > 0.0f, u, above));
    store_8(low + c, where(value > 0.0f, below, u));
    store_8(logit + c, u - step);
    squares += step * step;
  }
  return sum_8(squares);
}

/* z = the changes of a that lead to the roots; moved += |z| / C. Returns the sum of |z| / C. */
INLINE float find_changes(const float *logit, const float *dual, const float *C, float *moved,
                          float *z, Size m) {
  Eight total = {0};

  for (Size c = 0; c < m; c += 8) {
    const Eight change =
        load_8(C + c) / (1.0f + exp_minus(load_8(logit + c))) - load_8(dual + c);
    const Eight share = absolute(change) / (load_8(C + c) + 1e-30f);
    store_8(z + c, change);
    store_8(moved + c, load_8(moved + c) + share);
    total += share;
  }
  return sum_8(total);
}

/* coordinate_descent.epoch, for texts order[0:n_order].
 *
 * work has six rows: the variances of the dense weights, the sums of |a change| / C, which are
 * added to, and room. */
void KERNEL(dual_epoch)(const int64_t *indptr, const int32_t *indices, const float *data,
                        const float *dense, Size n_dims, const int32_t *dense_rows,
                        const int64_t *order, Size n_order, float *cells, float *weights,
                        Size n_weights, Size n_columns, float *work) {
  const Size m = n_columns;
  const float *variances = work;
  float *moved = work + m;
  float *z = work + 2 * m;
  float *constant = work + 3 * m;
  float *low = work + 4 * m;
  float *high = work + 5 * m;
  float *intercept = weights + (n_weights - 1) * m;

  for (Size k = 0; k < n_order; k++) {
    const Size i = order[k];
    const int32_t *rows = indices + indptr[i];
    const float *values = data + indptr[i];
    const Size n = indptr[i + 1] - indptr[i];
    const float *vector = dense + i * n_dims;
    float *dual = cells + i * N_CELLS * m;
    float *logit = dual + LOGIT * m;
    const float *C = dual + COST * m;
    const float *sign = dual + SIGN * m;
    const float *q = dual + SQUARES * m;

    /* z = x_i.w */
    memcpy(z, intercept, (size_t)m * sizeof *z);
    add_products(z, weights, m, rows, values, n);
    add_products(z, weights, m, dense_rows, vector, n_dims);

    find_brackets(z, dual, C, sign, q, constant, low, high, m);
    for (int step = 0; step < 30; step++) { /* two are nearly always enough */
      const float squares = step_to_roots(logit, low, high, constant, C, q, m);
      if (step > 0 && squares < 1e-2f) break; /* what is left is about their squares */
    }

    if (find_changes(logit, dual, C, moved, z, m) < 1e-5f) continue;

    for (Size c = 0; c < m; c += 8) {
      const Eight change = load_8(z + c) * load_8(sign + c);
      store_8(dual + c, load_8(dual + c) + load_8(z + c));
      store_8(intercept + c, load_8(intercept + c) + change);
      store_8(z + c, change);
    }
    add_outer(z, weights, m, rows, values, n);
    for (Size c = 0; c < m; c += 8) store_8(z + c, load_8(z + c) * load_8(variances + c));
    add_outer(z, weights, m, dense_rows, vector, n_dims);
  }
}
