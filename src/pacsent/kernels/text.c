/* Bytes to words, and words to ids through a hash table.
 * `text.py` describes the table and has the same functions in Python. */
#include "common.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
  PACKED = 12,               /* letters of five bits that fit below the highest bit of a key */
  PIECE = 2048,              /* bytes split into words at a time: what is known stays in the cache */
  NEW_WORDS = PIECE / 2 + 1, /* that a piece can have, NEW_WORDS of text.py; digits are not new */
  MAX_SPLIT = 64,            /* bytes of a word that has subwords, MAX_SPLIT_BYTES of text.py */
};

/* ---- The hash table ------------------------------------------------------------------------- */

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15;
static const uint64_t FNV_START = 0xCBF29CE484222325;
static const uint64_t FNV_PRIME = 0x100000001B3;
static const uint64_t HASHED = (uint64_t)1 << 63; /* set in the key of a word that is not packed */

/* text.Words: word i is bytes[offsets[i] : offsets[i + 1]]. */
typedef struct {
  const uint64_t *table; /* two numbers for each slot: key, id + 1 */
  Size n_slots;          /* a power of two, at least 2; at least one slot is free */
  int shift;             /* of a product, so that its highest bits are a slot */
  const uint8_t *bytes;
  const int64_t *offsets;
} Words;

/* Part of data, perhaps of either case: `lower` is or-ed to each byte. */
typedef struct {
  const uint8_t *at;
  Size size;
  uint8_t lower;
} Word;

static Words words_of(const uint64_t *table, Size n_slots, const uint8_t *bytes,
                      const int64_t *offsets) {
  const int shift = __builtin_clzll((uint64_t)n_slots) + 1; /* 64 - log2(n_slots) */
  return (Words){table, n_slots, shift, bytes, offsets};
}

INLINE int is_letter(uint8_t byte) { return (uint8_t)((byte | 32) - 'a') < 26; }
INLINE int is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

/* FNV-1a with the highest bit set. */
static uint64_t hash_of(Word word) {
  uint64_t h = FNV_START;
  for (Size i = 0; i < word.size; i++) h = (h ^ (uint8_t)(word.at[i] | word.lower)) * FNV_PRIME;
  return h | HASHED;
}

/* sum((at[i] & 31) << 5 * i for i in range(8)) */
INLINE uint64_t eight_letters(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, 8);

  /* pairs, fours, eight: 5 bits in 8, 10 in 16, 20 in 32, 40 in 64 */
  word = (word & 0x001F001F001F001F) | (word >> 3 & 0x03E003E003E003E0);
  word = (word & 0x000003FF000003FF) | (word >> 6 & 0x000FFC00000FFC00);
  return (word & 0x00000000000FFFFF) | (word >> 12 & 0x000000FFFFF00000);
}

/* Key of at most twelve letters of either case: sum((at[i] & 31) << 5 * i for i in range(size)). */
INLINE uint64_t packed(const uint8_t *at, Size size, const uint8_t *end_of_data) {
  if (end_of_data - at >= 16) {
    const uint64_t mask = ((uint64_t)1 << 5 * size) - 1;
    return (eight_letters(at) | eight_letters(at + 8) << 40) & mask;
  }
  uint64_t key = 0;
  for (Size i = 0; i < size; i++) key |= (uint64_t)(at[i] & 31) << 5 * i;
  return key;
}

/* text.key_plainly: of any bytes. */
static uint64_t key_of(Word word) {
  if (word.size == 0 || word.size > PACKED) return hash_of(word);
  for (Size i = 0; i < word.size; i++)
    if (word.at[i] < 'a' || word.at[i] > 'z') return hash_of(word);
  return packed(word.at, word.size, word.at + word.size);
}

INLINE Size first_slot(uint64_t key, const Words *words) {
  return (Size)(key * GOLDEN >> words->shift);
}

INLINE Size next_slot(Size slot, const Words *words) { return (slot + 1) & (words->n_slots - 1); }

/* Slot of the word with a packed key, or the free slot where it would go. */
INLINE Size packed_slot(uint64_t key, const Words *words) {
  const uint64_t *table = words->table;
  Size slot = first_slot(key, words);
  while (table[2 * slot + 1] != 0 && table[2 * slot] != key) slot = next_slot(slot, words);
  return slot;
}

static int is_word(Size i, Word word, const Words *words) {
  const Size first = words->offsets[i];
  if (words->offsets[i + 1] - first != word.size) return 0;

  for (Size c = 0; c < word.size; c++)
    if ((word.at[c] | word.lower) != words->bytes[first + c]) return 0;
  return 1;
}

