/* Skip-gram with negative sampling. `skipgram.py` says what is computed, and has it in NumPy.
 *
 * Noise is drawn once for a block of consecutive centre words. With the rows of I that belong to
 * the context words of a block (X) and the rows of O that belong to its centres and its noise (Y),
 * a step is three small matrix products: the scores X Y', what they change in O, and in I.
 *
 * Rows of the tables are a multiple of 16 floats long: no loop over vectors has a remainder.
 * Threads may train the same tables at the same time (lock-free, "Hogwild"). */
#include "vectors.h"

/* How work is divided among the registers, which must have all sums and what is multiplied:
 * X_ROWS x Y_ROWS scores are computed at once, a register each; MANY rows of a table are changed at
 * once, VECTORS_OF_MANY registers each, or FOUR of them. COLUMNS are so few that the rows which are
 * summed, of these columns, stay in the nearest cache. */
enum { FOUR = 4, X_ROWS = 4 };
#if WIDTH == 16 /* 32 registers */
enum { Y_ROWS = 4, MANY = 12, VECTORS_OF_MANY = 2, VECTORS_OF_FOUR = 4, COLUMNS = 128 };
#elif defined(__aarch64__) /* 32 registers */
enum { Y_ROWS = 4, MANY = 8, VECTORS_OF_MANY = 3, VECTORS_OF_FOUR = 4, COLUMNS = 96 };
#else /* 16 registers */
enum { Y_ROWS = 3, MANY = 6, VECTORS_OF_MANY = 2, VECTORS_OF_FOUR = 3, COLUMNS = 96 };
#endif
enum { MOST_SUMS = 24, MOST_VECTORS = 4 };

/* Input and output vectors, n_dims columns. */
typedef struct {
  float *I, *O;
  Size n_dims;
} Tables;

typedef struct {
  const int32_t *tokens;
  const int64_t *documents; /* pairs are of the same one */
  Size n_tokens;
} Text;

typedef struct {
  Size window, n_negatives, n_centres, n_samples;
} Shape;

/* The alias table: from column i, i where 32 random bits are below its threshold, else its alias. */
typedef struct {
  const uint64_t *thresholds;
  const int32_t *aliases;
  Size n_words;
} Noise;

/* What was drawn for a block: the rows of I are the tokens that the windows reach, from `first` on,
 * those of O the centres, then the samples. weights[a, n] is 1 for a pair that was seen; for a
 * sample it is -n_negatives / n_samples times the pairs of context word a with another centre than
 * this sample. The last rows of I, which make a multiple of four, have weights 0. */
typedef struct {
  int32_t *rows_I, *rows_O, *n_pairs_of;
  float *weights;
  Size n_I, n_pairs, first;
} Block;

/* Room for a step: X (n_I, n_dims), Y (n_O, n_dims), scores S (n_I, n_O) and S transposed. */
typedef struct {
  float *X, *Y, *S, *transposed;
} Room;

/* ---- Randomness: splitmix64 ------------------------------------------------------------------ */

/* arrays.splitmix64(z) */
INLINE uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* The next 64 random bits. */
INLINE uint64_t draw(uint64_t *state) {
  *state += 0x9E3779B97F4A7C15u;
  return mixed(*state);
}

/* A number below n, from the high half of random bits. */
INLINE Size below(uint64_t bits, Size n) { return (Size)(((bits >> 32) * (uint64_t)n) >> 32); }

