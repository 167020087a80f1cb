"""Skip-gram words per second beside gensim, in one run: same text, settings and workers.

    python benchmarks/train.py [--data FOLDER] [--quality] [--seeds 3] [--save] [--name NAME]

The text is enwik8, cleaned as the paper does (or `--text`, cleaned already). It is cut into
documents of 1,000 words, for both: gensim cuts longer ones at 10,000 words. Words per second are of
training alone; neither side's vocabulary scan is counted. They are given for the clock and for the
processor's own time: on a machine that others use too, read the latter. The ratio is of the
clock's best rounds. With `--quality` the whole text is trained for 5 epochs with the defaults and
scored, both tables, for `--seeds` seeds.

The floor: the multiplications of the three matrix products of a block, at the speed that a large
product by BLAS reaches on the same cores. Hide features of the processor to see another tile:
NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=+avx,+avx2,+fma, and OPENBLAS_CORETYPE=Haswell to hide
them from gensim and from BLAS too. (For the name `generic` the compiler keeps one register too few
free and spills a sum in the inner loop; for the names of real processors it does not.)
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import finish, hidden, parser_for, wikipedia
from pacsent import Corpus, SkipGram
from pacsent._kernels import intrinsics
from pacsent.threads import n_cores
from pacsent.words.skipgram import ChunkTraining
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


class Clock:
    """Seconds on the wall and of the processor, of all threads."""

    def __enter__(self):
        self.started = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        ended = time.perf_counter(), time.process_time()
        self.wall, self.processor = (b - a for a, b in zip(self.started, ended))


def gensim_rate(path, workers):
    """Words per second of one epoch, by both clocks; vocabulary built before, as for ours."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=300, window=5, negative=15, sample=1e-4, sg=1, hs=0, min_count=5, epochs=1,
        workers=workers, alpha=0.025,
    )  # fmt: skip
    model.build_vocab(corpus_file=str(path))
    with Clock() as clock:
        model.train(
            corpus_file=str(path), epochs=1, total_words=model.corpus_total_words,
            total_examples=model.corpus_count,
        )  # fmt: skip
    n_words = model.corpus_total_words
    return n_words / clock.wall, n_words / clock.processor, 0.0


def our_rate(corpus, workers):
    """Words per second (words of the text, as gensim counts) by both clocks, GFLOP a word."""
    parameters = SkipGram(**SETTINGS, n_epochs=1).get_params()
    training = ChunkTraining(corpus, {**parameters, "seed": 1, "digest": corpus.digest}, workers)
    with Clock() as clock:
        training.run(0, False)
    n_words = corpus.n_tokens + corpus.n_unknown
    return n_words / clock.wall, n_words / clock.processor, _flops(training) / n_words / 1e9


def _flops(training):
    """Multiplications and additions of the three products, spare rows and columns left out."""
    pairs = training.sums[:, 1].sum()
    n_dims, window = training.settings["n_dims"], training.settings["window"]
    _, _, n_block, n_noise = training.shape
    blocks = pairs / (window + 1) / n_block  # a centre has window + 1 pairs on average
    return blocks * (
        (n_block + 2 * window) * n_noise * n_dims * 6 + n_block * (window + 1) * n_dims * 6
    )


BASELINE, OURS, ONE = "gensim 4.4", "pacsent", "pacsent, one thread"


def measure(text, folder, arguments):
    """{trainer: the best of its rounds (words/s, words/s of the processor, GFLOP a word)}; the
    rounds in turns, so that all meet the same machine."""
    path, tiny = folder / "part.txt", folder / "tiny.txt"
    write_lines(text, arguments.n_words, path)
    write_lines(text, 20_000, tiny)
    corpus = Corpus.build(path, folder / "corpus", verbose=False)
    small = Corpus.build(tiny, folder / "tiny", verbose=False)
    workers = arguments.workers
    our_rate(small, workers)  # compile
    jobs = {
        BASELINE: lambda: gensim_rate(path, workers),
        OURS: lambda: our_rate(corpus, workers),
        ONE: lambda: our_rate(corpus, 1),
    }
    gensim_rate(tiny, workers)
    rounds = {name: [] for name in jobs}
    for _ in range(arguments.repeat):
        for name, job in jobs.items():
            rounds[name].append(job())
            wall, processor, _ = rounds[name][-1]
            print(f"{name}: {wall:,.0f} words/s, {processor:,.0f} a processor second", flush=True)
    return {name: tuple(np.max(found, axis=0)) for name, found in rounds.items()}, corpus


