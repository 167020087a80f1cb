"""
An alarm when texts change
==========================

Every promise is about texts *like the ones held out*. :class:`pacsent.guarantees.DriftMonitor`
bets against that: as long as new texts are exchangeable with the calibration texts, its capital
stays small, and the chance that it *ever* passes 20 is at most 5 %. Here the stream is first like
the training books; after 300 passages it turns to another book of each author.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.datasets import load_books
from pacsent.guarantees import DriftMonitor

rng = np.random.default_rng(0)
shelf = list(load_books())
books_of: dict[str, list[str]] = {}
for passage in shelf:
    found = books_of.setdefault(passage.author, [])
    if passage.book not in found:
        found.append(passage.book)
last = {author: books[-1] for author, books in books_of.items()}
known = [p for p in shelf if p.book != last[p.author]]
other = [p for p in shelf if p.book == last[p.author]]
known = [known[i] for i in rng.permutation(len(known))]
other = [other[i] for i in rng.permutation(len(other))]

train, same = known[:1600], known[1600:]
classifier = CertifiedClassifier(
    TextClassifier("english"), calibration_size=0.4, random_state=0
).fit([p.text for p in train], [p.author for p in train])

# %%
# Watched with labels: the watcher sees how surprising the true author is.

stream = same[:300] + other[:300]
watcher = DriftMonitor(classifier, alpha=0.05, seed=0)
capital = []
for passage in stream:
    watcher.update([passage.text], [passage.author])
    capital.append(watcher.capital)

figure, axis = plt.subplots(figsize=(7, 3.5))
axis.semilogy(np.maximum(capital, 1e-6))
axis.axhline(20, color="C3", ls="--", label="alarm")
axis.axvline(300, color="gray", ls=":", label="another book begins")
axis.set(xlabel="passage", ylabel="capital of the bettor")
axis.legend()
figure.tight_layout()
