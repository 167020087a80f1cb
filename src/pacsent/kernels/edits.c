/* Edit distances between sequences of words, and clusters around representatives.
 * `edits.py` has the same in Python, with explanations. */
#include "common.h"

/* Insertions, deletions and replacements between a and b; limit + 1 if more. Only cells within
 * `limit` of the diagonal are computed; `row` has room for n_b + 1 numbers. */
static Size distance_within(const int64_t *a, Size n_a, const int64_t *b, Size n_b, Size limit,
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

/* edits.edit_distance */
Size KERNEL(edit_distance)(const int64_t *a, Size n_a, const int64_t *b, Size n_b, Size limit,
                           int32_t *row) {
  return distance_within(a, n_a, b, n_b, limit, row);
}

/* edits.cluster_by_edits, for texts i with begin <= i < end, after those before.
 *
 * first and last hold a place for each rare word, the same at first; n_common is zeros; `listed`
 * has room for all rare words. */
void KERNEL(cluster_by_edits)(const int64_t *words, const int64_t *starts, Size begin, Size end,
                              const int64_t *rare, const int64_t *rare_starts, const int64_t *first,
                              int64_t *last, int32_t *row, int32_t *n_common, int32_t *candidates,
                              int32_t *listed, int64_t *representative) {
  for (Size i = begin; i < end; i++) {
    const int64_t *a = words + starts[i];
    const Size n_a = starts[i + 1] - starts[i];
    representative[i] = i;

    /* earlier texts with a rare word in common, and how many they have */
    Size n_candidates = 0;
    for (Size k = rare_starts[i]; k < rare_starts[i + 1]; k++) {
      for (Size place = first[rare[k]]; place < last[rare[k]]; place++) {
        const int32_t other = listed[place];
        if (n_common[other] == 0) candidates[n_candidates++] = other;
        n_common[other]++;
      }
    }

    Size best = n_a;
    int joins_directly = 1;
    for (Size k = 0; k < n_candidates; k++) {
      const Size other = candidates[k];
      const Size n_b = starts[other + 1] - starts[other];
      if (n_common[other] > smaller(n_a, n_b) / 6) {
        const int is_first = representative[other] == other;
        Size limit = larger(n_a, n_b) / 4;
        if (!is_first)
          limit = representative[i] == i ? smaller(limit, 1) : -1;
        else if (joins_directly)
          limit = smaller(limit, best - 1);

        const Size distance = distance_within(a, n_a, words + starts[other], n_b, limit, row);
        if (distance <= limit) {
          best = distance;
          joins_directly = is_first;
          representative[i] = representative[other];
        }
      }
      n_common[other] = 0;
    }

    if (joins_directly)
      for (Size k = rare_starts[i]; k < rare_starts[i + 1]; k++) {
        listed[last[rare[k]]] = (int32_t)i;
        last[rare[k]]++;
      }
  }
}
