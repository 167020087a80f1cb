"""How often a classifier is wrong: exact bounds from labelled texts it has not seen."""

import dataclasses
import json
import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacsent.classify import fitting
from pacsent.classify.ngrams import fingerprints
from pacsent.maths.binomial import upper_limit
from pacsent.maths.rounding import rounded_up


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
    provenance : str
        "held back by fit", "checked" (no text was among those fitted) or "dropped k texts".
    exchangeable : str
        Whether anything was checked about new texts being like these.

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
            counts = [n for pair in found.class_counts.values() for n in pair]
            sum([found.n, found.n_errors, found.delta, found.error_bound, *counts], 0.0)
            sum([found.n_candidates, found.balanced_bound or 0, *found.class_bounds.values()], 0.0)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(
                "text must be a classifier's certificate as to_json writes it. Got something else "
                f"instead ({error}). Write it again: pacsent classify certify --json."
            ) from None
        return found

    def verify(self) -> bool:
        """Whether the bounds follow from the counts; a certificate that cannot be is refused."""
        if not (
            0 <= self.n_errors <= self.n and self.n > 0 and 0 < self.delta < 1
            and self.n_candidates >= 1
        ):  # fmt: skip
            raise ValueError(
                "A certificate must have 0 <= n_errors <= n, 0 < delta < 1 and at least one "
                f"candidate. Got n={self.n}, n_errors={self.n_errors}, delta={self.delta}, "
                f"n_candidates={self.n_candidates} instead."
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
    check_delta(delta)
    texts, y, provenance = fresh(classifier, texts, labels, overlap)
    wrong = fitting.predicted(classifier._decisions(texts)) != y
    counts = {}
    if per_class:
        for position, name in enumerate(classifier.classes_):
            of_class = y == position
            counts[str(name)] = [int(of_class.sum()), int(wrong[of_class].sum())]
    n, n_errors = len(texts), int(wrong.sum())
    bounds = bounds_from_counts(n, n_errors, counts, delta, n_candidates)
    return ErrorCertificate(
        n, n_errors, float(delta), bounds[0], n_candidates, counts, bounds[1], bounds[2],
        provenance, alike(checked),
    )  # fmt: skip


def alike(checked: Any) -> str:
    """What a promise says about new texts being like those it was made from."""
    return "not checked" if checked is None else checked.note


def check_delta(delta: float, name: str = "delta") -> None:
    """Refuse what is no probability strictly between 0 and 1.

    Examples
    --------
    >>> check_delta(0.05)
    """
    if not 0 < delta < 1:
        raise ValueError(f"{name} must be strictly between 0 and 1. Got {delta!r} instead.")


def fresh(
    classifier: Any, texts: Iterable[str], labels: Any, overlap: str = "refuse"
) -> tuple[list[str], np.ndarray, str]:
    """Texts none of which was fitted, their classes, and how this is known."""
    if overlap not in ("refuse", "drop"):
        raise ValueError(f"overlap must be 'refuse' or 'drop'. Got {overlap!r} instead.")
    if isinstance(texts, str):
        raise ValueError(
            "texts must be a list of strings. Got one string instead. Put it in a list."
        )
    texts = list(texts)
    y = classifier._known(texts, labels)
    seen = np.isin(fingerprints(texts), classifier.training_fingerprints_)
    if not seen.any():
        return texts, y, "checked, none was fitted"
    if overlap == "refuse":
        raise ValueError(
            f"A promise needs texts the classifier has not seen. {int(seen.sum()):,} of these "
            f"{len(texts):,} were among the texts it was fitted on (first: row "
            f"{int(np.argmax(seen))}). Give other texts, or leave those out: overlap='drop'."
        )
    kept = np.flatnonzero(~seen)
    if kept.size == 0:
        raise ValueError(
            f"A promise needs texts the classifier has not seen. All {len(texts):,} were fitted. "
            "Give other texts."
        )
    note = f"{int(seen.sum()):,} texts that were fitted are left out; the promise is about others"
    return [texts[i] for i in kept], y[kept], note


def split(n: int, holdout: float, seed: int | None = None) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows kept back, rows to fit, seed): a random part of n rows."""
    if not 0 < holdout < 1:
        raise ValueError(
            f"holdout must be a share strictly between 0 and 1. Got {holdout!r} instead."
        )
    seed = secrets.randbits(63) if seed is None else seed
    order = np.random.default_rng(seed).permutation(n)
    n_kept = max(1, round(holdout * n))
    return np.sort(order[:n_kept]), np.sort(order[n_kept:]), seed


def fit_by_bound(
    rows: fitting.Labelled,
    kept: np.ndarray,
    candidates: fitting.Candidates,
    n_threads: int,
    delta: float,
) -> tuple[fitting.Linear, ErrorCertificate]:
    """Choose on the rows `kept`, and certify the choice by the same rows, all candidates paid.

    The model is the one fitted on the others: one fitted on all rows has no such promise.
    """
    choice = fitting.choose(rows, candidates, kept, n_threads)
    rest = np.setdiff1d(np.arange(rows.labels.size), kept)
    model = fitting.fit_one(rows.take(rest), choice, n_threads)
    decisions = rows.X[kept] @ model.sparse + rows.E[kept] @ model.dense + model.intercept
    n_errors = int((fitting.predicted(decisions) != rows.labels[kept]).sum())
    n_candidates = choice["n_candidates"]
    bound = upper_limit(n_errors, kept.size, delta / n_candidates)
    certificate = ErrorCertificate(
        kept.size, n_errors, float(delta), bound, n_candidates, provenance="held back by fit"
    )
    report = {**choice, "selection": "bound"}
    return dataclasses.replace(model, temperature=choice["temperature"], report=report), certificate


def from_held_back(
    n: int, n_errors: int, delta: float, repeated: np.ndarray, *, grouped: bool = False
) -> ErrorCertificate:
    """The certificate of the part that fit kept back.

    A random part is a fair sample whatever it holds, so a text that also occurs in training
    (`repeated`) counts like any other; how many there are is said. Where texts come in groups
    (`grouped`) it speaks of these groups.
    """
    note = "held back by fit"
    if grouped:
        note += ", from the groups that were fitted: nothing is promised about other groups"
    if repeated.any():
        note += f" ({int(repeated.sum()):,} occur in training as well, by the chance of the draw)"
    bound = upper_limit(n_errors, n, delta)
    return ErrorCertificate(n, n_errors, float(delta), bound, provenance=note)
