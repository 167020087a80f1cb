"""The page of the demo: text, tables and pictures in one HTML file without any script.

The text is in `books.html`; what was computed is put in its places here.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pacsent.maths.rounding import percent, rounded_up
from pacsent.paper.figures import interval
from pacsent.text.drawing import STYLE, Panel, line, sheet, text
from pacsent.text.html import escaped, fill

# of the ten authors: in light mode, in dark mode
_AUTHORS = (
    ("#3b6fd4", "#7ea6ff"), ("#c05f00", "#f2a54a"), ("#177a4b", "#5cc98f"),
    ("#b0307f", "#f08cc6"), ("#7445b8", "#bb9df5"), ("#7a5c00", "#d8b83f"),
    ("#0a7d91", "#4fc6d9"), ("#b3261e", "#ff8a80"), ("#55606d", "#a9b4c2"),
    ("#4d7c0f", "#a3d65c"),
)  # fmt: skip


def page(made: dict, places: np.ndarray, authors: Sequence[str]) -> str:
    """The whole page, from the results of the demo and the places of the passages on its map."""
    same, other, curve = made["same_books"], made["other_books"], made["curve"]
    rows = (("the same books", same), ("other books", other))
    given = sum(p["n"] * p["probability"] for p in same["reliability"]) / same["n_new"]
    template = (Path(__file__).parent / "books.html").read_text(encoding="utf-8")
    filled = fill(
        template,
        STYLE=STYLE,
        COLOURS=_author_colours(0),
        DARKCOLOURS=_author_colours(1),
        SECONDS=f"{made['seconds']:.0f}",
        MAP=_map(places, authors),
        HITS="".join(_hits(entry) for entry in made["found"]),
        WORDS="".join(
            f"<tr><td>{escaped(word)}</td><td>{escaped(', '.join(others))}</td></tr>"
            for word, others in made["words"].items()
        ),
        FEW=f"{curve[0]['n_labels']:,}",
        FEWRIGHT=f"{100 * curve[0]['with vectors']:.0f}",
        MANY=f"{curve[-1]['n_labels']:,}",
        MANYRIGHT=f"{100 * curve[-1]['with vectors']:.0f}",
        ACCURACY=_accuracy(curve),
        GIVEN=f"{100 * given:.0f}",
        RIGHT=f"{100 - 100 * same['error']:.0f}",
        RELIABILITY=_reliability(same["reliability"]),
        NNEW=f"{same['n_new']:,}",
        NCALIBRATION=f"{same['n_calibration']:,}",
        BOUND=percent(same["bound"]),
        HELD=_held(same),
        BARS=_bars(rows),
        ROWS="".join(_row(name, found) for name, found in rows),
        BROKEN=_broken(other),
        CERTIFICATE=made["certificate"]._repr_html_(),
    )
    return filled.replace(" %", "\N{NO-BREAK SPACE}%")


def _author_colours(dark: int) -> str:
    return "".join(
        f".author{i} {{ stroke: {both[dark]}; fill: none }} .name{i} {{ fill: {both[dark]} }}"
        for i, both in enumerate(_AUTHORS)
    )


def _map(places, authors) -> str:
    width, height, edge = 480, 400, 14
    (left, low), (right, high) = places.min(axis=0), places.max(axis=0)
    panel = Panel((edge, edge, width - 2 * edge, height - 2 * edge), (left, right), (low, high))
    parts, named = [], []
    for i, author in enumerate(dict.fromkeys(authors)):
        own = places[np.array(authors) == author]
        at = " ".join("M{:.1f} {:.1f}h0".format(*panel.at(x, y)) for x, y in own)
        parts.append(f'<path class="author{i}" d="{at}" stroke-width="3.4" stroke-linecap="round" '
                     'stroke-opacity="0.5"/>')  # fmt: skip
        named.append((author, panel.at(*np.median(own, axis=0))))
    for i, (name, (x, y)) in enumerate(_apart(named, width)):
        halo = 'class="paper-line" stroke-width="4" stroke-linejoin="round"'
        words = text(x, y, name, f"name{i}", anchor="middle", size=15, bold=True)
        parts += [words.replace(f'class="name{i}"', halo), words]
    svg = sheet(width, height, "A map of the passages, coloured by author", parts, style="")
    return svg.replace("<svg ", '<svg class="wide" ')


def _apart(named: list[tuple], width: float) -> list[tuple]:
    """Names moved up or down until none overlaps another; inside the picture."""
    placed: list[tuple] = []
    for name, (x, y) in named:
        half = 4.6 * len(name)
        x = min(max(x, half + 6), width - half - 6)
        for shift in (0, -17, 17, -34, 34, -51, 51):
            clash = (abs(y + shift - v) < 16 and abs(x - u) < half + 4.6 * len(other)
                     for other, (u, v) in placed)  # fmt: skip
            if not any(clash):
                break
        placed.append((name, (x, y + shift)))
    return placed


def _hits(entry: dict) -> str:
    found = "".join(
        f"<blockquote>{_marked(hit['text'], hit['matching'])}<cite>"
        f"{escaped(hit['author'])}, {escaped(hit['book'])} · cosine {hit['cosine']:.2f}"
        "</cite></blockquote>"
        for hit in entry["hits"]
    )
    return f"<h3>“{escaped(entry['query'])}”</h3>{found}"


def _marked(passage: str, words: Iterable[str]) -> str:
    """The passage as HTML, with whole words marked."""
    found = "|".join(re.escape(word) for word in words)
    if not found:
        return escaped(passage)
    pieces = re.split(rf"(?<!\w)({found})(?!\w)", passage, flags=re.IGNORECASE)
    return "".join(
        f"<mark>{escaped(piece)}</mark>" if i % 2 else escaped(piece)
        for i, piece in enumerate(pieces)
    )


def _accuracy(curve: list[dict]) -> str:
    labels = [point["n_labels"] for point in curve]
    lines = {"with vectors": "a", "n-grams alone": "d"}
    values = [point[name] for point in curve for name in lines]
    panel = Panel((44, 36, 410, 210), (labels[0], labels[-1]), (min(values) - 0.03, 1.0), True)
    panel.axes("labelled passages", "accuracy on new passages", x_ticks=labels)
    for name, kind in lines.items():
        ys = [point[name] for point in curve]
        panel.curve(labels, ys, kind).dots(labels, ys, kind, 4)
    panel.says(labels[0] * 1.1, max(values) * 0.99, 'TextClassifier("english")', "a")
    panel.says(labels[0] * 1.1, max(values) * 0.99 - 0.07, "TextClassifier(), n-grams alone", "d")
    return sheet(480, 290, "Accuracy against the number of labels", panel.parts, style="")


def _reliability(points: list[dict]) -> str:
    panel = Panel((44, 36, 410, 250), (0, 1), (0, 1))
    panel.axes("probability that the classifier gives its answer", "share of right answers")
    panel.curve([0, 1], [0, 1], "quiet", dash="5 4", width=1.4)
    for point in points:
        ends = interval({"accuracy": point["right"], "n_test": point["n"], "sd": 0, "dataset": ""})
        low, high = (panel.at(point["probability"], min(max(end, 0), 1)) for end in ends)
        panel.parts.append(line([low, high], "a", 1.6))
        panel.dots([point["probability"]], [point["right"]], "a", 2.5 + point["n"] ** 0.5 / 4)
    return sheet(480, 330, "Reliability diagram", panel.parts, style="")


def _row(name: str, found: dict) -> str:
    alarm = '<span class="bad">alarm</span>' if found["alarm"] else "no alarm"
    cells = {
        "new passages from": name,
        "guaranteed error": f"at most {rounded_up(found['bound'], 3)}",
        "measured error": f"{found['error']:.3f}",
        "drift monitor": alarm,
    }
    return "<tr>" + "".join(f'<td data-name="{c}">{v}</td>' for c, v in cells.items()) + "</tr>"


def _held(found) -> str:
    count = (
        f"On {found['n_new']:,} new passages of the same books it was {100 * found['error']:.1f} %"
    )
    if found["error"] <= found["bound"]:
        return f'{count}: <span class="good">the guarantee holds.</span>'
    return (
        f"{count}, above the guarantee. This happens by chance in at most 5 % of all runs; "
        "--random-state draws other passages."
    )


def _broken(found) -> str:
    outcome = (
        f"The error was {100 * found['error']:.1f} %, "
        + ("above" if found["error"] > found["bound"] else "even so below")
        + f" the bound of {percent(found['bound'])}."
    )
    if not found["alarm"]:
        return f"{outcome} The drift monitor did not notice the difference this time."
    return (
        f"{outcome} The assumption can be tested without labels, and the drift monitor raised an "
        f"alarm: changed are {', '.join(found['changes'])}. After an alarm, label some of the new "
        "texts and train again."
    )


def _bars(rows) -> str:
    top = max(max(found["bound"], found["error"]) for _, found in rows) * 1.15
    panel = Panel((126, 22, 326, 112), (0, top), (0, 2))
    panel.axes("error rate on new passages", "", y_ticks=())
    for number, (name, found) in enumerate(rows):
        y = 1.5 - number
        (x, middle), (start, _) = panel.at(found["error"], y), panel.at(0, y)
        kind = "a" if found["error"] <= found["bound"] else "b"
        bound = panel.at(found["bound"], y)[0]
        panel.parts += [
            f'<rect class="{kind}" x="{start:.1f}" y="{middle - 12:.1f}" width="{x - start:.1f}" '
            'height="24" rx="3"/>',
            line([(bound, middle - 20), (bound, middle + 20)], "ink", 3),
            text(118, middle + 5, name, anchor="end"),
        ]
    return sheet(480, 178, "Measured error and guarantee", panel.parts, style="")
