"""Texts that repeat, almost or exactly, are one example everywhere, or the certificate says so."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pacsent import CertifiedClassifier, Index, TextClassifier
from pacsent.certify import (
    Comparison,
    DriftMonitor,
    ErrorCertificate,
    certify,
    certify_predictions,
    compare,
    traffic_error_upper,
)
from pacsent.certify.repeats import cautious

SYLLABLES = ("ba", "ko", "li", "mu", "ne", "po", "ra", "su", "ti", "ze")
WORDS = np.array([first + second for first in SYLLABLES for second in SYLLABLES])


def draw_sentences(rng, n, n_words=12):
    return [" ".join(rng.choice(WORDS, n_words)) for _ in range(n)]


def copies(texts, n):
    """Each text and n - 1 copies of it with another last word."""
    repeated = []
    for text in texts:
        beginning, _, _ = text.rpartition(" ")
        repeated.append(text)
        repeated += [f"{beginning} copy{i}" for i in range(1, n)]
    return repeated


def right(texts):
    return ["up" if text < "m" else "down" for text in texts]


OTHER_LABEL = {"up": "down", "down": "up"}


def errs_on(starts):
    """A classifier that is wrong about texts that start with these words, and their copies."""

    def predict(texts):
        labels = right(texts)
        for row, text in enumerate(texts):
            first_word, _, _ = text.partition(" ")
            if first_word in starts:
                labels[row] = OTHER_LABEL[labels[row]]
        return labels

    return predict


def draw_comparison(rng):
    """Two classifiers that err on words drawn alike, and copies of texts with their labels."""
    texts = copies(draw_sentences(rng, 60), 5)
    a = errs_on(set(rng.choice(WORDS, 25, replace=False)))
    b = errs_on(set(rng.choice(WORDS, 25, replace=False)))
    return a, b, texts, right(texts)


@pytest.mark.slow
def test_copies_do_not_make_equal_classifiers_differ():
    rng = np.random.default_rng(0)
    n_found = 0
    n_found_among_all = 0
    for _ in range(60):
        a, b, texts, labels = draw_comparison(rng)

        comparison = compare(a, b, texts, labels, repeats="copies", random_state=0)
        n_found += comparison.p_value <= 0.05

        # the negative control: every copy counts
        a_is_right = np.equal(a(texts), labels)
        b_is_right = np.equal(b(texts), labels)
        only_a = int((a_is_right & ~b_is_right).sum())
        only_b = int((b_is_right & ~a_is_right).sum())
        n_found_among_all += Comparison(300, only_a, only_b, 0.05).p_value <= 0.05

    assert n_found <= 9  # of 60 at 5%: more with probability below .3%
    assert n_found_among_all > 15


def test_a_comparison_says_how_many_copies_it_left_out():
    a, b, texts, labels = draw_comparison(np.random.default_rng(0))

    comparison = compare(a, b, texts, labels, repeats="copies", random_state=0)

    assert comparison.n == 60
    assert comparison.n_duplicates == 240
    assert "Repeats: 240 near-duplicates not counted" in str(comparison)
    assert "not checked: the classifier does not record" in str(comparison)


@pytest.fixture
def fitted_texts():
    return draw_sentences(np.random.default_rng(1), 40)


@pytest.fixture
def new_texts():
    return draw_sentences(np.random.default_rng(2), 30)


@pytest.fixture
def fitted(fitted_texts):
    """A classifier of forty texts."""
    return TextClassifier(None).fit(fitted_texts, ["up", "down"] * 20)


def test_texts_that_were_fitted_are_not_certified(fitted, fitted_texts):
    labels = fitted.predict(fitted_texts)

    with pytest.raises(ValueError, match="40 of these 40 were among the texts it was fitted on"):
        certify(fitted, fitted_texts, labels)


def test_a_certificate_counts_a_cluster_once_and_leaves_out_copies_of_fitted_texts(
    fitted, fitted_texts, new_texts
):
    texts = [*copies(new_texts, 3), *copies(fitted_texts[:5], 2)]
    labels = fitted.predict(texts)

    certificate = certify(fitted, texts, labels, overlap="drop", repeats="copies", random_state=0)

    assert certificate.n == 30
    assert certificate.n_errors == 0
    assert certificate.n_duplicates == 60


def test_the_certificate_of_an_index_counts_a_cluster_of_queries_once(new_texts):
    index = Index(lambda rows: np.ones((len(rows), 2)), lexical=True)
    index.add(new_texts)
    answers = np.repeat(np.arange(30), 4).tolist()

    certificate = index.certify(copies(new_texts, 4), answers, k=3, repeats="copies")

    assert certificate.n == 30
    assert certificate.n_duplicates == 90


NOT_SEARCHED = "Near-copies of rows were not looked for."


def test_rows_of_numbers_are_not_searched_and_the_certificate_says_so():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 2, 200)
    model = CertifiedClassifier(LogisticRegression(), random_state=0).fit(X[:100], y[:100])
    new = np.vstack([X[100:], X[100:] + 1e-6])
    labels = np.tile(y[100:], 2)

    certificate = certify(model, new, labels)
    comparison = compare(model, model, new, labels)

    assert NOT_SEARCHED in model.certificate_.summary()
    assert NOT_SEARCHED in certificate.summary()
    assert "near-copies were not looked for" in str(comparison)


def test_the_certificate_of_texts_does_not_say_so():
    texts = draw_sentences(np.random.default_rng(4), 80)

    certificate = certify(errs_on(()), texts, right(texts))

    assert NOT_SEARCHED not in str(certificate)


@pytest.mark.slow
def test_a_stream_in_which_texts_repeat_raises_few_alarms():
    """Frequent texts are both fitted and seen again; calibration texts were never fitted."""
    rng = np.random.default_rng(5)
    pool = draw_sentences(rng, 500, n_words=6)
    labels = np.array(right(pool))
    weights = 1 / np.arange(1, 501)
    alarms = alarms_of_other_traffic = 0
    for seed in range(3):
        rows = rng.choice(500, 600, p=weights / weights.sum())
        texts = [pool[row] for row in rows]
        model = CertifiedClassifier(TextClassifier(None), random_state=seed)
        model.fit(texts, labels[rows])
        for _ in range(10):
            stream = [pool[row] for row in rng.choice(500, 300, p=weights / weights.sum())]
            monitor = DriftMonitor(model, random_state=seed)
            alarms += monitor.update(stream)
            assert monitor.n_seen == 300
            assert monitor.n_compared < 200

            # the negative control: the same texts, each equally often
            other_stream = [pool[row] for row in rng.choice(500, 300)]
            monitor = DriftMonitor(model, repeats="traffic", random_state=seed)
            alarms_of_other_traffic += monitor.update(other_stream)

    assert alarms <= 5  # of 30 at 5%: more than 5 have probability .3%
    assert alarms_of_other_traffic > 9


def draw_repeating(rng):
    """Texts and whether a classifier errs on them: wrong ones, a quarter, occur five times."""
    is_wrong = rng.random(150) < 0.25
    n_times = np.where(is_wrong, 5, 1)
    texts = np.array([f"t{i}a t{i}b" for i in range(150)])
    return np.repeat(texts, n_times).tolist(), np.repeat(is_wrong, n_times)


def test_the_bound_for_traffic_counts_texts_as_often_as_they_occur():
    rng = np.random.default_rng(5)
    rate = 5 / 8  # a quarter of the texts, five times
    n_broken = 0
    n_broken_for_distinct = 0
    for _ in range(200):
        texts, y_pred = draw_repeating(rng)
        y_true = np.zeros(len(texts), bool)

        bound = traffic_error_upper(y_true, y_pred, texts, max_repeats=5, random_state=0)
        n_broken += bound < rate

        # the negative control: the bound for distinct texts
        distinct = certify_predictions(
            y_true, y_pred, texts=texts, classes=[False, True], repeats="copies", random_state=0
        )
        n_broken_for_distinct += distinct.error_upper < rate

    assert n_broken <= 20
    assert n_broken_for_distinct == 200


def test_a_text_that_occurs_more_often_than_max_repeats_is_refused():
    texts, y_pred = draw_repeating(np.random.default_rng(5))
    y_true = np.zeros(len(texts), bool)

    with pytest.raises(ValueError, match="max_repeats must be at least 5"):
        traffic_error_upper(y_true, y_pred, texts, max_repeats=4)


@pytest.fixture
def rows():
    """Sixty texts and a copy of each."""
    texts = draw_sentences(np.random.default_rng(6), 60)
    return copies(texts, 2)


def test_a_certificate_of_one_sample_that_was_stored_before_is_read_as_that_of_distinct_texts(
    rows,
):
    labels = right(rows)
    new = certify_predictions(
        labels, labels, texts=rows, classes=["down", "up"], repeats="copies", random_state=0
    )
    stored = new.to_dict()
    for name in ("repeats", "sample", "other", "assumption"):
        del stored[name]

    old = ErrorCertificate.from_dict(stored)

    assert old == new
    assert old.repeats == "copies"
    assert old.verify(labels, rows, labels)


@pytest.fixture
def certificate(rows):
    """A certificate of both samples."""
    return certify_predictions(
        right(rows), ["up"] * 120, texts=rows, classes=["down", "up"], random_state=0
    )


def test_a_certificate_has_the_sample_of_traffic_and_that_of_distinct_texts(certificate):
    assert set(certificate.samples) == {"traffic", "copies"}


def test_verifying_without_texts_leaves_unchecked_which_sample_is_that_of_rows(certificate):
    assert "which sample is that of rows" in certificate.verify().unchecked


@pytest.mark.parametrize(
    "change", [{"sample": ""}, {"repeats": "traffic"}, {"other": {}}, {"other": {"n": 3}}], ids=str
)
def test_a_changed_sample_is_noticed(certificate, change):
    changed = dataclasses.replace(certificate, **change)

    with pytest.raises(ValueError, match="changed"):
        changed.verify()


@pytest.mark.parametrize(
    ("name", "value"), [("n_errors", lambda other: other["n"] + 1), ("n", lambda other: "many")]
)
def test_a_changed_count_of_the_other_sample_is_noticed(certificate, name, value):
    other = certificate.other
    changed = dataclasses.replace(certificate, other={**other, name: value(other)})

    with pytest.raises(ValueError, match="changed"):
        changed.verify()


def test_a_mean_that_only_one_of_two_samples_has_is_not_bounded():
    of_rows = {"error_upper": 0.1, "balanced_error_upper": None}
    of_texts = {"error_upper": 0.2, "balanced_error_upper": 0.3}

    combined = cautious(of_rows, of_texts)

    assert combined == {"error_upper": 0.2, "balanced_error_upper": None}
