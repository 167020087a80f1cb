"""Printing bounds: an upper bound is rounded up and a lower bound down, never to nearest."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def _rounded(value, digits, direction) -> str:
    if not math.isfinite(value):
        return str(float(value))
    # the shortest decimal of the float: 28.71 does not move although its float lies above it
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), direction))


def rounded_up(value: float, digits: int = 4) -> str:
    """The smallest decimal number with `digits` digits after the point that is >= `value`.

    >>> rounded_up(0.25001), rounded_up(0.25), rounded_up(28.7101, 2)
    ('0.2501', '0.2500', '28.72')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """The largest decimal number with `digits` digits after the point that is <= `value`.

    >>> rounded_down(0.25009), rounded_down(-0.25001)
    ('0.2500', '-0.2501')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def percent(value: float, digits: int = 2) -> str:
    """A proportion in per cent, rounded up.

    >>> percent(0.28711), percent(0.07)
    ('28.72 %', '7.00 %')
    """
    exact = Decimal(repr(float(value))) * 100
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)} %"
