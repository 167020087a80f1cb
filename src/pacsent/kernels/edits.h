/* The edit distance between two sequences of words. */
#ifndef PACSENT_EDITS_H
#define PACSENT_EDITS_H

#include "common.h"

/* Insertions, deletions and replacements between a and b; limit + 1 if more. Only cells within
 * `limit` of the diagonal are computed; `row` has room for n_b + 1 numbers. */
static Size distance_within(const int32_t *a, Size n_a, const int32_t *b, Size n_b, Size limit,
                            int32_t *row) {
  if (n_a - n_b > limit || n_b - n_a > limit) return limit + 1;

  for (Size j = 0; j <= n_b; j++) row[j] = (int32_t)j;

  for (Size i = 1; i <= n_a; i++) {
    const Size first = larger(1, i - limit);
    const Size last = smaller(n_b, i + limit);
    Size diagonal = row[first - 1];
    Size smallest = first == 1 ? i : limit + 1;
    row[first - 1] = (int32_t)smallest;

    for (Size j = first; j <= last; j++) {
      const Size above = j < i + limit ? row[j] : limit + 1;
      const Size left = row[j - 1];
      const Size replaced = diagonal + (a[i - 1] != b[j - 1]);
      const Size cost = smaller(replaced, smaller(above, left) + 1);
      diagonal = row[j];
      row[j] = (int32_t)cost;
      smallest = smaller(smallest, cost);
    }

    if (smallest > limit) return limit + 1;
  }
  return smaller(row[n_b], limit + 1);
}

#endif
