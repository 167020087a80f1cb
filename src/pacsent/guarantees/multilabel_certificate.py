"""The certificate of predictions with several labels a text: errors and F1, all together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_groups
from pacsent.classify.multilabel import known_sets
from pacsent.guarantees.any_estimator import asked
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.held_out_certificate import HeldOutCertificate
from pacsent.guarantees.samples import as_samples
from pacsent.guarantees.splitting import as_seed, counted_rows, units_of
from pacsent.maths.binomial import lower_limit, upper_limit
from pacsent.maths.checks import check_count, check_probability, is_count
from pacsent.maths.ratios import ratio_at_least
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
    a ratio of two means over texts (`pacsent.maths.ratios.ratio_at_least`).

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
    label_bounds: dict
    label_f1_bounds: dict
    micro_f1_bound: float
    macro_f1_bound: float
    label_counts: dict
    matches: list

    def recompute(self) -> dict[str, Any]:
        return _bounds(self.label_counts, np.array(self.matches), self.delta_each)

    def _true(self, model, y, n):
        names = list(self.label_counts)
        classes = names if getattr(model, "classes_", None) is None else model.classes_
        return known_sets(classes, y, n, len(names))

    def _said(self, model, X, true):
        if isinstance(model, (list, tuple)) or not hasattr(model, "predict"):
            return self._true(None, model, len(true))
        return asked(model, X, model.classes_).labels

    def _counted(self, true, said, units, group_of):
        rows, found = counted_rows(len(true), units, group_of, self.seed or 0)
        counts, pairs = _counts(true[rows], said[rows])
        names = list(self.label_counts)
        found |= {"n": rows.size, "matches": pairs.tolist()}
        return found | {"label_counts": dict(zip(names, counts.tolist()))}

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
        return sum(one != all_ for one, all_ in self.matches)

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, for {self.of_what()} the labels are not exactly "
            f"right with a rate of at most {rounded_up(self.bound)}, the micro F1 is at least "
            f"{rounded_down(self.micro_f1_bound)} and the macro F1 at least "
            f"{rounded_down(self.macro_f1_bound)}, all together."
        )

    def rows(self) -> list[tuple[str, str]]:
        f1 = _f1(np.array(list(self.label_counts.values())))
        sums = np.array(self.matches).sum(axis=0)
        worst = sorted(self.label_f1_bounds, key=self.label_f1_bounds.get)  # type: ignore[arg-type]
        per_label = ", ".join(
            f"{name} {rounded_up(self.label_bounds[name])} / "
            f"{rounded_down(self.label_f1_bounds[name])}"
            for name in reversed(worst)
        )
        return [
            ("Measured", f"{self.n:,} texts, {self.n_errors:,} not exactly right, micro F1 "
             f"{2 * sums[0] / max(sums.sum(), 1):.4f}, macro F1 {f1.mean():.4f}."),
            ("Each label (error at most / F1 at least)", f"{per_label}."),
            *self.origin(),
        ]  # fmt: skip


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
        has, given, list(range(width)) if classes is None else list(classes),
        units=None if samples is None else units_of(samples, n_rows=n),
        group_of=as_groups(groups, n), delta=delta, n_candidates=n_candidates, seed=random_state,
        noted={"digests": digests(None, samples, has, given)},
    )  # fmt: skip


def multilabel_certificate(
    has: np.ndarray,
    given: np.ndarray,
    names: Sequence,
    *,
    units: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    seed: int | None = None,
    noted: dict[str, Any] | None = None,
) -> MultilabelCertificate:
    """The certificate of matrices of bool; `noted` are further fields, as of `error_certificate`.

    >>> right = np.tile([[True, False], [False, True]], (50, 1))
    >>> multilabel_certificate(right, right, ["joy", "love"], units=np.arange(100) // 2).n
    50
    """
    delta, n_candidates = (
        check_probability("delta", delta),
        check_count("n_candidates", n_candidates),
    )
    seed = as_seed(seed)
    rows, counted = counted_rows(len(has), units, group_of, seed)
    counts, pairs = _counts(has[rows], given[rows])
    label_counts = {str(name): row for name, row in zip(names, counts.tolist())}
    return MultilabelCertificate(
        **_bounds(label_counts, pairs, delta / n_candidates), **{**counted, **(noted or {})},
        delta=delta, n=rows.size, label_counts=label_counts, matches=pairs.tolist(), seed=seed,
        corrections={"candidates": n_candidates} if n_candidates > 1 else {},
    )  # fmt: skip


def _counts(has, given):
    """[right, given wrongly, missed] of each label; [right, given or right] of each text."""
    parts = (has & given, ~has & given, has & ~given)
    counts = np.stack([part.sum(axis=0) for part in parts], axis=1)
    return counts, np.stack([parts[0].sum(axis=1), (has | given).sum(axis=1)], axis=1)


def _bounds(label_counts, pairs, delta):
    k, n, share = len(label_counts), len(pairs), delta / 4
    errors, f1 = {}, {}
    for name, (right, false, missed) in label_counts.items():
        errors[name] = upper_limit(false + missed, n, share / k)
        union = right + false + missed
        jaccard = lower_limit(right, union, share / k) if union else 0.0
        f1[name] = _of_jaccard(max(jaccard, 0.0))
    n_errors = int((pairs[:, 0] != pairs[:, 1]).sum())
    return {
        "bound": upper_limit(n_errors, n, share),
        "label_bounds": errors,
        "label_f1_bounds": f1,
        "micro_f1_bound": _of_jaccard(ratio_at_least(pairs[:, 0], pairs[:, 1], k, share)),
        "macro_f1_bound": float(np.mean(list(f1.values()))),
    }


def _of_jaccard(jaccard):
    return 2 * jaccard / (1 + jaccard)


def _f1(counts):
    """F1 of each label from [right, given wrongly, missed]; 0 where it occurs nowhere."""
    right, false, missed = counts.T
    return 2 * right / np.maximum(2 * right + false + missed, 1)


def _are_counts(values, n) -> bool:
    return isinstance(values, list | tuple) and len(values) == n and all(map(is_count, values))
