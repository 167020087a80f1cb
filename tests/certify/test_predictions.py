"""certify_predictions: bounds for anybody's predictions, alone and together, texts and groups."""

import dataclasses
import json
import re
import time

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.sparse import csr_matrix

from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds import binomial
from pacsent.bounds.pac_bayes import kl_inverse
from pacsent.bounds.rounding import rounded_up
from pacsent.certify import ErrorCertificate, certify, certify_predictions, read_certificate
from pacsent.certify.error_certificate import joint_bounds

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
    return labels, (labels + wrong) % 3


def named(values):
    return [CLASSES[i] for i in values]


def test_numbers_by_hand():
    labels = ["yes"] * 60 + ["no"] * 40
    answers = ["yes"] * 55 + ["no"] * 5 + ["no"] * 38 + ["yes"] * 2
    found = certify_predictions(labels, answers, recall="all", precision=["yes"], delta=0.06)
    assert (found.n, found.n_errors, found.error) == (100, 7, 0.07)
    assert found.class_counts == {"no": [40, 2], "yes": [60, 5]}
    assert found.prediction_counts == {"yes": [57, 2]}
    assert found.error_upper == binomial.upper_limit(7, 100, 0.03)  # half of delta
    assert found.class_error_upper["no"] == binomial.upper_limit(2, 40, 0.01)  # a third of the rest
    assert found.prediction_error_upper["yes"] == binomial.upper_limit(2, 57, 0.01)
    assert found.balanced_error_upper == pytest.approx(sum(found.class_error_upper.values()) / 2)
    alone = certify_predictions(labels, answers, delta=0.06)
    assert alone.error_upper == binomial.upper_limit(7, 100, 0.06)
    assert certify_predictions(labels, answers, recall=["no"]).balanced_error_upper is None
    assert "(7 of 100 given texts were wrong: 0.0700; always answering yes: 0.4000)" in str(alone)
    several = certify_predictions(labels, answers, n_candidates=5)
    assert several.error_upper == binomial.upper_limit(7, 100, 0.01)
    one_row = certify_predictions(["a"], ["a"])
    assert one_row.error_upper == pytest.approx(0.95)
    assert certify_predictions(["a"], ["b"], classes=["a", "b"]).error_upper == 1.0


def test_changed_numbers_are_refused():
    assert certify_predictions(["y", "n"] * 20, ["y"] * 40).guess_counts == {"n": [40, 20]}
    labels, answers = drawn(np.random.default_rng(2), 200)
    found = certify_predictions(
        named(labels), named(answers), recall="all", precision=["yes"], random_state=0
    )
    larger = {name: [1000, 0] for name in found.class_counts}
    for changes in (
        {"class_counts": larger, **joint_bounds({**vars(found), "class_counts": larger}, 0.05)},
        *({"class_counts": counts} for counts in ({"yes": [100, 1, 2]}, {"yes": [1, 2]}, [])),
        *({f"{name}_error_upper": None} for name in ("balanced", "class", "prediction")),
        {"provenance": 3},
        {"prediction_counts": {"yes": [90, 1]}},
        {"prediction_error_upper": {"yes": 0.01}},
        # the others would have had more of delta
        {"prediction_counts": {}, "prediction_error_upper": {}},
        *({"scope": scope} for scope in ("everything", "groups")),
        *({"guess_counts": {"yes": counts}} for counts in ([300, 2], [0, 0])),
        *({"batch_size": size} for size in (100, 10**12, 10**30)),
        {"corrections": {"x": 10**400}},
        {"digests": {"labels": 3}},
    ):
        with pytest.raises(ValueError, match="must be"):
            dataclasses.replace(found, **changes).verify()


