"""Commands about classifiers: classify train, predict, certify, compare, explain, watch."""

from pathlib import Path

import click

from pacsent.cli import many_files as shards
from pacsent.cli.command_line import (
    NON_NEGATIVE,
    PATH,
    POSITIVE,
    ModelPath,
    cli,
    delta_option,
    encoder_option,
    flag,
    json_lines_option,
    json_option,
    n_jobs_option,
    open_model,
    option,
    output_options,
    overlap_option,
    overwrite_option,
    probability_option,
    quiet_option,
)
from pacsent.cli.many_files import shard_options
from pacsent.cli.printing import echo_json, show
from pacsent.cli.text_inputs import (
    OneFile,
    TextsPath,
    label_options,
    label_sets,
    labels_for,
    read_labelled,
    read_texts,
    separator_option,
    text_options,
)


@cli.group()
def classify():
    """Train and use text classifiers with error guarantees."""


class WordsOrNone(ModelPath):
    """Word vectors, or none."""

    def convert(self, value, param, ctx):
        return None if value in (None, "none") else super().convert(value, param, ctx)


words_option = option(
    "--words",
    "Word vectors: a folder, english, or none for n-grams alone.",
    WordsOrNone(encoders=True, exists=True),
    "english",
)


class ShareOrAuto(click.FloatRange):
    """A share strictly between 0 and 1, or auto."""

    def __init__(self):
        super().__init__(0, 1, min_open=True, max_open=True)

    def convert(self, value, param, ctx):
        return value if value == "auto" else super().convert(value, param, ctx)


def _classifier(path):
    model = open_model(path)
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{path} must hold a classifier. It holds {type(model).__name__} instead. Train one: "
            "pacsent classify train."
        )
    return model


def _label_of(classifier, label):
    """A label of the command line as the classifier's own."""
    return int(label) if classifier.classes_.dtype.kind in "iu" and label.isdigit() else label


def _text_classifier(classifier):
    """The TextClassifier in a certified classifier, or this one."""
    return getattr(classifier, "estimator_", classifier)


