"""What is fuzzed: for each reader, whole files to start from, and how they are read and used.

A target's `seeds` are trees, {name: bytes}; its `read` opens such a tree in a folder and uses what
it found, so that an accepted file that would fail later is noticed. Where damage must always be
noticed, `read` returns what came out, and another outcome than the whole files' is a finding.
"""

import bz2
import gzip
import io
import json
import lzma
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from pacsent import (
    CertifiedClassifier,
    Corpus,
    Index,
    SkipGram,
    TextClassifier,
    Vocabulary,
    WordVectors,
    certify_encoder,
    distill,
    guarantees,
    load,
    make_encoder,
    paper,
    save,
    text,
)
from pacsent.encoders import ExternalEncoder, as_encoder, methods
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import labelled as labelled_texts
from pacsent.paper import report, reproduction
from pacsent.registry import MODULES
from pacsent.words import compress, formats
from pacsent.words.subwords import Subwords

Tree = dict[str, bytes]
WORDS = ("film", "good", "quiet", "nil", "café", "joy")
METHODS = ("Average", "PB-IDF-L2", "SIF", "PB-neg", "w-PB-neg", "PV-DBOW", "PB-01")
TEXTS = ["good film film", "quiet joy", "", "nil good quiet zzz", "joy film"]


@dataclass(frozen=True)
class Target:
    seeds: Callable[[], list[Tree]]
    read: Callable[[Path], object]
    sealed: bool = False  # damage must be refused, or change nothing
    crafted: bool = False  # changed on purpose, with right checksums: refused or used


# ------------------------------------------------------------------------------------------------
# Seeds
# ------------------------------------------------------------------------------------------------


def tree_of(folder: Path) -> Tree:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def made(write: Callable[[Path], object]) -> Tree:
    with tempfile.TemporaryDirectory() as place:
        write(Path(place))
        return tree_of(Path(place))


def saved(*models) -> list[Tree]:
    return [made(lambda place, m=m: save(m, place / "m")) for m in models]


@cache
def word_vectors():
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(2, len(WORDS), 4)).astype(np.float32)
    return WordVectors(Vocabulary(list(WORDS), [60, 50, 40, 30, 20, 10]), *tables)


def word2vec(name: str) -> list[Tree]:
    pair = made(lambda place: formats.write(word_vectors(), place / name))
    return [pair, {name: pair[name]}, {f"{name}.gz": gzip.compress(pair[name], mtime=0)}]


def glove() -> list[Tree]:
    lines = "the 0.1 -2 3e-2\n. . 4 5 6\nat x@y.com 7 8 9\nnaïve 1 1 1\n"
    return [{"v.txt": lines.encode()}, {"v.txt.xz": lzma.compress(lines.encode())}]


def fasttext() -> list[Tree]:
    def file(bucket, maxn, loss=2):
        words = [("film", 9), ("good", 8), ("</s>", 7)]
        rng = np.random.default_rng(0)
        numbers = (793712314, 12, 4, 5, 5, 1, 5, 1, loss, 2, bucket, 2 if maxn else 0, maxn, 100)
        data = struct.pack("<14i", *numbers) + struct.pack("<d", 1e-4)
        data += struct.pack("<3i2q", len(words), len(words), 0, 24, -1)
        for word, count in words:
            data += word.encode() + b"\0" + struct.pack("<qb", count, 0)
        for n_rows in (len(words) + bucket, len(words)):
            table = rng.normal(size=(n_rows, 4)).astype("<f4")
            data += struct.pack("<?2q", False, n_rows, 4) + table.tobytes()
        return {"v.bin": data}

    return [file(5, 3), file(0, 0), file(5, 3, loss=1)]


def counts() -> list[Tree]:
    def write(place):
        formats.write(word_vectors(), place / "v.txt")
        vocabulary = word_vectors().vocabulary
        pairs = zip(vocabulary.words, vocabulary.counts)
        (place / "counts").write_text("".join(f"{word} {count}\n" for word, count in pairs))

    return [made(write)]


def model(method: str) -> list[Tree]:
    settings = {"n_epochs": 2, "n_jobs": 1} if "PV" in method or "w-" in method else {}
    fitted = make_encoder(method, word_vectors(), **settings).fit(TEXTS)
    return saved(fitted)


