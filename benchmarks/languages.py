"""Characters in TextClassifier: English with and without typos, Chinese, German, Japanese.

    python benchmarks/languages.py [--parts english chinese german] [--labels 20 100 300 1000]
        [--sets subj mr trec 20news imdb] [--draws 5] [--processes 16] [--data FOLDER] [--save]
    python benchmarks/languages.py --parts japanese --aozora aozorabunko_text/cards

FOLDER holds datasets/ and languages/ (default: PACSENT_DATA). "with characters" is
TextClassifier's default, "words" the same model without its characters, which answers as
TextClassifier(characters=None) does, "char_wb" scikit-learn's tf-idf of characters 2 to 5 inside
words with a logistic regression, its C by cross-validation. All get the same labels, as many of
each class, and answer the same texts: at most 2,000 of the test part, 1,000 where texts are long.
`english`: the five sets, with the English model of the package; "typos" are the test texts with
one edit in every word of three letters or more: a letter left out, doubled by another, replaced, or
swapped with the next. Training texts have none.
`chinese`: reviews of a delivery service (waimai_10k), good or bad; 80/20, without word vectors.
`german`: news in nine classes (the test part of 10kGNAD), another 60/40 split for each draw, at
most 300 labels, without word vectors.
`japanese`: which of ten authors wrote a passage of 200 characters, without word vectors: the ten
with the most files in Aozora (github.com/aozorahack/aozorabunko_text), ten passages at most of each
of 40 works, half of the works for training, half for the test.
± is the standard error of the difference to "words", draw by draw.
"""

import csv
import io
import lzma
import os
import re
import sys
import warnings
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import pacsent
from classify import draw, load, searched
from harness import finish, parser_for
from own_language import lines_of
from pacsent import TextClassifier
from pacsent.classify.fitting import CharacterShare

ENGLISH = ("subj", "mr", "trec", "20news", "imdb")
LONG = ("20news", "imdb")
N_TEST = 2000
N_CHOOSE = 1000
USUALS = (0.5, 0.9, 0.95)


class Folders(NamedTuple):
    data: Path
    aozora: Path | None


@cache
def english():
    return pacsent.load("english")


def typos(texts: list[str], seed: int) -> list[str]:
    """The texts with one edit in every word of three letters or more."""
    pattern = re.compile(r"[^\W\d_]{3,}")
    n_words = sum(len(pattern.findall(text)) for text in texts)
    random = iter(np.random.default_rng([seed, 5]).random((n_words, 3)).tolist())

    def edited(found):
        word, (where, which, kind) = found[0], next(random)
        letter, at = chr(97 + int(26 * which)), int((len(word) - 1) * where)
        middle = (word[at + 1] + word[at] + word[at + 2 :], word[at + 1 :], letter + word[at:],
                  letter + word[at + 1 :])[int(4 * kind)]  # fmt: skip
        return word[:at] + middle

    return [pattern.sub(edited, text) for text in texts]


@cache
def table(data, name):
    """Labels and texts of a file of languages/."""
    with lzma.open(data / "languages" / f"{name}.csv.xz", "rt", encoding="utf-8") as file:
        raw = file.read()
    german = name.startswith("10kGNAD")
    rows = list(csv.reader(io.StringIO(raw), delimiter=";" if german else ",",
                           quotechar="'" if german else '"'))  # fmt: skip
    rows = [row for row in rows[0 if german else 1 :] if len(row) > 1]
    labels = np.unique([row[0] for row in rows], return_inverse=True)[1]
    return np.array([row[1] for row in rows], object), labels


