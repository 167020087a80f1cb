"""From text to the files of a `Corpus`, in two passes.

The first pass reads the text once: each thread gives its words provisional ids, which are written
to disk. Then the counts of all threads are added up, and words that are frequent enough get their
final ids. The second pass rewrites the ids on disk.
"""

import hashlib
import itertools
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent import progress
from pacsent.kernels import text as kernels
from pacsent.storage.checksums import file_record
from pacsent.threads import in_order
from pacsent.words.pieces import Pieces
from pacsent.words.text_encoding import list_ends, unicode_ids
from pacsent.words.text_source import TextChunk, TextSource
from pacsent.words.vocabulary import Vocabulary, digest_of, raw_bytes
from pacsent.words.word_table import concat_utf8, n_slots

TOKENIZER_FILE = "tokenizer.json"  # of a corpus of subwords
_PROVISIONAL_FILE = "provisional"

# Fraction of a text that is not ASCII from which on a-z cannot be meant; of French it is 0.05.
_MAX_FOREIGN = 0.2


def write_corpus(
    folder: Path,
    source: TextSource,
    vocabulary: Vocabulary,
    *,
    min_count: int,
    n_threads: int,
    verbose: bool,
) -> dict:
    """Write the files of a corpus but for corpus.json, whose contents are returned.

    `vocabulary` has no words; it knows the tokeniser.
    """
    counted = _count_words(folder, source, vocabulary, n_threads, verbose)
    kept = _choose_words(counted, vocabulary, min_count)
    ids = _write_ids(folder, counted, kept, verbose)
    _write_vocabulary(folder, vocabulary, kept)

    return {
        "n_documents": ids.n_documents,
        "n_tokens": ids.n_tokens,
        "n_unknown": counted.n_tokens - ids.n_tokens,
        "normalize": vocabulary.normalize_name,
        "digest": _digest(folder, kept, ids),
        "vocabulary": file_record(folder / "vocabulary.tsv"),
    }


# ---- First pass: words and counts, provisional ids ----------------------------------------------


