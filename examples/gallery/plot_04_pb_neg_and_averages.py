"""
PB-neg and averages
===================

PB-neg moves from its prior mean (the mean of the words' output vectors) towards the minimum of the
negative-sampling loss; :math:`\\lambda` controls how far. It moves farther for short texts. Does
it matter for a classifier?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from pacsent import make_encoder
from pacsent.datasets import load_books

passages = load_books()[::10]
texts, authors = [p.text for p in passages], [p.author for p in passages]
lams = [0.25, 1.0, 4.0, 16.0]
prior = make_encoder("i-Average", "english").fit_transform(texts)


def accuracy(vectors):
    vectors = vectors - vectors.mean(0)
    vectors /= np.sqrt((vectors**2).sum(1).mean())
    return cross_val_score(LogisticRegression(C=30.0, max_iter=2000), vectors, authors, cv=4).mean()


moved, scores = [], []
for lam in lams:
    means = make_encoder("PB-neg", "english", lam=lam).fit_transform(texts)
    moved.append(
        np.linalg.norm(means - prior, axis=1).mean() / np.linalg.norm(prior, axis=1).mean()
    )
    scores.append(accuracy(means))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.semilogx(lams, moved, marker="o")
left.set(xlabel="λ", ylabel="distance from the prior mean (relative)")
right.semilogx(lams, scores, marker="o", label="PB-neg")
for name, style in (("Average", "--"), ("i-Average", ":")):
    right.axhline(
        accuracy(make_encoder(name, "english").fit_transform(texts)),
        ls=style,
        color="gray",
        label=name,
    )
right.set(xlabel="λ", ylabel="accuracy, author (4 folds)")
right.legend()
figure.tight_layout()
