"""Vocabulary and Corpus: exact against plain Python, the same on any number of threads."""

import gzip
import itertools
import pickle
import threading
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacsent import Corpus, SkipGram, Vocabulary
from pacsent.text.cleaning import clean_files
from pacsent.text.encoded import LowCoverageWarning
from pacsent.text.normalize import tokenise_paper, tokenise_unicode
from pacsent.words import text_encoding
from pacsent.words.text_encoding import warn_low_coverage
from pacsent.words.word_table import WordTable
from reference.text_reference import count_dropped

WORDS = [
    "film", "good", "quiet", "nil", "zero", "six", "a", "incomprehensible", "abcdefghijkl",
    "abcdefghijklm", "abcdefghijklmn", "Film", "café", "don't", "1,000", "日本", "\udce9", "ab",
]  # fmt: skip

awkward = st.text(
    st.one_of(
        st.sampled_from("abcABCZz09 \n\r\0\t?'.,é日Kſ\ud800" + "\U0001f600"), st.characters()
    ),
    max_size=40,
)
texts = st.lists(
    st.one_of(awkward, st.lists(st.sampled_from(WORDS + ["6", "-", " "])).map("".join)), max_size=6
)


def by_dict(vocabulary, sentences, tokenise):
    """ids, offsets and numbers of unknown tokens, the slow way."""
    index = {word: i for i, word in enumerate(vocabulary.words)}
    ids = []
    offsets = [0]
    n_unknown = []
    for sentence in sentences:
        is_text = isinstance(sentence, str)
        tokens = tokenise(sentence) if is_text else sentence
        known_ids = [index[token] for token in tokens if token in index]
        n_dropped = count_dropped(sentence) if is_text and tokenise is tokenise_paper else 0

        ids += known_ids
        offsets.append(len(ids))
        n_unknown.append(len(tokens) - len(known_ids) + n_dropped)
    return ids, offsets, n_unknown


def check(encoded, expected):
    assert encoded.ids.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert [array.tolist() for array in encoded] == [list(values) for values in expected]


@given(texts)
@example(["FILM6film", "\u212a", "film\nfilm", "", "incomprehensible6Incomprehensibles"])
@example(["x" * 5000, "ab" * 1024 + " ab", "0123456789" * 500])
def test_the_compiled_tokeniser_equals_the_reference(sentences):
    vocabulary = Vocabulary(WORDS)
    check(vocabulary.encode(sentences), by_dict(vocabulary, sentences, tokenise_paper))


@given(texts, st.lists(st.lists(st.sampled_from(WORDS)), max_size=3))
def test_unicode_text_and_token_lists_may_be_mixed(sentences, lists):
    vocabulary = Vocabulary(WORDS, normalize="unicode")
    mixed = [*sentences, *lists, *sentences]
    check(vocabulary.encode(mixed), by_dict(vocabulary, mixed, tokenise_unicode))


@settings(max_examples=200)
@given(st.lists(st.text("aZ09_'., -\n", max_size=20), min_size=1, max_size=4))
def test_the_compiled_unicode_tokeniser_equals_the_reference(sentences):
    tokens = [tokenise_unicode(sentence) for sentence in sentences]
    words = sorted({token for sentence in tokens for token in sentence})
    table = WordTable(words)
    ids, ends = text_encoding.unicode_ids(sentences, table.ids_of)

    assert [words[i] for i in ids] == list(itertools.chain.from_iterable(tokens))
    assert ends.tolist() == np.cumsum([len(sentence) for sentence in tokens]).tolist()


def draw_sentences(rng):
    """Words without spaces between them as well as with, and a list of tokens among the texts."""
    parts = np.array([*WORDS[:-2], " ", " ", "\n", "7", "é"], dtype=object)
    lengths = rng.integers(0, 60, size=400)
    sentences = ["".join(rng.choice(parts, size=length)) for length in lengths]
    sentences[7] = ["film", "Film"]
    return sentences


