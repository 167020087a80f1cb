"""Text in, clean tokens out: reading files and normalising what they hold.

Nothing here knows about vocabularies or vectors.
"""

import contextlib
import itertools
import numbers
import os
import re
import sys
import tempfile
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from pacsent import progress

# ------------------------------------------------------------------------------------------------
# normalisations: how raw text becomes tokens
# ------------------------------------------------------------------------------------------------

_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = {ord("0") + i: f" {name} " for i, name in enumerate(_DIGIT_NAMES)}
_ASCII_UPPER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_NOT_LETTERS = re.compile(r"[^a-z]+")


def clean(text: str) -> str:
    """The last stage of the paper's filter: a-z lower-cased, digits spelled, the rest one space.

    >>> clean("Route 66, café!")
    'route six six caf'
    """
    # str.lower would map 'K' (Kelvin sign) to 'k'; the filter of record lowers A-Z only
    return _NOT_LETTERS.sub(" ", text.translate(_ASCII_UPPER).translate(_DIGITS)).strip()


def tokenise_paper(text: str) -> list[str]:
    """Tokens of the paper's preprocessing.

    >>> tokenise_paper("Route 66, café!")
    ['route', 'six', 'six', 'caf']
    """
    return clean(text).split()


def tokenise_unicode(text: str) -> list[str]:
    """Tokens of any language that puts spaces between words.

    NFKC and case folding, then runs of letters, digits, combining marks and underscores. An
    apostrophe (' or ’, which becomes ') between two of these stays inside a token, and so does a
    point or a comma between two digits. A script without spaces (Chinese, Thai) gives one token a
    run: pass a tokeniser of its own for it.

    >>> tokenise_unicode("Don’t pay 1,000.50 € in the ＣＡＦÉ, Straße 7.")
    ["don't", 'pay', '1,000.50', 'in', 'the', 'café', 'strasse', '7']
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _unicode_token().findall(text.replace("’", "'"))


def _token_pattern(word: str) -> str:
    return rf"{word}+(?:(?:'(?={word})|(?<=\d)[.,](?=\d)){word}+)*"


_ASCII_TOKEN = re.compile(_token_pattern("[a-z0-9_]"), re.ASCII)


@cache
def _unicode_token() -> re.Pattern:
    # \w leaves out combining marks, without which Hindi or Hebrew words fall apart; in classes of
    # ranges, as the standard library has no \p{M}
    points = itertools.chain(range(0x300, 0x20000), range(0xE0000, 0xE1000))  # no mark elsewhere
    marks = [point for point in points if unicodedata.category(chr(point))[0] == "M"]
    starts = [p for p, before in zip(marks, [-1, *marks]) if p != before + 1]
    ends = [p for p, after in zip(marks, [*marks[1:], -1]) if p != after - 1]
    ranges = "".join(f"\\U{start:08x}-\\U{end:08x}" for start, end in zip(starts, ends))
    return re.compile(_token_pattern(rf"[\w{ranges}]"))


TOKENISERS = {"paper": tokenise_paper, "unicode": tokenise_unicode}


# ------------------------------------------------------------------------------------------------
# reading files, packed or not
# ------------------------------------------------------------------------------------------------

_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}
_PACKED_SIZE = 1 << 14  # bytes of an archive unpacked at a time: little comes out of them at once


def _kind(start: bytes) -> str:
    """Suffix of the archive that begins like this; empty for plain text."""
    for kind, magic in _MAGIC.items():
        if start.startswith(magic):
            # 'BZh' may well begin a text; pi or its root follow it in an archive
            if kind == ".bz2" and start[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
                continue
            return kind
    return ""


def check_input(path) -> Path:
    """The path, if there is a file; else an error of one clear line."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(
            f"The input must be a file. Got the directory {path} instead. "
            f"Name the files in it, for example {path}/*"
        )
    if not path.exists():
        raise FileNotFoundError(
            f"The input must be a file that exists. Got {path} instead. Check its name."
        )
    return path


def total_size(paths: Iterable) -> int | None:
    """Bytes of all files, each of them checked first; None where one has no size known before."""
    sizes = [None if str(p) == "-" else check_input(p).stat().st_size or None for p in paths]
    return sum(sizes) if all(sizes) else None  # type: ignore[arg-type]


