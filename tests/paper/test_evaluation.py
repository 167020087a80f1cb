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
from pacsent.paper.features import Features
from pacsent.paper.method_rows import ROWS, Row


@pytest.fixture(scope="module")
def corpus():
    """Texts of two topics."""
    return datasets.generate(
        240, n_topics=2, n_words=300, n_tokens=25, topic_share=0.4, random_state=0
    )


@pytest.fixture(scope="module")
def words(corpus):
    """Themes plus noise: vectors that say something about the topic."""
    rng = np.random.default_rng(0)
    themes = np.sqrt(corpus.themes.T)
    signal = themes @ rng.standard_normal((themes.shape[1], 12))
    tables = signal + 0.3 * rng.standard_normal((2, *signal.shape))
    return WordVectors(corpus.vocabulary, *tables.astype(np.float32))


@pytest.fixture(scope="module")
def part(corpus):
    """The corpus with its first split."""
    return corpus.dataset().split(0)


# ---- folds and labels ------------------------------------------------------------------------


def test_folds_are_even_and_stratified():
    labels = np.repeat([0, 1, 2], [40, 30, 7])

    folds = evaluation.folds_of(labels, 0)

    assert np.ptp(np.bincount(folds)) <= 1
    for label in range(3):
        sizes = np.bincount(folds[labels == label], minlength=5)
        assert np.ptp(sizes) <= 1


def test_folds_are_a_function_of_the_seed():
    labels = np.repeat([0, 1, 2], [40, 30, 7])

    folds = evaluation.folds_of(labels, 0)
    same = evaluation.folds_of(labels, 0)
    other = evaluation.folds_of(labels, 1)

    assert_array_equal(folds, same)
    assert (folds != other).any()


def test_few_labels_are_as_many_of_every_class():
    labels = np.repeat(np.arange(20), 50)

    rows = evaluation.draw_labelled(labels, 100, 0)

    assert_array_equal(np.bincount(labels[rows]), 5)
    assert np.unique(rows).size == rows.size == 100


def test_few_labels_differ_from_seed_to_seed():
    labels = np.repeat(np.arange(20), 50)

    rows = evaluation.draw_labelled(labels, 100, 0)
    other = evaluation.draw_labelled(labels, 100, 1)

    assert (rows != other).any()


def test_more_labels_are_better(corpus, words):
    prepared = evaluation.Prepared(corpus.dataset(), words)

    record = evaluation.few_labels(ROWS["Average-0"], prepared, sizes=(12, 150), n_draws=4)

    few, many = (point["accuracy"] for point in record["curve"])
    assert few < many


# ---- the choice ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_choice_is_the_one_grid_search_makes(corpus, words):
    dataset = corpus.dataset()
    part = dataset.split(3)
    scales = ["passthrough", Normalizer()]
    pipeline = Pipeline(
        [
            ("vectors", make_encoder("PB-L2", words, on_empty="ignore")),
            ("scale", "passthrough"),
            ("classifier", LogisticRegression(tol=1e-8, max_iter=10_000)),
        ]
    )
    grid = {"vectors__lam": [0.5, 8.0], "scale": scales, "classifier__C": [1.0, 100.0]}
    folds = PredefinedSplit(evaluation.folds_of(part.train_labels, 3))

    search = GridSearchCV(pipeline, grid, cv=folds)
    search.fit(part.train_texts, part.train_labels)
    result = evaluation.evaluate(
        "PB-L2", dataset, words, lams=(0.5, 8.0), seeds=(3,), Cs=(1.0, 100.0)
    )

    [score] = result.scores
    # scikit-learn at our choice: the same test accuracy
    scale = scales[score["normalize"]]
    pipeline.set_params(vectors__lam=score["lam"], classifier__C=score["C"], scale=scale)
    pipeline.fit(part.train_texts, part.train_labels)
    accuracy = pipeline.score(part.test_texts, part.test_labels)
    assert_allclose(score["cv_accuracy"], search.best_score_, atol=0.006)
    assert result.accuracy == pytest.approx(accuracy)
    assert result.accuracy > 0.7


