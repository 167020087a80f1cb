"""
Prediction sets
===============

``predict_set(error=0.1)`` returns all classes that cannot be ruled out: with 95% confidence, the
sets of *this* fitted classifier miss the right class for at most a tenth of new texts. An easy
text gets one label, a difficult one several.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.binomial import lower_limit, upper_limit
from pacsent.datasets import load_books

rng = np.random.default_rng(1)
books = load_books()
order = rng.permutation(len(books))
texts, authors = [books[i].text for i in order], [books[i].author for i in order]

classifier = CertifiedClassifier(
    TextClassifier("english"), calibration_size=0.3, random_state=0
).fit(texts[:1800], authors[:1800])
print(classifier.certificate_)

# %%
# How large are the sets, and how often do they miss, on 1,200 new passages?

new, truth = texts[1800:], authors[1800:]
errors = [0.05, 0.1, 0.2, 0.3]
figure, axes = plt.subplots(1, len(errors), figsize=(10, 3), sharey=True)
for axis, error in zip(axes, errors):
    sets = classifier.predict_set(new, error=error)
    missed = sum(label not in found for label, found in zip(truth, sets))
    low, high = (limit(missed, len(new), 0.025) for limit in (lower_limit, upper_limit))
    print(
        f"guaranteed {error:.0%}: missed {missed} of {len(new):,} = {missed / len(new):.1%}, "
        f"so the miss rate is between {low:.1%} and {high:.1%}"
    )
    sizes = Counter(len(found) for found in sets)
    axis.bar(list(sizes), [sizes[n] / len(sets) for n in sizes])
    axis.set(title=f"guaranteed {error:.0%}, missed {missed / len(new):.1%}")
    axis.set(xlabel="labels in the set", xticks=sorted(sizes))
    axis.title.set_fontsize(10)
axes[0].set_ylabel("fraction of passages")
figure.tight_layout()

# %%
# The calibration set is a sample: in at most one of twenty runs the true miss rate is larger than
# guaranteed. The 1,200 new passages are a sample as well, so a measured rate slightly above the
# guarantee does not contradict it unless the interval printed above lies entirely above it.
