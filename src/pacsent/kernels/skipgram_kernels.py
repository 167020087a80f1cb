"""Skip-gram with negative sampling: the compiled inner loops, and only those.

`I` and `O` are the two matrices being trained, rows padded with zeros to a multiple of 16 floats.
For every pair of a centre word c and a context word i of its window, `train_blocks` descends

    loss(i, c) = -log sigmoid(I[i] @ O[c]) - sum over n_negatives negatives n of
                  log sigmoid(-I[i] @ O[n]),        terms with n == c left out,

that is, as in word2vec, the input vector belongs to the context word and the output vector to the
centre word. Noise is drawn once for a block of consecutive centre words: the block becomes three
small matrix products.

Threads may call it on the same tables at the same time (lock-free, "Hogwild").
"""

from math import lcm

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import (
    LINE,
    TILE,
    add_4_rows,
    add_rows,
    fetch_line,
    scores,
    scores_and_copies,
    wide,
)

# reassoc: a sum may be taken in any order, without which no dot product becomes vector code;
# contract: a * b + c may be one instruction. NaN and infinity keep their meaning.
_MATHS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
_OPTIONS = {"cache": True, "nogil": True, **_MATHS}

_LOW = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_TERMS = 1024  # summed in single precision, before they are added in double
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)


# ---- Randomness: splitmix64, a counter put through a mixing function ----------------------------


