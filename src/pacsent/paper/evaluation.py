"""Scores: the paper's protocol for one row and one dataset, and what we add to it.

Labels are used by the classifier only. `reproduction` runs the whole table.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import pacsent
from pacsent.arrays import unit_rows
from pacsent.paper import regressions
from pacsent.paper.labelled import Dataset
from pacsent.paper.method_rows import (
    PAPER_DATASETS,
    ROWS,
    Features,
    Row,
    Texts,
    features,
    from_estimator,
    unit_length,
)
from pacsent.progress import bar
from pacsent.sentences.external_encoders import BaseEncoder, as_encoder
from pacsent.storage import is_model_name

SEEDS = (0, 1, 2)
N_FOLDS = 5
FEW_LABELS = (100, 300, 1000)
N_DRAWS = 10
PROTOCOL = 2  # goes up when results of an earlier run must not be mixed with new ones


def folds_of(labels: np.ndarray, seed: int, n_folds: int = N_FOLDS) -> np.ndarray:
    """The fold of every row: every class spread evenly, at random by `seed`."""
    rng = np.random.default_rng([seed, 5, n_folds])
    folds = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        # each class goes on where the last one ended, so that folds differ by one row at most
        folds[rows] = (start + np.arange(rows.size)) % n_folds
        start += rows.size
    return folds


@dataclass(frozen=True)
class Score:
    """What one seed chose by cross-validation, and how the choice did on the test part."""

    seed: int
    accuracy: float
    cv_accuracy: float
    C: float
    normalize: bool
    lam: float | None


@dataclass(frozen=True)
class Protocol:
    """How a row is scored: what is chosen from, over which seeds, and where it is computed."""

    lams: tuple = (None,)
    seeds: tuple[int, ...] = SEEDS
    Cs: tuple[float, ...] = regressions.CS
    n_jobs: int | None = None
    quick: bool = False  # only recorded
    one_split: bool = False  # one random split for all seeds, of datasets without a fixed one


def _score_split(feature_sets, labels: tuple, protocol: Protocol, random: bool):
    """Scores of all seeds that share a split, the lam curve, the seconds, and features by lam.

    feature_sets(number, seed) -> Features of lams[number]. The search is made on those of the first
    seed. Where they are `random`, every other seed's classifier is fitted and scored on its own.
    `labels` are those of the training and test part, and the number of classes.
    """
    y_train, y_test, n_classes = labels
    settings: dict[str, Any] = {"n_classes": n_classes, "n_jobs": protocol.n_jobs}
    folds = np.stack([folds_of(y_train, seed) for seed in protocol.seeds])
    table: dict = {}  # (lam number, normalize) -> accuracies (n_seeds, n_Cs)
    paths: dict = {}  # (lam number, normalize) -> regressions.Path
    made_of_lam = []
    seconds = dict.fromkeys(("fit", "encode", "search", "final"), 0.0)
    for number in range(len(protocol.lams)):
        made = feature_sets(number, protocol.seeds[0])
        made_of_lam.append(made)
        seconds["fit"] += made.fit_seconds
        seconds["encode"] += made.encode_seconds
        started = time.perf_counter()
        for normalize in (True,) if made.normalized else (False, True):
            X = unit_length(made.train) if normalize and not made.normalized else made.train
            before = paths.get((number - 1, normalize))
            grid = regressions.grid_search(
                X, y_train, folds, Cs=protocol.Cs, start=before, **settings
            )
            table[number, normalize] = grid.accuracy.mean(axis=1)
            paths[number, normalize] = grid.path
            if before is not None:  # its preconditioners are large and no longer needed
                paths[number - 1, normalize] = regressions.Path(before.Cs, before.weights)
        seconds["search"] += time.perf_counter() - started

    scores, accuracies = [], {}
    for at, seed in enumerate(protocol.seeds):
        # Ties go to the first: small lam, no normalisation, strong penalty.
        number, normalize = max(table, key=lambda key: (table[key][at].max(), -key[0], -key[1]))
        best = int(np.argmax(table[number, normalize][at]))
        remade = random and seed != protocol.seeds[0]
        choice = number, normalize, best, seed if remade else None
        if choice not in accuracies:
            made = feature_sets(number, seed) if remade else made_of_lam[number]
            seconds["fit"] += made.fit_seconds * remade
            seconds["encode"] += made.encode_seconds * remade
            started = time.perf_counter()
            change = unit_length if normalize and not made.normalized else lambda X: X
            C, start = protocol.Cs[best], paths[number, normalize]
            model = regressions.fit(change(made.train), y_train, C, start=start, **settings)
            guess = regressions.predict(change(made.test), *model)
            accuracies[choice] = float(np.mean(guess == y_test))
            seconds["final"] += time.perf_counter() - started
        cv_accuracy = float(table[number, normalize][at, best])
        C, lam = float(protocol.Cs[best]), protocol.lams[number]
        scores.append(Score(seed, accuracies[choice], cv_accuracy, C, bool(normalize), lam))
    # The best accuracy of each lam over C and normalisation, (n_seeds,).
    curve = {
        lam: np.max([table[key].max(axis=1) for key in table if key[0] == number], axis=0)
        for number, lam in enumerate(protocol.lams)
    }
    return scores, curve, seconds, made_of_lam


@dataclass(frozen=True)
class Result:
    """The score of one row on one dataset, with all it takes to make it again."""

    row: str
    label: str
    dataset: str
    accuracy: float
    sd: float
    scores: list[dict]
    paper: float | None
    lam_curve: list[dict]
    seconds: dict[str, float]
    details: dict
    provenance: dict
    n_test: int | None = None
    kind: str = "classification"

    def __str__(self) -> str:
        return f"{self.label} on {self.dataset}: {score_text(asdict(self))}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, allow_nan=False, default=float) + "\n"


def score_text(result: dict, digits: int = 4) -> str:
    """Accuracy and, where several seeds say so, its standard deviation.

    >>> score_text({'accuracy': 0.81234, 'sd': 0.01, 'scores': [1, 2]}, 3)
    '0.812 ± 0.010'
    """
    shown = f"{result['accuracy']:.{digits}f}"
    several = len(result.get("scores", ())) > 1
    return f"{shown} ± {result['sd']:.{digits}f}" if several else shown


def paper_score(row: Row, dataset: str) -> float | None:
    """The number that the paper prints for a row and a dataset; None where it prints none."""
    if row.paper is None or dataset not in PAPER_DATASETS:
        return None
    return row.paper[PAPER_DATASETS.index(dataset)]


class Prepared:
    """A dataset tokenised once, whatever the split."""

    def __init__(self, dataset: Dataset, words: Any, *, n_jobs: int | None = None):
        self.dataset, self.words = dataset, words
        self.n_jobs = n_jobs
        self.n_classes = len(dataset.classes)
        self._parts: dict = {}
        self._kept: dict = {}
        self.encoded = self.test_encoded = None
        if words is not None:
            self.encoded = words.vocabulary.encode(dataset.train_texts)
            if dataset.has_fixed_split:
                self.test_encoded = words.vocabulary.encode(dataset.test_texts)

    def part(self, seed: int) -> tuple[Texts, np.ndarray, np.ndarray]:
        """(Texts, y_train, y_test) of one seed; the same object where the split is fixed."""
        key = None if self.dataset.has_fixed_split else seed
        if key not in self._parts:
            split, parts = self.dataset, (self.encoded, self.test_encoded)
            if key is not None:
                split = self.dataset.split(seed)
                if self.encoded is not None:
                    parts = tuple(map(self.encoded.take, self.dataset.split_rows(seed)))
            texts = split.train_texts, split.test_texts
            source = Texts(self.words, *texts, *parts, n_jobs=self.n_jobs)
            self._parts[key] = source, split.train_labels, split.test_labels
        return self._parts[key]

    def features(
        self, row: Row, source: Texts, lam: float | None = None, seed: int = 0
    ) -> Features:
        """As `features`; those that few labels will want again are kept."""
        key = row.name, lam, seed
        if key in self._kept:
            return self._kept[key]
        made = features(row, source, lam, seed)
        if row.few_labels and lam in (None, 1.0) and seed == 0:
            self._kept = {key: made}
        return made


def evaluate(
    method: Any,
    dataset: Dataset,
    encoder: Any = None,
    *,
    lams: Sequence[float] | None = None,
    seeds: Sequence[int] = SEEDS,
    Cs: Sequence[float] = regressions.CS,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Result:
    """Score sentence vectors by the paper's protocol: test accuracy, mean and sd over seeds.

    lam, C and L2 normalisation are chosen by five-fold cross-validation on the training part. The
    method is fitted on the training texts, all of them, without labels.

    Parameters
    ----------
    method : str, transformer or encoder
        A row of the table (`ROWS`), a method of the paper (`METHODS`), any scikit-learn transformer
        from texts to vectors, or any encoder that `pacsent.sentences.as_encoder` takes, also by
        URL.
    dataset : Dataset
        From `pacsent.paper.benchmark_datasets.load`, `read_labelled` or `generate(...).dataset()`.
    encoder : WordVectors or None
        The word vectors of the method; not needed where `method` is a transformer or "tf-idf".
    lams, Cs : sequence of float
        Values to choose from, ascending; `lams` None takes the paper's for methods that have one.
    seeds : sequence of int, default=(0, 1, 2)
        Each seed draws other folds, another split where the dataset has none, and other random
        numbers for methods that use them.
    n_jobs : int or None
        Threads; None and -1 take every core, -2 all but one.
    verbose : bool, default=False
        Show progress on stderr.

    Examples
    --------
    >>> from pacsent.paper import benchmark_datasets as datasets
    >>> dataset = datasets.generate(200, n_tokens=20, random_state=0).dataset()
    >>> found = evaluate("tf-idf", dataset, seeds=(0,), Cs=(1.0, 10.0))
    >>> found.accuracy > 1 / len(dataset.classes)
    True
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a Dataset. Got {type(dataset).__name__} instead. Read one with "
            "read_labelled(path), or build Dataset(name, texts, labels, ...)."
        )
    if not (hasattr(method, "transform") or (isinstance(method, str) and is_model_name(method))):
        method = as_encoder(method)
    row, extract = _row_of(method)
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("seeds must have at least one seed. Got none instead. Pass (0,).")
    if encoder is None and isinstance(method, str) and row.method != "tf-idf":
        raise ValueError(
            f"encoder must be given for the method {method!r}. Got None instead. Pass WordVectors, "
            "or a transformer instead of a name."
        )
    chosen = (row.lams if lams is None else tuple(lams)) or (None,)
    prepared = Prepared(dataset, encoder, n_jobs=n_jobs)
    # vectors and a search for every lam of every split; where they are random, again for a seed
    n_splits = 1 if dataset.has_fixed_split else len(seeds)
    n_steps = n_splits * len(chosen) + (len(seeds) - n_splits) * row.random
    with bar(f"evaluate {row.label}", total=n_steps, unit="settings", enabled=verbose) as shown:

        def shown_features(row, source, lam, seed):
            shown.update(shown.completed, "" if lam is None else f"lam {lam:g}, seed {seed}")
            made = extract(row, source, lam, seed)
            shown.advance()
            return made

        protocol = Protocol(chosen, seeds, tuple(Cs), n_jobs)
        return run_row(row, prepared, protocol, shown_features)


