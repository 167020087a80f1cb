"""How much SUBJ's random split moves the accuracy: twenty splits, one setting.

    python benchmarks/subj_splits.py [--data FOLDER] [--save] [--name NAME]

The paper's table and ours average three seeds. Here C = 10 on vectors of unit length is fixed, so
that nothing but the split changes.
"""

from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import make
from pacsent.maths import regressions
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation

parser = parser_for(__doc__, name="subj")
parser.add_argument("--splits", type=int, default=20)
options = parser.parse_args()

words = datasets.load_word_vectors(Path(options.data) / "vectors")
dataset = datasets.load("subj", options.data)
encoded = words.vocabulary.encode(dataset.train_texts)
labels = dataset.train_labels
rows = []
for method in ("Average", "i-Average", "IDF-Average", "i-IDF-Average"):
    scores = []
    for seed in range(options.splits):
        train, test = dataset.split_rows(seed)
        vectorizer = make(method, words, on_empty="ignore")
        F = vectorizer.fit_transform(encoded.take(train))
        G = vectorizer.transform(encoded.take(test))
        model = regressions.fit(evaluation.unit_rows(F), labels[train], 10.0, n_classes=2, tol=1e-8)
        guess = regressions.predict(evaluation.unit_rows(G), *model)
        scores.append(float(np.mean(guess == labels[test])))
    rows.append(
        {
            "method": method,
            "mean": float(np.mean(scores)),
            "sd of a split": float(np.std(scores, ddof=1)),
            "seeds 0-2": float(np.mean(scores[:3])),
            "least": min(scores),
            "most": max(scores),
        }
    )
finish(
    "subj_splits",
    rows,
    title=f"SUBJ: test accuracy over {options.splits} random splits",
    summary={"splits": options.splits},
    save=options.save,
    name=options.name,
)