class Source:
    """A file, or stdin for '-', read as bytes and unpacked on the way (.gz, .bz2, .xz, .zst).

    A directory, a missing file and a damaged or cut-off archive are errors of one clear line.

    Attributes
    ----------
    name : str
    size : int or None
        Bytes on disk; None where that is not known.
    consumed : int
        Bytes read so far, as they are on disk: `consumed / size` is how far the reading is.
    """

    def __init__(self, path):
        self.name = "standard input" if str(path) == "-" else str(path)
        self.size = None
        self.consumed = 0
        if str(path) == "-":
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
        self._unpacked = self._pieces()
        self._rest = b""

    def _take(self, n: int) -> bytes:
        piece = self._file.read(n)
        self.consumed += len(piece)
        return piece

    def _pieces(self) -> Iterator[bytes]:
        """What an archive holds, unpacked, in pieces of any size."""
        piece, self._start = self._start, b""
        wrong = _wrong_data(self.kind)
        machine = _unpacker(self.kind)
        n_out = 0
        while piece:
            try:
                unpacked = machine.decompress(piece)
            except wrong as error:
                raise ValueError(
                    f"{self.name} must be a whole {self.kind} archive. Got one that is damaged "
                    f"after {n_out:,} unpacked bytes instead ({error}). Fetch it again."
                ) from None
            n_out += len(unpacked)
            if unpacked:
                yield unpacked
            if not machine.eof:
                piece = self._take(_PACKED_SIZE)
                continue
            # an archive may hold several streams, one after the other, zeros between them
            piece = machine.unused_data.lstrip(b"\0")
            while not piece and (taken := self._take(_PACKED_SIZE)):
                piece = taken.lstrip(b"\0")
            if piece:
                machine = _unpacker(self.kind)
        if not machine.eof:
            raise ValueError(
                f"{self.name} must be a whole {self.kind} archive. Got one that is cut off after "
                f"{n_out:,} unpacked bytes instead. Fetch or copy it again."
            )

    def read(self, n: int) -> bytes:
        """Exactly n bytes, fewer only at the end."""
        if not self.kind:
            start, self._start = self._start[:n], self._start[n:]
            return start + self._take(n - len(start)) if len(start) < n else start
        pieces = [self._rest]
        length = len(self._rest)
        while length < n:
            piece = next(self._unpacked, None)
            if piece is None:
                break
            pieces.append(piece)
            length += len(piece)
        whole = b"".join(pieces)
        self._rest = whole[n:]
        return whole[:n]

    def close(self):
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _unpacker(kind: str):
    """An object with decompress, eof and unused_data."""
    if kind == ".gz":
        import zlib

        return zlib.decompressobj(wbits=31)
    if kind == ".bz2":
        import bz2

        return bz2.BZ2Decompressor()
    if kind == ".xz":
        import lzma

        return lzma.LZMADecompressor()
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor()
    return _zstandard().ZstdDecompressor().decompressobj()


def _wrong_data(kind: str) -> tuple:
    """What the unpacker of this kind raises on bytes that are none of its own."""
    if kind == ".gz":
        import zlib

        return (zlib.error,)
    if kind == ".bz2":
        return (OSError, ValueError)
    if kind == ".xz":
        import lzma

        return (lzma.LZMAError,)
    if sys.version_info >= (3, 14):
        from compression import zstd

        return (zstd.ZstdError,)
    return (_zstandard().ZstdError,)


def _zstandard():
    try:
        import zstandard
    except ImportError:
        raise ImportError(
            "Reading .zst files needs zstandard, which is not installed. "
            "Run: pip install 'pacsent[zstd]'"
        ) from None
    return zstandard


def read_lines(path) -> Iterator[str]:
    """Lines of a UTF-8 text file, packed or not, without their line ends; '-' is stdin.

    Only a newline (with or without a carriage return before it) ends a line.
    """
    with Source(path) as source:
        pieces: list[bytes] = []
        n_line, offset = 1, 0
        any_byte = False
        while block := source.read(1 << 20):
            any_byte = True
            first, *others = block.split(b"\n")
            pieces.append(first)
            for piece in others:
                line = b"".join(pieces)
                yield _decoded(line, source.name, offset, n_line)
                offset += len(line) + 1
                n_line += 1
                pieces = [piece]
        if not any_byte:
            raise ValueError(empty_file(source.name))
        if line := b"".join(pieces):
            yield _decoded(line, source.name, offset, n_line)


def _decoded(line: bytes, name: str, offset: int, n_line: int) -> str:
    try:
        decoded = line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(name, offset + error.start, line[error.start], n_line)) from None
    return decoded.removeprefix("\ufeff") if offset == 0 else decoded


def empty_file(name: str) -> str:
    """The message for a file without a byte in it."""
    return f"{name} must hold text. Got an empty file instead. Check how it was made."


def not_utf8(name: str, offset: int, byte: int, n_line: int | None = None) -> str:
    """The message for a byte that is no UTF-8, with its place."""
    line = "" if n_line is None else f" (line {n_line:,})"
    return (
        f"{name} must be UTF-8 text. Got the byte 0x{byte:02x} at offset {offset:,}{line} instead. "
        "Convert it first, for example with iconv -f latin1 -t utf-8"
    )


