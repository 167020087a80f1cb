"""Exact bounds on the error rate of a classifier, from labelled texts that it was not fitted on."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.checks import check_count, is_number
from pacsent.bounds.rounding import format_count
from pacsent.certify import independence, samples
from pacsent.certify.columns import as_groups, check_length, few, materialize
from pacsent.certify.error_certificate import ErrorCertificate, error_certificate
from pacsent.certify.judges import as_judged, check_judge, count_judged, n_judge_statements
from pacsent.certify.labels import (
    LabelMatrix,
    Labels,
    as_classes,
    as_labels,
    classes_of,
    label_type,
    parse_sets,
    to_indicator,
)
from pacsent.certify.multilabel_certificate import MultilabelCertificate
from pacsent.certify.repeats import COPIES, TRAFFIC, check_repeats
from pacsent.text.rows import describe_empty, rows_with_text, select_values
from pacsent.text.texts import as_texts


def certify(
    classifier: Any,
    X: Any,
    y: Sequence,
    *,
    delta: float = 0.05,
    per_class: bool = False,
    groups: Sequence | None = None,
    overlap: str | None = None,
    repeats: str | None = None,
    n_candidates: int = 1,
    random_state: Any = None,
) -> ErrorCertificate | MultilabelCertificate:
    """Bound the error rate of a classifier by labelled texts that it was not fitted on.

    Parameters
    ----------
    classifier : TextClassifier, CertifiedClassifier, or any fitted classifier or function
    X : list of str, or rows of an array or table, shape (n,)
        Held-out texts. Near-duplicates of texts that were fitted are left out, and the guarantee is
        about texts that are none; only repeats="traffic" counts them too.
    y : sequence, shape (n,)
        The right class, or set of labels, of each.
    per_class : bool, default=False
        Whether to bound each class and their mean as well; all bounds then hold together.
    overlap : {"error", "drop"}, optional
        What to do with texts that were fitted: stop, or leave them and their near-duplicates out.
        The default is to stop. With repeats="traffic" it is to count them as new rows that repeat
        an old one; rows that the classifier was fitted on themselves must not be given.
    repeats, delta, groups, n_candidates, random_state : see `certify_predictions`

    Returns
    -------
    ErrorCertificate or MultilabelCertificate
        The latter for sets of labels.

    References
    ----------
    Theorem 12 of docs/theory.md; of groups, Theorem 8.

    Examples
    --------
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30)).fit(X, y)
    >>> certificate = certify(model, X_new, y_new, repeats="copies", random_state=0)
    >>> print(certificate.summary())
    With 95% confidence, the error rate on new distinct texts is at most 0.1380 (183 of 1,487
    given distinct texts were wrong: 0.1231; always answering
    balance_not_updated_after_cheque_or_cash_deposit: 0.9072).

    A function is a model, too:

    >>> def mentions_cash(texts):
    ...     return ["cash" if "cash" in text else "other" for text in texts]
    >>> is_cash = ["cash" if "cash" in intent else "other" for intent in y_new]
    >>> certificate = certify(mentions_cash, X_new, is_cash, repeats="copies", random_state=0)
    >>> round(certificate.error_upper, 3)
    0.207
    """
    rows = exclude_training_overlap(classifier, X, y, overlap, groups, repeats=repeats)
    classes = rows.labels.classes
    own_classes = getattr(classifier, "classes_", classes)
    predictions = samples.predict_any(classifier, own_classes, rows.X).labels
    return certify_rows(
        classifier,
        rows,
        predictions,
        recall=classes.tolist() if per_class else (),
        delta=delta,
        repeats=repeats,
        n_candidates=n_candidates,
        random_state=random_state,
        fields={"provenance": rows.provenance},
    )


class LabelledRows(NamedTuple):
    """Labelled rows that a classifier was not fitted on, and how this is known."""

    X: Any
    labels: Labels
    provenance: str
    rows: np.ndarray  # of those that were given


def certify_rows(
    classifier: Any,
    rows: LabelledRows,
    predictions: np.ndarray,
    *,
    recall: Sequence = (),
    fields: dict[str, Any],
    **options: Any,
) -> ErrorCertificate | MultilabelCertificate:
    """The certificate of a classifier's predictions for these rows; options of either kind."""
    options["clusters"] = independence.dependent_clusters(rows.X)
    options["group_of"] = rows.labels.groups
    if not samples.is_texts(samples.text_column(rows.X)):
        fields["provenance"] += f"; {independence.NOT_SEARCHED}"

    right = rows.labels.answers
    answers: Any = predictions
    if rows.labels.is_multilabel:
        options["kind"] = MultilabelCertificate
        options["names"] = rows.labels.classes.tolist()
    else:
        answers = predictions.tolist()
        options["recall"] = recall

    fields["digests"] = samples.digests(classifier, rows.X, right, answers)
    if "model" not in fields["digests"]:
        fields["provenance"] += "; the model is not recorded: nothing tells whether it was changed"
    return error_certificate(right, answers, fields=fields, **options)