def _row_of(method):
    if not isinstance(method, str):
        label = method.method_name if isinstance(method, BaseEncoder) else type(method).__name__

        def extract(row, source, lam, seed):
            from sklearn.base import clone

            vectorizer = clone(method)
            if vectorizer.get_params().get("random_state", 0) is None:
                vectorizer.set_params(random_state=seed)
            if lam is not None:
                vectorizer.set_params(lam=lam)
            return from_estimator(vectorizer, source.train_texts, source.test_texts)

        return Row(label, label, label), extract
    if method in ROWS:
        return ROWS[method], features
    from pacsent.sentences.methods import METHODS

    if method not in METHODS:
        raise ValueError(
            f"method must be a row ({', '.join(ROWS)}) or one of METHODS. Got {method!r} instead."
        )
    return Row(method, method, method), features


def run_row(
    row: Row, prepared: Prepared, protocol: Protocol, extract: Callable | None = None
) -> Result:
    """Score one row on one dataset.

    extract(row, source, lam, seed) -> Features; by default those of the row.
    """
    extract = extract or prepared.features
    lams, seeds, dataset = protocol.lams, protocol.seeds, prepared.dataset
    scores: list[Score] = []
    curves: list[dict] = []
    details: dict = {}
    seconds = dict.fromkeys(("fit", "encode", "search", "final"), 0.0)
    # Seeds that share a split are solved together.
    has_one_split = dataset.has_fixed_split or protocol.one_split
    for group in [tuple(seeds)] if has_one_split else [(seed,) for seed in seeds]:
        source, y_train, y_test = prepared.part(group[0])

        def feature_sets(number, seed, source=source):
            return extract(row, source, lams[number], seed)

        labels = y_train, y_test, prepared.n_classes
        part = replace(protocol, seeds=group)
        group_scores, curve, spent, made = _score_split(feature_sets, labels, part, row.random)
        scores += group_scores
        curves.append(curve)
        seconds = {key: value + spent[key] for key, value in seconds.items()}
        if not details:
            if source.test is not None:
                details["coverage"] = round(source.test.coverage, 5)
                details["mean_tokens"] = round(float(np.diff(source.test.offsets).mean()), 2)
            details["n_features"] = int(made[lams.index(scores[0].lam)].train.shape[1])
    lam_curve = []
    for lam in lams:
        values = np.concatenate([curve[lam] for curve in curves])
        lam_curve.append({"lam": lam, "cv_accuracy": float(values.mean())})
    params = {k: ("inf" if v == float("inf") else v) for k, v in row.params.items()}
    return Result(
        row.name,
        row.label,
        dataset.name,
        **mean_and_sd([score.accuracy for score in scores]),
        scores=[asdict(score) for score in scores],
        paper=paper_score(row, dataset.name),
        lam_curve=lam_curve if len(lams) > 1 else [],
        seconds={key: round(value, 3) for key, value in seconds.items()},
        details={**details, "params": params},
        provenance={
            "protocol": PROTOCOL,
            "pacsent": pacsent.__version__,
            "dataset_digest": dataset.digest,
            "words_digest": None if prepared.words is None else prepared.words.digest(),
            "seeds": list(seeds),
            "Cs": list(protocol.Cs),
            "n_folds": N_FOLDS,
            "quick": protocol.quick,
            "date": time.strftime("%Y-%m-%d"),
        },
        n_test=len(y_test),
    )


