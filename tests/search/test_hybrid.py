"""Words and vectors together: BM25, filters, metadata, updates, passages, saving, reranking."""

import itertools
import re

import numpy as np
import pytest

from pacsent import Index, load, make_encoder, save
from pacsent.datasets import load_books
from pacsent.search import clusters, lexical, rerank, split_passages
from pacsent.search.chunking import sentences
from pacsent.text.ngrams import word_hashes

TEXTS = [
    "The cat slept on the warm stone.",
    "Error E1734: the printer is out of paper.",
    "Error E1735: the printer is on fire!",
    "A kitten and a cat played with the cat's toy.",
    "Shares fell sharply after the announcement.",
    "Quiet hills in winter.",
    "Naïve Zürich café — 東京",
]
NOTHING_DELETED = np.empty(0, bool)


@pytest.fixture(scope="module")
def encoder():
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


def ids_of(hits):
    return [hit.id for hit in hits]


def scores_of(hits):
    return [hit.score for hit in hits]


def bm25_by_hand(texts, query):
    """BM25 in the plainest way: Lucene's idf, k1 = 1.5, b = 0.75."""
    tokens_of_texts = [_words(text) for text in texts]
    mean_length = np.mean([len(tokens) for tokens in tokens_of_texts])
    scores = np.zeros(len(texts))

    for word in _words(query):
        n_with = sum(word in tokens for tokens in tokens_of_texts)
        idf = np.log(1 + (len(texts) - n_with + 0.5) / (n_with + 0.5))
        for row, tokens in enumerate(tokens_of_texts):
            count = tokens.count(word)
            relative_length = len(tokens) / mean_length
            scores[row] += idf * count / (count + 1.5 * (0.25 + 0.75 * relative_length))
    return scores


