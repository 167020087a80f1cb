"""Sentence posteriors and the evaluation grid on one GPU: seconds, and agreement with the CPU.

    python benchmarks/solve_gpu.py [--data FOLDER] [--text FILE] [--save] [--name NAME]

Word vectors are trained on enwik8 or `--text` first (both tables, on the GPU). Then, for the
paper's three datasets: PB-neg of all sentences for all six lambda; w-PB-neg, 40 epochs and the
exact solution, on IMDb; and the grid of logistic regressions (nine C, five folds, three repeats) on
the averages.
The CPU solves a sample of the same sentences, and the largest difference is reported.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from harness import describe_gpu, finish, need_gpu, parser_for, wikipedia

need_gpu("solve_gpu")

try:
    import torch
except ImportError:  # --help needs no torch
    torch = None

from pacsent import Corpus, gpu  # noqa: E402
from pacsent.maths import regressions  # noqa: E402
from pacsent.maths.pb_neg_exact import solve  # noqa: E402
from pacsent.maths.pb_neg_objective import noise_of  # noqa: E402
from pacsent.paper import datasets  # noqa: E402

LAMS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
NAMES = ("20news", "imdb", "subj")


def shares_of(counts):
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    return sparse.diags(1.0 / n_tokens) @ counts


def timed(work):
    torch.cuda.synchronize()
    started = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - started


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--text", type=Path, help="cleaned text, instead of enwik8")
    parser.add_argument("--check", type=int, default=64, help="sentences solved on the CPU too")
    arguments = parser.parse_args()
    device = gpu.require("cuda")
    with tempfile.TemporaryDirectory() as folder:
        text = arguments.text or wikipedia(arguments.data, Path(folder))
        corpus = Corpus.build(text, Path(folder) / "corpus")
        vocabulary = corpus.vocabulary
        A, B, _ = gpu.train_skipgram(corpus)
    rows, totals = [], {"PB-neg": 0.0, "grid": 0.0}
    for name in NAMES:
        data = datasets.load(name, arguments.data).split(0)
        train = vocabulary.count(data.train_texts)
        counts = sparse.vstack([train, vocabulary.count(data.test_texts)]).tocsr()
        full = np.flatnonzero(np.diff(counts.indptr) > 0)
        counts, is_train = counts[full], full < train.shape[0]
        m = shares_of(counts) @ B
        frequency = np.asarray(train.sum(axis=0)).ravel()
        noise = noise_of(frequency, A, m.mean(axis=0))
        print(name, counts.shape, counts.nnz, "noise words", noise.words.size, flush=True)

        gpu.solve_pb_neg(counts[:64], A, m[:64], noise)  # compiles
        sample = np.random.default_rng(0).choice(full.size, arguments.check, replace=False)
        worst = {}
        for kl in ("exact", "paper"):
            seconds = 0.0
            steps = []
            for lam in LAMS:
                found, took = timed(
                    lambda lam=lam, kl=kl, c=counts, m=m, noise=noise: gpu.solve_pb_neg(
                        c, A, m, noise, lam=lam, kl=kl
                    )
                )
                seconds += took
                steps.append(found.n_iter.mean())
                if not found.converged.all():
                    print("not converged:", name, kl, lam, int((~found.converged).sum()))
                if lam in (0.25, 8.0):
                    some = sample if kl == "exact" else sample[: sample.size // 4]  # it is slow
                    exact = solve(
                        counts[some], A.astype(float), m[some], noise, lam=lam, kl=kl, tol=1e-6
                    )
                    worst[kl, lam] = float(np.abs(exact.mu - found.mu[some]).max())
            if kl == "exact":
                totals["PB-neg"] += seconds
            rows.append(
                {
                    "job": f"PB-neg, kl={kl}, six lambda",
                    "data": name,
                    "sentences": int(full.size),
                    "seconds": round(seconds, 2),
                    "sentences/s": 6 * full.size / seconds,
                    "evaluations": round(float(np.mean(steps)), 1),
                    "largest difference": f"{max(worst[kl, 0.25], worst[kl, 8.0]):.1e}",
                }
            )
            print(rows[-1], flush=True)
        X = (shares_of(counts) @ A).astype(np.float32)[is_train]
        y = np.concatenate([data.train_labels, data.test_labels])[full][is_train]
        folds = np.stack([np.random.default_rng(s).permutation(y.size) % 5 for s in range(3)])
        n_classes = len(data.classes)
        for scaled in (False, True):
            Z = X / np.linalg.norm(X, axis=1, keepdims=True) if scaled else X
            for _ in range(2):  # the second time is measured
                found, took = timed(
                    lambda Z=Z, y=y, folds=folds, n_classes=n_classes: gpu.fit_grid(
                        Z, y, folds, n_classes=n_classes, Cs=regressions.CS
                    )
                )
            totals["grid"] += took
            rows.append(
                {
                    "job": "grid, " + ("unit length" if scaled else "as they are"),
                    "data": name,
                    "sentences": int(y.size),
                    "seconds": round(took, 3),
                    "sentences/s": None,
                    "evaluations": found.n_iterations,
                    "largest difference": f"accuracy {found.accuracy.mean((0, 1)).max():.4f}",
                }
            )
            print(rows[-1], flush=True)

        if name == "imdb":
            train = counts[is_train]
            var_P = frequency.sum() / np.maximum(frequency, 1)
            for how, solver in (("sgd", gpu.WordSGD()), ("exact", gpu.WordMinimiser())):
                (_, _, _, n_iter), took = timed(
                    lambda train=train, noise=noise, var_P=var_P, solver=solver: gpu.fit_w_pb_neg(
                        train, A, B, noise, var_P, solver=solver
                    )
                )
                rows.append(
                    {
                        "job": f"w-PB-neg, {how}",
                        "data": name,
                        "sentences": int(train.shape[0]),
                        "seconds": round(took, 2),
                        "sentences/s": n_iter * train.shape[0] / took,
                        "evaluations": n_iter,
                        "largest difference": None,
                    }
                )
                totals[f"w-PB-neg {solver}"] = took
                print(rows[-1], flush=True)
    about = describe_gpu(device)
    summary = {f"{key}, seconds": round(value, 2) for key, value in totals.items()}
    finish(
        "solve_gpu", rows, summary={**summary, **about}, save=arguments.save, name=arguments.name,
        title=f"Sentence posteriors and the grid on one {about['gpu']}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
