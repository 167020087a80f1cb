import json

import numpy as np
import pandas
import pyarrow
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import pacsent
from pacsent.cli import cli
from pacsent.scale import predict_shards


def rows(n, seed=0, topic="film"):
    rng = np.random.default_rng(seed)
    words = [f"{topic}{i}" for i in range(30)]
    found = []
    for _ in range(n):
        good = rng.random() < 0.5
        text = [
            *rng.choice(words, 5),
            *rng.choice(["good", "nice"] if good else ["bad", "poor"], 2),
        ]
        found.append(("yes" if good ^ (rng.random() < 0.1) else "no", " ".join(text)))
    return found


QUICK = ("--quiet", "--encoder", "none")
PLAIN = (*QUICK, "--no-calibration")


def run(*arguments, status=0, text=None):
    result = CliRunner().invoke(cli, [*map(str, arguments)], input=text)
    assert result.exit_code == status, result.output
    return result.stdout


def messages(*arguments, status=1):
    """What a command that does not succeed says, in one line."""
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def write(path, labelled):
    lines = [f"{label}\t{text}\n" for label, text in labelled]
    path.write_text("".join(["label\ttext\n" * (path.suffix == ".tsv"), *lines]))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    write(folder / "train.tsv", rows(400))
    write(folder / "new.tsv", rows(300, seed=1))
    how = ("--calibration-size", "0.4", "--random-state", 0, *QUICK)
    run("train", folder / "train.tsv", "-o", folder / "model", *how)
    return folder


def test_training_prints_the_certificate(folder, tmp_path):
    shown = run(
        "train", folder / "train.tsv", "-o", tmp_path / "m", "--calibration-size", "0.4", *QUICK
    )
    assert "With 95 % confidence, the error rate on new texts is at most" in shown
    found = json.loads(
        run("train", folder / "train.tsv", "-o", tmp_path / "m", "--json", *PLAIN, "--overwrite")
    )
    assert found["classes"] == ["no", "yes"]
    assert "certificate" not in found


def test_the_share_held_out_is_chosen_by_the_number_of_labels(folder, tmp_path):
    how = ("--json", "--random-state", 0, "--n-candidates", 5, *QUICK)
    found = json.loads(run("train", folder / "train.tsv", "-o", tmp_path / "m", *how))
    assert 110 < found["certificate"]["n"] <= 120  # 0.3 of 400, near-duplicates once
    assert found["certificate"]["corrections"] == {"candidates": 5}
    assert isinstance(pacsent.load(tmp_path / "m"), pacsent.CertifiedClassifier)


def test_training_without_a_hold_out_says_that_nothing_is_guaranteed(folder, tmp_path):
    arguments = ["train", str(folder / "new.tsv"), "-o", str(tmp_path / "m")]
    result = CliRunner().invoke(cli, [*arguments, *PLAIN[1:]])
    assert result.exit_code == 0 and "No guarantee: no labels were held out" in result.stderr


