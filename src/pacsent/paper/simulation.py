"""Simulation that counts how often certificates fail, on a language whose true risk is known.

Documents come from the paper's generative model (`generate`): phi_S ~ Dirichlet(gamma_S),
w ~ Multinomial(phi_S). Given phi_S, the true risk of any posterior is a sum, so each replicate
either satisfies the bound or violates it, and the share of violations must not exceed delta. The
same documents show what happens to the paper's own bound, whose prior is built from the sample.
"""

import warnings
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

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

# The options of each kind, and the module that measures it.
MEASURED = {
    "continuation": (CertifyOptions, continuation),
    "A": (GibbsOptions, word_certificate),
    "B": (DocumentOptions, document_certificate),
    "C": (GibbsOptions, squared_certificate),
    "D": (HeuristicOptions, heuristic_certificate),
}
KINDS = tuple(MEASURED)


class _Replicate(NamedTuple):
    """Bound and true risk of a replicate, and those of the paper's own bound, if it has one."""

    bound: float
    risk: float
    paper_bound: float = 0.0
    paper_risk: float = 0.0


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
    "topics": Setting(
        name="topics",
        n_documents=60,
        n_tokens=40,
        n_words=200,
        n_dims=16,
        memorise=False,
        n_negatives=5,
        posterior="auto",
    ),
    "memorising": Setting(
        name="memorising",
        n_documents=100,
        n_tokens=16,
        n_words=400,
        n_dims=64,
        memorise=True,
        n_negatives=1,
        posterior="vectorizer",
    ),
    "drift": Setting(
        name="drift",
        n_documents=60,
        n_tokens=40,
        n_words=200,
        n_dims=16,
        memorise=False,
        n_negatives=5,
        posterior="auto",
    ),
}
# In the setting "drift": probability that a word repeats one of the last words of its document,
# and how many these are.
BURST = 0.4
REACH = 8


