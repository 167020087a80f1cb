"""The GPU engine. Without a GPU: its plain-torch twin against the CPU kernels, its tables and its
messages. With one (`make test-gpu`): the kernels against the twin, streaming, checkpoints."""

import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'pacsent[gpu]'")

from helpers import run_python  # noqa: E402
from pacsent import SkipGram, Vocabulary  # noqa: E402
from pacsent.kernels.skipgram import descend_plainly  # noqa: E402
from pacsent.words.gpu import device as gpu_device  # noqa: E402
from pacsent.words.gpu import skipgram as gpu_skipgram  # noqa: E402
from pacsent.words.gpu.skipgram import Shape  # noqa: E402
from reference import gpu_skipgram_reference as reference  # noqa: E402

pytestmark = pytest.mark.extra(needs="torch")


@pytest.fixture(autouse=True)
def one_thread():
    """Torch on one thread, as long as a test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cuda():
    """The GPU of this machine."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    return gpu_device.require("cuda")


def draw_corpus(rng, n_words=200, n_documents=12, longest=700):
    """Documents of uneven length, some empty, words with a skewed distribution."""
    lengths = rng.integers(0, longest, n_documents)
    lengths[:3] = [0, 1, 2]
    offsets = np.append(0, np.cumsum(lengths))
    ids = n_words * rng.random(offsets[-1]) ** 2
    ids = ids.astype(np.int32)

    counts = np.bincount(ids, minlength=n_words) + 1
    names = [f"w{i}" for i in range(n_words)]
    return SimpleNamespace(
        ids=ids,
        offsets=offsets,
        n_tokens=ids.size,
        vocabulary=Vocabulary(names, counts),
        digest="d" * 64,
    )


# ---- Draws of words ----


@pytest.mark.parametrize("n_words", [1, 7, 1000])
def test_the_alias_table_draws_each_word_with_its_probability(rng, n_words):
    weights = rng.random(n_words) ** 4 + 1e-6
    p = weights / weights.sum()

    thresholds, aliases = gpu_skipgram.alias_table(p).astype(float).T

    own = (thresholds + 1) / 2.0**32
    drawn = own / n_words
    np.add.at(drawn, aliases.astype(int), (1 - own) / n_words)
    assert_allclose(drawn, p, atol=1e-9)


def test_words_are_kept_as_often_as_asked(rng):
    ids = rng.integers(0, 3, 30_000)
    keep = np.array([0.1, 0.5, 1.0])
    key = gpu_skipgram.epoch_key(0, 0)
    thresholds = gpu_skipgram.keep_thresholds(keep)

    places, _ = reference.kept_words(ids, 0, ids.size, key, thresholds)

    share = np.bincount(ids[places], minlength=3) / np.bincount(ids, minlength=3)
    assert_allclose(share, keep, atol=0.02)


# ---- Chunks ----

REACH = 320


@pytest.fixture
def long_corpus(rng):
    """Forty documents, most of them longer than a chunk."""
    return draw_corpus(rng, n_documents=40, longest=3000)


@pytest.fixture
def chunks(long_corpus):
    """All chunks of these documents."""
    return gpu_skipgram.chunks_between(long_corpus.offsets, 0, long_corpus.n_tokens, REACH)


def test_chunks_cover_every_token_once_but_those_of_documents_of_one_word(long_corpus, chunks):
    covered = np.zeros(long_corpus.n_tokens, dtype=int)
    for start, length in zip(chunks.starts, chunks.lengths):
        covered[start : start + length] += 1

    lengths = np.diff(long_corpus.offsets)
    has_pairs = np.repeat(lengths >= 2, lengths)
    assert_array_equal(covered, has_pairs)
    assert chunks.lengths.max() <= gpu_skipgram.CHUNK_TOKENS


def test_chunks_reach_to_the_borders_of_their_documents(long_corpus, chunks):
    for start, length, before, after in zip(*chunks):
        document = np.searchsorted(long_corpus.offsets, start, side="right") - 1
        low, high = long_corpus.offsets[document : document + 2]
        assert before == min(REACH, start - low)
        assert after == min(REACH, high - start - length)


