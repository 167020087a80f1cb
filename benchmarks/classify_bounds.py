"""Certified error against the number of labels: holding out, PAC-Bayes, and the better of both.

    python benchmarks/classify_bounds.py [--data FOLDER] [--sets subj mr imdb] [--save] [--figure F]

delta = 0.05, three draws; means. "held out": a fifth kept back, Clopper-Pearson for a
TextClassifier fitted on the rest. "PAC-Bayes": Seeger's bound for the Gaussian process of the same
two kernels, all labels used, the prior fixed beforehand, nine kernels paid for by a union bound;
the bound is on the Gibbs classifier. "prior from half": the prior is the process fitted on half of
the labels, in three widths; the bound is on the other half. "union": the smallest, at delta / 3
each. The vectors are the English model of the package, which has seen none of the texts.
"""

import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm

from classify import draw, load
from harness import finish, parser_for
from pacsent import TextClassifier, make
from pacsent import load as open_model
from pacsent.classify.ngrams import NGrams
from pacsent.maths.binomial import upper_limit
from pacsent.maths.bounds import kl_inverse
from pacsent.maths.gaussian_process import laplace

DELTA = 0.05
LABELS = (50, 100, 300, 1000)
SCALES = (0.03, 0.3, 1.0)  # of the prior made from half of the labels
KERNELS = [(s, d) for s in (0.3, 3.0, 30.0) for d in (0.3, 3.0, 30.0)]


def kernels(texts, outside, words):
    """K_sparse and K_dense; tf-idf and the centre come from other texts, without their labels."""
    ngrams = NGrams.of(outside, (1, 2))
    X = ngrams.tf_idf(texts)
    vectorizer = make("Average", words, on_empty="ignore").fit(outside)
    known = vectorizer.transform(outside).astype(float)
    mean = known.mean(axis=0)
    E = vectorizer.transform(texts) - mean
    E /= np.sqrt(((known - mean) ** 2).sum(axis=1).mean())
    return (X @ X.T).toarray().astype(float), E @ E.T


def bound(found, delta):
    """Seeger: kl(Gibbs risk || true risk) <= (KL + ln(2 sqrt(n) J / delta)) / n, the best of J."""
    J = len(found)
    costs = [(risk, (kl + np.log(2 * np.sqrt(n) * J / delta)) / n) for risk, kl, n in found]
    return min(float(kl_inverse(risk, cost)) for risk, cost in costs)


def gibbs(fit, K, signs, mean=0.0):
    """(Gibbs risk, KL, n) of a posterior."""
    sd = np.sqrt(np.maximum(fit.variances(K), 1e-12))
    return float(norm.cdf(-signs * (fit.f + mean) / sd).mean()), fit.kl(), signs.size


def mixed(K_sparse, K_dense):
    eye = 1.0 + 1e-6 * np.eye(len(K_sparse))
    return [s * K_sparse + d * K_dense + eye for s, d in KERNELS]


def pac_bayes(K_sparse, K_dense, signs):
    """Candidates: all labels used, the prior fixed beforehand."""
    return [gibbs(laplace(K, signs), K, signs) for K in mixed(K_sparse, K_dense)]


def from_half(K_sparse, K_dense, signs):
    """Candidates: the process given half of the labels is the prior of the other half."""
    n = signs.size // 2
    first, second = slice(0, n), slice(n, 2 * n)
    found = []
    for K in mixed(K_sparse, K_dense):
        half = laplace(K[first, first], signs[first])
        mean = K[second, first] @ half.a
        inside = np.linalg.solve(half.L, np.sqrt(half.curvature)[:, None] * K[first, second])
        prior = K[second, second] - inside.T @ inside
        for scale in SCALES:
            covariance = scale * prior + 1e-8 * np.eye(n)
            fit = laplace(covariance, signs[second], offset=mean)
            found.append(gibbs(fit, covariance, signs[second], mean))
    return found


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--sets", nargs="*", default=["subj", "mr", "imdb"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure", help="Draw the bounds as well.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    words = open_model("english")
    rows = []
    for name in given.sets:
        for n in LABELS:
            found = []
            for seed in range(given.seeds):
                train, y, _, _ = load(name, given.data, seed)
                picked = draw(y, n, seed)
                rest = np.setdiff1d(np.arange(len(train)), picked)[:2000]
                texts, labels = [train[i] for i in picked], y[picked]
                signs = np.where(labels == 1, 1.0, -1.0)
                K = kernels(texts, [train[i] for i in rest], words)
                fitted = TextClassifier(words).fit(texts, labels, holdout=0.2, seed=seed)
                kept = fitted.certificate_
                seeger, half = pac_bayes(*K, signs), from_half(*K, signs)
                each = [
                    (
                        upper_limit(kept.n_errors, kept.n, delta),
                        bound(seeger, delta),
                        bound(half, delta),
                    )
                    for delta in (DELTA, DELTA / 3)
                ]
                found.append([*each[0], min(each[1])])
            held, seeger, half, union = np.mean(found, axis=0).tolist()
            rows.append(
                {"set": name, "labels": n, "held out": held, "PAC-Bayes": seeger,
                 "prior from half": half, "union": union}
            )  # fmt: skip
            print(rows[-1], flush=True)
    wins = sum(min(r["PAC-Bayes"], r["prior from half"]) < r["held out"] for r in rows)
    finish("classify_bounds", rows, title="Certified error by number of labels, delta 0.05",
           summary={"rows where PAC-Bayes is below holding out": wins, "of": len(rows)},
           save=given.save, name=given.name)  # fmt: skip
    if given.figure:
        draw_figure(rows, given.figure)


def draw_figure(rows, path):
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["set"] for row in rows))
    figure = Figure(figsize=(4 * len(names), 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), sharey=True, squeeze=False)[0], names):
        some = [row for row in rows if row["set"] == name]
        for key in ("held out", "PAC-Bayes", "prior from half", "union"):
            axes.plot([r["labels"] for r in some], [r[key] for r in some], marker="o", label=key)
        axes.set(xscale="log", title=name, xlabel="labels", ylim=(0, 0.7))
    figure.axes[0].set_ylabel("certified error, δ = 0.05")
    figure.axes[-1].legend(frameon=False)
    figure.savefig(Path(path), dpi=110)


if __name__ == "__main__":
    main()
