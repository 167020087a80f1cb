"""`certify`: what can be promised about a sentence representation, and every ingredient of it.

The promises, their assumptions and their proofs are in docs/certificates.md; the result is a
`Certificate`; each kind is measured in a file of its own.
"""

import inspect
import math
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import pacsent
from pacsent.certificates.certificate import ASSUMPTIONS, KINDS, Certificate
from pacsent.certificates.continuation import certify_continuation
from pacsent.certificates.document_certificate import certify_documents
from pacsent.certificates.provenance import first_copies, provenance_of, refuse_overlap
from pacsent.certificates.squared_certificate import certify_squares
from pacsent.certificates.terms import GibbsPosterior, Terms
from pacsent.certificates.word_certificate import certify_words
from pacsent.certificates.wording import vacuous_reason
from pacsent.maths.checks import check_count, check_probability, is_count, is_number
from pacsent.maths.means import MEAN_BOUNDS
from pacsent.maths.risks import paper_weights
from pacsent.maths.rounding import rounded_up
from pacsent.threads import n_threads
from pacsent.words.vectors import WordVectors

__all__ = ["Certificate", "GibbsPosterior", "VacuousBoundWarning", "certify"]

CERTIFIERS = {
    "continuation": certify_continuation,
    "A": certify_words,
    "A'": certify_words,
    "B": certify_documents,
    "C": certify_squares,
}
# share set aside (A, A', C: that builds the prior) and share that nothing reads
SHARES = {
    "continuation": (0.1, 0.0),
    "A": (0.7, 0.0),
    "A'": (0.5, 0.25),
    "B": (0.1, 0.0),
    "C": (0.7, 0.0),
}


class VacuousBoundWarning(UserWarning):
    """The bound is no better than guessing, so it promises nothing."""