def exclude_training_overlap(
    classifier: Any,
    X: Any,
    y: Any,
    overlap: str | None = None,
    groups: Any = None,
    *,
    repeats: str | None = None,
) -> LabelledRows:
    """Leave out near-duplicates of rows that were fitted; refuse those rows, or leave them out."""
    if hasattr(classifier, "fit") and hasattr(classifier, "__sklearn_tags__"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(classifier)

    X = samples.samples_for(classifier, X)
    y = materialize(y)
    n_given = samples.n_samples(X)
    if not n_given:
        raise ValueError("X must have at least one text. Got none instead.")

    with_text = rows_with_text(X)
    if with_text is not None:
        check_length(y, n_given, "labels")
        X = samples.select_rows(X, with_text)
        y = select_values(y, with_text)
        groups = select_values(groups, with_text)

    n = samples.n_samples(X)
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        classes = classes_of(classifier, None, as_labels(y, n))
    labels = label_type(classifier).of_classes(classes, y, n)
    labels = labels.with_groups(groups)

    rows, provenance = rows_without_overlap(classifier, X, overlap, repeats)
    if rows.size < n:
        X = samples.select_rows(X, rows)
        labels = labels.select(rows)

    fitted_classes = getattr(classifier, "fitted_classes_", classes)
    not_fitted = ~np.isin(labels.classes, fitted_classes)
    n_unknown = int(labels.have_any(labels.encoded, not_fitted).sum())
    if n_unknown:
        names = few(labels.classes[not_fitted])
        provenance += f"; {n_unknown:,} of classes that were not fitted ({names}) count as errors"

    provenance += describe_empty(n_given, with_text)
    if with_text is not None:
        rows = with_text[rows]
    return LabelledRows(X, labels, provenance, rows)


def rows_without_overlap(
    classifier: Any, X: Any, overlap: str | None = None, repeats: str | None = None
) -> tuple[np.ndarray, str]:
    """Rows that were not fitted and are no near-duplicates of such, and how this is known."""
    if overlap not in (None, "error", "drop"):
        raise ValueError(f"overlap must be 'error' or 'drop'. Got {overlap!r} instead.")
    n = samples.n_samples(X)
    if samples.recorded(classifier, "fingerprints") is None:
        return np.arange(n), "not checked: the classifier does not record what it was fitted on"

    is_equal, is_near = samples.seen_before(classifier, X)
    is_seen = is_equal | is_near
    n_equal = int(is_equal.sum())
    n_near = int(is_near.sum())
    if repeats == TRAFFIC and overlap is None and n_equal < n:
        repeating = format_count(int(is_seen.sum()), "row repeats", "rows repeat")
        return np.arange(n), (
            f"checked, {repeating} a text that was "
            "fitted: they count, as new rows, and no row was fitted itself"
        )
    if n_equal and overlap != "drop":
        first_row = int(np.argmax(is_equal))
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. {n_equal:,} of these "
            f"{n:,} were among the texts it was fitted on (first: X[{first_row}]). "
            "Give other texts, or leave those out: overlap='drop'. If they are new rows that "
            "repeat old ones, they count with repeats='traffic'."
        )

    rows = np.flatnonzero(~is_seen)
    if rows.size == 0:
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. All {n:,} were fitted, or "
            f"{n_near:,} of them are near-duplicates of texts that were. Give other texts."
        )
    if rows.size == n:
        return rows, "checked, none was fitted, and none is a near-duplicate of a text that was"
    omitted = {"training text": n_equal, "near-duplicate": n_near}
    counts = [format_count(count, noun) for noun, count in omitted.items() if count]
    return rows, f"omitted: {' and '.join(counts)}; the guarantee is about other texts"


