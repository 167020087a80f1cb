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


def tables(texts):
    """The same texts as tables with one column, and as other collections."""
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    return {
        "DataFrame with another index": pd.DataFrame({"text": texts}, index=range(7, 7 + len(X))),
        "pyarrow Table": pa.table({"text": texts}),
        "array of objects": np.array(texts, dtype=object),
        "Series": pd.Series(texts, index=list(range(len(texts)))[::-1]),
        "pyarrow array": pa.array(texts),
        "generator": (text for text in texts),
        "values of a dict": dict(enumerate(texts)).values(),
        "token lists": [text.split() for text in texts],
    }


def refused():
    """What holds no sentences, or more than one column of them, with a part of the message."""
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    wide = {"id": [1, 2, 3, 4, 5], "text": [*X, "good"]}
    return {
        "DataFrame of two columns": (pd.DataFrame(wide), "a table of 2 columns ('id', 'text')"),
        "pyarrow Table of two": (pa.table(wide), "a table of 2 columns ('id', 'text')"),
        "array of two dimensions": (np.array([X, X]), "of shape (2, 4)"),
        "array of one column": (np.array(X)[:, None], "Pass one column: X[:, 0]."),
        "dict": ({"good film": 1, "quiet film": 2}, "a dict"),
        "set": ({"good film"}, "a set"),
        "bytes": (b"good film", "bytes"),
        "None": (None, "None"),
        "array of no dimension": (np.array("good film"), "a single value"),
        "single string": ("good film", "the single string 'good film'"),
    }


def test_every_door_takes_one_column_of_any_kind(fitted, toy_word_vectors):
    expected = fitted.transform(X)
    for kind, table in tables(X).items():
        assert_array_equal(fitted.transform(table), expected, err_msg=kind)
        if kind == "generator":
            continue
        again = make_encoder("PB-IDF-L2", toy_word_vectors).fit(table)
        assert_array_equal(again.idf_, fitted.idf_, err_msg=kind)
        assert_array_equal(again.posterior(table)[0], expected, err_msg=kind)
        assert_array_equal(np.vstack([m for m, _ in again.stream(table)]), expected, err_msg=kind)
        encoded = toy_word_vectors.vocabulary.encode(table)
        assert_array_equal(encoded.ids, toy_word_vectors.vocabulary.encode(X).ids, err_msg=kind)


def test_whatever_holds_no_sentences_is_refused_at_every_door(fitted, toy_word_vectors, tmp_path):
    trained = SkipGram(2, min_count=1).fit
    built = partial(Corpus.build, directory=tmp_path / "corpus", min_count=1)
    doors = [trained, built, toy_word_vectors.vocabulary.encode, partial(certify_encoder, fitted)]
    for method in ("fit", "transform", "posterior", "stream", "sample", "fit_transform"):
        doors.append(getattr(fitted, method))
    for kind, (X, message) in refused().items():
        for door in doors:
            if kind == "single string" and door in (trained, built):
                continue  # the name of a file
            with pytest.raises((TypeError, ValueError)) as error:
                door(X)
            assert message in str(error.value), (kind, door)
            assert "must be an iterable of texts. Got" in str(error.value), (kind, door)
            assert "\n" not in str(error.value)


class Longer(list):
    """Holds more than its length says."""

    def __len__(self):
        return 3


@pytest.mark.parametrize("n", [0, 2, 4, 3000])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_there_are_as_many_rows_as_sentences_whatever_the_length_says(toy_word_vectors, n, n_jobs):
    vectorizer = AverageVectorizer(toy_word_vectors, n_jobs=n_jobs, batch_size=2).fit(X)
    found = vectorizer.transform(Longer(["good film"] * n))
    assert_array_equal(found, vectorizer.transform(["good film"] * n))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("method", ["Average", "PB-neg"])
