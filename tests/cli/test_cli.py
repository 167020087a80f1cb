"""The command line: every command once with --json, options, mistakes, streams, and tables that fit
the terminal. Commands with much of their own are tested in test_cli_classify, test_serve, ..."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import warnings
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pytest

import helpers
import pacsent
from helpers import all_commands, run_python
from pacsent import CertifiedClassifier, TextClassifier, Vocabulary, WordVectors, make_encoder, save
from pacsent.cli import cli, main
from pacsent.cli.command_line import FAMILIES, MODULES, options_in
from pacsent.cli.printing import echo_json
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer

COMMANDS = all_commands()
SOURCES = Path(pacsent.__file__).parent


def invoke(line, **how):
    """A command in this process; the line is a string, or a list of arguments."""
    return helpers.invoke(*(line.split() if isinstance(line, str) else line), **how)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Word vectors, a method, a classifier, an index, a certificate and texts."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(40)]
    texts = [" ".join(rng.choice(words[:30] if n % 2 else words[10:], 12)) for n in range(80)]
    labels = ["odd" if n % 2 else "even" for n in range(80)]
    (folder / "t.txt").write_text("\n".join(texts) + "\n")
    (folder / "long.txt").write_text("\n".join(texts * 40) + "\n")
    (folder / "one.txt").write_text("wab\n")
    (folder / "bad.txt").write_bytes(b"wab\n\xff\xfe\n")
    (folder / "list.json").write_text("[]")
    rows = (f"{text[:20]},{n}\n" for n, text in enumerate(texts))
    (folder / "q.csv").write_text("text,answer\n" + "".join(rows))
    lines = [f"{a}\t{b}\n" for a, b in zip(labels, texts)]
    (folder / "l.tsv").write_text("".join(["label\ttext\n", *lines]))
    (folder / "fresh.tsv").write_text(
        "label\ttext\n" + "odd\tw1 wac w3 w4\neven\tw38 w39 w37\n" * 30
    )
    pairs = [f"{a}\t{b}\t{n}\n" for n, (a, b) in enumerate(itertools.pairwise(words))]
    (folder / "pairs.tsv").write_text("".join(["word 1\tword 2\thuman\n", *pairs, "w1\tzz\t3\n"]))
    tables = rng.standard_normal((2, 40, 4), dtype=np.float32)
    vectors = WordVectors(Vocabulary(words, range(100, 60, -1)), *tables)
    save(vectors, folder / "words")
    save(make_encoder("PB-L2", vectors).fit(texts), folder / "model")
    classifier = CertifiedClassifier(
        TextClassifier(None, n_jobs=1), calibration_size=0.5, random_state=0
    )
    save(classifier.fit(texts, labels), folder / "classifier")
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


RUNS = {
    "train": "train l.tsv -o c2 --overwrite --quiet",
    "predict": "predict classifier t.txt -o p.tsv --overwrite --quiet",
    "evaluate": "evaluate classifier fresh.tsv --quiet",
    "compare": "compare classifier classifier fresh.tsv --quiet",
    "explain": "explain classifier wab",
    "report": "report classifier fresh.tsv -o report.html --overwrite --quiet",
    "monitor": "monitor classifier t.txt --random-state 0 --quiet",
    "certify": "certify classifier fresh.tsv --quiet",
    "verify": "verify c.json --quiet",
    "audit": "audit l.tsv --encoder none --quiet",
    "embed": "embed model t.txt -o vectors.npy --overwrite --quiet",
    "index": "index model t.txt -o index --overwrite --quiet",
    "search": "search index wab -k 2",
    "rerank": "rerank model wab t.txt -k 2 --quiet",
    "cluster": "cluster model t.txt -k 3 --quiet",
    "dedupe": "dedupe l.tsv --quiet",
    "map": "map model t.txt -o map.html --overwrite --quiet",
    "distill": "distill t.txt --encoder words -o student --n-subwords 20 --quiet",
    "model convert": "model convert words out.txt --quiet",
    "model export": "model export classifier -o exported.html",
    "vectors clean": "vectors clean t.txt -o clean.txt --quiet",
    "vectors train": "vectors train t.txt -o new --n-dims 3 --n-epochs 1 --min-count 1 "
    "--random-state 0 --quiet",
    "vectors fit": "vectors fit PB-L2 words t.txt -o fitted --quiet",
    "vectors neighbours": "vectors neighbours words wab -k 2",
    "vectors similarity": "vectors similarity words pairs.tsv --quiet",
    "paper bound": "paper bound --risk 0.1 --kl 5 --n 200",
    "paper continuation": "paper continuation model t.txt -o c.json --overwrite "
    "--random-state 0 --quiet",
    "paper simulate": "paper simulate --kind A --n-replicates 2 --quiet",
    "paper score": "paper score Average l.tsv --encoder words --seeds 1 --quiet",
}
# These end when they are told to, take minutes, or leave the machine: they have tests of their own.
ELSEWHERE = {"serve", "demo", "label", "check", "paper reproduce"}
FIRST = {"search": "index", "verify": "paper continuation", "certify an index": "index"}
ALSO = {
    "certify an index": "certify index q.csv -k 2 --quiet",
    "embed pairs": "embed model t.txt --pairs t.txt --quiet",
}


def test_every_command_is_run_here_or_has_tests_of_its_own():
    assert set(RUNS) | ELSEWHERE == set(COMMANDS)


@pytest.mark.parametrize("name", [*RUNS, *ALSO])
def test_stdout_is_one_json_document(name, here):
    if name in FIRST:
        invoke(RUNS[FIRST[name]])
    done = invoke(f"{(RUNS | ALSO)[name]} --json")
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    result = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert isinstance(result, dict) and result


@pytest.mark.parametrize("command", ["embed t.txt", "rerank wab t.txt", "cluster t.txt -k 2"])
def test_the_model_is_english_unless_another_is_named(here, command):
    words = command.split()
    named = invoke([words[0], "english", *words[1:], "--quiet"])
    assert named.exit_code == 0 and invoke(f"{command} --quiet").stdout == named.stdout
    assert invoke([words[0], "model", *words[1:], "--quiet"]).stdout != named.stdout


def test_near_duplicates_are_listed(here):
    texts = "a dull film with no plot", "so good", "A dull film  with no end"
    (here / "d.txt").write_text("\n".join(texts))
    assert invoke("dedupe d.txt --quiet").stdout == f"1\t1\t{texts[0]}\n1\t3\t{texts[2]}\n"


def test_what_is_streamed_is_json_lines(here):
    for line, keys in (
        ("embed model t.txt", {"mean", "variance"}),
        ("predict classifier t.txt", {"prediction", "probability", "set", "abstained", "reason"}),
        ("embed model - --keep-columns text", {"text", "mean", "variance"}),
    ):
        done = invoke(f"{line} --quiet --json", input="w1 wac\nzzz\n")
        assert done.exit_code == 0, done.output
        rows = [json.loads(row) for row in done.stdout.splitlines()]
        assert rows and all(set(row) == keys for row in rows)
    assert rows[1]["variance"] is None and rows[1]["text"] == "zzz"


def test_many_files_give_one_document_about_all(here):
    Path("many").mkdir()
    for name in ("a", "b"):
        Path("many", f"{name}.jsonl").write_text('{"text": "wab wac"}\n')
    done = invoke("embed model many -o vectors/ --n-jobs 1 --quiet --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 2 and json.loads(done.stdout)["failed"] == {}


def test_what_json_has_no_number_for_is_null(capsys):
    echo_json({"a": float("nan"), "b": [np.float32(0.5), np.inf], "c": Path("x"), "d": np.int64(3)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [0.5, None], "c": "x", "d": 3}


def test_reproduce_reports_what_it_made(here, tmp_path, monkeypatch):
    from pacsent.paper import benchmark_datasets, report, reproduction

    run = {"n_done": 1, "n_kept": 0, "seconds": 1.0, "peak_memory_bytes": 1, "skipped": {}}
    row = {"kind": "classification", "row": "Average", "dataset": "subj", "accuracy": 0.9}
    row |= {"label": "Average", "sd": 0.0, "scores": [], "paper": None}
    for module, name, result in (
        (benchmark_datasets, "data_folder", tmp_path),
        (reproduction, "reproduce", run),
        (reproduction, "read_results", [row]),
        (report, "write", None),
    ):
        monkeypatch.setattr(module, name, lambda *a, result=result, **k: result)
    done = invoke(["paper", "reproduce", "--encoder", "words", "-o", tmp_path, "--quiet", "--json"])
    result = json.loads(done.stdout)
    assert result["results"] == [row] and result["run"]["n_done"] == 1


@pytest.mark.slow
def test_the_server_says_on_stdout_where_it_listens(folder):
    command = [sys.executable, "-m", "pacsent", "serve", str(folder / "model"), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        started = json.loads(server.stdout.readline())
        assert started["address"].startswith("http://127.0.0.1:") and started["model"] == "model"
        with urllib.request.urlopen(started["address"] + "/health", timeout=60) as response:
            assert json.load(response) == {"status": "ok"}  # and it handles signals from now on
    finally:
        server.send_signal(signal.SIGTERM)
        output = server.communicate(timeout=30)[0]
    assert output == "" and server.returncode == 0


def test_hits_are_one_line_each_and_a_huge_number_of_them_is_fine(tmp_path, toy_word_vectors):
    save(toy_word_vectors, tmp_path / "words")
    rows = ["good\nfilm", "quiet\ta\\b film", "film"]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    where = [tmp_path / "words", tmp_path / "t.jsonl", "-o", tmp_path / "i"]
    assert invoke(["index", *where, "--method", "Average", "--quiet"]).exit_code == 0
    done = invoke(["search", tmp_path / "i", "film", "-k", 2**31])
    assert done.exit_code == 0
    lines = sorted(line.split("\t")[2] for line in done.stdout.splitlines())
    assert lines == ["film", "good\\nfilm", "quiet\\ta\\\\b film"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status", "stderr"),
    [
        ("embed model long.txt --quiet >&- 2>&-", 0, ""),
        ("rerank model wab long.txt --quiet | head -1", 0, ""),
        ("embed model t.txt --quiet 2>&- | cmp - vectors.txt", 0, ""),
        ("embed model long.txt --quiet > /dev/full", 1, "No space left"),
        ("embed model <&-", 1, "Error: standard input must have text. Got an empty file"),
    ],
)
def test_streams_that_are_closed_or_full(here, line, status, stderr):
    Path("vectors.txt").write_text(invoke("embed model t.txt --quiet").stdout)
    command = f"set -o pipefail; {sys.executable} -m pacsent {line}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, stderr in done.stderr) == (status, True), done.stderr
    assert done.stderr.count("\n") == bool(stderr)
    assert done.stdout.count("\n") == ("head -1" in line)


def test_a_warning_advises_only_what_can_be_typed(here):
    Path("unknown.txt").write_text("zzzz\nqqqq\n")
    done = invoke("embed words unknown.txt --pairs unknown.txt --method Average")
    assert done.exit_code == 0 and "OOV words only: 2 of 2" in done.stderr
    assert "the mean is 0" in done.stderr and "on_empty" not in done.stderr


@pytest.mark.parametrize(
    ("line", "message", "status"),
    [
        ("vectors fit PB-L2 words t.txt -o x --lam -1", "'lam' parameter", 2),
        ("vectors fit PB-L2 words t.txt -o x --alpha 1", "alpha must be", 2),
        ("vectors train t.txt -o x --device tpu", "'device' parameter of SkipGram", 2),
        ("vectors train t.txt -o x --min-count 99999", "--min-count", 1),
        ("vectors fit Averge words t.txt -o x", "Choose from Average, ", 2),
        ("vectors fit Average words t.txt -o x --lam 2", "lam must be 1.0 for the method", 2),
        ("vectors fit PB-L2 words t.txt -o x --n-epochs 3", "PB-L2 takes no --n-epochs", 2),
        ("vectors train t.txt -o x --n-dims many", "'many' is not a valid int", 2),
        ("vectors clean t.txt --json", "needs a file for the text: -o OUT", 2),
        ("embed model t.txt --n-jobs 0", "--n-jobs must be a number of threads", 1),
        ("embed model t.txt --pairs one.txt", "the same number of texts. Got 80 and 1", 1),
        ("embed model bad.txt", "must be UTF-8 text", 1),
        ("embed model t.txt -o v.xls", "must end in .npy, .csv", 2),
        ("embed words t.txt --method PB-IDF-L2", "learns from text first", 1),
        ("embed words t.txt --method Mean", "Choose from Average", 1),
        ("paper continuation model t.txt --method PB-neg", "is for word vectors", 2),
        ("paper score PB-L2 subj --encoder words --seeds 0", "--seeds", 2),
        ("trian l.tsv -o x", "No such command 'trian'. Did you mean 'train'?", 2),
        ("train q.csv -o x", "Name the column with --label-column.", 1),
        ("train l.tsv -o x --no-calibration --n-candidates 2", "Leave one out", 2),
        ("certify classifier", "Give MODEL and DATA", 2),
        ("certify classifier fresh.tsv --prediction-column p", "are for DATA without MODEL", 2),
        ("certify words t.txt", "words must be a classifier. Got a WordVectors", 1),
        ("certify classifier l.tsv", "leave those out: --overlap drop.", 1),
        ("train l.tsv -o x --input-format csv --text-column y", "with --text-column", 1),
        ("predict classifier Who?", "There is no file 'Who?'.", 2),
        ("predict l.tsv classifier", "is a file", 2),
        ("search words wab", "words must be an index. Got a WordVectors", 1),
        ("train l.tsv -o x --lable-column y", "'--label-column'", 2),
        ("rerank t.txt", "Give [MODEL] QUERY TEXTS", 2),
        ("cluster nowhere", "'nowhere' does not exist", 2),
        ("verify bad.txt", "Error: bad.txt must be a certificate", 1),
        ("verify /dev/zero", "Error: /dev/zero must be a certificate", 1),
        ("verify list.json", "Error: list.json must be a certificate", 1),
    ],
)
def test_mistakes_are_one_line_that_names_options(here, line, message, status):
    done = invoke(line)
    assert done.exit_code == status, done.output
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert not Path("x").exists() and "Traceback" not in done.stderr


def test_a_bug_is_not_told_as_a_mistake(here, monkeypatch):
    monkeypatch.setattr(SentenceVectorizer, "prepared", None)
    monkeypatch.setattr(sys, "argv", ["pacsent", "embed", "model", "t.txt"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(TypeError):
        main()


def test_a_model_on_the_hub_without_the_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    done = invoke("embed hf://owner/name")
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: hf:// needs huggingface_hub, which is not installed. Run: pip install "
        "'pacsent[hub]' (in a checkout: pip install '.[hub]')\n"
    )
    own = [p.name for p in SOURCES.rglob("*.py") if "pip install 'pacsent" in p.read_text("utf-8")]
    assert own == ["optional.py"]  # which names the checkout in every message


def test_certify_passes_warnings_on_and_says_that_it_fits_again(here, monkeypatch):
    assert invoke("vectors fit PB-IDF-L2 words t.txt -o idf --quiet").exit_code == 0
    original = SentenceVectorizer.fit

    def fit(self, X, y=None):
        warnings.warn("the solver gave up on 3 sentences", UserWarning, stacklevel=2)
        return original(self, X, y)

    monkeypatch.setattr(SentenceVectorizer, "fit", fit)
    done = invoke("paper continuation idf l.tsv --text-column text")
    assert done.exit_code == 0, done.output
    assert "Warning: the solver gave up on 3 sentences" in done.stderr
    assert "PB-IDF-L2 is fitted again on a part of" in done.stderr


def test_work_that_says_nothing_is_still_told_about(monkeypatch, capsys):
    monkeypatch.setattr("pacsent.progress.PLAIN_EVERY", 0.1)
    with pacsent.progress.bar("solving", total=3, unit="settings"):
        time.sleep(0.4)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("solving: 0 settings, 0%, ") and "nan" not in lines[0]


def test_no_bound_is_printed_to_nearest():
    """0.25004 printed as 0.2500 is no bound any more: `rounded_up` writes it."""
    wrong = re.compile(r"\{[^{}]*(bound|promised|guarantee)[^{}]*:\.\d[fg%]\}")
    assert not [path.name for path in SOURCES.rglob("*.py") if wrong.search(path.read_text())]


@pytest.mark.parametrize("name", COMMANDS)
def test_options_mean_the_same_everywhere(name):
    options = {flag: option for option in COMMANDS[name].params for flag in option.opts}
    assert options["--json"].is_flag and "JSON object" in options["--json"].help
    assert ("per text" in options["--json"].help) == (name in ("embed", "predict"))
    # One sum, one query, a folder that is written or sent, one text, and a server are short.
    short = {"paper bound", "search", "model export", "explain", "serve"}
    assert "--quiet" in options or name in short
    other_spellings = {"--threads", "--n-threads", "--words-column", "--words", "--dims", "-n"}
    assert not (other_spellings | {"--group", "--prediction", "--vectorizer"}) & set(options)
    assert ("--device" in options) == (name in ("vectors train", "distill"))
    if "--n-jobs" in options:
        assert options["--n-jobs"].type is click.INT  # -1 and -2 as in scikit-learn


@pytest.mark.parametrize("module", MODULES)
def test_every_command_of_a_module_is_listed_under_it(module):
    import_module(f"pacsent.cli.{module}")
    names = {n for n, c in cli.commands.items() if c.callback.__module__.endswith(module)}
    assert names == set(MODULES[module])


def test_every_command_is_in_one_family():
    shown = [name for family in FAMILIES for name in family.commands if " " not in name]
    assert sorted(shown) == sorted(name for names in MODULES.values() for name in names)


def test_the_help_begins_with_where_to_start_and_shows_families_in_their_order():
    shown = invoke("--help").output
    places = [shown.index(f"\n{family.title}:") for family in FAMILIES]
    assert FAMILIES[0].title == "Start here"
    assert places == sorted(places)


def test_the_help_has_one_family_for_sentence_vectors():
    shown = invoke("--help").output
    rows = shown.split("\nSentence vectors")[1].split("\n\n")[0]
    for name in ("vectors train", "vectors fit", "embed", "paper bound", "paper reproduce"):
        assert f"\n  {name} " in rows


def test_help_imports_no_library_and_only_the_module_of_its_command():
    for line, files in (
        ("--help", set(MODULES)),
        ("--version", set()),
        ("embed --help", {"text_commands"}),
        ("model export --help", {"model_commands"}),
    ):
        code = (
            "import sys; from pacsent.cli import cli\n"
            f"cli.main({line.split()}, standalone_mode=False)\n"
            "print('', *sys.modules, sep='\\n')\n"
        )
        modules = set(run_python(code).split())
        assert not modules & {"numpy", "scipy", "sklearn", "rich", "pyarrow"}
        assert {file for file in MODULES if f"pacsent.cli.{file}" in modules} == files


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples_between_the_purpose_and_the_details(name):
    usage, purpose, examples, *details = invoke(f"{name} --help").output.split("\n\n")
    assert usage.startswith("Usage: ") and "$" not in purpose and details
    assert all(re.match(r"  \$ .*pacsent ", line) for line in examples.splitlines())


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("line", ["", "model", "vectors", "paper", "vectors train"])
def test_help_fits_the_terminal_and_summaries_are_whole(line, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = invoke(f"{line} --help", terminal_width=columns).output
    assert shown and max(map(len, shown.splitlines())) <= columns
    assert columns == 60 or "..." not in shown.partition("\n\n")[2]


def test_the_shell_completes_options():
    environment = {**os.environ, "_PACSENT_COMPLETE": "bash_complete"}
    environment |= {"COMP_WORDS": "pacsent embed --keep", "COMP_CWORD": "2"}
    code = "import sys; sys.argv[0] = 'pacsent'; from pacsent.cli import main; main()"
    assert "--keep-columns" in run_python(code, env=environment, timeout=60)


def test_every_command_that_takes_texts_reads_tables():
    """A new command is put here, or has the options of texts, and hostile/command_lines runs it."""
    from hostile.command_lines import taking_texts

    without = {"search", "explain", "serve", "demo"}
    without |= {name for name in COMMANDS if name.startswith(("model ", "vectors ", "paper "))}
    without -= {"vectors train", "vectors fit", "paper continuation", "paper score"}
    assert set(COMMANDS) - without == {name for name, _ in taking_texts()}


_WORDS = r"(?<![\w/.])pacsent( [a-z][a-z-]*)+(?: [^\s`'\"<>();]+)*"
_OPTIONS = r" -{1,2}[a-z][\w-]*[^`'\"<>();\n]*"
PRINTED = sorted(
    {
        match[0]
        for pattern in ("*.py", "*.html", "*.js")
        for path in SOURCES.rglob(pattern)
        for match in re.finditer(_WORDS + _OPTIONS, path.read_text())
    }
)


@pytest.mark.parametrize("line", PRINTED)
def test_a_command_that_a_template_or_message_prints_has_these_options(line):
    words = line.split()[1:]
    name = next(" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in COMMANDS)
    known = {flag for option in COMMANDS[name].params for flag in option.opts} | {"--help"}
    given = re.findall(r"(?<=\s)--?[a-z][\w-]*", line)
    assert given and set(given) <= known


def test_commands_are_found_in_templates_and_messages():
    assert len(PRINTED) > 15
    assert "pacsent train mine.csv -o model" in PRINTED


def test_the_options_of_a_command_are_not_put_into_python_calls():
    command = click.Command("x", params=[click.Option(["--encoder"])])
    with click.Context(command):
        message = "Open it: load(path, encoder=...), or encoder=english."
        assert options_in(message) == "Open it: load(path, encoder=...), or --encoder english."


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("1 empty text left out (first: row 0, counted from 0)", "(first: row 1)"),
        ("2 of 4 texts have no vector (row 1, 3, counted from 0).", "(row 2, 4)."),
        ("5 of 6 (row 1, 1,999, 3, ..., counted from 0)", "(row 2, 2,000, 4, ...)"),
        ("Got None in row 3 (rows count from 0) instead.", "Got None in row 4 instead."),
    ],
)
def test_rows_that_python_counts_from_0_are_counted_from_1(message, shown):
    assert options_in(message).endswith(shown)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["help"], None),
        (["classify", "train"], "No such command 'classify'. Did you mean 'train'?"),
        (["explain", "a dull film"], "The model comes first: pacsent explain MODEL TEXT"),
        (["embed", "a glass of wine"], "echo TEXT | pacsent embed MODEL -"),
        (["search", "red wine", "x"], "Make one: pacsent index MODEL TEXTS -o INDEX"),
        (["predict", "english", "my card"], "echo TEXT | pacsent predict MODEL -"),
    ],
)
def test_a_message_says_what_to_do(line, message):
    done = invoke(line)
    assert done.exit_code == (2 if message else 0)
    assert message is None or message in " ".join(done.output.split())
