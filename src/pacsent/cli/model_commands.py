"""Commands about saved models: check."""

import click

from pacsent.cli.command_line import cli, json_option
from pacsent.cli.printing import echo_json


@cli.command()
@click.argument("model", type=click.Path())
@json_option
@click.pass_context
def check(context, model, as_json):
    """Check the saved MODEL to the last byte: word vectors, a fitted method, a classifier.

    Prints what was looked at. Exit status 1 if something is not as it was saved. Digests find
    damage by disks, copies and slips of the hand, not a person who writes new ones.
    """
    from pacsent.storage import check as look

    steps = look(model)
    sound = all(step["ok"] for step in steps)
    if as_json:
        echo_json({"model": model, "ok": sound, "checks": steps})
    else:
        for step in steps:
            click.echo(f"{'ok' if step['ok'] else 'DAMAGED':<9}{step['what']}: {step['found']}")
    context.exit(0 if sound else 1)
