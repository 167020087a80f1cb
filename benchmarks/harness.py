"""What every benchmark shares: its options, a table for people, one JSON object as the last line.

    from harness import finish, parser_for
    given = parser_for(__doc__, name="two-cores").parse_args()  # --data, --save, --name
    finish("encode", rows, summary={"ratio": 6.1}, save=given.save, name=given.name)

`rows` is a list of dicts with the same keys. With `save`, the result is written once to
results/<benchmark>/<name>.json, from which the tables of the pages are made.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import pacsent
from pacsent.bounds.rounding import rounded_up

if os.environ.get("PACSENT_TINY"):  # does everything run? see tiny.py
    import tiny

    tiny.install()

RESULTS = Path(__file__).parent / "results"
DATA = Path(__file__).parents[2] / "shared" / "data"  # beside the project


def parser_for(doc: str, *, name: str = "default") -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has; it runs without any."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("PACSENT_DATA") or DATA),
        help="folder with corpora/, datasets/, vectors/ and words/ (default: PACSENT_DATA)",
    )
    parser.add_argument("--save", action="store_true", help="write the result file")
    parser.add_argument("--name", default=name, help="of the result file (default: %(default)s)")
    return parser


def wikipedia(data: Path, folder: Path) -> Path:
    """enwik8 cleaned as the paper does, as a file in `folder`."""
    from pacsent.text.cleaning import clean_files

    path = folder / "enwik8.txt"
    clean_files([str(data / "corpora" / "enwik8.xz")], str(path), wiki=True)
    return path


def need_gpu(benchmark: str):
    """End here, with the JSON line that says so, where there is no GPU to measure."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        return  # help needs none
    try:
        import torch

        found = torch.cuda.is_available()
    except ImportError:
        found = False
    if not found:
        skip(benchmark, "no GPU, or no PyTorch that sees it")


def skip(benchmark: str, why: str):
    """End with the JSON line of a benchmark that cannot be run here."""
    print(json.dumps({"benchmark": benchmark, "skipped": why}))
    sys.exit(0)


def best_of(work, n_rounds: int, clock=time.perf_counter) -> tuple:
    """What the last round returned, and the seconds of the fastest."""
    times = []
    for _ in range(n_rounds):
        start = clock()
        result = work()
        times.append(clock() - start)
    return result, min(times)


def run_jobs(work, jobs: list, n_processes: int) -> list:
    """Results of all jobs; each process has one thread and what the first one has loaded."""
    if n_processes == 1:
        return [work(job) for job in jobs]
    with get_context("fork").Pool(n_processes, threadpool_limits, (1,)) as pool:
        return pool.map(work, jobs, chunksize=1)


def describe_gpu(device) -> dict:
    """Name, memory, driver and versions, for result files."""
    import torch

    from pacsent.words.gpu.device import _driver

    properties = torch.cuda.get_device_properties(device)
    version = ctypes.c_int()
    _driver().cuDriverGetVersion(ctypes.byref(version))
    return {
        "gpu": properties.name,
        "memory_gb": round(properties.total_memory / 1e9, 1),
        "driver": _driver_release(),
        "driver_cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "torch": torch.__version__,
    }


def _driver_release() -> str:
    """The driver's own version number, where the system tells it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    numbers = [word for word in text.split() if word[:1].isdigit() and word.count(".") >= 1]
    return numbers[0] if numbers else ""


def machine() -> dict:
    """What a reader needs to place the numbers; no names of hosts or users."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of the working tree, with a plus sign where files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def finish(
    benchmark: str, rows: list[dict], *, summary: dict, title: str = "", save=False,
    name="default", where: dict | None = None, details: dict | None = None,
):  # fmt: skip
    """Print the table, save it if asked, and end with the one JSON line.

    `where` describes the machine, if the numbers come from another one than this; `details` are
    saved with the rows and not printed.
    """
    _show(title or benchmark, rows)
    result = {
        "benchmark": benchmark,
        "title": title,
        "summary": summary,
        "rows": rows,
        **(details or {}),
        "machine": where or machine(),
        "pacsent": pacsent.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if save:
        path = RESULTS / benchmark / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"saved {path.relative_to(RESULTS.parent.parent)}")
    print(json.dumps({"benchmark": benchmark, **summary}))


def _show(title: str, rows: list[dict]):
    """The table for people."""
    table = Table(title=title)
    for key in rows[0]:
        table.add_column(str(key), justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*[cell(value, column) for column, value in row.items()])
    Console(width=120).print(table)


BOUNDS = re.compile(
    r"(A |continuation )?certified\b"
    r"|(bound|held out|Laplace|gradient|prior from half|recursive|union)$"
)


def cell(value, column: str = "") -> str:
    """A value for a table, with three digits, two below 0.1; bounds are never rounded down."""
    if isinstance(value, float) and BOUNDS.match(column):
        return rounded_up(value, 3)
    if isinstance(value, float) and abs(value) >= 1000:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) >= 0.1 else f"{value:.2g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
