"""Digests that tell damage: of a large file in pieces, of a small one, of a description.

They find what disks, copies and slips of the hand do to a file that was saved: a flipped bit, a
part of another file, an edited number. They are no signature: whoever means harm can write new
ones. Large files are checked piece by piece on all cores, when they are first used.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from pacsent.threads import in_order

PIECE = 1 << 24  # bytes that share a digest


def digest(data: Any) -> str:
    """The first 128 bits of the sha256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()[:32]


def digest_of_json(value: object) -> str:
    """Of the content, whatever the order of the keys and the white space of the file.

    Examples
    --------
    >>> digest_of_json({'a': 1, 'b': 2}) == digest_of_json({'b': 2, 'a': 1})
    True
    """
    return digest(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


class Pieces:
    """Digests of bytes that come block by block, one for each PIECE of them."""

    def __init__(self):
        self.digests: list[str] = []
        self._sha, self._room = hashlib.sha256(), PIECE

    def update(self, block: Any) -> None:
        block = memoryview(block)
        while len(block):
            some, block = block[: self._room], block[self._room :]
            self._sha.update(some)
            self._room -= len(some)
            if not self._room:
                self._close()

    def finish(self) -> list[str]:
        if self._room < PIECE:
            self._close()
        return self.digests

    def _close(self):
        self.digests.append(self._sha.hexdigest()[:32])
        self._sha, self._room = hashlib.sha256(), PIECE


class Seal:
    """Checks the pieces of a mapped file against the digests it was saved with, each piece once.

    Parameters
    ----------
    path : path
        Names the file in messages.
    data : array of uint8
        The bytes that the digests are of, mapped.
    digests : list of str
        One for each PIECE.
    spans : dict of str to (int, int)
        Where in `data` each tensor lies.
    """

    def __init__(self, path: str | os.PathLike, data: np.ndarray, digests: list[str], spans: dict):
        self.path, self.data, self.digests, self.spans = path, data, digests, spans
        self._left = set(range(len(digests)))
        self._lock = threading.Lock()

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Raise ValueError unless these tensors (all when left out) are as they were saved."""
        spans = self.spans if names is None else {name: self.spans[name] for name in names}
        wanted = {
            piece
            for begin, end in spans.values()
            for piece in range(begin // PIECE, -(-end // PIECE))
        }
        with self._lock:
            pieces = sorted(wanted & self._left)
            found = in_order(lambda i: digest(self.data[i * PIECE : (i + 1) * PIECE]), pieces, None)
            for piece, value in zip(pieces, found):
                if value != self.digests[piece]:
                    raise ValueError(self._damage(piece))
                self._left.discard(piece)

    def _damage(self, piece) -> str:
        begin, end = piece * PIECE, (piece + 1) * PIECE
        inside = [name for name, (a, b) in self.spans.items() if a < end and b > begin]
        return (
            f"{self.path} is damaged: {' or '.join(inside)} is not what was saved (digest of bytes "
            f"{begin:,} to {min(end, self.data.size):,} behind the header). Copy or save the model "
            "again."
        )
