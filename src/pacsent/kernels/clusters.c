/* Clusters of texts that are few edits from a representative. `clusters.py` says how and why. */
#include "edits.h"

enum {
  LONGEST_RUN = 4,     /* words of a run that a segment can be */
  BLOCK_SEGMENTS = 16, /* segments whose bounds are chosen together */
  BLOCK_WORDS = 3 * BLOCK_SEGMENTS + 1,
  CHUNK = 32, /* words whose runs are looked up together */
  MOST_USES = 65535,
  /* A run that occurs as often is listed for each class of lengths, so that lists stay short. */
  OFTEN = 64,
};

static const uint64_t START = 0xA0761D6478BD642Fu;
static const uint64_t ORDER = 0x9E3779B97F4A7C15u;

/* A segment of a text that another text may have as well: clusters.SEGMENT. */
typedef struct {
  uint32_t key;
  int32_t position;
} Segment;

/* A representative in the list of a slot: clusters.LISTED. */
typedef struct {
  int32_t text;
  int32_t position; /* of the segment */
  int32_t n_words;
} Listed;

/* A half of a member in the list of a slot: clusters.HALF. */
typedef struct {
  uint32_t key;
  int32_t earlier; /* the half before in the same slot, -1 for none */
} Half;

/* Where the list of a slot is: clusters.SLOT. */
typedef struct {
  uint32_t begin;
  int32_t n_listed;
} Slot;

/* Texts, and how often their runs occur. */
typedef struct {
  const int32_t *words;
  const int64_t *starts;
  const int32_t *uses;        /* (n_words,): of each word */
  const uint16_t *run_counts; /* (n_counts,): of longer runs, by their hash */
  Size n_counts;
} Texts;

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The hash of a run with one more word. */
INLINE uint64_t join(uint64_t run, int32_t word) {
  const uint64_t h = (run ^ (uint64_t)(uint32_t)word) * ORDER;
  return h ^ h >> 32;
}

/* Where a run of several words is counted. */
INLINE Size count_place(uint64_t run, Size n_counts) {
  return (Size)(run * ORDER >> 38) & (n_counts - 1);
}

/* The number that stands for a run in the lists. */
INLINE uint32_t key_of(uint64_t run) { return (uint32_t)(run >> 7); }

/* The words of a run are words[0], words[1], ...: its hashes for all lengths up to n. */
INLINE void hash_runs(const int32_t *words, Size n, uint64_t *runs) {
  uint64_t run = START;
  for (Size k = 0; k < n; k++) {
    run = join(run, words[k]);
    runs[k] = run;
  }
}

/* How often a run of n words occurs, or more; never less. */
INLINE int32_t count_of(Texts texts, uint64_t run, int32_t first_word, Size n) {
  if (n == 1) return texts.uses[first_word];
  return texts.run_counts[count_place(run, texts.n_counts)];
}

/* The class of a length: each doubling has four. */
INLINE Size length_class(Size n_words) {
  if (n_words < 4) return 4 + n_words;
  const Size log2 = 63 - __builtin_clzll((unsigned long long)n_words);
  return 4 * log2 + (n_words >> (log2 - 2) & 3);
}

/* The number that stands, in the lists, for a run that occurs often, in texts of one class. */
INLINE uint32_t key_in_class(uint64_t run, Size class) { return key_of(join(run, (int32_t)class)); }

/* clusters._count_runs: every run of 2 to LONGEST_RUN words of texts begin to end. */
void KERNEL(count_runs)(const int32_t *words, const int64_t *starts, Size begin, Size end,
                        uint16_t *run_counts, Size n_counts) {
  for (Size i = begin; i < end; i++) {
    for (Size p = starts[i]; p < starts[i + 1]; p++) {
      uint64_t runs[LONGEST_RUN];
      const Size n_runs = smaller(LONGEST_RUN, starts[i + 1] - p);
      hash_runs(words + p, n_runs, runs);
      for (Size k = 1; k < n_runs; k++) {
        uint16_t *count = run_counts + count_place(runs[k], n_counts);
        *count += *count < MOST_USES;
      }
    }
  }
}

/* ---- Segments -------------------------------------------------------------------------------- */

/* clusters.n_segments */
INLINE Size n_segments(Size n_words) { return n_words == 0 ? 0 : n_words / 3 + 1; }

/* Divides n words into n_parts runs of at most LONGEST_RUN words, so that the sum of their counts
 * is smallest, and writes those that occur elsewhere; returns how many were written.
 *
 * The words are those of a text of n_words from `position` on. A run that occurs often is written
 * for all classes of lengths that a near text can have. */
