"""Words counted and corpora built from many shards: what one text in one piece gives, exactly."""

import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pacsent import Corpus, SkipGram, text
from pacsent.scale import build_corpus, corpora, count_words
from pacsent.words.corpus import IdFiles

LETTERS = "abcdefghijklmnopqrst"


def lines(seed, n):
    rng = np.random.default_rng(seed)
    words = [LETTERS[i] + LETTERS[j] for i in range(20) for j in range(20)]
    return [
        " ".join(words[i] for i in np.minimum(rng.zipf(1.4, rng.integers(0, 30)) - 1, 399))
        for _ in range(n)
    ]


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    parts = [lines(seed, 200 + 50 * seed) for seed in range(4)]
    for number, part in enumerate(parts):
        whole = "\n".join(part) + "\n"
        if number == 2:
            (folder / f"{number}.txt.gz").write_bytes(gzip.compress(whole.encode()))
        else:
            (folder / f"{number}.txt").write_text(whole)
    return folder, [line for part in parts for line in part]


@pytest.mark.parametrize("min_count", [1, 3])
def test_counts_of_shards_are_the_counts_of_the_whole(shards, tmp_path, min_count, monkeypatch):
    monkeypatch.setattr(corpora, "_OPEN_AT_ONCE", 2)  # several levels of merging
    folder, whole = shards
    found = count_words([folder], tmp_path / "counts", min_count=min_count, n_jobs=1)
    right = Counter(token for line in whole for token in text.tokenise_paper(line))
    kept = {word: n for word, n in right.items() if n >= min_count}
    assert dict(zip(found.words, found.counts.tolist())) == kept
    order = sorted(kept, key=lambda word: (-kept[word], word))
    assert found.words == order
    assert found.n_unknown == sum(right.values()) - sum(kept.values())


def same(corpus, other):
    assert corpus.vocabulary.words == other.vocabulary.words
    np.testing.assert_array_equal(corpus.vocabulary.counts, other.vocabulary.counts)
    np.testing.assert_array_equal(corpus.ids[0 : corpus.n_tokens], np.asarray(other.ids))
    np.testing.assert_array_equal(corpus.offsets, other.offsets)
    assert corpus.digest == other.digest and corpus.n_unknown == other.n_unknown


@pytest.mark.parametrize("slab", [1 << 22, 100])
def test_a_corpus_of_shards_is_the_corpus_of_the_whole(shards, tmp_path, slab, monkeypatch):
    monkeypatch.setattr(corpora, "_SLAB", slab)
    folder, whole = shards
    corpus = build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=1)
    same(corpus, Corpus.build(whole, tmp_path / "one", min_count=2))
    corpus.check()
    names = {path.name for path in (tmp_path / "c").rglob("*") if path.is_file()}
    assert names == {"corpus.json", "vocabulary.tsv", "offsets.i64",
                     *(f"00000{i}.i32" for i in range(4))}  # fmt: skip


@pytest.mark.slow
def test_several_processes_build_the_same_corpus(shards, tmp_path):
    folder, whole = shards
    corpus = build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=2)
    same(corpus, Corpus.build(whole, tmp_path / "one", min_count=2))


def test_tables_are_shards_too(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    whole = lines(0, 300)
    (tmp_path / "in").mkdir()
    for number in range(2):
        part = whole[number * 150 : (number + 1) * 150]
        pq.write_table(pa.table({"body": part}), tmp_path / "in" / f"{number}.parquet")
    corpus = build_corpus([tmp_path / "in"], tmp_path / "c", text_column="body", n_jobs=1)
    same(corpus, Corpus.build(whole, tmp_path / "one"))


@pytest.mark.parametrize("step", ["count", "reduce", "renumber"])
def test_a_build_that_stopped_goes_on(shards, tmp_path, step, monkeypatch):
    folder, whole = shards
    done = []
    if step == "reduce":
        monkeypatch.setattr(corpora, "_reduce", lambda *_: 1 / 0)
    else:
        kind = corpora._Map if step == "count" else corpora._Renumber
        work = kind.work

        def stops(task, advance=lambda n: None):
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(task.folder)
            return work(task, advance)

        monkeypatch.setattr(kind, "work", stops)
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
        build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=1)
    monkeypatch.undo()
    counted = []
    work = corpora._Map.work
    monkeypatch.setattr(
        corpora._Map, "work", lambda task, advance: counted.append(task) or work(task, advance)
    )
    corpus = build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=1)
    assert len(counted) == (2 if step == "count" else 0)
    same(corpus, Corpus.build(whole, tmp_path / "one", min_count=2))


def test_a_shard_that_changed_after_the_count_is_refused(shards, tmp_path, monkeypatch):
    folder, _ = shards
    monkeypatch.setattr(corpora, "_finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_corpus([folder], tmp_path / "c", n_jobs=1)
    (folder / "0.txt").write_text("other words\n")
    with pytest.raises(ValueError, match=r"changed after the words of .* were counted"):
        build_corpus([folder], tmp_path / "c", n_jobs=1)


@pytest.mark.filterwarnings("ignore:Much of the text is dropped")
def test_the_normalisation_is_chosen_from_the_shards_and_said(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i, line in enumerate(["Grüße aus Köln", "schöne Grüße"]):
        (folder / f"{i}.txt").write_text(f"{line}\n" * 3, encoding="utf-8")
    corpus = build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=1)
    same(corpus, Corpus.build(sorted(folder.iterdir()), tmp_path / "one", min_count=2))
    assert "grüsse" in corpus.vocabulary.words and corpus.vocabulary.normalise == "unicode"
    assert corpus.chosen.startswith("normalise='unicode', chosen from the text")
    named = build_corpus([folder], tmp_path / "d", min_count=2, normalise="paper", n_jobs=1)
    assert "gr" in named.vocabulary.words and named.chosen is None


def test_a_bad_shard_is_named_and_the_others_are_finished(shards, tmp_path):
    folder, _ = shards
    (folder / "2.txt.gz").write_bytes(b"\x1f\x8b damaged")
    with pytest.raises(ValueError, match=r"1 of 4 shards .*2\.txt\.gz"):
        build_corpus([folder], tmp_path / "c", n_jobs=1)
    assert len(list((tmp_path / "c" / "parts").glob("*.json"))) == 3


def test_training_from_many_files_is_training_from_one(shards, tmp_path):
    folder, whole = shards
    many = build_corpus([folder], tmp_path / "c", min_count=2, n_jobs=1)
    one = Corpus.build(whole, tmp_path / "one", min_count=2)
    train = SkipGram(n_dims=8, n_epochs=1, n_jobs=1, random_state=0)
    found = train.fit(many).word_vectors_
    np.testing.assert_array_equal(found.input_vectors, train.fit(one).word_vectors_.input_vectors)


def test_a_file_of_ids_that_was_cut_is_refused(shards, tmp_path):
    folder, _ = shards
    corpus = build_corpus([folder], tmp_path / "c", n_jobs=1)
    path = corpus.ids.paths[1]
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(ValueError, match=r"000001\.i32 must have"):
        Corpus.open(tmp_path / "c")
    with pytest.raises(ValueError, match=r"step 1\. Got 2"):
        IdFiles(Path(tmp_path), [])[::2]