def certify(
    vectorizer: Any,
    texts: Any,
    kind: Any = "continuation",
    *,
    delta: float = 0.05,
    random_state: int | None = None,
    n_candidates: int = 1,
    bound: str = "betting",
    share: float = 0.8,
    n_noise: int = 256,
    anytime: bool = False,
    bias: float | Sequence[float] | None = None,
    prior_variance: float | Sequence[float] | None = None,
    posterior: Any = "auto",
    calibrate: bool = True,
    split: float | None = None,
    holdout: float | None = None,
    refit: bool = True,
    overlap: str = "refuse",
    noise_power: float = 0.75,
    weighting: str = "balanced",
    n_negatives: int | None = None,
    precision: str = "float32",
    n_jobs: int | None = None,
    verbose: bool = False,
    return_posterior: bool = False,
    per_class: bool = False,
) -> Any:
    """Certify how well a vectorizer's vectors tell a text's unseen words from noise.

    Of a `TextClassifier` it certifies how often it is wrong: `certify(classifier, texts, labels)`,
    with delta, overlap, n_candidates and per_class (`pacsent.classify.certify`).

    Parameters
    ----------
    vectorizer : estimator of this package, or a list of them
        Gives the documents' vectors. It need not be fitted where `refit` is true. Of a list, the
        one with the smallest bound is certified, and the choice is paid for: delta / their number.
    texts : iterable of str or of token lists, or Encoded
        The text to certify, one document each. The word vectors must not have been trained on it.
    kind : {"continuation", "A", "A'", "B", "C"}, default="continuation"; or labels
        continuation: new documents of the same population; the first part of each makes its vector,
        the words that follow are scored; nothing is assumed inside a document. A: further words of
        these documents, if tokens were independent given the document (they are not). A': words of
        these very texts that were not drawn, no assumption. B: new documents, by w-PB-neg's word
        posteriors. C: squared loss, as A.
    delta : float, default=0.05
        Chance that the statement fails.
    random_state : int or None
        Seed of the split and of the noise words. None draws one from the system's entropy. It is
        recorded either way; trying several and reporting the best must be paid (`n_candidates`).
    n_candidates : int, default=1
        How many methods, settings or seeds were tried elsewhere, this one included, if the best of
        them is reported: each is paid with delta / n_candidates.
    bound : {"betting", "maurer-pontil", "chernoff"}, default="betting"
        On the mean of the documents' losses (continuation, B without a learned posterior).
    share : float, default=0.8
        continuation: the first part of a document, in reading order, that makes its vector.
    n_noise : int, default=256
        continuation: fresh noise words drawn for each document.
    anytime : bool, default=False
        continuation: keep the documents in their order and use bets that do not know the end, so
        that the bound holds after every document of a stream at once.
    bias : float, list of float, or None
        Added to every score. A number must be fixed before looking at the texts (None: ln of the
        number of negatives the vectors were trained with, or of 15). A list (A, A') is a grid,
        searched on the sample and paid for.
    prior_variance : float, list of float, or None
        Of the prior (A, A'). None chooses it by the prior's part of the text, which costs nothing;
        a list is searched on the sample and paid for. B: the variance of a word is this (0.01 by
        default) times median(count)/count(w), by source counts.
    posterior : {"auto", "prior", "vectorizer", "bound"} or (means, variances), default="auto"
        A, A', B, C: which Q is certified; the bound holds for all, but method and settings that
        make the prior's mean are choices all the same. "prior": the vector of the prior's part.
        "vectorizer": the vector of all the tokens read. "auto": the best step from the one to the
        other. "bound": moved further by minimising the bound itself. A pair of arrays with one row
        per document (B: per word): any posterior, in the vectorizer's coordinates.
    calibrate : bool, default=True
        Replace the vector m by scale * m + shift, fitted on what is set aside (A, A', C: on the
        prior's part).
    split, holdout : float, or None
        continuation, B: share of documents set aside to fit and calibrate (0.1), and share that
        nothing reads, to compare with (0). A, A', C: share of each document's tokens that builds
        the prior, and share that nothing reads; 0.7 and 0 (A, C), 0.5 and 0.25 (A').
    refit : bool, default=True
        Fit a clone of the vectorizer on what is set aside. False uses it as it was fitted, and
        refuses one that was fitted on certified text.
    overlap : {"refuse", "drop"}, default="refuse"
        What to do about documents that the vectors have seen: refuse, or leave these out.
    noise_power : float, default=0.75
        Noise distribution: source counts to this power.
    weighting : {"balanced", "paper"}, default="balanced"
        True words and noise weigh 1/2 each, or 1/(k+1) and k/(k+1) with k = `n_negatives`.
    n_negatives : int or None
        k above; None as for the bias.
    precision : {"float32", "float64"}, default="float32"
        Of the exact noise risk (A, A'); its numerical error is bounded and added either way.
    n_jobs : int or None
        Threads. The result does not depend on it.
    verbose : bool, default=False
        Progress on stderr.
    return_posterior : bool, default=False
        Return (certificate, what was measured): a `Continuation` or a `GibbsPosterior`.

    per_class : bool, default=False
        Of a classifier: bound the error in each class as well.

    Returns
    -------
    certificate : Certificate, or ErrorCertificate of a classifier

    Warns
    -----
    VacuousBoundWarning
        Where the bound is no better than guessing, with the term that makes it so.

    Notes
    -----
    Docs: docs/certificates.md.

    Examples
    --------
    >>> from pacsent.certificates.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 10))
    >>> certificate = certify(pacsent.make("PB-L2", language.words), texts, random_state=0)
    >>> certificate.empirical_risk < certificate.risk_bound < 0.5 and certificate.verify()
    True
    """
    options = {name: value for name, value in locals().items() if name not in _NOT_RECORDED}
    if hasattr(vectorizer, "__sklearn_tags__") and is_classifier(vectorizer):
        return _of_classifier(vectorizer, texts, kind, {**options, "per_class": per_class})
    if isinstance(vectorizer, list | tuple):
        return _best_of(vectorizer, texts, options, n_jobs, verbose, return_posterior)
    _check(vectorizer, options)
    seed = secrets.randbits(62) if random_state is None else int(random_state)
    options["random_state"] = seed
    words = vectorizer.word_vectors.check_finite()  # a noise word may be one that no text holds
    encoded = words.vocabulary.encode(texts)
    terms = _terms(vectorizer, encoded, {**options, "n_jobs": n_jobs, "verbose": verbose})
    as_fitted = not refit and kind != "B"  # B's prior comes from the source; its Q may see all
    found = provenance_of(vectorizer, encoded, as_fitted=as_fitted)
    if overlap == "refuse":
        refuse_overlap(found)
    rows = np.flatnonzero(~found.seen)
    rows = rows[first_copies(encoded.take(rows))]
    recorded = {
        "provenance": found.status,
        "provenance_note": found.note,
        "n_overlapping": int(found.seen.sum()),
        "n_duplicates": int(encoded.n_sentences - found.seen.sum() - rows.size),
    }
    terms = replace(
        terms,
        record={**terms.record, **recorded},
        posterior=_posterior_rows(terms, encoded.n_sentences, rows),
    )
    encoded = encoded.take(rows)
    certificate, measured = CERTIFIERS[kind](terms, encoded)
    if certificate.is_vacuous:
        warnings.warn(
            f"The bound is {rounded_up(certificate.risk_bound, 4)} and promises nothing: "
            f"{vacuous_reason(certificate)}",
            VacuousBoundWarning,
            stacklevel=2,
        )
    return (certificate, measured) if return_posterior else certificate


