"""`Vocabulary`: words, their counts, and the way from sentences to token ids or count matrices."""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from pacsent.maths.arrays import frozen
from pacsent.maths.checks import is_count
from pacsent.maths.noise import noise_probabilities
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.normalise import TOKENISERS, tokenise_unicode
from pacsent.text.texts import as_sentences
from pacsent.threads import in_order
from pacsent.words.pieces import Pieces
from pacsent.words.word_table import WordTable, is_memory_mapped, joined

_BATCH = 1 << 20  # characters that one thread takes at a time
# Up to this many characters, and words of the dict that they are looked up in, texts are encoded
# without compiled code: importing numba takes longer than they do.
_MAX_DICT_CHARACTERS, _MAX_DICT_WORDS = 1 << 12, 1 << 18
UNKNOWN = ("drop", "pieces")
MAX_SPLIT_BYTES = 64  # longer unknown words are not split into subwords
TOKENIZER = "tokenizer"  # how a file names `Pieces`, which it holds beside


class Vocabulary:
    """Words and their counts, most frequent first; frozen.

    Parameters
    ----------
    words : sequence of str
        The words, all different; position is the token id.
    counts : array of int, shape (n_words,), or None
        How often each occurred in the source corpus. None when unknown: never invented.
    normalise : str or callable str -> list of str, default="paper"
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
        normalise: str | Callable[[str], list[str]] = "paper",
        unknown: str = "drop",
    ):
        if unknown not in UNKNOWN:
            raise ValueError(f"unknown must be one of {UNKNOWN}. Got {unknown!r} instead.")
        if not callable(normalise) and normalise not in TOKENISERS:
            raise ValueError(
                f"normalise must be one of {sorted(TOKENISERS)} or a callable str -> list of "
                f"str. Got {normalise!r} instead."
            )
        if not isinstance(words, WordTable):
            words = list(as_sentences(words, "words"))
            if others := [word for word in words if not isinstance(word, str)]:
                raise TypeError(f"words must be str. Got {others[0]!r} instead.")
        if isinstance(normalise, Pieces) and unknown != "drop":
            raise ValueError(
                f"unknown must be 'drop' for a vocabulary of pieces. Got {unknown!r} instead."
            )
        self._table = words if isinstance(words, WordTable) else WordTable(words)
        self._counts = None if counts is None else _int64(counts, self._table.n_words)
        self._normalise, self._unknown = normalise, unknown

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, np.ndarray],
        normalise: str | Callable[[str], list[str]] = "paper",
        *,
        unknown: str = "drop",
    ) -> "Vocabulary":
        """From `word_bytes`, `word_offsets`, and if known `counts` and `hash_table`: see `arrays`.

        Opens at once, whatever the number of words: nothing is copied or decoded now.
        """
        table = WordTable(None, {n: a for n, a in arrays.items() if n != "counts"})
        return cls(table, arrays.get("counts"), normalise=normalise, unknown=unknown)

    def replace(
        self,
        *,
        normalise: str | Callable[[str], list[str]] | None = None,
        unknown: str | None = None,
    ) -> "Vocabulary":
        """The same words with another `normalise` or `unknown`; nothing is copied.

        >>> Vocabulary(["film"]).replace(unknown="pieces").unknown
        'pieces'
        """
        normalise = self._normalise if normalise is None else normalise
        unknown = self._unknown if unknown is None else unknown
        if normalise == self._normalise and unknown == self._unknown:
            return self
        return Vocabulary(self._table, self._counts, normalise=normalise, unknown=unknown)

    def arrays(self) -> dict[str, np.ndarray]:
        """word_bytes, word_offsets, hash_table and, where known, counts: what a file stores."""
        names = ("hash_table", "word_bytes", "word_offsets")
        return dict(zip(names, self._table.lookup)) | self.arrays_without_lookup()

    def arrays_without_lookup(self) -> dict[str, np.ndarray]:
        """`arrays` without hash_table, which takes compiled code to build."""
        arrays = dict(zip(("word_bytes", "word_offsets"), self._table.arrays))
        return arrays if self.counts is None else {**arrays, "counts": self.counts}

    @property
    def table(self) -> WordTable:
        """The words in the forms that compiled code reads."""
        return self._table

    @property
    def normalise(self) -> str | Callable[[str], list[str]]:
        """How raw text becomes tokens."""
        return self._normalise

    @property
    def unknown(self) -> str:
        """What `encode` does with a word that is not here."""
        return self._unknown

    @property
    def words(self) -> list[str]:
        """The words; position is the token id."""
        return self._table.words

    @property
    def index(self) -> dict[str, int]:
        """Word to id, for many words; `id_of` looks up one without making this dict."""
        return self._table.index

    @property
    def counts(self) -> np.ndarray | None:
        """How often each word occurred in the source corpus; None when unknown."""
        return self._checked_counts

    @cached_property
    def _checked_counts(self) -> np.ndarray | None:
        """`counts`, which in a file are read when they are first asked for."""
        if self._counts is not None and self._counts.size and self._counts.min() < 0:
            raise ValueError(
                f"counts must be at least 0. Got {self._counts.min()} instead. The file they come "
                "from is damaged."
            )
        return self._counts

    def id_of(self, word: str) -> int:
        """Id of a word, -1 where it is unknown."""
        return self._table.id_of(word)

    @property
    def normalise_name(self) -> str | None:
        """Name of the normalisation as it is stored; None for a callable, which cannot be."""
        if isinstance(self.normalise, Pieces):
            return TOKENIZER
        return self.normalise if isinstance(self.normalise, str) else None

    def __len__(self) -> int:
        return self._table.n_words

    def __contains__(self, word) -> bool:
        return isinstance(word, str) and self.id_of(word) >= 0

    def __repr__(self) -> str:
        return (
            f"Vocabulary(n_words={len(self)}, normalise={self.normalise_name or self.normalise!r})"
        )

    def __sklearn_clone__(self):
        return self

    @property
    def n_words(self) -> int:
        return len(self)

    @property
    def n_tokens(self) -> int:
        """Tokens counted in the source corpus."""
        return int(self._known_counts("n_tokens").sum())

    def _known_counts(self, what: str) -> np.ndarray:
        if self.counts is None:
            raise ValueError(
                f"{what} needs word counts, and this vocabulary has none. Read the vectors "
                "together with their counts (a vocab.tsv), or pass counts to Vocabulary."
            )
        return self.counts

    def keep_probabilities(self, subsample: float) -> np.ndarray:
        """Chance to keep a word: min(1, (sqrt(f/t) + 1) t/f), f = count/n_tokens, t = subsample."""
        counts = self._known_counts("sub-sampling")
        if subsample == 0:
            return np.ones(len(self))
        threshold = subsample * counts.sum()
        counts = np.maximum(counts, 1)
        return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts)

    def noise_probabilities(self, power: float = 0.75) -> np.ndarray:
        """p_n(w) proportional to count(w)^power."""
        return noise_probabilities(self._known_counts("the noise distribution"), power)

    def warn_if_few_known(self, n_known: int, n_unknown: int, stacklevel: int = 2) -> None:
        """Warn where under half of a text's tokens are known, and name the likely cause."""
        n_all = n_known + n_unknown
        if 2 * n_known >= n_all:
            return
        warnings.warn(
            f"Only {100 * n_known / n_all:.0f} % of these {n_all:,} tokens are in the vocabulary. "
            f"The likely cause: {self._likely_cause()}. Coverage is fine from about 90 %.",
            LowCoverageWarning,
            stacklevel=stacklevel + 1,
        )

    def _likely_cause(self) -> str:
        """Why few words of a text are in this vocabulary, judged by its frequent words."""
        words = [self._table.word(i) for i in range(min(len(self), 2000))]
        n_plain = sum(bool(word) and set(word) <= _LETTERS for word in words)
        made_from = "Vocabulary(..., normalise=your_tokeniser)"
        if self.normalise_name == "paper" and n_plain < 0.9 * len(words):
            odd = next(word for word in words if not (word and set(word) <= _LETTERS))
            return (
                f"its words were made in another way than normalise='paper' does (it has {odd!r}; "
                "cased words, punctuation, numbers or another alphabet): use normalise='unicode', "
                f"or the tokenisation the vectors came with, {made_from}"
            )
        if self.normalise_name == "unicode" and any(word != word.casefold() for word in words):
            odd = next(word for word in words if word != word.casefold())
            return f"its words are cased (it has {odd!r}): use {made_from}"
        return (
            "the text is in another language or of another kind than the vocabulary, or token "
            "lists were made in another way than its words (case, punctuation)"
        )

    def tokens(self, sentence: str | Sequence[str]) -> Sequence[str]:
        """Tokens of one sentence; a token list is taken as it is."""
        if not isinstance(sentence, str):
            return sentence
        if callable(self.normalise):
            return self.normalise(sentence)
        return TOKENISERS[self.normalise](sentence)

    def encode(self, X: Iterable[str | Sequence[str]], *, n_jobs: int | None = None) -> Encoded:
        """Sentences to token ids.

        `X` is an iterable of str, which are normalised as this vocabulary says, or of token lists,
        which are taken as they are, or a table of one column. A generator is read piece by piece.
        An `Encoded` is given back, if its ids are of a vocabulary of this size. The result is the
        same for any number of threads.
        """
        if isinstance(X, Encoded):
            return X.checked(len(self))
        return self._encode_rows(X, 0, n_jobs)

    def encode_bytes(self, data: np.ndarray, bounds: np.ndarray) -> Encoded:
        """Texts that lie one after the other as UTF-8 to token ids, as `encode` would give.

        With `normalise="paper"` no string is made of them: what an Arrow column holds goes to the
        compiled tokeniser as it is. Text s is data[bounds[s]:bounds[s + 1]].

        >>> data = np.frombuffer(b"good filmbad", dtype=np.uint8)
        >>> Vocabulary(["film", "good"]).encode_bytes(data, np.array([0, 9, 12]))
        Encoded(ids=array([1, 0], dtype=int32), offsets=array([0, 2, 2]), n_unknown=array([0, 1]))
        """
        bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        inside = bounds.size and bounds[0] >= 0 and bounds[-1] <= data.size
        if not inside or (bounds[1:] < bounds[:-1]).any():
            raise ValueError(
                f"bounds must rise from at least 0 to at most the {data.size:,} bytes of data. Got "
                "others instead."
            )
        if self.normalise != "paper":
            whole = [data[a:b].tobytes().decode("utf-8") for a, b in itertools.pairwise(bounds)]
            return self._encode_rows(whole, 0, n_jobs=1)
        first = bounds[0]
        return self._encode_paper(frozen(data[first : bounds[-1]]), bounds - first)

    def _encode_rows(self, X, first_row: int, n_jobs: int | None) -> Encoded:
        """`encode` for sentences, the first of which is number `first_row` for messages."""
        batches = batches_of(X, first_row)
        parts = list(in_order(self._encode, batches, n_jobs))
        if not parts:
            parts = [Encoded(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64))]
        if len(parts) == 1:
            return parts[0]
        sizes = np.cumsum([0] + [part.ids.size for part in parts])
        offsets = [part.offsets[1:] + size for part, size in zip(parts, sizes)]
        return Encoded(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
            np.concatenate([part.n_unknown for part in parts]),
        )

    def encoder(self) -> Callable[[list], Encoded]:
        """`encode` for lists of texts, with what all calls share done: for asking again and again.

        >>> encode = Vocabulary(["good", "wine"]).encoder()
        >>> encode(["good red wine"]).ids.tolist()
        [0, 1]
        """
        if self.normalise_name is None:
            return lambda texts: self._encode_rows(texts, 0, n_jobs=1)

        def encode(texts: list) -> Encoded:
            if len(texts) > 1 << 12 or not _all_strings(texts) or _size(texts) > _BATCH:
                return self._encode_rows(texts, 0, n_jobs=1)
            return self._encode(_Batch(texts, True))

        return encode

    def _encode(self, batch: "_Batch") -> Encoded:
        """One batch: by the compiled tokenisers where they apply, else by the dict."""
        compiled = batch.raw and not self._is_small(batch.sentences)
        if compiled and self.normalise == "paper":
            return self._encode_paper(*as_ascii(batch.sentences))
        if batch.raw and isinstance(self.normalise, Pieces):
            numbers, ends = self.normalise.numbers(batch.sentences)
            ids = self._piece_rows[numbers]
        elif compiled and self.normalise == "unicode":
            ids, ends = unicode_ids(batch.sentences, self._table.ids_of)
        else:
            lists = [self.tokens(sentence) for sentence in batch.sentences]
            ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
            known = map(self.index.get, itertools.chain.from_iterable(lists), itertools.repeat(-1))
            ids = np.fromiter(known, dtype=np.int32)
        ends = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        if self.unknown == "pieces" and (ids < 0).any():
            return self._with_pieces(batch, ids, ends)
        n_known = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ids >= 0)])
        offsets = n_known[ends]
        return Encoded(ids[ids >= 0], offsets, np.diff(ends) - np.diff(offsets))

    @cached_property
    def _piece_rows(self) -> np.ndarray:
        """The row of each number of the tokenizer, -1 for tokens that are not here."""
        return self._normalise.rows(self.words)  # type: ignore[union-attr]

    def _is_small(self, sentences: list[str]) -> bool:
        """Whether these are encoded by the dict."""
        return self._table.n_words <= _MAX_DICT_WORDS and _size(sentences) <= _MAX_DICT_CHARACTERS

    def _with_pieces(self, batch: "_Batch", ids: np.ndarray, ends: np.ndarray) -> Encoded:
        """Ids with -1 for unknown words, which become their subwords."""
        tokens = list(itertools.chain.from_iterable(map(self.tokens, batch.sentences)))
        unknown = np.flatnonzero(ids < 0)
        words, places = np.unique([tokens[t] for t in unknown], return_inverse=True)
        pieces = [self._pieces_of(word) for word in words.tolist()]
        n_ids = np.ones(ids.size, dtype=np.int64)
        n_ids[unknown] = [len(pieces[place]) for place in places]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_ids)])
        flat = np.repeat(ids, n_ids)
        flat[flat < 0] = list(itertools.chain.from_iterable(pieces[place] for place in places))
        n_lost = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_ids == 0)])
        return Encoded(flat, starts[ends], np.diff(n_lost[ends]))

    def _pieces_of(self, word: str) -> list[int]:
        """Ids of the longest known beginning of a word, of the longest subword after it, ..."""
        found: list[int] = []
        start = 0
        if len(word.encode("utf-8", "surrogatepass")) > MAX_SPLIT_BYTES:
            return found
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                i = self.index.get(mark + word[start:end])
                if i is not None:
                    break
            else:
                return []
            found.append(i)
            start = end
        return found

    def _encode_paper(self, data: np.ndarray, bounds: np.ndarray) -> Encoded:
        """Bytes to ids by the compiled tokeniser; what is not ASCII separates."""
        from pacsent._kernels import text_kernels as kernels

        ids = np.empty(data.size, dtype=np.int32)
        offsets = np.zeros(bounds.size, dtype=np.int64)
        n_unknown = np.zeros(bounds.size - 1, dtype=np.int64)
        size = MAX_SPLIT_BYTES + 2 if self.unknown == "pieces" else 0
        word, room = np.empty(size, dtype=np.uint8), kernels.places_and_keys()
        out = ids, offsets, n_unknown
        with np.errstate(over="ignore"):  # the hash wraps around on purpose
            n = kernels.encode_paper(
                data, bounds, self._table.lookup, room, (word, frozen(word)), out
            )
        return Encoded(ids[:n].copy(), offsets, n_unknown)

    def digest(self, X: Any) -> str:
        """sha256 over three sha256: of the words, of the token ids and of the offsets.

        The same text under the same vocabulary has the same digest, and a `Corpus` has that of its
        documents. It catches the same text, not an overlap.
        """
        ids, offsets, _ = self.encode(X)
        return digest_of(self, hashlib.sha256(raw_bytes(ids, "<i4")), offsets)

    def count(self, X: Any, *, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Sentences to a sparse count matrix, (n_sentences, n_words)."""
        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        # ids are copied: summing duplicates works in place, and an Encoded belongs to the caller
        matrix = sparse.csr_matrix(
            (np.ones(ids.size, dtype=dtype), np.array(ids), offsets), shape=shape
        )
        matrix.sum_duplicates()
        return matrix


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


def unicode_ids(sentences: list[str], ids_of: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the tokens of the unicode normalisation, and how many there are after each sentence.

    `ids_of(data, starts)` gives the ids of joined tokens. Sentences in ASCII go through a compiled
    tokeniser, the others through the standard library's Unicode functions.
    """
    plain = np.fromiter(map(str.isascii, sentences), dtype=bool, count=len(sentences))
    ids, n_tokens = [], np.zeros(len(sentences), dtype=np.int64)
    for rows, tokens_of in ((plain, _plain_tokens), (~plain, _other_tokens)):
        if rows.any():
            data, starts, n_tokens[rows] = tokens_of(list(itertools.compress(sentences, rows)))
            ids.append(ids_of(data, starts))
    if len(ids) == 1:
        return ids[0], np.cumsum(n_tokens)
    # two sorted runs: the stable sort merges them in one go
    rows = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    order = np.argsort(np.repeat(rows, n_tokens[rows]), kind="stable")
    return np.concatenate(ids)[order], np.cumsum(n_tokens)


def _other_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens one after the other, where each begins, and how many each sentence has."""
    lists = [tokenise_unicode(sentence) for sentence in sentences]
    data, starts = joined(list(itertools.chain.from_iterable(lists)))
    return data, starts, np.fromiter(map(len, lists), np.int64, len(lists))


def _plain_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, compiled, for sentences in ASCII."""
    from pacsent._kernels import text_kernels as kernels

    data, bounds = as_ascii(sentences)
    out = np.empty(data.size, dtype=np.uint8)
    starts = np.empty(data.size + 2, dtype=np.int64)
    ends = np.empty(len(sentences), dtype=np.int64)
    n = kernels.split_ascii(data, bounds, out, starts, ends)
    return out[: starts[n]], starts[: n + 1], np.diff(ends, prepend=0)


def raw_bytes(array: np.ndarray, dtype: str) -> memoryview:
    """The bytes of an array in one type, whatever the machine's order."""
    return np.ascontiguousarray(array, dtype=dtype).data


def _int64(counts, n_words) -> np.ndarray:
    """Counts as int64, one for each word; an array from a file stays where it is, unread."""
    if not (isinstance(counts, np.ndarray) and counts.dtype == np.int64) or not (
        is_memory_mapped(counts)
    ):
        counts = _whole_counts(counts).astype(np.int64, copy=False)
    if counts.shape != (n_words,):
        raise ValueError(
            f"counts must have one number for each of the {n_words:,} words. Got an array of shape "
            f"{counts.shape} instead."
        )
    return counts


def _whole_counts(counts) -> np.ndarray:
    """Counts as int64, or one line that says which is none."""
    counts = np.asarray(counts)
    if counts.dtype.kind in "iu" and not (counts.size and counts.min() < 0):
        return counts
    if counts.dtype.kind == "f":
        wrong = ~(np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts)))
        if not wrong.any():
            return counts
        value = counts[wrong][0].item()
    else:
        others = [value for value in counts.ravel().tolist() if not is_count(value)]
        if not others:
            return counts
        value = others[0]
    raise ValueError(
        f"counts must be whole numbers of at least 0. Got {value!r} instead. Leave counts out "
        "where they are not known."
    )


