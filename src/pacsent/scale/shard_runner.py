"""From files to files: one output for each input, whole or not at all, and a manifest of them all.

Every core works on a file of its own, in a process that opens the model memory-mapped; where there
are fewer files than cores, several threads share a file. Memory does not grow with the number of
rows. A run that was stopped can be resumed: files that are in the manifest and did not change are
not read again.
"""

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pacsent
from pacsent import progress, threads
from pacsent.files import check_output
from pacsent.scale import places
from pacsent.scale.jobs import Embed, Predict
from pacsent.scale.places import Shard
from pacsent.scale.shard_writer import FORMATS, Record, ShardTask, Stopped

MANIFEST = "manifest.json"
_SAVE_EVERY = 2.0  # seconds between two writings of the manifest


def embed_shards(
    model: Any,
    sources: Iterable,
    target: Any,
    *,
    text_column: str | None = None,
    keep_columns: Iterable[str] = (),
    method: str | None = None,
    params: dict | None = None,
    encoder: str | None = None,
    **how: Any,
) -> "Manifest":
    """Turn the texts of many files into vectors, one output file for each input file.

    Parameters
    ----------
    model : str or path
        A folder that `pacsent.save` wrote, or "english".
    sources : iterable of str or path
        Files, folders and globs, on this machine or at an address that fsspec reaches (s3://,
        gs://, hf://). Parquet, JSON lines, CSV and TSV with a header, lines of text; all but
        Parquet may be compressed (.gz, .bz2, .xz, .zst).
    target : str or path
        The folder that gets an output for each input, and manifest.json. For one input also the
        name of the output file, ending in .parquet, .jsonl, .csv or .tsv, without a manifest.
    text_column : str, optional
        By default `text`, or the only column of a table that has one.
    keep_columns : iterable of str
        Extra columns of the input that the output has as well; ["*"] for all. A column that has
        the name of a result is renamed (`mean` becomes `input_mean`), and a warning says so.
    method, params, encoder
        As of `scale.Embed`.
    **how
        Further arguments of `run`: format, on_error, n_jobs, overwrite, verbose.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("a glass of wine\\nsome beer\\n")
    >>> manifest = embed_shards("english", [folder / "a.txt"], folder / "vectors")
    >>> manifest.totals()["rows"], manifest.totals()["failed"]
    (2, 0)
    """
    job = Embed(_place(model), method, dict(params or {}), encoder)
    return run(job, sources, target, text_column=text_column, keep_columns=keep_columns, **how)


def predict_shards(
    model: Any,
    sources: Iterable,
    target: Any,
    *,
    text_column: str | None = None,
    keep_columns: Iterable[str] = (),
    error: float | None = None,
    delta: float = 0.05,
    encoder: str | None = None,
    **how: Any,
) -> "Manifest":
    """Classify the texts of many files; the arguments are those of `embed_shards` and `Predict`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pacsent import TextClassifier, save
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> classifier = TextClassifier().fit(["red wine", "some beer"] * 10, ["wine", "beer"] * 10)
    >>> _ = save(classifier, folder / "model")
    >>> _ = (folder / "a.txt").write_text("a glass of wine\\nmore beer\\n")
    >>> manifest = predict_shards(folder / "model", [folder / "a.txt"], folder / "answers")
    >>> manifest.totals()["rows"], manifest.totals()["failed"]
    (2, 0)
    """
    job = Predict(_place(model), error, delta, encoder)
    return run(job, sources, target, text_column=text_column, keep_columns=keep_columns, **how)


def _place(model) -> str:
    """The name of a model, which other processes open."""
    if not isinstance(model, str | os.PathLike):
        raise TypeError(
            f"model must be a name, a folder or a URL, which other processes open. Got "
            f"{type(model).__name__} instead. Save it: pacsent.save(as_encoder(model), folder)."
        )
    return os.fspath(model)


