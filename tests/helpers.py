"""What several test files use: the commands, and commands that run as servers."""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import click
from click.testing import CliRunner
from sklearn.base import BaseEstimator

from pacsent.cli import cli

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
        raise NotImplementedError
