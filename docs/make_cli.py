"""Write docs/cli.md from the commands' own help; `--check` only says if it is up to date."""

import argparse
from pathlib import Path

import click

from pacsent.cli import cli

HEAD = """# The command line

This page lists every command with its options. Results go to stdout, progress and warnings to
stderr; `--json` prints one JSON object for scripts. Exit status: 0 success, 1 an error in the
data, 2 an error in the command line, 130 interrupted (Ctrl-C, SIGINT), 143 ended by SIGTERM;
`train` writes a checkpoint on both signals. Commands that take long show progress on stderr;
`--quiet` turns it off. An error is one line that names the option as it is typed;
`PACSENT_DEBUG=1` shows the traceback. `--n-jobs` counts threads as scikit-learn does: all cores
when left out or -1, all but one with -2. Where a GPU can be used, `--device cuda` or `--device
cuda:1` uses it.

**Texts.** Every command that takes texts reads a file with one text per line, a table (`.csv`,
`.tsv`, `.jsonl`, `.parquet`, packed or not), or `-` for stdin. `--text-column` names the column
of a table; the default is `text`, or the only column. `--input-format csv` says the format of
stdin. A line on stderr says what was read. A row that cannot be read is refused with its line. A
CSV or TSV has a header and quotes values that hold its separator, a line break or a leading
quotation mark.

```
$ pacsent classify predict model reviews.csv -o answers.csv
Read 5,000 rows of reviews.csv, column text.
```

**Output.** The suffix of `-o` says the format, and one input file gives one output file. A column
of the input that has the name of a column of the output is renamed (`input_label`), and a line
says so.

Files and folders are written next to their place and moved there when whole, so a command that is
stopped leaves what was there before. Existing output is replaced with `--overwrite` only, be it a
model or a plain file (an empty one has nothing to lose; devices and pipes are written to as they
are), and an input never. A process that is killed outright leaves a hidden
`.NAME.saving-HOST-PID-*`; the next command that writes into the same folder removes it and says
so. `reproduce` continues with what its folder holds.

Packed input (.gz, .bz2, .xz, .zst) is unpacked on the way. An archive that unfolds to more than
1 GiB and more than 200 times its size is refused; `PACSENT_UNPACK_LIMIT=1000` allows 1,000 times,
`PACSENT_UNPACK_LIMIT=0` any size.

In a container, or wherever the system is read-only and there is no home folder, compiled code goes
to a private folder under the temporary one, and a line on stderr says so; without that either it is
compiled at every start. Set `NUMBA_CACHE_DIR` to a folder that lasts (a volume), or fill the cache
while the image is built: run the commands once on a line of text as the user who will run them,
with `PACSENT_COMPILE=1`, which compiles for small inputs too.

A man page and completions for bash, zsh and fish come with the package, under `share/`; where the
shell does not look there, a line in `~/.bashrc` completes commands and options by the tab key
(`zsh_source` and `fish_source` for the other shells):

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
                command, info_name=f"pacsent {name}", terminal_width=96, max_content_width=96,
                show_default=True,
            )  # fmt: skip
            parts.append(f"### `pacsent {name}`\n\n```\n{command.get_help(context)}\n```\n\n")
            if isinstance(command, click.Group):
                for inner, one in command.commands.items():
                    below = click.Context(one, parent=context, info_name=inner, terminal_width=96)
                    shown = one.get_help(below)
                    parts.append(f"#### `pacsent {name} {inner}`\n\n```\n{shown}\n```\n\n")
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    path = Path(__file__).parent / "cli.md"
    if parser.parse_args().check:
        raise SystemExit(
            0 if path.read_text() == page() else "docs/cli.md is out of date: make pages"
        )
    path.write_text(page())
