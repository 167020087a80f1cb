"""Bounds, sets, abstention and alarms for texts that repeat: traffic, and copies of collecting."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from labelled_texts import make_texts
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import DriftMonitor, certify, certify_predictions

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def draw_unique_texts(rng, n):
    """Texts of six words of seven random letters: none is near another."""
    letters = rng.choice(LETTERS, (n, 6, 7))
    texts = []
    for letters_of_words in letters:
        words = ["".join(word) for word in letters_of_words]
        texts.append(" ".join(words))
    return texts


def draw_traffic(rng, n, n_templates, fraction, wrong_templates, wrong_others):
    """Rows drawn independently, whether a rule is wrong on each, and its error on new rows."""
    templates = draw_unique_texts(rng, n_templates)
    texts = draw_unique_texts(rng, n)
    is_template = rng.random(n) < fraction
    for row in np.flatnonzero(is_template):
        texts[row] = templates[rng.integers(n_templates)]
    is_wrong = rng.random(n) < np.where(is_template, wrong_templates, wrong_others)
    error = fraction * wrong_templates + (1 - fraction) * wrong_others
    return texts, is_wrong, error


def draw_collected(rng, n, largest, wrong_copied, wrong_others):
    """Distinct texts drawn independently, a fifth of them copied up to `largest` times."""
    is_copied = rng.random(n) < 0.2
    is_wrong = rng.random(n) < np.where(is_copied, wrong_copied, wrong_others)
    sizes = np.where(is_copied, rng.integers(2, largest + 1, n), 1)
    texts = np.repeat(draw_unique_texts(rng, n), sizes).tolist()
    error = 0.2 * wrong_copied + 0.8 * wrong_others
    return texts, np.repeat(is_wrong, sizes), error


@pytest.mark.slow
def test_the_bound_holds_for_rows_of_traffic_in_which_templates_repeat():
    """One text per template counted: the bound for half of the traffic, which errs on 5%."""
    rng = np.random.default_rng(0)
    n_false = 0

    for _ in range(30):
        texts, is_wrong, error = draw_traffic(rng, 300, 20, 0.5, 0.4, 0.05)
        certificate = certify_predictions(
            [0] * 300, is_wrong.astype(int), texts=texts, classes=[0, 1]
        )
        n_false += certificate.error_upper < error

    assert n_false <= 5  # of 30 at 5%: more with probability .003


@pytest.mark.slow
def test_the_bound_holds_for_distinct_texts_of_which_copies_were_made():
    """The negative control is the bound for rows of traffic."""
    rng = np.random.default_rng(1)
    n_false = 0
    n_false_of_rows = 0

    for _ in range(30):
        texts, is_wrong, error = draw_collected(rng, 150, 8, 0.02, 0.3)
        labels = [0] * len(texts)
        predictions = is_wrong.astype(int)
        of_both = certify_predictions(labels, predictions, texts=texts, classes=[0, 1])
        of_rows = certify_predictions(
            labels, predictions, texts=texts, classes=[0, 1], repeats="traffic"
        )
        n_false += of_both.error_upper < error
        n_false_of_rows += of_rows.error_upper < error

    assert n_false <= 5
    assert n_false_of_rows > 15


def test_nothing_is_claimed_about_texts_not_seen_before_in_traffic():
    texts = ["a template that is sent again"] * 20 + [f"text {n} of {n}" for n in range(80)]
    predictions = ["b"] * 9 + ["a"] * 91

    certificate = certify_predictions(["a"] * 100, predictions, texts=texts, classes=["a", "b"])

    assert (certificate.n, certificate.other["n"]) == (100, 81)
    assert "distinct new texts" not in str(certificate)
    assert "Of two bounds the larger counts" in certificate.summary()
    assert "either rows, repeats included, or distinct texts" in str(certificate)


@pytest.fixture(scope="module")
def fitted_and_repeated():
    """A classifier, and 80 new texts with 20 that it was fitted on."""
    classifier = TextClassifier(None).fit(*make_texts(100))
    fitted_texts, fitted_labels = make_texts(100)
    texts, labels = make_texts(80, seed=1)
    return classifier, texts + fitted_texts[:20], labels + fitted_labels[:20]


def test_rows_of_traffic_that_repeat_fitted_texts_count(fitted_and_repeated):
    certificate = certify(*fitted_and_repeated, repeats="traffic")

    assert certificate.n == 100
    assert "20 rows repeat a text that was fitted: they count" in certificate.provenance


def test_rows_that_repeat_fitted_texts_are_dropped_from_traffic_if_asked_for(fitted_and_repeated):
    certificate = certify(*fitted_and_repeated, repeats="traffic", overlap="drop")

    assert certificate.n == 80
    assert "omitted: 20 training texts" in certificate.provenance


def test_rows_that_all_were_fitted_are_no_traffic(fitted_and_repeated):
    classifier, _, _ = fitted_and_repeated
    texts, labels = make_texts(100)

    with pytest.raises(ValueError, match="A guarantee needs texts the classifier has not seen"):
        certify(classifier, texts, labels, repeats="traffic")


def test_an_overlap_is_an_error_or_dropped(fitted_and_repeated):
    with pytest.raises(ValueError, match="overlap must be 'error' or 'drop'"):
        certify(*fitted_and_repeated, overlap="keep")


class Rule(ClassifierMixin, BaseEstimator):
    """Tells whether a text begins with "good"; nothing is learned, or whole texts are by heart."""

    def __init__(self, by_heart=False):
        self.by_heart = by_heart

    def fit(self, X, y):
        self.classes_ = np.array(["down", "up"])
        self.known_ = dict(zip(X, y)) if self.by_heart else {}
        return self

    def predict(self, X):
        return np.array([self._predict_text(text) for text in X])

    def _predict_text(self, text):
        by_rule = "up" if text[:4] == "good" else "down"
        return self.known_.get(text, by_rule)


def label_for_rule(texts, is_wrong):
    """The texts behind "good" or "poor", and labels that the rule misses if `is_wrong`."""
    is_good = [text[0] < "n" for text in texts]
    with_words = [f"{'good' if good else 'poor'} {text}" for good, text in zip(is_good, texts)]
    labels = ["up" if good != wrong else "down" for good, wrong in zip(is_good, is_wrong)]
    return with_words, labels


@pytest.mark.slow
@pytest.mark.parametrize("by_heart", [False, True])
def test_what_fit_holds_out_is_a_sample_of_the_rows_of_traffic(by_heart):
    """With whole clusters held out, a template of 30% is counted once or not at all: 34 of 60."""
    rng = np.random.default_rng(2)
    n_false = 0

    for seed in range(60):
        texts, is_wrong, error = draw_traffic(rng, 500, 1, 0.3, 0.5, 0.05)
        X, y = label_for_rule(texts, is_wrong)
        certified = CertifiedClassifier(Rule(by_heart), random_state=seed).fit(X, y)
        # Whatever is known about the template by heart, it is wrong on half of its rows.
        n_false += certified.certificate_.error_upper < error

    assert n_false <= 8  # of 60 at 5%: more with probability .003


# Levels of confidence, equally frequent.
LEVELS = 0.6 + 0.35 * np.arange(97) / 97


def compute_confidence(texts):
    """A confidence that is a function of the text, as a model's is."""
    hashes = [sum(map(ord, text)) % 97 for text in texts]
    return LEVELS[hashes]


