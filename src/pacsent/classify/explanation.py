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

# Features per class whose names are kept; fewer with many classes, because every feature has a
# value for all of them.
MAX_NAMED = 200
_MAX_NAMED_OF_MANY = 20
# Columns whose largest values are looked for in one call.
_BLOCK_COLUMNS = 100
# Texts whose vectors give the length of those of average texts.
_N_SAMPLED_TEXTS = 200


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
        of_words = sum(value for _, value in self.words)
        return float(of_words + self.vector_remainder + self.intercept)

    def by_word(self, top: int | None = None) -> list[tuple[str, float]]:
        """All that each different word adds, whatever its case, the largest first.

        Parameters
        ----------
        top : int, optional
            Words to return at most.

        Returns
        -------
        list of (str, float)
        """
        sums: dict[str, float] = defaultdict(float)
        for word, value in self.words:
            sums[word.lower()] += value
        largest_first = sorted(sums.items(), key=lambda item: -abs(item[1]))
        return largest_first[:top]

    def contributions(self, top: int | None = None) -> list[tuple[str, float]]:
        """`by_word`, then what the other words, the vector in no word, and the intercept add.

        Parameters
        ----------
        top : int, optional
            Words that have a row of their own at most.

        Returns
        -------
        list of (str, float)
        """
        words = self.by_word()
        rows = words[:top]
        other_values = [value for _, value in words[len(rows) :]]
        if other_values:
            rows.append((f"({len(other_values):,} other words)", sum(other_values)))
        if abs(self.vector_remainder) >= 5e-4:
            rows.append(("(the vector, in no single word)", self.vector_remainder))
        return [*rows, ("(the intercept)", self.intercept)]

    def describe(self, top: int | None = 10) -> str:
        """The label, its probability, and a line for each of `contributions`.

        Parameters
        ----------
        top : int, default=10

        Returns
        -------
        str
        """
        lines = [
            f"{self.label} (probability {self.probability:.3f}, decision {self.decision:+.3f})"
        ]
        for name, value in self.contributions(top):
            lines.append(f"  {value:+.3f}  {name}")
        return "\n".join(lines)

    __str__ = describe

    def segments(self) -> Iterator[tuple[str, float, float]]:
        """The text in segments: words, and what is between them.

        Yields
        ------
        (str, float, float)
            A segment, what it adds, and its fraction of the largest.
        """
        sizes = [abs(value) for _, value in self.words]
        largest = max(sizes, default=0.0) or 1.0
        end = 0  # of the segments before
        for (start, stop), (_, value) in zip(self.spans, self.words):
            if start > end:
                yield self.text[end:start], 0.0, 0.0
            word = self.text[max(start, end) : stop]
            yield word, value, abs(value) / largest
            end = stop
        if end < len(self.text):
            yield self.text[end:], 0.0, 0.0

    def to_terminal(self) -> "Text":
        """The text in color: green supports the class, red opposes it, bold where it adds much.

        Returns
        -------
        rich.text.Text
        """
        from rich.text import Text

        out = Text()
        for segment, value, fraction in self.segments():
            color = "green" if value > 0 else "red"
            if fraction > 0.5:
                style = f"bold {color}"
            elif fraction > 0.05:
                style = color
            else:
                style = ""
            out.append(escape_controls(segment), style=style)
        return out

    def to_html(self, top: int = 20) -> str:
        """A page with the words marked, and a table of the words that add most.

        Parameters
        ----------
        top : int, default=20

        Returns
        -------
        str
            HTML.
        """
        page = render("explanation.html", title=str(self.label), explanation=self, top=top)
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html


class _Contributions(NamedTuple):
    """Contributions of the words of a text through one part of the decision value."""

    words: np.ndarray  # (n_words,)
    total: float  # with what belongs to no single word


