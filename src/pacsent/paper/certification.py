"""`certify_encoder`: what a sentence encoder is proved to know, by each kind of certificate."""

from collections.abc import Callable
from typing import Any

from pacsent.paper.continuation import certify_continuation
from pacsent.paper.document_certificate import certify_documents
from pacsent.paper.encoder_certificate import EncoderCertificate
from pacsent.paper.heuristic_certificate import certify_heuristics
from pacsent.paper.squared_certificate import certify_squared_loss
from pacsent.paper.word_certificate import certify_words

_FUNCTIONS: dict[str, Callable[..., EncoderCertificate]] = {
    "continuation": certify_continuation,
    "A": certify_words,
    "B": certify_documents,
    "C": certify_squared_loss,
    "D": certify_heuristics,
}


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
    overlap: str = "error",
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
        What is certified, as in `pacsent paper continuation --kind`: the words that follow in new
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
    overlap : {"error", "drop"}, default="error"
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
    >>> import numpy as np
    >>> from pacsent import make_encoder
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 10))
    >>> certificate = certify_encoder(make_encoder("PB-L2", language.words), texts, random_state=0)
    >>> certificate.error_upper < 0.5 and bool(certificate.verify())
    True
    """
    if not isinstance(kind, str) or kind not in _FUNCTIONS:
        raise ValueError(f"kind must be one of {tuple(_FUNCTIONS)}. Got {kind!r} instead.")

    # Options that are None have the default of the kind, which need not know them.
    options_of_kind = {
        "split": split,
        "bias": bias,
        "posterior": posterior,
        "prior_variance": prior_variance,
    }
    for name, value in list(options_of_kind.items()):
        if value is None:
            del options_of_kind[name]

    certify = _FUNCTIONS[kind]
    return certify(
        encoder,
        texts,
        delta=delta,
        n_candidates=n_candidates,
        random_state=random_state,
        test_size=test_size,
        overlap=overlap,
        verbose=verbose,
        **options_of_kind,
    )
