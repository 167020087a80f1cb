"""Every public function and method that takes texts, with everything that can be passed as texts.

`public_calls` finds them by the names of their parameters. `TABLE` contains how each is called, and
`NOT_TEXTS` why one is omitted; a new one that is in neither fails `test_hostile.py` by its name.
"""

import contextlib
import importlib
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import pacsent
from hostile.material import TEXTS as SHORT
from hostile.material import new, words
from hostile.running import Case
from pacsent import certify, classify, paper, search, sentences, web
from pacsent.sentences import ExternalEncoder
from pacsent.text import as_texts

PACKAGES = (
    "text",
    "certify",
    "words",
    "sentences",
    "classify",
    "search",
    "predict",
    "paper",
    "web",
)
PACKAGES += ("scale",)
PARAMETERS = {"texts", "X", "documents", "sentences", "query", "queries", "source", "calibration"}


def _own_words(i):
    return " ".join("own" + "".join(chr(97 + int(d)) for d in f"{i:02d}{j:02d}") for j in range(6))


# Long enough for a certificate, each with words of its own: near-duplicates count as one text.
TEXTS = [f"{' '.join(SHORT[i % 20 :][:3])} {_own_words(i)}" for i in range(66)]
LABELS = ["up", "down"] * (len(TEXTS) // 2)
OTHERS = [text.replace("own", "other") for text in TEXTS]


@cache
def classifier(calibration_size=0.5):
    certified = pacsent.CertifiedClassifier(
        pacsent.TextClassifier(None), calibration_size=calibration_size, random_state=0
    )
    return certified.fit(OTHERS, LABELS)


@cache
def average():
    return new("Average").fit([])


def external():
    return ExternalEncoder(lambda texts: [[len(text), text.count("a")] for text in texts])


def _bayes():
    return make_pipeline(CountVectorizer(), MultinomialNB())


def _index(**options):
    index = pacsent.Index(average(), **options)
    index.add(TEXTS)
    return index


def _added(texts):
    index = pacsent.Index(average())
    index.add(texts)
    return [hit.text for hit in index.search(TEXTS[3], k=5)], len(index)


def _updated(texts):
    index = _index(lexical=True)
    index.update(range(len(TEXTS)), texts)
    return [hit.text for hit in index.search(TEXTS[3], k=5)], len(index)


def _skipgram(texts):
    settings = {"min_count": 1, "subsample": 0, "n_jobs": 1, "n_epochs": 1, "random_state": 0}
    return pacsent.SkipGram(4, **settings).fit(texts).word_vectors_.input_vectors


def _watched(texts):
    monitor = certify.DriftMonitor(classifier(), random_state=0)
    monitor.update(texts, LABELS)
    return monitor.evidence


def _certified_sets(texts):
    sets = [{label} for label in LABELS]
    options = {"classes": ["down", "up"], "texts": texts, "random_state": 0}
    return str(certify.certify_predictions(sets, sets, **options))


def _lengths(texts):
    return np.array([[len(text), text.count("e"), 1.0] for text in texts])


@cache
def _student():
    return pacsent.distill(_lengths, OTHERS, n_subwords=9, n_epochs=1)


def _methods(prefix: str, model: Callable, names: str) -> dict[str, Callable]:
    """Methods that take texts alone."""
    return {
        f"{prefix}.{name}": lambda texts, n=name: getattr(model(), n)(texts)
        for name in names.split()
    }


def _plain():
    return classifier().estimator_


_TEXTS_ALONE: dict[str, Callable] = {
    "text.as_texts": as_texts,
    "sentences.BaseEncoder.posterior": lambda texts: external().posterior(texts)[0],
    "sentences.BaseEncoder.stream": lambda texts: [v for v, _ in external().stream(texts)],
    "search.Index.add": _added,
    "search.Index.search": lambda texts: [
        [hit.id for hit in hits] for hits in _index().search(texts, k=3)
    ],
    "search.Index.update": _updated,
    "search.Index.certify": lambda texts: str(
        _index(lexical=True).certify(texts, range(len(TEXTS)), k=2)
    ),
    "search.rerank": lambda texts: [r.text for r in search.rerank(TEXTS[3], texts, average())],
    "search.clusters": lambda texts: search.clusters(texts, 3, encoder=average()).labels,
    "sentences.distill": lambda texts: pacsent.distill(
        _lengths, texts, n_subwords=9, n_epochs=1
    ).encode(OTHERS),
    "classify.check_labels": lambda texts: classify.check_labels(
        texts, LABELS, ask=lambda row, _: LABELS[row], random_state=0
    )[0],
    "sentences.certify_student": lambda texts: str(
        sentences.certify_student(_student(), texts, _lengths(TEXTS))
    ),
    "classify.TextClassifier.fit": lambda texts: (
        pacsent.TextClassifier(None).fit(texts, LABELS).predict_proba(OTHERS)
    ),
    **_methods(
        "classify.TextClassifier",
        _plain,
        "predict predict_proba predict_log_proba predict_with_scores decision_function "
        "decision_values coverage are_covered",
    ),
    "classify.TextClassifier.stream": lambda texts: list(_plain().stream(texts)),
    "classify.TextClassifier.score": lambda texts: _plain().score(texts, LABELS),
    "classify.TextClassifier.report": lambda texts: _plain().report(texts, LABELS).to_dict(),
    "classify.next_to_label": lambda texts: classify.next_to_label(_plain(), texts, 5),
    "classify.suspicious_labels": lambda texts: classify.suspicious_labels(
        texts, LABELS, model=_bayes()
    ),
    "classify.fit_learning_curve": lambda texts: str(
        classify.fit_learning_curve(texts, LABELS, model=_bayes())
    ),
    "classify.audit": lambda texts: classify.audit(texts, LABELS, model=_bayes()).to_dict(),
    **_methods(
        "predict.CertifiedClassifier",
        classifier,
        "predict_with_scores predict predict_proba predict_log_proba compare_with_calibration",
    ),
    "predict.CertifiedClassifier.report": lambda texts: (
        classifier().report(texts, LABELS).to_dict()
    ),
    "predict.CertifiedClassifier.fit": lambda texts: (
        clone(classifier()).fit(texts, LABELS).predict_proba(OTHERS)
    ),
    "predict.CertifiedClassifier.predict_set": lambda texts: classifier().predict_set(
        texts, error=0.3
    ),
    "predict.CertifiedClassifier.calibrate": lambda texts: (
        classifier(0.3).calibrate(texts, LABELS).predict_proba(OTHERS)
    ),
    "certify.certify": lambda texts: certify.certify(classifier(), texts, LABELS).summary(),
    "certify.HeldOutCertificate.verify": lambda texts: certify.certify_predictions(
        LABELS, LABELS, texts=TEXTS
    ).verify(LABELS, texts, LABELS),
    "certify.compare": lambda texts: str(
        certify.compare(classifier(), classifier(0.4), texts, LABELS, overlap="drop")
    ),
    "certify.DriftMonitor.update": _watched,
    "predict.ClassThresholds.predict": lambda texts: (
        classifier().tune_thresholds(recall=0.6).predict(texts)
    ),
    "predict.Abstaining.predict": lambda texts: list(
        classifier().abstain(error=0.3).predict(texts)
    ),
    "web.make_map": lambda texts: web.make_map(average(), texts),
}
_OR_TOKENS: dict[str, Callable] = {
    **_methods("words.Vocabulary", lambda: words().vocabulary, "encode digest"),
    "words.Vocabulary.count": lambda texts: words().vocabulary.count(texts).toarray(),
    "words.WordVectors.trained_on": lambda texts: words().trained_on(texts).fingerprint.documents,
    "words.Corpus.build": lambda texts: (
        pacsent.Corpus.build(texts, "corpus", min_count=1, overwrite=True).digest
    ),
    "words.SkipGram.fit": _skipgram,
    **_methods("sentences.SentenceVectorizer", average, "fit_transform posterior"),
    **_methods("sentences.EncoderMixin", average, "encode transform"),
    "sentences.SentenceVectorizer.fit": lambda texts: average().fit(texts).n_sentences_,
    "sentences.SentenceVectorizer.stream": lambda texts: [v for v, _ in average().stream(texts)],
    "sentences.SentenceVectorizer.sample": lambda texts: average().sample(texts, random_state=0),
    "paper.certify_encoder": lambda texts: str(
        pacsent.certify_encoder(new("PB-L2"), texts, random_state=0)
    ),
    "paper.EncoderCertificate.verify": lambda texts: pacsent.certify_encoder(
        new("PB-L2"), TEXTS, random_state=0
    ).verify(texts, new("PB-L2")),
    **{
        f"paper.{name}": lambda texts, name=name, method=method: str(
            getattr(paper, name)(new(method), texts, random_state=0)
        )
        for name, method in (
            ("certify_words", "PB-L2"),
            ("certify_squared_loss", "PB-L2"),
            ("certify_documents", "w-PB-neg"),
        )
    },
}
_ANY_ROWS: dict[str, Callable] = {
    "certify.certify_predictions": lambda texts: str(
        certify.certify_predictions(LABELS, LABELS, texts=texts, random_state=0)
    ),
    "certify.certify_predictions of sets": _certified_sets,
}
TABLE = {**_TEXTS_ALONE, **_OR_TOKENS, **_ANY_ROWS}

NOT_TEXTS = {
    **{
        f"web.ServedModel.{name}": "texts of a request, which its schema has checked"
        for name in ("answer", "n_tokens", "posteriors")
    },
    "predict.control_risk": "as certify_predictions, whose clusters it uses",
    "certify.traffic_error_upper": "as certify_predictions, whose clusters it uses",
    "sentences.ExternalEncoder.fit": "learns nothing and looks at nothing",
    "sentences.RemoteEncoder.encode": "needs a server; EncoderMixin.encode calls it",
    "sentences.RemoteEncoder.request": "needs a server; encode calls it",
    "paper.certify_heuristics": "certify_encoder(kind='D'), which is in the table",
    **{
        f"sentences.PosteriorTerms.{name}": "texts that posterior has looked at"
        for name in ("prior", "kl", "objective", "bound")
    },
    "classify.TextClassifier.dense_features": "texts that a Python caller has read",
    "text.as_sentences": "its callers look at the elements",
    "words.Pieces.numbers": "texts that Vocabulary.encode has looked at",
    "words.train_pieces": "needs the library tokenizers; test_static_models has wrong texts",
    "words.WordVectors.encode": "its sentences.encode, which is SentenceVectorizer's",
    "words.WordVectors.most_similar": "a word or a vector",
}


# Kinds of rows that are no texts, but can be compared.
ROWS = {
    "token lists",
    "a table of two columns",
    "an array of one column",
    "an array of two columns",
    "numbers",
    "texts of bytes",
}
OMITTED = {
    ("search.Index.search", "a string"): "one query",
    ("certify.certify_predictions", "None"): "texts are optional",
    ("certify.certify_predictions of sets", "None"): "texts are optional",
}


def public_calls() -> set[str]:
    """`package.Class.method` and `package.function` of the public API that take texts."""
    names = set()
    for package in map(importlib.import_module, (f"pacsent.{name}" for name in PACKAGES)):
        for public in map(package.__getattr__, dir(package)):
            calls = [public] if inspect.isfunction(public) else []
            if inspect.isclass(public):
                methods = [getattr(public, n, None) for n in dir(public) if not n.startswith("_")]
                calls = [inspect.unwrap(method) for method in methods if callable(method)]
            for call in calls:
                module = (getattr(call, "__module__", None) or "").split(".")
                with contextlib.suppress(TypeError, ValueError):  # without a signature
                    parameters = set(inspect.signature(call).parameters)
                    if module[0] == "pacsent" and parameters & PARAMETERS:
                        names.add(f"{module[1]}.{call.__qualname__}")
    return names


# name -> (how to make it from texts, "ok" with what a list gives, or "refused")
KINDS: dict[str, tuple[Callable, str]] = {
    "a tuple": (tuple, "ok"),
    "a generator": (lambda texts: (text for text in texts), "ok"),
    "an array": (np.array, "ok"),
    "an object array": (lambda texts: np.array(texts, dtype=object), "ok"),
    "a Series": (lambda texts: pd.Series(texts, index=range(len(texts), 0, -1)), "ok"),
    "a table of one column": (lambda texts: pd.DataFrame({"body": texts}), "ok"),
    "a pyarrow table of one column": (lambda texts: pa.table({"body": texts}), "ok"),
    "token lists": (lambda texts: [text.split() for text in texts], "tokens"),
    "a table of two columns": (lambda texts: pd.DataFrame({"a": texts, "b": texts}), "refused"),
    "a set": (set, "refused"),
    "a dict": (dict.fromkeys, "refused"),
    "bytes": (lambda texts: texts[0].encode(), "refused"),
    "an array of one column": (lambda texts: np.array(texts)[:, None], "refused"),
    "an array of two columns": (lambda texts: np.array([texts, texts]).T, "refused"),
    "a number": (len, "refused"),
    "None": (lambda texts: None, "refused"),
    "numbers": (lambda texts: list(range(len(texts))), "refused"),
    "a gap": (lambda texts: [*texts[1:], None], "refused"),
    "a nan": (lambda texts: [*texts[1:], float("nan")], "refused"),
    "texts of bytes": (lambda texts: [text.encode() for text in texts], "refused"),
    "a string": (lambda texts: texts[0], "refused"),  # for some a file, which is missing
    "a path": (lambda texts: Path("nowhere.txt"), "refused"),
}


def _same(output, right) -> bool:
    if isinstance(output, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(output) == len(right) and all(map(_same, output, right))
    if isinstance(output, np.ndarray):
        equal_nan = output.dtype.kind == "f"
        return output.shape == right.shape and np.array_equal(output, right, equal_nan=equal_nan)
    return output == right


@cache
def right_answer(name: str):
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, contextlib.chdir(folder):
        return TABLE[name](list(TEXTS))


def _run(name: str, make: Callable) -> str:
    output, right = TABLE[name](make(TEXTS)), right_answer(name)
    return "" if _same(output, right) else f"{str(output)[:300]} in place of {str(right)[:300]}"


def cases() -> Iterator[Case]:
    for name in TABLE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right_answer(name)  # the children need not compute it
        for kind, (make, expect) in KINDS.items():
            if expect == "tokens":
                expect = "ok" if name in _OR_TOKENS else "refused"
            if name in _ANY_ROWS and kind in ROWS:
                expect = "either"
            if (name, kind) not in OMITTED:
                yield Case(f"{name}({kind})", lambda n=name, m=make: _run(n, m), expect)
