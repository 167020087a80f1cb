"""A map of texts by their vectors: one HTML page with a chart by Altair (extra `report`)."""

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
    if labels is not None:
        for point, label in zip(points, labels):
            point["class"] = str(label)

    chart = _chart(points, has_classes=labels is not None)
    return render("map.html", title=title, charts=[chart], runtime=chart_runtime())


def _chart(points: list[dict[str, Any]], has_classes: bool) -> dict[str, Any]:
    """Vega-Lite specification of the points."""
    import altair as alt

    data = alt.Data(values=points)
    free_scale = alt.Scale(zero=False)
    circles = alt.Chart(data).mark_circle(opacity=0.7)
    chart = circles.encode(
        x=alt.X("x:Q", axis=None, scale=free_scale),
        y=alt.Y("y:Q", axis=None, scale=free_scale),
        tooltip=["text:N"],
    )

    if has_classes:
        # A click on a class in the legend fades all other classes.
        selection = alt.selection_point(fields=["class"], bind="legend")
        opacity = alt.condition(selection, alt.value(0.7), alt.value(0.1))
        columns = alt.ExprRef("max(1, floor(width / 180))")
        legend = alt.Legend(orient="bottom", columns=columns, labelLimit=150, title=None)
        chart = chart.add_params(selection)
        chart = chart.encode(
            color=alt.Color("class:N", legend=legend),
            opacity=opacity,
            tooltip=["class:N", "text:N"],
        )

    chart = chart.interactive()
    return chart.properties(width="container", height=600).to_dict()
