"""
Posterior variance against text length
======================================

``posterior`` returns the mean and the variance of a Gaussian for each text. The variance decreases
with the number of words. For PB-L2 it is :math:`1 / (\\lambda + n / \\sigma_P^2)`; PB-neg minimises
its own objective.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacsent import make_encoder
from pacsent.datasets import load_books

rng = np.random.default_rng(0)
texts = []
for passage in load_books()[::10]:
    tokens = passage.text.split()
    texts.append(" ".join(tokens[: rng.integers(1, len(tokens))]))  # cut somewhere

figure, axis = plt.subplots(figsize=(6.5, 4))
for name, marker in (("PB-L2", "o"), ("PB-neg", "x")):
    vectorizer = make_encoder(name, "english", lam=8.0).fit(texts)
    means, variances = vectorizer.posterior(texts)
    n_known = np.diff(vectorizer.word_vectors.vocabulary.encode(texts).offsets)
    axis.loglog(n_known, np.sqrt(variances), marker, ms=4, alpha=0.6, label=name)
axis.set(xlabel="in-vocabulary words in the text", ylabel="standard deviation of the posterior")
axis.legend()
figure.tight_layout()

# %%
# ``sample`` draws vectors from the posterior.

vectorizer = make_encoder("PB-L2", "english", lam=8.0).fit(texts)
draws = vectorizer.sample([texts[0]], n_samples=200, random_state=0)
print("drawn vectors:", draws.shape)
