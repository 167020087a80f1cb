"""The page of the demo: text, tables and pictures in one HTML file without any script."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from pacsent.bench.drawing import STYLE, Panel, line, sheet, text
from pacsent.bench.figures import interval
from pacsent.maths.rounding import percent, rounded_up
from pacsent.text.html import escaped

# of the ten authors: in light mode, in dark mode
_AUTHORS = (
    ("#3b6fd4", "#7ea6ff"), ("#c05f00", "#f2a54a"), ("#177a4b", "#5cc98f"),
    ("#b0307f", "#f08cc6"), ("#7445b8", "#bb9df5"), ("#7a5c00", "#d8b83f"),
    ("#0a7d91", "#4fc6d9"), ("#b3261e", "#ff8a80"), ("#55606d", "#a9b4c2"),
    ("#4d7c0f", "#a3d65c"),
)  # fmt: skip

_CSS = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #55606d; --line: #d5dae1;
  --mark: #ffe58a; --good: #186a3b; --bad: #a93226; --band: #f2f5f8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e8ecf2; --soft: #a9b4c2;
  --line: #39424f; --mark: #5c4a00; --good: #7fd49a; --bad: #ff938c; --band: #1c222c; } }
body { font: 17px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--paper); color: var(--ink); }
h1 { line-height: 1.2; margin-bottom: .4rem; }
h2 { margin: 2.8rem 0 .4rem; line-height: 1.3; } h3 { margin: 1.4rem 0 .2rem; font-size: 1.05rem; }
p { margin: .6rem 0; }
nav a { margin-right: .9rem; white-space: nowrap; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: 3px; }
figure { margin: 1rem 0; } figcaption, .soft { color: var(--soft); font-size: .92rem; }
svg { width: 100%; height: auto; max-width: 34rem; display: block; }
svg.wide { max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
td, th { padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid var(--line); } th { font-weight: 600; }
blockquote { margin: .5rem 0; padding: .1rem 0 .1rem .9rem; border-left: 3px solid var(--line);
  font-size: .97rem; }
blockquote cite { color: var(--soft); font-style: normal; display: block; font-size: .9rem; }
mark { background: var(--mark); color: inherit; border-radius: 3px; padding: 0 .12em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; background: var(--band);
  padding: .8rem 1rem; border-radius: 8px; line-height: 1.5; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
@media (max-width: 40rem) { table.stacked, .stacked tbody { display: block; }
  .stacked tr:first-child { display: none; } .stacked tr { display: block; padding: .5rem 0; }
  .stacked td { display: flex; justify-content: space-between; gap: 1rem; padding: .1rem 0; }
  .stacked td::before { content: attr(data-name); color: var(--soft); } }
"""

_NEXT = """\
# a table with a column of texts and a column of labels; a quarter is held out for the guarantee
pacsent classify train mine.csv --text-column text --label-column label --holdout 0.25 -o model
pacsent classify predict model new.csv --text-column text -o answers.csv

# search by meaning, near-duplicates and a map, without any label
pacsent index english texts.txt -o index
pacsent search index "a storm at sea"
pacsent map english texts.txt -o map.html

# the same in a browser, and for programs
pacsent serve english"""


def page(made: dict, places: np.ndarray, authors: Sequence[str]) -> str:
    """The whole page, from the results of the demo and the places of the passages on its map."""
    parts = [
        _introduction(made), _map(places, authors), _search(made), _accuracy(made["curve"]),
        _reliability(made["same_books"]), _guarantee(made), _certificate(made["certificate"]),
        f'<h2 id="next">Your own texts</h2><pre>{escaped(_NEXT)}</pre>',
        "<p><code>pacsent --help</code> lists all commands.</p>",
    ]  # fmt: skip
    colours = (_author_colours(0), _author_colours(1))
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>pacsent demo: thirty books</title>{STYLE}<style>{_CSS}{colours[0]}"
        f"@media (prefers-color-scheme: dark) {{ {colours[1]} }}</style></head><body>"
    )
    body = "\n".join(parts).replace(" %", "\N{NO-BREAK SPACE}%")
    return f"{head}{body}</body></html>\n"


