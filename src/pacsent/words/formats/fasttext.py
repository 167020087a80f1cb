"""fastText .bin: words, subwords and both tables."""

import struct
import warnings
from pathlib import Path

import numpy as np

from pacsent.words.formats.table_parts import (
    BLOCK,
    LONGEST_WORD,
    PEEK,
    Options,
    Parts,
    Table,
    opened,
)
from pacsent.words.subwords import Subwords

MAGIC = struct.pack("<i", 793712314)
_MODELS = {1: "cbow", 2: "skip-gram", 3: "supervised"}
_LOSSES = {1: "hierarchical softmax", 2: "negative sampling", 3: "softmax", 4: "one-vs-all"}
_SETTINGS = struct.Struct("<12id")
_SETTING_NAMES = (
    *("dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss"),
    *("model", "bucket", "minn", "maxn", "lr_update", "subsample"),
)
_OLD_SIZES = struct.Struct("<3iq")  # entries, words, labels, tokens


def read_fasttext(path: Path, options: Options) -> Parts:
    """Word vectors of a fastText .bin file."""
    with opened(path, options) as stream:
        args = _settings(stream)
        new = args["version"] > 0
        if args["model"] == 3:
            raise ValueError(
                f"{path} is a supervised fastText model: its output table belongs to labels, not "
                "to words. Train with `fasttext skipgram`, or write its word vectors as text "
                "(fasttext print-word-vectors) and read those."
            )
        if args["model"] not in _MODELS or args["loss"] not in _LOSSES:
            raise ValueError(
                f"{path} is damaged: model {args['model']} and loss {args['loss']} are none of "
                "fastText's. Download or copy it again."
            )
        words, counts, pruned = _fasttext_dictionary(stream, new)
        quantised = new and stream.exactly(1, "the input table") != b"\x00"
        if quantised or pruned:
            raise ValueError(
                f"{path} is a quantised fastText model (.ftz): its vectors are compressed and its "
                "output table is for labels. Use the .bin it was made from."
            )
        n_rows = len(words) + args["bucket"]
        table = _fasttext_matrix(stream, "input", n_rows, args["dim"])
        if new and stream.exactly(1, "the output table") != b"\x00":
            raise ValueError(
                f"{path} has a quantised output table. Use the model it was made from."
            )
        output: np.ndarray | None = _fasttext_matrix(stream, "output", len(words), args["dim"])
        if stream.read(1):
            raise ValueError(
                f"{path} must end after its output table. More follows: it is damaged."
            )
    training = {
        "method": _MODELS[args["model"]], "loss": _LOSSES[args["loss"]], "window": args["ws"],
        "n_epochs": args["epoch"], "min_count": args["min_count"], "n_negatives": args["neg"],
        "subsample": args["subsample"],
    }  # fmt: skip
    subwords = None
    if args["maxn"] > 0 and args["bucket"] > 0:
        subwords = Subwords(table[len(words) :], max(1, args["minn"]), args["maxn"])
        if not np.isfinite(subwords.vectors).all():
            raise ValueError(
                f"{path} must hold finite numbers. Got NaN or infinity in its subwords."
            )
        _add_subwords(table, words, subwords)
    if args["loss"] == 1:
        # rows of this table belong to inner nodes of a tree, not to words
        output = None
        training["output_table"] = "none: hierarchical softmax has no output vectors of words"
        warnings.warn(
            f"{path} was trained with hierarchical softmax, whose output table belongs to the "
            "nodes of a tree, not to words: only the input table was read.",
            stacklevel=3,
        )
    parts = Parts(
        path, words, table[: len(words)], options, output=output, counts=counts, training=training
    )
    parts.subwords = subwords
    return parts


def _settings(stream) -> dict:
    """The numbers a file begins with; version 0 for one that is older than the magic number."""
    args: dict = {"version": 0}
    if stream.peek(4) == MAGIC:
        _, args["version"] = struct.unpack("<2i", stream.exactly(8, "its first bytes"))
        if args["version"] not in (11, 12):
            raise ValueError(
                f"{stream.path} must be fastText format 11 or 12. Got {args['version']} instead. "
                "Write it again with a current fastText."
            )
    elif not is_old(stream.peek(PEEK)):
        raise ValueError(f"{stream.path} must be a fastText .bin file. It begins otherwise.")
    numbers = _SETTINGS.unpack(stream.exactly(_SETTINGS.size, "its settings"))
    return args | dict(zip(_SETTING_NAMES, numbers))


