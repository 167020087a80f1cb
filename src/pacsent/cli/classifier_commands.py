"""Commands about classifiers: train, predict, evaluate, compare, explain, report, monitor."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import ROWS, cli
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import echo, echo_json, shorten, show, write_text

_MONITOR_BATCH = 64  # texts that are compared at once
_MAX_COST_TEXTS = 1_000  # with more texts a second fit takes long, and holding out costs little


@cli.command()
@params.data
@params.output("Folder of the model.")
@params.label_columns
@params.column("group", "Column of the group (author, book, day): groups are held out together.")
@params.encoder
@params.option("--method", "How word vectors become sentence vectors.", default="Average")
@params.option("--ngrams", "Longest n-gram.  [default: by the texts]", click.IntRange(1, 8))
@params.probability("--calibration-size", "Fraction of labels to hold out.  [default: auto]")
@params.flag("--no-calibration", "Train on all labels; the model has no guarantee.")
@params.delta
@params.n_candidates
@params.repeats
@params.flag("--balanced", "Give every class the same weight.")
@params.flag("--keep-case", "Labels that differ in case or spaces only are different classes.")
@params.random_state
@params.n_jobs
@params.outputs
def train(
    data: str,
    output: str,
    encoder: str | None,
    ngrams: int | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a classifier on DATA and save it as a folder.

    DATA is a table with the columns `text` and `label`, or lines of LABEL<TAB>TEXT (- for stdin). A
    random part is held out as a calibration set, and the guarantee that follows from it is printed.
    Example: pacsent train labelled.csv -o model
    """
    from pacsent.classify import TextClassifier
    from pacsent.storage import check_place, save

    _check_train_options(options)
    is_multilabel = options["label_separator"] is not None
    check_place(output, [data, encoder], overwrite=overwrite)
    labelled = inputs.read_labelled(
        data,
        options,
        sampled_only=not options["no_calibration"],
        on_variants=lambda message: not options["keep_case"] and _ask_to_merge(message),
    )
    if not is_multilabel:
        _warn_of_rare_classes([*labelled.labels, *labelled.other_labels])
    n_texts = len(labelled.texts) + len(labelled.other_texts)
    say = inputs.say(options["quiet"])
    say(f"{n_texts:,} texts; fitting ...")

    estimator = TextClassifier(
        encoder,
        method=options["method"],
        ngrams=(1, ngrams) if ngrams else "auto",
        class_weight="balanced" if options["balanced"] else None,
        n_jobs=options["n_jobs"],
    )
    classifier: Any = estimator
    if options["no_calibration"]:
        estimator.fit(labelled.texts, labelled.labels, groups=labelled.groups)
    else:
        classifier = _fit_certified(estimator, labelled, options)
    save(classifier, output, overwrite=overwrite)

    model = getattr(classifier, "estimator_", classifier)
    chosen = {name: value for name, value in model.selection_.items() if name != "candidates"}
    result = {"model": str(output), "classes": classifier.classes_.tolist(), "chosen": chosen}
    line = _describe_training(output, classifier, model, is_multilabel)
    if options["no_calibration"]:
        say("No guarantee: no labels were held out.")
    else:
        if options["random_state"] is None:
            say(_describe_drawn_seed(classifier.seed_, options["n_candidates"]))
        result["certificate"] = classifier.certificate_.to_dict()
        line += f"\n{classifier.certificate_.summary()}"
        is_large = len(labelled.texts) > _MAX_COST_TEXTS
        is_remote = "://" in str(encoder)
        estimates_cost = not (options["quiet"] or is_large or is_multilabel or is_remote)
        say(_describe_calibration_cost(classifier, labelled, estimates_cost))
    show(result, line, as_json)


def _check_train_options(options: dict[str, Any]) -> None:
    no_calibration = options["no_calibration"]
    if no_calibration and options["n_candidates"] > 1:
        raise click.UsageError("--n-candidates has no use with --no-calibration. Leave one out.")
    if options["keep_case"] and options["merge_labels"]:
        raise click.UsageError("--keep-case and --merge-labels exclude each other. Leave one out.")
    if no_calibration and options["repeats"]:
        raise click.UsageError("--repeats has no use with --no-calibration. Leave one out.")


