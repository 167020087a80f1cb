"""Commands with wrong files, wrong options, damaged folders, closed streams and signals."""

import gzip
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from helpers import all_commands
from hostile.material import (
    LABELLED,
    TEXTS,
    expected,
    write_classifier,
    write_model,
    write_texts,
    write_words,
)
from hostile.running import Case, command, left_behind

# ------------------------------------------------------------------------------------------------
# files that are not what the command needs
# ------------------------------------------------------------------------------------------------

ODD_FILES = {
    "missing": None,
    "empty": b"",
    "blank": b"\n \n\n",
    "binary": bytes(range(256)) * 20,
    "latin-1": "café naïve\n".encode("latin-1") * 5,
    "utf-16": "good film\n".encode("utf-16") * 5,
    "cut gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc",
    "a zip": b"PK\x03\x04" + b"\0" * 100,
    "html": b"<!DOCTYPE html><html><body>Not found</body></html>\n",
    "chinese": "今天天气很好 我们去看电影\n".encode() * 20,
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x03abc\x94.",
}


def put(kind: str, name: str) -> str:
    content = ODD_FILES[kind]
    if content is not None:
        Path(name).write_bytes(content)
    return name


def _run(*arguments, stdin: bytes = b"", output: str | None = None) -> str:
    try:
        command(*arguments, stdin=stdin)
    finally:
        if found := left_behind():
            raise AssertionError(f"left behind: {found}")
    if output is not None and not Path(output).exists():
        return f"said nothing, and there is no {output}"
    return ""


def _texts_for(kind, line, output=None):
    write_words()
    write_model()
    return _run(*[put(kind, "odd") if a == "ODD" else a for a in line.split()], output=output)


def _warned(kind, line):
    """Text without one known word may be taken, if that is said."""
    write_words()
    _, err = command(*[put(kind, "odd") if a == "ODD" else a for a in line.split()])
    return "" if "Warning" in err else "not one known word, and nothing was said"


LEARNED = {("train", "binary"), ("train", "chinese")}  # word vectors of any text may be trained


def odd_files() -> Iterator[Case]:
    doors = {
        "train": "vectors train ODD -o new --n-dims 4 --quiet",
        "fit": "vectors fit PB-L2 words ODD -o new",
        "certify": "paper certify model ODD --quiet",
        "convert": "model convert ODD new",
        "fit with words": "vectors fit PB-L2 ODD odd -o new",
        "evaluate": "paper evaluate PB-L2 ODD --words words --seeds 1",
        "load a model": "embed ODD odd -o new.npy",
    }
    for door, line in doors.items():
        for kind in ODD_FILES:
            if door == "fit" and kind in ("blank", "a zip", "html", "chinese"):
                yield Case(f"{door}: {kind}", lambda k=kind, a=line: _warned(k, a))
                continue
            expect = "either" if (door, kind) in LEARNED else "refused"
            yield Case(f"{door}: {kind}", lambda k=kind, a=line: _texts_for(k, a), expect)
        yield Case(
            f"{door}: a folder",
            lambda a=line: (Path("odd").mkdir(), _texts_for("missing", a))[1],
            "refused",
        )
    for kind in ODD_FILES:  # these may have something to say about any text
        for line, output, expect in (
            ("embed model ODD -o new.npy", "new.npy", "either"),
            ("vectors clean ODD -o new --quiet", "new", "either"),
            ("vectors clean --wiki ODD -o new --quiet", None, "refused"),
        ):
            case = lambda k=kind, a=line, o=output: _texts_for(k, a, o)  # noqa: E731
            yield Case(f"{line}: {kind}", case, expect)


# ------------------------------------------------------------------------------------------------
# tables, for every command that takes texts
# ------------------------------------------------------------------------------------------------

_ROWS = [("id", "text", "label"), *((str(n), *row) for n, row in enumerate(LABELLED))]
_JSON = [dict(zip(_ROWS[0], row)) for row in _ROWS[1:]]


def _separated(rows, comma=",") -> bytes:
    return "".join(comma.join(row) + "\n" for row in rows).encode()


def _jsonl(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(rows) -> bytes:
    import pyarrow
    from pyarrow import parquet

    written = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), written)
    return written.getvalue()


