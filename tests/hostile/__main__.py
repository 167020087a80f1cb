"""python -m hostile [--part python|commands|server] [--like TEXT], in the folder `tests`."""

import argparse
import json
import sys
import time
from collections import Counter

from hostile import command_lines, material, python_calls, running, server_requests, text_inputs

PARTS = {
    "python": python_calls.cases,
    "commands": command_lines.cases,
    "server": server_requests.cases,
}
COLUMNS = ("cases", "ok", "refused", "wrong", "seconds")


def progress_line(part: str, n_cases: int):
    """A function that says on stderr how far a part is: in place on a terminal, else every 100."""
    terminal, begun = sys.stderr.isatty(), time.monotonic()

    def say(number: int, case: running.Case, counts: Counter) -> None:
        if terminal or number % 100 == 0 or number == n_cases:
            line = f"{part}: {number} of {n_cases} cases, {running.n_wrong(counts)} wrong"
            line = f"{line}, {time.monotonic() - begun:.0f} s"
            end = "\n" if number == n_cases or not terminal else ""
            print(f"\r{line:<70}" if terminal else line, end=end, file=sys.stderr, flush=True)

    return say


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), help="one part only")
    parser.add_argument("--like", default="", help="cases whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    options = parser.parse_args()
    material.prepare()
    if options.part in (None, "python"):
        text_inputs.prepare()
    if options.part in (None, "server"):
        server_requests.app()
    total: Counter = Counter()
    rows = {}
    for part in PARTS if options.part is None else [options.part]:
        cases = [case for case in PARTS[part]() if options.like in case.name][:: options.every]
        begun = time.monotonic()
        found = running.run_all(
            cases,
            tell=lambda text: print(text, flush=True),
            progress=progress_line(part, len(cases)),
        )
        row = {"cases": len(cases), "wrong": running.n_wrong(found)}
        row["seconds"] = round(time.monotonic() - begun)
        total.update({**found, **row})
        rows[part] = found + Counter(row)
    print("{:<10}{:>8}{:>8}{:>9}{:>8}{:>9}".format("part", *COLUMNS))
    for part, counts in {**rows, "all": total}.items():
        print("{:<10}{:>8}{:>8}{:>9}{:>8}{:>9}".format(part, *map(counts.__getitem__, COLUMNS)))
    print(json.dumps({name: total[name] for name in (*COLUMNS, *running.BAD)}))
    return total["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
