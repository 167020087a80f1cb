"""TextClassifier: fitting, predicting, options, and what is refused."""

import datetime
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from pacsent import CertifiedClassifier, TextClassifier, make_encoder
from pacsent.classify import fitting
from pacsent.text.ngrams import NGrams
from review_data import BAD, GOOD, OTHER, draw_reviews

# ---- Learning ----


@pytest.mark.parametrize(("selection", "n_classes"), [("loss", 2), ("folds", 3)])
def test_it_learns_by_every_selection(words, selection, n_classes):
    texts, labels = draw_reviews(400, n_classes=n_classes)
    new_texts, new_labels = draw_reviews(300, seed=1, n_classes=n_classes)

    classifier = TextClassifier(words, selection=selection).fit(texts, labels)

    proba = classifier.predict_proba(new_texts)
    likeliest = classifier.classes_[proba.argmax(axis=1)]
    assert classifier.score(new_texts, new_labels) > 0.9
    assert proba.shape == (300, n_classes)
    assert np.allclose(proba.sum(axis=1), 1)
    assert np.array_equal(likeliest, classifier.predict(new_texts))


def test_few_labels_lean_on_the_vectors_and_many_speak_for_themselves(words):
    texts, labels = draw_reviews(16, seed=3)
    new_texts, new_labels = draw_reviews(500, seed=4)

    with_words = TextClassifier(words).fit(texts, labels)
    without = TextClassifier(None).fit(texts, labels)

    score_with_words = with_words.score(new_texts, new_labels)
    score_without = without.score(new_texts, new_labels)
    assert score_with_words > score_without + 0.05


@pytest.mark.parametrize(("selection", "n"), [("folds", 1000), ("loss", 200)])
def test_probabilities_are_calibrated_on_texts_it_has_not_seen(words, selection, n):
    texts, labels = draw_reviews(n)
    new_texts, new_labels = draw_reviews(1500, seed=5)

    classifier = TextClassifier(words, selection=selection).fit(texts, labels)

    confidence = classifier.predict_proba(new_texts).max(axis=1)
    accuracy = classifier.score(new_texts, new_labels)
    assert confidence.mean() == pytest.approx(accuracy, abs=0.04)


@pytest.fixture(scope="module")
def by_folds(words):
    """A classifier of 1,200 texts, fitted on one thread."""
    texts, labels = draw_reviews(1200)
    return TextClassifier(words, selection="folds", n_jobs=1).fit(texts, labels)


def test_the_model_does_not_depend_on_threads(words, by_folds):
    texts, labels = draw_reviews(1200)

    on_two_threads = TextClassifier(words, selection="folds", n_jobs=2).fit(texts, labels)

    assert np.array_equal(by_folds.coef_ngrams_, on_two_threads.coef_ngrams_)


def test_texts_have_the_same_decision_values_in_any_batch(by_folds):
    texts, _ = draw_reviews(1200)

    together = by_folds.decision_function(texts)

    one_by_one = [by_folds.decision_function([text]) for text in texts[:20]]
    streamed = np.concatenate(list(by_folds.stream(text for text in texts)))
    assert np.allclose(np.concatenate(one_by_one), together[:20], atol=1e-5)
    assert np.allclose(streamed[:, 0], together)


def test_it_can_be_cloned(words):
    copy = clone(TextClassifier(words, ngrams=(1, 1)))

    assert copy.ngrams == (1, 1)


def test_it_can_be_cross_validated():
    scores = cross_val_score(TextClassifier(None), *draw_reviews(90), cv=2)

    assert scores.mean() > 0.6


def test_its_parameters_can_be_searched(words):
    texts, labels = draw_reviews(60)
    candidates = {"ngrams": [(1, 1), (1, 2)]}

    search = GridSearchCV(TextClassifier(words), candidates, cv=2).fit(texts, labels)

    assert search.best_score_ > 0.7


def test_it_can_be_a_step_of_a_pipeline():
    texts, labels = draw_reviews(60)

    pipeline = make_pipeline(TextClassifier(None)).fit(texts, labels)

    assert pipeline.predict(texts[:2]).shape == (2,)


