"""Texts to token ids: in batches, on all cores, by compiled tokenisers where there are some."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from pacsent.arrays import frozen
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.normalize import count_dropped, tokenise_unicode
from pacsent.threads import in_order
from pacsent.words.pieces import Pieces
from pacsent.words.word_table import concat_utf8

_BATCH_CHARACTERS = 1 << 20  # that one thread takes at a time
_MAX_BATCH_TEXTS = 1 << 16
# Up to this many characters, and words of the dict that they are looked up in, texts are encoded
# without compiled code: importing numba takes longer than they do.
_MAX_DICT_CHARACTERS, _MAX_DICT_WORDS = 1 << 12, 1 << 18
_MAX_SPLIT_BYTES = 64  # longer OOV words are not split into subwords


class EncodingVocabulary(Protocol):
    """What encoding needs of a `Vocabulary`: its words' ids and its tokeniser."""

    normalize: Any
    unknown: str

    @property
    def index(self) -> Any: ...

    @property
    def table(self) -> Any: ...

    @property
    def token_rows(self) -> Any: ...

    def tokens(self, sentence: Any) -> Sequence[str]: ...

    def encode(self, X: Any, *, n_jobs: int | None = None) -> Encoded: ...

    def __len__(self) -> int: ...


def encode_texts(
    vocabulary: EncodingVocabulary, X: Iterable, n_jobs: int | None, first_row: int
) -> Encoded:
    """Sentences, as `as_sentences` returned them, to token ids: see `Vocabulary.encode`."""
    encode = partial(_encode_batch, vocabulary)
    parts = list(in_order(encode, iter_text_batches(X, first_row), n_jobs))
    if len(parts) == 1:
        return parts[0]
    sizes = np.cumsum([0] + [part.ids.size for part in parts])
    offsets = [part.offsets[1:] + size for part, size in zip(parts, sizes)]
    return Encoded(
        np.concatenate([np.zeros(0, dtype=np.int32), *(part.ids for part in parts)]),
        np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.n_unknown for part in parts)]),
    )


def encode_bytes(vocabulary: EncodingVocabulary, data: np.ndarray, bounds: np.ndarray) -> Encoded:
    """Texts that lie one after the other as UTF-8 to token ids, as `Vocabulary.encode` would.

    With `normalize="paper"` no string is made of them: the bytes of an Arrow column go to the
    compiled tokeniser as they are. Text s is data[bounds[s]:bounds[s + 1]].
    """
    bounds = np.ascontiguousarray(bounds, dtype=np.int64)
    inside = bounds.size and bounds[0] >= 0 and bounds[-1] <= data.size
    if not inside or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(
            f"bounds must rise from at least 0 to at most the {data.size:,} bytes of data. Got "
            f"{bounds.tolist()[:10]} instead."
        )
    if vocabulary.normalize != "paper":
        texts = [data[a:b].tobytes().decode("utf-8") for a, b in itertools.pairwise(bounds)]
        return vocabulary.encode(texts, n_jobs=1)
    encoded = _encode_paper(vocabulary, frozen(data[bounds[0] : bounds[-1]]), bounds - bounds[0])
    places = np.flatnonzero(data[: bounds[-1]] >= 128)  # bytes that are not ASCII
    rows = np.unique(np.searchsorted(bounds, places[places >= bounds[0]], "right") - 1)
    texts = [data[bounds[r] : bounds[r + 1]].tobytes().decode("utf-8", "replace") for r in rows]
    encoded.n_unknown[rows] += count_dropped(texts)
    return encoded


