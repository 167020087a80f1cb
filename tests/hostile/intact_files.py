"""Intact files of every kind that can be read, as trees; damaged ones are made from them.

A kind has one tree or several: every form in which its content can be written.
"""

import bz2
import gzip
import io
import itertools
import json
import lzma
import struct
import tarfile
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import pacsent
from hostile.material import QUICK, TEXTS, WORDS, Tree, make_tree, new, words
from pacsent import (
    Corpus,
    SkipGram,
    TextClassifier,
    Vocabulary,
    WordVectors,
    make_encoder,
    paper,
    registry,
)
from pacsent.paper import benchmark_datasets as datasets
from pacsent.sentences import ExternalEncoder, as_encoder, methods
from pacsent.words import compress, formats
from pacsent.words.subwords import Subwords

# Makes the trees of a kind.
Maker = Callable[[], list[Tree]]

# ---- word vectors of other programs -------------------------------------------------------------


def word2vec(name: str) -> list[Tree]:
    """Both matrices, the input vectors alone, and these compressed."""
    pair = make_tree(lambda folder: formats.write(words(), folder / name))
    content = pair[name]
    compressed = gzip.compress(content, mtime=0)
    return [pair, {name: content}, {f"{name}.gz": compressed}]


def glove() -> list[Tree]:
    lines = "the 0.1 -2 3e-2\n. . 4 5 6\nat x@y.com 7 8 9\nnaïve 1 1 1\n"
    content = lines.encode()
    return [{"v.txt": content}, {"v.txt.xz": lzma.compress(content)}]


FASTTEXT_MAGIC = 793712314
FASTTEXT_VERSION = 12
FASTTEXT_COUNTS = {"film": 9, "good": 8, "</s>": 7}


def _fasttext_settings(loss: int, n_buckets: int, max_n: int) -> bytes:
    min_n = 2 if max_n else 0
    n_dims = 4
    window = 5
    n_epochs = 5
    min_count = 1
    n_negatives = 5
    n_word_ngrams = 1
    model = 2  # Skip-gram
    update_rate = 100
    numbers = [FASTTEXT_MAGIC, FASTTEXT_VERSION, n_dims, window, n_epochs, min_count]
    numbers += [n_negatives, n_word_ngrams, loss, model, n_buckets, min_n, max_n, update_rate]
    subsample = 1e-4
    return struct.pack("<14i", *numbers) + struct.pack("<d", subsample)


def _fasttext_words() -> bytes:
    n_words = len(FASTTEXT_COUNTS)
    n_labels = 0
    n_tokens = sum(FASTTEXT_COUNTS.values())
    content = struct.pack("<3i2q", n_words, n_words, n_labels, n_tokens, -1)
    for word, count in FASTTEXT_COUNTS.items():
        content += word.encode() + b"\0" + struct.pack("<qb", count, 0)
    return content


def _fasttext_file(n_buckets: int, max_n: int, loss: int = 2) -> Tree:
    content = _fasttext_settings(loss, n_buckets, max_n) + _fasttext_words()
    rng = np.random.default_rng(0)
    n_words = len(FASTTEXT_COUNTS)
    for n_rows in (n_words + n_buckets, n_words):  # input and output vectors
        table = rng.normal(size=(n_rows, 4)).astype("<f4")
        is_quantized = False
        content += struct.pack("<?2q", is_quantized, n_rows, 4) + table.tobytes()
    return {"v.bin": content}


def fasttext() -> list[Tree]:
    """With subwords, without them, and with the hierarchical softmax."""
    return [
        _fasttext_file(n_buckets=5, max_n=3),
        _fasttext_file(n_buckets=0, max_n=0),
        _fasttext_file(n_buckets=5, max_n=3, loss=1),
    ]


def counts() -> list[Tree]:
    """Word vectors beside a file of counts."""

    def write(folder):
        vocabulary = words().vocabulary
        formats.write(words(), folder / "v.txt")
        with open(folder / "counts", "w") as file:
            for word, count in zip(vocabulary.words, vocabulary.counts):
                file.write(f"{word} {count}\n")

    return [make_tree(write)]


# ---- saved models -------------------------------------------------------------------------------


def saved(*models) -> list[Tree]:
    def write(model, folder):
        pacsent.save(model, folder / "m")

    return [make_tree(partial(write, model)) for model in models]


