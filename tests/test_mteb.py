"""The encoder for mteb: what its protocol asks for, and mteb itself where it is installed."""

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors, make
from pacsent.paper.mteb import Encoder


@pytest.fixture(scope="module")
def words():
    tables = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    return WordVectors(Vocabulary(["the", "good", "film", "bad"], [40, 30, 20, 10]), *tables)


BATCHES = [{"text": ["the good film", "bad"]}, {"text": ["unknown"]}]


def test_batches_become_one_table_of_vectors(words):
    encoder = Encoder(words)
    found = encoder.encode(BATCHES, task_metadata=None, hf_split="test", prompt_type=None)
    expected = (
        make("SIF-sum", words, on_empty="ignore")
        .fit([])
        .transform(["the good film", "bad", "unknown"])
    )
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    assert found.dtype == np.float32 and not found[2].any()


def test_similarities_are_cosines_and_0_without_a_vector(words):
    encoder = Encoder(words, "Average")
    A = np.array([[1.0, 0.0], [0.0, 0.0]])
    B = np.array([[2.0, 2.0], [0.0, -3.0]])
    np.testing.assert_allclose(encoder.similarity(A, B), [[0.5**0.5, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(encoder.similarity_pairwise(A, B), [0.5**0.5, 0], atol=1e-15)
    assert encoder.similarity(A[0], B).shape == (1, 2)


def test_a_fitted_vectorizer_is_taken_as_it_is_and_one_to_be_fitted_refused(words):
    fitted = make("IDF-Average", words).fit(["the good film", "the bad film"])
    assert Encoder(fitted).vectorizer is fitted
    with pytest.raises(ValueError, match="learns from text first"):
        Encoder(words, "PB-neg")


@pytest.mark.extra
def test_mteb_takes_it_for_an_encoder_and_scores_it(words):
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import EncoderProtocol

    class Pairs(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Pairs", description="", reference=None, type="STS", category="t2t",
            dataset={"path": "local", "revision": "local"}, modalities=["text"],
            eval_splits=["test"], eval_langs=["eng-Latn"], main_score="cosine_spearman",
            bibtex_citation="",
        )  # fmt: skip

        def load_data(self, *args, **kwargs):
            first, second = ["the good film", "good", "bad"], ["good film", "bad", "bad film"]
            columns = {"sentence1": first, "sentence2": second, "score": [5.0, 0.0, 3.0]}
            self.dataset = DatasetDict(test=Dataset.from_dict(columns))
            self.data_loaded = True

    encoder = Encoder(words, "Average")
    assert isinstance(encoder, EncoderProtocol)
    assert encoder.mteb_model_meta.name == "pacsent/words-Average"
    [result] = mteb.evaluate(
        encoder, Pairs(), cache=None, co2_tracker=False, show_progress_bar=False
    ).task_results
    [scores] = result.scores["test"]
    A, B = (encoder.vectorizer.transform(texts) for texts in
            (["the good film", "good", "bad"], ["good film", "bad", "bad film"]))  # fmt: skip
    ranks = np.argsort(np.argsort(encoder.similarity_pairwise(A, B)))
    expected = np.corrcoef(ranks, [2, 0, 1])[0, 1]
    assert scores["cosine_spearman"] == pytest.approx(expected, abs=1e-6)
