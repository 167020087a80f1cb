"""What numba does not offer as Python: vector instructions, atomic reads, prefetching, float16.

These functions write LLVM code through interfaces of numba and llvmlite that may change between
releases. They are used in this file and in `compiling` only, the versions are pinned, and a weekly
test runs against the newest ones. With NUMBA_DISABLE_JIT each is a plain function.
"""

import os
import time
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from pacsent._kernels.compiling import njit

LINE = 16  # floats in a line of cache


# ---- Tiles: how work is divided among vector registers ------------------------------------------


class Tile(NamedTuple):
    """How a kernel divides its work among the vector registers of a processor."""

    width: int  # floats in a register
    scores: tuple[int, int]  # rows and columns of scores computed at once, one register each
    rows: int  # rows of a table that are changed at once
    vectors: dict[int, int]  # registers for each of them, by the number of rows
    by_lane: bool = False  # whether an instruction multiplies by one lane of a register


def tile_of(triple: str, features: str) -> Tile:
    """The tile for a processor, from LLVM's names of it and of its features.

    Registers must hold all sums, what is multiplied, and no more: 32 registers of 16 floats with
    AVX-512, 16 of 8 with AVX, 32 of 4 on ARM (SVE too: its registers begin with those), 16 of 4
    anywhere else.
    """
    if triple.startswith(("aarch64", "arm64")):
        return Tile(4, (4, 4), 8, {8: 3, 4: 4, 1: 4}, by_lane=True)
    has = set(features.split(","))
    if "+avx512f" in has:
        return Tile(16, (4, 4), 12, {12: 2, 4: 4, 1: 4})
    return Tile(8 if "+avx" in has else 4, (4, 3), 4, {4: 3, 1: 4})


def _processor():
    """(triple, name, features) that are compiled for, NUMBA_CPU_NAME and NUMBA_CPU_FEATURES
    obeyed. They are part of the key of every cached kernel, so that a tile chosen by them and
    nothing else is too."""
    return cpu_target.target_context.codegen().magic_tuple()


_TRIPLE, PROCESSOR, _FEATURES = _processor()
TILE = tile_of(_TRIPLE, _FEATURES)


def _compiled(plain):
    """`intrinsic`, for what the function `plain` does where nothing is compiled."""
    return lambda function: plain if config.DISABLE_JIT else intrinsic(function)


@_compiled(lambda: None)
def wide(typing_context):
    """Let the calling function use 512-bit vectors where the CPU has them.

    The compiler's own choice is 256 bits, from the days when wide vectors slowed the clock.
    """

    def codegen(context, builder, signature, arguments):
        # llvmlite admits only attributes it knows by name; the set itself takes any
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), codegen


# ---- Sums that are held in registers ------------------------------------------------------------


_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_MAY_FUSE = ("contract",)  # a * b + c may be one instruction


def _array(context, builder, signature, arguments, i):
    return context.make_array(signature.args[i])(context, builder, arguments[i])


def _number(value):
    return ir.Constant(_INDEX, value)


def _vector_at(builder, base, place, width):
    return builder.bitcast(builder.gep(base, [place]), ir.VectorType(_FLOAT, width).as_pointer())


def _shuffle(builder, u, v, lanes):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(u, v, mask)


def _fused(builder, total, x, y):
    """total + x * y, as one instruction where the processor has it."""
    return builder.fadd(total, builder.fmul(x, y, flags=_MAY_FUSE), flags=_MAY_FUSE)


def _zeros_in_registers(builder, vector, n):
    zero = ir.Constant(vector, [0.0] * vector.count)
    held = [cgutils.alloca_once_value(builder, zero) for _ in range(n)]
    for one in held:
        builder.store(zero, one)
    return held


