"""Near-duplicates of known texts: found by comparing few, the same as by comparing all."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent import TextClassifier, load, save
from pacsent.arrays import are_among
from pacsent.certify import near_duplicates
from pacsent.certify.near_duplicates import (
    MIN_COSINE,
    KnownTexts,
    index_arrays,
    index_known,
    keep_index,
    known_texts,
    sketches,
)
from pacsent.datasets import load_banking, load_books
from pacsent.text.ngrams import NGrams


def largest_cosines(known, new):
    """The largest cosine of each new text with any known one: every text with every other."""
    known, new = sketches(known), sketches(new)
    ids, n_texts = np.unique(known[known > 0], return_counts=True)
    columns = {0: 0} | {int(number): k for k, number in enumerate(ids, start=1)}
    other = len(columns)
    idf = np.log((1.0 + len(known)) / (1.0 + np.concatenate([[0], n_texts, [0]]))) + 1.0

    def unit_rows(rows):
        table = np.zeros((len(rows), other + 1))
        for row, numbers in enumerate(rows):
            for number in numbers[numbers > 0]:
                column = columns.get(int(number), other)
                # words that nobody knows count in the length, each by itself
                table[row, column] = np.hypot(table[row, column], idf[column])
        return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)

    return (unit_rows(new)[:, :other] @ unit_rows(known)[:, :other].T).max(axis=1)


def edited(texts, rng):
    """Texts with some words removed or replaced."""
    for text in texts:
        words = text.split()
        start = rng.integers(len(words) + 1)
        replacement = ["zebra"] * rng.integers(3)
        rest = words[start + rng.integers(4) :]
        yield " ".join(words[:start] + replacement + rest)


def passages(rng):
    books = [passage.text for passage in load_books()]
    return books[:600], list(edited(books[300:700], rng))


def messages(rng):
    bank, _ = load_banking("train")
    return bank[:1000], bank[800:1300]


def all_alike(rng):
    return ["the same words again"] * 400, ["the same words", "other words"] * 50


def template(rng):
    known = [f"your order {i} of {i % 7} items was sent" for i in range(400)]
    new = [f"your order {i} of {i % 5} things was not sent now" for i in range(200)]
    return known, new


def one_word_in_common(rng):
    known = [f"common w{i} v{i}" for i in range(400)]
    new = [f"common x{i} y{i}" for i in range(200)]
    return known, [*new, "common"]


def letters(rng):
    alphabet = np.array(list("abcdefghi"))
    lengths = rng.integers(1, 9, 1000)
    texts = [" ".join(rng.choice(alphabet, size=length)) for length in lengths]
    return texts[:500], texts[500:]


@pytest.mark.parametrize(
    "draw_texts", [passages, messages, all_alike, template, one_word_in_common, letters]
)
def test_the_same_texts_are_found_as_by_comparing_all(draw_texts, rng):
    known, new = draw_texts(rng)
    cosines = largest_cosines(known, new)
    # no cosine is so near to the limit that rounding decides
    assert np.abs(cosines - MIN_COSINE).min() > 2e-6
    index = KnownTexts(sketches(known))

    found = index.are_near(new)

    assert_array_equal(found, cosines >= MIN_COSINE)


def test_a_text_at_the_least_cosine_is_near():
    """One of four words, and the start with it: two of eight that are equally rare, hence 1/2."""
    known = KnownTexts(sketches(["no other day comes"]))

    assert known.are_near(["no", "no end"]).tolist() == [True, False]


def test_a_word_that_is_not_known_is_as_rare_as_one_that_no_known_text_has():
    """The idf is ln 2 + 1, and two of four ids are shared: the cosine is 0.5085."""
    known = KnownTexts(sketches(["no"]))

    assert known.are_near(["no end", "no end comes"]).tolist() == [True, False]


@pytest.fixture
def words_and_pairs():
    """Two texts, and their words and pairs of words with the counts."""
    texts = ["a dull film with no plot", "so good"]
    grams = NGrams.of(texts, (1, 2))
    return texts, (grams, grams.counts(texts))


def test_sketches_are_of_words_and_pairs_of_words_whoever_counts_them(words_and_pairs):
    texts, counted = words_and_pairs

    hashes = sketches(texts, counted)

    # The start of a text and its first word are a pair too.
    assert (hashes > 0).sum(axis=1).tolist() == [6 + 6, 2 + 2]
    assert_array_equal(sketches(texts), hashes)


def test_sketches_of_texts_with_invisible_characters_are_those_of_what_is_seen(words_and_pairs):
    texts, _ = words_and_pairs
    disguised = [text.replace("o", "o\u200b") for text in texts]
    grams = NGrams.of(disguised, (1, 2))

    hashes = sketches(disguised, (grams, grams.counts(disguised)))

    assert_array_equal(hashes, sketches(texts))


def test_few_known_texts_are_listed_for_a_new_one():
    """Of 2,000 passages and 1,000 others, less than three pairs in a hundred."""
    texts = [passage.text for passage in load_books()]
    of_known = sketches(texts[:2000])
    of_new = sketches(texts[2000:])
    n_texts_with = np.diff(index_known(of_known).postings.starts)

    looked_up = KnownTexts(of_known)._look_up(of_new)

    n_listed = n_texts_with[looked_up.prefixes.entries].sum()
    assert n_listed < 0.03 * 2000 * 1000


def test_equal_known_texts_are_listed_once():
    index = index_known(sketches(["a dull film"] * 5 + ["a good film"]))

    assert np.unique(index.postings.rows).tolist() == [0, 5]


@pytest.mark.parametrize("n_known", [0, 3])
def test_no_text_is_near_to_known_texts_without_words(n_known):
    known = KnownTexts(np.zeros((n_known, 64), np.uint32))

    assert known.are_near(["a text"]).tolist() == [False]


def test_of_no_new_texts_none_is_near():
    known = KnownTexts(sketches(["a text"]))

    assert known.are_near([]).size == 0


def test_the_index_of_an_array_is_made_once():
    first = sketches(["a dull film"])
    second = sketches(["a good film"])

    index = known_texts(first)._index

    assert known_texts(first)._index is index
    assert known_texts(second)._index is not index


def test_the_index_of_an_array_goes_with_it():
    array = sketches(["a dull film"])
    known_texts(array)
    gone = weakref.ref(array)
    n_kept = len(near_duplicates._INDEXES)

    del array
    gc.collect()

    assert gone() is None
    assert len(near_duplicates._INDEXES) == n_kept - 1


def test_values_among_sorted_ones_are_those_of_numpy(rng):
    known = np.unique(rng.integers(0, 50, size=20))
    values = rng.integers(-5, 60, size=100)

    assert_array_equal(are_among(values, known), np.isin(values, known))
    assert not are_among(values, known[:0]).any()


@pytest.fixture
def saved_index(monkeypatch, rng):
    """Known sketches, new texts, and the index of the former as arrays."""
    monkeypatch.setattr(near_duplicates, "_MIN_INDEXED_TEXTS", 100)
    known, new = messages(rng)
    known = sketches(known)
    return known, new, index_arrays(known)


def test_a_saved_index_finds_the_same_texts(saved_index):
    known, new, arrays = saved_index
    same_known = known.copy()
    keep_index(same_known, arrays)

    read = known_texts(same_known)

    assert read._index.ids is arrays["known.ids"]  # none was made
    assert_array_equal(read.are_near(new), KnownTexts(known).are_near(new))


def test_remainders_are_saved_rounded_up(saved_index):
    known, _, arrays = saved_index
    same_known = known.copy()
    keep_index(same_known, arrays)

    read = known_texts(same_known)._index.postings.remainders

    difference = read - index_known(known).postings.remainders
    assert difference.min() >= 0
    assert difference.max() < 0.001


def test_few_known_texts_have_no_saved_index():
    assert index_arrays(sketches(["a dull film"])) == {}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("known.ids", lambda ids: ids[::-1], "all different and in order"),
        (
            "known.numbers",
            lambda numbers: numbers + 1,
            "known.numbers must be at least 0 and below",
        ),
        ("known.lengths", lambda lengths: lengths[1:], r"known.lengths must have shape \(1000\)"),
        ("known.postings.rows", lambda rows: rows + 1, "rows must be at least 0 and below 1000"),
        ("known.postings.starts", lambda starts: starts[::-1].copy(), "must be the bounds of"),
        ("known.postings.remainders", lambda values: values[1:], "remainders must have shape"),
    ],
)
def test_an_index_of_other_texts_is_refused(saved_index, name, change, message):
    known, _, arrays = saved_index

    with pytest.raises(ValueError, match=message):
        keep_index(known, arrays | {name: change(arrays[name])})


def test_a_model_is_saved_with_its_index_and_loaded_without_making_it(tmp_path, monkeypatch):
    monkeypatch.setattr(near_duplicates, "_MIN_INDEXED_TEXTS", 100)
    texts, labels = load_banking("train", n_classes=2)
    model = TextClassifier(None).fit(texts, labels)
    digest = model.state().digest()
    save(model, tmp_path / "model")
    monkeypatch.setattr(near_duplicates, "index_known", None)

    loaded = load(tmp_path / "model")

    assert known_texts(loaded.training_sketches_).are_near(texts[:9]).all()
    assert loaded.state().digest() == digest


def test_a_model_without_its_index_finds_the_same_texts(tmp_path, monkeypatch):
    """As models were saved before there was one."""
    texts, labels = load_banking("train", n_classes=2)
    save(TextClassifier(None).fit(texts, labels), tmp_path / "model")

    loaded = load(tmp_path / "model")

    assert not (tmp_path / "model" / "derived.safetensors").exists()
    assert known_texts(loaded.training_sketches_).are_near(texts[:9]).all()


def test_a_damaged_index_is_an_error_of_loading(tmp_path, monkeypatch):
    monkeypatch.setattr(near_duplicates, "_MIN_INDEXED_TEXTS", 100)
    texts, labels = load_banking("train", n_classes=2)
    save(TextClassifier(None).fit(texts, labels), tmp_path / "model")
    path = tmp_path / "model" / "derived.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"derived\.safetensors is not what was saved"):
        load(tmp_path / "model")


def test_an_index_with_any_wrong_number_is_refused_or_used(saved_index, rng):
    """Compiled code reads nothing outside its arrays, as the sanitizers see."""
    known, new, arrays = saved_index
    odd_numbers = [0, 1, 2, 999, 1000, 2**15, 2**31 - 1, -1]
    n_used = 0

    for _ in range(100):
        name = rng.choice(list(arrays))
        array = arrays[name].copy()
        array[rng.integers(array.size)] = np.array(rng.choice(odd_numbers)).astype(array.dtype)
        same_known = known.copy()
        try:
            keep_index(same_known, arrays | {name: array})
        except ValueError:
            continue
        assert known_texts(same_known).are_near(new).shape == (len(new),)
        n_used += 1

    assert 0 < n_used < 100