def test_the_chunks_of_all_segments_are_those_of_the_whole_corpus(long_corpus, chunks):
    offsets = long_corpus.offsets
    cuts = gpu_skipgram.cut_points(offsets, long_corpus.n_tokens, 5000)

    segments = []
    for low, high in pairwise(cuts):
        segments.append(gpu_skipgram.chunks_between(offsets, low, high, REACH))

    assert len(cuts) > 5
    for parts, whole in zip(zip(*segments), chunks):
        assert_array_equal(np.concatenate(parts), whole)


def test_a_long_document_is_cut_into_segments_too():
    cuts = gpu_skipgram.cut_points(np.array([0, 10_000]), 10_000, 3000)
    assert max(np.diff(cuts)) < 4000


# ---- The twin ----


def test_a_tile_moves_as_on_the_cpu_given_the_same_negative_samples(rng):
    n_words, n_dims, n_inputs, n_centres, n_negatives = 60, 16, 8, 2, 10
    I = rng.normal(size=(n_words, n_dims)).astype(np.float32)
    O = rng.normal(size=(n_words, n_dims)).astype(np.float32)
    rows_I = rng.choice(n_words, n_inputs, replace=False)
    rows_O = rng.choice(n_words, n_centres + n_negatives, replace=False)
    seen = (rng.random((n_inputs, n_centres)) < 0.6).astype(np.float32)
    n_seen = np.repeat(seen.sum(1, keepdims=True), n_negatives, 1)
    labels = np.hstack([np.ones_like(seen), np.zeros_like(n_seen)])
    weights = np.hstack([seen, n_seen])

    tile = [torch.from_numpy(array) for array in (I[rows_I], O[rows_O], labels, weights)]
    to_I, to_O, loss = reference.tile_step(*tile, 0.025)

    moved_I = I.copy()
    moved_O = O.copy()
    moved_I[rows_I] += to_I.numpy()
    moved_O[rows_O] += to_O.numpy()
    used_I, used_O = np.nonzero(weights)
    signed = np.where(labels > 0, weights, -weights)[used_I, used_O]
    cpu_loss = descend_plainly(I, O, rows_I[used_I], rows_O[used_O], signed, 0.025)
    assert_allclose(I, moved_I, atol=1e-5)
    assert_allclose(O, moved_O, atol=1e-5)
    assert_allclose(cpu_loss, float(loss), rtol=1e-5)


class Launch:
    """What one launch of one warp gets: a corpus, its chunks, two tables and settings."""

    def __init__(self, rng, shape, n_words=40, n_documents=5, longest=60):
        self.shape = shape
        self.corpus = draw_corpus(rng, n_words, n_documents, longest)
        self.chunks = self.cut(64 * shape.window)
        tables = (rng.random((2, n_words, shape.n_dims)) - 0.5) / 3
        self.input, self.output = map(torch.tensor, tables)
        self.order = rng.permutation(self.chunks.starts.size)[:3]
        self.keep = 1.2 * rng.random(n_words)
        self.noise = rng.random(n_words) + 0.01
        self.step = {"key": gpu_skipgram.epoch_key(3, 1), "rate": 0.05, "done": 0.1, "span": 0.3}

    def cut(self, reach, **options):
        offsets = self.corpus.offsets
        return gpu_skipgram.chunks_between(offsets, 0, self.corpus.n_tokens, reach, **options)

    def replay(self, chunks, order):
        """n_kept, n_pairs and loss of the twin, which changes the tables in place."""
        return reference.replay(
            self.input,
            self.output,
            self.corpus.ids,
            chunks,
            order,
            self.shape,
            keep=self.keep,
            noise=self.noise,
            **self.step,
        )


@pytest.mark.parametrize("shape", [Shape(6, 3, 2, 1), Shape(6, 3, 2, 2)])
def test_windows_reach_across_chunk_borders_and_not_across_documents(rng, shape):
    launch = Launch(rng, shape)
    whole = launch.cut(128)
    cut = launch.cut(128, chunk_tokens=7)

    *counts_of_whole, _ = launch.replay(whole, range(whole.starts.size))
    *counts_of_cut, _ = launch.replay(cut, range(cut.starts.size))

    assert cut.starts.size > whole.starts.size
    assert counts_of_cut == counts_of_whole


