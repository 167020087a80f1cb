"""How the command line behaves: streams that are closed, mistakes, bugs, families, options."""

import json
import os
import subprocess
import sys
import warnings
from importlib import import_module

import click
import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import WordVectors, make, save
from pacsent.cli import cli
from pacsent.cli.command_line import FAMILIES


def pacsent(*arguments, shell="", **how):
    """The program itself, by a shell: `shell` is what follows the arguments there."""
    line = " ".join([sys.executable, "-m", "pacsent", *map(str, arguments), shell])
    return subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120, **how)


@pytest.fixture
def model(tmp_path, toy_word_vectors, tiny_corpus):
    vectorizer = make("PB-L2", toy_word_vectors, on_empty="ignore").fit(tiny_corpus)
    save(vectorizer, tmp_path / "model")
    (tmp_path / "text").write_text("\n".join(tiny_corpus * 200) + "\n")
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&- 2>&-", "| head -1"])
def test_closed_streams_end_quietly(model, closed):
    done = pacsent("embed", model, "--quiet", shell=f"< {model.parent / 'text'} {closed}")
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="there is no bash here")
def test_a_reader_that_has_enough_is_no_mistake(model):
    # `set -o pipefail` of careful scripts ends them where a program ends with another status
    text = model.parent / "text"
    line = (
        f"set -o pipefail; {sys.executable} -m pacsent similar {model} {text} {text} --quiet "
        "| head -1"
    )
    done = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("\n") == 1
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stdin_is_an_empty_text(model):
    done = pacsent("embed", model, shell="<&-")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: standard input must hold text. Got an empty file instead. Check how it was made.\n"
    )


@pytest.mark.slow
def test_a_closed_stderr_leaves_the_output_as_it_is(model):
    text = model.parent / "text"
    with_it, without = (pacsent("embed", model, text, shell=s) for s in ("", "2>&-"))
    assert without.stdout == with_it.stdout


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_an_error(model):
    done = pacsent("embed", model, model.parent / "text", "--quiet", shell="> /dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


@pytest.mark.slow
def test_a_bug_is_not_told_as_a_mistake(monkeypatch, model):
    from pacsent.encoders.sentence_vectorizer import SentenceVectorizer

    def broken(self):
        raise TypeError("unsupported operand")

    monkeypatch.setattr(SentenceVectorizer, "prepared", broken)
    done = CliRunner().invoke(cli, ["embed", str(model), str(model.parent / "text")])
    assert isinstance(done.exception, TypeError)
    code = (
        "import sys; from pacsent.encoders.sentence_vectorizer import SentenceVectorizer as S; "
        "S.prepared = None; "
        "from pacsent.cli import main; sys.argv[0] = 'pacsent'; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "embed", str(model), str(model.parent / "text")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["fit", "PB-L2", "{words}", "{text}", "-o", "x", "--lam", "-1"], "'lam' parameter", 2),
        (["fit", "PB-L2", "{words}", "{text}", "-o", "x", "--alpha", "1"], "alpha must be", 2),
        (["embed", "{model}", "{text}", "--n-jobs", "0"], "0 is no number of threads", 2),
        (["train", "{text}", "-o", "x", "--device", "tpu"], "'tpu' is not cpu, cuda", 2),
        (["train", "{text}", "-o", "x", "--min-count", "99999"], "Lower min_count", 1),
        (["train", "{text}", "-o", "x", "--n-dims", "0"], "'n_dims' parameter of SkipGram", 2),
        (["train", "{text}", "-o", "x", "--n-dims", "many"], "'many' is not a valid int", 2),
        (["evaluate", "PB-L2", "{words}", "subj", "--seeds", "0"], "--seeds", 2),
        (["reproduce", "--words", "{words}", "-o", "x", "--seeds", "0"], "--seeds", 2),
    ],
)
def test_mistakes_are_one_line(
    model, toy_word_vectors, tmp_path, monkeypatch, arguments, message, status
):
    monkeypatch.chdir(tmp_path)
    save(toy_word_vectors, tmp_path / "words")
    places = {"words": tmp_path / "words", "model": model, "text": tmp_path / "text"}
    done = CliRunner().invoke(cli, [argument.format(**places) for argument in arguments])
    assert done.exit_code == status, done.output
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")


