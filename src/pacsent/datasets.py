"""The benchmark datasets, described as data, and the generative model of the paper.

An entry of `DATASETS` says in which archive a dataset comes, how to read it and what must be true
of it. Archives are read where they lie, without unpacking; what does not fit the facts is refused
by name. Nothing here cleans or tokenises text.
"""

import csv
import hashlib
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.vocabulary import Vocabulary

SUFFIXES = (".tar.xz", ".tar.gz", ".tgz", ".tar.bz2", ".tar")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with class labels; a test part where the authors fixed one.

    Attributes
    ----------
    name : str
    train_texts, test_texts : list of str
        `test_texts` is empty where there is no fixed split; `split` makes one.
    train_labels, test_labels : array of int64
        Positions in `classes`.
    classes : tuple of str
    digest : str
        sha256 of the content that was read, whatever it was packed in.
    """

    name: str
    train_texts: list[str]
    train_labels: np.ndarray
    test_texts: list[str]
    test_labels: np.ndarray
    classes: tuple[str, ...]
    digest: str

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.train_texts):,} train, "
            f"{len(self.test_texts):,} test, {len(self.classes)} classes)"
        )

    @property
    def has_fixed_split(self) -> bool:
        return len(self.test_texts) > 0

    def split(self, seed: int = 0, test_size: float = 0.2) -> "Dataset":
        """The authors' split where there is one, else a random one (80/20), a function of `seed`.

        The parts keep the order of the file, so that a part depends on its members only.
        """
        if self.has_fixed_split:
            return self
        train, test = self.split_rows(seed, test_size)
        return replace(
            self,
            train_texts=[self.train_texts[i] for i in train],
            train_labels=self.train_labels[train],
            test_texts=[self.train_texts[i] for i in test],
            test_labels=self.train_labels[test],
        )

    def split_rows(self, seed: int = 0, test_size: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the training and the test part of `split(seed)`, for a dataset without one."""
        n_documents = len(self.train_texts)
        n_test = round(n_documents * test_size)
        order = np.random.default_rng([seed, 80_20]).permutation(n_documents)
        return np.sort(order[n_test:]), np.sort(order[:n_test])


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

    title: str
    archives: tuple[str, ...]  # stems of archive or folder names, as distributed
    members: str  # regular expression: the end of the paths that are read
    read: Callable[[list[Member]], tuple]
    encoding: str
    facts: dict[str, int]
    source: str
    digest: str
    kind: str = "classification"
    in_paper: bool = False


# ------------------------------------------------------------------------------------------------
# Readers: members in, texts and labels out
# ------------------------------------------------------------------------------------------------


def _decode(member: Member, encoding: str) -> str:
    try:
        return member.content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{member.path} must be {encoding} text. Got the byte "
            f"{member.content[error.start]:#04x} at position {error.start:,} instead. "
            "The file is damaged or is not the original; fetch the archive again."
        ) from None


def _lines(member: Member, encoding: str) -> list[str]:
    # not str.splitlines: it also cuts at NEL, which these files hold inside sentences
    lines = member.content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return [_decode(Member(member.path, line.rstrip(b"\r")), encoding) for line in lines]


def _one_text_a_file(members, encoding, label_of, part_of):
    classes = tuple(sorted({label_of(m.path) for m in members}))
    position = {name: i for i, name in enumerate(classes)}
    parts: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
    for member in members:
        texts, labels = parts[part_of(member.path)]
        texts.append(_decode(member, encoding))
        labels.append(position[label_of(member.path)])
    return (*parts["train"], *parts["test"], classes)


def _read_20news(members):
    return _one_text_a_file(
        members,
        "latin-1",
        label_of=lambda path: path.split("/")[-2],
        part_of=lambda path: "train" if "20news-bydate-train/" in path else "test",
    )


def _read_imdb(members):
    return _one_text_a_file(
        members,
        "utf-8",
        label_of=lambda path: path.split("/")[-2],
        part_of=lambda path: path.split("/")[-3],
    )


def _one_file_a_class(members, encoding, classes):
    texts, labels = [], []
    for label, (ending, _) in enumerate(classes):
        for member in members:
            if member.path.endswith(ending):
                lines = _lines(member, encoding)
                texts += lines
                labels += [label] * len(lines)
    return texts, labels, [], [], tuple(name for _, name in classes)


