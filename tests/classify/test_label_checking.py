"""Labels of a machine, checked by a person: few wrong ones remain, whatever the order of trust."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import label_checking as benchmark
from helpers import invoke
from pacsent.certify import read_certificate
from pacsent.classify import check_labels
from pacsent.classify.label_checking import max_unread_errors
from pacsent.web.labelling import LabelCheck

TEXTS = [f"text {n}" for n in range(2000)]
RIGHT, ORDER = ["up", "down"] * 1000, np.arange(2000)


@pytest.mark.parametrize("n_allowed", range(5))
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_bound_holds_in_all_samples_together(n_allowed, delta):
    """By enumeration; rows that are not wrong change nothing, so that wrong ones come first."""
    n_rows, size = 14, 5
    failures = np.zeros(n_rows + 1)
    samples = list(combinations(range(n_rows), size))
    for sample in samples:
        for n_wrong in range(n_rows + 1):
            errors = [row for row in sample if row < n_wrong]
            end = errors[n_allowed] if len(errors) > n_allowed else n_wrong
            n_errors = sum(row < end for row in sample)
            failures[n_wrong] += end - n_errors > max_unread_errors(n_errors, size, n_rows, delta)
    assert delta / 20 < failures.max() / len(samples) <= delta


def test_few_wrong_labels_remain_and_a_threshold_without_correction_is_noticed():
    rng, n, limit = np.random.default_rng(0), 150, stats.binom.ppf(0.999, 150, 0.05)
    chance = rng.beta(0.3, 2.0, (n, 1500))  # 13% are wrong
    wrong = rng.random(chance.shape) < chance
    checked = [benchmark.checked(wrong[i], -chance[i], i) for i in range(n)]
    assert sum(rate > 0.05 for _, rate in checked) <= limit
    assert max(share for share, _ in checked) < 0.7
    plain = [benchmark.by_threshold(wrong[i], -chance[i], i, size=100)[1] for i in range(n)]
    assert sum(rate > 0.05 for rate in plain) > limit


def test_any_scores_are_valid_and_better_ones_leave_less_to_read():
    wrong, shares = np.arange(4000) % 10 == 0, {}
    for name, scores in {"best": ~wrong, "none": np.zeros(4000), "worst": wrong}.items():
        results = [benchmark.checked(wrong, scores.astype(float), seed) for seed in range(10)]
        shares[name] = np.mean([share for share, _ in results])
        assert sum(rate > 0.05 for _, rate in results) <= 2
    with pytest.warns(UserWarning, match="All scores are equal"):
        benchmark.checked(wrong, np.zeros(4000), 0)
    assert shares["best"] < 0.25 < shares["none"] < shares["worst"]


def test_the_person_is_asked_once_for_each_row_and_unread_rows_keep_their_label():
    machine, asked = ["down"] * 300 + RIGHT[300:], []

    def ask(row, text):
        assert text == TEXTS[row]
        asked.append(row)
        return RIGHT[row]

    made = check_labels(TEXTS, machine, ORDER, ask=ask, random_state=3)
    final, rows, certificate, sampled = made
    assert set(sampled) < set(rows) and len(sampled) == certificate.n
    assert rows == asked and len(set(asked)) == len(asked) == certificate.n_read < 1000
    assert all(final[row] == (RIGHT if row in asked else machine)[row] for row in range(2000))
    assert certificate.n_corrected == sum(machine[row] != RIGHT[row] for row in asked)
    assert made == check_labels(TEXTS, machine, ORDER, ask=ask, random_state=3)
    for n, error, answer in ((60, 0.05, "b"), (150, 0.01, "a")):  # small tables are read completely
        with pytest.warns(UserWarning, match=f"No sample of {n} rows certifies {error}: every row"):
            how = {"ask": lambda *_, label=answer: label, "error": error, "classes": ["b"]}
            small = check_labels(TEXTS[:n], ["a"] * n, range(n), **how)
        assert small.labels == [answer] * n
        assert small.certificate.error_upper == 0 and small.certificate.n_read == n


def test_the_certificate_is_read_back_and_what_was_changed_is_refused():
    certificate = check_labels(TEXTS, RIGHT, range(2000), ask=lambda row, _: RIGHT[row])[2]
    assert read_certificate(certificate.to_json()) == certificate and certificate.verify()
    for name, value, message in (
        ("n_rows", 100_000, "machine_counts must be possible counts of 100,000 rows"),
        ("n_skipped", 1, "error_upper must be"),
        ("machine_error", [0.0, 0.01], "machine_error must be"),
        ("n_read", 20, "n_read must be from 100, the sampled rows"),
        ("n_corrected", 1500, "n_read must be from 100"),
    ):
        with pytest.raises(ValueError, match=message):
            type(certificate)(**{**vars(certificate), name: value}).verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a"]}, "labels must be one for each of the 3 texts. Got 1"),
        ({"scores": [1.0]}, "scores must be one for each of the 3 texts. Got 1"),
        ({"scores": [1.0, np.inf, 2.0]}, "scores must be finite. Got inf in row 1 instead"),
        ({"error": 0}, "error must be strictly between 0 and 1. Got 0"),
        ({"scores": None}, "two classes"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"texts": ["x", "y", "z"], "labels": ["a"] * 3, "scores": [1.0, 2.0, 3.0], **change}
    with pytest.raises(ValueError, match=message):
        check_labels(**given, ask=lambda *_: "a")


def test_the_command_asks_resumes_and_writes_who_gave_each_label(tmp_path):
    table, folder = tmp_path / "m.csv", tmp_path / "m-checked"
    rows = (f"{text},{'down' if i < 100 else 'up'},{i}" for i, text in enumerate(TEXTS))
    table.write_text("\n".join(["text,label,trust", *rows]))

    def run(answers, *more):
        command = f"check {table} --score-column trust --random-state 1 --terminal {' '.join(more)}"
        return invoke(*command.split(), input=answers)

    assert "70 rows still to be read" in run("up\n" * 30).stdout  # the input ends, as by Ctrl-C
    second = run("down\nup\n", "--annotator ben").stdout
    assert "disagree, {'person': 'up', 'ben': 'down'}" in second
    assert "[down]" in run("up\n" * 70).stderr and "at most 8." in run("").stdout  # so far
    assert "of the 2,000 labels are wrong. A person read 194 rows" in run("up\n" * 94).stdout
    rows = (folder / "labels.csv").read_text().splitlines()
    assert rows[0] == "text,label,trust,final_label,labelled_by,sampled,annotators"
    assert rows[1] == "text 0,down,0,up,person,no,person"
    assert rows[-1] == "text 1999,up,1999,up,machine,no,"
    assert sum(",yes," in row for row in rows) == 100
    assert read_certificate((folder / "certificate.json").read_text()).n_read == 194
    assert "a number in text. Got 'text 0'." in run("", "--score-column text").stderr
    assert "must be one of text, label, trust. Got no" in run("", "--score-column no").stderr
    again = invoke("check", folder / "labels.csv", "-o", folder, "--terminal", status=1)
    assert "labels.csv, which is an input" in again.stderr


def test_the_labels_of_lines_are_not_shown_with_the_random_sample(tmp_path):
    rng, words = np.random.default_rng(0), [a + b + "k" for a in "bcdfghlmn" for b in "aeiou"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(200)]
    lines = [f"{label}\t{text}\n" for label, text in zip(RIGHT, texts)]
    (tmp_path / "lines.txt").write_text("".join(lines))
    shown = invoke("check", tmp_path / "lines.txt", "--terminal", "--random-state", 1).stderr
    assert any(text in shown.splitlines() for text in texts)
    written = (tmp_path / "lines-checked" / "labels.csv").read_text().splitlines()
    assert written[:2] == [
        "text,label,final_label,labelled_by,sampled",
        f"{texts[0]},up,up,machine,no",
    ]


def test_nothing_is_written_without_scores_and_answers_are_read_under_the_lock(tmp_path):
    class Guarded(dict):
        def __getattribute__(self, name):
            with ThreadPoolExecutor(1) as pool:
                assert not pool.submit(session._lock.acquire, blocking=False).result()
            return super().__getattribute__(name)

    with pytest.raises(ValueError, match="two classes"):
        LabelCheck(TEXTS, ["up"] * 2000, tmp_path, None, ["down"], error=0.1, delta=0.1)
    assert not list(tmp_path.iterdir())
    with LabelCheck(TEXTS, RIGHT, tmp_path, ORDER.tolist(), (), error=0.1, delta=0.1) as session:
        session._answers.by_row = Guarded({3: {"ann": "up", "ben": "down"}})
        assert session.status()["disagreements"] == {3: {"ann": "up", "ben": "down"}}
        results = session.results()
        assert results["labelled_by"][2:4] == ["machine", "person"]
        assert results["annotators"][2:4] == [None, "ann, ben"]