def test_the_twin_learns_which_words_meet():
    """Words 0, 1 occur together and so do 2, 3: after training, their scores say so."""
    rng = np.random.default_rng(0)
    documents = [rng.permutation([0, 1] * 5 if i % 2 else [2, 3] * 5) for i in range(60)]
    ids = np.concatenate(documents)
    offsets = np.arange(0, ids.size + 1, 10)
    chunks = gpu_skipgram.chunks_between(offsets, 0, ids.size, 128)
    I = torch.tensor(0.1 * rng.normal(size=(4, 8)))
    O = torch.zeros(4, 8, dtype=torch.float64)
    settings = {"keep": np.ones(4), "noise": np.ones(4), "rate": 0.05, "done": 0.0, "span": 0.1}

    for epoch in range(2):
        key = gpu_skipgram.epoch_key(0, epoch)
        _, n_pairs, loss = reference.replay(
            I, O, ids, chunks, range(60), Shape(8, 2, 2, 2), key=key, **settings
        )

    scores = (I @ O.T).numpy()
    loss_of_a_pair_at_first = 3 * np.log(2)
    assert loss < 0.8 * loss_of_a_pair_at_first * n_pairs
    assert scores[0, 1] > 0 > scores[0, 2]
    assert scores[3, 2] > 0 > scores[3, 0]


# ---- The kernels ----


@pytest.mark.parametrize(
    ("n_dims", "n_negatives", "n_centres"), [(300, 15, 1), (300, 15, 2), (600, 40, 1), (4, 1, 1)]
)
def test_output_rows_fit_into_registers(n_dims, n_negatives, n_centres):
    shape = Shape(n_dims, n_negatives, 5, n_centres)

    row_registers = shape.stride // 32
    n_groups = -(-shape.n_outputs // shape.group)
    assert shape.group * row_registers <= gpu_skipgram.REGISTER_ROWS + row_registers
    assert shape.group <= 32
    assert n_groups * shape.group >= shape.n_outputs


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("shape", [Shape(300, 15, 5, 2), Shape(37, 3, 2, 1)])
def test_the_kernels_compile_for_gpus_old_and_new(shape, architecture):
    try:
        gpu_device._nvrtc()
    except ImportError:
        pytest.skip("NVRTC is not here: it comes with the CUDA build of torch")
    source = gpu_device.Path(gpu_device.__file__).with_name("skipgram.cu").read_text()

    compiled = gpu_device.compile_source(source, "train", dict(shape.constants()), architecture)

    assert compiled


# ---- Without a usable GPU ----


def test_without_torch_the_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(ImportError, match=r"pip install 'pacsent\[gpu\]'"):
        gpu_device.require("cuda")


def test_importing_the_engine_does_not_import_torch():
    code = "import sys, pacsent.words.gpu.skipgram; print('torch' in sys.modules)"
    assert run_python(code).strip() == "False"


NO_DRIVER = "Found no NVIDIA driver on your system."
OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 11040). Please update"


@pytest.fixture
def pretend_cuda(monkeypatch):
    """A function that sets the CUDA version of torch, its number of GPUs and its error."""

    def pretend(version, n_devices=0, error=None):
        def init():
            if error is not None:
                raise RuntimeError(error)

        monkeypatch.setattr(torch.version, "cuda", version)
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)

    return pretend


def test_a_torch_without_cuda_is_named(pretend_cuda):
    pretend_cuda(None)

    with pytest.raises(ValueError, match=r"built with CUDA. Got version"):
        gpu_device.require("cuda")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OLD_DRIVER, r"for CUDA 13.0 or newer. Got an older driver .*11040"),
        (NO_DRIVER, r"needs an NVIDIA GPU. Got none instead \(Found no NVIDIA"),
        (None, r"needs an NVIDIA GPU. Got none instead. Use device='cpu'"),
    ],
)
def test_what_is_missing_for_a_gpu_is_named(pretend_cuda, error, message):
    pretend_cuda("13.0", error=error)

    with pytest.raises(ValueError, match=message):
        gpu_device.require("cuda")


