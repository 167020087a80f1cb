"""Drift monitors: false alarms where texts repeat, power against kinds of texts, coverage.

    python benchmarks/drift.py [--data FOLDER] [--parts repeats kinds coverage] [--draws 100]
        [--processes 2] [--save]

`repeats`: a classifier whose confidence depends on the text is certified on 600 rows, and reads 600
new rows of the same world; alpha is 0.05. In worlds of traffic, rows are independent draws and
templates repeat; in worlds of copies, distinct texts are independent draws, and collecting makes
copies of the texts that the classifier is less sure of, more of them in the labelled rows than in
the new ones. Alarms in % of draws: the test of rows is valid in traffic, the test of texts in
worlds of copies, a withdrawal needs both and is valid in either. The invalid test is the control.
"file" is `compare_with_calibration` of the same rows in random order, with alpha 0.01.
In "flood" worlds the new rows have one further text that makes up 60% of them.

`kinds`: TextClassifier(None) on 400 texts of twelve intents of Banking77; files of 300 new texts,
of which a fraction is of another kind. Found in % of files (alpha 0.01, as `pacsent predict`), next
to what its message states for the mildest kind, and how often the error rate of the file is above
the certified bound although nothing was found.

`coverage`: TextClassifier("english") on 300 texts of each of four sets, and the fraction of other
texts of the set, and of texts in other languages, that are not answered because too few of their
words are known.

`abstention`: how often abstention at a promised error of 5% is broken if texts of an unknown kind
are refused, as calibration texts are, and (control) only when it predicts.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import csv
import lzma
import warnings
import zlib

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from harness import finish, parser_for, run_jobs
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.binomial import passes
from pacsent.certify import DriftMonitor
from pacsent.certify.drift_check import OTHER_FRACTIONS, DriftCheck, detection_times
from pacsent.certify.repeats import COPIES, TRAFFIC
from pacsent.datasets import load_banking, load_books
from pacsent.paper import benchmark_datasets as datasets

ALPHA, DELTA, N_ROWS = 0.05, 0.05, 600
# world: (number of templates, fraction of rows that are templates), or copies of a distinct text
WORLDS = {
    "traffic without repeats": ("traffic", 1, 0.0),
    "traffic, 1 template, 30%": ("traffic", 1, 0.3),
    "traffic, 5 templates, 50%": ("traffic", 5, 0.5),
    "traffic, 50 templates, 50%": ("traffic", 50, 0.5),
    "traffic, 300 templates, 50%": ("traffic", 300, 0.5),
    "copies, as many in new rows": ("copies", 4, 4),
    "copies, none in new rows": ("copies", 4, 0),
    "flood of a new text": ("flood", 1, 0.0),
}
SETS = ("banking77", "trec", "subj", "20news")
LANGUAGES = {
    "German sentences": ("stsb-de-test.csv.xz", 0, ","),
    "Spanish sentences": ("stsb-es-test.csv.xz", 0, ","),
    "German news": ("10kGNAD-test.csv.xz", 1, ";"),
    "Chinese reviews": ("waimai_10k.csv.xz", 1, ","),
}
KINDS = ("other intents", "three hardest intents", "books")
FRACTIONS = (0.1, 0.2, 0.3, 0.5, 1.0)
N_INTENTS, N_LABELLED, N_FILE = 12, 400, 300


# ---- repeats -------------------------------------------------------------------------------------


class HashedConfidence(ClassifierMixin, BaseEstimator):
    """A fixed classifier whose confidence depends on the text; it is surer of templates."""

    def fit(self, X, y):
        self.classes_ = np.array(["down", "up"])
        return self

    def predict_proba(self, X):
        uniform = np.array([zlib.crc32(text.encode()) % 1000 / 1000 for text in X])
        is_easy = np.array(["template" in text for text in X])
        confidence = np.where(is_easy, 0.8 + 0.2 * uniform, 0.5 + 0.4 * uniform)
        is_up = np.array(["good" in text for text in X])
        p_up = np.where(is_up, confidence, 1 - confidence)
        return np.column_stack([1 - p_up, p_up])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def make_text(rng, start=""):
    """A text of random words, no two of which are near each other."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(word) for word in rng.choice(letters, (8, 7))]
    return " ".join(filter(None, [rng.choice(["good", "poor"]), start, *words]))


