"""Make the English model that comes with the package from its two full tables.

    python scripts/make_english.py ENGLISH [-o src/pacsent/models/english]

ENGLISH is the folder of the tables as they were trained: vocab.tsv (word, tab, count; most frequent
first), input.i8.npy and output.i8.npy with input.scale.npy and output.scale.npy (value = int8 times
the scale of its row), and META.json. The same folder gives the same model. Sizes and scores of
other settings are in benchmarks/results/english/sizes.json. docs/make_card.py writes the card.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from pacsent import Vocabulary, WordVectors
from pacsent.storage import save
from pacsent.words import compress

ROOT = Path(__file__).parents[1]
SETTINGS = {"n_words": 65_536, "n_dims": 256, "bits": 2}


def full_tables(folder) -> WordVectors:
    """The tables as they were trained, float32."""
    folder = Path(folder)
    lines = (folder / "vocab.tsv").read_text().splitlines()
    words, counts = zip(*(line.split("\t") for line in lines))
    tables = [
        np.load(folder / f"{name}.i8.npy").astype(np.float32)
        * np.load(folder / f"{name}.scale.npy").reshape(-1, 1)
        for name in ("input", "output")
    ]
    meta = json.loads((folder / "META.json").read_text())
    training = {
        **{k: v for k, v in meta["hyperparameters"].items() if k != "random_state"},
        "corpora": [
            "English Wikipedia articles (three disjoint samples, about 138 million words) and "
            "Simple English Wikipedia, CC BY-SA, by the authors of Wikipedia",
            "public-domain books in English, those of the demo and their other editions left out",
        ],
        "n_tokens": meta["total_tokens"],
        "licence": "no text of the corpora is contained",
    }
    vocabulary = Vocabulary(words, np.array(counts, dtype=np.int64))
    return WordVectors(vocabulary, *tables, training=training)


def make(folder, out, settings=SETTINGS) -> Path:
    """Compress the tables into `out`; what is there is replaced."""
    words = compress(full_tables(folder), **settings)
    card = out / "README.md"
    text = card.read_text() if card.exists() else None
    shutil.rmtree(out, ignore_errors=True)
    save(words, out)
    if text is not None:  # docs/make_card.py writes it
        card.write_text(text)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("english", type=Path, help="folder of the full tables")
    parser.add_argument(
        "-o", "--output", type=Path, default=ROOT / "src" / "pacsent" / "models" / "english"
    )
    given = parser.parse_args()
    made = make(given.english, given.output)
    total = sum(file.stat().st_size for file in made.iterdir())
    print(f"wrote {made}: {total / 1e6:.2f} MB")
