"""Why a classifier answers as it does: the decision value as a sum over the words of the text."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacsent.certify.labels import class_index
from pacsent.classify.fitted_classifier import FittedTextClassifier, TextModel
from pacsent.classify.options import MAX_FEW_CLASSES
from pacsent.sentences.encoder import Encoder
from pacsent.text.ngrams import JOINED, NGrams, Occurrences, continues, names
from pacsent.text.pages import render
from pacsent.text.printable import escape_controls
from pacsent.words.vector_table import VectorTable
from pacsent.words.word_hashes import vocabulary_hashes

if TYPE_CHECKING:
    from rich.text import Text

MAX_NAMED = 200  # features per class whose names are kept
_MAX_NAMED_OF_MANY = 20  # of each of many classes: every feature has a value for all of them
_COLUMNS_AT_ONCE = 100
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

    def segments(self) -> Iterator[tuple[str, float, float]]:
        """(segment of the text, what it adds, its fraction of the largest) in order."""
        largest = max((abs(value) for _, value in self.words), default=0.0) or 1.0
        end = 0  # of the segments before
        for (start, stop), (_, value) in zip(self.spans, self.words):
            if start > end:
                yield self.text[end:start], 0.0, 0.0
            yield self.text[max(start, end) : stop], value, abs(value) / largest
            end = stop
        if end < len(self.text):
            yield self.text[end:], 0.0, 0.0

    def to_terminal(self) -> "Text":
        """A rich Text: green speaks for the class, red against it, bold where it adds much."""
        from rich.text import Text

        out = Text()
        for segment, value, fraction in self.segments():
            color = "green" if value > 0 else "red"
            style = color if fraction > 0.05 else ""
            if fraction > 0.5:
                style = f"bold {color}"
            out.append(escape_controls(segment), style=style)
        return out

    def to_html(self, top: int = 20) -> str:
        """A page with the words marked, and a table of the words that add most."""
        page = render("explanation.html", title=str(self.label), explanation=self, top=top)
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html


class _Contributions(NamedTuple):
    """What each word of a text adds through one part of the decision value."""

    words: np.ndarray  # (n_words,)
    total: float  # with what belongs to no single word


def explain(fitted: FittedTextClassifier, text: str, label: Any = None) -> Explanation:
    """Take the decision for one class apart; the likeliest class where none is named."""
    model = fitted.model
    log_proba = fitted.predict_log_proba([text])[0]  # (n_classes,)
    index = int(log_proba.argmax()) if label is None else class_index(fitted.classes, label)
    if model.n_columns == 1:  # the column is that of the second of two classes
        column = 0
        sign = 1.0 if index == 1 else -1.0
    else:
        column = index
        sign = 1.0

    # The decision is the mean of the model on words, which has the vectors too, and of the model on
    # characters.
    share = float(model.score_ngrams([text]).character_weights[0])
    word_weight = sign * (1.0 - share)
    character_weight = sign * share

    occurrences = model.ngrams.occurrences(text)
    coef = model.coef_ngrams[:, column]
    gram_values = word_weight * _gram_values(model.ngrams, occurrences, coef)  # (n_occurrences,)
    from_ngrams = occurrences.shared(gram_values)  # (n_words,)
    from_characters = character_weight * _character_contributions(
        model, text, occurrences.spans, column
    )
    from_vectors = _vector_contributions(model, text, occurrences.spans, column)

    intercepts = word_weight * model.intercept + sign * share * model.intercept_characters
    values = from_ngrams + from_characters + word_weight * from_vectors.words
    spans, word_values = _merge_marks(text, occurrences.spans, values)
    return Explanation(
        text=text,
        label=fitted.classes.tolist()[index],
        probability=float(np.exp(log_proba[index])),
        words=[(text[start:end], value) for (start, end), value in zip(spans, word_values)],
        ngrams=occurrences.named(text, gram_values),
        from_ngrams=float(from_ngrams.sum()),
        from_characters=float(from_characters.sum()),
        from_vectors=word_weight * from_vectors.total,
        vector_remainder=word_weight * (from_vectors.total - float(from_vectors.words.sum())),
        intercept=float(intercepts[column]),
        spans=spans,
    )


def _character_contributions(
    model: TextModel, text: str, word_spans: list[tuple[int, int]], column: int
) -> np.ndarray:
    """What each word adds through the n-grams of its characters, (n_words,)."""
    of_words = np.zeros(len(word_spans))
    if not len(model.characters) or not word_spans:
        return of_words
    occurrences = model.characters.occurrences(text)
    coef = model.coef_characters[:, column]
    # An n-gram is shared by its characters, and a character belongs to the word it stands in.
    of_characters = occurrences.shared(_gram_values(model.characters, occurrences, coef))
    word_starts = [start for start, _ in word_spans]
    character_starts = [start for start, _ in occurrences.spans]
    word_of_character = np.searchsorted(word_starts, character_starts, "right") - 1
    np.add.at(of_words, word_of_character, of_characters)
    return of_words


def _vector_contributions(
    model: TextModel, text: str, word_spans: list[tuple[int, int]], column: int
) -> _Contributions:
    """What the sentence vector adds, and the part of it that each word adds."""
    of_words = np.zeros(len(word_spans))
    if model.encoder is None:
        return _Contributions(of_words, 0.0)
    coef = model.coef_dense[:, column].astype(np.float64)  # (n_dims,)
    vector = np.asarray(model.encoder.transform([text]), np.float64)[0]  # (n_dims,)
    for part in _parts(model.encoder):
        row_sum = part.sums([text])[0]
        if row_sum.any():
            scale = vector[part.columns] @ row_sum / (row_sum @ row_sum)
            of_words += scale * _row_values(part, text, word_spans, coef[part.columns])
    return _Contributions(of_words, float(vector @ coef))


def _merge_marks(
    text: str, word_spans: list[tuple[int, int]], values: np.ndarray
) -> tuple[list[tuple[int, int]], list[float]]:
    """Spans that end where a character ends with all its marks, and the sums of their values."""
    spans: list[tuple[int, int]] = []
    sums: list[float] = []
    for (start, end), value in zip(word_spans, values.tolist()):
        while end < len(text) and (continues(text[end]) or JOINED.match(text, end)):
            end += 1
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
            sums[-1] += value
        else:
            spans.append((start, end))
            sums.append(value)
    return spans, sums


def _gram_values(ngrams: NGrams, occurrences: Occurrences, coef: np.ndarray) -> np.ndarray:
    """What each occurrence of an n-gram adds, (n_occurrences,)."""
    is_known = occurrences.columns >= 0
    columns, column_of, counts = np.unique(
        occurrences.columns[is_known], return_inverse=True, return_counts=True
    )
    tf_idf = (1.0 + np.log(counts)) * ngrams.idf[columns].astype(np.float64)  # (n_columns,)
    length = np.sqrt((tf_idf**2).sum()) or 1.0
    values = tf_idf * coef[columns] / length
    of_occurrences = np.zeros(occurrences.columns.size)
    of_occurrences[is_known] = (values / counts)[column_of]
    return of_occurrences


class _Part(NamedTuple):
    """Columns of the vectors that are a multiple of the sum of rows of a table."""

    columns: slice
    vocabulary: Any
    table: VectorTable

    def sums(self, texts) -> np.ndarray:
        """Sum of the rows of each text's words, (n_texts, n_dims)."""
        encoded = self.vocabulary.encode(texts)
        bounds = itertools.pairwise(encoded.offsets)
        return np.stack(
            [self.table.take(encoded.ids[a:b]).sum(axis=0, dtype=float) for a, b in bounds]
        )


