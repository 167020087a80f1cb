"""Journals of the labelling page: torn ones are continued, changed ones refused."""

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from hostile.material import WORDS
from hostile.running import Case
from pacsent.web.labelling import Labelling

CLASSES = ["up", "down"]
N_TEXTS = 30


def _texts() -> list[str]:
    texts = []
    for n in range(N_TEXTS):
        word = WORDS[n % len(WORDS)]
        texts.append(f"{word} pool{n} text{n} with{n} its{n} own{n}")
    return texts


def _open(folder: Path) -> Labelling:
    return Labelling(_texts(), CLASSES, folder, encoder=None)


def _label_of(row: int) -> str:
    return CLASSES[row % 2]


@cache
def _journal() -> list[bytes]:
    """A journal with a head, eight labels, of which one is taken back, and a skipped row."""
    with tempfile.TemporaryDirectory() as folder:
        with _open(Path(folder)) as labelling:
            for row in range(8):
                labelling.answer(row, _label_of(row), "ann")
            labelling.undo("ann")
            labelling.answer(9, None, "bob")
        content = Path(folder, "journal.jsonl").read_bytes()
    return content.splitlines(keepends=True)


# ---- damaged lines ------------------------------------------------------------------------------

# name -> how a line becomes a bad one
BAD_LINES: dict[str, Callable[[bytes], bytes]] = {}


def bad_line(name: str):
    """Adds a function to BAD_LINES."""

    def add(change):
        BAD_LINES[name] = change
        return change

    return add


@bad_line("half a line")
def _half(line):
    middle = len(line) // 2
    return line[:middle] + b"\n"


@bad_line("two lines in one")
def _two_in_one(line):
    return line.strip() + line


@bad_line("zero bytes")
def _zero_bytes(line):
    return b"\0" * len(line) + b"\n"


@bad_line("no UTF-8")
def _no_utf_8(line):
    return b"\xff\xfe" + line


def _replace_line(content: bytes, line: bytes) -> bytes:
    return content + b"\n"


OTHER_LINES = {
    "an empty line": b"",
    "a list": b"[]",
    "a text": b'"row"',
    "deep JSON": b"[" * 100_000,
    "a long number": b'{"row": ' + b"9" * 5000 + b"}",
    "no fields": b"{}",
    "no label": b'{"row": 1}',
}
for _name, _content in OTHER_LINES.items():
    BAD_LINES[_name] = partial(_replace_line, _content)


def _set_fields(fields: dict, line: bytes) -> bytes:
    changed = json.loads(line) | fields
    return json.dumps(changed).encode() + b"\n"


# What is wrong in the first line of a journal.
BAD_HEADS = [
    {"pacsent_labels": 99},
    {"classes": ["up"]},
    {"classes": None},
    {"texts": "x"},
    {"evaluation_size": 0.1},
    {"delta": 0.2},
    {"seed": "x"},
    {"seed": -1},
    {"seed": 0.5},
    {"seed": None},
    {"seed": []},
    {"seed": True},
]
# What is wrong in one of the other lines.
BAD_FIELDS = {
    "row": (-1, 30, 1.0, 0.5, True, "1", None, [], float("nan"), float("inf"), 10**30),
    "label": ("other", "UP", 0, True, [], {}),
    "who": (None, 3, [], {}),
    "undo": (99, -1, None, "x", []),
}

# ---- cases --------------------------------------------------------------------------------------


def _continue(lines: list[bytes], expected: dict[int, str] | None = None) -> str:
    """Open a journal, answer one more row, and open it again."""
    folder = Path("labels")
    folder.mkdir()
    Path(folder, "journal.jsonl").write_bytes(b"".join(lines))

    with _open(folder) as labelling:
        labels = labelling.labels()
        labelling.status()
        task = labelling.next("ann")
        labelling.answer(task.row, "up", "ann")
    with _open(folder) as labelling:
        labels_again = labelling.labels()

    if labels_again != {**labels, task.row: "up"}:
        return "the answer after it was lost"
    if expected is not None and labels != expected:
        return f"{labels} in place of {expected}"
    return ""


def _changed(number: int, change: Callable[[bytes], bytes]) -> Callable[[], str]:
    """Opens the journal with one line changed."""
    lines = list(_journal())
    lines[number] = change(lines[number])
    return partial(_continue, lines)


def _continued() -> Iterator[Case]:
    """Journals that are as they were, or torn at their end."""
    lines = _journal()
    right_labels = {row: _label_of(row) for row in range(7)}
    yield Case("a journal as it was", partial(_continue, lines, right_labels), "ok")
    yield Case("an empty journal", partial(_continue, [], {}), "ok")

    *complete, last = lines
    for size in (1, 20, len(last) - 1):
        torn = [*complete, last[:size]]
        name = f"a journal whose last line ends after {size} bytes"
        yield Case(name, partial(_continue, torn, right_labels), "ok")


def cases() -> Iterator[Case]:
    yield from _continued()

    for fields in BAD_HEADS:
        run = _changed(0, partial(_set_fields, fields))
        yield Case(f"a journal with {fields}", run, "refused")

    first_answer = 3
    last = len(_journal()) - 1
    for name, number in itertools.product(BAD_LINES, (0, first_answer, last)):
        run = _changed(number, BAD_LINES[name])
        yield Case(f"{name} as line {number + 1} of a journal", run, "refused")

    for field, values in BAD_FIELDS.items():
        for value, number in itertools.product(values, (first_answer, last)):
            run = _changed(number, partial(_set_fields, {field: value}))
            name = f"{field} {value!r} as line {number + 1} of a journal"
            yield Case(name, run, "refused")
