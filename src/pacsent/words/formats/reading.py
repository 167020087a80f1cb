"""Read word vectors in any known format, and files with a word and its count per line."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pacsent.storage import place, read_config
from pacsent.words.formats.detection import detect
from pacsent.words.formats.fasttext import read_fasttext
from pacsent.words.formats.static import read_static
from pacsent.words.formats.table_parts import FORMATS, Options, Stream, decoded, invalid
from pacsent.words.formats.word2vec import read_glove, read_word2vec_pair
from pacsent.words.vectors import WordVectors, as_word_vectors

ENCODING_ERRORS = ("strict", "replace", "backslashreplace")


def read(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    normalise: str | Callable[[str], list[str]] | None = None,
    counts: str | os.PathLike | None = None,
    context: str | os.PathLike | None = "auto",
    encoding_errors: str = "strict",
    duplicates: str = "error",
    verbose: bool = False,
) -> WordVectors:
    """Read word vectors in any known format.

    Parameters
    ----------
    path : str or path
        A file (plain, .gz, .bz2, .xz or .zst), a folder, or "english".
    format : str, optional
        One of `FORMATS`; recognised by the contents when left out.
    normalise : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens of this vocabulary. When left out: what a folder of ours
        says, the tokenizer of static embeddings, "paper" for everything else.
    counts : path, optional
        A file with `word count` on each line (word2vec's -save-vocab, GloVe's vocab.txt, a
        .tsv). Without it counts are None where the format keeps none: never invented.
    context : "auto", None or path, default="auto"
        The output table of a word2vec file. "auto" takes `context_FILE` next to `FILE` if it is
        there; None leaves the output table out.
    encoding_errors : {"strict", "replace", "backslashreplace"}, default="strict"
        What to do with words that are not UTF-8: refuse the file, or replace the bad bytes.
    duplicates : {"error", "first"}, default="error"
        A word that occurs twice: refuse the file, or keep its first vector and warn.
    verbose : bool, default=False
        Show progress on stderr.
    """
    path = place(path)
    for name, value, known in (
        ("encoding_errors", encoding_errors, ENCODING_ERRORS),
        ("duplicates", duplicates, ("error", "first")),
        ("format", format, (None, *FORMATS)),
    ):
        if value not in known:
            shown = ", ".join(repr(k) for k in known if k is not None)
            raise ValueError(f"{name} must be one of {shown}. Got {value!r} instead.")
    format = format or detect(path)
    # an option that would be ignored silently is a mistake
    if format == "pacsent" and counts is not None:
        raise ValueError(
            f"counts must be left out for a folder of pacsent, which holds its own. Got {counts} "
            f"for {path} instead."
        )
    if not format.startswith("word2vec") and context not in ("auto", None):
        raise ValueError(
            "context must be left out for every format but word2vec's, which keeps its output "
            f"table in a second file. Got {context} for {path} ({FORMATS[format]}) instead."
        )
    options = Options(encoding_errors, duplicates, verbose)
    if format == "pacsent":
        read_config(path)  # `load` would ask here again for a damaged one
        return as_word_vectors(path, normalise=normalise)
    if format.startswith("word2vec"):
        parts = read_word2vec_pair(path, format, context, options)
    else:
        readers = {"fasttext": read_fasttext, "glove": read_glove, "static": read_static}
        parts = readers[format](path, options)
    if counts is not None:
        parts.counts = read_counts(Path(counts), parts.words, encoding_errors)
    return parts.word_vectors(normalise, {"format": FORMATS[format], **parts.training})


def read_counts(path: Path, words: Sequence[str], encoding_errors: str) -> np.ndarray:
    """The counts in a file with a word and its count per line, in the order of `words`.

    word2vec's -save-vocab and GloVe's vocab.txt are such files.
    """
    with Stream(path) as stream:
        *lines, last = b"".join(stream.blocks()).split(b"\n")
    if last:
        raise invalid(path, "must end with a line break. It does not, so it may be cut off")
    separator = b"\t" if lines and b"\t" in lines[0] else b" "
    raw_words, counts = [], []
    for number, line in enumerate(lines, 1):
        word, _, count = line.rstrip(b"\r").rpartition(separator)
        if not word or not count.isdigit() or len(count) > 18:
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got "
                f"{line[:60].decode('utf-8', 'replace')!r} instead."
            )
        raw_words.append(word)
        counts.append(int(count))
    count_of = dict(zip(decoded(path, raw_words, encoding_errors), counts))
    if missing := [word for word in words if word not in count_of]:
        raise ValueError(
            f"{path} must hold a count for every word of the vectors. {len(missing):,} have none, "
            f"the first is {missing[0]!r}. Use the list that belongs to these vectors."
        )
    return np.array([count_of[word] for word in words], dtype=np.int64)
