"""Similarity, search, sizes and misspellings: what the English model and its baselines can do.

    python benchmarks/english.py sizes --data DATA --save
    python benchmarks/english.py retrieval --data DATA --save
    python benchmarks/english.py typos --data DATA --save
    python benchmarks/english.py posterior --data DATA --save
    python benchmarks/english.py compression --data DATA --save
    python benchmarks/english.py rare --data DATA --save

DATA holds `datasets`, `vectors` and `english`. Everything that was chosen was chosen on training
parts; the columns that say "test" were looked at afterwards.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

from harness import finish, parser_for
from pacsent import Vocabulary, WordVectors, certify_encoder, load, make, save
from pacsent.maths import regressions
from pacsent.maths.arrays import unit_rows
from pacsent.maths.weights import main_directions, sif_weights
from pacsent.paper import datasets
from pacsent.words import formats
from pacsent.words.packing import compress
from pacsent.words.tasks import read_similarities, similarity_score

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from make_english import SETTINGS, full_tables

LETTERS = "abcdefghijklmnopqrstuvwxyz"
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
    return make(name, words, on_empty="ignore", **params)


# ------------------------------------------------------------------------------------------------
# sizes
# ------------------------------------------------------------------------------------------------

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


def sizes(data) -> dict:
    full = full_tables(data / "english")
    pairs, subj, news = (datasets.load(name, data) for name in ("stsb", "subj", "20news"))
    subj = subj.split(0)
    some = np.sort(np.random.default_rng(0).permutation(len(news.train_texts))[:2000])
    texts, labels = [news.train_texts[i] for i in some], np.asarray(news.train_labels)[some]
    rows = []
    for asked in SIZES:
        asked = asked | {"n_words": min(asked["n_words"], full.n_words)}
        words = compress(full, **asked, n_head=SETTINGS["n_head"])
        recipe = quiet("SIF-sum", words).fit([])
        average = quiet("Average", words).fit([])
        X, Z = average.transform(subj.train_texts), average.transform(subj.test_texts)
        near = recipe.transform(texts)
        train, test = (similarity(recipe.transform, pairs, part) for part in ("train", "test"))
        similar = read_similarities(data / "words" / "wordsim353.tsv")
        rows.append(
            {
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
                "WordSim": similarity_score(words, similar)[0],
                "SUBJ words known": words.vocabulary.encode(subj.train_texts).coverage,
                "products kept": products_kept(full, words),
            }
        )
        print(rows[-1], flush=True)
    chosen = {key: SETTINGS[key] for key in ("n_words", "n_dims", "bits")}
    return {
        "rows": rows,
        "title": "The English model: size against quality",
        "summary": {"chosen": ", ".join(f"{key} {value}" for key, value in chosen.items())},
    }


# ------------------------------------------------------------------------------------------------
# retrieval
# ------------------------------------------------------------------------------------------------


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


def retrieval(data) -> dict:
    from pacsent.paper.method_rows import ROWS, Texts, features

    pairs, news = datasets.load("stsb", data), datasets.load("20news", data)
    base_labels, labels = np.asarray(news.train_labels), np.asarray(news.test_labels)
    tables = {"vectors": formats.read(data / "vectors"), "english": load("english")}
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
        for name in (
            "Average",
            "PB-L2",
            "SIF",
            "uSIF",
            "SIF-sum",
            "concat",
            "weights log(1 + rank)",
        ):
            if name.startswith("weights"):
                vectorizer = _LogRank(words)
            else:
                vectorizer = quiet(name, words).fit([])
            base, queries = map(vectorizer.transform, (news.train_texts, news.test_texts))
            add(where, name, base, queries, similarity(vectorizer.transform, pairs, "test"))
    made = features(ROWS["tf-idf"], Texts(None, news.train_texts, news.test_texts))
    add("none", "tf-idf", made.train, made.test)
    best = next(r for r in rows if r["method"] == "SIF-sum")
    return {
        "rows": rows,
        "title": "Similarity and search: cosines, everything learned from the table alone",
        "summary": {"p@10 of SIF-sum": best["20news p@10"]},
    }


# ------------------------------------------------------------------------------------------------
# typos
# ------------------------------------------------------------------------------------------------


def mistyped(text, rng, rate=0.1) -> str:
    """Every letter a-z becomes another one with this chance."""
    return "".join(
        rng.choice(LETTERS.replace(c.lower(), ""))
        if c.isascii() and c.isalpha() and rng.random() < rate
        else c
        for c in text
    )


def typos(data) -> dict:
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows = []
    for name in ("subj", "mr"):
        whole = datasets.load(name, data)
        found: dict = {}
        for seed in (0, 1, 2):
            part, rng = whole.split(seed), random.Random(seed)
            typed = [mistyped(text, rng) for text in part.test_texts]
            for label, unknown in (("left out", "drop"), ("read as the nearest", "nearest")):
                average = quiet("Average", load("english", unknown=unknown)).fit([])
                X = average.transform(part.train_texts)
                model = regressions.fit(unit_rows(X), part.train_labels, 10.0, n_classes=2)
                scores = []
                for texts in (part.test_texts, typed):
                    guess = regressions.predict(unit_rows(average.transform(texts)), *model)
                    scores.append(float(np.mean(guess == part.test_labels)))
                found.setdefault(label, []).append(scores)
            ngrams = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=2,
                dtype=np.float32,
            )  # fmt: skip
            X = ngrams.fit_transform(part.train_texts)
            model = regressions.fit(X, part.train_labels, 10.0, n_classes=2)
            scores = [
                float(np.mean(regressions.predict(ngrams.transform(t), *model) == part.test_labels))
                for t in (part.test_texts, typed)
            ]
            found.setdefault("tf-idf of character n-grams", []).append(scores)
        for label, scores in found.items():
            clean, wrong = np.mean(scores, axis=0)
            rows.append(
                {
                    "dataset": name,
                    "unknown words": label,
                    "as written": float(clean),
                    "10 % of letters mistyped": float(wrong),
                    "lost": float(clean - wrong),
                }
            )
            print(rows[-1], flush=True)
    lost = {
        label: np.mean([r["lost"] for r in rows if r["unknown words"] == label])
        for label in ("left out", "read as the nearest")
    }
    return {
        "rows": rows,
        "title": "Misspelled words: Average with the English model, three splits",
        "summary": {"share still lost": float(lost["read as the nearest"] / lost["left out"])},
    }


# ------------------------------------------------------------------------------------------------
# what the posterior adds
# ------------------------------------------------------------------------------------------------


def around_weighted_means(words):
    """The same vectors, but the prior of a word lies around its SIF-weighted vector."""
    counts = words.counts.astype(float)
    weights = sif_weights(counts / counts.sum(), 1e-3).astype(np.float32)
    prior = words.output_vectors * weights[:, None]
    return WordVectors(words.vocabulary, words.input_vectors, prior)


def posterior(data) -> dict:

    words, pairs = load("english"), datasets.load("stsb", data)
    some = np.random.default_rng(0).permutation(len(pairs.scores["train"]))[:1500]  # to save time
    for part in (pairs.first, pairs.second):
        part["train"] = [part["train"][i] for i in some]
    pairs.scores["train"] = pairs.scores["train"][some]
    texts = pairs.first["train"] + pairs.second["train"]
    candidates = {
        "Average": [{}],
        "PB-L2": [{"lam": lam} for lam in (0.5, 2.0, 8.0, 64.0)],
        "PB-neg": [{"lam": lam} for lam in (1.0, 8.0)],
        "PB-neg, frequent words weighing less": [
            {"lam": lam, "subsample": 1e-4} for lam in (1.0, 8.0)
        ],
        "PB-neg, around the weighted mean": [
            {"lam": lam, "subsample": t} for lam in (1.0, 8.0) for t in (0.0, 1e-4)
        ],
        "SIF": [{}],
        "SIF, as a posterior": [{"lam": 1.0}],
        "SIF-sum": [{}],
        "SIF-sum, as a posterior": [{"lam": 1.0}],
    }
    rows = []
    for label, settings in candidates.items():
        name = label.partition(",")[0]
        found = []
        for params in settings:
            source = around_weighted_means(words) if "around" in label else words
            vectorizer = quiet(name, source, **params).fit(texts)
            for removed in (False, True):
                if removed and name.startswith("SIF"):
                    continue
                vectors = vectorizer.transform
                if removed:
                    X = vectors(texts).astype(float)
                    [u], _ = main_directions(X.T @ X, 1)

                    def vectors(some, vectorizer=vectorizer, u=u):
                        X = vectorizer.transform(some)
                        return X - np.outer(X @ u, u)

                train = similarity(vectors, pairs, "train")
                found.append((train, params, removed, vectors))
        for removed in sorted({entry[2] for entry in found}):
            train, params, _, vectors = max(
                (e for e in found if e[2] == removed), key=lambda e: e[0][0]
            )
            test = similarity(vectors, pairs, "test")
            rows.append(
                {
                    "method": label,
                    "first direction": "removed" if removed or name.startswith("SIF") else "kept",
                    "settings": ", ".join(f"{k} {v:g}" for k, v in params.items()) or "-",
                    "STS-B train Pearson (1,500 pairs)": train[0],
                    "STS-B test Pearson": test[0],
                    "STS-B test Spearman": test[1],
                }
            )
            print(rows[-1], flush=True)
    return {
        "rows": rows,
        "title": "What the posterior adds to similarity: English model, settings by training part",
        "summary": {"sentences": len(texts)},
    }


# ------------------------------------------------------------------------------------------------
# convert --dims, --int8, --binary
# ------------------------------------------------------------------------------------------------

PACKINGS = {
    "as trained, float32": {},
    "--int8": {"bits": 8},
    "--dims 256 --int8": {"n_dims": 256, "bits": 8},
    "--dims 128 --int8": {"n_dims": 128, "bits": 8},
    "--dims 64 --int8": {"n_dims": 64, "bits": 8},
    "--int4": {"bits": 4},
    "--int2": {"bits": 2},
    "--binary": {"bits": 1},
    "--dims 128 --binary": {"n_dims": 128, "bits": 1},
}


def rate(vectorizer, texts) -> float:
    """Sentences a second of processor time, of nine rounds the best, after one that prepares."""
    vectorizer.transform(texts)
    seconds = []
    for _ in range(9):
        started = time.process_time()
        vectorizer.transform(texts)
        seconds.append(time.process_time() - started)
    return len(texts) / min(seconds)


def folder_megabytes(words) -> float:
    with tempfile.TemporaryDirectory() as place:
        folder = save(words, Path(place) / "words")
        return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def compression(data) -> dict:
    full = full_tables(data / "english")
    pairs, subj = datasets.load("stsb", data), datasets.load("subj", data).split(0)
    rows = []
    for label, asked in PACKINGS.items():
        words = compress(full, **asked) if asked else full
        recipe, average = quiet("SIF-sum", words).fit([]), quiet("Average", words).fit([])
        one = quiet("Average", words, n_jobs=1).fit([])
        X, Z = average.transform(subj.train_texts), average.transform(subj.test_texts)
        # the order of the documents and the noise words are the same in every row
        promise = certify_encoder(quiet("PB-L2", words).fit([]), subj.test_texts, random_state=0)
        rows.append(
            {
                "pacsent convert": label,
                "MB": folder_megabytes(words),
                "sentences/s of a core": rate(one, subj.train_texts),
                "STS-B test Pearson": similarity(recipe.transform, pairs, "test")[0],
                "SUBJ test accuracy": accuracy(X, subj.train_labels, Z, subj.test_labels),
                "products kept": products_kept(full, words),
                "certified (SUBJ, PB-L2)": promise.bound,
                "measured there": promise.empirical_risk,
            }
        )
        print(rows[-1], flush=True)
    return {
        "rows": rows,
        "title": "Smaller tables: 120,000 words, 300 dimensions, both tables",
        "summary": {"smallest, share of the bytes": rows[-1]["MB"] / rows[0]["MB"]},
    }


# ------------------------------------------------------------------------------------------------
# rare words
# ------------------------------------------------------------------------------------------------

N_KNOWN = 20_000


def grams(words):
    """Counts of each word's character n-grams, 3 to 6 letters, its ends marked; unit rows."""
    from sklearn.feature_extraction.text import HashingVectorizer

    made = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 6), n_features=1 << 17, alternate_sign=False,
        dtype=np.float32,
    )  # fmt: skip
    return made.transform(words)


