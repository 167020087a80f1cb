"""Generated texts in two classes, and tables of them."""

import csv

import numpy as np

WORDS = [first + vowel + last for first in "bdfgklmnprst" for vowel in "aeiou" for last in "knst"]
MOOD_WORDS = {"up": "lovely", "down": "awful"}
OTHER_LABEL = {"up": "down", "down": "up"}


def make_texts(n, seed=0):
    """Texts of six random words, in two classes that differ in one word of each text."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.5, "up", "down")
    texts = []
    for label in labels:
        words = [*rng.choice(WORDS, 6), MOOD_WORDS[label]]
        texts.append(" ".join(words))
    return texts, labels.tolist()


def flip_labels(labels, rng, rate=0.1):
    """The labels, of which each is wrong with a probability of `rate`."""
    return [OTHER_LABEL[label] if rng.random() < rate else label for label in labels]


def write_csv(path, **columns):
    rows = zip(*columns.values())
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path
