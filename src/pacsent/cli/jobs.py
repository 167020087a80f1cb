"""From texts to vectors or classes: the work of `embed` and `predict`."""

import contextlib
import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import params
from pacsent.cli.command_line import options_in
from pacsent.cli.inputs import say, warn_of_fitted
from pacsent.cli.printing import echo, echo_json

_on_error = params.option(
    "--on-error",
    "Report bad rows and continue, or stop.  [default: stop for one file, report for many]",
    click.Choice(["report", "stop"]),
)
_keep_columns = params.repeated("--keep-columns", "Input column to keep; '*' keeps all.", "COLUMN")
_output = params.option(
    "-o --output",
    "A file that ends in .csv, .tsv, .jsonl or .parquet (embed: or .npy); for many files a "
    "folder or URL.  [default: tab-separated values on stdout]",
    params.PATH,
)
Cells = dict[str, Callable[[Any], str]]  # column: its values as text


def job_options(command: Callable) -> Callable:
    """The options of files to files."""
    command = params.quiet(command)
    command = params.as_json(command, "Print a JSON object per text; with -o, about the file.")
    command = params.overwrite(command)
    command = _on_error(command)
    command = _keep_columns(command)
    command = params.id_column(command)
    command = params.text_columns(command)
    command = params.n_jobs(command)
    command = params.model_encoder(command)
    return _output(command)


def run_job(
    job: Any,
    sources: Sequence[str],
    options: dict[str, Any],
    cells: Cells | None = None,
    left_out: str | None = None,
) -> None:
    """Compute and write the results, and report on stderr; exit status 1 for bad rows and files.

    `cells` format the columns of predictions as text; without it the results are vectors. The rows
    of one file that are left out of the comparison are written to the file `left_out`.
    """
    id_column = options["id_column"]
    if id_column is not None and "*" not in options["keep_columns"]:
        columns = [id_column, *options["keep_columns"]]
        options["keep_columns"] = tuple(dict.fromkeys(columns))
    output = None if options["output"] == "-" else options["output"]

    comparison = None
    if _is_many(sources, output):
        if left_out is not None:
            raise click.UsageError("--left-out is for one file. Leave it out.")
        manifest = _run_many(job, sources, output, options, cells)
        if cells:
            say(options["quiet"])(
                "Not compared with the calibration set: drift is looked for in one file only."
            )
    else:
        path = sources[0] if sources else "-"
        run = _OneFile(job, path, output, options, cells, left_out)
        manifest = run.compute()
        comparison = run.comparison

    totals = manifest.totals()
    if options["as_json"] and output is not None:
        echo_json(_describe_job(job, output, manifest, comparison))
    _report_totals(manifest, say(options["quiet"]))
    _report_problems(manifest)
    if manifest.failed or totals["bad_rows"]:
        click.get_current_context().exit(1)
    if comparison is not None and comparison.differs:
        click.get_current_context().exit(3)


def _run_many(
    job: Any,
    sources: Sequence[str],
    output: str | None,
    options: dict[str, Any],
    cells: Cells | None,
) -> Any:
    """Many files to files in a folder; returns their manifest."""
    from pacsent.scale.shard_runner import run

    return run(
        job,
        sources,
        output,
        text_column=options["text_column"],
        keep_columns=_kept_columns(options, cells),
        on_error=options["on_error"] or "report",
        n_jobs=options["n_jobs"],
        overwrite=options["overwrite"],
        verbose=not options["quiet"],
    )


def _describe_job(job: Any, output: str, manifest: Any, comparison: Any) -> dict[str, Any]:
    """The work in JSON."""
    from pacsent.storage import public_url

    description = {
        "model": public_url(job.model),
        "output": public_url(output),
        "manifest": manifest.path and public_url(manifest.path),
    }
    if comparison is not None:
        description["comparison"] = comparison.to_dict()
    description |= manifest.totals()
    return description | {"failed": manifest.failed, "outdated": manifest.outdated}


def _report_totals(manifest: Any, print_line: Callable[[str], None]) -> None:
    """Print how many rows were computed; a warning if few words are in the vocabulary."""
    from pacsent.storage import public_url

    totals = manifest.totals()
    coverage = totals["coverage"]
    line = format_count(totals["rows"], "row")
    if manifest.path:
        line += f" of {format_count(totals['files'], 'file')}"
    if coverage is None:
        line += f", {totals['empty']:,} empty"
    else:
        line += f", {100 * coverage:.1f}% of words in vocabulary, {totals['empty']:,} without any"
    if manifest.path:
        line += f"; see {public_url(manifest.path)}"
    if manifest.path or coverage is not None or totals["empty"]:
        print_line(line)

    if coverage is not None and coverage < 0.5:
        reason = f"Only {100 * coverage:.0f}% of the words are in the vocabulary"
        echo(f"Warning: {reason}: likely another language or kind of text.", err=True)


