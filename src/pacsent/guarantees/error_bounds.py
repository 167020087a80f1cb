"""Exact bounds on the error rate of a classifier, from labelled texts that it was not fitted on."""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.certificates.error_certificate import ErrorCertificate, bounds_from_counts
from pacsent.classify.inputs import as_labels, positions
from pacsent.guarantees.any_estimator import asked, classes_of, samples_for
from pacsent.guarantees.samples import n_samples, row_fingerprints, taken
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability, is_count, is_number


def certify(
    classifier: Any,
    X: Any,
    y: Sequence,
    *,
    delta: float = 0.05,
    per_class: bool = False,
    overlap: str = "refuse",
    n_candidates: int = 1,
    checked: Any = None,
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
    overlap : {"refuse", "drop"}
        What to do with texts that were fitted: stop, or leave them out (the guarantee is then
        about texts that were not among those fitted).
    n_candidates : int
        How many classifiers were compared on these texts before this one was kept.
    checked : ExchangeabilityTest, optional
        The result of `check_exchangeable(texts, new)` for the texts that the guarantee is for; the
        certificate states it.

    Examples
    --------
    >>> texts = [f"number {n}" for n in range(100)]
    >>> odd = ["odd" if n % 2 else "even" for n in range(100)]
    >>> def last_digit(texts):
    ...     return ["odd" if int(text[-1]) % 2 else "even" for text in texts]
    >>> round(certify(last_digit, texts, odd).bound, 3)
    0.03
    """
    check_probability("delta", delta)
    n_candidates = check_count("n_candidates", n_candidates)
    exchangeable = note_of(checked)
    found = unseen(classifier, X, y, overlap)
    classes = found.classes.tolist()
    answers = asked(classifier, found.X, found.classes).labels.tolist()
    wrong = np.array([a != classes[at] for a, at in zip(answers, found.y)], bool)
    counted = counted_once(found.fingerprints, wrong)
    at, wrong = found.y[counted], wrong[counted]
    counts = {}
    if per_class:
        for position, name in enumerate(classes):
            of_class = at == position
            counts[str(name)] = [int(of_class.sum()), int(wrong[of_class].sum())]
    n, n_errors = int(at.size), int(wrong.sum())
    return ErrorCertificate(
        **bounds_from_counts(n, n_errors, counts, delta / n_candidates),
        n=n,
        n_errors=n_errors,
        delta=float(delta),
        corrections={"candidates": n_candidates} if n_candidates > 1 else {},
        class_counts=counts,
        provenance=found.provenance,
        exchangeable=exchangeable,
        n_duplicates=int(counted.size) - n,
    )


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
    fingerprints: np.ndarray  # (n,)
    provenance: str


def unseen(classifier: Any, X: Any, y: Any, overlap: str = "refuse") -> Unseen:
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
    prints = row_fingerprints(X)
    known = _fitted_on(classifier)
    if known is None:
        note = "not checked: the classifier does not record what it was fitted on"
        return Unseen(X, at, classes, prints, note)
    seen = np.isin(prints, known)
    if not seen.any():
        return Unseen(X, at, classes, prints, "checked, none was fitted")
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
    return Unseen(taken(X, kept), at[kept], classes, prints[kept], note)


def _fitted_on(classifier):
    """Fingerprints of the rows a classifier was fitted on; None where they are not recorded."""
    own = getattr(classifier, "training_fingerprints_", None)
    inner = getattr(classifier, "estimator_", None)
    return getattr(inner, "training_fingerprints_", None) if own is None else own


def counted_once(prints: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Which texts a bound counts: one of each group of copies, and every wrong answer, (n,).

    A bound on the errors of these is at least as large as one on all texts, which holds where
    copies occur in new texts as often, and as one on different texts, which holds where a text was
    copied by mistake.

    Examples
    --------
    >>> counted_once(np.array([7, 7, 8, 8]), np.array([False, False, True, True]))
    array([ True, False,  True,  True])
    """
    first = np.zeros(prints.size, bool)
    right = np.flatnonzero(~wrong)
    first[right[np.unique(prints[right], return_index=True)[1]]] = True
    return first | wrong


def split(
    prints: np.ndarray, holdout: float | str, seed: int | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows held out, rows to fit, seed): a random part of the texts, all copies of one together.

    Examples
    --------
    >>> held_out, rest, _ = split(np.array([3, 3, 5, 5]), 0.5, seed=0)
    >>> sorted([held_out.tolist(), rest.tolist()])
    [[0, 1], [2, 3]]
    """
    if holdout == "auto":
        n = np.unique(prints).size
        holdout = 0.4 if n <= 300 else 0.3 if n <= 1000 else 0.2
    if not is_number(holdout) or not 0 < holdout < 1:
        raise ValueError(
            f"holdout must be 'auto' or a share strictly between 0 and 1. Got {holdout!r} instead."
        )
    if seed is not None and not is_count(seed):
        raise ValueError(f"seed must be an integer of at least 0, or None. Got {seed!r} instead.")
    seed = secrets.randbits(63) if seed is None else int(seed)
    _, first, of_text = np.unique(prints, return_index=True, return_inverse=True)
    texts = np.random.default_rng(seed).permutation(first.size)
    n_held_out = max(1, round(holdout * first.size))
    held_out = np.zeros(first.size, bool)
    held_out[np.argsort(first)[texts[:n_held_out]]] = True  # numbered as they come
    kept = held_out[of_text]
    return np.flatnonzero(kept), np.flatnonzero(~kept), seed


def of_held_out(
    wrong: np.ndarray, prints: np.ndarray, delta: float, n_candidates: int, note: str
) -> ErrorCertificate:
    """The certificate of rows that nothing was fitted on; `note` says how this is known."""
    counted = wrong[counted_once(prints, wrong)]
    n, n_errors = int(counted.size), int(counted.sum())
    return ErrorCertificate(
        bound=upper_limit(n_errors, n, delta / n_candidates),
        delta=float(delta),
        n=n,
        n_errors=n_errors,
        corrections={"candidates": n_candidates} if n_candidates > 1 else {},
        provenance=note,
        n_duplicates=int(wrong.size) - n,
    )
