"""How time and memory grow with size: training, encoding, search, classification, certification.

    python benchmarks/growth.py --save [--most 7] [--parts training encoding]
    python benchmarks/growth.py --scaling --save --name threads-16 [--text FILE] [--n-words 2000000]

Texts are generated: words drawn by Zipf's law, so no data is needed. Every size runs in a process
of its own, after a warm-up that compiles; seconds are of the work alone, the peak of memory is the
process's. The slope is that of log time against log size over the upper half of the sizes: 1 is
proportional. One figure for each part goes to docs/figures/growth-PART.svg.

`--scaling` measures training with 1, 2, 4, ... threads instead: 300 dimensions, and gensim beside
it where it is installed, one round of it and the best of three of ours; about a minute on 16 cores.
"""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import RESULTS, finish, parser_for
from pacsent.threads import n_cores

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
UNITS = {
    "training": "words", "encoding": "sentences", "search": "texts in the index",
    "classification": "training texts", "certification": "labels",
}  # fmt: skip
N_WORDS, N_DIMS, IN_A_SENTENCE = 20_000, 64, 12


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    names = np.array([f"w{''.join(chr(97 + int(d)) for d in str(i))}" for i in range(N_WORDS)])
    shares = 1 / np.arange(1, N_WORDS + 1)
    ids = rng.choice(N_WORDS, size=(n, IN_A_SENTENCE), p=shares / shares.sum())
    return list(map(" ".join, names[ids]))


def word_vectors():
    from pacsent import Vocabulary, WordVectors

    words = [f"w{''.join(chr(97 + int(d)) for d in str(i))}" for i in range(N_WORDS)]
    counts = (1e7 / np.arange(1, N_WORDS + 1)).astype(np.int64)
    tables = np.random.default_rng(0).standard_normal((2, N_WORDS, N_DIMS)).astype(np.float32)
    return WordVectors(Vocabulary(words, counts), *tables)


def training(n):
    from pacsent import SkipGram

    texts = sentences(max(1, n // IN_A_SENTENCE))
    model = SkipGram(n_dims=N_DIMS, n_epochs=1, min_count=1, random_state=0)
    return lambda: model.fit(texts)


def encoding(n):
    from pacsent import make

    method, texts = make("Average", word_vectors()), sentences(n)
    return lambda: method.fit(texts[:10]).transform(texts)


def search(n):
    from pacsent import Index, make

    words = word_vectors()
    index = Index(make("Average", words).fit(sentences(10)), engine="exact")
    for start in range(0, n, 100_000):
        index.add(sentences(min(100_000, n - start), seed=start + 1))
    queries = sentences(100, seed=7)
    return lambda: index.search(queries, 10)


def classification(n):
    from pacsent import TextClassifier

    texts = sentences(n)
    labels = [int(text < "wbb") for text in texts]
    return lambda: TextClassifier().fit(texts, labels)


def certification(n):
    from pacsent import certify_predictions

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n)
    predictions = np.where(rng.random(n) < 0.1, 1 - labels, labels)
    return lambda: certify_predictions(labels, predictions)


PARTS = {f.__name__: f for f in (training, encoding, search, classification, certification)}


def measure(part, n):
    """Run in a process of its own; print the seconds and the peak of memory."""
    PARTS[part](1000)()  # compiles
    work = PARTS[part](n)
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": round(seconds, 4), "peak_mb": round(peak)}))


def measured(part, n, given):
    command = [sys.executable, __file__, "--one", json.dumps([part, n])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=given.timeout, check=True)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def slope(rows):
    """Of log time against log size, over the upper half of the sizes."""
    upper = rows[len(rows) // 2 :]
    if len(upper) < 2:
        return float("nan")
    sizes, seconds = ([row[key] for row in upper] for key in ("size", "seconds"))
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-6)), 1)[0])


