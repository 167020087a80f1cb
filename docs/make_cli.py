"""Write docs/cli.md from the commands' own help; `--check` only says if it is up to date."""

import argparse
from pathlib import Path

import click

from pacsent.cli import cli

HEAD = """# The command line

Results go to stdout, progress and warnings to stderr; `--json` prints one JSON object for scripts.
Exit status: 0 success, 1 a mistake in the data, 2 a mistake in the command line, 130 interrupted.
Files are written beside their place and moved there when whole, so an interrupted command leaves
what was there before. Commands that take long show progress on stderr; `--quiet` turns it off.
A mistake is one line that names the option as it is typed; `PACSENT_DEBUG=1` shows the traceback.
`--n-jobs` counts threads as scikit-learn does: all cores when left out or -1, all but one with -2.
Where a GPU can be used, `--device cuda` or `--device cuda:1` uses it.

Completion of commands and options by the tab key, for bash (`zsh_source` and `fish_source` for the
others), in `~/.bashrc`:

```
eval "$(_PACSENT_COMPLETE=bash_source pacsent)"
```

This page is made by `docs/make_cli.py` from the commands' own help.

"""


def page() -> str:
    parts = [HEAD]
    for title, names in cli.families().items():
        parts.append(f"## {title}\n\n")
        for name in names:
            command = cli.commands[name]
            context = click.Context(
                command, info_name=f"pacsent {name}", terminal_width=96, max_content_width=96
            )
            parts.append(f"### `pacsent {name}`\n\n```\n{command.get_help(context)}\n```\n\n")
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
