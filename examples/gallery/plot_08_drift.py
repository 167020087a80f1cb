"""
Detect drift
============

Guarantees concern texts from the distribution of the calibration set.
:class:`pacsent.certify.DriftMonitor` tests this on a stream: if new texts are exchangeable with
the calibration texts, the probability that its martingale *ever* reaches 20 is at most 5%. Here
the stream changes to another book of each author after 300 passages.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import DriftMonitor
from pacsent.datasets import load_books

rng = np.random.default_rng(0)
passages = list(load_books())
books_of: dict[str, list[str]] = {}
for passage in passages:
    found = books_of.setdefault(passage.author, [])
    if passage.book not in found:
        found.append(passage.book)
last = {author: books[-1] for author, books in books_of.items()}
known = [p for p in passages if p.book != last[p.author]]
other = [p for p in passages if p.book == last[p.author]]
known = [known[i] for i in rng.permutation(len(known))]
other = [other[i] for i in rng.permutation(len(other))]

train, same = known[:1600], known[1600:]
classifier = CertifiedClassifier(
    TextClassifier("english"), calibration_size=0.4, random_state=0
).fit([p.text for p in train], [p.author for p in train])

# %%
# With labels, the monitor also follows the score of the true author.

stream = same[:300] + other[:300]
monitor = DriftMonitor(classifier, alpha=0.05, random_state=0)
evidence = []
for passage in stream:
    monitor.update([passage.text], [passage.author])
    evidence.append(monitor.evidence)

figure, axis = plt.subplots(figsize=(7, 3.5))
axis.semilogy(np.maximum(evidence, 1e-6))
axis.axhline(20, color="C3", ls="--", label="alarm")
axis.axvline(300, color="gray", ls=":", label="another book begins")
axis.set(xlabel="passage", ylabel="evidence of a change")
axis.legend()
figure.tight_layout()
