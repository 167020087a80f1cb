"""The inputs of commands: models, texts of a file or stdin, and labelled texts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import params
from pacsent.cli.printing import echo

# What a command may need: the kinds of models that are one, and the command that makes it.
_KINDS = {
    "a classifier": (("TextClassifier", "CertifiedClassifier"), "train DATA -o MODEL"),
    "an index": (("Index",), "index MODEL TEXTS -o INDEX"),
}


def given_encoder() -> str | None:
    """The value of --encoder where it belongs to a model; None outside of a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get("encoder") if context else None


def open_model(model: str, what: str | None = None) -> Any:
    """Open MODEL; with `what`, anything but "a classifier" or "an index" is an error."""
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


def open_encoder(
    model: str, method: str | None = None, *, default: str | None = None, fitted: bool = True
) -> Any:
    """The fitted method in a folder, or a method on the word vectors that are there."""
    from pacsent.sentences.encoder import EncoderMixin
    from pacsent.sentences.methods import as_vectorizer

    loaded = open_model(model)
    if method is not None and isinstance(loaded, EncoderMixin):
        raise click.UsageError(
            f"--method is for word vectors, and {model} is an encoder. Leave --method out."
        )
    return as_vectorizer(loaded, method or default, source=model, fitted=fitted)


def say(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line on stderr, unless `quiet`."""

    def print_line(line: str) -> None:
        if not quiet:
            echo(line, err=True)

    return print_line


def read_texts(path: str, options: dict, *, progress: bool = False) -> Iterator[str]:
    """The texts of one file or stdin."""
    from pacsent.progress import bar
    from pacsent.text.tables import stream_texts

    quiet = options.get("quiet", False)
    column = options.pop("text_column")
    kind = options.pop("input_format")

    def generate() -> Iterator[str]:
        with bar("reading", unit="texts", enabled=progress and not quiet) as shown:
            for text in stream_texts(path, text_column=column, kind=kind, report=say(quiet)):
                shown.advance()
                yield text

    return generate()


def format_of(path: str, input_format: str | None) -> str:
    """The format of a file: that of --input-format, or by its name, or lines of text."""
    from pacsent.text.tables import kind_of

    if input_format is not None:
        return input_format
    kind, _ = kind_of(Path(path).name)
    return kind or "text"


def read_columns(
    path: str, options: dict, columns: Sequence[str] = ("*",)
) -> tuple[Any, list[str], dict[str, list]]:
    """The table, its texts, and its columns of these names as lists."""
    from pacsent.text.tables import TextTable, as_list, describe_table

    kind = options.pop("input_format")
    text_column = options.pop("text_column")
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

    def add_condition(self, certificate: Any) -> Any:
        """The certificate, with the condition in its provenance."""
        if not self.condition:
            return certificate
        provenance = f"{certificate.provenance}; {self.condition}"
        return replace(certificate, provenance=provenance)

    def select(self, positions: Sequence[int]) -> "LabelledInput":
        """These of the rows that are labels for a guarantee."""
        return replace(
            self,
            texts=[self.texts[position] for position in positions],
            labels=[self.labels[position] for position in positions],
            groups=self.groups and [self.groups[position] for position in positions],
            rows=[self.rows[position] for position in positions],
        )


RANDOM_LABELS = "valid if which rows have labels is random"


@dataclass(frozen=True)
class LabelledSelection:
    """Positions of rows of a table with labels, by what they may be used for."""

    sampled: list[int]  # labels for a guarantee
    others: list[int]  # further labels
    unlabelled: list[int]  # texts without a label
    condition: str
    n_sizes: int


@dataclass
class _Notes:
    """Rows that are no sample for a guarantee, in words."""

    left_out: list[str] = field(default_factory=list)  # neither fitted on nor held out
    not_sampled: list[str] = field(default_factory=list)  # fitted on, and never held out


def select_labelled(table: Any, quiet: bool, *, fits: bool = False) -> LabelledSelection:
    """Tell apart rows of a `LabelledTable`, and say which ones are left out.

    With `fits`, rows that are no random sample are fitted on, and never held out.
    """
    notes = _Notes()
    labelled, unlabelled, n_texts = _split_by_label(table, notes)
    sampled = labelled
    others: list[int] = []
    n_sizes = 1
    if table.labelled_by is not None:
        sampled, others = _split_by_annotator(table, labelled, notes)
        if table.sampled is not None:
            n_sizes = _count_sizes(n_texts, others)
    if table.reviewed is not None:
        sampled, reviewed = _split_by_review(table, sampled, notes)
        others = sorted([*others, *reviewed])

    for column in table.ignored:
        say(quiet)(f"The column {column} of {table.name} is not read: MODEL predicts.")
    _report_notes(table, notes, sampled, quiet, fits)
    if n_sizes > 1:
        say(quiet)(
            f"The random sample of {format_count(len(sampled), 'row')} could have ended at "
            f"{n_sizes} sizes: they count as candidates."
        )

    condition = ""
    if unlabelled and table.labelled_by is None:
        condition = _describe_condition(sampled)
    return LabelledSelection(sampled, others, unlabelled, condition, n_sizes)


def _split_by_label(table: Any, notes: _Notes) -> tuple[list[int], list[int], int]:
    """Rows of texts with a label and without one, and the number of both."""
    from pacsent.text.ngrams import is_empty

    labelled = []
    unlabelled = []
    empty = []
    for row, label in enumerate(table.labels):
        if table.texts is not None and is_empty(table.texts[row]):
            empty.append(row)
        elif label:
            labelled.append(row)
        else:
            unlabelled.append(row)

    if empty:
        notes.left_out.append(f"{format_count(len(empty), 'empty text')} ({name_rows(empty)})")
    if unlabelled:
        count = format_count(len(unlabelled), "row")
        notes.left_out.append(f"{count} without a label ({name_rows(unlabelled)})")
    return labelled, unlabelled, len(labelled) + len(unlabelled)


def _split_by_annotator(
    table: Any, labelled: list[int], notes: _Notes
) -> tuple[list[int], list[int]]:
    """Rows that were drawn at random and labelled by a person, and all others."""
    is_by_person = [who == "person" for who in table.labelled_by]
    is_drawn = table.sampled or is_by_person
    sampled: list[int] = []
    others: list[int] = []
    for row in labelled:
        is_sampled = is_by_person[row] and is_drawn[row]
        (sampled if is_sampled else others).append(row)

    n_machine = sum(not is_by_person[row] for row in others)
    n_chosen = len(others) - n_machine
    if n_machine:
        notes.not_sampled.append(f"{format_count(n_machine, 'row')} labelled by a machine")
    if n_chosen:
        rows = format_count(n_chosen, "row")
        notes.not_sampled.append(f"{rows} that a person read, not at random")
    return sampled, others


def _count_sizes(n_texts: int, others: list[int]) -> int:
    """The number of sizes at which the random sample of `pacsent check` could have ended."""
    from pacsent.classify.label_checking import MAX_SIZES, planned_sizes

    # A file of which only the sample is left does not tell how many sizes were planned.
    return len(planned_sizes(n_texts)) if others else MAX_SIZES


def _split_by_review(table: Any, sampled: list[int], notes: _Notes) -> tuple[list[int], list[int]]:
    """Rows of the sample that were not reviewed by `pacsent audit`, and those that were."""
    reviewed = [row for row in sampled if table.reviewed[row]]
    if reviewed:
        rows = format_count(len(reviewed), "row")
        notes.not_sampled.append(f"{rows} whose label was reviewed")
    return [row for row in sampled if not table.reviewed[row]], reviewed


def _report_notes(table: Any, notes: _Notes, sampled: list[int], quiet: bool, fits: bool) -> None:
    """Print which rows are left out; raise if no row is a sample for a guarantee."""
    left_out = notes.left_out
    if not fits:
        left_out = [*left_out, *notes.not_sampled]
    elif notes.not_sampled:
        say(quiet)(f"Fitted on, and never held out: {', '.join(notes.not_sampled)}.")
    if left_out:
        say(quiet)(f"Left out: {', '.join(left_out)}.")

    if not sampled:
        contents = ", ".join([*notes.left_out, *notes.not_sampled]) or "none"
        raise ValueError(
            f"{table.name} must have labels in the column {table.label_column}. Got "
            f"{contents} instead. Label a random part of the rows."
        )


def _describe_condition(sampled: list[int]) -> str:
    """The assumption of a guarantee about a table of which some rows have no label."""
    is_one_block = sampled[-1] - sampled[0] < len(sampled)
    if len(sampled) == 1 or not is_one_block:
        return RANDOM_LABELS
    return (
        f"{RANDOM_LABELS}; only rows {sampled[0] + 1:,} to {sampled[-1] + 1:,} have a label, which "
        "are NO random sample unless the table was shuffled"
    )


def read_ids(path: str, options: dict) -> list | None:
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
    """The name of a row in output: its number, counted from 1, and its id."""
    number = f"Row {row + 1:,}"
    return number if ids is None else f"{number} ({ids[row]})"


def number_rows(items: list[dict], ids: list | None) -> list[dict]:
    """Items with the field `row`, from 0, as output has them: rows from 1, with their ids."""
    numbered = []
    for item in items:
        row = item["row"]
        numbered_item = {**item, "row": row + 1}
        if ids is not None:
            numbered_item["id"] = ids[row]
        numbered.append(numbered_item)
    return numbered


def number_audit(audit: Any, ids: list | None = None) -> dict:
    """An audit as output has it: rows counted from 1, suspicious ones with their ids."""
    numbered = audit.to_dict()
    numbered["suspicious"] = number_rows(numbered["suspicious"], ids)
    for name in ("empty", "unknown"):
        numbered[name] = [row + 1 for row in numbered[name]]
    for name in ("duplicates", "near_duplicates"):
        numbered[name] = [[row + 1 for row in group] for group in numbered[name]]
    return numbered


def name_rows(rows: list[int], limit: int = 5) -> str:
    """The numbers of rows, counted from 1, for a message."""
    noun = "rows" if len(rows) > 1 else "row"
    numbers = [f"{row + 1:,}" for row in rows[:limit]]
    if len(rows) > limit:
        numbers.append("...")
    return f"{noun} {', '.join(numbers)}"


def read_labelled(
    path: str,
    options: dict,
    classifier: Any = None,
    *,
    sampled_only: bool = True,
    on_variants: Callable[[str], bool] | None = None,
) -> LabelledInput:
    """Texts, groups, and labels as the classifier has them: sets, integers or strings.

    Without `sampled_only` all rows with a label are in `texts`, whoever gave it. `on_variants` is
    called with a sentence about labels that differ in case or spaces only, and returns whether they
    are merged; by default they are not, and the sentence is printed.
    """
    from pacsent.text.tables import read_labelled_table

    text_column = options.pop("text_column", None)
    label_column = options.pop("label_column", None)
    group_column = options.pop("group_column", None)
    kind = options.pop("input_format")
    separator = options.pop("label_separator", None)
    merge_labels = options.pop("merge_labels", False)
    quiet = options.get("quiet", False)
    _check_separator(classifier, separator)

    table = read_labelled_table(
        path,
        text_column=text_column,
        label_column=label_column,
        group_column=group_column,
        kind=kind,
        report=say(quiet),
    )
    if not sampled_only:
        table = replace(table, labelled_by=None, sampled=None, reviewed=None)
    if classifier is None:
        table = replace(table, ignored=())
    selection = select_labelled(table, quiet, fits=classifier is None)

    labels: list
    if separator is None:
        known_classes = [] if classifier is None else classifier.classes_.tolist()
        merged = merge_spellings(
            table.labels, known_classes, merge=merge_labels, quiet=quiet, on_variants=on_variants
        )
        labels = [class_of(classifier, label) for label in merged]
    else:
        labels = _split_labels(table.labels, separator, selection)

    texts = table.texts or []
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


def _check_separator(classifier: Any, separator: str | None) -> None:
    """Raise unless labels are separated for a multi-label model, and for no other."""
    if classifier is None:
        return
    is_multilabel = getattr(classifier, "target_type_", "classes") != "classes"
    if is_multilabel and separator is None:
        raise click.UsageError("The model is multi-label: pass --label-separator.")
    if not is_multilabel and separator is not None:
        raise click.UsageError("The model is single-label: remove --label-separator.")


def _split_labels(
    cells: Sequence[str], separator: str, selection: LabelledSelection
) -> list[set[str]]:
    """The labels of each cell; raise if a selected row has an empty one."""
    labels = []
    for cell in cells:
        parts = cell.split(separator or None)
        labels.append({part.strip() for part in parts})

    for row in selection.sampled + selection.others:
        if not separator or "" in labels[row]:
            raise ValueError(
                f"Row {row + 1:,} must have labels with {separator!r} between them. Got "
                f"{cells[row]!r} instead. Leave the empty label out, or give another "
                "--label-separator."
            )
    return labels


def merge_spellings(
    labels: list,
    known: Iterable = (),
    *,
    merge: bool,
    quiet: bool = False,
    on_variants: Callable[[str], bool] | None = None,
) -> list:
    """Labels, one for each row of a file, of which those that differ in case or spaces only are one
    class, if `merge`.

    The spelling of a `known` class is kept, otherwise the most frequent one. Without `merge` the
    spellings are named once; `on_variants` is as in `read_labelled`.
    """
    counts = Counter(label for label in labels if label)
    known_names = [str(name) for name in known]
    spellings: dict[str, str] = {}  # without case and spaces: the spelling that is kept
    for name in (*known_names, *_most_common(counts)):
        spellings.setdefault(_plain(name), name)

    variants: dict[str, str] = {}  # name: the spelling that it is merged with
    for name in counts:
        spelling = spellings[_plain(name)]
        if spelling != name and name not in known_names:
            variants[name] = spelling
    if not variants:
        return labels

    message = _describe_variants(labels, variants)
    if merge:
        say(quiet)(f"{message} Each is merged with the other.")
    elif on_variants is not None:
        merge = on_variants(message)
    else:
        say(quiet)(f"{message} They are different classes; --merge-labels makes them one.")
    return [variants.get(label, label) for label in labels] if merge else labels


def _describe_variants(labels: list, variants: dict[str, str]) -> str:
    """A sentence about labels that differ in case or spaces, with their numbers and rows."""
    rows: dict[str, list[int]] = {name: [] for name in variants}
    for row, label in enumerate(labels):
        if label in rows:
            rows[label].append(row)

    shown = []
    for name, spelling in variants.items():
        of_name = rows[name]
        shown.append(f"{name!r} ({len(of_name):,}, {name_rows(of_name)}) for {spelling!r}")
    return f"Labels differ in case or spaces only: {', '.join(shown)}."


def _most_common(counts: Counter) -> list[str]:
    return [name for name, _ in counts.most_common()]


def _plain(name: str) -> str:
    """A name without case, and with single spaces."""
    return " ".join(name.split()).casefold()


def split_model(paths: Sequence[str]) -> tuple[str | None, str]:
    """The model (None if there is none) and the data of the arguments [MODEL] DATA."""
    *models, data = paths
    if len(models) > 1 or Path(data).is_dir():
        raise click.UsageError("Give MODEL and DATA, or a table of predictions alone.")
    data_path: Any = params.TEXTS.convert(data, None, None)
    if not models:
        return None, data_path
    return params.ModelPath().convert(models[0], None, None), data_path


def read_predictions(path: str, options: dict) -> tuple[Any, LabelledSelection]:
    """A table of labels and predictions, and its rows that have labels for a guarantee."""
    from pacsent.text.tables import PREDICTION, TextTable, read_labelled_table

    kind = options["input_format"]
    quiet = options["quiet"]
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
            f"Warning: {n_fitted:,} of the {n_texts:,} texts equal one that the model was fitted "
            "on: results on new texts are worse, and guarantees are about new texts.",
            err=True,
        )


def open_labelled(model: str, data: str, options: dict) -> tuple[Any, LabelledInput]:
    """A classifier, and texts and labels to evaluate it on."""
    classifier = open_model(model, "a classifier")
    return classifier, read_labelled(data, options, classifier)


def leave_out_fitted(
    classifier: Any, labelled: LabelledInput, overlap: str | None
) -> LabelledInput:
    """The rows to measure on: by default those that the classifier was not fitted on.

    With overlap="keep" they are all rows, and a warning tells how many of them were fitted.
    """
    from pacsent.certify.samples import find_fitted

    is_fitted = find_fitted(classifier, labelled.texts)
    n_fitted = int(is_fitted.sum())
    n_texts = len(labelled.texts)
    if overlap == "keep":
        warn_of_fitted(n_fitted, n_texts)
        return labelled
    if n_fitted == n_texts:
        raise ValueError(
            f"The model was fitted on all {n_texts:,} labelled rows: none is left to measure on. "
            "Give labelled texts that are new to it, or measure on these with --overlap keep, "
            "which makes the accuracy too high."
        )
    new_positions = [position for position in range(n_texts) if not is_fitted[position]]
    return labelled.select(new_positions)


def class_of(classifier: Any, label: str) -> int | str:
    """A label of the command line as the classifier's own."""
    has_integers = classifier is not None and classifier.classes_.dtype.kind in "iu"
    if has_integers and label.lstrip("-").isdigit():
        return int(label)
    return label
