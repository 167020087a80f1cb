"""From files to files: one output for each input, complete or absent, and a manifest of them all.

Every core works on a file of its own, in a process that opens the model memory-mapped; if there are
fewer files than cores, threads share a file. Memory does not grow with the number of rows. A run
that was stopped can be resumed: files in the manifest that did not change are not read again.
"""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from pacsent import progress, threads
from pacsent.bounds.rounding import format_count
from pacsent.certify.columns import few
from pacsent.scale import stores
from pacsent.scale.jobs import Embed, Predict
from pacsent.scale.manifest import Manifest
from pacsent.scale.shard_writer import FORMATS, ShardTask, work_on
from pacsent.storage import public_url
from pacsent.text.result_files import import_pyarrow


def embed_shards(
    model: Any,
    sources: Iterable,
    target: Any,
    *,
    method: str | None = None,
    encoder: str | None = None,
    **options: Any,
) -> Manifest:
    """Turn the texts of many files into vectors, one output file for each input file.

    Parameters
    ----------
    model : str or path
        A folder that `pacsent.save` wrote, or "english".
    sources : iterable of str or path
        Files, folders and globs, on this machine or at a URL that fsspec reaches (s3://,
        gs://, hf://). Parquet, JSON lines, CSV and TSV with a header, lines of text; all but
        Parquet may be compressed (.gz, .bz2, .xz, .zst).
    target : str or path
        The folder that gets an output for each input, and manifest.json.
    method, encoder
        As of `scale.Embed`.
    text_column : str, optional
        By default `text`, or the only column of a table that has one.
    keep_columns : iterable of str
        Extra columns of the input that the output has as well; ["*"] for all. A column that has
        the name of a result is renamed (`mean` becomes `input_mean`), and a warning says so.
    **options
        Further arguments of `run`: format, on_error, n_jobs, overwrite, verbose, engine.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("a glass of wine\\nsome beer\\n")
    >>> manifest = embed_shards("english", [folder / "a.txt"], folder / "vectors")
    >>> manifest.totals()["rows"], manifest.totals()["failed"]
    (2, 0)
    """
    job = Embed(_model_name(model), method, encoder)
    return run(job, sources, target, **options)


def predict_shards(
    model: Any,
    sources: Iterable,
    target: Any,
    *,
    error: float | None = None,
    delta: float | None = None,
    encoder: str | None = None,
    **options: Any,
) -> Manifest:
    """Classify the texts of many files; the arguments are those of `embed_shards` and `Predict`.

    >>> import tempfile, pathlib, pacsent
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("good wine\\nbad beer\\n")
    >>> model = pacsent.TextClassifier(None).fit(["good", "bad"] * 10, ["up", "down"] * 10)
    >>> path = pacsent.save(model, folder / "model")
    >>> predict_shards(folder / "model", [folder / "a.txt"], folder / "answers").totals()["rows"]
    2
    """
    job = Predict(_model_name(model), error, delta, encoder)
    return run(job, sources, target, **options)


def _model_name(model: Any) -> str:
    if not isinstance(model, str | os.PathLike):
        got = f"Got {type(model).__name__} instead. Save it: pacsent.save(model, folder)."
        raise TypeError(f"model must be a name, a folder or a URL. {got}")
    return os.fspath(model)


