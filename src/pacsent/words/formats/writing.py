"""Word vectors written for other programs, each file complete or not at all."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pacsent import progress
from pacsent.files import check_output, replacing
from pacsent.storage import save
from pacsent.words.formats.reading import CONTEXT
from pacsent.words.vectors import WordVectors

WRITABLE = ("word2vec-text", "word2vec-binary", "pacsent")
_SUFFIXES = dict(zip((".txt", ".bin", ""), WRITABLE)) | {".vec": "word2vec-text"}


def write(
    words: WordVectors,
    path: str | os.PathLike,
    *,
    format: str | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> list[Path]:
    """Write word vectors for other programs, or as our folder; the paths of what was written.

    The input vectors go to `path`, the output vectors to `context_FILE` next to it. The `format` is
    "word2vec-text", "word2vec-binary" or "pacsent"; by the name when left out: .txt and .vec are
    text, .bin is binary, a name without a suffix is our folder.

    Text has nine significant digits, from which float32 and float16 come back as they were. Words
    with white space cannot be distinguished from their numbers and are refused.
    """
    format = format or format_of_name(path)
    targets = check_targets(path, format, overwrite=overwrite)
    if format == "pacsent":
        save(words, path, overwrite=overwrite)
        return targets

    spaced = [word for word in words.words if not word or re.search(r"[ \t\r\n\v\f]", word)]
    if spaced:
        raise ValueError(
            "Words of a word2vec file must be without spaces, tabs and line breaks. Got "
            f"{len(spaced):,} with them instead, the first is {spaced[0]!r}. Save as a pacsent "
            "folder, which takes any word."
        )

    try:
        raw_words = [word.encode("utf-8") for word in words.words]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Words must be valid Unicode to be written. Got {error.object!r} instead, which holds "
            "half a character. Rename or drop the word."
        ) from None

    if words.output_vectors is None:
        # an older file would be taken for the output vectors
        targets.pop().unlink(missing_ok=True)

    for target, vectors in zip(targets, words.tables.values()):
        table = vectors.array
        # %.9g is enough for every float32 to come back as it was
        line = b"%s " + b" ".join([b"%.9g"] * words.n_dims) + b"\n"
        rows_per_block = max(1, (1 << 20) // words.n_dims)
        what, shown = f"writing {target.name}", verbose and table.size > 10_000_000

        with (
            progress.bar(what, total=len(raw_words), unit="words", enabled=shown) as bar,
            replacing(target, parents=True) as file,
        ):
            file.write(b"%d %d\n" % table.shape)
            for start in range(0, len(raw_words), rows_per_block):
                block = slice(start, start + rows_per_block)
                if format == "word2vec-text":
                    pairs = zip(raw_words[block], table[block].tolist())
                    file.writelines(line % (word, *row) for word, row in pairs)
                else:
                    rows = np.ascontiguousarray(table[block], dtype="<f4")
                    pairs = zip(raw_words[block], rows)
                    file.writelines(b"%s %s\n" % (word, row.tobytes()) for word, row in pairs)
                bar.update(min(block.stop, len(raw_words)))
    return targets


def check_targets(
    path: str | os.PathLike, format: str, inputs: Iterable = (), *, overwrite: bool = False
) -> list[Path]:
    """The files that `write` may make; raises if one is an input or may not be overwritten."""
    path = Path(path)
    if str(path) == "-":
        raise ValueError(
            "The output must be a file or a folder, as two matrices do not fit one stream. Got "
            "'-' (standard output) instead. Name it, for example vectors.txt."
        )

    if format not in WRITABLE:
        raise ValueError(
            f"format must be one of {', '.join(map(repr, WRITABLE))}. Got {format!r} instead."
        )

    is_folder = format == "pacsent"
    targets = [path] if is_folder else [path, path.with_name(CONTEXT + path.name)]
    inputs = [name for name in inputs if name is not None and Path(name).exists()]
    for target in targets:
        check_output(target, inputs, overwrite=overwrite, folder=is_folder)
    return targets


def format_of_name(path: str | os.PathLike) -> str:
    """The format that `write` takes for a name.

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
