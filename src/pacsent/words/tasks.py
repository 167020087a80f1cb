"""How good word vectors are on the classic word tasks: similarity ratings and analogies.

The task files are read as their authors distribute them, from a folder that the user names.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pacsent.maths.arrays import unit_rows
from pacsent.text.tables import stream_texts
from pacsent.words.vectors import WordVectors

N_FREQUENT = 30_000  # analogies are asked, and answered, among this many most frequent words
_QUESTIONS_PER_BLOCK = 512


def read_similarities(path: str | os.PathLike) -> list[tuple[str, str, float]]:
    """Lines `word<TAB>word<TAB>rating`; lines that begin with # are comments."""
    pairs = []
    for number, line in enumerate(stream_texts(path, kind="text"), start=1):
        if line.strip() and not line.startswith("#"):
            try:
                first, second, rating = line.split("\t")[:3]
                pairs.append((first, second, float(rating)))
            except ValueError:
                raise ValueError(
                    f"Line {number} of {path} must be two words and a rating, with tabs between. "
                    f"Got {line[:60]!r} instead."
                ) from None
    return pairs


def read_analogies(path: str | os.PathLike) -> list[list[str]]:
    """Lines `a b c d`, a is to b as c is to d; lines that begin with : are titles."""
    questions = []
    for number, line in enumerate(stream_texts(path, kind="text"), start=1):
        if line.strip() and not line.startswith(":"):
            questions.append(line.split())
            if len(questions[-1]) != 4:
                raise ValueError(
                    f"Line {number} of {path} must be four words. Got {line[:60]!r} instead."
                )
    return questions


def similarity_score(
    words: WordVectors, pairs: list[tuple[str, str, float]], *, table: str = "input"
) -> tuple[float, int]:
    """Spearman correlation (x 100) of cosines with ratings, and the number of pairs covered.

    Pairs with a word that is not in the vocabulary are left out; nan where fewer than two stay.
    """
    from scipy.stats import spearmanr

    rated_rows = [(_row(words, a), _row(words, b), rating) for a, b, rating in pairs]
    covered = [pair for pair in rated_rows if pair[0] is not None and pair[1] is not None]
    if len(covered) < 2:
        return float("nan"), len(covered)
    rows = ([pair[side] for pair in covered] for side in (0, 1))
    first, second = (_directions(words, table, side) for side in rows)
    cosines = np.einsum("ij,ij->i", first, second)
    correlation = spearmanr(cosines, [rating for _, _, rating in covered]).statistic
    return 100 * float(correlation), len(covered)


def analogy_score(
    words: WordVectors,
    questions: Sequence[Sequence[str]],
    *,
    table: str = "input",
    n_frequent: int = N_FREQUENT,
) -> tuple[float, int]:
    """Share (in %) of analogies answered by 3CosAdd, and the number of questions covered.

    Answer: the word w other than a, b, c with the largest cosine of w with b - a + c, of
    normalised vectors. Questions with a word outside the `n_frequent` most frequent are left out.
    """
    n_frequent = min(n_frequent, words.n_words)
    rows = [[_row(words, word) for word in question] for question in questions]
    covered = np.array(
        [row for row in rows if all(r is not None and r < n_frequent for r in row)], dtype=np.int64
    ).reshape(-1, 4)
    if len(covered) == 0:
        return float("nan"), 0
    vectors = _directions(words, table, slice(0, n_frequent))
    n_right = 0
    for start in range(0, len(covered), _QUESTIONS_PER_BLOCK):
        a, b, c, d = covered[start : start + _QUESTIONS_PER_BLOCK].T
        scores = (vectors[b] - vectors[a] + vectors[c]) @ vectors.T
        for question_word in (a, b, c):
            scores[np.arange(len(a)), question_word] = -np.inf
        n_right += int((scores.argmax(axis=1) == d).sum())
    return 100 * n_right / len(covered), len(covered)


# name -> (file, how it is read, how it is scored)
_TASKS: dict[str, tuple[str, Callable, Callable]] = {
    "WordSim-353": ("wordsim353.tsv", read_similarities, similarity_score),
    "SimLex-999": ("simlex999.txt", read_similarities, similarity_score),
    "analogies": ("questions-words.txt", read_analogies, analogy_score),
}


def evaluate_words(words: WordVectors, folder: str | os.PathLike) -> list[dict]:
    """Scores on every task file in `folder`, for each table of `words`.

    One dict per task with the keys task, n (items in the file), covered, input, output: scores x
    100, `output` None where there is no output table.
    """
    results = []
    for name, (file, read, score) in _TASKS.items():
        if (Path(folder) / file).is_file():
            items = read(Path(folder) / file)
            of_input, covered = score(words, items)
            of_output = None
            if words.output_vectors is not None:
                of_output, _ = score(words, items, table="output")
            result = {"task": name, "n": len(items), "covered": covered}
            results.append(result | {"input": of_input, "output": of_output})
    if not results:
        names = ", ".join(file for file, _, _ in _TASKS.values())
        raise FileNotFoundError(f"{folder} must hold at least one of {names}. It holds none.")
    return results


def _row(words: WordVectors, word: str) -> int | None:
    """The word's row, as written or lower-cased."""
    index = words.vocabulary.index
    return index.get(word, index.get(word.lower()))


def _directions(words: WordVectors, table: str, rows: list | slice) -> np.ndarray:
    """Rows of one of the tables with length 1; a zero row stays 0."""
    vectors = words.input_vectors if table == "input" else words.output_vectors
    assert vectors is not None
    return unit_rows(np.asarray(vectors[rows], dtype=np.float32))
