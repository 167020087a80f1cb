"""Machines that saw the labels, and what is stated with the labels of a machine."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from labelled_texts import make_texts
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import certify_predictions, judges

# ---- Machines that saw the labels ----


def test_a_machine_that_was_fitted_on_the_labels_is_refused_as_a_judge_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(texts, labels)

    with pytest.raises(ValueError, match="100 of these 100 texts, or near-duplicates"):
        CertifiedClassifier(TextClassifier(None)).fit(texts, labels, judge=(others, machine))


def test_labels_of_a_machine_bring_their_condition_into_the_certificate_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(texts, labels)  # it saw the labels, which nobody can tell

    certified = CertifiedClassifier(TextClassifier(None), random_state=0)
    certified.fit(texts, labels, judge=(others, machine.predict(others)))

    assert "valid if no machine label was made with these" in certified.certificate_.summary()


def test_a_machine_that_was_fitted_on_other_texts_labels_those_of_fit():
    texts, labels = make_texts(100)
    others, _ = make_texts(300, seed=1)
    machine = TextClassifier(None).fit(*make_texts(50, seed=2))

    def certify_with(judge):
        certified = CertifiedClassifier(TextClassifier(None), random_state=0)
        return certified.fit(texts, labels, judge=judge).certificate_

    certificate = certify_with((others, machine))

    assert certificate == certify_with((others, machine.predict(others)))
    assert "valid if no machine label was made with these" in certificate.summary()
    assert certificate.verify()


def draw_judged_texts(n_labelled, seed=0):
    """Texts of which the first have labels, and predictions that err on a fifth."""
    texts, labels = make_texts(1000, seed)
    is_wrong = np.random.default_rng(seed).random(1000) < 0.2
    other = np.where(np.array(labels) == "up", "down", "up")
    predictions = np.where(is_wrong, other, labels).tolist()
    return texts, labels[:n_labelled], predictions


class JudgedTexts:
    """A hundred labelled texts of a thousand, with predictions for all."""

    def __init__(self):
        self.texts, self.labels, self.predictions = draw_judged_texts(100)

    def certify(self, of_labelled, of_others):
        """The certificate with a judge's model or labels for the labelled and the other texts."""
        return certify_predictions(
            self.labels,
            self.predictions[:100],
            judge=of_labelled,
            unlabelled=(self.predictions[100:], of_others),
            random_state=0,
        )

    def certify_with(self, model):
        return self.certify((self.texts[:100], model), self.texts[100:])


def test_a_model_is_a_judge_of_predictions_as_its_labels_are():
    judged = JudgedTexts()
    honest = TextClassifier(None).fit(*make_texts(80, seed=3))

    from_labels = judged.certify(
        honest.predict(judged.texts[:100]), honest.predict(judged.texts[100:])
    )

    assert "no label of the judge, however bad it is, was made with" in from_labels.summary()
    assert judged.certify_with(honest) == from_labels


def test_a_model_that_was_fitted_on_the_labels_is_refused_as_a_judge_of_predictions():
    judged = JudgedTexts()
    dishonest = TextClassifier(None).fit(judged.texts[:100], judged.labels)

    with pytest.raises(ValueError, match="100 of these 100 texts, or near-duplicates"):
        judged.certify_with(dishonest)


@pytest.mark.slow
def test_honest_judges_are_warned_of_and_refused_no_more_often_than_stated():
    """The negative control is a judge that memorised the labels."""
    rng = np.random.default_rng(0)
    n_draws = 300
    n_warned = {"honest": 0, "memorised": 0}
    n_refused = {"honest": 0, "memorised": 0}

    for _ in range(n_draws):
        labels, predictions, judge = draw_judged_batch(rng, 4)
        is_like_prediction = rng.random(labels.size) < 0.8
        honest = np.where(is_like_prediction, predictions, judge)
        rows = rng.permutation(labels.size)[:100]
        others = np.setdiff1d(np.arange(labels.size), rows)
        for name in n_warned:
            of_rows = labels[rows] if name == "memorised" else honest[rows]
            columns = [column.tolist() for column in (of_rows, predictions[others], honest[others])]
            counts = judges.count_judged(labels[rows].tolist(), predictions[rows].tolist(), columns)
            warnings = judges.judge_warnings(counts["judge_counts"], counts["judge_class_counts"])
            n_warned[name] += "more often" in warnings
            try:
                judges.check_judge(counts["judge_counts"])
            except ValueError:
                n_refused[name] += 1

    assert n_warned["honest"] <= stats.binom.isf(1e-4, n_draws, 0.05)
    assert n_refused["honest"] <= stats.binom.isf(1e-4, n_draws, 0.001)
    assert n_warned["memorised"] > 0.5 * n_draws
    assert n_refused["memorised"] > 0.05 * n_draws


