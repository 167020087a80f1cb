"""Labelled texts to a `FittedTextClassifier`: the computation of `TextClassifier.fit`.

Labels are parsed, features are made of the texts, candidates are compared by `fitting`, and
everything that prediction and explanation need becomes one frozen state.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from pacsent.bounds.rounding import format_count
from pacsent.certify.columns import materialize, sample_weights, warn_caller
from pacsent.certify.labels import Labels
from pacsent.certify.near_duplicates import near_duplicate_clusters, sketches
from pacsent.classify import fitting, multilabel
from pacsent.classify.explanation import name_features
from pacsent.classify.fitted_classifier import (
    N_COMMON_WORDS,
    FittedTextClassifier,
    TextModel,
    encode_texts,
    list_encoder_words,
)
from pacsent.classify.options import (
    MAX_FEW_CLASSES,
    apply_class_weight,
    as_scales,
    check_ngram_sizes,
)
from pacsent.kernels.ngrams import HashTable
from pacsent.memory import return_freed_memory
from pacsent.sentences import SentenceVectorizer, make_encoder
from pacsent.sentences.encoder import Encoder
from pacsent.sentences.external_encoders import ConcatenatedEncoder, as_encoder, is_stored
from pacsent.storage import is_model_name, load
from pacsent.text.ngrams import NGrams, fingerprints, nonempty_rows, unknown_shares
from pacsent.threads import n_threads
from pacsent.words.vectors import WordVectors

# From this number of texts on, an n-gram must occur in two of them.
_MIN_TEXTS_FOR_PRUNING = 5_000
# From this number of texts, and of characters per text, on, trigrams of words are features.
_MIN_TEXTS_FOR_TRIGRAMS = 5_000
_MIN_LENGTH_FOR_TRIGRAMS = 600
# A text is answered if at least this fraction of its words are known, by the training texts or as
# one of the most frequent words of the encoder (benchmarks/drift.py, "coverage": at most 0.1% of
# the texts of four sets have less; most texts of other languages do).
_MIN_COVERAGE = 0.4
# The threshold is at most half of this quantile of the training texts' coverage by other texts.
_USUAL_COVERAGE_QUANTILE = 0.1
# Sentence vectors that are squared in double precision at once.
_BLOCK_ROWS = 1 << 13


@dataclass(frozen=True)
class TrainingTexts:
    """Texts that a classifier is fitted on: none is empty, and every class has two or more."""

    texts: list[str]
    labels: Labels
    weights: np.ndarray  # (n,)
    near_duplicates: np.ndarray  # (n,), the same number for texts that almost repeat each other

    @property
    def clusters(self) -> np.ndarray:
        """Texts that are left out together: those of a group, or near-duplicates, (n,)."""
        groups = self.labels.groups
        return self.near_duplicates if groups is None else groups

    @property
    def has_many_classes(self) -> bool:
        """True if there are more classes than `MAX_FEW_CLASSES`: each has few of the texts."""
        return not self.labels.is_multilabel and self.labels.classes.size > MAX_FEW_CLASSES


def fit_classifier(
    texts: list[str],
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    encoder: Any,
    method: str,
    ngrams: str | tuple[int, int],
    weighting: str,
    selection: str,
    Cs: Sequence[float],
    dense_scales: str | Sequence[float],
    class_weight: str | dict | None,
    characters: tuple[int, int] | None,
    n_jobs: int | None,
) -> FittedTextClassifier:
    """Fit a text classifier.

    Parameters
    ----------
    texts : list of str
    y : one label, or set of labels, for each text; or an indicator matrix
    sample_weight, groups : as `TextClassifier.fit` takes them
    encoder, method, ngrams, weighting, selection : parameters of `TextClassifier`
    Cs, dense_scales, class_weight, characters, n_jobs : parameters of `TextClassifier`

    Returns
    -------
    FittedTextClassifier
    """
    training = select_training_texts(
        texts, y, sample_weight, groups, class_weight=class_weight, selection=selection
    )
    texts = training.texts
    selection = choose_selection(selection, training)
    candidates = make_candidates(training, selection, Cs, dense_scales, weighting)
    threads = n_threads(n_jobs)
    features = make_features(texts, encoder, method, ngrams, n_jobs)
    word_ngrams = features.ngrams
    X = features.X

    # The linear model on n-grams of words and on sentence vectors.
    rows = make_rows(training, features)
    min_coverage = choose_min_coverage(training, word_ngrams, X, features.encoder)
    linear, label_thresholds = fit_linear_model(rows, training, candidates, selection, threads)

    # What follows needs no sentence vectors: of many texts they are the largest array.
    no_vectors = np.zeros((len(texts), 0), np.float32)
    rows = dataclasses.replace(rows, E=no_vectors)
    features = dataclasses.replace(features, E=no_vectors)
    return_freed_memory()

    # The linear model on n-grams of characters, and the mean of both.
    character_ngrams = None
    if characters is not None and not training.labels.is_multilabel:
        character_sizes = check_ngram_sizes(characters, "characters")
        character_ngrams = count_ngrams(texts, character_sizes, threads, characters=True)
    if character_ngrams is not None and len(character_ngrams):
        linear_characters = fit_character_model(
            character_ngrams, rows, training, candidates, selection, threads
        )
        return_freed_memory()
        oov_rates = measure_oov_rates(training, word_ngrams, X, features.encoder)
        linear = fitting.with_characters(linear, linear_characters, rows, oov_rates)

    model = make_text_model(
        linear,
        word_ngrams,
        character_ngrams,
        features.encoder,
        features.mean_vector,
        features.vector_scale,
    )
    report = dict(linear.report)
    out_of_fold = report.pop("out_of_fold")
    report["n_texts"] = len(texts)
    inverse_temperatures = report.get("inverse_temperature", [1.0])
    mean_length = float(features.lengths.mean())

    # Where all pairs of words are features, near-duplicates are found by these counts.
    has_all_pairs = word_ngrams.sizes == (1, 2) and len(texts) < _MIN_TEXTS_FOR_PRUNING
    pair_counts = (word_ngrams, X) if has_all_pairs else None
    return FittedTextClassifier(
        classes=training.labels.classes,
        target_type=training.labels.target_type,
        model=model,
        inverse_temperatures=np.array(inverse_temperatures),
        label_thresholds=label_thresholds,
        min_coverage=min_coverage,
        selection=report,
        out_of_fold=out_of_fold,
        named_features=name_features(model, texts, mean_length),
        training_fingerprints=np.unique(fingerprints(texts)),
        training_sketches=sketches(texts, pair_counts),
    )


# ---- labels and texts ----------------------------------------------------------------------------


def select_training_texts(
    texts: list[str],
    y: Any,
    sample_weight: Any,
    groups: Any,
    *,
    class_weight: str | dict | None,
    selection: str,
) -> TrainingTexts:
    """Parse the labels; leave out empty texts, and classes of a single text."""
    refuse_sets = None
    if class_weight is not None or selection == "loss":
        refuse_sets = (
            "With several labels per text, class_weight must be None and selection auto or "
            f"folds. Got {class_weight!r} and {selection!r} instead."
        )
    labels = Labels.parse(materialize(y), len(texts), refuse_sets=refuse_sets)
    weights = sample_weights(sample_weight, len(texts))
    labels = labels.with_groups(groups)

    rows = nonempty_rows(texts)
    if rows.size == 0:
        rows = np.arange(len(texts))
    elif rows.size < len(texts):
        empty_texts = format_count(len(texts) - rows.size, "empty text")
        warn_caller(f"{empty_texts} left out.")

    learnable_rows, labels = labels.learnable(rows)
    learnable_texts = [texts[row] for row in learnable_rows]
    weights = weights[learnable_rows]
    if not labels.is_multilabel:
        weights = apply_class_weight(weights, class_weight, labels.classes, labels.encoded)
    clusters = near_duplicate_clusters(learnable_texts)
    return TrainingTexts(learnable_texts, labels, weights, clusters)


# ---- features ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextFeatures:
    """The n-grams of words of texts, and their sentence vectors."""

    ngrams: NGrams
    X: sparse.csr_matrix  # (n, n_ngrams)
    lengths: np.ndarray  # (n,), of the rows of X before they were scaled to 1
    encoder: Encoder | None
    E: np.ndarray  # (n, n_dims), centred and scaled to a mean square of 1
    mean_vector: np.ndarray  # (n_dims,)
    vector_scale: float


def make_features(
    texts: list[str], encoder: Any, method: str, ngrams: str | tuple[int, int], n_jobs: int | None
) -> TextFeatures:
    """Count the n-grams of texts and encode them."""
    threads = n_threads(n_jobs)
    sizes = choose_ngram_sizes(texts) if ngrams == "auto" else check_ngram_sizes(ngrams)
    word_ngrams = count_ngrams(texts, sizes, threads)
    if len(word_ngrams) == 0:
        raise ValueError(
            "texts must have words. Got no word in any of them instead. Check which column "
            "holds the text."
        )
    X, lengths = word_ngrams.tf_idf_and_lengths(texts, threads)

    text_encoder = make_text_encoder(encoder, method, n_jobs)
    if text_encoder is not None:
        text_encoder = text_encoder.fit(texts)
    return_freed_memory()  # of batches of n-grams
    # The vectors get no name here: `standardize` frees them early.
    E, mean_vector, vector_scale = standardize(encode_texts(text_encoder, texts))
    return_freed_memory()  # of batches of vectors
    return TextFeatures(word_ngrams, X, lengths, text_encoder, E, mean_vector, vector_scale)


def make_rows(training: TrainingTexts, features: TextFeatures) -> fitting.Labelled:
    """The rows of the linear model on n-grams of words and vectors."""
    labels = training.labels
    return fitting.Labelled(
        X=features.X,
        E=features.E,
        labels=labels.encoded,
        n_classes=labels.classes.size,
        weights=training.weights,
        are_rare=training.has_many_classes,
    )


def make_character_rows(rows: fitting.Labelled, X: sparse.csr_matrix) -> fitting.Labelled:
    """The same rows with n-grams of characters, X, and no vectors."""
    no_vectors = np.zeros((X.shape[0], 0), np.float32)
    return dataclasses.replace(rows, X=X, E=no_vectors)


def choose_ngram_sizes(texts: list[str]) -> tuple[int, int]:
    """Smallest and largest number of words in a row: trigrams for many long texts."""
    n_characters = sum(map(len, texts))
    are_long = n_characters >= _MIN_LENGTH_FOR_TRIGRAMS * len(texts)
    are_many = len(texts) >= _MIN_TEXTS_FOR_TRIGRAMS
    return (1, 3) if are_long and are_many else (1, 2)


def count_ngrams(
    texts: list[str], sizes: tuple[int, int], threads: int, characters: bool = False
) -> NGrams:
    """The n-grams of texts; with many texts only those that occur in two of them."""
    min_texts = 2 if len(texts) >= _MIN_TEXTS_FOR_PRUNING else 1
    return NGrams.of(texts, sizes, min_texts=min_texts, n_threads=threads, characters=characters)


def make_text_encoder(encoder: Any, method: str, n_jobs: int | None) -> Encoder | None:
    """The unfitted encoder of a `TextClassifier` with these parameters; None without one."""
    if encoder is None:
        return None
    if isinstance(encoder, list | tuple) and not is_stored(encoder):
        parts = [make_text_encoder(part, method, n_jobs) for part in encoder]
        return ConcatenatedEncoder(parts)

    if isinstance(encoder, str | Path) and is_model_name(encoder):
        encoder = load_english() if encoder == "english" else load(encoder)
    if isinstance(encoder, WordVectors):
        return _make_word_encoder(encoder, method, n_jobs)
    if isinstance(encoder, SentenceVectorizer):
        return clone(encoder).set_params(on_empty="ignore")
    return as_encoder(encoder)


def _make_word_encoder(words: WordVectors, method: str, n_jobs: int | None) -> Encoder:
    averages = make_encoder(method, words, on_empty="ignore", n_jobs=n_jobs)
    averages.set_known_params(random_state=fitting.FOLD_SEED)
    if words.sentences is None:
        return averages

    distilled = clone(words.sentences).set_params(on_empty="ignore", n_jobs=n_jobs)
    if words.counts is None:  # static embeddings of another program
        return distilled
    return ConcatenatedEncoder([averages, distilled])


# The word vectors that come with the package, opened and unpacked once in a process.
load_english = cache(partial(load, "english"))


def standardize(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Vectors centred and scaled to a mean square of 1, (n, n_dims); their mean, and the scale.

    The scale is the root mean square of the lengths of the centred vectors.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    mean_single = mean.astype(np.float32)
    centred = np.subtract(vectors, mean_single, order="C")
    del vectors  # of many texts the largest array; the caller keeps none of it

    squares = np.empty(len(centred))  # (n,)
    for start in range(0, len(centred), _BLOCK_ROWS):
        block_rows = slice(start, start + _BLOCK_ROWS)
        block = centred[block_rows].astype(np.float64)
        squares[block_rows] = (block**2).sum(axis=1)

    mean_square = max(float(squares.mean()), 1e-30)
    scale = np.sqrt(mean_square)
    centred *= np.float32(1.0 / scale)
    return centred, mean, scale


# ---- the linear models ---------------------------------------------------------------------------


def make_candidates(
    training: TrainingTexts,
    selection: str,
    Cs: Sequence[float],
    dense_scales: str | Sequence[float],
    weighting: str,
) -> fitting.Candidates:
    """The candidates by the parameters of a `TextClassifier`."""
    chosen_scales = choose_dense_scales(dense_scales, selection)
    return fitting.Candidates(
        Cs=as_scales(Cs, "Cs"),
        dense_scales=as_scales(chosen_scales, "dense_scales"),
        weightings=choose_weightings(weighting, training),
    )


def choose_selection(selection: str, training: TrainingTexts) -> str:
    """The measure by which candidates are chosen: "loss" or "folds"."""
    if selection != "auto":
        return selection
    are_few = len(training.texts) <= fitting.MAX_FEW_TEXTS
    return "loss" if are_few and not training.labels.is_multilabel else "folds"


def choose_dense_scales(dense_scales: str | Sequence[float], selection: str) -> Sequence[float]:
    """The scales of the vectors that are tried: those given, or with "auto" more by loss."""
    if not isinstance(dense_scales, str):
        return dense_scales
    wider_scales = fitting.WIDER_SCALES if selection == "loss" else ()
    return fitting.DENSE_SCALES + wider_scales


def choose_weightings(weighting: str, training: TrainingTexts) -> tuple[str, ...]:
    """The weightings of n-grams that are tried: the one given, or with "auto" all of them.

    Naive Bayes' ratios are of one class: with many classes they would take most of the time, and
    a class of few texts hardly has any.
    """
    if weighting != "auto":
        return (weighting,)
    return ("tf-idf",) if training.has_many_classes else fitting.WEIGHTINGS


def fit_linear_model(
    rows: fitting.Labelled,
    training: TrainingTexts,
    candidates: fitting.Candidates,
    selection: str,
    threads: int,
) -> tuple[fitting.Linear, multilabel.LabelThresholds | None]:
    """The average of the best candidates; thresholds with several labels per text."""
    groups = training.labels.groups
    near_duplicates = training.near_duplicates
    if training.labels.is_multilabel:
        return multilabel.fit(rows, candidates, threads, groups, near_duplicates)

    linear = fitting.fit_by_folds(rows, candidates, selection, threads, groups, near_duplicates)
    return linear, None


def fit_character_model(
    ngrams: NGrams,
    rows: fitting.Labelled,
    training: TrainingTexts,
    candidates: fitting.Candidates,
    selection: str,
    threads: int,
) -> fitting.Linear:
    """The average of the best candidates on these n-grams of characters alone, under tf-idf."""
    X = ngrams.tf_idf(training.texts, threads)
    return_freed_memory()
    character_rows = make_character_rows(rows, X)
    character_candidates = dataclasses.replace(candidates, weightings=("tf-idf",))
    linear, _ = fit_linear_model(character_rows, training, character_candidates, selection, threads)
    return linear


def make_text_model(
    linear: fitting.Linear,
    word_ngrams: NGrams,
    character_ngrams: NGrams | None,
    encoder: Encoder | None,
    mean_vector: np.ndarray,
    vector_scale: float,
) -> TextModel:
    """The weights of the model, for vectors that are neither centred nor scaled."""
    if linear.characters is None or character_ngrams is None:
        characters = make_empty_characters(linear.intercept.size)
        nothing = np.zeros(0)
        character_ngrams = NGrams((1, 1), nothing, nothing, characters=True)
    else:
        characters = linear.characters

    # Decision values are those of centred and scaled vectors.
    coef_dense = np.ascontiguousarray(linear.dense / vector_scale, np.float32)
    intercept = linear.intercept - mean_vector @ coef_dense.astype(np.float64)
    model = TextModel(
        ngrams=word_ngrams,
        coef_ngrams=np.ascontiguousarray(linear.sparse, np.float32),
        encoder=encoder,
        coef_dense=coef_dense,
        intercept=intercept,
        mean_vector=mean_vector,
        characters=character_ngrams,
        coef_characters=np.ascontiguousarray(characters.coef, np.float32),
        intercept_characters=np.asarray(characters.intercept, np.float64),
        character_weight=characters.share,
    )
    weights = (model.coef_ngrams, model.coef_characters, model.coef_dense, model.intercept)
    are_finite = all(np.isfinite(array).all() for array in weights)
    if not are_finite:
        raise ValueError(
            "The weights that were fitted must be finite. They are not: sample_weight, "
            "class_weight, Cs, dense_scales or the word vectors are too large or too small."
        )
    return model


def make_empty_characters(n_columns: int) -> fitting.Characters:
    """A model on n-grams of characters that has no feature and no weight in the decision."""
    return fitting.Characters(
        coef=np.zeros((0, n_columns)),
        intercept=np.zeros(n_columns),
        share=fitting.CharacterWeight(),
    )


# ---- in-vocabulary words -------------------------------------------------------------------------


def measure_oov_rates(
    training: TrainingTexts, ngrams: NGrams, X: sparse.csr_matrix, encoder: Encoder | None
) -> np.ndarray | None:
    """OOV rate of each text, were it a new one, (n,): words of no other text and not the encoder's.

    None if the encoder does not list its words, or the n-grams have no single words.
    """
    encoder_words = list_encoder_words(encoder)
    if encoder_words is None or ngrams.sizes[0] > 1:
        return None
    shared_words = list_shared_words(training, ngrams, X)
    return unknown_shares(training.texts, (shared_words, encoder_words))


def choose_min_coverage(
    training: TrainingTexts, ngrams: NGrams, X: sparse.csr_matrix, encoder: Encoder | None
) -> float:
    """The least coverage with which a text is answered; 0 where none is required.

    It is smaller than `_MIN_COVERAGE` for training texts in a language, or of a kind, of which the
    encoder knows few words.
    """
    # Without an encoder one in-vocabulary word is enough. Coverage counts single words: it has no
    # value for an encoder that does not list its words, or where all n-grams have several words.
    common_words = list_encoder_words(encoder, N_COMMON_WORDS)
    has_single_words = ngrams.sizes[0] == 1
    if encoder is None or common_words is None or not has_single_words:
        return 0.0

    shared_words = list_shared_words(training, ngrams, X)
    oov_rates = unknown_shares(training.texts, (shared_words, common_words))  # (n,)
    coverage = 1.0 - oov_rates
    usual_coverage = float(np.quantile(coverage, _USUAL_COVERAGE_QUANTILE))
    return min(_MIN_COVERAGE, usual_coverage / 2)


def list_shared_words(training: TrainingTexts, ngrams: NGrams, X: sparse.csr_matrix) -> HashTable:
    """The n-grams that occur in several groups, or in texts that are no near-duplicates."""
    clusters = training.clusters
    columns = X.indices
    n_columns = X.shape[1]
    if np.unique(clusters).size < clusters.size:
        # Each n-gram counts once per cluster.
        n_entries = np.diff(X.indptr)  # (n,)
        cluster_of_entry = np.repeat(clusters.astype(np.int64), n_entries)  # (n_nonzero,)
        cells = cluster_of_entry * n_columns + columns
        columns = np.unique(cells) % n_columns
    n_clusters = np.bincount(columns, minlength=n_columns)  # (n_columns,)
    return HashTable(ngrams.hashes[n_clusters > 1])
