"""Every method keeps scikit-learn's contract; scikit-learn's own checks skip text estimators."""

import copy
import functools
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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags

from pacsent import Vocabulary, WordVectors, load, make_encoder, save
from pacsent.sentences import EmptySentenceWarning
from pacsent.sentences.methods import METHODS
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer

pytestmark = pytest.mark.filterwarnings("ignore::pacsent.sentences.EmptySentenceWarning")
LABELS = [1, 0, 0, 1, 0, 0, 1, 0, 1, 1]


@pytest.fixture(params=METHODS)
def method(request):
    """The name of each method."""
    return request.param


def seeded(method, words):
    """The method with one thread and, if it draws numbers, a fixed seed."""
    vectorizer = make_encoder(method, words, n_jobs=1)
    if "random_state" in vectorizer.get_params():
        vectorizer.set_params(random_state=0)
    return vectorizer


@pytest.fixture
def vectorizer(method, toy_word_vectors):
    """Each method with the word vectors of three words."""
    return seeded(method, toy_word_vectors)


@pytest.fixture(scope="module")
def fitted_once(toy_word_vectors, tiny_corpus):
    """fitted_once(method): a method that was fitted to the tiny corpus."""

    def fit(method):
        return seeded(method, toy_word_vectors).fit(tiny_corpus)

    return functools.cache(fit)


@pytest.fixture
def fitted(method, fitted_once):
    """A copy of each method, fitted to the tiny corpus."""
    return copy.deepcopy(fitted_once(method))


def width(vectorizer):
    """Numbers of a vector: those of a row, or of two rows side by side."""
    return 4 if type(vectorizer).__name__ == "ConcatVectorizer" else 2


def test_it_is_an_estimator_with_the_parameters_it_was_made_with(method, vectorizer):
    parameters = vectorizer.get_params(deep=False)

    assert isinstance(vectorizer, SentenceVectorizer)
    assert isinstance(vectorizer, BaseEstimator)
    assert set(parameters) <= set(vectorizer._parameter_constraints)
    assert vectorizer.method_name == method


def test_its_repr_names_method_class_and_word_vectors(method, vectorizer):
    text = repr(vectorizer)

    assert text.startswith(f"{method}: {type(vectorizer).__name__}(")
    assert "WordVectors(n_words=4, n_dims=2)" in text
    assert len(text) < 700


def test_the_constructor_only_stores(vectorizer):
    odd = type(vectorizer)("no word vectors at all")

    assert odd.word_vectors == "no word vectors at all"


def test_its_tags_say_that_it_takes_texts(vectorizer):
    tags = get_tags(vectorizer).input_tags

    assert tags.string
    assert not tags.two_d_array


def test_a_clone_shares_the_word_table(fitted):
    twin = clone(fitted)

    assert twin.word_vectors is fitted.word_vectors
    assert twin.get_params() == fitted.get_params()


def test_a_clone_is_not_fitted(fitted):
    twin = clone(fitted)

    for function in (twin.transform, twin.posterior, twin.sample):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            function(["good film"])


def of_a_clone(vectorizer, texts):
    return clone(vectorizer).fit(texts).transform(texts)


def of_a_pickled_copy(vectorizer, texts):
    content = pickle.dumps(vectorizer)
    return pickle.loads(content).transform(texts)


def of_an_iterator(vectorizer, texts):
    return vectorizer.transform(iter(texts))


def of_lists_of_tokens(vectorizer, texts):
    tokens = vectorizer.word_vectors.vocabulary.tokens
    return vectorizer.transform([list(tokens(text)) for text in texts])


def of_encoded_texts(vectorizer, texts):
    encoded = vectorizer.word_vectors.vocabulary.encode(texts)
    return vectorizer.transform(encoded)


def of_an_array(vectorizer, texts):
    return vectorizer.transform(np.array(texts))


def test_the_same_vectors_come_again(fitted, tiny_corpus):
    first = fitted.transform(tiny_corpus)

    assert_array_equal(fitted.transform(tiny_corpus), first)
    assert_array_equal(of_a_clone(fitted, tiny_corpus), first)
    assert_array_equal(of_a_pickled_copy(fitted, tiny_corpus), first)


def test_every_form_of_the_texts_gives_the_same_vectors(fitted, tiny_corpus):
    first = fitted.transform(tiny_corpus)

    for way in (of_an_iterator, of_lists_of_tokens, of_encoded_texts, of_an_array):
        assert_allclose(way(fitted, tiny_corpus), first, atol=1e-6)


def test_fit_transform_gives_the_vectors_of_transform(fitted, tiny_corpus):
    first = fitted.transform(tiny_corpus)

    vectors = clone(fitted).fit_transform(iter(tiny_corpus), LABELS)

    assert_allclose(vectors, first, atol=1e-6)


