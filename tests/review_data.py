"""Generated reviews, whose class decides which words occur more often."""

import numpy as np

GOOD = ["good", "great", "fine", "lovely", "superb", "brilliant", "moving", "warm"]
BAD = ["bad", "poor", "dull", "awful", "weak", "boring", "cold", "flat"]
OTHER = ["the", "film", "was", "a", "story", "of", "some", "people", "in", "town", "and", "it"]
WORDS_OF_CLASSES = [GOOD, BAD, [f"x{word}" for word in GOOD]]
CLASSES = np.array(["good", "bad", "other"])


def draw_reviews(n, seed=0, n_classes=2):
    """Texts with three words of their class, or by chance of another one, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    texts = []
    for label in labels:
        words_of_texts = []
        for _ in range(3):
            source = label if rng.random() < 0.85 else rng.integers(n_classes)
            words_of_texts.append(WORDS_OF_CLASSES[source])
        words = [choices[rng.integers(len(choices))] for choices in words_of_texts]
        words += list(rng.choice(OTHER, 8))
        order = rng.permutation(len(words))
        texts.append(" ".join(words[i] for i in order))
    return texts, CLASSES[labels]
