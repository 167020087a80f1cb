"""Checksums of bytes, of JSON, and of the pieces of a large file.

They find what disks, copies and edits do to a file that was saved: a flipped bit, a part of another
file, a changed number. They are no signature: whoever writes a folder can write its checksums.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from pacsent.threads import in_order

PIECE = 1 << 24  # bytes that share a checksum


def checksum(data: Any) -> str:
    """The first 128 bits of the sha256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()[:32]


def checksum_of_json(value: object) -> str:
    """Of the content, whatever the order of the keys and the white space of the file.

    >>> checksum_of_json({'a': 1, 'b': 2}) == checksum_of_json({'b': 2, 'a': 1})
    True
    """
    return checksum(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def checksums_of_pieces(data: np.ndarray, pieces: Iterable[int] | None = None) -> Iterable[str]:
    """Checksums of these pieces of an array of bytes (all when left out), on all cores."""
    numbers = range(-(-data.size // PIECE)) if pieces is None else pieces
    return in_order(lambda i: checksum(data[i * PIECE : (i + 1) * PIECE]), numbers, None)


class PieceChecks:
    """Compares the pieces of a mapped file with their checksums, each piece once.

    `data` are the memory-mapped bytes that the checksums are of, one for each `PIECE` bytes;
    `spans` says where in `data` each array lies, `path` names the file in messages.
    """

    def __init__(
        self, path: str | os.PathLike, data: np.ndarray, checksums: list[str], spans: dict
    ):
        self.path, self.data, self.checksums, self.spans = path, data, checksums, spans
        self._left = set(range(len(checksums)))
        self._lock = threading.Lock()

    def verify(self, names: Iterable[str]) -> None:
        """Raise ValueError unless these arrays are as they were saved."""
        wanted = {
            piece
            for begin, end in (self.spans[name] for name in names)
            for piece in range(begin // PIECE, -(-end // PIECE))
        }
        with self._lock:
            pieces = sorted(wanted & self._left)
            for piece, found in zip(pieces, checksums_of_pieces(self.data, pieces)):
                if found != self.checksums[piece]:
                    raise ValueError(self._damage(piece))
                self._left.discard(piece)

    def _damage(self, piece) -> str:
        begin, end = piece * PIECE, (piece + 1) * PIECE
        inside = [name for name, (a, b) in self.spans.items() if a < end and b > begin]
        return (
            f"{self.path} is damaged: {' or '.join(inside)} is not what was saved (checksum of "
            f"bytes {begin:,} to {min(end, self.data.size):,} behind the header). Copy or save the "
            "model again."
        )
