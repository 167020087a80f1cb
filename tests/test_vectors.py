"""WordVectors: two frozen tables, and clear answers."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import Vocabulary, WordVectors
from pacsent.words.subwords import Subwords


def table(*rows, dtype=np.float32):
    return np.array(rows, dtype=dtype)


@pytest.fixture
def input_only(toy_word_vectors):
    return WordVectors(toy_word_vectors.vocabulary, toy_word_vectors.input_vectors)


def test_a_word_has_an_input_and_an_output_vector(toy_word_vectors):
    assert_array_equal(toy_word_vectors.input("good"), [0.5, 0.5])
    assert_array_equal(toy_word_vectors.output("good"), [1.0, 0.5])


def test_length_membership_words_and_counts(toy_word_vectors):
    assert len(toy_word_vectors) == toy_word_vectors.n_words == 4
    assert "film" in toy_word_vectors and "movie" not in toy_word_vectors
    assert list(toy_word_vectors.words) == ["film", "good", "quiet", "nil"]
    assert_array_equal(toy_word_vectors.counts, [40, 30, 20, 10])


def test_counts_are_never_invented():
    words = WordVectors(Vocabulary(["a", "b"]), table([1, 0], [0, 1]))
    assert words.counts is None


def test_the_repr_is_one_short_line(toy_word_vectors, input_only):
    assert repr(toy_word_vectors) == "WordVectors(n_words=4, n_dims=2)"
    assert repr(input_only) == "WordVectors(n_words=4, n_dims=2, input table only)"


def test_tables_are_read_only_and_the_callers_array_is_not_locked():
    mine = table([1, 0], [0, 1])
    words = WordVectors(Vocabulary(["a", "b"]), mine)
    with pytest.raises(ValueError, match=r"read-only"):
        words.input_vectors[0, 0] = 5
    with pytest.raises(ValueError, match=r"read-only"):
        words.input("a")[0] = 5
    mine[0, 0] = 1.0  # still the caller's own
    with pytest.raises(AttributeError, match=r"no setter|can't set"):
        words.input_vectors = mine


def test_nothing_is_copied():
    mine = table([1, 0], [0, 1])
    assert np.shares_memory(WordVectors(Vocabulary(["a", "b"]), mine).input_vectors, mine)


def test_an_unknown_word_gets_a_suggestion(toy_word_vectors):
    with pytest.raises(ValueError, match=r"'Film' is not among these 4 words. Did you mean 'film'"):
        toy_word_vectors.input("Film")
    with pytest.raises(ValueError, match=r"'quite' is not among .* Did you mean 'quiet'"):
        toy_word_vectors.output("quite")
    with pytest.raises(ValueError, match=r"'zzz' is not among these 4 words.$"):
        toy_word_vectors.input("zzz")
    with pytest.raises(ValueError, match=r"A word must be a str. Got int instead"):
        toy_word_vectors.input(3)


def test_a_missing_output_table_is_named_and_ways_out_are_given(input_only):
    with pytest.raises(ValueError, match=r"input table only"):
        input_only.output("film")
    with pytest.raises(ValueError, match=r"input table only"):
        input_only.most_similar("film", among="output")
    with pytest.raises(ValueError, match=r"PB-neg needs output vectors.*Average with alpha=0"):
        input_only.roles(swap=False, method="PB-neg")
    with pytest.raises(ValueError, match=r"needs output vectors.*1/lambda=0"):
        input_only.roles(swap=True)


def test_roles_swap_the_tables(toy_word_vectors):
    A_hat, B_hat = toy_word_vectors.roles()
    swapped = toy_word_vectors.roles(swap=True)
    assert A_hat is swapped[1] is toy_word_vectors.input_vectors
    assert B_hat is swapped[0] is toy_word_vectors.output_vectors


def test_neighbours_by_hand(toy_word_vectors):
    # input: film (1, 0), good (.5, .5), quiet (0, -1); nil has no direction
    near = toy_word_vectors.most_similar("film")
    assert [word for word, _ in near] == ["good", "quiet"]
    assert_allclose([cosine for _, cosine in near], [np.sqrt(0.5), 0.0], atol=1e-7)


def test_neighbours_across_the_two_tables_by_hand(toy_word_vectors):
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


def test_asking_for_more_neighbours_than_words_gives_all(toy_word_vectors):
    assert len(toy_word_vectors.most_similar("film", n=100)) == 2


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("nil", {}, "a finite vector other than 0"),
        ([1.0, 2.0, 3.0], {}, r"a vector of 2 numbers. Got an array of shape \(3,\)"),
        ("film", {"n": 0}, "n must be a positive integer. Got 0"),
        ("film", {"table": "both"}, "one of 'input', 'output'. Got 'both'"),
        ("film", {"among": "both"}, "one of 'input', 'output'. Got 'both'"),
    ],
)
def test_bad_questions_about_neighbours(toy_word_vectors, query, options, message):
    with pytest.raises(ValueError, match=message):
        toy_word_vectors.most_similar(query, **options)


@pytest.mark.parametrize(
    ("input_vectors", "output_vectors", "error", "message"),
    [
        ([[1.0]], None, TypeError, "input_vectors must be a NumPy array. Got list"),
        (np.zeros(2, np.float32), None, ValueError, r"shape \(n_words, n_dims\). Got shape \(2,\)"),
        (np.zeros((2, 3), np.int32), None, ValueError, "float32 or float16. Got int32"),
        (np.zeros((3, 3), np.float32), None, ValueError, r"vocabulary \(2\). Got 3 rows"),
        (table([1, np.nan], [0, 1]), None, ValueError, r"finite numbers.* row 0 \('a'\)"),
        (table([1, 0], [0, -np.inf]), None, ValueError, r"finite numbers.* row 1 \('b'\)"),
        (table([1, 0], [0, 1]), table([1], [1]), ValueError, r"\(2 dimensions\). Got 1"),
        (table([1, 0], [0, 1]), table([1, 1]), ValueError, "output_vectors must be one row"),
    ],
)
def test_bad_tables_are_refused(input_vectors, output_vectors, error, message):
    with pytest.raises(error, match=message):
        WordVectors(Vocabulary(["a", "b"]), input_vectors, output_vectors)


def test_the_digest_depends_on_words_tables_and_precision(toy_word_vectors, input_only):
    same = WordVectors(
        Vocabulary(list(toy_word_vectors.words)),
        toy_word_vectors.input_vectors.copy(),
        toy_word_vectors.output_vectors.copy(),
    )
    assert same.digest() == toy_word_vectors.digest()
    assert len(same.digest()) == 64
    renamed = WordVectors(
        Vocabulary(["film", "good", "quiet", "null"]),
        same.input_vectors,
        same.output_vectors,
    )
    others = [input_only, renamed, toy_word_vectors.astype(np.float16)]
    assert len({words.digest() for words in [same, *others]}) == 4


def test_precision_can_be_changed_and_overflow_is_refused(toy_word_vectors):
    half = toy_word_vectors.astype(np.float16)
    assert half.input_vectors.dtype == half.output_vectors.dtype == np.float16
    assert half.astype("float16") is half
    large = WordVectors(Vocabulary(["a"]), table([1e6, 0]))
    with pytest.raises(ValueError, match=r"finite numbers"):
        large.astype(np.float16)


def test_word_vectors_pickle_and_are_shared_by_clone(toy_word_vectors):
    from sklearn.base import clone

    again = pickle.loads(pickle.dumps(toy_word_vectors))
    assert again.digest() == toy_word_vectors.digest()
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
    # the vocabulary, and with it every vectorizer, leaves unknown words out
    assert words.vocabulary.encode(["films film"]).ids.size == 1


def test_subwords_that_do_not_fit_are_refused(toy_word_vectors, rng):
    with pytest.raises(ValueError, match=r"subwords must be as wide.*\(2 dimensions\). Got 3"):
        WordVectors(
            toy_word_vectors.vocabulary,
            toy_word_vectors.input_vectors,
            subwords=Subwords(rng.normal(size=(5, 3)).astype(np.float32), 3, 6),
        )
    with pytest.raises(ValueError, match=r"1 <= min_n <= max_n"):
        Subwords(np.zeros((5, 3), np.float32), 4, 3)