def _words(text):
    return re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+(?:'\w+)*", text.lower())


def bm25_scores(texts, query, deleted=NOTHING_DELETED):
    postings = lexical.Postings.of(texts)
    bm25 = lexical.BM25([postings], deleted)
    return bm25.scores(bm25.words(query))


BM25_QUERIES = ["the cat", "error E1735 error", "東京 café", "zzz", ""]


@pytest.mark.parametrize("query", BM25_QUERIES)
def test_bm25_is_the_formula(query):
    expected = bm25_by_hand(TEXTS, query)
    np.testing.assert_allclose(bm25_scores(TEXTS, query), expected, rtol=2e-6)


@pytest.mark.parametrize("query", BM25_QUERIES)
def test_deleted_texts_count_for_nothing_in_bm25(query):
    deleted = np.arange(7) % 3 == 0
    kept_texts = [text for text, is_deleted in zip(TEXTS, deleted) if not is_deleted]

    scores = bm25_scores(TEXTS, query, deleted)

    np.testing.assert_allclose(scores[~deleted], bm25_by_hand(kept_texts, query), rtol=2e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_by_bm25_are_those_of_all_scores(seed):
    """Random texts in several blocks, some deleted; equal scores are in the order of the texts."""
    rng = np.random.default_rng(seed)
    n_words = rng.choice([3, 30, 1000])
    vocabulary = np.array([f"w{i}" for i in range(n_words)])

    def draw_text(length):
        words = (n_words * rng.random(length) ** 3).astype(int)
        return " ".join(vocabulary[words])

    block_sizes = [int(rng.integers(1, 30)), int(rng.integers(1, 12_000)), 300]
    blocks = []
    for size in block_sizes:
        texts = [draw_text(rng.integers(0, 15)) for _ in range(size)]
        blocks.append(lexical.Postings.of(texts))
    deleted = rng.random(sum(block_sizes)) < rng.choice([0.0, 0.3])
    bm25 = lexical.BM25(blocks, deleted)

    for n_query_words, k in itertools.product((1, 3, 40), (1, 10, 500)):
        query = bm25.words(draw_text(n_query_words) + " absent")
        excluded = deleted | (rng.random(deleted.size) < rng.choice([0.0, 0.9]))
        rows, scores = bm25.best(query, k, excluded)

        all_scores = np.where(excluded, 0, bm25.scores(query))
        best_rows = np.argsort(-all_scores, kind="stable")[:k]
        best_rows = best_rows[all_scores[best_rows] > 0]
        np.testing.assert_array_equal(rows, best_rows)
        np.testing.assert_array_equal(scores, all_scores[best_rows])


def test_an_index_by_words_alone_returns_bm25_of_the_texts_that_share_words(encoder):
    added = ["The printer and the printer."] * 300
    index = Index(encoder, lexical=1.0)
    index.add(TEXTS)
    index.delete([0])
    index.add(added)

    hits = index.search("the printer's paper", k=400)

    scores = bm25_scores([*TEXTS, *added], "the printer's paper", np.arange(307) == 0)
    order = np.argsort(-scores, kind="stable")
    assert len(hits) == 304
    assert ids_of(hits) == order[scores[order] > 0].tolist()
    np.testing.assert_array_equal(scores_of(hits), scores[ids_of(hits)])
    assert ids_of(index.search("printer", k=2)) == [7, 8]


FEW_TEXTS = ["The year", "Red tomatoes", "Sea shanties", "Old maps", "Two violins"]


@pytest.fixture
def few_texts():
    """Five texts; both "the" and "tomatoes" are in one of them."""
    index = Index("english", "exact", lexical=1.0)
    index.add(FEW_TEXTS)
    return index


def test_of_few_texts_the_vocabulary_says_how_rare_a_word_is(few_texts):
    year, tomatoes, *_ = bm25_scores(FEW_TEXTS, "the tomatoes")
    assert year == tomatoes > 0

    assert ids_of(few_texts.search("the tomatoes", 2)) == [1, 0]


def test_frequencies_of_the_vocabulary_are_those_of_its_counts(few_texts):
    background = few_texts._ranking(few_texts._snapshot).background
    hashes = np.append(word_hashes(["the", "tomatoes"]), np.uint64(0))

    frequencies = background.frequencies_of(hashes)

    assert frequencies == pytest.approx([0.064, 0.0, 0.0], abs=1e-4)
    assert frequencies[1] > frequencies[2] == 0


def test_the_vocabulary_does_not_cover_texts_of_another_language(few_texts):
    background = few_texts._ranking(few_texts._snapshot).background
    german = lexical.Postings.of(["Der Preis der Milch stieg", "Reife Tomaten", "Alte Landkarten"])
    assert not background.covers(german.hashes, np.diff(german.ends))


def test_from_300_texts_on_their_own_counts_say_how_rare_a_word_is(few_texts):
    added = [f"{word} {n}" for n in range(100) for word in ("violin", "map", "sea")]
    few_texts.add(added)

    query = few_texts._ranking(few_texts._snapshot).query_words("the tomatoes")
    scores = few_texts._snapshot.bm25.scores(query)

    expected = bm25_scores([*FEW_TEXTS, *added], "the tomatoes")
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.fixture
def index(encoder):
    """The seven texts, found by words and vectors."""
    index = Index(encoder, lexical=True)
    index.add(TEXTS)
    return index


def test_words_that_the_vectors_do_not_know_are_found(index):
    assert index.search("E1735", k=1)[0].id == 2
    assert index.search("東京", k=3)[0].id == 6
    assert index.search("zzzqqq") == []
    assert index.search("") == []


def test_an_article_does_not_decide_a_search(index):
    assert index.search("a kitten sleeps", k=1)[0].id in (0, 3)


def test_a_hit_prints_its_number_its_score_and_its_text(index):
    hit = index.search("E1735", k=1)[0]
    assert repr(hit).startswith(f"Hit(id=2, score={hit.score:.3f}, text=")


def test_an_empty_index_finds_nothing_for_one_and_for_several_queries(encoder):
    index = Index(encoder, lexical=0.3)

    assert index.search("the cat") == []
    assert index.search(["the cat", "a"]) == [[], []]


def test_the_score_is_the_standardised_sum(encoder):
    index = Index(encoder, lexical=0.3)
    index.add(TEXTS)

    hits = index.search("the cat", k=7)

    vectors = index._snapshot.blocks[0].vectors
    [query_vector] = index._encode(["the cat"])
    query = index._ranking(index._snapshot).query_words("the cat")
    bm25 = index._snapshot.bm25.scores(query)
    bm25_deviation = max(bm25.std(), 0.1 * query.weights.sum())
    similarity = np.exp(3 * (vectors @ query_vector))
    by_vectors = (similarity - similarity.mean()) / similarity.std()
    by_words = (bm25 - bm25.mean()) / bm25_deviation
    expected = 0.7 * by_vectors + 0.3 * by_words
    np.testing.assert_allclose(scores_of(hits), expected[ids_of(hits)], atol=1e-4)
    assert scores_of(hits) == sorted(scores_of(hits), reverse=True)


SETTINGS = [{"lexical": False}, {}, {"chunk": True}]
YEARS = [2020, 2021, 2022, 2023, None, 2021, 2020]


@pytest.fixture(params=SETTINGS, ids=["vectors", "both", "passages"])
def settings(request):
    """How an index searches: by vectors alone, by words too, and passage by passage."""
    return request.param


@pytest.fixture
def dated(encoder, settings):
    """Eight texts, added in three calls: seven of a year, None in text 4; the last has nothing.

    The first four have the column "kind", the next three the column "new".
    """
    index = Index(encoder, **settings)
    index.add(TEXTS[:4], metadata=[{"year": year, "kind": "a"} for year in YEARS[:4]])
    index.add(TEXTS[4:], metadata={"year": YEARS[4:], "new": [True, False, True]})
    index.add(["The dog barked."])
    return index


@pytest.fixture
def edited(dated):
    """The same texts after two updates and a deletion."""
    dated.update([2, 0], ["The king spoke to the queen.", "A glass of wine."])
    dated.update([7], ["The dog barked again."], metadata=[{"year": 1}])
    dated.delete([1])
    return dated


QUERIES = ["a queen", "printer on fire", "wine", "cat"]


@pytest.mark.parametrize(
    ("year", "ids"),
    [
        (2021, {1, 5}),
        ([2021, 2022], {1, 2, 5}),
        ({">": 2021, "<": 9999}, {2, 3}),
        (None, {4, 7}),
    ],
    ids=["a value", "several values", "comparisons", "no value"],
)
def test_a_filter_keeps_the_texts_whose_metadata_match(dated, year, ids):
    assert {hit.id for hit in dated.search("the cat", k=9, where={"year": year})} == ids


def test_the_number_one_is_not_true_in_a_filter(dated):
    assert dated.search("the cat", k=9, where={"new": True}) != []
    assert dated.search("the cat", k=9, where={"new": 1}) == []


def test_a_hit_has_the_metadata_of_its_text(dated):
    best = dated.search("a cat", k=1, where={"kind": "a"})[0]
    assert best.metadata == {"year": YEARS[best.id], "kind": "a"}


def test_an_updated_text_keeps_its_number_and_its_metadata(dated):
    dated.update([2, 0], ["The king spoke to the queen.", "A glass of wine."])

    assert len(dated) == 8
    assert dated.text(0) == "A glass of wine."
    assert dated.metadata(2) == {"year": 2022, "kind": "a"}


def test_an_updated_text_is_found_by_its_new_words(dated):
    dated.update([2, 0], ["The king spoke to the queen.", "A glass of wine."])
    assert dated.search("a queen", k=1)[0].id == 2


def test_an_update_with_metadata_replaces_them(dated):
    dated.update([7], ["The dog barked again."], metadata=[{"year": 1}])
    assert dated.search("dog", k=1, where={"year": 1})[0].text == "The dog barked again."


def test_an_edited_index_finds_the_same_after_it_is_saved(edited, tmp_path):
    opened = load(save(edited, tmp_path / "index"))

    for hits, expected in zip(opened.search(QUERIES, k=9), edited.search(QUERIES, k=9)):
        assert [(h.id, h.text, h[3:]) for h in hits] == [(h.id, h.text, h[3:]) for h in expected]
        np.testing.assert_allclose(
            [hit.score for hit in hits], [hit.score for hit in expected], atol=1e-5
        )


def test_an_index_that_was_saved_goes_on_with_its_numbers_and_metadata(edited, tmp_path):
    opened = load(save(edited, tmp_path / "index"))

    assert opened.add(["more"]).tolist() == [8]
    assert opened.search("dog", where={"year": 1})[0].id == 7


def test_an_edited_index_ranks_as_a_new_one_with_its_texts(edited, encoder, settings):
    fresh = Index(encoder, **settings)
    fresh.add([edited.text(i) for i in range(8) if i != 1])

    for query in QUERIES:
        found = [hit.text for hit in edited.search(query)]
        assert found == [hit.text for hit in fresh.search(query)]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([{"a": 1}], "one entry for each of the 2 texts. Got 1"),
        ([{"a": [1]}, {}], "Got list in column 'a'"),
        ([3, 4], "list of mappings"),
        ({"a": [1]}, "Got 1 instead"),
    ],
)
def test_metadata_that_do_not_fit_the_texts_are_rejected(encoder, metadata, message):
    index = Index(encoder)
    with pytest.raises((TypeError, ValueError), match=message):
        index.add(["one", "two"], metadata=metadata)
    assert len(index) == 0