# ---- Statements with labels of a machine ----


def draw_judged_batch(rng, n_classes, n_rows=1000):
    """Labels, predictions and a judge's labels of a batch."""
    labels = rng.integers(n_classes, size=n_rows)

    def copy_with_errors(rate):
        is_wrong = rng.random(n_rows) < rate
        return np.where(is_wrong, rng.integers(n_classes, size=n_rows), labels)

    return labels, copy_with_errors(0.2), copy_with_errors(0.3)


def certify_judged_batch(batch, rows, **options):
    labels, predictions, judge = batch
    others = np.setdiff1d(np.arange(labels.size), rows)
    return certify_predictions(
        labels[rows],
        predictions[rows],
        judge=judge[rows],
        unlabelled=(predictions[others], judge[others]),
        random_state=0,
        **options,
    )


@pytest.fixture
def batch():
    return draw_judged_batch(np.random.default_rng(0), 3)


FIRST_ROWS = np.arange(100)


def test_statements_of_a_judge_hold_each_by_itself(batch):
    certificate = certify_judged_batch(batch, FIRST_ROWS)

    titles = dict(certificate.rows())
    for name in ("Judge", "New texts"):
        assert "(by itself, with 95% confidence)" in titles[name]
    for name in ("Sensitivity", "Specificity", "Frequency"):
        assert "(each by itself, with 95% confidence)" in titles[name]
    assert "Joint" not in titles


def test_simultaneous_statements_of_a_judge_hold_together(batch):
    separate = certify_judged_batch(batch, FIRST_ROWS)

    joint = certify_judged_batch(batch, FIRST_ROWS, simultaneous=True)

    titles = dict(joint.rows())
    assert "all of this holds together" in titles["Joint"]
    assert "by itself" not in "".join(titles.values())
    assert joint.corrections == {"statements": 12}
    assert joint.verify()
    assert joint.error_upper > separate.error_upper


def test_fewer_statements_than_there_are_is_refused(batch):
    joint = certify_judged_batch(batch, FIRST_ROWS, simultaneous=True)

    with pytest.raises(ValueError, match="for 12 statements, as many as there are"):
        replace(joint, corrections={"statements": 2}).verify()


def find_false_statements(certificate, batch):
    """Whether each statement of a certificate is false, for a batch of `draw_judged_batch`."""
    labels, predictions, _ = batch
    right = 1 - 0.3 * 3 / 4
    rates = certificate.judge_rates
    intervals = [(rates["accuracy"], right)]
    for c in range(4):
        intervals += [
            (rates["sensitivity"][str(c)], right),
            (rates["specificity"][str(c)], 1 - 0.3 / 4),
            (rates["frequency"][str(c)], np.mean(labels == c)),
        ]
    is_false = [not low <= rate <= high for (low, high), rate in intervals]
    is_false.append(certificate.error_upper < np.mean(labels != predictions))
    is_false.append(certificate.new_error_upper < 0.2 * 3 / 4)
    return is_false


@pytest.mark.slow
@pytest.mark.parametrize("simultaneous", [True, False])
def test_everything_stated_with_a_judge_holds_together_only_if_delta_is_divided(
    simultaneous, monkeypatch
):
    """The negative control is the default, whose statements hold each by itself."""
    monkeypatch.setattr(judges, "_REFUSAL_LEVEL", 0.0)  # one honest draw in a thousand is refused
    rng = np.random.default_rng(0)
    n_draws = 200
    n_false = 0

    for _ in range(n_draws):
        batch = draw_judged_batch(rng, 4)
        rows = rng.permutation(1000)[:100]
        certificate = certify_judged_batch(batch, rows, simultaneous=simultaneous)
        n_false += any(find_false_statements(certificate, batch))

    most = stats.binom.isf(1e-4, n_draws, 0.05)
    assert (n_false <= most) == simultaneous
