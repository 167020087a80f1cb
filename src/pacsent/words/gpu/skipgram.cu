// Skip-gram with negative sampling: one warp walks a chunk of a document, rows in registers.
//
// Compiled at run time with these constants:
//   DIMS       numbers in a row              WINDOW  largest distance of a context word
//   NEGATIVES  noise words                   CENTRES neighbouring centre words that share them
//   CHUNK      most tokens in a chunk        GROUP   output rows held in registers at a time
//   FENCE      1: every update is seen before the next tile is read (for tests, one warp)
//
// A tile is CENTRES centre words and the input rows of all their context words. For context row v
// and output row o with label y, the step is rate * (y - sigmoid(v.o)), once for every centre word
// that has this context and, where o is noise, is another word; all steps of a tile are computed from the rows as they were before it.
// What limits the speed is the number of rows added to the tables, so every row of a tile is
// loaded once and added once: input steps gather over the outputs, output steps over the contexts.
//
// Every draw is a hash of (key of the epoch, place of the token, number of the draw), so the two
// sides of a chunk border agree about which tokens were kept, and a test can repeat every draw.

typedef unsigned int u32;
typedef unsigned long long u64;

#define ALL 0xffffffffu
#define NOBODY 0xffffffffu
#define STRIDE ((DIMS + 31) / 32 * 32)  // numbers from one row to the next: whole 128-byte lines
#define EACH (STRIDE / 32)              // numbers of a row in each lane
#define N4 (EACH / 4)
#define N2 (EACH % 4 / 2)
#define N1 (EACH % 2)
#define OUTPUTS (CENTRES + NEGATIVES)
#define GROUPS ((OUTPUTS + GROUP - 1) / GROUP)
#define ROWS (2 * WINDOW + CENTRES)     // most context rows of a tile
#define STEPS ((GROUP + 3) / 4 * 4)     // numbers from one context's steps to the next

struct Work {
  float *input, *output;                // (n_words, STRIDE) each
  const int *tokens;                    // the part of the corpus that is on the device
  const long long *starts;              // chunk: first token, counted from `tokens`
  const int *lengths, *before, *after;  // its tokens; tokens of its document before and after it
  const int *order;                     // chunks in the order of this launch
  const u32 *keep;                      // word: it is kept when a 32-bit draw is at most this
  const uint2 *noise;                   // alias table: threshold, other word
  u32 *next;                            // the first chunk nobody has taken
  u64 *counts;                          // tokens kept, pairs
  double *loss;
  u64 key;
  long long place;                      // corpus position of tokens[0]
  u32 n_chunks, n_words;
  float rate, rate_floor, done, span;   // rate * max(rate_floor, 1 - done - span * chunk / n_chunks)
};

struct Row { float x[EACH]; };

