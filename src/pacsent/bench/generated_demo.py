"""The main job, end to end, on text made by the paper's own generative model.

A corpus is drawn, cleaned, and turned into word vectors; every method is fitted on other text of
the same language, scored and certified; and because the text was drawn, the true risk is known and
stands beside the promise.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from pacsent.bench import datasets, evaluation, report
from pacsent.bench.method_rows import ROWS, Row
from pacsent.bench.reproduction import write_json
from pacsent.encoders.methods import METHODS, make
from pacsent.maths import regressions
from pacsent.maths.rounding import rounded_up
from pacsent.storage import save
from pacsent.text.normalise import clean

N_WORDS = 1000
N_DIMS = 32
N_CERTIFIED = 300
LAMS = (0.25, 1.0, 4.0)
SLOW = ("PB-01", "PV-DBOW")  # one setting is enough for a demonstration
IN_ONE_THREAD = ("w-PB-neg", "i-w-PB-neg", "PV-DBOW")  # several learn without locks: never twice


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict:
    """Everything once; results, word vectors and report under `out`.

    The same `random_state` and `n_jobs` give the same numbers: what would depend on how threads
    meet is learned in one.

    Parameters
    ----------
    out : path
    random_state : int, default=0
    n_jobs : int or None
        Threads; None takes every core.
    say : callable
        Told what happens, a line at a time.

    Returns
    -------
    dict
        table (text), results (list of dict), neighbours.
    """
    from pacsent.words.skipgram import SkipGram

    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    settings: dict = {"n_topics": 4, "n_words": N_WORDS, "topic_share": 0.3}
    source = datasets.generate(3000, n_tokens=90, random_state=2 * random_state + 1, **settings)
    target = datasets.generate(600, n_tokens=50, random_state=2 * random_state + 2, **settings)
    raw = [_as_written(line, number) for number, line in enumerate(source.texts)]
    (out / "source.raw.txt").write_text("\n".join(raw) + "\n")
    cleaned = [clean(line) for line in raw]
    (out / "source.txt").write_text("\n".join(cleaned) + "\n")
    (out / "target.tsv").write_text(
        "".join(f"{target.classes[k]}\t{line}\n" for k, line in zip(target.labels, target.texts))
    )
    say(f"drew {len(raw):,} documents to learn words from, {len(target.texts):,} to represent")
    say(f"  raw:     {raw[0][:72]}…")
    say(f"  cleaned: {cleaned[0][:72]}…")

    skipgram = SkipGram(
        N_DIMS,
        window=5,
        subsample=1e-3,
        n_negatives=5,
        n_epochs=5,
        random_state=random_state,
        n_jobs=1,
    )
    words = skipgram.fit(cleaned).word_vectors_
    save(words, out / "words", overwrite=True)
    say(f"trained {words.n_words:,} word vectors of {words.n_dims} dimensions")
    neighbours = _neighbours(words, source)
    for word, alike, near in neighbours:
        say(f"  {word}: like it {', '.join(alike)}; near it {', '.join(near)}")

    results = _scores_and_promises(words, target, random_state, n_jobs, say)
    for result in results:
        folder = {"classification": "accuracy"}.get(result["kind"], result["kind"])
        write_json(out / "results" / folder / f"{result['row']}.json", result)
    report.write(
        results,
        out,
        title="pacsent demo: text from the paper's own model",
        again=f"pacsent demo -o {out.name}",
    )
    return {"table": _table(results), "results": results, "neighbours": neighbours}


def _as_written(line: str, number: int) -> str:
    """Capitals, punctuation and digits, so that there is something to clean."""
    words = line.split()
    parts = [" ".join(words[at : at + 9]).capitalize() for at in range(0, len(words), 9)]
    return f"{number % 10}. " + ", ".join(parts[:2]) + ". " + "! ".join(parts[2:]) + "."


def _neighbours(words, source, n=3) -> list[tuple[str, list[str], list[str]]]:
    """For a few theme words: neighbours in the input table, and in the output table."""
    found = []
    for theme in source.themes[:3]:
        word = next(
            source.vocabulary.words[i]
            for i in np.argsort(-theme)
            if source.vocabulary.words[i] in words.vocabulary
        )
        alike = [name for name, _ in words.most_similar(word, n)]
        near = [name for name, _ in words.most_similar(word, n + 1, among="output")]
        found.append((word, alike, [name for name in near if name != word][:n]))
    return found


def _scores_and_promises(words, target, random_state, n_jobs, say) -> list[dict]:
    """Accuracy of every method and of tf-idf; a certificate and the truth where there is one."""
    dataset = target.dataset()
    prepared = evaluation.Prepared(dataset, words, n_jobs=n_jobs)
    in_one_thread = evaluation.Prepared(dataset, words, n_jobs=1)
    scored, promised = [], []
    for method in (*METHODS, "tf-idf"):
        alone = method in IN_ONE_THREAD
        source = in_one_thread if alone else prepared
        known = ROWS.get(method)
        row = replace(known, paper=None) if known else Row(method, method, method)
        lams = LAMS if known and known.lams and method not in SLOW else (None,)
        protocol = evaluation.Protocol(lams, (random_state,), regressions.CS[::2], n_jobs)
        result = evaluation.run_row(row, source, protocol)
        n_test = len(prepared.part(random_state)[2])
        scored.append({**asdict(result), "n_test": n_test})
        if method != "tf-idf" and make(method, words).in_table_space:
            threads = 1 if alone else n_jobs
            promised.append(_promise(method, words, target, random_state, threads))
        say(f"  {row.label}: accuracy {result.accuracy:.3f}")
    row = ROWS["PB-L2"]
    few = evaluation.few_labels(row, prepared, sizes=(40, 100, 200), n_draws=3, n_jobs=n_jobs)
    where = {"dataset": dataset.name}
    return [
        *scored,
        *promised,
        {**where, **few},
        {**where, **evaluation.document_map(row, prepared, n_documents=200)},
    ]


def _promise(method, words, target, random_state, n_jobs) -> dict:
    """Certificate A and, since phi is known, the risk it is about."""
    from scipy import sparse

    from pacsent.certificates.encoder_certificate import certified
    from pacsent.maths.risks import gibbs_risk
    from pacsent.paper.word_certificate import WordOptions, measure

    vectorizer = make(method, words, on_empty="ignore", n_jobs=n_jobs)
    settings = {"n_epochs": 10, "random_state": random_state}
    known = vectorizer.get_params(deep=False)
    vectorizer.set_params(**{name: value for name, value in settings.items() if name in known})
    options = WordOptions(random_state=random_state, n_jobs=n_jobs)
    certificate, gibbs = certified(vectorizer, target.texts[:N_CERTIFIED], options, measure)
    drawn = target.phi(gibbs.parts.rows)
    phi = np.zeros((len(drawn), words.n_words))  # spelled digits are words that nothing draws
    for at, word in enumerate(words.vocabulary.words):
        if word in target.vocabulary.index:
            phi[:, at] = drawn[:, target.vocabulary.index[word]]
    phi /= phi.sum(axis=1, keepdims=True)  # words too rare to have a vector are left out
    A_hat, _ = words.roles(swap=method.startswith("i-"))
    risk = gibbs_risk(
        gibbs.means,
        gibbs.variances,
        sparse.csr_matrix(phi),
        A_hat,
        gibbs.p_noise,
        bias=gibbs.bias,
    )
    weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
    return {
        "kind": "certificate",
        "row": method,
        "label": method,
        "dataset": "generated",
        "certificate_kind": certificate.kind,
        "risk_bound": float(certificate.bound),
        "true_risk": float(weight @ risk.risk),
        "empirical_risk": float(certificate.empirical_risk),
        "kl": float(certificate.kl),
        "n": int(certificate.n),
        "delta": float(certificate.delta),
        "assumption": certificate.assumption,
    }


def _table(results) -> str:
    promises = {r["row"]: r for r in results if r["kind"] == "certificate"}
    lines = [f"{'method':<16}{'accuracy':>10}{'true risk':>11}{'certificate':>13}"]
    for r in results:
        if r["kind"] != "classification":
            continue
        promise = promises.get(r["row"])
        truth = f"{promise['true_risk']:.4f}" if promise else ""
        bound = rounded_up(promise["risk_bound"], 4) if promise else ""
        lines.append(f"{r['label']:<16}{r['accuracy']:>10.3f}{truth:>11}{bound:>13}")
    return "\n".join(lines)
