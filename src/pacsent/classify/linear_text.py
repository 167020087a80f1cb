"""A linear model on the n-grams and the sentence vectors of texts: what estimators here share."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import fitting, inputs
from pacsent.classify.explanation import named_features
from pacsent.encoders import SentenceVectorizer, make
from pacsent.encoders.external_encoders import ConcatenatedEncoder, as_encoder, is_stored
from pacsent.parameter_checks import Interval, StrOptions
from pacsent.storage import State, is_model_name, load
from pacsent.text.near_duplicates import sketches
from pacsent.text.ngrams import (
    NGrams,
    fingerprints,
    unknown_shares,
    word_hashes,
    word_keys,
)
from pacsent.text.texts import as_sentences, as_texts
from pacsent.threads import in_order, n_threads
from pacsent.words.vectors import WordVectors

N_NAMED = 200  # features of each class whose names are kept
_BATCH_TEXTS = 2048
_MIN_TEXTS_FOR_PRUNING = 5_000  # from which on an n-gram must occur in two texts
_LONG = (5_000, 600)  # texts, and characters in a text, from which on trigrams are used


class TextFeatures(NamedTuple):
    """Training texts as n-grams and as vectors of mean 0 and mean square 1."""

    texts: list[str]
    X: sparse.csr_matrix
    E: np.ndarray  # (n, n_dims)
    mean: np.ndarray  # (n_dims,), subtracted from the vectors
    size: float  # the vectors are divided by it
    length: float  # of a text's tf-idf before it is normalised, on average


@dataclass(eq=False, repr=False)
class LinearText(BaseEstimator):
    """Base of the estimators: the parameters that all have."""

    words: Any = None
    _: KW_ONLY
    method: str = "Average"
    ngrams: str | tuple[int, int] = "auto"
    Cs: Sequence[float] = fitting.CS
    dense_scales: Sequence[float] = fitting.DENSE_SCALES
    n_jobs: int | None = None
    random_state: int = 0

    _parameter_constraints: ClassVar[dict] = {
        "words": "no_validation",  # by `as_encoder`, which takes anything that encodes texts
        "method": [str],
        "ngrams": [tuple, list, StrOptions({"auto"})],
        "Cs": [tuple, list],
        "dense_scales": [tuple, list],
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    # ---- fitting -------------------------------------------------------------------------------

    def _fit_anew(self, texts, *given):
        """`_fit` on a copy that takes the place of self at the end: a refused fit changes none."""
        learned = [name for name in vars(self) if name.endswith("_")]
        new = copy.copy(self)
        for name in learned:
            delattr(new, name)
        texts = as_texts(texts)
        new._fit(texts, *given)
        new.training_fingerprints_ = np.unique(fingerprints(texts))
        new.training_sketches_ = sketches(texts)
        for name in learned:
            delattr(self, name)
        vars(self).update(vars(new))
        return self

    def _candidates(self, weightings):
        return fitting.Candidates(
            inputs.as_scales(self.Cs, "Cs"),
            inputs.as_scales(self.dense_scales, "dense_scales"),
            weightings,
        )

    def _features(self, texts) -> TextFeatures:
        sizes = inputs.as_ngram_sizes(self.ngrams) or _auto_sizes(texts)
        threads = n_threads(self.n_jobs)
        self.ngrams_ = NGrams.of(
            texts, sizes, min_texts=fewest_texts(len(texts)), n_threads=threads
        )
        if len(self.ngrams_) == 0:
            raise ValueError(
                "texts must hold words. Got no word in any of them instead. Check which column "
                "holds the text."
            )
        X, lengths = self.ngrams_.tf_idf_and_lengths(texts, threads)
        self.vectorizer_ = self._make_vectorizer(texts)
        E = self.dense_features(texts)
        mean = E.mean(axis=0, dtype=np.float64)
        E = E - mean.astype(np.float32)
        squares = (E.astype(np.float64) ** 2).sum(axis=1)
        size = np.sqrt(max(float(squares.mean()), 1e-30))
        E = np.ascontiguousarray(E * np.float32(1.0 / size))
        return TextFeatures(texts, X, E, mean, size, float(lengths.mean()))

    def _keep(self, features: TextFeatures, linear: fitting.Linear) -> None:
        """The weights of the model, for vectors as they are, and the names of its features."""
        self.coef_ngrams_ = np.ascontiguousarray(linear.sparse, np.float32)
        self.coef_dense_ = np.ascontiguousarray(linear.dense / features.size, np.float32)
        self.intercept_ = linear.intercept - features.mean @ self.coef_dense_.astype(np.float64)
        self.mean_vector_ = features.mean
        part = linear.characters
        if part is None:
            self.characters_ = NGrams((1, 1), np.zeros(0), np.zeros(0), characters=True)
            k = self.intercept_.size
            part = fitting.Characters(np.zeros((0, k)), np.zeros(k), fitting.CharacterShare())
        self.coef_characters_ = np.ascontiguousarray(part.coef, np.float32)
        self.intercept_characters_ = np.asarray(part.intercept, np.float64)
        self.character_share_ = part.share
        self.selection_ = {**linear.report, "n_texts": len(features.texts)}
        parts = self.coef_ngrams_, self.coef_characters_, self.coef_dense_, self.intercept_
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError(
                "The weights that were fitted must be finite. They are not: sample_weight, "
                "class_weight, Cs, dense_scales or the word vectors are too large or too small."
            )
        self.named_features_ = named_features(
            self, features.texts, features.length, features.mean, N_NAMED
        )

    def _make_vectorizer(self, texts):
        return None if self.words is None else self._as_encoder(self.words).fit(texts)

    def _as_encoder(self, words):
        if isinstance(words, list | tuple) and not is_stored(words):
            return ConcatenatedEncoder([self._as_encoder(part) for part in words])
        if isinstance(words, str | Path) and is_model_name(words):
            words = load(words)
        if isinstance(words, WordVectors):
            made = make(self.method, words, on_empty="ignore", n_jobs=self.n_jobs)
            if words.sentences is None:
                return made
            taught = clone(words.sentences).set_params(on_empty="ignore", n_jobs=self.n_jobs)
            if words.counts is None:  # static embeddings of another program
                return taught
            return ConcatenatedEncoder([made, taught])
        if isinstance(words, SentenceVectorizer):
            return clone(words).set_params(on_empty="ignore")
        return as_encoder(words)

    def _strongest(self, column: int, sign: int, n: int) -> list[tuple[str, float]]:
        """The n features that raise (or, with sign -1, lower) a column most."""
        known, values = self.named_features_
        weights = values[:, column] * sign
        order = np.argsort(-weights, kind="stable")[: min(n, N_NAMED)]
        return [(known[i], float(weights[i])) for i in order if weights[i] > 0]

    # ---- predicting ----------------------------------------------------------------------------

    def dense_features(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of the texts by the sentence encoder, (n, n_dims)."""
        if self.vectorizer_ is None:
            return np.zeros((len(texts), 0), np.float32)
        return np.asarray(self.vectorizer_.transform(texts), np.float32)

    def decision_values(self, texts: Iterable[str]) -> np.ndarray:
        """Values of the linear model; one column for two classes or numbers, (n, n_columns)."""
        pieces = list(self.stream(texts))
        return np.concatenate(pieces) if pieces else np.zeros((0, self.intercept_.size))

    def stream(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """`decision_values` in batches, in constant memory; texts may be a generator."""
        check_is_fitted(self)
        texts = as_sentences(texts, "texts")

        def work(batch):
            values = self.ngrams_.scores(batch, self.coef_ngrams_)
            values += self.dense_features(batch) @ self.coef_dense_ + self.intercept_
            shares, other = self._by_characters(batch)
            values += shares[:, None] * (other - values)
            return values

        return in_order(work, _batches(texts), self.n_jobs)

    def _by_characters(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The decision values by n-grams of characters, and their share in the decision.

        (n_texts,) and (n_texts, n_columns). The share of a text does not rise with its unknown
        words where its characters are unknown as well.
        """
        share, known = self.character_share_, self._encoder_words()
        shares = np.full(len(texts), share.least)
        if share.usual < 1.0 and known is not None:
            shares = share.of(unknown_shares(texts, (self.ngrams_.keys, known)))
        values = np.zeros((len(texts), self.intercept_.size))
        rows = np.flatnonzero(shares)
        if rows.size:
            values[rows] = self.characters_.scores([texts[i] for i in rows], self.coef_characters_)
            shares[rows[~values[rows].any(axis=1)]] = share.least
        return shares, values + self.intercept_characters_

    def _encoder_words(self) -> np.ndarray | None:
        """The words that the encoder knows, for `unknown_shares`; None where they are not known."""
        if not hasattr(self, "_encoder_words_"):
            hashes = whole_words(self.vectorizer_)
            self._encoder_words_ = None if hashes is None else word_keys(hashes)
        return self._encoder_words_

    # ---- files ---------------------------------------------------------------------------------

    def state(self) -> State:
        """What `pacsent.save` writes: parameters, what `fit` learned, the vectorizer."""
        check_is_fitted(self)
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "words"}
        parts = {} if self.vectorizer_ is None else {"vectorizer": self.vectorizer_}
        return State({"parameters": parameters}, self._arrays(), parts)

    @classmethod
    def from_state(cls, state: State) -> "LinearText":
        """The inverse of `state`."""
        vectorizer = state.parts.get("vectorizer")
        made = cls(vectorizer, **state.config["parameters"])
        made._validate_params()
        made.__dict__.update(cls._attributes(state.tensors, vectorizer))
        return made

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _batches(texts):
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH_TEXTS)):
        yield as_texts(batch)


def whole_words(vectorizer: Any) -> np.ndarray | None:
    """The hashes of the words that an encoder knows; None where its words are not known.

    A word that an encoder has to put together from pieces is not one of them.

    >>> whole_words(None)
    array([], dtype=uint64)
    """
    encoders = [] if vectorizer is None else getattr(vectorizer, "encoders_", [vectorizer])
    if not all(isinstance(encoder, SentenceVectorizer) for encoder in encoders):
        return None
    words = [w for encoder in encoders for w in encoder.word_vectors.vocabulary.words]
    hashes = np.unique(word_hashes([word for word in words if not word.startswith("##")]))
    return hashes[hashes > 0]


def fewest_texts(n_texts: int) -> int:
    """In how many of the training texts an n-gram must occur."""
    return 2 if n_texts >= _MIN_TEXTS_FOR_PRUNING else 1


def _auto_sizes(texts) -> tuple[int, int]:
    n_letters = sum(map(len, texts))
    return (1, 3) if len(texts) >= _LONG[0] and n_letters >= _LONG[1] * len(texts) else (1, 2)
