"""Ten fixed sentences whose vectors tell one encoder from another."""

import numpy as np

from pacsent.arrays import unit_rows

PROBE = (
    "The cat slept on the warm stone.",
    "Shares fell sharply after the announcement.",
    "How do I reset my password?",
    "Not bad, but I would not watch it again.",
    "She plays the violin in a small orchestra.",
    "Heavy rain is expected in the north tomorrow.",
    "The recipe needs two eggs and a little salt.",
    "Quantum computers use superposition and entanglement.",
    "42",
    "Der Zug nach Wien hat heute Verspätung.",
)

# Least cosine of the probe's vectors then and now; another precision changes them less.
MIN_PROBE_COSINE = 0.99


def probe_cosines(vectors: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Cosine of each vector with the one that is expected; 1 if both are zero.

    >>> probe_cosines(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 0.0]]))
    array([1., 1.])
    """
    cosines = np.einsum("ij,ij->i", unit_rows(vectors), unit_rows(expected))
    is_empty = ~(vectors.any(axis=1) | expected.any(axis=1))  # neither knows the sentence
    cosines[is_empty] = 1.0
    return cosines