# ------------------------------------------------------------------------------------------------
# pieces of a file that can be worked on apart
# ------------------------------------------------------------------------------------------------

PIECE = 1 << 20  # bytes that one thread takes at a time


def pieces(source: Source, cut, size: int | None = None) -> Iterator[tuple[int, bytes]]:
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
    """
    end = cut_at_newline(block)
    space = len(block)
    while not end and (space := block.rfind(b" ", 0, space)) >= 0:
        if block[space + 1 : space + 2].isalnum():
            end = space + 1
    return end


# ------------------------------------------------------------------------------------------------
# work on threads
# ------------------------------------------------------------------------------------------------


def n_threads(n_jobs: int | None) -> int:
    if n_jobs is None or n_jobs == -1:
        return os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1
    if not isinstance(n_jobs, numbers.Integral) or n_jobs < 1:
        raise ValueError(
            f"n_jobs must be a positive number of threads, or None for all cores. Got {n_jobs!r} "
            "instead."
        )
    return int(n_jobs)


def in_order(function: Callable, items: Iterable, n_jobs: int | None) -> Iterator:
    """function(item) for each item, in order, on threads; few items are held at a time."""
    n = n_threads(n_jobs)
    items = iter(items)
    first = list(itertools.islice(items, 2))
    if n == 1 or len(first) < 2:  # one piece of work: no thread to start
        yield from map(function, itertools.chain(first, items))
        return
    with ThreadPoolExecutor(n) as pool:
        waiting: deque = deque()
        try:
            for item in itertools.chain(first, items):
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * n:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


# ------------------------------------------------------------------------------------------------
# cleaning files
# ------------------------------------------------------------------------------------------------

HUGE = 1 << 26  # bytes from which on a record is worked on in files, not in memory


def clean_files(
    inputs: Iterable,
    output=None,
    *,
    wiki: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> int:
    """Clean text files of any size as the paper does; the number of bytes written.

    Without `wiki`, each line is cleaned as by `clean` and stays a line. With it, the inputs are
    MediaWiki dumps, and the output is byte for byte that of the public filter the paper used
    (wikifil.pl): the visible text of all articles on one line. As there, several dumps are read one
    after the other, and an article that the end of one cuts off goes on in the next.

    Parameters
    ----------
    inputs : iterable of paths, '-' for stdin
        Plain or packed (.gz, .bz2, .xz, .zst). Any byte is fine: what is not a letter a-z or a
        digit separates words.
    output : path or None
        Written beside its place and moved there when whole; None or '-' for stdout.
    n_jobs : int or None
        Threads; None takes all cores. The bytes are the same for any number.
    verbose : bool, default=False
        Whether to show the progress on stderr.
    """
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    total = total_size(paths)
    n_written = n_before = 0
    current = None

    def sources():  # one at a time: there may be more of them than can be open
        nonlocal n_before, current
        for path in paths:
            with Source(path) as current:
                yield current
                n_before += current.consumed
        current = None

    with (
        _written(output) as write,
        progress.bar("Cleaning", total=total, unit="B", enabled=verbose) as bar,
    ):
        if wiki:
            cleaned = _clean_dumps(sources(), n_threads(n_jobs), _folder(output))
        else:
            cleaned = _clean_texts(sources(), n_threads(n_jobs))
        for piece in cleaned:
            write(piece)
            n_written += len(piece)
            bar.update(n_before + (current.consumed if current is not None else 0))
    return n_written


def _folder(output) -> str | None:
    """Where files for a while go: beside the output, as /tmp may be memory; None for /tmp."""
    if output is None or str(output) == "-" or os.path.realpath(output).startswith("/dev/"):
        return None
    return os.path.dirname(os.path.realpath(output))


@contextlib.contextmanager
def _written(output) -> Iterator[Callable]:
    """A function that writes bytes; the file is in its place when all went well."""
    if output is None or str(output) == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    output = Path(os.path.realpath(output))  # a link stays, what it points to is replaced
    if output.exists() and not output.is_file() and not output.is_dir():
        with open(output, "wb") as file:  # a device or a pipe: nothing to move there
            yield file.write
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        if output.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        file = open(partial, "wb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise type(error)(
            f"The output must be a file that can be written. Got {output} instead "
            f"({error.strerror}). Choose another place."
        ) from None
    try:
        with file:
            yield file.write
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _clean_texts(sources: Iterable[Source], n: int) -> Iterator[bytes]:
    def cleaned(piece):
        import numpy as np

        from pacsent._kernels import text as kernels

        data = np.frombuffer(piece, dtype=np.uint8)
        (out,) = _room(out=(6 * data.size + 8, np.uint8))
        return out[: kernels.clean_lines(data, out)].tobytes()

    everything = (p for source in sources for _, p in pieces(source, cut_after_letters))
    begun = False  # whether the line so far has a word: then a space comes before the next one
    for piece in in_order(cleaned, everything, n):
        if not piece:
            continue
        yield b" " + piece if begun and not piece.startswith(b"\n") else piece
        begun = not piece.endswith(b"\n")


def _clean_dumps(sources: Iterable[Source], n: int, folder: str | None = None) -> Iterator[bytes]:
    keep = False
    everything = (p for source in sources for p in _records(source, folder))
    for if_kept, anyway, state in in_order(_filtered, everything, n):
        if keep:
            yield from if_kept
        yield from anyway
        keep = keep if state < 0 else bool(state)


def _records(source: Source, folder: str | None) -> Iterator[Any]:
    """Pieces that end with a record, as bytes; a huge record as an open file and its folder."""
    held: list[bytes] = []
    n_held = n_read = 0
    while block := source.read(PIECE):
        n_read += len(block)
        end = block.rfind(b">") + 1
        if end:
            yield b"".join([*held, block[:end]])
            held, n_held = [], 0
            block = block[end:]
        if block:
            held.append(block)
            n_held += len(block)
        if n_held >= HUGE:
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by who takes it)
            file.writelines(held)
            held, n_held = [], 0
            while block := source.read(PIECE):
                end = block.find(b">") + 1
                file.write(block[:end] if end else block)
                if end:
                    break
            yield file, folder
            # what is left of this block may hold many records
            rest = block[end:] if block else b""
            end = rest.rfind(b">") + 1
            if end:
                yield rest[:end]
            if rest[end:]:
                held, n_held = [rest[end:]], len(rest) - end
    if n_read == 0:
        raise ValueError(empty_file(source.name))
    if held:
        yield b"".join(held)


def _filtered(piece) -> tuple[Iterable[bytes], Iterable[bytes], int]:
    """What comes of the first records if they are kept, of the others, and the state after them."""
    import numpy as np

    from pacsent._kernels import text as kernels

    if not isinstance(piece, bytes):
        return _filtered_file(*piece)
    data = np.frombuffer(piece, dtype=np.uint8)
    n = data.size + 2
    marks, mark, first, last, out = _room(
        marks=(n, np.int64),
        mark=(n, np.uint8),
        first=(n, np.int64),
        last=(n, np.int64),
        out=(6 * n, np.uint8),
    )
    size, n_first, state = kernels.filter_wiki(data, marks, (mark, first, last), out)
    return [out[:n_first].tobytes()], [out[n_first:size].tobytes()], state


def _filtered_file(file, folder: str | None) -> tuple[Iterable[bytes], Iterable[bytes], int]:
    """As _filtered for one huge record: all arrays lie in files, which the system may page out."""
    import numpy as np

    from pacsent._kernels import text as kernels

    stack = contextlib.ExitStack()
    stack.enter_context(file)
    file.flush()
    data = np.memmap(file, dtype=np.uint8, mode="r")
    n = data.size + 2

    def room(dtype):
        # pages that are never touched take no place on the disk either
        return np.memmap(
            stack.enter_context(tempfile.TemporaryFile(dir=folder)),
            dtype=dtype,
            mode="w+",
            shape=(n,),
        )

    marks = room(np.int64)
    items = room(np.uint8), room(np.int64), room(np.int64)
    _, n_marks = kernels.find_marks(data, 0, data.size, marks)
    end, has_text, has_end, has_redirect = kernels.look_over(data, 0, data.size, marks, n_marks)
    keep = 0 if has_redirect else 1 if has_text else -1
    if keep == 0:
        stack.close()
        return [], [], 0
    n_items = kernels.strip_markup(data, 0, end, marks, n_marks, items)

    def spelled():
        with stack:
            out = np.empty(6 * PIECE + 64, dtype=np.uint8)
            state = np.array([0, -1, 1, 0], dtype=np.int64)
            while state[0] < n_items:
                yield out[: kernels.spell_items(data, items, n_items, state, out)].tobytes()

    after = 0 if has_end else keep
    return ([], spelled(), after) if keep == 1 else (spelled(), [], after)


_scratch = threading.local()


def _room(**wanted) -> list:
    """Arrays of at least these sizes and types, one set a thread, used again and again."""
    import numpy as np

    for name, (size, dtype) in wanted.items():
        have = getattr(_scratch, name, None)
        if have is None or have.size < size:
            setattr(_scratch, name, np.empty(size, dtype=dtype))
    return [getattr(_scratch, name) for name in wanted]
