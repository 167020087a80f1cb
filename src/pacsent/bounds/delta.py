"""The one place where delta is divided among statements that are to hold together."""

from decimal import ROUND_FLOOR, Decimal


def divide_delta(delta: float, *n_alternatives: int, fraction: float = 1.0) -> float:
    """Part of `fraction` of delta that one of several statements has, by the union bound.

        fraction delta / (n_1 n_2 ...)

    Statements that hold with probability 1 - delta_i each hold together with probability
    1 - sum of delta_i. So does the one that is chosen among them by looking at the data.

    Parameters
    ----------
    delta : float
        Probability that any of the statements is false.
    *n_alternatives : int
        Numbers of alternatives that are chosen from, one for each choice.
    fraction : float, default=1.0
        Fraction of delta that these statements have together.

    Returns
    -------
    float

    References
    ----------
    Theorem 11 (choices) of docs/theory.md.

    Examples
    --------
    >>> divide_delta(0.05, 5), divide_delta(0.1, 2, 5, fraction=0.5)
    (0.01, 0.005)
    """
    for n in n_alternatives:
        delta /= n
    return fraction * delta


def confidence(delta: float) -> str:
    """1 - delta in per cent, rounded down.

    >>> confidence(0.05), confidence(0.05 / 3), confidence(0.0529)
    ('95%', '98.33%', '94.71%')
    """
    percent = 100 * (1 - Decimal(repr(float(delta))))
    return f"{percent.quantize(Decimal('0.01'), ROUND_FLOOR).normalize():f}%"
