"""The demo: the paper on books that ship with the package, then a classifier of bank messages.

`books` makes the first page, `bank` the second, `tables` the CSV files for the shell.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "pages": ["run"],
        "tables": ["write_tables"],
    },
)

__all__: list[str] = []  # used by the command `pacsent demo`
