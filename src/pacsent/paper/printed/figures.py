"""Printed beside corrected, in eight small panels: the data, and a figure of them.

`panels()` computes the curves, `draw(axes)` draws them on eight axes of matplotlib. The vectors are
those of the paper's generative model (`pacsent.paper.simulation`): 200 words, 16 dimensions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pacsent.paper import simulation
from pacsent.paper.printed import closed_forms, kl, sgd, word_training
from pacsent.paper.printed.negative_sampling import PrintedPBNegVectorizer
from pacsent.sentences.solvers.risks import gibbs_risk
from pacsent.text.encoded import Encoded

_LENGTHS = np.array([2, 4, 8, 16, 32, 64, 128])
_LAM = 8.0
_TRAINED_LENGTHS = np.array([10, 30, 100, 150, 203, 250, 301])  # words, at lambda = 1


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    name: str
    x: np.ndarray
    y: np.ndarray
    is_printed: bool


@dataclass(frozen=True)
class Panel:
    """One difference between the paper as printed and as corrected."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_base: int | None = 10  # of the horizontal axis; None for a linear one
    y_scale: str = "linear"  # of matplotlib


def _pair(x, printed, corrected, names=("printed", "corrected")):
    return (
        Curve(names[0], np.asarray(x, float), np.asarray(printed, float), True),
        Curve(names[1], np.asarray(x, float), np.asarray(corrected, float), False),
    )


def panels(random_state: int = 0) -> list[Panel]:
    """Return the eight panels with their curves.

    >>> [panel.title for panel in panels()][:2]
    ['PB-L2: variance', 'PB-IDF-L2: variance']
    """
    rng = np.random.default_rng(random_state)
    language = simulation.Language(simulation.SETTINGS["topics"])
    words = language.words
    A_hat, B_hat = (table.astype(float) for table in words.roles(swap=False))
    counts = words.vocabulary.require_counts("the panels")
    p = counts / counts.sum()
    sentences = [rng.choice(p.size, n, p=p) for n in _LENGTHS]
    return [
        *_variances(sentences, A_hat, B_hat, rng),
        _kl(sentences, B_hat),
        _first_prior(sentences, A_hat, B_hat),
        _factor(sentences[3], A_hat, B_hat, rng),
        _weighting(sentences[4], words),
        _optimiser(words, rng),
        _word_variance(words, rng),
    ]


def _variances(sentences, A_hat, B_hat, rng):
    idf = rng.uniform(1.0, 6.0, len(A_hat))
    values = {}
    for form in ("printed", "exact"):
        values[form] = [
            (
                closed_forms.l2_posterior(A_hat[s], B_hat[s], lam=_LAM, form=form)[1],
                closed_forms.idf_l2_posterior(A_hat[s], B_hat[s], idf[s], lam=_LAM, form=form)[1],
            )
            for s in sentences
        ]
    printed = np.array(values["printed"])  # (n_lengths, 2)
    exact = np.array(values["exact"])
    axes = {"x_label": "words", "y_label": "variance", "y_scale": "log"}
    return [
        Panel("PB-L2: variance", curves=_pair(_LENGTHS, printed[:, 0], exact[:, 0]), **axes),
        Panel("PB-IDF-L2: variance", curves=_pair(_LENGTHS, printed[:, 1], exact[:, 1]), **axes),
    ]


def _kl(sentences, B_hat):
    """Q = P_S moved by a tenth: the KL is small, what is printed is far below 0."""
    printed, exact = [], []
    for tokens in sentences:
        B = B_hat[tokens]
        mean, variance = kl.product_prior(B)
        printed.append(kl.kl_printed(mean + 0.1, variance, B))
        exact.append(kl.kl_exact(mean + 0.1, variance, B))
    return Panel("KL(Q‖P)", "words", "nats", _pair(_LENGTHS, printed, exact), y_scale="symlog")


def _first_prior(sentences, A_hat, B_hat):
    def length(function, tokens):
        return np.linalg.norm(function(A_hat[tokens], B_hat[tokens], lam=_LAM)[0])

    first = [length(closed_forms.sum_prior_posterior, tokens) for tokens in sentences]
    product = [length(closed_forms.l2_posterior, tokens) for tokens in sentences]
    names = ("sum of o (first prior)", "product (Theorem 2)")
    curves = _pair(_LENGTHS, first, product, names)
    return Panel("First prior: length of the mean", "words", "|mean|", curves, y_scale="log")


def _factor(tokens, A_hat, B_hat, rng):
    """How far the mean has moved from the prior to the data, by the factor of the loss."""
    idf = rng.uniform(1.0, 6.0, tokens.size)
    lams = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    prior = idf @ B_hat[tokens] / idf.sum()
    data = idf @ A_hat[tokens] / idf.sum()
    shares = []
    for factor in ("main text", "appendix"):
        made = [
            closed_forms.idf_l2_posterior(
                A_hat[tokens], B_hat[tokens], idf, lam=lam, factor=factor
            )[0]
            for lam in lams
        ]
        along = (np.array(made) - prior) @ (data - prior)
        shares.append(along / ((data - prior) @ (data - prior)))
    curves = _pair(lams, *shares, names=("β‖·‖² (main text)", "β/2‖·‖² (appendix)"))
    return Panel("PB-IDF-L2: share of the data", "λ", "share of the data", curves, log_base=2)


