"""Cosines of word vectors beside the scores that people gave to pairs of words."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from pacsent.arrays import unit_rows
from pacsent.words.vectors import WordVectors


def score_correlation(vectors: WordVectors, path: str | Path) -> tuple[float, int, int]:
    """Spearman's correlation, and the numbers of pairs with vectors and without."""
    pairs = _read_pairs(path)
    usable_pairs = [pair for pair in pairs if pair.first in vectors and pair.second in vectors]
    if len(usable_pairs) < 3:
        raise ValueError(
            f"{path} must have at least three lines of WORD<TAB>WORD<TAB>SCORE with words of the "
            f"vocabulary. Got {len(usable_pairs)} instead."
        )

    first_vectors = np.array([vectors.input(pair.first) for pair in usable_pairs])
    second_vectors = np.array([vectors.input(pair.second) for pair in usable_pairs])
    cosines = (unit_rows(first_vectors) * unit_rows(second_vectors)).sum(axis=1)

    scores = [pair.score for pair in usable_pairs]
    correlation = float(spearmanr(cosines, scores)[0])
    return correlation, len(usable_pairs), len(pairs) - len(usable_pairs)


class _ScoredPair(NamedTuple):
    """Two words, and the similarity that people gave to them."""

    first: str
    second: str
    score: float


def _read_pairs(path: str | Path) -> list[_ScoredPair]:
    """The pairs of a file of lines WORD<TAB>WORD<TAB>SCORE.

    A first line without a score is a header, and lines that begin with # are comments.
    """
    pairs = []
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        pair = _parse_pair(line)
        if pair is not None:
            pairs.append(pair)
        elif number > 1 and line.strip() and not line.startswith("#"):
            raise ValueError(
                f"Line {number:,} of {path} must be WORD<TAB>WORD<TAB>SCORE. Got {line[:60]!r} "
                "instead."
            )
    return pairs


def _parse_pair(line: str) -> _ScoredPair | None:
    """The pair of a line; None if there are not two words and a finite score."""
    fields = line.split("\t")
    if len(fields) < 3:
        return None

    first, second, score_text = fields[:3]
    try:
        score = float(score_text)
    except ValueError:
        return None
    if not math.isfinite(score):
        return None
    return _ScoredPair(first.strip(), second.strip(), score)
