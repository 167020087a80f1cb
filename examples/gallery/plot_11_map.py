"""
A map of thirty books
=====================

Vectors by SIF-sum, projected to two dimensions by t-SNE. Passages of an author form clusters,
although the vectors were made without labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE

from pacsent import make_encoder
from pacsent.datasets import load_books

passages = load_books()[::3]
vectors = make_encoder("SIF-sum", "english").fit_transform([passage.text for passage in passages])
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
places = TSNE(init="pca", perplexity=30, random_state=0).fit_transform(vectors)

figure, axis = plt.subplots(figsize=(8, 6))
authors = sorted({passage.author for passage in passages})
for number, author in enumerate(authors):
    mine = np.array([passage.author == author for passage in passages])
    axis.scatter(*places[mine].T, s=10, color=plt.get_cmap("tab10")(number), label=author)
axis.set(xticks=[], yticks=[])
axis.legend(markerscale=2, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
figure.tight_layout()