def draw_rows(rng, world, templates, is_new):
    """Rows of a world, in random order."""
    kind, size, other = WORLDS[world]
    if kind == "copies":
        n_copies = other if is_new else size
        rows = []
        while len(rows) < N_ROWS:
            is_easy = rng.random() < 0.5
            text = make_text(rng, "template" if is_easy else "")
            rows += [text] * (1 if is_easy else 1 + rng.poisson(n_copies))
        # A stream has the copies of a text after it: shuffled, texts with many copies come first.
        return rows[:N_ROWS] if is_new else [rows[i] for i in rng.permutation(N_ROWS)]
    rows = [
        templates[rng.integers(len(templates))] if rng.random() < other else make_text(rng)
        for _ in range(N_ROWS)
    ]
    if kind == "flood" and is_new:
        flood = make_text(rng)
        rows = [flood if rng.random() < 0.6 else row for row in rows]
    return rows


def repeats(job):
    warnings.simplefilter("ignore")
    world, seed, _ = job
    rng = np.random.default_rng([seed, 3])
    templates = [make_text(rng, "template") for _ in range(WORLDS[world][1])]
    rows = draw_rows(rng, world, templates, is_new=False)
    labels = ["up" if ("good" in text) != (rng.random() < 0.05) else "down" for text in rows]
    model = CertifiedClassifier(HashedConfidence(), random_state=seed).fit(rows, labels)
    new = draw_rows(rng, world, templates, is_new=True)
    monitor = DriftMonitor(model, alpha=ALPHA, random_state=seed)
    monitor.update(new)
    file = model.compare_with_calibration([new[i] for i in rng.permutation(len(new))])
    return world, {
        "rows": monitor.alarm or monitor.holds_only_if == COPIES,
        "texts": monitor.alarm or monitor.holds_only_if == TRAFFIC,
        "withdrawn": monitor.alarm,
        "file: rows": file.differs is True or file.holds_only_if == COPIES,
        "file: texts": file.differs is True or file.holds_only_if == TRAFFIC,
    }


def repeats_table(options):
    jobs = [(world, seed, None) for world in WORLDS for seed in range(options.draws)]
    results = run_jobs(repeats, jobs, options.processes)
    table = []
    for world in WORLDS:
        found = [alarms for name, alarms in results if name == world]
        rates = {name: 100 * float(np.mean([a[name] for a in found])) for name in found[0]}
        table.append({"world": world} | rates)
    title = f"Alarms on unchanged traffic, copies and floods, alpha {ALPHA}, % of {options.draws}"
    return table, title


# ---- kinds ---------------------------------------------------------------------------------------


def kinds(job):
    warnings.simplefilter("ignore")
    _, seed, _ = job
    rng = np.random.default_rng([seed, 5])
    texts, intents = load_banking()
    texts, intents = np.array(texts, dtype=object), np.array(intents)
    names = np.unique(intents)[rng.permutation(77)[:N_INTENTS]]
    own = rng.permutation(np.flatnonzero(np.isin(intents, names)))
    others = rng.permutation(np.flatnonzero(~np.isin(intents, names)))
    labelled, new = own[:N_LABELLED], own[N_LABELLED:]
    model = CertifiedClassifier(TextClassifier(None, n_jobs=1), random_state=seed)
    model.fit(texts[labelled].tolist(), intents[labelled].tolist())
    is_wrong = model.predict(texts[new].tolist()) != intents[new]
    error_of = [(is_wrong[intents[new] == name].mean(), name) for name in names]
    hardest = [name for _, name in sorted(error_of)[-3:]]
    books = np.array([passage.text for passage in load_books()], dtype=object)
    pools = {
        "other intents": (texts[others], np.ones(others.size, bool)),
        "three hardest intents": (
            texts[new][np.isin(intents[new], hardest)],
            is_wrong[np.isin(intents[new], hardest)],
        ),
        "books": (books, np.ones(books.size, bool)),
    }
    size = DriftCheck(model).size()
    stated = dict(zip(OTHER_FRACTIONS, (detection_times(*size) <= N_FILE).mean(axis=1)))
    found = []
    for kind in KINDS:
        for fraction in (0.0, *FRACTIONS) if kind == KINDS[0] else FRACTIONS:
            n_other = round(fraction * N_FILE)
            pool, pool_wrong = pools[kind]
            rows = rng.choice(pool.size, n_other, replace=n_other > pool.size)
            usual = rng.permutation(new.size)[: N_FILE - n_other]
            file = [*texts[new][usual].tolist(), *pool[rows].tolist()]
            file = [file[i] for i in rng.permutation(len(file))]
            error = np.mean([*is_wrong[usual], *pool_wrong[rows]])
            comparison = model.compare_with_calibration(file)
            is_broken = error > model.certificate_.error_upper
            found.append((kind, fraction, comparison.differs is True, is_broken,
                          stated.get(fraction)))  # fmt: skip
    return found


