"""Commands about classifiers: classify train, predict, certify, compare, explain, watch."""

import json
import os
import re

import click

from pacsent.cli import many_files as shards
from pacsent.cli.command_line import (
    ModelPath,
    cli,
    json_lines_option,
    json_option,
    n_jobs_option,
    overwrite_option,
    quiet_option,
)
from pacsent.cli.many_files import shard_options
from pacsent.cli.printing import echo_json


@cli.group(cls=type(cli))
def classify():
    """Train text classifiers, with promises about them."""


def _columns(command):
    """Which columns of a table hold the text and the label."""
    label = click.option("--label-column", help="Column of the label.  [default: label]")
    text = click.option(
        "--text-column",
        help="Column of the text. A CSV or TSV needs both names; without them its lines are "
        "LABEL<TAB>TEXT.  [default: text]",
    )
    return text(label(command))


def _probability(name, default, text):
    def check(context, parameter, value):
        if value is not None and not 0 < value < 1:
            raise click.BadParameter(f"{value:g} is not strictly between 0 and 1.")
        return value

    return click.option(
        name, type=float, default=default, show_default=default is not None, callback=check,
        help=text,
    )  # fmt: skip


_delta = _probability("--delta", 0.05, "Chance that the promise fails.")
_new = click.option(
    "--new", type=click.Path(exists=True),
    help="Texts the promise is for, a text a line or the column `text` of a table: test whether "
    "they are like DATA.",
)  # fmt: skip
_DATA = click.Path(exists=True, dir_okay=False)


def _classifier(path):
    from pacsent.loading import load

    found = load(path)
    if not hasattr(found, "predict_proba"):
        raise ValueError(
            f"{path} must hold a classifier. It holds {type(found).__name__} instead. Train one: "
            "pacsent classify train."
        )
    return found


def _labelled(path, text_column, label_column):
    from pacsent.text.tables import read_labelled_texts

    return read_labelled_texts(path, text_column=text_column, label_column=label_column)


def _checked(texts, new):
    """Whether the texts of the file `new` are like these; None without a file."""
    from pacsent.classify import check_exchangeable
    from pacsent.text.tables import stream_texts

    return None if new is None else check_exchangeable(texts, stream_texts(new))


def _labels_of(classifier, labels):
    """Labels of a file as the classifier's own: numbers where it has numbers."""
    import numpy as np

    if classifier.classes_.dtype.kind in "iu":
        try:
            return np.array([int(label) for label in labels])
        except ValueError:
            return np.array(labels)
    return np.array(labels)


@classify.command()
@click.argument("data", type=_DATA)
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder of the model.")
@_columns
@click.option(
    "--group-column",
    help="Column of the group (book, author, day) a text is from, where new texts will be of other "
    "groups: those of a group are left out together in choosing how to learn.  [none]",
)
@click.option(
    "--words", type=ModelPath(exists=True), help="Word vectors: a folder, or english.  [none]"
)
@click.option("--method", default="Average", show_default=True, help="How texts become vectors.")
@click.option(
    "--ngrams", type=click.IntRange(1, 8), help="Longest n-gram.  [default: by the texts]"
)
@_probability("--holdout", None, "Share of the labels kept back for promises, such as 0.2.")
@_delta
@click.option("--balanced", is_flag=True, help="Let every class weigh the same.")
@click.option("--random-state", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the folds.")  # fmt: skip
@n_jobs_option
@overwrite_option
@json_option
@quiet_option
def train(data, output, text_column, label_column, words, ngrams, **given):
    """Train a classifier on DATA and save it as a folder.

    DATA is a TSV, CSV, JSONL or Parquet file, packed or not. Everything is chosen on the training
    labels; with --holdout a random part is kept back, and what follows from it is printed: about
    texts of the same groups, where --group-column names groups.
    """
    from pacsent.classify import TextClassifier
    from pacsent.loading import save
    from pacsent.storage import check_place
    from pacsent.text.tables import read_grouped_texts

    check_place(output, [data, words], overwrite=given["overwrite"])
    columns = {"text_column": text_column, "label_column": label_column}
    groups = None
    if given["group_column"] is None:
        texts, labels = _labelled(data, **columns)
    else:
        found = read_grouped_texts(data, group_column=given["group_column"], **columns)
        texts, labels, groups = found
    if not given["quiet"]:
        click.echo(f"{len(texts):,} texts, {len(set(labels)):,} classes; fitting ...", err=True)
    classifier = TextClassifier(
        os.fspath(words) if words else None,
        method=given["method"],
        ngrams=(1, ngrams) if ngrams else "auto",
        class_weight="balanced" if given["balanced"] else None,
        n_jobs=given["n_jobs"],
        random_state=given["random_state"],
    ).fit(texts, labels, groups=groups, holdout=given["holdout"], delta=given["delta"])
    save(classifier, output, overwrite=given["overwrite"])
    chosen = {k: v for k, v in classifier.selection_.items() if k != "candidates"}
    certificate = getattr(classifier, "certificate_", None)
    if given["as_json"]:
        found = {"model": str(output), "classes": classifier.classes_.tolist(), "chosen": chosen}
        if certificate is not None:
            found["certificate"] = certificate.to_dict()
        echo_json(found)
        return
    click.echo(
        f"{output}: {len(classifier.ngrams_):,} n-grams, {classifier.classes_.size} classes, "
        f"accuracy {chosen['accuracy']:.4f} on training texts left out ({chosen['selection']})"
    )
    if certificate is not None:
        click.echo(str(certificate))


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("sources", nargs=-1, required=True, metavar="TEXTS...")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="TSV file, or a folder for many files.  [default: stdout]",
)
@_probability("--error", 0.05, "What label sets and answers may get wrong.")
@_delta
@shard_options
@n_jobs_option
@overwrite_option
@json_lines_option
@quiet_option
def predict(model, sources, output, overwrite, quiet, n_jobs, as_json, **given):
    """The class of every text of TEXTS (- for stdin): label, probability, set, abstained.

    Texts are streamed. A set is names between commas; a name with a comma is quoted. The last two
    columns need a model trained with --holdout. Where too few labels were kept back for what
    --error and --delta ask, there are no sets or all answers are abstained, and stderr says why.

    Many files, folders, globs and addresses (s3://, gs://, hf://) are worked on file by file, as
    by `pacsent embed`: -o is then a folder that gets one output for each, and a manifest.json.
    """
    how = shards.taken(given)
    if shards.wanted(sources, output, how, columns=False):
        given["n_jobs"] = n_jobs
        manner = {"overwrite": overwrite, "quiet": quiet, "as_json": as_json}
        shards.predict(model, sources, output, how, given, **manner)
        return
    (texts,) = sources
    if texts != "-" and not os.path.exists(texts):
        raise click.BadParameter(f"Path {texts!r} does not exist.", param_hint="'TEXTS...'")
    lines = as_json and output in (None, "-")
    streamed = (how["text_column"], overwrite, quiet)
    n_texts = _predict_text(model, texts, output, *streamed, lines=lines, **given)
    if as_json and not lines:
        echo_json({"model": model, "output": output, "texts": n_texts})


