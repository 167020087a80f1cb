"""Scores: the paper's protocol for one row and one dataset, and what we add to it.

Labels are used by the classifier only. `reproduction` runs the whole table.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import pacsent
from pacsent.arrays import unit_rows
from pacsent.paper import regressions
from pacsent.paper.features import Features, Texts, features, from_estimator, unit_length
from pacsent.paper.labelled import Dataset
from pacsent.paper.method_rows import PAPER_DATASETS, ROWS, Row
from pacsent.progress import bar
from pacsent.sentences.external_encoders import BaseEncoder, as_encoder
from pacsent.storage import is_model_name
from pacsent.text.encoded import Encoded

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
        rows_of_class = np.flatnonzero(labels == label)
        shuffled_rows = rng.permutation(rows_of_class)
        # Each class goes on where the last one ended, so that folds differ by one row at most.
        positions = start + np.arange(shuffled_rows.size)
        folds[shuffled_rows] = positions % n_folds
        start += shuffled_rows.size
    return folds


@dataclass(frozen=True)
class Score:
    """Choice of one seed by cross-validation, and its accuracy on the test part."""

    seed: int
    accuracy: float
    cv_accuracy: float
    C: float
    normalize: bool
    lam: float | None


@dataclass(frozen=True)
class Protocol:
    """Settings of a score: what is chosen from, over which seeds, and on how many threads."""

    lams: tuple = (None,)
    seeds: tuple[int, ...] = SEEDS
    Cs: tuple[float, ...] = regressions.CS
    n_jobs: int | None = None
    quick: bool = False  # only recorded
    one_split: bool = False  # one random split for all seeds, of datasets without a fixed one


class _Labels(NamedTuple):
    """Labels of the two parts of a split, and the number of classes."""

    train: np.ndarray
    test: np.ndarray
    n_classes: int


def _normalizations(features: Features) -> tuple[bool, ...]:
    """Both ways to normalise or not, unless the vectors have unit length by construction."""
    if features.normalized:
        return (True,)
    return (False, True)


def _rescale(X: Any, normalize: bool, features: Features) -> Any:
    """X, with rows of unit length if they are to be normalised and are not yet."""
    if normalize and not features.normalized:
        return unit_length(X)
    return X


def _accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(predicted == labels))


class _Search:
    """Choice of lam, normalisation and C by cross-validation, for seeds that share a split.

    `extract(number, seed)` returns the features of the lam of that number. The search uses those of
    the first seed. If the features are random, the classifier of every other seed is fitted and
    scored on features of its own.
    """

    def __init__(
        self,
        extract: Callable[[int, int], Features],
        labels: _Labels,
        protocol: Protocol,
        random: bool,
    ):
        self.extract = extract
        self.labels = labels
        self.protocol = protocol
        self.random = random
        folds = [folds_of(labels.train, seed) for seed in protocol.seeds]
        self.folds = np.stack(folds)  # (n_seeds, n_train)

        self.features_of_lam: list[Features] = []
        # The keys of both are (number of the lam, normalize); accuracies are (n_seeds, n_Cs).
        self.cv_accuracies: dict[tuple[int, bool], np.ndarray] = {}
        self.paths: dict[tuple[int, bool], regressions.Path] = {}
        self.test_accuracies: dict[tuple, float] = {}
        self.seconds = _no_seconds()

        for number in range(len(protocol.lams)):
            self._search_lam(number)

    def _record_seconds(self, features: Features) -> None:
        self.seconds["fit"] += features.fit_seconds
        self.seconds["encode"] += features.encode_seconds

    def _search_lam(self, number: int) -> None:
        """Cross-validate every C, with and without normalisation."""
        features = self.extract(number, self.protocol.seeds[0])
        self.features_of_lam.append(features)
        self._record_seconds(features)

        started = time.perf_counter()
        for normalize in _normalizations(features):
            previous_path = self.paths.get((number - 1, normalize))
            grid = regressions.grid_search(
                _rescale(features.train, normalize, features),
                self.labels.train,
                self.folds,
                Cs=self.protocol.Cs,
                start=previous_path,
                n_classes=self.labels.n_classes,
                n_jobs=self.protocol.n_jobs,
            )
            self.cv_accuracies[number, normalize] = grid.accuracy.mean(axis=1)
            self.paths[number, normalize] = grid.path

            # The preconditioners of the previous lam are large and no longer needed.
            if previous_path is not None:
                weights_only = regressions.Path(previous_path.Cs, previous_path.weights)
                self.paths[number - 1, normalize] = weights_only
        self.seconds["search"] += time.perf_counter() - started

    def _best_setting(self, position: int) -> tuple[int, bool]:
        """Number of the lam and normalisation with the highest accuracy for one seed."""

        def rank(setting: tuple[int, bool]) -> tuple[float, int, int]:
            # Ties go to the first: small lam, no normalisation, strong penalty.
            number, normalize = setting
            highest = self.cv_accuracies[setting][position].max()
            return highest, -number, -normalize

        return max(self.cv_accuracies, key=rank)

    def score(self, position: int) -> Score:
        """Score of the seed at this position among the seeds."""
        seed = self.protocol.seeds[position]
        number, normalize = self._best_setting(position)
        cv_accuracies = self.cv_accuracies[number, normalize][position]  # (n_Cs,)
        best = int(np.argmax(cv_accuracies))
        C = float(self.protocol.Cs[best])

        # Seeds with the same choice and the same features share one classifier.
        needs_own_features = self.random and seed != self.protocol.seeds[0]
        features_seed = seed if needs_own_features else None
        choice = (number, normalize, best, features_seed)
        if choice not in self.test_accuracies:
            features = self.features_of_lam[number]
            if needs_own_features:
                features = self.extract(number, seed)
                self._record_seconds(features)
            self.test_accuracies[choice] = self._test(features, number, normalize, best)

        return Score(
            seed=seed,
            accuracy=self.test_accuracies[choice],
            cv_accuracy=float(cv_accuracies[best]),
            C=C,
            normalize=bool(normalize),
            lam=self.protocol.lams[number],
        )

    def _test(self, features: Features, number: int, normalize: bool, best: int) -> float:
        """Test accuracy of the classifier of one setting, fitted on the training part."""
        started = time.perf_counter()
        coef, intercept = regressions.fit(
            _rescale(features.train, normalize, features),
            self.labels.train,
            self.protocol.Cs[best],
            start=self.paths[number, normalize],
            n_classes=self.labels.n_classes,
            n_jobs=self.protocol.n_jobs,
        )
        X_test = _rescale(features.test, normalize, features)
        predicted = regressions.predict(X_test, coef, intercept)
        accuracy = _accuracy(predicted, self.labels.test)
        self.seconds["final"] += time.perf_counter() - started
        return accuracy

    def best_accuracies(self, number: int) -> np.ndarray:
        """Highest cross-validated accuracy of a lam over C and normalisation, (n_seeds,)."""
        best = []
        for setting, accuracies in self.cv_accuracies.items():
            if setting[0] == number:
                best.append(accuracies.max(axis=1))
        return np.max(best, axis=0)


def _no_seconds() -> dict[str, float]:
    return {"fit": 0.0, "encode": 0.0, "search": 0.0, "final": 0.0}


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
        text = json.dumps(asdict(self), indent=1, allow_nan=False, default=float)
        return text + "\n"


def score_text(result: dict, digits: int = 4) -> str:
    """Accuracy and, where several seeds say so, its standard deviation.

    >>> score_text({'accuracy': 0.81234, 'sd': 0.01, 'scores': [1, 2]}, 3)
    '0.812 ± 0.010'
    """
    accuracy = f"{result['accuracy']:.{digits}f}"
    n_seeds = len(result.get("scores", ()))
    if n_seeds <= 1:
        return accuracy
    return f"{accuracy} ± {result['sd']:.{digits}f}"


def paper_score(row: Row, dataset: str) -> float | None:
    """The number that the paper prints for a row and a dataset; None where it prints none."""
    if row.paper is None or dataset not in PAPER_DATASETS:
        return None
    position = PAPER_DATASETS.index(dataset)
    return row.paper[position]


class Prepared:
    """A dataset tokenised once, whatever the split."""

    def __init__(self, dataset: Dataset, words: Any, *, n_jobs: int | None = None):
        self.dataset = dataset
        self.words = words
        self.n_jobs = n_jobs
        self.n_classes = len(dataset.classes)
        # Splits by seed (None for a fixed split), and the last features worth keeping.
        self._parts: dict = {}
        self._kept: dict = {}

        self.encoded: Encoded | None = None
        self.test_encoded: Encoded | None = None
        if words is not None:
            self.encoded = words.vocabulary.encode(dataset.train_texts)
            if dataset.has_fixed_split:
                self.test_encoded = words.vocabulary.encode(dataset.test_texts)

    def part(self, seed: int) -> tuple[Texts, np.ndarray, np.ndarray]:
        """(Texts, y_train, y_test) of one seed; the same object if the split is fixed."""
        key = None if self.dataset.has_fixed_split else seed
        if key not in self._parts:
            self._parts[key] = self._make_part(key)
        return self._parts[key]

    def _make_part(self, seed: int | None) -> tuple[Texts, np.ndarray, np.ndarray]:
        """The random split of a seed, or with None the fixed one."""
        split = self.dataset
        train_encoded = self.encoded
        test_encoded = self.test_encoded
        if seed is not None:
            split = self.dataset.split(seed)
            if self.encoded is not None:
                train_rows, test_rows = self.dataset.split_rows(seed)
                train_encoded = self.encoded.take(train_rows)
                test_encoded = self.encoded.take(test_rows)

        texts = Texts(
            words=self.words,
            train_texts=split.train_texts,
            test_texts=split.test_texts,
            train=train_encoded,
            test=test_encoded,
            n_jobs=self.n_jobs,
        )
        return texts, split.train_labels, split.test_labels

    def features(
        self, row: Row, source: Texts, lam: float | None = None, seed: int = 0
    ) -> Features:
        """As `features`; those that `few_labels` asks for again are kept."""
        key = (row.name, lam, seed)
        if key in self._kept:
            return self._kept[key]

        extracted = features(row, source, lam, seed)
        if row.few_labels and lam in (None, 1.0) and seed == 0:
            self._kept = {key: extracted}
        return extracted


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

    Returns
    -------
    Result
        Mean test accuracy and its standard deviation, the score of every seed, and the settings
        that were chosen.

    References
    ----------
    Nozawa and Sato (2019): the protocol of their experiments.

    Examples
    --------
    >>> from pacsent.paper import benchmark_datasets as datasets
    >>> dataset = datasets.generate(200, n_tokens=20, random_state=0).dataset()
    >>> result = evaluate("tf-idf", dataset, seeds=(0,), Cs=(1.0, 10.0))
    >>> result.accuracy > 1 / len(dataset.classes)
    True
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a Dataset. Got {type(dataset).__name__} instead. Read one with "
            "read_labelled(path), or build Dataset(name, texts, labels, ...)."
        )
    is_name = isinstance(method, str) and is_model_name(method)
    if not is_name and not hasattr(method, "transform"):
        method = as_encoder(method)
    row, extract = _row_and_extractor(method)
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("seeds must have at least one seed. Got none instead. Pass (0,).")
    if encoder is None and isinstance(method, str) and row.method != "tf-idf":
        raise ValueError(
            f"encoder must be given for the method {method!r}. Got None instead. Pass WordVectors, "
            "or a transformer instead of a name."
        )

    candidate_lams: tuple = row.lams if lams is None else tuple(lams)
    if not candidate_lams:
        candidate_lams = (None,)
    prepared = Prepared(dataset, encoder, n_jobs=n_jobs)
    protocol = Protocol(candidate_lams, seeds, tuple(Cs), n_jobs)

    # Every split extracts the vectors of every lam; random ones are extracted again for a seed.
    n_splits = 1 if dataset.has_fixed_split else len(seeds)
    n_repeated = (len(seeds) - n_splits) * row.random
    n_steps = n_splits * len(candidate_lams) + n_repeated
    with bar(f"evaluate {row.label}", total=n_steps, unit="settings", enabled=verbose) as progress:

        def extract_with_progress(
            row: Row, source: Texts, lam: float | None, seed: int
        ) -> Features:
            note = "" if lam is None else f"lam {lam:g}, seed {seed}"
            progress.update(progress.completed, note)
            extracted = extract(row, source, lam, seed)
            progress.advance()
            return extracted

        return run_row(row, prepared, protocol, extract_with_progress)


def _row_and_extractor(method: Any) -> tuple[Row, Callable[..., Features]]:
    """The row of a method, and the function that extracts its features."""
    if not isinstance(method, str):
        return _transformer_row(method)
    if method in ROWS:
        return ROWS[method], features
    from pacsent.sentences.methods import METHODS

    if method not in METHODS:
        raise ValueError(
            f"method must be a row ({', '.join(ROWS)}) or one of METHODS. Got {method!r} instead."
        )
    return Row(method, method, method), features


def _transformer_row(transformer: Any) -> tuple[Row, Callable[..., Features]]:
    """The row of a transformer from texts to vectors, a clone of which is fitted each time."""
    label = type(transformer).__name__
    if isinstance(transformer, BaseEncoder):
        label = transformer.method_name

    def extract(row: Row, source: Texts, lam: float | None, seed: int) -> Features:
        from sklearn.base import clone

        vectorizer = clone(transformer)
        params = vectorizer.get_params()
        if params.get("random_state", 0) is None:
            vectorizer.set_params(random_state=seed)
        if lam is not None:
            vectorizer.set_params(lam=lam)
        return from_estimator(vectorizer, source.train_texts, source.test_texts)

    return Row(label, label, label), extract


def run_row(
    row: Row, prepared: Prepared, protocol: Protocol, extract: Callable | None = None
) -> Result:
    """Score one row on one dataset.

    extract(row, source, lam, seed) -> Features; by default those of the row.
    """
    extract = extract or prepared.features
    lams = protocol.lams
    seeds = protocol.seeds
    dataset = prepared.dataset

    # Seeds that share a split are solved together.
    groups: list[tuple[int, ...]] = [(seed,) for seed in seeds]
    if dataset.has_fixed_split or protocol.one_split:
        groups = [tuple(seeds)]

    scores: list[Score] = []
    best_accuracies: list[list[np.ndarray]] = [[] for _ in lams]  # by lam, then by group
    details: dict = {}
    seconds = _no_seconds()
    for group in groups:
        source, y_train, y_test = prepared.part(group[0])

        def extract_lam(number: int, seed: int, source: Texts = source) -> Features:
            return extract(row, source, lams[number], seed)

        labels = _Labels(y_train, y_test, prepared.n_classes)
        group_protocol = replace(protocol, seeds=group)
        search = _Search(extract_lam, labels, group_protocol, row.random)
        for position in range(len(group)):
            scores.append(search.score(position))

        for number, of_lam in enumerate(best_accuracies):
            of_lam.append(search.best_accuracies(number))
        for step, spent in search.seconds.items():
            seconds[step] += spent
        if not details:
            best_number = lams.index(scores[0].lam)
            details = _describe(source, search.features_of_lam[best_number])

    accuracy = mean_and_sd([score.accuracy for score in scores])
    lam_curve: list[dict] = []
    if len(lams) > 1:
        lam_curve = _lam_curve(lams, best_accuracies)
    details["params"] = _json_params(row)
    return Result(
        row=row.name,
        label=row.label,
        dataset=dataset.name,
        accuracy=accuracy["accuracy"],
        sd=accuracy["sd"],
        scores=[asdict(score) for score in scores],
        paper=paper_score(row, dataset.name),
        lam_curve=lam_curve,
        seconds={step: round(spent, 3) for step, spent in seconds.items()},
        details=details,
        provenance=_provenance(prepared, protocol),
        n_test=len(y_test),
    )


def _lam_curve(lams: tuple, best_accuracies: list[list[np.ndarray]]) -> list[dict]:
    """Mean cross-validated accuracy of every lam over the seeds."""
    curve = []
    for lam, of_groups in zip(lams, best_accuracies):
        mean = np.concatenate(of_groups).mean()
        curve.append({"lam": lam, "cv_accuracy": float(mean)})
    return curve


def _json_params(row: Row) -> dict[str, Any]:
    """The parameters of a row; JSON has no number for infinity."""
    params = dict(row.params)
    for name, value in params.items():
        if value == float("inf"):
            params[name] = "inf"
    return params


def _describe(source: Texts, extracted: Features) -> dict[str, Any]:
    """Coverage and length of the test texts, and the number of features."""
    details: dict[str, Any] = {}
    if source.test is not None:
        lengths = np.diff(source.test.offsets)
        mean_length = float(lengths.mean())
        details["coverage"] = round(source.test.coverage, 5)
        details["mean_tokens"] = round(mean_length, 2)
    details["n_features"] = int(extracted.train.shape[1])
    return details


def _provenance(prepared: Prepared, protocol: Protocol) -> dict[str, Any]:
    """The data and the settings that a result was made with."""
    words_digest = None
    if prepared.words is not None:
        words_digest = prepared.words.digest()
    return {
        "protocol": PROTOCOL,
        "pacsent": pacsent.__version__,
        "dataset_digest": prepared.dataset.digest,
        "words_digest": words_digest,
        "seeds": list(protocol.seeds),
        "Cs": list(protocol.Cs),
        "n_folds": N_FOLDS,
        "quick": protocol.quick,
        "date": time.strftime("%Y-%m-%d"),
    }


def draw_labelled(labels: np.ndarray, n_labels: int, seed: int) -> np.ndarray:
    """Rows of a draw of n_labels examples, every class in proportion and at least five times."""
    rng = np.random.default_rng([seed, n_labels, 7])
    classes, counts = np.unique(labels, return_counts=True)
    proportional = np.floor(n_labels * counts / counts.sum())
    n_wanted = np.maximum(N_FOLDS, proportional).astype(int)
    n_of_class = np.minimum(n_wanted, counts)  # (n_classes,)

    drawn = []
    for label, n in zip(classes, n_of_class):
        rows_of_class = np.flatnonzero(labels == label)
        drawn.append(rng.permutation(rows_of_class)[:n])
    rows = np.concatenate(drawn)

    # Rounding down may leave a few labels to draw from all classes.
    other_rows = np.setdiff1d(np.arange(len(labels)), rows)
    n_missing = max(0, n_labels - rows.size)
    extra_rows = rng.permutation(other_rows)[:n_missing]
    return np.sort(np.concatenate([rows, extra_rows]))


def row_space(X: Any) -> tuple[Any, Callable[[Any], Any]]:
    """X in coordinates of the space its rows span, and the function that takes other rows there.

    Fewer than n_features where X has fewer rows; lengths and angles stay, so a classifier with an
    L2 penalty stays the same.
    """
    n, n_features = X.shape
    if n >= n_features:
        return X, lambda other: other

    X = X.astype(np.float64)
    gram = X @ X.T  # (n, n)
    if hasattr(gram, "toarray"):
        gram = gram.toarray()
    values, vectors = np.linalg.eigh(gram)

    # Eigenvalues below this are rounding errors.
    is_kept = values > 1e-12 * values[-1]
    scale = np.sqrt(values[is_kept])
    kept_vectors = vectors[:, is_kept]
    basis = X.T @ (kept_vectors / scale)  # (n_features, n_kept)
    basis = basis.astype(np.float32)
    coordinates = (kept_vectors * scale).astype(np.float32)  # (n, n_kept)
    return coordinates, lambda other: np.asarray(other @ basis)


class _DrawChoice(NamedTuple):
    """The best setting for one draw of labels, and the labelled rows in its coordinates."""

    accuracy: float
    normalize: bool
    C: float
    path: regressions.Path
    X: Any
    project: Callable[[Any], Any]


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
    lam = 1.0 if row.lams else None
    extracted = prepared.features(row, source, lam, 0)
    # By whether they are normalised.
    train = {}
    test = {}
    for normalize in _normalizations(extracted):
        train[normalize] = _rescale(extracted.train, normalize, extracted)
        test[normalize] = _rescale(extracted.test, normalize, extracted)

    curve = []
    for size in sizes:
        if size > len(y_train):
            continue
        accuracies = []
        for draw in range(n_draws):
            rows = draw_labelled(y_train, size, draw)
            y = y_train[rows]
            best = _choose_setting(train, rows, y, draw, prepared.n_classes, n_jobs)
            coef, intercept = regressions.fit(
                best.X,
                y,
                best.C,
                n_classes=prepared.n_classes,
                start=best.path,
                tol=1e-9,
                n_jobs=n_jobs,
            )
            X_test = best.project(test[best.normalize])
            predicted = regressions.predict(X_test, coef, intercept)
            accuracy = _accuracy(predicted, y_test)
            accuracies.append(accuracy)
        curve.append({"n_labels": size, **mean_and_sd(accuracies), "draws": accuracies})
    return {**_identify("few-labels", row), "curve": curve}


def _choose_setting(
    train: dict[bool, Any],
    rows: np.ndarray,
    y: np.ndarray,
    draw: int,
    n_classes: int,
    n_jobs: int | None,
) -> _DrawChoice:
    """Choose normalisation and C by cross-validation on the labelled rows; ties go to the first."""
    folds = folds_of(y, draw)
    Cs = regressions.CS[::2]

    choices = []
    for normalize, X_train in train.items():
        X, project = row_space(X_train[rows])
        grid = regressions.grid_search(
            X, y, folds, n_classes=n_classes, Cs=Cs, tol=1e-8, n_jobs=n_jobs
        )
        accuracies = grid.accuracy[0].mean(axis=0)  # (n_Cs,)
        best = int(np.argmax(accuracies))
        choice = _DrawChoice(accuracies[best], normalize, Cs[best], grid.path, X, project)
        choices.append(choice)
    return max(choices, key=lambda choice: choice.accuracy)


def mean_and_sd(accuracies: Sequence[float]) -> dict[str, Any]:
    """Accuracy and its standard deviation, 0 if there is one value only."""
    sd = 0.0
    if len(accuracies) > 1:
        sd = float(np.std(accuracies, ddof=1))
    return {"accuracy": float(np.mean(accuracies)), "sd": sd}


def _identify(kind: str, row: Row) -> dict[str, str]:
    """The fields that say what a result is about."""
    return {"kind": kind, "row": row.name, "label": row.label}


def similarity(row: Row, pairs: Any, words: Any, *, n_jobs: int | None = None) -> dict:
    """Spearman and Pearson correlation with human scores, lam chosen on the training part."""
    train_texts = pairs.first["train"] + pairs.second["train"]
    test_texts = pairs.first["test"] + pairs.second["test"]
    source = Texts(
        words=words,
        train_texts=train_texts,
        test_texts=test_texts,
        train=words.vocabulary.encode(train_texts),
        test=words.vocabulary.encode(test_texts),
        n_jobs=n_jobs,
    )

    candidates = []
    for lam in row.lams or (None,):
        extracted = features(row, source, lam, 0)
        candidate: dict[str, Any] = {
            "lam": lam,
            "train": _correlations(extracted.train, pairs.scores["train"]),
            "test": _correlations(extracted.test, pairs.scores["test"]),
        }
        candidates.append(candidate)

    best = max(candidates, key=lambda candidate: candidate["train"]["spearman"])
    return {
        **_identify("similarity", row),
        "dataset": pairs.name,
        "lam": best["lam"],
        **best["test"],
        "lam_curve": candidates if len(candidates) > 1 else [],
    }


def _correlations(X: Any, scores: np.ndarray) -> dict[str, float]:
    """Correlations of cosine and human score; X has the first sentences, then the second ones."""
    from scipy.stats import pearsonr, spearmanr

    n_pairs = len(scores)
    first = X[:n_pairs]
    second = X[n_pairs:]
    if hasattr(first, "multiply"):  # sparse, with rows of unit length
        products = first.multiply(second)
        cosine = np.asarray(products.sum(axis=1)).ravel()
    else:
        cosine = np.einsum("ij,ij->i", unit_rows(first), unit_rows(second))
    spearman, _ = spearmanr(cosine, scores)
    pearson, _ = pearsonr(cosine, scores)
    return {"spearman": float(spearman), "pearson": float(pearson)}


def certificate(row: Row, prepared: "Prepared") -> dict:
    """Continuation certificate of the training texts, a tenth of them held out to check it."""
    from pacsent.paper import certify_encoder
    from pacsent.sentences.methods import make_encoder

    source, _, _ = prepared.part(0)
    started = time.perf_counter()
    vectorizer = make_encoder(row.method, prepared.words, on_empty="ignore", n_jobs=source.n_jobs)
    certified = certify_encoder(vectorizer, source.train, test_size=0.1)
    seconds = time.perf_counter() - started
    return {
        **_identify("certificate", row),
        "risk_bound": float(certified.error_upper),
        "held_out_risk": float(certified.held_out_risk),
        "empirical_risk": float(certified.empirical_risk),
        "n": int(certified.n),
        "delta": float(certified.delta),
        "assumption": certified.assumption,
        "checked": certified.provenance,
        "seed": certified.random_state,
        "seconds": round(seconds, 2),
    }
