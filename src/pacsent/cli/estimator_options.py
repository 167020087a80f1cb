"""Options made from estimators: type and range from their constraints, help from their docstring.

An estimator is imported when the options of its command are needed, not for `pacsent --help`.
"""

import inspect
import re
from collections.abc import Callable, Iterable

import click

from pacsent.cli.command_line import Command

# More values stand in the description of an option: its name must fit a line.
_MAX_SHOWN_CHOICES = 6


class EstimatorCommand(Command):
    """A command with an option for every parameter of its estimators but those in `without`.

    `estimators` is a function. Of several, an option has the default of the one that is used.
    """

    def __init__(self, *args, estimators: Callable, without: Iterable[str] = (), **how):
        self._estimators, self._without, self._is_complete = estimators, set(without), False
        super().__init__(*args, **how)

    @property
    def params(self) -> list[click.Parameter]:
        if not self._is_complete:
            self._is_complete = True
            without = {param.name for param in self._params} | self._without
            estimators, options = self._estimators(), {}
            for estimator in estimators:
                descriptions = _descriptions(estimator)
                defaults = inspect.signature(estimator).parameters
                for name, constraints in estimator._parameter_constraints.items():
                    kind = _option_type(constraints)
                    if kind is None or name in without or name in options:
                        continue
                    flag = name.replace("_", "-")
                    help_text = descriptions.get(name, f"{name} of {estimator.__name__}.")
                    metavar = None
                    if isinstance(kind, click.Choice) and len(kind.choices) > _MAX_SHOWN_CHOICES:
                        metavar = "NAME"
                        help_text += f" One of {', '.join(kind.choices)}."
                    options[name] = click.Option(
                        [f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"],
                        type=kind,
                        default=defaults[name].default if len(estimators) == 1 else None,
                        metavar=metavar,
                        help=help_text,
                    )
            self._params += options.values()
        return self._params

    @params.setter
    def params(self, declared):
        self._params = declared


class IntegerOrName(click.ParamType):
    """An integer, or one of a few names such as "auto"."""

    name = "integer"

    def __init__(self, names: Iterable[str]):
        self.names = set(names)

    def convert(self, value, param, ctx):
        return value if value in self.names else click.INT.convert(value, param, ctx)


def _option_type(constraints: list):
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
    section = re.search(
        r"\nParameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", inspect.getdoc(estimator) or "", re.S
    )
    descriptions: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section[1] if section else ""):
        names, _, text = entry.partition("\n")
        sentence = re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
        if sentence:
            for name in names.partition(" :")[0].split(", "):
                descriptions[name] = sentence.replace("`", "")
    return descriptions
