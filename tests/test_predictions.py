"""certify_predictions: bounds for anybody's predictions, alone and together, texts and groups."""

import csv
import dataclasses
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from pacsent.cli import cli
from pacsent.guarantees import ErrorCertificate, certify_predictions
from pacsent.guarantees.certificate import unpack_losses
from pacsent.guarantees.error_certificate import joint_bounds
from pacsent.maths import binomial

DELTA = 0.1
REPLICATES = 250
CLASSES = ["no", "so", "yes"]


def allowed(replicates=REPLICATES, delta=DELTA):
    """Violations that a true guarantee exceeds with a chance of 1e-4."""
    return stats.binom.ppf(1 - 1e-4, replicates, delta)


def drawn(rng, n, errors=(0.3, 0.1, 0.2), p=(0.2, 0.3, 0.5)):
    """Labels, and predictions that err with these chances, always to the next class."""
    labels = rng.choice(3, n, p=p)
    wrong = rng.random(n) < np.take(errors, labels)
    return labels, np.where(wrong, (labels + 1) % 3, labels)


def named(values):
    return [CLASSES[i] for i in values]


# ---- one certificate ---------------------------------------------------------------------------


def test_numbers_by_hand():
    labels = ["yes"] * 60 + ["no"] * 40
    answers = ["yes"] * 55 + ["no"] * 5 + ["no"] * 38 + ["yes"] * 2
    found = certify_predictions(labels, answers, recall="all", precision=["yes"], delta=0.06)
    assert (found.n, found.n_errors, found.error) == (100, 7, 0.07)
    assert found.class_counts == {"no": [40, 2], "yes": [60, 5]}
    assert found.answer_counts == {"yes": [57, 2]}
    assert found.bound == binomial.upper_limit(7, 100, 0.03)  # half of delta
    assert found.class_bounds["no"] == binomial.upper_limit(2, 40, 0.01)  # a third of the rest
    assert found.answer_bounds["yes"] == binomial.upper_limit(2, 57, 0.01)
    assert found.balanced_bound == pytest.approx(sum(found.class_bounds.values()) / 2)
    alone = certify_predictions(labels, answers, delta=0.06)
    assert alone.bound == binomial.upper_limit(7, 100, 0.06)
    assert certify_predictions(labels, answers, recall=["no"]).balanced_bound is None
    several = certify_predictions(labels, answers, n_candidates=5)
    assert several.bound == binomial.upper_limit(7, 100, 0.01)


