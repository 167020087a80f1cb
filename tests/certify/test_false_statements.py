"""Statements that were false in ordinary use: each of these tests fails before the fix.

A section for each of them; those that repeat draws are marked slow.
"""

import csv
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import pacsent
from helpers import invoke
from pacsent import CertifiedClassifier, Index, TextClassifier
from pacsent.bounds import binomial
from pacsent.certify import DriftMonitor, certify_predictions, compare, judges, read_certificate
from pacsent.certify.count_certificates import Comparison
from pacsent.certify.samples import seen_before
from pacsent.classify import audit, check_labels, suspicious_labels
from pacsent.classify.label_checking import LabelCheckCertificate, planned_sizes
from pacsent.predict.abstaining import AnswerRule, confidences
from pacsent.scale import Predict
from pacsent.storage.tensor_files import read_tensors, write_tensors
from pacsent.web.html_export import export_html

WORDS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "knst"]


def make_texts(n, seed=0):
    """Texts of six random words, in two classes that differ in one word of each text."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.5, "up", "down")
    mood = {"up": "lovely", "down": "awful"}
    texts = [" ".join([*rng.choice(WORDS, 6), mood[label]]) for label in labels]
    return texts, labels.tolist()


def write_csv(path, **columns):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values())])
    return path


# ---- 1. Predictions that are taken for labels ----


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a certified model."""
    folder = tmp_path_factory.mktemp("model")
    texts, labels = make_texts(300)
    table = write_csv(folder / "train.csv", text=texts, label=labels)
    how = ("--encoder", "none", "--random-state", 0, "--quiet")
    invoke("train", table, "-o", folder / "model", *how, status=0)
    return folder / "model"


def write_checked(path, n=2000):
    """A table as `check` writes it: 400 sampled rows, 200 more by a person, the others unread."""
    texts, right = make_texts(n, seed=1)
    rng = np.random.default_rng(2)
    is_wrong = rng.random(n) < 0.1
    machine = [
        "down" if (label == "up") == wrong else "up" for label, wrong in zip(right, is_wrong)
    ]
    order = rng.permutation(n)
    read, sampled = set(order[:600].tolist()), set(order[:400].tolist())
    return write_csv(
        path,
        text=texts,
        llm=machine,
        final_label=[right[row] if row in read else machine[row] for row in range(n)],
        labelled_by=["person" if row in read else "machine" for row in range(n)],
        sampled=["yes" if row in sampled else "no" for row in range(n)],
    )


def test_answers_of_predict_are_not_taken_for_labels(model, tmp_path):
    texts, _ = make_texts(50, seed=3)
    new = write_csv(tmp_path / "new.csv", text=texts)
    answers = tmp_path / "answers.csv"
    invoke("predict", model, new, "-o", answers, status=0)
    for command in ("certify", "evaluate"):
        message = invoke(command, model, answers, status=1).stderr
        assert "prediction has the answers of a model, which are no labels" in message


def test_answers_of_predict_are_no_labels_even_if_their_column_is_named(model, tmp_path):
    texts, _ = make_texts(50, seed=3)
    new = write_csv(tmp_path / "new.csv", text=texts)
    answers = tmp_path / "answers.csv"
    invoke("predict", model, new, "-o", answers, status=0)
    for command in ("certify", "evaluate"):
        done = invoke(command, model, answers, "--label-column", "prediction", status=1)
        assert "agreement with them is no accuracy" in done.stderr
        assert "Name another column with --label-column" in done.stderr


def test_a_text_that_was_trained_on_is_named_by_its_row_in_the_file(tmp_path):
    texts, labels = make_texts(120)
    trained = write_csv(tmp_path / "trained.csv", text=texts, label=labels)
    folder = tmp_path / "model"
    options = ("--encoder", "none", "--no-calibration", "-o", folder)
    invoke("train", trained, *options, status=0)

    others, classes = make_texts(50, seed=3)
    table = write_csv(
        tmp_path / "t.csv",
        text=["", *others[:20], "", *others[20:], texts[0]],
        label=["up", *classes[:20], "up", *classes[20:], labels[0]],
    )
    for command in (("certify", folder), ("compare", folder, folder)):
        message = invoke(*command, table, status=1).stderr
        assert "(first: row 53)" in message


def test_predictions_beside_labels_are_certified_and_evaluated_without_an_option(model, tmp_path):
    texts, labels = make_texts(50, seed=3)
    new = write_csv(tmp_path / "new.csv", text=texts, label=labels)
    answers = tmp_path / "answers.csv"
    invoke("predict", model, new, "-o", answers, status=0)
    assert "(0 of 50 given texts" in invoke("certify", answers, status=0).stdout
    assert "accuracy 1.0000" in invoke("evaluate", answers, status=0).stdout


def test_a_column_of_predictions_is_ignored_with_a_message_where_a_model_is_given(model, tmp_path):
    texts, labels = make_texts(50, seed=3)
    table = write_csv(tmp_path / "t.csv", text=texts, label=labels, prediction=["up"] * 50)
    for command in ("certify", "evaluate"):
        done = invoke(command, model, table, status=0)
        assert "The column prediction of t.csv is not read: MODEL predicts." in done.stderr
        assert "0 of 50" in done.stdout or "accuracy 1.0000" in done.stdout


def test_rows_that_nobody_read_are_no_labels_of_a_checked_table(tmp_path):
    table = write_checked(tmp_path / "labels.csv")
    columns = ("--label-column", "final_label", "--prediction-column", "llm")
    done = invoke("certify", table, *columns, "--json", status=0)
    certificate = json.loads(done.stdout)
    assert certificate["n"] == 400 and 25 < certificate["n_errors"] < 55
    assert certificate["corrections"] == {"candidates": len(planned_sizes(2000))}
    assert "1,400 rows labelled by a machine, 200 rows that a person read, not at" in done.stderr
    done = invoke("evaluate", table, "--prediction-column", "llm", "--json", status=0)
    assert json.loads(done.stdout)["n"] == 400


def test_a_model_is_certified_on_sampled_rows_only(model, tmp_path):
    table = write_checked(tmp_path / "labels.csv")
    how = ("--label-column", "final_label", "--json")
    certificate = json.loads(invoke("certify", model, table, *how, status=0).stdout)
    assert certificate["n"] + certificate["n_duplicates"] <= 400


def test_training_holds_out_sampled_rows_only(tmp_path):
    table = write_checked(tmp_path / "labels.csv")
    frame = pandas.read_csv(table)
    how = ("--encoder", "none", "--random-state", 0, "--quiet", "-o", tmp_path / "m")
    invoke("train", table, "--label-column", "final_label", *how, status=0)
    classifier = pacsent.load(tmp_path / "m")
    sampled = frame[frame.sampled == "yes"]
    is_known, _ = seen_before(classifier, sampled.text.tolist())
    assert classifier.certificate_.n == (~is_known).sum() > 250
    assert classifier.estimator_.selection_["n_texts"] == 2000 - classifier.certificate_.n