def _read_subj(members):
    classes = (("plot.tok.gt9.5000", "objective"), ("quote.tok.gt9.5000", "subjective"))
    return _one_file_a_class(members, "cp1252", classes)


def _read_mr(members):
    classes = (("rt-polarity.neg", "negative"), ("rt-polarity.pos", "positive"))
    return _one_file_a_class(members, "cp1252", classes)


def _read_trec(members):
    parts: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
    for member in members:
        texts, labels = parts["train" if member.path.endswith("train_5500.label") else "test"]
        for number, line in enumerate(_lines(member, "latin-1"), 1):
            kind, _, question = line.partition(" ")
            coarse, colon, _ = kind.partition(":")
            if not colon or not question:
                raise ValueError(
                    f"Line {number:,} of {member.path} must be 'COARSE:fine question'. "
                    f"Got {line[:40]!r} instead. Fetch the archive again."
                )
            texts.append(question)
            labels.append(coarse)
    classes = tuple(sorted({*parts["train"][1], *parts["test"][1]}))
    position = {name: i for i, name in enumerate(classes)}
    (train_texts, train_labels), (test_texts, test_labels) = parts["train"], parts["test"]
    return (
        train_texts,
        [position[name] for name in train_labels],
        test_texts,
        [position[name] for name in test_labels],
        classes,
    )


def _read_stsb(members):
    first: dict[str, list[str]] = {}
    second: dict[str, list[str]] = {}
    scores: dict[str, np.ndarray] = {}
    for member in members:
        part = member.path[:-4].rsplit("-", 1)[1]
        first[part], second[part], values = [], [], []
        for number, line in enumerate(_lines(member, "utf-8"), 1):
            fields = line.split("\t")  # not csv: quotes in the sentences are not balanced
            try:
                score = float(fields[4])
                one, other = fields[5], fields[6]
            except (IndexError, ValueError):
                raise ValueError(
                    f"Line {number:,} of {member.path} must have a score in column 5 and "
                    f"sentences in columns 6 and 7. Got {line[:60]!r} instead. Fetch it again."
                ) from None
            values.append(score)
            first[part].append(one)
            second[part].append(other)
        scores[part] = np.array(values)
    return first, second, scores


DATASETS: dict[str, Entry] = {
    "20news": Entry(
        title="20 Newsgroups, by date",
        archives=("20news-bydate",),
        members=r"20news-bydate-(train|test)/[^/]+/\d+$",
        read=_read_20news,
        encoding="latin-1",
        facts={"train": 11_314, "test": 7_532, "classes": 20},
        source="Jason Rennie's page qwone.com/~jason/20Newsgroups (20news-bydate.tar.gz)",
        digest="f2c2c7c30d7bab5a0a6baac5a9d5090a6f0a87261a9ffaa5d3eaf7855a715648",
        in_paper=True,
    ),
    "imdb": Entry(
        title="IMDb movie reviews",
        archives=("aclImdb", "aclImdb_v1"),
        members=r"aclImdb/(train|test)/(pos|neg)/\d+_\d+\.txt$",
        read=_read_imdb,
        encoding="utf-8",
        facts={"train": 25_000, "test": 25_000, "classes": 2},
        source="ai.stanford.edu/~amaas/data/sentiment (aclImdb_v1.tar.gz)",
        digest="2f7a3d1aad2cf5ce9dd4699e85e7bb337637c618d2315e0585921ae932728c56",
        in_paper=True,
    ),
    "subj": Entry(
        title="SUBJ, subjective against objective sentences",
        archives=("rotten_imdb",),
        members=r"(plot|quote)\.tok\.gt9\.5000$",
        read=_read_subj,
        encoding="cp1252",
        facts={"train": 10_000, "test": 0, "classes": 2},
        source="cs.cornell.edu/people/pabo/movie-review-data (rotten_imdb.tar.gz)",
        digest="d91a9c807a760f7114b878a793da71642ac1cd39546be84a9ec4e1e968a6ef5d",
        in_paper=True,
    ),
    "mr": Entry(
        title="MR, movie review sentences",
        archives=("rt-polaritydata",),
        members=r"rt-polarity\.(pos|neg)$",
        read=_read_mr,
        encoding="cp1252",
        facts={"train": 10_662, "test": 0, "classes": 2},
        source="cs.cornell.edu/people/pabo/movie-review-data (rt-polaritydata.tar.gz)",
        digest="58f6e6b1feac42ee2e03c2e34b5295fabb50287a0240cb1cee3b326f51d21b3f",
    ),
    "trec": Entry(
        title="TREC question types",
        archives=("trec",),
        members=r"(train_5500|TREC_10)\.label$",
        read=_read_trec,
        encoding="latin-1",
        facts={"train": 5_452, "test": 500, "classes": 6},
        source="cogcomp.seas.upenn.edu/Data/QA/QC (train_5500.label, TREC_10.label)",
        digest="d9727dcead47d12ee89823e8fd066dd2f2cf7a966d1499479f7f1d6a5bf55a21",
    ),
    "stsb": Entry(
        title="STS benchmark",
        archives=("stsbenchmark", "Stsbenchmark"),
        members=r"sts-(train|dev|test)\.csv$",
        read=_read_stsb,
        encoding="utf-8",
        facts={"train": 5_749, "dev": 1_500, "test": 1_379},
        source="ixa2.si.ehu.eus/stswiki (Stsbenchmark.tar.gz)",
        digest="3c90263fec9d7843493769746bc9c842234d93c01cba53ad36d92fd51bd1a55c",
        kind="pairs",
    ),
}

