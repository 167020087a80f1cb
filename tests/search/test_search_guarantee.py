"""Guarantees for search: how often the right text is found, how many hits are needed, silence."""

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
    """Passages of three books, and an index of them without their first sentences."""
    index = Index(make_encoder("SIF-sum", "english", on_empty="ignore").fit([]))
    queries, bodies = [], []
    for text in [passage.text for passage in load_books()]:
        spans = sentences(text)
        if len(spans) > 1 and len(queries) < 280:
            queries.append(text[slice(*spans[0])])
            bodies.append(text[spans[1][0] :])
    answers = index.add(bodies, metadata={"n": range(280)}).tolist()
    order = np.random.default_rng(0).permutation(280)
    return [queries[i] for i in order], [answers[i] for i in order], index


def test_the_certificate_is_the_exact_binomial_bound(books):
    queries, answers, index = books
    found = index.certify(queries, answers, k=5)
    hits = index.search(queries, k=5)
    missed = sum(a not in [h.id for h in some] for a, some in zip(answers, hits))
    assert (found.n, found.n_errors) == (len(queries), missed)
    assert found.error_upper == upper_limit(missed, len(queries), 0.05)
    assert found.verify() and "is among the first 5" in str(found)


def test_hits_are_as_many_as_the_guarantee_needs(books):
    queries, answers, index = books
    index.certify(queries[:200], answers[:200])
    sizes = {}
    for level in (0.5, 0.7):
        found = index.search(queries[200:], guarantee=level)
        inside = np.mean([a in [h.id for h in some] for a, some in zip(answers[200:], found)])
        assert inside >= level - 0.05
        assert f"{100 * level:g}% of new queries" in found[0].summary()
        sizes[level] = np.mean([len(some) for some in found])
    assert 1 <= sizes[0.5] < sizes[0.7]
    assert not index.search(queries[0], guarantee=0.5).no_answer
    nothing = index.search("zzzz qqqq", guarantee=0.5)
    assert nothing == [] and nothing.no_answer


def test_a_guarantee_is_saved_and_ends_when_a_text_changes(books, tmp_path):
    queries, answers, index = books
    index.certify(queries, answers)
    before = index.search(queries[:3], guarantee=0.6)
    save(index, tmp_path / "index")
    again = load(tmp_path / "index")
    for some, others in zip(again.search(queries[:3], guarantee=0.6), before):
        assert abs(len(some) - len(others)) <= 1
        assert [hit.id for hit in some[:1]] == [hit.id for hit in others[:1]]
    assert again.certificate_ == index.certificate_
    again.add(["one more"])
    with pytest.raises(ValueError, match="certified since its texts last changed"):
        again.search("cat", guarantee=0.6)


def test_what_cannot_be_guaranteed_is_refused(books):
    queries, answers, index = books
    index.certify(queries[:20], answers[:20])
    with pytest.raises(ValueError, match=r"guarantee must be smaller for 20 queries.*needs 29 "):
        index.search("cat", guarantee=0.9)
    with pytest.raises(ValueError, match="guarantee must be strictly between 0 and 1"):
        index.search("cat", guarantee=1)
    with pytest.raises(ValueError, match="without where"):
        index.search("cat", guarantee=0.5, where={"n": 1})
    with pytest.raises(ValueError, match=r"one for each of the 2 queries. Got 1"):
        index.certify(["a", "b"], [1])
    with pytest.raises(ValueError, match=r"which are not empty. Got 100000"):
        index.certify(["a"], [100_000])
    with pytest.raises(ValueError, match="n_errors must be at most 3"):
        SearchCertificate(error_upper=1.0, delta=0.05, n=3, n_errors=4).verify()
    unknown = ["zzq" + i * "q" for i in range(100)]
    index.certify([*queries[:200], *unknown], answers[:200] + [0] * 100)
    with pytest.raises(ValueError, match="100 of 300 queries cannot find"):
        index.search("cat", guarantee=0.9)
    assert (
        index.certify(queries[:5] * 3, answers[:5] * 3, repeats="copies").n == 5
    )  # copies count once


def coverage(rule):
    """P(the right text is returned) where the best score is N(0, 1) and the gap is Exp(1)."""
    return (1 - np.exp(-rule.width)) * stats.norm.sf(rule.floor)


def drawn(rng, n):
    best = rng.normal(size=n)
    return CalibrationQueries(best, best - rng.exponential(size=n))


def test_simulation_the_guarantee_fails_no_more_often_than_delta():
    rng, delta, n_draws = np.random.default_rng(0), 0.1, 400
    ours, control, alarms = 0, 0, 0
    for _ in range(n_draws):
        asked = drawn(rng, 200)
        rule = ThresholdRule.of([asked], 0.8, delta)
        ours += coverage(rule) < 0.8
        alarms += stats.norm.cdf(rule.floor) > 0.03
        width, floor = np.quantile(asked.best - asked.right, 0.9), np.quantile(asked.best, 0.1)
        control += coverage(ThresholdRule(float(width), float(floor), "")) < 0.8  # no correction
    most = stats.binom.ppf(0.999, n_draws, delta)
    assert ours <= most and alarms <= stats.binom.ppf(0.999, n_draws, 0.2 * delta)
    assert control > most  # the simulation can tell


def test_the_floor_has_a_small_part_of_the_error_so_that_hits_are_few():
    rng = np.random.default_rng(0)
    queries = drawn(rng, 500)
    rule, halves = ThresholdRule.of([queries], 0.8, 0.05), ThresholdRule.of([queries], 0.9, 0.025)
    assert rule.width < halves.width  # half of the error and of delta need a wider rule
    assert "at most 3% of them are answered with nothing" in rule.statement
    few = ThresholdRule.of([drawn(rng, 60)], 0.8, 0.05)
    assert few.floor == -np.inf and few.statement.endswith("80% of new queries that have one.")