@pytest.fixture
def two_columns(encoder):
    """Two texts with a number and a truth value."""
    index = Index(encoder)
    index.add(["one", "two"], metadata={"a": [1, 2], "new": [True, False]})
    return index


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"a": {"~": 1}}, "comparison in where must be one of"),
        ({"a": {}}, "comparison in where must be one of"),
        ({"a": {"!=": [1, 2]}}, "where must be texts, numbers, true or false. Got list in column"),
        ({"a": (i for i in [1])}, "Got generator in column 'a'"),
        ({"a": {">": "1"}}, "where must compare 'a' with a value of its type"),
        ({"b": 1}, "where: the metadata has no column 'b', only a, new."),
        ({3: 1}, "no column 3"),
        ([1], "where must be a mapping"),
    ],
)
def test_a_filter_without_a_meaning_is_rejected(two_columns, where, message):
    with pytest.raises((TypeError, ValueError), match=message):
        two_columns.search("one", where=where)


@pytest.mark.parametrize(
    "where", [{"a": range(2, 9)}, {"new": np.False_}, {"a": np.array([2])}, {"a": {"!=": 1}}]
)
def test_values_of_numpy_and_ranges_are_values_of_filters(two_columns, where):
    assert ids_of(two_columns.search("one two", where=where)) == [1]