# ------------------------------------------------------------------------------------------------
# Finding, reading, checking
# ------------------------------------------------------------------------------------------------


def data_folder(data: str | Path | None = None) -> Path:
    """The folder that holds the archives: the argument, else PACSENT_DATA."""
    chosen = data if data is not None else os.environ.get("PACSENT_DATA")
    if chosen is None:
        raise FileNotFoundError(
            "The folder with the datasets must be named. Got neither --data nor PACSENT_DATA "
            "instead. Pass --data DIR, or set PACSENT_DATA."
        )
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The folder with the datasets must exist. Got {str(folder)!r} instead. "
            "Pass --data DIR, or set PACSENT_DATA."
        )
    return folder


def find(name: str, data: str | Path | None = None) -> Path:
    """The archive or unpacked folder of a dataset, in `data` or in `data/datasets`."""
    entry = _entry(name)
    folder = data_folder(data)
    places = [folder / "datasets", folder]
    for place in places:
        for stem in entry.archives:
            for suffix in SUFFIXES:
                if (place / f"{stem}{suffix}").is_file():
                    return place / f"{stem}{suffix}"
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
    """Read a dataset from its archive or unpacked folder, and check what is known about it.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path or None
        The folder with the archives; None takes PACSENT_DATA.
    verify : bool, default=True
        Compare the content with the known digest, and refuse another. The counts, classes and
        encoding are checked always.

    Returns
    -------
    Dataset, or Pairs for "stsb"
    """
    entry = _entry(name)
    path = find(name, data)
    members = sorted(_members(path, entry.members))
    if not members:
        raise ValueError(
            f"{path.name} must hold files like {entry.members!r}. Got none instead. This is "
            f"another archive; the authors distribute the right one at {entry.source}."
        )
    loaded = entry.read(members)
    digest = _digest(members, entry.members)
    if entry.kind == "pairs":
        first, second, scores = loaded
        found = {part: values.size for part, values in scores.items()}
        _check_facts(path, entry, found)
        dataset: Dataset | Pairs = Pairs(name, first, second, scores, digest)
    else:
        train_texts, train_labels, test_texts, test_labels, classes = loaded
        found = {"train": len(train_texts), "test": len(test_texts), "classes": len(classes)}
        _check_facts(path, entry, found)
        dataset = Dataset(
            name,
            train_texts,
            np.array(train_labels, dtype=np.int64),
            test_texts,
            np.array(test_labels, dtype=np.int64),
            classes,
            digest,
        )
    if verify and entry.digest and digest != entry.digest:
        raise ValueError(
            f"The content of {path.name} must have the sha256 {entry.digest[:16]}. Got "
            f"{digest[:16]} instead: the counts are right but the text is not the text behind "
            "the published numbers (changed, damaged or another release). Fetch it from "
            f"{entry.source}, or pass --no-verify (verify=False) to use it as it is."
        )
    return dataset


