"""Counting words and building a corpus from many shards: map and reduce, exact, resumable.

Map: every shard is turned into its own words, counts and ids (a `Corpus` with min_count=1), in a
process of its own; one that is finished is not read again. Reduce: the sorted counts of all shards
are merged as streams, so that only the words which stay (`min_count`) are ever held. Map: the ids
of every shard become those of the common vocabulary; the first ones are deleted as they are done,
so the disk never holds the ids twice.
"""

import contextlib
import hashlib
import heapq
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent import progress
from pacsent.files import replacing
from pacsent.scale import places
from pacsent.scale.shard_runner import locally
from pacsent.text.normalise import choose_normalise
from pacsent.text.tables import TextTable, listed
from pacsent.words.corpus import Corpus
from pacsent.words.vocabulary import Vocabulary, digest_of, raw_bytes

logger = logging.getLogger(__name__)
_OPEN_AT_ONCE = 200  # files of counts that are merged in one go
_SAMPLED_SHARDS, _SAMPLED_TEXTS, _SAMPLED_CHARACTERS = 32, 1000, 1 << 16  # to choose `normalise`
_SLAB = 1 << 22  # ids renumbered at a time


class Counts(NamedTuple):
    """Words and counts, most frequent first, and what was left out.

    >>> Counts(["a", "b"], np.array([2, 1]), 0).words
    ['a', 'b']
    """

    words: list[str]
    counts: np.ndarray
    n_unknown: int


class _Map(NamedTuple):
    """A shard to be counted; travels to the process that does it."""

    shard: places.Shard
    folder: str
    column: str
    normalise: str
    n_threads: int = 1
    on_gpu: bool = False

    def work(self, advance: Callable[[int], None] = lambda n: None) -> int:
        """Its words, counts and ids, as a folder; the number of its documents."""
        plain = self.shard.kind == "text" and not places.is_address(self.shard.source)
        source = Path(places.local(self.shard.source)) if plain else self._texts()
        corpus = Corpus.build(
            source, self.folder, 1, self.normalise, n_jobs=self.n_threads, overwrite=True
        )
        _write_sorted(Path(self.folder))
        with replacing(f"{self.folder}.json") as file:  # last: the shard is finished
            file.write(json.dumps(self.version()).encode())
        advance(corpus.n_documents)
        return corpus.n_documents

    def _texts(self) -> Iterator[str]:
        source, kind = self.shard.source, self.shard.kind
        column = None if kind == "text" else self.column
        with (
            places.opened(source) as file,
            TextTable(source, file=file, kind=kind, text_column=column) as table,
        ):
            for some in table.batches():
                yield from listed(some.texts)

    def version(self) -> list:
        return [self.shard.source, self.shard.size, self.shard.version, self.normalise, self.column]

    def is_finished(self) -> bool:
        raw = places.read_bytes(f"{self.folder}.json")
        return raw is not None and json.loads(raw) == self.version()


class _Renumber(NamedTuple):
    """A shard whose ids become those of the common vocabulary."""

    folder: str
    vocabulary: str  # vocabulary.tsv
    normalise: str
    n_threads: int = 1
    on_gpu: bool = False

    def work(self, advance: Callable[[int], None] = lambda n: None) -> tuple[int, int]:
        """(tokens, documents) of the shard; its ids and offsets as files next to its folder."""
        done = Path(f"{self.folder}.done")
        if done.exists():
            return tuple(json.loads(done.read_text()))
        from pacsent._kernels import text_kernels as kernels

        part = Corpus.open(self.folder)
        common = _read_vocabulary(self.vocabulary, self.normalise)
        final = common.table.ids_of(*part.vocabulary.table.arrays)
        ends = np.asarray(part.offsets[1:])
        n_tokens = n_done = 0
        with (
            replacing(f"{self.folder}.i32") as ids_file,
            replacing(f"{self.folder}.i64") as ends_file,
        ):
            for start in range(0, max(1, part.n_tokens), _SLAB):
                ids = np.array(part.ids[start : start + _SLAB], dtype=np.int32)
                stop = np.searchsorted(ends, start + ids.size, side="right")
                some = ends[n_done:stop] - start
                n_done = int(stop)
                n = kernels.renumber(ids, some, final)
                ids_file.write(raw_bytes(ids[:n], "<i4"))
                ends_file.write(raw_bytes(some + n_tokens, "<i8"))
                n_tokens += int(n)
        with replacing(done) as file:
            file.write(json.dumps([n_tokens, part.n_documents]).encode())
        shutil.rmtree(self.folder)
        advance(part.n_documents)
        return n_tokens, part.n_documents


