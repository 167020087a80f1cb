"""Predictions for every labelled text by models that were not fitted on it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pacsent.certify.labels import ClassLabels
from pacsent.certify.scores import log_probabilities
from pacsent.classify import fitting
from pacsent.classify.classifier import TextClassifier
from pacsent.classify.options import apply_class_weight, check_ngram_sizes
from pacsent.classify.training import (
    TrainingTexts,
    choose_selection,
    count_ngrams,
    make_candidates,
    make_character_rows,
    make_features,
    make_rows,
    measure_oov_rates,
)
from pacsent.parameter_checks import check_parameters
from pacsent.threads import n_threads


def predict_left_out(
    model: TextClassifier,
    texts: Sequence[str],
    y: np.ndarray,
    fold_of_text: np.ndarray,
    clusters: np.ndarray,
) -> np.ndarray:
    """Log-probabilities of all classes for every text, without fitting the model on each fold.

    A fit on four of five folds chooses among candidates by folds of its own, and counts n-grams.
    Here both are done once, on all texts: n-grams and vectors know no labels, and what is chosen is
    a few numbers for all texts together: the candidates that are averaged, the share of the
    n-grams of characters, and the temperature. The weights, which could learn a label by heart, are
    fitted without the fold of the text.

    Parameters
    ----------
    model : unfitted TextClassifier
    texts : sequence of str
        None is empty.
    y : int array, one for each text
        0, 1, ..., each of them at least once.
    fold_of_text : int array
    clusters : int array
        The same number for near-duplicates, which have the same fold.

    Returns
    -------
    array, (n_texts, n_classes)
    """
    texts = list(texts)
    check_parameters(model)
    labels = ClassLabels.of_column(y.tolist(), len(texts))
    equal_weights = np.ones(len(texts))
    weights = apply_class_weight(equal_weights, model.class_weight, labels.classes, labels.encoded)
    training = TrainingTexts(texts, labels, weights, clusters)
    selection = choose_selection(model.selection, training)
    candidates = make_candidates(training, selection, model.Cs, model.dense_scales, model.weighting)
    threads = n_threads(model.n_jobs)

    features = make_features(texts, model.encoder, model.method, model.ngrams, model.n_jobs)
    rows = make_rows(training, features)
    linear = fitting.predict_left_out(rows, candidates, selection, fold_of_text, threads, clusters)

    if model.characters is not None:
        sizes = check_ngram_sizes(model.characters, "characters")
        character_ngrams = count_ngrams(texts, sizes, threads, characters=True)
        if len(character_ngrams):
            X_characters = character_ngrams.tf_idf(texts, threads)
            characters = fitting.predict_left_out(
                make_character_rows(rows, X_characters),
                replace(candidates, weightings=("tf-idf",)),
                selection,
                fold_of_text,
                threads,
                clusters,
            )
            oov_rates = measure_oov_rates(training, features.ngrams, features.X, features.encoder)
            linear = fitting.with_characters(linear, characters, rows, oov_rates)

    tested, decisions = linear.left_out
    if decisions.shape[1] > 1:
        is_learnt = _are_learnt(labels.encoded, fold_of_text)[fold_of_text[tested]]
        decisions[~is_learnt] = -np.inf

    log_p = np.empty((len(texts), labels.classes.size))
    log_p[tested] = log_probabilities(decisions, linear.report["inverse_temperature"])
    return log_p


def _are_learnt(y: np.ndarray, fold_of_text: np.ndarray) -> np.ndarray:
    """True where two texts of a class are outside a fold, (n_folds, n_classes) of bool."""
    n_folds = int(fold_of_text.max()) + 1
    n_classes = int(y.max()) + 1
    n_in_fold = np.zeros((n_folds, n_classes), np.int64)
    np.add.at(n_in_fold, (fold_of_text, y), 1)
    n_outside = n_in_fold.sum(axis=0) - n_in_fold
    return n_outside >= 2