@pytest.mark.slow
def test_bounds_of_the_machine_hold_at_whichever_planned_size_checking_stops():
    n_rows, n_wrong, n_draws = 10_000, 600, 4000
    sizes = planned_sizes(n_rows)
    rng = np.random.default_rng(0)
    n_found = np.zeros(n_draws, int)
    is_false = {len(sizes): np.zeros(n_draws, bool), 1: np.zeros(n_draws, bool)}
    n_drawn = 0
    for size in sizes:
        n_left = n_wrong - n_found
        n_found = n_found + rng.hypergeometric(n_left, n_rows - n_drawn - n_left, size - n_drawn)
        n_drawn = size
        for n_sizes, false in is_false.items():
            for k in np.unique(n_found):
                limits = LabelCheckCertificate.from_parts(
                    delta=0.05,
                    corrections={"sizes of the sample": n_sizes},
                    n=size,
                    n_errors=0,
                    n_rows=n_rows,
                    n_read=size,
                    n_corrected=int(k),
                    random_state=0,
                    machine_counts={"up": [n_rows, size, int(k), 0]},
                ).machine_error
                if not limits[0] <= n_wrong / n_rows <= limits[1]:
                    false[n_found == k] = True
    limit = stats.binom.ppf(0.999, n_draws, 0.05)
    assert is_false[len(sizes)].sum() <= limit < is_false[1].sum()  # the second: no correction


@pytest.mark.slow
def test_another_model_is_certified_by_sampled_rows_and_not_by_all_that_were_read():
    n_draws, n = 200, 2000
    is_false = {"sampled": 0, "read": 0}
    texts, right = [f"text {row}" for row in range(n)], ["up"] * n
    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        doubt = rng.beta(0.3, 3.0, n)
        machine = np.where(rng.random(n) < doubt, "down", "up").tolist()
        # The other model is wrong where the machine is sure.
        other = np.where(rng.random(n) < 0.2 * (doubt < 0.05), "down", "up")
        checked = check_labels(
            texts, machine, -doubt, ask=lambda row, _: "up", classes=["up"], random_state=draw
        )
        error = np.mean(other != "up")
        for name, rows in (("sampled", checked.sampled_rows), ("read", checked.read_rows)):
            labels = [right[row] for row in rows]
            certificate = certify_predictions(
                labels, other[rows], classes=["up", "down"], n_candidates=len(planned_sizes(n))
            )
            is_false[name] += error > certificate.error_upper
    assert is_false["sampled"] <= stats.binom.ppf(0.999, n_draws, 0.05) < is_false["read"]


def write_human(path, n=1000, n_human=150):
    """Labels of a machine in every row, and labels of people in a random part."""
    texts, right = make_texts(n, seed=4)
    rng = np.random.default_rng(5)
    other = {"up": "down", "down": "up"}
    machine = [other[label] if rng.random() < 0.1 else label for label in right]
    known = set(rng.permutation(n)[:n_human].tolist())
    human = [label if row in known else "" for row, label in enumerate(right)]
    return write_csv(path, text=texts, llm=machine, human=human)


def test_labels_of_some_rows_certify_the_machine_in_the_whole_table(tmp_path):
    table = write_human(tmp_path / "t.csv")
    columns = ("--label-column", "human", "--prediction-column", "llm")
    shown = invoke("certify", table, *columns, status=0).stdout
    assert "this batch of 1,000 texts" in shown and "of 150 given texts were wrong" in shown
    assert "valid if which rows have labels is random" in shown
    done = invoke("evaluate", table, *columns, status=0)
    assert "on 150 texts" in done.stdout and "850 rows without a label" in done.stderr
    assert "Valid if which rows have labels is random." in done.stdout


def test_training_skips_and_counts_rows_without_a_label(tmp_path):
    table = write_human(tmp_path / "t.csv")
    how = ("--label-column", "human", "--encoder", "none", "-o", tmp_path / "m")
    done = invoke("train", table, *how, status=0)
    assert "Left out: 850 rows without a label." in done.stderr and "150 texts" in done.stderr
    provenance = pacsent.load(tmp_path / "m").certificate_.provenance
    assert provenance.endswith("valid if which rows have labels is random")


def check_with_answers(table, *options):
    """Run `check` in the terminal with an answer to every question; the certificate."""
    how = ("--label-column", "llm", "--random-state", 0, "--error", 0.15, "--terminal")
    answers = "up\n" * 1000
    invoke("check", table, *how, *options, input=answers, status=0)
    folder = table.with_name("t-checked")
    return json.loads((folder / "certificate.json").read_text()), pandas.read_csv(
        folder / "labels.csv"
    )


@pytest.mark.slow
def test_labels_that_people_gave_before_are_not_asked_for(tmp_path):
    table = write_human(tmp_path / "t.csv")
    certificate, found = check_with_answers(table, "--human-column", "human")
    given = pandas.read_csv(table).human
    is_known = given.notna()
    assert (found.final_label[is_known] == given[is_known]).all()
    assert (found.labelled_by[is_known] == "person").all()
    assert 0 < (found.sampled[is_known] == "yes").sum() < 100 <= (found.sampled == "yes").sum()
    assert ";" not in certificate["provenance"]


def test_random_labels_that_people_gave_before_are_the_sample_under_a_condition(tmp_path):
    table = write_human(tmp_path / "t.csv")
    options = ("--human-column", "human", "--human-rows", "random")
    certificate, found = check_with_answers(table, *options)
    is_known = pandas.read_csv(table).human.notna()
    n_known = (found.sampled[is_known] == "yes").sum()
    assert n_known == min(certificate["n"], 150)
    assert "valid if these were drawn at random from the table" in certificate["provenance"]


def test_a_label_of_a_person_that_the_machine_never_gives_is_refused(tmp_path):
    table = write_csv(tmp_path / "t.csv", text=["a b", "c d"], llm=["x", "y"], human=["", "z"])
    how = ("--label-column", "llm", "--human-column", "human", "--terminal")
    message = invoke("check", table, *how, status=1).stderr
    assert "Row 2 must have a label of the machine in human. Got 'z'" in message


def test_the_forecast_of_rows_of_the_sample_holds(tmp_path):
    table = write_human(tmp_path / "t.csv")
    how = ("--label-column", "llm", "--random-state", 0, "--error", 0.15, "--terminal")
    shown = invoke("check", table, *how, input="up\n", status=0).stderr
    assert "(100 to 200 of the random sample to read, then others)" in shown
    assert "(99 to 199 of the random sample to read, then others)" in shown


# ---- 2. A machine that saw the labels ----


def test_a_machine_that_was_fitted_on_the_labels_is_refused_as_a_judge_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(texts, labels)

    with pytest.raises(ValueError, match="100 of these 100 texts, or near-duplicates"):
        CertifiedClassifier(TextClassifier(None)).fit(texts, labels, judge=(others, machine))


def test_labels_of_a_machine_bring_their_condition_into_the_certificate_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(texts, labels)  # it saw the labels, which nobody can tell

    certified = CertifiedClassifier(TextClassifier(None), random_state=0)
    certified.fit(texts, labels, judge=(others, machine.predict(others)))

    assert "valid if no machine label was made with these" in certified.certificate_.summary()


def test_a_machine_that_was_fitted_on_other_texts_labels_those_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(*make_texts(50, seed=2))

    certified, from_labels = (
        CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels, judge=judge)
        for judge in ((others, machine), (others, machine.predict(others)))
    )

    assert certified.certificate_ == from_labels.certificate_
    assert "valid if no machine label was made with these" in certified.certificate_.summary()
    assert certified.certificate_.verify()


