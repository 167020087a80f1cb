"""Certificate D: a PAC-Bayes posterior over the paper's heuristics, in which Q differs from P.

P is uniform over `heuristics.Heuristics`, every document is used to choose Q, and nothing is held
out. The bound and its proof are in `pacsent.bounds.gibbs_betting`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.bounds.gibbs_betting import BETS, GibbsBound, best_of_bets, bound_of_bet
from pacsent.bounds.rounding import percent
from pacsent.certify.certificate import theorem_1
from pacsent.datasets import load_books
from pacsent.paper.encoder_certificate import (
    NOISE_IN_WORDS,
    READ,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    divided,
    prepare,
)
from pacsent.paper.heuristics import Heuristics, hypothesis_names, make_heuristics
from pacsent.text.encoded import Encoded
from pacsent.words.vocabulary import Vocabulary

# Every sixth of the 3,000 passages that ship fixes the thresholds.
_REFERENCE_STEP = 6
# Smallest fraction of the words of the passages that vectors must have; another language has less.
_MIN_REFERENCE_COVERAGE = 0.5
# Seed of the random words that are scored for the thresholds.
_REFERENCE_SEED = 0
# Hypotheses named in the details.
_N_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class HeuristicOptions(CertifyOptions):
    """Options of kind D: those of `CertifyOptions`, and where the thresholds come from.

    `reference` is "books", the passages that ship with the package, or documents that are
    independent of the certified ones. `split` and `bias` have no meaning here.
    """

    split: float | None = 0.0
    reference: Any = "books"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.split == 0, "split", "left out for kind 'D', which sets nothing aside")
        self._must(self.bias is None, "bias", "left out for kind 'D', which has thresholds")

        are_documents = not isinstance(self.reference, str)
        is_valid = are_documents or self.reference in ("books", "given")
        self._must(is_valid, "reference", "'books' or documents")

    def recorded(self) -> dict[str, Any]:
        # The documents are left out before the other options are copied.
        reference = "books" if self.reference == "books" else "given"
        options = replace(self, reference=reference)
        return super(HeuristicOptions, options).recorded()


@dataclass(frozen=True, kw_only=True)
class HeuristicCertificate(EncoderCertificate):
    """Kind D: words that follow in new documents, by a rule drawn from a posterior that looked.

    `log_products` are sum_t ln(1 - bet l_t) and `mean_losses` the mean loss of each hypothesis of
    `pacsent.paper.heuristics.hypothesis_names`; `kl` is KL(Q||P) of the posterior
    Q proportional to exp(log_products), P uniform. The grid of bets is a correction.

    >>> HeuristicCertificate.unit
    'documents'
    """

    kind: ClassVar[str] = "D"
    options_class: ClassVar[type[CertifyOptions]] = HeuristicOptions
    assumption: ClassVar[str] = (
        "these documents and new documents are drawn independently from one distribution (words "
        "within a document need not be), contain no near-duplicates, and were not used to train "
        "the word vectors or to select the thresholds."
    )
    scope: ClassVar[str] = (
        "the guarantee is about a rule drawn from the posterior anew for each document. Documents "
        "of at least two in-vocabulary words; one loss per document, in which words of the "
        f"document and random words count half each. {NOISE_IN_WORDS}"
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        *EncoderCertificate.needs_texts,
        *("log_products", "mean_losses"),
    )

    kl: float = 0.0
    bet: float
    log_products: list
    mean_losses: list

    def posterior(self) -> GibbsBound:
        """Q, its KL and its empirical risk, and the bound, from the parts."""
        n_hypotheses = len(self.log_products)
        log_prior = np.full(n_hypotheses, -math.log(n_hypotheses))
        return bound_of_bet(
            np.array(self.log_products, dtype=float),
            np.array(self.mean_losses, dtype=float),
            log_prior,
            self.n,
            self.delta_each,
            self.bet,
        )

    def recompute(self) -> dict[str, Any]:
        posterior = self.posterior()
        return {
            "error_upper": posterior.bound,
            "kl": posterior.kl,
            "empirical_risk": min(1.0, posterior.empirical_risk),
        }

    def measure_again(self, sample: Sample) -> "HeuristicCertificate":
        return measure(sample)[0]

    def _check(self) -> None:
        super()._check()
        if self.bet not in BETS:
            self._refuse("bet", f"one of {BETS}")
        if self.corrections.get("bets") != len(BETS):
            self._refuse("corrections", f"{len(BETS)} for bets, the size of the grid")
        self._check_hypotheses()
        self._check_products()

    def _check_hypotheses(self) -> None:
        """Every hypothesis has its two numbers."""
        n_hypotheses = len(hypothesis_names())
        for name in ("log_products", "mean_losses"):
            values = getattr(self, name)
            are_finite = all(isinstance(x, float) and math.isfinite(x) for x in values)
            if len(values) != n_hypotheses or not are_finite:
                raise ValueError(
                    f"{name} must have {n_hypotheses:,} finite numbers, one for each hypothesis. "
                    "This certificate was changed."
                )

    def _check_products(self) -> None:
        """The logarithms of products are those of n losses with these means."""
        means = np.array(self.mean_losses)
        products = np.array(self.log_products)
        if means.min() < 0 or means.max() > 1:
            raise ValueError("mean_losses must be in [0, 1]. This certificate was changed.")

        # ln(1 - bet l) is concave: the sum lies below that of equal losses, above that of 0 and 1.
        largest = self.n * np.log1p(-self.bet * means)
        smallest = self.n * means * math.log1p(-self.bet)
        slack = 1e-6 * (1.0 + np.abs(smallest))
        is_large_enough = smallest - slack <= products
        is_small_enough = products <= largest + slack
        if not (is_large_enough & is_small_enough).all():
            raise ValueError(
                f"log_products must be possible for n = {self.n:,} losses with these mean_losses. "
                "This certificate was changed."
            )

    def summary(self) -> str:
        return (
            f"Certificate D: given the first {100 * READ:g}% of a new, similar document, a rule "
            f"drawn from a posterior over {len(self.log_products):,} heuristics (role, alpha, "
            "weights, threshold) tells words from the rest of that document apart from random "
            f"words. With {self.confidence} confidence it is wrong at most "
            f"{percent(self.error_upper)} of the time (guessing: {100 * self.trivial_value:g}%). "
            f"KL = {self.kl:.4g} nats: the posterior was chosen on all {self.n:,} documents, and "
            "none was set aside."
        )

    def statements(self) -> list[tuple[str, str]]:
        weights = self.posterior().weights
        names = hypothesis_names()
        most_probable = np.argsort(-weights, kind="stable")[:_N_SHOWN]
        listed = "; ".join(f"{names[i]}: {weights[i]:.3f}" for i in most_probable)
        return [*super().statements(), ("Most probable", f"{listed}.")]

    def parts(self) -> str:
        return f", KL {self.kl:.4g} nats"

    def theorem_1(self) -> str:
        # Without the correction for the bets, which Theorem 1 does not make.
        delta = min(1.0, self.delta_each * len(BETS))
        return theorem_1(
            self.empirical_risk, self.n, delta, self.error_upper, "the betting bound", kl=self.kl
        )

    def why(self) -> str:
        if self.observed < self.trivial_value and self.kl > -math.log(self.delta_each):
            return f"kl = {self.kl:.4g} nats is large for n = {self.n:,}. Certify more."
        return super().why()


def certify_heuristics(encoder: Any, texts: Any, **options: Any) -> HeuristicCertificate:
    """Certificate D: the words that follow, by a PAC-Bayes posterior over the paper's heuristics.

    Only the word vectors of the encoder are used: the posterior is over role, alpha, word weights
    and threshold, 1,008 combinations. The thresholds come from the English passages that ship with
    the package; for word vectors of another language pass `reference`, documents that are
    independent of `texts`.

    Parameters
    ----------
    encoder, texts
        As in `pacsent.certify_encoder`.
    **options
        Those of `HeuristicOptions`.

    Returns
    -------
    HeuristicCertificate

    Examples
    --------
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> encoder, texts = language.sample()
    >>> reference = language.draw(np.random.default_rng(1))[0]
    >>> certificate = certify_heuristics(encoder, texts, reference=reference, random_state=0)
    >>> certificate.kl > 0 and bool(certificate.verify())
    True
    """
    return measure(prepare(encoder, texts, HeuristicOptions(**options)))[0]


class Chosen(NamedTuple):
    """The hypotheses, and the posterior over them."""

    heuristics: Heuristics
    weights: np.ndarray  # (n_hypotheses,)


def measure(sample: Sample) -> tuple[HeuristicCertificate, Chosen]:
    """Certificate D, and the posterior that it is about."""
    reference = _reference_documents(sample)
    reference_rng = np.random.default_rng(_REFERENCE_SEED)
    heuristics = make_heuristics(sample.words, reference, reference_rng)
    _, fresh, rows = divided(sample)
    losses = heuristics.losses(sample.encoded.take(rows), sample.rng).astype(float)

    n_hypotheses = heuristics.n_hypotheses
    log_prior = np.full(n_hypotheses, -math.log(n_hypotheses))
    bet, products, posterior = best_of_bets(losses, log_prior, sample.delta_each)

    held_out: dict[str, Any] = {}
    if fresh.size:
        fresh_losses = heuristics.losses(sample.encoded.take(fresh), sample.rng)
        fresh_means = fresh_losses.mean(axis=0, dtype=float)  # (n_hypotheses,)
        held_out = {
            "held_out_risk": float(fresh_means @ posterior.weights),
            "n_held_out": int(fresh.size),
        }

    sample = sample.corrected(bets=len(BETS))
    # Any encoder of these word vectors gives the same certificate.
    sample = replace(sample, record={**sample.record, "encoder": "heuristics"})
    certificate = sample.certificate(
        HeuristicCertificate,
        empirical_risk=posterior.empirical_risk,
        n=int(rows.size),
        bet=bet,
        log_products=products.tolist(),
        mean_losses=losses.mean(axis=0).tolist(),
        n_left_out=int(sample.encoded.n_sentences - rows.size - fresh.size),
        **held_out,
    )
    return certificate, Chosen(heuristics, posterior.weights)


def _reference_documents(sample: Sample) -> Encoded:
    """The documents that fix the thresholds: passages of books, unless others are given."""
    vocabulary = sample.words.vocabulary
    reference = sample.options.reference
    if isinstance(reference, str) and reference == "given":
        raise ValueError(
            "reference must be the documents that fixed the thresholds, which a certificate does "
            "not keep. Certify once more with them, and compare."
        )
    if isinstance(reference, str):
        encoded = _encode_passages(vocabulary)
    else:
        encoded = vocabulary.encode(reference)

    kept_rows = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    if not kept_rows.size:
        raise ValueError(
            "reference must have at least one document of two in-vocabulary words. Got none."
        )
    return encoded.take(kept_rows)


def _encode_passages(vocabulary: Vocabulary) -> Encoded:
    """Passages of the books that ship with the package."""
    passages = [passage.text for passage in load_books()[::_REFERENCE_STEP]]
    encoded = vocabulary.encode(passages)
    if encoded.coverage < _MIN_REFERENCE_COVERAGE:
        raise ValueError(
            "The word vectors must have at least "
            f"{_MIN_REFERENCE_COVERAGE:.0%} of the words of the passages that fix the "
            f"thresholds, which are English. Got {encoded.coverage:.0%} instead. Pass other "
            "documents: reference=texts."
        )
    return encoded
