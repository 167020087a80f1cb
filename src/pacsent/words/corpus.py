"""`Corpus`: exact counts and memory-mapped token ids of a text of any size, for training."""

import contextlib
import hashlib
import io
import itertools
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent import progress, threads
from pacsent.arrays import frozen
from pacsent.files import check_output, replacing_folder
from pacsent.storage.checksums import checksum_of_json, file_record
from pacsent.text import reading
from pacsent.text.encoded import Encoded
from pacsent.text.normalize import DIGIT_NAMES, TOKENISERS, choose_normalize
from pacsent.text.texts import as_sentences
from pacsent.words.pieces import Pieces
from pacsent.words.text_encoding import as_ascii, iter_batches, unicode_ids
from pacsent.words.vocabulary import TOKENIZER, Vocabulary, digest_of, raw_bytes
from pacsent.words.word_table import joined, n_slots

logger = logging.getLogger(__name__)

_TOKENIZER_FILE = "tokenizer.json"  # of a corpus of pieces
_FILES = ("corpus.json", "vocabulary.tsv", "ids.i32", "offsets.i64", _TOKENIZER_FILE)
_CHUNK_BYTES = 1 << 18  # of a file that one thread takes at a time

# Where a chunk of a file may end: between words, so that a document of any length goes through.
_CUTS: dict[str | None, Callable[[bytes], int]] = {
    "paper": reading.cut_after_letters,
    **dict.fromkeys(TOKENISERS.keys() - {"paper"}, reading.cut_at_space),
    "wikifil": reading.cut_at_newline,  # markup may contain spaces
    TOKENIZER: reading.cut_at_newline,
    None: reading.cut_at_newline,  # a function may look at its whole document
}

# Fraction of a text that is not ASCII from which on a-z cannot be meant; of French it is 0.05.
_MAX_FOREIGN = 0.2
_SAMPLED_FILES = 32  # files, evenly spread, whose beginnings are looked at
_SAMPLED_BYTES = 1 << 16  # bytes of each of them
_SAMPLED_TEXTS = 1000  # the first texts of an iterable


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
        about = checked_json((self.directory / "corpus.json").read_bytes())
        if about is None:
            raise self._damaged("corpus.json")
        self.n_tokens, self.n_unknown = about["n_tokens"], about["n_unknown"]
        self.n_documents, self.min_count = about["n_documents"], about["min_count"]
        self.digest: str = about["digest"]
        self.chosen: str | None = about["chosen"]
        self.ids = self._map("ids.i32", "<i4", self.n_tokens)
        self.offsets = self._map("offsets.i64", "<i8", self.n_documents + 1)
        path = self.directory / "vocabulary.tsv"
        if not path.is_file() or file_record(path) != about["vocabulary"]:
            raise self._damaged("vocabulary.tsv")
        pairs = [line.rpartition(b"\t") for line in path.read_bytes().split(b"\n")[:-1]]
        words = [word.decode("utf-8", "surrogatepass") for word, _, _ in pairs]
        # built with a callable, which a file cannot hold, it has none
        normalize: Any = about["normalize"] or _missing_tokeniser
        if normalize == TOKENIZER:
            normalize = Pieces((self.directory / _TOKENIZER_FILE).read_text(encoding="utf-8"))
        self.vocabulary = Vocabulary(words, [int(n) for _, _, n in pairs], normalize=normalize)
        self._checked = False

    def check(self) -> None:
        """Read everything once and compare it with the digest; ValueError where it is damaged.

        Training does so first with a corpus that was opened: an id that is no word of the
        vocabulary would be read from foreign memory.
        """
        if self._checked:
            return
        of_ids = hashlib.sha256()
        for start in range(0, self.n_tokens, 1 << 20):
            ids = self.ids[start : start + (1 << 20)]
            of_ids.update(raw_bytes(ids, "<i4"))
            if ids.min() < 0 or ids.max() >= len(self.vocabulary):
                raise self._damaged("ids.i32")
        if digest_of(self.vocabulary, of_ids, self.offsets) != self.digest:
            raise self._damaged("ids.i32 or offsets.i64")
        self._checked = True

    def _damaged(self, name: str) -> ValueError:
        return ValueError(
            f"{name} of the corpus {self.directory} must be as it was written. Got something else "
            "instead. Build it again."
        )

    def _map(self, name: str, dtype: str, size: int) -> np.ndarray:
        path = self.directory / name
        if not path.is_file() or path.stat().st_size != size * np.dtype(dtype).itemsize:
            raise self._damaged(name)
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
        normalize: str | Callable[[str], list[str]] = "auto",
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
        normalize : "auto", a name or a callable, default="auto"
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
        if normalize == "auto":
            sample, source = _sample_text(source)
            normalize, chosen = choose_normalize(sample)
            logger.info(chosen)
        directory = Path(os.path.realpath(directory))
        is_empty = directory.is_dir() and not any(directory.iterdir())
        is_corpus = (directory / "corpus.json").is_file()
        if directory.exists() and not is_empty and not is_corpus:
            raise ValueError(
                f"The corpus must go to a new folder or replace an older corpus. Got {directory}, "
                "which holds something else, instead. Choose another name."
            )
        check_output(directory, overwrite=overwrite, folder=True)
        empty = Vocabulary([], normalize=normalize)  # checks and holds the normalisation
        with replacing_folder(directory, _FILES) as folder:
            builder = _CorpusBuilder(folder, empty, threads.n_threads(n_jobs), verbose)
            builder.count(source)
            about = builder.write(*builder.choose_words(int(min_count)))
            about |= {"format_version": 1, "min_count": int(min_count), "chosen": chosen}
            about["checksum"] = checksum_of_json(about)
            (folder / "corpus.json").write_text(json.dumps(about, indent=1) + "\n")
        corpus = cls(directory)
        # a callable is known here, if not to the file
        corpus.vocabulary = corpus.vocabulary.replace(normalize=normalize)
        corpus._checked = True  # what was just written
        return corpus