def _entry(name: str) -> Entry:
    if name not in DATASETS:
        raise ValueError(
            f"The dataset must be one of {', '.join(DATASETS)}. Got {name!r} instead. For your "
            "own text use a file with one label<TAB>text a line, or a CSV."
        )
    return DATASETS[name]


def _check_facts(path: Path, entry: Entry, found: dict[str, int]) -> None:
    wrong = [
        f"{found.get(key, 0):,} {key}" for key, n in entry.facts.items() if found.get(key, 0) != n
    ]
    if wrong:
        right = ", ".join(f"{n:,} {key}" for key, n in entry.facts.items())
        raise ValueError(
            f"{path.name} must hold {right}. Got {', '.join(wrong)} instead: the archive is "
            f"partial or another one. The authors distribute it at {entry.source}."
        )


def _walk(folder: Path, pattern: str, depth: int | None = None) -> Iterator[Path]:
    wanted = re.compile(rf"(^|/){pattern}")
    paths = folder.iterdir() if depth == 1 else folder.rglob("*")
    for path in paths:
        if path.is_file() and wanted.search(path.as_posix()):
            yield path


def _members(path: Path, pattern: str) -> Iterator[Member]:
    """The files whose path ends as `pattern` says, from a folder or from any kind of tar."""
    if path.is_dir():
        for found in _walk(path, pattern):
            yield Member(found.as_posix(), found.read_bytes())
        return
    wanted = re.compile(rf"(^|/){pattern}")
    try:
        with tarfile.open(path, "r|*") as archive:
            for info in archive:
                if info.isfile() and wanted.search(info.name):
                    file = archive.extractfile(info)
                    yield Member(info.name, file.read() if file else b"")
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise ValueError(
            f"{path.name} must be a whole tar archive ({', '.join(SUFFIXES)}). Got a damaged or "
            f"partial file instead ({error}). Fetch it again."
        ) from None


def _digest(members: list[Member], pattern: str) -> str:
    """sha256 over path and content of every file, in the order of paths; packing does not count."""
    ending = re.compile(rf".*?({pattern})")
    total = hashlib.sha256()
    for key, content in sorted((ending.sub(r"\1", path), content) for path, content in members):
        total.update(f"{key}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


# ------------------------------------------------------------------------------------------------
# One's own labelled text
# ------------------------------------------------------------------------------------------------


def read_labelled(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    test: str | Path | None = None,
) -> Dataset:
    """A dataset from one's own file: `label<TAB>text` lines, or a CSV with named columns.

    Parameters
    ----------
    path : path
        UTF-8. Read as CSV where both columns are named (commas; tabs for a name in .tsv).
    text_column, label_column : str or None
        Names in the first line of the CSV.
    test : path or None
        A second file of the same kind as the test part; without it `split` makes one.
    """
    if (text_column is None) != (label_column is None):
        raise ValueError(
            "text_column and label_column must be given together. Got "
            f"text_column={text_column!r}, label_column={label_column!r} instead. Name both for "
            "a CSV, or none for lines of label<TAB>text."
        )
    train_texts, train_names = _read_rows(Path(path), text_column, label_column)
    test_texts: list[str] = []
    test_names: list[str] = []
    if test is not None:
        test_texts, test_names = _read_rows(Path(test), text_column, label_column)
    classes = tuple(sorted({*train_names, *test_names}))
    if len(classes) < 2:
        raise ValueError(
            f"{Path(path).name} must hold at least two classes. Got {list(classes)} instead. "
            "Check which column holds the label."
        )
    position = {name: i for i, name in enumerate(classes)}
    total = hashlib.sha256()
    for part in ((train_texts, train_names), (test_texts, test_names)):
        for text, name in zip(*part):
            total.update(f"{name}\t{text}\n".encode())
        total.update(b"\0")
    return Dataset(
        Path(path).name.split(".")[0],
        train_texts,
        np.array([position[name] for name in train_names], dtype=np.int64),
        test_texts,
        np.array([position[name] for name in test_names], dtype=np.int64),
        classes,
        total.hexdigest(),
    )


def _read_rows(path: Path, text_column, label_column) -> tuple[list[str], list[str]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"The file with the labelled text must exist. Got {str(path)!r} instead. Check the "
            "path."
        )
    texts: list[str] = []
    labels: list[str] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if text_column is None:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    label, tab, text = line.rstrip("\r\n").partition("\t")
                    if not tab or not label.strip():
                        raise ValueError(
                            f"Line {number:,} of {path.name} must be label<TAB>text. Got "
                            f"{line[:40]!r} instead. For a CSV name its columns (--text-column, "
                            "--label-column)."
                        )
                    labels.append(label.strip())
                    texts.append(text)
            else:
                rows = csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
                missing = {text_column, label_column} - set(rows.fieldnames or ())
                if missing:
                    raise ValueError(
                        f"The columns of {path.name} must include {', '.join(sorted(missing))}. "
                        f"Got {', '.join(rows.fieldnames or ())} instead. Name the columns as "
                        "its first line does."
                    )
                for row in rows:
                    if row[text_column] is None or row[label_column] is None:
                        raise ValueError(
                            f"Line {rows.line_num:,} of {path.name} must have a value in every "
                            "named column. Got a short line instead. Repair the file."
                        )
                    texts.append(row[text_column])
                    labels.append(row[label_column].strip())
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} must be UTF-8 text. Got the byte {error.object[error.start]:#04x} at "
            f"position {error.start:,} instead. Convert it first."
        ) from None
    if not texts:
        raise ValueError(
            f"{path.name} must hold labelled text. Got an empty file instead. Check the path."
        )
    return texts, labels


