/* PV-DBOW: vectors of sentences, and of words, by negative sampling. `pv_dbow.py` says what is
 * computed, and has it in NumPy.
 *
 * The sentences of a group go on side by side, token by token, with the same negatives: rows of the
 * table are read once for all, while the place before is worked on. A vector does not depend on
 * which other sentences are in the group. */
#include "random.h"
#include "vectors.h"

enum { GROUP_SIZE = 16 };

typedef struct {
  float *rows; /* A, of n_words rows */
  Size n_words, n_dims;
} Table;

typedef struct {
  const int32_t *ids;
  Size n_ids;
  const int64_t *offsets;
  Size n_texts;
} Texts;

/* The words that negatives are drawn from, by an alias table. */
typedef struct {
  const int64_t *words;
  const double *keep;
  const int32_t *other;
  Size n_words, n_negatives;
} Noise;

/* What one place works on. Rows are `stride` long: n_dims and zeros up to a multiple of 32; there
 * are GROUP_SIZE of them, or `n_drawn`, the negatives and more up to a multiple of four. */
typedef struct {
  float *H;     /* the vectors of the group's sentences */
  float *own;   /* rows of their words at this place */
  float *G;     /* what H moves by */
  float *X;     /* rows of the negatives */
  float *M;     /* what these move by */
  float *moves; /* (n_drawn, GROUP_SIZE): -rate times the slopes of scores */
  Size stride, n_drawn;
} Room;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* to[0:n] = from[0:n] */
INLINE void copy_row(const float *from, float *to, Size n) {
  memcpy(to, from, (size_t)n * sizeof *to);
}

/* to[0:n] += amount * row[0:n] */
INLINE void add_row(float amount, const float *row, float *to, Size n) {
  for (Size d = 0; d < n; d++) to[d] += amount * row[d];
}

/* As many sums are held at once as a vector has lanes, of four rows: for several other rows. */
enum { OTHERS = WIDTH / 4 };

/* scores[c * GROUP_SIZE + r] = H[r] @ X[c], for r < 4, c < OTHERS */
INLINE void score_tile(const float *H, const float *X, float *scores, Size stride) {
  Vector sums[WIDTH] = {0};

  for (Size d = 0; d < stride; d += WIDTH) {
    Vector h[4];
    UNROLL for (int r = 0; r < 4; r++) h[r] = load(H + r * stride + d);
    UNROLL for (int c = 0; c < OTHERS; c++) {
      const Vector x = load(X + c * stride + d);
      UNROLL for (int r = 0; r < 4; r++) sums[c * 4 + r] += h[r] * x;
    }
  }

  const Vector totals = lane_sums(sums);
  UNROLL for (int c = 0; c < OTHERS; c++) {
    memcpy(scores + c * GROUP_SIZE, (const float *)&totals + c * 4, 4 * sizeof(float));
  }
}

/* scores[r] = H[r] @ own[r], for r < 4 */
INLINE void score_own(const float *H, const float *own, float *scores, Size stride) {
  Vector sums[WIDTH] = {0};

  for (Size d = 0; d < stride; d += 2 * WIDTH) {
    UNROLL for (int r = 0; r < 4; r++) {
      const Size at = r * stride + d;
      const int other = OTHERS > 1 ? 4 + r : r;
      sums[r] += load(H + at) * load(own + at);
      sums[other] += load(H + at + WIDTH) * load(own + at + WIDTH);
    }
  }

  const Vector totals = lane_sums(sums);
  for (int r = 0; r < 4; r++) scores[r] = OTHERS > 1 ? totals[r] + totals[4 + r] : totals[r];
}

/* out[i] = sum over k of weights[i * row_step + k * column_step] * X[k], for i < n_out, k < n_X;
 * rows are written up to a multiple of four. */
