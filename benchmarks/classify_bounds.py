"""Certified error against the number of labels: holding out, and PAC-Bayes.

    python benchmarks/classify_bounds.py [--data FOLDER] [--sets subj mr imdb trec 20news]
        [--labels 50 100 300 1000 0] [--jobs N] [--save]

delta = 0.05; means of three draws of 50 to 1,000 labels, and one of all (0). Sets of
many classes are made two: the first half against the second. "held out": a fifth kept
back, Clopper-Pearson for a TextClassifier fitted on the rest. "Laplace": the bound of Seeger (2002)
on the Gibbs classifier of a Gaussian process fitted on all labels, with four pairs of scales of
n-grams and vectors paid for by a union bound (with all labels: vectors only, three scales). The
vectors are the English model of the package, which by its sources has seen none of the texts.
"""

import warnings

import numpy as np
from scipy.special import ndtr

from classify import draw, in_parallel, load
from harness import finish, parser_for
from pacsent import CertifiedClassifier, TextClassifier, make_encoder
from pacsent import load as open_model
from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.pac_bayes import kl_inverse
from pacsent.text.ngrams import NGrams

DELTA = 0.05
DRAWS = {50: 3, 100: 3, 300: 3, 1000: 3, 0: 1}
KERNELS = [(0.3, 3.0), (3.0, 3.0), (3.0, 30.0), (30.0, 30.0)]  # variances of n-grams and vectors
VARIANCES = (1.0, 10.0, 100.0)  # of the vectors, where all labels are used
METHODS = ("held out", "Laplace")


def features(texts, outside, words):
    """tf-idf and vectors of texts; weights and centre come from other texts, without labels."""
    X = NGrams.of(outside, (1, 2)).tf_idf(texts)
    vectorizer = make_encoder("Average", words, on_empty="ignore").fit(outside)
    known = vectorizer.transform(outside).astype(float)
    mean = known.mean(axis=0)
    size = np.sqrt(((known - mean) ** 2).sum(axis=1).mean())
    return X, (vectorizer.transform(texts) - mean) / size


def roots(X, E, n_most=1000):
    """R with R R' = s X X' + d E E' + 1 for each pair of scales; of E alone for many texts."""
    n = len(E)
    if n > n_most:
        return [np.hstack([np.sqrt(d) * E, np.ones((n, 1))]) for d in VARIANCES]
    K_sparse, K_dense = (X @ X.T).toarray().astype(float), E @ E.T
    eye = 1.0 + 1e-6 * np.eye(n)
    return [np.linalg.cholesky(s * K_sparse + d * K_dense + eye) for s, d in KERNELS]


def newton(A, signs):
    """The mode of the weights of a logistic regression under N(0, 1), and the curvatures there."""
    w = np.zeros(A.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-A @ w))
        curvature = np.maximum(p * (1.0 - p), 1e-9)
        gradient = A.T @ (p - (signs > 0)) + w
        step = np.linalg.solve((A.T * curvature) @ A + np.eye(w.size), gradient)
        w = w - step
        if np.abs(step).max() < 1e-6:
            break
    return w, curvature


def divergence(mean, variances):
    """KL of N(mean, diag(variances)) to N(0, 1)."""
    return 0.5 * (variances - np.log(variances) - 1.0 + mean**2).sum()


def certified(roots, signs, delta):
    """The smallest PAC-Bayes bound over the scales, which are paid for.

    Weights w ~ N(m, diag(v)) answer a text wrongly with probability Phi(-s r.m / sqrt(r^2.v)); the
    prior is N(0, 1).
    """
    n, bounds = signs.size, []
    for R in roots:
        mean, curvature = newton(R, signs)
        variances = 1.0 / (1.0 + curvature @ (R * R))
        kl = divergence(mean, variances)
        error = ndtr(-signs * (R @ mean) / np.sqrt((R * R) @ variances)).mean()
        price = np.log(2.0 * np.sqrt(n) * len(roots) / delta)
        bounds.append(float(kl_inverse(error, (kl + price) / n)))
    return min(bounds)


def one_draw(task):
    """Both bounds, and the number of labels."""
    name, data, n, seed, words = task
    train, y, _, _ = load(name, data, 0)
    y = (y >= (y.max() + 1) / 2).astype(int)
    rest = np.random.default_rng(seed).permutation(len(train))
    picked = draw(y, n, seed) if n else rest[2000:]
    outside = np.setdiff1d(rest[:4000], picked)[:2000] if n else rest[:2000]
    texts, labels = [train[i] for i in picked], y[picked]
    signs = np.where(labels == 1, 1.0, -1.0)
    X, E = features(texts, [train[i] for i in outside], words)
    model = CertifiedClassifier(
        TextClassifier(words, n_jobs=1), calibration_size=0.2, random_state=seed
    ).fit(texts, labels)
    kept = model.certificate_
    held_out = upper_limit(kept.n_errors, kept.n, DELTA)
    found = {"held out": held_out, "Laplace": certified(roots(X, E), signs, DELTA)}
    print(name, n, seed, found, flush=True)
    return found, len(texts)


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--sets", nargs="*", default=["subj", "mr", "imdb", "trec", "20news"])
    parser.add_argument("--labels", type=int, nargs="*", default=[*DRAWS])
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    words = open_model("english")
    for name in given.sets:
        load(name, str(given.data), 0)  # before there are processes
    TextClassifier(words).fit(["good", "bad"] * 10, [0, 1] * 10).predict(["good"])  # compile
    TextClassifier(words, selection="folds").fit(["good", "bad"] * 10, [0, 1] * 10)
    tasks = [
        (name, str(given.data), n, seed, words)
        for n in sorted(given.labels, key=lambda n: -(n or np.inf))  # the long ones first
        for name in given.sets
        for seed in range(DRAWS[n])
    ]
    found = in_parallel(one_draw, tasks, given.jobs)
    rows = []
    for name, n in dict.fromkeys((task[0], task[2]) for task in tasks):
        some = [one for one, task in zip(found, tasks) if (task[0], task[2]) == (name, n)]
        means = {method: float(np.mean([b[method] for b, _ in some])) for method in METHODS}
        rows.append({"set": name, "labels": some[0][1], "draws": len(some), **means})
    rows.sort(key=lambda row: (row["set"], row["labels"]))
    wins = sum(r["Laplace"] < r["held out"] for r in rows)
    useful = sum(r["Laplace"] < min(r["held out"], 0.5) for r in rows)
    finish("classify_bounds", rows, title="Certified error by number of labels, delta 0.05",
           summary={"rows where PAC-Bayes is below holding out": wins, "and below 1/2": useful,
                    "of": len(rows)}, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
