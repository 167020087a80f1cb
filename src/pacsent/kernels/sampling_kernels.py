"""Kernels of PV-DBOW.

Random numbers come from a state that is handed in. Sums may be reassociated by the compiler
(`reassoc`), nothing else.
"""

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import LINE, fetch_line

_F = np.float32
_FLAGS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}


@njit(**_FLAGS)
def fetch_rows(table, rows, start, stop):
    """Have table[rows[start:stop]] brought into the cache, or as many of these as there are."""
    for a in range(start, min(stop, rows.size)):
        for column in range(0, table.shape[1], LINE):
            fetch_line(table, rows[a], column)


# ---- Exponentials in single precision ----------------------------------------------------------


@njit(inline="always", **_FLAGS)
def power_of_two32(t):
    """2^t to 4e-6 relative, for t cut at -80 and 80: vectors, no call."""
    # 2^-80 is as good as 0, and times a weight it is not subnormal, which would be slow
    t = _F(-80.0) if t < _F(-80.0) else t
    t = _F(80.0) if t > _F(80.0) else t
    shifted = t + _F(12582912.0)  # 1.5 * 2^23: the last bits now hold round(t)
    r = t - (shifted - _F(12582912.0))
    p = _F(0.0013333558)  # 2^r on [-1/2, 1/2]
    p = p * r + _F(0.009618129)
    p = p * r + _F(0.05550411)
    p = p * r + _F(0.24022651)
    p = p * r + _F(0.6931472)
    p = p * r + _F(1.0)
    whole = np.int32(np.float32(shifted).view(np.int32) - np.int32(0x4B400000) + np.int32(127))
    return p * np.int32(whole << np.int32(23)).view(np.float32)


@njit(inline="always", **_FLAGS)
def _sigmoid32(x):
    """1 / (1 + e^-x) to 4e-6 relative, in operations that the compiler turns into vectors."""
    return _F(1.0) / (_F(1.0) + power_of_two32(x * _F(-1.4426950408889634)))


# ---- Random numbers: xorshift64 with a state handed in, negatives by Walker's alias method ----

_13, _7, _17 = np.uint64(13), np.uint64(7), np.uint64(17)
_32, _11, _LOW = np.uint64(32), np.uint64(11), np.uint64(0xFFFFFFFF)


@njit(inline="always", **_FLAGS)
def _next(state):
    """The next 64 random bits; state is one number, not 0, changed in place."""
    x = state[0]
    x ^= x << _13
    x ^= x >> _7
    x ^= x << _17
    state[0] = x
    return x


@njit(inline="always", **_FLAGS)
def _draw(state, keep, other):
    """One index with the probabilities of the alias table (keep, other)."""
    bits = _next(state)
    i = np.int64(((bits >> _32) * np.uint64(keep.size)) >> _32)
    instead = np.int64(other[i])  # read in any case: a branch would wait for both
    return instead if float(bits & _LOW) >= keep[i] * 4294967296.0 else i


# ---- Rows of a table: products and sums ---------------------------------------------------------


@njit(**_FLAGS)
def _score(h, row):
    a = h.dtype.type(0.0)
    for d in range(h.size):
        a += h[d] * row[d]
    return a


@njit(**_FLAGS)
def _pick_noise(n, A, noise, state, picked):
    """The next n negatives; their rows are fetched."""
    words, keep, other, _ = noise
    for k in range(n):
        picked[k] = words[_draw(state, keep, other)]
    fetch_rows(A, picked, np.int64(0), n)


# ---- PV-DBOW ------------------------------------------------------------------------------------


# Sentences that use the same negatives side by side: these and their vectors stay in the cache.
GROUP_SIZE = 16


@njit(**_FLAGS)
def _n_remaining(group, offsets, t, n):
    """How many of the first n sentences of a group have a token at place t."""
    while n > 0 and (group[n - 1] < 0 or offsets[group[n - 1] + 1] - offsets[group[n - 1]] <= t):
        n -= 1
    return n