def draw(part, rows):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
    sizes = [row["size"] for row in rows]
    left.loglog(sizes, [row["seconds"] for row in rows], "o-", color="#20639b")
    left.set(xlabel=UNITS[part], ylabel="seconds", title=f"{part}: slope {slope(rows):.2f}")
    right.loglog(sizes, [row["peak_mb"] for row in rows], "o-", color="#ed553b")
    right.set(xlabel=UNITS[part], ylabel="peak memory, MB")
    figure.savefig(FIGURES / f"growth-{part}.svg", metadata={"Date": None})
    plt.close(figure)


def threads(given):
    """Training with 1, 2, 4, ... threads, of one text that is read before."""
    from pacsent import Corpus
    from train import gensim_rate, our_rate, write_lines

    counts = [n for n in (1, 2, 4, 8, 16, 32) if n <= n_cores()]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "text.txt"
        text = given.text.read_text() if given.text else " ".join(sentences(given.n_words // 12))
        write_lines(text, given.n_words, path)
        corpus = Corpus.build(path, Path(place) / "corpus", verbose=False)
        ways = {"pacsent": lambda n: our_rate(corpus, n)}
        ways["pacsent"](2)  # compiles
        if importlib.util.find_spec("gensim"):
            ways["gensim"] = lambda n: gensim_rate(path, n)
        rows = []
        for trainer, way in ways.items():
            for n in counts:
                found = [way(n) for _ in range(1 if trainer == "gensim" else 3)]
                wall, processor, _ = np.max(found, axis=0).tolist()
                one = rows[-counts.index(n)]["words_per_second"] if n > 1 else wall
                rows.append(
                    {
                        "trainer": trainer, "threads": n, "words_per_second": round(wall),
                        "times_one_thread": round(wall / one, 2),
                        "words_per_processor_second": round(processor),
                    }
                )  # fmt: skip
                print(rows[-1], flush=True)
    most = {row["trainer"]: row for row in rows if row["threads"] == counts[-1]}
    ours = most["pacsent"]
    summary = {
        "threads": counts[-1],
        "n_words": corpus.n_tokens + corpus.n_unknown,
        "text": given.text.name if given.text else "generated",
        "times_one_thread": ours["times_one_thread"],
    }
    if "gensim" in most:
        gensim = most["gensim"]
        summary["times_gensim"] = round(ours["words_per_second"] / gensim["words_per_second"], 2)
        summary["gensim_times_one_thread"] = gensim["times_one_thread"]
    title = "Training by the number of threads, d=300, window 5, k=15, sample 1e-4"
    finish("growth", rows, summary=summary, title=title, save=given.save, name=given.name)


def main():
    parser = parser_for(__doc__, name="sizes")
    parser.add_argument("--most", type=float, default=7, help="log10 of the largest size")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--timeout", type=float, default=240, help="seconds for one size")
    parser.add_argument("--scaling", action="store_true", help="training by threads instead")
    parser.add_argument("--n-words", type=int, default=2_000_000, help="with --scaling")
    parser.add_argument("--text", type=Path, help="with --scaling: cleaned, instead of generated")
    parser.add_argument("--no-figures", action="store_true")
    parser.add_argument("--draw", action="store_true", help="the figures of a saved result only")
    parser.add_argument("--one", help="for the script's own use")
    given = parser.parse_args()
    if given.one:
        measure(*json.loads(given.one))
        return
    if given.draw:
        saved = json.loads((RESULTS / "growth" / f"{given.name}.json").read_text())["rows"]
        for part in UNITS:
            draw(part, [row for row in saved if row["part"] == part])
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(n_cores()))
    if given.scaling:
        threads(given)
        return
    rows, summary = [], {}
    for part in given.parts:
        mine = []
        for power in np.arange(3, given.most + 0.1):
            n = int(10**power)
            found = measured(part, n, given)
            if found is None:
                break  # larger ones take longer still
            mine.append({"part": part, "size": n, **found})
        if not given.no_figures and mine:
            draw(part, mine)
        rows += mine
        summary[f"{part}_slope"] = round(slope(mine), 2)
    title = "Time and memory against size"
    finish("growth", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