def test_every_command_that_can_take_long_has_quiet():
    # one sum; lines as they come; one query; a table written once, or sent; one text; and a server
    short = {"bound", "search", "export", "push", "classify explain", "serve"}
    inner = cli.commands["classify"].commands
    commands = {**cli.commands, **{f"classify {name}": inner[name] for name in inner}}
    del commands["classify"]  # a family of its own
    for name, command in commands.items():
        flags = {flag for option in command.params for flag in option.opts}
        assert "--quiet" in flags or name in short, name


def test_threads_and_devices_have_one_option_everywhere():
    jobs, devices = set(), set()
    for name, command in cli.commands.items():
        for option in command.params:
            assert option.name not in ("threads", "n_threads")
            if option.name == "n_jobs":
                jobs.add(name)
                assert option.type is click.INT  # -1 and -2 as in scikit-learn
            if option.name == "device":
                devices.add(name)
    assert {"clean", "train", "fit", "embed", "certify", "evaluate", "reproduce"} <= jobs
    assert devices == {"train", "distill"}


def test_help_has_the_families_in_the_order_of_the_flow():
    shown = CliRunner().invoke(cli, ["--help"]).output
    places = [shown.index(f"\n{title}:") for title in cli.families()]
    assert places == sorted(places)
    assert shown.index("  clean ") < shown.index("  fit ") < shown.index("  bound ")


def test_every_command_is_in_the_family_of_its_module():
    for module, family in FAMILIES.items():
        import_module(f"pacsent.cli.{module}")
        added = {
            name: command
            for name, command in cli._commands.items()
            if command.callback.__module__ == f"pacsent.cli.{module}"
        }
        assert set(added) == set(family.commands)
        assert not any(command.hidden for command in added.values())
    assert set(cli._commands) == set(cli.commands)


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["--help"], set(FAMILIES)),
        (["--version"], set()),
        (["embed", "--help"], {"embed_commands"}),
        (["classify", "report", "--help"], {"classify_commands"}),
    ],
)
def test_help_imports_no_library_and_only_the_module_of_its_command(arguments, files):
    code = (
        "import sys; from pacsent.cli import cli\n"
        f"cli.main({arguments}, standalone_mode=False)\n"
        "print('', *sys.modules, sep='\\n')\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(found.stdout.split())
    assert not modules & {"numpy", "scipy", "sklearn", "numba", "rich", "pyarrow"}
    assert {file for file in FAMILIES if f"pacsent.cli.{file}" in modules} == files


@pytest.mark.parametrize("group", [[], ["classify"]])
def test_summaries_fit_eighty_columns_whole(group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(cli, [*group, "--help"], terminal_width=80).output
    assert "..." not in shown.partition("\n\n")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_the_shell_completes_options():
    environment = {**os.environ, "_PACSENT_COMPLETE": "bash_complete"}
    environment |= {"COMP_WORDS": "pacsent embed --keep", "COMP_CWORD": "2"}
    code = "import sys; sys.argv[0] = 'pacsent'; from pacsent.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "--keep-columns" in done.stdout


def test_certify_passes_warnings_on_and_says_that_it_fits_again(tmp_path, rng, monkeypatch):
    from pacsent import Vocabulary

    words = [f"w{chr(97 + i)}" for i in range(20)]
    tables = rng.normal(size=(2, 20, 3)).astype(np.float32)
    vectors = WordVectors(Vocabulary(words, range(100, 80, -1), normalise="unicode"), *tables)
    texts = [" ".join(rng.choice(words, 12)) for _ in range(40)]
    vectorizer = make("PB-IDF-L2", vectors).fit(texts[:20])
    save(vectorizer, tmp_path / "model")
    (tmp_path / "text").write_text("\n".join(texts[20:]) + "\n")
    original = type(vectorizer).fit

    def fit(self, X, y=None):
        warnings.warn("the solver gave up on 3 sentences", UserWarning, stacklevel=2)
        return original(self, X, y)

    monkeypatch.setattr(type(vectorizer), "fit", fit)
    done = CliRunner().invoke(cli, ["certify", str(tmp_path / "model"), str(tmp_path / "text")])
    assert done.exit_code == 0, done.output
    assert "Warning: the solver gave up on 3 sentences" in done.stderr
    assert "PB-IDF-L2 is fitted again on a part of" in done.stderr


def test_work_that_says_nothing_is_still_told_about(monkeypatch, capsys):
    import time

    from pacsent import progress

    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.5)
    with progress.bar("solving", total=3, unit="settings"):
        time.sleep(1.6)
    told = capsys.readouterr().err.splitlines()
    assert told
    assert told[0].startswith("solving: 0 settings, 0 %, ")
    assert "nan" not in told[0]


@pytest.mark.slow
def test_a_warning_advises_only_what_can_be_typed(tmp_path, toy_word_vectors):
    save(toy_word_vectors, tmp_path / "words")
    (tmp_path / "text").write_text("zzzz\nqqqq\n")
    done = pacsent("similar", tmp_path / "words", *[tmp_path / "text"] * 2, "--method", "Average")
    assert done.returncode == 0
    assert "2 of 2 sentences hold no known word" in done.stderr
    assert "Drop them." in done.stderr
    assert "on_empty" not in done.stderr


def test_verify_names_the_file_that_is_no_certificate(tmp_path):
    (tmp_path / "c.json").write_text("[]")
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "c.json")])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {tmp_path / 'c.json'} must be a certificate")


