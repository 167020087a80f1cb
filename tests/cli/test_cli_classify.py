"""Commands of classifiers, each on data that it understands or refuses."""

import json
from functools import partial
from unittest.mock import MagicMock

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import helpers
import pacsent
from pacsent.certify.samples import seen_before
from pacsent.cli import classifier_commands
from pacsent.scale import predict_shards


def rows(n, seed=0):
    """Labels, of which a tenth is wrong, and texts of films that are good or bad."""
    rng = np.random.default_rng(seed)
    films = [f"film{i}" for i in range(30)]
    labelled = []
    for _ in range(n):
        is_good = rng.random() < 0.5
        adjectives = ["good", "nice"] if is_good else ["bad", "poor"]
        words = [*rng.choice(films, 5), *rng.choice(adjectives, 2)]
        is_wrong = rng.random() < 0.1
        label = "yes" if is_good ^ is_wrong else "no"
        labelled.append((label, " ".join(words)))
    return labelled


QUICK = ("--quiet", "--encoder", "none")
SEEDED = (*QUICK, "--random-state", 0, "--calibration-size")
PLAIN = (*QUICK, "--no-calibration")
invoke = partial(helpers.invoke, status=0)


def run(*arguments, **how):
    return invoke(*arguments, **how).stdout


def run_json(*arguments, **how):
    return json.loads(run(*arguments, "--json", **how))


def messages(*arguments, status=1):
    """What a command that does not succeed says."""
    return invoke(*arguments, status=status).stderr


