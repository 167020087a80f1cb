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
        folder = "" if self.kind in ("classification", "similarity") else f"{self.kind}/"
        return f"{folder}{self.row}/{self.dataset}.json"


def _is_slow(row: Row) -> bool:
    return "neg" in row.method or row.method.startswith(("PV-DBOW", "PB-01"))


def book_tasks() -> list[Cell]:
    """The results of a run on the passages that ship: the paper's rows, tf-idf, certificates."""
    rows = [name for name, row in ROWS.items() if row.in_paper or name == "tf-idf"]
    cells = [Cell("classification", name, datasets.BOOKS) for name in rows]
    return cells + [Cell("certificate", name, datasets.BOOKS) for name in _CERTIFIED]


def tasks(only: Iterable[str] | None = None, every: list[Cell] | None = None) -> list[Cell]:
    """All results of a full run, in order; `only` keeps the named rows, datasets or kinds."""
    return _select(_all_tasks() if every is None else every, only)


def _all_tasks() -> list[Cell]:
    quick_rows = [name for name, row in ROWS.items() if not _is_slow(row)]
    slow_rows = [name for name, row in ROWS.items() if _is_slow(row)]
    every = []
    for names in (quick_rows, slow_rows):  # what is soon there first
        for dataset in PAPER_DATASETS[::-1]:
            for name in names:
                every.append(Cell("classification", name, dataset))
                if ROWS[name].few_labels:
                    every.append(Cell("few-labels", name, dataset))
                if name in _CERTIFIED:
                    every.append(Cell("certificate", name, dataset))
        # slow rows of our own: only beside the paper's
        extra_rows = [name for name in names if ROWS[name].in_paper or not _is_slow(ROWS[name])]
        for dataset in ("mr", "trec"):
            every += [Cell("classification", name, dataset) for name in extra_rows]
        every += [Cell("similarity", name, "stsb") for name in extra_rows]
    return [t for t in every if t.dataset in (ROWS[t.row].datasets or (t.dataset,))]


def _select(every: list[Cell], only: Iterable[str] | None) -> list[Cell]:
    wanted = [name.strip() for name in only or () if name.strip()]
    choices = {
        "row": set(ROWS),
        "dataset": {task.dataset for task in every},
        "kind": {task.kind for task in every} | {"paper"},
    }
    for name in wanted:
        if not any(name in group for group in choices.values()):
            listed = ", ".join([*ROWS, *sorted(choices["dataset"]), *sorted(choices["kind"])])
            raise ValueError(
                f"only must name rows, datasets or kinds. Got {name!r} instead. Choose "
                f"from {listed}."
            )
    for key, group in choices.items():
        kept = {name for name in wanted if name in group}
        if key == "kind" and "paper" in kept:
            every = [t for t in every if ROWS[t.row].in_paper and t.dataset in PAPER_DATASETS]
            kept = kept - {"paper"} | {"classification"}
        if kept:
            every = [task for task in every if getattr(task, key) in kept]
    return every


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
    seeds = tuple(seeds)[:1] if quick else tuple(seeds)
    Cs = (1.0, 10.0, 100.0) if quick else regressions.CS
    protocol = Protocol(seeds=seeds, Cs=Cs, n_jobs=n_jobs, quick=quick, one_split=one_split)
    every = book_tasks() if data == datasets.BOOKS else None
    run = _Run(folder, words, protocol, tasks(only, every), verify)
    run.say = report or run.say
    shown: dict[str, Any] = {"unit": "results", "enabled": report is not None}
    try:
        with progress.bar("reproduce", total=len(run.left), **shown) as bar:
            for number, task in enumerate(run.left, 1):
                if time_limit is not None and run.seconds() > time_limit:
                    run.say(f"time is up before {task.row} on {task.dataset}: run again to go on")
                    break
                place = f"result {number} of {len(run.left)}: {task.row} on {task.dataset}"
                bar.update(bar.completed, note=place)
                run.do(task, data)
                bar.advance()
    finally:  # also where it is interrupted
        summary = run.summary()
        if run.n_done:
            write_json(folder / "run.json", summary)
    return summary


