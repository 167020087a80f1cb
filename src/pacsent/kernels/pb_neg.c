/* The fast solver of PB-neg, in single precision: expected sigmoids of Gaussian scores, the loss of
 * the sentences' own words, the remainder of the negatives. `pb_neg.py` has the same in NumPy.
 *
 * f1 and f2 are E sigmoid(x) and E sigmoid'(x) of a score x ~ N(score, v). */
#include "exponential.h"
#include "rows.h"

enum { FIT_POWERS_Y = 7, FIT_POWERS_T = 5, BLOCK = 512 };

typedef struct {
  float f1, f2;
} Expected;

/* pb_neg.Fits: fit j is for variances from starts[j] to 2 starts[j], which are sqrt(2) apart. */
typedef struct {
  const float *starts, *scales, *coefficients;
  Size n_fits;
} Fits;

/* pb_neg.OwnWords */
typedef struct {
  const int64_t *starts;
  const int32_t *words;
  const double *fractions;
  const float *A, *nu;
  Size n_sentences, n_places, n_words, n_dims;
} OwnWords;

/* ---- Expected sigmoids ----------------------------------------------------------------------- */

/* For half_v = v / 2 <= 0.1, the series of Taylor:
 * E g(a + sqrt(v) Z) = g + half_v g'' + half_v^2 / 2 g'''' + half_v^3 / 6 g'''''' + ... */
INLINE Expected at_small_variance(float score, float half_v) {
  const float x = sigmoid(score);
  const float p = x * (1.0f - x);
  const float q = p * (1.0f - x - x);

  /* the derivative of order n is p gn for odd n, q gn for even n */
  const float g3 = 1.0f - 6.0f * p;
  const float g4 = 1.0f - 12.0f * p;
  const float g5 = 1.0f + p * (-30.0f + 120.0f * p);
  const float g6 = 1.0f + p * (-60.0f + 360.0f * p);
  const float g7 = 1.0f + p * (-126.0f + p * (1680.0f - 5040.0f * p));

  const float second = half_v * 0.5f;
  const float third = half_v * 0.33333334f;
  const Expected expected = {
      .f1 = x + half_v * q * (1.0f + second * (g4 + third * g6)),
      .f2 = p * (1.0f + half_v * (g3 + second * (g5 + third * g7))),
  };
  return expected;
}

/* By a fit of the table, t = 2 v / start - 3. */
INLINE Expected at_fit(float score, float t, float scale, const float *coefficients) {
  const float x = sigmoid(scale * score);
  const float p = x * (1.0f - x);
  const float y = 4.0f * p;

  /* g = sum over k, m of c[k, m] y^k t^m, and its derivative in y */
  float g = 0.0f, slope = 0.0f;
  for (int k = FIT_POWERS_Y - 1; k >= 0; k--) {
    const float *c = coefficients + k * FIT_POWERS_T;
    const float term = (((c[4] * t + c[3]) * t + c[2]) * t + c[1]) * t + c[0];
    slope = slope * y + g;
    g = g * y + term;
  }

  const float bend = (1.0f - 6.0f * p) * g + y * (1.0f - y) * slope;
  const Expected expected = {
      .f1 = x + p * (1.0f - x - x) * g,
      .f2 = scale * p * (1.0f + bend),
  };
  return expected;
}

/* For v beyond the fits: next to a Gaussian this wide, the logistic variable of which the sigmoid
 * is the distribution function may be taken for a Gaussian of the same variance. */
INLINE Expected at_large_variance(float score, float v) {
  const float logistic_variance = 3.2898681f; /* pi^2 / 3 */
  const float by = 1.0f / sqrtf(v + logistic_variance);
  const float z = score * by;
  const float density = 0.3989422804f * power_of_two(-0.7213475204f * z * z);
  const Expected expected = {.f1 = 0.5f * erfcf(-z * 0.70710678f), .f2 = density * by};
  return expected;
}

INLINE float place_in_fit(float v, float start) { return v * (2.0f / start) - 3.0f; }

INLINE const float *coefficients_of(const Fits *fits, Size j) {
  return fits->coefficients + j * FIT_POWERS_Y * FIT_POWERS_T;
}

/* pb_neg.expected_sigmoids_plainly of one score */
static Expected expected_sigmoid(float score, float v, const Fits *fits) {
  if (v <= 0.2f) return at_small_variance(score, 0.5f * v);

  Size j = 0;
  while (j + 2 < fits->n_fits && fits->starts[j + 2] <= v) j += 2;
  if (v > 2.001f * fits->starts[j]) return at_large_variance(score, v);

  const float t = place_in_fit(v, fits->starts[j]);
  return at_fit(score, t, fits->scales[j], coefficients_of(fits, j));
}

/* pb_neg.expected_sigmoids_plainly(scores + shifts, var * nu), for nu that increase, within a factor of
 * sqrt(2). */
static void expected_sigmoids(const float *restrict scores, const float *restrict shifts, float var,
                              const float *restrict nu, Size n, const Fits *fits,
                              float *restrict f1, float *restrict f2) {
  const float least = var * nu[0];
  const float most = var * nu[n - 1];

  if (most <= 0.2f) {
    for (Size i = 0; i < n; i++) {
      const Expected expected = at_small_variance(scores[i] + shifts[i], 0.5f * var * nu[i]);
      f1[i] = expected.f1;
      f2[i] = expected.f2;
    }
    return;
  }

  Size j = 0;
  while (j + 1 < fits->n_fits && fits->starts[j + 1] <= least) j++;
  const float start = fits->starts[j];

  if (most > 2.001f * start) {
    for (Size i = 0; i < n; i++) {
      const Expected expected = at_large_variance(scores[i] + shifts[i], var * nu[i]);
      f1[i] = expected.f1;
      f2[i] = expected.f2;
    }
    return;
  }

  float coefficients[FIT_POWERS_Y * FIT_POWERS_T];
  memcpy(coefficients, coefficients_of(fits, j), sizeof coefficients);
  const float scale = fits->scales[j];
  for (Size i = 0; i < n; i++) {
    const float t = place_in_fit(var * nu[i], start);
    const Expected expected = at_fit(scores[i] + shifts[i], t, scale, coefficients);
    f1[i] = expected.f1;
    f2[i] = expected.f2;
  }
}

