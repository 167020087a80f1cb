"""Packed tables: what is kept, what is lost, and that they open in no time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import invoke
from pacsent import Vocabulary, WordVectors, load, make_encoder, save
from pacsent.storage import PACKAGED
from pacsent.words.vector_table import BITS, compress, pack, rotation

N_WORDS, N_DIMS = 400, 40


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    # a shared direction and dimensions of very different size, as in real tables
    basis = np.linalg.qr(rng.normal(size=(N_DIMS, N_DIMS)))[0] * np.geomspace(3, 0.05, N_DIMS)
    tables = [(rng.normal(size=(N_WORDS, N_DIMS)) @ basis.T + 0.7) for _ in range(2)]

    counts = np.geomspace(1e6, 5, N_WORDS).astype(int)
    vocabulary = Vocabulary([f"w{chr(97 + i % 26)}{i}" for i in range(N_WORDS)], counts)
    return WordVectors(vocabulary, *(table.astype(np.float32) for table in tables))


def lost(table, again):
    return np.mean((table - again) ** 2) / table.var()


@pytest.mark.parametrize("bits", BITS)
def test_few_bits_lose_what_the_theory_of_quantisers_says(bits, rng):
    table = rng.normal(size=(300, 128)).astype(np.float32)
    share = {1: 0.3634, 2: 0.1175, 4: 0.009497, 8: 4.3e-5}[bits]  # of a normal variable (Max)

    assert_allclose(lost(table, pack(table, bits, n_head=0).unpack()), share, rtol=0.12)
    assert pack(table, bits, n_head=0).codes.nbytes == 300 * 128 * bits // 8


def test_parts_that_give_infinity_or_do_not_fit_are_refused(rng):
    packed = pack(rng.normal(size=(5, 4)).astype(np.float32), 4, n_head=2)
    words = WordVectors(Vocabulary(list("abcde")), replace(packed, spread=packed.spread * 3e38))

    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"must be finite numbers"):
        _ = words.input_vectors

    with pytest.raises(ValueError, match=r"codes of a compressed table must be .* Got int64"):
        replace(packed, codes=packed.codes.astype(np.int64))
    with pytest.raises(ValueError, match=r"codes of a compressed table must be .* Got .*\(5, 0\)"):
        replace(packed, codes=packed.codes[:, 1:])


def test_the_head_keeps_eight_bits(rng):
    table = rng.normal(size=(300, 20)).astype(np.float32) * np.geomspace(100, 0.1, 20)
    again = pack(table, 1, n_head=6).unpack()

    assert np.abs(again - table)[:, :6].max() < 0.02 * np.abs(table).max()
    assert lost(table, again) < 0.005 < 0.1 < lost(table, pack(table, 1, n_head=0).unpack())


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 17), (2, 16)])
@pytest.mark.parametrize("bits", BITS)
def test_any_shape_comes_back_finite(shape, bits, rng):
    for table in (rng.normal(size=shape), np.zeros(shape), np.full(shape, 7.0)):
        again = pack(table.astype(np.float32), bits, n_head=4).unpack()
        assert again.shape == shape and np.isfinite(again).all()
    assert_allclose(again, 7.0)  # a constant table needs no bits at all


def test_a_rotation_keeps_products_and_puts_the_large_first(words):
    R = rotation([words.input_vectors, words.output_vectors], words.counts)
    assert_allclose(R @ R.T, np.eye(N_DIMS), atol=1e-6)

    reduced = compress(words, n_dims=20)
    products = words.input_vectors @ words.output_vectors.T
    assert lost(products, reduced.input_vectors @ reduced.output_vectors.T) < 0.02

    plain = words.input_vectors[:, :20] @ words.output_vectors[:, :20].T
    assert lost(products, plain) > 0.2


def test_compressed_words_are_the_first_and_keep_their_counts(words):
    small = compress(words, n_words=50, bits=4)

    assert small.words == words.words[:50] and list(small.counts) == list(words.counts[:50])
    assert small.packed["input"].bits == 4 and set(small.packed) == {"input", "output"}
    assert repr(small) == f"WordVectors(n_words=50, n_dims={N_DIMS})"
    assert small.input_vectors.dtype == np.float32 and not small.input_vectors.flags.writeable
    assert small.vocabulary.unknown == "drop"

    spelled = words.replace(vocabulary=words.vocabulary.replace(unknown="pieces"))
    assert compress(spelled, n_words=50).vocabulary.unknown == "pieces"

    alone = WordVectors(words.vocabulary, words.input_vectors)
    assert compress(alone, n_dims=8, bits=8).output_vectors is None


def test_packed_words_are_saved_packed_and_give_the_same_vectors(words, tmp_path):
    small = compress(words, n_dims=32, bits=2)
    save(small, tmp_path / "small")
    save(compress(words, n_dims=32), tmp_path / "large")

    sizes = [(tmp_path / n / "model.safetensors").stat().st_size for n in ("small", "large")]
    assert sizes[0] < sizes[1] / 3

    again = load(tmp_path / "small")
    assert "array" not in vars(again.tables["input"])  # nothing is unpacked to open it
    assert_array_equal(again.input_vectors, small.input_vectors)
    assert again.digest() == small.digest()

    for name in ("PB-L2", "SIF-sum", "PB-neg"):
        X = [words.words[i : i + 9] for i in range(0, 90, 9)]
        fitted = make_encoder(name, again).fit(X)
        save(fitted, tmp_path / "model", overwrite=True)
        assert load(tmp_path / "model").word_vectors.packed
        assert_allclose(load(tmp_path / "model").transform(X), fitted.transform(X), atol=1e-5)


def test_what_cannot_be_is_refused(words):
    for settings in ({"n_words": 0}, {"n_words": 401}, {"n_dims": 41}):
        with pytest.raises(ValueError, match="must be from 1 to"):
            compress(words, **settings)

    with pytest.raises(ValueError, match="bits must be one of"):
        compress(words, bits=3)


def test_convert_compresses(words, tmp_path):
    def run(line):
        return invoke(*line.replace("@", f"{tmp_path}/").split())

    save(words, tmp_path / "words")

    done = run("model convert @words @small --n-dims 24 --bits 8 --n-words 100")
    assert done.exit_code == 0 and "8 bits" in done.output, done.output
    assert (load(tmp_path / "small").n_words, load(tmp_path / "small").n_dims) == (100, 24)

    done = run("model convert @words @x.bin --bits 1")
    assert done.exit_code == 2 and "own folder" in done.output


def test_the_english_model_is_small_and_nothing_is_unpacked_to_open_it():
    assert sum(file.stat().st_size for file in (PACKAGED / "english").iterdir()) <= 15e6
    assert not any("array" in vars(table) for table in load("english").tables.values())


def test_the_digests_that_come_with_the_english_model_are_those_of_its_numbers():
    """They are not computed when the model is used, which would take half a second."""
    words = load("english")
    distilled = words.sentences.word_vectors

    assert words.replace().digest() == words.digest()
    assert distilled.replace().digest() == distilled.digest()


def test_the_english_model_knows_english():
    english = load("english")
    assert {"london", "brussels", "parisian"} & {w for w, _ in english.most_similar("paris", 10)}

    text = "It was the best of times, it was the worst of times"
    assert english.vocabulary.encode([text]).coverage == 1.0

    small = compress(english, n_words=2000)  # and all of its subwords
    assert small.words == english.words[:2000] and small.packed["input"].bits == 2
    assert small.sentences.word_vectors.n_words < 7500 and small.encode(["zeppelins"]).any()
    assert_array_equal(small.encode([text]), english.encode([text]))  # all words are among them

    done = invoke("embed", "english", input="a good film\na fine movie\n")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.exit_code == 0 and [len(row) for row in rows] == [256, 256], done.output

    done = invoke("embed", "english", "--method", "IDF-Average", input="a\n", status=1)
    assert "learns from text first" in done.output


@pytest.mark.parametrize("name", ["Average", "PB-L2", "SIF", "SIF-sum", "concat"])
def test_methods_take_the_english_model_by_name(name):
    near = ["the cat sat on the mat", "a kitten was sitting on a rug", "shares fell on monday"]
    a, b, c = make_encoder(name, "english").fit_transform(near).astype(float)

    assert a @ b / np.sqrt((a @ a) * (b @ b)) > a @ c / np.sqrt((a @ a) * (c @ c))


def test_a_folder_of_that_name_is_opened_by_its_path(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(words, "english")

    assert load("english").n_words == 65_536
    assert load("./english").n_words == N_WORDS

    with pytest.raises(FileNotFoundError, match="There is no folder german"):
        load("german")
