"""A map of texts by their vectors, as one HTML file or as a table for Embedding Atlas."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet

from pacsent.encoders import as_encoder
from pacsent.files import replacing
from pacsent.maths.arrays import unit_rows
from pacsent.maths.plane import main_plane
from pacsent.optional import import_optional
from pacsent.search.text_clusters import Clusters, clusters
from pacsent.text.pages import render
from pacsent.text.texts import as_texts

PAGE_FOLDER = Path(__file__).parent / "page"  # styles and scripts, which the server uses as well
LAYOUTS = ("plane", "umap", "tsne")
_MAX_CHARACTERS = 20_000  # of a text that the page keeps
_MIN_DIAMETER, _MAX_DIAMETER = 4.0, 11.0  # of points, in pixels
_NO_WORD = "no known word"


class TextMap(NamedTuple):
    """Texts, their places, the variances of their posteriors and, if known, their classes.

    `other` are places by another layout, called `layout`; `groups` those of `clusters`.
    """

    texts: list[str]
    places: np.ndarray  # (n, 2), on the principal plane
    variances: np.ndarray  # (n,); nan without a known word
    labels: list[str] | None = None
    groups: Clusters | None = None
    other: np.ndarray | None = None
    layout: str = "plane"


def make_map(
    encoder: Any,
    texts: Any,
    labels: Sequence[str] | None = None,
    *,
    layout: str = "plane",
    n_groups: int | None = 0,
) -> TextMap:
    """Place texts on the principal plane of the directions of their vectors.

    Parameters
    ----------
    encoder : anything that `pacsent.encoders.as_encoder` takes
    texts : iterable of str
    labels : sequence of str, optional
        The class of each text.
    layout : {"plane", "umap", "tsne"}, default="plane"
        UMAP and t-SNE (extra `[maps]`) add a layout in which similar texts are close.
    n_groups : int or None, default=0
        Number of groups that `clusters` makes and names; None chooses it, 0 makes none.

    Examples
    --------
    >>> text_map = make_map("english", ["red wine", "white wine", "a cat"])
    >>> text_map.places.shape
    (3, 2)
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError("A map needs at least one text. Got none.")
    if labels is not None and len(labels) != len(texts):
        raise ValueError(
            f"labels must have one for each of the {len(texts):,} texts. Got {len(labels):,} "
            "instead."
        )
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}. Got {layout!r} instead.")
    means, variances = as_encoder(encoder).posterior(texts)
    vectors = unit_rows(np.asarray(means))
    names = None if labels is None else list(map(str, labels))
    groups = None if n_groups == 0 else clusters(texts, n_groups, vectors=vectors)
    other = None if layout == "plane" else _neighbour_layout(vectors, layout)
    return TextMap(texts, main_plane(vectors), variances, names, groups, other, layout)


def _neighbour_layout(vectors: np.ndarray, layout: str) -> np.ndarray:
    """Places by UMAP or t-SNE; texts without a vector are in the middle."""
    has_vector = vectors.any(axis=1)
    X, places = vectors[has_vector], np.zeros((len(vectors), 2))
    if len(X) < 5:
        places[has_vector] = main_plane(X)  # too few for neighbours
    elif layout == "umap":
        umap = import_optional("umap", "layout='umap' needs umap-learn", "maps")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a seed means one thread
            places[has_vector] = umap.UMAP(
                n_neighbors=min(15, len(X) - 1), metric="cosine", random_state=0, min_dist=0.05
            ).fit_transform(X)
    else:
        tsne = import_optional("openTSNE", "layout='tsne' needs openTSNE", "maps")
        perplexity = min(30, max(1, (len(X) - 1) // 3))
        model = tsne.TSNE(perplexity=perplexity, metric="cosine", random_state=0)
        places[has_vector] = model.fit(X)
    if has_vector.any():
        places[~has_vector] = places[has_vector].mean(axis=0)
    return places


def write_html(text_map: TextMap, path: str | os.PathLike, title: str = "A map of texts") -> None:
    """Write the map as one HTML file that needs no network: pan, zoom, search, click."""
    labels, groups, other = text_map.labels, text_map.groups, text_map.other
    classes = sorted(set(labels)) if labels else []
    numbers = {name: i for i, name in enumerate(classes)}
    group = [numbers[name] for name in labels] if labels else []
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
    fractions = np.clip((deviations - low) / (high - low), 0, 1) if high > low else 0.2
    sizes = np.broadcast_to(
        _MIN_DIAMETER + (_MAX_DIAMETER - _MIN_DIAMETER) * fractions, deviations.shape
    )
    about = f"{len(text_map.texts):,} texts"
    if other is None:
        about += " on the plane on which their vectors differ most"
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
            "other": other
            if other is None
            else {
                "name": {"umap": "UMAP", "tsne": "t-SNE"}[text_map.layout],
                "x": other[:, 0].round(4).tolist(),
                "y": other[:, 1].round(4).tolist(),
            },
            "texts": [text[:_MAX_CHARACTERS] for text in text_map.texts],
        },
    )
    with replacing(Path(path)) as file:
        file.write(page.encode("utf-8", "replace"))


def write_atlas(text_map: TextMap, path: str | os.PathLike) -> None:
    """Write Parquet for Embedding Atlas: embedding-atlas FILE --text text --x x --y y."""
    columns: dict[str, Any] = {
        "text": text_map.texts,
        "x": text_map.places[:, 0],
        "y": text_map.places[:, 1],
        "variance": text_map.variances,
    }
    if text_map.labels is not None:
        columns["label"] = text_map.labels
    if text_map.groups is not None:
        names = [*text_map.groups.names, _NO_WORD]
        columns["group"] = [names[c] for c in text_map.groups.labels]
    if text_map.other is not None:
        columns["layout_x"], columns["layout_y"] = text_map.other.T
    for name in ("text", "label", "group"):  # Parquet takes valid Unicode only
        if name in columns:
            columns[name] = [value.encode("utf-8", "replace").decode() for value in columns[name]]
    with replacing(Path(path)) as file:
        parquet.write_table(pyarrow.table(columns), file, compression="zstd")