def test_every_kind_of_table_trains_the_same_model(tmp_path):
    frame = pandas.DataFrame(rows(100), columns=["label", "text"])
    write(tmp_path / "train.tsv", rows(100))
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.to_json(tmp_path / "train.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "train.parquet")
    texts = [text for _, text in rows(20, seed=2)]
    found = []
    for kind in ("tsv", "csv", "jsonl", "parquet"):
        run("train", tmp_path / f"train.{kind}", "-o", tmp_path / kind, *PLAIN)
        found.append(pacsent.load(tmp_path / kind).predict_proba(texts))
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_predictions_are_a_table_with_sets_and_abstentions(folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{text}\n" for _, text in rows(100, seed=3)))
    run("predict", folder / "model", texts, "-o", tmp_path / "out.tsv", "--error", "0.2")
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["label", "probability", "set", "abstained"]
    assert len(lines) == 101
    label, probability, inside, silent = lines[1].split("\t")
    assert label in ("yes", "no") and 0.5 <= float(probability) <= 1
    assert silent in ("yes", "no") and set(inside.split(",")) <= {"yes", "no", ""}
    assert not list(tmp_path.glob("*.part-*"))
    again = run("predict", folder / "model", "-", "--error", "0.2", text=texts.read_text())
    assert again.splitlines() == lines


def test_certify_and_compare(folder, tmp_path):
    assert "at most" in run("certify", folder / "model", folder / "new.tsv", "--per-class")
    found = json.loads(run("certify", folder / "model", folder / "new.tsv", "--json"))
    assert 290 < found["n"] <= 300  # near-duplicates of texts that were fitted are left out
    run("train", folder / "train.tsv", "-o", tmp_path / "b", "--ngrams", "1", *QUICK)
    shown = run("compare", folder / "model", tmp_path / "b", folder / "new.tsv")
    assert "With 95 % confidence" in shown


def test_evaluate_tells_how_good_a_model_is_and_shows_its_worst_errors(folder):
    result = json.loads(run("evaluate", folder / "model", folder / "new.tsv", "-k", "3", "--json"))
    model, labelled = pacsent.load(folder / "model"), rows(300, seed=1)
    predicted = model.predict([text for _, text in labelled])
    wrong = [row for row, (label, _) in enumerate(labelled) if label != predicted[row]]
    assert result["accuracy"] == pytest.approx(1 - len(wrong) / 300)
    assert len(result["errors"]) == 3 and {error["row"] for error in result["errors"]} <= set(wrong)
    probabilities = [error["probability"] for error in result["errors"]]
    assert probabilities == sorted(probabilities, reverse=True)
    shown = run("evaluate", folder / "model", folder / "new.tsv")
    assert "precision" in shown and shown.count("predicted") == 5


def test_certifying_on_training_texts_fails_in_one_line(folder):
    told = messages("certify", folder / "model", folder / "train.tsv")
    assert "were among the texts it was fitted on" in told


def test_explanations(folder, tmp_path):
    shown = run("explain", folder / "model", "film1 <i>good</i>", "--html", tmp_path / "x.html")
    assert "good" in shown
    assert "&lt;i&gt;" in (tmp_path / "x.html").read_text()
    found = json.loads(run("explain", folder / "model", "film1 good", "--json"))
    assert found["label"] == "yes"
    listed = run("explain", folder / "model", "Good good film1", "-k", "1").splitlines()[2:]
    assert listed[0].split()[1] == "good" and "other words" in listed[1]
    run("explain", folder / "model", status=2)


def test_watching_raises_the_alarm_only_where_the_stream_changes(folder, tmp_path):
    # at alpha = 0.05 one run in twenty may well raise a false alarm (their rate is simulated in
    # test_guarantees.py), at 1e-6 none will
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{text}\n" for _, text in rows(300, seed=4)))
    assert "No alarm" in run("monitor", folder / "model", texts, "--alpha", "1e-6")
    words = [f"town{i}" for i in range(300)]  # repeated texts would count once
    other = np.random.default_rng(0).choice(words, (300, 7))
    texts.write_text("".join(" ".join(row) + "\n" for row in other))
    found = json.loads(
        run("monitor", folder / "model", texts, "--alpha", "1e-6", "--json", status=1)
    )
    assert found["alarm"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n', "must include label"),
        ("a.jsonl", "no json\n", "must be a JSON object"),
        ("a.jsonl", "", "empty file"),
        ("a.txt", "without a tab\n", "label<TAB>text"),
        ("a.csv", "review,stars\nx,1\n", "must include text. Got review, stars"),
        ("a.jsonl", '{"text": "x"}\n', "Name one of them with label_column"),
        ("a.jsonl", '{"body": "x"}\n', "Name one of them with text_column"),
    ],
)
def test_files_that_hold_something_else_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    assert message in messages("train", tmp_path / name, "-o", tmp_path / "m")


def test_a_model_that_is_no_classifier_is_refused(tmp_path):
    words = pacsent.WordVectors(pacsent.Vocabulary(["a"]), np.ones((1, 2), np.float32))
    pacsent.save(words, tmp_path / "words")
    (tmp_path / "t.txt").write_text("a\n")
    told = messages("predict", tmp_path / "words", tmp_path / "t.txt")
    assert "must hold a classifier" in told


def test_a_model_that_gives_no_vectors_is_refused_in_one_line(folder, tmp_path):
    (tmp_path / "t.txt").write_text("good film1\nbad film2\n")
    text, model = tmp_path / "t.txt", folder / "model"
    for command in (
        ["index", model, text, "-o", tmp_path / "i"],
        ["embed", model, text, "--pairs", text],
        ["embed", model, text],
        ["embed", model, text, "-o", f"{tmp_path}/shards/"],
        ["model", "export", model, tmp_path / "e"],
        ["paper", "certify", model, text],
    ):
        told = messages(*command)
        assert "must hold word vectors or a fitted method. It holds a Certi" in told, command


def test_groups_are_read_from_a_column_and_left_out_together(tmp_path, monkeypatch):
    lines = ["label\tbook\ttext"]
    lines += [f"{label}\tbook {i % 6}\t{text}" for i, (label, text) in enumerate(rows(120))]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    seen = []
    fit = pacsent.TextClassifier.fit

    def recorded(self, X, y, sample_weight=None, groups=None):
        seen.append((list(X), list(groups)))
        return fit(self, X, y, sample_weight, groups)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", recorded)
    told = run(
        *("train", tmp_path / "a.tsv", "-o", tmp_path / "m", "--group-column", "book"),
        *("--calibration-size", "0.2", *QUICK),
    )
    (texts, groups), book_of = seen[0], {text: i % 6 for i, (_, text) in enumerate(rows(120))}
    expected = [book_of[text] for text in texts]
    assert len(set(zip(expected, groups))) == len(set(groups)) == 6
    assert "new texts of the same 6 groups" in told and "NOT a guarantee for new groups" in told
    named = ("train", tmp_path / "a.tsv", "-o", tmp_path / "n", "--group-column")
    assert "must include page. Got label, book, text instead" in messages(*named, "page")


def test_what_exists_is_refused_before_the_work_and_replaced_only_where_allowed(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(pacsent.TextClassifier, "fit", lambda *_, **__: pytest.fail("it fitted"))
    run("train", folder / "train.tsv", "-o", folder / "model", status=1)
    page = tmp_path / "notes.txt"
    page.write_text("mine")
    run("explain", folder / "model", "good", "--html", page, status=1)
    assert page.read_text() == "mine"
    run("explain", folder / "model", "good", "--html", page, "--overwrite")
    assert page.read_text().startswith("<")


def test_names_of_classes_with_commas_can_be_told_apart(tmp_path):
    named = {"yes": "good, or so", "no": 'the "bad"\nones'}
    found = [{"label": named[label], "text": text} for label, text in rows(200)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, found)))
    (tmp_path / "t.txt").write_text("zebra\n")
    run("train", tmp_path / "a.jsonl", "-o", tmp_path / "m", "--calibration-size", "0.4", *QUICK)
    asked = ("predict", tmp_path / "m", tmp_path / "t.txt", "--error", "0.06")
    table = run(*asked).splitlines()
    assert table[1].split("\t")[2] == '"good, or so","the ""bad"" ones"'
    assert json.loads(run(*asked, "--json"))["set"] == ["good, or so", named["no"]]


