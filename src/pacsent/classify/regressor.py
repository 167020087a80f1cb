"""TextRegressor: a number for each text, from its n-grams and its sentence vector."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import classifier_state, fitting, inputs
from pacsent.classify.linear_text import LinearText
from pacsent.maths.checks import check_count
from pacsent.parameter_checks import fit_context
from pacsent.text.near_duplicates import text_units
from pacsent.text.texts import as_texts
from pacsent.threads import n_threads

# benchmarks/targets.py constants
_CS = (0.3, 1.0, 3.0, 10.0, 30.0)
_SCALES = (0.2, 0.5, 1.0, 2.0)
_AVERAGED = 4  # candidates that are averaged


@dataclass(eq=False, repr=False, kw_only=True)
class TextRegressor(RegressorMixin, LinearText):
    """Predict a number for each text by its n-grams and by its sentence vector, together.

    Ridge regression on the tf-idf of n-grams together with sentence vectors. All candidates are
    solved together on folds of the training texts; those with the least squared error are
    averaged. `pacsent.guarantees.CertifiedRegressor` gives its predictions intervals.

    Parameters
    ----------
    words, method, ngrams : as of TextClassifier
    Cs, dense_scales : tuples of float
        Candidates: inverse of the penalty, for numbers scaled to variance 1, and scale of the
        vectors relative to the n-grams.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.
    random_state : int, default=0
        Decides the folds.

    Attributes
    ----------
    selection_ : dict
        What was chosen, and R2 on training texts that were left out.

    Examples
    --------
    >>> from pacsent.classify import TextRegressor
    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 5
    >>> regressor = TextRegressor().fit(texts, [9.0, 10.0, 2.0, 1.0] * 5)
    >>> high, low = regressor.predict(["good", "bad"])
    >>> bool(high > low)
    True
    """

    Cs: Sequence[float] = _CS
    dense_scales: Sequence[float] = _SCALES

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Iterable[str],
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
    ) -> "TextRegressor":
        """Learn from texts with numbers.

        Parameters
        ----------
        X : iterable of str
        y : array of finite numbers, one for each text
        sample_weight : array, optional
            How much each text counts.
        groups : array, optional
            Texts of a group are left out together in cross-validation.
        """
        return self._fit_anew(X, y, sample_weight, groups)

    def _fit(self, texts, y, sample_weight, groups):
        candidates = self._candidates(("tf-idf",))
        numbers = inputs.as_numbers(y, len(texts), "y")
        if np.unique(numbers).size < 2:
            raise ValueError("y must hold at least two different numbers. Got fewer instead.")
        weights = inputs.sample_weights(sample_weight, len(texts))
        group_of = inputs.as_groups(groups, len(texts))
        features = self._features(texts)
        linear = fit_numbers(
            features, numbers, weights, candidates, n_threads(self.n_jobs),
            (self.random_state, group_of, text_units(texts)),
        )  # fmt: skip
        self._keep(features, linear)

    def predict(self, X: Iterable[str]) -> np.ndarray:
        """The number of each text, (n,)."""
        return self.decision_values(X)[:, 0]

    def score(
        self, X: Iterable[str], y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """R2, the share of the variance that is predicted."""
        texts = as_texts(X)
        numbers = inputs.as_numbers(y, len(texts), "y")
        from sklearn.metrics import r2_score  # a second to import

        return float(r2_score(numbers, self.predict(texts), sample_weight=sample_weight))

    def top_features(self, n: int = 20, *, lower: bool = False) -> list[tuple[str, float]]:
        """The n-grams that raise the number most (or lower it), and by how much (at most 200)."""
        check_is_fitted(self)
        check_count("n", n)
        sign = -1 if lower else 1
        return [(name, sign * value) for name, value in self._strongest(0, sign, n)]

    kind = "TextRegressor"

    def _arrays(self):
        return classifier_state.linear_arrays(self)

    @staticmethod
    def _attributes(tensors, vectorizer):
        described = classifier_state.read_description(tensors)
        return classifier_state.linear_attributes(tensors, described, vectorizer, 1)


def fit_numbers(
    features: Any,
    numbers: np.ndarray,
    weights: np.ndarray,
    candidates: fitting.Candidates,
    n_threads: int,
    how: tuple,
) -> fitting.Linear:
    """The mean of the candidates with the least squared error on texts left out, on their scale.

    `how` is (seed, groups or None, units of texts that repeat each other).
    """
    seed, groups, copies = how
    centre = float(np.average(numbers, weights=weights))
    scale = float(np.sqrt(np.average((numbers - centre) ** 2, weights=weights))) or 1.0
    rows = fitting.Labelled(features.X, features.E, (numbers - centre) / scale, 0, weights)
    part, folds, _ = fitting.selected(rows, np.zeros(numbers.size, np.int64), seed, groups, copies)
    pairs = candidates.pairs(part.E.shape[1] > 0)
    held_out = folds.held_out()
    tested = np.concatenate(held_out)
    values = fitting.decisions_left_out(part, pairs, "tf-idf", held_out, n_threads)[:, 0]
    y, w = part.labels[tested], part.weights[tested]
    errors = np.average((values - y[:, None]) ** 2, axis=0, weights=w)
    shares = np.zeros(len(pairs))
    shares[np.argsort(errors, kind="stable")[:_AVERAGED]] = 1.0
    shares /= shares.sum()
    table = [{"weighting": "tf-idf", "C": float(C), "dense_scale": float(d), "error": float(e)}
             for (C, d), e in zip(pairs, errors)]  # fmt: skip
    model = fitting.fit_mixture(rows, table, shares, n_threads)
    mean = values @ shares
    left = np.average((mean - y) ** 2, weights=w) / max(np.average(y**2, weights=w), 1e-30)
    report = table[int(errors.argmin())] | {
        "selection": "folds", "n_candidates": len(table), "n_tested": int(y.size),
        "r2": float(1.0 - left), "candidates": table,
    }  # fmt: skip
    return fitting.Linear(
        model.sparse * np.float32(scale),
        model.dense * np.float32(scale),
        model.intercept * scale + centre,
        1.0,
        report,
    )
