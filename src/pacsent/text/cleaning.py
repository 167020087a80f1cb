"""Cleaning text files of any size: `clean_files`, for plain text and for MediaWiki dumps."""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from pacsent import files, progress
from pacsent.text.normalise import unicode_words
from pacsent.text.reading import (
    CHUNK_BYTES,
    Source,
    cut_after_letters,
    cut_at_space,
    empty_file,
    iter_chunks,
    not_utf8,
    total_size,
)
from pacsent.threads import in_order, n_threads

HUGE = 1 << 26  # bytes from which on a record is worked on in files, not in memory


def clean_files(
    inputs: Iterable,
    output: str | os.PathLike | None = None,
    *,
    wiki: bool = False,
    normalise: str = "paper",
    n_jobs: int | None = None,
    verbose: bool = False,
    overwrite: bool = False,
) -> int:
    """Clean text files of any size, as the paper does or for any language; the bytes written.

    Without `wiki`, each line is cleaned as by `clean` and stays a line. With it, the inputs are
    MediaWiki dumps, and the output is byte for byte that of the public filter the paper used
    (wikifil.pl): the visible text of all articles on one line. As there, several dumps are read one
    after the other, and an article that the end of one cuts off goes on in the next.

    Inputs are plain or packed (.gz, .bz2, .xz, .zst), '-' is stdin. With `normalise` "paper" any
    byte is fine: what is not a letter a-z or a digit separates words. "unicode" keeps the tokens of
    `unicode_words`, of UTF-8 text in any script. The output is written next to its place and
    moved there when whole; None or '-' is stdout. The bytes are the same for any number of threads.
    """
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    if normalise not in ("paper", "unicode"):
        raise ValueError(f"normalise must be 'paper' or 'unicode'. Got {normalise!r} instead.")
    if wiki and normalise != "paper":
        raise ValueError(
            "wiki is the paper's own filter and keeps a-z only. Got normalise='unicode' with it "
            "instead. Take the text out of the dump with another program first."
        )
    files.check_output(output, paths, overwrite=overwrite)
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
        files.replacing(output) as file,
        progress.bar("Cleaning", total=total, unit="B", enabled=verbose) as bar,
    ):
        if wiki:
            # temporary files lie next to the output, as /tmp may be memory
            place = os.path.realpath(output or "")
            folder = None if files.is_stream(output) else os.path.dirname(place)
            cleaned = _clean_dumps(sources(), n_threads(n_jobs), folder)
        else:
            cleaned = _clean_texts(sources(), n_threads(n_jobs), normalise)
        for piece in cleaned:
            file.write(piece)
            n_written += len(piece)
            bar.update(n_before + (current.consumed if current is not None else 0))
        if wiki and not n_written:
            raise ValueError(
                f"{', '.join(map(str, paths[:3]))} must be a MediaWiki dump (XML with <text> "
                "elements). Got 0 articles instead. Leave out wiki=True for plain text."
            )
    return n_written


def _clean_texts(sources: Iterable[Source], n: int, normalise: str = "paper") -> Iterator[bytes]:
    cleaned, cut = _CLEANERS[normalise]
    everything = (
        (source.name, offset, piece)
        for source in sources
        for offset, piece in iter_chunks(source, cut)
    )
    begun = False  # whether the line so far has a word: then a space comes before the next one
    for piece in in_order(cleaned, everything, n):
        if not piece:
            continue
        yield b" " + piece if begun and not piece.startswith(b"\n") else piece
        begun = not piece.endswith(b"\n")


def _cleaned_paper(named: tuple[str, int, bytes]) -> bytes:
    import numpy as np

    from pacsent._kernels import text_kernels as kernels

    data = np.frombuffer(named[2], dtype=np.uint8)
    (out,) = _arrays(out=(6 * data.size + 8, np.uint8))
    return out[: kernels.clean_lines(data, out)].tobytes()


def _cleaned_unicode(named: tuple[str, int, bytes]) -> bytes:
    name, offset, piece = named
    try:
        text = piece.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(name, offset + error.start, piece[error.start])) from None
    lines = text.split("\n")
    return "\n".join(" ".join(unicode_words(line)) for line in lines).encode()


_CLEANERS = {
    "paper": (_cleaned_paper, cut_after_letters),
    "unicode": (_cleaned_unicode, cut_at_space),
}


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
    while block := source.read(CHUNK_BYTES):
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
            while block := source.read(CHUNK_BYTES):
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

    from pacsent._kernels import text_kernels as kernels

    if not isinstance(piece, bytes):
        return _filtered_file(*piece)
    data = np.frombuffer(piece, dtype=np.uint8)
    n = data.size + 2
    long, short = (n, np.int64), (n, np.uint8)
    marks, mark, first, last, out = _arrays(
        marks=long, mark=short, first=long, last=long, out=(6 * n, np.uint8)
    )
    size, n_first, state = kernels.filter_wiki(data, marks, (mark, first, last), out)
    return [out[:n_first].tobytes()], [out[n_first:size].tobytes()], state


def _filtered_file(file, folder: str | None) -> tuple[Iterable[bytes], Iterable[bytes], int]:
    """As _filtered for one huge record: all arrays lie in files, which the system may page out."""
    import numpy as np

    from pacsent._kernels import text_kernels as kernels

    stack = contextlib.ExitStack()
    stack.enter_context(file)
    file.flush()
    data = np.memmap(file, dtype=np.uint8, mode="r")
    n = data.size + 2

    def scratch(dtype):
        # pages that are never touched take no place on the disk either
        place = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
        return np.memmap(place, dtype=dtype, mode="w+", shape=(n,))

    marks = scratch(np.int64)
    items = scratch(np.uint8), scratch(np.int64), scratch(np.int64)
    _, n_marks = kernels.find_marks(data, 0, data.size, marks)
    end, has_text, has_end, has_redirect = kernels.look_over(data, 0, data.size, marks, n_marks)
    keep = 0 if has_redirect else 1 if has_text else -1
    if keep == 0:
        stack.close()
        return [], [], 0
    n_items = kernels.strip_markup(data, 0, end, marks, n_marks, items)

    def spelled():
        with stack:
            out = np.empty(6 * CHUNK_BYTES + 64, dtype=np.uint8)
            state = np.array([0, -1, 1, 0], dtype=np.int64)
            while state[0] < n_items:
                yield out[: kernels.spell_items(data, items, n_items, state, out)].tobytes()

    after = 0 if has_end else keep
    return ([], spelled(), after) if keep == 1 else (spelled(), [], after)


_scratch = threading.local()


def _arrays(**wanted) -> list:
    """Arrays of at least these sizes and types, one set a thread, used again and again."""
    import numpy as np

    for name, (size, dtype) in wanted.items():
        have = getattr(_scratch, name, None)
        if have is None or have.size < size:
            setattr(_scratch, name, np.empty(size, dtype=dtype))
    return [getattr(_scratch, name) for name in wanted]
