"""The distribution D of section 3.1, the dataset D_S, and the hypothesis sign(h.A_w).

A labelled word is (w, y): y = 1 with probability pi, then w comes from the sentence's own
distribution phi; y = -1 otherwise, then w is noise from p_n. D_S has the words of the sentence as
positives and k negative samples for each, so that its share of positives is pi = 1/(k + 1).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# The paper's own example: the sentence, words of the sentence, words that D has although the
# sentence does not, and words of other things.
PARIS = "Paris is one of the most beautiful cities in the world"
OWN_WORDS = ("paris", "beautiful", "cities", "world")
UNSEEN_WORDS = ("france", "capital", "incredible")
NOISE_WORDS = ("tax", "protein", "software")


class LabelledWords(NamedTuple):
    """Pairs (w, y) of D or D_S."""

    words: np.ndarray  # (n,), word ids
    labels: np.ndarray  # (n,), 1 or -1


def draw_labelled_words(
    phi: ArrayLike,
    p_noise: ArrayLike,
    n: int,
    *,
    pi: float = 1.0 / 16.0,
    random_state: Any = None,
) -> LabelledWords:
    """Draw n pairs from D: y ~ Bernoulli(pi), then w ~ phi (y = 1) or w ~ p_n (y = -1).

    The paper writes the Bernoulli distribution with p for pi. Negative sampling has
    pi = 1/(k + 1), k = 15.

    Parameters
    ----------
    phi : array, shape (n_words,)
        The sentence's own distribution of words.
    p_noise : array, shape (n_words,)
        Distribution of noise.
    n : int
        Number of pairs.
    pi : float, default=1/16
        Probability of y = 1.
    random_state : int, Generator or None, default=None

    Returns
    -------
    LabelledWords

    References
    ----------
    Nozawa and Sato (2019), section 3.1.

    Examples
    --------
    >>> drawn = draw_labelled_words([1.0, 0.0], [0.0, 1.0], 1000, pi=0.25, random_state=0)
    >>> bool(np.all((drawn.words == 0) == (drawn.labels == 1)))
    True
    """
    rng = np.random.default_rng(random_state)
    phi = np.asarray(phi, dtype=float)
    p_noise = np.asarray(p_noise, dtype=float)
    labels = np.where(rng.random(n) < pi, 1, -1)

    words = np.empty(n, dtype=np.int64)
    is_positive = labels == 1
    n_positive = is_positive.sum()
    words[is_positive] = rng.choice(phi.size, n_positive, p=phi)
    words[~is_positive] = rng.choice(p_noise.size, n - n_positive, p=p_noise)
    return LabelledWords(words, labels)


def labelled_words_of(
    sentence: ArrayLike, p_noise: ArrayLike, *, n_negatives: int = 15, random_state: Any = None
) -> LabelledWords:
    """D_S: the words of the sentence with y = 1, and k |S| negative samples with y = -1.

    Parameters
    ----------
    sentence : array of int, shape (n_tokens,)
        Word ids.
    p_noise : array, shape (n_words,)
        Distribution of negative samples.
    n_negatives : int, default=15
        Negative samples per word, k.
    random_state : int, Generator or None, default=None

    Returns
    -------
    LabelledWords

    References
    ----------
    Nozawa and Sato (2019), section 3.1.

    Examples
    --------
    >>> D_S = labelled_words_of([4, 2, 2], np.full(5, 0.2), n_negatives=15, random_state=0)
    >>> D_S.words.size, int((D_S.labels == 1).sum())
    (48, 3)
    """
    rng = np.random.default_rng(random_state)
    sentence = np.asarray(sentence)
    n_noise = n_negatives * sentence.size
    p_noise = np.asarray(p_noise, dtype=float)
    noise = rng.choice(p_noise.size, n_noise, p=p_noise)
    labels = np.repeat([1, -1], [sentence.size, n_noise])
    return LabelledWords(np.concatenate([sentence, noise]), labels)


def hypothesis(h: ArrayLike, A_hat: np.ndarray, words: ArrayLike, bias: float = 0.0) -> np.ndarray:
    """Sign of h.A_w + bias for each word: 1 "of this sentence", -1 "noise".

    The paper has no bias. Skip-gram's scores lie around PMI - ln k, so that without one the
    hypothesis calls almost every word noise; pacsent's certificates use ln k.

    Parameters
    ----------
    h : array, shape (n_dims,)
        Vector of the sentence.
    A_hat : array, shape (n_words, n_dims)
    words : array of int, shape (n,)
        Word ids.
    bias : float, default=0.0
        Added to every score.

    Returns
    -------
    array of int, shape (n,)

    Examples
    --------
    >>> hypothesis([1.0, 0.0], np.array([[0.5, 2.0], [-0.5, 2.0]]), [0, 1])
    array([ 1, -1])
    """
    h = np.asarray(h, dtype=float)
    words = np.asarray(words)
    vectors = A_hat[words].astype(float)  # (n_words, n_dims)
    scores = vectors @ h + bias
    return np.where(scores > 0, 1, -1)


def zero_one_risk(h: ArrayLike, A_hat: np.ndarray, data: LabelledWords, bias: float = 0.0) -> float:
    """Share of the pairs on which `hypothesis` is wrong: the paper's R(D) or its empirical form.

    Parameters
    ----------
    h, A_hat, bias
        As in `hypothesis`.
    data : LabelledWords
        Pairs of D or D_S.

    Returns
    -------
    float

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> data = labelled_words_of(ex.sentences[0], ex.p_noise, random_state=0)
    >>> zero_one_risk(ex.O_hat[0], ex.I_hat, data)
    0.5125
    """
    predicted = hypothesis(h, A_hat, data.words, bias)
    return float(np.mean(predicted != data.labels))


class WordScore(NamedTuple):
    """h.A_w of a word, and which kind of word it is."""

    word: str
    kind: str  # "own", "unseen" or "noise"
    score: float
    sign: int  # of the hypothesis as printed
    sign_with_bias: int  # with ln k


def generalisation_example(encoder: Any = None, sentence: str = PARIS) -> list[WordScore]:
    """Scores of words of the paper's example sentence, of words it might have had, and of noise.

    What generalisation means here: words that D has and D_S has not should score above noise. They
    do. The order is right, although every sign says noise: the hypothesis as printed has no bias.

    Parameters
    ----------
    encoder : fitted PBNegVectorizer or other method, default=None
        None takes PB-neg with lam=8 on the English vectors, fitted on the books that ship.
    sentence : str
        The sentence whose vector is h.

    Returns
    -------
    list of WordScore

    References
    ----------
    Nozawa and Sato (2019), section 3.1.

    Examples
    --------
    >>> [(row.word, row.sign) for row in generalisation_example()][:2]
    [('paris', -1), ('beautiful', -1)]
    """
    if encoder is None:
        encoder = _example_encoder()
    words = encoder.word_vectors
    A_hat, _ = words.roles(swap=encoder.swap_roles)
    h = encoder.transform([sentence])[0]
    n_negatives = getattr(encoder, "n_negatives", 15)
    bias = float(np.log(n_negatives))

    word_scores = []
    for kind, listed in (("own", OWN_WORDS), ("unseen", UNSEEN_WORDS), ("noise", NOISE_WORDS)):
        ids = np.array([words.vocabulary.id_of(word) for word in listed])
        scores = A_hat[ids].astype(float) @ h.astype(float)
        signs = hypothesis(h, A_hat, ids)
        signs_with_bias = hypothesis(h, A_hat, ids, bias)
        for position, word in enumerate(listed):
            score = WordScore(
                word=word,
                kind=kind,
                score=float(scores[position]),
                sign=int(signs[position]),
                sign_with_bias=int(signs_with_bias[position]),
            )
            word_scores.append(score)
    return word_scores


def _example_encoder() -> Any:
    """PB-neg with lam=8 on the English vectors, fitted on the books that ship."""
    from pacsent.datasets import load_books
    from pacsent.sentences.methods import make_encoder

    texts = [passage.text for passage in load_books()]
    encoder = make_encoder("PB-neg", "english", lam=8.0)
    return encoder.fit(texts)
