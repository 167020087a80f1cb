"""What the paper mentions in passing, each beside the row it changes, by the paper's protocol.

    python benchmarks/paper_options.py [--data FOLDER] [--save] [--name NAME] [--n-jobs N]

The loss divided by its largest value, the sum as prior mean, the unit prior of PB-IDF-L2, PB-neg as
the paper trains it and with the paper's KL, w-PB-neg with constant prior variance, PV-DBOW from
scratch beside gensim's Doc2Vec, sub-sampling in the target task; and accuracy against lambda for
the zero-one loss and the log-loss (docs/figures/lambda.png). Vectors: the English model.
One seed, lam, C and normalisation by five-fold cross-validation; SUBJ over `--splits` splits.
"""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

import pacsent
from harness import finish, parser_for
from pacsent import datasets, make
from pacsent.bench import evaluation
from pacsent.bench.rows import LAMS, Row
from pacsent.text.normalise import tokenise_paper
from pacsent.threads import n_threads

TOKEN_LAMS = (1 / 64, 1 / 16, 0.25, 1.0, 4.0, 16.0, 64.0)
SGD = {"solver": "sgd", "n_epochs": 40}
LARGEST = 25.0  # half the squared distance that hardly any two words of the tables exceed
ROWS = [
    Row("PB-L2", "PB-L2", "PB-L2", lams=LAMS),
    Row("largest", "PB-L2, loss / 25", "PB-L2", {"largest_loss": LARGEST}, lams=LAMS),
    Row("sum", "PB-L2, sum as prior mean", "PB-L2", {"prior_mean": "sum"}, lams=LAMS),
    Row("subsample", "PB-L2, subsample 1e-4", "PB-L2", {"subsample": 1e-4}, lams=LAMS),
    Row("token", "PB-L2, λ per token", "PB-L2", {"lam_mode": "per-token"}, lams=TOKEN_LAMS),
    Row("PB-IDF-L2", "PB-IDF-L2", "PB-IDF-L2", lams=LAMS),
    Row("unit", "PB-IDF-L2, unit prior", "PB-IDF-L2", {"unit_prior": True}, lams=LAMS),
    Row("PB-neg", "PB-neg, solved", "PB-neg", lams=LAMS),
    Row("sgd", "PB-neg, 40 epochs of stable SGD", "PB-neg", SGD, lams=LAMS),
    Row("paper-kl", "PB-neg, the paper's KL", "PB-neg", {"kl": "paper"}, lams=LAMS),
    Row("neg-subsample", "PB-neg, subsample 1e-4", "PB-neg", {"subsample": 1e-4}, lams=LAMS),
    Row("neg-token", "PB-neg, λ per token", "PB-neg", {"lam_mode": "per-token"}, lams=TOKEN_LAMS),
    Row("w-PB-neg", "w-PB-neg, T/freq", "w-PB-neg", {"prior_variance": "paper"}, lams=(0.5, 8.0)),
    Row("constant", "w-PB-neg, constant prior variance", "w-PB-neg",
        {"prior_variance": "paper", "prior_shape": "constant"}, lams=(0.5, 8.0)),
    Row("PV-DBOW", "PV-DBOW from the vectors, 10 epochs", "PV-DBOW", {"n_epochs": 10}),
    Row("scratch", "PV-DBOW from scratch, 20 epochs", "PV-DBOW",
        {"n_epochs": 20, "start": "scratch"}),
    Row("Doc2Vec", "gensim Doc2Vec (dbow), 20 epochs", "Doc2Vec"),
]  # fmt: skip
DATASETS = ("20news", "imdb", "subj", "mr", "trec")
CURVES = ("PB-neg", "PB-01")
CURVE_LAMS = (0.0625, 0.25, 1.0, 4.0, 16.0, 64.0)
CHEAP = ("PB-L2", "largest", "sum", "subsample", "token", "PB-IDF-L2", "unit", "PB-neg")
SLOW = {"w-PB-neg": 5, "PV-DBOW": 4, "Doc2Vec": 4, "PB-01": 3, "PB-neg": 2}


class Doc2VecVectors(TransformerMixin, BaseEstimator):
    """gensim's paragraph vectors with the same size, noise words and epochs."""

    def __init__(self, n_jobs=1):
        self.n_jobs = n_jobs

    def fit(self, X, y=None):
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument

        documents = [TaggedDocument(tokenise_paper(text), [i]) for i, text in enumerate(X)]
        self.model_ = Doc2Vec(
            documents, dm=0, vector_size=300, negative=15, epochs=20, min_count=1, sample=0,
            workers=self.n_jobs, seed=1,
        )  # fmt: skip
        self.trained_ = {text: i for i, text in enumerate(X)}
        return self

    def transform(self, X):
        vectors = self.model_.dv.vectors
        return np.array(
            [
                vectors[self.trained_[text]]
                if text in self.trained_
                else self.model_.infer_vector(tokenise_paper(text))
                for text in X
            ]
        )