# certificates may be asked to make themselves again, and must not import what makes them
Certificate.certify_again = staticmethod(certify)
_NOT_RECORDED = ("vectorizer", "texts", "n_jobs", "verbose", "return_posterior", "per_class")
_OF_CLASSIFIERS = ("delta", "overlap", "n_candidates", "per_class")


def _of_classifier(classifier, texts, labels, options):
    """The classifier's own certificate, from labelled texts it has not seen."""
    if isinstance(labels, str):
        raise ValueError(
            "certify needs the labels of the texts to certify a classifier. Got none. Call "
            "certify(classifier, texts, labels)."
        )
    usual = inspect.signature(certify).parameters
    for name, value in options.items():
        if name not in (*_OF_CLASSIFIERS, "kind") and value != usual[name].default:
            raise ValueError(
                f"{name} does not apply to a classifier. Leave it out; what applies is "
                f"{', '.join(_OF_CLASSIFIERS)}."
            )
    return classifier.certify(texts, labels, **{name: options[name] for name in _OF_CLASSIFIERS})


def _best_of(candidates, texts, options, n_jobs, verbose, return_posterior):
    """The candidate with the smallest bound, all of them paid for."""
    if not candidates:
        raise ValueError("vectorizer must be an estimator or a list of them. Got an empty list.")
    paid = check_count("n_candidates", options["n_candidates"]) * len(candidates)
    if options["random_state"] is None:
        options = {**options, "random_state": secrets.randbits(62)}
    settings = {**options, "n_candidates": paid, "n_jobs": n_jobs, "verbose": verbose}
    texts = texts if hasattr(texts, "__len__") else list(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VacuousBoundWarning)
        made = [certify(one, texts, return_posterior=True, **settings) for one in candidates]
    best = min(made, key=lambda pair: pair[0].risk_bound)
    table = [{"vectorizer": c.vectorizer, "risk_bound": c.risk_bound} for c, _ in made]
    certificate = replace(best[0], candidates=table)
    if certificate.is_vacuous:
        bound = rounded_up(certificate.risk_bound, 4)
        warnings.warn(
            f"The smallest of {len(made)} bounds is {bound} and promises nothing: "
            f"{vacuous_reason(certificate)}",
            VacuousBoundWarning,
            stacklevel=3,
        )
    return (certificate, best[1]) if return_posterior else certificate


def _check(vectorizer, o) -> None:
    """Refuse arguments that no certificate can be made with."""
    if not isinstance(getattr(vectorizer, "word_vectors", None), WordVectors):
        raise TypeError(
            "vectorizer must be a sentence vectorizer with word vectors, or a list of some. Got "
            f"{type(vectorizer).__name__} instead. Make one: make('PB-L2', words)."
        )

    def must(right, name, rule):
        if not right:
            raise ValueError(f"{name} must be {rule}. Got {o[name]!r} instead.")

    kind = o["kind"]
    must(kind in KINDS, "kind", f"one of {KINDS}")
    check_probability("delta", o["delta"])
    seed = o["random_state"]
    must(
        seed is None or is_count(seed),
        "random_state",
        "an integer >= 0 or None, because a certificate records its seed",
    )
    must(o["weighting"] in ("balanced", "paper"), "weighting", "'balanced' or 'paper'")
    must(o["bound"] in MEAN_BOUNDS, "bound", f"one of {tuple(MEAN_BOUNDS)}")
    must(o["overlap"] in ("refuse", "drop"), "overlap", "'refuse' or 'drop'")
    for name in ("n_candidates", "n_noise"):
        check_count(name, o[name])
    check_probability("share", o["share"])
    power = o["noise_power"]
    must(is_number(power) and power >= 0, "noise_power", "a finite number >= 0")
    for name in ("calibrate", "refit", "anytime"):
        must(isinstance(o[name], bool | np.bool_), name, "True or False")
    must(
        o["n_negatives"] is None or is_count(o["n_negatives"], 1),
        "n_negatives",
        "an integer of at least 1, or None",
    )
    if o["anytime"] and (kind != "continuation" or o["bound"] != "betting"):
        raise ValueError(
            "anytime must be used with kind='continuation' and bound='betting', the only bound "
            f"here that may be watched. Got kind={kind!r} and bound={o['bound']!r} instead."
        )
    if not getattr(vectorizer, "in_table_space", True):
        raise ValueError(
            "The vectors must be in the coordinates of the word table to be certified. Got "
            f"{type(vectorizer).__name__} instead, whose are not. Certify SIF, Average, PB-L2 or "
            "another method of the paper."
        )
    if vectorizer.word_vectors.output_vectors is None:
        raise ValueError(
            "The word vectors must have an output table to be certified. Got input vectors only "
            "instead. Train with pacsent train, or convert a model that kept both."
        )


