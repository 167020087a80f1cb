"""A map of texts: where their vectors lie, in one HTML file or as a table for Embedding Atlas."""

import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.encoders import SentenceVectorizer
from pacsent.files import replacing
from pacsent.lazy import install_hint
from pacsent.maths.plane import main_plane

_HERE = Path(__file__).parent
_LONGEST = 160  # characters of a text that the page keeps
_SMALLEST, _LARGEST = 4.0, 11.0  # points, in pixels


class TextMap(NamedTuple):
    """Texts with their places, their posteriors' variances and, where known, their classes."""

    texts: list[str]
    places: np.ndarray  # (n, 2)
    variances: np.ndarray  # (n,); nan without a known word
    labels: list[str] | None = None


def make_map(
    vectorizer: SentenceVectorizer, texts: Sequence[str], labels: Sequence[str] | None = None
) -> TextMap:
    """Place texts on the plane on which the directions of their vectors differ most.

    Examples
    --------
    >>> from pacsent import make
    >>> made = make_map(make("SIF-sum", "english").fit([]), ["red wine", "white wine", "a cat"])
    >>> made.places.shape
    (3, 2)
    """
    texts = list(texts)
    if not texts:
        raise ValueError("A map needs texts. Got none. Give a file with a text a line.")
    if labels is not None and len(labels) != len(texts):
        raise ValueError(
            f"labels must be one for each of the {len(texts):,} texts. Got {len(labels):,} instead."
        )
    means, variances = vectorizer.posterior(texts)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    places = main_plane(means / np.where(lengths > 0, lengths, 1.0))
    return TextMap(texts, places, variances, None if labels is None else list(map(str, labels)))


def write_html(made: TextMap, path: str | os.PathLike, title: str = "A map of texts") -> None:
    """The map as one file that needs no network: to pan, zoom, search and click."""
    classes = sorted(set(made.labels)) if made.labels else []
    number = {name: i for i, name in enumerate(classes)}
    sizes, about = _sizes(made.variances)
    data = {
        "x": made.places[:, 0].round(4).tolist(),
        "y": made.places[:, 1].round(4).tolist(),
        "size": sizes.round(1).tolist(),
        "classes": classes,
        "group": [number[name] for name in made.labels] if made.labels else [],
        "texts": [_short(text) for text in made.texts],
    }
    parts = {
        "TITLE": html.escape(title),
        "ABOUT": f"{len(made.texts):,} texts on the plane where their vectors differ most",
        "SIZES": about,
        "STYLE": (_HERE / "page" / "page.css").read_text(encoding="utf-8"),
        "MAP": (_HERE / "page" / "map.js").read_text(encoding="utf-8"),
        "DATA": json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
    }
    page = (_HERE / "map.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        page = page.replace(f"@{name}@", part)
    with replacing(Path(path)) as file:
        file.write(page.encode())


def write_atlas(made: TextMap, path: str | os.PathLike) -> None:
    """Parquet for Embedding Atlas: embedding-atlas FILE --text text --x x --y y."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"Writing Parquet needs pyarrow, which is not installed. {install_hint('parquet')}"
        ) from None
    columns = {"text": made.texts, "x": made.places[:, 0], "y": made.places[:, 1],
               "variance": made.variances}  # fmt: skip
    if made.labels is not None:
        columns["label"] = made.labels
    with replacing(Path(path)) as file:
        parquet.write_table(pyarrow.table(columns), file, compression="zstd")


def _short(text) -> str:
    text = " ".join(text.split()).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _sizes(variances) -> tuple[np.ndarray, str]:
    """Diameters that grow with the spread, and what the page says about them."""
    spread = np.sqrt(np.nan_to_num(variances))
    low, high = np.quantile(spread, [0.02, 0.98])
    if high <= low:
        return np.full(spread.size, 5.0), "All posteriors spread alike."
    share = np.clip((spread - low) / (high - low), 0, 1)
    return _SMALLEST + (_LARGEST - _SMALLEST) * share, "Larger points: posteriors that spread more."
