"""How often certificates fail, counted on a language whose true risk is known.

Documents come from the paper's generative model (`generate`): phi_S ~ Dirichlet(gamma_S),
w ~ Multinomial(phi_S). Given phi_S, the true risk of any posterior is a sum, so each replicate
either satisfies the bound or violates it, and the share of violations must not exceed delta. The
same documents show what happens to the paper's own bound, whose prior is built from the sample.
"""

import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.binomial import two_sided_limits
from pacsent.bounds.rounding import rounded_up
from pacsent.certify.independence import as_seed
from pacsent.paper import (
    continuation,
    document_certificate,
    heuristic_certificate,
    squared_certificate,
    token_parts,
    word_certificate,
)
from pacsent.paper.continuation import cut
from pacsent.paper.document_certificate import DocumentOptions, mixed, source_variances
from pacsent.paper.encoder_certificate import CertifyOptions, prepare, vectors_of
from pacsent.paper.generative import generate
from pacsent.paper.gibbs_certificate import GibbsOptions, GibbsPosterior
from pacsent.paper.heuristic_certificate import HeuristicOptions
from pacsent.progress import bar
from pacsent.sentences.methods.closed_forms import AverageVectorizer
from pacsent.sentences.solvers.risks import gibbs_risk, word_scores
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

# the options of each kind, and the module that measures it
MEASURED = {
    "continuation": (CertifyOptions, continuation),
    "A": (GibbsOptions, word_certificate),
    "B": (DocumentOptions, document_certificate),
    "C": (GibbsOptions, squared_certificate),
    "D": (HeuristicOptions, heuristic_certificate),
}
KINDS = tuple(MEASURED)


@dataclass(frozen=True)
class Setting:
    """One situation to simulate."""

    name: str
    n_documents: int
    n_tokens: int
    n_words: int
    n_dims: int
    memorise: bool  # random word vectors, that know nothing but which word is which
    n_negatives: int
    posterior: str


SETTINGS = {
    "topics": Setting("topics", 60, 40, 200, 16, False, 5, "auto"),
    "memorising": Setting("memorising", 100, 16, 400, 64, True, 1, "vectorizer"),
    "drift": Setting("drift", 60, 40, 200, 16, False, 5, "auto"),
}
BURST = 0.4  # drift: chance that a word repeats one of the last few of its document
REACH = 8  # how many those are


@dataclass(frozen=True)
class Coverage:
    """How often a certificate was below the truth.

    `low` and `high` are the exact (Clopper-Pearson) 95% interval of the rate.
    """

    kind: str
    setting: str
    n_replicates: int
    n_violations: int
    low: float
    high: float
    delta: float
    mean_bound: float
    mean_risk: float
    mean_gap: float
    paper_violations: int
    paper_mean_bound: float
    paper_mean_risk: float
    replicates: np.ndarray = field(repr=False)  # (n_replicates, 2): bound and true risk

    @property
    def rate(self) -> float:
        return self.n_violations / self.n_replicates

    def __str__(self) -> str:
        return (
            f"{self.n_violations:,} of {self.n_replicates:,} bounds were below the true risk: a "
            f"rate of {self.rate:.3f} (95% interval {self.low:.3f} to {self.high:.3f}; allowed "
            f"{self.delta:g}). Mean bound {rounded_up(self.mean_bound, 3)}, mean true risk "
            f"{self.mean_risk:.3f}."
        )

    def to_dict(self) -> dict:
        numbers = {**asdict(self), "rate": self.rate, "holds": self.rate <= self.delta}
        return {name: value for name, value in numbers.items() if name != "replicates"}


