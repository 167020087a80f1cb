import datetime
import enum
import functools
import html
import http
import json
import operator
import re
import unicodedata
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import pacsent
from pacsent import CertifiedClassifier, TextClassifier, Vocabulary, WordVectors, make_encoder
from pacsent.certify import certify
from pacsent.certify.drift_monitor import monitors_of
from pacsent.classify import fitting
from pacsent.text.ngrams import NGrams

GOOD = ["good", "great", "fine", "lovely", "superb", "brilliant", "moving", "warm"]
BAD = ["bad", "poor", "dull", "awful", "weak", "boring", "cold", "flat"]
OTHER = ["the", "film", "was", "a", "story", "of", "some", "people", "in", "town", "and", "it"]


def reviews(n, seed=0, n_classes=2):
    """Texts whose class decides which words occur more often."""
    rng = np.random.default_rng(seed)
    pools = [GOOD, BAD, [f"x{w}" for w in GOOD]][:n_classes]
    labels = rng.integers(n_classes, size=n)
    texts = []
    for label in labels:
        own = [pools[label if rng.random() < 0.85 else rng.integers(n_classes)] for _ in range(3)]
        words = [pool[rng.integers(len(pool))] for pool in own] + list(rng.choice(OTHER, 8))
        texts.append(" ".join(words[i] for i in rng.permutation(len(words))))
    return texts, np.array(["good", "bad", "other"])[labels]


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    names = GOOD + BAD + OTHER
    table = rng.normal(size=(len(names), 8)).astype(np.float32) * 0.3
    table[: len(GOOD), 0] += 1
    table[len(GOOD) : len(GOOD) + len(BAD), 0] -= 1
    return WordVectors(Vocabulary(names), table, table)


@pytest.mark.parametrize(("selection", "n_classes"), [("loss", 2), ("folds", 3)])
def test_it_learns_by_every_selection(words, selection, n_classes):
    texts, labels = reviews(400, n_classes=n_classes)
    classifier = TextClassifier(words, selection=selection).fit(texts, labels)
    new, right = reviews(300, seed=1, n_classes=n_classes)
    assert classifier.score(new, right) > 0.9
    proba = classifier.predict_proba(new)
    assert proba.shape == (300, n_classes)
    assert np.allclose(proba.sum(axis=1), 1)
    assert np.array_equal(classifier.classes_[proba.argmax(axis=1)], classifier.predict(new))


def test_few_labels_lean_on_the_vectors_and_many_speak_for_themselves(words):
    few, labels = reviews(16, seed=3)
    new, right = reviews(500, seed=4)
    with_words = TextClassifier(words).fit(few, labels).score(new, right)
    without = TextClassifier(None).fit(few, labels).score(new, right)
    assert with_words > without + 0.05


def test_probabilities_are_calibrated_on_texts_it_has_not_seen(words):
    texts, labels = reviews(1500)
    new, right = reviews(1500, seed=5)
    for selection, n in (("folds", 1500), ("loss", 200)):
        classifier = TextClassifier(words, selection=selection).fit(texts[:n], labels[:n])
        sure = classifier.predict_proba(new).max(axis=1)
        assert sure.mean() == pytest.approx(classifier.score(new, right), abs=0.04)


def test_the_model_does_not_depend_on_threads_and_predicts_the_same_in_any_batch(words):
    texts, labels = reviews(1200)
    one = TextClassifier(words, selection="folds", n_jobs=1).fit(texts, labels)
    two = TextClassifier(words, selection="folds", n_jobs=2).fit(texts, labels)
    assert np.array_equal(one.coef_ngrams_, two.coef_ngrams_)
    single = np.concatenate([one.decision_function([text]) for text in texts[:20]])
    assert np.allclose(single, two.decision_function(texts[:20]), atol=1e-5)
    values = np.concatenate(list(one.stream(text for text in texts)))
    assert np.allclose(values[:, 0], one.decision_function(texts))


def test_it_works_in_scikit_learns_tools(words):
    texts, labels = reviews(90)
    assert clone(TextClassifier(words, ngrams=(1, 1))).ngrams == (1, 1)
    assert cross_val_score(TextClassifier(None), texts, labels, cv=3).mean() > 0.6
    search = GridSearchCV(TextClassifier(words), {"ngrams": [(1, 1), (1, 2)]}, cv=2)
    assert search.fit(texts, labels).best_score_ > 0.7
    assert make_pipeline(TextClassifier(None)).fit(texts, labels).predict(texts[:2]).shape == (2,)