__device__ __forceinline__ u64 mix(u64 z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ u64 draw(const Work &work, long long place, u32 number) {
  return mix(work.key + ((u64)place << 16) + number);
}

__device__ __forceinline__ u32 noise_word(const Work &work, long long place, u32 number) {
  const u64 z = draw(work, place, number);
  const u32 i = __umulhi((u32)(z >> 32), work.n_words);
  const uint2 slot = __ldg(work.noise + i);
  return (u32)z <= slot.x ? i : slot.y;
}

// A lane holds its share of a row as 16-, 8- and 4-byte pieces; pieces past the row are zero.
template <bool SHARED> __device__ __forceinline__ Row load(const float *row, int lane) {
  Row r;
#pragma unroll
  for (int i = 0; i < N4; i++) {
    float4 t = make_float4(0.f, 0.f, 0.f, 0.f);
    if (128 * i + 4 * lane < DIMS) {
      const float4 *p = (const float4 *)(row + 128 * i) + lane;
      t = SHARED ? *p : __ldcg(p);
    }
    r.x[4 * i] = t.x; r.x[4 * i + 1] = t.y; r.x[4 * i + 2] = t.z; r.x[4 * i + 3] = t.w;
  }
  if (N2) {
    float2 t = make_float2(0.f, 0.f);
    if (128 * N4 + 2 * lane < DIMS) {
      const float2 *p = (const float2 *)(row + 128 * N4) + lane;
      t = SHARED ? *p : __ldcg(p);
    }
    r.x[4 * N4] = t.x; r.x[(4 * N4 + 1) % EACH] = t.y;
  }
  if (N1) {
    float t = 0.f;
    const int at = 128 * N4 + 64 * N2;
    if (at + lane < DIMS) t = SHARED ? row[at + lane] : __ldcg(row + at + lane);
    r.x[EACH - 1] = t;
  }
  return r;
}

__device__ __forceinline__ void store_shared(float *row, int lane, const Row &r) {
#pragma unroll
  for (int i = 0; i < N4; i++)
    if (128 * i + 4 * lane < DIMS)
      ((float4 *)(row + 128 * i))[lane] =
          make_float4(r.x[4 * i], r.x[4 * i + 1], r.x[4 * i + 2], r.x[4 * i + 3]);
  if (N2 && 128 * N4 + 2 * lane < DIMS)
    ((float2 *)(row + 128 * N4))[lane] = make_float2(r.x[4 * N4], r.x[(4 * N4 + 1) % EACH]);
  if (N1 && 128 * N4 + 64 * N2 + lane < DIMS) row[128 * N4 + 64 * N2 + lane] = r.x[EACH - 1];
}

// Add a row to a table: wide atomic additions where the GPU has them (compute capability 9).
__device__ __forceinline__ void add(float *row, int lane, const Row &r) {
#pragma unroll
  for (int i = 0; i < N4; i++)
    if (128 * i + 4 * lane < DIMS) {
      float *p = row + 128 * i + 4 * lane;
#if __CUDA_ARCH__ >= 900
      asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p),
                   "f"(r.x[4 * i]), "f"(r.x[4 * i + 1]), "f"(r.x[4 * i + 2]), "f"(r.x[4 * i + 3])
                   : "memory");
#else
      for (int c = 0; c < 4; c++) atomicAdd(p + c, r.x[4 * i + c]);
#endif
    }
  if (N2 && 128 * N4 + 2 * lane < DIMS) {
    float *p = row + 128 * N4 + 2 * lane;
#if __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1,%2};" ::"l"(p), "f"(r.x[4 * N4]),
                 "f"(r.x[(4 * N4 + 1) % EACH])
                 : "memory");
#else
    atomicAdd(p, r.x[4 * N4]);
    atomicAdd(p + 1, r.x[(4 * N4 + 1) % EACH]);
#endif
  }
  if (N1 && 128 * N4 + 64 * N2 + lane < DIMS)
    atomicAdd(row + 128 * N4 + 64 * N2 + lane, r.x[EACH - 1]);
}

// Copy a row of a table to shared memory without passing through registers.
__device__ __forceinline__ void fetch(float *to, const float *row, int lane) {
#if __CUDA_ARCH__ >= 800
  for (int i = 4 * lane; i < DIMS; i += 128)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (u32)__cvta_generic_to_shared(to + i)),
                 "l"(row + i)
                 : "memory");
#else
  for (int i = 4 * lane; i < DIMS; i += 128) *(float4 *)(to + i) = __ldcg((const float4 *)(row + i));
#endif
}

__device__ __forceinline__ void fetched() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncwarp();
}

// Sum N numbers over the warp together, halving how many each lane holds at every step; at the
// end a lane has the whole sum of number slot_of(lane), and one lane of each number is its owner.
template <int N, int BIT> __device__ __forceinline__ float sums(float *d, int lane) {
  if constexpr (BIT == 0) {
    return d[0];
  } else if constexpr (N == 1) {
    d[0] += __shfl_xor_sync(ALL, d[0], BIT);
    return sums<1, BIT / 2>(d, lane);
  } else {
    constexpr int C = (N + 1) / 2;
    const bool upper = lane & BIT;
#pragma unroll
    for (int i = 0; i < C; i++) {
      const float high = i + C < N ? d[(i + C) % N] : 0.f;
      const float away = upper ? d[i] : high, here = upper ? high : d[i];
      d[i] = here + __shfl_xor_sync(ALL, away, BIT);
    }
    return sums<C, BIT / 2>(d, lane);
  }
}

template <int N, int BIT> __device__ __forceinline__ int slot_of(int lane, bool &owner) {
  if constexpr (BIT == 0) {
    return 0;
  } else if constexpr (N == 1) {
    if (lane & BIT) owner = false;
    return slot_of<1, BIT / 2>(lane, owner);
  } else {
    constexpr int C = (N + 1) / 2;
    const int slot = slot_of<C, BIT / 2>(lane, owner) + (lane & BIT ? C : 0);
    if (slot >= N) owner = false;
    return slot;
  }
}

__device__ __forceinline__ float dot(const Row &a, const Row &b) {
  float s = a.x[0] * b.x[0];
#pragma unroll
  for (int i = 1; i < EACH; i++) s = fmaf(a.x[i], b.x[i], s);
  return s;
}

