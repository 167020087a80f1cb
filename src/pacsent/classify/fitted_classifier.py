"""`FittedTextClassifier`, the frozen state of a fitted classifier, which predicts and is saved."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import log_expit

from pacsent.certify.near_duplicates import SKETCH_SIZE
from pacsent.certify.scores import log_probabilities
from pacsent.classify.fitting import CharacterWeight, OutOfFold
from pacsent.classify.multilabel import LabelThresholds
from pacsent.kernels.ngrams import HashTable
from pacsent.sentences.encoder import Encoder
from pacsent.sentences.methods.closed_forms import ClosedForm
from pacsent.storage.array_fields import StoredArray
from pacsent.text.ngrams import NGrams, unknown_shares
from pacsent.text.texts import as_sentences, as_texts
from pacsent.threads import in_order
from pacsent.words.word_hashes import are_subwords, vocabulary_hashes

# Texts per batch: few enough that encoders start no threads inside those of the batches.
_BATCH_TEXTS = 1000
# The most frequent words of the encoder that count as known; rarer ones include words of other
# languages.
N_COMMON_WORDS = 20_000
# With larger weights a sum in single precision may overflow.
MAX_WEIGHT = 1e12


def _weights(name: str, *shape: str, dtype: type = np.float32) -> StoredArray:
    return StoredArray(name, dtype, shape, low=-MAX_WEIGHT, below=MAX_WEIGHT)


class NGramScores(NamedTuple):
    """Decision values of the model on n-grams of words and of the one on n-grams of characters.

    The decision is their mean, in which the characters have the weight `character_weights`.
    """

    character_weights: np.ndarray  # (n_texts,)
    word_values: np.ndarray  # (n_texts, n_columns), without sentence vectors and intercept
    character_values: np.ndarray  # (n_texts, n_columns), with their intercept


@dataclass(frozen=True, eq=False)
class TextModel:
    """Texts to decision values: the mean of two linear models.

    One has n-grams of words and sentence vectors as features, the other n-grams of characters. Each
    class is a column; of two classes the second alone.
    """

    ngrams: NGrams
    coef_ngrams: Annotated[np.ndarray, _weights("coef_ngrams", "n_ngrams", "n_columns")]
    encoder: Encoder | None
    coef_dense: Annotated[np.ndarray, _weights("coef_dense", "n_dims", "n_columns")]
    intercept: Annotated[np.ndarray, _weights("intercept", "n_columns", dtype=np.float64)]
    # The mean sentence vector of the training texts.
    mean_vector: Annotated[np.ndarray, _weights("mean_vector", "n_dims", dtype=np.float64)]
    characters: NGrams  # none where the model on characters has no weight
    coef_characters: Annotated[
        np.ndarray, _weights("characters.coef", "n_character_ngrams", "n_columns")
    ]
    intercept_characters: Annotated[
        np.ndarray, _weights("characters.intercept", "n_columns", dtype=np.float64)
    ]
    character_weight: CharacterWeight

    @property
    def n_columns(self) -> int:
        """Number of decision values per text."""
        return self.intercept.size

    def stream(self, texts: Iterable[str], n_jobs: int | None = None) -> Iterator[np.ndarray]:
        """Decision values in batches, each (n_batch, n_columns), in constant memory."""
        sentences = iter(as_sentences(texts, "texts"))

        def next_batch() -> list[str]:
            return as_texts(list(islice(sentences, _BATCH_TEXTS)))

        batches = iter(next_batch, [])
        return in_order(self._decide, batches, n_jobs)

    def decision_values(self, texts: Iterable[str], n_jobs: int | None = None) -> np.ndarray:
        """Decision values of all texts, (n_texts, n_columns)."""
        batches = list(self.stream(texts, n_jobs))
        if not batches:
            return np.zeros((0, self.n_columns))
        return np.concatenate(batches)

    def _decide(self, texts: list[str]) -> np.ndarray:
        scores = self.score_ngrams(texts)
        dense_values = self.encode(texts) @ self.coef_dense
        return self._combine(scores, dense_values)

    def _combine(self, scores: NGramScores, dense_values: np.ndarray) -> np.ndarray:
        """Decision values from those of n-grams and of sentence vectors, each (n, n_columns)."""
        values = scores.word_values
        values += dense_values + self.intercept
        values += scores.character_weights[:, None] * (scores.character_values - values)
        return values

    def decide_each(self, groups: Sequence[list[str]]) -> np.ndarray:
        """`decision_values` of each group of texts, one after the other, in fewer passes.

        The numbers are those of calls for each group, bit for bit: nothing but the product of
        matrices depends on the texts that are passed together.
        """
        sizes = [len(texts) for texts in groups]
        are_small = all(size <= _BATCH_TEXTS for size in sizes)
        if not (are_small and self.encodes_each_text_alone):
            return np.concatenate([self.decision_values(texts, n_jobs=1) for texts in groups])

        all_texts = as_texts(list(chain.from_iterable(groups)))
        scores = self.score_ngrams(all_texts)
        vectors = self.encode(all_texts)  # (n_texts, n_dims)
        ends = np.cumsum(sizes)
        group_vectors = np.split(vectors, ends[:-1])
        products = [part @ self.coef_dense for part in group_vectors]
        return self._combine(scores, np.concatenate(products))

    @property
    def encodes_each_text_alone(self) -> bool:
        """True if sentence vectors do not depend on texts encoded with them, in any bit."""
        parts = () if self.encoder is None else self.encoder.parts
        return all(isinstance(part, ClosedForm) for part in parts)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Sentence vectors of the texts, (n_texts, n_dims)."""
        return encode_texts(self.encoder, texts)

    def score_ngrams(self, texts: list[str]) -> NGramScores:
        """Both parts of the decision that n-grams make, and the weight of the characters.

        The weight does not rise with a text's OOV words where its characters are unknown as well.
        """
        weight = self.character_weight
        needs_oov_rates = weight.usual < 1.0
        encoder_words = list_encoder_words(self.encoder) if needs_oov_rates else None
        word_values, oov_rates = self.ngrams.scores_and_unknown(
            texts, self.coef_ngrams, encoder_words
        )

        character_weights = weight.of(oov_rates)
        character_values = np.zeros_like(word_values)
        rows = np.flatnonzero(character_weights)
        if rows.size:
            weighted_texts = [texts[row] for row in rows]
            character_values[rows] = self.characters.scores(weighted_texts, self.coef_characters)
            is_unknown = ~character_values[rows].any(axis=1)
            character_weights[rows[is_unknown]] = weight.least

        return NGramScores(
            character_weights=character_weights,
            word_values=word_values,
            character_values=character_values + self.intercept_characters,
        )

    @property
    def lists_words(self) -> bool:
        """True if it can list the words that it knows: those of n-grams and of an encoder."""
        has_single_words = self.ngrams.sizes[0] == 1
        return has_single_words and list_encoder_words(self.encoder) is not None

    def coverage(self, texts: list[str]) -> np.ndarray:
        """The fraction of each text's words that are known, (n_texts,)."""
        known = [self.ngrams.table]
        common_words = list_encoder_words(self.encoder, N_COMMON_WORDS)
        if common_words is not None:
            known.append(common_words)
        return 1.0 - unknown_shares(texts, known)


