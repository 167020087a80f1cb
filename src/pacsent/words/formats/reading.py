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
    """The format of a file or folder of word vectors, by its contents.

    Parameters
    ----------
    path : path

    Returns
    -------
    format : str
        "word2vec-text", "word2vec-binary", "fasttext", "glove", "static" or "pacsent"; ValueError
        if it is none of them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = path.write_text("2 3\\nwine 0.5 1 0\\nbeer 0.25 1 1\\n")
    >>> detect(path)
    'word2vec-text'
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}. Check the spelling.")
    if path.is_dir():
        return _detect_folder(path)

    with open_stream(path) as stream:
        start = stream.peek(_PEEK_BYTES)
    if not start:
        raise invalid(path, "is empty")
    if start.startswith(MAGIC):
        return "fasttext"

    header = HEADER.match(start)
    if header:
        n_dims = int(header[2])
        first_line, _, _ = start[header.end() :].partition(b"\n")
        return "word2vec-text" if _is_text(first_line, n_dims) else "word2vec-binary"

    first_line, _, _ = start.partition(b"\n")
    fields = first_line.split()
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


def _detect_folder(path: Path) -> str:
    if static_folder(path) and not storage.is_model(path):
        return "static"
    if (path / storage.CONFIG).exists():
        return "pacsent"
    raise ValueError(
        f"{path} must be a folder of word vectors: a pacsent model ({storage.CONFIG}) or "
        "static embeddings (tokenizer.json with model.safetensors). It is neither. Name the "
        "file inside it that contains the vectors."
    )


def _is_text(first_line: bytes, n_dims: int) -> bool:
    """True if the numbers of a line are written out, and are not the bytes of float32."""
    _, *fields = first_line.rsplit(None, n_dims) or [b""]
    # A word may have a zero byte in it, and a number may not.
    if any(b"\0" in field for field in fields):
        return False

    # The bytes of float32 hardly ever look like a number.
    n_numbers = sum(map(is_number, fields))
    return 2 * n_numbers >= max(1, len(fields))


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

    Parameters
    ----------
    path : path
        A file (plain, .gz, .bz2, .xz or .zst) or a folder, or "english".
    format : str or None, default=None
        As `detect` names it; None recognises it by the contents.
    normalize : "paper", "unicode" or callable, optional
        How raw text becomes tokens; by default as the vectors came, else "paper".
    counts : path or None, default=None
        A file with `word count` on each line (word2vec's -save-vocab, GloVe's vocab.txt). Without
        it the counts are None if the format has none.
    context : path, "auto" or None, default="auto"
        The output vectors of a word2vec file. "auto" takes `context_FILE` next to `FILE` if it is
        there; None reads the input vectors only.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    words : WordVectors

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = path.write_text("2 3\\nwine 0.5 1 0\\nbeer 0.25 1 1\\n")
    >>> read(path).vocabulary.words
    ['wine', 'beer']
    """
    path = Path(storage.place(path))
    if format is not None and format not in FORMATS:
        names = ", ".join(map(repr, FORMATS))
        raise ValueError(f"format must be one of {names}. Got {format!r} instead.")
    format = format or detect(path)
    _check_options(path, format, counts, context)

    if format == "pacsent":
        storage.read_config(path)  # `load` would ask here again for a damaged one
        return as_word_vectors(path, normalize=normalize)

    if format.startswith("word2vec"):
        contents = _read_word2vec_pair(path, format, context, verbose)
    else:
        readers = {"fasttext": read_fasttext, "glove": read_glove, "static": read_static}
        contents = readers[format](path, verbose)

    words = _decode(path, contents.words)
    words = _drop_repeated(path, words, contents)
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