TABLES = {
    "t.csv": lambda: _separated(_ROWS),
    "t.tsv": lambda: _separated(_ROWS, "\t"),
    "t.jsonl": lambda: _jsonl(_JSON),
    "t.parquet": lambda: _parquet(_JSON),
    "t.csv.gz": lambda: gzip.compress(_separated(_ROWS)),
    "bom.csv": lambda: b"\xef\xbb\xbf" + _separated(_ROWS).replace(b"\n", b"\r\n"),
}
BAD_TABLES = {
    "lone.tsv": lambda: b'id\ttext\tlabel\n1\t"unclosed good film\tup\n2\tbad film\tdown\n',
    "lone.csv": lambda: b'id,text,label\n1,"unclosed good film,up\n2,bad film,down\n',
    "comma.csv": lambda: _separated([*_ROWS, ("7", "well, well, well", "up")]),
    "short.csv": lambda: _separated([*_ROWS, ("7",)]),
    "other columns.csv": lambda: b"a,b\n1,2\n",
    "twice.csv": lambda: b"text,text,label\ngood,bad,up\n",
    "utf-16.csv": lambda: _separated(_ROWS).decode().encode("utf-16"),
    "latin-1.csv": lambda: _separated([*_ROWS, ("7", "é", "up")]).decode().encode("latin-1"),
    "null.jsonl": lambda: _jsonl([*_JSON, {"id": "7", "text": None, "label": "up"}]),
    "number.jsonl": lambda: _jsonl([*_JSON, {"id": "7", "text": 5, "label": "up"}]),
    "surrogate.jsonl": lambda: _jsonl([*_JSON, {"id": "7", "text": "\ud800", "label": "up"}]),
    "list.jsonl": lambda: _jsonl([*_JSON, ["a", "b"]]),
    "array.jsonl": lambda: json.dumps(_JSON).encode(),
    "null.parquet": lambda: _parquet([*_JSON, {"id": "7", "text": None, "label": "up"}]),
    "numbers.parquet": lambda: _parquet([{"id": 1, "text": 2, "label": 3}]),
    "cut.parquet": lambda: _parquet(_JSON)[:-9],
    "empty.parquet": lambda: b"",
    "cut.csv.gz": lambda: gzip.compress(_separated(_ROWS))[:-9],
}
_VALUES = {  # of the parameters of commands that take texts; a command with a new one stops here
    "model": "model", "words": "words", "method": "PB-L2", "a": "classifier", "b": "classifier",
    "texts": "TABLE", "data": "TABLE", "first": "TABLE", "second": "TABLE", "sources": "TABLE",
    "dataset": "TABLE", "text": "TABLE", "certificate": "c.json", "output": "new",
    "paths": "TABLE",
}  # fmt: skip
_MORE = {
    "vectors train": "-o new --min-count 1 --n-dims 4 --n-epochs 1 --subsample 0",
    "map": "-o map.html",
    "report": "-o r.html",
    "label": "--labels up,down --encoder none --no-browser --port 0",
    "train": "--encoder none --no-calibration",
    "audit": "--encoder none",
    "certify": "--prediction-column label",
    "paper evaluate": "--words words --seeds 1",
    "monitor": "--alpha 1e-9",
    "embed": "-o v.npy",
    "verify": "model",
    "paper certify": "--random-state 0",
    "distill": "--encoder words --n-subwords 9",
}


def taking_texts() -> Iterator[tuple[str, list]]:
    """Every command that takes texts, as a command line with TABLE in place of a file."""
    classifiers = ("predict", "evaluate", "explain", "report", "monitor")
    for name, one in all_commands().items():
        if all(option.name != "text_column" for option in one.params):
            continue
        line = name.split()
        for parameter in one.params:
            value = _VALUES.get(parameter.name)
            if parameter.param_type_name == "argument" and name + parameter.name != "verifymodel":
                value = "classifier" if (name in classifiers, value) == (True, "model") else value
                line.append(value or parameter.name)
            elif parameter.required:
                line += [parameter.opts[0], value or "new"]
        yield name, [*line, *_MORE.get(name, "").split()]


def _table(name, line, content) -> str:
    write_words()
    write_model()
    write_classifier()
    Path(name).write_bytes(content)
    arguments = [name if word == "TABLE" else word for word in line]
    if line[0] == "verify":
        command("paper", "certify", "model", name, "-o", "c.json", "--random-state", 0)
    _, err = command(*arguments)
    n_rows = f"Read {len(LABELLED)} rows of {name}"
    return "" if n_rows in err else f"took {name} without saying what it read: {err[-200:]!r}"