def test_the_row_that_is_wrong_is_named_exactly(toy_word_vectors, n_jobs, method):
    vectorizer = make_encoder(method, toy_word_vectors, n_jobs=n_jobs, batch_size=500).fit(X)
    where = 3_234 if method == "Average" else 1_234
    texts = ["good film"] * where + [float("nan")] + ["quiet"] * 700 + [None]
    tokens = [text.split() for text in texts[:where]] + texts[where:]
    for given in (texts, iter(texts), tokens):
        with pytest.raises(TypeError, match=rf"Got float 'nan' in row {where} \(rows count from 0"):
            vectorizer.transform(given)
    with pytest.raises(TypeError, match=rf"Got float 'nan' in row {where} "):
        vectorizer.fit(texts)
    mixed = ["good film", ["good", "film"]] * (where // 2) + [["good", 7]]
    with pytest.raises(TypeError, match=rf"a list with int '7' in it in row {where} "):
        vectorizer.transform(mixed)
    with pytest.raises(TypeError, match=rf"in row {where} "):
        toy_word_vectors.vocabulary.encode(mixed)


def test_a_dataset_takes_tables_and_counts_its_labels(toy_word_vectors):
    pd = pytest.importorskip("pandas")
    labels, none = np.array([0, 1, 0, 1]), np.zeros(0, dtype=np.int64)
    dataset = Dataset("mine", pd.DataFrame({"text": X}), labels, [], none, ("a", "b"), "")
    assert dataset.train_texts == X
    with pytest.raises(ValueError, match=r"Got 4 and 3 instead"):
        Dataset("mine", X, labels[:3], [], none, ("a", "b"), "")
    with pytest.raises(TypeError, match=r"train_texts must be an iterable .* Got a dict instead"):
        Dataset("mine", {"a": 1}, labels[:1], [], none, ("a", "b"), "")
    with pytest.raises(TypeError, match=r"dataset must be a Dataset. Got DataFrame instead"):
        evaluation.evaluate("Average-0", pd.DataFrame({"text": X}), toy_word_vectors)


def test_coverage_counts_words_and_symbols_that_are_dropped(toy_word_vectors):
    vectorizer = make_encoder("Average", toy_word_vectors, on_empty="ignore").fit(["good film"])
    vectorizer.transform(["good film", "電影 !", "\N{GRINNING FACE} — film"])
    assert vectorizer.coverage_ == 3 / 5 and vectorizer.n_empty_ == 1


def test_ids_of_another_vocabulary_are_refused(fitted, toy_word_vectors):
    other = Vocabulary([f"word{i}" for i in range(50_000)] + ["good", "film"])
    encoded = other.encode([["good", "film"], ["word3"]])
    with pytest.raises(TypeError, match=r"must be texts. Got an Encoded instead"):
        SkipGram(2, min_count=1).fit(encoded)
    doors = [make_encoder(method, toy_word_vectors).fit for method in METHODS]
    doors += [fitted.transform, fitted.posterior, fitted.stream, fitted.fit_transform]
    vocabulary = toy_word_vectors.vocabulary
    doors += [vocabulary.encode, vocabulary.count, vocabulary.digest]
    for door in (*doors, partial(certify_encoder, fitted)):
        with pytest.raises(ValueError, match=r"below 4, .* Got 50,00[01] instead. They are of ano"):
            door(encoded)


def test_an_encoded_whose_arrays_do_not_belong_together_is_refused(fitted):
    ids, offsets, n_unknown = np.array([0, 1, 2], np.int32), np.array([0, 1, 3]), np.zeros(2, int)
    for changed, message in (
        ({"offsets": np.array([0, 1, 4])}, r"from 0 to the number of ids, 3. Got \[0, 1, 4\]"),
        ({"offsets": np.array([0, -2, 3])}, r"must rise .*Got \[0, -2, 3\]"),
        ({"offsets": np.array([], int)}, r"Got \[\] ... instead"),
        ({"offsets": offsets.astype(float)}, r"Encoded.offsets must be a flat array"),
        ({"n_unknown": np.zeros(3, int)}, r"each of the 2 sentences. Got 3 numbers"),
        ({"n_unknown": np.array([0, -1])}, r"the smallest -1"),
        ({"ids": ids.astype(float)}, r"flat array of int32. Got float64"),
        ({"ids": ids[:, None]}, r"Got int32 of shape \(3, 1\)"),
        ({"ids": ids - 1}, r"at least 0 and below 4.* Got -1 instead"),
        ({"ids": ids.astype(np.int64) + 2**32}, r"flat array of int32. Got int64"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.transform(Encoded(ids, offsets, n_unknown)._replace(**changed))


def test_an_encoded_of_other_integers_gives_the_same_vectors(fitted):
    ids, offsets, n_unknown = fitted.word_vectors.vocabulary.encode(X)
    expected = fitted.transform(X)
    others = [ids.astype(kind) for kind in (np.int64, np.uint8, ">i8")]
    for other in (*others, np.repeat(ids, 2)[::2], ids.tolist()):
        encoded = Encoded(other, offsets.astype(np.int32), n_unknown.tolist())
        assert_array_equal(fitted.transform(encoded), expected)
