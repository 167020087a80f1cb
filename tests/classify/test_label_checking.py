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
RIGHT = ["up", "down"] * 1000
SCORES = np.arange(2000)


def answer_rightly(row, text):
    return RIGHT[row]


# ---- The bound ----


@pytest.mark.parametrize("n_allowed", range(5))
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_bound_holds_in_all_samples_together(n_allowed, delta):
    """By enumeration; rows that are not wrong change nothing, so that wrong ones come first."""
    n_rows = 14
    size = 5
    failures = np.zeros(n_rows + 1)
    samples = list(combinations(range(n_rows), size))

    for sample in samples:
        for n_wrong in range(n_rows + 1):
            errors = [row for row in sample if row < n_wrong]
            end = errors[n_allowed] if len(errors) > n_allowed else n_wrong
            n_errors = sum(row < end for row in sample)
            limit = max_unread_errors(n_errors, size, n_rows, delta)
            failures[n_wrong] += end - n_errors > limit

    assert delta / 20 < failures.max() / len(samples) <= delta


def test_few_wrong_labels_remain_and_a_threshold_without_correction_is_noticed():
    rng = np.random.default_rng(0)
    n_draws = 150
    most_failures = stats.binom.ppf(0.999, n_draws, 0.05)
    chances = rng.beta(0.3, 2.0, (n_draws, 1500))  # 13% are wrong
    is_wrong = rng.random(chances.shape) < chances

    fractions_read = []
    rates_checked = []
    rates_by_threshold = []
    for draw, (wrong, chance) in enumerate(zip(is_wrong, chances)):
        fraction_read, rate = benchmark.checked(wrong, -chance, draw)
        fractions_read.append(fraction_read)
        rates_checked.append(rate)
        _, rate = benchmark.by_threshold(wrong, -chance, draw, size=100)
        rates_by_threshold.append(rate)

    assert np.greater(rates_checked, 0.05).sum() <= most_failures
    assert max(fractions_read) < 0.7
    assert np.greater(rates_by_threshold, 0.05).sum() > most_failures


IS_WRONG = np.arange(4000) % 10 == 0


@pytest.fixture(scope="module")
def results_by_scores():
    """Fractions of labels that are read and error rates that remain, of ten draws, by scores."""
    scores_by_name = {"best": ~IS_WRONG, "none": np.zeros(4000), "worst": IS_WRONG}
    return {
        name: np.array([benchmark.checked(IS_WRONG, scores.astype(float), k) for k in range(10)])
        for name, scores in scores_by_name.items()
    }


@pytest.mark.parametrize("name", ["best", "none", "worst"])
def test_any_scores_are_valid(results_by_scores, name):
    error_rates = results_by_scores[name][:, 1]

    assert (error_rates > 0.05).sum() <= 2


def test_better_scores_leave_less_to_read(results_by_scores):
    fractions = {name: results[:, 0].mean() for name, results in results_by_scores.items()}

    assert fractions["best"] < 0.25 < fractions["none"] < fractions["worst"]


def test_equal_scores_are_warned_of():
    with pytest.warns(UserWarning, match="All scores are equal"):
        benchmark.checked(IS_WRONG, np.zeros(4000), 0)


# ---- Rows that are read ----


class Checked:
    """Labels of a machine of which 150 are wrong, checked by somebody who knows the right ones."""

    def __init__(self):
        self.machine = ["down"] * 300 + RIGHT[300:]
        self.asked = []
        self.result = self.check(self.ask)

    def ask(self, row, text):
        assert text == TEXTS[row]
        self.asked.append(row)
        return RIGHT[row]

    def check(self, ask):
        return check_labels(TEXTS, self.machine, SCORES, ask=ask, random_state=3)


@pytest.fixture(scope="module")
def checked():
    return Checked()


def test_the_person_is_asked_once_for_each_row_that_is_read(checked):
    _, rows, certificate, sampled = checked.result

    assert rows == checked.asked
    assert len(set(rows)) == len(rows) == certificate.n_read < 1000
    assert set(sampled) < set(rows)
    assert len(sampled) == certificate.n