def explain(fitted: FittedTextClassifier, text: str, label: Any = None) -> Explanation:
    """Explain the decision for one class; the likeliest class where none is named.

    Parameters
    ----------
    fitted : FittedTextClassifier
    text : str
    label : str or int, optional

    Returns
    -------
    Explanation
    """
    model = fitted.model
    log_proba = fitted.predict_log_proba([text])[0]  # (n_classes,)
    if label is None:
        index = int(log_proba.argmax())
    else:
        index = class_index(fitted.classes, label)
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

    # What every word adds in all, (n_words,), and the intercept of each column, (n_columns,).
    intercepts = word_weight * model.intercept + sign * share * model.intercept_characters
    values = from_ngrams + from_characters + word_weight * from_vectors.words
    spans, word_values = _merge_marks(text, occurrences.spans, values)
    words = [(text[start:end], value) for (start, end), value in zip(spans, word_values)]
    outside_words = from_vectors.total - float(from_vectors.words.sum())
    return Explanation(
        text=text,
        label=fitted.classes.tolist()[index],
        probability=float(np.exp(log_proba[index])),
        words=words,
        ngrams=occurrences.named(text, gram_values),
        from_ngrams=float(from_ngrams.sum()),
        from_characters=float(from_characters.sum()),
        from_vectors=word_weight * from_vectors.total,
        vector_remainder=word_weight * outside_words,
        intercept=float(intercepts[column]),
        spans=spans,
    )


def _character_contributions(
    model: TextModel, text: str, word_spans: list[tuple[int, int]], column: int
) -> np.ndarray:
    """Contribution of each word through the n-grams of its characters, (n_words,)."""
    of_words = np.zeros(len(word_spans))
    if not len(model.characters) or not word_spans:
        return of_words

    # An n-gram is shared by its characters, and a character belongs to the word it stands in.
    occurrences = model.characters.occurrences(text)
    coef = model.coef_characters[:, column]
    gram_values = _gram_values(model.characters, occurrences, coef)
    of_characters = occurrences.shared(gram_values)
    word_starts = [start for start, _ in word_spans]
    character_starts = [start for start, _ in occurrences.spans]
    word_of_character = np.searchsorted(word_starts, character_starts, "right") - 1
    np.add.at(of_words, word_of_character, of_characters)
    return of_words


def _vector_contributions(
    model: TextModel, text: str, word_spans: list[tuple[int, int]], column: int
) -> _Contributions:
    """Contribution of the sentence vector, and the part of it that each word adds."""
    of_words = np.zeros(len(word_spans))
    if model.encoder is None:
        return _Contributions(of_words, 0.0)

    coef = model.coef_dense[:, column].astype(np.float64)  # (n_dims,)
    vectors = np.asarray(model.encoder.transform([text]), np.float64)
    vector = vectors[0]  # (n_dims,)
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
        end = _skip_marks(text, end)
        if spans and start < spans[-1][1]:
            last_start, last_end = spans[-1]
            spans[-1] = (last_start, max(end, last_end))
            sums[-1] += value
        else:
            spans.append((start, end))
            sums.append(value)
    return spans, sums


def _skip_marks(text: str, position: int) -> int:
    """The first position from this one on that does not belong to the character before."""
    while position < len(text):
        belongs = continues(text[position]) or JOINED.match(text, position)
        if not belongs:
            break
        position += 1
    return position


def _gram_values(ngrams: NGrams, occurrences: Occurrences, coef: np.ndarray) -> np.ndarray:
    """Contribution of each occurrence of an n-gram, (n_occurrences,)."""
    is_known = occurrences.columns >= 0
    known_columns = occurrences.columns[is_known]
    columns, column_of, counts = np.unique(known_columns, return_inverse=True, return_counts=True)

    tf = 1.0 + np.log(counts)  # (n_columns,)
    idf = ngrams.idf[columns].astype(np.float64)
    tf_idf = tf * idf
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

    def sums(self, texts: list[str]) -> np.ndarray:
        """Sum of the rows of each text's words, (n_texts, n_dims)."""
        encoded = self.vocabulary.encode(texts)
        sums = []
        for start, end in itertools.pairwise(encoded.offsets):
            rows = self.table.take(encoded.ids[start:end])  # (n_words, n_dims)
            sums.append(rows.sum(axis=0, dtype=float))
        return np.stack(sums)


