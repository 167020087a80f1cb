"""The job of the README beside other tools: 500 labelled messages to a bank, 12 intents.

    python benchmarks/alternatives.py [--minilm FOLDER] [--potion FOLDER] [--draws 10] [--save]
        [--write-draws FILE | --setfit RESULTS | --only-sets]

Banking77 as it ships with pacsent, its twelve largest intents: 500 messages, drawn at random, are
labelled; 1,500 others test. All tools get the same messages. Without a folder of
all-MiniLM-L6-v2 (sentence-transformers) or potion-base-8M (model2vec), or without mapie, their rows
are left out, or kept as they were saved. Seconds are of the processor, for fitting and for 1,500
predictions.

SetFit takes a GPU: --write-draws writes three draws of these messages and of the datasets of
`classify.py few` with 100 labels; `setfit_procedure.py` measures them anywhere; --setfit reads its
results and measures tf-idf and TextClassifier on the same draws.

MAPIE and pacsent make prediction sets that miss 5 %, from the same probabilities (tf-idf with
logistic regression) and the same 200 calibration messages, for 40 times as many draws; "missed more
than 5 %" is the share of draws in which a guarantee for this calibration set would be broken. The
fraction missed in each draw is saved, too.
"""

import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import classify
import pacsent
from harness import RESULTS, finish, parser_for, skip
from pacsent.datasets import load_banking

N_LABELLED, N_CALIBRATION, N_TEST, ERROR = 500, 200, 1500, 0.05
SETFIT_SETS, N_FEW, N_SETFIT_DRAWS = ("subj", "mr", "trec", "imdb", "20news"), 100, 3


def tf_idf():
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
                         LogisticRegression(C=30.0, max_iter=1000))  # fmt: skip


class EncoderAndRegression:
    """Logistic regression on the vectors of an encoder."""

    def __init__(self, encode):
        self.encode, self.model = encode, LogisticRegression(C=30.0, max_iter=1000)

    def fit(self, X, y):
        self.model.fit(self.encode(X), y)
        return self

    def predict(self, X):
        return self.model.predict(self.encode(X))


def tools(options):
    """(name, megabytes, a new unfitted model, draws)"""
    yield "tf-idf + logistic regression", 0.0, tf_idf, options.draws
    if options.potion:
        size = (options.potion / "model.safetensors").stat().st_size / 1e6
        potion = pacsent.make_encoder("Average", pacsent.load(options.potion), on_empty="ignore")
        potion.fit([])
        yield "potion-base-8M + logistic regression", size, (
            lambda: EncoderAndRegression(potion.transform)), options.draws  # fmt: skip
    if options.minilm:
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(str(options.minilm), device="cpu")
        size = (options.minilm / "model.safetensors").stat().st_size / 1e6
        yield "MiniLM + logistic regression", size, (
            lambda: EncoderAndRegression(encoder.encode)), min(options.draws, 3)  # fmt: skip
    yield "pacsent TextClassifier", 24.5, pacsent.TextClassifier, options.draws


def accuracy_rows(options, texts, labels):
    rows = []
    for name, size, make, draws in tools(options):
        accuracies, fitting, predicting = [], [], []
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(len(texts))[: N_LABELLED + N_TEST]
            X, Z = np.split(np.array(texts, object)[order], [N_LABELLED])
            y, true = np.split(labels[order], [N_LABELLED])
            started = time.process_time()
            model = make().fit(X.tolist(), y)
            fitting.append(time.process_time() - started)
            started = time.process_time()
            predicted = np.asarray(model.predict(Z.tolist()))
            predicting.append(time.process_time() - started)
            accuracies.append(np.mean(predicted == true))
        rows.append({
            "tool": name, "draws": draws, "accuracy (%)": 100 * float(np.mean(accuracies)),
            "fit (s)": float(np.median(fitting)), "predict (s)": float(np.median(predicting)),
            "model (MB)": size,
        })  # fmt: skip
        print(rows[-1], flush=True)
    saved = json.loads((RESULTS / "alternatives" / "banking.json").read_text())["rows"]
    measured = {row["tool"] for row in rows}
    return rows + [row for row in saved if "measured at" in row and row["tool"] not in measured]


def all_draws(options, texts, labels):
    """Three draws of each dataset, as `setfit_procedure.py` reads them."""
    for seed in range(N_SETFIT_DRAWS):
        for name in SETFIT_SETS:
            X, y, Z, true = classify.load(name, str(options.data), 0)
            rows = classify.draw(y, N_FEW, seed)
            shown = np.random.default_rng(0).permutation(len(Z))[: classify.N_TEST]
            yield {
                "set": name, "seed": seed, "X": [X[i] for i in rows], "y": y[rows].tolist(),
                "X_test": [Z[i] for i in shown], "y_test": true[shown].tolist(),
            }  # fmt: skip
        order = np.random.default_rng(seed).permutation(len(texts))[: N_LABELLED + N_TEST]
        X, y = [texts[i] for i in order], labels[order].tolist()
        yield {
            "set": "banking", "seed": seed, "X": X[:N_LABELLED], "y": y[:N_LABELLED],
            "X_test": X[N_LABELLED:], "y_test": y[N_LABELLED:],
        }  # fmt: skip


def read_setfit(path):
    """Results of SetFit by dataset and draw: of `setfit_procedure.py`, or of an earlier table.

    In the table each draw has the mean of the draws.
    """
    content = json.loads(path.read_text())
    if isinstance(content, list):
        return {(row["set"], row["seed"]): (row["accuracy"], row["fit (s)"]) for row in content}
    results = {}
    for row in content["rows"]:
        for seed in range(row["draws"]):
            results[row["set"], seed] = (row["SetFit"], row["SetFit fit on a GPU (s)"])
    return results


