"""The help of every command as Markdown; `conf.py` writes it when the site is built."""

import click

from pacsent.cli import cli
from pacsent.cli.command_line import FAMILIES


def command_reference() -> str:
    """One section per command, with the text that `pacsent COMMAND --help` prints."""
    sections = []
    for family in FAMILIES:
        sections.append(f"## {family.title}")
        for name in family.commands:
            if " " in name:  # shown below its group
                continue
            command = cli.get_command(None, name)
            sections += command_sections(command, f"pacsent {name}", "###")
    return "\n\n".join(sections) + "\n"


def command_sections(command: click.Command, name: str, heading: str, parent=None) -> list[str]:
    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=96, max_content_width=96
    )
    sections = [f"{heading} `{name}`", f"```\n{command.get_help(context)}\n```"]
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            sections += command_sections(subcommand, f"{name} {inner}", f"{heading}#")
    return sections