def _terms(vectorizer, encoded, o) -> Terms:
    words = vectorizer.word_vectors
    A_hat, B_hat = words.roles(swap=getattr(vectorizer, "swap_roles", False))
    k = o["n_negatives"] or words.training.get("n_negatives") or 15
    split, holdout = _shares(o["kind"], o["split"], o["holdout"])
    bias = math.log(k) if o["bias"] is None else o["bias"]
    variance = o["prior_variance"]
    n_candidates = int(o["n_candidates"])
    shown = {name: value for name, value in o.items() if name not in ("n_jobs", "verbose")}
    shown |= {"split": split, "holdout": holdout}
    if isinstance(o["posterior"], tuple):
        shown.pop("posterior")  # arrays: given again by whoever verifies
    return Terms(
        vectorizer=vectorizer,
        words=words,
        A_hat=A_hat,
        B_hat=B_hat,
        p_noise=words.vocabulary.noise_probabilities(o["noise_power"]),
        kind=o["kind"],
        delta=float(o["delta"]),
        rng=np.random.default_rng(o["random_state"]),
        biases=_grid("bias", bias),
        variances=None if variance is None else _grid("prior_variance", variance, 0.0),
        posterior=o["posterior"],
        calibrate=o["calibrate"],
        split=split,
        holdout=holdout,
        refit=o["refit"],
        weights=(0.5, 0.5) if o["weighting"] == "balanced" else paper_weights(k),
        precision=o["precision"],
        n_jobs=n_threads(o["n_jobs"]),
        verbose=o["verbose"],
        share=float(o["share"]),
        n_noise=int(o["n_noise"]),
        bound=o["bound"],
        anytime=bool(o["anytime"]),
        paid={"candidates": n_candidates} if n_candidates > 1 else {},
        record={
            "kind": o["kind"],
            "delta": float(o["delta"]),
            "assumption": ASSUMPTIONS[o["kind"]],
            "split": split,
            "holdout": holdout,
            "noise_power": float(o["noise_power"]),
            "vectorizer": _describe(vectorizer),
            "options": _plain(shown),
            "text_digest": words.vocabulary.digest(encoded),
            "vectors_digest": words.digest(),
            "random_state": o["random_state"],
            "pacsent_version": pacsent.__version__,
        },
    )


def _shares(kind, split, holdout) -> tuple[float, float]:
    split = SHARES[kind][0] if split is None else split
    holdout = SHARES[kind][1] if holdout is None else holdout
    least = 0.0 if kind in ("B", "continuation") else 1e-9
    if not (is_number(split) and is_number(holdout)) or not (
        least <= split < 1 and 0 <= holdout < 1 and split + holdout < 1
    ):
        raise ValueError(
            f"split and holdout must be shares with a positive rest. Got {split} and {holdout} "
            "instead."
        )
    if kind == "A'" and holdout <= 0:
        raise ValueError(
            'holdout must be > 0 for kind "A\'": it bounds the risk on all words outside the '
            f"prior's part, and the sample must leave some of them out. Got {holdout} instead."
        )
    return float(split), float(holdout)


def _posterior_rows(terms: Terms, n_texts: int, rows):
    """A posterior that was given, one row per text, for the texts that are certified."""
    if not isinstance(terms.posterior, tuple) or terms.kind == "B":
        return terms.posterior
    if any(len(a) != n_texts for a in terms.posterior):
        shape = n_texts, terms.A_hat.shape[1]
        raise ValueError(
            f"posterior must be means of shape {shape} and variances of shape {shape[:1]}, one row "
            f"per text. Got {', '.join(str(np.shape(a)) for a in terms.posterior)} instead."
        )
    return tuple(np.asarray(a)[rows] for a in terms.posterior)


def _grid(name, value, above=-math.inf) -> list[float]:
    values = [float(v) for v in np.atleast_1d(np.asarray(value, dtype=float))]
    if not values or not all(math.isfinite(v) and v > above for v in values):
        rule = "finite" if above == -math.inf else f"finite and > {above:g}"
        raise ValueError(f"{name} must be {rule}. Got {value!r} instead.")
    # float32 numbers, so that the noise risk is that of the very same classifier
    return [float(np.float32(v)) if name == "bias" else v for v in values]


def _plain(options: dict) -> dict:
    """Options as JSON can hold them."""

    def plain(value):
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray | list | tuple):
            return [plain(item) for item in value]
        return value

    return {name: plain(value) for name, value in options.items()}


def _describe(vectorizer) -> str:
    parameters = {
        key: value
        for key, value in vectorizer.get_params(deep=False).items()
        if key not in ("word_vectors", "n_jobs", "batch_size", "on_empty", "verbose")
    }
    inside = ", ".join(f"{key}={value!r}" for key, value in sorted(parameters.items()))
    return f"{type(vectorizer).__name__}({inside})"
