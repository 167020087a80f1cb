"""Numbers out of text: the hot loop of reading word2vec and GloVe files."""

import numpy as np

from pacsent.kernels.compiling import njit

_TAB, _SPACE, _LINE_BREAK, _DOT, _PLUS, _MINUS = 9, 32, 10, 46, 43, 45
_ZERO, _NINE, _BIG_E, _SMALL_E = 48, 57, 69, 101
_MOST_DIGITS = 18  # what int64 holds for certain
_MOST_POWER = 22  # the largest power of ten that float64 holds exactly
_SMALLEST = 1.2e-38  # below it float32 has fewer digits
_POWERS = 10.0 ** np.arange(_MOST_POWER + 1)
_HALF = np.int64(1) << np.int64(28)  # float64 has 29 digits (binary) more than float32
_TAIL = (np.int64(1) << np.int64(29)) - 1


@njit(cache=True, nogil=True)
def parse_lines(text, rows, word_ends, line_ends):
    """Fill `rows`, `word_ends` and `line_ends` from whole lines `word number ... number`, in place.

    Returns how many lines are odd (`word_ends` -1): not simply a word and rows.shape[1] numbers
    with one space between, or with a number whose float32 could differ from the right one in its
    last digit. rows[i] = [np.float32(float(x)) for x in line.split(b" ")[1:]] for all others.
    """
    n_dims = rows.shape[1]
    number = np.empty(1, dtype=np.float64)
    bits = number.view(np.int64)
    place, n_odd = 0, 0
    for i in range(rows.shape[0]):
        start = place
        tabs = False
        while text[place] != _SPACE and text[place] != _LINE_BREAK:
            tabs = tabs or text[place] == _TAB
            place += 1
        word_end = place
        good = place > start and not tabs
        d = 0
        while good and d < n_dims:
            if text[place] != _SPACE:
                good = False
                break
            place += 1
            negative = text[place] == _MINUS
            if negative or text[place] == _PLUS:
                place += 1
            mantissa, power, n_digits, n_seen = 0, 0, 0, 0
            after_dot = 0
            while _ZERO <= text[place] <= _NINE or (text[place] == _DOT and after_dot == 0):
                if text[place] == _DOT:
                    after_dot = 1
                else:
                    digit = np.int64(text[place]) - _ZERO
                    mantissa = mantissa * 10 + digit if n_digits < _MOST_DIGITS else 0
                    n_digits += 1 if mantissa > 0 or n_digits > 0 else 0
                    n_seen += 1
                    power -= after_dot
                place += 1
            if n_seen == 0 or n_digits > _MOST_DIGITS:
                good = False
                break
            if text[place] == _SMALL_E or text[place] == _BIG_E:
                place += 1
                down = text[place] == _MINUS
                if down or text[place] == _PLUS:
                    place += 1
                exponent, n_exponent = 0, 0
                while _ZERO <= text[place] <= _NINE and n_exponent < 4:
                    exponent = exponent * 10 + (np.int64(text[place]) - _ZERO)
                    n_exponent += 1
                    place += 1
                if n_exponent == 0 or n_exponent == 4:
                    good = False
                    break
                power += -exponent if down else exponent
            if mantissa == 0:
                value = 0.0
            elif -_MOST_POWER <= power <= _MOST_POWER:
                value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
                # two roundings at most: off by two in the last place of float64, which shows in
                # float32 only near the middle between two of its numbers
                number[0] = value
                if abs((bits[0] & _TAIL) - _HALF) <= 2 and mantissa >= 9007199254740992:
                    good = False
                    break
                if value < _SMALLEST:
                    good = False
                    break
            else:
                good = False
                break
            rows[i, d] = -value if negative else value
            d += 1
        if good:
            if text[place] == _SPACE:  # fastText ends its lines with a space
                place += 1
            good = text[place] == _LINE_BREAK
        word_ends[i] = word_end if good else -1
        n_odd += 0 if good else 1
        while text[place] != _LINE_BREAK:
            place += 1
        line_ends[i] = place
        place += 1
    return n_odd
