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
# What `verify` may not check: fields and conditions, in plain words.
_UNCHECKED = {
    "batch_size": "the number of texts in the batch",
    "calibration_size": "which fraction of the labels was held out",
    "choices beyond corrections": "whether more models or settings were compared than it says",
    "digests": "whether it is about these texts and this model",
    "guess_counts": "the errors of always giving one answer",
    "held_out_risk": "the risk on the held-out texts",
    "labels corrected after predictions": (
        "whether labels were corrected after predictions were seen"
    ),
    "machine_counts": "the counts of the machine's labels",
    "n_corrected": "the number of labels that were corrected",
    "n_found": "the number of wrong labels found beyond the sample",
    "n_held_out": "the number of held-out texts",
    "n_left_out": "the number of texts that were left out",
    "n_overlapping": "the number of texts that were trained on",
    "n_read": "the number of rows that a person read",
    "n_skipped": "the number of rows that were skipped",
    "n_training": "the number of labels that were trained on",
    "n_unread": "the number of rows that were still to be read",
    "options": "the options that it was made with",
    "provenance": "whether the model was trained on the texts",
    "random_state": "the random seed",
    "the calibration set": "the calibration set of the model",
    "the labels beyond their counts": "each label by itself",
    "the model beyond its predictions": "whether the model is the same apart from its predictions",
    "the predictions beyond their counts": "each prediction by itself",
    "the random number of abstention": "the random number that decides about abstention",
    "which sample is that of rows": "which of its two bounds counts repeated texts",
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
def certify(
    paths: tuple[str, ...], output: str | None, as_json: bool, overwrite: bool, **options: Any
) -> None:
    """Bound the error rate of MODEL on new texts like DATA.

    MODEL is a classifier that was not trained on DATA, which is as in `pacsent train`. Without
    MODEL, DATA is a table of labels and predictions of a language model, a person or a program.
    MODEL may also be an index: DATA has queries (`text`) and the number of the right text
    (`answer`), and --overwrite keeps what `search --guarantee` needs.

    Example: pacsent certify model new.csv
    Example: pacsent certify answers.csv --prediction-column answer
    Example: pacsent certify index queries.csv
    """
    from pacsent.files import check_output
    from pacsent.storage import save
    from pacsent.text.result_files import TABLES, check_suffix

    check_output(output, paths, overwrite=overwrite)
    path, data = inputs.split_model(paths)
    ids = inputs.read_ids(data, {**options, "id_column": options["id_column"]})
    left_out = options["left_out"]
    if left_out is not None:
        check_suffix(left_out, TABLES)
        check_output(left_out, [*paths, output], overwrite=overwrite)
        if path is None:
            raise click.UsageError("--left-out needs MODEL, which knows its training texts.")

    certificate: Any
    if path is None:
        certificate = _certify_predictions(data, options)
    else:
        if any(options[name] for name in _OPTIONS_WITHOUT_MODEL):
            names = "--prediction-column, --judge-column, --labels and --batch-size"
            raise click.UsageError(f"{names} are for DATA without MODEL.")
        model = inputs.open_model(path)
        if hasattr(model, "search"):
            certificate = _certify_index(model, data, options)
            if overwrite:
                save(model, path, overwrite=True)
        else:
            certificate = _certify_classifier(path, data, ids, options, overwrite)
    show_certificate(certificate, output, as_json, options["details"])


_OPTIONS_WITHOUT_MODEL = ("prediction_column", "judge_column", "classes", "batch_size")


def _certify_index(model: Any, data: str, options: dict[str, Any]) -> Any:
    """The certificate of an index from queries and the numbers of their right texts."""
    column = options["answer_column"] or "answer"
    _, queries, columns = inputs.read_columns(data, options, [column])

    try:
        answers = [int(value) for value in columns[column]]
    except (TypeError, ValueError) as error:
        message = f"must have the number of a text in the index in every row ({error})."
        raise ValueError(f"--answer-column {message}") from None
    return model.certify(
        queries,
        answers,
        options["k"],
        options["delta"],
        options["random_state"],
        n_candidates=options["n_candidates"],
        repeats=options["repeats"],
    )


def _certify_classifier(
    path: str, data: str, ids: list | None, options: dict[str, Any], overwrite: bool
) -> Any:
    """The certificate of a classifier; writes the rows that are left out if asked to."""
    from pacsent.certify import certify as certify_model

    classifier = inputs.open_model(path, "a classifier")
    labelled = inputs.read_labelled(data, options, classifier)
    click.get_current_context().meta[ROWS] = labelled.rows
    if options["left_out"] is not None:
        rows = _rows_left_out(classifier, labelled)
        write_left_out(options["left_out"], rows, ids, options["id_column"], overwrite=overwrite)
    certificate = certify_model(
        classifier,
        labelled.texts,
        labelled.labels,
        groups=labelled.groups,
        delta=options["delta"],
        n_candidates=options["n_candidates"] * labelled.n_sizes,
        per_class=options["per_class"],
        overlap=options["overlap"],
        repeats=options["repeats"],
        random_state=options["random_state"],
    )
    return labelled.add_condition(certificate)


def _rows_left_out(classifier: Any, labelled: inputs.LabelledInput) -> list[tuple[int, str]]:
    """Rows of the file that are not among the distinct texts which are counted, and why."""
    from pacsent.certify.row_status import REASONS, row_status

    rows = []
    status = row_status(classifier, labelled.texts).status.tolist()
    for row, reason in zip(labelled.rows, status):
        if reason:
            rows.append((row, REASONS[reason]))
    return rows


def _certify_predictions(data: str, options: dict[str, Any]) -> Any:
    """The certificate of a table of labels and predictions."""
    from pacsent.certify import certify_predictions

    label_column = options["label_column"] or "label"
    prediction_column = options["prediction_column"] or "prediction"
    if len({label_column, prediction_column, options["judge_column"]}) < 3:
        raise click.UsageError("--label-column, --prediction-column, --judge-column must differ.")
    table, selection = inputs.read_predictions(data, options)
    rows = table.select(selection.sampled)

    size = options["batch_size"]
    n_rows = len(rows.labels)
    if size and (table.judge is not None or size < n_rows):
        limit = f"at least {n_rows:,}, the rows of {data}, without a judge"
        raise click.UsageError(f"--batch-size must be {limit}. Got {size:,} instead.")

    classes = _classes_of(table, rows)
    if options["classes"]:
        classes = [name.strip() for name in options["classes"].split(",")]
    certificate = certify_predictions(
        rows.labels,
        rows.predictions,
        texts=rows.texts,
        groups=rows.groups,
        judge=rows.judge,
        unlabelled=_others_of_batch(table, selection, options),
        classes=classes,
        recall="all" if options["per_class"] else (),
        delta=options["delta"],
        n_candidates=options["n_candidates"] * selection.n_sizes,
        simultaneous=options["simultaneous"],
        repeats=options["repeats"],
        random_state=options["random_state"],
    )
    if not selection.condition:
        return certificate
    provenance = f"{certificate.provenance}; {selection.condition}"
    return replace(certificate, provenance=provenance)


def _others_of_batch(
    table: Any, selection: inputs.LabelledSelection, options: dict[str, Any]
) -> Any:
    """The rows without a label, of which those with one are a sample; their number or predictions.

    With a judge their predictions and its labels are returned, as `certify_predictions` takes them.
    """
    unlabelled = table.select(selection.unlabelled)
    if table.judge is not None:
        return unlabelled.predictions, unlabelled.judge
    if options["batch_size"] is not None:
        return options["batch_size"] - len(selection.sampled)
    if unlabelled.labels and table.groups is None and not options["per_class"]:
        return len(unlabelled.labels)
    return None


def _classes_of(table: Any, rows: Any) -> list[str] | None:
    """All classes of a table of which some rows are labelled; None if all of them are.

    A prediction that is a class but for case or spaces is none: it is refused as misspelled.
    """
    if len(rows.labels) == len(table.labels) or table.judge is not None:
        return None
    names = {label for label in table.labels if label}
    spellings = {name.strip().casefold() for name in names}
    for name in table.predictions:
        if name.strip().casefold() not in spellings:
            names.add(name)
    return sorted(names)


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
def verify(
    context: click.Context,
    certificate: str,
    texts: str | None,
    model: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Check a CERTIFICATE, alone or with texts and model.

    Without TEXTS, recomputes the bound from the stored counts; with TEXTS and MODEL, also the
    counts. CERTIFICATE may also be the folder of a model, whose checksums are checked. Exit status
    1 if something does not agree. Example: pacsent verify certificate.json
    """
    from pacsent.certify import read_certificate
    from pacsent.certify.error_certificate import HeldOutCertificate

    checks: list[dict] = []  # of the checksums of a folder
    if Path(certificate).is_dir():
        checks, loaded = _check_folder(context, certificate, as_json)
        model = certificate if texts else None
    else:
        with open(certificate, "rb") as file:
            content = file.read(_MAX_BYTES)
        loaded = read_certificate(content, certificate, verify=texts is None)

    is_of_rows = isinstance(loaded, HeldOutCertificate)
    needs_model = not is_of_rows or "model" in loaded.digests
    if texts is not None and model is None and needs_model:
        raise click.UsageError("Give TEXTS and MODEL, or neither.")
    if texts is None:
        checked, unchecked = loaded.verify()
        if checks:
            unchecked += ", the calibration set"
    elif is_of_rows:
        checked, unchecked = _verify_rows(loaded, texts, model, options)
    else:
        assert model is not None
        encoder = inputs.open_encoder(model, options["method"], default="PB-L2", fitted=False)
        documents = list(inputs.read_texts(texts, options))
        checked, unchecked = loaded.verify(documents, encoder)

    missing = " without TEXTS and MODEL" if texts is None else ""
    sentence = "Everything was checked."
    lines = [f"Verified: {checked}."]
    if unchecked:
        names = [_describe_unchecked(name) for name in unchecked.split(", ")]
        sentence = f"Not checked{missing}: {', '.join(names)}."
        lines.append(f"Not checked{missing}:")
        lines += [f"- {name}" for name in names]
    else:
        lines.append(sentence)
    lines.append(loaded.details())
    result = {"verified": True, "checked": checked, "unchecked": sentence, "checks": checks}
    show(result, "\n".join(lines), as_json)


def _check_folder(context: click.Context, folder: str, as_json: bool) -> tuple[list[dict], Any]:
    """The checks of a folder's checksums, and its certificate; ends the command without one."""
    from pacsent import storage

    checks = storage.check(folder)
    is_intact = all(check["ok"] for check in checks)
    certificate = None
    if is_intact:
        certificate = getattr(inputs.open_model(folder), "certificate_", None)
    if certificate is None:
        lines = []
        for check in checks:
            status = "ok" if check["ok"] else "DAMAGED"
            lines.append(f"{status:<9}{check['what']}: {check['found']}")
        show({"verified": is_intact, "checks": checks}, "\n".join(lines), as_json)
        context.exit(0 if is_intact else 1)
    return checks, certificate


def _describe_unchecked(name: str) -> str:
    """A field of a certificate, or what else `verify` did not check, in plain words."""
    if name in _UNCHECKED:
        return _UNCHECKED[name]
    if name.startswith("n_"):
        name = f"the number of {name.removeprefix('n_')}"
    return name.replace("_", " ")


def _verify_rows(
    certificate: Any, data: str, model: str | None, options: dict[str, Any]
) -> tuple[str, str]:
    """Verify a certificate of labelled rows; returns the checked and the unchecked parts."""
    if model is not None:
        classifier = inputs.open_model(model)
        labelled = inputs.read_labelled(data, options, classifier)
        return certificate.verify(
            classifier, labelled.texts, labelled.labels, groups=labelled.groups, judge=()
        )

    table, selection = inputs.read_predictions(data, options)
    rows = table.select(selection.sampled)
    unlabelled = table.select(selection.unlabelled)
    judge: tuple = ()
    if rows.judge is not None:
        judge = (rows.judge, (unlabelled.predictions, unlabelled.judge))
    X = rows.texts if "texts" in certificate.digests else list(range(len(rows.labels)))
    return certificate.verify(rows.predictions, X, rows.labels, groups=rows.groups, judge=judge)
