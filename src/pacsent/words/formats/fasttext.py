"""fastText .bin: words, subwords and both matrices."""

import struct
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from pacsent.words.formats.streams import (
    BLOCK_BYTES,
    MAX_WORD_BYTES,
    FileContents,
    GrowingTable,
    Stream,
    invalid,
    open_stream,
)
from pacsent.words.subwords import Subwords

MAGIC = struct.pack("<i", 793712314)
_MODELS = {1: "cbow", 2: "skip-gram", 3: "supervised"}
_LOSSES = {1: "hierarchical softmax", 2: "negative sampling", 3: "softmax", 4: "one-vs-all"}
_SETTINGS = struct.Struct("<12id")
_SETTING_NAMES = (
    "dim",
    "window",
    "n_epochs",
    "min_count",
    "n_negatives",
    "word_ngrams",
    "loss",
    "model",
    "bucket",
    "minn",
    "maxn",
    "lr_update",
    "subsample",
)
_TRAINING = ("window", "n_epochs", "min_count", "n_negatives", "subsample")
_SIZES = struct.Struct("<3i2q")  # entries, words, labels, tokens, pruned n-grams
_ENTRY = struct.Struct("<qb")  # count and kind of a word
_WORDS_PER_BLOCK = 20_000  # whose n-grams are added at a time
_SUPERVISED = (
    "is a supervised fastText model: its output table belongs to labels, not to words. Train with "
    "`fasttext skipgram`, or write its word vectors as text (fasttext print-word-vectors) and read "
    "those."
)


def read_fasttext(path: Path, verbose: bool) -> FileContents:
    """Word vectors of a fastText .bin file."""
    with open_stream(path, verbose) as stream:
        if stream.peek(4) != MAGIC:
            raise ValueError(
                f"{path} must be a fastText .bin file. It begins otherwise. Write files of before "
                "2017 again with a current fastText."
            )

        _, version = struct.unpack("<2i", stream.exactly(8, "its first bytes"))
        if version not in (11, 12):
            raise ValueError(
                f"{path} must be fastText format 11 or 12. Got {version} instead. Write it again "
                "with a current fastText."
            )

        numbers = _SETTINGS.unpack(stream.exactly(_SETTINGS.size, "its settings"))
        settings: dict = dict(zip(_SETTING_NAMES, numbers))
        model = settings["model"]
        loss = settings["loss"]
        n_dims = settings["dim"]
        if model == 3:
            raise ValueError(f"{path} {_SUPERVISED}")
        if model not in _MODELS or loss not in _LOSSES:
            raise invalid(path, f"is damaged: model {model} and loss {loss} are none of fastText's")

        words, counts, is_pruned = _read_dictionary(stream)
        n_input_rows = len(words) + settings["bucket"]
        table = _read_matrix(stream, "input", is_pruned, n_input_rows, n_dims)
        output: np.ndarray | None = _read_matrix(stream, "output", False, len(words), n_dims)
        if stream.read(1):
            raise invalid(path, "must end after its output table. More follows: it is damaged")

    training = {"method": _MODELS[model], "loss": _LOSSES[loss]}
    training |= {name: settings[name] for name in _TRAINING}

    subwords = None
    if settings["maxn"] > 0 and settings["bucket"] > 0:
        min_n = max(1, settings["minn"])
        subwords = Subwords(table[len(words) :], min_n, settings["maxn"])
        if not np.isfinite(subwords.vectors).all():
            raise invalid(path, "must have finite numbers. Got NaN or infinity in its subwords")
        _add_subwords(table, words, subwords)

    if loss == 1:
        output = None
        training["output_table"] = "none: hierarchical softmax has no output vectors of words"
        warnings.warn(
            f"{path} was trained with hierarchical softmax, whose output table belongs to the "
            "nodes of a tree, not to words: only the input vectors were read.",
            stacklevel=3,
        )

    return FileContents(words, table[: len(words)], output, counts, training, subwords)


