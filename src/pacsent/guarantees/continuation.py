"""`certify`: the first part of a document against the words that follow in it.

One document gives one loss in [0, 1], so nothing is assumed about the words inside a document. The
rule is fixed before the certified documents are read: calibration, and whatever the method learns,
come from documents that are set aside.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.guarantees import calibration
from pacsent.guarantees.certificate import MeanCertificate, pack_losses, unpack_losses
from pacsent.guarantees.encoder_certificate import (
    NOISE_IN_WORDS,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    certified,
    check_sample,
    divided,
    prepare,
    vectors_of,
)
from pacsent.maths.risks import word_scores
from pacsent.maths.rounding import percent
from pacsent.progress import bar
from pacsent.text.encoded import Encoded

READ = 0.8  # share of a document, from its start, that makes its vector
_N_NOISE = 256  # noise words drawn for each document
_DOCUMENTS = 2048  # measured at once
_MANY = 2000  # documents from which on a smaller share fits and calibrates the rule
_SPLITS = (0.3, 0.1)  # below, and from there on


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions(CertifyOptions):
    """Options of `certify_encoder`: those of `CertifyOptions`."""

    any_encoder: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ContinuationCertificate(EncoderCertificate, MeanCertificate):
    """How well the vector of a document's first part recognises the words that follow.

    The rule calls w a word of the document if (scale * vector + shift).A_w + bias > 0.
    """

    kind: ClassVar[str] = "continuation"
    options_class: ClassVar[type[CertifyOptions]] = ContinuationOptions
    assumption: ClassVar[str] = (
        "documents are drawn independently from one distribution. Nothing is assumed about the "
        "words inside a document. The word vectors, the noise distribution, and everything that "
        "was fitted or chosen do not depend on the certified documents."
    )
    scope: ClassVar[str] = (
        "documents with at least two known words; one loss per document, in which words of the "
        f"document and random words count half each. {NOISE_IN_WORDS}"
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        *EncoderCertificate.needs_texts,
        "bias",
        "scale",
        "shift_norm",
    )

    bias: float
    scale: float
    shift_norm: float

    def recompute(self) -> dict[str, Any]:
        return {
            "empirical_risk": float(unpack_losses(self.losses).mean()),
            **super().recompute(),
        }

    def _check(self) -> None:
        EncoderCertificate._check(self)
        MeanCertificate._check(self)

    def made_again(self, encoder: Any, texts: Any) -> EncoderCertificate:
        return measure(prepare(encoder, texts, self.original_options()))[0]

    def sentence(self) -> str:
        return (
            f"Given the first {100 * READ:g} % of a new, similar document, its "
            "vector tells words from the rest of that document apart from random words. With "
            f"{self.confidence} confidence the average error is at most {percent(self.bound)} "
            f"(guessing: {100 * self.trivial_value:g} %)."
        )

    def parts(self) -> str:
        return "; bound on the mean: betting"


def certify_encoder(
    encoder: Any,
    texts: Any,
    *,
    delta: float = 0.05,
    n_candidates: int = 1,
    holdout: float = 0.0,
    split: float | None = None,
    bias: float | None = None,
    overlap: str = "refuse",
    random_state: int | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> ContinuationCertificate:
    """Certify how well an encoder's vectors recognise the words that follow in new documents.

    A classifier is certified by `pacsent.guarantees.certify`; the certificates of the paper are
    functions of `pacsent.paper`. Warns (VacuousBoundWarning), with the reason, where the bound is
    no better than guessing.

    Parameters
    ----------
    encoder : encoder, or a list of them
        Gives the documents' vectors: an estimator of this package, which need not be fitted, or any
        encoder that `pacsent.encoders.as_encoder` takes, whose vectors a linear map takes into the
        word table of the English model (`MappedEncoder`). Of a list, the one with the smallest
        bound is certified; a union bound divides delta by their number.
    texts : iterable of str or of token lists, or Encoded
        The documents to certify. The word vectors must not have been trained on them.
    delta : float, default=0.05
        Probability that the guarantee fails.
    n_candidates : int, default=1
        How many methods, settings or seeds were tried, this one included, if the best is reported.
    holdout : float, default=0
        Share of the documents that nothing uses, to compare the bound with.
    split : float or None, default=None
        Share of the documents that fits the rule and calibrates it: the vector m becomes
        scale * m + shift. None: 0.3, from 2,000 documents on 0.1.
    bias : float or None, default=None
        Added to every score. None: ln of the number of negatives the vectors were trained with, or
        of 15.
    overlap : {"refuse", "drop"}, default="refuse"
        What to do with documents that the word vectors were trained on.
    random_state : int or None
        Seed of the split and of the noise words. None draws one; it is recorded.
    n_jobs : int or None
        Threads. The result does not depend on it.
    verbose : bool, default=False
        Show progress on stderr.

    Examples
    --------
    >>> from pacsent import make
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 10))
    >>> certificate = certify_encoder(make("PB-L2", language.words), texts, random_state=0)
    >>> certificate.bound < 0.5 and bool(certificate.verify())
    True
    """
    chosen = ContinuationOptions(
        delta=delta,
        n_candidates=n_candidates,
        holdout=holdout,
        split=split,
        bias=bias,
        overlap=overlap,
        random_state=random_state,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    return certified(encoder, texts, chosen, measure)[0]


class Rule(NamedTuple):
    """How a document's vector decides about a word: (scale * vector + shift).A_w + bias > 0."""

    encoder: Any
    A_hat: np.ndarray
    p_noise: np.ndarray
    scale: float
    shift: np.ndarray
    bias: float

    def losses(
        self, documents: Encoded, rng: np.random.Generator, verbose: bool = False
    ) -> np.ndarray:
        """One loss in [0, 1] for each document of at least two words, (n_documents,).

        half the share of the words that follow which the rule calls noise
        + half the share of `_N_NOISE` noise words which it calls the document's own
        """
        head, tail = cut(documents, READ)
        cumulated = np.cumsum(self.p_noise)
        losses = np.empty(documents.n_sentences)
        total = documents.n_sentences
        with bar("certify", total=total, unit="documents", enabled=verbose) as shown:
            for start in range(0, total, _DOCUMENTS):
                rows = np.arange(start, min(start + _DOCUMENTS, total))
                vectors = self.calibrated(vectors_of(self.encoder, head.take(rows)))
                wrong = self._missed(vectors, tail.take(rows))
                drawn = rng.random((rows.size, _N_NOISE)) * cumulated[-1]
                noise = np.minimum(np.searchsorted(cumulated, drawn, "right"), cumulated.size - 1)
                tokens = calibration.encode_ids(noise.ravel(), np.full(rows.size, _N_NOISE))
                false = 1.0 - self._missed(vectors, tokens, at_zero=0.0)
                losses[rows] = 0.5 * wrong + 0.5 * false
                shown.advance(rows.size)
        return losses

    def calibrated(self, vectors: np.ndarray) -> np.ndarray:
        return self.scale * vectors.astype(float) + self.shift

    def _missed(self, vectors, tokens: Encoded, at_zero: float = 1.0) -> np.ndarray:
        """Share of each document's tokens that the rule calls noise; a score of 0 counts so."""
        scores = word_scores(vectors, tokens, self.A_hat) + self.bias
        missed = np.where(scores == 0, at_zero, scores < 0)
        n = np.diff(tokens.offsets)
        return np.bincount(np.repeat(np.arange(n.size), n), missed, n.size) / n