def _write_sorted(folder: Path) -> None:
    """counts.tsv: words by their bytes, so that shards can be merged as streams."""
    lines = (folder / "vocabulary.tsv").read_bytes().split(b"\n")[:-1]
    pairs = sorted(line.rpartition(b"\t")[::2] for line in lines)
    with open(folder / "counts.tsv", "wb") as file:
        file.writelines(b"%s\t%s\n" % pair for pair in pairs)


def _stream(path: Path) -> Iterator[tuple[bytes, int]]:
    with open(path, "rb") as file:
        for line in file:
            word, _, count = line.rpartition(b"\t")
            yield word, int(count)


def _merged(paths: list[Path]) -> Iterator[tuple[bytes, int]]:
    """Words in the order of their bytes, with the sums of their counts."""
    merged = heapq.merge(*map(_stream, paths))
    for word, group in groupby(merged, key=lambda pair: pair[0]):
        yield word, sum(count for _, count in group)


def _reduce(paths: list[Path], folder: Path, min_count: int) -> tuple[list[bytes], list[int], int]:
    """Words that occur at least min_count times, most frequent first, and the tokens of others."""
    level = 0
    while len(paths) > _OPEN_AT_ONCE:
        groups = [paths[i : i + _OPEN_AT_ONCE] for i in range(0, len(paths), _OPEN_AT_ONCE)]
        paths = []
        for number, group in enumerate(groups):
            paths.append(folder / f"counts-{level}-{number}.tsv")
            with open(paths[-1], "wb") as file:
                file.writelines(b"%s\t%d\n" % pair for pair in _merged(group))
        level += 1
    kept, n_unknown = [], 0
    for word, count in _merged(paths):
        if count >= min_count:
            kept.append((-count, word))
        else:
            n_unknown += count
    kept.sort()
    for path in folder.glob("counts-*-*.tsv"):
        path.unlink()
    return [word for _, word in kept], [-count for count, _ in kept], n_unknown


def _read_vocabulary(path, normalise) -> Vocabulary:
    pairs = [line.rpartition(b"\t")[::2] for line in Path(path).read_bytes().split(b"\n")[:-1]]
    words = [word.decode("utf-8", "surrogatepass") for word, _ in pairs]
    return Vocabulary(words, [int(count) for _, count in pairs], normalise=normalise)


def _mapped(sources, folder: Path, settings, how) -> tuple[list[_Map], str | None]:
    """Step 1 for all shards that are not finished, and how `normalise` was chosen, if it was."""
    column, normalise = settings
    found, chosen = places.find(sources), None
    if normalise == "auto":
        normalise, chosen = choose_normalise(_beginnings(found.shards, column))
        logger.info(chosen)
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    tasks = [
        _Map(shard, str(parts / f"{number:06}"), column, normalise)
        for number, shard in enumerate(found.shards)
    ]
    todo = [task for task in tasks if not task.is_finished()]
    if todo and (folder / "vocabulary.tsv").exists():
        raise ValueError(
            f"{todo[0].shard.source} was added or changed after the words of {folder} were "
            "counted. Delete the folder and build it again, or choose another."
        )
    todo.sort(key=lambda task: -task.shard.size)
    _all(todo, "Counting words", *how)
    return tasks, chosen


