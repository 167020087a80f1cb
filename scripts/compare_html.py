"""A classifier as one HTML file: does it answer as Python does, how fast, how large?

    python scripts/compare_html.py [--sets mr banking77] [--models FOLDER] [--save]

3,000 texts are fitted and certified; 1,000 others, and the hostile texts of the tests, are
classified by the page in Chromium (scripts/install-browser) and by Python, one after the other.
difference: the largest of a probability of any class; others: texts whose label, prediction set or
abstention differs. Rates are in texts per second, the best of three rounds, after one to warm up.
"""

import sys
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from pacsent import CertifiedClassifier, TextClassifier, load, save
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
    "20news": ("all",),
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
    """(texts to fit, labels), (other texts, labels); those of the test part if there is one."""
    if name == "banking77":
        fitted, new = map(load_banking, ("train", "test"))
    else:
        loaded = datasets.load(name, data)
        names = np.array(loaded.classes, dtype=object)
        fitted = loaded.train_texts, names[np.asarray(loaded.train_labels, int)]
        new = loaded.test_texts, names[np.asarray(loaded.test_labels, int)]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(fitted[0]))
    rows = [(fitted[0][i], fitted[1][i]) for i in order]
    others = [(new[0][i], new[1][i]) for i in rng.permutation(len(new[0]))[:N_NEW]]
    others += rows[len(rows) - N_NEW + len(others) :]
    return tuple(zip(*rows[:N_FITTED])), tuple(zip(*others))


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


def measure(name, words, given):
    """Agreement, rates and size for one set and one number of words of the encoder."""
    (texts, labels), (new, truth) = texts_of(name, given.data)
    new, folder = [*new, *HOSTILE], given.models / f"{name}-{words}"
    if not folder.exists():
        encoder = {"none": None, "all": "english"}.get(words)
        if words == FEWER_WORDS:
            encoder = compress(load("english"), n_words=words)
        model = CertifiedClassifier(TextClassifier(encoder), random_state=0)
        save(model.fit(texts, labels), folder)
    model = load(folder)
    rule = AnswerRule(model)
    log_proba = model.predict_log_proba(new)
    python, seconds = best_of(lambda: rule.of_log_proba(model.predict_log_proba(new)), 3)
    path = folder.with_suffix(".html")
    export_html(model, path, title=name, overwrite=True)
    answers, opened, page_seconds = in_browser(path, new)
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
        "MB": path.stat().st_size / 1e6,
    }


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    help = "folder of fitted classifiers; those that are there are not fitted again"
    parser.add_argument("--models", type=Path, default=Path("models"), help=help)
    given = parser.parse_args()
    if BROWSER is None:
        skip("html_page", "no browser: run scripts/install-browser")
    rows = [measure(name, words, given) for name in given.sets for words in SETS[name]]
    summary = {"max_difference": max(row["difference"] for row in rows)}
    summary["n_others"] = sum(row["others"] for row in rows)
    finish("html_page", rows, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
