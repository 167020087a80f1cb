"""Statements that are one of several: each has its part of delta, wherever it is made."""

import numpy as np
import pytest

import pacsent
from helpers import invoke
from labelled_texts import write_csv
from pacsent.certify import compare
from pacsent.certify.count_certificates import Comparison
from pacsent.classify import check_labels
from pacsent.scale import Predict


def draw_film_texts(n):
    """Texts that begin with "good" or "bad" by their label, and the labels."""
    rng = np.random.default_rng(0)
    labels = rng.choice(["no", "yes"], n)
    first_words = {"no": "bad", "yes": "good"}
    texts = [
        f"{first_words[label]} film w{rng.integers(50)} number {row}"
        for row, label in enumerate(labels)
    ]
    return texts, labels


def test_the_delta_of_training_reaches_answers_and_the_page(tmp_path):
    texts, labels = draw_film_texts(400)
    table = write_csv(tmp_path / "labelled.csv", text=texts, label=labels)
    model = tmp_path / "model"

    invoke("train", table, "-o", model, "--encoder", "none", "--delta", 0.01, status=0)
    invoke("model", "export", model, "-o", tmp_path / "page.html", status=0)

    classifier = pacsent.load(model)
    answers = Predict(str(model)).open()[1]
    levels = classifier.prediction_set_thresholds(error=answers.set_error, delta=0.01)
    assert answers.delta == classifier.delta == 0.01
    assert answers.statement.startswith("With 99% confidence")
    assert "Separately, with 99% confidence" in answers.statement
    assert np.array_equal(answers.set_levels, levels)


def test_a_comparison_that_is_one_of_several_has_its_part_of_delta():
    counts = {"n": 200, "only_a_right": 30, "only_b_right": 10}

    alone = Comparison(delta=0.01, **counts)
    one_of_five = Comparison(delta=0.05, n_candidates=5, **counts)

    assert one_of_five.difference_lower == alone.difference_lower
    assert one_of_five.difference_upper == alone.difference_upper
    assert "union bound over 5 comparisons" in str(one_of_five)


def predict_by_first_word(rows):
    return ["yes" if text.startswith("good") else "no" for text in rows]


def test_compare_records_how_many_comparisons_there_are():
    texts, labels = draw_film_texts(120)

    def predict_yes(rows):
        return ["yes"] * len(rows)

    comparison = compare(predict_by_first_word, predict_yes, texts, labels, n_candidates=3)

    assert comparison.n_candidates == 3


def test_there_is_at_least_one_comparison():
    texts, labels = draw_film_texts(120)

    with pytest.raises(ValueError, match="n_candidates"):
        compare(predict_by_first_word, predict_by_first_word, texts, labels, n_candidates=0)


def test_a_search_among_several_indexes_is_corrected_for_in_its_guarantee_too(tmp_path):
    texts = [f"entry {chr(97 + n % 26)}{n} about w{n * 7 % 31}" for n in range(150)]
    queries = [f"a{n} {text}" for n, text in enumerate(texts)]
    index = pacsent.Index("english", lexical=1.0)
    ids = index.add(texts)

    alone = index.certify(queries, ids, delta=0.01, random_state=0)
    hits_alone = index.search(queries[:20], guarantee=0.9)
    chosen = index.certify(queries, ids, delta=0.05, random_state=0, n_candidates=5)
    loaded = pacsent.load(pacsent.save(index, tmp_path / "index"))
    hits_chosen = loaded.search(queries[:20], guarantee=0.9)

    assert chosen.error_upper == alone.error_upper
    assert chosen.verify()
    assert list(map(len, hits_chosen)) == list(map(len, hits_alone))
    assert hits_chosen[0].summary().startswith("With 95% confidence")


def test_labels_of_the_best_of_several_machines_are_checked_with_a_part_of_delta():
    right = ["even", "odd"] * 1000
    machine = ["odd"] * 100 + right[100:]
    texts = [f"text {n}" for n in range(2000)]

    def check(**options):
        result = check_labels(
            texts, machine, range(2000), ask=lambda row, _: right[row], random_state=0, **options
        )
        return result.certificate

    chosen = check(delta=0.05, n_candidates=5)
    alone = check(delta=0.01)

    assert chosen.corrections["candidates"] == 5
    assert chosen.error_upper == alone.error_upper
    assert chosen.n_read == alone.n_read
    assert chosen.verify()
