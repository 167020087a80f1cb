"""Choose the constants of SIF-sum, `a` and `aperture`, on training data: STS-B's training part.

    python benchmarks/choose_sif.py [--data FOLDER] [--save]

Pearson correlation of the cosine with the human score, English model. The test part is not read.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import load, make
from pacsent.bench import datasets
from pacsent.maths.arrays import unit_rows

WEIGHTS = (5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3)
APERTURES = (0.0, 1.5, 2.0, 2.5, 3.0, 4.0)


def main():
    given = parser_for(__doc__, name="stsb-train").parse_args()
    pairs, words = datasets.load("stsb", given.data), load("english")
    first, second, scores = (part["train"] for part in (pairs.first, pairs.second, pairs.scores))
    rows = []
    for a in WEIGHTS:
        for aperture in APERTURES:
            vectorizer = make("SIF-sum", words, a=a, aperture=aperture, on_empty="ignore").fit([])
            one, other = (unit_rows(vectorizer.transform(texts)) for texts in (first, second))
            pearson = float(np.corrcoef((one * other).sum(axis=1), scores)[0, 1])
            rows.append({"a": a, "aperture": aperture, "STS-B train Pearson": pearson})
            print(rows[-1], flush=True)
    best = max(rows, key=lambda row: row["STS-B train Pearson"])
    default = make("SIF-sum", words)
    used = next(r for r in rows if (r["a"], r["aperture"]) == (default.a, default.aperture))
    summary = {"best a": best["a"], "best aperture": best["aperture"]}
    summary |= {"best": best["STS-B train Pearson"], "default": used["STS-B train Pearson"]}
    finish("choose_sif", rows, title="SIF-sum: constants chosen on STS-B's training part",
           summary=summary, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