def test_a_result_records_the_number_of_test_texts(part, words):
    result = evaluation.evaluate("Average-0", part, words, seeds=(0,), Cs=(1.0,))

    assert result.n_test == len(part.test_texts) > 0


def test_test_labels_are_read_for_the_score_only(part, words):
    flipped = replace(part, test_labels=1 - part.test_labels)

    honest = evaluation.evaluate("Average-0", part, words, seeds=(0,))
    wrong = evaluation.evaluate("Average-0", flipped, words, seeds=(0,))

    assert wrong.accuracy == pytest.approx(1 - honest.accuracy)
    for key in ("C", "normalize", "cv_accuracy"):
        assert honest.scores[0][key] == wrong.scores[0][key]


def test_seeds_that_share_features_are_solved_together_with_the_same_result(part, words):
    together = evaluation.evaluate("i-PB-L2", part, words, lams=(0.5, 8.0), seeds=(0, 1))

    for score in together.scores:
        seeds = (score["seed"],)
        alone = evaluation.evaluate("i-PB-L2", part, words, lams=(0.5, 8.0), seeds=seeds)
        [score_alone] = alone.scores
        assert score["accuracy"] == pytest.approx(alone.accuracy, abs=0.022)
        assert score["cv_accuracy"] == pytest.approx(score_alone["cv_accuracy"], abs=0.006)


def test_progress_is_printed_if_asked_for(part, words, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.001)

    evaluation.evaluate("i-PB-L2", part, words, lams=(0.5,), seeds=(0,), verbose=True)

    assert "evaluate i-PB-L2:" in capsys.readouterr().err


DENSE = make_pipeline(TfidfVectorizer(), FunctionTransformer(sparse.csr_matrix.toarray))
SPARSE = CountVectorizer()  # integers, of no certain length


@pytest.mark.parametrize(
    "row", ["concat", "SIF", "uSIF", "tf-idf", "IDF-Average-1", "PB-L2-token", DENSE, SPARSE]
)
def test_every_cheap_row_and_any_transformer_beats_guessing(corpus, words, row, capsys):
    name = row if isinstance(row, str) else type(row).__name__

    result = evaluation.evaluate(row, corpus.dataset(), words, seeds=(0,), Cs=(1.0, 100.0))

    assert result.accuracy > 0.65
    assert json.loads(result.to_json())["row"] == name
    assert capsys.readouterr().err == ""


# ---- the whole table -------------------------------------------------------------------------


@pytest.fixture
def small_benchmark(corpus, monkeypatch):
    """The generated corpus in the place of SUBJ, so that reproduce runs in seconds."""
    dataset = corpus.dataset("subj")
    known = datasets.DATASETS["subj"]
    monkeypatch.setitem(datasets.DATASETS, "subj", replace(known, digest=dataset.digest))
    monkeypatch.setattr(datasets, "load", lambda name, data, verify=True: dataset)


@pytest.fixture
def reproduce(small_benchmark, words, tmp_path):
    """reproduce(*only): the named results of the small benchmark under tmp_path."""

    def run(*only, words=words, quick=True, **settings):
        chosen = ["subj", *only]
        return reproduction.reproduce(
            tmp_path, words, tmp_path / "out", only=chosen, quick=quick, **settings
        )

    return run


@pytest.fixture
def records(tmp_path):
    """A function that reads the results that were made."""
    return lambda: reproduction.read_results(tmp_path / "out" / "results")