__device__ __forceinline__ void add_scaled(Row &r, float g, const Row &a) {
#pragma unroll
  for (int i = 0; i < EACH; i++) r.x[i] = fmaf(g, a.x[i], r.x[i]);
}

__device__ __forceinline__ void clear(Row &r) {
#pragma unroll
  for (int i = 0; i < EACH; i++) r.x[i] = 0.f;
}

__device__ __forceinline__ bool is_kept(const Work &work, int word, long long place) {
  return (u32)(draw(work, place, 0) >> 32) <= __ldg(work.keep + word);
}

extern "C" __global__ void __launch_bounds__(32) train(const Work work) {
  extern __shared__ float4 memory[];
  float *contexts = (float *)memory;                       // (ROWS, STRIDE), rows before the tile
  float *gathered = contexts + ROWS * STRIDE;              // (ROWS, STRIDE) where GROUPS > 1
  float *steps = gathered + (GROUPS > 1 ? ROWS * STRIDE : 0);  // (ROWS, STEPS)
  u32 *targets = (u32 *)(steps + ROWS * STEPS);            // (OUTPUTS,)
  u32 *words = targets + (OUTPUTS + 3) / 4 * 4;            // kept words, WINDOW more on both sides
  int *places = (int *)(words + CHUNK + 2 * WINDOW);       // kept words' places in the chunk
  const int lane = threadIdx.x;
  const u32 below = (1u << lane) - 1;
  bool owner = true;
  const int slot = slot_of<GROUP, 16>(lane, owner);
  u64 n_kept = 0, n_pairs = 0;
  double loss = 0.;

  while (true) {
    u32 taken = 0;
    if (lane == 0) taken = atomicAdd(work.next, 1u);
    taken = __shfl_sync(ALL, taken, 0);
    if (taken >= work.n_chunks) break;
    const int chunk = work.order[taken];
    const long long start = work.starts[chunk];
    const int length = work.lengths[chunk], before = work.before[chunk], after = work.after[chunk];
    const int *tokens = work.tokens + start;
    const long long place = work.place + start;
    const float part = (float)taken / (float)work.n_chunks;
    const float rate = work.rate * fmaxf(work.rate_floor, 1.f - (work.done + work.span * part));

    __syncwarp();
    int n_left = 0, n = 0, n_right = 0;
    for (int at = 0; n_left < WINDOW && at < before; at += 32) {
      const int back = at + 1 + lane;  // lane 0 is the nearest
      const int word = back <= before ? tokens[-back] : 0;
      const bool kept = back <= before && is_kept(work, word, place - back);
      const u32 votes = __ballot_sync(ALL, kept);
      const int rank = n_left + __popc(votes & below);
      if (kept && rank < WINDOW) words[WINDOW - 1 - rank] = word;
      n_left = min(WINDOW, n_left + __popc(votes));
    }
    for (int at = 0; at < length; at += 32) {
      const int here = at + lane;
      const int word = here < length ? tokens[here] : 0;
      const bool kept = here < length && is_kept(work, word, place + here);
      const u32 votes = __ballot_sync(ALL, kept);
      const int rank = n + __popc(votes & below);
      if (kept) { words[WINDOW + rank] = word; places[rank] = here; }
      n += __popc(votes);
    }
    for (int at = 0; n_right < WINDOW && at < after; at += 32) {
      const int ahead = at + lane;
      const int word = ahead < after ? tokens[length + ahead] : 0;
      const bool kept = ahead < after && is_kept(work, word, place + length + ahead);
      const u32 votes = __ballot_sync(ALL, kept);
      const int rank = n_right + __popc(votes & below);
      if (kept && rank < WINDOW) words[WINDOW + n + rank] = word;
      n_right = min(WINDOW, n_right + __popc(votes));
    }
    __syncwarp();
    n_kept += n;
    const int first = WINDOW - n_left, last = WINDOW + n + n_right - 1;

#pragma unroll 1
    for (int i = 0; i < n; i += CENTRES) {
      // The windows of the tile's centre words, and what they span together.
      int reach[CENTRES], low = last, high = first;
#pragma unroll
      for (int c = 0; c < CENTRES; c++) {
        reach[c] = 0;
        if (i + c < n) {
          const u64 z = draw(work, place + places[i + c], 0);
          reach[c] = 1 + (int)__umulhi((u32)z, WINDOW);
          low = min(low, max(first, WINDOW + i + c - reach[c]));
          high = max(high, min(last, WINDOW + i + c + reach[c]));
        }
      }
      for (int j = low; j <= high; j++) {
        if (CENTRES == 1 && j == WINDOW + i) continue;  // a lone centre word is no context
        fetch(contexts + (j - low) * STRIDE, work.input + (size_t)words[j] * STRIDE, lane);
      }
      const long long tile = place + places[i];
      for (int q = lane; q < OUTPUTS; q += 32) {
        u32 word = NOBODY;
        if (q < CENTRES) {
          if (i + q < n) word = words[WINDOW + i + q];
        } else {
          word = noise_word(work, tile, 1 + q - CENTRES);
        }
        targets[q] = word;
      }
      fetched();
      float loss_here = 0.f;

#pragma unroll 1
      for (int g = 0; g < GROUPS; g++) {
        {
          Row rows[GROUP];
#pragma unroll
          for (int q = 0; q < GROUP; q++) {
            const u32 word = g * GROUP + q < OUTPUTS ? targets[g * GROUP + q] : NOBODY;
            if (word != NOBODY) rows[q] = load<false>(work.output + (size_t)word * STRIDE, lane);
            else clear(rows[q]);
          }
          const int s = g * GROUP + slot;
          const u32 target = s < OUTPUTS ? targets[s] : NOBODY;
          const bool used = owner && target != NOBODY;
          const float sign = s < CENTRES ? -1.f : 1.f;
          u32 same = 0;  // centre words that this noise word is: it is no noise for them
#pragma unroll
          for (int c = 0; c < CENTRES; c++)
            if (i + c < n && words[WINDOW + i + c] == target) same |= 1u << c;
#pragma unroll 1
          for (int j = low; j <= high; j++) {
            if (CENTRES == 1 && j == WINDOW + i) continue;
            // How many centre words have this context, and how many this lane's word counts for.
            int times = 0, mine = 0;
#pragma unroll
            for (int c = 0; c < CENTRES; c++) {
              const int distance = abs(j - (WINDOW + i + c));
              const int has = distance > 0 && distance <= reach[c];
              times += has;
              mine += s < CENTRES ? has && c == s : has && !(same >> c & 1);
            }
            if (g == 0) n_pairs += times;
            const Row v = load<true>(contexts + (j - low) * STRIDE, lane);
            float d[GROUP];
#pragma unroll
            for (int q = 0; q < GROUP; q++) d[q] = dot(rows[q], v);
            const float f = sums<GROUP, 16>(d, lane);
            const float weight = used ? (float)mine : 0.f;
            const float wrong = __fdividef(1.f, 1.f + __expf(-sign * f));  // 1 - chance of the label
            loss_here += weight * (fmaxf(sign * f, 0.f) + __logf(1.f + __expf(-fabsf(f))));
            float *size = steps + (j - low) * STEPS;
            if (owner) size[slot] = -sign * wrong * weight * rate;
            __syncwarp();
            Row step;
            clear(step);
#pragma unroll
            for (int q = 0; q < GROUP; q++) add_scaled(step, size[q], rows[q]);
            if (GROUPS > 1) {
              if (g > 0) add_scaled(step, 1.f, load<true>(gathered + (j - low) * STRIDE, lane));
              if (g < GROUPS - 1) store_shared(gathered + (j - low) * STRIDE, lane, step);
            }
            if (g == GROUPS - 1 && times) add(work.input + (size_t)words[j] * STRIDE, lane, step);
          }
        }
        Row changes[GROUP];
#pragma unroll
        for (int q = 0; q < GROUP; q++) clear(changes[q]);
#pragma unroll 1
        for (int j = low; j <= high; j++) {
          if (CENTRES == 1 && j == WINDOW + i) continue;
          const Row v = load<true>(contexts + (j - low) * STRIDE, lane);
          const float *size = steps + (j - low) * STEPS;
#pragma unroll
          for (int q = 0; q < GROUP; q++) add_scaled(changes[q], size[q], v);
        }
#pragma unroll
        for (int q = 0; q < GROUP; q++) {
          const u32 word = g * GROUP + q < OUTPUTS ? targets[g * GROUP + q] : NOBODY;
          if (word != NOBODY) add(work.output + (size_t)word * STRIDE, lane, changes[q]);
        }
        __syncwarp();
      }
      loss += loss_here;
#if FENCE
      __threadfence();
#endif
      __syncwarp();
    }
  }
  for (int bit = 16; bit; bit /= 2) loss += __shfl_xor_sync(ALL, loss, bit);
  if (lane == 0) {
    atomicAdd(work.counts, n_kept);
    atomicAdd(work.counts + 1, n_pairs);
    atomicAdd(work.loss, loss);
  }
}
