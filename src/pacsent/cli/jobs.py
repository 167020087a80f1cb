"""From texts to vectors or classes: what `embed` and `predict` share."""

import contextlib
import glob
import os
from collections import Counter

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import params
from pacsent.cli.inputs import say, warn_of_fitted
from pacsent.cli.printing import echo, echo_json


def job_options(command):
    """The options of files to files."""
    for decorate in (
        params.quiet,
        lambda c: params.as_json(c, "Print a JSON object per text; with -o, about the file."),
        params.overwrite,
        params.option(
            "--on-error",
            "Report bad rows and continue, or stop.  [default: stop for one file, report for many]",
            click.Choice(["report", "stop"]),
        ),
        params.repeated("--keep-columns", "Input column to keep; '*' keeps all.", "COLUMN"),
        params.id_column,
        params.text_columns,
        params.n_jobs,
        params.model_encoder,
        params.option(
            "-o --output",
            "A file that ends in .csv, .tsv, .jsonl or .parquet (embed: or .npy); for many files a "
            "folder or URL.  [default: tab-separated values on stdout]",
            params.PATH,
        ),
    ):
        command = decorate(command)
    return command


def run_job(job, sources, options: dict, cells: dict | None = None, left_out=None) -> None:
    """Compute and write the results, and report on stderr; exit status 1 for bad rows and files.

    `cells` format the columns of predictions as text; without it the results are vectors. Which
    rows of one file are left out of the comparison is written to the file `left_out`.
    """
    from pacsent.storage import public_url

    output, quiet, comparison = options["output"], options["quiet"], None
    id_column = options["id_column"]
    if id_column is not None and "*" not in options["keep_columns"]:
        options["keep_columns"] = tuple(dict.fromkeys([id_column, *options["keep_columns"]]))
    if output == "-":
        output = None
    if _is_many(sources, output):
        if left_out is not None:
            raise click.UsageError("--left-out is for one file. Leave it out.")
        from pacsent.scale.shard_runner import run

        manifest = run(
            job,
            sources,
            output,
            text_column=options["text_column"],
            keep_columns=_kept_columns(options, cells),
            on_error=options["on_error"] or "report",
            n_jobs=options["n_jobs"],
            overwrite=options["overwrite"],
            verbose=not quiet,
        )
    else:
        path = sources[0] if sources else "-"
        manifest, comparison = _run_one(job, path, output, options, cells, left_out)
    totals = manifest.totals()
    manifest_path = manifest.path and public_url(manifest.path)
    if options["as_json"] and output is not None:
        about = {"model": public_url(job.model), "output": public_url(output)}
        about["manifest"] = manifest_path
        if comparison is not None:
            about["comparison"] = comparison.to_dict()
        echo_json({**about, **totals, "failed": manifest.failed, "outdated": manifest.outdated})
    coverage = totals["coverage"]
    files = f" of {format_count(totals['files'], 'file')}" if manifest_path else ""
    known = "" if coverage is None else f", {100 * coverage:.1f}% of words in vocabulary"
    empty = f"{totals['empty']:,} " + ("empty" if coverage is None else "without any")
    see = f"; see {manifest_path}" if manifest_path else ""
    say(quiet)(f"{format_count(totals['rows'], 'row')}{files}{known}, {empty}{see}")
    if coverage is not None and coverage < 0.5:
        known = f"Only {100 * coverage:.0f}% of the words are in the vocabulary"
        echo(f"Warning: {known}: likely another language or kind of text.", err=True)
    for record in manifest.files.values():
        for text in record.warnings:
            echo(f"Warning: {record.source}: {text}", err=True)
        for bad in record.bad:
            echo(f"Bad row: {record.source}, {bad['place']}: {bad['error']}", err=True)
        if record.bad_rows > len(record.bad):
            echo(f"Bad row: {record.source}: {record.bad_rows:,} in all", err=True)
    for source, error in manifest.failed.items():
        echo(f"Failed: {'' if error.startswith(source) else f'{source}: '}{error}", err=True)
    if manifest.failed or totals["bad_rows"]:
        click.get_current_context().exit(1)
    if comparison is not None and comparison.differs:
        click.get_current_context().exit(3)


def _kept_columns(options: dict, cells) -> tuple[str, ...]:
    """The columns of the input that an output file has: of predictions all, unless some are named.

    The id column alone does not change this.
    """
    named = [name for name in options["keep_columns"] if name != options["id_column"]]
    if cells and not named:
        return ("*",)
    return tuple(options["keep_columns"])


def _is_many(sources, output) -> bool:
    """Whether to go file by file: many or remote sources, or a folder as output."""
    from pacsent.scale import is_url

    is_folder = output is not None and (
        is_url(output) or os.path.isdir(output) or output.endswith("/")
    )
    for path in sources:
        if path != "-" and not (is_url(path) or os.path.exists(path) or glob.glob(path)):
            hint = "A text is given by a pipe: echo TEXT | pacsent predict MODEL -"
            hint = hint if " " in path else "Give a file with one text per line, or a table."
            message = f"There is no file {path!r}. {hint}"
            raise click.BadParameter(message, param_hint="TEXTS")
    has_many = len(sources) > 1 or any(not os.path.isfile(s) and s != "-" for s in sources)
    if not (has_many or is_folder):
        return False
    if output is None or (has_many and not is_folder and os.path.splitext(output)[1]):
        message = f"Many files need a folder to write to: -o FOLDER. Got {output or 'stdout'}."
        raise click.UsageError(message)
    return True


