"""What numba does not offer as Python: vector instructions, prefetching, float16.

These functions write LLVM code through interfaces of numba and llvmlite that may change between
releases. They are used in this file and in `compiling` only, the versions are pinned, and a weekly
test runs against the newest ones. With NUMBA_DISABLE_JIT each is a plain function.
"""

import numpy as np
from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 16  # floats in a line of cache


def _compiled(plain):
    """`intrinsic`, for what the function `plain` does where nothing is compiled."""
    return lambda function: plain if config.DISABLE_JIT else intrinsic(function)


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