@pytest.mark.parametrize("selection", ["loss", "folds"])
def test_texts_of_little_weight_count_little(words, selection):
    texts, labels = draw_reviews(120)
    wrong = np.where(labels == "good", "bad", "good")
    mostly_wrong = [*labels[:40], *wrong[40:]]
    weights = np.where(np.arange(120) < 40, 1.0, 1e-6)

    weighted = TextClassifier(words, selection=selection)
    weighted.fit(texts, mostly_wrong, sample_weight=weights)
    unweighted = TextClassifier(words, selection=selection).fit(texts, mostly_wrong)

    assert weighted.score(texts, labels) > 0.8
    assert unweighted.score(texts, labels) < 0.5


def test_a_class_of_large_weight_is_predicted_more_often(words):
    texts, labels = draw_reviews(120)
    class_weight = {"good": 50.0, "bad": 0.01}

    weighted = TextClassifier(words, class_weight=class_weight).fit(texts, labels)
    unweighted = TextClassifier(words).fit(texts, labels)

    n_weighted = (weighted.predict(texts) == "good").sum()
    n_unweighted = (unweighted.predict(texts) == "good").sum()
    assert n_weighted > n_unweighted


@pytest.mark.parametrize(
    ("has_encoder", "characters"), [(False, None), (False, (2, 5)), (True, (2, 5))]
)
def test_emoji_decide_where_words_do_not(words, has_encoder, characters):
    rng = np.random.default_rng(0)
    texts = []
    for emoji in "😀😡" * 60:
        words_of_text = rng.choice(OTHER, 8)
        texts.append(" ".join(words_of_text) + emoji)
    labels = ["up", "down"] * 30

    classifier = TextClassifier(words if has_encoder else None, characters=characters)
    classifier.fit(texts[:60], labels)

    best_feature, _ = classifier.top_features("up", 1)[0]
    assert classifier.score(texts[60:], labels) > 0.95
    assert best_feature.endswith("😀")


@pytest.mark.filterwarnings("error")
def test_batches_of_texts_in_another_language_are_predicted_without_warnings():
    classifier = TextClassifier().fit(*draw_reviews(60))

    assert classifier.predict(["你好吗"] * 2500).size == 2500


# ---- Selection ----


def test_few_labels_average_more_candidates_with_larger_scales_of_the_vectors(words):
    texts, labels = draw_reviews(fitting.MAX_FEW_TEXTS + 1, seed=5)
    classifier = TextClassifier(words)

    many = classifier.fit(texts, labels).selection_
    few = classifier.fit(texts[:-1], labels[:-1]).selection_

    assert many["selection"] == "folds"
    assert few["selection"] == "loss"
    assert many["n_candidates"] == 48
    assert few["n_candidates"] == 84
    assert len(few["averaged"]) == 16
    assert max(row["dense_scale"] for row in few["candidates"]) == 6.4


def test_candidates_that_are_given_are_the_ones_that_are_tried(words):
    texts, labels = draw_reviews(60)
    classifier = TextClassifier(words, Cs=(2.0, 1e-4), dense_scales=(0.3,), weighting="tf-idf")

    selection = classifier.fit(texts, labels).selection_

    first, second = selection["candidates"]
    assert (first["C"], first["dense_scale"]) == (2.0, 0.3)
    assert (second["C"], second["dense_scale"]) == (1e-4, 0.3)
    assert len(selection["averaged"]) == 1  # the better half of them