def _fit_certified(estimator: Any, labelled: inputs.LabelledInput, options: dict[str, Any]) -> Any:
    """Fit a classifier, and certify it on labels that are held out."""
    from pacsent.predict import CertifiedClassifier

    classifier = CertifiedClassifier(
        estimator,
        calibration_size=options["calibration_size"] or "auto",
        delta=options["delta"],
        n_candidates=options["n_candidates"] * labelled.n_sizes,
        repeats=options["repeats"],
        random_state=options["random_state"],
        prefit=labelled.was_reviewed,
    )
    if labelled.was_reviewed:
        # `audit` has held out the other rows, before anybody corrected labels.
        if labelled.groups is not None or options["calibration_size"] is not None:
            raise click.UsageError(
                "--group-column and --calibration-size have no use with a table that `pacsent "
                "audit` wrote: the rows to hold out are recorded in it. Leave them out."
            )
        estimator.fit(labelled.other_texts, labelled.other_labels)
        classifier.calibrate(labelled.texts, labelled.labels, overlap="drop")
    else:
        judge = None
        if labelled.other_texts and labelled.groups is None:
            judge = (labelled.other_texts, labelled.other_labels)
        classifier.fit(labelled.texts, labelled.labels, groups=labelled.groups, judge=judge)

    certificate = labelled.add_condition(classifier.certificate_)
    classifier.fitted_ = replace(classifier.fitted_, certificate=certificate)
    return classifier


def _describe_training(output: str, classifier: Any, model: Any, is_multilabel: bool) -> str:
    """The fitted model in one line: its n-grams, classes and accuracy."""
    n_classes = classifier.classes_.size
    n_fitted = model.classes_.size  # rare ones are left out
    measure = "labels, exact match" if is_multilabel else "classes, accuracy"
    shown_classes = f"{n_classes}" if n_fitted == n_classes else f"{n_fitted} of {n_classes}"
    accuracy = model.selection_["accuracy"]
    n_validated = len(model.out_of_fold_.labels)  # texts that the accuracy is about
    return (
        f"{output}: {len(model.ngrams_):,} n-grams, {shown_classes} {measure} {accuracy:.4f} by "
        f"cross-validation on {n_validated:,} training texts"
    )


def _describe_drawn_seed(seed: int, n_candidates: int) -> str:
    """The seed that gives the same model again, and that further ones are a selection."""
    line = f"The split was drawn with --random-state {seed}, which gives the same model again."
    if n_candidates == 1:
        line += (
            " Do not train several times and keep the best one: its bound would be too small. Or "
            "pass the number of runs as --n-candidates to each of them."
        )
    return line


def _describe_calibration_cost(
    classifier: Any, labelled: inputs.LabelledInput, estimates: bool
) -> str:
    """The accuracy that holding labels out costs; `estimates` it by further fits."""
    from pacsent.bounds.rounding import format_count
    from pacsent.classify.label_quality import fit_holdout_curve

    model = classifier.estimator_
    n_texts = len(labelled.texts) + len(labelled.other_texts)
    n_not_fitted = n_texts - model.selection_["n_texts"]
    cost = (
        f"{n_not_fitted:,} texts were held out. To see what that costs in accuracy, train with "
        "--no-calibration and evaluate both models on other texts."
    )
    if estimates and not labelled.other_texts:
        curve = fit_holdout_curve(model, labelled.texts, labelled.labels, labelled.groups)
        cost = curve.describe_calibration_cost(n_not_fitted)

    n_rare = classifier.classes_.size - model.classes_.size
    if n_rare:
        rare_classes = format_count(n_rare, "class", "classes")
        cost += f" This counts every text of {rare_classes} with too few to be fitted."
    return cost


