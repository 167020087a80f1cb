"""The benchmark datasets, described as data, and the generative model of the paper.

An entry of `DATASETS` says in which archive a dataset comes, how to read it and what must be true
of it. Archives are read where they lie, without unpacking; what does not fit the facts is refused
by name. Nothing here cleans or tokenises text.
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.paper import books
from pacsent.paper.generative import GenerativeCorpus, generate
from pacsent.paper.labelled import Dataset, read_labelled
from pacsent.text.reading import Source
from pacsent.words.formats import read
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

__all__ = [
    "DATASETS", "Dataset", "Entry", "GenerativeCorpus", "Pairs", "data_folder", "find", "generate",
    "load", "load_word_vectors", "read_labelled",
]  # fmt: skip

BOOKS = "books"  # in place of a folder: the passages that ship with the package
SUFFIXES = (".tar.xz", ".tar.gz", ".tgz", ".tar.bz2", ".tar.zst", ".tar")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentence pairs with a human similarity score from 0 to 5 (STS-B), by part."""

    name: str
    first: dict[str, list[str]]
    second: dict[str, list[str]]
    scores: dict[str, np.ndarray]
    digest: str


class Member(NamedTuple):
    """One file inside an archive or folder."""

    path: str
    content: bytes


@dataclass(frozen=True)
class Entry:
    """What is known about a dataset: where it comes from, how it is read, what must be true."""

    archives: tuple[str, ...]  # stems of archive or folder names, as distributed
    members: str  # regular expression: the end of the paths that are read
    read: Callable[[list[Member]], tuple]
    facts: dict[str, int]
    source: str
    digest: str


def decoded(member: Member, encoding: str) -> str:
    """The text of a file, or an error that names the byte which is wrong."""
    try:
        return member.content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{member.path} must be {encoding} text. Got the byte "
            f"{member.content[error.start]:#04x} at position {error.start:,} instead. "
            "The file is damaged or is not the original; fetch the archive again."
        ) from None


def lines_of(member: Member, encoding: str) -> list[str]:
    """The lines of a file."""
    # not str.splitlines: it also cuts at NEL, which these files hold inside sentences
    lines = member.content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return [decoded(Member(member.path, line.rstrip(b"\r")), encoding) for line in lines]


def _labelled(rows: Iterable[tuple[str, str, str]]) -> tuple:
    """Texts and labels of both parts, and the classes, of rows (part, label, text)."""
    parts: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
    for part, label, text in rows:
        parts[part][0].append(text)
        parts[part][1].append(label)
    classes, numbers = np.unique(parts["train"][1] + parts["test"][1], return_inverse=True)
    train, test = parts["train"][0], parts["test"][0]
    return train, numbers[: len(train)], test, numbers[len(train) :], tuple(classes.tolist())


def _read_files(members, encoding):
    """One text per file, in the folder of its class, in the folder of its part."""
    folders = [member.path.split("/")[-3:-1] for member in members]
    return _labelled(
        ("train" if part.endswith("train") else "test", label, decoded(member, encoding))
        for member, (part, label) in zip(members, folders)
    )


def _read_lines(members, classes: dict[str, str]):
    """One text per line, in the file of its class."""
    return _labelled(
        ("train", label, line)
        for ending, label in classes.items()
        for member in members
        if member.path.endswith(ending)
        for line in lines_of(member, "cp1252")
    )


def _read_trec(members):
    rows = []
    for member in members:
        part = "train" if member.path.endswith("train_5500.label") else "test"
        for number, line in enumerate(lines_of(member, "latin-1"), 1):
            kind, _, question = line.partition(" ")
            coarse, colon, _ = kind.partition(":")
            if not colon or not question:
                raise ValueError(
                    f"Line {number:,} of {member.path} must be 'COARSE:fine question'. "
                    f"Got {line[:40]!r} instead. Fetch the archive again."
                )
            rows.append((part, coarse, question))
    return _labelled(rows)


def _read_stsb(members):
    first: dict[str, list[str]] = {}
    second: dict[str, list[str]] = {}
    scores: dict[str, np.ndarray] = {}
    for member in members:
        part = member.path[:-4].rsplit("-", 1)[1]
        first[part], second[part], values = [], [], []
        for number, line in enumerate(lines_of(member, "utf-8"), 1):
            fields = line.split("\t")  # not csv: quotes in the sentences are not balanced
            try:
                score, sentence, other = float(fields[4]), fields[5], fields[6]
            except (IndexError, ValueError):
                raise ValueError(
                    f"Line {number:,} of {member.path} must have a score in column 5 and "
                    f"sentences in columns 6 and 7. Got {line[:60]!r} instead. Fetch it again."
                ) from None
            values.append(score)
            first[part].append(sentence)
            second[part].append(other)
        scores[part] = np.array(values)
    return first, second, scores


