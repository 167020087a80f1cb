"""
A classifier from few labels
============================

:class:`pacsent.TextClassifier` combines n-grams and sentence vectors in one linear model. Vectors
help with few labels, because word similarity needs no labels; n-grams help with many. Here it
predicts the author of a passage, compared with tf-idf.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from pacsent import TextClassifier
from pacsent.datasets import load_books

rng = np.random.default_rng(0)
passages = load_books()
rng.shuffle(passages)
names = sorted({p.author for p in passages})
by_author = [[p for p in passages if p.author == name] for name in names]
passages = [passage for row in zip(*by_author) for passage in row]  # balanced
texts, authors = [p.text for p in passages], [p.author for p in passages]
test = slice(2000, None)
sizes = [30, 100, 300, 1000]


def tfidf():
    return make_pipeline(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
        LogisticRegression(C=100.0, max_iter=500),
    )


scores = {"TextClassifier": [], "tf-idf, 1-2-grams": []}
for n in sizes:
    for name, model in (
        ("TextClassifier", TextClassifier("english")),
        ("tf-idf, 1-2-grams", tfidf()),
    ):
        model.fit(texts[:n], authors[:n])
        scores[name].append(model.score(texts[test], authors[test]))

figure, axis = plt.subplots(figsize=(6, 3.6))
for name, values in scores.items():
    axis.semilogx(sizes, values, marker="o", label=name)
axis.set(xlabel="labels", ylabel="accuracy on 1,000 other passages", title="Ten authors")
axis.legend()
figure.tight_layout()
for name, values in scores.items():
    print(f"{name:18}", "  ".join(f"{value:.3f}" for value in values))
