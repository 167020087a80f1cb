"""Counts of errors: of two classifiers, and of models that are still trained."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pacsent.bounds.checks import check_count, check_probability
from pacsent.bounds.delta import confidence, divide_delta
from pacsent.bounds.paired_difference import difference_limits, difference_p_value
from pacsent.bounds.rounding import format_count, rounded_down, rounded_up
from pacsent.certify import independence
from pacsent.certify.certificate import CountCertificate
from pacsent.certify.columns import materialize
from pacsent.certify.error_bounds import exclude_training_overlap
from pacsent.certify.repeats import COPIES, SAME, TRAFFIC, check_repeats, draw_samples
from pacsent.certify.samples import is_texts, predict_any, samples_for, select_rows, text_column

# Models that the same texts may evaluate while labels are given, and numbers of these texts at
# which each is evaluated, as multiples of how many there are when it is fitted.
N_MODELS = 8
LOOKS = (1.0, 1.4, 2.0)


@dataclass(frozen=True, kw_only=True)
class AnytimeCertificate(CountCertificate):
    """The error of one classifier on new texts, bounded while labels are still being given.

    Evaluation texts are drawn at random and never used for training, so that one may stop at any
    time.

    Attributes
    ----------
    error_upper : float
        Upper bound on the error rate of this classifier on new texts.
    n, n_errors : int
        Evaluation texts, and those among them that the classifier got wrong.
    n_training : int
        Labels that this classifier was fitted on.
    digests : dict
        SHA-256 of the classifier, where it is known.
    delta, corrections, provenance, n_duplicates : see `Certificate`

    References
    ----------
    Theorem 19 of docs/theory.md.

    Examples
    --------
    >>> certify_stream([0] * 100, n_training=100).verify()
    Verified: the bound follows from its parts. Not checked: n_duplicates, provenance, ...
    """

    kind: ClassVar[str] = "anytime error"
    assumption: ClassVar[str] = (
        "the evaluation texts and new texts are drawn independently from one distribution, and the "
        "labels of evaluation texts influenced neither training nor when models are evaluated."
    )
    needs_texts = (*CountCertificate.needs_texts, "n_training", "digests")

    n_training: int = 0
    digests: dict = field(default_factory=dict)
    provenance: str = "held out: evaluation texts were drawn at random and not trained on"

    def summary(self) -> str:
        texts = "distinct texts" if self.n_duplicates else "texts"
        return (
            f"With {self.confidence} confidence, the error rate of this classifier on new "
            f"{texts} is at most {rounded_up(self.error_upper)}."
        )

    def repeated(self) -> str:
        if not self.n_duplicates:
            return ""
        near_duplicates = format_count(self.n_duplicates, "near-duplicate")
        return (
            f"{near_duplicates} never shown: valid if copies of "
            "texts were made, and not if frequent texts are drawn again, as in traffic."
        )

    def measurements(self) -> list[tuple[str, str]]:
        measured = f"{self.n:,} texts drawn at random, {self.n_errors:,} wrong."
        training = f"fitted on {self.n_training:,} other labels."
        return [("Measured on", measured), ("Classifier", training)]


def certify_stream(
    losses: ArrayLike,
    delta: float = 0.05,
    *,
    n_training: int,
    evaluation_size: float = 0.5,
    n_duplicates: int = 0,
) -> AnytimeCertificate | None:
    """Certify a classifier that was fitted on `n_training` labels by a stream of evaluation texts.

    Parameters
    ----------
    losses : array of 0 and 1
        Whether it is wrong on each evaluation text, in the order of their draw.
    delta : float, default=0.05
        Probability that the bound of any of eight classifiers is ever false.
    n_training : int
        Labels that the classifier was fitted on.
    evaluation_size : float, default=0.5
        Fraction of all labels that are of evaluation texts.
    n_duplicates : int, default=0
        Texts that were left out before the draw, because they are near-duplicates of others.

    Returns
    -------
    AnytimeCertificate or None
        Of the first texts, up to the largest of three planned numbers; None before the first.

    References
    ----------
    Theorem 19 of docs/theory.md.

    Examples
    --------
    >>> certificate = certify_stream(([0] * 19 + [1]) * 5, n_training=100)
    >>> certificate.n, certificate.n_errors, round(certificate.error_upper, 3)
    (100, 5, 0.146)
    """
    losses = np.asarray(losses, bool)
    size = evaluation_size
    planned_sizes = [int(look * n_training * size / (1.0 - size)) for look in LOOKS]
    reached_sizes = [n for n in planned_sizes if n <= losses.size]
    n = max(reached_sizes, default=0)
    if not n:
        return None

    return AnytimeCertificate.from_parts(
        delta=check_probability("delta", delta),
        n=n,
        n_errors=int(losses[:n].sum()),
        n_training=n_training,
        n_duplicates=n_duplicates,
        corrections={"models": N_MODELS, "looks": len(LOOKS)},
    )


@dataclass(frozen=True)
class Comparison:
    """Bounds on the difference between the error rates of two classifiers, made by `compare`.

    Attributes
    ----------
    n : int
        Independent texts that both classifiers were evaluated on.
    only_a_right, only_b_right : int
        Texts that only one of the classifiers got right.
    delta : float
        Probability that a limit is false.
    n_duplicates : int
        Rows that repeat others.
    random_state : int or None
        The seed that drew one text of each near-duplicate cluster.
    provenance : str
        Conditions that were not checked.
    repeats : {"traffic", "copies"} or None
        Why texts repeat, as was stated.
    sample : {"traffic", "copies", ""}
        What is counted: rows, or one text of each cluster; "" where no text repeats.
    other : dict
        `n`, `only_a_right` and `only_b_right` of the other sample, where it is not known why texts
        repeat.
    n_candidates : int
        Comparisons of which this one was kept: each has its part of delta.

    References
    ----------
    Theorem 15 of docs/theory.md.

    Examples
    --------
    >>> Comparison(n=100, only_a_right=5, only_b_right=5, delta=0.05).difference
    0.0
    """

    n: int
    only_a_right: int
    only_b_right: int
    delta: float
    n_duplicates: int = 0
    random_state: int | None = None
    provenance: str = ""
    repeats: str | None = None
    sample: str = SAME
    other: dict = field(default_factory=dict)
    n_candidates: int = 1

    @property
    def _counts(self) -> list[tuple[int, int, int]]:
        """(only_a_right, only_b_right, n) of each sample."""
        counts = [(self.only_a_right, self.only_b_right, self.n)]
        if self.other:
            names = ("only_a_right", "only_b_right", "n")
            counts.append(tuple(self.other[name] for name in names))
        return counts

    @property
    def difference(self) -> float:
        """Error of b minus error of a on these texts."""
        return (self.only_a_right - self.only_b_right) / self.n

    @property
    def p_value(self) -> float:
        """Of the exact test that both err equally often, two-sided: Theorem 15 of docs/theory.md.

        It is at most `delta` / `n_candidates` where the limits exclude 0; of two samples it is the
        larger one.
        """
        return max(difference_p_value(*counts) for counts in self._counts)

    @property
    def difference_lower(self) -> float:
        """Error of b minus error of a is at least this and at most `difference_upper`.

        Both hold together with probability 1 - delta, by Theorem 15 of docs/theory.md. Of two
        samples they are the smaller and the larger limit.
        """
        return self._limits()[0]

    @property
    def difference_upper(self) -> float:
        """Error of b minus error of a is at most this."""
        return self._limits()[1]

    def _limits(self) -> tuple[float, float]:
        limits = [difference_limits(*counts, self._delta_each) for counts in self._counts]
        lowers, uppers = zip(*limits)
        return min(lowers), max(uppers)

    @property
    def _delta_each(self) -> float:
        """The part of delta that each of the comparisons has."""
        return divide_delta(self.delta, self.n_candidates)

    def __str__(self) -> str:
        text = f"With {confidence(self.delta)} confidence, {self._verdict()}"
        if self.n_candidates > 1:
            text += f"\nCorrections: a union bound over {self.n_candidates:,} comparisons."
        repeats = self._describe_repeats()
        if repeats:
            text += f"\nRepeats: {repeats}"
        if self.provenance:
            text += f"\nNote: {self.provenance}."
        return text

    def _verdict(self) -> str:
        """Which classifier errs less, and by how much, as far as the limits tell."""
        low = self.difference_lower
        high = self.difference_upper
        p_value = self.p_value
        unit = {SAME: "texts", TRAFFIC: "rows", COPIES: "distinct texts"}[self.sample]
        observed = f"(observed {self.difference:+.4f} on {self.n:,} {unit}; p = {p_value:.2g})"

        better = "a errs less than b" if self.difference > 0 else "b errs less than a"
        least = max(low, -high)
        if least > 0:
            return f"{better}, by at least {rounded_down(least)} {observed}."
        reason = "these texts are too few to say which is better"
        if p_value <= self._delta_each:
            if self._samples_agree():
                return f"{better} {observed}; by how much is not certain."
            reason = "which is better depends on why texts repeat"
        return (
            f"the error of b minus that of a is from {rounded_down(low)} to "
            f"{rounded_up(high)} {observed}: {reason}."
        )

    def _samples_agree(self) -> bool:
        """Test that the same classifier is right more often in every sample."""
        a_leads = [only_a_right > only_b_right for only_a_right, only_b_right, _ in self._counts]
        return all(a_leads) or not any(a_leads)

    def _describe_repeats(self) -> str:
        """How repeated rows count; empty where no row repeats another."""
        repeats = format_count(self.n_duplicates, "row repeats", "rows repeat")
        if self.other:
            return (
                f"{repeats} others. The interval covers both the difference for new "
                f"rows, repeats included, and that for new distinct texts ({self.other['n']:,} "
                "here)."
            )
        if not self.n_duplicates:
            return ""
        if self.sample == TRAFFIC:
            return f"{repeats} others, and count: valid for rows drawn from traffic."
        near_duplicates = format_count(self.n_duplicates, "near-duplicate")
        return f"{near_duplicates} not counted: valid if copies of texts were made."


def compare(
    a: Any,
    b: Any,
    X: Any,
    y: Sequence,
    *,
    delta: float = 0.05,
    overlap: str | None = None,
    repeats: str | None = None,
    n_candidates: int = 1,
    random_state: Any = None,
) -> Comparison:
    """Bound the difference between the error rates of two classifiers.

    Neither may have been fitted on the texts. A set of labels must be exactly right.

    Parameters
    ----------
    a, b : classifier or callable
        Anything that has `predict`, or is a function from rows to labels.
    X : sequence, shape (n,)
        The texts, or rows of another kind.
    y : sequence, shape (n,)
        The right label, or set of labels, of each row.
    delta : float, default=0.05
        Probability that a limit is false.
    overlap : {"error", "drop"} or None, default=None
        What is done with rows that a classifier was fitted on, as for `certify`.
    repeats : {"traffic", "copies"} or None, default=None
        Why texts repeat, as for `certify_predictions`. If it is not known, the interval covers the
        difference for rows and that for distinct texts.
    n_candidates : int, default=1
        Comparisons on these texts, such as of one classifier with each of several: all of them hold
        together.
    random_state : int, RandomState, Generator or None, default=None
        Draws one text of each near-duplicate cluster; the seed is recorded.

    Returns
    -------
    Comparison

    References
    ----------
    Theorem 15 of docs/theory.md.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> a = TextClassifier(None).fit(texts, ["up", "down"] * 40)
    >>> b = TextClassifier(None).fit([text[::-1] for text in texts], ["up", "down"] * 40)
    >>> fresh = [f"{n} {word} films" for n in range(60) for word in ("good", "bad")]
    >>> comparison = compare(a, b, fresh, ["up", "down"] * 60)
    >>> comparison.difference_lower <= comparison.difference <= comparison.difference_upper
    True
    """
    delta = check_probability("delta", delta)
    seed = independence.as_seed(random_state)
    check_count("n_candidates", n_candidates)
    X = samples_for(a, X)
    y = materialize(y)
    check_repeats(repeats)

    # The rows that neither classifier was fitted on.
    labelled_rows = [
        exclude_training_overlap(classifier, X, y, overlap, repeats=repeats)
        for classifier in (a, b)
    ]
    rows = np.intersect1d(labelled_rows[0].rows, labelled_rows[1].rows)
    if not rows.size:
        raise ValueError("X must have texts that neither classifier was fitted on. Got none.")

    X = select_rows(X, rows)
    is_right = []  # (n_rows,) of each classifier
    for classifier, own_rows in zip((a, b), labelled_rows):
        labels = own_rows.labels.select(np.isin(own_rows.rows, rows))
        own_classes = getattr(classifier, "classes_", labels.classes)
        predictions = predict_any(classifier, own_classes, X).labels
        is_right.append(labels.is_correct(predictions))
    is_only_a_right = is_right[0] & ~is_right[1]
    is_only_b_right = is_right[1] & ~is_right[0]

    clusters = independence.dependent_clusters(X)
    counts = {}
    for name, sampled_rows in draw_samples(clusters, repeats, seed).items():
        counts[name] = {
            "n": sampled_rows.size,
            "only_a_right": int(is_only_a_right[sampled_rows].sum()),
            "only_b_right": int(is_only_b_right[sampled_rows].sum()),
        }
    (sample, own_counts), *others = counts.items()
    other_counts = others[0][1] if others else {}

    provenances = {own_rows.provenance for own_rows in labelled_rows}
    notes = sorted(note for note in provenances if note.startswith("not"))
    if not is_texts(text_column(X)):
        notes.append(independence.NOT_SEARCHED)

    return Comparison(
        **own_counts,
        delta=float(delta),
        n_duplicates=rows.size - np.unique(clusters).size,
        random_state=seed,
        provenance="; ".join(notes),
        repeats=repeats,
        sample=sample,
        other=other_counts,
        n_candidates=int(n_candidates),
    )