def test_unread_rows_keep_their_label(checked):
    labels, rows, certificate, _ = checked.result
    expected = list(checked.machine)
    for row in rows:
        expected[row] = RIGHT[row]

    n_corrected = sum(checked.machine[row] != RIGHT[row] for row in rows)
    assert labels == expected
    assert certificate.n_corrected == n_corrected


def test_the_same_seed_and_answers_give_the_same_result(checked):
    assert checked.check(answer_rightly) == checked.result


@pytest.mark.parametrize(("n", "error", "answer"), [(60, 0.05, "b"), (150, 0.01, "a")])
def test_small_tables_are_read_completely(n, error, answer):
    message = f"No sample of {n} rows certifies {error}: every row"
    with pytest.warns(UserWarning, match=message):
        result = check_labels(
            TEXTS[:n],
            ["a"] * n,
            range(n),
            ask=lambda row, text: answer,
            error=error,
            classes=["b"],
        )

    assert result.labels == [answer] * n
    assert result.certificate.error_upper == 0
    assert result.certificate.n_read == n


# ---- The certificate ----


@pytest.fixture(scope="module")
def certificate():
    """The certificate of 2,000 labels that are all right."""
    return check_labels(TEXTS, RIGHT, range(2000), ask=answer_rightly).certificate


def test_the_certificate_is_read_back(certificate):
    assert read_certificate(certificate.to_json()) == certificate
    assert certificate.verify()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_rows", 100_000, "machine_counts must be possible counts of 100,000 rows"),
        ("n_skipped", 1, "error_upper must be"),
        ("machine_error", [0.0, 0.01], "machine_error must be"),
        ("n_read", 20, "n_read must be from 100, the sampled rows"),
        ("n_corrected", 1500, "n_read must be from 100"),
    ],
)
def test_a_changed_certificate_is_refused(certificate, name, value, message):
    fields = {**vars(certificate), name: value}

    with pytest.raises(ValueError, match=message):
        type(certificate)(**fields).verify()


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
    arguments = {"texts": ["x", "y", "z"], "labels": ["a"] * 3, "scores": [1.0, 2.0, 3.0], **change}

    with pytest.raises(ValueError, match=message):
        check_labels(**arguments, ask=lambda row, text: "a")


# ---- The command ----


class CheckCommand:
    """`pacsent check` of a table of which the first 100 labels of the machine may be wrong."""

    def __init__(self, folder):
        self.table = folder / "m.csv"
        self.folder = folder / "m-checked"
        labels = ["down"] * 100 + ["up"] * 1900
        rows = [f"{text},{label},{row}" for row, (text, label) in enumerate(zip(TEXTS, labels))]
        self.table.write_text("\n".join(["text,label,trust", *rows]))

    def run(self, answers, *options, status=None):
        """Answer questions in the terminal until the answers end, as by Ctrl-C."""
        how = ("--score-column", "trust", "--random-state", 1, "--terminal")
        return invoke("check", self.table, *how, *options, input=answers, status=status)


@pytest.fixture
def command(tmp_path):
    return CheckCommand(tmp_path)


@pytest.fixture(scope="module")
def finished_command(tmp_path_factory):
    """A command that was interrupted four times and then completed, with the output of each run."""
    command = CheckCommand(tmp_path_factory.mktemp("check"))
    command.outputs = {
        "first rows": command.run("up\n" * 30),
        "second annotator": command.run("down\nup\n", "--annotator", "ben"),
        "rest of the sample": command.run("up\n" * 70),
        "no answer": command.run(""),
        "last rows": command.run("up\n" * 94),
    }
    return command


def test_an_interrupted_command_says_how_many_rows_remain(finished_command):
    assert "70 rows still to be read" in finished_command.outputs["first rows"].stdout


