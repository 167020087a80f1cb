"""Every method keeps scikit-learn's contract; scikit-learn's own checks skip text estimators."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from pacsent import Vocabulary, WordVectors, load, make_encoder, save
from pacsent.sentences import EmptySentenceWarning
from pacsent.sentences.methods import METHODS
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer

pytestmark = pytest.mark.filterwarnings("ignore::pacsent.sentences.EmptySentenceWarning")
LABELS = [1, 0, 0, 1, 0, 0, 1, 0, 1, 1]


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


def seeded(method, words):
    made = make_encoder(method, words, n_jobs=1)
    return made.set_params(random_state=0) if "random_state" in made.get_params() else made


@pytest.fixture
def vectorizer(method, toy_word_vectors):
    return seeded(method, toy_word_vectors)


def width(vectorizer):
    """Numbers of a vector: those of a row, or of two rows side by side."""
    return 4 if type(vectorizer).__name__ == "ConcatVectorizer" else 2


def test_it_is_a_text_vectorizer_with_the_parameters_it_was_made_with(method, vectorizer):
    assert isinstance(vectorizer, SentenceVectorizer) and isinstance(vectorizer, BaseEstimator)
    parameters = vectorizer.get_params(deep=False)
    assert set(parameters) <= set(vectorizer._parameter_constraints)
    assert vectorizer.method_name == method
    assert repr(vectorizer).startswith(f"{method}: {type(vectorizer).__name__}(")
    assert "WordVectors(n_words=4, n_dims=2)" in repr(vectorizer) and len(repr(vectorizer)) < 700
    odd = type(vectorizer)("no word vectors at all")  # the constructor only stores
    assert odd.word_vectors == "no word vectors at all"
    tags = get_tags(vectorizer)
    assert tags.input_tags.string and not tags.input_tags.two_d_array


def test_a_clone_shares_the_word_table_and_is_not_fitted(vectorizer, tiny_corpus):
    vectorizer.fit(tiny_corpus)
    twin = clone(vectorizer)
    assert twin.word_vectors is vectorizer.word_vectors
    assert twin.get_params() == vectorizer.get_params()
    for call in (twin.transform, twin.posterior, twin.sample):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(["good film"])


SAME = [  # what must give the same vectors, and how nearly
    (0, lambda v, X: v.transform(X)),
    (0, lambda v, X: clone(v).fit(X).transform(X)),
    (0, lambda v, X: pickle.loads(pickle.dumps(v)).transform(X)),
    (1e-6, lambda v, X: v.transform(iter(X))),
    (1e-6, lambda v, X: v.transform([list(v.word_vectors.vocabulary.tokens(x)) for x in X])),
    (1e-6, lambda v, X: v.transform(v.word_vectors.vocabulary.encode(X))),
    (1e-6, lambda v, X: v.transform(np.array(X))),
    (1e-6, lambda v, X: clone(v).fit_transform(iter(X), LABELS)),
    (1e-5, lambda v, X: v.set_params(batch_size=3).transform(X)),
    (1e-5, lambda v, X: v.set_params(batch_size=1, n_jobs=2).transform(X)),
    (1e-5, lambda v, X: v.set_params(n_jobs=1).transform(X)),
]


def test_every_way_to_the_vectors_gives_the_same_and_leaves_its_input(vectorizer, tiny_corpus):
    before = list(tiny_corpus)
    first = vectorizer.fit(tiny_corpus).transform(tiny_corpus)
    for atol, way in SAME:
        assert_allclose(way(vectorizer, tiny_corpus), first, rtol=1e-7 if atol else 0, atol=atol)
    assert tiny_corpus == before
    a, b = vectorizer.transform(["film good quiet film nil", "nil film quiet film good"])
    assert_allclose(a, b, atol=1e-6)  # in any order of the words


@pytest.mark.parametrize("method", ["PB-neg", "w-PB-neg", "PV-DBOW", "PB-01"])
def test_a_fit_that_fails_leaves_the_method_as_it_was(vectorizer, tiny_corpus):
    before = vectorizer.fit(tiny_corpus).transform(tiny_corpus)

    with pytest.raises(ValueError, match="X must have words that the vectors know"):
        vectorizer.fit(["zzz"])

    assert vectorizer.state().tensors["fit_report"][0] == len(tiny_corpus)
    assert_array_equal(vectorizer.transform(tiny_corpus), before)


@pytest.mark.parametrize("method", ["PB-neg", "w-PB-neg", "PV-DBOW", "PB-01"])
def test_a_first_fit_that_fails_leaves_the_method_unfitted(vectorizer):
    with pytest.raises(ValueError, match="X must have words that the vectors know"):
        vectorizer.fit(["zzz"])

    with pytest.raises(NotFittedError, match="not fitted yet"):
        vectorizer.transform(["good film"])


def test_word_posteriors_do_not_change_the_method(toy_word_vectors, tiny_corpus):
    vectorizer = seeded("w-PB-neg", toy_word_vectors)
    encoded = toy_word_vectors.vocabulary.encode(tiny_corpus)

    vectorizer.word_posteriors(encoded, np.ones(toy_word_vectors.n_words), 1.0)

    assert not vectorizer.is_fitted
    assert not hasattr(vectorizer, "noise_counts_")


def test_unknown_parameters_and_single_strings_are_refused(vectorizer, tiny_corpus):
    with pytest.raises(TypeError, match="sample_wieght"):
        vectorizer.fit_transform(tiny_corpus, sample_wieght=[1.0] * len(tiny_corpus))
    message = r"Got the single string 'a quiet film' instead. Put it"
    for call in (vectorizer.fit, vectorizer.fit_transform, vectorizer.fit(tiny_corpus).transform):
        with pytest.raises(ValueError, match=message):
            call("a quiet film")


def test_it_counts_empty_sentences_and_warns_once_or_stops_if_asked(vectorizer, tiny_corpus):
    vectorizer.fit(tiny_corpus)
    assert (vectorizer.n_empty_, vectorizer.n_sentences_) == (2, 10)
    assert_allclose(vectorizer.coverage_, 20 / 23)
    vectorizer.transform(["good", "zzz", ""])
    assert (vectorizer.n_empty_, vectorizer.n_sentences_) == (2, 3)
    assert_allclose(vectorizer.coverage_, 1 / 2)
    rows = r"\(row 4, 5, counted from 0\)"
    with pytest.warns(EmptySentenceWarning, match=rf"2 of 10 {rows}") as caught:
        vectorizer.transform(tiny_corpus)
    assert len(caught) == 1
    vectorizer.set_params(on_empty="error")
    with pytest.raises(ValueError, match=rf"OOV words only: 2 of 10 {rows}"):
        vectorizer.transform(tiny_corpus)


@pytest.mark.parametrize("method", ["PB-L2", "SIF"])
def test_it_works_in_pipelines_searches_and_column_transformers(vectorizer, tiny_corpus):
    pipeline = make_pipeline(vectorizer, LogisticRegression())
    assert len(pipeline.fit(tiny_corpus, LABELS).predict(tiny_corpus)) == 10
    [(step, _), *_] = pipeline.steps
    name = "lam" if "lam" in vectorizer.get_params() else "batch_size"
    search = GridSearchCV(pipeline, {f"{step}__{name}": [1, 2]}, cv=2, error_score="raise")
    search.fit(tiny_corpus, LABELS)
    assert search.best_estimator_[0].word_vectors is vectorizer.word_vectors
    table = pd.DataFrame({"text": tiny_corpus, "row": range(10)}).sample(frac=1, random_state=0)
    columns = [("vectors", vectorizer, "text")]
    both = ColumnTransformer(columns, remainder="passthrough").set_output(transform="pandas")
    frame = both.fit_transform(table)
    assert list(frame["remainder__row"]) == list(table["row"])
    pd.testing.assert_frame_equal(frame, both.transform(table), atol=1e-6)


def test_it_gives_data_frames_with_named_columns_and_their_index(vectorizer, tiny_corpus):
    texts = pd.Series(tiny_corpus, index=range(len(tiny_corpus) + 3, 3, -1))
    names = [f"{type(vectorizer).__name__.lower()}{i}" for i in range(width(vectorizer))]
    frame = vectorizer.set_output(transform="pandas").fit_transform(texts)
    assert list(frame.index) == list(texts.index)
    assert list(vectorizer.transform(tiny_corpus).columns) == list(frame.columns) == names
    assert list(vectorizer.get_feature_names_out()) == names
    pd.testing.assert_frame_equal(frame, vectorizer.transform(texts), atol=1e-6)


WRONG = {
    "word_vectors": "words",
    "batch_size": 0,
    "n_jobs": "many",
    "on_empty": "shout",
    "swap_roles": "yes",
    "lam": -1.0,
    "lam_mode": "free",
    "prior_variance": 0.0,
    "alpha": -0.5,
    "weights": "heavy",
    "a": 0.0,
    "learn_from": "books",
}


def test_a_wrong_parameter_is_refused_by_its_name(vectorizer, tiny_corpus):
    for name, value in (*WRONG.items(), ("lam", 0.0)):
        if name not in vectorizer.get_params(deep=False):
            with pytest.raises(ValueError, match=f"Invalid parameter '{name}'"):
                vectorizer.set_params(**{name: value})
            continue
        wrong = clone(vectorizer).set_params(**{name: value})
        expected = f"The '{name}' parameter of {type(vectorizer).__name__} must be"
        with pytest.raises(ValueError, match=expected):
            wrong.fit(tiny_corpus)


def test_posteriors_are_finite_but_for_empty_sentences_and_samples_have_their_moments(
    vectorizer, tiny_corpus
):
    n_dims = width(vectorizer)
    means, variances = vectorizer.fit(tiny_corpus).posterior(tiny_corpus)
    assert means.shape == (10, n_dims) and means.dtype == np.float32
    assert np.isfinite(means).all()
    assert_array_equal(np.flatnonzero(np.isnan(variances)), [4, 5])
    assert_array_equal(means[[4, 5]], 0)
    assert (variances[np.isfinite(variances)] >= 0).all()
    assert_array_equal(means, vectorizer.transform(tiny_corpus))
    for array in (vectorizer.transform([]), vectorizer.posterior(iter([]))[0]):
        assert array.shape == (0, n_dims)
    assert vectorizer.posterior(iter([]))[1].shape == (0,)
    texts = ["good film", "quiet"]
    means, variances = vectorizer.posterior(texts)
    draws = vectorizer.sample(texts, 4000, random_state=0)
    assert draws.shape == (4000, 2, n_dims)
    error = 5 * np.sqrt(variances.max() / 4000)
    assert_allclose(draws.mean(axis=0, dtype=float), means, atol=error + 1e-6)
    assert_allclose(draws.var(axis=0, dtype=float).mean(axis=1), variances, rtol=0.1, atol=1e-9)
    assert_array_equal(draws, vectorizer.sample(texts, 4000, random_state=0))


def _two_tables(rng):
    words = [f"w{chr(97 + i)}" for i in range(20)]
    vocabulary = Vocabulary(words, np.arange(200, 0, -10))
    X = [" ".join(rng.choice(words, 6)) for _ in range(40)]
    pairs = [rng.normal(0, 0.4, (2, 20, 6)).astype(np.float32) for _ in range(2)]
    return X, [WordVectors(vocabulary, *pair) for pair in pairs]


@pytest.mark.parametrize("method", METHODS)
def test_other_word_vectors_after_fit_are_refused_or_used_but_never_mixed(method, rng, tmp_path):
    X, (old, new) = _two_tables(rng)
    vectorizer = seeded(method, old).fit(X)
    expected = vectorizer.transform(X)
    vectorizer.set_params(word_vectors=copy.deepcopy(old))  # equal ones change nothing
    assert_array_equal(vectorizer.transform(X), expected)
    vectorizer.set_params(word_vectors=new)
    fresh = seeded(method, new).fit(X).transform(X)
    try:
        assert_array_equal(vectorizer.transform(X), fresh)
    except ValueError as error:
        assert "Got other word_vectors after fit instead. Call fit again." in str(error)
    assert_array_equal(vectorizer.fit(X).transform(X), fresh)
    other = Vocabulary([f"x{i}" for i in range(30)], np.arange(30, 0, -1))
    table = np.ones((30, 6), dtype=np.float32)
    vectorizer.set_params(word_vectors=WordVectors(other, table, table))
    uses = lambda: vectorizer.transform([["x29"]]), lambda: save(vectorizer, tmp_path / "model")
    for use in uses if method not in LEARN_NOTHING else ():
        with pytest.raises(ValueError, match=r"Got other word_vectors.* Call fit again"):
            use()


LEARN_NOTHING = {"Average", "PB-L2", "i-Average", "i-PB-L2", "concat"}


@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("i-")])
def test_parameters_set_after_use_are_those_of_a_fresh_estimator(method, rng):
    X, (words, _) = _two_tables(rng)
    known = make_encoder(method, words).get_params()
    changes = {"n_negatives": 3, "noise_power": 0.0, "lam": 4.0, "prior_variance": 0.3}
    changes |= {"n_epochs": 2, "learning_rate": 0.01, "tol": 1e-6}
    for name in changes.keys() & known.keys():
        used, fresh = (seeded(method, words).fit(X) for _ in range(2))
        used.transform(X)  # fills what is kept between calls
        used.set_params(**{name: changes[name]})
        fresh.set_params(**{name: changes[name]})
        assert_array_equal(used.transform(X), fresh.transform(X), err_msg=name)
    again = seeded(method, words).fit(X)
    before = again.transform(X)
    again.set_params(n_jobs=2, batch_size=7)
    assert np.abs(again.transform(X) - before).max() < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_it_survives_saving_and_transform_changes_nothing_of_it(method, rng, tmp_path):
    X, (words, _) = _two_tables(rng)
    vectorizer = make_encoder(method, words, on_empty="ignore").fit([*X, "", "zz yy"])
    expected = vectorizer.posterior(X)
    save(vectorizer, tmp_path / "before")
    vectorizer.transform(["", X[0]])
    assert vectorizer.n_empty_ == 1
    save(vectorizer, tmp_path / "after")
    for file in ("config.json", "model.safetensors"):
        before, after = ((tmp_path / name / file).read_bytes() for name in ("before", "after"))
        assert before == after, file
    again = load(tmp_path / "after")
    assert type(again) is type(vectorizer)
    assert (again.n_empty_, again.n_sentences_) == (2, len(X) + 2)
    for key, value in vectorizer.get_params(deep=False).items():
        assert key == "word_vectors" or getattr(again, key) == value
    for array, expected_array in zip(again.posterior(X), expected):
        assert_array_equal(array, expected_array)
