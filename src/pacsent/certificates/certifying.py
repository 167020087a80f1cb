"""Certificates: what can be promised about a sentence representation, and every ingredient of it.

`certify` measures how well vectors built from one part of each document tell the document's other
words from noise, and bounds the risk on words not seen. The promise, its assumption and its proof
are in docs/certificates.md; the result is a `Certificate` (`certificate.py`), the measuring is in
`certifying.py`.
"""

import hashlib
import math
import warnings

import numpy as np

import pacsent
from pacsent.certificates.certificate import ASSUMPTIONS, KINDS, Certificate, vacuous_reason
from pacsent.certificates.documents import certify_documents
from pacsent.certificates.setting import GibbsPosterior, Setting
from pacsent.certificates.squares import certify_squares
from pacsent.certificates.words import certify_words
from pacsent.maths.risks import paper_weights
from pacsent.threads import n_threads

__all__ = ["Certificate", "GibbsPosterior", "VacuousBoundWarning", "certify"]


class VacuousBoundWarning(UserWarning):
    """The bound is no better than guessing, so it promises nothing."""


def certify(
    vectorizer,
    texts,
    kind="A",
    *,
    delta=0.05,
    random_state=0,
    bias=None,
    prior_variance=None,
    posterior="auto",
    calibrate=True,
    split=None,
    holdout=None,
    refit=True,
    noise_power=0.75,
    weighting="balanced",
    n_negatives=None,
    precision="float32",
    n_jobs=None,
    verbose=False,
    return_posterior=False,
):
    """Certify how well a vectorizer's vectors tell a text's unseen words from noise.

        risk <= w+ kl_inverse(R+_hat, (KL(Q||P) + ln(xi(n)/delta)) / n) + w- R-       (A, A')

    Parameters
    ----------
    vectorizer : estimator of this package
        Gives the documents' vectors. It need not be fitted where `refit` is true.
    texts : iterable of str or of token lists, or Encoded
        The text to certify, one document each. The word vectors must not have been trained on it.
    kind : {"A", "A'", "B", "C"}, default="A"
        A: further words of these documents, tokens independent given the document. A': words of
        these very texts that were not drawn, no assumption. B: new documents, by w-PB-neg's word
        posteriors (other vectorizers certify the words' prior). C: squared loss, as A.
    delta : float, default=0.05
        Chance that the statement fails.
    random_state : int, default=0
        Seed of the split. Trying several and reporting the best must be paid: delta / number.
    bias : float, list of float, or None
        Added to every score. A number must be fixed before looking at the texts (None: ln of the
        number of negatives the vectors were trained with, or of 15). A list is a grid, searched
        on the sample and paid for.
    prior_variance : float, list of float, or None
        Of the prior. None chooses it by the prior's part of the text, which costs nothing; a list
        is searched on the sample and paid for. B: the variance of a word is this (0.01 by default)
        times median(count)/count(w), by source counts.
    posterior : {"auto", "prior", "vectorizer", "bound"} or (means, variances), default="auto"
        Which Q is certified; free, the bound holds for all. "prior": the vector of the prior's
        part. "vectorizer": the vector of all the tokens read. "auto": the best step from the one to
        the other. "bound": moved further by minimising the bound itself. A pair of arrays with one
        row per document (B: per word): any posterior, however it was learned, in the vectorizer's
        coordinates.
    calibrate : bool, default=True
        Replace the prior's mean m by scale * m + shift, fitted on the prior's part alone (B: on
        documents set aside).
    split, holdout : float, or None
        Share of each document's tokens that builds the prior, and share that nothing reads. Default
        0.7 and 0 (A, C), 0.5 and 0.25 (A'). B: `split` is the share of documents set aside to
        calibrate (0.1), `holdout` the share of documents that nothing reads (0).
    refit : bool, default=True
        Fit a clone of the vectorizer on the prior's part. False uses it as it was fitted, and
        refuses one that was fitted on the certified text.
    noise_power : float, default=0.75
        Noise distribution: source counts to this power.
    weighting : {"balanced", "paper"}, default="balanced"
        True words and noise weigh 1/2 each, or 1/(k+1) and k/(k+1) with k = `n_negatives`.
    n_negatives : int or None
        k above; None as for the bias.
    precision : {"float32", "float64"}, default="float32"
        Of the exact noise risk; its numerical error is bounded and added either way.
    n_jobs : int or None
        Threads. The result does not depend on it.
    verbose : bool, default=False
        Progress on stderr.
    return_posterior : bool, default=False
        Return (certificate, GibbsPosterior).

    Returns
    -------
    certificate : Certificate

    Warns
    -----
    VacuousBoundWarning
        Where the bound is no better than guessing, with the term that makes it so.

    Notes
    -----
    Docs: docs/certificates.md. The digest check catches vectors trained on the same text, token
    for token; it cannot see an overlap.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}. Got {kind!r} instead.")
    if not isinstance(delta, int | float) or not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1. Got {delta!r} instead.")
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(
            f"random_state must be an integer >= 0, because a certificate records its seed. Got "
            f"{random_state!r} instead."
        )
    if weighting not in ("balanced", "paper"):
        raise ValueError(f"weighting must be 'balanced' or 'paper'. Got {weighting!r} instead.")
    words = vectorizer.word_vectors
    if not getattr(vectorizer, "in_table_space", True):
        raise ValueError(
            "The vectors must be in the coordinates of the word table to be certified. Got "
            f"{type(vectorizer).__name__} instead, whose are not. Certify SIF, Average, PB-L2 or "
            "another method of the paper."
        )
    swap = getattr(vectorizer, "swap_roles", False)
    if words.output_vectors is None:
        raise ValueError(
            "The word vectors must have an output table to be certified. Got input vectors only "
            "instead. Train with pacsent train, or convert a model that kept both."
        )
    A_hat, B_hat = words.roles(swap=swap)
    encoded = words.vocabulary.encode(texts)
    text_digest = words.vocabulary.digest(encoded)
    if words.corpus_digest is not None and words.corpus_digest == text_digest:
        raise ValueError(
            "These word vectors were trained on the text being certified (digest "
            f"{text_digest[:4]}…{text_digest[-2:]}), so the prior has seen the sample and no "
            "PAC-Bayes bound holds. Train them on other text, or certify on held-out text."
        )
    if not refit and kind != "B":  # B's prior comes from the source alone; its Q may see all
        _check_fit(vectorizer, text_digest)
    k = n_negatives or words.training.get("n_negatives") or 15
    defaults = {"A": (0.7, 0.0), "A'": (0.5, 0.25), "B": (0.1, 0.0), "C": (0.7, 0.0)}[kind]
    split = defaults[0] if split is None else split
    holdout = defaults[1] if holdout is None else holdout
    least = 0.0 if kind == "B" else 1e-9
    if not (least <= split < 1 and 0 <= holdout < 1 and split + holdout < 1):
        raise ValueError(
            f"split and holdout must be shares with a positive rest. Got {split} and {holdout} "
            "instead."
        )
    if kind == "A'" and holdout <= 0:
        raise ValueError(
            'holdout must be > 0 for kind "A\'": it bounds the risk on all words outside the '
            f"prior's part, and the sample must leave some of them out. Got {holdout} instead."
        )
    setting = Setting(
        vectorizer=vectorizer,
        words=words,
        A_hat=A_hat,
        B_hat=B_hat,
        p_noise=words.vocabulary.noise_probabilities(noise_power),
        kind=kind,
        delta=float(delta),
        rng=np.random.default_rng(int(random_state)),
        biases=_grid("bias", math.log(k) if bias is None else bias),
        variances=None if prior_variance is None else _grid("prior_variance", prior_variance, 0.0),
        posterior=posterior,
        calibrate=calibrate,
        split=float(split),
        holdout=float(holdout),
        refit=refit,
        weights=(0.5, 0.5) if weighting == "balanced" else paper_weights(k),
        precision=precision,
        n_jobs=n_threads(n_jobs),
        verbose=verbose,
        record={
            "kind": kind,
            "delta": float(delta),
            "assumption": ASSUMPTIONS[kind],
            "split": float(split),
            "holdout": float(holdout),
            "vectorizer": _describe(vectorizer),
            "text_digest": text_digest,
            "vectors_digest": vectors_digest(words),
            "random_state": int(random_state),
            "pacsent_version": pacsent.__version__,
        },
    )
    certifier = {"B": certify_documents, "C": certify_squares}.get(kind, certify_words)
    certificate, gibbs = certifier(setting, encoded)
    if certificate.is_vacuous:
        warnings.warn(
            f"The bound is {certificate.risk_bound:.4g} and promises nothing: "
            f"{vacuous_reason(certificate)}",
            VacuousBoundWarning,
            stacklevel=2,
        )
    return (certificate, gibbs) if return_posterior else certificate


def _grid(name, value, above=-math.inf) -> list[float]:
    values = [float(v) for v in np.atleast_1d(np.asarray(value, dtype=float))]
    if not values or not all(math.isfinite(v) and v > above for v in values):
        rule = "finite" if above == -math.inf else f"finite and > {above:g}"
        raise ValueError(f"{name} must be {rule}. Got {value!r} instead.")
    # float32 numbers, so that the noise risk is that of the very same classifier
    return [float(np.float32(v)) if name == "bias" else v for v in values]


def _describe(vectorizer) -> str:
    parameters = {
        key: value
        for key, value in vectorizer.get_params(deep=False).items()
        if key not in ("word_vectors", "n_jobs", "batch_size", "on_empty", "verbose")
    }
    inside = ", ".join(f"{key}={value!r}" for key, value in sorted(parameters.items()))
    return f"{type(vectorizer).__name__}({inside})"


def vectors_digest(words) -> str:
    """sha256 of the vocabulary and both tables."""
    total = hashlib.sha256("\n".join(words.vocabulary.words).encode() + b"\0")
    for table in (words.input_vectors, words.output_vectors):
        total.update(str(table.dtype).encode())
        total.update(np.ascontiguousarray(table).data)
    return total.hexdigest()


def _check_fit(vectorizer, digest):
    """Refuse a vectorizer that learned from this very text, or from text nobody recorded."""
    learned_from = getattr(vectorizer, "fit_digest_", None)
    if learned_from == digest:
        raise ValueError(
            "This vectorizer was fitted on the text being certified, so the prior has seen the "
            "sample and no PAC-Bayes bound holds. Fit it on other text, or pass refit=True."
        )
    learned = [name for name in vars(vectorizer) if name in ("idf_", "noise_counts_", "start_")]
    if learned and learned_from is None:
        raise ValueError(
            f"{type(vectorizer).__name__} must record what it was fitted on (fit_digest_) to be "
            "certified as it is. Got none instead. Pass refit=True."
        )
