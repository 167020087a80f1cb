"""A classifier as one HTML file: does it answer as Python does, how fast, how large?

    python benchmarks/html_page.py [--sets mr banking77] [--save]

3,000 texts are fitted and certified; 1,000 others, and the hostile texts of the tests, are
classified by the page in Chromium (scripts/install-browser) and by Python, one after the other.
difference: the largest of a probability of any class; differing: texts whose label, prediction set
or abstention differs. Rates are in texts per second, the best of three rounds, after one to warm
up. The exit status is 1 if a text differs, or a probability by more than 1e-5.
"""

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness import best_of, finish, parser_for, skip
from pacsent import CertifiedClassifier, TextClassifier, load
from pacsent.datasets import load_banking
from pacsent.paper import benchmark_datasets as datasets
from pacsent.predict.abstaining import AnswerRule
from pacsent.web import export_html
from pacsent.words import compress

sys.path += [str(Path(__file__).parents[1] / "tests" / folder) for folder in (".", "web")]
from test_html_export import HOSTILE

from browsers import BROWSER, until

N_FITTED, N_NEW, FEWER_WORDS = 3_000, 1_000, 20_000
MAX_DIFFERENCE = 1e-5
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
    # A calibration text may be at a threshold itself, where rounding decides: none is classified.
    n_fitted = min(N_FITTED, max(len(rows) - N_NEW, len(rows) // 2))
    others += rows[max(n_fitted, len(rows) - N_NEW + len(others)) :]
    return tuple(zip(*rows[:n_fitted])), tuple(zip(*others))


def in_browser(path, texts):
    """Answers of the page, seconds to open it and to classify the texts."""
    from playwright.sync_api import sync_playwright

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


def measure(name, words, data, folder):
    """Agreement, rates and size for one set and one number of words of the encoder."""
    (texts, labels), (new, truth) = texts_of(name, data)
    new = [*new, *HOSTILE]
    encoder = {"none": None, "all": "english"}.get(words)
    if words == FEWER_WORDS:
        encoder = compress(load("english"), n_words=words)
    model = CertifiedClassifier(TextClassifier(encoder), random_state=0).fit(texts, labels)
    rule = AnswerRule(model)
    log_proba = model.predict_log_proba(new)
    python, seconds = best_of(lambda: rule.answer(new), 3)
    path = folder / f"{name}-{words}.html"
    export_html(model, path, title=name)
    answers, opened, page_seconds = in_browser(path, new)
    page = {key: np.array([answer[key] for answer in answers]) for key in answers[0]}
    differs = (page["best"] != python.best) | (page["abstained"] != python.abstained)
    if python.inside is not None:
        differs |= (page["inside"] != python.inside).any(axis=1)
    return {
        "dataset": name,
        "classes": model.classes_.size,
        "words": words,
        "texts": len(new),
        "difference": float(np.abs(np.exp(page["logProba"]) - np.exp(log_proba)).max()),
        "differing": int(differs.sum()),
        "error rate": float(np.mean(model.predict(new[: len(truth)]) != np.array(truth))),
        "Chromium": len(new) / page_seconds,
        "Python": len(new) / seconds,
        "opens in s": opened,
        "MB": path.stat().st_size / 1e6,
    }


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    options = parser.parse_args()
    if BROWSER is None or find_spec("playwright") is None:
        skip("html_page", "no browser: install [test-browser] and run scripts/install-browser")
    jobs = [(name, words) for name in options.sets for words in SETS[name]]
    with TemporaryDirectory() as folder:
        rows = [measure(*job, options.data, Path(folder)) for job in jobs]
    summary = {"max_difference": max(row["difference"] for row in rows)}
    summary["n_differing"] = sum(row["differing"] for row in rows)
    finish("html_page", rows, summary=summary, save=options.save, name=options.name)
    sys.exit(summary["n_differing"] > 0 or summary["max_difference"] > MAX_DIFFERENCE)


if __name__ == "__main__":
    main()
