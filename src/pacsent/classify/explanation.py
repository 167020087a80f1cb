"""Why a classifier answers as it does: the decision value as a sum over the words of the text."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacsent.certify.labels import class_index
from pacsent.text.ngrams import JOINED, NGrams, continues, names, word_hashes
from pacsent.text.pages import render
from pacsent.text.printable import escape_controls

if TYPE_CHECKING:
    from rich.text import Text

_SAMPLED = 200  # texts whose vectors say how long those of average texts are


@dataclass(frozen=True)
class Explanation:
    """A decision value as a sum over the words of the text.

    Attributes
    ----------
    label : the class that is explained
    probability : float
        Of that class.
    words : list of (str, float)
        Every word and mark in order with all that it adds: its share of the n-grams it is in, the
        n-grams of its characters, and its part of the sentence vector.
    ngrams : list of (str, float)
        What each n-gram of words adds, the largest first.
    from_ngrams, from_characters, from_vectors : float
        What n-grams of words, those of characters and the sentence vector add in all.
    vector_remainder : float
        The part of `from_vectors` that belongs to no single word: all of it where the sentence
        vector is not a multiple of the sum of word vectors.
    intercept : float
        Of the linear model. `decision` is the sum of `words`, `vector_remainder` and this.
    spans : list of (int, int)
        Where each word stands in `text`.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"{word} film{n} plot{n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier(None).fit(texts, ["up", "down"] * 40)
    >>> explanation = classifier.explain("a good film")
    >>> bool(explanation.decision > 0), explanation.label, explanation.by_word(1)[0][0]
    (True, 'up', 'good')
    """

    text: str
    label: object
    probability: float
    words: list
    ngrams: list
    from_ngrams: float
    from_characters: float
    from_vectors: float
    vector_remainder: float
    intercept: float
    spans: list

    @property
    def decision(self) -> float:
        """The decision value; positive values support the class."""
        return float(sum(value for _, value in self.words) + self.vector_remainder + self.intercept)

    def by_word(self, top: int | None = None) -> list[tuple[str, float]]:
        """All that each different word adds, whatever its case, the largest first."""
        sums: dict[str, float] = defaultdict(float)
        for word, value in self.words:
            sums[word.lower()] += value
        return sorted(sums.items(), key=lambda item: -abs(item[1]))[:top]

    def contributions(self, top: int | None = None) -> list[tuple[str, float]]:
        """`by_word`, then what the other words, the vector in no word, and the intercept add."""
        words = self.by_word()
        rows = words[:top]
        if len(words) > len(rows):
            others = [value for _, value in words[len(rows) :]]
            rows.append((f"({len(others):,} other words)", sum(others)))
        if abs(self.vector_remainder) >= 5e-4:
            rows.append(("(the vector, in no single word)", self.vector_remainder))
        return [*rows, ("(the intercept)", self.intercept)]

    def describe(self, top: int | None = 10) -> str:
        """The label, its probability, and a line for each of `contributions`."""
        head = f"{self.label} (probability {self.probability:.3f}, decision {self.decision:+.3f})"
        return "\n".join(
            [head, *(f"  {value:+.3f}  {name}" for name, value in self.contributions(top))]
        )

    __str__ = describe

    def pieces(self) -> Iterator[tuple[str, float, float]]:
        """(piece of the text, what it adds, its share of the largest) in order."""
        largest = max((abs(v) for _, v in self.words), default=0.0) or 1.0
        done = 0
        for (first, last), (_, value) in zip(self.spans, self.words):
            if first > done:
                yield self.text[done:first], 0.0, 0.0
            yield self.text[max(first, done) : last], value, abs(value) / largest
            done = last
        if done < len(self.text):
            yield self.text[done:], 0.0, 0.0

    def to_terminal(self) -> "Text":
        """A rich Text: green speaks for the class, red against it, bold where it adds much."""
        from rich.text import Text

        out = Text()
        for piece, value, share in self.pieces():
            style = ("green" if value > 0 else "red") if share > 0.05 else ""
            out.append(escape_controls(piece), style=f"bold {style}" if share > 0.5 else style)
        return out

    def to_html(self, top: int = 20) -> str:
        """A page with the words marked, and a table of the words that add most."""
        page = render("explanation.html", title=str(self.label), explanation=self, top=top)
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html


def explain(classifier: Any, text: str, label: Any = None) -> Explanation:
    """Take the decision for one class apart; the likeliest class where none is named."""
    log_proba = classifier.predict_log_proba([text])[0]
    at = int(log_proba.argmax()) if label is None else class_index(classifier.classes_, label)
    is_binary = classifier.intercept_.size == 1
    column, sign = (0, 1.0 if at == 1 else -1.0) if is_binary else (at, 1.0)
    occurrences = classifier.ngrams_.occurrences(text)
    share = float(classifier._by_characters([text])[0][0])
    of_words = sign * (1.0 - share)
    coef = classifier.coef_ngrams_[:, column]
    grams = of_words * _gram_values(classifier.ngrams_, occurrences, coef)
    of_ngrams = occurrences.shared(grams)

    # An n-gram of characters is shared by the words of its characters.
    of_characters = np.zeros(len(occurrences.spans))
    if len(classifier.characters_) and occurrences.spans:
        inner, coef = classifier.characters_.occurrences(text), classifier.coef_characters_
        values = inner.shared(_gram_values(classifier.characters_, inner, coef[:, column]))
        starts, inside = ([a for a, _ in each.spans] for each in (occurrences, inner))
        np.add.at(of_characters, np.searchsorted(starts, inside, "right") - 1, values)
    of_characters *= sign * share

    # The vector, and the part of it that each word adds.
    vector, dense = 0.0, np.zeros(len(occurrences.spans))
    if classifier.encoder_ is not None:
        coef = classifier.coef_dense_[:, column].astype(np.float64)
        numbers = np.asarray(classifier.encoder_.transform([text]), np.float64)[0]
        vector = float(numbers @ coef)
        for part in _parts(classifier.encoder_):
            whole = part.sums([text])[0]
            if whole.any():
                scale = numbers[part.columns] @ whole / (whole @ whole)
                dense += scale * _row_values(part, text, occurrences.spans, coef[part.columns])

    intercepts = of_words * classifier.intercept_ + sign * share * classifier.intercept_characters_
    values = of_ngrams + of_characters + of_words * dense

    # Words end where a character ends with all its marks.
    spans: list[tuple[int, int]] = []
    words: list[float] = []
    for (start, end), value in zip(occurrences.spans, values.tolist()):
        while end < len(text) and (continues(text[end]) or JOINED.match(text, end)):
            end += 1
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
            words[-1] += value
        else:
            spans.append((start, end))
            words.append(value)
    return Explanation(
        text,
        classifier.classes_.tolist()[at],
        float(np.exp(log_proba[at])),
        [(text[a:b], value) for (a, b), value in zip(spans, words)],
        occurrences.named(text, grams),
        float(of_ngrams.sum()),
        float(of_characters.sum()),
        of_words * vector,
        of_words * (vector - float(dense.sum())),
        float(intercepts[column]),
        spans,
    )


def _gram_values(ngrams, occurrences, coef):
    """What each occurrence of an n-gram adds, (n_occurrences,)."""
    columns = occurrences.columns
    known = columns >= 0
    different, back, counts = np.unique(columns[known], return_inverse=True, return_counts=True)
    tf_idf = (1.0 + np.log(counts)) * ngrams.idf[different].astype(np.float64)
    values = tf_idf * coef[different] / (np.sqrt((tf_idf**2).sum()) or 1.0)
    out = np.zeros(columns.size)
    out[known] = (values / counts)[back]
    return out


class _Part(NamedTuple):
    """Columns of the vectors that are a multiple of the sum of rows of a table."""

    columns: slice
    vocabulary: Any
    table: np.ndarray

    def sums(self, texts) -> np.ndarray:
        """Sum of the rows of each text's words, (n_texts, n_dims)."""
        encoded = self.vocabulary.encode(texts)
        bounds = itertools.pairwise(encoded.offsets)
        return np.stack([self.table[encoded.ids[a:b]].sum(axis=0, dtype=float) for a, b in bounds])


