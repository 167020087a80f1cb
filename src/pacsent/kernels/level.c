/* Which of the instruction sets that the library was built for this processor can run.
 *
 * By hand: __builtin_cpu_supports does not link into a shared library with every compiler.
 */
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

static int has(unsigned value, unsigned bits) { return (value & bits) == bits; }

static const char *level_of_x86(void) {
  unsigned a, b, c, d, features, more_features, saved, unused;

  /* The system saves vector registers (OSXSAVE, SSE4.2)? */
  if (!__get_cpuid(1, &a, &b, &features, &d)) return "v2";
  if (!has(features, 1u << 27 | 1u << 20)) return "v2";
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));

  /* x86-64-v3: FMA, MOVBE, AVX, F16C; BMI, AVX2, BMI2; LZCNT */
  if (!has(saved, 0x6) || !has(features, 1u << 12 | 1u << 22 | 1u << 28 | 1u << 29)) return "v2";
  if (!__get_cpuid_count(7, 0, &a, &more_features, &c, &d)) return "v2";
  if (!has(more_features, 1u << 3 | 1u << 5 | 1u << 8)) return "v2";
  if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !has(c, 1u << 5)) return "v2";

  /* x86-64-v4: AVX-512 F, DQ, CD, BW, VL */
  const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  if (has(saved, 0xE6) && has(more_features, avx512)) return "v4";
  return "v3";
}
#endif

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
const char *level(void) {
#if defined(__x86_64__)
  return level_of_x86();
#else
  return "base";
#endif
}