def _ask_to_merge(message: str) -> bool:
    """Ask whether labels that differ in case or spaces only are one class."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{message} Give --merge-labels, or --keep-case.")
    return click.confirm(f"{message} Is each of these pairs one class?", err=True)


def _warn_of_rare_classes(labels: list) -> None:
    """Name the classes with one or two rows, whichever side of the split these fall on."""
    counts = Counter(labels)
    rare = [name for name in sorted(counts) if counts[name] <= 2]
    if not rare:
        return
    shown = ", ".join(f"{_quote(name)} ({counts[name]})" for name in rare[:5])
    if len(rare) > 5:
        shown += f" and {len(rare) - 5:,} others"
    echo(
        f"Warning: classes with one or two rows are hardly learned: {shown}. Add texts.",
        err=True,
    )


def _quote(name: str) -> str:
    """A name; one with a comma or a quotation mark is quoted."""
    if "," not in name and '"' not in name:
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _join(names: Iterable[str] | None) -> str:
    """Names between commas; one with a comma or a quotation mark is quoted."""
    return ",".join(map(_quote, names or ()))


def _format_probability(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _format_probabilities(values: Iterable[float] | None) -> str:
    return ",".join(f"{value:.4f}" for value in values or ())


_YES_NO = {None: "", True: "yes", False: "no"}
# The cells of columns as text.
_CELLS: dict[str, Callable[[Any], str]] = {
    "prediction": lambda name: name or "",
    "probability": _format_probability,
    "set": _join,
    "abstained": lambda value: _YES_NO[value],
    "reason": lambda text: text or "",
    "predictions": _join,
    "probabilities": _format_probabilities,
}


@cli.command()
@click.argument("model", type=params.ModelPath(file_okay=False))
@params.probability("--error", "Error rate to guarantee for answers and sets.  [default: chosen]")
@click.argument("sources", nargs=-1, metavar="[TEXTS]...")
@params.model_delta
@params.left_out
@params.flag("--details", "Also print which drift the comparison would find.")
@job_options
def predict(
    model: str,
    sources: tuple[str, ...],
    error: float | None,
    delta: float | None,
    left_out: str | None,
    **options: Any,
) -> None:
    """Predict the class or the labels of every text of TEXTS.

    TEXTS is a file with one text per line, a table, or stdin when left out; many files as in
    `pacsent embed`. Writes prediction, probability, set, abstained and the reason why a text is not
    answered whatever its probability, or predictions and probabilities; an output file also has the
    columns of the input. The texts of one file are compared with the calibration set of the model,
    which can detect a difference, not exclude one: exit status 3 if guarantees are withdrawn, and
    the reason of every row says so.
    Example: pacsent predict model new.csv -o out.csv
    """
    from pacsent.scale import Predict

    job = Predict(model, error, delta, inputs.given_encoder())
    run_job(job, sources, options, _CELLS, left_out)


@cli.command()
@click.argument("a", type=params.ModelPath())
@click.argument("b", type=params.ModelPath())
@params.data
@params.label_columns
@params.delta
@params.n_candidates
@params.repeats
@params.known_rows
@params.model_encoder
@params.reports
def compare(a: str, b: str, data: str, as_json: bool, **options: Any) -> None:
    """Bound the difference in error rate of the classifiers A and B.

    DATA is as in `pacsent train`; neither model must have been trained on it. Example: pacsent
    compare old new labelled.csv
    """
    from pacsent.certify import compare

    first = inputs.open_model(a, "a classifier")
    second = inputs.open_model(b, "a classifier")
    labelled = inputs.read_labelled(data, options, first)
    click.get_current_context().meta[ROWS] = labelled.rows

    del options["quiet"]
    result = compare(first, second, labelled.texts, labelled.labels, **options)
    names = ("n", "difference", "difference_lower", "difference_upper", "delta", "n_candidates")
    numbers = {name: getattr(result, name) for name in names}
    show(numbers, str(result), as_json)


@cli.command()
@params.model
@click.argument("text")
@params.option("--label", "The class to explain.  [default: the likeliest]")
@params.option("-k", "Words to list.", params.POSITIVE, 10)
@params.option("--html page", "Also write this as a page.", params.PATH)
@params.model_encoder
@params.overwrite
@params.as_json
def explain(
    model: str,
    text: str,
    label: str | None,
    k: int,
    page: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Show what each word of TEXT adds to the answer of MODEL.

    Example: pacsent explain model "a dull film"
    """
    from rich.console import Console

    from pacsent.files import check_output

    check_output(page, [model], overwrite=overwrite)
    classifier = inputs.open_model(model, "a classifier")
    classifier = getattr(classifier, "estimator_", classifier)
    own_label = inputs.class_of(classifier, label) if label else label
    result = classifier.explain(text, own_label)
    if page:
        write_text(page, result.to_html(k))
    if as_json:
        echo_json({name: getattr(result, name) for name in _EXPLANATION_FIELDS})
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(result.to_terminal())
    echo(result.describe(k))


