"""New texts unlike the calibration set: other words, other scripts, and floods of one text."""

import numpy as np
import pytest

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.predict.abstaining import AnswerRule, confidences

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def draw_films(rng, n):
    """Texts of a good or a bad word and words of their own, and labels of which 5% are wrong."""
    is_good = rng.random(n) < 0.5
    letters = rng.choice(LETTERS, (n, 6, 6))
    texts = []
    for good, letters_of_words in zip(is_good, letters):
        words = ["".join(word) for word in letters_of_words]
        texts.append(" ".join(["good" if good else "poor", "film", *words]))
    is_wrong = rng.random(n) < 0.05
    return texts, np.where(is_good ^ is_wrong, "yes", "no").tolist()


@pytest.fixture(scope="module")
def on_films():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*draw_films(np.random.default_rng(0), 400))


def test_no_drift_detected_says_that_a_difference_is_not_excluded(on_films):
    """A file with 10% of other texts breaks the bound and passes: the sentence must not deny it."""
    texts, _ = draw_films(np.random.default_rng(1), 200)

    comparison = on_films.compare_with_calibration(texts)

    assert comparison.differs is False
    assert "% of the texts are of another kind" in comparison.message
    assert "cannot exclude a difference" in comparison.message
    assert "can detect a difference, not exclude one" in on_films.certificate_.origin()


UNKNOWN_SCRIPTS = ["你好,世界", "Это, очень: хорошо!", "真好吃。(好)"]


@pytest.mark.parametrize("text", UNKNOWN_SCRIPTS)
def test_a_text_in_an_unknown_script_has_the_set_of_all_classes_and_no_answer(on_films, text):
    assert on_films.predict_set([text], error=0.2) == [["no", "yes"]]
    assert on_films.abstain(error=0.2).predict([text]) == [None]
    assert on_films.predict([text]).shape == (1,)


@pytest.mark.parametrize("text", UNKNOWN_SCRIPTS)
def test_the_rule_of_answers_does_not_answer_texts_in_an_unknown_script(on_films, text):
    answers = AnswerRule(on_films, error=0.2).answer([text, "a good film"])

    assert answers.covered.tolist() == [False, True]
    assert answers.abstained[0]
    assert answers.inside[0].all()


def test_calibration_texts_in_an_unknown_language_count_for_no_answer():
    """Refusing at prediction alone breaks abstention: the rule applies to calibration as well."""
    rng = np.random.default_rng(0)
    model = CertifiedClassifier(TextClassifier(None), random_state=0)
    model.fit(*draw_films(rng, 300))
    texts, labels = draw_films(rng, 60)
    foreign = [f"你好,{chr(0x4E00 + n)}世{chr(0x5000 + n)}界{chr(0x6000 + n)}" for n in range(60)]

    model.calibrate([*texts, *foreign], [*labels, *["yes"] * 60])

    calibration = model.calibration_
    confidence = confidences(model, calibration.log_proba, calibration.covered)
    assert model.abstain(error=0.2).coverage <= 0.55
    assert calibration.covered.sum() == 60
    assert (confidence < 0).sum() == 60


def test_a_flood_of_one_new_text_is_reported(on_films):
    """60% of 2,000 rows are one text: the distinct texts are as before, the rows are not."""
    rng = np.random.default_rng(2)
    texts, _ = draw_films(rng, 800)
    texts += ["the shop is good and its film is poor today"] * 1200
    shuffled = [texts[row] for row in rng.permutation(2000)]

    comparison = on_films.compare_with_calibration(shuffled)

    assert "no drift detected" not in comparison.message
    assert comparison.differs or comparison.holds_only_if == "copies"
    assert "1,199 that nearly equal an earlier row" in comparison.message
    assert comparison.counts.n_repeated == 1199
    assert len(comparison.left_out) == 1199
