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


def test_words_have_two_vectors_and_counts_that_are_never_invented(toy_word_vectors, input_only):
    assert_array_equal(toy_word_vectors.input("good"), [0.5, 0.5])
    assert_array_equal(toy_word_vectors.output("good"), [1.0, 0.5])

    assert len(toy_word_vectors) == toy_word_vectors.n_words == 4
    assert "film" in toy_word_vectors and "movie" not in toy_word_vectors
    assert list(toy_word_vectors.words) == ["film", "good", "quiet", "nil"]
    assert_array_equal(toy_word_vectors.counts, [40, 30, 20, 10])

    assert WordVectors(Vocabulary(["a", "b"]), table([1, 0], [0, 1])).counts is None
    assert repr(toy_word_vectors) == "WordVectors(n_words=4, n_dims=2)"
    assert repr(input_only) == "WordVectors(n_words=4, n_dims=2, input vectors only)"


def test_cosines_are_compared_with_the_scores_of_a_file(tmp_path):
    words = WordVectors(Vocabulary(list("abcd")), table([1, 0], [4, 3], [0, 2], [-1, 0]))
    path, lines = tmp_path / "p.tsv", "#\na b 9\nb c 9.5\na c 3\na d -1\na e 1\n".replace(" ", "\t")
    path.write_text(f"one\tother\tscore\n{lines}")  # of cosines 0.8, 0.6, 0 and -1
    assert score_correlation(words, path) == (pytest.approx(0.8), 4, 1)

    path.write_text(f"{lines}b\td\t1.2.3")
    with pytest.raises(ValueError, match=r"Line 7 of .*p.tsv must be WORD.*Got 'b\\td\\t1.2.3'"):
        score_correlation(words, path)


def test_tables_are_read_only_and_the_callers_array_is_neither_copied_nor_locked():
    mine = table([1, 0], [0, 1])
    words = WordVectors(Vocabulary(["a", "b"]), mine)

    assert np.shares_memory(words.input_vectors, mine)
    for array in (words.input_vectors[0], words.input("a")):
        with pytest.raises(ValueError, match=r"read-only"):
            array[0] = 5

    mine[0, 0] = 1.0  # still the caller's own

    for frozen, names in (
        (words, ("vocabulary", "input_vectors", "output_vectors", "training", "subwords")),
        (words.vocabulary, ("words", "counts", "normalize", "unknown", "index")),
    ):
        for name in names:
            with pytest.raises(AttributeError, match=r"no setter|can't set"):
                setattr(frozen, name, None)


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
    swapped = toy_word_vectors.roles(swap=True)

    assert A_hat is swapped[1] is toy_word_vectors.input_vectors
    assert B_hat is swapped[0] is toy_word_vectors.output_vectors


def test_neighbours_by_hand(toy_word_vectors):
    # input: film (1, 0), good (.5, .5), quiet (0, -1); nil has no direction
    near = toy_word_vectors.most_similar("film", n=100)
    assert [word for word, _ in near] == ["good", "quiet"]
    assert_allclose([cosine for _, cosine in near], [np.sqrt(0.5), 0.0], atol=1e-7)

    # the output rows closest to (1, 0): good (1, .5), film (0, 1), quiet (-1, .5)
    near = toy_word_vectors.most_similar("film", among="output")
    assert [word for word, _ in near] == ["good", "film", "quiet"]
    assert_allclose(near[0][1], 1 / np.sqrt(1.25), rtol=1e-6)

    back = toy_word_vectors.most_similar("film", table="output", among="input", n=1)
    assert back == [("good", pytest.approx(np.sqrt(0.5)))]


def test_neighbours_of_a_vector_agree_with_a_plain_computation(rng):
    vectors = rng.normal(size=(500, 7)).astype(np.float16)
    words = WordVectors(Vocabulary([f"w{i}" for i in range(500)]), vectors)

    query = rng.normal(size=7)
    wide = vectors.astype(float)
    cosines = wide @ query / np.linalg.norm(wide, axis=1) / np.linalg.norm(query)
    expected = np.argsort(-cosines)[:10]

    found = words.most_similar(query, n=10)
    assert [word for word, _ in found] == [f"w{i}" for i in expected]
    assert_allclose([cosine for _, cosine in found], cosines[expected], rtol=1e-5)