@pytest.mark.slow
def test_sets_and_abstention_hold_for_rows_of_traffic():
    """Eight templates are 40% of the rows, and wrong half of the time, whatever the confidence."""
    rng = np.random.default_rng(3)
    fraction = 0.4
    wrong_templates = 0.5
    wrong_others = 0.05

    def mean_over_rows(of_templates, of_others):
        return fraction * np.mean(of_templates) + (1 - fraction) * np.mean(of_others)

    def predict_proba(X):
        confidence = compute_confidence(X)
        return np.column_stack([confidence, 1 - confidence])

    n_false = {"sets": 0, "abstention": 0}
    for seed in range(60):
        texts, is_wrong, _ = draw_traffic(rng, 400, 8, fraction, wrong_templates, wrong_others)
        certified = CertifiedClassifier(predict_proba, classes=[0, 1], random_state=seed)
        certified.fit(texts, is_wrong.astype(int))
        # Templates are the texts that occur more than once.
        templates = [text for text, count in Counter(texts).items() if count > 1]
        of_templates = compute_confidence(templates)
        of_others = LEVELS

        lowest = np.exp(certified.prediction_set_thresholds(error=0.2)[0])
        missed = mean_over_rows(
            wrong_templates * (1 - of_templates < lowest), wrong_others * (1 - of_others < lowest)
        )
        n_false["sets"] += missed > 0.2

        threshold = certified.abstain(error=0.2).threshold
        answered = mean_over_rows(of_templates >= threshold, of_others >= threshold)
        wrong = mean_over_rows(
            wrong_templates * (of_templates >= threshold), wrong_others * (of_others >= threshold)
        )
        n_false["abstention"] += wrong > 0.2 * answered

    assert max(n_false.values()) <= 8  # of 60 at 5%: more with probability .003


