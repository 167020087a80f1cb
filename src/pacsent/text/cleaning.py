"""Cleaning text files of any size: `clean_files`, for plain text and for MediaWiki dumps."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from joblib import Parallel, delayed

from pacsent import files, progress
from pacsent.kernels.text import DIGIT_NAMES
from pacsent.text import reading
from pacsent.text.normalize import unicode_words
from pacsent.text.wikifil import RECORD, remove_markup
from pacsent.threads import n_threads

_REDIRECT = re.compile(rb"(?i)#redirect")
_NOT_LETTERS = re.compile(rb"[^a-z]+")
_NOT_LETTERS_OF_LINE = re.compile(rb"[^a-z\n]+")
_LINE_END = re.compile(rb" ?\n ?")
_DIGITS = [(b"%d" % digit, f" {name} ".encode()) for digit, name in enumerate(DIGIT_NAMES)]


def clean_files(
    inputs: Iterable,
    output: str | os.PathLike | None = None,
    *,
    wiki: bool = False,
    normalize: str = "paper",
    n_jobs: int | None = None,
    verbose: bool = False,
    overwrite: bool = False,
) -> int:
    """Clean text files of any size, as Nozawa and Sato do or for any language.

    With `wiki` the inputs are MediaWiki dumps, and the output is byte for byte that of wikifil.pl:
    the visible text of all articles on one line. Otherwise each line is cleaned as by `clean`, or
    with normalize="unicode" keeps the tokens of `unicode_words`, and stays a line.

    Parameters
    ----------
    inputs : path or iterable of paths
        Plain or compressed files (.gz, .bz2, .xz, .zst), or '-' for stdin.
    output : path, optional
        The file appears at its place when it is complete; None or '-' is stdout.
    wiki : bool, default=False
        The inputs are MediaWiki dumps.
    normalize : {"paper", "unicode"}, default="paper"
        Letters a-z and spelled digits, or words of any language.
    n_jobs : int, optional
        Number of processes, by default one for each processor. The output is the same for any
        number.
    verbose : bool, default=False
        Show the progress on stderr.
    overwrite : bool, default=False
        Replace an output that exists.

    Returns
    -------
    int
        Number of bytes written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "raw.txt").write_text("Route 66, anyone?\\n")
    >>> _ = clean_files(folder / "raw.txt", folder / "clean.txt")
    >>> (folder / "clean.txt").read_text().strip()
    'route six six anyone'
    """
    paths = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    if normalize not in ("paper", "unicode"):
        raise ValueError(f"normalize must be 'paper' or 'unicode'. Got {normalize!r} instead.")
    if wiki and normalize != "paper":
        raise ValueError(
            "wiki is the paper's own filter and keeps a-z only. Got normalize='unicode' with it "
            "instead. Take the text out of the dump with another program first."
        )
    files.check_output(output, paths, overwrite=overwrite)
    total = reading.total_size(paths)

    n_written = 0
    n_before = 0  # bytes of the sources that were read to their end
    current: reading.Source | None = None

    def sources() -> Iterator[reading.Source]:
        """Open one source at a time: there may be more of them than can be open."""
        nonlocal n_before, current
        for path in paths:
            with reading.Source(path) as current:
                yield current
                n_before += current.consumed
        current = None

    with (
        files.replacing(output) as file,
        progress.bar("Cleaning", total=total, unit="B", enabled=verbose) as bar,
    ):
        n_processes = n_threads(n_jobs)
        if wiki:
            parts = _clean_dumps(sources(), n_processes)
        else:
            parts = _clean_texts(sources(), n_processes, normalize)

        for part in parts:
            file.write(part)
            n_written += len(part)
            n_consumed = current.consumed if current is not None else 0
            bar.update(n_before + n_consumed)

        if wiki and not n_written:
            raise ValueError(
                f"{', '.join(map(str, paths[:3]))} must be a MediaWiki dump (XML with <text> "
                "elements). Got 0 articles instead. Leave out wiki=True for plain text."
            )
    return n_written


def _map_processes(function: Callable, arguments: Iterable[tuple], n_jobs: int) -> Iterator[Any]:
    following = iter(arguments)
    first = list(islice(following, 2))
    all_arguments = chain(first, following)

    # One chunk does not pay for the start of processes.
    if n_jobs == 1 or len(first) < 2:
        yield from (function(*args) for args in all_arguments)
        return

    with Parallel(n_jobs) as parallel:
        while batch := list(islice(all_arguments, 8 * n_jobs)):
            yield from parallel(delayed(function)(*args) for args in batch)


def _clean_texts(sources: Iterable[reading.Source], n_jobs: int, normalize: str) -> Iterator[bytes]:
    cut = reading.cut_after_letters if normalize == "paper" else reading.cut_at_space
    chunks = (
        (source.name, offset, chunk, normalize)
        for source in sources
        for offset, chunk in reading.iter_chunks(source, cut)
    )
    has_word = False  # whether the line so far has a word: then a space comes before the next one
    for chunk in _map_processes(_clean_chunk, chunks, n_jobs):
        if not chunk:
            continue
        if has_word and not chunk.startswith(b"\n"):
            chunk = b" " + chunk
        yield chunk
        has_word = not chunk.endswith(b"\n")


def _clean_chunk(name: str, offset: int, chunk: bytes, normalize: str) -> bytes:
    if normalize == "paper":
        spelled = _spell_digits(chunk.lower())
        words = _NOT_LETTERS_OF_LINE.sub(b" ", spelled)
        return _LINE_END.sub(b"\n", words).strip(b" ")

    try:
        text = chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        position = offset + error.start
        raise ValueError(reading.not_utf8(name, position, chunk[error.start])) from None

    lines = [" ".join(unicode_words(line)) for line in text.split("\n")]
    return "\n".join(lines).encode()


def _spell_digits(text: bytes) -> bytes:
    for digit, name in _DIGITS:
        text = text.replace(digit, name)
    return text


def _clean_dumps(sources: Iterable[reading.Source], n_jobs: int) -> Iterator[bytes]:
    """Yield the text of articles: of the records, which end with '>', from <text to </text>."""

    def cut_after_record(block: bytes) -> int:
        return block.rfind(b">") + 1

    def article_records() -> Iterator[tuple[list[bytes]]]:
        is_article = False
        for source in sources:
            for _, chunk in reading.iter_chunks(source, cut_after_record):
                records = []
                for record in RECORD.findall(chunk):
                    is_article |= b"<text " in record
                    if _REDIRECT.search(record):
                        is_article = False
                    if is_article:
                        records.append(record)
                        is_article = b"</text>" not in record
                yield (records,)

    return _map_processes(_filter_wiki, article_records(), n_jobs)


def _filter_wiki(records: list[bytes]) -> bytes:
    texts = []
    for record in records:
        text = remove_markup(record)
        spelled = _spell_digits(text.lower())
        words = _NOT_LETTERS.sub(b" ", b" " + spelled + b" ")
        texts.append(words[:-1])  # the next one begins with a space
    return b"".join(texts)
