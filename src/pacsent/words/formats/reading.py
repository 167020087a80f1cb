"""Recognise and read word vectors in any known format, and their counts."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pacsent import storage
from pacsent.words.formats.fasttext import MAGIC, read_fasttext
from pacsent.words.formats.static import read_static, static_folder
from pacsent.words.formats.streams import FileContents, invalid, open_stream
from pacsent.words.formats.word2vec import HEADER, is_number, read_glove, read_word2vec
from pacsent.words.vectors import WordVectors, as_word_vectors
from pacsent.words.vocabulary import Vocabulary

FORMATS = {
    "word2vec-text": "word2vec text (also fastText's .vec)",
    "word2vec-binary": "word2vec binary",
    "fasttext": "fastText .bin",
    "glove": "GloVe text",
    "static": "model2vec or sentence-transformers StaticEmbedding folder",
    "pacsent": "pacsent folder",
}
CONTEXT = "context_"  # FILE holds the input vectors, context_FILE the output vectors
_PEEK_BYTES = 1 << 16  # looked at to recognise a file


def detect(path: str | os.PathLike) -> str:
    """Which of `FORMATS` a file or folder is; a clear ValueError when it is none."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}. Check the spelling.")

    if path.is_dir():
        if static_folder(path) and not storage.is_model(path):
            return "static"
        if (path / storage.CONFIG).exists():
            return "pacsent"
        raise ValueError(
            f"{path} must be a folder of word vectors: a pacsent model ({storage.CONFIG}) or "
            "static embeddings (tokenizer.json with model.safetensors). It is neither. Name the "
            "file inside it that contains the vectors."
        )

    with open_stream(path) as stream:
        start = stream.peek(_PEEK_BYTES)
    if not start:
        raise invalid(path, "is empty")
    if start.startswith(MAGIC):
        return "fasttext"

    if header := HEADER.match(start):
        # Numbers that are written out; the bytes of float32 hardly ever look like one.
        line = start[header.end() :].partition(b"\n")[0]
        fields = line.rsplit(None, int(header[2]))[1:]
        # A word may have a zero byte in it, and a number may not.
        has_zeros = any(b"\0" in number for number in fields)
        is_text = not has_zeros and 2 * sum(map(is_number, fields)) >= max(1, len(fields))
        return "word2vec-text" if is_text else "word2vec-binary"

    fields = start.split(b"\n", 1)[0].split()
    if len(fields) >= 2 and is_number(fields[-1]):
        if b"\n" not in start and len(start) < _PEEK_BYTES:
            raise invalid(path, f"is cut off: its {len(start)} bytes do not end a line")
        if len(fields) == 2:
            raise ValueError(
                f"{path} has one number after each word, so it is a list of counts rather than "
                "vectors. Pass it as counts= together with the vectors, or format='glove' if the "
                "vectors do have one dimension."
            )
        return "glove"

    shown = start[:40].decode("ascii", "backslashreplace").split("\n")[0]
    raise ValueError(
        f"{path} must be word vectors in a known format ({', '.join(FORMATS)}). It begins with "
        f"{shown!r}, which is none of them, or it was cut off. Pickles, archives and databases are "
        "never opened: unpack the file, or save its vectors as word2vec text."
    )


