"""PB-neg, w-PB-neg and PV-DBOW: formulas and solvers by more than one route each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize

from pacsent import PBNegVectorizer, Vocabulary, WordVectors
from pacsent import logistic_posterior as posterior


@pytest.fixture(scope="module")
def example(golden):
    """The worked example of the golden file: seven words, four dimensions, three sentences."""
    rows = golden("methods")
    facts = rows["example"]
    words = WordVectors(
        Vocabulary(list("abcdefg"), facts["counts"]), np.array(facts["I"]), np.array(facts["O"])
    )
    counts = sparse.csr_matrix(
        np.array([np.bincount(S, minlength=7) for S in facts["sentences"]], dtype=float)
    )
    return rows, facts, words, counts


def tables(words, method):
    return words.roles(swap=method.startswith("i-"))


def token_lists(facts):
    return [["abcdefg"[w] for w in S] for S in facts["sentences"]]


def random_words(rng, n_words=60, n_dims=5, scale=0.8):
    names = [f"w{i}" for i in range(n_words)]
    counts = np.sort(rng.integers(1, 500, n_words))[::-1]
    I_hat, O_hat = scale * rng.standard_normal((2, n_words, n_dims))
    return WordVectors(Vocabulary(names, counts), I_hat, O_hat)


def random_sentences(rng, words, lengths):
    p = words.vocabulary.counts / words.vocabulary.counts.sum()
    names = np.array(words.vocabulary.words)
    return [names[rng.choice(words.n_words, n, p=p)].tolist() for n in lengths]


# ------------------------------------------------------------------------------------------------
# PB-neg: objectives
# ------------------------------------------------------------------------------------------------


def test_sampled_objective_and_gradients_are_the_golden_ones(example):
    rows, facts, words, _ = example
    drawn = rows["pb_neg_sampled"]
    for row in drawn["rows"]:
        s = row["sentence"]
        A_hat, B_hat = tables(words, row["method"])
        found = posterior.sampled_objective(
            np.array(drawn["mu"][s]), drawn["rho"][s], np.array(drawn["eps"][s]),
            facts["sentences"][s], drawn["negatives"][s], A_hat, B_hat,
            lam=row["lam"], var_P=row["sigma_P2"], kl=row["kl"],
        )  # fmt: skip
        for name in ("data", "mean_penalty", "var_penalty", "total", "grad_mu", "grad_rho"):
            assert_allclose(getattr(found, name), row[name], rtol=1e-12, atol=1e-12)
        assert_allclose(found.grad_h, row["grad_h"], rtol=1e-12, atol=1e-12)


def test_expected_objective_and_gradients_are_the_golden_ones(example):
    rows, facts, words, counts = example
    at = rows["pb_neg_expected"]
    for row in rows["pb_neg_expected"]["rows"]:
        s = row["sentence"]
        A_hat, B_hat = tables(words, row["method"])
        m = (counts @ B_hat) / counts.sum(axis=1).A1[:, None]
        found = posterior.expected_objective(
            np.array(at["mu"]), np.array(at["rho"]), counts, A_hat, m, np.array(facts["p_n"]),
            n_negatives=at["k"], lam=row["lam"], var_P=row["sigma_P2"], kl=row["kl"],
        )  # fmt: skip
        for name in ("data", "mean_penalty", "var_penalty", "total", "grad_mu", "grad_rho"):
            assert_allclose(getattr(found, name)[s], row[name], rtol=1e-10, atol=1e-10)
        assert_allclose(found.trace[s], row["trace_H"], rtol=1e-10)


# ------------------------------------------------------------------------------------------------
# PB-neg: the exact solver
# ------------------------------------------------------------------------------------------------


def test_exact_solver_finds_the_golden_optima(example):
    rows, facts, words, counts = example
    X = token_lists(facts)
    for row in rows["optima"]["pb_neg"]:
        settings = {"lam": row["lam"], "prior_variance": row["sigma_P2"], "kl": row["kl"]}
        vectorizer = PBNegVectorizer(words, tol=1e-9, **settings).fit(X)
        means, variances = vectorizer.posterior(X)
        s = row["sentence"]
        assert_allclose(means[s], row["mu"], atol=1e-7)
        assert_allclose(np.log(variances[s]), row["rho"], atol=1e-7)
        m = (counts @ words.output_vectors) / counts.sum(axis=1).A1[:, None]
        value = posterior.expected_objective(
            means, np.log(variances), counts, words.input_vectors, m, np.array(facts["p_n"]),
            lam=row["lam"], var_P=row["sigma_P2"], kl=row["kl"],
        ).total[s]  # fmt: skip
        assert_allclose(value, row["value"], atol=1e-10)
        assert vectorizer.gradient_norm_.max() < 1e-7
        assert vectorizer.n_unconverged_ == 0


@pytest.mark.parametrize("kl", ["exact", "paper"])
@pytest.mark.parametrize("lam", [0.25, 8.0])
def test_exact_solver_agrees_with_a_blind_minimiser(rng, kl, lam):
    words = random_words(rng)
    X = random_sentences(rng, words, [1, 4, 30])
    vectorizer = PBNegVectorizer(words, lam=lam, kl=kl, tol=1e-9, swap_roles=True).fit(X)
    means, variances = vectorizer.posterior(X)
    counts = words.vocabulary.count(X)
    m = (counts @ words.input_vectors) / counts.sum(axis=1).A1[:, None]
    noise = vectorizer.noise_counts_**0.75 / np.sum(vectorizer.noise_counts_**0.75)

    for s in range(len(X)):

        def value(x, s=s):
            return posterior.expected_objective(
                x[None, :-1], x[-1:], counts[s], words.output_vectors, m[s : s + 1], noise,
                lam=lam, kl=kl,
            ).total[0]  # fmt: skip

        found = minimize(value, np.zeros(words.n_dims + 1), method="BFGS", tol=1e-9).x
        assert_allclose(means[s], found[:-1], atol=2e-5)
        assert_allclose(np.log(variances[s]), found[-1], atol=2e-5)
