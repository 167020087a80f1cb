"""TextClassifier: n-grams and sentence vectors in one linear model, for any number of labels."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import fitting, promises, sets
from pacsent.classify.explain import Explanation, explain, worth
from pacsent.classify.ngrams import NGrams, fingerprints, names
from pacsent.encoders import SentenceVectorizer, make
from pacsent.maths.temperature import log_probabilities
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.threads import in_order, n_threads
from pacsent.words import WordVectors
from pacsent.words.storing import load_words

_BATCH = 2048  # texts worked on at once
_N_NAMED = 200  # features of each class whose names are kept
_MANY = 5_000  # texts from which an n-gram must occur in two of them
_LONG = (5_000, 600)  # texts, and letters in a text, from where runs of three words pay


class TextClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by their n-grams and by their sentence vectors, together.

    One linear model: tf-idf of n-grams, as they are and weighted by naive Bayes' log-ratios, beside
    sentence vectors. All candidates are solved side by side on folds of the training labels, and
    the best are averaged; with few labels a Gaussian process, its scales averaged with the evidence
    as weights, counts as much as these. Probabilities are calibrated on texts the model had not
    seen.

    Parameters
    ----------
    words : WordVectors, vectorizer, path or None, default=None
        Vectors for the dense part (or the folder they are in), or any vectorizer of pacsent.
        None: n-grams only.
    method : str, default="Average"
        Which of `METHODS` makes sentence vectors from word vectors.
    ngrams : (int, int) or "auto", default="auto"
        Smallest and largest number of words in a row that make a feature. "auto" takes up to two,
        and up to three where there are at least 5,000 texts of 600 letters or more on average.
    weighting : {"auto", "tf-idf", "naive-bayes", "both"}, default="auto"
        How n-grams are weighted where labels are many; "auto" tries all.
    selection : {"auto", "evidence", "folds", "bound"}, default="auto"
        How scales are chosen: by the evidence of a Gaussian process, by accuracy on folds, or on a
        fifth of the labels held out, with what the choice costs in the certificate that comes out
        (`certificate_`). "auto" takes folds where labels are many, the mean of evidence and folds
        where they are few, evidence alone below 80.
    Cs, dense_scales : tuples of float
        Candidates: weight of the labels, and scale of the vectors beside n-grams of scale 1.
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
    certificate_ : ErrorCertificate
        After `fit(..., holdout=0.2)` or with selection="bound".

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 3
    >>> classifier = TextClassifier().fit(texts, ["yes", "yes", "no", "no"] * 3)
    >>> classifier.predict(["good", "bad"])
    array(['yes', 'no'], dtype='<U3')
    """

    _parameter_constraints: ClassVar[dict] = {
        "words": [WordVectors, SentenceVectorizer, str, Path, None],
        "method": [str],
        "ngrams": [tuple, list, StrOptions({"auto"})],
        "weighting": [StrOptions({"auto", *fitting.WEIGHTINGS})],
        "selection": [StrOptions({"auto", "evidence", "folds", "bound"})],
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
        texts: Iterable[str],
        labels: Sequence,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Sequence | None = None,
        holdout: float | None = None,
        delta: float = 0.05,
        seed: int | None = None,
    ) -> "TextClassifier":
        """Learn from labelled texts.

        Parameters
        ----------
        texts : iterable of str
        labels : array of str or int, one for each text
        sample_weight : array, optional
            How much each text counts.
        groups : array, one for each text, optional
            The book, the author, the day a text is from, where new texts will be of other groups:
            texts of a group are left out together when the classifier judges how to learn. What
            `holdout` keeps back is drawn from all groups, so promises are not about other groups.
        holdout : float or None, default=None
            The share of texts kept back, drawn at random. Nothing is fitted or chosen on them: the
            certificate, label sets and abstaining come from them.
        delta : float, default=0.05
            Chance that the certificate from the part held back is wrong.
        seed : int or None, default=None
            Decides which texts are kept back. None draws it from the system, and records it.
        """
        texts = checked_texts(texts)
        classes, y = _checked_labels(texts, labels)
        weights = self._weights(sample_weight, classes, y)
        group_of = _checked_groups(texts, groups, self.selection)
        for name in ("certificate_", "calibration_", "holdout_seed_"):
            self.__dict__.pop(name, None)
        if self.selection == "bound":
            holdout = 1 / fitting.N_FOLDS if holdout is None else holdout
        kept, rest = np.arange(0), np.arange(len(texts))
        if holdout is not None:
            kept, rest, self.holdout_seed_ = promises.split(len(texts), holdout, seed)
            _check_left(classes, y, rest)
        self.classes_ = classes
        chosen_on = kept if self.selection == "bound" else kept[:0]
        used = np.concatenate([rest, chosen_on])
        fitted, judged = [texts[i] for i in rest], [texts[i] for i in chosen_on]
        group_of = None if group_of is None else group_of[used]
        self._fit_rows(fitted, judged, delta, y[used], weights[used], group_of)
        self.training_fingerprints_ = np.unique(fingerprints([texts[i] for i in used]))
        if holdout is not None and self.selection != "bound":
            held_out = [texts[i] for i in kept]
            in_training = np.isin(fingerprints(held_out), self.training_fingerprints_)
            self.calibration_ = sets.Calibration(self.predict_log_proba(held_out), y[kept])
            n_errors = int(self.calibration_.wrong.sum())
            self.certificate_ = promises.from_held_back(
                kept.size, n_errors, delta, in_training, grouped=groups is not None
            )
        return self

    def _fit_rows(self, texts, judged, delta, y, weights, groups=None):
        """Fit `texts`; `judged` are only chosen on. y and weights are of both, in this order."""
        threads = n_threads(self.n_jobs)
        self.ngrams_ = NGrams.of(
            texts,
            _checked_sizes(self.ngrams, texts),
            min_texts=2 if len(texts) >= _MANY else 1,
            n_threads=threads,
        )
        if len(self.ngrams_) == 0:
            raise ValueError(
                "texts must hold words. Got no word in any of them instead. Check which column "
                "holds the text."
            )
        X, lengths = self.ngrams_.tf_idf_and_lengths(texts + judged, threads)
        self.vectorizer_ = self._make_vectorizer(texts)
        E = self._dense(texts + judged)
        mean = E[: len(texts)].mean(axis=0, dtype=np.float64)
        E = E - mean.astype(np.float32)
        squares = (E[: len(texts)].astype(np.float64) ** 2).sum(axis=1)
        size = np.sqrt(max(float(squares.mean()), 1e-30))
        E = np.ascontiguousarray(E * np.float32(1.0 / size))
        rows = fitting.Labelled(X, E, y, self.classes_.size, weights)
        linear = self._solve(rows, np.arange(len(texts), y.size), threads, delta, groups)
        self.coef_ngrams_ = np.ascontiguousarray(linear.sparse, np.float32)
        self.coef_dense_ = np.ascontiguousarray(linear.dense / size, np.float32)
        self.intercept_ = linear.intercept - mean @ self.coef_dense_.astype(np.float64)
        self.temperature_ = linear.temperature
        self.selection_ = {**linear.report, "n_texts": len(texts)}
        self.confidence_quantiles_ = np.asarray(self.selection_.pop("confidences"))
        n_words = float(np.mean([len(text.split()) for text in texts]))
        values = worth(self, float(lengths[: len(texts)].mean()), n_words, mean)
        self.named_features_ = self._named(texts, values)

    def _solve(self, rows, judged, threads, delta, groups):
        weightings = fitting.WEIGHTINGS if self.weighting == "auto" else (self.weighting,)
        candidates = fitting.Candidates(tuple(self.Cs), tuple(self.dense_scales), weightings)
        few = fitting.is_few(rows.labels.size, rows.n_classes)
        if self.selection == "bound":
            linear, self.certificate_ = promises.fit_by_bound(
                rows, judged, candidates, threads, delta
            )
            return linear
        if self.selection == "folds" or not (few or self.selection == "evidence"):
            return fitting.fit_by_folds(rows, candidates, threads, self.random_state, groups)
        folds = fitting.folds_for(rows.labels, np.random.default_rng(self.random_state), groups)
        grouped = groups is not None
        if self.selection == "evidence" or rows.labels.size < fitting.FEWEST:
            return fitting.fit_by_evidence(rows, threads, folds if grouped else None)
        return fitting.fit_by_both(rows, candidates, threads, folds, grouped)

    def _make_vectorizer(self, texts):
        words = self.words
        if isinstance(words, (str, Path)):
            words = load_words(words)
        if words is None:
            return None
        if isinstance(words, WordVectors):
            vectorizer = make(self.method, words, on_empty="ignore", n_jobs=self.n_jobs)
        else:
            vectorizer = clone(words).set_params(on_empty="ignore")
        return vectorizer.fit(texts)

    def _weights(self, sample_weight, classes, y):
        weights = np.ones(y.size) if sample_weight is None else np.asarray(sample_weight, float)
        if weights.shape != y.shape or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                f"sample_weight must be one number of at least 0 for each of the {y.size:,} texts. "
                f"Got an array of shape {weights.shape} instead."
            )
        if self.class_weight is not None:
            of_class = compute_class_weight(self.class_weight, classes=classes, y=classes[y])
            weights = weights * of_class[y]
        return weights

    def _named(self, texts, values):
        """The features that speak most for each class: their names, and what they are worth."""
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

    def _decisions(self, texts: Iterable[str]) -> np.ndarray:
        """Decision values, (n, n_columns)."""
        pieces = list(self.stream(texts))
        n_columns = self.intercept_.size
        return np.concatenate(pieces) if pieces else np.zeros((0, n_columns))

    def stream(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        """Decision values in batches, in constant memory; texts may be a generator."""
        check_is_fitted(self)
        _refuse_one_text(texts)

        def work(batch):
            values = self.ngrams_.scores(batch, self.coef_ngrams_)
            return values + self._dense(batch) @ self.coef_dense_ + self.intercept_

        return in_order(work, _batches(texts), self.n_jobs)

    def decision_function(self, texts: Iterable[str]) -> np.ndarray:
        """Log-odds of the second of two classes, (n,); one value for each of many, (n, k)."""
        values = self._decisions(texts)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """The likeliest class of each text."""
        check_is_fitted(self)
        return self.classes_[fitting.predicted(self._decisions(texts))]

    def predict_log_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        check_is_fitted(self)
        return log_probabilities(self._decisions(texts), self.temperature_)

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Probabilities of all classes, (n_texts, n_classes), calibrated on texts not learnt."""
        return np.exp(self.predict_log_proba(texts))

    def score(
        self, texts: Iterable[str], labels: Sequence, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of right answers; a label that training never saw is refused."""
        texts = checked_texts(texts)
        check_is_fitted(self)
        self._known(texts, labels)
        return super().score(texts, labels, sample_weight)

    def _known(self, texts, labels) -> np.ndarray:
        """Labels as positions in `classes_`."""
        labels = _as_labels(texts, labels)
        place = np.searchsorted(self.classes_, labels)
        place = np.minimum(place, self.classes_.size - 1)
        unknown = self.classes_[place] != labels
        if unknown.any():
            raise ValueError(
                f"labels must be among the classes of training ({_few(self.classes_)}). Got "
                f"{_few(np.unique(labels[unknown]))} instead. Leave those texts out, or fit again "
                "with them."
            )
        return place

    def _position(self, label) -> int:
        """Where one class is in `classes_`."""
        found = np.flatnonzero(self.classes_ == label)
        if found.size == 0:
            raise ValueError(
                f"label must be one of the classes ({_few(self.classes_)}). Got {label!s} instead."
            )
        return int(found[0])

    # ---- promises ------------------------------------------------------------------------------

    def certify(
        self, texts: Iterable[str], labels: Sequence, **settings: Any
    ) -> promises.ErrorCertificate:
        """How often this classifier is wrong on texts like these: `pacsent.classify.certify`."""
        return promises.certify(self, texts, labels, **settings)

    def calibrate(
        self, texts: Iterable[str], labels: Sequence, *, overlap: str = "refuse"
    ) -> "TextClassifier":
        """Keep labelled texts that nothing was fitted on, for `predict_set` and `abstain`."""
        texts, y, _ = promises.fresh(self, texts, labels, overlap)
        self.calibration_ = sets.Calibration(self.predict_log_proba(texts), y)
        return self

    def _need_calibration(self) -> sets.Calibration:
        check_is_fitted(self)
        if not hasattr(self, "calibration_"):
            raise ValueError(
                "This needs labelled texts that nothing was fitted on, and the classifier kept "
                "none. Fit with holdout=0.2, or give some: calibrate(texts, labels)."
            )
        return self.calibration_

    def predict_set(
        self,
        texts: Iterable[str],
        *,
        error: float = 0.05,
        delta: float = 0.05,
        per_class: bool = False,
    ) -> list[list]:
        """For each text the classes that cannot be ruled out.

        With probability 1 - delta over the calibration texts, the sets of this fitted classifier
        miss the right class for at most `error` of new texts; for every class by itself with
        `per_class`. A set can be empty.
        """
        thresholds = self.set_thresholds(error=error, delta=delta, per_class=per_class)
        return [self.classes_[row].tolist() for row in self.predict_log_proba(texts) >= thresholds]

    def set_thresholds(
        self, *, error: float = 0.05, delta: float = 0.05, per_class: bool = False
    ) -> np.ndarray:
        """Log-probability from which on each class is in the sets of `predict_set`."""
        return sets.set_thresholds(self._need_calibration(), error, delta, per_class)

    def abstain(self, *, error: float = 0.05, delta: float = 0.05) -> sets.Abstaining:
        """Answer only where at most `error` of the answers are wrong, with confidence 1 - delta."""
        return sets.abstain(self, self._need_calibration(), error, delta)

    # ---- why -----------------------------------------------------------------------------------

    def explain(self, text: str, label: Any = None) -> Explanation:
        """The decision taken apart by words and n-grams; for the likeliest class by default."""
        check_is_fitted(self)
        return explain(self, checked_texts([text])[0], label)

    def top_features(self, label: Any, n: int = 20) -> list[tuple[str, float]]:
        """The n-grams that speak most for a class (at most 200 are kept).

        With each, what one occurrence adds to the decision in a text of middling length, through
        the n-gram itself and through the vector of the word.
        """
        check_is_fitted(self)
        position = self._position(label)
        known, values = self.named_features_
        two = values.shape[1] == 1
        weights = values[:, 0 if two else position] * (-1 if two and position == 0 else 1)
        order = np.argsort(-weights, kind="stable")[: min(n, _N_NAMED)]
        return [(known[i], float(weights[i])) for i in order if weights[i] > 0]

    # ---- files ---------------------------------------------------------------------------------

    def _state(self) -> dict[str, np.ndarray]:
        """What `fit` learned, as arrays."""
        known, values = self.named_features_
        described: dict[str, Any] = {
            "classes": self.classes_.tolist(),
            "selection": self.selection_,
            "names": known,
            "holdout_seed": getattr(self, "holdout_seed_", None),
            "temperature": self.temperature_,
            "sizes": list(self.ngrams_.sizes),
        }
        state = {
            "hashes": self.ngrams_.hashes,
            "idf": self.ngrams_.idf,
            "coef_ngrams": self.coef_ngrams_,
            "coef_dense": self.coef_dense_,
            "intercept": self.intercept_,
            "fingerprints": self.training_fingerprints_,
            "confidence_quantiles": self.confidence_quantiles_,
            "named": values,
        }
        if hasattr(self, "calibration_"):
            state["calibration.log_proba"] = self.calibration_.log_proba
            state["calibration.labels"] = self.calibration_.labels
        if hasattr(self, "certificate_"):
            described["certificate"] = self.certificate_.to_dict()
        text = json.dumps(described, ensure_ascii=False).encode()
        return {**state, "description": np.frombuffer(text, np.uint8)}

    def _restore(self, state: dict[str, np.ndarray], vectorizer=None) -> None:
        """The inverse of `_state`; the vectorizer is saved beside it."""
        described = json.loads(np.asarray(state["description"]).tobytes())
        self.classes_ = np.array(described["classes"])
        self.selection_ = described["selection"]
        self.temperature_ = described["temperature"]
        self.ngrams_ = NGrams(tuple(described["sizes"]), state["hashes"], state["idf"])
        self.coef_ngrams_ = np.asarray(state["coef_ngrams"])
        self.coef_dense_ = np.asarray(state["coef_dense"])
        self.intercept_ = np.asarray(state["intercept"])
        self.training_fingerprints_ = np.asarray(state["fingerprints"])
        self.confidence_quantiles_ = np.asarray(state["confidence_quantiles"])
        self.named_features_ = described["names"], np.asarray(state["named"])
        self.vectorizer_ = vectorizer
        if described["holdout_seed"] is not None:
            self.holdout_seed_ = described["holdout_seed"]
        if "calibration.labels" in state:
            self.calibration_ = sets.Calibration(
                np.asarray(state["calibration.log_proba"]), np.asarray(state["calibration.labels"])
            )
        if "certificate" in described:
            self.certificate_ = promises.ErrorCertificate(**described["certificate"])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


# ------------------------------------------------------------------------------------------------
# what comes in
# ------------------------------------------------------------------------------------------------


def _refuse_one_text(texts):
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            "texts must be a list of strings. Got one string instead. Put it in a list."
        )


