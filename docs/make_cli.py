"""The help of every command as Markdown; `conf.py` writes it when the site is built."""

import click

from pacsent.cli import cli


def command_reference() -> str:
    """One section per command, with the text that `pacsent COMMAND --help` prints."""
    sections = []
    for title, names in cli.families().items():
        sections.append(f"## {title}")
        for name in names:
            sections += command_sections(cli.commands[name], f"pacsent {name}", "###")
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
