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
    """Documents drawn from the paper's model, with the distribution behind each of them."""

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

        Made again from the seed on each call: a large corpus need not hold them.
        """
        rows = np.arange(len(self.texts)) if rows is None else np.atleast_1d(rows)
        return np.stack([_draw_phi(self, int(row))[0] for row in rows])

    def dataset(self, name: str = "generated") -> Dataset:
        """The texts and labels as a dataset without a fixed split."""
        content = "\0".join(self.texts).encode() + self.labels.tobytes()
        none = np.zeros(0, dtype=np.int64)
        digest = hashlib.sha256(content).hexdigest()
        return Dataset(name, self.texts, self.labels, [], none, self.classes, digest)


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

    Examples
    --------
    >>> generate(20, n_topics=2, n_words=60)
    GenerativeCorpus(20 documents, 60 words, 2 classes)
    """
    for key, value, least in (
        ("n_documents", n_documents, 1),
        ("n_topics", n_topics, 2),
        ("n_words", n_words, 50),
    ):
        if value < least:
            raise ValueError(f"{key} must be at least {least}. Got {value} instead.")
    if not 0 < topic_share < 1:
        raise ValueError(f"topic_share must be in (0, 1). Got {topic_share} instead. Try 0.35.")
    if not concentration > 0:
        raise ValueError(f"concentration must be positive. Got {concentration} instead. Try 300.")
    random_state = as_seed(random_state)
    rng = np.random.default_rng([language, n_topics, n_words])
    words = _made_up_words(n_words, rng)
    # A theme is Zipf over its own random tenth of the words; the first fifty, the language's
    # function words, belong to none. The last row is the background.
    themes = np.zeros((3 * n_topics + 1, n_words))
    for theme in themes[:-1]:
        own = rng.choice(np.arange(min(50, n_words // 4), n_words), n_words // 10, replace=False)
        theme[own] = 1.0 / (np.arange(own.size) + 3.0)
    themes[-1] = 1.0 / (np.arange(n_words) + 5.0)
    themes /= themes.sum(axis=1, keepdims=True)
    # Each topic has three themes of its own and a smaller share in every other.
    affinity = np.full((n_topics, 3 * n_topics), 0.15)
    for topic in range(n_topics):
        affinity[topic, 3 * topic : 3 * topic + 3] = 1.0

    rng = np.random.default_rng([random_state, language, n_documents])
    labels = rng.permutation(np.arange(n_documents) % n_topics)
    gamma = np.empty((n_documents, len(themes)))
    gamma[:, :-1] = rng.standard_gamma(affinity[labels])
    gamma[:, :-1] *= topic_share / gamma[:, :-1].sum(axis=1, keepdims=True)
    gamma[:, -1] = 1 - topic_share
    names = tuple(f"topic {topic + 1}" for topic in range(n_topics))
    known = names, gamma, themes, concentration, random_state
    corpus = GenerativeCorpus([], labels.astype(np.int64), [], Vocabulary(words), *known)
    counts = np.zeros(n_words, dtype=np.int64)
    for document in range(n_documents):
        phi, rng = _draw_phi(corpus, document)
        length = max(5, round(n_tokens * rng.lognormal(-0.125, 0.5)))
        drawn = rng.multinomial(length, phi)
        ids = rng.permutation(np.repeat(np.arange(n_words, dtype=np.int32), drawn))
        counts += drawn
        corpus.ids.append(ids)
        corpus.texts.append(" ".join([words[i] for i in ids]))
    return replace(corpus, vocabulary=Vocabulary(words, counts))


def _draw_phi(corpus: GenerativeCorpus, document: int):
    """phi of one document and its generator, which goes on to draw the words."""
    rng = np.random.default_rng([corpus.random_state, document, 3])
    gamma = corpus.concentration * (corpus.gamma[document] @ corpus.themes)
    phi = rng.standard_gamma(gamma)
    return phi / phi.sum(), rng


_ONSETS = [*"bcdfghjklmnprstvwz", "br", "dr", "fl", "gr", "kl", "pl", "pr", "st", "tr"]
_VOWELS = [*"aeiouaeio", "ai", "ea", "ou"]
_CODAS = ["", "", "", *"nrsl", "nd", "rk", "st"]


def _made_up_words(n_words: int, rng) -> list[str]:
    """Pronounceable words, all different, the short ones first as in real languages."""
    words: dict[str, None] = {}
    while len(words) < n_words:
        n_syllables = 1 + min(3, len(words) * 4 // n_words) if len(words) > 40 else 1
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(n_syllables))
        word += rng.choice(_CODAS)
        words[word] = None
    return list(words)