def _encode_batch(vocabulary: EncodingVocabulary, batch: tuple[list, bool]) -> Encoded:
    (sentences, raw), normalize = batch, vocabulary.normalize
    n_dropped = count_dropped(sentences) if raw and normalize == "paper" else 0
    is_small = sum(map(len, sentences)) <= _MAX_DICT_CHARACTERS
    compiled = raw and not (is_small and len(vocabulary) <= _MAX_DICT_WORDS)
    if compiled and normalize == "paper":
        ids, offsets, n_unknown = _encode_paper(vocabulary, *as_ascii(sentences))
        return Encoded(ids, offsets, n_unknown + n_dropped)
    if raw and isinstance(normalize, Pieces):
        numbers, ends = normalize.numbers(sentences)
        ids = vocabulary.token_rows[numbers]
    elif compiled and normalize == "unicode":
        ids, ends = unicode_ids(sentences, vocabulary.table.ids_of)
    else:
        lists = [vocabulary.tokens(sentence) for sentence in sentences]
        ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
        tokens = itertools.chain.from_iterable(lists)
        ids = np.fromiter(map(vocabulary.index.get, tokens, itertools.repeat(-1)), np.int32)
    ends = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    n_ids = (ids >= 0).astype(np.int64)  # of each token; OOV words may become subwords
    flat = ids[ids >= 0]
    if vocabulary.unknown == "pieces" and flat.size < ids.size:
        unknown = ids < 0
        tokenised = itertools.chain.from_iterable(map(vocabulary.tokens, sentences))
        words = list(itertools.compress(tokenised, unknown))
        subwords = {word: subword_ids(word, vocabulary.index) for word in set(words)}
        n_ids[unknown] = [len(subwords[word]) for word in words]
        flat = np.repeat(ids, n_ids)
        flat[flat < 0] = [i for word in words for i in subwords[word]]
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_ids)])
    n_lost = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_ids == 0)])
    return Encoded(flat, starts[ends], np.diff(n_lost[ends]) + n_dropped)


def subword_ids(word: str, index: dict[str, int]) -> list[int]:
    """Ids of the longest known beginning of a word, of the longest subword after it, ...

    >>> subword_ids("tourists", {"tour": 0, "t": 1, "##is": 2, "##ist": 3, "##s": 4})
    [0, 3, 4]
    """
    ids: list[int] = []
    start = 0
    if len(word.encode("utf-8", "surrogatepass")) > _MAX_SPLIT_BYTES:
        return ids
    while start < len(word):
        mark, end = "##" if start else "", len(word)
        while end > start and mark + word[start:end] not in index:
            end -= 1
        if end == start:
            return []
        ids.append(index[mark + word[start:end]])
        start = end
    return ids


def _encode_paper(vocabulary: EncodingVocabulary, data: np.ndarray, bounds: np.ndarray) -> Encoded:
    """Bytes to ids by the compiled tokeniser; what is not ASCII separates."""
    from pacsent.kernels import text_kernels as kernels

    ids = np.empty(data.size, dtype=np.int32)
    offsets = np.zeros(bounds.size, dtype=np.int64)
    n_unknown = np.zeros(bounds.size - 1, dtype=np.int64)
    size = _MAX_SPLIT_BYTES + 2 if vocabulary.unknown == "pieces" else 0
    word, room = np.empty(size, dtype=np.uint8), kernels.places_and_keys()
    out = ids, offsets, n_unknown
    with np.errstate(over="ignore"):  # the hash wraps around on purpose
        lookup = vocabulary.table.lookup
        n = kernels.encode_paper(data, bounds, lookup, room, (word, frozen(word)), out)
    return Encoded(ids[:n].copy(), offsets, n_unknown)


