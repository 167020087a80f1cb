"""Teach a student on sentences of 20news by all-MiniLM-L6-v2, and hold its certificates to it.

    python benchmarks/distill.py --stored FOLDER [--splits 100] [--save]
    python benchmarks/distill.py --write-texts FOLDER

60,000 sentences of the posts of 20news, without headers and quotations, with the group of the post.
The vectors of the teacher are in FOLDER/minilm (news0.npy, news1.npy, ... of the written texts).
The student learns from 50,000 of the sentences; of these `distill` holds out at most 4,000.
The other 10,000 are what the guarantees are about. In each split 2,000 of them certify it by
`measure_fidelity`, the others say what is true. A classifier with the teacher's vectors and one
with the student's, fitted on 1,000 sentences each, are compared by `certify_agreement` on 500
sentences in each split. A guarantee that fails more often than delta = 0.05 allows is a mistake.
"""

import argparse
import json
import lzma
import re
import time
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import TextClassifier, distill
from pacsent.guarantees import FidelityCertificate, measure_fidelity
from pacsent.maths.arrays import unit_rows
from pacsent.maths.binomial import upper_limit
from pacsent.paper import benchmark_datasets as datasets

N_TEXTS, N_TAUGHT, N_FILE, N_CERTIFIED, N_LABELLED, N_COMPARED = (
    60_000, 50_000, 20_000, 2_000, 1_000, 500
)  # fmt: skip
_END = re.compile(r"(?<=[.!?])\s+")
_QUOTED = (">", "|", ":", "--")


def sentences(data) -> tuple[list[str], np.ndarray]:
    """Different sentences of 6 to 60 words of the posts and their groups, in an order by chance."""
    found = datasets.load("20news", data)
    kept: dict[str, object] = {}
    for texts, labels in (
        (found.train_texts, found.train_labels),
        (found.test_texts, found.test_labels),
    ):
        for post, label in zip(texts, labels):
            lines = post.partition("\n\n")[2].splitlines()
            lines = [x for x in lines if not x.lstrip().startswith(_QUOTED) and "writes:" not in x]
            for sentence in _END.split(" ".join(" ".join(lines).split())):
                letters = sum(map(str.isalpha, sentence))
                if (
                    6 <= len(sentence.split()) <= 60
                    and letters > 0.7 * len(sentence.replace(" ", ""))
                    and sentence not in kept
                ):
                    kept[sentence] = label
    texts = list(kept)
    order = np.random.default_rng(0).permutation(len(texts))[:N_TEXTS]
    return [texts[i] for i in order], np.array([kept[texts[i]] for i in order])


def write_texts(folder, texts):
    for number, start in enumerate(range(0, len(texts), N_FILE)):
        with lzma.open(folder / f"news{number}.json.xz", "wt", encoding="utf-8") as file:
            json.dump(texts[start : start + N_FILE], file)


def teacher_vectors(texts, given):
    """The stored vectors; without any, for a trial, those of the packaged model."""
    if given.stored is None:
        from pacsent import load

        return load("english").encode(texts)
    paths = sorted((given.stored / "minilm").glob("news*.npy"))
    return np.concatenate([np.load(path) for path in paths]).astype(np.float32)


def fidelity(own, vectors, n_splits):
    """Promised and realised cosine, over splits."""
    cosines = np.einsum("ij,ij->i", unit_rows(own), unit_rows(vectors))
    rows = []
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(own))
        some, rest = order[: len(order) // 5], order[len(order) // 5 :]
        found = measure_fidelity(own[some], vectors[some])
        rows.append((found.cosine_bound, cosines[rest].mean()))
    return np.array(rows)


def agreement(texts, labels, vectors, student, n_splits):
    """Promised and realised agreement of two classifiers over splits."""
    place = {text: row for row, text in enumerate(texts)}

    def teacher(asked):
        return vectors[[place.get(text, 0) for text in asked]]

    n = min(N_LABELLED, len(texts) // 4)
    fitted = [TextClassifier(w).fit(texts[:n], labels[:n]) for w in (teacher, student)]
    rest = texts[n:]
    same = np.equal(*(model.predict(rest) for model in fitted))
    rows = []
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(rest))
        some, others = np.split(same[order], [min(N_COMPARED, len(order) // 2)])
        rows.append((1 - upper_limit(int((~some).sum()), some.size, 0.05), others.mean()))
    return np.array(rows)


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--stored", type=Path, help="folder of the teacher's vectors")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--write-texts", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    texts, labels = sentences(given.data)
    if given.write_texts:
        write_texts(given.write_texts, texts)
        return
    vectors = teacher_vectors(texts, given)
    n = min(N_TAUGHT, 5 * len(texts) // 6)
    wall, cpu = time.perf_counter(), time.process_time()
    student = distill(vectors[:n], texts[:n])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    certificate = FidelityCertificate.from_json(student.certificate_)
    print(certificate, flush=True)
    own = student.set_params(on_empty="ignore").encode(texts[n:])
    near = fidelity(own, vectors[n:], given.splits)
    same = agreement(texts[n:], labels[n:], vectors[n:], student, given.splits)
    rows = []
    for what, promised, true in (
        ("average cosine to the teacher", near[:, 0], near[:, 1]),
        ("same answer of two classifiers", same[:, 0], same[:, 1]),
    ):
        rows.append({
            "guarantee": what, "splits": given.splits, "promised, mean": float(promised.mean()),
            "realised, mean": float(true.mean()), "smallest margin": float((true - promised).min()),
            "failed": int((true < promised).sum()),
        })  # fmt: skip
    summary = {
        "texts": n, "seconds": wall, "processor seconds": cpu,
        "cosine promised by distill": certificate.cosine_bound,
        "words": student.word_vectors.n_words,
    }  # fmt: skip
    finish("distill", rows, title="A student of MiniLM on 50,000 sentences of 20news",
           summary=summary, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
