"""Can a PAC-Bayes posterior that looked beat a hold-out? Bounds on one pool, drawn from many times.

    python benchmarks/pac_bayes.py [--datasets subj 20news imdb] [--n-draws 100] [--save]

The losses of the 1,008 hypotheses of `pacsent.paper.heuristics` on each document of a data set are
computed once. The documents are then the population: samples of n are drawn from them with
replacement, so that the true risk of whatever is certified is known. Each method gets the same
samples and delta = 0.05; a row is its best split or burn-in. Word vectors: the English model.
"""

from functools import partial
from multiprocessing import get_context

import numpy as np

from harness import finish, parser_for
from pacsent import load
from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.gibbs_betting import best_of_bets, bound_of_bet, log_products
from pacsent.bounds.means import betting, differing_means
from pacsent.datasets import load_books
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper.heuristics import make_heuristics

DELTA = 0.05
FRACTIONS = (0.05, 0.1, 0.3, 0.5)  # of the sample that choose a hypothesis, or a prior
LOOKS = (0.05, 0.1, 0.2, 0.3, 0.5)  # when the leader may be frozen
BET = 0.4  # of the posteriors that are learned one document at a time
N_DOCUMENTS = {"imdb": 16_000}  # of the pool; the others use all
N_PARTS = 60  # of a pool, with random words of their own

_shared: dict = {}  # what the processes read


def pool(name, data, n_processes):
    """Losses of every hypothesis on every document of a data set, (n_documents, n_hypotheses)."""
    words = load("english")
    dataset = datasets.load(name, data)
    texts = [*dataset.train_texts, *dataset.test_texts]
    encoded = words.vocabulary.encode(texts)
    long_enough = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    chosen = np.random.default_rng(0).permutation(long_enough)[: N_DOCUMENTS.get(name)]

    passages = words.vocabulary.encode([passage.text for passage in load_books()[::6]])
    heuristics = make_heuristics(words, passages, np.random.default_rng(0))
    _shared.update(heuristics=heuristics, documents=encoded.take(np.sort(chosen)))
    return np.concatenate(run(_losses_of_part, range(N_PARTS), n_processes))


def _losses_of_part(part):
    documents = _shared["documents"]
    rows = np.array_split(np.arange(documents.n_sentences), N_PARTS)[part]
    rng = np.random.default_rng([9, part])
    return _shared["heuristics"].losses(documents.take(rows), rng)


def run(work, jobs, n_processes):
    """Results of all jobs, in their order."""
    if n_processes == 1:
        return [work(job) for job in jobs]
    with get_context("fork").Pool(n_processes) as workers:
        return workers.map(work, jobs, chunksize=1)


def uniform(n_hypotheses):
    return np.full(n_hypotheses, -np.log(n_hypotheses))


def hold_out(X, fraction, bound):
    """The best hypothesis of the first documents, tested on the rest."""
    n_first = int(fraction * len(X))
    best = int(X[:n_first].mean(axis=0).argmin())
    weights = np.zeros(X.shape[1])
    weights[best] = 1.0
    return bound(X[n_first:, best]), weights


def chernoff(losses):
    return float(bounds.kl_inverse(losses.mean(), np.log(1 / DELTA) / len(losses)))


def empirical_bernstein(losses):
    """Maurer and Pontil (2009), theorem 4."""
    n, log_term = len(losses), np.log(2 / DELTA)
    spread = np.sqrt(2 * losses.var(ddof=1) * log_term / n)
    return float(losses.mean() + spread + 7 * log_term / (3 * (n - 1)))


def pac_bayes_kl(X):
    """Gibbs posteriors of several temperatures; the kl bound holds for all of them at once."""
    n, log_prior, means = len(X), uniform(X.shape[1]), X.mean(axis=0)
    best = (2.0, log_prior)
    for temperature in np.geomspace(1, 3000, 24):
        log_weights = log_prior - temperature * means
        log_weights -= np.logaddexp.reduce(log_weights)
        weights = np.exp(log_weights)
        kl = float(weights @ (log_weights - log_prior))
        bound = float(bounds.maurer(float(weights @ means), kl, n, DELTA, constant="xi"))
        if bound < best[0]:
            best = bound, weights
    return best


def pac_bayes_betting(X):
    _, _, found = best_of_bets(X, uniform(X.shape[1]), DELTA)
    return found.bound, found.weights


def pac_bayes_learned_prior(X, fraction):
    """P is the posterior of the first documents, and Q that of all of them."""
    n_first = int(fraction * len(X))
    products = log_products(X[:n_first], BET)
    first = bound_of_bet(
        products, X[:n_first].mean(axis=0), uniform(X.shape[1]), n_first, DELTA, BET
    )
    log_prior = np.log(np.maximum(first.weights, 1e-300))
    log_prior -= np.logaddexp.reduce(log_prior)
    _, _, found = best_of_bets(X[n_first:], log_prior, DELTA)
    return found.bound, found.weights


