"""Damaged files for every reader: for each, intact files, and how they are read and used.

A target's `seeds` are trees of intact files; its `read` opens such a tree in a folder and uses what
it contains, so that an accepted file that would fail later is noticed. If it is `sealed`, damage
must be noticed: what `read` returns must be what an intact tree gives. Every case has a number from
which it is made again: `python -m hostile --case "TARGET NUMBER"`.
"""

import itertools
import random
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

import pacsent
from hostile import intact_files
from hostile.crafted import crafted_tree
from hostile.damage import damage
from hostile.material import TEXTS, Tree, write_tree
from hostile.running import Case
from pacsent import (
    Corpus,
    SkipGram,
    TextClassifier,
    WordVectors,
    certify,
    load,
    make_encoder,
    storage,
    text,
)
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import labelled as labelled_texts
from pacsent.paper import report, reproduction
from pacsent.sentences import ExternalEncoder
from pacsent.words import formats

# ---- use of what was read -----------------------------------------------------------------------

# Sums of larger numbers are not finite.
_MAX_NUMBER = 1e30


def only_finite(array) -> bytes:
    array = np.asarray(array)
    if not np.isfinite(array).all():
        raise AssertionError("not finite")
    return array.tobytes()


def _largest(vectors: WordVectors) -> float:
    tables = [vectors.input_vectors, vectors.output_vectors]
    return max(np.abs(table).max(initial=0) for table in tables if table is not None)


def use_words(vectors: WordVectors) -> bytes:
    vectors.check_finite()
    if _largest(vectors) > _MAX_NUMBER:
        return b""

    if vectors.n_words:
        vectors.most_similar(vectors.words[0], n=3)
    average = make_encoder("Average", vectors, n_jobs=1).fit(TEXTS)
    some_words = vectors.words[:3]
    means = only_finite(average.transform([*TEXTS, *some_words]))
    return means + repr((vectors.words[:9], vectors.counts)).encode()


def _use_all_of_words(vectors: WordVectors) -> bytes:
    vectors.check_contents()
    if vectors.subwords is not None:
        only_finite(vectors.input("unseen"))
    if vectors.fingerprint is not None:
        vectors.trained_on(TEXTS)
    return use_words(vectors)


def _use_classifier(classifier: TextClassifier) -> bytes:
    classifier.predict(TEXTS)
    classifier.explain("good film zzz")
    classifier.top_features(classifier.classes_[0])
    return only_finite(classifier.predict_proba(TEXTS))


def _use_certified(certified: pacsent.CertifiedClassifier) -> bytes:
    str(certified.certificate_)
    certified.predict_set(TEXTS, error=0.2)
    return only_finite(certified.predict_proba(TEXTS))


def _use_index(index: pacsent.Index) -> bytes:
    hits = index.search(["good joy", "film"], k=3)
    description = repr(hits).encode()

    index.add(["quiet film"])
    index.search(["good joy"], k=3)
    return description


def _use_encoder(encoder) -> bytes:
    means, variances = encoder.posterior(TEXTS)
    is_known = np.isfinite(variances)
    known = np.asarray(variances)[is_known]
    return only_finite(means) + known.tobytes()


# ---- readers of folders and files ---------------------------------------------------------------


def use_folder(folder: Path) -> bytes:
    """Open the model of a folder, call what a user would, and return what came out."""
    model = load(folder / "m")
    if isinstance(model, WordVectors):
        return _use_all_of_words(model)
    if isinstance(model, TextClassifier):
        return _use_classifier(model)
    if isinstance(model, pacsent.CertifiedClassifier):
        return _use_certified(model)
    if isinstance(model, pacsent.Index):
        return _use_index(model)
    if isinstance(model, ExternalEncoder):
        attached = model.attach(intact_files.lengths)
        return only_finite(attached.encode(TEXTS))
    return _use_encoder(model)


def use_verified(folder: Path) -> bytes:
    """`use_folder` if every file is as it was saved, which `load` does not read all of."""
    for step in storage.check(folder / "m"):
        if not step["ok"]:
            raise ValueError(step["found"])
    return use_folder(folder)


def main_file(folder: Path) -> Path:
    """The file that a user would name, also if the damage was to remove it."""
    for path in folder.iterdir():
        if not path.name.startswith(("context_", "counts")):
            return path
    return folder / "lost"


def read_vectors(folder: Path) -> None:
    path = main_file(folder)
    counts = folder / "counts"
    vectors = formats.read(path, counts=counts) if counts.exists() else formats.read(path)
    use_words(vectors)


def read_corpus(folder: Path) -> None:
    trainer = SkipGram(4, n_epochs=1, **intact_files.TRAINING)
    trainer.fit(Corpus.open(folder / "c"))


def read_checkpoint(folder: Path) -> None:
    trainer = SkipGram.resume(folder / "t", n_jobs=1)
    only_finite(trainer.word_vectors_.input_vectors)


