"""What commands read: models, texts of a file or stdin, and labelled texts."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import params
from pacsent.cli.printing import echo

# What a command may need: the kinds of models that are one, and the command that makes it.
_KINDS = {
    "a classifier": (("TextClassifier", "CertifiedClassifier"), "train DATA -o MODEL"),
    "an index": (("Index",), "index MODEL TEXTS -o INDEX"),
}


def given_encoder():
    """The value of --encoder where it belongs to a model; None outside of a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get("encoder") if context else None


def open_model(model, what: str | None = None):
    """What is at MODEL; with `what` anything but "a classifier" or "an index" is an error."""
    from pacsent.sentences.external_encoders import open_any

    opened = open_any(model, given_encoder())
    if what is None:
        return opened

    kinds, command = _KINDS[what]
    if opened.kind not in kinds:
        raise ValueError(
            f"{model} must be {what}. Got a {type(opened).__name__} instead. Make one: "
            f"pacsent {command}"
        )
    return opened


def open_encoder(model, method=None, *, default=None, fitted=True):
    """The fitted method in a folder, or a method on the word vectors that are there."""
    from pacsent.sentences.encoder import EncoderMixin
    from pacsent.sentences.methods import as_vectorizer

    loaded = open_model(model)
    if method is not None and isinstance(loaded, EncoderMixin):
        raise click.UsageError(
            f"--method is for word vectors, and {model} is an encoder. Leave --method out."
        )
    return as_vectorizer(loaded, method or default, source=model, fitted=fitted)


def say(quiet: bool):
    """Return a function that prints a line on stderr, unless `quiet`."""
    return (lambda line: None) if quiet else lambda line: echo(line, err=True)


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


@dataclass(frozen=True, kw_only=True)
class LabelledInput:
    """Texts with labels as the classifier has them (sets, integers or strings), and what was
    left out.

    Attributes
    ----------
    texts, labels, groups : list
        Rows that are labels for a guarantee: with a text and a label, and, of a table that `pacsent
        check` wrote, drawn at random and labelled by a person.
    rows : list of int
        The position in the file of each of them, from 0.
    other_texts, other_labels : list
        Rows with labels that are no random sample: given by a machine, read because they were
        doubtful, or reviewed. A classifier may be fitted on them.
    n_sizes : int
        Sizes at which the random sample could have ended; they count as candidates.
    condition : str
        What a guarantee assumes about the rows that were left out; empty if nothing.
    was_reviewed : bool
        Whether `pacsent audit` held out the rows of `texts`.
    """

    texts: list
    labels: list
    groups: list | None
    rows: list[int]
    other_texts: list
    other_labels: list
    n_sizes: int = 1
    condition: str = ""
    was_reviewed: bool = False

    def add_condition(self, certificate):
        """The certificate, with the condition in its provenance."""
        if not self.condition:
            return certificate
        provenance = f"{certificate.provenance}; {self.condition}"
        return replace(certificate, provenance=provenance)


RANDOM_LABELS = "valid if which rows have labels is random"


@dataclass(frozen=True)
class LabelledSelection:
    """Positions of rows of a table with labels, by what they may be used for."""

    sampled: list[int]  # labels for a guarantee
    others: list[int]  # further labels
    unlabelled: list[int]  # texts without a label
    condition: str
    n_sizes: int