def _weighting(tokens, words):
    """Risk of the prior against the bias: by pi, calling everything noise is hard to beat."""
    k = words.training["n_negatives"]
    biases = np.linspace(-2.0, 4.0, 13)
    counts = sparse.csr_matrix(np.bincount(tokens, minlength=words.n_words)[None])
    mean, variance = kl.product_prior(words.output_vectors[tokens])
    p_noise = words.vocabulary.noise_probabilities()
    values = []
    for weights in ((1 / (k + 1), k / (k + 1)), (0.5, 0.5)):
        of_bias = [
            gibbs_risk(
                mean[None],
                np.array([variance]),
                counts,
                words.input_vectors,
                p_noise,
                bias=bias,
                weights=weights,
            ).risk[0]
            for bias in biases
        ]
        values.append(of_bias)
    curves = _pair(biases, *values, names=("by π = 1/(k+1)", "1/2 each"))
    return Panel("Zero-one risk of the prior", "bias", "risk", curves, log_base=None)


def _optimiser(words, rng):
    """Relative error of the mean after 40 epochs, at lambda = 1."""
    A_hat, B_hat = words.input_vectors, words.output_vectors
    counts = words.vocabulary.counts
    lengths = _TRAINED_LENGTHS
    ids = rng.choice(words.n_words, lengths.sum(), p=counts / counts.sum())
    encoded = Encoded.from_lengths(ids, lengths)
    p_noise = words.vocabulary.noise_probabilities()
    solver = PrintedPBNegVectorizer(words, n_negatives=15, tol=1e-8, n_jobs=1).fit(encoded)
    solver.noise_counts_ = counts
    best, _ = solver.posterior(encoded)
    errors = []
    for literal in (True, False):
        settings = {"literal": literal, "random_state": rng}
        with np.errstate(over="ignore", invalid="ignore"):
            mu = sgd.train(encoded, A_hat, B_hat, p_noise, **settings).mu
            error = np.linalg.norm(mu - best, axis=1) / np.linalg.norm(best, axis=1)
        errors.append(np.nan_to_num(error, nan=1e6, posinf=1e6).clip(1e-6, 1e6))
    curves = _pair(lengths, *errors, names=("literal steps", "stable steps"))
    title = "PB-neg after 40 epochs, λ = 1"
    return Panel(title, "words", "relative error", curves, log_base=None, y_scale="log")


def _word_variance(words, rng):
    """How far words of w-PB-neg move, by their frequency; 10 epochs on 60 sentences."""
    counts = words.vocabulary.counts
    p = counts / counts.sum()
    sentences = [rng.choice(words.n_words, 20, p=p) for _ in range(60)]
    occurrences = np.bincount(np.concatenate(sentences), minlength=words.n_words)
    variance = word_training.word_variances(occurrences)
    seen = np.flatnonzero(occurrences)
    constant = np.where(occurrences > 0, np.median(variance[seen]), np.inf)
    tables = words.input_vectors.astype(float), words.output_vectors.astype(float)
    curves = []
    edges = np.unique(np.quantile(occurrences[seen], np.linspace(0, 1, 7)))
    for name, var_P in (("constant", constant), ("T/freq (printed)", variance)):
        settings = {"n_epochs": 10, "lam": 0.02, "random_state": 0}
        made = word_training.train_words(sentences, *tables, var_P=var_P, **settings)
        moved = np.linalg.norm(made.mu - tables[1], axis=1)[seen]
        group = np.clip(
            np.searchsorted(edges, occurrences[seen], side="right") - 1, 0, edges.size - 2
        )
        members = np.unique(group)
        x = np.array([occurrences[seen][group == g].mean() for g in members])
        y = np.array([moved[group == g].mean() for g in members])
        curves.append(Curve(name, x, y, is_printed=name.startswith("T/freq")))
    return Panel("w-PB-neg: prior variance", "occurrences", "distance moved", tuple(curves))


def draw(axes: Any, drawn: list[Panel] | None = None) -> None:
    """Draw the panels on matplotlib axes, one each: `plt.subplots(2, 4)[1]`.

    Parameters
    ----------
    axes : array or list of Axes
    drawn : list of Panel or None, default=None
        None computes them.
    """
    drawn = panels() if drawn is None else drawn
    places = axes.ravel() if isinstance(axes, np.ndarray) else axes
    for axis, panel in zip(places, drawn):
        for curve in panel.curves:
            color = "#c1440e" if curve.is_printed else "#1b6e9c"
            axis.plot(curve.x, curve.y, marker="o", markersize=3, color=color, label=curve.name)
        if panel.log_base:
            axis.set_xscale("log", base=panel.log_base)
        axis.set_yscale(panel.y_scale)
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.x_label, fontsize=8)
        axis.set_ylabel(panel.y_label, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.legend(frameon=False, fontsize=7)
