"""Cosines of word vectors beside the scores that people gave to pairs of words."""

import re
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from pacsent.maths.arrays import unit_rows
from pacsent.words.vectors import WordVectors


def score_correlation(vectors: WordVectors, path: str | Path) -> tuple[float, int, int]:
    """Spearman's correlation, and the numbers of pairs with vectors and without.

    Lines of the file are WORD<TAB>WORD<TAB>SCORE, as WordSim-353, MEN and SimLex-999 have.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    cells = [line.strip().split("\t") for line in lines]
    cells = [row[:3] for row in cells if len(row) > 2 and re.fullmatch(r"-?[\d.]+", row[2])]
    known = [row for row in cells if row[0] in vectors and row[1] in vectors]
    if len(known) < 3:
        raise ValueError(
            f"{path} must have at least three lines of WORD<TAB>WORD<TAB>SCORE with words of the "
            f"vocabulary. Got {len(known)} instead."
        )
    left, right = (unit_rows(np.array([vectors.input(row[i]) for row in known])) for i in (0, 1))
    scores = [float(row[2]) for row in known]
    correlation = float(spearmanr((left * right).sum(axis=1), scores)[0])
    return correlation, len(known), len(cells) - len(known)
