"""Kernels of numba are compiled by one function, which works where nothing can be cached."""

import re
from pathlib import Path

import pacsent


def test_every_kernel_file_takes_njit_from_there():
    numbas = re.compile(r"numba\.njit|^from numba import.*njit", re.MULTILINE)
    for path in Path(pacsent.__file__).parent.joinpath("kernels").glob("*.py"):
        assert path.name == "compiling.py" or not numbas.search(path.read_text()), path