@dataclass(frozen=True, eq=False)
class FittedTextClassifier:
    """The state of a fitted `TextClassifier`: all that `fit_classifier` learns."""

    classes: np.ndarray  # (n_classes,)
    target_type: str  # "classes", "sets" or "indicator"
    model: TextModel
    inverse_temperatures: np.ndarray  # (n,), whose probabilities are averaged; unused with sets
    label_thresholds: LabelThresholds | None  # with several labels per text
    min_coverage: float
    selection: dict[str, Any]
    out_of_fold: OutOfFold
    # Features that support each class most, and what one occurrence adds, (n_names, n_columns).
    named_features: tuple[list[str], np.ndarray]
    training_fingerprints: Annotated[np.ndarray, StoredArray("fingerprints", np.uint64, (None,))]
    training_sketches: Annotated[
        np.ndarray, StoredArray("sketches", np.uint32, (None, SKETCH_SIZE))
    ]

    @property
    def is_multilabel(self) -> bool:
        """True if texts have several labels each."""
        return self.label_thresholds is not None

    def predict_log_proba(self, texts: Iterable[str], n_jobs: int | None = None) -> np.ndarray:
        """Logarithms of the calibrated probabilities, (n_texts, n_classes)."""
        values = self.model.decision_values(texts, n_jobs)
        if self.is_multilabel:
            return log_expit(values)
        return log_probabilities(values, self.inverse_temperatures)

    def predict_log_proba_each(self, groups: Sequence[list[str]]) -> np.ndarray:
        """`predict_log_proba` of each group of texts, bit for bit, (n_texts, n_classes)."""
        values = self.model.decide_each(groups)
        if self.is_multilabel:
            return log_expit(values)
        return log_probabilities(values, self.inverse_temperatures)

    def has_no_features(self, log_proba: np.ndarray) -> np.ndarray:
        """True where a text has no known n-gram and only OOV words, (n,) of bool.

        It is read off the log-probabilities, (n, n_classes).
        """
        expected = self._without_features
        tolerance = 1e-12 + 1e-12 * np.abs(expected)
        is_expected = np.abs(log_proba - expected) <= tolerance  # (n, n_classes)
        return is_expected.all(axis=1)

    @cached_property
    def _without_features(self) -> np.ndarray:
        """Log-probabilities of a text without features, (1, n_classes): of the intercepts alone."""
        model = self.model
        difference = model.intercept_characters - model.intercept
        intercept = model.intercept + model.character_weight.least * difference
        return log_probabilities(intercept[None, :], self.inverse_temperatures)

    def are_covered(self, texts: list[str]) -> np.ndarray:
        """True where enough words of a text are known to answer it, (n_texts,) of bool."""
        model = self.model
        if not model.lists_words:
            return np.ones(len(texts), bool)

        coverage = model.coverage(texts)
        if model.encoder is not None:
            return coverage >= self.min_coverage

        # Without an encoder, one word or one n-gram of characters is enough.
        is_covered = coverage > 0
        rows = np.flatnonzero(~is_covered)
        if rows.size and len(model.characters):
            uncovered_texts = [texts[row] for row in rows]
            character_values = model.characters.scores(uncovered_texts, model.coef_characters)
            is_covered[rows] = character_values.any(axis=1)
        return is_covered


