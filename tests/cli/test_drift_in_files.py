"""The files of `pacsent predict` say of every row whether drift has withdrawn the guarantee."""

import csv
import weakref

import numpy as np
import pandas
import pyarrow
import pytest

import pacsent
from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.text import result_files
from pacsent.text.result_files import TypedColumn, changed_at_end

READERS = {
    ".csv": pandas.read_csv,
    ".tsv": lambda path: pandas.read_csv(path, sep="\t"),
    ".jsonl": lambda path: pandas.read_json(path, lines=True),
    ".parquet": pandas.read_parquet,
}
DRIFT = "drift: no guarantee"


def make_films(n_texts, seed):
    """Texts about films, of which every second one is good."""
    rng = np.random.default_rng(seed)
    names = np.array([f"film{number}" for number in range(60)])
    texts = []
    for number in range(n_texts):
        adjective = "good" if number % 2 else "bad"
        words = [*rng.choice(names, 6), adjective, "indeed"]
        texts.append(" ".join(words))
    return texts


def write_table(path, texts):
    """A CSV file of texts."""
    rows = [["text"], *([text] for text in texts)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a certified classifier of films."""
    texts = make_films(600, seed=0)
    labels = ["no", "yes"] * 300
    classifier = CertifiedClassifier(
        TextClassifier(None), calibration_size=0.5, random_state=0
    ).fit(texts, labels)
    return pacsent.save(classifier, tmp_path_factory.mktemp("drift") / "model")


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A table of texts like those of the calibration set."""
    texts = make_films(300, seed=1)
    return write_table(tmp_path_factory.mktemp("films") / "films.csv", texts)


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    """A table of other texts; the last row has none."""
    rng = np.random.default_rng(2)
    words = np.array([f"share{number}" for number in range(200)])
    texts = [" ".join(rng.choice(words, 20)) for _ in range(200)]
    return write_table(tmp_path_factory.mktemp("news") / "news.csv", [*texts, " "])


@pytest.mark.parametrize("suffix", READERS)
def test_with_drift_every_row_says_that_it_has_no_guarantee(model, news, tmp_path, suffix):
    output = tmp_path / f"answers{suffix}"

    invoke("predict", model, news, "-o", output, "--error", "0.1", status=3)

    answers = READERS[suffix](output)
    assert answers["reason"][:200].tolist() == [DRIFT] * 200
    assert answers["abstained"].isin(["yes", True]).all()
    assert answers["set"].isna().all()


def test_with_drift_another_reason_stays(model, news, tmp_path):
    output = tmp_path / "answers.csv"

    invoke("predict", model, news, "-o", output, status=3)

    answers = pandas.read_csv(output)
    assert answers["reason"].iloc[200] == f"no text; {DRIFT}"


def test_with_drift_predictions_and_probabilities_stay(model, news, tmp_path):
    output = tmp_path / "answers.csv"

    invoke("predict", model, news, "-o", output, status=3)

    answers = pandas.read_csv(output)[:200]
    classifier = pacsent.load(model)
    texts = pandas.read_csv(news)["text"].tolist()[:200]
    assert answers["prediction"].tolist() == classifier.predict(texts).tolist()
    expected = classifier.predict_proba(texts).max(axis=1)
    np.testing.assert_allclose(answers["probability"], expected, atol=1e-4)


def test_with_drift_the_message_names_the_reason_in_the_rows(model, news, tmp_path):
    output = tmp_path / "answers.csv"

    messages = invoke("predict", model, news, "-o", output, status=3).stderr

    assert f'its reason is "{DRIFT}"' in messages


def test_answers_of_a_file_on_stdout_have_the_reason(model, news):
    printed = invoke("predict", model, news, status=3).stdout

    _, *rows = printed.splitlines()
    assert all(row.endswith(DRIFT) for row in rows)


def test_rows_from_stdin_to_stdout_are_written_before_the_comparison(model, news):
    done = invoke("predict", model, "-", input=news.read_text(), status=3)

    assert DRIFT not in done.stdout
    assert "The rows were written before the comparison" in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_without_drift_waiting_for_the_comparison_changes_nothing(model, films, options):
    table = ("--input-format", "csv")

    of_file = invoke("predict", model, films, *options, status=0)
    of_stdin = invoke("predict", model, "-", *table, *options, input=films.read_text(), status=0)

    assert of_file.stdout == of_stdin.stdout


@pytest.mark.parametrize("suffix", READERS)
def test_batches_that_waited_are_written_byte_for_byte_alike(tmp_path, suffix):
    numbers = pyarrow.array(range(100))
    batches = []
    for start in (0, 50):
        texts = TypedColumn(["one, two", None, 'a "third"\nline', "\ud800", ""] * 10, "string")
        batches.append({"number": numbers[start : start + 50], "text": texts})
    if suffix == ".parquet":
        for batch in batches:
            batch["text"][3::5] = [None] * 10  # Parquet has no half characters
    direct = tmp_path / f"direct{suffix}"
    waited = tmp_path / f"waited{suffix}"

    result_files.write(batches, direct)
    result_files.write(changed_at_end(batches, lambda: lambda batch: batch), waited)

    assert waited.read_bytes() == direct.read_bytes()


def test_batches_that_wait_are_not_kept_in_memory():
    columns = []

    def batches():
        for number in range(20):
            column = TypedColumn([number], "int64")
            columns.append(weakref.ref(column))
            yield {"number": column}
            del column

    def count_kept():
        n_kept = sum(column() is not None for column in columns)
        assert n_kept <= 1
        return lambda batch: batch

    changed = list(changed_at_end(batches(), count_kept))

    assert [batch["number"] for batch in changed] == [[number] for number in range(20)]


def test_a_slice_that_waits_takes_no_more_room_than_its_rows(tmp_path, monkeypatch):
    sizes = []
    dump = result_files.pickle.dump

    def dump_and_measure(batch, file):
        dump(batch, file)
        sizes.append(file.tell())

    monkeypatch.setattr(result_files.pickle, "dump", dump_and_measure)
    texts = pyarrow.array(["a text of a table"] * 10_000)

    list(changed_at_end([{"text": texts[:10]}], lambda: lambda batch: batch, tmp_path))

    assert sizes[0] < 2_000


def test_nothing_is_left_beside_the_output(model, news, tmp_path):
    invoke("predict", model, news, "-o", tmp_path / "answers.csv", status=3)

    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]


def test_a_row_without_text_abstains(model, tmp_path):
    table = write_table(tmp_path / "few.csv", ["film1 good indeed", " "])

    invoke("predict", model, table, "-o", tmp_path / "answers.csv", "--error", "0.1", status=0)

    answers = pandas.read_csv(tmp_path / "answers.csv")
    assert answers["abstained"].iloc[1] == "yes"
    assert answers["reason"].iloc[1] == "no text"


def test_predicting_many_files_says_that_nothing_is_compared(model, films, tmp_path):
    messages = invoke("predict", model, films, "-o", f"{tmp_path}/answers/", status=0).stderr

    assert "Not compared with the calibration set" in messages
