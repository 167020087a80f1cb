"""Write share/, man page and completions, from the commands' own help; `--check` compares."""

import argparse
import re
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from pacsent.cli import cli
from pacsent.cli.command_line import FAMILIES

SHARE = Path(__file__).parents[1] / "share"
COMPLETIONS = {
    "bash-completion/completions/pacsent": BashComplete,
    "zsh/site-functions/_pacsent": ZshComplete,
    "fish/vendor_completions.d/pacsent.fish": FishComplete,
}


def roff(text: str) -> str:
    """Text as troff takes it: no line begins with its marks."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def of_command(name: str, command: click.Command) -> list[str]:
    context = click.Context(
        command, info_name=f"pacsent {name}", max_content_width=80, show_default=True
    )
    lines = [f'.SS "{roff(name)}"', f".B {roff(command.get_usage(context)[7:])}", ".PP"]
    paragraphs = (command.help or "").split("\n\n")
    lines += [piece for text in paragraphs for piece in (roff(" ".join(text.split())), ".PP")]
    for option in command.params:
        record = option.get_help_record(context)
        if record and isinstance(option, click.Option):
            lines += [".TP", f".B {roff(record[0])}", roff(" ".join(record[1].split()))]
    if isinstance(command, click.Group):
        for inner, below in command.commands.items():
            lines += of_command(f"{name} {inner}", below)
    return lines


def man_page() -> str:
    lines = ['.TH PACSENT 1 "" "pacsent" "User Commands"', ".SH NAME",
             r"pacsent \- embed, search and classify texts, with error guarantees", ".SH SYNOPSIS",
             r".B pacsent \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]"]  # fmt: skip
    for title, names in cli.families().items():
        lines.append(f'.SH "{title.upper()}"')
        example = dict(FAMILIES.values())[title]
        lines += ["For example:", ".PP", ".nf", roff(example), ".fi"]
        for name in names:
            lines += of_command(name, cli.commands[name])
    lines += [".SH EXIT STATUS",
              "0 success, 1 a mistake in the data, 2 a mistake in the command line, 130 stopped, "
              "143 ended by SIGTERM."]  # fmt: skip
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """File -> what belongs into it."""
    found = {SHARE / "man/man1/pacsent.1": man_page()}
    for name, kind in COMPLETIONS.items():
        made = kind(cli, {}, "pacsent", "_PACSENT_COMPLETE")
        found[SHARE / name] = made.source_template % made.source_vars()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path, text in pages().items():
        if check and (not path.exists() or path.read_text() != text):
            raise SystemExit(f"{path.name} is out of date: python docs/make_man.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
