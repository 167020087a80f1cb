"""`pacsent vectors fit` and `pacsent embed`: what they write is what the library gives."""

import gzip
import json
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import invoke
from pacsent import load, make_encoder, save

run = partial(invoke, status=0)


@pytest.fixture
def files(tmp_path, toy_word_vectors, tiny_corpus):
    save(toy_word_vectors, tmp_path / "words")
    (tmp_path / "text").write_text("\n".join(tiny_corpus) + "\n")
    return tmp_path


@pytest.fixture
def model(files):
    words, text = files / "words", files / "text"
    run("vectors", "fit", "PB-L2", words, text, "-o", files / "m", "--lam", "2")
    return files / "m"


def test_fit_writes_a_model_that_loads(model, toy_word_vectors, tiny_corpus):
    loaded = load(model)
    assert (loaded.lam, loaded.alpha, loaded.swap_roles) == (2.0, None, False)
    vectorizer = make_encoder("PB-L2", toy_word_vectors, lam=2.0, on_empty="ignore")
    expected = vectorizer.fit_transform(tiny_corpus)
    assert_allclose(loaded.set_params(on_empty="ignore").transform(tiny_corpus), expected)


def test_fit_says_what_it_did(files):
    method, options = "i-IDF-Average", ("--lam", "inf", "--json")
    where = (files / "words", "-", "-o", files / "m")
    done = run("vectors", "fit", method, *where, *options, input="good film\nzzz\n")
    summary = json.loads(done.stdout)
    assert (summary["n_sentences"], summary["n_empty"]) == (2, 1)
    assert summary["coverage"] == pytest.approx(2 / 3)
    assert "OOV words only: 1 of 2" in done.stderr


@pytest.mark.parametrize("name", ["v.npy", "v.tsv", "v.jsonl", "v.parquet", "-"])
def test_embed_writes_the_posteriors(model, files, tiny_corpus, name):
    vectorizer = load(model).set_params(on_empty="ignore")
    means, variances = vectorizer.posterior(tiny_corpus)
    if name == "-":
        done = run("embed", model, input=(files / "text").read_bytes())
        assert_array_equal(np.loadtxt(done.stdout.splitlines(), dtype=np.float32), means)
    else:
        done = run("embed", model, files / "text", "-o", files / name)
        assert done.stdout == "" and (files / name).stat().st_size > 0
    assert "10 rows, 87.0% of words in vocabulary, 2 without any" in done.stderr
    if name == "v.npy":
        assert_array_equal(np.load(files / name), means)
    if name == "v.jsonl":
        rows = [json.loads(line) for line in (files / name).read_text().splitlines()]
        assert_array_equal(np.array([row["mean"] for row in rows], np.float32), means)
        assert_array_equal(np.array([row["variance"] for row in rows], float), variances)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl.gz"])
def test_a_table_alone_is_read_by_its_column_and_gives_one_file(model, tmp_path, name):
    comma = "\t" if ".tsv" in name else ","
    content = f"id{comma}text\n7{comma}good\n8{comma}bad film\n"
    if "jsonl" in name:
        content = '{"id": 7, "text": "good"}\n{"id": 8, "text": "bad film"}\n'
    packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    (tmp_path / name).write_bytes(packed)
    expected = load(model).transform(["good", "bad film"])
    done = run("embed", model, tmp_path / name, "-o", tmp_path / "v.npy")
    assert f"Read 2 rows of {name}, column text." in done.stderr
    assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    run("embed", model, tmp_path / name, "-o", tmp_path / "v.csv", "--keep-columns", "id")
    header, *rows = [line.split(",") for line in (tmp_path / "v.csv").read_text().splitlines()]
    assert header[0] == "id" and header[1] == "mean_0" and header[-1] == "variance"
    assert [row[0] for row in rows] == ["7", "8"]
    assert_array_equal(np.array([row[1:-1] for row in rows], np.float32), expected)


def test_one_sentence_is_not_plural(model):
    done = run("embed", model, "-", input="good film\n")
    assert "1 row, " in done.stderr and "Read 1 line of standard input." in done.stderr


def test_a_method_that_learns_nothing_from_text_needs_only_word_vectors(files):
    done = run("embed", files / "words", files / "text", "--method", "Average")
    assert done.stdout.count("\n") > 1
