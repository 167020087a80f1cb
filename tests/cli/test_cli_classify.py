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
from pacsent.cli import classifier_commands
from pacsent.scale import predict_shards


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    films = [f"film{i}" for i in range(30)]
    labelled = []
    for _ in range(n):
        good = rng.random() < 0.5
        words = [*rng.choice(films, 5), *rng.choice(["good nice", "bad poor"][1 - good].split(), 2)]
        labelled.append(("yes" if good ^ (rng.random() < 0.1) else "no", " ".join(words)))
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
    lines = [f"{label}\t{text}\n" for label, text in labelled]
    path.write_text("".join(["label\ttext\n" * (path.suffix == ".tsv"), *lines]))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    write(folder / "train.tsv", rows(400))
    write(folder / "new.tsv", rows(300, seed=1))
    run("train", folder / "train.tsv", "-o", folder / "model", *SEEDED, 0.4)
    return folder


def test_training_prints_the_certificate_or_that_nothing_is_guaranteed(
    folder, tmp_path, monkeypatch
):
    how = ("train", folder / "train.tsv", "-o", tmp_path / "m", "--overwrite")
    shown = run(*how, "--calibration-size", "0.4", *QUICK)
    assert "With 95% confidence, the error rate on new texts is at most" in shown
    assert "Assumption" not in shown  # `verify` prints what is the same for every certificate
    loud = (*how, "--calibration-size", "0.4", *QUICK[1:])
    assert "Holding out 160 of 400 labels costs about " in invoke(*loud).stderr
    monkeypatch.setattr(classifier_commands, "_MAX_COST_TEXTS", 399)
    assert "160 texts were held out. To see what that costs in" in invoke(*loud).stderr
    result = run_json(*how, *PLAIN)
    assert result["classes"] == ["no", "yes"] and "certificate" not in result
    assert "No guarantee: no labels were held out" in invoke(*how, *PLAIN[1:]).stderr


def test_texts_of_a_class_that_is_not_fitted_are_named_beside_those_held_out(tmp_path):
    data = write(tmp_path / "train.tsv", [*rows(400), ("maybe", "neither good nor bad")])

    trained = invoke("train", data, "-o", tmp_path / "m", "--calibration-size", "0.4", *QUICK[1:])

    cost = "This counts every text of 1 class with too few to be fitted."
    assert cost in trained.stderr


def test_the_share_held_out_is_chosen_by_the_number_of_labels_and_the_rows_by_the_seed(
    folder, tmp_path
):
    how = ("--random-state", 0, "--n-candidates", 5, *QUICK)
    for name in "ab":
        result = run_json("train", folder / "train.tsv", "-o", tmp_path / name, *how)
    assert 110 < result["certificate"]["n"] <= 120  # 0.3 of 400, near-duplicates once
    assert result["certificate"]["corrections"] == {"candidates": 5}
    a, b = (pacsent.load(tmp_path / name) for name in "ab")
    assert isinstance(a, pacsent.CertifiedClassifier) and a.seed_ == b.seed_ == 0
    assert np.array_equal(a.calibration_.log_proba, b.calibration_.log_proba)
    # the drawn seed, which is printed, gives the same model again
    drawn, again = tmp_path / "c", tmp_path / "d"
    seed = run_json("train", folder / "train.tsv", "-o", drawn, *QUICK)["certificate"][
        "random_state"
    ]
    run("train", folder / "train.tsv", "-o", again, "--random-state", seed, *QUICK)
    for name in ("config.json", "estimator/config.json", "estimator/model.safetensors"):
        assert (drawn / name).read_bytes() == (again / name).read_bytes()


def test_predictions_are_a_table_with_sets_and_abstentions(folder, tmp_path):
    texts, output = "".join(f"{text}\n" for _, text in rows(100, seed=3)), tmp_path / "out.tsv"
    run("predict", folder / "model", "-", "-o", output, "--error", "0.2", input=texts)
    lines = output.read_text().splitlines()
    assert lines[0].split("\t") == [
        "text",
        "prediction",
        "probability",
        "set",
        "abstained",
        "reason",
    ]
    lines = [line.partition("\t")[2] for line in lines]
    assert len(lines) == 101 and not list(tmp_path.glob("*.part-*"))
    label, probability, labels, abstained, _ = lines[1].split("\t")
    assert label in ("yes", "no") and 0.5 <= float(probability) <= 1
    assert abstained in ("yes", "no") and set(labels.split(",")) <= {"yes", "no", ""}
    assert (
        run("predict", folder / "model", "-", "--error", "0.2", input=texts).splitlines() == lines
    )


