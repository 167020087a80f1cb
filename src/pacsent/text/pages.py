"""HTML from the Jinja2 templates in `pacsent/templates`; whole pages extend `base.html`."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pacsent"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """The text of a template with these values; plain text among them is escaped.

    Data for a script goes through Jinja2's filter `tojson`, which escapes what could end it.

    >>> render("base.html", title="a < b").count("a &lt; b")
    1
    """
    return _environment().get_template(template).render(**values)


def as_characters(data: bytes) -> str:
    """The length of `data` and itself: two characters for 13 bits, where base64 has 12."""
    length = len(data).to_bytes(4, "big")
    bits = np.unpackbits(np.frombuffer(length + data, np.uint8))

    # Numbers of 13 bits: packed into 16, of which the last three are 0.
    groups = np.pad(bits, (0, -bits.size % 13)).reshape(-1, 13)  # (n_numbers, 13)
    numbers = np.packbits(groups, axis=1).view(">u2").ravel() >> 3  # (n_numbers,)

    # Two digits of base 91 for each, from # on and without <, which HTML would read as a tag.
    digits = np.column_stack(np.divmod(numbers, 91)).astype(np.uint8)  # (n_numbers, 2)
    codes = digits + ord("#")
    codes += codes >= ord("<")
    return codes.tobytes().decode("ascii")
