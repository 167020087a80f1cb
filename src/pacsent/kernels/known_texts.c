/* Near-duplicates of texts of which sketches are known. `known_texts.py` has the same in Python. */
#include "common.h"

enum { MOST_COLUMNS = 64, ABSENT = -2 };

/* Puts numbers in order. */
INLINE void sort_numbers(int32_t *numbers, Size n) {
  for (Size k = 1; k < n; k++) {
    const int32_t number = numbers[k];
    Size place = k;
    for (; place > 0 && numbers[place - 1] > number; place--) numbers[place] = numbers[place - 1];
    numbers[place] = number;
  }
}

/* known_texts.find_prefixes, for rows begin to end, whose entries are written from n on; returns the
 * number of entries then. */
Size KERNEL(find_prefixes)(const int32_t *numbers, Size n_columns, Size begin, Size end,
                           const double *idf, double unknown_idf, double least, Size n,
                           int32_t *prefixes, float *remainders, int64_t *prefix_starts,
                           double *lengths) {
  for (Size i = begin; i < end; i++) {
    const int32_t *row = numbers + i * n_columns;
    int32_t sorted[MOST_COLUMNS];
    Size n_known = 0;
    double squared_length = 0;
    for (Size k = 0; k < n_columns; k++) {
      if (row[k] == ABSENT) continue;
      const double value = row[k] >= 0 ? idf[row[k]] : unknown_idf;
      squared_length += value * value;
      if (row[k] >= 0) sorted[n_known++] = row[k];
    }
    lengths[i] = sqrt(squared_length);
    sort_numbers(sorted, n_known);

    /* An id is there twice in the very rare case that two hashes agree in their first half. */
    double squares[MOST_COLUMNS];
    Size n_entries = 0;
    for (Size k = 0; k < n_known; n_entries++) {
      Size n_same = 1;
      while (k + n_same < n_known && sorted[k + n_same] == sorted[k]) n_same++;
      const double value = (double)n_same * idf[sorted[k]];
      sorted[n_entries] = sorted[k];
      squares[n_entries] = value * value;
      k += n_same;
    }

    /* Those of the end are left out that together are too short. */
    for (Size k = n_entries - 1; k > 0; k--) squares[k - 1] += squares[k];
    for (Size k = 0; k < n_entries && squares[k] >= least * least * squared_length; k++) {
      prefixes[n] = sorted[k];
      remainders[n] = (float)sqrt(squares[k] / squared_length);
      n++;
    }
    prefix_starts[i + 1] = n;
  }
  return n;
}

/* known_texts.list_rows, for rows begin to end; `next` is where the next row of each id is listed. */
void KERNEL(list_rows)(const int32_t *prefixes, const float *remainders,
                       const int64_t *prefix_starts, const int32_t *rows, Size begin, Size end,
                       int64_t *next, int32_t *listed_rows, float *listed_remainders) {
  for (Size i = begin; i < end; i++) {
    for (Size p = prefix_starts[i]; p < prefix_starts[i + 1]; p++) {
      const Size place = next[prefixes[p]]++;
      listed_rows[place] = rows[i];
      listed_remainders[place] = remainders[p];
    }
  }
}

/* How many of the first n ids there are, without zeros at the end. */
INLINE Size trimmed(const uint32_t *ids, Size n) {
  while (n > 0 && ids[n - 1] == 0) n--;
  return n;
}

/* The sum of `squares` of the ids of a that b has as well; both are in order. */
static double shared_squares(const uint32_t *a, Size n_a, const double *squares, const uint32_t *b,
                             Size n_b) {
  double sum = 0;
  Size i = 0, j = 0;
  while (i < n_a && j < n_b) {
    const uint32_t id = a[i];
    if (id != b[j]) {
      const int is_smaller = id < b[j];
      i += is_smaller;
      j += !is_smaller;
      continue;
    }
    const Size first_i = i, first_j = j;
    while (i < n_a && a[i] == id) i++;
    while (j < n_b && b[j] == id) j++;
    sum += (double)((i - first_i) * (j - first_j)) * squares[first_i];
  }
  return sum;
}

/* known_texts.are_near, for texts begin to end.
 *
 * last_compared is -1 for each known text at first: the last text that it was compared with. */
void KERNEL(are_near)(const uint32_t *own, const double *own_squares, const double *own_lengths,
                      Size n_columns, Size begin, Size end, const int32_t *prefixes,
                      const float *remainders, const int64_t *prefix_starts, const uint32_t *known,
                      const double *lengths, const int32_t *postings,
                      const float *posting_remainders, const int64_t *posting_starts, double least,
                      double least_bound, int32_t *last_compared, uint8_t *is_near) {
  for (Size i = begin; i < end; i++) {
    const uint32_t *a = own + i * n_columns;
    const Size n_a = trimmed(a, n_columns);
    is_near[i] = 0;
    for (Size p = prefix_starts[i]; p < prefix_starts[i + 1] && !is_near[i]; p++) {
      const Size last = posting_starts[prefixes[p] + 1];
      for (Size k = posting_starts[prefixes[p]]; k < last && !is_near[i]; k++) {
        /* All that both have is in what remains of both, if it was not seen before. */
        if (remainders[p] * posting_remainders[k] < least_bound) continue;
        const Size other = postings[k];
        if (last_compared[other] == i) continue;
        last_compared[other] = (int32_t)i;

        const uint32_t *b = known + other * n_columns;
        const double sum = shared_squares(a, n_a, own_squares + i * n_columns, b,
                                          trimmed(b, n_columns));
        is_near[i] = sum >= least * own_lengths[i] * lengths[other];
      }
    }
  }
}
