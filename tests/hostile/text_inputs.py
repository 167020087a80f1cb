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

from hostile.material import TEXTS as SHORT
from hostile.material import new, words
from hostile.running import Case

PACKAGES = (
    "text", "words", "encoders", "classify", "guarantees", "search", "paper", "web", "scale",
)  # fmt: skip
PARAMETERS = {"texts", "X", "documents", "sentences", "query", "queries", "source", "calibration"}


# long enough for a certificate, and each with words of its own: near-duplicates count as one text
def _word(i, j):
    return "own" + "".join(chr(97 + int(digit)) for digit in f"{i:02d}{j:02d}")


TEXTS = [
    f"{' '.join(SHORT[i % 20 :][:3])} " + " ".join(_word(i, j) for j in range(20))
    for i in range(66)
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
def classifier(holdout=0.5):
    from pacsent import CertifiedClassifier, TextClassifier

    return CertifiedClassifier(TextClassifier(), holdout=holdout, random_state=0).fit(
        OTHERS, LABELS
    )


@cache
def average():
    return new("Average").fit([])


def external():
    from pacsent.encoders import ExternalEncoder

    return ExternalEncoder(lambda texts: [[len(text), text.count("a")] for text in texts])


def _classified(texts):
    from pacsent import TextClassifier

    return TextClassifier().fit(texts, LABELS).predict_proba(OTHERS)


def _tools():
    from pacsent import classify

    return classify


def _bayes():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(), MultinomialNB())


def _indexed(texts):
    from pacsent import Index

    index = Index(average())
    index.add(texts)
    return [hit.text for hit in index.search(TEXTS[3], k=5)], len(index)


def _searched(texts):
    from pacsent import Index

    index = Index(average())
    index.add(TEXTS)
    return [[hit.id for hit in hits] for hits in index.search(texts, k=3)]


def _updated(texts):
    from pacsent import Index

    index = Index(average(), lexical=True)
    index.add(TEXTS)
    index.update(range(len(TEXTS)), texts)
    return [hit.text for hit in index.search(TEXTS[3], k=5)], len(index)


def _certified_search(texts):
    from pacsent import Index

    index = Index(average(), lexical=True)
    index.add(TEXTS)
    return str(index.certify(texts, range(len(TEXTS)), k=2))


def _reranked(texts):
    from pacsent.search import rerank

    return [one.text for one in rerank(TEXTS[3], texts, average())]


def _grouped(texts):
    from pacsent.search import clusters

    return clusters(texts, 3, encoder=average()).labels


def _corpus(texts):
    from pacsent import Corpus

    return Corpus.build(texts, "corpus", min_count=1, overwrite=True).digest


def _skipgram(texts):
    from pacsent import SkipGram

    settings = {"min_count": 1, "subsample": 0, "n_jobs": 1, "n_epochs": 1, "random_state": 0}
    return SkipGram(4, **settings).fit(texts).word_vectors_.input_vectors


def _mapped(texts):
    from pacsent.web import make_map

    return make_map(average(), texts).places


def _certified(texts):
    from pacsent import certify_encoder

    return str(certify_encoder(new("PB-L2"), texts, random_state=0))


def _verified(texts):
    from pacsent import certify_encoder

    return certify_encoder(new("PB-L2"), TEXTS, random_state=0).verify(texts, new("PB-L2"))


def _certified_as_in_the_paper(name, texts):
    from pacsent import paper

    method = "w-PB-neg" if name == "certify_documents" else "PB-L2"
    return str(getattr(paper, name)(new(method), texts, random_state=0))


def _watched(texts):
    from pacsent.guarantees import StreamWatcher

    watcher = StreamWatcher(classifier(), seed=0)
    watcher.update(texts, LABELS)
    return watcher.capital


def _certified_classifier(texts):
    from pacsent.guarantees import certify

    return certify(classifier(), texts, LABELS).sentence()


