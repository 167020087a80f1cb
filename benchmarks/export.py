"""Exported models in the libraries they were exported for: the same vectors?

pip install 'pacsent[bench]'
python benchmarks/export.py --save
"""

import tempfile
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import make
from pacsent.bench.books import passages
from pacsent.sentences.export import export

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


texts = [p.text for p in passages()[::10]] + ["It's 1984; naïve?", "zzzq unknownly film"]
rows = []
for name in ("Average", "SIF", "uSIF", "SIF-sum", "both"):
    vectorizer = make(name, "english").fit([])
    ours = vectorizer.transform(texts)
    for to in ("model2vec", "sentence-transformers"):
        with tempfile.TemporaryDirectory() as place:
            encode, version = opened(export(vectorizer, Path(place) / "out", to), to)
            theirs = np.asarray(encode(texts))
        gap = float(np.abs(theirs - ours).max() / np.abs(ours).max())
        rows.append({"method": name, "library": to, "version": version, "largest gap": gap})
finish(
    "export",
    rows,
    title=f"Exported models: gap to our vectors of {len(texts)} texts, as a share of the largest",
    summary={"largest gap": max(row["largest gap"] for row in rows)},
    save=options.save,
    name=options.name,
)
