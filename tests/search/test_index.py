"""Index: exact search, adding, deleting, saving."""

import copy
import pickle
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from helpers import invoke
from pacsent import Index, Vocabulary, WordVectors, load, make_encoder, save
from pacsent.search import index as module
from pacsent.search import ranking
from pacsent.search.ranking import exact_nearest
from pacsent.search.snapshot import Snapshot

N_WORDS = 500
WORDS = [f"word{i}" for i in range(N_WORDS)]


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    counts = np.geomspace(1e6, 5, N_WORDS).astype(int)
    vocabulary = Vocabulary(WORDS, counts, normalize="unicode")
    return WordVectors(vocabulary, *rng.normal(size=(2, N_WORDS, 16)).astype("f4"))


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(700)]


@pytest.fixture
def made(words):
    return make_encoder("Average", words, on_empty="ignore").fit([])


def exact(vectorizer, texts, query, k):
    X = vectorizer.transform(texts)
    [q] = vectorizer.transform([query])
    cosines = X @ q / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
    return np.argsort(-cosines, kind="stable")[:k], np.sort(cosines)[::-1][:k]


def test_search_is_exact_whatever_the_blocks(made, texts, monkeypatch):
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 64)
    index = Index(made, lexical=False)
    assert index.add(texts[:300]).tolist() == list(range(300))
    assert index.add(iter(texts[300:])).tolist() == list(range(300, 700))
    for query in texts[:5] + ["word1 word2 word3"]:
        rows, cosines = exact(made, texts, query, 10)
        hits = index.search(query)
        assert [hit.id for hit in hits] == rows.tolist()
        np.testing.assert_allclose([hit.score for hit in hits], cosines, atol=1e-5)
        assert [hit.text for hit in hits] == [texts[i] for i in rows]
    many = index.search(texts[:5], k=3)
    assert [hits[0].id for hits in many] == [0, 1, 2, 3, 4] and len(many[0]) == 3


@pytest.mark.parametrize("n_queries", [1, 4, 5, 60])
def test_the_order_is_that_of_the_cosines_in_double_precision(made, n_queries, monkeypatch):
    """A thousand texts whose cosines differ by less than single precision tells apart."""
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 2000)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1, 16)) + 1e-7 * rng.normal(size=(1000, 16))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    X[500:520] = X[0]  # equal ones: the earlier comes first
    Q = rng.normal(size=(n_queries, 16)).astype(np.float32)
    Q[0] = X[0]
    index = Index(made, lexical=False)
    index.add([f"word{i % 500}" for i in range(1000)])
    [block] = index._snapshot.blocks
    nearest = exact_nearest(Snapshot((replace(block, vectors=X),)), Q, 30, np.empty(0, bool))
    rows, cosines = map(np.array, zip(*nearest))
    exact = np.array([[float(np.dot(q.astype(object), x.astype(object))) for x in X] for q in Q])
    order = np.argsort(-exact, axis=1, kind="stable")[:, :30]
    np.testing.assert_allclose(cosines, np.take_along_axis(exact, order, axis=1), atol=1e-14)
    found = np.take_along_axis(exact, rows, axis=1)
    assert (found >= np.take_along_axis(exact, order, axis=1) - 1e-14).all()
    equal = [row for row in rows[0] if row == 0 or 500 <= row < 520]
    assert equal == sorted(equal)
    assert all(len(set(line)) == 30 for line in rows.tolist())


def test_texts_added_one_by_one_are_few_blocks(made, texts, tmp_path):
    whole, single = Index(made, lexical=False), Index(made, lexical=False)
    whole.add(texts)
    save(whole, tmp_path / "index")
    opened = load(tmp_path / "index")
    for text in texts:
        single.add([text])
        opened.add([text])
    assert len(single._snapshot.blocks) <= 12 and len(opened._snapshot.blocks) <= 12
    assert single.search(texts[:9]) == whole.search(texts[:9])
    assert opened.search(texts[3], k=2)[1].id == len(texts) + 3


def test_more_are_asked_for_than_there_are(made, texts):
    index = Index(made, lexical=False)
    assert index.search("word1") == []
    index.add([*texts[:7], "zzz qqq"])  # OOV words only: it neither finds nor is found
    index.delete([2])
    assert {hit.id for hit in index.search(texts[0], k=50)} == {0, 1, 3, 4, 5, 6}
    assert [len(hits) for hits in index.search(texts[:8], k=50)] == [6] * 8
    assert index.search("qqq") == []


def test_an_engine_that_is_not_there_is_refused_in_one_line(made, monkeypatch):
    with pytest.raises(ValueError, match="engine must be one of auto, exact, faiss"):
        Index(made, engine="annoy")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"unlike 'exact', .*pip install 'pacsent\[faiss\]'"):
        Index(made, engine="faiss")
    assert Index(made, lexical=False).engine_ == "exact"


