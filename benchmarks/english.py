"""Similarity, search and sizes: what the English model and its baselines can do.

    python benchmarks/english.py sizes --data DATA --save
    python benchmarks/english.py retrieval --data DATA --save

DATA holds `datasets`, `vectors` and `english`. Everything that was chosen was chosen on training
parts; the columns that say "test" were looked at afterwards.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

from harness import finish, parser_for
from pacsent import load, make_encoder
from pacsent.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import regressions
from pacsent.words import compress
from word_tasks import word_scores

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from make_english import SETTINGS, full_tables

N_NEAR = 10


def similarity(vectors, pairs, part) -> tuple[float, float]:
    """Pearson and Spearman correlation of cosines with the human scores, times 100."""
    first, second = (unit_rows(vectors(texts[part])) for texts in (pairs.first, pairs.second))
    cosines = np.einsum("ij,ij->i", first, second)
    scores = pairs.scores[part]
    return 100 * pearsonr(cosines, scores)[0], 100 * spearmanr(cosines, scores)[0]


def precision(base, base_labels, queries, labels, same=False) -> float:
    """Share of the ten nearest texts, by cosine, that have the query's label."""
    base, queries = (X if hasattr(X, "tocsr") else unit_rows(X) for X in (base, queries))
    right = 0
    for start in range(0, queries.shape[0], 500):
        cosines = queries[start : start + 500] @ base.T
        cosines = cosines.toarray() if hasattr(cosines, "toarray") else cosines
        if same:  # a text is no neighbour of itself
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -2
        nearest = np.argpartition(-cosines, N_NEAR, axis=1)[:, :N_NEAR]
        right += (base_labels[nearest] == labels[start : start + 500, None]).sum()
    return right / (N_NEAR * queries.shape[0])


def accuracy(X, y, Z, truth) -> float:
    """Logistic regression on unit vectors, C = 10."""
    model = regressions.fit(unit_rows(X), y, 10.0, n_classes=int(y.max()) + 1, tol=1e-8)
    return float(np.mean(regressions.predict(unit_rows(Z), *model) == truth))


def quiet(name, words, **params):
    return make_encoder(name, words, on_empty="ignore", **params)


SIZES = [
    {"n_words": 120_000, "n_dims": 300, "bits": 8},
    {"n_words": 20_000, "n_dims": 256, "bits": 8},
    {"n_words": 36_000, "n_dims": 128, "bits": 8},
    {"n_words": 36_000, "n_dims": 256, "bits": 4},
    {"n_words": 65_536, "n_dims": 256, "bits": 2},
    {"n_words": 100_000, "n_dims": 256, "bits": 1},
]


def n_megabytes(words) -> float:
    """Of the file: tables, words, places and counts."""
    text = sum(len(word) for word in words.words)
    return (sum(t.nbytes for t in words.packed.values()) + text + 16 * words.n_words) / 1e6


def products_kept(full, words) -> float:
    """1 - lost share of the variance of input . output, over pairs drawn as noise is."""
    rng = np.random.default_rng(0)
    p = words.vocabulary.noise_probabilities()
    i, j = rng.choice(words.n_words, (2, 20_000), p=p)
    truth = np.einsum("ij,ij->i", full.input_vectors[i], full.output_vectors[j])
    found = np.einsum("ij,ij->i", words.input_vectors[i], words.output_vectors[j])
    return float(1 - np.mean((truth - found) ** 2) / truth.var())


def sizes(data):
    full = full_tables(data / "english")
    pairs, subj, news = (datasets.load(name, data) for name in ("stsb", "subj", "20news"))
    subj = subj.split(0)
    some = np.sort(np.random.default_rng(0).permutation(len(news.train_texts))[:2000])
    texts, labels = [news.train_texts[i] for i in some], np.asarray(news.train_labels)[some]
    rows = []
    for asked in SIZES:
        asked = asked | {"n_words": min(asked["n_words"], full.n_words)}
        words = compress(full, **asked)
        recipe = quiet("SIF-sum", words).fit([])
        average = quiet("Average", words).fit([])
        X, Z = average.transform(subj.train_texts), average.transform(subj.test_texts)
        near = recipe.transform(texts)
        train, test = (similarity(recipe.transform, pairs, part) for part in ("train", "test"))
        row = {
            "words": asked["n_words"],
            "dims": asked["n_dims"],
            "bits": asked["bits"],
            "MB": n_megabytes(words),
            "STS-B train": train[0],
            "STS-B test": test[0],
            "test Spearman": test[1],
            "SUBJ test accuracy": accuracy(X, subj.train_labels, Z, subj.test_labels),
            "20news p@10 (2,000 of the training part)": precision(
                near, labels, near, labels, same=True
            ),
            "WordSim": word_scores(words, data / "words")["WordSim-353"][0],
            "SUBJ words known": words.vocabulary.encode(subj.train_texts).coverage,
            "products kept": products_kept(full, words),
        }
        rows.append(row)
        print(row, flush=True)
    summary = {"chosen": ", ".join(f"{key} {value}" for key, value in SETTINGS.items())}
    return rows, "The English model: size against quality", summary


class _LogRank:
    """The mean of input rows, each times log(1 + rank): model2vec's weighting of a static table."""

    def __init__(self, words):
        self.words = words
        weights = np.log1p(np.arange(1, words.n_words + 1, dtype=np.float32))
        self.table = np.asarray(words.input_vectors, dtype=np.float32) * weights[:, None]

    def transform(self, texts):
        counts = self.words.vocabulary.count(texts, dtype=np.float32)
        n = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
        return (counts @ self.table) / n[:, None].astype(np.float32)


def retrieval(data):
    from pacsent.paper.features import Texts, features
    from pacsent.paper.method_rows import ROWS

    pairs, news = datasets.load("stsb", data), datasets.load("20news", data)
    base_labels, labels = np.asarray(news.train_labels), np.asarray(news.test_labels)
    tables = {"vectors": datasets.load_word_vectors(data / "vectors"), "english": load("english")}
    rows = []

    def add(table, method, base, queries, scores=(None, None)):
        row = {
            "table": table,
            "method": method,
            "STS-B test Pearson": scores[0],
            "STS-B test Spearman": scores[1],
            "20news p@10": float(precision(base, base_labels, queries, labels)),
        }
        rows.append(row)
        print(row, flush=True)

    for where, words in tables.items():
        methods = ("Average", "PB-L2", "SIF", "uSIF", "SIF-sum", "concat")
        encoders = {name: quiet(name, words).fit([]) for name in methods}
        encoders["weights log(1 + rank)"] = _LogRank(words)
        for name, vectorizer in encoders.items():
            base, queries = map(vectorizer.transform, (news.train_texts, news.test_texts))
            add(where, name, base, queries, similarity(vectorizer.transform, pairs, "test"))
    made = features(ROWS["tf-idf"], Texts(None, news.train_texts, news.test_texts))
    add("none", "tf-idf", made.train, made.test)
    best = next(r for r in rows if r["method"] == "SIF-sum")
    title = "Similarity and search: cosines, everything learned from the table alone"
    return rows, title, {"p@10 of SIF-sum": best["20news p@10"]}


PARTS = {"sizes": sizes, "retrieval": retrieval}

if __name__ == "__main__":
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=PARTS, nargs="?", default="retrieval")
    options = parser.parse_args()
    rows, title, summary = PARTS[options.part](options.data)
    name = options.name or options.part
    finish("english", rows, title=title, summary=summary, save=options.save, name=name)