def test_a_class_that_is_none_is_told_by_the_classes(folder):
    told = messages("explain", folder / "model", "good", "--label", "maybe")
    assert "label must be one of the classes (no, yes). Got maybe instead." in told


def test_predictions_say_why_every_row_abstains_and_what_is_reachable(tmp_path):
    write(tmp_path / "a.tsv", rows(100))
    run("train", tmp_path / "a.tsv", "-o", tmp_path / "m", "--calibration-size", "0.5", *QUICK)
    asked = ["predict", str(tmp_path / "m"), "-"]
    chosen = CliRunner().invoke(cli, asked, input="good nice\n")
    assert "With 95 % confidence, at most" in chosen.stderr and "Warning" not in chosen.stderr
    assert chosen.stdout.splitlines()[1].endswith("\tno")
    result = CliRunner().invoke(cli, [*asked, "--error", "0.05"], input="good nice\n")
    assert "50 calibration texts cannot guarantee an error of 0.05" in result.stderr
    assert result.stdout.splitlines()[1].endswith("\tyes")
    (tmp_path / "t.txt").write_text("good nice\n")
    with pytest.warns(UserWarning, match="50 calibration texts cannot guarantee an error of 0.05"):
        source, target = str(tmp_path / "t.txt"), str(tmp_path / "out")
        predict_shards(str(tmp_path / "m"), [source], target, error=0.05)


