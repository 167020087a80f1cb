"""
Answer only where it is safe
============================

``abstain(error=0.05)`` finds how confident the classifier must be so that, of the texts it
answers, at most 5 % are answered wrongly, with 95 % confidence. The rest it leaves to somebody
else.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.datasets import load_books

rng = np.random.default_rng(2)
shelf = list(load_books())
order = rng.permutation(len(shelf))
texts, authors = [shelf[i].text for i in order], [shelf[i].author for i in order]
classifier = CertifiedClassifier(
    TextClassifier("english"), calibration_size=0.3, random_state=0
).fit(texts[:2000], authors[:2000])
new, truth = texts[2000:], np.array(authors[2000:])

promised, answered, wrong = [0.02, 0.05, 0.1, 0.15, 0.2], [], []
for error in promised:
    answers = classifier.abstain(error=error).predict(new)
    given = np.array([answer is not None for answer in answers])
    answered.append(given.mean())
    wrong.append(
        np.mean([a != t for a, t in zip(answers, truth) if a is not None]) if given.any() else 0.0
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(promised, wrong, marker="o")
left.plot([0, 0.2], [0, 0.2], color="gray", ls="--", label="promised")
left.set(xlabel="promised error of its answers", ylabel="realised error")
left.legend()
right.plot(promised, answered, marker="o", color="C1")
right.set(xlabel="promised error of its answers", ylabel="share of texts answered", ylim=(0, 1.02))
figure.tight_layout()
print(classifier.abstain(error=0.05))
