"""word2vec's text and binary files, and GloVe's text."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.kernels.formats import parse_lines
from pacsent.words.formats.streams import (
    BLOCK_BYTES,
    MAX_WORD_BYTES,
    FileContents,
    GrowingTable,
    Stream,
    invalid,
    open_stream,
)

HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t]*\r?\n")


def read_word2vec(path: Path, format: str, verbose: bool) -> tuple[list[bytes], np.ndarray]:
    """The words and vectors of one word2vec file."""
    with open_stream(path, verbose) as stream:
        header = HEADER.match(stream.peek(200))
        if not header:
            opening = stream.peek(40).split(b"\n")[0]
            raise ValueError(
                f"{path} must begin with the number of words and of dimensions, as word2vec files "
                f"do. Got {opening!r} instead. Text without that line is format='glove'."
            )

        stream.read(header.end())
        n_words = int(header[1])
        n_dims = int(header[2])
        if n_words == 0 or n_dims == 0:
            raise ValueError(
                f"{path} must have at least one word of one dimension. Its first line says "
                f"{n_words} words of {n_dims} dimensions instead."
            )

        if format == "word2vec-binary":
            return _read_binary(stream, n_words, n_dims)
        return _read_text(stream, n_dims, first_line=2, n_words=n_words)


def read_glove(path: Path, verbose: bool) -> FileContents:
    """Word vectors of GloVe's text: no header, a word and its numbers on each line."""
    with open_stream(path, verbose) as stream:
        *lines, _ = stream.peek(1 << 20).split(b"\n")
        # A word may hold spaces, so the shortest of the first lines tells the dimensions.
        n_fields = min((len(line.split()) for line in lines[:1000]), default=0)
        n_dims = n_fields - 1
        if n_dims < 1:
            shown = lines[0][:60] if lines else b""
            raise ValueError(
                f"{path} must be lines of a word and its numbers. Got {shown!r} "
                "instead, or a file that is cut off."
            )

        words, table = _read_text(stream, n_dims, first_line=1)
        return FileContents(words, table)


def _read_text(
    stream: Stream, n_dims: int, first_line: int, n_words: int | None = None
) -> tuple[list[bytes], np.ndarray]:
    """Lines of a word and n_dims numbers."""
    rule = f"must have {n_words or 1:,} words, as its first line says."
    words: list[bytes] = []
    table = GrowingTable(n_dims)
    incomplete = b""

    while block := stream.read(BLOCK_BYTES):
        data = incomplete + block
        end = data.rfind(b"\n") + 1
        lines = data[:end]
        incomplete = data[end:]
        if not lines:
            continue

        number = first_line + table.n_rows
        block_words, rows = _parse_lines(lines, n_dims, stream.path, number)
        if n_words is not None and table.n_rows + len(rows) > n_words:
            raise invalid(stream.path, f"{rule} Got more instead (line {first_line + n_words:,})")
        words.extend(block_words)
        table.append(rows)

    if incomplete.strip():
        problem = f"Its last line ({first_line + table.n_rows:,}) does not, so it may be cut off"
        raise invalid(stream.path, f"must end with a line break. {problem} inside a number")
    if n_words is not None and table.n_rows < n_words:
        raise invalid(stream.path, f"{rule} Got {table.n_rows:,} instead: it is cut off")
    if table.n_rows == 0:
        raise ValueError(f"{stream.path} must have at least one word. It is empty.")
    return words, table.finish()


