"""python -m hostile [KIND ...] [--like TEXT] [--every N] [--seconds S], in the folder `tests`."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from hostile import (
    command_lines,
    containers,
    embedding_servers,
    filters,
    foreign_folders,
    journals,
    material,
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
    "containers": containers.cases,
    "encoders on URLs": embedding_servers.cases,
    "foreign folders": foreign_folders.cases,
    "filters": filters.cases,
    "journals": journals.cases,
}
DAMAGED = {f"damaged {name}": name for name in readers.TARGETS}
ROW = "{:<36}" + "{:>9}" * (len(running.ENDS) + 2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS, "damaged", *DAMAGED])
    parser.add_argument("--like", default="", help="cases whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all kinds")
    parser.add_argument("--case", help="a damaged file, such as 'glove 7': show its traceback")
    parser.add_argument("--save", help="write the counts to this file")
    return parser


def _chosen_kinds(names: list[str]) -> list[str]:
    """All kinds but damaged files by default; "damaged" means every kind of these."""
    if not names:
        return list(KINDS)

    kinds = []
    for name in names:
        kinds += DAMAGED if name == "damaged" else [name]
    return kinds


def _report(text: str) -> None:
    print(text, flush=True)


def _run_damaged(target: str, seconds: float) -> Counter:
    """Damaged files for as long as there is time, many in one process."""
    readers.prepare(target)
    return running.run_all(
        readers.cases(target), _report, per_child=500, limit_memory=True, seconds=seconds
    )


def _run_kind(kind: str, like: str, every: int, seconds: float) -> Counter:
    material.prepare()
    cases = [case for case in KINDS[kind]() if like in case.name]
    return running.run_all(cases[::every], _report, seconds=seconds)


def main() -> int:
    options = _parser().parse_args()
    if options.case:
        target, _, number = options.case.rpartition(" ")
        case = readers.damaged_case(target, int(number))
        print(running.outcome(case))
        return 0

    kinds = _chosen_kinds(options.kinds)
    seconds = options.seconds / len(kinds)
    ends = [end.split()[-1] for end in running.ENDS]
    print(ROW.format("kind", "cases", *ends, "seconds"))

    counts = {}
    for kind in kinds:
        start = time.monotonic()
        if kind in DAMAGED:
            counter = _run_damaged(DAMAGED[kind], seconds)
        else:
            counter = _run_kind(kind, options.like, options.every, seconds)
        duration = round(time.monotonic() - start)

        numbers = [counter[end] for end in running.ENDS]
        _report(ROW.format(kind, counter.total(), *numbers, duration))
        counts[kind] = dict(counter)

    summary = json.dumps(counts)
    if options.save:
        Path(options.save).write_text(summary + "\n")
    print(summary)
    return any(end in running.BAD for counter in counts.values() for end in counter)


if __name__ == "__main__":
    sys.exit(main())
