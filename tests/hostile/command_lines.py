"""Commands with wrong files, wrong options, closed streams and signals."""

import gzip
import io
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow
from pyarrow import parquet

from helpers import all_commands
from hostile.material import LABELLED, TEXTS, tree_of, write_files
from hostile.running import Case, command, temporary_files


def _run(*arguments) -> str:
    """Run a command beside the files of `write_files`; stderr."""
    try:
        return command(*arguments)
    finally:
        if names := temporary_files():
            raise AssertionError(f"left behind: {names}")


# ---- tables, for every command that takes texts -------------------------------------------------

COLUMNS = ("id", "text", "label", "predicted")


def _labelled_rows() -> list[tuple[str, ...]]:
    rows = []
    for number, (text, label) in enumerate(LABELLED):
        rows.append((str(number), text, label, label))
    return rows


ROWS = _labelled_rows()
RECORDS = [dict(zip(COLUMNS, row)) for row in ROWS]


def _csv(rows, separator: str = ",") -> bytes:
    lines = [separator.join(row) + "\n" for row in (COLUMNS, *rows)]
    return "".join(lines).encode()


def _csv_with(*cells: str) -> bytes:
    """The table with one more row."""
    return _csv([*ROWS, cells])


def _jsonl(records) -> bytes:
    lines = [json.dumps(record) + "\n" for record in records]
    return "".join(lines).encode()


def _parquet(records) -> bytes:
    written = io.BytesIO()
    table = pyarrow.Table.from_pylist(records)
    parquet.write_table(table, written)
    return written.getvalue()


def _with_text(text) -> list[dict]:
    """The records and one more, whose text this is."""
    odd_record = {**RECORDS[0], "text": text}
    return [*RECORDS, odd_record]


def right_tables() -> Iterator[tuple[str, bytes]]:
    """Names and contents of files that hold the labelled rows."""
    yield "t.csv", _csv(ROWS)
    yield "t.tsv", _csv(ROWS, "\t")
    yield "t.jsonl", _jsonl(RECORDS)
    yield "t.parquet", _parquet(RECORDS)
    yield "t.csv.gz", gzip.compress(_csv(ROWS))

    windows_lines = _csv(ROWS).replace(b"\n", b"\r\n")
    yield "bom.csv", b"\xef\xbb\xbf" + windows_lines


def bad_tables() -> Iterator[tuple[str, bytes]]:
    """Names and contents of files that no command may read as a table."""
    yield "lone.tsv", b'id\ttext\tlabel\n1\t"unclosed good film\tup\n2\tbad film\tdown\n'
    yield "lone.csv", b'id,text,label\n1,"unclosed good film,up\n2,bad film,down\n'
    yield "comma.csv", _csv_with("7", "well, well, well", "up", "up")
    yield "short.csv", _csv_with("7")
    yield "other columns.csv", b"a,b\n1,2\n"
    yield "twice.csv", b"text,text,label\ngood,bad,up\n"

    yield "utf-16.csv", _csv(ROWS).decode().encode("utf-16")
    with_accent = _csv_with("7", "é", "up", "up")
    yield "latin-1.csv", with_accent.decode().encode("latin-1")

    yield "null.jsonl", _jsonl(_with_text(None))
    yield "number.jsonl", _jsonl(_with_text(5))
    yield "surrogate.jsonl", _jsonl(_with_text("\ud800"))
    yield "list.jsonl", _jsonl([*RECORDS, ["a", "b"]])
    yield "array.jsonl", json.dumps(RECORDS).encode()

    yield "null.parquet", _parquet(_with_text(None))
    yield "numbers.parquet", _parquet([{"id": 1, "text": 2, "label": 3}])
    yield "cut.parquet", _parquet(RECORDS)[:-9]
    yield "empty.parquet", b""
    yield "cut.csv.gz", gzip.compress(_csv(ROWS))[:-9]


# ---- commands that take texts --------------------------------------------------------------------