def cut(documents: Encoded, share: float) -> tuple[Encoded, Encoded]:
    """The first part of each document in reading order, and the rest; both have a word."""
    n = np.diff(documents.offsets)
    n_head = np.clip(np.floor(share * n), 1, n - 1).astype(np.int64)
    return calibration.cut_documents(documents, n_head)


class Continuation(NamedTuple):
    """What was measured: the losses in the order of the bound, the rule, and the documents."""

    losses: np.ndarray
    rule: Rule
    rows: np.ndarray  # certified documents
    aside: np.ndarray
    rest: np.ndarray


def measure(sample: Sample) -> tuple[ContinuationCertificate, Continuation]:
    """The certificate about what follows in new documents, and the rule it is about."""
    options, encoded = sample.options, sample.encoded
    rows = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    check_sample(rows.size, encoded)
    split = _SPLITS[rows.size >= _MANY] if options.split is None else options.split
    aside, rest, certified_rows = divided(sample, rows, split, least=int(split > 0))
    # the rule, from the documents that were set aside alone
    fitting = encoded.take(aside)
    encoder, scale, shift = sample.fitted(fitting), 1.0, np.zeros(sample.A_hat.shape[1])
    if aside.size:
        head, tail = cut(fitting, READ)
        scale, shift = calibration.calibrate(
            vectors_of(encoder, head), tail, sample.A_hat, sample.p_noise, sample.bias, sample.rng
        )
    rule = Rule(encoder, sample.A_hat, sample.p_noise, scale, shift, sample.bias)
    losses = rule.losses(encoded.take(certified_rows), sample.rng, options.verbose)
    held_out: dict = {}
    if rest.size:
        fresh = rule.losses(encoded.take(rest), sample.rng)
        held_out = {"held_out_risk": float(fresh.mean()), "n_held_out": int(rest.size)}
    certificate = sample.certificate(
        ContinuationCertificate,
        losses=pack_losses(losses),
        empirical_risk=float(losses.mean()),  # recomputed from the losses that are kept
        n=int(certified_rows.size),
        bias=rule.bias,
        scale=rule.scale,
        shift_norm=float(np.linalg.norm(rule.shift)),
        n_left_out=int(encoded.n_sentences - rows.size),
        **held_out,
    )
    return certificate, Continuation(losses, rule, certified_rows, aside, rest)