def _parts(encoder: Encoder) -> list[_Part]:
    """Where the vectors are multiples of sums of rows; what is left is in no single word."""
    parts, start = [], 0
    for part in encoder.parts:
        stop = start + part.n_dims
        table = part.summed_table()
        words = part.word_vectors
        if table is not None and words is not None:
            parts.append(_Part(slice(start, stop), words.vocabulary, table))
        start = stop
    return parts


class _Chunk(NamedTuple):
    """Characters of a text between two spaces: the words in them, and the rows of their tokens.

    An encoder splits a text by rules of its own. `tokens` is a range of the rows that it finds in
    the text; `word_tokens` are the bounds of the same rows by word if it finds the same in every
    word by itself, and None otherwise.
    """

    words: slice
    tokens: slice
    word_tokens: np.ndarray | None  # (n_words + 1,)


def _row_values(
    part: _Part, text: str, word_spans: list[tuple[int, int]], coef: np.ndarray
) -> np.ndarray:
    """What the rows of each word add to the product with `coef`, (n_words,).

    A chunk's contribution goes to its words: to each its own if the encoder splits them alike, else
    evenly.
    """
    of_words = np.zeros(len(word_spans))
    token_ids = part.vocabulary.encode([text]).ids  # (n_tokens,)
    sums = np.zeros(token_ids.size + 1)  # of all rows before each one
    np.cumsum(part.table.take(token_ids).astype(np.float64) @ coef, out=sums[1:])
    for chunk in _split_chunks(part.vocabulary, text, token_ids, word_spans):
        if chunk.word_tokens is not None:
            of_words[chunk.words] = np.diff(sums[chunk.word_tokens])
        else:
            n_words = chunk.words.stop - chunk.words.start
            contribution = sums[chunk.tokens.stop] - sums[chunk.tokens.start]
            of_words[chunk.words] = contribution / n_words
    return of_words