def test_threads_and_batches_change_nothing(rng, monkeypatch):
    vocabulary = Vocabulary(WORDS)
    sentences = draw_sentences(rng)
    expected = by_dict(vocabulary, sentences, tokenise_paper)
    check(vocabulary.encode(sentences, n_jobs=1), expected)

    monkeypatch.setattr(text_encoding, "_BATCH_CHARACTERS", 300)

    for n_jobs in (1, 3):
        check(vocabulary.encode(iter(sentences), n_jobs=n_jobs), expected)


def test_no_sentences_are_encoded_as_no_ids():
    encoded = Vocabulary(WORDS).encode([])

    check(encoded, ([], [0], []))
    assert np.isnan(encoded.coverage)


def assert_same_vocabulary(actual, expected):
    assert actual.words == expected.words
    assert actual.index == expected.index
    assert actual.counts.tolist() == expected.counts.tolist()
    assert actual.normalize == actual.normalize_name == expected.normalize
    assert actual.digest([["a"], []]) == expected.digest([["a"], []])


def assert_finds(vocabulary, words):
    """It finds these words in their order, and no other."""
    assert [vocabulary.id_of(word) for word in words] == list(range(len(words)))
    assert vocabulary.id_of("no such word") == -1
    assert "no such word" not in vocabulary


@pytest.fixture(params=[0, 1, len(WORDS), 1000], ids="{} words".format)
def words(request):
    if request.param == len(WORDS):
        return WORDS
    return ["a"] if request.param == 1 else [f"w{i}" for i in range(request.param)]


@pytest.fixture
def vocabulary(words):
    """A vocabulary with counts whose arrays are not made yet."""
    counts = np.arange(len(words))[::-1]
    return Vocabulary(words, counts, normalize="unicode")


def test_a_vocabulary_goes_through_arrays(words, vocabulary):
    arrays = vocabulary.arrays()
    assert set(arrays) == {"word_bytes", "word_offsets", "hash_table", "counts"}

    again = Vocabulary.from_arrays(arrays, "unicode")

    assert_finds(again, words)
    assert_same_vocabulary(again, vocabulary)


@pytest.mark.parametrize("has_arrays", [False, True])
def test_a_vocabulary_goes_through_pickle(words, vocabulary, has_arrays):
    if has_arrays:
        vocabulary.arrays()

    again = pickle.loads(pickle.dumps(vocabulary))

    assert_finds(again, words)
    assert_same_vocabulary(again, vocabulary)


def test_the_hash_table_is_made_again_from_the_words(vocabulary):
    arrays = vocabulary.arrays()
    words_alone = {name: arrays[name] for name in ("word_bytes", "word_offsets")}

    rebuilt = Vocabulary.from_arrays(words_alone)

    assert np.array_equal(rebuilt.arrays()["hash_table"], arrays["hash_table"])


def test_a_vocabulary_is_opened_without_decoding_its_words(tmp_path):
    vocabulary = Vocabulary([f"word{i}" for i in range(30_000)])
    for name, array in vocabulary.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    arrays = {p.stem: np.load(p, mmap_mode="r") for p in tmp_path.glob("*.npy")}
    opened = Vocabulary.from_arrays(arrays)

    assert opened.id_of("word7777") == 7777
    assert not {"words", "index"} & set(vars(opened.table))  # nothing was decoded


FOUR_WORDS = ["film", "good", "quiet", "nil"]


def test_counting_sums_repeated_words(tiny_corpus):
    counts = Vocabulary(FOUR_WORDS).count(tiny_corpus)

    expected = []
    for sentence in tiny_corpus:
        counter = Counter(tokenise_paper(sentence))
        expected.append([counter[word] for word in FOUR_WORDS])
    assert counts.toarray().tolist() == expected
    assert counts.has_sorted_indices
    assert counts.dtype == np.float64


def test_counts_have_the_type_that_is_asked_for(tiny_corpus):
    assert Vocabulary(FOUR_WORDS).count(tiny_corpus, dtype=np.int32).dtype == np.int32


def test_counting_leaves_the_ids_alone(tiny_corpus):
    vocabulary = Vocabulary(FOUR_WORDS)
    encoded = vocabulary.encode(tiny_corpus)
    ids_before = encoded.ids.copy()

    counts = vocabulary.count(encoded)

    assert np.array_equal(encoded.ids, ids_before)
    assert (counts != vocabulary.count(tiny_corpus)).nnz == 0


