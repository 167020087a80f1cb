"""SVG figures that are legible in light mode, in dark mode and on a phone.

A figure has its own background, and its colours follow the reader's setting. make_methods.py and
make_drift_figure.py use it.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

FIGURES = Path(__file__).parent / "figures"

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

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


def _rules(mode: int) -> str:
    made = []
    for name, colours in COLOURS.items():
        colour = colours[mode]
        made.append(f".{name}{{fill:{colour}}}.{name}-line{{stroke:{colour};fill:none}}")
    return "".join(made)


STYLE = (
    "<style>text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    f"{_rules(mode=0)}@media (prefers-color-scheme:dark){{{_rules(mode=1)}}}</style>"
)


def sheet(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """A figure with its background; `title` is what a screen reader reads."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">\n<title>{escape(title)}</title>\n'
        f'{STYLE}\n<rect class="paper" width="{width:g}" height="{height:g}" rx="8"/>\n'
        f"{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "ink", **more: object) -> str:
    """Words at a place; `more` has anchor, size (13), bold and turned."""
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


def ticks(low: float, high: float, n_ticks: int = 4) -> list[float]:
    """Round numbers from low to high, about `n_ticks` of them."""
    raw = (high - low) / n_ticks
    unit = 10 ** floor(log10(raw))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= raw)
    return [round(n * step, 10) for n in range(ceil(low / step), floor(high / step + 1e-9) + 1)]


class Panel:
    """Axes at a place of a figure, linear or logarithmic, and what is drawn in them."""

    def __init__(
        self, place: Sequence[float], x: Sequence[float], y: Sequence[float], log_x: bool = False
    ):
        self.left, self.top, self.width, self.height = place
        self.x, self.y, self.log_x = x, y, log_x
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        low, high = map(log10, self.x) if self.log_x else self.x
        fraction = ((log10(x) if self.log_x else x) - low) / (high - low)
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + fraction * self.width, self.top + (1 - up) * self.height

    def axes(
        self,
        x_name: str,
        y_name: str,
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
        self.parts.append(text(middle, below + 33, x_name, "quiet", anchor="middle", size=12.5))
        self.parts.append(text(self.left - 30, self.top - 9, y_name, "quiet", size=12.5))
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

    def label(self, x: float, y: float, words: str, kind: str, **more: object) -> "Panel":
        """Words in a curve's colour, at a value."""
        left, top = self.at(x, y)
        self.parts.append(text(left, top, words, kind, **{"size": 12.5, "bold": True, **more}))
        return self


def key(x: float, y: float, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Names in their colours, side by side: (words, kind) each."""
    parts = []
    for words, kind in entries:
        parts.append(text(x, y, words, kind, bold=True))
        x += 7.7 * len(words) + 14
    return parts


def is_same_figure(path: Path, drawn: str, tolerance: float = 2) -> bool:
    """Whether a file contains this figure: equal words, numbers up to rounding of processors."""
    if not path.exists():
        return False
    stored = path.read_text(encoding="utf-8")
    if NUMBER.sub("#", stored) != NUMBER.sub("#", drawn):
        return False
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(drawn), strict=True)
    return all(abs(float(a) - float(b)) <= tolerance for a, b in pairs)


def write_figures(drawings: Mapping[str, Callable[[], str]], description: str) -> None:
    """Write figures of docs/figures, by file name; with the option --check only compare them."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check

    for name, draw in drawings.items():
        path = FIGURES / name
        drawn = draw()
        is_same = path.exists() and path.read_text(encoding="utf-8") == drawn
        if check and not is_same:
            raise SystemExit(f"{name} is out of date: make pages")
        path.write_text(drawn, encoding="utf-8")
