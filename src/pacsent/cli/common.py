"""What the families of commands share: the group itself, and how warnings are shown."""

import sys

import click

import pacsent


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """Sentence vectors with a promise attached."""


def echo_warnings(caught):
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {text}", err=True)


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    print(f"Warning: {message}", file=sys.stderr)