static Size divide_block(Texts texts, const int32_t *words, Size n, Size n_parts, Size position,
                         Size n_words, Segment *segments) {
  uint64_t runs[BLOCK_WORDS][LONGEST_RUN];
  uint32_t costs[BLOCK_WORDS][LONGEST_RUN];
  for (Size p = 0; p < n; p++) {
    const Size n_runs = smaller(LONGEST_RUN, n - p);
    hash_runs(words + p, n_runs, runs[p]);
    for (Size k = 0; k < n_runs; k++) {
      /* A run that occurs once is in no other text: it costs nothing. */
      const int32_t count = count_of(texts, runs[p][k], words[p], k + 1);
      costs[p][k] = count < 2 ? 0 : (uint32_t)smaller(count, MOST_USES);
    }
  }

  /* sums[s][p]: the smallest sum of s runs that are the first p words; lengths: of the last run */
  const uint32_t impossible = UINT32_MAX / 2;
  uint32_t sums[BLOCK_SEGMENTS + 1][BLOCK_WORDS + 1];
  uint8_t lengths[BLOCK_SEGMENTS + 1][BLOCK_WORDS + 1];
  for (Size p = 0; p <= n; p++) sums[0][p] = p == 0 ? 0 : impossible;
  for (Size s = 1; s <= n_parts; s++) {
    for (Size p = 0; p <= n; p++) {
      sums[s][p] = impossible;
      lengths[s][p] = 1;
      for (Size k = 1; k <= smaller(LONGEST_RUN, p); k++) {
        const uint32_t sum = sums[s - 1][p - k] + costs[p - k][k - 1];
        if (sum < sums[s][p]) {
          sums[s][p] = sum;
          lengths[s][p] = (uint8_t)k;
        }
      }
    }
  }

  const Size shortest = length_class(n_words - n_words / 4);
  const Size longest = length_class(4 * n_words / 3);
  Size n_written = 0;
  Size p = n;
  for (Size s = n_parts; s > 0; s--) {
    const Size length = lengths[s][p];
    p -= length;
    const uint64_t run = runs[p][length - 1];
    const uint32_t count = costs[p][length - 1];
    const int is_often = count >= OFTEN;
    if (count == 0) continue;
    for (Size class = shortest; class <= (is_often ? longest : shortest); class++) {
      segments[n_written].key = is_often ? key_in_class(run, class) : key_of(run);
      segments[n_written].position = (int32_t)(position + p);
      n_written++;
    }
  }
  return n_written;
}

/* clusters._choose_segments, for texts begin to end, of which the segments from n on are written;
 * returns the number of segments then. */
Size KERNEL(choose_segments)(const int32_t *words, const int64_t *starts, Size begin, Size end,
                             const int32_t *uses, const uint16_t *run_counts, Size n_counts, Size n,
                             Segment *segments, int64_t *segment_starts) {
  const Texts texts = {words, starts, uses, run_counts, n_counts};
  for (Size i = begin; i < end; i++) {
    const Size n_words = starts[i + 1] - starts[i];
    const Size n_parts = n_segments(n_words);
    for (Size first = 0; first < n_parts; first += BLOCK_SEGMENTS) {
      const Size last = smaller(n_parts, first + BLOCK_SEGMENTS);
      const Size position = first * n_words / n_parts;
      const Size n_block = last * n_words / n_parts - position;
      n += divide_block(texts, words + starts[i] + position, n_block, last - first, position,
                        n_words, segments + n);
    }
    segment_starts[i + 1] = n;
  }
  return n;
}

/* ---- Clusters -------------------------------------------------------------------------------- */

/* The representatives, by their segments, and other members of clusters, by their halves. */
typedef struct {
  Slot *slots;
  Size n_slots;
  Listed *listed;
  int32_t *members; /* (n_member_slots,): the last half in a slot, -1 for none */
  Size n_member_slots;
  Half *halves; /* (n_texts, 2) */
} Lists;

/* A representative that may be near. */
typedef struct {
  int32_t text;
  int32_t n_words;
} Candidate;

/* Where texts that may be near are collected. */
typedef struct {
  int32_t *row;
  int32_t *n_common; /* (n_texts,) of 0: segments of a representative that were found */
  Candidate *candidates;
} Room;

/* The nearest text so far; none is nearer than `distance` allows. */
typedef struct {
  Size text; /* -1 for none */
  Size distance;
  Size rarest; /* word that both have; -1 if not computed */
} Nearest;

/* The rarest word that both have: that with the smallest number. */
static Size rarest_common_word(const int32_t *a, Size n_a, const int32_t *b, Size n_b) {
  Size rarest = INT32_MAX;
  for (Size k = 0; k < n_a; k++) {
    if (a[k] >= rarest) continue;
    for (Size l = 0; l < n_b; l++)
      if (a[k] == b[l]) rarest = a[k];
  }
  return rarest;
}

