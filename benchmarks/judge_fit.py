"""100 labels of a person and up to 5,000 of a machine that is right in 90 %: error and bound.

    python benchmarks/judge_fit.py [--draws 10] [--save]

`CertifiedClassifier` fitted on the 100 alone, and with `judge=` on both; errors on other texts,
and certified ones. A wrong label of the machine is another class at random.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import CertifiedClassifier
from pacsent.paper import benchmark_datasets as datasets


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--draws", type=int, default=10)
    given, table = parser.parse_args(), []
    for name in ("subj", "mr", "trec"):
        split, results = datasets.load(name, given.data).split(), {}
        X = np.array(split.train_texts, object)
        classes, y = np.unique(split.train_labels, return_inverse=True)
        for seed in range(given.draws):
            rng = np.random.default_rng(seed)
            rows, others, test = np.split(
                rng.permutation(y.size), [100, min(5100, y.size * 2 // 3)]
            )
            noise = (rng.random(y.size) < 0.1) * rng.integers(1, classes.size, y.size)
            machine = X[others], ((y + noise) % classes.size)[others]
            for labels, judge in (("human", None), ("human and machine", machine)):
                model = CertifiedClassifier(random_state=seed).fit(X[rows], y[rows], judge=judge)
                error = np.mean(model.predict(X[test[:2500]]) != y[test[:2500]])
                results.setdefault(labels, []).append((error, model.certificate_.error_upper))
        for labels, values in results.items():
            error, bound = np.array(values).T
            row = {"error": error.mean(), "bound": bound.mean(), "broken": np.mean(error > bound)}
            table.append({"set": name, "labels": labels} | {k: float(v) for k, v in row.items()})
    finish("judge_fit", table, summary={"draws": given.draws}, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