def read(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    normalize: str | Callable[[str], list[str]] | None = None,
    counts: str | os.PathLike | None = None,
    context: str | os.PathLike | None = "auto",
    verbose: bool = False,
) -> WordVectors:
    """Read word vectors in any known format.

    Words that are not UTF-8 (word2vec.c cuts long words inside a character) are read with their bad
    bytes as `\\xc3`; of a word that occurs twice the first vector is kept. Both are warned about.

    The path is that of a file (plain, .gz, .bz2, .xz or .zst) or a folder, or "english"; `format`
    is one of `FORMATS`, by the contents when left out. `normalize` is how raw text becomes tokens
    ("paper", "unicode" or a callable), by default as the vectors came, else "paper". `counts` is a
    file with `word count` on each line (word2vec's -save-vocab, GloVe's vocab.txt): without it they
    are None where the format keeps none. `context` is the output vectors of a word2vec file: "auto"
    takes `context_FILE` next to `FILE` if it is there; None leaves it out.
    """
    path = Path(storage.place(path))
    if format is not None and format not in FORMATS:
        names = ", ".join(map(repr, FORMATS))
        raise ValueError(f"format must be one of {names}. Got {format!r} instead.")
    format = format or detect(path)

    # an option that would be ignored silently is a mistake
    if format == "pacsent" and counts is not None:
        raise ValueError(f"counts must be left out for a folder of pacsent. Got {counts} instead.")
    if not format.startswith("word2vec") and context not in ("auto", None):
        raise ValueError(
            f"context must be left out for every format but word2vec's. Got {context} for {path} "
            f"({FORMATS[format]}) instead."
        )

    if format == "pacsent":
        storage.read_config(path)  # `load` would ask here again for a damaged one
        return as_word_vectors(path, normalize=normalize)

    if format.startswith("word2vec"):
        contents = _read_word2vec_pair(path, format, context, verbose)
    else:
        readers = {"fasttext": read_fasttext, "glove": read_glove, "static": read_static}
        contents = readers[format](path, verbose)

    words = _decode(path, contents.words)

    first_row: dict[str, int] = {}
    for i, word in enumerate(words):
        first_row.setdefault(word, i)
    if len(first_row) < len(words):
        kept = list(first_row.values())
        repeated = next(word for i, word in enumerate(words) if first_row[word] != i)
        warnings.warn(
            f"{path}: {len(words) - len(kept):,} words occur again and were left out (the first is "
            f"{repeated!r}).",
            stacklevel=2,
        )
        words, contents.table = list(first_row), contents.table[kept]
        contents.output = None if contents.output is None else contents.output[kept]
        contents.counts = None if contents.counts is None else contents.counts[kept]

    if counts is not None:
        contents.counts = _read_counts(Path(counts), words)

    try:
        return WordVectors(
            Vocabulary(words, contents.counts, normalize=normalize or contents.normalize),
            contents.table,
            contents.output,
            training={"format": FORMATS[format], **contents.training},
            subwords=contents.subwords,
            sentences=contents.sentences,
        ).check_finite()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_word2vec_pair(
    path: Path, format: str, context: str | os.PathLike | None, verbose: bool
) -> FileContents:
    if context == "auto":
        first = path.with_name(path.name.removeprefix(CONTEXT))
        if first != path and first.exists():
            raise ValueError(
                f"{path} has the output vectors of the pair that begins with {first}. Read "
                f"{first.name} to get both matrices, or pass context=None to read this one alone."
            )
        neighbour = path.with_name(CONTEXT + path.name)
        context = neighbour if neighbour.exists() else None

    words, table = read_word2vec(path, format, verbose)
    if context is None:
        return FileContents(words, table)

    context_format = detect(context)
    if not context_format.startswith("word2vec"):
        raise ValueError(
            f"{context} must be a word2vec file like {path}. It is {FORMATS[context_format]}."
        )

    context_words, output = read_word2vec(Path(context), context_format, verbose)
    if context_words != words:
        row = {word: i for i, word in enumerate(context_words)}
        if set(words) != set(row) or len(words) != len(context_words):
            raise ValueError(
                f"{path} and {context} must have the same words to be a pair. Got {len(words):,} "
                f"and {len(context_words):,} words instead, or others. Pass context=None to read "
                "the first alone."
            )
        output = output[[row[word] for word in words]]

    if output.shape != table.shape:
        raise ValueError(
            f"{path} and {context} must have the same dimensions to be a pair. Got "
            f"{table.shape[1]} and {output.shape[1]} instead. Pass context=None to read the first "
            "alone."
        )
    return FileContents(words, table, output)


def _decode(path: Path, raw_words: Sequence) -> list[str]:
    """Words from their bytes; words that are text already stay as they are."""
    if raw_words and isinstance(raw_words[0], str):
        return list(raw_words)

    words = [raw.decode("utf-8", "backslashreplace") for raw in raw_words]
    if wrong := [raw for raw, word in zip(raw_words, words) if raw != word.encode()]:
        warnings.warn(
            f"{path}: {len(wrong):,} words are not UTF-8 and were read with their bad bytes "
            f"written out (the first is {wrong[0]!r}).",
            stacklevel=3,
        )
    return words


def _read_counts(path: Path, words: Sequence[str]) -> np.ndarray:
    """The counts in a file with a word and its count per line, in the order of `words`."""
    with open_stream(path) as stream:
        *lines, last = b"".join(iter(stream.read, b"")).split(b"\n")
    if last:
        raise invalid(path, "must end with a line break. It does not, so it may be cut off")

    separator = b"\t" if lines and b"\t" in lines[0] else b" "
    pairs = [line.rstrip(b"\r").rpartition(separator)[::2] for line in lines]
    for number, (word, count) in enumerate(pairs, 1):
        if not word or not count.isdigit() or len(count) > 18:
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got "
                f"{lines[number - 1][:60].decode('utf-8', 'replace')!r} instead."
            )

    count_of = dict(zip(_decode(path, [word for word, _ in pairs]), (int(n) for _, n in pairs)))
    if missing := [word for word in words if word not in count_of]:
        raise ValueError(
            f"{path} must have a count for every word of the vectors. {len(missing):,} have none, "
            f"the first is {missing[0]!r}. Use the list that belongs to these vectors."
        )
    return np.array([count_of[word] for word in words], dtype=np.int64)
