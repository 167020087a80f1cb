"""The continuation certificate: read the first part of a document, tell what follows from noise.

One document gives one number in [0, 1], so nothing is assumed about the words inside a document.
The rule is fixed before the certified documents are looked at: method, calibration and whatever the
method learns come from documents that were set aside.
"""

from typing import NamedTuple

import numpy as np

from pacsent.certificates import priors
from pacsent.certificates.certificate import Certificate, packed_losses
from pacsent.certificates.terms import Terms, check_sample, finished, fitted, vectors_of
from pacsent.maths.risks import word_scores
from pacsent.progress import bar
from pacsent.text.encoded import Encoded

_DOCUMENTS = 2048  # measured at once


class Rule(NamedTuple):
    """How a document's vector decides about a word: (scale * vector + shift).A_w + bias > 0."""

    vectorizer: object
    A_hat: np.ndarray
    p_noise: np.ndarray
    scale: float
    shift: np.ndarray
    bias: float
    share: float
    n_noise: int
    weights: tuple

    def losses(
        self, documents: Encoded, rng: np.random.Generator, verbose: bool = False
    ) -> np.ndarray:
        """One loss in [0, 1] for each document of at least two words, (n_documents,).

        w+ * share of the words that follow which the rule calls noise
        + w- * share of `n_noise` fresh noise words which it calls the document's own
        """
        head, tail = cut(documents, self.share)
        cumulated = np.cumsum(self.p_noise)
        losses = np.empty(documents.n_sentences)
        total = documents.n_sentences
        with bar("certify", total=total, unit="documents", enabled=verbose) as shown:
            for start in range(0, total, _DOCUMENTS):
                rows = np.arange(start, min(start + _DOCUMENTS, total))
                vectors = self.calibrated(vectors_of(self.vectorizer, head.take(rows)))
                wrong = self._missed(vectors, tail.take(rows))
                drawn = rng.random((rows.size, self.n_noise)) * cumulated[-1]
                noise = np.minimum(np.searchsorted(cumulated, drawn, "right"), cumulated.size - 1)
                false = 1.0 - self._missed(vectors, _same_length(noise), at_zero=0.0)
                losses[rows] = self.weights[0] * wrong + self.weights[1] * false
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
    """The first part of each document in reading order, and the rest; both hold a word.

    Examples
    --------
    >>> import numpy as np
    >>> head, tail = cut(priors.encode_ids(np.array([4, 2, 7, 1]), np.array([4])), share=0.5)
    >>> head.ids, tail.ids
    (array([4, 2], dtype=int32), array([7, 1], dtype=int32))
    """
    n = np.diff(documents.offsets)
    n_head = np.clip(np.floor(share * n), 1, n - 1).astype(np.int64)
    place = np.arange(documents.ids.size) - np.repeat(documents.offsets[:-1], n)
    first = place < np.repeat(n_head, n)
    return (
        priors.encode_ids(documents.ids[first], n_head),
        priors.encode_ids(documents.ids[~first], n - n_head),
    )


def _same_length(ids) -> Encoded:
    return priors.encode_ids(ids.ravel(), np.full(ids.shape[0], ids.shape[1]))


def certify_continuation(terms: Terms, encoded: Encoded) -> tuple[Certificate, "Continuation"]:
    """The certificate about what follows in new documents, and the rule it is about."""
    rows = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    check_sample(rows.size, encoded)
    aside, rest, sample = _divided(terms, rows)
    rule = fixed_rule(terms, encoded.take(aside))
    losses = rule.losses(encoded.take(sample), terms.rng, terms.verbose)
    held_out: dict = {}
    if rest.size:
        fresh = rule.losses(encoded.take(rest), terms.rng)
        held_out = {"held_out_risk": float(fresh.mean()), "n_held_out": int(rest.size)}
    certificate = finished(
        terms,
        losses=packed_losses(losses),
        bound_name=terms.bound,
        empirical_risk=float(losses.mean()),  # recomputed from the losses that are kept
        kl=0.0,
        n=int(sample.size),
        share=terms.share,
        bias=rule.bias,
        scale=rule.scale,
        shift_norm=float(np.linalg.norm(rule.shift)),
        posterior="mean",
        n_documents=int(sample.size),
        n_left_out=int(encoded.n_sentences - rows.size),
        **held_out,
    )
    return certificate, Continuation(losses, rule, sample, aside, rest)


class Continuation(NamedTuple):
    """What was measured: the losses in the order of the bound, the rule, and who was where."""

    losses: np.ndarray
    rule: Rule
    rows: np.ndarray  # certified documents
    aside: np.ndarray
    rest: np.ndarray


def _divided(terms: Terms, rows):
    """(set aside, held out, certified) documents; a stream keeps its order, its start is aside."""
    if not terms.anytime:
        rows = terms.rng.permutation(rows)
    n_aside, n_rest = int(terms.split * rows.size), int(terms.holdout * rows.size)
    if needs_documents(terms) and terms.split > 0:
        n_aside = max(1, n_aside)
    aside, rest = rows[:n_aside], rows[n_aside : n_aside + n_rest]
    sample = rows[n_aside + n_rest :]
    if not sample.size:
        raise ValueError(
            f"split and holdout must leave documents to certify. Got {terms.split} and "
            f"{terms.holdout} of {rows.size} documents instead."
        )
    return aside, rest, sample


def needs_documents(terms: Terms) -> bool:
    """Whether something is learned from documents that are set aside."""
    return terms.calibrate or (terms.refit and terms.vectorizer.learns_from_text)


def fixed_rule(terms: Terms, aside: Encoded) -> Rule:
    """The rule, from the documents that were set aside alone."""
    bias = terms.biases[0]
    if len(terms.biases) > 1:
        raise ValueError(
            "bias must be one number for the continuation certificate. Got a list instead. Let "
            "calibrate choose on the documents set aside, or certify several candidates."
        )
    vectorizer = fitted(
        terms, aside if aside.n_sentences else priors.encode_ids(aside.ids, np.zeros(0))
    )
    scale, shift = 1.0, np.zeros(terms.A_hat.shape[1])
    if terms.calibrate and aside.n_sentences:
        head, tail = cut(aside, terms.share)
        means = vectors_of(vectorizer, head)
        scale, shift = priors.calibrate(means, tail, terms.A_hat, terms.p_noise, bias, terms.rng)
    return Rule(
        vectorizer, terms.A_hat, terms.p_noise, scale, shift, bias, terms.share, terms.n_noise,
        terms.weights,
    )  # fmt: skip
