"""
Input and output vectors
========================

Words with similar input vectors occur in similar contexts. A large product of an input and an
output vector means that the words occur together. The English model contains both.
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
# Products of input vectors (left) and of input with output vectors (right) for a few words. The
# right one is the score by which Skip-gram separates true neighbours from negative samples.

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