def judged_texts(n_labelled, seed=0):
    """Texts of which the first have labels, and predictions that err on a fifth."""
    texts, labels = make_texts(1000, seed)
    rng = np.random.default_rng(seed)
    is_wrong = rng.random(1000) < 0.2
    other = np.where(np.array(labels) == "up", "down", "up")
    predictions = np.where(is_wrong, other, labels).tolist()
    return texts, labels[:n_labelled], predictions


def test_a_model_is_compared_by_its_training_record_as_a_judge_of_predictions():
    texts, labels, predictions = judged_texts(100)

    def certify_with(model):
        return certify_predictions(
            labels,
            predictions[:100],
            judge=(texts[:100], model),
            unlabelled=(predictions[100:], texts[100:]),
            random_state=0,
        )

    honest = TextClassifier(None).fit(*make_texts(80, seed=3))
    from_labels = certify_predictions(
        labels,
        predictions[:100],
        judge=honest.predict(texts[:100]),
        unlabelled=(predictions[100:], honest.predict(texts[100:])),
        random_state=0,
    )

    assert "no label of the judge, however bad it is, was made with" in from_labels.summary()
    assert certify_with(honest) == from_labels
    with pytest.raises(ValueError, match="100 of these 100 texts, or near-duplicates"):
        certify_with(TextClassifier(None).fit(texts[:100], labels))


@pytest.mark.slow
def test_honest_judges_are_warned_of_and_refused_no_more_often_than_stated():
    """The negative control is a judge that memorised the labels."""
    rng, n_draws = np.random.default_rng(0), 300
    n_warned = {0.0: 0, 1.0: 0}
    n_refused = {0.0: 0, 1.0: 0}
    for _ in range(n_draws):
        labels, predictions, judge = judged_batch(rng, 4)
        is_like_prediction = rng.random(labels.size) < 0.8
        honest = np.where(is_like_prediction, predictions, judge)
        rows = rng.permutation(labels.size)[:100]
        others = np.setdiff1d(np.arange(labels.size), rows)
        for seen in n_warned:
            judge = honest.copy()
            judge[rows] = labels[rows] if seen else honest[rows]
            columns = [
                column.tolist() for column in (judge[rows], predictions[others], judge[others])
            ]
            counts = judges.count_judged(labels[rows].tolist(), predictions[rows].tolist(), columns)
            warnings = judges.judge_warnings(counts["judge_counts"], counts["judge_class_counts"])
            n_warned[seen] += "more often" in warnings
            try:
                judges.check_judge(counts["judge_counts"])
            except ValueError:
                n_refused[seen] += 1

    assert n_warned[0.0] <= stats.binom.isf(1e-4, n_draws, 0.05)
    assert n_refused[0.0] <= stats.binom.isf(1e-4, n_draws, 0.001)
    assert n_warned[1.0] > 0.5 * n_draws and n_refused[1.0] > 0.05 * n_draws


# ---- 3. Texts that repeat ----

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def unique_texts(rng, n):
    """Texts of six words of seven random letters: none is near another."""
    letters = rng.choice(LETTERS, (n, 6, 7))
    return [" ".join("".join(word) for word in text) for text in letters]


def traffic(rng, n, n_templates, fraction, wrong_templates, wrong_others):
    """Rows drawn independently, whether a rule is wrong on each, and its error on new rows."""
    templates = unique_texts(rng, n_templates)
    texts = unique_texts(rng, n)
    is_template = rng.random(n) < fraction
    for row in np.flatnonzero(is_template):
        texts[row] = templates[rng.integers(n_templates)]
    is_wrong = rng.random(n) < np.where(is_template, wrong_templates, wrong_others)
    return texts, is_wrong, fraction * wrong_templates + (1 - fraction) * wrong_others


def collected(rng, n, largest, wrong_copied, wrong_others):
    """Distinct texts drawn independently, a fifth of them copied up to `largest` times."""
    is_copied = rng.random(n) < 0.2
    is_wrong = rng.random(n) < np.where(is_copied, wrong_copied, wrong_others)
    sizes = np.where(is_copied, rng.integers(2, largest + 1, n), 1)
    texts = [text for text, size in zip(unique_texts(rng, n), sizes) for _ in range(size)]
    return texts, np.repeat(is_wrong, sizes), 0.2 * wrong_copied + 0.8 * wrong_others


@pytest.mark.slow
def test_the_bound_holds_for_rows_of_traffic_in_which_templates_repeat():
    """One text per template counted: the bound for half of the traffic, which errs on 5%."""
    rng = np.random.default_rng(0)
    n_broken = 0
    for _ in range(30):
        texts, is_wrong, error = traffic(rng, 300, 20, 0.5, 0.4, 0.05)
        certificate = certify_predictions(
            [0] * 300, is_wrong.astype(int), texts=texts, classes=[0, 1]
        )
        n_broken += certificate.error_upper < error
    assert n_broken <= 5  # of 30 at 5%: more with probability .003


@pytest.mark.slow
def test_the_bound_holds_for_distinct_texts_of_which_copies_were_made():
    rng = np.random.default_rng(1)
    n_broken = n_broken_by_rows = 0
    for _ in range(30):
        texts, is_wrong, error = collected(rng, 150, 8, 0.02, 0.3)
        how = {"texts": texts, "classes": [0, 1]}
        labels, answers = [0] * len(texts), is_wrong.astype(int)
        n_broken += certify_predictions(labels, answers, **how).error_upper < error
        of_rows = certify_predictions(labels, answers, **how, repeats="traffic")
        n_broken_by_rows += of_rows.error_upper < error
    assert n_broken <= 5
    assert n_broken_by_rows > 15  # the negative control: the bound of the other reason


def test_nothing_is_claimed_about_texts_not_seen_before_in_traffic():
    texts = ["a template that is sent again"] * 20 + [f"text {n} of {n}" for n in range(80)]
    certificate = certify_predictions(
        ["a"] * 100, ["b"] * 9 + ["a"] * 91, texts=texts, classes=["a", "b"]
    )
    assert "distinct new texts" not in str(certificate)
    assert "Of two bounds the larger counts" in certificate.summary()
    assert "either rows, repeats included, or distinct texts" in str(certificate)
    assert (certificate.n, certificate.other["n"]) == (100, 81)


class Rule(ClassifierMixin, BaseEstimator):
    """Says whether a text begins with "good"; nothing is learned, or whole texts are by heart."""

    def __init__(self, by_heart=False):
        self.by_heart = by_heart

    def fit(self, X, y):
        self.classes_ = np.array(["down", "up"])
        self.known_ = dict(zip(X, y)) if self.by_heart else {}
        return self

    def predict(self, X):
        return np.array([self.known_.get(x, "up" if x[:4] == "good" else "down") for x in X])


def labelled(texts, is_wrong):
    """Texts that begin with "good" or "poor" by their length, and labels that the rule misses."""
    texts = [("good " if text[0] < "n" else "poor ") + text for text in texts]
    is_good = [text[:4] == "good" for text in texts]
    labels = ["up" if good != wrong else "down" for good, wrong in zip(is_good, is_wrong)]
    return texts, labels