def _run_one(job, path, output, options: dict, cells, left_out):
    """One file or stdin to one file or stdout; a manifest that has one record."""
    from pacsent import threads
    from pacsent.arrays import are_among
    from pacsent.certify.drift_check import DriftCheck
    from pacsent.certify.samples import recorded, row_fingerprints
    from pacsent.files import check_output
    from pacsent.progress import bar
    from pacsent.scale import Manifest
    from pacsent.scale.shard_writer import Record, result_batches
    from pacsent.text import result_files
    from pacsent.text.ngrams import is_empty
    from pacsent.text.tables import TextTable, as_list, describe_table, output_names

    quiet, keep = options["quiet"], options["keep_columns"]
    suffix = ".jsonl" if options["as_json"] else "lines" if cells else "plain"
    if output is not None:
        try:
            allowed = result_files.TABLES if cells else (".npy", *result_files.TABLES)
            suffix = result_files.check_suffix(output, allowed, texts=bool(keep))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-o") from None
    check_output(output, [job.model, path], overwrite=options["overwrite"])
    if left_out is not None:
        result_files.check_suffix(left_out, result_files.TABLES)
        check_output(left_out, [job.model, path, output], overwrite=options["overwrite"])
    opened = job.open()
    for reason in job.caveats(opened):
        echo(f"Warning: {reason}", err=True)
    run_batch = job.load(opened)
    counts: Counter = Counter()
    known = None
    check = None
    if cells:
        classifier, rule = opened
        known = recorded(classifier, "fingerprints")
        if rule is not None and rule.threshold is not None:
            check = DriftCheck(classifier, keep_all=left_out is not None)

    def compute(texts, is_bad=None):
        batch = run_batch(texts, is_bad)
        if known is None:
            return batch
        kept = [text for text in as_list(texts) if not is_empty(text)]
        is_fitted = are_among(row_fingerprints(kept), known)
        return batch._replace(n_fitted=int(is_fitted.sum()))

    def observe(batch):
        counts["fitted"] += batch.n_fitted
        counts["answered"] += batch.n_answered
        if check is not None:
            check.add(*batch.scored)

    table = TextTable(path, kind=options["input_format"], text_column=options["text_column"])
    if output is not None:
        keep = _kept_columns(options, cells)
    ids: list = []  # of all rows, if they have names
    record = Record(table.name, 0, "", output or "stdout")
    kept_columns = list(dict.fromkeys(table.check_columns(keep)))
    _, renamed = output_names(kept_columns, list(run_batch([]).columns), table.name)
    for note in renamed:
        echo(f"Warning: {note}", err=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(table)
        shown = stack.enter_context(bar(job.command, unit="texts", enabled=not quiet))
        batches = result_batches(
            table,
            compute,
            record,
            keep_columns=keep,
            on_error=options["on_error"] or "stop",
            batch_size=job.batch_size,
            n_threads=threads.n_threads(options["n_jobs"]),
            advance=shown.advance,
            observe=observe,
        )
        stack.callback(batches.close)  # ends its threads if writing fails
        if left_out is not None and options["id_column"] is not None:
            batches = _collect(batches, options["id_column"], ids)
        if suffix == "plain":
            batches = ({k: v for k, v in batch.items() if k != "variance"} for batch in batches)
        elif cells and suffix not in (".jsonl", ".parquet"):
            batches = (
                {k: list(map(cells[k], as_list(v))) if k in cells else v for k, v in batch.items()}
                for batch in batches
            )
        result_files.write(batches, output, overwrite=options["overwrite"], suffix=suffix)
    record.warnings = [warning for warning in record.warnings if warning not in renamed]
    say(quiet)(describe_table(table, record.rows))
    warn_of_fitted(counts["fitted"], record.rows)
    comparison = None
    if check is not None:
        with bar("compare with the calibration set", unit="", enabled=not quiet):
            comparison = check.result()
        n_texts = record.rows - record.empty
        part = f"{counts['answered']:,} of {format_count(n_texts, 'text')}"
        if comparison.differs:
            echo(f"Warning: {comparison.message}", err=True)
        elif comparison.holds_only_if:
            echo(f"Warning: {comparison.message}", err=True)
            if not rule.no_answers:
                say(quiet)(f"{rule.statement} Answered: {part}.")
        elif not rule.no_answers:
            say(quiet)(f"{rule.statement} Answered: {part}. {comparison.message}")
        if left_out is not None:
            write_left_out(
                left_out,
                comparison.left_out,
                ids,
                options["id_column"],
                overwrite=options["overwrite"],
            )
            n_left_out = format_count(len(comparison.left_out), "row")
            say(quiet)(f"wrote {left_out}: {n_left_out} left out")
    elif cells and not hasattr(opened[0], "certificate_"):
        say(quiet)(
            "No guarantee: the model has no certificate, and the texts were compared with none. "
            "Train without --no-calibration, or certify it."
        )
    manifest = Manifest(output, {})
    manifest.path = None
    manifest.files[table.name] = record
    return manifest, comparison


def _collect(batches, name, values: list):
    """The batches, while a column of them is collected."""
    from pacsent.text.tables import as_list

    for batch in batches:
        # A column with the name of a result is renamed in the output.
        column = batch[name if name in batch else f"input_{name}"]
        values += as_list(column)
        yield batch


def write_left_out(path, left_out, ids, id_column, *, overwrite: bool) -> None:
    """Write which rows were left out, with their ids if there are any, and why.

    Rows are counted from 0 in `left_out`, and from 1 in the file.
    """
    from pacsent.text import result_files

    columns = {"row": [row + 1 for row, _ in left_out]}
    if ids:
        columns[id_column] = [ids[row] for row, _ in left_out]
    columns["reason"] = [reason for _, reason in left_out]
    result_files.write([columns], path, overwrite=overwrite)