def write(path, labelled):
    """A file of label<TAB>text; with a header if its name ends in .tsv."""
    header = "label\ttext\n" if path.suffix == ".tsv" else ""
    lines = [f"{label}\t{text}\n" for label, text in labelled]
    path.write_text(header + "".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    write(folder / "train.tsv", rows(400))
    write(folder / "new.tsv", rows(300, seed=1))
    run("train", folder / "train.tsv", "-o", folder / "model", *SEEDED, 0.4)
    return folder


@pytest.fixture
def train(folder, tmp_path):
    """The arguments of a command that trains a new model."""
    return ("train", folder / "train.tsv", "-o", tmp_path / "m", "--overwrite")


def test_training_prints_the_certificate(train):
    shown = run(*train, "--calibration-size", "0.4", *QUICK)

    assert "With 95% confidence, the error rate on new texts is at most" in shown
    assert "Assumption" not in shown  # `verify` prints what is the same for every certificate


def test_training_states_what_held_out_labels_cost(train, monkeypatch):
    loud = (*train, "--calibration-size", "0.4", *QUICK[1:])
    assert "Holding out 160 of 400 labels costs about " in invoke(*loud).stderr

    monkeypatch.setattr(classifier_commands, "_MAX_COST_TEXTS", 399)

    assert "160 texts were held out. To see what that costs in" in invoke(*loud).stderr


def test_without_held_out_labels_nothing_is_guaranteed(train):
    result = run_json(*train, *PLAIN)

    assert result["classes"] == ["no", "yes"]
    assert "certificate" not in result
    assert "No guarantee: no labels were held out" in invoke(*train, *PLAIN[1:]).stderr


def test_texts_of_a_class_that_is_not_fitted_are_named_beside_those_held_out(tmp_path):
    data = write(tmp_path / "train.tsv", [*rows(400), ("maybe", "neither good nor bad")])

    trained = invoke("train", data, "-o", tmp_path / "m", "--calibration-size", "0.4", *QUICK[1:])

    cost = "This counts every text of 1 class with too few to be fitted."
    assert cost in trained.stderr


def test_how_many_rows_are_held_out_follows_from_the_number_of_labels(folder, tmp_path):
    options = ("--random-state", 0, "--n-candidates", 5, *QUICK)

    result = run_json("train", folder / "train.tsv", "-o", tmp_path / "m", *options)

    assert 110 < result["certificate"]["n"] <= 120  # 0.3 of 400, near-duplicates once
    assert result["certificate"]["corrections"] == {"candidates": 5}


def test_a_drawn_seed_is_printed(train):
    loud = (*train, "--calibration-size", "0.4", *QUICK[1:], "--json")

    done = invoke(*loud)

    seed = json.loads(done.stdout)["certificate"]["random_state"]
    assert f"--random-state {seed}, which gives the same model again" in done.stderr


def test_keeping_the_best_of_several_runs_is_warned_against(train):
    loud = (*train, "--calibration-size", "0.4", *QUICK[1:])

    messages = invoke(*loud).stderr

    assert "Do not train several times and keep the best one" in messages
    assert "--n-candidates" in messages


def test_with_a_number_of_candidates_several_runs_are_not_warned_against(train):
    loud = (*train, "--calibration-size", "0.4", *QUICK[1:], "--n-candidates", 5)

    messages = invoke(*loud).stderr

    assert "Do not train several times" not in messages


def test_a_seed_that_was_given_is_not_printed_again(train):
    loud = (*train, "--calibration-size", "0.4", *QUICK[1:], "--random-state", 3)

    messages = invoke(*loud).stderr

    assert "The split was drawn" not in messages


def test_which_rows_are_held_out_follows_from_the_seed(folder, tmp_path):
    for name in ("a", "b"):
        run("train", folder / "train.tsv", "-o", tmp_path / name, "--random-state", 0, *QUICK)

    first, second = (pacsent.load(tmp_path / name) for name in ("a", "b"))
    assert isinstance(first, pacsent.CertifiedClassifier)
    assert first.seed_ == second.seed_ == 0
    assert np.array_equal(first.calibration_.log_proba, second.calibration_.log_proba)


def test_the_drawn_seed_gives_the_same_model_again(folder, tmp_path):
    drawn = tmp_path / "drawn"
    again = tmp_path / "again"
    certificate = run_json("train", folder / "train.tsv", "-o", drawn, *QUICK)["certificate"]

    seed = certificate["random_state"]
    run("train", folder / "train.tsv", "-o", again, "--random-state", seed, *QUICK)

    for name in ("config.json", "estimator/config.json", "estimator/model.safetensors"):
        assert (drawn / name).read_bytes() == (again / name).read_bytes()


@pytest.fixture
def hundred_texts():
    return "".join(f"{text}\n" for _, text in rows(100, seed=3))


def test_predictions_are_a_table_with_sets_and_abstentions(folder, tmp_path, hundred_texts):
    output = tmp_path / "out.tsv"
    run("predict", folder / "model", "-", "-o", output, "--error", "0.2", input=hundred_texts)

    header, first, *others = output.read_text().splitlines()
    columns = ["text", "prediction", "probability", "set", "abstained", "reason"]
    _, label, probability, labels, abstained, _ = first.split("\t")
    assert header.split("\t") == columns
    assert len(others) == 99
    assert label in ("yes", "no")
    assert 0.5 <= float(probability) <= 1
    assert abstained in ("yes", "no")
    assert set(labels.split(",")) <= {"yes", "no", ""}
    assert not list(tmp_path.glob("*.part-*"))


def test_predictions_are_printed_without_the_texts(folder, tmp_path, hundred_texts):
    output = tmp_path / "out.tsv"
    command = ("predict", folder / "model", "-", "--error", "0.2")
    run(*command, "-o", output, input=hundred_texts)

    printed = run(*command, input=hundred_texts)

    without_texts = [line.partition("\t")[2] for line in output.read_text().splitlines()]
    assert printed.splitlines() == without_texts


def test_certify_counts_texts_that_were_not_fitted(folder):
    certificate = run_json("certify", folder / "model", folder / "new.tsv")

    assert 290 < certificate["n"] <= 300  # near-duplicates of texts that were fitted are left out
    assert "at most" in run("certify", folder / "model", folder / "new.tsv", "--per-class")


def test_certify_rejects_the_texts_of_training(folder):
    message = messages("certify", folder / "model", folder / "train.tsv")
    assert "were among the texts it was fitted on" in message


def test_compare_states_a_difference(folder, tmp_path):
    run("train", folder / "train.tsv", "-o", tmp_path / "b", "--ngrams", "1", *QUICK)
    shown = run("compare", folder / "model", tmp_path / "b", folder / "new.tsv")
    assert "With 95% confidence" in shown


def test_evaluate_states_the_accuracy_and_the_worst_errors(folder):
    result = run_json("evaluate", folder / "model", folder / "new.tsv", "-k", "3")

    labels, texts = zip(*rows(300, seed=1))
    predictions = pacsent.load(folder / "model").predict(texts)
    is_wrong = predictions != np.array(labels)
    error_rows = [error["row"] - 1 for error in result["errors"]]
    probabilities = [error["probability"] for error in result["errors"]]
    assert result["accuracy"] == pytest.approx(1 - is_wrong.mean())
    assert len(error_rows) == 3
    assert is_wrong[error_rows].all()
    assert probabilities == sorted(probabilities, reverse=True)


def test_evaluate_prints_five_errors(folder):
    shown = run("evaluate", folder / "model", folder / "new.tsv")

    assert "precision" in shown
    assert shown.count("predicted") == 5


def test_predictions_for_texts_of_training_come_with_a_warning(folder):
    warning = invoke("predict", folder / "model", folder / "train.tsv").stderr

    assert "of the 400 texts equal one that the model was fitted on" in warning


@pytest.fixture(scope="module")
def fitted_rows(folder):
    """Whether each row of the file that the model was trained on was fitted, (400,)."""
    classifier = pacsent.load(folder / "model")
    texts = [text for _, text in rows(400)]
    is_fitted, _ = seen_before(classifier, texts)
    return is_fitted


def test_evaluate_leaves_out_the_rows_that_the_model_was_fitted_on(folder, fitted_rows):
    result = run_json("evaluate", folder / "model", folder / "train.tsv", "-k", 400)

    labels, texts = map(np.array, zip(*rows(400)))
    is_right = pacsent.load(folder / "model").predict(texts.tolist()) == labels
    error_rows = {error["row"] - 1 for error in result["errors"]}
    assert result["n"] == np.sum(~fitted_rows)
    assert result["n_left_out"] == np.sum(fitted_rows)
    assert result["accuracy"] == pytest.approx(is_right[~fitted_rows].mean())
    assert error_rows == set(np.flatnonzero(~fitted_rows & ~is_right))


@pytest.fixture(params=["evaluate", "report"])
def measure(request, folder, tmp_path):
    """The arguments of a command that measures the model on a table, but for the table."""
    if request.param == "evaluate":
        return ("evaluate", folder / "model")
    return ("report", "-o", tmp_path / "report.html", folder / "model")


def test_rows_that_are_left_out_are_counted_in_the_terminal(folder, fitted_rows, measure):
    shown = run(*measure, folder / "train.tsv")

    n_fitted = fitted_rows.sum()
    assert f"{n_fitted} of 400 rows were left out: the model was fitted on them." in shown
    assert f"Measured on the other {400 - n_fitted}." in shown


def test_the_page_of_a_report_says_which_rows_were_left_out(folder, tmp_path, fitted_rows):
    page = tmp_path / "report.html"

    result = run_json("report", folder / "model", folder / "train.tsv", "-o", page)

    n_fitted = fitted_rows.sum()
    sentence = f"{n_fitted} of 400 rows were left out: the model was fitted on them."
    assert sentence in page.read_text()
    assert result["n_left_out"] == n_fitted


def test_the_audit_of_a_report_looks_at_all_rows(folder, tmp_path):
    page = tmp_path / "report.html"

    result = run_json("report", folder / "model", folder / "train.tsv", "-o", page, "--audit")

    assert result["n"] < 400
    assert result["audit"]["n"] == 400


def test_all_rows_are_measured_if_asked_for_and_the_page_says_that_this_is_too_good(
    folder, tmp_path, fitted_rows
):
    page = tmp_path / "report.html"
    keep = ("--overlap", "keep")

    done = invoke("report", folder / "model", folder / "train.tsv", "-o", page, *keep)

    warning = f"{fitted_rows.sum()} of the 400 texts equal one that the model was fitted on"
    headline, _, _ = page.read_text().partition("<h2>")
    assert f"This accuracy is too high: {warning}" in headline
    assert f"Warning: {warning}" in done.stderr


@pytest.fixture
def only_fitted(folder, fitted_rows, tmp_path):
    """A table of nothing but the rows that the model was fitted on."""
    labelled = np.array(rows(400))[fitted_rows].tolist()
    return write(tmp_path / "fitted.tsv", labelled)


def test_without_any_new_row_there_is_one_error_that_says_what_to_do(measure, only_fitted):
    message = messages(*measure, only_fitted, "--quiet")

    assert "none is left to measure on" in message
    assert "Give labelled texts that are new to it" in message
    assert "--overlap keep" in message


def test_predictions_without_a_model_have_no_rows_that_were_fitted(folder):
    message = messages("evaluate", folder / "new.tsv", "--overlap", "drop", status=2)

    assert "--overlap is about the texts that MODEL was fitted on" in message


def test_an_explanation_is_printed_and_written_as_html(folder, tmp_path):
    page = tmp_path / "x.html"

    shown = run("explain", folder / "model", "film1 <i>good</i>", "--html", page)

    assert "good" in shown
    assert "&lt;i&gt;" in page.read_text()


def test_an_explanation_lists_as_many_words_as_asked_for(folder):
    lines = run("explain", folder / "model", "Good good film1", "-k", "1").splitlines()

    assert lines[2].split()[1] == "good"
    assert "other words" in lines[3]


def test_an_explanation_is_printed_as_json(folder):
    assert run_json("explain", folder / "model", "film1 good")["label"] == "yes"


def test_an_explanation_needs_a_text(folder):
    run("explain", folder / "model", status=2)


def test_a_label_that_differs_in_case_is_suggested(folder):
    message = messages("explain", folder / "model", "good", "--label", "YES")
    assert "label must be a fitted class (no, yes). Got YES instead. Did you mean yes?" in message


@pytest.fixture
def train_mixed(tmp_path):
    """A command that trains on labels of which two differ in case."""
    labelled = []
    for i in range(90):
        label = ("pos", "POS", "neg")[i % 3]
        adjective = "bad" if label == "neg" else "good"
        labelled.append((label, f"{adjective} {i}"))
    data = write(tmp_path / "mixed.tsv", labelled)
    return ("train", data, "-o", tmp_path / "m", "--encoder", "none")


def test_labels_that_differ_in_case_only_are_rejected(train_mixed):
    message = messages(*train_mixed, status=2)

    spellings = "case or spaces only: 'POS' (30, rows 2, 5, 8, 11, 14, ...) for 'pos'."
    assert f"{spellings} Give --merge-labels, or --keep-case." in message
    assert message.count("'POS'") == 1


def test_labels_that_differ_in_case_only_are_kept_or_merged_as_asked_for(train_mixed):
    assert run_json(*train_mixed, "--keep-case")["classes"] == ["POS", "neg", "pos"]
    merged = run_json(*train_mixed, "--overwrite", "--merge-labels")
    assert merged["classes"] == ["neg", "pos"]


def test_at_a_terminal_labels_that_differ_in_case_only_are_asked_about(train_mixed, monkeypatch):
    monkeypatch.setattr("pacsent.cli.classifier_commands.sys", MagicMock())
    assert run_json(*train_mixed, input="y\n")["classes"] == ["neg", "pos"]


def test_monitoring_the_same_kind_of_texts_raises_no_alarm(folder, tmp_path):
    # at alpha = 0.05 one run in twenty may well raise a false alarm (their rate is simulated in
    # tests/certify/test_guarantees.py), at 1e-6 none will
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{text}\n" for _, text in rows(300, seed=4)))

    assert "No alarm" in run("monitor", folder / "model", texts, "--delta", "1e-6")


def test_monitoring_another_kind_of_texts_raises_an_alarm(folder, tmp_path):
    towns = [f"town{i}" for i in range(300)]  # repeated texts would count once
    drawn_towns = np.random.default_rng(0).choice(towns, (300, 7))
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(" ".join(row) + "\n" for row in drawn_towns))

    result = run_json("monitor", folder / "model", texts, "--delta", "1e-6", status=3)

    assert result["alarm"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n', "must include label. Got text instead. Name the column"),
        ("c.jsonl", '{"body": "x"}\n', "Name the column with --text-column and --label-column"),
        ("d.jsonl", "no json\n", "must be a JSON object"),
        ("f.txt", "without a tab\n", "label<TAB>text"),
        ("g.csv", "review,stars\nx,1\n", "must include text and label. Got review, stars"),
        ("h.csv", "Text;label\nx;a\n;\n", "Did you mean Text?"),
    ],
)
def test_files_of_something_else_are_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    assert message in messages("train", tmp_path / name, "-o", tmp_path / "m")


