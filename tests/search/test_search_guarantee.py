"""Guarantees for search: how often the right text is found, how many hits are needed, silence."""

import copy

import numpy as np
import pytest
from scipy import stats

from pacsent import Index, load, make_encoder, save
from pacsent.bounds.binomial import upper_limit
from pacsent.datasets import load_books
from pacsent.search import SearchCertificate
from pacsent.search.calibration import CalibrationQueries, ThresholdRule
from pacsent.search.chunking import sentences


@pytest.fixture(scope="module")
def books():
    """Queries, their answers, and an index: first sentences of 280 passages, and what follows."""
    queries = []
    bodies = []
    for passage in load_books():
        spans = sentences(passage.text)
        if len(spans) > 1 and len(queries) < 280:
            start, end = spans[0]
            queries.append(passage.text[start:end])
            bodies.append(passage.text[spans[1][0] :])

    index = Index(make_encoder("SIF-sum", "english", on_empty="ignore").fit([]))
    answers = index.add(bodies, metadata={"n": range(280)}).tolist()
    order = np.random.default_rng(0).permutation(280)
    return [queries[i] for i in order], [answers[i] for i in order], index


@pytest.fixture(scope="module")
def certified_index(books):
    """The index with a certificate of the first 200 queries."""
    queries, answers, index = books
    certified = copy.deepcopy(index)
    certified.certify(queries[:200], answers[:200])
    return certified


def is_found(answers, hits_of_queries):
    """Whether the answer to each query is among its hits."""
    ids_of_queries = [[hit.id for hit in hits] for hits in hits_of_queries]
    return np.array([answer in ids for answer, ids in zip(answers, ids_of_queries)])


def test_the_certificate_is_the_exact_binomial_bound(books):
    queries, answers, index = books

    certificate = index.certify(queries, answers, k=5)

    n_missed = np.count_nonzero(~is_found(answers, index.search(queries, k=5)))
    assert certificate.n == len(queries)
    assert certificate.n_errors == n_missed
    assert certificate.error_upper == upper_limit(n_missed, len(queries), 0.05)
    assert certificate.verify()
    assert "is among the first 5" in str(certificate)


def test_copies_of_queries_count_once(books):
    queries, answers, index = books
    certificate = index.certify(queries[:5] * 3, answers[:5] * 3, repeats="copies")
    assert certificate.n == 5


def test_hits_are_as_many_as_the_guarantee_needs(books, certified_index):
    queries, answers, _ = books

    mean_sizes = []
    for level in (0.5, 0.7):
        hits_of_queries = certified_index.search(queries[200:], guarantee=level)
        assert is_found(answers[200:], hits_of_queries).mean() >= level - 0.05
        assert f"{100 * level:g}% of new queries" in hits_of_queries[0].summary()
        mean_sizes.append(np.mean([len(hits) for hits in hits_of_queries]))
    assert 1 <= mean_sizes[0] < mean_sizes[1]


def test_a_query_without_an_answer_is_answered_with_nothing(books, certified_index):
    queries, _, _ = books

    unknown = certified_index.search("zzzz qqqq", guarantee=0.5)

    assert unknown == []
    assert unknown.no_answer
    assert not certified_index.search(queries[0], guarantee=0.5).no_answer


@pytest.fixture
def opened(certified_index, tmp_path):
    """The certified index, saved and opened."""
    save(certified_index, tmp_path / "index")
    return load(tmp_path / "index")


def test_a_guarantee_is_saved(books, certified_index, opened):
    queries, _, _ = books
    assert opened.certificate_ == certified_index.certificate_

    hits_of_queries = opened.search(queries[:3], guarantee=0.6)

    expected_hits = certified_index.search(queries[:3], guarantee=0.6)
    for hits, expected in zip(hits_of_queries, expected_hits):
        assert abs(len(hits) - len(expected)) <= 1
        assert [hit.id for hit in hits[:1]] == [hit.id for hit in expected[:1]]


