"""`Corpus`: exact counts and memory-mapped token ids of a text of any size, for training."""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.files import check_output, replacing_folder
from pacsent.storage.checksums import checked_json, checksum_of_json, file_record
from pacsent.text.normalize import choose_normalize
from pacsent.threads import n_threads
from pacsent.words.corpus_building import TOKENIZER_FILE, write_corpus
from pacsent.words.pieces import Pieces
from pacsent.words.text_source import TextSource
from pacsent.words.vocabulary import TOKENIZER, Vocabulary, digest_of, raw_bytes

logger = logging.getLogger(__name__)

_FILES = ("corpus.json", "vocabulary.tsv", "ids.i32", "offsets.i64", TOKENIZER_FILE)
_CHECKED_IDS = 1 << 20  # read at once by `Corpus.check`


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

        self.n_tokens: int = about["n_tokens"]
        self.n_unknown: int = about["n_unknown"]
        self.n_documents: int = about["n_documents"]
        self.min_count: int = about["min_count"]
        self.digest: str = about["digest"]
        # How and why the normalisation was chosen from the text; None if it was given.
        self.chosen: str | None = about["chosen"]
        self.ids = self._map("ids.i32", "<i4", self.n_tokens)
        self.offsets = self._map("offsets.i64", "<i8", self.n_documents + 1)
        self.vocabulary = self._read_vocabulary(about)
        self._checked = False

    def _read_vocabulary(self, about: dict) -> Vocabulary:
        """The words of vocabulary.tsv; `about` is the content of corpus.json."""
        path = self.directory / "vocabulary.tsv"
        if not path.is_file() or file_record(path) != about["vocabulary"]:
            raise self._damaged("vocabulary.tsv")

        words = []
        counts = []
        *lines, _ = path.read_bytes().split(b"\n")
        for line in lines:
            word, _, count = line.rpartition(b"\t")
            words.append(word.decode("utf-8", "surrogatepass"))
            counts.append(int(count))

        normalize: Any = about["normalize"]
        if normalize == TOKENIZER:
            definition = (self.directory / TOKENIZER_FILE).read_text(encoding="utf-8")
            normalize = Pieces(definition)
        elif not normalize:  # built with a callable, which a file cannot hold
            normalize = _missing_tokeniser
        return Vocabulary(words, counts, normalize=normalize)

    def check(self) -> None:
        """Read everything once and compare it with the digest; ValueError where it is damaged.

        Training does so first with a corpus that was opened: an id that is no word of the
        vocabulary would be read from foreign memory.
        """
        if self._checked:
            return

        of_ids = hashlib.sha256()
        for start in range(0, self.n_tokens, _CHECKED_IDS):
            ids = self.ids[start : start + _CHECKED_IDS]
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
        """The memory-mapped array of a file, which must be of this size."""
        path = self.directory / name
        n_bytes = size * np.dtype(dtype).itemsize
        if not path.is_file() or path.stat().st_size != n_bytes:
            raise self._damaged(name)
        if size == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        return np.memmap(path, dtype=dtype, mode="r", shape=(size,))

    def __repr__(self) -> str:
        return (
            f"Corpus(n_documents={self.n_documents}, n_tokens={self.n_tokens}, "
            f"n_words={len(self.vocabulary)}, n_unknown={self.n_unknown})"
        )

    @classmethod
    def open(cls, directory: str | os.PathLike) -> "Corpus":
        """Open a corpus made by `build`.

        Parameters
        ----------
        directory : path

        Returns
        -------
        corpus : Corpus
        """
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
        n_jobs : int or None, default=None
            Threads; None takes all cores.
        verbose : bool, default=False
            Show progress on stderr.
        overwrite : bool, default=False
            Replace an older corpus there; anything else is left alone and raises ValueError.

        Returns
        -------
        corpus : Corpus
        """
        if not isinstance(min_count, int | np.integer) or min_count < 1:
            raise ValueError(
                f"min_count must be an integer of at least 1. Got {min_count!r} instead."
            )

        directory = Path(os.path.realpath(directory))
        _check_replaceable(directory)
        check_output(directory, overwrite=overwrite, folder=True)

        text_source = TextSource(source)
        reason = None
        if normalize == "auto":
            normalize, reason = choose_normalize(text_source.sample())
            logger.info(reason)
        empty = Vocabulary([], normalize=normalize)  # checks and holds the normalisation

        with replacing_folder(directory, _FILES) as folder:
            about = write_corpus(
                folder,
                text_source,
                empty,
                min_count=int(min_count),
                n_threads=n_threads(n_jobs),
                verbose=verbose,
            )
            about |= {"format_version": 1, "min_count": int(min_count), "chosen": reason}
            about["checksum"] = checksum_of_json(about)
            (folder / "corpus.json").write_text(json.dumps(about, indent=1) + "\n")

        corpus = cls(directory)
        # A callable is known here, if not to the file.
        corpus.vocabulary = corpus.vocabulary.replace(normalize=normalize)
        corpus._checked = True  # just written
        return corpus


def _check_replaceable(directory: Path) -> None:
    """Raise ValueError if a folder holds anything but a corpus."""
    is_empty = directory.is_dir() and not any(directory.iterdir())
    is_corpus = (directory / "corpus.json").is_file()
    if directory.exists() and not is_empty and not is_corpus:
        raise ValueError(
            f"The corpus must go to a new folder or replace an older corpus. Got {directory}, "
            "which holds something else, instead. Choose another name."
        )


def _missing_tokeniser(sentence: str) -> list[str]:
    raise ValueError(
        "Raw text needs the tokeniser this corpus was built with, a function, which a file cannot "
        "hold. Pass token lists, or set it: Vocabulary(words, counts, normalize=your_tokeniser)."
    )
