"""Optional dependencies: imported when they are needed, or an error that says what to install."""

import importlib
from typing import Any


def import_optional(module: str, why: str, extra: str | None = None) -> Any:
    """Import an optional dependency, or raise ImportError with the reason and what to install.

    `extra` is the extra of pacsent that contains it; None if it is installed by its own name.

    >>> import_optional("no_such_module", "Maps need it", "serve")
    Traceback (most recent call last):
    ImportError: Maps need it, which is not installed. Run: pip install 'pacsent[serve]' ...
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package, _, _ = module.partition(".")
        hint = install_hint(extra) if extra else f"Run: pip install {package}"
        raise ImportError(f"{why}, which is not installed. {hint}") from None


def install_hint(extra: str) -> str:
    """The command that installs an extra, from the package index and from a checkout."""
    return f"Run: pip install 'pacsent[{extra}]' (in a checkout: pip install '.[{extra}]')"
