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
    method : str, optional
        For word vectors, one that learns nothing from text; None is the sentence encoder that they
        come with, or SIF-sum.
    encoder : str, optional
        The external encoder that a model was made with.
    text_column : str, optional
        By default `text`, or the only column of a table that has one.
    keep_columns : iterable of str
        Extra columns of the input that the output has as well; ["*"] for all. A column that has
        the name of a result is renamed (`mean` becomes `input_mean`), and a warning says so.
    format : {"parquet", "jsonl", "csv", "tsv"}, default="parquet"
        Format of the outputs; Parquet needs the extra `parquet`.
    on_error : {"report", "stop"}, default="report"
        "report" gives a bad row its place with an empty text, and a bad file no output; the
        manifest names both, and the others are processed. With "stop" the first one ends the run.
    n_jobs : int, optional
        Cores; None and -1 use all.
    overwrite : bool, default=False
        Replace outputs that another model or other settings have made.
    verbose : bool, default=False
        Show progress on stderr.
    engine : callable, optional
        Runs the tasks instead of the cores of this machine: `on_ray()`.

    Returns
    -------
    manifest : Manifest
        The contents of the target.

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
    """Classify the texts of many files, one output file for each input file.

    Parameters
    ----------
    model : str or path
        The folder of a classifier.
    sources, target, encoder, **options
        As of `embed_shards`.
    error : float, optional
        The rate at which prediction sets may miss the true class, and answers may be wrong; None
        takes 0.05 for sets, or the smallest rate above it that can be guaranteed, and for answers
        the smallest of ten with which at least half of the calibration texts are answered.
    delta : float, optional
        The probability that this guarantee fails; None is that of the classifier.

    Returns
    -------
    manifest : Manifest
        The contents of the target.

    Examples
    --------
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

    Parameters
    ----------
    job : Embed or Predict
        The work on each file.
    sources, target, text_column, keep_columns, format, on_error, n_jobs, overwrite, verbose, engine
        As of `embed_shards`.

    Returns
    -------
    manifest : Manifest
        The contents of the target.
    """
    _check_option("format", format, FORMATS)
    _check_option("on_error", on_error, ("report", "stop"))
    if format == "parquet":
        import_pyarrow()
    source_list = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    columns = (keep_columns,) if isinstance(keep_columns, str) else tuple(keep_columns)
    all_shards, ignored = stores.list_shards(source_list)
    _check_apart([*source_list, job.model], all_shards, target)

    settings = {**job.settings(), "columns": [text_column, *columns], "format": format}
    manifest = Manifest.of_folder(target, settings, all_shards, overwrite=overwrite)
    manifest.ignored = ignored
    if manifest.outdated:
        outputs = format_count(len(manifest.outdated), "output")
        warnings.warn(
            f"{outputs} in {public_url(target)} of inputs that are no longer given: "
            f"{few(manifest.outdated)}. Whoever reads the folder reads them too. Delete them, or "
            "give their inputs again.",
            UserWarning,
            stacklevel=3,
        )

    shards = [shard for shard in all_shards if not manifest.is_finished(shard)]
    shards.sort(key=lambda shard: -shard.size)  # a large file that starts last is waited for
    if shards:
        for reason in job.caveats(job.open()):  # a model that cannot be used is noticed first
            warnings.warn(reason, UserWarning, stacklevel=3)
        manifest.save()  # before any output: a run that is killed can be resumed

    tasks = []
    for shard in shards:
        task = ShardTask(
            job,
            shard,
            manifest.output_of(shard),
            format,
            text_column,
            columns,
            on_error,
            n_threads=1,
        )
        tasks.append(task)
    n_files = len(all_shards)
    n_finished = n_files - len(shards)
    run_tasks = engine or run_locally
    with progress.bar(job.command, unit="texts", enabled=verbose) as shown:
        try:
            for task, result in run_tasks(tasks, n_jobs, shown.advance):
                n_finished += 1
                manifest.add(task.shard, result)
                shown.update(shown.completed, f"{n_finished:,} of {n_files:,} files")
                if isinstance(result, BaseException) and on_error == "stop":
                    raise _error_of_file(task.shard, result)
        finally:
            manifest.save()
    return manifest


def _check_option(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}. Got {value!r} instead.")


def _error_of_file(shard: stores.Shard, error: BaseException) -> ValueError:
    """The error of a file, with its name, and without a password in its URL."""
    reason = str(error).replace(shard.source, shard.shown)
    return ValueError(reason if shard.shown in reason else f"{shard.shown}, {reason}")


def _check_apart(sources: list, shards: list[stores.Shard], target: Any) -> None:
    """Raise if the target is among the sources, so that the next run would read its own output."""
    target_folder = _as_folder(target)
    is_inside = any(_as_folder(shard.source).startswith(target_folder) for shard in shards)
    for source in sources:
        if stores.is_url(source) or os.path.isdir(source):
            is_inside = is_inside or target_folder.startswith(_as_folder(source))
    if is_inside:
        raise ValueError(f"The target must be outside of the sources. Got {target} instead.")


def _as_folder(location: Any) -> str:
    place = location if stores.is_url(location) else os.path.realpath(location)
    return place.rstrip("/") + "/"


def run_locally(
    tasks: list[ShardTask], n_jobs: int | None, advance: Callable[[int], None]
) -> Iterator[tuple]:
    """Yield each task and what `work_on` returned, as they are finished; `advance` counts texts."""
    n_cores = threads.n_threads(n_jobs)
    n_workers = max(1, min(n_cores, len(tasks)))
    n_task_threads = max(1, n_cores // n_workers)
    tasks = [task._replace(n_threads=n_task_threads) for task in tasks]
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
                    task = unfinished.pop(futures[future])
                    result = future.result()
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


def _start_process(stopping: Any) -> None:
    """Make a process end when its parent is gone, or when the pool stops."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a half-written file is removed
    parent: Any = multiprocessing.parent_process()

    def watch() -> None:
        while parent.is_alive() and not stopping.wait(1.0):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