DATASETS: dict[str, Entry] = {
    "20news": Entry(
        ("20news-bydate",),
        r"20news-bydate-(train|test)/[^/]+/\d+$",
        partial(_read_files, encoding="latin-1"),
        {"train": 11_314, "test": 7_532, "classes": 20},
        "Jason Rennie's page qwone.com/~jason/20Newsgroups (20news-bydate.tar.gz)",
        "f2c2c7c30d7bab5a0a6baac5a9d5090a6f0a87261a9ffaa5d3eaf7855a715648",
    ),
    "imdb": Entry(
        ("aclImdb", "aclImdb_v1"),
        r"aclImdb/(train|test)/(pos|neg)/\d+_\d+\.txt$",
        partial(_read_files, encoding="utf-8"),
        {"train": 25_000, "test": 25_000, "classes": 2},
        "ai.stanford.edu/~amaas/data/sentiment (aclImdb_v1.tar.gz)",
        "2f7a3d1aad2cf5ce9dd4699e85e7bb337637c618d2315e0585921ae932728c56",
    ),
    "subj": Entry(
        ("rotten_imdb",),
        r"(plot|quote)\.tok\.gt9\.5000$",
        partial(
            _read_lines,
            classes={"plot.tok.gt9.5000": "objective", "quote.tok.gt9.5000": "subjective"},
        ),
        {"train": 10_000, "test": 0, "classes": 2},
        "cs.cornell.edu/people/pabo/movie-review-data (rotten_imdb.tar.gz)",
        "d91a9c807a760f7114b878a793da71642ac1cd39546be84a9ec4e1e968a6ef5d",
    ),
    "mr": Entry(
        ("rt-polaritydata",),
        r"rt-polarity\.(pos|neg)$",
        partial(
            _read_lines, classes={"rt-polarity.neg": "negative", "rt-polarity.pos": "positive"}
        ),
        {"train": 10_662, "test": 0, "classes": 2},
        "cs.cornell.edu/people/pabo/movie-review-data (rt-polaritydata.tar.gz)",
        "58f6e6b1feac42ee2e03c2e34b5295fabb50287a0240cb1cee3b326f51d21b3f",
    ),
    "trec": Entry(
        ("trec",),
        r"(train_5500|TREC_10)\.label$",
        _read_trec,
        {"train": 5_452, "test": 500, "classes": 6},
        "cogcomp.seas.upenn.edu/Data/QA/QC (train_5500.label, TREC_10.label)",
        "d9727dcead47d12ee89823e8fd066dd2f2cf7a966d1499479f7f1d6a5bf55a21",
    ),
    "stsb": Entry(
        ("stsbenchmark", "Stsbenchmark"),
        r"sts-(train|dev|test)\.csv$",
        _read_stsb,
        {"train": 5_749, "dev": 1_500, "test": 1_379},
        "ixa2.si.ehu.eus/stswiki (Stsbenchmark.tar.gz)",
        "3c90263fec9d7843493769746bc9c842234d93c01cba53ad36d92fd51bd1a55c",
    ),
}


def data_folder(data: str | Path | None = None) -> Path:
    """The folder that holds the archives: the argument, else PACSENT_DATA."""
    # An empty variable is one that is not set: Path("") would be the current folder.
    chosen = data if data is not None else os.environ.get("PACSENT_DATA") or None
    if chosen is None or not str(chosen) or not Path(chosen).is_dir():
        raise FileNotFoundError(
            f"The folder with the datasets must exist. Got {str(chosen)!r} instead. Pass --data "
            "DIR, or set PACSENT_DATA."
        )
    return Path(chosen)


def find(name: str, data: str | Path | None = None, entry: Entry | None = None) -> Path:
    """The archive or unpacked folder of a dataset, in `data` or in `data/datasets`."""
    entry = _entry(name) if entry is None else entry
    folder = data_folder(data)
    places = [folder / "datasets", folder]
    archives = [f"{stem}{suffix}" for stem in entry.archives for suffix in SUFFIXES]
    for path in (place / name for place in places for name in archives):
        if path.is_file():
            return path
    for place in places:
        for stem in entry.archives:
            if (place / stem).is_dir():
                return place / stem
        if place.is_dir() and any(_walk(place, entry.members, depth=1)):
            return place
    names = " or ".join(f"{stem}.tar.gz" for stem in entry.archives)
    raise FileNotFoundError(
        f"The dataset {name!r} must be in {str(folder)!r}, as {names} (or .tar.xz, .tgz) or "
        f"unpacked. Got no such file instead. Its authors distribute it at {entry.source}."
    )


def load(name: str, data: str | Path | None = None, *, verify: bool = True) -> Dataset | Pairs:
    """Read a dataset, a key of `DATASETS`, from its archive or unpacked folder; "stsb" gives Pairs.

    "books" is the author of a passage, from data that ships with the package.

    `data` is the folder with the archives; None takes PACSENT_DATA. Counts, classes and encoding
    are checked; `verify` also compares the content with the known digest, and refuses another.
    """
    if name == BOOKS:
        return books.dataset()
    entry = _entry(name)
    path, loaded, digest = read_entry(name, entry, data)
    if len(loaded) == 3:  # sentence pairs
        first, second, scores = loaded
        counts = {part: values.size for part, values in scores.items()}
        dataset: Dataset | Pairs = Pairs(name, first, second, scores, digest)
    else:
        train, y_train, test, y_test, classes = loaded
        counts = {"train": len(train), "test": len(test), "classes": len(classes)}
        dataset = Dataset(name, train, y_train, test, y_test, classes, digest)
    check_known(path, entry, counts, digest, verify)
    return dataset


