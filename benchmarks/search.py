"""Exact search: queries a second beside scikit-learn's NearestNeighbors and FAISS's flat index.

    python benchmarks/search.py --save
    python benchmarks/search.py million --save
    python benchmarks/search.py hybrid --save
    python benchmarks/search.py words --save [--texts 1000000]

Vectors of IMDb's training reviews by SIF-sum with the English model; queries are the beginnings of
its test reviews. `million`: passages of twelve words of cleaned Wikipedia, above the number from
which FAISS is used where it is installed. A row counts as found where its cosine, in double, is at
least that of the k-th best: of equal texts any will do. The best of several rounds, the
searchers taking turns.

`hybrid`: how good hits are by vectors, by words and by both, on the test queries of
choose_fusion.py. `words`: BM25 beside bm25s, and words with vectors beside FAISS, in one run on
passages of Wikipedia, with the time to index and the memory of the process.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from harness import finish, parser_for, wikipedia
from pacsent import Index, make
from pacsent.encoders.external_encoders import as_search_encoder
from pacsent.paper import benchmark_datasets as datasets
from pacsent.search import faiss_index
from pacsent.search.ranking import top

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

    none = np.empty(0, bool)

    def rows(Q, excluded):
        ranking = index._ranking(index._snapshot, excluded)
        return np.array([r for r, *_ in ranking.best([""] * len(Q), Q, K, none)])

    found = {f"pacsent Index, {index.engine_}": lambda Q: rows(Q, none)}
    if index.engine_ != "exact":
        found["pacsent Index, exact"] = lambda Q: rows(Q, None)
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


def hybrid(options):
    """Precision or reciprocal rank at 10 of each part and of both."""
    from choose_fusion import encoders, quality, tasks

    table: dict = {}
    for task, queries, texts, right in tasks(options.data, "test"):
        for name, encoder in {**encoders(), "english": as_search_encoder("english")}.items():
            for how, share in (("vectors", False), ("BM25", 1.0), ("both", True)):
                index = Index(encoder, "exact", lexical=share)
                index.add(texts)
                found = []
                for hits, rows in zip(index.search(queries, K), right):
                    scores = np.full(len(texts), -np.inf)
                    scores[[hit.id for hit in hits]] = [hit.score for hit in hits]
                    found.append(quality(scores, rows))
                row = "BM25" if how == "BM25" else f"{how}, {name}"
                table.setdefault(row, {})[task] = float(np.mean(found))
    rows = [{"hits by": name, **found} for name, found in table.items()]
    gains = {
        f"{task}, {encoder}": table[f"both, {encoder}"][task]
        - max(table[f"vectors, {encoder}"][task], table["BM25"][task])
        for encoder in (*encoders(), "english")
        for task in rows[0]
        if task != "hits by"
    }
    finish("search", rows, title="Hits by vectors, by words and by both: test queries",
           summary={"least gain over the better part": min(gains.values()), **gains},
           save=options.save, name="hybrid")  # fmt: skip


def words(options):
    """Seconds to index, and queries a second, one at a time."""
    import resource

    from pacsent.search import lexical

    texts, asked = texts_of("million", options.data)
    texts, asked = texts[: options.texts], asked[:50]
    encoder = make("SIF-sum", "english", on_empty="ignore").fit([])
    lexical.Postings.of(texts[:100])
    rows = []

    def measured(name, build, ask):
        started = time.perf_counter()
        made = build()
        building = time.perf_counter() - started
        ask(made, asked[0])
        started = time.perf_counter()
        for query in asked:
            ask(made, query)
        rate = len(asked) / (time.perf_counter() - started)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rows.append({"search": name, "seconds to index": building, "queries/s": rate,
                     "peak memory so far, GB": peak})  # fmt: skip
        return made

    def ours():
        postings = lexical.Postings.of(texts)
        return postings, lexical.length_norms(postings.lengths, np.ones(len(texts), bool))

    none = np.empty(0, bool)
    measured("pacsent BM25", ours, lambda made, q: top(
        lexical.scores([made[0]], made[1], none, q), K))  # fmt: skip
    try:
        import bm25s

        def theirs(backend):
            made = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend=backend)
            tokens = bm25s.tokenize(texts, stopwords=None, show_progress=False)
            made.index(tokens, show_progress=False)
            return made

        for backend in ("numpy", "numba"):
            measured(f"bm25s, {backend}", lambda: theirs(backend), lambda made, q: made.retrieve(  # noqa: B023
                bm25s.tokenize([q], stopwords=None, show_progress=False), k=K, n_threads=1,
                show_progress=False))  # fmt: skip
    except ImportError:
        pass
    X = np.asarray(encoder.transform(texts), np.float32)
    try:
        import faiss

        def flat(X=X):
            made = faiss.IndexFlatIP(X.shape[1])
            made.add(X)
            return made

        def near(made, query):
            return made.search(np.asarray(encoder.transform([query]), np.float32), K)

        measured("FAISS IndexFlatIP, vectors given", flat, near)
    except ImportError:
        pass
    del X

    def both(engine, share):
        def build():
            made = Index(encoder, engine, lexical=share)
            made.add(texts)
            return made

        return build

    ask = lambda made, q: made.search(q, K)  # noqa: E731
    measured("pacsent Index, exact, vectors", both("exact", False), ask)
    measured("pacsent Index, exact, both", both("exact", True), ask)
    if faiss_index.available():
        measured("pacsent Index, FAISS, both", both("faiss", True), ask)
    speed = {row["search"]: row["queries/s"] for row in rows}
    finish("search", rows, title=f"Words and vectors: {len(texts):,} texts, one query at a time",
           summary={"times bm25s": speed["pacsent BM25"] / max(
               (speed[n] for n in speed if n.startswith("bm25s")), default=float("nan")),
               "texts": len(texts)},
           save=options.save, name=options.name or "words")  # fmt: skip


def main():
    parser = parser_for(__doc__, name="")
    parts = ["reviews", "million", "hybrid", "words"]
    parser.add_argument("part", choices=parts, nargs="?", default="reviews")
    parser.add_argument("--texts", type=int, default=1_000_000, help="of `words`")
    options = parser.parse_args()
    if options.part in ("hybrid", "words"):
        return {"hybrid": hybrid, "words": words}[options.part](options)
    n, n_single = N_QUERIES[options.part], N_SINGLE[options.part]
    texts, asked = texts_of(options.part, options.data)
    vectorizer = make("SIF-sum", "english", on_empty="ignore").fit([])
    index = Index(vectorizer)
    index.add(texts)
    started = time.perf_counter()
    index.search(asked[0])  # the first search makes what later ones use
    preparing = time.perf_counter() - started
    [X] = [block.vectors for block in index._snapshot.blocks]
    Q = index._encode_queries(asked)
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
    return None


if __name__ == "__main__":
    main()