def _parse_lines(
    block: bytes, n_dims: int, path: str, first_line: int
) -> tuple[list[bytes], np.ndarray]:
    """Words and rows of complete lines."""
    # A number takes two bytes at least: a wrong first line must not cost memory.
    if n_dims * 2 > len(block):
        line, _, _ = block.partition(b"\n")
        _parse_line(line, n_dims, path, first_line)

    text = np.frombuffer(block, dtype=np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    starts = np.concatenate([[0], line_ends[:-1] + 1])
    rows, word_ends = parse_lines(text, line_ends, n_dims)
    spans = zip(starts.tolist(), word_ends.tolist())
    words = [block[start:end] for start, end in spans]

    # Lines that the kernel leaves to Python.
    for i in np.flatnonzero(word_ends < 0).tolist():
        line = block[starts[i] : line_ends[i]]
        words[i], rows[i] = _parse_line(line, n_dims, path, first_line + i)
    return words, rows


def is_number(field: bytes) -> bool:
    """True if a field of a file is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # Python's float takes 1_0


def _parse_line(line: bytes, n_dims: int, path: str, number: int) -> tuple[bytes, np.ndarray]:
    """The word of a line, which may hold spaces, and its numbers; or what is wrong with them."""
    if line[:1].isspace():
        raise invalid(f"Line {number:,} of {path}", "must begin with a word. Got a space instead")

    word, *fields = line.rsplit(None, n_dims) or [b""]
    if len(fields) < n_dims or any(map(is_number, word.split()[1:])):
        all_fields = line.split()
        shown = _shown(all_fields[0]) if word else ""
        problem = f"{max(0, len(all_fields) - 1)} numbers instead, after {shown!r}"
    elif wrong := [field for field in fields if not is_number(field)]:
        problem = f"{_shown(wrong[0])!r} where a number should be"
    else:
        with np.errstate(over="ignore"):
            row = np.array([float(field) for field in fields]).astype(np.float32)
        is_finite = np.isfinite(row)
        if is_finite.all():
            return word, row
        first_wrong = int(np.argmin(is_finite))
        problem = f"{fields[first_wrong].decode()!r} instead"

    rule = f"must be a word and {n_dims} finite numbers. Got {problem}"
    raise invalid(f"Line {number:,} of {path}", rule)


def _shown(field: bytes) -> str:
    """The beginning of a field, for a message."""
    return field[:40].decode("utf-8", "replace")


def _read_binary(stream: Stream, n_words: int, n_dims: int) -> tuple[list[bytes], np.ndarray]:
    """Records of a word, a space and n_dims float32; a line break after each, or after none."""
    row_bytes = 4 * n_dims
    rule = f"must have {n_words:,} words of {n_dims} dimensions, as its first line says"
    words: list[bytes] = []
    table = GrowingTable(n_dims)
    data = b""
    has_breaks: bool | None = None

    while len(words) < n_words:
        block = stream.read(max(BLOCK_BYTES, row_bytes))
        is_end = not block
        data += block
        n_missing = n_words - len(words)
        records = _find_records(data, row_bytes, n_missing, has_breaks, is_end)
        has_breaks = records.has_breaks
        words += records.words

        is_stuck = not records.words and len(data) > MAX_WORD_BYTES + row_bytes + 1
        if not records.is_valid or (is_stuck and not is_end):
            problem = f"What stands at word {len(words) + 1:,} is not a word"
            raise invalid(stream.path, f"{rule}. {problem}")

        if records.words:
            rows = b"".join([data[start : start + row_bytes] for start in records.starts])
            table.append(np.frombuffer(rows, dtype="<f4").reshape(-1, n_dims))
        data = data[records.stop :]
        if is_end and len(words) < n_words:
            raise invalid(stream.path, f"{rule}. It ends after {len(words):,}: it is cut off")

    if data.strip(b"\n") or stream.read(1).strip(b"\n"):
        raise invalid(stream.path, f"{rule}. More follows: the first line is wrong")
    return words, table.finish()


class _Records(NamedTuple):
    """Complete records at the beginning of some bytes of a binary file."""

    words: list[bytes]
    starts: list[int]  # of their numbers
    stop: int  # where the next record begins
    has_breaks: bool | None  # whether records end with a line break; None before the first one
    is_valid: bool  # False if what follows cannot be a record


def _find_records(
    data: bytes, row_bytes: int, n_words: int, has_breaks: bool | None, is_end: bool
) -> _Records:
    """At most `n_words` records; `is_end` if the file ends with this data."""
    words: list[bytes] = []
    starts: list[int] = []
    place = 0
    is_valid = True

    while len(words) < n_words:
        space = data.find(b" ", place, place + MAX_WORD_BYTES)
        end = space + 1 + row_bytes
        # One more byte tells whether there is a line break, unless the file may end here.
        n_needed = end if is_end and not has_breaks else end + 1
        if space < 0 or n_needed > len(data):
            break

        ends_with_break = data[end : end + 1] == b"\n"
        if has_breaks is None:
            has_breaks = ends_with_break

        # The line break after the last record may be missing.
        word = data[place:space]
        is_last = len(words) + 1 == n_words
        is_valid = word != b"" and b"\n" not in word and (ends_with_break == has_breaks or is_last)
        if not is_valid:
            break
        words.append(word)
        starts.append(space + 1)
        place = end + int(has_breaks)

    return _Records(words, starts, place, has_breaks, is_valid)