def test_weights_count_texts(words):
    texts, labels = reviews(120)
    other = np.where(labels == "good", "bad", "good")
    mixed, weights = [*labels[:40], *other[40:]], np.r_[np.ones(40), np.full(80, 1e-6)]
    for selection in ("loss", "folds"):
        classifier = TextClassifier(words, selection=selection)
        assert classifier.fit(texts, mixed, sample_weight=weights).score(texts, labels) > 0.8
        assert classifier.fit(texts, mixed).score(texts, labels) < 0.5
    balanced = TextClassifier(words, class_weight={"good": 50.0, "bad": 0.01}).fit(texts, labels)
    plain = TextClassifier(words).fit(texts, labels)
    assert (balanced.predict(texts) == "good").sum() > (plain.predict(texts) == "good").sum()


REFUSALS = [
    (["a b", "c d"], [1, 1], "at least two classes"),
    (["a b", "c d", "e f"], [0, 0, 1], "at least two texts each"),
    (["", " ", "", ""], [0, 0, 1, 1], "must have words"),
    (["a", "b", "c", "d"], [0, 1, 0], "one for each of the 4 texts"),
    (["a", "b", "c", "d"], ["x", "y", None, "x"], "all be known"),
    (["a", None, "c", "d"], [0, 1, 0, 1], "must have one str per text"),
    ("one text", [0], "Got the single string"),
    (["good film", "so good", "bad", "so bad"], [1, 1, "no", "no"], "Got both .*int 1"),
    (["a", "b", "c", "d"], pd.Series(["x", "x", "y", pd.NA], dtype="string"), "first: row 3"),
    ([], [], "Got none"),
]
REFUSALS += [  # labels that would not survive fitting and saving
    (["good film", "so good", "bad meal", "so bad"], labels, message)
    for labels, message in [
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
    ]
]


@pytest.mark.parametrize(("texts", "labels", "message"), REFUSALS)
def test_what_cannot_be_learnt_is_refused_in_one_line(texts, labels, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        TextClassifier(None).fit(texts, labels)
    assert "\n" not in str(caught.value)


def test_emoji_decide_where_words_do_not(words):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(OTHER, 8)) + sign for sign in "😀😡" * 60]
    for encoder, characters in ((None, None), (None, (2, 5)), (words, (2, 5))):
        classifier = TextClassifier(encoder, characters=characters)
        classifier.fit(texts[:60], ["up", "down"] * 30)
        assert classifier.score(texts[60:], ["up", "down"] * 30) > 0.95
    assert classifier.top_features("up", 1)[0][0].endswith("😀")


def test_a_class_with_one_text_is_left_out_and_labels_of_another_case_are_named():
    texts, labels = reviews(60)
    extra = [*texts[:30], "a lonely text", *texts[30:]], [*labels[:30], "one", *labels[30:]]
    weights, groups = np.ones(61), np.arange(61) % 12
    with pytest.warns(UserWarning, match=r"never predicted: one \(1 of 3\)"):
        warned = TextClassifier(None).fit(*extra, weights, groups)
    alone = TextClassifier(None).fit(texts, labels, weights[:60], np.delete(groups, 30))
    assert warned.classes_.tolist() == ["bad", "good"]
    assert np.array_equal(warned.decision_function(texts), alone.decision_function(texts))
    mixed = [label.upper() if i < 10 else label for i, label in enumerate(labels)]
    with pytest.warns(
        UserWarning, match="in case or spaces only are different classes: 'bad' and 'BAD'"
    ):
        TextClassifier(None, characters=None).fit(texts, mixed)


@pytest.mark.filterwarnings("error")
def test_batches_of_texts_in_another_language_are_predicted_without_warnings():
    classifier = TextClassifier().fit(*reviews(60))
    assert classifier.predict(["你好吗"] * 2500).size == 2500


def test_top_features_are_the_words_of_the_class(words):
    texts, labels = reviews(300)
    for selection in ("loss", "folds"):
        classifier = TextClassifier(words, selection=selection).fit(texts, labels)
        assert classifier.top_features("good", 3)[0][0] in GOOD
        assert classifier.top_features("bad", 3)[0][0] in BAD
        weights = [weight for _, weight in classifier.top_features("bad", 50)]
        assert weights == sorted(weights, reverse=True)
    for n in (-1, 0, 1.5, True, "x"):
        with pytest.raises(ValueError, match="n must be an integer of at least 1"):
            classifier.top_features("good", n)


