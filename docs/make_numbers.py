"""Fill the tables of README.md and docs/*.md that come from result files; `--check` only compares.

A table stands between two comments, and its first names the file under benchmarks/results, what to
keep, and the columns:

    <!-- from certify/splits where bound=betting: dataset, below the truth, mean excess -->
    <!-- end -->

A column may be renamed: `mean excess as excess`.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "benchmarks"))

from harness import cell  # noqa: E402

BLOCK = re.compile(
    r"(<!-- from (?P<file>[\w./-]+)(?: where (?P<where>[^:]+))?: (?P<columns>[^>]+?) -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)


def table(match) -> str:
    """The block with its rows made anew."""
    rows = json.loads((RESULTS / f"{match['file']}.json").read_text())["rows"]
    for condition in (match["where"] or "").split(","):
        if condition:
            key, _, value = condition.partition("=")
            rows = [row for row in rows if str(row[key.strip()]) in value.strip().split("|")]
    columns = [part.strip().partition(" as ") for part in match["columns"].split(",")]
    lines = ["| " + " | ".join(new or old for old, _, new in columns) + " |"]
    lines.append("|" + "---|" * len(columns))
    for row in rows:
        lines.append("| " + " | ".join(cell(row[old], old) for old, *_ in columns) + " |")
    return match[1] + "\n".join(lines) + "\n" + match[5]


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for page in pages():
        text = page.read_text()
        made = BLOCK.sub(table, text)
        if made != text and check:
            raise SystemExit(f"{page.name} is out of date: make pages")
        page.write_text(made)