class Language:
    """A generative model with its word vectors, made from a source corpus of its own."""

    def __init__(self, setting: Setting, seed: int = 0):
        self.setting = setting
        rng = np.random.default_rng([seed, 7])
        how: dict = {"topic_share": 0.8, "language": seed, "random_state": 0}
        corpus = generate(setting.n_documents, n_words=setting.n_words, **how)
        self.gamma = 60.0 * (corpus.gamma @ corpus.themes)  # (n_documents, n_words)
        source = self.counts(rng, np.tile(self.gamma, (max(1, 1000 // len(self.gamma)), 1)), 60)[0]
        counts = source.sum(axis=0) + 1
        vocabulary = Vocabulary([f"w{i}" for i in range(setting.n_words)], counts)
        shape = (setting.n_words, setting.n_dims)
        if setting.memorise:
            table = rng.standard_normal(shape) * (6.0 / np.sqrt(setting.n_dims))
            tables = table, table
        else:
            # i.o close to PMI - ln k: what Skip-gram's loss aims at
            together = (source.T @ source - np.diag(source.sum(axis=0))).astype(float) + 0.5
            p = counts / counts.sum()
            pmi = np.log(together / together.sum() / np.outer(p, p))
            U, S, Vt = np.linalg.svd(pmi - np.log(setting.n_negatives))
            root = np.sqrt(S[: setting.n_dims])
            tables = U[:, : setting.n_dims] * root, Vt[: setting.n_dims].T * root
        I_hat, O_hat = (np.ascontiguousarray(t, dtype=np.float32) for t in tables)
        training = {"n_negatives": setting.n_negatives}
        self.words = WordVectors(vocabulary, I_hat, O_hat, training=training)

    def sample(self, n_copies: int = 10) -> tuple[AverageVectorizer, Encoded]:
        """PB-L2 with the word vectors, and documents to certify it on: for examples."""
        rows = np.tile(np.arange(len(self.gamma)), n_copies)
        return AverageVectorizer(self.words), self.draw(np.random.default_rng(0), rows)[0]

    def counts(
        self, rng: np.random.Generator, gamma: np.ndarray, n_tokens: int | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw documents: how often each word occurs, and the phi behind each."""
        phi = rng.standard_gamma(np.maximum(gamma, 1e-3))
        phi /= phi.sum(axis=1, keepdims=True)
        # multinomial wants sums of at most one
        return rng.multinomial(n_tokens, phi * (1 - 1e-12)), phi

    def draw(
        self, rng: np.random.Generator, rows: np.ndarray | None = None
    ) -> tuple[Encoded, np.ndarray]:
        """(Encoded, phi) of fresh documents; lengths between half and one and a half."""
        gamma = self.gamma if rows is None else self.gamma[rows]
        mean = self.setting.n_tokens
        n_tokens = rng.integers(max(2, mean // 2), mean + mean // 2 + 1, len(gamma))
        counts, phi = self.counts(rng, gamma, n_tokens)
        document, word = (np.repeat(at.ravel(), counts.ravel()) for at in np.indices(counts.shape))
        # the words of each document in random order
        order = np.argsort(document + rng.random(document.size), kind="stable")
        return Encoded.from_lengths(word[order], n_tokens), phi

    def draw_drifting(self, rng: np.random.Generator, n_documents: int) -> Encoded:
        """Documents that begin with one topic and end with another, and repeat recent words."""
        mean = self.setting.n_tokens
        n_tokens = rng.integers(max(5, mean // 2), mean + mean // 2 + 1, n_documents)
        ends = [
            self.counts(rng, self.gamma[rng.integers(0, len(self.gamma), n_documents)], 1)[1]
            for _ in range(2)
        ]
        cumulated = np.cumsum(np.stack(ends), axis=2)  # (start and end, n_documents, n_words)
        longest, rows = int(n_tokens.max()), np.arange(n_documents)
        words = np.zeros((n_documents, longest), dtype=np.int64)
        for t in range(longest):
            late = (rng.random(n_documents) < t / np.maximum(n_tokens - 1, 1)).astype(int)
            below = cumulated[late, rows] < rng.random((n_documents, 1))
            words[:, t] = np.minimum(below.sum(axis=1), self.setting.n_words - 1)
            if t:
                again = rng.random(n_documents) < BURST
                back = t - 1 - rng.integers(0, min(t, REACH), n_documents)
                words[:, t] = np.where(again, words[rows, back], words[:, t])
        kept = np.arange(longest) < n_tokens[:, None]
        return Encoded.from_lengths(words[kept], n_tokens)


def simulate(
    kind: str = "A",
    setting: str = "topics",
    n_replicates: int = 1000,
    *,
    delta: float = 0.05,
    random_state: Any = None,
    verbose: bool = False,
    **options: Any,
) -> Coverage:
    """Count how often a certificate falls below the true risk.

    Parameters
    ----------
    kind : {"continuation", "A", "B", "C", "D"}
    setting : {"topics", "memorising", "drift"}
        Word vectors that know which words go together, 60 documents of about 40 words; or random
        vectors, which can only memorise, and documents of about 16 words; or documents whose words
        come in bursts and whose topic drifts (continuation and A only, and A must fail there: its
        truth is taken from the words that follow).
    random_state : int, RandomState, Generator or None, default=None
        Draws the documents of all replicates.
    **options
        Options of the kind, as its function takes them.

    Examples
    --------
    >>> simulate("A", "topics", 2, random_state=0).n_violations
    0
    """
    if setting not in SETTINGS:
        raise ValueError(f"setting must be one of {tuple(SETTINGS)}. Got {setting!r} instead.")
    if n_replicates < 1:
        raise ValueError(f"n_replicates must be at least 1. Got {n_replicates} instead.")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}. Got {kind!r} instead.")
    if setting == "drift" and kind not in ("continuation", "A"):
        raise ValueError(f"kind must be 'continuation' or 'A' in drift. Got {kind!r} instead.")
    random_state = as_seed(random_state)
    language = Language(SETTINGS[setting])
    population: _Redrawn | _Continuing | _Population | _Heuristics
    if setting == "drift":
        population = _Drifting(language, random_state, kind)
    elif kind == "B":
        population = _Population(language, random_state)
    elif kind == "continuation":
        population = _Continuing(language, random_state)
    elif kind == "D":
        population = _Heuristics(language, random_state)
    else:
        population = _Redrawn(language, kind)
    trial, rows = Trial(delta, options), np.empty((n_replicates, 4))
    with bar(f"{kind}, {setting}", total=n_replicates, unit="replicates", enabled=verbose) as shown:
        for replicate in range(n_replicates):
            rng = np.random.default_rng([random_state, replicate])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows[replicate] = population.replicate(rng, trial)
            shown.advance()
    claimed, true, paper_claimed, paper_true = rows.T
    n_violations = int((claimed < true).sum())
    low, high = two_sided_limits(n_violations, n_replicates, 0.05)
    counted = kind, setting, n_replicates, n_violations, low, high, delta
    return Coverage(
        *counted,
        mean_bound=float(claimed.mean()),
        mean_risk=float(true.mean()),
        mean_gap=float((claimed - true).mean()),
        paper_violations=int((paper_claimed < paper_true).sum()),
        paper_mean_bound=float(paper_claimed.mean()),
        paper_mean_risk=float(paper_true.mean()),
        replicates=rows[:, :2],
    )


@dataclass(frozen=True)
class Trial:
    """What is tested in every replicate: a certificate with this delta and these options."""

    delta: float
    options: dict

    def __call__(self, rng, words, documents, kind, **options):
        kind_of_options, module = MEASURED[kind]
        given = {"delta": self.delta, "random_state": int(rng.integers(2**31))}
        chosen = kind_of_options(**{**given, **options, **self.options})
        encoder = AverageVectorizer(words, n_jobs=1)
        return module.measure(prepare(encoder, documents, chosen))


def _risks(gibbs: GibbsPosterior, words: WordVectors, counts) -> np.ndarray:
    """Balanced risk of each posterior if the words of its document follow `counts`."""
    posterior, table = (gibbs.means, gibbs.variances), words.input_vectors
    return gibbs_risk(*posterior, counts, table, gibbs.p_noise, bias=gibbs.bias).risk


class _Redrawn:
    """Kinds A and C: the documents are drawn anew in each replicate, from known distributions."""

    def __init__(self, language, kind):
        self.language, self.kind = language, kind

    def replicate(self, rng, trial: Trial):
        words = self.language.words
        encoded, phi = self.language.draw(rng)
        posterior = self.language.setting.posterior if self.kind != "C" else "auto"
        certificate, gibbs = trial(rng, words, encoded, self.kind, posterior=posterior)
        target = phi[gibbs.parts.rows]
        weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        if self.kind == "A":
            losses = _risks(gibbs, words, sparse.csr_matrix(target))
        else:
            A_hat = words.input_vectors.astype(float)
            squares = (
                target @ (A_hat**2).sum(axis=1)
                - 2 * ((target @ A_hat) * gibbs.means).sum(axis=1)
                + (gibbs.means**2).sum(axis=1)
            )
            losses = 0.5 * (squares + A_hat.shape[1] * gibbs.variances)
        claim = _paper_claim(words, encoded, phi, trial.delta)
        return (certificate.error_upper, weight @ losses, *claim)


def _paper_claim(words, encoded, phi, delta):
    """The printed bound: prior and sample are the same words, Q = P_S, so the KL is 0."""
    counts = words.vocabulary.count(encoded)
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    mu = counts @ words.output_vectors.astype(float) / n_tokens[:, None]
    var = 1.0 / n_tokens
    p_noise = words.vocabulary.noise_probabilities()
    bias = np.log(words.training["n_negatives"])
    table = words.input_vectors
    seen = gibbs_risk(mu, var, counts, table, p_noise, bias=bias)
    true = gibbs_risk(mu, var, sparse.csr_matrix(phi), table, p_noise, bias=bias)
    n = int(n_tokens.sum())
    weight = n_tokens / n
    claimed = bounds.maurer(float(weight @ seen.positive), 0.0, n, delta, constant="xi")
    return 0.5 * (claimed + weight @ seen.noise), weight @ true.risk


class _Continuing:
    """A large set of documents, drawn with replacement: the population of continuations."""

    def __init__(self, language, seed, size=1000, n_drawn=300):
        rng = np.random.default_rng([seed, 13])
        self.language, self.n_drawn = language, n_drawn
        self.encoded = self.drawn(rng, size)

    def drawn(self, rng, size):
        rows = rng.integers(0, len(self.language.gamma), size)
        return self.language.draw(rng, rows)[0]

    def replicate(self, rng, trial: Trial):
        sample = self.encoded.take(rng.integers(0, self.encoded.n_sentences, self.n_drawn))
        certificate, measured = trial(rng, self.language.words, sample, "continuation")
        return certificate.error_upper, self.true_risk(measured.rule), 0.0, 0.0

    def true_risk(self, rule):
        """Mean over the whole population, noise by its exact distribution."""
        head, tail = cut(self.encoded)
        vectors = rule.calibrated(vectors_of(rule.encoder, head))
        scores = word_scores(vectors, tail, rule.A_hat) + rule.bias
        n = np.diff(tail.offsets)
        missed = np.bincount(np.repeat(np.arange(n.size), n), scores <= 0, n.size) / n
        false = (vectors @ rule.A_hat.T.astype(float) + rule.bias >= 0) @ rule.p_noise
        return float((0.5 * missed + 0.5 * false).mean())


class _Heuristics(_Continuing):
    """Kind D on the same population, with thresholds from documents of another draw."""

    def __init__(self, language, seed, size=1000, n_drawn=300):
        super().__init__(language, seed, size, n_drawn)
        self.reference = self.drawn(np.random.default_rng([seed, 17]), 200)
        self.risks: np.ndarray | None = None  # (n_hypotheses,): of the whole population

    def replicate(self, rng, trial: Trial):
        drawn = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        sample = self.encoded.take(drawn)
        given = {"reference": self.reference}
        certificate, chosen = trial(rng, self.language.words, sample, "D", **given)
        if self.risks is None:
            self.risks = chosen.heuristics.expected_losses(self.encoded).mean(axis=0)
        return certificate.error_upper, float(chosen.weights @ self.risks), 0.0, 0.0


class _Drifting(_Continuing):
    """Documents with bursts and a drifting topic: what A assumes is not so here."""

    def __init__(self, language, seed, kind):
        self.kind = kind
        super().__init__(language, seed)

    def drawn(self, rng, size):
        return self.language.draw_drifting(rng, size)

    def replicate(self, rng, trial: Trial):
        if self.kind == "continuation":
            return super().replicate(rng, trial)
        # a document that is drawn twice counts once in a certificate
        drawn = np.unique(rng.integers(0, self.encoded.n_sentences, self.n_drawn))
        sample = self.encoded.take(drawn)
        head, tail = cut(sample)
        words = self.language.words
        certificate, gibbs = trial(rng, words, head, "A")
        # the very posteriors that were certified, on the words that follow
        risks = _risks(gibbs, words, words.vocabulary.count(tail.take(gibbs.parts.rows)))
        weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        return certificate.error_upper, float(weight @ risks), 0.0, 0.0


class _Population:
    """Kind B needs a distribution over documents: a large set of them, drawn with replacement."""

    def __init__(self, language, seed, size=1000, n_drawn=500):
        rng = np.random.default_rng([seed, 11])
        self.language, self.n_drawn = language, n_drawn
        rows = rng.integers(0, len(language.gamma), size)
        self.encoded, self.phi = language.draw(rng, rows)

    def replicate(self, rng, trial: Trial):
        words = self.language.words
        chosen = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        sample = self.encoded.take(chosen)
        posterior: object = "prior"
        if self.language.setting.posterior == "vectorizer":
            posterior = self.learned(sample)
        certificate, gibbs = trial(rng, words, sample, "B", posterior=posterior)
        true = self.true_risk(rng, gibbs)
        claimed, paper_true = _paper_claim(words, sample, self.phi[chosen], trial.delta)
        return certificate.error_upper, true, claimed, paper_true

    def learned(self, sample):
        """Word posteriors that depend on the sample: a word leans to the documents it is in."""
        words = self.language.words
        counts = words.vocabulary.count(sample)
        B_hat = words.output_vectors.astype(float)
        means = counts @ B_hat / np.asarray(counts.sum(axis=1)).ravel()[:, None]
        total = np.asarray(counts.sum(axis=0)).ravel()
        leaning = (counts.T @ means) / np.maximum(total, 1)[:, None] - B_hat
        length = np.linalg.norm(leaning, axis=1, keepdims=True)
        var_P = source_variances(words.vocabulary, 0.01)
        step = 0.3 * np.sqrt(var_P)[:, None] * leaning / np.maximum(length, 1e-12)  # 0.045 nats
        return np.where(total[:, None] > 0, B_hat + step, B_hat), var_P

    def true_risk(self, rng, gibbs):
        """Mean over the whole population, each document halved at random (twice)."""
        words = self.language.words
        total = 0.0
        for _ in range(2):
            halves = token_parts.split_tokens(self.encoded, 0.5, 0.0, rng)
            means, variances = mixed(halves.prior, gibbs.word_means, gibbs.word_variances)
            means, variances = gibbs.scale * means + gibbs.shift, gibbs.scale**2 * variances
            halved = gibbs._replace(means=means, variances=variances)
            total += _risks(halved, words, words.vocabulary.count(halves.sample)).mean() / 2
        return total
