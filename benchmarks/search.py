"""Exact search: queries a second beside scikit-learn's NearestNeighbors and FAISS's flat index.

    python benchmarks/search.py --save
    python benchmarks/search.py million --save

Vectors of IMDb's training reviews by SIF-sum with the English model; queries are the beginnings of
its test reviews. `million`: passages of twelve words of cleaned Wikipedia, above the number from
which FAISS is used where it is installed. A row counts as found where its cosine, in double, is at
least that of the k-th best: of equal texts any will do. The best of several rounds, the
searchers taking turns.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from harness import finish, parser_for, wikipedia
from pacsent import Index, make
from pacsent.bench import datasets

K = 10
N_QUERIES = {"reviews": 500, "million": 100}
N_SINGLE = {"reviews": 20, "million": 5}
N_ROUNDS = {"reviews": 9, "million": 2}


def texts_of(part, data):
    """(texts to index, queries)"""
    if part == "reviews":
        dataset = datasets.load("imdb", data)
        return dataset.train_texts, [t[:150] for t in dataset.test_texts[: N_QUERIES[part]]]
    with tempfile.TemporaryDirectory() as folder:
        tokens = iter(wikipedia(data, Path(folder)).read_text().split())
    passages = list(iter(lambda: " ".join(islice(tokens, 12)), ""))
    return passages[N_QUERIES[part] :], passages[: N_QUERIES[part]]


def searchers(index, X):
    """name -> function of unit queries, the numbers of rows found."""
    from sklearn.neighbors import NearestNeighbors

    found = {f"pacsent Index, {index.engine_}": lambda Q: index._nearest(Q, K)[0]}
    if index.engine_ != "exact":
        found["pacsent Index, exact"] = lambda Q: index._nearest(Q, K, "exact")[0]
    brute = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(X)
    found["scikit-learn NearestNeighbors"] = lambda Q: brute.kneighbors(Q, return_distance=False)
    try:
        import faiss
    except ImportError:
        return found
    flat = faiss.IndexFlatIP(X.shape[1])
    flat.add(X)
    return {**found, "FAISS IndexFlatIP": lambda Q: flat.search(Q, K)[1]}


def recall(found, Q, X) -> float:
    """Share of the rows found that are among the k best by their cosine in double."""
    right = 0
    for start in range(0, len(Q), 50):
        q = Q[start : start + 50].astype(float)
        blocks = (X[at : at + 50_000].T.astype(float) for at in range(0, len(X), 50_000))
        truth = np.concatenate([q @ block for block in blocks], axis=1)
        least = -np.partition(-truth, K - 1, axis=1)[:, K - 1 : K]
        rows = found[start : start + 50]
        right += (np.take_along_axis(truth, rows, axis=1) >= least - 1e-12).sum()
    return right / found.size


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=["reviews", "million"], nargs="?", default="reviews")
    options = parser.parse_args()
    n, n_single = N_QUERIES[options.part], N_SINGLE[options.part]
    texts, asked = texts_of(options.part, options.data)
    vectorizer = make("SIF-sum", "english", on_empty="ignore").fit([])
    index = Index(vectorizer)
    index.add(texts)
    started = time.perf_counter()
    index.search(asked[0])  # the first search makes what later ones use
    preparing = time.perf_counter() - started
    [X] = [block.vectors for block in index._rows.blocks]
    Q = index._unit(asked)
    names = searchers(index, X)
    batch: dict = {name: [] for name in names}
    single: dict = {name: [] for name in names}
    found = {name: search(Q) for name, search in names.items()}
    for _ in range(N_ROUNDS[options.part]):
        for name, search in names.items():
            started = time.perf_counter()
            search(Q)
            batch[name].append(time.perf_counter() - started)
            started = time.perf_counter()
            for i in range(n_single):
                search(Q[i : i + 1])
            single[name].append(time.perf_counter() - started)
    rows = [
        {
            "index": name,
            "recall": float(recall(found[name], Q, X)),
            f"queries/s, {n} at once": n / min(batch[name]),
            "queries/s, one at a time": n_single / min(single[name]),
        }
        for name in names
    ]
    speed = {row["index"]: row[f"queries/s, {n} at once"] for row in rows}
    ours = rows[0]["index"]
    finish(
        "search",
        rows,
        title=f"Search: {len(X):,} texts, {X.shape[1]} dimensions, k = {K}",
        summary={
            "times scikit-learn": speed[ours] / speed["scikit-learn NearestNeighbors"],
            "times FAISS": speed[ours] / speed.get("FAISS IndexFlatIP", float("nan")),
            "recall": rows[0]["recall"],
            "seconds of the first search": preparing,
        },
        save=options.save,
        name=options.name or options.part,
    )


if __name__ == "__main__":
    main()