@classify.command()
@click.argument("data", type=TextsPath())
@option("-o --output", "Folder of the model.", PATH, required=True)
@label_options
@separator_option
@option(
    "--group-column",
    "Column of the group (book, author, day) that a text is from. Cross-validation leaves the "
    "texts of a group out together, for new texts of other groups.",
    metavar="COLUMN",
)
@words_option
@option("--method", "How texts become vectors.", default="Average")
@option("--ngrams", "Longest n-gram.  [default: by the texts]", click.IntRange(1, 8))
@option(
    "--holdout",
    "Share of the labels to hold out as a calibration set, such as 0.2, or auto: by their "
    "number.  [default: none, and no guarantee]",
    ShareOrAuto(),
    metavar="SHARE",
)
@delta_option
@option(
    "--n-candidates",
    "Number of models of which the one with the smallest bound is kept; corrected for.",
    POSITIVE,
    1,
)
@flag("--balanced", "Give every class the same weight.")
@option(
    "--random-state",
    "Seed of the folds and of the hold-out.  [default: 0 for the folds, drawn for the hold-out]",
    NON_NEGATIVE,
    metavar="SEED",
)
@n_jobs_option
@output_options
def train(data, output, words, ngrams, **given):
    """Train a classifier on DATA and save it as a folder.

    DATA is a table (.csv, .tsv, .jsonl, .parquet) with the columns `text` and `label`, or lines of
    LABEL<TAB>TEXT (- for stdin). Labels are strings, as they stand in the file: 1 is '1'.
    Everything is chosen on the training labels. With --holdout a random part is held out as a
    calibration set, and the guarantee that follows from it is printed. With --group-column whole
    groups are held out and it is about new groups; it says so where there are too few for that.

    With --label-separator the model gives every text any number of labels, and the guarantee is on
    their errors and F1.
    """
    from pacsent.classify import TextClassifier
    from pacsent.guarantees import CertifiedClassifier
    from pacsent.storage import check_place, save

    separator = given["label_separator"]
    if separator is not None and given["balanced"]:
        raise click.UsageError("--balanced cannot be used with --label-separator. Leave one out.")
    check_place(output, [data, words], overwrite=given["overwrite"])
    texts, labels, groups = read_labelled(data, given, given["quiet"], given["group_column"])
    if separator is not None:
        labels = label_sets(labels, separator)
    if not given["quiet"]:
        different = len(
            {label for label_set in labels for label in label_set} if separator else set(labels)
        )
        kind = "labels" if separator else "classes"
        click.echo(f"{len(texts):,} texts, {different:,} {kind}; fitting ...", err=True)
    classifier = TextClassifier(
        words,
        method=given["method"],
        ngrams=(1, ngrams) if ngrams else "auto",
        class_weight="balanced" if given["balanced"] else None,
        n_jobs=given["n_jobs"],
        random_state=given["random_state"] or 0,
    )
    if given["holdout"] is not None:
        classifier = CertifiedClassifier(
            classifier,
            holdout=given["holdout"],
            delta=given["delta"],
            n_candidates=given["n_candidates"],
            random_state=given["random_state"],
        )
    elif given["n_candidates"] > 1:
        raise click.UsageError("--n-candidates needs --holdout, such as --holdout auto.")
    classifier.fit(texts, labels, groups=groups)
    save(classifier, output, overwrite=given["overwrite"])
    model = _text_classifier(classifier)
    chosen = {k: v for k, v in model.selection_.items() if k != "candidates"}
    certificate = getattr(classifier, "certificate_", None)
    if given["as_json"]:
        result = {"model": str(output), "classes": classifier.classes_.tolist(), "chosen": chosen}
        if certificate is not None:
            result["certificate"] = certificate.to_dict()
        echo_json(result)
        return
    click.echo(
        f"{output}: {len(model.ngrams_):,} n-grams, {classifier.classes_.size} "
        f"{'labels, exact match' if separator else 'classes, accuracy'} "
        f"{chosen['accuracy']:.4f} on training texts left out ({chosen['selection']})"
    )
    if certificate is not None:
        click.echo(str(certificate))
    elif not given["quiet"]:
        click.echo(
            "No guarantee: no labels were held out. --holdout auto holds some out.", err=True
        )


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("sources", nargs=-1, required=True, metavar="TEXTS...")
@option(
    "-o --output",
    "File ending in .csv, .tsv, .jsonl or .parquet, or a folder for many files.  [default: "
    "tab-separated values on stdout]",
    PATH,
)
@probability_option(
    "--error", None, "Error rate to guarantee for answers and label sets.  [default: chosen]"
)
@delta_option
@encoder_option
@shard_options
@n_jobs_option
@overwrite_option
@json_lines_option
@quiet_option
def predict(model, sources, output, overwrite, quiet, n_jobs, as_json, **given):
    """Predict the class or the labels of every text of TEXTS.

    TEXTS is a file with one text per line, a table, or - for stdin. Writes the columns label,
    probability, set and abstained. An output file also has every column of the input table; a
    column with one of these names is renamed, such as input_label. On stdout, or where
    --keep-columns names some, only those are kept.

    A set is class names between commas; a name with a comma is quoted. Sets and abstention need a
    model trained with --holdout. The error rate that is guaranteed is printed on stderr, or why
    none can be and which one is reachable.

    A model of several labels a text writes the columns labels and probabilities.

    Many files, folders, globs and addresses (s3://, gs://, hf://) are worked on file by file, as
    by `pacsent embed`: -o is then a folder that gets one output for each, and a manifest.json.
    """
    how = shards.pop_options(given)
    if shards.is_many(sources, output, how):
        from pacsent.scale import predict_shards

        job = {"keep_columns": how["keep_columns"] or ("*",), "n_jobs": n_jobs, **given}
        manner = {"overwrite": overwrite, "quiet": quiet, "as_json": as_json}
        shards.run_shards(predict_shards, model, sources, output, how, **job, **manner)
        return
    (path,) = sources
    shards.check_source(path)
    n_texts, n_bad = _predict_one(model, path, output, how, given, overwrite, quiet, as_json)
    if as_json and output not in (None, "-"):
        echo_json({"model": model, "output": output, "texts": n_texts})
    if n_bad:
        click.get_current_context().exit(1)


