"""
Find passages by meaning
========================

:class:`pacsent.Index` keeps the vectors of texts and finds the nearest ones, exactly. The
English model that comes with the package needs no training text and costs what an average costs.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import Index
from pacsent.datasets import load_books

shelf = list(load_books())
index = Index("english", lexical=False)  # by meaning alone
index.add([passage.text for passage in shelf])

for query in ("a storm at sea", "a proposal of marriage", "the detective found a clue"):
    print(f"\n{query}")
    for hit in index.search(query, k=3):
        found = shelf[hit.id]
        print(f"  {hit.cosine:.2f}  {found.author}, {found.book}: {found.text[:70]}…")

# %%
# How alike is everything else? Only a few passages stand out.

scores = np.array([hit.cosine for hit in index.search("a storm at sea", k=len(shelf))])
figure, axis = plt.subplots(figsize=(6.5, 3.2))
axis.hist(scores, bins=80)
axis.set(xlabel="cosine to “a storm at sea”", ylabel="passages")
figure.tight_layout()
