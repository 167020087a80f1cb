/* BM25 on postings: the rows that contain a word, increasing, and their impacts.
 * `bm25.py` has the same in NumPy. */
#include "common.h"

enum { WINDOW = 4096 }; /* rows at a time, whose scores fit into the cache */

/* A row that was found; of equal scores the earlier row is better. */
typedef struct {
  double score;
  double negative_row;
} Found;

INLINE int is_worse(Found a, Found b) {
  return a.score < b.score || (a.score == b.score && a.negative_row < b.negative_row);
}

/* heapq.heapreplace: put a row in the place of the worst one, heap[0]. */
static void replace_worst(Found *heap, Size k, Found found) {
  Size parent = 0;
  for (;;) {
    Size child = 2 * parent + 1;
    if (child >= k) break;
    if (child + 1 < k && is_worse(heap[child + 1], heap[child])) child++;
    if (!is_worse(heap[child], found)) break;
    heap[parent] = heap[child];
    parent = child;
  }
  heap[parent] = found;
}

/* The first place from i on, before end, whose row is not below `row`. */
INLINE Size skip_to(const int32_t *rows, Size i, Size end, Size row) {
  if (i >= end || rows[i] >= row) return i;

  /* Rows increase: the row is at most as many postings away as rows. */
  Size last = smaller(end, i + row - rows[i]);
  while (i < last) {
    const Size middle = i + (last - i) / 2;
    if (rows[middle] < row)
      i = middle + 1;
    else
      last = middle;
  }
  return i;
}

/* bm25.find_best; whether the spans are within n_postings.
 *
 * MaxScore (Turtle and Flood 1995) in windows of rows. The words from w on together contribute at
 * most remaining[w]. If that is less than the k-th best score so far, only rows with one of the
 * words before, the essential words, are candidates. The other words are looked up for candidates,
 * which are dropped as soon as they cannot reach that score.
 *
 * Rows from n_excluded on are not excluded; `best` is a heap of k > 0 rows. There must be room for
 * n_words places, where each word's postings go on, and for n_words + 1 numbers `remaining`. */
Size KERNEL(find_best)(const int32_t *rows, const float *impacts, Size n_postings,
                       const int64_t *spans, const float *weights, const float *limits,
                       Size n_words, Size first, const uint8_t *excluded, Size n_excluded,
                       Found *best, Size k, int64_t *places, double *remaining) {
  remaining[n_words] = 0.0;
  for (Size w = n_words - 1; w >= 0; w--) {
    if (spans[2 * w] < 0 || spans[2 * w + 1] > n_postings) return 0;
    places[w] = spans[2 * w];
    remaining[w] = remaining[w + 1] + limits[w];
  }

  const double rounding = 1.0 - (double)(n_words + 2) * 0x1p-22;
  float scores[WINDOW] = {0};
  int32_t candidates[WINDOW];
  Size n_essential = n_words;
  for (;;) {
    const double threshold = best[0].score * rounding;
    while (n_essential > 0 && remaining[n_essential - 1] < threshold) n_essential--;

    /* the window begins with the first row that has an essential word */
    Size start = -1;
    for (Size w = 0; w < n_essential; w++)
      if (places[w] < spans[2 * w + 1] && (start < 0 || rows[places[w]] < start)) start = rows[places[w]];
    if (start < 0) break;

    for (Size w = 0; w < n_essential; w++) {
      Size i = places[w];
      for (; i < spans[2 * w + 1] && rows[i] < start + WINDOW; i++)
        scores[rows[i] - start] += weights[w] * impacts[i];
      places[w] = i;
    }

    const float least = (float)fmax(threshold - remaining[n_essential], 1e-30);
    Size n = 0;
    for (int32_t j = 0; j < WINDOW; j++) {
      candidates[n] = j;
      n += scores[j] >= least;
    }

    for (Size w = n_essential; w < n_words; w++) {
      const double least_left = threshold - remaining[w + 1];
      Size i = places[w];
      Size n_left = 0;
      for (Size c = 0; c < n; c++) {
        const int32_t j = candidates[c];
        i = skip_to(rows, i, spans[2 * w + 1], start + j);
        if (i < spans[2 * w + 1] && rows[i] == start + j) scores[j] += weights[w] * impacts[i];
        if (scores[j] >= least_left) {
          candidates[n_left] = j;
          n_left++;
        }
      }
      places[w] = i;
      n = n_left;
    }

    for (Size c = 0; c < n; c++) {
      const Size row = start + candidates[c];
      const double score = scores[candidates[c]];
      if (score > best[0].score && !(row < n_excluded && excluded[row]))
        replace_worst(best, k, (Found){score, -(double)(first + row)});
    }
    memset(scores, 0, sizeof scores);
  }
  return 1;
}
