"""Empty texts are left out, counted and named; they are no evidence for anything."""

import pandas
import pytest

from helpers import invoke
from labelled_texts import make_texts, write_csv
from pacsent import CertifiedClassifier, Index, TextClassifier
from pacsent.certify import certify, certify_predictions
from pacsent.classify import audit

EMPTY = ["", " ", "\u200b", "…"]


def make_texts_with_empty(n, seed):
    """Texts and labels with four empty texts among them."""
    texts, labels = make_texts(n, seed)
    for place, text in enumerate(EMPTY):
        texts.insert(5 * place, text)
        labels.insert(5 * place, "up")
    return texts, labels


TRAIN_OPTIONS = ("--encoder", "none", "--random-state", 0)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A command that trained a model on a table with empty texts, and the model's folder."""
    folder = tmp_path_factory.mktemp("empty")
    texts, labels = make_texts_with_empty(300, seed=0)
    table = write_csv(folder / "train.csv", text=texts, label=labels)
    done = invoke("train", table, *TRAIN_OPTIONS, "-o", folder / "model", status=0)
    return done, folder / "model"


@pytest.fixture
def model(training):
    _, folder = training
    return folder


def test_empty_texts_are_counted_once_in_training(training):
    done, _ = training

    assert done.stderr.count("empty") == 1
    assert "4 empty texts (rows 1, 6, 11, 16)" in done.stderr


@pytest.mark.parametrize(
    ("command", "result"), [("certify", "0 of 60"), ("evaluate", "on 60 texts")]
)
def test_empty_texts_are_neither_overlap_nor_counted(model, tmp_path, command, result):
    texts, labels = make_texts_with_empty(60, seed=5)
    table = write_csv(tmp_path / "new.csv", text=texts, label=labels)

    done = invoke(command, model, table, status=0)

    assert "4 empty texts (rows 1, 6, 11, 16)" in done.stderr
    assert "Warning" not in done.stderr
    assert result in done.stdout


def test_empty_texts_have_no_prediction_and_no_warning(model, tmp_path):
    texts, _ = make_texts_with_empty(30, seed=5)
    table = write_csv(tmp_path / "new.csv", text=texts, id=range(len(texts)))
    answers = tmp_path / "answers.csv"

    done = invoke("predict", model, table, "-o", answers, status=0)

    frame = pandas.read_csv(answers)
    assert "that the model was fitted on" not in done.stderr
    assert "34 rows, 4 empty" in done.stderr
    assert frame.id[frame.prediction.isna()].tolist() == [0, 5, 10, 15]


def test_a_classifier_holds_out_and_fits_no_empty_text():
    texts, labels = make_texts_with_empty(300, seed=0)

    with_empty = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    without = CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(300))

    certificate = with_empty.certificate_
    assert certificate.n == without.certificate_.n
    assert "4 empty texts left out" in certificate.provenance
    assert certificate.verify(with_empty, texts, labels)


def test_predictions_of_empty_texts_are_not_counted():
    texts, labels = make_texts_with_empty(100, seed=0)
    predictions = ["down" if text in EMPTY else label for text, label in zip(texts, labels)]

    certificate = certify_predictions(labels, predictions, texts=texts)

    assert (certificate.n, certificate.n_errors) == (100, 0)
    assert certificate.provenance.endswith("4 empty texts left out")
    assert certificate.verify(predictions, texts, labels)


def test_empty_texts_are_no_suspicious_labels_and_no_duplicates():
    texts, labels = make_texts_with_empty(100, seed=0)
    labels[5] = "down"

    result = audit(texts, labels, model=TextClassifier(None))

    suspicious_rows = {suspicion.row for suspicion in result.suspicious}
    repeated_rows = {row for group in result.duplicates + result.near_duplicates for row in group}
    assert result.empty == [0, 5, 10, 15]
    assert not suspicious_rows & set(result.empty)
    assert not repeated_rows & set(result.empty)


def test_empty_texts_are_no_hits():
    index = Index("english", lexical=1.0)

    with pytest.warns(UserWarning, match=r"2 empty texts left out \(first: row 1"):
        ids = index.add(["red wine", "", "white wine", "…"])

    hits = index.search("wine", k=10)
    assert ids.tolist() == [0, 1, 2, 3]
    assert {hit.id for hit in hits} == {0, 2}


def test_empty_texts_are_left_out_of_a_certificate_from_python():
    texts, labels = make_texts_with_empty(60, seed=5)
    classifier = TextClassifier(None).fit(*make_texts(300))

    certificate = certify(classifier, texts, labels)

    assert (certificate.n, certificate.n_errors) == (60, 0)
    assert "4 empty texts" in certificate.provenance
    assert certificate.verify(classifier, texts, labels)
