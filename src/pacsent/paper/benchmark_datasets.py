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
from pacsent.paper.generative import generate
from pacsent.paper.labelled import Dataset, read_labelled
from pacsent.text.reading import Source
from pacsent.words.formats import read
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

__all__ = ["Dataset", "Pairs", "generate", "load", "load_word_vectors", "read_labelled"]

# Name of the dataset of passages that ship with the package, in place of a folder.
BOOKS = "books"
SUFFIXES = (".tar.xz", ".tar.gz", ".tgz", ".tar.bz2", ".tar.zst", ".tar")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentence pairs with a human similarity score from 0 to 5 (STS-B), by part.

    Examples
    --------
    `load("stsb")` reads the published ones; by hand:

    >>> scores = {"test": np.array([1.2])}
    >>> pairs = Pairs("two animals", {"test": ["a dog"]}, {"test": ["a cat"]}, scores, digest="")
    >>> pairs.scores["test"].size
    1
    """

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
    """Description of a dataset: where it comes from, how it is read, what must be true."""

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
    # str.splitlines would also cut at NEL, which these files contain inside sentences.
    lines = member.content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()

    texts = []
    for line in lines:
        line_as_member = Member(member.path, line.rstrip(b"\r"))
        texts.append(decoded(line_as_member, encoding))
    return texts


def _labelled(rows: Iterable[tuple[str, str, str]]) -> tuple:
    """Texts and labels of both parts, and the classes, of rows (part, label, text)."""
    texts: dict[str, list[str]] = {"train": [], "test": []}
    names: dict[str, list[str]] = {"train": [], "test": []}
    for part, label, text in rows:
        texts[part].append(text)
        names[part].append(label)

    classes, labels = np.unique(names["train"] + names["test"], return_inverse=True)
    n_train = len(texts["train"])
    y_train = labels[:n_train]
    y_test = labels[n_train:]
    return texts["train"], y_train, texts["test"], y_test, tuple(classes.tolist())


def _read_files(members: list[Member], encoding: str) -> tuple:
    """One text per file, in the folder of its class, in the folder of its part."""

    def rows() -> Iterator[tuple[str, str, str]]:
        for member in members:
            folder_of_part, label = member.path.split("/")[-3:-1]
            part = "train" if folder_of_part.endswith("train") else "test"
            yield part, label, decoded(member, encoding)

    return _labelled(rows())


def _read_lines(members: list[Member], classes: dict[str, str]) -> tuple:
    """One text per line, in the file of its class."""
    rows = []
    for ending, label in classes.items():
        for member in members:
            if member.path.endswith(ending):
                rows += [("train", label, line) for line in lines_of(member, "cp1252")]
    return _labelled(rows)


def _read_trec(members: list[Member]) -> tuple:
    """One question per line, after its coarse and its fine class."""
    rows = []
    for member in members:
        part = "train" if member.path.endswith("train_5500.label") else "test"
        for number, line in enumerate(lines_of(member, "latin-1"), 1):
            both_classes, _, question = line.partition(" ")
            coarse_class, colon, _ = both_classes.partition(":")
            if not colon or not question:
                raise ValueError(
                    f"Line {number:,} of {member.path} must be 'COARSE:fine question'. "
                    f"Got {line[:40]!r} instead. Fetch the archive again."
                )
            rows.append((part, coarse_class, question))
    return _labelled(rows)


def _read_stsb(members: list[Member]) -> tuple:
    """Both sentences and the score of every pair, by part."""
    first: dict[str, list[str]] = {}
    second: dict[str, list[str]] = {}
    scores: dict[str, np.ndarray] = {}
    for member in members:
        part = member.path[:-4].rsplit("-", 1)[1]
        first[part] = []
        second[part] = []
        values = []
        for number, line in enumerate(lines_of(member, "utf-8"), 1):
            # Not by the csv module: quotes in the sentences are not balanced.
            fields = line.split("\t")
            try:
                score = float(fields[4])
                first_sentence = fields[5]
                second_sentence = fields[6]
            except (IndexError, ValueError):
                raise ValueError(
                    f"Line {number:,} of {member.path} must have a score in column 5 and "
                    f"sentences in columns 6 and 7. Got {line[:60]!r} instead. Fetch it again."
                ) from None
            values.append(score)
            first[part].append(first_sentence)
            second[part].append(second_sentence)
        scores[part] = np.array(values)
    return first, second, scores


DATASETS: dict[str, Entry] = {
    "20news": Entry(
        archives=("20news-bydate",),
        members=r"20news-bydate-(train|test)/[^/]+/\d+$",
        read=partial(_read_files, encoding="latin-1"),
        facts={"train": 11_314, "test": 7_532, "classes": 20},
        source="Jason Rennie's page qwone.com/~jason/20Newsgroups (20news-bydate.tar.gz)",
        digest="f2c2c7c30d7bab5a0a6baac5a9d5090a6f0a87261a9ffaa5d3eaf7855a715648",
    ),
    "imdb": Entry(
        archives=("aclImdb", "aclImdb_v1"),
        members=r"aclImdb/(train|test)/(pos|neg)/\d+_\d+\.txt$",
        read=partial(_read_files, encoding="utf-8"),
        facts={"train": 25_000, "test": 25_000, "classes": 2},
        source="ai.stanford.edu/~amaas/data/sentiment (aclImdb_v1.tar.gz)",
        digest="2f7a3d1aad2cf5ce9dd4699e85e7bb337637c618d2315e0585921ae932728c56",
    ),
    "subj": Entry(
        archives=("rotten_imdb",),
        members=r"(plot|quote)\.tok\.gt9\.5000$",
        read=partial(
            _read_lines,
            classes={"plot.tok.gt9.5000": "objective", "quote.tok.gt9.5000": "subjective"},
        ),
        facts={"train": 10_000, "test": 0, "classes": 2},
        source="cs.cornell.edu/people/pabo/movie-review-data (rotten_imdb.tar.gz)",
        digest="d91a9c807a760f7114b878a793da71642ac1cd39546be84a9ec4e1e968a6ef5d",
    ),
    "mr": Entry(
        archives=("rt-polaritydata",),
        members=r"rt-polarity\.(pos|neg)$",
        read=partial(
            _read_lines, classes={"rt-polarity.neg": "negative", "rt-polarity.pos": "positive"}
        ),
        facts={"train": 10_662, "test": 0, "classes": 2},
        source="cs.cornell.edu/people/pabo/movie-review-data (rt-polaritydata.tar.gz)",
        digest="58f6e6b1feac42ee2e03c2e34b5295fabb50287a0240cb1cee3b326f51d21b3f",
    ),
    "trec": Entry(
        archives=("trec",),
        members=r"(train_5500|TREC_10)\.label$",
        read=_read_trec,
        facts={"train": 5_452, "test": 500, "classes": 6},
        source="cogcomp.seas.upenn.edu/Data/QA/QC (train_5500.label, TREC_10.label)",
        digest="d9727dcead47d12ee89823e8fd066dd2f2cf7a966d1499479f7f1d6a5bf55a21",
    ),
    "stsb": Entry(
        archives=("stsbenchmark", "Stsbenchmark"),
        members=r"sts-(train|dev|test)\.csv$",
        read=_read_stsb,
        facts={"train": 5_749, "dev": 1_500, "test": 1_379},
        source="ixa2.si.ehu.eus/stswiki (Stsbenchmark.tar.gz)",
        digest="3c90263fec9d7843493769746bc9c842234d93c01cba53ad36d92fd51bd1a55c",
    ),
}


def data_folder(data: str | Path | None = None) -> Path:
    """The folder that holds the archives: the argument, else PACSENT_DATA."""
    folder = data
    if folder is None:
        # An empty variable is one that is not set: Path("") would be the current folder.
        folder = os.environ.get("PACSENT_DATA") or None
    if folder is None or not str(folder) or not Path(folder).is_dir():
        raise FileNotFoundError(
            f"The folder with the datasets must exist. Got {str(folder)!r} instead. Pass --data "
            "DIR, or set PACSENT_DATA."
        )
    return Path(folder)


def find(name: str, data: str | Path | None = None, entry: Entry | None = None) -> Path:
    """The archive or unpacked folder of a dataset, in `data` or in `data/datasets`."""
    if entry is None:
        entry = _entry(name)
    folder = data_folder(data)
    places = [folder / "datasets", folder]
    file_names = [f"{stem}{suffix}" for stem in entry.archives for suffix in SUFFIXES]

    # Archives come before unpacked folders.
    for place in places:
        for file_name in file_names:
            path = place / file_name
            if path.is_file():
                return path
    for place in places:
        for stem in entry.archives:
            path = place / stem
            if path.is_dir():
                return path
        if place.is_dir() and any(_walk(place, entry.members, depth=1)):
            return place

    names = " or ".join(f"{stem}.tar.gz" for stem in entry.archives)
    raise FileNotFoundError(
        f"The dataset {name!r} must be in {str(folder)!r}, as {names} (or .tar.xz, .tgz) or "
        f"unpacked. Got no such file instead. Its authors distribute it at {entry.source}."
    )


def load(name: str, data: str | Path | None = None, *, verify: bool = True) -> Dataset | Pairs:
    """Read a dataset from its archive or unpacked folder.

    Counts, classes and encoding are checked.

    Parameters
    ----------
    name : str
        A key of `DATASETS`, or "books": the author of a passage, from data of the package.
    data : path, optional
        The folder with the archives; None takes PACSENT_DATA.
    verify : bool, default=True
        Also compare the content with the known digest; another one raises ValueError.

    Returns
    -------
    dataset : Dataset or Pairs
        Pairs for "stsb".

    Examples
    --------
    >>> dataset = load("books")
    >>> len(dataset.train_texts), len(dataset.classes)
    (600, 10)
    """
    if name == BOOKS:
        return books.dataset()
    entry = _entry(name)
    path, loaded, digest = read_entry(name, entry, data)
    if len(loaded) == 3:  # sentence pairs
        first, second, scores = loaded
        counts = {part: values.size for part, values in scores.items()}
        check_known(path, entry, counts, digest, verify)
        return Pairs(name, first, second, scores, digest)

    train, y_train, test, y_test, classes = loaded
    counts = {"train": len(train), "test": len(test), "classes": len(classes)}
    dataset = Dataset(name, train, y_train, test, y_test, classes, digest)
    check_known(path, entry, counts, digest, verify)
    return dataset


def read_entry(name: str, entry: Entry, data: str | Path | None) -> tuple[Path, tuple, str]:
    """The path of a dataset, what the reader of its entry finds, and the digest of the content."""
    path = find(name, data, entry)
    try:
        members = _read_folder(path, entry) if path.is_dir() else _read_archive(path, entry)
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


def _read_folder(folder: Path, entry: Entry) -> list[Member]:
    files = _walk(folder, entry.members)
    return [Member(file.as_posix(), file.read_bytes()) for file in files]


def _read_archive(path: Path, entry: Entry) -> list[Member]:
    """The files of an entry in a tar archive, read in one pass without unpacking."""
    pattern = re.compile(rf"(^|/){entry.members}")
    members = []
    with Source(path) as source:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for info in archive:
                if info.isfile() and pattern.search(info.name):
                    file = archive.extractfile(info)
                    content = file.read() if file else b""
                    members.append(Member(info.name, content))
        # On to the end of the archive, and its checksum.
        while source.read(1 << 20):
            pass
    return members


def check_known(path: Path, entry: Entry, counts: dict, digest: str, verify: bool) -> None:
    """Refuse a dataset that is not what its entry says: its counts, and its content."""
    wrong_counts = []
    for key, n in entry.facts.items():
        count = counts.get(key, 0)
        if count != n:
            wrong_counts.append(f"{count:,} {key}")
    if wrong_counts:
        expected = ", ".join(f"{n:,} {key}" for key, n in entry.facts.items())
        actual = ", ".join(wrong_counts)
        raise ValueError(
            f"{path.name} must have {expected}. Got {actual} instead: the archive is "
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
    files = [(ending.sub(r"\1", path), content) for path, content in members]
    digest = hashlib.sha256()
    for key, content in sorted(files):
        digest.update(f"{key}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def load_word_vectors(path: str | os.PathLike, normalize: str = "paper") -> WordVectors:
    """Word vectors of the reproduction: input*.npy, output*.npy and vocab.tsv in a folder.

    Parameters
    ----------
    path : path
        The folder; its tables are memory-mapped, and a line of vocab.tsv is a word, a tab and its
        count. Or whatever `pacsent.words.formats.read` reads.
    normalize : str, default="paper"
        How texts become words: "wikifil" also removes markup, as Nozawa and Sato do.

    Returns
    -------
    words : WordVectors

    Examples
    --------
    >>> words = load_word_vectors("english")
    >>> words.n_dims
    256
    """
    folder = Path(path)
    input_paths = sorted(folder.glob("input*.npy"))
    output_paths = sorted(folder.glob("output*.npy"))
    if not input_paths:
        return _read_other_vectors(path, normalize)

    # The first file of each matrix; vectors may come without output vectors.
    matrices = [np.load(paths[0], mmap_mode="r") for paths in (input_paths, output_paths) if paths]
    content = (folder / "vocab.tsv").read_text(encoding="utf-8")
    lines = content.strip("\n").split("\n")
    names, counts = zip(*(line.split("\t") for line in lines))
    vocabulary = Vocabulary(names, np.array(counts, dtype=np.int64), normalize=normalize)
    return WordVectors(vocabulary, *matrices)


def _read_other_vectors(path: str | os.PathLike, normalize: str) -> WordVectors:
    """Word vectors of another format, with their own normalisation or with that of Wikipedia."""
    words = read(path)
    own_normalize = words.vocabulary.normalize
    if normalize in (own_normalize, "paper"):
        return words
    if own_normalize != "paper":
        raise ValueError(
            f"normalize={normalize!r} needs word vectors of normalize='paper'. Got "
            f"{own_normalize!r} in {os.fspath(path)!r} instead."
        )
    vocabulary = Vocabulary(words.words, words.vocabulary.counts, normalize=normalize)
    return words.replace(vocabulary=vocabulary)
