"""The certificate of predictions with several labels a text: errors and F1, all together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_groups
from pacsent.classify.multilabel import known_sets
from pacsent.guarantees.delta import divide_delta
from pacsent.guarantees.error_certificate import candidates
from pacsent.guarantees.estimators import are_predictions, predict_any
from pacsent.guarantees.held_out_certificate import HeldOutCertificate
from pacsent.guarantees.independence import as_seed, dependent_clusters, independent_rows
from pacsent.guarantees.samples import as_samples, digests
from pacsent.maths.binomial import lower_limit, upper_limit
from pacsent.maths.checks import check_probability, is_count
from pacsent.maths.means import ratio_at_least
from pacsent.maths.rounding import rounded_down, rounded_up


@dataclass(frozen=True, kw_only=True)
class MultilabelCertificate(HeldOutCertificate):
    """Bounds on the errors and on F1 of label sets, which hold together with probability 1 - delta.

    Attributes
    ----------
    bound : float
        Upper bound on the share of texts whose set of labels is not exactly right.
    label_bounds : dict
        Upper bound on the error rate of each label.
    label_f1_bounds : dict
        Lower bound on the F1 of each label.
    micro_f1_bound, macro_f1_bound : float
        Lower bounds; the macro F1 is the mean of the F1 of all labels.
    label_counts : dict
        Of each label: [right, given wrongly, missed].
    matches : list
        Of each text, in order: [labels that are right, labels that are given or right].
    scope, n_groups, seed, holdout, digests : see `HeldOutCertificate`

    Notes
    -----
    A quarter of delta each is for the exact match, for the labels' errors, for their F1 and for
    the micro F1. Among the texts that are given a label or have it, whether they have both is
    Bernoulli with chance J, so that Clopper-Pearson bounds J, and F1 = 2 J / (1 + J). Micro: J is
    a ratio of two means over texts (`pacsent.maths.means.ratio_at_least`).

    Examples
    --------
    >>> right = np.tile([[1, 0], [0, 1], [1, 1]], (50, 1))
    >>> certificate = certify_multilabel(right, right, classes=["joy", "love"])
    >>> certificate.bound < 0.03, certificate.micro_f1_bound > 0.95, bool(certificate.verify())
    (True, True, True)
    """

    kind: ClassVar[str] = "multilabel"
    assumption: ClassVar[str] = (
        "these texts and new texts are drawn independently from one distribution, and the "
        "predictions come from a rule that was neither fitted nor chosen on these texts, except "
        "for the choices listed under corrections."
    )

    label_counts: dict
    matches: list
    label_bounds: dict = field(default_factory=dict)
    label_f1_bounds: dict = field(default_factory=dict)
    micro_f1_bound: float = 0.0
    macro_f1_bound: float = 0.0

    def recompute(self) -> dict[str, Any]:
        pairs, n_labels = np.array(self.matches), len(self.label_counts)
        # a quarter each for the exact match, the labels' errors, their F1 and the micro F1
        delta = divide_delta(self.delta_each, 4)
        each = divide_delta(delta, n_labels)
        errors, f1 = {}, {}
        for name, (right, false, missed) in self.label_counts.items():
            errors[name] = upper_limit(false + missed, self.n, each)
            union = right + false + missed
            jaccard = lower_limit(right, union, each) if union else 0.0
            f1[name] = _f1_of_jaccard(max(jaccard, 0.0))
        jaccard = ratio_at_least(pairs[:, 0], pairs[:, 1], n_labels, delta)
        return {
            "bound": upper_limit(self.n_errors, self.n, delta),
            "label_bounds": errors,
            "label_f1_bounds": f1,
            "micro_f1_bound": _f1_of_jaccard(jaccard),
            "macro_f1_bound": float(np.mean(list(f1.values()))),
        }

    def _labels(self, model, y, n):
        names = list(self.label_counts)
        classes = names if getattr(model, "classes_", None) is None else model.classes_
        return known_sets(classes, y, n, len(names))

    def _predictions(self, model, X, labels):
        if are_predictions(model):
            return self._labels(None, model, len(labels))
        return predict_any(model, model.classes_, X).labels

    def _measure(self, labels, predictions, clusters, group_of):
        rows, parts = independent_rows(len(labels), clusters, group_of, self.seed or 0)
        return parts | _count_matches(labels[rows], predictions[rows], self.label_counts)

    def _check(self) -> None:
        super()._check()
        counts, pairs = list(self.label_counts.values()), self.matches
        if not counts or not all(_are_counts(c, 3) and sum(c) <= self.n for c in counts):
            self._refuse("label_counts", "[right, given wrongly, missed] for each label")
        if len(pairs) != self.n or not all(
            _are_counts(p, 2) and p[0] <= p[1] <= len(counts) for p in pairs
        ):
            self._refuse("matches", "[right, given or right] for each text")
        totals = [sum(c[0] for c in counts), sum(sum(c) for c in counts)]
        if totals != [sum(p[0] for p in pairs), sum(p[1] for p in pairs)]:
            self._refuse("matches", "pairs that add up to label_counts")

    @property
    def observed(self) -> float:
        return self.n_errors / self.n

    @property
    def n_errors(self) -> int:
        """Texts whose set is not exactly right."""
        return sum(right != union for right, union in self.matches)

    def sentence(self) -> str:
        new_texts = {
            "texts": "new texts",
            "groups": "texts of new groups, one from each,",
            "same groups": f"new texts of the same {self.n_groups:,} groups (NOT of new groups: "
            "there are too few to hold any out)",
        }[self.scope]
        return (
            f"With {self.confidence} confidence, for {new_texts} the labels are not exactly "
            f"right with a rate of at most {rounded_up(self.bound)}, the micro F1 is at least "
            f"{rounded_down(self.micro_f1_bound)} and the macro F1 at least "
            f"{rounded_down(self.macro_f1_bound)}, all together."
        )

    def details(self) -> list[tuple[str, str]]:
        right, false, missed = np.array(list(self.label_counts.values())).T
        f1 = 2 * right / np.maximum(2 * right + false + missed, 1)  # 0 for one that occurs nowhere
        sums = np.array(self.matches).sum(axis=0)
        worst = sorted(self.label_f1_bounds, key=self.label_f1_bounds.get)  # type: ignore[arg-type]
        per_label = ", ".join(
            f"{name} {rounded_up(self.label_bounds[name])} / "
            f"{rounded_down(self.label_f1_bounds[name])}"
            for name in reversed(worst)
        )
        micro_f1 = 2 * sums[0] / max(sums.sum(), 1)
        measured = (
            f"{self.n:,} texts, {self.n_errors:,} not exactly right, micro F1 {micro_f1:.4f}, "
            f"macro F1 {f1.mean():.4f}."
        )
        return [
            ("Measured", measured),
            ("Each label (error at most / F1 at least)", f"{per_label}."),
        ]


def certify_multilabel(
    labels: Any,
    predictions: Any,
    *,
    classes: Any = None,
    texts: Any = None,
    groups: Sequence | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: int | None = None,
) -> MultilabelCertificate:
    """Bound the errors and the F1 of anybody's predictions with several labels a text.

    Parameters
    ----------
    labels, predictions : sets of labels, or indicator matrices, one for each text
    classes : array, optional
        All labels, for sets: those that occur nowhere count in the macro F1 as well.
    texts, groups : optional
        One text of those that repeat each other, and one of each group, is counted, drawn at
        random: see `certify_predictions`.
    delta : float
        Probability that any of the bounds is wrong.
    n_candidates : int
        How many rules were compared on these texts before this one was kept.
    random_state : int or None
        Seed of what is counted. None draws one; it is recorded.

    Examples
    --------
    >>> labels = [{"joy"}, {"joy", "love"}, {"love"}, set()] * 50
    >>> certify_multilabel(labels, labels, classes=["joy", "love"]).n_errors
    0
    """
    n = labels.shape[0] if hasattr(labels, "shape") else len(labels)
    if not n:
        raise ValueError("labels must be of at least one text. Got none instead.")
    if classes is None and hasattr(labels, "columns"):
        classes = list(labels.columns)
    width = labels.shape[1] if getattr(labels, "ndim", 1) == 2 else 0
    width = len(classes) if classes is not None else width
    has, given = (known_sets(classes, one, n, width) for one in (labels, predictions))
    samples = None if texts is None else as_samples(texts)
    return multilabel_certificate(
        has,
        given,
        list(range(width)) if classes is None else list(classes),
        clusters=None if samples is None else dependent_clusters(samples, n_rows=n),
        group_of=as_groups(groups, n),
        delta=delta,
        n_candidates=n_candidates,
        seed=random_state,
        fields={"digests": digests(None, samples, has, given)},
    )


def multilabel_certificate(
    has: np.ndarray,
    given: np.ndarray,
    names: Sequence,
    *,
    clusters: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    seed: int | None = None,
    fields: dict[str, Any] | None = None,
) -> MultilabelCertificate:
    """The certificate of matrices of bool; `fields` are further ones, as of `error_certificate`."""
    seed = as_seed(seed)
    rows, parts = independent_rows(len(has), clusters, group_of, seed)
    parts |= _count_matches(has[rows], given[rows], names)
    return MultilabelCertificate.from_parts(
        **{**parts, **(fields or {})},
        delta=check_probability("delta", delta),
        seed=seed,
        corrections=candidates(n_candidates),
    )


def _count_matches(has, given, names) -> dict[str, Any]:
    """[right, given wrongly, missed] of each label; [right, given or right] of each text."""
    right, false, missed = has & given, ~has & given, has & ~given
    counts = np.stack([part.sum(axis=0) for part in (right, false, missed)], axis=1)
    matches = np.stack([right.sum(axis=1), (has | given).sum(axis=1)], axis=1)
    return {
        "label_counts": {str(name): row for name, row in zip(names, counts.tolist())},
        "matches": matches.tolist(),
    }


def _f1_of_jaccard(jaccard: float) -> float:
    return 2 * jaccard / (1 + jaccard)


def _are_counts(values, n) -> bool:
    return isinstance(values, list | tuple) and len(values) == n and all(map(is_count, values))