@pytest.fixture
def many(made):
    pytest.importorskip("faiss", reason="the extra [faiss] is not installed")
    rng = np.random.default_rng(2)
    index = Index(made, engine="faiss", lexical=False)
    index.add([" ".join(rng.choice(WORDS, 3)) for _ in range(5000)])
    return index


def test_lists_find_most_of_the_nearest_with_exact_cosines(many, texts):
    assert many.engine_ == "faiss"
    near, exact = [], []
    for engine, cosines in (("exact", exact), ("faiss", near)):
        many.engine = engine
        cosines += [{hit.id: hit.score for hit in hits} for hits in many.search(texts[:100])]
    right = np.mean([len(a.keys() & b.keys()) / 10 for a, b in zip(near, exact)])
    assert right > 0.3  # random vectors have no lists by nature; text does better
    for a, b in zip(near, exact):
        assert all(a[i] == pytest.approx(b[i], abs=1e-14) for i in a.keys() & b.keys())
    own = many.search([hit.text for hit in many.search("word1 word2 word3", k=5)], k=1)
    assert all(hits[0].score == pytest.approx(1, abs=1e-6) for hits in own)


def test_lists_are_used_above_a_number_of_texts_unless_refused(many, monkeypatch):
    monkeypatch.setattr(module, "_MAX_EXACT_TEXTS", len(many))
    texts = [many.search("word1", k=1)[0].text]
    for engine, after in (("auto", "faiss"), ("exact", "exact")):
        index = Index(many.encoder, engine, lexical=False)
        index.add(many._snapshot.blocks[0].texts)
        assert index.engine_ == "exact"
        index.add(texts)
        assert index.engine_ == after


def test_lists_follow_what_is_added_and_deleted_and_are_saved(many, texts, tmp_path):
    many.search("word1")
    [new] = many.add(["word7 word8 word9 word7"])
    assert many.search("word7 word8 word9 word7", k=1)[0].id == new
    save(many, tmp_path / "index")
    again = load(tmp_path / "index")
    assert again.engine_ == "faiss" and len(again._lists) == len(again) == 5001
    assert again.search(texts[:50], k=5) == many.search(texts[:50], k=5)
    many.delete([new])
    assert new not in [hit.id for hit in many.search("word7 word8 word9 word7", k=20)]
    save(many, tmp_path / "index", overwrite=True)
    assert new not in [hit.id for hit in load(tmp_path / "index").search("word7 word8", k=20)]


def test_an_index_is_saved_opened_and_copied_with_its_vectorizer(made, texts, tmp_path):
    index = Index(made, lexical=False)
    index.add(texts)
    index.delete([3, 4])
    save(index, tmp_path / "index")
    for again in (
        load(tmp_path / "index"),
        pickle.loads(pickle.dumps(load(tmp_path / "index"))),  # before its first search
        copy.deepcopy(load(tmp_path / "index")),
    ):
        assert len(again) == len(index) and again._next_number == index._next_number
        assert again.search(texts[:4]) == index.search(texts[:4])
        assert again.add(["word1 word2"]).tolist() == [len(texts)]
    again.delete([5])
    save(again, tmp_path / "index", overwrite=True)
    assert 5 not in [hit.id for hit in load(tmp_path / "index").search(texts[5], k=700)]
    empty = Index(made, lexical=False)
    assert empty.add([]).tolist() == [] and empty.search("a", k=1) == []
    save(empty, tmp_path / "empty")
    assert len(load(tmp_path / "empty")) == 0


def test_texts_and_queries_are_those_of_every_other_class(made, texts):
    index = Index(made, lexical=False)
    table = pd.DataFrame({"body": texts[:5]}, index=[4, 3, 2, 1, 0])
    assert index.add(table).tolist() == [0, 1, 2, 3, 4]
    assert [hits[0].text for hits in index.search(table, k=1)] == texts[:5]
    for wrong in (set(texts[:5]), [["word1", "word2"]], np.array([texts[:2]]), "one text"):
        with pytest.raises((TypeError, ValueError), match="texts must"):
            index.add(wrong)
    for wrong in (None, {"word1"}, np.array([["word1"]]), [None], b"word1"):
        with pytest.raises((TypeError, ValueError), match="query must"):
            index.search(wrong)
    for k in (0, -1, 2.0, float("inf"), float("nan"), True, "3", None):
        with pytest.raises(ValueError, match="k must be an integer of at least 1"):
            index.search("word1", k=k)
    assert len(index) == 5


