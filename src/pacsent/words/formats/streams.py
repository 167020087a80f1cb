"""Shared by all readers: bytes plain or compressed, tables that grow, and contents of files."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pacsent import progress
from pacsent.text.reading import Source
from pacsent.words.pieces import Pieces
from pacsent.words.subwords import Subwords

BLOCK_BYTES = 1 << 24  # read at once
MAX_WORD_BYTES = 10_000  # what is longer is not a word but a misread table
_MIN_SHOWN_BYTES = 1 << 26  # of a file whose reading shows progress


def invalid(path: object, problem: str) -> ValueError:
    """The error for a file that is cut off or damaged."""
    return ValueError(f"{path} {problem}. Download or copy it again.")


class Stream:
    """A file's bytes in order, unpacked on the way, some of them looked at before they are read."""

    def __init__(self, source: Source, bar: progress.Bar):
        self.path = source.name
        self._source = source
        self._bar = bar
        self._ahead = b""

    def read(self, n: int = BLOCK_BYTES) -> bytes:
        """n bytes, fewer only at the end."""
        data = self._ahead[:n]
        self._ahead = self._ahead[n:]
        if len(data) < n:
            data += self._source.read(n - len(data))
            self._bar.update(self._source.consumed)
        return data

    def peek(self, n: int) -> bytes:
        """The next n bytes, which stay to be read."""
        data = self.read(n)
        self.unread(data)
        return data

    def unread(self, data: bytes) -> None:
        """Put bytes back, to be read next."""
        self._ahead = data + self._ahead

    def exactly(self, n: int, what: str) -> bytes:
        """n bytes; ValueError if the file ends inside `what`."""
        data = self.read(n)
        if len(data) < n:
            raise invalid(self.path, f"is cut off: it ends inside {what}")
        return data


@contextlib.contextmanager
def open_stream(path: Path, verbose: bool = False) -> Iterator[Stream]:
    """A file to read from behind its byte order mark, if it has one; with progress if large."""
    with Source(path) as source:
        size = os.path.getsize(path)
        shown = verbose and size > _MIN_SHOWN_BYTES
        with progress.bar(f"reading {path.name}", total=size, unit="B", enabled=shown) as bar:
            stream = Stream(source, bar)
            beginning = stream.read(3)
            stream.unread(beginning.removeprefix(b"\xef\xbb\xbf"))
            yield stream


class GrowingTable:
    """A float32 table that grows with what is read, so that a wrong header costs no memory."""

    def __init__(self, n_dims: int):
        self.n_dims = n_dims
        self.n_rows = 0
        self._rows = np.empty((0, n_dims), dtype=np.float32)

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end."""
        n_needed = self.n_rows + len(rows)
        if n_needed > len(self._rows):
            # Memory that was never written to takes no room, and the system moves large arrays
            # without a copy.
            n_reserved = max(n_needed, len(self._rows) * 3 // 2)
            self._rows.resize((n_reserved, self.n_dims), refcheck=False)

        self._rows[self.n_rows : n_needed] = rows
        self.n_rows = n_needed

    def finish(self) -> np.ndarray:
        """The table, (n_rows, n_dims); nothing can be added after it."""
        self._rows.resize((self.n_rows, self.n_dims), refcheck=False)
        return self._rows


@dataclass
class FileContents:
    """Result of a reader: words (bytes, or str if they were decoded) and all that is known."""

    words: Sequence
    table: np.ndarray
    output: np.ndarray | None = None
    counts: np.ndarray | None = None
    training: dict[str, Any] = field(default_factory=dict)
    subwords: Subwords | None = None
    normalize: str | Pieces = "paper"  # if the caller does not choose
    sentences: str | None = None
