"""Reading files of any packing as bytes, or in pieces that threads can take."""

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pacsent.lazy import install_hint

_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}
PACKED = tuple(_MAGIC)  # suffixes of files that are unpacked while they are read
_PACKED_SIZE = 1 << 14  # bytes of an archive unpacked at a time
_PIECE = 1 << 20  # bytes that come out of them at a time, however many they unfold to
UNFOLDED = 1 << 30  # bytes that any archive may unfold to
UNPACK_LIMIT = "PACSENT_UNPACK_LIMIT"  # environment: times its size that a larger one may
_MOST_TIMES = 200.0  # text packs three to ten times, a file of equal lines some hundred times


def _kind(start: bytes) -> str:
    """Suffix of the archive that begins like this; empty for plain text."""
    for kind, magic in _MAGIC.items():
        if start.startswith(magic):
            # 'BZh' may well begin a text; pi or its root follow it in an archive
            if kind == ".bz2" and start[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
                continue
            return kind
    return ""


def check_input(path: str | os.PathLike) -> Path:
    """The path, if there is a file; else an error of one clear line."""
    path = Path(path)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError:  # such as a text, which is too long for a name
        is_folder = is_there = False
    if is_folder:
        raise IsADirectoryError(
            f"The input must be a file. Got the directory {path} instead. "
            f"Name the files in it, for example {path}/*"
        )
    if not is_there:
        shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:60]}..."
        raise FileNotFoundError(
            f"The input must be a file that exists. Got {shown} instead. Check its name."
        )
    return path


def total_size(paths: Iterable) -> int | None:
    """Bytes of all files, each of them checked first; None where one has no size known before."""
    sizes = [None if str(p) == "-" else check_input(p).stat().st_size or None for p in paths]
    return sum(sizes) if all(sizes) else None  # type: ignore[arg-type]


class Source:
    """A file, or stdin for '-', read as bytes and unpacked on the way (.gz, .bz2, .xz, .zst).

    A directory, a missing file and a damaged or cut-off archive are errors of one clear line. An
    open `file` of bytes is read in place of the path, which then only names it. `consumed / size`,
    both in bytes on disk, is how far the reading is; `size` is None where that is not known.
    """

    def __init__(self, path: str | os.PathLike, file: Any = None):
        self._file: Any
        self.name = "standard input" if str(path) == "-" else str(path)
        self.size = None
        self.consumed = 0
        if file is not None:
            self._file = file if hasattr(file, "read1") else io.BufferedReader(file)
        elif str(path) == "-":
            self._file = sys.stdin.buffer
        else:
            path = check_input(path)
            try:
                self._file = open(path, "rb")  # noqa: SIM115 (closed by close)
            except OSError as error:
                raise type(error)(
                    f"The input must be a file that can be read. Got {path} instead "
                    f"({error.strerror}). Check its permissions."
                ) from None
            size = path.stat().st_size
            self.size = size or None  # a pipe has none
        self._start = self._take(_PACKED_SIZE)
        self.kind = _kind(self._start)
        suffix = Path(self.name).suffix
        if suffix in _MAGIC and self._start and self.kind != suffix:
            size = min(len(self._start), len(_MAGIC[suffix]))
            if self._start[:size] != _MAGIC[suffix][:size]:
                raise ValueError(
                    f"{self.name} must be a {suffix} archive. Got a file that begins with "
                    f"{self._start[:6]!r} instead. Rename it or fetch it again."
                )
            self.kind = suffix  # cut off within its first bytes
        self._most_times = _most_times()
        self._unpacked = self._pieces()
        self._rest, self._at = b"", 0  # a piece, and how much of it was read

    def _take(self, n: int) -> bytes:
        # one read of the system at a time: a signal that comes between two is seen at once, where
        # `read` would go on waiting for a pipe
        pieces: list[bytes] = []
        while n > 0 and (piece := self._file.read1(n)):
            n -= len(piece)
            self.consumed += len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def _pieces(self) -> Iterator[bytes]:
        """What an archive holds, unpacked, in pieces of about a megabyte at most."""
        piece, self._start = self._start, b""
        make, wrong = _unpacker(self.kind)
        machine = make()
        n_out = 0
        while piece:
            try:
                for unpacked in _unpacked(machine, piece):
                    n_out += len(unpacked)
                    self._check_unfolding(n_out)
                    yield unpacked
            except wrong as error:
                raise ValueError(
                    f"{self.name} must be a whole {self.kind} archive. Got one that is damaged "
                    f"after {n_out:,} unpacked bytes instead ({error}). Fetch it again."
                ) from None
            if not machine.eof:
                piece = self._take(_PACKED_SIZE)
                continue
            # an archive may hold several streams, one after the other, zeros between them
            piece = machine.unused_data.lstrip(b"\0")
            while not piece and (taken := self._take(_PACKED_SIZE)):
                piece = taken.lstrip(b"\0")
            if piece:
                machine = make()
        if not machine.eof:
            raise ValueError(
                f"{self.name} must be a whole {self.kind} archive. Got one that is cut off after "
                f"{n_out:,} unpacked bytes instead. Fetch or copy it again."
            )

    def _check_unfolding(self, n_out: int) -> None:
        """A few kilobytes can unfold without end and fill the disk; text never packs so well."""
        if n_out <= UNFOLDED or n_out <= self._most_times * (self.size or self.consumed):
            return
        raise ValueError(
            f"{self.name} must unfold to at most {self._most_times:,.0f} times its size. Got more "
            f"than {n_out:,} bytes from {self.size or self.consumed:,} instead, which no text "
            f"does. If it is right, set {UNPACK_LIMIT}=0 (no limit) and try again."
        )

    def read(self, n: int) -> bytes:
        """Exactly n bytes, fewer only at the end."""
        if not self.kind:
            start, self._start = self._start[:n], self._start[n:]
            return start + self._take(n - len(start)) if len(start) < n else start
        taken: list[bytes] = []
        while n > 0:
            if self._at == len(self._rest):
                self._rest, self._at = next(self._unpacked, b""), 0
                if not self._rest:
                    break
            piece = self._rest[self._at : self._at + n]
            self._at += len(piece)
            n -= len(piece)
            taken.append(piece)
        return b"".join(taken)

    @property
    def file(self) -> Any:
        """The open file of bytes, packed as it is."""
        return self._file

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _most_times() -> float:
    """How many times its size an archive may unfold to: PACSENT_UNPACK_LIMIT, 0 for no limit."""
    given = os.environ.get(UNPACK_LIMIT, "")
    try:
        times = float(given) if given else _MOST_TIMES
    except ValueError:
        times = -1.0
    if not times >= 0:
        raise ValueError(
            f"{UNPACK_LIMIT} must be how many times its size an archive may unfold to, 0 for no "
            f"limit. Got {given!r} instead."
        )
    return times or math.inf


