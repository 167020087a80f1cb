"""The steps of `CertifiedClassifier.fit`: which rows count, which are held out, what is fitted."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from pacsent.certify import independence, judges, samples
from pacsent.certify.columns import check_length, materialize, sample_weights
from pacsent.certify.labels import Labels, as_labels
from pacsent.certify.near_duplicates import sketches
from pacsent.predict.fitted import FittedModel
from pacsent.text.rows import describe_empty, rows_with_text, select_values
from pacsent.text.texts import as_texts

_FRACTION_WITH_JUDGE = 0.8  # held out where a machine's labels are there to fit on


class GivenRows(NamedTuple):
    """Rows that were given to `fit`, without empty texts; labels are not parsed yet."""

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    n_labelled: int  # rows after these were labelled by a machine
    empty: str  # what a certificate says about the empty texts

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, groups: Any, *, only_texts: bool) -> Self:
        """Read rows, and leave out empty texts with all that belongs to them."""
        X = samples.as_samples(X, only_texts=only_texts)
        y = materialize(y)
        n_given = samples.n_samples(X)

        with_text = rows_with_text(X)
        if with_text is not None:
            check_length(y, n_given, "y")
            X = samples.select_rows(X, with_text)
            y = select_values(y, with_text)
            groups = select_values(groups, with_text)
            sample_weight = select_values(sample_weight, with_text)

        return cls(
            X=X,
            y=y,
            sample_weight=sample_weight,
            groups=groups,
            n_labelled=samples.n_samples(X),
            empty=describe_empty(n_given, with_text),
        )

    def with_judge(self, judge: tuple[Sequence[str], Any]) -> Self:
        """These rows, and after them texts with the labels of a machine, which may be a model."""
        is_pair = isinstance(judge, tuple | list) and len(judge) == 2
        has_texts = is_pair and judge[0] is not None and samples.is_texts(self.X)
        if not has_texts or self.groups is not None:
            raise ValueError(
                "judge must be (texts, labels), or (texts, model), beside texts with one label "
                "each, without groups."
            )

        texts, labels = judge
        texts = as_texts(texts, "judge[0]")
        if judges.is_machine(labels):
            labels = judges.machine_labels(labels, texts, self.X)
        labels = as_labels(labels, len(texts))

        with_text = rows_with_text(texts)
        texts = select_values(texts, with_text)
        labels = select_values(labels, with_text)
        own_labels = as_labels(self.y, len(self.X), "y")
        return self._replace(X=[*self.X, *texts], y=[*own_labels, *labels])


def split_rows(
    X: Any,
    labels: Labels,
    clusters: np.ndarray,
    *,
    calibration_size: float | str,
    random_state: Any,
    repeats: str | None,
    n_labelled: int,
    has_judge: bool,
) -> independence.Split:
    """Hold out a part of the rows, and leave rows to fit on that can be learnt from."""
    size = calibration_size
    if has_judge and size == "auto":
        have_repeats = np.unique(clusters).size < len(labels)
        is_divided = repeats is None and have_repeats
        size = 0.5 if is_divided else _FRACTION_WITH_JUDGE

    split = independence.hold_out(
        clusters,
        size,
        random_state,
        labels.groups,
        repeats=repeats,
        n_labelled=n_labelled,
        cluster_rows=independence.cluster_rows_of(X),
    )
    training_rows = labels.training_rows(split.training_rows, calibration_size, clusters)
    return split._replace(training_rows=training_rows)


def fit_estimator(
    estimator: Any, X: Any, labels: Labels, rows: np.ndarray, weights: np.ndarray | None
) -> FittedModel:
    """A clone of the estimator, fitted on some of the rows, and the record of these."""
    options = {}
    if weights is not None:
        options["sample_weight"] = weights[rows]
    if labels.groups is not None and has_fit_parameter(estimator, "groups"):
        options["groups"] = labels.groups[rows]

    training_X = samples.select_rows(X, rows)
    as_given = getattr(estimator, "only_texts", False)
    targets = labels.targets(rows, as_given=as_given)
    fitted = clone(estimator).fit(training_X, targets, **options)

    fingerprints = samples.row_fingerprints(training_X)
    texts = samples.text_column(training_X)
    return FittedModel(
        estimator_=fitted,
        classes_=labels.classes,
        fitted_classes_=labels.estimator_classes(fitted, rows),
        target_type_=labels.target_type,
        training_fingerprints_=np.unique(fingerprints),
        training_sketches_=sketches(texts) if samples.is_texts(texts) else None,
    )


def weights_of(
    estimator: Any, sample_weight: ArrayLike | None, n_labelled: int, n_rows: int
) -> np.ndarray | None:
    """The weight of each row, (n_rows,); those that a machine labelled weigh 1."""
    if sample_weight is None:
        return None
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"sample_weight must be None for an estimator whose fit does not take it. "
            f"{samples.name_of(estimator)} does not. Leave it out, or set class_weight "
            "there."
        )
    weights = sample_weights(sample_weight, n_labelled)
    weights_of_others = np.ones(n_rows - n_labelled)
    return np.append(weights, weights_of_others)
