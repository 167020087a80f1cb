"""Commands about classifiers: classify train, predict, certify, compare, explain, watch, report."""

from pathlib import Path

import click

from pacsent.cli.command_line import (
    PATH,
    POSITIVE,
    PROBABILITY,
    ModelPath,
    cli,
    delta_option,
    encoder_option,
    flag,
    given_encoder,
    json_option,
    n_candidates_option,
    n_jobs_option,
    open_model,
    option,
    output_options,
    output_path,
    overlap_option,
    overwrite_option,
    quiet_option,
    random_state_option,
)
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import echo_json, show, show_certificate, write_text
from pacsent.cli.text_inputs import (
    TextsPath,
    check_page,
    class_of,
    column_option,
    label_options,
    read_labelled,
    read_texts,
    say,
    text_options,
)


@cli.group()
def classify():
    """Train and use text classifiers with error guarantees."""


class WordsOrNone(ModelPath):
    """Word vectors, or none."""

    def convert(self, value, param, ctx):
        return None if value in (None, "none") else super().convert(value, param, ctx)


class FractionOrAuto(click.FloatRange):
    """A fraction strictly between 0 and 1, or auto."""

    def __init__(self):
        super().__init__(0, 1, min_open=True, max_open=True)

    def convert(self, value, param, ctx):
        return value if value == "auto" else super().convert(value, param, ctx)


words_option = option(
    "--words",
    "Word vectors: a folder, english, or none for n-grams alone.",
    WordsOrNone(encoders=True, exists=True),
    "english",
)
_model_argument = click.argument("model", type=ModelPath(exists=True))
_data_argument = click.argument("data", type=TextsPath())


def _open_classifier(path):
    classifier = open_model(path)
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"{path} must hold a classifier. It holds {type(classifier).__name__} instead. Train "
            "one: pacsent classify train."
        )
    return classifier


@classify.command()
@_data_argument
@output_path("Folder of the model.")
@label_options
@column_option(
    "group",
    "Column of the group (book, author, day) that a text is from. The texts of a group are held "
    "out together, for new texts of other groups.",
)
@words_option
@option("--method", "How texts become vectors.", default="Average")
@option("--ngrams", "Longest n-gram.  [default: by the texts]", click.IntRange(1, 8))
@option(
    "--holdout",
    "Fraction of the labels to hold out as a calibration set, such as 0.2, or auto: by their "
    "number.  [default: none, and no guarantee]",
    FractionOrAuto(),
    metavar="FRACTION",
)
@delta_option
@n_candidates_option
@flag("--balanced", "Give every class the same weight.")
@random_state_option
@n_jobs_option
@output_options
def train(data, output, words, ngrams, overwrite, as_json, **options):
    """Train a classifier on DATA and save it as a folder.

    DATA is a table with the columns `text` and `label`, or lines of LABEL<TAB>TEXT (- for stdin).
    With --holdout a random part is held out as a calibration set, and the guarantee that follows
    from it is printed. Example: pacsent classify train labelled.csv -o model --holdout auto
    """
    from pacsent.classify import TextClassifier
    from pacsent.guarantees import CertifiedClassifier
    from pacsent.storage import check_place, save

    is_multilabel, quiet = options["label_separator"] is not None, options["quiet"]
    if is_multilabel and options["balanced"]:
        raise click.UsageError("--balanced cannot be used with --label-separator. Leave one out.")
    if options["holdout"] is None and options["n_candidates"] > 1:
        raise click.UsageError("--n-candidates needs --holdout, such as --holdout auto.")
    check_place(output, [data, words], overwrite=overwrite)
    texts, labels, groups = read_labelled(data, options)
    say(quiet)(f"{len(texts):,} texts; fitting ...")
    classifier = model = TextClassifier(
        words,
        method=options["method"],
        ngrams=(1, ngrams) if ngrams else "auto",
        class_weight="balanced" if options["balanced"] else None,
        n_jobs=options["n_jobs"],
        random_state=options["random_state"] or 0,
    )
    if options["holdout"] is not None:
        names = ("holdout", "delta", "n_candidates", "random_state")
        classifier = CertifiedClassifier(model, **{name: options[name] for name in names})
    classifier.fit(texts, labels, groups=groups)
    save(classifier, output, overwrite=overwrite)
    model = getattr(classifier, "estimator_", classifier)
    chosen = {k: v for k, v in model.selection_.items() if k != "candidates"}
    result = {"model": str(output), "classes": classifier.classes_.tolist(), "chosen": chosen}
    unit = "labels, exact match" if is_multilabel else "classes, accuracy"
    line = (
        f"{output}: {len(model.ngrams_):,} n-grams, {classifier.classes_.size} {unit} "
        f"{chosen['accuracy']:.4f} on training texts left out ({chosen['selection']})"
    )
    if options["holdout"] is None:
        say(quiet)("No guarantee: no labels were held out. --holdout auto holds some out.")
    else:
        result["certificate"] = classifier.certificate_.to_dict()
        line += f"\n{classifier.certificate_}"
    show(result, line, as_json)


