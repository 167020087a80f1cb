"""SkipGram: what it learns, seeds, documents, checkpoints; its kernel: kernels/test_skipgram.py."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import run_python
from pacsent import Corpus, SkipGram, load
from pacsent.datasets import load_books
from pacsent.threads import n_cores
from pacsent.words import skipgram_training
from pacsent.words.checkpoint import TrainingSettings, delete_checkpoint
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.noise import alias_thresholds
from pacsent.words.skipgram import auto_epochs
from pacsent.words.skipgram_training import ChunkTraining, kept_places

SMALL = {"n_dims": 20, "window": 3, "n_epochs": 2, "n_negatives": 4, "min_count": 1, "subsample": 0}


@pytest.fixture(scope="module")
def sentences():
    """Two topics that share no word: 300 documents of 20 words."""
    rng = np.random.default_rng(5)
    return [
        [f"{'ab'[topic]}{word}" for word in rng.integers(0, 40, 20)]
        for topic in rng.integers(0, 2, 300)
    ]


@pytest.fixture(scope="module")
def corpus(sentences, tmp_path_factory):
    return Corpus.build(sentences, tmp_path_factory.mktemp("corpus") / "corpus", min_count=1)


def test_the_alias_table_gives_the_probabilities_back(rng):
    p = rng.dirichlet(np.full(50, 0.3))
    thresholds, aliases = alias_thresholds(p)
    own = thresholds / 2.0**32
    found = own.copy()
    np.add.at(found, aliases, 1 - own)
    assert_allclose(found / 50, p, atol=1e-9)


def test_subsampling_keeps_the_share_it_promises_and_depends_on_the_place_alone():
    ids = np.zeros(40_000, np.int32)
    keep_below = np.array([int(0.3 * 2**32)], np.uint64)

    whole = kept_places(ids, 0, keep_below, np.uint64(9))
    part = kept_places(ids[500:600], 500, keep_below, np.uint64(9))

    assert abs(whole.size / ids.size - 0.3) < 0.01
    assert_array_equal(part + 500, whole[(whole >= 500) & (whole < 600)])


def test_words_of_one_topic_become_neighbours(corpus):
    settings = SMALL | {"n_epochs": 40, "learning_rate": 0.05, "random_state": 0}
    words = SkipGram(**settings, n_jobs=2).fit(corpus).word_vectors_

    assert words.input_vectors.shape == words.output_vectors.shape == (80, 20)
    for name in ("a1", "b7"):
        assert all(word[0] == name[0] for word, _ in words.most_similar(name, 20))


def test_the_loss_begins_at_its_known_value_and_falls(corpus):
    settings = SMALL | {"n_epochs": 6, "random_state": 0, "n_jobs": 1}

    # output vectors begin at 0: every one of the 1 + 4 terms is log 2, less the 1 in 80 noise
    # words that equal the centre and are left out
    (unmoved, *_) = SkipGram(**settings, learning_rate=1e-9).fit(corpus).loss_
    assert_allclose(unmoved, (1 + 4 * 79 / 80) * np.log(2), rtol=5e-3)

    losses = SkipGram(**settings).fit(corpus).loss_
    assert len(losses) == 6
    assert losses[-1] < losses[0] < unmoved


@pytest.fixture(scope="module")
def short_book(tmp_path_factory):
    passages = [passage.text for passage in load_books()[:300]]
    return Corpus.build(passages, tmp_path_factory.mktemp("book") / "corpus")


def test_too_few_updates_are_noticed(short_book):
    settings = {"n_dims": 50, "random_state": 0, "n_jobs": 1}

    with pytest.warns(UserWarning, match=r"nearly equal \(mean cosine (0.99|1.00)\): 5 epochs"):
        few = SkipGram(**settings, n_epochs=5).fit(short_book).word_vectors_
    assert few.most_similar("house", 1)[0][1] > 0.999

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words = SkipGram(**settings).fit(short_book).word_vectors_
    assert words.training["n_epochs"] == 200  # of 19,000 words
    assert words.most_similar("house", 1)[0][1] < 0.9


@pytest.mark.parametrize(
    ("n_tokens", "n_epochs"), [(0, 200), (221_000, 46), (1_000_000, 10), (10**9, 5)]
)
def test_epochs_follow_the_corpus(n_tokens, n_epochs):
    assert auto_epochs(n_tokens) == n_epochs


def test_windows_do_not_cross_documents(tmp_path):
    # "left" and "right" always stand side by side, but never in one document: neither is ever
    # the other's context. Words alone in their document are in no pair, so their rows stay put.
    documents = [["left"], ["right"]] * 200 + [["x", "y"]] * 50
    settings = SMALL | {"n_negatives": 1}

    model = SkipGram(**settings, random_state=0, n_jobs=1).fit(documents)
    start = SkipGram(**settings, random_state=0, n_jobs=1, learning_rate=1e-30)
    untouched = start.fit(documents).word_vectors_

    for word in ("left", "right"):
        assert_array_equal(model.word_vectors_.input(word), untouched.input(word))
    assert not np.array_equal(model.word_vectors_.input("x"), untouched.input("x"))


def test_a_document_longer_than_a_chunk_is_trained_whole(monkeypatch, tmp_path):
    # every pair of one long document is met, whatever the chunks: window 1, nothing skipped
    document = [f"w{i % 7}" for i in range(3_000)]
    corpus = Corpus.build([document], tmp_path / "corpus", min_count=1)
    settings = TrainingSettings(
        n_dims=8,
        window=1,
        subsample=0,
        n_epochs=1,
        n_negatives=4,
        noise_power=0.75,
        learning_rate=0.025,
        min_count=1,
        device="cpu",
        seed=0,
        digest=corpus.digest,
    )

    for size in (50, 1_000, 10_000):
        monkeypatch.setattr(skipgram_training, "_MIN_CHUNK_TOKENS", size)
        monkeypatch.setattr(skipgram_training, "_MAX_CHUNK_TOKENS", size)
        training = ChunkTraining(corpus, settings, 1)
        training.run(verbose=False)
        assert training.sums[0, 1] == 2 * 3_000 - 2


@pytest.mark.parametrize(
    "changed",
    [{"n_dims": 1}, {"n_dims": 17}, {"window": 1, "n_negatives": 1}, {"window": 40}]
    + [{"n_negatives": 50}, {"subsample": 1e-2}, {"noise_power": 0.0}],
    ids=str,
)
def test_unusual_settings_train(corpus, changed):
    model = SkipGram(**SMALL | changed | {"n_epochs": 1}, n_jobs=1).fit(corpus)

    for table in (model.word_vectors_.input_vectors, model.word_vectors_.output_vectors):
        assert table.shape == (80, model.n_dims)
        assert np.isfinite(table).all()
        assert table.any()


def test_a_tiny_vocabulary_stays_finite_and_bounded():
    documents = [["a", "b", "a", "b", "a"]] * 400 + [["c"]]
    settings = {"n_dims": 10, "min_count": 1, "subsample": 1e-2, "n_epochs": 10}
    model = SkipGram(**settings, n_jobs=1, random_state=0).fit(documents)

    assert np.abs(model.word_vectors_.input_vectors).max() < 10


@pytest.mark.parametrize("text", [[["alone"], ["single"]], [["again"] * 50]])
def test_a_fit_that_fails_changes_nothing(corpus, text):
    model = SkipGram(**SMALL, n_jobs=1, random_state=0).fit(corpus)
    fitted = model.word_vectors_, model.vocabulary_, model.loss_

    with pytest.raises(ValueError, match=r"The text must"):
        model.fit(text)

    assert (model.word_vectors_, model.vocabulary_, model.loss_) == fitted


@pytest.mark.parametrize(
    ("texts", "changed", "message"),
    [
        ([["alone"], ["single"]], {}, r"must give pairs of neighbouring words\. Got none in"),
        ([["again"] * 50, ["once"]], {"min_count": 2}, "two different words. Got only 'again' aft"),
        ([["a", "b"]], {"n_jobs": 0}, "n_jobs must be a number of threads"),
        ([["a", "b"]], {"device": "cuda:99"}, "needs|must name one of the"),
        ([["a", "b"]], {"device": "tpu"}, "'cpu', 'cuda' or 'cuda:<number>'"),
        ([["a", "b"]], {"n_dims": 0}, "The 'n_dims' parameter of SkipGram"),
    ],
)
def test_bad_texts_and_parameters_are_named(texts, changed, message):
    with pytest.raises((ValueError, ImportError), match=message):
        SkipGram(**{"n_dims": 4, "min_count": 1, "n_epochs": 1, "n_jobs": 1} | changed).fit(texts)


@pytest.mark.parametrize("state", [None, 3, np.random.RandomState(3)], ids=["none", "int", "state"])
def test_the_recorded_seed_gives_the_same_bits_again_and_another_one_does_not(corpus, state):
    def train(seed):
        return SkipGram(**SMALL, random_state=seed, n_jobs=1).fit(corpus).word_vectors_

    first = train(state)
    again, other = train(first.training["seed"]), train(first.training["seed"] + 1)

    assert_array_equal(again.input_vectors, first.input_vectors)
    assert_array_equal(again.output_vectors, first.output_vectors)
    assert again.training == first.training
    assert not np.array_equal(first.input_vectors, other.input_vectors)


def test_word_vectors_remember_how_they_were_made(corpus):
    for n_jobs, expected in ((-1, n_cores()), (None, n_cores()), (-n_cores(), 1)):
        model = SkipGram(**SMALL, random_state=0, n_jobs=n_jobs).fit(corpus)
        words = model.word_vectors_
        assert words.training["n_jobs"] == expected

    assert words.training == words.training | {"n_negatives": 4, "window": 3}
    assert words.corpus_digest == corpus.digest
    assert words.fingerprint.n_documents == Fingerprint.of(corpus.vocabulary, corpus).n_documents
    assert model.vocabulary_ is corpus.vocabulary
    assert words.input_vectors.flags.c_contiguous


def run_command(*arguments):
    command = [sys.executable, "-m", "pacsent", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def long_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    pairs = np.array(["".join(pair) for pair in product("abcdefgh", repeat=2)])
    drawn = pairs[np.random.default_rng(5).integers(0, 64, (2400, 20))]
    path.write_text("\n".join(map(" ".join, drawn)) + "\n")
    return path


TRAIN = ["--n-dims", 24, "--n-epochs", 60, "--min-count", 1, "--n-jobs", 1, "--random-state", 5]


@pytest.fixture(scope="module")
def never_killed(long_text, tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "whole"
    whole = run_command("vectors", "train", long_text, "-o", place, *TRAIN)
    assert whole.wait(300) == 0, whole.stderr.read()
    return load(place)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
def test_a_killed_training_resumes_and_ends_with_the_same_bits(
    long_text, never_killed, tmp_path, how
):
    command = ["vectors", "train", long_text, "-o", tmp_path / "killed", *TRAIN]
    killed = run_command(*command, "--checkpoint-every", "0.05")
    state = tmp_path / "killed.training" / "checkpoint"
    deadline = time.monotonic() + 100

    while killed.poll() is None and time.monotonic() < deadline:
        if state.exists() and b'"next_chunk"' in state.read_bytes():
            killed.send_signal(how)
            break
        time.sleep(0.002)

    status = killed.wait(60)
    assert status == (-how if how == signal.SIGKILL else 128 + how), killed.stderr.read()
    assert not (tmp_path / "killed").exists()
    assert json.loads(state.read_bytes().partition(b"\n")[0])["next_chunk"] > 0

    other = run_command(*command, "--n-dims", 3)
    assert other.wait(60) == 1 and "training with another --n-dims" in other.stderr.read()

    resumed = run_command(*command)
    assert resumed.wait(300) == 0, resumed.stderr.read()
    assert not state.parent.exists()

    found = load(tmp_path / "killed")
    assert_array_equal(found.input_vectors, never_killed.input_vectors)
    assert_array_equal(found.output_vectors, never_killed.output_vectors)


class Stopped(Exception):
    pass


def interrupted(corpus, folder, after, **settings):
    """A training that is stopped after some chunks, its checkpoint written."""
    model = SkipGram(**settings, checkpoint_dir=folder, checkpoint_every=1e9)
    original = ChunkTraining.train_chunk

    def stopping(self, number):
        if number == after:
            self.next_chunk = number
            self.save()
            raise Stopped
        original(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkTraining, "train_chunk", stopping)
        with pytest.raises(Stopped):
            model.fit(corpus)


@pytest.mark.parametrize("chunk", [pytest.param(None, marks=pytest.mark.slow), 700])
def test_resume_gives_the_bits_and_losses_of_an_uninterrupted_run(corpus, tmp_path, chunk):
    """Also of a checkpoint that was written with another chunk size."""
    settings = SMALL | {"n_epochs": 3, "random_state": 1, "n_jobs": 1}

    with pytest.MonkeyPatch.context() as patch:
        if chunk:
            patch.setattr(skipgram_training, "_MIN_CHUNK_TOKENS", chunk)
        whole = SkipGram(**settings).fit(corpus)
        interrupted(corpus, tmp_path / "state", 8, **settings)

    resumed = SkipGram.resume(tmp_path / "state")
    assert_array_equal(resumed.word_vectors_.output_vectors, whole.word_vectors_.output_vectors)
    assert_allclose(resumed.loss_, whole.loss_, rtol=1e-12)

    delete_checkpoint(tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_checkpoints_are_neither_overwritten_nor_read_when_damaged(corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no file checkpoint"):
        SkipGram.resume(tmp_path)

    interrupted(corpus, tmp_path, 2, **SMALL, n_jobs=1)
    with pytest.raises(ValueError, match="unfinished training"):
        SkipGram(**SMALL, checkpoint_dir=tmp_path).fit(corpus)

    whole = (tmp_path / "checkpoint").read_bytes()
    for damaged, message in (
        (whole[:-1000], r"must have 20,480 bytes of finite numbers. Got 19,480"),
        (whole[:-4] + b"\0\0\x80\x7f", r"of finite numbers. Got 20,480, or others"),
        (whole.replace(b'"window": 3', b'"window": 4'), r"must be a complete checkpoint"),
        (whole[:100], r"must be a complete checkpoint"),
    ):
        (tmp_path / "checkpoint").write_bytes(damaged)
        with pytest.raises(ValueError, match=message):
            SkipGram.resume(tmp_path)


def test_a_full_disk_keeps_the_last_checkpoint_and_training_goes_on(corpus, tmp_path, monkeypatch):
    original = ChunkTraining.train_chunk

    def slowly(self, number):
        original(self, number)
        time.sleep(0.2)  # so that the time for a checkpoint comes between chunks

    def full(folder, plan, progress, tables):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ChunkTraining, "train_chunk", slowly)
    monkeypatch.setattr(skipgram_training, "write_checkpoint", full)

    model = SkipGram(**SMALL, n_jobs=1, checkpoint_dir=tmp_path, checkpoint_every=0.0)
    with pytest.warns(UserWarning, match="is full, so this checkpoint was not written"):
        model.fit(corpus)

    assert np.isfinite(model.word_vectors_.input_vectors).all()
    assert b"next_chunk" not in (tmp_path / "checkpoint").read_bytes()


@pytest.mark.slow
def test_quality_on_a_real_corpus(data_dir, monkeypatch):
    path = os.environ.get("PACSENT_ENWIK8")
    if not path:
        pytest.skip("set PACSENT_ENWIK8 to enwik8 cleaned with --wiki")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from word_tasks import word_scores

    words = SkipGram(random_state=1).fit(Path(path)).word_vectors_
    scores = {task: score for task, (score, _) in word_scores(words, data_dir / "words").items()}
    assert scores["WordSim-353"] >= 66
    assert scores["SimLex-999"] >= 32
    assert scores["analogies"] >= 32


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_sixteen_threads_train_within_the_promised_memory(tmp_path, rng):
    words = np.array(["".join(letters) for letters in product("abcdefghij", repeat=4)])
    drawn = words[(len(words) * rng.random(1_500_000) ** 3).astype(int)]
    (tmp_path / "text").write_text("\n".join(" ".join(part) for part in drawn.reshape(-1, 1000)))

    code = (
        "import sys; sys.modules['pandas'] = None\n"  # scikit-learn loads it where it is there
        "from pacsent import SkipGram\n"
        "model = SkipGram(n_epochs=1, subsample=1e-6, n_jobs=16).fit(sys.argv[1])\n"
        "print(model.word_vectors_.n_words)\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line])"
    )

    n_words, peak = map(int, run_python(code, tmp_path / "text").split())
    assert n_words == len(words)
    assert peak * 1024 <= 1.2 * 2 * n_words * 300 * 4 + 300e6