def read_text(folder: Path) -> None:
    for _ in text.stream_texts(folder / "t", kind="text"):
        pass
    Corpus.build(folder / "t", folder / "c", min_count=1, n_jobs=1, overwrite=True)


def clean(wiki: bool, folder: Path) -> None:
    text.clean_files([folder / "t"], folder / "out", wiki=wiki, n_jobs=1, overwrite=True)

    allowed = set(b"abcdefghijklmnopqrstuvwxyz \n")
    if set((folder / "out").read_bytes()) - allowed:
        raise AssertionError("other characters than letters, spaces and line breaks")


def read_labelled(folder: Path) -> None:
    path = main_file(folder)
    if path.suffix == ".txt":
        read = labelled_texts.read_labelled(path)
    else:
        read = labelled_texts.read_labelled(path, text_column="text", label_column="label")
    read.split(0)


def read_dataset(name: str, folder: Path) -> None:
    """Read a data set whose digest and number of texts are not compared."""
    entry = datasets.DATASETS[name]
    datasets.DATASETS[name] = replace(entry, facts={}, digest="")
    try:
        datasets.load(name, folder)
    finally:
        datasets.DATASETS[name] = entry


def read_certificate(folder: Path) -> None:
    content = (folder / "c.json").read_text(encoding="utf-8", errors="replace")
    certificate = certify.read_certificate(content)
    str(certificate)


def read_results(folder: Path) -> None:
    results = reproduction.read_results(folder)
    report.accuracy_table(results)


# ---- targets ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    seeds: Callable[[], list[Tree]]
    read: Callable[[Path], object]
    sealed: bool = False  # damage must be noticed, or change nothing
    crafted: bool = False  # changed on purpose, with right checksums: refused or used


TARGETS = {
    "word2vec-text": Target(partial(intact_files.word2vec, "v.txt"), read_vectors),
    "word2vec-binary": Target(partial(intact_files.word2vec, "v.bin"), read_vectors),
    "fasttext": Target(intact_files.fasttext, read_vectors),
    "glove": Target(intact_files.glove, read_vectors),
    "counts": Target(intact_files.counts, read_vectors),
    "corpus": Target(intact_files.corpus, read_corpus),
    "checkpoint": Target(intact_files.checkpoint, read_checkpoint),
    "text": Target(intact_files.packed_texts, read_text),
    "clean": Target(intact_files.packed_texts, partial(clean, False)),
    "wiki": Target(intact_files.dumps, partial(clean, True)),
    "labelled": Target(intact_files.labelled, read_labelled),
    "certificate": Target(intact_files.certificates, read_certificate),
    "results": Target(intact_files.results, read_results),
}
for _name, _make in intact_files.saved_classes().items():
    TARGETS[f"saved-{_name}"] = Target(_make, use_verified, sealed=True)
    TARGETS[f"crafted-{_name}"] = Target(_make, use_folder, crafted=True)
for _name in intact_files.DATASET_FILES:
    _make = partial(intact_files.archives, _name)
    TARGETS[f"dataset-{_name}"] = Target(_make, partial(read_dataset, _name))


# ---- cases --------------------------------------------------------------------------------------


@cache
def seeds(target: str) -> list[Tree]:
    return TARGETS[target].seeds()


def damaged_tree(target: str, number: int) -> Tree:
    """Case `number` of a target: always the same files."""
    seed = zlib.crc32(target.encode()) * 1_000_003 + number
    rng = random.Random(seed)
    tree = dict(rng.choice(seeds(target)))
    if TARGETS[target].crafted:
        return crafted_tree(tree, rng)

    names = list(tree)
    n_damaged = min(len(names), rng.choice((1, 1, 1, 2)))
    for name in rng.sample(names, n_damaged):
        if len(tree) > 1 and rng.random() < 0.03:
            del tree[name]
        else:
            other = tree.get(rng.choice(names), b"")
            tree[name] = damage(name, tree[name], other, rng)
    return tree


def _read_intact(target: str, tree: Tree):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "intact")
        write_tree(tree, folder)
        return TARGETS[target].read(folder)


@cache
def prepare(target: str) -> list:
    """What intact files give; what they need is compiled then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_read_intact(target, tree) for tree in seeds(target)]


def tree_case(target: str, name: str, make: Callable[[], Tree]) -> Case:
    def run():
        folder = Path("damaged")
        write_tree(make(), folder)
        content = TARGETS[target].read(folder)
        if TARGETS[target].sealed and content not in prepare(target):
            return "other numbers than those of the intact files"
        return ""

    return Case(f"{target} {name}", run, errors=(ValueError, OSError, ImportError))


def damaged_case(target: str, number: int) -> Case:
    return tree_case(target, str(number), partial(damaged_tree, target, number))


def cases(target: str) -> Iterator[Case]:
    return map(partial(damaged_case, target), itertools.count())