def word_vectors() -> list[Tree]:
    """Word vectors with every part that they can have."""
    rng = np.random.default_rng(3)
    subword_vectors = rng.normal(size=(9, 6)).astype(np.float32)
    subwords = Subwords(subword_vectors, 2, 3)
    training_texts = [" ".join(WORDS * 5)] * 3
    with_subwords = words().replace(subwords=subwords).trained_on(training_texts)

    many_names = [f"w{number}" for number in range(10_000)]  # saved with its hash table
    table = rng.normal(size=(10_000, 2)).astype(np.float16)
    large = WordVectors(Vocabulary(many_names), table)
    return saved(with_subwords, compress(words(), bits=4), large)


def classifiers() -> list[Tree]:
    """With word vectors and one class for each text, and without them and sets of labels."""
    labels = [0, 1] * (len(TEXTS) // 2)
    label_sets = [{"a", "b"} if label else {"c"} for label in labels]
    of_classes = TextClassifier(new("Average")).fit(TEXTS, labels)
    of_sets = TextClassifier(None).fit(TEXTS, label_sets)
    return saved(of_classes, of_sets)


def certified_classifier() -> list[Tree]:
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 5)]
    labels = ["a", "b"] * (len(texts) // 2)
    certified = pacsent.CertifiedClassifier(TextClassifier(None), calibration_size=0.5)
    return saved(certified.fit(texts, labels))


def index() -> list[Tree]:
    filled = pacsent.Index(new("Average").fit(TEXTS))
    filled.add(TEXTS)
    return saved(filled)


def lengths(texts):
    """An encoder of another program."""
    return [[1.0, len(text)] for text in texts]


def external_encoder() -> list[Tree]:
    return saved(ExternalEncoder(lengths, name="length"))


def concatenated_encoder() -> list[Tree]:
    average = new("Average").fit(TEXTS)
    pb_l2 = new("PB-L2").fit(TEXTS)
    return saved(as_encoder([average, pb_l2]))


def student() -> list[Tree]:
    triples = itertools.product(WORDS, WORDS, WORDS[:2])
    texts = [" ".join(triple) for triple in triples]
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(len(texts), 4))
    return saved(pacsent.distill(vectors, texts, n_subwords=3))


def _estimator(method: str):
    settings = QUICK.get(method.removeprefix("i-"), {})
    return make_encoder(method, words(), n_jobs=1, **settings)


def fitted_estimator(method: str) -> list[Tree]:
    return saved(_estimator(method).fit(TEXTS))


def saved_classes() -> dict[str, Maker]:
    """How a folder of every class that `load` can open is made, by the name of the class."""
    makers: dict[str, Maker] = {
        "WordVectors": word_vectors,
        "TextClassifier": classifiers,
        "CertifiedClassifier": certified_classifier,
        "Index": index,
        "ExternalEncoder": external_encoder,
        "ConcatenatedEncoder": concatenated_encoder,
        "StaticEncoder": student,
    }
    for method in methods.METHODS:
        name = type(_estimator(method)).__name__
        makers.setdefault(name, partial(fitted_estimator, method))

    # A `SentenceVectorizer` is one of the estimators.
    kinds = set(registry.MODULES["model"]) - {"SentenceVectorizer"}
    missing = (set(methods.ESTIMATORS) | kinds) - set(makers)
    assert not missing, f"add how to make a saved {missing}"
    return makers


# ---- folders of a training ----------------------------------------------------------------------

TRAINING = {"min_count": 1, "subsample": 0, "n_jobs": 1, "random_state": 0}


def corpus() -> list[Tree]:
    def build(folder):
        Corpus.build(TEXTS, folder / "c", min_count=1)

    return [make_tree(build)]


def checkpoint() -> list[Tree]:
    def train(folder):
        trainer = SkipGram(4, n_epochs=2, **TRAINING)
        trainer.set_params(checkpoint_dir=folder / "t", checkpoint_every=0)
        trainer.fit(TEXTS * 8)

    return [make_tree(train)]


# ---- texts --------------------------------------------------------------------------------------


def packed_texts() -> list[Tree]:
    """A text file, compressed in every way that is read, plain, and with a byte order mark."""
    content = "Good film, 1984.\n\nQuiet: joy — naïve\nnil\r\nlast line".encode()
    two_members = gzip.compress(content, mtime=0) * 2
    with_mark = b"\xef\xbb\xbf" + content
    zstd = pa.Codec("zstd").compress(content, asbytes=True)
    packed = [two_members, bz2.compress(content), lzma.compress(content), content, with_mark, zstd]
    return [{"t": data} for data in packed]


