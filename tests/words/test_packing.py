"""Packed tables: what is kept, what is lost, and that they open in no time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import invoke
from pacsent import Vocabulary, WordVectors, load, make_encoder, save
from pacsent.storage import PACKAGED
from pacsent.words.vector_table import BITS, compress, pack, rotation

N_WORDS = 400
N_DIMS = 40


@pytest.fixture(scope="module")
def words():
    """400 words whose tables have a shared direction and dimensions of very different size."""
    rng = np.random.default_rng(0)
    directions, _ = np.linalg.qr(rng.normal(size=(N_DIMS, N_DIMS)))
    basis = directions * np.geomspace(3, 0.05, N_DIMS)
    tables = []
    for _ in range(2):
        coordinates = rng.normal(size=(N_WORDS, N_DIMS))
        table = coordinates @ basis.T + 0.7
        tables.append(table.astype(np.float32))

    names = [f"w{chr(97 + i % 26)}{i}" for i in range(N_WORDS)]
    counts = np.geomspace(1e6, 5, N_WORDS).astype(int)
    return WordVectors(Vocabulary(names, counts), *tables)


def relative_error(table, approximation):
    """The mean squared error, as a fraction of the variance."""
    return np.mean((table - approximation) ** 2) / table.var()


def is_unpacked(table):
    return "array" in vars(table)


# ---- One table ----------------------------------------------------------------------------------

# Errors of the best quantisers of a normal variable (Max, 1960), by the number of bits.
QUANTISER_ERRORS = {1: 0.3634, 2: 0.1175, 4: 0.009497, 8: 4.3e-5}


@pytest.mark.parametrize("bits", BITS)
def test_few_bits_lose_what_the_theory_of_quantisers_says(bits, rng):
    table = rng.normal(size=(300, 128)).astype(np.float32)

    packed = pack(table, bits, n_head=0)

    assert_allclose(relative_error(table, packed.unpack()), QUANTISER_ERRORS[bits], rtol=0.12)
    assert packed.codes.nbytes == 300 * 128 * bits // 8


@pytest.fixture
def packed(rng):
    """A compressed table of five words."""
    return pack(rng.normal(size=(5, 4)).astype(np.float32), 4, n_head=2)


def test_parts_that_give_infinity_are_rejected(packed):
    too_large = replace(packed, spread=packed.spread * 3e38)
    words = WordVectors(Vocabulary(list("abcde")), too_large)

    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"must be finite numbers"):
        _ = words.input_vectors


def test_codes_that_do_not_fit_are_rejected(packed):
    with pytest.raises(ValueError, match=r"codes of a compressed table must be .* Got int64"):
        replace(packed, codes=packed.codes.astype(np.int64))
    with pytest.raises(ValueError, match=r"codes of a compressed table must be .* Got .*\(5, 0\)"):
        replace(packed, codes=packed.codes[:, 1:])


def test_the_head_keeps_eight_bits(rng):
    table = rng.normal(size=(300, 20)).astype(np.float32) * np.geomspace(100, 0.1, 20)

    with_head = pack(table, 1, n_head=6).unpack()
    without_head = pack(table, 1, n_head=0).unpack()

    errors_of_head = np.abs(with_head - table)[:, :6]
    assert errors_of_head.max() < 0.02 * np.abs(table).max()
    assert relative_error(table, with_head) < 0.005
    assert relative_error(table, without_head) > 0.1


SHAPES = [(1, 1), (3, 5), (7, 17), (2, 16)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_any_shape_comes_back_finite(shape, bits, scale, rng):
    table = scale * rng.normal(size=shape).astype(np.float32)

    unpacked = pack(table, bits, n_head=4).unpack()

    assert unpacked.shape == shape
    assert np.isfinite(unpacked).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", BITS)
def test_a_constant_table_needs_no_bits_at_all(shape, bits):
    table = np.full(shape, 7.0, np.float32)

    unpacked = pack(table, bits, n_head=4).unpack()

    assert unpacked.shape == shape
    assert_allclose(unpacked, 7.0)


# ---- Word vectors -------------------------------------------------------------------------------


def test_a_rotation_is_orthogonal(words):
    R = rotation([words.input_vectors, words.output_vectors], words.counts)

    assert_allclose(R @ R.T, np.eye(N_DIMS), atol=1e-6)


def test_the_first_dimensions_after_a_rotation_keep_the_products(words):
    products = words.input_vectors @ words.output_vectors.T

    reduced = compress(words, n_dims=20)

    reduced_products = reduced.input_vectors @ reduced.output_vectors.T
    unrotated_products = words.input_vectors[:, :20] @ words.output_vectors[:, :20].T
    assert relative_error(products, reduced_products) < 0.02
    assert relative_error(products, unrotated_products) > 0.2


def test_compressed_words_are_the_first_and_keep_their_counts(words):
    small = compress(words, n_words=50, bits=4)

    assert small.words == words.words[:50]
    assert list(small.counts) == list(words.counts[:50])
    assert repr(small) == f"WordVectors(n_words=50, n_dims={N_DIMS})"


def test_both_tables_are_compressed_and_read_as_float32(words):
    small = compress(words, n_words=50, bits=4)

    assert set(small.packed) == {"input", "output"}
    assert small.packed["input"].bits == 4
    assert small.input_vectors.dtype == np.float32
    assert not small.input_vectors.flags.writeable


@pytest.mark.parametrize("unknown", ["drop", "pieces"])
def test_compressed_words_keep_their_rule_for_unknown_words(words, unknown):
    vocabulary = words.vocabulary.replace(unknown=unknown)

    small = compress(words.replace(vocabulary=vocabulary), n_words=50)

    assert small.vocabulary.unknown == unknown


def test_words_without_output_vectors_are_compressed(words):
    one_table = WordVectors(words.vocabulary, words.input_vectors)

    assert compress(one_table, n_dims=8, bits=8).output_vectors is None


def test_packed_words_are_saved_packed(words, tmp_path):
    save(compress(words, n_dims=32, bits=2), tmp_path / "packed")
    save(compress(words, n_dims=32), tmp_path / "floats")

    n_packed_bytes = (tmp_path / "packed" / "model.safetensors").stat().st_size
    n_float_bytes = (tmp_path / "floats" / "model.safetensors").stat().st_size
    assert n_packed_bytes < n_float_bytes / 3


def test_saved_packed_words_give_the_same_vectors(words, tmp_path):
    small = compress(words, n_dims=32, bits=2)

    opened = load(save(small, tmp_path / "small"))

    assert not is_unpacked(opened.tables["input"])  # nothing is unpacked to open it
    assert_array_equal(opened.input_vectors, small.input_vectors)
    assert opened.digest() == small.digest()


@pytest.mark.parametrize("name", ["PB-L2", "SIF-sum", "PB-neg"])
def test_a_saved_method_keeps_its_packed_words(words, tmp_path, name):
    X = [words.words[start : start + 9] for start in range(0, 90, 9)]
    fitted = make_encoder(name, compress(words, n_dims=32, bits=2)).fit(X)

    opened = load(save(fitted, tmp_path / "model"))

    assert opened.word_vectors.packed
    assert_allclose(opened.transform(X), fitted.transform(X), atol=1e-5)


@pytest.mark.parametrize("settings", [{"n_words": 0}, {"n_words": 401}, {"n_dims": 41}])
def test_sizes_that_the_vectors_do_not_have_are_rejected(words, settings):
    with pytest.raises(ValueError, match="must be from 1 to"):
        compress(words, **settings)


def test_other_numbers_of_bits_are_rejected(words):
    with pytest.raises(ValueError, match="bits must be one of"):
        compress(words, bits=3)


def test_convert_compresses(words, tmp_path):
    source = save(words, tmp_path / "words")
    options = ["--n-dims", 24, "--bits", 8, "--n-words", 100]

    done = invoke("model", "convert", source, tmp_path / "small", *options, status=0)

    assert "8 bits" in done.output
    small = load(tmp_path / "small")
    assert (small.n_words, small.n_dims) == (100, 24)


def test_convert_compresses_only_into_a_folder(words, tmp_path):
    source = save(words, tmp_path / "words")

    done = invoke("model", "convert", source, tmp_path / "x.bin", "--bits", 1, status=2)

    assert "own folder" in done.output


# ---- The English model --------------------------------------------------------------------------


def test_the_english_model_is_small():
    sizes = [file.stat().st_size for file in (PACKAGED / "english").iterdir()]

    assert sum(sizes) <= 15e6


def test_nothing_is_unpacked_to_open_the_english_model():
    tables = load("english").tables.values()

    assert not any(is_unpacked(table) for table in tables)


def test_the_digests_that_come_with_the_english_model_are_those_of_its_numbers():
    """They are not computed when the model is used, which would take half a second."""
    words = load("english")
    distilled = words.sentences.word_vectors

    assert words.replace().digest() == words.digest()
    assert distilled.replace().digest() == distilled.digest()


# All of its words are among the first 2,000.
COMMON_WORDS = "It was the best of times, it was the worst of times"


def test_the_english_model_knows_english():
    english = load("english")

    neighbours = {word for word, _ in english.most_similar("paris", 10)}

    assert neighbours & {"london", "brussels", "parisian"}
    assert english.vocabulary.encode([COMMON_WORDS]).coverage == 1.0


def test_the_english_model_is_compressed_with_all_of_its_subwords():
    english = load("english")

    small = compress(english, n_words=2000)

    assert small.words == english.words[:2000]
    assert small.packed["input"].bits == 2
    assert small.sentences.word_vectors.n_words < 7500
    assert small.encode(["zeppelins"]).any()
    assert_array_equal(small.encode([COMMON_WORDS]), english.encode([COMMON_WORDS]))


def test_the_english_model_embeds_lines():
    done = invoke("embed", "english", input="a good film\na fine movie\n", status=0)

    n_columns = [len(line.split("\t")) for line in done.stdout.splitlines()]
    assert n_columns == [256, 256]


def test_methods_that_learn_from_text_do_not_embed_at_once():
    done = invoke("embed", "english", "--method", "IDF-Average", input="a\n", status=1)

    assert "learns from text first" in done.output


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


@pytest.mark.parametrize("name", ["Average", "PB-L2", "SIF", "SIF-sum", "concat"])
def test_methods_take_the_english_model_by_name(name):
    texts = ["the cat sat on the mat", "a kitten was sitting on a rug", "shares fell on monday"]

    cat, kitten, shares = make_encoder(name, "english").fit_transform(texts).astype(float)

    assert cosine(cat, kitten) > cosine(cat, shares)


def test_a_folder_of_that_name_is_opened_by_its_path(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(words, "english")

    assert load("english").n_words == 65_536
    assert load("./english").n_words == N_WORDS


def test_there_is_no_model_of_another_language(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(FileNotFoundError, match="There is no folder german"):
        load("german")