def test_a_guarantee_ends_when_a_text_changes(opened):
    opened.add(["one more"])
    with pytest.raises(ValueError, match="certified since its texts last changed"):
        opened.search("cat", guarantee=0.6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guarantee": 0.9}, r"guarantee must be smaller for 20 queries.*needs 29 "),
        ({"guarantee": 1}, "guarantee must be strictly between 0 and 1"),
        ({"guarantee": 0.5, "where": {"n": 1}}, "without where"),
    ],
)
def test_a_guarantee_that_cannot_be_given_is_rejected(books, options, message):
    queries, answers, index = books
    index.certify(queries[:20], answers[:20])

    with pytest.raises(ValueError, match=message):
        index.search("cat", **options)


@pytest.mark.parametrize(
    ("queries", "answers", "message"),
    [
        (["a", "b"], [1], r"one for each of the 2 queries. Got 1"),
        (["a"], [100_000], r"which are not empty. Got 100000"),
    ],
)
def test_answers_that_do_not_fit_are_rejected(books, queries, answers, message):
    index = books[2]
    with pytest.raises(ValueError, match=message):
        index.certify(queries, answers)


def test_a_certificate_with_more_errors_than_queries_is_rejected():
    certificate = SearchCertificate(error_upper=1.0, delta=0.05, n=3, n_errors=4)
    with pytest.raises(ValueError, match="n_errors must be at most 3"):
        certificate.verify()


def test_queries_of_unknown_words_limit_what_can_be_guaranteed(books):
    queries, answers, index = books
    unknown = ["zzq" + i * "q" for i in range(100)]
    index.certify([*queries[:200], *unknown], [*answers[:200], *[0] * 100])

    with pytest.raises(ValueError, match="100 of 300 queries cannot find"):
        index.search("cat", guarantee=0.9)


def coverage(rule):
    """P(the right text is returned) where the best score is N(0, 1) and the gap is Exp(1)."""
    return (1 - np.exp(-rule.width)) * stats.norm.sf(rule.floor)


def draw_queries(rng, n):
    best_scores = rng.normal(size=n)
    gaps = rng.exponential(size=n)
    return CalibrationQueries(best_scores, best_scores - gaps)


def test_simulation_the_guarantee_fails_no_more_often_than_delta():
    rng = np.random.default_rng(0)
    delta = 0.1
    n_draws = 400
    n_failures = 0
    n_failures_without_correction = 0
    n_often_silent = 0
    for _ in range(n_draws):
        queries = draw_queries(rng, 200)
        rule = ThresholdRule.of([queries], 0.8, delta)
        n_failures += coverage(rule) < 0.8
        n_often_silent += stats.norm.cdf(rule.floor) > 0.03

        width = float(np.quantile(queries.best - queries.right, 0.9))
        floor = float(np.quantile(queries.best, 0.1))
        n_failures_without_correction += coverage(ThresholdRule(width, floor, "")) < 0.8

    n_allowed = stats.binom.ppf(0.999, n_draws, delta)
    assert n_failures <= n_allowed
    assert n_often_silent <= stats.binom.ppf(0.999, n_draws, 0.2 * delta)
    assert n_failures_without_correction > n_allowed  # the simulation can tell


def test_the_floor_has_a_small_part_of_the_error_so_that_hits_are_few():
    queries = draw_queries(np.random.default_rng(0), 500)

    rule = ThresholdRule.of([queries], 0.8, 0.05)

    # half of the error and of delta need a wider rule
    rule_of_halves = ThresholdRule.of([queries], 0.9, 0.025)
    assert rule.width < rule_of_halves.width
    assert "at most 3% of them are answered with nothing" in rule.statement


def test_few_queries_are_always_answered():
    queries = draw_queries(np.random.default_rng(0), 60)

    rule = ThresholdRule.of([queries], 0.8, 0.05)

    assert rule.floor == -np.inf
    assert rule.statement.endswith("80% of new queries that have one.")
