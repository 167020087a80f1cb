/* w-PB-neg by stochastic gradients. `word_posteriors.py` says what is computed, and has it in NumPy.
 *
 * The sentences of a block read their words, draw negatives in common, and then move their words:
 * their gradients are three small matrix products. Rows of the matrices in `Room` are `stride`
 * floats long, a multiple of 16 that ends with zeros: no loop over vectors has a remainder.
 * Threads may move the same words at the same time (lock-free, "Hogwild"). */
#include "random.h"
#include "rows.h"

/* word_posteriors.EpochSentences */
typedef struct {
  const int64_t *starts;
  const int32_t *words;
  const double *fractions;
  const int64_t *n_tokens;
  const double *weights, *stiffness;
  const int64_t *order;
  const float *m;
  Size n_sentences;
} Sentences;

/* word_posteriors.WORD_STATE: side by side, where one read from memory finds it. */
typedef struct {
  double z, clock, rate, var_P;
} WordState;

/* word_posteriors.LazyPosteriors */
typedef struct {
  float *D;
  WordState *states;
  double c;
  Size n_words, n_dims;
} Words;

/* word_posteriors.NoiseTable, and the words' vectors A; rows of `moment` are `stride` long */
typedef struct {
  const float *A;
  const double *keep;
  const int32_t *other;
  const float *mean, *moment, *lengths;
  Size n_negatives;
} Noise;

/* word_posteriors.EpochSchedule */
typedef struct {
  double start, eta, budget;
  Size block;
} Schedule;

/* word_posteriors.Memory, and room: rows of `block` sentences, of as many negatives as are drawn. */
typedef struct {
  uint64_t *state;
  double *line;
  float *H, *G;                 /* (block, stride) */
  float *X, *lengths, *scores;  /* (max_draws, stride), (max_draws,), (block, max_draws) */
  float *normal;                /* (n_dims,) */
  double *trace, *total;        /* (block,), (n_words,) zeros */
  Size stride, max_draws;       /* multiples of 16 */
} Room;

/* ---- Matrix products ------------------------------------------------------------------------- */

/* How work is divided among the registers: FOUR x COLUMN_ROWS scores are computed at once; MANY
 * rows of a product, of two vectors each, or FOUR or one of them, of four vectors. */
enum { FOUR = 4 };
#if WIDTH == 16 /* 32 registers */
enum { COLUMN_ROWS = 4, MANY = 12, VECTORS_OF_MANY = 2, VECTORS_OF_FOUR = 4 };
#elif defined(__aarch64__) /* 32 registers */
enum { COLUMN_ROWS = 4, MANY = 8, VECTORS_OF_MANY = 3, VECTORS_OF_FOUR = 4 };
#else /* 16 registers */
enum { COLUMN_ROWS = 2, MANY = 6, VECTORS_OF_MANY = 2, VECTORS_OF_FOUR = 2 };
#endif
enum { MOST_SUMS = 24, MOST_VECTORS = 4 };

/* S[0:FOUR, 0:COLUMN_ROWS] = H[0:FOUR] @ X[0:COLUMN_ROWS].T */
INLINE void score_tile(const float *H, const float *X, Size stride, float *S, Size width) {
  enum { N_SUMS = FOUR * COLUMN_ROWS };
  Vector sums[N_SUMS] = {0};
  for (Size d = 0; d < stride; d += WIDTH) {
    Vector x[COLUMN_ROWS];
    UNROLL for (int c = 0; c < COLUMN_ROWS; c++) x[c] = load(X + c * stride + d);
    UNROLL for (int r = 0; r < FOUR; r++) {
      const Vector h = load(H + r * stride + d);
      UNROLL for (int c = 0; c < COLUMN_ROWS; c++) sums[r * COLUMN_ROWS + c] += h * x[c];
    }
  }

  float scores[N_SUMS];
  UNROLL for (int i = 0; i < N_SUMS; i += WIDTH) store(scores + i, lane_sums(sums + i));
  UNROLL for (int r = 0; r < FOUR; r++)
    memcpy(S + r * width, scores + r * COLUMN_ROWS, COLUMN_ROWS * sizeof *S);
}

/* S = H @ X.T for rows that are multiples of four. */
static void multiply_transposed(const float *H, Size n_H, const float *X, Size n_X, Size stride,
                                float *S, Size width) {
  for (Size t = 0; t < n_X; t += COLUMN_ROWS)
    for (Size i = 0; i < n_H; i += FOUR)
      score_tile(H + i * stride, X + t * stride, stride, S + i * width + t, width);
}

