"""Features of the rows of the table: vectors of the training and of the test texts."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from pacsent.arrays import unit_rows
from pacsent.paper.method_rows import Row
from pacsent.text.encoded import Encoded
from pacsent.text.normalize import tokenise_paper


@dataclass
class Features:
    """Vectors of the training and test texts, and what they cost."""

    train: np.ndarray
    test: np.ndarray
    fit_seconds: float
    encode_seconds: float
    vectorizer: object = None
    normalized: bool = False  # unit length by construction: nothing to choose


@dataclass
class Texts:
    """One dataset, tokenised once: what the extractors of features read."""

    words: Any
    train_texts: list[str]
    test_texts: list[str]
    train: Encoded | None = None
    test: Encoded | None = None
    n_jobs: int | None = None


def from_estimator(vectorizer: Any, train: Any, test: Any) -> Features:
    """Features of both parts by a vectorizer fitted on the first, and the seconds of each step."""
    started = time.perf_counter()
    vectorizer.fit(train)
    fitted = time.perf_counter()

    X_train = vectorizer.transform(train)
    X_test = vectorizer.transform(test)
    if sparse.issparse(X_train):
        X_train = X_train.tocsr().astype(np.float32)
        X_test = X_test.tocsr().astype(np.float32)
    finished = time.perf_counter()

    return Features(
        train=X_train,
        test=X_test,
        fit_seconds=fitted - started,
        encode_seconds=finished - fitted,
        vectorizer=vectorizer,
    )


def unit_length(F: Any) -> Any:
    """Features whose rows have length 1, dense or sparse; rows of zeros stay as they are."""
    return normalize(F) if sparse.issparse(F) else unit_rows(F)


def features(row: Row, source: Texts, lam: float | None = None, seed: int = 0) -> Features:
    """The vectors of one row, at one lam where it has several."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from pacsent.paper.printed.vectorizers import PRINTED, make_printed
    from pacsent.sentences.methods import make_encoder

    if row.method == "tf-idf":
        vectorizer = TfidfVectorizer(
            analyzer=tokenise_paper, sublinear_tf=True, min_df=2, dtype=np.float32
        )
        extracted = from_estimator(vectorizer, source.train_texts, source.test_texts)
        return replace(extracted, normalized=True)

    params = dict(row.params)
    if lam is not None:
        params["lam"] = lam
    make = make_printed if row.method in PRINTED else make_encoder
    method = make(row.method, source.words, **params)

    # Not every method has all of these parameters.
    settings = {"on_empty": "ignore", "n_jobs": source.n_jobs, "random_state": seed}
    parameter_names = method.get_params(deep=False)
    supported = {name: value for name, value in settings.items() if name in parameter_names}
    method.set_params(**supported)
    return from_estimator(method, source.train, source.test)
