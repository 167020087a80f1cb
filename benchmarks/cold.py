"""The first use in a new process: seconds of the first and of the second call, and memory.

    python benchmarks/cold.py --save
    python benchmarks/cold.py --before ../old/src --tasks encode fit

Every row is a process of its own, with bytecode cached as an install leaves it. What a user waits
for is `process`: from nothing to the end of the first call, imports included, in seconds of
CPU time. `first` and `second` are the same call twice, after the modules that it needs were
imported: compiling or reading anything at the first use shows there. `memory` is the largest
resident size. `--before` adds another tree of pacsent; if it compiles with numba, its cache is
empty. Rounds alternate among programs; the table has medians. pandas and pyarrow, which a new
environment does not have, are hidden. The server is ready when it answers /health.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
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
new = [text + " and some more" for text in texts[:200]]
"""
BOOKS = """
from pacsent.datasets import load_books
passages = [passage.text for passage in load_books()]
"""
TRAINED = """
from pacsent import SkipGram, make_encoder
words = SkipGram(n_dims=50, n_epochs=1, n_jobs=1, random_state=0).fit(passages[:500]).word_vectors_
def encode_with(method):
    return make_encoder(method, words).fit(passages[:300]).transform(passages[:100])
"""

# task: (what is imported and prepared, the call, packages whose modules it imports)
OURS = {
    "encode ten sentences": (
        "from pacsent import load\nten = [f'a glass of wine, number {i}' for i in range(10)]",
        "load('english').encode(ten)",
        "kernels storage text words",
    ),
    "fit 500 texts": (
        TEXTS + "from pacsent import TextClassifier",
        "TextClassifier().fit(texts, labels)",
        "kernels bounds storage text certify words sentences classify",
    ),
    "fit and certify 500 texts": (
        TEXTS + "from pacsent import CertifiedClassifier",
        "CertifiedClassifier(random_state=0).fit(texts, labels)",
        "kernels bounds storage text certify words sentences classify predict",
    ),
    "certify 500 predictions with their texts": (
        TEXTS + "from pacsent import certify_predictions",
        "certify_predictions(labels, labels, texts=texts, random_state=0)",
        "kernels bounds storage text certify",
    ),
    "index 2,000 texts and search": (
        BOOKS + "from pacsent import Index",
        "index = Index('english'); index.add(passages[:2000]); index.search(passages[0])",
        "kernels storage text words sentences search",
    ),
    "train Skip-gram on 500 passages": (
        BOOKS + "from pacsent import SkipGram",
        "SkipGram(n_dims=50, n_epochs=1, n_jobs=1, random_state=0).fit(passages[:500])",
        "kernels storage text words",
    ),
    "PB-neg, 300 passages": (BOOKS + TRAINED, "encode_with('PB-neg')", "kernels sentences"),
    "w-PB-neg, 300 passages": (BOOKS + TRAINED, "encode_with('w-PB-neg')", "kernels sentences"),
}
OTHERS = {
    ("fit 500 texts", "scikit-learn"): (
        TEXTS + "from sklearn.feature_extraction.text import TfidfVectorizer\n"
        "from sklearn.linear_model import LogisticRegressionCV\n"
        "from sklearn.pipeline import make_pipeline\n"
        "features = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)\n"
        "model = make_pipeline(features, LogisticRegressionCV(Cs=4, cv=5, max_iter=1000))",
        "model.fit(texts, labels)",
        "",
    ),
    ("encode ten sentences", "model2vec"): (
        "import os\nfrom model2vec import StaticModel\n"
        "ten = [f'a glass of wine, number {i}' for i in range(10)]",
        "StaticModel.from_pretrained(os.environ['MODEL2VEC']).encode(ten)",
        "",
    ),
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
        if name in ("pandas", "pyarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""
COLUMNS = ("process", "memory", "first", "second", "wall")

# What a process does, prints and is measured by: {prepare}, {call}, {packages} are filled in.
WHOLE = """
{prepare}
{call}
import json, resource, time
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kilobytes //= 1024 if sys.platform == "darwin" else 1
print(json.dumps({{"process": time.process_time(), "memory": kilobytes / 1024}}))
"""
TWICE = """
import importlib, json, pkgutil, time
{prepare}
for name in "{packages}".split():
    try:
        package = importlib.import_module("pacsent." + name)
    except ModuleNotFoundError:  # another tree has other packages
        continue
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        try:
            importlib.import_module(module.name)
        except ImportError:  # an extra
            pass
times = []
for _ in range(2):
    start = time.process_time()
    {call}
    times.append(time.process_time() - start)
print(json.dumps(dict(zip(("first", "second"), times))))
"""


def main():
    parser = parser_for(__doc__, name="fresh")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="src folder of another tree of pacsent")
    parser.add_argument("--other-python", default=sys.executable, help="has model2vec")
    parser.add_argument("--tasks", nargs="+", default=[*OURS, "server"], help="beginnings of names")
    given = parser.parse_args()
    chosen = [task for task in OURS if task.startswith(tuple(given.tasks))]
    trees = {"pacsent": SRC} | ({"pacsent before": given.before} if given.before else {})

    static_model = tempfile.mkdtemp(prefix="static-")  # as large as the English model, of ones
    command = [given.other_python, "-c", STATIC_MODEL, static_model]
    has_model2vec = subprocess.run(command, capture_output=True).returncode == 0

    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for _ in range(given.rounds):
        for task in chosen:
            for program, src in trees.items():
                add(found, task, program, measured(OURS[task], sys.executable, src, ""))
            for (name, program), job in OTHERS.items():
                if name == task and (program != "model2vec" or has_model2vec):
                    numbers = measured(job, given.other_python, None, static_model)
                    add(found, task, program, numbers)
        if "server" in given.tasks:
            for program, src in trees.items():
                add(found, "server answers", program, server_ready(src))

    rows = []
    for (task, program), numbers in found.items():
        median = {name: round(statistics.median(values), 2) for name, values in numbers.items()}
        numbers_or_none = {name: median.get(name) for name in COLUMNS}
        rows.append({"task": task, "program": program, **numbers_or_none})
    summary = {row["task"]: row["process"] for row in rows if row["program"] == "pacsent"}
    title = "The first use in a new process: CPU seconds and MB"
    finish("cold", rows, summary=summary, title=title, save=given.save, name=given.name)


def add(found: dict, task: str, program: str, numbers: dict[str, float]) -> None:
    row = found.setdefault((task, program), {})
    for name, value in numbers.items():
        row.setdefault(name, []).append(value)


def environment(folder: str, src: Path | None, static_model: str = "") -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    own |= {"NUMBA_CACHE_DIR": f"{folder}/cache", "MODEL2VEC": static_model}
    return own | ({"PYTHONPATH": str(src.resolve())} if src is not None else {})


def measured(job: tuple[str, str, str], python: str, src: Path | None, static_model: str) -> dict:
    """The numbers of one task: from two processes, each with an empty cache."""
    prepare, call, packages = job
    numbers: dict[str, float] = {}
    for script in (WHOLE, TWICE):
        with tempfile.TemporaryDirectory(prefix="cold-") as folder:
            code = HIDE + script.format(prepare=prepare, call=call, packages=packages)
            command = [python, "-W", "ignore", "-c", code]
            own = environment(folder, src, static_model)
            done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            print(f"{call}: {done.stderr[-400:]}", file=sys.stderr)
            return {}
        numbers |= json.loads(done.stdout.splitlines()[-1])
    return numbers


def server_ready(src: Path) -> dict[str, float]:
    """`pacsent serve english` until it answers: CPU seconds, seconds on the clock, memory."""
    folder = tempfile.mkdtemp(prefix="cold-")
    port = 8763
    code = f"import sys; sys.argv[1:] = ['serve', 'english', '--port', '{port}']; "
    code += "from pacsent.cli import main; main()"
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HIDE + code],
        env=environment(folder, src),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).read()
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if process.poll() is not None or time.perf_counter() - began > 120:
                    return {}
                time.sleep(0.05)
        wall = time.perf_counter() - began
        status = Path(f"/proc/{process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        peak = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    finally:
        process.terminate()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        shutil.rmtree(folder, ignore_errors=True)
    seconds = usage.ru_utime + usage.ru_stime
    return {"process": seconds, "wall": wall} | ({"memory": peak[0]} if peak else {})


if __name__ == "__main__":
    main()
