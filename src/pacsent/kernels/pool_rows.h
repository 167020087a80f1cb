/* Pooling for one type of table, included by pooling.c once for each:
 *
 *   POOL_ROWS      the entry point, which has the names of its functions too
 *   Entry, Real    a number of the table, a number of the sums
 *   Numbers, LOAD  a vector of Real; reads one from a place in the table
 */
#define NAMED_(part, name) part##name
#define NAMED(part, name) NAMED_(part, name)

#define NumbersAnywhere NAMED(NumbersOf_, POOL_ROWS)
#define add_columns NAMED(add_columns_, POOL_ROWS)
#define add_rows NAMED(add_rows_, POOL_ROWS)
#define add_block NAMED(add_block_, POOL_ROWS)
#define N_LANES ((Size)(sizeof(Numbers) / sizeof(Real)))
#define N_IN_LINE ((Size)(64 / sizeof(Entry)))

typedef Real NumbersAnywhere
    __attribute__((vector_size(sizeof(Numbers)), aligned(sizeof(Real)), may_alias));

/* total[0:N_LANES] += the sum of n_rows rows there, times their factors if they are weighted.
 * One row by itself; else four at a time, (a + b) + (c + d). */
INLINE void add_columns(Real *restrict total, const Entry *const *rows, Size column,
                        const Real *factors, const int n_rows, const int is_weighted) {
  Numbers sum = *(const NumbersAnywhere *)total;
  Numbers x[8];

  UNROLL for (int r = 0; r < n_rows; r++) {
    x[r] = LOAD(rows[r] + column);
    if (is_weighted) x[r] *= factors[r];
  }

  if (n_rows == 1) sum += x[0];
  UNROLL for (int r = 0; r + 4 <= n_rows; r += 4) sum += (x[r] + x[r + 1]) + (x[r + 2] + x[r + 3]);

  *(NumbersAnywhere *)total = sum;
}

/* add_columns for all columns, at least N_LANES of them; rows of tokens ahead are asked for.
 *
 * The last vector of a row may begin before the last whole one ends: its sums are at
 * total[n_dims rounded down to whole vectors], and what it sums a second time is not read. */
INLINE void add_rows(Real *restrict total, const Entry *const *rows, const Real *factors,
                     const int n_rows, const int is_weighted, Size n_dims) {
  Size column = 0;

  for (; column + N_IN_LINE <= n_dims; column += N_IN_LINE) {
    UNROLL for (int r = 0; r < n_rows; r++) {
      __builtin_prefetch(rows[r + AHEAD] + column, 0, 3);
    }
    UNROLL for (Size more = 0; more < N_IN_LINE; more += N_LANES) {
      add_columns(total + column + more, rows, column + more, factors, n_rows, is_weighted);
    }
  }

  if (column < n_dims) {
    UNROLL for (int r = 0; r < n_rows; r++) {
      __builtin_prefetch(rows[r + AHEAD] + column, 0, 3);
    }
  }
  for (; column + N_LANES <= n_dims; column += N_LANES) {
    add_columns(total + column, rows, column, factors, n_rows, is_weighted);
  }
  if (column < n_dims) {
    add_columns(total + column, rows, n_dims - N_LANES, factors, n_rows, is_weighted);
  }
}

/* to[0:n_columns] += scale * the sum of the n rows times their factors, for n <= BLOCK and
 * n_columns <= TILE. `rows` has AHEAD more, of tokens that come next. */
INLINE void add_block(Real *to, const Entry **rows, const Real *factors, Size n, int is_weighted,
                      Size n_columns, Real scale) {
  /* rows shorter than a vector are filled up with zeros */
  const Size n_summed = larger(n_columns, N_LANES);
  Entry filled[BLOCK][N_LANES];
  if (n_columns < N_LANES) {
    memset(filled, 0, sizeof filled);
    for (Size k = 0; k < n; k++) {
      memcpy(filled[k], rows[k], (size_t)n_columns * sizeof(Entry));
      rows[k] = filled[k];
    }
  }

  Real total[TILE + N_LANES];
  memset(total, 0, (size_t)(n_summed + N_LANES) * sizeof(Real));
  Size k = 0;
  if (is_weighted) {
    for (; k + 4 <= n; k += 4) add_rows(total, rows + k, factors + k, 4, 1, n_summed);
    for (; k < n; k++) add_rows(total, rows + k, factors + k, 1, 1, n_summed);
  } else {
    for (; k + 8 <= n; k += 8) add_rows(total, rows + k, factors, 8, 0, n_summed);
    for (; k + 4 <= n; k += 4) add_rows(total, rows + k, factors, 4, 0, n_summed);
    for (; k < n; k++) add_rows(total, rows + k, factors, 1, 0, n_summed);
  }

  /* the last vector, where it begins before the last whole one ends, ends with the last column */
  const Size n_whole = smaller(n_summed / N_LANES * N_LANES, n_columns);
  const Real *last = total + n_whole + N_LANES - n_columns;
  for (Size d = 0; d < n_whole; d++) to[d] += scale * total[d];
  for (Size d = n_whole; d < n_columns; d++) to[d] += scale * last[d];
}

/* pooling.pool_rows; weights may be NULL. Returns 0 where an id is not a row of the table or an
 * offset not a place in `ids`. */
Size KERNEL(POOL_ROWS)(const int32_t *ids, Size n_ids, const int64_t *offsets, Size n_texts,
                       const Entry *table, Size n_rows, Size n_dims, const Real *weights,
                       const Real *scale, Real *out, Size add) {
  const Entry *rows[BLOCK + AHEAD];
  Real factors[BLOCK];

  for (Size s = 0; s < n_texts; s++) {
    const Size begin = offsets[s];
    const Size end = offsets[s + 1];
    if (begin < 0 || end > n_ids) return 0;

    Real *to = out + s * n_dims;
    if (!add) memset(to, 0, (size_t)n_dims * sizeof(Real));

    for (Size t = begin; t < end; t += BLOCK) {
      const Size n = smaller(BLOCK, end - t);
      int is_outside = 0;
      for (Size k = 0; k < n; k++) is_outside |= ids[t + k] < 0 || ids[t + k] >= n_rows;
      if (is_outside) return 0;

      for (Size k = 0; weights && k < n; k++) factors[k] = weights[ids[t + k]];

      for (Size first = 0; first < n_dims; first += TILE) {
        for (Size k = 0; k < n; k++) rows[k] = table + ids[t + k] * n_dims + first;
        for (Size k = n; k < n + AHEAD; k++) { /* perhaps of the next texts */
          rows[k] = table + ids[smaller(t + k, n_ids - 1)] * n_dims + first;
        }

        const Size n_columns = smaller(TILE, n_dims - first);
        add_block(to + first, rows, factors, n, weights != NULL, n_columns, scale[s]);
      }
    }
  }
  return 1;
}

#undef POOL_ROWS
#undef Entry
#undef Real
#undef Numbers
#undef LOAD
#undef NAMED_
#undef NAMED
#undef NumbersAnywhere
#undef add_columns
#undef add_rows
#undef add_block
#undef N_LANES
#undef N_IN_LINE
