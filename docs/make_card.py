"""Write the English model's card from the results of benchmarks/english.py; `--check` compares."""

import argparse
import hashlib
import json
from pathlib import Path

from pacsent.storage import CONFIG, PACKAGED, TENSORS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "english"
CARD = PACKAGED / "english" / "README.md"


def rows_of(name, **where) -> list[dict]:
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def digests() -> str:
    lines = []
    folder = PACKAGED / "english"
    for path in sorted([*folder.rglob(CONFIG), *folder.rglob(TENSORS)]):
        content, name = path.read_bytes(), path.relative_to(folder).as_posix()
        lines.append(f"| `{name}` | {len(content):,} | `{hashlib.sha256(content).hexdigest()}` |")
    return "| file | bytes | sha256 |\n|---|---|---|\n" + "\n".join(lines)


def scores() -> str:
    config = json.loads((PACKAGED / "english" / CONFIG).read_text())
    lines = ["| what | score |", "|---|---|"]
    for row in rows_of("retrieval", table="english", method="SIF-sum"):
        lines += [
            f"| STS-B test, Pearson / Spearman, `SIF-sum` | {row['STS-B test Pearson']:.1f} / "
            f"{row['STS-B test Spearman']:.1f} |",
            "| 20news, precision at 10, test posts among all training posts, `SIF-sum` | "
            f"{row['20news p@10']:.3f} |",
        ]
    for row in rows_of("sizes", words=config["n_words"], dims=config["n_dims"]):
        lines += [
            f"| SUBJ, test accuracy, `Average` | {row['SUBJ test accuracy']:.3f} |",
            f"| WordSim-353, input vectors | {row['WordSim']:.1f} |",
            f"| in-vocabulary words of SUBJ | {100 * row['SUBJ words known']:.1f}% |",
        ]
    return "\n".join(lines)


def page() -> str:
    config = json.loads((PACKAGED / "english" / CONFIG).read_text())
    training = config["training"]
    corpora = "\n".join(f"- {corpus}" for corpus in training["corpora"])
    return f"""# The English model

`pacsent.load("english")`: {config["n_words"]:,} words, {config["n_dims"]} dimensions, input and
output vectors, counts; {config["dtype"]} per number (8 in the first 16 dimensions). Both embedding
matrices are included, so every method and every kind of certificate works with it. The sentence
vectors of `encode` were distilled from another encoder and have [their own
card](sentences/README.md). This card describes the word vectors.

## Training data

Skip-gram with negative sampling, trained by pacsent on {training["n_tokens"]:,} tokens, window
{training["window"]}, {training["n_negatives"]} negatives, sub-sampling {training["subsample"]:g},
{training["n_epochs"]} epochs, {training["n_dims"]} dimensions:

{corpora}

The words are the most frequent ones of that corpus; no other criterion was used. None of the
evaluation sets is among its sources; overlap was not checked, and certificates say that their
provenance is unknown. Text is read as letters a-z, digits are spelled out, every other character is
a separator. `scripts/make_english.py` rotated both matrices together, kept {config["n_dims"]}
dimensions and quantised the numbers; `benchmarks/results/english/sizes.json` compares sizes. The
scores below are of commit c8cde96; the vectors have not changed since.

## Licence

The model contains no text of the corpora. The vectors may be used under the licence of pacsent
(MIT); give attribution to the authors of Wikipedia (CC BY-SA) where you distribute them.

## Scores

{scores()}

## Limits

The sources are encyclopedias and old books: little of the language of the web, and nothing that was
written after the corpus. Such vectors reproduce the prejudices of their texts. Names and rare words
beyond the first {config["n_words"]:,} are out of vocabulary.

## Checksums

{digests()}
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        raise SystemExit(0 if CARD.read_text() == page() else f"{CARD.name} is out of date")
    CARD.write_text(page())
