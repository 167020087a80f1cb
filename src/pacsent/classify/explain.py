"""Why this answer: the decision value taken apart, word by word."""

import html
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacsent.classify.ngrams import word_hashes
from pacsent.encoders import AverageVectorizer

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True)
class Explanation:
    """A decision value as a sum over the words of the text.

    Attributes
    ----------
    label : the class that is explained
    probability : float
        Of that class.
    words : list of (str, float)
        Every word and mark in order with what it adds; an n-gram is shared evenly by its words.
    ngrams : list of (str, float)
        What each n-gram adds, the largest first.
    from_ngrams, from_vectors, rest : float
        What n-grams and vectors add in all; `rest` is the intercept, and what a sentence vector
        that is not a mean of word vectors adds.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> explanation = classifier.explain("a good film")
    >>> bool(explanation.decision > 0), explanation.label
    (True, 'up')
    """

    text: str
    label: object
    probability: float
    words: list
    ngrams: list
    from_ngrams: float
    from_vectors: float
    rest: float
    spans: list

    @property
    def decision(self) -> float:
        """The decision value; positive speaks for the class."""
        return float(sum(value for _, value in self.words) + self.rest)

    def __str__(self) -> str:
        lines = [
            f"{self.label} (probability {self.probability:.3f}; n-grams {self.from_ngrams:+.3f}, "
            f"vectors {self.from_vectors:+.3f}, rest {self.rest:+.3f})"
        ]
        lines += [f"  {value:+.3f}  {name}" for name, value in self.ngrams[:10]]
        return "\n".join(lines)

    def _pieces(self):
        """(piece of the text, strength in [-1, 1]) in order."""
        largest = max((abs(v) for _, v in self.words), default=0.0) or 1.0
        done = 0
        for (first, last), (_, value) in zip(self.spans, self.words):
            if first > done:
                yield self.text[done:first], 0.0
            yield self.text[first:last], value / largest
            done = last
        if done < len(self.text):
            yield self.text[done:], 0.0

    def to_terminal(self) -> "Text":
        """A rich Text: green speaks for the class, red against it."""
        from rich.text import Text

        out = Text()
        for piece, strength in self._pieces():
            grey = int(60 + 195 * min(abs(strength), 1.0))
            color = f"rgb(0,{grey},0)" if strength > 0 else f"rgb({grey},0,0)"
            out.append(piece, style=f"bold {color}" if abs(strength) > 0.05 else "")
        return out

    def to_html(self) -> str:
        """A page with the words highlighted and a table of the n-grams."""
        marked = "".join(
            f'<span style="background:rgba({"0,140,60" if s > 0 else "210,40,40"},{abs(s):.2f})">'
            f"{html.escape(piece)}</span>"
            if s
            else html.escape(piece)
            for piece, s in self._pieces()
        )
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{value:+.3f}</td></tr>"
            for name, value in self.ngrams[:20]
        )
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Why this answer</title>'
            "<style>body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:2rem auto;"
            "padding:0 1rem;color:#222;background:#fff}td{padding:.1rem 1rem .1rem 0}"
            "span{border-radius:3px;padding:1px 2px}</style>"
            f"<h1>{html.escape(str(self.label))}</h1><p>Probability {self.probability:.3f}. "
            f"N-grams {self.from_ngrams:+.3f}, vectors {self.from_vectors:+.3f}, rest "
            f"{self.rest:+.3f}; green speaks for this class, red against it.</p>"
            f"<p style='white-space:pre-wrap'>{marked}</p><table>{rows}</table></html>\n"
        )


