"""Skip-gram on one GPU: words per second, quality of both tables, and memory.

    python benchmarks/train_gpu.py [--data FOLDER] [--baselines] [--save] [--name NAME]
    python benchmarks/train_gpu.py --full-scale --save          # the paper's corpus size

The text is enwik8, cleaned as the paper does, or `--text`.
The full-scale run draws 4.5 billion tokens of 2,472,211 words from Zipf's law on the
device and trains five epochs on them: quality means nothing there, time does. A word is a token of
the corpus, before sub-sampling.
"""

import os
import tempfile
import time
import types
from itertools import pairwise
from pathlib import Path

import numpy as np

from harness import describe_gpu, finish, need_gpu, parser_for, wikipedia

need_gpu("train_gpu")

try:
    import torch
except ImportError:  # --help needs no torch
    torch = None

from pacsent import Corpus, Vocabulary  # noqa: E402
from pacsent.gpu import require, train_skipgram  # noqa: E402
from pacsent.gpu.skipgram import alias_table  # noqa: E402

BLAZINGTEXT = 5.4e6  # words/s on one GPU, as published (Gupta and Khare, 2017)
PAPER_WORDS, PAPER_TOKENS = 2_472_211, 4_517_598_626


# ------------------------------------------------------------------------------------------------
# quality
# ------------------------------------------------------------------------------------------------


def ranks(x):
    order = np.argsort(x, kind="stable")
    place = np.empty(len(x))
    place[order] = np.arange(len(x))
    _, group = np.unique(x, return_inverse=True)
    return (np.bincount(group, place) / np.bincount(group))[group]


class Quality:
    """WordSim-353, SimLex-999 (100 x Spearman) and analogies (% right, 3CosAdd, 30,000 words)."""

    def __init__(self, folder, words, device):
        self.index = {word: i for i, word in enumerate(words)}
        self.device = device
        self.pairs = [
            self._pairs(Path(folder) / name) for name in ("wordsim353.tsv", "simlex999.txt")
        ]
        questions = []
        for line in (Path(folder) / "questions-words.txt").read_text().splitlines():
            ids = [self.index.get(word, 1 << 30) for word in line.lower().split()]
            if not line.startswith(":") and max(ids) < 30_000:
                questions.append(ids)
        self.questions = torch.tensor(questions, device=device)

    def _pairs(self, path):
        found = []
        for line in path.read_text().splitlines():
            parts = line.lower().split("\t")
            if len(parts) >= 3 and parts[0] in self.index and parts[1] in self.index:
                found.append((self.index[parts[0]], self.index[parts[1]], float(parts[2])))
        return np.array(found)

    def __call__(self, table):
        M = torch.from_numpy(table).to(self.device)
        M = M / M.norm(dim=1, keepdim=True).clamp_min(1e-9)
        scores = []
        for pairs in self.pairs:
            first, second = (torch.from_numpy(pairs[:, c].astype(np.int64)) for c in (0, 1))
            cosines = (M[first.to(self.device)] * M[second.to(self.device)]).sum(1).cpu().numpy()
            scores.append(100 * np.corrcoef(ranks(cosines), ranks(pairs[:, 2]))[0, 1])
        top, right = M[:30_000], 0
        for part in self.questions.split(2000):
            near = (top[part[:, 1]] - top[part[:, 0]] + top[part[:, 2]]) @ top.T
            near.scatter_(1, part[:, :3], -9)
            right += int((near.argmax(1) == part[:, 3]).sum())
        scores.append(100 * right / max(1, len(self.questions)))
        return [round(float(score), 1) for score in scores]


# ------------------------------------------------------------------------------------------------
# corpora
# ------------------------------------------------------------------------------------------------


def zipf_corpus(n_words, n_tokens, device, seed=0):
    """Documents of 1,000 tokens drawn from Zipf's law, made on the device."""
    p = 1.0 / np.arange(1, n_words + 1)
    p /= p.sum()
    table = alias_table(p)
    share = torch.from_numpy((table[:, 0] / 2.0**32).astype(np.float32)).to(device)
    other = torch.from_numpy(table[:, 1].astype(np.int32)).to(device)
    generator = torch.Generator(device=device).manual_seed(seed)
    ids = torch.empty(n_tokens, dtype=torch.int32, device=device)
    for first in range(0, n_tokens, 1 << 27):
        part = ids[first : first + (1 << 27)]
        i = torch.randint(n_words, (part.numel(),), generator=generator, device=device)
        keep = torch.rand(part.numel(), generator=generator, device=device) < share[i]
        part.copy_(torch.where(keep, i.int(), other[i]))
    offsets = np.append(np.arange(0, n_tokens, 1000), n_tokens)
    counts = np.maximum(1, np.round(p * n_tokens)).astype(np.int64)
    vocabulary = Vocabulary([str(i) for i in range(n_words)], counts)
    return types.SimpleNamespace(
        ids=ids, offsets=offsets, n_tokens=n_tokens, vocabulary=vocabulary, digest="zipf"
    )


def run(corpus, name, quality=None, **settings):
    """One row of the table."""
    told: dict = {}
    started = time.perf_counter()
    input_vectors, output_vectors, losses = train_skipgram(
        corpus, random_state=0, report=told.update, **settings
    )
    wall = time.perf_counter() - started
    row = {
        "run": name,
        "M words/s": round(told["tokens_per_second"] / 1e6, 1),
        "M pairs/s": round(told["n_pairs"] / told["seconds"] / 1e6, 1),
        "seconds": round(told["seconds"], 2),
        "with set-up": round(wall, 2),
        "loss": round(losses[-1], 4),
        "GB": round(told["peak_bytes"] / 1e9, 2),
    }
    scores = [quality(input_vectors), quality(output_vectors)] if quality else [[None] * 3] * 2
    for table, values in zip(("in", "out"), scores):
        for short, value in zip(("WS", "SL", "AN"), values):
            row[f"{short} {table}"] = value
    print(row, flush=True)
    return row