# ------------------------------------------------------------------------------------------------
# The generative model
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GenerativeCorpus:
    """Documents drawn from the paper's model, with the distribution behind each of them.

    Attributes
    ----------
    texts : list of str
    labels : array of int64, shape (n_documents,)
    ids : list of int32 arrays
        The same documents as word ids, in the order of the text.
    vocabulary : Vocabulary
        All words of the language, also those that were never drawn; counts of this corpus.
    classes : tuple of str
    """

    texts: list[str]
    labels: np.ndarray
    ids: list[np.ndarray]
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    gamma: np.ndarray  # (n_documents, n_themes + 1), weights of the themes and the background
    themes: np.ndarray  # (n_themes + 1, n_words), rows sum to one
    concentration: float
    random_state: int

    def __repr__(self) -> str:
        return (
            f"GenerativeCorpus({len(self.texts):,} documents, {self.vocabulary.n_words:,} words, "
            f"{len(self.classes)} classes)"
        )

    def phi(self, rows=None) -> np.ndarray:
        """phi_S of the documents in `rows` (all by default), (n_rows, n_words); rows sum to one.

        Made again from the seed on each call: a large corpus need not hold them.
        """
        rows = np.arange(len(self.texts)) if rows is None else np.atleast_1d(rows)
        return np.stack([_draw_phi(self, int(row))[0] for row in rows])

    def dataset(self, name: str = "generated") -> Dataset:
        """The texts and labels as a dataset without a fixed split."""
        content = "\0".join(self.texts).encode() + self.labels.tobytes()
        none = np.zeros(0, dtype=np.int64)
        digest = hashlib.sha256(content).hexdigest()
        return Dataset(name, self.texts, self.labels, [], none, self.classes, digest)


