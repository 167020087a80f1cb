"""The first call in a fresh environment: nothing compiled yet, every run in a process of its own.

    python benchmarks/cold.py --save
    python benchmarks/cold.py --before ../old/src --other-python ../extras/bin/python

Each task runs with an empty cache of compiled code, then once more with the cache it filled. Rounds
alternate among programs, and the least of each is kept: seconds on the clock and of processor time.
`--before` adds another tree of pacsent, `--other-python` an interpreter with model2vec and
fastText. Modules that a fresh environment has not (pandas) are hidden from all.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import finish, parser_for

SRC = Path(__file__).parents[1] / "src"
TEXTS = """
import random
random.seed(0)
words = [f"word{i}" for i in range(3000)]
ends = [["bad", "dull", "poor", "cold"], ["good", "lovely", "superb", "warm"]]
labels = [i % 2 for i in range(500)]
texts = [" ".join(random.choices(words, k=15) + [random.choice(ends[y])]) for y in labels]
"""
FIT = TEXTS + "from pacsent import TextClassifier\nTextClassifier(WORDS).fit(texts, labels)"
MAIN = "import sys; sys.argv[1:] = {!r}; from pacsent.cli import main; main()"
TRAIN = MAIN.format(["vectors", "train", "corpus.txt", "-o", "words", "--n-dims", "64", "--quiet"])
OURS = {
    "import": "import pacsent",
    "help": MAIN.format(["--help"]),
    "embed a line": MAIN.format(["embed", "english", "line.txt"]),
    "fit 500 texts": FIT.replace("WORDS", ""),
    "fit 500 texts, with vectors": FIT.replace("WORDS", '"english"'),
    "train word vectors": TRAIN,
}
OTHERS = {
    ("fit 500 texts", "scikit-learn"): TEXTS
    + "from sklearn.feature_extraction.text import TfidfVectorizer\n"
    "from sklearn.linear_model import LogisticRegressionCV\n"
    "X = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts)\n"
    "LogisticRegressionCV(Cs=4, cv=5, max_iter=1000).fit(X, labels)",
    ("fit 500 texts", "fastText"): TEXTS + "import fasttext\n"
    "lines = [f'__label__{y} {t}' for y, t in zip(labels, texts)]\n"
    "open('train.txt', 'w').write('\\n'.join(lines))\n"
    "fasttext.train_supervised('train.txt', wordNgrams=2, epoch=25, verbose=0)",
    ("embed a line", "model2vec"): "import os\nfrom model2vec import StaticModel\n"
    "StaticModel.from_pretrained(os.environ['MODEL2VEC']).encode(['a glass of wine'])",
}
STATIC_MODEL = """
import sys, numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
words = {"[UNK]": 0, "a": 1, "glass": 2, "of": 3, "wine": 4} | {f"w{i}": i for i in range(5, 65536)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
StaticModel(np.ones((65536, 256), np.float32), tokenizer).save_pretrained(sys.argv[1])
"""
HIDE = """
import importlib.abc, sys
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""


def main():
    parser = parser_for(__doc__, name="fresh")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help="src folder of another tree of pacsent")
    parser.add_argument("--other-python", default=sys.executable)
    parser.add_argument("--tasks", nargs="+", default=list(OURS))
    given = parser.parse_args()
    model = tempfile.mkdtemp(prefix="static-")  # as large as the English model, of ones
    made = subprocess.run([given.other_python, "-c", STATIC_MODEL, model], capture_output=True)
    jobs, found = [], {}
    for task in given.tasks:
        jobs.append((task, "pacsent", OURS[task], sys.executable, SRC))
        if given.before:
            jobs.append((task, "pacsent before", OURS[task], sys.executable, given.before))
        for (name, program), code in OTHERS.items():
            if name == task and (program != "model2vec" or made.returncode == 0):
                jobs.append((task, program, code, given.other_python, None))
    for _ in range(given.rounds):
        for job in jobs:
            for key, value in measured(*job, model).items():
                found.setdefault(job[:2], {}).setdefault(key, []).append(value)
    rows = []
    for (task, program), times in found.items():
        least = {key: round(min(values), 2) for key, values in times.items()}
        rows.append({"task": task, "program": program, **least})
    ours = {row["task"]: row["first_cpu_s"] for row in rows if row["program"] == "pacsent"}
    title = "The first run, nothing compiled: seconds"
    finish("cold", rows, summary=ours, title=title, save=given.save, name=given.name)


def measured(task, program, code, python, src, model2vec) -> dict:
    """Seconds of the first run and of the next, in a new folder; {} where it does not run."""
    folder = tempfile.mkdtemp(prefix="cold-")
    Path(folder, "line.txt").write_text("a glass of wine\n")
    Path(folder, "corpus.txt").write_text("the cat sat on the mat and the dog ran\n" * 2000)
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environ |= {"NUMBA_CACHE_DIR": f"{folder}/cache", "MODEL2VEC": model2vec}
    if src is not None:
        environ["PYTHONPATH"] = str(src.resolve())
    times = {}
    for which in ("first", "next"):
        shutil.rmtree(f"{folder}/words", ignore_errors=True)
        began = time.perf_counter()
        process = subprocess.Popen(
            [python, "-c", HIDE + code], env=environ, cwd=folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            print(f"{task}, {program}: {said.decode()[-300:]}", file=sys.stderr)
            return {}
        times[f"{which}_s"] = time.perf_counter() - began
        times[f"{which}_cpu_s"] = usage.ru_utime + usage.ru_stime
    shutil.rmtree(folder)
    return times


if __name__ == "__main__":
    main()
