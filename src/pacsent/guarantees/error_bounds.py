"""Exact bounds on the error rate of a classifier, from labelled texts that it was not fitted on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.classify.inputs import as_groups, as_labels, counted, positions
from pacsent.classify.multilabel import known_sets
from pacsent.guarantees.error_certificate import ErrorCertificate, error_certificate
from pacsent.guarantees.estimators import classes_of, is_multilabel, predict_any, samples_for
from pacsent.guarantees.independence import (
    NOT_SEARCHED,
    dependent_clusters,
    finds_near_duplicates,
)
from pacsent.guarantees.multilabel_certificate import (
    MultilabelCertificate,
    multilabel_certificate,
)
from pacsent.guarantees.samples import (
    digests,
    is_recorded,
    n_samples,
    seen_before,
    select_rows,
)


def certify(
    classifier: Any,
    X: Any,
    y: Sequence,
    *,
    delta: float = 0.05,
    per_class: bool = False,
    groups: Sequence | None = None,
    overlap: str = "refuse",
    n_candidates: int = 1,
    random_state: int | None = None,
) -> ErrorCertificate | MultilabelCertificate:
    """Bound the error rate of a classifier by labelled texts that it was not fitted on.

    Clopper-Pearson: the only assumption is that these texts and new ones are drawn independently
    from one distribution, and that nothing was fitted or chosen on them.

    Parameters
    ----------
    classifier : TextClassifier, CertifiedClassifier, or any fitted classifier or function
    X, y : held-out texts, or rows of an array or table, and their classes (or sets of labels)
        Near-duplicates of texts that were fitted are left out, and the certificate names them.
    delta : float
        Chance that the certificate is wrong.
    per_class : bool
        Whether to bound each class and their mean as well; all bounds then hold together.
    groups : list, optional
        The book, the author, the day a text is from: the guarantee is then for new groups, each of
        which counts as one example (`certify_predictions`).
    overlap : {"refuse", "drop"}
        What to do with texts that were fitted: stop, or leave them out (the guarantee is then
        about texts that were not among those fitted).
    n_candidates : int
        How many classifiers were compared on these texts before this one was kept.
    random_state : int or None
        Seed of the order of groups. None draws one; it is recorded.

    Examples
    --------
    >>> texts = [f"number {n}" for n in range(100)]
    >>> odd = ["odd" if n % 2 else "even" for n in range(100)]
    >>> def last_digit(texts):
    ...     return ["odd" if int(text[-1]) % 2 else "even" for text in texts]
    >>> round(certify(last_digit, texts, odd).bound, 3)
    0.03
    """
    rows = unseen(classifier, X, y, overlap, groups)
    predictions = predict_any(classifier, rows.classes, rows.X).labels
    return certify_rows(
        classifier,
        rows,
        predictions,
        recall=rows.classes.tolist() if per_class else (),
        delta=delta,
        n_candidates=n_candidates,
        seed=random_state,
        fields={"provenance": rows.provenance},
    )


class LabelledRows(NamedTuple):
    """Labelled rows that a classifier was not fitted on, and how this is known."""

    X: Any
    y: np.ndarray  # (n,) positions in `classes`; multi-label (n, n_labels) of bool
    classes: np.ndarray
    groups: np.ndarray | None  # (n,)
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
    options |= {"clusters": dependent_clusters(rows.X), "group_of": rows.groups}
    if not finds_near_duplicates(rows.X):
        fields["provenance"] += f"; {NOT_SEARCHED}"
    names = rows.classes.tolist()
    if rows.y.ndim == 2:
        fields["digests"] = digests(classifier, rows.X, rows.y, predictions)
        return multilabel_certificate(rows.y, predictions, names, fields=fields, **options)
    labels, answers = [names[position] for position in rows.y], predictions.tolist()
    fields["digests"] = digests(classifier, rows.X, labels, answers)
    return error_certificate(labels, answers, recall=recall, fields=fields, **options)


def unseen(
    classifier: Any, X: Any, y: Any, overlap: str = "refuse", groups: Any = None
) -> LabelledRows:
    """Leave out near-duplicates of rows that were fitted; refuse those rows, or leave them out."""
    if hasattr(classifier, "fit") and hasattr(classifier, "__sklearn_tags__"):
        check_is_fitted(classifier)
    X, y = samples_for(classifier, X), counted(y)
    n = n_samples(X)
    if not n:
        raise ValueError("X must hold at least one text. Got none instead.")
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        classes = classes_of(classifier, None, as_labels(y, n))
    if is_multilabel(classifier):
        y = known_sets(classes, y, n, len(classes))
    else:
        y = positions(classes, y, n)
    group_of = as_groups(groups, n)
    rows, provenance = unseen_rows(classifier, X, overlap)
    if rows.size < n:
        X, y = select_rows(X, rows), y[rows]
        group_of = None if group_of is None else group_of[rows]
    return LabelledRows(X, y, classes, group_of, provenance, rows)


def unseen_rows(classifier: Any, X: Any, overlap: str = "refuse") -> tuple[np.ndarray, str]:
    """Rows that were not fitted and are no near-duplicates of such, and how this is known.

    Rows that were fitted are refused, or left out with overlap="drop".
    """
    if overlap not in ("refuse", "drop"):
        raise ValueError(f"overlap must be 'refuse' or 'drop'. Got {overlap!r} instead.")
    n = n_samples(X)
    if not is_recorded(classifier):
        return np.arange(n), "not checked: the classifier does not record what it was fitted on"
    exact, near = seen_before(classifier, X)
    if exact.any() and overlap == "refuse":
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. {int(exact.sum()):,} of these "
            f"{n:,} were among the texts it was fitted on (first: row {int(np.argmax(exact))}). "
            "Give other texts, or leave those out: overlap='drop'."
        )
    rows = np.flatnonzero(~(exact | near))
    if rows.size == 0:
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. All {n:,} were fitted, or "
            f"{int(near.sum()):,} of them are near-duplicates of texts that were. Give other texts."
        )
    if rows.size == n:
        return rows, "checked, none was fitted, and none is a near-duplicate of a text that was"
    omitted = {"texts": exact, "near-duplicates of texts": near}
    left_out = [
        f"{int(mask.sum()):,} {what} that were fitted"
        for what, mask in omitted.items()
        if mask.any()
    ]
    return rows, f"{' and '.join(left_out)} are left out; the guarantee is about others"