def test_the_same_text_has_the_same_digest():
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.digest(["a b", "b"]) == vocabulary.digest(["A, b!", ["b"]])
    assert vocabulary.digest(["a b", "b"]) != vocabulary.digest(["a b b"])
    assert vocabulary.digest(["a"]) != Vocabulary(["c", "b"]).digest(["c"])


@pytest.mark.parametrize(
    ("words", "normalize", "text", "message"),
    [
        (["The", ",", "film"], "paper", "nothing here, film", r"Only 33% of these 3 .*'The'; cas"),
        (["film", "good"], "paper", "ein ruhiger film", "another language"),
        (["Film", "good"], "unicode", "a Film", "'Film'"),
    ],
)
def test_low_coverage_is_reported_with_its_cause(words, normalize, text, message):
    vocabulary = Vocabulary(words, normalize=normalize)
    encoded = vocabulary.encode([text])
    n_unknown = int(encoded.n_unknown.sum())

    with pytest.warns(LowCoverageWarning, match=message):
        warn_low_coverage(vocabulary, encoded.ids.size, n_unknown)


@pytest.mark.parametrize(("n_known", "n_unknown"), [(2, 1), (0, 0)])
def test_usual_coverage_is_not_reported(n_known, n_unknown):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_low_coverage(Vocabulary(FOUR_WORDS), n_known, n_unknown)


def encode(texts, **options):
    return Vocabulary(["a"]).encode(texts, **options)


def from_arrays(**changes):
    return Vocabulary.from_arrays(Vocabulary(["a", "b"]).arrays() | changes)


TABLE = np.array([["a", "b"], ["c", "d"]])
TWICE = {"word_bytes": np.frombuffer(b"aba", np.uint8), "word_offsets": np.arange(4)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: encode("a quiet film"),
            ValueError,
            "Got the single string 'a quiet film' instead",
        ),
        (lambda: encode(TABLE), TypeError, r"of shape \(2, 2\) instead"),
        (lambda: encode(3), TypeError, "Got int '3' instead"),
        (lambda: encode(["a"], n_jobs=0), ValueError, "Got 0 instead"),
        (lambda: encode(["a"], n_jobs=1.5), ValueError, "Got 1.5 instead"),
        (lambda: Vocabulary(["a", "b", "a"]), ValueError, "Got 'a' at 0 and at 2"),
        (lambda: Vocabulary(["a", 3]), TypeError, r"words must be str. Got 3 instead"),
        (lambda: Vocabulary(["a", "b"], [1]), ValueError, r"of the 2 words. Got .* shape \(1,\)"),
        (lambda: Vocabulary(["a"], normalize="latin"), ValueError, "Got 'latin' instead"),
        (lambda: Vocabulary(["a"]).n_tokens, ValueError, "needs word counts"),
        (lambda: Vocabulary.from_arrays(TWICE).arrays(), ValueError, "Got 'a' a second time at 2"),
        (lambda: from_arrays(word_offsets=np.arange(0, 5, 4)), ValueError, "must go from 0"),
        (
            lambda: from_arrays(hash_table=np.zeros((3, 2))),
            ValueError,
            r"Got shape \(3, 2\) instead",
        ),
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("sentence", [None, 3, b"bytes", ["a", 3], {"a": 1}], ids=repr)
def test_a_sentence_is_a_string_or_a_list_of_strings(sentence):
    with pytest.raises(TypeError, match="A sentence must be a str or a list of str"):
        encode(["a", sentence])


@pytest.mark.parametrize("words", ["film", {"a", "b"}, {"a": 1}, b"ab", TABLE])
def test_words_are_an_iterable_of_texts(words):
    with pytest.raises((TypeError, ValueError), match="words must be an iterable of texts"):
        Vocabulary(words)


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf"), 0.5, "many", None, True])
def test_counts_are_whole_numbers(count):
    with pytest.raises(ValueError, match=r"counts must be whole numbers.*Got .* instead"):
        Vocabulary(["a", "b"], [count, count])


