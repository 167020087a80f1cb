"""Tables of `predict`, `check` and `audit`: which of their columns and rows are labels.

Predictions, labels of a machine and reviewed labels do not count as labels of an evaluation sample.
"""

import json

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import pacsent
from helpers import invoke
from labelled_texts import OTHER_LABEL, flip_labels, make_texts, write_csv
from pacsent import CertifiedClassifier
from pacsent.certify import certify_predictions
from pacsent.certify.samples import seen_before
from pacsent.classify import check_labels, suspicious_labels
from pacsent.classify.label_checking import LabelCheckCertificate, planned_sizes

TRAIN_OPTIONS = ("--encoder", "none", "--random-state", 0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a certified model."""
    folder = tmp_path_factory.mktemp("model")
    texts, labels = make_texts(300)
    table = write_csv(folder / "train.csv", text=texts, label=labels)
    invoke("train", table, "-o", folder / "model", *TRAIN_OPTIONS, "--quiet", status=0)
    return folder / "model"


# ---- Predictions ----


@pytest.fixture
def answers(model, tmp_path):
    """The table that `predict` writes for texts without labels."""
    texts, _ = make_texts(50, seed=3)
    table = write_csv(tmp_path / "new.csv", text=texts)
    invoke("predict", model, table, "-o", tmp_path / "answers.csv", status=0)
    return tmp_path / "answers.csv"


@pytest.mark.parametrize("command", ["certify", "evaluate"])
def test_answers_of_predict_are_not_taken_for_labels(model, answers, command):
    done = invoke(command, model, answers, status=1)

    assert "prediction has the answers of a model, which are no labels" in done.stderr


@pytest.mark.parametrize("command", ["certify", "evaluate"])
def test_answers_of_predict_are_no_labels_even_if_their_column_is_named(model, answers, command):
    done = invoke(command, model, answers, "--label-column", "prediction", status=1)

    assert "agreement with them is no accuracy" in done.stderr
    assert "Name another column with --label-column" in done.stderr


def test_answers_of_predict_are_checked_as_the_labels_of_a_machine(answers, tmp_path):
    options = ("--label-column", "prediction", "--terminal", "-o", tmp_path / "checked")

    done = invoke("check", answers, *options, input="q\n")

    assert "agreement with them" not in done.stderr
    assert "50 rows still to be read" in done.stdout


def test_an_empty_text_that_the_machine_gave_no_label_is_left_out_of_a_check(model, tmp_path):
    texts, _ = make_texts(50, seed=3)
    table = write_csv(tmp_path / "new.csv", text=[*texts, " "])
    answers = tmp_path / "answers.csv"
    invoke("predict", model, table, "-o", answers, status=0)
    options = ("--label-column", "prediction", "--terminal", "-o", tmp_path / "checked")

    done = invoke("check", answers, *options, input="q\n")

    assert "Left out: 1 empty text (row 51)" in done.stderr


def test_a_text_that_the_machine_gave_no_label_is_no_text_to_check(tmp_path):
    table = write_csv(tmp_path / "t.csv", text=["a film", "a book"], label=["up", ""])

    done = invoke("check", table, "--terminal", "-o", tmp_path / "checked", status=1)

    assert "Row 2 of t.csv must have a label in the column label" in done.stderr


@pytest.mark.parametrize("command", ["certify", "compare"])
def test_a_text_that_was_trained_on_is_named_by_its_row_in_the_file(tmp_path, command):
    texts, labels = make_texts(120)
    training_table = write_csv(tmp_path / "trained.csv", text=texts, label=labels)
    folder = tmp_path / "model"
    invoke("train", training_table, "--encoder", "none", "--no-calibration", "-o", folder, status=0)
    others, classes = make_texts(50, seed=3)
    table = write_csv(
        tmp_path / "t.csv",
        text=["", *others[:20], "", *others[20:], texts[0]],
        label=["up", *classes[:20], "up", *classes[20:], labels[0]],
    )
    models = [folder, folder] if command == "compare" else [folder]

    done = invoke(command, *models, table, status=1)

    assert "(first: row 53)" in done.stderr


@pytest.mark.parametrize(
    ("command", "result"), [("certify", "(0 of 50 given texts"), ("evaluate", "accuracy 1.0000")]
)
def test_predictions_beside_labels_are_used_without_an_option(model, tmp_path, command, result):
    texts, labels = make_texts(50, seed=3)
    table = write_csv(tmp_path / "new.csv", text=texts, label=labels)
    answers = tmp_path / "answers.csv"
    invoke("predict", model, table, "-o", answers, status=0)

    assert result in invoke(command, answers, status=0).stdout


@pytest.mark.parametrize(
    ("command", "result"), [("certify", "0 of 50"), ("evaluate", "accuracy 1.0000")]
)
def test_a_column_of_predictions_is_ignored_with_a_message_where_a_model_is_given(
    model, tmp_path, command, result
):
    texts, labels = make_texts(50, seed=3)
    table = write_csv(tmp_path / "t.csv", text=texts, label=labels, prediction=["up"] * 50)

    done = invoke(command, model, table, status=0)

    assert "The column prediction of t.csv is not read: MODEL predicts." in done.stderr
    assert result in done.stdout


# ---- Checked tables ----


@pytest.fixture
def checked_table(tmp_path):
    """A table as `check` writes it: 400 sampled rows, 200 more by a person, the others unread."""
    n = 2000
    texts, right = make_texts(n, seed=1)
    rng = np.random.default_rng(2)
    is_wrong = rng.random(n) < 0.1
    machine = ["down" if (y == "up") == wrong else "up" for y, wrong in zip(right, is_wrong)]
    order = rng.permutation(n)
    read_rows = set(order[:600].tolist())
    sampled_rows = set(order[:400].tolist())
    return write_csv(
        tmp_path / "labels.csv",
        text=texts,
        llm=machine,
        final_label=[right[row] if row in read_rows else machine[row] for row in range(n)],
        labelled_by=["person" if row in read_rows else "machine" for row in range(n)],
        sampled=["yes" if row in sampled_rows else "no" for row in range(n)],
    )


def test_the_machine_is_certified_on_sampled_rows_of_a_checked_table(checked_table):
    columns = ("--label-column", "final_label", "--prediction-column", "llm")

    done = invoke("certify", checked_table, *columns, "--json", status=0)

    certificate = json.loads(done.stdout)
    assert certificate["n"] == 400
    assert 25 < certificate["n_errors"] < 55
    assert certificate["corrections"] == {"candidates": len(planned_sizes(2000))}
    assert "1,400 rows labelled by a machine, 200 rows that a person read, not at" in done.stderr


def test_the_machine_is_evaluated_on_sampled_rows_of_a_checked_table(checked_table):
    done = invoke("evaluate", checked_table, "--prediction-column", "llm", "--json", status=0)

    assert json.loads(done.stdout)["n"] == 400


def test_a_model_is_certified_on_sampled_rows_only(model, checked_table):
    done = invoke(
        "certify", model, checked_table, "--label-column", "final_label", "--json", status=0
    )

    certificate = json.loads(done.stdout)
    assert certificate["n"] + certificate["n_duplicates"] <= 400


def test_training_holds_out_sampled_rows_only(checked_table, tmp_path):
    frame = pandas.read_csv(checked_table)
    sampled_texts = frame.text[frame.sampled == "yes"].tolist()
    options = (*TRAIN_OPTIONS, "--quiet", "-o", tmp_path / "m")

    invoke("train", checked_table, "--label-column", "final_label", *options, status=0)

    classifier = pacsent.load(tmp_path / "m")
    is_known, _ = seen_before(classifier, sampled_texts)
    n_held_out = classifier.certificate_.n
    assert n_held_out == (~is_known).sum() > 250
    assert classifier.estimator_.selection_["n_texts"] == 2000 - n_held_out


def limits_of_machine_error(n_rows, n_sampled, n_corrected, n_sizes):
    """The limits if a sample was read and `n_corrected` of its labels were wrong."""
    certificate = LabelCheckCertificate.from_parts(
        delta=0.05,
        corrections={"sizes of the sample": n_sizes},
        n=n_sampled,
        n_errors=0,
        n_rows=n_rows,
        n_read=n_sampled,
        n_corrected=n_corrected,
        random_state=0,
        machine_counts={"up": [n_rows, n_sampled, n_corrected, 0]},
    )
    return certificate.machine_error


@pytest.mark.slow
def test_bounds_of_the_machine_hold_at_whichever_planned_size_checking_stops():
    """The negative control has no correction for the number of sizes."""
    n_rows = 10_000
    n_wrong = 600
    n_draws = 4000
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
                low, high = limits_of_machine_error(n_rows, size, int(k), n_sizes)
                if not low <= n_wrong / n_rows <= high:
                    false[n_found == k] = True

    limit = stats.binom.ppf(0.999, n_draws, 0.05)
    assert is_false[len(sizes)].sum() <= limit < is_false[1].sum()


@pytest.mark.slow
def test_another_model_is_certified_by_sampled_rows_and_not_by_all_that_were_read():
    n_draws = 200
    n = 2000
    texts = [f"text {row}" for row in range(n)]
    n_false = {"sampled": 0, "read": 0}

    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        doubt = rng.beta(0.3, 3.0, n)
        machine = np.where(rng.random(n) < doubt, "down", "up").tolist()
        # The other model is wrong where the machine is sure.
        other = np.where(rng.random(n) < 0.2 * (doubt < 0.05), "down", "up")
        error = np.mean(other != "up")
        checked = check_labels(
            texts, machine, -doubt, ask=lambda row, _: "up", classes=["up"], random_state=draw
        )
        for name, rows in (("sampled", checked.sampled_rows), ("read", checked.read_rows)):
            certificate = certify_predictions(
                ["up"] * len(rows),
                other[rows],
                classes=["up", "down"],
                n_candidates=len(planned_sizes(n)),
            )
            n_false[name] += error > certificate.error_upper

    assert n_false["sampled"] <= stats.binom.ppf(0.999, n_draws, 0.05) < n_false["read"]


# ---- Labels of people in some rows ----


@pytest.fixture
def partly_labelled(tmp_path):
    """Labels of a machine in 1,000 rows, and labels of people in 150 random ones."""
    n = 1000
    texts, right = make_texts(n, seed=4)
    rng = np.random.default_rng(5)
    machine = flip_labels(right, rng)
    labelled_rows = set(rng.permutation(n)[:150].tolist())
    human = [label if row in labelled_rows else "" for row, label in enumerate(right)]
    return write_csv(tmp_path / "t.csv", text=texts, llm=machine, human=human)


HUMAN_AND_MACHINE = ("--label-column", "human", "--prediction-column", "llm")


def test_labels_of_some_rows_certify_the_machine_in_the_whole_table(partly_labelled):
    shown = invoke("certify", partly_labelled, *HUMAN_AND_MACHINE, status=0).stdout

    assert "this batch of 1,000 texts" in shown
    assert "of 150 given texts were wrong" in shown
    assert "valid if which rows have labels is random" in shown


def test_labels_of_some_rows_evaluate_the_machine_under_a_condition(partly_labelled):
    done = invoke("evaluate", partly_labelled, *HUMAN_AND_MACHINE, status=0)

    assert "on 150 texts" in done.stdout
    assert "850 rows without a label" in done.stderr
    assert "Valid if which rows have labels is random." in done.stdout


def test_training_skips_and_counts_rows_without_a_label(partly_labelled, tmp_path):
    options = ("--label-column", "human", "--encoder", "none", "-o", tmp_path / "m")

    done = invoke("train", partly_labelled, *options, status=0)

    provenance = pacsent.load(tmp_path / "m").certificate_.provenance
    assert "Left out: 850 rows without a label (rows 1, 2, 3, 4, 5, ...)." in done.stderr
    assert "150 texts" in done.stderr
    assert provenance.endswith("valid if which rows have labels is random")


CHECK_OPTIONS = ("--label-column", "llm", "--random-state", 0, "--error", 0.15, "--terminal")


def check_with_answers(table, *options):
    """Run `check` in the terminal with an answer to every question; certificate and table."""
    answers = "up\n" * 1000
    invoke("check", table, *CHECK_OPTIONS, *options, input=answers, status=0)
    folder = table.with_name("t-checked")
    certificate = json.loads((folder / "certificate.json").read_text())
    return certificate, pandas.read_csv(folder / "labels.csv")


@pytest.mark.slow
def test_labels_that_people_gave_before_are_not_asked_for(partly_labelled):
    human = pandas.read_csv(partly_labelled).human
    is_known = human.notna()

    certificate, table = check_with_answers(partly_labelled, "--human-column", "human")

    is_sampled = table.sampled == "yes"
    assert (table.final_label[is_known] == human[is_known]).all()
    assert (table.labelled_by[is_known] == "person").all()
    assert 0 < is_sampled[is_known].sum() < 100 <= is_sampled.sum()
    assert ";" not in certificate["provenance"]


def test_random_labels_that_people_gave_before_are_the_sample_under_a_condition(partly_labelled):
    is_known = pandas.read_csv(partly_labelled).human.notna()
    options = ("--human-column", "human", "--human-rows", "random")

    certificate, table = check_with_answers(partly_labelled, *options)

    n_known = (table.sampled[is_known] == "yes").sum()
    assert n_known == min(certificate["n"], 150)
    assert "valid if these were drawn at random from the table" in certificate["provenance"]


def test_a_label_of_a_person_that_the_machine_never_gives_is_refused(tmp_path):
    table = write_csv(tmp_path / "t.csv", text=["a b", "c d"], llm=["x", "y"], human=["", "z"])
    options = ("--label-column", "llm", "--human-column", "human", "--terminal")

    message = invoke("check", table, *options, status=1).stderr

    assert "Row 2 must have a label of the machine in human. Got 'z'" in message


def test_the_forecast_of_rows_of_the_sample_holds(partly_labelled):
    shown = invoke("check", partly_labelled, *CHECK_OPTIONS, input="up\n", status=0).stderr

    assert "(100 to 200 of the random sample to read, then others)" in shown
    assert "(99 to 199 of the random sample to read, then others)" in shown


# ---- Labels that were reviewed before training ----


def write_noisy_table(path, n=400, seed=0):
    """A table of which a tenth of the labels is wrong."""
    texts, labels = make_texts(n, seed)
    noisy = flip_labels(labels, np.random.default_rng(seed + 1))
    return write_csv(path, id=range(n), text=texts, label=noisy)


class AuditedTable:
    """A table with wrong labels, and what `audit` printed and wrote."""

    def __init__(self, folder):
        table = write_noisy_table(folder / "t.csv")
        path = folder / "suspicious.csv"
        self.printed = invoke("audit", table, "-o", path, *TRAIN_OPTIONS, status=0).stdout
        self.frame = pandas.read_csv(path)
        self.is_reviewed = self.frame.reviewed == "yes"
        self.is_suspicious = self.frame.suggested_label.notna()


@pytest.fixture
def audited(tmp_path):
    return AuditedTable(tmp_path)


def test_audit_reviews_training_rows_only(audited):
    n_held_out = (~audited.is_reviewed).sum()

    assert audited.frame.id.tolist() == list(range(400))
    assert 100 < n_held_out < 160
    assert not audited.is_suspicious[~audited.is_reviewed].any()
    assert audited.is_suspicious.sum() > 15
    assert f"{n_held_out} rows held out and not reviewed" in audited.printed


def test_train_holds_out_rows_that_were_not_reviewed(audited, tmp_path):
    """The suspicious rows are deleted, as people do."""
    cleaned = tmp_path / "cleaned.csv"
    audited.frame[~audited.is_suspicious].to_csv(cleaned, index=False)

    done = invoke("train", cleaned, "-o", tmp_path / "m", *TRAIN_OPTIONS, status=0)

    certificate = pacsent.load(tmp_path / "m").certificate_
    assert "rows whose label was reviewed" in done.stderr
    assert certificate.n == (~audited.is_reviewed).sum()
    # The wrong labels of the held-out part are still there.
    assert certificate.n_errors >= 5


def test_a_model_is_not_certified_on_reviewed_rows(model, tmp_path):
    table = write_noisy_table(tmp_path / "t.csv", seed=9)
    suspicious = tmp_path / "suspicious.csv"
    audit = invoke("audit", table, "-o", suspicious, *TRAIN_OPTIONS, "--json", status=0)

    done = invoke("certify", model, suspicious, "--json", status=0)

    n_reviewed = json.loads(audit.stdout)["n"]
    assert json.loads(done.stdout)["n"] == 400 - n_reviewed


def test_audit_prints_twenty_lines_of_long_texts(tmp_path):
    texts, labels = make_texts(400)
    labels[::7] = [OTHER_LABEL[label] for label in labels[::7]]
    texts = [f"{text}\n{'x' * 900}{row}" for row, text in enumerate(texts)]
    table = write_csv(tmp_path / "t.csv", text=texts, label=labels)

    lines = invoke("audit", table, *TRAIN_OPTIONS, status=0).stdout.splitlines()

    header = next(row for row, line in enumerate(lines) if line.startswith("row "))
    last = next(row for row, line in enumerate(lines) if line.startswith("These are the most"))
    assert last - header - 1 == 20
    assert max(map(len, lines[header:last])) < 200


def make_regression():
    return make_pipeline(CountVectorizer(), LogisticRegression(C=3.0))


def draw_noisy_rows(n, rng):
    """A tenth of the labels is wrong, in new texts as well: that is what is predicted."""
    texts, labels = make_texts(n, int(rng.integers(2**31)))
    return texts, flip_labels(labels, rng)


def drop_suspicious(texts, labels):
    suspicious = suspicious_labels(texts, labels, model=make_regression())
    dropped_rows = {suspicion.row for suspicion in suspicious}
    kept_rows = [row for row in range(len(texts)) if row not in dropped_rows]
    return [texts[row] for row in kept_rows], [labels[row] for row in kept_rows]


@pytest.mark.slow
def test_training_after_an_audit_holds_its_bound_and_auditing_the_held_out_part_does_not():
    n_draws = 60
    n_held_out = 90
    n_false = {"held out first": 0, "all rows": 0}

    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        texts, labels = draw_noisy_rows(300, rng)
        new_texts, new_labels = draw_noisy_rows(4000, rng)

        fitted_rows = drop_suspicious(texts[n_held_out:], labels[n_held_out:])
        model = make_regression().fit(*fitted_rows)
        held_out_first = CertifiedClassifier(model, prefit=True, random_state=draw)
        held_out_first.fit(texts[:n_held_out], labels[:n_held_out])

        all_rows = CertifiedClassifier(make_regression(), random_state=draw)
        all_rows.fit(*drop_suspicious(texts, labels))

        for name, classifier in (("held out first", held_out_first), ("all rows", all_rows)):
            error = np.mean(classifier.predict(new_texts) != np.array(new_labels))
            n_false[name] += error > classifier.certificate_.error_upper

    limit = stats.binom.ppf(0.999, n_draws, 0.05)
    assert n_false["held out first"] <= limit < n_false["all rows"]
