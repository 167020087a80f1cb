"""The demo: search passages of thirty books, learn their authors, and check the guarantee.

Here is what is computed; `books_page` shows it.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pacsent.classify import TextClassifier
from pacsent.encoders.methods import make
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.files import replacing
from pacsent.guarantees import CertifiedClassifier, StreamWatcher, certify_encoder
from pacsent.maths.arrays import unit_rows
from pacsent.maths.rounding import percent, rounded_up
from pacsent.paper.books.passages_data import Passage, passages
from pacsent.paper.evaluation import draw_labelled
from pacsent.web.text_map import TextMap, write_html
from pacsent.words.vectors import WordVectors, as_word_vectors

QUERIES = (
    "a ship goes down in a storm at sea",
    "the old house is said to be haunted by a ghost",
    "wolves and dogs in the frozen snow",
)
WORDS = ("whale", "marriage", "evolution")
SIZES = (100, 300, 900, 2400)  # numbers of labels
DELTA = 0.05
N_MARKED = 5  # words of a hit
N_BINS = 10


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict:
    """Compute everything once; write an illustrated page and a map to the folder `out`.

    `random_state` determines the splits; `say` is called with each line of progress. Returns words,
    found, curve, same_books, other_books, certificate and seconds.
    """
    from pacsent.paper.books.books_page import page

    started = time.perf_counter()
    words, books = as_word_vectors("english"), passages()
    say(f"The English model: {words.n_words:,} words, {words.n_dims} dimensions.")
    near = {word: [w for w, _ in words.most_similar(word, 5)] for word in WORDS}
    for word, others in near.items():
        say(f"  {word}: {', '.join(others)}")
    say(f"\nSearch by meaning in {len(books):,} passages of {len({p.book for p in books})} books.")
    vectorizer = make("SIF-sum", words, on_empty="ignore", n_jobs=n_jobs).fit([])
    vectors = unit_rows(vectorizer.transform([p.text for p in books]))
    found = search(vectorizer, vectors, books, QUERIES)
    for entry in found:
        best = entry["hits"][0]
        say(f"  “{entry['query']}”\n    {best['author']}, {best['book']}: {best['text'][:60]}…")
    say("\nLearn who wrote a passage; with 95 % confidence, the error rate is at most:")
    old, new = random_split(books, random_state)
    same_books = guarantee(words, old, new, random_state, n_jobs)
    say(_line("passages of the same books", same_books))
    other_books = guarantee(words, *by_book(books), random_state, n_jobs)
    say(_line("a third book of each author", other_books))
    further = rounded_up(other_books["bound_new_books"])
    say(f"    with each book as one example, on further books: {further}")
    curve = accuracy_curve(words, old, new, SIZES, random_state, n_jobs)
    for point in curve:
        say(f"  accuracy with {point['n_labels']:>5,} labels: {point['with vectors']:.3f}")
    say("\nA certificate without labels: does a vector predict the words that follow?")
    certificate = certify_encoder(
        make("PB-L2", words, n_jobs=n_jobs), [p.text for p in books[::5]], delta=DELTA,
        random_state=random_state, holdout=0.2, n_jobs=n_jobs,
    )  # fmt: skip
    say(
        f"  error at most {percent(certificate.bound)} (guessing: 50 %); on held-out "
        f"passages: {100 * certificate.held_out_risk:.2f} %"
    )
    made = {
        "words": near,
        "found": found,
        "curve": curve,
        "same_books": same_books,
        "other_books": other_books,
        "certificate": certificate,
        "seconds": time.perf_counter() - started,
    }
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    places, authors = places_of(vectors, books), [p.author for p in books]
    whole = TextMap([p.text for p in books], places, np.ones(len(books)), authors)
    write_html(whole, out / "map.html", title="3,000 passages of thirty books")
    with replacing(out / "index.html") as file:
        file.write(page(made, places, authors).encode())
    return made


def places_of(vectors: np.ndarray, books: Sequence[Passage]) -> np.ndarray:
    """Coordinates on the plane on which the mean vectors of the books differ most, (n, 2)."""
    names = np.array([p.book for p in books])
    means = np.array([vectors[names == book].mean(axis=0) for book in dict.fromkeys(names)])
    _, _, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    signs = np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])
    return vectors @ (directions[:2] * signs[:, None]).T


def search(
    vectorizer: SentenceVectorizer,
    vectors: np.ndarray,
    books: Sequence[Passage],
    queries: Sequence[str],
    k: int = 2,
) -> list[dict]:
    """The k passages nearest to each query, with the words that contribute most to the cosine.

    A vector of SIF-sum is a sum over words, so the dot product with the query is one too.
    """
    found = []
    asked = unit_rows(vectorizer.transform(queries))
    for query, direction in zip(queries, asked):
        cosines = vectors @ direction
        hits = []
        for i in np.argsort(-cosines)[:k]:
            tokens = sorted({t.strip(_MARKS).lower() for t in books[i].text.split()} - {""})
            adds = vectorizer.transform(tokens) @ direction
            best = [tokens[j] for j in np.argsort(-adds)[:N_MARKED] if adds[j] > 0]
            hits.append({**books[i]._asdict(), "cosine": float(cosines[i]), "matching": best})
        found.append({"query": query, "hits": hits})
    return found


_MARKS = "“”‘’\"'.,;:!?()[]-—_"


def random_split(books: Sequence[Passage], seed: int) -> tuple[list, list]:
    """Four fifths to learn from, and the rest to test on; both from all thirty books."""
    order = np.random.default_rng(seed).permutation(len(books))
    cut = len(books) * 4 // 5
    return [books[i] for i in order[:cut]], [books[i] for i in order[cut:]]


def by_book(books: Sequence[Passage]) -> tuple[list, list]:
    """The first two books of each author to learn from, and the third to test on."""
    of_author: dict[str, list[str]] = {}
    for passage in books:
        titles = of_author.setdefault(passage.author, [])
        if passage.book not in titles:
            titles.append(passage.book)
    known = {book for titles in of_author.values() for book in titles[:2]}
    return [p for p in books if p.book in known], [p for p in books if p.book not in known]


def guarantee(
    words: WordVectors,
    old: Sequence[Passage],
    new: Sequence[Passage],
    seed: int,
    n_jobs: int | None,
) -> dict:
    """A classifier with its guarantee, its error on new passages, and the test of exchangeability.

    A quarter of `old` is the calibration set, from which the bound is computed.
    """
    classifier = CertifiedClassifier(
        TextClassifier(words, n_jobs=n_jobs), holdout=0.25, delta=DELTA, random_state=seed
    )
    texts, authors = [p.text for p in old], [p.author for p in old]
    classifier.fit(texts, authors)
    new_texts = [p.text for p in new]
    probabilities = classifier.predict_proba(new_texts)
    guesses = classifier.classes_[probabilities.argmax(axis=1)]
    right = guesses == np.array([p.author for p in new])
    monitor = StreamWatcher(classifier, seed=seed)
    monitor.update(new_texts)
    certificate = classifier.certificate_
    books = {"groups": [p.book for p in new], "random_state": seed}
    of_books = classifier.certify(new_texts, [p.author for p in new], **books)
    return {
        "bound": float(certificate.bound),
        "bound_new_books": float(of_books.bound),
        "error": float(1 - right.mean()),
        "n_fitted": len(texts) - certificate.n,
        "n_calibration": certificate.n,
        "n_new": len(new),
        "alarm": monitor.alarm,
        "changes": [change.name for change in monitor.changes],
        "reliability": reliability(probabilities.max(axis=1), right),
    }


def reliability(confidence: np.ndarray, right: np.ndarray) -> list[dict]:
    """Mean probability and share of right answers, in bins of the probability.

    >>> import numpy as np
    >>> reliability(np.array([0.52, 0.58, 0.97]), np.array([True, False, True]))
    [{'n': 2, 'probability': 0.55, 'right': 0.5}, {'n': 1, 'probability': 0.97, 'right': 1.0}]
    """
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    return [
        {"n": int((bins == b).sum()), "probability": round(float(confidence[bins == b].mean()), 4),
         "right": round(float(right[bins == b].mean()), 4)}
        for b in np.unique(bins)
    ]  # fmt: skip


def accuracy_curve(
    words: WordVectors,
    old: Sequence[Passage],
    new: Sequence[Passage],
    sizes: Sequence[int],
    seed: int,
    n_jobs: int | None,
) -> list[dict]:
    """Accuracy on new passages by number of labels, with and without the word vectors."""
    authors = np.unique([p.author for p in old], return_inverse=True)[1]
    truth, texts = np.array([p.author for p in new]), [p.text for p in new]
    curve = []
    for size in sizes:
        some = [old[i] for i in draw_labelled(authors, size, seed)]
        point: dict = {"n_labels": size}
        for name, vectors in (("with vectors", words), ("n-grams alone", None)):
            classifier = TextClassifier(vectors, n_jobs=n_jobs)
            classifier.fit([p.text for p in some], [p.author for p in some])
            point[name] = float(np.mean(classifier.predict(texts) == truth))
        curve.append(point)
    return curve


def _line(what, made) -> str:
    alarm = "alarm" if made["alarm"] else "no alarm"
    return (
        f"  {what}: {rounded_up(made['bound'], 3)}; measured on {made['n_new']:,} new passages: "
        f"{made['error']:.3f}; drift monitor: {alarm}"
    )