def explain(classifier: Any, text: str, label: Any = None) -> Explanation:
    """Take the decision for one class apart; the likeliest class where none is named."""
    values = classifier._decisions([text])[0]
    log_proba = classifier.predict_log_proba([text])[0]
    classes = classifier.classes_
    position = int(log_proba.argmax()) if label is None else classifier._position(label)
    column, sign = (position, 1.0) if values.size > 1 else (0, 1.0 if position == 1 else -1.0)
    raw, spans, found, runs = classifier.ngrams_.positions(text)
    words = np.zeros(len(spans))
    grams = _gram_values(classifier, found, column) * sign
    added: dict[str, float] = {}
    for (first, size), value in zip(runs.tolist(), grams):
        if value == 0:
            continue
        real = [i for i in range(first, first + size) if spans[i, 1] > spans[i, 0]]
        words[real] += value / len(real)
        name = " ".join(raw[spans[i, 0] : spans[i, 1]].decode("utf-8", "replace") for i in real)
        name = name if len(real) == size else f"^ {name}"
        added[name] = added.get(name, 0.0) + float(value)
    from_ngrams = float(words.sum())
    tokens = [raw[a:b].decode("utf-8", "replace") for a, b in spans]
    dense = sign * _word_values(classifier, tokens, column)
    words += dense
    decision = sign * float(values[column])
    shown = [i for i in range(len(spans)) if spans[i, 1] > spans[i, 0]]
    places = _character_places(raw, spans)
    if not _as_written(text, tokens, places):
        text = raw.decode("utf-8", "replace")  # as it was read, where its characters moved
    return Explanation(
        text,
        classes[position].item() if hasattr(classes[position], "item") else classes[position],
        float(np.exp(log_proba[position])),
        [(tokens[i], float(words[i])) for i in shown],
        sorted(added.items(), key=lambda item: -abs(item[1])),
        from_ngrams,
        float(dense.sum()),
        decision - float(words.sum()),
        [places[i] for i in shown],
    )


def _as_written(text, tokens, places) -> bool:
    """Whether the words stand at these places of the text as it was written."""
    return text.isascii() or all(
        unicodedata.normalize("NFKC", text[a:b]).casefold() == token.casefold()
        for token, (a, b) in zip(tokens, places)
    )


def _character_places(raw, spans):
    """Byte places as places in the decoded text."""
    if raw.isascii():
        return [(int(a), int(b)) for a, b in spans]
    at = {int(p): len(raw[: int(p)].decode("utf-8", "replace")) for p in np.unique(spans)}
    return [(at[int(a)], at[int(b)]) for a, b in spans]


def _gram_values(classifier, found, column):
    """What each occurrence of an n-gram adds, (n_occurrences,)."""
    known = found >= 0
    columns, back, counts = np.unique(found[known], return_inverse=True, return_counts=True)
    tf_idf = (1.0 + np.log(counts)) * classifier.ngrams_.idf[columns].astype(np.float64)
    length = np.sqrt((tf_idf**2).sum())
    values = tf_idf * classifier.coef_ngrams_[columns, column] / (length or 1.0)
    out = np.zeros(found.size)
    out[known] = (values / counts)[back]
    return out


def _mean_table(classifier):
    """The table whose rows a sentence vector is the plain mean of; None where it is not."""
    vectorizer = classifier.vectorizer_
    plain = isinstance(vectorizer, AverageVectorizer) and vectorizer.alpha == 0
    return vectorizer._tables()[0] if plain and not vectorizer.subsample else None


def _word_values(classifier, tokens, column):
    """What each token adds through the vectors; zeros where the vectorizer is no plain mean."""
    table = _mean_table(classifier)
    if table is None:
        return np.zeros(len(tokens))
    encoded = classifier.vectorizer_.word_vectors.vocabulary.encode(tokens)
    if encoded.ids.size == 0:
        return np.zeros(len(tokens))
    coef = classifier.coef_dense_[:, column].astype(np.float64)
    values = table[encoded.ids].astype(np.float64) @ coef / encoded.ids.size
    token = np.repeat(np.arange(len(tokens)), np.diff(encoded.offsets))
    return np.bincount(token, values, len(tokens))


def worth(classifier: Any, length: float, n_words: float, mean: np.ndarray) -> np.ndarray:
    """What one occurrence of each feature adds in a text of middling length, (n_features, k).

    `length` and `n_words` are those of such a text, `mean` its sentence vector. The vectors fold
    back onto single words where sentence vectors are plain means.
    """
    ngrams = classifier.ngrams_
    out = ngrams.idf[:, None].astype(np.float64) * classifier.coef_ngrams_ / max(length, 1e-30)
    table = _mean_table(classifier)
    if table is None:
        return out
    hashes = word_hashes(classifier.vectorizer_.word_vectors.vocabulary.words)
    column = np.minimum(np.searchsorted(ngrams.hashes, hashes), len(ngrams) - 1)
    known = np.flatnonzero(ngrams.hashes[column] == hashes)
    coef = classifier.coef_dense_.astype(np.float64)
    out[column[known]] += (table[known] @ coef - mean @ coef) / max(n_words, 1.0)
    return out
