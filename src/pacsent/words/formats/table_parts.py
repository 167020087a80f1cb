"""What every reader shares: bytes plain or compressed, tables that grow, words and their checks."""

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent import progress
from pacsent.text.reading import Source
from pacsent.words.pieces import Pieces
from pacsent.words.subwords import Subwords
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

FORMATS = {
    "word2vec-text": "word2vec text (also fastText's .vec)",
    "word2vec-binary": "word2vec binary",
    "fasttext": "fastText .bin",
    "glove": "GloVe text",
    "static": "model2vec or sentence-transformers StaticEmbedding folder",
    "pacsent": "pacsent folder",
}
CONTEXT = "context_"  # FILE holds the input table, context_FILE the output table
BLOCK = 1 << 24  # bytes read at once
PEEK = 1 << 16  # bytes looked at to recognise a file
LONGEST_WORD = 10_000  # bytes; what is longer is not a word but a misread table
HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t]*\r?\n")
_MARK = b"\xef\xbb\xbf"  # some editors put it before UTF-8 text


def invalid(path: object, problem: str) -> ValueError:
    """The error for a file that is cut off or damaged."""
    return ValueError(f"{path} {problem}. Download or copy it again.")


def without_mark(start: bytes) -> bytes:
    """The bytes without the mark that begins some UTF-8 files."""
    return start.removeprefix(_MARK)


def is_number(field: bytes) -> bool:
    """Whether a field of a file is a number."""
    if b"_" in field:  # Python's float would take 1_0
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


class Stream:
    """A file's bytes in order, unpacked on the way, some of them looked at before they are read."""

    def __init__(self, path: Path, *, progress_bar: Any = None):
        self.path = path
        self._source = Source(path)
        self.size = None if self._source.kind else self._source.size  # of plain bytes, if known
        self._ahead = b""
        self._bar = progress_bar

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._source.close()

    def read(self, n: int) -> bytes:
        """n bytes, fewer only at the end."""
        if self._ahead:
            start, self._ahead = self._ahead[:n], self._ahead[n:]
            return start + self.read(n - len(start)) if len(start) < n else start
        data = self._source.read(n)
        if self._bar is not None:
            self._bar.update(self._source.consumed)
        return data

    def peek(self, n: int) -> bytes:
        if len(self._ahead) < n:
            ahead, self._ahead = self._ahead, b""
            self._ahead = ahead + self.read(n - len(ahead))
        return self._ahead[:n]

    def unread(self, data: bytes) -> None:
        self._ahead = data + self._ahead

    def exactly(self, n: int, what: str) -> bytes:
        data = self.read(n)
        if len(data) < n:
            raise invalid(self.path, f"is cut off: it ends inside {what}")
        return data

    def skip_mark(self) -> None:
        """Go past the mark that begins some UTF-8 files."""
        if self.peek(3) == _MARK:
            self.read(3)

    def blocks(self) -> Iterator[bytes]:
        while block := self.read(BLOCK):
            yield block


@contextlib.contextmanager
def opened(path: Path, options: "Options") -> Iterator["Stream"]:
    """A file to read, with progress where it is large."""
    total = os.path.getsize(path)
    enabled = options.verbose and total > 1 << 26
    with (
        progress.bar(f"reading {path.name}", total=total, unit="B", enabled=enabled) as bar,
        Stream(path, progress_bar=bar) as stream,
    ):
        yield stream