SQUARE = table([1, 0], [0, 1])
BAD_TABLES = [
    ([[1.0]], None, TypeError, "input_vectors must be a NumPy array. Got list"),
    (np.zeros(2, np.float32), None, ValueError, r"shape \(n_words, n_dims\). Got shape \(2,\)"),
    (np.zeros((2, 3), np.int32), None, ValueError, "float32 or float16. Got int32"),
    (np.zeros((3, 3), np.float32), None, ValueError, r"vocabulary \(2\). Got 3 rows"),
    (table([1, np.nan], [0, 1]), None, ValueError, r"finite numbers.* row 0 \('a'\)"),
    (table([1, 0], [0, -np.inf]), None, ValueError, r"finite numbers.* row 1 \('b'\)"),
    (SQUARE, table([1], [1]), ValueError, r"\(2 dimensions\). Got 1"),
    (SQUARE, table([1, 1]), ValueError, "output_vectors must be one row"),
]


def test_bad_tables_are_refused():
    vocabulary = Vocabulary(["a", "b"])
    for input_vectors, output_vectors, error, message in BAD_TABLES:
        with pytest.raises(error, match=message):
            WordVectors(vocabulary, input_vectors, output_vectors)

    subwords = Subwords(np.zeros((5, 3), np.float32), 3, 6)
    with pytest.raises(ValueError, match=r"subwords must be as wide.*\(2 dimensions\). Got 3"):
        WordVectors(vocabulary, SQUARE, subwords=subwords)

    with pytest.raises(ValueError, match=r"1 <= min_n <= max_n"):
        Subwords(np.zeros((5, 3), np.float32), 4, 3)

    with pytest.raises(ValueError, match=r"finite numbers"):
        WordVectors(vocabulary, 1e6 * SQUARE).astype(np.float16)


def test_the_digest_depends_on_words_tables_and_precision(toy_word_vectors, input_only):
    tables = toy_word_vectors.input_vectors.copy(), toy_word_vectors.output_vectors.copy()
    same = WordVectors(Vocabulary(list(toy_word_vectors.words)), *tables)
    pickled = pickle.loads(pickle.dumps(toy_word_vectors))

    assert same.digest() == pickled.digest() == toy_word_vectors.digest()
    assert len(same.digest()) == 64
    assert clone(toy_word_vectors, safe=False) is toy_word_vectors

    renamed = WordVectors(Vocabulary(["film", "good", "quiet", "null"]), *tables)
    half = toy_word_vectors.astype(np.float16)
    assert half.input_vectors.dtype == half.output_vectors.dtype == np.float16
    assert half.astype("float16") is half

    assert len({words.digest() for words in (same, input_only, renamed, half)}) == 4


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


def test_unknown_words_have_input_vectors_through_subwords_only(rng, toy_word_vectors):
    buckets = rng.normal(size=(10, 2)).astype(np.float32)
    words = WordVectors(
        toy_word_vectors.vocabulary,
        toy_word_vectors.input_vectors,
        toy_word_vectors.output_vectors,
        subwords=Subwords(buckets, 3, 4),
    )

    expected = buckets[fasttext_rows("films", 10, 3, 4)].mean(axis=0)
    assert_allclose(words.input("films"), expected, rtol=1e-6)
    assert_array_equal(words.input("film"), [1, 0])

    assert words.most_similar("films", n=1)
    with pytest.raises(ValueError, match=r"'films' is not among"):
        words.output("films")
    with pytest.raises(ValueError, match=r"too short for an n-gram of 3 to 4"):
        words.input("")

    # the vocabulary, and with it every vectorizer, leaves OOV words out
    assert words.vocabulary.encode(["films film"]).ids.size == 1
