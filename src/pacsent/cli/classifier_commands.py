"""Commands about classifiers: train, predict, evaluate, compare, explain, report, monitor."""

import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import ROWS, cli
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import echo, echo_json, shorten, show, write_text

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
def train(data, output, encoder, ngrams, overwrite, as_json, **options):
    """Train a classifier on DATA and save it as a folder.

    DATA is a table with the columns `text` and `label`, or lines of LABEL<TAB>TEXT (- for stdin). A
    random part is held out as a calibration set, and the guarantee that follows from it is printed.
    Example: pacsent train labelled.csv -o model
    """
    from pacsent.bounds.rounding import format_count
    from pacsent.classify import TextClassifier
    from pacsent.classify.label_quality import fit_holdout_curve
    from pacsent.predict import CertifiedClassifier
    from pacsent.storage import check_place, save

    quiet = options["quiet"]
    is_multilabel = options["label_separator"] is not None
    no_calibration = options["no_calibration"]
    if no_calibration and options["n_candidates"] > 1:
        raise click.UsageError("--n-candidates has no use with --no-calibration. Leave one out.")
    if options["keep_case"] and options["merge_labels"]:
        raise click.UsageError("--keep-case and --merge-labels exclude each other. Leave one out.")
    if no_calibration and options["repeats"]:
        raise click.UsageError("--repeats has no use with --no-calibration. Leave one out.")
    check_place(output, [data, encoder], overwrite=overwrite)
    labelled = inputs.read_labelled(
        data,
        options,
        sampled_only=not no_calibration,
        on_variants=lambda message: not options["keep_case"] and _ask_to_merge(message),
    )
    texts, labels = labelled.texts, labelled.labels
    if not is_multilabel:
        _warn_of_rare_classes([*labels, *labelled.other_labels])
    inputs.say(quiet)(f"{len(texts) + len(labelled.other_texts):,} texts; fitting ...")

    classifier = model = TextClassifier(
        encoder,
        method=options["method"],
        ngrams=(1, ngrams) if ngrams else "auto",
        class_weight="balanced" if options["balanced"] else None,
        n_jobs=options["n_jobs"],
    )
    if no_calibration:
        classifier.fit(texts, labels, groups=labelled.groups)
    else:
        classifier = CertifiedClassifier(
            model,
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
            model.fit(labelled.other_texts, labelled.other_labels)
            classifier.calibrate(texts, labels, overlap="drop")
        else:
            has_others = labelled.other_texts and labelled.groups is None
            judge = (labelled.other_texts, labelled.other_labels) if has_others else None
            classifier.fit(texts, labels, groups=labelled.groups, judge=judge)
        certificate = labelled.add_condition(classifier.certificate_)
        classifier.fitted_ = replace(classifier.fitted_, certificate=certificate)
    save(classifier, output, overwrite=overwrite)

    model = getattr(classifier, "estimator_", classifier)
    chosen = {k: v for k, v in model.selection_.items() if k != "candidates"}
    result = {"model": str(output), "classes": classifier.classes_.tolist(), "chosen": chosen}
    unit = "labels, exact match" if is_multilabel else "classes, accuracy"
    n, n_fitted = classifier.classes_.size, model.classes_.size  # rare ones are left out
    unit = f"{n} {unit}" if n_fitted == n else f"{n_fitted} of {n} {unit}"
    line = (
        f"{output}: {len(model.ngrams_):,} n-grams, {unit} {chosen['accuracy']:.4f} by "
        f"cross-validation on {_count_validated(model):,} training texts"
    )
    if no_calibration:
        inputs.say(quiet)("No guarantee: no labels were held out.")
    else:
        result["certificate"] = classifier.certificate_.to_dict()
        line += f"\n{classifier.certificate_.summary()}"
        n_not_fitted = len(texts) + len(labelled.other_texts) - chosen["n_texts"]
        cost = (
            f"{n_not_fitted:,} texts were held out. To see what that costs in accuracy, train with "
            "--no-calibration and evaluate both models on other texts."
        )
        is_long = len(texts) > _MAX_COST_TEXTS or is_multilabel or "://" in str(encoder)
        if not quiet and not is_long and not labelled.other_texts:
            curve = fit_holdout_curve(model, texts, labels, labelled.groups)
            cost = curve.describe_calibration_cost(n_not_fitted)
        if n_fitted < n:
            n_rare = format_count(n - n_fitted, "class", "classes")
            cost += f" This counts every text of {n_rare} with too few to be fitted."
        inputs.say(quiet)(cost)
    show(result, line, as_json)


def _ask_to_merge(message: str) -> bool:
    """Whether the user takes labels that differ in case or spaces only for one class."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{message} Give --merge-labels, or --keep-case.")
    return click.confirm(f"{message} Is each of these pairs one class?", err=True)


def _warn_of_rare_classes(labels: list) -> None:
    """Name the classes with one or two rows, whichever side of the split these fall on."""
    counts = Counter(labels)
    rare = [name for name in sorted(counts) if counts[name] <= 2]
    if rare:
        shown = ", ".join(f"{_quote(name)} ({counts[name]})" for name in rare[:5])
        more = f" and {len(rare) - 5:,} others" if len(rare) > 5 else ""
        echo(
            f"Warning: classes with one or two rows are hardly learned: {shown}{more}. Add texts.",
            err=True,
        )


def _count_validated(model) -> int:
    """The number of texts that the cross-validated accuracy is about."""
    return len(model.out_of_fold_.labels)


def _quote(name: str) -> str:
    """A name; one with a comma or a quotation mark is quoted."""
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name


def _join(names) -> str:
    """Names between commas; one with a comma or a quotation mark is quoted."""
    return ",".join(map(_quote, names or ()))


_CELLS = {
    "prediction": lambda name: name or "",
    "probability": lambda value: "" if value is None else f"{value:.4f}",
    "set": _join,
    "abstained": lambda value: {None: "", True: "yes", False: "no"}[value],
    "reason": lambda text: text or "",
    "predictions": _join,
    "probabilities": lambda values: ",".join(f"{value:.4f}" for value in values or ()),
}


@cli.command()
@click.argument("model", type=params.ModelPath(file_okay=False))
@params.probability("--error", "Error rate to guarantee for answers and sets.  [default: chosen]")
@click.argument("sources", nargs=-1, metavar="[TEXTS]...")
@params.model_delta
@params.left_out
@job_options
def predict(model, sources, error, delta, left_out, **options):
    """Predict the class or the labels of every text of TEXTS.

    TEXTS is a file with one text per line, a table, or stdin when left out; many files as in
    `pacsent embed`. Writes prediction, probability, set, abstained and the reason why a text is not
    answered whatever its probability, or predictions and probabilities; an output file also has the
    columns of the input. The texts of one file are compared with the calibration set of the model,
    which can detect a difference, not exclude one: exit status 3 if guarantees are withdrawn.
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
def compare(a, b, data, as_json, **options):
    """Bound the difference in error rate of the classifiers A and B.

    DATA is as in `pacsent train`; neither model must have been trained on it. Example: pacsent
    compare old new labelled.csv
    """
    from pacsent.certify import compare

    first, second = (inputs.open_model(path, "a classifier") for path in (a, b))
    labelled = inputs.read_labelled(data, options, first)
    click.get_current_context().meta[ROWS] = labelled.rows
    del options["quiet"]
    result = compare(first, second, labelled.texts, labelled.labels, **options)
    names = ("n", "difference", "difference_lower", "difference_upper", "delta", "n_candidates")
    show({name: getattr(result, name) for name in names}, str(result), as_json)


@cli.command()
@params.model
@click.argument("text")
@params.option("--label", "The class to explain.  [default: the likeliest]")
@params.option("-k", "Words to list.", params.POSITIVE, 10)
@params.option("--html page", "Also write this as a page.", params.PATH)
@params.model_encoder
@params.overwrite
@params.as_json
def explain(model, text, label, k, page, overwrite, as_json):
    """Show what each word of TEXT adds to the answer of MODEL.

    Example: pacsent explain model "a dull film"
    """
    from rich.console import Console

    from pacsent.files import check_output

    check_output(page, [model], overwrite=overwrite)
    classifier = inputs.open_model(model, "a classifier")
    classifier = getattr(classifier, "estimator_", classifier)
    result = classifier.explain(text, label and inputs.class_of(classifier, label))
    if page:
        write_text(page, result.to_html(k))
    if as_json:
        names = ("label", "probability", "words", "ngrams", "vector_remainder", "intercept")
        names += ("from_ngrams", "from_characters", "from_vectors")
        echo_json({name: getattr(result, name) for name in names})
        return
    Console(soft_wrap=True, highlight=False).print(result.to_terminal())
    echo(result.describe(k))


@cli.command()
@params.model
@params.texts
@params.text_columns
@params.option("--alpha", "Probability of a false alarm at any time.", params.PROBABILITY, 0.05)
@params.random_state
@params.model_encoder
@params.reports
def monitor(model, texts, alpha, random_state, as_json, **options):
    """Read TEXTS and stop once they differ from the calibration set.

    The calibration set is the part that `pacsent train` held out. Rows are counted from 1. Exit
    status 3 on an alarm; no alarm does not say that the texts are alike.
    Example: tail -f log | pacsent monitor model -
    """
    from pacsent.certify import DriftMonitor

    classifier = inputs.open_model(model, "a classifier")
    drift = DriftMonitor(classifier, alpha=alpha, random_state=random_state)
    stream = inputs.read_texts(texts, options, progress=True)
    while (batch := list(islice(stream, 64))) and not drift.update(batch):
        pass
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
@params.id_column
@params.model_encoder
@params.reports
def evaluate(paths, k, as_json, **options):
    """Print how good MODEL is on DATA, labelled texts new to it.

    Without MODEL, DATA is a table of labels and predictions. Accuracy with its interval, precision,
    recall and F1 of each class, and wrong answers. `pacsent certify` gives a guarantee, `pacsent
    report` a page. Example: pacsent evaluate model new.csv
    """
    from pacsent.classify.diagnostics import report, report_predictions

    path, data = inputs.split_model(paths)
    ids = inputs.read_ids(data, options)
    if path is None:
        table, selection = inputs.read_predictions(data, options)
        table = table.select(selection.sampled)
        result = report_predictions(table.labels, table.predictions, table.texts)
        rows, condition = selection.sampled, selection.condition
    else:
        if options.pop("prediction_column") is not None:
            raise click.UsageError("--prediction-column is for DATA without MODEL.")
        classifier, labelled = inputs.open_labelled(path, data, options)
        result = report(classifier, labelled.texts, labelled.labels)
        rows, condition = labelled.rows, labelled.condition
    errors = [{**error, "row": rows[error["row"]]} for error in result.errors[:k]]
    lines = [_describe_error(error, ids) for error in errors]
    if condition:
        lines.insert(0, f"{condition[0].upper()}{condition[1:]}.")
    numbered = inputs.number_rows(errors, ids)
    show({**result.to_dict(), "errors": numbered}, "\n".join([str(result), *lines]), as_json)


def _describe_error(error: dict, ids: list | None) -> str:
    """A wrong answer in one line."""
    probability = error["probability"]
    shown = "" if probability is None else f" ({probability:.2f})"
    prediction = f"{error['label']}, predicted {error['prediction']}{shown}"
    row = inputs.describe_row(error["row"], ids)
    return f"{row}, {prediction}: {shorten(error['text'])}"


@cli.command()
@params.model
@params.data
@params.output("The page, FILE.html.")
@params.label_columns
@params.flag("--curve", "Also estimate how many more labels are needed.")
@params.flag("--audit", "Also list labels of DATA that are probably wrong, and duplicates.")
@params.id_column
@params.model_encoder
@params.outputs
def report(model, data, output, curve, audit, overwrite, as_json, **options):
    """Write a page about MODEL on DATA, labelled texts new to it.

    Confusion matrix, precision, recall and F1 with intervals, calibration, risk against coverage
    and words of each class. Example: pacsent report model new.csv -o report.html
    """
    from sklearn.base import clone

    from pacsent.classify import label_quality as tools
    from pacsent.classify.diagnostics import report
    from pacsent.files import check_output

    check_output(output, [data, model], overwrite=overwrite)
    ids = inputs.read_ids(data, options)
    classifier, labelled = inputs.open_labelled(model, data, options)
    texts, labels = labelled.texts, labelled.labels
    fresh = clone(getattr(classifier, "estimator_", classifier))
    line = audited = None
    if audit:  # both sections look at predictions for texts left out: they are made once
        left_out = tools.predict_labels_left_out(texts, labels, fresh)
        audited = replace(tools.audit_left_out(left_out, fresh), rows=labelled.rows)
        line = tools.fit_learning_curve_left_out(left_out, fresh, 0) if curve else None
    elif curve:
        line = tools.fit_learning_curve(texts, labels, model=fresh, random_state=0)
    result = report(classifier, texts, labels, curve=line, audit=audited)
    errors = [{**error, "row": labelled.rows[error["row"]]} for error in result.errors]
    if ids is not None:
        errors = [{**error, "id": ids[error["row"]]} for error in errors]
    result = replace(result, errors=errors)
    source = "standard input" if data == "-" else Path(data).name
    write_text(output, result.to_html(f"Report of {Path(model).name} on {source}"))
    sections = [str(result).partition("\n")[0], *(str(part) for part in (line, audited) if part)]
    numbers = {"page": output, **result.to_dict()}
    if audited is not None:
        numbers["audit"] = inputs.number_audit(audited, ids)
    show(numbers, "\n".join(sections), as_json)
    inputs.say(options["quiet"])(f"wrote {output}")
