"""Compare encoders: similarity, search, few labels, speed.

    python benchmarks/encoders.py [--data FOLDER] [--static FOLDER ...] [--minilm FOLDER]
        [--mpnet FOLDER] [--save]

Similarity: Spearman and Pearson correlation of the cosine with the human score, all pairs of the
dev and of the test part of STS-B pooled, as MTEB does. Search: p@10, the fraction of the ten
nearest texts that have the label of a text; 1,000 posts against 5,000 others of the training part
of 20news, and all passages of the books by their author. Few labels: accuracy of a logistic
regression on the vectors, mean of SUBJ, MR, TREC, 20news and IMDb, the draws of `classify.py few`.
Both are left out for transformers, which need hours of CPU time for them. Speed: sentences of STS-B
per second of CPU time, on one core.

--static names folders of static embeddings (model2vec), --minilm and --mpnet those of
all-MiniLM-L6-v2 and all-mpnet-base-v2 that sentence-transformers opens; without them these rows are
left out. The settings of the distilled vectors were chosen on the train and dev parts of STS-B, the
last time after its test part was seen.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

import classify
from harness import finish, parser_for
from pacsent import load, make_encoder
from pacsent.arrays import unit_rows
from pacsent.datasets import load_books
from pacsent.paper import benchmark_datasets as datasets
from pacsent.storage import PACKAGED

N_QUERIES, N_POSTS = 1000, 5000
TRANSFORMERS = ("MiniLM", "mpnet")
N_TIMED = dict.fromkeys(TRANSFORMERS, 512)  # sentences; static encoders: all of the training part
SETS, N_LABELS = ("subj", "mr", "trec", "20news", "imdb"), (100, 1000)
MATRIX = "model.safetensors"


@cache
def labelled(name, data):
    """Texts and labels: of a training part in random order, or all passages."""
    if name == "books":
        texts, labels = zip(*((p.text, p.author) for p in load_books()))
    else:
        dataset = datasets.load(name, data)
        texts, labels = dataset.train_texts, dataset.train_labels
    order = np.random.default_rng(0).permutation(len(texts))[: N_QUERIES + N_POSTS]
    return [texts[i] for i in order], np.asarray(labels)[order]


def encoders(options):
    """(name, texts to vectors, megabytes)"""
    folder = PACKAGED / "english"
    size = (folder / MATRIX).stat().st_size / 1e6
    for name in ("Average", "PB-L2", "SIF-sum"):
        yield name, make_encoder(name, "english", on_empty="ignore", n_jobs=1).fit([]).encode, size
    distilled = load("english").sentences.set_params(on_empty="ignore", n_jobs=1)
    yield (
        "distilled",
        distilled.encode,
        (folder / "sentences" / "words" / MATRIX).stat().st_size / 1e6,
    )
    for folder in options.static:
        mean = make_encoder("Average", load(folder), on_empty="ignore", n_jobs=1).fit([])
        yield folder.name, mean.encode, (folder / MATRIX).stat().st_size / 1e6
    for name, folder in zip(TRANSFORMERS, (options.minilm, options.mpnet)):
        if folder:
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(str(folder), device="cpu")
            yield name, model.encode, (folder / MATRIX).stat().st_size / 1e6


def texts_per_second(encode, texts):
    """Of CPU time, best of three."""
    encode(texts[:64])
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        encode(texts)
        best = min(best, time.process_time() - start)
    return len(texts) / best


def similarity(encode, data):
    pairs, scores = datasets.load("stsb", data), {}
    for part in ("dev", "test"):
        first, second = (unit_rows(encode(list(s[part]))) for s in (pairs.first, pairs.second))
        cosines = (first * second).sum(axis=1)
        for correlation, function in (("Spearman", spearmanr), ("Pearson", pearsonr)):
            scores[f"STS-B {part} {correlation}"] = float(function(cosines, pairs.scores[part])[0])
    return scores


def precision_at_ten(encode, name, data):
    texts, labels = labelled(name, data)
    vectors = unit_rows(np.asarray(encode(texts), np.float32))
    n = len(texts) if name == "books" else min(N_QUERIES, len(texts) // 2)
    first = 0 if name == "books" else n
    cosines = vectors[:n] @ vectors[first:].T
    if not first:
        np.fill_diagonal(cosines, -2.0)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
    return float((labels[first:][nearest] == labels[:n, None]).mean())


def accuracy(encode, name, n_labels, data):
    """Mean over the draws of training texts."""
    texts, y, test, right = classify.load(name, data, 0)
    shown = np.random.default_rng(0).permutation(len(test))[: classify.N_TEST]
    Z, hits = encode([test[i] for i in shown]), []
    for seed in range(classify.DRAWS[n_labels]):
        rows = classify.draw(y, n_labels, seed)
        predicted = classify.on_vectors(encode([texts[i] for i in rows]), y[rows], Z, seed)
        hits.append(np.mean(predicted == right[shown]))
    return float(np.mean(hits))


def mean_of(accuracies):
    return None if accuracies is None else sum(accuracies.values()) / len(accuracies)


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--static", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--minilm", type=Path, metavar="FOLDER")
    parser.add_argument("--mpnet", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    sentences = list(datasets.load("stsb", options.data).first["train"])
    rows = []
    for name, encode, megabytes in encoders(options):
        precisions, accuracies = dict.fromkeys(("20news", "books")), {}
        if name not in TRANSFORMERS:
            precisions = {s: precision_at_ten(encode, s, options.data) for s in precisions}
            for n in N_LABELS:
                accuracies[n] = {s: accuracy(encode, s, n, options.data) for s in SETS}
        rows.append({
            "encoder": name,
            **similarity(encode, options.data),
            **{f"{s} p@10": value for s, value in precisions.items()},
            **{f"{n:,} labels": mean_of(accuracies.get(n)) for n in N_LABELS},
            "by set": accuracies,
            "texts/s": texts_per_second(encode, sentences[: N_TIMED.get(name)]),
            "MB": megabytes,
        })  # fmt: skip
        print(rows[-1], flush=True)
    summary = {row["encoder"]: row["STS-B test Spearman"] for row in rows}
    title = "Encoders side by side"
    finish("encoders", rows, title=title, summary=summary, save=options.save, name=options.name)


if __name__ == "__main__":
    main()