def _check_options(
    path: Path, format: str, counts: str | os.PathLike | None, context: str | os.PathLike | None
) -> None:
    """Raise ValueError for an option that would be ignored silently."""
    if format == "pacsent" and counts is not None:
        raise ValueError(f"counts must be left out for a folder of pacsent. Got {counts} instead.")
    if not format.startswith("word2vec") and context not in ("auto", None):
        raise ValueError(
            f"context must be left out for every format but word2vec's. Got {context} for {path} "
            f"({FORMATS[format]}) instead."
        )


def _drop_repeated(path: Path, words: list[str], contents: FileContents) -> list[str]:
    """The words, each once; the rows of `contents` are reduced to the first ones."""
    first_row: dict[str, int] = {}
    for row, word in enumerate(words):
        first_row.setdefault(word, row)
    n_repeated = len(words) - len(first_row)
    if n_repeated == 0:
        return words

    first_repeated = next(word for row, word in enumerate(words) if first_row[word] != row)
    warnings.warn(
        f"{path}: {n_repeated:,} words occur again and were left out (the first is "
        f"{first_repeated!r}).",
        stacklevel=3,
    )

    kept_rows = list(first_row.values())
    contents.table = contents.table[kept_rows]
    if contents.output is not None:
        contents.output = contents.output[kept_rows]
    if contents.counts is not None:
        contents.counts = contents.counts[kept_rows]
    return list(first_row)


def _find_context(path: Path) -> Path | None:
    """The file of output vectors next to a file of input vectors; None if there is none."""
    input_path = path.with_name(path.name.removeprefix(CONTEXT))
    if input_path != path and input_path.exists():
        raise ValueError(
            f"{path} has the output vectors of the pair that begins with {input_path}. Read "
            f"{input_path.name} to get both matrices, or pass context=None to read this one alone."
        )

    output_path = path.with_name(CONTEXT + path.name)
    return output_path if output_path.exists() else None


def _read_word2vec_pair(
    path: Path, format: str, context: str | os.PathLike | None, verbose: bool
) -> FileContents:
    """Input vectors and, if there are some, output vectors in the order of the same words."""
    if context == "auto":
        context = _find_context(path)

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
        row_of = {word: row for row, word in enumerate(context_words)}
        if set(words) != set(row_of) or len(words) != len(context_words):
            raise ValueError(
                f"{path} and {context} must have the same words to be a pair. Got {len(words):,} "
                f"and {len(context_words):,} words instead, or others. Pass context=None to read "
                "the first alone."
            )
        output = output[[row_of[word] for word in words]]

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
    invalid_words = [raw for raw, word in zip(raw_words, words) if raw != word.encode()]
    if invalid_words:
        warnings.warn(
            f"{path}: {len(invalid_words):,} words are not UTF-8 and were read with their bad "
            f"bytes written out (the first is {invalid_words[0]!r}).",
            stacklevel=3,
        )
    return words


def _read_counts(path: Path, words: Sequence[str]) -> np.ndarray:
    """The counts in a file with a word and its count per line, in the order of `words`."""
    with open_stream(path) as stream:
        content = b"".join(iter(stream.read, b""))
    *lines, incomplete = content.split(b"\n")
    if incomplete:
        raise invalid(path, "must end with a line break. It does not, so it may be cut off")

    raw_words = []
    counts = []
    separator = b"\t" if lines and b"\t" in lines[0] else b" "
    for number, line in enumerate(lines, 1):
        word, _, count = line.rstrip(b"\r").rpartition(separator)
        if not word or not count.isdigit() or len(count) > 18:
            shown = line[:60].decode("utf-8", "replace")
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got {shown!r} instead."
            )
        raw_words.append(word)
        counts.append(int(count))

    count_of = dict(zip(_decode(path, raw_words), counts))
    missing = [word for word in words if word not in count_of]
    if missing:
        raise ValueError(
            f"{path} must have a count for every word of the vectors. {len(missing):,} have none, "
            f"the first is {missing[0]!r}. Use the list that belongs to these vectors."
        )
    return np.array([count_of[word] for word in words], dtype=np.int64)
