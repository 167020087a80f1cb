"""Words and vectors together: BM25, filters, metadata, updates, passages, saving, reranking."""

import itertools
import re

import numpy as np
import pytest
from test_index import made, many, words  # noqa: F401 - fixtures

from pacsent import Index, load, make_encoder, save
from pacsent.datasets import load_books as books
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


@pytest.fixture(scope="module")
def encoder():
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


def by_hand(texts, query):
    """BM25 in the plainest way: Lucene's idf, k1 = 1.5, b = 0.75."""
    tokens = [_words(text) for text in texts]
    mean = np.mean([len(t) for t in tokens])
    total = np.zeros(len(texts))
    for word in _words(query):
        n_with = sum(word in t for t in tokens)
        idf = np.log(1 + (len(texts) - n_with + 0.5) / (n_with + 0.5))
        for i, t in enumerate(tokens):
            c = t.count(word)
            total[i] += idf * c / (c + 1.5 * (0.25 + 0.75 * len(t) / mean))
    return total


def _words(text):
    return re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+(?:'\w+)*", text.lower())


NONE = np.empty(0, bool)


def scored(texts, query, deleted=NONE):
    bm25 = lexical.BM25([lexical.Postings.of(texts)], deleted)
    return bm25.scores(bm25.words(query))


@pytest.mark.parametrize("query", ["the cat", "error E1735 error", "東京 café", "zzz", ""])
def test_bm25_is_the_formula_and_deleted_texts_count_for_nothing(query):
    np.testing.assert_allclose(scored(TEXTS, query), by_hand(TEXTS, query), rtol=2e-6)
    deleted = np.arange(7) % 3 == 0
    left = [text for text, out in zip(TEXTS, deleted) if not out]
    np.testing.assert_allclose(
        scored(TEXTS, query, deleted)[~deleted], by_hand(left, query), rtol=2e-6
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_best_by_bm25_are_those_of_all_scores(seed):
    """Random texts in several blocks, some deleted; equal scores are in the order of the texts."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i}" for i in range(rng.choice([3, 30, 1000]))])

    def draw(n):
        return " ".join(vocabulary[(vocabulary.size * rng.random(n) ** 3).astype(int)])

    sizes = [int(rng.integers(1, 30)), int(rng.integers(1, 12_000)), 300]
    texts = [[draw(rng.integers(0, 15)) for _ in range(size)] for size in sizes]
    deleted = rng.random(sum(sizes)) < rng.choice([0.0, 0.3])
    bm25 = lexical.BM25(list(map(lexical.Postings.of, texts)), deleted)
    for n_words, k in itertools.product((1, 3, 40), (1, 10, 500)):
        query = bm25.words(draw(n_words) + " absent")
        filtered = deleted | (rng.random(deleted.size) < rng.choice([0.0, 0.9]))
        rows, scores = bm25.best(query, k, filtered)
        every = np.where(filtered, 0, bm25.scores(query))
        wanted = np.argsort(-every, kind="stable")[:k]
        wanted = wanted[every[wanted] > 0]
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(scores, every[wanted])


def test_an_index_by_words_alone_returns_bm25_of_the_texts_that_share_words(encoder):
    index = Index(encoder, lexical=1.0)
    index.add(TEXTS)
    index.delete([0])
    index.add(more := ["The printer and the printer."] * 300)
    wanted = scored([*TEXTS, *more], "the printer's paper", np.arange(307) == 0)
    hits = index.search("the printer's paper", k=400)
    order = np.argsort(-wanted, kind="stable")
    assert [hit.id for hit in hits] == order[wanted[order] > 0].tolist() and len(hits) == 304
    np.testing.assert_array_equal([hit.score for hit in hits], wanted[[hit.id for hit in hits]])
    assert [hit.id for hit in index.search("printer", k=2)] == [7, 8]


def test_of_few_texts_the_vocabulary_says_how_rare_a_word_is():
    texts = ["The year", "Red tomatoes", "Sea shanties", "Old maps", "Two violins"]
    index = Index("english", "exact", lexical=1.0)
    index.add(texts)
    query = "the tomatoes"  # in one text each
    plain = scored(texts, query)
    assert plain[0] == plain[1] > 0
    assert [hit.id for hit in index.search(query, 2)] == [1, 0]
    background = index._ranking(index._snapshot).background
    hashes = np.append(word_hashes(query.split()), np.uint64(0))
    p = background.frequencies_of(hashes)
    assert p == pytest.approx([0.064, 0.0, 0.0], abs=1e-4) and p[1] > p[2] == 0
    german = lexical.Postings.of(["Der Preis der Milch stieg", "Reife Tomaten", "Alte Landkarten"])
    counts = np.diff(german.ends)
    assert not background.covers(german.hashes, counts)
    more = [f"{word} {n}" for n in range(100) for word in ("violin", "map", "sea")]
    index.add(more)  # from 300 texts on they speak for themselves
    bm25 = index._snapshot.bm25.scores(index._ranking(index._snapshot).query_words(query))
    np.testing.assert_allclose(bm25, scored([*texts, *more], query), rtol=1e-6)


def test_words_that_the_vectors_do_not_know_are_found(encoder):
    index = Index(encoder, lexical=True)
    index.add(TEXTS)
    assert index.search("E1735", k=1)[0].id == 2
    assert index.search("東京", k=3)[0].id == 6
    hit = index.search("a kitten sleeps", k=1)[0]  # not decided by its article
    assert hit.id in (0, 3)
    start = f"Hit(id={hit.id}, score={hit.score:.3f}, text="
    assert repr(hit).startswith(start)
    assert index.search("zzzqqq") == [] and index.search("") == []


def test_the_score_is_the_standardised_sum(encoder):
    index = Index(encoder, lexical=0.3)
    assert index.search("the cat") == [] and index.search(["the cat", "a"]) == [[], []]
    index.add(TEXTS)
    X = index._snapshot.blocks[0].vectors
    [q] = index._encode(["the cat"])
    query = index._ranking(index._snapshot).query_words("the cat")
    a, b, total = X @ q, index._snapshot.bm25.scores(query), query.weights.sum()
    e = np.exp(3 * a)
    deviation = max(b.std(), 0.1 * total)
    wanted = 0.7 * (e - e.mean()) / e.std() + 0.3 * (b - b.mean()) / deviation
    hits = index.search("the cat", k=7)
    np.testing.assert_allclose([h.score for h in hits], wanted[[h.id for h in hits]], atol=1e-4)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


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


def test_what_metadata_and_filters_must_be(encoder):
    index = Index(encoder)
    for wrong, message in (
        ([{"a": 1}], "one entry for each of the 2 texts. Got 1"),
        ([{"a": [1]}, {}], "Got list in column 'a'"),
        ([3, 4], "list of mappings"),
        ({"a": [1]}, "Got 1 instead"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            index.add(["one", "two"], metadata=wrong)
    assert len(index) == 0
    index.add(["one", "two"], metadata={"a": [1, 2], "new": [True, False]})
    comparison = "comparison in where must be one of"
    for wrong, message in (
        ({"a": {"~": 1}}, comparison),
        ({"a": {}}, comparison),
        ({"a": {"!=": [1, 2]}}, "where must be texts, numbers, true or false. Got list in column"),
        ({"a": (i for i in [1])}, "Got generator in column 'a'"),
        ({"a": {">": "1"}}, "where must compare 'a' with a value of its type"),
        ({"b": 1}, "where: the metadata has no column 'b', only a, new."),
        ({3: 1}, "no column 3"),
        ([1], "where must be a mapping"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            index.search("one", where=wrong)
    for where in ({"a": range(2, 9)}, {"new": np.False_}, {"a": np.array([2])}, {"a": {"!=": 1}}):
        assert [hit.id for hit in index.search("one two", where=where)] == [1]
    for call, message in (
        (lambda: index.update([0, 0], ["a", "b"]), "one number for each of the 2 texts"),
        (lambda: index.update([9], ["a"]), "numbers of texts in the index. Got 9"),
        (lambda: Index(encoder, lexical=2), "lexical must be"),
        (lambda: Index(encoder, lexical=-1), "lexical must be"),
        (lambda: Index(encoder, lexical="yes"), "lexical must be"),
        (lambda: Index(encoder, chunk="pages"), "chunk must be True or False"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_lists_and_words_find_what_all_rows_find(many):  # noqa: F811 - a fixture
    texts, hits = list(many._snapshot.blocks[0].texts), []
    for engine in ("faiss", "exact"):
        index = Index(many.encoder, engine, lexical=True)
        index.add(texts)
        hits.append(index.search(texts[:40], k=5))
    for a, b in zip(*hits):
        assert a[0].id == b[0].id and a[0].score == pytest.approx(b[0].score, abs=1e-5)
    assert sum(len({h.id for h in a} & {h.id for h in b}) for a, b in zip(*hits)) > 0.7 * 200


def test_sentences_end_where_they_do():
    parts = ["Mr. Fox ran.", '"Why?" he asked.', "It cost 3.50 dollars!", "東京です。はい。", "end"]
    text = " ".join(parts)
    whole = [text[a:b] for a, b in sentences(text)]
    assert whole == [*parts[:3], "東京です。", "はい。", "end"]
    assert sentences("") == [] and sentences("  \n ") == []


def test_passages_hold_every_word_once_and_are_short():
    rng = np.random.default_rng(0)
    text = " ".join(
        " ".join(rng.choice(["cat", "wine", "bank", "tree"], rng.integers(1, 40))) + "."
        for _ in range(30)
    )
    spans = split_passages(text, max_words=25)
    assert all(len(text[a:b].split()) <= 25 for a, b in spans)
    assert " ".join(text[a:b] for a, b in spans).split() == text.split()
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_a_long_text_is_found_by_its_passage(encoder):
    filler = "The committee met again to discuss the budget of the town. " * 30
    texts = [filler + "A kitten slept in the basket. " + filler, filler, "Shares fell in London."]
    index = Index(encoder, lexical=True, chunk=True)
    index.add(texts, metadata=[{"n": i} for i in range(3)])
    hit = index.search("kitten in the basket", k=3)[0]
    assert hit.id == 0 and "kitten" in hit.text and len(hit.text) < 1000
    assert texts[0][slice(*hit.span)] == hit.text and hit.metadata == {"n": 0}
    assert len({h.id for h in index.search("budget", k=3)}) == 3  # each text once


def test_rerank_orders_all_documents(encoder):
    ranked = rerank("the printer burns, E1735", TEXTS, encoder)
    scores = [hit.score for hit in ranked]
    assert ranked[0].id == 2 and sorted(hit.id for hit in ranked) == list(range(7))
    assert scores == sorted(scores, reverse=True) and 0 <= scores[-1] <= scores[0] <= 1
    assert [hit.id for hit in rerank("zzzqqq", TEXTS, encoder, top_n=2)] == [0, 1]
    assert rerank("cat", ["cat"], encoder)[0].text == "cat"
    assert rerank("cat", [], encoder) == []
    for top_n in (0, "a"):
        with pytest.raises(ValueError, match="top_n must be"):
            rerank("cat", TEXTS, encoder, top_n=top_n)
    with pytest.raises(TypeError, match="query must be a str"):
        rerank(["cat"], TEXTS, encoder)


def test_common_words_name_no_group(monkeypatch):
    texts = [passage.text for passage in books()[::60]]
    background = lexical.Background.of(load("english").vocabulary)

    def usual():
        groups = clusters(texts, 5, random_state=0).words
        assert all(len(group) == 10 for group in groups)
        every = [word for group in groups for word in group]
        assert not any("'" in word for word in every)
        return np.median(background.frequencies_of(word_hashes(every)))

    with_background = usual()
    monkeypatch.setattr("pacsent.search.text_clusters._BACKGROUND_TOKENS", 0.0)  # c-tf-idf alone
    assert usual() > 4 * with_background
    films = [f"{w} film {n}" for n in range(20) for w in ("good sea", "bad war")]
    assert set(clusters(films, 2).names) == {"sea, good", "war, bad"}  # each in half of the texts
    german = ["der Hund bellt laut im Garten", "die Katze schläft leise im Haus"] * 3
    assert all(clusters(german, 2).words)  # of another language than the vocabulary
