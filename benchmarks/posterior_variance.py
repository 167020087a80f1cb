"""Does the variance of a sentence's posterior say where a classifier errs? SUBJ, PB-L2.

    python benchmarks/posterior_variance.py [--n-draws 10] [--save]

A logistic regression on posterior means, with few labels. Its probabilities are moderated by the
posterior variance, p = sigmoid(z / sqrt(1 + pi v |w|^2 / 8)), and its errors are ranked by the
margin |z|, by the margin over the spread, and by the variance. The variances are

- sigma_P = 1: those of PB-L2 with the setting of Nozawa and Sato, 1 / (n + lam);
- evidence: word vectors of a sentence are A_w ~ N(h, tau^2 I), h ~ N(m_S, sigma_P^2 / n I), and
  tau^2 and sigma_P^2 have the largest likelihood on all texts, without labels;
- evidence, own scatter: the same with the tau^2 of each sentence, shrunk to the common one.
"""

import warnings

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score

from harness import finish, parser_for
from pacsent import load
from pacsent.paper import benchmark_datasets as datasets

SIZES = (100, 1000)
LAM = 1.0
PRIOR_TOKENS = 10.0  # how many words the common scatter counts as, beside those of a sentence


def moments(words, encoded):
    """Length, mean input and output vector, and squared scatter of the input vectors, per text."""
    lengths = np.diff(encoded.offsets)
    starts = encoded.offsets[:-1]
    A = np.asarray(words.input_vectors[encoded.ids], dtype=np.float64)
    B = np.asarray(words.output_vectors[encoded.ids], dtype=np.float64)
    mean_A = np.add.reduceat(A, starts) / lengths[:, None]
    mean_B = np.add.reduceat(B, starts) / lengths[:, None]
    squares = np.add.reduceat((A**2).sum(axis=1), starts)
    scatter = squares - lengths * (mean_A**2).sum(axis=1)  # sum of |A_w - mean|^2
    return lengths, mean_A, mean_B, scatter


def evidence(lengths, mean_A, mean_B, scatter):
    """(tau^2, sigma_P^2) of largest likelihood: within sentences, and of means about the prior."""
    n_dims = mean_A.shape[1]
    tau2 = scatter.sum() / (n_dims * (lengths - 1).sum())
    # sqrt(n) (mean_A - mean_B) ~ N(0, (tau^2 + sigma_P^2) I)
    about_prior = (lengths * ((mean_A - mean_B) ** 2).sum(axis=1)).mean() / n_dims
    return tau2, max(about_prior - tau2, 1e-6)


def posteriors(lengths, mean_A, mean_B, scatter):
    """name -> (means, variances) of every text."""
    n_dims = mean_A.shape[1]
    tau2, var_P = evidence(lengths, mean_A, mean_B, scatter)
    n = lengths[:, None]

    alpha = n / LAM
    found = {"sigma_P = 1": ((mean_A + alpha * mean_B) / (1 + alpha), 1 / (lengths + LAM))}

    precision = lengths / tau2 + lengths / var_P
    means = (mean_A / tau2 + mean_B / var_P) / (1 / tau2 + 1 / var_P)
    found["evidence"] = means, 1 / precision

    own = (scatter + PRIOR_TOKENS * n_dims * tau2) / (n_dims * (lengths - 1 + PRIOR_TOKENS))
    means = (mean_A / own[:, None] + mean_B / var_P) / (1 / own[:, None] + 1 / var_P)
    found["evidence, own scatter"] = means, 1 / (lengths / own + lengths / var_P)
    return found, tau2, var_P


def one_draw(means, variances, y, size, seed):
    rng = np.random.default_rng([size, seed])
    order = rng.permutation(len(y))
    train, test = order[:size], order[-2000:]
    model = LogisticRegressionCV(Cs=np.geomspace(0.01, 100, 9), cv=5, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn, about its own defaults
        model.fit(means[train], y[train])

    z = model.decision_function(means[test])
    spread2 = variances[test] * (model.coef_**2).sum()
    wrong = (z > 0) != (y[test] == 1)
    margin = np.abs(z)
    moderated = z / np.sqrt(1 + np.pi * spread2 / 8)
    return {
        "log loss": log_loss(y[test], expit(z)),
        "log loss, moderated": log_loss(y[test], expit(moderated)),
        "AUROC, margin": roc_auc_score(wrong, -margin),
        "AUROC, margin over spread": roc_auc_score(wrong, -margin / np.sqrt(1 + spread2)),
        "AUROC, variance": roc_auc_score(wrong, variances[test]),
    }


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--n-draws", type=int, default=10)
    given = parser.parse_args()

    dataset = datasets.load("subj", given.data)
    words = load("english")
    encoded = words.vocabulary.encode(dataset.train_texts)
    kept = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    encoded = encoded.take(kept)
    y = np.asarray(dataset.train_labels)[kept]

    found, tau2, var_P = posteriors(*moments(words, encoded))
    rows = []
    for name, (means, variances) in found.items():
        for size in SIZES:
            if size >= len(y) // 2:
                continue
            draws = [one_draw(means, variances, y, size, seed) for seed in range(given.n_draws)]
            averages = {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}
            row = {"variance": name, "labels": size, "draws": given.n_draws, **averages}
            print(row, flush=True)
            rows.append(row)

    summary = {"tau2": round(float(tau2), 4), "prior_variance": round(float(var_P), 4)}
    finish("posterior_variance", rows, summary=summary, save=given.save, name=given.name)