def test_the_header_of_a_table_is_no_text(folder, tmp_path):
    (tmp_path / "a.csv").write_text('id,text\n1,"good, nice film1"\n2,bad film2\n')
    told = run("predict", folder / "model", tmp_path / "a.csv").splitlines()
    assert [line.split("\t")[0] for line in told[1:]] == ["yes", "no"]
    # Lines of label<TAB>text: the label is not to be read with the text.
    (tmp_path / "lines.tsv").write_text("yes\tgood film\nno\tbad film\n")
    told = messages("predict", folder / "model", tmp_path / "lines.tsv")
    assert "must include text" in told


def test_the_certificate_of_a_classifier_is_verified(folder, tmp_path):
    written = json.loads(run("certify", folder / "model", folder / "new.tsv", "--json"))
    path = tmp_path / "c.json"

    def verified(certificate, *more):
        path.write_text(json.dumps(certificate))
        return CliRunner().invoke(cli, ["verify", str(path), *more])

    assert "Verified: the bound follows from its parts" in verified(written).stdout
    assert verified(written, str(folder / "new.tsv"), str(folder / "model")).exit_code == 0
    for changed in ({"bound": 0.01}, {"n": "300"}, {"n_errors": -1}, {"more": 1}):
        result = verified({**written, **changed})
        assert result.exit_code == 1, changed
        assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1


READERS = {
    "csv": pandas.read_csv,
    "tsv": lambda path: pandas.read_csv(path, sep="\t"),
    "jsonl": lambda path: pandas.read_json(path, lines=True),
    "parquet": pandas.read_parquet,
}


def test_one_table_gives_one_table_with_every_column(folder, tmp_path):
    frame = pandas.DataFrame(
        {"id": [7, 8], "text": ["good, nice film1", "bad\tfilm2"], "label": ["TRUE-0", "TRUE-1"]}
    )
    frame.to_csv(tmp_path / "in.csv", index=False)
    for name in ("out.csv", "out.tsv", "out.jsonl", "out.parquet"):
        paths = [str(folder / "model"), str(tmp_path / "in.csv"), "-o", str(tmp_path / name)]
        done = CliRunner().invoke(cli, ["predict", *paths, "--error", "0.2"])
        assert done.exit_code == 0, done.output
        assert "The column label of in.csv is named input_label in the output" in done.stderr
        assert "Read 2 rows of in.csv, column text." in done.stderr
        found = READERS[name[4:]](tmp_path / name)
        columns = ["id", "text", "input_label", "label", "probability", "set", "abstained"]
        assert list(found.columns) == columns
        assert found["text"].tolist() == frame["text"].tolist()
        assert found["input_label"].tolist() == ["TRUE-0", "TRUE-1"]
        assert found["label"].tolist() == ["yes", "no"]


