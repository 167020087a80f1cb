"""Labelled texts: which labels are probably wrong, what else is, and how many more are needed."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from pacsent.bounds.rounding import format_count
from pacsent.certify.labels import ClassLabels, as_labels
from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.classify.classifier import TextClassifier
from pacsent.classify.fitting import FOLD_SEED
from pacsent.classify.label_reports import Audit, LearningCurve, SuspiciousLabel
from pacsent.classify.left_out import predict_left_out
from pacsent.storage import load
from pacsent.text.ngrams import fingerprints, nonempty_rows
from pacsent.text.texts import as_texts

_FOLDS = 5
_LOWEST_LOG_PROBA = np.log(1e-9)
# Nats from which on a label is suspicious; right labels often have a smaller score.
_MIN_SCORE = 1.0
# Nats that each near-duplicate with another label adds to the score of a label.
_DUPLICATE_SCORE = 1.0
# Learning curves start at four labels per class: with fewer whole classes are missing, and the
# error does not follow a power law.
_MIN_CLASS_LABELS = 4
_CURVE_PARTS = 4
_CURVE_DRAWS = 2_000
_CONFIDENCE = 0.9


def _fit_others(model: Any, texts: Sequence[str], y: np.ndarray, rows: np.ndarray) -> Any:
    """`model` fitted on the rows of classes with at least two of them; None below two classes."""
    n_of_class = np.bincount(y[rows], minlength=int(y.max()) + 1)
    n_in_class = n_of_class[y[rows]]  # (n_rows,)
    learnable = rows[n_in_class >= 2]
    if np.unique(y[learnable]).size < 2:
        return None

    training_texts = [texts[row] for row in learnable.tolist()]
    return clone(model).fit(training_texts, y[learnable])


def suspicious_labels(X: Iterable[str], y: Any, *, model: Any = None) -> list[SuspiciousLabel]:
    """Rows whose label is probably wrong, the most suspicious first, with a reason each.

    Every text gets probabilities from a classifier that was fitted on other texts (five folds, with
    near-duplicates in one). A label is suspicious where another class is likelier and the odds are
    at least e against the label, each class compared with the mean probability of its own texts
    (confident learning, Northcutt et al. 2021). A near-duplicate with another label counts as e.

    Hold out labels for a guarantee before: a certificate is not valid on rows of which suspicious
    ones were corrected or dropped.

    Parameters
    ----------
    X : iterable of str
        Empty texts are left out.
    y : array of str or int, one for each text
    model : unfitted classifier with `predict_proba`, optional
        `TextClassifier("english")` by default.

    Returns
    -------
    list of SuspiciousLabel

    References
    ----------
    Northcutt, Jiang and Chuang (2021), Confident learning: estimating uncertainty in dataset
    labels. JAIR 70.

    Examples
    --------
    >>> from pacsent.classify import suspicious_labels
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> y[7] = "cash_withdrawal_charge"  # a mistake
    >>> first = suspicious_labels(X, y)[0]
    >>> X[first.row]
    'Why was an extra charge added when I used my card?'
    >>> first.label, first.suggested
    ('cash_withdrawal_charge', 'card_payment_fee_charged')
    """
    left_out = predict_labels_left_out(X, y, model)
    return _find_suspicious(left_out)


class LabelsLeftOut(NamedTuple):
    """Labelled texts, and predictions for each by classifiers that were not fitted on it.

    Several reports share them: `audit` and `fit_learning_curve`.
    """

    all_texts: list[str]
    all_labels: list
    kept: list[int]  # rows of the texts that are not empty
    texts: list[str]  # without empty ones, (n,)
    labels: ClassLabels  # (n,)
    clusters: np.ndarray  # (n,), the same number for near-duplicates
    folds: np.ndarray  # (n,)
    log_proba: np.ndarray  # (n, n_classes)


def predict_labels_left_out(X: Iterable[str], y: Any, model: Any = None) -> LabelsLeftOut:
    """Predict every text that is not empty by a classifier that was fitted on others."""
    all_texts = as_texts(X)
    all_labels = as_labels(y, len(all_texts))
    kept = nonempty_rows(all_texts).tolist()
    texts = [all_texts[row] for row in kept]
    kept_labels = [all_labels[row] for row in kept]
    labels = ClassLabels.of_column(kept_labels, len(texts))

    clusters = near_duplicate_clusters(texts)
    folds = _draw_folds(clusters, np.random.default_rng(FOLD_SEED))
    log_proba = _predict_folds(texts, labels.encoded, clusters, folds, model)
    return LabelsLeftOut(
        all_texts=all_texts,
        all_labels=all_labels,
        kept=kept,
        texts=texts,
        labels=labels,
        clusters=clusters,
        folds=folds,
        log_proba=log_proba,
    )


def _find_suspicious(left_out: LabelsLeftOut) -> list[SuspiciousLabel]:
    log_p = left_out.log_proba
    classes = left_out.labels.classes
    y = left_out.labels.encoded

    # The score of each label, and what to put in its place, (n,).
    score, suggested = _score_labels(log_p, y)
    n_other, usual_label = _count_other_labels(left_out.clusters, y, classes.size)
    only_duplicates_disagree = (n_other > 0) & (score <= 0)
    suggested = np.where(only_duplicates_disagree, usual_label, suggested)
    score = score + _DUPLICATE_SCORE * n_other

    names = classes.tolist()
    n_suspicious = int((score > _MIN_SCORE).sum())
    order = np.argsort(-score, kind="stable")
    suspicious = []
    for number in order[:n_suspicious].tolist():
        label = y[number]
        other = suggested[number]
        proba_other = np.exp(log_p[number, other])
        proba_label = np.exp(log_p[number, label])
        reason = (
            f"without this text, {names[other]} has probability {proba_other:.2f} and "
            f"{names[label]} {proba_label:.2f}"
        )
        if n_other[number]:
            duplicates = format_count(int(n_other[number]), "near-duplicate")
            reason = f"{duplicates} with another label; {reason}"

        row = left_out.kept[number]
        suspicious_label = SuspiciousLabel(
            row=row,
            label=names[label],
            suggested=names[other],
            score=float(score[number]),
            reason=reason,
        )
        suspicious.append(suspicious_label)
    return suspicious


def _score_labels(log_p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of the likeliest other class against each label, and that class, (n,) each.

    Each class is measured by the mean probability of its own texts. Unlearnable classes have a mean
    near 0. Therefore the reference of the other class is at least 1 / n_classes, and it must exceed
    that and the label to count at all.
    """
    rows = np.arange(y.size)
    n_classes = log_p.shape[1]
    log_chance = -np.log(n_classes)
    usual_proba = [np.exp(log_p[y == c, c]).mean() for c in range(n_classes)]
    log_usual = np.log(usual_proba)  # (n_classes,)

    log_label = log_p[rows, y]
    others = log_p.copy()
    others[rows, y] = -np.inf
    likeliest = others.argmax(axis=1)
    log_other = others.max(axis=1)

    reference = np.maximum(log_usual, log_chance)  # (n_classes,)
    evidence_for_other = log_other - reference[likeliest]
    evidence_for_label = log_label - log_usual[y]
    score = evidence_for_other - evidence_for_label
    is_likelier = (log_other > log_label) & (log_other > log_chance)
    score = np.where(is_likelier, score, np.minimum(score, 0.0))
    return score, likeliest