def _parts(encoder) -> list[_Part]:
    """Where the vectors are multiples of sums of rows; what is left is in no single word."""
    parts, start = [], 0
    for part in encoder.parts:
        stop = start + part.n_dims
        table = part.summed_table()
        if table is not None:
            parts.append(_Part(slice(start, stop), part.word_vectors.vocabulary, table))
        start = stop
    return parts


def _row_values(part, text, spans, coef) -> np.ndarray:
    """What the rows of each word add to the product with `coef`, (n_spans,).

    The encoder splits texts by rules of its own. What it finds between two spaces belongs to the
    words there: to each its own where it finds the same in them, else to all alike.
    """
    of_words = np.zeros(len(spans))
    chunks = [match.span() for match in re.finditer(r"\S+", text)]
    whole = part.vocabulary.encode([text]).ids
    in_chunks = part.vocabulary.encode([text[a:b] for a, b in chunks])
    if not chunks or not np.array_equal(in_chunks.ids, whole):
        return of_words
    in_words = part.vocabulary.encode([text[a:b] for a, b in spans])
    sums = np.zeros(whole.size + 1)
    np.cumsum(part.table[whole].astype(np.float64) @ coef, out=sums[1:])
    first = np.searchsorted([a for a, _ in spans], [a for a, _ in chunks])
    for c, (start, stop) in enumerate(zip(first, [*first[1:], len(spans)])):
        ids, mine = in_chunks.offsets[c : c + 2], in_words.offsets[start : stop + 1]
        if start == stop or ids[0] == ids[1]:
            continue
        word_ids = in_words.ids[mine[0] : mine[-1]]
        if np.array_equal(word_ids, whole[ids[0] : ids[1]]):
            of_words[start:stop] = np.diff(sums[mine - mine[0] + ids[0]])
        else:
            of_words[start:stop] = (sums[ids[1]] - sums[ids[0]]) / (stop - start)
    return of_words


