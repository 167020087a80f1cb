"""TextClassifier: n-grams and sentence vectors in one linear model, for any number of labels."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import classifier_state, fitting, inputs
from pacsent.classify.explanation import Explanation, explain, feature_weights, features_page
from pacsent.classify.ngrams import NGrams, fingerprints, names
from pacsent.encoders import SentenceVectorizer, make
from pacsent.encoders.external_encoders import (
    ConcatenatedEncoder,
    as_encoder,
    is_model_name,
    is_stored,
)
from pacsent.maths.checks import check_count
from pacsent.maths.temperature import log_probabilities
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.storage import State, Tensors, load
from pacsent.text.texts import as_sentences, as_texts
from pacsent.threads import in_order, n_threads
from pacsent.words.vectors import WordVectors

_BATCH = 2048  # texts worked on at once
_N_NAMED = 200  # features of each class whose names are kept
_MANY = 5_000  # texts from which an n-gram must occur in two of them
_LONG = (5_000, 600)  # texts, and characters in a text, from which on trigrams are used


class TextClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by their n-grams and by their sentence vectors, together.

    One linear model on the tf-idf of n-grams, unweighted or weighted by naive Bayes' log-ratios,
    together with sentence vectors. All candidates are solved together on folds of the training
    labels, and the best are averaged. With few labels, a Gaussian process, averaged over its scales
    with the evidence as weights, counts as much as these. Probabilities are calibrated on held-out
    texts. `pacsent.CertifiedClassifier` adds guarantees.

    Parameters
    ----------
    words : WordVectors, encoder, path, URL, a list of these, or None, default=None
        Vectors for the dense part (or the folder they are in, or "english" for those that are
        installed), or anything that `pacsent.encoders.as_encoder` takes: a method of pacsent, an
        object with `encode`, a function. Those of a list are put side by side. None: n-grams only,
        which costs accuracy where labels are few; `pacsent classify train` takes "english" by
        default.
    method : str, default="Average"
        Which of `METHODS` makes sentence vectors from word vectors.
    ngrams : (int, int) or "auto", default="auto"
        Smallest and largest number of words in a row that make a feature. "auto" takes up to two,
        and up to three where there are at least 5,000 texts of 600 letters or more on average.
    weighting : {"auto", "tf-idf", "naive-bayes", "both"}, default="auto"
        How n-grams are weighted with many labels; "auto" tries all.
    selection : {"auto", "evidence", "folds"}, default="auto"
        How scales are chosen: by the evidence of a Gaussian process, or by accuracy on folds.
        "auto" takes folds with many labels, the mean of evidence and folds with few, evidence alone
        below 80.
    Cs, dense_scales : tuples of float
        Candidates: weight of the labels, and scale of the vectors relative to the n-grams.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.
    random_state : int, default=0
        Decides the folds.

    Attributes
    ----------
    classes_ : array
    selection_ : dict
        What was tried and chosen, and on how many texts.
    out_of_fold_ : OutOfFold
        `log_proba` and `labels` of training texts, predicted by models not fitted on them.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 3
    >>> classifier = TextClassifier().fit(texts, ["yes", "yes", "no", "no"] * 3)
    >>> classifier.predict(["good", "bad"])
    array(['yes', 'no'], dtype='<U3')
    """

    _parameter_constraints: ClassVar[dict] = {
        "words": "no_validation",  # by `as_encoder`, which takes anything that encodes texts
        "method": [str],
        "ngrams": [tuple, list, StrOptions({"auto"})],
        "weighting": [StrOptions({"auto", *fitting.WEIGHTINGS})],
        "selection": [StrOptions({"auto", "evidence", "folds"})],
        "Cs": [tuple, list],
        "dense_scales": [tuple, list],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        words: Any = None,
        *,
        method: str = "Average",
        ngrams: str | tuple[int, int] = "auto",
        weighting: str = "auto",
        selection: str = "auto",
        Cs: Sequence[float] = fitting.CS,
        dense_scales: Sequence[float] = fitting.DENSE_SCALES,
        class_weight: str | dict | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ):
        self.words = words
        self.method = method
        self.ngrams = ngrams
        self.weighting = weighting
        self.selection = selection
        self.Cs = Cs
        self.dense_scales = dense_scales
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- fitting -------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Iterable[str],
        y: Sequence,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
    ) -> "TextClassifier":
        """Learn from labelled texts.

        Parameters
        ----------
        X : iterable of str
        y : array of str or int, one for each text
        sample_weight : array, optional
            How much each text counts.
        groups : array, one for each text, optional
            The book, the author, the day a text is from, where new texts will be of other groups:
            texts of a group are left out together in cross-validation.
        """
        new = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        new._fit(as_texts(X), y, sample_weight, groups)
        self.__dict__ = new.__dict__  # at the end: a refused fit changes nothing
        return self

    def _fit(self, texts, labels, sample_weight, groups):
        candidates = self._candidates()
        sizes = inputs.as_ngram_sizes(self.ngrams)
        self.classes_, y = inputs.encoded_labels(labels, texts)
        weights = inputs.text_weights(sample_weight, self.class_weight, self.classes_, y)
        group_of = inputs.as_groups(groups, len(texts))
        rows = _Rows(texts, y, weights, group_of, fingerprints(texts))
        self._fit_rows(rows, sizes or _auto_sizes(texts), candidates)
        self.training_fingerprints_ = np.unique(rows.prints)

    def _candidates(self):
        return fitting.Candidates(
            inputs.as_scales(self.Cs, "Cs"),
            inputs.as_scales(self.dense_scales, "dense_scales"),
            fitting.WEIGHTINGS if self.weighting == "auto" else (self.weighting,),
        )

    def _fit_rows(self, given, sizes, candidates):
        """Fit the texts of `given`, a `_Rows`."""
        texts, threads = given.texts, n_threads(self.n_jobs)
        self.ngrams_ = NGrams.of(
            texts, sizes, min_texts=2 if len(texts) >= _MANY else 1, n_threads=threads
        )
        if len(self.ngrams_) == 0:
            raise ValueError(
                "texts must hold words. Got no word in any of them instead. Check which column "
                "holds the text."
            )
        X, lengths = self.ngrams_.tf_idf_and_lengths(texts, threads)
        self.vectorizer_ = self._make_vectorizer(texts)
        E = self._dense(texts)
        mean = E.mean(axis=0, dtype=np.float64)
        E = E - mean.astype(np.float32)
        squares = (E.astype(np.float64) ** 2).sum(axis=1)
        size = np.sqrt(max(float(squares.mean()), 1e-30))
        E = np.ascontiguousarray(E * np.float32(1.0 / size))
        rows = fitting.Labelled(X, E, given.y, self.classes_.size, given.weights)
        linear = self._solve(rows, given, candidates, threads)
        self.coef_ngrams_ = np.ascontiguousarray(linear.sparse, np.float32)
        self.coef_dense_ = np.ascontiguousarray(linear.dense / size, np.float32)
        self.intercept_ = linear.intercept - mean @ self.coef_dense_.astype(np.float64)
        self.mean_vector_ = mean
        self.inverse_temperature_ = linear.inverse_temperature
        self.selection_ = {**linear.report, "n_texts": len(texts)}
        self.out_of_fold_ = self.selection_.pop("out_of_fold")
        self._check_finite()
        n_words = float(np.mean([len(text.split()) for text in texts]))
        values = feature_weights(self, float(lengths.mean()), n_words, mean)
        self.named_features_ = self._named(texts, values)

    def _solve(self, rows, given, candidates, threads):
        groups, copies = given.groups, given.prints
        few = fitting.is_few(rows.labels.size, rows.n_classes)
        if self.selection == "folds" or not (few or self.selection == "evidence"):
            return fitting.fit_by_folds(
                rows, candidates, threads, self.random_state, groups, copies
            )
        rng = np.random.default_rng(self.random_state)
        folds = fitting.folds_for(rows.labels, rng, groups, copies)
        grouped = groups is not None or fitting.has_many_copies(rows.labels, copies)
        if self.selection == "evidence" or rows.labels.size < fitting.FEWEST:
            return fitting.fit_by_evidence(rows, threads, folds if grouped else None)
        return fitting.fit_by_both(rows, candidates, threads, folds, grouped)

    def _check_finite(self):
        parts = self.coef_ngrams_, self.coef_dense_, self.intercept_, self.out_of_fold_.log_proba
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError(
                "The weights that were fitted must be finite. They are not: sample_weight, "
                "class_weight, Cs, dense_scales or the word vectors are too large or too small."
            )

    def _make_vectorizer(self, texts):
        return None if self.words is None else self._as_encoder(self.words).fit(texts)

    def _as_encoder(self, words):
        if isinstance(words, list | tuple) and not is_stored(words):
            return ConcatenatedEncoder([self._as_encoder(one) for one in words])
        if isinstance(words, str | Path) and is_model_name(words):
            words = load(words)
        if isinstance(words, WordVectors):
            return make(self.method, words, on_empty="ignore", n_jobs=self.n_jobs)
        if isinstance(words, SentenceVectorizer):
            return clone(words).set_params(on_empty="ignore")
        return as_encoder(words)

    def _named(self, texts, values):
        """The features that speak most for each class: their names and weights."""
        top: set[int] = set()
        n = min(_N_NAMED, len(values))
        for column in values.T:
            for sign in (1, -1) if values.shape[1] == 1 else (1,):
                top.update(np.argpartition(-sign * column, n - 1)[:n].tolist())
        rows = np.array(sorted(top), np.int64)
        return names(texts, self.ngrams_.sizes, self.ngrams_.hashes[rows]), values[rows]

    # ---- predicting ----------------------------------------------------------------------------

    def _dense(self, texts) -> np.ndarray:
        if self.vectorizer_ is None:
            return np.zeros((len(texts), 0), np.float32)
        return np.asarray(self.vectorizer_.transform(texts), np.float32)

    def decision_values(self, texts: Iterable[str]) -> np.ndarray:
        """Decision values, one column for two classes and one for each of more, (n, n_columns)."""
        pieces = list(self.stream(texts))
        return np.concatenate(pieces) if pieces else np.zeros((0, self.intercept_.size))

    def stream(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Decision values in batches, in constant memory; texts may be a generator."""
        check_is_fitted(self)
        texts = as_sentences(texts, "texts")

        def work(batch):
            values = self.ngrams_.scores(batch, self.coef_ngrams_)
            return values + self._dense(batch) @ self.coef_dense_ + self.intercept_

        return in_order(work, _batches(texts), self.n_jobs)

    def decision_function(self, texts: Iterable[str]) -> np.ndarray:
        """Log-odds of the second of two classes, (n,); one value for each of many, (n, k)."""
        values = self.decision_values(texts)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """The likeliest class of each text."""
        check_is_fitted(self)
        return self.classes_[fitting.predicted(self.decision_values(texts))]

    def predict_log_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        check_is_fitted(self)
        return log_probabilities(self.decision_values(texts), self.inverse_temperature_)

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Calibrated probabilities of all classes, (n_texts, n_classes)."""
        return np.exp(self.predict_log_proba(texts))

    def score(
        self, texts: Iterable[str], labels: Sequence, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy; a label that is none of the classes is refused."""
        check_is_fitted(self)
        texts = as_texts(texts)
        y = inputs.positions(self.classes_, labels, len(texts))
        hits = fitting.predicted(self.decision_values(texts)) == y
        if not texts:
            raise ValueError("texts must hold at least one text. Got none instead.")
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.average(hits, weights=weights))

    # ---- explanations --------------------------------------------------------------------------

    def explain(self, text: str, label: Any = None) -> Explanation:
        """The decision taken apart by words and n-grams; for the likeliest class by default."""
        check_is_fitted(self)
        return explain(self, as_texts([text], "text")[0], label)

    def top_features(self, label: Any, n: int = 20) -> list[tuple[str, float]]:
        """The n-grams that speak most for a class (at most 200 are kept).

        With each, what one occurrence adds to the decision in a text of average length, through
        the n-gram itself and through the vector of the word.
        """
        check_is_fitted(self)
        check_count("n", n)
        position = inputs.position(self.classes_, label)
        known, values = self.named_features_
        two = values.shape[1] == 1
        weights = values[:, 0 if two else position] * (-1 if two and position == 0 else 1)
        order = np.argsort(-weights, kind="stable")[: min(n, _N_NAMED)]
        return [(known[i], float(weights[i])) for i in order if weights[i] > 0]

    def top_features_html(self, n: int = 20) -> str:
        """A page with the `top_features` of every class."""
        return features_page({str(c): self.top_features(c, n) for c in self.classes_.tolist()})

    # ---- files ---------------------------------------------------------------------------------

    kind = "TextClassifier"

    def state(self) -> State:
        """What `pacsent.save` writes: parameters, what `fit` learned, the vectorizer."""
        check_is_fitted(self)
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "words"}
        parts = {} if self.vectorizer_ is None else {"vectorizer": self.vectorizer_}
        arrays = classifier_state.to_arrays(self)
        return State({"parameters": parameters}, Tensors(arrays), parts)

    @classmethod
    def from_state(cls, state: State) -> "TextClassifier":
        """The inverse of `state`."""
        state.tensors.verify()
        vectorizer = state.parts.get("vectorizer")
        made = cls(vectorizer, **state.config["parameters"])
        made._validate_params()
        made.__dict__.update(classifier_state.from_arrays(state.tensors, vectorizer))
        if made.coef_dense_.size and vectorizer is None:
            raise ValueError("it has weights for sentence vectors and no vectorizer")
        return made

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


class _Rows(NamedTuple):
    """Texts to fit, and one number for each in every array."""

    texts: list[str]
    y: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None
    prints: np.ndarray  # fingerprints


def _batches(texts):
    rest = iter(texts)
    while batch := list(islice(rest, _BATCH)):
        yield as_texts(batch)


def _auto_sizes(texts) -> tuple[int, int]:
    n_letters = sum(map(len, texts))
    return (1, 3) if len(texts) >= _LONG[0] and n_letters >= _LONG[1] * len(texts) else (1, 2)
