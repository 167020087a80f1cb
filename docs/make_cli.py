"""Write docs/cli.md from the commands' own help; `--check` only says if it is up to date."""

import argparse
from pathlib import Path

import click

from pacsent.cli import cli

HEAD = """# The command line

Results go to stdout, progress and warnings to stderr; `--json` prints one JSON object for scripts.
Exit status: 0 success, 1 a mistake in the data, 2 a mistake in the command line, 130 interrupted.
Files are written beside their place and moved there when whole, so an interrupted command leaves
what was there before. This page is made by `docs/make_cli.py` from the commands' own help.

"""


def page() -> str:
    parts = [HEAD]
    for name, command in cli.commands.items():
        context = click.Context(
            command, info_name=f"pacsent {name}", terminal_width=96, max_content_width=96
        )
        parts.append(f"## `pacsent {name}`\n\n```\n{command.get_help(context)}\n```\n\n")
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    path = Path(__file__).parent / "cli.md"
    if parser.parse_args().check:
        raise SystemExit(
            0 if path.read_text() == page() else "docs/cli.md is out of date: make docs"
        )
    path.write_text(page())