def _report_problems(manifest: Any) -> None:
    """Print warnings, bad rows and files that failed."""
    for record in manifest.files.values():
        for text in record.warnings:
            echo(f"Warning: {record.source}: {text}", err=True)
        for bad in record.bad:
            echo(f"Bad row: {record.source}, {bad['place']}: {bad['error']}", err=True)
        if record.bad_rows > len(record.bad):
            echo(f"Bad row: {record.source}: {record.bad_rows:,} in all", err=True)
    for source, error in manifest.failed.items():
        message = error if error.startswith(source) else f"{source}: {error}"
        echo(f"Failed: {message}", err=True)


def _kept_columns(options: dict[str, Any], cells: Cells | None) -> tuple[str, ...]:
    """The columns of the input that an output file has: of predictions all, unless some are named.

    The id column alone does not change this.
    """
    named = [name for name in options["keep_columns"] if name != options["id_column"]]
    if cells and not named:
        return ("*",)
    return tuple(options["keep_columns"])


def _is_many(sources: Sequence[str], output: str | None) -> bool:
    """Return True to go file by file: many or remote sources, or a folder as output."""
    from pacsent.scale import is_url

    for path in sources:
        _check_source(path)

    is_folder = False
    has_suffix = False
    if output is not None:
        is_folder = is_url(output) or os.path.isdir(output) or output.endswith("/")
        has_suffix = os.path.splitext(output)[1] != ""
    has_other = any(path != "-" and not os.path.isfile(path) for path in sources)
    has_many = len(sources) > 1 or has_other
    if not has_many and not is_folder:
        return False
    if output is None or (has_many and not is_folder and has_suffix):
        place = output or "stdout"
        message = f"Many files need a folder to write to: -o FOLDER. Got {place}."
        raise click.UsageError(message)
    return True


def _check_source(path: str) -> None:
    """Raise if a source is neither stdin, nor a URL, nor a file, nor a pattern of files."""
    from pacsent.scale import is_url

    if path == "-" or is_url(path) or os.path.exists(path) or glob.glob(path):
        return
    hint = "Give a file with one text per line, or a table."
    if " " in path:
        hint = "A text is given by a pipe: echo TEXT | pacsent predict MODEL -"
    message = f"There is no file {path!r}. {hint}"
    raise click.BadParameter(message, param_hint="TEXTS")


