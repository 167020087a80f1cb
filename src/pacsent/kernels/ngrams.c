/* N-grams of words or of characters as 64-bit hashes: counted, looked up, scored.
 * `ngrams.py` says what tokens, n-grams and tables are, and has the same in Python. */
#include "common.h"

enum { SEPARATOR, WORD, MARK };

static const uint64_t FNV_START = 0xCBF29CE484222325u;
static const uint64_t FNV_PRIME = 0x100000001B3u;
static const uint64_t ORDER = 0x9E3779B97F4A7C15u;
static const uint64_t EDGE = 0xA0761D6478BD642Fu;
static const Size AHEAD = 8; /* n-grams whose slots are asked for before they are read */

/* Which n-grams: ngrams.Settings. */
typedef struct {
  const int8_t *kinds;
  Size low, high, of_characters;
} Settings;

/* Hashes and places of tokens; spans are pairs of begin and end. */
typedef struct {
  uint64_t *hashes;
  int64_t *spans;
  Size n;
} Tokens;

/* ngrams.HashTable: a slot whose key is 0 is free. */
typedef struct {
  const uint64_t *keys;
  const int32_t *columns;
  Size n_slots;
} Table;

/* Of an n-gram, in how many texts it is, and the last of them. A slot whose key is 0 is free. */
typedef struct {
  uint64_t key;
  int32_t n_texts;
  int32_t last_text;
} Counted;

/* Buffers for the tokens and n-grams of one text. */
typedef struct {
  uint64_t *hashes;   /* (n_tokens,) */
  int64_t *spans;     /* (n_tokens, 2) */
  uint64_t *grams;    /* (n_grams,) */
  int32_t *columns;   /* (n_grams,) */
  int32_t *different; /* (n_grams,) */
  int32_t *counts;    /* (n_grams,) */
  int32_t *places;    /* (4 * n_grams + 2,) */
  float *sums;        /* (n_outputs,) */
} Room;

/* The buffers in one allocation, whose size is `_room` of ngrams.py. */
static Room divide_room(uint64_t *room, Size longest, Settings settings) {
  const Size n_tokens = longest + 2;
  const Size n_grams = n_tokens * (settings.high - settings.low + 1);
  Room parts;
  parts.hashes = room;
  parts.spans = (int64_t *)(parts.hashes + n_tokens);
  parts.grams = (uint64_t *)(parts.spans + 2 * n_tokens);
  parts.columns = (int32_t *)(parts.grams + n_grams);
  parts.different = parts.columns + n_grams;
  parts.counts = parts.different + n_grams;
  parts.places = parts.counts + n_grams;
  parts.sums = (float *)(parts.places + 4 * n_grams + 2);
  return parts;
}

/* ---- Hashes ---------------------------------------------------------------------------------- */

/* ngrams.mix_bits */
INLINE uint64_t mix_bits(uint64_t h) {
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDu;
  h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53u;
  return (h ^ h >> 33) | 1;
}

/* ngrams.join_hashes */
INLINE uint64_t join_hashes(uint64_t run, uint64_t token) { return mix_bits(run * ORDER + token); }

/* The slot that a search for a hash begins at. */
INLINE Size first_slot(uint64_t h, Size n_slots) { return (Size)(h >> 1) & (n_slots - 1); }

/* Where a hash is in a table, or the free slot where it would go. */
INLINE Size find_slot(const uint64_t *keys, Size n_slots, uint64_t h) {
  Size slot = first_slot(h, n_slots);
  while (keys[slot] != 0 && keys[slot] != h) slot = (slot + 1) & (n_slots - 1);
  return slot;
}

/* The column of a hash, -1 where it is unknown. */
INLINE int32_t find_column(Table table, uint64_t h) {
  const Size slot = find_slot(table.keys, table.n_slots, h);
  return table.keys[slot] == h ? table.columns[slot] : -1;
}

/* Whether a hash is in a table. */
INLINE int holds(const uint64_t *keys, Size n_slots, uint64_t h) {
  return keys[find_slot(keys, n_slots, h)] != 0;
}