def run(
    job: Embed | Predict,
    sources: Iterable,
    target: Any,
    *,
    text_column: str | None = None,
    keep_columns: Iterable[str] = (),
    format: str | None = None,
    on_error: str = "report",
    n_jobs: int | None = None,
    overwrite: bool = False,
    verbose: bool = False,
    engine: Callable | None = None,
) -> "Manifest":
    """Work on all files that are not finished yet; the manifest.

    `format` is "parquet", "jsonl", "csv" or "tsv"; None takes the suffix of a target that is a
    file, and "parquet" for a folder. `on_error` "report" gives a bad row its place with an empty
    text, and a bad file no output; the manifest names both, and the others are processed. With
    "stop" the first one ends the run. `overwrite` replaces outputs that another model or other
    settings have made. `engine` runs the tasks instead of the cores of this machine: `on_ray()`.
    """
    suffix = os.path.splitext(str(target))[1].lower().removeprefix(".")
    one_file = suffix in FORMATS and not os.path.isdir(places.local(target))
    format = format or (suffix if one_file else "parquet")
    _check_choice("format", format, FORMATS)
    _check_choice("on_error", on_error, ("report", "stop"))
    sources = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    keep_columns = (keep_columns,) if isinstance(keep_columns, str) else tuple(keep_columns)
    found = places.find(sources)
    _check_apart([*sources, job.model], found.shards, target)
    about = {**job.settings(), "columns": [text_column, *keep_columns], "format": format}
    if one_file:
        _check_choice("format", format, (suffix,))
        manifest = Manifest.of_one(target, about, found, overwrite=overwrite)
    else:
        manifest = Manifest.at(target, about, overwrite=overwrite)
    manifest.begin(found)
    todo = [shard for shard in found.shards if not manifest.is_finished(shard, format)]
    todo.sort(key=lambda shard: -shard.size)  # a large file that begins last is waited for
    if todo:
        job.check()
        manifest.save()  # before any output: a run that is killed can be resumed
    settings = (format, text_column, keep_columns, on_error, 1)
    tasks = [ShardTask(job, shard, manifest.output_of(shard, format), *settings) for shard in todo]
    n_done = len(found.shards) - len(todo)
    with progress.bar(job.command, unit="texts", enabled=verbose) as shown:
        try:
            for task, result in (engine or locally)(tasks, n_jobs, shown):
                n_done += 1
                manifest.add(task.shard, result)
                shown.update(shown.completed, f"{n_done:,} of {len(found.shards):,} files")
                if isinstance(result, BaseException) and on_error == "stop":
                    if isinstance(result, Stopped):
                        raise result
                    raise Stopped(f"{task.shard.source}: {result}")
        finally:
            manifest.save()
    return manifest


def _check_choice(name, value, known) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}. Got {value!r} instead.")


def _check_apart(sources, shards: list[Shard], target) -> None:
    """The target must not be among what is read, or the next run would read its own output."""
    if places.is_address(target):
        here = [str(s).rstrip("/") for s in sources if places.is_address(s)]
        inside = any((str(target).rstrip("/") + "/").startswith(s + "/") for s in here)
    else:
        place = os.path.realpath(places.local(target)) + os.sep
        inside = any(
            os.path.realpath(places.local(shard.source)).startswith(place)
            for shard in shards
            if not places.is_address(shard.source)
        ) or any(
            os.path.isdir(places.local(source))
            and place.startswith(os.path.realpath(places.local(source)) + os.sep)
            for source in sources
            if not places.is_address(source)
        )
    if inside:
        raise ValueError(
            f"The target must be outside of the sources, which are never overwritten. Got "
            f"{target} instead. Choose another folder."
        )


# ---- the manifest --------------------------------------------------------------------------------


class Manifest:
    """The contents of a target: of each file its source, checksum, counts, coverage and bad rows.

    Attributes
    ----------
    path : str or None
        manifest.json in the target; None where the target is a file.
    settings : dict
        The model and everything else that the outputs depend on.
    files, failed : dict
        Finished files by their name (Record); source to error, for files without an output.
    ignored : list of str
        Files in the sources whose format is not supported.

    Examples
    --------
    >>> Manifest("vectors/", {}).totals()["rows"]
    0
    """

    def __init__(self, target: Any, settings: dict):
        self.target, self.settings = str(target), settings
        self.path: str | None = places.join(target, MANIFEST)
        self.files: dict[str, Record] = {}
        self.failed: dict[str, str] = {}
        self.ignored: list[str] = []
        self._saved_at = 0.0

    @classmethod
    def of_one(
        cls, target: Any, settings: dict, found: places.Found, *, overwrite: bool
    ) -> "Manifest":
        """For a target that is a file: only that file is written."""
        if len(found.shards) != 1:
            raise ValueError(
                f"The target of {len(found.shards):,} files must be a folder, which gets an output "
                f"for each. Got the file {target} instead. Name a folder."
            )
        if not places.is_address(target):
            check_output(places.local(target), [found.shards[0].source], overwrite=overwrite)
        elif not overwrite and places.size_of(target) is not None:
            raise FileExistsError(
                f"{target} exists. Choose another name, or pass overwrite=True to replace it."
            )
        manifest = cls(target, settings)
        manifest.path = None
        return manifest

    @classmethod
    def at(cls, target: Any, settings: dict, *, overwrite: bool = False) -> "Manifest":
        """The manifest of a target that an earlier run left, or a new one."""
        manifest = cls(target, json.loads(json.dumps(settings)))
        raw = places.read_bytes(manifest.path)
        if raw is None:
            places.check_free(target, overwrite)
            return manifest
        try:
            known = json.loads(raw)
            files = {name: Record(**record) for name, record in known["files"].items()}
            before = known["settings"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{manifest.path} must be the manifest of an earlier run. Got something else "
                "instead. Choose another target."
            ) from None
        if before == manifest.settings:
            manifest.files = files
        elif not overwrite:
            other = [k for k in manifest.settings if before.get(k) != manifest.settings[k]]
            raise ValueError(
                f"{target} was made with another {', '.join(other)}. Choose another target, or "
                "pass overwrite=True to replace it."
            )
        return manifest

    def begin(self, found: places.Found) -> None:
        """Forget files that are no longer among the sources."""
        names = {shard.name for shard in found.shards}
        self.files = {name: record for name, record in self.files.items() if name in names}
        self.ignored = found.ignored

    def output_of(self, shard: Shard, format: str) -> str:
        if self.path is None:
            return self.target
        return places.join(self.target, f"{shard.name}.{format}")

    def is_finished(self, shard: Shard, format: str) -> bool:
        """Whether the output is there, whole, and of the file as it is now."""
        record = self.files.get(shard.name)
        if record is None:
            return False
        same = (record.source, record.size, record.version) == (
            shard.source, shard.size, shard.version,
        )  # fmt: skip
        if same and places.size_of(self.output_of(shard, format)) == record.bytes:
            return True
        del self.files[shard.name]
        return False

    def add(self, shard: Shard, result: "Record | BaseException") -> None:
        """A file that is finished, or failed."""
        if isinstance(result, Record):
            self.files[shard.name] = result
        else:
            self.failed[shard.source] = str(result) or type(result).__name__
        if time.monotonic() - self._saved_at > _SAVE_EVERY:
            self.save()

    def totals(self) -> dict[str, Any]:
        """Sums over all files."""
        found: dict[str, Any] = {"files": len(self.files), "failed": len(self.failed)}
        for name in ("rows", "empty", "bad_rows", "known", "unknown", "bytes"):
            found[name] = sum(getattr(record, name) for record in self.files.values())
        n = found["known"] + found["unknown"]
        found["coverage"] = round(found["known"] / n, 6) if n else None
        return found

    def save(self) -> None:
        """Write it to a temporary file that is then moved to its place."""
        if self.path is None:
            return
        files = {name: asdict(record) for name, record in sorted(self.files.items())}
        about = {
            "pacsent": pacsent.__version__,
            "settings": self.settings,
            "totals": self.totals(),
            "failed": self.failed,
            "ignored": self.ignored,
            "files": files,
        }
        with places.whole_file(self.path) as file:
            file.write(json.dumps(about, indent=1).encode())
        self._saved_at = time.monotonic()


