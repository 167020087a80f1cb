"""Damaged files for every reader: for each, intact files, and how they are read and used.

A target's `seeds` are trees of files; its `read` opens such a tree in a folder and uses what it
contains, so that an accepted file that would fail later is noticed. If it is `sealed`, damage must
be noticed: what `read` returns must be what an intact tree gives. Every case has a number from
which it is made again: `python -m hostile --case "TARGET NUMBER"`.
"""

import bz2
import gzip
import io
import itertools
import json
import lzma
import random
import struct
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import pacsent
from hostile.damage import crafted_tree, damage
from hostile.material import QUICK, TEXTS, WORDS, Tree, make_tree, new, words, write_tree
from hostile.running import Case
from pacsent import (
    Corpus,
    SkipGram,
    TextClassifier,
    Vocabulary,
    WordVectors,
    certify,
    load,
    make_encoder,
    paper,
    registry,
    storage,
    text,
)
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import labelled as labelled_texts
from pacsent.paper import report, reproduction
from pacsent.sentences import ExternalEncoder, as_encoder, methods
from pacsent.words import compress, formats
from pacsent.words.subwords import Subwords


@dataclass(frozen=True)
class Target:
    seeds: Callable[[], list[Tree]]
    read: Callable[[Path], object]
    sealed: bool = False  # damage must be noticed, or change nothing
    crafted: bool = False  # changed on purpose, with right checksums: refused or used


# ---- intact files -------------------------------------------------------------------------------


def saved(*models) -> list[Tree]:
    return [make_tree(lambda folder, m=model: pacsent.save(m, folder / "m")) for model in models]


def word2vec(name: str) -> list[Tree]:
    pair = make_tree(lambda folder: formats.write(words(), folder / name))
    return [pair, {name: pair[name]}, {f"{name}.gz": gzip.compress(pair[name], mtime=0)}]


def glove() -> list[Tree]:
    lines = "the 0.1 -2 3e-2\n. . 4 5 6\nat x@y.com 7 8 9\nnaïve 1 1 1\n"
    return [{"v.txt": lines.encode()}, {"v.txt.xz": lzma.compress(lines.encode())}]


def fasttext() -> list[Tree]:
    def file(bucket, maxn, loss=2):
        counts = {"film": 9, "good": 8, "</s>": 7}
        rng = np.random.default_rng(0)
        numbers = (793712314, 12, 4, 5, 5, 1, 5, 1, loss, 2, bucket, 2 if maxn else 0, maxn, 100)
        data = struct.pack("<14i", *numbers) + struct.pack("<d", 1e-4)
        data += struct.pack("<3i2q", len(counts), len(counts), 0, 24, -1)
        for word, count in counts.items():
            data += word.encode() + b"\0" + struct.pack("<qb", count, 0)
        for n_rows in (len(counts) + bucket, len(counts)):
            table = rng.normal(size=(n_rows, 4)).astype("<f4")
            data += struct.pack("<?2q", False, n_rows, 4) + table.tobytes()
        return {"v.bin": data}

    return [file(5, 3), file(0, 0), file(5, 3, loss=1)]


def counts() -> list[Tree]:
    def write(folder):
        formats.write(words(), folder / "v.txt")
        pairs = zip(words().vocabulary.words, words().vocabulary.counts)
        (folder / "counts").write_text("".join(f"{word} {count}\n" for word, count in pairs))

    return [make_tree(write)]