def _batches(texts):
    rest = iter(texts)
    while batch := list(islice(rest, _BATCH)):
        yield checked_texts(batch)


def checked_texts(texts: Iterable[str]) -> list[str]:
    """A list of strings, or one clear line."""
    _refuse_one_text(texts)
    texts = list(texts)
    for i, one in enumerate(texts):
        if not isinstance(one, str):
            raise ValueError(
                f"texts must be strings. Got {type(one).__name__} in row {i:,} instead. Drop it, "
                "or turn it into text."
            )
    return texts


def _as_labels(texts, labels, what="labels") -> np.ndarray:
    labels = labels if hasattr(labels, "__len__") else list(labels)
    if isinstance(labels, (list, tuple)) and any(isinstance(label, str) for label in labels):
        labels = np.array([*labels, None], object)[:-1]  # as they are: numbers stay numbers
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size != len(texts):
        raise ValueError(
            f"{what} must be one for each of the {len(texts):,} texts. Got an array of shape "
            f"{labels.shape} instead."
        )
    if labels.dtype == object:
        missing = np.array([_is_missing(one) for one in labels], bool)
    else:
        missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.size, bool)
    if np.any(missing):
        raise ValueError(
            f"{what} must all be known. Got {int(np.sum(missing)):,} missing ones (NaN or None; "
            f"first: row {int(np.argmax(missing))}) instead. Leave those texts out."
        )
    if labels.dtype == object:
        labels = _of_one_kind(labels.tolist(), what)
    return labels


