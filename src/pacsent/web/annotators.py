"""Agreement of annotators."""

from collections import Counter
from collections.abc import Mapping
from typing import Any


def agreement(answers: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Krippendorff's alpha from {text: {annotator: label}}; None if no text has two labels.

    alpha = 1 - observed / expected disagreement over the pairs of labels of a text (nominal
    labels; Krippendorff 2011, "Computing Krippendorff's alpha-reliability"). It is None if all
    labels are the same, so that chance explains everything.

    Examples
    --------
    >>> result = agreement({0: {"ann": "a", "ben": "a"}, 1: {"ann": "b", "ben": "b"}, 2: {}})
    >>> result["value"], result["texts"]
    (1.0, 2)
    """
    shared = [labels for labels in answers.values() if len(labels) > 1]
    if not shared:
        return None
    counters = [Counter(labels.values()) for labels in shared]
    totals: Counter = sum(counters, Counter())
    n = totals.total()
    expected = n**2 - sum(count**2 for count in totals.values())
    observed = sum(
        (counts.total() ** 2 - sum(count**2 for count in counts.values())) / (counts.total() - 1)
        for counts in counters
    )
    return {
        "measure": "Krippendorff's alpha",
        "value": 1 - (n - 1) * observed / expected if expected else None,
        "texts": len(shared),
        "same": sum(len(counts) == 1 for counts in counters),
        "annotators": sorted({annotator for labels in shared for annotator in labels}),
    }
