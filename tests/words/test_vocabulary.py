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


def test_threads_and_batches_change_nothing(rng, monkeypatch):
    vocabulary = Vocabulary(WORDS)
    parts = np.array([*WORDS[:-2], " ", " ", "\n", "7", "é"], dtype=object)
    sentences = ["".join(rng.choice(parts, size=n)) for n in rng.integers(0, 60, size=400)]
    sentences[7] = ["film", "Film"]  # a token list in between

    expected = by_dict(vocabulary, sentences, tokenise_paper)
    check(vocabulary.encode(sentences, n_jobs=1), expected)

    monkeypatch.setattr(text_encoding, "_BATCH_CHARACTERS", 300)
    for n_jobs in (1, 3):
        check(vocabulary.encode(iter(sentences), n_jobs=n_jobs), expected)

    check(vocabulary.encode([]), ([], [0], []))
    assert np.isnan(vocabulary.encode([]).coverage)


@pytest.mark.parametrize("words", [WORDS, [], ["a"], [f"w{i}" for i in range(1000)]])
def test_a_vocabulary_goes_through_arrays_and_pickle(words):
    counts = np.arange(len(words))[::-1]
    vocabulary = Vocabulary(words, counts, normalize="unicode")
    early = pickle.loads(pickle.dumps(vocabulary))  # before its arrays are made

    arrays = vocabulary.arrays()
    assert set(arrays) == {"word_bytes", "word_offsets", "hash_table", "counts"}
    late = pickle.loads(pickle.dumps(vocabulary))

    for again in (Vocabulary.from_arrays(arrays, "unicode"), early, late):
        assert [again.id_of(word) for word in words] == list(range(len(words)))
        assert again.id_of("no such word") == -1
        assert "no such word" not in again
        assert again.words == words
        assert again.counts.tolist() == counts.tolist()
        assert again.index == vocabulary.index
        assert again.normalize == again.normalize_name == "unicode"
        assert again.digest([["a"], []]) == vocabulary.digest([["a"], []])

    rebuilt = Vocabulary.from_arrays({n: arrays[n] for n in ("word_bytes", "word_offsets")})
    assert np.array_equal(rebuilt.arrays()["hash_table"], arrays["hash_table"])


def test_a_vocabulary_is_opened_without_decoding_its_words(tmp_path):
    vocabulary = Vocabulary([f"word{i}" for i in range(30_000)])
    for name, array in vocabulary.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    arrays = {p.stem: np.load(p, mmap_mode="r") for p in tmp_path.glob("*.npy")}
    opened = Vocabulary.from_arrays(arrays)

    assert opened.id_of("word7777") == 7777
    assert not {"words", "index"} & set(vars(opened.table))  # nothing was decoded


def test_counting_sums_repeated_words_and_leaves_the_ids_alone(tiny_corpus):
    vocabulary = Vocabulary(["film", "good", "quiet", "nil"])
    encoded = vocabulary.encode(tiny_corpus)
    before = encoded.ids.copy()

    counts = vocabulary.count(encoded)
    words = [Counter(tokenise_paper(sentence)) for sentence in tiny_corpus]

    assert counts.toarray().tolist() == [[row[word] for word in vocabulary.words] for row in words]
    assert counts.dtype == np.float64 and counts.has_sorted_indices
    assert vocabulary.count(tiny_corpus, dtype=np.int32).dtype == np.int32
    assert np.array_equal(encoded.ids, before)


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

    with pytest.warns(LowCoverageWarning, match=message):
        warn_low_coverage(vocabulary, encoded.ids.size, int(encoded.n_unknown.sum()))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_low_coverage(vocabulary, 2, 1)
        warn_low_coverage(vocabulary, 0, 0)


def encode(texts, **options):
    return Vocabulary(["a"]).encode(texts, **options)


def from_arrays(**changes):
    return Vocabulary.from_arrays(Vocabulary(["a", "b"]).arrays() | changes)


