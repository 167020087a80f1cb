"""Word vectors written for other programs, each file whole or not at all."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pacsent import progress
from pacsent.files import check_output, replacing
from pacsent.storage import save
from pacsent.words.formats.table_parts import CONTEXT
from pacsent.words.vectors import WordVectors

WRITABLE = ("word2vec-text", "word2vec-binary", "pacsent")


def write(
    words: WordVectors,
    path: str | os.PathLike,
    *,
    format: str | None = None,
    save_counts: str | os.PathLike | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> list[Path]:
    """Write word vectors for other programs, or as our folder; the paths of what was written.

    The input table goes to `path`, the output table to `context_FILE` next to it. The `format` is
    "word2vec-text", "word2vec-binary" or "pacsent"; by the name when left out: .txt and .vec are
    text, .bin is binary, a name without a suffix is our folder. `save_counts` is a further file for
    `word count` lines (word2vec's -save-vocab): the word2vec formats keep no counts.

    Text has nine significant digits, from which float32 and float16 come back as they were. Words
    with white space cannot be distinguished from their numbers and are refused.
    """
    path = Path(path)
    format = format or format_of_name(path)
    targets = check_targets(
        path,
        format,
        has_output=words.output_vectors is not None,
        save_counts=save_counts,
        overwrite=overwrite,
    )
    if save_counts is not None:
        counts = words.vocabulary.require_counts("save_counts")
    if format == "pacsent":
        save(words, path, overwrite=overwrite)
    else:
        raw = _words_for_word2vec(words)
        lines = _text_lines if format == "word2vec-text" else _binary_records
        _write_table(path, raw, words.input_vectors, lines, verbose)
        if words.output_vectors is not None:
            _write_table(targets[1], raw, words.output_vectors, lines, verbose)
    if save_counts is not None:
        raw = _words_for_word2vec(words)
        with replacing(targets[-1], parents=True) as file:
            file.writelines(b"%s %d\n" % pair for pair in zip(raw, counts.tolist()))
    return targets


def check_targets(
    path: str | os.PathLike,
    format: str,
    inputs: Iterable = (),
    *,
    has_output: bool | None = None,
    save_counts: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """The files that `write` makes; raises if one is an input or may not be overwritten.

    With `has_output` None, before it is known whether there are output vectors, the file for them
    is compared with the inputs only.
    """
    if "-" in (str(path), str(save_counts)):
        raise ValueError(
            "The output must be a file or a folder, as two tables do not fit one stream. Got "
            "'-' (standard output) instead. Name it, for example vectors.txt."
        )
    if format not in WRITABLE:
        raise ValueError(
            f"format must be one of {', '.join(map(repr, WRITABLE))}. Got {format!r} instead."
        )
    inputs = [name for name in inputs if name is not None and Path(name).exists()]
    path = Path(path)
    context = path.with_name(CONTEXT + path.name)
    targets = [path]
    if format != "pacsent" and has_output:
        targets.append(context)
    elif format != "pacsent" and has_output is None:
        check_output(context, inputs, overwrite=True)
    elif format != "pacsent" and context.exists():
        raise ValueError(
            f"{context} exists, and would be taken for the output table of {path}; these vectors "
            "have none. Move it away or choose another name."
        )
    if save_counts is not None:
        targets.append(Path(save_counts))
    for target in targets:
        is_folder = format == "pacsent" and target == path
        check_output(target, inputs, overwrite=overwrite, folder=is_folder)
    return targets


def format_of_name(path: str | os.PathLike) -> str:
    """The format that `write` takes for a name.

    >>> format_of_name("vectors.bin"), format_of_name("vectors.txt"), format_of_name("model")
    ('word2vec-binary', 'word2vec-text', 'pacsent')
    """
    suffix = Path(path).suffix.lower()
    if suffix in (".txt", ".vec"):
        return "word2vec-text"
    if suffix == ".bin":
        return "word2vec-binary"
    if suffix == "" or Path(path).is_dir():
        return "pacsent"
    raise ValueError(
        f"The format of {path} must follow from its name (.txt or .vec: word2vec text, .bin: "
        f"word2vec binary, no suffix: pacsent folder). Got {suffix!r} instead. Say it with format= "
        "(--to)."
    )


def _words_for_word2vec(words) -> list[bytes]:
    spaced = [word for word in words.words if not word or re.search(r"[ \t\r\n\v\f]", word)]
    if spaced:
        raise ValueError(
            "Words of a word2vec file must be without spaces, tabs and line breaks. Got "
            f"{len(spaced):,} with them instead, the first is {spaced[0]!r}. Save as a pacsent "
            "folder, which takes any word."
        )
    try:
        return [word.encode("utf-8") for word in words.words]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Words must be valid Unicode to be written. Got {error.object!r} instead, which holds "
            "half a character. Rename or drop the word."
        ) from None


def _write_table(path, raw, table, lines, verbose):
    with (
        progress.bar(
            f"writing {path.name}",
            total=len(raw),
            unit="words",
            enabled=verbose and table.size > 10_000_000,
        ) as bar,
        replacing(path, parents=True) as file,
    ):
        file.write(b"%d %d\n" % table.shape)
        n_rows = max(1, (1 << 20) // table.shape[1])
        for start in range(0, len(raw), n_rows):
            block = slice(start, start + n_rows)
            file.writelines(lines(raw[block], table[block]))
            bar.advance(len(raw[block]))


def _text_lines(raw, rows):
    # %.9g is enough for every float32 to come back as it was
    form = b" ".join([b"%.9g"] * rows.shape[1]) + b"\n"
    for word, row in zip(raw, rows.tolist()):
        yield word + b" " + form % tuple(row)


def _binary_records(raw, rows):
    data = np.ascontiguousarray(rows, dtype="<f4")
    for word, row in zip(raw, data):
        yield word + b" " + row.tobytes() + b"\n"
