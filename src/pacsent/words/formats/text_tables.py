"""Tables written as text: a word and its numbers on each line."""

import os
import re
import warnings
from typing import Any

import numpy as np

from pacsent.words.formats.table_parts import Table, is_number

LARGE = 1 << 23  # bytes from which text is read by compiled code


def text_table(
    stream: Any, n_dims: int, *, first_line: int, n_words: int | None = None
) -> tuple[list[bytes], np.ndarray]:
    """Words and rows of lines that consist of a word and n_dims numbers."""
    compiled = os.path.getsize(stream.path) >= LARGE  # loading the kernel takes half a second
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
        found, rows = _parsed_lines(whole, n_dims, stream.path, line, compiled)
        if n_words is not None and table.n + len(rows) > n_words:
            raise ValueError(
                f"{stream.path} must hold {n_words:,} words, as its first line says. Got more "
                f"instead (line {line + n_words - table.n:,} and after). Correct the first line."
            )
        words.extend(found)
        table.append(rows)
        line += len(rows)
    if left.strip():
        raise ValueError(
            f"{stream.path} must end with a line break. Its last line ({line:,}) does not, so it "
            "may be cut off inside a number. Download or copy it again; if it is whole, add a "
            "line break at its end."
        )
    if n_words is not None and table.n < n_words:
        raise ValueError(
            f"{stream.path} must hold {n_words:,} words, as its first line says. Got {table.n:,} "
            "instead. It is cut off: download or copy it again."
        )
    if table.n == 0:
        raise ValueError(f"{stream.path} must hold at least one word. It is empty.")
    return words, table.finish()


def _parsed_lines(block, n_dims, path, first_line, compiled):
    """Words and rows of whole lines; odd ones one at a time, the rest as fast as can be."""
    if compiled:
        return _parsed_compiled(block, n_dims, path, first_line)
    plain = not any(space in block for space in (b"\t", b"\r", b"\v", b"\f", b"  "))
    found = _parsed_plain(block, n_dims) if plain else None
    if found is not None:
        return found
    words, rows = [], []
    lines = block.split(b"\n")[:-1]
    for number, line in enumerate(lines, first_line):
        word, row = _parsed_line(line, n_dims, path, number)
        words.append(word)
        rows.append(row)
    return words, np.array(rows, dtype=np.float32).reshape(len(rows), n_dims)


def _parsed_compiled(block, n_dims, path, first_line):
    from pacsent._kernels import format_kernels as kernels

    n_lines = block.count(b"\n")
    # a number takes two bytes at least: a wrong first line must not cost memory
    if n_dims * 2 > len(block):
        _parsed_line(block.partition(b"\n")[0], n_dims, path, first_line)
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
            words[i], rows[i] = _parsed_line(line, n_dims, path, first_line + int(i))
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():  # too large for float32
        i = int(np.argmin(finite))
        _parsed_line(block[starts[i] : line_ends[i]], n_dims, path, first_line + i)
    return words, rows


def _parsed_plain(block, n_dims):
    """The quick way; None where a line is not simply a word and n_dims numbers."""
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


def _parsed_line(line, n_dims, path, number):
    """One line with care: words with spaces, and what is wrong if something is."""
    line = line.rstrip(b" \t\r")
    # The numbers are the last n_dims fields, even if the word contains spaces.
    pieces = re.split(rb"[ \t]+", line)
    fields = pieces[-n_dims:] if len(pieces) > n_dims else pieces[1:]
    extra = pieces[1:-n_dims] if len(pieces) > n_dims + 1 else []
    numbers = re.search(rb"(?:[ \t]+[^ \t]+){%d}$" % len(fields), line)
    word = line[: numbers.start()] if numbers else line
    if len(fields) < n_dims or any(is_number(piece) for piece in extra):
        n_fields = len(fields) if len(fields) < n_dims else len(pieces) - 1
        raise ValueError(
            f"Line {number:,} of {path} must be a word and {n_dims} numbers. Got {n_fields} "
            f"numbers instead, after {pieces[0][:40].decode('utf-8', 'replace')!r}. The "
            "file is damaged or cut off: download or copy it again."
        )
    if not word:
        raise ValueError(
            f"Line {number:,} of {path} must begin with a word. Got nothing before its numbers."
        )
    bad = next((field for field in fields if not is_number(field)), None)
    if bad is not None:
        raise ValueError(
            f"Line {number:,} of {path} must be a word and {n_dims} numbers. Got "
            f"{bad[:40].decode('utf-8', 'replace')!r} where a number should be. The file is "
            "damaged or of another format."
        )
    with np.errstate(over="ignore"):
        row = np.array([float(field) for field in fields]).astype(np.float32)
    if not np.isfinite(row).all():
        place = int(np.argmin(np.isfinite(row)))
        raise ValueError(
            f"Line {number:,} of {path} must be finite numbers. Got {fields[place].decode()!r} "
            "instead. Repair the file or train again."
        )
    return word, row