class _WordCounter:
    """One thread's words and counts."""

    def __init__(self) -> None:
        names = kernels.DIGIT_NAMES  # `count_paper` wants them first
        name_bytes, self.word_offsets = concat_utf8(names)
        self.word_bytes = name_bytes.copy()
        self.n_words = len(names)
        self.counts = np.zeros(self.n_words, dtype=np.int64)
        self.table = np.zeros((0, 2), dtype=np.uint64)

    def _make_room(self, n_words: int, n_bytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(hash table, bytes, offsets) of the words, made large enough for more."""
        n_needed = self.n_words + n_words
        if self.counts.size < n_needed:
            size = max(n_needed, 2 * self.counts.size)
            self.counts = _resize(self.counts, size)
            self.word_offsets = _resize(self.word_offsets, size + 1)

        n_needed_bytes = int(self.word_offsets[self.n_words]) + n_bytes
        if self.word_bytes.size < n_needed_bytes:
            size = max(n_needed_bytes, 2 * self.word_bytes.size)
            self.word_bytes = _resize(self.word_bytes, size)

        n_needed_slots = n_slots(n_needed)
        if len(self.table) < n_needed_slots:
            offsets = self.word_offsets[: self.n_words + 1]
            self.table, _ = kernels.build_table(self.word_bytes, offsets, n_needed_slots)
        return self.table, self.word_bytes, self.word_offsets

    def count(self, chunk: TextChunk, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the words of a chunk in this counter, and how many there are after each end."""
        if chunk.bounds is not None:
            return self._count_bytes(chunk.data, chunk.bounds, chunk.n_ends)

        if vocabulary.normalize == "unicode" and isinstance(chunk.data[0], str):
            ids, ends = unicode_ids(chunk.data, self.add_words)
        else:
            lists = [vocabulary.tokens(document) for document in chunk.data]
            data, starts = concat_utf8(list(itertools.chain.from_iterable(lists)))
            ids = self.add_words(data, starts)
            ends = list_ends(lists)

        self.counts += np.bincount(ids, minlength=self.counts.size)
        return ids, ends[: chunk.n_ends]

    def _count_bytes(
        self, data: np.ndarray, bounds: np.ndarray, n_ends: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`count` by the compiled tokeniser of the paper's cleaning."""
        ids = np.empty(data.size, dtype=np.int32)
        ends = np.empty(bounds.size - 1, dtype=np.int64)

        # document, byte, number of ids, number of words: where the kernel is
        state = np.array([0, bounds[0], 0, self.n_words])
        is_done = False
        while not is_done:  # a thread has few of the words that a chunk could contain
            words = self._make_room(kernels.NEW_WORDS, data.size)
            is_done = kernels.count_paper(data, bounds, words, self.counts, ids, ends, state)
            self.n_words = int(state[3])

        n_ids = state[2]
        return ids[:n_ids], ends[:n_ends]

    def add_words(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Ids of words given one by one, new ones added."""
        words = self._make_room(starts.size - 1, data.size)
        ids, self.n_words = kernels.merge_words(data, starts, words, self.n_words)
        return ids


def _resize(array: np.ndarray, size: int) -> np.ndarray:
    """A longer copy of an array, with zeros at its end."""
    zeros = np.zeros(size - array.size, dtype=array.dtype)
    return np.concatenate([array, zeros])


class _CountedChunk(NamedTuple):
    """A chunk in the file of provisional ids."""

    counter: int  # whose ids they are
    n_ids: int
    n_ends: int


class _CountedText(NamedTuple):
    """Result of the first pass."""

    counters: list[_WordCounter]
    chunks: list[_CountedChunk]
    counts: np.ndarray  # (n_words,), of the words of `counters[0]`, which has those of all
    numbers: list[np.ndarray]  # for each counter, the id in `counters[0]` of each of its words
    foreign_fraction: float  # of characters that are not ASCII

    @property
    def n_tokens(self) -> int:
        return int(self.counts.sum())


def _count_words(
    folder: Path, source: TextSource, vocabulary: Vocabulary, n_threads: int, verbose: bool
) -> _CountedText:
    """Give all words provisional ids, which are written to the folder, and count them."""
    counters = [_WordCounter() for _ in range(n_threads)]
    free_counters = list(range(n_threads))  # as many as threads work at a time

    def count_chunk(chunk: TextChunk) -> tuple[TextChunk, int, np.ndarray, np.ndarray]:
        number = free_counters.pop()
        try:
            ids, ends = counters[number].count(chunk, vocabulary)
        finally:
            free_counters.append(number)
        return chunk, number, ids, ends

    counted_chunks = []
    n_characters = 0
    n_foreign = 0
    with open(folder / _PROVISIONAL_FILE, "wb") as file:
        chunks = source.iter_chunks(vocabulary, verbose)
        for chunk, number, ids, ends in in_order(count_chunk, chunks, n_threads):
            counted_chunks.append(_CountedChunk(number, ids.size, ends.size))
            n_characters += chunk.n_characters
            n_foreign += chunk.n_foreign
            file.write(ids.data)
            file.write(ends.data)

    counts, numbers = _add_counts(counters)
    foreign_fraction = n_foreign / max(1, n_characters)
    return _CountedText(counters, counted_chunks, counts, numbers, foreign_fraction)


def _add_counts(counters: list[_WordCounter]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Add the words and counts of all counters to the first one: `counts`, `numbers`."""
    total, *others = counters
    counts = total.counts[: total.n_words]
    numbers = [np.arange(total.n_words)]

    for counter in others:
        starts = counter.word_offsets[: counter.n_words + 1]
        word_bytes = counter.word_bytes[: starts[-1]]
        ids = total.add_words(word_bytes, starts)  # (counter.n_words,)
        counts = _resize(counts, total.n_words)
        counts[ids] += counter.counts[: counter.n_words]
        numbers.append(ids)

    return counts, numbers


# ---- Between the passes: the words that are kept ------------------------------------------------


class _KeptWords(NamedTuple):
    """The words of the vocabulary, most frequent first."""

    words: list[bytes]
    counts: np.ndarray
    final_ids: list[np.ndarray]  # for each counter, of each of its words; -1 for one not kept


def _choose_words(counted: _CountedText, vocabulary: Vocabulary, min_count: int) -> _KeptWords:
    """The words that occur at least `min_count` times."""
    frequent_ids = np.flatnonzero(counted.counts >= min_count)
    _check_enough_words(counted, frequent_ids.size, min_count)

    all_words = counted.counters[0]
    data = all_words.word_bytes.tobytes()
    offsets = all_words.word_offsets
    words = {int(i): data[offsets[i] : offsets[i + 1]] for i in frequent_ids}

    if isinstance(vocabulary.normalize, Pieces):
        # The token that stands for unknown subwords is no word.
        unknown = (vocabulary.normalize.unknown or "").encode()
        words = {i: word for i, word in words.items() if word != unknown}

    for word in words.values():
        if b"\n" in word:
            shown = word.decode("utf-8", "replace")[:40]
            raise ValueError(
                "A token must be without newlines, as vocabulary.tsv has a word on each line. Got "
                f"{shown!r} instead. Split or strip the tokens."
            )

    # Most frequent first; words of equal count in the order of their bytes.
    order = np.array(sorted(words, key=lambda i: (-counted.counts[i], words[i])))
    final_ids = np.full(counted.counts.size, -1, dtype=np.int32)
    final_ids[order] = np.arange(order.size)
    return _KeptWords(
        words=[words[i] for i in order.tolist()],
        counts=counted.counts[order],
        final_ids=[final_ids[numbers] for numbers in counted.numbers],
    )


def _check_enough_words(counted: _CountedText, n_words: int, min_count: int) -> None:
    """Raise ValueError if no word is frequent; warn if the tokeniser drops much of the text."""
    foreign_percentage = 100 * counted.foreign_fraction
    cause = (
        "normalize='paper' keeps the letters a-z and digits only, and "
        f"{foreign_percentage:.0f}% of this text is in other scripts or letters. Pass "
        "normalize='unicode'"
    )
    is_foreign = counted.foreign_fraction > _MAX_FOREIGN

    if n_words == 0:
        advice = cause if is_foreign else "Lower min_count or train on more text"
        raise ValueError(
            f"No word occurs at least min_count={min_count} times in these {counted.n_tokens:,} "
            f"tokens, so the vocabulary would be empty. {advice}."
        )
    if is_foreign:
        warnings.warn(f"Much of the text is dropped: {cause}.", stacklevel=5)


# ---- Second pass: final ids ---------------------------------------------------------------------


class _WrittenIds(NamedTuple):
    n_documents: int
    n_tokens: int
    sha256: "hashlib._Hash"  # of the ids


def _write_ids(folder: Path, counted: _CountedText, kept: _KeptWords, verbose: bool) -> _WrittenIds:
    """Replace the provisional ids by final ones, in order: ids.i32 and offsets.i64."""
    n_tokens = 0
    n_documents = 0
    sha256 = hashlib.sha256()
    n_provisional = sum(chunk.n_ids for chunk in counted.chunks)
    with (
        open(folder / _PROVISIONAL_FILE, "rb") as provisional,
        open(folder / "ids.i32", "wb") as ids_file,
        open(folder / "offsets.i64", "wb") as offsets_file,
        progress.bar("Writing ids", total=n_provisional, unit="tokens", enabled=verbose) as bar,
    ):
        offsets_file.write(np.zeros(1, "<i8").data)

        for chunk in counted.chunks:
            ids = np.fromfile(provisional, np.int32, chunk.n_ids)
            ends = np.fromfile(provisional, np.int64, chunk.n_ends)
            n_kept = kernels.renumber(ids, ends, kept.final_ids[chunk.counter])

            id_bytes = raw_bytes(ids[:n_kept], "<i4")
            sha256.update(id_bytes)
            ids_file.write(id_bytes)
            offsets_file.write(raw_bytes(ends + n_tokens, "<i8"))

            n_tokens += n_kept
            n_documents += chunk.n_ends
            bar.update(n_tokens)

    (folder / _PROVISIONAL_FILE).unlink()
    return _WrittenIds(n_documents, int(n_tokens), sha256)


def _write_vocabulary(folder: Path, vocabulary: Vocabulary, kept: _KeptWords) -> None:
    with open(folder / "vocabulary.tsv", "wb") as file:
        for word, count in zip(kept.words, kept.counts.tolist()):
            file.write(b"%s\t%d\n" % (word, count))

    if isinstance(vocabulary.normalize, Pieces):
        definition = vocabulary.normalize.definition
        (folder / TOKENIZER_FILE).write_text(definition, encoding="utf-8")


def _digest(folder: Path, kept: _KeptWords, ids: _WrittenIds) -> str:
    """The digest of the corpus: of its words, ids and offsets."""
    lengths = np.array([0, *map(len, kept.words)], dtype=np.int64)
    words = Vocabulary.from_arrays(
        {
            "word_bytes": np.frombuffer(b"".join(kept.words), dtype=np.uint8),
            "word_offsets": np.cumsum(lengths),
        }
    )
    offsets = np.memmap(folder / "offsets.i64", dtype="<i8", mode="r")
    return digest_of(words, ids.sha256, offsets)
