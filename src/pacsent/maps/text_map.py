"""A map of texts by their vectors, as one HTML file or as a table for Embedding Atlas."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.encoders import SentenceVectorizer
from pacsent.files import replacing
from pacsent.lazy import needed
from pacsent.maths.arrays import unit_rows
from pacsent.maths.plane import main_plane
from pacsent.text.html import escaped, fill, script_json
from pacsent.text.texts import as_texts

FOLDER = Path(__file__).parent  # page.css and map.js, which the server's page uses as well
_LONGEST = 20_000  # characters of a text that the page keeps
_SMALLEST, _LARGEST = 4.0, 11.0  # diameters of points, in pixels


class TextMap(NamedTuple):
    """Texts, their places, the variances of their posteriors and, if known, their classes."""

    texts: list[str]
    places: np.ndarray  # (n, 2)
    variances: np.ndarray  # (n,); nan without a known word
    labels: list[str] | None = None


def make_map(
    vectorizer: SentenceVectorizer, texts: Any, labels: Sequence[str] | None = None
) -> TextMap:
    """Place texts on the plane on which the directions of their vectors differ most.

    >>> from pacsent import make
    >>> made = make_map(make("SIF-sum", "english").fit([]), ["red wine", "white wine", "a cat"])
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
    means, variances = vectorizer.posterior(texts)
    names = None if labels is None else list(map(str, labels))
    return TextMap(texts, main_plane(unit_rows(means)), variances, names)


def write_html(made: TextMap, path: str | os.PathLike, title: str = "A map of texts") -> None:
    """Write the map as one HTML file that needs no network: pan, zoom, search, click."""
    classes = sorted(set(made.labels)) if made.labels else []
    number = {name: i for i, name in enumerate(classes)}
    sizes, about = _sizes(made.variances)
    data = {
        "x": made.places[:, 0].round(4).tolist(),
        "y": made.places[:, 1].round(4).tolist(),
        "size": sizes.round(1).tolist(),
        "classes": classes,
        "group": [number[name] for name in made.labels] if made.labels else [],
        "texts": [text[:_LONGEST] for text in made.texts],
    }
    page = fill(
        (FOLDER / "map.html").read_text(encoding="utf-8"),
        TITLE=escaped(title),
        ABOUT=f"{len(made.texts):,} texts on the plane on which their vectors differ most",
        SIZES=about,
        STYLE=(FOLDER / "page.css").read_text(encoding="utf-8"),
        MAP=(FOLDER / "map.js").read_text(encoding="utf-8"),
        DATA=script_json(data),
    )
    with replacing(Path(path)) as file:
        file.write(page.encode())


def write_atlas(made: TextMap, path: str | os.PathLike) -> None:
    """Write Parquet for Embedding Atlas: embedding-atlas FILE --text text --x x --y y."""
    parquet = needed("pyarrow.parquet", "Writing Parquet needs pyarrow", "parquet")
    import pyarrow

    columns = {"text": _valid(made.texts), "x": made.places[:, 0], "y": made.places[:, 1],
               "variance": made.variances}  # fmt: skip
    if made.labels is not None:
        columns["label"] = _valid(made.labels)
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
