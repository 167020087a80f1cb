"""The command line: every command once with --json, options, mistakes, streams, and tables that fit
the terminal. Commands with much of their own are tested in test_cli_classify, test_serve, ..."""

import itertools
import json
import os
import re
import signal
import string
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
from hostile.command_lines import taking_texts
from pacsent import CertifiedClassifier, TextClassifier, Vocabulary, WordVectors, make_encoder, save
from pacsent.cli import cli, main
from pacsent.cli.command_line import FAMILIES, MODULES, options_in
from pacsent.cli.printing import echo_json
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer

COMMANDS = all_commands()
SOURCES = Path(pacsent.__file__).parent
N_TEXTS = 80


def invoke(line, **options):
    """A command in this process; the line is a string, or a list of arguments."""
    arguments = line.split() if isinstance(line, str) else line
    return helpers.invoke(*arguments, **options)


def flags_of(command):
    """The options of a command by each of their names."""
    return {flag: option for option in command.params for flag in option.opts}


@pytest.fixture(scope="module")
def vocabulary():
    """Forty words, "waa" to "wbn", counted from 100 down."""
    letters = itertools.product("ab", string.ascii_lowercase)
    words = [f"w{first}{second}" for first, second in letters]
    return Vocabulary(words[:40], range(100, 60, -1))


@pytest.fixture(scope="module")
def texts(vocabulary):
    """Texts of twelve words, "odd" and "even" in turn, with twenty words in common."""
    rng = np.random.default_rng(0)
    words = vocabulary.words
    texts = []
    for n in range(N_TEXTS):
        choice = words[:30] if n % 2 else words[10:]
        drawn = rng.choice(choice, 12)
        texts.append(" ".join(drawn))
    return texts


@pytest.fixture(scope="module")
def labels():
    """Of `texts`."""
    return ["odd" if n % 2 else "even" for n in range(N_TEXTS)]