def _lane_sums(builder, vectors):
    """One vector whose lane j is the sum of the lanes of vectors[j], as many vectors as lanes: a
    tree of n - 1 additions, where n sums by themselves would take n log2(n)."""
    width = vectors[0].type.count
    if len(vectors) == 1:
        return vectors[0]
    u, v = _lane_sums(builder, vectors[0::2]), _lane_sums(builder, vectors[1::2])
    half = width // len(vectors)  # u and v hold groups of 2 * half lanes, one for each vector
    low = [
        side + 2 * half * group + lane
        for group in range(len(vectors) // 2)
        for side in (0, width)
        for lane in range(half)
    ]
    high = [lane + half for lane in low]
    return builder.fadd(_shuffle(builder, u, v, low), _shuffle(builder, u, v, high))


def _store_sums(builder, tile, sums, S, at):
    """S[a:a+r, n:n+c] = the sums of the lanes of r x c vectors, in place; at = (a, n)."""
    n_x, n_y = tile.scores
    a, n = at
    in_a_row = 4  # lanes for each row of sums, the last of them spare where n_y is 3
    spare = ir.Constant(ir.VectorType(_FLOAT, tile.width), [0.0] * tile.width)
    lanes = []
    for r in range(n_x):
        lanes += [builder.load(one) for one in sums[r * n_y : (r + 1) * n_y]]
        lanes += [spare] * (in_a_row - n_y)
    n_columns = builder.extract_value(S.shape, 1)
    rows_at_once = tile.width // in_a_row
    for r in range(n_x):
        if r % rows_at_once == 0:
            start = in_a_row * r
            total = _lane_sums(builder, lanes[start : start + tile.width])
        row = builder.mul(builder.add(a, _number(r)), n_columns)
        first = in_a_row * (r % rows_at_once)
        part = _shuffle(builder, total, total, [first + lane for lane in range(n_y)])
        place = _vector_at(builder, S.data, builder.add(row, n), n_y)
        builder.store(part, place, align=4)


def _scores_plainly(X, Y, S, a, n):
    """S[a:a+r, n:n+c] = X[a:a+r] @ Y[n:n+c].T for TILE.scores = (r, c), in place."""
    r, c = TILE.scores
    S[a : a + r, n : n + c] = X[a : a + r] @ Y[n : n + c].T


def _scores_and_copies_plainly(X, table, rows, Y, S, at):
    """`_scores_plainly` at (a, n), after Y[n:n+c] = table[rows[n:n+c]], in place."""
    a, n = at
    Y[n : n + TILE.scores[1]] = table[rows[n : n + TILE.scores[1]]]
    _scores_plainly(X, Y, S, a, n)


def _score_tile(tile):
    """(`_scores_plainly`, `_scores_and_copies_plainly`) with all sums held in registers.

    Written as vector instructions, for the sake of `_lane_sums`.
    """
    n_x, n_y = tile.scores
    vector = ir.VectorType(_FLOAT, tile.width)

    @intrinsic
    def scores(typing_context, X, Y, S, a, n):
        signature = types.none(X, Y, S, types.intp, types.intp)

        def codegen(context, builder, signature, arguments):
            X, Y, S = (_array(context, builder, signature, arguments, i) for i in range(3))
            emit(builder, X, Y, S, arguments[3:])
            return context.get_dummy_value()

        return signature, codegen

    @intrinsic
    def scores_and_copies(typing_context, X, table, rows, Y, S, at):
        at = types.UniTuple(types.intp, 2)
        signature = types.none(X, table, rows, Y, S, at)

        def codegen(context, builder, signature, arguments):
            X, table, rows, Y, S = (
                _array(context, builder, signature, arguments, i) for i in range(5)
            )
            at = [builder.extract_value(arguments[5], i) for i in range(2)]
            emit(builder, X, Y, S, at, (table, rows))
            return context.get_dummy_value()

        return signature, codegen

    def emit(builder, X, Y, S, at, origin=None):
        """The products; where rows of Y are still to be copied, `origin` says from where."""
        a, n = at
        n_columns = builder.extract_value(X.shape, 1)
        sums = _zeros_in_registers(builder, vector, n_x * n_y)
        first_x, first_y = (
            [builder.mul(builder.add(row, _number(r)), n_columns) for r in range(n_rows)]
            for row, n_rows in ((a, n_x), (n, n_y))
        )
        if origin is not None:
            table, rows = origin
            places = [builder.gep(rows.data, [builder.add(n, _number(c))]) for c in range(n_y)]
            first = [builder.mul(builder.load(place), n_columns) for place in places]

        def at_place(table, row, place):
            return _vector_at(builder, table.data, builder.add(row, place), tile.width)

        def load(table, row, place):
            return builder.load(at_place(table, row, place), align=4)

        n_vectors = builder.udiv(n_columns, _number(tile.width))
        with cgutils.for_range(builder, n_vectors, intp=_INDEX) as loop:
            place = builder.mul(loop.index, _number(tile.width))
            if origin is None:
                y = [load(Y, row, place) for row in first_y]
            else:
                y = [load(table, row, place) for row in first]
                for y_c, row in zip(y, first_y):
                    builder.store(y_c, at_place(Y, row, place), align=4)
            for r, row in enumerate(first_x):
                x = load(X, row, place)
                for one, y_c in zip(sums[r * n_y :], y):
                    builder.store(_fused(builder, builder.load(one), x, y_c), one)
        _store_sums(builder, tile, sums, S, at)

    return scores, scores_and_copies


def _add_rows_plainly(n_rows, table, rows, a, G, X, span):
    """table[rows[a + r]] += sum over k < n of G[k, a + r] X[k], r < n_rows, in place, in the
    columns begin to end; span = (n, begin, end)."""
    n, begin, end = span
    for r in range(a, a + n_rows):
        for k in range(n):
            table[rows[r], begin:end] += G[k, r] * X[k, begin:end]


def _row_tile(n_rows, tile):
    """`_add_rows_plainly` for a fixed number of rows, with all sums held in registers.

    Written as vector instructions, since the compiler does not find this shape from loops: for
    some columns at a time, n_rows x tile.vectors[n_rows] vectors collect the sum over k; a row of
    `X` is loaded once for all of them. The factors are loaded four at a time where an
    instruction can multiply by one lane of a vector, else one by one.
    """
    most_vectors = tile.vectors[n_rows]
    vector = ir.VectorType(_FLOAT, tile.width)

    @intrinsic
    def add_rows(typing_context, table, rows, a, G, X, span):
        span = types.UniTuple(types.intp, 3)
        signature = types.none(table, rows, types.intp, G, X, span)

        def codegen(context, builder, signature, arguments):
            table, rows, G, X = (
                _array(context, builder, signature, arguments, i) for i in (0, 1, 3, 4)
            )
            a = arguments[2]
            n, begin, end = (builder.extract_value(arguments[5], i) for i in range(3))
            n_columns, n_columns_G = (builder.extract_value(array.shape, 1) for array in (table, G))
            numbers = [builder.add(a, _number(r)) for r in range(n_rows)]

            def factors(k):
                """G[k, a : a + n_rows], each of them in all lanes of a vector."""
                first = builder.add(builder.mul(k, n_columns_G), a)
                if tile.by_lane and n_rows % 4 == 0:
                    places = [builder.add(first, _number(r)) for r in range(0, n_rows, 4)]
                    fours = [
                        builder.load(_vector_at(builder, G.data, place, 4), align=4)
                        for place in places
                    ]
                    for r in range(n_rows):
                        four = fours[r // 4]
                        yield _shuffle(builder, four, four, [r % 4] * tile.width)
                else:
                    nothing = ir.Constant(vector, ir.Undefined)
                    for r in range(n_rows):
                        g = builder.load(builder.gep(G.data, [builder.add(first, _number(r))]))
                        g = builder.insert_element(nothing, g, ir.Constant(ir.IntType(32), 0))
                        yield _shuffle(builder, g, nothing, [0] * tile.width)

            def add_columns(start, n_vectors):
                def vectors_of(base, row):
                    first = builder.add(builder.mul(row, n_columns), start)
                    places = [builder.add(first, _number(tile.width * v)) for v in range(n_vectors)]
                    return [_vector_at(builder, base, place, tile.width) for place in places]

                sums = _zeros_in_registers(builder, vector, n_rows * n_vectors)
                with cgutils.for_range(builder, n, intp=_INDEX) as loop:
                    x = [builder.load(at, align=4) for at in vectors_of(X.data, loop.index)]
                    for r, g in enumerate(factors(loop.index)):
                        for one, x_v in zip(sums[r * n_vectors :], x):
                            builder.store(_fused(builder, builder.load(one), g, x_v), one)
                # one row after the other: two of them may be the same
                for r, number in enumerate(numbers):
                    row = builder.load(builder.gep(rows.data, [number]))
                    for one, at in zip(sums[r * n_vectors :], vectors_of(table.data, row)):
                        total = builder.fadd(builder.load(at, align=4), builder.load(one))
                        builder.store(total, at, align=4)

            step = tile.width * most_vectors
            n_steps = builder.udiv(builder.sub(end, begin), _number(step))
            with cgutils.for_range(builder, n_steps, intp=_INDEX) as loop:
                done = builder.mul(loop.index, _number(step))
                add_columns(builder.add(begin, done), most_vectors)
            done = builder.add(begin, builder.mul(n_steps, _number(step)))
            left = builder.sub(end, done)
            for n_vectors in range(1, most_vectors):
                is_so = builder.icmp_unsigned("==", left, _number(n_vectors * tile.width))
                with builder.if_then(is_so):
                    add_columns(done, n_vectors)
            return context.get_dummy_value()

        return signature, codegen

    return add_rows


if config.DISABLE_JIT:
    scores, scores_and_copies = _scores_plainly, _scores_and_copies_plainly
    add_rows, add_4_rows, add_1_row = (
        partial(_add_rows_plainly, n_rows) for n_rows in (TILE.rows, 4, 1)
    )
else:
    scores, scores_and_copies = _score_tile(TILE)
    add_rows, add_4_rows, add_1_row = (_row_tile(n_rows, TILE) for n_rows in (TILE.rows, 4, 1))


# ---- Memory: asking for a line beforehand, and what other threads see ---------------------------


def _place(context, builder, signature, arguments):
    """Where array[row, column] lies, for a function of (array, row, column, ...)."""
    array = _array(context, builder, signature, arguments, 0)
    n_columns = builder.extract_value(array.shape, 1)
    row = builder.mul(arguments[1], n_columns)
    return builder.gep(array.data, [builder.add(row, arguments[2])])


@_compiled(lambda table, row, column: None)
def fetch_line(typing_context, table, row, column):
    """Ask for table[row, column] and its neighbours to be brought into the second cache."""

    def codegen(context, builder, signature, arguments):
        at = _place(context, builder, signature, arguments)
        at, flag = builder.bitcast(at, ir.IntType(8).as_pointer()), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [at.type, flag, flag, flag])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [at, flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.none(table, types.intp, types.intp), codegen


@_compiled(lambda array, row, column, value: array.__setitem__((row, column), value))
def publish(typing_context, array, row, column, value):
    """array[row, column] = value, seen by other threads after all that was written before."""

    def codegen(context, builder, signature, arguments):
        at = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[3], at, "seq_cst", 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, types.intp, types.int64), codegen


@_compiled(lambda array, row, column: array[row, column])
def look(typing_context, array, row, column):
    """array[row, column], and after it all that its writer had written before."""

    def codegen(context, builder, signature, arguments):
        at = _place(context, builder, signature, arguments)
        return builder.load_atomic(at, "seq_cst", 8)

    return types.int64(array, types.intp, types.intp), codegen


if config.DISABLE_JIT:
    let_through: Any = partial(time.sleep, 0)  # let another thread have the processor
elif hasattr(os, "sched_yield"):
    let_through = types.ExternalFunction("sched_yield", types.int32())
else:

    @njit(inline="always")
    def let_through():
        """The system has no such call: spin on."""


# ---- Numbers of 16 bits -------------------------------------------------------------------------


@intrinsic
def _from_half(typing_context, bits):
    """The number whose float16 bits these are, as float32."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


def widened(x):
    """An entry of a table as a number: float16 bits widened, anything else as it is."""
    return x


@overload(widened, inline="always")
def _compiled_number(x):
    if x == types.uint16:
        return lambda x: _from_half(x)
    return lambda x: x
