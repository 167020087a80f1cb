"""A map of texts by their vectors, as one HTML file or as a table for Embedding Atlas."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.classify.inputs import check_length
from pacsent.encoders import as_encoder
from pacsent.files import replacing
from pacsent.maths.arrays import unit_rows
from pacsent.maths.weights import main_plane
from pacsent.search.text_clusters import Clusters, clusters
from pacsent.text.pages import render
from pacsent.text.texts import as_texts

PAGE_FOLDER = Path(__file__).parent / "page"  # styles and scripts, which the server uses as well
_MAX_CHARACTERS = 20_000  # of a text that the page keeps
_MIN_DIAMETER, _MAX_DIAMETER = 4.0, 11.0  # of points, in pixels
_NO_WORD = "no in-vocabulary word"


class TextMap(NamedTuple):
    """Texts, their places, the variances of their posteriors, classes and groups if known."""

    texts: list[str]
    places: np.ndarray  # (n, 2), on the principal plane
    variances: np.ndarray  # (n,); nan without an in-vocabulary word
    labels: list[str] | None = None
    groups: Clusters | None = None


def make_map(
    encoder: Any, texts: Any, labels: Sequence[str] | None = None, *, n_groups: int | None = 0
) -> TextMap:
    """Place texts on the principal plane of the directions of their vectors.

    `clusters` makes and names `n_groups` groups; None chooses their number, 0 makes none.

    >>> text_map = make_map("english", ["red wine", "white wine", "a cat"])
    >>> text_map.places.shape
    (3, 2)
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError("A map needs at least one text. Got none.")
    if labels is not None:
        check_length(labels, len(texts), "labels")
    means, variances = as_encoder(encoder).posterior(texts)
    vectors = unit_rows(np.asarray(means))
    names = None if labels is None else list(map(str, labels))
    groups = None if n_groups == 0 else clusters(texts, n_groups, vectors=vectors, random_state=0)
    return TextMap(texts, main_plane(vectors), variances, names, groups)


def write_html(text_map: TextMap, path: str | os.PathLike, title: str = "A map of texts") -> None:
    """Write the map as one HTML file that needs no network: pan, zoom, search, click."""
    labels, groups = text_map.labels, text_map.groups
    classes = sorted(set(labels or ()))
    group = np.searchsorted(classes, labels).tolist() if labels else []
    named: list[dict[str, Any]] = []
    if groups is not None:
        order = np.argsort([-size for size in groups.sizes], kind="stable")
        members = [np.flatnonzero(groups.labels == c).tolist() for c in order]
        named = [{"name": groups.names[c], "rows": rows} for c, rows in zip(order, members)]
        if not classes:
            rank = np.append(np.argsort(order), len(order))  # the last: texts without a vector
            group = rank[groups.labels].tolist()
            classes = [*(item["name"] for item in named), _NO_WORD][: max(group) + 1]
    # The diameter of a point grows with the standard deviation of its posterior.
    deviations = np.sqrt(np.nan_to_num(text_map.variances))
    low, high = np.quantile(deviations, [0.02, 0.98])
    sizes = np.interp(deviations, [low, max(high, low + 1e-9)], [_MIN_DIAMETER, _MAX_DIAMETER])
    about = f"{len(text_map.texts):,} texts on the plane on which their vectors differ most"
    if groups is not None and not labels:
        about += ", grouped by meaning"
    page = render(
        "map.html",
        title=title,
        about=about,
        sizes="Larger points have posteriors with a larger variance." if high > low else "",
        page_style=(PAGE_FOLDER / "page.css").read_text(encoding="utf-8"),
        map_script=(PAGE_FOLDER / "map.js").read_text(encoding="utf-8"),
        data={
            "x": text_map.places[:, 0].round(4).tolist(),
            "y": text_map.places[:, 1].round(4).tolist(),
            "size": sizes.round(1).tolist(),
            "classes": classes,
            "group": group,
            "named": named,
            "texts": [text[:_MAX_CHARACTERS] for text in text_map.texts],
        },
    )
    with replacing(Path(path)) as file:
        file.write(page.encode("utf-8", "replace"))
