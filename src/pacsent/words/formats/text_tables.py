"""Tables written as text: a word and its numbers on each line."""

import os
import re
import warnings
from typing import Any

import numpy as np

from pacsent.words.formats.table_parts import Table, invalid, is_number

LARGE = 1 << 23  # bytes from which text is read by compiled code


def text_table(
    stream: Any, n_dims: int, *, first_line: int, n_words: int | None = None
) -> tuple[list[bytes], np.ndarray]:
    """Words and rows of lines that consist of a word and n_dims numbers."""
    compiled = os.path.getsize(stream.path) >= LARGE  # loading the kernel takes half a second
    rule = f"must hold {n_words or 1:,} words, as its first line says."
    words: list[bytes] = []
    table = Table(n_dims, n_words, size=stream.size, per_number=2)
    line = first_line
    left = b""
    for block in stream.blocks():
        block = left + block
        end = block.rfind(b"\n") + 1
        whole, left = block[:end], block[end:]
        if not whole:
            continue
        parse = _parse_compiled if compiled else _parse_lines
        block_words, rows = parse(whole, n_dims, stream.path, line)
        if n_words is not None and table.n + len(rows) > n_words:
            place = f"line {line + n_words - table.n:,} and after"
            raise invalid(stream.path, f"{rule} Got more instead ({place})")
        words.extend(block_words)
        table.append(rows)
        line += len(rows)
    if left.strip():
        problem = f"Its last line ({line:,}) does not, so it may be cut off inside a number"
        raise invalid(stream.path, f"must end with a line break. {problem}")
    if n_words is not None and table.n < n_words:
        raise invalid(stream.path, f"{rule} Got {table.n:,} instead: it is cut off")
    if table.n == 0:
        raise ValueError(f"{stream.path} must hold at least one word. It is empty.")
    return words, table.finish()


def _parse_lines(block, n_dims, path, first_line):
    """Words and rows of whole lines: quickly if all are simple, else one at a time."""
    if not any(space in block for space in (b"\t", b"\r", b"\v", b"\f", b"  ")):
        parsed = _parse_simple(block, n_dims)
        if parsed is not None:
            return parsed
    words, rows = [], []
    lines = block.split(b"\n")[:-1]
    for number, line in enumerate(lines, first_line):
        word, row = _parse_line(line, n_dims, path, number)
        words.append(word)
        rows.append(row)
    return words, np.array(rows, dtype=np.float32).reshape(len(rows), n_dims)


def _parse_compiled(block, n_dims, path, first_line):
    from pacsent._kernels import format_kernels as kernels

    n_lines = block.count(b"\n")
    # a number takes two bytes at least: a wrong first line must not cost memory
    if n_dims * 2 > len(block):
        _parse_line(block.partition(b"\n")[0], n_dims, path, first_line)
    rows = np.empty((n_lines, n_dims), dtype=np.float32)
    word_ends, line_ends = np.empty((2, n_lines), dtype=np.int64)
    text = np.frombuffer(block, dtype=np.uint8)
    n_odd = kernels.parse_lines(text, rows, word_ends, line_ends)
    starts = np.concatenate([[0], line_ends[:-1] + 1])
    places = zip(starts.tolist(), word_ends.tolist())
    words = [block[start:end] if end >= 0 else b"" for start, end in places]
    if n_odd:
        for i in np.flatnonzero(word_ends < 0):
            line = block[starts[i] : line_ends[i]]
            words[i], rows[i] = _parse_line(line, n_dims, path, first_line + int(i))
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():  # too large for float32
        i = int(np.argmin(finite))
        _parse_line(block[starts[i] : line_ends[i]], n_dims, path, first_line + i)
    return words, rows


def _parse_simple(block, n_dims):
    """None where a line is not simply a word and n_dims numbers."""
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text == 10)
    spaces_before = np.cumsum(text == 32)[ends]
    n_spaces = np.diff(spaces_before, prepend=0)
    n_spaces -= text[ends - 1] == 32  # fastText ends its lines with a space
    lines = block.split(b"\n")[:-1]
    if (n_spaces != n_dims).any():
        return None
    pieces = [line.partition(b" ") for line in lines]
    words = [piece[0] for piece in pieces]
    numbers = b" ".join([piece[2] for piece in pieces])
    if not all(words):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            rows = np.fromstring(numbers, dtype=np.float32, sep=" ")
        except (DeprecationWarning, ValueError, RuntimeWarning):
            return None
    if rows.size != len(lines) * n_dims or not np.isfinite(rows).all():
        return None
    return words, rows.reshape(-1, n_dims)


def _parse_line(line, n_dims, path, number):
    """One line with care: words with spaces, and what is wrong if something is."""
    line = line.rstrip(b" \t\r")
    # The numbers are the last n_dims fields, even if the word contains spaces.
    pieces = re.split(rb"[ \t]+", line)
    fields = pieces[-n_dims:] if len(pieces) > n_dims else pieces[1:]
    extra = pieces[1:-n_dims] if len(pieces) > n_dims + 1 else []
    numbers = re.search(rb"(?:[ \t]+[^ \t]+){%d}$" % len(fields), line)
    word = line[: numbers.start()] if numbers else line
    line_of_file = f"Line {number:,} of {path}"
    if len(fields) < n_dims or any(is_number(piece) for piece in extra):
        n_fields = len(fields) if len(fields) < n_dims else len(pieces) - 1
        after = pieces[0][:40].decode("utf-8", "replace")
        raise invalid(
            line_of_file,
            f"must be a word and {n_dims} numbers. Got {n_fields} numbers instead, after {after!r}",
        )
    if not word:
        raise invalid(line_of_file, "must begin with a word. Got nothing before its numbers")
    bad = next((field for field in fields if not is_number(field)), None)
    if bad is not None:
        shown = bad[:40].decode("utf-8", "replace")
        raise invalid(
            line_of_file,
            f"must be a word and {n_dims} numbers. Got {shown!r} where a number should be",
        )
    with np.errstate(over="ignore"):
        row = np.array([float(field) for field in fields]).astype(np.float32)
    if not np.isfinite(row).all():
        place = int(np.argmin(np.isfinite(row)))
        shown = fields[place].decode()
        raise invalid(line_of_file, f"must be finite numbers. Got {shown!r} instead")
    return word, row