def kinds_table(options):
    n_fits = max(1, options.draws // 4)
    jobs = [("kinds", seed, None) for seed in range(n_fits)]
    results = [item for found in run_jobs(kinds, jobs, options.processes) for item in found]
    table = []
    for kind in KINDS:
        for fraction in (0.0, *FRACTIONS):
            cell = [item for item in results if item[:2] == (kind, fraction)]
            if not cell:
                continue
            is_found = np.array([item[2] for item in cell])
            is_broken = np.array([item[3] for item in cell])
            stated = [item[4] for item in cell if item[4] is not None]
            table.append({
                "kind": kind if fraction else "none",
                "of the texts (%)": 100 * fraction,
                "found (%)": 100 * float(is_found.mean()),
                "stated (%)": 100 * float(np.mean(stated)) if stated else None,
                "bound broken (%)": 100 * float(is_broken.mean()),
                "broken and not found (%)": 100 * float((is_broken & ~is_found).mean()),
            })  # fmt: skip
    return table, f"Files of {N_FILE} texts with texts of another kind, {n_fits} fits"


# ---- coverage ------------------------------------------------------------------------------------


def load_set(name, data):
    if name == "banking77":
        texts, labels = load_banking()
        return list(texts), list(labels)
    dataset = datasets.load(name, data)
    label_of = dict(zip(dataset.train_texts, np.asarray(dataset.train_labels).tolist()))
    return list(label_of), list(label_of.values())


def load_language(name, data):
    file, column, separator = LANGUAGES[name]
    quote = "'" if separator == ";" else '"'
    with lzma.open(data / "languages" / file, "rt", encoding="utf-8") as lines:
        rows = csv.reader(lines, delimiter=separator, quotechar=quote)
        return [row[column] for row in rows if len(row) > column][1:2001]


def coverage(job):
    warnings.simplefilter("ignore")
    name, _, data = job
    texts, labels = load_set(name, data)
    order = np.random.default_rng(0).permutation(len(texts))
    fitted, new = order[:300], order[300:]
    model = TextClassifier("english", n_jobs=1)
    model.fit([texts[i] for i in fitted], [labels[i] for i in fitted])

    def refused(some):
        return 100 * float((~model.are_covered(some)).mean())

    row = {"set": name, "least coverage": model.min_coverage_, "new texts": new.size,
           "not answered (%)": refused([texts[i] for i in new])}  # fmt: skip
    return row | {language: refused(load_language(language, data)) for language in LANGUAGES}


def coverage_table(options):
    jobs = [(name, 0, options.data) for name in SETS]
    table = run_jobs(coverage, jobs, options.processes)
    return table, "Texts that are not answered because too few of their words are known, %"


# ---- abstention ----------------------------------------------------------------------------------


def abstention(job):
    """One draw: is abstention broken if texts are refused in both places, and if in one alone."""
    _, seed, _ = job
    rng = np.random.default_rng([seed, 7])
    n, error, refused_fraction = 100, 0.05, 0.3
    # Refused texts are right more often: without them, answers are wrong in more than 5%.
    is_refused = rng.random(n) < refused_fraction
    wrong_rate = np.where(is_refused, 0.0, error * 1.001)
    is_wrong = rng.random(n) < wrong_rate
    is_kept = ~is_refused
    both = passes(int(is_kept.sum()), int(is_wrong[is_kept].sum()), error, DELTA, 1.0)
    alone = passes(n, int(is_wrong.sum()), error, DELTA, 1.0)
    return {"as in calibration": bool(both), "control: at prediction alone": bool(alone)}


def abstention_table(options):
    n_draws = 100 * options.draws
    results = [abstention(("abstention", seed, None)) for seed in range(n_draws)]
    row = {name: 100 * float(np.mean([r[name] for r in results])) for name in results[0]}
    title = f"Answers wrong in more than the promised 5%, % of {n_draws:,} draws, delta {DELTA}"
    return [row], title


PARTS = {
    "repeats": repeats_table,
    "kinds": kinds_table,
    "coverage": coverage_table,
    "abstention": abstention_table,
}


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    for part in options.parts:
        rows, title = PARTS[part](options)
        finish("drift", rows, title=title, summary={"rows": len(rows)}, save=options.save,
               name=options.name or part)  # fmt: skip


if __name__ == "__main__":
    main()