def test_a_model_that_gives_no_vectors_is_refused_in_one_line(folder, tmp_path):
    text, model = tmp_path / "t.txt", folder / "model"
    text.write_text("good film1\nbad film2\n")
    for command in (
        ["index", model, text, "-o", tmp_path / "i"],
        ["embed", model, text, "--pairs", text],
        ["embed", model, text],
        ["embed", model, text, "-o", f"{tmp_path}/shards/"],
        ["paper", "continuation", model, text],
    ):
        message = "must be word vectors or a fitted method. Got a Certi"
        assert message in messages(*command), command


@pytest.fixture
def train_groups(tmp_path):
    """A command that trains on a table whose rows are from six books."""
    lines = ["label\tbook\ttext"]
    for i, (label, text) in enumerate(rows(120)):
        lines.append(f"{label}\tbook {i % 6}\t{text}")
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    return ("train", tmp_path / "a.tsv", "-o", tmp_path / "m", *QUICK, "--group-column")


def test_groups_are_read_from_a_column(train_groups, monkeypatch):
    fit = pacsent.TextClassifier.fit
    groups_of_texts = []

    def record_and_fit(self, X, y, sample_weight=None, groups=None):
        groups_of_texts.append(dict(zip(X, groups)))
        return fit(self, X, y, sample_weight, groups)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", record_and_fit)
    run(*train_groups, "book", "--calibration-size", "0.2")

    books = {text: i % 6 for i, (_, text) in enumerate(rows(120))}
    pairs = {(books[text], group) for text, group in groups_of_texts[0].items()}
    assert len(pairs) == len(set(groups_of_texts[0].values())) == 6


