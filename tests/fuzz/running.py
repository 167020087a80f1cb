"""Run the cases in processes of their own, so that one that crashes is counted and not the last."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from functools import cache
from pathlib import Path

from fuzz.crafted import crafted_tree
from fuzz.mutations import damaged
from fuzz.targets import TARGETS, Tree, write_tree

MEMORY = 6 << 30  # a file of some hundred bytes must not make anything ask for more
PATIENCE = 20  # seconds for one case
# beginnings of what Python, NumPy and others say: it means nothing to whoever has the file
FOREIGN = re.compile(
    r"Expecting|Extra data|Invalid|cannot reshape|could not|invalid literal|'\S+' codec can't"
    r"|not enough values|too many values|mmap|Array must not|cannot |buffer|\w+ object|object of "
    r"|\w+\(\)|must be (str|int|real) |unhashable|index |math domain|\d+$|'\w+'$|$"
)


@cache
def seeds(target: str) -> list[Tree]:
    return TARGETS[target].seeds()


def damaged_tree(target: str, number: int) -> Tree:
    """Case `number` of a target: always the same files."""
    rng = random.Random(zlib.crc32(target.encode()) * 1_000_003 + number)
    tree = dict(rng.choice(seeds(target)))
    if TARGETS[target].crafted:
        return crafted_tree(tree, rng)
    names = list(tree)
    for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
        if len(tree) > 1 and rng.random() < 0.03:
            del tree[name]
        else:
            other = tree.get(rng.choice(names), b"")
            tree[name] = damaged(name, tree[name], other, rng)
    return tree


class TooSlow(BaseException):
    pass


def _alarm(signum, frame):
    raise TooSlow


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "pacsent" in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"


def one_case(target: str, number: int, show: bool = False) -> str:
    """'' where the case was read or refused as it should be, else what was wrong, in short."""
    return outcome(target, damaged_tree(target, number), show)


def outcome(target: str, tree: Tree, show: bool = False) -> str:
    """`one_case` for files that are given."""
    signal.signal(signal.SIGALRM, _alarm)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_tree(tree, Path(place) / "case")
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            found = TARGETS[target].read(Path(place) / "case")
        except (ValueError, OSError, ImportError) as error:
            if show:
                print(f"{type(error).__name__}: {error}")
            message = str(error).replace(place, "")
            if "\n" in message.strip() or FOREIGN.match(message):
                return f"unclear {type(error).__name__} {_where(error)}"
            return ""
        except TooSlow:
            return "hang"
        except Exception as error:
            if show:
                traceback.print_exc()
            return f"traceback {type(error).__name__} {_where(error)}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if TARGETS[target].sealed and found not in _outcomes(target):
            return "silent: other numbers than those of the whole files"
    return ""


@cache
def _outcomes(target: str) -> list:
    """What comes out of the whole files."""
    found = []
    for tree in seeds(target):
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_tree(tree, Path(place) / "case")
            found.append(TARGETS[target].read(Path(place) / "case"))
    return found


def work(target: str, first: int, seconds: float) -> None:
    """Cases from `first` on until the time is over; a line on stderr for each finding."""
    _outcomes(target)  # whole files are read, or nothing here means anything
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    end = time.monotonic() + seconds
    number = first
    while time.monotonic() < end:
        os.pwrite(1, f"{number:<20}\n".encode(), 0)
        found = one_case(target, number)
        if found:
            sys.stderr.write(json.dumps([number, found]) + "\n")
            sys.stderr.flush()
        number += 1
    os.pwrite(1, f"{number:<20}\n".encode(), 0)


def _run_worker(target: str, first: int, seconds: float) -> tuple[int, list, int]:
    """The next number, the findings, and the exit status of one worker."""
    with tempfile.TemporaryFile() as progress, tempfile.TemporaryFile() as findings:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fuzz", "--worker", "--target", target,
             "--first", str(first), "--seconds", str(seconds)],
            cwd=Path(__file__).parents[1], stdout=progress, stderr=findings,
        )  # fmt: skip
        try:
            status = worker.wait(seconds + 120)
        except subprocess.TimeoutExpired:  # stuck in compiled code, where no alarm is heard
            worker.kill()
            worker.wait()
            status = -signal.SIGALRM
        progress.seek(0)
        findings.seek(0)
        number = progress.read().split()
        lines = findings.read().decode(errors="replace").splitlines()
    told = [json.loads(line) for line in lines if line.startswith("[")]
    if status and not number:
        raise RuntimeError(f"{target}: the worker could not begin:\n" + "\n".join(lines[-15:]))
    return int(number[0]) if number else first, told, status


def run(targets, seconds: float, first: int = 0) -> dict:
    """Every target for an equal part of the time; findings, their counts and first cases."""
    counts: Counter = Counter()
    cases: dict[str, int] = {}
    n_inputs = {}
    for target in targets:
        number = first
        end = time.monotonic() + seconds / len(targets)
        while number == first or time.monotonic() < end:
            number, findings, status = _run_worker(target, number, max(0.5, end - time.monotonic()))
            if status < 0:
                findings.append((number, f"crash, {signal.Signals(-status).name}"))
                number += 1
            elif status:
                raise RuntimeError(f"{target}: the worker ended with status {status}")
            for case, what in findings:
                counts[f"{target}: {what}"] += 1
                cases.setdefault(f"{target}: {what}", case)
        n_inputs[target] = number - first
        print(f"{target}: {n_inputs[target]:,} inputs", flush=True)
    return {
        "inputs": sum(n_inputs.values()),
        "by_target": n_inputs,
        "findings": {what: [n, cases[what]] for what, n in counts.items()},
    }
