"""The main job on real English: find passages, learn who wrote what, promise, and check it."""

import html
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pacsent.bench.books.passages_data import passages
from pacsent.bench.evaluation import unit_length
from pacsent.certificates import certify
from pacsent.classify import TextClassifier, check_exchangeable
from pacsent.encoders.methods import make
from pacsent.maths.rounding import rounded_up
from pacsent.words.storing import load_words

QUERIES = (
    "a ship goes down in a storm at sea",
    "he asked her to marry him",
    "the detective finds a clue to the murder",
    "wolves and dogs in the frozen snow",
)
WORDS = ("whale", "marriage", "evolution")
DELTA = 0.05


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict:
    """Everything once; a page with the results under `out`.

    Parameters
    ----------
    out : path
    random_state : int, default=0
        Decides the splits.
    n_jobs : int or None
        Threads; None takes every core.
    say : callable
        Told what happens, a line at a time.

    Returns
    -------
    dict
        found, words, holds, breaks, certificate, seconds.
    """
    started = time.perf_counter()
    words, shelf = load_words("english"), passages()
    say(f"the English model: {words.n_words:,} words, {words.n_dims} dimensions, both tables")
    near = {word: [w for w, _ in words.most_similar(word, 5)] for word in WORDS}
    for word, others in near.items():
        say(f"  {word}: {', '.join(others)}")
    say(f"\n{len(shelf):,} passages of {len({p.book for p in shelf})} books, found by meaning")
    found = _search(words, shelf, n_jobs, say)
    say("\nwho wrote it? Learned from passages, with a promise about passages not seen")
    old, new = _random_split(shelf, random_state)
    holds = _promise(words, old, new, random_state, n_jobs)
    _tell("passages of the same books", holds, say)
    old, new = _other_books(shelf)
    breaks = _promise(words, old, new, random_state, n_jobs)
    _tell("passages of a third book of each author", breaks, say)
    say("\nwords: how well the vector of a passage's beginning tells what follows from noise")
    certificate = _certificate(words, shelf, random_state, n_jobs)
    say(
        f"  promised: wrong at most {rounded_up(certificate.risk_bound)} of the time (guessing: "
        f"0.5); on passages held back: {certificate.held_out_risk:.4f}"
    )
    made = {
        "words": near,
        "found": found,
        "holds": holds,
        "breaks": breaks,
        "certificate": certificate,
        "seconds": time.perf_counter() - started,
    }
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(_page(made), encoding="utf-8")
    return made


def _search(words, shelf, n_jobs, say) -> list[dict]:
    """The two passages nearest to each query."""
    vectorizer = make("SIF-sum", words, n_jobs=n_jobs).fit([])
    vectors = unit_length(vectorizer.transform([p.text for p in shelf]))
    asked = unit_length(vectorizer.transform(QUERIES))
    found = []
    for query, cosines in zip(QUERIES, asked @ vectors.T):
        best = [shelf[i] for i in np.argsort(-cosines)[:2]]
        found.append({"query": query, "passages": best})
        say(f"  “{query}”")
        for passage in best:
            say(f"    {passage.author}, {passage.book}: {passage.text[:60]}…")
    return found


def _random_split(shelf, seed):
    """Four fifths to learn from, the rest to try it on; both of all thirty books."""
    order = np.random.default_rng(seed).permutation(len(shelf))
    cut = len(shelf) * 4 // 5
    return [shelf[i] for i in order[:cut]], [shelf[i] for i in order[cut:]]


def _other_books(shelf):
    """The first two books of each author to learn from, the third to try it on."""
    books: dict[str, list[str]] = {}
    for passage in shelf:
        names = books.setdefault(passage.author, [])
        if passage.book not in names:
            names.append(passage.book)
    known = {book for names in books.values() for book in names[:2]}
    return [p for p in shelf if p.book in known], [p for p in shelf if p.book not in known]