def test_batches_and_threads_change_no_vector(fitted, tiny_corpus):
    first = fitted.transform(tiny_corpus)

    for setting in ({"batch_size": 3}, {"batch_size": 1, "n_jobs": 2}, {"n_jobs": 1}):
        fitted.set_params(**setting)
        assert_allclose(fitted.transform(tiny_corpus), first, atol=1e-5)


def test_it_leaves_its_input(vectorizer, tiny_corpus):
    texts = list(tiny_corpus)

    vectorizer.fit(texts).transform(texts)

    assert texts == tiny_corpus


def test_the_order_of_the_words_does_not_matter(fitted):
    first, second = fitted.transform(["good film quiet film nil", "nil film quiet film good"])

    assert_allclose(first, second, atol=1e-6)


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


def test_an_unknown_parameter_of_fit_is_refused(vectorizer, tiny_corpus):
    with pytest.raises(TypeError, match="sample_wieght"):
        vectorizer.fit_transform(tiny_corpus, sample_wieght=[1.0] * len(tiny_corpus))


def test_a_single_string_is_refused(fitted):
    message = r"Got the single string 'a quiet film' instead. Put it"
    for function in (fitted.fit, fitted.fit_transform, fitted.transform):
        with pytest.raises(ValueError, match=message):
            function("a quiet film")


def test_it_counts_empty_sentences_and_known_words(fitted):
    assert fitted.n_empty_ == 2
    assert fitted.n_sentences_ == 10
    assert_allclose(fitted.coverage_, 20 / 23)


def test_its_counts_are_those_of_the_last_texts(fitted):
    fitted.transform(["good", "zzz", ""])

    assert fitted.n_empty_ == 2
    assert fitted.n_sentences_ == 3
    assert_allclose(fitted.coverage_, 1 / 2)


def test_it_warns_of_empty_sentences_once(fitted, tiny_corpus):
    rows = r"2 of 10 \(row 4, 5, counted from 0\)"
    with pytest.warns(EmptySentenceWarning, match=rows) as caught:
        fitted.transform(tiny_corpus)
    assert len(caught) == 1


def test_it_stops_at_empty_sentences_if_asked(fitted, tiny_corpus):
    fitted.set_params(on_empty="error")

    message = r"OOV words only: 2 of 10 \(row 4, 5, counted from 0\)"
    with pytest.raises(ValueError, match=message):
        fitted.transform(tiny_corpus)


@pytest.mark.parametrize("method", ["PB-L2", "SIF"])
def test_it_works_in_a_pipeline(vectorizer, tiny_corpus):
    pipeline = make_pipeline(vectorizer, LogisticRegression())

    labels = pipeline.fit(tiny_corpus, LABELS).predict(tiny_corpus)

    assert len(labels) == 10


@pytest.mark.parametrize("method", ["PB-L2", "SIF"])
def test_a_grid_search_shares_its_word_table(vectorizer, tiny_corpus):
    pipeline = Pipeline([("vectors", vectorizer), ("classifier", LogisticRegression())])

    search = GridSearchCV(pipeline, {"vectors__lam": [1, 2]}, cv=2, error_score="raise")
    search.fit(tiny_corpus, LABELS)

    best = search.best_estimator_["vectors"]
    assert best.word_vectors is vectorizer.word_vectors


@pytest.mark.parametrize("method", ["PB-L2", "SIF"])
def test_it_works_in_a_column_transformer(vectorizer, tiny_corpus):
    table = pd.DataFrame({"text": tiny_corpus, "row": range(10)})
    shuffled = table.sample(frac=1, random_state=0)
    columns = [("vectors", vectorizer, "text")]
    transformer = ColumnTransformer(columns, remainder="passthrough")
    transformer.set_output(transform="pandas")

    frame = transformer.fit_transform(shuffled)

    assert list(frame["remainder__row"]) == list(shuffled["row"])
    pd.testing.assert_frame_equal(frame, transformer.transform(shuffled), atol=1e-6)


def test_it_gives_data_frames_with_the_index_of_the_texts(vectorizer, tiny_corpus):
    index = range(len(tiny_corpus) + 3, 3, -1)
    texts = pd.Series(tiny_corpus, index=index)
    vectorizer.set_output(transform="pandas")

    frame = vectorizer.fit_transform(texts)

    assert list(frame.index) == list(texts.index)
    pd.testing.assert_frame_equal(frame, vectorizer.transform(texts), atol=1e-6)


def test_it_names_the_columns_of_data_frames(vectorizer, tiny_corpus):
    prefix = type(vectorizer).__name__.lower()
    names = [f"{prefix}{number}" for number in range(width(vectorizer))]
    vectorizer.set_output(transform="pandas")

    frame = vectorizer.fit_transform(tiny_corpus)

    assert list(frame.columns) == names
    assert list(vectorizer.transform(tiny_corpus).columns) == names
    assert list(vectorizer.get_feature_names_out()) == names


