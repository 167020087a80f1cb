"""The certificate of multi-label predictions: errors and F1, all together."""

from collections.abc import Iterable, Mapping
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

_EACH_LABEL = "Each label (error at most / F1 at least)"  # title of the bounds of labels


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
        label_counts = parts["label_counts"]
        n = parts["n"]
        n_labels = len(label_counts)
        # a quarter each: the exact match, the labels' errors, their F1 and the micro F1
        delta = divide_delta(self.delta_each, 4)
        delta_of_label = divide_delta(delta, n_labels)

        # With J = right / (right + false + missed), the Jaccard index, F1 = 2 J / (1 + J).
        label_error_upper = {}
        label_f1_lower = {}
        for name, (n_right, n_false, n_missed) in label_counts.items():
            label_error_upper[name] = upper_limit(n_false + n_missed, n, delta_of_label)
            n_union = n_right + n_false + n_missed
            jaccard = 0.0
            if n_union:
                jaccard = max(lower_limit(n_right, n_union, delta_of_label), 0.0)
            label_f1_lower[name] = 2 * jaccard / (1 + jaccard)

        right, union = np.array(parts["matches"]).T  # (n,) each, numbers of labels
        n_errors = int((right != union).sum())
        observed_jaccard = float(right.sum() / max(1, union.sum()))
        jaccard_lower = ratio_at_least(right, union, n_labels, delta)
        micro_jaccard = min(jaccard_lower, observed_jaccard)
        return {
            "error_upper": upper_limit(n_errors, n, delta),
            "label_error_upper": label_error_upper,
            "label_f1_lower": label_f1_lower,
            "micro_f1_lower": 2 * micro_jaccard / (1 + micro_jaccard),
            "macro_f1_lower": float(np.mean(list(label_f1_lower.values()))),
        }

    @staticmethod
    def count(*counted: Any, **options: Any) -> dict[str, Any]:
        """Count texts and errors, in total, by label and by group.

        Parameters
        ----------
        *counted, **options
            As `count_matches` takes them.

        Returns
        -------
        dict
            Fields of the certificate that its bounds are computed from.
        """
        return count_matches(*counted, **options)

    def _labels(self, model: Any, y: Any, n: int) -> np.ndarray:
        classes = getattr(model, "classes_", None)
        names = list(self.label_counts)
        if classes is None:
            classes = names
        return to_indicator(classes, y, n, len(names))

    def _predictions(self, model: Any, X: Any, labels: np.ndarray) -> np.ndarray:
        if are_predictions(model):
            return self._labels(None, model, len(labels))
        return predict_any(model, model.classes_, X).labels

    def _measure(
        self, labels: np.ndarray, predictions: np.ndarray, draws: Draws, sample: str
    ) -> dict[str, Any]:
        return self.count(labels, predictions, draws, sample, names=self.label_counts)

    def _check(self) -> None:
        super()._check()
        label_rows = list(self.label_counts.values())
        if not _are_count_rows(label_rows, 3):
            self._refuse("label_counts", "3 counts in each row")
        if not _are_count_rows(self.matches, 2):
            self._refuse("matches", "2 counts in each row")
        if any(sum(row) > self.n for row in label_rows):
            self._refuse("label_counts", f"at most {self.n} texts for each label")

        n_labels = len(label_rows)
        are_possible = all(right <= union <= n_labels for right, union in self.matches)
        n_right = sum(right for right, _, _ in label_rows)
        n_union = sum(sum(row) for row in label_rows)
        n_right_of_texts = sum(right for right, _ in self.matches)
        n_union_of_texts = sum(union for _, union in self.matches)
        add_up = n_right == n_right_of_texts and n_union == n_union_of_texts
        if len(self.matches) != self.n or not are_possible or not add_up:
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
        right, false, missed = np.array(list(self.label_counts.values())).T  # (n_labels,) each
        label_f1 = 2 * right / np.maximum(2 * right + false + missed, 1)  # 0 if it occurs nowhere
        n_right, n_union = np.array(self.matches).sum(axis=0)
        micro_f1 = 2 * n_right / max(n_right + n_union, 1)
        measured = (
            f"{self.n:,} texts, {self.n_errors:,} not exactly right, micro F1 {micro_f1:.4f}, "
            f"macro F1 {label_f1.mean():.4f}."
        )

        bounds = [f"{name} {error} / {f1}" for name, error, f1 in self._label_bounds()]
        return [("Measured", measured), (_EACH_LABEL, f"{', '.join(bounds)}.")]

    def _label_bounds(self) -> list[tuple[str, str, str]]:
        """Each label with the bounds of its error and its F1, the largest F1 first."""
        best_first = sorted(self.label_f1_lower.items(), key=lambda item: -item[1])
        bounds = []
        for name, f1_lower in best_first:
            error = rounded_up(self.label_error_upper[name])
            bounds.append((name, error, rounded_down(f1_lower)))
        return bounds

    def _tables(self) -> dict[str, list[tuple[str, ...]]]:
        return {_EACH_LABEL: [("label", "error at most", "F1 at least"), *self._label_bounds()]}


def count_matches(
    has: np.ndarray,
    assigned: np.ndarray,
    draws: Draws,
    sample: str,
    *,
    names: Iterable,
    seed: Any = None,
) -> dict[str, Any]:
    """[right, given wrongly, missed] of each label; [right, given or right] of each text.

    Parameters
    ----------
    has, assigned : array of bool, (n_rows, n_labels)
        The labels that are right, and those that are given.
    draws : Draws
    sample : str
        The name of a sample of `draws`, whose rows are counted.
    names : iterable
        The label of each column.
    seed : optional
        Ignored: the counts have no order of their own.

    Returns
    -------
    dict
        Fields of `MultilabelCertificate`.
    """
    rows = draws.samples[sample]
    is_label = has[rows]  # (n, n_labels)
    is_given = assigned[rows]  # (n, n_labels)
    is_right = is_label & is_given
    is_false = is_given & ~is_label
    is_missed = is_label & ~is_given

    masks = (is_right, is_false, is_missed)
    counts = np.stack([mask.sum(axis=0) for mask in masks], axis=1)  # (n_labels, 3)
    n_union = (is_label | is_given).sum(axis=1)
    matches = np.stack([is_right.sum(axis=1), n_union], axis=1)  # (n, 2)
    return draws.parts(sample) | {
        "label_counts": {str(name): row for name, row in zip(names, counts.tolist())},
        "matches": matches.tolist(),
    }


def _are_count_rows(rows: list, width: int) -> bool:
    """Test for at least one row, all of them of this many counts."""
    return bool(rows) and all(are_counts(row, width) for row in rows)