@pytest.fixture(scope="module")
def text_files(tmp_path_factory, texts, labels, vocabulary):
    """A folder with texts, labelled texts, queries with answers, pairs of words, and bad files."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "t.txt").write_text("\n".join(texts) + "\n")
    (folder / "long.txt").write_text("\n".join(texts * 40) + "\n")
    (folder / "one.txt").write_text("wab\n")
    (folder / "bad.txt").write_bytes(b"wab\n\xff\xfe\n")
    (folder / "list.json").write_text("[]")

    queries = [f"{text[:20]},{n}\n" for n, text in enumerate(texts)]
    (folder / "q.csv").write_text("text,answer\n" + "".join(queries))

    labelled = [f"{label}\t{text}\n" for label, text in zip(labels, texts)]
    (folder / "l.tsv").write_text("label\ttext\n" + "".join(labelled))
    fresh = "odd\tw1 wac w3 w4\neven\tw38 w39 w37\n"
    (folder / "fresh.tsv").write_text("label\ttext\n" + fresh * 30)

    neighbours = itertools.pairwise(vocabulary.words)
    pairs = [f"{a}\t{b}\t{n}\n" for n, (a, b) in enumerate(neighbours)]
    (folder / "pairs.tsv").write_text("word 1\tword 2\thuman\n" + "".join(pairs) + "w1\tzz\t3\n")
    return folder


@pytest.fixture(scope="module")
def folder(text_files, texts, labels, vocabulary):
    """The folder of `text_files`, with word vectors, a method and a classifier."""
    rng = np.random.default_rng(1)
    tables = rng.standard_normal((2, vocabulary.n_words, 4), dtype=np.float32)
    vectors = WordVectors(vocabulary, tables[0], tables[1])
    save(vectors, text_files / "words")

    method = make_encoder("PB-L2", vectors)
    save(method.fit(texts), text_files / "model")

    base = TextClassifier(None, n_jobs=1)
    classifier = CertifiedClassifier(base, calibration_size=0.5, random_state=0)
    save(classifier.fit(texts, labels), text_files / "classifier")
    return text_files


@pytest.fixture
def here(folder, monkeypatch):
    """The folder of all these, as the current one."""
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


def no_number(word):
    pytest.fail(f"{word} is no JSON")


@pytest.mark.parametrize("name", [*RUNS, *ALSO])
def test_stdout_is_one_json_document(name, here):
    line = RUNS.get(name) or ALSO[name]
    if name in FIRST:
        before = RUNS[FIRST[name]]
        invoke(before)

    done = invoke(f"{line} --json")

    result = json.loads(done.stdout, parse_constant=no_number)
    assert done.exit_code in (0, 1), done.output
    assert isinstance(result, dict)
    assert result


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("embed", "t.txt"), ("rerank", "wab t.txt"), ("cluster", "t.txt -k 2")],
)
def test_the_model_is_english_unless_another_is_named(here, command, arguments):
    unnamed = invoke(f"{command} {arguments} --quiet", status=0)
    english = invoke(f"{command} english {arguments} --quiet", status=0)
    other = invoke(f"{command} model {arguments} --quiet", status=0)

    assert unnamed.stdout == english.stdout
    assert unnamed.stdout != other.stdout


def test_near_duplicates_are_listed(here):
    first = "a dull film with no plot"
    third = "A dull film  with no end"
    path = here / "d.txt"
    path.write_text(f"{first}\nso good\n{third}")

    done = invoke("dedupe d.txt --quiet")

    assert done.stdout == f"1\t1\t{first}\n1\t3\t{third}\n"


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("embed model t.txt", {"mean", "variance"}),
        ("embed model - --keep-columns text", {"text", "mean", "variance"}),
        (
            "predict classifier t.txt",
            {"prediction", "probability", "set", "abstained", "reason"},
        ),
    ],
)
def test_what_is_streamed_is_json_lines(here, line, keys):
    done = invoke(f"{line} --quiet --json", input="w1 wac\nzzz\n", status=0)

    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert rows
    for row in rows:
        assert set(row) == keys


def test_a_text_of_oov_words_is_streamed_without_a_variance(here):
    done = invoke("embed model - --keep-columns text --quiet --json", input="w1 wac\nzzz\n")

    rows = done.stdout.splitlines()
    second = json.loads(rows[1])
    assert second["text"] == "zzz"
    assert second["variance"] is None


def test_many_files_give_one_document_about_all(here):
    many = Path("many")
    many.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        path = many / name
        path.write_text('{"text": "wab wac"}\n')

    done = invoke("embed model many -o vectors/ --n-jobs 1 --quiet --json", status=0)

    report = json.loads(done.stdout)
    assert report["rows"] == 2
    assert report["failed"] == {}


def test_what_json_has_no_number_for_is_null(capsys):
    echo_json({"a": float("nan"), "b": [np.float32(0.5), np.inf], "c": Path("x"), "d": np.int64(3)})

    printed = json.loads(capsys.readouterr().out)
    assert printed == {"a": None, "b": [0.5, None], "c": "x", "d": 3}


def test_reproduce_reports_what_it_made(here, tmp_path, monkeypatch):
    run = {"n_done": 1, "n_kept": 0, "seconds": 1.0, "peak_memory_bytes": 1, "skipped": {}}
    row = {"kind": "classification", "row": "Average", "dataset": "subj", "accuracy": 0.9}
    row |= {"label": "Average", "sd": 0.0, "scores": [], "paper": None}
    paper = "pacsent.paper"
    monkeypatch.setattr(f"{paper}.benchmark_datasets.data_folder", lambda *_: tmp_path)
    monkeypatch.setattr(f"{paper}.reproduction.reproduce", lambda *_, **__: run)
    monkeypatch.setattr(f"{paper}.reproduction.read_results", lambda *_: [row])
    monkeypatch.setattr(f"{paper}.report.write", lambda *_, **__: None)

    done = invoke(["paper", "reproduce", "--encoder", "words", "-o", tmp_path, "--quiet", "--json"])

    report = json.loads(done.stdout)
    assert report["results"] == [row]
    assert report["run"]["n_done"] == 1


@pytest.fixture
def server(folder):
    """`pacsent serve --json` as a process, which is killed if the test leaves it running."""
    model = str(folder / "model")
    command = [sys.executable, "-m", "pacsent", "serve", model, "--port", "0", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        yield process
        process.kill()


@pytest.mark.slow
def test_the_server_says_on_stdout_where_it_listens(server):
    started = json.loads(server.stdout.readline())
    health = started["address"] + "/health"
    with urllib.request.urlopen(health, timeout=60) as response:
        answer = json.load(response)
    server.send_signal(signal.SIGTERM)  # it answers, so it handles signals
    output, _ = server.communicate(timeout=30)

    assert started["address"].startswith("http://127.0.0.1:")
    assert started["model"] == "model"
    assert answer == {"status": "ok"}
    assert output == ""
    assert server.returncode == 0


@pytest.fixture
def index_of_three(tmp_path, toy_word_vectors):
    """An index of three texts, one with a line break, one with a tab and a backslash."""
    words = tmp_path / "words"
    texts = tmp_path / "t.jsonl"
    index = tmp_path / "i"
    save(toy_word_vectors, words)
    rows = [{"text": "good\nfilm"}, {"text": "quiet\ta\\b film"}, {"text": "film"}]
    lines = [json.dumps(row) for row in rows]
    texts.write_text("\n".join(lines))
    invoke(["index", words, texts, "-o", index, "--method", "Average", "--quiet"], status=0)
    return index


def test_hits_are_one_line_each_and_a_huge_number_of_them_is_fine(index_of_three):
    done = invoke(["search", index_of_three, "film", "-k", 2**31], status=0)

    shown = [line.split("\t")[2] for line in done.stdout.splitlines()]
    assert sorted(shown) == ["film", "good\\nfilm", "quiet\\ta\\\\b film"]


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
    embedded = invoke("embed model t.txt --quiet")
    Path("vectors.txt").write_text(embedded.stdout)
    command = f"set -o pipefail; {sys.executable} -m pacsent {line}"

    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, timeout=120)

    n_errors = 1 if stderr else 0
    n_shown = 1 if "head -1" in line else 0
    assert done.returncode == status, done.stderr
    assert stderr in done.stderr
    assert done.stderr.count("\n") == n_errors
    assert done.stdout.count("\n") == n_shown


def test_a_warning_advises_only_what_can_be_typed(here):
    Path("unknown.txt").write_text("zzzz\nqqqq\n")

    done = invoke("embed words unknown.txt --pairs unknown.txt --method Average", status=0)

    assert "OOV words only: 2 of 2" in done.stderr
    assert "the mean is 0" in done.stderr
    assert "on_empty" not in done.stderr


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

    last = done.stderr.splitlines()[-1]
    assert done.exit_code == status, done.output
    assert last.startswith("Error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("x").exists()


def test_a_bug_is_not_told_as_a_mistake(here, monkeypatch):
    monkeypatch.setattr(SentenceVectorizer, "prepared", None)
    monkeypatch.setattr(sys, "argv", ["pacsent", "embed", "model", "t.txt"])
    monkeypatch.setattr("signal.signal", lambda *_: None)

    with pytest.raises(TypeError):
        main()


def test_a_model_on_the_hub_without_the_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    done = invoke("embed hf://owner/name", status=1)

    assert done.stderr == (
        "Error: hf:// needs huggingface_hub, which is not installed. Run: pip install "
        "'pacsent[hub]' (in a checkout: pip install '.[hub]')\n"
    )


def test_one_module_says_how_to_install_an_extra():
    """It names the checkout in every message."""
    own = [
        path.name
        for path in SOURCES.rglob("*.py")
        if "pip install 'pacsent" in path.read_text("utf-8")
    ]

    assert own == ["optional.py"]


@pytest.fixture
def fit_that_warns(monkeypatch):
    """A warning from every fit of sentence vectors."""
    original = SentenceVectorizer.fit

    def fit(self, X, y=None):
        warnings.warn("the solver gave up on 3 sentences", UserWarning, stacklevel=2)
        return original(self, X, y)

    monkeypatch.setattr(SentenceVectorizer, "fit", fit)


@pytest.fixture
def idf_method(here):
    """The name of a folder with a method that learns from text, fitted."""
    invoke("vectors fit PB-IDF-L2 words t.txt -o idf --overwrite --quiet", status=0)
    return "idf"


def test_certify_passes_warnings_on_and_says_that_it_fits_again(idf_method, fit_that_warns):
    done = invoke(f"paper continuation {idf_method} l.tsv --text-column text", status=0)

    assert "Warning: the solver gave up on 3 sentences" in done.stderr
    assert "PB-IDF-L2 is fitted again on a part of" in done.stderr


def test_work_that_says_nothing_is_still_told_about(monkeypatch, capsys):
    monkeypatch.setattr("pacsent.progress.PLAIN_EVERY", 0.1)

    with pacsent.progress.bar("solving", total=3, unit="settings"):
        time.sleep(0.4)

    shown = capsys.readouterr().err
    first = shown.splitlines()[0]
    assert first.startswith("solving: 0 settings, 0%, ")
    assert "nan" not in first


def test_no_bound_is_printed_to_nearest():
    """0.25004 printed as 0.2500 is no bound any more: `rounded_up` writes it."""
    wrong = re.compile(r"\{[^{}]*(bound|promised|guarantee)[^{}]*:\.\d[fg%]\}")

    found = [path.name for path in SOURCES.rglob("*.py") if wrong.search(path.read_text())]

    assert not found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_print_json(name):
    option = flags_of(COMMANDS[name])["--json"]

    assert option.is_flag
    assert "JSON object" in option.help
    assert ("per text" in option.help) == (name in ("embed", "predict"))


# One sum, one query, a folder that is written or sent, one text, and a server are short.
SHORT = {"paper bound", "search", "model export", "explain", "serve"}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SHORT])
def test_every_command_that_takes_long_can_be_quiet(name):
    assert "--quiet" in flags_of(COMMANDS[name])


OTHER_SPELLINGS = {
    *("--threads", "--n-threads", "--words-column", "--words", "--dims", "-n"),
    *("--group", "--prediction", "--vectorizer"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_spelled_the_same_everywhere(name):
    found = flags_of(COMMANDS[name])

    assert not OTHER_SPELLINGS & set(found)


@pytest.mark.parametrize("name", COMMANDS)
def test_only_commands_that_train_word_vectors_have_a_device(name):
    found = flags_of(COMMANDS[name])

    assert ("--device" in found) == (name in ("vectors train", "distill"))


@pytest.mark.parametrize("name", COMMANDS)
def test_n_jobs_may_be_negative_as_in_scikit_learn(name):
    option = flags_of(COMMANDS[name]).get("--n-jobs")

    assert option is None or option.type is click.INT


@pytest.mark.parametrize("module", MODULES)
def test_every_command_of_a_module_is_listed_under_it(module):
    import_module(f"pacsent.cli.{module}")

    found = [
        name
        for name, command in cli.commands.items()
        if command.callback.__module__.endswith(module)
    ]

    assert set(found) == set(MODULES[module])


def test_every_command_is_in_one_family():
    listed = [name for names in MODULES.values() for name in names]

    shown = [name for family in FAMILIES for name in family.commands if " " not in name]

    assert sorted(shown) == sorted(listed)


def test_the_help_begins_with_where_to_start_and_shows_families_in_their_order():
    shown = invoke("--help").output

    places = [shown.index(f"\n{family.title}:") for family in FAMILIES]
    assert FAMILIES[0].title == "Start here"
    assert places == sorted(places)


def test_the_help_has_one_family_for_sentence_vectors():
    shown = invoke("--help").output

    _, _, after = shown.partition("\nSentence vectors")
    rows, _, _ = after.partition("\n\n")
    for name in ("vectors train", "vectors fit", "embed", "paper bound", "paper reproduce"):
        assert f"\n  {name} " in rows


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--help", set(MODULES)),
        ("--version", set()),
        ("embed --help", {"text_commands"}),
        ("model export --help", {"model_commands"}),
    ],
)
def test_help_imports_no_library_and_only_the_module_of_its_command(line, expected):
    code = f"""
