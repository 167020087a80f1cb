"""The certificate of multi-label predictions: errors and F1, all together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.bounds.binomial import lower_limit, upper_limit
from pacsent.bounds.checks import are_counts
from pacsent.bounds.delta import divide_delta
from pacsent.bounds.means import ratio_at_least
from pacsent.bounds.rounding import rounded_down, rounded_up
from pacsent.certify.error_certificate import HeldOutCertificate
from pacsent.certify.independence import Draws
from pacsent.certify.labels import to_indicator
from pacsent.certify.repeats import NEW_TEXTS
from pacsent.certify.samples import are_predictions, predict_any


@dataclass(frozen=True, kw_only=True)
class MultilabelCertificate(HeldOutCertificate):
    """Bounds on errors and F1 of multi-label predictions, which hold together.

    Attributes
    ----------
    error_upper : float
        Upper bound on the fraction of texts whose set of labels is not exactly right.
    label_error_upper : dict
        Upper bound on the error rate of each label.
    label_f1_lower : dict
        Lower bound on the F1 of each label.
    micro_f1_lower, macro_f1_lower : float
        Lower bounds; the macro F1 is the mean of the F1 of all labels.
    label_counts : dict
        Of each label: [right, given wrongly, missed].
    matches : list
        Of each text, in the order drawn by the seed: [labels that are right, labels that are given
        or right].
    scope, n_groups, random_state, calibration_size, digests : see `HeldOutCertificate`

    A quarter of delta each is for the exact match, for the labels' errors, for their F1 (Theorem 20
    of docs/theory.md) and for the micro F1 (Theorem 21).

    Examples
    --------
    >>> from pacsent.certify import certify_predictions
    >>> right = np.tile([[1, 0], [0, 1], [1, 1]], (50, 1))
    >>> certificate = certify_predictions(right, right, classes=["joy", "love"])
    >>> certificate.error_upper < 0.03, certificate.micro_f1_lower > 0.95
    (True, True)
    """

    kind: ClassVar[str] = "multilabel"
    counted: ClassVar[tuple[str, ...]] = ("n", "n_duplicates", "label_counts", "matches")

    label_counts: dict
    matches: list
    label_error_upper: dict = field(default_factory=dict)
    label_f1_lower: dict = field(default_factory=dict)
    micro_f1_lower: float = 0.0
    macro_f1_lower: float = 0.0

    @property
    def n_errors(self) -> int:
        """Texts whose set is not exactly right."""
        return sum(right != union for right, union in self.matches)

    @property
    def observed(self) -> float:
        return self.n_errors / self.n

    def _bounds(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        delta = divide_delta(self.delta_each, 4)
        label_counts, n = parts["label_counts"], parts["n"]
        each = divide_delta(delta, len(label_counts))
        errors, jaccard = {}, {}
        for name, (right, false, missed) in label_counts.items():
            errors[name] = upper_limit(false + missed, n, each)
            union = right + false + missed
            jaccard[name] = max(lower_limit(right, union, each), 0.0) if union else 0.0
        f1 = {name: 2 * j / (1 + j) for name, j in jaccard.items()}
        right, union = np.array(parts["matches"]).T
        n_errors = int((right != union).sum())
        observed = right.sum() / max(1, union.sum())
        micro = min(ratio_at_least(right, union, len(label_counts), delta), float(observed))
        return {
            "error_upper": upper_limit(n_errors, n, delta),
            "label_error_upper": errors,
            "label_f1_lower": f1,
            "micro_f1_lower": 2 * micro / (1 + micro),
            "macro_f1_lower": float(np.mean(list(f1.values()))),
        }

    @staticmethod
    def count(*counted: Any, **options: Any) -> dict[str, Any]:
        return count_matches(*counted, **options)

    def _labels(self, model, y, n):
        names = list(self.label_counts)
        classes = names if getattr(model, "classes_", None) is None else model.classes_
        return to_indicator(classes, y, n, len(names))

    def _predictions(self, model, X, labels):
        if are_predictions(model):
            return self._labels(None, model, len(labels))
        return predict_any(model, model.classes_, X).labels

    def _measure(self, labels, predictions, draws, sample):
        return self.count(labels, predictions, draws, sample, names=self.label_counts)

    def _check(self) -> None:
        super()._check()
        counts, pairs = list(self.label_counts.values()), self.matches
        for name, rows, width in (("label_counts", counts, 3), ("matches", pairs, 2)):
            if not rows or not all(are_counts(row, width) for row in rows):
                self._refuse(name, f"{width} counts in each row")
        if any(sum(row) > self.n for row in counts):
            self._refuse("label_counts", f"at most {self.n} texts for each label")
        totals = [sum(row[0] for row in counts), sum(map(sum, counts))]
        if (
            len(pairs) != self.n
            or any(not right <= union <= len(counts) for right, union in pairs)
            or totals != [sum(right for right, _ in pairs), sum(union for _, union in pairs)]
        ):
            self._refuse("matches", "pairs for each text that add up to label_counts")

    def summary(self) -> str:
        new_texts = {
            "texts": NEW_TEXTS[self.repeats].rstrip(","),
            "groups": "texts of new groups, one from each,",
            "same groups": f"new texts of the same {self.n_groups:,} groups (NOT of new groups: "
            "there are too few to hold any out)",
        }[self.scope]
        return (
            f"With {self.confidence} confidence, for {new_texts} the labels are not exactly right "
            f"with a rate of at most {rounded_up(self.error_upper)}, the micro F1 is at least "
            f"{rounded_down(self.micro_f1_lower)} and the macro F1 at least "
            f"{rounded_down(self.macro_f1_lower)}, all together."
            f"{self.describe_repeats()}{self.describe_search()}"
        )

    def measurements(self) -> list[tuple[str, str]]:
        right, false, missed = np.array(list(self.label_counts.values())).T
        f1 = 2 * right / np.maximum(2 * right + false + missed, 1)  # 0 for one that occurs nowhere
        n_right, n_union = np.array(self.matches).sum(axis=0)
        measured = (
            f"{self.n:,} texts, {self.n_errors:,} not exactly right, micro F1 "
            f"{2 * n_right / max(n_right + n_union, 1):.4f}, macro F1 {f1.mean():.4f}."
        )
        best_first = sorted(self.label_f1_lower.items(), key=lambda item: -item[1])
        bounds = ", ".join(
            f"{name} {rounded_up(self.label_error_upper[name])} / {rounded_down(bound)}"
            for name, bound in best_first
        )
        return [("Measured", measured), ("Each label (error at most / F1 at least)", f"{bounds}.")]


def count_matches(
    has: Any, assigned: Any, draws: Draws, sample: str, *, names: Any, seed: Any = None
) -> dict[str, Any]:
    """[right, given wrongly, missed] of each label; [right, given or right] of each text."""
    rows, parts = draws.samples[sample], draws.parts(sample)
    has, assigned = has[rows], assigned[rows]
    errors = (has & assigned, ~has & assigned, has & ~assigned)
    counts = np.stack([mask.sum(axis=0) for mask in errors], axis=1)
    matches = np.stack([errors[0].sum(axis=1), (has | assigned).sum(axis=1)], axis=1)
    return parts | {
        "label_counts": {str(name): row for name, row in zip(names, counts.tolist())},
        "matches": matches.tolist(),
    }