@pytest.mark.slow
@pytest.mark.parametrize("by_heart", [False, True])
def test_what_fit_holds_out_is_a_sample_of_the_rows_of_traffic(by_heart):
    """With whole clusters held out, a template of 30% is counted once or not at all: 34 of 60."""
    rng = np.random.default_rng(2)
    n_broken = 0
    for seed in range(60):
        texts, is_wrong, error = traffic(rng, 500, 1, 0.3, 0.5, 0.05)
        X, y = labelled(texts, is_wrong)
        certified = CertifiedClassifier(Rule(by_heart), random_state=seed).fit(X, y)
        # whatever is known about the template by heart, it is wrong on half of its rows
        n_broken += certified.certificate_.error_upper < error
    assert n_broken <= 8  # of 60 at 5%: more with probability .003


levels = 0.6 + 0.35 * np.arange(97) / 97  # of confidence, equally frequent


def confidence_of(texts):
    """A confidence that is a function of the text, as a model's is."""
    return levels[[sum(map(ord, text)) % 97 for text in texts]]


@pytest.mark.slow
def test_sets_and_abstention_hold_for_rows_of_traffic():
    """Eight templates are 40% of the rows, and wrong half of the time, whatever the confidence."""
    rng = np.random.default_rng(3)
    fraction, wrong_templates, wrong_others = 0.4, 0.5, 0.05

    def mean_over_rows(of_templates, of_others):
        return fraction * np.mean(of_templates) + (1 - fraction) * np.mean(of_others)

    def predict_proba(X):
        return np.column_stack([confidence_of(X), 1 - confidence_of(X)])

    n_broken = {"sets": 0, "abstention": 0}
    for seed in range(60):
        texts, is_wrong, _ = traffic(rng, 400, 8, fraction, wrong_templates, wrong_others)
        certified = CertifiedClassifier(predict_proba, classes=[0, 1], random_state=seed)
        certified.fit(texts, is_wrong.astype(int))
        # templates are the texts that occur more than once
        templates = [text for text, count in Counter(texts).items() if count > 1]
        sure = confidence_of(templates)

        lowest = np.exp(certified.prediction_set_thresholds(error=0.2)[0])
        missed = mean_over_rows(
            wrong_templates * (1 - sure < lowest), wrong_others * (1 - levels < lowest)
        )
        n_broken["sets"] += missed > 0.2

        threshold = certified.abstain(error=0.2).threshold
        answered = mean_over_rows(sure >= threshold, levels >= threshold)
        wrong = mean_over_rows(
            wrong_templates * (sure >= threshold), wrong_others * (levels >= threshold)
        )
        n_broken["abstention"] += wrong > 0.2 * answered
    assert max(n_broken.values()) <= 8  # of 60 at 5%: more with probability .003


def test_a_matrix_is_certified_with_a_note_that_copies_were_not_looked_for():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    certified = CertifiedClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert "Near-copies of rows were not looked for." in certified.certificate_.summary()


