"""
Compress a model
================

``compress`` rotates both embedding matrices, which preserves the products of their rows, drops the
last dimensions and quantises the others to 8, 4, 2 or 1 bits. How much accuracy is lost?
"""

import matplotlib.pyplot as plt
import numpy as np

import pacsent
from pacsent import make_encoder
from pacsent.datasets import load_books
from pacsent.words import compress

words = pacsent.load("english")
texts = [passage.text for passage in load_books()[::10]]


def similarities(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]


whole = similarities(make_encoder("SIF-sum", words).fit_transform(texts))
dims = [16, 32, 64, 128]
figure, axis = plt.subplots(figsize=(6.5, 3.8))
for bits in (8, 4, 1):
    kept, sizes = [], []
    for n_dims in dims:
        small = compress(words, n_words=20_000, n_dims=n_dims, bits=bits)
        kept.append(
            np.corrcoef(whole, similarities(make_encoder("SIF-sum", small).fit_transform(texts)))[
                0, 1
            ]
        )
        sizes.append(2 * 20_000 * n_dims * bits / 8 / 1e6)
    axis.semilogx(sizes, kept, marker="o", label=f"{bits} bits")
axis.set(xlabel="megabytes of both matrices, 20,000 words", ylabel="correlation of similarities")
axis.legend(title="16 to 128 dimensions")
figure.tight_layout()
