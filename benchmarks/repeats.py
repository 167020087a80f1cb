"""How often guarantees are broken where texts repeat, for either reason, and what caution costs.

    python benchmarks/repeats.py [--parts simulation cost flood] [--draws 1000] [--seeds 5]
        [--processes 2] [--data FOLDER] [--save]

`simulation`: traffic, in which rows are independent draws and templates are drawn again, and
copies, in which distinct texts are and copies of some are made. Each is certified by default, and
with repeats="traffic" and "copies"; the setting that does not apply is the negative control.
Columns: the error of a fixed rule, its prediction sets and abstention (error 0.2), and the error of
a classifier that knows trained texts by heart, whose held-out part `fit` would draw. "one split" is
the simple way that fails: whole clusters are held out, and the larger bound of their rows and of
their clusters is taken. delta is 0.05 everywhere.
`cost`: a TextClassifier on 500 labels of real texts, as they repeat by themselves.
`flood`: the bound for 500 labelled texts of which one wrong one was copied 100 times.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from harness import finish, parser_for, run_jobs
from pacsent import CertifiedClassifier, TextClassifier, certify_predictions
from pacsent.bounds.binomial import upper_limit
from pacsent.certify.error_certificate import error_certificate
from pacsent.certify.independence import hold_out
from pacsent.certify.repeats import draw_samples
from pacsent.datasets import load_banking
from pacsent.paper import benchmark_datasets as datasets
from pacsent.predict.abstaining import abstain, cautious_set_thresholds
from pacsent.predict.calibration import Calibration

DELTA, ERROR, HELD_OUT = 0.05, 0.2, 0.3
SETTINGS = (None, "traffic", "copies")
ONE_SPLIT = "one split"
DRAWS_PER_JOB = 100
SETS = ("banking77", "trec", "subj", "20news")
N_LABELS, N_COPIES = 500, 100
LEVELS = np.linspace(0.55, 0.95, 400)  # of confidence, equally frequent in texts that occur once
HIGH_LEVELS = LEVELS[LEVELS > 0.75]  # of those that repeat


class Rows(NamedTuple):
    """A draw: clusters, whether a fixed rule is wrong, and its confidence; all (n,)."""

    clusters: np.ndarray
    is_wrong: np.ndarray
    confidence: np.ndarray


class Traffic(NamedTuple):
    """Rows are independent draws; a template is drawn with probability `fraction`."""

    name: str
    n: int
    n_templates: int
    fraction: float
    wrong_templates: float
    wrong_others: float
    reason = "traffic"

    def draw(self, rng):
        is_template = rng.random(self.n) < self.fraction
        template = rng.integers(self.n_templates, size=self.n)
        clusters = np.where(is_template, template, self.n_templates + np.arange(self.n))
        wrong = np.where(is_template, self.wrong_templates, self.wrong_others)
        of_templates = rng.choice(HIGH_LEVELS, self.n_templates)
        confidence = np.where(is_template, of_templates[template], rng.choice(LEVELS, self.n))
        return Rows(clusters, rng.random(self.n) < wrong, confidence), of_templates

    def kinds(self, of_templates):
        """(weight, probability to be wrong, levels of confidence) of each kind of new text."""
        return (
            (self.fraction, self.wrong_templates, of_templates),
            (1 - self.fraction, self.wrong_others, LEVELS),
        )

    def error_by_heart(self, knows_wrong):
        """The error of new rows, if `knows_wrong` are the templates learnt with the rare label."""
        wrong = np.full(self.n_templates, self.wrong_templates)
        wrong[knows_wrong] = 1 - self.wrong_templates
        return self.fraction * wrong.mean() + (1 - self.fraction) * self.wrong_others


class Copies(NamedTuple):
    """Clusters are independent draws; a `fraction` of them has up to `largest` copies."""

    name: str
    n: int
    largest: int
    fraction: float
    wrong_copied: float
    wrong_others: float
    reason = "copies"

    def draw(self, rng):
        is_copied = rng.random(self.n) < self.fraction
        sizes = np.where(is_copied, rng.integers(2, self.largest + 1, self.n), 1)
        is_wrong = rng.random(self.n) < np.where(is_copied, self.wrong_copied, self.wrong_others)
        levels = np.where(is_copied, rng.choice(HIGH_LEVELS, self.n), rng.choice(LEVELS, self.n))
        rows = Rows(*(np.repeat(x, sizes) for x in (np.arange(self.n), is_wrong, levels)))
        return rows, None

    def kinds(self, _):
        return (
            (self.fraction, self.wrong_copied, HIGH_LEVELS),
            (1 - self.fraction, self.wrong_others, LEVELS),
        )

    def error_by_heart(self, _):
        """The error of new clusters, which are not known by heart."""
        return self.fraction * self.wrong_copied + (1 - self.fraction) * self.wrong_others


WORLDS = (
    Traffic("50 templates, half of 500 rows", 500, 50, 0.5, 0.02, 0.2),
    Traffic("200 templates, half of 500 rows", 500, 200, 0.5, 0.02, 0.2),
    Traffic("200 templates, 30% of 300 rows", 300, 200, 0.3, 0.05, 0.25),
    Traffic("50 templates, half of 1,000 rows", 1000, 50, 0.5, 0.02, 0.2),
    Traffic("50 templates, wrong ones, half of 500", 500, 50, 0.5, 0.4, 0.05),
    Traffic("1 template, wrong, 30% of 500 rows", 500, 1, 0.3, 0.5, 0.05),
    Traffic("no repeats, 500 rows", 500, 1, 0.0, 0.0, 0.2),
    Copies("300 texts, up to 5 copies of right ones", 300, 5, 0.2, 0.02, 0.2),
    Copies("300 texts, up to 5 copies of wrong ones", 300, 5, 0.2, 0.5, 0.05),
    Copies("200 texts, up to 20 copies of right ones", 200, 20, 0.1, 0.02, 0.25),
)


def calibration_of(rows):
    """Two classes: the rule says 0 with the confidence of the row, and is right where y is 0."""
    log_proba = np.log(np.column_stack([rows.confidence, 1 - rows.confidence]))
    return Calibration(log_proba, rows.is_wrong.astype(int))


def mean_over(kinds, of_kind):
    return sum(weight * np.mean(of_kind(wrong, levels)) for weight, wrong, levels in kinds)


def broken_sets(calibrations, kinds):
    lowest = np.exp(cautious_set_thresholds(calibrations, ERROR, DELTA, False)[0])
    missed = mean_over(
        kinds, lambda wrong, s: wrong * (1 - s < lowest) + (1 - wrong) * (s < lowest)
    )
    return missed > ERROR


def broken_abstention(classifier, calibrations, kinds):
    threshold = abstain(classifier, calibrations, ERROR, DELTA).threshold
    answered = mean_over(kinds, lambda _, s: s >= threshold)
    wrong = mean_over(kinds, lambda wrong, s: wrong * (s >= threshold))
    return wrong > ERROR * answered


def broken_by_heart(world, rows, setting, seed):
    """Whether the bound of a classifier that knows trained texts by heart is false; and the
    fraction of the rows that it was trained on."""
    n = rows.clusters.size
    split = hold_out(
        rows.clusters, HELD_OUT, seed, repeats="copies" if setting == ONE_SPLIT else setting
    )
    is_wrong = rows.is_wrong.copy()  # of the rule; by heart it says what the last trained row says
    last = dict(zip(rows.clusters[split.training_rows], rows.is_wrong[split.training_rows]))
    for row in split.held_out_rows:
        is_wrong[row] ^= last.get(rows.clusters[row], False)
    held_out = is_wrong[split.held_out_rows]
    if setting == ONE_SPLIT:
        (one_per_cluster,) = split.samples.values()
        bound = max(
            upper_limit(int(sample.sum()), sample.size, DELTA)
            for sample in (held_out, is_wrong[one_per_cluster])
        )
    else:
        bound = error_certificate(
            [False] * held_out.size,
            held_out.tolist(),
            clusters=rows.clusters[split.held_out_rows],
            drawn=split.positions() if len(split.samples) > 1 else None,
            repeats=setting,
            delta=DELTA,
            random_state=seed,
        ).error_upper
    knows_wrong = [k for k, wrong in last.items() if wrong and k < getattr(world, "n_templates", 0)]
    return bound < world.error_by_heart(knows_wrong), split.training_rows.size / n


def simulate(job):
    """How often each guarantee was false, by setting, and the fraction of rows trained on."""
    number, first_seed = job
    world = WORLDS[number]
    counts = {setting: np.zeros(5) for setting in (*SETTINGS, ONE_SPLIT)}
    for seed in range(first_seed, first_seed + DRAWS_PER_JOB):
        rng = np.random.default_rng([number, seed])
        rows, of_templates = world.draw(rng)
        planning, _ = world.draw(rng)
        kinds = world.kinds(of_templates)
        calibration = calibration_of(rows)
        classifier = SimpleNamespace(out_of_fold_=calibration_of(planning))
        error = mean_over(kinds, lambda wrong, _: wrong)
        for setting in SETTINGS:
            samples = draw_samples(rows.clusters, setting, seed)
            bounds = [
                upper_limit(int(rows.is_wrong[drawn].sum()), drawn.size, DELTA)
                for drawn in samples.values()
            ]
            calibrations = {name: calibration.select(drawn) for name, drawn in samples.items()}
            by_heart, trained = broken_by_heart(world, rows, setting, seed)
            counts[setting] += (
                max(bounds) < error,
                broken_sets(calibrations, kinds),
                broken_abstention(classifier, calibrations, kinds),
                by_heart,
                trained,
            )
        by_heart, trained = broken_by_heart(world, rows, ONE_SPLIT, seed)
        counts[ONE_SPLIT] += (0, 0, 0, by_heart, trained)
    return counts


def simulation(given):
    n_jobs = max(1, given.draws // DRAWS_PER_JOB)
    jobs = [(k, DRAWS_PER_JOB * j) for k in range(len(WORLDS)) for j in range(n_jobs)]
    results = run_jobs(simulate, jobs, given.processes)
    rows = []
    for number, world in enumerate(WORLDS):
        of_world = [found for (k, _), found in zip(jobs, results) if k == number]
        for setting in (*SETTINGS, ONE_SPLIT):
            means = sum(found[setting] for found in of_world) / (n_jobs * DRAWS_PER_JOB)
            percent = [100 * mean for mean in means[:4]]
            if setting == ONE_SPLIT:
                percent[:3] = [None] * 3
            rows.append(
                {
                    "reason": world.reason,
                    "world": world.name,
                    "repeats": setting or "default",
                    "error": percent[0],
                    "prediction sets": percent[1],
                    "abstention": percent[2],
                    "fit": percent[3],
                    "trained": means[4],
                }
            )
    claimed = [row for row in rows if row["repeats"] in ("default", row["reason"])]
    columns = ("error", "prediction sets", "abstention", "fit")
    summary = {f"most {name}": max(row[name] for row in claimed) for name in columns}
    title = "Guarantees broken where texts repeat (%), delta 0.05"
    finish(
        "repeats", rows, title=title, summary=summary | {"draws": given.draws},
        save=given.save, name="simulation",
    )  # fmt: skip


# ---- real texts ----------------------------------------------------------------------------------


def read(name, data):
    """Texts and labels, as they are: with their repeats."""
    if name == "banking77":
        texts, labels = load_banking(part="train")
        return list(texts), np.array(labels)
    dataset = datasets.load(name, data)
    names = np.array([str(c) for c in dataset.classes])
    return list(dataset.train_texts), names[np.asarray(dataset.train_labels)]


def draw_labelled(name, data, seed):
    """N_LABELS texts with their labels, and 2,000 others."""
    texts, labels = read(name, data)
    order = np.random.default_rng(seed).permutation(len(texts))
    mine, others = order[:N_LABELS], order[N_LABELS:][:2000]
    return [texts[i] for i in mine], labels[mine], [texts[i] for i in others], labels[others]


def measure_cost(job):
    name, setting, seed, data = job
    X, y, new_X, new_y = draw_labelled(name, data, seed)
    model = TextClassifier("english", n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certified = CertifiedClassifier(model, repeats=setting, random_state=seed).fit(X, y)
        sets = certified.predict_set(new_X, error=0.2, as_mask=True)
        answers = certified.abstain(error=0.2).predict(new_X)
    return {
        "trained": certified.estimator_.selection_["n_texts"],
        "held out": certified.certificate_.n,
        "error": float(np.mean(certified.predict(new_X) != new_y)),
        "bound": certified.certificate_.error_upper,
        "set size": float(sets.sum(axis=1).mean()),
        "answered": float(np.mean([answer is not None for answer in answers])),
    }


def cost(given):
    keys = [(name, setting) for name in given.sets for setting in SETTINGS]
    jobs = [(*key, seed, given.data) for key in keys for seed in range(given.seeds)]
    results = run_jobs(measure_cost, jobs, given.processes)
    rows = []
    for name, setting in keys:
        found = [r for job, r in zip(jobs, results) if job[:2] == (name, setting)]
        means = {key: float(np.mean([r[key] for r in found])) for key in found[0]}
        rows.append({"set": name, "repeats": setting or "default", **means})
    title = f"What caution costs: {N_LABELS} labels, prediction sets and abstention at error 0.2"
    finish(
        "repeats", rows, title=title, summary={"seeds": given.seeds}, save=given.save, name="cost"
    )


def flood(given):
    """Bounds of answers of which 10% are wrong, one of the wrong texts copied N_COPIES times."""
    rows = []
    for name in given.sets:
        X = draw_labelled(name, given.data, 0)[0]
        is_wrong = np.random.default_rng(0).permutation(N_LABELS) < N_LABELS // 10
        copied = int(np.flatnonzero(is_wrong)[0])
        texts = X + [X[copied]] * N_COPIES
        wrong = np.append(is_wrong, np.ones(N_COPIES, bool))
        row = {"set": name}
        for title, n in (("", N_LABELS), (", one wrong text copied", N_LABELS + N_COPIES)):
            for setting in SETTINGS:
                certificate = certify_predictions(
                    [False] * n, wrong[:n].tolist(), texts=texts[:n], classes=[False, True],
                    repeats=setting, random_state=0,
                )  # fmt: skip
                row[f"{setting or 'default'}{title}"] = certificate.error_upper
        rows.append(row)
    title = f"Bounds for {N_LABELS} texts, 10% wrong; one wrong text copied {N_COPIES} times"
    finish("repeats", rows, title=title, summary={}, save=given.save, name="flood")


def main():
    parser = parser_for(__doc__)
    parts = {"simulation": simulation, "cost": cost, "flood": flood}
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=list(parts))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    for name in given.parts:
        parts[name](given)


if __name__ == "__main__":
    main()