class _Run:
    """Results still to be made, what they are made with, and how far the run is."""

    def __init__(self, out: Path, words, protocol: Protocol, listed: list[Cell], verify: bool):
        self.out, self.words, self.protocol, self.verify = out, words, protocol, verify
        self.results = out / "results"
        digest = words.digest()
        _check_same(self.results, "words_digest", digest)
        key = {"protocol": PROTOCOL, "words_digest": digest, "quick": protocol.quick}
        key |= {"seeds": list(protocol.seeds), "Cs": list(protocol.Cs)}
        key |= {"one_split": protocol.one_split, "normalize": words.vocabulary.normalize}
        self.keys: dict[Cell, dict[str, Any]] = {}
        for task in listed:
            entry = datasets.DATASETS.get(task.dataset)  # None: from the package
            known = entry.digest if verify and entry is not None else None
            self.keys[task] = {**key, "dataset_digest": known}
            if known is not None:
                _check_same(self.results, "dataset_digest", known, task.dataset)
        self.left = [task for task in listed if not self.is_done(task)]
        self.n_listed, self.n_kept, self.n_done = len(listed), len(listed) - len(self.left), 0
        self.skipped: dict[str, str] = {}
        self.started = time.perf_counter()
        self.say: Callable[[str], object] = lambda line: None
        self._loaded: dict[str, Any] = {}

    def is_done(self, task: Cell) -> bool:
        try:
            made = json.loads((self.results / task.file).read_text())["provenance"]
        except (OSError, ValueError, KeyError):
            return False
        made = {**_EARLIER, **made}
        key = self.keys[task]
        return all(made.get(name) == value for name, value in key.items() if value is not None)

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def prepared(self, task: Cell, data: str | Path) -> Any:
        """The task's dataset, tokenised; None where it is not there. One is kept at a time."""
        if task.dataset not in self._loaded:
            self._loaded.clear()
            try:
                dataset: Any = datasets.load(task.dataset, data, verify=self.verify)
            except FileNotFoundError as error:
                self.leave_out(task.dataset, error)
                dataset = None
            if dataset is not None and task.kind != "similarity":
                dataset = Prepared(dataset, self.words, n_jobs=self.protocol.n_jobs)
            self._loaded[task.dataset] = dataset
        return self._loaded[task.dataset]

    def leave_out(self, name: str, error: Exception) -> None:
        self.skipped[name] = str(error)
        self.say(f"left out {name}: {error}")

    def result(self, task: Cell, prepared: Any) -> dict:
        row, protocol = ROWS[task.row], self.protocol
        if task.kind == "similarity":
            return evaluation.similarity(row, prepared, self.words, n_jobs=protocol.n_jobs)
        if task.kind == "few-labels":
            sizes: dict[str, Any] = {"sizes": (100,), "n_draws": 2} if protocol.quick else {}
            result = evaluation.few_labels(row, prepared, n_jobs=protocol.n_jobs, **sizes)
            return {"dataset": task.dataset, **result}
        if task.kind == "certificate":
            return {"dataset": task.dataset, **evaluation.certificate(row, prepared)}
        lams = (0.5, 4.0) if protocol.quick and len(row.lams) > 1 else row.lams or (None,)
        return asdict(evaluation.run_row(row, prepared, replace(protocol, lams=lams)))

    def do(self, task: Cell, data: str | Path) -> None:
        """Make one result and write it."""
        prepared = self.prepared(task, data)
        if prepared is None:
            return
        made_of = getattr(prepared, "dataset", prepared).digest
        _check_same(self.results, "dataset_digest", made_of, task.dataset)
        began = time.perf_counter()
        try:
            content = self.result(task, prepared)
        except ImportError as error:
            self.leave_out(task.row, error)
            return
        content["provenance"] = {
            **self.keys[task],
            "dataset_digest": made_of,
            "pacsent": pacsent.__version__,
            "n_folds": N_FOLDS,
            "date": time.strftime("%Y-%m-%d"),
            "wall_seconds": round(time.perf_counter() - began, 2),
        }
        write_json(self.results / task.file, content)
        self.n_done += 1
        if task.kind == "classification":
            result = evaluation.score_text(content)
        elif task.kind == "similarity":
            result = f"Spearman {content['spearman']:.4f}"
        elif task.kind == "few-labels":
            result = ", ".join(f"{p['n_labels']}: {p['accuracy']:.4f}" for p in content["curve"])
        else:
            held_out = content["held_out_risk"]
            result = f"at most {rounded_up(content['risk_bound'], 4)}, held out {held_out:.4f}"
        seconds = content["provenance"]["wall_seconds"]
        self.say(f"{content['label']} on {content['dataset']}, {task.kind}: {result} ({seconds} s)")

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


def _check_same(folder: Path, key: str, digest: str, dataset: str | None = None) -> None:
    """Refuse a folder with results that were made of something else."""
    for result in read_results(folder):
        made = result.get("provenance", {}).get(key)
        if made in (None, digest) or (dataset is not None and result.get("dataset") != dataset):
            continue
        what = "word vectors" if dataset is None else f"data of {dataset}"
        raise ValueError(
            f"{folder} must have results of one set of {what}. Got {result['label']} made of "
            f"{made[:12]} there, and {digest[:12]} now, instead. Choose another folder, or delete "
            "the old results."
        )


def write_json(path: str | os.PathLike, content: dict) -> None:
    """Beside its place first, so that an interrupted run leaves whole files only."""
    text = json.dumps(content, indent=1, allow_nan=False, default=float) + "\n"
    with replacing(path, parents=True) as file:
        file.write(text.encode())


def last_run(out: str | os.PathLike) -> dict | None:
    """What the last run that made any result took; None where there was none."""
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
    order = {name: number for number, name in enumerate(ROWS)}
    results = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            content = None
        missing = [] if isinstance(content, dict) else ["one JSON object"]
        if isinstance(content, dict):
            if not {"kind", "row"} <= set(content):
                continue  # not a result
            for name in ("kind", "row", "label", "dataset"):
                missing += [f"a string {name}"] * (type(content.get(name)) is not str)
            for name, may_be_none in _NUMBERS.get(str(content["kind"]), {}).items():
                allowed = (int, float, type(None)) if may_be_none else (int, float)
                missing += [f"a number {name}"] * (type(content.get(name, "")) not in allowed)
            if content["kind"] == "classification" and type(content.get("scores")) is not list:
                missing.append("a list called scores")
        if missing:
            raise ValueError(
                f"{path} must contain {', '.join(missing)}: the file is damaged. Delete it; "
                "pacsent paper reproduce makes it again."
            )
        results.append(content)
    return sorted(results, key=lambda r: (r["kind"], order.get(r["row"], 99), r.get("dataset", "")))
