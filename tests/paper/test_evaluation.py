"""The protocol: what is chosen is chosen on the training part, and a run can be resumed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from helpers import invoke
from pacsent import WordVectors, make_encoder, progress, save
from pacsent.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation, reproduction
from pacsent.paper.method_rows import ROWS, Features, Row


@pytest.fixture(scope="module")
def corpus():
    return datasets.generate(
        240, n_topics=2, n_words=300, n_tokens=25, topic_share=0.4, random_state=0
    )


@pytest.fixture(scope="module")
def words(corpus):
    """Themes plus noise: vectors that say something about the topic."""
    rng = np.random.default_rng(0)
    signal = np.sqrt(corpus.themes.T) @ rng.standard_normal((corpus.themes.shape[0], 12))
    table = signal + 0.3 * rng.standard_normal(signal.shape)
    other = signal + 0.3 * rng.standard_normal(signal.shape)
    return WordVectors(corpus.vocabulary, table.astype(np.float32), other.astype(np.float32))


def test_folds_are_even_stratified_and_a_function_of_the_seed():
    labels = np.repeat([0, 1, 2], [40, 30, 7])
    folds = evaluation.folds_of(labels, 0)
    assert np.ptp(np.bincount(folds)) <= 1
    for label in range(3):
        assert np.ptp(np.bincount(folds[labels == label], minlength=5)) <= 1
    assert_array_equal(folds, evaluation.folds_of(labels, 0))
    assert (folds != evaluation.folds_of(labels, 1)).any()


def test_few_labels_have_every_class_and_more_are_better(corpus, words):
    labels = np.repeat(np.arange(20), 50)
    rows = evaluation.draw_labelled(labels, 100, 0)
    assert_array_equal(np.bincount(labels[rows]), 5)
    assert np.unique(rows).size == rows.size == 100
    assert (rows != evaluation.draw_labelled(labels, 100, 1)).any()
    prepared = evaluation.Prepared(corpus.dataset(), words)
    record = evaluation.few_labels(ROWS["Average-0"], prepared, sizes=(12, 150), n_draws=4)
    few, many = (point["accuracy"] for point in record["curve"])
    assert few < many


@pytest.mark.slow
def test_the_choice_is_the_one_grid_search_makes(corpus, words):
    dataset = corpus.dataset()
    Cs = (1.0, 100.0)
    result = evaluation.evaluate("PB-L2", dataset, words, lams=(0.5, 8.0), seeds=(3,), Cs=Cs)
    part = dataset.split(3)
    vectors = ("vectors", make_encoder("PB-L2", words, on_empty="ignore"))
    classifier = ("classifier", LogisticRegression(tol=1e-8, max_iter=10_000))
    pipeline = Pipeline([vectors, ("scale", "passthrough"), classifier])
    scales = ["passthrough", Normalizer()]
    grid = {"vectors__lam": [0.5, 8.0], "scale": scales, "classifier__C": Cs}
    folds = PredefinedSplit(evaluation.folds_of(part.train_labels, 3))
    search = GridSearchCV(pipeline, grid, cv=folds).fit(part.train_texts, part.train_labels)
    score = result.scores[0]
    assert_allclose(score["cv_accuracy"], search.best_score_, atol=0.006)
    # refit scikit-learn at our choice: the same test accuracy
    chosen = {"vectors__lam": score["lam"], "classifier__C": score["C"]}
    pipeline.set_params(scale=scales[score["normalize"]], **chosen)
    theirs = pipeline.fit(part.train_texts, part.train_labels)
    assert result.accuracy == pytest.approx(theirs.score(part.test_texts, part.test_labels))
    assert result.accuracy > 0.7


def test_a_result_records_the_number_of_test_texts(corpus, words):
    part = corpus.dataset().split(0)
    result = evaluation.evaluate("Average-0", part, words, seeds=(0,), Cs=(1.0,))
    assert result.n_test == len(part.test_texts) > 0


def test_test_labels_are_read_for_the_score_only(corpus, words):
    part = corpus.dataset().split(0)
    flipped = replace(part, test_labels=1 - part.test_labels)
    honest = evaluation.evaluate("Average-0", part, words, seeds=(0,))
    wrong = evaluation.evaluate("Average-0", flipped, words, seeds=(0,))
    assert wrong.accuracy == pytest.approx(1 - honest.accuracy)
    for key in ("C", "normalize", "cv_accuracy"):
        assert honest.scores[0][key] == wrong.scores[0][key]


def test_seeds_that_share_features_are_solved_together_with_the_same_result(
    corpus, words, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.001)
    part = corpus.dataset().split(0)
    together, *alone = (
        evaluation.evaluate("i-PB-L2", part, words, lams=(0.5, 8.0), seeds=seeds, verbose=True)
        for seeds in ((0, 1), (0,), (1,))
    )
    for score, other in zip(together.scores, alone):
        assert score["accuracy"] == pytest.approx(other.accuracy, abs=0.022)
        assert score["cv_accuracy"] == pytest.approx(other.scores[0]["cv_accuracy"], abs=0.006)
    assert "evaluate i-PB-L2:" in capsys.readouterr().err


DENSE = make_pipeline(TfidfVectorizer(), FunctionTransformer(sparse.csr_matrix.toarray))
SPARSE = CountVectorizer()  # integers, of no certain length


@pytest.mark.parametrize(
    "row", ["concat", "SIF", "uSIF", "tf-idf", "IDF-Average-1", "PB-L2-token", DENSE, SPARSE]
)
def test_every_cheap_row_and_any_transformer_beats_guessing(corpus, words, row, capsys):
    result = evaluation.evaluate(row, corpus.dataset(), words, seeds=(0,), Cs=(1.0, 100.0))
    assert result.accuracy > 0.65
    assert json.loads(result.to_json())["row"] == (
        row if isinstance(row, str) else type(row).__name__
    )
    assert capsys.readouterr().err == ""


@pytest.fixture
def small_benchmark(corpus, monkeypatch):
    """The generated corpus in the place of SUBJ, so that reproduce runs in seconds."""
    dataset = corpus.dataset("subj")
    known = datasets.DATASETS["subj"]
    monkeypatch.setitem(datasets.DATASETS, "subj", replace(known, digest=dataset.digest))
    monkeypatch.setattr(datasets, "load", lambda name, data, verify=True: dataset)


def test_a_run_goes_on_where_it_stopped(small_benchmark, words, tmp_path):
    only = ["Average-0", "PB-L2", "subj", "classification"]
    lines = []
    settings = {"only": only, "quick": True, "report": lines.append}
    stopped = reproduction.reproduce(tmp_path, words, tmp_path / "out", time_limit=0.0, **settings)
    assert stopped["n_missing"] > 0
    first = reproduction.reproduce(tmp_path, words, tmp_path / "out", **settings)
    assert first["n_done"] + stopped["n_done"] == 2
    stamp = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.json")}
    again = reproduction.reproduce(tmp_path, words, tmp_path / "out", **settings)
    assert (again["n_done"], again["n_kept"]) == (0, 2)
    assert stamp == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.json")}
    assert any("PB-L2 on subj" in line for line in lines)
    record = reproduction.read_results(tmp_path / "out" / "results")
    assert [r["row"] for r in record] == ["Average-0", "PB-L2"]
    assert record[1]["scores"][0]["lam"] in (0.5, 4.0)
    assert record[1]["paper"] == 0.905
    settings = {"only": ["Average-0", "subj", "classification"], "seeds": (0, 1)}
    other = reproduction.reproduce(tmp_path, words, tmp_path / "out", **settings)
    assert (other["n_done"], other["n_kept"]) == (1, 0)  # other settings: made again


def test_only_chooses_rows_datasets_and_kinds():
    chosen = reproduction.tasks(["PB-L2", "imdb"])
    assert {(t.row, t.dataset) for t in chosen} == {("PB-L2", "imdb")}
    assert {t.kind for t in chosen} == {"classification", "few-labels", "certificate"}
    paper = reproduction.tasks(["paper"])
    assert len(paper) == 14 * 3
    with pytest.raises(ValueError, match="'PB-L3'"):
        reproduction.tasks(["PB-L3"])
    files = [task.file for task in reproduction.tasks()]
    assert len(files) == len(set(files))


def test_random_vectors_are_searched_once_and_every_seed_is_scored_on_its_own(corpus):
    part = corpus.dataset().split(0)
    made = []

    def extract(row, source, lam, seed):
        made.append((lam, seed))
        rng = np.random.default_rng([int(10 * lam), seed])
        signal = 0.8 if lam == 2.0 else 0.2
        F = [rng.standard_normal((len(y), 4)) + signal * y[:, None]
             for y in (part.train_labels, part.test_labels)]  # fmt: skip
        return Features(*F, 0.0, 0.0)

    row = Row("noisy", "noisy", "noisy", random=True)
    prepared = evaluation.Prepared(part, None)
    protocol = evaluation.Protocol((0.5, 2.0), (5, 6, 7), (1.0,), n_jobs=1)
    result = evaluation.run_row(row, prepared, protocol, extract)
    assert made == [(0.5, 5), (2.0, 5), (2.0, 6), (2.0, 7)]
    for score in result.scores:
        F = extract(row, None, 2.0, score["seed"])
        change = unit_rows if score["normalize"] else lambda X: X
        model = LogisticRegression(C=1.0, tol=1e-8).fit(change(F.train), part.train_labels)
        assert score["accuracy"] == model.score(change(F.test), part.test_labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_row_space_changes_no_classifier(rng, kind):
    X = (rng.standard_normal((30, 80)) + 5.0).astype(np.float32)
    other = rng.standard_normal((50, 80)).astype(np.float32) + np.float32(5.0)
    if kind == "sparse":
        keep = rng.random(80) < 0.8
        X, other = (sparse.csr_matrix(F * keep) for F in (X, other))
    y = rng.integers(0, 2, 30)
    inside, project = evaluation.row_space(X)
    assert inside.shape[1] <= 30
    assert_allclose(project(X), inside, atol=1e-4)
    settings = {"C": 10.0, "tol": 1e-10, "max_iter": 10_000}
    whole = LogisticRegression(**settings).fit(X.astype(float), y).decision_function(other)
    small = LogisticRegression(**settings).fit(inside.astype(float), y)
    small = small.decision_function(project(other))
    assert_allclose(small, whole, atol=1e-3 * np.abs(whole).max())


def test_a_certificate_holds_on_the_documents_held_back(small_benchmark, words, tmp_path):
    only = ["certificate", "PB-L2", "subj"]
    reproduction.reproduce(tmp_path, words, tmp_path, only=only, quick=True)
    (record,) = reproduction.read_results(tmp_path / "results")
    assert record["kind"] == "certificate"
    assert record["empirical_risk"] <= record["risk_bound"] < 1.0
    assert record["held_out_risk"] <= record["risk_bound"] + 0.05  # few documents: it may lie above
    assert record["delta"] == 0.05


def test_results_of_other_word_vectors_or_data_are_not_mixed_in(small_benchmark, words, tmp_path):
    settings = {"only": ["subj", "Average-0", "classification"], "quick": True}
    reproduction.reproduce(tmp_path, words, tmp_path / "out", **settings)
    (before,) = reproduction.read_results(tmp_path / "out" / "results")
    with pytest.raises(ValueError, match="must have results of one set of word vectors"):
        other = words.replace(input_vectors=2 * np.asarray(words.input_vectors))
        reproduction.reproduce(tmp_path, other, tmp_path / "out", **settings)
    assert reproduction.read_results(tmp_path / "out" / "results") == [before]
    (path,) = (tmp_path / "out" / "results").rglob("subj.json")
    before["provenance"]["dataset_digest"] = "0" * 64
    path.write_text(json.dumps(before))
    with pytest.raises(ValueError, match="must have results of one set of data of subj"):
        reproduction.reproduce(tmp_path, words, tmp_path / "out", **settings)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("PB-L3", {}, "'PB-L3'"),
        ("PB-L2", {}, "encoder must be given"),
        ("tf-idf", {"seeds": ()}, "seeds must have at least one seed"),
    ],
)
def test_unknown_methods_missing_words_and_no_seeds_are_refused(corpus, method, settings, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(method, corpus.dataset(), **settings)


def test_reproduce_without_data_says_so_and_fails(words, tmp_path):
    (tmp_path / "data").mkdir()
    save(words, tmp_path / "words")
    places = "--data", tmp_path / "data", "--encoder", tmp_path / "words", "-o", tmp_path / "out"
    result = invoke("paper", "reproduce", *places, "--only", "subj,Average-0", "--quiet")
    assert result.exit_code != 0
    assert "No result could be made" in result.output and "rotten_imdb.tar.gz" in result.output


def test_the_command_scores_ones_own_file(corpus, words, tmp_path):
    save(words, tmp_path / "words")
    lines = [f"{corpus.classes[k]}\t{line}\n" for k, line in zip(corpus.labels, corpus.texts)]
    (tmp_path / "own.tsv").write_text("".join(["label\ttext\n", *lines]))
    words_of = ("--encoder", tmp_path / "words", "--seeds", 1, "--json")
    done = invoke("paper", "score", "Average-0", tmp_path / "own.tsv", *words_of, status=0)
    result = json.loads(done.stdout)
    assert result["accuracy"] > 0.65
    assert result["dataset"] == "own"
    missing = invoke("paper", "score", "Average-0", tmp_path / "none.tsv", *words_of)
    assert missing.exit_code == 1
    assert "20news" in missing.output


def test_one_split_serves_all_seeds_if_asked_for(corpus, words):
    whole = corpus.dataset()
    pooled = replace(
        whole,
        train_texts=[*whole.train_texts, *whole.test_texts],
        train_labels=np.concatenate([whole.train_labels, whole.test_labels]),
        test_texts=[],
        test_labels=np.zeros(0, dtype=np.int64),
    )
    prepared = evaluation.Prepared(pooled, words)
    protocol = evaluation.Protocol(seeds=(0, 1, 2), Cs=(10.0,))
    row = replace(ROWS["Average-0"], lams=())

    splits = evaluation.run_row(row, prepared, protocol)
    one = evaluation.run_row(row, prepared, replace(protocol, one_split=True))

    # one value of C, so that the folds of a seed decide nothing but the normalisation
    assert len({score["accuracy"] for score in splits.scores}) > 1
    assert one.scores[0]["accuracy"] == splits.scores[0]["accuracy"]
    assert len({(s["accuracy"], s["normalize"]) for s in one.scores}) <= 2
