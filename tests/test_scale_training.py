"""Skip-gram on several workers: every chunk once, the same tables everywhere, losses survived."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pacsent import Corpus, SkipGram, scale
from pacsent.scale import Alone, Schedule, Threads, train_worker
from pacsent.scale.distributed_training import _Curvature, _Worker, shard_of

SETTINGS = {"n_dims": 12, "n_epochs": 2, "random_state": 1, "subsample": 1e-2}
SCHEDULE = Schedule(every=2048)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    letters = "abcdefghij"
    names = [
        letters[i] + letters[j] + letters[k] for i in range(5) for j in range(9) for k in (0, 1)
    ]
    texts = [
        " ".join(names[i] for i in np.minimum(rng.zipf(1.3, 50) - 1, len(names) - 1))
        for _ in range(1500)
    ]
    return Corpus.build(texts, tmp_path_factory.mktemp("corpus") / "c", min_count=1)


@pytest.fixture(scope="module")
def alone(corpus):
    """The word vectors and the report of one worker."""
    return train_worker(corpus, **SETTINGS)


@pytest.fixture(scope="module")
def two_workers(corpus):
    """The same of each of two workers."""
    return Threads.run(2, lambda group: train_worker(corpus, group, schedule=SCHEDULE, **SETTINGS))


@pytest.mark.parametrize("n_chunks", [0, 1, 7, 64, 101])
@pytest.mark.parametrize("n_workers", [1, 3, 200])
def test_shards_hold_every_chunk_once(n_chunks, n_workers):
    dealt = [c for worker in range(n_workers) for c in shard_of(n_chunks, n_workers, worker)]
    assert sorted(dealt) == list(range(n_chunks))


@pytest.mark.parametrize("n_workers", [1, 3])
def test_rounds_hold_every_chunk_of_every_epoch_once(corpus, n_workers):
    class Fixed:
        size = n_workers

        def __init__(self, rank):
            self.rank = rank

    settings = {
        **SkipGram().get_params(), "n_dims": 2, "n_epochs": 3, "seed": 0, "deterministic": False,
    }  # fmt: skip
    trained = []
    for rank in range(n_workers):
        worker = _Worker(corpus, settings, Fixed(rank), SCHEDULE)
        while worker.round < worker.n_rounds:
            trained += worker.chunks()
            worker.round += 1
    assert sorted(trained) == list(range(worker.training.n_chunks))


def follow(table, weights, group):
    curvature = _Curvature(group, table.shape[1], weights)
    for _ in range(4):
        curvature.follow(table)
    return curvature


def test_directions_are_those_in_which_the_rows_of_a_table_lie():
    rng = np.random.default_rng(3)
    table = (rng.standard_normal((500, 40)) * 0.7 ** np.arange(40)).astype(np.float32)
    weights = rng.random(500)
    curvature = follow(table, weights, Alone())
    right = np.linalg.eigvalsh((table * (weights / weights.sum())[:, None]).T @ table)[::-1]
    np.testing.assert_allclose(curvature.values[:8], right[:8], rtol=1e-3)


@pytest.mark.parametrize("steps", [1e-6, 0.3, 3.0, 1e6])
def test_workers_apart_learn_together_what_one_learns_of_a_valley(steps):
    """A quadratic loss: one worker makes all steps; four make a fourth each and are merged."""

    class Four(Alone):
        size = 4

        def total(self, array):
            array *= 4

    rng = np.random.default_rng(0)
    table = (rng.standard_normal((300, 12)) * 0.5 ** np.arange(12)).astype(np.float32)
    curvature = follow(table, np.ones(300), Four())
    way = rng.standard_normal((5, 12)).astype(np.float32)  # to the minimum
    V, h = curvature.directions, curvature.values

    def gone(steps):
        return (way @ V * -np.expm1(-steps * h)) @ V.T

    total = (4 * gone(steps / 4)).astype(np.float32)
    curvature.shorten(total, np.full(5, steps))
    np.testing.assert_allclose(total, gone(steps), rtol=2e-3, atol=1e-5)


def test_one_worker_alone_is_one_training(corpus, alone):
    words, report = alone
    again, _ = train_worker(corpus, **SETTINGS)
    np.testing.assert_array_equal(words.input_vectors, again.input_vectors)
    assert report["bytes"] == 0 and report["loss"][1] < report["loss"][0]
    whole = SkipGram(**SETTINGS, n_jobs=1, min_count=1).fit(corpus)
    assert report["loss"][-1] == pytest.approx(whole.loss_[-1], rel=0.02)
    # a certificate can tell whether its texts are among those of the training
    np.testing.assert_array_equal(words.fingerprint.runs, whole.word_vectors_.fingerprint.runs)
    assert words.corpus_digest == whole.word_vectors_.corpus_digest


def test_workers_end_with_the_same_tables_and_the_pairs_of_one(alone, two_workers):
    for words, report in two_workers:
        np.testing.assert_array_equal(words.input_vectors, two_workers[0][0].input_vectors)
        np.testing.assert_array_equal(words.output_vectors, two_workers[0][0].output_vectors)
        assert report["pairs"] == alone[1]["pairs"]  # no word twice, none left out
        assert report["loss"][-1] == pytest.approx(alone[1]["loss"][-1], rel=0.05)


def test_longer_rounds_cost_fewer_bytes(corpus, two_workers):
    schedule = Schedule(every=8192, warm_up=0)
    found = Threads.run(2, lambda group: train_worker(corpus, group, schedule=schedule, **SETTINGS))
    assert found[0][1]["bytes"] < 0.5 * two_workers[0][1]["bytes"]


def test_a_training_that_stopped_goes_on_as_if_it_had_not(corpus, two_workers, tmp_path):
    def run(folder, stop_at=None):
        def work(group):
            def advance(n, seen=[0]):  # noqa: B006
                seen[0] += n
                if stop_at is not None and seen[0] > stop_at and group.rank == 1:
                    raise KeyboardInterrupt

            return train_worker(
                corpus, group, schedule=SCHEDULE, checkpoint_dir=folder, advance=advance, **SETTINGS
            )

        return Threads.run(2, work)[0]

    whole = two_workers[0]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", stop_at=corpus.n_tokens * 0.7)
    assert list((tmp_path / "cut").glob("tables-*.f32"))
    words, report = run(tmp_path / "cut")
    np.testing.assert_array_equal(words.input_vectors, whole[0].input_vectors)
    np.testing.assert_array_equal(words.output_vectors, whole[0].output_vectors)
    assert report["pairs"] == whole[1]["pairs"]
    with pytest.raises(ValueError, match="settings must be those of the training in"):
        train_worker(corpus, checkpoint_dir=tmp_path / "cut", **{**SETTINGS, "n_dims": 3})


def test_workers_with_different_settings_are_refused(corpus):
    def work(group):
        return train_worker(corpus, group, **{**SETTINGS, "random_state": group.rank})

    with pytest.raises(ValueError, match="must have the same corpus and the same parameters"):
        Threads.run(2, work)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"warm_up": -1}, "warm_up must be at least 0"), ({"every": 0}, "every must be at least 1")],
)  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        Schedule(**wrong)


@pytest.mark.slow  # starts torch in three processes
@pytest.mark.extra
def test_processes_joined_by_gloo_train_as_threads_do_though_one_is_killed(corpus, tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    code = f"""
from pacsent.scale import Schedule, train_words
if __name__ == "__main__":
    words, report = train_words(
        {str(corpus.directory)!r}, 2, {str(folder)!r}, schedule=Schedule(every=1024),
        timeout=60.0, n_dims=12, n_epochs=20, random_state=1, subsample=1e-2)
    print("lost", report["lost"], report["pairs"][0])
