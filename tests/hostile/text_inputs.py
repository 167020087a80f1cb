"""Every public function and method that takes texts, with every kind of thing that can be passed.

`public_calls` finds them by the names of their parameters. `TABLE` says how each is called, and
`NOT_TEXTS` why one is left out; a new one that is in neither fails `test_hostile.py` by its name.
"""

import contextlib
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import pacsent
from hostile.material import TEXTS as SHORT
from hostile.material import new, words
from hostile.running import Case
from pacsent import classify, guarantees, paper, search, web
from pacsent.encoders import ExternalEncoder
from pacsent.text import as_texts

PACKAGES = (
    "text", "words", "encoders", "classify", "guarantees", "search", "paper", "web", "scale",
)  # fmt: skip
PARAMETERS = {"texts", "X", "documents", "sentences", "query", "queries", "source", "calibration"}


# long enough for a certificate, and each with words of its own: near-duplicates count as one text
def _word(i, j):
    return "own" + "".join(chr(97 + int(digit)) for digit in f"{i:02d}{j:02d}")


TEXTS = [
    f"{' '.join(SHORT[i % 20 :][:3])} " + " ".join(_word(i, j) for j in range(6)) for i in range(66)
]
LABELS = ["up", "down"] * (len(TEXTS) // 2)
OTHERS = [text.replace("own", "other") for text in TEXTS]


@dataclass(frozen=True)
class Call:
    """How to call one function with texts; what it returns is compared with that of a list.

    `tokens`: whether lists of tokens are texts too; `rows`: whether any rows are, which are
    compared as wholes.
    """

    run: Callable
    tokens: bool = False
    rows: bool = False


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


def _certified_as_in_the_paper(name, texts):
    method = "w-PB-neg" if name == "certify_documents" else "PB-L2"
    return str(getattr(paper, name)(new(method), texts, random_state=0))


def _watched(texts):
    watcher = guarantees.DriftMonitor(classifier(), seed=0)
    watcher.update(texts, LABELS)
    return watcher.capital


def _certified_labels(texts):
    sets = [{label} for label in LABELS]
    classes = ["down", "up"]
    certificate = guarantees.certify_predictions(
        sets, sets, classes=classes, texts=texts, random_state=0
    )
    return str(certificate)


def _distilled(texts):
    return pacsent.distill(_lengths, texts, n_subwords=9, n_epochs=1)


def _lengths(texts):
    return np.array([[len(text), text.count("e"), 1.0] for text in texts])


@cache
def _student():
    return _distilled(OTHERS)


def _vocabulary(method):
    def run(texts):
        encoded = getattr(words().vocabulary, method)(texts)
        return encoded.toarray() if method == "count" else encoded

    return run


def _vectorizer(method):
    def run(texts):
        vectors = getattr(average(), method)(texts)
        if method == "fit":
            return vectors.n_sentences_
        return [means for means, _ in vectors] if method == "stream" else vectors

    return run


def _methods(prefix: str, model: Callable, *names: str) -> dict[str, Callable]:
    """Methods that take texts alone."""
    return {
        f"{prefix}.{name}": lambda texts, name=name: getattr(model(), name)(texts) for name in names
    }


def _plain():
    return classifier().estimator_


_TEXTS_ALONE: dict[str, Callable] = {
    "text.as_texts": as_texts,
    "encoders.AnyEncoder.posterior": lambda texts: external().posterior(texts)[0],
    "encoders.AnyEncoder.stream": lambda texts: [v for v, _ in external().stream(texts)],
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
    "guarantees.distill": lambda texts: _distilled(texts).encode(OTHERS),
    "guarantees.certify_student": lambda texts: str(
        guarantees.certify_student(_student(), texts, _lengths(TEXTS))
    ),
    "guarantees.certify_agreement": lambda texts: (
        guarantees.certify_agreement(_plain(), _plain(), texts).n
    ),
    "classify.TextClassifier.fit": lambda texts: (
        pacsent.TextClassifier(None).fit(texts, LABELS).predict_proba(OTHERS)
    ),
    **_methods(
        "classify.TextClassifier",
        _plain,
        *("predict", "predict_proba", "predict_log_proba", "predict_with_scores"),
        *("decision_function", "decision_values"),
    ),
    "classify.TextClassifier.dense_features": lambda texts: _plain().dense_features(list(texts)),
    "classify.TextClassifier.stream": lambda texts: list(_plain().stream(texts)),
    "classify.TextClassifier.score": lambda texts: _plain().score(texts, LABELS),
    "classify.TextClassifier.report": lambda texts: _plain().report(texts, LABELS).to_dict(),
    "classify.next_to_label": lambda texts: classify.next_to_label(_plain(), texts, 5),
    "classify.suspicious_labels": lambda texts: classify.suspicious_labels(
        texts, LABELS, model=_bayes()
    ),
    "classify.learning_curve": lambda texts: str(
        classify.learning_curve(texts, LABELS, model=_bayes())
    ),
    "classify.audit": lambda texts: classify.audit(texts, LABELS, model=_bayes()).to_dict(),
    **_methods(
        "guarantees.CertifiedClassifier",
        classifier,
        *("predict_with_scores", "predict", "predict_proba", "predict_log_proba"),
    ),
    "guarantees.CertifiedClassifier.report": lambda texts: (
        classifier().report(texts, LABELS).to_dict()
    ),
    "guarantees.CertifiedClassifier.fit": lambda texts: (
        clone(classifier()).fit(texts, LABELS).predict_proba(OTHERS)
    ),
    "guarantees.CertifiedClassifier.predict_set": lambda texts: classifier().predict_set(
        texts, error=0.3
    ),
    "guarantees.CertifiedClassifier.compare_with_calibration": lambda texts: (
        classifier().compare_with_calibration(texts)
    ),
    "guarantees.CertifiedClassifier.certify": lambda texts: (
        classifier().certify(texts, LABELS).summary()
    ),
    "guarantees.CertifiedClassifier.calibrate": lambda texts: (
        classifier(0.3).calibrate(texts, LABELS).predict_proba(OTHERS)
    ),
    "guarantees.certify": lambda texts: guarantees.certify(classifier(), texts, LABELS).summary(),
    "guarantees.HeldOutCertificate.verify": lambda texts: guarantees.certify_predictions(
        LABELS, LABELS, texts=TEXTS
    ).verify(LABELS, texts, LABELS),
    "guarantees.compare": lambda texts: str(
        guarantees.compare(classifier(), classifier(0.4), texts, LABELS, overlap="drop")
    ),
    "guarantees.DriftMonitor.update": _watched,
    "guarantees.ClassThresholds.predict": lambda texts: (
        classifier().tune_thresholds(recall=0.6).predict(texts)
    ),
    "guarantees.Abstaining.predict": lambda texts: list(
        classifier().abstain(error=0.3).predict(texts)
    ),
    "web.make_map": lambda texts: web.make_map(average(), texts).places,
}
_OR_TOKENS: dict[str, Callable] = {
    **{f"words.Vocabulary.{name}": _vocabulary(name) for name in ("encode", "count", "digest")},
    "words.WordVectors.trained_on": lambda texts: words().trained_on(texts).fingerprint.documents,
    "words.Corpus.build": lambda texts: (
        pacsent.Corpus.build(texts, "corpus", min_count=1, overwrite=True).digest
    ),
    "words.SkipGram.fit": _skipgram,
    **{
        f"encoders.SentenceVectorizer.{name}": _vectorizer(name)
        for name in ("fit", "fit_transform", "posterior", "stream")
    },
    **{f"encoders.EncoderMixin.{name}": _vectorizer(name) for name in ("encode", "transform")},
    "encoders.SentenceVectorizer.sample": lambda texts: average().sample(texts, random_state=0),
    "guarantees.certify_encoder": lambda texts: str(
        pacsent.certify_encoder(new("PB-L2"), texts, random_state=0)
    ),
    "guarantees.EncoderCertificate.verify": lambda texts: pacsent.certify_encoder(
        new("PB-L2"), TEXTS, random_state=0
    ).verify(texts, new("PB-L2")),
    **{
        f"paper.{name}": lambda texts, name=name: _certified_as_in_the_paper(name, texts)
        for name in ("certify_words", "certify_documents", "certify_squared_loss")
    },
}
_ANY_ROWS: dict[str, Callable] = {
    "guarantees.certify_predictions": lambda texts: str(
        guarantees.certify_predictions(LABELS, LABELS, texts=texts, random_state=0)
    ),
    "guarantees.certify_predictions of sets": _certified_labels,
}
TABLE = {
    **{name: Call(run) for name, run in _TEXTS_ALONE.items()},
    **{name: Call(run, tokens=True) for name, run in _OR_TOKENS.items()},
    **{name: Call(run, rows=True) for name, run in _ANY_ROWS.items()},
}

NOT_TEXTS = {
    **{
        f"web.ServedModel.{name}": "texts of a request, which its schema has checked"
        for name in ("n_tokens", "observe", "posteriors")
    },
    "guarantees.TextCheck.add": "texts that Predict has read, and their probabilities",
    "guarantees.AnswerRule.of_log_proba": "probabilities, and texts that Predict has read",
    "encoders.fit_static_encoder": "guarantees.distill calls it",
    "encoders.ExternalEncoder.fit": "learns nothing and looks at nothing",
    "encoders.RemoteEncoder.encode": "needs a server; EncoderMixin.encode calls it",
    "encoders.RemoteEncoder.request": "needs a server; encode calls it",
    "text.as_sentences": "its callers look at the elements",
    "words.Pieces.numbers": "texts that Vocabulary.encode has looked at",
    "words.train_pieces": "needs the library tokenizers; test_static_models has wrong texts",
    "words.WordVectors.encode": "its sentences.encode, which is SentenceVectorizer's",
    "words.WordVectors.most_similar": "a word or a vector",
}


ROWS = {
    "token lists", "a table of two columns", "an array of one column", "an array of two columns",
    "numbers", "texts of bytes",
}  # fmt: skip
LEFT_OUT = {
    ("search.Index.search", "a string"): "one query",
    ("guarantees.certify_predictions", "None"): "texts are optional",
    ("guarantees.certify_predictions of sets", "None"): "texts are optional",
}


def public_calls() -> set[str]:
    """`package.Class.method` and `package.function` of the public API that take texts."""
    import importlib

    found = set()
    for name in PACKAGES:
        try:
            package = importlib.import_module(f"pacsent.{name}")
        except ModuleNotFoundError:
            continue
        for offered in map(package.__getattr__, dir(package)):
            for call in _calls(offered):
                place = (getattr(call, "__module__", None) or "").split(".")
                if place[0] == "pacsent" and _parameter_names(call) & PARAMETERS:
                    found.add(f"{place[1]}.{call.__qualname__}")
    return found


def _calls(offered) -> Iterator[Callable]:
    if inspect.isclass(offered):
        for name in dir(offered):
            call = getattr(offered, name, None)
            if not name.startswith("_") and callable(call):
                yield inspect.unwrap(call)
    elif inspect.isfunction(offered):
        yield offered


def _parameter_names(call) -> set[str]:
    try:
        return set(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return set()


def kinds() -> dict[str, tuple[Callable, str]]:
    """name -> (how to make it, "ok" with what a list gives, or "refused")."""
    import pandas as pd
    import pyarrow as pa

    n = len(TEXTS)
    return {
        "a tuple": (lambda: tuple(TEXTS), "ok"),
        "a generator": (lambda: (text for text in TEXTS), "ok"),
        "an array": (lambda: np.array(TEXTS), "ok"),
        "an object array": (lambda: np.array(TEXTS, dtype=object), "ok"),
        "a Series": (lambda: pd.Series(TEXTS, index=range(n, 0, -1)), "ok"),
        "a table of one column": (lambda: pd.DataFrame({"body": TEXTS}), "ok"),
        "a pyarrow table of one column": (lambda: pa.table({"body": TEXTS}), "ok"),
        "token lists": (lambda: [text.split() for text in TEXTS], "tokens"),
        "a table of two columns": (lambda: pd.DataFrame({"a": TEXTS, "b": TEXTS}), "refused"),
        "a set": (lambda: set(TEXTS), "refused"),
        "a dict": (lambda: dict.fromkeys(TEXTS), "refused"),
        "bytes": (lambda: TEXTS[0].encode(), "refused"),
        "an array of one column": (lambda: np.array(TEXTS)[:, None], "refused"),
        "an array of two columns": (lambda: np.array([TEXTS, TEXTS]).T, "refused"),
        "a number": (lambda: 3, "refused"),
        "None": (lambda: None, "refused"),
        "numbers": (lambda: list(range(n)), "refused"),
        "a gap": (lambda: [*TEXTS[1:], None], "refused"),
        "a nan": (lambda: [*TEXTS[1:], float("nan")], "refused"),
        "texts of bytes": (lambda: [text.encode() for text in TEXTS], "refused"),
        "a string": (lambda: TEXTS[0], "refused"),  # for some a file, which is not there
        "a path": (lambda: Path("nowhere.txt"), "refused"),
    }


def _same(found, right) -> bool:
    if isinstance(found, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(map(_same, found, right))
    if isinstance(found, np.ndarray):
        equal_nan = found.dtype.kind == "f"
        return found.shape == right.shape and np.array_equal(found, right, equal_nan=equal_nan)
    return found == right


@cache
def right_answer(name: str):
    with tempfile.TemporaryDirectory(prefix="hostile-") as place, contextlib.chdir(place):
        return TABLE[name].run(list(TEXTS))


def prepare() -> None:
    """Every right answer, so that the children find it there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in TABLE:
            right_answer(name)


def _run(name: str, make: Callable) -> str:
    found = TABLE[name].run(make())
    right = right_answer(name)
    return "" if _same(found, right) else f"{str(found)[:100]} where {str(right)[:100]} is right"


def cases() -> Iterator[Case]:
    for name, call in TABLE.items():
        for kind, (make, expect) in kinds().items():
            if expect == "tokens":
                expect = "ok" if call.tokens else "refused"
            if call.rows and kind in ROWS:
                expect = "either"
            if (name, kind) in LEFT_OUT:
                continue
            yield Case(f"{name}({kind})", lambda n=name, m=make: _run(n, m), expect)
