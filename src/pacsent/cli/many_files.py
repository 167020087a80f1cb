"""What `embed` and `classify predict` share where they go from shard to shard."""

import os

import click

from pacsent.cli.printing import echo_json

_NAMES = ("text_column", "carry", "format", "on_error", "ray", "ray_address")
_TABLES = ("parquet", "jsonl", "csv", "tsv")
_FILES = (".npy", ".npz", ".tsv", ".jsonl", ".parquet")


def shard_options(command):
    """The options of shards, in the order of the help."""
    for option in (
        click.option("--ray-address", metavar="ADDRESS", help="The Ray cluster to use."),
        click.option(
            "--ray",
            is_flag=True,
            help="Many files: work on a Ray cluster, one on this machine without --ray-address.",
        ),
        click.option(
            "--on-error",
            type=click.Choice(["report", "stop"]),
            help="Many files: report bad files and rows and go on (status 1 at the end), or stop "
            "at the first.  [default: report]",
        ),
        click.option(
            "--format",
            type=click.Choice(["parquet", "jsonl"]),
            help="Many files: what is written.  [default: parquet]",
        ),
        click.option(
            "--carry",
            multiple=True,
            metavar="COLUMN",
            help="A column that goes along; may be repeated, '*' takes all.",
        ),
        click.option(
            "--text-column", help="Column of the text in tables.  [default: text]", metavar="COLUMN"
        ),
    ):
        command = option(command)
    return command


def taken(given: dict) -> dict:
    """The options of shards, taken out of the others."""
    return {name: given.pop(name) for name in _NAMES}


def wanted(sources, output, how: dict, *, columns: bool = True, ids: bool = False) -> bool:
    """Whether to go file by file: many or far sources, tables, or a folder as output.

    `columns` says whether a table or a text column alone asks for it; lines of ID<TAB>TEXT (`ids`)
    may well be called .tsv.
    """
    from pacsent.scale.places import is_address, kind_of

    asked = [name for name, value in how.items() if value and (columns or name != "text_column")]
    kinds = {kind_of(os.path.basename(s))[0] for s in sources} - ({"tsv"} if ids else set())
    tables = columns and not kinds.isdisjoint(_TABLES)
    many = len(sources) > 1 or any(
        is_address(s) or os.path.isdir(s) or (not os.path.exists(s) and set("*?[") & set(s))
        for s in sources
    )
    folder = output is not None and output != "-" and (
        is_address(output) or os.path.isdir(output) or output.endswith("/")
    )  # fmt: skip
    if not (asked or many or folder or tables):
        return False
    why = "Many files and tables" if many or tables or folder else f"--{asked[0].replace('_', '-')}"
    if "-" in sources or not sources:
        raise click.UsageError(f"{why} need files, folders or addresses as sources, not stdin.")
    if output is None or output == "-":
        raise click.UsageError(f"{why} need a folder to write to: -o FOLDER.")
    suffix = os.path.splitext(output)[1].lower()
    if suffix in (".parquet", ".jsonl") and not many:
        how["format"] = how["format"] or suffix[1:]  # one table to one file
    elif suffix in _FILES and not os.path.isdir(output):
        raise click.UsageError(
            f"{why} are written to a folder, a file for each. Got -o {output}: name a folder."
        )
    return True


def embed(model, sources, output, how: dict, given: dict, *, overwrite, quiet, as_json):
    """Shards to vectors."""
    from pacsent.scale import embed_shards

    if given.pop("ids"):
        raise click.UsageError("--ids is for lines of text. Carry the column: --carry id.")
    column = how["text_column"] or "text"
    carry = list(how["carry"])
    if given.pop("keep_text") and column not in carry and carry != ["*"]:
        carry.append(column)
    method, unknown, n_jobs = (given.pop(name) for name in ("method", "unknown", "n_jobs"))
    params = {name: value for name, value in given.items() if value is not None}
    if params.get("on_empty") == "warn":
        del params["on_empty"]
    manifest = embed_shards(
        model, sources, output, text_column=column, carry=carry, method=method, unknown=unknown,
        params=params, **_how(how, n_jobs, overwrite, quiet),
    )  # fmt: skip
    _report(manifest, quiet, as_json)


def predict(model, sources, output, how: dict, given: dict, *, overwrite, quiet, as_json):
    """Shards to classes."""
    from pacsent.scale import predict_shards

    manifest = predict_shards(
        model, sources, output, text_column=how["text_column"] or "text", carry=how["carry"],
        error=given["error"], delta=given["delta"],
        **_how(how, given["n_jobs"], overwrite, quiet),
    )  # fmt: skip
    _report(manifest, quiet, as_json)


def _how(how: dict, n_jobs, overwrite, quiet) -> dict:
    return {
        "format": how["format"] or "parquet",
        "on_error": how["on_error"] or "report",
        "n_jobs": n_jobs,
        "overwrite": overwrite,
        "verbose": not quiet,
        "engine": _engine(how),
    }


def _engine(how: dict):
    if not how["ray"] and how["ray_address"] is None:
        return None
    from pacsent.scale import on_ray

    return on_ray(how["ray_address"])


def _report(manifest, quiet: bool, as_json: bool) -> None:
    """A line about all, one for each kind of trouble; exit status 1 where there was any."""
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
        told = error if error.startswith(source) else f"{source}: {error}"
        click.echo(f"Failed: {told}", err=True)
    if manifest.failed or totals["bad_rows"]:
        click.get_current_context().exit(1)