@dataclass
class _OneFile:
    """One file or stdin to one file or stdout."""

    job: Any
    path: str
    output: str | None
    options: dict[str, Any]
    cells: Cells | None
    left_out: str | None
    comparison: Any = None  # with the calibration set, after `compute`
    _says_drift: bool = False  # whether drift was found before the rows were written

    def compute(self) -> Any:
        """Write the results; returns a manifest that has one record."""
        from pacsent.progress import bar
        from pacsent.scale import Manifest
        from pacsent.scale.shard_writer import Record
        from pacsent.text import result_files
        from pacsent.text.tables import TextTable, describe_table

        options = self.options
        self._suffix = self._check_outputs()
        self._open_model()
        table = TextTable(
            self.path, kind=options["input_format"], text_column=options["text_column"]
        )
        self._keep_columns = options["keep_columns"]
        if self.output is not None:
            self._keep_columns = _kept_columns(options, self.cells)
        record = Record(table.name, 0, "", self.output or "stdout")
        renamed = self._warn_of_renamed(table)

        with contextlib.ExitStack() as stack:
            stack.enter_context(table)
            self._bars = stack.enter_context(contextlib.ExitStack())
            shown = self._bars.enter_context(
                bar(self.job.command, unit="texts", enabled=not options["quiet"])
            )
            batches = self._result_batches(table, record, shown.advance)
            stack.callback(batches.close)  # ends its threads if writing fails
            result_files.write(
                self._format(batches),
                self.output,
                overwrite=options["overwrite"],
                suffix=self._suffix,
            )

        record.warnings = [warning for warning in record.warnings if warning not in renamed]
        say(options["quiet"])(describe_table(table, record.rows))
        warn_of_fitted(self._counts["fitted"], record.rows)
        if self._check is not None:
            self._report_comparison(record.rows - record.empty)
        elif self.cells and not hasattr(self._classifier, "certificate_"):
            say(options["quiet"])(
                "No guarantee: the model has no certificate, and the texts were compared with "
                "none. Train without --no-calibration, or certify it."
            )

        manifest = Manifest(self.output, {})
        manifest.path = None
        manifest.files[table.name] = record
        return manifest

    def _check_outputs(self) -> str:
        """The format of the output; raises if a file cannot be written."""
        from pacsent.files import check_output
        from pacsent.text import result_files

        overwrite = self.options["overwrite"]
        suffix = "lines" if self.cells else "plain"
        if self.options["as_json"]:
            suffix = ".jsonl"
        if self.output is not None:
            allowed = result_files.TABLES if self.cells else (".npy", *result_files.TABLES)
            has_texts = bool(self.options["keep_columns"])
            try:
                suffix = result_files.check_suffix(self.output, allowed, texts=has_texts)
            except ValueError as error:
                raise click.BadParameter(str(error), param_hint="-o") from None
        check_output(self.output, [self.job.model, self.path], overwrite=overwrite)
        if self.left_out is not None:
            result_files.check_suffix(self.left_out, result_files.TABLES)
            inputs = [self.job.model, self.path, self.output]
            check_output(self.left_out, inputs, overwrite=overwrite)
        return suffix

    def _open_model(self) -> None:
        """Open the model, and what its texts are compared with."""
        from pacsent.certify.drift_check import DriftCheck
        from pacsent.certify.samples import recorded

        opened = self.job.open()
        for reason in self.job.caveats(opened):
            echo(f"Warning: {options_in(reason)}", err=True)
        self._run_batch = self.job.load(opened)
        self._counts: Counter = Counter()
        self._fitted_rows = None  # fingerprints of texts that the model was fitted on
        self._check: Any = None
        if self.cells:
            self._classifier, self._rule = opened
            self._fitted_rows = recorded(self._classifier, "fingerprints")
            if self._rule is not None and self._rule.threshold is not None:
                self._check = DriftCheck(self._classifier, keep_all=self.left_out is not None)

    def _warn_of_renamed(self, table: Any) -> list[str]:
        """Columns that are renamed as a result has their name; each is a warning."""
        from pacsent.text.tables import output_names

        kept_columns = dict.fromkeys(table.check_columns(self._keep_columns))
        result_columns = list(self._run_batch([]).columns)
        _, renamed = output_names(list(kept_columns), result_columns, table.name)
        for note in renamed:
            echo(f"Warning: {note}", err=True)
        return renamed

    def _result_batches(self, table: Any, record: Any, advance: Callable) -> Any:
        from pacsent import threads
        from pacsent.scale.shard_writer import result_batches

        return result_batches(
            table,
            self._compute_batch,
            record,
            keep_columns=self._keep_columns,
            on_error=self.options["on_error"] or "stop",
            batch_size=self.job.batch_size,
            n_threads=threads.n_threads(self.options["n_jobs"]),
            advance=advance,
            observe=self._observe,
        )

    def _compute_batch(self, texts: Any, is_bad: Any = None) -> Any:
        """The results for a batch, which counts the texts that the model was fitted on."""
        from pacsent.arrays import are_among
        from pacsent.certify.samples import row_fingerprints
        from pacsent.text.ngrams import is_empty
        from pacsent.text.tables import as_list

        batch = self._run_batch(texts, is_bad)
        if self._fitted_rows is None:
            return batch
        kept_texts = [text for text in as_list(texts) if not is_empty(text)]
        is_fitted = are_among(row_fingerprints(kept_texts), self._fitted_rows)
        return batch._replace(n_fitted=int(is_fitted.sum()))

    def _observe(self, batch: Any) -> None:
        self._counts["fitted"] += batch.n_fitted
        self._counts["answered"] += batch.n_answered
        if self._check is not None:
            self._check.add(*batch.scored)

    def _format(self, batches: Iterable[dict]) -> Iterable[dict]:
        """The batches as they are written; the ids of rows are collected on the way."""
        self._ids: list = []  # of all rows, if they have names
        id_column = self.options["id_column"]
        if self.left_out is not None and id_column is not None:
            batches = _collect(batches, id_column, self._ids)
        if self._check is not None:
            batches = self._compare_before_writing(batches)
        if self._suffix == "plain":
            return (_without_variance(batch) for batch in batches)
        if self.cells and self._suffix not in (".jsonl", ".parquet"):
            cells = self.cells
            return (_format_cells(batch, cells) for batch in batches)
        return batches

    def _compare_before_writing(self, batches: Iterable[dict]) -> Iterable[Any]:
        """The batches of answers, changed if the texts differ from the calibration texts.

        The comparison is of the whole file, so they wait in a temporary file, beside the output as
        /tmp may be memory. From one stream to another, each is written at once.
        """
        from pacsent.files import is_stream
        from pacsent.text import result_files

        if is_stream(self.output):
            if is_stream(self.path):
                return batches
            folder = None
        else:
            folder = os.path.dirname(os.path.realpath(str(self.output)))
        return result_files.changed_at_end(batches, self._change_of_answers, folder)

    def _change_of_answers(self) -> Callable[[Any], Any]:
        """Compare the texts; how the answers are changed by the result."""
        from pacsent.scale.jobs import withdraw_guarantee

        self._compare()
        if self.comparison.differs:
            self._says_drift = True
            return withdraw_guarantee
        return lambda batch: batch

    def _compare(self) -> None:
        """Compare the texts with the calibration set."""
        from pacsent.progress import bar

        self._bars.close()  # one bar at a time
        quiet = self.options["quiet"]
        with bar("compare with the calibration set", unit="", enabled=not quiet):
            self.comparison = self._check.result()

    def _report_comparison(self, n_texts: int) -> None:
        """Print what answers guarantee, and what the comparison found."""
        from pacsent.scale.jobs import DRIFT

        print_line = say(self.options["quiet"])
        if self.comparison is None:
            self._compare()
        comparison: Any = self.comparison

        texts = format_count(n_texts, "text")
        if comparison.differs or comparison.holds_only_if:
            echo(f"Warning: {comparison.message}", err=True)
        if comparison.differs and self._says_drift:
            echo(f'Every row abstains, without a set; its reason is "{DRIFT}".', err=True)
        elif comparison.differs:
            echo(
                "The rows were written before the comparison: no set and no answer in them has a "
                "guarantee.",
                err=True,
            )
        if not comparison.differs and not self._rule.no_answers:
            for sentence in self._rule.sentences:
                print_line(options_in(sentence))
            print_line(f"Answered: {self._counts['answered']:,} of {texts}.")
            if not comparison.holds_only_if:
                for sentence in self._describe_comparison(comparison):
                    print_line(sentence)

        if self.left_out is not None:
            write_left_out(
                self.left_out,
                comparison.left_out,
                self._ids,
                self.options["id_column"],
                overwrite=self.options["overwrite"],
            )
            n_left_out = format_count(len(comparison.left_out), "row")
            print_line(f"wrote {self.left_out}: {n_left_out} left out")

    def _describe_comparison(self, comparison: Any) -> list[str]:
        """What the comparison found, what it could have found (details), and which rows counted."""
        found, *power = comparison.sentences
        sentences = [found]
        if self.options["details"]:
            sentences += power
        if str(comparison.counts):
            sentences.append(str(comparison.counts))
        return sentences


