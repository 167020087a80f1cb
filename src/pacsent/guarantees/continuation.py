"""`certify_encoder`: the first part of a document against the words that follow in it.

The rule is fixed before the certified documents are read: calibration, and whatever the method
learns, come from documents that are set aside (Theorem 10 of docs/theory.md).
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent import registry
from pacsent.encoders.word_calibration import calibrate
from pacsent.guarantees.certificate import MeanCertificate, theorem_1
from pacsent.guarantees.encoder_certificate import (
    NOISE_IN_WORDS,
    READ,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    divided,
    prepare,
    vectors_of,
)
from pacsent.maths.risks import word_scores
from pacsent.maths.rounding import percent
from pacsent.progress import bar
from pacsent.storage.tensor_files import pack_losses, unpack_losses
from pacsent.text.encoded import Encoded

# The kinds of `certify_encoder`; those of the paper register themselves in `pacsent.paper`.
KINDS = ("continuation", "A", "B", "C", "D")
_N_NOISE = 256  # negative samples drawn for each document
_DOCUMENTS_PER_BLOCK = 2048


@dataclass(frozen=True, kw_only=True)
class ContinuationCertificate(EncoderCertificate, MeanCertificate):
    """How well the vector of a document's first part recognises the words that follow.

    The rule calls w a word of the document if (scale * vector + shift).A_w + bias > 0.
    `shuffled_risk` is its risk if documents exchange their words: only what is below that is due to
    the vectors. Neither number says how good they are for a task.

    >>> ContinuationCertificate.unit  # what is counted; `certify_encoder` makes a certificate
    'documents'
    """

    kind: ClassVar[str] = "continuation"
    assumption: ClassVar[str] = (
        "these documents and new documents are drawn independently from one distribution (words "
        "within a document need not be), contain no near-duplicates, and were not used to train "
        "the word vectors or to select anything."
    )
    scope: ClassVar[str] = (
        "documents of at least two in-vocabulary words; one loss per document, in which words of "
        f"the document and random words count half each. {NOISE_IN_WORDS}"
    )
    needs_texts = (*EncoderCertificate.needs_texts, "bias", "scale", "shift_norm", "shuffled_risk")

    bias: float
    scale: float
    shift_norm: float
    shuffled_risk: float

    def recompute(self) -> dict[str, Any]:
        return {"empirical_risk": float(unpack_losses(self.losses).mean()), **super().recompute()}

    def measure_again(self, sample: Sample) -> EncoderCertificate:
        return measure(sample)[0]

    def theorem_1(self) -> str:
        numbers = self.empirical_risk, self.n, self.delta_each, self.error_upper
        return theorem_1(*numbers, "the betting bound")

    def summary(self) -> str:
        return (
            "No measure of quality: other texts and other vectors have other baselines. Given the "
            f"first {100 * READ:g}% of a new, similar document, its vector tells words from the "
            f"rest of that document apart from random words. With {self.confidence} confidence the "
            f"average error is at most {percent(self.error_upper)} (guessing: "
            f"{100 * self.trivial_value:g}%; these documents with their words shuffled among "
            f"them: {percent(self.shuffled_risk)})."
        )


def certify_encoder(
    encoder: Any,
    texts: Any,
    *,
    kind: str = "continuation",
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: Any = None,
    test_size: float = 0.0,
    split: float | None = None,
    overlap: str = "refuse",
    bias: float | None = None,
    posterior: Any = None,
    prior_variance: float | None = None,
    verbose: bool = False,
) -> EncoderCertificate:
    """Certify how well an encoder's vectors recognise words, by default those that follow.

    Parameters
    ----------
    encoder : encoder
        Gives the documents' vectors: one of the methods of this package, which need not be fitted,
        with word vectors that have output vectors.
    texts : iterable of str or of token lists, or Encoded
        The documents to certify. The word vectors must not have been trained on them.
    kind : {"continuation", "A", "B", "C", "D"}, default="continuation"
        What is certified, as in `pacsent paper certify --kind`: the words that follow in new
        documents; further words of these documents, if words were independent (A); words of new
        documents by the posteriors of w-PB-neg (B); the squared loss (C); the words that follow, by
        a PAC-Bayes posterior over the paper's heuristics, with nothing set aside (D).
    delta, n_candidates, random_state : see `certify_predictions`
    test_size : float, default=0
        Fraction of the documents (A, C: of the words) that nothing uses, to compare the bound with.
    split : float or None, default=None
        Fraction of the documents that fits the rule and calibrates it: the vector m becomes
        scale * m + shift. None: 0.3, from 2,000 documents on 0.1. A, C: fraction of the words of
        each document that makes the prior, 0.7 if None. D sets nothing aside.
    overlap : {"refuse", "drop"}, default="refuse"
        What to do with documents that the word vectors were trained on.
    bias : float or None, default=None
        Added to the score of a word. None: ln k, k the number of negatives in the training of the
        word vectors. D has thresholds instead.
    posterior, prior_variance
        Kinds A, B and C: the Q that is certified and the variance of its P, as `GibbsOptions` in
        `pacsent.paper.gibbs_certificate` describes them.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    EncoderCertificate
        A `ContinuationCertificate`, or that of the kind.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 10))
    >>> certificate = certify_encoder(make_encoder("PB-L2", language.words), texts, random_state=0)
    >>> certificate.error_upper < 0.5 and bool(certificate.verify())
    True
    """
    given: dict[str, Any] = {
        "delta": delta,
        "n_candidates": n_candidates,
        "random_state": random_state,
        "test_size": test_size,
        "overlap": overlap,
        "verbose": verbose,
    }
    # None stands for the kind's own default
    optional = {
        "split": split,
        "bias": bias,
        "posterior": posterior,
        "prior_variance": prior_variance,
    }
    given |= {name: value for name, value in optional.items() if value is not None}

    certify = registry.find("encoder certificate", kind) if isinstance(kind, str) else None
    if certify is None:
        raise ValueError(f"kind must be one of {KINDS}. Got {kind!r} instead.")
    return certify(encoder, texts, **given)


def certify_continuation(encoder: Any, texts: Any, **options: Any) -> ContinuationCertificate:
    """Certificate of the words that follow; the options are those of `CertifyOptions`."""
    unknown = options.keys() - {item.name for item in fields(CertifyOptions)}
    if unknown:
        raise ValueError(
            f"{', '.join(sorted(unknown))} must be left out for kind='continuation', which has no "
            "posterior. Choose kind 'A', 'B' or 'C', or leave it out."
        )
    return measure(prepare(encoder, texts, CertifyOptions(**options)))[0]


registry.register("encoder certificate", "continuation", certify_continuation)


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
        """Errors of each document, half among words that follow, half among negative samples."""
        head, tail = cut(documents)
        cumulated = np.cumsum(self.p_noise)
        total, losses = documents.n_sentences, []
        with bar("certify", total=total, unit="documents", enabled=verbose) as progress:
            for start in range(0, total, _DOCUMENTS_PER_BLOCK):
                rows = np.arange(start, min(start + _DOCUMENTS_PER_BLOCK, total))
                n = rows.size
                vectors = self.calibrated(vectors_of(self.encoder, head.take(rows)))
                missed = self._missed(vectors, tail.take(rows))
                drawn = rng.random((n, _N_NOISE)) * cumulated[-1]
                noise = np.minimum(np.searchsorted(cumulated, drawn, "right"), cumulated.size - 1)
                tokens = Encoded.from_lengths(noise.ravel(), np.full(n, _N_NOISE))
                false = 1.0 - self._missed(vectors, tokens, at_zero=0.0)
                losses.append(0.5 * missed + 0.5 * false)
                progress.advance(n)
        return np.concatenate(losses)

    def calibrated(self, vectors: np.ndarray) -> np.ndarray:
        return self.scale * vectors.astype(float) + self.shift

    def _missed(self, vectors, tokens: Encoded, at_zero: float = 1.0) -> np.ndarray:
        """Fraction of each document's tokens that the rule calls noise; a score of 0 counts so."""
        scores = word_scores(vectors, tokens, self.A_hat) + self.bias
        missed = np.where(scores == 0, at_zero, scores < 0)
        n = np.diff(tokens.offsets)
        return np.bincount(np.repeat(np.arange(n.size), n), missed, n.size) / n


