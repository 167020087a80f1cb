"""
Neighbours within and across the two tables
===========================================

Within the input table, neighbours are words used *alike*. Between the input and the output table,
a large product means words used *together*. The English model that comes with the package keeps
both.
"""

import matplotlib.pyplot as plt
import numpy as np

import pacsent

words = pacsent.load("english")
for word in ("whale", "judge", "violin"):
    alike = [other for other, _ in words.most_similar(word, 6)]
    together = [other for other, _ in words.most_similar(word, 6, among="output")]
    print(f"{word:8} alike:    {', '.join(alike)}")
    print(f"{'':8} together: {', '.join(together)}")

# %%
# The same as a picture: products of input rows (left) and of input with output rows (right) for a
# few words. The left is symmetric. The right is the score by which Skip-gram tells a true
# neighbour from a random word, so it is what certificates are about.

few = ["doctor", "nurse", "patient", "hospital", "judge", "court", "crime", "trial"]
inputs = np.stack([words.input(word) for word in few])
outputs = np.stack([words.output(word) for word in few])


def cosines(A, B):
    A = A / np.linalg.norm(A, axis=1, keepdims=True)
    B = B / np.linalg.norm(B, axis=1, keepdims=True)
    return A @ B.T


figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for axis, table, title in zip(axes, (inputs, outputs), ("input with input", "input with output")):
    picture = axis.imshow(cosines(inputs, table), vmin=-0.2, vmax=1, cmap="viridis")
    axis.set_xticks(range(len(few)), few, rotation=60, ha="right")
    axis.set_yticks(range(len(few)), few)
    axis.set_title(title)
figure.colorbar(picture, ax=axes, label="cosine", shrink=0.8)