/* As packed_slot, for any key. */
static Size slot_of(uint64_t key, Word word, const Words *words) {
  if (key < HASHED) return packed_slot(key, words);

  const uint64_t *table = words->table;
  Size slot = first_slot(key, words);
  while (table[2 * slot + 1] != 0) {
    const Size i = (Size)table[2 * slot + 1] - 1;
    if (table[2 * slot] == key && is_word(i, word, words)) return slot;
    slot = next_slot(slot, words);
  }
  return slot;
}

/* -1 for a free slot. */
INLINE int32_t id_at(Size slot, const Words *words) {
  return (int32_t)words->table[2 * slot + 1] - 1;
}

static int32_t id_of(Word word, const Words *words) {
  return id_at(slot_of(key_of(word), word, words), words);
}

/* text.build_table: the first id of a repeated word, or -1 where all differ; the table is zeros. */
Size KERNEL(build_table)(uint64_t *table, Size n_slots, const uint8_t *bytes,
                         const int64_t *offsets, Size n_words) {
  const Words words = words_of(table, n_slots, bytes, offsets);
  for (Size i = 0; i < n_words; i++) {
    const Word word = {bytes + offsets[i], offsets[i + 1] - offsets[i], 0};
    const uint64_t key = key_of(word);
    const Size slot = slot_of(key, word, &words);
    if (table[2 * slot + 1] != 0) return i;

    table[2 * slot] = key;
    table[2 * slot + 1] = (uint64_t)i + 1;
  }
  return -1;
}

/* text.find_words */
void KERNEL(find_words)(const uint8_t *data, const int64_t *starts, Size n, const uint64_t *table,
                        Size n_slots, const uint8_t *bytes, const int64_t *offsets, int32_t *ids) {
  const Words words = words_of(table, n_slots, bytes, offsets);
  for (Size i = 0; i < n; i++) {
    const Word word = {data + starts[i], starts[i + 1] - starts[i], 0};
    ids[i] = id_of(word, &words);
  }
}

/* ---- Words in a piece of text ----------------------------------------------------------------- */

/* Bit i is set where byte i of 64 is of the class. */
typedef struct {
  uint64_t letters, digits;
} Classes;

#if defined(__AVX2__)
enum { LANES = 32 };
#else
enum { LANES = 16 };
#endif
typedef uint8_t Bytes __attribute__((vector_size(LANES)));

/* Bit i is set where byte i, 0 or 255, is. */
INLINE uint64_t bits_of(Bytes mask) {
#if defined(__AVX2__)
  return (uint32_t)_mm256_movemask_epi8((__m256i)mask);
#elif defined(__SSE2__)
  return (uint32_t)_mm_movemask_epi8((__m128i)mask);
#else
  uint64_t eights[LANES / 8];
  memcpy(eights, &mask, sizeof eights);
  uint64_t bits = 0;
  for (int i = 0; i < LANES / 8; i++) {
    /* the product brings the lowest bit of byte k to place 56 + k */
    const uint64_t product = (eights[i] & 0x0101010101010101) * 0x0102040810204080;
    bits |= (product >> 56) << 8 * i;
  }
  return bits;
#endif
}

/* 255 where first <= byte < first + n: as unsigned numbers, what is below `first` becomes large. */
INLINE Bytes within(Bytes bytes, uint8_t first, uint8_t n) { return (Bytes)(bytes - first < n); }

INLINE Classes classes_of(const uint8_t *at) {
  Classes classes = {0, 0};
  for (int i = 0; i < 64; i += LANES) {
    Bytes bytes;
    memcpy(&bytes, at + i, LANES);
    classes.letters |= bits_of(within(bytes | 32, 'a', 26)) << i;
    classes.digits |= bits_of(within(bytes, '0', 10)) << i;
  }
  return classes;
}

/* As classes_of, where fewer than 64 bytes are left. */
static Classes classes_of_end(const uint8_t *at, Size n) {
  uint8_t block[64] = {0};
  memcpy(block, at, (size_t)n);
  return classes_of(block);
}

/* Where bits are set, counted from `first`, into places[n:]; how many there are then.
 *
 * Eight at a time, of which the last ones may be none: a loop over the bits that are set would end
 * at a place that cannot be predicted. */
INLINE Size append_places(uint64_t bits, Size first, int32_t *places, Size n) {
  const Size end = n + __builtin_popcountll(bits);
  for (; n < end; n += 8) {
    for (int k = 0; k < 8; k++) {
      places[n + k] = (int32_t)(first + (bits ? __builtin_ctzll(bits) : 64));
      bits &= bits - 1;
    }
  }
  return end;
}

