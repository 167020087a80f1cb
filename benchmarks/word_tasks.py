"""Scores of word vectors on similarity ratings and analogies, from the files of their authors."""

from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from pacsent.arrays import unit_rows

N_FREQUENT = 30_000  # words among which analogies are asked and answered
FILES = {
    "WordSim-353": "wordsim353.tsv",
    "SimLex-999": "simlex999.txt",
    "analogies": "questions-words.txt",
}


def word_scores(words, folder: Path) -> dict[str, list[float]]:
    """Task to its scores x 100 by the input and by the output table.

    Similarity: Spearman's correlation of cosines with ratings. Analogies: the share for which d has
    the largest cosine with b - a + c (3CosAdd). Items with an unknown word are left out.
    """
    index = words.vocabulary.index
    tables = [unit_rows(table.array.astype(np.float32)) for table in words.tables.values()]
    scores = {}
    for task, file in FILES.items():
        if not (folder / file).is_file():
            continue
        lines = [line.split() for line in (folder / file).read_text("utf-8").splitlines()]
        n_words = 4 if task == "analogies" else 2
        items = [line for line in lines if len(line) > 2 and line[0][:1] not in ("#", ":")]
        names = [item[:n_words] for item in items]
        rows = [[index.get(w, index.get(w.lower(), -1)) for w in words_of] for words_of in names]
        most = N_FREQUENT if task == "analogies" else words.n_words
        is_covered = [min(row) >= 0 and max(row) < most for row in rows]
        covered = np.array([row for row, known in zip(rows, is_covered) if known], dtype=np.int64)
        score = _analogies if task == "analogies" else _similarities
        ratings = [item[2] for item, known in zip(items, is_covered) if known]
        scores[task] = [100 * score(table[:most], covered, ratings) for table in tables]
    return scores


def _similarities(vectors, pairs, ratings) -> float:
    cosines = np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
    return float(spearmanr(cosines, np.array(ratings, dtype=float)).statistic)


def _analogies(vectors, questions, _) -> float:
    n_right = 0
    for start in range(0, len(questions), 512):
        a, b, c, d = questions[start : start + 512].T
        cosines = (vectors[b] - vectors[a] + vectors[c]) @ vectors.T
        for question_word in (a, b, c):
            cosines[np.arange(len(a)), question_word] = -np.inf
        n_right += int((cosines.argmax(axis=1) == d).sum())
    return n_right / len(questions)
