"""How words and vectors are put together in `Index(lexical=True)`, chosen on training queries.

    python benchmarks/choose_fusion.py --save

Four tasks, from training parts alone: posts of 20 Newsgroups that find posts of their group
(precision at 10); subjects of posts that find their bodies; first sentences of passages of books
that find the rest; a sentence of STS-B that finds its paraphrase (reciprocal rank at 10).
Reciprocal rank fusion and convex combinations of scores, standardised over all texts (cosines, or
the exponential of three of them), over the best hundred, or divided by their largest. The fusion
with the largest mean over tasks and encoders is the default.
"""

import re

import numpy as np

from harness import finish, parser_for
from pacsent import make
from pacsent.encoders import as_encoder
from pacsent.maths.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.search import lexical
from pacsent.search.chunking import sentences

N_TEXTS, N_QUERIES = 6000, 300
WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.7)


def subject_and_body(post: str) -> tuple[str, str]:
    head, _, body = post.partition("\n\n")
    found = re.search(r"^Subject:\s*((?:Re:\s*)*)(.*)$", head, re.M | re.I)
    return (found[2].strip() if found else ""), body


def tasks(data, part="train", n_queries=N_QUERIES):
    """Yield name, queries, texts, and the rows of the texts that are right for each query."""
    rng = np.random.default_rng(0 if part == "train" else 1)
    news = datasets.load("20news", data)
    posts, labels = (
        (news.train_texts, news.train_labels)
        if part == "train"
        else (news.test_texts, news.test_labels)
    )
    split = [subject_and_body(post) for post in posts]
    rows = rng.permutation(len(posts))
    labels = np.asarray(labels)
    n_texts = min(N_TEXTS, len(posts) * 4 // 5)
    texts = [split[i][1] for i in rows[:n_texts]]
    asked = rows[n_texts : n_texts + n_queries]
    groups = labels[rows[:n_texts]]
    yield (
        "20news groups",
        [split[i][1] for i in asked],
        texts,
        [np.flatnonzero(groups == labels[i]) for i in asked],
    )
    named = [i for i in range(n_texts) if split[rows[i]][0] and texts[i].strip()]
    named = named[:n_queries]
    yield "20news subjects", [split[rows[i]][0] for i in named], texts, [[i] for i in named]
    from pacsent.datasets import load_books

    queries, rest, right = [], [], []
    for i, passage in enumerate(one.text for one in load_books()):
        spans = sentences(passage)
        whole = len(spans) < 2
        rest.append(passage if whole else passage[spans[1][0] :])
        if not whole:
            queries.append(passage[slice(*spans[0])])
            right.append([i])
    some = rng.permutation(len(queries))
    some = some[:N_QUERIES] if part == "train" else some[N_QUERIES:][-n_queries:]
    yield "books", [queries[i] for i in some], rest, [right[i] for i in some]
    pairs = datasets.load("stsb", data)
    first, second = pairs.first[part], pairs.second[part]
    near = [i for i, score in enumerate(pairs.scores[part]) if score >= 4][:n_queries]
    yield "STS-B", [first[i] for i in near], list(second), [[i] for i in near]


# ---- fusions -------------------------------------------------------------------------------------


def _ranks(scores):
    ranks = np.empty(scores.size)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return ranks


def _standardised(scores):
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores)


def _by_best(scores):
    best = np.sort(scores)[-100:]
    spread = best.std()
    return (scores - best.mean()) / spread if spread > 0 else np.zeros_like(scores)


def _by_largest(scores):
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def fusions():
    """name -> function of the cosines and BM25 scores of all texts."""
    found = {"vectors": lambda a, b: a, "words (BM25)": lambda a, b: b}
    for c in (10, 60):
        found[f"reciprocal ranks, {c}"] = lambda a, b, c=c: (
            1 / (c + _ranks(a)) + 1 / (c + _ranks(b))
        )
    scales = {"all texts": _standardised, "best 100": _by_best, "largest": _by_largest}
    for name, scale in scales.items():
        for w in WEIGHTS:
            found[f"{name}, words {w:g}"] = lambda a, b, w=w, scale=scale: (
                (1 - w) * scale(a) + w * scale(b)
            )
    for w in WEIGHTS:
        found[f"all texts, exp(3 cosine), words {w:g}"] = lambda a, b, w=w: (
            (1 - w) * _standardised(np.exp(3 * a)) + w * _standardised(b)
        )
    return found


def quality(scores, right) -> float:
    """Precision at 10 where many texts are right, the reciprocal rank at 10 where one is."""
    best = np.argsort(-scores, kind="stable")[:10]
    inside = np.isin(best, right)
    if len(right) > 1:
        return float(inside.mean())
    return 1.0 / (1 + int(inside.argmax())) if inside.any() else 0.0


def encoders():
    return {
        "SIF-sum": make("SIF-sum", "english", on_empty="ignore").fit([]),
        "distilled": as_encoder("english"),
    }


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--part", choices=["train", "test"], default="train")
    given = parser.parse_args()
    table = {name: {} for name in fusions()}
    for task, queries, texts, right in tasks(given.data, given.part):
        postings = lexical.Postings.of(texts)
        norms = lexical.length_norms(postings.lengths, np.ones(len(texts), bool))
        none = np.empty(0, bool)
        words = [lexical.scores([postings], norms, none, query) for query in queries]
        for named, encoder in encoders().items():
            X, Q = (unit_rows(np.asarray(encoder.encode(part))) for part in (texts, queries))
            cosines = Q @ X.T
            for name, fuse in fusions().items():
                found = [
                    quality(fuse(a.astype(float), b.astype(float)), r)
                    for a, b, r in zip(cosines, words, right)
                ]
                table[name][f"{task}, {named}"] = float(np.mean(found))
    rows = [
        {"fusion": n, **found, "mean": float(np.mean(list(found.values())))}
        for n, found in table.items()
    ]
    rows.sort(key=lambda row: -row["mean"])
    finish("choose_fusion", rows, title=f"Words and vectors together: {given.part}ing queries",
           summary={"chosen": rows[0]["fusion"], "mean": rows[0]["mean"]},
           save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