def dumps() -> list[Tree]:
    """A dump of a wiki, plain and compressed."""
    content = (
        b"<mediawiki><page><title>A</title><text xml:space='preserve'>'''Bold''' [[link|shown]] "
        b"{{template}} &lt;ref&gt;x&lt;/ref&gt; 12 <!-- no --> [http://x y]</text></page>\n"
        b"<page><text>#REDIRECT [[B]]</text></page>\n<page><text>More text here</text></page>\n"
    )
    return [{"t": content}, {"t": bz2.compress(content)}]


def labelled() -> list[Tree]:
    """Labelled texts in each of the formats."""
    return [
        {"t.txt": b"a\tgood film\nb\tquiet joy\na\tnil\n"},
        {"t.csv": b'text,label,x\n"good, film",a,1\nquiet,b,2\n"two\nlines",a,3\n'},
        {"t.tsv": b"text\tlabel\ngood film\ta\nquiet\tb\n"},
    ]


# ---- data sets ----------------------------------------------------------------------------------

# data set -> the names of its files
DATASET_FILES = {
    "20news": (
        "20news-bydate-train/alt.atheism/1",
        "20news-bydate-train/alt.atheism/2",
        "20news-bydate-train/sci.med/1",
        "20news-bydate-train/sci.med/2",
        "20news-bydate-test/alt.atheism/1",
        "20news-bydate-test/alt.atheism/2",
        "20news-bydate-test/sci.med/1",
        "20news-bydate-test/sci.med/2",
    ),
    "imdb": (
        "aclImdb/train/pos/0_7.txt",
        "aclImdb/train/pos/1_7.txt",
        "aclImdb/train/neg/0_7.txt",
        "aclImdb/train/neg/1_7.txt",
        "aclImdb/test/pos/0_7.txt",
        "aclImdb/test/pos/1_7.txt",
        "aclImdb/test/neg/0_7.txt",
        "aclImdb/test/neg/1_7.txt",
    ),
    "subj": ("plot.tok.gt9.5000", "quote.tok.gt9.5000"),
    "mr": ("x/rt-polarity.pos", "x/rt-polarity.neg"),
    "trec": ("train_5500.label", "TREC_10.label"),
    "stsb": ("s/sts-train.csv", "s/sts-dev.csv", "s/sts-test.csv"),
}
DATASET_LINES = {
    "20news": b"From: a@b\nSubject: x\n\nbody caf\xe9\n",
    "imdb": "fine<br />film é".encode(),
    "subj": b"good .\nfine \xe9\n",
    "mr": b"good .\nfine \xe9\n",
    "trec": b"DESC:manner How ?\nHUM:ind Who ?\n",
    "stsb": b"main\tx\t2012\t1\t2.500\tA man.\tA boy.\n" * 2,
}


def _archive(files: Tree, suffix: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{suffix}") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def archives(name: str) -> list[Tree]:
    """The files of a data set as a folder and as two archives."""
    stem = datasets.DATASETS[name].archives[0]
    files = dict.fromkeys(DATASET_FILES[name], DATASET_LINES[name])
    return [
        {f"{stem}/{path}": content for path, content in files.items()},
        {f"{stem}.tar.gz": _archive(files, "gz")},
        {f"{stem}.tar.xz": _archive(files, "xz")},
    ]


# ---- certificates and results -------------------------------------------------------------------


def certificates() -> list[Tree]:
    texts = datasets.generate(60, random_state=0).texts
    names = sorted(set(" ".join(texts).split()))
    n_words = len(names)
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(2, n_words, 3)).astype(np.float32)
    falling_counts = list(range(n_words, 0, -1))
    vectors = WordVectors(Vocabulary(names, falling_counts), *tables)

    trees = []
    for certify in (pacsent.certify_encoder, paper.certify_words, paper.certify_squared_loss):
        certificate = certify(make_encoder("PB-L2", vectors), texts)
        trees.append({"c.json": certificate.to_json().encode()})
    return trees


def results() -> list[Tree]:
    """A result of the reproduction of the tables."""
    content = {
        "kind": "classification",
        "row": "PB-L2",
        "label": "PB-L2",
        "dataset": "subj",
        "accuracy": 0.9,
        "sd": 0.01,
        "paper": 0.905,
        "scores": [{}, {}],
        "seconds": {"train": 1.0},
        "provenance": {"wall_seconds": 1.0},
    }
    return [{"PB-L2/subj.json": json.dumps(content).encode()}]
