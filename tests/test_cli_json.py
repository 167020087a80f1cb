"""`--json` everywhere: each command's stdout is then one JSON document, or JSON lines; and tables
fit the terminal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import CertifiedClassifier, TextClassifier, make, save
from pacsent.cli import cli
from pacsent.cli.printing import echo_json, table

STREAMED = {"embed", "classify predict"}  # JSON lines where the results go to stdout


def commands(group=cli, before=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


@pytest.mark.parametrize("name", dict(commands()))
def test_every_command_has_json_and_says_what_it_prints(name):
    [flag] = [p for p in dict(commands())[name].params if "--json" in p.opts]
    assert flag.is_flag and "JSON object" in flag.help
    assert ("for each text" in flag.help) == (name in STREAMED)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Word vectors, a method, a classifier and texts, in a folder."""
    folder = tmp_path_factory.mktemp("json")
    rng = np.random.default_rng(0)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(40)]
    texts = [" ".join(rng.choice(words[:30] if n % 2 else words[10:], 12)) for n in range(80)]
    labels = ["odd" if n % 2 else "even" for n in range(80)]
    (folder / "t.txt").write_text("\n".join(texts) + "\n")
    rows = (f"{text[:20]},{n}\n" for n, text in enumerate(texts))
    (folder / "q.csv").write_text("text,answer\n" + "".join(rows))
    (folder / "l.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(labels, texts)))
    (folder / "fresh.tsv").write_text("odd\tw1 wac w3 w4\neven\tw38 w39 w37\n" * 30)
    from pacsent import Vocabulary, WordVectors

    tables = rng.standard_normal((2, 40, 4), dtype=np.float32)
    vectors = WordVectors(Vocabulary(words, range(100, 60, -1)), *tables)
    save(vectors, folder / "words")
    save(make("PB-L2", vectors).fit(texts), folder / "model")
    classifier = CertifiedClassifier(TextClassifier(n_jobs=1), holdout=0.5, random_state=0).fit(
        texts, labels
    )
    save(classifier, folder / "classifier")
    return folder


RUNS = {
    "clean": "clean t.txt -o clean.txt --quiet",
    "train": "train t.txt -o new --n-dims 3 --n-epochs 1 --min-count 1 --random-state 0 --quiet",
    "words": "words words wab -n 2",
    "convert": "convert words out.txt --quiet",
    "fit": "fit PB-L2 words t.txt -o fitted --quiet",
    "embed": "embed model t.txt -o vectors.npy --quiet",
    "index": "index model t.txt -o index --quiet",
    "search": "search index wab -k 2",
    "certify-search": "certify-search index q.csv -k 2 --quiet",
    "rerank": "rerank model wab t.txt -n 2 --quiet",
    "clusters": "clusters model t.txt -n 3 --quiet",
    "similar": "similar model t.txt t.txt --quiet",
    "export": "export words exported --method Average",
    "distill": "distill t.txt --encoder words -o student --n-subwords 20 --quiet",
    "bound": "bound --risk 0.1 --kl 5 --n 200",
    "certify": "certify model t.txt -o c.json --random-state 0 --quiet",
    "verify": "verify c.json --quiet",
    "simulate": "simulate --kind A --setting topics --replicates 2 --quiet",
    "classify train": "classify train l.tsv -o c2 --quiet",
    "classify predict": "classify predict classifier t.txt -o p.tsv --quiet",
    "classify certify": "classify certify classifier fresh.tsv --quiet",
    "classify compare": "classify compare classifier classifier fresh.tsv --quiet",
    "classify explain": "classify explain classifier wab",
    "classify report": "classify report classifier fresh.tsv -o report.html --overwrite --quiet",
    "classify watch": "classify watch classifier t.txt --random-state 0 --quiet",
    "map": "map model t.txt -o map.html --quiet",
    "evaluate": "evaluate Average words l.tsv --seeds 1 --quiet",
}
# these end when they are told to, take minutes, or leave the machine: they have tests of their own
ELSEWHERE = {"serve", "demo", "reproduce", "push", "certify-predictions", "label"}


def test_the_runs_below_are_all_commands_but_those_with_tests_of_their_own():
    assert set(RUNS) | ELSEWHERE == set(dict(commands()))


@pytest.mark.parametrize("name", RUNS)
def test_stdout_is_then_one_json_document(name, places, monkeypatch, toy_word_vectors):
    monkeypatch.chdir(places)
    if name in ("search", "certify-search") and not Path("index").exists():
        CliRunner().invoke(cli, RUNS["index"].split())
    if name == "verify" and not Path("c.json").exists():
        CliRunner().invoke(cli, RUNS["certify"].split())
    done = CliRunner().invoke(cli, [*RUNS[name].split(), "--json"])
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    found = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert isinstance(found, dict) and found


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        ("embed model t.txt --quiet --json", {"mean", "variance"}),
        ("embed model - --keep-columns text --quiet --json", {"text", "mean", "variance"}),
        (
            "classify predict classifier t.txt --quiet --json",
            {"label", "probability", "set", "abstained"},
        ),
    ],
)
def test_what_is_streamed_is_json_lines(arguments, keys, places, monkeypatch):
    monkeypatch.chdir(places)
    done = CliRunner().invoke(cli, arguments.split(), input="w1 wac\nzzz\n")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows and all(set(row) == keys for row in rows)
    if "--keep-columns" in arguments:
        assert rows[1]["variance"] is None and rows[1]["text"] == "zzz"


