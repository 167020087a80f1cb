"""One shard: read it, compute the results, and write them to a file, complete or not at all."""

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pacsent import threads
from pacsent.scale import stores
from pacsent.scale.jobs import Batch, Embed, Predict
from pacsent.storage import public_url
from pacsent.text import result_files
from pacsent.text.tables import TextTable, output_names

FORMATS = ("parquet", "jsonl", "csv", "tsv")  # those that are written from front to back

# Bad rows and warnings of a file that the manifest describes; all bad rows are counted.
_MAX_DESCRIBED = 20
# Warnings that are not described: the counts say the same.
_COUNTED_WARNINGS = ("EmptySentenceWarning", "LowCoverageWarning")


@dataclass
class Record:
    """The entry of a finished file in the manifest."""

    source: str
    size: int
    version: str
    output: str
    bytes: int = 0
    rows: int = 0
    empty: int = 0
    known: int = 0
    unknown: int = 0
    coverage: float | None = None
    bad_rows: int = 0
    bad: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0


class ShardTask(NamedTuple):
    """A file to work on; it is sent to the process that does so."""

    job: Embed | Predict
    shard: stores.Shard
    output: str
    format: str
    text_column: str | None
    keep_columns: tuple[str, ...]  # names of the extra columns; ("*",) for all
    on_error: str
    n_threads: int

    def work(self, advance: Callable[[int], None] = lambda n: None) -> Record:
        """Read the shard, compute and write the results; return the entry for the manifest."""
        began = time.perf_counter()
        shard = self.shard
        record = Record(shard.shown, shard.size, shard.version, public_url(self.output))
        compute = load_job(self.job)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._write_results(compute, record, advance)

        n_words = record.known + record.unknown
        if n_words:
            record.coverage = round(record.known / n_words, 6)
        messages = []
        for warning in caught:
            if warning.category.__name__ not in _COUNTED_WARNINGS:
                messages.append(str(warning.message))
        record.warnings += list(dict.fromkeys(messages))[:_MAX_DESCRIBED]
        record.seconds = round(time.perf_counter() - began, 3)
        return record

    def _write_results(
        self, compute: Callable[..., Batch], record: Record, advance: Callable[[int], None]
    ) -> None:
        shard = self.shard
        write = result_files.WRITERS[f".{self.format}"]
        with (
            stores.open_file(shard.source) as source,
            TextTable(
                shard.shown, file=source, kind=shard.kind, text_column=self.text_column
            ) as table,
            stores.write_complete(self.output) as file,
        ):
            batches = result_batches(
                table,
                compute,
                record,
                keep_columns=self.keep_columns,
                on_error=self.on_error,
                batch_size=self.job.batch_size,
                n_threads=self.n_threads,
                advance=advance,
            )
            for _ in write(batches, file):
                pass
            record.bytes = file.tell()


def work_on(task: ShardTask, advance: Callable[[int], None] = lambda n: None) -> Any:
    """Return what `task.work` returns, or the error of its file; other errors are raised."""
    try:
        return task.work(advance)
    except (ValueError, OSError, MemoryError, OverflowError) as error:
        return error
    except Exception as error:  # a store has error classes that cannot always be pickled
        if not (stores.is_url(task.shard.source) or stores.is_url(task.output)):
            raise
        return OSError(f"{type(error).__name__}: {error}")


def load_job(job: Embed | Predict) -> Callable[..., Batch]:
    """Return `job.load()`, which a process calls once for the same job and model."""
    return _load(job, job.settings()["model_digest"])


@lru_cache(maxsize=1)
def _load(job: Embed | Predict, model_digest: str) -> Callable[..., Batch]:
    return job.load()


def result_batches(
    table: TextTable,
    compute: Callable[..., Batch],
    record: Record,
    *,
    keep_columns: tuple[str, ...] = (),
    on_error: str = "stop",
    batch_size: int = 1 << 12,
    n_threads: int = 1,
    advance: Callable[[int], None] = lambda n: None,
    observe: Callable[[Batch], None] = lambda batch: None,
) -> Generator[dict, None, None]:
    """Yield batches of the output: the extra columns, then the results; the record counts them.

    Reading and writing go on while threads compute; a few batches are held at a time. `observe` is
    called with each batch of results, in the order of the rows.
    """
    columns = list(dict.fromkeys(table.check_columns(keep_columns)))
    names, notes = output_names(columns, list(compute([]).columns), table.name)
    record.warnings += notes

    on_bad = "raise" if on_error == "stop" else "report"

    def read_parts() -> Iterator[_Part]:
        for rows in table.batches(keep_columns, on_bad=on_bad):
            _record_bad(record, rows.bad)
            n_rows = len(rows.texts)
            is_bad = np.zeros(n_rows, bool)
            is_bad[[row.position for row in rows.bad]] = True
            for start in range(0, max(1, n_rows), batch_size):
                part = slice(start, start + batch_size)
                extra = {names[name]: column[part] for name, column in rows.columns.items()}
                yield _Part(rows.texts[part], extra, is_bad[part])

    def compute_part(part: _Part) -> tuple[_Part, Batch]:
        return part, compute(part.texts, part.is_bad)

    results = threads.in_order(compute_part, read_parts(), n_threads, ahead=n_threads + 1)
    for part, batch in results:
        n_texts = len(part.texts)
        record.rows += n_texts
        record.empty += batch.n_empty
        record.known += batch.n_known
        record.unknown += batch.n_unknown
        observe(batch)
        advance(n_texts)
        yield {**part.extra, **batch.columns}


class _Part(NamedTuple):
    """Some rows of a table."""

    texts: Any
    extra: dict[str, Any]  # columns of the input that the output has as well
    is_bad: np.ndarray  # (n,)


def _record_bad(record: Record, bad: Sequence[Any]) -> None:
    """Count bad rows, and describe the first ones."""
    record.bad_rows += len(bad)
    n_left = _MAX_DESCRIBED - len(record.bad)
    for row in bad[:n_left]:
        record.bad.append({"place": row.place, "error": row.error})