def draw_labelled(labels: np.ndarray, n_labels: int, seed: int) -> np.ndarray:
    """Rows of a draw of n_labels examples, every class in proportion and at least five times."""
    rng = np.random.default_rng([seed, n_labels, 7])
    classes, counts = np.unique(labels, return_counts=True)
    share = np.maximum(N_FOLDS, np.floor(n_labels * counts / counts.sum())).astype(int)
    share = np.minimum(share, counts)
    chosen = [
        rng.permutation(np.flatnonzero(labels == label))[:n] for label, n in zip(classes, share)
    ]
    rows = np.concatenate(chosen)
    others = np.setdiff1d(np.arange(len(labels)), rows)
    missing = max(0, n_labels - rows.size)
    return np.sort(np.concatenate([rows, rng.permutation(others)[:missing]]))


def row_space(X: Any) -> tuple[Any, Callable]:
    """X in coordinates of the space its rows span, and the function that takes other rows there.

    Fewer than n_features where X has fewer rows; lengths and angles stay, so a classifier with an
    L2 penalty stays the same.
    """
    n, n_features = X.shape
    if n >= n_features:
        return X, lambda other: other
    X = X.astype(np.float64)
    gram = X @ X.T
    values, vectors = np.linalg.eigh(gram.toarray() if hasattr(gram, "toarray") else gram)
    kept = values > 1e-12 * values[-1]  # what is smaller is rounding
    scale = np.sqrt(values[kept])
    basis = (X.T @ (vectors[:, kept] / scale)).astype(np.float32)  # (n_features, n_kept)
    inside = (vectors[:, kept] * scale).astype(np.float32)
    return inside, lambda other: np.asarray(other @ basis)