def certify_predictions(
    y_true: Any,
    y_pred: Any,
    *,
    texts: Any = None,
    groups: Sequence | None = None,
    classes: Sequence | None = None,
    recall: Any = (),
    precision: Any = (),
    judge: Any = None,
    unlabelled: Any = None,
    repeats: str | None = None,
    delta: float = 0.05,
    simultaneous: bool = False,
    n_candidates: int = 1,
    random_state: Any = None,
) -> ErrorCertificate | MultilabelCertificate:
    """Bound how often predictions are wrong, by labels that neither model nor judge was made with.

    The predictions may come from any model, from a language model or from people. The texts must be
    drawn as the new ones will be, and the model must neither have been fitted nor selected on
    their labels. All bounds hold together; what a judge adds holds each by itself, unless
    `simultaneous` is true.

    Parameters
    ----------
    y_true, y_pred : lists, arrays or columns
        The right class and the predicted class of each text; multi-label: sets of labels, or
        indicator matrices.
    texts : list of str, or rows of an array or a table, optional
        Near-duplicates are searched for among them. Without texts they are not.
    groups : list, optional
        The author, the book, the day of each text. The guarantee is then for new groups, each of
        which counts as one example; with fewer than 8 groups it is not, and says so.
    classes : list, optional
        All classes; those among the labels, in order, if omitted. Needed for sets of labels.
    recall, precision : list of classes, or "all"
        Bound the error rate among the texts of these classes (1 - recall; with all classes also the
        mean of them, the balanced error), and among the texts predicted to be of these
        (1 - precision). A multi-label certificate has a bound for every label.
    judge : list, or (texts, model), optional
        What another model or person says about each text. None of its labels may have been made
        with `y_true`: not by fitting on them, nor as examples of a prompt. However bad it is, the
        bound then holds; a good judge makes it smaller. Needs `unlabelled`. A test that notices
        some judges which saw the labels warns, or raises ValueError. A model is compared by its
        record of training texts if it is one of pacsent; `unlabelled` is then (y_pred, texts).
    unlabelled : int, or (y_pred, judge), optional
        The other texts of a batch from which these were drawn at random: their number, or, with a
        judge, their predictions and its labels. The bound is then on the error rate of the batch,
        which is smaller than that for new texts. Repeated texts count as often as they occur,
        whatever the reason: `repeats` must be None.
    repeats : {"traffic", "copies"} or None, default=None
        Why texts repeat. "traffic": rows are drawn independently, and frequent texts are drawn
        again; the bound is for a new row, repeats included. "copies": collecting the texts made
        copies; the bound is for a new distinct text, and near-duplicates count once. None: it is
        not known, and the larger of the two bounds is given, which holds in both cases. Choose by
        how the texts were collected, never by which number is smaller.
    delta : float, default=0.05
        Probability that some bound of the certificate is false; with a judge, that each is.
    simultaneous : bool, default=False
        Whether everything that a certificate with a judge states holds together: the error, that of
        new texts, the judge's rates and the frequency of each class. Each of these 3 K + 3
        statements about K classes then has its part of delta, and the bound on the error is larger.
    n_candidates : int, default=1
        How many models, prompts or settings were compared on these labels before this one was kept.
    random_state : int, RandomState, Generator or None, default=None
        Decides which repeated texts are counted, and the order of losses. The seed, drawn unless it
        is an int, is recorded.

    Returns
    -------
    ErrorCertificate or MultilabelCertificate
        The latter for sets of labels or indicator matrices.

    References
    ----------
    Of docs/theory.md: Theorem 12 (one error rate), Theorem 8 (groups), Theorem 23 (batches),
    Theorem 29 (with a judge), Theorems 20 and 21 (multi-label).

    Examples
    --------
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> from pacsent import TextClassifier
    >>> answers = TextClassifier().fit(X, y).predict(X_new).tolist()  # or of a language model
    >>> certificate = certify_predictions(
    ...     y_new, answers, texts=X_new, repeats="copies", random_state=0
    ... )
    >>> print(certificate.summary())
    With 95% confidence, the error rate on new distinct texts is at most 0.1055 (137 of 1,487
    given distinct texts were wrong: 0.0921; always answering
    balance_not_updated_after_cheque_or_cash_deposit: 0.9072).

    Recall, precision, a finite batch, and a judge:

    >>> y_true = ["spam", "mail"] * 100
    >>> y_pred = ["spam", "mail"] * 95 + ["mail"] * 10
    >>> certificate = certify_predictions(y_true, y_pred, recall="all", precision=["spam"])
    >>> round(certificate.error_upper, 3), round(certificate.class_error_upper["spam"], 3)
    (0.057, 0.128)
    >>> round(1 - certificate.prediction_error_upper["spam"], 3)  # precision is at least
    0.951
    >>> round(certify_predictions(y_true, y_pred, unlabelled=200).error_upper, 4)
    0.0425
    >>> judge = ["spam", "mail"] * 100  # on the 200 texts, and on 2,000 others
    >>> others = (y_pred * 10, judge * 10)
    >>> certificate = certify_predictions(y_true, y_pred, judge=judge, unlabelled=others)
    >>> round(certificate.error_upper, 4)
    0.0464
    """
    y_true = materialize(y_true)
    n_given = samples.n_samples(y_true)
    if not n_given:
        raise ValueError("labels must have at least one label. Got none instead.")
    check_repeats(repeats)

    with_text = None
    if texts is not None:
        texts = samples.as_samples(texts)
        with_text = rows_with_text(texts)
    if with_text is not None:
        check_length(texts, n_given, "labels")
        texts = samples.select_rows(texts, with_text)
        y_true = select_values(y_true, with_text)
        y_pred = select_values(materialize(y_pred), with_text)
        groups = select_values(groups, with_text)
        judge = select_values(judge, with_text)
    n = samples.n_samples(y_true)

    judged, batch_size = _parse_batch(judge, unlabelled, n)
    if batch_size is not None:
        has_population = groups is not None or repeats is not None
        if has_population or _have_any(recall, precision):
            raise ValueError("unlabelled must be None with groups, recall, precision or repeats.")
    if repeats == COPIES and texts is None:
        raise ValueError("repeats='copies' needs texts, to find the copies. Got None instead.")

    options: dict[str, Any] = {
        "group_of": as_groups(groups, n),
        "delta": delta,
        "repeats": repeats,
        "n_candidates": n_candidates,
        "random_state": random_state,
    }
    not_searched = "; near-duplicates were not searched for, because no texts were given"
    if texts is not None:
        texts, clusters, not_searched = _cluster_texts(texts, n)
        if batch_size is not None:  # whose rows count as often as they occur
            clusters = None
            not_searched = ""
        options["clusters"] = clusters
    provenance = f"given; it is not known whether the model was fitted on them{not_searched}"
    provenance += describe_empty(n_given, with_text)
    fields: dict[str, Any] = {"provenance": provenance}

    matrix = parse_sets(y_true, n)
    if matrix is not None:
        if batch_size is not None or _have_any(recall, precision):
            raise ValueError("unlabelled, recall and precision are for one class a text.")
        return _certify_label_sets(matrix, y_pred, classes, texts, fields, options)

    fields["batch_size"] = batch_size
    return _certify_classes(
        as_labels(y_true),
        as_labels(y_pred, n, name="predictions"),
        judged,
        texts,
        classes=classes,
        recall=recall,
        precision=precision,
        simultaneous=simultaneous,
        fields=fields,
        options=options,
    )