def main():
    parser = parser_for(__doc__, name=None)
    parser.add_argument("--text", type=Path, help="cleaned text, instead of enwik8")
    parser.add_argument("--full-scale", action="store_true", help="the paper's corpus size")
    parser.add_argument("--tokens", type=int, default=PAPER_TOKENS, help="of the full-scale run")
    parser.add_argument("--baselines", action="store_true", help="the same machine's cores too")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    device = require("cuda")
    about = describe_gpu(device)
    rows = []
    if arguments.text or not arguments.full_scale:
        with tempfile.TemporaryDirectory() as folder:
            text = arguments.text or wikipedia(arguments.data, Path(folder))
            corpus = Corpus.build(text, Path(folder) / "corpus")
            rows += on_text(corpus, arguments, device)
        name = "text"
        fastest = rows[0]["M words/s"] * 1e6
        summary = {"ratio": round(fastest / BLAZINGTEXT, 1), "baseline": "BlazingText, published"}
    if arguments.full_scale:
        rows += at_full_scale(arguments, device)
        name = "full-scale"
        fastest = rows[-1]["M words/s"] * 1e6
        summary = {"ratio": round(fastest / BLAZINGTEXT, 1), "baseline": "BlazingText, published"}
    finish(
        "train_gpu", rows, summary={**summary, **about}, save=arguments.save,
        name=arguments.name or name, title=f"Skip-gram on one {about['gpu']}",
    )  # fmt: skip


def on_text(corpus, arguments, device):
    quality = Quality(arguments.data / "words", corpus.vocabulary.words, device)
    train_skipgram(corpus, n_epochs=1)  # compiles, fills caches
    train_skipgram(corpus, n_epochs=1, n_centres=1)
    common = {"quality": quality, "n_epochs": arguments.epochs}
    rows = [
        run(corpus, "shared (2 centre words)", **common),
        run(corpus, "shared (1 centre word)", n_centres=1, **common),
        run(corpus, "shared (4 centre words)", n_centres=4, **common),
        run(corpus, "shared, streamed by 4 M", segment_tokens=1 << 22, **common),
    ]
    for n_dims in (100, 200, 400, 600):
        rows.append(run(corpus, f"shared, d={n_dims}", n_dims=n_dims, **common))
    for n_negatives in (5, 10, 20, 30):
        rows.append(run(corpus, f"shared, k={n_negatives}", n_negatives=n_negatives, **common))
    if arguments.baselines:
        rows += [{key: baseline.get(key) for key in rows[0]} for baseline in baselines(corpus)]
    return rows


def baselines(corpus):
    """One epoch on all cores of this machine by our CPU trainer and gensim; a published number."""
    from pacsent import SkipGram

    SkipGram(n_epochs=1, random_state=0, n_jobs=1).fit([["a", "b"] * 50] * 100)  # compiles
    started = time.perf_counter()
    SkipGram(n_epochs=1, random_state=0).fit(corpus)
    took = time.perf_counter() - started
    yield {
        "run": f"our CPU trainer, {os.cpu_count()} cores, 1 epoch",
        "M words/s": corpus.n_tokens / took / 1e6,
        "seconds": round(took, 2),
    }
    try:
        from gensim.models import Word2Vec
    except ImportError:
        yield {"run": "gensim: not installed on this machine"}
    else:
        words = np.array(corpus.vocabulary.words, dtype=object)
        ids, offsets = np.asarray(corpus.ids), np.asarray(corpus.offsets)
        sentences = [list(words[ids[a:b]]) for a, b in pairwise(offsets)]
        model = Word2Vec(
            vector_size=300, window=5, min_count=1, sg=1, negative=15, sample=1e-4,
            workers=os.cpu_count(), epochs=1,
        )  # fmt: skip
        model.build_vocab(sentences)
        started = time.perf_counter()
        model.train(sentences, total_examples=len(sentences), epochs=1)
        took = time.perf_counter() - started
        yield {
            "run": f"gensim, {os.cpu_count()} cores, 1 epoch",
            "M words/s": corpus.n_tokens / took / 1e6,
            "seconds": round(took, 2),
        }
    yield {"run": "BlazingText, one GPU, as published", "M words/s": BLAZINGTEXT / 1e6}


def at_full_scale(arguments, device):
    started = time.perf_counter()
    corpus = zipf_corpus(PAPER_WORDS, arguments.tokens, device)
    torch.cuda.synchronize()
    print(f"drawn in {time.perf_counter() - started:.1f} s", flush=True)
    rows = []
    for n_tokens in (arguments.tokens // 100, arguments.tokens // 10):
        part = types.SimpleNamespace(**vars(corpus))
        part.ids, part.n_tokens = corpus.ids[:n_tokens], n_tokens
        part.offsets = np.append(np.arange(0, n_tokens, 1000), n_tokens)
        rows.append(run(part, f"Zipf, {n_tokens / 1e6:,.0f} M words, 1 epoch", n_epochs=1))
    name = f"Zipf, {arguments.tokens / 1e6:,.0f} M words, {arguments.epochs} epochs"
    rows.append(run(corpus, name, n_epochs=arguments.epochs))
    return rows


if __name__ == "__main__":
    main()
