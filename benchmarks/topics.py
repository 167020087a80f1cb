"""Groups of texts and their words: `clusters` beside BERTopic, on the same vectors, in one run.

    pip install bertopic
    python benchmarks/topics.py --save

Bodies of training posts of 20 Newsgroups. Coherence: mean normalised pointwise mutual information
of pairs among the ten words of a group, from how many texts hold both; diversity: share of
different words among them all; agreement with the newsgroups: adjusted mutual information (texts
that BERTopic leaves out are a group of their own). Vectors are the same for all and not counted.
"""

import time
from itertools import combinations

import numpy as np

from choose_fusion import subject_and_body
from harness import finish, parser_for
from pacsent import make
from pacsent.paper import benchmark_datasets as datasets
from pacsent.search import clusters
from pacsent.text.ngrams import NGrams, word_hashes

N_TEXTS, N_GROUPS, N_WORDS = 6000, 20, 10


def coherence(words: list[list[str]], texts) -> float:
    """Mean NPMI of pairs of words of a group, from texts that hold both."""
    every = sorted({word for some in words for word in some})
    hashes = word_hashes(every)
    kept = np.unique(hashes[hashes != 0])
    grams = NGrams((1, 1), kept, np.ones(kept.size), marks="")
    held = grams.counts(texts).tocsc()
    held.data[:] = 1
    column = {w: int(np.searchsorted(kept, h)) for w, h in zip(every, hashes) if h != 0}
    both, n = (held.T @ held).toarray(), held.shape[0]
    found = []
    for some in words:
        for a, b in combinations([w for w in some if w in column], 2):
            i, j = column[a], column[b]
            p, q, pq = both[i, i] / n, both[j, j] / n, both[i, j] / n
            found.append(-1.0 if pq == 0 else np.log(pq / (p * q)) / -np.log(max(pq, 1e-12)))
    return float(np.mean(found))


def bertopic(texts, vectors, grouping):
    from bertopic import BERTopic
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(stop_words="english", min_df=3)
    how = {} if grouping is None else {"hdbscan_model": grouping}
    made = BERTopic(vectorizer_model=counter, nr_topics=None if grouping else N_GROUPS + 1,
                    calculate_probabilities=False, **how)  # fmt: skip
    labels, _ = made.fit_transform(texts, vectors)
    words = [[w for w, _ in made.get_topic(t)[:N_WORDS]] for t in sorted(set(labels)) if t >= 0]
    return np.array(labels), words


def ours(texts, vectors):
    found = clusters(texts, N_GROUPS, vectors=vectors)
    return found.labels, found.words


def main():
    given = parser_for(__doc__).parse_args()
    from sklearn.metrics import adjusted_mutual_info_score

    news = datasets.load("20news", given.data)
    rows_kept = np.random.default_rng(0).permutation(len(news.train_texts))[:N_TEXTS]
    texts = [subject_and_body(news.train_texts[i])[1] or news.train_texts[i] for i in rows_kept]
    groups = np.asarray(news.train_labels)[rows_kept]
    vectors = make("SIF-sum", "english", on_empty="ignore").fit([]).transform(texts)
    vectors = np.asarray(vectors, np.float32)
    runs = {"pacsent clusters": ours}
    try:
        import bertopic as _  # noqa: F401
        from sklearn.cluster import KMeans

        runs["BERTopic (UMAP, HDBSCAN)"] = lambda t, v: bertopic(t, v, None)
        runs["BERTopic (UMAP, k-means)"] = lambda t, v: bertopic(
            t, v, KMeans(N_GROUPS, n_init=3, random_state=0)
        )
    except ImportError:
        pass
    ours(texts[:200], vectors[:200])  # compiles
    rows = []
    for name, run in runs.items():
        started = time.perf_counter()
        labels, words = run(texts, vectors)
        seconds = time.perf_counter() - started
        rows.append({
            "groups by": name, "groups": len(words), "coherence (NPMI)": coherence(words, texts),
            "diversity": len({w for some in words for w in some}) / sum(map(len, words)),
            "agreement (AMI)": float(adjusted_mutual_info_score(groups, labels)),
            "left out": float(np.mean(labels < 0)), "seconds": seconds,
        })  # fmt: skip
    finish("topics", rows, title=f"Groups of {len(texts):,} posts and their words",
           summary={"coherence": rows[0]["coherence (NPMI)"], "seconds": rows[0]["seconds"]},
           save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