def subword_vectors(words, vectors, others, penalty=1.0, n_steps=25) -> np.ndarray:
    """Vectors of `others` by a ridge regression of known vectors on their n-grams (conjugate
    gradients, all dimensions side by side)."""
    X, mean = grams(words), vectors.mean(axis=0)
    W = np.zeros((X.shape[1], vectors.shape[1]), dtype=np.float32)
    residual = X.T @ (vectors - mean)
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(n_steps):
        image = X.T @ (X @ direction) + penalty * direction
        step = size / (direction * image).sum(axis=0)
        W += step * direction
        residual -= step * image
        new = (residual**2).sum(axis=0)
        direction = residual + (new / size) * direction
        size = new
    return grams(others) @ W + mean


def rare(data) -> dict:
    """Words 20,001 to 40,000 treated as unknown: how near is what stands in for them?"""
    full = full_tables(data / "english")
    n_known = min(N_KNOWN, full.n_words // 2)
    known = Vocabulary(full.words[:n_known], full.counts[:n_known], unknown="nearest")
    table = unit_rows(np.asarray(full.input_vectors[: 2 * n_known], dtype=np.float32))
    rng = np.random.default_rng(0)
    some = np.sort(n_known + rng.permutation(n_known)[:5000])
    others, truth = [full.words[i] for i in some], table[some]
    encoded = known.encode([[word] for word in others])
    read = np.diff(encoded.offsets) == 1
    stand_in = np.zeros_like(truth)
    stand_in[read] = table[encoded.ids]
    grammed = unit_rows(subword_vectors(full.words[:n_known], table[:n_known], others))
    mean = unit_rows(table[:n_known].mean(axis=0, keepdims=True))
    chance = table[rng.integers(n_known, size=len(others))]
    rows = []
    for label, found, used in (
        ("left out", stand_in * 0, np.zeros(len(others), dtype=bool)),
        ("read as the nearest", stand_in, read),
        ("regression on n-grams", grammed, np.ones(len(others), dtype=bool)),
        ("regression on n-grams, the words read as the nearest", grammed, read),
        ("any known word", chance, np.ones(len(others), dtype=bool)),
        ("the mean of all", np.repeat(mean, len(others), axis=0), np.ones(len(others), dtype=bool)),
    ):
        cosines = np.einsum("ij,ij->i", found, truth)[used]
        rows.append(
            {
                "unknown words": label,
                "words that get a vector": float(used.mean()),
                "mean cosine with their own": float(cosines.mean()) if used.any() else None,
                "share above 0.5": float(np.mean(cosines > 0.5)) if used.any() else None,
                "all words, none counting 0": float(cosines.sum() / len(others)),
            }
        )
    rows += [rare_accuracy(name, data, full, n) for name in ("subj", "mr") for n in (5000, 20_000)]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    rows = [{key: row.get(key) for key in keys} for row in rows]
    return {
        "rows": rows,
        "title": "Rare words: correctly written, but not in the vocabulary",
        "summary": {"words": len(others)},
    }


def rare_accuracy(name, data, full, n_words) -> dict:
    """Accuracy of Average where only the most frequent words are known."""
    tables = full.input_vectors[:n_words], full.output_vectors[:n_words]
    part, found = datasets.load(name, data).split(0), {}
    for label, unknown in (("left out", "drop"), ("read as the nearest", "nearest")):
        known = Vocabulary(full.words[:n_words], full.counts[:n_words], unknown=unknown)
        average = quiet("Average", WordVectors(known, *tables)).fit([])
        X, Z = average.transform(part.train_texts), average.transform(part.test_texts)
        found[label] = accuracy(X, part.train_labels, Z, part.test_labels)
    return {
        "unknown words": f"{name.upper()}, {n_words:,} words known: accuracy",
        **{f"accuracy, {label}": score for label, score in found.items()},
    }


PARTS = {
    "sizes": sizes,
    "retrieval": retrieval,
    "typos": typos,
    "posterior": posterior,
    "compression": compression,
    "rare": rare,
}

if __name__ == "__main__":
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=PARTS, nargs="?", default="retrieval")
    options = parser.parse_args()
    made = PARTS[options.part](options.data)
    finish("english", made["rows"], title=made["title"], summary=made["summary"],
           save=options.save, name=options.name or options.part)  # fmt: skip
