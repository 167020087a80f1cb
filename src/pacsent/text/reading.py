"""Files as bytes, decompressed while they are read, or in chunks that threads can work on."""

import bz2
import gzip
import io
import lzma
import os
import string
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pacsent.optional import import_optional


def _open_zstd(file: Any) -> Any:
    pa = import_optional("pyarrow", "Files compressed by zstd need pyarrow", "parquet")
    return pa.CompressedInputStream(file, "zstd")


_ARCHIVES: dict[str, tuple[bytes, Callable]] = {  # the first bytes, and how to open it
    ".gz": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": (b"BZh", bz2.BZ2File),
    ".xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    ".zst": (b"\x28\xb5\x2f\xfd", _open_zstd),
}
COMPRESSED = tuple(_ARCHIVES)  # suffixes of files that are decompressed while they are read

# A few kilobytes can decompress without end and fill the disk. Text compresses three to ten times,
# a file of equal lines some hundred times; files that become no larger than this are not checked.
UNCHECKED_BYTES = 1 << 30
_MAX_RATIO = 200

CHUNK_BYTES = 1 << 20  # of a file that one thread works on at a time


def check_input(path: str | os.PathLike) -> Path:
    """Return the path if there is a file; raise an error of one clear line otherwise."""
    path = Path(path)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError:  # such as a text, which is too long for a name
        is_folder = exists = False
    if is_folder:
        raise IsADirectoryError(
            f"The input must be a file. Got the directory {path} instead. "
            f"Name the files in it, for example {path}/*"
        )
    if not exists:
        name = str(path) if len(str(path)) <= 200 else f"{str(path)[:60]}..."
        raise FileNotFoundError(
            f"The input must be a file that exists. Got {name} instead. Check its name."
        )
    return path


def total_size(paths: Iterable) -> int | None:
    """Check each file and return their size in bytes; None if one of them is a stream."""
    total = 0
    is_known = True
    for path in paths:
        size = 0 if str(path) == "-" else check_input(path).stat().st_size
        total += size
        is_known &= size > 0  # that of a pipe is 0
    return total if is_known else None


class Source(io.RawIOBase):
    """A file, or stdin for '-', read as bytes; .gz, .bz2, .xz and .zst are decompressed.

    The content tells how a file is compressed, whatever its name. An open binary `file` is read in
    place of the path, which then only names it. `consumed` and `size` are in bytes on disk; `size`
    is None if it is unknown.
    """

    def __init__(self, path: str | os.PathLike, file: Any = None):
        super().__init__()
        self.name = "standard input" if str(path) == "-" else str(path)
        self.size: int | None = None
        self.file: Any = None
        if file is None:
            file = self._open(path)
        self.file = file if hasattr(file, "peek") else io.BufferedReader(file)
        self._n_read = 0

        self.kind = self._find_kind(self.file.peek(16))
        self._stream = self.file
        if self.kind:
            _, open_archive = _ARCHIVES[self.kind]
            self._stream = open_archive(self.file)

    def _open(self, path: str | os.PathLike) -> Any:
        """Open the file, and set its size; stdin for '-'."""
        if str(path) == "-":
            return sys.stdin.buffer

        path = check_input(path)
        try:
            file = open(path, "rb")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise type(error)(
                f"The input must be a file that can be read. Got {path} instead "
                f"({error.strerror}). Check its permissions."
            ) from None
        self.size = path.stat().st_size or None  # a pipe has none
        return file

    def _find_kind(self, start: bytes) -> str:
        """The suffix of the archive that begins so; "" for a file that is not compressed."""
        kinds = [kind for kind, (first, _) in _ARCHIVES.items() if start.startswith(first)]
        kind = kinds[0] if kinds else ""
        # 'BZh' may well begin a text; in an archive the digits of pi or of its root follow.
        if kind == ".bz2" and start[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
            kind = ""

        suffix = Path(self.name).suffix
        if suffix not in _ARCHIVES or not start or kind == suffix:
            return kind

        signature, _ = _ARCHIVES[suffix]
        if not signature.startswith(start[: len(signature)]):
            raise ValueError(
                f"{self.name} must be a {suffix} archive. Got a file that begins with "
                f"{start[:6]!r} instead. Rename it or fetch it again."
            )
        return suffix  # cut off within its first bytes

    @property
    def consumed(self) -> int:
        """Bytes read from the disk; of a stream, bytes that came out."""
        return self._n_read if self.size is None else self.file.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, n: int = -1) -> bytes:
        """Return n bytes, fewer only at the end; all of them for n = -1."""
        if n < 0:
            return self.readall()
        if self.kind:
            return self._read_archive(n)

        # One read of the system at a time: a signal that comes between two is seen at once,
        # where `read` would go on waiting for a pipe.
        blocks: list[bytes] = []
        while n > 0 and (block := self.file.read1(n)):
            n -= len(block)
            self._n_read += len(block)
            blocks.append(block)
        return b"".join(blocks)

    def _read_archive(self, n: int) -> bytes:
        try:
            data = self._stream.read(n)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
            is_cut = isinstance(error, EOFError) or "Truncated" in str(error)
            raise ValueError(
                f"{self.name} must be a whole {self.kind} archive. Got one that is "
                f"{'cut off' if is_cut else 'damaged'} after {self._n_read:,} decompressed bytes "
                f"instead ({error}). Fetch it again."
            ) from None

        self._n_read += len(data)
        if self._n_read > max(UNCHECKED_BYTES, _MAX_RATIO * self.consumed):
            raise ValueError(
                f"{self.name} must decompress to at most {_MAX_RATIO} times its size. Got more "
                f"than {self._n_read:,} bytes from {self.consumed:,} instead, which no text does. "
                "If it is right, decompress it first."
            )
        return data

    def close(self) -> None:
        if not self.closed and self.file not in (None, sys.stdin.buffer):
            self.file.close()
        super().close()


