"""Commands about saved models: check."""

import click

from pacsent.cli.command_line import PATH, cli, json_option
from pacsent.cli.printing import echo_json


@cli.command()
@click.argument("model", type=PATH)
@json_option
@click.pass_context
def check(context, model, as_json):
    """Check the checksums of a saved MODEL.

    Every byte of the folder is compared with what was saved, and each check is printed. The exit
    status is 1 if something differs. Checksums find damage by disks and copies; they do not protect
    against a person who writes new ones.
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
