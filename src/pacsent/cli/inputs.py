"""What commands read: models, texts of a file or stdin, and labelled texts."""

from collections.abc import Iterator

import click


def given_encoder():
    """The value of --encoder where it belongs to a model; None outside of a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get("encoder") if context else None


def open_model(model, what: str | None = None):
    """What is at MODEL; with `what` anything but "a classifier" or "an index" is an error."""
    from pacsent.encoders.external_encoders import open_any

    opened = open_any(model, given_encoder())
    kinds = {"a classifier": ("predict_proba", "train DATA -o MODEL")}
    kinds["an index"] = ("search", "index MODEL TEXTS -o INDEX")
    if what is not None and not hasattr(opened, kinds[what][0]):
        raise ValueError(
            f"{model} must be {what}. Got a {type(opened).__name__} instead. Make one: "
            f"pacsent {kinds[what][1]}"
        )
    return opened


def open_encoder(model, method=None, *, default=None, fitted=True):
    """The fitted method in a folder, or a method on the word vectors that are there."""
    from pacsent.encoders.methods import as_vectorizer

    loaded = open_model(model)
    if method is not None and hasattr(loaded, "transform"):
        raise click.UsageError(
            f"--method is for word vectors, and {model} is an encoder. Leave --method out."
        )
    return as_vectorizer(loaded, method or default, source=model, fitted=fitted)


def say(quiet: bool):
    """Return a function that prints a line on stderr, unless `quiet`."""
    return (lambda line: None) if quiet else lambda line: click.echo(line, err=True)


def read_texts(path, options: dict, *, progress: bool = False) -> Iterator[str]:
    """The texts of one file or stdin."""
    from pacsent.progress import bar
    from pacsent.text.tables import stream_texts

    quiet = options.get("quiet", False)
    column, kind = options.pop("text_column"), options.pop("input_format")

    def generate():
        with bar("reading", unit="texts", enabled=progress and not quiet) as shown:
            for text in stream_texts(path, text_column=column, kind=kind, report=say(quiet)):
                shown.advance()
                yield text

    return generate()


def read_columns(path, options: dict, columns=("*",)):
    """The table, its texts, and its columns of these names as lists."""
    from pacsent.text.tables import TextTable, as_list, describe_table

    kind, text_column = options.pop("input_format"), options.pop("text_column")
    texts: list[str] = []
    values: dict[str, list] = {}
    with TextTable(path, kind=kind, text_column=text_column) as table:
        for batch in table.batches(columns):
            texts += as_list(batch.texts)
            for name, part in batch.columns.items():
                values.setdefault(name, []).extend(as_list(part))
    say(options.get("quiet", False))(describe_table(table, len(texts)))
    return table, texts, values


def read_labelled(path, options: dict, classifier=None):
    """Texts, groups, and labels as the classifier has them: sets, integers or strings."""
    from pacsent.text.tables import read_labelled_texts

    names = ("text_column", "label_column", "group_column")
    columns = {name: options.pop(name, None) for name in names}
    kind, separator = options.pop("input_format"), options.pop("label_separator", None)
    report = say(options.get("quiet", False))
    is_multilabel = getattr(classifier, "target_type_", "classes") != "classes"
    if classifier is not None and is_multilabel != (separator is not None):
        remedy = "multi-label: pass" if is_multilabel else "single-label: remove"
        raise click.UsageError(f"The model is {remedy} --label-separator.")
    texts, labels, groups = read_labelled_texts(path, **columns, kind=kind, report=report)
    if separator is None:
        return texts, [class_of(classifier, label) for label in labels], groups
    sets = [{part.strip() for part in cell.split(separator or None)} for cell in labels]
    for row, (cell, label_set) in enumerate(zip(labels, sets), 1):
        if not separator or "" in label_set:
            raise ValueError(
                f"Row {row:,} must have labels with {separator!r} between them. Got {cell!r} "
                "instead. Leave the empty label out, or give another --label-separator."
            )
    return texts, sets, groups


def warn_of_fitted(n_fitted: int, n_texts: int) -> None:
    """Warn of texts that a classifier was fitted on, which it classifies better than new ones."""
    if n_fitted:
        click.echo(
            f"Warning: {n_fitted:,} of the {n_texts:,} texts are among those that the model was "
            "fitted on: results on new texts are worse, and guarantees are about new texts.",
            err=True,
        )


def open_labelled(model, data, options: dict):
    """A classifier, and texts and labels to evaluate it on; a warning if it was fitted on them."""
    from pacsent.guarantees.samples import seen_before

    classifier = open_model(model, "a classifier")
    texts, labels, _ = read_labelled(data, options, classifier)
    warn_of_fitted(int(seen_before(classifier, texts)[0].sum()), len(texts))
    return classifier, texts, labels


def class_of(classifier, label: str):
    """A label of the command line as the classifier's own."""
    is_integer = classifier is not None and classifier.classes_.dtype.kind in "iu"
    return int(label) if is_integer and label.lstrip("-").isdigit() else label
