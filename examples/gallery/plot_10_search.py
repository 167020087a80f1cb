"""
Find passages by meaning
========================

:class:`pacsent.Index` finds the texts with the nearest vectors by exact search. The English model
of the package needs no training text.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import Index
from pacsent.datasets import load_books

passages = list(load_books())
index = Index("english", lexical=False)  # by meaning alone
index.add([passage.text for passage in passages])

for query in ("a storm at sea", "a proposal of marriage", "the detective found a clue"):
    print(f"\n{query}")
    for hit in index.search(query, k=3):
        passage = passages[hit.id]
        print(f"  {hit.score:.2f}  {passage.author}, {passage.book}: {passage.text[:70]}…")

# %%
# The distribution of all cosines: only a few passages stand out.

scores = np.array([hit.score for hit in index.search("a storm at sea", k=len(passages))])
figure, axis = plt.subplots(figsize=(6.5, 3.2))
axis.hist(scores, bins=80)
axis.set(xlabel="cosine to “a storm at sea”", ylabel="passages")
figure.tight_layout()