def _predict_text(model, texts, output, text_column, overwrite, quiet, *, error, delta, lines):
    """One file or stdin, to one file or stdout; the number of texts."""
    from pacsent.files import check_output, replacing
    from pacsent.progress import bar
    from pacsent.text.tables import stream_texts

    classifier = _classifier(model)
    told = _told_as_json if lines else _told
    rows = _answers(classifier, stream_texts(texts, text_column=text_column), error, delta, told)
    n_texts = 0
    if output:
        check_output(output, overwrite=overwrite, inputs=[texts, model])
    with (
        replacing(output or "-") as file,
        bar("predicting", unit="texts", enabled=not quiet and output is not None) as progress,
    ):
        if not lines:
            file.write(b"label\tprobability\tset\tabstained\n")
        for batch in rows:
            file.write("".join(batch).encode())
            progress.advance(len(batch))
            n_texts += len(batch)
    return n_texts


def _told(name, probability, inside, abstained):
    """A line of the table; names with a comma are quoted among those of a set."""
    inside = "" if inside is None else ",".join(_listed(_on_one_line(one)) for one in inside)
    silent = "" if abstained is None else ("yes" if abstained else "no")
    return f"{_on_one_line(name)}\t{probability:.4f}\t{inside}\t{silent}\n"


def _on_one_line(name: str) -> str:
    return re.sub(r"[\t\r\n]", " ", name)


