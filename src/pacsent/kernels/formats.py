"""Kernels of file formats: numbers out of the text of word2vec and GloVe."""

import re

import numpy as np

from pacsent.kernels.library import (
    FLOAT32,
    INT64,
    SIZE,
    UINT8,
    entry_point,
    needs_twins,
)

_parse_lines = entry_point(
    "parse_lines",
    *(UINT8, INT64),  # text, line ends
    *(SIZE, SIZE),  # n_lines, n_dims
    *(FLOAT32, INT64),  # rows, word ends
)

_NUMBER = rb" [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"


def parse_lines(
    text: np.ndarray, line_ends: np.ndarray, n_dims: int
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of lines `word number ... number`, (n_lines, n_dims), and where their words end.

    Line i ends with the line break text[line_ends[i]], and there are no other line breaks. A word
    ends at -1 where the line is odd, and its row is not to be used: the line is not simply a word
    and n_dims finite numbers with one space between, or float32 could differ in the last digit
    from np.float32(float(number)).
    """
    if needs_twins():
        return parse_lines_plainly(text, line_ends, n_dims)

    if line_ends.size and (line_ends.min() < 0 or line_ends.max() >= text.size):
        raise ValueError(f"Lines must lie in their {text.size:,} bytes.")
    is_break = text[line_ends] == ord("\n")
    is_rising = line_ends[1:] > line_ends[:-1]
    if not (is_break.all() and is_rising.all()):
        raise ValueError("Lines must end with line breaks, one after the other.")

    rows = np.empty((line_ends.size, n_dims), dtype=np.float32)
    word_ends = np.empty(line_ends.size, dtype=np.int64)
    _parse_lines(text, line_ends, line_ends.size, n_dims, rows, word_ends)
    return rows, word_ends


def parse_lines_plainly(
    text: np.ndarray, line_ends: np.ndarray, n_dims: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `parse_lines`; fewer lines are odd, as Python's numbers are right in the last digit."""
    simple = re.compile(rb"([^ \t\n]+)((?:%b){%d}) ?" % (_NUMBER, n_dims))
    rows = np.zeros((line_ends.size, n_dims), dtype=np.float32)
    word_ends = np.full(line_ends.size, -1, dtype=np.int64)
    starts = np.append(0, line_ends[:-1] + 1)
    for i, (start, end) in enumerate(zip(starts.tolist(), line_ends.tolist())):
        line = simple.fullmatch(text[start:end].tobytes())
        if line is None:
            continue
        with np.errstate(over="ignore"):
            numbers = np.array(line[2].split(), dtype=np.float64)
            rows[i] = numbers
        if np.isfinite(rows[i]).all():
            word_ends[i] = start + line.end(1)
    return rows, word_ends