def cut(documents: Encoded) -> tuple[Encoded, Encoded]:
    """The first 80% of each document in reading order, and the rest; both have a word."""
    n = np.diff(documents.offsets)
    n_head = np.clip(np.floor(READ * n), 1, n - 1).astype(np.int64)
    place = np.arange(documents.ids.size) - np.repeat(documents.offsets[:-1], n)
    first = place < np.repeat(n_head, n)
    return Encoded.from_lengths(documents.ids[first], n_head), Encoded.from_lengths(
        documents.ids[~first], n - n_head
    )


class Continuation(NamedTuple):
    """What was measured."""

    losses: np.ndarray  # in the order of the bound
    rule: Rule
    rows: np.ndarray  # certified documents
    aside: np.ndarray
    fresh: np.ndarray


def measure(sample: Sample) -> tuple[ContinuationCertificate, Continuation]:
    """The certificate about what follows in new documents, and the rule it is about."""
    encoded, rng = sample.encoded, sample.rng
    aside, fresh, rows = divided(sample)
    # the rule, from the documents that were set aside alone
    fitting = encoded.take(aside)
    encoder, scale, shift = sample.fitted(fitting), 1.0, np.zeros(sample.A_hat.shape[1])
    if aside.size:
        head, tail = cut(fitting)
        scale, shift = calibrate(
            vectors_of(encoder, head), tail, sample.A_hat, sample.p_noise, sample.bias, rng
        )
    rule = Rule(encoder, sample.A_hat, sample.p_noise, scale, shift, sample.bias)
    losses = rule.losses(encoded.take(rows), rng, sample.options.verbose)
    held_out: dict = {}
    if fresh.size:
        fresh_losses = rule.losses(encoded.take(fresh), rng)
        held_out = {"held_out_risk": float(fresh_losses.mean()), "n_held_out": int(fresh.size)}
    block = encoded.take(rows[:_DOCUMENTS_PER_BLOCK])
    shuffled = rule.losses(block._replace(ids=rng.permutation(block.ids)), rng)
    certificate = sample.certificate(
        ContinuationCertificate,
        losses=pack_losses(losses),
        empirical_risk=float(losses.mean()),  # recomputed from the losses that are kept
        n=int(rows.size),
        bias=rule.bias,
        scale=rule.scale,
        shift_norm=float(np.linalg.norm(rule.shift)),
        shuffled_risk=float(shuffled.mean()),
        n_left_out=int(encoded.n_sentences - rows.size - aside.size - fresh.size),
        **held_out,
    )
    return certificate, Continuation(losses, rule, rows, aside, fresh)