def select_labelled(table, quiet: bool, *, fits: bool = False) -> LabelledSelection:
    """Tell apart rows of a `LabelledTable`, and say which ones are left out.

    With `fits`, rows that are no random sample are fitted on, and never held out.
    """
    from pacsent.classify.label_checking import MAX_SIZES, planned_sizes
    from pacsent.text.ngrams import is_empty

    rows = range(len(table.labels))
    empty = [row for row in rows if table.texts is not None and is_empty(table.texts[row])]
    is_text = set(rows).difference(empty)
    unlabelled = [row for row in rows if row in is_text and not table.labels[row]]
    labelled = [row for row in rows if row in is_text and table.labels[row]]
    sampled, others = labelled, []
    n_sizes = 1
    left_out = []
    not_sampled = []
    if empty:
        left_out.append(f"{format_count(len(empty), 'empty text')} ({name_rows(empty)})")
    if unlabelled:
        left_out.append(f"{format_count(len(unlabelled), 'row')} without a label")
    if table.labelled_by is not None:
        is_by_person = [who == "person" for who in table.labelled_by]
        is_drawn = table.sampled or is_by_person
        sampled = [row for row in labelled if is_by_person[row] and is_drawn[row]]
        others = [row for row in labelled if not (is_by_person[row] and is_drawn[row])]
        n_machine = sum(not is_by_person[row] for row in others)
        if table.sampled is not None:
            # A file of which only the sample is left does not tell how many sizes were planned.
            n_sizes = len(planned_sizes(len(is_text))) if others else MAX_SIZES
        if n_machine:
            not_sampled.append(f"{format_count(n_machine, 'row')} labelled by a machine")
        if len(others) > n_machine:
            n_chosen = len(others) - n_machine
            not_sampled.append(f"{format_count(n_chosen, 'row')} that a person read, not at random")
    if table.reviewed is not None:
        reviewed = [row for row in sampled if table.reviewed[row]]
        sampled = [row for row in sampled if not table.reviewed[row]]
        others = sorted([*others, *reviewed])
        if reviewed:
            not_sampled.append(f"{format_count(len(reviewed), 'row')} whose label was reviewed")
    for column in table.ignored:
        say(quiet)(f"The column {column} of {table.name} is not read: MODEL predicts.")
    if not fits:
        left_out += not_sampled
    elif not_sampled:
        say(quiet)(f"Fitted on, and never held out: {', '.join(not_sampled)}.")
    if left_out:
        say(quiet)(f"Left out: {', '.join(left_out)}.")
    if not sampled:
        raise ValueError(
            f"{table.name} must have labels in the column {table.label_column}. Got "
            f"{', '.join(left_out + not_sampled * fits) or 'none'} instead. Label a random part "
            "of the rows."
        )
    if n_sizes > 1:
        say(quiet)(
            f"The random sample of {format_count(len(sampled), 'row')} could have ended at "
            f"{n_sizes} sizes: they count as candidates."
        )
    notes = []
    if unlabelled and table.labelled_by is None:
        notes.append(RANDOM_LABELS)
        if len(sampled) > 1 and sampled[-1] - sampled[0] < len(sampled):
            notes.append(
                f"only rows {sampled[0] + 1:,} to {sampled[-1] + 1:,} have a label, which are NO "
                "random sample unless the table was shuffled"
            )
    return LabelledSelection(sampled, others, unlabelled, "; ".join(notes), n_sizes)


def read_ids(path, options: dict) -> list | None:
    """The values of --id-column, one for each row of the file; None if no column is named."""
    from pacsent.text.tables import TextTable, as_list

    column = options.pop("id_column", None)
    if column is None:
        return None
    if path == "-":
        raise click.UsageError("--id-column is for a file, which is read twice. Got stdin instead.")
    ids: list = []
    with TextTable(path, kind=options.get("input_format"), text_column=False) as table:
        for batch in table.batches([column]):
            ids += as_list(batch.columns[column])
    return ids


def describe_row(row: int, ids: list | None) -> str:
    """How a row is named in output: its number, counted from 1, and its id."""
    return f"Row {row + 1:,}" if ids is None else f"Row {row + 1:,} ({ids[row]})"


def number_rows(items: list[dict], ids: list | None) -> list[dict]:
    """Items with the field `row`, from 0, as output has them: rows from 1, with their ids."""
    return [
        {**item, "row": item["row"] + 1} | ({} if ids is None else {"id": ids[item["row"]]})
        for item in items
    ]


def number_audit(audit, ids: list | None = None) -> dict:
    """An audit as output has it: rows counted from 1, suspicious ones with their ids."""
    found = audit.to_dict()
    found["suspicious"] = number_rows(found["suspicious"], ids)
    for name in ("empty", "unknown"):
        found[name] = [row + 1 for row in found[name]]
    for name in ("duplicates", "near_duplicates"):
        found[name] = [[row + 1 for row in group] for group in found[name]]
    return found


def name_rows(rows: list[int], limit: int = 5) -> str:
    """The numbers of rows, counted from 1, for a message."""
    shown = ", ".join(f"{row + 1:,}" for row in rows[:limit])
    return f"row{'s' * (len(rows) > 1)} {shown}" + (", ..." if len(rows) > limit else "")


def read_labelled(
    path, options: dict, classifier=None, *, sampled_only=True, on_variants=None
) -> LabelledInput:
    """Texts, groups, and labels as the classifier has them: sets, integers or strings.

    Without `sampled_only` all rows with a label are in `texts`, whoever gave it. `on_variants` is
    called with a sentence about labels that differ in case or spaces only, and returns whether they
    are merged; by default they are not, and the sentence is printed.
    """
    from pacsent.text.tables import read_labelled_table

    names = ("text_column", "label_column", "group_column")
    columns = {name: options.pop(name, None) for name in names}
    kind, separator = options.pop("input_format"), options.pop("label_separator", None)
    merge_labels = options.pop("merge_labels", False)
    quiet = options.get("quiet", False)
    is_multilabel = getattr(classifier, "target_type_", "classes") != "classes"
    if classifier is not None and is_multilabel != (separator is not None):
        remedy = "multi-label: pass" if is_multilabel else "single-label: remove"
        raise click.UsageError(f"The model is {remedy} --label-separator.")
    table = read_labelled_table(path, **columns, kind=kind, report=say(quiet))
    if not sampled_only:
        table = replace(table, labelled_by=None, sampled=None, reviewed=None)
    if classifier is None:
        table = replace(table, ignored=())
    selection = select_labelled(table, quiet, fits=classifier is None)
    texts = table.texts or []

    if separator is None:
        known = [] if classifier is None else classifier.classes_.tolist()
        labels = merge_spellings(
            table.labels, known, merge=merge_labels, quiet=quiet, on_variants=on_variants
        )
        labels = [class_of(classifier, label) for label in labels]
    else:
        labels = [{part.strip() for part in cell.split(separator or None)} for cell in table.labels]
        for row in selection.sampled + selection.others:
            if not separator or "" in labels[row]:
                raise ValueError(
                    f"Row {row + 1:,} must have labels with {separator!r} between them. Got "
                    f"{table.labels[row]!r} instead. Leave the empty label out, or give another "
                    "--label-separator."
                )
    return LabelledInput(
        texts=[texts[row] for row in selection.sampled],
        labels=[labels[row] for row in selection.sampled],
        groups=table.groups and [table.groups[row] for row in selection.sampled],
        rows=selection.sampled,
        other_texts=[texts[row] for row in selection.others],
        other_labels=[labels[row] for row in selection.others],
        n_sizes=selection.n_sizes,
        condition=selection.condition,
        was_reviewed=table.reviewed is not None and any(table.reviewed),
    )


