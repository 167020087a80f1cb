"""The server under load from this machine, with an empty handler and model2vec's in the same run.

    pip install 'pacsent[serve,bench]'
    python benchmarks/serve.py --save
    python benchmarks/serve.py --soak 600 --save

It measures one short text a request on one connection, 1,000 texts a request, the rate that
saturates two workers, and the waiting times at half that rate. `--soak` keeps the server at full
load on all its addresses for the given number of seconds while workers are killed, models are
swapped, and clients send too much, too slowly, with wrong keys, or disconnect; every answer is
compared with one of the library.
"""

import asyncio
import base64
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import CertifiedClassifier, Index, TextClassifier, load, make, save
from pacsent.datasets import load_books
from pacsent.encoders.export import export
from pacsent.search import rerank

KEY = "a-key-of-the-soak-run"
SHORT = "a glass of wine on the old table"
N_ROUNDS, N_SHORT, N_LONG = 8, 300, 3


def _json(found) -> bytes:
    return json.dumps(found).encode()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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


# ------------------------------------------------------------------------------------------------
# Speed
# ------------------------------------------------------------------------------------------------


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


def speed(options):
    texts = [p.text[:200] for p in load_books()[:1000]]
    one = _json({"input": SHORT})
    many = _json({"input": texts})
    small = _json({"input": [SHORT]})
    with tempfile.TemporaryDirectory() as place:
        folder = export(make("SIF-sum", "english").fit([]), Path(place) / "model2vec")
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
                "pacsent, base64": (
                    ports[1], "/v1/embeddings", _json(
                        {"input": SHORT, "encoding_format": "base64"}
                    ), _json({"input": texts, "encoding_format": "base64"}),
                ),
            }  # fmt: skip
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
    long = {name: row["1,000 texts, median ms"] for name, row in by_name.items()}
    finish(
        "serve",
        rows,
        title="The server and plain FastAPI handlers, on one connection",
        summary={
            "one text, times the empty handler": by_name["pacsent, float"]["× empty"],
            "1,000 texts, times faster than model2vec's plain handler": long["model2vec, plain"]
            / long["pacsent, float"],
            "1,000 texts, times faster than model2vec with orjson": long["model2vec, orjson"]
            / long["pacsent, float"],
            "saturating rate, two workers, requests/s": rate,
            "at half of it, median ms": 1e3 * float(np.median(waited)),
            "at half of it, p99 ms": 1e3 * float(np.quantile(waited, 0.99)),
            "load average": os.getloadavg()[0],
        },
        save=options.save,
        name=options.name,
    )


# ------------------------------------------------------------------------------------------------
# The soak
# ------------------------------------------------------------------------------------------------


