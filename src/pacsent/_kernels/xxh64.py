"""XXH64's main loop: the digest of files that are written as fast as memory is copied."""

import numpy as np

from pacsent._kernels.compiling import njit

_FIRST = np.uint64(0x9E3779B185EBCA87)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_UP, _DOWN = np.uint64(31), np.uint64(33)


@njit(cache=True, nogil=True)
def add_stripes(lanes, words):
    """Take in words (uint64, a multiple of four) in place: lane = rotl(lane + word P2, 31) P1."""
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    for i in range(0, words.size, 4):
        a += words[i] * _SECOND
        b += words[i + 1] * _SECOND
        c += words[i + 2] * _SECOND
        d += words[i + 3] * _SECOND
        a = ((a << _UP) | (a >> _DOWN)) * _FIRST
        b = ((b << _UP) | (b >> _DOWN)) * _FIRST
        c = ((c << _UP) | (c >> _DOWN)) * _FIRST
        d = ((d << _UP) | (d >> _DOWN)) * _FIRST
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