def _is_missing(one) -> bool:
    """None, NaN, and pandas' NA, which is equal to nothing and says so by an error."""
    try:
        return one is None or bool(one != one)
    except (TypeError, ValueError):
        return True


def _of_one_kind(labels: list, what: str) -> np.ndarray:
    """Labels as an array; numbers beside strings are refused, for they would become strings."""
    if len({isinstance(label, str) for label in labels}) > 1:
        number = next(label for label in labels if not isinstance(label, str))
        raise ValueError(
            f"{what} must be all strings or all numbers. Got both instead (strings, and "
            f"{type(number).__name__} {number!r}). Turn them into strings: [str(y) for y in "
            f"{what}]"
        )
    return np.array(labels)


def _checked_groups(texts, groups, selection) -> np.ndarray | None:
    if groups is None:
        return None
    groups = _as_labels(texts, groups, "groups")
    if selection == "bound":
        raise ValueError(
            "groups cannot be used with selection='bound': the bound is about texts of the same "
            "groups. Leave groups out, or choose another selection."
        )
    return np.unique(groups, return_inverse=True)[1]


def _checked_labels(texts, labels):
    labels = _as_labels(texts, labels)
    if not texts:
        raise ValueError("texts must hold at least two texts of each class. Got none instead.")
    classes, y = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        raise ValueError(
            f"labels must hold at least two classes. Got only {_few(classes)} instead. Add texts "
            "of another class."
        )
    rare = classes[np.bincount(y) < 2]
    if rare.size:
        raise ValueError(
            f"Every class must have at least two texts. Got one of {_few(rare)} instead. Add "
            "texts, or leave the class out."
        )
    return classes, y


def _check_left(classes, y, rest):
    left = np.bincount(y[rest], minlength=classes.size)
    if (left < 2).any():
        raise ValueError(
            "holdout must leave at least two texts of every class to fit. Class "
            f"{_few(classes[left < 2])} has fewer left. Hold out less, or add texts."
        )


def _checked_sizes(sizes, texts) -> tuple[int, int]:
    if isinstance(sizes, str):
        n_bytes = sum(map(len, texts))
        return (1, 3) if len(texts) >= _LONG[0] and n_bytes >= _LONG[1] * len(texts) else (1, 2)
    try:
        low, high = (int(size) for size in sizes)
    except (TypeError, ValueError):
        low = high = 0
    if not 1 <= low <= high <= 8:
        raise ValueError(
            "ngrams must be the smallest and the largest number of words, between 1 and 8. Got "
            f"{sizes!r} instead. (1, 2) takes single words and pairs."
        )
    return low, high


def _few(values) -> str:
    shown = ", ".join(map(str, list(values[:5])))
    return f"{shown}, ..." if len(values) > 5 else shown
