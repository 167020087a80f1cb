"""Label sets from all labels, none held out: cross-conformal sets, with a weaker guarantee.

CV+ and, with as many folds as texts, jackknife+ (Barber, Candès, Ramdas and Tibshirani 2021):
Theorem 19 of docs/theory.md.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import TextClassifier, inputs
from pacsent.guarantees import any_estimator
from pacsent.guarantees.samples import as_samples, n_samples, row_fingerprints, taken
from pacsent.maths.checks import check_count, check_probability

_NEVER = -1e9  # log-probability of a class that a fold did not know


class CrossLabelSets(BaseEstimator):
    """Sets of classes from any classifier, every label used both to fit and to calibrate.

    The estimator is fitted once for each fold, on the other folds. A class is in the set of a text
    unless the text looks stranger with it than all but a share `error` of the training texts do,
    each judged by the models that were not fitted on it.

    The guarantee is weaker than that of `CertifiedClassifier.predict_set`: it is marginal (on
    average over training sets and texts, not for this fitted object) and the proof allows about
    twice `error` (`miss_bound`); in practice sets miss about `error`.

    Parameters
    ----------
    estimator : classifier with probabilities or decision values, or None
        None takes `TextClassifier("english")`.
    n_folds : int, default=10
        Number of fits. As many as there are texts: jackknife+.
    random_state : int, default=0
        Decides the folds.

    Examples
    --------
    >>> texts = [f"a {word} film, number {n}" for n in range(30) for word in ("good", "bad")]
    >>> sets = CrossLabelSets(TextClassifier(), n_folds=5).fit(texts, ["up", "down"] * 30)
    >>> sets.predict_set(["a good film"], error=0.1)
    [['up']]
    >>> round(sets.miss_bound(0.1), 3)
    0.311
    """

    def __init__(self, estimator: Any = None, *, n_folds: int = 10, random_state: int = 0):
        self.estimator = estimator
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: Any, y: Sequence) -> "CrossLabelSets":
        """Fit the estimator without each of the folds; copies of a text are in one fold."""
        n_folds = check_count("n_folds", self.n_folds)
        estimator = TextClassifier("english") if self.estimator is None else self.estimator
        X = as_samples(X, only_texts=isinstance(estimator, TextClassifier))
        rows: Any = range(n_samples(X))
        classes, at = inputs.encoded_labels(y, rows)
        _, text_of = np.unique(row_fingerprints(X), return_inverse=True)
        n_texts = int(text_of.max()) + 1
        if not 2 <= n_folds <= n_texts:
            raise ValueError(
                f"n_folds must be 2 to {n_texts:,}, the number of different texts. Got {n_folds} "
                "instead."
            )
        fold_of = np.random.default_rng(self.random_state).permutation(n_texts) % n_folds
        self.classes_, self.n_, self.n_folds_ = classes, int(at.size), n_folds
        self.models_, self.scores_ = [], []
        for fold in range(n_folds):
            inside = fold_of[text_of] == fold
            rest, left_out = np.flatnonzero(~inside), np.flatnonzero(inside)
            if np.unique(at[rest]).size < 2:
                raise ValueError("Every fold must leave two classes to fit. Use fewer folds.")
            model = any_estimator.fitted(estimator, taken(X, rest), classes[at[rest]], None, None)
            scores = self._log_proba(model, taken(X, left_out))
            self.models_.append(model)
            self.scores_.append(np.sort(scores[np.arange(left_out.size), at[left_out]]))
        return self

    def predict_set(self, X: Any, *, error: float = 0.1) -> list[list]:
        """For each row the classes that are not among the strangest: see `miss_bound`."""
        check_is_fitted(self)
        check_probability("error", error)
        X = any_estimator.samples_for(self.models_[0], X)
        counts = np.zeros((n_samples(X), self.classes_.size), int)
        for model, scores in zip(self.models_, self.scores_):
            counts += np.searchsorted(scores, self._log_proba(model, X), side="right")
        inside = counts + 1 > error * (self.n_ + 1)
        return [self.classes_[row].tolist() for row in inside]

    def miss_bound(self, error: float) -> float:
        """How often sets made with `error` miss the right class at most, on average.

        2 error for jackknife+, somewhat more for fewer folds.
        """
        check_is_fitted(self)
        check_probability("error", error)
        n, k = self.n_, self.n_folds_
        return min(1.0, 2.0 * error if k == n else 2.0 * (error * (n + 1) + k - 1) / (n + k))

    def _log_proba(self, model, X):
        """Log-probabilities in the columns of all classes, (n, n_classes)."""
        found = any_estimator.answers(model, model.classes_, X).log_proba
        if found is None:
            raise ValueError(
                "Label sets need probabilities or decision values. "
                f"{any_estimator.name_of(model)} gives labels alone. Give another estimator."
            )
        columns = np.full((n_samples(X), self.classes_.size), _NEVER)
        columns[:, np.searchsorted(self.classes_, model.classes_)] = found
        return columns
