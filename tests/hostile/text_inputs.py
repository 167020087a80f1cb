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
from functools import cache, partial
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
    "scale",
)
PARAMETERS = {"texts", "X", "documents", "sentences", "query", "queries", "source", "calibration"}


def _own_words(i):
    """Six words that no other text has."""
    words = []
    for j in range(6):
        letters = [chr(97 + int(digit)) for digit in f"{i:02d}{j:02d}"]
        words.append("own" + "".join(letters))
    return " ".join(words)


def _make_text(i):
    usual_words = SHORT[i % 20 :][:3]
    return f"{' '.join(usual_words)} {_own_words(i)}"


# Long enough for a certificate, each with words of its own: near-duplicates count as one text.
TEXTS = [_make_text(i) for i in range(66)]
LABELS = ["up", "down"] * (len(TEXTS) // 2)
OTHERS = [text.replace("own", "other") for text in TEXTS]


@cache
def classifier(calibration_size=0.5):
    plain = pacsent.TextClassifier(None)
    certified = pacsent.CertifiedClassifier(
        plain, calibration_size=calibration_size, random_state=0
    )
    return certified.fit(OTHERS, LABELS)


def _plain_classifier():
    return classifier().estimator_


@cache
def average():
    return new("Average").fit([])


def external():
    def measure(texts):
        return [[len(text), text.count("a")] for text in texts]

    return ExternalEncoder(measure)


def _bayes():
    return make_pipeline(CountVectorizer(), MultinomialNB())


def _index(**options):
    index = pacsent.Index(average(), **options)
    index.add(TEXTS)
    return index


def _lengths(texts):
    rows = [[len(text), text.count("e"), 1.0] for text in texts]
    return np.array(rows)


@cache
def _student():
    return pacsent.distill(_lengths, OTHERS, n_subwords=9, n_epochs=1, random_state=0)


# Calls by their names: functions of the texts alone, those that read token lists as well, and those
# that accept rows of any kind.
_TEXTS_ALONE: dict[str, Callable] = {}
_OR_TOKENS: dict[str, Callable] = {}
_ANY_ROWS: dict[str, Callable] = {}


def calls(name: str, table: dict[str, Callable] = _TEXTS_ALONE):
    """Adds a function to a table: it calls `name` with texts and returns what can be compared."""

    def add(call):
        table[name] = call
        return call

    return add


def _call_method(make: Callable, method: str, texts):
    return getattr(make(), method)(texts)


def _add_methods(prefix: str, make: Callable, methods: str, table=_TEXTS_ALONE):
    """Adds methods that take texts and nothing else."""
    for method in methods.split():
        table[f"{prefix}.{method}"] = partial(_call_method, make, method)


# ---- functions of texts --------------------------------------------------------------------------

_TEXTS_ALONE["text.as_texts"] = as_texts


@calls("sentences.BaseEncoder.posterior")
def _posterior(texts):
    means, _ = external().posterior(texts)
    return means


@calls("sentences.BaseEncoder.stream")
def _external_stream(texts):
    return [vectors for vectors, _ in external().stream(texts)]


@calls("sentences.distill")
def _distill(texts):
    student = pacsent.distill(_lengths, texts, n_subwords=9, n_epochs=1, random_state=0)
    return student.encode(OTHERS)


@calls("sentences.certify_student")
def _certify_student(texts):
    return str(sentences.certify_student(_student(), texts, _lengths(TEXTS)))


def _found(index):
    """What an index finds for one query, and how many texts it has."""
    hits = index.search(TEXTS[3], k=5)
    return [hit.text for hit in hits], len(index)


@calls("search.Index.add")
def _add(texts):
    index = pacsent.Index(average())
    index.add(texts)
    return _found(index)


@calls("search.Index.search")
def _search(texts):
    results = _index().search(texts, k=3)
    return [[hit.id for hit in hits] for hits in results]


@calls("search.Index.update")
def _update(texts):
    index = _index(lexical=True)
    index.update(range(len(TEXTS)), texts)
    return _found(index)


@calls("search.Index.certify")
def _certify_index(texts):
    index = _index(lexical=True)
    return str(index.certify(texts, range(len(TEXTS)), k=2))


@calls("search.rerank")
def _rerank(texts):
    hits = search.rerank(TEXTS[3], texts, average())
    return [hit.text for hit in hits]


@calls("search.clusters")
def _clusters(texts):
    return search.clusters(texts, 3, encoder=average(), random_state=0).labels


@calls("classify.TextClassifier.fit")
def _fit(texts):
    return pacsent.TextClassifier(None).fit(texts, LABELS).predict_proba(OTHERS)


_add_methods(
    "classify.TextClassifier",
    _plain_classifier,
    "predict predict_proba predict_log_proba predict_with_scores decision_function "
    "decision_values coverage are_covered",
)


@calls("classify.TextClassifier.stream")
def _stream(texts):
    return list(_plain_classifier().stream(texts))


@calls("classify.TextClassifier.score")
def _score(texts):
    return _plain_classifier().score(texts, LABELS)


@calls("classify.TextClassifier.report")
def _report(texts):
    return _plain_classifier().report(texts, LABELS).to_dict()


@calls("classify.check_labels")
def _check_labels(texts):
    def answer(row, text):
        return LABELS[row]

    checked = classify.check_labels(texts, LABELS, ask=answer, random_state=0)
    return checked.labels


@calls("classify.next_to_label")
def _next_to_label(texts):
    return classify.next_to_label(_plain_classifier(), texts, 5, random_state=0)


@calls("classify.suspicious_labels")
def _suspicious_labels(texts):
    return classify.suspicious_labels(texts, LABELS, model=_bayes())


@calls("classify.fit_learning_curve")
def _fit_learning_curve(texts):
    return str(classify.fit_learning_curve(texts, LABELS, model=_bayes(), random_state=0))


@calls("classify.audit")
def _audit(texts):
    return classify.audit(texts, LABELS, model=_bayes()).to_dict()


@calls("predict.CertifiedClassifier.fit")
def _fit_certified(texts):
    return clone(classifier()).fit(texts, LABELS).predict_proba(OTHERS)


_add_methods(
    "predict.CertifiedClassifier",
    classifier,
    "predict_with_scores predict predict_proba predict_log_proba compare_with_calibration",
)


@calls("predict.CertifiedClassifier.report")
def _report_certified(texts):
    return classifier().report(texts, LABELS).to_dict()


@calls("predict.CertifiedClassifier.predict_set")
def _predict_set(texts):
    return classifier().predict_set(texts, error=0.3)


@calls("predict.CertifiedClassifier.calibrate")
def _calibrate(texts):
    return classifier(0.3).calibrate(texts, LABELS).predict_proba(OTHERS)


@calls("predict.ClassThresholds.predict")
def _predict_by_thresholds(texts):
    return classifier().tune_thresholds(recall=0.6).predict(texts)


@calls("predict.Abstaining.predict")
def _predict_or_abstain(texts):
    return list(classifier().abstain(error=0.3).predict(texts))


@calls("certify.certify")
def _certify(texts):
    return certify.certify(classifier(), texts, LABELS).summary()


@calls("certify.HeldOutCertificate.verify")
def _verify(texts):
    certificate = certify.certify_predictions(LABELS, LABELS, texts=TEXTS)
    return certificate.verify(LABELS, texts, LABELS)


@calls("certify.compare")
def _compare(texts):
    other = classifier(0.4)
    return str(certify.compare(classifier(), other, texts, LABELS, overlap="drop"))


@calls("certify.DriftMonitor.update")
def _monitor(texts):
    monitor = certify.DriftMonitor(classifier(), random_state=0)
    monitor.update(texts, LABELS)
    return monitor.evidence


@calls("web.make_map")
def _make_map(texts):
    return web.make_map(average(), texts)


# ---- functions of texts or token lists -----------------------------------------------------------

_add_methods("words.Vocabulary", lambda: words().vocabulary, "encode digest", _OR_TOKENS)
_add_methods("sentences.SentenceVectorizer", average, "fit_transform posterior", _OR_TOKENS)
_add_methods("sentences.EncoderMixin", average, "encode transform", _OR_TOKENS)


@calls("words.Vocabulary.count", _OR_TOKENS)
def _count(texts):
    return words().vocabulary.count(texts).toarray()


@calls("words.WordVectors.trained_on", _OR_TOKENS)
def _trained_on(texts):
    return words().trained_on(texts).fingerprint.documents


@calls("words.Corpus.build", _OR_TOKENS)
def _build_corpus(texts):
    return pacsent.Corpus.build(texts, "corpus", min_count=1, overwrite=True).digest


@calls("words.SkipGram.fit", _OR_TOKENS)
def _train(texts):
    trainer = pacsent.SkipGram(4, min_count=1, subsample=0, n_jobs=1, n_epochs=1, random_state=0)
    return trainer.fit(texts).word_vectors_.input_vectors


@calls("sentences.SentenceVectorizer.fit", _OR_TOKENS)
def _fit_vectorizer(texts):
    return average().fit(texts).n_sentences_


@calls("sentences.SentenceVectorizer.stream", _OR_TOKENS)
def _stream_vectors(texts):
    return [vectors for vectors, _ in average().stream(texts)]


@calls("sentences.SentenceVectorizer.sample", _OR_TOKENS)
def _sample(texts):
    return average().sample(texts, random_state=0)


@calls("paper.certify_encoder", _OR_TOKENS)
def _certify_encoder(texts):
    return str(pacsent.certify_encoder(new("PB-L2"), texts, random_state=0))


@calls("paper.EncoderCertificate.verify", _OR_TOKENS)
def _verify_encoder(texts):
    certificate = pacsent.certify_encoder(new("PB-L2"), TEXTS, random_state=0)
    return certificate.verify(texts, new("PB-L2"))


@calls("paper.certify_words", _OR_TOKENS)
def _certify_words(texts):
    return str(paper.certify_words(new("PB-L2"), texts, random_state=0))


@calls("paper.certify_squared_loss", _OR_TOKENS)
def _certify_squared_loss(texts):
    return str(paper.certify_squared_loss(new("PB-L2"), texts, random_state=0))


@calls("paper.certify_documents", _OR_TOKENS)
def _certify_documents(texts):
    return str(paper.certify_documents(new("w-PB-neg"), texts, random_state=0))


# ---- functions of rows of any kind ---------------------------------------------------------------


# Numbers, not sentences: a certificate says of rows that are no texts how they were compared.


@calls("certify.certify_predictions", _ANY_ROWS)
def _certify_predictions(texts):
    certificate = certify.certify_predictions(LABELS, LABELS, texts=texts, random_state=0)
    return certificate.n, certificate.error_upper


@calls("certify.certify_predictions of sets", _ANY_ROWS)
def _certify_sets(texts):
    sets = [{label} for label in LABELS]
    certificate = certify.certify_predictions(
        sets, sets, classes=["down", "up"], texts=texts, random_state=0
    )
    return certificate.n, certificate.error_upper, certificate.macro_f1_lower


TABLE = {**_TEXTS_ALONE, **_OR_TOKENS, **_ANY_ROWS}

_CHECKED_BY_SCHEMA = "texts of a request, which its schema has checked"
_CHECKED_BY_POSTERIOR = "texts that posterior has looked at"
NOT_TEXTS = {
    "web.ServedModel.answer": _CHECKED_BY_SCHEMA,
    "web.ServedModel.n_tokens": _CHECKED_BY_SCHEMA,
    "web.ServedModel.posteriors": _CHECKED_BY_SCHEMA,
    "predict.control_risk": "as certify_predictions, whose clusters it uses",
    "certify.traffic_error_upper": "as certify_predictions, whose clusters it uses",
    "sentences.ExternalEncoder.fit": "learns nothing and looks at nothing",
    "sentences.RemoteEncoder.encode": "needs a server; EncoderMixin.encode calls it",
    "sentences.RemoteEncoder.request": "needs a server; encode calls it",
    "paper.certify_heuristics": "certify_encoder(kind='D'), which is in the table",
    "sentences.PosteriorTerms.prior": _CHECKED_BY_POSTERIOR,
    "sentences.PosteriorTerms.kl": _CHECKED_BY_POSTERIOR,
    "sentences.PosteriorTerms.objective": _CHECKED_BY_POSTERIOR,
    "sentences.PosteriorTerms.bound": _CHECKED_BY_POSTERIOR,
    "classify.TextClassifier.dense_features": "texts that a Python caller has read",
    "text.as_sentences": "its callers look at the elements",
    "words.Pieces.numbers": "texts that Vocabulary.encode has looked at",
    "words.train_pieces": "needs the library tokenizers; test_static_models has wrong texts",
    "words.WordVectors.encode": "its sentences.encode, which is SentenceVectorizer's",
    "words.WordVectors.most_similar": "a word or a vector",
}


# ---- the public functions that take texts --------------------------------------------------------


def public_calls() -> set[str]:
    """`package.Class.method` and `package.function` of the public API that take texts."""
    names = set()
    for name in PACKAGES:
        package = importlib.import_module(f"pacsent.{name}")
        for public_name in dir(package):
            for function in _functions_of(getattr(package, public_name)):
                module = (getattr(function, "__module__", None) or "").split(".")
                if module[0] == "pacsent" and _takes_texts(function):
                    names.add(f"{module[1]}.{function.__qualname__}")
    return names


def _functions_of(public) -> list[Callable]:
    """The function itself, or the public methods of a class."""
    if inspect.isfunction(public):
        return [public]
    if not inspect.isclass(public):
        return []
    names = [name for name in dir(public) if not name.startswith("_")]
    attributes = [getattr(public, name, None) for name in names]
    return [inspect.unwrap(attribute) for attribute in attributes if callable(attribute)]


def _takes_texts(function: Callable) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # without a signature
        return False
    return not PARAMETERS.isdisjoint(parameters)


# ---- what is passed as texts ---------------------------------------------------------------------

# name -> (how to make it from texts, "ok" with what a list gives, "tokens" or "refused")
KINDS: dict[str, tuple[Callable, str]] = {}


def kind(name: str, expected: str):
    """Adds a function to KINDS: it makes something of this kind from texts."""

    def add(make):
        KINDS[name] = (make, expected)
        return make

    return add


kind("a tuple", "ok")(tuple)
kind("an array", "ok")(np.array)
kind("a set", "refused")(set)
kind("a dict", "refused")(dict.fromkeys)
kind("a number", "refused")(len)


@kind("a generator", "ok")
def _generator(texts):
    return (text for text in texts)


@kind("an object array", "ok")
def _object_array(texts):
    return np.array(texts, dtype=object)


@kind("a Series", "ok")
def _series(texts):
    return pd.Series(texts, index=range(len(texts), 0, -1))


@kind("a table of one column", "ok")
def _table(texts):
    return pd.DataFrame({"body": texts})


@kind("a pyarrow table of one column", "ok")
def _pyarrow_table(texts):
    return pa.table({"body": texts})


@kind("token lists", "tokens")
def _token_lists(texts):
    return [text.split() for text in texts]


@kind("a table of two columns", "refused")
def _table_of_two_columns(texts):
    return pd.DataFrame({"a": texts, "b": texts})


@kind("bytes", "refused")
def _bytes(texts):
    return texts[0].encode()


@kind("an array of one column", "refused")
def _array_of_one_column(texts):
    return np.array(texts)[:, None]


@kind("an array of two columns", "refused")
def _array_of_two_columns(texts):
    return np.array([texts, texts]).T


@kind("None", "refused")
def _none(texts):
    return None


@kind("numbers", "refused")
def _numbers(texts):
    return list(range(len(texts)))


@kind("a gap", "refused")
def _gap(texts):
    return [*texts[1:], None]


@kind("a nan", "refused")
def _nan(texts):
    return [*texts[1:], float("nan")]


@kind("texts of bytes", "refused")
def _texts_of_bytes(texts):
    return [text.encode() for text in texts]


@kind("a string", "refused")  # for some functions a file, which is missing
def _string(texts):
    return texts[0]


@kind("a path", "refused")
def _path(texts):
    return Path("nowhere.txt")


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

# ---- cases --------------------------------------------------------------------------------------


def _same(output, right) -> bool:
    if isinstance(output, np.ndarray):
        equal_nan = output.dtype.kind == "f"
        return np.array_equal(output, right, equal_nan=equal_nan)
    if not isinstance(output, list | tuple):
        return output == right

    if not isinstance(right, list | tuple) or len(output) != len(right):
        return False
    return all(_same(item, right_item) for item, right_item in zip(output, right))


@cache
def right_answer(name: str):
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, contextlib.chdir(folder):
        return TABLE[name](list(TEXTS))


def _run(name: str, make: Callable) -> str:
    output = TABLE[name](make(TEXTS))
    right = right_answer(name)
    return "" if _same(output, right) else f"{str(output)[:300]} in place of {str(right)[:300]}"


def _expected_end(name: str, kind: str) -> str:
    if name in _ANY_ROWS and kind in ROWS:
        return "either"
    _, expected = KINDS[kind]
    if expected == "tokens":
        return "ok" if name in _OR_TOKENS else "refused"
    return expected


def cases() -> Iterator[Case]:
    for name in TABLE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right_answer(name)  # the children need not compute it

        for kind, (make, _) in KINDS.items():
            if (name, kind) not in OMITTED:
                run = partial(_run, name, make)
                yield Case(f"{name}({kind})", run, _expected_end(name, kind))