def classifier() -> list[Tree]:
    words = make_encoder("Average", word_vectors(), n_jobs=1)
    texts, labels = [*TEXTS, "good joy"] * 5, [0, 1, 0, 1, 0, 1] * 5
    one = TextClassifier(words).fit(texts, labels)
    several = TextClassifier(None).fit(texts, [{"a", "b"} if label else {"c"} for label in labels])
    return saved(one, several)


def certified_classifier() -> list[Tree]:
    texts = [f"{text} {i}" for i, text in enumerate([*TEXTS, "good joy"] * 20)]
    fitted = CertifiedClassifier(TextClassifier(None), calibration_size=0.5).fit(
        texts, ["a", "b", "a", "b", "a", "b"] * 20
    )
    return saved(fitted)


def index() -> list[Tree]:
    filled = Index(make_encoder("Average", word_vectors(), n_jobs=1).fit(TEXTS))
    filled.add(TEXTS)
    return saved(filled)


def len_of(texts):
    return [[1.0, len(text)] for text in texts]


def external_encoder() -> list[Tree]:
    return saved(ExternalEncoder(len_of, name="length"))


def student() -> list[Tree]:
    texts = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS[:2]]
    vectors = np.random.default_rng(2).normal(size=(len(texts), 4))
    return saved(distill(vectors, texts, n_subwords=3))


def concatenated_encoder() -> list[Tree]:
    parts = [
        make_encoder(name, word_vectors(), n_jobs=1).fit(TEXTS) for name in ("Average", "PB-L2")
    ]
    return saved(as_encoder(parts))


def words_folder() -> list[Tree]:
    return saved(word_vectors())


def words_folders() -> list[Tree]:
    """Word vectors with every part that they can have."""
    small = word_vectors()
    subwords = Subwords(np.random.default_rng(2).normal(size=(9, 4)).astype(np.float32), 2, 3)
    rng = np.random.default_rng(3)
    large = [f"w{i}" for i in range(10_000)]  # saved with its hash table
    return saved(
        small.replace(subwords=subwords).trained_on([" ".join(WORDS * 5)] * 3),
        compress(small, bits=4),
        WordVectors(Vocabulary(large), rng.normal(size=(10_000, 2)).astype(np.float16)),
    )


def saved_classes() -> dict[str, Callable[[], list[Tree]]]:
    """How a folder of every class that `load` can open is made, by the name of the class."""
    found: dict[str, Callable[[], list[Tree]]] = {
        "WordVectors": words_folders,
        "TextClassifier": classifier,
        "CertifiedClassifier": certified_classifier,
        "Index": index,
        "ExternalEncoder": external_encoder,
        "ConcatenatedEncoder": concatenated_encoder,
        "StaticEncoder": student,
    }
    for method in methods.METHODS:
        found.setdefault(
            type(make_encoder(method, word_vectors())).__name__, lambda m=method: model(m)
        )
    kinds = {name for role, name in MODULES if role == "kind"} - {"SentenceVectorizer"}
    missing = (set(methods.ESTIMATORS) | kinds) - set(found)
    assert not missing, f"say how to make a saved {missing}"
    return found


def use_any(folder: Path) -> None:
    """Open whatever a folder holds and call all that a user would."""
    found = load(folder / "m")
    if isinstance(found, WordVectors):
        use_words(found)
        found.check_contents()
        if found.subwords is not None:
            only_finite(found.input("unseen"))
        if found.fingerprint is not None:
            found.trained_on(TEXTS)
    elif isinstance(found, TextClassifier):
        only_finite(found.predict_proba(TEXTS))
        found.predict(TEXTS)
        found.explain("good film zzz")
        found.top_features(found.classes_[0])
    elif isinstance(found, CertifiedClassifier):
        only_finite(found.predict_proba(TEXTS))
        str(found.certificate_)
        found.predict_set(TEXTS, error=0.2)
    elif isinstance(found, Index):
        found.search(["good joy", "film"], k=3)
        found.add(["quiet film"])
        found.search(["good joy"], k=3)
    elif isinstance(found, ExternalEncoder):
        found.attach(len_of)
        only_finite(found.encode(TEXTS))
    else:
        only_finite(found.posterior(TEXTS)[0])


def corpus() -> list[Tree]:
    return [made(lambda place: Corpus.build(TEXTS * 3, place / "c", min_count=1))]