def _certified_predictions(texts):
    from pacsent.guarantees import certify_predictions

    return str(certify_predictions(LABELS, LABELS, texts=texts, random_state=0))


def _certified_labels(texts):
    from pacsent.guarantees import certify_multilabel

    sets = [{label} for label in LABELS]
    return str(certify_multilabel(sets, sets, classes=["down", "up"], texts=texts, random_state=0))


def _verified_predictions(texts):
    from pacsent.guarantees import certify_predictions

    return certify_predictions(LABELS, LABELS, texts=TEXTS).verify(LABELS, texts, LABELS)


def _compared(texts):
    from pacsent.guarantees import compare

    return str(compare(classifier(), classifier(0.4), texts, LABELS, overlap="drop"))


def _as_texts(texts):
    from pacsent.text import as_texts

    return as_texts(texts)


def _distilled(texts):
    from pacsent import distill

    return distill(_lengths, texts, n_subwords=9, n_epochs=1)


def _lengths(texts):
    return np.array([[len(text), text.count("e"), 1.0] for text in texts])


@cache
def _student():
    return _distilled(OTHERS)


def _certified_student(texts):
    from pacsent.guarantees import certify_student

    return str(certify_student(_student(), texts, _lengths(TEXTS)))


def _agreed(texts):
    from pacsent.guarantees import certify_agreement

    one = classifier().estimator_
    return certify_agreement(one, one, texts).n


def _vocabulary(method):
    def run(texts):
        found = getattr(words().vocabulary, method)(texts)
        return found.toarray() if method == "count" else found

    return Call(run, tokens=True)


def _vectorizer(method):
    def run(texts):
        found = getattr(average(), method)(texts)
        if method == "fit":
            return found.n_sentences_
        return [means for means, _ in found] if method == "stream" else found

    return Call(run, tokens=True)


