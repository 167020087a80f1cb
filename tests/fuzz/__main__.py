"""python -m fuzz [--seconds 60] [--target NAME [--case NUMBER]], in the folder `tests`."""

import argparse
import json
import sys
from pathlib import Path

from fuzz import running
from fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="time in all")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="repeatable")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run this case alone, and show its traceback")
    parser.add_argument("--save", help="write the summary to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.target or list(TARGETS)
    if options.case is not None:
        print(running.one_case(targets[0], options.case, show=True))
        return 0
    if options.worker:
        running.work(targets[0], options.first, options.seconds)
        return 0

    summary = running.run(targets, options.seconds, options.first)
    if options.save:
        Path(options.save).write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary))
    return bool(summary["findings"])


if __name__ == "__main__":
    sys.exit(main())