def few_labels(
    row: Row,
    prepared: "Prepared",
    *,
    sizes: Sequence[int] = FEW_LABELS,
    n_draws: int = N_DRAWS,
    n_jobs: int | None = None,
) -> dict:
    """Test accuracy of a classifier that sees only some labels, mean and sd over draws.

    The vectors are learned from all training texts; lam is 1: a handful of labels cannot choose
    it. C and normalisation are chosen by cross-validation on the labelled examples.
    """
    source, y_train, y_test = prepared.part(0)
    made = prepared.features(row, source, 1.0 if row.lams else None, 0)
    lengths = (True,) if made.normalized else (False, True)
    changes: dict[bool, Callable] = {
        n: unit_length if n and not made.normalized else lambda X: X for n in lengths
    }
    train = {n: change(made.train) for n, change in changes.items()}
    test = {n: change(made.test) for n, change in changes.items()}
    Cs = regressions.CS[::2]
    curve = []
    for size in sizes:
        if size > len(y_train):
            continue
        accuracies = []
        for draw in range(n_draws):
            rows = draw_labelled(y_train, size, draw)
            y = y_train[rows]
            folds = folds_of(y, draw)
            best: tuple = (-1.0,)
            for normalize in lengths:
                X, project = row_space(train[normalize][rows])
                grid = regressions.grid_search(
                    X, y, folds, n_classes=prepared.n_classes, Cs=Cs, tol=1e-8, n_jobs=n_jobs
                )
                mean = grid.accuracy[0].mean(axis=0)
                at = int(np.argmax(mean))
                if mean[at] > best[0]:
                    best = mean[at], normalize, Cs[at], grid.path, X, project
            _, normalize, C, path, X, project = best
            coef, intercept = regressions.fit(
                X, y, C, n_classes=prepared.n_classes, start=path, tol=1e-9, n_jobs=n_jobs
            )
            guess = regressions.predict(project(test[normalize]), coef, intercept)
            accuracies.append(float(np.mean(guess == y_test)))
        curve.append({"n_labels": size, **mean_and_sd(accuracies), "draws": accuracies})
    return {**_named("few-labels", row), "curve": curve}