def _without_variance(batch: dict) -> dict:
    return {name: column for name, column in batch.items() if name != "variance"}


def _format_cells(batch: dict, cells: Cells) -> dict:
    """The columns of predictions as text, and all others as they are."""
    from pacsent.text.tables import as_list

    formatted = {}
    for name, column in batch.items():
        if name in cells:
            column = list(map(cells[name], as_list(column)))
        formatted[name] = column
    return formatted


def _collect(batches: Iterable[dict], name: str, values: list) -> Iterator[dict]:
    """The batches, while a column of them is collected."""
    from pacsent.text.tables import as_list

    for batch in batches:
        # A column with the name of a result is renamed in the output.
        column = batch[name if name in batch else f"input_{name}"]
        values += as_list(column)
        yield batch


def write_left_out(
    path: str,
    left_out: Iterable[tuple[int, str]],
    ids: list | None,
    id_column: str,
    *,
    overwrite: bool,
) -> None:
    """Write the rows that were left out, with their ids if there are any, and why.

    Rows are counted from 0 in `left_out`, and from 1 in the file.
    """
    from pacsent.text import result_files

    columns: dict[str, list] = {"row": [row + 1 for row, _ in left_out]}
    if ids:
        columns[id_column] = [ids[row] for row, _ in left_out]
    columns["reason"] = [reason for _, reason in left_out]
    result_files.write([columns], path, overwrite=overwrite)