def checkpoint() -> list[Tree]:
    def write(place):
        SkipGram(
            4, n_epochs=2, min_count=1, subsample=0, n_jobs=1, random_state=0,
            checkpoint_dir=place / "t", checkpoint_every=0,
        ).fit(TEXTS * 30)  # fmt: skip

    return [made(write)]


def packed_texts() -> list[Tree]:
    text = "Good film, 1984.\n\nQuiet: joy — naïve\nnil\r\nlast line".encode()
    seeds = [{"t": text}, {"t": gzip.compress(text, mtime=0) * 2}, {"t": bz2.compress(text)}]
    seeds += [{"t": lzma.compress(text)}, {"t": b"\xef\xbb\xbf" + text}]
    return [*seeds, {"t": pa.Codec("zstd").compress(text, asbytes=True)}]


def dumps() -> list[Tree]:
    text = (
        b"<mediawiki><page><title>A</title><text xml:space='preserve'>'''Bold''' [[link|shown]] "
        b"{{template}} &lt;ref&gt;x&lt;/ref&gt; 12 <!-- no --> [http://x y]</text></page>\n"
        b"<page><text>#REDIRECT [[B]]</text></page>\n<page><text>More text here</text></page>\n"
    )
    return [{"t": text}, {"t": bz2.compress(text)}]


def labelled() -> list[Tree]:
    return [
        {"t.txt": b"a\tgood film\nb\tquiet joy\na\tnil\n"},
        {"t.csv": b'text,label,x\n"good, film",a,1\nquiet,b,2\n"two\nlines",a,3\n'},
        {"t.tsv": b"text\tlabel\ngood film\ta\nquiet\tb\n"},
    ]


DATASET_FILES = {
    "20news": {
        f"20news-bydate-{part}/{group}/{number}": b"From: a@b\nSubject: x\n\nbody caf\xe9\n"
        for part in ("train", "test") for group in ("alt.atheism", "sci.med") for number in (1, 2)
    },
    "imdb": {
        f"aclImdb/{part}/{label}/{number}_7.txt": "fine<br />film é".encode()
        for part in ("train", "test") for label in ("pos", "neg") for number in (0, 1)
    },
    "subj": {"plot.tok.gt9.5000": b"a man .\nb\x85\n", "quote.tok.gt9.5000": b"fun !\njoy\n"},
    "mr": {"x/rt-polarity.pos": b"good .\nfine\n", "x/rt-polarity.neg": b"bad\nworse \xe9\n"},
    "trec": {"train_5500.label": b"DESC:manner How ?\nHUM:ind Who ?\n",
             "TREC_10.label": b"NUM:dist How far ?\n"},
    "stsb": {f"s/sts-{part}.csv": b"main\tx\t2012\t1\t2.500\tA man.\tA boy.\n" * 2
             for part in ("train", "dev", "test")},
}  # fmt: skip


def archives(name: str) -> list[Tree]:
    stem = datasets.DATASETS[name].archives[0]
    files = DATASET_FILES[name]
    seeds = [{f"{stem}/{path}": content for path, content in files.items()}]
    for suffix, mode in ((".tar.gz", "w:gz"), (".tar.xz", "w:xz")):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as archive:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        seeds.append({f"{stem}{suffix}": packed.getvalue()})
    return seeds


def certificates() -> list[Tree]:
    texts = datasets.generate(60, random_state=0).texts
    found = sorted({word for text in texts for word in text.split()})
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(2, len(found), 3)).astype(np.float32)
    words = WordVectors(Vocabulary(found, list(range(len(found), 0, -1))), *tables)
    return [
        {"c.json": function(make_encoder("PB-L2", words), texts).to_json().encode()}
        for function in (certify_encoder, paper.certify_words, paper.certify_squared_loss)
    ]


def results() -> list[Tree]:
    content = {
        "kind": "classification", "row": "PB-L2", "label": "PB-L2", "dataset": "subj",
        "accuracy": 0.9, "sd": 0.01, "paper": 0.905, "scores": [{}, {}], "seconds": {"train": 1.0},
        "provenance": {"wall_seconds": 1.0},
    }  # fmt: skip
    return [{"PB-L2/subj.json": json.dumps(content).encode()}]


# ------------------------------------------------------------------------------------------------
# Reading and using
# ------------------------------------------------------------------------------------------------


