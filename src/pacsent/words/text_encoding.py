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
_BATCH_BYTES = 1 << 26  # in a call of the compiled tokeniser: Ctrl-C works between calls

# Tokens of up to this many characters are looked up in a dict, unless it would have more words: of
# short texts that are not ASCII, compiled code has more to prepare than to do.
_MAX_DICT_CHARACTERS = 1 << 12
_MAX_DICT_WORDS = 1 << 18

# A list of at most this many texts may be one batch as it is.
_MAX_SHORT_LIST = 1 << 12


class EncodingVocabulary(Protocol):
    """The part of a `Vocabulary` that encoding needs: the ids of its words and its tokeniser."""

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
    encode_batch = partial(_encode_batch, vocabulary)
    batches = iter_text_batches(X, first_row)
    return _join(list(in_order(encode_batch, batches, n_jobs)))


def _join(parts: list[Encoded]) -> Encoded:
    """The texts of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]

    # Each list begins with an array of the right type: there may be no part.
    ids = [np.zeros(0, dtype=np.int32)]
    offsets = [np.zeros(1, dtype=np.int64)]
    n_unknown = [np.zeros(0, dtype=np.int64)]
    n_ids_before = 0
    for part in parts:
        ids.append(part.ids)
        offsets.append(part.offsets[1:] + n_ids_before)
        n_unknown.append(part.n_unknown)
        n_ids_before += part.ids.size

    return Encoded(np.concatenate(ids), np.concatenate(offsets), np.concatenate(n_unknown))


def encode_bytes(vocabulary: EncodingVocabulary, data: np.ndarray, bounds: np.ndarray) -> Encoded:
    """Texts that lie one after the other as UTF-8 to token ids, as `Vocabulary.encode` would.

    With `normalize="paper"` no string is made of them: the bytes of an Arrow column go to the
    compiled tokeniser as they are. Text s is data[bounds[s]:bounds[s + 1]].
    """
    bounds = np.ascontiguousarray(bounds, dtype=np.int64)
    is_inside = bounds.size and bounds[0] >= 0 and bounds[-1] <= data.size
    if not is_inside or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(
            f"bounds must rise from at least 0 to at most the {data.size:,} bytes of data. Got "
            f"{bounds.tolist()[:10]} instead."
        )

    if vocabulary.normalize != "paper":
        spans = itertools.pairwise(bounds)
        texts = [data[start:stop].tobytes().decode("utf-8") for start, stop in spans]
        return vocabulary.encode(texts, n_jobs=1)

    data = np.ascontiguousarray(data, dtype=np.uint8)
    parts = []
    for first_text, next_text in itertools.pairwise(_batch_starts(bounds)):
        batch_bounds = bounds[first_text : next_text + 1]
        parts.append(_encode_paper(vocabulary, data, batch_bounds))
    encoded = _join(parts)

    # The kernel does not count what is dropped of texts that are not ASCII.
    places = np.flatnonzero(data[: bounds[-1]] >= 128)
    places = places[places >= bounds[0]]
    rows = np.unique(np.searchsorted(bounds, places, "right") - 1)
    texts = []
    for row in rows:
        text_bytes = data[bounds[row] : bounds[row + 1]].tobytes()
        texts.append(text_bytes.decode("utf-8", "replace"))
    encoded.n_unknown[rows] += count_dropped(texts)
    return encoded


def _batch_starts(bounds: np.ndarray) -> list[int]:
    """The first texts of batches of about _BATCH_BYTES, and the number of texts."""
    n_texts = bounds.size - 1
    if n_texts == 0:
        return [0, 0]

    starts = [0]
    while starts[-1] < n_texts:
        limit = bounds[starts[-1]] + _BATCH_BYTES
        end = int(np.searchsorted(bounds, limit, "right")) - 1
        starts.append(max(end, starts[-1] + 1))
    return starts


def _encode_batch(vocabulary: EncodingVocabulary, batch: tuple[list, bool]) -> Encoded:
    """One batch of `iter_text_batches` to token ids."""
    sentences, is_raw = batch
    normalize = vocabulary.normalize

    # Compiled code takes these texts from bytes to offsets.
    if is_raw and normalize == "paper":
        data, bounds = as_ascii(sentences)
        ids, offsets, n_unknown = _encode_paper(vocabulary, data, bounds)
        return Encoded(ids, offsets, n_unknown + count_dropped(sentences))
    if is_raw and normalize == "unicode" and all(map(str.isascii, sentences)):
        data, bounds = as_ascii(sentences)
        splits = vocabulary.unknown == "pieces"
        return Encoded(*kernels.encode_ascii(data, bounds, vocabulary.table.lookup, splits))

    ids, ends = _token_ids(vocabulary, sentences, is_raw)
    is_known = ids >= 0
    kept_ids = ids[is_known]
    n_ids = is_known  # of each token

    if vocabulary.unknown == "pieces" and kept_ids.size < ids.size:
        kept_ids, n_ids = _split_unknown(vocabulary, sentences, ids)

    offsets = _sums_before(n_ids, ends)
    n_lost = _sums_before(n_ids == 0, ends)
    n_unknown = n_lost[1:] - n_lost[:-1]
    return Encoded(kept_ids, offsets, n_unknown)


def _token_ids(
    vocabulary: EncodingVocabulary, sentences: list, is_raw: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ids of all tokens, -1 for OOV ones, and how many tokens there are after each sentence."""
    normalize = vocabulary.normalize
    if is_raw and isinstance(normalize, Pieces):
        numbers, ends = normalize.numbers(sentences)
        return vocabulary.token_rows[numbers], ends
    if is_raw and normalize == "unicode" and not _is_for_dict(vocabulary, sentences):
        return unicode_ids(sentences, vocabulary.table.ids_of)

    lists = [vocabulary.tokens(sentence) for sentence in sentences]
    tokens = itertools.chain.from_iterable(lists)
    ids = map(vocabulary.index.get, tokens, itertools.repeat(-1))
    return np.fromiter(ids, np.int32), list_ends(lists)