class ByLetter(ClassifierMixin, BaseEstimator):
    """A fixed classifier that is surer of templates than of other texts."""

    def fit(self, X, y):
        self.classes_ = np.array(["no", "yes"])
        return self

    def predict_proba(self, X):
        sure = np.array([0.05 if "template" in text else 0.4 for text in X])
        sure = sure * np.array([1 - ord(text.split()[-1][0]) % 13 / 26 for text in X])
        return np.column_stack([sure, 1 - sure])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def draw_repeating_rows(rng, kind, n=300):
    """Labelled rows and new ones: traffic with 50 templates, or texts with copies of collecting."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))

    def draw(start):
        return " ".join([start, *("".join(word) for word in rng.choice(letters, (7, 6)))])

    if kind == "traffic":
        templates = [draw("template") for _ in range(50)]

        def rows_of(n):
            is_template = rng.random(n) < 0.5
            numbers = rng.integers(50, size=n)
            return [templates[k] if own else draw("") for own, k in zip(is_template, numbers)]

        return rows_of(n), rows_of(n)

    def copies_of(n, n_copies):
        rows = []
        while len(rows) < n:
            is_easy = rng.random() < 0.5
            rows += [draw("template" if is_easy else "")] * (1 if is_easy else n_copies)
        return rows[:n]

    labelled = copies_of(n, 5)
    return [labelled[row] for row in rng.permutation(n)], copies_of(n, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "valid", "control"), [("traffic", 0, 1), ("copies", 1, 0)])
def test_unchanged_rows_that_repeat_raise_few_alarms_of_the_test_that_is_valid(
    kind, valid, control
):
    """The alarm of texts was the only one: it went off on unchanged traffic in 40 of 40 runs."""
    n_runs, alpha = 40, 0.05
    n_alarms = np.zeros(2, int)  # of rows, of texts
    n_withdrawn = 0
    for seed in range(n_runs):
        labelled, new = draw_repeating_rows(np.random.default_rng(seed), kind)
        model = CertifiedClassifier(ByLetter(), random_state=seed)
        model.fit(labelled, ["yes"] * 150 + ["no"] * 150)
        monitor = DriftMonitor(model, alpha=alpha, random_state=seed)
        n_withdrawn += monitor.update(new)
        n_alarms[0] += monitor.alarm or monitor.holds_only_if == "copies"
        n_alarms[1] += monitor.alarm or monitor.holds_only_if == "traffic"
    most = stats.binom.isf(1e-3, n_runs, alpha)
    assert n_alarms[valid] <= most and n_withdrawn <= most
    assert n_alarms[control] > most


# ---- 4. The random number of abstention ----


def test_abstention_with_a_usual_seed_answers_wrongly_no_more_often_than_allowed():
    """Everybody who tests 65 texts with random_state=0 shared one number that favours passing."""

    def constant(X):
        return np.tile([0.9, 0.1], (len(X), 1))

    error = 0.1  # every answer is wrong with a probability just above this
    rng = np.random.default_rng(0)
    answers = {}  # number of wrong texts among those tested -> whether it answers
    for _ in range(150):
        y = (rng.random(92) < rng.uniform(0.0, 0.2)).astype(int)
        certified = CertifiedClassifier(constant, classes=[0, 1], random_state=0)
        certified.fit(np.arange(92.0)[:, None], y)
        tested = certified.calibration_.samples(tested=True)[""]
        assert tested.labels.size == 65
        answers[int(tested.wrong.sum())] = certified.abstain(error=error).coverage > 0
    assert set(range(8)) <= set(answers)

    n_wrong = [k for k, answered in answers.items() if answered]
    assert n_wrong
    assert stats.binom.pmf(n_wrong, 65, error).sum() <= 0.05


def chance_to_answer(n, error, delta, uniform, accepted_fraction):
    """P(the one threshold passes), if an answer is wrong with probability `error`."""
    low, high = stats.binom.interval(1 - 1e-12, n, accepted_fraction)
    n_accepted = np.arange(low, high + 1)
    weights = stats.binom.pmf(n_accepted, n, accepted_fraction)

    # Fewer errors pass, more fail: of these few numbers it is decided one by one.
    middle = stats.binom.ppf(delta, n_accepted, error)
    n_errors = middle[:, None] + np.arange(-2, 3)  # (n_accepted.size, 5)
    passed = binomial.passes(n_accepted[:, None], n_errors, error, delta, uniform)
    assert passed[:, 0].all() and not passed[:, -1].any()

    chances = stats.binom.cdf(n_errors[:, 0], n_accepted, error)
    probabilities = stats.binom.pmf(n_errors[:, 1:], n_accepted[:, None], error)
    chances += (passed[:, 1:] * probabilities).sum(axis=1)
    return float(weights @ chances)


@pytest.mark.slow
@pytest.mark.parametrize("accepted_fraction", [1.0, 0.6])
@pytest.mark.parametrize("error", [0.05, 0.1, 0.2])
def test_abstention_is_exact_for_every_number_of_texts_and_a_shared_random_number_is_noticed(
    error, accepted_fraction
):
    sizes = range(30, 1001)

    def chances(uniforms):
        return np.array(
            [
                chance_to_answer(n, error, 0.05, uniform, accepted_fraction)
                for n, uniform in zip(sizes, uniforms)
            ]
        )

    without = chances([1.0] * len(sizes))
    shared = chances([np.random.default_rng([0, n]).random() for n in sizes])

    assert without.max() <= 0.05 * (1 + 1e-9)
    assert shared.max() > 0.06
    assert np.mean(shared > 0.05) > 0.4


# ---- 5. A model that is changed under its certificate ----


@pytest.fixture
def certified_model():
    """A certified TextClassifier, which a test may change."""
    return CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(300))


@pytest.mark.parametrize(
    "use",
    [
        lambda model, folder: model.abstain(error=0.2),
        lambda model, folder: model.predict_set(["lovely"], error=0.2),
        lambda model, folder: model.tune_thresholds(precision=0.8),
        lambda model, folder: pacsent.save(model, folder / "model"),
        lambda model, folder: export_html(model, folder.with_suffix(".html")),
    ],
    ids=["abstain", "predict_set", "tune_thresholds", "save", "export_html"],
)
def test_an_estimator_that_was_fitted_again_is_not_used_with_its_old_certificate(
    use, certified_model, tmp_path
):
    use(certified_model, tmp_path / "before")
    texts, labels = make_texts(60, seed=1)

    certified_model.estimator_.fit(texts, labels[::-1])

    with pytest.raises(ValueError, match="was fitted or changed since"):
        use(certified_model, tmp_path / "after")


def test_a_certificate_and_its_calibration_set_cannot_be_given_to_another_model(certified_model):
    other = CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(80, seed=1))
    other.fitted_ = replace(
        other.fitted_,
        certificate=certified_model.certificate_,
        calibration=certified_model.calibration_,
    )

    with pytest.raises(ValueError, match="The model must be the one that was certified"):
        other.abstain(error=0.2)


def test_a_model_calibrated_again_may_be_used_again(certified_model):
    certified_model.estimator_.fit(*make_texts(100, seed=1))

    certified_model.calibrate(*make_texts(200, seed=2))

    assert certified_model.abstain(error=0.2).coverage > 0.5


def test_arrays_changed_in_the_folder_of_a_certified_model_are_noticed(certified_model, tmp_path):
    folder = pacsent.save(certified_model, tmp_path / "model")
    path = folder / "estimator" / "model.safetensors"
    arrays = {name: np.array(array) for name, array in read_tensors(path).items()}
    arrays["coef_ngrams"] *= -1
    path.unlink()
    write_tensors(path, arrays)

    with pytest.raises(ValueError, match="is damaged: The model must be the one that was certif"):
        pacsent.load(folder)


def test_a_certificate_says_where_a_change_of_the_model_would_not_be_noticed(certified_model):
    texts, labels = make_texts(200)
    scores = np.array([["lovely" in text, row] for row, text in enumerate(texts)], float)
    other = CertifiedClassifier(LogisticRegression(), random_state=0).fit(scores, labels)

    note = "the model is not recorded: nothing tells whether it was changed"
    assert note in str(other.certificate_)
    assert note not in certified_model.certificate_.details()


@pytest.fixture
def certified_index():
    """An index of short texts that was certified with searching by meaning alone."""
    texts = make_texts(120)[0]
    index = pacsent.Index(lambda rows: [[len(text), text.count("a")] for text in rows], lexical=0)
    index.certify([f"{text}!" for text in texts], index.add(texts), k=5, random_state=0)
    return index


@pytest.mark.parametrize(
    ("name", "value"),
    [("lexical", 1.0), ("encoder", "english"), ("query_encoder", "english"), ("chunk", True)],
)
def test_what_the_certificate_of_an_index_depends_on_cannot_be_set(certified_index, name, value):
    before = getattr(certified_index, name)

    with pytest.raises(AttributeError, match=f"{name} must stay as it is"):
        setattr(certified_index, name, value)

    assert getattr(certified_index, name) is before


def test_another_engine_drops_the_certificate_of_an_index(certified_index):
    assert certified_index.certificate_ is not None

    certified_index.engine = "exact"

    assert certified_index.certificate_ is certified_index.calibration_ is None


# ---- 6. Bounds that hold each by itself, or together ----


def judged_batch(rng, n_classes, n_rows=1000):
    """Labels, predictions and a judge's labels of a batch."""
    labels = rng.integers(n_classes, size=n_rows)

    def copy_with_errors(rate):
        is_wrong = rng.random(n_rows) < rate
        return np.where(is_wrong, rng.integers(n_classes, size=n_rows), labels)

    return labels, copy_with_errors(0.2), copy_with_errors(0.3)


def certify_judged_batch(batch, rows, **options):
    labels, predictions, judge = batch
    others = np.setdiff1d(np.arange(labels.size), rows)
    return certify_predictions(
        labels[rows],
        predictions[rows],
        judge=judge[rows],
        unlabelled=(predictions[others], judge[others]),
        random_state=0,
        **options,
    )


def test_what_a_judge_adds_says_that_it_holds_by_itself():
    batch = judged_batch(np.random.default_rng(0), 3)
    rows = np.arange(100)

    separate = certify_judged_batch(batch, rows)

    titles = dict(separate.rows())
    for name in ("Judge", "New texts"):
        assert "(by itself, with 95% confidence)" in titles[name]
    for name in ("Sensitivity", "Specificity", "Frequency"):
        assert "(each by itself, with 95% confidence)" in titles[name]
    assert "Joint" not in titles
    joint = certify_judged_batch(batch, rows, simultaneous=True)
    titles = dict(joint.rows())
    assert "all of this holds together" in titles["Joint"]
    assert "by itself" not in "".join(titles.values())
    assert joint.corrections == {"statements": 12}
    assert joint.verify()
    assert joint.error_upper > separate.error_upper
    with pytest.raises(ValueError, match="for 12 statements, as many as there are"):
        replace(joint, corrections={"statements": 2}).verify()


@pytest.mark.slow
@pytest.mark.parametrize("simultaneous", [True, False])
def test_everything_stated_with_a_judge_holds_together_only_if_delta_is_divided(
    simultaneous, monkeypatch
):
    """The negative control is the default, whose statements hold each by itself."""
    monkeypatch.setattr(judges, "_REFUSAL_LEVEL", 0.0)  # one honest draw in a thousand is refused
    rng, n_draws = np.random.default_rng(0), 200
    n_broken = 0
    for _ in range(n_draws):
        batch = labels, predictions, _ = judged_batch(rng, 4)
        rows = rng.permutation(labels.size)[:100]
        certificate = certify_judged_batch(batch, rows, simultaneous=simultaneous)
        is_false = [
            certificate.error_upper < np.mean(labels != predictions),
            certificate.new_error_upper < 0.2 * 3 / 4,
        ]
        rates = certificate.judge_rates
        right = 1 - 0.3 * 3 / 4
        intervals = [(rates["accuracy"], right)]
        for c in range(4):
            intervals += [
                (rates["sensitivity"][str(c)], right),
                (rates["specificity"][str(c)], 1 - 0.3 / 4),
                (rates["frequency"][str(c)], np.mean(labels == c)),
            ]
        is_false += [not low <= rate <= high for (low, high), rate in intervals]
        n_broken += any(is_false)

    allowed = stats.binom.isf(1e-4, n_draws, 0.05)
    assert n_broken <= allowed if simultaneous else n_broken > allowed