"""
    script = tmp_path / "run.py"
    script.write_text(code)
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 500
    while not list(folder.glob("tables-*.f32")) and time.monotonic() < deadline:
        time.sleep(0.02)
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
    )
    workers = [line.split()[0] for line in listed.stdout.splitlines() if "spawn_main" in line]
    os.kill(int(workers[-1]), signal.SIGKILL)
    out, _ = process.communicate(timeout=600)
    expected = Threads.run(
        2,
        lambda group: train_worker(
            corpus, group, schedule=Schedule(every=1024),
            **{**SETTINGS, "n_epochs": 20},
        ),
    )[0]  # fmt: skip
    assert out.split() == ["lost", "1", str(expected[1]["pairs"][0])]
    from pacsent import load

    words = load(folder / "words")
    np.testing.assert_array_equal(words.input_vectors, expected[0].input_vectors)


@pytest.mark.slow  # starts torch by itself
@pytest.mark.extra
def test_the_module_for_torchrun_takes_its_place_from_the_environment(corpus, tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               "2", "-m", "pacsent.scale.torchrun_worker", str(corpus.directory),
               str(tmp_path / "w"), "--n-dims", "4", "--n-epochs", "1"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    from pacsent import load

    assert load(tmp_path / "w" / "words").training["workers"] == 2
    assert scale.Alone.size == 1
