"""Cosines of word vectors beside the scores that people gave to pairs of words."""

import math
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from pacsent.arrays import unit_rows
from pacsent.words.vectors import WordVectors


def score_correlation(vectors: WordVectors, path: str | Path) -> tuple[float, int, int]:
    """Spearman's correlation, and the numbers of pairs with vectors and without.

    Lines of the file are WORD<TAB>WORD<TAB>SCORE. A first line without a score is a header, and
    lines that begin with # are comments.
    """
    pairs = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            first, second, score = line.split("\t")[:3]
            if not math.isfinite(float(score)):
                raise ValueError
            pairs.append((first.strip(), second.strip(), float(score)))
        except ValueError:
            if number > 1 and line.strip() and not line.startswith("#"):
                raise ValueError(
                    f"Line {number:,} of {path} must be WORD<TAB>WORD<TAB>SCORE. Got {line[:60]!r} "
                    "instead."
                ) from None

    known = [pair for pair in pairs if pair[0] in vectors and pair[1] in vectors]
    if len(known) < 3:
        raise ValueError(
            f"{path} must have at least three lines of WORD<TAB>WORD<TAB>SCORE with words of the "
            f"vocabulary. Got {len(known)} instead."
        )

    *sides, scores = zip(*known)
    left, right = (unit_rows(np.array(list(map(vectors.input, words)))) for words in sides)
    correlation = float(spearmanr((left * right).sum(axis=1), scores)[0])
    return correlation, len(known), len(pairs) - len(known)
