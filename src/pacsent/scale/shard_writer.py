"""One shard: read it, compute the results, and write them to one file, whole or not at all."""

import io
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np

from pacsent import threads
from pacsent.optional import import_optional
from pacsent.scale import places
from pacsent.scale.jobs import Embed, Predict
from pacsent.text import result_files
from pacsent.text.tables import TextRows, TextTable, output_names

FORMATS = ("parquet", "jsonl", "csv", "tsv")  # those that are written from front to back
_DESCRIBED = 20  # bad rows of a file that the manifest describes


class Stopped(ValueError):
    """A file or a row was bad, and on_error is "stop"."""


@dataclass
class Record:
    """The entry of a finished file in the manifest."""

    source: str
    size: int
    version: str
    output: str
    bytes: int = 0
    xxh64: str = ""
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
    shard: places.Shard
    output: str
    format: str
    text_column: str | None
    keep_columns: tuple[str, ...]  # names of the extra columns; ("*",) for all
    on_error: str
    n_threads: int

    @property
    def is_remote(self) -> bool:
        return places.is_address(self.shard.source) or places.is_address(self.output)

    def work(self, advance: Callable[[int], None] = lambda n: None) -> Record:
        """Read the shard, compute and write the results; the entry for the manifest."""
        began = time.perf_counter()
        shard = self.shard
        record = Record(shard.source, shard.size, shard.version, self.output)
        answer = _opened(self.job)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with places.whole_file(self.output) as file:
                checked = CheckedFile(file)
                batches = _answered(self, answer, record, advance)
                record.rows = sum(result_files.WRITERS[f".{self.format}"](batches, checked))
            record.bytes, record.xxh64 = checked.n_bytes, checked.digest.hexdigest()
        n_words = record.known + record.unknown
        record.coverage = round(record.known / n_words, 6) if n_words else None
        counted = ("EmptySentenceWarning", "LowCoverageWarning")  # the counts say the same
        others = [str(w.message) for w in caught if w.category.__name__ not in counted]
        record.warnings += list(dict.fromkeys(others))[:_DESCRIBED]
        record.seconds = round(time.perf_counter() - began, 3)
        return record


class CheckedFile(io.RawIOBase):
    """A file written from front to back that counts its bytes and computes their checksum."""

    def __init__(self, file: IO[bytes]):
        xxhash = import_optional("xxhash", "Checksums are computed by xxhash", "scale")
        self.file, self.digest, self.n_bytes = file, xxhash.xxh64(), 0

    def write(self, data: Any) -> int:
        self.file.write(data)
        self.digest.update(data)
        n = memoryview(data).nbytes
        self.n_bytes += n
        return n

    def tell(self) -> int:
        return self.n_bytes

    def writable(self) -> bool:
        return True


_OPENED: dict = {}  # job -> its function, opened once in a process


def _opened(job) -> Callable:
    key = json.dumps([job.settings(), job.encoder], sort_keys=True, default=str)
    if key not in _OPENED:
        _OPENED.clear()
        _OPENED[key] = job.ready()
    return _OPENED[key]


def _answered(task: ShardTask, answer, record: Record, advance) -> Iterator[dict]:
    """Batches of the output: the extra columns, then the results; the record counts them."""
    source = task.shard.source
    with (
        places.opened(source) as file,
        TextTable(source, file=file, kind=task.shard.kind, text_column=task.text_column) as table,
    ):
        wanted = list(dict.fromkeys(table.check_columns(task.keep_columns)))
        names, notes = output_names(wanted, task.job.names(), source)
        record.warnings += notes

        def units():
            unit = task.job.unit
            for some in table.batches(wanted, on_bad="report"):
                _note_bad(task, some, record)
                bad = np.zeros(len(some.texts), bool)
                bad[[row.index for row in some.bad]] = True
                for start in range(0, max(1, len(some.texts)), unit):
                    part = slice(start, start + unit)
                    extra = {names[n]: c[part] for n, c in some.columns.items()}
                    yield some.texts[part], extra, bad[part]

        def work(unit):
            texts, extra, bad = unit
            found = answer(texts)
            return len(texts), extra, task.job.without(found, bad) if bad.any() else found

        ahead = task.n_threads + 1
        for n, extra, found in threads.in_order(work, units(), task.n_threads, ahead=ahead):
            record.empty += found.n_empty
            record.known += found.n_known
            record.unknown += found.n_unknown
            advance(n)
            yield {**extra, **found.columns}


def _note_bad(task: ShardTask, some: TextRows, record: Record) -> None:
    if some.bad and task.on_error == "stop":
        bad = some.bad[0]
        raise Stopped(
            f"{task.shard.source}, {bad.place} {bad.error} To report bad rows and continue, use "
            "on_error='report'."
        )
    record.bad_rows += len(some.bad)
    record.bad += [
        {"place": bad.place, "error": bad.error} for bad in some.bad[: _DESCRIBED - len(record.bad)]
    ]