def texts_with_labels(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(["no", "yes"], n)
    words = {"no": "bad", "yes": "good"}
    return [f"{words[y]} film w{rng.integers(50)} number {i}" for i, y in enumerate(labels)], labels


def test_the_delta_of_training_reaches_answers_and_the_page(tmp_path):
    texts, labels = texts_with_labels(400)
    table = tmp_path / "labelled.csv"
    rows = [f"{text},{label}" for text, label in zip(texts, labels)]
    table.write_text("\n".join(["text,label", *rows]))
    model, page = tmp_path / "model", tmp_path / "page.html"

    invoke("train", table, "-o", model, "--encoder", "none", "--delta", 0.01, status=0)
    made = invoke("model", "export", model, "-o", page, status=0)
    classifier = pacsent.load(model)
    answers = Predict(str(model)).open()[1]

    assert made.exit_code == 0
    assert answers.delta == classifier.delta == 0.01
    assert answers.statement.startswith("With 99% confidence")
    assert "Separately, with 99% confidence" in answers.statement
    expected = classifier.prediction_set_thresholds(error=answers.set_error, delta=0.01)
    assert np.array_equal(answers.set_levels, expected)


def test_a_comparison_that_is_one_of_several_has_its_part_of_delta():
    counts = {"n": 200, "only_a_right": 30, "only_b_right": 10}
    alone, one_of_five = (
        Comparison(delta=0.01, **counts),
        Comparison(delta=0.05, n_candidates=5, **counts),
    )

    assert one_of_five.difference_lower == alone.difference_lower
    assert one_of_five.difference_upper == alone.difference_upper
    assert "union bound over 5 comparisons" in str(one_of_five)


def test_compare_records_how_many_comparisons_there_are():
    texts, labels = texts_with_labels(120)
    is_good = [text.startswith("good") for text in texts]

    def first(rows):
        return ["yes" if text.startswith("good") else "no" for text in rows]

    result = compare(first, lambda rows: ["yes"] * len(rows), texts, labels, n_candidates=3)

    assert sum(is_good) and result.n_candidates == 3
    with pytest.raises(ValueError, match="n_candidates"):
        compare(first, first, texts, labels, n_candidates=0)


def test_a_search_among_several_indexes_is_corrected_for_in_its_guarantee_too(tmp_path):
    texts = [f"entry {chr(97 + n % 26)}{n} about w{n * 7 % 31}" for n in range(150)]
    index = pacsent.Index("english", lexical=1.0)
    ids = index.add(texts)
    queries = [f"a{n} {text}" for n, text in enumerate(texts)]

    alone = index.certify(queries, ids, delta=0.01, random_state=0)
    expected = [len(hits) for hits in index.search(queries[:20], guarantee=0.9)]
    chosen = index.certify(queries, ids, delta=0.05, random_state=0, n_candidates=5)
    pacsent.save(index, tmp_path / "index")
    loaded = pacsent.load(tmp_path / "index")

    assert chosen.error_upper == alone.error_upper
    assert chosen.verify()
    hits = loaded.search(queries[:20], guarantee=0.9)
    assert [len(found) for found in hits] == expected
    assert hits[0].summary().startswith("With 95% confidence")


def test_labels_of_the_best_of_several_machines_are_checked_with_a_part_of_delta():
    right = ["even", "odd"] * 1000
    machine = ["odd"] * 100 + right[100:]
    texts = [f"text {n}" for n in range(2000)]

    def check(**options):
        return check_labels(
            texts, machine, range(2000), ask=lambda row, _: right[row], random_state=0, **options
        ).certificate

    chosen, alone = check(delta=0.05, n_candidates=5), check(delta=0.01)

    assert chosen.corrections["candidates"] == 5
    assert chosen.error_upper == alone.error_upper and chosen.n_read == alone.n_read
    assert chosen.verify()


# ---- 7. Drift ----


def films(rng, n):
    """Texts of a good or a bad word and words of their own, and labels of which 5% are wrong."""
    is_good = rng.random(n) < 0.5
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(row) for row in rng.choice(letters, (6 * n, 6))]
    texts = [
        " ".join(["good" if good else "poor", "film", *words[6 * row : 6 * row + 6]])
        for row, good in enumerate(is_good.tolist())
    ]
    return texts, np.where(is_good ^ (rng.random(n) < 0.05), "yes", "no").tolist()


@pytest.fixture(scope="module")
def of_films():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*films(np.random.default_rng(0), 400))


def test_no_drift_detected_says_that_a_difference_is_not_excluded(of_films):
    """A file with 10% of other texts breaks the bound and passes: the sentence must not deny it."""
    comparison = of_films.compare_with_calibration(films(np.random.default_rng(1), 200)[0])
    assert comparison.differs is False
    assert "% of the texts are of another kind" in comparison.message
    assert "cannot exclude a difference" in comparison.message
    assert "can detect a difference, not exclude one" in of_films.certificate_.origin()


# ---- 8. Answers of a person in check_labels ----


CHECKED = [f"row {n} w{n * 7 % 101}" for n in range(1000)]
RIGHT = ["a" if n % 3 else "b" for n in range(1000)]
MACHINE = ["a" if n % 20 == 0 else label for n, label in enumerate(RIGHT)]


def check(ask, **options):
    scores = np.arange(1000)
    return check_labels(CHECKED, MACHINE, scores, ask=ask, error=0.1, random_state=1, **options)


@pytest.mark.parametrize("skip", [None, np.nan, pandas.NA, pandas.NaT])
def test_a_skipped_row_has_no_label_and_counts_as_wrong(skip):
    asked = []

    def ask(row, text):
        asked.append(row)
        return skip if row % 50 == 0 else RIGHT[row]

    labels, _, certificate, *_ = check(ask)
    skipped = [row for row in asked if row % 50 == 0]
    assert len(asked) == len(set(asked)) and skipped
    assert f"{len(skipped):,} were skipped, and count as wrong." in certificate.summary()
    assert certificate.n_skipped == len(skipped)
    assert [row for row in range(1000) if labels[row] is None] == sorted(skipped)
    n_wrong = sum(label != right for label, right in zip(labels, RIGHT))
    assert n_wrong / 1000 <= certificate.error_upper <= 0.1


def test_a_goal_that_skipped_rows_put_out_of_reach_ends_with_the_bound_that_was_reached():
    asked = []

    def ask(row, text):
        asked.append(row)
        return None if row % 3 == 0 else RIGHT[row]

    labels, _, certificate, *_ = check(ask)
    n_wrong = sum(label != right for label, right in zip(labels, RIGHT))
    assert n_wrong / 1000 <= certificate.error_upper
    assert labels.count(None) == 101 and len(asked) < 400  # 100 wrong labels are allowed
    assert certificate.error_upper > 0.1
    certificate.verify()


@pytest.mark.parametrize("answer", ["l", "a ", "A", b"a", ["a"], {"a": 1}, "", 1, True])
def test_an_answer_that_is_no_class_is_refused(answer):
    with pytest.raises(ValueError, match=r"ask must return one of the classes \(.*or None to skip"):
        check(lambda row, text: answer)