def is_old(start: bytes) -> bool:
    """Whether bytes begin a file of before 2017, without magic number: by its settings, the size
    of its list of words and the first word, all of which must make sense."""
    if len(start) < _SETTINGS.size + _OLD_SIZES.size:
        return False
    args = dict(zip(_SETTING_NAMES, _SETTINGS.unpack_from(start)))
    size, n_words, n_labels, n_tokens = _OLD_SIZES.unpack_from(start, _SETTINGS.size)
    sensible = (
        0 < args["dim"] <= 10_000
        and 0 < args["ws"] <= 10_000
        and all(args[name] >= 0 for name in ("epoch", "min_count", "neg", "bucket", "lr_update"))
        and args["loss"] in _LOSSES
        and args["model"] in _MODELS
        and 0 <= args["minn"] <= 100
        and 0 <= args["maxn"] <= 100
        and 0 <= args["subsample"] <= 1
        and size == n_words + n_labels
        and 0 < n_words <= n_tokens
        and n_labels >= 0
    )
    place = _SETTINGS.size + _OLD_SIZES.size
    end = start.find(b"\x00", place, place + LONGEST_WORD)
    if not sensible or end < 0 or end + 10 > len(start):
        return False
    count, kind = struct.unpack_from("<qb", start, end + 1)
    return 0 <= count <= n_tokens and kind in (0, 1)


def _fasttext_dictionary(stream, new: bool):
    what = "its list of words"
    size, n_words, n_labels, _ = _OLD_SIZES.unpack(stream.exactly(_OLD_SIZES.size, what))
    n_pruned = struct.unpack("<q", stream.exactly(8, what))[0] if new else -1
    if n_labels:
        raise ValueError(
            f"{stream.path} is a supervised fastText model ({n_labels} labels): its output table "
            "belongs to labels, not to words. Train with `fasttext skipgram`."
        )
    if size != n_words or n_words < 1:
        raise ValueError(
            f"{stream.path} is damaged: {size:,} entries for {n_words:,} words. Download or copy "
            "it again."
        )
    words: list[bytes] = []
    counts: list[int] = []
    data, place, ended = b"", 0, False
    while len(words) < n_words:
        end = data.find(b"\x00", place)
        if end < 0 or end + 10 > len(data):
            if ended or len(data) - place > LONGEST_WORD:
                raise ValueError(
                    f"{stream.path} is cut off or damaged: {len(words):,} of its {n_words:,} words "
                    "can be read. Download or copy it again."
                )
            block = stream.read(1 << 20)
            data, place, ended = data[place:] + block, 0, not block
            continue
        count, kind = struct.unpack_from("<qb", data, end + 1)
        # the word may be empty: -pretrainedVectors adds one for a line that begins with a space
        if kind != 0 or count < 0:
            raise ValueError(
                f"{stream.path} is damaged: what stands at word {len(words) + 1:,} is not a word. "
                "Download or copy it again."
            )
        words.append(data[place:end])
        counts.append(count)
        place = end + 10
    stream._ahead = data[place:] + stream._ahead
    return words, np.array(counts, dtype=np.int64), n_pruned >= 0


def _fasttext_matrix(stream, name, n_rows, n_dims) -> np.ndarray:
    what = f"the {name} table"
    shape = struct.unpack("<2q", stream.exactly(16, what))
    if shape != (n_rows, n_dims):
        raise ValueError(
            f"The {name} table of {stream.path} must be {n_rows:,} x {n_dims}, as its settings "
            f"say. Got {shape[0]:,} x {shape[1]} instead: the file is damaged."
        )
    table = Table(n_dims, n_rows, size=stream.size)
    at_once = max(1, BLOCK // (4 * n_dims))
    while table.n < n_rows:
        n = min(at_once, n_rows - table.n)
        data = stream.exactly(4 * n_dims * n, what)
        table.append(np.frombuffer(data, dtype="<f4").reshape(n, n_dims))
    return table.finish()


def _add_subwords(table, words, subwords):
    """Turn the rows of known words into fastText's word vectors, in place.

    vector(word) = (own row + rows of its n-grams) / (1 + number of n-grams)
    """
    from scipy import sparse

    at_once = 20_000
    for start in range(0, len(words), at_once):
        some = words[start : start + at_once]
        rows, offsets = subwords.rows(some)
        # the end of a sentence is a word without n-grams
        if b"</s>" in some:
            i = some.index(b"</s>")
            n = offsets[i + 1] - offsets[i]
            rows = np.delete(rows, slice(offsets[i], offsets[i + 1]))
            offsets[i + 1 :] -= n
        ngrams = sparse.csr_matrix(
            (np.ones(rows.size, dtype=np.float32), rows, offsets),
            shape=(len(some), len(subwords.vectors)),
        )
        own = table[start : start + len(some)]
        own += ngrams @ subwords.vectors
        own /= (1 + np.diff(offsets)).astype(np.float32)[:, None]
