"""A map of texts by their vectors: one HTML page with a chart by Altair (extra `report`)."""

import colorsys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.certify.columns import check_length
from pacsent.paper.figures import chart_runtime, require_altair
from pacsent.search.text_clusters import clusters
from pacsent.sentences import as_encoder
from pacsent.sentences.solvers.weights import main_plane
from pacsent.text.pages import render
from pacsent.text.texts import as_texts

_MAX_TOOLTIP_CHARACTERS = 500
_CROWDED = 1000  # texts above which points are small
_MAX_NAMES = 30  # classes whose names are drawn beside their points
_MIN_NAMED_WIDTH = 500  # pixels of a chart, below which names are in the legend alone
_OPACITY = 0.75
_HEIGHT = 620
_COLORS = (
    "#2f6fd0",
    "#e07b1a",
    "#2f9e5e",
    "#d63b3b",
    "#8e4fd0",
    "#8a5a2b",
    "#e87ab8",
    "#69737f",
    "#a9a51a",
    "#14a6bf",
    "#7bc043",
    "#c2188f",
    "#82b1ff",
    "#0f766e",
    "#f2a57b",
    "#b9a3f0",
)
_GOLDEN_ANGLE = 137.508  # degrees: successive multiples are never near each other
_FIRST_HUE = 100.0
_LIGHTNESSES = (0.38, 0.62, 0.5)
_SATURATION = 0.6
_NO_VECTOR = "no in-vocabulary word"  # the class of texts that belong to no cluster


def make_map(
    encoder: Any,
    texts: Any,
    labels: Sequence[str] | None = None,
    *,
    n_groups: int | None = 0,
    title: str = "A map of texts",
) -> str:
    """Make an HTML page with a chart of texts on the principal plane of their vectors' directions.

    The page works offline and shows the text under the pointer.

    Parameters
    ----------
    encoder : encoder, path or name
        Whatever `as_encoder` takes.
    texts : iterable of str
        At least one text.
    labels : sequence of str, default=None
        A class for each text: the colours. None colours clusters.
    n_groups : int or None, default=0
        Clusters to make and name (`clusters`) if there are no labels. None chooses their number,
        0 makes none.
    title : str
        Title of the page.

    Returns
    -------
    page : str
        To be written to a file with the encoding UTF-8.

    Examples
    --------
    >>> page = make_map("english", ["red wine", "white wine", "a cat"], ["drink", "drink", "pet"])
    >>> page.startswith("<!doctype html>"), "white wine" in page
    (True, True)
    """
    require_altair()

    texts = as_texts(texts)
    if not texts:
        raise ValueError("A map needs at least one text. Got none.")
    if labels is not None:
        check_length(labels, len(texts), "labels")

    encoded = np.asarray(as_encoder(encoder).encode(texts))
    vectors = unit_rows(encoded)  # (n, n_dims)
    if labels is None and n_groups != 0:
        groups = clusters(texts, n_groups, vectors=vectors, random_state=0)
        labels = []
        for group in groups.labels:
            labels.append(groups.names[group] if group >= 0 else _NO_VECTOR)

    places = main_plane(vectors).round(4)  # (n, 2)
    points: list[dict[str, Any]] = []
    for text, (x, y) in zip(texts, places.tolist()):
        shown_text = text[:_MAX_TOOLTIP_CHARACTERS]
        points.append({"text": shown_text, "x": x, "y": y})
    classes: list[dict[str, Any]] = []
    if labels is not None:
        for point, label in zip(points, labels):
            point["class"] = str(label)
        classes = _classes(points)

    chart = _chart(points, classes)
    return render(
        "map.html",
        title=title,
        n_texts=len(texts),
        classes=classes,
        charts=[chart],
        runtime=chart_runtime(),
    )


def _classes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name, number of texts, colour and middle of each class, the most frequent first."""
    rows_of: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        rows_of.setdefault(point["class"], []).append((point["x"], point["y"]))
    names = sorted(rows_of, key=lambda name: (-len(rows_of[name]), name))

    classes = []
    for name, color in zip(names, distinct_colors(len(names))):
        x, y = np.median(rows_of[name], axis=0).round(4).tolist()
        readable = name.encode("utf-8", "replace").decode()  # surrogates cannot be written
        classes.append(
            {
                "class": name,
                "name_parts": readable.split("_"),  # a line may end after an underscore
                "n": len(rows_of[name]),
                "color": color,
                "x": x,
                "y": y,
            }
        )
    return classes


def distinct_colors(n: int) -> list[str]:
    """Colours that differ from each other, and from a white and from a black page.

    The first sixteen are chosen by hand; further ones are hues in steps of the golden angle, in
    rounds of other lightness.

    >>> colors = distinct_colors(80)
    >>> len(set(colors)), colors[0]
    (80, '#2f6fd0')
    """
    colors = list(_COLORS[:n])
    for place in range(n - len(colors)):
        hue = (place * _GOLDEN_ANGLE + _FIRST_HUE) % 360
        lightness = _LIGHTNESSES[place % len(_LIGHTNESSES)]
        red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, _SATURATION)
        colors.append(f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}")
    return colors


def _chart(points: list[dict[str, Any]], classes: list[dict[str, Any]]) -> dict[str, Any]:
    """Vega-Lite specification of the points, and of the names of a few classes."""
    import altair as alt

    # Many points are drawn smaller: they overlap less.
    is_crowded = len(points) > _CROWDED
    size = 25 if is_crowded else 60

    x = alt.X("x:Q", axis=None, scale=alt.Scale(zero=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False))
    circles = alt.Chart(alt.Data(values=points))
    circles = circles.mark_circle(size=size, opacity=_OPACITY, stroke=None)
    circles = circles.encode(x=x, y=y)
    if not classes:
        chart = circles.encode(tooltip=["text:N"], color=alt.value(_COLORS[0])).interactive()
        return chart.properties(width="container", height=_HEIGHT).to_dict()

    # The legend of the page sets `shown`, the name of a class: all others fade. "" shows all.
    shown = alt.param(name="shown", value="")
    is_shown = "shown === '' || shown === datum.class"
    names = [a_class["class"] for a_class in classes]
    colors = [a_class["color"] for a_class in classes]
    scale = alt.Scale(domain=names, range=colors)
    circles = circles.encode(
        color=alt.Color("class:N", scale=scale, legend=None),
        opacity=alt.condition(is_shown, alt.value(_OPACITY), alt.value(0.06)),
        tooltip=["class:N", "text:N"],
    )
    circles = circles.add_params(shown).interactive()

    # A name lies on its halo, which is the same text with a wide outline in the page's colour.
    layers = [circles]
    if len(classes) <= _MAX_NAMES:
        places = [{key: a_class[key] for key in ("class", "x", "y")} for a_class in classes]
        named = alt.Chart(alt.Data(values=places))
        is_named = f"width < {_MIN_NAMED_WIDTH} ? false : {is_shown}"
        text_opacity = alt.condition(is_named, alt.value(1.0), alt.value(0.0))
        for style in ("halo", "name"):
            text = named.mark_text(style=style, fontSize=13, fontWeight=600, limit=200)
            layers.append(text.encode(x=x, y=y, text="class:N", opacity=text_opacity))
    return alt.layer(*layers).properties(width="container", height=_HEIGHT).to_dict()
