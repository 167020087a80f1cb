"""Certificates A and B of their prior, and of the posteriors of the methods themselves.

    python benchmarks/own_posteriors.py [--n 4000] [--save]

Sentences of SUBJ, English vectors, delta = 0.05. By default the search for the best posterior stays
at the prior; posterior="vectorizer" certifies what the method itself gives.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import certify_encoder, load, make_encoder
from pacsent.paper import benchmark_datasets as datasets

CASES = (
    ("A", "PB-L2"),
    ("A", "PB-neg"),
    ("B", "w-PB-neg"),
)


def measure(words, texts):
    """A row for each method, with the default posterior and with its own."""
    rows = []
    for kind, name in CASES:
        fixed = {"random_state": 0} if name == "w-PB-neg" else {}
        for posterior in ("auto", "vectorizer"):
            encoder = make_encoder(name, words, **fixed)
            options = {"kind": kind, "posterior": posterior, "random_state": 0}
            found = certify_encoder(encoder, texts, **options)
            row = {
                "kind": kind,
                "method": name,
                "posterior": "default" if posterior == "auto" else "its own",
                "empirical risk": found.observed,
                "KL": found.kl,
                "n": found.n,
                "certified": found.error_upper,
            }
            print(row, flush=True)
            rows.append(row)
    return rows


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--n", type=int, default=4000)
    given = parser.parse_args()

    texts = datasets.load("subj", given.data).train_texts
    chosen = np.random.default_rng(0).permutation(len(texts))[: given.n]
    rows = measure(load("english"), [texts[i] for i in chosen])

    finish("own_posteriors", rows, summary={"n": given.n}, save=given.save, name=given.name)