def test_a_gpu_that_is_not_there_is_named_with_those_that_are(pretend_cuda):
    pretend_cuda("13.0", n_devices=2)

    with pytest.raises(ValueError, match=r"'cuda:0' to 'cuda:1'. Got 'cuda:5' instead"):
        gpu_device.require("cuda:5")


def test_tables_that_do_not_fit_are_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(gpu_skipgram, "free_memory", lambda device: 2_000_000_000)
    shares = np.ones(2_000_000)

    with pytest.raises(MemoryError, match=r"2,000,000 x 300 need 5.7 GB .* Got 2.0 GB free"):
        gpu_skipgram.Trainer(Shape(300, 15, 5, 1), shares, shares, torch.device("cpu"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_dims": 6000}, "n_dims must be at most 5440 on a GPU. Got 6000 instead"),
        ({"window": 50}, "The rows of one window must fit .* Got window=50 and n_dims=300"),
        ({"n_negatives": 9000}, r"n_negatives \* 2 \* window must be below 65,536"),
        ({"device": "cpu"}, "device must be 'cuda' here. Got 'cpu' instead"),
    ],
)
def test_settings_the_gpu_cannot_train_are_refused(rng, changed, message):
    corpus = draw_corpus(rng)

    with pytest.raises(ValueError, match=message):
        gpu_skipgram.train_skipgram(corpus, **changed)


# ---- Checkpoints ----

STATE = {"epoch": 1, "launch": 0, "totals": [0, 0, 0.0], "losses": [1.5]}


@pytest.fixture
def saved_run(tmp_path):
    """The folder of a checkpoint with tables of zeros and ones."""
    folder = tmp_path / "run"
    tables = (np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32))
    gpu_skipgram.Checkpoint(folder, {"n_dims": 3, "window": 5}).save(STATE, tables)
    return folder


def test_a_checkpoint_gives_its_state_and_tables_back(saved_run):
    checkpoint = gpu_skipgram.Checkpoint(saved_run, {"n_dims": 3, "window": 5})

    state, (_, ones) = checkpoint.load()

    assert state == STATE
    assert (ones == 1).all()


def test_a_checkpoint_of_other_settings_is_refused(saved_run):
    checkpoint = gpu_skipgram.Checkpoint(saved_run, {"n_dims": 3, "window": 7})

    with pytest.raises(ValueError, match=r"must belong to this run. Got one with other window"):
        checkpoint.load()


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path):
    assert gpu_skipgram.Checkpoint(tmp_path / "none", {}).load() is None


# ---- On a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize(
    "numbers",
    [(300, 15, 5, 1), (300, 15, 5, 2), (130, 20, 3, 4), (300, 40, 5, 1), (600, 15, 5, 2)]
    + [(100, 5, 10, 1), (4, 1, 1, 1)],
    ids=str,
)
def test_the_kernel_does_what_its_twin_does(cuda, rng, numbers):
    shape = Shape(*numbers, True)
    n_words = 20_000  # so that negatives hardly repeat: groups of outputs are added in turn
    launch = Launch(rng, shape, n_words, n_documents=12, longest=900)
    trainer = gpu_skipgram.Trainer(shape, launch.keep, launch.noise, cuda)
    trainer.load(launch.input.float(), launch.output.float())
    ids = torch.from_numpy(launch.corpus.ids).to(cuda)
    order = torch.from_numpy(launch.order.astype(np.int32)).to(cuda)
    chunks = gpu_skipgram._chunks_to(launch.chunks, cuda)

    trainer.launch(ids, chunks, order, place=0, n_warps=1, **launch.step)
    torch.cuda.synchronize()

    n_kept, n_pairs, loss = launch.replay(launch.chunks, launch.order)
    input_vectors, output_vectors = trainer.tables()
    assert trainer.counts.tolist() == [n_kept, n_pairs]
    assert_allclose(trainer.loss.item(), loss, rtol=1e-5)
    assert_allclose(input_vectors, launch.input, atol=1e-5)
    assert_allclose(output_vectors, launch.output, atol=1e-5)
    assert not trainer.input[:, shape.n_dims :].any()
    assert not trainer.output[:, shape.n_dims :].any()