def _predict_one(model, path, output, how: dict, given: dict, overwrite, quiet, as_json):
    """One file or stdin to one file or stdout; the number of texts, and of bad rows."""
    from pacsent.files import check_output
    from pacsent.progress import bar
    from pacsent.text import result_files

    suffix = ".jsonl" if as_json else "lines"
    if output is not None and output != "-":
        try:
            suffix = result_files.check_suffix(output, result_files.TABLES)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-o") from None
        check_output(output, overwrite=overwrite, inputs=[path, model])
    classifier = _classifier(model)
    columns, rows_of = _columns(classifier, given, quiet)
    read = OneFile(path, how, columns, quiet=quiet, keep_all=suffix != "lines" and not as_json)
    rows = rows_of(read.texts())

    def batches():
        yield {**read.take(0), **{name: [] for name in columns}}
        done = 0
        for answers in rows:
            n = len(answers[columns[0]])
            for at in read.bad_places.intersection(range(done, done + n)):
                for values in answers.values():
                    values[at - done] = None
            done += n
            if suffix not in (".jsonl", ".parquet"):
                answers = {name: [_CELLS[name](v) for v in answers[name]] for name in columns}
            yield {**read.take(n), **answers}
            shown.advance(n)

    with bar("predicting", unit="texts", enabled=not quiet and output is not None) as shown:
        n_texts = result_files.write(batches(), output, overwrite=overwrite, suffix=suffix)
    return n_texts, len(read.bad)


def _listed(names) -> str:
    if names is None:
        return ""
    return ",".join(
        '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name
        for name in names
    )


def _shown(value) -> str:
    return "" if value is None else f"{value:.4f}"


_CELLS = {
    "label": lambda name: name or "",
    "probability": _shown,
    "set": _listed,
    "abstained": lambda value: "" if value is None else "yes" if value else "no",
    "labels": _listed,
    "probabilities": lambda values: "" if values is None else ",".join(map(_shown, values)),
}


def _columns(model, given, quiet):
    """The columns that a model's predictions have, and the function that makes them of texts."""
    if getattr(model, "targets_", "classes") != "classes":
        if given["error"] is not None:
            raise click.UsageError("--error is for models that give one class to each text.")
        return ("labels", "probabilities"), lambda texts: _label_lists(model, texts)
    rule = _answer_rule(model, given["error"], given["delta"], quiet)
    columns = ("label", "probability", "set", "abstained")
    return columns, lambda texts: _answers(model, texts, rule)


def _label_lists(classifier, texts):
    """Columns of a model of several labels, in batches; the likeliest label first."""
    import numpy as np

    classifier = _text_classifier(classifier)
    names = [str(name) for name in classifier.classes_]
    for values in classifier.stream(texts):
        proba = 1.0 / (1.0 + np.exp(-values))
        is_assigned = classifier.given(proba)
        order = [
            [c for c in np.argsort(-p, kind="stable") if g[c]] for p, g in zip(proba, is_assigned)
        ]
        yield {
            "labels": [[names[c] for c in row] for row in order],
            "probabilities": [p[row].tolist() for p, row in zip(proba, order)],
        }


def _answer_rule(classifier, error, delta, quiet):
    """When the classifier answers; what is guaranteed, or why nothing is, on stderr."""
    from pacsent.guarantees import AnswerRule

    answering = AnswerRule(classifier, error=error, delta=delta)
    for why in filter(None, (answering.no_sets, answering.no_answers)):
        click.echo(f"Warning: {why}", err=True)
    if answering.statement and not answering.no_answers and not quiet:
        click.echo(answering.statement, err=True)
    return answering


