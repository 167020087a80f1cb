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
from pacsent import Index, load, save
from pacsent.search import index as module
from pacsent.search import ranking
from pacsent.search.ranking import exact_nearest
from pacsent.search.snapshot import Snapshot


@pytest.fixture
def index(average_encoder, texts):
    """All texts, found by their vectors alone."""
    index = Index(average_encoder, lexical=False)
    index.add(texts)
    return index


@pytest.fixture
def small_index(average_encoder, texts):
    """The first five texts."""
    index = Index(average_encoder, lexical=False)
    index.add(texts[:5])
    return index


def ids_of(hits):
    return [hit.id for hit in hits]


def scores_of(hits):
    return [hit.score for hit in hits]


def rank_by_cosine(encoder, texts, query, k):
    """Rows and cosines of the k nearest texts, from the formula."""
    vectors = encoder.transform(texts)
    [query_vector] = encoder.transform([query])
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query_vector)

    cosines = vectors @ query_vector / lengths
    rows = np.argsort(-cosines, kind="stable")[:k]
    return rows, cosines[rows]


def test_numbers_of_texts_go_on_from_call_to_call(average_encoder, texts):
    index = Index(average_encoder, lexical=False)

    assert index.add(texts[:300]).tolist() == list(range(300))
    assert index.add(iter(texts[300:])).tolist() == list(range(300, 700))


def test_search_is_exact_whatever_the_blocks(average_encoder, texts, monkeypatch):
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 64)
    index = Index(average_encoder, lexical=False)
    index.add(texts[:300])
    index.add(texts[300:])

    for query in [*texts[:5], "word1 word2 word3"]:
        hits = index.search(query)

        rows, cosines = rank_by_cosine(average_encoder, texts, query, 10)
        assert ids_of(hits) == rows.tolist()
        assert [hit.text for hit in hits] == [texts[row] for row in rows]
        np.testing.assert_allclose(scores_of(hits), cosines, atol=1e-5)


def test_several_queries_have_k_hits_each(index, texts, monkeypatch):
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 64)

    hits_of_queries = index.search(texts[:5], k=3)

    assert [hits[0].id for hits in hits_of_queries] == [0, 1, 2, 3, 4]
    assert len(hits_of_queries[0]) == 3


