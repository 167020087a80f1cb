"""Commands about guarantees: certify, verify."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import ROWS, cli
from pacsent.cli.jobs import write_left_out
from pacsent.cli.printing import show, show_certificate

_MAX_BYTES = 100_000_000  # of a certificate; a device may have no end
# Fields of certificates whose names are no words.
_FIELDS = {
    "digests": "whether it is about these texts and this model",
    "guess_counts": "errors of always giving one answer",
}


@cli.command()
@click.argument("paths", nargs=-1, required=True, metavar="[MODEL] DATA")
@params.output("Also write the certificate as JSON.", required=False)
@params.label_columns
@params.column("prediction", "Column of the predictions, if there is no MODEL.")
@params.column("judge", "Column of a second labeller; rows of this table may then have no label.")
@params.column("group", "Column of the group (author, book, day): the guarantee is for new groups.")
@params.option("--labels classes", "All classes.  [default: by the column]", metavar="A,B,...")
@params.option("--batch-size", "Texts that a table alone is a sample of.", params.POSITIVE)
@params.column(
    "answer", "MODEL is an index: column with the number of the right text, from 0 as in search."
)
@params.option("-k", "MODEL is an index: hits among which the answer is.", params.POSITIVE, 10)
@params.flag("--per-class", "Also bound every class, and the mean over classes.")
@params.flag("--simultaneous", "All that is stated with a judge holds together.")
@params.left_out
@params.id_column
@params.flag("--details", "Also print the provenance, and which corrections were made.")
@params.delta
@params.n_candidates
@params.repeats
@params.known_rows
@params.random_state
@params.model_encoder
@params.outputs
def certify(paths, output, as_json, overwrite, **options):
    """Bound the error rate of MODEL on new texts like DATA.

    MODEL is a classifier that was not trained on DATA, which is as in `pacsent train`. Without
    MODEL, DATA is a table of labels and predictions of a language model, a person or a program.
    MODEL may also be an index: DATA has queries (`text`) and the number of the right text
    (`answer`), and --overwrite keeps what `search --guarantee` needs.

    Example: pacsent certify model new.csv
    Example: pacsent certify answers.csv --prediction-column answer
    Example: pacsent certify index queries.csv
    """
    from pacsent.certify import certify as certify_model
    from pacsent.files import check_output
    from pacsent.storage import save
    from pacsent.text.result_files import TABLES, check_suffix

    check_output(output, paths, overwrite=overwrite)
    path, data = inputs.split_model(paths)
    left_out = options.pop("left_out")
    ids = inputs.read_ids(data, {**options, "id_column": options["id_column"]})
    id_column = options.pop("id_column")
    if left_out is not None:
        check_suffix(left_out, TABLES)
        check_output(left_out, [*paths, output], overwrite=overwrite)
        if path is None:
            raise click.UsageError("--left-out needs MODEL, which knows its training texts.")
    if path is None:
        certificate = _certify_predictions(data, options)
    else:
        alone = ("prediction_column", "judge_column", "classes", "batch_size")
        if any(options[name] for name in alone):
            names = "--prediction-column, --judge-column, --labels and --batch-size"
            raise click.UsageError(f"{names} are for DATA without MODEL.")
        model = inputs.open_model(path)
        if hasattr(model, "search"):
            column = options["answer_column"] or "answer"
            _, texts, columns = inputs.read_columns(data, options, [column])
            try:
                answers = [int(value) for value in columns[column]]
            except (TypeError, ValueError) as error:
                message = f"must have the number of a text in the index in every row ({error})."
                raise ValueError(f"--answer-column {message}") from None
            certificate = model.certify(
                texts,
                answers,
                options["k"],
                options["delta"],
                options["random_state"],
                n_candidates=options["n_candidates"],
                repeats=options["repeats"],
            )
            if overwrite:
                save(model, path, overwrite=True)
        else:
            classifier = inputs.open_model(path, "a classifier")
            labelled = inputs.read_labelled(data, options, classifier)
            click.get_current_context().meta[ROWS] = labelled.rows
            if left_out is not None:
                rows = _rows_left_out(classifier, labelled)
                write_left_out(left_out, rows, ids, id_column, overwrite=overwrite)
            certificate = certify_model(
                classifier,
                labelled.texts,
                labelled.labels,
                groups=labelled.groups,
                n_candidates=options["n_candidates"] * labelled.n_sizes,
                **{name: options[name] for name in ("delta", "per_class", "overlap", "repeats")},
                random_state=options["random_state"],
            )
            certificate = labelled.add_condition(certificate)
    show_certificate(certificate, output, as_json, options["details"])


def _rows_left_out(classifier, labelled) -> list[tuple[int, str]]:
    """Rows of the file that are not among the distinct texts which are counted, and why."""
    from pacsent.certify.row_status import REASONS, row_status

    status = row_status(classifier, labelled.texts).status.tolist()
    return [(row, REASONS[why]) for row, why in zip(labelled.rows, status) if why]


def _certify_predictions(data, options: dict):
    """The certificate of a table of labels and predictions."""
    from pacsent.certify import certify_predictions

    columns = [options["label_column"] or "label", options["prediction_column"] or "prediction"]
    if len({*columns, options["judge_column"]}) < 3:
        raise click.UsageError("--label-column, --prediction-column, --judge-column must differ.")
    table, selection = inputs.read_predictions(data, options)
    rows = table.select(selection.sampled)
    unlabelled = table.select(selection.unlabelled)

    # With predictions the rows without a label are the others of a batch.
    size = options["batch_size"]
    others: Any = None
    if table.judge is not None:
        others = (unlabelled.predictions, unlabelled.judge)
    elif size is not None:
        others = size - len(rows.labels)
    elif unlabelled.labels and table.groups is None and not options["per_class"]:
        others = len(unlabelled.labels)
    if size and (table.judge is not None or size < len(rows.labels)):
        limit = f"at least {len(rows.labels):,}, the rows of {data}, without a judge"
        raise click.UsageError(f"--batch-size must be {limit}. Got {size:,} instead.")

    classes = options["classes"]
    certificate = certify_predictions(
        rows.labels,
        rows.predictions,
        texts=rows.texts,
        groups=rows.groups,
        judge=rows.judge,
        unlabelled=others,
        classes=_split_names(classes) if classes else _classes_of(table, rows),
        recall="all" if options["per_class"] else (),
        n_candidates=options["n_candidates"] * selection.n_sizes,
        **{name: options[name] for name in ("delta", "simultaneous", "repeats", "random_state")},
    )
    if not selection.condition:
        return certificate
    return replace(certificate, provenance=f"{certificate.provenance}; {selection.condition}")


def _split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _classes_of(table, rows) -> list[str] | None:
    """All classes of a table of which some rows are labelled; None if all of them are.

    A prediction that is a class but for case or spaces is none: it is refused as misspelled.
    """
    if len(rows.labels) == len(table.labels) or table.judge is not None:
        return None
    names = {label for label in table.labels if label}
    spellings = {name.strip().casefold() for name in names}
    new = {name for name in table.predictions if name.strip().casefold() not in spellings}
    return sorted(names | new)


@cli.command()
@click.argument("certificate", type=params.ModelPath())
@click.argument("texts", required=False, type=params.TEXTS)
@click.argument("model", required=False)
@params.label_columns
@params.column("prediction", "Column of the predictions that were certified.", default="prediction")
@params.column("judge", "Column of the judge, if there was one.")
@params.column("group", "Column of the group, if groups were held out.")
@params.method
@params.model_encoder
@params.reports
@click.pass_context
def verify(context, certificate, texts, model, as_json, **options):
    """Check a CERTIFICATE, alone or with texts and model.

    Without TEXTS, recomputes the bound from the stored counts; with TEXTS and MODEL, also the
    counts. CERTIFICATE may also be the folder of a model, whose checksums are checked. Exit status
    1 if something does not agree. Example: pacsent verify certificate.json
    """
    from pacsent import storage
    from pacsent.certify import read_certificate
    from pacsent.certify.error_certificate import HeldOutCertificate

    checks: list[dict] = []
    if Path(certificate).is_dir():
        checks = storage.check(certificate)
        intact = all(step["ok"] for step in checks)
        loaded = getattr(inputs.open_model(certificate), "certificate_", None) if intact else None
        lines = [f"{'ok' if c['ok'] else 'DAMAGED':<9}{c['what']}: {c['found']}" for c in checks]
        if loaded is None:
            show({"verified": intact, "checks": checks}, "\n".join(lines), as_json)
            context.exit(0 if intact else 1)
        model = certificate if texts else None
    else:
        with open(certificate, "rb") as file:
            text = file.read(_MAX_BYTES)
        loaded = read_certificate(text, certificate, verify=texts is None)
    of_rows, judge = isinstance(loaded, HeldOutCertificate), ()
    if texts is not None and model is None and not (of_rows and "model" not in loaded.digests):
        raise click.UsageError("Give TEXTS and MODEL, or neither.")
    if texts is None:
        checked, names = loaded.verify()
        for field, words in _FIELDS.items():
            names = names.replace(field, words)
        names = f" {names}".replace(" n_", " number of ").replace("_", " ").strip()
        names += ", the calibration set" if checks else ""
    elif of_rows:
        if model is not None:
            predictor = inputs.open_model(model)
            labelled = inputs.read_labelled(texts, options, predictor)
            X, labels, groups = labelled.texts, labelled.labels, labelled.groups
        else:
            table, selection = inputs.read_predictions(texts, options)
            rows = table.select(selection.sampled)
            unlabelled = table.select(selection.unlabelled)
            predictor, labels, groups = rows.predictions, rows.labels, rows.groups
            if rows.judge is not None:
                judge = (rows.judge, (unlabelled.predictions, unlabelled.judge))
            X = rows.texts if "texts" in loaded.digests else list(range(len(labels)))
        checked, names = loaded.verify(predictor, X, labels, groups=groups, judge=judge)
    else:
        encoder = inputs.open_encoder(model, options["method"], default="PB-L2", fitted=False)
        checked, names = loaded.verify(list(inputs.read_texts(texts, options)), encoder)
    alone = " without TEXTS and MODEL" if texts is None else ""
    unchecked = f"Not checked{alone}: {names}." if names else "Everything was checked."
    data = {"verified": True, "checked": checked, "unchecked": unchecked, "checks": checks}
    lines = [f"Verified: {checked}."]
    if names:
        lines += [f"Not checked{alone}:", *(f"- {name}" for name in names.split(", "))]
    else:
        lines.append(unchecked)
    show(data, "\n".join([*lines, loaded.details()]), as_json)
