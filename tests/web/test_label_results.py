"""What labelling writes at its end: the table, the classifier, and its certificate."""

import json

import pytest

from helpers import invoke
from labelled_films import FILMS, right_label
from pacsent import load
from pacsent.certify import read_certificate
from pacsent.cli import label_commands
from pacsent.web import Labelling

LABELS = ("--labels", "up,down", "--encoder", "none", "--random-state", 5, "--quiet")


def label(labelling, n):
    """Give n right labels."""
    for _ in range(n):
        task = labelling.next()
        labelling.answer(task.row, right_label(task.text))


@pytest.fixture
def table(tmp_path):
    """The films as a table with numbers."""
    path = tmp_path / "films.csv"
    rows = [f'{i},"{text}"\n' for i, text in enumerate(FILMS)]
    path.write_text("id,text\n" + "".join(rows))
    return path


@pytest.fixture
def run(table, monkeypatch):
    """A function that runs `pacsent label`, whose user gives n labels on the page."""
    pytest.importorskip("uvicorn")

    def run(n, *arguments):
        def use_page(labelling, options, write_results):
            label(labelling, n)

        monkeypatch.setattr(label_commands, "_serve_page", use_page)
        return invoke("label", table, *LABELS, *arguments, status=0)

    return run


@pytest.fixture
def folder(table):
    """Where the results are written by default."""
    return table.with_name("films-labels")


def test_the_table_has_every_row_with_its_label_and_what_it_was_for(run, folder):
    run(8)

    header, *rows = (folder / "labels.csv").read_text().splitlines()
    streams = [row.rpartition(",")[2] for row in rows]
    labels = [row.split(",")[-2] for row in rows]
    assert header == "id,text,label,stream"
    assert len(rows) == len(FILMS)
    assert sorted(set(streams)) == ["", "evaluate", "train"]
    for text, given in zip(FILMS, labels):
        assert given in ("", right_label(text))
    assert len(FILMS) - labels.count("") == 8


def test_few_labels_give_a_table_and_no_classifier(run, folder):
    shown = run(8).stdout

    assert "labels.csv: 8 labels." in shown
    assert "No classifier before 25 training labels of two classes." in shown
    assert not (folder / "model").exists()
    assert not (folder / "certificate.json").exists()


def test_the_state_of_labelling_is_printed_as_json(run, folder):
    status = json.loads(run(8, "--json").stdout)

    assert status["folder"] == str(folder)
    assert status["n_labels"] == 8
    assert status["error_upper"] is None


def test_the_bound_of_the_classifier_is_printed_and_written(run, folder):
    shown = run(60).stdout

    certificate = read_certificate((folder / "certificate.json").read_text())
    assert f"{folder / 'model'}: {certificate.summary()}" in shown
    assert certificate.n_training == 25
    assert certificate.error_upper < 1


def test_the_same_command_goes_on_where_it_stopped(run):
    run(5)

    assert "labels.csv: 8 labels." in run(3).stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a labelling with sixty labels that was saved, and what was returned."""
    folder = tmp_path_factory.mktemp("labels")
    with Labelling(FILMS, ["up", "down"], folder, encoder=None, random_state=5) as labelling:
        label(labelling, 60)
        rows = labelling.evaluated_rows()
        return folder, labelling.save(), rows


def test_what_is_saved_loads_and_is_the_certificate_that_is_returned(saved):
    folder, certificate, _ = saved

    assert read_certificate((folder / "certificate.json").read_text()) == certificate
    assert load(folder / "model").predict(["lovely sunrise"]).tolist() == ["up"]


def test_a_saved_certificate_is_verified_with_the_saved_model_and_its_labels(saved):
    folder, certificate, rows = saved
    texts = [FILMS[row] for row in rows[: certificate.n]]
    labels = [right_label(text) for text in texts]

    assert certificate.verify()
    model = load(folder / "model")
    n_wrong = sum(model.predict(texts) != labels)
    assert n_wrong == certificate.n_errors


def test_nothing_is_saved_before_there_is_a_classifier(tmp_path):
    with Labelling(FILMS, ["up", "down"], tmp_path, encoder=None, random_state=5) as labelling:
        label(labelling, 8)

        assert labelling.save() is None

    assert not (tmp_path / "model").exists()
