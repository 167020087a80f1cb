"""Run the Python of the pages and write what it prints into their ```output blocks; `--check`
compares. Words must be equal; numbers may differ a little, as processors round.

The commands of ```shell-session blocks are run too, beside the CSV files of the demo and the files
that the page's Python wrote; what they print stands below them. A page whose blocks build on each
other needs one folder, so the Python runs first.

python docs/make_outputs.py [--check] [PAGE ...]
"""

import argparse
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(python|output)\n(.*?)```", re.S)
SESSION = re.compile(r"```shell-session\n(.*?)```", re.S)
WIDTH = 78  # of the lines that commands print: a block of the site beside two sidebars
END = "<end of output>"


def close(one: str, other: str, tolerance: float) -> bool:
    """Equal in words, and in every number up to the tolerance."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.sub("#", one) != number.sub("#", other):
        return False
    pairs = zip(number.findall(one), number.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= tolerance for a, b in pairs)


def pages() -> list[Path]:
    """The pages that show outputs."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = re.compile(r"```(output|shell-session)\n")
    return [page for page in found if shown.search(page.read_text(encoding="utf-8"))]


def printed(text: str, folder: str) -> list[str]:
    """What the Python of a page, run in a folder, prints before each of its output blocks."""
    blocks = BLOCK.findall(text)
    code = "\n".join(part if kind == "python" else f"print({END!r})" for kind, part in blocks)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout.split(f"{END}\n")[:-1]


def with_outputs(text: str, outputs: list[str]) -> str:
    """The page with these outputs."""
    left = iter(outputs)
    return BLOCK.sub(lambda m: f"```output\n{next(left)}```" if m[1] == "output" else m[0], text)


def with_sessions(text: str, folder: str) -> str:
    """The page with what the commands of its ```shell-session blocks, run in a folder, print."""
    return SESSION.sub(lambda block: f"```shell-session\n{session(block[1], folder)}```", text)


def remade(text: str) -> str:
    """The page with all that its code and its commands print."""
    with tempfile.TemporaryDirectory() as folder:
        if SESSION.search(text):
            from pacsent.demo import write_tables

            write_tables(folder)
        return with_sessions(with_outputs(text, printed(text, folder)), folder)


def session(block: str, folder: str) -> str:
    """The commands of a block, each followed by what it prints."""
    lines = []
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        done = subprocess.run(
            ["bash", "-c", f'pacsent() {{ "$0" -m pacsent "$@"; }}; {command}', sys.executable],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{line}\n{done.stdout[-2000:]}")
        lines.append(line)
        for output_line in done.stdout.splitlines():
            lines += textwrap.wrap(output_line, WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, default=pages())
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        made = remade(text)
        if not options.check:
            page.write_text(made, encoding="utf-8")
        elif not close(text, made, 0.011):
            raise SystemExit(f"{page.name} shows other outputs than its code prints: make pages")


if __name__ == "__main__":
    main()
