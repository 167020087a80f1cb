"""Skip-gram words per second beside gensim, in one run: same text, settings and workers.

    python benchmarks/train.py --text enwik8.txt [--quality DIR] [--save]

`--text` is cleaned text (`pacsent clean --wiki`). It is cut into documents of 1,000 words, for
both: gensim cuts longer ones at 10,000 words. Words per second are of training alone; neither
side's vocabulary scan is counted. With `--quality DIR` (the word tasks) the whole text is trained
for 5 epochs with the defaults and scored, both tables.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import finish
from pacsent import Corpus, SkipGram
from pacsent.words.skipgram import _Training
from pacsent.words.tasks import evaluate_words

WORDS_PER_LINE = 1_000
SETTINGS = {"n_dims": 300, "window": 5, "subsample": 1e-4, "n_negatives": 15}


def write_lines(text, n_words, path):
    """The first `n_words` words, a thousand a line."""
    words = text.split(None, n_words)[:n_words]
    with open(path, "w") as file:
        for start in range(0, len(words), WORDS_PER_LINE):
            file.write(" ".join(words[start : start + WORDS_PER_LINE]) + "\n")
    return len(words)


def gensim_rate(path, workers):
    """Words per second of one epoch; vocabulary built before, as for ours."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=300, window=5, negative=15, sample=1e-4, sg=1, hs=0, min_count=5, epochs=1,
        workers=workers, alpha=0.025,
    )  # fmt: skip
    model.build_vocab(corpus_file=str(path))
    started = time.perf_counter()
    model.train(
        corpus_file=str(path), epochs=1, total_words=model.corpus_total_words,
        total_examples=model.corpus_count,
    )  # fmt: skip
    return model.corpus_total_words / (time.perf_counter() - started)


def our_rate(corpus, workers, n_epochs=1, **changed):
    """Words per second (words of the text, as gensim counts) and GFLOP/s of the products."""
    parameters = SkipGram(**SETTINGS, n_epochs=n_epochs, **changed).get_params()
    training = _Training(corpus, {**parameters, "seed": 1, "digest": corpus.digest}, workers)
    started = time.perf_counter()
    training.run(0, False)
    seconds = time.perf_counter() - started
    n_words = n_epochs * (corpus.n_tokens + corpus.n_unknown)
    return n_words / seconds, _flops(training) / seconds / 1e9, training


def _flops(training):
    """Multiplications and additions of the three products, spare rows and columns left out."""
    pairs = training.sums[:, 1].sum()
    n_dims, window = training.settings["n_dims"], training.settings["window"]
    if len(training.shape) == 2:
        return pairs * (1 + training.shape[1]) * n_dims * 6
    _, _, n_block, n_noise = training.shape
    blocks = pairs / (window + 1) / n_block  # a centre has window + 1 pairs on average
    return blocks * (
        (n_block + 2 * window) * n_noise * n_dims * 6 + n_block * (window + 1) * n_dims * 6
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--text", required=True, help="cleaned text")
    parser.add_argument("--n-words", type=int, default=2_000_000, help="words for the timings")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--quality", help="folder of the word tasks: also train fully and score")
    parser.add_argument("--seeds", type=int, default=1, help="full trainings to score")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--name", default="default")
    arguments = parser.parse_args()
    text = Path(arguments.text).read_text()
    rows, summary = [], {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.txt"
        n_words = write_lines(text, arguments.n_words, path)
        corpus = Corpus.build(path, Path(folder) / "corpus")
        tiny = Path(folder) / "tiny.txt"
        write_lines(text, 20_000, tiny)
        tiny_corpus = Corpus.build(tiny, Path(folder) / "tiny")
        ways = {
            "pacsent shared": {},
            "pacsent shared, deterministic": {"deterministic": True},
            "pacsent pair": {"negatives": "pair"},
        }
        for changed in ways.values():
            our_rate(tiny_corpus, arguments.workers, **changed)  # compile
        gensim_rate(tiny, arguments.workers)
        best = {"gensim 4.4": (0.0, None)}
        for _ in range(arguments.repeat):  # in turns, so that all meet the same machine
            best["gensim 4.4"] = max(
                best["gensim 4.4"], (gensim_rate(path, arguments.workers), None)
            )
            for name, changed in ways.items():
                rate, gflops, _ = our_rate(corpus, arguments.workers, **changed)
                best[name] = max(best.get(name, (0.0, 0.0)), (rate, gflops))
        one = max(our_rate(corpus, 1)[:2] for _ in range(arguments.repeat))
        best["pacsent shared, one thread"] = one
        for name, (rate, gflops) in best.items():
            rows.append({
                "trainer": name,
                "words/s": round(rate),
                "over gensim": round(rate / best["gensim 4.4"][0], 2),
                "GFLOP/s": None if gflops is None else round(gflops, 1),
            })  # fmt: skip
        shared, locked = best["pacsent shared"], best["pacsent shared, deterministic"]
        summary = {
            "ratio": round(shared[0] / best["gensim 4.4"][0], 2),
            "words_per_second": round(shared[0]),
            "gensim_words_per_second": round(best["gensim 4.4"][0]),
            "deterministic_cost": round(shared[0] / locked[0], 2),
            "workers": arguments.workers,
            "words_timed": n_words,
            "gflops": round(shared[1], 1),
        }
        peak = peak_gflops() * arguments.workers
        summary["peak_gflops"] = round(peak, 1)
        summary["floor"] = (
            f"the products alone at the machine's {peak:.0f} GFLOP/s would allow "
            f"{shared[0] * peak / shared[1]:,.0f} words/s; reached {100 * shared[1] / peak:.0f} %"
        )
        if arguments.quality:
            summary |= quality(text, arguments, Path(folder))
    finish(
        "train", rows, summary=summary, save=arguments.save, name=arguments.name,
        title=f"Skip-gram, {arguments.workers} workers, d=300, window 5, k=15, sample 1e-4",
    )  # fmt: skip


def peak_gflops():
    """Single-precision GFLOP/s of one core, as a large matrix product reaches them."""
    from threadpoolctl import threadpool_limits

    a = np.ones((1024, 1024), dtype=np.float32)
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(8):
            started = time.perf_counter()
            a @ a
            best = min(best, time.perf_counter() - started)
    return 2 * 1024**3 / best / 1e9


def quality(text, arguments, folder):
    """The whole text, 5 epochs, the defaults; scores of both tables for each seed; memory."""
    path = folder / "all.txt"
    path.write_text(text)
    corpus = Corpus.build(path, folder / "all")
    runs = []
    for seed in range(1, arguments.seeds + 1):
        started = time.perf_counter()
        model = SkipGram(n_jobs=arguments.workers, random_state=seed, verbose=True).fit(corpus)
        seconds = time.perf_counter() - started
        run = {
            "seed": seed,
            "seconds": round(seconds, 1),
            "words_per_second": round(5 * (corpus.n_tokens + corpus.n_unknown) / seconds),
            "loss": [round(loss, 4) for loss in model.loss_],
        }
        for row in evaluate_words(model.word_vectors_, arguments.quality):
            run[row["task"]] = [round(row["input"], 2), round(row["output"], 2)]
        runs.append(run)
    tasks = [task for task in ("WordSim-353", "SimLex-999", "analogies") if task in runs[0]]
    means = {task: np.mean([run[task] for run in runs], axis=0).round(2).tolist() for task in tasks}
    return {"quality_mean_input_output": means, "quality_runs": runs}


if __name__ == "__main__":
    main()
