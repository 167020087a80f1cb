"""What to label next, which labels are wrong, how many more, and reports."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, confusion_matrix, precision_recall_fscore_support

from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier, save
from pacsent.classify import LearningCurve, audit, next_to_label, suspicious_labels
from pacsent.classify.diagnostics import report
from pacsent.classify.label_quality import (
    _curve_posterior,
    audit_left_out,
    fit_holdout_curve,
    fit_learning_curve_left_out,
    out_of_fold_log_proba,
    predict_labels_left_out,
)

ENDS = ("rise", "pot", "bow", "side", "trail", "land", "room", "light")
NOUNS = [first + end for first in ("sun", "tea", "rain", "sea", "fox", "oak") for end in ENDS]
TEXTS = [
    " ".join([word, *np.random.default_rng([i, word == "lovely"]).permutation(NOUNS)[:5]])
    for i in range(36)
    for word in ("lovely", "boring")
]
LABELS = ["up", "down"] * 36


@pytest.fixture(scope="module")
def model():
    return TextClassifier(None).fit(TEXTS[:48], LABELS[:48])


def test_the_least_sure_texts_come_first_and_near_duplicates_once(model):
    texts = ["lovely lovely sunrise", "boring teapot", "lovely boring rainbow", "lovely seaside"]
    margins = np.ptp(model.predict_proba(texts), axis=1)
    assert next_to_label(model, texts, 1).tolist() == [int(np.argmin(margins))]
    same = [f"neither this nor that, said nobody{'!' * i}" for i in range(10)]
    texts = [*same, *TEXTS[48:]]
    chosen = next_to_label(model, texts, 6)
    assert sum(row < 10 for row in chosen) == 1 and len(set(chosen.tolist())) == 6
    assert all(row >= 10 for row in next_to_label(model, texts, 6, labelled=same[:1]))


def test_all_texts_where_there_are_few(model):
    assert sorted(next_to_label(model, TEXTS[:3], 9).tolist()) == [0, 1, 2]
    assert next_to_label(model, [], 9).size == 0
    assert len(set(next_to_label(model, ["a b c"] * 8, 5).tolist())) == 5  # all of one cluster


@pytest.mark.parametrize("start", [None, TextClassifier(None)])
def test_without_labels_every_cluster_has_one(start):
    topics = [" ".join(NOUNS[3 * t : 3 * t + 3]) for t in range(4)]
    texts = [f"{topic} {n}" for topic in topics for n in range(15)]
    for seed in range(3):
        chosen = next_to_label(start, texts, 4, random_state=seed)
        assert len({row // 15 for row in chosen.tolist()}) >= 3


def test_flipped_labels_are_the_most_suspicious():
    labels = list(LABELS)
    flipped = [3, 20, 41, 66]
    for row in flipped:
        labels[row] = {"up": "down", "down": "up"}[labels[row]]
    found = suspicious_labels(TEXTS, labels, model=TextClassifier(None))
    assert {one.row for one in found[:4]} == set(flipped)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[0].suggested == LABELS[found[0].row] and "probability" in found[0].reason


def test_a_rare_class_is_suggested_for_no_other_text():
    texts, labels = [*TEXTS, "odd oakbow", "odder foxpot"], [*LABELS, "rare", "rare"]
    suspicious = suspicious_labels(texts, labels, model=TextClassifier(None))
    assert len(suspicious) < 10 and "rare" not in {label.suggested for label in suspicious}


def test_a_near_duplicate_with_another_label_is_named():
    texts, labels = [*TEXTS, TEXTS[0] + "!"], [*LABELS, "down"]
    found = {one.row: one for one in suspicious_labels(texts, labels, model=TextClassifier(None))}
    assert "near-duplicate" in found[len(TEXTS)].reason
    assert found[len(TEXTS)].suggested == "up"
    with pytest.raises(ValueError, match="at least two"):
        suspicious_labels(["a b"] * 4, ["x", "x", "y", "y"], model=TextClassifier(None))


class FittedOnEachFold(TextClassifier):
    """A classifier that is not known to be one: it is fitted anew on each four of five folds."""


def own_words(n, n_classes=2):
    """Texts that share no word, with labels that follow from nothing: they can be learnt by heart.

    Every text is there twice, almost.
    """
    texts = [" ".join(f"word{i}x{k}" for k in range(8)) for i in range(n)]
    labels = np.random.default_rng(0).integers(n_classes, size=n)
    return [*texts, *(f"{text} too" for text in texts)], np.tile(labels, 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_label_is_predicted_by_its_own_text_or_a_near_duplicate(n_classes):
    texts, labels = own_words(150, n_classes)
    model = TextClassifier(None, characters=None)
    assert model.fit(texts, labels).score(texts, labels) > 0.95

    left_out = predict_labels_left_out(texts, labels, model)

    accuracy = (left_out.log_proba.argmax(axis=1) == labels).mean()
    assert accuracy < 1 / n_classes + 0.15
    assert np.array_equal(left_out.folds[:150], left_out.folds[150:])


def test_texts_left_out_are_predicted_as_by_fits_on_the_other_folds():
    rng = np.random.default_rng(1)
    texts = [f"{text} {' '.join(rng.choice(NOUNS, 4))}" for text in TEXTS * 3]
    clusters = np.arange(len(texts))
    y = np.array([label == "up" for label in LABELS * 3]).astype(np.int64)
    y[::9] = 1 - y[::9]

    once = out_of_fold_log_proba(texts, y, clusters, TextClassifier(None))
    five_fits = out_of_fold_log_proba(texts, y, clusters, FittedOnEachFold(None))

    assert (once.argmax(axis=1) == five_fits.argmax(axis=1)).mean() > 0.95
    assert np.abs(np.exp(once) - np.exp(five_fits)).mean() < 0.08
    assert np.allclose(np.exp(once).sum(axis=1), 1.0)


def test_a_class_without_two_texts_in_the_other_folds_has_probability_0():
    texts = [*TEXTS, "odd oakbow alone"]
    y = np.array([*(label == "up" for label in LABELS), 2]).astype(np.int64)

    log_p = out_of_fold_log_proba(texts, y, np.arange(len(texts)), TextClassifier(None))

    assert np.allclose(np.exp(log_p[:, 2]), 1e-9)
    assert np.allclose(np.exp(log_p[:, :2]).sum(axis=1), 1.0)


def test_audit_and_learning_curve_share_predictions():
    model = TextClassifier(None, characters=None)
    labels = [*LABELS[:-4], *LABELS[-4:][::-1]]
    left_out = predict_labels_left_out(TEXTS, labels, model)

    found = audit_left_out(left_out, model)
    curve = fit_learning_curve_left_out(left_out, model, 0)

    assert found.suspicious == suspicious_labels(TEXTS, labels, model=model)
    right = left_out.log_proba.argmax(axis=1) == left_out.labels.encoded
    assert curve.n_errors[-1] == (~right).sum()
    assert curve.n_tested[-1] == len(TEXTS)


def curve_of(a, b, c, n=400):
    """A curve whose errors are known."""
    return LearningCurve(n, *np.ones((3, 1)), np.array([[c + a * n**-b, b, c]]))


def test_answers_of_a_known_curve():
    curve = curve_of(2.0, 0.5, 0.02)
    assert curve.error_at(1600)[1] == pytest.approx(0.02 + 2 / 40)
    assert curve.labels_for(0.07)[1] == pytest.approx(1600, abs=1)
    assert curve.labels_for(0.02)[1] == np.inf
    assert curve.summary(0.07) == (
        "An error rate of 7.0% needs about 1,200 more labels (1,200 to 1,200)."
    )
    assert "enough" in curve.summary(0.5) and "labels at hand, hold out" in str(curve)
    levels = f"levels off at about {0.02 + 2 / np.sqrt(20 * 400):.1%}"
    assert levels in curve.summary(0.01)  # no number of labels reaches it
    assert levels in curve.summary(0.03)  # 40,000 labels would, by a curve from 400
    share, bound = curve.best_calibration_size()
    assert 0.1 < share < 0.5 and bound > curve.error_at(400)[1]
    assert curve.calibration_cost(300)[1] == pytest.approx(2 / 10 - 2 / 20)
    assert curve.describe_calibration_cost(300) == (
        "Holding out 300 of 400 labels costs about 10.0 points of accuracy (10.0 to 10.0), by the "
        "errors of fits on 1 and 1 labels."
    )


class PowerLaw(BaseEstimator):
    """A classifier whose error is 4 n^-b, as its out-of-fold predictions show."""

    def __init__(self, b=0.5):
        self.b = b

    def fit(self, texts, labels, groups=None):
        n = len(texts)
        wrong = np.arange(n) < 0.2 * n * (n / 400) ** -self.b
        proba = np.where(wrong[:, None], [0.1, 0.9], [0.9, 0.1])
        self.selection_, self.out_of_fold_ = {"n_texts": n}, (np.log(proba), np.zeros(n, int))
        return self


def test_the_cost_of_holding_out_follows_from_out_of_fold_errors():
    medians = []
    for b in (0.0, 0.5, 0.9):
        part = PowerLaw(b).fit(["text"] * 2_000, None)
        curve = fit_holdout_curve(part, ["text"] * 4_000, [0] * 4_000)
        assert curve.sizes.tolist() == [2_000, 4_000]
        low, middle, high = curve.calibration_cost(2_000)
        true_cost = 0.2 * (5**-b - 10**-b)
        assert low <= true_cost + 0.004 and high >= true_cost
        medians.append(middle)
    assert medians[0] < 0.015 and medians[1] > 2 * medians[0]


def test_the_posterior_finds_the_curve_that_errors_come_from(rng):
    sizes = np.array([25.0, 50.0, 100.0, 200.0])
    inside = 0
    for _ in range(20):
        tested = np.full(4, 250)
        wrong = rng.binomial(tested, 0.05 + 1.0 * sizes**-0.5)
        draws = _curve_posterior(sizes, tested, wrong, 250, rng)
        curve = LearningCurve(250, sizes, tested, wrong, draws)
        low, _, high = curve.error_at(1000)
        inside += low <= 0.05 + 1000**-0.5 <= high
    assert inside >= 16


def test_a_report_has_the_numbers_of_scikit_learn(model):
    labels = np.array(LABELS[48:])
    labels[:5] = "up"
    found = model.report(TEXTS[48:], labels)
    said = model.predict(TEXTS[48:])
    assert found.confusion.tolist() == confusion_matrix(labels, said).tolist()
    precision, recall, f1, n = precision_recall_fscore_support(labels, said)
    for at, row in enumerate(found.per_class()):
        assert (row["precision"], row["recall"], row["f1"], row["texts"]) == pytest.approx(
            (precision[at], recall[at], f1[at], n[at])
        )
        for name in ("precision", "recall", "f1"):
            low, high = row[f"{name}_interval"]
            assert low <= row[name] <= high
    proba = model.predict_proba(TEXTS[48:])
    # scikit-learn's counts one class of two, ours both
    assert found.brier == pytest.approx(2 * brier_score_loss(labels == "up", proba[:, 1]))
    covered, risk = found.risk_coverage()
    assert covered[-1] == 1 and risk[-1] == pytest.approx(1 - found.accuracy)
    assert 0 <= found.ece <= 1


def test_a_report_is_one_page_without_script(model):
    curve = curve_of(2.0, 0.5, 0.02)
    hostile = report(model, ["lovely <script>alert(1)</script>"], ["up"], curve=curve)
    page = hostile.to_html("<b>")
    assert page.count("<svg") == page.count("<figcaption") == (3 if find_spec("altair") else 0)
    assert "not of the model above" in page and ">nan" not in page
    assert "<script" not in page and "&lt;b&gt;" in page
    assert hostile._repr_html_().startswith("<!doctype html>")
    assert "accuracy" in str(hostile) and json.dumps(hostile.to_dict())
    certified = CertifiedClassifier(model, prefit=True).calibrate(TEXTS[48:], LABELS[48:])
    found = certified.report([*TEXTS[:10], "dull <b>film</b>"], [*LABELS[:10], "up"])
    assert found.n == 11 and found.errors[0]["text"] == "dull <b>film</b>"
    page = found.to_html()
    assert certified.certificate_.summary() in page and "dull &lt;b&gt;film" in page


def test_an_audit_finds_copies_and_empty_texts_and_is_a_section_of_the_report(model):
    texts = [*TEXTS, TEXTS[0], TEXTS[1] + " <img>", "…", "film"]
    found = audit(texts, [*LABELS, "up", "down", "up", "down"], model=TextClassifier(None))
    n = len(TEXTS)
    assert found.duplicates == [[0, n]] and [1, n + 1] in found.near_duplicates
    assert found.empty == [n + 2] and found.counts == {"down": 38, "up": 37}
    page = report(model, texts[:4], LABELS[:4], audit=found).to_html()
    assert "<img" not in page and "&lt;img" in page and "<script" not in page
    assert "<details open>" in page and "<details>" not in page  # readable without clicks
    assert "corrected where the classifier disagrees" in page


def test_rows_found_by_commands_are_counted_from_1_and_have_their_ids(tmp_path, model):
    labels = [*LABELS[:-1], "up" if LABELS[-1] == "down" else "down"]  # the last is wrong
    last = len(labels)
    data = tmp_path / "data.csv"
    lines = [f"id{row},{t},{c}\n" for row, (t, c) in enumerate(zip(TEXTS, labels), start=1)]
    data.write_text("id,text,label\n" + "".join(lines))
    save(model, tmp_path / "model")

    how = ("--encoder", "none", "--all", "--random-state", 0, "--id-column", "id")
    assert f"Row {last:,} (id{last}): {labels[-1]}" in invoke("audit", data, *how, status=0).stdout
    found = json.loads(invoke("audit", data, *how, "--json", status=0).stdout)["suspicious"]
    assert (found[0]["row"], found[0]["id"]) == (last, f"id{last}")

    page = tmp_path / "page.html"
    how = ("-o", page, "--id-column", "id", "--audit", "--json", "--quiet")
    numbers = json.loads(invoke("report", tmp_path / "model", data, *how, status=0).stdout)
    assert last in [item["row"] for item in numbers["audit"]["suspicious"]]
    assert f"Row {last:,} (id{last}): {labels[-1]}" in page.read_text(encoding="utf-8")


def test_commands_write_pages(tmp_path, model):
    data = tmp_path / "data.csv"
    data.write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in zip(TEXTS, LABELS)))
    save(model, tmp_path / "model")
    line = ["report", tmp_path / "model", data, "-o", tmp_path / "page.html"]
    assert "Suspicious labels: 0" in invoke(*line, "--audit", status=0).stdout
    assert "exists" in invoke(*line, status=1).stderr
    done = invoke(*line, "--overwrite", "--json", "--quiet", status=0)
    assert json.loads(done.stdout)["n"] == len(TEXTS)
