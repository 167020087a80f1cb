"""Texts of several requests in one pass: the same answers, and nobody waits for nothing."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.datasets import load_banking
from pacsent.predict.abstaining import AnswerRule
from pacsent.web.together import Together


@pytest.fixture(scope="module", params=[2, 5])
def rule_and_texts(request):
    """The rule of a classifier of so many classes with sentence vectors, and new texts."""
    columns = np.column_stack(load_banking(n_classes=request.param))
    texts, labels = np.random.default_rng(0).permutation(columns).T.tolist()
    model = CertifiedClassifier(TextClassifier("english"), random_state=0)
    return AnswerRule(model.fit(texts[:120], labels[:120])), texts[120:]


def groups_of(texts):
    """Groups of one to five texts, some without words or in another language."""
    rng = np.random.default_rng(1)
    bounds = np.cumsum(rng.integers(1, 6, size=20))
    groups = [list(group) for group in np.split(np.array(texts, object), bounds) if len(group)]
    return [["", "你好,世界"], *groups]


def test_answers_to_groups_of_texts_are_those_to_each_group_bit_for_bit(rule_and_texts):
    rule, texts = rule_and_texts
    groups = groups_of(texts)

    together = rule.answer_each(groups)

    for group, answers in zip(groups, together, strict=True):
        alone = rule.answer(group)
        assert all(np.array_equal(a, b) for a, b in zip(answers, alone))


def test_an_encoder_that_may_read_texts_together_is_given_each_group_alone():
    passed = []

    def encode(texts):
        passed.append(len(texts))
        return np.array([[len(text), 1.0] for text in texts])

    texts = [f"{word} film {n}" for n in range(40) for word in ("good", "bad")]
    model = CertifiedClassifier(TextClassifier(encode), random_state=0)
    model.fit(texts, ["up", "down"] * 40)
    passed.clear()

    model.predict_log_proba_each([["a good film"], ["a bad film", "so bad"]])

    assert passed == [1, 2]


def test_any_other_classifier_is_given_each_group_alone():
    def model(texts):
        return np.array([[0.9, 0.1] if "good" in text else [0.1, 0.9] for text in texts])

    texts = [f"{word} film {n}" for n in range(40) for word in ("good", "bad")]
    certified = CertifiedClassifier(model, classes=["up", "down"], random_state=0)
    certified.fit(texts, ["up", "down"] * 40)

    log_proba = certified.predict_log_proba_each([["so good"], ["so bad", "good"]])

    assert np.array_equal(log_proba, np.log([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]]))


class HeldUp:
    """Lengths of texts, of which the first pass waits for `go`."""

    def __init__(self):
        self.go, self.started, self.passes = threading.Event(), threading.Event(), []

    def __call__(self, groups):
        self.passes.append(groups)
        self.started.set()
        assert self.go.wait(10)
        return [[1 // len(text) and len(text) for text in texts] for texts in groups]


def call_while_one_is_computed(compute, *calls):
    """Futures of a first call ("first"), and of those that came while it was computed."""
    together = Together(compute)
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        futures = [pool.submit(together, ["first"])]
        assert compute.started.wait(10)
        futures += [pool.submit(together, texts) for texts in calls]
        while len(together._waiting) < len(calls):
            pass
        compute.go.set()
    return futures


def test_calls_that_come_while_one_is_computed_share_the_next_pass():
    compute = HeldUp()
    first, *others = call_while_one_is_computed(compute, ["abc"], ["d", "ef"])

    assert first.result() == [0]
    assert sorted(future.result() for future in others) == [[0], [1, 0]]
    assert [len(groups) for groups in compute.passes] == [1, 2]


def test_a_call_that_fails_leaves_the_others_of_its_pass_their_results():
    compute = HeldUp()
    _, good, bad = call_while_one_is_computed(compute, ["a"], [""])

    assert good.result() == [1]
    with pytest.raises(ZeroDivisionError):
        bad.result()


def test_a_pass_has_no_more_texts_than_the_limit():
    compute = HeldUp()
    call_while_one_is_computed(compute, ["a"] * 200, ["b"] * 200)

    assert [len(groups) for groups in compute.passes] == [1, 1, 1]


def test_a_pass_is_computed_for_a_call_that_comes_after_all_others():
    together = Together(lambda groups: [len(texts) for texts in groups])
    assert [together(["a"]), together(["b", "c"]), together([])] == [1, 2, 0]