def test_an_update_has_one_number_per_text(two_columns):
    with pytest.raises((TypeError, ValueError), match="one number for each of the 2 texts"):
        two_columns.update([0, 0], ["a", "b"])


def test_an_update_of_a_text_that_is_not_there_is_rejected(two_columns):
    with pytest.raises((TypeError, ValueError), match=r"numbers of texts in the index\. Got 9"):
        two_columns.update([9], ["a"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lexical": 2}, "lexical must be"),
        ({"lexical": -1}, "lexical must be"),
        ({"lexical": "yes"}, "lexical must be"),
        ({"chunk": "pages"}, "chunk must be True or False"),
    ],
)
def test_parameters_without_a_meaning_are_rejected(encoder, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Index(encoder, **parameters)


def test_lists_and_words_find_what_all_rows_find(faiss_index):
    texts = list(faiss_index._snapshot.blocks[0].texts)
    hits_of_engines = []
    for engine in ("faiss", "exact"):
        index = Index(faiss_index.encoder, engine, lexical=True)
        index.add(texts)
        hits_of_engines.append(index.search(texts[:40], k=5))

    n_common = 0
    for hits, exact_hits in zip(*hits_of_engines):
        assert hits[0].id == exact_hits[0].id
        assert hits[0].score == pytest.approx(exact_hits[0].score, abs=1e-5)
        n_common += len({*ids_of(hits)} & {*ids_of(exact_hits)})
    assert n_common > 0.7 * 200


def test_sentences_end_where_they_do():
    parts = ["Mr. Fox ran.", '"Why?" he asked.', "It cost 3.50 dollars!", "東京です。はい。", "end"]
    text = " ".join(parts)

    found = [text[start:end] for start, end in sentences(text)]

    assert found == [*parts[:3], "東京です。", "はい。", "end"]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_text_without_words_has_no_sentences(text):
    assert sentences(text) == []


def test_passages_contain_every_word_once_and_are_short():
    rng = np.random.default_rng(0)
    drawn_sentences = []
    for _ in range(30):
        words = rng.choice(["cat", "wine", "bank", "tree"], rng.integers(1, 40))
        drawn_sentences.append(" ".join(words) + ".")
    text = " ".join(drawn_sentences)

    spans = split_passages(text, max_words=25)

    passages = [text[start:end] for start, end in spans]
    assert all(len(passage.split()) <= 25 for passage in passages)
    assert " ".join(passages).split() == text.split()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


FILLER = "The committee met again to discuss the budget of the town. " * 30
LONG_TEXT = FILLER + "A kitten slept in the basket. " + FILLER


@pytest.fixture
def passages(encoder):
    """Two long texts and a short one, searched passage by passage."""
    index = Index(encoder, lexical=True, chunk=True)
    texts = [LONG_TEXT, FILLER, "Shares fell in London."]
    index.add(texts, metadata=[{"n": i} for i in range(3)])
    return index


def test_a_long_text_is_found_by_its_passage(passages):
    hit = passages.search("kitten in the basket", k=3)[0]

    start, end = hit.span
    assert hit.id == 0
    assert hit.metadata == {"n": 0}
    assert hit.text == LONG_TEXT[start:end]
    assert "kitten" in hit.text
    assert len(hit.text) < 1000


def test_a_text_of_many_passages_is_found_once(passages):
    hits = passages.search("budget", k=3)
    assert len({*ids_of(hits)}) == 3


def test_rerank_orders_all_documents(encoder):
    hits = rerank("the printer burns, E1735", TEXTS, encoder)

    scores = scores_of(hits)
    assert hits[0].id == 2
    assert sorted(ids_of(hits)) == list(range(7))
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1


def test_rerank_keeps_the_order_of_documents_without_words_of_the_query(encoder):
    assert ids_of(rerank("zzzqqq", TEXTS, encoder, top_n=2)) == [0, 1]


def test_rerank_accepts_one_document_and_none(encoder):
    assert rerank("cat", ["cat"], encoder)[0].text == "cat"
    assert rerank("cat", [], encoder) == []


@pytest.mark.parametrize("top_n", [0, "a"])
def test_rerank_rejects_a_wrong_number_of_hits(encoder, top_n):
    with pytest.raises(ValueError, match="top_n must be"):
        rerank("cat", TEXTS, encoder, top_n=top_n)


def test_rerank_rejects_several_queries(encoder):
    with pytest.raises(TypeError, match="query must be a str"):
        rerank(["cat"], TEXTS, encoder)


def median_frequency_of_group_words(texts, background):
    """How frequent the words of groups of texts are in usual text."""
    groups = clusters(texts, 5, random_state=0).words
    assert all(len(group) == 10 for group in groups)
    words = list(itertools.chain.from_iterable(groups))
    assert not any("'" in word for word in words)
    return np.median(background.frequencies_of(word_hashes(words)))


@pytest.fixture
def use_c_tf_idf_alone(monkeypatch):
    """A function after whose call the words of groups are not compared with usual text."""
    name = "pacsent.search.text_clusters._BACKGROUND_TOKENS"
    return lambda: monkeypatch.setattr(name, 0.0)


def test_common_words_name_no_group(use_c_tf_idf_alone):
    texts = [passage.text for passage in load_books()[::60]]
    background = lexical.Background.of(load("english").vocabulary)

    with_background = median_frequency_of_group_words(texts, background)
    use_c_tf_idf_alone()
    without_background = median_frequency_of_group_words(texts, background)

    assert without_background > 4 * with_background


def test_words_in_half_of_the_texts_name_a_group(use_c_tf_idf_alone):
    use_c_tf_idf_alone()
    films = [f"{words} film {n}" for n in range(20) for words in ("good sea", "bad war")]

    assert set(clusters(films, 2).names) == {"sea, good", "war, bad"}


def test_groups_of_texts_of_another_language_have_words(use_c_tf_idf_alone):
    use_c_tf_idf_alone()
    german = ["der Hund bellt laut im Garten", "die Katze schläft leise im Haus"] * 3

    assert all(clusters(german, 2).words)