@cache
def passages(folder):
    """Passages of ten authors, the number of each one's author, and of its work."""
    cards = sorted(Path(folder).iterdir())
    files = {card: sorted(card.rglob("*.txt")) for card in cards}
    found = []
    for author, card in enumerate(sorted(cards, key=lambda card: -len(files[card]))[:10]):
        n_works = 0
        for path in files[card]:
            if n_works == 40:
                break
            whole = "".join("".join(lines_of(path)).split())
            parts = [whole[i : i + 200] for i in range(0, len(whole) - 199, 200)]
            if len(parts) >= 10:
                n_works += 1
                step = len(parts) // 10
                found += [(part, author, len(found) // 10) for part in parts[::step][:10]]
    texts, authors, works = zip(*found)
    return np.array(texts, object), np.array(authors), np.array(works)


@lru_cache(1)
def split(name, folders, seed):
    """(train texts, labels, test texts, labels)."""
    if name in ENGLISH:
        return load(name, folders.data, 0)
    if name == "japanese":
        texts, labels, works = passages(folders.aozora)
        test = np.random.default_rng(4).permutation(works.max() + 1)[works] % 2 == 1
        return texts[~test].tolist(), labels[~test], texts[test].tolist(), labels[test]
    german = name == "german"
    texts, labels = table(folders.data, "10kGNAD-test" if german else "waimai_10k")
    order = np.random.default_rng([seed if german else 0, 4]).permutation(len(texts))
    n = int(len(texts) * (0.6 if german else 0.8))
    train, test = order[:n], order[n:]
    return texts[train].tolist(), labels[train], texts[test].tolist(), labels[test]


def char_wb(train, y, seed):
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = searched(vectorizer.fit_transform(train), y, seed, None)
    return lambda texts: model.predict(vectorizer.transform(texts))


def drawn(name, n, seed, folders):
    """(texts, labels, rows) of a draw, and all texts and labels of the training part."""
    train, labels, _, _ = split(name, folders, seed if name == "german" else 0)
    rows = draw(np.asarray(labels), n, seed)
    return [train[i] for i in rows], np.asarray(labels)[rows], rows, train, np.asarray(labels)


def one(task):
    """Accuracy of every method on one draw."""
    name, n, seed, folders = task
    texts, y, *_ = drawn(name, n, seed, folders)
    _, _, test, truth = split(name, folders, seed if name == "german" else 0)
    some = np.random.default_rng(3).permutation(len(test))[: N_TEST // (2 if name in LONG else 1)]
    test, truth = [test[i] for i in some], np.asarray(truth)[some]
    asked = {"": test} | ({", typos": typos(test, seed)} if name in ENGLISH else {})
    warnings.simplefilter("ignore")
    model = TextClassifier(english() if name in ENGLISH else None, n_jobs=1).fit(texts, y)
    share = model.character_share_
    found = {"share": share.least, "usual": share.usual}

    def answer(method, predict):
        for kind, what in asked.items():
            found[method + kind] = float(np.mean(predict(what) == truth))

    answer("with characters", model.predict)
    model.character_share_ = CharacterShare()
    answer("words", model.predict)
    answer("char_wb", char_wb(texts, y, seed))
    print(name, n, seed, {k: round(v, 4) for k, v in found.items()}, file=sys.stderr, flush=True)
    return found


def rows_of(given):
    sets = [s for s in given.sets if "english" in given.parts]
    sets += [part for part in given.parts if part != "english"]
    places = [(name, n) for name in sets for n in given.labels if name != "german" or n <= 300]
    folders = Folders(given.data, given.aozora)
    tasks = [(*place, seed, folders) for place in places for seed in range(given.draws)]
    with get_context("spawn").Pool(given.processes) as pool:
        answers = pool.map(one, tasks, chunksize=1)
    for i, (name, n) in enumerate(places):
        some = answers[i * given.draws : (i + 1) * given.draws]

        def mean(method, some=some):
            return float(np.mean([each[method] for each in some])) if method in some[0] else None

        def error(a, b, some=some):
            differences = [each[a] - each[b] for each in some if a in each]
            if len(differences) < 2:
                return None
            return float(np.std(differences, ddof=1) / np.sqrt(len(differences)))

        yield {
            "set": name, "labels": n, "draws": given.draws, "words": mean("words"),
            "with characters": mean("with characters"), "±": error("with characters", "words"),
            "char_wb": mean("char_wb"), "typos: words": mean("words, typos"),
            "typos: with characters": mean("with characters, typos"),
            "typos ±": error("with characters, typos", "words, typos"),
            "typos: char_wb": mean("char_wb, typos"),
            "share": mean("share"), "usual": mean("usual"),
        }  # fmt: skip


def accuracy(given):
    rows = list(rows_of(given))
    gain = [row["with characters"] - row["words"] for row in rows]
    typo = [
        row["typos: with characters"] - row["typos: words"] for row in rows if row["typos: words"]
    ]
    summary = {"mean gain": float(np.mean(gain)), "least gain": float(np.min(gain))}
    if typo:
        summary |= {"mean gain, typos": float(np.mean(typo)), "least, typos": float(np.min(typo))}
    return rows, summary, "Accuracy with n-grams of characters, by the number of labels"


if __name__ == "__main__":
    parser = parser_for(__doc__, name="accuracy")
    parts = ("english", "chinese", "german")
    parser.add_argument("--parts", nargs="+", choices=(*parts, "japanese"), default=list(parts))
    parser.add_argument("--sets", nargs="+", choices=ENGLISH, default=ENGLISH)
    parser.add_argument("--labels", nargs="+", type=int, default=(20, 100, 300, 1000))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--aozora", type=Path, help="folder of Aozora's text files, for japanese")
    given = parser.parse_args()
    if "japanese" in given.parts and given.aozora is None:
        parser.error("--parts japanese needs --aozora FOLDER")
    rows, summary, title = accuracy(given)
    finish("languages", rows, summary=summary, save=given.save, name=given.name, title=title)
