/* What all kernels share.
 *
 * Every file is compiled once for each instruction set, with -DLEVEL=_v4 or another suffix that
 * KERNEL appends to the names of entry points; everything else is static. `library.py` calls the
 * entry points of the best level that the processor has.
 */
#ifndef PACSENT_COMMON_H
#define PACSENT_COMMON_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef LEVEL
#define LEVEL _base
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* Before the name of an entry point: void KERNEL(pool_rows)(...) */
#ifdef _WIN32
#define KERNEL(name) __declspec(dllexport) JOIN(name, LEVEL)
#else
#define KERNEL(name) __attribute__((visibility("default"))) JOIN(name, LEVEL)
#endif

#define INLINE static inline __attribute__((always_inline))

/* Number of elements, as numpy.intp. */
typedef ptrdiff_t Size;

INLINE Size smaller(Size a, Size b) { return a < b ? a : b; }
INLINE Size larger(Size a, Size b) { return a > b ? a : b; }

#endif
