"""What may be handed in where sentences are asked for, and what is refused."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent import SkipGram, Vocabulary, certify_encoder, make_encoder
from pacsent.paper import evaluation
from pacsent.paper.benchmark_datasets import Dataset
from pacsent.sentences import AverageVectorizer
from pacsent.sentences.methods import METHODS
from pacsent.text.encoded import Encoded
from pacsent.words import Corpus

X = ["good film", "quiet film", "film film film", "a good quiet film"]


@pytest.fixture
def fitted(toy_word_vectors):
    return make_encoder("PB-IDF-L2", toy_word_vectors).fit(X)


def collections_of(texts):
    """The same texts as tables with one column, and as other collections that can be read again."""
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    n = len(texts)
    return {
        "DataFrame with another index": pd.DataFrame({"text": texts}, index=range(7, 7 + n)),
        "pyarrow Table": pa.table({"text": texts}),
        "array of objects": np.array(texts, dtype=object),
        "Series": pd.Series(texts, index=range(n, 0, -1)),
        "pyarrow array": pa.array(texts),
        "values of a dict": dict(enumerate(texts)).values(),
        "token lists": [text.split() for text in texts],
    }


def no_sentences():
    """What contains no sentences, or more than one column of them, with a part of the message."""
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    two_columns = {"id": [1, 2, 3, 4, 5], "text": [*X, "good"]}
    return {
        "DataFrame": (pd.DataFrame(two_columns), "a table of 2 columns ('id', 'text')"),
        "pyarrow Table": (pa.table(two_columns), "a table of 2 columns ('id', 'text')"),
        "array of two dimensions": (np.array([X, X]), "of shape (2, 4)"),
        "array of one column": (np.array(X)[:, None], "Pass one column: X[:, 0]."),
        "dict": ({"good film": 1, "quiet film": 2}, "a dict"),
        "set": ({"good film"}, "a set"),
        "bytes": (b"good film", "bytes"),
        "None": (None, "None"),
        "array of no dimension": (np.array("good film"), "a single value"),
        "single string": ("good film", "the single string 'good film'"),
    }


def test_a_generator_of_texts_is_encoded(fitted):
    assert_array_equal(fitted.transform(text for text in X), fitted.transform(X))


def test_every_door_takes_one_column_of_any_kind(fitted, toy_word_vectors):
    expected = fitted.transform(X)
    expected_ids = toy_word_vectors.vocabulary.encode(X).ids

    for kind, texts in collections_of(X).items():
        again = make_encoder("PB-IDF-L2", toy_word_vectors).fit(texts)
        means, _ = again.posterior(texts)
        streamed_means = [means for means, _ in again.stream(texts)]
        ids = toy_word_vectors.vocabulary.encode(texts).ids

        assert_array_equal(again.idf_, fitted.idf_, err_msg=kind)
        assert_array_equal(fitted.transform(texts), expected, err_msg=kind)
        assert_array_equal(means, expected, err_msg=kind)
        assert_array_equal(np.vstack(streamed_means), expected, err_msg=kind)
        assert_array_equal(ids, expected_ids, err_msg=kind)


def assert_no_sentences(door, texts, message, kind):
    """The door raises an error of one line that contains the message."""
    with pytest.raises((TypeError, ValueError)) as error:
        door(texts)
    line = str(error.value)
    assert message in line, (kind, door)
    assert "must be an iterable of texts. Got" in line, (kind, door)
    assert "\n" not in line


METHODS_OF_TEXTS = ("fit", "transform", "posterior", "stream", "sample", "fit_transform")


def test_whatever_contains_no_sentences_is_refused_at_every_door(fitted, toy_word_vectors):
    doors = [getattr(fitted, name) for name in METHODS_OF_TEXTS]
    doors += [toy_word_vectors.vocabulary.encode, partial(certify_encoder, fitted)]

    for kind, (texts, message) in no_sentences().items():
        for door in doors:
            assert_no_sentences(door, texts, message, kind)


def test_whatever_contains_no_sentences_is_not_trained_on(tmp_path):
    train = SkipGram(2, min_count=1).fit
    build = partial(Corpus.build, directory=tmp_path / "corpus", min_count=1)

    for kind, (texts, message) in no_sentences().items():
        if kind != "single string":  # the name of a file
            assert_no_sentences(train, texts, message, kind)
            assert_no_sentences(build, texts, message, kind)


class Longer(list):
    """Contains more than its length says."""

    def __len__(self):
        return 3


@pytest.mark.parametrize("n", [0, 2, 4, 3000])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_there_are_as_many_rows_as_sentences_whatever_the_length_says(toy_word_vectors, n, n_jobs):
    texts = ["good film"] * n
    vectorizer = AverageVectorizer(toy_word_vectors, n_jobs=n_jobs, batch_size=2).fit(X)

    vectors = vectorizer.transform(Longer(texts))

    assert_array_equal(vectors, vectorizer.transform(texts))


@pytest.fixture(params=[("Average", 3_234), ("PB-neg", 1_234)], ids=["Average", "PB-neg"])
def method_and_row(request):
    """A method, and the row of several batches that is wrong."""
    return request.param


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def vectorizer(request, method_and_row, toy_word_vectors):
    method, _ = method_and_row
    encoder = make_encoder(method, toy_word_vectors, n_jobs=request.param, batch_size=500)
    return encoder.fit(X)


@pytest.mark.parametrize("kind", ["list", "iterator", "token lists"])
def test_the_row_without_a_text_is_named(vectorizer, method_and_row, kind):
    _, row = method_and_row
    texts = ["good film"] * row + [float("nan")] + ["quiet"] * 700 + [None]
    if kind == "iterator":
        texts = iter(texts)
    if kind == "token lists":
        texts[:row] = [["good", "film"]] * row

    with pytest.raises(TypeError, match=rf"Got float 'nan' in row {row} \(rows count from 0"):
        vectorizer.transform(texts)


def test_the_row_without_a_text_is_named_when_fitting(vectorizer, method_and_row):
    _, row = method_and_row
    texts = ["good film"] * row + [float("nan")] + ["quiet"] * 700

    with pytest.raises(TypeError, match=rf"Got float 'nan' in row {row} "):
        vectorizer.fit(texts)


def test_the_row_with_a_number_among_its_tokens_is_named(vectorizer, method_and_row):
    _, row = method_and_row
    texts = ["good film", ["good", "film"]] * (row // 2) + [["good", 7]]

    with pytest.raises(TypeError, match=rf"a list with int '7' in it in row {row} "):
        vectorizer.transform(texts)
    with pytest.raises(TypeError, match=rf"in row {row} "):
        vectorizer.word_vectors.vocabulary.encode(texts)


def make_dataset(texts, labels):
    """A dataset of two classes without test texts."""
    no_labels = np.zeros(0, dtype=np.int64)
    return Dataset("mine", texts, np.array(labels), [], no_labels, ("a", "b"), "")


def test_a_dataset_takes_tables():
    pd = pytest.importorskip("pandas")
    dataset = make_dataset(pd.DataFrame({"text": X}), [0, 1, 0, 1])
    assert dataset.train_texts == X


def test_a_dataset_has_a_label_for_each_text():
    with pytest.raises(ValueError, match=r"Got 4 and 3 instead"):
        make_dataset(X, [0, 1, 0])


def test_a_dict_is_no_text_of_a_dataset():
    with pytest.raises(TypeError, match=r"train_texts must be an iterable .* Got a dict instead"):
        make_dataset({"a": 1}, [0])


def test_a_table_is_no_dataset(toy_word_vectors):
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"dataset must be a Dataset. Got DataFrame instead"):
        evaluation.evaluate("Average-0", pd.DataFrame({"text": X}), toy_word_vectors)


def test_coverage_counts_words_and_symbols_that_are_dropped(toy_word_vectors):
    vectorizer = make_encoder("Average", toy_word_vectors, on_empty="ignore").fit(["good film"])

    vectorizer.transform(["good film", "電影 !", "\N{GRINNING FACE} — film"])

    assert vectorizer.coverage_ == 3 / 5
    assert vectorizer.n_empty_ == 1


@pytest.fixture(scope="module")
def ids_of_another_vocabulary():
    other = Vocabulary([f"word{i}" for i in range(50_000)] + ["good", "film"])
    return other.encode([["good", "film"], ["word3"]])


def test_ids_are_not_trained_on(ids_of_another_vocabulary):
    with pytest.raises(TypeError, match=r"must be texts. Got an Encoded instead"):
        SkipGram(2, min_count=1).fit(ids_of_another_vocabulary)


def test_ids_of_another_vocabulary_are_refused(fitted, toy_word_vectors, ids_of_another_vocabulary):
    vocabulary = toy_word_vectors.vocabulary
    doors = [make_encoder(method, toy_word_vectors).fit for method in METHODS]
    doors += [fitted.transform, fitted.posterior, fitted.stream, fitted.fit_transform]
    doors += [vocabulary.encode, vocabulary.count, vocabulary.digest]
    doors.append(partial(certify_encoder, fitted))

    for door in doors:
        with pytest.raises(ValueError, match=r"below 4, .* Got 50,00[01] instead. They are of ano"):
            door(ids_of_another_vocabulary)


IDS = np.array([0, 1, 2], np.int32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 1, 4])}, r"from 0 to the number of ids, 3. Got \[0, 1, 4\]"),
        ({"offsets": np.array([0, -2, 3])}, r"must rise .*Got \[0, -2, 3\]"),
        ({"offsets": np.array([], int)}, r"Got \[\] ... instead"),
        ({"offsets": np.array([0.0, 1.0, 3.0])}, r"Encoded.offsets must be a flat array"),
        ({"n_unknown": np.zeros(3, int)}, r"each of the 2 sentences. Got 3 numbers"),
        ({"n_unknown": np.array([0, -1])}, r"the smallest -1"),
        ({"ids": IDS.astype(float)}, r"flat array of int32. Got float64"),
        ({"ids": IDS[:, None]}, r"Got int32 of shape \(3, 1\)"),
        ({"ids": IDS - 1}, r"at least 0 and below 4.* Got -1 instead"),
        ({"ids": IDS.astype(np.int64) + 2**32}, r"flat array of int32. Got int64"),
    ],
)
def test_an_encoded_whose_arrays_do_not_belong_together_is_refused(fitted, change, message):
    encoded = Encoded(IDS, np.array([0, 1, 3]), np.zeros(2, int))
    with pytest.raises(ValueError, match=message):
        fitted.transform(encoded._replace(**change))


@pytest.mark.parametrize(
    "convert",
    [
        lambda ids: ids.astype(np.int64),
        lambda ids: ids.astype(np.uint8),
        lambda ids: ids.astype(">i8"),
        lambda ids: np.repeat(ids, 2)[::2],
        lambda ids: ids.tolist(),
    ],
    ids=["int64", "uint8", "big-endian", "with a stride", "list"],
)
def test_an_encoded_of_other_integers_gives_the_same_vectors(fitted, convert):
    ids, offsets, n_unknown = fitted.word_vectors.vocabulary.encode(X)

    encoded = Encoded(convert(ids), offsets.astype(np.int32), n_unknown.tolist())

    assert_array_equal(fitted.transform(encoded), fitted.transform(X))
