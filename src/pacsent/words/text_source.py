"""The text of a corpus: files or texts, checked once, and cut into chunks for counting threads."""

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent import progress
from pacsent.text import reading
from pacsent.text.encoded import Encoded
from pacsent.text.normalize import TOKENISERS
from pacsent.text.texts import as_sentences
from pacsent.words.text_encoding import as_ascii, iter_text_batches
from pacsent.words.vocabulary import TOKENIZER, Vocabulary

_CHUNK_BYTES = 1 << 18  # of a file that one thread takes at a time
_MAX_NAME_CHARACTERS = 4096  # of a string that may be the name of a file
_CHECKED_TEXTS = 10  # first texts that may turn out to be paths, or names of files

# What `TextSource.sample` reads: the beginnings of some files, evenly spread, or some texts.
_SAMPLED_FILES = 32
_SAMPLED_BYTES = 1 << 16  # of each file
_SAMPLED_TEXTS = 1000

# Where a chunk of a file may end: between words, so that a document of any length can be read.
_CHUNK_CUTTERS: dict[str | None, Callable[[bytes], int]] = {
    "paper": reading.cut_after_letters,
    **dict.fromkeys(TOKENISERS.keys() - {"paper"}, reading.cut_at_space),
    "wikifil": reading.cut_at_newline,  # markup may contain spaces
    TOKENIZER: reading.cut_at_newline,
    None: reading.cut_at_newline,  # a function may look at its whole document
}


class TextChunk(NamedTuple):
    """Text for one thread: bytes of a-z words, or documents for the tokeniser."""

    data: Any  # uint8 array, or list of documents
    bounds: np.ndarray | None  # where documents begin and end in the array
    n_ends: int  # documents that end here; the last one may continue in the next chunk
    n_characters: int = 0  # characters, or bytes, of an array
    n_foreign: int = 0  # those of them that are not ASCII


class TextSource:
    """The documents of a corpus: `paths` of files with one on each line, or `texts`.

    `source` is a path, a list of paths, or an iterable of str or of token lists, which is read
    once. It is checked here; the single texts are checked when they are read.
    """

    def __init__(self, source: Any):
        self.paths: list | None = None
        self.texts: Iterator = iter(())

        if isinstance(source, Encoded):
            raise TypeError(
                "The source must be texts. Got an Encoded instead, which holds numbers of words "
                "and not the words. Pass the texts themselves."
            )

        if isinstance(source, str | os.PathLike):
            self.paths = [Path(source)]
            return

        self.texts = iter(as_sentences(source, "The source"))
        head = self._first_texts(_CHECKED_TEXTS)
        if head and isinstance(head[0], os.PathLike):
            self.paths = list(self.texts)
        elif head and all(map(_is_name_of_file, head)):
            raise ValueError(
                f"The source must be texts, or Path objects for files. Got strings like "
                f"{head[0]!r}, which name files, instead. Pass [Path({head[0]!r}), ...]."
            )

    def _first_texts(self, n_texts: int) -> list:
        """The first texts, which stay in `texts`."""
        head = list(itertools.islice(self.texts, n_texts))
        self.texts = itertools.chain(head, self.texts)
        return head

    def sample(self) -> str:
        """Some of the text, by which a normalisation can be chosen; nothing is taken away."""
        if self.paths is not None:
            step = -(-len(self.paths) // _SAMPLED_FILES)
            return " ".join(map(_read_beginning, self.paths[::step]))
        return " ".join(map(_plain_text, self._first_texts(_SAMPLED_TEXTS)))

    def iter_chunks(self, vocabulary: Vocabulary, verbose: bool) -> Iterator[TextChunk]:
        """The whole text in chunks, for the tokeniser of `vocabulary`."""
        if self.paths is not None:
            return _iter_file_chunks(self.paths, vocabulary, verbose)
        return _iter_text_chunks(self.texts, vocabulary, verbose)


def _is_name_of_file(text: Any) -> bool:
    is_short = isinstance(text, str) and len(text) < _MAX_NAME_CHARACTERS
    return is_short and os.path.isfile(text)


def _plain_text(document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, list | tuple | np.ndarray):
        return " ".join(map(str, document))
    return ""  # not a document: counting its words says so


def _iter_file_chunks(paths: list, vocabulary: Vocabulary, verbose: bool) -> Iterator[TextChunk]:
    cutter = _CHUNK_CUTTERS[vocabulary.normalize_name]
    total = reading.total_size(paths)
    n_before = 0  # bytes of the files before this one

    with progress.bar("Counting words", total=total, unit="B", enabled=verbose) as bar:
        for path in paths:
            with reading.Source(path) as file:
                for offset, block in reading.iter_chunks(file, cutter, _CHUNK_BYTES):
                    if vocabulary.normalize == "paper":
                        yield _ascii_chunk(block)
                    else:
                        yield _lines_chunk(block, file.name, offset)
                    bar.update(n_before + file.consumed)
                n_before += file.consumed


def _ascii_chunk(block: bytes) -> TextChunk:
    """Part of a file for the compiled tokeniser of the paper's cleaning."""
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n")) + 1
    unfinished = [] if block.endswith(b"\n") else [data.size]
    bounds = np.concatenate([[0], ends, unfinished]).astype(np.int64)
    n_foreign = int(np.count_nonzero(data & 0x80))
    return TextChunk(data, bounds, ends.size, data.size, n_foreign)


def _lines_chunk(block: bytes, name: str, offset: int) -> TextChunk:
    """Part of a file, from byte `offset` of it on, as decoded lines."""
    try:
        lines = block.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        byte = block[error.start]
        raise ValueError(reading.not_utf8(name, offset + error.start, byte)) from None

    if offset == 0:
        lines[0] = lines[0].removeprefix("\ufeff")

    n_ends = len(lines) - 1
    if block.endswith(b"\n"):
        lines.pop()  # what follows the last end is the next chunk's
    documents = [line.removesuffix("\r") for line in lines]
    return TextChunk(documents, None, n_ends)


def _iter_text_chunks(
    texts: Iterable, vocabulary: Vocabulary, verbose: bool
) -> Iterator[TextChunk]:
    with progress.bar("Counting words", unit="documents", enabled=verbose) as bar:
        for batch, is_raw in iter_text_batches(texts):
            if is_raw and vocabulary.normalize == "paper":
                data, bounds = as_ascii(batch)
                n_ascii = len("".join(batch).encode("ascii", "ignore"))
                yield TextChunk(data, bounds, len(batch), data.size, data.size - n_ascii)
            else:
                yield TextChunk(batch, None, len(batch))
            bar.advance(len(batch))


def _read_beginning(path: str | os.PathLike) -> str:
    """Text that a file begins with, decompressed; of stdin what can be read without taking it."""
    file = None
    if str(path) == "-":
        stdin: Any = sys.stdin.buffer
        if stdin.seekable():
            position = stdin.tell()
            beginning = stdin.read(_SAMPLED_BYTES)
            stdin.seek(position)
        else:
            beginning = stdin.peek(_SAMPLED_BYTES)
        file = io.BytesIO(beginning)

    with contextlib.suppress(ValueError), reading.Source(path, file) as start:
        # The beginning of a compressed stream is cut: it can be decompressed in part only.
        n_bytes = 1 << 12 if start.kind and file else _SAMPLED_BYTES
        return start.read(n_bytes).decode("utf-8", "ignore")
    return ""  # damaged: reading it says so