def times_of(folder):
    """When each result file was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}


def test_a_run_goes_on_where_it_stopped(reproduce, tmp_path):
    only = "Average-0", "PB-L2", "classification"
    stopped = reproduce(*only, time_limit=0.0)
    first = reproduce(*only)
    times = times_of(tmp_path / "out")

    again = reproduce(*only)

    assert stopped["n_missing"] > 0
    assert stopped["n_done"] + first["n_done"] == 2
    assert again["n_done"] == 0
    assert again["n_kept"] == 2
    assert times_of(tmp_path / "out") == times


def test_a_row_has_the_name_of_the_table_too():
    by_label = reproduction.tasks(["Average α=0", "subj"])
    by_name = reproduction.tasks(["Average-0", "subj"])

    assert by_label
    assert by_label == by_name


def test_a_run_reports_each_result_and_writes_it(reproduce, records):
    lines = []

    reproduce("Average-0", "PB-L2", "classification", report=lines.append)

    average, pb_l2 = records()
    assert any("PB-L2 on subj" in line for line in lines)
    assert average["row"] == "Average-0"
    assert pb_l2["row"] == "PB-L2"
    assert pb_l2["scores"][0]["lam"] in (0.5, 4.0)
    assert pb_l2["paper"] == 0.905


def test_results_of_other_settings_are_made_again(reproduce):
    reproduce("Average-0", "classification")

    other = reproduce("Average-0", "classification", quick=False, seeds=(0, 1))

    assert other["n_done"] == 1
    assert other["n_kept"] == 0


def test_only_chooses_rows_datasets_and_kinds():
    chosen = reproduction.tasks(["PB-L2", "imdb"])

    assert {task.row for task in chosen} == {"PB-L2"}
    assert {task.dataset for task in chosen} == {"imdb"}
    assert {task.kind for task in chosen} == {"classification", "few-labels", "certificate"}


def test_the_paper_s_table_has_14_rows_and_3_datasets():
    assert len(reproduction.tasks(["paper"])) == 14 * 3


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="'PB-L3'"):
        reproduction.tasks(["PB-L3"])


def test_every_result_has_a_file_of_its_own():
    files = [task.file for task in reproduction.tasks()]

    assert len(files) == len(set(files))


class NoisyRow:
    """Features drawn from lambda and seed, which say more of the labels at lambda 2."""

    def __init__(self, part):
        self.part = part
        self.drawn = []

    def __call__(self, row, source, lam, seed):
        self.drawn.append((lam, seed))
        rng = np.random.default_rng([int(10 * lam), seed])
        signal = 0.8 if lam == 2.0 else 0.2
        train = self.draw(rng, signal, self.part.train_labels)
        test = self.draw(rng, signal, self.part.test_labels)
        return Features(train, test, 0.0, 0.0)

    def draw(self, rng, signal, labels):
        return rng.standard_normal((len(labels), 4)) + signal * labels[:, None]


NOISY = Row("noisy", "noisy", "noisy", random=True)


@pytest.fixture
def noisy(part):
    """Draws of features, and the result of three seeds with them."""
    extract = NoisyRow(part)
    prepared = evaluation.Prepared(part, None)
    protocol = evaluation.Protocol((0.5, 2.0), (5, 6, 7), (1.0,), n_jobs=1)
    return extract, evaluation.run_row(NOISY, prepared, protocol, extract)


def test_the_lambda_of_random_vectors_is_searched_once(noisy):
    extract, _ = noisy

    assert extract.drawn == [(0.5, 5), (2.0, 5), (2.0, 6), (2.0, 7)]


def test_every_seed_of_random_vectors_is_scored_on_its_own(noisy, part):
    extract, result = noisy

    for score in result.scores:
        drawn = extract(NOISY, None, 2.0, score["seed"])
        train = drawn.train
        test = drawn.test
        if score["normalize"]:
            train = unit_rows(train)
            test = unit_rows(test)
        model = LogisticRegression(C=1.0, tol=1e-8).fit(train, part.train_labels)
        assert score["accuracy"] == model.score(test, part.test_labels)


def draw_few_rows(rng, kind):
    """Thirty rows of eighty columns, and fifty other ones."""
    rows = rng.standard_normal((30, 80)).astype(np.float32) + np.float32(5.0)
    other = rng.standard_normal((50, 80)).astype(np.float32) + np.float32(5.0)
    if kind == "dense":
        return rows, other
    is_kept = rng.random(80) < 0.8
    return sparse.csr_matrix(rows * is_kept), sparse.csr_matrix(other * is_kept)


def decisions(train, labels, test):
    """Of a nearly exact logistic regression."""
    model = LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000)
    return model.fit(train.astype(float), labels).decision_function(test)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_row_space_changes_no_classifier(rng, kind):
    rows, other = draw_few_rows(rng, kind)
    labels = rng.integers(0, 2, 30)

    inside, project = evaluation.row_space(rows)

    in_all_columns = decisions(rows, labels, other)
    in_row_space = decisions(inside, labels, project(other))
    assert inside.shape[1] <= 30
    assert_allclose(project(rows), inside, atol=1e-4)
    assert_allclose(in_row_space, in_all_columns, atol=1e-3 * np.abs(in_all_columns).max())


def test_a_certificate_holds_on_the_documents_held_out(reproduce, records):
    reproduce("certificate", "PB-L2")

    [record] = records()
    bound = record["risk_bound"]
    assert record["kind"] == "certificate"
    assert record["delta"] == 0.05
    assert record["empirical_risk"] <= bound < 1.0
    assert record["held_out_risk"] <= bound + 0.05  # few documents: it may lie above


def test_results_of_other_word_vectors_are_not_mixed_in(reproduce, records, words):
    reproduce("Average-0", "classification")
    before = records()
    twice = 2 * np.asarray(words.input_vectors)
    other = words.replace(input_vectors=twice)

    with pytest.raises(ValueError, match="must have results of one set of word vectors"):
        reproduce("Average-0", "classification", words=other)

    assert records() == before


def test_results_of_other_data_are_not_mixed_in(reproduce, records, tmp_path):
    reproduce("Average-0", "classification")
    [record] = records()
    record["provenance"]["dataset_digest"] = "0" * 64
    [path] = tmp_path.rglob("subj.json")
    path.write_text(json.dumps(record))

    with pytest.raises(ValueError, match="must have results of one set of data of subj"):
        reproduce("Average-0", "classification")


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
    assert "No result could be made" in result.output
    assert "rotten_imdb.tar.gz" in result.output


def score(path, words, tmp_path):
    """The command `paper score` on a file, with one seed."""
    save(words, tmp_path / "words")
    options = "--encoder", tmp_path / "words", "--seeds", 1, "--json"
    return invoke("paper", "score", "Average-0", path, *options)


def test_the_command_scores_ones_own_file(corpus, words, tmp_path):
    lines = ["label\ttext"]
    for label, text in zip(corpus.labels, corpus.texts):
        lines.append(f"{corpus.classes[label]}\t{text}")
    path = tmp_path / "own.tsv"
    path.write_text("\n".join(lines) + "\n")

    done = score(path, words, tmp_path)

    result = json.loads(done.stdout)
    assert done.exit_code == 0
    assert result["accuracy"] > 0.65
    assert result["dataset"] == "own"


def test_the_command_names_the_datasets_if_a_file_is_missing(words, tmp_path):
    done = score(tmp_path / "none.tsv", words, tmp_path)

    assert done.exit_code == 1
    assert "20news" in done.output


@pytest.fixture
def pooled(corpus):
    """The corpus without a split of its own."""
    whole = corpus.dataset()
    return replace(
        whole,
        train_texts=[*whole.train_texts, *whole.test_texts],
        train_labels=np.concatenate([whole.train_labels, whole.test_labels]),
        test_texts=[],
        test_labels=np.zeros(0, dtype=np.int64),
    )


def test_one_split_serves_all_seeds_if_asked_for(pooled, words):
    prepared = evaluation.Prepared(pooled, words)
    row = replace(ROWS["Average-0"], lams=())
    # one value of C, so that the folds of a seed decide nothing but the normalisation
    protocol = evaluation.Protocol(seeds=(0, 1, 2), Cs=(10.0,))
    with_one_split = replace(protocol, one_split=True)

    splits = evaluation.run_row(row, prepared, protocol)
    one = evaluation.run_row(row, prepared, with_one_split)

    accuracies = {score["accuracy"] for score in splits.scores}
    results_of_one = {(score["accuracy"], score["normalize"]) for score in one.scores}
    assert len(accuracies) > 1
    assert one.scores[0]["accuracy"] == splits.scores[0]["accuracy"]
    assert len(results_of_one) <= 2
