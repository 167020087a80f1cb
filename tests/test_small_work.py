"""Small work as plain Python gives what the compiled kernels give, to the last bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pacsent import progress
from pacsent._kernels import compiling, small_work
from pacsent._kernels import ngram_kernels as kernels
from pacsent._kernels.patience import Patience
from pacsent.text import near_duplicates, ngrams
from pacsent.words import Vocabulary

WORDS = ["film", "good", "a", "bad", "don't", "naïve", "it's", "0", "one", "supercalifragilistic"]


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    joins = [" ", "  ", ", ", "!", "-"]
    return [
        "".join(w + j for w, j in zip(rng.choice(WORDS, n), rng.choice(joins, n)))
        for n in rng.integers(0, 150, 40)
    ]


@pytest.fixture
def patient(monkeypatch):
    """Switches between plain Python and compiled code."""
    endless = property(lambda self: 1e9, lambda self, left: None)
    monkeypatch.setattr(Patience, "left", endless, raising=False)
    monkeypatch.setattr(Patience, "over", False)
    monkeypatch.setattr(compiling, "_is_kept", lambda compiled: False)
    monkeypatch.setattr(compiling, "_is_first", lambda compiled: True)
    return lambda on: monkeypatch.setattr(Patience, "over", not on)


def both(patient, function):
    patient(True)
    plain = function()
    patient(False)
    return plain, function()


@pytest.mark.parametrize("normalise", ["paper", "unicode"])
@pytest.mark.parametrize("unknown", ["drop", "pieces"])
def test_encoding_by_the_dict_gives_the_compiled_ids(patient, texts, normalise, unknown):
    words = [*WORDS[:4], *"abcdefgh", "##d", "##o", "##ne"]
    known = Vocabulary(list(dict.fromkeys(words)), normalise=normalise, unknown=unknown)
    plain, compiled = both(patient, lambda: known.encode(texts))
    for one, other in zip(plain, compiled):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("add", "n_dims"), [(True, 24), (False, 24), (False, 1), (False, 111)])
def test_rows_are_pooled_to_the_same_bits(patient, dtype, weighted, add, n_dims):
    rng = np.random.default_rng(1)
    table = rng.standard_normal((50, n_dims)).astype(dtype)
    real = np.float64 if dtype == np.float64 else np.float32
    if dtype == np.float16:
        table = table.view(np.uint16) if small_work.HALF_PRECISION else table.astype(np.float32)
    offsets = np.cumsum([0, 0, 1, 5, 70, 200, 3])
    ids = rng.integers(0, 50, offsets[-1]).astype(np.int32)
    weights = rng.random(50).astype(real) if weighted else np.empty(0, real)
    scale, start = rng.random(6).astype(real), rng.random((6, n_dims)).astype(real)

    def pooled():
        out = start.copy()
        small_work.pool(ids, offsets, table, weights, scale, out, add)
        return out

    plain, compiled = both(patient, pooled)
    np.testing.assert_array_equal(plain, compiled)

    def summed():
        out = np.empty(6)
        small_work.sum_up(ids, offsets, rng_weights, out)
        return out

    rng_weights = rng.random(50)
    plain, compiled = both(patient, summed)
    np.testing.assert_array_equal(plain, compiled)


def test_ngrams_and_near_duplicates_are_the_same(patient, texts):
    def found():
        grams = ngrams.NGrams.of(texts, (1, 2), min_texts=2)
        counts = grams.counts(texts)
        return [
            grams.hashes, grams.idf, counts.indptr, counts.indices, counts.data,
            ngrams.fingerprints(texts), near_duplicates.text_units(texts, 0.5),
            np.array(ngrams.names(texts, (1, 2), grams.hashes)), ngrams.word_hashes(WORDS),
        ]  # fmt: skip

    for one, other in zip(*both(patient, found)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="kernels are the Python")
@pytest.mark.parametrize("marks", ["", "!?", "'"])
def test_tokens_of_any_bytes_are_those_of_the_kernel(marks):
    rng = np.random.default_rng(0)
    some = np.frombuffer("aZ' !\u0e01\u1000\u3042\u4e00\u8a9e\xe9_0'".encode(), np.uint8)
    with np.errstate(over="ignore"):
        for n in [0, 1, 2, 3, *[40] * 200]:
            data = np.where(rng.random(n) < 0.9, rng.choice(some, n), rng.integers(0, 256, n))
            results = []
            for tokens in (kernels.hash_tokens.py_func, kernels._tokens_of_few):
                hashes, spans = np.zeros(n + 2, np.uint64), np.zeros((n + 2, 2), np.int64)
                kinds = ngrams.byte_kinds(marks)
                n_tokens = tokens(data.astype(np.uint8), n // 4, n, kinds, hashes, spans)
                results.append([n_tokens, hashes[:n_tokens], spans[:n_tokens]])
            for one, other in zip(*results):
                np.testing.assert_array_equal(one, other)


def test_patience_ends(monkeypatch):
    monkeypatch.setattr(Patience, "over", False)
    patience, other = Patience(10), Patience(10)
    assert patience.has(10) and not patience.has(1) and not patience.has(0)
    assert other.has(1)
    Patience.end()
    assert not other.has(1) and not Patience(10).has(1)


def test_one_line_does_not_load_numba(tmp_path):
    code = (
        "import sys\n"
        "from pacsent.cli.command_line import open_vectorizer\n"
        "open_vectorizer('english').transform(['a glass of wine'])\n"
        "assert 'numba' not in sys.modules\n"
    )
    environ = {k: v for k, v in os.environ.items() if k != "PACSENT_COMPILE"}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


def test_a_plain_line_of_progress_says_how_long_it_still_takes():
    bar = progress.Bar("Training", 100, "words")
    assert bar.line(200) == "Training: 0 words, 0 %, 3 min so far"
    bar.completed = 50
    assert bar.line(25) == "Training: 50 words, 50 %, 25 s left, 2 words/s"
    bar.completed = 1
    assert bar.line(90) == "Training: 1 words, 1 %, 2 h 28 min left, 90 s each"
    share = progress.Bar("reproduce", 100, "")
    share.update(10, note="result 3 of 72: PB-01 on imdb")
    line = share.line(100)
    assert line == "reproduce: 10 %, 15 min left, result 3 of 72: PB-01 on imdb"


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python")
def test_a_kernel_that_was_compiled_before_is_loaded(tmp_path):
    """The first process runs plainly; after one that compiles, the code is kept."""
    code = (
        "from pacsent._kernels import compiling, ngram_kernels as k\n"
        "from pacsent.text.ngrams import fingerprints\n"
        "print(compiling._is_kept(k.fingerprints.compiled))\n"
        "fingerprints(['a b'])\n"
        "print(len(k.fingerprints.compiled.signatures))\n"
    )
    environ = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env=environ | {"PACSENT_COMPILE": now},
            check=True, capture_output=True, text=True,
        ).stdout.split()
        for now in ("", "1", "")
    ]  # fmt: skip
    assert said == [["False", "0"], ["False", "1"], ["True", "1"]]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python")
def test_the_second_process_compiles_what_the_first_ran_as_plain_python(tmp_path):
    code = (
        "from pacsent._kernels import compiling\n"
        "from pacsent._kernels import ngram_kernels as k\n"
        "names = [n for n in vars(k) if hasattr(getattr(k, n), 'compiled')]\n"
        "kernel = getattr(k, names[0]).compiled\n"
        "print(compiling._is_first(kernel), compiling._is_first(kernel))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    found = [
        subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert found == ["True True\n", "False False\n"]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python")
def test_a_later_process_compiles_only_so_much_ahead_of_need(patient, monkeypatch):
    def twice(x):
        return x + x

    patient(True)
    monkeypatch.setattr(compiling, "_is_first", lambda compiled: False)
    monkeypatch.setattr(compiling, "_compiled_ahead", compiling._AHEAD)
    kernel = compiling.njit(twice, work=lambda x: 1)
    assert kernel(2) == 4
    assert not kernel.compiled.signatures  # enough was compiled before
    monkeypatch.setattr(compiling, "_compiled_ahead", 0.0)
    assert kernel(2) == 4
    assert len(kernel.compiled.signatures) == 1
    assert compiling._compiled_ahead > 0