def run(
    job: Embed | Predict,
    sources: Iterable,
    target: Any,
    *,
    text_column: str | None = None,
    keep_columns: Iterable[str] = (),
    format: str = "parquet",
    on_error: str = "report",
    n_jobs: int | None = None,
    overwrite: bool = False,
    verbose: bool = False,
    engine: Callable | None = None,
) -> Manifest:
    """Process all files that are not finished yet, and return the manifest.

    `format` is "parquet" (extra `parquet`), "jsonl", "csv" or "tsv". `on_error` "report" gives a
    bad row its place with an empty text, and a bad file no output; the manifest names both, and the
    others are processed. With "stop" the first one ends the run. `overwrite` replaces outputs that
    another model or other settings have made. `engine` runs the tasks instead of the cores of this
    machine: `on_ray()`.
    """
    for name, value, allowed in (
        ("format", format, FORMATS),
        ("on_error", on_error, ("report", "stop")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}. Got {value!r} instead.")
    if format == "parquet":
        import_pyarrow()
    sources = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    keep_columns = (keep_columns,) if isinstance(keep_columns, str) else tuple(keep_columns)
    all_shards, ignored = stores.list_shards(sources)
    _check_apart([*sources, job.model], all_shards, target)
    settings = {**job.settings(), "columns": [text_column, *keep_columns], "format": format}
    manifest = Manifest.of_folder(target, settings, all_shards, overwrite=overwrite)
    manifest.ignored = ignored
    if manifest.outdated:
        warnings.warn(
            f"{format_count(len(manifest.outdated), 'output')} in {public_url(target)} of inputs "
            f"that are no longer given: {few(manifest.outdated)}. Whoever reads the folder reads "
            "them too. Delete them, or give their inputs again.",
            UserWarning,
            stacklevel=3,
        )
    shards = [shard for shard in all_shards if not manifest.is_finished(shard)]
    shards.sort(key=lambda shard: -shard.size)  # a large file that starts last is waited for
    if shards:
        for reason in job.caveats(job.open()):  # a model that cannot be used is noticed first
            warnings.warn(reason, UserWarning, stacklevel=3)
        manifest.save()  # before any output: a run that is killed can be resumed
    options = (format, text_column, keep_columns, on_error, 1)
    tasks = [ShardTask(job, shard, manifest.output_of(shard), *options) for shard in shards]
    n_done, n_files = len(all_shards) - len(shards), len(all_shards)
    with progress.bar(job.command, unit="texts", enabled=verbose) as shown:
        try:
            for task, result in (engine or run_locally)(tasks, n_jobs, shown.advance):
                n_done += 1
                manifest.add(task.shard, result)
                shown.update(shown.completed, f"{n_done:,} of {n_files:,} files")
                if isinstance(result, BaseException) and on_error == "stop":
                    source = task.shard.shown
                    reason = str(result).replace(task.shard.source, source)
                    raise ValueError(reason if source in reason else f"{source}, {reason}")
        finally:
            manifest.save()
    return manifest


def _check_apart(sources: list, shards: list[stores.Shard], target: Any) -> None:
    """The target must not be among what is read, or the next run would read its own output."""

    def folder(location):
        place = location if stores.is_url(location) else os.path.realpath(location)
        return place.rstrip("/") + "/"

    inside = [(folder(shard.source), folder(target)) for shard in shards]
    folders = [source for source in sources if stores.is_url(source) or os.path.isdir(source)]
    inside += [(folder(target), folder(source)) for source in folders]
    if any(inner.startswith(outer) for inner, outer in inside):
        raise ValueError(f"The target must be outside of the sources. Got {target} instead.")


def run_locally(
    tasks: list[ShardTask], n_jobs: int | None, advance: Callable[[int], None]
) -> Iterator[tuple]:
    """Yield (task, what `work_on` returned) as they are finished; `advance` counts texts."""
    n_cores = threads.n_threads(n_jobs)
    n_workers = max(1, min(n_cores, len(tasks)))
    tasks = [task._replace(n_threads=max(1, n_cores // n_workers)) for task in tasks]
    if n_workers == 1:
        for task in tasks:
            yield task, work_on(task, advance)
        return
    while tasks:
        unfinished = dict(enumerate(tasks))
        with _process_pool(n_workers) as pool:
            futures = {}
            with suppress(BrokenProcessPool):
                for number, task in unfinished.items():
                    futures[pool.submit(work_on, task)] = number
            for future in as_completed(futures):
                if not isinstance(future.exception(), BrokenProcessPool):
                    task, result = unfinished.pop(futures[future]), future.result()
                    advance(getattr(result, "rows", 0))
                    yield task, result
        # If a process died, one of the first unfinished tasks ended it, as a pool starts tasks in
        # their order. Each of these is tried again alone.
        tasks = list(unfinished.values())
        for task in tasks[:n_workers]:
            with _process_pool(1) as pool:
                try:
                    result = pool.submit(work_on, task).result()
                except BrokenProcessPool:
                    result = RuntimeError("the process that worked on it was killed")
            advance(getattr(result, "rows", 0))
            yield task, result
        tasks = tasks[n_workers:]


@contextmanager
def _process_pool(n_workers: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    stopping = context.Event()
    pool = ProcessPoolExecutor(
        n_workers, mp_context=context, initializer=_start_process, initargs=(stopping,)
    )
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        stopping.set()
        pool.shutdown(cancel_futures=True)
        raise


def _start_process(stopping) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a half-written file is removed
    parent = multiprocessing.parent_process()

    def watch():
        while parent.is_alive() and not stopping.wait(1.0):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