def progressive(X):
    """Q_t of the documents before t, (n, n_hypotheses), and its loss on document t."""
    before = np.cumsum(np.log1p(-BET * X), axis=0)
    before = np.concatenate([np.zeros((1, X.shape[1])), before[:-1]])
    before -= before.max(axis=1, keepdims=True)
    Q = np.exp(before)
    Q /= Q.sum(axis=1, keepdims=True)
    return Q, (Q * X).sum(axis=1)


def sequential_catoni(X):
    Q, losses = progressive(X)
    return differing_means(losses, DELTA), Q.mean(axis=0)


def sequential_betting(X):
    """Bets on X_t that are valid for means that differ; the certified Q is weighted by the bets.

    sum b_t R(Q_t) <= sum b_t c_t - sum ln(1 + b_t (c_t - X_t)) + ln(1/delta), b_t and c_t known
    before X_t, because 1 + b (c - p) <= exp(b (c - p)).
    """
    Q, losses = progressive(X)
    n, log_term = len(X), np.log(1 / DELTA)
    t = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(losses)) / (t + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (t + 1)
    centres = np.concatenate([[0.5], means[:-1]])
    variances = np.concatenate([[0.25], variances[:-1]])

    bets = np.minimum(np.sqrt(2 * log_term / (n * variances)), 0.9 / (1 - centres))
    gain = np.log1p(bets * (centres - losses)).sum()
    bound = (bets @ centres - gain + log_term) / bets.sum()
    return float(bound), bets @ Q / bets.sum()


def frozen_leader(X):
    """The leader after each of five looks, tested on the documents after it at delta / 5."""
    best = (2.0, np.zeros(X.shape[1]))
    for fraction in LOOKS:
        part = partial(betting, delta=DELTA / len(LOOKS))
        bound, weights = hold_out(X, fraction, part)
        if bound < best[0]:
            best = bound, weights
    return best


# name -> {setting: function of a sample -> (bound, Q)}; the best setting is reported
METHODS = {
    "hold-out, Chernoff": {f: partial(hold_out, fraction=f, bound=chernoff) for f in FRACTIONS},
    "hold-out, empirical Bernstein": {
        f: partial(hold_out, fraction=f, bound=empirical_bernstein) for f in FRACTIONS
    },
    "hold-out, betting (pacsent)": {
        f: partial(hold_out, fraction=f, bound=partial(betting, delta=DELTA)) for f in FRACTIONS
    },
    "PAC-Bayes, uniform P, kl": {"": pac_bayes_kl},
    "PAC-Bayes, uniform P, betting (certificate D)": {"": pac_bayes_betting},
    "PAC-Bayes, P from a part, betting": {
        f: partial(pac_bayes_learned_prior, fraction=f) for f in FRACTIONS
    },
    "sequential, Catoni, 25 lambdas mixed": {"": sequential_catoni},
    "sequential, plug-in betting": {"": sequential_betting},
    "leader, five looks, frozen and tested": {"": frozen_leader},
}


def one_draw(seed, losses, n):
    """(bound, true risk) of every method and setting on one sample."""
    rng = np.random.default_rng([54, seed])
    X = losses[rng.integers(0, len(losses), n)].astype(float)
    risks = losses.mean(axis=0, dtype=float)

    found = {}
    for name, settings in METHODS.items():
        for setting, method in settings.items():
            bound, weights = method(X)
            found[name, setting] = bound, float(weights @ risks)
    return found


def _draw_shared(seed):
    return one_draw(seed, _shared["losses"], _shared["n"])


def measure(name, losses, n, n_draws, n_processes):
    """Rows of one data set: the best setting of every method."""
    _shared.update(losses=losses, n=n)
    draws = run(_draw_shared, range(n_draws), n_processes)

    rows = []
    for method, settings in METHODS.items():
        summaries = []
        for setting in settings:
            pairs = np.array([draw[method, setting] for draw in draws])
            n_broken = int((pairs[:, 0] < pairs[:, 1]).sum())
            summaries.append((pairs[:, 0].mean(), pairs[:, 1].mean(), n_broken, setting))
        bound, risk, n_broken, setting = min(summaries, key=lambda summary: summary[0])
        row = {
            "dataset": name,
            "method": method,
            "certified": float(bound),
            "true risk": float(risk),
            "broken": n_broken,
            "draws": n_draws,
            "part": setting,
        }
        print(row, flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["subj", "20news", "imdb"])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--n-draws", type=int, default=100)
    parser.add_argument("--n-processes", type=int, default=2)
    given = parser.parse_args()

    rows = []
    for name in given.datasets:
        losses = pool(name, given.data, given.n_processes)
        print(f"{name}: {len(losses):,} documents", flush=True)
        rows += measure(name, losses, given.n, given.n_draws, given.n_processes)

    summary = {"n": given.n, "draws": given.n_draws, "delta": DELTA}
    finish("pac_bayes", rows, summary=summary, save=given.save, name=given.name)