TABLE = np.array([["a", "b"], ["c", "d"]])
TWICE = {"word_bytes": np.frombuffer(b"aba", np.uint8), "word_offsets": np.arange(4)}
MISTAKES = [
    (lambda: encode("a quiet film"), ValueError, "Got the single string 'a quiet film' instead"),
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
    (lambda: from_arrays(hash_table=np.zeros((3, 2))), ValueError, r"Got shape \(3, 2\) instead"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_is_no_sentence_no_list_of_words_or_no_count_is_refused():
    for bad in (None, 3, b"bytes", ["a", 3], {"a": 1}):
        with pytest.raises(TypeError, match="A sentence must be a str or a list of str"):
            encode(["a", bad])

    for bad in ("film", {"a", "b"}, {"a": 1}, b"ab", TABLE):
        with pytest.raises((TypeError, ValueError), match="words must be an iterable of texts"):
            Vocabulary(bad)

    for bad in (-1, float("nan"), float("inf"), 0.5, "many", None, True):
        with pytest.raises(ValueError, match=r"counts must be whole numbers.*Got .* instead"):
            Vocabulary(["a", "b"], [bad, bad])


@pytest.mark.parametrize("name", ["hash_table", "word_offsets"])
def test_arrays_that_would_lead_astray_are_refused(name):
    arrays = {k: v.copy() for k, v in Vocabulary(["a", "b", "incomprehensible"]).arrays().items()}
    if name == "hash_table":
        arrays[name][:, 1] = 77
    else:
        arrays[name][1:3] = [9, 4]

    with pytest.raises(ValueError, match=r"arrays that do not fit|must not fall"):
        Vocabulary.from_arrays(arrays).encode(["incomprehensible"] * 1000)


def check_corpus(corpus, documents, min_count, tokenise=tokenise_paper):
    lists = [tokenise(d) if isinstance(d, str) else d for d in documents]
    counts = Counter(token for tokens in lists for token in tokens)
    words = sorted(
        (w for w, n in counts.items() if n >= min_count),
        key=lambda w: (-counts[w], w.encode("utf-8", "surrogatepass")),
    )

    assert corpus.vocabulary.words == words
    assert corpus.vocabulary.counts.tolist() == [counts[w] for w in words]

    index = {word: i for i, word in enumerate(words)}
    ids = [[index[t] for t in tokens if t in index] for tokens in lists]
    assert corpus.ids.tolist() == [i for document in ids for i in document]
    assert corpus.offsets.tolist() == np.cumsum([0] + [len(d) for d in ids]).tolist()

    assert corpus.n_tokens == len(corpus.ids)
    assert corpus.n_unknown == sum(map(len, lists)) - corpus.n_tokens
    assert corpus.n_documents == len(documents)
    assert corpus.digest == corpus.vocabulary.digest(documents)


@settings(max_examples=40)
@given(texts, st.sampled_from(["paper", "unicode"]), st.sampled_from([1, 3]))
def test_a_corpus_of_texts_is_exact(tmp_path_factory, documents, normalize, n_jobs):
    documents = ["film", *documents]
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    corpus = Corpus.build(documents, folder, min_count=1, normalize=normalize, n_jobs=n_jobs)
    tokenise = {"paper": tokenise_paper, "unicode": tokenise_unicode}[normalize]

    check_corpus(corpus, documents, 1, tokenise)


@pytest.fixture(scope="module")
def lines():
    rng = np.random.default_rng(0)
    words = np.array([*WORDS[:-2], "wide\u00e9", "7", "rare"], dtype=object)
    made = [" ".join(rng.choice(words, size=n)) for n in rng.integers(0, 30, size=300)]
    made[5] = ""
    made[11] = " ".join(rng.choice(words, size=3000))  # longer than any piece below
    made[12:14] = ["x" * 100 + "Y" * 100] * 2  # a word longer than a piece
    return made


@pytest.mark.parametrize("normalize", ["paper", "unicode", str.split])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_corpus_of_files_is_exact_for_all_sizes(tmp_path, lines, normalize, n_jobs, monkeypatch):
    (tmp_path / "a.txt").write_text("\n".join(lines[:150]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8", newline="") as file:
        file.write("\r\n".join(lines[150:]))  # no newline at its end

    paths = [tmp_path / "a.txt", tmp_path / "b.gz"]
    tokenise = {"paper": tokenise_paper, "unicode": tokenise_unicode}.get(normalize, normalize)
    n_threads = threading.active_count()

    for size in (64, 1000, 1 << 20):
        monkeypatch.setattr("pacsent.words.text_source._CHUNK_BYTES", size)
        corpus = Corpus.build(
            paths, tmp_path / "corpus", 2, normalize, n_jobs=n_jobs, overwrite=True
        )
        check_corpus(corpus, lines, 2, tokenise)

    assert threading.active_count() == n_threads
    names = sorted(p.name for p in (tmp_path / "corpus").iterdir())
    assert names == ["corpus.json", "ids.i32", "offsets.i64", "vocabulary.tsv"]
    assert {p.name for p in tmp_path.iterdir()} == {"a.txt", "b.gz", "corpus"}


def test_a_corpus_opens_as_it_was_built(tmp_path):
    odd = ["", " ", "a\tb", "\r", "\x85", "\u2028", "\udce9", "x" * 300]
    built = Corpus.build([["b", *odd, "a"], odd], tmp_path / "corpus", min_count=2)
    opened = Corpus.open(tmp_path / "corpus")

    assert isinstance(opened.ids, np.memmap)
    assert set(opened.vocabulary.words) == set(odd)
    assert opened.ids.tolist() == built.ids.tolist() == [*opened.vocabulary.encode([odd]).ids] * 2
    assert opened.offsets.tolist() == [0, 8, 16]
    assert opened.digest == built.digest
    assert (opened.n_tokens, opened.n_unknown, opened.min_count) == (16, 2, 2)
    assert opened.vocabulary.normalize == "paper"
    assert "n_unknown=2" in repr(opened)


def test_a_function_tokenises_as_it_likes_and_is_not_saved_with_a_corpus(tmp_path):
    built = Corpus.build(["A b", "A"], tmp_path / "corpus", 1, normalize=str.split)
    assert built.vocabulary.encode(["A a"]).ids.tolist() == [0]
    assert built.vocabulary.normalize_name is None

    opened = Corpus.open(tmp_path / "corpus")
    assert opened.ids.tolist() == [0, 1, 0]

    with pytest.raises(ValueError, match="a function, which a file cannot hold"):
        opened.vocabulary.encode(["A"])


def test_a_corpus_is_replaced_when_told_and_left_alone_by_a_failed_build(tmp_path, monkeypatch):
    monkeypatch.setattr("pacsent.words.text_source._CHUNK_BYTES", 8)
    folder = tmp_path / "corpus"
    Corpus.build(["a"], folder, 1)
    assert Corpus.build(["b"], folder, 1, overwrite=True).vocabulary.words == ["b"]

    (tmp_path / "a.txt").write_bytes(b"first line\nsecond caf\xe9 x\n")
    (tmp_path / "empty.txt").write_text("")
    thesis = tmp_path / "other" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("ten years")

    again = {"overwrite": True}
    unicode, split = again | {"normalize": "unicode"}, again | {"normalize": str.split}
    for source, place, min_count, options, message in (
        (["a"], folder, 1, {}, r"corpus exists.*overwrite=True"),
        (["a"], thesis.parent, 1, again, "which holds something else"),
        (["a"], thesis / "corpus", 1, {}, "The output must be a place that can be written to"),
        (["a b c"], folder, 5, again, r"No word occurs at least min_count=5 times in these 3 tok"),
        (["a"], folder, 0, again, "at least 1. Got 0 instead"),
        (["a"], folder, 1.5, again, "at least 1. Got 1.5 instead"),
        (["a"], folder, "5", again, "at least 1. Got '5' instead"),
        ([["a\nb"]], folder, 1, again, r"without newlines.*Got 'a\\nb' instead"),
        ([str(tmp_path / "a.txt")], folder, 1, again, "which name files"),
        (tmp_path / "empty.txt", folder, 1, again, "empty.txt must have text. Got an empty file"),
        (tmp_path / "a.txt", folder, 1, unicode, r"a.txt must be UTF-8 text.*0xe9 at offset 21"),
        (tmp_path / "a.txt", folder, 1, split, r"a.txt must be UTF-8 text.*0xe9 at offset 21"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            Corpus.build(source, place, min_count, **options)

    assert Corpus.open(folder).vocabulary.words == ["b"]
    assert thesis.read_text() == "ten years"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "corpus", "empty.txt", "other"]

    paper = Corpus.build(tmp_path / "a.txt", folder, 1, overwrite=True)  # any byte is fine for it
    assert paper.vocabulary.words == ["caf", "first", "line", "second", "x"]


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
