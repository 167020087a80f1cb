// Gaussian expectations of the logistic loss for a whole matrix of scores.
//
//   x ~ N(a, v),  v = var_Q[row] * nu[column]:   f1 = E sigmoid(x),  f2 = E sigmoid'(x)
//
// by a sum over nodes; how many depends on v: for v up to limits[i], nodes starts[i]:starts[i + 1].
// Beyond the last limit by Edgeworth's expansion, as wide_expectations in sentences.py.

__device__ void wide_expectations(float a, float v, float &f1, float &f2) {
  const float variance = v + 3.28986813f, deviation = sqrtf(variance), z = a / deviation, q = z * z;
  const float inverse = 1.f / variance, k4 = 12.98787880f * inverse * inverse;
  const float c4 = k4 / 24.f, c6 = 244.1623349f / 720.f * inverse * inverse * inverse;
  const float c8 = k4 * k4 / 1152.f;
  const float density = 0.39894228f * __expf(-0.5f * q);
  const float odd = c4 * (q - 3.f) + c6 * (q * (q - 10.f) + 15.f) +
                    c8 * (q * (q * (q - 21.f) + 105.f) - 105.f);
  const float even = c4 * (q * (q - 6.f) + 3.f) + c6 * (q * (q * (q - 15.f) + 45.f) - 15.f) +
                     c8 * (q * (q * (q * (q - 28.f) + 210.f) - 420.f) + 105.f);
  f1 = normcdff(z) - density * z * odd;
  f2 = density / deviation * (1.f + even);
}

__device__ __forceinline__ void expectations(float a, float v, const float2 *rule,
                                             const float *limits, const int *starts, int n_levels,
                                             float &f1, float &f2) {
  int level = 0;
  while (level < n_levels && v > limits[level]) level++;
  if (level == n_levels) {
    wide_expectations(a, v, f1, f2);
    return;
  }
  const float s = sqrtf(v);
  f1 = f2 = 0.f;
  for (int i = starts[level]; i < starts[level + 1]; i++) {
    const float2 node = rule[i];
    const float p = __fdividef(1.f, 1.f + __expf(-fmaf(s, node.x, a)));
    f1 = fmaf(node.y, p, f1);
    f2 = fmaf(node.y, p * (1.f - p), f2);
  }
}

extern "C" __global__ void __launch_bounds__(256)
each_expectation(const float *a, const float *v, float *f1, float *f2, const float *nodes,
                 const float *weights, const float *limits, const int *starts, int n_levels,
                 int n_nodes, long long n) {
  extern __shared__ float2 rule[];
  for (int i = threadIdx.x; i < n_nodes; i += blockDim.x) rule[i] = make_float2(nodes[i], weights[i]);
  __syncthreads();
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) expectations(a[i], v[i], rule, limits, starts, n_levels, f1[i], f2[i]);
}

extern "C" __global__ void __launch_bounds__(256)
noise_terms(float *scores, const float *var_Q, const float *nu, const float *kp, const float *nodes,
            const float *weights, const float *limits, const int *starts, double *trace,
            int n_levels, int n_nodes, long long n_words) {
  // Overwrites a score with kp * f1 and adds kp * nu * f2 to the trace of its row.
  extern __shared__ float2 rule[];
  for (int i = threadIdx.x; i < n_nodes; i += blockDim.x) rule[i] = make_float2(nodes[i], weights[i]);
  __syncthreads();
  const long long row = blockIdx.x;
  const float var = var_Q[row];
  const long long per_block = (n_words + gridDim.y - 1) / gridDim.y;
  const long long begin = blockIdx.y * per_block;
  const long long end = min(n_words, begin + per_block);
  float spread = 0.f;
  for (long long u = begin + threadIdx.x; u < end; u += blockDim.x) {
    const float weight = kp[u];
    float *score = scores + row * n_words + u;
    if (weight == 0.f) { *score = 0.f; continue; }
    const float v = var * nu[u], a = *score;
    float f1, f2;
    expectations(a, v, rule, limits, starts, n_levels, f1, f2);
    *score = weight * f1;
    spread = fmaf(weight * nu[u], f2, spread);
  }
  for (int bit = 16; bit; bit /= 2) spread += __shfl_xor_sync(0xffffffffu, spread, bit);
  if (threadIdx.x % 32 == 0) atomicAdd(trace + row, (double)spread);
}
