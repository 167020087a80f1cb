"""XXH64 of bytes that come block by block: as `xxhsum -H64` prints it.

It finds damage, at ten times the speed of sha256: a digest of every vector that is written must not
cost more than the writing. It is no signature.
"""

import numpy as np

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = (1 << 64) - 1


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _mixed(word: int) -> int:
    return _rotated(word * _P2 & _MASK, 31) * _P1 & _MASK


class XXH64:
    """The digest, with seed 0.

    >>> digest = XXH64()
    >>> digest.update(b"ab")
    >>> digest.update(b"c")
    >>> digest.hexdigest()
    '44bc2cf5ad770999'
    """

    def __init__(self) -> None:
        first = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        self._lanes = np.array(first, dtype=np.uint64)
        self._rest = b""
        self._n_bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take in further bytes."""
        from pacsent._kernels.xxh64 import add_stripes

        block = memoryview(data).cast("B").toreadonly()
        self._n_bytes += block.nbytes
        if self._rest:
            need = 32 - len(self._rest)
            self._rest, block = self._rest + bytes(block[:need]), block[need:]
            if len(self._rest) < 32:
                return
            add_stripes(self._lanes, np.frombuffer(self._rest, "<u8"))
        whole = block.nbytes // 32 * 32
        if whole:
            add_stripes(self._lanes, np.frombuffer(block[:whole], "<u8"))
        self._rest = bytes(block[whole:])

    def hexdigest(self) -> str:
        """The digest of what came so far, in hexadecimal."""
        if self._n_bytes >= 32:
            lanes = [int(lane) for lane in self._lanes]
            value = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & _MASK
            for lane in lanes:
                value = ((value ^ _mixed(lane)) * _P1 + _P4) & _MASK
        else:
            value = _P5
        value = (value + self._n_bytes) & _MASK
        rest = self._rest
        while len(rest) >= 8:
            word = int.from_bytes(rest[:8], "little")
            value = (_rotated(value ^ _mixed(word), 27) * _P1 + _P4) & _MASK
            rest = rest[8:]
        if len(rest) >= 4:
            word = int.from_bytes(rest[:4], "little")
            value = (_rotated(value ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
            rest = rest[4:]
        for byte in rest:
            value = _rotated(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
        value = (value ^ value >> 33) * _P2 & _MASK
        value = (value ^ value >> 29) * _P3 & _MASK
        return f"{value ^ value >> 32:016x}"