def _join(names) -> str:
    """Names between commas; one with a comma or a quotation mark is quoted."""
    return ",".join(
        '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name
        for name in names or ()
    )


_CELLS = {
    "label": lambda name: name or "",
    "probability": lambda value: "" if value is None else f"{value:.4f}",
    "set": _join,
    "abstained": lambda value: {None: "", True: "yes", False: "no"}[value],
    "labels": _join,
    "probabilities": lambda values: ",".join(f"{value:.4f}" for value in values or ()),
}


@classify.command()
@_model_argument
@option("--error", "Error rate to guarantee for answers and sets.  [default: chosen]", PROBABILITY)
@delta_option
@job_options
def predict(model, sources, error, delta, **options):
    """Predict the class or the labels of every text of TEXTS.

    TEXTS is a file with one text per line, a table, or stdin when left out; many files as in
    `pacsent embed`. Writes label, probability, set and abstained, or labels and probabilities; an
    output file also has the columns of the input. Sets and abstention need a model trained with
    --holdout. Example: pacsent classify predict model new.csv -o answers.csv
    """
    from pacsent.scale import Predict

    run_job(Predict(model, error, delta, given_encoder()), sources, options, _CELLS)


@classify.command()
@_model_argument
@_data_argument
@label_options
@delta_option
@flag("--per-class", "Also bound every class, and the mean over classes.")
@overlap_option
@n_candidates_option
@encoder_option
@json_option
@quiet_option
def certify(model, data, as_json, **options):
    """Bound the error rate of MODEL on new texts like DATA.

    DATA is as in `classify train`; the model must not have been trained on it. Example: pacsent
    classify certify model new.csv
    """
    from pacsent.guarantees import certify

    classifier = _open_classifier(model)
    texts, labels, _ = read_labelled(data, options, classifier)
    del options["quiet"]
    show_certificate(certify(classifier, texts, labels, **options), None, as_json)


@classify.command()
@click.argument("a", type=ModelPath(exists=True))
@click.argument("b", type=ModelPath(exists=True))
@_data_argument
@label_options
@delta_option
@overlap_option
@encoder_option
@json_option
@quiet_option
def compare(a, b, data, as_json, **options):
    """Bound the difference in error rate of the classifiers A and B.

    DATA is as in `classify train`; neither model must have been trained on it. Example: pacsent
    classify compare old new labelled.csv
    """
    from pacsent.guarantees import compare

    first, second = _open_classifier(a), _open_classifier(b)
    texts, labels, _ = read_labelled(data, options, first)
    del options["quiet"]
    result = compare(first, second, texts, labels, **options)
    low, high = result.bounds
    numbers = {"n": result.n, "difference": result.difference, "low": low, "high": high}
    show({**numbers, "delta": result.delta}, str(result), as_json)