def _author_colours(dark: int) -> str:
    return "".join(
        f".author{i} {{ stroke: {both[dark]}; fill: none }} .name{i} {{ fill: {both[dark]} }}"
        for i, both in enumerate(_AUTHORS)
    )


def _introduction(made) -> str:
    links = (("map", "Map"), ("search", "Search"), ("accuracy", "Accuracy"),
             ("reliability", "Probabilities"), ("guarantee", "Guarantee"),
             ("certificate", "Certificate"), ("next", "Your own texts"))  # fmt: skip
    return (
        "<h1>Thirty books, read by pacsent</h1>"
        "<p>This demo reads 3,000 passages from thirty public-domain books by ten authors with the "
        "English model that comes with the package. It places the passages on a map, searches them "
        "by meaning, learns to recognise the authors from labelled passages, and computes a "
        "guarantee: an upper bound on how often the classifier will be wrong. Each result is then "
        "checked on passages that were held out. Everything was computed on this computer in "
        f"{made['seconds']:.0f} seconds; nothing was downloaded.</p>"
        f"<nav>{' '.join(f'<a href=#{name}>{title}</a>' for name, title in links)}</nav>"
    )


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


# ------------------------------------------------------------------------------------------------
# map and search
# ------------------------------------------------------------------------------------------------


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
    return (
        '<h2 id="map">A map of the passages</h2><p>Each point is a passage, placed by its vector: '
        "passages that use similar words are close to each other. The vectors were computed "
        "without knowing the authors, who are shown by colour.</p>"
        + _figure(
            svg.replace("<svg ", '<svg class="wide" '),
            "The plane on which the mean vectors of the thirty books differ most. A name stands "
            "near the median of the author's passages. "
            '<a href="map.html">The same map to zoom and read</a>.',
        )
    )


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


def _search(made) -> str:
    parts = [
        '<h2 id="search">Search by meaning</h2><p>A query finds the passages whose vectors point '
        "in the most similar direction. The five words that contribute most to the similarity are "
        "<mark>marked</mark>; they need not occur in the query.</p>"
    ]
    for entry in made["found"]:
        parts.append(f"<h3>“{escaped(entry['query'])}”</h3>")
        for hit in entry["hits"]:
            where = escaped(f"{hit['author']}, {hit['book']}")
            parts.append(
                f"<blockquote>{_marked(hit['text'], hit['matching'])}"
                f"<cite>{where} · cosine {hit['cosine']:.2f}</cite></blockquote>"
            )
    rows = "".join(
        f"<tr><td>{escaped(word)}</td><td>{escaped(', '.join(others))}</td></tr>"
        for word, others in made["words"].items()
    )
    parts.append(
        "<p>This works because the English model has learned which words are used in similar "
        f"places:</p><table><tr><th>word</th><th>nearest words</th></tr>{rows}</table>"
    )
    return "".join(parts)


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


# ------------------------------------------------------------------------------------------------
# the classifier
# ------------------------------------------------------------------------------------------------


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
    svg = sheet(480, 290, "Accuracy against the number of labels", panel.parts, style="")
    first, last = curve[0], curve[-1]
    return (
        '<h2 id="accuracy">Who wrote it?</h2><p>A classifier learns the ten authors from labelled '
        "passages. Its features are words, pairs of words, and the passage's vector; the vectors "
        f"help most when labels are few. With {first['n_labels']:,} labels it recognises "
        f"{100 * first['with vectors']:.0f} % of the new passages, with {last['n_labels']:,} "
        f"labels {100 * last['with vectors']:.0f} %; guessing would be right for 10 %.</p>"
        + _figure(svg, "600 passages of the same books, none of which was used for training.")
    )