/* The columns of hashes. */
static void find_all(Table table, const uint64_t *hashes, Size n, int32_t *columns) {
  for (Size i = 0; i < n; i++) {
    if (i + AHEAD < n)
      __builtin_prefetch(table.keys + first_slot(hashes[i + AHEAD], table.n_slots));
    columns[i] = find_column(table, hashes[i]);
  }
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Bytes of the character that begins here if it is a token by itself, else 0.
 *
 * Han, kana and bopomofo (U+3005 to U+312F, U+3400 to U+9FFF), Thai and Lao, Burmese, Khmer: their
 * words are written without spaces. Signs of currencies (U+00A2 to U+00A5, U+20A0 to U+20CF),
 * symbols (U+2190 to U+2BFF) and emoji (U+1F000 to U+1FAFF), as in `SYMBOLS` of text/ngrams.py. */
static Size whole_size(const uint8_t *at, Size n_left) {
  if (n_left < 2 || at[0] < 0xC2) return 0;

  const uint8_t lead = at[0];
  const uint8_t next = at[1];
  if (lead == 0xC2) return next >= 0xA2 && next <= 0xA5 ? 2 : 0;
  if (n_left < 3 || lead < 0xE0) return 0;
  if (lead == 0xF0) return n_left >= 4 && next == 0x9F && at[2] <= 0xAB ? 4 : 0;
  if (lead > 0xE9) return 0;

  int is_whole = lead > 0xE3;
  if (lead == 0xE3) is_whole = next <= 0x84 || next >= 0x90;
  if (lead == 0xE2) {
    is_whole = next >= 0x87 && next <= 0xAF;
    is_whole |= next == 0x86 && at[2] >= 0x90;
    is_whole |= next == 0x82 && at[2] >= 0xA0;
    is_whole |= next == 0x83 && at[2] <= 0x8F;
  }
  if (lead == 0xE1) is_whole = (next >= 0x80 && next <= 0x82) || next == 0x9E || next == 0x9F;
  if (lead == 0xE0) is_whole = next >= 0xB8 && next <= 0xBB;
  return is_whole ? 3 : 0;
}

/* Whether data[span[0]:span[1]], a token but no edge, is a word: no mark and none of `SYMBOLS`. */
INLINE int is_word_token(const uint8_t *data, const int64_t *span, const int8_t *kinds) {
  const uint8_t *at = data + span[0];
  if (kinds[at[0]] != WORD) return 0;
  if (span[1] - span[0] < 2) return 1;
  if (at[0] == 0xC2) return at[1] < 0xA2 || at[1] > 0xA5;
  return at[0] != 0xE2 && (at[0] != 0xF0 || at[1] != 0x9F);
}

/* Whether a word that was begun goes on: apostrophes between two of its bytes are included. */
INLINE int goes_on(const uint8_t *data, Size i, Size stop, const int8_t *kinds) {
  if (i >= stop) return 0;
  if (kinds[data[i]] == WORD) return 1;
  return data[i] == '\'' && i + 1 < stop && kinds[data[i + 1]] == WORD;
}

/* The hash of a token and one more byte, in lower case. */
INLINE uint64_t add_byte(uint64_t h, uint8_t byte) {
  if (byte >= 'A' && byte <= 'Z') byte |= 32;
  return (h ^ byte) * FNV_PRIME;
}

INLINE void add_token(Tokens *tokens, uint64_t hash, Size begin, Size end) {
  tokens->hashes[tokens->n] = hash;
  tokens->spans[2 * tokens->n] = begin;
  tokens->spans[2 * tokens->n + 1] = end;
  tokens->n++;
}

/* Add the words, marks and symbols of data[start:stop]. */
INLINE void add_words(const uint8_t *data, Size start, Size stop, const int8_t *kinds,
                      Tokens *tokens) {
  Size i = start;
  while (i < stop) {
    const int8_t kind = kinds[data[i]];
    if (kind == SEPARATOR) {
      i++;
      continue;
    }

    const Size begin = i;
    uint64_t h = FNV_START;
    Size size = kind == MARK;
    if (data[i] >= 0x80 && kind == WORD) size = whole_size(data + i, stop - i);
    if (size > 0) {
      for (; i < begin + size; i++) h = add_byte(h, data[i]);
    } else {
      do {
        h = add_byte(h, data[i]);
        i++;
      } while (goes_on(data, i, stop, kinds) &&
               (data[i] < 0x80 || whole_size(data + i, stop - i) == 0));
    }
    add_token(tokens, mix_bits(h), begin, i);
  }
}

/* Add the characters of the words of data[start:stop], and an edge after each word. */
INLINE void add_characters(const uint8_t *data, Size start, Size stop, const int8_t *kinds,
                           Tokens *tokens) {
  Size i = start;
  while (i < stop) {
    if (kinds[data[i]] != WORD) {
      i++;
      continue;
    }

    do {
      const Size begin = i;
      uint64_t h = FNV_START;
      do {
        h = add_byte(h, data[i]);
        i++;
      } while (goes_on(data, i, stop, kinds) && (data[i] & 0xC0) == 0x80);
      add_token(tokens, mix_bits(h), begin, i);
    } while (goes_on(data, i, stop, kinds));
    add_token(tokens, EDGE, i, i);
  }
}

/* Hashes and places of the tokens of data[start:stop], an edge in front if there are any; their
 * number. There must be room for stop - start + 2. */
static Size hash_tokens(const uint8_t *data, Size start, Size stop, Settings settings,
                        uint64_t *hashes, int64_t *spans) {
  Tokens tokens = {hashes, spans, 0};
  add_token(&tokens, EDGE, start, start);
  if (settings.of_characters)
    add_characters(data, start, stop, settings.kinds, &tokens);
  else
    add_words(data, start, stop, settings.kinds, &tokens);
  return tokens.n > 1 ? tokens.n : 0;
}

/* ngrams.hash_grams; their number. There must be room for n_tokens * (high - low + 1). */
static Size hash_runs(const uint64_t *hashes, Size n_tokens, Size low, Size high,
                      uint64_t *grams) {
  Size n = 0;
  for (Size i = 0; i < n_tokens; i++) {
    const Size last_size = smaller(high, n_tokens - i);
    uint64_t run = hashes[i];
    if (low <= 1 && run != EDGE) grams[n++] = run;

    for (Size size = 2; size <= last_size; size++) {
      const uint64_t token = hashes[i + size - 1];
      run = join_hashes(run, token);
      if (size >= low && run != EDGE) grams[n++] = run;
      if (token == EDGE) break;
    }
  }
  return n;
}

/* ---- Entry points: hashes -------------------------------------------------------------------- */

/* Bytes of the longest text; -1 if bounds decrease or leave 0 to n_bytes. */
Size KERNEL(longest_text)(const int64_t *bounds, Size n_texts, Size n_bytes) {
  if (bounds[0] < 0 || bounds[n_texts] > n_bytes) return -1;

  Size longest = 0;
  for (Size s = 0; s < n_texts; s++) {
    if (bounds[s + 1] < bounds[s]) return -1;
    longest = larger(longest, bounds[s + 1] - bounds[s]);
  }
  return longest;
}

/* ngrams.hash_texts for texts s with begin <= s < end, after n tokens of those before; the number
 * of tokens with these. */
Size KERNEL(hash_texts)(const uint8_t *data, const int64_t *bounds, Size begin, Size end,
                        const int8_t *kinds, Size of_characters, Size n, uint64_t *hashes,
                        int64_t *spans, uint8_t *is_word, int64_t *begins) {
  const Settings settings = {kinds, 1, 1, of_characters};
  for (Size s = begin; s < end; s++) {
    const Size first = n;
    n += hash_tokens(data, bounds[s], bounds[s + 1], settings, hashes + n, spans + 2 * n);
    for (Size i = first; i < n; i++)
      is_word[i] = hashes[i] != EDGE && is_word_token(data, spans + 2 * i, kinds);
    begins[s + 1] = n;
  }
  return n;
}

/* ngrams.hash_grams; their number. */
Size KERNEL(hash_grams)(const uint64_t *hashes, Size n_tokens, Size low, Size high,
                        uint64_t *grams) {
  return hash_runs(hashes, n_tokens, low, high, grams);
}

/* ngrams.hash_whole_texts for texts s with begin <= s < end. */
void KERNEL(hash_whole_texts)(const uint8_t *data, const int64_t *bounds, Size begin, Size end,
                              const int8_t *kinds, Size longest, uint64_t *room,
                              uint64_t *hashes) {
  const Settings settings = {kinds, 1, 1, 0};
  const Room parts = divide_room(room, longest, settings);
  for (Size s = begin; s < end; s++) {
    const Size n_tokens =
        hash_tokens(data, bounds[s], bounds[s + 1], settings, parts.hashes, parts.spans);
    uint64_t h = 0;
    for (Size i = 0; i < n_tokens; i++) h = join_hashes(h, parts.hashes[i]);
    hashes[s] = h;
  }
}

/* ---- Entry points: tables -------------------------------------------------------------------- */

/* Put hashes into an empty table, each with its position; of equal ones the last counts. */
void KERNEL(fill_hash_table)(const uint64_t *hashes, Size n, uint64_t *keys, int32_t *columns,
                             Size n_slots) {
  for (Size i = 0; i < n; i++) {
    const Size slot = find_slot(keys, n_slots, hashes[i]);
    keys[slot] = hashes[i];
    columns[slot] = (int32_t)i;
  }
}

/* ngrams.HashTable.find */
void KERNEL(find_hashes)(const uint64_t *hashes, Size n, const uint64_t *keys,
                         const int32_t *columns, Size n_slots, int32_t *found) {
  const Table table = {keys, columns, n_slots};
  find_all(table, hashes, n, found);
}

/* Where an n-gram is in a table of counts, or the free slot where it would go. */
INLINE Counted *find_counted(Counted *table, Size n_slots, uint64_t h) {
  Size slot = first_slot(h, n_slots);
  while (table[slot].key != 0 && table[slot].key != h) slot = (slot + 1) & (n_slots - 1);
  return table + slot;
}

/* Put all that is in a table of counts into an empty larger one. */
void KERNEL(move_counts)(const Counted *table, Size n_slots, Counted *larger_table,
                         Size n_larger) {
  for (Size slot = 0; slot < n_slots; slot++)
    if (table[slot].key != 0)
      *find_counted(larger_table, n_larger, table[slot].key) = table[slot];
}

/* ngrams.count_texts for texts from state[0] on and before `end`, and for those n-grams whose hash
 * belongs to the part of n_parts. It stops before a text whose n-grams may not fit.
 *
 * state = (the text to go on with, the number of slots in use) */
void KERNEL(count_texts)(const uint8_t *data, const int64_t *bounds, Size end,
                         const int8_t *kinds, Size low, Size high, Size of_characters,
                         Size longest, Size part, Size n_parts, Counted *table, Size n_slots,
                         int64_t *state, uint64_t *room) {
  const Settings settings = {kinds, low, high, of_characters};
  const Room parts = divide_room(room, longest, settings);
  Size n_used = state[1];
  Size s = state[0];
  for (; s < end; s++) {
    const Size n_tokens =
        hash_tokens(data, bounds[s], bounds[s + 1], settings, parts.hashes, parts.spans);
    const Size n_grams = hash_runs(parts.hashes, n_tokens, low, high, parts.grams);
    if ((n_used + n_grams) * 10 > n_slots * 6) break;

    for (Size j = 0; j < n_grams; j++) {
      if (j + AHEAD < n_grams)
        __builtin_prefetch(table + first_slot(parts.grams[j + AHEAD], n_slots), 1);
      const uint64_t h = parts.grams[j];
      if (n_parts > 1 && (Size)((h >> 48) % (uint64_t)n_parts) != part) continue;

      Counted *counted = find_counted(table, n_slots, h);
      if (counted->key == 0) {
        *counted = (Counted){h, 1, (int32_t)s};
        n_used++;
      } else if (counted->last_text != (int32_t)s) {
        counted->n_texts++;
        counted->last_text = (int32_t)s;
      }
    }
  }
  state[0] = s;
  state[1] = n_used;
}

/* ---- Entry points: texts by known n-grams ---------------------------------------------------- */

/* The tokens, n-grams and columns of data[start:stop]; the number of n-grams. */
static Size find_grams(const uint8_t *data, Size start, Size stop, Settings settings, Table table,
                       Room room, Size *n_tokens) {
  *n_tokens = hash_tokens(data, start, stop, settings, room.hashes, room.spans);
  const Size n = hash_runs(room.hashes, *n_tokens, settings.low, settings.high, room.grams);
  find_all(table, room.grams, n, room.columns);
  return n;
}

/* Which columns a text has and how often, in the order of first occurrence; their number.
 *
 * `places` is a table from column to its position, one more: 0 is free. */
static Size count_columns(const int32_t *columns, Size n, int32_t *places, int32_t *different,
                          int32_t *counts) {
  Size n_places = 2;
  while (n_places < 2 * n) n_places *= 2;
  memset(places, 0, (size_t)n_places * sizeof *places);

  int32_t n_different = 0;
  for (Size j = 0; j < n; j++) {
    const int32_t column = columns[j];
    if (column < 0) continue;

    Size place = column & (n_places - 1);
    while (places[place] != 0 && different[places[place] - 1] != column)
      place = (place + 1) & (n_places - 1);
    if (places[place] == 0) {
      different[n_different] = column;
      counts[n_different] = 0;
      n_different++;
      places[place] = n_different;
    }
    counts[places[place] - 1]++;
  }
  return n_different;
}

/* ngrams.count_grams for texts s with begin <= s < end, after n entries of those before; the number
 * of entries with these. */
Size KERNEL(count_grams)(const uint8_t *data, const int64_t *bounds, Size begin, Size end,
                         const int8_t *kinds, Size low, Size high, Size of_characters,
                         Size longest, const uint64_t *keys, const int32_t *columns, Size n_slots,
                         Size n, int32_t *indices, int32_t *counts, int64_t *starts,
                         uint64_t *room) {
  const Settings settings = {kinds, low, high, of_characters};
  const Table table = {keys, columns, n_slots};
  const Room parts = divide_room(room, longest, settings);
  for (Size s = begin; s < end; s++) {
    Size n_tokens;
    const Size n_grams =
        find_grams(data, bounds[s], bounds[s + 1], settings, table, parts, &n_tokens);
    n += count_columns(parts.columns, n_grams, parts.places, indices + n, counts + n);
    starts[s + 1] = n;
  }
  return n;
}

/* The part of the words among tokens that neither of two tables holds. */
static double unknown_share(const uint8_t *data, const int8_t *kinds, Room room, Size n_tokens,
                            Table table, const uint64_t *known, Size n_known) {
  Size n_words = 0;
  Size n_unknown = 0;
  for (Size i = 1; i < n_tokens; i++) { /* the first is an edge */
    if (!is_word_token(data, room.spans + 2 * i, kinds)) continue;

    const uint64_t h = room.hashes[i];
    n_words++;
    n_unknown += !holds(known, n_known, h) && !holds(table.keys, table.n_slots, h);
  }
  return n_unknown > 0 ? (double)n_unknown / (double)n_words : 0.0;
}

/* ngrams.score_texts for texts s with begin <= s < end; n_known is 0 where `known` is None. */
void KERNEL(score_texts)(const uint8_t *data, const int64_t *bounds, Size begin, Size end,
                         const int8_t *kinds, Size low, Size high, Size of_characters,
                         Size longest, const uint64_t *keys, const int32_t *columns, Size n_slots,
                         const uint64_t *known, Size n_known, const float *idf, const float *coef,
                         Size n_outputs, uint64_t *room, double *restrict scores,
                         double *unknown) {
  const Settings settings = {kinds, low, high, of_characters};
  const Table table = {keys, columns, n_slots};
  const Room parts = divide_room(room, longest, settings);
  float *restrict sums = parts.sums;
  for (Size s = begin; s < end; s++) {
    Size n_tokens;
    const Size n_grams =
        find_grams(data, bounds[s], bounds[s + 1], settings, table, parts, &n_tokens);
    if (n_known > 0)
      unknown[s] = unknown_share(data, kinds, parts, n_tokens, table, known, n_known);
    const Size n_different =
        count_columns(parts.columns, n_grams, parts.places, parts.different, parts.counts);

    double squares = 0.0;
    for (Size k = 0; k < n_outputs; k++) sums[k] = 0.0f;
    for (Size j = 0; j < n_different; j++) {
      const int32_t column = parts.different[j];
      float value = idf[column];
      if (parts.counts[j] > 1) value *= (float)(1.0 + log((double)parts.counts[j]));
      squares += (double)value * (double)value;

      const float *row = coef + (Size)column * n_outputs;
      for (Size k = 0; k < n_outputs; k++) sums[k] += value * row[k];
    }

    const double length = squares > 0.0 ? sqrt(squares) : 1.0;
    for (Size k = 0; k < n_outputs; k++) scores[s * n_outputs + k] = sums[k] / length;
  }
}