@pytest.fixture
def arrays():
    """Copies of the arrays of three words."""
    vocabulary = Vocabulary(["a", "b", "incomprehensible"])
    return {name: array.copy() for name, array in vocabulary.arrays().items()}


def test_a_hash_table_with_ids_of_no_words_is_rejected(arrays):
    arrays["hash_table"][:, 1] = 77

    with pytest.raises(ValueError, match=r"arrays that do not fit|must not fall"):
        Vocabulary.from_arrays(arrays).encode(["incomprehensible"] * 1000)


def test_offsets_that_fall_are_rejected(arrays):
    arrays["word_offsets"][1:3] = [9, 4]

    with pytest.raises(ValueError, match=r"arrays that do not fit|must not fall"):
        Vocabulary.from_arrays(arrays).encode(["incomprehensible"] * 1000)


def count_words(documents, min_count, tokenise):
    """Words in the order of a corpus, frequent ones first, and how often each occurs."""
    counts = Counter()
    for document in documents:
        counts.update(tokenise(document) if isinstance(document, str) else document)

    def frequent_first(word):
        return -counts[word], word.encode("utf-8", "surrogatepass")

    kept = [word for word, n in counts.items() if n >= min_count]
    return {word: counts[word] for word in sorted(kept, key=frequent_first)}


def check_corpus(corpus, documents, min_count, tokenise=tokenise_paper):
    counts = count_words(documents, min_count, tokenise)
    assert corpus.vocabulary.words == list(counts)
    assert corpus.vocabulary.counts.tolist() == list(counts.values())

    token_lists = [tokenise(d) if isinstance(d, str) else d for d in documents]
    ids, offsets, _ = by_dict(corpus.vocabulary, token_lists, tokenise)
    n_tokens = sum(map(len, token_lists))
    assert corpus.ids.tolist() == ids
    assert corpus.offsets.tolist() == offsets
    assert corpus.n_tokens == len(ids)
    assert corpus.n_unknown == n_tokens - len(ids)
    assert corpus.n_documents == len(documents)
    assert corpus.digest == corpus.vocabulary.digest(documents)


TOKENISERS = {"paper": tokenise_paper, "unicode": tokenise_unicode}


@settings(max_examples=40)
@given(texts, st.sampled_from(["paper", "unicode"]), st.sampled_from([1, 3]))
def test_a_corpus_of_texts_is_exact(tmp_path_factory, documents, normalize, n_jobs):
    documents = ["film", *documents]
    folder = tmp_path_factory.mktemp("corpus") / "corpus"

    corpus = Corpus.build(documents, folder, min_count=1, normalize=normalize, n_jobs=n_jobs)

    check_corpus(corpus, documents, 1, TOKENISERS[normalize])


@pytest.fixture(scope="module")
def lines():
    """Lines that cross the borders of the pieces in which files are read."""
    rng = np.random.default_rng(0)
    words = np.array([*WORDS[:-2], "wide\u00e9", "7", "rare"], dtype=object)
    lengths = rng.integers(0, 30, size=300)
    lines = [" ".join(rng.choice(words, size=length)) for length in lengths]
    lines[5] = ""
    lines[11] = " ".join(rng.choice(words, size=3000))  # longer than any piece below
    lines[12:14] = ["x" * 100 + "Y" * 100] * 2  # a word longer than a piece
    return lines


@pytest.fixture
def files(tmp_path, lines):
    """A file and a compressed one, with two kinds of line ends and without one at the end."""
    plain = tmp_path / "a.txt"
    plain.write_text("\n".join(lines[:150]) + "\n", encoding="utf-8")
    compressed = tmp_path / "b.gz"
    with gzip.open(compressed, "wt", encoding="utf-8", newline="") as file:
        file.write("\r\n".join(lines[150:]))
    return [plain, compressed]


@pytest.mark.parametrize("normalize", ["paper", "unicode", str.split])
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("piece_size", [64, 1000, 1 << 20])
def test_a_corpus_of_files_is_exact_for_all_sizes(
    tmp_path, files, lines, normalize, n_jobs, piece_size, monkeypatch
):
    monkeypatch.setattr("pacsent.words.text_source._CHUNK_BYTES", piece_size)

    corpus = Corpus.build(files, tmp_path / "corpus", 2, normalize, n_jobs=n_jobs)

    check_corpus(corpus, lines, 2, TOKENISERS.get(normalize, normalize))