TABLE: dict[str, Call] = {
    "text.as_texts": Call(_as_texts),
    **{f"words.Vocabulary.{name}": _vocabulary(name) for name in ("encode", "count", "digest")},
    "words.WordVectors.trained_on": Call(
        lambda texts: words().trained_on(texts).fingerprint.documents, tokens=True
    ),
    "words.Corpus.build": Call(_corpus, tokens=True),
    "words.SkipGram.fit": Call(_skipgram, tokens=True),
    **{
        f"encoders.SentenceVectorizer.{name}": _vectorizer(name)
        for name in ("fit", "fit_transform", "transform", "encode", "posterior", "stream")
    },
    **{
        f"encoders.AnyEncoder.{name}": Call(
            lambda texts, name=name: getattr(external(), name)(texts)
        )
        for name in ("encode", "transform")
    },
    "encoders.AnyEncoder.posterior": Call(lambda texts: external().posterior(texts)[0]),
    "encoders.AnyEncoder.stream": Call(lambda texts: [v for v, _ in external().stream(texts)]),
    "encoders.SentenceVectorizer.sample": Call(
        lambda texts: average().sample(texts, random_state=0), tokens=True
    ),
    "search.Index.add": Call(_indexed),
    "search.Index.search": Call(_searched),
    "search.Index.update": Call(_updated),
    "search.Index.certify": Call(_certified_search),
    "search.rerank": Call(_reranked),
    "search.clusters": Call(_grouped),
    "guarantees.certify_encoder": Call(_certified, tokens=True),
    "guarantees.EncoderCertificate.verify": Call(_verified, tokens=True),
    **{
        f"paper.{name}": Call(
            lambda texts, name=name: _certified_as_in_the_paper(name, texts), True
        )
        for name in ("certify_words", "certify_documents", "certify_squared_loss")
    },
    "guarantees.distill": Call(lambda texts: _distilled(texts).encode(OTHERS)),
    "guarantees.certify_student": Call(_certified_student),
    "guarantees.certify_agreement": Call(_agreed),
    "classify.TextClassifier.fit": Call(_classified),
    **{
        f"classify.TextClassifier.{name}": Call(
            lambda texts, name=name: getattr(classifier().estimator_, name)(texts)
        )
        for name in (
            "predict",
            "predict_proba",
            "predict_log_proba",
            "predict_with_scores",
            "decision_function",
        )
    },
    "classify.LinearText.decision_values": Call(
        lambda texts: classifier().estimator_.decision_values(texts)
    ),
    "classify.LinearText.stream": Call(lambda texts: list(classifier().estimator_.stream(texts))),
    "classify.TextClassifier.score": Call(
        lambda texts: classifier().estimator_.score(texts, LABELS)
    ),
    "classify.TextClassifier.report": Call(
        lambda texts: classifier().estimator_.report(texts, LABELS).to_dict()
    ),
    "guarantees.CertifiedClassifier.report": Call(
        lambda texts: classifier().report(texts, LABELS).to_dict()
    ),
    "classify.next_to_label": Call(
        lambda texts: _tools().next_to_label(classifier().estimator_, texts, 5)
    ),
    "classify.suspicious_labels": Call(
        lambda texts: _tools().suspicious_labels(texts, LABELS, model=_bayes())
    ),
    "classify.learning_curve": Call(
        lambda texts: str(_tools().learning_curve(texts, LABELS, model=_bayes()))
    ),
    "classify.audit": Call(lambda texts: _tools().audit(texts, LABELS, model=_bayes()).to_dict()),
    "guarantees.CertifiedClassifier.fit": Call(
        lambda texts: clone(classifier()).fit(texts, LABELS).predict_proba(OTHERS)
    ),
    **{
        f"guarantees.CertifiedClassifier.{name}": Call(
            lambda texts, name=name: getattr(classifier(), name)(texts)
        )
        for name in ("predict_with_scores", "predict", "predict_proba", "predict_log_proba")
    },
    "guarantees.CertifiedClassifier.predict_set": Call(
        lambda texts: classifier().predict_set(texts, error=0.3)
    ),
    "guarantees.CertifiedClassifier.certify": Call(
        lambda texts: classifier().certify(texts, LABELS).sentence()
    ),
    "guarantees.CertifiedClassifier.compare": Call(
        lambda texts: str(classifier().compare(classifier(0.4), texts, LABELS, overlap="drop"))
    ),
    "guarantees.CertifiedClassifier.calibrate": Call(
        lambda texts: classifier(0.3).calibrate(texts, LABELS).predict_proba(OTHERS)
    ),
    "guarantees.certify": Call(_certified_classifier),
    "guarantees.certify_predictions": Call(_certified_predictions, rows=True),
    "guarantees.certify_multilabel": Call(_certified_labels, rows=True),
    "guarantees.HeldOutCertificate.verify": Call(_verified_predictions),
    "guarantees.compare": Call(_compared),
    "guarantees.StreamWatcher.update": Call(_watched),
    "guarantees.ClassThresholds.predict": Call(
        lambda texts: classifier().thresholds(recall=0.6).predict(texts)
    ),
    "guarantees.Abstaining.predict": Call(
        lambda texts: list(classifier().abstain(error=0.3).predict(texts))
    ),
    "web.make_map": Call(lambda texts: _mapped(texts)),
}

NOT_TEXTS = {
    **{
        f"web.ServedModel.{name}": "texts of a request, which its schema has checked"
        for name in ("n_tokens", "observe", "posteriors")
    },
    "encoders.fit_static_encoder": "guarantees.distill calls it",
    "encoders.ExternalEncoder.fit": "learns nothing and looks at nothing",
    "encoders.RemoteEncoder.encode": "needs a server; AnyEncoder.encode calls it",
    "guarantees.ContinuationCertificate.made_again": "called by verify",
    "text.as_sentences": "its callers look at the elements",
    "text.iter_chunks": "a Source",
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
    ("guarantees.certify_multilabel", "None"): "texts are optional",
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
        "a string": (
            lambda: TEXTS[0],
            "refused",
        ),  # for some the name of a file, which is not there
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