def _cluster_texts(texts: Any, n_rows: int) -> tuple[Any, np.ndarray | None, str]:
    """(texts or other rows, checked; their clusters; a note if only equal rows share a cluster)."""
    column = samples.text_column(texts)
    note = f"; {independence.NOT_SEARCHED}"
    if isinstance(column, list):
        column = as_texts(column)
        note = ""
    return column, independence.dependent_clusters(column, n_rows=n_rows), note


def _have_any(recall: Any, precision: Any) -> bool:
    """Test for classes with a bound of their own."""
    return len(recall) > 0 or len(precision) > 0


def _certify_classes(
    true: list,
    predicted: list,
    judged: list[list] | None,
    texts: Any,
    *,
    classes: Sequence | None,
    recall: Any,
    precision: Any,
    simultaneous: bool,
    fields: dict[str, Any],
    options: dict[str, Any],
) -> ErrorCertificate:
    """The certificate of predictions of one class for each text."""
    columns = {"labels": true, "predictions": predicted}
    if judged is not None:
        labelled_judge, other_predictions, other_judge = judged
        columns["judge"] = labelled_judge + other_judge
        columns["unlabelled predictions"] = other_predictions
    names = _class_names(columns, classes)
    bounded_classes: dict[str, Any] = {
        "recall": _chosen_classes(recall, names, "recall"),
        "precision": _chosen_classes(precision, names, "precision"),
    }
    _check_classes(names, columns | bounded_classes)

    fields["digests"] = samples.digests(None, texts, true, predicted)
    if judged is not None:
        fields |= count_judged(true, predicted, judged)
        check_judge(fields["judge_counts"])
        if simultaneous:
            options["n_statements"] = n_judge_statements(fields["judge_class_counts"])
    return error_certificate(true, predicted, **bounded_classes, fields=fields, **options)


