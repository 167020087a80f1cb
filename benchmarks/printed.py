"""The paper as printed against its corrected form, on SUBJ with the vectors of the table.

    python benchmarks/printed.py [PART] [--data FOLDER] [--sentences N] [--save]

PART is "loss" (default): how far the optimum of the printed loss of PB-neg is from that of the
corrected one, medians over the test sentences. Or "optimiser": what forty epochs of the paper's
stochastic gradients end at, with literal and with stable steps, on every twentieth training
sentence. Accuracies: pacsent paper score ROW subj, for the rows as printed.
"""

import warnings

import numpy as np

from harness import finish, parser_for
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation, printed
from pacsent.paper.printed import sgd
from pacsent.sentences import PBNegVectorizer
from pacsent.words.noise import noise_probabilities

LAMS_OF_LOSS = (1.0, 8.0)
LAMS_OF_OPTIMISER = (0.25, 0.5, 1.0, 8.0)


def compare_losses(words, source) -> list[dict]:
    """One row for each role and lambda."""
    rows = []
    for swap in (False, True):
        for lam in LAMS_OF_LOSS:
            settings = {"lam": lam, "swap_roles": swap, "on_empty": "ignore", "random_state": 0}
            corrected = PBNegVectorizer(words, **settings).fit(source.train)
            as_printed = printed.PrintedPBNegVectorizer(words, **settings).fit(source.train)
            mu, var_Q = corrected.posterior(source.test)
            other_mu, other_var_Q = as_printed.posterior(source.test)
            prior_mean, _ = corrected.prior(source.test)

            known = np.isfinite(var_Q)
            mu, other_mu = mu[known].astype(float), other_mu[known].astype(float)
            moved = np.linalg.norm(mu - prior_mean[known], axis=1)
            apart = np.linalg.norm(other_mu - mu, axis=1)
            lengths = np.linalg.norm(mu, axis=1) * np.linalg.norm(other_mu, axis=1)
            cosines = np.einsum("sd,sd->s", mu, other_mu) / lengths
            sizes = np.linalg.norm(prior_mean[known], axis=1)
            rows.append(
                {
                    "method": corrected.method_name,
                    "lam": lam,
                    "displacement, of |m|": float(np.median(moved / sizes)),
                    "distance in displacements": float(np.median(apart / moved)),
                    "cosine": float(np.median(cosines)),
                    "variance": float(np.median(var_Q[known])),
                    "variance, printed": float(np.median(other_var_Q[known])),
                }
            )
    return rows


def compare_steps(words, source, n_sentences) -> list[dict]:
    """One row for each lambda: the ends of literal and of stable steps."""
    A_hat, B_hat = (np.asarray(table, np.float32) for table in words.roles(swap=False))
    counts = np.bincount(source.train.ids, minlength=words.n_words)
    p_noise = noise_probabilities(counts)
    lengths = np.diff(source.train.offsets)
    known = np.flatnonzero(lengths > 0)
    chosen = known[:: max(1, known.size // n_sentences)]
    encoded = source.train.take(chosen)
    rows = []
    for lam in LAMS_OF_OPTIMISER:
        solver = printed.PrintedPBNegVectorizer(words, lam=lam, random_state=0).fit(source.train)
        best, _ = solver.posterior(encoded)
        size = np.linalg.norm(best, axis=1)
        ends = {}
        for literal in (True, False):
            settings = {"lam": lam, "literal": literal, "random_state": 0}
            with np.errstate(all="ignore"):
                made = sgd.train(encoded, A_hat, B_hat, p_noise, **settings)
                error = np.linalg.norm(made.mu - best, axis=1) / size
                variance = np.exp(made.rho)
            ends[literal] = error, variance
        error, variance = ends[True]
        rows.append(
            {
                "lam": lam,
                "sentences": int(chosen.size),
                "n >= 184 lam": float(np.mean(printed.diverges(lengths, lam=lam))),
                "mean lost, literal": float(np.mean(~(error < 1.0))),
                "variance not positive, literal": float(np.mean(~(variance > 0.0))),
                "median error, stable": float(np.median(ends[False][0])),
            }
        )
    return rows


def main():
    parser = parser_for(__doc__, name="loss")
    parser.add_argument("part", nargs="?", default="loss", choices=["loss", "optimiser"])
    parser.add_argument("--sentences", type=int, default=400)
    given = parser.parse_args()
    words = datasets.load_word_vectors(given.data / "vectors")
    dataset = datasets.load("subj", given.data, verify=False)
    source, _, _ = evaluation.Prepared(dataset, words).part(0)
    warnings.simplefilter("ignore")
    if given.part == "loss":
        rows = compare_losses(words, source)
        summary = {
            "ratio": None,
            "largest distance": max(r["distance in displacements"] for r in rows),
        }
    else:
        rows = compare_steps(words, source, given.sentences)
        summary = {"ratio": None, "mean lost at lam 0.25": rows[0]["mean lost, literal"]}
    name = given.part if given.name == "loss" else given.name
    finish("printed", rows, summary=summary, title=f"As printed: {given.part}", save=given.save,
           name=name)  # fmt: skip


if __name__ == "__main__":
    main()
