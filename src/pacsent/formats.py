"""Word vectors of other programs: read, write, and say clearly what cannot be read.

`read` recognises a file by what is in it, never by its name alone. Nothing here runs code from a
file: pickles are named and refused. Our own folder is in `storage`; docs/formats.md lists every
format and what its reader was checked against.
"""

import bz2
import contextlib
import gzip
import lzma
import os
import re
import secrets
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from pacsent import progress, storage
from pacsent.vocabulary import Vocabulary
from pacsent.word_vectors import Subwords, WordVectors

FORMATS = {
    "word2vec-text": "word2vec text (also fastText's .vec)",
    "word2vec-binary": "word2vec binary",
    "fasttext": "fastText .bin",
    "glove": "GloVe text",
    "senna": "SENNA folder",
    "npy": ".npy tables with vocab.tsv",
    "pacsent": "pacsent folder",
}
WRITABLE = ("word2vec-text", "word2vec-binary", "pacsent")
ENCODING_ERRORS = ("strict", "replace", "backslashreplace")
CONTEXT = "context_"  # FILE holds the input table, context_FILE the output table

_BLOCK = 1 << 24  # bytes read at once
_LARGE = 1 << 23  # bytes from which text is read by compiled code
_PEEK = 1 << 16  # bytes looked at to recognise a file
_LONGEST_WORD = 10_000  # bytes; what is longer is not a word but a misread table
_HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t]*\r?\n")

_FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_FASTTEXT_MODELS = {1: "cbow", 2: "skip-gram", 3: "supervised"}
_FASTTEXT_LOSSES = {
    1: "hierarchical softmax",
    2: "negative sampling",
    3: "softmax",
    4: "one-vs-all",
}

