"""Which format a file is in, judged by its contents."""

import os
from pathlib import Path

from pacsent import storage
from pacsent.words.formats.fasttext import MAGIC
from pacsent.words.formats.static import static_folder
from pacsent.words.formats.table_parts import (
    FORMATS,
    HEADER,
    PEEK,
    Stream,
    invalid,
    is_number,
    without_mark,
)


def detect(path: str | os.PathLike) -> str:
    """Which of `FORMATS` a file or folder is; a clear ValueError when it is none."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}. Check the spelling.")
    if path.is_dir():
        if static_folder(path) and not storage.is_model(path):
            return "static"
        if (path / storage.CONFIG).exists():
            return "pacsent"
        raise ValueError(
            f"{path} must be a folder of word vectors: a pacsent model ({storage.CONFIG}) or "
            "static embeddings (tokenizer.json with model.safetensors). It is neither. Name the "
            "file inside it that contains the vectors."
        )
    with Stream(path) as stream:
        start = stream.peek(PEEK)
    if not start:
        raise invalid(path, "is empty")
    if start.startswith(MAGIC):
        return "fasttext"
    header = HEADER.match(without_mark(start))
    if header:
        body = without_mark(start)[header.end() :]
        text = _looks_like_text(body, int(header[1]), int(header[2]))
        return "word2vec-text" if text else "word2vec-binary"
    line = start.split(b"\n", 1)[0]
    fields = line.split()
    if len(fields) >= 2 and is_number(fields[-1]):
        if b"\n" not in start and len(start) < PEEK:
            raise invalid(path, f"is cut off: its {len(start)} bytes do not end a line")
        if len(fields) == 2:
            raise ValueError(
                f"{path} has one number after each word, so it is a list of counts rather than "
                "vectors. Pass it as counts= together with the vectors, or format='glove' if the "
                "vectors do have one dimension."
            )
        return "glove"
    shown = start[:40].decode("ascii", "backslashreplace").split("\n")[0]
    raise ValueError(
        f"{path} must be word vectors in a known format ({', '.join(FORMATS)}). It begins with "
        f"{shown!r}, which is none of them, or it was cut off. Pickles, archives and databases are "
        "never opened: unpack the file, or save its vectors as word2vec text."
    )


def _looks_like_text(body, n_words, n_dims) -> bool:
    """Whether the numbers after a word are written out, or are the bytes of float32."""
    line, complete, _ = body.partition(b"\n")
    fields = line.rstrip(b" \r\t").rsplit(None, n_dims) if complete and n_dims else []
    if len(fields) == n_dims + 1 and all(is_number(field) for field in fields[1:]):
        return True
    if _begins_as_binary(body, n_words, n_dims):
        return False
    # damaged either way: the bytes of numbers are hardly ever characters
    numbers = body.partition(b" ")[2]
    if any(byte < 32 and byte not in b"\t\n\r" for byte in numbers):
        return False
    try:
        numbers.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(numbers) - 3  # the end of what was looked at
    return True


def _begins_as_binary(body, n_words, n_dims) -> bool:
    """Whether the first records, as far as they can be seen, are word, space, float32."""
    place, n_seen = 0, 0
    while n_seen < min(n_words, 10):
        space = body.find(b" ", place)
        end = space + 1 + 4 * n_dims
        if space < 0 or end > len(body):
            return n_seen > 0 and len(body) > PEEK - 300
        if space == place or b"\n" in body[place:space]:
            return False
        place = end + (body[end : end + 1] == b"\n")
        n_seen += 1
    return n_seen < n_words or place == len(body)