def _beginnings(shards, column) -> str:
    """Some text of some of the shards; one that cannot be read is named when it is counted."""
    found = []
    for shard in shards[:: -(-len(shards) // _SAMPLED_SHARDS) or 1]:
        with contextlib.suppress(OSError, ValueError, EOFError):
            texts = islice(_Map(shard, "", column, "")._texts(), _SAMPLED_TEXTS)
            found.append(" ".join(text for text in texts if text)[:_SAMPLED_CHARACTERS])
    return " ".join(found)


def _all(tasks, what: str, n_jobs, verbose: bool, engine) -> dict:
    """Results by folder; the first error, once everything else is done."""
    found, errors = {}, []
    with progress.bar(what, unit="documents", enabled=verbose) as shown:
        for task, result in (engine or locally)(tasks, n_jobs, shown):
            if isinstance(result, BaseException):
                errors.append(f"{getattr(task, 'shard', task)}: {result}")
            found[task.folder] = result
    if errors:
        raise ValueError(
            f"{len(errors):,} of {len(tasks):,} shards could not be read, and a corpus must be "
            f"whole. The first: {errors[0]} Mend them and call again; the others are finished."
        )
    return found


def count_words(
    sources: Iterable,
    folder: str | os.PathLike,
    *,
    min_count: int = 1,
    text_column: str = "text",
    normalise: str = "auto",
    n_jobs: int | None = None,
    verbose: bool = False,
    engine: Callable | None = None,
) -> Counts:
    """Count the words of many shards, exactly.

    `sources` are as in `embed_shards`. `folder` keeps the shards' own counts and ids;
    `build_corpus` goes on from them. Words that occur less often than `min_count` in all shards
    together are left out. `engine` is where the shards are counted: `on_ray()`, say; None takes the
    cores of this machine.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in (("a.txt", "a b b"), ("b.txt", "b c")):
    ...     _ = (folder / name).write_text(text)
    >>> count_words([folder], folder / "counts", min_count=2, n_jobs=1).words
    ['b']
    """
    folder = Path(folder)
    tasks, _ = _mapped(sources, folder, (text_column, normalise), (n_jobs, verbose, engine))
    paths = [Path(task.folder) / "counts.tsv" for task in tasks]
    words, counts, n_unknown = _reduce(paths, folder, min_count)
    decoded = [word.decode("utf-8", "surrogatepass") for word in words]
    return Counts(decoded, np.array(counts, dtype=np.int64), n_unknown)


def build_corpus(
    sources: Iterable,
    folder: str | os.PathLike,
    *,
    min_count: int = 5,
    text_column: str = "text",
    normalise: str = "auto",
    n_jobs: int | None = None,
    verbose: bool = False,
    engine: Callable | None = None,
) -> Corpus:
    """A corpus of many shards, built on all cores; call again to go on where it stopped.

    It has the vocabulary, ids, offsets and digest that `Corpus.build` gives for the shards in their
    order; rows and lines are documents. `sources` and `engine` are as in `count_words`, `min_count`
    and `normalise` as in `Corpus.build`. A folder `parts` in `folder`, which may be a link to
    another disk, holds a file of ids for each shard.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in (("a.txt", "a b b"), ("b.txt", "b c")):
    ...     _ = (folder / name).write_text(text)
    >>> corpus = build_corpus([folder / "*.txt"], folder / "corpus", min_count=1, n_jobs=1)
    >>> corpus.n_tokens, corpus.n_documents
    (5, 2)
    """
    folder = Path(folder)
    if (folder / "corpus.json").exists():
        raise FileExistsError(f"{folder} holds a corpus. Open it with Corpus.open, or delete it.")
    tasks, chosen = _mapped(sources, folder, (text_column, normalise), (n_jobs, verbose, engine))
    common = folder / "vocabulary.tsv"
    if not common.exists():  # step 3 has not begun: every shard still has its own words
        paths = [Path(task.folder) / "counts.tsv" for task in tasks]
        words, counts, n_unknown = _reduce(paths, folder, min_count)
        if not words:
            raise ValueError(
                f"No word occurs at least min_count={min_count} times in these shards, so the "
                "vocabulary would be empty. Lower min_count or take more text."
            )
        with replacing(folder / "reduced.json") as file:
            file.write(json.dumps({"n_unknown": n_unknown, "min_count": min_count}).encode())
        with replacing(common) as file:
            file.writelines(b"%s\t%d\n" % pair for pair in zip(words, counts))
    reduced = json.loads((folder / "reduced.json").read_text())
    if reduced["min_count"] != min_count:
        raise ValueError(
            f"{folder} was begun with min_count={reduced['min_count']}. Got {min_count} instead. "
            "Go on with the same, or choose another folder."
        )
    renumber = [_Renumber(task.folder, str(common), task.normalise) for task in tasks]
    sizes = _all(renumber, "Writing ids", n_jobs, verbose, engine)
    normalised = {"normalise": tasks[0].normalise, "chosen": chosen}
    _finish(folder, [Path(task.folder) for task in tasks], sizes, reduced | normalised)
    return Corpus.open(folder)


def _finish(folder: Path, parts: list[Path], sizes: dict, reduced: dict) -> None:
    """offsets.i64 of all shards, the digest, corpus.json; then what was between is deleted."""
    vocabulary = _read_vocabulary(folder / "vocabulary.tsv", reduced["normalise"])
    of_ids = hashlib.sha256()
    n_tokens = n_documents = 0
    with replacing(folder / "offsets.i64") as file:
        file.write(np.zeros(1, "<i8").data)
        for part in parts:
            ends = np.fromfile(f"{part}.i64", "<i8")
            file.write(raw_bytes(ends + n_tokens, "<i8"))
            n_documents += ends.size
            n_tokens += sizes[str(part)][0]
            with open(f"{part}.i32", "rb") as ids_file:
                while block := ids_file.read(1 << 24):
                    of_ids.update(block)
    offsets = np.memmap(folder / "offsets.i64", dtype="<i8", mode="r")
    about = {
        "format_version": 1,
        "n_documents": n_documents,
        "n_words": len(vocabulary),
        "n_tokens": n_tokens,
        **reduced,
        "digest": digest_of(vocabulary, of_ids, offsets),
        "ids": [[f"parts/{part.name}.i32", sizes[str(part)][0]] for part in parts],
    }
    with replacing(folder / "corpus.json") as file:
        file.write((json.dumps(about, indent=1) + "\n").encode())
    (folder / "reduced.json").unlink(missing_ok=True)
    for part in parts:
        for suffix in (".i64", ".done", ".json"):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
