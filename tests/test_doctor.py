"""Terminal manners: what can be done, what is slow here, man page and completions."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pacsent.cli import cli
from pacsent.cli.command_line import FAMILIES
from pacsent.paper.doctor import _advice, examine

EXAMPLES = dict(FAMILIES.values())

ROOT = Path(__file__).parents[1]


def run(*arguments, **environment):
    return CliRunner(env=environment).invoke(cli, list(map(str, arguments)))


def test_standing_alone_it_shows_what_can_be_done_with_an_example_each():
    done = run()
    assert set(EXAMPLES) == set(cli.families())
    for title, example in EXAMPLES.items():
        assert f"{title}:" in done.output
        assert example.split(" && ")[0][:40] in done.output


@pytest.mark.parametrize("example", EXAMPLES.values())
def test_every_example_is_a_command_with_options_that_exist(example):
    for part in example.replace("|", "&&").split("&&"):
        words = shlex.split(part)
        if words[0] != "pacsent":
            continue
        command, rest = cli.commands[words[1]], words[2:]
        if isinstance(command, click.Group):
            command, rest = command.commands[rest[0]], rest[1:]
        known = {name for option in command.params for name in option.opts}
        assert {word for word in rest if word.startswith("-") and word != "-"} <= known


def test_help_fits_a_narrow_terminal():
    environment = {**os.environ, "COLUMNS": "60"}
    command = [sys.executable, "-m", "pacsent"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert max(map(len, (done.stdout + done.stderr).splitlines())) <= 60


def test_doctor_tells_what_there_is_and_what_is_slow():
    done = run("doctor", "--quick", COLUMNS="80")
    assert done.exit_code == 0
    for word in ("processor", "vectors", "bits", "threads", "memory", "GPU", "cache", "versions",
                 "What is slow or missing here"):  # fmt: skip
        assert word in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    assert "\x1b[" not in done.output


def test_doctor_speaks_json():
    found = json.loads(run("doctor", "--json").output)
    assert found["processor"]["cores"] == os.cpu_count()
    assert found["measured"]["texts_per_second"] > 100


def test_advice_names_the_cause_and_what_to_do():
    found = examine(measure=False)
    found["processor"].update(cores=8, vector_bits=128)
    found["threads"].update(used=2, environment={"OMP_NUM_THREADS": "1"})
    found["cache"].update(writable=False, folder="/nowhere")
    found["extras"]["parquet"] = False
    said = "\n".join(_advice(found))
    for part in ("2 of 8 cores", "OMP_NUM_THREADS=1", "128 bits", "NUMBA_CACHE_DIR",
                 "pacsent[parquet]"):  # fmt: skip
        assert part in said
    found["processor"]["vector_bits"] = 512
    assert "bits wide" not in "\n".join(_advice(found))


@pytest.mark.slow
def test_search_similar_and_duplicates_speak_json(tmp_path):
    (tmp_path / "texts").write_text("a glass of wine\nthe cat slept\na glass of wine\n")
    made = run("index", "english", tmp_path / "texts", "-o", tmp_path / "index", "--json")
    assert json.loads(made.stdout)["texts"] == 3
    hits = json.loads(run("search", tmp_path / "index", "kitten", "-k", "1", "--json").stdout)
    assert hits["results"][0][0]["text"] == "the cat slept"
    same = run("similar", "english", tmp_path / "texts", tmp_path / "texts", "--json")
    cosines = json.loads(same.stdout)["cosines"]
    assert cosines == pytest.approx([1, 1, 1], abs=1e-5) and max(cosines) <= 1
    pairs = json.loads(run("duplicates", "english", tmp_path / "texts", "--json").stdout)["pairs"]
    assert [[hit["id"] for hit in pair] for pair in pairs] == [[0, 2]]


def test_the_man_page_and_completions_are_those_of_the_commands():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_man.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (ROOT / "share/man/man1/pacsent.1").read_text()
    assert all(f'.SS "{name.replace("-", chr(92) + "-")}"' in page for name in cli.commands)
    assert "shared-data" in (ROOT / "pyproject.toml").read_text()
