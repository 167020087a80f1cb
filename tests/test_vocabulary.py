"""Vocabulary and Corpus: exact against plain Python, the same on any number of threads."""

import gzip
import hashlib
import itertools
import pickle
import threading
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacsent import Corpus, Vocabulary
from pacsent.text.encoded import LowCoverageWarning
from pacsent.text.normalise import tokenise_paper, tokenise_unicode
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
        st.sampled_from("abcABCZz09 \n\r\0\t?'.,é日Kſ\ud800" + "\U0001f600"),
        st.characters(),
    ),
    max_size=40,
)
texts = st.lists(
    st.one_of(awkward, st.lists(st.sampled_from(WORDS + ["6", "-", " "])).map("".join)), max_size=6
)


def by_dict(vocabulary, sentences, tokenise):
    """ids, offsets and unknown tokens, the slow way."""
    index = {word: i for i, word in enumerate(vocabulary.words)}
    lists = [tokenise(s) if isinstance(s, str) else s for s in sentences]
    known = [[index[t] for t in tokens if t in index] for tokens in lists]
    offsets = np.cumsum([0] + [len(k) for k in known])
    n_unknown = [len(t) - len(k) for t, k in zip(lists, known)]
    if tokenise is tokenise_paper:
        texts = [s if isinstance(s, str) else "" for s in sentences]
        n_unknown = [n + count_dropped(text) for n, text in zip(n_unknown, texts)]
    return [i for k in known for i in k], offsets.tolist(), n_unknown


def check(encoded, expected):
    assert encoded.ids.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert [a.tolist() for a in encoded] == list(map(list, expected))


@settings(deadline=None)
@given(texts)
@example(["FILM6film", "\u212a", "film\nfilm", "", "incomprehensible6Incomprehensibles"])
@example(["x" * 5000, "ab" * 1024 + " ab", "0123456789" * 500])
def test_the_compiled_tokeniser_equals_the_reference(sentences):
    vocabulary = Vocabulary(WORDS)
    check(vocabulary.encode(sentences), by_dict(vocabulary, sentences, tokenise_paper))


@settings(deadline=None)
@given(texts, st.lists(st.lists(st.sampled_from(WORDS)), max_size=3))
def test_unicode_text_and_token_lists_may_be_mixed(sentences, lists):
    vocabulary = Vocabulary(WORDS, normalise="unicode")
    mixed = [*sentences, *lists, *sentences]
    check(vocabulary.encode(mixed), by_dict(vocabulary, mixed, tokenise_unicode))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text("aZ09_'., -\n", max_size=20), min_size=1, max_size=4))
def test_the_compiled_unicode_tokeniser_equals_the_reference(sentences):
    tokens = [tokenise_unicode(sentence) for sentence in sentences]
    words = sorted({token for sentence in tokens for token in sentence})
    table = WordTable(words)
    ids, ends = text_encoding.unicode_ids(sentences, table.ids_of)
    assert [words[i] for i in ids] == list(itertools.chain.from_iterable(tokens))
    assert ends.tolist() == np.cumsum([len(sentence) for sentence in tokens]).tolist()


def test_threads_and_batches_change_nothing(rng, monkeypatch):
    vocabulary = Vocabulary(WORDS)
    parts = np.array([*WORDS[:-2], " ", " ", "\n", "7", "é"], dtype=object)
    sentences = ["".join(rng.choice(parts, size=n)) for n in rng.integers(0, 60, size=400)]
    sentences[7] = ["film", "Film"]  # a token list in between
    whole = vocabulary.encode(sentences, n_jobs=1)
    monkeypatch.setattr(text_encoding, "_BATCH_CHARACTERS", 300)
    for n_jobs in (1, 3):
        check(vocabulary.encode(iter(sentences), n_jobs=n_jobs), [a.tolist() for a in whole])
    check(whole, by_dict(vocabulary, sentences, tokenise_paper))


