"""python -m hostile [KIND ...] [--like TEXT] [--every N] [--seconds S], in the folder `tests`."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from hostile import (
    command_lines,
    material,
    outside,
    python_calls,
    readers,
    running,
    server_requests,
    text_inputs,
)

KINDS = {
    "texts": text_inputs.cases,
    "calls": python_calls.cases,
    "commands": command_lines.cases,
    "server": server_requests.cases,
    **outside.KINDS,
}
DAMAGED = {f"damaged {name}": name for name in readers.TARGETS}
ROW = "{:<36}" + "{:>9}" * (len(running.ENDS) + 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS, "damaged", *DAMAGED])
    parser.add_argument("--like", default="", help="cases whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all kinds")
    parser.add_argument("--case", help="a damaged file, such as 'glove 7': show its traceback")
    parser.add_argument("--save", help="write the counts to this file")
    options = parser.parse_args()
    if options.case:
        target, _, number = options.case.rpartition(" ")
        return print(running.outcome(readers.damaged_case(target, int(number))))
    kinds = options.kinds or list(KINDS)
    kinds = [name for kind in kinds for name in (DAMAGED if kind == "damaged" else [kind])]
    counts: dict[str, Counter] = {}
    print(ROW.format("kind", "cases", *(end.split()[-1] for end in running.ENDS), "seconds"))
    for kind in kinds:
        start = time.monotonic()
        if kind in DAMAGED:
            readers.prepare(DAMAGED[kind])
            cases, per_child = readers.cases(DAMAGED[kind]), 500
        else:
            material.prepare()
            cases = [case for case in KINDS[kind]() if options.like in case.name][:: options.every]
            per_child = 1
        counts[kind] = running.run_all(
            cases,
            lambda text: print(text, flush=True),
            per_child=per_child,
            limit_memory=kind in DAMAGED,
            seconds=options.seconds / len(kinds),
        )
        n = [counts[kind][end] for end in running.ENDS]
        print(ROW.format(kind, sum(n), *n, round(time.monotonic() - start)), flush=True)
    summary = json.dumps({kind: dict(counter) for kind, counter in counts.items()})
    if options.save:
        Path(options.save).write_text(summary + "\n")
    print(summary)
    return any(counter[end] for counter in counts.values() for end in running.BAD)


if __name__ == "__main__":
    sys.exit(main())
