"""Choose the constants of SIF-sum, `a` and `aperture`, on training data: similarity and search.

    python benchmarks/choose_sif.py [--data FOLDER] [--save]

Similarity: Pearson correlation of the cosine with the human score on STS-B's training part. Search:
p@10 within the training part of 20news, the share of the ten nearest posts that have the label of a
post, for 2,000 posts and the rest. English model. No test part is read. A paired bootstrap gives
the standard errors of the differences between the best for similarity and the default.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import load, make
from pacsent.maths.arrays import unit_rows
from pacsent.paper import datasets

WEIGHTS = (5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 1e-2)
APERTURES = (0.0, 1.5, 2.0, 2.5, 3.0, 4.0)
N_QUERIES, N_DRAWS = 2000, 1000


def standard_error(statistic, n):
    """Of a statistic of rows, by drawing n rows again."""
    rng = np.random.default_rng(0)
    return float(np.std([statistic(rng.integers(0, n, n)) for _ in range(N_DRAWS)]))


def main():
    given = parser_for(__doc__, name="stsb-train").parse_args()
    pairs, news = datasets.load("stsb", given.data), datasets.load("20news", given.data)
    words = load("english")
    first, second, scores = (part["train"] for part in (pairs.first, pairs.second, pairs.scores))
    order = np.random.default_rng(0).permutation(len(news.train_texts))
    n_asked = min(N_QUERIES, len(order) // 2)
    asked, kept, labels = order[:n_asked], order[n_asked:], news.train_labels
    encode = words.vocabulary.encode
    texts = [encode(part) for part in (first, second, news.train_texts)]
    rows, found = [], {}
    for a in WEIGHTS:
        for aperture in APERTURES:
            vectorizer = make("SIF-sum", words, a=a, aperture=aperture, on_empty="ignore").fit([])
            one, other, posts = (unit_rows(vectorizer.transform(part)) for part in texts)
            cosines = (one * other).sum(axis=1)
            near = np.argpartition(-(posts[asked] @ posts[kept].T), 10, axis=1)[:, :10]
            right = (labels[kept][near] == labels[asked][:, None]).mean(axis=1)
            found[a, aperture] = cosines, right
            pearson = float(np.corrcoef(cosines, scores)[0, 1])
            rows.append({"a": a, "aperture": aperture, "STS-B train Pearson": pearson,
                         "20news train p@10": float(right.mean())})  # fmt: skip
            print(rows[-1], flush=True)
    best = max(rows, key=lambda row: row["STS-B train Pearson"])
    default = make("SIF-sum", words)
    used = next(r for r in rows if (r["a"], r["aperture"]) == (default.a, default.aperture))
    (c_best, p_best), (c_used, p_used) = (found[r["a"], r["aperture"]] for r in (best, used))

    def pearsons(drawn):
        table = np.corrcoef([c_best[drawn], c_used[drawn], scores[drawn]])
        return table[0, 2] - table[1, 2]

    summary = {f"{name} {key}": row[key] for name, row in (("best", best), ("default", used))
               for key in row}  # fmt: skip
    summary["Pearson standard error"] = standard_error(pearsons, len(scores))
    summary["p@10 standard error"] = standard_error(
        lambda drawn: (p_best - p_used)[drawn].mean(), n_asked
    )
    finish("choose_sif", rows, title="SIF-sum: constants chosen on training data",
           summary=summary, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
