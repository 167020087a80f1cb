"""The whole table and more, one JSON file for each result; goes on where it stopped."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pacsent
from pacsent import progress
from pacsent.bounds.rounding import rounded_up
from pacsent.files import replacing
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation, regressions
from pacsent.paper.evaluation import N_FOLDS, PROTOCOL, SEEDS, Prepared, Protocol
from pacsent.paper.method_rows import PAPER_DATASETS, ROWS, Row
from pacsent.threads import n_cores

_CERTIFIED = ("PB-L2", "PB-neg")
# What results are made with that do not say so.
_EARLIER = {"one_split": False, "normalize": "paper"}


@dataclass(frozen=True)
class Cell:
    """One result file to be made."""

    kind: str  # classification, few-labels, similarity, certificate
    row: str
    dataset: str

    @property
    def file(self) -> str:
        path = f"{self.row}/{self.dataset}.json"
        if self.kind in ("classification", "similarity"):
            return path
        return f"{self.kind}/{path}"


def _is_slow(row: Row) -> bool:
    has_slow_name = row.method.startswith(("PV-DBOW", "PB-01"))
    return has_slow_name or "neg" in row.method


def book_tasks() -> list[Cell]:
    """The results of a run on the passages that ship: the paper's rows, tf-idf, certificates."""
    rows = [name for name, row in ROWS.items() if row.in_paper or name == "tf-idf"]
    scores = [Cell("classification", name, datasets.BOOKS) for name in rows]
    certificates = [Cell("certificate", name, datasets.BOOKS) for name in _CERTIFIED]
    return scores + certificates


def tasks(only: Iterable[str] | None = None, every: list[Cell] | None = None) -> list[Cell]:
    """All results of a full run, in order; `only` keeps the named rows, datasets or kinds."""
    if every is None:
        every = _all_tasks()
    return _select(every, only)


def _all_tasks() -> list[Cell]:
    quick_rows = [name for name, row in ROWS.items() if not _is_slow(row)]
    slow_rows = [name for name, row in ROWS.items() if _is_slow(row)]
    every = []
    # Rows whose results are there soon come first.
    for names in (quick_rows, slow_rows):
        for dataset in PAPER_DATASETS[::-1]:
            for name in names:
                every += _tasks_of_row(name, dataset)

        # Slow rows that are not in the paper run on its datasets only.
        other_rows = [name for name in names if ROWS[name].in_paper or not _is_slow(ROWS[name])]
        for dataset in ("mr", "trec"):
            every += [Cell("classification", name, dataset) for name in other_rows]
        every += [Cell("similarity", name, "stsb") for name in other_rows]
    return [task for task in every if _runs_on(ROWS[task.row], task.dataset)]


def _tasks_of_row(name: str, dataset: str) -> list[Cell]:
    """All results of one row on one dataset of the paper."""
    kinds = ["classification"]
    if ROWS[name].few_labels:
        kinds.append("few-labels")
    if name in _CERTIFIED:
        kinds.append("certificate")
    return [Cell(kind, name, dataset) for kind in kinds]


def _runs_on(row: Row, dataset: str) -> bool:
    return not row.datasets or dataset in row.datasets


def _select(every: list[Cell], only: Iterable[str] | None) -> list[Cell]:
    """The tasks whose row, dataset and kind are among the names of each group, if it has any."""
    rows = set(ROWS)
    names_of_datasets = {task.dataset for task in every}
    kinds = {task.kind for task in every} | {"paper"}
    names = _names_of(only, rows, names_of_datasets, kinds)

    selected_kinds = kinds.intersection(names)
    if "paper" in selected_kinds:
        every = [task for task in every if _is_in_table(task)]
        selected_kinds = selected_kinds - {"paper"} | {"classification"}

    # A group that no name belongs to is not restricted.
    selected = (
        rows.intersection(names) or rows,
        names_of_datasets.intersection(names) or names_of_datasets,
        selected_kinds or kinds,
    )

    def is_selected(task: Cell) -> bool:
        properties = (task.row, task.dataset, task.kind)
        return all(value in group for value, group in zip(properties, selected))

    return [task for task in every if is_selected(task)]


