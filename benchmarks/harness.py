"""What every benchmark shares: a table for people, one JSON object as the last line for machines.

    from harness import finish
    finish("encode", rows, summary={"ratio": 6.1}, save=True, name="two-cores")

`rows` is a list of dicts with the same keys. With `save`, the result is written once to
results/<benchmark>/<name>.json, from which make_tables.py writes README.md.
"""

import json
import platform
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import pacsent

RESULTS = Path(__file__).parent / "results"


def data_folder(given=None) -> Path:
    """The real data: what was named, PACSENT_DATA, or the folder beside the project."""
    import os

    beside = Path(__file__).parents[2] / "shared" / "data"
    return Path(given or os.environ.get("PACSENT_DATA") or beside)


def machine() -> dict:
    """What a reader needs to place the numbers; no names of hosts or users."""
    import os

    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def finish(
    benchmark: str, rows: list[dict], *, summary: dict, title: str = "", save=False,
    name="default", where: dict | None = None,
):  # fmt: skip
    """Print the table, save it if asked, and end with the one JSON line.

    `where` describes the machine, if the numbers come from another one than this.
    """
    console = Console(width=120)
    table = Table(title=title or benchmark)
    for key in rows[0]:
        table.add_column(str(key), justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*[_cell(value) for value in row.values()])
    console.print(table)
    result = {
        "benchmark": benchmark,
        "title": title,
        "summary": summary,
        "rows": rows,
        "machine": where or machine(),
        "pacsent": pacsent.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    if save:
        path = RESULTS / benchmark / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
        console.print(f"saved {path.relative_to(RESULTS.parent.parent)}")
    print(json.dumps({"benchmark": benchmark, **summary}))


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