def test_many_files_give_one_document_about_all(places, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(places)
    Path("many").mkdir()
    for name in ("a", "b"):
        Path("many", f"{name}.jsonl").write_text('{"text": "wab wac"}\n')
    line = "embed model many -o vectors/ --n-jobs 1 --quiet --json"
    done = CliRunner().invoke(cli, line.split())
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rows"] == 2 and found["failed"] == {}


def test_cleaned_text_and_json_do_not_share_a_stream(places, monkeypatch):
    monkeypatch.chdir(places)
    done = CliRunner().invoke(cli, ["clean", "t.txt", "--json"])
    assert done.exit_code == 2
    assert "Name the file: -o OUT" in done.stderr and not done.stdout


def test_what_json_has_no_number_for_is_null(capsys):
    echo_json({"a": float("nan"), "b": [np.float32(0.5), np.inf], "c": Path("x"), "d": np.int64(3)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [0.5, None], "c": "x", "d": 3}


def test_push_tells_the_commit(places, monkeypatch):
    monkeypatch.chdir(places)
    import pacsent.storage.sharing

    monkeypatch.setattr(
        pacsent.storage.sharing, "push_to_hub", lambda *a, **k: "https://hub/commit/1"
    )
    done = CliRunner().invoke(cli, ["push", "model", "me/model", "--json"])
    assert json.loads(done.stdout)["commit"] == "https://hub/commit/1"


def test_demo_reports_what_it_made(tmp_path, monkeypatch):
    from pacsent.paper import demo

    numbers = {"certified_error": 0.2, "test_error": 0.1, "n_new": 100}
    monkeypatch.setattr(demo, "run", lambda *a, **k: numbers)
    done = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path / "d"), "--quiet", "--json"])
    found = json.loads(done.stdout)
    assert found["report"].endswith("index.html") and found["test_error"] == 0.1


def test_reproduce_tells_every_result(tmp_path, places, monkeypatch):
    from pacsent.paper import benchmark_datasets as datasets
    from pacsent.paper import report, reproduction

    run = {"n_done": 1, "n_kept": 0, "seconds": 1.0, "peak_memory_bytes": 1, "skipped": {}}
    row = {"kind": "classification", "row": "Average", "dataset": "subj", "accuracy": 0.9}
    row |= {"label": "Average", "sd": 0.0, "scores": [], "paper": None}
    monkeypatch.setattr(datasets, "data_folder", lambda data: tmp_path)
    monkeypatch.setattr(reproduction, "reproduce", lambda *a, **k: run)
    monkeypatch.setattr(reproduction, "read_results", lambda folder: [row])
    monkeypatch.setattr(report, "write", lambda *a: None)
    where = ["--words", str(places / "words"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["reproduce", *where, "--quiet", "--json"])
    found = json.loads(done.stdout)
    assert (
        found["results"] == [row]
        and found["run"]["n_done"] == 1
        and found["report"].endswith("index.html")
    )


@pytest.mark.slow
def test_the_server_says_on_stdout_where_it_listens(places):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "pacsent", "serve", str(places / "model"), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        told = json.loads(server.stdout.readline())
        assert told["address"].startswith("http://127.0.0.1:") and told["model"] == "model"
    finally:
        server.send_signal(signal.SIGTERM)
        rest = server.communicate(timeout=30)[0]
    assert rest == "" and server.returncode == 0


# ------------------------------------------------------------------------------------------------
# Tables fit the terminal
# ------------------------------------------------------------------------------------------------

WIDE = {
    "words": "words words wab wac -n 3",
    "bound": RUNS["bound"],
    "simulate": RUNS["simulate"],
    "help": "",
    "help of embed": "embed --help",
    "help of train": "train --help",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "columns"), [*((name, 60) for name in WIDE), ("help", 80), ("help of train", 80)]
)
def test_tables_fit_the_terminal(name, columns, places):
    settings = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pacsent", *WIDE[name].split()],
        cwd=places, env=settings, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    shown = done.stdout or done.stderr
    assert shown
    assert max(map(len, shown.splitlines())) <= columns, shown


def test_the_table_of_the_paper_fits_the_terminal():
    from pacsent.paper import report

    results = [
        {"kind": "classification", "row": "Average-0", "label": "Average, α = 0", "dataset": name,
         "accuracy": 0.81234, "sd": 0.001, "scores": [{}, {}], "paper": 0.8}
        for name in ("20news", "imdb", "subj", "mr", "trec")
    ]  # fmt: skip
    header, rows = report.accuracy_table(results)
    whole = table(header, rows)
    assert whole.splitlines()[0].split()[0] == header[0].split()[0]
    for columns in (60, 80):
        shown = table(header, rows, width=columns)
        assert max(map(len, shown.splitlines())) <= columns
        for cell in header + rows[0]:
            assert cell in shown


def test_piped_tables_are_not_folded(places):
    settings = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "pacsent", *WIDE["words"].split()],
        cwd=places, env=settings, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    heads = [line for line in done.stdout.splitlines() if "input -> input" in line]
    assert all("output -> input" in line for line in heads) and len(heads) == 2