# Arguments of commands that take texts; any other parameter is its own name.
_ARGUMENTS = {
    "a": "classifier",
    "b": "classifier",
    "method": "PB-L2",
    "certificate": "c.json",
    "output": "new",
}
_TABLE_ARGUMENTS = {"texts", "data", "first", "second", "sources", "dataset", "text", "paths"}
_OPTIONS = {
    "vectors train": "-o new --min-count 1 --n-dims 4 --n-epochs 1 --subsample 0",
    "map": "-o map.html",
    "report": "-o r.html",
    "evaluate": "--prediction-column predicted",
    "check": "--no-browser --port 0",
    "label": "--labels up,down --encoder none --no-browser --port 0",
    "train": "--encoder none --no-calibration",
    "audit": "--encoder none",
    "certify": "--prediction-column predicted",
    "paper score": "--encoder words --seeds 1",
    "monitor": "--delta 1e-9",
    "embed": "-o v.npy",
    "verify": "model",
    "paper continuation": "--random-state 0",
    "distill": "--encoder words --n-subwords 9",
}


_OPENING_PAGES = ("label", "check")
_OF_CLASSIFIERS = ("predict", "evaluate", "explain", "report", "monitor")


def _value_of(name: str, parameter) -> str:
    """What the command `name` gets for a parameter."""
    if parameter.name in _TABLE_ARGUMENTS:
        return "TABLE"
    if parameter.name == "model" and name in _OF_CLASSIFIERS:
        return "classifier"
    return _ARGUMENTS.get(parameter.name, parameter.name)


def _words_of(name: str, parameter) -> list[str]:
    """The words of a command line for one parameter of the command `name`."""
    words = []
    metavar = parameter.metavar or ""
    if metavar.endswith(("TEXTS", "TEXTS]...")):  # such as MODEL TEXTS, one parameter for both
        words += [word.lower() for word in ("MODEL", "QUERY") if word in metavar]

    value = _value_of(name, parameter)
    if parameter.param_type_name == "argument" and (name, parameter.name) != ("verify", "model"):
        words.append(value)
    elif parameter.required:
        words += [parameter.opts[0], value]
    return words


def taking_texts() -> Iterator[tuple[str, list]]:
    """Every command that takes texts, as a command line with TABLE in place of a file."""
    for name, definition in all_commands().items():
        if all(option.name != "text_column" for option in definition.params):
            continue

        line = name.split()
        for parameter in definition.params:
            line += _words_of(name, parameter)
        yield name, [*line, *_OPTIONS.get(name, "").split()]


def _run_on_table(name: str, line: list[str], content: bytes) -> str:
    write_files()
    Path(name).write_bytes(content)
    if line[0] == "verify":
        command("paper", "continuation", "model", name, "-o", "c.json", "--random-state", 0)

    words = [name if word == "TABLE" else word for word in line]
    messages = command(*words)

    if f"Read {len(LABELLED)} rows of {name}" in messages:
        return ""
    return f"no message about the rows of {name}: {messages[-200:]!r}"


def tables() -> Iterator[Case]:
    right = list(right_tables())
    bad = list(bad_tables())
    for name, line in taking_texts():
        for table, content in right:
            if name not in _OPENING_PAGES:
                yield Case(f"{name} {table}", partial(_run_on_table, table, line, content), "ok")
        for table, content in bad:
            run = partial(_run_on_table, table, line, content)
            yield Case(f"{name} {table}", run, "refused")


# ---- options ------------------------------------------------------------------------------------

ODD_FILES = {
    "blank": b"\n \n",
    "short": b"x\n",
    "binary": bytes(range(256)),
    "utf-16": "good film\n".encode("utf-16"),
    "zip": b"PK\x03\x04" + b"\0" * 100,
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x03abc\x94.",
}
# command line: what makes it wrong, between bars
BAD_OPTIONS = {
    "model convert": "binary new | blank new | pickle new | zip new | emptied new | nowhere new",
    "embed": "binary t.txt -o v.npy | emptied t.txt -o v.npy | nowhere t.txt -o v.npy",
    "vectors train -o new --quiet": "blank | utf-16 | zip | emptied | nowhere",
    "vectors fit PB-L2 -o new": "binary t.txt | words utf-16 | words emptied | words nowhere",
    "vectors clean --wiki -o new --quiet": "blank | binary | t.txt | emptied | nowhere",
    "paper continuation model --quiet": "blank | binary | utf-16 | emptied | nowhere",
    "embed model t.txt -o v.npy": "--n-jobs x | --n-jobs 0 | --unknown | --output | --on-error x",
    "embed model t.txt": "--pairs one.txt | --pairs nowhere",
    "vectors fit PB-L2 words t.txt -o new": "--lam -1 | --lam nan | --lam x | --lam-mode x | "
    "--n-epochs 3 | --n-jobs 0 | --random-state 1",
    "vectors fit w-PB-neg words t.txt -o new": "--n-epochs 0 | --learning-rate nan | --alpha 1",
    "vectors fit nothing words t.txt -o new": "",
    "vectors train t.txt -o new --min-count 1 --quiet": "--n-dims 0 | --window 0 | --n-epochs 0 | "
    "--learning-rate nan | --min-count 1000000 | --normalize x | --device tpu | "
    "--checkpoint-every x",
    "vectors neighbours words": "film -k 0 | film -k x | unknownword",
    "vectors clean t.txt": "--json | -o new --n-jobs 0 | -o new --n-jobs x",
    "paper continuation model t.txt --quiet": "--delta 0 | --delta nan | --kind Z | --split 2 | "
    "--random-state -1 | --method nothing",
    "paper score": "PB-L2 t.txt --encoder words --seeds 0 | nothing subj --encoder words",
    "paper reproduce --encoder words -o out --data .": "--seeds 0 | --only nothing | --only subj",
    "model convert words new.txt": "--to x | --counts nowhere | --normalize x | --bits 3",
    "model export": "words -o new.html | model -o t.txt",
    "demo -o t.txt": " | --n-jobs 0",
    "serve words --port 0": "--port -1 | --port 65536 | --port x | --host 256.1.1.1 | --host - | "
    "--workers 0 | --workers x | --api-key-file nowhere | --api-key-file blank | "
    "--api-key-file short | --api-key-file binary | --api-key-file words | --max-body 0 | "
    "--max-body x | --timeout 0 | --timeout nan | --timeout inf | --method nothing | "
    "--allow-origin nonsense | --reload | words | a=nowhere | t.txt | emptied | no.such:thing",
    "serve": "nowhere | t.txt | emptied",
    "index model": "t.txt -o new --nothing | nowhere -o new",
    "search words film": " | -k 0 | --where x | --guarantee 1",
    "rerank model film": "t.txt -k 0 | t.txt --method x | nowhere",
    "cluster model": "t.txt -k 0 | t.txt -k x | nowhere",
    "distill t.txt -o new": " | --encoder nowhere | --encoder words --vectors t.txt | "
    "--vectors t.txt | --vectors nowhere | --encoder words --n-words 0 | --encoder t.txt",
    "map model t.txt": " | -o nowhere/map.html | -o new.html -k -1",
    "predict words t.txt": " | --error 0 | --error nan | --delta 1",
    "train t.txt -o new": " | --ngrams 0 | --calibration-size 1 | --delta 0",
    "certify words t.txt": " | --delta 0 | --answer-column x",
    "verify nowhere": " | --json",
    "nothing": "",
}


def _option(line):
    write_files()
    Path("emptied").mkdir()
    Path("one.txt").write_text("film\n")
    for name, content in ODD_FILES.items():
        Path(name).write_bytes(content)
    _run(*line.split())


def options() -> Iterator[Case]:
    for line, bad in BAD_OPTIONS.items():
        for option in bad.split("|"):
            wrong = f"{line} {option.strip()}"
            yield Case(f"pacsent {wrong}", partial(_option, wrong), "refused")
    for name in all_commands():
        yield Case(f"pacsent {name} --help", lambda n=name: _option(f"{n} --help"), "ok")
        if name != "demo":
            yield Case(f"pacsent {name} alone", partial(_option, name), "refused")


# ---- places to write to -------------------------------------------------------------------------

OUTPUT_LINES = (
    "vectors train t.txt --min-count 1 --n-dims 4 --quiet",
    "vectors fit PB-L2 words t.txt",
    "embed model t.txt",
    "vectors clean t.txt --quiet",
    "model convert words",
)
PLACES = ["words", "model", "t.txt", "file", "folder", "file/below", "/proc/x/y", "folder/precious"]


