"""Write benchmarks/README.md from results/*/*.json; `--check` only says if it is up to date."""

import argparse
import json
from pathlib import Path

from harness import RESULTS, cell

HEAD = """# Benchmarks

Every table below is made by `benchmarks/make_tables.py` from the files under `results/`, and every
file there was written by the script named above its table, which runs ours and its baselines. The
machine is named there too, more than one where parts were run apart. Machines are noisy: read the
ratios, not the absolute times.

"""


def tables() -> str:
    parts = [HEAD]
    for path in sorted(RESULTS.glob("*/*.json")):
        result = json.loads(path.read_text())
        if "rows" not in result or not result["rows"]:
            continue
        keys = list(result["rows"][0])
        machine = result["machine"]
        where = ", ".join(f"{key} {value}" for key, value in machine.items())
        parts.append(f"## {result['title'] or result['benchmark']}\n\n")
        parts.append(
            f"`python benchmarks/{result['benchmark']}.py` · {result['date']} · {where}\n\n"
        )
        parts.append("| " + " | ".join(keys) + " |\n|" + "---|" * len(keys) + "\n")
        for row in result["rows"]:
            parts.append("| " + " | ".join(cell(row.get(key), key) for key in keys) + " |\n")
        parts.append(
            "\n" + "; ".join(f"{k}: {cell(v, k)}" for k, v in result["summary"].items()) + "\n\n"
        )
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    readme = Path(__file__).parent / "README.md"
    if parser.parse_args().check:
        raise SystemExit(0 if readme.read_text() == tables() else f"{readme.name} is out of date")
    readme.write_text(tables())