INLINE int32_t draw_sample(Noise noise, uint64_t *state) {
  const uint64_t bits = draw(state);
  const Size column = below(bits, noise.n_words);
  const int32_t alias = noise.aliases[column]; /* read in any case: no branch to be foreseen */
  return (bits & 0xFFFFFFFFu) < noise.thresholds[column] ? (int32_t)column : alias;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Rows of weights and S: centres, then samples. */
INLINE Size n_columns(Shape shape) { return shape.n_centres + shape.n_samples; }

/* Draw windows and samples for the centres from token t on; n_I is 0 where t is the end. */
static void draw_block(Text text, Size t, Size stop, Shape shape, Noise noise, uint64_t *state,
                       Block *block) {
  block->n_I = block->n_pairs = block->first = 0;
  if (t >= stop) return;

  const Size n_block = shape.n_centres, n_O = n_columns(shape);
  const Size n_centres = smaller(n_block, stop - t); /* of the last block, fewer */
  int32_t *rows_I = block->rows_I, *rows_O = block->rows_O, *n_pairs_of = block->n_pairs_of;
  float *weights = block->weights;

  /* how far each window reaches: 1 to `window`, all as likely */
  Size first = t, last = t;
  for (Size c = 0; c < n_centres; c++) {
    const Size reach = 1 + below(draw(state), shape.window);
    rows_O[c] = (int32_t)reach; /* until the pairs are known */
    first = smaller(first, t + c - reach);
    last = larger(last, t + c + reach);
  }
  first = larger(first, 0);
  last = smaller(last, text.n_tokens - 1);

  const Size n_I = (last - first + 4) / 4 * 4;
  for (Size a = 0; a < n_I; a++) {
    rows_I[a] = text.tokens[smaller(first + a, text.n_tokens - 1)];
    n_pairs_of[a] = 0;
    for (Size c = 0; c < n_block; c++) weights[a * n_O + c] = 0.0f;
  }

  /* pairs that are seen */
  for (Size c = 0; c < n_centres; c++) {
    const Size centre = t + c, reach = rows_O[c];
    const Size end = smaller(last, centre + reach) + 1;
    for (Size j = larger(first, centre - reach); j < end; j++) {
      if (j == centre || text.documents[j] != text.documents[centre]) continue;
      weights[(j - first) * n_O + c] = 1.0f;
      n_pairs_of[j - first]++;
      block->n_pairs++;
    }
    rows_O[c] = text.tokens[centre];
  }
  for (Size c = n_centres; c < n_block; c++) rows_O[c] = text.tokens[t]; /* with weights 0 */

  /* samples */
  const float each = (float)((double)shape.n_negatives / (double)shape.n_samples);
  for (Size a = 0; a < n_I; a++) {
    const float weight = -each * (float)n_pairs_of[a];
    for (Size n = n_block; n < n_O; n++) weights[a * n_O + n] = weight;
  }
  for (Size n = n_block; n < n_O; n++) rows_O[n] = draw_sample(noise, state);

  /* none for pairs whose centre is the same word, which is rare */
  for (Size n = n_block; n < n_O; n++)
    for (Size c = 0; c < n_centres; c++) {
      if (rows_O[c] != rows_O[n]) continue;
      for (Size a = 0; a < n_I; a++) weights[a * n_O + n] += each * weights[a * n_O + c];
    }

  block->n_I = n_I;
  block->first = first;
}

/* Rows of a table that the next block needs: a few at a time are fetched while this one computes,
 * since a processor waits for few lines at once. */
typedef struct {
  const float *table;
  Size n_dims;
  const int32_t *rows;
  Size n_rows, n_at_once, n_fetched;
} Ahead;

INLINE Size divided_up(Size a, Size b) { return (a + b - 1) / b; }

/* All rows, in n_times parts. */
INLINE Ahead rows_ahead(const float *table, Size n_dims, const int32_t *rows, Size n_rows,
                        Size n_times) {
  return (Ahead){table, n_dims, rows, n_rows, divided_up(n_rows, n_times), 0};
}

INLINE void fetch_part(Ahead *ahead) {
  const Size end = smaller(ahead->n_fetched + ahead->n_at_once, ahead->n_rows);
  for (; ahead->n_fetched < end; ahead->n_fetched++)
    fetch_row(ahead->table + ahead->rows[ahead->n_fetched] * ahead->n_dims, ahead->n_dims);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* S[0:X_ROWS, 0:Y_ROWS] = X[0:X_ROWS] @ rows.T; where copies is not NULL, copies[:] = rows. */
INLINE void score_tile(const float *X, const float *const *rows, float *copies, float *S,
                       Size n_dims, Size n_O) {
  Vector sums[X_ROWS][Y_ROWS] = {0}, y[Y_ROWS];
  for (Size d = 0; d < n_dims; d += WIDTH) {
    UNROLL for (int c = 0; c < Y_ROWS; c++) {
      y[c] = load(rows[c] + d);
      if (copies) store(copies + c * n_dims + d, y[c]);
    }
    UNROLL for (int r = 0; r < X_ROWS; r++) {
      const Vector x = load(X + r * n_dims + d);
      UNROLL for (int c = 0; c < Y_ROWS; c++) sums[r][c] += x * y[c];
    }
  }

  /* four lanes for each row of scores, the last of them spare where Y_ROWS is 3 */
  enum { ROWS_IN_VECTOR = WIDTH / 4 };
  UNROLL for (int r = 0; r < X_ROWS; r += ROWS_IN_VECTOR) {
    Vector lanes[WIDTH] = {0};
    UNROLL for (int i = 0; i < WIDTH; i++) {
      if (i % 4 < Y_ROWS) lanes[i] = sums[r + i / 4][i % 4];
    }
    float scores[WIDTH];
    store(scores, lane_sums(lanes));
    UNROLL for (int i = 0; i < ROWS_IN_VECTOR; i++)
      memcpy(S + (r + i) * n_O, scores + 4 * i, Y_ROWS * sizeof(float));
  }
}

/* X = I[rows_I], Y = O[rows_O], S = X @ Y.T but for centres against words that no window of
 * theirs reaches. Those scores keep any finite values, and have weight 0. `t` is the first centre. */
static void score_block(Tables tables, const Block *block, Size t, Shape shape, Room room,
                        Ahead *ahead_I, Ahead *ahead_O) {
  const Size n_dims = tables.n_dims, n_O = n_columns(shape);
  for (Size a = 0; a < block->n_I; a++) {
    const float *row = tables.I + block->rows_I[a] * n_dims;
    memcpy(room.X + a * n_dims, row, n_dims * sizeof(float));
  }

  for (Size begin = 0; begin < n_O; begin += Y_ROWS) { /* in this order X stays in the cache */
    fetch_part(ahead_I);
    fetch_part(ahead_O);

    const Size n = smaller(begin, n_O - Y_ROWS); /* the last tile may repeat some scores */
    const float *rows[Y_ROWS], *copies[Y_ROWS];
    for (int c = 0; c < Y_ROWS; c++) {
      rows[c] = tables.O + block->rows_O[n + c] * n_dims;
      copies[c] = room.Y + (n + c) * n_dims;
    }

    Size begin_a = 0, end_a = block->n_I;
    if (n + Y_ROWS <= shape.n_centres) { /* all of them are centres */
      const Size centre = t - block->first + n;
      begin_a = larger(0, (centre - shape.window) / X_ROWS * X_ROWS);
      end_a = smaller(end_a, centre + Y_ROWS + shape.window);
    }
    for (Size a = begin_a; a < end_a; a += X_ROWS) {
      const float *X = room.X + a * n_dims;
      float *S = room.S + a * n_O + n;
      if (a == begin_a)
        score_tile(X, rows, room.Y + n * n_dims, S, n_dims, n_O);
      else
        score_tile(X, copies, NULL, S, n_dims, n_O);
    }
  }
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* 1 / (1 + exp(-x)) to float32 precision, as 1/2 + tanh(x/2)/2 with a rational tanh. */
INLINE float sigmoid(float x) {
  float h = 0.5f * x;
  h = h < -7.9f ? -7.9f : h;
  h = h > 7.9f ? 7.9f : h;
  const float q = h * h;

  float p = -2.76076847742355e-16f;
  p = p * q + 2.00018790482477e-13f;
  p = p * q + -8.60467152213735e-11f;
  p = p * q + 5.12229709037114e-08f;
  p = p * q + 1.48572235717979e-05f;
  p = p * q + 6.37261928875436e-04f;
  p = p * q + 4.89352455891786e-03f;

  float d = 1.19825839466702e-06f;
  d = d * q + 1.18534705686654e-04f;
  d = d * q + 2.26843463243900e-03f;
  d = d * q + 4.89352518554385e-03f;
  return 0.5f + 0.5f * h * p / d;
}

/* -log(1 - m) for m in [0, 1/2], to float32 precision. */
INLINE float minus_log_1_minus(float m) {
  float p = 1.44252288f;
  p = p * m + -1.69866581f;
  p = p * m + 1.26001044f;
  p = p * m + -0.204539745f;
  p = p * m + 0.269850133f;
  p = p * m + 0.242774453f;
  p = p * m + 0.333702559f;
  p = p * m + 0.499992805f;
  p = p * m + 1.0f;
  return p * m;
}

/* S = rate * weights * sigmoid(z), in place, for z = -S where the weight is positive (a pair that
 * was seen) and S where it is negative (a sample); returns sum(|weights| * softplus(z)). */
static double gradients(float *restrict S, const float *restrict weights, Size n, float rate) {
  enum { TERMS = 1024 }; /* summed in single precision, before they are added in double */
  double loss = 0.0;
  for (Size begin = 0; begin < n; begin += TERMS) {
    const Size end = smaller(begin + TERMS, n);
    float part = 0.0f;
    SUM_IN_ANY_ORDER(part)
    for (Size j = begin; j < end; j++) {
      const float weight = weights[j];
      const float z = weight > 0.0f ? -S[j] : S[j];
      const float y = sigmoid(z);
      S[j] = rate * weight * y;

      /* softplus(z) = max(z, 0) - log sigmoid(|z|), which neither overflows nor cancels */
      const float rest = 1.0f - y;
      const float log_part = minus_log_1_minus(y < rest ? y : rest);
      part += fabsf(weight) * ((z > 0.0f ? z : 0.0f) + log_part);
    }
    loss += (double)part;
  }
  return loss;
}

/* ---- Sums of rows ---------------------------------------------------------------------------- */

/* table[rows[r]] += sum over k < n of G[k, r] X[k], r < n_rows, in n_vectors vectors from column
 * `begin` on; G has n_G columns. The two counts are constants where this is called. */
INLINE void add_vectors(float *table, const int32_t *rows, const float *G, Size n_G, const float *X,
                        Size n_dims, Size n, Size begin, const int n_rows, const int n_vectors) {
  Vector sums[MOST_SUMS], x[MOST_VECTORS];
  UNROLL for (int i = 0; i < n_rows * n_vectors; i++) sums[i] = (Vector){0};

  for (Size k = 0; k < n; k++) {
    const float *X_k = X + k * n_dims + begin;
    UNROLL for (int v = 0; v < n_vectors; v++) x[v] = load(X_k + v * WIDTH);
    UNROLL for (int r = 0; r < n_rows; r++) {
      const float factor = G[k * n_G + r];
      UNROLL for (int v = 0; v < n_vectors; v++) sums[r * n_vectors + v] += factor * x[v];
    }
  }

  UNROLL for (int r = 0; r < n_rows; r++) { /* one after the other: two may be the same */
    float *row = table + rows[r] * n_dims + begin;
    UNROLL for (int v = 0; v < n_vectors; v++) {
      float *place = row + v * WIDTH;
      store(place, load(place) + sums[r * n_vectors + v]);
    }
  }
}

/* The same from column `begin` to `end`, most of them in n_vectors vectors at once. */
INLINE void add_rows(float *table, const int32_t *rows, const float *G, Size n_G, const float *X,
                     Size n_dims, Size n, Size begin, Size end, const int n_rows,
                     const int n_vectors) {
  for (; begin + n_vectors * WIDTH <= end; begin += n_vectors * WIDTH)
    add_vectors(table, rows, G, n_G, X, n_dims, n, begin, n_rows, n_vectors);

  const Size n_left = (end - begin) / WIDTH;
  if (n_left == 1) add_vectors(table, rows, G, n_G, X, n_dims, n, begin, n_rows, 1);
  if (n_left == 2) add_vectors(table, rows, G, n_G, X, n_dims, n, begin, n_rows, 2);
  if (n_left == 3) add_vectors(table, rows, G, n_G, X, n_dims, n, begin, n_rows, 3);
}

/* The same for all rows, n_rows being a multiple of four, in COLUMNS columns from `begin` on:
 * np.add.at(table[:, begin:end], rows, G.T @ X[:, begin:end]). */
static void add_columns(float *table, const int32_t *rows, Size n_rows, const float *G,
                        const float *X, Size n_dims, Size n, Size begin) {
  const Size end = smaller(begin + COLUMNS, n_dims);
  Size a = 0;
  while (a < n_rows) {
    const Size n_left = n_rows - a;
    if (n_left >= MANY && n_left % MANY % FOUR == 0) {
      add_rows(table, rows + a, G + a, n_rows, X, n_dims, n, begin, end, MANY, VECTORS_OF_MANY);
      a += MANY;
    } else {
      add_rows(table, rows + a, G + a, n_rows, X, n_dims, n, begin, end, FOUR, VECTORS_OF_FOUR);
      a += FOUR;
    }
  }
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Rows of I that have a pair, or come before one that has: the others add nothing. */
static Size count_used_rows(const Block *block, Size n_O) {
  for (Size n_used = block->n_I; n_used > 0; n_used--)
    for (Size n = 0; n < n_O; n++)
      if (block->weights[(n_used - 1) * n_O + n] != 0.0f) return n_used;
  return 0;
}

/* One step of gradient descent on a block, in place; its loss before the step. All scores come
 * from the tables as they were before it. Rows of `next` are fetched meanwhile. */
static double train_block(Tables tables, const Block *block, Size t, Shape shape, float rate,
                          Room room, const Block *next) {
  const Size n_dims = tables.n_dims, n_I = block->n_I, n_O = n_columns(shape);
  const Size n_tiles = divided_up(n_O, Y_ROWS), n_parts = divided_up(n_dims, COLUMNS);
  const Size n_O_next = next->n_I > 0 ? n_O : 0;
  Ahead ahead_I = rows_ahead(tables.I, n_dims, next->rows_I, next->n_I, n_tiles);
  Ahead ahead_O = rows_ahead(tables.O, n_dims, next->rows_O, n_O_next, n_tiles + 2 * n_parts);

  score_block(tables, block, t, shape, room, &ahead_I, &ahead_O);

  float *S = room.S, *transposed = room.transposed;
  const Size n_used = count_used_rows(block, n_O);
  const double loss = gradients(S, block->weights, n_used * n_O, rate);
  memset(S + n_used * n_O, 0, (n_I - n_used) * n_O * sizeof(float));
  for (Size a = 0; a < n_I; a++)
    for (Size n = 0; n < n_O; n++) transposed[n * n_I + a] = S[a * n_O + n];

  for (Size begin = 0; begin < n_dims; begin += COLUMNS) {
    fetch_part(&ahead_O);
    add_columns(tables.O, block->rows_O, n_O, S, room.X, n_dims, n_used, begin);
  }
  for (Size begin = 0; begin < n_dims; begin += COLUMNS) {
    fetch_part(&ahead_O);
    add_columns(tables.I, block->rows_I, n_I, transposed, room.Y, n_dims, n_O, begin);
  }
  return loss;
}

/* The next n numbers of the room. */
INLINE float *take_floats(float **room, Size n) {
  float *taken = *room;
  *room += n;
  return taken;
}
INLINE int32_t *take_integers(int32_t **room, Size n) {
  int32_t *taken = *room;
  *room += n;
  return taken;
}

/* skipgram.train_blocks; the sum of losses. The room is for blocks of at most n_I rows of I. */
double KERNEL(train_blocks)(float *I, float *O, Size n_dims, const int32_t *tokens,
                            const int64_t *documents, Size n_tokens, Size start, Size stop,
                            double rate_start, double rate_stop, Size window, Size n_negatives,
                            Size n_centres, Size n_samples, const uint64_t *thresholds,
                            const int32_t *aliases, Size n_words, uint64_t state, Size n_I,
                            float *floats, int32_t *integers, int64_t *n_pairs) {
  const Tables tables = {I, O, n_dims};
  const Text text = {tokens, documents, n_tokens};
  const Shape shape = {window, n_negatives, n_centres, n_samples};
  const Noise noise = {thresholds, aliases, n_words};

  const Size n_O = n_columns(shape);
  Room room;
  room.X = take_floats(&floats, n_I * n_dims);
  room.Y = take_floats(&floats, n_O * n_dims);
  room.S = take_floats(&floats, n_I * n_O);
  room.transposed = take_floats(&floats, n_I * n_O);
  memset(room.Y, 0, n_O * n_dims * sizeof(float));
  memset(room.S, 0, n_I * n_O * sizeof(float));

  Block blocks[2]; /* one is trained while the rows of the other are fetched */
  int32_t *n_pairs_of = take_integers(&integers, n_I);
  for (int b = 0; b < 2; b++) {
    blocks[b].rows_I = take_integers(&integers, n_I);
    blocks[b].rows_O = take_integers(&integers, n_O);
    blocks[b].weights = take_floats(&floats, n_I * n_O);
    blocks[b].n_pairs_of = n_pairs_of;
  }

  double loss = 0.0;
  int now = 0;
  draw_block(text, start, stop, shape, noise, &state, &blocks[now]);
  for (Size t = start; t < stop; t += n_centres) {
    const Block *block = &blocks[now], *next = &blocks[!now];
    draw_block(text, t + n_centres, stop, shape, noise, &state, &blocks[!now]);
    if (block->n_pairs > 0) {
      const double done = (double)(t - start) / (double)(stop - start);
      const float rate = (float)(rate_start + (rate_stop - rate_start) * done);
      loss += train_block(tables, block, t, shape, rate, room, next);
      *n_pairs += block->n_pairs;
    }
    now = !now;
  }
  return loss;
}