# ---- the cores of this machine -------------------------------------------------------------------

_COUNTER: Any = None  # texts processed by all processes together


def locally(tasks: list, n_jobs: int | None, shown: Any) -> Iterator[tuple]:
    """(task, what `task.work` returned, or its error) for each, as they are finished."""
    n_cores = threads.n_threads(n_jobs)
    n_workers = max(1, min(n_cores, len(tasks)))
    tasks = [task._replace(n_threads=max(1, n_cores // n_workers)) for task in tasks]
    if n_workers == 1:
        for task in tasks:
            yield task, outcome(task, shown.advance)
        return
    waiting = list(reversed(tasks))
    while waiting:
        suspects: list[ShardTask] = []
        with _pool(n_workers) as (pool, counter):
            yield from _in_pool(pool, counter, n_workers, waiting, suspects, shown)
        for task in suspects:  # one of these ended its process: each is tried again alone
            with _pool(1) as (pool, _):
                future = pool.submit(_in_process, task)
                try:
                    yield task, future.result()
                except BrokenProcessPool:
                    yield task, RuntimeError("the process that worked on it was killed")


def _in_pool(pool, counter, n_workers, waiting, suspects, shown) -> Iterator[tuple]:
    """Work until all is done or a process dies; the tasks it may have had are in `suspects`."""
    running: dict[Future, ShardTask] = {}
    before = shown.completed
    while waiting or running:
        while waiting and len(running) < n_workers + 1:
            try:
                running[pool.submit(_in_process, waiting[-1])] = waiting[-1]
            except BrokenProcessPool:
                break
            waiting.pop()
        done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        shown.update(before + counter.value)
        for future in done:
            task = running.pop(future)
            try:
                yield task, future.result()
            except BrokenProcessPool:
                suspects.append(task)
        if suspects:
            suspects += running.values()
            return


@contextmanager
def _pool(n_workers: int):
    context = multiprocessing.get_context("spawn")
    counter, stopping = context.Value("q", 0), context.Event()
    given = (counter, stopping, os.getpid())
    pool = ProcessPoolExecutor(
        n_workers, mp_context=context, initializer=_begin_process, initargs=given
    )
    try:
        yield pool, counter
        pool.shutdown()
    except BaseException:
        stopping.set()
        pool.shutdown(cancel_futures=True)
        raise


def _begin_process(counter, stopping, parent: int) -> None:
    global _COUNTER
    _COUNTER = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a half-written file is removed

    def watch():
        while not stopping.wait(1.0):
            if os.getppid() != parent:
                os._exit(1)  # the parent process has ended
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _in_process(task: ShardTask) -> "Record | BaseException":
    def advance(n):
        with _COUNTER.get_lock():
            _COUNTER.value += n

    return outcome(task, advance)


def outcome(task: Any, advance: Callable[[int], None]) -> Any:
    """What `task.work` returns, or the error of its file; errors of this package are raised."""
    with warnings.catch_warnings():
        try:
            return task.work(advance)
        except (ValueError, OSError, MemoryError, OverflowError) as error:
            return error
        except Exception as error:  # a store has error classes that cannot always be pickled
            if not getattr(task, "is_remote", False):
                raise
            return OSError(f"{type(error).__name__}: {error}")