def test_building_a_corpus_leaves_no_thread_and_no_other_file(tmp_path, files, monkeypatch):
    monkeypatch.setattr("pacsent.words.text_source._CHUNK_BYTES", 1000)
    n_threads = threading.active_count()
    folder = tmp_path / "corpus"

    for _ in range(2):
        Corpus.build(files, folder, 2, n_jobs=3, overwrite=True)

    assert threading.active_count() == n_threads
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["corpus.json", "ids.i32", "offsets.i64", "vocabulary.tsv"]
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.gz", "corpus"}


ODD_WORDS = ["", " ", "a\tb", "\r", "\x85", "\u2028", "\udce9", "x" * 300]


@pytest.fixture
def built(tmp_path):
    """A corpus of two lists of odd words; the words that occur once are not kept."""
    documents = [["b", *ODD_WORDS, "a"], ODD_WORDS]
    return Corpus.build(documents, tmp_path / "corpus", min_count=2)


def test_a_corpus_opens_with_its_ids_and_words(built, tmp_path):
    opened = Corpus.open(tmp_path / "corpus")

    assert isinstance(opened.ids, np.memmap)
    assert set(opened.vocabulary.words) == set(ODD_WORDS)
    assert opened.vocabulary.normalize == "paper"
    assert opened.ids.tolist() == built.ids.tolist()
    assert opened.ids.tolist() == 2 * opened.vocabulary.encode([ODD_WORDS]).ids.tolist()
    assert opened.offsets.tolist() == [0, 8, 16]


def test_a_corpus_opens_with_its_counts(built, tmp_path):
    opened = Corpus.open(tmp_path / "corpus")

    assert opened.digest == built.digest
    assert opened.n_tokens == 16
    assert opened.n_unknown == 2
    assert opened.min_count == 2
    assert "n_unknown=2" in repr(opened)


def test_a_function_tokenises_as_it_likes_and_is_not_saved_with_a_corpus(tmp_path):
    built = Corpus.build(["A b", "A"], tmp_path / "corpus", 1, normalize=str.split)
    assert built.vocabulary.encode(["A a"]).ids.tolist() == [0]
    assert built.vocabulary.normalize_name is None

    opened = Corpus.open(tmp_path / "corpus")
    assert opened.ids.tolist() == [0, 1, 0]

    with pytest.raises(ValueError, match="a function, which a file cannot hold"):
        opened.vocabulary.encode(["A"])


@pytest.fixture
def corpus_of_b(tmp_path, monkeypatch):
    """The folder of a corpus of one word, among files of which none is a corpus."""
    monkeypatch.setattr("pacsent.words.text_source._CHUNK_BYTES", 8)
    (tmp_path / "latin.txt").write_bytes(b"first line\nsecond caf\xe9 x\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("ten years")
    Corpus.build(["b"], tmp_path / "corpus", 1)
    return tmp_path / "corpus"


def test_a_corpus_is_replaced_if_overwrite_is_true(corpus_of_b):
    corpus = Corpus.build(["a"], corpus_of_b, 1, overwrite=True)
    assert corpus.vocabulary.words == ["a"]


def test_a_corpus_is_not_replaced_by_default(corpus_of_b):
    with pytest.raises((ValueError, OSError), match=r"corpus exists.*overwrite=True"):
        Corpus.build(["a"], corpus_of_b, 1)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a b c"], {"min_count": 5}, "No word occurs at least min_count=5 times in these 3 tok"),
        (["a"], {"min_count": 0}, "at least 1. Got 0 instead"),
        (["a"], {"min_count": 1.5}, "at least 1. Got 1.5 instead"),
        (["a"], {"min_count": "5"}, "at least 1. Got '5' instead"),
        ([["a\nb"]], {}, r"without newlines.*Got 'a\\nb' instead"),
    ],
)
def test_a_failed_build_leaves_the_corpus_alone(corpus_of_b, texts, options, message):
    with pytest.raises((ValueError, OSError), match=message):
        Corpus.build(texts, corpus_of_b, **{"min_count": 1, **options}, overwrite=True)

    assert Corpus.open(corpus_of_b).vocabulary.words == ["b"]
    names = sorted(path.name for path in corpus_of_b.parent.iterdir())
    assert names == ["corpus", "empty.txt", "latin.txt", "other"]


