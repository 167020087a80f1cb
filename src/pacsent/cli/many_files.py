"""What `embed` and `classify predict` share where they work on many files."""

import os

import click

from pacsent.cli.command_line import flag, given_encoder, option
from pacsent.cli.printing import echo_json
from pacsent.cli.text_inputs import text_options

SUFFIXES = (".npy", ".npz", ".tsv", ".csv", ".jsonl", ".parquet")  # of one file
_NAMES = ("text_column", "input_format", "keep_columns", "format", "on_error", "ray", "ray_address")


def shard_options(command):
    """The options of tables and of many files, in the order of the help."""
    for decorate in (
        option("--ray-address", "The Ray cluster to use.", metavar="ADDRESS"),
        flag(
            "--ray", "Many files: work on a Ray cluster, one on this machine without --ray-address."
        ),
        option(
            "--on-error",
            "Report bad rows and files and go on (exit status 1 at the end), or stop at the "
            "first.  [default: stop for one file, report for many]",
            click.Choice(["report", "stop"]),
        ),
        option(
            "--format",
            "Many files: format of the output.  [default: parquet]",
            click.Choice(["parquet", "jsonl"]),
        ),
        option(
            "--keep-columns",
            "Input column to keep in the output; may be repeated, '*' keeps all.",
            multiple=True,
            metavar="COLUMN",
        ),
        text_options,
    ):
        command = decorate(command)
    return command


def pop_options(given: dict) -> dict:
    """The options of tables and of many files, taken out of the others."""
    return {name: given.pop(name) for name in _NAMES}


def is_many(sources, output, how: dict) -> bool:
    """Whether to go file by file: many or remote sources, or a folder as output."""
    from pacsent.scale import is_url

    many = len(sources) > 1 or any(
        is_url(s) or os.path.isdir(s) or (not os.path.exists(s) and set("*?[") & set(s))
        for s in sources
    )
    folder = (
        output is not None
        and output != "-"
        and (is_url(output) or os.path.isdir(output) or output.endswith("/"))
    )
    set_options = [name for name in ("ray", "ray_address", "format") if how[name]]
    if not (many or folder or set_options):
        return False
    why = "Many files" if many or folder else f"--{set_options[0].replace('_', '-')}"
    if "-" in sources or not sources:
        raise click.UsageError(f"{why} need files, folders or addresses as sources, not stdin.")
    if output is None or output == "-":
        raise click.UsageError(f"{why} need a folder to write to: -o FOLDER.")
    if how["input_format"] is not None:
        raise click.UsageError("--input-format is for one file. Many files have their suffixes.")
    suffix = os.path.splitext(output)[1].lower()
    if many and not folder and suffix in SUFFIXES:
        raise click.UsageError(
            f"{why} are written to a folder, one file for each. Got -o {output}: name a folder."
        )
    return True


def check_source(path) -> None:
    """Refuse a source that does not exist."""
    if path != "-" and not os.path.exists(path):
        raise click.BadParameter(f"Path {path!r} does not exist.", param_hint="TEXTS")


def run_shards(
    function, model, sources, output, how: dict, *, n_jobs, overwrite, quiet, as_json, **job
):
    """Call embed_shards or predict_shards, and print a line about all and one for each problem.

    The exit status is 1 if there was any.
    """
    engine = None
    if how["ray"] or how["ray_address"] is not None:
        from pacsent.scale import on_ray

        engine = on_ray(how["ray_address"])
    manifest = function(
        model,
        sources,
        output,
        text_column=how["text_column"],
        format=how["format"],
        on_error=how["on_error"] or "report",
        n_jobs=n_jobs,
        overwrite=overwrite,
        verbose=not quiet,
        engine=engine,
        encoder=given_encoder(),
        **job,
    )
    totals = manifest.totals()
    if as_json:
        echo_json({"manifest": manifest.path, "totals": totals, "failed": manifest.failed})
    coverage = totals["coverage"]
    if not quiet:
        known = "" if coverage is None else f", {100 * coverage:.1f} % of words known"
        click.echo(
            f"{totals['rows']:,} rows of {totals['files']:,} "
            f"{'file' if totals['files'] == 1 else 'files'}{known}, {totals['empty']:,} "
            "without a known word" + (f"; see {manifest.path}" if manifest.path else ""),
            err=True,
        )
    if coverage is not None and coverage < 0.5:
        click.echo(
            f"Warning: Only {100 * coverage:.0f} % of the words are known. The text is likely in "
            "another language or of another kind than the vocabulary.",
            err=True,
        )
    for record in manifest.files.values():
        for text in record.warnings:
            click.echo(f"Warning: {record.source}: {text}", err=True)
        for bad in record.bad:
            click.echo(f"Bad row: {record.source}, {bad['place']}: {bad['error']}", err=True)
        if record.bad_rows > len(record.bad):
            click.echo(f"Bad row: {record.source}: {record.bad_rows:,} in all", err=True)
    for source, error in manifest.failed.items():
        click.echo(f"Failed: {'' if error.startswith(source) else f'{source}: '}{error}", err=True)
    if manifest.failed or totals["bad_rows"]:
        click.get_current_context().exit(1)
