"""One shard: read it, answer it, write what came of it, whole or not at all."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

from pacsent import threads
from pacsent.scale import places
from pacsent.scale import table_batches as rows
from pacsent.scale.digests import XXH64
from pacsent.scale.jobs import Answer, Embed, Predict
from pacsent.scale.parquet import VectorWriter

_TOLD = 20  # bad rows of a file that the manifest describes


class Stopped(ValueError):
    """A file or a row was bad, and on_error is "stop"."""


@dataclass
class Record:
    """What the manifest says about a finished file."""

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
    """A file to be worked on; travels to the process that does it."""

    job: Embed | Predict
    shard: places.Shard
    output: str
    format: str
    columns: rows.Columns
    on_error: str
    n_threads: int

    @property
    def on_gpu(self) -> bool:
        return self.job.on_gpu

    @property
    def is_far(self) -> bool:
        return places.is_address(self.shard.source) or places.is_address(self.output)

    def work(self, advance: Callable[[int], None] = lambda n: None) -> Record:
        """Read, answer and write the shard."""
        return run_shard(self, advance)


class _Hashed:
    """A file that knows what was written to it."""

    def __init__(self, file: IO[bytes]):
        self.file, self.digest, self.n_bytes = file, XXH64(), 0

    def write(self, data) -> int:
        self.file.write(data)
        self.digest.update(data)
        n = memoryview(data).nbytes
        self.n_bytes += n
        return n


_ANSWERS: dict = {}  # job -> its function, opened once in a process


def _answering(job) -> Callable:
    key = json.dumps(job.settings(), sort_keys=True, default=str)
    if key not in _ANSWERS:
        _ANSWERS.clear()
        _ANSWERS[key] = job.ready()
    return _ANSWERS[key]


def run_shard(task: ShardTask, advance: Callable[[int], None] = lambda n: None) -> Record:
    """Read, answer and write one shard; what the manifest says about it."""
    began = time.perf_counter()
    shard = task.shard
    record = Record(shard.source, shard.size, shard.version, task.output)
    answer = _answering(task.job)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with places.whole_file(task.output) as file:
            hashed = _Hashed(file)
            WRITERS[task.format](_answered(task, answer, record, advance), hashed, task.job)
        record.bytes, record.xxh64 = hashed.n_bytes, hashed.digest.hexdigest()
    n_words = record.known + record.unknown
    record.coverage = round(record.known / n_words, 6) if n_words else None
    told = ("EmptySentenceWarning", "LowCoverageWarning")  # the counts say it
    others = [str(w.message) for w in caught if w.category.__name__ not in told]
    record.warnings = list(dict.fromkeys(others))[:_TOLD]
    record.seconds = round(time.perf_counter() - began, 3)
    return record


def _answered(task, answer, record, advance) -> Iterator[tuple[Any, Answer]]:
    """(carried columns, answer) batch by batch; the record counts them."""

    def units():
        for some in rows.read(task.shard, task.columns):
            _note_bad(task, some, record)
            for start in range(0, max(1, len(some.texts)), task.job.unit):
                yield (
                    some.texts.slice(start, task.job.unit),
                    some.carried.slice(start, task.job.unit),
                )

    def work(unit):
        texts, carried = unit
        return carried, answer(texts)

    for carried, found in threads.in_order(work, units(), task.n_threads, ahead=task.n_threads + 1):
        record.rows += carried.num_rows
        record.empty += found.n_empty
        record.known += found.n_known
        record.unknown += found.n_unknown
        advance(carried.num_rows)
        yield carried, found


def _note_bad(task, some: rows.Rows, record: Record) -> None:
    if some.bad and task.on_error == "stop":
        bad = some.bad[0]
        raise Stopped(
            f"{task.shard.source}, {bad.place}: {bad.error}. Mend it, or let bad rows be reported "
            "and gone past: on_error='report'."
        )
    record.bad_rows += len(some.bad)
    record.bad += [bad._asdict() for bad in some.bad[: _TOLD - len(record.bad)]]


def _write_parquet(batches, file, job) -> None:
    pa = rows.pyarrow()
    from pyarrow import parquet

    writer: Any = None
    for carried, found in batches:
        columns = dict(zip(carried.schema.names, carried.columns)) | found.columns
        others = pa.record_batch(columns)
        if writer is None:
            if found.means is not None:
                n_dims = found.means.shape[1]
                writer = VectorWriter(file, others.schema, n_dims, at=carried.num_columns)
            else:
                writer = parquet.ParquetWriter(_Seekless(file), others.schema, compression="zstd")
        others = others.cast(writer.schema)
        if found.means is not None:
            writer.write(found.means, others)
        else:
            writer.write_batch(others)
    writer.close()


class _Seekless:
    """What Arrow asks of a Python file that it writes to."""

    closed = False

    def __init__(self, file):
        self.file, self.at = file, 0

    def write(self, data) -> int:
        n = self.file.write(data)
        self.at += n
        return n

    def tell(self) -> int:
        return self.at

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _write_jsonl(batches, file, job) -> None:
    for carried, found in batches:
        names = [*carried.schema.names, *found.columns]
        values = [column.to_pylist() for column in (*carried.columns, *found.columns.values())]
        at = carried.num_columns
        lines = []
        for row in range(carried.num_rows):
            parts = [
                f"{json.dumps(name)}: {json.dumps(column[row], default=_as_text)}"
                for name, column in zip(names, values)
            ]
            if found.means is not None:  # str of a float32 is the shortest that brings it back
                parts.insert(at, f'"mean": [{", ".join(map(str, found.means[row]))}]')
            lines.append("{" + ", ".join(parts) + "}\n")
        file.write("".join(lines).encode())


def _as_text(value):
    if isinstance(value, bytes):
        raise ValueError("JSON lines hold no bytes. Leave the column out, or write Parquet.")
    return str(value)


WRITERS = {"parquet": _write_parquet, "jsonl": _write_jsonl}
