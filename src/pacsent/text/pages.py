"""HTML from the Jinja2 templates in `pacsent/templates`; whole pages extend `base.html`."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    blocks: Any = {"trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("pacsent")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **blocks)


def render(template: str, **values: Any) -> str:
    """The text of a template with these values; plain text among them is escaped.

    Data for a script goes through Jinja2's filter `tojson`, which escapes what could end it.

    >>> render("base.html", title="a < b").count("a &lt; b")
    1
    """
    return _environment().get_template(template).render(**values)
