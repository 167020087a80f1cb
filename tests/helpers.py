"""What several test files use: the commands, and commands that run as servers."""

import dataclasses
import functools
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner
from sklearn.base import BaseEstimator

from pacsent.cli import cli
from pacsent.kernels.library import BoundArray

KEY = "the-key-of-the-tests"


def all_commands() -> dict[str, click.Command]:
    """Each command by its full name, such as "vectors train"."""
    commands = {}
    for name in cli.list_commands(None):
        command = cli.get_command(None, name)
        inner = getattr(command, "commands", None)
        commands |= {f"{name} {k}": c for k, c in inner.items()} if inner else {name: command}
    return commands


def invoke(*arguments, status=None, **how):
    """Run a command in this process. `status`: the exit status that it must have."""
    arguments = [str(argument) for argument in arguments]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False, **how)
    assert status is None or done.exit_code == status, done.output
    return done


def run_python(code, *arguments, **how) -> str:
    """What code prints in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until(condition):
    """Wait ten seconds at most until the function returns true."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("not within ten seconds")


class Running:
    """`pacsent serve` or `pacsent label` as a process; its stderr is read to its end.

    `urls` are the first `n_urls` addresses that it prints.
    """

    def __init__(self, *arguments, n_urls=1, key=KEY, **how):
        self.key, self.lines, self.urls = key, [], []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pacsent", *map(str, arguments)],
            **{"stderr": subprocess.PIPE, "text": True, **how},
        )
        ready = threading.Event()

        def read():
            for line in self.process.stderr:
                self.lines.append(line)
                self.urls += re.findall(r"http://[^\s\"]+", line)
                if len(self.urls) >= n_urls:
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        assert ready.wait(90) and self.urls, "".join(self.lines)
        self.url = self.urls[0].partition("/?")[0]

    def workers(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = [int(pid) for pid in path.read_text().split()]
        return [p for p in children if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]

    def wait_for(self, text, seconds=60):
        for _ in range(seconds * 20):
            if any(text in line for line in self.lines):
                return True
            time.sleep(0.05)
        return False

    def get(self, path):
        request = urllib.request.Request(self.url + path)
        request.add_header("authorization", f"Bearer {self.key}")
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        request.add_header("authorization", f"Bearer {self.key}")
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def end(self, how=None):
        """Send a signal, SIGTERM by default, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how) if how else self.process.terminate()
        return self.process.wait(60)


def serve(*arguments, **how) -> Running:
    """A server that answers."""
    server = Running("serve", *arguments, "--port", 0, **how)
    server.get("/health")
    return server


class FittedStub(BaseEstimator):
    """An estimator with the fitted attributes that it is given, for checks that need no texts."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def fit(self):
        """Return itself, fitted as it is; scikit-learn asks estimators for this method."""
        return self


def assert_same_state(first, second, name="state"):
    """Compare two fitted states field by field, whatever fields they have.

    Dataclasses, mappings, sequences and plain objects are taken apart (values that these cache do
    not count); word vectors and encoders are compared by the SHA-256 of what is saved of them.
    """
    if first is None or second is None:
        assert first is second, name
    elif dataclasses.is_dataclass(first) and not isinstance(first, BaseEstimator):
        assert type(first) is type(second), name
        for item in dataclasses.fields(first):
            values = getattr(first, item.name), getattr(second, item.name)
            assert_same_state(*values, f"{name}.{item.name}")
    elif hasattr(first, "state"):
        assert first.state().digest() == second.state().digest(), name
    elif isinstance(first, Mapping):
        assert first.keys() == second.keys(), name
        for key in first:
            assert_same_state(first[key], second[key], f"{name}[{key!r}]")
    elif isinstance(first, np.ndarray):
        assert first.dtype == second.dtype, name
        np.testing.assert_array_equal(first, second, err_msg=name)
    elif isinstance(first, Sequence) and not isinstance(first, str):
        assert len(first) == len(second), name
        for place, values in enumerate(zip(first, second)):
            assert_same_state(*values, f"{name}[{place}]")
    elif isinstance(first, BoundArray):
        assert_same_state(first.array, second.array, f"{name}.array")
    elif type(first).__eq__ is not object.__eq__:
        assert first == second, name
    else:
        assert type(first) is type(second), name
        attributes = (_given_attributes(value) for value in (first, second))
        assert_same_state(*attributes, name)


def _given_attributes(value):
    return {
        name: attribute
        for name, attribute in vars(value).items()
        if not isinstance(getattr(type(value), name, None), functools.cached_property)
    }


WORDS_OF_TOPICS = {
    "film": ["film", "actor", "scene", "camera"],
    "food": ["food", "dish", "sauce", "cook"],
    "sport": ["match", "goal", "team", "coach"],
}


def draw_multilabel_texts(n_texts: int, seed: int = 0) -> tuple[list[str], list[set[str]]]:
    """Texts of one to three topics, and the set of topics of each."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    for i in range(n_texts):
        topics = [topic for topic in WORDS_OF_TOPICS if rng.random() < 0.4] or ["film"]
        words = [str(rng.choice(WORDS_OF_TOPICS[topic])) for topic in topics for _ in range(2)]
        texts.append(" ".join([*words, f"number{i}", str(rng.choice(["the", "a", "of"]))]))
        labels.append(set(topics))
    return texts, labels