def test_it_is_kept_printed_and_drawn():
    rng = np.random.default_rng(0)
    labels, answers = drawn(rng, 200)
    p = rng.random((200, 3))
    p /= p.sum(axis=1, keepdims=True)
    for given in (
        {"recall": "all", "precision": "all", "probabilities": p},
        {"groups": np.arange(200) // 10, "recall": "all", "precision": "all"},
        {"groups": np.arange(200) // 50},
    ):
        found = certify_predictions(named(labels), named(answers), **given)
        assert found.verify()
        again = ErrorCertificate.from_json(found.to_json())
        assert again == found and again.verify()
        assert str(found).startswith("With 95 % confidence, the error rate on")
        assert "certified</td>" in found._repr_html_()


def test_brier_score_and_log_loss_are_those_of_scikit_learn():
    from sklearn.metrics import brier_score_loss, log_loss

    rng = np.random.default_rng(1)
    labels, answers = drawn(rng, 300)
    p = rng.dirichlet([2, 2, 2], 300)
    found = certify_predictions(named(labels), named(answers), probabilities=p)
    brier = unpack_losses(found.losses["Brier score"]).mean()
    assert 2 * brier == pytest.approx(brier_score_loss(labels, p, labels=[0, 1, 2]), abs=1e-4)
    log = unpack_losses(found.losses["log-loss"]).mean() * -np.log(0.001)
    assert log == pytest.approx(log_loss(labels, p), abs=1e-3)
    assert found.loss_bounds["Brier score"] > brier
    right = p[:, 0] > 0.3
    single = certify_predictions(right, np.ones(300, bool), probabilities=p[:, 0])
    expected = np.mean((p[:, 0] - right) ** 2)
    assert unpack_losses(single.losses["Brier score"]).mean() == pytest.approx(expected, abs=1e-4)


def test_changed_numbers_are_refused():
    labels, answers = drawn(np.random.default_rng(2), 200)
    found = certify_predictions(
        named(labels), named(answers), recall="all", precision=["yes"], random_state=0
    )
    larger = {name: [1000, 0] for name in found.class_counts}
    for changes in (
        {"n_errors": found.n_errors - 1},
        {"n_errors": 0},
        {"n_errors": 201},
        {"class_counts": larger, **joint_bounds({**vars(found), "class_counts": larger}, 0.05)},
        *({"corrections": {"candidates": n}} for n in (1.0001, 0, True)),
        *({"class_counts": counts} for counts in ({"yes": [100, 1, 2]}, [])),
        {"n_duplicates": -1},
        {"n": 200.0},
        {"delta": float("nan")},
        {"bound": float("nan")},
        {"bound": 0.01},
        {"provenance": 3},
        {"class_bounds": {}},
        {"balanced_bound": None},
        {"answer_counts": {"yes": [90, 1]}},
        {"answer_bounds": {"yes": 0.01}},
        {"answer_counts": {}, "answer_bounds": {}},  # the others would have had more of delta
        {"class_counts": {"yes": [1, 2]}},
        {"scope": "everything"},
        {"scope": "groups"},
        {"n_repeated_errors": 3},
    ):
        with pytest.raises(ValueError, match="must be"):
            dataclasses.replace(found, **changes).verify()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([], []), "labels must hold at least one label"),
        ((["a", "b"], ["a"]), "predictions must be one for each of the 2 texts. Got 1"),
        ((["a", None], ["a", "a"]), "labels must all be known. Got 1 missing"),
        ((["a", "b"], ["a", float("nan")]), "predictions must all be known. Got 1 missing"),
        ((["a", "b"], ["a", "c"]), "predictions must be among the classes .a, b.. Got 'c' in row"),
        ((["1", "0"], [1, 0]), "predictions must be among the classes"),
        (("ab", ["a", "b"]), "labels must be a list"),
    ],
)
def test_what_cannot_be_certified_is_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        certify_predictions(*given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"probabilities": [0.5, float("nan"), 0.5]}, r"number in \[0, 1\].*Got nan in row 1"),
        ({"probabilities": [0.5, 1.5, 0.5]}, "Got 1.5 in row 1"),
        ({"probabilities": [0.5]}, r"Got shape \(1,\)"),
        ({"probabilities": ["much"] * 3}, "something else"),
        ({"probabilities": [[0.5, 0.1]] * 3}, "must add up to 1. Got 0.6 in row 0"),
        ({"classes": ["a"]}, "labels must be among the classes .a.. Got 'b'"),
        ({"classes": ["a", "a", "b"]}, "classes must be all different"),
        ({"recall": ["c"]}, "recall must be among the classes"),
        ({"groups": [1, 2]}, "groups must be one for each of the 3 texts"),
        ({"texts": ["one", "two"]}, "texts must be one for each of the 3 labels. Got 2"),
        ({"delta": 0}, "delta must be strictly between 0 and 1"),
        ({"n_candidates": 0}, "n_candidates must be an integer of at least 1"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_options_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        certify_predictions(["a", "b", "a"], ["a", "b", "b"], **given)


def test_one_row_is_certified_with_a_bound_that_says_little():
    assert certify_predictions(["a"], ["a"]).bound == pytest.approx(0.95)
    assert certify_predictions(["a"], ["b"], classes=["a", "b"]).bound == 1.0


# ---- texts that repeat, and groups -------------------------------------------------------------


def test_duplicates_do_not_make_a_bound_smaller():
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{w}" for w in rng.integers(0, 5000, 12)) for _ in range(80)]
    labels, answers = drawn(rng, 80)
    once = certify_predictions(named(labels), named(answers), texts=texts)
    changed = [text.replace(text.split()[3], "other", 1) for text in texts]
    twice = certify_predictions(named(labels) * 2, named(answers) * 2, texts=texts + changed)
    assert (once.n, twice.n, twice.n_duplicates) == (80, 80, 80)
    assert twice.bound == once.bound
    assert "80 further texts repeat one of the 80" in str(twice)
    blind = certify_predictions(named(labels) * 2, named(answers) * 2)
    assert blind.bound < once.bound and "duplicates were not looked for" in str(blind)


def test_one_text_that_is_half_of_the_population_is_not_counted_once():
    """Drawn independently, repetitions and all: counted once, its errors would vanish."""
    rng = np.random.default_rng(4)
    violations = once = 0
    for _ in range(REPLICATES):
        same = rng.random(100) < 0.5
        texts = ["the one that comes again" if s else f"q{i} r{i}" for i, s in enumerate(same)]
        answers = ["no" if s else "yes" for s in same]
        found = certify_predictions(
            ["yes"] * 100, answers, texts=texts, classes=["no", "yes"], delta=DELTA
        )
        violations += found.bound < 0.5
        once += binomial.upper_limit(found.n_errors, found.n, DELTA) < 0.5
    assert violations <= allowed()
    assert once > 0.9 * REPLICATES  # the negative control


def grouped(rng, n_groups, n_each=10):
    """Groups whose error rates differ: the mean over groups is 0.2."""
    rates = rng.beta(0.5, 2.0, n_groups)
    wrong = rng.random((n_groups, n_each)) < rates[:, None]
    return wrong.ravel(), np.repeat(np.arange(n_groups), n_each)


def test_bounds_for_new_groups_hold_and_those_of_texts_do_not():
    rng = np.random.default_rng(5)
    of_groups = of_texts = 0
    for _ in range(REPLICATES):
        wrong, groups = grouped(rng, 25)
        answers = ["no" if w else "yes" for w in wrong]
        given = {"classes": ["no", "yes"], "delta": DELTA, "random_state": 0}
        found = certify_predictions(["yes"] * 250, answers, groups=groups, **given)
        assert (found.scope, found.n) == ("groups", 25)
        of_groups += found.bound < 0.2
        of_texts += certify_predictions(["yes"] * 250, answers, **given).bound < 0.2
    assert of_groups <= allowed()
    assert of_texts > allowed()  # the negative control: texts of a group are not independent


def test_few_groups_are_no_guarantee_for_new_ones():
    wrong, groups = grouped(np.random.default_rng(6), 7)
    answers = ["no" if w else "yes" for w in wrong]
    found = certify_predictions(["yes"] * 70, answers, groups=groups, classes=["no", "yes"])
    assert found.scope == "same groups"
    assert "This is NOT a guarantee for new groups" in str(found).splitlines()[0]
    assert "of the same 7 groups" in found.sentence()
    many = certify_predictions(
        ["yes"] * 70, answers, groups=np.arange(70) // 5, classes=["no", "yes"]
    )
    assert "texts of new groups" in many.sentence() and many.n == 14


# ---- all bounds together -----------------------------------------------------------------------


def test_all_bounds_hold_together_and_would_not_at_delta_each():
    rng = np.random.default_rng(7)
    errors, p = np.array([0.3, 0.1, 0.2]), np.array([0.2, 0.3, 0.5])
    to_next = np.roll(p * errors, 1)  # how often each class is predicted wrongly
    truth = [*errors, *(to_next / (p * (1 - errors) + to_next))]
    together = each = 0
    for _ in range(REPLICATES):
        labels, answers = drawn(rng, 120, errors, p)
        given = {"recall": "all", "precision": "all", "delta": DELTA, "classes": [0, 1, 2]}
        found = certify_predictions(labels, answers, **given)
        bounds = [*found.class_bounds.values(), *found.answer_bounds.values()]
        broken = np.array([*bounds, found.bound, found.balanced_bound])
        together += (broken < [*truth, (p * errors).sum(), errors.mean()]).any()
        counts = *found.class_counts.values(), *found.answer_counts.values()
        each += any(binomial.upper_limit(k, n, DELTA) < t for (n, k), t in zip(counts, truth))
    assert together <= allowed()
    assert each > allowed()  # the negative control: delta for each of them


# ---- the shell ---------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "answers.csv"
    labels, answers = drawn(np.random.default_rng(9), 120)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["label", "answer", "p", "author"])
        for i, (label, answer) in enumerate(zip(labels, answers)):
            rows.writerow([CLASSES[label], CLASSES[answer], 0.8, f"a{i % 12}"])
    return path