@pytest.mark.parametrize("with_words", [True, False])
def test_a_saved_classifier_comes_back_the_same(words, tmp_path, with_words):
    texts, labels = reviews(200, n_classes=3)
    model = TextClassifier(words if with_words else None)
    classifier = CertifiedClassifier(model, calibration_size=0.3, random_state=3).fit(texts, labels)
    back = pacsent.load(pacsent.save(classifier, tmp_path / "model"))
    assert np.array_equal(back.predict_proba(texts), classifier.predict_proba(texts))
    assert str(back.certificate_) == str(classifier.certificate_)
    assert back.certificate_.verify() and back.seed_ == 3
    inner, before = back.estimator_, classifier.estimator_
    assert inner.top_features("good") == before.top_features("good")
    assert inner.explain(texts[0]).words == before.explain(texts[0]).words
    assert back.abstain(error=0.3).threshold == classifier.abstain(error=0.3).threshold
    assert np.array_equal(
        back.prediction_set_thresholds(error=0.3), classifier.prediction_set_thresholds(error=0.3)
    )
    with pytest.raises(ValueError, match="were among the texts it was fitted on"):
        certify(back, texts, labels)
    assert clone(inner).get_params().keys() == inner.get_params().keys()
    assert not any(path.suffix in (".pkl", ".joblib") for path in tmp_path.rglob("*"))


def test_few_labels_average_more_candidates_with_larger_scales_of_the_vectors(words):
    texts, labels = reviews(fitting.MAX_FEW_TEXTS + 1, seed=5)

    many = TextClassifier(words).fit(texts, labels).selection_
    few = TextClassifier(words).fit(texts[:-1], labels[:-1]).selection_

    assert [many["selection"], few["selection"]] == ["folds", "loss"]
    assert [many["n_candidates"], few["n_candidates"]] == [48, 84]
    assert len(few["averaged"]) == 16
    assert max(row["dense_scale"] for row in few["candidates"]) == 6.4


def test_candidates_that_are_given_are_the_ones_that_are_tried(words):
    texts, labels = reviews(60)
    classifier = TextClassifier(words, Cs=(2.0, 1e-4), dense_scales=(0.3,), weighting="tf-idf")

    selection = classifier.fit(texts, labels).selection_

    assert [(row["C"], row["dense_scale"]) for row in selection["candidates"]] == [
        (2.0, 0.3),
        (1e-4, 0.3),
    ]
    assert len(selection["averaged"]) == 1  # the better half of them


def test_a_file_that_names_the_evidence_opens_and_fits_again_by_loss(words):
    texts, labels = reviews(60)
    state = TextClassifier(None).fit(texts, labels).state()
    state.config["parameters"]["selection"] = "evidence"

    classifier = TextClassifier.from_state(state)

    assert classifier.selection == "loss"
    assert classifier.fit(texts, labels).selection_["selection"] == "loss"