def named_features(
    classifier: Any, texts: list[str], length: float, mean: np.ndarray, n: int
) -> tuple[list[str], np.ndarray]:
    """The features that support each class most: names, and what one occurrence adds.

    It is what a feature adds in a text of average length: `length` is that of its tf-idf, `mean`
    its sentence vector. The vectors fold back onto single words where they are multiples of sums
    of rows; an average word adds nothing. The n-grams of characters belong to the words that they
    are in, with the fraction that they have in a text without OOV words. They are counted for
    the 4 n features that are best without them.
    """
    ngrams: NGrams = classifier.ngrams_
    out = ngrams.idf[:, None].astype(np.float64) * classifier.coef_ngrams_ / max(length, 1e-30)
    n_words = max(float(np.mean([len(text.split()) for text in texts])), 1.0)
    parts = [] if classifier.encoder_ is None else _parts(classifier.encoder_)
    sample = texts[:_SAMPLED]
    vectors: Any = classifier.encoder_.transform(sample) if parts else None
    for part in parts:
        coef = classifier.coef_dense_[part.columns].astype(np.float64)
        whole, mine = part.sums(sample), vectors[:, part.columns]
        scale = np.linalg.norm(mine, axis=1).sum() / max(np.linalg.norm(whole, axis=1).sum(), 1e-30)
        hashes = _hashes(part.vocabulary)
        column = np.minimum(np.searchsorted(ngrams.hashes, hashes), len(ngrams) - 1)
        known = np.flatnonzero(ngrams.hashes[column] == hashes)
        adds = scale * (part.table[known] @ coef) - mean[part.columns] @ coef / n_words
        out[column[known]] += adds
    rows = _largest_rows(out, 4 * n)
    characters: NGrams = classifier.characters_
    share = classifier.character_weight_.least
    values = (1.0 - share) * out[rows]
    if share and ngrams.sizes[0] == 1:
        words = names(texts, (1, 1), ngrams.hashes[rows])  # "" for n-grams of several words
        counts = characters.counts(words)
        counts.data *= characters.idf[counts.indices]
        length = characters.tf_idf_and_lengths(sample)[1].mean()
        values += share * (counts @ classifier.coef_characters_) / length
    best = _largest_rows(values, n)
    return names(texts, ngrams.sizes, ngrams.hashes[rows[best]]), values[best]


@lru_cache(maxsize=4)
def _hashes(vocabulary):
    return word_hashes(vocabulary.words)


def _largest_rows(values, n):
    """Rows with one of the n largest values of a column (or smallest, of a single one), sorted."""
    n = min(n, len(values))
    signed = np.hstack([values, -values]) if values.shape[1] == 1 else values
    return np.unique(np.argpartition(-signed, n - 1, axis=0)[:n])
