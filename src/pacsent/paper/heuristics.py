"""The heuristics of Nozawa and Sato as finitely many hypotheses: role, alpha, weights, threshold.

A hypothesis reads the first words of a document and calls w a word of the document if

    h.C_w > threshold,    h = sum_v weight(v) (A_v + alpha B_v) / ((1 + alpha) sum_v weight(v))

With the role "input", A and C are the input vectors and B the output vectors: alpha 0 is Average,
alpha 1 both-Average. "output" swaps them, as the prefix i- does. "both" scores by the mean of the
two. Weights are those of the paper's averages (uniform, IDF, sub-sampling) with counts of the
source corpus, so that nothing depends on the documents at hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from pacsent.paper.continuation import cut, draw_noise
from pacsent.paper.encoder_certificate import NOISE_POWER
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors

ROLES = ("input", "output", "both")
ALPHAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, np.inf)
WEIGHTS = ("uniform", "IDF", "SIF 1e-2", "SIF 1e-3", "SIF 1e-4", "sub-sampling 1e-4")
# Thresholds are quantiles of the scores of random words in the reference documents: the fraction
# of random words that is rightly called noise.
NOISE_QUANTILES = (0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)
N_NOISE = 128  # random words scored for each document
_DOCUMENTS_PER_BLOCK = 32


@dataclass(frozen=True)
class Heuristics:
    """All hypotheses over one set of word vectors, in the order of `hypothesis_names`."""

    words: WordVectors
    thresholds: np.ndarray  # (n_rules, n_thresholds), one rule for each role, alpha and weight

    @property
    def n_hypotheses(self) -> int:
        return self.thresholds.size

    def losses(self, documents: Encoded, rng: np.random.Generator) -> np.ndarray:
        """Loss of each hypothesis on each document, (n_documents, n_hypotheses), in [0, 1].

        Half the fraction of the words after the first 80% that are called noise, and half the
        fraction of `N_NOISE` random words that are called words of the document.
        """
        thresholds = self.thresholds[:, :, None]
        blocks = []
        for rows, following, noise in _scores(self.words, documents, rng):
            # (n_rules, n_thresholds, n_scored)
            is_missed = following.scores[:, None, :] <= thresholds
            is_false = noise.scores[:, None, :] > thresholds
            missed_fraction = following.mean_by_document(is_missed)
            false_fraction = noise.mean_by_document(is_false)
            loss = 0.5 * missed_fraction + 0.5 * false_fraction
            block = loss.reshape(self.n_hypotheses, rows.size).T
            blocks.append(block.astype(np.float32))
        return np.concatenate(blocks)

    def expected_losses(self, documents: Encoded) -> np.ndarray:
        """Expectation of `losses` over the random words, which costs a score of every word."""
        p_noise = self.words.vocabulary.noise_probabilities(NOISE_POWER)
        n_words = p_noise.size
        all_ids = np.arange(n_words)
        thresholds = self.thresholds[:, :, None]
        blocks = []
        for rows, means, tail in _blocks(self.words, documents):
            following_lengths = np.diff(tail.offsets)
            following = _score_words(self.words, means, tail.ids, following_lengths)

            # Every word of the vocabulary for each document.
            ids = np.tile(all_ids, rows.size)
            lengths = np.full(rows.size, n_words)
            vocabulary = _score_words(self.words, means, ids, lengths)

            # (n_rules, n_thresholds, n_scored)
            is_missed = following.scores[:, None, :] <= thresholds
            is_false = vocabulary.scores[:, None, :] > thresholds
            missed_fraction = following.mean_by_document(is_missed)
            # (n_rules, n_thresholds, n_documents)
            false_fraction = is_false.reshape(*is_false.shape[:2], rows.size, n_words) @ p_noise
            loss = 0.5 * missed_fraction + 0.5 * false_fraction
            blocks.append(loss.reshape(self.n_hypotheses, rows.size).T)
        return np.concatenate(blocks)


def make_heuristics(words: WordVectors, reference: Encoded, rng: np.random.Generator) -> Heuristics:
    """The hypotheses with thresholds from `reference` documents, which are never certified."""
    noise_scores = [noise.scores for _, _, noise in _scores(words, reference, rng)]
    all_scores = np.concatenate(noise_scores, axis=1)  # (n_rules, n_scored)
    thresholds = np.quantile(all_scores, NOISE_QUANTILES, axis=1).T
    return Heuristics(words, np.ascontiguousarray(thresholds))


def word_weights(words: WordVectors) -> np.ndarray:
    """Weight of every word under each of `WEIGHTS`, (n_weights, n_words), from source counts."""
    counts = words.vocabulary.require_counts("the weights of words")
    counts = np.maximum(counts, 1).astype(float)
    frequency = counts / counts.sum()

    weights = [np.ones_like(frequency), -np.log(frequency)]
    for a in (1e-2, 1e-3, 1e-4):  # the parameter of SIF
        weights.append(a / (a + frequency))
    weights.append(words.vocabulary.keep_probabilities(1e-4))
    return np.stack(weights)


@cache
def hypothesis_names() -> tuple[str, ...]:
    """Role, alpha, weights and threshold of each hypothesis, in the order of the losses.

    >>> len(hypothesis_names()), hypothesis_names()[0]
    (1008, 'role input, alpha 0, weights uniform, threshold above 0.4 of random words')
    """
    names = []
    for weight, role, alpha, quantile in product(WEIGHTS, ROLES, ALPHAS, NOISE_QUANTILES):
        rule = f"role {role}, alpha {alpha:g}, weights {weight}"
        names.append(f"{rule}, threshold above {quantile:g} of random words")
    return tuple(names)


@dataclass(frozen=True)
class _Scored:
    """Scores of words by every rule, and the document of each word, in ascending order."""

    scores: np.ndarray  # (n_rules, n_scored)
    lengths: np.ndarray  # (n_documents,): scored words of each, at least one

    def mean_by_document(self, values: np.ndarray) -> np.ndarray:
        """Mean over the words of each document along the last axis."""
        ends = np.cumsum(self.lengths)
        starts = np.concatenate([[0], ends[:-1]])
        sums = np.add.reduceat(values, starts, axis=-1, dtype=np.float32)
        return sums / self.lengths


def _blocks(
    words: WordVectors, documents: Encoded
) -> Iterator[tuple[np.ndarray, np.ndarray, Encoded]]:
    """Blocks of documents: (rows, weighted means of their first words, words that follow)."""
    heads, tails = cut(documents)
    weights = word_weights(words)
    for start in range(0, documents.n_sentences, _DOCUMENTS_PER_BLOCK):
        stop = min(start + _DOCUMENTS_PER_BLOCK, documents.n_sentences)
        rows = np.arange(start, stop)
        means = _weighted_means(words, heads.take(rows), weights)
        yield rows, means, tails.take(rows)


def _scores(
    words: WordVectors, documents: Encoded, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, _Scored, _Scored]]:
    """Blocks of documents: (rows, scores of the words that follow, scores of random words)."""
    p_noise = words.vocabulary.noise_probabilities(NOISE_POWER)
    cumulative = np.cumsum(p_noise)
    for rows, means, tail in _blocks(words, documents):
        noise = draw_noise(cumulative, (rows.size, N_NOISE), rng)
        noise_lengths = np.full(rows.size, N_NOISE)

        following = _score_words(words, means, tail.ids, np.diff(tail.offsets))
        random_words = _score_words(words, means, noise.ravel(), noise_lengths)
        yield rows, following, random_words


def _both_matrices(words: WordVectors) -> tuple[np.ndarray, np.ndarray]:
    """The input and the output vectors, each (n_words, n_dims)."""
    if words.output_vectors is None:
        raise ValueError("The word vectors must have output vectors as well. Got input vectors.")
    return words.input_vectors, words.output_vectors


def _weighted_means(words: WordVectors, heads: Encoded, weights: np.ndarray) -> np.ndarray:
    """Means of both matrices under each weight, (2, n_documents, n_weights, n_dims)."""
    lengths = np.diff(heads.offsets)
    starts = heads.offsets[:-1]
    weight = weights[:, heads.ids]  # (n_weights, n_tokens)
    total = np.add.reduceat(weight, starts, axis=1)  # (n_weights, n_documents)
    total_of_tokens = np.repeat(total, lengths, axis=1)
    weight = (weight / total_of_tokens).astype(np.float32)

    means = []
    for table in _both_matrices(words):
        vectors = np.asarray(table[heads.ids], dtype=np.float32)  # (n_tokens, n_dims)
        of_documents = []
        for start, length in zip(starts.tolist(), lengths.tolist()):
            tokens = slice(start, start + length)
            of_documents.append(weight[:, tokens] @ vectors[tokens])
        means.append(np.stack(of_documents))
    return np.stack(means)


def _score_words(
    words: WordVectors, means: np.ndarray, ids: np.ndarray, lengths: np.ndarray
) -> _Scored:
    """Scores of the words `ids`, of which each document has `lengths`, by every rule."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n_weights = means.shape[2]
    # products[a, b]: mean in matrix a times vector in matrix b, (n_weights, n_scored)
    products = np.empty((2, 2, n_weights, ids.size), dtype=np.float32)
    for b, table in enumerate(_both_matrices(words)):
        vectors = np.asarray(table[ids], dtype=np.float32)
        for document in range(lengths.size):
            part = slice(offsets[document], offsets[document + 1])
            products[0, b, :, part] = means[0, document] @ vectors[part].T
            products[1, b, :, part] = means[1, document] @ vectors[part].T

    # For each role: products of its own mean, and of the mean that alpha adds to it.
    both = 0.5 * (products[:, 0] + products[:, 1])  # scored by the mean of the two matrices
    of_role = {
        "input": (products[0, 0], products[1, 0]),
        "output": (products[1, 1], products[0, 1]),
        "both": (both[0], both[1]),
    }
    mixed = []
    for role in ROLES:
        own, other = of_role[role]
        of_alphas = [_mix(own, other, alpha) for alpha in ALPHAS]
        mixed.append(np.stack(of_alphas, axis=1))
    # (n_weights, n_roles, n_alphas, n_scored), the order of `hypothesis_names`
    scores = np.stack(mixed, axis=1)
    return _Scored(scores.reshape(-1, ids.size), lengths)


def _mix(own: np.ndarray, other: np.ndarray, alpha: float) -> np.ndarray:
    """(own + alpha other) / (1 + alpha), also for an infinite alpha."""
    share = 1.0 if np.isinf(alpha) else alpha / (1.0 + alpha)
    return (1.0 - share) * own + share * other