def estimator(row, n_jobs):
    if row.method == "Doc2Vec":
        return Doc2VecVectors(n_jobs)
    made = make(row.method, pacsent.load("english"), **row.params)
    return made.set_params(on_empty="ignore", n_jobs=n_jobs)


def score(row, name, folder, n_jobs, n_splits):
    """Test accuracy of one row on one dataset, and its curve over lambda."""
    started = time.perf_counter()
    dataset = datasets.load(name, folder)
    seeds = tuple(range(n_splits)) if name == "subj" and row.name in CHEAP else (0,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = evaluation.evaluate(
            estimator(row, n_jobs), dataset, lams=row.lams or None, seeds=seeds, n_jobs=n_jobs
        )
    print(f"{row.label} on {name}: {result.accuracy:.4f}, {time.perf_counter() - started:.0f} s",
          flush=True)  # fmt: skip
    return result.accuracy, result.sd if len(seeds) > 1 else None, result.lam_curve


def cost(row, name) -> float:
    """Roughly how long a case takes, to order them."""
    return SLOW.get(row.method, 1) * {"imdb": 30, "20news": 20, "subj": 3, "mr": 2}.get(name, 1)


def computed(cases, order, options):
    """The scores of all cases; what is not done when the time is up stays open."""
    pool = ProcessPoolExecutor(n_threads(options.n_jobs), mp_context=get_context("spawn"))
    folder, end = Path(options.data), time.monotonic() + 60 * options.minutes
    threads = options.threads_each
    work = {i: pool.submit(score, *cases[i], folder, threads, options.splits) for i in order}
    wait(work.values(), timeout=max(0.0, end - time.monotonic()))
    found = [
        work[i].result() if work[i].done() and not work[i].cancelled() else (None, None, [])
        for i in range(len(cases))
    ]
    for process in list(pool._processes.values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def figure(curves, path):
    """Cross-validated accuracy against lambda: zero-one loss and log-loss."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = Figure(figsize=(6.4, 4.2), dpi=110)
    FigureCanvasAgg(shown)
    axis = shown.add_subplot()
    for (name, curve), colour in zip(curves.items(), ("#1b6e9c", "#d95f02")):
        points = sorted((point["lam"], point["cv_accuracy"]) for point in curve)
        axis.plot(*zip(*points), marker="o", color=colour, label=name)
    axis.set(xscale="log", xlabel="λ", ylabel="cross-validated accuracy on SUBJ")
    axis.legend(frameon=False)
    shown.tight_layout()
    shown.savefig(path, metadata={"Software": None})


def main():
    parser = parser_for(__doc__, name="english")
    parser.add_argument("--n-jobs", type=int, help="Processes.  [default: all cores]")
    parser.add_argument("--threads-each", type=int, default=1, help="Threads of a process.")
    parser.add_argument("--minutes", type=float, default=240.0, help="Stop after so long.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=DATASETS, default=list(DATASETS))
    options = parser.parse_args()
    curve_rows = [Row(name, name, name, lams=CURVE_LAMS) for name in CURVES]
    cases = [(row, name) for row in ROWS for name in options.only]
    cases += [(row, "subj") for row in curve_rows]
    # the slowest first, so that no core waits for one of them at the end
    order = sorted(range(len(cases)), key=lambda i: cost(*cases[i]), reverse=True)
    found = computed(cases, order, options)
    curves = {
        row.name: found[len(ROWS) * len(options.only) + i][2] for i, row in enumerate(curve_rows)
    }
    rows = []
    for number, row in enumerate(ROWS):
        scores = dict(zip(options.only, found[number * len(options.only) :]))
        line = {"row": row.label}
        line |= {name: scores[name][0] if name in scores else None for name in DATASETS}
        spread = scores["subj"][1] if "subj" in scores else None
        rows.append({**line, "sd over splits of subj": spread})
    for row, curve in curves.items():
        for point in curve:
            rows.append({"row": f"{row}, λ = {point['lam']:g}, cross-validated",
                         **dict.fromkeys(DATASETS), "subj": point["cv_accuracy"],
                         "sd over splits of subj": None})  # fmt: skip
    if options.save and all(curves.values()):
        figure(curves, Path(__file__).parents[1] / "docs" / "figures" / "lambda.png")
    finish(
        "paper_options",
        rows,
        summary={"ratio": None, "splits of SUBJ": options.splits},
        title="What the paper mentions in passing: test accuracy, the English model's vectors",
        save=options.save,
        name=options.name,
    )


if __name__ == "__main__":
    main()