_PICKLE_ADVICE = (
    "Loading a pickle can run any code, so pacsent never does. If you trust it, open it with the "
    "program that wrote it and pass the object to pacsent.formats.from_gensim, or save it there "
    "as word2vec text or binary."
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
    (b"(\xb5/\xfd", "a zstandard archive. Unpack it first (zstd -d)."),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself. Run: git lfs pull"),
    (b"\xff\xfe", "UTF-16 text. Convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)."),
    (b"\xfe\xff", "UTF-16 text. Convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)."),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------
# read
# ------------------------------------------------------------------------------------------------


def read(
    path,
    *,
    format: str | None = None,
    normalise: str | Callable[[str], list[str]] | None = None,
    counts=None,
    context="auto",
    encoding_errors: str = "strict",
    duplicates: str = "error",
    verbose: bool = False,
) -> WordVectors:
    """Read word vectors in any known format.

    Parameters
    ----------
    path : str or path
        A file (plain, .gz, .bz2 or .xz) or a folder.
    format : str, optional
        One of `FORMATS`; recognised by the contents when left out.
    normalise : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens of this vocabulary. When left out: what a folder of ours
        says, "paper" for everything else.
    counts : path, optional
        A file with `word count` on each line (word2vec's -save-vocab, GloVe's vocab.txt, a
        .tsv). Without it counts are None where the format keeps none: never invented.
    context : "auto", None or path, default="auto"
        The output table of a word2vec file. "auto" takes `context_FILE` beside `FILE` if it is
        there; None leaves the output table out.
    encoding_errors : {"strict", "replace", "backslashreplace"}, default="strict"
        What to do with words that are not UTF-8: refuse the file, or replace the bad bytes.
    duplicates : {"error", "first"}, default="error"
        What to do with a word that occurs twice: refuse the file, or keep its first vector
        and warn.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    WordVectors
        `.npy` tables and our own folder are memory-mapped, everything else is read.
    """
    path = Path(path)
    for name, value, known in (
        ("encoding_errors", encoding_errors, ENCODING_ERRORS),
        ("duplicates", duplicates, ("error", "first")),
        ("format", format, (None, *FORMATS)),
    ):
        if value not in known:
            shown = ", ".join(repr(k) for k in known if k is not None)
            raise ValueError(f"{name} must be one of {shown}. Got {value!r} instead.")
    format = format or detect(path)
    options = _Options(encoding_errors, duplicates, verbose)
    if format == "pacsent":
        words = storage.load(path, normalise=normalise)
        if not isinstance(words, WordVectors):
            raise ValueError(
                f"{path} must hold word vectors. Got a fitted {type(words).__name__} instead. "
                "Open it with pacsent.load."
            )
        return words
    if format.startswith("word2vec"):
        parts = _read_word2vec_pair(path, format, context, options)
    else:
        reader = {
            "fasttext": _read_fasttext,
            "glove": _read_glove,
            "senna": _read_senna,
            "npy": _read_npy,
        }[format]
        parts = reader(path, options)
    if counts is not None:
        parts.counts = _read_counts(Path(counts), parts.words, encoding_errors)
    return parts.word_vectors(normalise or "paper", {"format": FORMATS[format], **parts.training})


def detect(path) -> str:
    """Which of `FORMATS` a file or folder is; a clear ValueError when it is none."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}. Check the spelling.")
    if path.is_dir():
        if (path / storage.CONFIG).exists():
            return "pacsent"
        if _senna_files(path):
            return "senna"
        if any(path.glob("input*.npy")):
            return "npy"
        raise ValueError(
            f"{path} must be a folder of word vectors: a pacsent model ({storage.CONFIG}), "
            "input*.npy with vocab.tsv, or SENNA's words.lst with embeddings.txt. It has none of "
            "these. Name the file inside it that holds the vectors."
        )
    with _Stream(path) as stream:
        start = stream.peek(_PEEK)
    if not start:
        raise ValueError(f"{path} is empty. Download or copy it again.")
    if start.startswith(_FASTTEXT_MAGIC):
        return "fasttext"
    _refuse_strangers(path, start)
    header = _HEADER.match(_without_mark(start))
    if header:
        body = _without_mark(start)[header.end() :]
        text = _looks_like_text(body, int(header[1]), int(header[2]))
        return "word2vec-text" if text else "word2vec-binary"
    line = start.split(b"\n", 1)[0]
    fields = line.split()
    if len(fields) >= 2 and _is_number(fields[-1]):
        if b"\n" not in start and len(start) < _PEEK:
            raise ValueError(
                f"{path} must be whole. Got {len(start)} bytes without the end of a line instead. "
                "It is cut off: download or copy it again."
            )
        if len(fields) == 2:
            raise ValueError(
                f"{path} has one number after each word, so it is a list of counts rather than "
                "vectors. Pass it as counts= beside the vectors, or format='glove' if the vectors "
                "do have one dimension."
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
    if len(fields) == n_dims + 1 and all(_is_number(field) for field in fields[1:]):
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
            return n_seen > 0 and len(body) > _PEEK - 300
        if space == place or b"\n" in body[place:space]:
            return False
        place = end + (body[end : end + 1] == b"\n")
        n_seen += 1
    return n_seen < n_words or place == len(body)


def _is_number(field) -> bool:
    if b"_" in field:  # Python's float would take 1_0
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


class _Options:
    def __init__(self, encoding_errors, duplicates, verbose):
        self.encoding_errors, self.duplicates = encoding_errors, duplicates
        self.verbose = verbose


class _Parts:
    """What a reader found; becomes WordVectors."""

    def __init__(self, path, raw_words, table, options, *, output=None, counts=None, training=None):
        self.path, self.table, self.output, self.counts = path, table, output, counts
        self.training = training or {}
        self.subwords = None
        self.words = raw_words
        if raw_words and isinstance(raw_words[0], bytes):
            self.words = _decoded(path, raw_words, options.encoding_errors)
        self._drop_duplicates(options.duplicates)

    def _drop_duplicates(self, duplicates):
        if len(set(self.words)) == len(self.words):
            return
        seen: dict[str, int] = {}
        kept, repeated = [], []
        for i, word in enumerate(self.words):
            if word in seen:
                repeated.append((word, seen[word], i))
            else:
                seen[word] = i
                kept.append(i)
        word, first, second = repeated[0]
        if duplicates == "error":
            raise ValueError(
                f"The words of {self.path} must be different. Got {word!r} as number {first + 1:,} "
                f"and number {second + 1:,} instead ({len(repeated):,} such). Pass "
                "duplicates='first' to keep the first vector of each."
            )
        shown = ", ".join(repr(word) for word, *_ in repeated[:3])
        warnings.warn(
            f"{self.path}: {len(repeated):,} words occur again and were left out ({shown}).",
            stacklevel=4,
        )
        self.words = [self.words[i] for i in kept]
        self.table = self.table[kept]
        if self.output is not None:
            self.output = self.output[kept]
        if self.counts is not None:
            self.counts = np.asarray(self.counts)[kept]

    def word_vectors(self, normalise, training) -> WordVectors:
        try:
            return WordVectors(
                Vocabulary(self.words, self.counts, normalise=normalise),
                self.table,
                self.output,
                training=training,
                subwords=self.subwords,
            )
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None


def _decoded(path, raw_words, encoding_errors) -> list[str]:
    with contextlib.suppress(UnicodeDecodeError):
        words = b"\n".join(raw_words).decode("utf-8").split("\n")
        if len(words) == len(raw_words):
            return words
    words = []
    bad: list[tuple[int, bytes]] = []
    for number, raw in enumerate(raw_words, 1):
        try:
            words.append(raw.decode("utf-8"))
        except UnicodeDecodeError:
            bad.append((number, raw))
            words.append(raw.decode("utf-8", "replace" if encoding_errors == "strict"
                                    else encoding_errors))  # fmt: skip
    if not bad:
        return words
    shown = ", ".join(f"{raw!r} (number {number:,})" for number, raw in bad[:3])
    if encoding_errors == "strict":
        raise ValueError(
            f"The words of {path} must be UTF-8. Got {len(bad):,} that are not: {shown}. "
            "word2vec.c cuts long words in the middle of a character: pass "
            "encoding_errors='replace' or 'backslashreplace' to read it all the same."
        )
    warnings.warn(
        f"{path}: {len(bad):,} words are not UTF-8 and were read with their bad bytes replaced: "
        f"{shown}.",
        stacklevel=4,
    )
    return words


# ------------------------------------------------------------------------------------------------
# bytes: plain or compressed, and never more memory than the file can fill
# ------------------------------------------------------------------------------------------------


class _Stream:
    """A file's bytes in order, unpacked on the way; a cut archive is one clear line."""

    def __init__(self, path, *, progress_bar=None):
        self.path = path
        self._raw = open(path, "rb")  # noqa: SIM115
        magic = self._raw.read(6)
        self._raw.seek(0)
        self.size: int | None = None
        self._file: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | None = None
        if magic.startswith(b"\x1f\x8b"):
            self._file = gzip.GzipFile(fileobj=self._raw)
        elif magic.startswith(b"BZh"):
            self._file = bz2.BZ2File(self._raw)
        elif magic.startswith(b"\xfd7zXZ\x00"):
            self._file = lzma.LZMAFile(self._raw)  # noqa: SIM115
        else:
            self.size = os.fstat(self._raw.fileno()).st_size
        self._ahead = b""
        self._bar = progress_bar

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._raw.close()

    def read(self, n) -> bytes:
        """n bytes, fewer only at the end."""
        if self._ahead:
            taken, self._ahead = self._ahead[:n], self._ahead[n:]
            return taken + self.read(n - len(taken)) if len(taken) < n else taken
        try:
            data = (self._file or self._raw).read(n)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if self._file is None:
                raise
            raise ValueError(
                f"{self.path} is a compressed file that is cut off or damaged ({error}). "
                "Download or copy it again."
            ) from None
        if self._bar is not None:
            self._bar.update(self._raw.tell())
        return data

    def peek(self, n) -> bytes:
        if len(self._ahead) < n:
            ahead, self._ahead = self._ahead, b""
            self._ahead = ahead + self.read(n - len(ahead))
        return self._ahead[:n]

    def exactly(self, n, what) -> bytes:
        data = self.read(n)
        if len(data) < n:
            raise ValueError(
                f"{self.path} is cut off: it ends inside {what}. Download or copy it again."
            )
        return data

    def blocks(self) -> Iterator[bytes]:
        while block := self.read(_BLOCK):
            yield block


@contextlib.contextmanager
def _opened(path, options):
    total = os.path.getsize(path)
    enabled = options.verbose and total > 1 << 26
    with (
        progress.bar(f"reading {path.name}", total=total, unit="B", enabled=enabled) as bar,
        _Stream(path, progress_bar=bar) as stream,
    ):
        yield stream


class _Table:
    """A float32 table that grows with what is read, so that a wrong header costs no memory."""

    def __init__(self, n_dims, most=None, *, size=None, per_number=4):
        self.n_dims, self.most, self.n = n_dims, most, 0
        # all at once where a plain file of this size can hold that many rows
        room = 0 if most is None or size is None else min(most, size // (per_number * n_dims))
        self._rows = np.empty((room, n_dims), dtype=np.float32)

    def append(self, rows):
        needed = self.n + len(rows)
        if needed > len(self._rows):
            room = max(needed, len(self._rows) * 3 // 2, 1024)
            if self.most is not None:
                room = max(needed, min(room, self.most))
            self._rows.resize((room, self.n_dims), refcheck=False)
        self._rows[self.n : needed] = rows
        self.n = needed

    def finish(self) -> np.ndarray:
        self._rows.resize((self.n, self.n_dims), refcheck=False)
        return self._rows


# ------------------------------------------------------------------------------------------------
# word2vec, text and binary, alone or as a pair; GloVe
# ------------------------------------------------------------------------------------------------


def _read_word2vec_pair(path, format, context, options) -> _Parts:
    if context == "auto":
        if path.name.startswith(CONTEXT):
            first = path.with_name(path.name.removeprefix(CONTEXT))
            if first.exists():
                raise ValueError(
                    f"{path} is the output table of the pair that begins with {first}. Read "
                    f"{first.name} to get both tables, or pass context=None to read this one alone."
                )
        beside = path.with_name(CONTEXT + path.name)
        context = beside if beside.exists() else None
    parts = _read_word2vec(path, options, format)
    if context is None:
        return parts
    context = Path(context)
    if not context.exists():
        raise FileNotFoundError(f"There is no file {context}. Check the spelling.")
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
        strange = missing[0] if missing else next(w for w in other.words if w not in parts.words)
        raise ValueError(
            f"{path} and {context} must hold the same words to be a pair. Got {len(parts.words):,} "
            f"and {len(other.words):,} words instead; {strange!r} is in one only. Pass "
            "context=None to read the first alone."
        )
    parts.output = other.table[[row[word] for word in parts.words]]
    return parts


def _read_word2vec(path, options, format) -> _Parts:
    with _opened(path, options) as stream:
        header = _HEADER.match(_without_mark(stream.peek(200)))
        if not header:
            opening = stream.peek(40).split(b"\n")[0]
            raise ValueError(
                f"{path} must begin with the number of words and of dimensions, as word2vec files "
                f"do. Got {opening!r} instead. Text without that line is format='glove'."
            )
        _skip_mark(stream)
        stream.read(header.end())
        n_words, n_dims = int(header[1]), int(header[2])
        if n_words == 0 or n_dims == 0:
            raise ValueError(
                f"{path} must hold at least one word of one dimension. Its first line says "
                f"{n_words} words of {n_dims} dimensions instead."
            )
        if format == "word2vec-text":
            words, table = _text_table(stream, n_dims, first_line=2, n_words=n_words)
        else:
            words, table = _binary_table(stream, n_words, n_dims)
    return _Parts(path, words, table, options)


def _read_glove(path, options) -> _Parts:
    with _opened(path, options) as stream:
        _skip_mark(stream)
        lines = stream.peek(1 << 20).split(b"\n")[:-1]
        # a word may hold spaces, so the shortest of the first lines tells the dimensions
        n_dims = min((len(line.split()) for line in lines[:1000]), default=0) - 1
        if n_dims < 1:
            raise ValueError(
                f"{path} must be lines of a word and its numbers. Got {(lines or [b''])[0][:60]!r} "
                "instead, or a file that is cut off."
            )
        words, table = _text_table(stream, n_dims, first_line=1)
    return _Parts(path, words, table, options)


_MARK = b"\xef\xbb\xbf"  # some editors put it before UTF-8 text


def _without_mark(start):
    return start[3:] if start.startswith(_MARK) else start


def _skip_mark(stream):
    if stream.peek(3) == _MARK:
        stream.read(3)


def _text_table(stream, n_dims, *, first_line, n_words=None, worded=True):
    """Lines of a word and n_dims numbers (no word where `worded` is false)."""
    compiled = os.path.getsize(stream.path) >= _LARGE  # loading the kernel takes half a second
    words: list[bytes] = []
    table = _Table(n_dims, n_words, size=stream.size, per_number=2)
    line = first_line
    left = b""
    for block in stream.blocks():
        block = left + block
        end = block.rfind(b"\n") + 1
        whole, left = block[:end], block[end:]
        if not whole:
            continue
        found, rows = _parsed_lines(whole, n_dims, stream.path, line, worded, compiled)
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


def _parsed_lines(block, n_dims, path, first_line, worded, compiled):
    """Words and rows of whole lines; odd ones one at a time, the rest as fast as can be."""
    if compiled and worded:
        return _parsed_compiled(block, n_dims, path, first_line)
    plain = not any(space in block for space in (b"\t", b"\r", b"\v", b"\f", b"  "))
    found = _parsed_plain(block, n_dims, worded) if plain else None
    if found is not None:
        return found
    words, rows = [], []
    lines = block.split(b"\n")[:-1]
    for number, line in enumerate(lines, first_line):
        word, row = _parsed_line(line, n_dims, path, number, worded)
        words.append(word)
        rows.append(row)
    return words, np.array(rows, dtype=np.float32).reshape(len(rows), n_dims)


def _parsed_compiled(block, n_dims, path, first_line):
    from pacsent._kernels import formats as kernels

    n_lines = block.count(b"\n")
    # a number takes two bytes at least: a wrong first line must not cost memory
    if n_dims * 2 > len(block):
        _parsed_line(block.partition(b"\n")[0], n_dims, path, first_line, True)
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
            words[i], rows[i] = _parsed_line(line, n_dims, path, first_line + int(i), True)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():  # too large for float32
        i = int(np.argmin(finite))
        _parsed_line(block[starts[i] : line_ends[i]], n_dims, path, first_line + i, True)
    return words, rows


def _parsed_plain(block, n_dims, worded):
    """The quick way; None where a line is not simply a word and n_dims numbers."""
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text == 10)
    spaces_before = np.cumsum(text == 32)[ends]
    n_spaces = np.diff(spaces_before, prepend=0)
    n_spaces -= text[ends - 1] == 32  # fastText ends its lines with a space
    lines = block.split(b"\n")[:-1]
    if (n_spaces != n_dims - (not worded)).any():
        return None
    if worded:
        pieces = [line.partition(b" ") for line in lines]
        words = [piece[0] for piece in pieces]
        numbers = b" ".join([piece[2] for piece in pieces])
        if not all(words):
            return None
    else:
        words, numbers = [], b" ".join(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            rows = np.fromstring(numbers, dtype=np.float32, sep=" ")
        except (DeprecationWarning, ValueError, RuntimeWarning):
            return None
    if rows.size != len(lines) * n_dims or not np.isfinite(rows).all():
        return None
    return words, rows.reshape(-1, n_dims)


def _parsed_line(line, n_dims, path, number, worded):
    """One line with care: words with spaces, and what is wrong if something is."""
    line = line.rstrip(b" \t\r")
    if worded:
        # the numbers are the last n_dims fields, whatever the word holds
        pieces = re.split(rb"[ \t]+", line)
        fields = pieces[-n_dims:] if len(pieces) > n_dims else pieces[1:]
        extra = pieces[1:-n_dims] if len(pieces) > n_dims + 1 else []
        # spaces are kept inside the word
        word = line
        for _ in fields:
            word = word.rstrip(b" \t")
            word = word[: max(word.rfind(b" "), word.rfind(b"\t")) + 1]
        word = word.rstrip(b" \t")
        if len(fields) < n_dims or any(_is_number(piece) for piece in extra):
            n_found = len(fields) if len(fields) < n_dims else len(pieces) - 1
            raise ValueError(
                f"Line {number:,} of {path} must be a word and {n_dims} numbers. Got {n_found} "
                f"numbers instead, after {pieces[0][:40].decode('utf-8', 'replace')!r}. The "
                "file is damaged or cut off: download or copy it again."
            )
        if not word:
            raise ValueError(
                f"Line {number:,} of {path} must begin with a word. Got nothing before its numbers."
            )
    else:
        word, fields = b"", line.split()
        if len(fields) != n_dims:
            raise ValueError(
                f"Line {number:,} of {path} must be {n_dims} numbers. Got {len(fields)} instead."
            )
    bad = next((field for field in fields if not _is_number(field)), None)
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


def _binary_table(stream, n_words, n_dims):
    """Records of a word, a space and n_dims float32; a line break after each, or after none."""
    row_bytes = 4 * n_dims
    words: list[bytes] = []
    table = _Table(n_dims, n_words, size=stream.size)
    data, ended = b"", False
    breaks = None  # whether records end with a line break; the first one tells
    while len(words) < n_words:
        block = stream.read(max(_BLOCK, row_bytes))
        ended = not block
        data = data + block
        place = 0
        starts = []
        while len(words) < n_words:
            space = data.find(b" ", place, place + _LONGEST_WORD)
            end = space + 1 + row_bytes
            if space < 0 or end + 1 > len(data) + (ended and not breaks):
                break
            word = data[place:space]
            if breaks is None:
                breaks = data[end : end + 1] == b"\n"
            elif breaks != (data[end : end + 1] == b"\n") and len(words) + 1 < n_words:
                _misread(stream.path, len(words) + 1, n_words, n_dims)
            if not word or b"\n" in word:
                _misread(stream.path, len(words) + 1, n_words, n_dims)
            words.append(word)
            starts.append(space + 1)
            place = end + bool(breaks)
        if starts:
            rows = b"".join([data[start : start + row_bytes] for start in starts])
            table.append(np.frombuffer(rows, dtype="<f4").reshape(-1, n_dims))
        elif not ended and len(data) > _LONGEST_WORD + row_bytes + 1:
            _misread(stream.path, len(words) + 1, n_words, n_dims)
        data = data[place:]
        if ended and len(words) < n_words:
            raise ValueError(
                f"{stream.path} must hold {n_words:,} words of {n_dims} dimensions, as its first "
                f"line says. It ends after {len(words):,}. It is cut off: download or copy it "
                "again."
            )
    if data.strip(b"\n") or stream.read(1).strip(b"\n"):
        raise ValueError(
            f"{stream.path} must hold {n_words:,} words of {n_dims} dimensions, as its first line "
            "says. More follows. The first line is wrong or the file was put together: write it "
            "again."
        )
    return words, table.finish()


def _misread(path, number, n_words, n_dims):
    raise ValueError(
        f"{path} must hold {n_words:,} words of {n_dims} dimensions, as its first line says. What "
        f"stands at word {number:,} is not a word. The file is damaged or its first line is wrong."
    )


# ------------------------------------------------------------------------------------------------
# fastText
# ------------------------------------------------------------------------------------------------


def _read_fasttext(path, options) -> _Parts:
    with _opened(path, options) as stream:
        if stream.exactly(4, "its first bytes") != _FASTTEXT_MAGIC:
            raise ValueError(f"{path} must be a fastText .bin file. It begins otherwise.")
        names = (
            *("version", "dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss"),
            *("model", "bucket", "minn", "maxn", "lr_update"),
        )
        args = dict(zip(names, struct.unpack("<13i", stream.exactly(52, "its settings"))))
        (subsample,) = struct.unpack("<d", stream.exactly(8, "its settings"))
        if args["version"] not in (11, 12):
            raise ValueError(
                f"{path} must be fastText format 11 or 12. Got {args['version']} instead. Write it "
                "again with a current fastText."
            )
        if args["model"] == 3:
            raise ValueError(
                f"{path} is a supervised fastText model: its output table belongs to labels, not "
                "to words. Train with `fasttext skipgram`, or write its word vectors as text "
                "(fasttext print-word-vectors) and read those."
            )
        if args["model"] not in _FASTTEXT_MODELS or args["loss"] not in _FASTTEXT_LOSSES:
            raise ValueError(
                f"{path} is damaged: model {args['model']} and loss {args['loss']} are none of "
                "fastText's. Download or copy it again."
            )
        words, counts, pruned = _fasttext_dictionary(stream)
        quantised = stream.exactly(1, "the input table") != b"\x00"
        if quantised or pruned:
            raise ValueError(
                f"{path} is a quantised fastText model (.ftz): its vectors are compressed and its "
                "output table is for labels. Use the .bin it was made from."
            )
        n_rows = len(words) + args["bucket"]
        table = _fasttext_matrix(stream, "input", n_rows, args["dim"])
        if stream.exactly(1, "the output table") != b"\x00":
            raise ValueError(
                f"{path} has a quantised output table. Use the model it was made from."
            )
        output: np.ndarray | None = _fasttext_matrix(stream, "output", len(words), args["dim"])
        if stream.read(1):
            raise ValueError(
                f"{path} must end after its output table. More follows: it is damaged."
            )
    training = {
        "method": _FASTTEXT_MODELS[args["model"]],
        "loss": _FASTTEXT_LOSSES[args["loss"]],
        "window": args["ws"],
        "n_epochs": args["epoch"],
        "min_count": args["min_count"],
        "n_negatives": args["neg"],
        "subsample": subsample,
    }
    subwords = None
    if args["maxn"] > 0 and args["bucket"] > 0:
        subwords = Subwords(table[len(words) :], max(1, args["minn"]), args["maxn"])
        if not np.isfinite(subwords.vectors).all():
            raise ValueError(
                f"{path} must hold finite numbers. Got NaN or infinity in its subwords."
            )
        _add_subwords(table, words, subwords)
    if args["loss"] == 1:
        # rows of this table belong to inner nodes of a tree, not to words
        output = None
        training["output_table"] = "none: hierarchical softmax has no output vectors of words"
        warnings.warn(
            f"{path} was trained with hierarchical softmax, whose output table belongs to the "
            "nodes of a tree, not to words: only the input table was read.",
            stacklevel=3,
        )
    parts = _Parts(
        path, words, table[: len(words)], options, output=output, counts=counts, training=training
    )
    parts.subwords = subwords
    return parts


def _fasttext_dictionary(stream):
    what = "its list of words"
    size, n_words, n_labels, _, n_pruned = struct.unpack("<3i2q", stream.exactly(28, what))
    if n_labels:
        raise ValueError(
            f"{stream.path} is a supervised fastText model ({n_labels} labels): its output table "
            "belongs to labels, not to words. Train with `fasttext skipgram`."
        )
    if size != n_words or n_words < 1:
        raise ValueError(
            f"{stream.path} is damaged: {size:,} entries for {n_words:,} words. Download or copy "
            "it again."
        )
    words, counts = [], []
    data, place, ended = b"", 0, False
    while len(words) < n_words:
        end = data.find(b"\x00", place)
        if end < 0 or end + 10 > len(data):
            if ended or len(data) - place > _LONGEST_WORD:
                raise ValueError(
                    f"{stream.path} is cut off or damaged: {len(words):,} of its {n_words:,} words "
                    "can be read. Download or copy it again."
                )
            block = stream.read(1 << 20)
            data, place, ended = data[place:] + block, 0, not block
            continue
        count, kind = struct.unpack_from("<qb", data, end + 1)
        if kind != 0 or count < 0 or end == place:
            raise ValueError(
                f"{stream.path} is damaged: what stands at word {len(words) + 1:,} is not a word. "
                "Download or copy it again."
            )
        words.append(data[place:end])
        counts.append(count)
        place = end + 10
    stream._ahead = data[place:] + stream._ahead
    return words, np.array(counts, dtype=np.int64), n_pruned >= 0


def _fasttext_matrix(stream, name, n_rows, n_dims) -> np.ndarray:
    what = f"the {name} table"
    shape = struct.unpack("<2q", stream.exactly(16, what))
    if shape != (n_rows, n_dims):
        raise ValueError(
            f"The {name} table of {stream.path} must be {n_rows:,} x {n_dims}, as its settings "
            f"say. Got {shape[0]:,} x {shape[1]} instead: the file is damaged."
        )
    table = _Table(n_dims, n_rows, size=stream.size)
    at_once = max(1, _BLOCK // (4 * n_dims))
    while table.n < n_rows:
        n = min(at_once, n_rows - table.n)
        data = stream.exactly(4 * n_dims * n, what)
        table.append(np.frombuffer(data, dtype="<f4").reshape(n, n_dims))
    return table.finish()


def _add_subwords(table, words, subwords):
    """Turn the rows of known words into fastText's word vectors, in place.

    vector(word) = (own row + rows of its n-grams) / (1 + number of n-grams)
    """
    from scipy import sparse

    at_once = 20_000
    for start in range(0, len(words), at_once):
        some = words[start : start + at_once]
        rows, offsets = subwords.rows(some)
        # the end of a sentence is a word without n-grams
        if b"</s>" in some:
            i = some.index(b"</s>")
            n = offsets[i + 1] - offsets[i]
            rows = np.delete(rows, slice(offsets[i], offsets[i + 1]))
            offsets[i + 1 :] -= n
        ngrams = sparse.csr_matrix(
            (np.ones(rows.size, dtype=np.float32), rows, offsets),
            shape=(len(some), len(subwords.vectors)),
        )
        own = table[start : start + len(some)]
        own += ngrams @ subwords.vectors
        own /= (1 + np.diff(offsets)).astype(np.float32)[:, None]


# ------------------------------------------------------------------------------------------------
# folders: SENNA, .npy tables; lists of counts
# ------------------------------------------------------------------------------------------------


def _senna_files(folder):
    """(words.lst, embeddings.txt) side by side, or as SENNA's own archive lays them out."""
    for words, vectors in (
        ("words.lst", "embeddings.txt"),
        ("hash/words.lst", "embeddings/embeddings.txt"),
    ):
        if (folder / words).is_file() and (folder / vectors).is_file():
            return folder / words, folder / vectors
    return None


def _read_senna(path, options) -> _Parts:
    files = _senna_files(path)
    if not files:
        raise ValueError(f"{path} must be a folder with SENNA's words.lst and embeddings.txt.")
    with _Stream(files[0]) as stream:
        text = b"".join(stream.blocks())
    words = [line.rstrip(b"\r") for line in text.split(b"\n")]
    if words[-1]:
        raise ValueError(
            f"{files[0]} must end with a line break. It does not, so it may be cut off. Copy it "
            "again; if it is whole, add a line break at its end."
        )
    words.pop()
    if not all(words):
        raise ValueError(
            f"{files[0]} must be one word a line. Line {words.index(b'') + 1} is empty."
        )
    with _opened(files[1], options) as stream:
        n_dims = len(stream.peek(_PEEK).split(b"\n", 1)[0].split())
        if n_dims == 0:
            raise ValueError(f"{files[1]} must be lines of numbers. Its first line is empty.")
        _, table = _text_table(stream, n_dims, first_line=1, worded=False)
    if len(table) != len(words):
        raise ValueError(
            f"{files[0]} and {files[1]} must have the same number of lines. Got {len(words):,} and "
            f"{len(table):,} instead. One of them is cut off: copy them again."
        )
    return _Parts(path, words, table, options)


def _read_npy(path, options) -> _Parts:
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
        except (ValueError, EOFError, OSError) as error:
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
    lists = [path / name for name in ("vocab.tsv", storage.WORD_LIST) if (path / name).exists()]
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
    return _Parts(path, words, tables["input"], options, output=tables.get("output"), counts=counts)


def _word_list(path, encoding_errors):
    """Words, and counts where every line has one, of `word<TAB>count` or `word count` lines."""
    with _Stream(path) as stream:
        lines = b"".join(stream.blocks()).split(b"\n")
    if lines[-1]:
        raise ValueError(
            f"{path} must end with a line break. It does not, so it may be cut off. Copy it again; "
            "if it is whole, add a line break at its end."
        )
    lines = [line.rstrip(b"\r") for line in lines[:-1]]
    if not lines:
        raise ValueError(f"{path} must hold at least one word. It is empty.")
    separator = b"\t" if b"\t" in lines[0] else b" "
    if separator not in lines[0]:
        return _decoded(path, lines, encoding_errors), None
    words, counts = [], []
    for number, line in enumerate(lines, 1):
        word, _, count = line.rpartition(separator)
        if not word or not count.isdigit():
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got "
                f"{line[:60].decode('utf-8', 'replace')!r} instead."
            )
        words.append(word)
        counts.append(int(count))
    return _decoded(path, words, encoding_errors), np.array(counts, dtype=np.int64)


def _read_counts(path, words, encoding_errors) -> np.ndarray:
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


# ------------------------------------------------------------------------------------------------
# gensim, in memory
# ------------------------------------------------------------------------------------------------


def from_gensim(model, *, normalise: str | Callable[[str], list[str]] = "paper") -> WordVectors:
    """Word vectors of a gensim model in memory: Word2Vec, FastText, Doc2Vec or KeyedVectors.

    The tables are copied, so that further training of the model changes nothing here. The output
    table is there for models trained with negative sampling; KeyedVectors have none. The counts
    that gensim makes up for a file without counts (n_words, n_words - 1, ..., 1) are not taken.
    """
    vectors = getattr(model, "wv", model)
    words = getattr(vectors, "index_to_key", None)
    table = getattr(vectors, "vectors", None)
    if words is None or table is None:
        raise TypeError(
            "model must be a gensim (4 or newer) Word2Vec, FastText, Doc2Vec or KeyedVectors. Got "
            f"{type(model).__name__} instead."
        )
    n_words = len(words)
    counts = getattr(vectors, "expandos", {}).get("count")
    if counts is not None:
        counts = np.array(counts, dtype=np.int64)
        made_up = np.arange(n_words, 0, -1)
        if counts.shape != (n_words,) or (vectors is model and (counts == made_up).all()):
            counts = None
    training: dict = {"format": f"gensim {type(model).__name__}"}
    output = getattr(model, "syn1neg", None) if getattr(model, "negative", 0) else None
    if vectors is not model:
        for ours, theirs in (
            ("window", "window"), ("n_epochs", "epochs"), ("n_negatives", "negative"),
            ("subsample", "sample"), ("min_count", "min_count"), ("noise_power", "ns_exponent"),
        ):  # fmt: skip
            value = getattr(model, theirs, None)
            if isinstance(value, (int, float)):
                training[ours] = value
    subwords = None
    ngrams = getattr(vectors, "vectors_ngrams", None)
    if ngrams is not None and len(ngrams) and vectors.max_n > 0:
        ngrams = np.array(ngrams, dtype=np.float32)
        subwords = Subwords(ngrams, max(1, vectors.min_n), vectors.max_n)
    return WordVectors(
        Vocabulary(list(words), counts, normalise=normalise),
        np.array(table[:n_words], dtype=np.float32),
        None if output is None else np.array(output, dtype=np.float32),
        training=training,
        subwords=subwords,
    )


# ------------------------------------------------------------------------------------------------
# write
# ------------------------------------------------------------------------------------------------


def write(
    words: WordVectors,
    path,
    *,
    format: str | None = None,
    save_counts=None,
    overwrite: bool = False,
    verbose: bool = False,
) -> list[Path]:
    """Write word vectors for other programs, or as our folder.

    Parameters
    ----------
    words : WordVectors
    path : str or path
        The input table goes here, the output table to `context_FILE` beside it.
    format : {"word2vec-text", "word2vec-binary", "pacsent"}, optional
        By the name when left out: .txt and .vec are text, .bin is binary, a name without a
        suffix is our folder.
    save_counts : path, optional
        Also write `word count` lines there (word2vec's -save-vocab): the word2vec formats keep
        no counts.
    overwrite : bool, default=False
        Replace files that exist.

    Returns
    -------
    list of Path
        What was written.

    Notes
    -----
    Text has nine significant digits, from which float32 and float16 come back as they were.
    Words with white space cannot be told from their numbers and are refused.
    """
    path = Path(path)
    format = format or format_of_name(path)
    targets = _targets(path, format, words.output_vectors is not None, save_counts, overwrite)
    if save_counts is not None and words.counts is None:
        raise ValueError("save_counts needs word counts, and these vectors have none.")
    if format == "pacsent":
        storage.save(words, path)
    else:
        raw = _words_for_word2vec(words)
        lines = _text_lines if format == "word2vec-text" else _binary_records
        _write_table(path, raw, words.input_vectors, lines, verbose)
        if words.output_vectors is not None:
            _write_table(targets[1], raw, words.output_vectors, lines, verbose)
    if save_counts is not None:
        raw = _words_for_word2vec(words)
        counts = words.counts
        assert counts is not None
        with _replacing(targets[-1]) as file:
            file.writelines(b"%s %d\n" % pair for pair in zip(raw, counts.tolist()))
    return targets


def _targets(path, format, output, save_counts, overwrite) -> list[Path]:
    """The files that writing would make; refused where one is in the way."""
    if format not in WRITABLE:
        raise ValueError(
            f"format must be one of {', '.join(map(repr, WRITABLE))}. Got {format!r} instead."
        )
    path = Path(path)
    context = path.with_name(CONTEXT + path.name)
    targets = [path]
    if format != "pacsent" and output:
        targets.append(context)
    elif format != "pacsent" and context.exists():
        raise ValueError(
            f"{context} exists, and would be taken for the output table of {path}; these vectors "
            "have none. Move it away or choose another name."
        )
    if save_counts is not None:
        targets.append(Path(save_counts))
    for target in targets:
        if target.exists() and not overwrite:
            raise ValueError(
                f"{target} exists. Choose another name, or pass overwrite=True (--overwrite)."
            )
        if target.is_dir() and (format != "pacsent" or target != path):
            raise ValueError(f"{target} is a folder. Choose another name for the file.")
    return targets


def format_of_name(path) -> str:
    """The format that `write` takes for a name."""
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
        _replacing(path) as file,
    ):
        file.write(b"%d %d\n" % table.shape)
        at_once = max(1, (1 << 20) // table.shape[1])
        for start in range(0, len(raw), at_once):
            some = raw[start : start + at_once]
            file.writelines(lines(some, table[start : start + at_once]))
            bar.advance(len(some))


def _text_lines(raw, rows):
    # %.9g is enough for every float32 to come back as it was
    form = b" ".join([b"%.9g"] * rows.shape[1]) + b"\n"
    for word, row in zip(raw, rows.tolist()):
        yield word + b" " + form % tuple(row)


def _binary_records(raw, rows):
    data = np.ascontiguousarray(rows, dtype="<f4")
    for word, row in zip(raw, data):
        yield word + b" " + row.tobytes() + b"\n"


@contextlib.contextmanager
def _replacing(path):
    """A file written beside its place and moved there when whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.saving-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise storage.full_disk(error, path) from None
    finally:
        beside.unlink(missing_ok=True)


def describe(words: WordVectors) -> dict:
    """What there is, for people and scripts: words, dimensions, tables, counts."""
    tables = ["input"] + ["output"] * (words.output_vectors is not None)
    return {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "dtype": str(words.input_vectors.dtype),
        "tables": tables,
        "counts_known": words.counts is not None,
        "subwords": None if words.subwords is None else len(words.subwords.vectors),
        "first_words": list(islice(words.words, 5)),
    }
