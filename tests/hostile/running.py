"""Run a case in a child process and say how it ended."""

import contextlib
import io
import os
import pickle
import re
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FINE = ("ok", "refused")
BAD = ("traceback", "crash", "hang", "silent", "unclear", "refused wrongly")
PATIENCE = 90
# beginnings of what Python, NumPy and numba say, not we
FOREIGN = re.compile(
    r"could not convert|invalid literal|cannot reshape|operands could not|index \d+ is out"
    r"|unhashable|\w+\(\) (takes|missing)|Expecting|'\S+' codec|\w+ object |cannot unpack|buffer"
    r"|setting an|not supported between|unsupported operand|object of type"
    r"|\[Errno|Failed in nopython|'\w+'$|$"
)


@dataclass(frozen=True)
class Case:
    """`run` in a folder of its own. `expect`: "ok", "refused" or "either".

    What `run` returns is None, or "" where the outcome is right and else what is wrong with it.
    """

    name: str
    run: Callable[[], str | None]
    expect: str = "either"


class Refused(Exception):
    """Raised by a case that ran a command: it ended with an error in one line."""


def _outcome(case: Case) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wrong = case.run()
        except Refused as error:
            found, detail = "refused", str(error)
        except (ValueError, TypeError, OSError, ImportError) as error:
            detail = f"{type(error).__name__}: {error}"
            message = str(error).strip()
            clear = "\n" not in message and not FOREIGN.match(message)
            found = "refused" if clear else "unclear"
        except BaseException:
            return "traceback", traceback.format_exc()[-1500:]
        else:
            found, detail = ("silent", wrong) if wrong else ("ok", "")
            if found == "ok" and case.expect == "refused":
                found, detail = "silent", "was accepted"
    if found == "refused" and case.expect == "ok":
        return "refused wrongly", detail
    return found, detail


def run_case(case: Case) -> tuple[str, str]:
    """How a case ends, in a child process and an empty folder."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.chdir(place)
            try:
                result = _outcome(case)
            except BaseException:
                result = ("traceback", traceback.format_exc()[-1500:])
            with contextlib.suppress(OSError):
                os.write(writing, pickle.dumps((result[0], result[1][:3000])))
            os._exit(0)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        answer = os.read(reading, 1 << 16) if ready else b""
        os.close(reading)
        if not ready:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not ready:
        return "hang", f"more than {PATIENCE} s"
    if os.WIFSIGNALED(status) or not answer:
        return "crash", f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "died"
    return pickle.loads(answer)


def run_all(cases, tell) -> Counter:
    """How many cases end in each way. `tell` hears of each bad one."""
    counts: Counter = Counter()
    for case in cases:
        end, detail = run_case(case)
        counts[end] += 1
        if end not in FINE:
            tell(f"{end}: {case.name}\n    {detail.strip()[-400:]}")
    return counts


def n_wrong(counts: Counter) -> int:
    return sum(counts[kind] for kind in BAD)


# ------------------------------------------------------------------------------------------------
# the command line, in this process
# ------------------------------------------------------------------------------------------------


class _Stream(io.TextIOWrapper):
    def __init__(self, content: bytes = b""):
        super().__init__(io.BytesIO(content), encoding="utf-8", errors="surrogateescape")


@contextlib.contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[_Stream, _Stream]]:
    old = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = _Stream(stdin), _Stream(), _Stream()
    try:
        yield sys.stdout, sys.stderr
    finally:
        sys.stdin, sys.stdout, sys.stderr = old


def _said(stream: _Stream) -> str:
    with contextlib.suppress(ValueError):
        stream.flush()
        return stream.buffer.getvalue().decode(errors="replace")
    return ""


def command(*arguments, stdin: bytes = b"") -> tuple[str, str]:
    """Run `pacsent ...` as its entry point does; what it said on stdout and stderr.

    `Refused` where it ended with a status other than 0 and one line; AssertionError where it said
    more or nothing.
    """
    from pacsent.cli import main

    old = sys.argv
    sys.argv = ["pacsent", *map(str, arguments)]
    with _streams(stdin) as (stdout, stderr):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.argv = old
        out, err = _said(stdout), _said(stderr)
    check_ending(status, err)
    return out, err


def check_ending(status: int, err: str) -> None:
    if "Traceback" in err:
        raise AssertionError(err[-1500:])
    if status:
        errors = [line for line in err.splitlines() if line.startswith("Error: ")]
        if len(errors) != 1 or FOREIGN.match(errors[0].removeprefix("Error: ")):
            raise AssertionError(f"status {status}, but said {err[-600:]!r}")
        raise Refused(errors[0])


def left_behind(folder: Path = Path()) -> list[str]:
    """Hidden or partial files that a command should have removed."""
    names = [path.name for path in folder.rglob("*")]
    return [name for name in names if name.startswith(".") or name.endswith((".part", ".tmp"))]