/* Words and digits of a piece: word j is at[starts[j] : ends[j]]. */
typedef struct {
  const uint8_t *at;
  Size n_words;
  int32_t starts[PIECE + 8], ends[PIECE + 8]; /* append_places writes up to eight too many */
  uint64_t keys[PIECE];
} Piece;

/* Find the words in the next piece of data[start:last], its last word whole; where it ends.
 *
 * Words begin and end where a bit of a class differs from the one before. */
INLINE Size find_piece(const uint8_t *data, Size start, Size last, const uint8_t *end_of_data,
                       Piece *piece) {
  const uint8_t *at = data + start;
  Size size = smaller(PIECE, last - start);
  Size n = 0, n_ended = 0;
  uint64_t letter_before = 0, digit_before = 0;

  for (Size i = 0; i < size; i += 64) {
    const Size n_left = end_of_data - (at + i);
    Classes is = n_left >= 64 ? classes_of(at + i) : classes_of_end(at + i, n_left);
    if (size - i < 64) {
      const uint64_t inside = ((uint64_t)1 << (size - i)) - 1;
      is.letters &= inside;
      is.digits &= inside;
    }

    const uint64_t after_letter = is.letters << 1 | letter_before;
    const uint64_t after_digit = is.digits << 1 | digit_before;
    n = append_places((is.letters & ~after_letter) | is.digits, i, piece->starts, n);
    n_ended = append_places((after_letter & ~is.letters) | after_digit, i, piece->ends, n_ended);
    letter_before = is.letters >> 63;
    digit_before = is.digits >> 63;
  }
  if (n_ended < n) piece->ends[n_ended] = (int32_t)size;

  const int is_cut = start + size < last && n > 0 && piece->ends[n - 1] == size;
  if (is_cut && is_letter(at[size - 1])) {
    if (piece->starts[n - 1] > 0) { /* leave the word to the next piece */
      n--;
      size = piece->starts[n];
    } else { /* longer than a piece */
      while (start + size < last && is_letter(at[size])) size++;
      piece->ends[n - 1] = (int32_t)size;
    }
  }

  piece->at = at;
  piece->n_words = n;
  return start + size;
}

/* Keys of the words "zero" to "nine". */
static const uint64_t DIGIT_KEYS[10] = {0x7C8BA, 0x15CF,  0x3EF4,   0x52C914,  0x955E6,
                                        0x2D926, 0x6133, 0xE2D8B3, 0x1441D25, 0x2B92E};

INLINE Word word_of(const Piece *piece, Size j) {
  return (Word){piece->at + piece->starts[j], piece->ends[j] - piece->starts[j], 32};
}

/* Keys of the words of a piece; the slots where they will be looked up are asked for. */
INLINE void find_keys(Piece *piece, const uint8_t *end_of_data, const Words *words) {
  for (Size j = 0; j < piece->n_words; j++) {
    const Word word = word_of(piece, j);
    uint64_t key;
    if (word.size > PACKED)
      key = hash_of(word);
    else if (*word.at <= '9')
      key = DIGIT_KEYS[*word.at - '0'];
    else
      key = packed(word.at, word.size, end_of_data);

    piece->keys[j] = key;
    __builtin_prefetch(words->table + 2 * first_slot(key, words), 0, 2);
  }
}

/* ---- Text to ids, by the paper's cleaning ----------------------------------------------------- */

/* text.subword_ids of marked[2 : 2 + size], into ids; their number, 0 where a part is OOV.
 *
 * The two bytes before a continuing subword, which are used up by then, become its mark "##". */
static Size split(uint8_t *marked, Size size, const Words *words, int32_t *ids) {
  Size n = 0;
  Size start = 0;
  while (start < size) {
    uint8_t *first = marked + start + 2;
    if (start > 0) {
      first -= 2;
      memset(first, '#', 2);
    }

    int32_t id = -1;
    Size end = size + 1;
    while (id < 0 && --end > start) {
      const Word part = {first, marked + 2 + end - first, 0};
      id = id_of(part, words);
    }
    if (id < 0) return 0;

    ids[n++] = id;
    start = end;
  }
  return n;
}

/* As split, for a word of either case or a digit; 0 for a word longer than MAX_SPLIT. */
static Size split_word(uint64_t key, Word word, const Words *words, int32_t *ids) {
  uint8_t marked[MAX_SPLIT + 2];
  if (word.size > MAX_SPLIT) return 0;

  if (key < HASHED) { /* letters, those of a digit's name too */
    word.size = 0;
    for (; key > 0; key >>= 5) marked[2 + word.size++] = (uint8_t)((key & 31) + 96);
  } else {
    for (Size c = 0; c < word.size; c++) marked[2 + c] = word.at[c] | word.lower;
  }
  return split(marked, word.size, words, ids);
}

