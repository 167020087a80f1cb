"""Train word vectors on a text and show neighbours among input and output vectors.

    python examples/01_train_word_vectors.py [TEXT]

TEXT has one document per line; the default is text drawn from a generative model.
"""

import sys

from pacsent import SkipGram, save
from pacsent.paper import benchmark_datasets as datasets

source = sys.argv[1] if len(sys.argv) > 1 else datasets.generate(2000, random_state=0).texts
trainer = SkipGram(
    50, window=10, subsample=1e-3, n_epochs=5, learning_rate=0.05, n_jobs=1, random_state=0
).fit(source)
words = trainer.word_vectors_
print(words)
print("loss of each epoch:", [round(loss, 3) for loss in trainer.loss_])

word = words.vocabulary.words[60]
for among in ("input", "output"):
    neighbours = words.most_similar(word, n=5, table="input", among=among)
    print(f"{word} -> {among}:", ", ".join(f"{other} {score:.2f}" for other, score in neighbours))

save(words, "words", overwrite=True)  # a folder to look into; pacsent.load("words") opens it