def tables() -> Iterator[Case]:
    for name, line in taking_texts():
        for table, make in TABLES.items() if name != "label" else ():  # it would open a page
            yield Case(f"{name} {table}", lambda t=table, a=line, m=make: _table(t, a, m()), "ok")
        for table, make in BAD_TABLES.items():
            case = lambda t=table, a=line, m=make: _table(t, a, m())  # noqa: E731
            yield Case(f"{name} {table}", case, "refused")


# ------------------------------------------------------------------------------------------------
# options
# ------------------------------------------------------------------------------------------------

# command line: the words that make it wrong, between bars
BAD_OPTIONS = {
    "embed model t.txt -o v.npy": "--n-jobs x | --n-jobs 0 | --unknown | --output | --on-error x",
    "embed model t.txt": "--pairs one.txt | --pairs nowhere",
    "vectors fit PB-L2 words t.txt -o new": "--lam -1 | --lam 0 | --lam nan | --lam x | "
    "--prior-variance 0 | --batch-size 0 | --lam-mode x | --n-epochs 3 | --n-jobs 0 | "
    "--random-state 1",
    "vectors fit w-PB-neg words t.txt -o new": "--n-epochs 0 | --n-epochs -1 | --learning-rate -1 "
    "| --learning-rate nan | --n-negatives 0 | --noise-power nan | --random-state x | --alpha 1",
    "vectors fit nothing words t.txt -o new": "",
    "vectors train t.txt -o new --min-count 1 --quiet": "--n-dims 0 | --n-dims -3 | --n-dims x | "
    "--window 0 | --n-epochs 0 | --n-negatives 0 | --learning-rate 0 | --learning-rate nan | "
    "--min-count 0 | --min-count 1000000 | --subsample -1 | --normalize x | --n-jobs 0 | "
    "--random-state -1 | --device tpu | --checkpoint-every x | --checkpoint-every -1",
    "vectors neighbours words film": "-k 0 | -k x",
    "vectors neighbours words unknownword": "",
    "vectors clean t.txt -o new": "--n-jobs 0 | --n-jobs x",
    "vectors clean t.txt": "--json",
    "paper certify model t.txt --quiet": "--delta 0 | --delta 1 | --delta nan | --delta x | "
    "--kind Z | --split 2 | --random-state -1 | --method nothing",
    "paper bound --risk 0.2 --kl 1 --n 100": "--risk 2 | --risk nan | --kl -1 | --kl nan | --n 0 | "
    "--n x | --delta 0 | --delta 1 | --delta nan",
    "paper evaluate PB-L2 t.txt --words words": "--seeds 0 | --seeds -1",
    "paper evaluate nothing subj --words words": " | --data nowhere",
    "paper reproduce --words words -o out --data .": "--seeds 0 | --only nothing | --only subj",
    "model convert words new.txt": "--to x | --counts nowhere | --normalize x | --bits 3",
    "model export words new": "--method PB-neg | --method nothing",
    "model export model t.txt": "",
    "model push model no/such/name": "",
    "demo -o t.txt": " | --n-jobs 0",
    "serve words --port 0": "--port -1 | --port 65536 | --port x | --port 1e3 | --host 256.1.1.1 | "
    "--host - | --workers 0 | --workers -1 | --workers x | --api-key-file nowhere | "
    "--api-key-file blank | --api-key-file short | --api-key-file binary | --api-key-file words | "
    "--max-body 0 | --max-body -1 | --max-body x | --timeout 0 | --timeout -1 | --timeout nan | "
    "--timeout inf | --timeout x | --method nothing | --method PB-neg | --method PB-L2x | "
    "--allow-origin nonsense | --reload | words | a=nowhere | nonsense | t.txt | emptied | "
    "no.such:thing | --error 0.1",
    "serve model --port 0": "--method PB-neg x",
    "serve": "nowhere | t.txt | emptied",
    "index model t.txt -o new": "--method | --nothing",
    "index model nowhere -o new": "",
    "search words film": " | -k 0 | -k x | --where x | --guarantee 1",
    "rerank model film t.txt": "-k 0 | -k x | --method x",
    "rerank model film nowhere": "",
    "cluster model t.txt": "-k 0 | -k x",
    "cluster model nowhere": "",
    "distill t.txt -o new": " | --encoder nowhere | --encoder words --vectors t.txt | "
    "--vectors t.txt | --vectors nowhere | --encoder words --n-words 0 | "
    "--encoder words --n-epochs -1 | --encoder words --delta 1 | --encoder t.txt",
    "map model t.txt -o new.html": "-k -1",
    "map model t.txt": " | -o nowhere/map.html",
    "predict words t.txt": " | --error 0 | --error nan | --delta 1",
    "train t.txt -o new": " | --ngrams 0 | --calibration-size 1 | --delta 0",
    "certify words t.txt": " | --delta 0 | --answer-column x",
    "verify nowhere": " | --json",
    "nothing": "",
}


