"""`Corpus`: exact counts and memory-mapped token ids of a text of any size, for training."""

import contextlib
import ctypes
import hashlib
import io
import itertools
import json
import logging
import os
import queue
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent import progress, threads
from pacsent.files import check_output, replacing_folder
from pacsent.maths.arrays import frozen
from pacsent.text import reading
from pacsent.text.encoded import Encoded
from pacsent.text.normalise import DIGIT_NAMES, TOKENISERS, choose_normalise
from pacsent.text.texts import as_sentences
from pacsent.words.pieces import Pieces
from pacsent.words.reading_ids import reader
from pacsent.words.text_encoding import as_ascii, iter_batches, unicode_ids
from pacsent.words.vocabulary import TOKENIZER, Vocabulary, digest_of, raw_bytes
from pacsent.words.word_table import joined, n_slots

logger = logging.getLogger(__name__)
_TOKENIZER_FILE = "tokenizer.json"  # of a corpus of pieces


class Corpus:
    """A text turned once into token ids on disk, memory-mapped: what every epoch reads.

    `Corpus.build` makes it, `Corpus.open` opens it. A line of a file is a document, whatever its
    length, and so is each text. Words rarer than `min_count` are left out of `ids` and counted in
    `n_unknown`. The folder holds corpus.json (the numbers below), vocabulary.tsv (word and count),
    ids.i32 and offsets.i64 (little-endian).

    Attributes
    ----------
    vocabulary : Vocabulary
        Most frequent first; words of equal count in the order of their UTF-8 bytes.
    ids, offsets : memmap of int32, (n_tokens,), and of int64, (n_documents + 1,)
        Document s is ids[offsets[s]:offsets[s + 1]].
    n_tokens, n_unknown, n_documents, min_count : int
        Tokens in `ids`; tokens of words that are not in the vocabulary; ...
    digest : str
        The same as `vocabulary.digest(documents)`.
    chosen : str or None
        How and why the normalisation was chosen from the text, where it was.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> corpus = Corpus.build(["a quiet film", "a good film"], folder / "corpus", min_count=1)
    >>> corpus.n_tokens, corpus.vocabulary.words[0]
    (6, 'a')
    """

    def __init__(self, directory: str | os.PathLike):
        self.directory = Path(directory)
        if not (self.directory / "corpus.json").is_file():
            raise FileNotFoundError(
                f"A corpus must be a folder with a corpus.json. Got {directory} instead. "
                "Make one with Corpus.build."
            )
        about = _read_metadata(self.directory / "corpus.json")
        self.n_tokens, self.n_unknown = about["n_tokens"], about["n_unknown"]
        self.n_documents, self.min_count = about["n_documents"], about["min_count"]
        self.digest: str = about["digest"]
        self.ids = self._mapped("ids.i32", "<i4", self.n_tokens)
        self.offsets = self._mapped("offsets.i64", "<i8", self.n_documents + 1)
        path = self.directory / "vocabulary.tsv"
        words, counts = _read_words(path)
        if sum(counts) != self.n_tokens:
            raise _damaged(path, f"counts that add up to {self.n_tokens:,}")
        self.chosen: str | None = about.get("chosen")
        # built with a callable, which a file cannot hold, it has none
        normalise: Any = about["normalise"] or _missing_tokeniser
        if normalise == TOKENIZER:
            normalise = Pieces((self.directory / _TOKENIZER_FILE).read_text(encoding="utf-8"))
        self.vocabulary = Vocabulary(words, counts, normalise=normalise)
        self._checked = False

    def check(self) -> None:
        """Read everything once and compare it with the digest; ValueError where it is damaged.

        Training does so first with a corpus that was opened: an id that is no word of the
        vocabulary would be read from foreign memory.
        """
        if self._checked:
            return
        of_ids, read = hashlib.sha256(), reader(self.ids)
        for start in range(0, self.n_tokens, 1 << 20):
            of_ids.update(raw_bytes(read(start, min(start + (1 << 20), self.n_tokens)), "<i4"))
        if digest_of(self.vocabulary, of_ids, self.offsets) != self.digest:
            raise _damaged(self.directory, "the words, ids and offsets that were written")
        self._checked = True

    def _mapped(self, name: str, dtype: str, size: int) -> np.ndarray:
        path, n_bytes = self.directory / name, size * np.dtype(dtype).itemsize
        n_found = path.stat().st_size if path.is_file() else 0
        if not path.is_file() or n_found != n_bytes:
            raise ValueError(
                f"{path} must have {n_bytes:,} bytes. Got {n_found:,} instead. The corpus is "
                "damaged: build it again."
            )
        return np.memmap(path, dtype=dtype, mode="r", shape=(size,)) if size else np.zeros(0, dtype)

    def __repr__(self) -> str:
        return (
            f"Corpus(n_documents={self.n_documents}, n_tokens={self.n_tokens}, "
            f"n_words={len(self.vocabulary)}, n_unknown={self.n_unknown})"
        )

    @classmethod
    def open(cls, directory: str | os.PathLike) -> "Corpus":
        """Open a corpus made by `build`."""
        return cls(directory)

    @classmethod
    def build(
        cls,
        source: Any,
        directory: str | os.PathLike,
        min_count: int = 5,
        normalise: str | Callable[[str], list[str]] = "auto",
        n_jobs: int | None = None,
        verbose: bool = False,
        overwrite: bool = False,
    ) -> "Corpus":
        """Count the words of a text of any size, give them ids, write the folder.

        The text is read once, tokenised on all cores into provisional ids on disk, and these are
        renumbered when the counts are known: exact, and of the text only a few pieces are ever in
        memory. What is held is every distinct word once for each thread. The folder is the same for
        any number of threads.

        Parameters
        ----------
        source : path, '-' for stdin, list of Path, or iterable of str or of token lists
            Files may be packed (.gz, .bz2, .xz, .zst). Of a file each line is a document, of an
            iterable each element.
        directory : path
            The folder to write; written under a hidden name and moved there when whole.
        min_count : int, default=5
            Words that occur less often are left out.
        normalise : "auto", a name or a callable, default="auto"
            "auto" looks at the beginning of the text: "paper" where its letters are a-z but for a
            few, else "unicode". `chosen` says which and why. The others: see `Vocabulary`.
        overwrite : bool, default=False
            Replace an older corpus there; anything else is left alone and the call refused.
        """
        if not isinstance(min_count, int | np.integer) or min_count < 1:
            raise ValueError(
                f"min_count must be an integer of at least 1. Got {min_count!r} instead."
            )
        chosen = None
        if normalise == "auto":
            sample, source = _sample_text(source)
            normalise, chosen = choose_normalise(sample)
            logger.info(chosen)
        empty = Vocabulary([], normalise=normalise)  # checks and holds the normalisation
        directory = Path(os.path.realpath(directory))
        is_empty = directory.is_dir() and not any(directory.iterdir())
        if not directory.exists() or (directory / "corpus.json").is_file():
            check_output(directory, overwrite=overwrite, folder=True)
        elif not is_empty:
            raise ValueError(
                f"The corpus must go to a new folder or replace an older corpus. Got {directory}, "
                "which holds something else, instead. Choose another name."
            )
        with (
            replacing_folder(directory) as folder,
            _CorpusBuilder(folder, empty, threads.n_threads(n_jobs)) as builder,
        ):
            builder.read(source, verbose)
            builder.write(int(min_count), verbose, chosen)
        del builder
        # what the threads have freed goes back to the system, where the C library does so if asked
        with contextlib.suppress(OSError, TypeError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        corpus = cls(directory)
        # a callable is known here, if not to the file
        corpus.vocabulary = corpus.vocabulary.replace(normalise=normalise)
        corpus._checked = True  # what was just written
        return corpus


_MINIMA = {"n_tokens": 0, "n_unknown": 0, "n_documents": 0, "min_count": 1}  # of corpus.json


def _damaged(path, what: str) -> ValueError:
    return ValueError(
        f"{path} must hold {what}. Got something else instead. The corpus is damaged: build it "
        "again."
    )


def _read_metadata(path: Path) -> dict:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        version = about.get("format_version")
    except (ValueError, RecursionError, AttributeError):
        raise _damaged(path, "one JSON object") from None
    if version != 1:
        raise ValueError(
            f"The corpus must have format version 1. Got {version!r} in {path.parent} instead. "
            "Build it again, or use the version of pacsent that made it."
        )
    for name, least in _MINIMA.items():
        value = about.get(name)
        if type(value) is not int or not least <= value < 1 << 48:
            raise _damaged(path, f"{name}, a whole number of at least {least}")
    if not isinstance(about.get("digest"), str):
        raise _damaged(path, "digest, a string")
    if about.get("normalise", "") not in (None, TOKENIZER, *TOKENISERS):
        raise _damaged(path, f"normalise, one of {sorted(TOKENISERS)} or null")
    if not isinstance(about.get("chosen"), str | None):
        raise _damaged(path, "chosen, a string or null")
    return about


def _read_words(path: Path) -> tuple[list[str], list[int]]:
    words, counts = [], []
    *lines, last = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        word, _, count = line.rpartition(b"\t")
        try:
            words.append(word.decode("utf-8", "surrogatepass"))
            counts.append(int(count))
        except ValueError:
            raise _damaged(path, f"a word and its count in line {number:,}") from None
    if last or len(set(words)) < len(words) or (counts and min(counts) < 1):
        raise _damaged(path, "different words and their counts, a line each")
    return words, counts


def _missing_tokeniser(sentence: str) -> list[str]:
    raise ValueError(
        "Raw text needs the tokeniser this corpus was built with, a function, which a file cannot "
        "hold. Pass token lists, or set it: Vocabulary(words, counts, normalise=your_tokeniser)."
    )


_CHUNK_BYTES = 1 << 18  # of a file that one thread takes at a time; three for each thread wait


class _TextChunk(NamedTuple):
    """A piece of the source for one thread: bytes of a-z words, or documents for the tokeniser."""

    data: Any  # uint8 array, or list of documents
    bounds: np.ndarray | None  # where documents begin and end in the array
    n_ends: int  # how many documents end here; the last one may go on in the next piece


class _Span(NamedTuple):
    """Where the provisional ids and the document ends of a piece are."""

    counter: int
    first_id: int
    n_ids: int
    first_end: int
    n_ends: int


class _WordCounter:
    """One thread's words, counts and files of provisional ids."""

    def __init__(self, number: int, folder: Path):
        from pacsent._kernels import text_kernels as kernels

        self.kernels, self.room = kernels, kernels.places_and_keys()
        self.number = number
        word_bytes, self.word_offsets = joined(DIGIT_NAMES)  # the kernel wants them first
        self.word_bytes = word_bytes.copy()
        self.n_words = len(DIGIT_NAMES)
        self.counts = np.zeros(self.n_words, dtype=np.int64)
        self.table = np.zeros((0, 2), dtype=np.uint64)
        self.n_ids = self.n_ends = 0
        self._piece_ids: np.ndarray | None = None
        self.ids_path = folder / f"ids.{number}"
        self.ends_path = folder / f"ends.{number}"
        self.ids_file = open(self.ids_path, "wb")  # noqa: SIM115 (closed by close)
        self.ends_file = open(self.ends_path, "wb")  # noqa: SIM115

    def close(self):
        self.ids_file.close()
        self.ends_file.close()

    def _make_room(self, n_words: int, n_bytes: int):
        """Make the arrays and the table large enough for more words."""
        need = self.n_words + n_words
        if self.counts.size < need:
            grown = max(need, 2 * self.counts.size)
            self.counts = _grown(self.counts, grown)
            self.word_offsets = _grown(self.word_offsets, grown + 1)
        n_used = int(self.word_offsets[self.n_words])
        if self.word_bytes.size < n_used + n_bytes:
            grown = max(n_used + n_bytes, 2 * self.word_bytes.size)
            self.word_bytes = _grown(self.word_bytes, grown)
        if len(self.table) < n_slots(need):
            self.table = np.zeros((n_slots(need), 2), dtype=np.uint64)
            offsets = self.word_offsets[: self.n_words + 1]
            with np.errstate(over="ignore"):
                words = frozen(self.table), frozen(self.word_bytes), frozen(offsets)
                self.kernels.build_table(self.table, words)

    @property
    def words(self):
        return self.table, self.word_bytes, self.word_offsets

    @np.errstate(over="ignore")  # the hash wraps around on purpose
    def add(self, work: _TextChunk, vocabulary: Vocabulary) -> _Span:
        """Provisional ids of a piece, to the files."""
        if work.bounds is not None:
            ids = np.empty(work.data.size, dtype=np.int32)
            ends = np.empty(work.bounds.size - 1, dtype=np.int64)
            at = np.array([0, work.bounds[0], 0, self.n_words])
            done = False
            while not done:  # a thread has few of the words that a piece could hold
                self._make_room(self.kernels.ROOM, work.data.size)
                done = self.kernels.count_paper(
                    work.data, work.bounds, self.words, self.counts, ids, ends, at, self.room
                )
                self.n_words = int(at[3])
            ids = ids[: at[2]]
        else:
            if vocabulary.normalise == "unicode" and isinstance(work.data[0], str):
                ids, ends = unicode_ids(work.data, self.add_words)
            elif isinstance(vocabulary.normalise, Pieces) and isinstance(work.data[0], str):
                numbers, ends = vocabulary.normalise.numbers(work.data)
                if self._piece_ids is None:  # tokens that never occur are dropped by their count
                    tokens = vocabulary.normalise.token_ids
                    self._piece_ids = np.full(max(tokens.values()) + 1, -1, dtype=np.int32)
                    self._piece_ids[list(tokens.values())] = self.add_words(*joined(list(tokens)))
                ids = self._piece_ids[numbers]
            else:
                lists = [vocabulary.tokens(document) for document in work.data]
                ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
                ids = self.add_words(*joined(list(itertools.chain.from_iterable(lists))))
            self.counts += np.bincount(ids, minlength=self.counts.size)
        span = _Span(self.number, self.n_ids, ids.size, self.n_ends, work.n_ends)
        self.ids_file.write(ids.data)
        self.ends_file.write(ends[: work.n_ends].data)
        self.n_ids += ids.size
        self.n_ends += work.n_ends
        return span

    def add_words(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Ids of words given one by one, new ones added."""
        self._make_room(starts.size - 1, data.size)
        with np.errstate(over="ignore"):
            ids, self.n_words = self.kernels.merge_words(data, starts, self.words, self.n_words)
        return ids


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: array.size] = array
    return grown


class _CorpusBuilder:
    """The two passes of Corpus.build: text to provisional ids, these to final ones."""

    def __init__(self, folder: Path, empty: Vocabulary, n_threads: int):
        self.folder, self.empty, self.n_threads = folder, empty, n_threads
        self.counters = [_WordCounter(i, folder) for i in range(n_threads)]
        self.spans: list[_Span] = []
        self.n_documents = 0
        self.n_read = self.n_foreign = 0  # characters or bytes, and those that are not ASCII

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for counter in self.counters:
            counter.close()
            counter.ids_path.unlink(missing_ok=True)
            counter.ends_path.unlink(missing_ok=True)

    def read(self, source, verbose: bool):
        """Pass 1: words get provisional ids, each thread its own."""
        free: queue.SimpleQueue = queue.SimpleQueue()
        for counter in self.counters:
            free.put(counter)

        def add(work):
            counter = free.get()
            try:
                return counter.add(work, self.empty)
            finally:
                free.put(counter)

        for span in threads.in_order(add, self._chunks(source, verbose), self.n_threads):
            self.spans.append(span)
            self.n_documents += span.n_ends
        for counter in self.counters:
            counter.close()

    def _chunks(self, source, verbose: bool) -> Iterator[_TextChunk]:
        if isinstance(source, str | os.PathLike):
            yield from self._files([source], verbose)
            return
        if isinstance(source, Encoded):
            raise TypeError(
                "The source must be texts. Got an Encoded instead, which holds numbers of words "
                "and not the words. Pass the texts themselves."
            )
        source = iter(as_sentences(source, "The source"))
        first = next(source, None)
        if isinstance(first, os.PathLike):
            yield from self._files([first, *source], verbose)
            return
        head = [] if first is None else [first, *itertools.islice(source, 9)]
        names = [item for item in head if isinstance(item, str) and len(item) < 4096]
        if head and len(names) == len(head) and all(map(os.path.isfile, names)):
            raise ValueError(
                f"The source must be texts, or Path objects for files. Got strings like "
                f"{first!r}, which name files, instead. Pass [Path({first!r}), ...] to read them."
            )
        with progress.bar("Counting words", unit="documents", enabled=verbose) as bar:
            for batch in iter_batches(itertools.chain(head, source)):
                n = len(batch.sentences)
                if batch.raw and self.empty.normalise == "paper":
                    work = _TextChunk(*as_ascii(batch.sentences), n)
                    self.n_read += work.data.size
                    others = (text for text in batch.sentences if not text.isascii())
                    self.n_foreign += sum(letter > "\x7f" for text in others for letter in text)
                    yield work
                else:
                    yield _TextChunk(batch.sentences, None, n)
                bar.advance(n)

    def _files(self, paths: list, verbose: bool) -> Iterator[_TextChunk]:
        cut = _CUTS[self.empty.normalise_name]
        total = reading.total_size(paths)
        with progress.bar("Counting words", total=total, unit="B", enabled=verbose) as bar:
            n_before = 0
            for path in paths:
                with reading.Source(path) as source:
                    for offset, piece in reading.iter_chunks(source, cut, _CHUNK_BYTES):
                        yield self._work(piece, source.name, offset)
                        bar.update(n_before + source.consumed)
                    n_before += source.consumed

    def _work(self, piece: bytes, name: str, offset: int) -> _TextChunk:
        closed = piece.endswith(b"\n")
        if self.empty.normalise == "paper":
            data = np.frombuffer(piece, dtype=np.uint8)
            self.n_read += data.size
            self.n_foreign += int(np.count_nonzero(data & 0x80))
            ends = np.flatnonzero(data == ord("\n")) + 1
            bounds = np.concatenate([[0], ends, [] if closed else [data.size]]).astype(np.int64)
            return _TextChunk(data, bounds, ends.size)
        try:
            lines = piece.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            byte = piece[error.start]
            raise ValueError(reading.not_utf8(name, offset + error.start, byte)) from None
        if offset == 0:
            lines[0] = lines[0].removeprefix("\ufeff")
        n_ends = len(lines) - 1
        documents = [line.removesuffix("\r") for line in lines[: n_ends + (not closed)]]
        return _TextChunk(documents, None, n_ends)

    def write(self, min_count: int, verbose: bool, chosen: str | None = None):
        """Pass 2: final ids in order, and everything else of the folder."""
        everything, *others = self.counters
        counts = everything.counts[: everything.n_words]
        numbers = [np.arange(everything.n_words)]
        for counter in others:
            starts = counter.word_offsets[: counter.n_words + 1]
            word_bytes = frozen(counter.word_bytes[: starts[-1]])
            numbers.append(everything.add_words(word_bytes, starts))
            counts = _grown(counts, everything.n_words)
            counts[numbers[-1]] += counter.counts[: counter.n_words]
        n_seen = int(counts.sum())
        kept = np.flatnonzero(counts >= min_count)
        foreign = self.n_foreign / max(1, self.n_read)
        cause = (
            f"normalise='paper' keeps the letters a-z and digits only, and {100 * foreign:.0f} % "
            "of this text is in other scripts or letters. Pass normalise='unicode'"
        )
        if not kept.size:
            advice = "Lower min_count or train on more text"
            raise ValueError(
                f"No word occurs at least min_count={min_count} times in these {n_seen:,} tokens, "
                f"so the vocabulary would be empty. {cause if foreign > _MAX_FOREIGN else advice}."
            )
        if foreign > _MAX_FOREIGN:
            warnings.warn(f"Much of the text is dropped: {cause}.", stacklevel=3)
        data = everything.word_bytes.tobytes()
        offsets = everything.word_offsets
        words = {int(i): data[offsets[i] : offsets[i + 1]] for i in kept}
        if isinstance(self.empty.normalise, Pieces):  # what stands for unknown is no word
            unknown = (self.empty.normalise.unknown or "").encode()
            words = {i: word for i, word in words.items() if word != unknown}
        del data
        kept = np.array(sorted(words, key=lambda i: (-counts[i], words[i])))
        ordered = [words[i] for i in kept.tolist()]
        final = np.full(counts.size, -1, dtype=np.int32)
        final[kept] = np.arange(kept.size)
        finals = [final[number] for number in numbers]

        if broken := [word for word in ordered if b"\n" in word]:
            raise ValueError(
                "A token must be without newlines, as vocabulary.tsv has a word on each line. Got "
                f"{broken[0].decode('utf-8', 'replace')[:40]!r} instead. Split or strip the tokens."
            )
        sizes = np.fromiter(map(len, ordered), np.int64, len(ordered))
        arrays = {
            "word_bytes": np.frombuffer(b"".join(ordered), dtype=np.uint8),
            "word_offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        }
        vocabulary = Vocabulary.from_arrays(arrays, self.empty.normalise)
        with open(self.folder / "vocabulary.tsv", "wb") as file:
            file.writelines(b"%s\t%d\n" % pair for pair in zip(ordered, counts[kept].tolist()))
        n_tokens, of_ids = self._write_ids(finals, verbose)
        all_offsets = np.memmap(self.folder / "offsets.i64", dtype="<i8", mode="r")
        about = {
            "format_version": 1,
            "n_documents": self.n_documents,
            "n_words": kept.size,
            "n_tokens": n_tokens,
            "n_unknown": n_seen - n_tokens,
            "min_count": min_count,
            "normalise": self.empty.normalise_name,
            "chosen": chosen,
            "digest": digest_of(vocabulary, of_ids, all_offsets),
        }
        (self.folder / "corpus.json").write_text(json.dumps(about, indent=1) + "\n")
        if isinstance(self.empty.normalise, Pieces):
            definition = self.empty.normalise.definition
            (self.folder / _TOKENIZER_FILE).write_text(definition, encoding="utf-8")

    def _write_ids(self, finals: list[np.ndarray], verbose: bool):
        """ids.i32 and offsets.i64; the number of tokens and the hash of the ids."""
        renumber = self.counters[0].kernels.renumber

        def pieces():
            for span in self.spans:
                counter = self.counters[span.counter]
                ids = np.fromfile(counter.ids_path, np.int32, span.n_ids, offset=4 * span.first_id)
                first = 8 * span.first_end
                ends = np.fromfile(counter.ends_path, np.int64, span.n_ends, offset=first)
                yield span.counter, ids, ends

        def final(piece):
            counter, ids, ends = piece
            return ids[: renumber(ids, ends, finals[counter])], ends

        n_tokens = 0
        of_ids = hashlib.sha256()
        total = sum(span.n_ids for span in self.spans)
        with (
            open(self.folder / "ids.i32", "wb") as ids_out,
            open(self.folder / "offsets.i64", "wb") as offsets_out,
            progress.bar("Writing ids", total=total, unit="tokens", enabled=verbose) as bar,
        ):
            offsets_out.write(np.zeros(1, "<i8").data)
            for ids, ends in threads.in_order(final, pieces(), self.n_threads):
                little = raw_bytes(ids, "<i4")
                of_ids.update(little)
                ids_out.write(little)
                offsets_out.write(raw_bytes(ends + n_tokens, "<i8"))
                n_tokens += ids.size
                bar.update(n_tokens)
        return n_tokens, of_ids


# where a piece of a file may end: between words, so that a document of any length goes through
_CUTS: dict[str | None, Callable[[bytes], int]] = {
    "paper": reading.cut_after_letters,
    **dict.fromkeys(TOKENISERS.keys() - {"paper"}, reading.cut_at_space),
    TOKENIZER: reading.cut_at_newline,
    None: reading.cut_at_newline,  # a function may look at its whole document
}

# Fraction of a text that is not ASCII from which on a-z cannot be meant; of French it is 0.05.
_MAX_FOREIGN = 0.2
_SAMPLED_FILES = 32  # files, evenly spread, whose beginnings are looked at
_SAMPLED_BYTES = 1 << 16  # bytes of each of them
_SAMPLED_TEXTS = 1000  # the first texts of an iterable


def _sample_text(source: Any) -> tuple[str, Any]:
    """Some text of the source of a corpus, and the source with nothing taken away."""
    if isinstance(source, str | os.PathLike):
        return _start_of(source), source
    if isinstance(source, Encoded):
        return "", source  # rejected by `_chunks`
    texts = iter(as_sentences(source, "The source"))
    head = list(itertools.islice(texts, _SAMPLED_TEXTS))
    if head and isinstance(head[0], os.PathLike):
        paths = [*head, *texts]
        return " ".join(map(_start_of, paths[:: -(-len(paths) // _SAMPLED_FILES)])), paths
    sample = " ".join(x if isinstance(x, str) else " ".join(map(str, x)) for x in head if x)
    return sample, itertools.chain(head, texts)


def _start_of(path: str | os.PathLike) -> str:
    """Text that a file begins with, unpacked; of stdin what can be looked at ahead of reading."""
    file = None
    if str(path) == "-":
        stdin: Any = sys.stdin.buffer
        if stdin.seekable():
            place = stdin.tell()
            ahead = stdin.read(_SAMPLED_BYTES)
            stdin.seek(place)
        else:
            ahead = stdin.peek(_SAMPLED_BYTES)
        file = io.BytesIO(ahead)
    with contextlib.suppress(ValueError), reading.Source(path, file) as start:
        n_bytes = 1 << 12 if start.kind and file else _SAMPLED_BYTES  # what was looked at is cut
        return start.read(n_bytes).decode("utf-8", "ignore")
    return ""  # damaged: reading it says so
