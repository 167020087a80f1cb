"""The GPU engine. Without a GPU: its plain-torch twin against the CPU kernels, its tables and its
messages. With one (`make test-gpu`): the kernels against the twin, streaming, checkpoints."""

import sys
import types
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'pacsent[gpu]'")

from helpers import run_python  # noqa: E402
from pacsent.kernels.skipgram import descend_plainly  # noqa: E402
from pacsent.words.gpu import device as gpu_device  # noqa: E402
from pacsent.words.gpu import skipgram as gpu_skipgram  # noqa: E402
from pacsent.words.gpu.skipgram import Shape  # noqa: E402
from reference import gpu_skipgram_reference as reference  # noqa: E402

pytestmark = pytest.mark.extra(needs="torch")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    return gpu_device.require("cuda")


def small_corpus(rng, n_words=200, n_documents=12, longest=700):
    """Documents of uneven length, some empty, words with a skewed distribution."""
    from pacsent import Vocabulary

    lengths = rng.integers(0, longest, n_documents)
    lengths[:3] = 0, 1, 2
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = (n_words * rng.random(offsets[-1]) ** 2).astype(np.int32)
    counts = np.bincount(ids, minlength=n_words) + 1
    vocabulary = Vocabulary([f"w{i}" for i in range(n_words)], counts)
    return types.SimpleNamespace(
        ids=ids, offsets=offsets, n_tokens=ids.size, vocabulary=vocabulary, digest="d" * 64
    )


@pytest.mark.parametrize("n_words", [1, 7, 1000])
def test_the_alias_table_draws_each_word_with_its_probability(rng, n_words):
    p = rng.random(n_words) ** 4 + 1e-6
    p /= p.sum()
    table = gpu_skipgram.alias_table(p).astype(float)
    own = (table[:, 0] + 1) / 2.0**32
    drawn = own / n_words
    np.add.at(drawn, table[:, 1].astype(int), (1 - own) / n_words)
    assert_allclose(drawn, p, atol=1e-9)


def test_chunks_cover_every_token_of_long_documents_once_and_stay_inside_them(rng):
    corpus = small_corpus(rng, n_documents=40, longest=3000)
    chunks = gpu_skipgram.chunks_between(corpus.offsets, 0, corpus.n_tokens, 320)
    covered = np.zeros(corpus.n_tokens, dtype=int)
    for start, length, before, after in zip(*chunks):
        covered[start : start + length] += 1
        document = np.searchsorted(corpus.offsets, start, side="right") - 1
        low, high = corpus.offsets[document : document + 2]
        assert before == min(320, start - low)
        assert after == min(320, high - start - length)
    lengths = np.diff(corpus.offsets)
    assert (covered == np.repeat(lengths >= 2, lengths)).all()
    assert chunks.lengths.max() <= gpu_skipgram.CHUNK_TOKENS
    cuts = gpu_skipgram.cut_points(corpus.offsets, corpus.n_tokens, 5000)
    assert len(cuts) > 5
    assert max(np.diff(gpu_skipgram.cut_points(np.array([0, 10_000]), 10_000, 3000))) < 4000
    segments = [gpu_skipgram.chunks_between(corpus.offsets, *ends, 320) for ends in pairwise(cuts)]
    for parts, whole in zip(zip(*segments), chunks):
        assert (np.concatenate(parts) == whole).all()


def test_words_are_kept_as_often_as_asked(rng):
    ids = rng.integers(0, 3, 30_000)
    keep = np.array([0.1, 0.5, 1.0])
    places, _ = reference.kept_words(
        ids, 0, ids.size, gpu_skipgram.epoch_key(0, 0), gpu_skipgram.keep_thresholds(keep)
    )
    share = np.bincount(ids[places], minlength=3) / np.bincount(ids, minlength=3)
    assert_allclose(share, keep, atol=0.02)