class Table:
    """A float32 table that grows with what is read, so that a wrong header costs no memory."""

    def __init__(
        self, n_dims: int, most: int | None = None, *, size: int | None = None, per_number: int = 4
    ):
        self.n_dims, self.most, self.n = n_dims, most, 0
        # all at once where a plain file of this size can hold that many rows
        n_rows = 0 if most is None or size is None else min(most, size // (per_number * n_dims))
        self._rows = np.empty((n_rows, n_dims), dtype=np.float32)

    def append(self, rows: np.ndarray) -> None:
        needed = self.n + len(rows)
        if needed > len(self._rows):
            n_rows = max(needed, len(self._rows) * 3 // 2, 1024)
            if self.most is not None:
                n_rows = max(needed, min(n_rows, self.most))
            self._rows.resize((n_rows, self.n_dims), refcheck=False)
        self._rows[self.n : needed] = rows
        self.n = needed

    def finish(self) -> np.ndarray:
        self._rows.resize((self.n, self.n_dims), refcheck=False)
        return self._rows


class Options(NamedTuple):
    """How a reader treats bytes that are not UTF-8 and words that come twice."""

    encoding_errors: str
    duplicates: str
    verbose: bool


class Parts:
    """What a reader found; becomes WordVectors."""

    def __init__(
        self,
        path: Path,
        raw_words: Sequence[bytes] | Sequence[str],
        table: Any,
        options: Options,
        *,
        output: Any = None,
        counts: np.ndarray | None = None,
    ):
        self.path, self.table, self.output, self.counts = path, table, output, counts
        self.training: dict = {}
        self.subwords: Subwords | None = None
        self.normalise: str | Pieces = "paper"  # where the caller does not say
        self.sentences: str | None = None
        self.words = decoded(path, raw_words, options.encoding_errors)
        self._drop_duplicates(options.duplicates)

    def _drop_duplicates(self, duplicates):
        if len(set(self.words)) == len(self.words):
            return
        first_row: dict[str, int] = {}
        for i, word in enumerate(self.words):
            first_row.setdefault(word, i)
        kept = list(first_row.values())
        repeated = [(word, i) for i, word in enumerate(self.words) if first_row[word] != i]
        word, row = repeated[0]
        if duplicates == "error":
            raise ValueError(
                f"The words of {self.path} must be different. Got {word!r} as number "
                f"{first_row[word] + 1:,} and number {row + 1:,} instead ({len(repeated):,} such). "
                "Pass duplicates='first' to keep the first vector of each."
            )
        shown = ", ".join(repr(word) for word, _ in repeated[:3])
        warnings.warn(
            f"{self.path}: {len(repeated):,} words occur again and were left out ({shown}).",
            stacklevel=4,
        )
        self.words = [self.words[i] for i in kept]
        self.table = self.table[kept]
        if self.output is not None:
            self.output = self.output[kept]
        if self.counts is not None:
            self.counts = np.asarray(self.counts)[kept]

    def word_vectors(self, normalise: Any, training: dict) -> WordVectors:
        """Whole and finite, or refused with the name of the file."""
        try:
            return WordVectors(
                Vocabulary(self.words, self.counts, normalise=normalise or self.normalise),
                self.table,
                self.output,
                training=training,
                subwords=self.subwords,
                sentences=self.sentences,
            ).check_finite()
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None


def decoded(path: str | os.PathLike, raw_words: Any, encoding_errors: str) -> list[str]:
    """Words from their bytes; words that are text already stay as they are."""
    if raw_words and isinstance(raw_words[0], str):
        return list(raw_words)
    with contextlib.suppress(UnicodeDecodeError):
        words = b"\n".join(raw_words).decode("utf-8").split("\n")
        if len(words) == len(raw_words):
            return words
    words, errors = [], "replace" if encoding_errors == "strict" else encoding_errors
    bad: list[tuple[int, bytes]] = []
    for number, raw in enumerate(raw_words, 1):
        try:
            words.append(raw.decode("utf-8"))
        except UnicodeDecodeError:
            bad.append((number, raw))
            words.append(raw.decode("utf-8", errors))
    if not bad:
        return words
    shown = ", ".join(f"{raw!r} (number {number:,})" for number, raw in bad[:3])
    if encoding_errors == "strict":
        raise ValueError(
            f"The words of {path} must be UTF-8. Got {len(bad):,} that are not: {shown}. "
            "word2vec.c cuts long words in the middle of a character: pass "
            "encoding_errors='replace' or 'backslashreplace' to read it all the same."
        )
    warnings.warn(
        f"{path}: {len(bad):,} words are not UTF-8 and were read with their bad bytes replaced: "
        f"{shown}.",
        stacklevel=4,
    )
    return words
