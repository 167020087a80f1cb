"""`pacsent vectors fit` and `pacsent embed`: wired up, streaming, and clear about mistakes."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import load, make_encoder, save
from pacsent.cli import cli


@pytest.fixture
def run():
    def run(*arguments, input=None):
        return CliRunner().invoke(cli, [str(a) for a in arguments], input=input)

    return run


@pytest.fixture
def files(tmp_path, toy_word_vectors, tiny_corpus):
    save(toy_word_vectors, tmp_path / "words")
    (tmp_path / "text").write_text("\n".join(tiny_corpus) + "\n")
    return tmp_path


@pytest.fixture
def model(files, run):
    done = run(
        "vectors", "fit", "PB-L2", files / "words", files / "text", "-o", files / "m", "--lam", "2"
    )
    assert done.exit_code == 0, done.output
    return files / "m"


def test_fit_writes_a_model_that_loads(model, toy_word_vectors, tiny_corpus):
    loaded = load(model)
    assert (loaded.lam, loaded.alpha, loaded.swap_roles) == (2.0, None, False)
    expected = make_encoder("PB-L2", toy_word_vectors, lam=2.0, on_empty="ignore").fit_transform(
        tiny_corpus
    )
    assert_allclose(loaded.set_params(on_empty="ignore").transform(tiny_corpus), expected)


def test_fit_says_what_it_did(files, run):
    arguments = (
        "vectors",
        "fit",
        "i-IDF-Average",
        files / "words",
        "-",
        "-o",
        files / "m",
        "--lam",
        "inf",
    )
    done = run(*arguments, "--json", input="good film\nzzz\n")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["n_sentences"], found["n_empty"]) == (2, 1)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert "1 of 2 sentences hold no known word" in done.stderr


@pytest.mark.parametrize("name", ["v.npy", "v.tsv", "v.jsonl", "v.parquet"])
def test_embed_writes_the_posteriors(model, files, run, tiny_corpus, name):
    done = run("embed", model, files / "text", "-o", files / name)
    assert done.exit_code == 0, done.output
    assert "10 rows, 87.0 % of words known, 2 without a known word" in done.stderr
    assert done.stdout == ""
    assert (files / name).stat().st_size > 0
    vectorizer = load(model).set_params(on_empty="ignore")
    means, variances = vectorizer.posterior(tiny_corpus)
    if name == "v.npy":
        assert_array_equal(np.load(files / name), means)
    if name == "v.jsonl":
        rows = [json.loads(line) for line in (files / name).read_text().splitlines()]
        assert_array_equal(np.array([row["mean"] for row in rows], np.float32), means)
        found = np.array([row["variance"] for row in rows], float)
        assert_array_equal(found, variances)


def test_embed_reads_stdin_and_writes_stdout(model, files, run, tiny_corpus):
    done = run("embed", model, input=(files / "text").read_bytes())
    assert done.exit_code == 0, done.stderr
    found = np.loadtxt(done.stdout.splitlines(), dtype=np.float32)
    assert_array_equal(found, load(model).set_params(on_empty="ignore").transform(tiny_corpus))
    assert "10 rows" in done.stderr


def test_a_mistake_in_the_data_is_one_line(model, files, run):
    (files / "text").write_bytes(b"good film\n\xff\xfe\n")
    done = run("embed", model, files / "text")
    assert done.exit_code == 1
    assert "must be UTF-8 text" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("Averge", [], "Choose from Average, "),
        ("PB-L2", ["--n-epochs", "3"], "PB-L2 takes no --n-epochs"),
        ("PB-L2", ["--alpha", "1"], "alpha must be None for the method"),
        ("Average", ["--lam", "2"], "lam must be 1.0 for the method 'Average'"),
        ("PB-L2", ["--lam", "much"], "'much' is not a valid float"),
    ],
)
def test_a_mistake_in_the_command_line_ends_with_status_two(files, run, method, options, message):
    done = run(
        "vectors", "fit", method, files / "words", files / "text", "-o", files / "m", *options
    )
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (files / "m").exists()


def test_embed_refuses_an_unknown_suffix_before_any_work(model, files, run):
    done = run("embed", model, files / "text", "-o", files / "v.xls")
    assert done.exit_code == 2
    assert "must end in .npy, .csv" in done.stderr


def test_embed_takes_word_vectors_for_methods_that_learn_nothing_from_text(files, run):
    done = run("embed", files / "words", files / "text", "--method", "Average")
    assert done.exit_code == 0 and done.stdout.count("\n") > 1
    done = run("embed", files / "words", files / "text", "--method", "PB-IDF-L2")
    assert done.exit_code == 1 and "learns from text first" in done.output
    done = run("embed", files / "words", files / "text", "--method", "Mean")
    assert done.exit_code == 1 and "Choose from Average" in done.output


def test_a_method_for_a_model_that_has_one_is_refused(tmp_path, toy_word_vectors):

    save(make_encoder("PB-L2", toy_word_vectors).fit(["good film"]), tmp_path / "model")
    (tmp_path / "t.txt").write_text("good film\n" * 20)
    arguments = [
        "paper",
        "certify",
        str(tmp_path / "model"),
        str(tmp_path / "t.txt"),
        "--method",
        "PB-neg",
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "--method is for a MODEL that holds word vectors only" in result.output


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl.gz"])
def test_a_table_alone_is_read_by_its_column_and_gives_one_file(run, model, tmp_path, name):
    import gzip

    comma = "\t" if ".tsv" in name else ","
    content = f"id{comma}text\n7{comma}good\n8{comma}bad film\n"
    if "jsonl" in name:
        content = '{"id": 7, "text": "good"}\n{"id": 8, "text": "bad film"}\n'
    packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    (tmp_path / name).write_bytes(packed)
    expected = load(model).transform(["good", "bad film"])
    done = run("embed", model, tmp_path / name, "-o", tmp_path / "v.npy")
    assert done.exit_code == 0, done.output
    assert f"Read 2 rows of {name}, column text." in done.stderr
    assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    done = run("embed", model, tmp_path / name, "-o", tmp_path / "v.csv", "--keep-columns", "id")
    assert done.exit_code == 0, done.output
    header, *rows = [line.split(",") for line in (tmp_path / "v.csv").read_text().splitlines()]
    assert header[0] == "id" and header[1] == "mean_0" and header[-1] == "variance"
    assert [row[0] for row in rows] == ["7", "8"]
    assert_array_equal(np.array([row[1:-1] for row in rows], np.float32), expected)


def test_one_sentence_is_not_plural(run, model):
    done = run("embed", model, "-", input="good film\n")
    assert "1 row, " in done.stderr and "Read 1 line of standard input." in done.stderr
