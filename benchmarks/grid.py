"""The grid of C, classes and folds: all at once, against scikit-learn's GridSearchCV.

    python benchmarks/grid.py [--data FOLDER] [--save] [--name NAME]

Average vectors of a dataset, five folds, one-vs-rest logistic regression for every C. Both sides
search the same grid on the same folds with every core; scikit-learn at its default tolerance,
where it stops short of the optimum, and at one that reaches it.
The floor is the matrix products of one gradient for every fold, C and class.
"""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.multiclass import OneVsRestClassifier

from harness import finish, parser_for
from pacsent import make
from pacsent.maths import regressions
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation

parser = parser_for(__doc__, name="20news")
parser.add_argument("--dataset", default="20news")
parser.add_argument("--Cs", type=float, nargs="+", default=[1.0, 10.0, 100.0])
parser.add_argument("--rows", type=int, help="use only so many training texts")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
options = parser.parse_args()

words = datasets.load_word_vectors(Path(options.data) / "vectors")
dataset = datasets.load(options.dataset, options.data).split(0)
vectorizer = make("Average", words, on_empty="ignore")
X = vectorizer.fit_transform(dataset.train_texts)
y, n_classes = dataset.train_labels, len(dataset.classes)
if options.rows:
    some = evaluation.draw_labelled(y, options.rows, 0)
    X, y = X[some], y[some]
test = vectorizer.transform(dataset.test_texts)
folds = evaluation.folds_of(y, 0)

half = np.arange(200) % 2
regressions.grid_search(X[:200], half, half, n_classes=2, Cs=[1.0])  # warm up
started = time.perf_counter()
found = regressions.grid_search(
    X, y, folds, n_classes=n_classes, Cs=options.Cs, n_jobs=options.jobs
)
mean = found.accuracy[0].mean(axis=0)
best = int(np.argmax(mean))
coef, intercept = regressions.fit(
    X, y, options.Cs[best], n_classes=n_classes, start=found.path, n_jobs=options.jobs
)
ours = time.perf_counter() - started
our_test = float(np.mean(regressions.predict(test, coef, intercept) == dataset.test_labels))

name = "C" if n_classes == 2 else "estimator__C"


def baseline(tol):
    binary = LogisticRegression(max_iter=10_000, tol=tol)
    model = binary if n_classes == 2 else OneVsRestClassifier(binary)
    folds_given = PredefinedSplit(folds)
    started = time.perf_counter()
    search = GridSearchCV(model, {name: options.Cs}, cv=folds_given, n_jobs=options.jobs)
    search.fit(X, y)
    seconds = time.perf_counter() - started
    apart = float(np.abs(mean - search.cv_results_["mean_test_score"]).max())
    return {
        "solver": f"scikit-learn GridSearchCV, tol={tol:g}",
        "seconds": seconds,
        "fits/s": n_fits / seconds,
        "best C": float(search.best_params_[name]),
        "CV accuracy": float(search.best_score_),
        "test accuracy": float(search.score(test, dataset.test_labels)),
        "CV differs by": apart,
    }


n_columns = 1 if n_classes == 2 else n_classes
n_fits = len(options.Cs) * n_columns * 5
pass_flops = 4.0 * X.shape[0] * (X.shape[1] + 1) * n_fits
rows = [
    {
        "solver": "pacsent",
        "seconds": ours,
        "fits/s": n_fits / ours,
        "best C": options.Cs[best],
        "CV accuracy": float(mean[best]),
        "test accuracy": our_test,
        "CV differs by": 0.0,
    },
    baseline(1e-4),  # its default, which stops short of the optimum
    baseline(1e-6),
]
finish(
    "grid",
    rows,
    title=f"{n_fits} logistic regressions, {options.dataset}, {X.shape[0]:,} x {X.shape[1]}",
    summary={
        "ratio": rows[1]["seconds"] / ours,
        "ratio at the same optimum": rows[2]["seconds"] / ours,
        "GFLOP of one gradient of all fits (floor: one)": pass_flops / 1e9,
        "our iterations": found.n_iterations,
    },
    save=options.save,
    name=options.name,
)
