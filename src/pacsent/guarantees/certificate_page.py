"""A certificate as a piece of a page: its sentence, one picture, and what it rests on."""

from html import escape
from typing import NamedTuple

from pacsent.maths.rounding import rounded_up


class ChartBar(NamedTuple):
    """One bar of the picture.

    >>> ChartBar("guessing", 0.5, "#999").value
    0.5
    """

    name: str
    value: float
    colour: str


def as_html(sentence: str, bars: list[ChartBar], rows: list[tuple[str, str]]) -> str:
    """A section without script and without other files.

    >>> as_html("At most 0.1.", [ChartBar("certified", 0.1, "#1b6e9c")], []).startswith("<section")
    True
    """
    details = "".join(
        f'<dt style="font-weight:600;margin-top:.5em">{escape(name)}</dt>'
        f'<dd style="margin:0">{escape(text)}</dd>'
        for name, text in rows
    )
    return (
        '<section class="pacsent-certificate" style="max-width:44em;font:15px/1.5 system-ui,'
        'sans-serif;border:1px solid #8888;border-radius:8px;padding:1em 1.2em">'
        f'<p style="font-size:1.1em;margin:0 0 .8em">{escape(sentence)}</p>'
        f'{_picture(bars)}<dl style="margin:.8em 0 0;font-size:.9em">{details}</dl></section>'
    )


def _picture(bars: list[ChartBar]) -> str:
    longest = max(bar.value for bar in bars) or 1.0
    parts = []
    for i, (name, value, colour) in enumerate(bars):
        width, y = 300 * value / longest, 30 * i
        parts.append(
            f'<text x="0" y="{y + 17}" fill="currentColor">{name}</text>'
            f'<rect x="80" y="{y + 3}" width="{width:.1f}" height="20" rx="3" fill="{colour}"/>'
            f'<text x="{88 + width:.1f}" y="{y + 17}" fill="currentColor">{rounded_up(value)}'
            "</text>"
        )
    label = ", ".join(f"{bar.name} {rounded_up(bar.value)}" for bar in bars)
    return (
        f'<svg viewBox="0 0 450 {30 * len(bars)}" role="img" aria-label="{label}" '
        f'style="width:100%;max-width:450px;font-size:13px">{"".join(parts)}</svg>'
    )