def _read_dictionary(stream: Stream) -> tuple[list[bytes], np.ndarray, bool]:
    """Words, their counts, and whether n-grams were pruned."""
    header = stream.exactly(_SIZES.size, "its list of words")
    size, n_words, n_labels, _, n_pruned = _SIZES.unpack(header)
    if n_labels:
        raise ValueError(f"{stream.path} {_SUPERVISED}")
    if size != n_words or n_words < 1:
        raise invalid(stream.path, f"is damaged: {size:,} entries for {n_words:,} words")

    # An entry is the word, a zero byte, its count and its kind.
    words: list[bytes] = []
    counts: list[int] = []
    data = b""
    place = 0
    is_end = False
    while len(words) < n_words:
        end = data.find(b"\x00", place)
        if end < 0 or end + 1 + _ENTRY.size > len(data):
            if is_end or len(data) - place > MAX_WORD_BYTES:
                problem = f"{len(words):,} of its {n_words:,} words can be read"
                raise invalid(stream.path, f"is cut off or damaged: {problem}")
            block = stream.read(1 << 20)
            is_end = not block
            data = data[place:] + block
            place = 0
            continue

        count, kind = _ENTRY.unpack_from(data, end + 1)
        # The word may be empty: -pretrainedVectors adds one for a line that begins with a space.
        if kind != 0 or count < 0:
            problem = f"what stands at word {len(words) + 1:,} is not a word"
            raise invalid(stream.path, f"is damaged: {problem}")

        words.append(data[place:end])
        counts.append(count)
        place = end + 1 + _ENTRY.size

    stream.unread(data[place:])
    return words, np.array(counts, dtype=np.int64), n_pruned >= 0


def _read_matrix(
    stream: Stream, name: str, is_pruned: bool, n_rows: int, n_dims: int
) -> np.ndarray:
    what = f"the {name} table"
    if is_pruned or stream.exactly(1, what) != b"\x00":
        raise ValueError(
            f"{stream.path} is a quantised fastText model (.ftz): its vectors are compressed and "
            "its output table is for labels. Use the .bin it was made from."
        )

    shape = struct.unpack("<2q", stream.exactly(16, what))
    if shape != (n_rows, n_dims):
        raise ValueError(
            f"The {name} table of {stream.path} must be {n_rows:,} x {n_dims}, as its settings "
            f"say. Got {shape[0]:,} x {shape[1]} instead: the file is damaged."
        )

    table = GrowingTable(n_dims)
    rows_per_block = max(1, BLOCK_BYTES // (4 * n_dims))
    while table.n_rows < n_rows:
        n_block = min(rows_per_block, n_rows - table.n_rows)
        data = stream.exactly(4 * n_dims * n_block, what)
        numbers = np.frombuffer(data, dtype="<f4")
        table.append(numbers.reshape(n_block, n_dims))
    return table.finish()


def _add_subwords(table: np.ndarray, words: list[bytes], subwords: Subwords) -> None:
    """Turn the rows of in-vocabulary words into fastText's word vectors, in place.

    vector(word) = (own row + rows of its n-grams) / (1 + number of n-grams)
    """
    for start in range(0, len(words), _WORDS_PER_BLOCK):
        block = words[start : start + _WORDS_PER_BLOCK]
        # Word i of the block has the n-grams in ngram_rows[offsets[i] : offsets[i + 1]].
        ngram_rows, offsets = subwords.rows(block)

        # The end of a sentence is a word without n-grams.
        if b"</s>" in block:
            i = block.index(b"</s>")
            begin = offsets[i]
            end = offsets[i + 1]
            ngram_rows = np.delete(ngram_rows, slice(begin, end))
            offsets[i + 1 :] -= end - begin

        # How often each word has each n-gram, (n_words_of_block, n_ngram_vectors).
        ones = np.ones(ngram_rows.size, dtype=np.float32)
        shape = (len(block), len(subwords.vectors))
        ngram_counts = sparse.csr_matrix((ones, ngram_rows, offsets), shape=shape)
        n_summands = (1 + np.diff(offsets)).astype(np.float32)

        # A view: the table itself is changed.
        vectors = table[start : start + len(block)]
        vectors += ngram_counts @ subwords.vectors
        vectors /= n_summands[:, None]
