"""
Why this answer
===============

The classifier is linear in n-grams and, through the vectors, in words, so every answer is a sum
over the words of the text. ``explain`` takes it apart.
"""

import matplotlib.pyplot as plt

from pacsent import TextClassifier
from pacsent.datasets import load_books

shelf = load_books()
classifier = TextClassifier("english").fit(
    [p.text for p in shelf[::2]], [p.author for p in shelf[::2]]
)
passage = shelf[1501]
print("written by", passage.author, "- answer:", classifier.predict([passage.text])[0])

# %%
# In a notebook, and here, the words that speak for the answer are green and those against it red.

classifier.explain(passage.text)

# %%
# What speaks for an author anywhere:

label = passage.author
features = classifier.top_features(label, 15)[::-1]
figure, axis = plt.subplots(figsize=(6, 4.5))
axis.barh([name for name, _ in features], [weight for _, weight in features])
axis.set(xlabel="weight", title=f"what speaks for {label}")
figure.tight_layout()
