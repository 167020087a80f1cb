/* Walker's alias table, from which negatives are drawn: the one that every trainer uses. */
#include "common.h"

/* alias.alias_table; `small` and `large` have room for n numbers. */
void KERNEL(alias_table)(const double *p, Size n, double *keep, int32_t *other, int32_t *small,
                         int32_t *large) {
  double total = 0.0;
  for (Size i = 0; i < n; i++) total += p[i];

  /* columns with less than the mean, and the others */
  Size n_small = 0, n_large = 0;
  for (Size i = 0; i < n; i++) {
    keep[i] = p[i] * (double)n / total;
    other[i] = (int32_t)i;
    if (keep[i] < 1.0)
      small[n_small++] = (int32_t)i;
    else
      large[n_large++] = (int32_t)i;
  }

  /* a small one is filled up by a large one, which may become small by that */
  while (n_small > 0 && n_large > 0) {
    const int32_t i = small[--n_small];
    const int32_t j = large[n_large - 1];
    other[i] = j;
    keep[j] -= 1.0 - keep[i];
    if (keep[j] < 1.0) {
      n_large--;
      small[n_small++] = j;
    }
  }

  /* rounding left these a hair off 1 */
  for (Size k = 0; k < n_small; k++) keep[small[k]] = 1.0;
  for (Size k = 0; k < n_large; k++) keep[large[k]] = 1.0;
}
