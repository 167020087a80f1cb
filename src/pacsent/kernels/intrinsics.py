"""What numba does not offer as Python: vector instructions, prefetching, float16.

These functions write LLVM code through interfaces of numba and llvmlite that may change between
releases. They are used in this file and in `compiling` only, the versions are pinned, and a weekly
test runs against the newest ones. With NUMBA_DISABLE_JIT each is a plain function.
"""

from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 16  # floats in a line of cache


def _compiled(plain):
    """`intrinsic`, for what the function `plain` does where nothing is compiled."""
    return lambda function: plain if config.DISABLE_JIT else intrinsic(function)


_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)


def _arrays(context, builder, signature, arguments, *places):
    return [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in places]


def _number(value):
    return ir.Constant(_INDEX, value)


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