@njit(**_FLAGS)
def _pick(t, group, sentences, A, noise, state, own, drawn):
    """The words of a group's sentences at place t, and negatives for it; both are fetched."""
    ids, offsets = sentences
    for i in range(group.size):
        own[i] = ids[offsets[group[i]] + t]
    fetch_rows(A, own, np.int64(0), group.size)
    _pick_noise(noise[3], A, noise, state, drawn)


@njit(**_FLAGS)
def _copy_rows(table, rows, out):
    for i in range(rows.size):
        row, to = table[rows[i]], out[i]
        for d in range(row.size):
            to[d] = row[d]


@njit(**_FLAGS)
def _add_row(amount, row, to):
    for d in range(row.size):
        to[d] += amount * row[d]


@njit(**_FLAGS)
def _step_together(H, A, own, drawn, step, train_words, memory):
    """One token of each row of H moves it, in place, and then the rows of A that were met."""
    X, S, G, M = memory
    n = len(H)
    moves, errors = S[:n], np.empty(n, A.dtype)
    _copy_rows(A, drawn, X)
    np.dot(H, X.T, moves)
    for i in range(n):
        errors[i] = _score(H[i], A[own[i]])
    flat = moves.reshape(moves.size)
    for k in range(flat.size):
        flat[k] = step * _sigmoid32(np.float32(flat[k]))
    for i in range(n):
        errors[i] = step * (_sigmoid32(np.float32(errors[i])) - _F(1.0))
    np.dot(moves, X, G[:n])
    for i in range(n):
        _add_row(errors[i], A[own[i]], G[i])
    if train_words:
        np.dot(moves.T, H, M)
        for k in range(drawn.size):
            _add_row(S.dtype.type(1.0), M[k], A[drawn[k]])
        for i in range(n):
            _add_row(errors[i], H[i], A[own[i]])
    for i in range(n):
        _add_row(S.dtype.type(1.0), G[i], H[i])


@njit(**_FLAGS)
def pv_dbow(groups, sentences, A, noise, eta, train_words, vectors):
    """One pass over some groups of sentences: each token moves its sentence's vector, and A.

    loss of a token = softplus(-h.A_w) + sum_j softplus(h.A_{n_j}), with n_negatives negatives.
    groups = (members, states), (n, GROUP_SIZE) sentences, long ones first, -1 for none, and a state
    of random numbers for each group; sentences = (ids, offsets); noise = (words, keep, other,
    n_negatives). The sentences of a group go on side by side, token by token. Each place draws its
    own negative samples, which all sentences of the group share there, so that rows are fetched
    once for all, while the place before is worked on. Rows of A move, if asked, once per place.
    """
    members, states = groups
    offsets = sentences[1]
    n_dims, n_drawn = A.shape[1], noise[3]
    H, G = np.empty((GROUP_SIZE, n_dims), A.dtype), np.empty((GROUP_SIZE, n_dims), A.dtype)
    X, M = np.empty((n_drawn, n_dims), A.dtype), np.empty((n_drawn, n_dims), A.dtype)
    memory = X, np.empty((GROUP_SIZE, n_drawn), A.dtype), G, M
    own, drawn = np.empty((2, GROUP_SIZE), np.int64), np.empty((2, n_drawn), np.int64)
    step = np.full(1, -eta, A.dtype)[0]
    for g in range(members.shape[0]):
        state = states[g : g + 1]
        t = np.int64(0)
        n = _n_remaining(members[g], offsets, t, members.shape[1])
        group = members[g, :n]
        _copy_rows(vectors, group, H)
        _pick(t, group, sentences, A, noise, state, own[0], drawn[0])
        while n > 0:
            mine, others = own[t % 2, :n], drawn[t % 2]
            t += 1
            n_next = _n_remaining(group, offsets, t, n)
            _pick(t, group[:n_next], sentences, A, noise, state, own[t % 2], drawn[t % 2])
            _step_together(H[:n], A, mine, others, step, train_words, memory)
            n = n_next
        for i in range(group.size):
            row, h = vectors[group[i]], H[i]
            for d in range(n_dims):
                row[d] = h[d]