def encode_texts(encoder: Encoder | None, texts: Sequence[str]) -> np.ndarray:
    """Sentence vectors, (n_texts, n_dims); without an encoder, of no dimensions."""
    if encoder is None:
        return np.zeros((len(texts), 0), np.float32)
    return np.asarray(encoder.transform(texts), np.float32)


def list_encoder_words(encoder: Encoder | None, n_words: int | None = None) -> HashTable | None:
    """The words that an encoder knows, for `unknown_shares`; None if it does not list them.

    With `n_words` only that number of each vocabulary: the first ones, the most frequent.
    """
    parts = () if encoder is None else encoder.parts
    vocabularies = []
    for part in parts:
        if part.word_vectors is None:
            return None
        vocabularies.append(part.word_vectors.vocabulary)
    return _known_words(*vocabularies, n_words=n_words)


@lru_cache(maxsize=8)
def _known_words(*vocabularies: Any, n_words: int | None = None) -> HashTable:
    hashes = [np.empty(0, np.uint64)]
    for vocabulary in vocabularies:
        is_word = ~are_subwords(vocabulary)[:n_words]
        hashes.append(vocabulary_hashes(vocabulary)[:n_words][is_word])

    # The sorted distinct values: np.unique takes five times as long.
    ordered = np.sort(np.concatenate(hashes))
    is_new = ordered != 0  # 0 is no word
    is_new[1:] &= ordered[1:] != ordered[:-1]
    return HashTable(ordered[is_new])
