"""New texts compared with the calibration set of a certified classifier."""

import json
import re

import numpy as np
import pytest

import pacsent
from helpers import FittedStub, invoke
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify.drift_check import OTHER_FRACTIONS, OTHER_KIND, DriftCheck, detection_times
from pacsent.predict.calibration import Calibration

GOOD = ("good", "nice")
BAD = ("bad", "poor")


def draw_reviews(n, seed):
    """Texts in which no word is unique, sorted by label; and labels."""
    rng = np.random.default_rng(seed)
    n_good = rng.binomial(n, 0.5)
    texts = []
    for row in range(n):
        last = (GOOD if row < n_good else BAD)[rng.integers(2)]
        films = [f"film{k}" for k in rng.integers(40, size=6)]
        texts.append(" ".join([*films, last]))
    return texts, ["yes"] * n_good + ["no"] * (n - n_good)


def draw_market_news(n):
    """Texts of other words than those of reviews."""
    words = np.random.default_rng(9).integers(300, size=(n, 12))
    return [" ".join(f"stock{word}" for word in row) for row in words]


@pytest.fixture(scope="module")
def on_reviews():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*draw_reviews(300, 0))


def test_unchanged_texts_seldom_differ_in_any_order(on_reviews):
    """They are sorted by label, and the calibration set is not."""
    comparisons = []
    for seed in range(1, 21):
        texts, _ = draw_reviews(200, seed)
        comparisons.append(on_reviews.compare_with_calibration(texts))

    assert sum(comparison.differs for comparison in comparisons) <= 2
    unchanged = next(comparison for comparison in comparisons if not comparison.differs)
    assert " distinct texts, no drift detected. It would find about" in unchanged.message


def test_texts_of_other_words_differ(on_reviews):
    comparison = on_reviews.compare_with_calibration(draw_market_news(60))

    assert comparison.differs
    assert 30 < comparison.n <= 60
    assert "differ from the calibration texts: no guarantee" in comparison.message
    assert "OOV rate" in comparison.message


def test_four_texts_are_too_few_to_tell(on_reviews):
    comparison = on_reviews.compare_with_calibration(draw_market_news(60)[:4])

    assert comparison.differs is None
    assert "too few" in comparison.message


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.3, 0.5])
def test_the_power_that_is_printed_is_the_fraction_of_files_that_are_found(fraction):
    n_calibration = 200
    n_texts = 150
    n_files = 200
    rng = np.random.default_rng(0)
    n_found = 0

    for seed in range(n_files):
        known = 0.5 + 0.5 * rng.random(n_calibration)
        is_other = rng.random(n_texts) < fraction
        new = 0.5 + 0.5 * np.where(is_other, OTHER_KIND, 1.0) * rng.random(n_texts)
        log_proba = np.log(np.column_stack([known, 1 - known]))
        calibration = Calibration(log_proba, np.zeros(n_calibration, int))
        classifier = FittedStub(classes_=np.arange(2), seed_=seed, calibration_=calibration)
        check = DriftCheck(classifier)
        check.add(list(range(n_texts)), np.log(np.column_stack([new, 1 - new])))
        n_found += check.result().differs is True

    # Three quantities: the confidence and two probabilities, which are functions of it.
    times = detection_times(n_calibration, 3)[OTHER_FRACTIONS.index(fraction)]
    power = (times <= n_texts).mean()
    assert abs(n_found / n_files - power) < 0.15


class PredictCommand:
    """`pacsent predict` of lines of text by a saved model."""

    def __init__(self, classifier, folder):
        self.folder = folder
        pacsent.save(classifier, folder / "model")

    def run(self, texts, status, *options):
        lines = self.folder / "texts.txt"
        lines.write_text("\n".join(texts))
        out = self.folder / "answers.csv"
        done = invoke(
            "predict", self.folder / "model", lines, "-o", out, "--json", *options, status=status
        )
        return done, json.loads(done.stdout)["comparison"]


def test_predict_in_the_shell_states_a_guarantee_for_similar_texts(on_reviews, tmp_path):
    texts, _ = draw_reviews(100, 8)

    done, comparison = PredictCommand(on_reviews, tmp_path).run(texts, 0, "--details")

    assert comparison["differs"] is False
    assert comparison["message"] in done.stderr.replace("\n", " ")
    assert "With 95% confidence" in done.stderr
    assert re.search(r"Answered: \d+ of 100 texts", done.stderr)


def test_predict_in_the_shell_states_no_guarantee_for_other_texts(on_reviews, tmp_path):
    texts = draw_market_news(60)

    done, comparison = PredictCommand(on_reviews, tmp_path).run(texts, status=3)

    assert comparison["differs"] is True
    assert comparison["message"] in done.stderr
    assert "With 95% confidence" not in done.stderr
