"""`pacsent predict` reads, predicts, compares and writes batch by batch, in bounded memory."""

import csv
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import helpers
import pacsent
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import drift_check
from pacsent.certify.drift_check import DriftCheck
from pacsent.scale.jobs import Batch, Predict
from pacsent.scale.shard_writer import Record, result_batches
from pacsent.text.tables import BATCH, TextRows

N_ROWS = BATCH + 2_000  # more than are read at once


def sentences(n, seed):
    rng = np.random.default_rng(seed)
    words = np.array([f"film{i}" for i in range(60)])
    signs = rng.integers(2, size=n)
    chosen = rng.integers(words.size, size=(n, 6))
    texts = [
        " ".join([*words[row], "good" if sign else "bad", "indeed"])
        for row, sign in zip(chosen, signs)
    ]
    return texts, signs.tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A certified classifier, and a table of more rows than one batch."""
    folder = tmp_path_factory.mktemp("streaming")
    texts, labels = sentences(600, seed=0)
    model = CertifiedClassifier(TextClassifier(None), calibration_size=0.5, random_state=0)
    pacsent.save(model.fit(texts, labels), folder / "model")

    new_texts, _ = sentences(N_ROWS, seed=1)
    with open(folder / "new.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in new_texts)])
    return folder


class CountedTable:
    """A table of many batches that counts the rows which were read."""

    name = "counted"

    def __init__(self, n_batches, n_rows):
        self.n_batches = n_batches
        self.n_rows = n_rows
        self.n_read = 0

    def check_columns(self, columns):
        return list(columns)

    def batches(self, columns, on_bad):
        for number in range(self.n_batches):
            self.n_read += self.n_rows
            yield TextRows([f"{number}-{row}" for row in range(self.n_rows)], {}, [])


def results(table, compute, n_threads, **options):
    record = Record("counted", 0, "", "out")
    return result_batches(table, compute, record, n_threads=n_threads, **options)


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_the_rows_that_are_held_depend_on_the_batch_and_not_on_the_file(n_threads):
    table = CountedTable(n_batches=100, n_rows=10)
    most_held = n_written = 0

    for batch in results(table, lambda texts, is_bad=None: Batch({"text": texts}), n_threads):
        n_written += len(batch["text"])
        most_held = max(most_held, table.n_read - n_written)

    assert n_written == table.n_read == 1000
    assert most_held <= 10 * (n_threads + 2)


def test_later_rows_are_computed_while_earlier_ones_are_written_in_their_order():
    table = CountedTable(n_batches=20, n_rows=1)
    second_begins = threading.Event()

    def compute(texts, is_bad=None):
        if texts == ["1-0"]:
            second_begins.set()
        if texts and int(texts[0].split("-")[0]) % 2 == 0:
            time.sleep(0.01)  # odd batches are ready first
        return Batch({"text": texts})

    batches = results(table, compute, n_threads=2)
    written = next(batches)["text"]
    assert second_begins.wait(10)  # nobody has asked for it yet

    written += [text for batch in batches for text in batch["text"]]
    assert written == [f"{number}-0" for number in range(20)]


def test_batches_are_observed_in_the_order_of_the_rows():
    table = CountedTable(n_batches=20, n_rows=1)
    observed = []

    def compute(texts, is_bad=None):
        number = int(texts[0].split("-")[0]) if texts else 0
        time.sleep(0.01 if number % 2 == 0 else 0.0)
        return Batch({"text": texts}, n_empty=number)

    for _ in results(table, compute, 4, observe=lambda batch: observed.append(batch.n_empty)):
        pass

    assert observed == list(range(20))


def test_the_comparison_keeps_a_sample_of_the_rows(folder, monkeypatch):
    monkeypatch.setattr(drift_check, "MAX_KEPT", 50)
    monkeypatch.setattr(drift_check, "MAX_COMPARED", 20)
    model = pacsent.load(folder / "model")
    texts, _ = sentences(2_000, seed=2)
    log_proba = model.predict_log_proba(texts)
    check = DriftCheck(model)

    for first in range(0, 2_000, 100):
        check.add(texts[first : first + 100], log_proba[first : first + 100])
        assert len(check._rows._items) <= 2 * 50 + 100
        assert len(check._log_proba._items) <= 2 * 20 + 100

    assert check.n_rows == 2_000
    assert all(row.base is None for row in check._log_proba.items())  # no batch is kept alive


def test_a_sample_is_the_same_however_the_rows_are_divided(folder, monkeypatch):
    monkeypatch.setattr(drift_check, "MAX_KEPT", 50)
    monkeypatch.setattr(drift_check, "MAX_COMPARED", 20)
    model = pacsent.load(folder / "model")
    texts, _ = sentences(1_000, seed=2)
    log_proba = model.predict_log_proba(texts)

    samples = []
    for n_batch in (7, 300, 1_000):
        check = DriftCheck(model)
        for first in range(0, 1_000, n_batch):
            rows = slice(first, first + n_batch)
            check.add(texts[rows], log_proba[rows])
        kept = [row for row, _ in check._rows.items()]
        np.testing.assert_array_equal(check._log_proba.items(), log_proba[kept[:20]])
        samples.append(kept)

    assert len(samples[0]) == 50
    assert samples[0] == samples[1] == samples[2]


def test_the_file_and_the_comparison_are_the_same_for_any_number_of_threads(folder, monkeypatch):
    monkeypatch.setattr(Predict, "batch_size", 1_000)
    load = Predict.load

    def load_slowly(job, opened=None):
        run = load(job, opened)

        def run_slowly(texts, is_bad=None):
            batch = run(texts, is_bad)
            time.sleep(0.05 * (len(texts[0]) % 2) if len(texts) else 0)
            return batch

        return run_slowly

    monkeypatch.setattr(Predict, "load", load_slowly)
    answers = []
    for n_jobs in (1, 3):
        out = folder / f"{n_jobs}.csv"
        arguments = ["predict", folder / "model", folder / "new.csv", "-o", out]
        answer = helpers.invoke(*arguments, "--n-jobs", n_jobs, "--quiet", "--json", status=0)
        answers.append((out.read_bytes(), answer.stdout.replace(out.name, "")))

    assert answers[0] == answers[1]


def test_the_file_has_what_the_library_predicts(folder):
    out = folder / "library.csv"
    helpers.invoke("predict", folder / "model", folder / "new.csv", "-o", out, "--quiet", status=0)

    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    model = pacsent.load(folder / "model")
    texts, _ = sentences(N_ROWS, seed=1)
    proba = model.predict_proba(texts)
    assert [row["text"] for row in rows] == texts
    assert [row["prediction"] for row in rows] == [str(label) for label in model.predict(texts)]
    assert [row["probability"] for row in rows] == [f"{p:.4f}" for p in proba.max(axis=1)]


def test_an_error_after_the_first_batches_leaves_no_file(folder, tmp_path):
    lines = (folder / "new.csv").read_text().splitlines()
    lines[BATCH + 100] = "two,values"
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")

    arguments = ["predict", folder / "model", tmp_path / "bad.csv", "-o", tmp_path / "out.csv"]
    answer = helpers.invoke(*arguments, "--quiet", status=1)

    assert f"Line {BATCH + 101:,} of bad.csv must have 1 values" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_an_error_while_writing_leaves_no_file_and_no_thread(folder, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("the disk went away")

    monkeypatch.setattr("pacsent.text.result_files.csv", SimpleNamespace(writer=fail))
    n_threads = threading.active_count()

    arguments = ["predict", folder / "model", folder / "new.csv", "-o", tmp_path / "out.csv"]
    answer = helpers.invoke(*arguments, "--quiet", status=1)

    assert "the disk went away" in answer.stderr
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == n_threads


def test_the_bar_names_the_comparison_after_the_predictions(folder, monkeypatch):
    monkeypatch.setattr("pacsent.progress.PLAIN_EVERY", 0.01)
    result = DriftCheck.result

    def compare_slowly(check):
        time.sleep(0.2)
        return result(check)

    monkeypatch.setattr(DriftCheck, "result", compare_slowly)
    arguments = ["predict", folder / "model", folder / "new.csv", "-o", folder / "bar.csv"]
    lines = helpers.invoke(*arguments, status=0).stderr.splitlines()

    stages = [line.split(":")[0] for line in lines if " so far" in line or "texts/s" in line]
    assert stages[0] == "predict"
    assert stages[-1] == "compare with the calibration set"
    assert stages == sorted(stages, reverse=True)