/* ---- The sentences' own words ---------------------------------------------------------------- */

/* The vector of the word at a place; NULL if there is none. */
INLINE const float *vector_at(const OwnWords *own, Size place) {
  const Size word = own->words[place];
  return word >= 0 && word < own->n_words ? own->A + word * own->n_dims : NULL;
}

/* pb_neg.own_slopes; 1 if one of the rows is no sentence, 2 if a word has no vector. */
int KERNEL(own_slopes)(const OwnWords *own, const Fits *fits, const int64_t *rows, Size n_rows,
                       const float *mu, const float *var_Q, float *grad, double *trace) {
  const Size n_dims = own->n_dims;
  for (Size s = 0; s < n_rows; s++) {
    if (rows[s] < 0 || rows[s] >= own->n_sentences) return 1;
    const Size begin = own->starts[rows[s]];
    const Size end = own->starts[rows[s] + 1];
    if (begin < 0 || end > own->n_places) return 1;

    const float *mean = mu + s * n_dims;
    float *slope = grad + s * n_dims;
    for (Size j = begin; j < end; j++) {
      const float *row = vector_at(own, j);
      const float *soon = j + 2 < end ? vector_at(own, j + 2) : NULL;
      if (!row) return 2;
      if (soon) fetch_row(soon, n_dims);

      const float length = own->nu[own->words[j]];
      const float score = dot(mean, row, n_dims);
      const Expected expected = expected_sigmoid(score, var_Q[s] * length, fits);

      trace[s] += own->fractions[j] * length * expected.f2;
      const float step = (float)(own->fractions[j] * (expected.f1 - 1.0));
      add_row(step, row, slope, n_dims);
    }
  }
  return 0;
}

/* ---- The remainder of the negatives ---------------------------------------------------------- */

/* The rows of a table, of the words from `begin` on. */
typedef struct {
  const float *a, *b0, *b1, *b2, *b3, *t0, *t1, *t2;
} Control;

typedef struct {
  const float *nu, *w, *e;
} Sample;

INLINE Control control_from(const float *table, Size n_words, Size begin) {
  const float *first = table + begin;
  const Control control = {
      .a = first,
      .b0 = first + n_words,
      .b1 = first + 2 * n_words,
      .b2 = first + 3 * n_words,
      .b3 = first + 4 * n_words,
      .t0 = first + 5 * n_words,
      .t1 = first + 6 * n_words,
      .t2 = first + 7 * n_words,
  };
  return control;
}

INLINE Sample sample_from(const float *table, Size n_words, Size begin) {
  const float *first = table + begin;
  const Sample sample = {.nu = first, .w = first + n_words, .e = first + 2 * n_words};
  return sample;
}

/* Overwrite the shifts d of n words with w * (f1 - control), D = var_Q - var_0; add what they are
 * worth to the sums for the trace and for the error. */
static void subtract_control(float *restrict d, const float *restrict low, float D, Control control,
                             Sample sample, const float *restrict f1, const float *restrict f2,
                             Size n, double *trace, double *error) {
  float spread = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : spread, squares)
  for (Size i = 0; i < n; i++) {
    const float x = d[i];
    const float by_shift = control.b0[i] + control.b1[i] * x + control.b3[i] * low[i] * low[i];
    const float by_variance = D * (control.b2[i] + control.t2[i] * x);
    const float rest = f1[i] - by_shift - by_variance;
    const float bend = f2[i] - control.t0[i] - control.t1[i] * x - control.t2[i] * D;
    spread += sample.w[i] * sample.nu[i] * bend;
    squares += sample.e[i] * rest * rest;
    d[i] = sample.w[i] * rest;
  }
  *trace += spread;
  *error += squares;
}

/* The end of a run of words that have a fit in common: nu increase, within a factor of sqrt(2). */
static Size end_of_run(const float *nu, Size begin, Size n_words) {
  const Size limit = smaller(n_words, begin + BLOCK);
  const float most = 1.4142f * nu[begin];
  Size end = begin + 1;
  while (end < limit && nu[end] <= most) end++;
  return end;
}

/* pb_neg.sampled_noise_terms */
void KERNEL(sampled_noise_terms)(float *shifts, const float *low, const float *var_Q, Size n_rows,
                                 float var_0, const float *controls, const float *samples,
                                 Size n_words, const Fits *fits, double *trace, double *error) {
  float f1[BLOCK], f2[BLOCK];

  for (Size s = 0; s < n_rows; s++) trace[s] = error[s] = 0.0;

  Size begin = 0;
  while (begin < n_words) {
    const Size end = end_of_run(samples, begin, n_words);
    const Size n = end - begin;
    const Control control = control_from(controls, n_words, begin);
    const Sample sample = sample_from(samples, n_words, begin);

    for (Size s = 0; s < n_rows; s++) {
      float *d = shifts + s * n_words + begin;
      expected_sigmoids(control.a, d, var_Q[s], sample.nu, n, fits, f1, f2);
      subtract_control(d, low + s * n_words + begin, var_Q[s] - var_0, control, sample, f1, f2, n,
                       trace + s, error + s);
    }
    begin = end;
  }
}