def _option(words):
    write_words()
    write_model()
    write_texts()
    Path("emptied").mkdir()
    for name, content in {"blank": b"\n \n", "short": b"x\n", "binary": bytes(range(256)),
                          "one.txt": b"film\n"}.items():  # fmt: skip
        Path(name).write_bytes(content)
    return _run(*words)


def options() -> Iterator[Case]:
    for line, bad in BAD_OPTIONS.items():
        for option in bad.split("|"):
            wrong = f"{line} {option}"
            yield Case(f"pacsent {' '.join(wrong)}", lambda w=wrong: _option(w), "refused")
    for name in all_commands():
        words = name.split()
        yield Case(f"pacsent {name} --help", lambda w=words: _run(*w, "--help"), "ok")
        if name != "demo":
            yield Case(f"pacsent {name} alone", lambda w=words: _run(*w), "refused")


# ------------------------------------------------------------------------------------------------
# places to write to
# ------------------------------------------------------------------------------------------------


def _output(line, output):
    write_words()
    write_model()
    write_texts()
    Path("file").write_text("precious")
    Path("folder").mkdir()
    Path("folder", "precious").write_text("precious")
    digest = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()}
    try:
        return _run(*[output if a == "OUT" else a for a in line.split()])
    finally:
        changed = [str(p) for p, was in digest.items() if not p.exists() or p.read_bytes() != was]
        if changed:
            raise AssertionError(f"changed or lost: {changed[:4]}")