WRONG_VALUES = [
    ("word_vectors", "words"),
    ("batch_size", 0),
    ("n_jobs", "many"),
    ("on_empty", "shout"),
    ("swap_roles", "yes"),
    ("lam", -1.0),
    ("lam", 0.0),
    ("lam_mode", "free"),
    ("prior_variance", 0.0),
    ("alpha", -0.5),
    ("weights", "heavy"),
    ("a", 0.0),
    ("learn_from", "books"),
]


def test_a_wrong_parameter_is_refused_by_its_name(vectorizer, tiny_corpus):
    known = vectorizer.get_params(deep=False)
    for name, value in WRONG_VALUES:
        if name not in known:
            continue
        wrong = clone(vectorizer).set_params(**{name: value})

        message = f"The '{name}' parameter of {type(vectorizer).__name__} must be"
        with pytest.raises(ValueError, match=message):
            wrong.fit(tiny_corpus)


def test_a_parameter_of_another_method_is_refused(vectorizer):
    known = vectorizer.get_params(deep=False)
    for name, value in WRONG_VALUES:
        if name in known:
            continue
        with pytest.raises(ValueError, match=f"Invalid parameter '{name}'"):
            vectorizer.set_params(**{name: value})


def test_posteriors_are_finite_but_for_empty_sentences(fitted, tiny_corpus):
    means, variances = fitted.posterior(tiny_corpus)

    is_empty = np.isnan(variances)
    assert means.shape == (10, width(fitted))
    assert means.dtype == np.float32
    assert np.isfinite(means).all()
    assert np.flatnonzero(is_empty).tolist() == [4, 5]
    assert_array_equal(means[is_empty], 0)
    assert (variances[~is_empty] >= 0).all()


def test_the_means_of_posteriors_are_the_vectors(fitted, tiny_corpus):
    means, _ = fitted.posterior(tiny_corpus)

    assert_array_equal(means, fitted.transform(tiny_corpus))


def test_no_texts_have_no_vectors(fitted):
    vectors = fitted.transform([])
    means, variances = fitted.posterior(iter([]))

    assert vectors.shape == (0, width(fitted))
    assert means.shape == (0, width(fitted))
    assert variances.shape == (0,)


def test_samples_have_the_moments_of_the_posterior(fitted):
    texts = ["good film", "quiet"]
    means, variances = fitted.posterior(texts)

    draws = fitted.sample(texts, 4000, random_state=0)

    error = 5 * np.sqrt(variances.max() / 4000)
    variances_of_draws = draws.var(axis=0, dtype=float).mean(axis=1)
    assert draws.shape == (4000, 2, width(fitted))
    assert_allclose(draws.mean(axis=0, dtype=float), means, atol=error + 1e-6)
    assert_allclose(variances_of_draws, variances, rtol=0.1, atol=1e-9)


def test_the_same_seed_gives_the_same_samples(fitted):
    draws = fitted.sample(["good film"], 10, random_state=0)

    assert_array_equal(draws, fitted.sample(["good film"], 10, random_state=0))


@pytest.fixture(scope="module")
def corpus():
    """Forty texts of six words."""
    rng = np.random.default_rng(0)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
    return [" ".join(rng.choice(names, 6)) for _ in range(40)]


@pytest.fixture(scope="module")
def two_tables():
    """Two sets of word vectors for the words of the corpus."""
    rng = np.random.default_rng(1)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
    vocabulary = Vocabulary(names, np.arange(200, 0, -10))
    first = rng.normal(0, 0.4, (2, 20, 6)).astype(np.float32)
    second = rng.normal(0, 0.4, (2, 20, 6)).astype(np.float32)
    return WordVectors(vocabulary, *first), WordVectors(vocabulary, *second)


@pytest.fixture(scope="module")
def words(two_tables):
    """Word vectors for the words of the corpus."""
    first, _ = two_tables
    return first


@pytest.fixture(scope="module")
def fitted_to_corpus_once(words, corpus):
    """fitted_to_corpus_once(method): a method that was fitted to the corpus."""

    def fit(method):
        return seeded(method, words).fit(corpus)

    return functools.cache(fit)


@pytest.fixture
def fitted_to_corpus(method, fitted_to_corpus_once):
    """A copy of each method, fitted to the corpus."""
    return copy.deepcopy(fitted_to_corpus_once(method))


def test_an_equal_copy_of_the_word_vectors_changes_nothing(fitted_to_corpus, words, corpus):
    vectors = fitted_to_corpus.transform(corpus)

    fitted_to_corpus.set_params(word_vectors=copy.deepcopy(words))

    assert_array_equal(fitted_to_corpus.transform(corpus), vectors)