def _promise(words, old, new, seed, n_jobs) -> dict:
    """A classifier with its certificate, its error on new passages, and whether they are alike."""
    classifier = TextClassifier(words, n_jobs=n_jobs)
    texts, authors = [p.text for p in old], [p.author for p in old]
    classifier.fit(texts, authors, holdout=0.25, delta=DELTA, seed=seed)
    fresh = [p.text for p in new]
    error = float(np.mean(classifier.predict(fresh) != np.array([p.author for p in new])))
    test = check_exchangeable(texts, fresh, words=words, seed=seed)
    return {
        "promised": float(classifier.certificate_.error_bound),
        "error": error,
        "n_held_back": classifier.certificate_.n,
        "n_new": len(new),
        "alarm": bool(test.alarm),
        "p_value": float(test.p_value),
    }


def _tell(what, promise, say):
    kept = "kept" if promise["error"] <= promise["promised"] else "BROKEN"
    alarm = "ALARM: these are other texts" if promise["alarm"] else "no alarm"
    say(
        f"  {what}: wrong at most {rounded_up(promise['promised'], 3)}, promised; "
        f"{promise['error']:.3f}, counted on {promise['n_new']:,}: {kept}; {alarm} "
        f"(p = {promise['p_value']:.2g})"
    )


def _certificate(words, shelf, seed, n_jobs):
    texts = [p.text for p in shelf[::5]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return certify(
            make("PB-L2", words, n_jobs=n_jobs), texts, delta=DELTA, random_state=seed,
            holdout=0.2, n_jobs=n_jobs,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------
# the page
# ------------------------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --soft: #565c66; --line: #dcdcd6;
  --good: #186a3b; --bad: #a93226; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --ink: #e8e8e4; --soft: #a9b0bb;
  --line: #363c46; --good: #7fd49a; --bad: #ff938c; } }
body { font: 17px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--paper); color: var(--ink); }
h1 { line-height: 1.2; } h2 { margin: 2.2rem 0 .6rem; } h3 { margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
td, th { padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid var(--line); }
blockquote { color: var(--soft); margin: .6rem 0; padding-left: .9rem;
  border-left: 3px solid var(--line); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 14px; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: bold; }
@media (max-width: 40rem) { table.promises, .promises tbody { display: block; }
  .promises tr:first-child { display: none; } .promises tr { display: block; padding: .5rem 0; }
  .promises td { display: flex; justify-content: space-between; gap: 1rem; padding: .1rem 0; }
  .promises td::before { content: attr(data-name); color: var(--soft); } }
"""
_PROMISES = ("new passages", "promised error", "error", "promise", "are they alike?")


def _page(made) -> str:
    parts = ["<h1>Thirty books, read by pacsent</h1>"]
    parts.append("<h2>Words of the English model, and their neighbours</h2><table>")
    for word, others in made["words"].items():
        parts.append(f"<tr><td>{word}</td><td>{', '.join(map(html.escape, others))}</td></tr>")
    parts.append("</table><h2>Passages found by meaning</h2>")
    for entry in made["found"]:
        parts.append(f"<h3>{html.escape(entry['query'])}</h3>")
        for p in entry["passages"]:
            where = html.escape(f"{p.author}, {p.book}")
            parts.append(f"<blockquote>{html.escape(p.text)} <em>{where}</em></blockquote>")
    parts.append(
        "<h2>Who wrote it</h2><p>A classifier learns the ten authors, and a part of the passages "
        'that it never sees gives its promise.</p><table class="promises"><tr>'
        + "".join(f"<th>{name}</th>" for name in _PROMISES)
        + "</tr>"
    )
    for what, key in (("of the same books", "holds"), ("of other books", "breaks")):
        p = made[key]
        kept = p["error"] <= p["promised"]
        mark = '<span class="good">kept</span>' if kept else '<span class="bad">broken</span>'
        alike = '<span class="bad">alarm</span>' if p["alarm"] else "no alarm"
        told = (what, f"at most {rounded_up(p['promised'], 3)}", f"{p['error']:.3f}", mark,
                f"<span>{alike}, p = {p['p_value']:.2g}</span>")  # fmt: skip
        cells = zip(_PROMISES, told)
        row = "".join(f'<td data-name="{name}">{cell}</td>' for name, cell in cells)
        parts.append(f"<tr>{row}</tr>")
    text = html.escape(str(made["certificate"]))
    parts.append(f"</table><h2>A certificate about words</h2><pre>{text}</pre>")
    head = (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Thirty books, read by pacsent</title><style>{_STYLE}</style>"
    )
    return head + "".join(parts) + f"<p>{made['seconds']:.0f} seconds.</p>\n"