def test_a_misspelled_answer_is_told_the_class():
    with pytest.raises(ValueError, match=r"Got 'A ' .* instead\. Did you mean 'a'\?"):
        check(lambda row, text: "A ")


def test_a_class_that_the_machine_never_gives_needs_to_be_named():
    with pytest.raises(ValueError, match="Pass classes= for those that the machine never gives"):
        check(lambda row, text: "c")
    assert "c" in check(lambda row, text: "c", classes=["c"]).labels


@pytest.mark.slow
def test_bounds_with_skipped_rows_hold_and_taking_a_skip_for_an_answer_is_noticed():
    n, n_draws = 1000, 100
    n_false = {None: 0, "unclear": 0}
    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        doubt = rng.beta(0.5, 2.5, n)
        right = np.where(rng.random(n) < doubt, "b", "a")
        is_skipped = rng.random(n) < 0.15
        for skip in n_false:
            answers = np.where(is_skipped, skip, right.astype(object))
            checked = check_labels(
                CHECKED,
                ["a"] * n,
                -doubt,
                ask=lambda row, _: answers[row],  # noqa: B023
                classes=["b", "unclear"],
                error=0.1,
                delta=0.2,
                random_state=draw,
            )
            error = np.mean(np.array(checked.labels, object) != right)
            n_false[skip] += error > checked.certificate.error_upper
    assert n_false[None] <= stats.binom.ppf(0.999, n_draws, 0.2) < n_false["unclear"]


# ---- 9. Empty texts ----


EMPTY = ["", " ", "\u200b", "…"]


def with_empty(n, seed):
    """Texts and labels with four empty texts among them."""
    texts, labels = make_texts(n, seed)
    for place, text in enumerate(EMPTY):
        texts.insert(5 * place, text)
        labels.insert(5 * place, "up")
    return texts, labels


@pytest.fixture(scope="module")
def model_of_a_table_with_empty_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    texts, labels = with_empty(300, seed=0)
    table = write_csv(folder / "train.csv", text=texts, label=labels)
    how = ("--encoder", "none", "--random-state", 0, "-o", folder / "model")
    done = invoke("train", table, *how, status=0)
    assert done.stderr.count("empty") == 1 and "4 empty texts (rows 1, 6, 11, 16)" in done.stderr
    return folder / "model"


@pytest.mark.parametrize("command", ["certify", "evaluate"])
def test_empty_texts_are_neither_overlap_nor_counted(
    model_of_a_table_with_empty_texts, tmp_path, command
):
    texts, labels = with_empty(60, seed=5)
    table = write_csv(tmp_path / "new.csv", text=texts, label=labels)
    done = invoke(command, model_of_a_table_with_empty_texts, table, status=0)
    assert "4 empty texts (rows 1, 6, 11, 16)" in done.stderr and "Warning" not in done.stderr
    assert "0 of 60" in done.stdout or "on 60 texts" in done.stdout


def test_empty_texts_have_no_prediction_and_no_warning(model_of_a_table_with_empty_texts, tmp_path):
    texts, _ = with_empty(30, seed=5)
    table = write_csv(tmp_path / "new.csv", text=texts, id=range(len(texts)))
    answers = tmp_path / "answers.csv"
    done = invoke("predict", model_of_a_table_with_empty_texts, table, "-o", answers, status=0)
    assert "among those that the model was fitted on" not in done.stderr
    assert "34 rows, 4 empty" in done.stderr
    frame = pandas.read_csv(answers)
    assert frame.id[frame.prediction.isna()].tolist() == [0, 5, 10, 15]


def test_a_classifier_holds_out_and_fits_no_empty_text():
    texts, labels = with_empty(300, seed=0)
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    without = CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(300))
    assert classifier.certificate_.n == without.certificate_.n
    assert "4 empty texts left out" in classifier.certificate_.provenance
    assert classifier.certificate_.verify(classifier, texts, labels)


def test_predictions_of_empty_texts_are_not_counted():
    texts, labels = with_empty(100, seed=0)
    predictions = ["down" if text in EMPTY else label for text, label in zip(texts, labels)]
    certificate = certify_predictions(labels, predictions, texts=texts)
    assert (certificate.n, certificate.n_errors) == (100, 0)
    assert certificate.provenance.endswith("4 empty texts left out")
    assert certificate.verify(predictions, texts, labels)


def test_empty_texts_are_no_suspicious_labels_and_no_duplicates():
    texts, labels = with_empty(100, seed=0)
    labels[5] = "down"
    result = audit(texts, labels, model=TextClassifier(None))
    rows = [0, 5, 10, 15]
    assert result.empty == rows
    assert not {suspicion.row for suspicion in result.suspicious} & set(rows)
    assert not any(set(group) & set(rows) for group in result.duplicates + result.near_duplicates)


def test_empty_texts_are_not_asked_for():
    texts = CHECKED.copy()
    texts[::100] = ["", " ", "\t", "…", "\u200b"] * 2
    asked = []

    def ask(row, text):
        asked.append(row)
        return RIGHT[row]

    labels, _, certificate, *_ = check_labels(
        texts, MACHINE, np.arange(1000), ask=ask, error=0.1, random_state=1
    )
    assert certificate.n_rows == 990 and not any(row % 100 == 0 for row in asked)
    assert all(labels[row] is None for row in range(0, 1000, 100))


def test_empty_texts_are_no_hits():
    index = Index("english", lexical=1.0)
    with pytest.warns(UserWarning, match=r"2 empty texts left out \(first: row 1"):
        ids = index.add(["red wine", "", "white wine", "…"])
    assert ids.tolist() == [0, 1, 2, 3]
    assert {hit.id for hit in index.search("wine", k=10)} == {0, 2}


# ---- 10. A language that the model does not know ----


@pytest.mark.parametrize("text", ["你好,世界", "Это, очень: хорошо!", "真好吃。(好)"])
def test_a_text_in_an_unknown_script_has_the_set_of_all_classes(of_films, text):
    rule = AnswerRule(of_films, error=0.2)
    answers = rule.answer([text, "a good film"])
    assert of_films.predict_set([text], error=0.2) == [["no", "yes"]]
    assert of_films.abstain(error=0.2).predict([text]) == [None]
    assert answers.covered.tolist() == [False, True]
    assert answers.abstained[0] and answers.inside[0].all()
    assert of_films.predict([text]).shape == (1,)


def test_calibration_texts_in_an_unknown_language_count_for_no_answer():
    """Refusing at prediction alone breaks abstention: the rule applies to calibration as well."""
    rng = np.random.default_rng(0)
    texts, labels = films(rng, 300)
    foreign = [f"你好,{chr(0x4E00 + n)}世{chr(0x5000 + n)}界{chr(0x6000 + n)}" for n in range(60)]
    model = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    others, right = films(rng, 60)
    model.calibrate([*others, *foreign], [*right, *["yes"] * 60])
    assert model.abstain(error=0.2).coverage <= 0.55
    calibration = model.calibration_
    assert calibration.covered.sum() == 60
    assert (confidences(model, calibration.log_proba, calibration.covered) < 0).sum() == 60


# ---- 11. Texts dropped by audit before training ----


