"""What comes from outside: containers, encoders on URLs, folders of others, filters, journals."""

import contextlib
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache, partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

import pacsent
from hostile import damage
from hostile.material import TEXTS, WORDS, tree_of, write_tree
from hostile.running import Case, Refused, command
from http_servers import Handler
from pacsent.sentences.external_encoders import as_encoder
from pacsent.sentences.remote_encoder import RemoteEncoder
from pacsent.web.labelling import Labelling

# ---- rows that were fitted, in another container ------------------------------------------------

N_ROWS = 24
LABELS = ["up", "down"] * (N_ROWS // 2)
ROWS = {
    "texts": [f"{WORDS[i % 8]} own{i} words{i} that{i} differ{i} alone{i}" for i in range(N_ROWS)],
    "numbers": [[float(i), 0.0, i / 3] for i in range(N_ROWS)],
    "mixed rows": [[f"word{i}", i, i / 3] for i in range(N_ROWS)],
}
FORMS = {
    "texts": {
        "list": list,
        "tuple": tuple,
        "generator": lambda rows: (row for row in rows),
        "array": np.array,
        "object array": lambda rows: np.array(rows, object),
        "Series": lambda rows: pd.Series(rows, index=range(N_ROWS, 0, -1)),
        "pyarrow Series": lambda rows: pd.Series(rows, dtype="string[pyarrow]"),
        "pyarrow array": pa.array,
        "chunked array": lambda rows: pa.chunked_array([rows[:5], rows[5:]]),
        "DataFrame": lambda rows: pd.DataFrame({"body": rows}),
        "pyarrow table": lambda rows: pa.table({"body": rows}),
    },
    "mixed rows": {
        "lists": list,
        "tuples": lambda rows: list(map(tuple, rows)),
        "object array": lambda rows: np.array(rows, object),
        "list of arrays": lambda rows: [np.array(row, object) for row in rows],
        "DataFrame": lambda rows: pd.DataFrame(rows, columns=list("abc")),
        "pyarrow table": lambda rows: pa.table(pd.DataFrame(rows, columns=list("abc"))),
    },
}
FORMS["numbers"] = FORMS["mixed rows"] | {
    "list of numeric arrays": lambda rows: list(map(np.array, rows)),
    "array": np.array,
    "Fortran array": lambda rows: np.array(rows, order="F"),
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "sparse array": lambda rows: sparse.csr_array(np.array(rows)),
}


class AnyRows(ClassifierMixin, BaseEstimator):
    """Takes rows in any container and learns nothing."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.resize(self.classes_, X.shape[0] if hasattr(X, "shape") else len(X))

    def predict_proba(self, X):
        return np.full((len(self.predict(X)), 2), 0.5)


def _certify_fitted(first, second, fitted_rows, rows):
    certified = pacsent.CertifiedClassifier(AnyRows(), calibration_size=0.3, random_state=0)
    certified.fit(first(fitted_rows), LABELS)
    certificate = pacsent.certify.certify(certified, second(rows), LABELS)
    n_unseen = round(0.3 * N_ROWS)
    return "" if certificate.n == n_unseen else f"{certificate.n} rows count, not {n_unseen}"


def containers() -> Iterator[Case]:
    for rows, forms in FORMS.items():
        for (a, first), (b, second) in itertools.product(forms.items(), repeat=2):
            run = partial(_certify_fitted, first, second, ROWS[rows], ROWS[rows])
            yield Case(f"certify {rows} in {b} that were fitted in {a}", run, "refused")
    near = [text.replace("that", "which") for text in ROWS["texts"]]
    for (a, first), (b, second) in itertools.product(FORMS["texts"].items(), repeat=2):
        run = partial(_certify_fitted, first, second, ROWS["texts"], near)
        yield Case(f"certify near-duplicates in {b} of texts in {a}", run, "ok")


# ---- encoders on URLs ---------------------------------------------------------------------------

KEY = "a-key-that-nobody-else-may-see"
PLAIN = ["one", "two words", "three more words"]


def vector(text: str, size: int = 3) -> list[float]:
    return [len(text), text.count("o"), *[1.0] * (size - 2)]


def right_body(texts, size=3):
    return {"data": [{"index": i, "embedding": vector(t, size)} for i, t in enumerate(texts)]}


class Server(ThreadingHTTPServer):
    """A server of embeddings in a thread; `answer(handler, texts)` may replace the right answer."""

    def __init__(self, answer=None):
        self.requests, self.answer = [], answer
        super().__init__(("127.0.0.1", 0), EmbeddingsHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class EmbeddingsHandler(Handler):
    def do_GET(self):
        self.server.requests.append(dict(self.headers))
        texts = json.loads(self.body() or b"{}").get("input", [])
        with contextlib.suppress(OSError):
            if self.server.answer is None:
                self.answer(right_body(texts))
            else:
                self.server.answer(self, texts)

    do_POST = do_GET


def _rows(change):
    """An answer whose list of rows was changed."""
    return lambda handler, texts: handler.answer({"data": change(right_body(texts)["data"])})


def _field(name, *values):
    """An answer with these values of a field, repeated."""
    return _rows(
        lambda rows: [{**row, name: value} for row, value in zip(rows, itertools.cycle(values))]
    )


def _endless(handler, piece=b" " * 65536, pause=0.0):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(piece)
        time.sleep(pause)


RIGHT_ANSWERS = {
    "as it should": None,
    "in another order": _rows(lambda rows: rows[::-1]),
    "without any index": _rows(lambda rows: [{"embedding": row["embedding"]} for row in rows]),
    "with more fields": lambda handler, texts: handler.answer(right_body(texts) | {"x": [1]}),
}
WRONG_ANSWERS = {
    "one index twice": _field("index", 0),
    "indexes from one on": _rows(lambda rows: [{**row, "index": row["index"] + 1} for row in rows]),
    "indexes of text": _rows(lambda rows: [{**row, "index": str(row["index"])} for row in rows]),
    "indexes true and false": _field("index", False, True, 2),
    "fractional indexes": _rows(lambda rows: [{**r, "index": float(r["index"])} for r in rows]),
    "negative indexes": _field("index", -1, -2, -3),
    "one index missing": _field("index", 0, 1, None),
    "lists for indexes": _field("index", [0]),
    "too few rows": _rows(lambda rows: rows[:-1]),
    "too many rows": _rows(lambda rows: [*rows, rows[0]]),
    "no rows": _rows(lambda rows: []),
    "rows that are lists": _rows(lambda rows: [row["embedding"] for row in rows]),
    "vectors of several sizes": _field("embedding", [1.0, 2.0], [1.0]),
    "empty vectors": _field("embedding", []),
    "vectors of text": _field("embedding", ["a", "b"]),
    "base64": _field("embedding", "AACAPwAAAEA="),
    "numbers for vectors": _field("embedding", 1.0),
    "nested vectors": _field("embedding", [[1.0, 2.0]]),
    "null in vectors": _field("embedding", [1.0, None]),
    "nan": _field("embedding", [1.0, float("nan")]),
    "1e999": lambda handler, texts: handler.answer(b'{"data": [{"embedding": [1e999]}]}'),
    "a list": lambda handler, texts: handler.answer([]),
    "an error with status 200": lambda handler, texts: handler.answer({"error": "no such model"}),
    "nothing": lambda handler, texts: handler.answer(b""),
    "HTML": lambda handler, texts: handler.answer(b"<html>\nhello\n</html>"),
    "deep JSON": lambda handler, texts: handler.answer(b"[" * 100_000),
    "not UTF-8": lambda handler, texts: handler.answer(b'{"data": "\xff"}'),
    "no HTTP": lambda handler, texts: handler.wfile.write(b"\x00\x01 hello\r\n\r\n"),
    "a closed connection": lambda handler, texts: None,
    "a long header": lambda handler, texts: handler.answer({}, x=70_000 * "y"),
    "a cut body": lambda handler, texts: handler.answer(b"{}", Content_Length=1000),
    "broken chunks": lambda handler, texts: handler.answer(b"zz\r\n", Transfer_Encoding="chunked"),
    "an endless body": lambda handler, texts: _endless(handler),
    "an endless slow body": lambda handler, texts: _endless(handler, b" ", 0.1),
    **{
        f"status {status}": lambda handler, texts, s=status: handler.answer(b"a\nb", s)
        for status in (204, 400, 401, 403, 404, 413, 429, 500, 503)
    },
    **{
        f"status 429 and Retry-After {after}": lambda handler, texts, a=after: handler.answer(
            b"", 429, Retry_After=a
        )
        for after in ("nan", "-1", "-inf", "0", "Wed, 21 Oct 2026 07:28:00 GMT", "x" * 100)
    },
}


def _remote(url) -> RemoteEncoder:
    return RemoteEncoder(url, key=KEY, cache="cache", n_retries=1, timeout=1)


def _encode(answer):
    try:
        vectors = _remote(Server(answer).url).encode(PLAIN)
    except Exception as error:
        if KEY in str(error):
            raise AssertionError("the message contains the key") from None
        raise
    return "" if vectors.tolist() == [vector(text) for text in PLAIN] else f"{vectors}"


def _redirected(status, place):
    other = Server()
    target = other.url if place == "another host" else "/v1/other"
    server = Server(lambda handler, texts: handler.answer(b"", status, Location=target))
    with contextlib.suppress(ConnectionError):
        _remote(server.url).encode(PLAIN)
        return "was followed"
    if other.requests or len(server.requests) > 2:
        return f"sent {other.requests}"
    raise Refused("not followed")


def _size_changes():
    server = Server()
    encoder = _remote(server.url)
    encoder.encode(PLAIN)
    server.answer = lambda handler, texts: handler.answer(right_body(texts, 5))
    with contextlib.suppress(ValueError):
        encoder.encode(["new"])
        return "was accepted"
    same = encoder.encode(PLAIN).tolist() == [vector(text) for text in PLAIN]
    return "" if same else "the stored vectors changed"


def _cache_changes(place):
    """A byte of the cache changes: its vector is requested again, or the file is refused."""
    encoder = _remote(Server().url)
    encoder.encode(PLAIN)
    [file] = Path("cache").iterdir()
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0x10
    file.write_bytes(content)
    vectors = encoder.encode(PLAIN)
    return "" if vectors.tolist() == [vector(text) for text in PLAIN] else f"{vectors}"


def urls() -> Iterator[Case]:
    for name, answer in RIGHT_ANSWERS.items():
        yield Case(f"a server answers {name}", partial(_encode, answer), "ok")
    for name, answer in WRONG_ANSWERS.items():
        yield Case(f"a server answers with {name}", partial(_encode, answer), "refused")
    for status, place in itertools.product((301, 302, 303, 307, 308), ("another host", "a path")):
        yield Case(f"status {status} to {place}", partial(_redirected, status, place), "refused")
    yield Case("the vectors of a server change their size", _size_changes, "ok")
    for place in np.linspace(0, 1, 33):
        yield Case(f"a byte at {place:.0%} of the cache", partial(_cache_changes, place))
    for url in ("", "127.0.0.1", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://[::"):
        yield Case(f"the URL {url!r}", lambda u=url: _remote(u).encode(PLAIN), "refused")
    for key in (f"{KEY}\n", f"{KEY}\r\nHost: x", "é", "\0"):
        yield Case(
            f"the key {key!r}", partial(RemoteEncoder, "http://127.0.0.1:9/v1", key=key), "refused"
        )


# ---- model folders of others --------------------------------------------------------------------


def _save_model(kind, url) -> None:
    encoder = as_encoder(url)
    if kind == "an encoder":
        model = encoder
    elif kind == "two encoders":
        model = as_encoder([encoder, "english"]).fit([])
    elif kind == "an index":
        model = pacsent.Index(encoder)
        model.add(TEXTS)
    else:
        model = pacsent.TextClassifier(encoder)
        if kind == "a certified classifier":
            model = pacsent.CertifiedClassifier(model, calibration_size=0.4, random_state=0)
        texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 3)]
        model.fit(texts, ["up" if "joy" in text else "down" for text in texts])
    pacsent.save(model, "model")


def _use(model) -> None:
    if hasattr(model, "search"):
        model.search("good film")
    elif hasattr(model, "predict"):
        model.predict(TEXTS)
    else:
        model.encode(TEXTS)


def _strings(value, path=()) -> Iterator[tuple]:
    """The paths of all texts in a JSON value."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            yield from _strings(child, (*path, key))
    elif isinstance(value, str):
        yield path


def _foreign(kind, use, expect) -> str | None:
    """Nothing is sent to a server that a folder names, unless the user names it too."""
    os.environ["OPENAI_API_KEY"], os.environ["XDG_CACHE_HOME"] = KEY, "cache"
    server = Server()
    _save_model(kind, server.url)
    Path("t.txt").write_text("\n".join(TEXTS) + "\n")
    server.requests.clear()
    try:
        use(server)
    finally:
        if bool(server.requests) != (expect == "ok"):
            raise AssertionError(f"the server received {len(server.requests)} requests")


def _url_in_every_text(server) -> None:
    tree = {f"m/{name}": content for name, content in tree_of(Path("model")).items()}
    for folder in damage.folders_of(tree):
        config = json.loads(tree[f"{folder}/{damage.CONFIG}"])
        for path in _strings(config):
            changed = json.loads(json.dumps(config))
            node = changed
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = server.url
            write_tree(damage.signed(tree, folder, config=changed), Path("other"))
            with contextlib.suppress(ValueError, OSError, ImportError):
                _use(pacsent.load("other/m"))
    raise Refused("never contacted")


def foreign_folders() -> Iterator[Case]:
    lines = {
        "an encoder": ("embed model t.txt -o v.npy", "index model t.txt -o new", "serve model"),
        "two encoders": ("embed model t.txt -o v.npy", "map model t.txt -o map.html"),
        "an index": ("search model film", "serve model"),
        "a classifier": ("predict model t.txt", "explain model film", "serve model"),
        "a certified classifier": ("predict model t.txt", "monitor model t.txt", "serve model"),
    }
    for kind, commands in lines.items():
        uses = {
            "load": (lambda server: _use(pacsent.load("model")), "refused"),
            "load(encoder=another)": (
                lambda server: _use(
                    pacsent.load("model", encoder=lambda t: np.eye(3)[[0] * len(t)])
                ),
                "refused",
            ),
            "load(encoder=URL)": (
                lambda server: _use(pacsent.load("model", encoder=server.url)),
                "ok",
            ),
            "its URL in every text": (_url_in_every_text, "refused"),
        }
        for line in commands:
            words = [*line.split(), *(["--port", "0"] if line.startswith("serve") else [])]
            uses[f"pacsent {line}"] = (lambda server, w=words: command(*w), "refused")
        for name, (use, expect) in uses.items():
            yield Case(f"a folder of {kind}: {name}", partial(_foreign, kind, use, expect), expect)


# ---- filters ------------------------------------------------------------------------------------

METADATA = {
    "year": [2018, 2019, 2020, 2021, 2020, None],
    "tag": ["a", "b", "a", "2020", None, "c"],
    "flag": [True, False, True, None, False, True],
    "score": [0.5, 1.0, 2.5, float("nan"), -1.0, 1.0],
}
MATCHES = [  # filter, rows
    ({}, [0, 1, 2, 3, 4, 5]),
    ({"year": 2020}, [2, 4]),
    ({"year": 2020.0}, [2, 4]),
    ({"year": np.int64(2020)}, [2, 4]),
    ({"year": range(2019, 2021)}, [1, 2, 4]),
    ({"year": np.arange(2019, 2021)}, [1, 2, 4]),
    ({"year": {2018, 2021}}, [0, 3]),
    ({"year": (2018,)}, [0]),
    ({"year": []}, []),
    ({"year": None}, [5]),
    ({"year": {">": 2019}}, [2, 3, 4]),
    ({"year": {">=": np.float32(2019), "<": 2021}}, [1, 2, 4]),
    ({"year": {"!=": 2020}}, [0, 1, 3]),
    ({"year": 2020, "flag": True}, [2]),
    ({"tag": "a"}, [0, 2]),
    ({"tag": np.str_("a")}, [0, 2]),
    ({"tag": np.array(["b", "c"])}, [1, 5]),
    ({"tag": {">": "a"}}, [1, 5]),
    ({"flag": True}, [0, 2, 5]),
    ({"flag": np.True_}, [0, 2, 5]),
    ({"flag": [np.False_]}, [1, 4]),
    ({"score": 1}, [1, 5]),
    ({"score": {"<=": 1}}, [0, 1, 4, 5]),
    ({"score": float("nan")}, [3]),
    ({"year": ["2020", True]}, []),
    ({"tag": 2020}, []),
    ({"flag": 1}, []),
]
REJECTED = [
    {"nothing": 1},
    {"Year": 2020},
    {1: 2},
    {"tag": b"a"},
    {"year": {"!=": [2020]}},
    {"year": {"!=": "2020"}},
    {"year": {">": "2019"}},
    {"year": {">": None}},
    {"year": {">": float("nan")}},
    {"year": {"=": 2020}},
    {"year": {"==": 2020}},
    {"year": {}},
    {"year": {"in": [2020]}},
    {"year": (year for year in (2020,))},
    {"year": map(int, ["2020"])},
    {"year": lambda year: year > 2019},
    {"year": [[2020]]},
    {"year": 2020 + 0j},
    {"year": pd.Series([2020]).items()},
    {"year": object()},
    [("year", 2020)],
    "year=2020",
    2020,
    lambda row: True,
]


@cache
def _index():
    from hostile.material import new

    index = pacsent.Index(new("Average").fit([]), lexical=True)
    index.add(TEXTS[:6], metadata=METADATA)
    return index


def _filtered(where, rows):
    hits = sorted(hit.id for hit in _index().search("good film quiet", k=6, where=where))
    return "" if hits == rows else f"{hits} in place of {rows}"


def filters() -> Iterator[Case]:
    for number, (where, rows) in enumerate(MATCHES):
        yield Case(f"{number}: where={where!r}", partial(_filtered, where, rows), "ok")
    for number, where in enumerate(REJECTED):
        yield Case(f"{number}: where={where!r}", partial(_filtered, where, None), "refused")


# ---- journals of the labelling page -------------------------------------------------------------

POOL = [f"{WORDS[i % 8]} pool{i} text{i} with{i} its{i} own{i}" for i in range(30)]


def _open(folder="labels"):
    return Labelling(POOL, ["up", "down"], folder, encoder=None)


@cache
def _journal() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        with _open(folder) as labelling:
            for row in range(8):
                labelling.answer(row, ["up", "down"][row % 2], "ann")
            labelling.undo("ann")
            labelling.answer(9, None, "bob")
        return Path(folder, "journal.jsonl").read_bytes().splitlines(keepends=True)


def _edit(**fields):
    return lambda line: json.dumps({**json.loads(line), **fields}).encode() + b"\n"


HEADS = [
    {"pacsent_labels": 99},
    {"classes": ["up"]},
    {"classes": None},
    {"texts": "x"},
    {"evaluation_size": 0.1},
    {"delta": 0.2},
    *({"seed": seed} for seed in ("x", -1, 0.5, None, [], True)),
]
BAD_LINES = {
    "an empty line": lambda line: b"\n",
    "half a line": lambda line: line[: len(line) // 2] + b"\n",
    "two lines in one": lambda line: line.strip() + line,
    "zero bytes": lambda line: b"\0" * len(line) + b"\n",
    "no UTF-8": lambda line: b"\xff\xfe" + line,
    "a list": lambda line: b"[]\n",
    "a text": lambda line: b'"row"\n',
    "deep JSON": lambda line: b"[" * 100_000 + b"\n",
    "a long number": lambda line: b'{"row": ' + b"9" * 5000 + b"}\n",
    "no fields": lambda line: b"{}\n",
    "no label": lambda line: b'{"row": 1}\n',
    **{
        f"{name} {value!r}": _edit(**{name: value})
        for name, values in {
            "row": (-1, 30, 1.0, 0.5, True, "1", None, [], float("nan"), float("inf"), 10**30),
            "label": ("other", "UP", 0, True, [], {}),
            "who": (None, 3, [], {}),
            "undo": (99, -1, None, "x", []),
        }.items()
        for value in values
    },
}


def _damaged_journal(lines, expected=None):
    Path("labels").mkdir()
    Path("labels/journal.jsonl").write_bytes(b"".join(lines))
    with _open() as labelling:
        labels = labelling.labels()
        labelling.status()
        task = labelling.next("ann")
        labelling.answer(task.row, "up", "ann")
    with _open() as labelling:
        again = labelling.labels()
    if again != {**labels, task.row: "up"}:
        return "the answer after it was lost"
    return "" if expected is None or labels == expected else f"{labels} in place of {expected}"


def journals() -> Iterator[Case]:
    lines = _journal()
    right = {row: ["up", "down"][row % 2] for row in range(7)}
    yield Case("a journal as it was", lambda: _damaged_journal(lines, right), "ok")
    yield Case("an empty journal", lambda: _damaged_journal([], {}), "ok")
    for cut in (1, 20, len(lines[-1]) - 1):
        torn = [*lines[:-1], lines[-1][:cut]]
        yield Case(
            f"a journal whose last line ends after {cut} bytes",
            partial(_damaged_journal, torn, right),
            "ok",
        )
    for change in HEADS:
        run = partial(_damaged_journal, [_edit(**change)(lines[0]), *lines[1:]])
        yield Case(f"a journal with {change}", run, "refused")
    for (name, change), number in itertools.product(BAD_LINES.items(), (0, 3, len(lines) - 1)):
        if number == 0 and name.startswith(("row", "label", "who", "undo")):
            continue
        damaged = [*lines[:number], change(lines[number]), *lines[number + 1 :]]
        yield Case(
            f"{name} as line {number + 1} of a journal",
            partial(_damaged_journal, damaged),
            "refused",
        )


KINDS = {
    "containers": containers,
    "encoders on URLs": urls,
    "foreign folders": foreign_folders,
    "filters": filters,
    "journals": journals,
}