THREE = ["a", "b", "a"], ["a", "b", "b"]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (([], []), {}, "labels must have at least one label"),
        ((["a", "b"], ["a"]), {}, "predictions must be one for each of the 2 texts. Got 1"),
        ((["a", None], ["a", "a"]), {}, "labels must all be known. Got 1 missing"),
        ((["a", "b"], ["a", float("nan")]), {}, "predictions must all be known. Got 1 missing"),
        ((["a", "b"], ["a", "c"]), {}, "must be among the classes .a, b.. Got 'c' in y.1."),
        ((["1", "0"], [1, 0]), {}, "predictions must be among the classes"),
        (("ab", ["a", "b"]), {}, "labels must be a list"),
        ((pl.LazyFrame({"y": ["a"]}), ["a"]), {}, "Got a LazyFrame instead. Collect it first"),
        (THREE, {"unlabelled": -1}, "unlabelled must be an integer of at least 0"),
        (THREE, {"unlabelled": 9, "recall": "all"}, "unlabelled must be None with"),
        (THREE, {"classes": ["a"]}, "labels must be among the classes .a.. Got 'b'"),
        (THREE, {"classes": ["a", "a", "b"]}, "classes must be all different"),
        (THREE, {"recall": ["c"]}, "recall must be among the classes"),
        (THREE, {"groups": [1, 2]}, "groups must be one for each of the 3 texts"),
        (THREE, {"texts": ["one", "two"]}, "texts must be one for each of the 3 labels. Got 2"),
        (
            THREE,
            {"texts": [b"one", b"two", b"three"]},
            "texts must have one str per text. Got bytes",
        ),
        (THREE, {"texts": [["one"], ["two"], ["three"]]}, "Join tokens"),
        (THREE, {"texts": [None] * 3}, "Got None .a missing value. in row 0"),
        (THREE, {"delta": 0}, "delta must be strictly between 0 and 1"),
        (THREE, {"random_state": -1}, "random_state must be"),
    ],
)
def test_what_cannot_be_certified_is_refused(given, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        certify_predictions(*given, **options)


def test_duplicates_do_not_make_a_bound_smaller():
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{w}" for w in rng.integers(0, 5000, 12)) for _ in range(80)]
    labels, answers = drawn(rng, 80)
    once = certify_predictions(named(labels), named(answers), texts=texts)
    changed = [text.replace(text.split()[3], "other", 1) for text in texts]
    both = named(labels) * 2, named(answers) * 2
    for given in (texts + changed, np.array(texts + changed)[:, None]):
        twice = certify_predictions(*both, texts=given, repeats="copies")
        assert (once.n, twice.n, twice.n_duplicates) == (80, 80, 80)
        assert twice.error_upper == once.error_upper
        assert "80 near-duplicates not counted" in str(twice)
    columns = certify_predictions(*both, texts=np.array([texts + changed, texts + changed]).T)
    assert columns.n == 160 and "Near-copies of rows were not looked for" in columns.summary()
    blind = certify_predictions(*both)
    assert blind.error_upper < once.error_upper and "duplicates were not searched" in str(blind)


def test_one_of_the_texts_that_repeat_each_other_is_counted_drawn_by_the_seed():
    """Wrong clusters of three texts, of which one in three is wrong: an error of 1/3, not of 1."""
    texts = [f"w{i} x{i} y{i} z{i} v{i} u{i} number{k}" for i in range(150) for k in range(3)]
    answers = ["no", "yes", "yes"] * 150
    given = {"texts": texts, "classes": ["no", "yes"], "repeats": "copies"}
    errors = [
        certify_predictions(["yes"] * 450, answers, **given, random_state=seed).n_errors
        for seed in range(20)
    ]
    assert abs(np.mean(errors) / 150 - 1 / 3) < 0.05 and len(set(errors)) > 5
    found = certify_predictions(["yes"] * 450, answers, **given, random_state=3)
    assert found.n == 150 and found.n_errors == errors[3] and "new distinct texts" in str(found)
    assert found.verify(answers, texts, ["yes"] * 450)


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
        of_groups += found.error_upper < 0.2
        of_texts += certify_predictions(["yes"] * 250, answers, **given).error_upper < 0.2
    assert read_certificate(found.to_json()) == found and found.verify()
    assert "certified</td>" in found._repr_html_()
    assert of_groups <= allowed()
    assert of_texts > allowed()  # the negative control: texts of a group are not independent


def test_the_mean_over_classes_is_over_those_that_occur_and_many_classes_take_no_time():
    labels, names = ["a", "b"] * 40, ["a", "b", "c"]
    certificate = certify_predictions(labels, labels, classes=names, recall="all")
    a, b, c = certificate.class_error_upper.values()
    assert c == 1 and certificate.balanced_error_upper == (a + b) / 2 < 0.12
    assert "c has no text here; the mean over classes with texts at most" in str(certificate)
    numbers = np.arange(20_000) % 10_000
    start = time.process_time()
    assert len(certify_predictions(numbers, numbers, recall="all").class_counts) == 10_000
    assert time.process_time() - start < 10  # a pass over the rows for each class took a minute


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
        bounds = [*found.class_error_upper.values(), *found.prediction_error_upper.values()]
        broken = np.array([*bounds, found.error_upper, found.balanced_error_upper])
        together += (broken < [*truth, (p * errors).sum(), errors.mean()]).any()
        counts = *found.class_counts.values(), *found.prediction_counts.values()
        each += any(binomial.upper_limit(k, n, DELTA) < t for (n, k), t in zip(counts, truth))
    assert together <= allowed()
    assert each > allowed()  # the negative control: delta for each of them


def test_the_bound_of_a_batch_is_exact_smaller_than_that_of_new_texts_and_holds():
    """By enumeration, and by draws from one batch; with 2 n texts for 4 n the bound is broken."""
    for k, n, size in [(0, 10, 30), (3, 20, 40), (20, 20, 25), (7, 50, 50)]:
        possible = [
            m for m in range(k, size - n + k + 1) if stats.hypergeom.cdf(k, size, m, n) > DELTA
        ]
        assert binomial.batch_limit(k, n, size, DELTA) == max(possible) / size
    rng = np.random.default_rng(11)
    batch = rng.permutation(400) < 80  # wrong for 80 of 400 texts
    broken = too_small = 0
    for _ in range(REPLICATES):
        wrong = rng.permutation(batch)[:100]
        answers = ["no" if w else "yes" for w in wrong]
        given = {"classes": ["no", "yes"], "delta": DELTA}
        found = certify_predictions(["yes"] * 100, answers, unlabelled=300, **given)
        of_new_texts = certify_predictions(["yes"] * 100, answers, **given)
        assert found.error <= found.error_upper < of_new_texts.error_upper
        broken += found.error_upper < 0.2
        too_small += binomial.batch_limit(int(wrong.sum()), 100, 120, DELTA) < 0.2
    assert broken <= allowed() < too_small
    assert found.verify() and "on this batch of 400 texts" in found.summary()
    assert certify_predictions([1] * 9, [1] * 9, unlabelled=np.int64(11), classes=[1, 2]).verify()
    with pytest.raises(ValueError, match=r"batch_size must be at most 1,000,000,000"):
        certify_predictions([1] * 9, [1] * 9, unlabelled=10**12)
    invented = dataclasses.replace(found, digests={}, calibration_size=0.5)
    unchecked = invented.verify(answers, list(range(100)), ["yes"] * 100).unchecked
    for name in ("corrections", "calibration_size", "batch_size", "these texts were certified"):
        assert name in unchecked


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "answers.csv"
    rows = zip(*map(named, drawn(np.random.default_rng(9), 120)))
    lines = [f"{label},{answer},a{i % 12}\n" for i, (label, answer) in enumerate(rows)]
    path.write_text("label,answer,author\n" + "".join(lines))
    return path


def run(*arguments):
    return invoke("certify", *arguments)


def test_a_table_is_certified_in_the_shell(table, tmp_path):
    out = tmp_path / "c.json"
    options = ["--prediction-column", "answer", "--per-class"]
    found = run(table, *options, "-o", out, "--json", "--quiet")
    assert found.exit_code == 0, found.output
    certificate = read_certificate(found.stdout)
    assert certificate.verify() and set(certificate.class_error_upper) == set(CLASSES)
    assert json.loads(out.read_text()) == json.loads(found.stdout)
    assert run(table, "--prediction-column", "answer", "-o", out).exit_code == 1  # it exists
    same = run(table, "--prediction-column", "label")
    assert same.exit_code == 2 and "--prediction-column, --judge-column must differ" in same.stderr
    batch = run(table, "--prediction-column", "answer", "--batch-size", 200)
    assert "on this batch of 200 texts" in batch.stdout
    groups = run(table, "--prediction-column", "answer", "--group-column", "author")
    assert "texts of new groups" in groups.stdout and "12 given groups" in groups.stdout
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(json.dumps({"label": i % 2, "prediction": 1}) for i in range(20)))
    assert "10 of 20 given texts were wrong" in run(lines).stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("label,prediction\n", [], "must have predictions. Got no row"),
        ("label,prediction\na,\n", [], "Line 2 of t.csv must have a prediction. Got none"),
        (
            "label,prediction\n,a\n",
            [],
            "must have labels in the column label. Got 1 row",
        ),
        (
            "label,answer\na,a\n",
            [],
            "in a column prediction.*with --prediction-column",
        ),
        ("label,prediction\na,b\n", [], "among the classes .a.. Got .b. in row 1 .*--labels A,B"),
        ("label,prediction\na,a\n", ["--text-column", "t"], "must include t.*--text-column"),
    ],
)
def test_mistakes_in_a_table_are_one_line(tmp_path, content, arguments, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    found = run(path, *arguments, "--quiet")
    assert found.exit_code == 1 and not found.stdout
    assert len(found.stderr.strip().splitlines()) == 1
    assert re.search(message, found.stderr)


def test_few_groups_are_no_guarantee_for_new_ones():
    wrong, groups = grouped(np.random.default_rng(6), 7)
    answers = ["no" if w else "yes" for w in wrong]
    found = certify_predictions(["yes"] * 70, answers, groups=groups, classes=["no", "yes"])
    assert found.scope == "same groups"
    assert "This is NOT a guarantee for new groups" in str(found).splitlines()[0]
    assert "of the same 7 groups" in found.summary()
    groups = np.arange(70) // 5
    many = certify_predictions(["yes"] * 70, answers, groups=groups, classes=["no", "yes"])
    assert "texts of new groups" in many.summary() and many.n == 14


def test_details_show_theorem_1_and_the_exact_bound_that_replaces_it():
    certificate = ErrorCertificate.from_parts(delta=0.05, n=146, n_errors=17)
    assert (
        "Theorem 1 of Nozawa and Sato: KL = 0 and n = 146: at its best lambda it gives 0.1916; the "
        "exact binomial bound, 0.1696, replaces it." in certificate.details()
    )
    assert "Theorem 1" not in str(certificate) + certificate.summary()


def test_theorem_1_has_the_part_of_delta_that_the_error_has():
    counts = {"class_counts": {"a": [100, 9], "b": [46, 8]}}
    parts = {"delta": 0.05, "n": 146, "n_errors": 17, **counts}
    certificate = ErrorCertificate.from_parts(**parts)
    half = kl_inverse(17 / 146, np.log(2 / 0.05) / 146)
    assert f"gives {rounded_up(float(half))}" in certificate.details()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda label: label.encode(), r"Got bytes .* \[y\.decode\(\) for y in predictions\]"),
        (lambda label: None, "predictions must all be known. Got 40 missing ones"),
        (lambda label: float("nan"), "predictions must all be known"),
        (float, r"must be of the type of the classes \(str: 1, 2\). Got 1.0 \(float\)"),
        (int, r"must be spelled as the classes. Got . \(int\) for '.' \(str\)"),
    ],
)
def test_predictions_of_another_type_than_the_classes_are_not_counted_as_errors(wrong, message):
    texts = [f"row {row} w{row * row}" for row in range(40)]
    labels = ["1", "2"] * 20

    def model(X):
        return [wrong(label) for label in labels[: len(X)]]

    with pytest.raises(ValueError, match=message):
        certify(model, texts, labels)


def test_labels_may_be_a_sparse_column():
    labels = np.array([1, 2] * 20)
    certificate = certify_predictions(csr_matrix(labels[:, None]), labels)
    assert certificate.n_errors == 0


def test_thresholds_of_no_class_are_refused():
    texts = [f"row {row} w{row * row} {'good' if row % 2 else 'bad'}" for row in range(100)]
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0)
    classifier.fit(texts, ["a", "b"] * 50)
    with pytest.raises(ValueError, match="classes must have at least one class"):
        classifier.tune_thresholds(precision=0.8, classes=[])
