"""Texts to token ids: in batches, on all cores, by compiled tokenisers where there are some."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from pacsent.kernels import text as kernels
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.normalize import count_dropped, tokenise_unicode
from pacsent.threads import in_order
from pacsent.words.pieces import Pieces
from pacsent.words.word_table import concat_utf8

_BATCH_CHARACTERS = 1 << 20  # that one thread takes at a time
_MAX_BATCH_TEXTS = 1 << 16
# Tokens of up to this many characters are looked up in a dict, unless it would have more words: of
# short texts that are not ASCII, compiled code has more to prepare than to do.
_MAX_DICT_CHARACTERS, _MAX_DICT_WORDS = 1 << 12, 1 << 18
_BATCH_BYTES = 1 << 26  # in a call of the compiled tokeniser: Ctrl-C works between calls


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
    return _joined(list(in_order(encode, iter_text_batches(X, first_row), n_jobs)))


def _joined(parts: list[Encoded]) -> Encoded:
    """The texts of all parts, one after the other."""
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

    data = np.ascontiguousarray(data, dtype=np.uint8)
    batches = itertools.pairwise(_batch_starts(bounds))
    encoded = _joined([_encode_paper(vocabulary, data, bounds[a : b + 1]) for a, b in batches])

    places = np.flatnonzero(data[: bounds[-1]] >= 128)  # bytes that are not ASCII
    rows = np.unique(np.searchsorted(bounds, places[places >= bounds[0]], "right") - 1)
    texts = [data[bounds[r] : bounds[r + 1]].tobytes().decode("utf-8", "replace") for r in rows]
    encoded.n_unknown[rows] += count_dropped(texts)
    return encoded


def _batch_starts(bounds: np.ndarray) -> list[int]:
    """The first texts of batches of about _BATCH_BYTES, and the number of texts."""
    n_texts = bounds.size - 1
    starts = [0]
    while starts[-1] < n_texts:
        end = np.searchsorted(bounds, bounds[starts[-1]] + _BATCH_BYTES, "right") - 1
        starts.append(max(int(end), starts[-1] + 1))
    return starts if n_texts else [0, 0]


def _encode_batch(vocabulary: EncodingVocabulary, batch: tuple[list, bool]) -> Encoded:
    (sentences, raw), normalize = batch, vocabulary.normalize

    if raw and normalize == "paper":
        ids, offsets, n_unknown = _encode_paper(vocabulary, *as_ascii(sentences))
        return Encoded(ids, offsets, n_unknown + count_dropped(sentences))
    if raw and normalize == "unicode" and all(map(str.isascii, sentences)):
        data, bounds = as_ascii(sentences)
        splits = vocabulary.unknown == "pieces"
        return Encoded(*kernels.encode_ascii(data, bounds, vocabulary.table.lookup, splits))

    if raw and isinstance(normalize, Pieces):
        numbers, ends = normalize.numbers(sentences)
        ids = vocabulary.token_rows[numbers]
    elif raw and normalize == "unicode" and not _is_for_dict(vocabulary, sentences):
        ids, ends = unicode_ids(sentences, vocabulary.table.ids_of)
    else:
        lists = [vocabulary.tokens(sentence) for sentence in sentences]
        ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
        tokens = itertools.chain.from_iterable(lists)
        ids = np.fromiter(map(vocabulary.index.get, tokens, itertools.repeat(-1)), np.int32)

    is_known = ids >= 0
    flat = ids[is_known]
    n_ids = is_known  # of each token; OOV words may become subwords

    if vocabulary.unknown == "pieces" and flat.size < ids.size:
        unknown = ~is_known
        tokenised = itertools.chain.from_iterable(map(vocabulary.tokens, sentences))
        words = list(itertools.compress(tokenised, unknown))
        subwords = {word: kernels.subword_ids(word, vocabulary.index) for word in set(words)}
        n_ids = is_known.astype(np.int64)
        n_ids[unknown] = [len(subwords[word]) for word in words]
        flat = np.repeat(ids, n_ids)
        flat[flat < 0] = [i for word in words for i in subwords[word]]

    offsets = _sums_before(n_ids, ends)
    n_lost = _sums_before(n_ids == 0, ends)
    return Encoded(flat, offsets, n_lost[1:] - n_lost[:-1])


def _is_for_dict(vocabulary: EncodingVocabulary, sentences: list[str]) -> bool:
    is_short = sum(map(len, sentences)) <= _MAX_DICT_CHARACTERS
    return is_short and len(vocabulary) <= _MAX_DICT_WORDS


def _sums_before(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """0, and the sum of values[:end] for each end."""
    sums = np.zeros(values.size + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])

    before = np.zeros(ends.size + 1, dtype=np.int64)
    before[1:] = sums[ends]
    return before


def _encode_paper(vocabulary: EncodingVocabulary, data: np.ndarray, bounds: np.ndarray) -> Encoded:
    """Bytes to ids by the compiled tokeniser; what is not ASCII separates."""
    splits = vocabulary.unknown == "pieces"
    return Encoded(*kernels.encode_paper(data, bounds, vocabulary.table.lookup, splits))


def unicode_ids(sentences: list[str], ids_of: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the tokens of the unicode normalisation, and how many there are after each sentence.

    `ids_of(data, starts)` returns the ids of joined tokens. Sentences in ASCII go through a
    compiled tokeniser, the others through the standard library's Unicode functions.
    """
    are_ascii = list(map(str.isascii, sentences))
    if all(are_ascii):
        tokens, starts, ends = kernels.split_ascii(*as_ascii(sentences))
        return ids_of(tokens, starts), ends
    if not any(are_ascii):
        lists = list(map(tokenise_unicode, sentences))
        ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
        return ids_of(*concat_utf8(list(itertools.chain.from_iterable(lists)))), ends

    is_ascii = np.array(are_ascii)
    first = unicode_ids(list(itertools.compress(sentences, is_ascii)), ids_of)
    second = unicode_ids(list(itertools.compress(sentences, ~is_ascii)), ids_of)

    n_tokens = np.zeros(len(sentences), dtype=np.int64)
    n_tokens[is_ascii] = np.diff(first[1], prepend=0)
    n_tokens[~is_ascii] = np.diff(second[1], prepend=0)
    # Two sorted runs: the stable sort merges them in one pass.
    rows = np.concatenate([np.flatnonzero(is_ascii), np.flatnonzero(~is_ascii)])
    order = np.argsort(np.repeat(rows, n_tokens[rows]), kind="stable")
    return np.concatenate([first[0], second[0]])[order], np.cumsum(n_tokens)


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
