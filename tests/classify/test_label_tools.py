"""What to label next, which labels are wrong, how many more, and reports."""

import json
import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import brier_score_loss, confusion_matrix, precision_recall_fscore_support

from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier, save
from pacsent.classify import LearningCurve, audit, next_to_label, suspicious_labels
from pacsent.classify.diagnostics import report, report_predictions
from pacsent.classify.label_quality import (
    _curve_posterior,
    audit_left_out,
    fit_holdout_curve,
    fit_learning_curve_left_out,
    out_of_fold_log_proba,
    predict_labels_left_out,
)
from pacsent.classify.label_reports import Audit, SuspiciousLabel

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


def test_the_least_sure_text_comes_first(model):
    texts = ["lovely lovely sunrise", "boring teapot", "lovely boring rainbow", "lovely seaside"]
    margins = np.ptp(model.predict_proba(texts), axis=1)

    assert next_to_label(model, texts, 1).tolist() == [int(np.argmin(margins))]


SAME = [f"neither this nor that, said nobody{'!' * i}" for i in range(10)]


def test_one_of_several_near_duplicates_is_chosen(model):
    chosen = next_to_label(model, [*SAME, *TEXTS[48:]], 6)

    assert sum(row < 10 for row in chosen) == 1
    assert len(set(chosen.tolist())) == 6


def test_near_duplicates_of_labelled_texts_are_not_chosen(model):
    chosen = next_to_label(model, [*SAME, *TEXTS[48:]], 6, labelled=SAME[:1])

    assert min(chosen) >= 10


def test_all_texts_are_chosen_if_there_are_few(model):
    assert sorted(next_to_label(model, TEXTS[:3], 9).tolist()) == [0, 1, 2]


def test_nothing_is_chosen_of_no_text(model):
    assert next_to_label(model, [], 9).size == 0


def test_texts_of_one_cluster_are_chosen_if_there_are_no_others(model):
    chosen = next_to_label(model, ["a b c"] * 8, 5)

    assert len(set(chosen.tolist())) == 5