def test_a_tile_moves_as_on_the_cpu_given_the_same_noise_words(rng):
    n_dims, n_words, n_I, n_O, n_centres = 16, 60, 8, 12, 2
    I = rng.normal(size=(n_words, n_dims)).astype(np.float32)
    O = rng.normal(size=(n_words, n_dims)).astype(np.float32)
    rows_I = rng.choice(n_words, n_I, replace=False)
    rows_O = rng.choice(n_words, n_O, replace=False)
    seen = (rng.random((n_I, n_centres)) < 0.6).astype(np.float32)
    times = np.repeat(seen.sum(1, keepdims=True), n_O - n_centres, 1)
    labels = np.concatenate([np.ones_like(seen), np.zeros_like(times)], 1)
    weights = np.concatenate([seen, times], 1)
    to_I, to_O, loss = reference.tile_step(
        *[torch.from_numpy(x) for x in (I[rows_I], O[rows_O], labels, weights)], 0.025
    )
    expected_I, expected_O = I.copy(), O.copy()
    expected_I[rows_I] += to_I.numpy()
    expected_O[rows_O] += to_O.numpy()
    used_I, used_O = np.nonzero(weights)
    signed = np.where(labels > 0, weights, -weights)[used_I, used_O]
    cpu_loss = descend_plainly(I, O, rows_I[used_I], rows_O[used_O], signed, 0.025)
    assert_allclose(I, expected_I, atol=1e-5)
    assert_allclose(O, expected_O, atol=1e-5)
    assert_allclose(cpu_loss, float(loss), rtol=1e-5)


def replayed(shape, rng, n_words=40, n_documents=5, longest=60, n_chunks=3):
    corpus = small_corpus(rng, n_words, n_documents, longest)
    chunks = gpu_skipgram.chunks_between(corpus.offsets, 0, corpus.n_tokens, 64 * shape.window)
    I, O = (torch.tensor((rng.random((2, n_words, shape.n_dims)) - 0.5) / 3)).unbind()
    I, O = I.clone(), O.clone()
    order = rng.permutation(chunks.starts.size)[:n_chunks]
    arguments = {
        "keep": 1.2 * rng.random(n_words), "noise": rng.random(n_words) + 0.01,
        "key": gpu_skipgram.epoch_key(3, 1), "rate": 0.05, "done": 0.1, "span": 0.3,
    }  # fmt: skip
    return corpus, chunks, order, I, O, arguments


@pytest.mark.parametrize("shape", [Shape(6, 3, 2, 1), Shape(6, 3, 2, 2)])
def test_windows_reach_across_chunk_borders_and_not_across_documents(rng, shape, monkeypatch):
    corpus, _, _, I, O, arguments = replayed(shape, rng)
    whole = gpu_skipgram.chunks_between(corpus.offsets, 0, corpus.n_tokens, 128)
    cut = gpu_skipgram.chunks_between(corpus.offsets, 0, corpus.n_tokens, 128, chunk_tokens=7)
    assert cut.starts.size > whole.starts.size
    counted = [
        reference.replay(
            I.clone(), O.clone(), corpus.ids, chunks, range(chunks.starts.size), shape, **arguments
        )[:2]
        for chunks in (whole, cut)
    ]
    assert counted[0] == counted[1]


def test_the_twin_learns_which_words_meet():
    """Words 0, 1 occur together and so do 2, 3: after training, their scores say so."""
    rng = np.random.default_rng(0)
    ids = np.concatenate([rng.permutation([0, 1] * 5 if i % 2 else [2, 3] * 5) for i in range(60)])
    offsets = np.arange(0, ids.size + 1, 10)
    chunks = gpu_skipgram.chunks_between(offsets, 0, ids.size, 128)
    I = torch.tensor(rng.normal(size=(4, 8)) * 0.1)
    O = torch.zeros(4, 8, dtype=torch.float64)
    for epoch in range(2):
        _, n_pairs, loss = reference.replay(
            I, O, ids, chunks, range(60), Shape(8, 2, 2, 2), keep=np.ones(4),
            noise=np.ones(4), key=gpu_skipgram.epoch_key(0, epoch), rate=0.05, done=0.0, span=0.1,
        )  # fmt: skip
    scores = (I @ O.T).numpy()
    assert loss < 0.8 * 3 * np.log(2) * n_pairs  # what a pair costs where nothing is known
    assert scores[0, 1] > 0 > scores[0, 2] and scores[3, 2] > 0 > scores[3, 0]


