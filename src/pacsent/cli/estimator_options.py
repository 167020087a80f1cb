"""Options made from estimators: type and range from their constraints, help from their docstring.

An estimator is imported when the options of its command are needed, not for `pacsent --help`.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from pacsent.cli.command_line import Command

# More values stand in the description of an option: its name must fit a line.
_MAX_SHOWN_CHOICES = 6


class EstimatorCommand(Command):
    """A command with an option for every parameter of its estimators but those in `without`.

    `estimators` is a function. Of several, an option has the default of the one that is used, and
    the help of the first unless `descriptions` has one for all.
    """

    def __init__(
        self,
        *args: Any,
        estimators: Callable[[], list[Any]],
        without: Iterable[str] = (),
        descriptions: dict[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        self._estimators = estimators
        self._without = set(without)
        self._own_descriptions = descriptions or {}
        self._is_complete = False
        super().__init__(*args, **attributes)

    @property
    def params(self) -> list[click.Parameter]:
        if not self._is_complete:
            self._is_complete = True
            self._params += self._make_options()
        return self._params

    @params.setter
    def params(self, declared: list[click.Parameter]) -> None:
        self._params = declared

    def _make_options(self) -> list[click.Option]:
        declared = {param.name for param in self._params}
        estimators = self._estimators()
        options: dict[str, click.Option] = {}
        for estimator in estimators:
            descriptions = _descriptions(estimator) | self._own_descriptions
            parameters = inspect.signature(estimator).parameters
            for name, constraints in estimator._parameter_constraints.items():
                kind = _option_type(constraints)
                is_excluded = name in declared or name in self._without
                if kind is None or is_excluded or name in options:
                    continue
                default = parameters[name].default if len(estimators) == 1 else None
                help_text = descriptions.get(name, f"{name} of {estimator.__name__}.")
                options[name] = _make_option(name, kind, default, help_text)
        return list(options.values())


def _make_option(name: str, kind: Any, default: Any, help_text: str) -> click.Option:
    flag = "--" + name.replace("_", "-")
    if kind is bool:
        flag += "/--no-" + name.replace("_", "-")
    metavar = None
    if isinstance(kind, click.Choice) and len(kind.choices) > _MAX_SHOWN_CHOICES:
        metavar = "NAME"
        help_text += f" One of {', '.join(kind.choices)}."
    return click.Option([flag], type=kind, default=default, metavar=metavar, help=help_text)


class IntegerOrName(click.ParamType):
    """An integer, or one of a few names such as "auto"."""

    name = "integer"

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value in self.names else click.INT.convert(value, param, ctx)


def _option_type(constraints: list) -> Any:
    """Return the click type of the first constraint that has one; None for other objects."""
    from numbers import Integral, Real

    from pacsent.parameter_checks import Interval, StrOptions

    names = [c.options for c in constraints if isinstance(c, StrOptions)]
    for constraint in constraints:
        if isinstance(constraint, Interval) and constraint.type is Integral and names:
            return IntegerOrName(names[0])
        if isinstance(constraint, StrOptions):
            return click.Choice(sorted(constraint.options))
        if constraint == "boolean":
            return bool
        if constraint == "random_state":
            return click.IntRange(0, 2**32 - 1)
        number = constraint.type if isinstance(constraint, Interval) else constraint
        if number in (Integral, Real):
            return int if number is Integral else float
    return None


def _descriptions(estimator: type) -> dict[str, str]:
    """Return the first sentence about each parameter in the docstring."""
    docstring = inspect.getdoc(estimator) or ""
    section = re.search(r"\nParameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", docstring, re.DOTALL)
    if section is None:
        return {}

    descriptions: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section[1]):
        heading, _, body = entry.partition("\n")
        text = " ".join(body.split())
        sentence, *_ = re.split(r"(?<=\.)\s", text)
        if not sentence:
            continue
        names, _, _ = heading.partition(" :")
        for name in names.split(", "):
            descriptions[name] = sentence.replace("`", "")
    return descriptions