/* Whether text i comes before the nearest so far, at the same distance from a. */
static int comes_before(Texts texts, const int32_t *a, Size n_a, Size i, Nearest *nearest) {
  const int64_t *starts = texts.starts;
  const Size j = nearest->text;
  if (nearest->rarest < 0) {
    const Size n_b = starts[j + 1] - starts[j];
    nearest->rarest = rarest_common_word(a, n_a, texts.words + starts[j], n_b);
  }
  const Size n_c = starts[i + 1] - starts[i];
  const Size rarest = rarest_common_word(a, n_a, texts.words + starts[i], n_c);
  return rarest < nearest->rarest || (rarest == nearest->rarest && i < j);
}

/* Collects the representatives that have enough segments in common with a, at places that few edits
 * can move them to; returns how many these are. */
static Size collect_candidates(Texts texts, const int32_t *a, Size n_a, Lists lists, Room room) {
  uint64_t runs[CHUNK][LONGEST_RUN];
  Size found_position[CHUNK * LONGEST_RUN];
  const Slot *found[CHUNK * LONGEST_RUN];
  const Size own_class = length_class(n_a);
  Size n_candidates = 0;

  for (Size first = 0; first < n_a; first += CHUNK) {
    /* Memory is asked for before it is needed: counts, slots, lists. */
    const Size last = smaller(n_a, first + CHUNK);
    for (Size p = first; p < last; p++) {
      const Size n_runs = smaller(LONGEST_RUN, n_a - p);
      hash_runs(a + p, n_runs, runs[p - first]);
      for (Size k = 1; k < n_runs; k++)
        __builtin_prefetch(texts.run_counts + count_place(runs[p - first][k], texts.n_counts));
    }

    Size n_found = 0;
    for (Size p = first; p < last; p++) {
      for (Size k = 0; k < smaller(LONGEST_RUN, n_a - p); k++) {
        const uint64_t run = runs[p - first][k];
        const int32_t count = count_of(texts, run, a[p], k + 1);
        if (count < 2) break; /* nor does a longer run occur elsewhere */
        const uint32_t key = count >= OFTEN ? key_in_class(run, own_class) : key_of(run);
        found[n_found] = lists.slots + (key & (lists.n_slots - 1));
        found_position[n_found] = p;
        __builtin_prefetch(found[n_found]);
        n_found++;
      }
    }

    Size n_lists = 0;
    for (Size f = 0; f < n_found; f++) {
      if (found[f]->n_listed == 0) continue;
      __builtin_prefetch(lists.listed + found[f]->begin);
      found[n_lists] = found[f];
      found_position[n_lists] = found_position[f];
      n_lists++;
    }

    for (Size f = 0; f < n_lists; f++) {
      const Listed *listed = lists.listed + found[f]->begin;
      for (Size k = 0; k < found[f]->n_listed; k++) {
        /* Edits before the segment move it, and edits after it even out the lengths. */
        const Size limit = larger(n_a, listed[k].n_words) / 4;
        const Size moved = found_position[f] - listed[k].position;
        const Size left = n_a - listed[k].n_words - moved;
        if (larger(moved, -moved) + larger(left, -left) > limit) continue;

        const int32_t other = listed[k].text;
        if (room.n_common[other] == 0) {
          room.candidates[n_candidates].text = other;
          room.candidates[n_candidates].n_words = listed[k].n_words;
          n_candidates++;
        }
        room.n_common[other]++;
      }
    }
  }

  /* Of the segments of a representative, each edit changes one at most. */
  Size n_kept = 0;
  for (Size c = 0; c < n_candidates; c++) {
    const Candidate candidate = room.candidates[c];
    const Size limit = larger(n_a, candidate.n_words) / 4;
    const Size n_common = room.n_common[candidate.text];
    room.n_common[candidate.text] = 0;
    if (n_common < n_segments(candidate.n_words) - limit) continue;
    room.candidates[n_kept++] = candidate;
    __builtin_prefetch(texts.starts + candidate.text);
  }
  for (Size c = 0; c < n_kept; c++)
    __builtin_prefetch(texts.words + texts.starts[room.candidates[c].text]);
  return n_kept;
}

/* The nearest representative of a. */
static Nearest nearest_representative(Texts texts, const int32_t *a, Size n_a, Lists lists,
                                      Room room) {
  Nearest nearest = {-1, n_a, -1};
  const Size n_candidates = collect_candidates(texts, a, n_a, lists, room);
  for (Size c = 0; c < n_candidates; c++) {
    const Size other = room.candidates[c].text;
    const int32_t *b = texts.words + texts.starts[other];
    const Size n_b = room.candidates[c].n_words;
    const Size least = smaller(larger(n_a, n_b) / 4, nearest.distance);
    const Size distance = distance_within(a, n_a, b, n_b, least, room.row);
    if (distance > least) continue;
    if (distance == nearest.distance && nearest.text >= 0 &&
        !comes_before(texts, a, n_a, other, &nearest))
      continue;
    nearest.text = other;
    nearest.distance = distance;
    nearest.rarest = -1;
  }
  return nearest;
}