@pytest.mark.parametrize(
    ("n_dims", "n_negatives", "n_centres"), [(300, 15, 1), (300, 15, 2), (600, 40, 1), (4, 1, 1)]
)
def test_output_rows_fit_into_registers(n_dims, n_negatives, n_centres):
    shape = Shape(n_dims, n_negatives, 5, n_centres)
    each = shape.stride // 32
    assert shape.group * each <= gpu_skipgram.REGISTER_ROWS + each
    assert shape.group <= 32
    assert -(-shape.n_outputs // shape.group) * shape.group >= shape.n_outputs


def test_the_kernels_compile_for_gpus_old_and_new():
    try:
        gpu_device._nvrtc()
    except ImportError:
        pytest.skip("NVRTC is not here: it comes with the CUDA build of torch")
    source = (gpu_device.Path(gpu_device.__file__).parent / "skipgram.cu").read_text()
    for shape in (Shape(300, 15, 5, 2), Shape(37, 3, 2, 1)):
        constants = dict(shape.constants())
        for architecture in ("sm_75", "sm_90"):
            assert gpu_device.compile_source(source, "train", constants, architecture)


def test_without_torch_the_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[gpu\]'"):
        gpu_device.require("cuda")


def test_importing_the_engine_does_not_import_torch():
    code = "import sys, pacsent.words.gpu.skipgram; print('torch' in sys.modules)"
    assert run_python(code).strip() == "False"


NO_DRIVER = "Found no NVIDIA driver on your system."
OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 11040). Please update"


@pytest.mark.parametrize(
    ("version", "error", "count", "device", "message"),
    [
        (None, None, 0, "cuda", r"built with CUDA. Got version"),
        ("13.0", OLD_DRIVER, 0, "cuda", r"for CUDA 13.0 or newer. Got an older driver .*11040"),
        ("13.0", NO_DRIVER, 0, "cuda", r"needs an NVIDIA GPU. Got none instead \(Found no NVIDIA"),
        ("13.0", None, 0, "cuda", r"needs an NVIDIA GPU. Got none instead. Use device='cpu'"),
        ("13.0", None, 2, "cuda:5", r"'cuda:0' to 'cuda:1'. Got 'cuda:5' instead"),
    ],
)
def test_what_is_missing_for_a_gpu_is_named(monkeypatch, version, error, count, device, message):
    def init():
        if error is not None:
            raise RuntimeError(error)

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ValueError, match=message):
        gpu_device.require(device)


def test_tables_that_do_not_fit_are_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(gpu_skipgram, "free_memory", lambda device: 2_000_000_000)
    with pytest.raises(MemoryError, match=r"2,000,000 x 300 need 5.7 GB .* Got 2.0 GB free"):
        shares = np.ones(2_000_000)
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
    with pytest.raises(ValueError, match=message):
        gpu_skipgram.train_skipgram(small_corpus(rng), **changed)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    tables = (np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32))
    state = {"epoch": 1, "launch": 0, "totals": [0, 0, 0.0], "losses": [1.5]}
    gpu_skipgram.Checkpoint(tmp_path / "run", {"n_dims": 3, "window": 5}).save(state, tables)
    kept, loaded = gpu_skipgram.Checkpoint(tmp_path / "run", {"n_dims": 3, "window": 5}).load()
    assert kept == state
    assert (loaded[1] == 1).all()
    with pytest.raises(ValueError, match=r"must belong to this run. Got one with other window"):
        gpu_skipgram.Checkpoint(tmp_path / "run", {"n_dims": 3, "window": 7}).load()
    assert gpu_skipgram.Checkpoint(tmp_path / "none", {}).load() is None


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape",
    [(300, 15, 5, 1), (300, 15, 5, 2), (130, 20, 3, 4), (300, 40, 5, 1), (600, 15, 5, 2)]
    + [(100, 5, 10, 1), (4, 1, 1, 1)],
    ids=str,
)
def test_the_kernel_does_what_its_twin_does(cuda, rng, shape):
    shape = Shape(*shape, True)
    n_words = 20_000  # so that negatives hardly repeat: groups of outputs are added in turn
    corpus, chunks, order, I, O, arguments = replayed(shape, rng, n_words, 12, 900)
    trainer = gpu_skipgram.Trainer(shape, arguments["keep"], arguments["noise"], cuda)
    trainer.load(I.float(), O.float())
    trainer.launch(
        torch.from_numpy(corpus.ids).to(cuda),
        gpu_skipgram._chunks_to(chunks, cuda),
        torch.from_numpy(order.astype(np.int32)).to(cuda),
        place=0, n_warps=1,
        **{key: arguments[key] for key in ("key", "rate", "done", "span")},
    )  # fmt: skip
    torch.cuda.synchronize()
    n_kept, n_pairs, loss = reference.replay(I, O, corpus.ids, chunks, order, shape, **arguments)
    assert trainer.counts.tolist() == [n_kept, n_pairs]
    assert_allclose(trainer.loss.item(), loss, rtol=1e-5)
    input_vectors, output_vectors = trainer.tables()
    assert_allclose(input_vectors, I, atol=1e-5)
    assert_allclose(output_vectors, O, atol=1e-5)
    assert not trainer.input[:, shape.n_dims :].any()
    assert not trainer.output[:, shape.n_dims :].any()


