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
    """The sentence vectors of the method SIF-sum in English."""
    method = make_encoder("SIF-sum", "english", on_empty="ignore")
    return method.fit([])


def ids_of(hits):
    return [hit.id for hit in hits]


def texts_of(hits):
    return [hit.text for hit in hits]


def scores_of(hits):
    return [hit.score for hit in hits]


def without_scores(hits):
    return [hit._replace(score=0) for hit in hits]


def best_hit(index, query, **options):
    return index.search(query, k=1, **options)[0]


def bm25_by_hand(texts, query):
    """BM25 in the plainest way: Lucene's idf, k1 = 1.5, b = 0.75."""
    n_texts = len(texts)
    tokens_of_texts = [words_of(text) for text in texts]
    mean_length = np.mean([len(tokens) for tokens in tokens_of_texts])
    scores = np.zeros(n_texts)

    for word in words_of(query):
        n_with = sum(word in tokens for tokens in tokens_of_texts)
        idf = np.log(1 + (n_texts - n_with + 0.5) / (n_with + 0.5))
        for row, tokens in enumerate(tokens_of_texts):
            count = tokens.count(word)
            relative_length = len(tokens) / mean_length
            scores[row] += idf * count / (count + 1.5 * (0.25 + 0.75 * relative_length))
    return scores