def _answers(classifier, texts, answering):
    """Columns of the answers, in batches."""
    import numpy as np

    names = [str(name) for name in classifier.classes_]
    for values in _text_classifier(classifier).stream(texts):
        answers = answering(values)
        n = len(answers.best)
        sets, abstained = answers.inside, answers.abstained
        yield {
            "label": [names[at] for at in answers.best],
            "probability": answers.probability.tolist(),
            "set": [None] * n
            if sets is None
            else [[names[c] for c in np.flatnonzero(row)] for row in sets],
            "abstained": [None] * n if abstained is None else abstained.tolist(),
        }


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("data", type=TextsPath())
@label_options
@separator_option
@delta_option
@flag("--per-class", "Also bound every class, and the mean over classes.")
@overlap_option
@option(
    "--n-candidates",
    "Number of classifiers that were compared on DATA; corrected for.",
    POSITIVE,
    1,
)
@encoder_option
@json_option
@quiet_option
def certify(model, data, as_json, quiet, **given):
    """Bound the error rate of MODEL on new texts like DATA.

    DATA is as in `classify train`. The model must not have been trained on it.
    """
    from pacsent.guarantees import certify as certified
    from pacsent.progress import bar

    classifier = _classifier(model)
    texts, labels, _ = read_labelled(data, given, quiet)
    labels = labels_for(classifier, labels, given.pop("label_separator"))
    with bar("certifying", total=len(texts), unit="texts", enabled=not quiet) as shown:
        certificate = certified(classifier, texts, labels, **given)
        shown.advance(len(texts))
    click.echo(certificate.to_json() if as_json else str(certificate))


@classify.command()
@click.argument("a", type=ModelPath(exists=True))
@click.argument("b", type=ModelPath(exists=True))
@click.argument("data", type=TextsPath())
@label_options
@separator_option
@delta_option
@overlap_option
@encoder_option
@json_option
@quiet_option
def compare(a, b, data, as_json, quiet, **given):
    """Bound the difference in error rate of the classifiers A and B.

    DATA is as in `classify train`. Neither model must have been trained on it.
    """
    from pacsent.guarantees import compare as compared
    from pacsent.progress import bar

    first, second = _classifier(a), _classifier(b)
    texts, labels, _ = read_labelled(data, given, quiet)
    labels = labels_for(first, labels, given.pop("label_separator"))
    with bar("comparing", total=len(texts), unit="texts", enabled=not quiet) as shown:
        comparison = compared(first, second, texts, labels, **given)
        shown.advance(len(texts))
    if as_json:
        low, high = comparison.bounds
        row = {"n": comparison.n, "difference": comparison.difference, "low": low, "high": high}
        row |= {"delta": comparison.delta}
        echo_json(row)
    else:
        click.echo(str(comparison))


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("text", required=False)
@option("--label", "The class to explain.  [default: the likeliest]")
@option(
    "--top",
    "Words to list. Without TEXT: the N strongest features of each class.",
    POSITIVE,
    metavar="N",
)
@option("--html page", "Also write this as a page.", PATH)
@encoder_option
@overwrite_option
@json_option
def explain(model, text, label, top, page, overwrite, as_json):
    """Show what each word of TEXT adds to the answer of MODEL.

    A word is listed with all that it adds, by its n-grams and by its vector, whatever its case.
    Without TEXT, --top N lists the strongest features of each class.
    """
    from rich.console import Console

    from pacsent.files import check_output, replacing

    if text is None and top is None:
        raise click.UsageError("Give a TEXT to explain, or --top N for the features of each class.")
    check_output(page, [model], overwrite=overwrite)
    classifier = _text_classifier(_classifier(model))
    if text is None:
        result = {str(c): classifier.top_features(c, top) for c in classifier.classes_}
        html = classifier.top_features_html(top) if page else ""
    else:
        label = None if label is None else _label_of(classifier, label)
        explanation = classifier.explain(text, label)
        shown = (
            "label",
            "probability",
            "words",
            "ngrams",
            "from_ngrams",
            "from_characters",
            "from_vectors",
            "vector_rest",
            "rest",
        )
        result = {name: getattr(explanation, name) for name in shown}
        html = explanation.to_html(top or 20) if page else ""
    if page:
        with replacing(page) as file:
            file.write(html.encode())
    if as_json:
        echo_json(result)
    elif text is None:
        for name, features in result.items():
            click.echo(f"{name}: " + ", ".join(f"{gram} {w:+.2f}" for gram, w in features))
    else:
        Console(soft_wrap=True, highlight=False).print(explanation.to_terminal())
        click.echo(
            f"{explanation.label} (probability {explanation.probability:.3f}, decision "
            f"{explanation.decision:+.3f})"
        )
        for word, value in explanation.rows(top or 10):
            click.echo(f"  {value:+.3f}  {word}")


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("texts", type=TextsPath())
@text_options
@probability_option("--alpha", 0.05, "Probability of a false alarm at any time.")
@option("--random-state", "Seed for ties.  [default: drawn]", NON_NEGATIVE)
@encoder_option
@json_option
@quiet_option
def watch(model, texts, text_column, input_format, alpha, random_state, as_json, quiet):
    """Watch TEXTS and stop once they differ from the calibration set.

    TEXTS is a file with one text per line, a table, or - for stdin. The calibration set is the part
    that `classify train --holdout` held out. Exit status 1 on an alarm.
    """
    from itertools import islice

    from pacsent.guarantees import StreamWatcher
    from pacsent.progress import bar

    watcher = StreamWatcher(_classifier(model), alpha=alpha, seed=random_state)
    remaining = read_texts(texts, text_column, input_format, quiet)
    with bar("watching", unit="texts", enabled=not quiet) as shown:
        while (batch := list(islice(remaining, 64))) and not watcher.update(batch):
            shown.advance(len(batch))
    result = {
        "alarm": watcher.alarm,
        "alarm_at": watcher.alarm_at,
        "n_seen": watcher.n_seen,
        "capital": watcher.capital,
    }
    show(result, str(watcher), as_json)
    if watcher.alarm:
        click.get_current_context().exit(1)


