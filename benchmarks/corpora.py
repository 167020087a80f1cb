"""A corpus larger than the memory it may use: counted, built and trained from many shards.

    python benchmarks/corpora.py [--data FOLDER] [--save] [--gigabytes 2] [--limit 600]

The shards are links to one file, enwik8 cleaned as the paper does, so that a text of any size costs
no disk; what is built from them is whole. Every process may have `--limit` megabytes of memory of
its own (RLIMIT_DATA, as `ulimit -d`): where it needs more, it fails. The training is one thin epoch
(most words sub-sampled away), enough to read every id.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import finish, parser_for, wikipedia

_CHILD = """
import json, resource, sys, time
from pathlib import Path
from pacsent import SkipGram, scale

def peak():
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in who) / 1024

def main():
    folder = Path(sys.argv[1])
    rows, start = [], time.perf_counter()
    corpus = scale.build_corpus([folder / "in"], folder / "corpus", n_jobs=2)
    rows.append({"step": "build", "seconds": round(time.perf_counter() - start, 1),
                 "peak MB": round(peak())})
    start = time.perf_counter()
    SkipGram(n_dims=50, subsample=1e-7, n_epochs=1, n_jobs=2, random_state=0).fit(corpus)
    rows.append({"step": "train", "seconds": round(time.perf_counter() - start, 1),
                 "peak MB": round(peak())})
    print(json.dumps([rows, corpus.n_tokens, len(corpus.vocabulary), corpus.n_documents]))

if __name__ == "__main__":
    main()
"""


def main():
    parser = parser_for(__doc__, name="memory")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--limit", type=int, default=600, help="megabytes for each process")
    parser.add_argument(
        "--folder", type=Path, help="where the files lie (default: a temporary one)"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        text = wikipedia(given.data, folder)
        size = text.stat().st_size
        n = max(1, round(given.gigabytes * 1e9 / size))
        (folder / "in").mkdir()
        for number in range(n):
            os.link(text, folder / "in" / f"part-{number:04}.txt")
        script = folder / "child.py"
        script.write_text(_CHILD)
        limit = given.limit << 20

        def limited():
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, script, folder], stdout=subprocess.PIPE, text=True, preexec_fn=limited
        )
        if done.returncode:
            raise SystemExit(f"failed within {given.limit} MB")
        rows, n_tokens, n_words, n_documents = json.loads(done.stdout)
        ids = sum(path.stat().st_size for path in (folder / "corpus").rglob("*.i32"))
    finally:
        shutil.rmtree(folder)
    summary = {
        "GB of text": round(n * size / 1e9, 2),
        "shards": n,
        "GB of ids": round(ids / 1e9, 2),
        "tokens": n_tokens,
        "words": n_words,
        "documents": n_documents,
        "limit MB": given.limit,
        "seconds": round(time.perf_counter() - start),
    }
    title = "A corpus larger than the memory of its processes"
    finish("corpora", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