def classifiers() -> list[Tree]:
    labels = [0, 1] * (len(TEXTS) // 2)
    sets = [{"a", "b"} if label else {"c"} for label in labels]
    with_words = TextClassifier(new("Average")).fit(TEXTS, labels)
    return saved(with_words, TextClassifier(None).fit(TEXTS, sets))


def certified_classifier() -> list[Tree]:
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 5)]
    certified = pacsent.CertifiedClassifier(TextClassifier(None), calibration_size=0.5)
    return saved(certified.fit(texts, ["a", "b"] * (len(texts) // 2)))


def index() -> list[Tree]:
    filled = pacsent.Index(new("Average").fit(TEXTS))
    filled.add(TEXTS)
    return saved(filled)


def lengths(texts):
    return [[1.0, len(text)] for text in texts]


def student() -> list[Tree]:
    texts = [f"{a} {b} {c}" for a, b, c in itertools.product(WORDS, WORDS, WORDS[:2])]
    vectors = np.random.default_rng(2).normal(size=(len(texts), 4))
    return saved(pacsent.distill(vectors, texts, n_subwords=3))


def word_vectors() -> list[Tree]:
    """Word vectors with every part that they can have."""
    rng = np.random.default_rng(3)
    subwords = Subwords(rng.normal(size=(9, 6)).astype(np.float32), 2, 3)
    large = [f"w{i}" for i in range(10_000)]  # saved with its hash table
    return saved(
        words().replace(subwords=subwords).trained_on([" ".join(WORDS * 5)] * 3),
        compress(words(), bits=4),
        WordVectors(Vocabulary(large), rng.normal(size=(10_000, 2)).astype(np.float16)),
    )


def saved_classes() -> dict[str, Callable[[], list[Tree]]]:
    """How a folder of every class that `load` can open is made, by the name of the class."""
    makers: dict[str, Callable[[], list[Tree]]] = {
        "WordVectors": word_vectors,
        "TextClassifier": classifiers,
        "CertifiedClassifier": certified_classifier,
        "Index": index,
        "ExternalEncoder": lambda: saved(ExternalEncoder(lengths, name="length")),
        "ConcatenatedEncoder": lambda: saved(
            as_encoder([new("Average").fit(TEXTS), new("PB-L2").fit(TEXTS)])
        ),
        "StaticEncoder": student,
    }
    for method in methods.METHODS:
        settings = {"n_jobs": 1, **QUICK.get(method.removeprefix("i-"), {})}
        estimator = make_encoder(method, words(), **settings)
        makers.setdefault(type(estimator).__name__, lambda e=estimator: saved(e.fit(TEXTS)))
    # A `SentenceVectorizer` is one of the estimators.
    kinds = set(registry.MODULES["model"]) - {"SentenceVectorizer"}
    missing = (set(methods.ESTIMATORS) | kinds) - set(makers)
    assert not missing, f"add how to make a saved {missing}"
    return makers


def checkpoint() -> list[Tree]:
    settings = {"n_epochs": 2, "min_count": 1, "subsample": 0, "n_jobs": 1, "random_state": 0}
    return [
        make_tree(
            lambda folder: SkipGram(
                4, checkpoint_dir=folder / "t", checkpoint_every=0, **settings
            ).fit(TEXTS * 8)
        )
    ]


def packed_texts() -> list[Tree]:
    content = "Good film, 1984.\n\nQuiet: joy — naïve\nnil\r\nlast line".encode()
    packed = [gzip.compress(content, mtime=0) * 2, bz2.compress(content), lzma.compress(content)]
    packed += [content, b"\xef\xbb\xbf" + content, pa.Codec("zstd").compress(content, asbytes=True)]
    return [{"t": data} for data in packed]


def dumps() -> list[Tree]:
    content = (
        b"<mediawiki><page><title>A</title><text xml:space='preserve'>'''Bold''' [[link|shown]] "
        b"{{template}} &lt;ref&gt;x&lt;/ref&gt; 12 <!-- no --> [http://x y]</text></page>\n"
        b"<page><text>#REDIRECT [[B]]</text></page>\n<page><text>More text here</text></page>\n"
    )
    return [{"t": content}, {"t": bz2.compress(content)}]


def labelled() -> list[Tree]:
    return [
        {"t.txt": b"a\tgood film\nb\tquiet joy\na\tnil\n"},
        {"t.csv": b'text,label,x\n"good, film",a,1\nquiet,b,2\n"two\nlines",a,3\n'},
        {"t.tsv": b"text\tlabel\ngood film\ta\nquiet\tb\n"},
    ]


# data set -> pattern of its file names, the values in it
DATASET_FILES = {
    "20news": ("20news-bydate-{}/{}/{}", (("train", "test"), ("alt.atheism", "sci.med"), "12")),
    "imdb": ("aclImdb/{}/{}/{}_7.txt", (("train", "test"), ("pos", "neg"), "01")),
    "subj": ("{}.tok.gt9.5000", (("plot", "quote"),)),
    "mr": ("x/rt-polarity.{}", (("pos", "neg"),)),
    "trec": ("{}.label", (("train_5500", "TREC_10"),)),
    "stsb": ("s/sts-{}.csv", (("train", "dev", "test"),)),
}
DATASET_LINES = {
    "20news": b"From: a@b\nSubject: x\n\nbody caf\xe9\n",
    "imdb": "fine<br />film é".encode(),
    "trec": b"DESC:manner How ?\nHUM:ind Who ?\n",
    "stsb": b"main\tx\t2012\t1\t2.500\tA man.\tA boy.\n" * 2,
}


def archives(name: str) -> list[Tree]:
    stem, (pattern, values) = datasets.DATASETS[name].archives[0], DATASET_FILES[name]
    content = DATASET_LINES.get(name, b"good .\nfine \xe9\n")
    paths = [pattern.format(*parts) for parts in itertools.product(*values)]
    seeds = [{f"{stem}/{path}": content for path in paths}]
    for suffix in ("gz", "xz"):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=f"w:{suffix}") as archive:
            for path in paths:
                info = tarfile.TarInfo(path)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        seeds.append({f"{stem}.tar.{suffix}": packed.getvalue()})
    return seeds


def certificates() -> list[Tree]:
    texts = datasets.generate(60, random_state=0).texts
    names = sorted({word for text in texts for word in text.split()})
    tables = np.random.default_rng(0).normal(size=(2, len(names), 3)).astype(np.float32)
    vectors = WordVectors(Vocabulary(names, list(range(len(names), 0, -1))), *tables)
    return [
        {"c.json": function(make_encoder("PB-L2", vectors), texts).to_json().encode()}
        for function in (pacsent.certify_encoder, paper.certify_words, paper.certify_squared_loss)
    ]


def results() -> list[Tree]:
    content = {"kind": "classification", "row": "PB-L2", "label": "PB-L2", "dataset": "subj"}
    content |= {"accuracy": 0.9, "sd": 0.01, "paper": 0.905, "scores": [{}, {}]}
    content |= {"seconds": {"train": 1.0}, "provenance": {"wall_seconds": 1.0}}
    return [{"PB-L2/subj.json": json.dumps(content).encode()}]


# ---- reading and using --------------------------------------------------------------------------


def only_finite(array) -> bytes:
    array = np.asarray(array)
    if not np.isfinite(array).all():
        raise AssertionError("not finite")
    return array.tobytes()


def use_words(vectors) -> bytes:
    vectors.check_finite()
    tables = [t for t in (vectors.input_vectors, vectors.output_vectors) if t is not None]
    if max(np.abs(table).max(initial=0) for table in tables) > 1e30:
        return b""  # finite, but sums of such numbers are not
    if vectors.n_words:
        vectors.most_similar(vectors.words[0], n=3)
    vectorizer = make_encoder("Average", vectors, n_jobs=1).fit(TEXTS)
    means = only_finite(vectorizer.transform([*TEXTS, *vectors.words[:3]]))
    return means + repr((vectors.words[:9], vectors.counts)).encode()


def use_folder(folder: Path) -> bytes:
    """Open the model of a folder, call what a user would, and return what came out."""
    model = load(folder / "m")
    if isinstance(model, WordVectors):
        model.check_contents()
        if model.subwords is not None:
            only_finite(model.input("unseen"))
        if model.fingerprint is not None:
            model.trained_on(TEXTS)
        return use_words(model)
    if isinstance(model, TextClassifier):
        model.predict(TEXTS)
        model.explain("good film zzz")
        model.top_features(model.classes_[0])
        return only_finite(model.predict_proba(TEXTS))
    if isinstance(model, pacsent.CertifiedClassifier):
        str(model.certificate_)
        model.predict_set(TEXTS, error=0.2)
        return only_finite(model.predict_proba(TEXTS))
    if isinstance(model, pacsent.Index):
        hits = repr(model.search(["good joy", "film"], k=3)).encode()
        model.add(["quiet film"])
        model.search(["good joy"], k=3)
        return hits
    if isinstance(model, ExternalEncoder):
        return only_finite(model.attach(lengths).encode(TEXTS))
    means, variances = model.posterior(TEXTS)
    known = np.asarray(variances)[np.isfinite(variances)]
    return only_finite(means) + known.tobytes()


def use_verified(folder: Path) -> bytes:
    """`use_folder` if every file is as it was saved, which `load` does not read all of."""
    problems = [step["found"] for step in storage.check(folder / "m") if not step["ok"]]
    if problems:
        raise ValueError(problems[0])
    return use_folder(folder)


def main_file(folder: Path) -> Path:
    """The file that a user would name, also if the damage was to remove it."""
    names = [p for p in folder.iterdir() if not p.name.startswith(("context_", "counts"))]
    return names[0] if names else folder / "lost"


def read_vectors(folder: Path) -> None:
    given = {"counts": folder / "counts"} if (folder / "counts").exists() else {}
    use_words(formats.read(main_file(folder), **given))


def read_corpus(folder: Path) -> None:
    settings = {"n_epochs": 1, "min_count": 1, "subsample": 0, "n_jobs": 1, "random_state": 0}
    SkipGram(4, **settings).fit(Corpus.open(folder / "c"))


def read_text(folder: Path) -> None:
    for _ in text.stream_texts(folder / "t", kind="text"):
        pass
    Corpus.build(folder / "t", folder / "c", min_count=1, n_jobs=1, overwrite=True)


def clean(wiki: bool, folder: Path) -> None:
    text.clean_files([folder / "t"], folder / "out", wiki=wiki, n_jobs=1, overwrite=True)
    if set((folder / "out").read_bytes()) - set(b"abcdefghijklmnopqrstuvwxyz \n"):
        raise AssertionError("other characters than letters, spaces and line breaks")


def read_labelled(folder: Path) -> None:
    path = main_file(folder)
    columns = {} if path.suffix == ".txt" else {"text_column": "text", "label_column": "label"}
    labelled_texts.read_labelled(path, **columns).split(0)


def read_dataset(name: str, folder: Path) -> None:
    entry = datasets.DATASETS[name]
    datasets.DATASETS[name] = replace(entry, facts={}, digest="")
    try:
        datasets.load(name, folder)
    finally:
        datasets.DATASETS[name] = entry


def read_certificate(folder: Path) -> None:
    content = (folder / "c.json").read_text(encoding="utf-8", errors="replace")
    str(certify.read_certificate(content))


TARGETS = {
    "word2vec-text": Target(partial(word2vec, "v.txt"), read_vectors),
    "word2vec-binary": Target(partial(word2vec, "v.bin"), read_vectors),
    "fasttext": Target(fasttext, read_vectors),
    "glove": Target(glove, read_vectors),
    "counts": Target(counts, read_vectors),
    **{f"saved-{k}": Target(m, use_verified, sealed=True) for k, m in saved_classes().items()},
    **{f"crafted-{k}": Target(m, use_folder, crafted=True) for k, m in saved_classes().items()},
    "corpus": Target(
        lambda: [make_tree(lambda folder: Corpus.build(TEXTS, folder / "c", min_count=1))],
        read_corpus,
    ),
    "checkpoint": Target(
        checkpoint,
        lambda path: only_finite(SkipGram.resume(path / "t", n_jobs=1).word_vectors_.input_vectors),
    ),
    "text": Target(packed_texts, read_text),
    "clean": Target(packed_texts, partial(clean, False)),
    "wiki": Target(dumps, partial(clean, True)),
    "labelled": Target(labelled, read_labelled),
    **{
        f"dataset-{name}": Target(partial(archives, name), partial(read_dataset, name))
        for name in DATASET_FILES
    },
    "certificate": Target(certificates, read_certificate),
    "results": Target(results, lambda path: report.accuracy_table(reproduction.read_results(path))),
}


# ---- cases --------------------------------------------------------------------------------------


@cache
def seeds(target: str) -> list[Tree]:
    return TARGETS[target].seeds()


def damaged_tree(target: str, number: int) -> Tree:
    """Case `number` of a target: always the same files."""
    rng = random.Random(zlib.crc32(target.encode()) * 1_000_003 + number)
    tree = dict(rng.choice(seeds(target)))
    if TARGETS[target].crafted:
        return crafted_tree(tree, rng)
    names = list(tree)
    for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
        if len(tree) > 1 and rng.random() < 0.03:
            del tree[name]
        else:
            tree[name] = damage(name, tree[name], tree.get(rng.choice(names), b""), rng)
    return tree


@cache
def prepare(target: str) -> list:
    """What intact files give; what they need is compiled then."""
    contents = []
    for tree in seeds(target):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_tree(tree, Path(folder, "intact"))
            contents.append(TARGETS[target].read(Path(folder, "intact")))
    return contents


def tree_case(target: str, name: str, make: Callable[[], Tree]) -> Case:
    def run():
        write_tree(make(), Path("damaged"))
        content = TARGETS[target].read(Path("damaged"))
        if TARGETS[target].sealed and content not in prepare(target):
            return "other numbers than those of the intact files"
        return ""

    return Case(f"{target} {name}", run, errors=(ValueError, OSError, ImportError))


def damaged_case(target: str, number: int) -> Case:
    return tree_case(target, str(number), partial(damaged_tree, target, number))


def cases(target: str) -> Iterator[Case]:
    return map(partial(damaged_case, target), itertools.count())