/* G[0:n_rows, columns] += P[0:n_rows, 0:n] @ X[0:n, columns], for the columns of some vectors. */
INLINE void add_product_tile(const float *P, Size width, const float *X, Size n, Size stride,
                             float *G, const int n_rows, const int n_vectors) {
  Vector sums[MOST_SUMS];
  UNROLL for (int r = 0; r < n_rows; r++)
    UNROLL for (int v = 0; v < n_vectors; v++)
      sums[r * n_vectors + v] = load(G + r * stride + v * WIDTH);

  for (Size k = 0; k < n; k++) {
    Vector x[MOST_VECTORS];
    UNROLL for (int v = 0; v < n_vectors; v++) x[v] = load(X + k * stride + v * WIDTH);
    UNROLL for (int r = 0; r < n_rows; r++) {
      const float p = P[r * width + k];
      UNROLL for (int v = 0; v < n_vectors; v++) sums[r * n_vectors + v] += p * x[v];
    }
  }

  UNROLL for (int r = 0; r < n_rows; r++)
    UNROLL for (int v = 0; v < n_vectors; v++)
      store(G + r * stride + v * WIDTH, sums[r * n_vectors + v]);
}

/* The same for all columns. */
INLINE void add_product_rows(const float *P, Size width, const float *X, Size n, Size stride,
                             float *G, const int n_rows, const int n_vectors) {
  Size d = 0;
  for (; d + n_vectors * WIDTH <= stride; d += n_vectors * WIDTH)
    add_product_tile(P, width, X + d, n, stride, G + d, n_rows, n_vectors);
  for (; d < stride; d += WIDTH) add_product_tile(P, width, X + d, n, stride, G + d, n_rows, 1);
}

/* G += P @ X; rows of P are `width` long, of which n count. */
static void add_product(const float *P, Size n_rows, Size width, const float *X, Size n,
                        Size stride, float *G) {
  Size i = 0;
  for (; i + MANY <= n_rows; i += MANY)
    add_product_rows(P + i * width, width, X, n, stride, G + i * stride, MANY, VECTORS_OF_MANY);
  for (; i + FOUR <= n_rows; i += FOUR)
    add_product_rows(P + i * width, width, X, n, stride, G + i * stride, FOUR, VECTORS_OF_FOUR);
  for (; i < n_rows; i++)
    add_product_rows(P + i * width, width, X, n, stride, G + i * stride, 1, MOST_VECTORS);
}

/* ---- The penalty over time ------------------------------------------------------------------- */

/* exp(-x) for x >= 0, which is mostly small here. */
INLINE double exp_of_minus(double x) {
  if (x < 0.01) return 1.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0))));
  return exp(-x);
}

/* Integral of exp(-rate t) over [0, eta]. */
INLINE double decay_integral(double rate, double eta) {
  const double x = rate * eta;
  if (x < 0.01)
    return eta * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0 - x * (1.0 / 120.0)))));
  return -expm1(-x) / rate;
}

