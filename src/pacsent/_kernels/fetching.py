"""Asking for memory before it is needed: rows of a table are met in random order."""

from llvmlite import ir
from numba import config
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 16  # floats in a line of cache

if config.DISABLE_JIT:

    def fetch_line(table, row, column):
        """Only the processor listens to this."""

else:

    @intrinsic
    def fetch_line(typing_context, table, row, column):
        """Ask for table[row, column] and its neighbours to be brought into the second cache."""
        signature = types.none(table, types.intp, types.intp)

        def codegen(context, builder, signature, arguments):
            table = context.make_array(signature.args[0])(context, builder, arguments[0])
            row, column = arguments[1:]
            n_columns = builder.extract_value(table.shape, 1)
            at = builder.gep(table.data, [builder.add(builder.mul(row, n_columns), column)])
            at = builder.bitcast(at, ir.IntType(8).as_pointer())
            flag = ir.IntType(32)
            fetch = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [at.type, flag, flag, flag]),
                "llvm.prefetch.p0",
            )
            builder.call(fetch, [at, flag(0), flag(2), flag(1)])
            return context.get_dummy_value()

        return signature, codegen