def merge_spellings(
    labels: list, known=(), *, merge: bool, quiet: bool = False, on_variants=None
) -> list:
    """Labels of which those that differ in case or spaces only are one class, if `merge`.

    The spelling of a `known` class is kept, otherwise the most frequent one. Without `merge` the
    spellings are named once; `on_variants` is as in `read_labelled`.
    """
    counts = Counter(label for label in labels if label)
    names = [*map(str, known), *(name for name, _ in counts.most_common())]
    spelling: dict[str, str] = {}
    for name in names:
        spelling.setdefault(_plain(name), name)
    variants = {
        name: spelling[_plain(name)]
        for name in counts
        if spelling[_plain(name)] != name and name not in map(str, known)
    }
    if not variants:
        return labels
    shown = ", ".join(f"{name!r} ({counts[name]:,}) for {to!r}" for name, to in variants.items())
    message = f"Labels differ in case or spaces only: {shown}."
    if not merge and on_variants is not None:
        merge = on_variants(message)
    elif not merge:
        say(quiet)(f"{message} They are different classes; --merge-labels makes them one.")
    else:
        say(quiet)(f"{message} Each is merged with the other.")
    return [variants.get(label, label) for label in labels] if merge else labels


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()


def split_model(paths):
    """The model (None if there is none) and the data of the arguments [MODEL] DATA."""
    *models, data = paths
    if len(models) > 1 or Path(data).is_dir():
        raise click.UsageError("Give MODEL and DATA, or a table of predictions alone.")
    data = params.TEXTS.convert(data, None, None)
    model = params.ModelPath().convert(models[0], None, None) if models else None
    return model, data


def read_predictions(path, options: dict):
    """A table of labels and predictions, and which of its rows have labels for a guarantee."""
    from pacsent.text.tables import PREDICTION, TextTable, read_labelled_table

    kind, quiet = options["input_format"], options["quiet"]
    column = options.get("prediction_column") or PREDICTION
    if path != "-":
        with TextTable(path, kind=kind, text_column=False) as table:
            if table.kind != "text" and column not in table.names:
                raise ValueError(
                    f"{table.name} must have the predictions in a column {column}. Got "
                    f"{', '.join(table.names)} instead. Name it with --prediction-column, or give "
                    f"a model first, such as MODEL {table.name}."
                )
    table = read_labelled_table(
        path,
        text_column=options.get("text_column"),
        label_column=options.get("label_column"),
        group_column=options.get("group_column"),
        judge_column=options.get("judge_column"),
        prediction_column=column,
        kind=kind,
        report=say(quiet),
        needs_text=False,
    )
    return table, select_labelled(table, quiet)


def warn_of_fitted(n_fitted: int, n_texts: int) -> None:
    """Warn of texts that a classifier was fitted on, which it classifies better than new ones."""
    if n_fitted:
        echo(
            f"Warning: {n_fitted:,} of the {n_texts:,} texts are among those that the model was "
            "fitted on: results on new texts are worse, and guarantees are about new texts.",
            err=True,
        )


def open_labelled(model, data, options: dict):
    """A classifier, and texts and labels to evaluate it on; a warning if it was fitted on them."""
    from pacsent.certify.samples import seen_before

    classifier = open_model(model, "a classifier")
    labelled = read_labelled(data, options, classifier)
    n_fitted = int(seen_before(classifier, labelled.texts)[0].sum())
    warn_of_fitted(n_fitted, len(labelled.texts))
    return classifier, labelled


def class_of(classifier, label: str):
    """A label of the command line as the classifier's own."""
    is_integer = classifier is not None and classifier.classes_.dtype.kind in "iu"
    return int(label) if is_integer and label.lstrip("-").isdigit() else label