def test_a_model_on_the_hub_without_the_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    done = CliRunner().invoke(cli, ["embed", "hf://owner/name"])
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: hf:// needs huggingface_hub, which is not installed. Run: pip install "
        "'pacsent[hub]' (in a checkout: pip install '.[hub]')\n"
    )


def test_every_message_about_an_extra_names_the_checkout_too():
    from pathlib import Path

    import pacsent

    sources = Path(pacsent.__file__).parent.rglob("*.py")
    own = [p.name for p in sources if "pip install 'pacsent" in p.read_text("utf-8")]
    assert own == ["optional.py"]


def test_every_command_that_takes_texts_reads_tables():
    """A new command is put here, or has the options of texts, and hostile/command_lines runs it."""
    from hostile.command_lines import taking_texts

    inner = cli.commands["classify"].commands
    commands = {*cli.commands, *(f"classify {name}" for name in inner)} - {"classify"}
    without = {"clean", "words", "convert", "search", "export", "push", "bound", "simulate",
               "classify explain", "serve", "reproduce", "demo"}  # fmt: skip
    assert commands - without == {name for name, _ in taking_texts()}


@pytest.mark.parametrize("content", ["café".encode("latin-1"), "{}".encode("utf-16")])
def test_verify_names_a_file_of_another_encoding(tmp_path, content):
    (tmp_path / "c.json").write_bytes(content)
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "c.json")])
    assert done.exit_code == 1
    assert f"{tmp_path / 'c.json'} must be a certificate: JSON in UTF-8" in done.stderr


def test_hits_are_one_line_each_and_a_huge_number_of_them_is_fine(tmp_path, toy_word_vectors):
    save(toy_word_vectors, tmp_path / "words")
    rows = ["good\nfilm", "quiet\ta\\b film", "film"]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    arguments = ["--method", "Average", "--quiet"]
    made = ["index", str(tmp_path / "words"), str(tmp_path / "t.jsonl"), "-o", str(tmp_path / "i")]
    assert CliRunner().invoke(cli, [*made, *arguments]).exit_code == 0
    done = CliRunner().invoke(cli, ["search", str(tmp_path / "i"), "film", "-k", "2147483648"])
    assert done.exit_code == 0
    lines = sorted(line.split("\t")[2] for line in done.stdout.splitlines())
    assert lines == ["film", "good\\nfilm", "quiet\\ta\\\\b film"]


def test_no_bound_is_printed_to_nearest():
    """0.25004 printed as 0.2500 is no bound any more: `rounded_up` writes it."""
    import re
    from pathlib import Path

    import pacsent

    wrong = re.compile(r"\{[^{}]*(bound|promised|guarantee)[^{}]*:\.\d[fg%]\}")
    root = Path(pacsent.__file__).parent
    found = [
        f"{p.name}: {m[0]}" for p in root.rglob("*.py") for m in [wrong.search(p.read_text())] if m
    ]
    assert not found
