"""Exported models in the libraries they were exported for: the same vectors? And read back again?

    pip install 'pacsent[bench]'
    python benchmarks/export.py --save

Methods whose vectors are no mean of one row for each word must be refused.
"""

import tempfile
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import make
from pacsent.datasets import load_books
from pacsent.encoders.export import export
from pacsent.words import formats

options = parser_for(__doc__).parse_args()


def opened(folder, to):
    """The library's own way from texts to vectors, and its version."""
    if to == "model2vec":
        from importlib.metadata import version

        from model2vec import StaticModel

        model = StaticModel.from_pretrained(folder)
        return (lambda texts: model.encode(texts, max_length=None)), version("model2vec")
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return model.encode, sentence_transformers.__version__


LINEAR = ("Average", "SIF", "uSIF", "SIF-sum", "concat")
OTHERS = ("PB-L2", "IDF-Average", "PB-neg")


def gap(found, ours) -> float:
    """The largest difference, as a share of the largest number."""
    return float(np.abs(np.asarray(found) - ours).max() / np.abs(ours).max())


def row_of(name, to, texts) -> dict:
    vectorizer = make(name, "english").fit(texts if name in OTHERS else [])
    row = {"method": name, "library": to, "version": "", "gap": None, "gap, read back": None}
    with tempfile.TemporaryDirectory() as place:
        try:
            folder = export(vectorizer, Path(place) / "out", to)
        except ValueError:
            return {**row, "exported": "refused"}
        ours = vectorizer.transform(texts)
        encode, row["version"] = opened(folder, to)
        row["gap"] = gap(encode(texts), ours)
        back = make("Average", formats.read(folder)).fit([])
        row["gap, read back"] = gap(back.transform(texts), ours)
    return {**row, "exported": "yes"}


texts = [p.text for p in load_books()[::10]] + ["It's 1984; naïve?", "zzzq unknownly film"]
libraries = ("model2vec", "sentence-transformers")
rows = [row_of(name, to, texts) for name in (*LINEAR, *OTHERS) for to in libraries]
finish(
    "export",
    rows,
    title=(f"Exported models: gap to our vectors of {len(texts)} texts, relative to the largest"),
    summary={
        "largest gap": max(row["gap"] or 0 for row in rows),
        "largest gap, read back": max(row["gap, read back"] or 0 for row in rows),
        "refused": sorted({row["method"] for row in rows if row["exported"] == "refused"}),
    },
    save=options.save,
    name=options.name,
)
