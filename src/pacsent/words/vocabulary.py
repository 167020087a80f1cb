"""`Vocabulary`: words, their counts, and the way from sentences to token ids or count matrices."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pacsent.text.encoded import Encoded
from pacsent.text.normalize import TOKENISERS
from pacsent.text.texts import as_sentences
from pacsent.words.noise import noise_probabilities
from pacsent.words.pieces import Pieces
from pacsent.words.text_encoding import encode_texts
from pacsent.words.word_table import WordTable, is_memory_mapped

if TYPE_CHECKING:
    from scipy import sparse

UNKNOWN = ("drop", "pieces")
TOKENIZER = "tokenizer"  # how a file names `Pieces`, which it holds beside


class Frozen:
    """Public attributes are set once, in the constructor."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and (name in vars(self) or hasattr(type(self), name)):
            raise AttributeError(
                f"can't set {name!r}: {type(self).__name__} is frozen. Make another by `replace`."
            )
        super().__setattr__(name, value)


class Vocabulary(Frozen):
    """Words and their counts, most frequent first; frozen.

    Parameters
    ----------
    words : sequence of str
        The words, all different; position is the token id.
    counts : array of int, shape (n_words,), or None
        How often each occurred in the source corpus. None when unknown: never invented.
    normalize : str or callable str -> list of str, default="paper"
        How raw text becomes tokens. "paper": letters a-z of either case, each digit spelled out as
        a word, everything else a separator. "unicode": NFKC, case-folded, words of any language,
        numbers kept; of scripts without spaces (Chinese, Japanese, Thai) characters and pairs of
        characters (`pacsent.text.tokenise_unicode`). "jieba", "janome", "pythainlp": the same with
        the words that this segmenter, which must be installed, finds in Chinese, Japanese, Thai. A
        `Pieces` cuts words into pieces. Another callable is for vectors that came with their own
        tokenisation; it cannot be saved.
    unknown : {"drop", "pieces"}, default="drop"
        What `encode` does with a word that is not here: leave it out and count it, or split it
        into subwords: the longest word here that it begins with, then the longest `##` subword
        that continues it, and so on.

    Examples
    --------
    >>> vocabulary = Vocabulary(["film", "good", "six"], [40, 30, 2])
    >>> vocabulary.encode(["Good film, 6 stars"])
    Encoded(ids=array([1, 0, 2], dtype=int32), offsets=array([0, 3]), n_unknown=array([1]))
    """

    def __init__(
        self,
        words: Sequence[str] | WordTable,
        counts: ArrayLike | None = None,
        *,
        normalize: str | Callable[[str], list[str]] = "paper",
        unknown: str = "drop",
    ):
        if unknown not in UNKNOWN:
            raise ValueError(f"unknown must be one of {UNKNOWN}. Got {unknown!r} instead.")
        if not callable(normalize) and normalize not in TOKENISERS:
            raise ValueError(
                f"normalize must be one of {sorted(TOKENISERS)} or a callable str -> list of "
                f"str. Got {normalize!r} instead."
            )
        if isinstance(normalize, Pieces) and unknown != "drop":
            raise ValueError(
                f"unknown must be 'drop' for a vocabulary of pieces. Got {unknown!r} instead."
            )

        self.table = words if isinstance(words, WordTable) else _make_table(words)
        self.normalize = normalize
        self.unknown = unknown
        self._counts = None if counts is None else _checked_counts(counts, len(self))

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, np.ndarray],
        normalize: str | Callable[[str], list[str]] = "paper",
        *,
        unknown: str = "drop",
    ) -> "Vocabulary":
        """The vocabulary whose `arrays` these are.

        Opens at once, whatever the number of words: nothing is copied or decoded now.

        Parameters
        ----------
        arrays : mapping of str to array
            `word_bytes`, `word_offsets`, and if known `counts` and `hash_table`.
        normalize, unknown
            As for the constructor.

        Returns
        -------
        vocabulary : Vocabulary
        """
        table_arrays = dict(arrays)
        counts = table_arrays.pop("counts", None)
        table = WordTable(None, table_arrays)
        return cls(table, counts, normalize=normalize, unknown=unknown)

    def replace(
        self,
        *,
        normalize: str | Callable[[str], list[str]] | None = None,
        unknown: str | None = None,
    ) -> "Vocabulary":
        """The same words with another `normalize` or `unknown`; nothing is copied.

        Parameters
        ----------
        normalize, unknown
            As for the constructor; None keeps what it is.

        Returns
        -------
        vocabulary : Vocabulary

        Examples
        --------
        >>> Vocabulary(["film"]).replace(unknown="pieces").unknown
        'pieces'
        """
        normalize = self.normalize if normalize is None else normalize
        unknown = self.unknown if unknown is None else unknown
        if normalize == self.normalize and unknown == self.unknown:
            return self
        return Vocabulary(self.table, self._counts, normalize=normalize, unknown=unknown)

    def arrays(self, *, lookup: bool = True) -> dict[str, np.ndarray]:
        """The arrays that a file stores.

        Parameters
        ----------
        lookup : bool, default=True
            With the hash table, which takes compiled code to build.

        Returns
        -------
        arrays : dict of str to array
            word_bytes, word_offsets, with `lookup` hash_table and, if known, counts.
        """
        arrays: dict[str, np.ndarray] = {}
        if lookup:
            arrays["hash_table"] = self.table.lookup.table
        arrays["word_bytes"], arrays["word_offsets"] = self.table.arrays
        if self.counts is not None:
            arrays["counts"] = self.counts
        return arrays

    @property
    def words(self) -> list[str]:
        """The words; position is the token id."""
        return self.table.words

    @property
    def index(self) -> dict[str, int]:
        """Word to id, for many words; `id_of` looks up one without making this dict."""
        return self.table.index

    @cached_property
    def counts(self) -> np.ndarray | None:
        """Occurrences of each word in the source corpus, (n_words,); None if unknown."""
        if self._counts is None:
            return None

        # Counts of a file are not read before this.
        lowest = self._counts.min(initial=0)
        if lowest < 0:
            raise ValueError(
                f"counts must be at least 0. Got {lowest} instead. The file they come "
                "from is damaged."
            )
        return self._counts

    @cached_property
    def token_rows(self) -> np.ndarray:
        """The row of each token of a `Pieces` by its number there, -1 for tokens not here."""
        assert isinstance(self.normalize, Pieces)
        numbers = self.normalize.token_ids
        n_tokens = max(numbers.values(), default=-1) + 1
        rows = np.full(n_tokens, -1, dtype=np.int32)
        for row, word in enumerate(self.words):
            if word in numbers:
                rows[numbers[word]] = row
        return rows

    def id_of(self, word: str) -> int:
        """Id of a word.

        Parameters
        ----------
        word : str

        Returns
        -------
        id : int
            -1 if the word is not here.
        """
        return self.table.id_of(word)

    @property
    def normalize_name(self) -> str | None:
        """Name of the normalisation as it is stored; None for a callable, which cannot be."""
        if isinstance(self.normalize, Pieces):
            return TOKENIZER
        return self.normalize if isinstance(self.normalize, str) else None

    def __len__(self) -> int:
        return self.table.n_words

    def __contains__(self, word: Any) -> bool:
        return isinstance(word, str) and self.id_of(word) >= 0

    def __repr__(self) -> str:
        name = self.normalize_name or self.normalize
        return f"Vocabulary(n_words={len(self)}, normalize={name!r})"

    def __sklearn_clone__(self) -> "Vocabulary":
        return self

    @property
    def n_words(self) -> int:
        """Number of words."""
        return len(self)

    @property
    def n_tokens(self) -> int:
        """Tokens counted in the source corpus."""
        return int(self.require_counts("n_tokens").sum())

    def require_counts(self, purpose: str) -> np.ndarray:
        """The counts; ValueError if they are unknown.

        Parameters
        ----------
        purpose : str
            Name of what needs them, for the message.

        Returns
        -------
        counts : array of int64, shape (n_words,)
        """
        if self.counts is None:
            raise ValueError(
                f"{purpose} needs word counts, and this vocabulary has none. Read the vectors "
                "together with their counts (a vocab.tsv), or pass counts to Vocabulary."
            )
        return self.counts

    def keep_probabilities(self, subsample: float) -> np.ndarray:
        """Probability that sub-sampling keeps a word, as in word2vec.

            min(1, (sqrt(f / t) + 1) * t / f),  f = count / n_tokens,  t = subsample

        Parameters
        ----------
        subsample : float
            Frequent words are dropped more often the smaller this is; 0 keeps all.

        Returns
        -------
        probabilities : array, shape (n_words,)
        """
        counts = self.require_counts("sub-sampling")
        if subsample == 0:
            return np.ones(len(self))

        threshold = subsample * counts.sum()
        counts = np.maximum(counts, 1)
        return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts)

    def noise_probabilities(self, power: float = 0.75) -> np.ndarray:
        """Probability of each word as a negative sample, proportional to count ** power.

        Parameters
        ----------
        power : float, default=0.75

        Returns
        -------
        probabilities : array, shape (n_words,)
        """
        counts = self.require_counts("the noise distribution")
        return noise_probabilities(counts, power)

    def tokens(self, sentence: str | Sequence[str]) -> Sequence[str]:
        """Tokens of one sentence.

        Parameters
        ----------
        sentence : str or sequence of str
            A str is normalised; a token list is taken as it is.

        Returns
        -------
        tokens : sequence of str
        """
        if not isinstance(sentence, str):
            return sentence
        if callable(self.normalize):
            return self.normalize(sentence)
        return TOKENISERS[self.normalize](sentence)

    def encode(
        self,
        X: Iterable[str | Sequence[str]],
        *,
        n_jobs: int | None = None,
        first_row: int = 0,
    ) -> Encoded:
        """Sentences to token ids; the result is the same for any number of threads.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            A str is normalised as this vocabulary says, a token list is taken as it is. A generator
            is read piece by piece. An `Encoded` is returned unchanged, if its ids are of a
            vocabulary of this size.
        n_jobs : int or None, default=None
            Threads; None takes all cores.
        first_row : int, default=0
            The number of the first sentence, for messages.

        Returns
        -------
        encoded : Encoded
        """
        if isinstance(X, Encoded):
            return X.checked(len(self))
        return encode_texts(self, as_sentences(X), n_jobs, first_row)

    def digest(self, X: Any) -> str:
        """sha256 over three sha256: of the words, of the token ids and of the offsets.

        The same text under the same vocabulary has the same digest, and a `Corpus` has that of its
        documents. It catches the same text, not an overlap.

        Parameters
        ----------
        X : as for `encode`

        Returns
        -------
        digest : str
            In hexadecimal.
        """
        ids, offsets, _ = self.encode(X)
        sha256_of_ids = hashlib.sha256(raw_bytes(ids, "<i4"))
        return digest_of(self, sha256_of_ids, offsets)

    def count(self, X: Any, *, dtype: DTypeLike = np.float64) -> "sparse.csr_matrix":
        """Sentences to a sparse count matrix.

        Parameters
        ----------
        X : as for `encode`
        dtype : dtype, default=np.float64

        Returns
        -------
        counts : sparse matrix, shape (n_sentences, n_words)
        """
        from scipy import sparse  # encoding does not wait for it

        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        ones = np.ones(ids.size, dtype=dtype)
        # Ids are copied: summing duplicates works in place, and an Encoded belongs to the caller.
        matrix = sparse.csr_matrix((ones, np.array(ids), offsets), shape=shape)
        matrix.sum_duplicates()
        return matrix


