"""The server under load, `/classify` beside `/v1/embeddings`, for models of few and of many texts.

    apt-get install wrk; pip install 'pacsent[serve,bench]'
    python benchmarks/serve_classifier.py --save

wrk keeps 16 connections busy; every request has three sentences of IMDb that no model was fitted
on. Rounds of the two endpoints alternate on one server with one worker, and the table has medians
of the rounds. wrk runs on the same machine over loopback, and takes its part of the cores. CPU time
is that of the server, with the comparison of the texts that were classified; `waiting` are those
that were not compared at the end.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from growth import write_sentences
from harness import finish, parser_for, skip
from pacsent import CertifiedClassifier, save
from serve import Client, free_port, running

SIZES = (2_000, 200_000)  # labelled texts, of which some are held out
N_CONNECTIONS, N_TEXTS = 16, 3
# path: the field with the texts
ENDPOINTS = {"/v1/embeddings": "input", "/classify": "texts"}

SCRIPT = """
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local n = tonumber(os.getenv("FIRST"))
local headers = {["content-type"] = "application/json"}
request = function()
  n = n + 1
  return wrk.format("POST", os.getenv("ENDPOINT"), headers, bodies[n % #bodies + 1])
end
done = function(summary, latency, requests)
  local errors = summary.errors
  local n_errors = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"n": %d, "seconds": %f, "median": %f, "p99": %f, "errors": %d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, n_errors))
end
"""


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8, help="of a round")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        skip("serve_classifier", "no wrk")

    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_sentences(options.data, folder)
        write_requests(folder, max(options.sizes))
        for size in options.sizes:
            n_fitted = train(folder, size)
            found, n_waiting = load(folder, options)
            for endpoint, rounds in found.items():
                row = {"texts fitted": n_fitted, "endpoint": endpoint, **medians(rounds)}
                row["waiting"] = n_waiting if endpoint == "/classify" else None
                rows.append(row)

    summary = {"load average": os.getloadavg()[0]}
    for first, second in zip(rows[::2], rows[1::2]):
        name = f"/classify over /v1/embeddings, {first['texts fitted']:,} texts"
        summary[name] = second["requests/s"] / first["requests/s"]
    title = f"The server with {N_CONNECTIONS} connections, {N_TEXTS} texts a request"
    finish(
        "serve_classifier", rows, title=title, summary=summary, save=options.save, name=options.name
    )


def write_requests(folder: Path, largest: int) -> None:
    """Bodies of requests, one a line, for each endpoint: of sentences after the largest size."""
    texts = (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()[largest:]
    groups = [texts[i : i + N_TEXTS] for i in range(0, len(texts) - N_TEXTS + 1, N_TEXTS)]
    for field in ENDPOINTS.values():
        lines = [json.dumps({field: group}) for group in groups]
        (folder / f"{field}.jsonl").write_text("\n".join(lines), encoding="utf-8")


def train(folder: Path, size: int) -> int:
    """Save a model of this many labelled sentences; how many of them it was fitted on."""
    import numpy as np

    with open(folder / "sentences.txt", encoding="utf-8") as file:
        texts = [next(file).rstrip() for _ in range(size)]
    labels = np.load(folder / "labels.npy")[:size].tolist()
    model = CertifiedClassifier(random_state=0).fit(texts, labels)
    shutil.rmtree(folder / "model", ignore_errors=True)
    save(model, folder / "model")
    return len(model.training_fingerprints_)


def load(folder: Path, options) -> tuple[dict[str, list[dict]], int]:
    """What wrk and the server's clock say of each round, by endpoint; texts not compared yet."""
    (folder / "requests.lua").write_text(SCRIPT)
    port = free_port()
    models = ["english", f"mine={folder / 'model'}"]
    command = [sys.executable, "-m", "pacsent", "serve", *models, "--port", str(port)]
    found: dict[str, list[dict]] = {endpoint: [] for endpoint in ENDPOINTS}
    with running(command, port) as server:
        for number in range(-1, options.rounds):  # the first warms up
            for endpoint, field in ENDPOINTS.items():
                environment = {
                    "BODIES": str(folder / f"{field}.jsonl"),
                    "FIRST": str(1000 * number),
                    "ENDPOINT": endpoint,
                }
                before = cpu_seconds(server.pid)
                heard = ask(folder / "requests.lua", port, options.seconds, environment)
                heard["cpu"] = (cpu_seconds(server.pid) - before) / heard["n"]
                if number >= 0:
                    found[endpoint].append(heard)
        body = json.dumps({"texts": "a film"}).encode()
        _, answer = asyncio.run(Client(port).ask("POST", "/classify", body))
    comparison = json.loads(answer)["guarantee"]["comparison"]
    assert not comparison["differs"], "After an alarm nothing is compared: that is too fast."
    return found, comparison["waiting"]


def ask(script: Path, port: int, seconds: int, environment: dict[str, str]) -> dict:
    """What wrk says of one round."""
    command = ["wrk", "-t1", f"-c{N_CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s"]
    done = subprocess.run(
        [*command, "-s", str(script), f"http://127.0.0.1:{port}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    heard = json.loads(done.stdout.splitlines()[-1])
    assert heard["errors"] == 0, heard
    return heard


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of the processes that it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_seconds(int(child)) for child in children)


def medians(rounds: list[dict]) -> dict[str, float]:
    return {
        "requests/s": statistics.median(heard["n"] / heard["seconds"] for heard in rounds),
        "median, ms": statistics.median(heard["median"] for heard in rounds),
        "99%, ms": statistics.median(heard["p99"] for heard in rounds),
        "CPU, ms": 1e3 * statistics.median(heard["cpu"] for heard in rounds),
    }


if __name__ == "__main__":
    main()
