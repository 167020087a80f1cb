"""word2vec's text and binary files, and GloVe's text."""

import re
from pathlib import Path

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
        n_words, n_dims = int(header[1]), int(header[2])
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
        lines = stream.peek(1 << 20).split(b"\n")[:-1]
        # a word may hold spaces, so the shortest of the first lines tells the dimensions
        n_dims = min((len(line.split()) for line in lines[:1000]), default=0) - 1
        if n_dims < 1:
            raise ValueError(
                f"{path} must be lines of a word and its numbers. Got {(lines or [b''])[0][:60]!r} "
                "instead, or a file that is cut off."
            )
        return FileContents(*_read_text(stream, n_dims, first_line=1))


def _read_text(stream: Stream, n_dims: int, first_line: int, n_words: int | None = None):
    """Lines of a word and n_dims numbers."""
    rule = f"must have {n_words or 1:,} words, as its first line says."
    words: list[bytes] = []
    table = GrowingTable(n_dims)
    incomplete = b""

    while block := stream.read(BLOCK_BYTES):
        block = incomplete + block
        end = block.rfind(b"\n") + 1
        block, incomplete = block[:end], block[end:]
        if not block:
            continue

        line = first_line + table.n_rows
        block_words, rows = _parse_lines(block, n_dims, stream.path, line)
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
    # a number takes two bytes at least: a wrong first line must not cost memory
    if n_dims * 2 > len(block):
        _parse_line(block.partition(b"\n")[0], n_dims, path, first_line)

    text = np.frombuffer(block, dtype=np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    starts = np.concatenate([[0], line_ends[:-1] + 1])
    rows, word_ends = parse_lines(text, line_ends, n_dims)
    words = [block[start:end] for start, end in zip(starts.tolist(), word_ends.tolist())]

    for i in np.flatnonzero(word_ends < 0).tolist():
        line = block[starts[i] : line_ends[i]]
        words[i], rows[i] = _parse_line(line, n_dims, path, first_line + i)
    return words, rows


def is_number(field: bytes) -> bool:
    """Whether a field of a file is a number."""
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
    rule = f"must be a word and {n_dims} finite numbers. Got"
    if len(fields) < n_dims or any(map(is_number, word.split()[1:])):
        shown = line.split(None, 1)[0][:40].decode("utf-8", "replace") if word else ""
        problem = f"{max(0, len(line.split()) - 1)} numbers instead, after {shown!r}"
    elif wrong := [field for field in fields if not is_number(field)]:
        problem = f"{wrong[0][:40].decode('utf-8', 'replace')!r} where a number should be"
    else:
        with np.errstate(over="ignore"):
            row = np.array([float(field) for field in fields]).astype(np.float32)
        if np.isfinite(row).all():
            return word, row
        problem = f"{fields[int(np.argmin(np.isfinite(row)))].decode()!r} instead"

    raise invalid(f"Line {number:,} of {path}", f"{rule} {problem}")


def _read_binary(stream: Stream, n_words: int, n_dims: int):
    """Records of a word, a space and n_dims float32; a line break after each, or after none."""
    row_bytes = 4 * n_dims
    rule = f"must have {n_words:,} words of {n_dims} dimensions, as its first line says"
    words: list[bytes] = []
    table = GrowingTable(n_dims)
    data = b""
    breaks = None  # whether records end with a line break; the first one tells

    while len(words) < n_words:
        block = stream.read(max(BLOCK_BYTES, row_bytes))
        data += block
        place, starts, is_word = 0, [], True

        while len(words) < n_words and is_word:
            space = data.find(b" ", place, place + MAX_WORD_BYTES)
            end = space + 1 + row_bytes
            if space < 0 or end + 1 > len(data) + (not block and not breaks):
                break

            has_break = data[end : end + 1] == b"\n"
            breaks = has_break if breaks is None else breaks
            word = data[place:space]
            is_word = word != b"" and b"\n" not in word
            # a line break after the last record may be missing
            is_word = is_word and (breaks == has_break or len(words) + 1 == n_words)

            if is_word:
                words.append(word)
                starts.append(space + 1)
                place = end + bool(breaks)

        if starts:
            rows = b"".join([data[start : start + row_bytes] for start in starts])
            table.append(np.frombuffer(rows, dtype="<f4").reshape(-1, n_dims))
        elif block and len(data) > MAX_WORD_BYTES + row_bytes + 1:
            is_word = False

        if not is_word:
            problem = f"What stands at word {len(words) + 1:,} is not a word"
            raise invalid(stream.path, f"{rule}. {problem}")

        data = data[place:]
        if not block and len(words) < n_words:
            raise invalid(stream.path, f"{rule}. It ends after {len(words):,}: it is cut off")

    if data.strip(b"\n") or stream.read(1).strip(b"\n"):
        raise invalid(stream.path, f"{rule}. More follows: the first line is wrong")
    return words, table.finish()