def train_with_report(corpus, **settings):
    """The losses of a training on the GPU, and its report."""
    report = {}
    _, _, losses = gpu_skipgram.train_skipgram(corpus, report=report.update, **settings)
    return losses, report


@pytest.mark.gpu
def test_streaming_trains_the_same_pairs_as_a_resident_corpus(cuda, rng):
    corpus = draw_corpus(rng, 5000, 60, 4000)
    settings = {"n_dims": 20, "n_epochs": 2}

    losses, resident = train_with_report(corpus, **settings, segment_tokens=None)
    streamed_losses, streamed = train_with_report(corpus, **settings, segment_tokens=7000)

    assert streamed["streamed"]
    assert not resident["streamed"]
    assert streamed["n_kept"] == resident["n_kept"]
    assert streamed["n_pairs"] == resident["n_pairs"]
    assert_allclose(streamed_losses[-1], losses[-1], rtol=0.05)


@pytest.fixture
def middle_corpus(rng):
    """Thirty documents of 2,000 words."""
    return draw_corpus(rng, 2000, 30, 4000)


@pytest.mark.gpu
def test_an_interrupted_run_goes_on_where_it_was(cuda, middle_corpus, tmp_path, monkeypatch):
    settings = {"n_dims": 16, "n_epochs": 3, "checkpoint_seconds": 0.0}
    whole_losses, _ = train_with_report(middle_corpus, **settings)
    folder = tmp_path / "run"
    saves = []
    save = gpu_skipgram.Checkpoint.save

    def save_and_interrupt(self, state, tables):
        save(self, state, tables)
        saves.append(state)
        if len(saves) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(gpu_skipgram, "LAUNCH_TOKENS", 10_000)
    monkeypatch.setattr(gpu_skipgram.Checkpoint, "save", save_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        gpu_skipgram.train_skipgram(middle_corpus, checkpoint=folder, **settings)
    assert (folder / "state.json").exists()

    I, O, losses = gpu_skipgram.train_skipgram(middle_corpus, checkpoint=folder, **settings)

    losses_before = saves[-1]["losses"]
    assert not folder.exists()
    assert len(losses) == 3
    assert losses[: len(losses_before)] == losses_before
    assert_allclose(losses, whole_losses, rtol=0.1)
    assert np.isfinite(I).all()
    assert O.any()


@pytest.mark.gpu
def test_the_loss_falls(cuda, middle_corpus):
    losses, _ = train_with_report(middle_corpus, n_dims=50, n_epochs=5, subsample=0)
    assert losses[-1] < losses[0]


@pytest.mark.gpu
def test_a_learning_rate_that_is_too_large_is_named(cuda, middle_corpus):
    with pytest.raises(ValueError, match=r"must be finite. Got .* Lower learning_rate"):
        gpu_skipgram.train_skipgram(middle_corpus, n_dims=50, learning_rate=1e6, subsample=0)


@pytest.mark.gpu
def test_the_estimator_trains_on_the_gpu(cuda):
    text = ["the cat sat on the mat with the dog", "stocks fell as the bank raised rates"] * 300
    model = SkipGram(n_dims=24, n_epochs=5, min_count=1, subsample=0, random_state=0, device="cuda")

    model.fit(text)

    assert model.word_vectors_.input_vectors.shape[1] == 24
    assert model.loss_[-1] < model.loss_[0]


@pytest.mark.gpu
def test_a_gpu_with_little_memory_left_streams(cuda, middle_corpus, monkeypatch):
    free = [10**9, 10**9, 200_000, 16 << 21]

    def free_memory(device):
        return free.pop(0) if len(free) > 1 else free[0]

    monkeypatch.setattr(gpu_skipgram, "SPARE_BYTES", 0)
    monkeypatch.setattr(gpu_skipgram, "free_memory", free_memory)

    _, report = train_with_report(middle_corpus, n_dims=16, n_epochs=1)

    assert report["tokens_per_second"] > 0
