"""Which format a file is in, by what is in it; what is none is named, with what to do."""

import contextlib
import os
import zipfile
from pathlib import Path

from pacsent import storage
from pacsent.words.formats.fasttext import MAGIC, is_old
from pacsent.words.formats.folders import senna_files
from pacsent.words.formats.static import static_folder
from pacsent.words.formats.table_parts import FORMATS, HEADER, PEEK, Stream, is_number, without_mark

_PICKLE_ADVICE = (
    "Loading a pickle can run any code, so pacsent never does. If you trust it, open it with the "
    "program that wrote it and pass the object to pacsent.words.formats.from_gensim, or save it "
    "there as word2vec text or binary."
)
# what else people hand in, by how it begins, and what to do about it
_STRANGERS: list[tuple[bytes, str]] = [
    (b"\x93NUMPY", "a single NumPy array. Put it as input.npy (and output.npy) into a folder "
                   "with a vocab.tsv (word<TAB>count) and read the folder."),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file. Save the vectors as word2vec text or binary."),
    (b"SQLite format 3", "an SQLite database (Magnitude?). Save the vectors as word2vec text "
                         "or binary."),
    (b"PAR1", "a Parquet file. Save the vectors as word2vec text or binary."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive. Unpack it first."),
    (b"Rar!", "a RAR archive. Unpack it first."),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself. Run: git lfs pull"),
    (b"\xff\xfe", "UTF-16 text. Convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)."),
    (b"\xfe\xff", "UTF-16 text. Convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)."),
]  # fmt: skip


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
        if senna_files(path):
            return "senna"
        if any(path.glob("input*.npy")):
            return "npy"
        raise ValueError(
            f"{path} must be a folder of word vectors: a pacsent model ({storage.CONFIG}), "
            "input*.npy with vocab.tsv, SENNA's words.lst with embeddings.txt, or static "
            "embeddings (tokenizer.json with model.safetensors). It has none of these. Name the "
            "file inside it that holds the vectors."
        )
    with Stream(path) as stream:
        start = stream.peek(PEEK)
    if not start:
        raise ValueError(f"{path} is empty. Download or copy it again.")
    if start.startswith(MAGIC) or is_old(start):
        return "fasttext"
    _refuse_strangers(path, start)
    header = HEADER.match(without_mark(start))
    if header:
        body = without_mark(start)[header.end() :]
        text = _looks_like_text(body, int(header[1]), int(header[2]))
        return "word2vec-text" if text else "word2vec-binary"
    line = start.split(b"\n", 1)[0]
    fields = line.split()
    if len(fields) >= 2 and is_number(fields[-1]):
        if b"\n" not in start and len(start) < PEEK:
            raise ValueError(
                f"{path} must be whole. Got {len(start)} bytes without the end of a line instead. "
                "It is cut off: download or copy it again."
            )
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
        f"{shown!r}, which is none of them, or it was cut off. If you know the format, pass "
        "format=..., or convert the file to word2vec text."
    )


def _refuse_strangers(path, start):
    for magic, what in _STRANGERS:
        if start.startswith(magic):
            raise ValueError(f"{path} is {what}")
    if start[:1] == b"\x80" and len(start) > 1 and start[1] <= 5:
        raise ValueError(f"{path} is a Python pickle (gensim's own .model?). {_PICKLE_ADVICE}")
    if start.startswith((b"ccopy_reg", b"ccopyreg", b"(dp", b"(lp", b"(iclass")):
        raise ValueError(f"{path} is a Python pickle. {_PICKLE_ADVICE}")
    if start.startswith(b"PK\x03\x04"):
        names: list[str] = []
        with contextlib.suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        if any(name.endswith("data.pkl") for name in names):
            raise ValueError(f"{path} is a PyTorch file, which holds a pickle. {_PICKLE_ADVICE}")
        inside = f" (inside: {', '.join(names[:3])})" if names else ""
        raise ValueError(f"{path} is a zip archive{inside}. Unpack it and read the file inside.")
    if start[257:262] == b"ustar":
        raise ValueError(f"{path} is a tar archive. Unpack it and read the file inside.")
    opening = start[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if opening.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise ValueError(
            f"{path} is a web page, most likely an error message saved by a failed download. "
            "Download the vectors again."
        )
    if len(start) > 16:
        n_header = int.from_bytes(start[:8], "little")
        if 2 <= n_header < 100_000_000 and start[8:10] == b'{"':
            raise ValueError(
                f"{path} is a safetensors file, which does not hold the words. Read the folder it "
                "belongs to."
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
    rest = body.partition(b" ")[2]
    if any(byte < 32 and byte not in b"\t\n\r" for byte in rest):
        return False
    try:
        rest.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(rest) - 3  # the end of what was looked at
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