def test_a_matrix_is_certified_with_a_note_that_copies_were_not_looked_for():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 2, 200)

    certified = CertifiedClassifier(LogisticRegression(), random_state=0).fit(X, y)

    assert "Near-copies of rows were not looked for." in certified.certificate_.summary()


class ByLetter(ClassifierMixin, BaseEstimator):
    """A fixed classifier that is surer of templates than of other texts."""

    def fit(self, X, y):
        self.classes_ = np.array(["no", "yes"])
        return self

    def predict_proba(self, X):
        of_kinds = np.array([0.05 if "template" in text else 0.4 for text in X])
        last_letters = [text.split()[-1][0] for text in X]
        of_letters = np.array([1 - ord(letter) % 13 / 26 for letter in last_letters])
        of_no = of_kinds * of_letters
        return np.column_stack([of_no, 1 - of_no])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def draw_text(rng, start):
    words = ["".join(word) for word in rng.choice(LETTERS, (7, 6))]
    return " ".join([start, *words])


def draw_rows_of_traffic(rng, n):
    """Labelled rows and new ones of traffic, half of it of 50 templates."""
    templates = [draw_text(rng, "template") for _ in range(50)]

    def draw_rows():
        is_template = rng.random(n) < 0.5
        numbers = rng.integers(50, size=n)
        return [
            templates[k] if use_template else draw_text(rng, "")
            for use_template, k in zip(is_template, numbers)
        ]

    return draw_rows(), draw_rows()


def draw_copied_rows(rng, n):
    """Labelled rows, in which collecting copied half of the texts, and new ones without copies."""

    def draw_rows(n_copies):
        rows = []
        while len(rows) < n:
            is_easy = rng.random() < 0.5
            text = draw_text(rng, "template" if is_easy else "")
            rows += [text] * (1 if is_easy else n_copies)
        return rows[:n]

    labelled = draw_rows(5)
    shuffled = [labelled[row] for row in rng.permutation(n)]
    return shuffled, draw_rows(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw_rows", "valid", "control"),
    [(draw_rows_of_traffic, "rows", "texts"), (draw_copied_rows, "texts", "rows")],
)
def test_unchanged_rows_that_repeat_raise_few_alarms_of_the_test_that_is_valid(
    draw_rows, valid, control
):
    """The alarm of texts was the only one: it went off on unchanged traffic in 40 of 40 runs."""
    n_runs = 40
    alpha = 0.05
    n_alarms = {"rows": 0, "texts": 0}
    n_withdrawn = 0

    for seed in range(n_runs):
        labelled, new = draw_rows(np.random.default_rng(seed), 300)
        model = CertifiedClassifier(ByLetter(), random_state=seed)
        model.fit(labelled, ["yes"] * 150 + ["no"] * 150)
        monitor = DriftMonitor(model, alpha=alpha, random_state=seed)
        n_withdrawn += monitor.update(new)
        n_alarms["rows"] += monitor.alarm or monitor.holds_only_if == "copies"
        n_alarms["texts"] += monitor.alarm or monitor.holds_only_if == "traffic"

    most = stats.binom.isf(1e-3, n_runs, alpha)
    assert n_alarms[valid] <= most
    assert n_withdrawn <= most
    assert n_alarms[control] > most
