"""Sentence vectors with variances as features of a classifier.

python examples/02_sentence_vectors.py
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from pacsent import SkipGram, list_encoders, make_encoder
from pacsent.paper import benchmark_datasets as datasets

source = datasets.generate(2000, random_state=0)  # to train words on
target = datasets.generate(1500, random_state=1)  # the same language, other documents
train, test = slice(0, 1000), slice(1000, None)

words = (
    SkipGram(
        50, window=10, subsample=1e-3, n_epochs=5, learning_rate=0.05, n_jobs=1, random_state=0
    )
    .fit(source.texts)
    .word_vectors_
)
print("methods:", ", ".join(list_encoders()))
for method in ("Average", "PB-L2", "PB-neg"):
    classifier = make_pipeline(
        make_encoder(method, words), LogisticRegression(C=100, max_iter=1000)
    )
    classifier.fit(target.texts[train], target.labels[train])
    print(f"{method:8} accuracy {classifier.score(target.texts[test], target.labels[test]):.3f}")

means, variances = make_encoder("PB-neg", words, lam=8.0).fit(target.texts).posterior(target.texts)
lengths = np.array([len(text.split()) for text in target.texts])
for low, high in ((0, 30), (30, 60), (60, 10_000)):
    some = (lengths >= low) & (lengths < high)
    print(f"{low:3}-{high:<6} tokens: mean posterior variance {variances[some].mean():.4f}")
