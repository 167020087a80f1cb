"""Bounds in print: upper bounds are rounded up, everywhere."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import pacsent
from pacsent.bounds.rounding import format_count, interval, percent, rounded_down, rounded_up

# a replacement field that names a bound and has a format of its own: {found.error_upper:.4f}
PLAIN = re.compile(r"\{[^{}]*(bound|promised|guarante|upper|lower)[^{}()]*:[^{}'\" ]*\.\d+[fge%]\}")


@pytest.fixture
def values():
    """Numbers between 0 and 1 with all digits of a double."""
    return np.random.default_rng(0).random(300).tolist()


def test_rounded_numbers_enclose_the_value(values):
    for value in values:
        exact = Decimal(repr(value))

        assert Decimal(rounded_down(value)) <= exact <= Decimal(rounded_up(value))


def test_rounded_numbers_are_at_most_one_digit_apart(values):
    for value in values:
        width = float(rounded_up(value)) - float(rounded_down(value))

        assert width < 1.001e-4


def test_a_proportion_in_per_cent_is_rounded_up(values):
    for value in values:
        shown = Decimal(percent(value).rstrip("%"))

        assert shown >= 100 * Decimal(repr(value))


def test_a_proportion_in_per_cent_is_rounded_by_less_than_its_last_digit(values):
    for value in values:
        shown = Decimal(percent(value).rstrip("%"))

        assert shown - 100 * Decimal(repr(value)) < Decimal("0.01")


def test_both_limits_of_an_interval_are_rounded_outwards():
    assert interval([0.12341, 0.56781]) == "0.1234 to 0.5679"


@pytest.mark.parametrize(
    ("n", "shown"), [(0, "0 texts"), (1, "1 text"), (2, "2 texts"), (1200, "1,200 texts")]
)
def test_a_count_stands_with_its_noun(n, shown):
    assert format_count(n, "text") == shown


def test_a_count_stands_with_an_irregular_plural():
    assert format_count(3, "class", "classes") == "3 classes"


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0.0000"), (1.0, "1.0000"), (0.2, "0.2000")])
def test_a_number_with_few_digits_stays_as_it_is(value, shown):
    assert rounded_up(value) == shown
    assert rounded_down(value) == shown


def test_infinity_is_printed_as_a_word():
    assert rounded_up(float("inf")) == "inf"


def test_no_bound_is_printed_to_nearest():
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(Path(pacsent.__file__).parent.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PLAIN.search(line)
    ]
    assert not found, "use pacsent.bounds.rounding.rounded_up: " + "; ".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'f"{c.risk_bound:.4f}"',
        'f"{c.error_upper:.4f}"',
        "f\"{made[key]['promised']:.3f}\"",
        'f"{100 * bound:.1f}"',
    ],
)
def test_the_search_finds_a_bound_with_a_format_of_its_own(line):
    assert PLAIN.search(line)


def test_the_search_passes_bounds_that_are_rounded_up():
    assert not PLAIN.search('f"{rounded_up(bound)}, error {error:.4f}"')
