"""Multi-label classification (GoEmotions) beside scikit-learn.

    python benchmarks/targets.py [--data FOLDER] [--n N] [--halves N] [--save]

TextClassifier with the English model of the package, and one-versus-rest logistic
regressions on the tf-idf of words and pairs, C chosen on the development part by micro F1 (as it
comes, with thresholds of 0.5, and with the threshold for all labels that is best there). Then the
guarantees from one half of the test part against what happens on the other, over many halves.
Everything is chosen on training and development texts. N takes that many training texts.
"""

import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import target_data
from harness import finish, parser_for
from pacsent import TextClassifier
from pacsent.guarantees import (
    certify_multilabel,
    control_false_discoveries,
    control_false_negatives,
)

CS = (5.0, 20.0)
DELTA = 0.05


def tf_idf():
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)


def timed(work):
    began, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, time.process_time() - began, time.perf_counter() - wall


# ---- several labels ------------------------------------------------------------------------------


def of_labels(has, proba, given):
    p = np.clip(proba, 1e-9, 1 - 1e-9)
    return {
        "micro F1": f1_score(has, given, average="micro"),
        "macro F1": f1_score(has, given, average="macro", zero_division=0),
        "exact match": float((has == given).all(axis=1).mean()),
        "log-loss": float(-np.where(has, np.log(p), np.log(1 - p)).mean()),
        "labels a text": float(given.sum(axis=1).mean()),
    }


def labels(given):
    data = target_data.load_targets("goemotions", given.data)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(data.texts["train"]))[: given.n])
    texts, has = [data.texts["train"][i] for i in rows], data.targets["train"][rows]
    kept = np.flatnonzero((has.sum(axis=0) > 1) & (has.sum(axis=0) < len(has) - 1))
    has, names = has[:, kept], [data.classes[at] for at in kept]
    dev, test = ((data.texts[part], data.targets[part][:, kept]) for part in ("dev", "test"))
    sets = [{names[at] for at in np.flatnonzero(row)} for row in has]
    ours, cpu, wall = timed(lambda: TextClassifier("english").fit(texts, sets))
    order = [ours.classes_.tolist().index(name) for name in names]
    table = []

    def add(name, proba, chosen, seconds):
        row = {"method": name, "part": "test"} | of_labels(test[1], proba, chosen)
        table.append(row | {"CPU seconds": seconds[0], "seconds": seconds[1]})

    proba = ours.predict_proba(test[0])
    answers = ours.given(proba)[:, order]
    add("TextClassifier, sets of labels", proba[:, order], answers, (cpu, wall))
    best = None
    for C in CS:
        model = make_pipeline(tf_idf(), OneVsRestClassifier(LogisticRegression(C=C, max_iter=200)))
        _, cpu, wall = timed(lambda model=model: model.fit(texts, has.astype(int)))
        on_dev = model.predict_proba(dev[0])
        scores = {t: f1_score(dev[1], on_dev >= t, average="micro") for t in np.arange(1, 11) / 20}
        if best is None or scores[0.5] > best[0]:
            best = scores[0.5], C, model, max(scores, key=scores.get), (cpu, wall)
    _, C, model, threshold, seconds = best
    proba_sk = model.predict_proba(test[0])
    name = f"OneVsRest(LogisticRegression(C={C:g})), tf-idf"
    add(name, proba_sk, proba_sk >= 0.5, seconds)
    add(f"{name}, threshold {threshold:g}", proba_sk, proba_sk >= threshold, seconds)
    summary = {"texts": len(texts), "labels": len(names), **kept_bounds(test[1], proba[:, order],
               answers, (dev[1], ours.predict_proba(dev[0])[:, order]), given.halves)}  # fmt: skip
    title = f"GoEmotions: {len(names)} labels, {len(texts):,} training texts"
    finish("targets", table, summary=summary, title=title, save=given.save, name="goemotions")


def missed(has, chosen):
    return ((has & ~chosen).sum(axis=1) / np.maximum(has.sum(axis=1), 1)).mean()


def wrong(has, chosen):
    some = chosen.any(axis=1)
    return ((chosen & ~has).sum(axis=1)[some] / chosen.sum(axis=1)[some]).mean()


def kept_bounds(has, proba, answers, planning, n_halves):
    """Bounds from half of the test part against the other half: how often they fail there.

    The other half is a sample too: a bound counts as broken where it is beyond the half by more
    than two standard errors of a mean of numbers in [0, 1] with the spread that is seen.
    """
    rng = np.random.default_rng(0)
    broken = dict.fromkeys(("exact match", "micro F1", "macro F1", "missed", "wrong"), 0)
    bounds = {name: [] for name in broken}
    n_answered = 0
    for _ in range(n_halves):
        half = rng.permutation(len(has))
        a, b = half[: len(half) // 2], half[len(half) // 2 :]
        slack = 2 * 0.5 / np.sqrt(len(b))
        found = certify_multilabel(has[a], answers[a], delta=DELTA)
        for name, bound, real in (
            ("exact match", 1 - found.bound, (has[b] == answers[b]).all(axis=1).mean()),
            ("micro F1", found.micro_f1_bound, f1_score(has[b], answers[b], average="micro")),
            ("macro F1", found.macro_f1_bound,
             f1_score(has[b], answers[b], average="macro", zero_division=0)),
        ):  # fmt: skip
            bounds[name].append(bound)
            broken[name] += real < bound - slack
        few = control_false_negatives(has[a], proba[a], error=0.2, delta=DELTA)
        bounds["missed"].append(few.n_labels)
        broken["missed"] += missed(has[b], few.predict(proba[b])) > 0.2 + slack
        right = control_false_discoveries(has[a], proba[a], error=0.4, delta=DELTA,
                                          planning=planning)  # fmt: skip
        if right.threshold is not None:
            n_answered += 1
            bounds["wrong"].append(right.predict(proba[b]).any(axis=1).mean())
            broken["wrong"] += wrong(has[b], right.predict(proba[b])) > 0.4 + slack
    return {
        "halves": n_halves,
        "at least, mean: exact match": float(np.mean(bounds["exact match"])),
        "micro F1 at least, mean": float(np.mean(bounds["micro F1"])),
        "macro F1 at least, mean": float(np.mean(bounds["macro F1"])),
        "labels a text with 20 % missed at most": float(np.mean(bounds["missed"])),
        "texts given a label with 40 % wrong at most": float(np.mean(bounds["wrong"] or [0])),
        "answered": n_answered,
        **{f"broken: {name}": int(n) for name, n in broken.items()},
    }


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--halves", type=int, default=200, help="of the test part")
    parser.add_argument("--n", type=int, help="training texts (default: all)")
    given = parser.parse_args()
    labels(given)