@classify.command()
@_model_argument
@click.argument("text", required=False)
@option("--label", "The class to explain.  [default: the likeliest]")
@option("--top", "Words to list; without TEXT, features of each class.", POSITIVE, metavar="N")
@option("--html page", "Also write this as a page.", PATH)
@encoder_option
@overwrite_option
@json_option
def explain(model, text, label, top, page, overwrite, as_json):
    """Show what each word of TEXT adds to the answer of MODEL.

    Without TEXT, --top N lists the strongest features of each class. Example: pacsent classify
    explain model "a dull film"
    """
    from rich.console import Console

    from pacsent.files import check_output

    if text is None and top is None:
        raise click.UsageError("Give a TEXT to explain, or --top N for the features of each class.")
    check_output(page, [model], overwrite=overwrite)
    classifier = _open_classifier(model)
    classifier = getattr(classifier, "estimator_", classifier)
    if text is None:
        features = {str(c): classifier.top_features(c, top) for c in classifier.classes_}
        if page:
            write_text(page, classifier.top_features_html(top))
        lines = [
            f"{name}: " + ", ".join(f"{gram} {weight:+.2f}" for gram, weight in rows)
            for name, rows in features.items()
        ]
        show(features, "\n".join(lines), as_json)
        return
    result = classifier.explain(text, None if label is None else class_of(classifier, label))
    if page:
        write_text(page, result.to_html(top or 20))
    if as_json:
        names = ("label", "probability", "words", "ngrams", "vector_rest", "rest")
        names += ("from_ngrams", "from_characters", "from_vectors")
        echo_json({name: getattr(result, name) for name in names})
        return
    Console(soft_wrap=True, highlight=False).print(result.to_terminal())
    click.echo(
        f"{result.label} (probability {result.probability:.3f}, decision {result.decision:+.3f})"
    )
    for word, value in result.rows(top or 10):
        click.echo(f"  {value:+.3f}  {word}")


@classify.command()
@_model_argument
@click.argument("texts", type=TextsPath())
@text_options
@option("--alpha", "Probability of a false alarm at any time.", PROBABILITY, 0.05)
@random_state_option
@encoder_option
@json_option
@quiet_option
def watch(model, texts, alpha, random_state, as_json, **options):
    """Watch TEXTS and stop once they differ from the calibration set.

    The calibration set is the part that `classify train --holdout` held out. Exit status 1 on an
    alarm. Example: tail -f log | pacsent classify watch model -
    """
    from itertools import islice

    from pacsent.guarantees import StreamWatcher

    watcher = StreamWatcher(_open_classifier(model), alpha=alpha, seed=random_state)
    stream = read_texts(texts, options, progress=True)
    while (batch := list(islice(stream, 64))) and not watcher.update(batch):
        pass
    names = ("alarm", "alarm_at", "n_seen", "capital")
    show({name: getattr(watcher, name) for name in names}, str(watcher), as_json)
    if watcher.alarm:
        click.get_current_context().exit(1)


@classify.command()
@_model_argument
@_data_argument
@output_path("The page, FILE.html.")
@label_options
@flag("--curve", "Also estimate how many more labels are needed.")
@flag("--audit", "Also list labels of DATA that are probably wrong, and duplicates.")
@encoder_option
@output_options
def report(model, data, output, curve, audit, overwrite, as_json, **options):
    """Write a page about MODEL on DATA, labelled texts new to it.

    Confusion matrix, precision, recall and F1 with intervals, calibration, risk against coverage
    and words of each class. Example: pacsent classify report model new.csv -o report.html
    """
    from sklearn.base import clone

    from pacsent import classify as tools
    from pacsent.classify.diagnostics import report

    check_page(output, [data, model], overwrite)
    classifier = _open_classifier(model)
    texts, labels, _ = read_labelled(data, options, classifier)
    unfitted = clone(getattr(classifier, "estimator_", classifier))
    line = tools.learning_curve(texts, labels, model=unfitted) if curve else None
    audited = tools.audit(texts, labels, model=unfitted) if audit else None
    result = report(classifier, texts, labels, curve=line, audit=audited)
    write_text(output, result.to_html(f"Report of {Path(model).name}"))
    sections = [str(section) for section in (result, line, audited) if section is not None]
    show({"page": output, **result.to_dict()}, "\n".join(sections), as_json)
    say(options["quiet"])(f"wrote  {output}")
