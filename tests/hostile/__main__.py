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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), help="one part only")
    parser.add_argument("--like", default="", help="cases whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    options = parser.parse_args()
    parts = list(PARTS) if options.part is None else [options.part]
    material.prepare()
    if "python" in parts:
        text_inputs.prepare()
    if "server" in parts:
        server_requests.app()
    total: Counter = Counter()
    print("{:<10}{:>8}{:>8}{:>9}{:>8}{:>9}".format("part", *COLUMNS))
    for part in parts:
        cases = [case for case in PARTS[part]() if options.like in case.name][:: options.every]
        begun = time.monotonic()
        counts = running.run_all(cases, tell=lambda text: print(text, flush=True))
        counts["cases"], counts["wrong"] = len(cases), running.n_wrong(counts)
        counts["seconds"] = round(time.monotonic() - begun)
        total += counts
        print("{:<10}{:>8}{:>8}{:>9}{:>8}{:>9}".format(part, *map(counts.__getitem__, COLUMNS)))
    print(json.dumps({name: total[name] for name in (*COLUMNS, *running.BAD)}))
    return total["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