def checked_json(content: bytes) -> dict | None:
    """An object of JSON whose checksum and format version are right; None if it is damaged."""
    try:
        about = json.loads(content)
        intact = about.pop("checksum") == checksum_of_json(about) and about["format_version"] == 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return about if intact else None


def _missing_tokeniser(sentence: str) -> list[str]:
    raise ValueError(
        "Raw text needs the tokeniser this corpus was built with, a function, which a file cannot "
        "hold. Pass token lists, or set it: Vocabulary(words, counts, normalize=your_tokeniser)."
    )


class _TextChunk(NamedTuple):
    """Text for one thread: bytes of a-z words, or documents for the tokeniser."""

    data: Any  # uint8 array, or list of documents
    bounds: np.ndarray | None  # where documents begin and end in the array
    n_ends: int  # how many documents end here; the last one may continue in the next chunk


class _WordCounter:
    """One thread's words and counts."""

    def __init__(self):
        from pacsent.kernels import text_kernels as kernels

        self.kernels, self.room = kernels, kernels.places_and_keys()
        word_bytes, self.word_offsets = joined(DIGIT_NAMES)  # the kernel wants them first
        self.word_bytes = word_bytes.copy()
        self.n_words = len(DIGIT_NAMES)
        self.counts = np.zeros(self.n_words, dtype=np.int64)
        self.table = np.zeros((0, 2), dtype=np.uint64)

    def _make_room(self, n_words: int, n_bytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(hash table, bytes, offsets) of the words, made large enough for more."""
        need = self.n_words + n_words
        if self.counts.size < need:
            size = max(need, 2 * self.counts.size)
            self.counts = _grown(self.counts, size)
            self.word_offsets = _grown(self.word_offsets, size + 1)
        n_used = int(self.word_offsets[self.n_words])
        if self.word_bytes.size < n_used + n_bytes:
            size = max(n_used + n_bytes, 2 * self.word_bytes.size)
            self.word_bytes = _grown(self.word_bytes, size)
        if len(self.table) < n_slots(need):
            self.table = np.zeros((n_slots(need), 2), dtype=np.uint64)
            offsets = self.word_offsets[: self.n_words + 1]
            with np.errstate(over="ignore"):
                words = frozen(self.table), frozen(self.word_bytes), frozen(offsets)
                self.kernels.build_table(self.table, words)
        return self.table, self.word_bytes, self.word_offsets

    @np.errstate(over="ignore")  # the hash wraps around on purpose
    def count(self, chunk: _TextChunk, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the words of a chunk in this counter, and how many there are after each end."""
        if chunk.bounds is not None:
            ids = np.empty(chunk.data.size, dtype=np.int32)
            ends = np.empty(chunk.bounds.size - 1, dtype=np.int64)
            at = np.array([0, chunk.bounds[0], 0, self.n_words])
            done = False
            while not done:  # a thread has few of the words that a chunk could hold
                words = self._make_room(self.kernels.ROOM, chunk.data.size)
                done = self.kernels.count_paper(
                    chunk.data, chunk.bounds, words, self.counts, ids, ends, at, self.room
                )
                self.n_words = int(at[3])
            return ids[: at[2]], ends[: chunk.n_ends]
        if vocabulary.normalize == "unicode" and isinstance(chunk.data[0], str):
            ids, ends = unicode_ids(chunk.data, self.add_words)
        else:
            lists = [vocabulary.tokens(document) for document in chunk.data]
            ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
            ids = self.add_words(*joined(list(itertools.chain.from_iterable(lists))))
        self.counts += np.bincount(ids, minlength=self.counts.size)
        return ids, ends[: chunk.n_ends]

    def add_words(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Ids of words given one by one, new ones added."""
        words = self._make_room(starts.size - 1, data.size)
        with np.errstate(over="ignore"):
            ids, self.n_words = self.kernels.merge_words(data, starts, words, self.n_words)
        return ids


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([array, np.zeros(size - array.size, dtype=array.dtype)])


class _CorpusBuilder:
    """The two passes of Corpus.build: text to provisional ids, each thread its own; these to final
    ones."""

    def __init__(self, folder: Path, empty: Vocabulary, n_threads: int, verbose: bool):
        self.folder, self.empty, self.n_threads, self.verbose = folder, empty, n_threads, verbose
        self.counters = [_WordCounter() for _ in range(n_threads)]
        self.spans: list[tuple[int, int, int]] = []  # counter, ids and ends of each chunk
        self.n_characters = self.n_foreign = 0  # characters or bytes, and those that are not ASCII

    def count(self, source: Any) -> None:
        """Pass 1: all words get provisional ids, which are written to the folder."""
        free = list(range(self.n_threads))  # as many as threads work at a time

        def count_chunk(chunk):
            number = free.pop()
            try:
                return number, *self.counters[number].count(chunk, self.empty)
            finally:
                free.append(number)

        chunks = self._iter_chunks(source)
        with open(self.folder / "provisional", "wb") as file:
            for number, ids, ends in threads.in_order(count_chunk, chunks, self.n_threads):
                self.spans.append((number, ids.size, ends.size))
                file.write(ids.data)
                file.write(ends.data)

    def _iter_chunks(self, source: Any) -> Iterator[_TextChunk]:
        if isinstance(source, Encoded):
            raise TypeError(
                "The source must be texts. Got an Encoded instead, which holds numbers of words "
                "and not the words. Pass the texts themselves."
            )
        if isinstance(source, str | os.PathLike):
            source = [Path(source)]
        source = iter(as_sentences(source, "The source"))
        head = list(itertools.islice(source, 10))
        if head and isinstance(head[0], os.PathLike):
            cut, n_before, paths = _CUTS[self.empty.normalize_name], 0, [*head, *source]
            total = reading.total_size(paths)
            with progress.bar("Counting words", total=total, unit="B", enabled=self.verbose) as bar:
                for path in paths:
                    with reading.Source(path) as file:
                        for offset, block in reading.iter_chunks(file, cut, _CHUNK_BYTES):
                            yield self._file_chunk(block, file.name, offset)
                            bar.update(n_before + file.consumed)
                        n_before += file.consumed
            return
        names = [item for item in head if isinstance(item, str) and len(item) < 4096]
        if head and len(names) == len(head) and all(map(os.path.isfile, names)):
            raise ValueError(
                f"The source must be texts, or Path objects for files. Got strings like "
                f"{names[0]!r}, which name files, instead. Pass [Path({names[0]!r}), ...]."
            )
        with progress.bar("Counting words", unit="documents", enabled=self.verbose) as bar:
            for texts, raw in iter_batches(itertools.chain(head, source)):
                chunk = _TextChunk(texts, None, len(texts))
                if raw and self.empty.normalize == "paper":
                    chunk = _TextChunk(*as_ascii(texts), len(texts))
                    self.n_characters += chunk.data.size
                    plain = "".join(texts).encode("ascii", "ignore")
                    self.n_foreign += chunk.data.size - len(plain)
                yield chunk
                bar.advance(len(texts))

    def _file_chunk(self, block: bytes, name: str, offset: int) -> _TextChunk:
        closed = block.endswith(b"\n")
        if self.empty.normalize == "paper":
            data = np.frombuffer(block, dtype=np.uint8)
            self.n_characters += data.size
            self.n_foreign += int(np.count_nonzero(data & 0x80))
            ends = np.flatnonzero(data == ord("\n")) + 1
            bounds = np.concatenate([[0], ends, [] if closed else [data.size]]).astype(np.int64)
            return _TextChunk(data, bounds, ends.size)
        try:
            lines = block.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            byte = block[error.start]
            raise ValueError(reading.not_utf8(name, offset + error.start, byte)) from None
        if offset == 0:
            lines[0] = lines[0].removeprefix("\ufeff")
        n_ends = len(lines) - 1
        documents = [line.removesuffix("\r") for line in lines[: n_ends + (not closed)]]
        return _TextChunk(documents, None, n_ends)

    def choose_words(self, min_count: int) -> tuple[list[bytes], np.ndarray, list[np.ndarray], int]:
        """The words that are frequent enough and their counts, most frequent first; the final id of
        each word of each counter, -1 for rare ones; and the number of tokens read."""
        everything, *others = self.counters
        counts = everything.counts[: everything.n_words]
        numbers = [np.arange(everything.n_words)]
        for counter in others:
            starts = counter.word_offsets[: counter.n_words + 1]
            word_bytes = frozen(counter.word_bytes[: starts[-1]])
            numbers.append(everything.add_words(word_bytes, starts))
            counts = _grown(counts, everything.n_words)
            counts[numbers[-1]] += counter.counts[: counter.n_words]
        n_read = int(counts.sum())
        kept = np.flatnonzero(counts >= min_count)
        foreign = self.n_foreign / max(1, self.n_characters)
        cause = (
            f"normalize='paper' keeps the letters a-z and digits only, and {100 * foreign:.0f}% "
            "of this text is in other scripts or letters. Pass normalize='unicode'"
        )
        if not kept.size:
            advice = "Lower min_count or train on more text"
            raise ValueError(
                f"No word occurs at least min_count={min_count} times in these {n_read:,} tokens, "
                f"so the vocabulary would be empty. {cause if foreign > _MAX_FOREIGN else advice}."
            )
        if foreign > _MAX_FOREIGN:
            warnings.warn(f"Much of the text is dropped: {cause}.", stacklevel=3)
        data, offsets = everything.word_bytes.tobytes(), everything.word_offsets
        words = {int(i): data[offsets[i] : offsets[i + 1]] for i in kept}
        if isinstance(self.empty.normalize, Pieces):  # what stands for unknown is no word
            unknown = (self.empty.normalize.unknown or "").encode()
            words = {i: word for i, word in words.items() if word != unknown}
        if broken := [word for word in words.values() if b"\n" in word]:
            raise ValueError(
                "A token must be without newlines, as vocabulary.tsv has a word on each line. Got "
                f"{broken[0].decode('utf-8', 'replace')[:40]!r} instead. Split or strip the tokens."
            )
        kept = np.array(sorted(words, key=lambda i: (-counts[i], words[i])))
        final = np.full(counts.size, -1, dtype=np.int32)
        final[kept] = np.arange(kept.size)
        kept_words = [words[i] for i in kept.tolist()]
        return kept_words, counts[kept], [final[number] for number in numbers], n_read

    def write(
        self, words: list[bytes], counts: np.ndarray, final_ids: list[np.ndarray], n_read: int
    ) -> dict:
        """Pass 2: final ids in order, vocabulary and tokenizer; the contents of corpus.json."""
        renumber = self.counters[0].kernels.renumber
        n_tokens, n_documents, of_ids = 0, 0, hashlib.sha256()
        total = sum(n_ids for _, n_ids, _ in self.spans)
        with (
            open(self.folder / "provisional", "rb") as provisional,
            open(self.folder / "ids.i32", "wb") as ids_out,
            open(self.folder / "offsets.i64", "wb") as offsets_out,
            progress.bar("Writing ids", total=total, unit="tokens", enabled=self.verbose) as bar,
        ):
            offsets_out.write(np.zeros(1, "<i8").data)
            for number, n_ids, n_ends in self.spans:
                ids = np.fromfile(provisional, np.int32, n_ids)
                ends = np.fromfile(provisional, np.int64, n_ends)
                little_endian = raw_bytes(ids[: renumber(ids, ends, final_ids[number])], "<i4")
                of_ids.update(little_endian)
                ids_out.write(little_endian)
                offsets_out.write(raw_bytes(ends + n_tokens, "<i8"))
                n_tokens += len(little_endian)
                n_documents += n_ends
                bar.update(n_tokens)
        (self.folder / "provisional").unlink()
        with open(self.folder / "vocabulary.tsv", "wb") as file:
            file.writelines(b"%s\t%d\n" % pair for pair in zip(words, counts.tolist()))
        if isinstance(self.empty.normalize, Pieces):
            definition = self.empty.normalize.definition
            (self.folder / _TOKENIZER_FILE).write_text(definition, encoding="utf-8")
        sizes = np.array([0, *map(len, words)], dtype=np.int64)
        word_bytes = np.frombuffer(b"".join(words), dtype=np.uint8)
        arrays: dict = {"word_bytes": word_bytes, "word_offsets": np.cumsum(sizes)}
        offsets = np.memmap(self.folder / "offsets.i64", dtype="<i8", mode="r")
        return {
            "n_documents": n_documents,
            "n_tokens": n_tokens,
            "n_unknown": n_read - n_tokens,
            "normalize": self.empty.normalize_name,
            "digest": digest_of(Vocabulary.from_arrays(arrays), of_ids, offsets),
            "vocabulary": file_record(self.folder / "vocabulary.tsv"),
        }


def _sample_text(source: Any) -> tuple[str, Any]:
    """Some text of the source of a corpus, and the source with nothing taken away."""
    if isinstance(source, str | os.PathLike):
        return _start_of(source), source
    if isinstance(source, Encoded):
        return "", source  # rejected by the builder
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
