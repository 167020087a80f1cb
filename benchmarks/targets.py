"""Multi-label classification (GoEmotions) beside scikit-learn.

    python benchmarks/targets.py [--data FOLDER] [--n N] [--save]

TextClassifier with the English model of the package, and one-versus-rest logistic
regressions on the tf-idf of words and pairs, C chosen on the development part by micro F1 (as it
comes, with thresholds of 0.5, and with the threshold for all labels that is best there).
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

CS = (5.0, 20.0)


def tf_idf():
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)


def timed(work):
    began, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, time.process_time() - began, time.perf_counter() - wall


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
    data = target_data.load_goemotions(given.data)
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
    answers = ours.assign_labels(proba)[:, order]
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
    summary = {"texts": len(texts), "labels": len(names)}
    title = f"GoEmotions: {len(names)} labels, {len(texts):,} training texts"
    finish("targets", table, summary=summary, title=title, save=given.save, name="goemotions")


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--n", type=int, help="training texts (default: all)")
    given = parser.parse_args()
    labels(given)
