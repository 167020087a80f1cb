"""PB-neg documents a second against the paper's SGD in plain PyTorch.

    python benchmarks/solve.py [--data FOLDER] [--save] [--name NAME]

The same 20news documents for both. The baseline is the paper's recipe in plain PyTorch: 40 epochs,
one document a batch, 15 fresh noise words per token, one draw of h, steps from 0.025 that fall
linearly; it is timed on a few dozen documents. Both end points are scored by the objective with
noise words and h integrated out, and ours is also compared with the solution to 1e-8 over the whole
vocabulary in double precision.
"""

import os
import sys
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

from harness import best_of, finish, parser_for
from pacsent.paper import benchmark_datasets as datasets
from pacsent.sentences import PBNegVectorizer
from pacsent.words.vectors import WordVectors

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from reference.pb_neg_reference import expected_objective


def torch_sgd(A_hat, B_hat, tokens, cumulative, *, lam, n_epochs=40, k=15, learning_rate=0.025):
    """The paper's recipe for one document, as one would write it; (mu, rho)."""
    import torch

    n, d = len(tokens), A_hat.shape[1]
    positives, m = A_hat[tokens], B_hat[tokens].mean(0)
    mu = ((torch.rand(d) - 0.5) / d).requires_grad_()
    rho = ((torch.rand(1) - 0.5) / d).requires_grad_()
    optimizer = torch.optim.SGD([mu, rho], lr=learning_rate)
    for epoch in range(n_epochs):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - epoch / n_epochs)
        negatives = A_hat[torch.searchsorted(cumulative, torch.rand(n * k, dtype=torch.double))]
        h = mu + torch.exp(rho / 2) * torch.randn(d)
        softplus = torch.nn.functional.softplus
        data = (softplus(-(positives @ h)).sum() + softplus(negatives @ h).sum()) / n
        penalty = n / (2 * lam) * ((mu - m) ** 2).sum()
        spread = d / (2 * lam) * (n * torch.exp(rho) - 1 - np.log(n) - rho).sum()
        optimizer.zero_grad()
        (data + penalty + spread).backward()
        optimizer.step()
    return mu.detach().numpy().astype(float), float(rho.detach())


def solve_documents(words, data, lam, rounds, n_rival, n_exact):
    """One row per contestant, and the facts of the comparison."""
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(0)
    dataset = datasets.load("20news", data, verify=False)
    train = words.vocabulary.encode(dataset.train_texts)
    test = words.vocabulary.encode(dataset.test_texts)
    test = test.take(np.flatnonzero(np.diff(test.offsets) > 0))
    fast = PBNegVectorizer(words, lam=lam)
    fast.fit(train.take(range(64)))  # compiles
    fast.posterior(test.take(range(64)))
    _, fit_seconds = best_of(lambda: fast.fit(train), 1)
    (means, variances), seconds = best_of(lambda: fast.posterior(test), rounds)
    rate = test.n_sentences / seconds

    rows = np.linspace(0, test.n_sentences - 1, n_exact).astype(int)
    some = test.take(rows)
    exact = PBNegVectorizer(words, lam=lam, tol=1e-8, batch_size=max(1, n_exact // 4)).fit(train)
    solved, exact_seconds = best_of(lambda: exact.posterior(some), 1)
    counts = words.vocabulary.count(some)
    m = (counts @ words.output_vectors) / counts.sum(axis=1).A1[:, None]
    moved = np.linalg.norm(solved[0] - m, axis=1)
    error = np.linalg.norm(means[rows] - solved[0], axis=1) / moved

    noise = fast.noise_counts_**0.75
    noise = noise / noise.sum()
    A_hat, B_hat = torch.tensor(words.input_vectors), torch.tensor(words.output_vectors)
    cumulative, found, times = torch.tensor(np.cumsum(noise)), [], []
    for s in range(n_rival):
        tokens = torch.tensor(some.ids[some.offsets[s] : some.offsets[s + 1]].astype(np.int64))
        solve = partial(torch_sgd, A_hat, B_hat, tokens, cumulative, lam=lam)
        end, seconds = best_of(solve, min(rounds, 3))
        found.append(end)
        times.append(seconds)
    rival_rate = n_rival / sum(times)

    def score(mu, rho):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return expected_objective(
                mu, rho, counts[:n_rival], words.input_vectors, m[:n_rival], noise, lam=lam
            ).total

    ours = score(means[rows][:n_rival].astype(float), np.log(variances[rows][:n_rival]))
    best = score(solved[0][:n_rival].astype(float), np.log(solved[1][:n_rival]))
    theirs = score(np.stack([mu for mu, _ in found]), np.array([rho for _, rho in found]))
    theirs = np.where(np.isfinite(theirs), theirs, np.inf)
    table = [
        {"solver": f"pacsent, lam={lam:g}", "documents/s": round(rate),
         "objective, median": float(np.median(ours)),
         "error of mu - m, median": float(np.median(error)),
         "error, 95 %": float(np.quantile(error, 0.95))},
        {"solver": f"pacsent, tol=1e-8, lam={lam:g}",
         "documents/s": round(n_exact / exact_seconds, 1),
         "objective, median": float(np.median(best)), "error of mu - m, median": 0.0,
         "error, 95 %": 0.0},
        {"solver": f"PyTorch SGD, lam={lam:g}", "documents/s": round(rival_rate, 2),
         "objective, median": float(np.median(theirs)), "error of mu - m, median": None,
         "error, 95 %": None},
    ]  # fmt: skip
    return table, {
        "ratio": round(rate / rival_rate),
        "share of documents with a lower objective": float(np.mean(ours < theirs)),
        "relative error of mu - m, worst document": float(error.max()),
        "seconds of fit": round(fit_seconds, 2),
        "documents": test.n_sentences,
        "unconverged": fast.n_unconverged_,
    }


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--baseline", type=int, default=24, help="documents that PyTorch solves")
    parser.add_argument("--exact", type=int, default=64, help="documents solved to 1e-8")
    given = parser.parse_args()
    half = datasets.load_word_vectors(Path(given.data) / "vectors")
    tables = (np.asarray(x, dtype=np.float32) for x in (half.input_vectors, half.output_vectors))
    words = WordVectors(half.vocabulary, *tables)
    sizes = given.rounds, given.baseline, given.exact
    rows, summary = solve_documents(words, given.data, given.lam, *sizes)
    title = "PB-neg: 20news documents on two cores"
    finish("solve", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