def setfit_rows(options, texts, labels):
    setfit = read_setfit(options.setfit)
    encode = caching_encoder(options.minilm) if options.minilm else None
    measured = {}
    for draw in all_draws(options, texts, labels):
        X, y, Z = draw["X"], draw["y"], draw["X_test"]
        true = np.array(draw["y_test"])
        started = time.process_time()
        model = pacsent.TextClassifier(n_jobs=1).fit(X, y)
        seconds = time.process_time() - started

        values = {"TextClassifier": np.mean(model.predict(Z) == true)}
        values["TextClassifier fit (s)"] = seconds
        values["labels"] = len(y)
        by_tf_idf = classify.tf_idf(X, np.array(y), Z, None, draw["seed"])
        values["tf-idf"] = np.mean(by_tf_idf == true)
        values["SetFit"], values["SetFit fit on a GPU (s)"] = setfit[draw["set"], draw["seed"]]
        if encode:
            transformer = EncoderAndRegression(encode).fit(X, y)
            values["MiniLM + logistic regression"] = np.mean(transformer.predict(Z) == true)
        measured.setdefault(draw["set"], []).append(values)
        print(draw["set"], values, flush=True)

    rows = []
    for name, draws in measured.items():
        row = {"set": name, "draws": len(draws)}
        for column in draws[0]:
            of_draws = [values[column] for values in draws]
            row[column] = np.median(of_draws) if "(s)" in column else np.mean(of_draws)
        row["labels"] = int(row["labels"])
        rows.append(row)
    return rows


def caching_encoder(folder):
    """MiniLM's vectors; texts that draws have in common are encoded once."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(folder), device="cpu")
    vectors = {}

    def encode(texts):
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, encoder.encode(new)))
        return np.array([vectors[text] for text in texts])

    return encode


def compare_sets(texts, labels, n_draws):
    """Of each program and draw: missed (%), whether more than 5 % are, and classes in a set."""
    from mapie.classification import SplitConformalClassifier

    texts = np.array(texts, object)
    outcomes = {"MAPIE": [], "pacsent": []}
    for seed in range(n_draws):
        order = np.random.default_rng(seed).permutation(len(texts))
        fit, calibration, test = np.split(order, [N_LABELLED - N_CALIBRATION, N_LABELLED])
        model = tf_idf().fit(texts[fit], labels[fit])

        theirs = SplitConformalClassifier(model, confidence_level=1 - ERROR, prefit=True)
        theirs.conformalize(texts[calibration], labels[calibration])
        mapie_sets = theirs.predict_set(texts[test])[1][:, :, 0]

        ours = pacsent.CertifiedClassifier(model, prefit=True, random_state=seed)
        ours.calibrate(texts[calibration].tolist(), labels[calibration])
        log_proba = ours.predict_log_proba(texts[test].tolist())
        our_sets = log_proba >= ours.prediction_set_thresholds(error=ERROR)

        right = model.classes_.searchsorted(labels[test])
        for name, sets in (("MAPIE", mapie_sets), ("pacsent", our_sets)):
            missed = 1 - sets[np.arange(right.size), right].mean()
            outcomes[name].append((100 * missed, 100 * (missed > ERROR), sets.sum(axis=1).mean()))
    return outcomes


def set_rows(outcomes):
    columns = "missed (%)", "missed more than 5 % (% of draws)", "classes in a set"
    return [
        {"prediction sets": name, "draws": len(values)}
        | dict(zip(columns, np.mean(values, axis=0).tolist()))
        for name, values in outcomes.items()
    ]


def finish_sets(options, texts, labels):
    """Prediction sets of MAPIE and pacsent, with the fraction that each draw missed."""
    outcomes = compare_sets(texts, labels, 40 * options.draws)
    rows = set_rows(outcomes)
    missed = {
        name: [round(float(missed), 4) for missed, *_ in values]
        for name, values in outcomes.items()
    }
    finish(
        "alternatives",
        rows,
        title="Prediction sets that miss 5 %",
        summary={row["prediction sets"]: row["missed (%)"] for row in rows},
        save=options.save,
        name="sets",
        details={"missed in each draw (%)": missed},
    )


def main():
    parser = parser_for(__doc__, name="banking")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--potion", type=Path, help="folder of potion-base-8M")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--write-draws", type=Path, help="only write the draws for SetFit")
    parser.add_argument(
        "--setfit",
        type=Path,
        help="only compare with these results of SetFit, or those of an earlier table",
    )
    parser.add_argument("--only-sets", action="store_true", help="only compare prediction sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    texts, labels = load_banking(n_classes=12)
    labels = np.unique(labels, return_inverse=True)[1]
    if options.write_draws:
        options.write_draws.write_text(json.dumps(list(all_draws(options, texts, labels))))
        return
    has_mapie = find_spec("mapie") is not None
    if options.only_sets and not has_mapie:
        skip("alternatives", "MAPIE is not installed")
    if not options.only_sets:
        table = (options.name, accuracy_rows, "500 labelled messages, 12 intents")
        if options.setfit:
            table = ("setfit", setfit_rows, "SetFit with 100 labels (banking: 500)")
        name, make_rows, title = table
        rows = make_rows(options, texts, labels)
        summary = {}
        for row in rows:
            row_name, _, value, *_ = row.values()
            summary[row_name] = value
        finish("alternatives", rows, title=title, summary=summary, save=options.save, name=name)
    if has_mapie and not options.setfit:
        finish_sets(options, texts, labels)


if __name__ == "__main__":
    main()
