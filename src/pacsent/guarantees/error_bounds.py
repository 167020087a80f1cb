"""Exact bounds on the error rate of a classifier, from labelled texts that it was not fitted on."""

import dataclasses
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.certificates.error_certificate import ErrorCertificate, bounds_from_counts
from pacsent.classify import fitting
from pacsent.classify.inputs import positions
from pacsent.classify.ngrams import fingerprints
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability, is_count, is_number
from pacsent.text.texts import as_texts


def certify(
    classifier: Any,
    texts: Iterable[str],
    labels: Sequence,
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
    classifier : TextClassifier
    texts, labels : held-out texts and their classes
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
    """
    check_probability("delta", delta)
    n_candidates = check_count("n_candidates", n_candidates)
    exchangeable = note_of(checked)
    found = unseen(classifier, texts, labels, overlap)
    wrong = classifier.predict(found.texts) != classifier.classes_[found.y]
    counted = counted_once(found.fingerprints, wrong)
    y, wrong = found.y[counted], wrong[counted]
    counts = {}
    if per_class:
        for position, name in enumerate(classifier.classes_.tolist()):
            of_class = y == position
            counts[str(name)] = [int(of_class.sum()), int(wrong[of_class].sum())]
    n, n_errors = int(y.size), int(wrong.sum())
    return ErrorCertificate(
        **bounds_from_counts(n, n_errors, counts, delta / n_candidates),
        n=n,
        n_errors=n_errors,
        delta=float(delta),
        corrections={"candidates": n_candidates} if n_candidates > 1 else {},
        class_counts=counts,
        provenance=found.provenance,
        exchangeable=exchangeable,
        n_duplicates=len(found.texts) - n,
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
    """Labelled texts that a classifier was not fitted on, and how this is known."""

    texts: list[str]
    y: np.ndarray  # (n,) positions in `classes_`
    fingerprints: np.ndarray  # (n,)
    provenance: str


def unseen(classifier: Any, texts: Any, labels: Any, overlap: str = "refuse") -> Unseen:
    """Check that texts were not fitted, or leave out those that were."""
    if overlap not in ("refuse", "drop"):
        raise ValueError(f"overlap must be 'refuse' or 'drop'. Got {overlap!r} instead.")
    check_is_fitted(classifier)
    texts = as_texts(texts, "texts")
    if not texts:
        raise ValueError("texts must hold at least one text. Got none instead.")
    y = positions(classifier.classes_, labels, len(texts))
    prints = fingerprints(texts)
    seen = np.isin(prints, classifier.training_fingerprints_)
    if not seen.any():
        return Unseen(texts, y, prints, "checked, none was fitted")
    if overlap == "refuse":
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. {int(seen.sum()):,} of these "
            f"{len(texts):,} were among the texts it was fitted on (first: row "
            f"{int(np.argmax(seen))}). Give other texts, or leave those out: overlap='drop'."
        )
    kept = np.flatnonzero(~seen)
    if kept.size == 0:
        raise ValueError(
            f"A guarantee needs texts the classifier has not seen. All {len(texts):,} were fitted. "
            "Give other texts."
        )
    note = f"{int(seen.sum()):,} texts that were fitted are left out; the guarantee is about others"
    return Unseen([texts[i] for i in kept], y[kept], prints[kept], note)


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
    prints: np.ndarray, holdout: float, seed: int | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows held out, rows to fit, seed): a random part of the texts, all copies of one together.

    Examples
    --------
    >>> held_out, rest, _ = split(np.array([3, 3, 5, 5]), 0.5, seed=0)
    >>> sorted([held_out.tolist(), rest.tolist()])
    [[0, 1], [2, 3]]
    """
    if not is_number(holdout) or not 0 < holdout < 1:
        raise ValueError(
            f"holdout must be a share strictly between 0 and 1. Got {holdout!r} instead."
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


def fit_by_bound(
    rows: fitting.Labelled,
    held_out: np.ndarray,
    candidates: fitting.Candidates,
    n_threads: int,
    delta: float,
    prints: np.ndarray,
) -> tuple[fitting.Linear, ErrorCertificate]:
    """Choose on the rows `held_out` and certify by them, corrected for all candidates.

    The model is the one fitted on the other rows; `prints` are fingerprints of those held out.
    """
    choice = fitting.choose(rows, candidates, held_out, n_threads)
    rest = np.setdiff1d(np.arange(rows.labels.size), held_out)
    model = fitting.fit_one(rows.take(rest), choice, n_threads)
    decisions = rows.X[held_out] @ model.sparse + rows.E[held_out] @ model.dense + model.intercept
    wrong = fitting.predicted(decisions) != rows.labels[held_out]
    certificate = of_held_out(wrong, prints, delta, choice["n_candidates"])
    report = {**choice, "selection": "bound"}
    return dataclasses.replace(
        model, inverse_temperature=choice["inverse_temperature"], report=report
    ), certificate


def of_held_out(
    wrong: np.ndarray,
    prints: np.ndarray,
    delta: float,
    n_candidates: int = 1,
    *,
    grouped: bool = False,
) -> ErrorCertificate:
    """The certificate of the part that fit held out; `grouped` where texts come in groups."""
    note = "held out by fit"
    if grouped:
        note += ", from the groups that were fitted; it is not about other groups"
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
