"""Packages that import nothing until a name is asked for, and what to install for an extra."""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import Any


def offer(
    package: str, homes: dict[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable, Callable]:
    """Return `__getattr__` and `__dir__` of a package that imports its names when they are used.

    Parameters
    ----------
    package : str
    homes : dict
        The module of the package that each name is in.
    modules : tuple of str
        Modules of the package to be listed with the names. Every other public module is reached
        by its name as well.
    """

    if "." in package:
        sys.modules.setdefault("scipy.stats", _Later("scipy.stats"))

    def __getattr__(name):
        home = homes.get(name, name)
        if home != name:
            return getattr(importlib.import_module(f"{package}.{home}"), name)
        if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    def __dir__():
        return sorted({*homes, *modules})

    return __getattr__, __dir__


class _Later(ModuleType):
    """A module that is imported at the first look into it.

    scikit-learn imports scipy.stats, which takes a second, for what it hardly ever uses.
    """

    _lock = RLock()

    def __getattr__(self, name):
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        with self._lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            return getattr(importlib.import_module(self.__name__), name)


def modules_of(package: str) -> list[ModuleType]:
    """Import and return the modules of a package, in alphabetical order."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return [importlib.import_module(f"{package}.{module.name}") for module in found]


def install_hint(extra: str) -> str:
    """What to run for an optional dependency, from the package index and from a checkout.

    >>> install_hint("serve")
    "Run: pip install 'pacsent[serve]' (in a checkout: pip install '.[serve]')"
    """
    return f"Run: pip install 'pacsent[{extra}]' (in a checkout: pip install '.[{extra}]')"


def needed(module: str, why: str, extra: str | None = None) -> Any:
    """An optional dependency, imported now; or an error with its reason and what to install.

    `extra` is that of pacsent which has it; None where none does, and it is installed by its name.

    >>> needed("no_such_module", "Maps need it", "serve")
    Traceback (most recent call last):
    ImportError: Maps need it, which is not installed. Run: pip install 'pacsent[serve]' ...
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        hint = install_hint(extra) if extra else f"Run: pip install {module.partition('.')[0]}"
        raise ImportError(f"{why}, which is not installed. {hint}") from None


def imported(name: str) -> Any:
    """The object behind "module:name" or "module:Class.method", imported now."""
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