@pytest.mark.parametrize("n", [4, 6, 10, 20])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_words", [True, False])
def test_every_text_of_a_handful_is_predicted_out_of_fold(words, n, n_classes, with_words):
    texts, _ = reviews(n)
    n_classes = min(n_classes, n // 2)
    labels = np.arange(n) % n_classes
    weights = np.linspace(0.1, 3.0, n)

    classifier = TextClassifier(words if with_words else None)
    classifier.fit(texts, labels, sample_weight=weights)

    assert np.array_equal(np.sort(classifier.out_of_fold_.labels), np.sort(labels))
    assert np.isfinite(classifier.out_of_fold_.log_proba).all()
    assert (classifier.inverse_temperature_ > 0).all()
    assert np.allclose(classifier.predict_proba(texts).sum(axis=1), 1)


def test_a_mixture_is_the_sum_of_its_parts(words):
    texts, labels = reviews(300, n_classes=3)
    y = np.unique(labels, return_inverse=True)[1]
    X = NGrams.of(texts, (1, 2)).tf_idf(texts)
    E = make_encoder("Average", words).fit(texts).transform(texts).astype(np.float32)
    grams = fitting.Labelled(X, E, y, 3, np.ones(y.size))
    table = [
        {"weighting": "tf-idf", "C": 1.0, "dense_scale": 0.2},
        {"weighting": "both", "C": 6.0, "dense_scale": 0.4},
        {"weighting": "naive-bayes", "C": 36.0, "dense_scale": 0.1},
    ]
    shares = np.array([0.5, 0.2, 0.3])
    mixed = fitting.fit_mixture(grams, table, shares)
    each = [fitting.fit_mixture(grams, [row], np.ones(1)) for row in table]
    for part in ("sparse", "dense", "intercept"):
        total = sum(share * getattr(one, part) for share, one in zip(shares, each))
        assert np.allclose(getattr(mixed, part), total, atol=2e-3 * np.abs(total).max())


def chapters(seed, n=30, n_books=4):
    """Texts of books: names tell the book, and by it the class; other words tell a little."""
    rng = np.random.default_rng(seed)
    texts, labels, books = [], [], []
    for label, pool in (("good", GOOD), ("bad", BAD)):
        for book in range(n_books):
            names = ["".join(rng.choice(list("abcdefghij"), 8)) for _ in range(6)]
            for _ in range(n):
                own = pool if rng.random() < 0.7 else (GOOD, BAD)[rng.integers(2)]
                words = [rng.choice(own), *rng.choice(names, 5), *rng.choice(OTHER, 6)]
                texts.append(" ".join(words))
                labels.append(label)
                books.append(f"{label} {book}")
    return texts, labels, books


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 30])
def test_groups_make_it_lean_on_what_other_groups_share(words, n):
    texts, labels, books = chapters(0, n)
    new, right, _ = chapters(1)
    alone = TextClassifier(words).fit(texts, labels)
    grouped = TextClassifier(words).fit(texts, labels, groups=books)
    assert alone.selection_["accuracy"] > 0.95  # which new books will not bear out
    assert alone.score(new, right) < 0.9
    assert grouped.score(new, right) > alone.score(new, right) - 0.02
    assert abs(grouped.selection_["accuracy"] - grouped.score(new, right)) < 0.15


@pytest.mark.parametrize("selection", ["loss", "folds", "auto"])
def test_groups_of_one_class_are_judged_where_they_can_be(words, selection):
    texts, labels, books = chapters(0, n_books=2)
    books = ["all" if label == "bad" else book for label, book in zip(labels, books)]
    fitted = TextClassifier(words, selection=selection).fit(texts, labels, groups=books)
    assert fitted.selection_["n_tested"] < len(texts)


def test_nothing_is_predicted_before_fit_and_other_labels_are_errors():
    model = TextClassifier(None)
    for method in (model.predict, model.predict_proba, model.predict_log_proba):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            method(["good"])
    model.fit(["a b", "a c", "d e", "d f"], list("xxyy"))
    assert [model.score(["a", "d"], list(right)) for right in ("xy", "xz", "zz")] == [1, 0.5, 0]