/* word_posteriors.apply_lazy_decay */
void KERNEL(apply_lazy_decay)(const Words *words, double now) {
  for (Size v = 0; v < words->n_words; v++) {
    WordState *word = words->states + v;
    const double gap = now - word->clock;
    if (!(gap > 0.0)) continue;

    const float fade = (float)exp(-word->rate * gap);
    float *row = words->D + v * words->n_dims;
    for (Size d = 0; d < words->n_dims; d++) row[d] *= fade;
    word->z = 1.0 + (word->z - 1.0) * exp(-words->c * gap);
    word->clock = now;
  }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* word_posteriors.stable_block_size_plainly: `total` is one 0 for each word, and that again
 * afterwards. */
static Size stable_block_size(Size begin, Size size, const Sentences *sentences, double eta,
                              double budget, double *total, double *factor) {
  const int64_t *starts = sentences->starts;
  const int32_t *words = sentences->words;
  const double *fractions = sentences->fractions;
  for (;;) {
    const Size end = begin + size;
    for (Size s = begin; s < end; s++)
      for (Size j = starts[s]; j < starts[s + 1]; j++)
        total[words[j]] += sentences->weights[s] * fractions[j];

    double worst = 0.0;
    for (Size s = begin; s < end; s++) {
      double overlap = 0.0;
      for (Size j = starts[s]; j < starts[s + 1]; j++) overlap += fractions[j] * total[words[j]];
      const double bound = eta * sentences->stiffness[s] * overlap;
      worst = bound > worst ? bound : worst;
    }

    for (Size j = starts[begin]; j < starts[end]; j++) total[words[j]] = 0.0;

    *factor = worst <= budget ? 1.0 : budget / worst;
    if (worst <= budget || size == 1) return size;
    size = (size + 1) / 2;
  }
}

/* Write h = m + sum fraction_v D_v + deviation * normal, words as of `now`. */
static void read_sentence(Size s, double now, const Sentences *sentences, const Words *words,
                          const float *normal, float *h) {
  const Size n_dims = words->n_dims;
  if (s + 1 < sentences->n_sentences)
    fetch_row(sentences->m + sentences->order[s + 1] * n_dims, n_dims);
  memcpy(h, sentences->m + sentences->order[s] * n_dims, n_dims * sizeof *h);

  const Size end = sentences->starts[s + 1];
  double spread = 0.0;
  for (Size j = sentences->starts[s]; j < end; j++) {
    if (j + 4 < end) fetch_row(words->D + sentences->words[j + 4] * n_dims, n_dims);

    const Size v = sentences->words[j];
    const double fraction = sentences->fractions[j];
    const WordState word = words->states[v];
    const double gap = now > word.clock ? now - word.clock : 0.0;
    const double precision = 1.0 + (word.z - 1.0) * exp_of_minus(words->c * gap);
    spread += fraction * fraction * word.var_P / precision;
    const float amount = (float)(fraction * exp_of_minus(word.rate * gap));
    add_row(amount, words->D + v * n_dims, h, n_dims);
  }
  add_row((float)sqrt(spread), normal, h, n_dims);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Draw a negative for each of the first n rows of X, and copy its vector and its length. */
static void gather_noise(const Noise *noise, const Words *words, Size n, Room *room) {
  enum { N_AHEAD = 16 };
  const Size n_dims = words->n_dims;
  Size drawn[N_AHEAD];
  for (Size t = 0; t < n + N_AHEAD; t++) {
    if (t >= N_AHEAD) {
      const Size word = drawn[t % N_AHEAD];
      const Size to = t - N_AHEAD;
      memcpy(room->X + to * room->stride, noise->A + word * n_dims, n_dims * sizeof *room->X);
      room->lengths[to] = noise->lengths[word];
    }
    if (t < n) {
      drawn[t % N_AHEAD] = draw_index(room->state, noise->keep, noise->other, words->n_words);
      fetch_row(noise->A + drawn[t % N_AHEAD] * n_dims, n_dims);
    }
  }
}

/* Sums for the regression of sigmoids x on scores a. */
typedef struct {
  double x, a, aa, xa;
} Moments;

/* Overwrite the scores a of one sentence with weight * (sigmoid(a) - level - slope * a); the trace
 * of the Hessian. */
static double subtract_line(float *restrict scores, const float *restrict lengths, Size n,
                            float weight, float level, float slope, Moments *sums) {
  float x_sum = 0.0f, a_sum = 0.0f, aa_sum = 0.0f, xa_sum = 0.0f, spread = 0.0f;
#pragma omp simd reduction(+ : x_sum, a_sum, aa_sum, xa_sum, spread)
  for (Size j = 0; j < n; j++) {
    const float a = scores[j];
    const float x = sigmoid(a);
    x_sum += x;
    a_sum += a;
    aa_sum += a * a;
    xa_sum += x * a;
    spread += x * (1.0f - x) * lengths[j];
    scores[j] = weight * (x - level - slope * a);
  }
  sums->x += x_sum;
  sums->a += a_sum;
  sums->aa += aa_sum;
  sums->xa += xa_sum;
  return weight * spread;
}

/* The straight line through n sigmoids, for the next call; no sigmoid is steeper than 1/4. */
static void fit_line(Moments sums, double n, double *line) {
  const double x = sums.x / n;
  const double a = sums.a / n;
  const double spread = sums.aa / n - a * a;
  double slope = 0.0;
  if (spread > 1e-6 * (1.0 + a * a)) slope = (sums.xa / n - x * a) / spread;
  slope = slope < 0.0 ? 0.0 : slope > 0.25 ? 0.25 : slope;
  line[0] = x - slope * a;
  line[1] = slope;
}

/* Write into G the sampled gradients of the negatives' loss in the rows of H, and into `trace` the
 * traces of its Hessians.
 *
 * The same n_draws words for all rows, weighted to stand for n_negatives each. What a straight line
 * knows of their sigmoids is not left to chance: (level + slope * h.A_j) A_j is subtracted, and its
 * expectation level * E A_j + slope * E[A_j A_j'] h added; the line is the one that fitted the words
 * of the call before, so that the gradient is unbiased. */
static void noise_gradients(Size size, Size n_draws, const Noise *noise, const Words *words,
                            Room *room) {
  const Size n_dims = words->n_dims, stride = room->stride, width = room->max_draws;
  const float weight = (float)((double)noise->n_negatives / (double)n_draws);
  const float level = (float)(noise->n_negatives * room->line[0]);
  const float slope = (float)(noise->n_negatives * room->line[1]);

  /* the expectation */
  memset(room->G, 0, size * stride * sizeof *room->G);
  add_product(room->H, size, stride, noise->moment, n_dims, stride, room->G);
  for (Size i = 0; i < size; i++) {
    float *g = room->G + i * stride;
    for (Size d = 0; d < n_dims; d++) g[d] = level * noise->mean[d] + slope * g[d];
  }

  /* the rest; rows that make multiples of four have scores that nothing reads */
  gather_noise(noise, words, n_draws, room);
  multiply_transposed(room->H, (size + 3) / 4 * 4, room->X, (n_draws + 3) / 4 * 4, stride,
                      room->scores, width);
  Moments sums = {0};
  for (Size i = 0; i < size; i++)
    room->trace[i] = subtract_line(room->scores + i * width, room->lengths, n_draws, weight,
                                   (float)room->line[0], (float)room->line[1], &sums);
  add_product(room->scores, size, width, room->X, n_draws, stride, room->G);
  fit_line(sums, (double)size * (double)n_draws, room->line);
}

/* Add the gradient of the loss of the sentence's own words to g; the trace of its Hessian. */
static double add_own_gradient(Size s, const Sentences *sentences, const Noise *noise, Size n_dims,
                               const float *h, float *g) {
  const Size end = sentences->starts[s + 1];
  double trace = 0.0;
  for (Size j = sentences->starts[s]; j < end; j++) {
    if (j + 4 < end) fetch_row(noise->A + sentences->words[j + 4] * n_dims, n_dims);

    const Size v = sentences->words[j];
    const float *row = noise->A + v * n_dims;
    const double p = 1.0 / (1.0 + expf(-dot(h, row, n_dims)));
    const double fraction = sentences->fractions[j];
    trace += fraction * p * (1.0 - p) * noise->lengths[v];
    add_row((float)(fraction * (p - 1.0)), row, g, n_dims);
  }
  return trace;
}

/* One step of the words of sentence s: g is the gradient in h, trace/2 that in its variance.
 *
 * The mean follows D' = -rate D - gradient; z = var_P/var, the precision relative to the prior's,
 * follows z' = c (1 - z) + trace/2 * fraction^2 var_P, which is linear, so no step can overshoot. */
static void move_words(Size s, double now, double eta, double weight, const Sentences *sentences,
                       const Words *words, const float *restrict g, double trace) {
  const Size n_dims = words->n_dims;
  const Size end = sentences->starts[s + 1];
  const double last = decay_integral(words->c, eta);
  for (Size j = sentences->starts[s]; j < end; j++) {
    if (j + 4 < end) fetch_row(words->D + sentences->words[j + 4] * n_dims, n_dims);

    const Size v = sentences->words[j];
    const double fraction = sentences->fractions[j];
    WordState *word = words->states + v;

    /* another thread may be ahead: the clock of a word never runs backwards */
    const double clock = word->clock;
    const double until = clock > now + eta ? clock : now + eta;
    const double elapsed = until - clock;

    const float fade = (float)exp_of_minus(word->rate * elapsed);
    const float amount = (float)(weight * fraction * decay_integral(word->rate, eta));
    float *restrict row = words->D + v * n_dims;
    for (Size d = 0; d < n_dims; d++) row[d] = fade * row[d] - amount * g[d];

    const double push = 0.5 * weight * trace * fraction * fraction * word->var_P;
    word->z = 1.0 + (word->z - 1.0) * exp_of_minus(words->c * elapsed) + push * last;
    word->clock = until;
  }
}

/* word_posteriors.word_sgd, for blocks from `begins` */
void KERNEL(word_sgd)(const int64_t *begins, Size n_blocks, const Sentences *sentences,
                      const Words *words, const Noise *noise, const Schedule *schedule,
                      Room *room) {
  const Size n_dims = words->n_dims, stride = room->stride;
  const double start = schedule->start, eta = schedule->eta;
  for (Size b = 0; b < n_blocks; b++) {
    Size begin = begins[b];
    const Size end = smaller(begin + schedule->block, sentences->n_sentences);
    while (begin < end) {
      double factor;
      const Size size = stable_block_size(begin, end - begin, sentences, eta, schedule->budget,
                                          room->total, &factor);

      Size n_draws = 0;
      for (Size i = 0; i < size; i++) {
        n_draws = larger(n_draws, noise->n_negatives * sentences->n_tokens[begin + i]);
        fill_normal(room->state, room->normal, n_dims);
        read_sentence(begin + i, start + eta * (double)begin, sentences, words, room->normal,
                      room->H + i * stride);
      }
      n_draws = smaller(n_draws, room->max_draws);

      noise_gradients(size, n_draws, noise, words, room);
      for (Size i = 0; i < size; i++)
        room->trace[i] += add_own_gradient(begin + i, sentences, noise, n_dims,
                                           room->H + i * stride, room->G + i * stride);
      for (Size i = 0; i < size; i++) {
        const Size s = begin + i;
        move_words(s, start + eta * (double)s, eta, factor * sentences->weights[s], sentences,
                   words, room->G + i * stride, room->trace[i]);
      }
      begin += size;
    }
  }
}
