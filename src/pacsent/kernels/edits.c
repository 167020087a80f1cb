/* Edit distances between sequences of words. `edits.py` has the same in Python. */
#include "edits.h"

/* edits.edit_distance */
Size KERNEL(edit_distance)(const int32_t *a, Size n_a, const int32_t *b, Size n_b, Size limit,
                           int32_t *row) {
  return distance_within(a, n_a, b, n_b, limit, row);
}
