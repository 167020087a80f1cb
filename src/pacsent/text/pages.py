"""HTML from the Jinja2 templates in `pacsent/templates`; whole pages extend `base.html`."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

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


def as_characters(data: bytes) -> str:
    """The length of `data` and itself: two characters for 13 bits, where base64 has 12."""
    bits = np.unpackbits(np.frombuffer(len(data).to_bytes(4, "big") + data, np.uint8))
    groups = np.pad(bits, (0, -bits.size % 13)).reshape(-1, 13)
    numbers = np.packbits(groups, axis=1).view(">u2").ravel() >> 3  # the last three bits are 0
    digits = np.column_stack(np.divmod(numbers, 91)).astype(np.uint8) + ord("#")
    return (digits + (digits >= ord("<"))).tobytes().decode("ascii")
