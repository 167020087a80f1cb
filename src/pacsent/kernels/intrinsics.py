"""What numba does not offer as Python: vector instructions, prefetching, float16.

These functions write LLVM code through interfaces of numba and llvmlite that may change between
releases. They are used in this file and in `compiling` only, the versions are pinned, and a weekly
test runs against the newest ones. With NUMBA_DISABLE_JIT each is a plain function.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

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

    Registers must have all sums, what is multiplied, and no more: 32 registers of 16 floats with
    AVX-512, 16 of 8 with AVX, 32 of 4 on ARM (SVE too: its registers begin with those), 16 of 4
    anywhere else.
    """
    if triple.startswith(("aarch64", "arm64")):
        return Tile(4, (4, 4), 8, {8: 3, 4: 4, 1: 4}, by_lane=True)
    has = set(features.split(","))
    if "+avx512f" in has:
        return Tile(16, (4, 4), 12, {12: 2, 4: 4, 1: 4})
    return Tile(8 if "+avx" in has else 4, (4, 3), 4, {4: 3, 1: 4})


# What is compiled for, NUMBA_CPU_NAME and NUMBA_CPU_FEATURES obeyed: part of the key of every
# cached kernel, so that a tile chosen by it and nothing else is too.
_TRIPLE, PROCESSOR, _FEATURES = cpu_target.target_context.codegen().magic_tuple()
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


def _arrays(context, builder, signature, arguments, *places):
    return [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in places]


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
    registers = [cgutils.alloca_once_value(builder, zero) for _ in range(n)]
    for register in registers:
        builder.store(zero, register)
    return registers


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
        lanes += [builder.load(register) for register in sums[r * n_y : (r + 1) * n_y]]
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
            X, Y, S = _arrays(context, builder, signature, arguments, 0, 1, 2)
            emit(builder, X, Y, S, arguments[3:])
            return context.get_dummy_value()

        return signature, codegen

    @intrinsic
    def scores_and_copies(typing_context, X, table, rows, Y, S, at):
        at = types.UniTuple(types.intp, 2)
        signature = types.none(X, table, rows, Y, S, at)

        def codegen(context, builder, signature, arguments):
            X, table, rows, Y, S = _arrays(context, builder, signature, arguments, *range(5))
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
                for register, y_c in zip(sums[r * n_y :], y):
                    builder.store(_fused(builder, builder.load(register), x, y_c), register)
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
            table, rows, G, X = _arrays(context, builder, signature, arguments, 0, 1, 3, 4)
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
                        for register, x_v in zip(sums[r * n_vectors :], x):
                            builder.store(_fused(builder, builder.load(register), g, x_v), register)
                # one row after the other: two of them may be the same
                for r, number in enumerate(numbers):
                    row = builder.load(builder.gep(rows.data, [number]))
                    for register, at in zip(sums[r * n_vectors :], vectors_of(table.data, row)):
                        total = builder.fadd(builder.load(at, align=4), builder.load(register))
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
    add_rows, add_4_rows = (partial(_add_rows_plainly, n_rows) for n_rows in (TILE.rows, 4))
else:
    scores, scores_and_copies = _score_tile(TILE)
    add_rows, add_4_rows = (_row_tile(n_rows, TILE) for n_rows in (TILE.rows, 4))


# ---- Columns of a table -------------------------------------------------------------------------


def _add_products_plainly(sums, column, width, table, rows, values, span):
    """sums[c] += sum of values[t] * table[rows[t], c] over t in span = (begin, end), in place."""
    part, t = slice(column, column + width), slice(*span)
    sums[part] += values[t] @ table[rows[t], part]


def _add_outer_plainly(factors, column, width, table, rows, values, span):
    """table[rows[t], c] += values[t] * factors[c], rows all different, in place."""
    part, t = slice(column, column + width), slice(*span)
    table[rows[t], part] += np.multiply.outer(values[t], factors[part])


def _column_tile(width, outer):
    """`_add_products_plainly`, or `_add_outer_plainly`, for a fixed number of columns.

    Written as vector instructions: for few columns the compiler's own loop asks for each row
    whether the arrays overlap, and takes three times as long.
    """
    vector = ir.VectorType(_FLOAT, width)

    @intrinsic
    def work(typing_context, small, column, table, rows, values, span):
        span = types.UniTuple(types.intp, 2)
        signature = types.none(small, types.intp, table, rows, values, span)

        def codegen(context, builder, signature, arguments):
            small, table, rows, values = _arrays(context, builder, signature, arguments, 0, 2, 3, 4)
            column, n_columns = arguments[1], builder.extract_value(table.shape, 1)
            begin, end = (builder.extract_value(arguments[5], i) for i in range(2))
            place = _vector_at(builder, small.data, column, width)
            kept = cgutils.alloca_once_value(builder, builder.load(place, align=4))
            with cgutils.for_range_slice(builder, begin, end, _number(1), _INDEX) as (t, _):
                row = builder.load(builder.gep(rows.data, [t]))
                row = builder.mul(builder.sext(row, _INDEX), n_columns)
                at = _vector_at(builder, table.data, builder.add(row, column), width)
                value = builder.load(builder.gep(values.data, [t]))
                nothing = ir.Constant(vector, ir.Undefined)
                value = builder.insert_element(nothing, value, ir.IntType(32)(0))
                value = _shuffle(builder, value, nothing, [0] * width)
                entry, small_part = builder.load(at, align=4), builder.load(kept)
                if outer:
                    builder.store(_fused(builder, entry, value, small_part), at, align=4)
                else:
                    builder.store(_fused(builder, small_part, value, entry), kept)
            if not outer:
                builder.store(builder.load(kept), place, align=4)
            return context.get_dummy_value()

        return signature, codegen

    return work