def test_a_second_annotator_is_told_of_disagreement(finished_command):
    output = finished_command.outputs["second annotator"].stdout

    assert "disagree, {'person': 'up', 'ben': 'down'}" in output


def test_the_label_of_the_machine_is_shown_after_the_sample(finished_command):
    assert "[down]" in finished_command.outputs["rest of the sample"].stderr


def test_the_bound_so_far_is_shown_after_the_sample(finished_command):
    assert "at most 8." in finished_command.outputs["no answer"].stdout


def test_a_resumed_command_ends_with_all_that_was_read(finished_command):
    path = finished_command.folder / "certificate.json"

    certificate = read_certificate(path.read_text())

    sentence = "of the 2,000 labels are wrong. A person read 194 rows"
    assert sentence in finished_command.outputs["last rows"].stdout
    assert certificate.n_read == 194


def test_the_table_has_who_gave_each_label(finished_command):
    rows = (finished_command.folder / "labels.csv").read_text().splitlines()

    assert rows[0] == "text,label,trust,final_label,labelled_by,sampled,annotators"
    assert rows[1] == "text 0,down,0,up,person,no,person"
    assert rows[-1] == "text 1999,up,1999,up,machine,no,"
    assert sum(",yes," in row for row in rows) == 100


def test_an_input_is_not_overwritten(finished_command):
    folder = finished_command.folder

    done = invoke("check", folder / "labels.csv", "-o", folder, "--terminal", status=1)

    assert "labels.csv, which is an input" in done.stderr


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("text", "a number in text. Got 'text 0'."),
        ("no", "must be one of text, label, trust. Got no"),
    ],
)
def test_a_column_that_has_no_scores_is_named(command, column, message):
    assert message in command.run("", "--score-column", column).stderr


def test_a_list_of_classes_that_omits_a_label_of_the_machine_is_rejected(command):
    done = command.run("", "--labels", "down,sideways", status=1)

    message = "--labels must name all classes. It omits 'up', which label has in row 101."
    assert message in " ".join(done.stderr.split())
    assert not command.folder.exists()


def test_the_labels_of_lines_are_not_shown_with_the_random_sample(tmp_path):
    rng = np.random.default_rng(0)
    words = [first + second + "k" for first in "bcdfghlmn" for second in "aeiou"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(200)]
    lines = [f"{label}\t{text}\n" for label, text in zip(RIGHT, texts)]
    (tmp_path / "lines.txt").write_text("".join(lines))

    done = invoke("check", tmp_path / "lines.txt", "--terminal", "--random-state", 1)

    shown = set(done.stderr.splitlines())
    written = (tmp_path / "lines-checked" / "labels.csv").read_text().splitlines()
    assert shown & set(texts)
    assert written[0] == "text,label,final_label,labelled_by,sampled"
    assert written[1] == f"{texts[0]},up,up,machine,no"


# ---- The session ----


def test_nothing_is_written_without_scores(tmp_path):
    with pytest.raises(ValueError, match="two classes"):
        LabelCheck(TEXTS, ["up"] * 2000, tmp_path, None, ["down"], error=0.1, delta=0.1)

    assert not list(tmp_path.iterdir())


def test_answers_are_read_under_the_lock(tmp_path):
    class Guarded(dict):
        """A dictionary whose every use asserts that another thread cannot take the lock."""

        def __getattribute__(self, name):
            with ThreadPoolExecutor(1) as pool:
                is_free = pool.submit(session._lock.acquire, blocking=False).result()
            assert not is_free
            return super().__getattribute__(name)

    with LabelCheck(TEXTS, RIGHT, tmp_path, SCORES.tolist(), (), error=0.1, delta=0.1) as session:
        session._answers.by_row = Guarded({3: {"ann": "up", "ben": "down"}})
        status = session.status()
        results = session.results()

    assert status["disagreements"] == {3: {"ann": "up", "ben": "down"}}
    assert results["labelled_by"][2:4] == ["machine", "person"]
    assert results["annotators"][2:4] == [None, "ann, ben"]