def test_types_of_kept_columns_stay_in_parquet(folder, tmp_path):
    kept = {"n": pyarrow.array([1, None], pyarrow.int16()), "text": ["good", "bad"]}
    parquet.write_table(pyarrow.table(kept), tmp_path / "in.parquet")
    run("predict", folder / "model", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.field("n").type == pyarrow.int16()
    assert found["n"].to_pylist() == [1, None]


def test_every_row_of_a_table_has_an_answer(folder, tmp_path):
    (tmp_path / "a.csv").write_text("text\ngood film1\n\nbad film2\n")
    assert len(run("predict", folder / "model", tmp_path / "a.csv").splitlines()) == 4
    (tmp_path / "q.tsv").write_text('text\n"unclosed good film\nbad film\ngood town\n')
    told = messages("predict", folder / "model", tmp_path / "q.tsv")
    assert "Line 2 of q.tsv must be a row of a TSV" in told
    (tmp_path / "b.jsonl").write_text('{"text": "good"}\n{"text": 5}\n{"text": "bad"}\n')
    asked = ["predict", str(folder / "model"), str(tmp_path / "b.jsonl")]
    result = CliRunner().invoke(cli, [*asked, "--on-error", "report"])
    assert result.exit_code == 1 and len(result.stdout.splitlines()) == 4
    assert "Bad row: b.jsonl, line 2: must have a text. Got int '5'" in result.stderr


def test_training_reads_stdin_and_takes_english_vectors_unless_told(tmp_path, monkeypatch):
    seen = []
    fit = pacsent.TextClassifier.fit

    def quick(self, *given, **more):
        seen.append(self.words)
        return fit(self.set_params(words=None), *given, **more)

    monkeypatch.setattr(pacsent.TextClassifier, "fit", quick)
    lines = "".join(f"{label}\t{text}\n" for label, text in rows(60))
    run("train", "-", "-o", tmp_path / "a", text=lines)
    assert "english" in str(seen[0])
    table = "label,text\n" + "".join(f"{label},{text}\n" for label, text in rows(60))
    asked = ("train", "-", "--input-format", "csv", "-o", tmp_path / "b", *QUICK)
    run(*asked, text=table)
    assert seen[-1] is None
    assert pacsent.load(tmp_path / "b").classes_.tolist() == ["no", "yes"]


@pytest.fixture(scope="module")
def plain(folder):
    run("train", folder / "train.tsv", "-o", folder / "plain", *PLAIN)
    return folder / "plain"


def test_a_server_that_cannot_guarantee_the_error_rate_does_not_start(plain):
    for model, message in ((plain, "error must be left out"), ("english", "none is served")):
        assert message in messages("serve", model, "--port", "0", "--error", "0.1")


@pytest.mark.parametrize("many", [False, True])
def test_an_error_rate_without_a_calibration_set_is_refused(plain, tmp_path, many):
    (tmp_path / "a.csv").write_text("text\ngood film1\n")
    asked = ["predict", str(plain), str(tmp_path / "a.csv"), "--error", "0.1"]
    result = CliRunner().invoke(cli, [*asked, *(["-o", f"{tmp_path}/out/"] if many else [])])
    assert result.exit_code == 1 and not result.stdout
    assert "error must be left out for a classifier without a calibration set" in result.stderr
    assert "as `pacsent train` does" in result.stderr


def test_many_tables_keep_every_column_too(plain, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id,text,label\n7,good film1,x\n8,bad film2,y\n")
    tables = (tmp_path / "a.csv", tmp_path / "b.csv")
    run("predict", plain, *tables, "-o", tmp_path / "out", "--n-jobs", 1)
    found = pandas.read_parquet(tmp_path / "out" / "b.parquet")
    assert found["id"].tolist() == ["7", "8"] and found["input_label"].tolist() == ["x", "y"]
    assert found["label"].isin(["yes", "no"]).all() and "text" in found


def test_bad_rows_have_no_answer(folder, tmp_path):
    texts = ["good film1", None, "bad film2"]
    pandas.DataFrame({"text": texts}).to_parquet(tmp_path / "a.parquet")
    for output in ("out/", "a.csv"):
        paths = (folder / "model", tmp_path / "a.parquet", "-o", f"{tmp_path}/{output}")
        run("predict", *paths, "--on-error", "report", status=1)
    many, one = pandas.read_parquet(tmp_path / "out/a.parquet"), pandas.read_csv(tmp_path / "a.csv")
    for found in (many, one):
        answers = found[["label", "probability", "set", "abstained"]]
        assert answers.iloc[1].isna().all()
        assert answers.iloc[[0, 2]].notna().all(axis=None)


@pytest.mark.slow
def test_a_seed_makes_the_hold_out_repeatable(folder, tmp_path):
    how = ("--calibration-size", "0.3", "--random-state", "0", *QUICK)
    for name in "ab":
        run("train", folder / "train.tsv", "-o", tmp_path / name, *how)
    a, b = (pacsent.load(tmp_path / name) for name in "ab")
    assert a.seed_ == b.seed_ == 0
    assert np.array_equal(a.calibration_.log_proba, b.calibration_.log_proba)
