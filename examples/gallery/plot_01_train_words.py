"""
Train word vectors
==================

:class:`pacsent.SkipGram` learns an *input* and an *output* vector per word. Both are kept, because
posteriors and certificates need both. The corpus is three thousand passages of thirty books:
enough for an example, too little for good vectors.
"""

import matplotlib.pyplot as plt

from pacsent import SkipGram
from pacsent.datasets import load_books

texts = [passage.text for passage in load_books()]
trainer = SkipGram(
    64, window=5, subsample=1e-3, n_epochs=12, learning_rate=0.05, n_jobs=1, random_state=0
)
words = trainer.fit(texts).word_vectors_
print(words)

# %%
# The loss is summed in double precision over every pair that was trained; with ``n_jobs=1`` the
# same seed gives the same digits.

figure, axis = plt.subplots(figsize=(6, 3))
axis.plot(range(1, len(trainer.loss_) + 1), trainer.loss_, marker="o")
axis.set(xlabel="epoch", ylabel="loss of a pair", title="Skip-gram on thirty books")
figure.tight_layout()

# %%
# The nearest neighbours of some words.

for word in ("captain", "sister", "morning"):
    print(f"{word}: {', '.join(other for other, _ in words.most_similar(word, 5))}")
