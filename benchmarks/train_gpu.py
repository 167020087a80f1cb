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
from pathlib import Path

import numpy as np

from harness import describe_gpu, finish, need_gpu, parser_for, wikipedia

need_gpu("train_gpu")

try:
    import torch
except ImportError:  # --help needs no torch
    torch = None

from pacsent import Corpus, SkipGram, Vocabulary, WordVectors  # noqa: E402
from pacsent.words.gpu.device import require  # noqa: E402
from pacsent.words.gpu.skipgram import alias_table, train_skipgram  # noqa: E402
from word_tasks import word_scores  # noqa: E402

BLAZINGTEXT = 5.4e6  # words/s on one GPU, as published (Gupta and Khare, 2017)
PAPER_WORDS, PAPER_TOKENS = 2_472_211, 4_517_598_626


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


def run(corpus, name, score_folder=None, **settings):
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
    if score_folder:
        words = WordVectors(corpus.vocabulary, input_vectors, output_vectors)
        for task, scores in word_scores(words, score_folder).items():
            row |= {f"{task}, {table}": round(x, 1) for table, x in zip(("in", "out"), scores)}
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
            rows += on_text(corpus, arguments)
        name, fastest = "text", rows[0]
    if arguments.full_scale:
        rows += at_full_scale(arguments, device)
        name, fastest = "full-scale", rows[-1]
    ratio = round(fastest["M words/s"] * 1e6 / BLAZINGTEXT, 1)
    summary = {"ratio": ratio, "baseline": "BlazingText, published", **about}
    finish(
        "train_gpu", rows, summary=summary, save=arguments.save,
        name=arguments.name or name, title=f"Skip-gram on one {about['gpu']}",
    )  # fmt: skip


def on_text(corpus, arguments):
    train_skipgram(corpus, n_epochs=1)  # compiles, fills caches
    train_skipgram(corpus, n_epochs=1, n_centres=1)
    common = {"score_folder": arguments.data / "words", "n_epochs": arguments.epochs}
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
    """One epoch of our CPU trainer on all cores (train.py has gensim's); a published number."""
    SkipGram(n_epochs=1, random_state=0, n_jobs=1).fit([["a", "b"] * 50] * 100)  # compiles
    started = time.perf_counter()
    SkipGram(n_epochs=1, random_state=0).fit(corpus)
    took = time.perf_counter() - started
    yield {
        "run": f"our CPU trainer, {os.cpu_count()} cores, 1 epoch",
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
