"""Fingerprints: what was seen is noticed in any order; what was not is not."""

import numpy as np
import pytest

from pacsent import Vocabulary
from pacsent.words import fingerprint as module
from pacsent.words.fingerprint import Fingerprint, spelling_hashes

WORDS = [f"w{i}" for i in range(500)]


@pytest.fixture
def vocabulary():
    return Vocabulary(WORDS)


def texts(rng, n, length=40):
    return rng.choice(WORDS, (n, length)).tolist()


def overlap(vocabulary, seen, asked, **options):
    found = Fingerprint.of(vocabulary, vocabulary.encode(seen), **options)
    return found.overlap(vocabulary, vocabulary.encode(asked))


def test_seen_texts_are_noticed_in_any_order_and_others_of_the_same_words_are_not(vocabulary, rng):
    seen = texts(rng, 200)

    assert overlap(vocabulary, seen, seen[::-1]).all()
    assert not overlap(vocabulary, seen, texts(rng, 200)).any()


def test_a_passage_that_was_cut_out_and_pasted_elsewhere_is_noticed(vocabulary, rng):
    seen, new = texts(rng, 5, 60), texts(rng, 5, 60)
    new[3] = new[3][:10] + seen[2][17:40] + new[3][10:]

    assert overlap(vocabulary, seen, new).tolist() == [False, False, False, True, False]


def test_runs_do_not_cross_from_one_document_to_the_next(vocabulary, rng):
    whole = rng.choice(WORDS, 40).tolist()
    assert not overlap(vocabulary, [whole[:19], whole[19:38]], [whole]).any()


def test_the_words_count_not_their_ids(rng):
    one, two = Vocabulary(WORDS), Vocabulary(WORDS[::-1])
    document = [rng.choice(WORDS, 30).tolist()]
    seen = Fingerprint.of(one, one.encode(document))

    assert seen.overlap(two, two.encode(document)).all()
    assert len(set(spelling_hashes(one).tolist())) == len(WORDS)


def test_a_large_text_keeps_an_even_sample_that_still_notices(vocabulary, rng):
    seen = texts(rng, 400, 100)
    kept = Fingerprint.of(vocabulary, vocabulary.encode(seen), most=1000)

    assert kept.documents.size == 400 and kept.runs.size == 1000
    assert kept.n_runs == 400 * 81

    few = Fingerprint.of(vocabulary, vocabulary.encode(seen), most=100)
    noticed = few.overlap(vocabulary, vocabulary.encode(seen)).mean()
    assert abs(noticed - few.chance_to_notice(100)) < 0.08


@pytest.mark.parametrize("n_words", [1, 7, 8, 19, 20, 60])
def test_the_chance_to_notice_is_that_of_documents_of_every_length(vocabulary, rng, n_words):
    """A document that is too short to be compared is never noticed, and no chance is claimed."""
    seen = texts(rng, 300, n_words)
    kept = Fingerprint.of(vocabulary, vocabulary.encode(seen))
    noticed = kept.overlap(vocabulary, vocabulary.encode(seen)).mean()

    assert noticed == kept.chance_to_notice(n_words) == (n_words >= 8)


def test_blocks_and_huge_documents_change_nothing(vocabulary, rng, monkeypatch):
    seen = texts(rng, 30, 50) + texts(rng, 1, 3000)
    encoded = vocabulary.encode(seen)
    whole = Fingerprint.of(vocabulary, encoded)

    monkeypatch.setattr(module, "_BLOCK_TOKENS", 300)
    cut = Fingerprint.of(vocabulary, encoded)

    np.testing.assert_array_equal(whole.runs, cut.runs)
    assert (whole.n_documents, cut.n_documents) == (31, 30)  # the huge one by its runs alone
    assert set(cut.documents) < set(whole.documents)
