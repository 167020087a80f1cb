"""Files of texts, embedded on the cores of one node and of two by Ray: texts a second per core.

    python benchmarks/cluster.py --save
    python benchmarks/cluster.py --rows 100000 --files 4 --ways processes ray

`processes` is `embed_shards` by itself, `ray` a cluster of one node with all cores, and
`two nodes` a cluster of two nodes with half of the cores each, in two network namespaces that a
pair of virtual Ethernet devices connects (Linux, as root). The texts are sentences of IMDb's
reviews again and again, the model is "english", outputs are checked by their number of rows.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from growth import write_sentences
from harness import finish, parser_for, skip
from pacsent.threads import n_cores

DRIVER = """
import json, sys, time
from pacsent import scale
from pacsent.scale import on_ray

if __name__ == "__main__":
    engine, sources, target = sys.argv[1:]
    options = {} if engine == "none" else {"engine": on_ray(engine or None)}
    start = time.perf_counter()
    totals = scale.embed_shards("english", [sources], target, **options).totals()
    print(json.dumps({"rows": totals["rows"], "seconds": time.perf_counter() - start}))
"""
WAYS = ("processes", "ray", "two nodes")
NAMESPACES = ("pacsent-a", "pacsent-b")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 6390


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    if find_spec("ray") is None:
        skip("cluster", "Ray is not installed")

    rows = []
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        folder = Path(name)
        write_shards(given.data, folder, given.rows, given.files)
        driver = folder / "driver.py"
        driver.write_text(DRIVER)
        for way in given.ways:
            rows.append(measured(way, driver, folder))
    summary = {row["way"]: row["texts a second per core"] for row in rows}
    title = f"{given.rows:,} texts in {given.files} files"
    finish("cluster", rows, summary=summary, title=title, save=given.save, name=given.name)


def write_shards(data: Path, folder: Path, n_rows: int, n_files: int) -> None:
    """Parquet files of sentences in folder/texts, n_rows in all."""
    write_sentences(data, folder)
    sentences = pa.array((folder / "sentences.txt").read_text(encoding="utf-8").splitlines())
    (folder / "texts").mkdir()
    per_file = n_rows // n_files
    for number in range(n_files):
        numbers = np.arange(number * per_file, (number + 1) * per_file)
        table = pa.table({"text": sentences.take(pa.array(numbers % len(sentences)))})
        pq.write_table(table, folder / "texts" / f"part-{number:04}.parquet")


def measured(way: str, driver: Path, folder: Path) -> dict[str, object]:
    """One run: seconds of the whole, with the start of the workers but not of the cluster."""
    target = folder / way.replace(" ", "-")
    command = [sys.executable, str(driver)]
    places = [str(folder / "texts"), str(target)]
    if way == "processes":
        done = run([*command, "none", *places])
    elif way == "ray":
        with cluster([[]], [n_cores()]):
            done = run([*command, f"127.0.0.1:{PORT}", *places])
    else:
        inside = [["ip", "netns", "exec", name] for name in NAMESPACES]
        with namespaces(), cluster(inside, [n_cores() // 2, n_cores() - n_cores() // 2]):
            done = run([*inside[0], *command, f"{ADDRESSES[0]}:{PORT}", *places])

    found = json.loads(done.splitlines()[-1])
    written = sum(pq.read_metadata(path).num_rows for path in target.rglob("*.parquet"))
    if written != found["rows"]:
        raise SystemExit(f"{way}: {written:,} rows were written, {found['rows']:,} were read")
    shutil.rmtree(target)
    return {
        "way": way,
        "texts": found["rows"],
        "cores": n_cores(),
        "seconds": round(found["seconds"], 1),
        "texts a second per core": round(found["rows"] / found["seconds"] / n_cores()),
    }


@contextmanager
def cluster(inside: list[list[str]], cores: list[int]) -> Iterator[None]:
    """A Ray cluster: the first node is its head; each is started by a prefix of its command."""
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    is_alone = len(inside) == 1
    try:
        for number, (prefix, n) in enumerate(zip(inside, cores)):
            own = "127.0.0.1" if is_alone else ADDRESSES[number]
            head = "127.0.0.1" if is_alone else ADDRESSES[0]
            role = ["--head", f"--port={PORT}"] if number == 0 else [f"--address={head}:{PORT}"]
            options = [f"--node-ip-address={own}", f"--num-cpus={n}", "--disable-usage-stats"]
            if number == 0:
                options.append("--include-dashboard=false")
            run([*prefix, *ray, "start", *role, *options])
        time.sleep(2)  # until the second node is known to the first
        yield
    finally:
        subprocess.run([*ray, "stop", "--force"], capture_output=True)


@contextmanager
def namespaces() -> Iterator[None]:
    """Two network namespaces that see each other and nothing else."""
    first, second = NAMESPACES
    try:
        for name in NAMESPACES:
            run(["ip", "netns", "add", name])
        run(f"ip link add pac-a netns {first} type veth peer name pac-b netns {second}".split())
        for name, device, address in zip(NAMESPACES, ("pac-a", "pac-b"), ADDRESSES):
            run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", device])
            run(["ip", "-n", name, "link", "set", device, "up"])
            run(["ip", "-n", name, "link", "set", "lo", "up"])
        yield
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def run(command: list[str]) -> str:
    """What a command prints; an error ends the benchmark with the command's last words."""
    own = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=own)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-600:]}")
    return done.stdout


if __name__ == "__main__":
    main()