def test_other_word_vectors_after_fit_are_refused_or_used_but_never_mixed(
    method, fitted_to_corpus, two_tables, corpus
):
    _, other = two_tables
    fresh = seeded(method, other).fit(corpus).transform(corpus)

    fitted_to_corpus.set_params(word_vectors=other)

    try:
        assert_array_equal(fitted_to_corpus.transform(corpus), fresh)
    except ValueError as error:
        assert "Got other word_vectors after fit instead. Call fit again." in str(error)
    assert_array_equal(fitted_to_corpus.fit(corpus).transform(corpus), fresh)


LEARN_NOTHING = {"Average", "PB-L2", "i-Average", "i-PB-L2", "concat"}


@pytest.mark.parametrize("method", [name for name in METHODS if name not in LEARN_NOTHING])
def test_word_vectors_of_another_vocabulary_are_refused_after_fit(fitted_to_corpus, tmp_path):
    names = [f"x{number}" for number in range(30)]
    vocabulary = Vocabulary(names, np.arange(30, 0, -1))
    table = np.ones((30, 6), dtype=np.float32)

    fitted_to_corpus.set_params(word_vectors=WordVectors(vocabulary, table, table))

    with pytest.raises(ValueError, match=r"Got other word_vectors.* Call fit again"):
        fitted_to_corpus.transform(["x29"])
    with pytest.raises(ValueError, match=r"Got other word_vectors.* Call fit again"):
        save(fitted_to_corpus, tmp_path / "model")


CHANGES = {
    "n_negatives": 3,
    "noise_power": 0.0,
    "lam": 4.0,
    "prior_variance": 0.3,
    "n_epochs": 2,
    "learning_rate": 0.01,
    "tol": 1e-6,
}
OWN_ROLES = [name for name in METHODS if not name.startswith("i-")]


@pytest.mark.parametrize("method", OWN_ROLES)
def test_parameters_set_after_use_are_those_of_a_fresh_estimator(method, words, corpus):
    known = make_encoder(method, words).get_params()
    for name in CHANGES.keys() & known.keys():
        used = seeded(method, words).fit(corpus)
        fresh = seeded(method, words).fit(corpus)
        used.transform(corpus)  # fills what is kept between calls

        used.set_params(**{name: CHANGES[name]})
        fresh.set_params(**{name: CHANGES[name]})

        assert_array_equal(used.transform(corpus), fresh.transform(corpus), err_msg=name)


@pytest.mark.parametrize("method", OWN_ROLES)
def test_threads_and_batches_set_after_use_change_nothing(fitted_to_corpus, corpus):
    vectors = fitted_to_corpus.transform(corpus)

    fitted_to_corpus.set_params(n_jobs=2, batch_size=7)

    assert_allclose(fitted_to_corpus.transform(corpus), vectors, rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def fitted_with_empty_texts_once(words, corpus):
    """A function of the method: fitted to the corpus and two texts without words."""

    def fit(method):
        return make_encoder(method, words, on_empty="ignore").fit([*corpus, "", "zz yy"])

    return functools.cache(fit)


@pytest.fixture
def fitted_with_empty_texts(method, fitted_with_empty_texts_once):
    """A copy of each method, fitted to the corpus and two texts without words."""
    return copy.deepcopy(fitted_with_empty_texts_once(method))


def test_it_survives_saving(fitted_with_empty_texts, corpus, tmp_path):
    vectorizer = fitted_with_empty_texts
    means, variances = vectorizer.posterior(corpus)
    parameters = vectorizer.get_params(deep=False)
    parameters.pop("word_vectors")

    opened = load(save(vectorizer, tmp_path / "model"))

    opened_means, opened_variances = opened.posterior(corpus)
    opened_parameters = opened.get_params(deep=False)
    assert type(opened) is type(vectorizer)
    assert parameters.items() <= opened_parameters.items()
    assert_array_equal(opened_means, means)
    assert_array_equal(opened_variances, variances)


def test_a_saved_file_keeps_the_counts_of_the_fit(fitted_with_empty_texts, corpus, tmp_path):
    opened = load(save(fitted_with_empty_texts, tmp_path / "model"))

    assert opened.n_empty_ == 2
    assert opened.n_sentences_ == len(corpus) + 2


def test_transform_changes_nothing_of_what_is_saved(fitted_with_empty_texts, corpus, tmp_path):
    vectorizer = fitted_with_empty_texts
    before = save(vectorizer, tmp_path / "before")

    vectorizer.transform(["", corpus[0]])

    after = save(vectorizer, tmp_path / "after")
    assert vectorizer.n_empty_ == 1
    for file in ("config.json", "model.safetensors"):
        assert (after / file).read_bytes() == (before / file).read_bytes()
