import numpy as np

from pacsent import Corpus


def test_a_corpus_keeps_documents_and_drops_rare_words(tmp_path):
    corpus = Corpus.build(["b a a", "", "c b a"], tmp_path / "corpus", min_count=2)
    assert corpus.vocabulary.words == ["a", "b"]
    assert corpus.vocabulary.counts.tolist() == [3, 2]
    assert corpus.ids.tolist() == [1, 0, 0, 1, 0]
    assert corpus.offsets.tolist() == [0, 3, 3, 5]
    assert corpus.n_unknown == 1
    assert corpus.digest == corpus.vocabulary.digest(["b a a", "", "c b a"])
    assert np.array_equal(Corpus.open(tmp_path / "corpus").ids, corpus.ids)