@pytest.mark.parametrize("n", [4, 6, 10, 20])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_words", [True, False])
def test_every_text_of_a_handful_is_predicted_out_of_fold(words, n, n_classes, with_words):
    texts, _ = draw_reviews(n)
    n_classes = min(n_classes, n // 2)
    labels = np.arange(n) % n_classes
    weights = np.linspace(0.1, 3.0, n)

    classifier = TextClassifier(words if with_words else None)
    classifier.fit(texts, labels, sample_weight=weights)

    out_of_fold = classifier.out_of_fold_
    proba = classifier.predict_proba(texts)
    assert sorted(out_of_fold.labels) == sorted(labels)
    assert np.isfinite(out_of_fold.log_proba).all()
    assert (classifier.inverse_temperature_ > 0).all()
    assert np.allclose(proba.sum(axis=1), 1)


@pytest.fixture
def labelled_rows(words):
    """The sparse and the dense part of three hundred texts of three classes."""
    texts, labels = draw_reviews(300, n_classes=3)
    _, y = np.unique(labels, return_inverse=True)
    X = NGrams.of(texts, (1, 2)).tf_idf(texts)
    encoder = make_encoder("Average", words).fit(texts)
    E = encoder.transform(texts).astype(np.float32)
    return fitting.Labelled(X, E, y, 3, np.ones(300))


@pytest.mark.parametrize("part", ["sparse", "dense", "intercept"])
def test_a_mixture_is_the_sum_of_its_parts(labelled_rows, part):
    candidates = [
        {"weighting": "tf-idf", "C": 1.0, "dense_scale": 0.2},
        {"weighting": "both", "C": 6.0, "dense_scale": 0.4},
        {"weighting": "naive-bayes", "C": 36.0, "dense_scale": 0.1},
    ]
    fractions = np.array([0.5, 0.2, 0.3])

    mixture = fitting.fit_mixture(labelled_rows, candidates, fractions)

    total = 0.0
    for fraction, candidate in zip(fractions, candidates):
        alone = fitting.fit_mixture(labelled_rows, [candidate], np.ones(1))
        total = total + fraction * getattr(alone, part)
    tolerance = 2e-3 * np.abs(total).max()
    assert np.allclose(getattr(mixture, part), total, atol=tolerance)


# ---- Groups ----


def draw_name(rng):
    letters = rng.choice(list("abcdefghij"), 8)
    return "".join(letters)


def draw_chapters(seed, n=30, n_books=4):
    """Texts of books: names tell the book, and by it the class; other words tell a little."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    books = []

    for label, words_of_class in (("good", GOOD), ("bad", BAD)):
        for book in range(n_books):
            names = [draw_name(rng) for _ in range(6)]
            for _ in range(n):
                choices = words_of_class
                if rng.random() >= 0.7:
                    choices = [GOOD, BAD][rng.integers(2)]

                word = rng.choice(choices)
                names_of_text = rng.choice(names, 5)
                words = [word, *names_of_text, *rng.choice(OTHER, 6)]
                texts.append(" ".join(words))
                labels.append(label)
                books.append(f"{label} {book}")
    return texts, labels, books


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 30])
def test_groups_make_it_lean_on_what_other_groups_share(words, n):
    texts, labels, books = draw_chapters(0, n)
    new_texts, new_labels, _ = draw_chapters(1)

    alone = TextClassifier(words).fit(texts, labels)
    grouped = TextClassifier(words).fit(texts, labels, groups=books)

    score_alone = alone.score(new_texts, new_labels)
    score_grouped = grouped.score(new_texts, new_labels)
    # Without groups the accuracy out of fold is not that on new books.
    assert alone.selection_["accuracy"] > 0.95
    assert score_alone < 0.9
    assert score_grouped > score_alone - 0.02
    assert abs(grouped.selection_["accuracy"] - score_grouped) < 0.15


@pytest.mark.parametrize("selection", ["loss", "folds", "auto"])
def test_groups_of_one_class_are_judged_where_they_can_be(words, selection):
    texts, labels, books = draw_chapters(0, n_books=2)
    groups = ["all" if label == "bad" else book for label, book in zip(labels, books)]

    classifier = TextClassifier(words, selection=selection).fit(texts, labels, groups=groups)

    assert classifier.selection_["n_tested"] < len(texts)


# ---- Refusals ----


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["", " ", "", ""], "must have words"),
        (["a", None, "c", "d"], "must have one str per text"),
        (["a", "b", "c"], "one for each of the 3 texts"),
        ("one text", "Got the single string"),
    ],
)
def test_texts_that_cannot_be_learnt_from_are_refused_in_one_line(texts, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        TextClassifier(None).fit(texts, [0, 1, 0, 1])

    assert "\n" not in str(caught.value)


def test_no_texts_are_refused():
    with pytest.raises(ValueError, match="Got none"):
        TextClassifier(None).fit([], [])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1, 1], "at least two classes"),
        ([0, 0, 0, 1], "at least two texts each"),
        ([0, 1, 0], "one for each of the 4 texts"),
        (["x", "y", None, "x"], "all be known"),
        ([1, 1, "no", "no"], "Got both .*int 1"),
        (pd.Series(["x", "x", "y", pd.NA], dtype="string"), "first: row 3"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused_in_one_line(labels, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        TextClassifier(None).fit(["good film", "so good", "bad", "so bad"], labels)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([b"up", b"up", b"down", b"down"], "Got bytes"),
        ([datetime.date(2020, 1, day) for day in (1, 1, 2, 2)], "Got date"),
        (np.array(["2020-01-01", "2021-01-01"] * 2, "M8[ns]"), "Got datetime64"),
        ([1j, 1j, 2j, 2j], "Got complex"),
        (np.array(["2020-01-01", "NaT"] * 2, "M8[ns]"), "all be known"),
        (["\ud800", "\ud800", "up", "up"], "valid Unicode"),
        (["up\0", "up\0", "up", "up"], "null character"),
        ([np.inf, np.inf, 1.0, 1.0], "finite"),
        ([2**70, 2**70, 1, 1], "64 bits"),
        ({"up", "down"}, "Got a set"),
        ("ud", "Got a str"),
        (pd.DataFrame({"a": [1, 2], "b": [1, 2]}), "the columns a, b"),
        (3, "Got '3'"),
    ],
)
def test_labels_that_would_not_survive_fitting_and_saving_are_refused_in_one_line(labels, message):
    texts = ["good film", "so good", "bad meal", "so bad"]

    with pytest.raises((ValueError, TypeError), match=message) as caught:
        TextClassifier(None).fit(texts, labels)

    assert "\n" not in str(caught.value)


def assert_refused_and_unchanged(classifier, message, **fit_options):
    """A fit raises an error with this message, and the classifier is as it was before."""
    texts, labels = draw_reviews(60)
    before = dict(vars(classifier))

    with pytest.raises((ValueError, TypeError), match=message):
        classifier.fit(texts, labels, **fit_options)

    assert vars(classifier) == before


@pytest.mark.parametrize(
    ("Cs", "message"),
    [
        ((1.0, np.nan), "Cs must be .*Got nan"),
        ((0,), "Cs must be .*Got 0"),
        (("a",), "Cs must be .*Got 'a'"),
        ((), r"Cs must be .*Got \(\)"),
    ],
)
def test_values_of_C_are_positive_numbers(Cs, message):
    assert_refused_and_unchanged(TextClassifier(None, Cs=Cs), message)


def test_scales_of_the_vectors_are_not_too_large():
    classifier = TextClassifier(None, dense_scales=(1e300,))
    assert_refused_and_unchanged(classifier, "dense_scales must be")


@pytest.mark.parametrize(
    ("ngrams", "message"),
    [
        ((1.9, 2.7), "ngrams must be"),
        ((True, 2), "ngrams must be"),
        ("x", "The 'ngrams' parameter of TextClassifier must be"),
    ],
)
def test_lengths_of_ngrams_are_two_integers(ngrams, message):
    assert_refused_and_unchanged(TextClassifier(None, ngrams=ngrams), message)


def test_lengths_of_character_ngrams_are_small():
    classifier = TextClassifier(None, characters=(2, 9))
    assert_refused_and_unchanged(classifier, "characters must be the smallest")


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"good": -1, "bad": 1}, "class_weight must .*Got -1 for good"),
        ({"good": 0, "bad": 0}, "positive and finite weight"),
        ({"other": 1}, "a fitted class"),
    ],
)
def test_weights_of_classes_are_numbers_of_at_least_zero(class_weight, message):
    assert_refused_and_unchanged(TextClassifier(None, class_weight=class_weight), message)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "positive and finite weight"),
        ([-1.0] + [1.0] * 59, r"at least 0 .*Got -1.0 in row 0"),
        ([1.0] * 59 + [np.nan], r"Got nan in row 59"),
        ([1.0] * 59, "Got 59 numbers"),
        (["x"] * 60, "Got other values"),
    ],
)
def test_weights_of_texts_are_a_number_of_at_least_zero_for_each(weights, message):
    assert_refused_and_unchanged(TextClassifier(None), message, sample_weight=weights)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (list(range(59)), "groups must be one for each of the 60 texts"),
        (["one"] * 60, "groups must be at least two"),
        (draw_reviews(60)[1], "some class in two"),
        (["a", None, *"b" * 58], r"groups must all be known. Got 1 .*first: row 1"),
    ],
)
def test_groups_divide_some_class(groups, message):
    assert_refused_and_unchanged(TextClassifier(None), message, groups=groups)


# ---- Labels ----


def test_a_class_with_one_text_is_left_out():
    texts, labels = draw_reviews(60)
    with_one_text = [*texts[:30], "a lonely text", *texts[30:]]
    with_one_label = [*labels[:30], "one", *labels[30:]]
    weights = np.ones(61)
    groups = np.arange(61) % 12

    without = TextClassifier(None)
    without.fit(texts, labels, weights[:60], np.delete(groups, 30))

    with pytest.warns(UserWarning, match=r"never predicted: one \(1 of 3\)"):
        classifier = TextClassifier(None).fit(with_one_text, with_one_label, weights, groups)

    assert classifier.classes_.tolist() == ["bad", "good"]
    assert np.array_equal(classifier.decision_function(texts), without.decision_function(texts))


def test_labels_that_differ_in_case_only_are_warned_of():
    texts, labels = draw_reviews(60)
    upper_case = [label.upper() for label in labels[:10]]
    mixed = [*upper_case, *labels[10:]]
    message = "in case or spaces only are different classes: 'bad' and 'BAD'"

    with pytest.warns(UserWarning, match=message):
        TextClassifier(None, characters=None).fit(texts, mixed)


def as_column(values):
    return pd.DataFrame({"column": values})


@pytest.mark.parametrize("make_labels", [pd.Series, pd.Categorical, iter, as_column])
@pytest.mark.parametrize("make_texts", [pd.Series, tuple, iter, as_column])
def test_labels_and_texts_may_be_columns_and_generators(make_texts, make_labels):
    texts, labels = draw_reviews(60)
    of_lists = TextClassifier(None).fit(texts, labels)
    column = make_labels(labels.tolist())

    classifier = TextClassifier(None).fit(make_texts(texts), column)

    values = classifier.decision_function(make_texts(texts))
    assert np.array_equal(values, of_lists.decision_function(texts))


# ---- Before and after a fit ----


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba"])
def test_nothing_is_predicted_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(TextClassifier(None), method)(["good"])


def test_labels_of_no_class_count_as_errors_in_a_score():
    texts = ["a b", "a c", "d e", "d f"]
    classifier = TextClassifier(None).fit(texts, ["x", "x", "y", "y"])

    assert classifier.score(["a", "d"], ["x", "y"]) == 1
    assert classifier.score(["a", "d"], ["x", "z"]) == 0.5
    assert classifier.score(["a", "d"], ["z", "z"]) == 0


def test_a_new_fit_forgets_the_last_one():
    texts, labels = draw_reviews(60)
    certified = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    certified.set_params(estimator=lambda rows: rows, prefit=True)

    certified.fit(labels, labels)

    assert certified.out_of_fold_ is None
    assert certified.certificate_.n_errors == 0


def test_a_fit_that_fails_keeps_the_state_before(words):
    texts, labels = draw_reviews(40)
    classifier = TextClassifier(words).fit(texts, labels)
    fitted = classifier.fitted_

    with pytest.raises(ValueError, match="labels"):
        classifier.fit(texts, labels[1:])

    assert classifier.fitted_ is fitted


def test_a_fitted_state_cannot_be_changed(words):
    fitted = TextClassifier(words).fit(*draw_reviews(40)).fitted_

    with pytest.raises(FrozenInstanceError):
        fitted.min_coverage = 0.5


def test_attributes_of_a_fit_are_missing_before_it_with_the_usual_error():
    classifier = TextClassifier(None)

    assert not hasattr(classifier, "classes_")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        classifier.coef_ngrams_  # noqa: B018