@pytest.mark.parametrize("start", [None, TextClassifier(None)])
@pytest.mark.parametrize("seed", range(3))
def test_without_labels_every_cluster_has_one(start, seed):
    topics = [" ".join(NOUNS[3 * topic : 3 * topic + 3]) for topic in range(4)]
    texts = [f"{topic} {n}" for topic in topics for n in range(15)]

    chosen = next_to_label(start, texts, 4, random_state=seed)

    chosen_topics = {row // 15 for row in chosen.tolist()}
    assert len(chosen_topics) >= 3


OTHER_LABEL = {"up": "down", "down": "up"}


def test_flipped_labels_are_the_most_suspicious():
    flipped_rows = [3, 20, 41, 66]
    labels = list(LABELS)
    for row in flipped_rows:
        labels[row] = OTHER_LABEL[labels[row]]

    suspicious = suspicious_labels(TEXTS, labels, model=TextClassifier(None))

    scores = [suspicion.score for suspicion in suspicious]
    first = suspicious[0]
    assert {suspicion.row for suspicion in suspicious[:4]} == set(flipped_rows)
    assert scores == sorted(scores, reverse=True)
    assert first.suggested == LABELS[first.row]
    assert "probability" in first.reason


def test_a_rare_class_is_suggested_for_no_other_text():
    texts = [*TEXTS, "odd oakbow", "odder foxpot"]
    labels = [*LABELS, "rare", "rare"]

    suspicious = suspicious_labels(texts, labels, model=TextClassifier(None))

    assert len(suspicious) < 10
    assert "rare" not in {suspicion.suggested for suspicion in suspicious}


def test_a_near_duplicate_with_another_label_is_named():
    texts = [*TEXTS, TEXTS[0] + "!"]
    labels = [*LABELS, "down"]

    suspicious = suspicious_labels(texts, labels, model=TextClassifier(None))

    by_row = {suspicion.row: suspicion for suspicion in suspicious}
    suspicion = by_row[len(TEXTS)]
    assert "near-duplicate" in suspicion.reason
    assert suspicion.suggested == "up"


def test_suspicious_labels_need_two_distinct_texts_per_class():
    with pytest.raises(ValueError, match="at least two"):
        suspicious_labels(["a b"] * 4, ["x", "x", "y", "y"], model=TextClassifier(None))


class FittedOnEachFold(TextClassifier):
    """A classifier that is not known to be one: it is fitted anew on each four of five folds."""


def draw_own_words(n, n_classes=2):
    """Texts that share no word, with labels that follow from nothing: they can be learnt by heart.

    Every text is there twice, almost.
    """
    texts = []
    for i in range(n):
        words = [f"word{i}x{k}" for k in range(8)]
        texts.append(" ".join(words))
    labels = np.random.default_rng(0).integers(n_classes, size=n)
    copies = [f"{text} too" for text in texts]
    return texts + copies, np.tile(labels, 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_label_is_predicted_by_its_own_text_or_a_near_duplicate(n_classes):
    texts, labels = draw_own_words(150, n_classes)
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


def make_curve(a, b, c, n=400):
    """A learning curve of n labels whose errors c + a n^-b are known."""
    draws = np.array([[c + a * n**-b, b, c]])
    return LearningCurve(n, *np.ones((3, 1)), draws)


@pytest.fixture
def known_curve():
    """The error is 0.02 + 2 / sqrt(n)."""
    return make_curve(2.0, 0.5, 0.02)


def test_the_error_of_a_known_curve(known_curve):
    _, middle, _ = known_curve.error_at(1600)

    assert middle == pytest.approx(0.02 + 2 / 40)


def test_the_labels_for_an_error_of_a_known_curve(known_curve):
    assert known_curve.labels_for(0.07)[1] == pytest.approx(1600, abs=1)
    assert known_curve.labels_for(0.02)[1] == np.inf


def test_the_summary_of_a_known_curve(known_curve):
    sentence = "An error rate of 7.0% needs about 1,200 more labels (1,200 to 1,200)."

    assert known_curve.summary(0.07) == sentence
    assert "enough" in known_curve.summary(0.5)
    assert "labels at hand, hold out" in str(known_curve)


@pytest.mark.parametrize("error", [0.01, 0.03])
def test_a_curve_levels_off_at_twenty_times_its_labels(known_curve, error):
    """No number of labels reaches 0.01; 40,000 would reach 0.03, by a curve from 400."""
    level = 0.02 + 2 / np.sqrt(20 * 400)

    assert f"levels off at about {level:.1%}" in known_curve.summary(error)


def test_the_best_calibration_size_of_a_known_curve(known_curve):
    fraction, bound = known_curve.best_calibration_size()

    assert 0.1 < fraction < 0.5
    assert bound > known_curve.error_at(400)[1]


def test_the_cost_of_calibration_of_a_known_curve(known_curve):
    _, middle, _ = known_curve.calibration_cost(300)

    assert middle == pytest.approx(2 / 10 - 2 / 20)
    assert known_curve.describe_calibration_cost(300) == (
        "Holding out 300 of 400 labels costs about 10.0 points of accuracy (10.0 to 10.0), by the "
        "errors of fits on 1 and 1 labels."
    )


class PowerLaw(BaseEstimator):
    """A classifier whose error is 4 n^-b, as its out-of-fold predictions show."""

    def __init__(self, b=0.5):
        self.b = b

    def fit(self, texts, labels, groups=None):
        n = len(texts)
        error = 0.2 * (n / 400) ** -self.b
        is_wrong = np.arange(n) < n * error
        proba = np.where(is_wrong[:, None], [0.1, 0.9], [0.9, 0.1])
        self.selection_ = {"n_texts": n}
        self.out_of_fold_ = np.log(proba), np.zeros(n, int)
        return self


def fit_power_law_curve(b):
    part = PowerLaw(b).fit(["text"] * 2_000, None)
    return fit_holdout_curve(part, ["text"] * 4_000, [0] * 4_000)


@pytest.mark.parametrize("b", [0.0, 0.5, 0.9])
def test_the_cost_of_holding_out_follows_from_out_of_fold_errors(b):
    curve = fit_power_law_curve(b)

    low, _, high = curve.calibration_cost(2_000)

    true_cost = 0.2 * (5**-b - 10**-b)
    assert curve.sizes.tolist() == [2_000, 4_000]
    assert low <= true_cost + 0.004
    assert high >= true_cost


def test_holding_out_costs_more_if_errors_decrease():
    _, without_decrease, _ = fit_power_law_curve(0.0).calibration_cost(2_000)
    _, with_decrease, _ = fit_power_law_curve(0.5).calibration_cost(2_000)

    assert without_decrease < 0.015
    assert with_decrease > 2 * without_decrease


def test_the_posterior_finds_the_curve_that_errors_come_from(rng):
    sizes = np.array([25.0, 50.0, 100.0, 200.0])
    n_tested = np.full(4, 250)
    n_inside = 0

    for _ in range(20):
        n_errors = rng.binomial(n_tested, 0.05 + 1.0 * sizes**-0.5)
        draws = _curve_posterior(sizes, n_tested, n_errors, 250, rng)
        curve = LearningCurve(250, sizes, n_tested, n_errors, draws)
        low, _, high = curve.error_at(1000)
        n_inside += low <= 0.05 + 1000**-0.5 <= high

    assert n_inside >= 16


class Reported:
    """A report on 24 texts of which the first five are labelled "up"."""

    def __init__(self, model):
        self.labels = np.array(LABELS[48:])
        self.labels[:5] = "up"
        self.predictions = model.predict(TEXTS[48:])
        self.proba = model.predict_proba(TEXTS[48:])
        self.report = model.report(TEXTS[48:], self.labels)


@pytest.fixture
def reported(model):
    return Reported(model)


def test_a_report_has_the_confusion_matrix_of_scikit_learn(reported):
    expected = confusion_matrix(reported.labels, reported.predictions)

    assert reported.report.confusion.tolist() == expected.tolist()


def test_a_report_has_precision_recall_and_f1_of_scikit_learn(reported):
    scores = precision_recall_fscore_support(reported.labels, reported.predictions)
    rows = reported.report.per_class()

    names = ("precision", "recall", "f1", "texts")
    for name, expected in zip(names, scores):
        assert [row[name] for row in rows] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["precision", "recall", "f1"])
def test_a_report_has_intervals_around_its_scores(reported, name):
    for row in reported.report.per_class():
        low, high = row[f"{name}_interval"]
        assert low <= row[name] <= high


def test_a_report_has_the_brier_score_of_scikit_learn(reported):
    is_up = reported.labels == "up"

    # scikit-learn's counts one class of two, ours both.
    expected = 2 * brier_score_loss(is_up, reported.proba[:, 1])
    assert reported.report.brier == pytest.approx(expected)


def test_a_report_has_risk_by_coverage_and_calibration(reported):
    coverage, risk = reported.report.risk_coverage()

    assert coverage[-1] == 1
    assert risk[-1] == pytest.approx(1 - reported.report.accuracy)
    assert 0 <= reported.report.ece <= 1


@pytest.fixture
def hostile_report(model):
    """A report on a text with a script, with a learning curve."""
    texts = ["lovely <script>alert(1)</script>"]
    return report(model, texts, ["up"], curve=make_curve(2.0, 0.5, 0.02))


def test_a_report_is_one_page_without_script(hostile_report):
    page = hostile_report.to_html("<b>")

    n_figures = 3 if find_spec("altair") else 0
    assert page.count("<svg") == page.count("<figcaption") == n_figures
    assert "not of the model above" in page
    assert ">nan" not in page
    assert "<script" not in page
    assert "&lt;b&gt;" in page


@pytest.fixture
def measured_curve():
    """A curve of 400 labels that is known, and errors that were measured at four sizes."""
    sizes = np.array([50, 100, 200, 320])
    n_tested = np.full(4, 100)
    n_errors = np.array([31, 22, 16, 13])
    return replace(make_curve(2.0, 0.5, 0.02), sizes=sizes, n_tested=n_tested, n_errors=n_errors)


def paths_of(figure, mark):
    """The outlines of the marks of this kind in an SVG."""
    groups = re.findall(rf'<g class="mark-{mark}[^>]*>(.*?)</g>', figure, flags=re.DOTALL)
    return re.findall(r' d="([^"]*)"', "".join(groups))


@pytest.mark.skipif(not find_spec("altair"), reason="needs Altair")
@pytest.mark.parametrize("mark", ["line", "area"])
def test_the_learning_curve_has_no_gaps_where_errors_were_measured(model, measured_curve, mark):
    drawn = report(model, ["a text"], ["up"], curve=measured_curve)

    *_, figure = drawn.figures()

    (path,) = paths_of(figure, mark)
    assert path.count("M") == 1  # one piece


@pytest.mark.skipif(not find_spec("altair"), reason="needs Altair")
def test_the_figures_of_a_report_have_one_size(model, measured_curve):
    drawn = report(model, ["a text"], ["up"], curve=measured_curve)

    sizes = re.findall(r'viewBox="([^"]*)"', "".join(drawn.figures()))

    assert len(sizes) == 3
    assert len(set(sizes)) == 1


def test_a_report_has_other_forms(hostile_report):
    assert hostile_report._repr_html_().startswith("<!doctype html>")
    assert "accuracy" in str(hostile_report)
    assert json.dumps(hostile_report.to_dict())


def test_a_report_on_a_certified_classifier_has_its_certificate(model):
    certified = CertifiedClassifier(model, prefit=True).calibrate(TEXTS[48:], LABELS[48:])
    texts = [*TEXTS[:10], "dull <b>film</b>"]

    result = certified.report(texts, [*LABELS[:10], "up"])

    page = result.to_html()
    assert result.n == 11
    assert result.errors[0]["text"] == "dull <b>film</b>"
    assert certified.certificate_.summary() in page
    assert "dull &lt;b&gt;film" in page


def test_the_page_of_a_report_warns_of_texts_that_the_model_was_fitted_on(model):
    texts = [TEXTS[0], TEXTS[1], "a text that is new"]

    result = report(model, texts, [*LABELS[:2], "up"])

    warning = "2 of the 3 texts equal one that the model was fitted on"
    assert result.n_fitted == 2
    assert f"This accuracy is too high: {warning}" in result.to_html()


def test_one_row_that_was_left_out_is_singular(hostile_report):
    note = replace(hostile_report, n_left_out=1).describe_overlap()

    assert note == "1 of 2 rows was left out: the model was fitted on it. Measured on the other 1."


def test_the_page_of_a_report_on_new_texts_has_no_such_warning(hostile_report):
    assert hostile_report.n_fitted == 0
    assert "This accuracy is too high" not in hostile_report.to_html()


class Audited:
    """Texts with a copy, a near-duplicate and an empty text, and what an audit finds in them."""

    def __init__(self):
        self.texts = [*TEXTS, TEXTS[0], TEXTS[1] + " <img>", "…", "film"]
        labels = [*LABELS, "up", "down", "up", "down"]
        self.result = audit(self.texts, labels, model=TextClassifier(None))


@pytest.fixture(scope="module")
def audited():
    return Audited()


def test_an_audit_finds_copies_and_empty_texts(audited):
    n = len(TEXTS)

    assert audited.result.duplicates == [[0, n]]
    assert [1, n + 1] in audited.result.near_duplicates
    assert audited.result.empty == [n + 2]
    assert audited.result.counts == {"down": 38, "up": 37}


def test_an_audit_is_a_section_of_the_report(model, audited):
    page = report(model, audited.texts[:4], LABELS[:4], audit=audited.result).to_html()

    assert "corrected where the classifier disagrees" in page
    assert "&lt;img" in page
    assert "<img" not in page
    assert "<script" not in page


def test_the_list_of_suspicious_labels_opens_with_one_click(model, audited):
    page = report(model, audited.texts[:4], LABELS[:4], audit=audited.result).to_html()

    assert '<details class="list"><summary>Suspicious labels' in page
    assert "<details open>" in page  # each text of the list
    assert "<details>" not in page


@pytest.fixture
def audit_of_two(model):
    """An audit of a file without its first row; of two suspicious labels one was fitted."""
    texts = [TEXTS[5], "a text that is new", TEXTS[6]]
    reviewed = suspicions_of([0, 1])
    nothing = {"duplicates": [], "near_duplicates": [], "empty": [], "unknown": []}
    return Audit(texts, ["up"] * 3, {"up": 3}, reviewed, **nothing, rows=[1, 2, 3])


def suspicions_of(rows):
    """Suspicious labels of these rows."""
    return [SuspiciousLabel(row, "up", "down", 2.0, "a reason") for row in rows]


def test_a_report_names_the_rows_whose_labels_may_be_corrected(model, audit_of_two):
    result = report(model, TEXTS[48:], LABELS[48:], audit=audit_of_two)

    assert "Correct training labels only: row 2." in result.to_html()


def test_an_audit_names_small_classes_whose_suspicious_labels_are_less_certain(audit_of_two):
    counts = {"up": 300, "down": 7, "sideways": 3}

    audited = replace(audit_of_two, counts=counts)

    assert audited.to_dict()["small_classes"] == {"down": 7}
    assert "down has 7 texts: suspicious labels of so small a class" in audited.how_to_read()


def test_an_audit_of_large_classes_only_says_how_to_read_the_list(audit_of_two):
    audited = replace(audit_of_two, counts={"up": 300, "down": 20})

    advice = "The most suspicious labels come first: stop where you agree with the labels."
    assert audited.how_to_read() == advice


def test_a_report_says_how_to_read_the_list_of_suspicious_labels(model, audit_of_two):
    page = report(model, TEXTS[48:], LABELS[48:], audit=audit_of_two).to_html()

    assert "stop where you agree with the labels" in page


def test_a_label_of_a_text_with_a_copy_is_not_to_be_corrected(model):
    texts = [TEXTS[5], TEXTS[6], TEXTS[6]]
    nothing = {"duplicates": [[1, 2]], "near_duplicates": [], "empty": [], "unknown": []}
    audited = Audit(texts, ["up"] * 3, {"up": 3}, suspicions_of([0, 1]), **nothing)

    result = report(model, TEXTS[48:], LABELS[48:], audit=audited)

    assert result.correctable == [0]


def test_a_report_says_if_no_suspicious_label_is_of_a_training_text(model, audit_of_two):
    only_new = replace(audit_of_two, suspicious=suspicions_of([1]))

    result = report(model, TEXTS[48:], LABELS[48:], audit=only_new)

    assert "Correct training labels only: none of these is one." in result.to_html()


class WithOneError:
    """A table with ids in which the last of the labels is wrong, as a file."""

    def __init__(self, folder):
        self.labels = list(LABELS)
        self.labels[-1] = OTHER_LABEL[self.labels[-1]]
        self.n = len(self.labels)
        self.line = f"Row {self.n:,} (id{self.n}): {self.labels[-1]}"

        self.path = folder / "data.csv"
        rows = enumerate(zip(TEXTS, self.labels), start=1)
        lines = [f"id{row},{text},{label}\n" for row, (text, label) in rows]
        self.path.write_text("id,text,label\n" + "".join(lines))


AUDIT_OPTIONS = ("--encoder", "none", "--all", "--random-state", 0, "--id-column", "id")


def test_a_row_is_printed_by_audit_with_its_number_from_1_and_its_id(tmp_path):
    table = WithOneError(tmp_path)

    done = invoke("audit", table.path, *AUDIT_OPTIONS, status=0)

    assert f"{table.n} (id{table.n})" in done.stdout


def test_an_audit_in_the_shell_says_how_to_read_the_list(tmp_path):
    table = WithOneError(tmp_path)

    done = invoke("audit", table.path, *AUDIT_OPTIONS, status=0)

    assert "stop where you agree with the labels" in done.stdout


def test_a_row_is_given_by_audit_with_its_number_from_1_and_its_id(tmp_path):
    table = WithOneError(tmp_path)

    done = invoke("audit", table.path, *AUDIT_OPTIONS, "--json", status=0)

    first = json.loads(done.stdout)["suspicious"][0]
    assert (first["row"], first["id"]) == (table.n, f"id{table.n}")


def test_a_row_is_reported_with_its_number_from_1_and_its_id(tmp_path, model):
    table = WithOneError(tmp_path)
    save(model, tmp_path / "model")
    page = tmp_path / "page.html"
    options = ("-o", page, "--id-column", "id", "--audit", "--json", "--quiet")

    done = invoke("report", tmp_path / "model", table.path, *options, status=0)

    rows = [suspicion["row"] for suspicion in json.loads(done.stdout)["audit"]["suspicious"]]
    assert table.n in rows
    assert table.line in page.read_text(encoding="utf-8")


@pytest.fixture
def report_command(tmp_path, model):
    """The words of a command that writes a report."""
    data = tmp_path / "data.csv"
    lines = [f"{text},{label}\n" for text, label in zip(TEXTS, LABELS)]
    data.write_text("text,label\n" + "".join(lines))
    save(model, tmp_path / "model")
    return ["report", tmp_path / "model", data, "-o", tmp_path / "page.html"]


def test_a_report_in_the_shell_has_an_audit(report_command):
    assert "Suspicious labels: 0" in invoke(*report_command, "--audit", status=0).stdout


def test_a_report_is_overwritten_in_the_shell_only_if_asked_for(report_command):
    invoke(*report_command, status=0)

    refused = invoke(*report_command, status=1)
    overwritten = invoke(*report_command, "--overwrite", "--json", "--quiet", status=0)

    assert "exists" in refused.stderr
    assert json.loads(overwritten.stdout)["n"] == len(TEXTS[48:])  # the others were fitted


def test_a_report_of_predictions_without_probabilities_is_a_page():
    labels = ["good", "bad", "good"] * 5
    predictions = ["good", "good", "good"] * 5
    report = report_predictions(labels, predictions, texts=["one text"] * 15)

    page = report.to_html()

    assert "Accuracy 0.667" in page
    assert "Wrong answers (5 of 5)" in page
    assert "Brier" not in page
    assert "<figure>" not in page


def test_wrong_answers_are_folded_after_the_first_five():
    labels = ["good"] * 12 + ["bad"] * 3
    predictions = ["bad"] * 12 + ["bad"] * 3
    result = report_predictions(labels, predictions, texts=["one text"] * 15)

    page = result.to_html()

    shown, _, folded = page.partition("<summary>7 more</summary>")
    assert shown.count("good, predicted bad") == 5
    assert folded.count("good, predicted bad") == 7


def test_up_to_five_wrong_answers_are_all_shown():
    labels = ["good"] * 5 + ["bad"] * 3
    predictions = ["bad"] * 8

    page = report_predictions(labels, predictions).to_html()

    assert page.count("good, predicted bad") == 5
    assert "<details" not in page
