"""The first part of a document against the words that follow in it.

The rule is fixed before the certified documents are read: calibration, and whatever the method
learns, come from documents that are set aside (Theorem 10 of docs/theory.md).
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.bounds.rounding import percent
from pacsent.certify.certificate import MeanCertificate, theorem_1
from pacsent.paper.encoder_certificate import (
    NOISE_IN_WORDS,
    READ,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    divided,
    prepare,
    vectors_of,
)
from pacsent.paper.token_parts import mean_by_document
from pacsent.paper.word_calibration import calibrate
from pacsent.progress import bar
from pacsent.sentences.solvers.risks import word_scores
from pacsent.storage.tensor_files import pack_losses, unpack_losses
from pacsent.text.encoded import Encoded

# Negative samples drawn for each document.
_N_NOISE = 256
# Documents whose vectors are in memory together.
_DOCUMENTS_PER_BLOCK = 2048


@dataclass(frozen=True, kw_only=True)
class ContinuationCertificate(EncoderCertificate, MeanCertificate):
    """Guarantee that the vector of a document's first part recognises the words that follow.

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
        empirical_risk = float(unpack_losses(self.losses).mean())
        return {"empirical_risk": empirical_risk, **super().recompute()}

    def measure_again(self, sample: Sample) -> EncoderCertificate:
        return measure(sample)[0]

    def theorem_1(self) -> str:
        return theorem_1(
            self.empirical_risk, self.n, self.delta_each, self.error_upper, "the betting bound"
        )

    def summary(self) -> str:
        return (
            "No measure of quality: other texts and other vectors have other baselines. Given the "
            f"first {100 * READ:g}% of a new, similar document, its vector tells words from the "
            f"rest of that document apart from random words. With {self.confidence} confidence the "
            f"average error is at most {percent(self.error_upper)} (guessing: "
            f"{100 * self.trivial_value:g}%; these documents with their words shuffled among "
            f"them: {percent(self.shuffled_risk)})."
        )


def certify_continuation(encoder: Any, texts: Any, **options: Any) -> ContinuationCertificate:
    """Certificate of the words that follow; the options are those of `CertifyOptions`."""
    allowed_names = {option.name for option in fields(CertifyOptions)}
    unknown_names = options.keys() - allowed_names
    if unknown_names:
        listed = ", ".join(sorted(unknown_names))
        raise ValueError(
            f"{listed} must be left out for kind='continuation', which has no "
            "posterior. Choose kind 'A', 'B' or 'C', or leave it out."
        )
    return measure(prepare(encoder, texts, CertifyOptions(**options)))[0]


class Rule(NamedTuple):
    """Rule by which a vector decides about a word: (scale * vector + shift).A_w + bias > 0."""

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
        n_documents = documents.n_sentences
        cumulative = np.cumsum(self.p_noise)

        losses = []
        with bar("certify", total=n_documents, unit="documents", enabled=verbose) as progress:
            for start in range(0, n_documents, _DOCUMENTS_PER_BLOCK):
                stop = min(start + _DOCUMENTS_PER_BLOCK, n_documents)
                rows = np.arange(start, stop)
                vectors = self.calibrate(vectors_of(self.encoder, head.take(rows)))
                missed = self._missed_fraction(vectors, tail.take(rows))

                noise = draw_noise(cumulative, (rows.size, _N_NOISE), rng)
                noise_tokens = Encoded.from_lengths(noise.ravel(), np.full(rows.size, _N_NOISE))
                false = 1.0 - self._missed_fraction(vectors, noise_tokens, at_zero=0.0)

                losses.append(0.5 * missed + 0.5 * false)
                progress.advance(rows.size)
        return np.concatenate(losses)

    def calibrate(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors of documents in the coordinates of the rule."""
        return self.scale * vectors.astype(float) + self.shift

    def _missed_fraction(
        self, vectors: np.ndarray, tokens: Encoded, at_zero: float = 1.0
    ) -> np.ndarray:
        """Fraction of each document's tokens called noise; a score of 0 counts as `at_zero`."""
        scores = word_scores(vectors, tokens, self.A_hat) + self.bias
        is_missed = np.where(scores == 0, at_zero, scores < 0)  # (n_tokens,)
        return mean_by_document(is_missed, np.diff(tokens.offsets))


def draw_noise(
    cumulative: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Negative samples by the inverse of their distribution function, as word ids."""
    uniform = rng.random(shape) * cumulative[-1]
    ids = np.searchsorted(cumulative, uniform, "right")
    return np.minimum(ids, cumulative.size - 1)


def cut(documents: Encoded) -> tuple[Encoded, Encoded]:
    """The first 80% of each document in reading order, and the rest; both have a word."""
    n = np.diff(documents.offsets)
    n_head = np.clip(np.floor(READ * n), 1, n - 1).astype(np.int64)

    place = np.arange(documents.ids.size) - np.repeat(documents.offsets[:-1], n)
    is_head = place < np.repeat(n_head, n)  # (n_tokens,)

    head = Encoded.from_lengths(documents.ids[is_head], n_head)
    tail = Encoded.from_lengths(documents.ids[~is_head], n - n_head)
    return head, tail


class Continuation(NamedTuple):
    """The rule that was measured, its losses, and the documents of each part."""

    losses: np.ndarray  # in the order of the bound
    rule: Rule
    rows: np.ndarray  # certified documents
    aside: np.ndarray
    fresh: np.ndarray


def measure(sample: Sample) -> tuple[ContinuationCertificate, Continuation]:
    """The certificate about what follows in new documents, and the rule it is about."""
    encoded = sample.encoded
    rng = sample.rng
    aside, fresh, rows = divided(sample)
    rule = _fit_rule(sample, encoded.take(aside))

    losses = rule.losses(encoded.take(rows), rng, sample.options.verbose)

    held_out: dict[str, Any] = {}
    if fresh.size:
        fresh_losses = rule.losses(encoded.take(fresh), rng)
        held_out = {
            "held_out_risk": float(fresh_losses.mean()),
            "n_held_out": int(fresh.size),
        }

    # Documents that exchange their words: what the rule knows without the vectors.
    block = encoded.take(rows[:_DOCUMENTS_PER_BLOCK])
    shuffled = block._replace(ids=rng.permutation(block.ids))
    shuffled_losses = rule.losses(shuffled, rng)

    n_used = rows.size + aside.size + fresh.size
    certificate = sample.certificate(
        ContinuationCertificate,
        losses=pack_losses(losses),
        empirical_risk=float(losses.mean()),  # recomputed from the losses that are kept
        n=int(rows.size),
        bias=rule.bias,
        scale=rule.scale,
        shift_norm=float(np.linalg.norm(rule.shift)),
        shuffled_risk=float(shuffled_losses.mean()),
        n_left_out=int(encoded.n_sentences - n_used),
        **held_out,
    )
    return certificate, Continuation(losses, rule, rows, aside, fresh)


def _fit_rule(sample: Sample, documents: Encoded) -> Rule:
    """The rule, fitted and calibrated on the documents that were set aside alone."""
    encoder = sample.fitted(documents)
    scale = 1.0
    shift = np.zeros(sample.A_hat.shape[1])
    if documents.n_sentences:
        head, tail = cut(documents)
        vectors = vectors_of(encoder, head)
        scale, shift = calibrate(
            vectors, tail, sample.A_hat, sample.p_noise, sample.bias, sample.rng
        )
    return Rule(encoder, sample.A_hat, sample.p_noise, scale, shift, sample.bias)
