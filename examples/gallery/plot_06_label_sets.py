"""
Label sets with a guarantee
===========================

A classifier must not always answer with one label. ``predict_set(error=0.1)`` gives all classes
that cannot be ruled out, so that the sets of *this* fitted classifier miss at most a tenth of new
texts, with 95 % confidence. An easy text gets one label, a hard one several.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from pacsent import TextClassifier
from pacsent.bench.books import passages

rng = np.random.default_rng(1)
shelf = list(passages())
order = rng.permutation(len(shelf))
texts, authors = [shelf[i].text for i in order], [shelf[i].author for i in order]

classifier = TextClassifier("english").fit(texts[:1800], authors[:1800], holdout=0.3, seed=0)
print(classifier.certificate_)

# %%
# How large are the sets, and how often do they miss, on 1,200 passages that nothing has seen?

new, truth = texts[1800:], authors[1800:]
errors = [0.05, 0.1, 0.2, 0.3]
figure, axes = plt.subplots(1, len(errors), figsize=(10, 3), sharey=True)
for axis, error in zip(axes, errors):
    sets = classifier.predict_set(new, error=error)
    missed = np.mean([label not in found for label, found in zip(truth, sets)])
    sizes = Counter(len(found) for found in sets)
    axis.bar(list(sizes), [sizes[n] / len(sets) for n in sizes])
    axis.set(title=f"at most {error:.0%}; missed {missed:.1%}", xlabel="labels in the set")
    axis.title.set_fontsize(10)
axes[0].set_ylabel("share of passages")
figure.tight_layout()