Topic = enum.Enum("Topic", {"SPORT": "sport a", "FILM": "film"}, type=str)
LABELS = {
    "an Enum of strings": [Topic.SPORT, Topic.FILM],
    "an IntEnum": [http.HTTPStatus.OK, http.HTTPStatus.GONE],
    "large unsigned integers": [np.uint64(2**64 - 1), np.uint64(3)],
    "booleans": [True, False],
    "floats": [0.5, 1.5],
    "long strings": ["a" * 300, "a" * 299],
    "characters beyond ASCII": ["naïve", "日本"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_survive_fitting_and_saving(kind, tmp_path):
    one, other = LABELS[kind]
    texts = ["good film", "so good", "bad meal", "so bad"]
    classifier = TextClassifier(None).fit(texts, [one] * 2 + [other] * 2)
    back = pacsent.load(pacsent.save(classifier, tmp_path / "model"))
    for found in (classifier, back):
        assert found.classes_.tolist() == sorted([one, other])
        assert found.predict(["good", "bad"]).tolist() == [one, other]
        assert found.score(["good", "bad"], [one, other]) == 1
    assert back.classes_.dtype == classifier.classes_.dtype


def test_labels_and_texts_may_be_columns_and_generators():
    texts, labels = reviews(60)
    right = TextClassifier(None).fit(texts, labels).decision_function(texts)
    for make_labels in (pd.Series, pd.Categorical, iter, lambda y: pd.DataFrame({"y": y})):
        for make_texts in (pd.Series, tuple, iter, lambda x: pd.DataFrame({"x": x})):
            found = TextClassifier(None).fit(make_texts(texts), make_labels(labels.tolist()))
            assert np.array_equal(found.decision_function(make_texts(texts)), right)


WRONG = [
    ({"Cs": (1.0, np.nan)}, {}, "Cs must be .*Got nan"),
    ({"Cs": (0,)}, {}, "Cs must be .*Got 0"),
    ({"Cs": ("a",)}, {}, "Cs must be .*Got 'a'"),
    ({"Cs": ()}, {}, r"Cs must be .*Got \(\)"),
    ({"dense_scales": (1e300,)}, {}, "dense_scales must be"),
    ({"ngrams": (1.9, 2.7)}, {}, "ngrams must be"),
    ({"ngrams": (True, 2)}, {}, "ngrams must be"),
    ({"ngrams": "x"}, {}, "The 'ngrams' parameter of TextClassifier must be"),
    ({"characters": (2, 9)}, {}, r"characters must be the smallest"),
    ({"class_weight": {"good": -1, "bad": 1}}, {}, "class_weight must .*Got -1 for good"),
    ({"class_weight": {"good": 0, "bad": 0}}, {}, "positive and finite weight"),
    ({"class_weight": {"other": 1}}, {}, "a fitted class"),
    ({}, {"sample_weight": np.zeros(60)}, "positive and finite weight"),
    ({}, {"sample_weight": [-1.0] + [1.0] * 59}, r"at least 0 .*Got -1.0 in row 0"),
    ({}, {"sample_weight": [1.0] * 59 + [np.nan]}, r"Got nan in row 59"),
    ({}, {"sample_weight": [1.0] * 59}, "Got 59 numbers"),
    ({}, {"sample_weight": ["x"] * 60}, "Got other values"),
    ({}, {"groups": list(range(59))}, "groups must be one for each of the 60 texts"),
    ({}, {"groups": ["one"] * 60}, "groups must be at least two"),
    ({}, {"groups": reviews(60)[1]}, "some class in two"),
    ({}, {"groups": ["a", None, *"b" * 58]}, r"groups must all be known. Got 1 .*first: row 1"),
]


@pytest.mark.parametrize(("parameters", "how", "message"), WRONG)
def test_wrong_options_are_refused_and_change_nothing(parameters, how, message):
    texts, labels = reviews(60)
    classifier = TextClassifier(None, **parameters)
    before = dict(vars(classifier))
    with pytest.raises((ValueError, TypeError), match=message):
        classifier.fit(texts, labels, **how)
    assert vars(classifier) == before


def test_a_new_fit_forgets_the_last_one():
    texts, labels = reviews(60)
    certified = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    certified.set_params(estimator=lambda rows: rows, prefit=True).fit(labels, labels)
    assert certified.out_of_fold_ is None and certified.certificate_.n_errors == 0


def resigned(classifier, folder, change):
    """A saved classifier with other arrays and right checksums."""
    state = classifier.state()
    arrays = change({key: np.array(value) for key, value in state.tensors.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(classifier), "state", lambda _: replace(state, tensors=arrays))
        return pacsent.save(classifier, folder)


def described(**changes):
    def change(arrays):
        values = json.loads(arrays["description"].tobytes())
        for key, value in changes.items():
            *parts, last = key.split("__")
            functools.reduce(operator.getitem, parts, values)[last] = value
        return {**arrays, "description": np.frombuffer(json.dumps(values).encode(), np.uint8)}

    return change


def array(name, change):
    return lambda arrays: {**arrays, name: change(arrays[name])}


CRAFTED = {
    "short idf": array("idf", lambda a: a[:5]),
    "hashes twice": array("hashes", lambda a: np.full_like(a, 7)),
    "hashes of zero": array("hashes", lambda a: np.arange(a.size, dtype=a.dtype)),
    "wide coef_ngrams": array("coef_ngrams", lambda a: np.hstack([a, a])),
    "coef_dense of another length": array("coef_dense", lambda a: a[:3]),
    "nan in idf": array("idf", lambda a: a * np.nan),
    "fewer labels out of fold": array("out_of_fold.labels", lambda a: a[:-1]),
    "a share above 1": array("characters.share", lambda a: np.array([0.5, 1.5])),
    "no idf": lambda arrays: {k: v for k, v in arrays.items() if k != "idf"},
    "no JSON": array("description", lambda a: a[:-1]),
    "classes twice": described(classes=["good", "good"]),
    "classes of other kinds": described(classes=["a", 1]),
    "temperature -1": described(inverse_temperature=[1.0, -1.0]),
    "temperature a string": described(inverse_temperature="1"),
    "no temperature": described(inverse_temperature=[]),
    "sizes too large": described(sizes=[1, 10**6]),
    "sizes auto": described(sizes="auto"),
    "names of numbers": described(names=[3]),
    "certified: nan": array("calibration.log_proba", lambda a: a * np.nan),
    "certified: labels too large": array("calibration.labels", lambda a: a + 7),
    "certified: fewer labels": array("calibration.labels", lambda a: a[:-1]),
    "certified: a seed that is text": described(certificate__seed="x"),
    "certified: too good": described(certificate__bound=1e-6),
    "certified: another field": described(certificate__x=1),
}


@pytest.fixture(scope="module")
def held_out(words):
    certified = CertifiedClassifier(TextClassifier(words), calibration_size=0.3, random_state=0)
    return certified.fit(*reviews(90))


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_folder_is_refused_at_loading(kind, held_out, tmp_path):
    crafted = held_out if kind.startswith("certified") else held_out.estimator_
    resigned(crafted, tmp_path / "model", CRAFTED[kind])
    with pytest.raises(ValueError, match="model") as caught:
        pacsent.load(tmp_path / "model")
    assert "\n" not in str(caught.value)
    pacsent.load(resigned(crafted, tmp_path / "unchanged", lambda arrays: arrays))


ALPHABETS = {
    "letters": [*"aBIt ,.!'’", "İ", "ß", "ſ", "good ", "It ", "it ", "film"],
    "the whole of Unicode": [chr(i) for i in [*range(32, 0xD800, 7), *range(0xE000, 0x1FFFF, 31)]],
    "marks and spaces": [*" \t\n\u00a0\u3000\u0307\u0301\u200d.-–—\"'’", "é", "Ω", "Σ", "good"],
    "lone surrogates": ["\ud800", "\udfff", "good", " ", "é"],
}


@pytest.fixture(scope="module", params=["paper", "unicode", str.split])
def normalising(words, request):
    """A classifier whose words are normalised in one of these ways."""
    names = [*words.vocabulary.words, "It", "é", "日", "ß", "isn't"]
    table = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    vectors = WordVectors(Vocabulary(names, normalize=request.param), table, table)
    texts, labels = reviews(60)
    texts += ["It it İ é ß Ω", "It 日 é"]
    return TextClassifier(vectors).fit(texts, [*labels, "good", "bad"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_explanations_of_random_texts_add_up(normalising, alphabet):
    rng, classifier = np.random.default_rng(0), normalising
    for number in range(20):
        text = "".join(rng.choice(ALPHABETS[alphabet], rng.integers(1, 40)))
        label, sign = (("good", 1), ("bad", -1))[number % 2]
        explanation = classifier.explain(text, label)
        decision = classifier.decision_function([text])[0]
        assert explanation.decision == pytest.approx(sign * decision, abs=1e-5)
        vector = np.asarray(classifier.encoder_.transform([text]), float)[0]
        vector = sign * (vector @ classifier.coef_dense_[:, 0].astype(float))
        share = classifier.fitted_.model.score_ngrams([text]).character_weights[0]
        assert explanation.from_vectors == pytest.approx((1 - share) * vector, abs=1e-6)
        rest = (1 - share) * classifier.intercept_ + share * classifier.intercept_characters_
        assert explanation.intercept == pytest.approx(sign * rest[0])
        total = sum(value for _, value in explanation.words) + explanation.vector_remainder
        parts = explanation.from_ngrams + explanation.from_characters + explanation.from_vectors
        assert total == pytest.approx(parts)
        assert [text[a:b] for a, b in explanation.spans] == [word for word, _ in explanation.words]
        assert explanation.to_terminal().plain == text
        assert classifier.explain(text).label == classifier.predict([text])[0]


def test_a_word_gets_its_own_vector_whatever_its_case_and_is_listed_with_it(words):
    classifier = TextClassifier(words).fit(*reviews(100))
    found = classifier.explain("Good good GOOD film")
    names = [name for name, _ in found.by_word()]
    assert sorted(names) == ["film", "good"]
    assert [name for name, _ in found.ngrams].count("good") <= 1
    assert dict(found.by_word())["good"] == pytest.approx(sum(v for _, v in found.words[:3]))
    found = classifier.explain("a good film of town people and it was warm", "good")
    listed = dict(found.contributions())
    assert sum(listed.values()) == pytest.approx(found.decision, abs=1e-3)
    assert f"{listed['good']:+.3f}  good" in str(found)
    assert f"<td>{listed['good']:+.3f}</td>" in found.to_html()
    assert "other words" in found.to_html(top=2)
    assert sum(dict(found.contributions(2)).values()) == pytest.approx(found.decision, abs=1e-3)
    classifier = TextClassifier(make_encoder("PB-L2", words)).fit(*reviews(100))
    found = classifier.explain("a good film", "good")
    assert found.vector_remainder == pytest.approx(found.from_vectors) != 0
    assert "in no single word" in str(found) and "in no single word" in found.to_html()


def _luminance(rgb):
    share = np.array(rgb) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_pages_are_readable_in_both_colour_schemes_and_escape_texts(words):
    classifier = TextClassifier(words).fit(*reviews(100))
    text = "a good </script><b>film</b> & <!--<script>"
    page = classifier.explain(text).to_html()
    assert "<b>" not in page and "<!--" not in page and "<script" not in page
    assert text in html.unescape(re.sub("<[^>]+>", "", page))
    for css in page.split("prefers-color-scheme:dark"):
        ink, paper = (
            list(bytes.fromhex(re.search(f"--{name}:#(\\w+)", css)[1])) for name in ("text", "page")
        )
        for mark in ("for", "against"):
            color = np.array(re.search(f"--{mark}:([\\d ]+)", css)[1].split(), float)
            for share in np.linspace(0, 1, 11):
                behind = share * color + (1 - share) * np.array(paper)
                dim, bright = sorted([_luminance(ink), _luminance(behind)])
                assert (bright + 0.05) / (dim + 0.05) >= 4.5
    listing = classifier.top_features_html(3)
    assert listing.count("<h2") == 2 and classifier.top_features("bad", 1)[0][0] in listing


KIND, UNKIND = ["味道好", "很喜欢", "送得快"], ["太难吃", "不新鲜", "等很久"]


def written(write, n, seed=0):
    """Texts that `write` makes up for random classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    return [write(rng, label) for label in labels], labels


def chinese(rng, label):
    words = rng.choice((UNKIND, KIND)[label], 2)
    return "".join([*words, *rng.choice([*"我们今天的饭店菜"], 5)])


@pytest.mark.parametrize("n", [40, 150, 1200])
def test_texts_without_spaces_are_learnt_without_a_model_of_the_language(n):
    classifier = TextClassifier(None).fit(*written(chinese, n))
    assert classifier.score(*written(chinese, 100, seed=1)) > 0.95
    found = classifier.explain("今天的饭味道好", 1)
    assert "".join(word for word, _ in found.words) == found.text
    values = [value for _, value in found.words]
    assert min(values[-3:]) > max(values[:3])


def inflected(rng, label):
    """The class is a part of a word that never stands alone."""
    ending = ("ung", "heit")[label]
    return " ".join("".join([*rng.choice([*"abcdefgh"], 5), ending]) for _ in range(4))


@pytest.mark.parametrize("n", [40, 120, 1500])
def test_characters_are_used_where_texts_left_out_say_so(n):
    new, right = written(inflected, 200, seed=1)
    with_them = TextClassifier(None).fit(*written(inflected, n))
    without = TextClassifier(None, characters=None).fit(*written(inflected, n))
    assert with_them.selection_["character_weight"] >= 0.25
    assert with_them.score(new, right) > 0.95 > without.score(new, right)
    assert len(without.characters_) == 0 and "character_weight" not in without.selection_
    for label, ending in ((0, "ung"), (1, "heit")):
        assert all(name.endswith(ending) for name, _ in with_them.top_features(label, 20))
    explained = with_them.explain("xxxxxheit", 1)
    assert explained.from_characters > 0 and explained.words[0][1] > 0
    assert explained.decision == pytest.approx(with_them.decision_function(["xxxxxheit"])[0])


def misspelt(texts, seed=0):
    """The texts with two letters swapped in every word of four letters or more."""
    rng = np.random.default_rng(seed)

    def swapped(word):
        at = rng.integers(1, len(word) - 1) if len(word) > 3 else len(word)
        return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]

    return [" ".join(map(swapped, text.split())) for text in texts]


LONG = [
    ["wonderful", "excellent", "delightful", "marvellous", "enchanting", "fascinating"],
    ["terrible", "horrible", "dreadful", "disappointing", "tiresome", "unconvincing"],
]


def long_words(rng, label):
    return " ".join([*rng.choice(LONG[label], 2), *rng.choice(OTHER, 6)])


@pytest.mark.parametrize(("n", "n_classes"), [(40, 2), (150, 3), (1200, 2)])
def test_misspelt_words_are_known_by_their_characters(n, n_classes, tmp_path):
    texts, labels = written(long_words, n)
    if n_classes == 3:
        labels = np.where(np.arange(n) < n // 3, 2, labels)
        texts = [f"{t} {'nevertheless' if y == 2 else 'town'}" for t, y in zip(texts, labels)]
    model = TextClassifier(None).fit(texts, labels)
    new, right = written(long_words, 200, seed=1)
    new = [f"{text} town" for text in new] if n_classes == 3 else new
    wrong = misspelt(new)
    without = TextClassifier(None, characters=None).fit(texts, labels)
    assert model.score(wrong, right) > without.score(wrong, right) + 0.2
    assert model.score(new, right) >= without.score(new, right)
    shares = model.fitted_.model.score_ngrams(wrong).character_weights
    assert (
        model.fitted_.model.score_ngrams(new).character_weights.max()
        == model.character_weight_.least
        < shares.max()
    )
    for text in wrong[:5]:
        found = model.explain(text, 1)
        values = np.append(0.0, model.decision_function([text])[0])  # log-odds, or of each class
        at = -1 if n_classes == 2 else 2
        assert found.decision == pytest.approx(values[at], abs=1e-5)  # sums in single precision
        parts = found.from_ngrams + found.from_characters + found.from_vectors
        assert parts + found.intercept == pytest.approx(found.decision)
        assert found.from_characters != 0
    alone = np.concatenate([model.predict_proba([text]) for text in wrong[:20] + new[:20]])
    assert np.array_equal(alone, model.predict_proba(wrong[:20] + new[:20]))
    again = pacsent.load(pacsent.save(model, tmp_path / "model"))
    assert np.array_equal(again.predict_proba(wrong), model.predict_proba(wrong))


def test_words_that_an_encoder_has_or_a_copy_of_the_text_are_told_apart(words):
    texts, labels = reviews(60)
    odd = [f"{text} zzz{i // 2}" for i, text in enumerate(texts)]
    odd[1::2], labels[1::2] = odd[::2], labels[::2]  # every text twice
    model = TextClassifier(words).fit(odd, labels)
    assert model.character_weight_.usual == pytest.approx(1 / 12)
    assert model.fitted_.model.score_ngrams(["good great fine"]).character_weights.tolist() == [
        model.character_weight_.least
    ]
    # an encoder whose words are not known has one share for all texts
    model = TextClassifier(lambda texts: [[len(text)] for text in texts]).fit(odd, labels)
    assert model.character_weight_.usual == 1.0
    assert np.unique(model.fitted_.model.score_ngrams(misspelt(odd)).character_weights) == [
        model.character_weight_.least
    ]


def test_a_mark_never_cuts_a_character():
    texts, labels = ["สวัสดีครับ", "แย่มาก"] * 20, ["good", "bad"] * 20
    classifier = TextClassifier(None).fit(texts, labels)
    text = "สวัสดีครับ 1️⃣ cafe\u0301"
    segments = [segment for segment, _, _ in classifier.explain(text).segments()]
    assert "".join(segments) == text
    assert not any(unicodedata.category(segment[0])[0] == "M" for segment in segments)


def test_a_watcher_knows_the_words_of_a_script_without_spaces():
    classifier = TextClassifier(None).fit(*written(chinese, 60))
    found = monitors_of(classifier, ["味道好", "味道xyz糟"])
    assert found[:, 0].tolist() == [3, 4]
    assert found[:, 1].tolist() == [0.0, 0.5]


def test_a_fit_that_fails_keeps_the_state_before(words):
    texts, labels = reviews(40)
    classifier = TextClassifier(words).fit(texts, labels)
    fitted = classifier.fitted_

    with pytest.raises(ValueError, match="labels"):
        classifier.fit(texts, labels[1:])

    assert classifier.fitted_ is fitted


def test_a_fitted_state_cannot_be_changed(words):
    fitted = TextClassifier(words).fit(*reviews(40)).fitted_

    with pytest.raises(FrozenInstanceError):
        fitted.min_coverage = 0.5


def test_attributes_of_a_fit_are_missing_before_it_with_the_usual_error():
    classifier = TextClassifier(None)

    assert not hasattr(classifier, "classes_")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        classifier.coef_ngrams_  # noqa: B018
