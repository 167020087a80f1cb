"""The server under load from this machine, with an empty handler and model2vec's in the same run.

    pip install 'pacsent[serve,bench]'
    python benchmarks/serve.py --save

It measures one short text a request on one connection, 1,000 texts a request, the rate that
saturates two workers, and the waiting times at half that rate.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from encode import tokenizer
from harness import finish, parser_for
from pacsent import make_encoder
from pacsent.datasets import load_books

SHORT = "a glass of wine on the old table"
N_ROUNDS, N_SHORT, N_LONG = 8, 300, 3


def _json(found) -> bytes:
    return json.dumps(found).encode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def running(command, port, log=subprocess.DEVNULL):
    """A server as a process of its own, until it answers; ended by SIGTERM."""
    process = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                asyncio.run(Client(port).ask("GET", "/openapi.json"))
                break
            except OSError:
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(30)


class Client:
    """One connection that is kept; as little of HTTP as will do."""

    def __init__(self, port, key=None):
        self.port, self.key = port, key
        self.reader = self.writer = None

    async def ask(self, method, path, body=b"") -> tuple[int, bytes]:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        key = f"authorization: Bearer {self.key}\r\n" if self.key else ""
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{key}"
        try:
            self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(int(x[15:]) for x in lines if x.startswith(b"content-length:"))
            answer = await self.reader.readexactly(length)
        except BaseException:
            self.close()
            raise
        if b"connection: close" in lines:
            self.close()
        return int(head[9:12]), answer

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def seconds(port, path, body, n) -> list[float]:
    client, found = Client(port), []
    for _ in range(n):
        started = time.perf_counter()
        status, _ = await client.ask("POST", path, body)
        found.append(time.perf_counter() - started)
        assert status == 200, status
    client.close()
    return found


async def saturated(port, body, n_clients=16, duration=8.0) -> float:
    """Requests a second with this many clients that ask again at once."""
    end, n = time.perf_counter() + duration, [0]

    async def ask_on():
        client = Client(port)
        while time.perf_counter() < end:
            await client.ask("POST", "/v1/embeddings", body)
            n[0] += 1
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(n_clients)))
    return n[0] / duration


async def waits(port, body, rate, duration=15.0, n_clients=32) -> np.ndarray:
    """Seconds from when each request was due to its answer, at a steady rate."""
    start, found, number = time.perf_counter(), [], iter(range(int(rate * duration)))

    async def ask_on():
        client = Client(port)
        for i in number:
            due = start + i / rate
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            await client.ask("POST", "/v1/embeddings", body)
            found.append(time.perf_counter() - due)
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(n_clients)))
    return np.array(found)


def write_model2vec(folder: Path) -> Path:
    """The vectors of SIF-sum as a model of model2vec."""
    from model2vec import StaticModel

    encoder = make_encoder("SIF-sum", "english").fit([])
    vocabulary = encoder.word_vectors.vocabulary
    table = encoder.transform([[word] for word in vocabulary.words])
    table = np.vstack([table, np.zeros((1, table.shape[1]), np.float32)])  # the unknown token
    StaticModel(table, tokenizer(vocabulary), normalize=False).save_pretrained(folder)
    return folder


def speed(options):
    texts = [p.text[:200] for p in load_books()[:1000]]
    one = _json({"input": SHORT})
    many = _json({"input": texts})
    small = _json({"input": [SHORT]})
    coded = [{"input": text, "encoding_format": "base64"} for text in (SHORT, texts)]
    with tempfile.TemporaryDirectory() as place:
        folder = write_model2vec(Path(place) / "model2vec")
        ports = free_port(), free_port(), free_port()
        baselines = [sys.executable, str(Path(__file__).parent / "baselines" / "handlers.py")]
        serve = [sys.executable, "-m", "pacsent", "serve", "english", "--port"]
        with (
            running([*baselines, str(ports[0]), str(folder)], ports[0]),
            running([*serve, str(ports[1])], ports[1]),
        ):
            asked = {
                "empty handler": (ports[0], "/empty", one, None),
                "model2vec, plain": (ports[0], "/model2vec", small, many),
                "model2vec, orjson": (ports[0], "/model2vec-orjson", small, many),
                "pacsent, float": (ports[1], "/v1/embeddings", one, many),
                "pacsent, base64": (ports[1], "/v1/embeddings", *map(_json, coded)),
            }
            times = {name: ([], []) for name in asked}
            for _ in range(N_ROUNDS):  # in turns: all meet the same moments of the machine
                for name, (port, path, short, long) in asked.items():
                    times[name][0].extend(asyncio.run(seconds(port, path, short, N_SHORT))[20:])
                    if long is not None:
                        times[name][1].extend(asyncio.run(seconds(port, path, long, N_LONG)))
        with running([*serve, str(ports[2]), "--workers", "2"], ports[2]):
            asyncio.run(saturated(ports[2], one, duration=2.0))
            rate = asyncio.run(saturated(ports[2], one))
            waited = asyncio.run(waits(ports[2], one, rate / 2))
    rows = [
        {
            "handler": name,
            "one text, median µs": 1e6 * float(np.median(short)),
            "× empty": float(np.median(short) / np.median(times["empty handler"][0])),
            "1,000 texts, median ms": 1e3 * float(np.median(long)) if long else None,
        }
        for name, (short, long) in times.items()
    ]
    by_name = {row["handler"]: row for row in rows}
    ours = by_name["pacsent, float"]
    summary = {"one text, times the empty handler": ours["× empty"]}
    for name in ("plain", "orjson"):
        theirs = by_name[f"model2vec, {name}"]["1,000 texts, median ms"]
        ratio = theirs / ours["1,000 texts, median ms"]
        summary[f"1,000 texts, times faster than model2vec, {name}"] = ratio
    summary |= {
        "saturating rate, two workers, requests/s": rate,
        "at half of it, median ms": 1e3 * float(np.median(waited)),
        "at half of it, p99 ms": 1e3 * float(np.quantile(waited, 0.99)),
        "load average": os.getloadavg()[0],
    }
    title = "The server and plain FastAPI handlers, on one connection"
    finish("serve", rows, title=title, summary=summary, save=options.save, name=options.name)


if __name__ == "__main__":
    speed(parser_for(__doc__).parse_args())
