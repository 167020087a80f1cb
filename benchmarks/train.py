"""Skip-gram words per second of CPU time beside gensim: same text, settings and workers.

    python benchmarks/train.py [--data FOLDER] [--quality] [--seeds 3] [--save] [--name NAME]

The text is enwik8, cleaned as the paper does (or `--text`, cleaned already). It is cut into
documents of 1,000 words, for both: gensim cuts longer ones at 10,000 words. Words per second are of
training alone, in the CPU time of all threads; neither side's vocabulary scan is counted.

gensim draws 15 negative samples for every pair of centre and context word. pacsent draws 40 for a
block of eight centre words and scores each word of their windows against all of them; "15 a pair"
draws 15 for every centre word and scores every pair against them, as much work as gensim's.

With `--quality` the whole text is trained for 5 epochs with the defaults and scored, both tables,
for `--seeds` seeds.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import finish, parser_for, wikipedia
from pacsent import Corpus, SkipGram
from pacsent.kernels import library
from pacsent.words.checkpoint import TrainingSettings
from pacsent.words.skipgram_training import BlockShape, ChunkTraining
from word_tasks import word_scores

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
    started = time.process_time()
    model.train(
        corpus_file=str(path), epochs=1, total_words=model.corpus_total_words,
        total_examples=model.corpus_count,
    )  # fmt: skip
    return model.corpus_total_words / (time.process_time() - started)


def our_rate(corpus, workers, one_centre=False):
    """Words per second: words of the text, as gensim counts."""
    settings = TrainingSettings(
        **SETTINGS,
        n_epochs=1,
        noise_power=0.75,
        learning_rate=0.025,
        min_count=5,
        device="cpu",
        seed=1,
        digest=corpus.digest,
    )
    training = ChunkTraining(corpus, settings, workers)
    if one_centre:
        training.shape = BlockShape(
            SETTINGS["window"], SETTINGS["n_negatives"], 1, SETTINGS["n_negatives"]
        )
    started = time.process_time()
    training.run(verbose=False)
    return (corpus.n_tokens + corpus.n_unknown) / (time.process_time() - started)


def negatives_per_pair(n_centres=8, n_samples=40, n_blocks=10_000):
    """Products with negative samples per pair of centre and context word, in blocks of centres."""
    reach = np.random.default_rng(0).integers(1, SETTINGS["window"] + 1, (n_blocks, n_centres))
    centres = np.arange(n_centres)
    n_words = (centres + reach).max(axis=1) - (centres - reach).min(axis=1) + 1
    return float(n_samples * n_words.sum() / (2 * reach.sum()))


BASELINE, OURS, ONE = "gensim 4.4", "pacsent", "pacsent, one thread"
EQUAL = "pacsent, 15 a pair"


def measure(text, folder, arguments):
    """{trainer: words/s of its best round}; the rounds are interleaved."""
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
        EQUAL: lambda: our_rate(corpus, workers, one_centre=True),
        ONE: lambda: our_rate(corpus, 1),
    }
    gensim_rate(tiny, workers)
    rounds = {name: [] for name in jobs}
    for _ in range(arguments.repeat):
        for name, job in jobs.items():
            rounds[name].append(job())
            print(f"{name}: {rounds[name][-1]:,.0f} words/s", flush=True)
    return {name: max(rates) for name, rates in rounds.items()}


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
        best = measure(text, folder, arguments)
        summary = {
            "ratio": round(best[OURS] / best[BASELINE], 2),
            "ratio_equal_work": round(best[EQUAL] / best[BASELINE], 2),
            "workers": arguments.workers,
            "words_timed": arguments.n_words,
            "instruction_set": library.level(),
        }
        if arguments.quality:
            summary |= quality(text, arguments, folder)
    scored = negatives_per_pair()
    rows = [
        {
            "trainer": name,
            "negatives scored per pair": 15.0 if name in (BASELINE, EQUAL) else scored,
            "words/s": round(rate),
            "over gensim": round(rate / best[BASELINE], 2),
        }
        for name, rate in best.items()
    ]
    finish(
        "train", rows, summary=summary, save=arguments.save, name=arguments.name,
        title=f"Skip-gram, {arguments.workers} workers, d=300, window 5, k=15, sample 1e-4",
    )  # fmt: skip


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
        for task, scores in word_scores(model.word_vectors_, arguments.data / "words").items():
            run[task] = [round(score, 2) for score in scores]
        runs.append(run)
    tasks = [task for task in ("WordSim-353", "SimLex-999", "analogies") if task in runs[0]]
    means = {task: np.mean([run[task] for run in runs], axis=0).round(2).tolist() for task in tasks}
    return {"quality_mean_input_output": means, "quality_runs": runs}


if __name__ == "__main__":
    main()
