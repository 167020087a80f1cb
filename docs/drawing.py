"""Plain SVG pictures that are legible in light mode, in dark mode and on a phone.

A picture has its own background, and its colours follow the reader's setting. The demo page and the
scripts that draw the figures of the documentation use it.
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10

# name: (light mode, dark mode); pictures use class="name" and never a colour
COLOURS = {
    "paper": ("#ffffff", "#14181f"),
    "ink": ("#1c2430", "#e8ecf2"),
    "quiet": ("#55606d", "#a9b4c2"),
    "rule": ("#d5dae1", "#39424f"),
    "band": ("#f2f5f8", "#1c222c"),
    "box": ("#ffffff", "#262e3a"),
    "a": ("#0a7d91", "#4fc6d9"),
    "b": ("#c05f00", "#f2a54a"),
    "c": ("#7445b8", "#bb9df5"),
    "d": ("#6b7280", "#9aa4b2"),
}


def _rules(night: int) -> str:
    made = []
    for name, both in COLOURS.items():
        colour = both[night]
        made.append(f".{name}{{fill:{colour}}}.{name}-line{{stroke:{colour};fill:none}}")
    return "".join(made)


STYLE = (
    "<style>text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    f"{_rules(0)}@media (prefers-color-scheme:dark){{{_rules(1)}}}</style>"
)


def sheet(
    width: float, height: float, title: str, parts: Iterable[str], *, style: str = STYLE
) -> str:
    """A whole picture with a background; `title` is what a screen reader reads.

    A page that holds several pictures has the style once and passes an empty one.

    >>> sheet(10, 10, "a dot", ['<circle r="1"/>'], style="").splitlines()[-2]
    '<circle r="1"/>'
    """
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">\n<title>{escape(title)}</title>\n'
        f'{style}\n<rect class="paper" width="{width:g}" height="{height:g}" rx="8"/>\n'
        f"{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "ink", **more: object) -> str:
    """Words at a place; `anchor`, `size` (13) and `bold` as asked."""
    size, anchor = more.get("size", 13), more.get("anchor", "start")
    bold = ' font-weight="600"' if more.get("bold") else ""
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if more.get("turned") else ""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" '
        f'text-anchor="{anchor}"{bold}{turned}>{escape(words)}</text>'
    )


def line(points: Iterable[tuple[float, float]], kind: str, width: float = 2, dash: str = "") -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline class="{kind}-line" points="{path}" stroke-width="{width:g}"{dashed}/>'


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers from low to high, about as many as wanted."""
    raw = (high - low) / wanted
    unit = 10 ** floor(log10(raw))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= raw)
    return [round(n * step, 10) for n in range(ceil(low / step), floor(high / step + 1e-9) + 1)]


class Panel:
    """Axes at a place of a sheet, linear or logarithmic, and what is drawn in them."""

    def __init__(
        self, place: Sequence[float], x: Sequence[float], y: Sequence[float], log_x: bool = False
    ):
        self.left, self.top, self.width, self.height = place
        self.x, self.y, self.log_x = x, y, log_x
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        low, high = map(log10, self.x) if self.log_x else self.x
        share = ((log10(x) if self.log_x else x) - low) / (high - low)
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + share * self.width, self.top + (1 - up) * self.height

    def axes(
        self,
        x_says: str,
        y_says: str,
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
    ) -> "Panel":
        """Rules, numbers and names; the name of y stands above, where a phone has room."""
        for value in ticks(self.y[0], self.y[1]) if y_ticks is None else y_ticks:
            y = self.at(self.x[0], value)[1]
            ends = [(self.left, y), (self.left + self.width, y)]
            self.parts.append(line(ends, "rule", 1))
            self.parts.append(
                text(self.left - 5, y + 4, f"{value:g}", "quiet", anchor="end", size=12)
            )
        below = self.top + self.height
        for value in ticks(self.x[0], self.x[1]) if x_ticks is None else x_ticks:
            x = self.at(value, self.y[0])[0]
            self.parts.append(
                text(x, below + 16, f"{value:,.9g}", "quiet", anchor="middle", size=12)
            )
        middle = self.left + self.width / 2
        self.parts.append(text(middle, below + 33, x_says, "quiet", anchor="middle", size=12.5))
        self.parts.append(text(self.left - 30, self.top - 9, y_says, "quiet", size=12.5))
        self.parts.append(line([(self.left, below), (self.left + self.width, below)], "quiet", 1))
        return self

    def curve(
        self,
        xs: Iterable[float],
        ys: Iterable[float],
        kind: str,
        dash: str = "",
        width: float = 2.4,
    ) -> "Panel":
        places = [self.at(x, y) for x, y in zip(xs, ys, strict=True)]
        self.parts.append(line(places, kind, width, dash))
        return self

    def dots(
        self, xs: Iterable[float], ys: Iterable[float], kind: str, size: float = 3, faint: float = 1
    ) -> "Panel":
        for x, y in (self.at(x, y) for x, y in zip(xs, ys, strict=True)):
            self.parts.append(
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" '
                f'fill-opacity="{faint:g}"/>'
            )
        return self

    def says(self, x: float, y: float, words: str, kind: str, **more: object) -> "Panel":
        """Words in a curve's colour, at a value."""
        left, top = self.at(x, y)
        self.parts.append(text(left, top, words, kind, **{"size": 12.5, "bold": True, **more}))
        return self
