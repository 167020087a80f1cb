"""Without pyarrow all works but Parquet and zstd, which name the extra."""

import pytest

from helpers import run_python

BLOCKED = """
import sys

sys.modules["pyarrow"] = None

from click.testing import CliRunner
from pacsent.cli import cli


def run(*arguments):
    return CliRunner().invoke(cli, [str(word) for word in arguments])
"""


def run_without_pyarrow(code, folder):
    return run_python(BLOCKED + code, cwd=folder)


@pytest.fixture
def table(tmp_path):
    """A labelled CSV file, a second one, and texts as lines."""
    words = [
        f"{mood} film about subject{i} and place{i}" for i in range(60) for mood in ("good", "bad")
    ]
    lines = [f"{text},{('up', 'down')[i % 2]}" for i, text in enumerate(words)]
    (tmp_path / "labelled.csv").write_text("\n".join(["text,label", *lines[:80]]))
    (tmp_path / "new.csv").write_text("\n".join(["text,label", *lines[80:]]))
    (tmp_path / "new.txt").write_text("\n".join(words[80:]))
    return tmp_path


def test_a_classifier_is_trained_predicts_and_is_certified(table):
    printed = run_without_pyarrow(
        """
for line in (
    "train labelled.csv -o model --encoder none --random-state 0",
    "predict model new.csv -o answers.csv",
    "predict model new.txt -o answers.jsonl",
    "predict model new.txt",
    "certify model new.csv",
    "certify answers.csv",
    "embed new.txt -o vectors.npy",
):
    done = run(*line.split())
    assert done.exit_code == 0, (line, done.output)
print(*sorted(name for name in sys.modules if name.startswith("pyarrow")))
""",
        table,
    )
    assert printed.strip() == "pyarrow"  # the blocked one
    answers = (table / "answers.csv").read_text().splitlines()
    assert len(answers) == 41
    assert answers[0] == "text,label,prediction,probability,set,abstained,reason"


def test_parquet_and_zstd_name_the_extra_in_one_line(table):
    (table / "new.parquet").write_bytes(b"PAR1")
    (table / "new.txt.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    printed = run_without_pyarrow(
        """
for line in (
    "dedupe new.parquet",
    "train new.parquet -o model",
    "dedupe new.txt.zst",
    "embed new.txt -o vectors.parquet",
    "embed new.txt labelled.csv -o vectors/",
):
    done = run(*line.split())
    assert done.exit_code
    print(done.stderr.strip())
""",
        table,
    )
    lines = printed.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert "pyarrow, which is not installed. Run: pip install 'pacsent[parquet]'" in line
    assert lines[0].startswith("Error: new.parquet needs pyarrow")
    assert not (table / "vectors").exists() and not (table / "model").exists()
