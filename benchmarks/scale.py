"""Rows a second from Parquet to Parquet on two cores, against encoding the same texts in memory.

    python benchmarks/scale.py [--data FOLDER] [--save] [--name NAME] [--folder FOLDER]
    python benchmarks/scale.py --rows 10000000 --files 10 --name ten-million --save
    python benchmarks/scale.py --parts --rows 40000 --folder /dev/shm --name parts --save

The texts are SUBJ's 10,000 sentences again and again, the method is Average with the vectors of
`--data`, 300 numbers a text in single precision. The files lie in `--folder`; a folder in memory
(/dev/shm) leaves the disk out. What a part costs is measured alone, on one core. The peak memory is
that of the largest process; `--rows` shows that it does not grow. `--parts` measures only what the
parts cost, in processor time, which tells the share that a busy machine would hide.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import best_of, finish, parser_for
from pacsent import make_encoder, save, scale
from pacsent.paper import benchmark_datasets as datasets
from pacsent.scale import stores
from pacsent.scale.shard_writer import ShardTask
from pacsent.text.result_files import WRITERS
from pacsent.text.tables import TextTable
from pacsent.words.vectors import WordVectors


def model_in(folder: Path, data: Path):
    """The table of encode.py, Average, saved."""
    half = datasets.load_word_vectors(data / "vectors")
    words = WordVectors(half.vocabulary, np.asarray(half.input_vectors, dtype=np.float32))
    vectorizer = make_encoder("Average", words, n_jobs=2, on_empty="ignore").fit(["the"])
    save(vectorizer, folder / "model")
    return vectorizer


def write_shards(folder: Path, texts, n_rows: int, n_files: int) -> None:
    folder.mkdir()
    once = pa.array(texts)
    for number in range(n_files):
        n = n_rows // n_files
        with pq.ParquetWriter(
            folder / f"part-{number:04}.parquet",
            pa.schema([("id", pa.int64()), ("text", pa.string())]),
        ) as writer:
            for start in range(0, n, len(once)):
                some = once.slice(0, min(len(once), n - start))
                ids = pa.array(np.arange(start, start + len(some)) + number * n)
                writer.write_table(pa.table({"id": ids, "text": some}))


def parts(folder: Path) -> dict[str, float]:
    """Microseconds of CPU time per row: reading, encoding, writing; and the total."""
    (shard, *_), _ = stores.list_shards([folder / "in"])
    job = scale.Embed(str(folder / "model"))

    def read():
        with TextTable(shard.source, kind=shard.kind) as table:
            return list(table.batches(["id"]))

    batches = read()
    n = sum(len(some.texts) for some in batches)
    answer = job.load()
    units = [
        (some.texts[at : at + job.batch_size], some.columns["id"][at : at + job.batch_size])
        for some in batches
        for at in range(0, len(some.texts), job.batch_size)
    ]
    answers = [{"id": ids, **answer(texts).columns} for texts, ids in units]

    def write():
        with stores.write_complete(folder / "written.parquet") as file:
            list(WRITERS[".parquet"](iter(answers), file))

    out = str(folder / "whole.parquet")
    whole = ShardTask(job, shard, out, "parquet", "text", ("id",), "report", 1)
    steps = {
        "all of it": whole.work,
        "reading": read,
        "encoding": lambda: [answer(texts) for texts, _ in units],
        "writing": write,
    }
    return {name: 1e6 * best_of(f, 4, time.process_time)[1] / n for name, f in steps.items()}


class PeakMemory:
    """The largest private memory, in MB, that the processes below this one had at any time."""

    def __enter__(self):
        self.peak, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        while not self._ended.wait(0.2):
            pids = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True
            ).stdout.split()
            for pid in pids:
                try:
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                except OSError:
                    continue
                kb = sum(int(line.split()[1]) for line in lines if line.startswith("Private"))
                self.peak = max(self.peak, kb / 1024)


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--parts", action="store_true", help="only what the parts cost")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="of the files (default: a temporary one)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        run(given, folder)
    finally:
        shutil.rmtree(folder)


def only_parts(given, folder, cost):
    """One file on one core, in processor time."""
    costs = parts(folder) | {"encoding strings in memory": cost}
    rows = [{"part": name, "microseconds a row": round(s, 3)} for name, s in costs.items()]
    whole = costs["all of it"]
    n = given.rows // given.files
    n_in = (folder / "in" / "part-0000.parquet").stat().st_size / n
    n_out = (folder / "whole.parquet").stat().st_size / n
    summary = {
        "share of the rate in memory, processor time": round(cost / whole, 3),
        **plan_for(1e6 / whole, n_in, n_out),
        "rows": n,
        "where": "memory" if str(folder).startswith("/dev/shm") else "disk",
    }
    title = "Shard to shard: what a row costs on one core, Parquet to Parquet"
    finish("scale", rows, summary=summary, title=title, save=given.save, name=given.name)


def plan_for(rate: float, n_in: float, n_out: float) -> dict:
    """A billion rows on paper: `rate` rows a second and core, bytes a row in and out."""
    return {
        "bytes a row, in": round(n_in, 1),
        "bytes a row, out": round(n_out, 1),
        "a billion rows, TB out": round(n_out / 1e3, 2),
        "a billion rows, core-hours": round(1e9 / rate / 3600, 2),
        "network that 16 cores fill, Gbit/s": round(16 * rate * n_out * 8 / 1e9, 1),
    }


def run(given, folder):
    texts = list(datasets.load("subj", given.data, verify=False).train_texts)
    vectorizer = model_in(folder, given.data)
    write_shards(folder / "in", texts, given.rows, given.files)
    vectorizer.transform(texts[:2000])
    alone = vectorizer.set_params(n_jobs=1)
    cost = 1e6 * best_of(lambda: alone.transform(texts), 12, time.process_time)[1] / len(texts)
    if given.parts:
        only_parts(given, folder, cost)
        return
    vectorizer.set_params(n_jobs=2)
    memory = len(texts) / best_of(lambda: vectorizer.transform(texts), 12)[1]
    rates, peaks = [], []
    for _ in range(given.rounds):
        shutil.rmtree(folder / "out", ignore_errors=True)
        with PeakMemory() as watched:
            start = time.perf_counter()
            model, shards = str(folder / "model"), [folder / "in"]
            manifest = scale.embed_shards(
                model, shards, folder / "out", keep_columns=["id"], n_jobs=2
            )
            seconds = time.perf_counter() - start
        if manifest.totals()["rows"] != given.rows or manifest.failed:
            raise SystemExit(f"rows are missing: {manifest.totals()}")
        # what every file took in its own process: the start of the processes is a constant
        busy = max(sum(r.seconds for r in list(manifest.files.values())[k::2]) for k in range(2))
        rates.append((given.rows / busy, given.rows / seconds))
        peaks.append(watched.peak)
    shares = {} if given.rows > 2_000_000 else parts(folder)
    rate, whole = max(rates)
    row = {
        "rows": given.rows,
        "files": given.files,
        "in memory /s": round(memory),
        "shard to shard /s": round(rate),
        "share": round(rate / memory, 3),
        "with starting processes /s": round(whole),
        "output GB": round(manifest.totals()["bytes"] / 1e9, 2),
        "peak MB": round(max(peaks)),
    }
    n_in = sum(path.stat().st_size for path in (folder / "in").iterdir()) / given.rows
    n_out = manifest.totals()["bytes"] / given.rows
    summary = {
        "share of the rate in memory": row["share"],
        "share of the rate in memory, processor time": (
            round(cost / shares["all of it"], 3) if shares else None
        ),
        "in memory, microseconds a row on one core": round(cost, 3),
        **{f"{name}, microseconds a row on one core": round(s, 3) for name, s in shares.items()},
        **plan_for(rate / 2, n_in, n_out),
        "where": "memory" if str(folder).startswith("/dev/shm") else "disk",
        "own peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    title = "Shard to shard: Parquet to Parquet, two cores"
    finish("scale", [row], summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    sys.exit(main())
