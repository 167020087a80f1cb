"""Bounds in print: upper bounds are rounded up, everywhere."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np

import pacsent
from pacsent.bounds.rounding import percent, rounded_down, rounded_up

# a replacement field that names a bound and has a format of its own: {found.error_upper:.4f}
PLAIN = re.compile(r"\{[^{}]*(bound|promised|guarante|upper|lower)[^{}()]*:[^{}'\" ]*\.\d+[fge%]\}")


def test_rounded_outwards():
    for value in np.random.default_rng(0).random(300).tolist():
        assert Decimal(rounded_down(value)) <= Decimal(repr(value)) <= Decimal(rounded_up(value))
        assert float(rounded_up(value)) - float(rounded_down(value)) < 1.001e-4
        assert Decimal(percent(value).rstrip("%")) >= 100 * Decimal(repr(value))
    for value, shown in ((0.0, "0.0000"), (1.0, "1.0000"), (0.2, "0.2000")):
        assert rounded_up(value) == rounded_down(value) == shown
    assert rounded_up(float("inf")) == "inf"


def test_no_bound_is_printed_to_nearest():
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(Path(pacsent.__file__).parent.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PLAIN.search(line)
    ]
    assert not found, "use pacsent.bounds.rounding.rounded_up: " + "; ".join(found)


def test_the_search_finds_what_it_is_for():
    assert PLAIN.search('f"{c.risk_bound:.4f}"') and PLAIN.search('f"{c.error_upper:.4f}"')
    assert PLAIN.search("f\"{made[key]['promised']:.3f}\"")
    assert PLAIN.search('f"{100 * bound:.1f}"')
    assert not PLAIN.search('f"{rounded_up(bound)}, error {error:.4f}"')
