"""How often a classifier is wrong: exact bounds from labelled texts it has not seen."""

import dataclasses
import json
import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import fitting
from pacsent.classify.inputs import positions
from pacsent.classify.ngrams import fingerprints
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability, is_count, is_number
from pacsent.maths.rounding import rounded_up
from pacsent.text.texts import as_texts


@dataclass(frozen=True)
class ErrorCertificate:
    """A promise about one fitted classifier, with everything that went into it.

    Attributes
    ----------
    error_bound : float
        With probability 1 - delta, new texts of the same population are answered wrongly at most
        this often.
    class_bounds : dict
        The same for each class by itself, where asked for; they hold together with `error_bound`.
    balanced_bound : float or None
        Mean of the class bounds.
    n_duplicates : int
        Copies of other certified texts that were answered correctly. They are not counted: the
        bound then holds for texts as often as they occur and for different texts alike.
    provenance : str
        Where the certified texts are from, and how it is known that none was fitted.
    exchangeable : str
        Whether it was checked that new texts come from the same distribution.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> classifier.certificate_.n, classifier.certificate_.n_errors
    (40, 0)
    >>> classifier.certificate_.error < 0.1
    True
    """

    n: int
    n_errors: int
    delta: float
    error_bound: float
    n_candidates: int = 1
    class_counts: dict = field(default_factory=dict)  # name: [n, n_errors]
    class_bounds: dict = field(default_factory=dict)
    balanced_bound: float | None = None
    provenance: str = "checked"
    exchangeable: str = "not checked"
    n_duplicates: int = 0

    @property
    def error(self) -> float:
        """Share of the held-out texts answered wrongly."""
        return self.n_errors / self.n

    def __str__(self) -> str:
        lines = [
            f"With {100 * (1 - self.delta):g} % confidence, at most "
            f"{rounded_up(self.error_bound)} of new texts like these are answered wrongly "
            f"({self.n_errors:,} of {self.n:,} held-out texts were: {self.error:.4f})."
        ]
        if self.balanced_bound is not None:
            lines.append(
                f"The mean error over classes is at most {rounded_up(self.balanced_bound)}."
            )
            for name, bound in self.class_bounds.items():
                n, wrong = self.class_counts[name]
                lines.append(f"  {name}: at most {rounded_up(bound)} ({wrong:,} of {n:,}).")
        if self.n_candidates > 1:
            lines.append(f"Paid for {self.n_candidates:,} candidates compared on these texts.")
        if self.n_duplicates:
            lines.append(
                f"{self.n_duplicates:,} further texts are copies of correctly answered ones and "
                "are not counted again."
            )
        lines.append(
            f"Held-out texts: {self.provenance}. New texts being alike: {self.exchangeable}."
        )
        return "\n".join(lines)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @staticmethod
    def is_written(text: str) -> bool:
        """Whether a JSON text is of a classifier's certificate, rather than of vectors."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(values, dict) and "n_errors" in values and "kind" not in values

    @classmethod
    def from_json(cls, text: str) -> "ErrorCertificate":
        """The certificate that `to_json` wrote.

        Examples
        --------
        >>> ErrorCertificate.from_json(ErrorCertificate(40, 0, 0.05, 0.0722).to_json()).n
        40
        """
        try:
            found = cls(**json.loads(text))
            found._check_types()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                "text must be a classifier's certificate as to_json writes it. Got something else "
                f"instead ({error}). Write it again: pacsent classify certify --json."
            ) from None
        return found

    def _check_types(self):
        """Raise ValueError where a field is not of its kind."""
        whole = [self.n, self.n_errors, self.n_candidates, self.n_duplicates]
        real = [self.delta, self.error_bound]
        if type(self.class_counts) is not dict or type(self.class_bounds) is not dict:
            raise ValueError("class_counts and class_bounds must be objects")
        for pair in self.class_counts.values():
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise ValueError("class_counts must hold two counts for each class")
            whole += pair
        real += self.class_bounds.values()
        if self.balanced_bound is not None:
            real.append(self.balanced_bound)
        if not all(type(value) is int for value in whole):
            raise ValueError("counts must be integers")
        if not all(type(value) in (int, float) and math.isfinite(value) for value in real):
            raise ValueError("delta and bounds must be finite numbers")
        if type(self.provenance) is not str or type(self.exchangeable) is not str:
            raise ValueError("provenance and exchangeable must be strings")

    def verify(self) -> bool:
        """Whether the bounds follow from the counts; an impossible certificate is refused."""
        self._check_types()
        if not (
            0 <= self.n_errors <= self.n and self.n > 0 and 0 < self.delta < 1
            and self.n_candidates >= 1 and self.n_duplicates >= 0
        ):  # fmt: skip
            raise ValueError(
                "A certificate must have 0 <= n_errors <= n, 0 < delta < 1 and at least one "
                f"candidate. Got n={self.n}, n_errors={self.n_errors}, delta={self.delta}, "
                f"n_candidates={self.n_candidates}, n_duplicates={self.n_duplicates} instead."
            )
        pairs = list(self.class_counts.values())
        sums = [sum(n for n, _ in pairs), sum(wrong for _, wrong in pairs)]
        if pairs and (
            sums != [self.n, self.n_errors] or any(not 0 <= wrong <= n for n, wrong in pairs)
        ):
            raise ValueError(
                "The texts and errors of the classes must sum to those of the certificate, "
                f"{self.n:,} and {self.n_errors:,}. Got {sums[0]:,} and {sums[1]:,} instead."
            )
        again = bounds_from_counts(
            self.n, self.n_errors, self.class_counts, self.delta, self.n_candidates
        )
        mine = self.error_bound, self.class_bounds, self.balanced_bound
        return all(_same(a, b) for a, b in zip(mine, again))


def _same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-9)


def bounds_from_counts(
    n: int, n_errors: int, class_counts: dict, delta: float, n_candidates: int = 1
) -> tuple[float, dict, float | None]:
    """(error, {class: error}, balanced error) bounds that hold together with 1 - delta.

    With classes, half of delta is for the error and half is shared by the classes.
    """
    delta = delta / n_candidates
    if not class_counts:
        return upper_limit(n_errors, n, delta), {}, None
    share = delta / (2 * len(class_counts))
    bounds = {name: upper_limit(wrong, n, share) for name, (n, wrong) in class_counts.items()}
    return upper_limit(n_errors, n, delta / 2), bounds, float(np.mean(list(bounds.values())))


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
    """Bound how often a classifier is wrong on texts like these, which it has not seen.

    Clopper-Pearson: the only assumption is that these texts and the new ones are drawn
    independently from one population, and that nothing was fitted or chosen on them.

    Parameters
    ----------
    classifier : TextClassifier
    texts, labels : held-out texts and their classes
    delta : float
        Chance that the certificate is wrong.
    per_class : bool
        Whether to bound each class and their mean as well; all bounds then hold together.
    overlap : {"refuse", "drop"}
        What to do with texts that were fitted: stop, or leave them out (the promise is then about
        texts that training did not hold).
    n_candidates : int
        How many classifiers were compared on these texts before this one was kept.
    checked : ExchangeabilityTest, optional
        What `check_exchangeable(texts, new)` found about the texts that the promise is for; the
        certificate says it.
    """
    check_probability("delta", delta)
    check_count("n_candidates", n_candidates)
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
    bounds = bounds_from_counts(n, n_errors, counts, delta, n_candidates)
    return ErrorCertificate(
        n, n_errors, float(delta), bounds[0], int(n_candidates), counts, bounds[1], bounds[2],
        found.provenance, exchangeable, len(found.texts) - n,
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
    return dataclasses.replace(model, temperature=choice["temperature"], report=report), certificate


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
    bound = upper_limit(n_errors, n, delta / n_candidates)
    return ErrorCertificate(
        n, n_errors, float(delta), bound, n_candidates, provenance=note,
        n_duplicates=wrong.size - n,
    )  # fmt: skip
