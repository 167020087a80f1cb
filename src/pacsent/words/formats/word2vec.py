"""word2vec, text and binary, alone or as a pair; GloVe."""

import os
from pathlib import Path

import numpy as np

from pacsent.words.formats.detection import detect
from pacsent.words.formats.table_parts import (
    BLOCK,
    CONTEXT,
    FORMATS,
    HEADER,
    LONGEST_WORD,
    Options,
    Parts,
    Table,
    invalid,
    opened,
    without_mark,
)
from pacsent.words.formats.text_tables import text_table


def read_word2vec_pair(
    path: Path, format: str, context: str | os.PathLike | None, options: Options
) -> Parts:
    """Word vectors of word2vec's text or binary, and its output table from `context_FILE`."""
    if context == "auto":
        if path.name.startswith(CONTEXT):
            first = path.with_name(path.name.removeprefix(CONTEXT))
            if first.exists():
                raise ValueError(
                    f"{path} is the output table of the pair that begins with {first}. Read "
                    f"{first.name} to get both tables, or pass context=None to read this one alone."
                )
        neighbour = path.with_name(CONTEXT + path.name)
        context = neighbour if neighbour.exists() else None
    parts = _read_word2vec(path, options, format)
    if context is None:
        return parts
    context = Path(context)
    other_format = detect(context)
    if not other_format.startswith("word2vec"):
        raise ValueError(
            f"{context} must be a word2vec file like {path}. It is {FORMATS[other_format]}."
        )
    other = _read_word2vec(context, options, other_format)
    if other.table.shape[1] != parts.table.shape[1]:
        raise ValueError(
            f"{path} and {context} must have the same dimensions to be a pair. Got "
            f"{parts.table.shape[1]} and {other.table.shape[1]} instead. Pass context=None to read "
            "the first alone."
        )
    if other.words == parts.words:
        parts.output = other.table
        return parts
    row = {word: i for i, word in enumerate(other.words)}
    missing = [word for word in parts.words if word not in row]
    if missing or len(other.words) != len(parts.words):
        alone = missing[0] if missing else next(w for w in other.words if w not in parts.words)
        raise ValueError(
            f"{path} and {context} must hold the same words to be a pair. Got {len(parts.words):,} "
            f"and {len(other.words):,} words instead; {alone!r} is in one only. Pass context=None "
            "to read the first alone."
        )
    parts.output = other.table[[row[word] for word in parts.words]]
    return parts


def _read_word2vec(path, options, format) -> Parts:
    with opened(path, options) as stream:
        header = HEADER.match(without_mark(stream.peek(200)))
        if not header:
            opening = stream.peek(40).split(b"\n")[0]
            raise ValueError(
                f"{path} must begin with the number of words and of dimensions, as word2vec files "
                f"do. Got {opening!r} instead. Text without that line is format='glove'."
            )
        stream.skip_mark()
        stream.read(header.end())
        n_words, n_dims = int(header[1]), int(header[2])
        if n_words == 0 or n_dims == 0:
            raise ValueError(
                f"{path} must hold at least one word of one dimension. Its first line says "
                f"{n_words} words of {n_dims} dimensions instead."
            )
        if format == "word2vec-text":
            words, table = text_table(stream, n_dims, first_line=2, n_words=n_words)
        else:
            words, table = _binary_table(stream, n_words, n_dims)
    return Parts(path, words, table, options)


def read_glove(path: Path, options: Options) -> Parts:
    """Word vectors of GloVe's text: no header, a word and its numbers on each line."""
    with opened(path, options) as stream:
        stream.skip_mark()
        lines = stream.peek(1 << 20).split(b"\n")[:-1]
        # a word may hold spaces, so the shortest of the first lines tells the dimensions
        n_dims = min((len(line.split()) for line in lines[:1000]), default=0) - 1
        if n_dims < 1:
            raise ValueError(
                f"{path} must be lines of a word and its numbers. Got {(lines or [b''])[0][:60]!r} "
                "instead, or a file that is cut off."
            )
        words, table = text_table(stream, n_dims, first_line=1)
    return Parts(path, words, table, options)


def _binary_table(stream, n_words, n_dims):
    """Records of a word, a space and n_dims float32; a line break after each, or after none."""
    row_bytes = 4 * n_dims
    rule = f"must hold {n_words:,} words of {n_dims} dimensions, as its first line says"
    words: list[bytes] = []

    def not_a_word() -> ValueError:
        return invalid(stream.path, f"{rule}. What stands at word {len(words) + 1:,} is not a word")

    table = Table(n_dims, n_words, size=stream.size)
    data, ended = b"", False
    breaks = None  # whether records end with a line break; the first one tells
    while len(words) < n_words:
        block = stream.read(max(BLOCK, row_bytes))
        ended = not block
        data = data + block
        place = 0
        starts = []
        while len(words) < n_words:
            space = data.find(b" ", place, place + LONGEST_WORD)
            end = space + 1 + row_bytes
            if space < 0 or end + 1 > len(data) + (ended and not breaks):
                break
            word = data[place:space]
            if breaks is None:
                breaks = data[end : end + 1] == b"\n"
            elif breaks != (data[end : end + 1] == b"\n") and len(words) + 1 < n_words:
                raise not_a_word()
            if not word or b"\n" in word:
                raise not_a_word()
            words.append(word)
            starts.append(space + 1)
            place = end + bool(breaks)
        if starts:
            rows = b"".join([data[start : start + row_bytes] for start in starts])
            table.append(np.frombuffer(rows, dtype="<f4").reshape(-1, n_dims))
        elif not ended and len(data) > LONGEST_WORD + row_bytes + 1:
            raise not_a_word()
        data = data[place:]
        if ended and len(words) < n_words:
            raise invalid(stream.path, f"{rule}. It ends after {len(words):,}: it is cut off")
    if data.strip(b"\n") or stream.read(1).strip(b"\n"):
        raise invalid(stream.path, f"{rule}. More follows: the first line is wrong")
    return words, table.finish()