def memory(corpus, path, folder):
    """Peak memory of `pacsent train` in a process of its own, and what is promised, in MB.

    Without pandas, which scikit-learn would load where it is installed.
    """
    code = (
        "import runpy, sys\n"
        "sys.modules['pandas'] = None\n"
        "try: runpy.run_module('pacsent', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line])"
    )
    if not Path("/proc/self/status").exists():
        return {}
    quick = ["--subsample", "1e-6", "--n-epochs", "1", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", code, "train", str(path), "-o", str(folder / "vectors"), *quick],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    tables = 2 * len(corpus.vocabulary) * SETTINGS["n_dims"] * 4 / 1e6
    return {
        "peak_memory_mb": round(int(done.stdout.split()[-1]) * 1024 / 1e6),
        "memory_promised_mb": round(1.2 * tables + 300),
        "memory_threads": n_cores(),
    }


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--text", type=Path, help="cleaned text, instead of enwik8")
    parser.add_argument("--n-words", type=int, default=2_000_000, help="words for the timings")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3, help="rounds, of which the best count")
    parser.add_argument("--quality", action="store_true", help="also train fully and score")
    parser.add_argument("--seeds", type=int, default=1, help="full trainings to score")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = (arguments.text or wikipedia(arguments.data, folder)).read_text()
        best, corpus = measure(text, folder, arguments)
        summary = summarise(best, arguments)
        summary |= memory(corpus, folder / "part.txt", folder)
        if arguments.quality:
            summary |= quality(text, arguments, folder)
    rows = [
        {
            "trainer": name,
            "words/s": round(wall),
            "over gensim": round(wall / best[BASELINE][0], 2),
            "words/s of processor time": round(processor),
            "over gensim, processor time": round(processor / best[BASELINE][1], 2),
            "GFLOP/s": round(wall * each, 1) if each else None,
        }
        for name, (wall, processor, each) in best.items()
    ]
    finish(
        "train", rows, summary=summary, save=arguments.save, name=arguments.name,
        title=f"Skip-gram, {arguments.workers} workers, d=300, window 5, k=15, sample 1e-4",
    )  # fmt: skip


def summarise(best, arguments):
    ours, baseline = best[OURS], best[BASELINE]
    tile, peak = intrinsics.TILE, peak_gflops()
    gflops, of_a_core = ours[0] * ours[2], ours[1] * ours[2]
    return {
        "ratio": round(ours[0] / baseline[0], 2),
        "ratio_processor_time": round(ours[1] / baseline[1], 2),
        "words_per_second": round(ours[0]),
        "gensim_words_per_second": round(baseline[0]),
        "workers": arguments.workers,
        "words_timed": arguments.n_words,
        "processor": intrinsics.PROCESSOR,
        "hidden": hidden(),
        "vector_floats": tile.width,
        "tile": f"{tile.scores[0]} x {tile.scores[1]} scores, "
        f"{tile.rows} rows x {tile.vectors[tile.rows]} vectors",
        "gflops": round(gflops, 1),
        "gflops_of_a_core": round(of_a_core, 1),
        "peak_gflops_of_a_core": round(peak, 1),
        "share_of_peak": round(of_a_core / peak, 2),
        "floor": f"the products alone at {peak:.0f} GFLOP/s of a core would allow "
        f"{peak / ours[2]:,.0f} words/s of a core; reached {100 * of_a_core / peak:.0f} %",
    }


def peak_gflops():
    """Single-precision GFLOP/s of one core, as a large matrix product reaches them."""
    from threadpoolctl import threadpool_limits

    a = np.ones((1024, 1024), dtype=np.float32)
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(16):
            with Clock() as clock:
                a @ a
            best = min(best, clock.processor)
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
        for row in evaluate_words(model.word_vectors_, arguments.data / "words"):
            run[row["task"]] = [round(row["input"], 2), round(row["output"], 2)]
        runs.append(run)
    tasks = [task for task in ("WordSim-353", "SimLex-999", "analogies") if task in runs[0]]
    means = {task: np.mean([run[task] for run in runs], axis=0).round(2).tolist() for task in tasks}
    return {"quality_mean_input_output": means, "quality_runs": runs}


if __name__ == "__main__":
    main()
