"""A worked example: seven words in four dimensions, and three sentences.

Every formula of `pacsent.paper.printed` can be computed by hand on it; the tests hold each against
numbers that were computed with forty digits by another program.
"""

from dataclasses import dataclass

import numpy as np

from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class Example:
    """Word vectors, and three sentences as token lists and as word ids.

    Examples
    --------
    >>> example().I_hat.shape
    (7, 4)
    """

    words: WordVectors
    texts: list[list[str]]
    sentences: list[np.ndarray]  # word ids, with multiplicity
    I_hat: np.ndarray  # (7, 4)
    O_hat: np.ndarray  # (7, 4)
    p_noise: np.ndarray  # (7,), count^0.75 over the three sentences
    idf: np.ndarray  # (7,)


def example() -> Example:
    """Make the worked example.

    Returns
    -------
    Example

    Examples
    --------
    >>> example().texts[0]
    ['a', 'b', 'c', 'b', 'd']
    """
    names = list("abcdefg")
    I_hat = np.array(
        [
            [0.505, 0.568, 0.201, -0.318],
            [0.299, -0.31, -0.684, -0.541],
            [-0.761, -0.666, -0.066, 0.583],
            [-0.164, 0.591, 0.899, 0.526],
            [0.999, 0.663, -0.174, -0.88],
            [-0.083, -0.911, -1.049, -0.394],
            [-1.175, -0.54, 0.504, 1.166],
        ]
    )
    O_hat = np.array(
        [
            [-0.208, 0.155, 0.545, 0.736],
            [-0.494, -0.497, -0.213, 0.268],
            [-0.056, -0.421, -0.659, -0.593],
            [0.464, 0.272, -0.139, -0.585],
            [0.304, 0.566, 0.584, 0.28],
            [-0.301, 0.031, 0.452, 0.735],
            [-0.465, -0.55, -0.343, 0.113],
        ]
    )
    sentences = [
        np.array([0, 1, 2, 1, 3]),
        np.array([4, 5, 0]),
        np.array([6, 2, 2, 2]),
    ]
    n_words = len(names)
    counts = np.bincount(np.concatenate(sentences), minlength=n_words)
    n_containing = np.zeros(n_words, dtype=int)  # sentences with each word
    for sentence in sentences:
        n_containing[np.unique(sentence)] += 1
    noise = counts**0.75

    texts = []
    for sentence in sentences:
        texts.append([names[word] for word in sentence])
    vocabulary = Vocabulary(names, counts)
    return Example(
        words=WordVectors(vocabulary, I_hat, O_hat),
        texts=texts,
        sentences=sentences,
        I_hat=I_hat.copy(),
        O_hat=O_hat.copy(),
        p_noise=noise / noise.sum(),
        idf=np.log(len(sentences) / n_containing) + 1.0,
    )