def unicode_ids(sentences: list[str], ids_of: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the tokens of the unicode normalisation, and how many there are after each sentence.

    `ids_of(data, starts)` returns the ids of joined tokens. Sentences in ASCII go through a
    compiled tokeniser, the others through the standard library's Unicode functions.
    """
    from pacsent.kernels import text_kernels as kernels

    is_ascii = np.fromiter(map(str.isascii, sentences), dtype=bool, count=len(sentences))
    ids, n_tokens = [], np.zeros(len(sentences), dtype=np.int64)
    if is_ascii.any():
        data, bounds = as_ascii(list(itertools.compress(sentences, is_ascii)))
        out = np.empty(data.size, dtype=np.uint8)
        starts = np.empty(data.size + 2, dtype=np.int64)
        ends = np.empty(bounds.size - 1, dtype=np.int64)
        n = kernels.split_ascii(data, bounds, out, starts, ends)
        n_tokens[is_ascii] = np.diff(ends, prepend=0)
        ids.append(ids_of(out[: starts[n]], starts[: n + 1]))
    if not is_ascii.all():
        lists = [tokenise_unicode(text) for text in itertools.compress(sentences, ~is_ascii)]
        n_tokens[~is_ascii] = np.fromiter(map(len, lists), np.int64, len(lists))
        ids.append(ids_of(*concat_utf8(list(itertools.chain.from_iterable(lists)))))
    if len(ids) == 1:
        return ids[0], np.cumsum(n_tokens)
    # Two sorted runs: the stable sort merges them in one pass.
    rows = np.concatenate([np.flatnonzero(is_ascii), np.flatnonzero(~is_ascii)])
    order = np.argsort(np.repeat(rows, n_tokens[rows]), kind="stable")
    return np.concatenate(ids)[order], np.cumsum(n_tokens)


def iter_text_batches(texts: Iterable, first_row: int = 0) -> Iterator[tuple[list, bool]]:
    """Lists of about _BATCH_CHARACTERS, all str or all token lists, and whether they are str.

    `texts` is what `as_sentences` returned; `first_row` is the number of the first one, for
    messages.
    """
    # The usual case: one batch
    is_short = isinstance(texts, list) and len(texts) <= 1 << 12 and set(map(type, texts)) == {str}
    if isinstance(texts, list) and is_short and sum(map(len, texts)) <= _BATCH_CHARACTERS:
        yield texts, True
        return

    iterator = iter(texts)
    n_texts = 16
    row = first_row
    while block := list(itertools.islice(iterator, n_texts)):
        runs = itertools.groupby(block, lambda text: isinstance(text, str))
        for is_raw, run in [(True, block)] if set(map(type, block)) == {str} else runs:
            batch = list(run)
            if not is_raw:
                _check_token_lists(batch, row)
            yield batch, is_raw
            row += len(batch)
        # The texts so far show how many make a batch.
        n_fitting = max(1, n_texts * _BATCH_CHARACTERS // max(sum(map(len, block)), 1))
        n_texts = min(n_fitting, 4 * n_texts, _MAX_BATCH_TEXTS)


def _check_token_lists(sentences: list, first_row: int) -> None:
    for row, tokens in enumerate(sentences, first_row):
        if not isinstance(tokens, list | tuple | np.ndarray):
            what = f"{type(tokens).__name__} {str(tokens)[:40]!r}"
        elif isinstance(tokens, np.ndarray) and tokens.ndim != 1:
            what = f"an array of shape {tokens.shape}"
        elif others := [token for token in tokens if not isinstance(token, str)]:
            what = f"a list with {type(others[0]).__name__} {str(others[0])[:40]!r} in it"
        else:
            continue
        raise TypeError(
            f"A sentence must be a str or a list of str. Got {what} in row {row} (rows count from "
            "0) instead. Drop it, or put '' in its place."
        )


def as_ascii(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Strings as one array with a byte a character, and where each begins and ends.

    What is not ASCII becomes another byte that is not, or '?': a separator for a separator. So
    lengths in characters are lengths in bytes, and no mark between the strings is needed.
    """
    # Latin-1 is how Python holds most texts that are not ASCII, so that bytes are only copied
    data = np.frombuffer("".join(texts).encode("latin-1", "replace"), dtype=np.uint8)
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
    return data, bounds


def warn_low_coverage(
    vocabulary: EncodingVocabulary, n_known: int, n_unknown: int, stacklevel: int = 2
) -> None:
    """Warn if under half of a text's tokens are in the vocabulary, and name the likely cause."""
    n_tokens = n_known + n_unknown
    if 2 * n_known >= n_tokens:
        return
    # The frequent words show how the vocabulary was made.
    words = [vocabulary.table.word(i) for i in range(min(len(vocabulary), 2000))]
    other_words = []
    if not callable(vocabulary.normalize):
        whole = [word for word in words if not word.startswith("##")]
        other_words = [word for word in whole if vocabulary.tokens(word) != [word]]
    cause = (
        "the text is in another language or of another kind than the vocabulary, or token "
        "lists were made in another way than its words (case, punctuation)"
    )
    if len(other_words) > 0.1 * len(words):
        cause = (
            f"its words were made in another way than normalize={vocabulary.normalize!r} does (it "
            f"has {other_words[0]!r}; cased words, punctuation, numbers or another alphabet): use "
            "the tokenisation the vectors came with, Vocabulary(..., normalize=your_tokeniser)"
        )
    warnings.warn(
        f"Only {100 * n_known / n_tokens:.0f}% of these {n_tokens:,} tokens are in the "
        f"vocabulary. The likely cause: {cause}. Coverage is fine from about 90%.",
        LowCoverageWarning,
        stacklevel=stacklevel + 1,
    )
