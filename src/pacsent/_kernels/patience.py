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
    >>> patience.has(160), patience.has(1)
    (False, False)
    """

    over: ClassVar[bool] = bool(os.environ.get("PACSENT_COMPILE"))

    def __init__(self, most: float):
        self.left = most

    def has(self, work: float) -> bool:
        """Whether this much more is to be done without compiled code."""
        self.left -= work
        return not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether everything is compiled by now."""
        return self.left < 0 or self.over

    @classmethod
    def end(cls) -> None:
        """From now on everything is compiled when it is first used."""
        cls.over = True
