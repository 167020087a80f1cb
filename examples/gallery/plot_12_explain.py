"""
Explain a prediction
====================

The classifier is linear in n-grams and in word vectors, so a decision value is a sum over the
words of the text. ``explain`` returns its terms.
"""

import matplotlib.pyplot as plt

from pacsent import TextClassifier
from pacsent.datasets import load_books

passages = load_books()
classifier = TextClassifier("english").fit(
    [p.text for p in passages[::2]], [p.author for p in passages[::2]]
)
passage = passages[1501]
print("written by", passage.author, "- answer:", classifier.predict([passage.text])[0])

# %%
# In a notebook, words that support the answer are green and words against it red.

classifier.explain(passage.text)

# %%
# The n-grams with the largest weights of an author:

label = passage.author
features = classifier.top_features(label, 15)[::-1]
figure, axis = plt.subplots(figsize=(6, 4.5))
axis.barh([name for name, _ in features], [weight for _, weight in features])
axis.set(xlabel="weight", title=f"n-grams that support {label}")
figure.tight_layout()
