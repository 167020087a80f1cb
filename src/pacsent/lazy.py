"""Folders that offer names without importing anything until one is asked for."""

import importlib
from collections.abc import Callable


def offer(package: str, homes: dict[str, str]) -> tuple[Callable, Callable]:
    """`__getattr__` and `__dir__` of a package whose names live in its modules.

    `homes` maps a name to the module it is in; a module is mapped to its own place.
    """

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home.rpartition(".")[2] == name:
            return importlib.import_module(f"{package}.{home}")
        return getattr(importlib.import_module(f"{package}.{home}"), name)

    def __dir__():
        return sorted(homes)

    return __getattr__, __dir__
