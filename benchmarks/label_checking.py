"""Labels of a machine checked by a person: how much must be read so that 5 % are wrong at most.

    python benchmarks/label_checking.py [--redraws 1000] [--sets mr --name mr] [--texts N] [--save]

Up to 10,000 training texts (of --texts drawn at random) have labels of a machine: a classifier
fitted on 200 or 2,000 others, whose confidence is the score "own"; or the right labels with 5, 10
or 20 % replaced at random.
"ours" is the score of `check_labels`. Means over redraws of the sample; broken: more than 5 %.
random: reading in a random order until `batch_limit` certifies 5 % at one of ten planned sizes.
threshold: the most trusted prefix with at most 5 % of errors in a sample of 400, uncorrected.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import TextClassifier
from pacsent.classify.label_checking import LabelChecker, label_scores, max_unread_errors
from pacsent.datasets import load_banking
from pacsent.paper import benchmark_datasets as datasets

SETS = ("mr", "subj", "trec", "20news", "banking77")
ROWS, ERROR, DELTA = 10_000, 0.05, 0.05


def machine_labels(texts, right, rng):
    """(machine, rows that it was not fitted on, its labels, its confidence or None)."""
    order = rng.permutation(len(texts))
    for n in (200, 2_000):
        fitting, rows = order[:n], np.sort(order[n:][:ROWS])
        fitting = fitting[np.bincount(right[fitting])[right[fitting]] >= 2]
        model = TextClassifier("english").fit([texts[i] for i in fitting], right[fitting])
        proba = model.predict_proba([texts[i] for i in rows])
        yield f"classifier, {n:,}", rows, model.classes_[proba.argmax(1)], proba.max(1)
    for percent in (5, 10, 20):
        rows = np.sort(order[:ROWS])
        labels = right[rows].copy()
        changed = rng.permutation(rows.size)[: rows.size * percent // 100]
        others = rng.integers(1, right.max() + 1, changed.size)
        labels[changed] = (labels[changed] + others) % (right.max() + 1)
        yield f"noise, {percent} %", rows, labels, None


def checked(wrong, scores, seed):
    checker, read = LabelChecker(scores, error=ERROR, delta=DELTA, random_state=seed), {}
    while rows := checker.next(read)[0]:
        read |= {row: wrong[row] for row in rows}
    return len(read) / wrong.size, (wrong.sum() - sum(read.values())) / wrong.size


def at_random(wrong, seed):
    wrong, n_rows = np.random.default_rng(seed).permutation(wrong), wrong.size
    for size in np.linspace(n_rows / 10, n_rows, 10).astype(int).tolist():
        limit = max_unread_errors(int(wrong[:size].sum()), size, n_rows, DELTA / 10)
        if limit <= ERROR * n_rows:
            break
    return size / n_rows, wrong[size:].sum() / n_rows


def by_threshold(wrong, scores, seed, size=400):
    order = np.argsort(-scores, kind="stable")
    is_sampled = np.zeros(wrong.size, bool)
    is_sampled[np.random.default_rng(seed).permutation(wrong.size)[:size]] = True
    is_read, ends = is_sampled.copy(), np.flatnonzero(is_sampled[order])
    shares = np.cumsum(wrong[order][ends]) / size
    passed = np.flatnonzero(shares <= ERROR)
    is_read[order[(ends[passed[-1]] + 1 if passed.size else 0) :]] = True
    return is_read.mean(), wrong[~is_read].sum() / wrong.size


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--redraws", type=int, default=200)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--texts", type=int)
    given = parser.parse_args()
    table = []
    for name in given.sets:
        texts, labels = load_banking()
        if name != "banking77":
            split = datasets.load(name, given.data).split()
            texts, labels = split.train_texts, split.train_labels
        if given.texts is not None:
            kept = np.random.default_rng(44).permutation(len(texts))[: given.texts]
            texts, labels = [texts[i] for i in kept], [labels[i] for i in kept]
        right = np.unique(labels, return_inverse=True)[1]
        for machine, rows, labels, own in machine_labels(texts, right, np.random.default_rng(44)):
            wrong = labels != right[rows]
            ours = label_scores([texts[i] for i in rows], labels.tolist())
            for score, values in (("ours", ours), ("own", own))[: 1 if own is None else 2]:
                row = {"set": name, "machine": machine, "score": score}
                row |= {"rows": rows.size, "wrong": float(wrong.mean())}
                runs = {
                    "checked": [checked(wrong, values, seed) for seed in range(given.redraws)],
                    "random": [at_random(wrong, seed) for seed in range(given.redraws)],
                    "threshold": [by_threshold(wrong, values, s) for s in range(given.redraws)],
                }
                for way, results in runs.items():
                    read, remaining = np.array(results).T
                    row[f"read, {way}"] = float(read.mean())
                    row[f"broken, {way}"] = float(np.mean(remaining > ERROR))
                table.append(row)
                print(row, flush=True)
    summary = {"redraws": given.redraws, "sets": " ".join(given.sets)}
    finish("label_checking", table, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
