// Gaussian expectations of the logistic loss for a whole matrix of scores.
//
//   x ~ N(a, v),  v = var_Q[row] * nu[column]:   f1 = E sigmoid(x),  f2 = E sigmoid'(x)
//
// by a sum over nodes; how many depends on v: for v up to limits[i], nodes starts[i]:starts[i + 1].

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
    const float v = var * nu[u], a = *score, s = sqrtf(v);
    int level = 0;
    while (level < n_levels - 1 && v > limits[level]) level++;
    float f1 = 0.f, f2 = 0.f;
    for (int i = starts[level]; i < starts[level + 1]; i++) {
      const float2 node = rule[i];
      const float p = __fdividef(1.f, 1.f + __expf(-fmaf(s, node.x, a)));
      f1 = fmaf(node.y, p, f1);
      f2 = fmaf(node.y, p * (1.f - p), f2);
    }
    *score = weight * f1;
    spread = fmaf(weight * nu[u], f2, spread);
  }
  for (int bit = 16; bit; bit /= 2) spread += __shfl_xor_sync(0xffffffffu, spread, bit);
  if (threadIdx.x % 32 == 0) atomicAdd(trace + row, (double)spread);
}
