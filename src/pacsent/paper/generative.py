"""The paper's generative model: documents in invented words, with their true distribution."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacsent.certify.independence import as_seed
from pacsent.paper.labelled import Dataset
from pacsent.words.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False, repr=False)
class GenerativeCorpus:
    """Documents drawn from the paper's model, with the distribution behind each of them.

    `generate` returns it.

    Attributes
    ----------
    texts : list of str
    labels : array, shape (n_documents,)
    ids : list of arrays
        The same documents as word ids, in the order of the text.
    vocabulary : Vocabulary
        All words of the language, with their counts in this corpus.
    classes : tuple of str
        The name of each label.
    gamma : array, shape (n_documents, n_themes + 1)
        Weights of the themes and of the background.
    themes : array, shape (n_themes + 1, n_words)
        Distributions of words; rows sum to one.
    concentration : float
    random_state : int

    Examples
    --------
    >>> from pacsent.paper import generate
    >>> corpus = generate(20, n_topics=2, n_words=60, random_state=0)
    >>> corpus.phi().shape
    (20, 60)
    """

    texts: list[str]
    labels: np.ndarray  # (n_documents,)
    ids: list[np.ndarray]  # the same documents as word ids, in the order of the text
    vocabulary: Vocabulary  # all words of the language, with their counts in this corpus
    classes: tuple[str, ...]
    gamma: np.ndarray  # (n_documents, n_themes + 1), weights of the themes and the background
    themes: np.ndarray  # (n_themes + 1, n_words), rows sum to one
    concentration: float
    random_state: int

    def __repr__(self) -> str:
        return (
            f"GenerativeCorpus({len(self.texts):,} documents, {self.vocabulary.n_words:,} words, "
            f"{len(self.classes)} classes)"
        )

    def phi(self, rows: np.ndarray | None = None) -> np.ndarray:
        """phi_S of the documents in `rows` (all by default), (n_rows, n_words); rows sum to one.

        Made again from the seed on each call: a large corpus need not keep them in memory.

        Parameters
        ----------
        rows : array of int or None, default=None
            Numbers of documents.

        Returns
        -------
        array, shape (n_rows, n_words)
        """
        if rows is None:
            rows = np.arange(len(self.texts))
        distributions = []
        for row in np.atleast_1d(rows):
            phi, _ = _draw_phi(self, int(row))
            distributions.append(phi)
        return np.stack(distributions)

    def dataset(self, name: str = "generated") -> Dataset:
        """The texts and labels as a dataset without a fixed split.

        Parameters
        ----------
        name : str, default="generated"
            Name of the dataset.

        Returns
        -------
        Dataset
        """
        content = "\0".join(self.texts).encode() + self.labels.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        return Dataset(
            name=name,
            train_texts=self.texts,
            train_labels=self.labels,
            test_texts=[],
            test_labels=np.zeros(0, dtype=np.int64),
            classes=self.classes,
            digest=digest,
        )


def generate(
    n_documents: int = 1000,
    n_topics: int = 4,
    n_words: int = 2000,
    *,
    n_tokens: float = 60.0,
    topic_share: float = 0.35,
    concentration: float = 300.0,
    language: int = 0,
    random_state: Any = None,
) -> GenerativeCorpus:
    """Draw documents from the paper's model: a Dirichlet draw per document, then its words.

        phi_S ~ Dirichlet(gamma_S),  w ~ Multinomial(phi_S),  gamma_S = concentration * base_S

    base_S mixes a background all documents share (Zipf's law) with the themes of the document's
    topic; topics, which are the labels, overlap in their themes, so that telling them apart takes
    more than one word. Section 3.1 of the paper has one gamma; several topics are an extension.

    Parameters
    ----------
    n_documents : int, default=1000
        Number of documents, at least 1.
    n_topics : int, default=4
        Number of topics, at least 2; a document belongs to one of them.
    n_words : int, default=2000
        Number of words of the language, at least 50.
    n_tokens : float, default=60
        Mean document length (log-normal, at least 5). Word order is random, as in the paper.
    topic_share : float, default=0.35
        Part of base_S that comes from the themes; the rest is background. Larger is easier.
    concentration : float, default=300
        Sum of gamma_S. Smaller makes a document repeat its own words more.
    language : int, default=0
        Seed of the words, themes and topics: corpora of one language go together.
    random_state : int, RandomState, Generator or None, default=None
        Draws the documents.

    Returns
    -------
    GenerativeCorpus
        Texts, labels, and the distribution that each document was drawn from.

    References
    ----------
    Nozawa and Sato (2019), section 3.1.

    Examples
    --------
    >>> generate(20, n_topics=2, n_words=60)
    GenerativeCorpus(20 documents, 60 words, 2 classes)
    """
    for key, value, minimum in (
        ("n_documents", n_documents, 1),
        ("n_topics", n_topics, 2),
        ("n_words", n_words, 50),
    ):
        if value < minimum:
            raise ValueError(f"{key} must be at least {minimum}. Got {value} instead.")
    if not 0 < topic_share < 1:
        raise ValueError(f"topic_share must be in (0, 1). Got {topic_share} instead. Try 0.35.")
    if not concentration > 0:
        raise ValueError(f"concentration must be positive. Got {concentration} instead. Try 300.")
    seed = as_seed(random_state)

    language_rng = np.random.default_rng([language, n_topics, n_words])
    words = _make_words(n_words, language_rng)
    themes = _make_themes(n_topics, n_words, language_rng)

    rng = np.random.default_rng([seed, language, n_documents])
    topics = np.arange(n_documents) % n_topics
    labels = rng.permutation(topics).astype(np.int64)
    corpus = GenerativeCorpus(
        texts=[],
        labels=labels,
        ids=[],
        vocabulary=Vocabulary(words),
        classes=tuple(f"topic {topic + 1}" for topic in range(n_topics)),
        gamma=_draw_gamma(labels, n_topics, topic_share, rng),
        themes=themes,
        concentration=concentration,
        random_state=seed,
    )

    counts = np.zeros(n_words, dtype=np.int64)
    all_ids = np.arange(n_words, dtype=np.int32)
    for document in range(n_documents):
        phi, document_rng = _draw_phi(corpus, document)
        length = max(5, round(n_tokens * document_rng.lognormal(-0.125, 0.5)))
        count = document_rng.multinomial(length, phi)  # (n_words,)
        ids = document_rng.permutation(np.repeat(all_ids, count))
        counts += count
        corpus.ids.append(ids)
        corpus.texts.append(" ".join([words[i] for i in ids]))
    return replace(corpus, vocabulary=Vocabulary(words, counts))


def _make_themes(n_topics: int, n_words: int, rng: np.random.Generator) -> np.ndarray:
    """Distributions of words of three themes per topic and, last, of the background.

    A theme is Zipf over its own random tenth of the words; the first fifty, the language's function
    words, belong to none.
    """
    themes = np.zeros((3 * n_topics + 1, n_words))
    n_function_words = min(50, n_words // 4)
    content_words = np.arange(n_function_words, n_words)
    for theme in themes[:-1]:
        own_words = rng.choice(content_words, n_words // 10, replace=False)
        theme[own_words] = 1.0 / (np.arange(own_words.size) + 3.0)
    themes[-1] = 1.0 / (np.arange(n_words) + 5.0)
    themes /= themes.sum(axis=1, keepdims=True)
    return themes


def _draw_gamma(
    labels: np.ndarray, n_topics: int, topic_share: float, rng: np.random.Generator
) -> np.ndarray:
    """Weights of the themes and the background in each document, (n_documents, n_themes + 1)."""
    # Each topic has three themes of its own and a smaller weight in every other.
    n_themes = 3 * n_topics
    affinity = np.full((n_topics, n_themes), 0.15)
    for topic in range(n_topics):
        affinity[topic, 3 * topic : 3 * topic + 3] = 1.0

    gamma = np.empty((labels.size, n_themes + 1))
    theme_weights = rng.standard_gamma(affinity[labels])  # (n_documents, n_themes)
    totals = theme_weights.sum(axis=1, keepdims=True)
    gamma[:, :-1] = theme_weights * (topic_share / totals)
    gamma[:, -1] = 1 - topic_share
    return gamma


def _draw_phi(corpus: GenerativeCorpus, document: int) -> tuple[np.ndarray, np.random.Generator]:
    """phi of one document and its generator, which goes on to draw the words."""
    rng = np.random.default_rng([corpus.random_state, document, 3])
    gamma = corpus.concentration * (corpus.gamma[document] @ corpus.themes)
    phi = rng.standard_gamma(gamma)
    return phi / phi.sum(), rng


_ONSETS = [*"bcdfghjklmnprstvwz", "br", "dr", "fl", "gr", "kl", "pl", "pr", "st", "tr"]
_VOWELS = [*"aeiouaeio", "ai", "ea", "ou"]
_CODAS = ["", "", "", *"nrsl", "nd", "rk", "st"]


def _make_words(n_words: int, rng: np.random.Generator) -> list[str]:
    """Pronounceable words, all different, the short ones first as in real languages."""
    words: dict[str, None] = {}
    while len(words) < n_words:
        n_syllables = 1
        if len(words) > 40:
            n_syllables += min(3, len(words) * 4 // n_words)
        word = ""
        for _ in range(n_syllables):
            word += rng.choice(_ONSETS) + rng.choice(_VOWELS)
        word += rng.choice(_CODAS)
        words[word] = None
    return list(words)