def test_memory_goes_by_the_texts_and_not_by_k(made, texts):
    index = Index(made, lexical=False)
    index.add(texts[:300])
    few = index.search(texts[0], k=300)
    tracemalloc.start()
    assert index.search(texts[0], k=30_000_000) == index.search(texts[0], k=10**30) == few
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_any_iterable_of_integers_and_nothing_else_deletes_a_text(made, texts):
    index = Index(made, lexical=False)
    index.add(texts)
    for ids in ([True], np.array([True]), [1.0], "1", ["1"], b"1", None, 1.5, True, {1: 2}, [None]):
        with pytest.raises(TypeError, match=r"ids must be integers.* Got "):
            index.delete(ids)
    second = index.search(texts[7], k=2)[1].id
    for ids in (0, {1}, (i for i in [2]), np.array([3, 4]), np.int32(5), range(6, 8), []):
        index.delete(ids)
    assert len(index) == len(texts) - 8 and index.search(texts[7], k=1)[0].id == second
    with pytest.raises(ValueError, match="Got 0 and 1 others instead"):
        index.delete([0, 8, 2**70])
    assert index.text(8) == texts[8]
    for number in (0, 8.0, "8", True, 999):
        with pytest.raises(ValueError, match="number must be that of a text"):
            index.text(number)
    assert index.add(["word1"]).tolist() == [len(texts)]  # numbers are not used again


def test_twelve_threads_add_delete_and_search(made, texts):
    index, numbers = Index(made, lexical=False), []

    def work(i):
        for text in texts[20 * i : 20 * i + 20]:
            [number] = index.add([text])
            numbers.append((int(number), text))
            assert index.search(text, k=1)[0].id == number
        index.delete([number])

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    assert sorted(number for number, _ in numbers) == list(range(240)) and len(index) == 228
    kept = {hit.id for hit in index.search("word1", k=240)}
    assert all(index.text(number) == text for number, text in numbers if number in kept)


def test_word_vectors_and_names_stand_for_a_method(words, texts):
    for encoder, name in ((words, "SIF-sum"), ("english", "distilled + SIF-sum")):
        index = Index(encoder)
        index.add(["word1 word2", "the cat slept"])
        assert index.encoder.method_name == name and index.search("word1 cat")
    for wrong in (None, 3, object()):
        with pytest.raises(TypeError, match="encoder must be an object with encode or transform"):
            Index(wrong)


CHANGES = {
    "ids that repeat": ("ids", np.zeros_like),
    "negative ids": ("ids", lambda a: a - 1),
    "a next number in use": ("next_id", lambda a: a - 1),
    "ids of floats": ("ids", lambda a: a.astype(float)),
    "fewer vectors": ("vectors", lambda a: a[:-1]),
    "fewer dimensions": ("vectors", lambda a: a[:, :-1].copy()),
    "fewer bytes": ("text_bytes", lambda a: a[:-1]),
    "offsets that go back": ("text_offsets", lambda a: a[::-1].copy()),
    "a nan": ("vectors", lambda a: np.where(a == a.max(), np.float32(np.nan), a)),
    "an infinity": ("vectors", lambda a: np.where(a == a.max(), np.float32(np.inf), a)),
    "long vectors": ("vectors", lambda a: 2 * a),
    "places of no text": ("spans", lambda a: a + [1, 0, 0]),
    "a word twice": ("word_hashes", lambda a: np.full_like(a, a[0])),
    "words of no row": ("word_rows", lambda a: a + 5),
    "words whose rows decrease": ("word_ends", lambda a: np.where(a < a[-1], 0, a)),
    "words without an end": ("word_ends", lambda a: a + 1),
    "values that are not there": ("column0_codes", lambda a: a + 1),
    "values that are no JSON": ("column0_bytes", lambda a: a * 0 + 123),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_loaded_is_checked_before_its_use(made, texts, tmp_path, monkeypatch, change):
    index = Index(made, lexical=True, chunk=True)
    index.add(texts[:5], metadata=[{"n": i} for i in range(5)])
    state, (name, changed) = index.state(), CHANGES[change]
    arrays = {**state.tensors, name: changed(state.tensors[name])}
    monkeypatch.setattr(index, "state", lambda: replace(state, tensors=arrays))
    save(index, tmp_path / "index")  # with fresh checksums
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "index").search("word1")


@pytest.mark.slow
def test_the_commands_index_search_and_similar(tmp_path):
    def run(*arguments):
        return invoke(*arguments, status=0).stdout

    texts, index = tmp_path / "texts", tmp_path / "index"
    texts.write_text("a glass of red wine\nthe cat slept\na glass of wine\n")
    run("index", "english", texts, "-o", index)
    hit = run("search", index, "a sleeping kitten", "-k", "1")
    assert hit.split("\t")[1:] == ["1", "the cat slept\n"]
    cosines = run("embed", "english", texts, "--pairs", texts)
    assert [float(x) for x in cosines.split()] == pytest.approx([1, 1, 1], abs=1e-3)