def _parse_batch(judge: Any, unlabelled: Any, n: int) -> tuple[list[list] | None, int | None]:
    """(what a judge says, as of `as_judged`; the size of the batch), None where there is none."""
    has_number = unlabelled is None or is_number(unlabelled)
    judged = None
    n_unlabelled = unlabelled
    if judge is not None or not has_number:
        judged = as_judged(judge, unlabelled, n)
        _, other_predictions, _ = judged
        n_unlabelled = len(other_predictions)
    if n_unlabelled is None:
        return judged, None
    return judged, n + check_count("unlabelled", n_unlabelled, least=0)


def _certify_label_sets(
    matrix: LabelMatrix,
    y_pred: Any,
    classes: Sequence | None,
    texts: Any,
    fields: dict[str, Any],
    options: dict[str, Any],
) -> MultilabelCertificate:
    """The certificate of predictions of several labels per text."""
    if classes is None and not matrix.are_sets:
        classes = matrix.names
    n_texts, n_labels = matrix.has.shape
    names = list(range(n_labels))
    if classes is not None:
        n_labels = len(classes)
        names = list(classes)

    has = matrix.columns(classes, n_labels)
    assigned = to_indicator(classes, y_pred, n_texts, n_labels)
    fields["digests"] = samples.digests(None, texts, has, assigned)
    return error_certificate(
        has,
        assigned,
        kind=MultilabelCertificate,
        names=names,
        fields=fields,
        **options,
    )


def _class_names(columns: dict[str, list], classes: Sequence | None) -> list:
    """The classes that are given, or those of all columns; with a judge, columns are alike."""
    if classes is not None:
        names = as_labels(classes, name="classes")
    elif "judge" in columns:
        all_values = list(chain.from_iterable(columns.values()))
        names = sorted(set(as_labels(all_values, name="all columns")))
    else:
        names = sorted(set(columns["labels"]))
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"classes must be all different, at least one. Got {few(names)} instead.")
    return as_classes(names).tolist()


def _chosen_classes(values: Any, names: list, argument: str) -> list:
    """The classes with a bound of their own: of `recall` or `precision`."""
    if isinstance(values, str):
        values = names if values == "all" else [values]
    chosen = as_labels(values, name=argument)
    return list(dict.fromkeys(chosen))


def _check_classes(names: list, columns: dict[str, list]) -> None:
    """Refuse values that are none of the classes."""
    classes = set(names)
    for column, values in columns.items():
        row = next((row for row, value in enumerate(values) if value not in classes), None)
        if row is not None:
            raise ValueError(
                f"{column} must be among the classes ({few(names)}). Got {values[row]!r} in "
                f"y[{row}] instead. Name all classes, such as classes=A,B, or correct the row."
            )
