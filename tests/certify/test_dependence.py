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

SYLLABLES = ("ba", "ko", "li", "mu", "ne", "po", "ra", "su", "ti", "ze")
WORDS = np.array([first + second for first in SYLLABLES for second in SYLLABLES])


def sentences(rng, n, n_words=12):
    return [" ".join(rng.choice(WORDS, n_words)) for _ in range(n)]


def copies(texts, n):
    """Each text and n - 1 copies of it with another last word."""
    return [
        " ".join([*text.split()[:-1], text.split()[-1] if i == 0 else f"copy{i}"])
        for text in texts
        for i in range(n)
    ]


def right(texts):
    return ["up" if text < "m" else "down" for text in texts]


def errs_on(starts):
    """A classifier that is wrong about texts that start with these words, and their copies."""
    other = {"up": "down", "down": "up"}
    return lambda texts: [
        other[label] if text.split()[0] in starts else label
        for text, label in zip(texts, right(texts))
    ]


@pytest.mark.slow
def test_copies_do_not_make_equal_classifiers_differ():
    rng = np.random.default_rng(0)
    found, counted_all = [], []
    for _ in range(60):
        texts = copies(sentences(rng, 60), 5)
        a, b = (errs_on(set(rng.choice(WORDS, 25, replace=False))) for _ in range(2))
        comparison = compare(a, b, texts, right(texts), repeats="copies", random_state=0)
        assert (comparison.n, comparison.n_duplicates) == (60, 240)
        found.append(comparison.p_value <= 0.05)
        is_right = [np.equal(model(texts), right(texts)) for model in (a, b)]
        only = [int((x > y).sum()) for x, y in (is_right, is_right[::-1])]
        counted_all.append(Comparison(300, *only, 0.05).p_value <= 0.05)
    assert sum(found) <= 9  # of 60 at 5%: more with probability below .3%
    assert sum(counted_all) > 15  # the simulation can tell
    assert "Repeats: 240 near-duplicates not counted" in str(comparison)
    assert "not checked: the classifier does not record" in str(comparison)


def test_agreement_and_search_count_a_cluster_once_and_refuse_fitted_texts():
    texts, others = (sentences(np.random.default_rng(seed), n) for seed, n in ((1, 40), (2, 30)))
    fitted = TextClassifier(None).fit(texts, ["up", "down"] * 20)
    with pytest.raises(ValueError, match="40 of these 40 were among the texts it was fitted on"):
        certify(fitted, texts, fitted.predict(texts))
    new = [*copies(others, 3), *copies(texts[:5], 2)]
    how = {"repeats": "copies", "random_state": 0}
    certificate = certify(fitted, new, fitted.predict(new), overlap="drop", **how)
    assert (certificate.n, certificate.n_errors, certificate.n_duplicates) == (30, 0, 60)
    index = Index(lambda rows: np.ones((len(rows), 2)), lexical=True)
    index.add(others)
    answers = np.repeat(np.arange(30), 4).tolist()
    certificate = index.certify(copies(others, 4), answers, k=3, repeats="copies")
    assert (certificate.n, certificate.n_duplicates) == (30, 90)


def test_rows_of_numbers_are_not_searched_and_the_certificate_says_so():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    model = CertifiedClassifier(LogisticRegression(), random_state=0).fit(X[:100], y[:100])
    new, labels = np.vstack([X[100:], X[100:] + 1e-6]), np.tile(y[100:], 2)
    note = "Near-copies of rows were not looked for."
    assert all(note in made.summary() for made in (model.certificate_, certify(model, new, labels)))
    assert "near-copies were not looked for" in str(compare(model, model, new, labels))
    texts = sentences(rng, 80)
    assert note not in str(certify(errs_on(()), texts, right(texts)))


@pytest.mark.slow
def test_a_stream_in_which_texts_repeat_raises_few_alarms():
    """Frequent texts are both fitted and seen again; calibration texts were never fitted."""
    rng = np.random.default_rng(5)
    pool = sentences(rng, 500, n_words=6)
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


def test_the_bound_for_traffic_counts_texts_as_often_as_they_occur():
    rng = np.random.default_rng(5)
    broken, broken_for_distinct = [], []
    for _ in range(200):  # wrong texts repeat five times: 1/4 of the texts, 5/8 of the traffic
        is_wrong = rng.random(150) < 0.25
        texts = [
            f"t{i}a t{i}b" for i, wrong in enumerate(is_wrong) for _ in range(5 if wrong else 1)
        ]
        y_pred = np.repeat(is_wrong, np.where(is_wrong, 5, 1))
        y_true = np.zeros(len(texts), bool)
        options = {"max_repeats": 5, "random_state": 0}
        broken.append(traffic_error_upper(y_true, y_pred, texts, **options) < 0.625)
        distinct = certify_predictions(
            y_true, y_pred, texts=texts, classes=[False, True], repeats="copies", random_state=0
        )
        broken_for_distinct.append(distinct.error_upper < 0.625)
    assert np.mean(broken) <= 0.1 and np.mean(broken_for_distinct) == 1.0
    with pytest.raises(ValueError, match="max_repeats must be at least 5"):
        traffic_error_upper(y_true, y_pred, texts, max_repeats=4)


def test_a_certificate_of_one_sample_that_was_stored_before_is_read_as_that_of_distinct_texts():
    texts = sentences(np.random.default_rng(6), 60)
    rows = copies(texts, 2)
    how = {"texts": rows, "classes": ["down", "up"], "random_state": 0}
    new = certify_predictions(right(rows), right(rows), repeats="copies", **how)
    stored = new.to_dict()
    for name in ("repeats", "sample", "other", "assumption"):
        del stored[name]

    old = ErrorCertificate.from_dict(stored)

    assert old == new and old.repeats == "copies"
    assert old.verify(right(rows), rows, right(rows))


def test_a_changed_sample_or_count_of_the_other_sample_is_noticed():
    rows = copies(sentences(np.random.default_rng(7), 60), 2)
    certificate = certify_predictions(
        right(rows), ["up"] * 120, texts=rows, classes=["down", "up"], random_state=0
    )
    assert "which sample is that of rows" in certificate.verify().unchecked
    assert set(certificate.samples) == {"traffic", "copies"}
    other = certificate.other
    for change in (
        {"sample": ""},
        {"repeats": "traffic"},
        {"other": {}},
        {"other": {**other, "n_errors": other["n"] + 1}},
        {"other": {**other, "n": "many"}},
        {"other": {"n": 3}},
    ):
        with pytest.raises(ValueError, match="changed"):
            dataclasses.replace(certificate, **change).verify()