def empty_file(name: str) -> str:
    """Return the message for a file without a byte in it."""
    return f"{name} must have text. Got an empty file instead. Check how it was made."


def not_utf8(name: str, offset: int, byte: int) -> str:
    """Return the message for a byte that is no UTF-8, with its offset."""
    return (
        f"{name} must be UTF-8 text. Got the byte 0x{byte:02x} at offset {offset:,} instead. "
        f"{how_to_convert(byte, offset)}"
    )


def how_to_convert(byte: int, offset: int) -> str:
    """Return the command that converts a file with this byte, by the encodings that have it.

    >>> how_to_convert(0x93, 12)
    'Convert the file first: iconv -f cp1252 -t utf-8 (text from Windows)'
    """
    if offset == 0 and byte in (0xFE, 0xFF):
        return "Convert the file first: iconv -f utf-16 -t utf-8"
    if 0x80 <= byte <= 0x9F:  # no letter in latin1, quotation marks and dashes in cp1252
        return "Convert the file first: iconv -f cp1252 -t utf-8 (text from Windows)"
    return "Convert the file first: iconv -f latin1 -t utf-8, or -f cp1252 where it is from Windows"


def iter_chunks(
    source: Source, cut: Callable[[bytes], int], size: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of chunks that end where `cut` allows; a newline ends the last one.

    `cut(block)` is the length of the part of a block that may end a chunk, 0 if there is none.
    """
    pending: list[bytes] = []
    offset = 0
    last_byte = None
    while block := source.read(size or CHUNK_BYTES):
        last_byte = block[-1:]
        end = cut(block)
        if end:
            chunk = b"".join([*pending, block[:end]])
            yield offset, chunk
            offset += len(chunk)
            pending = []
        pending.append(block[end:])

    if last_byte is None:
        raise ValueError(empty_file(source.name))
    if last_byte != b"\n":
        pending.append(b"\n")
    last_chunk = b"".join(pending)
    if last_chunk:
        yield offset, last_chunk


def cut_after_letters(block: bytes) -> int:
    """Return where the word that the block ends in begins."""
    return len(block.rstrip(string.ascii_letters.encode()))


def cut_at_newline(block: bytes) -> int:
    """Return the position behind the last newline."""
    return block.rfind(b"\n") + 1


def cut_at_space(block: bytes) -> int:
    """Return the position behind the last newline, or a space before an ASCII letter or digit.

    There neither NFKC nor a token of the unicode normalisation reaches across.

    >>> cut_at_space(b'one two')
    4
    """
    end = cut_at_newline(block)
    space = len(block)
    while not end and (space := block.rfind(b" ", 0, space)) >= 0:
        if block[space + 1 : space + 2].isalnum():
            end = space + 1
    return end
