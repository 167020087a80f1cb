"""The remark that zero-one models are more stable: how far apart the rows of a family lie."""

from collections.abc import Mapping
from typing import NamedTuple

FAMILIES: dict[str, tuple[str, ...]] = {
    "heuristics": (
        "Average-0",
        "Average-1",
        "IDF-Average-0",
        "IDF-Average-1",
        "i-Average-0",
        "i-IDF-Average-0",
    ),
    "squared loss": ("PB-L2", "PB-IDF-L2", "i-PB-L2", "i-PB-IDF-L2"),
    "zero-one loss": ("PB-neg", "w-PB-neg", "i-PB-neg", "i-w-PB-neg"),
}


class Spread(NamedTuple):
    """Lowest and highest accuracy of a family, and what lies between."""

    lowest: float
    highest: float
    spread: float


def family_spreads(accuracies: Mapping[str, float]) -> dict[str, Spread]:
    """Return how far apart the accuracies of heuristics, squared loss and zero-one loss are.

    Parameters
    ----------
    accuracies : mapping of row name to accuracy
        The fourteen rows of the paper's table on one dataset.

    Returns
    -------
    dict of family name to Spread

    Examples
    --------
    >>> from pacsent.paper.method_rows import ROWS
    >>> on_20news = {name: row.paper[0] for name, row in ROWS.items() if row.in_paper}
    >>> {family: round(s.spread, 3) for family, s in family_spreads(on_20news).items()}
    {'heuristics': 0.017, 'squared loss': 0.018, 'zero-one loss': 0.004}
    """
    spreads = {}
    for family, rows in FAMILIES.items():
        values = [accuracies[row] for row in rows]
        lowest = min(values)
        highest = max(values)
        spreads[family] = Spread(lowest, highest, highest - lowest)
    return spreads