def only_finite(array) -> np.ndarray:
    array = np.asarray(array)
    if not np.isfinite(array).all():
        raise AssertionError("what came out is not finite")
    return array


def use_words(words) -> bytes:
    words.check_finite()
    tables = [t for t in (words.input_vectors, words.output_vectors) if t is not None]
    if max(np.abs(table).max(initial=0) for table in tables) > 1e30:
        return b""  # finite, but sums of such numbers are not
    if words.n_words:
        words.most_similar(words.words[0], n=3)
    vectorizer = make_encoder("Average", words, n_jobs=1).fit(TEXTS)
    return only_finite(vectorizer.transform([*TEXTS, *words.words[:3]])).tobytes()


def main_file(folder: Path) -> Path:
    """The file a user would name, also where the damage was to lose it."""
    names = [p for p in folder.iterdir() if not p.name.startswith(("context_", "counts"))]
    return names[0] if names else folder / "lost"


def read_vectors(folder: Path) -> None:
    use_words(formats.read(main_file(folder)))


def read_with_counts(folder: Path) -> None:
    use_words(formats.read(main_file(folder), counts=folder / "counts"))


def read_words_folder(folder: Path) -> bytes:
    words = load(folder / "m")
    return use_words(words) + repr((words.words[:9], words.counts)).encode()


def read_model(folder: Path) -> bytes:
    means, variances = load(folder / "m").posterior(TEXTS)
    known = np.asarray(variances)[np.isfinite(variances)]
    return only_finite(means).tobytes() + known.tobytes()


def read_classifier(folder: Path) -> bytes:
    return only_finite(load(folder / "m").predict_proba(TEXTS)).tobytes()


def read_index(folder: Path) -> bytes:
    return repr(load(folder / "m").search(["good joy", "film"], k=3)).encode()


def read_corpus(folder: Path) -> None:
    found = Corpus.open(folder / "c")
    SkipGram(4, n_epochs=1, min_count=1, subsample=0, n_jobs=1, random_state=0).fit(found)


def read_checkpoint(folder: Path) -> None:
    found = SkipGram.resume(folder / "t", n_jobs=1).word_vectors_
    only_finite(found.input_vectors)


def read_text(folder: Path) -> None:
    for _ in text.stream_texts(folder / "t", kind="text"):
        pass
    Corpus.build(folder / "t", folder / "c", min_count=1, n_jobs=1, overwrite=True)


def clean(folder: Path, wiki: bool) -> None:
    text.clean_files([folder / "t"], folder / "out", wiki=wiki, n_jobs=1, overwrite=True)
    written = (folder / "out").read_bytes()
    if set(written) - set(b"abcdefghijklmnopqrstuvwxyz \n"):
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
    str(guarantees.read_certificate(content))


def read_results(folder: Path) -> None:
    report.accuracy_table(reproduction.read_results(folder))


TARGETS = {
    "word2vec-text": Target(lambda: word2vec("v.txt"), read_vectors),
    "word2vec-binary": Target(lambda: word2vec("v.bin"), read_vectors),
    "fasttext": Target(fasttext, read_vectors),
    "glove": Target(glove, read_vectors),
    "counts": Target(counts, read_with_counts),
    "words-folder": Target(words_folder, read_words_folder, sealed=True),
    **{
        f"model-{method}": Target(lambda m=method: model(m), read_model, sealed=True)
        for method in METHODS
    },
    "classifier": Target(classifier, read_classifier, sealed=True),
    "index": Target(index, read_index, sealed=True),
    **{
        f"crafted-{name}": Target(seeds, use_any, crafted=True)
        for name, seeds in saved_classes().items()
    },
    "corpus": Target(corpus, read_corpus),
    "checkpoint": Target(checkpoint, read_checkpoint),
    "text": Target(packed_texts, read_text),
    "clean": Target(packed_texts, lambda folder: clean(folder, wiki=False)),
    "wiki": Target(dumps, lambda folder: clean(folder, wiki=True)),
    "labelled": Target(labelled, read_labelled),
    **{
        f"dataset-{name}": Target(
            lambda n=name: archives(n), lambda folder, n=name: read_dataset(n, folder)
        )
        for name in DATASET_FILES
    },
    "certificate": Target(certificates, read_certificate),
    "results": Target(results, read_results),
}


def write_tree(tree: Tree, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