def _split_unknown(
    vocabulary: EncodingVocabulary, sentences: list, ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """OOV words as subwords: all ids in order, and the number of ids of each token.

    `ids` has one number for each token, -1 for OOV ones.
    """
    is_unknown = ids < 0
    tokens = itertools.chain.from_iterable(map(vocabulary.tokens, sentences))
    words = list(itertools.compress(tokens, is_unknown))
    subwords_of = {word: kernels.subword_ids(word, vocabulary.index) for word in set(words)}
    subword_lists = [subwords_of[word] for word in words]

    n_ids = np.ones(ids.size, dtype=np.int64)
    n_ids[is_unknown] = list(map(len, subword_lists))

    # An OOV word is repeated once for each of its subwords, and then replaced by them.
    all_ids = np.repeat(ids, n_ids)
    all_ids[all_ids < 0] = list(itertools.chain.from_iterable(subword_lists))
    return all_ids, n_ids


def list_ends(lists: Sequence[Sequence]) -> np.ndarray:
    """The number of elements in each list and all lists before it, (n_lists,) int64."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return np.cumsum(lengths)


def _is_for_dict(vocabulary: EncodingVocabulary, sentences: list[str]) -> bool:
    n_characters = sum(map(len, sentences))
    return n_characters <= _MAX_DICT_CHARACTERS and len(vocabulary) <= _MAX_DICT_WORDS


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
        data, bounds = as_ascii(sentences)
        tokens, starts, ends = kernels.split_ascii(data, bounds)
        return ids_of(tokens, starts), ends
    if not any(are_ascii):
        lists = list(map(tokenise_unicode, sentences))
        tokens, starts = concat_utf8(list(itertools.chain.from_iterable(lists)))
        return ids_of(tokens, starts), list_ends(lists)

    is_ascii = np.array(are_ascii)
    ascii_sentences = list(itertools.compress(sentences, is_ascii))
    other_sentences = list(itertools.compress(sentences, ~is_ascii))
    ascii_ids, ascii_ends = unicode_ids(ascii_sentences, ids_of)
    other_ids, other_ends = unicode_ids(other_sentences, ids_of)

    n_tokens = np.zeros(len(sentences), dtype=np.int64)
    n_tokens[is_ascii] = np.diff(ascii_ends, prepend=0)
    n_tokens[~is_ascii] = np.diff(other_ends, prepend=0)

    # Two sorted runs: the stable sort merges them in one pass.
    rows = np.concatenate([np.flatnonzero(is_ascii), np.flatnonzero(~is_ascii)])
    row_of_token = np.repeat(rows, n_tokens[rows])
    order = np.argsort(row_of_token, kind="stable")
    ids = np.concatenate([ascii_ids, other_ids])
    return ids[order], np.cumsum(n_tokens)


def iter_text_batches(texts: Iterable, first_row: int = 0) -> Iterator[tuple[list, bool]]:
    """Lists of about _BATCH_CHARACTERS, all str or all token lists, and whether they are str.

    `texts` is what `as_sentences` returned; `first_row` is the number of the first one, for
    messages.
    """
    if isinstance(texts, list) and _is_one_batch(texts):
        yield texts, True
        return

    iterator = iter(texts)
    n_texts = 16
    row = first_row

    while block := list(itertools.islice(iterator, n_texts)):
        for batch, is_raw in _split_kinds(block):
            if not is_raw:
                _check_token_lists(batch, row)
            yield batch, is_raw
            row += len(batch)

        # The texts so far show how many make a batch.
        n_characters = max(sum(map(len, block)), 1)
        n_fitting = max(1, n_texts * _BATCH_CHARACTERS // n_characters)
        n_texts = min(n_fitting, 4 * n_texts, _MAX_BATCH_TEXTS)


def _is_one_batch(texts: list) -> bool:
    """True if a list is a batch of str as it is: the usual case."""
    if len(texts) > _MAX_SHORT_LIST or set(map(type, texts)) != {str}:
        return False
    return sum(map(len, texts)) <= _BATCH_CHARACTERS


def _split_kinds(block: list) -> Iterator[tuple[list, bool]]:
    """Runs of str and runs of token lists, in order, and whether they are str."""
    if set(map(type, block)) == {str}:
        yield block, True
        return

    for is_raw, run in itertools.groupby(block, lambda text: isinstance(text, str)):
        yield list(run), is_raw


def _check_token_lists(sentences: list, first_row: int) -> None:
    """Raise TypeError if a sentence is no list of str."""
    for row, tokens in enumerate(sentences, first_row):
        problem = _token_list_problem(tokens)
        if problem is not None:
            raise TypeError(
                f"A sentence must be a str or a list of str. Got {problem} in row {row} (rows "
                "count from 0) instead. Drop it, or put '' in its place."
            )


def _token_list_problem(tokens: Any) -> str | None:
    """Description of a value that is no list of tokens; None for one that is."""
    if not isinstance(tokens, list | tuple | np.ndarray):
        shown = str(tokens)[:40]
        return f"{type(tokens).__name__} {shown!r}"
    if isinstance(tokens, np.ndarray) and tokens.ndim != 1:
        return f"an array of shape {tokens.shape}"

    for token in tokens:
        if not isinstance(token, str):
            shown = str(token)[:40]
            return f"a list with {type(token).__name__} {shown!r} in it"
    return None


def as_ascii(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Strings as one array with a byte a character, and where each begins and ends.

    What is not ASCII becomes another byte that is not, or '?': a separator for a separator. So
    lengths in characters are lengths in bytes, and no mark between the strings is needed.
    """
    # Latin-1 is how Python holds most texts that are not ASCII, so that bytes are only copied.
    encoded = "".join(texts).encode("latin-1", "replace")
    data = np.frombuffer(encoded, dtype=np.uint8)

    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    np.cumsum(lengths, out=bounds[1:])
    return data, bounds


def warn_low_coverage(
    vocabulary: EncodingVocabulary, n_known: int, n_unknown: int, stacklevel: int = 2
) -> None:
    """Warn if under half of a text's tokens are in the vocabulary, and name the likely cause."""
    n_tokens = n_known + n_unknown
    if 2 * n_known >= n_tokens:
        return

    # The frequent words show how the vocabulary was made.
    n_words = min(len(vocabulary), 2000)
    words = [vocabulary.table.word(i) for i in range(n_words)]
    other_words = []
    if not callable(vocabulary.normalize):
        whole_words = [word for word in words if not word.startswith("##")]
        other_words = [word for word in whole_words if vocabulary.tokens(word) != [word]]

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

    percentage = 100 * n_known / n_tokens
    warnings.warn(
        f"Only {percentage:.0f}% of these {n_tokens:,} tokens are in the "
        f"vocabulary. The likely cause: {cause}. Coverage is fine from about 90%.",
        LowCoverageWarning,
        stacklevel=stacklevel + 1,
    )