/* The id of a word, or with `splits` those of its subwords, into ids; their number, 0 for OOV. */
INLINE Size put_ids(uint64_t key, Word word, const Words *words, Size splits, int32_t *ids) {
  const Size slot = key < HASHED ? packed_slot(key, words) : slot_of(key, word, words);
  const int32_t id = id_at(slot, words);
  if (id < 0) return splits ? split_word(key, word, words, ids) : 0;

  ids[0] = id;
  return 1;
}

/* text.encode_paper: the number of ids. */
Size KERNEL(encode_paper)(const uint8_t *data, const int64_t *bounds, Size n_texts,
                          const uint64_t *table, Size n_slots, const uint8_t *bytes,
                          const int64_t *word_offsets, Size splits, int32_t *ids, int64_t *offsets,
                          int64_t *n_unknown) {
  const Words words = words_of(table, n_slots, bytes, word_offsets);
  const uint8_t *end_of_data = data + bounds[n_texts];
  Piece piece;

  Size n = 0;
  offsets[0] = 0;
  for (Size s = 0; s < n_texts; s++) {
    Size start = bounds[s];
    Size unknown = 0;
    while (start < bounds[s + 1]) {
      start = find_piece(data, start, bounds[s + 1], end_of_data, &piece);
      find_keys(&piece, end_of_data, &words);
      for (Size j = 0; j < piece.n_words; j++) {
        const Size n_put = put_ids(piece.keys[j], word_of(&piece, j), &words, splits, ids + n);
        n += n_put;
        unknown += n_put == 0;
      }
    }
    offsets[s + 1] = n;
    n_unknown[s] = unknown;
  }
  return n;
}

/* ---- Growing tables ----------------------------------------------------------------------------- */

/* Words to which others are added; all arrays have room. */
typedef struct {
  uint64_t *table;
  uint8_t *bytes;
  int64_t *offsets;
  Size n_words;
} NewWords;

static void add_word(uint64_t key, Word word, Size slot, NewWords *added) {
  const Size i = added->n_words++;
  const Size first = added->offsets[i];
  for (Size c = 0; c < word.size; c++) added->bytes[first + c] = word.at[c] | word.lower;
  added->offsets[i + 1] = first + word.size;

  added->table[2 * slot] = key;
  added->table[2 * slot + 1] = (uint64_t)i + 1;
}

/* text.count_paper: whether all is counted.
 *
 * `state`, text, place in the data, number of ids and of words, says where to begin and, then,
 * where it ended: early where `counts` or the table had no room for the words of another piece. */
Size KERNEL(count_paper)(const uint8_t *data, Size n_data, const int64_t *bounds, Size n_texts,
                         uint64_t *table, Size n_slots, uint8_t *bytes, int64_t *word_offsets,
                         int64_t *counts, Size n_counts, int32_t *ids, int64_t *ends,
                         int64_t *state) {
  const Words words = words_of(table, n_slots, bytes, word_offsets);
  NewWords added = {table, bytes, word_offsets, state[3]};
  const Size max_words = smaller(n_counts, n_slots / 2) - NEW_WORDS;
  const uint8_t *end_of_data = data + n_data;
  Piece piece;

  Size start = state[1];
  Size n = state[2];
  for (Size s = state[0]; s < n_texts; s++) {
    while (start < bounds[s + 1]) {
      if (added.n_words > max_words) {
        state[0] = s;
        state[1] = start;
        state[2] = n;
        state[3] = added.n_words;
        return 0;
      }
      start = find_piece(data, start, bounds[s + 1], end_of_data, &piece);
      find_keys(&piece, end_of_data, &words);
      for (Size j = 0; j < piece.n_words; j++) {
        const uint64_t key = piece.keys[j];
        const Word word = word_of(&piece, j);
        const Size slot = key < HASHED ? packed_slot(key, &words) : slot_of(key, word, &words);
        if (table[2 * slot + 1] == 0) add_word(key, word, slot, &added);

        const int32_t id = id_at(slot, &words);
        counts[id]++;
        ids[n++] = id;
      }
    }
    ends[s] = n;
  }
  state[2] = n;
  state[3] = added.n_words;
  return 1;
}