def test_a_certificate_of_groups_is_about_the_same_groups(train_groups):
    shown = run(*train_groups, "book", "--calibration-size", "0.2")

    assert "new texts of the same 6 groups" in shown
    assert "NOT a guarantee for new groups" in shown


def test_a_column_of_groups_that_is_not_there_is_rejected(train_groups):
    message = messages(*train_groups, "page")
    assert "must include page. Got label, book, text instead" in message


def test_an_existing_model_is_rejected_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(pacsent.TextClassifier, "fit", lambda *_, **__: pytest.fail("it fitted"))
    run("train", folder / "train.tsv", "-o", folder / "model", status=1)


def test_an_existing_file_is_replaced_only_with_overwrite(folder, tmp_path):
    page = tmp_path / "notes.txt"
    page.write_text("mine")
    command = ("explain", folder / "model", "good", "--html", page)

    run(*command, status=1)
    assert page.read_text() == "mine"

    run(*command, "--overwrite")
    assert page.read_text().startswith("<")


def test_names_of_classes_with_commas_can_be_told_apart(tmp_path):
    names = {"yes": "good, or so", "no": 'the "bad"\nones'}
    lines = [json.dumps({"label": names[label], "text": text}) for label, text in rows(200)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    run("train", tmp_path / "a.jsonl", "-o", tmp_path / "m", *SEEDED, 0.4)
    how = ("predict", tmp_path / "m", "-", "--error", "0.06")
    table = run(*how, input="zebra\n").splitlines()
    assert table[1].split("\t")[2] == '"good, or so","the ""bad"" ones"'
    assert run_json(*how, input="zebra\n")["set"] == ["good, or so", names["no"]]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A model with fifty calibration texts: too few for an error of 0.05."""
    folder = tmp_path_factory.mktemp("small")
    write(folder / "a.tsv", rows(100))
    run("train", folder / "a.tsv", "-o", folder / "m", *SEEDED, 0.5)
    return folder / "m"


UNREACHABLE = "on the 50 calibration texts, no threshold has an error rate of at most 0.05"


def test_predictions_state_the_error_that_is_reachable(small_model):
    result = invoke("predict", small_model, "-", input="good nice\n")

    assert "With 95% confidence, at most" in result.stderr
    assert "Warning" not in result.stderr
    assert result.stdout.splitlines()[1].endswith("\tno\t")


def test_predictions_say_why_every_row_abstains(small_model):
    result = invoke("predict", small_model, "-", "--error", "0.05", input="good nice\n")

    assert UNREACHABLE in result.stderr
    assert result.stdout.splitlines()[1].endswith("\tyes\t")


def test_an_error_that_cannot_be_guaranteed_is_answered_in_the_terms_of_the_shell(small_model):
    messages = invoke("predict", small_model, "-", "--error", "0.05", input="good nice\n").stderr

    assert "If no error is given, one is selected" in messages
    assert "error=" not in messages


def test_without_an_error_the_choice_is_explained_in_the_terms_of_the_shell(small_model):
    messages = invoke("predict", small_model, "-", input="good nice\n").stderr

    assert "No error was given" in messages
    assert "each of them was tested with 99.5% confidence" in messages
    assert "such as --error 0.1" in messages


@pytest.mark.parametrize(("given", "hint"), [("10", "Write 0.1 for 10%"), ("5%", "0.05 for 5%")])
def test_an_error_in_percent_is_told_how_to_be_written(small_model, given, hint):
    messages = invoke("predict", small_model, "-", "--error", given, input="good\n", status=2)

    assert hint in messages.stderr


def test_predicting_files_warns_that_every_row_abstains(small_model, tmp_path):
    source = tmp_path / "t.txt"
    source.write_text("good nice\n")
    with pytest.warns(UserWarning, match=UNREACHABLE):
        predict_shards(str(small_model), [str(source)], str(tmp_path / "out"), error=0.05)


@pytest.fixture(scope="module")
def certificate(folder):
    return run_json("certify", folder / "model", folder / "new.tsv")


def test_the_certificate_of_a_classifier_is_verified(folder, tmp_path, certificate):
    path = tmp_path / "c"
    path.write_text(json.dumps(certificate))

    assert "Verified: the bound follows from its parts" in run("verify", path)
    run("verify", path, folder / "new.tsv", folder / "model")


def test_what_stays_unchecked_with_the_texts_is_in_plain_words(folder, tmp_path, certificate):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate))

    shown = run("verify", path, folder / "new.tsv", folder / "model")

    _, _, listed = shown.partition("Not checked:\n")
    assert listed.splitlines()[:3] == [
        "- whether the model was trained on the texts",
        "- whether labels were corrected after predictions were seen",
        "- whether more models or settings were compared than it says",
    ]


@pytest.mark.parametrize(
    "change", [{"error_upper": 0.01}, {"n": "300"}, {"n_errors": -1}, {"more": 1}], ids=str
)
def test_a_changed_certificate_is_rejected_in_one_line(tmp_path, certificate, change):
    path = tmp_path / "c"
    path.write_text(json.dumps(certificate | change))

    message = messages("verify", path)

    assert message.startswith("Error: ")
    assert message.count("\n") == 1


READERS = {
    "csv": pandas.read_csv,
    "tsv": lambda path: pandas.read_csv(path, sep="\t"),
    "jsonl": lambda path: pandas.read_json(path, lines=True),
    "parquet": pandas.read_parquet,
}


FRAME = pandas.DataFrame(
    {
        "id": [7, 8],
        "text": ["good, nice film1", "bad\tfilm2"],
        "label": ["yes", "no"],
        "prediction": ["TRUE-0", "TRUE-1"],
    }
)
INPUT_COLUMNS = ["id", "text", "label", "input_prediction"]
OUTPUT_COLUMNS = ["prediction", "probability", "set", "abstained", "reason"]


@pytest.mark.parametrize("kind", READERS)
def test_one_table_gives_one_table_with_every_column(folder, tmp_path, kind):
    FRAME.to_csv(tmp_path / "in.csv", index=False)
    output = tmp_path / f"out.{kind}"

    run("predict", folder / "model", tmp_path / "in.csv", "-o", output, "--error", "0.2")

    table = READERS[kind](output)
    assert list(table.columns) == INPUT_COLUMNS + OUTPUT_COLUMNS
    assert table["text"].tolist() == FRAME["text"].tolist()
    assert table["input_prediction"].tolist() == ["TRUE-0", "TRUE-1"]
    assert table["prediction"].tolist() == table["label"].tolist() == ["yes", "no"]


def test_a_column_that_is_renamed_is_stated_once(folder, tmp_path):
    FRAME.to_csv(tmp_path / "in.csv", index=False)

    message = invoke(
        "predict", folder / "model", tmp_path / "in.csv", "-o", tmp_path / "out.csv"
    ).stderr

    renamed = "The column prediction of in.csv is named input_prediction in the output"
    assert message.startswith(f"Warning: {renamed}")
    assert message.count(renamed) == 1
    assert "Read 2 rows of in.csv, column text." in message


def test_many_tables_give_many_tables_whose_types_stay(folder, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    FRAME.to_csv(source / "a.csv", index=False)
    numbers = pyarrow.array([1, None], pyarrow.int16())
    parquet.write_table(
        pyarrow.table({"n": numbers, "text": ["good", "bad"]}), source / "b.parquet"
    )

    run("predict", folder / "model", source, "-o", tmp_path / "out", "--n-jobs", 1)

    first = pandas.read_parquet(tmp_path / "out" / "a.parquet")
    second = parquet.read_table(tmp_path / "out" / "b.parquet")
    assert list(first.columns) == INPUT_COLUMNS + OUTPUT_COLUMNS
    assert first["id"].tolist() == ["7", "8"]
    assert second.schema.field("n").type == pyarrow.int16()
    assert second["n"].to_pylist() == [1, None]


@pytest.fixture
def predict_file(folder, tmp_path):
    """A function that writes a file and returns the command that predicts it."""

    def predict_file(name, content):
        (tmp_path / name).write_text(content)
        return ("predict", folder / "model", tmp_path / name)

    return predict_file


def test_every_row_of_a_table_has_an_answer(predict_file):
    table = run(*predict_file("a.csv", "text\ngood film1\n\nbad film2\n"))
    assert len(table.splitlines()) == 4


def test_a_row_without_any_value_is_skipped_and_counted(predict_file):
    result = invoke(*predict_file("e.csv", "text;n\ngood film1;1\n;\n"))

    assert len(result.stdout.splitlines()) == 2
    assert "Read 1 row of e.csv, column text, 1 without any value skipped." in result.stderr


def test_a_quote_that_is_not_closed_is_rejected(predict_file):
    command = predict_file("q.tsv", 'text\n"unclosed good film\nbad film\ngood town\n')
    assert "Line 2 of q.tsv must be a row of a TSV" in messages(*command)


def test_a_key_that_the_first_object_lacks_is_rejected(predict_file, tmp_path):
    command = predict_file("c.jsonl", '{"text": "good"}\n{"text": "bad", "n": 2}\n')
    message = messages(*command, "-o", tmp_path / "o.csv")
    assert "no other keys than the first object" in message


def test_labels_of_lines_are_not_read_as_text(predict_file):
    command = predict_file("lines.tsv", "yes\tgood film\nno\tbad film\n")
    assert "must include text" in messages(*command)


def test_bad_rows_are_reported_and_the_others_answered(predict_file):
    command = predict_file("b.jsonl", '{"text": "good"}\n{"text": 5}\n{"text": "bad"}\n')

    result = invoke(*command, "--on-error", "report", status=1)

    assert len(result.stdout.splitlines()) == 4
    assert "Bad row: b.jsonl, line 2: must have a text. Got int '5'" in result.stderr


LINES = "".join(f"{label}\t{text}\n" for label, text in rows(60))


def test_training_uses_english_vectors_by_default(tmp_path, monkeypatch):
    fit = pacsent.TextClassifier.fit
    encoders = []

    def fit_without_encoder(self, *arguments, **options):
        encoders.append(self.encoder)
        return fit(self.set_params(encoder=None), *arguments, **options)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", fit_without_encoder)
    run("train", "-", "-o", tmp_path / "a", input=LINES)

    assert "english" in str(encoders[0])


def test_training_reads_a_table_from_stdin(tmp_path):
    table = "label,text\n" + LINES.replace("\t", ",")

    run("train", "-", "--input-format", "csv", "-o", tmp_path / "m", *QUICK, input=table)

    model = pacsent.load(tmp_path / "m")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.estimator_.encoder_ is None


@pytest.fixture(scope="module")
def plain_model(folder):
    """A model without a calibration set."""
    run("train", folder / "train.tsv", "-o", folder / "plain", *PLAIN)
    return folder / "plain"


@pytest.mark.parametrize("output", [[], ["-o", "out/"]], ids=["printed", "a folder"])
def test_an_error_rate_without_a_calibration_set_is_refused(
    plain_model, tmp_path, monkeypatch, output
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text\ngood film1\n")

    result = invoke("predict", plain_model, "a.csv", "--error", "0.1", *output, status=1)

    assert not result.stdout
    assert "as `pacsent train` does" in result.stderr
    assert "error must be left out for a classifier without a calibration set" in result.stderr


def test_a_server_of_a_plain_classifier_has_no_error_rate(plain_model):
    message = messages("serve", plain_model, "--port", "0", "--error", "0.1")
    assert "error must be left out" in message


def test_a_server_without_a_classifier_has_no_error_rate():
    message = messages("serve", "english", "--port", "0", "--error", "0.1")
    assert "none is served" in message


@pytest.mark.parametrize(
    ("output", "path", "read"),
    [("out/", "out/a.parquet", pandas.read_parquet), ("a.csv", "a.csv", pandas.read_csv)],
    ids=["a folder", "a file"],
)
def test_bad_rows_have_no_answer(folder, tmp_path, output, path, read):
    source = tmp_path / "a.parquet"
    pandas.DataFrame({"text": ["good film1", None, "bad film2", " "]}).to_parquet(source)
    target = f"{tmp_path}/{output}"

    run("predict", folder / "model", source, "-o", target, "--on-error", "report", status=1)

    table = read(tmp_path / path)
    answers = table[["prediction", "probability", "set"]]
    assert table["reason"][[1, 3]].tolist() == ["no text"] * 2
    assert table["abstained"][[1, 3]].isin(["yes", True]).all()
    assert answers.iloc[[1, 3]].isna().all(axis=None)
    assert answers.iloc[[0, 2]].notna().all(axis=None)


def test_predictions_of_a_model_without_a_certificate_are_said_to_have_no_guarantee(tmp_path):
    texts = tmp_path / "films.csv"
    labelled = [f"{text},{label}" for label, text in rows(40)]
    texts.write_text("text,label\n" + "\n".join(labelled))
    model = tmp_path / "model"
    invoke("train", texts, "-o", model, *PLAIN)

    printed = invoke("predict", model, texts, "-o", tmp_path / "out.csv").stderr

    assert "No guarantee: the model has no certificate" in printed
