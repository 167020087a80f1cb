"""python -m hostile [--part python|commands|server] [--like TEXT], in the folder `tests`."""

import argparse
import json
import sys

from hostile import command_lines, material, python_calls, running, server_requests

PARTS = {
    "python": python_calls.cases,
    "commands": command_lines.cases,
    "server": server_requests.cases,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), help="one part only")
    parser.add_argument("--like", default="", help="cases whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    options = parser.parse_args()
    material.prepare()
    if options.part in (None, "server"):
        server_requests.app()
    cases = [
        case
        for name, make in PARTS.items()
        if options.part in (None, name)
        for case in make()
        if options.like in case.name
    ][:: options.every]
    counts = running.run_all(cases, tell=lambda text: print(text, flush=True))
    print(json.dumps({"cases": len(cases), **{kind: counts[kind] for kind in running.BAD}}))
    return any(counts[kind] for kind in running.BAD)


if __name__ == "__main__":
    sys.exit(main())