def digest_of(vocabulary: Vocabulary, of_ids: Any, offsets: np.ndarray) -> str:
    """The sha256 of a corpus: its words, token ids and bounds of sentences."""
    word_bytes, word_offsets = map(np.ascontiguousarray, vocabulary.table.arrays)
    of_words = hashlib.sha256(word_bytes.data)
    of_words.update(raw_bytes(word_offsets, "<i8"))
    of_offsets = hashlib.sha256(raw_bytes(offsets, "<i8"))
    return hashlib.sha256(of_words.digest() + of_ids.digest() + of_offsets.digest()).hexdigest()


# ---- many sentences in batches, on all cores ----------------------------------------------------


class _Batch(NamedTuple):
    sentences: list  # all str, or all token lists
    raw: bool  # whether they are str


def batches_of(X: Iterable, first_row: int = 0) -> Iterator[_Batch]:
    """Sentences in lists of about _BATCH characters, strings and token lists apart.

    `first_row` is the number of the first one, for messages.
    """
    X = as_sentences(X)
    if isinstance(X, list) and len(X) <= 1 << 12 and _all_strings(X) and _size(X) <= _BATCH:
        yield _Batch(X, True)  # the usual case, a list of modest size: one batch
        return
    sentences = iter(X)
    size, row = 16, first_row
    while block := list(itertools.islice(sentences, size)):
        runs = itertools.groupby(block, lambda sentence: isinstance(sentence, str))
        for raw, found in [(True, block)] if _all_strings(block) else runs:
            found = list(found)
            if not raw:
                _check_token_lists(found, row)
            yield _Batch(found, raw)
            row += len(found)
        # the sentences so far show how many make a batch
        size = min(max(1, size * _BATCH // max(_size(block), 1)), 4 * size, 1 << 16)


def _all_strings(sentences: list) -> bool:
    return set(map(type, sentences)) == {str}


def _size(sentences: list) -> int:
    return sum(map(len, sentences))


def _check_token_lists(sentences: list, first_row: int):
    for row, tokens in enumerate(sentences, first_row):
        if not isinstance(tokens, list | tuple | np.ndarray):
            what = f"{type(tokens).__name__} {str(tokens)[:40]!r}"
        elif isinstance(tokens, np.ndarray) and tokens.ndim != 1:
            what = f"an array of shape {tokens.shape}"
        elif odd := [token for token in tokens if not isinstance(token, str)]:
            what = f"a list with {type(odd[0]).__name__} {str(odd[0])[:40]!r} in it"
        else:
            continue
        raise TypeError(
            f"A sentence must be a str or a list of str. Got {what} in row {row} (rows count from "
            "0) instead. Drop it, or put '' in its place."
        )


def as_ascii(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Strings as one array with a byte a character, and where each begins and ends.

    What is not ASCII becomes another byte that is not, or '?': a separator for a separator. So
    lengths in characters are lengths in bytes, and no mark between the strings is needed.
    """
    # Latin-1 is how Python holds most texts that are not ASCII, so that bytes are only copied
    data = np.frombuffer("".join(sentences).encode("latin-1", "replace"), dtype=np.uint8)
    if len(sentences) == 1:
        return data, np.array([0, data.size])
    bounds = np.zeros(len(sentences) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=bounds[1:])
    return data, bounds
