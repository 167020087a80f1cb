/* What random.h makes, for `random.py`. */
#include "random.h"

/* random.normal_numbers */
void KERNEL(normal_numbers)(uint64_t *state, float *out, Size n) { fill_normal(state, out, n); }

/* random.draw_indices */
void KERNEL(draw_indices)(uint64_t *state, const double *keep, const int32_t *other, Size n,
                          int64_t *out, Size n_drawn) {
  for (Size i = 0; i < n_drawn; i++) out[i] = draw_index(state, keep, other, n);
}