def _listed(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name


def _told_as_json(name, probability, inside, abstained):
    """A line of JSON."""
    silent = None if abstained is None else bool(abstained)
    row = {"label": name, "probability": float(probability), "set": inside, "abstained": silent}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _answers(classifier, texts, error, delta, told):
    """Lines of the answer, in batches."""
    import numpy as np

    from pacsent.classify.answers import Answering

    answering = Answering(classifier, error=error, delta=delta)
    for why in filter(None, (answering.missing, answering.silent)):
        click.echo(f"Warning: {why}", err=True)
    names = [str(name) for name in classifier.classes_]
    for values in classifier.stream(texts):
        found = answering(values)
        lines = []
        for row, (at, p) in enumerate(zip(found.best, found.probability)):
            inside = found.inside
            if inside is not None:
                inside = [names[c] for c in np.flatnonzero(inside[row])]
            silent = None if found.abstained is None else found.abstained[row]
            lines.append(told(names[at], p, inside, silent))
        yield lines


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("data", type=_DATA)
@_columns
@_delta
@click.option("--per-class", is_flag=True, help="Bound every class and their mean as well.")
@click.option("--overlap", type=click.Choice(["refuse", "drop"]), default="refuse",
              show_default=True, help="What to do with texts that were fitted.")  # fmt: skip
@click.option("--n-candidates", type=click.IntRange(min=1), default=1, show_default=True,
              help="Classifiers that were compared on DATA.")  # fmt: skip
@_new
@json_option
@quiet_option
def certify(model, data, text_column, label_column, new, as_json, quiet, **given):
    """Bound how often MODEL is wrong on texts like DATA, which it has not seen."""
    from pacsent.progress import bar

    classifier = _classifier(model)
    texts, labels = _labelled(data, text_column, label_column)
    labels = _labels_of(classifier, labels)
    with bar("certifying", total=len(texts), unit="texts", enabled=not quiet) as shown:
        certificate = classifier.certify(texts, labels, checked=_checked(texts, new), **given)
        shown.advance(len(texts))
    click.echo(certificate.to_json() if as_json else str(certificate))


@classify.command()
@click.argument("a", type=ModelPath(exists=True))
@click.argument("b", type=ModelPath(exists=True))
@click.argument("data", type=_DATA)
@_columns
@_delta
@click.option("--overlap", type=click.Choice(["refuse", "drop"]), default="refuse",
              show_default=True, help="What to do with texts that were fitted.")  # fmt: skip
@_new
@json_option
@quiet_option
def compare(a, b, data, text_column, label_column, new, as_json, quiet, **given):
    """What is certain about the difference between the classifiers A and B on texts like DATA."""
    from pacsent.classify import compare as compared
    from pacsent.progress import bar

    first, second = _classifier(a), _classifier(b)
    texts, labels = _labelled(data, text_column, label_column)
    labels = _labels_of(first, labels)
    with bar("comparing", total=len(texts), unit="texts", enabled=not quiet) as shown:
        found = compared(first, second, texts, labels, checked=_checked(texts, new), **given)
        shown.advance(len(texts))
    if as_json:
        low, high = found.bounds
        row = {"n": found.n, "difference": found.difference, "low": low, "high": high}
        row |= {"delta": found.delta, "exchangeable": found.exchangeable}
        echo_json(row)
    else:
        click.echo(str(found))


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("text", required=False)
@click.option("--label", help="The class to explain.  [default: the likeliest]")
@click.option("--top", type=click.IntRange(min=1), help="Instead: the features of each class.")
@click.option("--html", "page", type=click.Path(), help="Also write a page with the words marked.")
@overwrite_option
@json_option
def explain(model, text, label, top, page, overwrite, as_json):
    """Why MODEL answers as it does: what every word and n-gram of TEXT adds."""
    from rich.console import Console

    from pacsent.files import check_output, replacing

    check_output(page, [model], overwrite=overwrite)
    classifier = _classifier(model)
    if top is not None:
        found = {str(c): classifier.top_features(c, top) for c in classifier.classes_}
        if as_json:
            echo_json(found)
            return
        for name, features in found.items():
            click.echo(f"{name}: " + ", ".join(f"{gram} {w:+.2f}" for gram, w in features))
        return
    if text is None:
        raise click.UsageError("Give a TEXT to explain, or --top for the features of each class.")
    if label is not None:
        label = _labels_of(classifier, [label])[0]
    explanation = classifier.explain(text, label)
    if page:
        with replacing(page) as file:
            file.write(explanation.to_html().encode())
    if as_json:
        told = ("label", "probability", "words", "ngrams", "from_ngrams", "from_vectors", "rest")
        echo_json({name: getattr(explanation, name) for name in told})
        return
    Console(soft_wrap=True, highlight=False).print(explanation.to_terminal())
    click.echo(str(explanation))


@classify.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("texts", type=click.Path(exists=True, allow_dash=True))
@click.option("--text-column", help="Column of the text in tables.  [default: text]")
@_probability("--alpha", 0.05, "Chance of a false alarm, ever.")
@click.option("--random-state", type=click.IntRange(min=0), help="Seed for ties.  [default: drawn]")
@json_option
@quiet_option
def watch(model, texts, text_column, alpha, random_state, as_json, quiet):
    """Watch the stream TEXTS (- for stdin) and stop once it is no longer like MODEL's holdout.

    Exit status 1 on an alarm.
    """
    from itertools import islice

    from pacsent.classify import StreamWatcher
    from pacsent.progress import bar
    from pacsent.text.tables import stream_texts

    watcher = StreamWatcher(_classifier(model), alpha=alpha, seed=random_state)
    rest = iter(stream_texts(texts, text_column=text_column))
    with bar("watching", unit="texts", enabled=not quiet) as shown:
        while (batch := list(islice(rest, 64))) and not watcher.update(batch):
            shown.advance(len(batch))
    found = {"alarm": watcher.alarm, "alarm_at": watcher.alarm_at, "n_seen": watcher.n_seen,
             "capital": watcher.capital}  # fmt: skip
    if as_json:
        echo_json(found)
    else:
        click.echo(str(watcher))
    if watcher.alarm:
        click.get_current_context().exit(1)
