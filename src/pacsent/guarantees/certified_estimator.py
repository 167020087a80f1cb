"""The base of CertifiedClassifier: parameters, the hold-out, fitting."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from pacsent.guarantees.any_estimator import name_of
from pacsent.guarantees.samples import is_texts, row_fingerprints, taken
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.text.near_duplicates import sketches


@dataclass(eq=False, repr=False)
class CertifiedEstimator(BaseEstimator, ABC):
    """Any estimator, with a guarantee from rows that are held out."""

    estimator: Any = None
    _: KW_ONLY
    holdout: float | str = "auto"
    delta: float = 0.05
    prefit: bool = False
    n_candidates: int = 1
    random_state: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        "estimator": "no_validation",
        "holdout": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "prefit": ["boolean"],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
    ) -> Self:
        """Hold out a part of the rows, fit the estimator on the rest, and certify it.

        Parameters
        ----------
        X : texts, or any array or table that the estimator takes
            Copies of a row, and texts that are near-duplicates, stay on one side and count once.
        y : one label, set of labels, or number for each row
        sample_weight : array, optional
            How much each row counts in fitting. The guarantee counts every row once.
        groups : array, one for each row, optional
            The book, the author, the day a text is from. Whole groups are held out and the
            guarantee is for new groups; where there are too few groups for this, it is not, and the
            certificate says so.
        """
        new = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        if new._is_fitted_already():
            if sample_weight is not None:
                raise ValueError(
                    "sample_weight must be None for an estimator that is fitted already."
                )
            new._calibrate(X, y, groups, "refuse")
        else:
            new._fit(X, y, sample_weight, groups)
        self.__dict__ = new.__dict__  # at the end: a refused fit changes nothing
        return self

    def calibrate(
        self, X: Any, y: Any, *, groups: Sequence | None = None, overlap: str = "refuse"
    ) -> Self:
        """Certify the fitted estimator by labelled texts that nothing was fitted on.

        They replace the calibration set. With a fitted estimator (`prefit`) or a function, no `fit`
        is needed before. `overlap` says what to do with texts that were fitted, where this is
        known: "refuse" them, or "drop" them. Near-duplicates of texts that were fitted are always
        left out, and the certificate names their number.
        """
        new = copy.copy(self)
        new._validate_params()
        new._calibrate(X, y, groups, overlap)
        self.__dict__ = new.__dict__
        return self

    def _is_fitted_already(self):
        model = self.estimator
        usable = model is None or hasattr(model, "predict") or callable(model)
        if isinstance(model, type) or not usable:
            raise TypeError(
                "estimator must have fit and predict, as in scikit-learn, or be a function from "
                f"rows to labels. Got {name_of(model)} instead. Add a classifier as its last step."
            )
        is_fit = model is None or hasattr(model, "fit")
        return self.prefit or isinstance(model, FrozenEstimator) or not is_fit

    def _unwrapped(self):
        """The estimator that is given, which must be fitted already."""
        if not self._is_fitted_already():
            check_is_fitted(self)
        model = self.estimator
        return model.estimator if isinstance(model, FrozenEstimator) else model

    def _record(self, rows):
        """Keep what recognises the rows that were fitted, and their near-duplicates."""
        self.training_fingerprints_ = np.unique(row_fingerprints(rows))
        self.training_sketches_ = sketches(rows) if is_texts(rows) else None

    def _certify_held_out(self, found, X, y, group_of):
        """`_take` the rows that a split held out."""
        noted: dict[str, Any] = {"provenance": "held out by fit", "holdout": found.share}
        if found.scope == "same groups":
            noted |= {"scope": found.scope, "n_groups": np.unique(group_of).size}
        held_out = found.held_out
        some = group_of[held_out] if found.scope == "groups" else None
        self._take(taken(X, held_out), y[held_out], some, noted)

    @abstractmethod
    def _fit(self, X, y, sample_weight, groups):
        """Fit the estimator, and certify what a split held out."""

    @abstractmethod
    def _take(self, X, y, group_of, noted):
        """Certify these rows, which were not fitted."""

    @abstractmethod
    def _calibrate(self, X, y, groups, overlap):
        """Certify the rows that `calibrate` was given."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags
