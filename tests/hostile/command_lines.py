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
from hostile.material import LABELLED, TEXTS, write_files
from hostile.running import Case, command, temporary_files


def _run(*arguments) -> str:
    """Run a command beside the files of `write_files`; stderr."""
    try:
        return command(*arguments)
    finally:
        if names := temporary_files():
            raise AssertionError(f"left behind: {names}")


# ---- tables, for every command that takes texts -------------------------------------------------

_ROWS = [
    ("id", "text", "label", "predicted"),
    *((str(n), text, label, label) for n, (text, label) in enumerate(LABELLED)),
]
_JSON = [dict(zip(_ROWS[0], row)) for row in _ROWS[1:]]


def _csv(rows, comma=",") -> bytes:
    return "".join(comma.join(row) + "\n" for row in rows).encode()


def _jsonl(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(rows) -> bytes:
    written = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), written)
    return written.getvalue()


def _with_text(text) -> list[dict]:
    return [*_JSON, {**_JSON[0], "text": text}]


TABLES = {
    "t.csv": _csv(_ROWS),
    "t.tsv": _csv(_ROWS, "\t"),
    "t.jsonl": _jsonl(_JSON),
    "t.parquet": _parquet(_JSON),
    "t.csv.gz": gzip.compress(_csv(_ROWS)),
    "bom.csv": b"\xef\xbb\xbf" + _csv(_ROWS).replace(b"\n", b"\r\n"),
}
BAD_TABLES = {
    "lone.tsv": b'id\ttext\tlabel\n1\t"unclosed good film\tup\n2\tbad film\tdown\n',
    "lone.csv": b'id,text,label\n1,"unclosed good film,up\n2,bad film,down\n',
    "comma.csv": _csv([*_ROWS, ("7", "well, well, well", "up", "up")]),
    "short.csv": _csv([*_ROWS, ("7",)]),
    "other columns.csv": b"a,b\n1,2\n",
    "twice.csv": b"text,text,label\ngood,bad,up\n",
    "utf-16.csv": _csv(_ROWS).decode().encode("utf-16"),
    "latin-1.csv": _csv([*_ROWS, ("7", "é", "up", "up")]).decode().encode("latin-1"),
    "null.jsonl": _jsonl(_with_text(None)),
    "number.jsonl": _jsonl(_with_text(5)),
    "surrogate.jsonl": _jsonl(_with_text("\ud800")),
    "list.jsonl": _jsonl([*_JSON, ["a", "b"]]),
    "array.jsonl": json.dumps(_JSON).encode(),
    "null.parquet": _parquet(_with_text(None)),
    "numbers.parquet": _parquet([{"id": 1, "text": 2, "label": 3}]),
    "cut.parquet": _parquet(_JSON)[:-9],
    "empty.parquet": b"",
    "cut.csv.gz": gzip.compress(_csv(_ROWS))[:-9],
}
# Arguments of commands that take texts; any other parameter is its own name.
_ARGUMENTS = {"a": "classifier", "b": "classifier", "method": "PB-L2", "certificate": "c.json"}
_ARGUMENTS |= {"output": "new"}
_TABLE_ARGUMENTS = {"texts", "data", "first", "second", "sources", "dataset", "text", "paths"}
_OPTIONS = {
    "vectors train": "-o new --min-count 1 --n-dims 4 --n-epochs 1 --subsample 0",
    "map": "-o map.html",
    "report": "-o r.html",
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


def taking_texts() -> Iterator[tuple[str, list]]:
    """Every command that takes texts, as a command line with TABLE in place of a file."""
    of_classifiers = ("predict", "evaluate", "explain", "report", "monitor")
    for name, definition in all_commands().items():
        if all(option.name != "text_column" for option in definition.params):
            continue
        line = name.split()
        for parameter in definition.params:
            value = _ARGUMENTS.get(parameter.name, parameter.name)
            value = "TABLE" if parameter.name in _TABLE_ARGUMENTS else value
            if (metavar := parameter.metavar or "").endswith(("TEXTS", "TEXTS]...")):
                line += [word.lower() for word in ("MODEL", "QUERY") if word in metavar]
            if parameter.param_type_name == "argument" and name + parameter.name != "verifymodel":
                line.append("classifier" if name in of_classifiers and value == "model" else value)
            elif parameter.required:
                line += [parameter.opts[0], value]
        yield name, [*line, *_OPTIONS.get(name, "").split()]


def _table(name, line, content) -> str:
    write_files()
    Path(name).write_bytes(content)
    if line[0] == "verify":
        command("paper", "continuation", "model", name, "-o", "c.json", "--random-state", 0)
    messages = command(*[name if word == "TABLE" else word for word in line])
    complete = f"Read {len(LABELLED)} rows of {name}" in messages
    return "" if complete else f"no message about the rows of {name}: {messages[-200:]!r}"


def tables() -> Iterator[Case]:
    for name, line in taking_texts():
        for table, content in {**TABLES, **BAD_TABLES}.items():
            if table in TABLES and name == "label":
                continue  # it would open a page
            yield Case(
                f"{name} {table}",
                partial(_table, table, line, content),
                "ok" if table in TABLES else "refused",
            )


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
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    option = [] if line.startswith("model") else ["-o"]
    try:
        _run(*line.split(), *option, output)
    finally:
        changed = [str(p) for p, was in before.items() if not p.exists() or p.read_bytes() != was]
        if changed:
            raise AssertionError(f"changed or removed: {changed[:4]}")


def outputs() -> Iterator[Case]:
    for line, place in itertools.product(OUTPUT_LINES, PLACES):
        yield Case(f"{line} to {place}", partial(_output, line, place), "refused")
    for name in ("v", "v.txt", "v.xyz", "nowhere/v.npy", ".npy"):
        yield Case(
            f"embed -o {name}",
            partial(_output, "embed model t.txt", name),
            "either" if name == ".npy" else "refused",
        )


# ---- streams and signals: processes of their own ------------------------------------------------


def _process(line, *, statuses, use=lambda process: None, n_texts=1, **streams) -> str:
    """Start a command, disturb it by `use`, and look at its status and messages."""
    write_files()
    Path("t.txt").write_text("\n".join(TEXTS * n_texts) + "\n")
    code = "from pacsent.cli import main; main()"
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", code, *line.split()], **defaults | streams)
    use(process)
    messages = (process.communicate(timeout=50)[1] or b"").decode(errors="replace")
    if "Traceback" in messages or "Exception ignored" in messages:
        raise AssertionError(messages[-1200:])
    if process.returncode not in statuses or len(messages.strip().splitlines()) > 6:
        return f"status {process.returncode} with {messages[-300:]!r}"
    names = temporary_files()
    return f"left behind: {names}" if names else ""


def _closed(line, *numbers):
    streams = {"stdin": None, "stdout": None} if {0, 1} & set(numbers) else {}
    close = partial(list, map(os.close, numbers))
    return _process(line, statuses=(0, 1, 2, 141), preexec_fn=close, **streams)


def _full(line):
    with open("/dev/full", "wb") as full:
        return _process(line, statuses=(1,), stdout=full)


def _head(process):
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None


def _signalled(line, number):
    def use(process):
        time.sleep(4)
        if process.poll() is None:
            process.send_signal(number)

    return _process(line, statuses=(0, 130, 128 + number), use=use, n_texts=30_000)


def _occupied_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        return _process(f"serve words --port {other.getsockname()[1]}", statuses=(1,))


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
        statuses = (0, 1, 141, -signal.SIGPIPE)
        yield Case(
            f"{line} | head -1", partial(_process, line, statuses=statuses, use=_head, n_texts=400)
        )
    for line in ("embed model", "vectors clean -", "vectors train - -o new"):
        yield Case(f"{line}, stdin closed", partial(_closed, line, 0))
    for line, number in itertools.product(LONG, (signal.SIGTERM, signal.SIGINT)):
        yield Case(f"{line} and {number.name}", partial(_signalled, line, number), "ok")


def cases() -> Iterator[Case]:
    yield from tables()
    yield from options()
    yield from outputs()
    yield from processes()
