"""Exact search: queries a second beside scikit-learn's NearestNeighbors and FAISS's flat index.

    python benchmarks/search.py --save

Vectors of IMDb's training reviews by SIF-sum with the English model; queries are the beginnings of
its test reviews. FAISS is measured where it is installed.
"""

import time

import numpy as np

from harness import finish, parser_for
from pacsent import Index, datasets, make
from pacsent.bench.evaluation import unit_length

K, N_QUERIES = 10, 500

options = parser_for(__doc__).parse_args()
dataset = datasets.load("imdb", options.data)
vectorizer = make("SIF-sum", "english", on_empty="ignore").fit([])
index = Index(vectorizer)
index.add(dataset.train_texts)
X = np.concatenate(index._vectors)
Q = unit_length(vectorizer.transform([t[:150] for t in dataset.test_texts[:N_QUERIES]]))


def rivals():
    yield "pacsent Index", lambda: index._nearest(Q, K)[0]
    from sklearn.neighbors import NearestNeighbors

    brute = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(X)
    yield "scikit-learn NearestNeighbors", lambda: brute.kneighbors(Q, return_distance=False)
    try:
        import faiss
    except ImportError:
        return
    flat = faiss.IndexFlatIP(X.shape[1])
    flat.add(X)
    yield "FAISS IndexFlatIP", lambda: flat.search(Q, K)[1]


truth = np.sort(np.argsort(-(Q.astype(float) @ X.T.astype(float)), axis=1)[:, :K], axis=1)
rows = []
for name, search in rivals():
    search()
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        found = search()
        seconds.append(time.perf_counter() - started)
    same = [len(set(a) & set(b)) / K for a, b in zip(truth.tolist(), found.tolist())]
    rows.append(
        {"index": name, "recall": float(np.mean(same)), "queries/s": N_QUERIES / min(seconds)}
    )
finish(
    "search",
    rows,
    title=(
        f"Exact search: {len(X):,} reviews, {X.shape[1]} dimensions, {N_QUERIES} queries, k = {K}"
    ),
    summary={"ratio": rows[0]["queries/s"] / rows[1]["queries/s"]},
    save=options.save,
    name=options.name,
)