# The fields of an explanation in JSON.
_EXPLANATION_FIELDS = (
    "label",
    "probability",
    "words",
    "ngrams",
    "vector_remainder",
    "intercept",
    "from_ngrams",
    "from_characters",
    "from_vectors",
)


@cli.command()
@params.model
@params.texts
@params.text_columns
@params.probability("--delta alpha", "Probability of a false alarm at any time.", default=0.05)
@params.random_state
@params.model_encoder
@params.reports
def monitor(
    model: str,
    texts: str,
    alpha: float,
    random_state: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Read TEXTS and stop once they differ from the calibration set.

    The calibration set is the part that `pacsent train` held out. Rows are counted from 1. Exit
    status 3 on an alarm; no alarm does not say that the texts are alike.
    Example: tail -f log | pacsent monitor model -
    """
    from pacsent.certify import DriftMonitor

    classifier = inputs.open_model(model, "a classifier")
    drift = DriftMonitor(classifier, alpha=alpha, random_state=random_state)
    stream = inputs.read_texts(texts, options, progress=True)
    while batch := list(islice(stream, _MONITOR_BATCH)):
        if drift.update(batch):
            break

    names = ("alarm", "alarm_at", "holds_only_if", "n_seen", "n_compared", "evidence")
    result = {name: getattr(drift, name) for name in names}
    result["counts"] = drift.counts._asdict()
    show(result, str(drift), as_json)
    if drift.alarm:
        click.get_current_context().exit(3)


@cli.command()
@click.argument("paths", nargs=-1, required=True, metavar="[MODEL] DATA")
@params.label_columns
@params.column("prediction", "Column of the predictions, if there is no MODEL.")
@params.option("-k", "Wrong answers to print, the most certain first.", params.NON_NEGATIVE, 5)
@params.fitted_rows
@params.id_column
@params.model_encoder
@params.reports
def evaluate(paths: tuple[str, ...], k: int, as_json: bool, **options: Any) -> None:
    """Print how good MODEL is on DATA, labelled texts new to it.

    Rows that MODEL was fitted on are left out. Without MODEL, DATA is a table of labels and
    predictions. Accuracy with its interval, precision, recall and F1 of each class, and wrong
    answers. `pacsent certify` gives a guarantee, `pacsent
    report` a page. Example: pacsent evaluate model new.csv
    """
    from pacsent.classify.diagnostics import report, report_predictions

    path, data = inputs.split_model(paths)
    ids = inputs.read_ids(data, options)
    overlap = options.pop("overlap")
    if path is None:
        if overlap is not None:
            raise click.UsageError("--overlap is about the texts that MODEL was fitted on.")
        table, selection = inputs.read_predictions(data, options)
        sampled = table.select(selection.sampled)
        result = report_predictions(sampled.labels, sampled.predictions, sampled.texts)
        rows = selection.sampled
        condition = selection.condition
    else:
        if options.pop("prediction_column") is not None:
            raise click.UsageError("--prediction-column is for DATA without MODEL.")
        classifier, labelled = inputs.open_labelled(path, data, options)
        measured = inputs.leave_out_fitted(classifier, labelled, overlap)
        result = report(classifier, measured.texts, measured.labels)
        result = replace(result, n_left_out=len(labelled.rows) - len(measured.rows))
        rows = measured.rows
        condition = measured.condition

    errors = _with_rows_of_file(result.errors[:k], rows)
    overlap_note = result.describe_overlap()
    lines = [overlap_note] if overlap_note else []
    lines.append(str(result))
    if condition:
        lines.append(f"{condition[0].upper()}{condition[1:]}.")
    lines += [_describe_error(error, ids) for error in errors]
    numbers = {**result.to_dict(), "errors": inputs.number_rows(errors, ids)}
    show(numbers, "\n".join(lines), as_json)


def _with_rows_of_file(errors: Iterable[dict[str, Any]], rows: list[int]) -> list[dict[str, Any]]:
    """Wrong answers, each with the row of its text in the file."""
    return [{**error, "row": rows[error["row"]]} for error in errors]


def _describe_error(error: dict[str, Any], ids: list | None) -> str:
    """A wrong answer in one line."""
    row = inputs.describe_row(error["row"], ids)
    prediction = error["prediction"]
    if error["probability"] is not None:
        prediction = f"{prediction} ({error['probability']:.2f})"
    text = shorten(error["text"])
    return f"{row}, {error['label']}, predicted {prediction}: {text}"


@cli.command()
@params.model
@params.data
@params.output("The page, FILE.html.")
@params.label_columns
@params.flag("--curve", "Also estimate how many more labels are needed.")
@params.flag("--audit", "Also list labels of DATA that are probably wrong, and duplicates.")
@params.fitted_rows
@params.id_column
@params.model_encoder
@params.outputs
def report(
    model: str,
    data: str,
    output: str,
    curve: bool,
    audit: bool,
    overlap: str | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a page about MODEL on DATA, labelled texts new to it.

    Confusion matrix, precision, recall and F1 with intervals, calibration, risk against coverage
    and words of each class. Rows that MODEL was fitted on are left out; --curve and --audit use
    all rows. Example: pacsent report model new.csv -o report.html
    """
    from sklearn.base import clone

    from pacsent.classify import label_quality as tools
    from pacsent.classify.diagnostics import report
    from pacsent.files import check_output

    check_output(output, [data, model], overwrite=overwrite)
    ids = inputs.read_ids(data, options)
    classifier, labelled = inputs.open_labelled(model, data, options)
    measured = inputs.leave_out_fitted(classifier, labelled, overlap)
    texts = labelled.texts
    labels = labelled.labels
    fresh = clone(getattr(classifier, "estimator_", classifier))
    learning_curve: Any = None
    audited: Any = None
    if audit:  # both sections look at predictions for texts left out: they are made once
        left_out = tools.predict_labels_left_out(texts, labels, fresh)
        audited = replace(tools.audit_left_out(left_out, fresh), rows=labelled.rows)
        if curve:
            learning_curve = tools.fit_learning_curve_left_out(left_out, fresh, 0)
    elif curve:
        learning_curve = tools.fit_learning_curve(texts, labels, model=fresh, random_state=0)
    result = report(
        classifier, measured.texts, measured.labels, curve=learning_curve, audit=audited
    )

    errors = _with_rows_of_file(result.errors, measured.rows)
    if ids is not None:
        errors = [{**error, "id": ids[error["row"]]} for error in errors]
    n_left_out = len(labelled.rows) - len(measured.rows)
    result = replace(result, errors=errors, n_left_out=n_left_out)
    source = "standard input" if data == "-" else Path(data).name
    title = f"Report of {Path(model).name} on {source}"
    write_text(output, result.to_html(title))

    first_line, _, _ = str(result).partition("\n")
    overlap_note = result.describe_overlap()
    sections = [overlap_note] if overlap_note else []
    sections.append(first_line)
    if learning_curve:
        sections.append(str(learning_curve))
    if audited:
        sections.append(str(audited))
    numbers = {"page": output, **result.to_dict()}
    if audited is not None:
        numbers["audit"] = inputs.number_audit(audited, ids)
    show(numbers, "\n".join(sections), as_json)
    inputs.say(options["quiet"])(f"wrote {output}")
