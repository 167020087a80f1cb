"""Exact bounds on the error rate of a classifier, from labelled texts that it was not fitted on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.classify.inputs import as_groups, as_labels, positions
from pacsent.guarantees.any_estimator import asked, classes_of, samples_for
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.predictions import error_certificate
from pacsent.guarantees.samples import n_samples, row_fingerprints, taken
from pacsent.guarantees.splitting import units_of


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
    checked: Any = None,
    random_state: int | None = None,
) -> ErrorCertificate:
    """Bound the error rate of a classifier by labelled texts that it was not fitted on.

    Clopper-Pearson: the only assumption is that these texts and new ones are drawn independently
    from one distribution, and that nothing was fitted or chosen on them.

    Parameters
    ----------
    classifier : TextClassifier, CertifiedClassifier, or any fitted classifier or function
    X, y : held-out texts, or rows of an array or table, and their classes
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
    checked : ExchangeabilityTest, optional
        The result of `check_exchangeable(texts, new)` for the texts that the guarantee is for; the
        certificate states it.
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
    exchangeable = note_of(checked)
    found = unseen(classifier, X, y, overlap, groups)
    classes = found.classes.tolist()
    answers = asked(classifier, found.X, found.classes).labels.tolist()
    return error_certificate(
        [classes[at] for at in found.y], answers,
        units=units_of(found.X), group_of=found.groups, recall=classes if per_class else (),
        delta=delta, n_candidates=n_candidates, seed=random_state,
        noted={
            "provenance": found.provenance, "exchangeable": exchangeable,
            "digests": digests(classifier, found.X, [classes[at] for at in found.y], answers),
        },
    )  # fmt: skip


def note_of(checked: Any) -> str:
    """What a guarantee says about the distribution of new texts."""
    if checked is None:
        return "not checked"
    note = getattr(checked, "note", None)
    if not isinstance(note, str):
        raise TypeError(
            "checked must be the result of check_exchangeable, or None. Got "
            f"{type(checked).__name__} instead."
        )
    return note


class Unseen(NamedTuple):
    """Labelled rows that a classifier was not fitted on, and how this is known."""

    X: Any
    y: np.ndarray  # (n,) positions in `classes`
    classes: np.ndarray
    groups: np.ndarray | None  # (n,)
    provenance: str


def unseen(classifier: Any, X: Any, y: Any, overlap: str = "refuse", groups: Any = None) -> Unseen:
    """Check that rows were not fitted, or leave out those that were."""
    if overlap not in ("refuse", "drop"):
        raise ValueError(f"overlap must be 'refuse' or 'drop'. Got {overlap!r} instead.")
    if hasattr(classifier, "fit"):
        check_is_fitted(classifier)
    X = samples_for(classifier, X)
    n = n_samples(X)
    if not n:
        raise ValueError("X must hold at least one text. Got none instead.")
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        classes = classes_of(classifier, None, as_labels(y, n))
    at = positions(classes, y, n)
    group_of = as_groups(groups, n)
    known = _fitted_on(classifier)
    if known is None:
        note = "not checked: the classifier does not record what it was fitted on"
        return Unseen(X, at, classes, group_of, note)
    seen = np.isin(row_fingerprints(X), known)
    if not seen.any():
        note = "checked, none was fitted (near-duplicates of those fitted are not recognised)"
        return Unseen(X, at, classes, group_of, note)
    if overlap == "refuse":
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. {int(seen.sum()):,} of these "
            f"{n:,} were among the texts it was fitted on (first: row {int(np.argmax(seen))}). "
            "Give other texts, or leave those out: overlap='drop'."
        )
    kept = np.flatnonzero(~seen)
    if kept.size == 0:
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. All {n:,} were fitted. "
            "Give other texts."
        )
    note = f"{int(seen.sum()):,} texts that were fitted are left out; the guarantee is about others"
    some = None if group_of is None else group_of[kept]
    return Unseen(taken(X, kept), at[kept], classes, some, note)


def _fitted_on(classifier):
    """Fingerprints of the rows a classifier was fitted on; None where they are not recorded."""
    own = getattr(classifier, "training_fingerprints_", None)
    inner = getattr(classifier, "estimator_", None)
    return getattr(inner, "training_fingerprints_", None) if own is None else own
