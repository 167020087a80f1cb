"""Write tests/data/stored: every kind of model and certificate, as the library stores it today.

    PYTHONPATH=src python scripts/write_stored_files.py

The files that are there were written by pacsent 0.1.0 with Python 3.11.7, NumPy 2.4.6, SciPy 1.17.1
and scikit-learn 1.9.1. Run this only where a format is changed on purpose, as all files are
replaced: `tests/storage/test_stored_files.py` holds later versions against them. It needs the extra
[subwords]. All of it is made here: no text or number of others is in the files.
"""

import json
import platform
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import scipy
import sklearn
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pacsent
import stored_cases as cases

TOPICS = {
    "food": """soup bread cheese pasta rice salad sauce butter onion garlic pepper lemon cake cream
        chicken oven kitchen recipe dinner lunch spoon plate salt sugar tomato""",
    "money": """bank loan credit account interest rate shares market profit budget tax invoice
        payment card cash fund price debt salary savings dollar cost broker wallet fee""",
    "travel": """train flight airport hotel ticket luggage beach mountain map passport road bridge
        island harbour tour guide museum station bus border bicycle tent lake village visa""",
}
OTHERS = """the a of and to in is was with for very new old good bad small large again never today
    yesterday people friend city"""
UNUSUAL = [
    "zzz qqq xxyyx",
    "SOUP, bread & cheese!!! 3.50 €",
    "東京 café größe 🙂 naïve данные",
    "bank " * 60,
    "soups airports loaning",
]