def _unpacked(machine, packed: bytes) -> Iterator[bytes]:
    """What a decompressor of the standard library makes of these bytes, a megabyte at a time."""
    while True:
        unpacked = machine.decompress(packed, _PIECE)
        if unpacked:
            yield unpacked
        packed = getattr(machine, "unconsumed_tail", b"")  # zlib hands it back
        waiting = packed if hasattr(machine, "unconsumed_tail") else not machine.needs_input
        if machine.eof or not (waiting or len(unpacked) == _PIECE):
            return


class _Zstandard:
    """The zstandard library, which has no limit on what comes out: little is put in at a time."""

    _AT_ONCE = 1 << 9  # bytes; four may be a block of 128 kB, so at most 16 MB come out
    unconsumed_tail, unused_data = b"", b""

    def __init__(self, library):
        self._machine, self.eof = library.ZstdDecompressor().decompressobj(), False

    def decompress(self, packed: bytes, _) -> bytes:
        some, self.unconsumed_tail = packed[: self._AT_ONCE], packed[self._AT_ONCE :]
        unpacked = self._machine.decompress(some)
        if self._machine.eof:
            self.eof = True
            self.unused_data = self._machine.unused_data + self.unconsumed_tail
        return unpacked


def _unpacker(kind: str) -> tuple[Callable[[], Any], tuple]:
    """What makes a decompressor of this kind, and what that raises on bytes of no such archive."""
    if kind == ".gz":
        import zlib

        return partial(zlib.decompressobj, wbits=31), (zlib.error,)
    if kind == ".bz2":
        import bz2

        return bz2.BZ2Decompressor, (OSError, ValueError)
    if kind == ".xz":
        import lzma

        return lzma.LZMADecompressor, (lzma.LZMAError,)
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor, (zstd.ZstdError,)
    try:
        import zstandard
    except ImportError:
        raise ImportError(
            f"Reading .zst files needs zstandard, which is not installed. {install_hint('zstd')}"
        ) from None
    return partial(_Zstandard, zstandard), (zstandard.ZstdError,)


def empty_file(name: str) -> str:
    """The message for a file without a byte in it."""
    return f"{name} must hold text. Got an empty file instead. Check how it was made."


def not_utf8(name: str, offset: int, byte: int) -> str:
    """The message for a byte that is no UTF-8, with its place."""
    return (
        f"{name} must be UTF-8 text. Got the byte 0x{byte:02x} at offset {offset:,} instead. "
        f"{how_to_convert(byte, offset)}"
    )


def how_to_convert(byte: int, offset: int) -> str:
    """The next step for a file with this byte, by the encodings that it can be part of.

    >>> how_to_convert(0x93, 12)
    'Convert the file first: iconv -f cp1252 -t utf-8 (text from Windows)'
    """
    if offset == 0 and byte in (0xFE, 0xFF):
        return "Convert the file first: iconv -f utf-16 -t utf-8"
    if 0x80 <= byte <= 0x9F:  # no letter in latin1, quotation marks and dashes in cp1252
        return "Convert the file first: iconv -f cp1252 -t utf-8 (text from Windows)"
    return "Convert the file first: iconv -f latin1 -t utf-8, or -f cp1252 where it is from Windows"


# ---- pieces of a file that can be worked on apart -----------------------------------------------

PIECE = 1 << 20  # bytes that one thread takes at a time


def pieces(
    source: Source, cut: Callable[[bytes], int], size: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of pieces that end where `cut` says; a newline ends the last one.

    `cut(block)` is how many bytes of a block may end a piece; 0 where it has no such place, and
    then the piece goes on.
    """
    held: list[bytes] = []
    offset = n_read = 0
    last = b""
    while block := source.read(size or PIECE):
        n_read += len(block)
        last = block[-1:]
        end = cut(block)
        if end == 0:
            held.append(block)
            continue
        piece = b"".join([*held, block[:end]])
        yield offset, piece
        offset += len(piece)
        held = [block[end:]] if end < len(block) else []
    if n_read == 0:
        raise ValueError(empty_file(source.name))
    rest = b"".join(held)
    if rest or last != b"\n":
        yield offset, rest if last == b"\n" else rest + b"\n"


_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def cut_after_letters(block: bytes) -> int:
    """Where the word that the block ends in begins."""
    return len(block.rstrip(_LETTERS))


def cut_at_newline(block: bytes) -> int:
    """Behind the last newline."""
    return block.rfind(b"\n") + 1


def cut_at_space(block: bytes) -> int:
    """Behind the last newline, or the last space that a letter or digit of ASCII follows.

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
