"""A classifier as one HTML file: does it answer as Python does, how fast, how large?

    python scripts/compare_html.py [--sets mr banking77] [--save]

3,000 texts are fitted and certified; 1,000 others, and the hostile texts of the tests, are
classified by the page in Chromium (scripts/install-browser) and by Python, one after the other.
difference: the largest of a probability of any class; others: texts whose label, prediction set or
abstention differs. Rates are in texts per second, the best of three rounds, after one to warm up.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from pacsent import CertifiedClassifier, TextClassifier, load
from pacsent.datasets import load_banking
from pacsent.guarantees.abstaining import AnswerRule
from pacsent.paper import benchmark_datasets as datasets
from pacsent.web import export_html
from pacsent.words import compress

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests")]
from browsers import BROWSER, until  # noqa: E402
from harness import best_of, finish, parser_for, skip  # noqa: E402
from test_html_export import HOSTILE  # noqa: E402

N_FITTED, N_NEW, FEWER_WORDS = 3_000, 1_000, 20_000
SETS = {  # words of the encoder
    "mr": ("all", FEWER_WORDS),
    "subj": ("none",),
    "trec": ("all",),
    "20news": ("all", FEWER_WORDS),
    "banking77": ("all", FEWER_WORDS),
}
# The worker of the page returns the probabilities of all classes as well.
ALL_CLASSES = """
const OriginalBlob = Blob;
Blob = class extends OriginalBlob {
  constructor(parts, options) {
    const more = ";ACTIONS.answers = ({ texts }) => texts.map(answer);";
    super(options && options.type === "text/javascript" ? [...parts, more] : parts, options);
  }
};
"""


def texts_of(name, data):
    """All texts of a set in a random order, and their labels."""
    if name == "banking77":
        parts = [load_banking(part) for part in ("train", "test")]
        texts, labels = (np.concatenate([part[i] for part in parts]) for i in range(2))
    else:
        loaded = datasets.load(name, data)
        texts = np.array([*loaded.train_texts, *loaded.test_texts], dtype=object)
        labels = np.concatenate([loaded.train_labels, loaded.test_labels]).astype(int).astype(str)
    order = np.random.default_rng(0).permutation(len(texts))
    return texts[order].tolist(), labels[order].tolist()


def in_browser(path, texts):
    """Answers of the page, seconds to open it and to classify the texts."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_init_script(ALL_CLASSES)
        start = time.perf_counter()
        page.goto(path.as_uri())
        until(page, "!document.querySelector('#classify').disabled")
        opened = time.perf_counter() - start
        command = """async (texts) => {
            const start = performance.now(), answers = await call("answers", { texts });
            return [answers, (performance.now() - start) / 1000];
        }"""
        rounds = [page.evaluate(command, texts) for _ in range(4)]
        browser.close()
    return rounds[0][0], opened, min(seconds for _, seconds in rounds[1:])


def measure(name, words, data):
    """Agreement, rates and size for one set and one number of words of the encoder."""
    texts, labels = texts_of(name, data)
    new, truth = texts[N_FITTED:][:N_NEW] + HOSTILE, labels[N_FITTED:][:N_NEW]
    encoder = {"none": None, "all": "english"}.get(words)
    if words == FEWER_WORDS:
        encoder = compress(load("english"), n_words=words)
    model = CertifiedClassifier(TextClassifier(encoder), random_state=0)
    rule = AnswerRule(model.fit(texts[:N_FITTED], labels[:N_FITTED]))
    log_proba = model.predict_log_proba(new)
    python, seconds = best_of(lambda: rule.of_log_proba(model.predict_log_proba(new)), 3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.html"
        export_html(model, path, title=name)
        answers, opened, page_seconds = in_browser(path, new)
        megabytes = path.stat().st_size / 1e6
    page = {key: np.array([answer[key] for answer in answers]) for key in answers[0]}
    differs = (page["best"] != python.best) | (page["abstained"] != python.abstained)
    if python.inside is not None:
        differs |= (page["inside"] != python.inside).any(axis=1)
    return {
        "set": name,
        "classes": model.classes_.size,
        "words": words,
        "texts": len(new),
        "difference": float(np.abs(np.exp(page["logProba"]) - np.exp(log_proba)).max()),
        "others": int(differs.sum()),
        "error": float(np.mean(model.predict(new[:N_NEW]) != np.array(truth))),
        "browser": len(new) / page_seconds,
        "python": len(new) / seconds,
        "opens in s": opened,
        "MB": megabytes,
    }


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    given = parser.parse_args()
    if BROWSER is None:
        skip("html_page", "no browser: run scripts/install-browser")
    rows = [measure(name, words, given.data) for name in given.sets for words in SETS[name]]
    summary = {"max_difference": max(row["difference"] for row in rows)}
    summary["n_others"] = sum(row["others"] for row in rows)
    finish("html_page", rows, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
