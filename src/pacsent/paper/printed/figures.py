"""Printed beside corrected, in eight small panels: the data, and a figure of them.

`panels()` computes the curves, `draw(axes)` draws them on eight axes of matplotlib. The vectors are
those of the paper's generative model (`pacsent.paper.simulation`): 200 words, 16 dimensions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.paper import simulation
from pacsent.paper.printed import closed_forms, kl, sgd, word_training
from pacsent.paper.printed.negative_sampling import PrintedPBNegVectorizer
from pacsent.sentences.solvers.risks import gibbs_risk
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors

_LENGTHS = np.array([2, 4, 8, 16, 32, 64, 128])
_LAM = 8.0
# Numbers of words of the sentences that are trained, at lambda = 1.
_TRAINED_LENGTHS = np.array([10, 30, 100, 150, 203, 250, 301])


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


def _pair(
    x: ArrayLike,
    printed: ArrayLike,
    corrected: ArrayLike,
    names: tuple[str, str] = ("printed", "corrected"),
) -> tuple[Curve, Curve]:
    """The curves of a difference, as printed and as corrected."""
    x = np.asarray(x, float)
    printed_curve = Curve(names[0], x, np.asarray(printed, float), is_printed=True)
    corrected_curve = Curve(names[1], x, np.asarray(corrected, float), is_printed=False)
    return printed_curve, corrected_curve


def panels(random_state: int = 0) -> list[Panel]:
    """Return the eight panels with their curves.

    Parameters
    ----------
    random_state : int, default=0
        Draws the sentences and their IDF.

    Returns
    -------
    list of Panel

    Examples
    --------
    >>> [panel.title for panel in panels()][:2]
    ['PB-L2: variance', 'PB-IDF-L2: variance']
    """
    rng = np.random.default_rng(random_state)
    language = simulation.Language(simulation.SETTINGS["topics"])
    words = language.words
    A_hat, B_hat = _matrices(words)
    p = _word_probabilities(words)
    sentences = [rng.choice(p.size, n, p=p) for n in _LENGTHS]

    sentence_of_16_words = sentences[3]
    sentence_of_32_words = sentences[4]

    # They share one generator: in another order, their random numbers would be others.
    all_panels = _variances(sentences, A_hat, B_hat, rng)
    all_panels.append(_kl(sentences, B_hat))
    all_panels.append(_first_prior(sentences, A_hat, B_hat))
    all_panels.append(_factor(sentence_of_16_words, A_hat, B_hat, rng))
    all_panels.append(_weighting(sentence_of_32_words, words))
    all_panels.append(_optimiser(words, rng))
    all_panels.append(_word_variance(words, rng))
    return all_panels


def _matrices(words: WordVectors) -> tuple[np.ndarray, np.ndarray]:
    """Input and output vectors in float64."""
    A_hat, B_hat = words.roles(swap=False)
    return A_hat.astype(float), B_hat.astype(float)


def _word_probabilities(words: WordVectors) -> np.ndarray:
    counts = words.vocabulary.require_counts("the panels")
    return counts / counts.sum()


def _variances(
    sentences: list[np.ndarray], A_hat: np.ndarray, B_hat: np.ndarray, rng: np.random.Generator
) -> list[Panel]:
    """Variances of PB-L2 and of PB-IDF-L2 by the length of the sentence."""
    idf = rng.uniform(1.0, 6.0, len(A_hat))
    l2: dict[str, list[float]] = {"printed": [], "exact": []}
    idf_l2: dict[str, list[float]] = {"printed": [], "exact": []}
    for form in l2:
        for tokens in sentences:
            A = A_hat[tokens]
            B = B_hat[tokens]
            _, variance = closed_forms.l2_posterior(A, B, lam=_LAM, form=form)
            l2[form].append(variance)
            _, variance = closed_forms.idf_l2_posterior(A, B, idf[tokens], lam=_LAM, form=form)
            idf_l2[form].append(variance)

    panels = []
    for method, variances in (("PB-L2", l2), ("PB-IDF-L2", idf_l2)):
        panel = Panel(
            title=f"{method}: variance",
            x_label="words",
            y_label="variance",
            curves=_pair(_LENGTHS, variances["printed"], variances["exact"]),
            y_scale="log",
        )
        panels.append(panel)
    return panels


def _kl(sentences: list[np.ndarray], B_hat: np.ndarray) -> Panel:
    """Q = P_S moved by a tenth: the KL is small, what is printed is far below 0."""
    printed = []
    exact = []
    for tokens in sentences:
        B = B_hat[tokens]
        mean, variance = kl.product_prior(B)
        mu = mean + 0.1
        printed.append(kl.kl_printed(mu, variance, B))
        exact.append(kl.kl_exact(mu, variance, B))
    return Panel("KL(Q‖P)", "words", "nats", _pair(_LENGTHS, printed, exact), y_scale="symlog")


def _first_prior(sentences: list[np.ndarray], A_hat: np.ndarray, B_hat: np.ndarray) -> Panel:
    """Lengths of the posterior means under both priors of the paper."""
    sum_lengths = []
    product_lengths = []
    for tokens in sentences:
        A = A_hat[tokens]
        B = B_hat[tokens]
        sum_mean, _ = closed_forms.sum_prior_posterior(A, B, lam=_LAM)
        product_mean, _ = closed_forms.l2_posterior(A, B, lam=_LAM)
        sum_lengths.append(np.linalg.norm(sum_mean))
        product_lengths.append(np.linalg.norm(product_mean))

    names = ("sum of o (first prior)", "product (Theorem 2)")
    curves = _pair(_LENGTHS, sum_lengths, product_lengths, names)
    return Panel("First prior: length of the mean", "words", "|mean|", curves, y_scale="log")


def _factor(
    tokens: np.ndarray, A_hat: np.ndarray, B_hat: np.ndarray, rng: np.random.Generator
) -> Panel:
    """Way of the mean from the prior to the data, by the factor of the loss."""
    A = A_hat[tokens]
    B = B_hat[tokens]
    idf = rng.uniform(1.0, 6.0, tokens.size)
    lams = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    prior = idf @ B / idf.sum()
    data = idf @ A / idf.sum()
    way = data - prior  # (n_dims,)

    fractions = []
    for factor in ("main text", "appendix"):
        means = []
        for lam in lams:
            mean, _ = closed_forms.idf_l2_posterior(A, B, idf, lam=lam, factor=factor)
            means.append(mean)
        moved = (np.array(means) - prior) @ way  # (n_lams,)
        fractions.append(moved / (way @ way))

    main_text, appendix = fractions
    names = ("β‖·‖² (main text)", "β/2‖·‖² (appendix)")
    curves = _pair(lams, main_text, appendix, names)
    return Panel("PB-IDF-L2: weight of the data", "λ", "weight of the data", curves, log_base=2)


def _weighting(tokens: np.ndarray, words: WordVectors) -> Panel:
    """Risk of the prior against the bias: by pi, calling everything noise is hard to beat."""
    k = words.training["n_negatives"]
    biases = np.linspace(-2.0, 4.0, 13)
    count = np.bincount(tokens, minlength=words.n_words)  # (n_words,)
    counts = sparse.csr_matrix(count[None])
    _, output_vectors = words.roles(swap=False)
    mean, variance = kl.product_prior(output_vectors[tokens])
    p_noise = words.vocabulary.noise_probabilities()

    risks = []
    weights_by_pi = (1 / (k + 1), k / (k + 1))
    for weights in (weights_by_pi, (0.5, 0.5)):
        risks_of_weights = []
        for bias in biases:
            gibbs = gibbs_risk(
                mean[None],
                np.array([variance]),
                counts,
                words.input_vectors,
                p_noise,
                bias=bias,
                weights=weights,
            )
            risks_of_weights.append(gibbs.risk[0])
        risks.append(risks_of_weights)

    by_pi, by_halves = risks
    curves = _pair(biases, by_pi, by_halves, names=("by π = 1/(k+1)", "1/2 each"))
    return Panel("Zero-one risk of the prior", "bias", "risk", curves, log_base=None)


def _optimiser(words: WordVectors, rng: np.random.Generator) -> Panel:
    """Relative error of the mean after 40 epochs, at lambda = 1."""
    A_hat, B_hat = words.roles(swap=False)
    lengths = _TRAINED_LENGTHS
    ids = rng.choice(words.n_words, lengths.sum(), p=_word_probabilities(words))
    encoded = Encoded.from_lengths(ids, lengths)
    p_noise = words.vocabulary.noise_probabilities()

    solver = PrintedPBNegVectorizer(words, n_negatives=15, tol=1e-8, n_jobs=1)
    solver.fit(encoded)
    solver.noise_counts_ = words.vocabulary.counts
    optimum, _ = solver.posterior(encoded)
    errors = []
    for literal in (True, False):
        # The literal steps diverge.
        with np.errstate(over="ignore", invalid="ignore"):
            trained = sgd.train(encoded, A_hat, B_hat, p_noise, literal=literal, random_state=rng)
            distance = np.linalg.norm(trained.mu - optimum, axis=1)
            error = distance / np.linalg.norm(optimum, axis=1)
        error = np.nan_to_num(error, nan=1e6, posinf=1e6)
        errors.append(error.clip(1e-6, 1e6))

    literal_errors, stable_errors = errors
    names = ("literal steps", "stable steps")
    curves = _pair(lengths, literal_errors, stable_errors, names)
    title = "PB-neg after 40 epochs, λ = 1"
    return Panel(title, "words", "relative error", curves, log_base=None, y_scale="log")


def _word_variance(words: WordVectors, rng: np.random.Generator) -> Panel:
    """Distances that words of w-PB-neg move, by their frequency; 10 epochs on 60 sentences."""
    p = _word_probabilities(words)
    sentences = [rng.choice(words.n_words, 20, p=p) for _ in range(60)]
    occurrences = np.bincount(np.concatenate(sentences), minlength=words.n_words)
    occurring = np.flatnonzero(occurrences)
    frequencies = occurrences[occurring]

    variance = word_training.word_variances(occurrences)
    median_variance = np.median(variance[occurring])
    constant = np.where(occurrences > 0, median_variance, np.inf)
    A_hat, B_hat = _matrices(words)

    # Words are grouped by sextiles of their frequency.
    quantiles = np.linspace(0, 1, 7)
    edges = np.unique(np.quantile(frequencies, quantiles))
    group = np.searchsorted(edges, frequencies, side="right") - 1
    group = np.clip(group, 0, edges.size - 2)
    members = np.unique(group)

    curves = []
    for name, var_P in (("constant", constant), ("T/freq (printed)", variance)):
        trained = word_training.train_words(
            sentences, A_hat, B_hat, var_P=var_P, n_epochs=10, lam=0.02, random_state=0
        )
        distances = np.linalg.norm(trained.mu - B_hat, axis=1)[occurring]
        x = np.array([frequencies[group == g].mean() for g in members])
        y = np.array([distances[group == g].mean() for g in members])
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
    if drawn is None:
        drawn = panels()
    if isinstance(axes, np.ndarray):
        axes = axes.ravel()

    for axis, panel in zip(axes, drawn):
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
