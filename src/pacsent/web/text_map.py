"""A map of texts by their vectors, as one HTML file or as a table for Embedding Atlas."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.encoders import as_encoder
from pacsent.files import replacing
from pacsent.maths.arrays import unit_rows
from pacsent.maths.plane import main_plane
from pacsent.optional import import_optional
from pacsent.search.text_clusters import Clusters, clusters
from pacsent.text.html import escaped, fill, script_json
from pacsent.text.texts import as_texts

FOLDER = Path(__file__).parent / "page"  # page.css and map.js, which the server's page uses as well
LAYOUTS = ("plane", "umap", "tsne")
_LONGEST = 20_000  # characters of a text that the page keeps
_SMALLEST, _LARGEST = 4.0, 11.0  # diameters of points, in pixels


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
    """Place texts on the plane on which the directions of their vectors differ most.

    `encoder` is anything that `pacsent.encoders.as_encoder` takes. `layout` "umap" or "tsne" (extra
    `[maps]`) adds places that keep near texts near. `n_groups` is the number of groups
    that `clusters` makes and names; None chooses it, 0 makes none.

    >>> made = make_map("english", ["red wine", "white wine", "a cat"])
    >>> made.places.shape
    (3, 2)
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError(
            "A map needs at least one text. Got none. Give a file with one text a line."
        )
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
    other = None if layout == "plane" else _laid_out(vectors, layout)
    return TextMap(texts, main_plane(vectors), variances, names, groups, other, layout)


def _laid_out(vectors: np.ndarray, layout: str) -> np.ndarray:
    """Places by UMAP or t-SNE; texts without a vector are in the middle."""
    there = vectors.any(axis=1)
    X, found = vectors[there], np.zeros((len(vectors), 2))
    if len(X) < 5:
        found[there] = main_plane(X)  # too few for neighbours
    elif layout == "umap":
        umap = import_optional("umap", "layout='umap' needs umap-learn", "maps")
        near = min(15, len(X) - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one thread, for the same picture each time
            made = umap.UMAP(n_neighbors=near, metric="cosine", random_state=0, min_dist=0.05)
            found[there] = made.fit_transform(X)
    else:
        tsne = import_optional("openTSNE", "layout='tsne' needs openTSNE", "maps")
        near = min(30, max(1, (len(X) - 1) // 3))
        found[there] = tsne.TSNE(perplexity=near, metric="cosine", random_state=0).fit(X)
    if there.any():
        found[~there] = found[there].mean(axis=0)
    return found


def write_html(made: TextMap, path: str | os.PathLike, title: str = "A map of texts") -> None:
    """Write the map as one HTML file that needs no network: pan, zoom, search, click."""
    classes = sorted(set(made.labels)) if made.labels else []
    number = {name: i for i, name in enumerate(classes)}
    group, named = [number[name] for name in made.labels] if made.labels else [], []
    if made.groups is not None:
        order = np.argsort([-size for size in made.groups.sizes], kind="stable")
        members = [np.flatnonzero(made.groups.labels == c).tolist() for c in order]
        named = [{"name": made.groups.names[c], "rows": m} for c, m in zip(order, members)]
        if not classes:
            rank = np.append(np.argsort(order), len(order))  # the last: texts without a vector
            classes, group = [one["name"] for one in named], rank[made.groups.labels].tolist()
            classes += ["no known word"] if len(order) in group else []
    other = None
    if made.other is not None:
        x, y = made.other.round(4).T.tolist()
        other = {"name": {"umap": "UMAP", "tsne": "t-SNE"}[made.layout], "x": x, "y": y}
    sizes, about = _sizes(made.variances)
    data = {
        "x": made.places[:, 0].round(4).tolist(),
        "y": made.places[:, 1].round(4).tolist(),
        "size": sizes.round(1).tolist(),
        "classes": classes,
        "group": group,
        "named": named,
        "other": other,
        "texts": [text[:_LONGEST] for text in made.texts],
    }
    page = fill(
        (FOLDER / "map.html").read_text(encoding="utf-8"),
        TITLE=escaped(title),
        ABOUT=f"{len(made.texts):,} texts"
        + ("" if made.other is not None else " on the plane on which their vectors differ most")
        + (", grouped by meaning" if made.groups is not None and not made.labels else ""),
        SIZES=about,
        STYLE=(FOLDER / "page.css").read_text(encoding="utf-8"),
        MAP=(FOLDER / "map.js").read_text(encoding="utf-8"),
        DATA=script_json(data),
    )
    with replacing(Path(path)) as file:
        file.write(page.encode())


def write_atlas(made: TextMap, path: str | os.PathLike) -> None:
    """Write Parquet for Embedding Atlas: embedding-atlas FILE --text text --x x --y y."""
    import pyarrow
    from pyarrow import parquet

    columns = {"text": _valid(made.texts), "x": made.places[:, 0], "y": made.places[:, 1],
               "variance": made.variances}  # fmt: skip
    if made.labels is not None:
        columns["label"] = _valid(made.labels)
    if made.groups is not None:
        named = [*made.groups.names, "no known word"]
        columns["group"] = _valid([named[c] for c in made.groups.labels])
    if made.other is not None:
        columns["layout_x"], columns["layout_y"] = made.other.T
    with replacing(Path(path)) as file:
        parquet.write_table(pyarrow.table(columns), file, compression="zstd")


def _valid(texts) -> list[str]:
    """The texts with what is no valid Unicode replaced: Parquet takes nothing else."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def _sizes(variances) -> tuple[np.ndarray, str]:
    """Diameters that grow with the standard deviation, and the page's sentence about them."""
    spread = np.sqrt(np.nan_to_num(variances))
    low, high = np.quantile(spread, [0.02, 0.98])
    if high <= low:
        return np.full(spread.size, 5.0), ""
    share = np.clip((spread - low) / (high - low), 0, 1)
    about = "Larger points have posteriors with a larger variance."
    return _SMALLEST + (_LARGEST - _SMALLEST) * share, about