def noisy_table(path, n=400, seed=0):
    """A table of which a tenth of the labels is wrong."""
    texts, labels = make_texts(n, seed)
    rng = np.random.default_rng(seed + 1)
    other = {"up": "down", "down": "up"}
    given = [other[label] if rng.random() < 0.1 else label for label in labels]
    return write_csv(path, id=range(n), text=texts, label=given)


def test_audit_reviews_training_rows_only_and_train_holds_out_the_others(tmp_path):
    table, suspicious = noisy_table(tmp_path / "t.csv"), tmp_path / "suspicious.csv"
    how = ("--encoder", "none", "--random-state", 0)
    shown = invoke("audit", table, "-o", suspicious, *how, status=0).stdout
    found = pandas.read_csv(suspicious)
    assert found.id.tolist() == list(range(400))
    is_reviewed = found.reviewed == "yes"
    assert 100 < (~is_reviewed).sum() < 160 and found.suggested_label[~is_reviewed].isna().all()
    assert found.suggested_label.notna().sum() > 15
    assert f"{(~is_reviewed).sum()} rows held out and not reviewed" in shown
    # The suspicious rows are deleted, as people do.
    cleaned = tmp_path / "cleaned.csv"
    found[found.suggested_label.isna()].to_csv(cleaned, index=False)
    done = invoke("train", cleaned, "-o", tmp_path / "m", *how, status=0)
    assert "rows whose label was reviewed" in done.stderr
    classifier = pacsent.load(tmp_path / "m")
    certificate = classifier.certificate_
    assert certificate.n == (~is_reviewed).sum()
    assert certificate.n_errors >= 5  # the wrong labels of the held-out part are still there


def test_a_model_is_not_certified_on_reviewed_rows(model, tmp_path):
    table, suspicious = noisy_table(tmp_path / "t.csv", seed=9), tmp_path / "suspicious.csv"
    how = ("--encoder", "none", "--random-state", 0, "--json")
    n_reviewed = json.loads(invoke("audit", table, "-o", suspicious, *how, status=0).stdout)["n"]
    certificate = json.loads(invoke("certify", model, suspicious, "--json", status=0).stdout)
    assert certificate["n"] == 400 - n_reviewed


def test_audit_prints_twenty_lines_of_long_texts(tmp_path):
    texts, labels = make_texts(400)
    other = {"up": "down", "down": "up"}
    labels = [label if row % 7 else other[label] for row, label in enumerate(labels)]
    texts = [f"{text}\n{'x' * 900}{row}" for row, text in enumerate(texts)]
    table = write_csv(tmp_path / "t.csv", text=texts, label=labels)
    shown = invoke("audit", table, "--encoder", "none", "--random-state", 0, status=0).stdout
    lines = shown.splitlines()
    assert sum(line.startswith("Row ") for line in lines) == 20
    assert max(map(len, lines)) < 500


@pytest.mark.slow
def test_training_after_an_audit_holds_its_bound_and_auditing_the_held_out_part_does_not():
    n, n_draws, n_new = 300, 60, 4000
    n_false = {"held out first": 0, "all rows": 0}
    other = {"up": "down", "down": "up"}

    def fresh():
        return make_pipeline(CountVectorizer(), LogisticRegression(C=3.0))

    def draw_rows(size, rng):
        """A tenth of the labels is wrong, in new texts as well: that is what is predicted."""
        texts, labels = make_texts(size, int(rng.integers(2**31)))
        return texts, [other[label] if rng.random() < 0.1 else label for label in labels]

    def without_suspicious(texts, labels):
        dropped = {s.row for s in suspicious_labels(texts, labels, model=fresh())}
        kept = [row for row in range(len(texts)) if row not in dropped]
        return [texts[row] for row in kept], [labels[row] for row in kept]

    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        texts, labels = draw_rows(n, rng)
        new_texts, new_labels = draw_rows(n_new, rng)
        n_held_out = 90

        model = fresh().fit(*without_suspicious(texts[n_held_out:], labels[n_held_out:]))
        classifier = CertifiedClassifier(model, prefit=True, random_state=draw)
        classifier.fit(texts[:n_held_out], labels[:n_held_out])
        certified = {"held out first": classifier}

        classifier = CertifiedClassifier(fresh(), random_state=draw)
        certified["all rows"] = classifier.fit(*without_suspicious(texts, labels))
        for name, classifier in certified.items():
            error = np.mean(classifier.predict(new_texts) != np.array(new_labels))
            n_false[name] += error > classifier.certificate_.error_upper
    limit = stats.binom.ppf(0.999, n_draws, 0.05)
    assert n_false["held out first"] <= limit < n_false["all rows"]


# ---- 12. A flood of one new text ----


def test_a_flood_of_one_new_text_is_reported(of_films):
    """60% of 2,000 rows are one text: the distinct texts are as before, the rows are not."""
    rng = np.random.default_rng(2)
    rows = [*films(rng, 800)[0], *["the shop is good and its film is poor today"] * 1200]
    rows = [rows[row] for row in rng.permutation(2000)]
    comparison = of_films.compare_with_calibration(rows)
    assert "no drift detected" not in comparison.message
    assert comparison.differs or comparison.holds_only_if == "copies"
    assert "60.0% of the rows are repeats" in comparison.message.replace("59.9", "60.0")
    assert comparison.counts.n_repeated == 1199
    assert len(comparison.left_out) == 1199


# ---- 13. Edges and rounding ----


@pytest.mark.parametrize(
    ("n", "error", "delta"), [(5, 0.1, 0.59049), (2, 0.3, 0.49), (3, 0.2, 0.512), (1, 0.4, 0.6)]
)
def test_a_rank_that_only_rounding_decides_is_the_last_one_or_none(n, error, delta):
    """delta is (1 - error)^n: rank n is right, and any lower one gives sets of almost nothing."""
    assert binomial.rank_for_sets(n, error, delta) in (n, None)


def exact_chance(n_errors, n, batch_size, n_wrong):
    """P(at most n_errors of n rows drawn without replacement are wrong), a fraction."""
    ways = sum(
        math.comb(n_wrong, k) * math.comb(batch_size - n_wrong, n - k) for k in range(n_errors + 1)
    )
    return Fraction(ways, math.comb(batch_size, n))


@pytest.mark.parametrize("batch_size", [10**8, 10**9])
@pytest.mark.parametrize(("n_errors", "n"), [(0, 20), (1, 60), (4, 40), (10, 120)])
@pytest.mark.parametrize("delta", [0.05, 0.01, 1e-6])
def test_limits_of_large_batches_are_never_on_the_unsafe_side(n_errors, n, batch_size, delta):
    most = binomial.most_errors(n_errors, n, batch_size, delta)

    assert exact_chance(n_errors, n, batch_size, most + 1) <= delta
    assert exact_chance(n_errors, n, batch_size, int(most * (1 - 1e-4))) > delta


def test_the_certificate_of_a_batch_assumes_a_random_sample_and_no_distribution():
    labels, predictions = ["a", "b"] * 50, ["a", "b"] * 45 + ["b"] * 10

    of_batch = certify_predictions(labels, predictions, unlabelled=1000)
    of_new_texts = certify_predictions(labels, predictions)

    assert "Valid if the labelled texts were drawn from the batch at random" in str(of_batch)
    assert "distribution" not in of_batch.assumption
    assert "independently from one distribution" in of_new_texts.assumption
    assert read_certificate(of_batch.to_json()) == of_batch


# ---- Security, lost files and crashes ----
