"""Packages that import nothing until a name is asked for, and what to install for an extra."""

import importlib
import importlib.util
from collections.abc import Callable


def offer(package: str, homes: dict[str, str]) -> tuple[Callable, Callable]:
    """`__getattr__` and `__dir__` of a package whose names live in its modules.

    `homes` maps a name to the module it is in; a module is mapped to its own place. Every other
    public module of the package is reached by its name as well.
    """

    def __getattr__(name):
        if name not in homes and (
            name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is None
        ):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes.get(name, name)
        if home.rpartition(".")[2] == name:
            return importlib.import_module(f"{package}.{home}")
        return getattr(importlib.import_module(f"{package}.{home}"), name)

    def __dir__():
        return sorted(homes)

    return __getattr__, __dir__


def install_hint(extra: str) -> str:
    """What to run for an optional dependency, from the package index and from a checkout.

    Examples
    --------
    >>> install_hint("serve")
    "Run: pip install 'pacsent[serve]' (in a checkout: pip install '.[serve]')"
    """
    return f"Run: pip install 'pacsent[{extra}]' (in a checkout: pip install '.[{extra}]')"
