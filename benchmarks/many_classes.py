"""Many classes: time, memory and accuracy of a fit against the number of classes.

    python benchmarks/many_classes.py [--classes 100 200 500 1000] [--texts 20] [--data FOLDER]
        [--methods TextClassifier CertifiedClassifier scikit-learn] [--half reported]
        [--processes 1] [--save]

FOLDER holds corpora/enwik8.xz (default: PACSENT_DATA). A class is an article of Wikipedia with
enough sentences, its texts are sentences of 8 to 60 words drawn at random, and the question is
which article a new sentence is from. What TextClassifier does with many classes was chosen on every
second article (`--half chosen`); the numbers reported are of the others.
scikit-learn: TfidfVectorizer and LogisticRegression with their defaults, which choose nothing;
TextClassifier chooses its candidate by cross-validation, and CertifiedClassifier holds out texts
and fits on the others. Every fit is a process of its own with one thread; seconds are CPU time, and
memory is the largest that the process had.
"""

import os

# Before NumPy is imported: threads that wait in loops would count as time of the processor.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import html
import lzma
import re
import time
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from harness import finish, parser_for
from pacsent import CertifiedClassifier, TextClassifier

CLASSES = (100, 200, 500, 1000)
METHODS = ("TextClassifier", "CertifiedClassifier", "scikit-learn")
N_NEW = 10  # sentences of each article to predict
HALVES = {"chosen": 0, "reported": 1}
PAGE = re.compile(r"(?s)<page>\s*<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>")
MARKUP = [  # what is taken out of a page, and what it leaves
    (r"(?s)<!--.*?-->|<ref.*?</ref>|\{\|.*?\|\}", " "),
    *[(r"\{\{[^{}]*\}\}", " ")] * 3,  # templates in templates
    (r"\[\[(?:Image|File|Category|[a-z-]{2,12}):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]", " "),
    (r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]", r"\1"),
    (r"\[https?:\S*\s?([^\]]*)\]", r"\1"),
    (r"(?s)<[^>]*>", " "),
    (r"'''?", ""),
]


# ---- data ----------------------------------------------------------------------------------------


def sentences_of(markup: str) -> list[str]:
    """The different sentences of 8 to 60 words on a page."""
    text = html.unescape(markup)
    for pattern, left in MARKUP:
        text = re.sub(pattern, left, text)
    lines = [line for line in html.unescape(text).split("\n") if line and line[0] not in "=*#:{|!;"]
    found = [s.strip() for line in lines for s in re.split(r"(?<=[.!?])\s+(?=[A-Z])", line)]
    return list(dict.fromkeys(s for s in found if 8 <= len(s.split()) <= 60))


@cache
def articles(data: Path, n_least: int) -> list[list[str]]:
    """The sentences of every article that has enough of them."""
    with lzma.open(data / "corpora" / "enwik8.xz", "rt", encoding="utf-8") as file:
        pages = PAGE.findall(file.read())
    found = [sentences_of(text) for title, text in pages if ":" not in title]
    return [sentences for sentences in found if len(sentences) >= n_least]


def draw(data: Path, half: str, n_classes: int, n_texts: int) -> tuple[list, list, list, list]:
    """Texts and classes to fit, and others to predict."""
    known = articles(data, n_texts + N_NEW)[HALVES[half] :: 2]
    rng = np.random.default_rng(0)
    texts, labels, new_texts, new_labels = [], [], [], []
    for number in rng.permutation(len(known))[:n_classes].tolist():
        drawn = [known[number][i] for i in rng.permutation(len(known[number]))]
        texts += drawn[:n_texts]
        labels += [number] * n_texts
        new_texts += drawn[n_texts : n_texts + N_NEW]
        new_labels += [number] * N_NEW
    order = rng.permutation(len(texts)).tolist()
    return [texts[i] for i in order], [labels[i] for i in order], new_texts, new_labels


# ---- fits ----------------------------------------------------------------------------------------


def fit_one(job: tuple) -> dict:
    """One row of the table."""
    method, texts, labels, new_texts, new_labels = job
    if method == "scikit-learn":
        classifier = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    else:
        TextClassifier(n_jobs=1).fit(["a good one", "a bad one"] * 10, ["yes", "no"] * 10)  # loads
        classifier = TextClassifier(n_jobs=1)
        if method == "CertifiedClassifier":
            classifier = CertifiedClassifier(classifier)

    start = time.process_time()
    classifier.fit(texts, labels)
    seconds = time.process_time() - start
    status = Path("/proc/self/status").read_text()  # ru_maxrss would be that of the parent
    memory = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024**2

    proba = classifier.predict_proba(new_texts)  # (n_new, n_classes)
    columns = np.searchsorted(classifier.classes_, new_labels)
    of_right = proba[np.arange(columns.size), columns]
    return {
        "classes": len(set(labels)),
        "texts": len(texts),
        "method": method,
        "CPU s": round(seconds, 1),
        "GB": round(memory, 2),
        "accuracy": round(float((proba.argmax(axis=1) == columns).mean()), 3),
        "log-loss": round(float(-np.log(np.maximum(of_right, 1e-12)).mean()), 3),
    }


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--texts", type=int, default=20, help="of each class (default: 20)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--half", choices=HALVES, default="reported")
    parser.add_argument("--processes", type=int, default=1, help="fits measured side by side")
    given = parser.parse_args()

    jobs = []
    for n_classes in given.classes:
        drawn = draw(given.data, given.half, n_classes, given.texts)
        jobs += [(method, *drawn) for method in given.methods]
    rows = []
    # A process for each fit: its memory is that of this fit alone.
    with get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for row in pool.imap(fit_one, jobs, chunksize=1):
            rows.append(row)
            print(row, flush=True)

    seconds = {(row["method"], row["classes"]): row["CPU s"] for row in rows}
    most = rows[-1]["classes"]
    summary = {f"{method} {most} classes, CPU s": seconds[method, most] for method in given.methods}
    title = f"{given.texts} sentences of each of many articles (enwik8)"
    finish("many_classes", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
