"""Numbers as text: an upper bound is rounded up and a lower bound down, never to nearest."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(float(value))

    # the shortest decimal of the float: 28.71 does not move although its float lies above it
    shortest = Decimal(repr(float(value)))
    last_digit = Decimal(1).scaleb(-digits)
    return str(shortest.quantize(last_digit, direction))


def rounded_up(value: float, digits: int = 4) -> str:
    """The smallest decimal number with `digits` digits after the point that is >= `value`."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """The largest decimal number with `digits` digits after the point that is <= `value`."""
    return _rounded(value, digits, ROUND_FLOOR)


def interval(limits: list[float]) -> str:
    """Both limits, rounded outwards."""
    return f"{rounded_down(limits[0])} to {rounded_up(limits[1])}"


def percent(value: float, digits: int = 2) -> str:
    """A proportion in per cent, rounded up."""
    exact = Decimal(repr(float(value))) * 100
    last_digit = Decimal(1).scaleb(-digits)
    return f"{exact.quantize(last_digit, ROUND_CEILING)}%"


def format_count(n: int, noun: str, plural: str = "") -> str:
    """A count with its noun: 1 text, 2 texts, 1 class, 2 classes."""
    if n == 1:
        return f"{n:,} {noun}"
    return f"{n:,} {plural or noun + 's'}"
