"""Install each extra of the tests by itself and run the tests that need it.

The extras are those of pyproject.toml that begin with `test-`; a test names its extra in the marker
`extra(needs=...)`. An extra that cannot be installed is reported and leaves the others. A test of
an installed extra may only skip for lack of a GPU or of real data.

    python scripts/test_extras.py             # all, into the environment of this Python
    python scripts/test_extras.py ray s3      # two of them
    python scripts/test_extras.py --strict    # an extra that cannot be installed is an error
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = [
    name.removeprefix("test-")
    for name in PROJECT["optional-dependencies"]
    if name.startswith("test-")
]
OUTCOMES = ("passed", "skipped", "failed", "errors")


def run(*command: str, **environment: str) -> tuple[int, list[str]]:
    """Run a command, show its output and return its exit status and lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line.rstrip())
    return process.wait(), lines


def install(extra: str) -> str:
    """Install an extra; returns why it cannot be, or nothing."""
    pip = ("pip", "install", "--quiet", "--disable-pip-version-check")
    status, lines = run(*pip, "-e", f".[test-{extra}]")
    if status == 0 and extra == "browser":
        browser = subprocess.run([ROOT / "scripts" / "install-browser"])
        status, lines = browser.returncode, ["ERROR: no browser"]
    errors = [line for line in lines if line.lower().startswith("error")]
    return "" if status == 0 else (errors or lines or ["pip failed"])[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(EXTRAS)}")
    parser.add_argument("--strict", action="store_true", help="fail if one cannot be installed")
    options = parser.parse_args()
    if unknown := sorted(set(options.extras) - set(EXTRAS)):
        parser.error(f"EXTRA must be one of {', '.join(EXTRAS)}. Got {', '.join(unknown)}")

    failed, missing, rows = [], [], []
    for extra in options.extras or EXTRAS:
        print(f"== {extra}", flush=True)
        if problem := install(extra):
            missing.append(extra)
            rows.append(f"{extra:<12} no         {problem}")
            continue
        marker = f'pytest.mark.extra(needs="{extra}")'
        files = [
            str(path)
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
            if marker in path.read_text(encoding="utf-8")
        ]
        status, lines = run(
            *("pytest", "-p", "no:cacheprovider", "--durations", "5"),
            *("-m", f"extra(needs={extra!r}) and not gpu", *files),
            CI="1",
            PACSENT_MAY_SKIP="a GPU,real data",
        )
        counts = dict.fromkeys(OUTCOMES, 0)
        for number, outcome in re.findall(r"(\d+) ([a-z]+)", lines[-1] if lines else ""):
            counts[outcome] = int(number)
        n_failed = counts["failed"] + counts["errors"] + counts.get("error", 0)
        if status:
            failed.append(extra)
        verdict = f"FAILED, exit status {status}" if status else ""
        rows.append(
            f"{extra:<12} yes       {counts['passed']:>7}{counts['skipped']:>9}{n_failed:>8}"
            f"  {verdict}".rstrip()
        )
    print("\nextra        installed  passed  skipped  failed", *rows, sep="\n")
    return int(bool(failed or (options.strict and missing)))


if __name__ == "__main__":
    sys.exit(main())
