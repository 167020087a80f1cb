"""Word vectors of a language that has no model: German novels, trained here.

    python own_language.py texts --eltec ELTeC-deu/level1 --out german.txt
    python own_language.py train --german german.txt --save

The texts are public (github.com/COST-ELTeC/ELTeC-deu) and not part of this repository. `train`
trains words and 32,000 pieces of words with the defaults of `pacsent vectors train`, and looks at
neighbours, at words of a dev set without a vector, and at STS-B dev (languages/stsb-de-dev.csv.xz
of --data): the Spearman correlation of the cosines of SIF-sum with the scores. Times are those of
the processor, summed over its cores.
"""

import csv
import lzma
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from harness import finish, parser_for, skip
from pacsent import SkipGram, make_encoder
from pacsent.arrays import unit_rows
from pacsent.words import Corpus, train_pieces

ASKED = ["haus", "könig", "dampfschiff", "traurig", "geigenspielerin"]
_TEI = "{http://www.tei-c.org/ns/1.0}"


def novels(folder: Path):
    """The paragraphs of ELTeC novels, which are TEI files."""
    for path in sorted(folder.glob("*.xml")):
        body = ElementTree.parse(path).getroot().find(f".//{_TEI}body")
        for paragraph in body.iter(f"{_TEI}p"):
            yield " ".join("".join(paragraph.itertext()).split())


def write_texts(given):
    lines = [line + "\n" for line in novels(given.eltec) if line]
    given.out.write_text("".join(lines), encoding="utf-8")
    print(f"{given.out}: {len(lines):,} lines, {given.out.stat().st_size:,} bytes", file=sys.stderr)


def pairs(data: Path, part: str):
    """First sentences, second sentences and scores of STS-B in German."""
    with lzma.open(data / "languages" / f"stsb-de-{part}.csv.xz", "rt", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3]
    return [r[0] for r in rows], [r[1] for r in rows], np.array([float(r[2]) for r in rows])


def correlation(words, first, second, scores) -> float:
    method = make_encoder("SIF-sum", words, on_empty="ignore").fit([])
    A, B = (unit_rows(method.transform(texts)) for texts in (first, second))
    return 100 * spearmanr((A * B).sum(axis=1), scores)[0]


def neighbours(words, word) -> str:
    try:
        found = words.most_similar(word, 5)
    except ValueError:
        return f"{word}: unknown"
    return f"{word}: " + ", ".join(near for near, _ in found)


def trained(text, n_pieces, given) -> tuple[dict, list[str]]:
    """One training: a row of numbers, and neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        with open(text, encoding="utf-8") as lines:
            normalize = "auto" if n_pieces is None else train_pieces(lines, n_pieces)
        learned = time.process_time()
        min_count = 5 if n_pieces is None else 1
        corpus = Corpus.build(
            text, Path(folder) / "corpus", min_count=min_count, normalize=normalize
        )
        counted = time.process_time()
        model = SkipGram(given.dims, n_epochs=given.epochs, random_state=0).fit(corpus)
        done = time.process_time()
    words = model.word_vectors_
    row = {
        "language": "german",
        "vocabulary": corpus.vocabulary.normalize_name,
        "words": words.n_words,
        "tokens": corpus.n_tokens,
        "MB of text": Path(text).stat().st_size / 1e6,
        "pieces, core-minutes": (learned - start) / 60,
        "counting, core-minutes": (counted - learned) / 60,
        "training, core-minutes": (done - counted) / 60,
    }
    first, second, scores = pairs(given.data, "dev")
    encoded = words.vocabulary.encode(first + second)
    row["STS-B de dev Spearman"] = correlation(words, first, second, scores)
    row["unknown tokens there, %"] = 100 * (1 - encoded.coverage)
    shown = [neighbours(words, word) for word in ASKED]
    print(row["vocabulary"], *shown, sep="\n  ", file=sys.stderr)
    return row, shown


def train(given):
    if not given.german:
        skip("own_language", "--german is not given")
    rows, shown = [], {}
    for n_pieces in (None, given.pieces):
        row, near = trained(given.german, n_pieces, given)
        rows.append(row)
        shown[f"german, {row['vocabulary']}"] = near
    finish("own_language", rows, summary=shown, save=given.save, name=given.name,
           title="Word vectors trained on German novels")  # fmt: skip


def main():
    parser = parser_for(__doc__, name="novels")
    parser.add_argument("part", choices=["texts", "train"], nargs="?", default="train")
    parser.add_argument("--eltec", type=Path, help="folder of TEI files")
    parser.add_argument("--out", type=Path, help="file of lines to write")
    parser.add_argument("--german", type=Path, help="file of lines to train on")
    parser.add_argument("--pieces", type=int, default=32_000)
    parser.add_argument("--dims", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    {"texts": write_texts, "train": train}[given.part](given)


if __name__ == "__main__":
    main()