/* text.merge_words: the number of words then. */
Size KERNEL(merge_words)(const uint8_t *data, const int64_t *starts, Size n, uint64_t *table,
                         Size n_slots, uint8_t *bytes, int64_t *offsets, Size n_words,
                         int32_t *ids) {
  const Words words = words_of(table, n_slots, bytes, offsets);
  NewWords added = {table, bytes, offsets, n_words};
  for (Size i = 0; i < n; i++) {
    const Word word = {data + starts[i], starts[i + 1] - starts[i], 0};
    const uint64_t key = key_of(word);
    const Size slot = slot_of(key, word, &words);
    if (table[2 * slot + 1] == 0) add_word(key, word, slot, &added);
    ids[i] = id_at(slot, &words);
  }
  return added.n_words;
}

/* text.renumber: the number of ids left, or -1 where one is out of range. */
Size KERNEL(renumber)(int32_t *ids, Size n_ids, int64_t *ends, Size n_ends, const int32_t *final,
                      Size n_final) {
  Size n = 0;
  Size i = 0;
  for (Size s = 0; s <= n_ends; s++) {
    const Size end = s < n_ends ? smaller(ends[s], n_ids) : n_ids;
    for (; i < end; i++) {
      if (ids[i] < 0 || ids[i] >= n_final) return -1;
      const int32_t id = final[ids[i]];
      ids[n] = id;
      n += id >= 0;
    }
    if (s < n_ends) ends[s] = n;
  }
  return n;
}

/* ---- Text in ASCII, by the unicode normalisation ------------------------------------------------ */

enum { SEPARATOR = 0, LETTER = 1, DIGIT = 2 };

INLINE int class_of(uint8_t byte) {
  return is_letter(byte) ? LETTER : is_digit(byte) ? DIGIT : SEPARATOR;
}

/* The class of bytes between which a sign stays in the token: LETTER, DIGIT, both or none. */
INLINE int joined_by(uint8_t sign) {
  if (sign == '\'' || sign == '.') return LETTER | DIGIT;
  if (sign == ':') return LETTER;
  if (sign == ',' || sign == ';') return DIGIT;
  return 0;
}

/* Where the next token of data[i:last] begins, or last. */
INLINE Size token_start(const uint8_t *data, Size i, Size last) {
  while (i < last && class_of(data[i]) == SEPARATOR && data[i] != '_') i++;
  return i;
}

/* The size of the token that begins at `start`, before `last`; its bytes, lower-cased, into out. */
INLINE Size copy_token(const uint8_t *data, Size start, Size last, uint8_t *out) {
  Size i = start;
  for (; i < last; i++) {
    const uint8_t byte = data[i];
    const int class = class_of(byte);
    if (class == SEPARATOR && byte != '_') {
      if (i + 1 == last) break;
      const int before = class_of(data[i - 1]);
      if (before != class_of(data[i + 1]) || (before & joined_by(byte)) == 0) break;
    }
    out[i - start] = class == LETTER ? byte | 32 : byte;
  }
  return i - start;
}

/* text.split_ascii: the number of tokens. */
Size KERNEL(split_ascii)(const uint8_t *data, const int64_t *bounds, Size n_texts, uint8_t *out,
                         int64_t *starts, int64_t *ends) {
  Size n = 0;
  starts[0] = 0;
  for (Size s = 0; s < n_texts; s++) {
    const Size last = bounds[s + 1];
    Size start = token_start(data, bounds[s], last);
    while (start < last) {
      const Size size = copy_token(data, start, last, out + starts[n]);
      starts[n + 1] = starts[n] + size;
      n++;
      start = token_start(data, start + size, last);
    }
    ends[s] = n;
  }
  return n;
}

/* text.encode_ascii: the number of ids; `lowered` has room for the longest text. */
Size KERNEL(encode_ascii)(const uint8_t *data, const int64_t *bounds, Size n_texts,
                          const uint64_t *table, Size n_slots, const uint8_t *bytes,
                          const int64_t *word_offsets, Size splits, int32_t *ids, int64_t *offsets,
                          int64_t *n_unknown, uint8_t *lowered) {
  const Words words = words_of(table, n_slots, bytes, word_offsets);
  Size n = 0;
  offsets[0] = 0;
  for (Size s = 0; s < n_texts; s++) {
    const Size last = bounds[s + 1];
    Size start = token_start(data, bounds[s], last);
    Size unknown = 0;
    while (start < last) {
      const Word word = {lowered, copy_token(data, start, last, lowered), 0};
      start = token_start(data, start + word.size, last);

      const Size n_put = put_ids(key_of(word), word, &words, splits, ids + n);
      n += n_put;
      unknown += n_put == 0;
    }
    offsets[s + 1] = n;
    n_unknown[s] = unknown;
  }
  return n;
}