def test_a_callable_tokenises_as_it_likes():
    vocabulary = Vocabulary(["Film", "!"], normalise=lambda s: s.replace("!", " !").split())
    assert vocabulary.encode(["Film! film"]).ids.tolist() == [0, 1]
    assert vocabulary.normalise_name is None
    assert Vocabulary(["a"], normalise="unicode").normalise_name == "unicode"


@pytest.mark.parametrize("words", [WORDS, [], ["a"], [f"w{i}" for i in range(1000)]])
def test_a_vocabulary_goes_through_arrays(words):
    counts = np.arange(len(words))[::-1]
    vocabulary = Vocabulary(words, counts, normalise="unicode")
    arrays = vocabulary.arrays()
    assert set(arrays) == {"word_bytes", "word_offsets", "hash_table", "counts"}
    again = Vocabulary.from_arrays(arrays, "unicode")
    assert [again.id_of(word) for word in words] == list(range(len(words)))
    assert again.id_of("no such word") == -1
    assert "no such word" not in again
    assert again.words == words
    assert again.counts.tolist() == counts.tolist()
    assert again.index == vocabulary.index
    rebuilt = Vocabulary.from_arrays({n: arrays[n] for n in ("word_bytes", "word_offsets")})
    assert np.array_equal(rebuilt.arrays()["hash_table"], arrays["hash_table"])
    assert again.digest([["a"], []]) == vocabulary.digest([["a"], []])


def test_a_vocabulary_of_many_words_opens_at_once(tmp_path):
    n_words = 300_000
    vocabulary = Vocabulary([f"word{i}" for i in range(n_words)])
    for name, array in vocabulary.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    assert Vocabulary(["a"]).id_of("a") == 0
    start = time.perf_counter()
    arrays = {p.stem: np.load(p, mmap_mode="r") for p in tmp_path.glob("*.npy")}
    opened = Vocabulary.from_arrays(arrays)
    assert opened.id_of("word77777") == 77777
    assert time.perf_counter() - start < 0.5  # milliseconds, where nothing else runs
    assert not {"words", "index"} & set(vars(opened.table))  # nothing was decoded


def test_pickling_keeps_words_counts_and_normalisation():
    vocabulary = Vocabulary(WORDS, range(len(WORDS)), normalise="unicode")
    for _ in range(2):  # without and with its arrays made
        again = pickle.loads(pickle.dumps(vocabulary))
        assert again.words == WORDS
        assert again.counts.tolist() == list(range(len(WORDS)))
        assert again.normalise == "unicode"
        assert again.encode(["a good film"]).ids.tolist() == [6, 1, 0]
        vocabulary.arrays()


def test_counting_sums_repeated_words_and_leaves_the_ids_alone(tiny_corpus):
    vocabulary = Vocabulary(["film", "good", "quiet", "nil"])
    encoded = vocabulary.encode(tiny_corpus)
    before = encoded.ids.copy()
    counts = vocabulary.count(encoded)
    expected = [
        [Counter(tokenise_paper(sentence))[word] for word in vocabulary.words]
        for sentence in tiny_corpus
    ]
    assert counts.toarray().tolist() == expected
    assert counts.dtype == np.float64
    assert vocabulary.count(tiny_corpus, dtype=np.int32).dtype == np.int32
    assert np.array_equal(encoded.ids, before)
    assert counts.has_sorted_indices


def test_nothing_to_encode_is_an_empty_result():
    encoded = Vocabulary(["a"]).encode([])
    check(encoded, ([], [0], []))
    assert np.isnan(encoded.coverage)


def test_the_same_text_has_the_same_digest():
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.digest(["a b", "b"]) == vocabulary.digest(["A, b!", ["b"]])
    assert vocabulary.digest(["a b", "b"]) != vocabulary.digest(["a b b"])
    assert vocabulary.digest(["a"]) != Vocabulary(["c", "b"]).digest(["c"])


def warn_if_low_coverage(vocabulary, sentences):
    encoded = vocabulary.encode(sentences)
    warn_low_coverage(vocabulary, encoded.ids.size, int(encoded.n_unknown.sum()))