@pytest.mark.parametrize(
    ("name", "normalize", "message"),
    [
        ("empty.txt", "paper", "empty.txt must have text. Got an empty file"),
        ("latin.txt", "unicode", r"latin.txt must be UTF-8 text.*0xe9 at offset 21"),
        ("latin.txt", str.split, r"latin.txt must be UTF-8 text.*0xe9 at offset 21"),
    ],
)
def test_a_file_that_cannot_be_read_leaves_the_corpus_alone(corpus_of_b, name, normalize, message):
    path = corpus_of_b.parent / name

    with pytest.raises((ValueError, OSError), match=message):
        Corpus.build(path, corpus_of_b, 1, normalize, overwrite=True)

    assert Corpus.open(corpus_of_b).vocabulary.words == ["b"]


def test_names_of_files_are_no_texts(corpus_of_b):
    names = [str(corpus_of_b.parent / "latin.txt")]
    with pytest.raises((ValueError, OSError), match="which name files"):
        Corpus.build(names, corpus_of_b, 1, overwrite=True)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("other", "which holds something else"),
        ("other/thesis.tex/corpus", "The output must be a place that can be written to"),
    ],
)
def test_files_that_are_no_corpus_are_never_replaced(corpus_of_b, place, message):
    folder = corpus_of_b.parent
    with pytest.raises((ValueError, OSError), match=message):
        Corpus.build(["a"], folder / place, 1, overwrite=True)
    assert (folder / "other" / "thesis.tex").read_text() == "ten years"


def test_the_papers_tokens_are_read_from_any_bytes(corpus_of_b):
    path = corpus_of_b.parent / "latin.txt"
    corpus = Corpus.build(path, corpus_of_b, 1, overwrite=True)
    assert corpus.vocabulary.words == ["caf", "first", "line", "second", "x"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corpus.json", b"[" * 9999),
        ("corpus.json", b'{"format_version": 1}'),
        ("ids.i32", b"1234567"),
        ("vocabulary.tsv", b"a\tmany\nb\t1\n"),
        ("vocabulary.tsv", b"a\t1\nb\t9\n"),
    ],
)
def test_a_damaged_corpus_is_named(tmp_path, name, content):
    with pytest.raises(FileNotFoundError, match=r"a folder with a corpus.json"):
        Corpus.open(tmp_path)

    Corpus.build(["a b"], tmp_path / "corpus", 1)
    (tmp_path / "corpus" / name).write_bytes(content)

    with pytest.raises(ValueError, match=f"{name} of .* as it was written.*Build it"):
        Corpus.open(tmp_path / "corpus")


def test_ids_that_are_no_words_are_found_before_they_are_used(tmp_path):
    Corpus.build(["a b c a b"] * 5, tmp_path / "corpus", 1)
    path = tmp_path / "corpus" / "ids.i32"
    path.write_bytes(b"\xff\xff\xff\x7f" + path.read_bytes()[4:])

    with pytest.raises(ValueError, match=r"ids.i32 of the corpus .* must be as it was written"):
        SkipGram(4, min_count=1, n_jobs=1).fit(Corpus.open(tmp_path / "corpus"))


@pytest.mark.slow
def test_the_words_of_the_cleaned_dump_are_counted_exactly(tmp_path, data_dir):
    clean_files([data_dir / "corpora" / "enwik8.xz"], tmp_path / "clean.txt", wiki=True)
    corpus = Corpus.build(tmp_path / "clean.txt", tmp_path / "corpus")
    assert corpus.n_tokens + corpus.n_unknown == 12_577_299

    counts = Counter((tmp_path / "clean.txt").read_text().split())
    kept = {word: n for word, n in counts.items() if n >= 5}
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist())) == kept
