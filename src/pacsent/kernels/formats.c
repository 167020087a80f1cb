/* Numbers out of text: the hot loop of reading word2vec and GloVe files.
 * `formats.py` has the same in Python. */
#include "common.h"

enum {
  MAX_DIGITS = 18, /* what int64 holds for certain */
  MAX_POWER = 22,  /* the largest power of ten that float64 holds exactly */
  MAX_EXPONENT_DIGITS = 3,
};

static const double POWERS[MAX_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const double SMALLEST = 1.2e-38; /* below it float32 has fewer digits */

INLINE int is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

/* Whether rounding to float32 could go the other way for a number two places next to this one:
 * float64 has 29 binary digits more, and in the middle between two numbers these are 100...0. */
INLINE int is_near_middle(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const int64_t middle = (int64_t)1 << 28;
  const int64_t distance = (bits & (2 * middle - 1)) - middle;
  return -2 <= distance && distance <= 2;
}

/* mantissa * 10**power as float32 in *number; whether it is right for certain. */
INLINE int scale(int64_t mantissa, Size power, float *number) {
  if (mantissa == 0) {
    *number = 0;
    return 1;
  }
  if (power < -MAX_POWER || power > MAX_POWER) return 0;

  /* up to 2**53 the mantissa is exact and the value rounded once, as Python does; from there on it
   * is rounded twice, which is off by two in the last place of float64 at most */
  const double value = power < 0 ? mantissa / POWERS[-power] : mantissa * POWERS[power];
  if (mantissa >= (int64_t)1 << 53 && is_near_middle(value)) return 0;
  *number = (float)value;
  return value >= SMALLEST && isfinite(*number);
}

/* The number that begins at `at`, up to a byte that cannot continue it: where it ends, or NULL
 * where it is no number or float32 could differ from the right one. A line break ends any. */
INLINE const uint8_t *parse_number(const uint8_t *at, float *number) {
  const int is_negative = *at == '-';
  if (is_negative || *at == '+') at++;

  int64_t mantissa = 0;
  Size power = 0, n_digits = 0, n_seen = 0; /* n_digits: without leading zeros */
  int after_dot = 0;
  for (; is_digit(*at) || (*at == '.' && !after_dot); at++) {
    if (*at == '.') {
      after_dot = 1;
      continue;
    }
    mantissa = n_digits < MAX_DIGITS ? mantissa * 10 + (*at - '0') : 0;
    n_digits += mantissa > 0 || n_digits > 0;
    n_seen++;
    power -= after_dot;
  }
  if (n_seen == 0 || n_digits > MAX_DIGITS) return NULL;

  if (*at == 'e' || *at == 'E') {
    at++;
    const int is_down = *at == '-';
    if (is_down || *at == '+') at++;

    Size exponent = 0, n_exponent = 0;
    for (; is_digit(*at) && n_exponent <= MAX_EXPONENT_DIGITS; at++) {
      exponent = exponent * 10 + (*at - '0');
      n_exponent++;
    }
    if (n_exponent == 0 || n_exponent > MAX_EXPONENT_DIGITS) return NULL;
    power += is_down ? -exponent : exponent;
  }

  if (!scale(mantissa, power, number)) return NULL;
  if (is_negative) *number = -*number;
  return at;
}

/* A word and n_dims numbers with one space between: the end of the word, or NULL for another line.
 * The line ends with a line break. */
INLINE const uint8_t *parse_line(const uint8_t *line, float *row, Size n_dims) {
  const uint8_t *at = line;
  int has_tab = 0;
  for (; *at != ' ' && *at != '\n'; at++) has_tab |= *at == '\t';
  const uint8_t *word_end = at;
  if (word_end == line || has_tab) return NULL;

  for (Size d = 0; d < n_dims; d++) {
    if (*at != ' ') return NULL;
    at = parse_number(at + 1, &row[d]);
    if (at == NULL) return NULL;
  }

  if (*at == ' ') at++; /* fastText ends its lines with a space */
  return *at == '\n' ? word_end : NULL;
}

/* formats.parse_lines */
void KERNEL(parse_lines)(const uint8_t *text, const int64_t *line_ends, Size n_lines, Size n_dims,
                         float *rows, int64_t *word_ends) {
  Size start = 0;
  for (Size i = 0; i < n_lines; i++) {
    const uint8_t *word_end = parse_line(text + start, rows + i * n_dims, n_dims);
    word_ends[i] = word_end ? word_end - text : -1;
    start = line_ends[i] + 1;
  }
}