def words_of(text):
    return re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+(?:'\w+)*", text.lower())


def bm25_scores(texts, query, deleted=NOTHING_DELETED):
    postings = lexical.Postings.of(texts)
    bm25 = lexical.BM25([postings], deleted)
    return bm25.scores(bm25.words(query))


BM25_QUERIES = ["the cat", "error E1735 error", "東京 café", "zzz", ""]


@pytest.mark.parametrize("query", BM25_QUERIES)
def test_bm25_is_the_formula(query):
    scores = bm25_scores(TEXTS, query)

    np.testing.assert_allclose(scores, bm25_by_hand(TEXTS, query), rtol=2e-6)


@pytest.mark.parametrize("query", BM25_QUERIES)
def test_deleted_texts_count_for_nothing_in_bm25(query):
    is_deleted = np.arange(7) % 3 == 0
    kept = np.flatnonzero(~is_deleted)
    kept_texts = [TEXTS[row] for row in kept]

    scores = bm25_scores(TEXTS, query, is_deleted)

    expected = bm25_by_hand(kept_texts, query)
    np.testing.assert_allclose(scores[kept], expected, rtol=2e-6)


class RandomTexts:
    """Draws texts of words "w0", "w1", ...; the first ones are the most frequent."""

    def __init__(self, rng):
        self.rng = rng
        self.n_words = rng.choice([3, 30, 1000])

    def draw(self, length):
        numbers = self.n_words * self.rng.random(length) ** 3
        return " ".join(f"w{int(number)}" for number in numbers)

    def draw_block(self, size):
        lengths = self.rng.integers(0, 15, size)
        texts = [self.draw(length) for length in lengths]
        return lexical.Postings.of(texts)


def best_of_all_scores(scores, k):
    """The rows of the k highest scores above zero; equal scores are in the order of the texts."""
    rows = np.argsort(-scores, kind="stable")[:k]
    return rows[scores[rows] > 0]


@pytest.mark.parametrize("seed", range(12))
def test_the_best_by_bm25_are_those_of_all_scores(seed):
    """Random texts in several blocks, some deleted."""
    rng = np.random.default_rng(seed)
    random_texts = RandomTexts(rng)
    sizes = [int(rng.integers(1, 30)), int(rng.integers(1, 12_000)), 300]
    blocks = [random_texts.draw_block(size) for size in sizes]
    is_deleted = rng.random(sum(sizes)) < rng.choice([0.0, 0.3])
    bm25 = lexical.BM25(blocks, is_deleted)

    for n_query_words, k in itertools.product((1, 3, 40), (1, 10, 500)):
        query = bm25.words(random_texts.draw(n_query_words) + " absent")
        is_filtered = rng.random(is_deleted.size) < rng.choice([0.0, 0.9])
        is_excluded = is_deleted | is_filtered

        rows, scores = bm25.best(query, k, is_excluded)

        all_scores = np.where(is_excluded, 0, bm25.scores(query))
        expected = best_of_all_scores(all_scores, k)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(scores, all_scores[expected])


PRINTERS = ["The printer and the printer."] * 300


@pytest.fixture
def by_words_alone(encoder):
    """An index of the seven texts without the first, and 300 equal ones."""
    index = Index(encoder, lexical=1.0)
    index.add(TEXTS)
    index.delete([0])
    index.add(PRINTERS)
    return index


def test_an_index_by_words_alone_returns_bm25_of_the_texts_that_share_words(by_words_alone):
    query = "the printer's paper"

    hits = by_words_alone.search(query, k=400)

    is_deleted = np.arange(307) == 0
    scores = bm25_scores([*TEXTS, *PRINTERS], query, is_deleted)
    expected = best_of_all_scores(scores, 400)
    assert len(hits) == 304
    np.testing.assert_array_equal(ids_of(hits), expected)
    np.testing.assert_array_equal(scores_of(hits), scores[expected])


def test_equal_scores_by_words_are_in_the_order_of_the_texts(by_words_alone):
    hits = by_words_alone.search("printer", k=2)

    assert ids_of(hits) == [7, 8]


FEW_TEXTS = ["The year", "Red tomatoes", "Sea shanties", "Old maps", "Two violins"]


def index_few_texts():
    index = Index("english", "exact", lexical=1.0)
    index.add(FEW_TEXTS)
    return index


@pytest.fixture(scope="module")
def few_texts():
    """An index of five texts; both "the" and "tomatoes" are in one of them."""
    return index_few_texts()


@pytest.fixture(scope="module")
def background(few_texts):
    """How frequent words are in usual text, of the vocabulary of the five texts' index."""
    ranking = few_texts._ranking(few_texts._snapshot)
    return ranking.background


def test_among_few_texts_both_words_are_equally_rare():
    year, tomatoes, *_ = bm25_scores(FEW_TEXTS, "the tomatoes")

    assert year == tomatoes > 0


def test_of_few_texts_the_vocabulary_says_how_rare_a_word_is(few_texts):
    hits = few_texts.search("the tomatoes", 2)

    assert texts_of(hits) == ["Red tomatoes", "The year"]


def test_frequencies_of_the_vocabulary_are_those_of_its_counts(background):
    hashes = word_hashes(["the", "tomatoes"])
    unknown = np.uint64(0)

    frequencies = background.frequencies_of(np.append(hashes, unknown))

    assert frequencies == pytest.approx([0.064, 0.0, 0.0], abs=1e-4)
    assert frequencies[1] > frequencies[2] == 0


def test_the_vocabulary_does_not_cover_texts_of_another_language(background):
    german = lexical.Postings.of(["Der Preis der Milch stieg", "Reife Tomaten", "Alte Landkarten"])
    n_texts_with = np.diff(german.ends)

    assert not background.covers(german.hashes, n_texts_with)


def test_from_300_texts_on_their_own_counts_say_how_rare_a_word_is():
    added = [f"{word} {number}" for number in range(100) for word in ("violin", "map", "sea")]
    index = index_few_texts()
    index.add(added)
    snapshot = index._snapshot

    query = index._ranking(snapshot).query_words("the tomatoes")
    scores = snapshot.bm25.scores(query)

    expected = bm25_scores([*FEW_TEXTS, *added], "the tomatoes")
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.fixture
def index(encoder):
    """The seven texts, found by words and vectors."""
    index = Index(encoder, lexical=True)
    index.add(TEXTS)
    return index


@pytest.mark.parametrize(("query", "expected"), [("E1735", 2), ("東京", 6)])
def test_words_that_the_vectors_do_not_know_are_found(index, query, expected):
    hit = best_hit(index, query)

    assert hit.id == expected


@pytest.mark.parametrize("query", ["zzzqqq", ""])
def test_a_query_without_known_words_finds_nothing(index, query):
    assert index.search(query) == []


def test_an_article_does_not_decide_a_search(index):
    hit = best_hit(index, "a kitten sleeps")

    assert hit.id in (0, 3)


def test_a_hit_prints_its_number_its_score_and_its_text(index):
    hit = best_hit(index, "E1735")

    assert repr(hit).startswith(f"Hit(id=2, score={hit.score:.3f}, text=")


@pytest.mark.parametrize(("query", "hits"), [("the cat", []), (["the cat", "a"], [[], []])])
def test_an_empty_index_finds_nothing_for_one_and_for_several_queries(encoder, query, hits):
    index = Index(encoder, lexical=0.3)

    assert index.search(query) == hits


def test_the_score_is_the_standardised_sum(encoder):
    index = Index(encoder, lexical=0.3)
    index.add(TEXTS)
    snapshot = index._snapshot
    [query_vector] = index._encode(["the cat"])
    query_words = index._ranking(snapshot).query_words("the cat")

    hits = index.search("the cat", k=7)

    cosines = snapshot.blocks[0].vectors @ query_vector
    similarity = np.exp(3 * cosines)
    by_vectors = (similarity - similarity.mean()) / similarity.std()
    bm25 = snapshot.bm25.scores(query_words)
    deviation = max(bm25.std(), 0.1 * query_words.weights.sum())
    by_words = (bm25 - bm25.mean()) / deviation
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
    hits = dated.search("the cat", k=9, where={"year": year})

    assert set(ids_of(hits)) == ids


def test_the_number_one_is_not_true_in_a_filter(dated):
    of_true = dated.search("the cat", k=9, where={"new": True})
    of_one = dated.search("the cat", k=9, where={"new": 1})

    assert of_true != []
    assert of_one == []


def test_a_hit_has_the_metadata_of_its_text(dated):
    hit = best_hit(dated, "a cat", where={"kind": "a"})

    assert hit.metadata == {"year": YEARS[hit.id], "kind": "a"}


def test_an_updated_text_keeps_its_number_and_its_metadata(dated):
    dated.update([2, 0], ["The king spoke to the queen.", "A glass of wine."])

    assert len(dated) == 8
    assert dated.text(0) == "A glass of wine."
    assert dated.metadata(2) == {"year": 2022, "kind": "a"}


def test_an_updated_text_is_found_by_its_new_words(dated):
    dated.update([2, 0], ["The king spoke to the queen.", "A glass of wine."])

    hit = best_hit(dated, "a queen")

    assert hit.id == 2


def test_an_update_with_metadata_replaces_them(dated):
    dated.update([7], ["The dog barked again."], metadata=[{"year": 1}])

    hit = best_hit(dated, "dog", where={"year": 1})

    assert hit.text == "The dog barked again."


@pytest.fixture
def reopened(edited, tmp_path):
    """The edited index, saved and loaded."""
    folder = save(edited, tmp_path / "index")
    return load(folder)


def test_an_edited_index_finds_the_same_after_it_is_saved(edited, reopened):
    for query in QUERIES:
        hits = reopened.search(query, k=9)
        expected = edited.search(query, k=9)

        np.testing.assert_allclose(scores_of(hits), scores_of(expected), atol=1e-5)
        assert without_scores(hits) == without_scores(expected)


def test_an_index_that_was_saved_goes_on_with_its_numbers_and_metadata(reopened):
    ids = reopened.add(["more"])
    hit = best_hit(reopened, "dog", where={"year": 1})

    assert ids.tolist() == [8]
    assert hit.id == 7


def test_an_edited_index_ranks_as_a_new_one_with_its_texts(edited, encoder, settings):
    ids = [0, 2, 3, 4, 5, 6, 7]
    fresh = Index(encoder, **settings)
    fresh.add([edited.text(number) for number in ids])

    for query in QUERIES:
        found = texts_of(edited.search(query))
        assert found == texts_of(fresh.search(query))


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
    hits = two_columns.search("one two", where=where)

    assert ids_of(hits) == [1]


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


@pytest.fixture
def indexed_texts(faiss_index):
    """The texts of the index that the tests of faiss share."""
    [block] = faiss_index._snapshot.blocks
    return list(block.texts)


def search_with_words(encoder, engine, texts):
    """The hits of the first forty texts as queries."""
    index = Index(encoder, engine, lexical=True)
    index.add(texts)
    return index.search(texts[:40], k=5)


def test_lists_and_words_find_what_all_rows_find(faiss_index, indexed_texts):
    of_lists = search_with_words(faiss_index.encoder, "faiss", indexed_texts)
    of_all_rows = search_with_words(faiss_index.encoder, "exact", indexed_texts)

    n_common = 0
    for hits, exact_hits in zip(of_lists, of_all_rows):
        assert hits[0].id == exact_hits[0].id
        assert hits[0].score == pytest.approx(exact_hits[0].score, abs=1e-5)
        common = set(ids_of(hits)).intersection(ids_of(exact_hits))
        n_common += len(common)
    assert n_common > 0.7 * 200


def test_sentences_end_where_they_do():
    text = 'Mr. Fox ran. "Why?" he asked. It cost 3.50 dollars! 東京です。はい。 end'

    found = [text[start:end] for start, end in sentences(text)]

    assert found == [
        "Mr. Fox ran.",
        '"Why?" he asked.',
        "It cost 3.50 dollars!",
        "東京です。",
        "はい。",
        "end",
    ]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_text_without_words_has_no_sentences(text):
    assert sentences(text) == []


@pytest.fixture(scope="module")
def thirty_sentences():
    """A text of thirty sentences of 1 to 39 words."""
    rng = np.random.default_rng(0)
    text = ""
    for n_words in rng.integers(1, 40, 30):
        words = rng.choice(["cat", "wine", "bank", "tree"], n_words)
        text += " ".join(words) + ". "
    return text


def test_passages_contain_every_word_once(thirty_sentences):
    spans = split_passages(thirty_sentences, max_words=25)

    words = []
    for start, end in spans:
        words += thirty_sentences[start:end].split()
    assert words == thirty_sentences.split()


def test_passages_are_short(thirty_sentences):
    for start, end in split_passages(thirty_sentences, max_words=25):
        words = thirty_sentences[start:end].split()
        assert len(words) <= 25


def test_passages_do_not_overlap(thirty_sentences):
    spans = split_passages(thirty_sentences, max_words=25)

    for (_, end), (next_start, _) in itertools.pairwise(spans):
        assert end <= next_start


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
    hit = best_hit(passages, "kitten in the basket")

    start, end = hit.span
    assert hit.id == 0
    assert hit.metadata == {"n": 0}
    assert hit.text == LONG_TEXT[start:end]
    assert "kitten" in hit.text
    assert len(hit.text) < 1000


def test_a_text_of_many_passages_is_found_once(passages):
    hits = passages.search("budget", k=3)

    assert sorted(ids_of(hits)) == [0, 1, 2]


def test_rerank_orders_all_documents(encoder):
    hits = rerank("the printer burns, E1735", TEXTS, encoder)

    scores = scores_of(hits)
    assert hits[0].id == 2
    assert sorted(ids_of(hits)) == list(range(7))
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1


def test_rerank_keeps_the_order_of_documents_without_words_of_the_query(encoder):
    hits = rerank("zzzqqq", TEXTS, encoder, top_n=2)

    assert ids_of(hits) == [0, 1]


@pytest.mark.parametrize("documents", [["cat"], []])
def test_rerank_accepts_one_document_and_none(encoder, documents):
    hits = rerank("cat", documents, encoder)

    assert texts_of(hits) == documents


@pytest.mark.parametrize("top_n", [0, "a"])
def test_rerank_rejects_a_wrong_number_of_hits(encoder, top_n):
    with pytest.raises(ValueError, match="top_n must be"):
        rerank("cat", TEXTS, encoder, top_n=top_n)


def test_rerank_rejects_several_queries(encoder):
    with pytest.raises(TypeError, match="query must be a str"):
        rerank(["cat"], TEXTS, encoder)


@pytest.fixture(scope="module")
def book_texts():
    """Every sixtieth passage of the books."""
    passages = load_books()
    return [passage.text for passage in passages[::60]]


def words_of_groups(texts):
    """The words of five groups of texts."""
    groups = clusters(texts, 5, random_state=0).words
    words = []
    for group in groups:
        assert len(group) == 10
        words += group
    return words


def median_frequency(words):
    """How frequent these words are in usual text."""
    background = lexical.Background.of(load("english").vocabulary)
    frequencies = background.frequencies_of(word_hashes(words))
    return np.median(frequencies)


@pytest.fixture
def use_c_tf_idf_alone(monkeypatch):
    """A function after whose call the words of groups are not compared with usual text."""
    name = "pacsent.search.text_clusters._BACKGROUND_TOKENS"
    return lambda: monkeypatch.setattr(name, 0.0)


def test_common_words_name_no_group(book_texts, use_c_tf_idf_alone):
    with_background = words_of_groups(book_texts)
    use_c_tf_idf_alone()
    without_background = words_of_groups(book_texts)

    for word in with_background + without_background:
        assert "'" not in word
    assert median_frequency(without_background) > 4 * median_frequency(with_background)


def test_words_in_half_of_the_texts_name_a_group(use_c_tf_idf_alone):
    use_c_tf_idf_alone()
    films = [f"{words} film {number}" for number in range(20) for words in ("good sea", "bad war")]

    names = clusters(films, 2).names

    assert set(names) == {"sea, good", "war, bad"}


def test_groups_of_texts_of_another_language_have_words(use_c_tf_idf_alone):
    use_c_tf_idf_alone()
    german = ["der Hund bellt laut im Garten", "die Katze schläft leise im Haus"] * 3

    groups = clusters(german, 2).words

    assert all(groups)
