"""Run cases in child processes and count how they end."""

import contextlib
import io
import itertools
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from unittest import mock

BAD = ("traceback", "crash", "hang", "silent", "unclear", "refused wrongly")
ENDS = ("ok", "refused", *BAD)
TIMEOUT = 60  # seconds for one case
MAX_MEMORY = 6 << 30  # bytes of address space for a damaged file
# Beginnings of messages of Python and NumPy, which mean nothing to a user.
FOREIGN = re.compile(
    r"could not convert|invalid literal|Invalid (?!value)|operands could not|index \d+ is out"
    r"|cannot (reshape|unpack|convert|cast)|mmap|unhashable|\w+\(\)|Expecting|Extra data"
    r"|'\S+' codec|(\w+ )?object |buffer|setting an|not supported between|unsupported operand"
    r"|(not enough|too many) values|must be (str|int|real) |Array must not|\[Errno"
    r"|math domain|\d+$|'\w+'$|$"
)


@dataclass(frozen=True)
class Case:
    """`run` in an empty folder. `expect`: "ok", "refused" or "either".

    `run` returns what is wrong with the outcome, or nothing. It raises one of `errors` with one
    clear line, or `Refused`, if it rejects its input.
    """

    name: str
    run: Callable[[], str | None]
    expect: str = "either"
    errors: tuple[type[Exception], ...] = (ValueError, TypeError, OSError, ImportError)


class Refused(Exception):
    """A command or a request ended with an error in one line."""


def outcome(case: Case) -> tuple[str, str]:
    """How a case ends in this process, and a detail."""
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            problem = case.run()
        except (Refused, *case.errors) as error:
            message = str(error).replace(folder, "").strip()
            detail = f"{type(error).__name__}: {message}"
            if "\n" in message or (FOREIGN.match(message) and not isinstance(error, Refused)):
                return "unclear", detail + traceback.format_exc()[-600:]
            return ("refused wrongly" if case.expect == "ok" else "refused"), detail
        except BaseException:
            return "traceback", traceback.format_exc()[-1500:]
    if problem:
        return "silent", problem
    return ("silent", "was accepted") if case.expect == "refused" else ("ok", "")


def run_in_child(cases: list[Case], limit_memory: bool = False) -> Iterator[tuple[str, str]]:
    """How the cases end in one child process, up to the first that crashes or hangs."""
    receiver, sender = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            if limit_memory:
                resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, resource.RLIM_INFINITY))
            for case in cases:
                sender.send(outcome(case))
        finally:
            os._exit(0)
    sender.close()
    try:
        for _ in cases:
            if not receiver.poll(TIMEOUT):
                yield "hang", f"more than {TIMEOUT} s"
                return
            try:
                yield receiver.recv()
            except EOFError:
                yield "crash", "the process died"
                return
    finally:
        receiver.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def run_all(
    cases: Iterable[Case],
    report: Callable,
    *,
    per_child: int = 1,
    limit_memory: bool = False,
    seconds: float = float("inf"),
) -> Counter:
    """How many cases end in each way. `report` receives a text about each bad one."""
    counts: Counter = Counter()
    deadline = time.monotonic() + seconds
    cases, queue = iter(cases), []
    while time.monotonic() < deadline and (queue := queue or [*itertools.islice(cases, per_child)]):
        with contextlib.closing(run_in_child(queue, limit_memory)) as results:
            n_run = 0
            for case, (end, detail) in zip(queue, results):
                n_run += 1
                counts[end] += 1
                if end in BAD:
                    report(f"{end}: {case.name}\n    {detail.strip()[-600:]}")
                if time.monotonic() > deadline:
                    break
        queue = queue[n_run:]
    return counts


def command(*arguments) -> str:
    """Run `pacsent ...` in this process as its entry point does, and return its stderr.

    `Refused` if the status is not 0 and there is one clear error; AssertionError if not.
    """
    from pacsent.cli import main

    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(3)
    ]
    argv = ["pacsent", *map(str, arguments)]
    with mock.patch.multiple(
        sys, argv=argv, stdin=streams[0], stdout=streams[1], stderr=streams[2]
    ):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    streams[2].flush()
    messages = streams[2].buffer.getvalue().decode(errors="replace")
    errors = re.findall(r"^Error: (.*)", messages, re.MULTILINE)
    if "Traceback" in messages:
        raise AssertionError(messages[-1500:])
    # Status 3: predicted, but the texts differ from those of the guarantee.
    if status and not (status == 3 and "no guarantee" in messages):
        if len(errors) != 1 or FOREIGN.match(errors[0]):
            raise AssertionError(f"status {status} with {messages[-600:]!r}")
        raise Refused(errors[0])
    return messages


def temporary_files(folder: Path = Path()) -> list[str]:
    """Hidden or partial files that a command should have removed."""
    names = [path.name for path in folder.rglob("*")]
    return [name for name in names if name.startswith(".") or name.endswith((".part", ".tmp"))]