/* The number that stands for a half of a text of n_words: n words from words[0] on. */
INLINE uint32_t half_key(const int32_t *words, Size n, Size n_words, int half) {
  uint64_t run = join(START, (int32_t)(2 * n_words + half));
  for (Size k = 0; k < n; k++) run = join(run, words[k]);
  return key_of(run);
}

/* Lists a text by its first half and by the rest. */
static void list_member(Size i, const int32_t *a, Size n_a, Lists lists) {
  for (int half = 0; half < 2; half++) {
    const Size n_first = n_a / 2;
    const uint32_t key =
        half == 0 ? half_key(a, n_first, n_a, 0) : half_key(a + n_first, n_a - n_first, n_a, 1);
    int32_t *last = lists.members + (key & (lists.n_member_slots - 1));
    lists.halves[2 * i + half].key = key;
    lists.halves[2 * i + half].earlier = *last;
    *last = (int32_t)(2 * i + half);
  }
}

/* The member of a cluster that is one edit from a and shares its rarest words. */
static Nearest nearest_member(Texts texts, const int32_t *a, Size n_a, Lists lists, Room room) {
  Nearest nearest = {-1, 1, -1};

  /* One edit leaves the first half of a text as it was, or the rest. */
  uint32_t keys[6];
  Size n_keys = 0;
  for (Size n_b = n_a - 1; n_b <= n_a + 1; n_b++) {
    const Size n_rest = n_b - n_b / 2; /* at most n_a */
    keys[n_keys++] = half_key(a, n_b / 2, n_b, 0);
    keys[n_keys++] = half_key(a + n_a - n_rest, n_rest, n_b, 1);
  }
  for (Size k = 0; k < n_keys; k++)
    __builtin_prefetch(lists.members + (keys[k] & (lists.n_member_slots - 1)));

  for (Size k = 0; k < n_keys; k++) {
    const Size n_b = n_a - 1 + k / 2;
    const Size limit = smaller(1, larger(n_a, n_b) / 4);
    int32_t entry = lists.members[keys[k] & (lists.n_member_slots - 1)];
    for (; entry >= 0; entry = lists.halves[entry].earlier) {
      if (lists.halves[entry].key != keys[k]) continue;
      const Size other = entry / 2;
      const int32_t *b = texts.words + texts.starts[other];
      if (other == nearest.text || texts.starts[other + 1] - texts.starts[other] != n_b) continue;
      if (distance_within(a, n_a, b, n_b, limit, room.row) > limit) continue;
      if (nearest.text >= 0 && !comes_before(texts, a, n_a, other, &nearest)) continue;
      nearest.text = other;
      nearest.rarest = -1;
    }
  }
  return nearest;
}

/* clusters.cluster_by_edits, for texts begin to end, after those before. */
void KERNEL(cluster_texts)(const int32_t *words, const int64_t *starts, Size begin, Size end,
                           const int32_t *uses, const uint16_t *run_counts, Size n_counts,
                           const Segment *segments, const int64_t *segment_starts, Slot *slots,
                           Size n_slots, Listed *listed, int32_t *members, Size n_member_slots,
                           Half *halves, int32_t *row, int32_t *n_common, Candidate *candidates,
                           int64_t *representative) {
  const Texts texts = {words, starts, uses, run_counts, n_counts};
  const Lists lists = {slots, n_slots, listed, members, n_member_slots, halves};
  const Room room = {row, n_common, candidates};

  for (Size i = begin; i < end; i++) {
    const int32_t *a = words + starts[i];
    const Size n_a = starts[i + 1] - starts[i];
    representative[i] = i;
    if (n_a == 0) continue;

    const Nearest first = nearest_representative(texts, a, n_a, lists, room);
    if (first.text >= 0) {
      representative[i] = first.text;
      list_member(i, a, n_a, lists);
      continue;
    }

    const Nearest member = nearest_member(texts, a, n_a, lists, room);
    if (member.text >= 0) {
      representative[i] = representative[member.text];
      continue;
    }

    for (Size k = segment_starts[i]; k < segment_starts[i + 1]; k++) {
      Slot *slot = slots + (segments[k].key & (n_slots - 1));
      Listed *entry = listed + slot->begin + slot->n_listed;
      entry->text = (int32_t)i;
      entry->position = segments[k].position;
      entry->n_words = (int32_t)n_a;
      slot->n_listed++;
    }
  }
}