@dataclass(frozen=True)
class Coverage:
    """Counts of the certificates that were below the true risk.

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
        numbers = asdict(self)
        del numbers["replicates"]
        numbers["rate"] = self.rate
        numbers["holds"] = self.rate <= self.delta
        return numbers


class Language:
    """A generative model with its word vectors, made from a source corpus of its own."""

    def __init__(self, setting: Setting, seed: int = 0):
        self.setting = setting
        rng = np.random.default_rng([seed, 7])
        corpus = generate(
            setting.n_documents,
            n_words=setting.n_words,
            topic_share=0.8,
            language=seed,
            random_state=0,
        )
        self.gamma = 60.0 * (corpus.gamma @ corpus.themes)  # (n_documents, n_words)

        # The source corpus: about a thousand documents of 60 words.
        n_copies = max(1, 1000 // len(self.gamma))
        source_gamma = np.tile(self.gamma, (n_copies, 1))
        source, _ = self.counts(rng, source_gamma, 60)
        word_counts = source.sum(axis=0) + 1
        names = [f"w{i}" for i in range(setting.n_words)]
        vocabulary = Vocabulary(names, word_counts)

        if setting.memorise:
            deviation = 6.0 / np.sqrt(setting.n_dims)
            normal = rng.standard_normal((setting.n_words, setting.n_dims))
            I_hat = normal * deviation
            O_hat = I_hat
        else:
            I_hat, O_hat = _factorise(source, word_counts, setting)
        self.words = WordVectors(
            vocabulary,
            np.ascontiguousarray(I_hat, dtype=np.float32),
            np.ascontiguousarray(O_hat, dtype=np.float32),
            training={"n_negatives": setting.n_negatives},
        )

    def sample(self, n_copies: int = 10) -> tuple[AverageVectorizer, Encoded]:
        """PB-L2 with the word vectors, and documents to certify it on: for examples."""
        rng = np.random.default_rng(0)
        rows = np.tile(np.arange(len(self.gamma)), n_copies)
        documents, _ = self.draw(rng, rows)
        return AverageVectorizer(self.words), documents

    def counts(
        self, rng: np.random.Generator, gamma: np.ndarray, n_tokens: int | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw documents: how often each word occurs, and the phi behind each."""
        phi = rng.standard_gamma(np.maximum(gamma, 1e-3))
        phi /= phi.sum(axis=1, keepdims=True)
        # The probabilities of `multinomial` must not sum to more than one by rounding.
        counts = rng.multinomial(n_tokens, phi * (1 - 1e-12))
        return counts, phi

    def draw(
        self, rng: np.random.Generator, rows: np.ndarray | None = None
    ) -> tuple[Encoded, np.ndarray]:
        """(Encoded, phi) of fresh documents; lengths between half and one and a half."""
        gamma = self.gamma if rows is None else self.gamma[rows]
        mean = self.setting.n_tokens
        shortest = max(2, mean // 2)
        longest = mean + mean // 2
        n_tokens = rng.integers(shortest, longest + 1, len(gamma))
        counts, phi = self.counts(rng, gamma, n_tokens)  # both (n_documents, n_words)

        # Document and word of every token, (n_tokens,).
        document_of_count, word_of_count = np.indices(counts.shape)
        times = counts.ravel()
        document = np.repeat(document_of_count.ravel(), times)
        word = np.repeat(word_of_count.ravel(), times)

        # The words of each document come in random order.
        random_keys = document + rng.random(document.size)
        order = np.argsort(random_keys, kind="stable")
        return Encoded.from_lengths(word[order], n_tokens), phi

    def draw_drifting(self, rng: np.random.Generator, n_documents: int) -> Encoded:
        """Documents that begin with one topic and end with another, and repeat recent words."""
        mean = self.setting.n_tokens
        shortest = max(5, mean // 2)
        longest_allowed = mean + mean // 2
        n_tokens = rng.integers(shortest, longest_allowed + 1, n_documents)
        longest = int(n_tokens.max())
        rows = np.arange(n_documents)

        # Distributions of words at the start and at the end of each document.
        distributions = []
        for _ in range(2):
            topics = rng.integers(0, len(self.gamma), n_documents)
            _, phi = self.counts(rng, self.gamma[topics], 1)
            distributions.append(phi)
        cumulative = np.cumsum(np.stack(distributions), axis=2)  # (2, n_documents, n_words)

        words = np.zeros((n_documents, longest), dtype=np.int64)
        for t in range(longest):
            # The later the word, the more probably it comes from the distribution of the end.
            position = t / np.maximum(n_tokens - 1, 1)
            is_late = rng.random(n_documents) < position
            cumulative_at_t = cumulative[is_late.astype(int), rows]  # (n_documents, n_words)
            is_below = cumulative_at_t < rng.random((n_documents, 1))
            n_below = is_below.sum(axis=1)
            words[:, t] = np.minimum(n_below, self.setting.n_words - 1)
            if t == 0:
                continue

            is_repeated = rng.random(n_documents) < BURST
            reach = min(t, REACH)
            distance_back = 1 + rng.integers(0, reach, n_documents)
            earlier_words = words[rows, t - distance_back]
            words[:, t] = np.where(is_repeated, earlier_words, words[:, t])

        is_in_document = np.arange(longest) < n_tokens[:, None]
        return Encoded.from_lengths(words[is_in_document], n_tokens)


def _factorise(
    source: np.ndarray, word_counts: np.ndarray, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """Both matrices, with i.o close to PMI - ln k: what Skip-gram's loss aims at.

    `source` are counts of words in the documents of the source corpus, (n_documents, n_words).
    """
    # Pairs of different tokens of a document, (n_words, n_words).
    n_same = np.diag(source.sum(axis=0))
    n_together = (source.T @ source - n_same).astype(float)
    n_together += 0.5  # so that no logarithm is infinite
    p_together = n_together / n_together.sum()
    p = word_counts / word_counts.sum()
    pmi = np.log(p_together / np.outer(p, p))

    n_dims = setting.n_dims
    shifted_pmi = pmi - np.log(setting.n_negatives)
    U, S, Vt = np.linalg.svd(shifted_pmi)
    root = np.sqrt(S[:n_dims])
    I_hat = U[:, :n_dims] * root
    O_hat = Vt[:n_dims].T * root
    return I_hat, O_hat


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
        Kind of the certificate, as in `certify_encoder`.
    setting : {"topics", "memorising", "drift"}
        Word vectors that know which words go together, 60 documents of about 40 words; or random
        vectors, which can only memorise, and documents of about 16 words; or documents whose words
        come in bursts and whose topic drifts (continuation and A only, and A must fail there: its
        truth is taken from the words that follow).
    n_replicates : int, default=1000
        Number of certificates, each of documents that are drawn anew.
    delta : float, default=0.05
        Probability with which a certificate may fail.
    random_state : int, RandomState, Generator or None, default=None
        Draws the documents of all replicates.
    verbose : bool, default=False
        Show progress on stderr.
    **options
        Options of the kind, as its function takes them.

    Returns
    -------
    Coverage
        Number of violations, the interval of their rate, and mean bounds and risks.

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

    seed = as_seed(random_state)
    population = _make_population(kind, setting, seed)
    trial = Trial(delta, options)

    # Of each replicate: bound, true risk, the paper's bound and its true risk.
    values = np.empty((n_replicates, 4))
    title = f"{kind}, {setting}"
    with bar(title, total=n_replicates, unit="replicates", enabled=verbose) as progress:
        for replicate in range(n_replicates):
            rng = np.random.default_rng([seed, replicate])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values[replicate] = population.replicate(rng, trial)
            progress.advance()

    bound, risk, paper_bound, paper_risk = values.T  # each (n_replicates,)
    n_violations = int((bound < risk).sum())
    paper_violations = int((paper_bound < paper_risk).sum())
    gaps = bound - risk
    low, high = two_sided_limits(n_violations, n_replicates, 0.05)
    return Coverage(
        kind=kind,
        setting=setting,
        n_replicates=n_replicates,
        n_violations=n_violations,
        low=low,
        high=high,
        delta=delta,
        mean_bound=float(bound.mean()),
        mean_risk=float(risk.mean()),
        mean_gap=float(gaps.mean()),
        paper_violations=paper_violations,
        paper_mean_bound=float(paper_bound.mean()),
        paper_mean_risk=float(paper_risk.mean()),
        replicates=values[:, :2],
    )


def _make_population(kind: str, setting: str, seed: int) -> "_Redrawn | _Continuing | _Population":
    """The documents of all replicates, as the kind of certificate needs them."""
    language = Language(SETTINGS[setting])
    if setting == "drift":
        return _Drifting(language, seed, kind)
    if kind == "B":
        return _Population(language, seed)
    if kind == "continuation":
        return _Continuing(language, seed)
    if kind == "D":
        return _Heuristics(language, seed)
    return _Redrawn(language, kind)


@dataclass(frozen=True)
class Trial:
    """A certificate that is made in every replicate, with this delta and these options."""

    delta: float
    options: dict

    def __call__(
        self,
        rng: np.random.Generator,
        words: WordVectors,
        documents: Encoded,
        kind: str,
        **options: Any,
    ) -> tuple[Any, Any]:
        """The certificate of the documents, and what was measured with it."""
        options_class, module = MEASURED[kind]
        seed = int(rng.integers(2**31))
        values = {"delta": self.delta, "random_state": seed}
        values |= options
        values |= self.options  # those of the caller replace the others

        encoder = AverageVectorizer(words, n_jobs=1)
        sample = prepare(encoder, documents, options_class(**values))
        return module.measure(sample)


def _risks(gibbs: GibbsPosterior, words: WordVectors, counts: sparse.csr_matrix) -> np.ndarray:
    """Balanced risk of each posterior if the words of its document follow `counts`."""
    risks = gibbs_risk(
        gibbs.means,
        gibbs.variances,
        counts,
        words.input_vectors,
        gibbs.p_noise,
        bias=gibbs.bias,
    )
    return risks.risk


class _Redrawn:
    """Kinds A and C: the documents are drawn anew in each replicate, from known distributions."""

    def __init__(self, language: Language, kind: str):
        self.language = language
        self.kind = kind

    def replicate(self, rng: np.random.Generator, trial: Trial) -> _Replicate:
        words = self.language.words
        encoded, phi = self.language.draw(rng)
        posterior = "auto"
        if self.kind != "C":
            posterior = self.language.setting.posterior
        certificate, gibbs = trial(rng, words, encoded, self.kind, posterior=posterior)

        target = phi[gibbs.parts.rows]  # (n_certified, n_words)
        weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        if self.kind == "A":
            losses = _risks(gibbs, words, sparse.csr_matrix(target))
        else:
            losses = _squared_losses(gibbs, words, target)

        paper_bound, paper_risk = _paper_bound_and_risk(words, encoded, phi, trial.delta)
        return _Replicate(certificate.error_upper, weight @ losses, paper_bound, paper_risk)


def _squared_losses(gibbs: GibbsPosterior, words: WordVectors, target: np.ndarray) -> np.ndarray:
    """Expected squared loss of each posterior if its words follow `target`.

    E |A_w - h|^2 / 2 = (E |A_w|^2 - 2 E A_w . mu + |mu|^2 + n_dims var) / 2
    """
    A_hat = words.input_vectors.astype(float)
    n_dims = A_hat.shape[1]
    mean_vectors = target @ A_hat  # (n_documents, n_dims)

    square_lengths = (A_hat**2).sum(axis=1)  # (n_words,)
    mean_squares = target @ square_lengths
    products = (mean_vectors * gibbs.means).sum(axis=1)
    squares_of_means = (gibbs.means**2).sum(axis=1)
    squares = mean_squares - 2 * products + squares_of_means
    return 0.5 * (squares + n_dims * gibbs.variances)


def _paper_bound_and_risk(
    words: WordVectors, encoded: Encoded, phi: np.ndarray, delta: float
) -> tuple[float, float]:
    """The printed bound, and the true risk it is about.

    Prior and sample are the same words, Q = P_S, so the KL is 0.
    """
    _, B_hat = words.roles()
    counts = words.vocabulary.count(encoded)
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    sums = counts @ B_hat.astype(float)  # (n_documents, n_dims)
    mu = sums / n_tokens[:, None]
    var = 1.0 / n_tokens

    p_noise = words.vocabulary.noise_probabilities()
    bias = np.log(words.training["n_negatives"])
    A_hat = words.input_vectors
    empirical = gibbs_risk(mu, var, counts, A_hat, p_noise, bias=bias)
    truth = sparse.csr_matrix(phi)
    true = gibbs_risk(mu, var, truth, A_hat, p_noise, bias=bias)

    n = int(n_tokens.sum())
    weight = n_tokens / n
    positive_risk = float(weight @ empirical.positive)
    positive_bound = bounds.maurer(positive_risk, 0.0, n, delta, constant="xi")
    bound = 0.5 * (positive_bound + weight @ empirical.noise)
    return bound, weight @ true.risk


class _Continuing:
    """A large set of documents, drawn with replacement: the population of continuations."""

    def __init__(self, language: Language, seed: int, size: int = 1000, n_drawn: int = 300):
        rng = np.random.default_rng([seed, 13])
        self.language = language
        self.n_drawn = n_drawn
        self.encoded = self.draw_population(rng, size)

    def draw_population(self, rng: np.random.Generator, size: int) -> Encoded:
        """A population of this size."""
        rows = rng.integers(0, len(self.language.gamma), size)
        documents, _ = self.language.draw(rng, rows)
        return documents

    def replicate(self, rng: np.random.Generator, trial: Trial) -> _Replicate:
        rows = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        sample = self.encoded.take(rows)
        certificate, measured = trial(rng, self.language.words, sample, "continuation")
        return _Replicate(certificate.error_upper, self.true_risk(measured.rule))

    def true_risk(self, rule: continuation.Rule) -> float:
        """Mean over the whole population, noise by its exact distribution."""
        head, tail = cut(self.encoded)
        vectors = rule.calibrate(vectors_of(rule.encoder, head))

        n_tokens = np.diff(tail.offsets)  # (n_documents,)
        scores = word_scores(vectors, tail, rule.A_hat) + rule.bias  # (n_tokens,)
        missed = token_parts.mean_by_document(scores <= 0, n_tokens)

        noise_scores = vectors @ rule.A_hat.T.astype(float) + rule.bias  # (n_documents, n_words)
        false = (noise_scores >= 0) @ rule.p_noise
        losses = 0.5 * missed + 0.5 * false  # (n_documents,)
        return float(losses.mean())


class _Heuristics(_Continuing):
    """Kind D on the same population, with thresholds from documents of another draw."""

    def __init__(self, language: Language, seed: int, size: int = 1000, n_drawn: int = 300):
        super().__init__(language, seed, size, n_drawn)
        reference_rng = np.random.default_rng([seed, 17])
        self.reference = self.draw_population(reference_rng, 200)
        self.risks: np.ndarray | None = None  # (n_hypotheses,): of the whole population

    def replicate(self, rng: np.random.Generator, trial: Trial) -> _Replicate:
        rows = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        sample = self.encoded.take(rows)
        certificate, chosen = trial(rng, self.language.words, sample, "D", reference=self.reference)

        # The hypotheses are the same in each replicate.
        if self.risks is None:
            losses = chosen.heuristics.expected_losses(self.encoded)
            self.risks = losses.mean(axis=0)
        risk = float(chosen.weights @ self.risks)
        return _Replicate(certificate.error_upper, risk)


class _Drifting(_Continuing):
    """Documents with bursts and a drifting topic: what A assumes is not so here."""

    def __init__(self, language: Language, seed: int, kind: str):
        self.kind = kind
        super().__init__(language, seed)

    def draw_population(self, rng: np.random.Generator, size: int) -> Encoded:
        return self.language.draw_drifting(rng, size)

    def replicate(self, rng: np.random.Generator, trial: Trial) -> _Replicate:
        if self.kind == "continuation":
            return super().replicate(rng, trial)

        # A document that is drawn twice counts once in a certificate.
        drawn_rows = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        rows = np.unique(drawn_rows)
        sample = self.encoded.take(rows)
        head, tail = cut(sample)
        words = self.language.words
        certificate, gibbs = trial(rng, words, head, "A")

        # The very posteriors that were certified, on the words that follow.
        following = words.vocabulary.count(tail.take(gibbs.parts.rows))
        risks = _risks(gibbs, words, following)
        weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        return _Replicate(certificate.error_upper, float(weight @ risks))


class _Population:
    """Kind B needs a distribution over documents: a large set of them, drawn with replacement."""

    def __init__(self, language: Language, seed: int, size: int = 1000, n_drawn: int = 500):
        rng = np.random.default_rng([seed, 11])
        self.language = language
        self.n_drawn = n_drawn
        rows = rng.integers(0, len(language.gamma), size)
        self.encoded, self.phi = language.draw(rng, rows)

    def replicate(self, rng: np.random.Generator, trial: Trial) -> _Replicate:
        words = self.language.words
        rows = rng.integers(0, self.encoded.n_sentences, self.n_drawn)
        sample = self.encoded.take(rows)

        posterior: Any = "prior"
        if self.language.setting.posterior == "vectorizer":
            posterior = self.learn_posterior(sample)
        certificate, gibbs = trial(rng, words, sample, "B", posterior=posterior)

        risk = self.true_risk(rng, gibbs)
        phi = self.phi[rows]
        paper_bound, paper_risk = _paper_bound_and_risk(words, sample, phi, trial.delta)
        return _Replicate(certificate.error_upper, risk, paper_bound, paper_risk)

    def learn_posterior(self, sample: Encoded) -> tuple[np.ndarray, np.ndarray]:
        """Word posteriors that depend on the sample: a word leans to the documents it is in."""
        words = self.language.words
        _, B_hat = words.roles()
        B_hat = B_hat.astype(float)
        counts = words.vocabulary.count(sample)  # (n_documents, n_words)
        n_tokens = np.asarray(counts.sum(axis=1)).ravel()
        n_occurrences = np.asarray(counts.sum(axis=0)).ravel()

        # From each word's vector to the mean vector of the documents it occurs in.
        document_means = counts @ B_hat / n_tokens[:, None]
        safe_occurrences = np.maximum(n_occurrences, 1)
        word_means = (counts.T @ document_means) / safe_occurrences[:, None]
        direction = word_means - B_hat
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        length = np.maximum(length, 1e-12)

        # Every word moves by 0.3 prior standard deviations, which costs 0.045 nats.
        var_P = source_variances(words.vocabulary, 0.01)
        step = 0.3 * np.sqrt(var_P)[:, None] * direction / length
        means = np.where(n_occurrences[:, None] > 0, B_hat + step, B_hat)
        return means, var_P

    def true_risk(self, rng: np.random.Generator, gibbs: GibbsPosterior) -> float:
        """Mean over the whole population, each document halved at random (twice)."""
        assert gibbs.word_means is not None
        assert gibbs.word_variances is not None
        words = self.language.words
        total = 0.0
        for _ in range(2):
            halves = token_parts.split_tokens(self.encoded, 0.5, 0.0, rng)
            means, variances = mixed(halves.prior, gibbs.word_means, gibbs.word_variances)
            means = gibbs.scale * means + gibbs.shift
            variances = gibbs.scale**2 * variances
            halved = gibbs._replace(means=means, variances=variances)
            other_half = words.vocabulary.count(halves.sample)
            risks = _risks(halved, words, other_half)
            total += risks.mean() / 2
        return total
