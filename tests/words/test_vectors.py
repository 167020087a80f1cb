"""WordVectors: two frozen tables, and clear answers."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from pacsent import Vocabulary, WordVectors
from pacsent.words.subwords import Subwords
from pacsent.words.word_similarity import score_correlation


def table(*rows, dtype=np.float32):
    return np.array(rows, dtype=dtype)


@pytest.fixture
def input_only(toy_word_vectors):
    return WordVectors(toy_word_vectors.vocabulary, toy_word_vectors.input_vectors)


def test_words_have_two_vectors(toy_word_vectors):
    assert_array_equal(toy_word_vectors.input("good"), [0.5, 0.5])
    assert_array_equal(toy_word_vectors.output("good"), [1.0, 0.5])


def test_word_vectors_contain_their_words(toy_word_vectors):
    assert len(toy_word_vectors) == 4
    assert toy_word_vectors.n_words == 4
    assert "film" in toy_word_vectors
    assert "movie" not in toy_word_vectors
    assert list(toy_word_vectors.words) == ["film", "good", "quiet", "nil"]


def test_counts_are_those_of_the_vocabulary_and_never_invented(toy_word_vectors):
    without_counts = WordVectors(Vocabulary(["a", "b"]), table([1, 0], [0, 1]))

    assert_array_equal(toy_word_vectors.counts, [40, 30, 20, 10])
    assert without_counts.counts is None


def test_word_vectors_print_their_size_and_what_is_missing(toy_word_vectors, input_only):
    assert repr(toy_word_vectors) == "WordVectors(n_words=4, n_dims=2)"
    assert repr(input_only) == "WordVectors(n_words=4, n_dims=2, input vectors only)"


PAIRS = "a\tb\t9\nb\tc\t9.5\na\tc\t3\na\td\t-1\na\te\t1\n"  # of cosines 0.8, 0.6, 0 and -1


@pytest.fixture
def four_words():
    """Vectors of a, b, c and d: e is missing."""
    return WordVectors(Vocabulary(list("abcd")), table([1, 0], [4, 3], [0, 2], [-1, 0]))


def test_cosines_are_compared_with_the_scores_of_a_file(four_words, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(f"one\tother\tscore\n#\n{PAIRS}")

    correlation, n_pairs, n_missing = score_correlation(four_words, path)

    assert correlation == pytest.approx(0.8)
    assert n_pairs == 4
    assert n_missing == 1


def test_a_line_without_a_score_is_named(four_words, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(f"#\n{PAIRS}b\td\t1.2.3")

    with pytest.raises(ValueError, match=r"Line 7 of .*p.tsv must be WORD.*Got 'b\\td\\t1.2.3'"):
        score_correlation(four_words, path)


def test_the_callers_array_is_neither_copied_nor_locked():
    mine = table([1, 0], [0, 1])

    words = WordVectors(Vocabulary(["a", "b"]), mine)

    assert np.shares_memory(words.input_vectors, mine)
    mine[0, 0] = 1.0  # still the caller's own


def test_vectors_are_read_only(toy_word_vectors):
    for array in (toy_word_vectors.input_vectors[0], toy_word_vectors.input("film")):
        with pytest.raises(ValueError, match=r"read-only"):
            array[0] = 5


@pytest.mark.parametrize(
    "name", ["vocabulary", "input_vectors", "output_vectors", "training", "subwords"]
)
def test_parts_of_word_vectors_cannot_be_replaced(toy_word_vectors, name):
    with pytest.raises(AttributeError, match=r"no setter|can't set"):
        setattr(toy_word_vectors, name, None)


@pytest.mark.parametrize("name", ["words", "counts", "normalize", "unknown", "index"])
def test_parts_of_a_vocabulary_cannot_be_replaced(toy_word_vectors, name):
    with pytest.raises(AttributeError, match=r"no setter|can't set"):
        setattr(toy_word_vectors.vocabulary, name, None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.input("Film"), "'Film' is not among these 4 words. Did you mean 'film'"),
        (lambda w: w.input("quite"), "'quite' is not among .* Did you mean 'quiet'"),
        (lambda w: w.input("zzz"), "'zzz' is not among these 4 words.$"),
        (lambda w: w.input(3), "A word must be a str. Got int instead"),
        (lambda w: w.output("film"), "input vectors only"),
        (lambda w: w.most_similar("film", among="output"), "input vectors only"),
        (lambda w: w.roles(method="PB-neg"), "PB-neg needs output vectors.*Average with alpha=0"),
        (lambda w: w.roles(swap=True), "needs output vectors.*1/lambda=0"),
        (lambda w: w.most_similar("nil"), "a finite vector other than 0"),
        (lambda w: w.most_similar([1.0, 2.0, 3.0]), r"2 numbers. Got an array of shape \(3,\)"),
        (lambda w: w.most_similar("film", n=0), "n must be a positive integer. Got 0"),
        (lambda w: w.most_similar("film", table="both"), "one of 'input', 'output'. Got 'both'"),
        (lambda w: w.most_similar("film", among="both"), "one of 'input', 'output'. Got 'both'"),
    ],
)
def test_an_answer_that_does_not_exist_is_named_and_ways_out_are_given(input_only, call, message):
    with pytest.raises(ValueError, match=message):
        call(input_only)


def test_roles_swap_the_tables(toy_word_vectors):
    A_hat, B_hat = toy_word_vectors.roles()
    swapped_A_hat, swapped_B_hat = toy_word_vectors.roles(swap=True)

    assert A_hat is toy_word_vectors.input_vectors
    assert B_hat is toy_word_vectors.output_vectors
    assert swapped_A_hat is B_hat
    assert swapped_B_hat is A_hat


def test_neighbours_by_hand(toy_word_vectors):
    """Input vectors: film (1, 0), good (.5, .5), quiet (0, -1); nil has no direction."""
    near = toy_word_vectors.most_similar("film", n=100)

    words, cosines = zip(*near)
    assert words == ("good", "quiet")
    assert_allclose(cosines, [np.sqrt(0.5), 0.0], atol=1e-7)


def test_neighbours_among_output_vectors_by_hand(toy_word_vectors):
    """The output vectors closest to (1, 0): good (1, .5), film (0, 1), quiet (-1, .5)."""
    near = toy_word_vectors.most_similar("film", among="output")

    words, cosines = zip(*near)
    assert words == ("good", "film", "quiet")
    assert_allclose(cosines[0], 1 / np.sqrt(1.25), rtol=1e-6)


def test_neighbours_of_an_output_vector_among_input_vectors_by_hand(toy_word_vectors):
    [(word, cosine)] = toy_word_vectors.most_similar("film", table="output", among="input", n=1)

    assert word == "good"
    assert cosine == pytest.approx(np.sqrt(0.5))


def test_neighbours_of_a_vector_agree_with_a_plain_computation(rng):
    vectors = rng.normal(size=(500, 7)).astype(np.float16)
    names = np.array([f"w{i}" for i in range(500)])
    words = WordVectors(Vocabulary(names.tolist()), vectors)
    query = rng.normal(size=7)

    found = words.most_similar(query, n=10)

    wide = vectors.astype(float)
    lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(query)
    cosines = wide @ query / lengths
    nearest = np.argsort(-cosines)[:10]
    found_words, found_cosines = zip(*found)
    assert_array_equal(found_words, names[nearest])
    assert_allclose(found_cosines, cosines[nearest], rtol=1e-5)


SQUARE = table([1, 0], [0, 1])


@pytest.mark.parametrize(
    ("input_vectors", "message"),
    [
        ([[1.0]], "input_vectors must be a NumPy array. Got list"),
        (np.zeros(2, np.float32), r"shape \(n_words, n_dims\). Got shape \(2,\)"),
        (np.zeros((2, 3), np.int32), "float32 or float16. Got int32"),
        (np.zeros((3, 3), np.float32), r"vocabulary \(2\). Got 3 rows"),
        (table([1, np.nan], [0, 1]), r"finite numbers.* row 0 \('a'\)"),
        (table([1, 0], [0, -np.inf]), r"finite numbers.* row 1 \('b'\)"),
    ],
)
def test_bad_input_vectors_are_refused(input_vectors, message):
    error = TypeError if isinstance(input_vectors, list) else ValueError
    with pytest.raises(error, match=message):
        WordVectors(Vocabulary(["a", "b"]), input_vectors)


@pytest.mark.parametrize(
    ("output_vectors", "message"),
    [
        (table([1], [1]), r"\(2 dimensions\). Got 1"),
        (table([1, 1]), "output_vectors must be one row"),
    ],
)
def test_output_vectors_of_another_shape_are_refused(output_vectors, message):
    with pytest.raises(ValueError, match=message):
        WordVectors(Vocabulary(["a", "b"]), SQUARE, output_vectors)


def test_subwords_are_as_wide_as_the_vectors():
    subwords = Subwords(np.zeros((5, 3), np.float32), 3, 6)

    with pytest.raises(ValueError, match=r"subwords must be as wide.*\(2 dimensions\). Got 3"):
        WordVectors(Vocabulary(["a", "b"]), SQUARE, subwords=subwords)


def test_lengths_of_ngrams_of_subwords_are_in_order():
    with pytest.raises(ValueError, match=r"1 <= min_n <= max_n"):
        Subwords(np.zeros((5, 3), np.float32), 4, 3)


def test_numbers_that_overflow_in_half_precision_are_refused():
    words = WordVectors(Vocabulary(["a", "b"]), 1e6 * SQUARE)

    with pytest.raises(ValueError, match=r"finite numbers"):
        words.astype(np.float16)


def test_half_precision_is_that_of_both_tables(toy_word_vectors):
    half = toy_word_vectors.astype(np.float16)

    assert half.input_vectors.dtype == np.float16
    assert half.output_vectors.dtype == np.float16
    assert half.astype("float16") is half


def test_equal_tables_have_the_same_digest(toy_word_vectors):
    same = WordVectors(
        Vocabulary(list(toy_word_vectors.words)),
        toy_word_vectors.input_vectors.copy(),
        toy_word_vectors.output_vectors.copy(),
    )
    pickled = pickle.loads(pickle.dumps(toy_word_vectors))

    digest = toy_word_vectors.digest()
    assert len(digest) == 64
    assert same.digest() == digest
    assert pickled.digest() == digest


def test_the_digest_depends_on_words_tables_and_precision(toy_word_vectors, input_only):
    renamed = WordVectors(
        Vocabulary(["film", "good", "quiet", "null"]),
        toy_word_vectors.input_vectors,
        toy_word_vectors.output_vectors,
    )
    half = toy_word_vectors.astype(np.float16)

    digests = {words.digest() for words in (toy_word_vectors, input_only, renamed, half)}

    assert len(digests) == 4


def test_a_clone_of_word_vectors_is_themselves(toy_word_vectors):
    assert clone(toy_word_vectors, safe=False) is toy_word_vectors


def fasttext_rows(word, n_buckets, min_n, max_n):
    """The bucket of each n-gram, one byte and one character at a time."""
    characters = list(f"<{word}>")
    rows = []
    for i in range(len(characters)):
        for n in range(1, max_n + 1):
            if i + n > len(characters):
                break
            if n < min_n or (n == 1 and (i == 0 or i == len(characters) - 1)):
                continue

            h = 2166136261
            for byte in "".join(characters[i : i + n]).encode():
                signed = byte - 256 if byte > 127 else byte
                h = ((h ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
            rows.append(h % n_buckets)
    return rows


@pytest.mark.parametrize(("min_n", "max_n"), [(3, 6), (1, 1), (1, 3), (2, 2), (5, 5)])
def test_subword_rows_agree_with_a_plain_loop(rng, min_n, max_n):
    subwords = Subwords(rng.normal(size=(97, 2)).astype(np.float32), min_n, max_n)
    words = ["film", "a", "", "naïve", "日本語", "😀x", "quiet"]
    rows, offsets = subwords.rows([word.encode() for word in words])

    for i, word in enumerate(words):
        expected = fasttext_rows(word, 97, min_n, max_n)
        assert rows[offsets[i] : offsets[i + 1]].tolist() == expected


@pytest.fixture
def with_subwords(rng, toy_word_vectors):
    """The four words, and vectors of n-grams of three and four characters."""
    buckets = rng.normal(size=(10, 2)).astype(np.float32)
    return WordVectors(
        toy_word_vectors.vocabulary,
        toy_word_vectors.input_vectors,
        toy_word_vectors.output_vectors,
        subwords=Subwords(buckets, 3, 4),
    )


def test_the_input_vector_of_an_unknown_word_is_the_mean_of_its_subwords(with_subwords):
    rows = fasttext_rows("films", 10, 3, 4)
    expected = with_subwords.subwords.vectors[rows].mean(axis=0)

    assert_allclose(with_subwords.input("films"), expected, rtol=1e-6)
    assert with_subwords.most_similar("films", n=1)


def test_the_input_vector_of_a_known_word_is_its_own(with_subwords):
    assert_array_equal(with_subwords.input("film"), [1, 0])


def test_an_unknown_word_has_no_output_vector(with_subwords):
    with pytest.raises(ValueError, match=r"'films' is not among"):
        with_subwords.output("films")


def test_a_word_without_ngrams_has_no_vector(with_subwords):
    with pytest.raises(ValueError, match=r"too short for an n-gram of 3 to 4"):
        with_subwords.input("")


def test_the_vocabulary_and_with_it_every_vectorizer_leaves_unknown_words_out(with_subwords):
    encoded = with_subwords.vocabulary.encode(["films film"])
    assert encoded.ids.size == 1