def _split_chunks(
    vocabulary: Any, text: str, token_ids: np.ndarray, word_spans: list[tuple[int, int]]
) -> Iterator[_Chunk]:
    """Chunks that have words and tokens; none if the encoder finds other tokens in the chunks."""
    chunk_spans = [match.span() for match in re.finditer(r"\S+", text)]
    in_chunks = vocabulary.encode([text[start:end] for start, end in chunk_spans])
    if not chunk_spans or not np.array_equal(in_chunks.ids, token_ids):
        return
    in_words = vocabulary.encode([text[start:end] for start, end in word_spans])
    word_starts = [start for start, _ in word_spans]
    chunk_starts = [start for start, _ in chunk_spans]
    first_words = [*np.searchsorted(word_starts, chunk_starts).tolist(), len(word_spans)]
    for chunk, words in enumerate(itertools.starmap(slice, itertools.pairwise(first_words))):
        tokens = slice(*in_chunks.offsets[chunk : chunk + 2].tolist())
        if words.start == words.stop or tokens.start == tokens.stop:
            continue
        offsets = in_words.offsets[words.start : words.stop + 1]  # (n_words + 1,)
        ids_by_word = in_words.ids[offsets[0] : offsets[-1]]
        word_tokens = None
        if np.array_equal(ids_by_word, token_ids[tokens]):
            word_tokens = offsets - offsets[0] + tokens.start
        yield _Chunk(words, tokens, word_tokens)


def name_features(
    model: TextModel, texts: list[str], tf_idf_length: float
) -> tuple[list[str], np.ndarray]:
    """The features that support each class most: names, and what one occurrence adds.

    It is what a feature adds in a text of average length: `tf_idf_length` is that of the training
    texts. The vectors fold back onto single words where they are multiples of sums of rows; an
    average word adds nothing. The n-grams of characters belong to the words that they are in, with
    the weight that they have in a text without OOV words. They are counted for the four times
    `MAX_NAMED` features that are best without them (with more than `MAX_FEW_CLASSES`, 20).
    """
    ngrams = model.ngrams
    sample = texts[:_SAMPLED]
    has_many_classes = model.n_columns > MAX_FEW_CLASSES
    n_named = _MAX_NAMED_OF_MANY if has_many_classes else MAX_NAMED
    tf_idf = ngrams.idf[:, None].astype(np.float32 if has_many_classes else np.float64)
    values = tf_idf * model.coef_ngrams  # (n_ngrams, n_columns)
    values /= max(tf_idf_length, 1e-30)

    if model.encoder is not None:
        n_words = max(float(np.mean([len(text.split()) for text in texts])), 1.0)
        _add_vector_values(values, model, model.encoder, sample, n_words)

    rows = _largest_rows(values, 4 * n_named)
    share = model.character_weight.least
    row_values = (1.0 - share) * values[rows]
    if share and ngrams.sizes[0] == 1:
        words = names(texts, (1, 1), ngrams.hashes[rows])  # "" for n-grams of several words
        counts = model.characters.counts(words)
        counts.data *= model.characters.idf[counts.indices]
        length = model.characters.tf_idf_and_lengths(sample)[1].mean()
        row_values += share * (counts @ model.coef_characters) / length
    best = _largest_rows(row_values, n_named)
    return names(texts, ngrams.sizes, ngrams.hashes[rows[best]]), row_values[best]


def _add_vector_values(
    values: np.ndarray, model: TextModel, encoder: Encoder, sample: list[str], n_words: float
) -> None:
    """Add to `values`, (n_ngrams, n_columns), what the vector of each single word adds.

    It is less that of an average word, where texts have `n_words` words on average.
    """
    parts = _parts(encoder)
    if not parts:
        return
    vectors = encoder.transform(sample)  # (n_sample, n_dims)
    for part in parts:
        coef = model.coef_dense[part.columns].astype(np.float64)
        # Rows are scaled as the vectors of average texts are.
        lengths = np.linalg.norm(vectors[:, part.columns], axis=1)
        sum_lengths = np.linalg.norm(part.sums(sample), axis=1)
        scale = lengths.sum() / max(sum_lengths.sum(), 1e-30)
        average_word = model.mean_vector[part.columns] @ coef / n_words  # (n_columns,)

        hashes_of_words = vocabulary_hashes(part.vocabulary)
        hashes = model.ngrams.hashes
        columns = np.minimum(np.searchsorted(hashes, hashes_of_words), hashes.size - 1)
        known = np.flatnonzero(hashes[columns] == hashes_of_words)
        values[columns[known]] += scale * (part.table.take(known) @ coef) - average_word


def _largest_rows(values, n):
    """Rows with one of the n largest values of a column (or smallest, of a single one), sorted."""
    n = min(n, len(values))
    signed = np.hstack([values, -values]) if values.shape[1] == 1 else values
    is_largest = np.zeros(len(values), bool)
    for start in range(0, signed.shape[1], _COLUMNS_AT_ONCE):
        columns = signed[:, start : start + _COLUMNS_AT_ONCE]
        is_largest[np.argpartition(-columns, n - 1, axis=0)[:n]] = True
    return np.flatnonzero(is_largest)