def _reliability(found: dict) -> str:
    panel = Panel((44, 36, 410, 250), (0, 1), (0, 1))
    panel.axes("probability that the classifier gives its answer", "share of right answers")
    panel.curve([0, 1], [0, 1], "quiet", dash="5 4", width=1.4)
    for point in found["reliability"]:
        ends = interval({"accuracy": point["right"], "n_test": point["n"], "sd": 0, "dataset": ""})
        low, high = (panel.at(point["probability"], min(max(end, 0), 1)) for end in ends)
        panel.parts.append(line([low, high], "a", 1.6))
        panel.dots([point["probability"]], [point["right"]], "a", 2.5 + point["n"] ** 0.5 / 4)
    given = sum(p["n"] * p["probability"] for p in found["reliability"]) / found["n_new"]
    svg = sheet(480, 330, "Reliability diagram", panel.parts, style="")
    return (
        '<h2 id="reliability">Can its probabilities be believed?</h2><p>The classifier also gives '
        "the probability that its answer is right. If the probabilities are calibrated, the points "
        "lie on the dashed line: of the answers given with 80 %, about 80 % are right. Here "
        f"it gave {100 * given:.0f} % on average, and {100 - 100 * found['error']:.0f} % of its "
        "answers were right.</p>"
        + _figure(
            svg,
            f"{found['n_new']:,} new passages in bins of the probability; larger points have more "
            "passages, and vertical lines are 95 % intervals, of which one in twenty misses "
            "the dashed line by chance.",
        )
    )


def _guarantee(made) -> str:
    same, other = made["same_books"], made["other_books"]
    rows = (("the same books", same), ("other books", other))
    columns = ("new passages from", "guaranteed error", "measured error", "exchangeability test")
    cells = []
    for name, found in rows:
        alarm = '<span class="bad">alarm</span>' if found["alarm"] else "no alarm"
        shown = (name, f"at most {rounded_up(found['bound'], 3)}", f"{found['error']:.3f}",
                 f"<span>{alarm}, {_p(found)}</span>")  # fmt: skip
        cells.append("".join(f'<td data-name="{c}">{v}</td>' for c, v in zip(columns, shown)))
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        '<h2 id="guarantee">Guaranteed and measured error</h2>'
        f"<p>A quarter of the labelled passages, {same['n_calibration']:,}, was held out as a "
        "calibration set. From the errors on it follows a guarantee: with 95 % confidence, the "
        f"error rate on new passages is at most {percent(same['bound'])}. {_held(same)}</p>"
        + _figure(_bars(rows), "Bars: measured error. Vertical lines: the guarantee.")
        + f'<table class="stacked"><tr>{head}</tr>{body}</table>'
        "<p><strong>The second row is meant to fail.</strong> There the classifier learned from "
        "two books of each author and was tested on a third. The guarantee assumes that new "
        "passages are exchangeable with the calibration set, that is, drawn from the same source; "
        f"another book has other characters, places and topics. {_broken(other)}</p>"
    )


def _p(found) -> str:
    return "p &lt; 0.001" if found["p_value"] < 0.001 else f"p = {found['p_value']:.2g}"


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
        return f"{outcome} The exchangeability test did not notice the difference this time."
    return (
        f"{outcome} The assumption can be tested without labels, and the test raised an alarm: a "
        "second classifier, trained to distinguish the new passages from the old ones, was right "
        f"for {100 * found['distinguished']:.0f} % of them, where 50 % is guessing "
        f"({_p(found)}). After an alarm, label some of the new texts and train "
        "again."
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


def _certificate(certificate) -> str:
    return (
        '<h2 id="certificate">A certificate without labels</h2><p>A guarantee is also possible '
        "where no text is labelled. This one is about the vectors themselves: how much they know "
        f"about the rest of a passage.</p>{certificate._repr_html_()}"
    )
