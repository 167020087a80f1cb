"""CertifiedRegressor: intervals around the numbers that any regressor predicts."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import inputs
from pacsent.classify.regressor import TextRegressor
from pacsent.guarantees import intervals
from pacsent.guarantees.any_estimator import fitted, samples_for
from pacsent.guarantees.certified_estimator import CertifiedEstimator
from pacsent.guarantees.error_bounds import unseen_rows
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.samples import as_samples, n_samples, taken
from pacsent.guarantees.splitting import as_seed, counted_rows, split, units_of
from pacsent.storage import State, Tensors, checked_tensor

_SMALLEST = 0.25  # of the median error left out: a scale is at least this
_N_FOLDS = 5


@dataclass(eq=False, repr=False, kw_only=True)
class CertifiedRegressor(RegressorMixin, CertifiedEstimator):
    """Any regressor, with intervals that miss at most a stated share of new numbers.

    A part of the rows is held out at random, the regressor is fitted on the rest, and its errors on
    the held-out part say how wide intervals must be. Each guarantee holds by itself with
    probability 1 - delta.

    Parameters
    ----------
    estimator : regressor or None, default=None
        Anything with `fit` and `predict` as in scikit-learn. None takes `TextRegressor("english")`.
    holdout : float or "auto", default="auto"
        Share to hold out.
    delta : float, default=0.05
    scaled : bool, default=False
        Whether intervals are wider where a second regressor, fitted on the absolute errors of
        training rows that were left out, expects a larger error.
    limits : (float, float) or None, default=None
        The smallest and the largest number there can be. Predictions and intervals stay within
        them, and `certificate_` bounds the mean absolute error.
    prefit : bool, default=False
        Whether the estimator is fitted already, on other rows than those given here.
    n_candidates : int, default=1
        Number of regressors, settings or seeds of which this one is kept by its guarantee.
    random_state : int or None, default=None
        Decides what is held out. None draws a seed.

    Attributes
    ----------
    estimator_ : the fitted regressor
    scores_ : array
        Sorted errors of the held-out rows, over their scales with `scaled`.
    certificate_ : AbsoluteErrorCertificate or None
    seed_ : int

    Examples
    --------
    >>> from pacsent.guarantees import CertifiedRegressor
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> certified = CertifiedRegressor(Ridge(), limits=(-9, 9), random_state=0).fit(X, X.sum(1))
    >>> low, high = certified.predict_interval(np.ones((1, 3)), error=0.1)[0]
    >>> bool(low < 3 < high), certified.certificate_.bound < 1
    (True, True)
    """

    scaled: bool = False
    limits: tuple[float, float] | None = None

    _parameter_constraints: ClassVar[dict] = {
        **CertifiedEstimator._parameter_constraints,
        "scaled": ["boolean"],
        "limits": [tuple, list, None],
    }

    def _fit(self, X, y, sample_weight, groups):
        if self.limits is not None:
            intervals.checked_limits(self.limits)
        estimator = TextRegressor("english") if self.estimator is None else self.estimator
        X = as_samples(X, only_texts=isinstance(estimator, TextRegressor))
        n = n_samples(X)
        numbers = inputs.as_numbers(y, n, "y")
        weights = None if sample_weight is None else inputs.sample_weights(sample_weight, n)
        group_of, units = inputs.as_groups(groups, n), units_of(X)
        part = split(units, self.holdout, self.random_state, group_of)
        rest = part.rest
        if rest.size < _N_FOLDS:
            raise ValueError(
                f"X must hold at least {_N_FOLDS} rows to fit. Got {rest.size} that are not "
                "held out instead. Add rows, or hold out less."
            )
        self.seed_, self.spread_, rows = part.seed, None, taken(X, rest)
        how = [None if each is None else each[rest] for each in (weights, group_of)]
        self.estimator_ = fitted(estimator, rows, numbers[rest], *how)
        self._record(rows)
        if self.scaled:
            self._fit_spread(estimator, rows, numbers[rest], part.units[rest])
        self._certify_held_out(part, X, numbers, group_of)

    def _calibrate(self, X, y, groups, overlap):
        if not hasattr(self, "estimator_"):
            self.estimator_ = self._unwrapped()
            if self.scaled:
                raise ValueError(
                    "scaled must be False with prefit: nothing is fitted. Leave it out."
                )
            self.spread_ = None
        X = samples_for(self, X)
        numbers, group_of = (
            inputs.as_numbers(y, n_samples(X), "y"),
            inputs.as_groups(groups, n_samples(X)),
        )
        kept, note = unseen_rows(self, X, overlap)
        self.seed_ = as_seed(getattr(self, "seed_", self.random_state))
        some = None if group_of is None else group_of[kept]
        self._take(taken(X, kept), numbers[kept], some, {"provenance": note})

    def _fit_spread(self, estimator, X, y, units):
        """A regressor of absolute errors, from rows left out by folds."""
        errors = np.empty(y.size)
        n_folds = min(_N_FOLDS, np.unique(units).size)
        for rest, left_out in GroupKFold(n_folds).split(y, groups=units):
            model = fitted(estimator, taken(X, rest), y[rest], None, None)
            errors[left_out] = np.abs(y[left_out] - np.ravel(model.predict(taken(X, left_out))))
        self.smallest_scale_ = max(_SMALLEST * float(np.median(errors)), 1e-12)
        self.spread_ = fitted(estimator, X, errors, None, None)

    def _take(self, X, y, group_of, noted):
        predictions, units = self._predictions(X), units_of(X)
        rows, counted = counted_rows(y.size, units, group_of, self.seed_)
        self.scope_ = noted.get("scope", counted["scope"])
        self.scores_ = np.sort((np.abs(y - predictions) / self._scales(X))[rows])
        self.certificate_ = None
        if self.limits is not None:
            noted["digests"] = digests(self, X, y, predictions)
            self.certificate_ = intervals.certify_numbers(
                y, predictions, limits=self.limits, units=units, group_of=group_of,
                delta=self.delta, n_candidates=self.n_candidates, seed=self.seed_, noted=noted,
            )  # fmt: skip

    def _predictions(self, X):
        model = self.estimator_
        found = model.predict(X) if hasattr(model, "predict") else model(X)
        found = np.ravel(np.asarray(found, np.float64))
        if found.size != n_samples(X) or not np.isfinite(found).all():
            raise ValueError("The estimator must predict one finite number for each row.")
        return found if self.limits is None else np.clip(found, *self.limits)

    def _scales(self, X):
        if self.spread_ is None:
            return np.ones(n_samples(X))
        return np.maximum(np.ravel(self.spread_.predict(X)), self.smallest_scale_)

    def _rows(self, X):
        check_is_fitted(self)
        return samples_for(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The estimator's numbers, within the limits, (n,)."""
        return self._predictions(self._rows(X))

    def predict_interval(
        self, X: Any, *, error: float = 0.1, delta: float | None = None
    ) -> np.ndarray:
        """Lower and upper ends, (n, 2): they miss at most `error` of new numbers.

        This holds with probability 1 - delta over the calibration rows, for rows from the same
        distribution.
        """
        X = self._rows(X)
        delta = (self.delta if delta is None else delta) / self.n_candidates
        width = intervals.half_width(self.scores_, error, delta)
        ends = self._predictions(X)[:, None] + width * self._scales(X)[:, None] * np.array([-1, 1])
        return ends if self.limits is None else np.clip(ends, *self.limits)

    # ---- files ---------------------------------------------------------------------------------

    kind = "CertifiedRegressor"

    def state(self) -> State:
        """What `pacsent.save` writes; the estimator must be one of pacsent."""
        check_is_fitted(self)
        if not hasattr(self.estimator_, "state"):
            raise ValueError(
                "save needs an estimator of pacsent. Got "
                f"{type(self.estimator_).__name__} instead. Use joblib for this one."
            )
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "estimator"}
        parts = {"estimator": self.estimator_}
        described = {"seed": self.seed_, "scope": self.scope_}
        if self.spread_ is not None:
            parts["spread"] = self.spread_
            described["smallest_scale"] = self.smallest_scale_
        if self.certificate_ is not None:
            described["certificate"] = self.certificate_.to_dict()
        config = {"parameters": parameters, "learned": described}
        return State(config, Tensors({"scores": self.scores_}), parts)

    @classmethod
    def from_state(cls, state: State) -> "CertifiedRegressor":
        """The inverse of `state`. The certificate must follow from its numbers."""
        state.tensors.verify()
        estimator = state.parts["estimator"]
        made = cls(estimator, **state.config["parameters"])
        made._validate_params()
        learned = state.config["learned"]
        made.estimator_, made.spread_ = estimator, state.parts.get("spread")
        for name in ("training_fingerprints_", "training_sketches_"):
            setattr(made, name, getattr(estimator, name))
        made.scores_ = checked_tensor(state.tensors, "scores", np.float64, (None,), low=0)
        made.seed_, made.scope_, made.certificate_ = int(learned["seed"]), learned["scope"], None
        if made.spread_ is not None:
            made.smallest_scale_ = float(learned["smallest_scale"])
        if "certificate" in learned:
            read = intervals.AbsoluteErrorCertificate.from_dict(learned["certificate"])
            read.verify()
            made.certificate_ = read
        return made
