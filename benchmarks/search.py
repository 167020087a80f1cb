"""Search: its speed beside bm25s and FAISS, and how often its guarantees are broken.

    python benchmarks/search.py speed --save [--texts 1000000]
    python benchmarks/search.py guarantee --save [--draws 2000] [--queries 500]
    python benchmarks/search.py asymmetric --save [--teacher MODEL] [--vectors FILE.npy]

`speed`: passages of twelve words of Wikipedia; the time to index, and queries a second, one query
at a time.

`guarantee`: subjects of test posts of 20 Newsgroups find their bodies, first sentences of passages
of books find the rest. Many times, some of the queries calibrate and all others are new. A
guarantee is broken where the share of new queries with their right text among the hits is below
what was stated, false alarms where more of them are answered with nothing than stated (15% of the
error, with 20% of delta), and the limit of `certify` where it is below their share of misses. The
negative control takes the same quantiles without the correction for chance. The new queries are a
finite sample, so that breaks of exact guarantees may exceed delta a little. Median hits are those
of other queries than the first ones, which calibrate; "floor with half" gives half of the error and
of delta to the floor.

`asymmetric`: texts by a teacher, queries by a static encoder distilled from it on these texts; p@10
of the posts of `sentences.py`. --vectors keeps the teacher's vectors of all posts for the next run.
"""

import re
import tempfile
import time
from itertools import islice
from pathlib import Path
from unittest import mock

import numpy as np

from harness import finish, parser_for, wikipedia
from pacsent import Index, distill, make_encoder
from pacsent.bounds.binomial import upper_limit
from pacsent.datasets import load_books
from pacsent.paper import benchmark_datasets as datasets
from pacsent.search import calibration as search_calibration
from pacsent.search import faiss_index, lexical
from pacsent.search.calibration import FLOOR_DELTA, FLOOR_ERROR, CalibrationQueries, ThresholdRule
from pacsent.search.chunking import sentences
from pacsent.sentences.external_encoders import as_encoder

K = 10
N_TIMED_QUERIES = 50
LEVELS, DELTA = (0.7, 0.8, 0.9), 0.1
N_QUERIES, N_COUNTED = 3000, 100  # at most; those whose hits are counted
N_POSTS = 6000  # of 20 Newsgroups, in the index
N_SPARED = 300  # queries of books that are not used