def read_entry(name: str, entry: Entry, data: str | Path | None) -> tuple[Path, tuple, str]:
    """The path of a dataset, what the reader of its entry finds, and the digest of the content."""
    path = find(name, data, entry)
    wanted, members = re.compile(rf"(^|/){entry.members}"), []
    try:
        if path.is_dir():
            files = _walk(path, entry.members)
            members = [Member(file.as_posix(), file.read_bytes()) for file in files]
        else:
            with Source(path) as source:
                with tarfile.open(fileobj=source, mode="r|") as archive:
                    for info in archive:
                        if info.isfile() and wanted.search(info.name):
                            file = archive.extractfile(info)
                            members.append(Member(info.name, file.read() if file else b""))
                while source.read(1 << 20):  # to the archive's own end, and its checksum
                    pass
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(
            f"{path.name} must be a whole tar archive ({', '.join(SUFFIXES)}). Got a damaged or "
            f"partial file instead ({error}). Fetch it again."
        ) from None
    members.sort()
    if not members:
        raise ValueError(
            f"{path.name} must have files like {entry.members!r}. Got none instead. This is "
            f"another archive; the authors distribute the right one at {entry.source}."
        )
    return path, entry.read(members), _digest(members, entry.members)


def check_known(path: Path, entry: Entry, counts: dict, digest: str, verify: bool) -> None:
    """Refuse a dataset that is not what its entry says: its counts, and its content."""
    wrong = [
        f"{counts.get(key, 0):,} {key}" for key, n in entry.facts.items() if counts.get(key, 0) != n
    ]
    if wrong:
        right = ", ".join(f"{n:,} {key}" for key, n in entry.facts.items())
        raise ValueError(
            f"{path.name} must have {right}. Got {', '.join(wrong)} instead: the archive is "
            f"partial or another one. The authors distribute it at {entry.source}."
        )
    if verify and entry.digest and digest != entry.digest:
        raise ValueError(
            f"The content of {path.name} must have the sha256 {entry.digest[:16]}. Got "
            f"{digest[:16]} instead: the counts are right but the text is not the text behind "
            "the published numbers (changed, damaged or another release). Fetch it from "
            f"{entry.source}, or pass verify=False to use it as it is."
        )


def _entry(name: str) -> Entry:
    if name not in DATASETS:
        raise ValueError(
            f"The dataset must be one of {', '.join(DATASETS)}. Got {name!r} instead. For your "
            "own text use a file with one label<TAB>text a line, or a CSV."
        )
    return DATASETS[name]


def _walk(folder: Path, pattern: str, depth: int | None = None) -> Iterator[Path]:
    paths = folder.iterdir() if depth == 1 else folder.rglob("*")
    for path in paths:
        if path.is_file() and re.search(rf"(^|/){pattern}", path.as_posix()):
            yield path


def _digest(members: list[Member], pattern: str) -> str:
    """sha256 over path and content of every file, in the order of paths; packing does not count."""
    ending = re.compile(rf".*?({pattern})")
    total = hashlib.sha256()
    for key, content in sorted((ending.sub(r"\1", path), content) for path, content in members):
        total.update(f"{key}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def load_word_vectors(path: str | os.PathLike, normalize: str = "paper") -> WordVectors:
    """Word vectors of the reproduction: input*.npy, output*.npy and vocab.tsv in a folder.

    `normalize` says how texts become words: "wikifil" also removes markup, as Nozawa and Sato do.

    Any other word vectors that `pacsent.words.formats.read` reads are accepted as well. The tables
    of a folder are memory-mapped. A line of vocab.tsv is a word, a tab and its count.
    """
    folder = Path(path)
    files = {name: sorted(folder.glob(f"{name}*.npy")) for name in ("input", "output")}
    if not files["input"]:
        words = read(path)
        if normalize == words.vocabulary.normalize or normalize == "paper":
            return words
        if words.vocabulary.normalize != "paper":
            raise ValueError(
                f"normalize={normalize!r} needs word vectors of normalize='paper'. Got "
                f"{words.vocabulary.normalize!r} in {os.fspath(path)!r} instead."
            )
        vocabulary = Vocabulary(words.words, words.vocabulary.counts, normalize=normalize)
        return words.replace(vocabulary=vocabulary)
    tables = [np.load(paths[0], mmap_mode="r") for paths in files.values() if paths]
    lines = (folder / "vocab.tsv").read_text(encoding="utf-8").strip("\n").split("\n")
    names, counts = zip(*(line.split("\t") for line in lines))
    vocabulary = Vocabulary(names, np.array(counts, dtype=np.int64), normalize=normalize)
    return WordVectors(vocabulary, *tables)
