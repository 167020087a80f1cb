"""How far annotators agree: Cohen's kappa for two, Krippendorff's alpha for any number."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def cohen_kappa(first: Iterable, second: Iterable) -> float | None:
    """Agreement of two annotators beyond chance; None where chance explains everything.

    Examples
    --------
    >>> round(cohen_kappa("aabb", "aaba"), 3)
    0.5
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        return None
    n = len(pairs)
    same = sum(a == b for a, b in pairs) / n
    left, right = (Counter(column) for column in zip(*pairs))
    chance = sum(left[c] * right[c] for c in left) / n**2
    return None if chance == 1 else (same - chance) / (1 - chance)


def krippendorff_alpha(answers: Iterable[Iterable]) -> float | None:
    """Agreement of any number of annotators on nominal labels; one list of labels for each text.

    1 - observed / expected disagreement, over the pairs of labels of a text. Texts with one label
    do not count. None where there is nothing to compare.

    Examples
    --------
    >>> round(krippendorff_alpha([["a", "a"], ["b", "b"], ["a", "b"], ["b", "b", "b"]]), 3)
    0.556
    """
    compared = [Counter(some) for each in answers if len(some := list(each)) > 1]
    totals: Counter = sum(compared, Counter())
    n = sum(totals.values())
    expected = n**2 - sum(count**2 for count in totals.values())
    if not expected:
        return None
    observed = 0.0
    for counts in compared:
        m = sum(counts.values())
        observed += (m**2 - sum(count**2 for count in counts.values())) / (m - 1)
    return 1 - (n - 1) * observed / expected


def agreement(answers: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Agreement from {text: {annotator: label}}; None where no text has two labels.

    Examples
    --------
    >>> found = agreement({0: {"ann": "a", "ben": "a"}, 1: {"ann": "b", "ben": "b"}, 2: {}})
    >>> found["measure"], found["value"], found["texts"]
    ("Cohen's kappa", 1.0, 2)
    """
    both = [some for some in answers.values() if len(some) > 1]
    people = sorted({who for some in both for who in some})
    if not both:
        return None
    if len(people) == 2:
        measure, value = "Cohen's kappa", cohen_kappa(*([s[who] for s in both] for who in people))
    else:
        measure, value = "Krippendorff's alpha", krippendorff_alpha(s.values() for s in both)
    same = sum(len(set(some.values())) == 1 for some in both)
    return {"measure": measure, "value": value, "texts": len(both), "same": same,
            "annotators": people}  # fmt: skip