def _page_path(path):
    if not path.lower().endswith((".html", ".htm")):
        raise click.BadParameter(
            f"The page must end in .html or .htm. Got {path!r} instead.", param_hint="-o"
        )
    return path


def _write_page(page, path, overwrite, sources):
    from pacsent import files

    files.check_output(path, sources, overwrite=overwrite)
    with files.replacing(path) as file:
        file.write(page.encode())


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("data", type=TextsPath())
@option("-o --output", "The page, FILE.html.", PATH, required=True)
@label_options
@flag("--curve", "Also estimate how many more labels are needed.")
@flag("--audit", "Also list labels of DATA that are probably wrong, and duplicates.")
@encoder_option
@output_options
def report(model, data, output, curve, audit, overwrite, as_json, quiet, **given):
    """Write a page about MODEL on DATA, labelled texts new to it.

    Confusion matrix, precision, recall and F1 with intervals, calibration, risk against coverage,
    words of each class, with --curve a learning curve, and with --audit suspicious labels, the most
    suspicious first with a reason each, duplicates and texts without a word.
    """
    from sklearn.base import clone

    from pacsent import classify as tools
    from pacsent.classify.diagnostics import report as made
    from pacsent.files import check_output

    check_output(_page_path(output), [data, model], overwrite=overwrite)
    classifier = _classifier(model)
    texts, labels, _ = read_labelled(data, given, quiet)
    labels = [_label_of(classifier, label) for label in labels]
    unfitted = clone(_text_classifier(classifier))
    line = tools.learning_curve(texts, labels, model=unfitted) if curve else None
    audited = tools.audit(texts, labels, model=unfitted) if audit else None
    result = made(classifier, texts, labels, curve=line, audit=audited)
    _write_page(result.to_html(f"Report of {Path(model).name}"), output, overwrite, [data, model])
    if as_json:
        echo_json({"page": output, **result.to_dict()})
        return
    click.echo(result)
    for section in filter(None, (line, audited)):
        click.echo(str(section))
    click.echo(f"wrote  {output}", err=True)