def _output(line, output):
    write_files()
    Path("file").write_text("precious")
    Path("folder").mkdir()
    Path("folder", "precious").write_text("precious")
    before = tree_of(Path())
    option = [] if line.startswith("model") else ["-o"]
    try:
        _run(*line.split(), *option, output)
    finally:
        after = tree_of(Path())
        changed = [name for name, content in before.items() if after.get(name) != content]
        if changed:
            raise AssertionError(f"changed or removed: {changed[:4]}")


def outputs() -> Iterator[Case]:
    for line, place in itertools.product(OUTPUT_LINES, PLACES):
        yield Case(f"{line} to {place}", partial(_output, line, place), "refused")
    embed = partial(_output, "embed model t.txt")
    for name in ("v", "v.txt", "v.xyz", "nowhere/v.npy"):
        yield Case(f"embed -o {name}", partial(embed, name), "refused")
    yield Case("embed -o .npy", partial(embed, ".npy"), "either")


# ---- streams and signals: processes of their own ------------------------------------------------


def _do_nothing(process):
    pass


def _start(line: str, **streams) -> subprocess.Popen:
    code = "from pacsent.cli import main; main()"
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-c", code, *line.split()]
    return subprocess.Popen(words, **defaults | streams)


def _process(line, *, statuses, use=_do_nothing, n_texts=1, **streams) -> str:
    """Start a command, disturb it by `use`, and look at its status and messages."""
    write_files()
    Path("t.txt").write_text("\n".join(TEXTS * n_texts) + "\n")
    process = _start(line, **streams)
    use(process)

    _, errors = process.communicate(timeout=50)
    messages = (errors or b"").decode(errors="replace")
    if "Traceback" in messages or "Exception ignored" in messages:
        raise AssertionError(messages[-1200:])

    n_lines = len(messages.strip().splitlines())
    if process.returncode not in statuses or n_lines > 6:
        return f"status {process.returncode} with {messages[-300:]!r}"
    names = temporary_files()
    return f"left behind: {names}" if names else ""


def _closed(line, *numbers):
    """A command whose file descriptors with these numbers are closed."""

    def close():
        for number in numbers:
            os.close(number)

    streams = {}
    if 0 in numbers or 1 in numbers:
        streams = {"stdin": None, "stdout": None}
    return _process(line, statuses=(0, 1, 2, 141), preexec_fn=close, **streams)


def _full(line):
    with open("/dev/full", "wb") as full:
        return _process(line, statuses=(1,), stdout=full)


def _read_one_line(process):
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None


def _head(line):
    statuses = (0, 1, 141, -signal.SIGPIPE)
    return _process(line, statuses=statuses, use=_read_one_line, n_texts=400)


def _signalled(line, number):
    def send_signal(process):
        time.sleep(4)
        if process.poll() is None:
            process.send_signal(number)

    statuses = (0, 130, 128 + number)
    return _process(line, statuses=statuses, use=send_signal, n_texts=30_000)


def _occupied_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        _, port = other.getsockname()
        return _process(f"serve words --port {port}", statuses=(1,))


PRINTING = (
    "embed model t.txt",
    "vectors clean t.txt --quiet",
    "--help",
    "vectors neighbours words film",
)
LONG = (
    "vectors train t.txt -o new --min-count 1 --n-epochs 5000 --quiet",
    "embed model t.txt -o v.jsonl",
    "vectors clean t.txt -o new.txt --quiet",
    "vectors fit w-PB-neg words t.txt -o new --n-epochs 5000",
    "demo -o out --quiet",
)


def processes() -> Iterator[Case]:
    yield Case("serve on an occupied port", _occupied_port)
    for line in PRINTING:
        yield Case(f"{line}, stdout closed", partial(_closed, line, 1))
        yield Case(f"{line}, stdout and stderr closed", partial(_closed, line, 1, 2))
        yield Case(f"{line} into a full device", partial(_full, line))
    for line in PRINTING[:2]:
        yield Case(f"{line} | head -1", partial(_head, line))
    for line in ("embed model", "vectors clean -", "vectors train - -o new"):
        yield Case(f"{line}, stdin closed", partial(_closed, line, 0))
    for line, number in itertools.product(LONG, (signal.SIGTERM, signal.SIGINT)):
        yield Case(f"{line} and {number.name}", partial(_signalled, line, number), "ok")


def cases() -> Iterator[Case]:
    yield from tables()
    yield from options()
    yield from outputs()
    yield from processes()
