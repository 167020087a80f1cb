"""Word vectors written for other programs, each file complete or not at all."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacsent import progress
from pacsent.files import check_output, replacing
from pacsent.storage import save
from pacsent.words.formats.reading import CONTEXT
from pacsent.words.vectors import WordVectors

WRITABLE = ("word2vec-text", "word2vec-binary", "pacsent")
_SUFFIXES = {
    ".txt": "word2vec-text",
    ".vec": "word2vec-text",
    ".bin": "word2vec-binary",
    "": "pacsent",
}
_SPACE = re.compile(r"[ \t\r\n\v\f]")
_NUMBERS_PER_BLOCK = 1 << 20  # written at once
_MIN_SHOWN_NUMBERS = 10_000_000  # of a table whose writing shows progress


def write(
    words: WordVectors,
    path: str | os.PathLike,
    *,
    format: str | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> list[Path]:
    """Write word vectors for other programs, or as our folder.

    The input vectors go to `path`, the output vectors to `context_FILE` next to it.

    Parameters
    ----------
    words : WordVectors
        Words with white space cannot be distinguished from their numbers and raise ValueError.
    path : path
    format : "word2vec-text", "word2vec-binary", "pacsent" or None, default=None
        None goes by the name: .txt and .vec are text, .bin is binary, a name without a suffix is
        our folder. Text has nine significant digits, from which float32 and float16 come back as
        they were.
    overwrite : bool, default=False
        Replace files that are there.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    paths : list of Path
        The files or the folder that were written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pacsent import load
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "english.bin"
    >>> [written.name for written in write(load("english"), path)]
    ['english.bin', 'context_english.bin']
    """
    format = format or format_of_name(path)
    targets = check_targets(path, format, overwrite=overwrite)
    if format == "pacsent":
        save(words, path, overwrite=overwrite)
        return targets

    raw_words = _encode_words(words.words)
    if words.output_vectors is None:
        # An older file would be taken for the output vectors.
        targets.pop().unlink(missing_ok=True)

    write_rows = _write_text_rows if format == "word2vec-text" else _write_binary_rows
    for target, vectors in zip(targets, words.tables.values()):
        table = vectors.array
        rows_per_block = max(1, _NUMBERS_PER_BLOCK // words.n_dims)
        title = f"writing {target.name}"
        is_shown = verbose and table.size > _MIN_SHOWN_NUMBERS

        with (
            progress.bar(title, total=len(raw_words), unit="words", enabled=is_shown) as bar,
            replacing(target, parents=True) as file,
        ):
            file.write(b"%d %d\n" % table.shape)
            for start in range(0, len(raw_words), rows_per_block):
                block = slice(start, start + rows_per_block)
                write_rows(file, raw_words[block], table[block])
                bar.update(min(block.stop, len(raw_words)))
    return targets


def _encode_words(words: Sequence[str]) -> list[bytes]:
    """Words as UTF-8; ValueError for a word that a word2vec file cannot have."""
    spaced = [word for word in words if not word or _SPACE.search(word)]
    if spaced:
        raise ValueError(
            "Words of a word2vec file must be without spaces, tabs and line breaks. Got "
            f"{len(spaced):,} with them instead, the first is {spaced[0]!r}. Save as a pacsent "
            "folder, which takes any word."
        )

    try:
        return [word.encode("utf-8") for word in words]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Words must be valid Unicode to be written. Got {error.object!r} instead, which holds "
            "half a character. Rename or drop the word."
        ) from None


def _write_text_rows(file: Any, raw_words: list[bytes], rows: np.ndarray) -> None:
    # %.9g is enough for every float32 to come back as it was.
    line = b"%s " + b" ".join([b"%.9g"] * rows.shape[1]) + b"\n"
    pairs = zip(raw_words, rows.tolist())
    file.writelines(line % (word, *row) for word, row in pairs)


def _write_binary_rows(file: Any, raw_words: list[bytes], rows: np.ndarray) -> None:
    pairs = zip(raw_words, np.ascontiguousarray(rows, dtype="<f4"))
    file.writelines(b"%s %s\n" % (word, row.tobytes()) for word, row in pairs)


def check_targets(
    path: str | os.PathLike, format: str, inputs: Iterable = (), *, overwrite: bool = False
) -> list[Path]:
    """The files that `write` may make; raises if one is an input or may not be overwritten.

    Parameters
    ----------
    path : path
    format : str
        One of `WRITABLE`.
    inputs : iterable of paths
        Files that are read, and must not be replaced; None is skipped.
    overwrite : bool, default=False
        Allow files that are there.

    Returns
    -------
    targets : list of Path
    """
    path = Path(path)
    if str(path) == "-":
        raise ValueError(
            "The output must be a file or a folder, as two matrices do not fit one stream. Got "
            "'-' (standard output) instead. Name it, for example vectors.txt."
        )

    if format not in WRITABLE:
        names = ", ".join(map(repr, WRITABLE))
        raise ValueError(f"format must be one of {names}. Got {format!r} instead.")

    is_folder = format == "pacsent"
    targets = [path]
    if not is_folder:
        targets.append(path.with_name(CONTEXT + path.name))

    existing_inputs = [name for name in inputs if name is not None and Path(name).exists()]
    for target in targets:
        check_output(target, existing_inputs, overwrite=overwrite, folder=is_folder)
    return targets


def format_of_name(path: str | os.PathLike) -> str:
    """The format that `write` takes for a name.

    Parameters
    ----------
    path : path

    Returns
    -------
    format : str
        One of `WRITABLE`.

    Examples
    --------
    >>> format_of_name("vectors.bin"), format_of_name("vectors.txt"), format_of_name("model")
    ('word2vec-binary', 'word2vec-text', 'pacsent')
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES and not Path(path).is_dir():
        raise ValueError(
            f"The format of {path} must follow from its name (.txt or .vec: word2vec text, .bin: "
            f"word2vec binary, no suffix: pacsent folder). Got {suffix!r} instead. Say it with "
            "format= (--to)."
        )
    return _SUFFIXES.get(suffix, "pacsent")
