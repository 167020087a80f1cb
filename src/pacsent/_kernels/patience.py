"""How long small work is done as plain Python, with the same numbers, instead of compiled.

Importing numba takes most of a second and compiling a kernel one to four. So the first texts of a
process, about a thousand short ones, go through NumPy or through the kernel as plain Python; then
the compiled kernel takes over. PACSENT_COMPILE=1 compiles at once.
"""

import os
from typing import ClassVar


class Patience:
    """How much work of one kind is done without compiled code, in all.

    >>> patience = Patience(100)
    >>> patience.has(60), patience.has(60), patience.has(60)
    (True, False, False)
    """

    _all: ClassVar[list["Patience"]] = []

    def __init__(self, most: float):
        self._left = 0.0 if os.environ.get("PACSENT_COMPILE") else most
        self._all.append(self)

    def has(self, work: float) -> bool:
        """Whether this much more is to be done without compiled code."""
        self._left -= work
        return self._left >= 0

    @classmethod
    def end(cls) -> None:
        """From now on everything is compiled when it is first used."""
        for one in cls._all:
            one._left = 0.0
