"""
A posterior's spread against the length of the text
===================================================

Every method returns a Gaussian for each text, not a point: ``posterior`` gives its mean and its
variance. The more words a text has, the less spread is left. For PB-L2 it is a formula, :math:`1
/ (\\lambda + n / \\sigma_P^2)`; PB-neg finds it by minimising its own objective.
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
axis.set(xlabel="known words in the text", ylabel="standard deviation of the posterior")
axis.legend()
figure.tight_layout()

# %%
# The spread can be used: ``sample`` draws vectors from the posterior, so that whatever is
# computed from a vector can be computed many times.

vectorizer = make_encoder("PB-L2", "english", lam=8.0).fit(texts)
draws = vectorizer.sample([texts[0]], n_samples=200, random_state=0)
print("drawn vectors:", draws.shape)