class Soak:
    """Clients that behave, clients that do not, and a task that kills workers."""

    def __init__(self, port, process, duration):
        self.port, self.process = port, process
        self.end = time.monotonic() + duration
        self.texts = [p.text for p in load_books()[::7]][:1500] + ["", "zzqx qqzy", "naïve 東京 —"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vectors = served_encoder().transform(self.texts)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        self.right = vectors / np.where(lengths > 0, lengths, 1)
        self.pool: list[tuple] = []  # (method, address, body, what is right), set by `soak`
        names = ("answers", "texts", "answers of other addresses", "wrong answers",
                 "lost answers", "retries", "workers killed", "swaps",
                 "oversized, refused", "wrong keys, refused", "slow clients", "cut off",
                 "wrong refusals")  # fmt: skip
        self.counts = dict.fromkeys(names, 0)
        self.memory: list[int] = []
        self.refused: list[str] = []

    def over(self):
        return time.monotonic() >= self.end

    def workers(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    async def behave(self, seed):
        rng, client = random.Random(seed), Client(self.port, KEY)
        while not self.over():
            rows = rng.choices(range(len(self.texts)), k=rng.choice((1, 1, 1, 2, 8, 64, 400)))
            form = rng.choice(("float", "base64"))
            texts = [self.texts[i] for i in rows]
            body = _json({"input": texts, "encoding_format": form})
            answer = await self.patiently(client, body)
            if answer is None:
                self.counts["lost answers"] += 1
                continue
            data = sorted(json.loads(answer)["data"], key=lambda item: item["index"])
            found = np.array([_vector(item["embedding"], form) for item in data])
            same = found.shape == (len(rows), self.right.shape[1])
            if not same or np.abs(found - self.right[rows]).max() > 1e-6:
                self.counts["wrong answers"] += 1
            self.counts["answers"] += 1
            self.counts["texts"] += len(rows)

    async def visit(self, seed):
        """Ask every other address in turn and compare the answers with those of the library."""
        rng, client = random.Random(100 + seed), Client(self.port, KEY)
        while not self.over():
            method, path, body, right = rng.choice(self.pool)
            answer = await self.patiently(client, body, method, path)
            if answer is None:
                self.counts["lost answers"] += 1
                continue
            self.counts["answers of other addresses"] += 1
            if not right(answer):
                self.counts["wrong answers"] += 1
                self.refused.append(f"{path}: {answer[:200]!r}")

    async def patiently(self, client, body, method="POST", path="/v1/embeddings") -> bytes | None:
        """The answer, asked for again where a worker died or is too busy; None: never."""
        for attempt in range(20):
            try:
                async with asyncio.timeout(30):
                    status, answer = await client.ask(method, path, body)
                if status == 200:
                    return answer
                if status not in (429, 503):
                    self.counts["wrong refusals"] += 1
                    self.refused.append(f"{status} {answer[:200]!r}")
                    return None
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                client.close()
            self.counts["retries"] += 1
            await asyncio.sleep(0.05 * (attempt + 1))
        return None

    async def expect(self, name, status, body, key=KEY):
        try:
            async with asyncio.timeout(30):
                client = Client(self.port, key)
                found, answer = await client.ask("POST", "/v1/embeddings", body)
                client.close()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self.counts["retries"] += 1
            return
        if found != status or "error" not in json.loads(answer):
            self.counts["wrong refusals"] += 1
            self.refused.append(f"{found} where {status} was due: {answer[:200]!r}")
        self.counts[name] += 1

    async def misbehave(self):
        while not self.over():
            await self.expect("oversized, refused", 413, b'{"input": "' + b"x" * (1 << 21) + b'"}')
            await self.expect("wrong keys, refused", 401, b'{"input": "x"}', "not-a-key-of-ours")
            await self.cut_off()
            await asyncio.sleep(0.5)

    async def cut_off(self):
        """Hang up in the middle of a request, and in the middle of an answer."""
        for body, asked in ((b'{"input": "half', 500), (_json({"input": self.texts}), None)):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                head = f"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
                head += "content-type: application/json\r\n"
                writer.write(f"{head}content-length: {asked or len(body)}\r\n\r\n".encode() + body)
                await asyncio.sleep(0.01)
                writer.close()
                self.counts["cut off"] += 1
            except OSError:
                pass

    async def dawdle(self):
        """Send a byte now and then, the head or the body."""
        while not self.over():
            head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
            head += KEY.encode() + b"\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n"
            head += b"\r\n" + b" " * 100
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                for i in range(len(head)):
                    if reader.at_eof() or writer.is_closing():
                        break
                    writer.write(head[i : i + 1])
                    await asyncio.sleep(0.3 if i % 8 == 0 else 0)
                async with asyncio.timeout(40):
                    await reader.read()
                writer.close()
            except (OSError, TimeoutError):
                pass
            self.counts["slow clients"] += 1

    async def kill(self):
        number = 0
        while not self.over():
            await asyncio.sleep(4)
            number += 1
            if number % 8 == 0:
                os.kill(self.process.pid, signal.SIGHUP)
                self.counts["swaps"] += 1
                continue
            try:
                os.kill(random.choice(self.workers()), signal.SIGKILL)
                self.counts["workers killed"] += 1
            except (ProcessLookupError, IndexError, FileNotFoundError):
                pass

    async def weigh(self):
        """Memory of all processes, what they share counted once, every two seconds."""
        while not self.over():
            total = 0
            for pid in [self.process.pid, *self.workers()]:
                try:
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                    total += next(int(x.split()[1]) for x in lines if x.startswith("Pss:"))
                except (OSError, StopIteration):
                    pass
            self.memory.append(total // 1024)
            await asyncio.sleep(2)

    async def run(self):
        others = [self.misbehave(), self.dawdle(), self.dawdle(), self.kill(), self.weigh()]
        tasks = [asyncio.ensure_future(job) for job in others]
        behaved = [job(seed) for seed in range(4) for job in (self.behave, self.visit)]
        await asyncio.gather(*behaved)
        for job in tasks:
            job.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _vector(given, form):
    if form == "base64":
        return np.frombuffer(base64.b64decode(given), "<f4")
    return np.array(given, np.float32)


def served_encoder():
    """What `pacsent serve english` answers with."""
    return load("english").sentences.set_params(on_empty="ignore")


def other_models(place: Path):
    """An index and a classifier on disk, and what every address must answer about them."""
    texts = [p.text for p in load_books()[::4]]
    encoder = make("SIF-sum", "english", on_empty="ignore").fit([])
    index = Index(encoder, lexical=True)
    index.add(texts, metadata=[{"author": p.author} for p in load_books()[::4]])
    asked, answers, _ = index.self_queries(300)
    index.certify(asked, answers)
    save(index, place / "index")
    authors = [p.author for p in load_books()]
    kept = set(sorted(set(authors))[:2])
    labelled = [(p.text, p.author) for p in load_books() if p.author in kept]
    classifier = CertifiedClassifier(TextClassifier(ngrams=(1, 1)), holdout=0.4, random_state=0)
    classifier.fit(*map(list, zip(*labelled)))
    save(classifier, place / "classifier")
    queries, documents = asked[:40], texts[:20]
    index, served = load(place / "index"), served_encoder()

    def same(wanted, *path):
        def right(answer):
            found = json.loads(answer)
            for step in path:
                found = found[step]
            return np.allclose(found, wanted, atol=2e-6)

        return right

    def ids(wanted):
        return lambda answer: [h["id"] for h in json.loads(answer)["results"][0]] == wanted

    pool: list[tuple] = []
    for query in queries:
        [vector] = served.transform([query])
        vector = vector / np.linalg.norm(vector)
        pool.append(("POST", "/v1/embeddings", _json({"input": query}),
                     same(vector, "data", 0, "embedding")))  # fmt: skip
        pool.append(("POST", "/search", _json({"query": query, "k": 5}),
                     ids([h.id for h in index.search(query, 5)])))  # fmt: skip
        where = {"author": authors[0]}
        pool.append(("POST", "/search", _json({"query": query, "where": where, "model": "books"}),
                     ids([h.id for h in index.search(query, where=where)])))  # fmt: skip
        pool.append(("POST", "/search", _json({"query": query, "guarantee": 0.8}),
                     ids([h.id for h in index.search(query, guarantee=0.8)])))  # fmt: skip
        scores = [one.score for one in rerank(query, documents, served)]
        body = {"query": query, "documents": documents, "top_n": 3}
        pool.append(("POST", "/v1/rerank", _json(body), lambda answer, wanted=scores[:3]: (
            np.allclose([one["relevance_score"] for one in json.loads(answer)["results"]], wanted,
                        atol=1e-5))))  # fmt: skip
        label = classifier.predict([query])[0]
        pool.append(("POST", "/classify", _json({"texts": query, "explain": True}),
                     lambda answer, wanted=label: json.loads(answer)["results"][0]["label"] == wanted))  # fmt: skip # noqa: E501
        pool.append(
            ("POST", "/similarity", _json({"a": query, "b": query}), same([1.0], "cosines"))
        )
    for path in (
        "/v1/models",
        "/v1/models/books",
        "/certificates",
        "/metrics",
        "/health",
        "/",
        "/docs",
        "/openapi.json",
    ):
        pool += [("GET", path, b"", lambda answer: len(answer) > 10)] * 8  # fmt: skip
    return pool


def soak(options):
    port = free_port()
    with tempfile.TemporaryDirectory() as place:
        keys = Path(place) / "keys"
        keys.write_text(f"{KEY}\nanother-key-of-the-run\n")
        command = [sys.executable, "-m", "pacsent", "serve", "english", "--port", str(port),
                   "--workers", "2", "--api-key-file", str(keys), "--max-body", str(1 << 20),
                   "--timeout", "10", "--index", f"{place}/index", "--classifier",
                   f"{place}/classifier", "--model", f"books={place}/index"]  # fmt: skip
        pool = other_models(Path(place))
        log = Path(place) / "log"
        with log.open("wb") as file, running(command, port, file) as process:
            run = Soak(port, process, options.soak)
            run.pool = pool
            asyncio.run(run.run())
        faults = sum(b'"fault"' in line for line in log.read_bytes().splitlines())
    memory = np.array(run.memory or [0])
    quarter = max(1, len(memory) // 4)
    summary = {
        "seconds": options.soak,
        **run.counts,
        "faults in the log": faults,
        "memory, MB, second quarter": float(np.median(memory[quarter : 2 * quarter])),
        "memory, MB, last quarter": float(np.median(memory[-quarter:])),
        "memory, MB, largest": int(memory.max()),
        "load average": os.getloadavg()[0],
    }
    for line in run.refused[:5]:
        print(line, file=sys.stderr)
    rows = [{"what": key, "count": value} for key, value in summary.items()]
    title = f"The server under full load and attack for {options.soak:,} seconds"
    finish("serve", rows, title=title, summary=summary, save=options.save, name="soak")


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument(
        "--soak", type=int, metavar="SECONDS", help="run the soak test for this long"
    )
    given = parser.parse_args()
    soak(given) if given.soak else speed(given)
