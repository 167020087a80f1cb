/* Near-duplicates of texts of which sketches are known. `known_texts.py` has the same in Python. */
#include "common.h"

enum { MOST_COLUMNS = 64, ABSENT = -2 };

/* A word or a pair of words of a text. */
typedef struct {
  int32_t number;
  double square; /* its part of the squared length */
} Entry;

/* The different ids of a row that have a number; returns how many these are. An id occurs twice in
 * the very rare case that two hashes agree in their first half. */
static Size read_entries(const int32_t *numbers, Size n_columns, const double *idf, Entry *entries) {
  Size n = 0;
  for (Size k = 0; k < n_columns;) {
    const int32_t number = numbers[k];
    Size n_same = 1;
    while (k + n_same < n_columns && number >= 0 && numbers[k + n_same] == number) n_same++;
    k += n_same;
    if (number < 0) continue;
    const double value = (double)n_same * idf[number];
    entries[n].number = number;
    entries[n].square = value * value;
    n++;
  }
  return n;
}

/* Whether a comes before b: the rarer first, then by number. */
INLINE int is_before(Entry a, Entry b, const double *idf) {
  if (idf[a.number] != idf[b.number]) return idf[a.number] > idf[b.number];
  return a.number < b.number;
}

/* known_texts.find_prefixes, for rows begin to end, whose entries are written from n on; returns the
 * number of entries then. */
Size KERNEL(find_prefixes)(const int32_t *numbers, Size n_columns, Size begin, Size end,
                           const double *idf, double unknown_idf, double least, Size n,
                           int32_t *prefixes, float *remainders, int64_t *prefix_starts,
                           double *lengths) {
  Entry entries[MOST_COLUMNS];
  for (Size i = begin; i < end; i++) {
    const int32_t *row = numbers + i * n_columns;
    double squared_length = 0;
    for (Size k = 0; k < n_columns; k++) {
      const double value = row[k] >= 0 ? idf[row[k]] : unknown_idf;
      if (row[k] != ABSENT) squared_length += value * value;
    }
    lengths[i] = sqrt(squared_length);

    const Size n_entries = read_entries(row, n_columns, idf, entries);
    for (Size k = 1; k < n_entries; k++) {
      const Entry entry = entries[k];
      Size place = k;
      for (; place > 0 && is_before(entry, entries[place - 1], idf); place--)
        entries[place] = entries[place - 1];
      entries[place] = entry;
    }

    /* Those of the end are left out that together are too short. */
    double squared_remainders[MOST_COLUMNS];
    double to_the_end = 0;
    for (Size k = n_entries - 1; k >= 0; k--) {
      to_the_end += entries[k].square;
      squared_remainders[k] = to_the_end / squared_length;
    }
    for (Size k = 0; k < n_entries && squared_remainders[k] >= least * least; k++) {
      prefixes[n] = entries[k].number;
      remainders[n] = (float)sqrt(squared_remainders[k]);
      n++;
    }
    prefix_starts[i + 1] = n;
  }
  return n;
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
