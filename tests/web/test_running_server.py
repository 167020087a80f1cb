"""`pacsent serve` as a process: how it starts, reloads and ends, and its container."""

import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

import uvicorn

from helpers import KEY, all_commands, invoke, serve
from pacsent import make_encoder, save
from pacsent.web import ServedModel
from pacsent.web import server as server_module
from serving import TEXTS, client_of, encode_at_length_one

DOCKER = Path(__file__).parents[2] / "docker"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A server with two workers, a key and a limit of 100,000 bytes."""
    keys = tmp_path_factory.mktemp("serve") / "keys"
    keys.write_text(KEY + "\n")
    server = serve("english", "--workers", "2", "--api-key-file", keys, "--max-body", "100000")
    yield server
    assert server.end() == 0


def test_an_oversized_body_receives_the_reason(running):
    with pytest.raises(urllib.error.HTTPError) as caught:
        running.post("/embed", {"texts": "x" * 150_000})

    assert caught.value.code == 413
    assert "100,000 bytes" in json.load(caught.value)["error"]["message"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc")
def test_workers_share_the_memory_of_one_model(running):
    running.post("/embed", {"texts": "x"})

    for pid in running.workers():  # all workers answer from the start
        maps = Path(f"/proc/{pid}/smaps").read_text()
        pattern = r"\.safetensors\nSize: .*?Private_Dirty: *(\d+)"
        private_sizes = [int(size) for size in re.findall(pattern, maps, re.DOTALL)]
        assert private_sizes  # the file is mapped
        assert sum(private_sizes) == 0  # and no page is the worker's own


def wait_for_other_workers(server, n_workers, former):
    """The ids of the workers once there are as many again, not all of them the former ones."""
    for _ in range(1200):
        time.sleep(0.05)
        pids = set(server.workers())
        if len(pids) == n_workers and pids != former:
            return pids
    raise AssertionError(pids)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_a_killed_worker_is_replaced_and_counters_continue(running):
    running.post("/embed", {"texts": "x"})
    former = set(running.workers())

    os.kill(min(former), signal.SIGKILL)

    assert min(former) not in wait_for_other_workers(running, 2, former)
    assert all(running.post("/embed", {"texts": "x"})["results"] for _ in range(10))
    metrics = running.get("/metrics").decode()
    n_requests = re.search(r'code="200",path="/embed"} ([\d.]+)', metrics)[1]
    assert float(n_requests) >= 11


class Load:
    """Three threads that ask a server for a vector until the block ends."""

    def __init__(self, server):
        self.server = server
        self.vectors = []
        self.errors = []
        self._ends = threading.Event()
        self._pool = ThreadPoolExecutor()

    def __enter__(self):
        for _ in range(3):
            self._pool.submit(self._ask)
        return self

    def __exit__(self, *exception):
        self._ends.set()
        self._pool.shutdown()

    def _ask(self):
        while not self._ends.is_set():
            try:
                content = self.server.post("/v1/embeddings", {"input": TEXTS[0]})
            except ConnectionError:  # the worker ended before it read the request: sent again
                continue
            except urllib.error.URLError as error:
                self.errors.append(error)
                continue
            self.vectors.append(content["data"][0]["embedding"])


@pytest.mark.slow
def test_a_new_model_is_swapped_in_under_load_and_a_broken_one_rejected(tmp_path, vectorizer):
    folder = tmp_path / "model"
    save(vectorizer, folder)
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    server = serve(folder, "--api-key-file", keys)
    other = make_encoder("Average", "english", on_empty="ignore").fit([])
    old_vector, new_vector = (encode_at_length_one(v, TEXTS[:1])[0] for v in (vectorizer, other))

    try:
        with Load(server) as load:
            time.sleep(1)
            save(other, folder, overwrite=True)
            server.process.send_signal(signal.SIGHUP)
            assert server.wait_for("Terminated child process")
            time.sleep(0.5)
            (folder / "config.json").write_text("{}")
            server.process.send_signal(signal.SIGHUP)
            assert server.wait_for("models cannot be opened")
            assert server.wait_for("keeping worker")
            time.sleep(0.5)
    finally:
        status = server.end()

    is_old = [np.allclose(vector, old_vector, atol=1e-6) for vector in load.vectors]
    is_new = [np.allclose(vector, new_vector, atol=1e-6) for vector in load.vectors]
    assert not load.errors
    assert status == 0
    assert np.logical_xor(is_old, is_new).all()
    assert is_old[0]
    assert is_new[-1]


REQUEST = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(scope="module")
def address(vectorizer):
    """A server that waits a fifth of a second for the headers of a request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "_HEADER_SECONDS", 0.2)
        app = client_of(ServedModel("english", vectorizer)).app
        config = uvicorn.Config(
            app, http=server_module.HeaderTimeoutProtocol, lifespan="off", log_level="error"
        )
        server = uvicorn.Server(config)
        listener = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def connection(address):
    with socket.create_connection(address, timeout=30) as connection:
        yield connection


