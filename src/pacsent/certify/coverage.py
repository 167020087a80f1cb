"""Texts of which a classifier knows too few words, such as those of another language."""

from typing import Any

import numpy as np

from pacsent.certify.samples import is_texts, n_samples, text_column

REASON = "too few of its words are known: another language, or another kind of text"


def are_covered(classifier: Any, X: Any) -> np.ndarray:
    """Whether the classifier knows enough words of each row, (n,).

    All rows are covered by a classifier that does not say which words it knows. The rule is fixed
    before calibration, and calibration texts are treated like new ones.
    """
    model = getattr(classifier, "estimator_", classifier)
    texts = text_column(X)
    if not hasattr(model, "are_covered") or not is_texts(texts):
        return np.ones(n_samples(X), bool)
    return model.are_covered(texts)