def _count_other_labels(
    clusters: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Near-duplicates with another label less those with the same one, and that label, (n,) each.

    The number is at least 0; the label is the most frequent other one.
    """
    rows = np.arange(y.size)
    n_clusters = int(clusters.max()) + 1
    n_of_cluster = np.zeros((n_clusters, n_classes), np.int64)
    np.add.at(n_of_cluster, (clusters, y), 1)

    counts = n_of_cluster[clusters]  # (n, n_classes)
    n_same = counts[rows, y] - 1
    counts[rows, y] = 0
    n_more = counts.sum(axis=1) - n_same
    most_frequent = counts.argmax(axis=1)
    return np.maximum(n_more, 0), most_frequent


def out_of_fold_log_proba(
    texts: Sequence[str], y: np.ndarray, clusters: np.ndarray, model: Any = None
) -> np.ndarray:
    """Log-probabilities of all classes for every text, by models fitted on other folds.

    Texts of a near-duplicate cluster are in one fold. A class that has fewer than two texts to fit
    has probability 0.
    """
    folds = _draw_folds(clusters, np.random.default_rng(FOLD_SEED))
    return _predict_folds(texts, y, clusters, folds, model)


def _draw_folds(
    clusters: np.ndarray, rng: np.random.Generator | np.random.RandomState
) -> np.ndarray:
    """The fold of each text, (n,); those of a cluster have the same."""
    n_clusters = int(clusters.max()) + 1
    fold_of_cluster = rng.permutation(n_clusters) % _FOLDS
    return fold_of_cluster[clusters]


def _predict_folds(
    texts: Sequence[str], y: np.ndarray, clusters: np.ndarray, folds: np.ndarray, model: Any
) -> np.ndarray:
    """`out_of_fold_log_proba` with these folds."""
    model = TextClassifier("english") if model is None else model
    for fold in np.unique(folds):
        n_of_class = np.bincount(y[folds != fold])
        n_learnable = (n_of_class >= 2).sum()
        if n_learnable < 2:
            raise ValueError(
                "texts must have two classes with at least two different texts each, in every "
                f"{_FOLDS - 1} of {_FOLDS} folds. Got fewer instead. Add texts."
            )
    if type(model) is TextClassifier:
        log_p = predict_left_out(model, texts, y, folds, clusters)
        return np.maximum(log_p, _LOWEST_LOG_PROBA)

    n_classes = int(y.max()) + 1
    log_p = np.full((y.size, n_classes), _LOWEST_LOG_PROBA)
    for fold in np.unique(folds):
        training = np.flatnonzero(folds != fold)
        tested = np.flatnonzero(folds == fold).tolist()
        tested_texts = [texts[row] for row in tested]
        fold_model = _fit_others(model, texts, y, training)
        proba = np.asarray(fold_model.predict_proba(tested_texts), np.float64)
        floored_proba = np.maximum(proba, 1e-9)
        log_p[np.ix_(tested, fold_model.classes_)] = np.log(floored_proba)
    return log_p


def audit(X: Iterable[str], y: Sequence, *, model: Any = None) -> Audit:
    """Look for wrong labels, duplicates, empty texts and OOV words.

    As for `suspicious_labels`, hold out labels for a guarantee before.

    Parameters
    ----------
    X, y, model : see `suspicious_labels`

    Returns
    -------
    Audit

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"{word} film{n} plot{n}" for n in range(30) for word in ("good", "bad")]
    >>> result = audit([*texts, texts[0]], ["up", "down"] * 30 + ["up"], model=TextClassifier(None))
    >>> result.duplicates, result.counts
    ([[0, 60]], {'down': 30, 'up': 31})
    """
    return audit_left_out(predict_labels_left_out(X, y, model), model)


def audit_left_out(left_out: LabelsLeftOut, model: Any = None) -> Audit:
    """`audit`, from what `predict_labels_left_out` returned for this model."""
    texts = left_out.all_texts
    labels = left_out.all_labels
    kept = left_out.kept
    is_kept = np.zeros(len(texts), bool)
    is_kept[kept] = True
    empty_rows = np.flatnonzero(~is_kept)
    totals = Counter(labels[row] for row in kept)

    # Groups of exact duplicates are not listed again as near-duplicates.
    duplicates = _group_rows(kept, fingerprints(left_out.texts))
    exact_groups = set(map(tuple, duplicates))
    clusters = _group_rows(kept, left_out.clusters)
    near_duplicates = [rows for rows in clusters if tuple(rows) not in exact_groups]

    return Audit(
        texts=texts,
        labels=labels,
        counts={name: totals[name] for name in sorted(totals, key=str)},
        suspicious=_find_suspicious(left_out),
        duplicates=duplicates,
        near_duplicates=near_duplicates,
        empty=empty_rows.tolist(),
        unknown=_find_unknown_texts(texts, model),
    )


def _group_rows(rows: list[int], ids: np.ndarray) -> list[list[int]]:
    """Rows that share a number with other rows."""
    rows_of = defaultdict(list)
    for row, value in zip(rows, ids.tolist()):
        rows_of[value].append(row)
    return [group for group in rows_of.values() if len(group) > 1]


def _find_unknown_texts(texts: list[str], model: Any) -> list[tuple[int, float]]:
    """Rows of which less than half of the words are in the vocabulary, and that fraction."""
    encoder = "english" if model is None else getattr(model, "encoder", None)
    if not isinstance(encoder, str):
        return []

    vocabulary = load(encoder).vocabulary
    encoded = vocabulary.encode(texts)
    n_known = np.diff(encoded.offsets).tolist()  # (n_texts,)
    unknown = []
    for row, text in enumerate(texts):
        n_words = sum(map(_has_letter, text.split()))
        if n_words == 0:
            continue
        coverage = n_known[row] / n_words
        if coverage < 0.5:
            unknown.append((row, coverage))
    return unknown


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def fit_holdout_curve(
    model: TextClassifier, texts: Sequence[str], labels: Sequence, groups: Sequence | None = None
) -> LearningCurve:
    """The curve through the out-of-fold errors of `model` and of a clone fitted on all texts.

    `model` is fitted on a part of the texts. Errors of four fifths of the texts make the cost
    rather too high.
    """
    complete_model = clone(model).fit(texts, labels, groups=groups)
    counts = []  # (labels, held-out texts, errors on them) of each model
    for fitted in (model, complete_model):
        log_proba, y = fitted.out_of_fold_
        n_labels = fitted.selection_["n_texts"]
        is_wrong = log_proba.argmax(axis=1) != y
        counts.append((n_labels, y.size, is_wrong.sum()))
    sizes, n_tested, n_wrong = np.array(counts).T

    rng = np.random.default_rng(0)
    curves = _curve_posterior(sizes, n_tested, n_wrong, len(texts), rng)
    return LearningCurve(len(texts), sizes, n_tested, n_wrong, curves)


def fit_learning_curve(
    X: Iterable[str],
    y: Any,
    *,
    model: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> LearningCurve:
    """Estimate the error with more labels, from the labels that are there.

    The classifier is fitted on parts of the labels of growing size, of four labels per class at
    least where there are enough, and its errors on held-out texts (five folds, near-duplicates in
    one) give a posterior over curves c + a n^-b.

    Parameters
    ----------
    X : iterable of str
    y : array of str or int, one for each text
    model : unfitted classifier, optional
        `TextClassifier("english")` by default.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    LearningCurve

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import fit_learning_curve
    >>> texts = [f"film {n} is {w} {n % 7}" for n in range(40) for w in ("good", "bad")]
    >>> curve = fit_learning_curve(texts, ["up", "down"] * 40, model=TextClassifier(None))
    >>> low, middle, high = curve.error_at(160)
    >>> low <= middle <= high
    True
    """
    all_texts = as_texts(X)
    all_labels = as_labels(y, len(all_texts))
    kept = nonempty_rows(all_texts).tolist()
    texts = [all_texts[row] for row in kept]
    kept_labels = [all_labels[row] for row in kept]
    labels = ClassLabels.of_column(kept_labels, len(texts))

    model = TextClassifier("english") if model is None else model
    rng = check_random_state(random_state)
    folds = _draw_folds(near_duplicate_clusters(texts), rng)
    return _fit_curve(model, texts, labels.encoded, folds, rng)


def fit_learning_curve_left_out(
    left_out: LabelsLeftOut, model: Any, random_state: int | np.random.RandomState | None = None
) -> LearningCurve:
    """`fit_learning_curve`, from what `predict_labels_left_out` returned for this model.

    Its folds are taken, and its errors with all labels outside a fold, whose fits are more than
    half of the time. The candidates behind these were chosen on all labels, once.
    """
    return _fit_curve(
        model,
        left_out.texts,
        left_out.labels.encoded,
        left_out.folds,
        check_random_state(random_state),
        predictions=left_out.log_proba.argmax(axis=1),
    )


def _fit_curve(
    model: Any,
    texts: list[str],
    y: np.ndarray,
    folds: np.ndarray,
    rng: np.random.RandomState,
    predictions: np.ndarray | None = None,
) -> LearningCurve:
    """The curve through the errors on these folds.

    `predictions`, (n,), are those of classifiers with all other labels, if they are there already.
    """
    n_fitted = len(texts) - len(texts) // _FOLDS
    n_classes = int(y.max()) + 1
    smallest = np.clip(_MIN_CLASS_LABELS * n_classes / n_fitted, 0.125, 0.5)
    parts = np.geomspace(smallest, 1.0, _CURVE_PARTS)

    totals = np.zeros((parts.size, 4))  # folds, labels, held-out texts, errors on them
    for fold in np.unique(folds):
        tested = np.flatnonzero(folds == fold)
        tested_texts = [texts[row] for row in tested]
        other_rows = np.flatnonzero(folds != fold)
        training = rng.permutation(other_rows)
        for number, part in enumerate(parts):
            size = round(part * training.size)
            if predictions is not None and size == training.size:
                fold_predictions = predictions[tested]
            else:
                fold_model = _fit_others(model, texts, y, training[:size])
                if fold_model is None:
                    continue
                fold_predictions = fold_model.predict(tested_texts)
            n_wrong = (fold_predictions != y[tested]).sum()
            totals[number] += (1, size, tested.size, n_wrong)

    totals = totals[totals[:, 0] > 0]
    if not totals.size:
        raise ValueError(
            "texts must have two classes with at least two different texts each, in every fold. "
            "Got fewer instead. Add labels."
        )
    n_folds, n_labels, n_tested, n_wrong = totals.T  # (n_sizes,) each
    sizes = n_labels / n_folds
    curves = _curve_posterior(sizes, n_tested, n_wrong, len(texts), rng)
    return LearningCurve(len(texts), sizes, n_tested, n_wrong, curves)


def _curve_posterior(
    sizes: np.ndarray,
    n_tested: np.ndarray,
    n_wrong: np.ndarray,
    n: int,
    rng: np.random.Generator | np.random.RandomState,
) -> np.ndarray:
    """Draws of (error at n, b, c), by the likelihood of the errors on a grid, (_CURVE_DRAWS, 3).

    The prior falls linearly with the ratio c / error at n, from curves that go to 0 to flat ones.
    """
    last_error = (n_wrong[-1] + 0.5) / (n_tested[-1] + 1)
    spread = math.sqrt(last_error * (1 - last_error) / n_tested[-1])
    lowest = max(last_error - 6 * spread, 1e-4)
    highest = min(last_error + 3 * spread, 0.999)
    grid = np.meshgrid(
        np.linspace(lowest, highest, 41),  # the error at n
        np.linspace(0.05, 1.0, 20),  # b
        np.linspace(0.0, 0.95, 20),  # c / the error at n
        indexing="ij",
    )
    error_at_n, b, ratio = (values.ravel() for values in grid)  # (n_points,) each
    c = ratio * error_at_n

    # error(m) = c + (error_at_n - c) * (m / n)^-b for each point and size, (n_points, n_sizes).
    reducible = error_at_n - c
    decay = (sizes / n) ** -b[:, None]
    errors = c[:, None] + reducible[:, None] * decay
    errors = np.clip(errors, 1e-6, 1 - 1e-6)
    n_right = n_tested - n_wrong
    log_likelihoods = n_wrong * np.log(errors) + n_right * np.log1p(-errors)

    # Each text is held out at every size: errors at two sizes are about half as much evidence.
    log_weights = 0.5 * log_likelihoods.sum(axis=1)
    weights = np.exp(log_weights - log_weights.max()) * (1 - ratio)
    weights /= weights.sum()
    drawn = rng.choice(weights.size, _CURVE_DRAWS, p=weights)
    return np.stack([error_at_n[drawn], b[drawn], c[drawn]], axis=1)