def speed(options, encoder):
    """Seconds to index, and queries a second, one at a time."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = iter(wikipedia(options.data, Path(folder)).read_text().split())
    passages = list(islice(iter(lambda: " ".join(islice(tokens, 12)), ""), options.texts + 100))
    queries, texts = passages[N_TIMED_QUERIES:100], passages[100:]
    lexical.Postings.of(texts[:100])  # compile
    rows = []

    def measure(name, build, search):
        started = time.perf_counter()
        index = build()
        building = time.perf_counter() - started
        for query in passages[:N_TIMED_QUERIES]:  # others than those that are timed
            search(index, query)
        started = time.perf_counter()
        for query in queries:
            search(index, query)
        rate = len(queries) / (time.perf_counter() - started)
        rows.append({"search": name, "seconds to index": building, "queries/s": rate})

    nothing_deleted = np.empty(0, bool)

    def bm25():
        return lexical.BM25([lexical.Postings.of(texts)], nothing_deleted)

    def search_bm25(index, query):
        return index.best(index.words(query), K, nothing_deleted)

    measure("pacsent BM25", bm25, search_bm25)
    try:
        import bm25s
    except ImportError:
        pass
    else:
        quiet = {"show_progress": False}

        def other_bm25(backend):
            index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend=backend)
            index.index(bm25s.tokenize(texts, stopwords=None, **quiet), **quiet)
            return index

        def search_other(index, query):
            words = bm25s.tokenize([query], stopwords=None, **quiet)
            return index.retrieve(words, k=K, n_threads=1, **quiet)

        measure("bm25s, numpy", lambda: other_bm25("numpy"), search_other)
        measure("bm25s, numba", lambda: other_bm25("numba"), search_other)
    try:
        import faiss
    except ImportError:
        pass
    else:
        X = np.asarray(encoder.transform(texts), np.float32)

        def flat():
            index = faiss.IndexFlatIP(X.shape[1])
            index.add(X)
            return index

        def search_flat(index, query):
            return index.search(np.asarray(encoder.transform([query]), np.float32), K)

        measure("FAISS IndexFlatIP, vectors given", flat, search_flat)

    def ours(engine, share):
        index = Index(encoder, engine, lexical=share)
        index.add(texts)
        return index

    def search_ours(index, query):
        return index.search(query, K)

    measure("pacsent Index, exact, vectors", lambda: ours("exact", False), search_ours)
    measure("pacsent Index, exact, both", lambda: ours("exact", True), search_ours)
    if faiss_index.available():
        measure("pacsent Index, FAISS, both", lambda: ours("faiss", True), search_ours)
    title = f"Words and vectors: {len(texts):,} texts, one query at a time"
    return rows, title, {row["search"]: row["queries/s"] for row in rows}


def tasks(data):
    """Yield name, queries, texts, and the row of the right text of each query."""
    rng = np.random.default_rng(1)
    news = datasets.load("20news", data)
    n_texts = min(N_POSTS, len(news.test_texts) * 4 // 5)
    order = rng.permutation(len(news.test_texts))[:n_texts]
    split = [news.test_texts[i].partition("\n\n") for i in order]
    subject = re.compile(r"^Subject:\s*(?:Re:\s*)*(.*)$", re.M | re.I)
    titles = [match[1].strip() if (match := subject.search(head)) else "" for head, *_ in split]
    bodies = [body for *_, body in split]
    named = [i for i, title in enumerate(titles) if title and bodies[i].strip()][:N_QUERIES]
    yield "20news subjects", [titles[i] for i in named], bodies, named
    queries, texts, right = [], [], []
    for i, passage in enumerate(one.text for one in load_books()):
        spans = sentences(passage)
        texts.append(passage if len(spans) < 2 else passage[spans[1][0] :])
        if len(spans) > 1:
            queries.append(passage[slice(*spans[0])])
            right.append(i)
    kept = rng.permutation(len(queries))[N_SPARED:][-N_QUERIES:]
    yield "books", [queries[i] for i in kept], texts, [right[i] for i in kept]


def contains_answer(rule, queries) -> np.ndarray:
    """Whether the right text of each query is returned."""
    return (queries.best >= rule.floor) & (queries.best - queries.right <= rule.width)


def uncorrected(queries, level) -> ThresholdRule:
    """The negative control: quantiles without the correction for chance."""
    floor_error = FLOOR_ERROR * (1 - level)
    width = np.quantile(queries.best - queries.right, level + floor_error)
    return ThresholdRule(float(width), float(np.quantile(queries.best, floor_error)), "")


def median_hits(index, queries, level, floor_error, floor_delta) -> float:
    """Median number of hits where the floor has these parts of the error and of delta."""
    floor = {"FLOOR_ERROR": floor_error, "FLOOR_DELTA": floor_delta}
    with mock.patch.multiple(search_calibration, **floor):
        hits = index.search(queries, guarantee=level, delta=DELTA)
    return float(np.median([len(found) for found in hits]))


def guarantee(options, encoder):
    rows, n_calibration = [], options.queries
    for task, texts_of_queries, texts, right in tasks(options.data):
        if not right:  # posts of the tiny data have no subjects
            continue
        index = Index(encoder, "exact")
        index.add(texts)
        index.certify(texts_of_queries, [[i] for i in right], k=K)
        queries_of_samples = next(iter(index.calibration_.values()))
        finite = np.isfinite(queries_of_samples.right)
        best, answer = queries_of_samples.best[finite], queries_of_samples.right[finite]
        hits = index.search(texts_of_queries, K)
        missed = np.array([i not in {hit.id for hit in some} for some, i in zip(hits, right)])
        index.certify(texts_of_queries[:n_calibration], [[i] for i in right[:n_calibration]], k=K)
        counted = texts_of_queries[n_calibration:][:N_COUNTED] or texts_of_queries[:N_COUNTED]
        for level in LEVELS:
            rng = np.random.default_rng(0)
            broken, alarms, control, limits, shares = 0, 0, 0, 0, []
            for _ in range(options.draws):
                order = rng.permutation(best.size)
                old, new = order[:n_calibration], order[n_calibration:]
                calibration = CalibrationQueries(best[old], answer[old])
                others = CalibrationQueries(best[new], answer[new])
                rule = ThresholdRule.of([calibration], level, DELTA)
                shares.append(contains_answer(rule, others).mean())
                broken += shares[-1] < level
                alarms += (others.best < rule.floor).mean() > FLOOR_ERROR * (1 - level)
                control += contains_answer(uncorrected(calibration, level), others).mean() < level
                order = rng.permutation(missed.size)
                old, new = order[:n_calibration], order[n_calibration:]
                limit = upper_limit(int(missed[old].sum()), old.size, DELTA)
                limits += limit < missed[new].mean()
            rows.append(
                {
                    "queries": f"{task} ({best.size:,})",
                    "guarantee": level,
                    "found": float(np.mean(shares)),
                    "broken": broken / options.draws,
                    "false alarms broken": alarms / options.draws,
                    "certify broken": limits / options.draws,
                    "negative control": control / options.draws,
                    "texts": len(texts),
                    "median hits": median_hits(index, counted, level, FLOOR_ERROR, FLOOR_DELTA),
                    "floor with half": median_hits(index, counted, level, 0.5, 0.5),
                }
            )
    title = (
        f"Guarantees of search: {options.draws:,} draws of {n_calibration} queries, delta = {DELTA}"
    )
    return rows, title, {"most broken": max(row["broken"] for row in rows)}


def asymmetric(options, _):
    from encoders import N_QUERIES, labelled

    texts, labels = labelled("20news", options.data)
    n = min(N_QUERIES, len(texts) // 2)
    if options.vectors is not None and options.vectors.exists():
        vectors = np.load(options.vectors).astype(np.float32)
    else:
        vectors = np.asarray(as_encoder(options.teacher).encode(texts), np.float32)
        if options.vectors is not None:
            np.save(options.vectors, vectors)
    student = distill(vectors[n:], texts[n:], random_state=0).set_params(on_empty="ignore")
    rows, teacher = [], (texts, vectors)
    for of_texts, of_queries in (("teacher",) * 2, ("teacher", "student"), ("student",) * 2):
        by_name = {"teacher": teacher, "student": student}
        index = Index(by_name[of_texts], query_encoder=by_name[of_queries], lexical=False)
        index.add(texts[n:])
        started = time.process_time()
        hits = index.search(texts[:n], K)
        rate = n / (time.process_time() - started)
        right = [labels[n + hit.id] == label for each, label in zip(hits, labels) for hit in each]
        row = {"texts by": of_texts, "queries by": of_queries, "20news p@10": float(np.mean(right))}
        rows.append(row | {"queries per CPU second": None if of_queries == "teacher" else rate})
    title = f"Queries by a static encoder: {n:,} posts against {len(texts) - n:,} others, teacher "
    title += str(options.teacher)
    return rows, title, {"teacher and student": rows[1]["20news p@10"]}


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument(
        "part", choices=["speed", "guarantee", "asymmetric"], nargs="?", default="speed"
    )
    parser.add_argument("--texts", type=int, default=1_000_000, help="speed: passages")
    parser.add_argument("--draws", type=int, default=2000, help="guarantee: repetitions")
    parser.add_argument("--queries", type=int, default=500, help="guarantee: that calibrate")
    parser.add_argument("--teacher", default="english", help="asymmetric: encoder of the texts")
    parser.add_argument("--vectors", type=Path, help="asymmetric: file of the teacher's vectors")
    options = parser.parse_args()
    encoder = make_encoder("SIF-sum", "english", on_empty="ignore").fit([])
    part = {"speed": speed, "guarantee": guarantee, "asymmetric": asymmetric}[options.part]
    rows, title, summary = part(options, encoder)
    name = options.name or options.part
    finish("search", rows, title=title, summary=summary, save=options.save, name=name)


if __name__ == "__main__":
    main()
