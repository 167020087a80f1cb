"""
Abstention
==========

``abstain(error=0.05)`` finds a threshold such that, with 95% confidence, at most 5% of the answers
are wrong. The classifier abstains from the other texts.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.datasets import load_books

rng = np.random.default_rng(2)
passages = list(load_books())
order = rng.permutation(len(passages))
texts, authors = [passages[i].text for i in order], [passages[i].author for i in order]
classifier = CertifiedClassifier(
    TextClassifier("english"), calibration_size=0.3, random_state=0
).fit(texts[:2000], authors[:2000])
new, truth = texts[2000:], np.array(authors[2000:])

guaranteed, answered, wrong = [0.02, 0.05, 0.1, 0.15, 0.2], [], []
for error in guaranteed:
    answers = classifier.abstain(error=error).predict(new)
    given = np.array([answer is not None for answer in answers])
    answered.append(given.mean())
    wrong.append(
        np.mean([a != t for a, t in zip(answers, truth) if a is not None]) if given.any() else 0.0
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(guaranteed, wrong, marker="o")
left.plot([0, 0.2], [0, 0.2], color="gray", ls="--", label="guaranteed")
left.set(xlabel="guaranteed error of the answers", ylabel="realised error")
left.legend()
right.plot(guaranteed, answered, marker="o", color="C1")
right.set(
    xlabel="guaranteed error of the answers", ylabel="fraction of texts answered", ylim=(0, 1.02)
)
figure.tight_layout()
print(classifier.abstain(error=0.05))