def generate(
    n_documents: int = 1000,
    n_topics: int = 4,
    n_words: int = 2000,
    *,
    n_tokens: float = 60.0,
    topic_share: float = 0.35,
    concentration: float = 300.0,
    language: int = 0,
    random_state: int = 0,
) -> GenerativeCorpus:
    """Draw documents from the paper's model: a Dirichlet draw per document, then its words.

        phi_S ~ Dirichlet(gamma_S),  w ~ Multinomial(phi_S),  gamma_S = concentration * base_S

    base_S mixes a background all documents share (Zipf's law) with the themes of the document's
    topic; topics overlap in their themes, so that telling them apart takes more than one word.

    Parameters
    ----------
    n_documents : int, default=1000
    n_topics : int, default=4
        Topics; they are the class labels.
    n_words : int, default=2000
        Words of the language.
    n_tokens : float, default=60
        Mean document length (log-normal, at least 5).
    topic_share : float, default=0.35
        Part of base_S that comes from the themes; the rest is background. Larger is easier.
    concentration : float, default=300
        Sum of gamma_S. Smaller makes a document repeat its own words more.
    language : int, default=0
        Seed of the words, themes and topics: corpora of one language go together.
    random_state : int, default=0
        Seed of the documents. Two seeds give two independent corpora of the same language.

    Notes
    -----
    Section 3.1 of the paper has one gamma; several topics are our extension. Word order within a
    document is random, as in the paper.
    """
    for key, value, least in (
        ("n_documents", n_documents, 1),
        ("n_topics", n_topics, 2),
        ("n_words", n_words, 50),
    ):
        if value < least:
            raise ValueError(
                f"{key} must be an integer of at least {least}. Got {value} instead. Choose more."
            )
    if not 0 < topic_share < 1:
        raise ValueError(f"topic_share must be in (0, 1). Got {topic_share} instead. Try 0.35.")
    if not concentration > 0:
        raise ValueError(f"concentration must be positive. Got {concentration} instead. Try 300.")
    rng = np.random.default_rng([language, n_topics, n_words])
    words = _made_up_words(n_words, rng)
    n_themes = 3 * n_topics
    rank = np.arange(n_words)
    background = 1.0 / (rank + 5.0)
    # A theme is Zipf over its own random tenth of the words; the first fifty, the language's
    # function words, belong to none.
    themes = np.zeros((n_themes + 1, n_words))
    for theme in themes[:-1]:
        own = rng.choice(np.arange(min(50, n_words // 4), n_words), n_words // 10, replace=False)
        theme[own] = 1.0 / (np.arange(own.size) + 3.0)
    themes[-1] = background
    themes /= themes.sum(axis=1, keepdims=True)
    # Each topic has three themes of its own and a smaller share in every other.
    affinity = np.full((n_topics, n_themes), 0.15)
    for topic in range(n_topics):
        affinity[topic, 3 * topic : 3 * topic + 3] = 1.0

    rng = np.random.default_rng([random_state, language, n_documents])
    labels = rng.permutation(np.arange(n_documents) % n_topics)
    gamma = np.empty((n_documents, n_themes + 1))
    gamma[:, :-1] = rng.standard_gamma(affinity[labels])
    gamma[:, :-1] *= topic_share / gamma[:, :-1].sum(axis=1, keepdims=True)
    gamma[:, -1] = 1 - topic_share
    corpus = GenerativeCorpus(
        [],
        labels.astype(np.int64),
        [],
        Vocabulary(words),
        tuple(f"topic {topic + 1}" for topic in range(n_topics)),
        gamma,
        themes,
        concentration,
        random_state,
    )
    counts = np.zeros(n_words, dtype=np.int64)
    for document in range(n_documents):
        phi, document_rng = _draw_phi(corpus, document)
        length = max(5, round(n_tokens * document_rng.lognormal(-0.125, 0.5)))
        drawn = document_rng.multinomial(length, phi)
        ids = document_rng.permutation(np.repeat(np.arange(n_words, dtype=np.int32), drawn))
        counts += drawn
        corpus.ids.append(ids)
        corpus.texts.append(" ".join([words[i] for i in ids]))
    return replace(corpus, vocabulary=Vocabulary(words, counts))


def _draw_phi(corpus: GenerativeCorpus, document: int):
    """phi of one document and its generator, which goes on to draw the words."""
    rng = np.random.default_rng([corpus.random_state, document, 3])
    gamma = corpus.concentration * (corpus.gamma[document] @ corpus.themes)
    phi = rng.standard_gamma(gamma)
    return phi / phi.sum(), rng


_ONSETS = [*"bcdfghjklmnprstvwz", "br", "dr", "fl", "gr", "kl", "pl", "pr", "st", "tr"]
_VOWELS = [*"aeiouaeio", "ai", "ea", "ou"]
_CODAS = ["", "", "", *"nrsl", "nd", "rk", "st"]


def _made_up_words(n_words: int, rng) -> list[str]:
    """Pronounceable words, all different, the short ones first as in real languages."""
    words: dict[str, None] = {}
    while len(words) < n_words:
        n_syllables = 1 + min(3, len(words) * 4 // n_words) if len(words) > 40 else 1
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(n_syllables))
        word += rng.choice(_CODAS)
        words[word] = None
    return list(words)