def test_certify_and_compare(folder, tmp_path):
    assert "at most" in run("certify", folder / "model", folder / "new.tsv", "--per-class")
    certificate = run_json("certify", folder / "model", folder / "new.tsv")
    assert 290 < certificate["n"] <= 300  # near-duplicates of texts that were fitted are left out
    run("train", folder / "train.tsv", "-o", tmp_path / "b", "--ngrams", "1", *QUICK)
    shown = run("compare", folder / "model", tmp_path / "b", folder / "new.tsv")
    assert "With 95% confidence" in shown
    message = messages("certify", folder / "model", folder / "train.tsv")
    assert "were among the texts it was fitted on" in message


def test_evaluate_tells_how_good_a_model_is_and_shows_its_worst_errors(folder):
    result = run_json("evaluate", folder / "model", folder / "new.tsv", "-k", "3")
    model, labelled = pacsent.load(folder / "model"), rows(300, seed=1)
    predicted = model.predict([text for _, text in labelled])
    wrong = [row for row, (label, _) in enumerate(labelled) if label != predicted[row]]
    assert result["accuracy"] == pytest.approx(1 - len(wrong) / 300)
    assert len(result["errors"]) == 3 and {error["row"] - 1 for error in result["errors"]} <= set(
        wrong
    )
    probabilities = [error["probability"] for error in result["errors"]]
    assert probabilities == sorted(probabilities, reverse=True)
    shown = run("evaluate", folder / "model", folder / "new.tsv")
    assert "precision" in shown and shown.count("predicted") == 5
    for command in ("evaluate", "predict"):
        warning = invoke(command, folder / "model", folder / "train.tsv").stderr
        assert "of the 400 texts are among those that the model was fitted on" in warning


def test_explanations(folder, tmp_path):
    model, page = folder / "model", tmp_path / "x.html"
    assert "good" in run("explain", model, "film1 <i>good</i>", "--html", page)
    assert "&lt;i&gt;" in page.read_text()
    assert run_json("explain", model, "film1 good")["label"] == "yes"
    listed = run("explain", model, "Good good film1", "-k", "1").splitlines()[2:]
    assert listed[0].split()[1] == "good" and "other words" in listed[1]
    run("explain", model, status=2)
    message = messages("explain", model, "good", "--label", "YES")
    assert "label must be a fitted class (no, yes). Got YES instead. Did you mean yes?" in message


def test_labels_that_differ_in_case_only_are_asked_about(tmp_path, monkeypatch):
    rows = [(("pos", "POS", "neg")[i % 3], f"{['good', 'bad'][i % 3 == 2]} {i}") for i in range(90)]
    train = "train", write(tmp_path / "mixed.tsv", rows), "-o", tmp_path / "m", "--encoder", "none"
    message = messages(*train, status=2)
    assert (
        "case or spaces only: 'POS' (30) for 'pos'. Give --merge-labels, or --keep-case." in message
    )
    assert message.count("'POS'") == 1
    assert run_json(*train, "--keep-case")["classes"] == ["POS", "neg", "pos"]
    monkeypatch.setattr("pacsent.cli.classifier_commands.sys", MagicMock())  # at a terminal
    assert run_json(*train, "--overwrite", input="y\n")["classes"] == ["neg", "pos"]
    assert run_json(*train, "--overwrite", "--merge-labels")["classes"] == ["neg", "pos"]


def test_watching_raises_the_alarm_only_where_the_stream_changes(folder, tmp_path):
    # at alpha = 0.05 one run in twenty may well raise a false alarm (their rate is simulated in
    # tests/certify/test_guarantees.py), at 1e-6 none will
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{text}\n" for _, text in rows(300, seed=4)))
    assert "No alarm" in run("monitor", folder / "model", texts, "--alpha", "1e-6")
    words = [f"town{i}" for i in range(300)]  # repeated texts would count once
    other = np.random.default_rng(0).choice(words, (300, 7))
    texts.write_text("".join(" ".join(row) + "\n" for row in other))
    assert run_json("monitor", folder / "model", texts, "--alpha", "1e-6", status=3)["alarm"]


def test_files_that_hold_something_else_are_refused(tmp_path):
    for name, content, message in (
        ("a.jsonl", '{"text": "x"}\n', "must include label. Got text instead. Name the column"),
        ("c.jsonl", '{"body": "x"}\n', "Name the column with --text-column and --label-column"),
        ("d.jsonl", "no json\n", "must be a JSON object"),
        ("f.txt", "without a tab\n", "label<TAB>text"),
        ("g.csv", "review,stars\nx,1\n", "must include text and label. Got review, stars"),
        ("h.csv", "Text;label\nx;a\n;\n", "Did you mean Text?"),
    ):
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
        ["paper", "certify", model, text],
    ):
        message = "must be word vectors or a fitted method. Got a Certi"
        assert message in messages(*command), command