@pytest.mark.gpu
def test_streaming_trains_the_same_pairs_as_a_resident_corpus(cuda, rng):
    corpus = small_corpus(rng, 5000, 60, 4000)
    reports = []
    for segment_tokens in (None, 7000):
        report: dict = {}
        _, _, losses = gpu_skipgram.train_skipgram(
            corpus, n_dims=20, n_epochs=2, report=report.update,
            segment_tokens=segment_tokens,
        )  # fmt: skip
        reports.append((report, losses))
    (resident, losses), (streamed, streamed_losses) = reports
    assert streamed["streamed"]
    assert not resident["streamed"]
    assert streamed["n_kept"] == resident["n_kept"]
    assert streamed["n_pairs"] == resident["n_pairs"]
    assert_allclose(streamed_losses[-1], losses[-1], rtol=0.05)


@pytest.mark.gpu
def test_an_interrupted_run_goes_on_where_it_was(cuda, rng, tmp_path, monkeypatch):
    corpus = small_corpus(rng, 2000, 30, 4000)
    settings = {"n_dims": 16, "n_epochs": 3, "checkpoint_seconds": 0.0}
    report: dict = {}
    _, _, whole = gpu_skipgram.train_skipgram(corpus, report=report.update, **settings)
    monkeypatch.setattr(gpu_skipgram, "LAUNCH_TOKENS", 10_000)
    saves = []
    save = gpu_skipgram.Checkpoint.save

    def interrupted(self, state, tables):
        save(self, state, tables)
        saves.append(state)
        if len(saves) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(gpu_skipgram.Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gpu_skipgram.train_skipgram(corpus, checkpoint=tmp_path / "run", **settings)
    assert (tmp_path / "run" / "state.json").exists()
    I, O, losses = gpu_skipgram.train_skipgram(corpus, checkpoint=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
    assert len(losses) == 3
    assert losses[: len(saves[-1]["losses"])] == saves[-1]["losses"]
    assert_allclose(losses, whole, rtol=0.1)
    assert np.isfinite(I).all()
    assert O.any()


@pytest.mark.gpu
def test_the_loss_falls_and_a_wild_rate_is_told(cuda, rng):
    corpus = small_corpus(rng, 2000, 30, 4000)
    _, _, losses = gpu_skipgram.train_skipgram(corpus, n_dims=50, n_epochs=5, subsample=0)
    assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match=r"must be finite. Got .* Lower learning_rate"):
        gpu_skipgram.train_skipgram(corpus, n_dims=50, learning_rate=1e6, subsample=0)


@pytest.mark.gpu
def test_the_estimator_trains_on_the_gpu(cuda):
    from pacsent import SkipGram

    text = ["the cat sat on the mat with the dog", "stocks fell as the bank raised rates"] * 300
    model = SkipGram(
        n_dims=24, n_epochs=5, min_count=1, subsample=0, random_state=0, device="cuda"
    ).fit(text)
    assert model.word_vectors_.input_vectors.shape[1] == 24
    assert model.loss_[-1] < model.loss_[0]


@pytest.mark.gpu
def test_a_gpu_with_little_memory_left_streams(cuda, rng, monkeypatch):
    corpus = small_corpus(rng, 2000, 30, 4000)
    monkeypatch.setattr(gpu_skipgram, "SPARE_BYTES", 0)
    free = [10**9, 10**9, 200_000, 16 << 21, 16 << 21]
    monkeypatch.setattr(
        gpu_skipgram, "free_memory", lambda device: free.pop(0) if len(free) > 1 else free[0]
    )
    report: dict = {}
    gpu_skipgram.train_skipgram(corpus, n_dims=16, n_epochs=1, report=report.update)
    assert report["tokens_per_second"] > 0
