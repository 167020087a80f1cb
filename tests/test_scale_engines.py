"""The same vectors on Ray, and every row once whatever is lost."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors, make, save, scale

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = ["a good film", "bad, bad film", "", "good", "zzz"]


@pytest.fixture(scope="module")
def vectorizer():
    rng = np.random.default_rng(0)
    I, O = rng.standard_normal((2, 4, 5)).astype(np.float32)
    words = WordVectors(Vocabulary(["a", "good", "film", "bad"], [4, 3, 2, 1]), I, O)
    return make("Average", words, on_empty="ignore").fit(["a"])


@pytest.fixture(scope="module")
def model(vectorizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    save(vectorizer, path)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(6):
        pq.write_table(pa.table({"id": range(5 * i, 5 * i + 5), "text": TEXTS}),
                       folder / f"{i}.parquet")  # fmt: skip
    return folder


def check(out, vectorizer):
    """Every row once, with the vectors of this machine."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(out.glob("*.parquet")))
    assert table["id"].to_pylist() == list(range(30))
    found = np.array(table["mean"].to_pylist(), np.float32)
    np.testing.assert_array_equal(found, np.tile(vectorizer.transform(TEXTS), (6, 1)))


def test_arrow_batches_get_the_vectors_of_this_machine(model, vectorizer):
    table = scale.Embedder(model)(pa.table({"id": range(5), "text": TEXTS}))
    right = vectorizer.transform(TEXTS)
    np.testing.assert_array_equal(np.array(table["mean"].to_pylist(), np.float32), right)
    assert table["variance"].null_count == 2


@pytest.fixture(scope="module")
def cluster():
    """Two node processes of two cores each on this machine, and a head without cores."""
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [made.add_node(num_cpus=2) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


@pytest.mark.extra
def test_shards_on_ray_are_those_of_this_machine(cluster, folder, tmp_path, model, vectorizer):
    manifest = scale.embed_shards(
        model, [folder], tmp_path / "out", keep_columns=["id"], engine=scale.on_ray()
    )
    assert manifest.totals()["rows"] == 30 and not manifest.failed
    check(tmp_path / "out", vectorizer)


@pytest.mark.extra
def test_a_ray_dataset_gets_its_vectors(cluster, folder, model, vectorizer):
    import ray

    dataset = ray.data.read_parquet(str(folder))
    arguments = {"fn_constructor_args": (model,), "batch_format": "pyarrow", "concurrency": 2}
    rows = dataset.map_batches(scale.Embedder, batch_size=4, **arguments).take_all()
    rows.sort(key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(30))
    found = np.array([row["mean"] for row in rows], np.float32)
    np.testing.assert_array_equal(found, np.tile(vectorizer.transform(TEXTS), (6, 1)))


@pytest.mark.extra
def test_a_process_that_is_killed_loses_no_row(cluster, folder, tmp_path, model, vectorizer):
    """The file's first process is killed while it works on it."""
    from pacsent.scale import ray_engine

    mark, work = tmp_path / "killed", ray_engine.work_on

    def deadly(task):
        if task.shard.source.endswith("3.parquet") and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(task)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_engine, "work_on", deadly)
        manifest = scale.embed_shards(
            model, [folder], tmp_path / "out", keep_columns=["id"], engine=scale.on_ray()
        )
    assert mark.exists() and not manifest.failed
    check(tmp_path / "out", vectorizer)


def slowly(work, begun):
    """Work whose files take half a second, and which tells that it has begun."""

    def slow(task):
        (begun / f"{os.getpid()}").touch()
        time.sleep(0.5)
        return work(task)

    return slow


@pytest.mark.extra
def test_a_node_that_is_killed_loses_no_row(cluster, folder, tmp_path, model, vectorizer):
    """One of two node processes is killed, with all its workers, while files are worked on."""
    from pacsent.scale import ray_engine

    made, nodes = cluster
    begun = tmp_path / "begun"
    begun.mkdir()
    n_started = []

    def engine(tasks, n_jobs, advance):
        for result in scale.on_ray()(tasks, n_jobs, advance):
            if not n_started:
                n_started.append(len(list(begun.iterdir())))
                made.remove_node(nodes.pop(), allow_graceful=False)
            yield result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_engine, "work_on", slowly(ray_engine.work_on, begun))
        manifest = scale.embed_shards(
            model, [folder], tmp_path / "out", keep_columns=["id"], engine=engine, n_jobs=4
        )
    nodes.append(made.add_node(num_cpus=2))
    made.wait_for_nodes()
    assert n_started and not manifest.failed
    check(tmp_path / "out", vectorizer)


@pytest.mark.extra
def test_a_driver_that_is_killed_and_started_again_loses_no_row(
    cluster, folder, tmp_path, model, vectorizer
):
    made, _ = cluster
    out = tmp_path / "out"
    code = f"""
import time
from pacsent import scale
from pacsent.scale import ray_engine
work = ray_engine.work_on
def slow(task):
    time.sleep(1.0)
    return work(task)
ray_engine.work_on = slow
scale.embed_shards({model!r}, [{str(folder)!r}], {str(out)!r}, keep_columns=["id"], n_jobs=1,
                   engine=scale.on_ray({made.address!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 120
    while not list(out.glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 1 <= len(before) < 6
    manifest = scale.embed_shards(model, [folder], out, keep_columns=["id"], engine=scale.on_ray())
    assert not manifest.failed
    check(out, vectorizer)
    assert json.loads((out / "manifest.json").read_text())["totals"]["rows"] == 30