def _parts(encoder: Encoder) -> list[_Part]:
    """Where the vectors are multiples of sums of rows; what is left is in no single word."""
    parts = []
    start = 0
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
    """Contribution of the rows of each word to the product with `coef`, (n_words,).

    A chunk's contribution goes to its words: to each its own if the encoder splits them alike, else
    evenly.
    """
    of_words = np.zeros(len(word_spans))
    token_ids = part.vocabulary.encode([text]).ids  # (n_tokens,)
    token_values = part.table.take(token_ids).astype(np.float64) @ coef  # (n_tokens,)
    sums = np.zeros(token_ids.size + 1)  # of all tokens before each one
    np.cumsum(token_values, out=sums[1:])

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

    # The first word of each chunk, and the number of words: (n_chunks + 1,).
    in_words = vocabulary.encode([text[start:end] for start, end in word_spans])
    word_starts = [start for start, _ in word_spans]
    chunk_starts = [start for start, _ in chunk_spans]
    first_words = np.searchsorted(word_starts, chunk_starts).tolist()
    first_words.append(len(word_spans))

    for chunk in range(len(chunk_spans)):
        words = slice(first_words[chunk], first_words[chunk + 1])
        first_token, end_token = in_chunks.offsets[chunk : chunk + 2].tolist()
        tokens = slice(first_token, end_token)
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
    sample = texts[:_N_SAMPLED_TEXTS]
    has_many_classes = model.n_columns > MAX_FEW_CLASSES
    n_named = _MAX_NAMED_OF_MANY if has_many_classes else MAX_NAMED
    dtype = np.float32 if has_many_classes else np.float64
    tf_idf = ngrams.idf[:, None].astype(dtype)
    values = tf_idf * model.coef_ngrams  # (n_ngrams, n_columns)
    values /= max(tf_idf_length, 1e-30)

    if model.encoder is not None:
        text_sizes = [len(text.split()) for text in texts]
        n_words = max(float(np.mean(text_sizes)), 1.0)
        _add_vector_values(values, model, model.encoder, sample, n_words)

    rows = _largest_rows(values, 4 * n_named)
    character_weight = model.character_weight.least
    row_values = (1.0 - character_weight) * values[rows]
    if character_weight and ngrams.sizes[0] == 1:
        words = names(texts, (1, 1), ngrams.hashes[rows])  # "" for n-grams of several words
        counts = model.characters.counts(words)
        counts.data *= model.characters.idf[counts.indices]
        _, sample_lengths = model.characters.tf_idf_and_lengths(sample)
        mean_length = sample_lengths.mean()
        row_values += character_weight * (counts @ model.coef_characters) / mean_length

    best = _largest_rows(row_values, n_named)
    best_names = names(texts, ngrams.sizes, ngrams.hashes[rows[best]])
    return best_names, row_values[best]


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
        part_vectors = vectors[:, part.columns]
        lengths = np.linalg.norm(part_vectors, axis=1)  # (n_sample,)
        sum_lengths = np.linalg.norm(part.sums(sample), axis=1)
        scale = lengths.sum() / max(sum_lengths.sum(), 1e-30)
        average_word = model.mean_vector[part.columns] @ coef / n_words  # (n_columns,)

        hashes_of_words = vocabulary_hashes(part.vocabulary)
        hashes = model.ngrams.hashes
        columns = np.searchsorted(hashes, hashes_of_words)
        columns = np.minimum(columns, hashes.size - 1)
        known = np.flatnonzero(hashes[columns] == hashes_of_words)
        word_values = scale * (part.table.take(known) @ coef)  # (n_known, n_columns)
        values[columns[known]] += word_values - average_word


def _largest_rows(values: np.ndarray, n: int) -> np.ndarray:
    """Rows with one of the n largest values of a column, sorted.

    Of a single column, those with one of the n smallest values as well: the other class's.
    """
    n = min(n, len(values))
    signed = values
    if values.shape[1] == 1:
        signed = np.hstack([values, -values])

    is_largest = np.zeros(len(values), bool)
    for start in range(0, signed.shape[1], _BLOCK_COLUMNS):
        columns = signed[:, start : start + _BLOCK_COLUMNS]
        largest = np.argpartition(-columns, n - 1, axis=0)[:n]  # (n, n_columns)
        is_largest[largest] = True
    return np.flatnonzero(is_largest)