class TestWarnings:
    def test_low_coverage_of_cased_vectors_names_the_cause(self):
        vocabulary = Vocabulary(["The", "Film", ",", "film"])
        with pytest.warns(LowCoverageWarning, match=r"Only 33 % of these 3 tokens.*'The'; cased"):
            warn_if_low_coverage(vocabulary, ["nothing here, film"])

    def test_low_coverage_of_plain_words_names_another_language(self):
        vocabulary = Vocabulary(["film", "good"])
        with pytest.warns(LowCoverageWarning, match="another language"):
            warn_if_low_coverage(vocabulary, ["ein ruhiger film"])

    def test_cased_words_under_unicode_are_named(self):
        vocabulary = Vocabulary(["Film", "good"], normalise="unicode")
        with pytest.warns(LowCoverageWarning, match="'Film'"):
            warn_if_low_coverage(vocabulary, ["a Film"])

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("sentences", [["good film bad"], [], [""]])
    def test_good_coverage_is_silent(self, sentences):
        vocabulary = Vocabulary(["film", "good"])
        warn_if_low_coverage(vocabulary, sentences)


ARRAY = np.array([["a", "b"], ["c", "d"]])
MISTAKES = {
    "a single string": (lambda: Vocabulary(["a"]).encode("a quiet film"), ValueError,
                        "Got the single string 'a quiet film' instead"),
    "a table": (lambda: Vocabulary(["a"]).encode(ARRAY), TypeError, r"of shape \(2, 2\) instead"),
    "no iterable": (lambda: Vocabulary(["a"]).encode(3), TypeError, "Got int '3' instead"),
    "a word twice": (lambda: Vocabulary(["a", "b", "a"]), ValueError, "Got 'a' at 0 and at 2"),
    "a word twice in arrays": (
        lambda: Vocabulary.from_arrays(
            {"word_bytes": np.frombuffer(b"aba", np.uint8), "word_offsets": np.arange(4)}
        ).arrays(),
        ValueError, "Got 'a' a second time at 2",
    ),
    "no string": (lambda: Vocabulary(["a", 3]), TypeError, r"words must be str. Got 3 instead"),
    "too few counts": (lambda: Vocabulary(["a", "b"], [1]), ValueError,
                       r"each of the 2 words. Got .* shape \(1,\)"),
    "no such normalisation": (lambda: Vocabulary(["a"], normalise="latin"), ValueError,
                              "Got 'latin' instead"),
    "offsets outside": (
        lambda: Vocabulary.from_arrays(
            {"word_bytes": np.zeros(3, np.uint8), "word_offsets": np.array([0, 4])}
        ),
        ValueError, "word_offsets must go from 0",
    ),
    "a cut hash table": (
        lambda: Vocabulary.from_arrays(
            {**(arrays := Vocabulary(["a", "b"]).arrays()), "hash_table": arrays["hash_table"][:3]}
        ),
        ValueError, r"Got shape \(3, 2\) instead",
    ),
    "no counts": (lambda: Vocabulary(["a"]).n_tokens, ValueError, "needs word counts"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    call, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message):
        call()


class TestMistakes:
    @pytest.mark.parametrize("bad", [None, 3, b"bytes", ["a", 3], {"a": 1}])
    def test_a_sentence_that_is_none(self, bad):
        with pytest.raises(TypeError, match="A sentence must be a str or a list of str"):
            Vocabulary(["a"]).encode(["a", bad])

    @pytest.mark.parametrize("words", ["film", {"a", "b"}, {"a": 1}, b"ab", np.array([["a", "b"]])])
    def test_what_is_no_list_of_words(self, words):
        with pytest.raises((TypeError, ValueError), match=r"words must be an iterable of texts"):
            Vocabulary(words)

    @pytest.mark.parametrize("name", ["hash_table", "word_offsets"])
    def test_arrays_that_would_lead_astray(self, name):
        arrays = {
            k: v.copy() for k, v in Vocabulary(["a", "b", "incomprehensible"]).arrays().items()
        }
        if name == "hash_table":
            arrays[name][:, 1] = 77
        else:
            arrays[name][1:3] = [9, 4]
        with pytest.raises(ValueError, match=r"arrays that do not fit|must not fall"):
            Vocabulary.from_arrays(arrays).encode(["incomprehensible"] * 1000)

    @pytest.mark.parametrize("n_jobs", [0, 1.5])
    def test_n_jobs(self, n_jobs):
        with pytest.raises(ValueError, match=f"Got {n_jobs} instead"):
            Vocabulary(["a"]).encode(["a"], n_jobs=n_jobs)


# ------------------------------------------------------------------------------------------------
# corpora
# ------------------------------------------------------------------------------------------------


def by_hand(documents, min_count, tokenise):
    lists = [tokenise(d) if isinstance(d, str) else d for d in documents]
    counts = Counter(token for tokens in lists for token in tokens)
    words = sorted(
        (w for w, n in counts.items() if n >= min_count),
        key=lambda w: (-counts[w], w.encode("utf-8", "surrogatepass")),
    )
    return words, [counts[w] for w in words], lists


def check_corpus(corpus, documents, min_count, tokenise=tokenise_paper):
    words, counts, lists = by_hand(documents, min_count, tokenise)
    assert corpus.vocabulary.words == words
    assert corpus.vocabulary.counts.tolist() == counts
    index = {word: i for i, word in enumerate(words)}
    ids = [[index[t] for t in tokens if t in index] for tokens in lists]
    assert corpus.ids.tolist() == [i for document in ids for i in document]
    assert corpus.offsets.tolist() == np.cumsum([0] + [len(d) for d in ids]).tolist()
    assert corpus.n_tokens == len(corpus.ids)
    assert corpus.n_unknown == sum(map(len, lists)) - corpus.n_tokens
    assert corpus.n_documents == len(documents)
    assert corpus.digest == corpus.vocabulary.digest(documents)


@settings(deadline=None, max_examples=40)
@given(texts, st.sampled_from(["paper", "unicode"]), st.sampled_from([1, 3]))
def test_a_corpus_of_texts_is_exact(tmp_path_factory, documents, normalise, n_jobs):
    documents = ["film", *documents]
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    corpus = Corpus.build(documents, folder, min_count=1, normalise=normalise, n_jobs=n_jobs)
    tokenise = {"paper": tokenise_paper, "unicode": tokenise_unicode}[normalise]
    check_corpus(corpus, documents, 1, tokenise)


@pytest.fixture(scope="module")
def lines():
    rng = np.random.default_rng(0)
    words = np.array([*WORDS[:-2], "wide\u00e9", "7", "rare"], dtype=object)
    made = [" ".join(rng.choice(words, size=n)) for n in rng.integers(0, 30, size=300)]
    made[5] = ""
    made[11] = " ".join(rng.choice(words, size=3000))  # longer than any piece below
    return made


@pytest.mark.parametrize("normalise", ["paper", "unicode", str.split])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_corpus_of_files_is_exact_for_any_piece_size(
    tmp_path, lines, normalise, n_jobs, monkeypatch
):
    (tmp_path / "a.txt").write_text("\n".join(lines[:150]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8", newline="") as file:
        file.write("\r\n".join(lines[150:]))  # no newline at its end
    paths = [tmp_path / "a.txt", tmp_path / "b.gz"]
    tokenise = {"paper": tokenise_paper, "unicode": tokenise_unicode}.get(normalise, normalise)
    digests = set()
    for size in (64, 1000, 1 << 20):
        monkeypatch.setattr("pacsent.words.corpus._CHUNK_BYTES", size)
        corpus = Corpus.build(
            paths, tmp_path / "corpus", 2, normalise, n_jobs=n_jobs, overwrite=True
        )
        check_corpus(corpus, lines, 2, tokenise)
        digests.add(corpus.digest)
    assert len(digests) == 1
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == [
        "corpus.json", "ids.i32", "offsets.i64", "vocabulary.tsv",
    ]  # fmt: skip
    assert {p.name for p in tmp_path.iterdir()} == {"a.txt", "b.gz", "corpus"}


def test_one_word_longer_than_a_piece_stays_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("pacsent.words.corpus._CHUNK_BYTES", 16)
    path = tmp_path / "a.txt"
    path.write_text("x" * 100 + "Y" * 100 + " z")
    corpus = Corpus.build(path, tmp_path / "corpus", 1)
    assert sorted(corpus.vocabulary.words, key=len) == ["z", "x" * 100 + "y" * 100]


def test_a_corpus_opens_as_it_was_built(tmp_path):
    built = Corpus.build([["b", "a", "a"], ["a"]], tmp_path / "corpus", min_count=2)
    opened = Corpus.open(tmp_path / "corpus")
    assert isinstance(opened.ids, np.memmap)
    assert opened.ids.tolist() == built.ids.tolist() == [0, 0, 0]
    assert opened.offsets.tolist() == [0, 2, 3]
    assert opened.digest == built.digest
    assert (opened.n_tokens, opened.n_unknown, opened.min_count) == (3, 1, 2)
    assert opened.vocabulary.normalise == "paper"
    assert "n_unknown=1" in repr(opened)
    assert hashlib.sha256((tmp_path / "corpus" / "ids.i32").read_bytes()).digest()


def test_a_corpus_of_a_function_opens_for_training_and_refuses_raw_text(tmp_path):
    built = Corpus.build(["A b", "A"], tmp_path / "corpus", 1, normalise=str.split)
    assert built.vocabulary.encode(["A"]).ids.tolist() == [0]
    opened = Corpus.open(tmp_path / "corpus")
    assert opened.ids.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="a function, which a file cannot hold"):
        opened.vocabulary.encode(["A"])


def test_an_older_corpus_is_replaced_when_told_and_anything_else_is_not(tmp_path):
    Corpus.build(["a"], tmp_path / "corpus", 1)
    with pytest.raises(FileExistsError, match=r"corpus exists.*overwrite=True"):
        Corpus.build(["b"], tmp_path / "corpus", 1)
    again = Corpus.build(["b"], tmp_path / "corpus", 1, overwrite=True)
    assert again.vocabulary.words == ["b"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("ten years")
    with pytest.raises(ValueError, match="which holds something else"):
        Corpus.build(["a"], tmp_path / "other", 1)
    assert (tmp_path / "other" / "thesis.tex").exists()


def test_a_failed_build_leaves_the_old_corpus_and_nothing_else(tmp_path):
    Corpus.build(["a"], tmp_path / "corpus", 1)
    with pytest.raises(
        ValueError,
        match=r"No word occurs at least min_count=5 times in these 3 tokens, so the vocabulary",
    ):
        Corpus.build(["a b c"], tmp_path / "corpus", overwrite=True)
    assert Corpus.open(tmp_path / "corpus").vocabulary.words == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["corpus"]


def test_no_thread_is_left_behind(tmp_path, lines):
    before = threading.active_count()
    Corpus.build(lines * 3, tmp_path / "corpus", 1, n_jobs=4)
    assert threading.active_count() == before


def test_odd_tokens_survive_the_folder(tmp_path):
    odd = ["", " ", "a\tb", "\r", "\x85", "\u2028", "\udce9", "x" * 300]
    built = Corpus.build([odd], tmp_path / "corpus", 1)
    assert set(built.vocabulary.words) == set(odd)
    assert Corpus.open(tmp_path / "corpus").vocabulary.encode([odd]).ids.tolist() == [*built.ids]


class TestCorpusMistakes:
    def test_sources_that_are_refused(self, tmp_path):
        (tmp_path / "a.txt").write_text("text")
        (tmp_path / "empty.txt").write_text("")
        for source, message in (
            ([["a\nb"]], r"without newlines.*Got 'a\\nb' instead"),
            ([str(tmp_path / "a.txt")], "which name files"),
            (tmp_path / "empty.txt", r"empty.txt must hold text. Got an empty file"),
        ):
            with pytest.raises(ValueError, match=message):
                Corpus.build(source, tmp_path / "corpus", 1)

    @pytest.mark.parametrize("normalise", ["unicode", str.split])
    def test_invalid_utf8_names_file_and_offset(self, tmp_path, normalise, monkeypatch):
        monkeypatch.setattr("pacsent.words.corpus._CHUNK_BYTES", 8)
        (tmp_path / "a.txt").write_bytes(b"first line\nsecond caf\xe9 x\n")
        with pytest.raises(ValueError, match=r"a.txt must be UTF-8 text.*0xe9 at offset 21"):
            Corpus.build(tmp_path / "a.txt", tmp_path / "corpus", 1, normalise)

    def test_any_byte_is_fine_for_the_papers_cleaning(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"first line\nsecond caf\xe9 x\n")
        corpus = Corpus.build(tmp_path / "a.txt", tmp_path / "corpus", 1)
        assert corpus.vocabulary.words == ["caf", "first", "line", "second", "x"]

    @pytest.mark.parametrize("min_count", [0, 1.5, -1, "5"])
    def test_min_count(self, tmp_path, min_count):
        with pytest.raises(ValueError, match=f"at least 1. Got {min_count!r} instead"):
            Corpus.build(["a"], tmp_path / "corpus", min_count)

    def test_a_folder_that_is_no_corpus(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"a folder with a corpus.json"):
            Corpus.open(tmp_path)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("corpus.json", b"not json"),
            ("corpus.json", b"[" * 9999),
            ("corpus.json", b'{"format_version": 1}'),
            ("ids.i32", b"1234567"),
            ("vocabulary.tsv", b"a\tmany\nb\t1\n"),
            ("vocabulary.tsv", b"a\t1\nb\t9\n"),
        ],
    )
    def test_a_damaged_corpus(self, tmp_path, name, content):
        Corpus.build(["a b"], tmp_path / "corpus", 1)
        (tmp_path / "corpus" / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} of .* as it was written.*Build it"):
            Corpus.open(tmp_path / "corpus")

    def test_ids_that_are_no_words_are_found_before_they_are_used(self, tmp_path):
        from pacsent import SkipGram

        Corpus.build(["a b c a b"] * 5, tmp_path / "corpus", 1)
        path = tmp_path / "corpus" / "ids.i32"
        path.write_bytes(b"\xff\xff\xff\x7f" + path.read_bytes()[4:])
        with pytest.raises(ValueError, match=r"ids.i32 of the corpus .* must be as it was written"):
            SkipGram(4, min_count=1, n_jobs=1).fit(Corpus.open(tmp_path / "corpus"))

    def test_an_unwritable_place(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="The output must be a place that can be written to"):
            Corpus.build(["a"], tmp_path / "file" / "corpus")


@pytest.mark.slow
def test_the_words_of_the_cleaned_dump_are_counted_exactly(tmp_path, data_dir):
    from pacsent.text.cleaning import clean_files

    clean_files([data_dir / "corpora" / "enwik8.xz"], tmp_path / "clean.txt", wiki=True)
    corpus = Corpus.build(tmp_path / "clean.txt", tmp_path / "corpus")
    assert corpus.n_tokens + corpus.n_unknown == 12_577_299
    counts = Counter((tmp_path / "clean.txt").read_text().split())
    kept = {word: n for word, n in counts.items() if n >= 5}
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist())) == kept


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 0.5, "many", None, True])
def test_counts_that_are_no_counts_are_refused_by_value(wrong):
    with pytest.raises(ValueError, match=r"counts must be whole numbers.*Got .* instead"):
        Vocabulary(["a", "b"], [wrong, wrong])