@njit(inline="always")
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def _draw(state):
    """The next 64 random bits; `state` (one uint64) moves on in place."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return _mix(state[0])


@njit(inline="always")
def _draw_noise(state, thresholds, aliases):
    """One entry of the alias table: the high half of the bits picks a column, the low half
    decides between it and its alias."""
    bits = _draw(state)
    column = np.int64(((bits >> _HALF_WORD) * np.uint64(aliases.size)) >> _HALF_WORD)
    other = np.int64(aliases[column])  # read in any case: no branch that cannot be foreseen
    return column if (bits & _LOW) < thresholds[column] else other


@njit(cache=True, nogil=True)
def subsample(ids, first, thresholds, key, kept):
    """Positions (from `first`) of the tokens that this epoch keeps, into `kept`; how many.

    A token's fate depends on `key` (seed and epoch) and its place in the corpus only, so that
    every worker that looks at it, from either side of a border, finds the same:
    keep if mix(key + place * odd) >> 32 < thresholds[id].
    """
    n = 0
    for j in range(ids.size):
        place = np.uint64(first + j)
        bits = _mix(key + place * np.uint64(0x9E3779B97F4A7C15))
        if (bits >> _HALF_WORD) < thresholds[ids[j]]:
            kept[n] = j
            n += 1
    return n


# ---- Row arithmetic. Every row is a multiple of 16 floats long: no loop has a remainder. --------


@njit(**_OPTIONS)
def _copy_row(table, row, buffer, a):
    """buffer[a] = table[row], in place."""
    wide()
    for i in range((table.shape[1] >> 4) << 4):
        buffer[a, i] = table[row, i]


_ROWS_AT_ONCE = TILE.rows
# columns that all rows get their sums for before the next ones: so few that the rows which are
# summed, of these columns, stay in the nearest cache
_COLUMNS_AT_ONCE = 2 * lcm(16, *(TILE.width * TILE.vectors[n_rows] for n_rows in (TILE.rows, 4)))
_SCORE_ROWS, _SCORE_COLUMNS = TILE.scores


@njit(**_OPTIONS)
def _add_columns(table, rows, G, X, n, begin):
    """table[rows[r]] += sum over k < n of G[k, r] X[k], every r, in place.

    In the columns from `begin` on, as many as are worked on at once. `rows` has a multiple of four
    entries; a row that occurs twice gets both sums.
    """
    span = (n, begin, min(begin + _COLUMNS_AT_ONCE, table.shape[1]))
    a = 0
    while a + _ROWS_AT_ONCE <= rows.size:
        add_rows(table, rows, a, G, X, span)
        a += _ROWS_AT_ONCE
    while a < rows.size:
        add_4_rows(table, rows, a, G, X, span)
        a += 4


@njit(**_OPTIONS)
def fetch_rows(table, rows, start, stop):
    """Have table[rows[start:stop]] brought into the cache, or as many of these as there are."""
    for a in range(start, min(stop, rows.size)):
        for column in range(0, table.shape[1], LINE):
            fetch_line(table, rows[a], column)


@njit(inline="always")
def _sigmoid(x):
    """1 / (1 + exp(-x)) to float32 precision, as 1/2 + tanh(x/2)/2 with a rational tanh.

    No branch and no call, so that a loop over it becomes vector code.
    """
    h = min(max(_HALF * x, np.float32(-7.9)), np.float32(7.9))
    q = h * h
    p = np.float32(-2.76076847742355e-16)
    p = p * q + np.float32(2.00018790482477e-13)
    p = p * q + np.float32(-8.60467152213735e-11)
    p = p * q + np.float32(5.12229709037114e-08)
    p = p * q + np.float32(1.48572235717979e-05)
    p = p * q + np.float32(6.37261928875436e-04)
    p = p * q + np.float32(4.89352455891786e-03)
    d = np.float32(1.19825839466702e-06)
    d = d * q + np.float32(1.18534705686654e-04)
    d = d * q + np.float32(2.26843463243900e-03)
    d = d * q + np.float32(4.89352518554385e-03)
    return _HALF + _HALF * h * p / d


@njit(inline="always")
def _minus_log_1_minus(m):
    """-log(1 - m) for m in [0, 1/2], to float32 precision; no division."""
    p = np.float32(1.44252288)
    p = p * m + np.float32(-1.69866581)
    p = p * m + np.float32(1.26001044)
    p = p * m + np.float32(-0.204539745)
    p = p * m + np.float32(0.269850133)
    p = p * m + np.float32(0.242774453)
    p = p * m + np.float32(0.333702559)
    p = p * m + np.float32(0.499992805)
    p = p * m + _ONE
    return p * m


@njit(**_OPTIONS)
def _gradients_of_few(S, weights, learning_rate):
    """`_gradients`, the loss summed in single precision."""
    wide()
    loss = _ZERO
    for j in range(S.size):
        weight = weights[j]
        z = -S[j] if weight > _ZERO else S[j]
        sigmoid = _sigmoid(z)
        S[j] = learning_rate * weight * sigmoid
        # softplus(z) = max(z, 0) - log sigmoid(|z|), which neither overflows nor cancels
        log_part = _minus_log_1_minus(min(sigmoid, _ONE - sigmoid))
        loss += abs(weight) * (max(z, _ZERO) + log_part)
    return loss


@njit(**_OPTIONS)
def _gradients(S, weights, learning_rate):
    """S = learning_rate * weights * sigmoid(z), in place; the sum of |weights| * softplus(z).

    z = -S where the weight is positive (a pair that was seen), S where it is negative (noise).
    Equivalent to -learning_rate times the gradient of the sum with respect to S.
    """
    loss = 0.0
    for start in range(0, S.size, _TERMS):
        few = slice(start, start + _TERMS)
        loss += np.float64(_gradients_of_few(S[few], weights[few], learning_rate))
    return loss


# ---- Noise shared by a block of centre words ----------------------------------------------------


@njit(**_OPTIONS)
def block_step(I, O, rows, weights, learning_rate, buffers, band, ahead):
    """One step of gradient descent on a block, in place; its loss before the step.

    loss = sum over a, n of |w| softplus(-sign(w) I[rows_I[a]] @ O[rows_O[n]]), w = weights[a, n]

    All scores come from the tables as they were before the step. rows = (rows_I, rows_O) have a
    multiple of four entries, the spare ones with weight 0; a row may occur more than once.
    band = (centres, window, first): of the first columns of `weights`, column c is 0 outside the
    rows first + c - window .. first + c + window, and those scores are not computed; (0, 0, 0)
    where nothing is known. ahead = (a table, rows of it, another, rows of it): what the next step
    will read, fetched while this one computes.
    """
    wide()
    rows_I, rows_O = rows
    X, Y, S, T = buffers
    n_centres, window, middle = band
    n_I, n_O = rows_I.size, rows_O.size
    for a in range(n_I):
        _copy_row(I, rows_I[a], X, a)
    # What is ahead is asked for bit by bit all the time: a processor waits for few lines at once
    n_tiles, n_parts = -(-n_O // _SCORE_COLUMNS), -(-I.shape[1] // _COLUMNS_AT_ONCE)
    each_I = -(-ahead[1].size // n_tiles)
    each_O = -(-ahead[3].size // (n_tiles + 2 * n_parts))
    for j in range(n_tiles):  # in this order X stays in the nearest cache
        fetch_rows(ahead[0], ahead[1], j * each_I, (j + 1) * each_I)
        fetch_rows(ahead[2], ahead[3], j * each_O, (j + 1) * each_O)
        n = min(j * _SCORE_COLUMNS, n_O - _SCORE_COLUMNS)  # the last may repeat some scores
        is_first = True
        for a in range(0, n_I, _SCORE_ROWS):
            if n + _SCORE_COLUMNS > n_centres or (
                a + _SCORE_ROWS > middle + n - window and a < middle + n + _SCORE_COLUMNS + window
            ):
                if is_first:
                    scores_and_copies(X, O, rows_O, Y, S, (a, n))
                    is_first = False
                else:
                    scores(X, Y, S, a, n)
    n_used = n_I
    while n_used > 0 and not weights[n_used - 1].any():  # spare rows add nothing
        n_used -= 1
    used = n_used * n_O
    loss = _gradients(S.reshape(-1)[:used], weights.reshape(-1)[:used], learning_rate)
    S[n_used:n_I] = _ZERO
    for a in range(n_I):
        for n in range(n_O):
            T[n, a] = S[a, n]
    for j in range(n_parts):
        fetch_rows(ahead[2], ahead[3], (n_tiles + j) * each_O, (n_tiles + j + 1) * each_O)
        _add_columns(O, rows_O, S, X, n_used, j * _COLUMNS_AT_ONCE)
    for j in range(n_parts):
        share = (n_tiles + n_parts + j) * each_O
        fetch_rows(ahead[2], ahead[3], share, share + each_O)
        _add_columns(I, rows_I, T, Y, n_O, j * _COLUMNS_AT_ONCE)
    return loss


@njit(**_OPTIONS)
def block_draw(tokens, documents, t, n_centres, shape, noise, state, drawn):
    """Draw windows and noise for the centres tokens[t:t+n_centres], into `drawn`.

    shape = (window, n_negatives, centres in a full block, negatives for a block), the last two
    together a multiple of four; noise = (thresholds, aliases) of the alias table;
    drawn = (rows_I, rows_O, weights, pairs of each row). Rows of `I` are the tokens that the
    windows reach; rows of `O` are the centres, then the noise. A pair that was seen has weight 1;
    a negative has, against a context word, minus the pairs of that word whose centre is another
    word, times n_negatives / negatives: in expectation the loss of word2vec.

    Returns the number of pairs, the number of rows of `I`, and the first token among these.
    """
    window, n_negatives, n_block, n_noise = shape
    thresholds, aliases = noise
    rows_I, rows_O, weights, n_pairs_of = drawn
    each = np.float32(n_negatives / n_noise)
    first, last = t, t + n_centres - 1
    for c in range(n_centres):
        # uniform on 1..window
        reach = np.int64(((_draw(state) >> _HALF_WORD) * np.uint64(window)) >> _HALF_WORD) + 1
        rows_O[c] = reach  # kept here until the weights are known
        first = min(first, t + c - reach)
        last = max(last, t + c + reach)
    first, last = max(first, 0), min(last, tokens.size - 1)
    n_rows = (last - first + 4) >> 2 << 2
    for a in range(n_rows):
        rows_I[a] = tokens[min(first + a, tokens.size - 1)]
        n_pairs_of[a] = 0
        for c in range(n_block):
            weights[a, c] = _ZERO
    n_pairs = 0
    for c in range(n_centres):
        centre, reach = t + c, rows_O[c]
        rows_O[c] = tokens[centre]
        for j in range(max(first, centre - reach), min(last, centre + reach) + 1):
            if j != centre and documents[j] == documents[centre]:
                weights[j - first, c] = _ONE
                n_pairs_of[j - first] += 1
                n_pairs += 1
    for c in range(n_centres, n_block):
        rows_O[c] = tokens[t]
    for a in range(n_rows):
        weight = -each * np.float32(n_pairs_of[a])
        for n in range(n_block, n_block + n_noise):
            weights[a, n] = weight
    for n in range(n_block, n_block + n_noise):
        rows_O[n] = _draw_noise(state, thresholds, aliases)
    for n in range(n_block, n_block + n_noise):
        is_centre = False
        for c in range(n_centres):
            is_centre |= rows_O[c] == rows_O[n]
        if is_centre:  # which is rare
            for c in range(n_centres):
                if rows_O[c] == rows_O[n]:
                    for a in range(n_rows):
                        weights[a, n] += each * weights[a, c]
    return n_pairs, n_rows, first


@njit(**_OPTIONS)
def block_buffers(n_I, n_O, n_dims):
    """Room for `block_step`: rows of `I`, rows of `O`, scores, the same transposed."""
    return (
        np.zeros((n_I, n_dims), np.float32),
        np.zeros((n_O, n_dims), np.float32),
        np.zeros((n_I, n_O), np.float32),
        np.zeros((n_O, n_I), np.float32),
    )


@njit(inline="always")
def _most_rows(shape):
    """(rows of I, rows of O) that a block can have."""
    window, _, n_block, n_noise = shape
    return (n_block + 2 * window + 3) >> 2 << 2, n_block + n_noise


@njit(**_OPTIONS)
def _room_to_draw(shape):
    """`drawn` for `block_draw`."""
    n_I, n_O = _most_rows(shape)
    return (
        np.empty(n_I, np.int64),
        np.empty(n_O, np.int64),
        np.empty((n_I, n_O), np.float32),
        np.empty(n_I, np.int64),
    )


@njit(**_OPTIONS)
def _draw_until(text, t, stop, shape, noise, state, drawn):
    """`block_draw` for the block that begins at t; no pair and no row from `stop` on."""
    if t >= stop:
        return 0, 0, 0
    tokens, documents = text
    return block_draw(tokens, documents, t, min(shape[2], stop - t), shape, noise, state, drawn)


@njit(**_OPTIONS)
def train_blocks(I, O, tokens, documents, span, shape, noise, state):
    """Train on the centres tokens[start:stop] in blocks, in place; (sum of losses, pairs).

    span = (start, stop, learning rate at start, at stop); shape as in `block_draw`.
    """
    start, stop, rate_start, rate_stop = span
    text = tokens, documents
    window, _, n_block, _ = shape
    n_I, n_O = _most_rows(shape)
    buffers = block_buffers(n_I, n_O, I.shape[1])
    drawn, after = _room_to_draw(shape), _room_to_draw(shape)
    loss = 0.0
    n_pairs = 0
    pairs, n_rows, first = _draw_until(text, start, stop, shape, noise, state, drawn)
    for t in range(start, stop, n_block):
        coming = _draw_until(text, t + n_block, stop, shape, noise, state, after)
        if pairs > 0:
            rate = rate_start + (rate_stop - rate_start) * ((t - start) / (stop - start))
            band = (n_block, window, t - first)
            rows, ahead = (drawn[0][:n_rows], drawn[1]), (I, after[0][: coming[1]], O, after[1])
            loss += block_step(I, O, rows, drawn[2], np.float32(rate), buffers, band, ahead)
            n_pairs += pairs
        pairs, n_rows, first = coming
        drawn, after = after, drawn
    return loss, n_pairs
