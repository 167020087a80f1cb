"""Write docs/which.md, "Which method should I use?", from result files; `--check` compares."""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "which.md"
SETS = ("imdb", "20news", "subj", "mr", "trec")
METHODS = {  # row of the reproduction -> needs, cost of a new text, a posterior?, what it cannot do
    "Average-0": (
        "one table",
        "an average",
        "no",
        "no variance, no certificate with one table alone",
    ),
    "PB-L2": (
        "both tables",
        "an average",
        "yes",
        "on long texts the prior outweighs the data unless λ is per token",
    ),
    "PB-neg": ("both tables", "a convex problem", "yes", "much slower than an average"),
    "w-PB-neg": ("both tables, texts to learn from", "an average", "yes", "not for a few texts"),
    "PV-DBOW": (
        "one table, texts to learn from",
        "40 passes (10 for these scores)",
        "no",
        "no posterior, slow",
    ),
    "SIF": (
        "one table, counts",
        "an average",
        "by λ",
        "made for similarity, not for classification",
    ),
    "SIF-sum": (
        "both tables, counts",
        "an average",
        "by λ",
        "no certificate: its coordinates are not those of the tables",
    ),
    "tf-idf": (
        "texts to learn from",
        "sparse counting",
        "no",
        "cannot use words that it has not seen",
    ),
    "model2vec": ("one table", "an average", "no", "a baseline: its weighting with our table"),
}


def read(name: str) -> dict | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def cell(value) -> str:
    return "" if value is None else f"{value:.3f}"


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def by_method() -> str:
    """Accuracies and similarity of single methods, with what they need and cost."""
    rows = []
    for row, (needs, cost, spread, limit) in METHODS.items():
        scores = []
        for dataset in ("imdb", "20news", "subj"):
            found = read(f"reproduce/{row}/{dataset}")
            scores.append(cell(found and found["accuracy"]))
        pairs = read(f"reproduce/{row}/stsb")
        scores.append(cell(pairs and pairs["pearson"]))
        rows.append([row.removesuffix("-0"), *scores, needs, cost, spread, limit])
    header = ["method", "IMDb", "20news", "SUBJ", "STS-B, Pearson", "needs", "a new text costs",
              "posterior", "limits"]  # fmt: skip
    return table(header, rows)


def by_labels() -> str:
    """The classifier and its two parts, from few labels to all."""
    rows = []
    for name in SETS:
        few, everything = read(f"classify/few-{name}"), read(f"classify/accuracy-{name}")
        for row in few["rows"] if few else ():
            rows.append([name, f"{row['labels']:,}"] + [
                cell(row[who]) for who in ("tf-idf 1-2-grams", "Average", "TextClassifier")
            ])  # fmt: skip
        if everything:
            of = {row["method"]: row["accuracy"] for row in everything["rows"]}
            rows.append([name, "all"] + [
                cell(of.get(who)) for who in ("tf-idf 1-2-grams", "Average", "TextClassifier")
            ])  # fmt: skip
    return table(["set", "labels", "tf-idf 1-2-grams", "Average", "TextClassifier"], rows)


def page() -> str:
    return f"""# Which method should I use?

After this page you know which class fits your task, and when to use something else.

```python
from pacsent import TextClassifier, load

vectors = load("english").encode(["a quiet film", "a silent movie"])  # similarity
classifier = TextClassifier("english")  # classification
print(vectors.shape)
```

```output
(2, 256)
```

| task | use | reason |
|---|---|---|
| find or compare texts by meaning | `load("english").encode`, `Index("english")` | taught by a transformer encoder; needs no training text |
| the same in another language, or with your own word vectors | `make("SIF-sum", words)` | the best of the untaught methods on sentence pairs and in retrieval |
| classify texts | `TextClassifier("english")` | n-grams and vectors in one model: see the table below |
| classify texts of a language or field without vectors | `TextClassifier()` | a strong n-gram classifier; or train vectors with `pacsent train` |
| features for your own model | `make("Average", ...)` or `"concat"` | a strong baseline at the speed of reading memory |
| variances, samples, a certificate of the vectors | `PB-L2`, `PB-neg` | Gaussian posteriors with an exact KL divergence |
| many new texts of one kind | `w-PB-neg` | learns once; after that a text costs as much as an average |
| the paper's numbers | `pacsent reproduce` | every row; other readings by `benchmarks/paper_options.py` |

**Use something else** where the order of words matters (negation, questions and answers) or where texts are in
several languages: a transformer encoder is better there and costs far more; [it works here](encoders.md), and
[`distill`](teach.md) makes a fast copy of it. With many labels and long texts, a
classifier on tf-idf features is better than one on vectors alone (last table); `TextClassifier` uses both.

## Classification by the number of labels

Test accuracy; the baselines choose C by cross-validation.

{by_labels()}
## Single methods

Accuracy of a logistic regression on the vectors with all labels, and similarity of sentence pairs, by
`pacsent reproduce` (all rows: [benchmarks](benchmarks.md)). The equations are in [methods](methods.md).

{by_method()}"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        up_to_date = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        raise SystemExit(0 if up_to_date else "docs/which.md is out of date: make pages")
    PAGE.write_text(page(), encoding="utf-8")