def write_texts(path: Path) -> None:
    """Texts of three topics, their labels and sets of labels, and machines that err."""
    rng = np.random.default_rng(0)
    names = list(TOPICS)
    words = [word for text in TOPICS.values() for word in text.split()]
    topics = [place for place, text in enumerate(TOPICS.values()) for _ in text.split()]
    common = OTHERS.split()

    def draw(label, others=()):
        own = [TOPICS[label].split()[i] for i in rng.integers(25, size=5)]
        for other in others:
            own += [TOPICS[other].split()[i] for i in rng.integers(25, size=2)]
        own += [words[rng.integers(len(words))]]
        own += [common[i] for i in rng.integers(len(common), size=2)]
        return " ".join(own[i] for i in rng.permutation(len(own)))

    def err(labels, probability):
        return [names[rng.integers(3)] if rng.random() < probability else label for label in labels]

    labels = [names[i] for i in rng.integers(3, size=300)]
    sets = [sorted({label, names[rng.integers(3)]}) for label in labels]
    predicted_sets = [
        sorted(set(labels) - {names[rng.integers(3)]} if rng.random() < 0.2 else set(labels))
        for labels in sets
    ]
    texts = [draw(label, set(names) - {label}) for label, names in zip(labels, sets)]
    rows = np.concatenate([np.arange(180), rng.integers(60, size=120)])
    rows = rng.permutation(rows)
    content = {
        "words": words + common,
        "topics": topics + [3] * len(common),
        "texts": texts,
        "labels": labels,
        "predictions": err(labels, 0.25),
        "judge": err(labels, 0.3),
        "sets": sets,
        "predicted_sets": predicted_sets,
        "repeated": [texts[row] for row in rows],
        "repeated_labels": [labels[row] for row in rows],
        "new": [*(draw(name) for name in names), *UNUSUAL],
    }
    path.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def write_formats(folder: Path) -> None:
    """Word vectors as other programs write them, by hand: no writer of this library is used."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    names = ["the", "soup", "bank", "train", "hotel", "café"]
    tables = rng.normal(size=(2, len(names), 4)).astype("<f4")

    def lines(table):
        return [
            " ".join([name, *(f"{value:.6f}" for value in row)]) for name, row in zip(names, table)
        ]

    for prefix, table in zip(("", "context_"), tables):
        text = "\n".join([f"{len(names)} 4", *lines(table)]) + "\n"
        (folder / f"{prefix}word2vec.txt").write_text(text, encoding="utf-8")
        records = [name.encode() + b" " + row.tobytes() + b"\n" for name, row in zip(names, table)]
        binary = b"%d 4\n" % len(names) + b"".join(records)
        (folder / f"{prefix}word2vec.bin").write_bytes(binary)
    (folder / "glove.txt").write_text("\n".join(lines(tables[0])) + "\n", encoding="utf-8")
    (folder / "fasttext.bin").write_bytes(fasttext(names, rng))
    write_static(folder, names, tables[0])


def fasttext(names: list[str], rng: np.random.Generator) -> bytes:
    """A fastText .bin of a Skip-gram model with character n-grams."""
    dim, bucket = 4, 7
    settings = (dim, 5, 5, 1, 5, 1, 2, 2, bucket, 3, 4, 100)
    data = struct.pack("<2i", 793712314, 12) + struct.pack("<12id", *settings, 1e-4)
    data += struct.pack("<3i2q", len(names), len(names), 0, 100, -1)
    for place, name in enumerate(names):
        data += name.encode() + b"\0" + struct.pack("<qb", 20 - place, 0)
    for n_rows in (len(names) + bucket, len(names)):
        table = rng.normal(size=(n_rows, dim)).astype("<f4")
        data += struct.pack("<?2q", False, *table.shape) + table.tobytes()
    return data


def write_static(folder: Path, names: list[str], table: np.ndarray) -> None:
    """Static models of model2vec and of sentence-transformers, with a tokenizer of whole words."""
    vocabulary = {"[UNK]": 0, **{name: place + 1 for place, name in enumerate(names)}}
    rows = np.concatenate([np.zeros((1, table.shape[1]), np.float32), table])
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    modules = [
        {"idx": 0, "name": "0", "path": "0_StaticEmbedding"}
        | {"type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize"}
        | {"type": "sentence_transformers.models.Normalize"},
    ]
    of_model2vec = folder / "static-model2vec"
    of_transformers = folder / "static-sentence-transformers" / "0_StaticEmbedding"
    for place, name in ((of_model2vec, "embeddings"), (of_transformers, "embedding.weight")):
        place.mkdir(parents=True)
        (place / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
        save_file({name: rows}, place / "model.safetensors")
    config = {"normalize": True, "max_length": 512}
    (of_model2vec / "config.json").write_text(json.dumps(config))
    (of_transformers.parent / "modules.json").write_text(json.dumps(modules))


def write_json(path: Path, content) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def write_models(folder: Path) -> None:
    """Every model, and beside it what it answers after it is opened again."""
    folder.mkdir()
    for name, make in cases.MODELS.items():
        words = cases.new_words() if name == "words" else pacsent.load(folder / "words")
        pacsent.save(make(words), folder / name, words="copy" if name in COPIED else "reference")
        write_json(folder / f"{name}.json", cases.ask(cases.open_model(name)))
        print(name)


# Models whose word vectors are not those of the folder "words".
COPIED = {
    "classifier-words-with-sentences",
    "static",
    "static-compressed",
    "words-with-sentences",
    "words-with-static-sentences",
    "encoder-Average",
}


def write_certificates(folder: Path) -> None:
    """Every certificate, and what `pacsent verify` prints."""
    from helpers import invoke

    folder.mkdir()
    for name, make in {**cases.CERTIFICATES, **cases.ENCODER_CERTIFICATES}.items():
        path = folder / f"{name}.json"
        path.write_text(make().to_json() + "\n", encoding="utf-8")
        path.with_suffix(".txt").write_text(invoke("verify", path, status=0).output)
        print(name)


def write_folders(folder: Path) -> None:
    """A corpus, an interrupted training and two journals, with what continues."""
    cases.write_corpus(folder / "corpus")
    cases.write_checkpoint(folder / "checkpoint")
    cases.write_labelling(folder / "labelling")
    cases.write_label_check(folder / "label-check")
    for name, ask in cases.FOLDERS.items():
        copy = folder / "copy"
        shutil.copytree(folder / name, copy)
        write_json(folder / f"{name}.json", ask(copy))
        shutil.rmtree(copy)


README = """# Files as they were stored

Every kind of model, certificate and unfinished work, written by `scripts/write_stored_files.py`
with pacsent {pacsent}, Python {python}, NumPy {numpy}, SciPy {scipy} and scikit-learn {sklearn}.
`tests/storage/test_stored_files.py` opens them with the library as it is and compares its answers
with those that lie beside them.

- `texts.json`: made-up texts of three topics, their labels, and predictions.
- `models`: a folder for each kind of model, and its answers in a file of the same name.
- `certificates`: each with what `pacsent verify` prints.
- `formats`: word vectors as other programs write them.
- `corpus`, `checkpoint`, `labelling`, `label-check`: what a program continues.
- `splits.json`: the rows that `CertifiedClassifier.fit` trains on, by seed and by its options.
- `statements.json`: comparisons and thresholds from given labels and scores.
"""


def main() -> None:
    folder = cases.STORED
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    versions = {
        "pacsent": pacsent.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
    }
    (folder / "README.md").write_text(README.format(**versions))
    write_texts(folder / "texts.json")
    write_formats(folder / "formats")
    write_models(folder / "models")
    for name in cases.FORMATS:
        write_json(folder / f"formats/{name}.answers.json", cases.ask(cases.open_format(name)))
    write_certificates(folder / "certificates")
    write_folders(folder)
    write_json(folder / "splits.json", {name: split() for name, split in cases.SPLITS.items()})
    write_json(folder / "statements.json", cases.statements())


if __name__ == "__main__":
    main()