import sys
from pacsent.cli import cli
cli.main({line.split()}, standalone_mode=False)
print('', *sys.modules, sep='\\n')
"""

    printed = run_python(code)

    modules = set(printed.split())
    found = {name for name in MODULES if f"pacsent.cli.{name}" in modules}
    assert found == expected
    assert not modules & {"numpy", "scipy", "sklearn", "rich", "pyarrow"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples_between_the_purpose_and_the_details(name):
    shown = invoke(f"{name} --help").output

    usage, purpose, examples, *details = shown.split("\n\n")
    assert usage.startswith("Usage: ")
    assert "$" not in purpose
    assert details
    for line in examples.splitlines():
        assert re.match(r"  \$ .*pacsent ", line)


HELP_OF = ["", "model", "vectors", "paper", "vectors train"]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("line", HELP_OF)
def test_help_fits_the_terminal(line, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))

    shown = invoke(f"{line} --help", terminal_width=columns).output

    widths = [len(row) for row in shown.splitlines()]
    assert max(widths) <= columns


@pytest.mark.parametrize("line", HELP_OF)
def test_summaries_are_whole_on_a_terminal_of_80_columns(line, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    shown = invoke(f"{line} --help", terminal_width=80).output

    _, _, after_usage = shown.partition("\n\n")
    assert "..." not in after_usage


def test_the_shell_completes_options():
    environment = dict(os.environ)
    environment["_PACSENT_COMPLETE"] = "bash_complete"
    environment["COMP_WORDS"] = "pacsent embed --keep"
    environment["COMP_CWORD"] = "2"
    code = "import sys; sys.argv[0] = 'pacsent'; from pacsent.cli import main; main()"

    printed = run_python(code, env=environment, timeout=60)

    assert "--keep-columns" in printed


def test_every_command_that_takes_texts_reads_tables():
    """A new command is put here, or has the options of texts, and hostile/command_lines runs it."""
    without = {"search", "explain", "serve", "demo"}
    without |= {name for name in COMMANDS if name.startswith(("model ", "vectors ", "paper "))}
    without -= {"vectors train", "vectors fit", "paper continuation", "paper score"}

    reading = {name for name, _ in taking_texts()}

    assert set(COMMANDS) - without == reading


COMMAND_WORDS = r"(?<![\w/.])pacsent( [a-z][a-z-]*)+(?: [^\s`'\"<>();]+)*"
COMMAND_OPTIONS = r" -{1,2}[a-z][\w-]*[^`'\"<>();\n]*"


def printed_commands():
    """The command lines, with options, in messages, pages and scripts of the package."""
    found = set()
    for path in SOURCES.rglob("*"):
        if path.suffix in (".py", ".html", ".js"):
            matches = re.finditer(COMMAND_WORDS + COMMAND_OPTIONS, path.read_text())
            found.update(match[0] for match in matches)

    return sorted(found)


PRINTED = printed_commands()


def command_of(words):
    """The command that the first word, or the first two, name."""
    first_two = " ".join(words[:2])
    return COMMANDS.get(first_two) or COMMANDS[words[0]]


@pytest.mark.parametrize("line", PRINTED)
def test_a_command_that_a_template_or_message_prints_has_these_options(line):
    words = line.split()
    command = command_of(words[1:])
    known = {*flags_of(command), "--help"}

    given = re.findall(r"(?<=\s)--?[a-z][\w-]*", line)

    assert given
    assert set(given) <= known


def test_commands_are_found_in_templates_and_messages():
    assert len(PRINTED) > 15
    assert "pacsent train mine.csv -o model" in PRINTED


def test_the_options_of_a_command_are_not_put_into_python_calls():
    command = click.Command("x", params=[click.Option(["--encoder"])])
    message = "Open it: load(path, encoder=...), or encoder=english."

    with click.Context(command):
        shown = options_in(message)

    assert shown == "Open it: load(path, encoder=...), or --encoder english."


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
    written = options_in(message)

    assert written.endswith(shown)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["classify", "train"], "No such command 'classify'. Did you mean 'train'?"),
        (["explain", "a dull film"], "The model comes first: pacsent explain MODEL TEXT"),
        (["embed", "a glass of wine"], "echo TEXT | pacsent embed MODEL -"),
        (["search", "red wine", "x"], "Make one: pacsent index MODEL TEXTS -o INDEX"),
        (["predict", "english", "my card"], "echo TEXT | pacsent predict MODEL -"),
    ],
)
def test_a_message_says_what_to_do(line, message):
    done = invoke(line, status=2)

    words = done.output.split()
    assert message in " ".join(words)


def test_help_is_a_command_too():
    invoke("help", status=0)