def outputs() -> Iterator[Case]:
    doors = {
        "train": "vectors train t.txt -o OUT --min-count 1 --n-dims 4 --quiet",
        "fit": "vectors fit PB-L2 words t.txt -o OUT",
        "embed": "embed model t.txt -o OUT",
        "clean": "vectors clean t.txt -o OUT --quiet",
        "convert": "model convert words OUT",
    }
    places = "words", "model", "t.txt", "file", "folder", "file/below", "/proc/x/y"
    for door, line in doors.items():
        for place in (*places, "folder/precious"):
            yield Case(f"{door} -o {place}", lambda a=line, p=place: _output(a, p), "refused")
    for name in ("v", "v.txt", "v.xyz", "nowhere/v.npy", ".npy"):
        yield Case(
            f"embed -o {name}", lambda n=name: _output(doors["embed"], n),
            "either" if name == ".npy" else "refused",
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------
# damaged folders
# ------------------------------------------------------------------------------------------------


def _edit_json(path: Path, key: str, value) -> None:
    content = json.loads(path.read_text())
    content[key] = value
    path.write_text(json.dumps(content))


def _flip(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x10
    path.write_bytes(content)


EDITS = {
    "config.json is gone": lambda m: (m / "config.json").unlink(),
    "config.json is empty": lambda m: (m / "config.json").write_bytes(b""),
    "config.json is a list": lambda m: (m / "config.json").write_text("[]"),
    "config.json is deep": lambda m: (m / "config.json").write_text("[" * 10**5),
    "config.json is binary": lambda m: (m / "config.json").write_bytes(b"\xff\xfe\0"),
    "the tensors are gone": lambda m: (m / "model.safetensors").unlink(),
    "the tensors are empty": lambda m: (m / "model.safetensors").write_bytes(b""),
    "the tensors are cut": lambda m: (m / "model.safetensors").write_bytes(
        (m / "model.safetensors").read_bytes()[:-9]
    ),
    "the words are gone": lambda m: shutil.rmtree(m / "words"),
    "the words' config is gone": lambda m: (m / "words" / "config.json").unlink(),
    "the words are of a file": lambda m: (
        shutil.rmtree(m / "words"),
        (m / "words").write_text("x"),
    ),
    **{
        f"{key} is {value!r}": lambda m, k=key, v=value: _edit_json(m / "config.json", k, v)
        for key in ("format_version", "class", "parameters")
        for value in (None, 99, "x", [], {})
    },
    **{
        f"a bit at {share:.0%} of {name}": lambda m, s=share, n=name: _flip(m / n, s)
        for name in ("model.safetensors", "words/model.safetensors", "config.json",
                     "words/config.json")
        for share in (0, 0.02, 0.1, 0.3, 0.5, 0.8, 1)
    },
}  # fmt: skip


def _damaged(method, edit):
    model = write_model(method)
    edit(model)
    write_texts()
    command("embed", "model", "t.txt", "-o", "v.npy")
    off = float(np.abs(np.load("v.npy") - expected(method)).max())
    return f"other numbers, off by {off}" if not off < 1e-3 else ""


def folders() -> Iterator[Case]:
    for method in ("PB-L2", "PB-IDF-L2", "w-PB-neg"):
        for name, edit in EDITS.items():
            if method != "PB-L2" and not name.startswith("a bit"):
                continue
            yield Case(f"{method}: {name}", lambda m=method, e=edit: _damaged(m, e))


# ------------------------------------------------------------------------------------------------
# streams and signals: processes of their own
# ------------------------------------------------------------------------------------------------


def start(*arguments, **streams) -> subprocess.Popen:
    code = "from pacsent.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        | streams,
    )


def _ended(process, statuses, most_lines=3) -> str:
    _, err = process.communicate(timeout=80)
    said = (err or b"").decode(errors="replace")
    if "Traceback" in said or "Exception ignored" in said:
        raise AssertionError(said[-1200:])
    if process.returncode not in statuses:
        return f"status {process.returncode}, said {said[-300:]!r}"
    if len(said.strip().splitlines()) > most_lines:
        return f"said {said!r}"
    found = left_behind()
    return f"left behind: {found}" if found else ""


def _closed(line, which):
    write_words()
    write_model()
    write_texts()

    def close():
        for number in which:
            os.close(number)

    streams = {"stdin": None, "stdout": None} if {0, 1} & set(which) else {}
    process = start(*line.split(), **streams, preexec_fn=close)
    return _ended(process, (0, 1, 2, 141))


def _full(line):
    write_words()
    write_model()
    write_texts()
    with open("/dev/full", "wb") as full:
        return _ended(start(*line.split(), stdout=full), (1,))


def _gone(line):
    write_words()
    write_model()
    Path("t.txt").write_text("\n".join(TEXTS * 400) + "\n")
    process = start(*line.split())
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    return _ended(process, (0, 1, 141, -signal.SIGPIPE))


def _signalled(line, number):
    write_words()
    write_model()
    Path("t.txt").write_text("\n".join(TEXTS * 30_000) + "\n")
    process = start(*line.split())
    time.sleep(4)
    if process.poll() is None:
        process.send_signal(number)
    return _ended(process, (0, 130, 128 + number), most_lines=6)


def _taken_port():
    write_words()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return _ended(start("serve", "words", "--port", taken.getsockname()[1]), (1,))


def processes() -> Iterator[Case]:
    yield Case("serve on a port that is taken", _taken_port)
    printing = {
        "embed": "embed model t.txt",
        "clean": "vectors clean t.txt --quiet",
        "bound": "paper bound --risk 0.1 --kl 1 --n 100",
        "help": "--help",
        "neighbours": "vectors neighbours words film",
    }
    for name, line in printing.items():
        yield Case(f"{name}, stdout closed", lambda a=line: _closed(a, (1,)))
        yield Case(f"{name}, stdout and stderr closed", lambda a=line: _closed(a, (1, 2)))
        yield Case(f"{name} into a full device", lambda a=line: _full(a))
    for name in ("embed", "clean"):
        yield Case(f"{name} | head -1", lambda n=name: _gone(printing[n]))
    for line in ("embed model", "vectors clean -", "vectors train - -o new"):
        yield Case(f"{line}, stdin closed", lambda a=line: _closed(a, (0,)))
    for line in (
        "vectors train t.txt -o new --min-count 1 --n-epochs 5000 --quiet",
        "embed model t.txt -o v.jsonl",
        "vectors clean t.txt -o new.txt --quiet",
        "vectors fit w-PB-neg words t.txt -o new --n-epochs 5000",
        "demo -o out --quiet",
    ):
        for number in (signal.SIGTERM, signal.SIGINT):
            case = lambda a=line, n=number: _signalled(a, n)  # noqa: E731
            yield Case(f"{line} and {number.name}", case, "ok")


def cases() -> Iterator[Case]:
    yield from odd_files()
    yield from tables()
    yield from options()
    yield from outputs()
    yield from folders()
    yield from processes()