INLINE void multiply(const float *weights, Size row_step, Size column_step, Size n_out,
                     const float *X, Size n_X, float *out, Size stride) {
  for (Size i = 0; i < n_out; i += 4) {
    for (Size d = 0; d < stride; d += 2 * WIDTH) {
      Vector sums[8] = {0};

      for (Size k = 0; k < n_X; k++) {
        const float *w = weights + i * row_step + k * column_step;
        const Vector left = load(X + k * stride + d);
        const Vector right = load(X + k * stride + d + WIDTH);
        UNROLL for (int r = 0; r < 4; r++) {
          sums[2 * r] += w[r * row_step] * left;
          sums[2 * r + 1] += w[r * row_step] * right;
        }
      }

      UNROLL for (int r = 0; r < 4; r++) {
        store(out + (i + r) * stride + d, sums[2 * r]);
        store(out + (i + r) * stride + d + WIDTH, sums[2 * r + 1]);
      }
    }
  }
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* How many of the first n sentences of a group, long ones first, have a token at place t. */
INLINE Size n_remaining(const int64_t *group, Texts texts, Size t, Size n) {
  while (n > 0) {
    const int64_t last = group[n - 1];
    if (last >= 0 && texts.offsets[last + 1] - texts.offsets[last] > t) break;
    n--;
  }
  return n;
}

/* The words of n sentences at place t, and negatives for it, all fetched; 0 if one is no row. */
static int pick(const int64_t *group, Size n, Size t, Texts texts, Table A, Noise noise,
                uint64_t *state, int64_t *own, int64_t *drawn) {
  int is_right = 1;

  for (Size i = 0; i < n; i++) {
    const Size place = texts.offsets[group[i]] + t;
    own[i] = place < texts.n_ids ? texts.ids[place] : -1;
    is_right &= own[i] >= 0 && own[i] < A.n_words;
  }
  for (Size k = 0; k < noise.n_negatives; k++) {
    const Size index = draw_index(state, noise.keep, noise.other, noise.n_words);
    drawn[k] = index >= 0 && index < noise.n_words ? noise.words[index] : -1;
    is_right &= drawn[k] >= 0 && drawn[k] < A.n_words;
  }
  if (!is_right) return 0;

  for (Size i = 0; i < n; i++) fetch_row(A.rows + own[i] * A.n_dims, A.n_dims);
  for (Size k = 0; k < noise.n_negatives; k++) fetch_row(A.rows + drawn[k] * A.n_dims, A.n_dims);
  return 1;
}

/* One token of each of the first n rows of H moves it, and then the rows of A that were met. */
static void step_together(Room room, Size n, Table A, const int64_t *own, const int64_t *drawn,
                          Size n_negatives, float rate, int train_words) {
  const Size stride = room.stride;
  const Size n_dims = A.n_dims;
  const Size n_in_fours = (n + 3) / 4 * 4;
  float errors[GROUP_SIZE];

  for (Size i = 0; i < n; i++) copy_row(A.rows + own[i] * n_dims, room.own + i * stride, n_dims);
  for (Size k = 0; k < n_negatives; k++) {
    copy_row(A.rows + drawn[k] * n_dims, room.X + k * stride, n_dims);
  }

  for (Size i = 0; i < n_in_fours; i += 4) {
    const float *H = room.H + i * stride;
    score_own(H, room.own + i * stride, errors + i, stride);
    for (Size k = 0; k < room.n_drawn; k += OTHERS) {
      score_tile(H, room.X + k * stride, room.moves + k * GROUP_SIZE + i, stride);
    }
  }
  for (Size i = 0; i < n_in_fours; i++) errors[i] = -rate * (sigmoid(errors[i]) - 1.0f);
  for (Size j = 0; j < n_negatives * GROUP_SIZE; j++) {
    room.moves[j] = -rate * sigmoid(room.moves[j]);
  }

  multiply(room.moves, 1, GROUP_SIZE, n, room.X, n_negatives, room.G, stride);
  if (train_words) {
    multiply(room.moves, GROUP_SIZE, 1, n_negatives, room.H, n, room.M, stride);
    for (Size k = 0; k < n_negatives; k++) {
      add_row(1.0f, room.M + k * stride, A.rows + drawn[k] * n_dims, n_dims);
    }
    for (Size i = 0; i < n; i++) {
      add_row(errors[i], room.H + i * stride, A.rows + own[i] * n_dims, n_dims);
    }
  }
  for (Size i = 0; i < n; i++) {
    float *h = room.H + i * stride;
    add_row(errors[i], room.own + i * stride, h, stride);
    add_row(1.0f, room.G + i * stride, h, stride);
  }
}

/* pv_dbow.pv_dbow, for groups `begin` to `end`; 0 where an id is not a word, or a member or an
 * offset out of range.
 *
 * `rows` is zeros, for 3 GROUP_SIZE + 2 n_drawn rows of `stride` numbers and n_drawn of GROUP_SIZE,
 * as in Room; `places` has room for 2 (GROUP_SIZE + n_negatives) words. */
Size KERNEL(pv_dbow)(const int64_t *members, uint64_t *states, Size begin, Size end, Size n_groups,
                     const int32_t *ids, Size n_ids, const int64_t *offsets, Size n_texts,
                     float *table, Size n_words, Size n_dims, const int64_t *noise_words,
                     const double *keep, const int32_t *other, Size n_noise, Size n_negatives,
                     const float *rates, Size n_epochs, Size train_words, float *vectors,
                     float *rows, Size stride, int64_t *places) {
  const Table A = {table, n_words, n_dims};
  const Texts texts = {ids, n_ids, offsets, n_texts};
  const Noise noise = {noise_words, keep, other, n_noise, n_negatives};
  Room room = {.H = rows, .stride = stride, .n_drawn = (n_negatives + 3) / 4 * 4};
  room.own = room.H + GROUP_SIZE * stride;
  room.G = room.own + GROUP_SIZE * stride;
  room.X = room.G + GROUP_SIZE * stride;
  room.M = room.X + room.n_drawn * stride;
  room.moves = room.M + room.n_drawn * stride;
  int64_t *own = places, *next_own = own + GROUP_SIZE;
  int64_t *drawn = next_own + GROUP_SIZE, *next_drawn = drawn + n_negatives;

  for (Size g = begin; g < end; g++) {
    const int64_t *group = members + g * GROUP_SIZE;
    for (Size i = 0; i < GROUP_SIZE; i++) {
      if (group[i] < -1 || group[i] >= n_texts) return 0;
      if (group[i] >= 0 && offsets[group[i]] < 0) return 0;
    }

    const Size n_members = n_remaining(group, texts, 0, GROUP_SIZE);
    for (Size i = 0; i < n_members; i++) {
      if (group[i] < 0) return 0;
      copy_row(vectors + group[i] * n_dims, room.H + i * stride, n_dims);
    }

    for (Size epoch = 0; epoch < n_epochs; epoch++) {
      uint64_t *state = states + epoch * n_groups + g;
      Size n = n_members;
      if (!pick(group, n, 0, texts, A, noise, state, own, drawn)) return 0;

      for (Size t = 1; n > 0; t++) {
        const Size n_next = n_remaining(group, texts, t, n);
        if (!pick(group, n_next, t, texts, A, noise, state, next_own, next_drawn)) return 0;

        step_together(room, n, A, own, drawn, n_negatives, rates[epoch], train_words != 0);

        int64_t *spare = own;
        own = next_own, next_own = spare;
        spare = drawn;
        drawn = next_drawn, next_drawn = spare;
        n = n_next;
      }
    }

    for (Size i = 0; i < n_members; i++) {
      copy_row(room.H + i * stride, vectors + group[i] * n_dims, n_dims);
    }
  }
  return 1;
}