@pytest.fixture
def close_vectors():
    """A thousand vectors whose cosines differ by less than single precision tells apart.

    Number 0 and numbers 500 to 519 are equal.
    """
    rng = np.random.default_rng(5)
    center = rng.normal(size=(1, 16))
    vectors = center + 1e-7 * rng.normal(size=(1000, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[500:520] = vectors[0]
    return vectors.astype(np.float32)


@pytest.fixture
def snapshot_of_close_vectors(average_encoder, close_vectors):
    """Texts with these vectors."""
    index = Index(average_encoder, lexical=False)
    index.add([f"word{i % 500}" for i in range(1000)])
    [block] = index._snapshot.blocks
    return Snapshot((replace(block, vectors=close_vectors),))


def find_thirty(snapshot, queries):
    """Rows and cosines of the thirty nearest texts, (n_queries, 30) each."""
    nearest = exact_nearest(snapshot, queries, 30, np.empty(0, bool))
    rows, cosines = zip(*nearest)
    return np.array(rows), np.array(cosines)


@pytest.mark.parametrize("n_queries", [1, 4, 5, 60])
def test_the_order_is_that_of_the_cosines_in_double_precision(
    close_vectors, snapshot_of_close_vectors, n_queries, monkeypatch
):
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 2000)
    rng = np.random.default_rng(6)
    queries = rng.normal(size=(n_queries, 16))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    queries = queries.astype(np.float32)
    queries[0] = close_vectors[0]

    rows, cosines = find_thirty(snapshot_of_close_vectors, queries)

    exact = _dot_products(queries, close_vectors)  # (n_queries, 1000)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :30]
    largest = np.take_along_axis(exact, order, axis=1)
    found = np.take_along_axis(exact, rows, axis=1)
    np.testing.assert_allclose(cosines, largest, atol=1e-14)
    assert (found >= largest - 1e-14).all()
    assert all(len(set(rows_of_query)) == 30 for rows_of_query in rows.tolist())


@pytest.mark.parametrize("n_queries", [1, 4, 5, 60])
def test_of_equal_texts_the_earlier_comes_first(
    close_vectors, snapshot_of_close_vectors, n_queries, monkeypatch
):
    monkeypatch.setattr(ranking, "_MAX_PRODUCTS", 2000)
    queries = np.repeat(close_vectors[:1], n_queries, axis=0)

    all_rows, _ = find_thirty(snapshot_of_close_vectors, queries)

    for rows in all_rows.tolist():
        equal_rows = [row for row in rows if row == 0 or 500 <= row < 520]
        assert equal_rows == sorted(equal_rows)


def _dot_products(queries, vectors):
    """In double precision: sums of Python's floats."""
    query_objects = queries.astype(object)
    vector_objects = vectors.astype(object)
    products = [[float(np.dot(q, x)) for x in vector_objects] for q in query_objects]
    return np.array(products)


def test_texts_added_one_by_one_are_few_blocks(average_encoder, index, texts, tmp_path):
    save(index, tmp_path / "index")
    opened = load(tmp_path / "index")
    one_by_one = Index(average_encoder, lexical=False)

    for text in texts:
        one_by_one.add([text])
        opened.add([text])

    assert len(one_by_one._snapshot.blocks) <= 12
    assert len(opened._snapshot.blocks) <= 12
    assert one_by_one.search(texts[:9]) == index.search(texts[:9])
    assert opened.search(texts[3], k=2)[1].id == len(texts) + 3


def test_an_empty_index_finds_nothing(average_encoder):
    index = Index(average_encoder, lexical=False)

    assert index.add([]).tolist() == []
    assert index.search("word1", k=1) == []


def test_hits_are_as_many_as_there_are_texts_with_known_words(average_encoder, texts):
    index = Index(average_encoder, lexical=False)
    index.add([*texts[:7], "zzz qqq"])  # OOV words only: it neither finds nor is found

    index.delete([2])

    assert set(ids_of(index.search(texts[0], k=50))) == {0, 1, 3, 4, 5, 6}
    assert [len(hits) for hits in index.search(texts[:8], k=50)] == [6] * 8
    assert index.search("qqq") == []


def test_an_unknown_engine_is_rejected(average_encoder):
    with pytest.raises(ValueError, match="engine must be one of auto, exact, faiss"):
        Index(average_encoder, engine="annoy")


def test_without_faiss_the_error_says_how_to_install_it(average_encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)

    with pytest.raises(ImportError, match=r"unlike 'exact', .*pip install 'pacsent\[faiss\]'"):
        Index(average_encoder, engine="faiss")
    assert Index(average_encoder, lexical=False).engine_ == "exact"


def test_lists_find_most_of_the_nearest_with_exact_cosines(faiss_index, texts):
    assert faiss_index.engine_ == "faiss"
    cosines = {}
    for engine in ("exact", "faiss"):
        faiss_index.engine = engine
        hits_of_queries = faiss_index.search(texts[:100])
        cosines[engine] = [{hit.id: hit.score for hit in hits} for hits in hits_of_queries]

    recalls = []
    for exact, approximate in zip(cosines["exact"], cosines["faiss"]):
        common = exact.keys() & approximate.keys()
        recalls.append(len(common) / 10)
        assert all(approximate[i] == pytest.approx(exact[i], abs=1e-14) for i in common)
    assert np.mean(recalls) > 0.3  # random vectors have no lists by nature; text does better


def test_lists_find_a_text_by_itself(faiss_index):
    texts = [hit.text for hit in faiss_index.search("word1 word2 word3", k=5)]

    best_scores = [hits[0].score for hits in faiss_index.search(texts, k=1)]

    assert best_scores == pytest.approx([1] * 5, abs=1e-6)


@pytest.mark.parametrize(("engine", "engine_above"), [("auto", "faiss"), ("exact", "exact")])
def test_lists_are_used_above_a_number_of_texts_unless_refused(
    faiss_index, monkeypatch, engine, engine_above
):
    monkeypatch.setattr(module, "_MAX_EXACT_TEXTS", len(faiss_index))
    index = Index(faiss_index.encoder, engine, lexical=False)
    index.add(faiss_index._snapshot.blocks[0].texts)
    assert index.engine_ == "exact"

    index.add(["word1"])

    assert index.engine_ == engine_above


def test_lists_are_saved_with_what_was_added(faiss_index, texts, tmp_path):
    faiss_index.search("word1")
    faiss_index.add(["word7 word8 word9 word7"])
    hits = faiss_index.search(texts[:50], k=5)  # the lists are made by a search
    save(faiss_index, tmp_path / "index")

    opened = load(tmp_path / "index")

    assert opened.engine_ == "faiss"
    assert len(opened._lists) == len(opened) == 5001
    assert opened.search(texts[:50], k=5) == hits


def test_lists_follow_what_is_added_and_deleted(faiss_index, tmp_path):
    faiss_index.search("word1")
    text = "word7 word8 word9 word7"
    [new] = faiss_index.add([text])
    assert faiss_index.search(text, k=1)[0].id == new

    faiss_index.delete([new])
    save(faiss_index, tmp_path / "index")

    assert new not in ids_of(faiss_index.search(text, k=20))
    assert new not in ids_of(load(tmp_path / "index").search("word7 word8", k=20))


@pytest.mark.parametrize(
    "copy_of",
    [
        pytest.param(lambda opened: opened, id="opened"),
        pytest.param(lambda opened: pickle.loads(pickle.dumps(opened)), id="pickled"),
        pytest.param(copy.deepcopy, id="copied"),
    ],
)
def test_an_index_is_saved_opened_and_copied_with_its_encoder(index, texts, tmp_path, copy_of):
    index.delete([3, 4])
    save(index, tmp_path / "index")

    again = copy_of(load(tmp_path / "index"))  # before its first search

    assert len(again) == len(index)
    assert again._next_number == index._next_number
    assert again.search(texts[:4]) == index.search(texts[:4])
    assert again.add(["word1 word2"]).tolist() == [len(texts)]


def test_a_text_deleted_from_an_opened_index_stays_deleted(index, texts, tmp_path):
    save(index, tmp_path / "index")
    opened = load(tmp_path / "index")

    opened.delete([5])
    save(opened, tmp_path / "index", overwrite=True)

    assert 5 not in ids_of(load(tmp_path / "index").search(texts[5], k=700))


def test_an_empty_index_is_saved(average_encoder, tmp_path):
    save(Index(average_encoder, lexical=False), tmp_path / "empty")
    assert len(load(tmp_path / "empty")) == 0


def test_a_column_of_a_table_is_texts_and_queries(average_encoder, texts):
    index = Index(average_encoder, lexical=False)
    table = pd.DataFrame({"body": texts[:5]}, index=[4, 3, 2, 1, 0])

    assert index.add(table).tolist() == [0, 1, 2, 3, 4]
    assert [hits[0].text for hits in index.search(table, k=1)] == texts[:5]


@pytest.mark.parametrize(
    "wrong", [{"a"}, [["word1", "word2"]], np.array([["a", "b"]]), "one text"], ids=repr
)
def test_what_is_no_list_of_texts_is_not_added(small_index, wrong):
    with pytest.raises((TypeError, ValueError), match="texts must"):
        small_index.add(wrong)

    assert len(small_index) == 5


@pytest.mark.parametrize(
    "wrong", [None, {"word1"}, np.array([["word1"]]), [None], b"word1"], ids=repr
)
def test_what_is_no_query_is_rejected(small_index, wrong):
    with pytest.raises((TypeError, ValueError), match="query must"):
        small_index.search(wrong)


@pytest.mark.parametrize("k", [0, -1, 2.0, np.inf, np.nan, True, "3", None], ids=repr)
def test_k_is_an_integer_of_at_least_one(small_index, k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        small_index.search("word1", k=k)


def test_memory_goes_by_the_texts_and_not_by_k(average_encoder, texts):
    index = Index(average_encoder, lexical=False)
    index.add(texts[:300])
    all_hits = index.search(texts[0], k=300)

    tracemalloc.start()
    assert index.search(texts[0], k=30_000_000) == all_hits
    assert index.search(texts[0], k=10**30) == all_hits
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1 << 24


@pytest.mark.parametrize(
    "wrong",
    [[True], np.array([True]), [1.0], "1", ["1"], b"1", None, 1.5, True, {1: 2}, [None]],
    ids=repr,
)
def test_ids_of_texts_to_delete_are_integers(small_index, wrong):
    with pytest.raises(TypeError, match=r"ids must be integers.* Got "):
        small_index.delete(wrong)


def test_any_iterable_of_integers_deletes_texts(index, texts):
    second_best = index.search(texts[7], k=2)[1].id

    index.delete(0)
    index.delete({1})
    index.delete(iter([2]))
    index.delete(np.array([3, 4]))
    index.delete(np.int32(5))
    index.delete(range(6, 8))
    index.delete([])

    assert len(index) == len(texts) - 8
    assert index.search(texts[7], k=1)[0].id == second_best


def test_if_one_id_is_unknown_nothing_is_deleted(index, texts):
    index.delete([0])

    with pytest.raises(ValueError, match="Got 0 and 1 others instead"):
        index.delete([0, 8, 2**70])
    assert index.text(8) == texts[8]


def test_numbers_of_deleted_texts_are_not_used_again(small_index):
    small_index.delete([4])
    assert small_index.add(["word1"]).tolist() == [5]


@pytest.mark.parametrize("number", [0, 8.0, "8", True, 999])
def test_a_number_of_no_text_is_rejected(small_index, number):
    small_index.delete([0])
    with pytest.raises(ValueError, match="number must be that of a text"):
        small_index.text(number)


def test_twelve_threads_add_delete_and_search(average_encoder, texts):
    index = Index(average_encoder, lexical=False)
    text_of_number = {}

    def add_search_and_delete(thread):
        for text in texts[20 * thread : 20 * thread + 20]:
            [number] = index.add([text])
            text_of_number[int(number)] = text
            assert index.search(text, k=1)[0].id == number
        index.delete([number])

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(add_search_and_delete, range(12)))

    assert sorted(text_of_number) == list(range(240))
    assert len(index) == 228
    for number in ids_of(index.search("word1", k=240)):
        assert index.text(number) == text_of_number[number]


def test_word_vectors_stand_for_a_method(word_vectors):
    index = Index(word_vectors)
    index.add(["word1 word2", "the cat slept"])

    assert index.encoder.method_name == "SIF-sum"
    assert index.search("word1 cat")


def test_the_name_of_vectors_stands_for_a_method():
    index = Index("english")
    index.add(["word1 word2", "the cat slept"])

    assert index.encoder.method_name == "distilled + SIF-sum"
    assert index.search("word1 cat")


@pytest.mark.parametrize("wrong", [None, 3, object()])
def test_what_cannot_encode_is_no_encoder(wrong):
    with pytest.raises(TypeError, match="encoder must be an object with encode or transform"):
        Index(wrong)


@pytest.fixture
def passages(average_encoder, texts):
    """The first five texts with metadata, searched by words and passages too."""
    index = Index(average_encoder, lexical=True, chunk=True)
    index.add(texts[:5], metadata=[{"n": i} for i in range(5)])
    return index


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param("ids", np.zeros_like, id="ids that repeat"),
        pytest.param("ids", lambda a: a - 1, id="negative ids"),
        pytest.param("next_id", lambda a: a - 1, id="a next number in use"),
        pytest.param("ids", lambda a: a.astype(float), id="ids of floats"),
        pytest.param("vectors", lambda a: a[:-1], id="fewer vectors"),
        pytest.param("vectors", lambda a: a[:, :-1].copy(), id="fewer dimensions"),
        pytest.param("text_bytes", lambda a: a[:-1], id="fewer bytes"),
        pytest.param("text_offsets", lambda a: a[::-1].copy(), id="offsets that go back"),
        pytest.param(
            "vectors", lambda a: np.where(a == a.max(), np.float32(np.nan), a), id="a nan"
        ),
        pytest.param(
            "vectors", lambda a: np.where(a == a.max(), np.float32(np.inf), a), id="an infinity"
        ),
        pytest.param("vectors", lambda a: 2 * a, id="long vectors"),
        pytest.param("spans", lambda a: a + [1, 0, 0], id="places of no text"),
        pytest.param("word_hashes", lambda a: np.full_like(a, a[0]), id="a word twice"),
        pytest.param("word_rows", lambda a: a + 5, id="words of no row"),
        pytest.param(
            "word_ends", lambda a: np.where(a < a[-1], 0, a), id="words whose rows decrease"
        ),
        pytest.param("word_ends", lambda a: a + 1, id="words without an end"),
        pytest.param("column0_codes", lambda a: a + 1, id="values that are not there"),
        pytest.param("column0_bytes", lambda a: a * 0 + 123, id="values that are no JSON"),
    ],
)
def test_what_is_loaded_is_checked_before_its_use(passages, tmp_path, monkeypatch, name, damage):
    state = passages.state()
    tensors = dict(state.tensors)
    tensors[name] = damage(tensors[name])
    damaged_state = replace(state, tensors=tensors)
    monkeypatch.setattr(passages, "state", lambda: damaged_state)
    save(passages, tmp_path / "index")  # with fresh checksums

    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "index").search("word1")


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "texts"
    path.write_text("a glass of red wine\nthe cat slept\na glass of wine\n")
    return path


@pytest.mark.slow
def test_the_search_command_finds_texts_of_the_index_command(text_file, tmp_path):
    folder = tmp_path / "index"
    invoke("index", "english", text_file, "-o", folder, status=0)

    output = invoke("search", folder, "a sleeping kitten", "-k", "1", status=0).stdout

    assert output.split("\t")[1:] == ["1", "the cat slept\n"]


@pytest.mark.slow
def test_the_embed_command_compares_pairs(text_file):
    output = invoke("embed", "english", text_file, "--pairs", text_file, status=0).stdout

    cosines = [float(cosine) for cosine in output.split()]
    assert cosines == pytest.approx([1, 1, 1], abs=1e-3)