if config.DISABLE_JIT:
    add_products_16, add_products_8 = (
        lambda s, c, *more, w=w: _add_products_plainly(s, c, w, *more) for w in (16, 8)
    )
    add_outer_16, add_outer_8 = (
        lambda f, c, *more, w=w: _add_outer_plainly(f, c, w, *more) for w in (16, 8)
    )
else:
    add_products_16, add_products_8 = (_column_tile(width, outer=False) for width in (16, 8))
    add_outer_16, add_outer_8 = (_column_tile(width, outer=True) for width in (16, 8))


# ---- Memory: asking for a line beforehand -------------------------------------------------------


def _fetch(builder, at, nearness):
    """Ask for the line of cache at a place; nearness 3 is the first cache, 2 the second."""
    at, flag = builder.bitcast(at, ir.IntType(8).as_pointer()), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [at.type, flag, flag, flag])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [at, flag(0), flag(nearness), flag(1)])


@_compiled(lambda table, row, column: None)
def fetch_line(typing_context, table, row, column):
    """Ask for table[row, column] and its neighbours to be brought into the second cache."""

    def codegen(context, builder, signature, arguments):
        [array] = _arrays(context, builder, signature, arguments, 0)
        row = builder.mul(arguments[1], builder.extract_value(array.shape, 1))
        place = builder.gep(array.data, [builder.add(row, arguments[2])])
        _fetch(builder, place, nearness=2)
        return context.get_dummy_value()

    return types.none(table, types.intp, types.intp), codegen


# ---- Bits and bytes -----------------------------------------------------------------------------


def _byte_classes_plainly(data, start):
    """Which of data[start:start + 64] are letters a-z of either case, and which are digits.

    Bit i of the two numbers is for byte start + i.
    """
    block = data[start : start + 64]
    letter = block | np.uint8(32)
    classes = (letter >= 97) & (letter <= 122), (block >= 48) & (block <= 57)
    return tuple(np.packbits(mask, bitorder="little").view(np.uint64)[0] for mask in classes)


@_compiled(_byte_classes_plainly)
def byte_classes(typing_context, data, start):
    """`_byte_classes_plainly`, as comparisons of all 64 bytes at once."""
    pair = types.UniTuple(types.uint64, 2)

    def codegen(context, builder, signature, arguments):
        block = ir.VectorType(ir.IntType(8), 64)
        [data] = _arrays(context, builder, signature, arguments, 0)
        at = builder.bitcast(builder.gep(data.data, [arguments[1]]), block.as_pointer())
        block_bytes = builder.load(at, align=1)

        def within(values, first, n):  # as unsigned numbers, what is below `first` becomes large
            past = builder.sub(values, ir.Constant(block, [first] * 64))
            inside = builder.icmp_unsigned("<", past, ir.Constant(block, [n] * 64))
            return builder.bitcast(inside, _INDEX)

        letters = within(builder.or_(block_bytes, ir.Constant(block, [32] * 64)), 97, 26)
        masks = letters, within(block_bytes, 48, 10)
        return context.make_tuple(builder, pair, masks)

    return pair(data, types.intp), codegen


@_compiled(lambda data, start: data[start : start + 8].view("<u8")[0])
def eight_bytes(typing_context, data, start):
    """data[start:start + 8] as one number, the first byte lowest."""

    def codegen(context, builder, signature, arguments):
        [data] = _arrays(context, builder, signature, arguments, 0)
        at = builder.bitcast(builder.gep(data.data, [arguments[1]]), _INDEX.as_pointer())
        return builder.load(at, align=1)

    return types.uint64(data, types.intp), codegen


@_compiled(lambda bits: int(bits).bit_count())
def set_bits(typing_context, bits):
    """How many bits are set."""
    return types.intp(types.uint64), lambda _, builder, __, arguments: builder.ctpop(arguments[0])


@_compiled(lambda bits: ((int(bits) & -int(bits)).bit_length() - 1) % 65)
def lowest_bit(typing_context, bits):
    """Which bit is the lowest that is set; 64 where none is."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.intp(types.uint64), codegen