def _names_of(
    only: Iterable[str] | None, rows: set[str], datasets: set[str], kinds: set[str]
) -> list[str]:
    """The names of `only`, checked; a row may be named as in the table ("Average α=0")."""
    name_of_label = {row.label: name for name, row in ROWS.items()}
    stripped = [name.strip() for name in only or ()]
    names = [name_of_label.get(name, name) for name in stripped if name]

    for name in names:
        if name not in rows | datasets | kinds:
            choices = ", ".join([*ROWS, *sorted(datasets), *sorted(kinds)])
            raise ValueError(
                f"only must name rows, datasets or kinds. Got {name!r} instead. Choose "
                f"from {choices}."
            )
    return names


def _is_in_table(task: Cell) -> bool:
    """Return True if the paper's table has this row and this dataset."""
    return ROWS[task.row].in_paper and task.dataset in PAPER_DATASETS


def reproduce(
    data: str | Path,
    words: Any,
    out: str | os.PathLike,
    *,
    only: Iterable[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    quick: bool = False,
    one_split: bool = False,
    n_jobs: int | None = None,
    verify: bool = True,
    time_limit: float | None = None,
    report: Callable[[str], None] | None = None,
) -> dict:
    """Run the paper's table and more; one JSON file for each result under `out/results`.

    Results that are already there, made with the same data, words and settings, are kept: a run
    that was interrupted goes on where it stopped. A folder that holds results of other word vectors
    or other data is refused, so that no table mixes them.

    `only` names rows, datasets or kinds ("classification", "few-labels", "similarity",
    "certificate"; "paper" for the rows of the paper's table). `quick` takes one seed, three values
    of C, two of lam: to see that everything works. `one_split` divides SUBJ and MR once for all
    seeds, as the standard deviations of the paper suggest; by default each seed has its own split.
    `data` "books" is the author of a passage, with data that ships with the package. After
    `time_limit` seconds no further result is begun; run again to go on. `report` is called with one
    line for each result, and for each row that was left out and why; a progress bar is shown as
    well.
    """
    folder = Path(out)
    seeds = tuple(seeds)
    Cs: tuple[float, ...] = regressions.CS
    if quick:
        seeds = seeds[:1]
        Cs = (1.0, 10.0, 100.0)
    protocol = Protocol(seeds=seeds, Cs=Cs, n_jobs=n_jobs, quick=quick, one_split=one_split)
    every = book_tasks() if data == datasets.BOOKS else None
    run = _Run(folder, words, protocol, tasks(only, every), verify)
    run.report = report or run.report

    n_tasks = len(run.pending)
    is_shown = report is not None
    try:
        with progress.bar("reproduce", total=n_tasks, unit="results", enabled=is_shown) as bar:
            for number, task in enumerate(run.pending, 1):
                where = f"{task.row} on {task.dataset}"
                if time_limit is not None and run.seconds() > time_limit:
                    run.report(f"time is up before {where}: run again to go on")
                    break
                bar.update(bar.completed, note=f"result {number} of {n_tasks}: {where}")
                run.do(task, data)
                bar.advance()
    finally:
        # An interrupted run is recorded as well.
        summary = run.summary()
        if run.n_done:
            write_json(folder / "run.json", summary)
    return summary


class _Run:
    """Results still to be made, the data and settings they need, and how far the run is."""

    def __init__(self, out: Path, words: Any, protocol: Protocol, listed: list[Cell], verify: bool):
        self.out = out
        self.words = words
        self.protocol = protocol
        self.verify = verify
        self.results = out / "results"
        self.keys = self._keys_of(listed)

        self.pending = [task for task in listed if not self.is_done(task)]
        self.n_listed = len(listed)
        self.n_kept = len(listed) - len(self.pending)
        self.n_done = 0
        self.skipped: dict[str, str] = {}

        self.started = time.perf_counter()
        self.report: Callable[[str], object] = lambda line: None
        self._loaded: dict[str, Any] = {}

    def _keys_of(self, listed: list[Cell]) -> dict[Cell, dict[str, Any]]:
        """The provenance that a result of each task must have."""
        words_digest = self.words.digest()
        _check_same(self.results, "words_digest", words_digest)
        common = {
            "protocol": PROTOCOL,
            "words_digest": words_digest,
            "quick": self.protocol.quick,
            "seeds": list(self.protocol.seeds),
            "Cs": list(self.protocol.Cs),
            "one_split": self.protocol.one_split,
            "normalize": self.words.vocabulary.normalize,
        }

        keys: dict[Cell, dict[str, Any]] = {}
        for task in listed:
            # Data that ship with the package have no entry.
            entry = datasets.DATASETS.get(task.dataset)
            digest = entry.digest if self.verify and entry is not None else None
            keys[task] = {**common, "dataset_digest": digest}
            if digest is not None:
                _check_same(self.results, "dataset_digest", digest, task.dataset)
        return keys

    def is_done(self, task: Cell) -> bool:
        """Return True if a result with the same data, words and settings is there."""
        try:
            result = json.loads((self.results / task.file).read_text())
            recorded = result["provenance"]
        except (OSError, ValueError, KeyError):
            return False
        provenance = {**_EARLIER, **recorded}
        for name, value in self.keys[task].items():
            if value is not None and provenance.get(name) != value:
                return False
        return True

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def prepared(self, task: Cell, data: str | Path) -> Any:
        """The task's dataset, tokenised; None if it is not there. One is kept at a time."""
        if task.dataset not in self._loaded:
            self._loaded.clear()
            self._loaded[task.dataset] = self._load(task, data)
        return self._loaded[task.dataset]

    def _load(self, task: Cell, data: str | Path) -> Any:
        try:
            dataset = datasets.load(task.dataset, data, verify=self.verify)
        except FileNotFoundError as error:
            self.skip(task.dataset, error)
            return None
        if isinstance(dataset, datasets.Pairs):
            return dataset
        return Prepared(dataset, self.words, n_jobs=self.protocol.n_jobs)

    def skip(self, name: str, error: Exception) -> None:
        """Report a row or a dataset for which no result can be made."""
        self.skipped[name] = str(error)
        self.report(f"left out {name}: {error}")

    def result(self, task: Cell, prepared: Any) -> dict:
        """Compute one result."""
        row = ROWS[task.row]
        n_jobs = self.protocol.n_jobs
        if task.kind == "similarity":
            return evaluation.similarity(row, prepared, self.words, n_jobs=n_jobs)
        if task.kind == "few-labels":
            size_options: dict[str, Any] = {}
            if self.protocol.quick:
                size_options = {"sizes": (100,), "n_draws": 2}
            result = evaluation.few_labels(row, prepared, n_jobs=n_jobs, **size_options)
            return {"dataset": task.dataset, **result}
        if task.kind == "certificate":
            result = evaluation.certificate(row, prepared)
            return {"dataset": task.dataset, **result}

        lams: tuple = row.lams or (None,)
        if self.protocol.quick and len(row.lams) > 1:
            lams = (0.5, 4.0)
        score = evaluation.run_row(row, prepared, replace(self.protocol, lams=lams))
        return asdict(score)

    def do(self, task: Cell, data: str | Path) -> None:
        """Make one result and write it."""
        prepared = self.prepared(task, data)
        if prepared is None:
            return

        # Pairs are a dataset themselves; `Prepared` has one.
        dataset = getattr(prepared, "dataset", prepared)
        _check_same(self.results, "dataset_digest", dataset.digest, task.dataset)

        started = time.perf_counter()
        try:
            content = self.result(task, prepared)
        except ImportError as error:
            self.skip(task.row, error)
            return
        seconds = round(time.perf_counter() - started, 2)

        content["provenance"] = {
            **self.keys[task],
            "dataset_digest": dataset.digest,
            "pacsent": pacsent.__version__,
            "n_folds": N_FOLDS,
            "date": time.strftime("%Y-%m-%d"),
            "wall_seconds": seconds,
        }
        write_json(self.results / task.file, content)
        self.n_done += 1
        numbers = _format_numbers(content)
        title = f"{content['label']} on {content['dataset']}, {task.kind}"
        self.report(f"{title}: {numbers} ({seconds} s)")

    def summary(self) -> dict:
        peak_memory = 0
        with contextlib.suppress(ImportError):  # not a Unix
            import resource

            peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {
            "seconds": round(self.seconds(), 1),
            "peak_memory_bytes": peak_memory,
            "n_done": self.n_done,
            "n_kept": self.n_kept,
            "n_missing": self.n_listed - self.n_done - self.n_kept,
            "skipped": self.skipped,
            "n_cores": n_cores(),
        }


def _format_numbers(content: dict) -> str:
    """The numbers of a result in one line.

    >>> _format_numbers({"kind": "similarity", "spearman": 0.71234})
    'Spearman 0.7123'
    """
    if content["kind"] == "classification":
        return evaluation.score_text(content)
    if content["kind"] == "similarity":
        return f"Spearman {content['spearman']:.4f}"
    if content["kind"] == "few-labels":
        points = [f"{point['n_labels']}: {point['accuracy']:.4f}" for point in content["curve"]]
        return ", ".join(points)
    bound = rounded_up(content["risk_bound"], 4)
    return f"at most {bound}, held out {content['held_out_risk']:.4f}"


def _check_same(folder: Path, key: str, digest: str, dataset: str | None = None) -> None:
    """Refuse a folder with results that were made of something else."""
    for result in read_results(folder):
        recorded = result.get("provenance", {}).get(key)
        is_of_another_dataset = dataset is not None and result.get("dataset") != dataset
        if recorded in (None, digest) or is_of_another_dataset:
            continue
        material = "word vectors" if dataset is None else f"data of {dataset}"
        raise ValueError(
            f"{folder} must have results of one set of {material}. Got {result['label']} made of "
            f"{recorded[:12]} there, and {digest[:12]} now, instead. Choose another folder, or "
            "delete the old results."
        )


def write_json(path: str | os.PathLike, content: dict) -> None:
    """Write a file that an interrupted run leaves either complete or as it was."""
    text = json.dumps(content, indent=1, allow_nan=False, default=float)
    with replacing(path, parents=True) as file:
        file.write(f"{text}\n".encode())


def last_run(out: str | os.PathLike) -> dict | None:
    """Summary of the last run that made any result; None if there was none."""
    try:
        return json.loads((Path(out) / "run.json").read_text())
    except (OSError, ValueError):
        return None


# Numbers that the report needs of each kind of result; True if None is allowed.
_NUMBERS = {
    "classification": {"accuracy": False, "sd": False, "paper": True},
    "similarity": {"spearman": False, "pearson": False},
    "certificate": {"risk_bound": False, "held_out_risk": False, "n": False, "delta": False},
}


def read_results(folder: str | os.PathLike) -> list[dict]:
    """Every result under `folder`, in the order of the table."""
    results = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            content = None
        is_object = isinstance(content, dict)
        if is_object and not {"kind", "row"} <= set(content):
            continue  # not a result

        missing = _missing_fields(content) if is_object else ["one JSON object"]
        if missing:
            raise ValueError(
                f"{path} must contain {', '.join(missing)}: the file is damaged. Delete it; "
                "pacsent paper reproduce makes it again."
            )
        results.append(content)

    order = {name: number for number, name in enumerate(ROWS)}

    def place(result: dict) -> tuple[str, int, str]:
        row_number = order.get(result["row"], 99)
        return result["kind"], row_number, result.get("dataset", "")

    return sorted(results, key=place)


def _missing_fields(content: dict) -> list[str]:
    """Fields that the report needs and a result does not have, or has with another type."""
    missing = []
    for name in ("kind", "row", "label", "dataset"):
        if type(content.get(name)) is not str:
            missing.append(f"a string {name}")

    numbers = _NUMBERS.get(str(content["kind"]), {})
    for name, may_be_none in numbers.items():
        value_type = type(content.get(name, ""))
        is_allowed_none = may_be_none and value_type is type(None)
        if value_type not in (int, float) and not is_allowed_none:
            missing.append(f"a number {name}")

    if content["kind"] == "classification" and type(content.get("scores")) is not list:
        missing.append("a list called scores")
    return missing
