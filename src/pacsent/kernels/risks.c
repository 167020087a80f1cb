/* The chance to be wrong about a word, and its gradients: `risks.py` has the formulas.
 *
 * Sums over negatives and over dimensions are taken in any order. */
#include "exponential.h"
#include "vectors.h"

enum { AT_ONCE = 128 }; /* negatives whose places in the table are looked up together */

/* risks.noise_errors; `table` is that of `risks.normal_table`, whose middle node is for 0. */
void KERNEL(noise_errors)(double *scores, Size n_rows, Size n_noise, double bias, const double *sd,
                          const double *norms, const double *p_noise, const double *table,
                          Size n_nodes, double steps, double *noise, double *grad_rho) {
  const double top = (double)(n_nodes - 1), middle = 0.5 * top;
  const int32_t last = (int32_t)(n_nodes - 2);
  double fraction[AT_ONCE], ends[AT_ONCE][4];
  int32_t nodes[AT_ONCE];

  for (Size s = 0; s < n_rows; s++) {
    double total = 0.0, slope = 0.0;
    for (Size begin = 0; begin < n_noise; begin += AT_ONCE) {
      const Size n = smaller(AT_ONCE, n_noise - begin);
      const double *norm = norms + begin, *p = p_noise + begin;
      double *restrict row = scores + s * n_noise + begin;

      /* beyond the table its ends hold; NaN, of a spread of 0, is put at its beginning */
      for (Size u = 0; u < n; u++) {
        double place = (row[u] + bias) / (sd[s] * norm[u]) * steps + middle;
        place = place > 0.0 ? place : 0.0;
        place = place < top ? place : top;
        const int32_t node = (int32_t)place;
        nodes[u] = node < last ? node : last;
        fraction[u] = place - (double)nodes[u];
      }

      /* not in the loops around it: gathering into vectors is slow on many processors */
      for (Size u = 0; u < n; u++) memcpy(ends[u], table + 2 * nodes[u], sizeof ends[u]);

      SUM_IN_ANY_ORDER(total, slope)
      for (Size u = 0; u < n; u++) {
        const double score = row[u] + bias;
        const double spread = sd[s] * norm[u];
        const int is_spread = spread != 0.0; /* else the score is the bias, for every draw */

        /* the cubic with the values and slopes of both nodes */
        const double t = fraction[u];
        const double low = ends[u][0], up_low = ends[u][1];
        const double high = ends[u][2], up_high = ends[u][3];
        const double rise = high - low;
        const double bend = 3.0 * rise - 2.0 * up_low - up_high;
        const double turn = up_low + up_high - 2.0 * rise;
        const double chance = low + t * (up_low + t * (bend + t * turn));
        const double up = up_low + t * (2.0 * bend + 3.0 * t * turn);

        const double density = p[u] * steps * up / spread;
        const double step = score >= 0.0 ? 1.0 : 0.0;
        total += p[u] * (is_spread ? chance : step);
        slope += is_spread ? density * score : 0.0;
        row[u] = is_spread ? density : 0.0;
      }
    }
    noise[s] = total;
    grad_rho[s] = -0.5 * slope;
  }
}

/* risks.noise_errors_32 */
void KERNEL(noise_errors_32)(float *scores, Size n_rows, Size n_noise, float bias,
                             const float *inverse_sd, const float *inverse_norms,
                             const float *p_noise, double *noise, double *grad_rho) {
  for (Size s = 0; s < n_rows; s++) {
    float *row = scores + s * n_noise;
    double total = 0.0, slope = 0.0;
    SUM_IN_ANY_ORDER(total, slope)
    for (Size u = 0; u < n_noise; u++) {
      const float scale = inverse_sd[s] * inverse_norms[u];
      const float z = (row[u] + bias) * scale;
      const float phi = 0.3989422804f * power_of_two(-0.7213475204f * z * z);

      /* Phi(-|z|): Abramowitz and Stegun, 26.2.17 */
      const float t = 1.0f / (1.0f + 0.2316419f * fabsf(z));
      float p = 1.330274429f;
      p = p * t - 1.821255978f;
      p = p * t + 1.781477937f;
      p = p * t - 0.356563782f;
      p = p * t + 0.319381530f;
      const float tail = phi * t * p;

      const float density = phi * p_noise[u];
      total += (double)(p_noise[u] * (z >= 0.0f ? 1.0f - tail : tail));
      slope += (double)(density * z);
      row[u] = density * scale;
    }
    noise[s] = total;
    grad_rho[s] = -0.5 * slope;
  }
}

/* risks.own_errors */
void KERNEL(own_errors)(const double *mu, Size n_rows, Size n_dims, const double *sd, double bias,
                        const double *words, const int64_t *offsets, const double *norms,
                        const double *shares, double *positive, double *grad_mu,
                        double *grad_rho) {
  for (Size s = 0; s < n_rows; s++) {
    const double *mean = mu + s * n_dims;
    double *restrict slopes = grad_mu + s * n_dims;
    double error = 0.0, slope = 0.0;
    for (Size d = 0; d < n_dims; d++) slopes[d] = 0.0;

    for (Size t = offsets[s]; t < offsets[s + 1]; t++) {
      const double *word = words + t * n_dims;
      double product = 0.0;
      SUM_IN_ANY_ORDER(product)
      for (Size d = 0; d < n_dims; d++) product += mean[d] * word[d];

      const double score = product + bias;
      const double spread = sd[s] * norms[t];
      if (spread == 0.0) { /* the margin is the bias, for every draw */
        error += score <= 0.0 ? shares[t] : 0.0;
        continue;
      }
      const double z = score / spread;
      error += shares[t] * 0.5 * erfc(z / sqrt(2.0));
      const double density = shares[t] * exp(-0.5 * z * z) / sqrt(2.0 * 3.141592653589793);
      slope += 0.5 * density * z;
      for (Size d = 0; d < n_dims; d++) slopes[d] -= density / spread * word[d];
    }
    positive[s] = error;
    grad_rho[s] = slope;
  }
}