@pytest.mark.parametrize("beginning", [b"", b"POST /cla"])
def test_a_connection_without_the_headers_of_a_request_is_closed(connection, beginning):
    connection.sendall(beginning)
    assert connection.recv(1) == b""


def test_a_connection_is_kept_between_requests_and_closed_during_headers(connection):
    for _ in range(2):
        connection.sendall(REQUEST)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)

    connection.sendall(REQUEST[:-2])

    assert connection.recv(1) == b""


def test_line_breaks_are_no_beginning_of_a_request(connection):
    connection.sendall(REQUEST)
    connection.recv(65536)

    with pytest.raises(OSError):
        for _ in range(100):
            connection.sendall(b"\r\n")
            time.sleep(0.1)


def test_sigterm_finishes_what_is_under_way_and_rejects_what_is_new():
    server = serve("english")
    texts = ["a long text of many words about wine and cats " * 40] * 400

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(server.post, "/v1/embeddings", {"input": texts})
        time.sleep(0.03)
        server.process.terminate()
        assert len(answer.result(30)["data"]) == 400

    assert server.process.wait(30) == 0
    with pytest.raises(urllib.error.URLError):
        server.get("/health")
    assert any('"stopped"' in line for line in server.lines)


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        result = invoke("serve", "english", "--port", port, status=1)

    assert "Traceback" not in result.stderr
    assert f"127.0.0.1:{port} cannot be used" in result.stderr


@pytest.fixture
def docker_steps():
    """The steps of the Dockerfile: pairs of a name and what follows it."""
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line[:1].isalpha()]


def test_the_container_is_slim(docker_steps):
    images = [image for name, image in docker_steps if name == "FROM"]
    assert all("-slim" in image for image in images)


def test_nobody_in_the_container_is_root(docker_steps):
    names = [name for name, _ in docker_steps]
    users = [user for name, user in docker_steps if name == "USER"]

    assert users
    assert users[-1] not in ("root", "0")
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_what_the_container_copies_exists(docker_steps):
    for name, files in docker_steps:
        if name == "COPY" and "--from" not in files:
            *sources, _ = files.split()
            assert all((DOCKER.parent / source).exists() for source in sources), files


def test_the_container_runs_a_command_that_exists(docker_steps):
    program, command, *arguments = json.loads(dict(docker_steps)["ENTRYPOINT"])
    options = {argument for argument in arguments if argument.startswith("--")}

    known = {name for parameter in all_commands()["serve"].params for name in parameter.opts}
    assert program == "pacsent"
    assert command == "serve"
    assert options <= known


def test_compose_names_files_that_exist():
    compose = (DOCKER / "compose.yaml").read_text()

    for name in re.findall(r"\./([\w.-]+)[:\s]", compose):
        assert (DOCKER / name).exists() or name in ("models", "keys"), name
    assert "  pacsent:" in compose
    assert "read_only: true" in compose


def test_prometheus_and_the_health_check_ask_for_addresses_that_answer(vectorizer):
    prometheus = (DOCKER / "prometheus.yml").read_text()
    container = (DOCKER / "Dockerfile").read_text()
    health_path = re.search(r"8000(/\w+)'", container)[1]
    assert "metrics_path: /metrics" in prometheus
    assert "pacsent:8000" in prometheus

    client = client_of(ServedModel("english", vectorizer))

    assert client.get("/metrics").status_code == 200
    assert client.get(health_path).status_code == 200