def mean_and_sd(accuracies: Sequence[float]) -> dict[str, Any]:
    """Accuracy and its standard deviation, 0 where there is one value only."""
    sd = float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0
    return {"accuracy": float(np.mean(accuracies)), "sd": sd}


def _named(kind: str, row: Row) -> dict:
    return {"kind": kind, "row": row.name, "label": row.label}


def similarity(row: Row, pairs: Any, words: Any, *, n_jobs: int | None = None) -> dict:
    """Spearman and Pearson correlation with human scores, lam chosen on the training part."""
    from scipy.stats import pearsonr, spearmanr

    texts = [pairs.first[part] + pairs.second[part] for part in ("train", "test")]
    source = Texts(words, texts[0], texts[1], n_jobs=n_jobs)
    source.train, source.test = map(words.vocabulary.encode, texts)
    candidates = []
    for lam in row.lams or (None,):
        made = features(row, source, lam, 0)
        n_train, n_test = len(pairs.scores["train"]), len(pairs.scores["test"])
        entry: dict = {"lam": lam}
        for part, X, n in (("train", made.train, n_train), ("test", made.test, n_test)):
            first, second = X[:n], X[n:]
            if hasattr(first, "multiply"):
                cosine = np.asarray(first.multiply(second).sum(axis=1)).ravel()
            else:
                cosine = np.einsum("ij,ij->i", unit_rows(first), unit_rows(second))
            scores = pairs.scores[part]
            entry[part] = {
                "spearman": float(spearmanr(cosine, scores)[0]),
                "pearson": float(pearsonr(cosine, scores)[0]),
            }
        candidates.append(entry)
    best = max(candidates, key=lambda entry: entry["train"]["spearman"])
    curve = candidates if len(candidates) > 1 else []
    about = {**_named("similarity", row), "dataset": pairs.name, "lam": best["lam"]}
    return {**about, **best["test"], "lam_curve": curve}


def certificate(row: Row, prepared: "Prepared") -> dict:
    """Continuation certificate of the training texts, a tenth of them held out to check it."""
    from pacsent.paper import certify_encoder
    from pacsent.sentences.methods import make_encoder

    source, _, _ = prepared.part(0)
    started = time.perf_counter()
    vectorizer = make_encoder(row.method, prepared.words, on_empty="ignore", n_jobs=source.n_jobs)
    certified = certify_encoder(vectorizer, source.train, test_size=0.1)
    return {
        **_named("certificate", row),
        "risk_bound": float(certified.error_upper),
        "held_out_risk": float(certified.held_out_risk),
        "empirical_risk": float(certified.empirical_risk),
        "n": int(certified.n),
        "delta": float(certified.delta),
        "assumption": certified.assumption,
        "checked": certified.provenance,
        "seed": certified.random_state,
        "seconds": round(time.perf_counter() - started, 2),
    }
