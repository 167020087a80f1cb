"""Numbers out of text: the compiled parser against Python."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.kernels.formats import parse_lines, parse_lines_plainly

NUMBERS = re.findall(
    r"\S+",
    """0 -0 +0.0 1 -1. .5 -.5e1 1e5 1E-5 1e+05 0.000000001 1e22 123456789012345678 1e38 0.1
    0.12345678901234567 1234567890123456789 0.1e-30 1e-44 16777217 16777217.000000001
    3.4028235e38 1.17549435e-38 9007199254740993 0.30000001192092896 0.3000000268220901
    1.00000005960464478 -2.9802322387695312e-08""",
)
ODD_LINES = """w
w 1
w 1 2 3
w 1 2  # a comment
w 1 2\t
w  1 2
 1 2
w\t1 2
w 1,5 2
w 1 nan
w 1 1e39
w 1 1e
w 1 1e+
w 1 1e1234
w 1 .
w 1 -
w 1 +-2
w 1 1.2.3
w 1 1_0
w 1 0x1
"""


def parse(text, n_dims, parser):
    text = np.frombuffer(text, np.uint8)
    return parser(text, np.flatnonzero(text == 10), n_dims)


def test_every_number_is_read_as_python_does(rng):
    forms = ("%.4f", "%.6g", "%.9g", "%.17g", "%r")
    more = [form % x for form in forms for x in rng.normal(size=300).tolist()]
    # numbers next to the middle between two float32, written with many digits
    near = np.float32(1).astype(float) + rng.integers(0, 1 << 20, 300) * 2.0**-23 + 2.0**-24
    more += [f"{x:.16f}" for x in near] + [f"{np.nextafter(x, 9):.17g}" for x in near]
    written = NUMBERS + more
    text = "".join(f"w{i} {number}\n" for i, number in enumerate(written)).encode()
    expected = np.array([float(number) for number in written]).astype(np.float32)

    rows, word_ends = parse(text, 1, parse_lines)
    plain_rows, plain_ends = parse(text, 1, parse_lines_plainly)

    is_read = word_ends >= 0
    assert is_read.mean() > 0.7  # the others are left to Python
    assert_array_equal(word_ends[is_read], plain_ends[is_read])
    assert_array_equal(rows[is_read, 0], expected[is_read])
    assert_array_equal(np.signbit(rows[is_read, 0]), np.signbit(expected[is_read]))
    assert_array_equal(plain_rows[:, 0], expected)


@pytest.mark.parametrize("parser", [parse_lines, parse_lines_plainly])
def test_odd_lines_are_told_and_lines_after_them_are_read(parser):
    text = "".join(f"{odd}\nx 3 4\n" for odd in ODD_LINES.splitlines()).encode()

    rows, word_ends = parse(text, 2, parser)

    assert (word_ends[::2] == -1).all()
    assert_array_equal(rows[1::2], [[3, 4]] * (len(rows) // 2))
    assert {text[end - 1 : end + 1] for end in word_ends[1::2]} == {b"x "}


@pytest.mark.parametrize("parser", [parse_lines, parse_lines_plainly])
def test_a_space_may_end_the_line_and_a_word_may_be_any_bytes(parser):
    rows, word_ends = parse(b"\xff\x00. -1 +2e0 \n1 3 .4e1\n", 2, parser)

    assert_array_equal(rows, [[-1, 2], [3, 4]])
    assert word_ends.tolist() == [3, 14]


def test_random_lines_are_read_or_odd_as_in_python(rng):
    parts = [b"a", b" 1", b" -1", b" +.5", b"0", b".", b"e-7", b"e1", b"e28", b"-", b"\n", b"\na"]
    text = b"".join(rng.choice(parts, 20_000)) + b"\n"

    for n_dims in (1, 2):
        rows, word_ends = parse(text, n_dims, parse_lines)
        plain_rows, plain_ends = parse(text, n_dims, parse_lines_plainly)

        is_read = word_ends >= 0
        assert is_read.sum() > 100
        assert_array_equal(word_ends[is_read], plain_ends[is_read])
        assert_array_equal(rows[is_read], plain_rows[is_read])
        assert is_read.sum() > 0.6 * (plain_ends >= 0).sum()  # without powers beyond 22


def test_lines_without_their_breaks_are_refused():
    text = np.frombuffer(b"a 1\nb 2\n", np.uint8)

    for ends in ([3, 8], [-1, 7]):
        with pytest.raises(ValueError, match="Lines must lie in their 8 bytes"):
            parse_lines(text, np.array(ends), 1)
    for ends in ([3, 6], [7, 3]):
        with pytest.raises(ValueError, match="must end with line breaks, one after the other"):
            parse_lines(text, np.array(ends), 1)