def run(*arguments):
    return CliRunner().invoke(cli, ["certify-predictions", *map(str, arguments)])


def test_a_table_is_certified_in_the_shell(table, tmp_path):
    out = tmp_path / "c.json"
    found = run(table, "--prediction-column", "answer", "--probability-column", "p",
                "--recall", "all", "--precision", "yes,so", "-o", out, "--json",
                "--quiet")  # fmt: skip
    assert found.exit_code == 0, found.output
    certificate = ErrorCertificate.from_json(found.stdout)
    assert certificate.verify() and set(certificate.answer_bounds) == {"yes", "so"}
    assert set(certificate.loss_bounds) == {"Brier score", "log-loss"}
    assert json.loads(out.read_text()) == json.loads(found.stdout)
    assert run(table, "--prediction-column", "answer", "-o", out).exit_code == 1  # it exists
    groups = run(table, "--prediction-column", "answer", "--group-column", "author")
    assert "texts of new groups" in groups.stdout and "12 held-out groups" in groups.stdout


def test_kinds_of_tables_and_of_labels(tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(json.dumps({"label": i % 2, "prediction": 1}) for i in range(20)))
    assert "10 of 20 held-out texts were wrong" in run(lines).stdout
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"label": [1, 0] * 10, "prediction": [1] * 20, "text": [f"t{i}" for i in range(20)]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert "10 of 20 held-out texts were wrong" in run(tmp_path / "a.parquet").stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("label,prediction\n", [], "must hold predictions. Got no row"),
        ("", [], "Got an empty file"),
        ("label,prediction\na,\n", [], "Line 2 of t.csv must have a prediction. Got none"),
        ("label,prediction\n,a\n", [], "Line 2 of t.csv must have a label. Got none"),
        ("label,answer\na,a\n", [], "must include prediction.*with prediction_column"),
        ("label,prediction,p\na,a,nan\n", ["--probability-column", "p"], "between 0 and 1"),
        ("label,prediction\na,b\n", [], "predictions must be among the classes .a..*classes=A,B"),
        ("label,prediction\na,a\n", ["--recall", "b"], "recall must be among the classes"),
        ("label,prediction\na,a\n", ["--text-column", "t"], "must include t.*text_column"),
    ],
)
def test_mistakes_in_a_table_are_one_line(tmp_path, content, arguments, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    found = run(path, *arguments, "--quiet")
    assert found.exit_code == 1 and not found.stdout
    assert len(found.stderr.strip().splitlines()) == 1
    assert re.search(message, found.stderr)
