"""Folders: SENNA, .npy tables with a word list; and lists of counts."""

from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError  # NumPy reads the header of a .npy file as Python

import numpy as np

from pacsent.words.formats.table_parts import PEEK, Options, Parts, Stream, decoded, opened
from pacsent.words.formats.text_tables import text_table
from pacsent.words.vectors import WORD_LIST

_UNREADABLE = (
    ValueError, EOFError, OSError, OverflowError, TokenError, SyntaxError, SystemError
)  # fmt: skip


def senna_files(folder: Path) -> tuple[Path, Path] | None:
    """(words.lst, embeddings.txt) side by side, or as SENNA's own archive lays them out."""
    for words, vectors in (
        ("words.lst", "embeddings.txt"),
        ("hash/words.lst", "embeddings/embeddings.txt"),
    ):
        if (folder / words).is_file() and (folder / vectors).is_file():
            return folder / words, folder / vectors
    return None


def read_senna(path: Path, options: Options) -> Parts:
    """Word vectors of a folder as SENNA's: words.lst and embeddings.txt."""
    files = senna_files(path)
    if not files:
        raise ValueError(f"{path} must be a folder with SENNA's words.lst and embeddings.txt.")
    words = _lines(files[0])
    if not all(words):
        raise ValueError(
            f"{files[0]} must be one word a line. Line {words.index(b'') + 1} is empty."
        )
    with opened(files[1], options) as stream:
        n_dims = len(stream.peek(PEEK).split(b"\n", 1)[0].split())
        if n_dims == 0:
            raise ValueError(f"{files[1]} must be lines of numbers. Its first line is empty.")
        _, table = text_table(stream, n_dims, first_line=1, worded=False)
    if len(table) != len(words):
        raise ValueError(
            f"{files[0]} and {files[1]} must have the same number of lines. Got {len(words):,} and "
            f"{len(table):,} instead. One of them is cut off: copy them again."
        )
    return Parts(path, words, table, options)


def read_npy(path: Path, options: Options) -> Parts:
    """Word vectors of a folder with input*.npy, output*.npy and a list of words."""
    tables: dict[str, np.ndarray] = {}
    for name in ("input", "output"):
        found = sorted(path.glob(f"{name}*.npy"))
        if len(found) > 1:
            raise ValueError(
                f"{path} must hold one {name} table. Got {', '.join(f.name for f in found)} "
                "instead. Move the others away."
            )
        if not found:
            continue
        try:
            table = np.load(found[0], mmap_mode="r", allow_pickle=False)
        except _UNREADABLE as error:
            raise ValueError(
                f"{found[0]} must be a whole .npy file of numbers. It cannot be opened ({error}). "
                "Download or copy it again."
            ) from None
        if table.ndim != 2 or table.dtype not in (np.float16, np.float32, np.float64):
            raise ValueError(
                f"{found[0]} must be a table (n_words, n_dims) of float32 or float16. Got "
                f"{table.dtype} of shape {table.shape} instead."
            )
        tables[name] = table
    if "input" not in tables:
        raise ValueError(f"{path} must hold input*.npy. It does not. Name the input table so.")
    lists = [path / name for name in ("vocab.tsv", WORD_LIST) if (path / name).exists()]
    if not lists:
        raise FileNotFoundError(
            f"{path} must hold vocab.tsv (word<TAB>count, one line for each row of the tables). "
            "It is missing."
        )
    words, counts = _word_list(lists[0], options.encoding_errors)
    for name, table in tables.items():
        if len(table) != len(words):
            raise ValueError(
                f"{lists[0]} must have one line for each row of the {name} table ({len(table):,}). "
                f"Got {len(words):,} instead. One of them is cut off or of another training."
            )
    return Parts(path, words, tables["input"], options, output=tables.get("output"), counts=counts)


def _lines(path) -> list[bytes]:
    with Stream(path) as stream:
        *lines, rest = b"".join(stream.blocks()).split(b"\n")
    if rest:
        raise ValueError(
            f"{path} must end with a line break. It does not, so it may be cut off. Copy it again; "
            "if it is whole, add a line break at its end."
        )
    return [line.rstrip(b"\r") for line in lines]


def _word_list(path, encoding_errors):
    """Words, and counts where every line has one, of `word<TAB>count` or `word count` lines."""
    lines = _lines(path)
    if not lines:
        raise ValueError(f"{path} must hold at least one word. It is empty.")
    separator = b"\t" if b"\t" in lines[0] else b" "
    if separator not in lines[0]:
        return decoded(path, lines, encoding_errors), None
    words, counts = [], []
    for number, line in enumerate(lines, 1):
        word, _, count = line.rpartition(separator)
        if not word or not count.isdigit() or len(count) > 18:
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got "
                f"{line[:60].decode('utf-8', 'replace')!r} instead."
            )
        words.append(word)
        counts.append(int(count))
    return decoded(path, words, encoding_errors), np.array(counts, dtype=np.int64)


def read_counts(path: Path, words: Sequence[str], encoding_errors: str) -> np.ndarray:
    """The counts of `word count` lines, in the order of `words`."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the spelling.")
    listed, counts = _word_list(path, encoding_errors)
    if counts is None:
        raise ValueError(f"{path} must hold a count after each word. It holds words only.")
    if listed == words:
        return counts
    count_of = dict(zip(listed, counts.tolist()))
    missing = [word for word in words if word not in count_of]
    if missing:
        raise ValueError(
            f"{path} must hold a count for every word of the vectors. {len(missing):,} have none, "
            f"the first is {missing[0]!r}. Use the list that belongs to these vectors."
        )
    return np.array([count_of[word] for word in words], dtype=np.int64)