def test_groups_are_read_from_a_column_and_left_out_together(tmp_path, monkeypatch):
    lines = ["label\tbook\ttext"]
    lines += [f"{label}\tbook {i % 6}\t{text}" for i, (label, text) in enumerate(rows(120))]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    seen, fit = [], pacsent.TextClassifier.fit

    def recorded(self, X, y, sample_weight=None, groups=None):
        seen.append((list(X), list(groups)))
        return fit(self, X, y, sample_weight, groups)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", recorded)
    how = ("train", tmp_path / "a.tsv", "-o", tmp_path / "m", *QUICK, "--group-column")
    shown = run(*how, "book", "--calibration-size", "0.2")
    (texts, groups), book_of = seen[0], {text: i % 6 for i, (_, text) in enumerate(rows(120))}
    expected = [book_of[text] for text in texts]
    assert len(set(zip(expected, groups))) == len(set(groups)) == 6
    assert "new texts of the same 6 groups" in shown and "NOT a guarantee for new groups" in shown
    message = messages(*how, "page", "--overwrite")
    assert "must include page. Got label, book, text instead" in message


def test_what_exists_is_refused_before_the_work_and_replaced_only_where_allowed(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(pacsent.TextClassifier, "fit", lambda *_, **__: pytest.fail("it fitted"))
    run("train", folder / "train.tsv", "-o", folder / "model", status=1)
    page = tmp_path / "notes.txt"
    page.write_text("mine")
    how = ("explain", folder / "model", "good", "--html", page)
    run(*how, status=1)
    assert page.read_text() == "mine"
    run(*how, "--overwrite")
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


def test_predictions_say_why_every_row_abstains_and_what_is_reachable(tmp_path):
    write(tmp_path / "a.tsv", rows(100))
    run("train", tmp_path / "a.tsv", "-o", tmp_path / "m", *SEEDED, 0.5)
    how = ("predict", tmp_path / "m", "-")
    chosen = invoke(*how, input="good nice\n")
    assert "With 95% confidence, at most" in chosen.stderr and "Warning" not in chosen.stderr
    assert chosen.stdout.splitlines()[1].endswith("\tno\t")
    message = "on the 50 calibration texts, no threshold has an error rate of at most 0.05"
    result = invoke(*how, "--error", "0.05", input="good nice\n")
    assert message in result.stderr and result.stdout.splitlines()[1].endswith("\tyes\t")
    (tmp_path / "t.txt").write_text("good nice\n")
    with pytest.warns(UserWarning, match=message):
        source, target = str(tmp_path / "t.txt"), str(tmp_path / "out")
        predict_shards(str(tmp_path / "m"), [source], target, error=0.05)


def test_the_certificate_of_a_classifier_is_verified(folder, tmp_path):
    certificate, path = run_json("certify", folder / "model", folder / "new.tsv"), tmp_path / "c"
    path.write_text(json.dumps(certificate))
    assert "Verified: the bound follows from its parts" in run("verify", path)
    run("verify", path, folder / "new.tsv", folder / "model")
    for changed in ({"error_upper": 0.01}, {"n": "300"}, {"n_errors": -1}, {"more": 1}):
        path.write_text(json.dumps(certificate | changed))
        message = messages("verify", path)
        assert message.startswith("Error: ") and message.count("\n") == 1


READERS = {
    "csv": pandas.read_csv,
    "tsv": lambda path: pandas.read_csv(path, sep="\t"),
    "jsonl": lambda path: pandas.read_json(path, lines=True),
    "parquet": pandas.read_parquet,
}


def test_one_table_gives_one_table_with_every_column(folder, tmp_path):
    frame = pandas.DataFrame(
        {
            "id": [7, 8],
            "text": ["good, nice film1", "bad\tfilm2"],
            "label": ["yes", "no"],
            "prediction": ["TRUE-0", "TRUE-1"],
        }
    )
    frame.to_csv(tmp_path / "in.csv", index=False)
    columns = ["id", "text", "label", "input_prediction"]
    columns += ["prediction", "probability", "set", "abstained", "reason"]
    for kind, read in READERS.items():
        output = tmp_path / f"out.{kind}"
        how = ("predict", folder / "model", tmp_path / "in.csv", "-o", output, "--error", "0.2")
        message = invoke(*how).stderr
        renamed = "The column prediction of in.csv is named input_prediction in the output"
        assert message.startswith(f"Warning: {renamed}") and message.count(renamed) == 1
        assert "Read 2 rows of in.csv, column text." in message
        table = read(output)
        assert list(table.columns) == columns
        assert table["text"].tolist() == frame["text"].tolist()
        assert table["input_prediction"].tolist() == ["TRUE-0", "TRUE-1"]
        assert table["prediction"].tolist() == table["label"].tolist() == ["yes", "no"]
    # many tables, whose types stay
    (tmp_path / "in").mkdir()
    kept = {"n": pyarrow.array([1, None], pyarrow.int16()), "text": ["good", "bad"]}
    parquet.write_table(pyarrow.table(kept), tmp_path / "in" / "b.parquet")
    frame.to_csv(tmp_path / "in" / "a.csv", index=False)
    run("predict", folder / "model", tmp_path / "in", "-o", tmp_path / "out", "--n-jobs", 1)
    table = pandas.read_parquet(tmp_path / "out" / "a.parquet")
    assert list(table.columns) == columns and table["id"].tolist() == ["7", "8"]
    table = parquet.read_table(tmp_path / "out" / "b.parquet")
    assert table.schema.field("n").type == pyarrow.int16()
    assert table["n"].to_pylist() == [1, None]


def test_every_row_of_a_table_has_an_answer(folder, tmp_path):
    def put(name, content):
        (tmp_path / name).write_text(content)
        return "predict", folder / "model", tmp_path / name

    table = run(*put("a.csv", "text\ngood film1\n\nbad film2\n"))
    assert len(table.splitlines()) == 4
    message = messages(*put("q.tsv", 'text\n"unclosed good film\nbad film\ngood town\n'))
    assert "Line 2 of q.tsv must be a row of a TSV" in message
    result = invoke(*put("e.csv", "text;n\ngood film1;1\n;\n"))
    assert len(result.stdout.splitlines()) == 2
    assert "Read 1 row of e.csv, column text, 1 without any value skipped." in result.stderr
    later = put("c.jsonl", '{"text": "good"}\n{"text": "bad", "n": 2}\n')
    assert "no other keys than the first object" in messages(*later, "-o", tmp_path / "o.csv")
    # lines of label<TAB>text: the label is not to be read with the text
    message = messages(*put("lines.tsv", "yes\tgood film\nno\tbad film\n"))
    assert "must include text" in message
    content = '{"text": "good"}\n{"text": 5}\n{"text": "bad"}\n'
    result = invoke(*put("b.jsonl", content), "--on-error", "report", status=1)
    assert len(result.stdout.splitlines()) == 4
    assert "Bad row: b.jsonl, line 2: must have a text. Got int '5'" in result.stderr


def test_training_reads_stdin_and_uses_english_vectors_by_default(tmp_path, monkeypatch):
    seen, fit = [], pacsent.TextClassifier.fit

    def quick(self, *arguments, **more):
        seen.append(self.encoder)
        return fit(self.set_params(encoder=None), *arguments, **more)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", quick)
    lines = "".join(f"{label}\t{text}\n" for label, text in rows(60))
    run("train", "-", "-o", tmp_path / "a", input=lines)
    assert "english" in str(seen[0])
    table = "label,text\n" + lines.replace("\t", ",")
    run("train", "-", "--input-format", "csv", "-o", tmp_path / "b", *QUICK, input=table)
    assert seen[-1] is None
    assert pacsent.load(tmp_path / "b").classes_.tolist() == ["no", "yes"]


def test_an_error_rate_without_a_calibration_set_is_refused(folder, tmp_path):
    model, text = tmp_path / "plain", tmp_path / "a.csv"
    run("train", folder / "train.tsv", "-o", model, *PLAIN)
    text.write_text("text\ngood film1\n")
    for output in ([], ["-o", f"{tmp_path}/out/"]):
        result = invoke("predict", model, text, "--error", "0.1", *output, status=1)
        assert not result.stdout and "as `pacsent train` does" in result.stderr
        assert "error must be left out for a classifier without a calibration set" in result.stderr
    for served, message in ((model, "error must be left out"), ("english", "none is served")):
        assert message in messages("serve", served, "--port", "0", "--error", "0.1")


def test_bad_rows_have_no_answer(folder, tmp_path):
    texts = ["good film1", None, "bad film2", " "]
    pandas.DataFrame({"text": texts}).to_parquet(tmp_path / "a.parquet")
    for output in ("out/", "a.csv"):
        paths = (folder / "model", tmp_path / "a.parquet", "-o", f"{tmp_path}/{output}")
        run("predict", *paths, "--on-error", "report", status=1)
    for table in (
        pandas.read_parquet(tmp_path / "out/a.parquet"),
        pandas.read_csv(tmp_path / "a.csv"),
    ):
        answers = table[["prediction", "probability", "set", "abstained"]]
        assert table["reason"][[1, 3]].tolist() == ["no text"] * 2
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
