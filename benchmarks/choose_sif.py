"""Choose the constants of SIF-sum, `a` and `aperture`, on training data: STS-B's training part.

    python benchmarks/choose_sif.py [--data FOLDER] [--save]

Pearson correlation of the cosine with the human score, English model. The test part is not read. A
paired bootstrap over the pairs gives the standard error of the difference to the default.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import load, make
from pacsent.bench import datasets
from pacsent.maths.arrays import unit_rows

WEIGHTS = (5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3)
APERTURES = (0.0, 1.5, 2.0, 2.5, 3.0, 4.0)


def standard_error(cosines, scores, n_draws=1000):
    """Of the difference of two correlations, by drawing pairs again."""
    rng, n = np.random.default_rng(0), len(scores)
    drawn = []
    for _ in range(n_draws):
        rows = rng.integers(0, n, n)
        one, other, _ = np.corrcoef([*cosines[:, rows], scores[rows]])[:, 2]
        drawn.append(one - other)
    return float(np.std(drawn))


def main():
    given = parser_for(__doc__, name="stsb-train").parse_args()
    pairs, words = datasets.load("stsb", given.data), load("english")
    first, second, scores = (part["train"] for part in (pairs.first, pairs.second, pairs.scores))
    rows, cosines = [], {}
    for a in WEIGHTS:
        for aperture in APERTURES:
            vectorizer = make("SIF-sum", words, a=a, aperture=aperture, on_empty="ignore").fit([])
            one, other = (unit_rows(vectorizer.transform(texts)) for texts in (first, second))
            cosines[a, aperture] = (one * other).sum(axis=1)
            pearson = float(np.corrcoef(cosines[a, aperture], scores)[0, 1])
            rows.append({"a": a, "aperture": aperture, "STS-B train Pearson": pearson})
            print(rows[-1], flush=True)
    best = max(rows, key=lambda row: row["STS-B train Pearson"])
    default = make("SIF-sum", words)
    used = next(r for r in rows if (r["a"], r["aperture"]) == (default.a, default.aperture))
    summary = {"best a": best["a"], "best aperture": best["aperture"]}
    summary |= {"best": best["STS-B train Pearson"], "default": used["STS-B train Pearson"]}
    pair = np.stack([cosines[r["a"], r["aperture"]] for r in (best, used)])
    summary["standard error of the difference"] = standard_error(pair, scores)
    finish("choose_sif", rows, title="SIF-sum: constants chosen on STS-B's training part",
           summary=summary, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
