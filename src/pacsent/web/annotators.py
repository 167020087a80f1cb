"""Agreement of annotators: Cohen's kappa for two, Krippendorff's alpha for more."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.metrics import cohen_kappa_score


def krippendorff_alpha(labels: Iterable[Iterable]) -> float | None:
    """1 - observed / expected disagreement over the pairs of labels of a text (nominal labels).

    Krippendorff (2011), "Computing Krippendorff's alpha-reliability". Texts with one label do not
    count. None if there is nothing to compare.
    """
    counters = [counts for counts in map(Counter, labels) if counts.total() > 1]
    totals: Counter = sum(counters, Counter())
    n = totals.total()
    expected = n**2 - sum(count**2 for count in totals.values())
    if not expected:
        return None
    observed = sum(
        (counts.total() ** 2 - sum(count**2 for count in counts.values())) / (counts.total() - 1)
        for counts in counters
    )
    return 1 - (n - 1) * observed / expected


def agreement(answers: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Agreement from {text: {annotator: label}}; None if no text has two labels.

    Examples
    --------
    >>> result = agreement({0: {"ann": "a", "ben": "a"}, 1: {"ann": "b", "ben": "b"}, 2: {}})
    >>> result["measure"], result["value"], result["texts"]
    ("Cohen's kappa", 1.0, 2)
    """
    shared = [labels for labels in answers.values() if len(labels) > 1]
    if not shared:
        return None
    people = sorted({annotator for labels in shared for annotator in labels})
    classes = {label for labels in shared for label in labels.values()}
    value: float | None = None  # not defined if all labels are the same
    if len(people) == 2:
        measure = "Cohen's kappa"
        if len(classes) > 1:
            columns = [[str(labels[annotator]) for labels in shared] for annotator in people]
            value = float(cohen_kappa_score(*columns))
    else:
        measure, value = "Krippendorff's alpha", krippendorff_alpha(s.values() for s in shared)
    n_same = sum(len(set(labels.values())) == 1 for labels in shared)
    result = {"measure": measure, "value": value, "texts": len(shared)}
    return result | {"same": n_same, "annotators": people}