def _make_table(words: Sequence[str]) -> WordTable:
    """The table of words in memory, which are checked to be str."""
    word_list = list(as_sentences(words, "words"))
    for word in word_list:
        if not isinstance(word, str):
            raise TypeError(f"words must be str. Got {word!r} instead.")
    return WordTable(word_list)


def _checked_counts(counts: ArrayLike, n_words: int) -> np.ndarray:
    """Counts as int64; those that lie in a file are left unread."""
    array = np.asarray(counts)
    is_of_file = array.dtype == np.int64 and is_memory_mapped(array)
    if not is_of_file:
        array = _as_whole_numbers(array)

    if array.shape != (n_words,):
        raise ValueError(
            f"counts must have one number for each of the {n_words:,} words. Got an "
            f"array of shape {array.shape} instead."
        )
    return array


def _as_whole_numbers(counts: np.ndarray) -> np.ndarray:
    if counts.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            whole_numbers = counts.astype(np.int64)
        if (whole_numbers == counts).all() and whole_numbers.min(initial=0) >= 0:
            return whole_numbers

    shown = str(counts.tolist())[:60]
    raise ValueError(
        f"counts must be whole numbers of at least 0. Got {shown} instead. Leave counts out "
        "where they are not known."
    )


def raw_bytes(array: np.ndarray, dtype: str) -> memoryview:
    """The bytes of an array in one type, whatever the machine's order."""
    return np.ascontiguousarray(array, dtype=dtype).data


def digest_of(vocabulary: Vocabulary, of_ids: Any, offsets: np.ndarray) -> str:
    """The sha256 of a corpus: its words, token ids and bounds of sentences."""
    word_bytes, word_offsets = vocabulary.table.arrays
    of_words = hashlib.sha256(np.ascontiguousarray(word_bytes).data)
    of_words.update(raw_bytes(word_offsets, "<i8"))
    of_offsets = hashlib.sha256(raw_bytes(offsets, "<i8"))

    digests = of_words.digest() + of_ids.digest() + of_offsets.digest()
    return hashlib.sha256(digests).hexdigest()
