"""Everything that can be stored: the models and certificates of tests/data/stored, and questions.

`scripts/write_stored_files.py` stores what `MODELS`, `CERTIFICATES` and the others make, with the
answers of that day. `tests/storage/test_stored_files.py` opens the stored files and asks again.
"""

import inspect
import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import pacsent
from pacsent import (
    CertifiedClassifier,
    Corpus,
    Index,
    SkipGram,
    TextClassifier,
    Vocabulary,
    WordVectors,
    certify_encoder,
    certify_predictions,
    distill,
    list_encoders,
    make_encoder,
)
from pacsent.certify import DriftMonitor, certify, certify_stream, compare
from pacsent.classify import check_labels
from pacsent.paper import certify_heuristics
from pacsent.predict import control_risk
from pacsent.sentences.external_encoders import ConcatenatedEncoder, ExternalEncoder
from pacsent.web.labelling import LabelCheck, Labelling
from pacsent.words import compress, skipgram_training

STORED = Path(__file__).parent / "data" / "stored"

# ---- texts and labels ----------------------------------------------------------------------------


class Data:
    """The texts and labels of texts.json, the same for all that is stored."""

    def __init__(self):
        content = json.loads((STORED / "texts.json").read_text(encoding="utf-8"))
        self.texts = content["texts"]  # 300 different ones
        self.labels = content["labels"]  # food, money or travel
        self.predictions = content["predictions"]  # of a machine that errs sometimes
        self.judge = content["judge"]  # of another one
        self.sets = [set(labels) for labels in content["sets"]]  # one to three labels each
        self.predicted_sets = [set(labels) for labels in content["predicted_sets"]]
        self.repeated = content["repeated"]  # 300 rows in which some texts repeat
        self.repeated_labels = content["repeated_labels"]
        self.groups = [f"author {row % 40}" for row in range(300)]
        self.new = content["new"]  # texts that nothing was fitted on, some of them unusual


def new_words() -> WordVectors:
    """Word vectors with both matrices for the words of texts.json."""
    content = json.loads((STORED / "texts.json").read_text(encoding="utf-8"))
    words = content["words"]
    topics = content["topics"]
    rng = np.random.default_rng(1)
    matrices = rng.normal(0, 0.4, (2, len(words), 8))  # input and output vectors
    matrices[:, np.arange(len(words)), topics] += 1
    input_vectors, output_vectors = matrices.astype(np.float32)

    counts = np.geomspace(5000, 5, len(words)).astype(int).tolist()
    vocabulary = Vocabulary(words, counts, normalize="paper")
    return WordVectors(vocabulary, input_vectors, output_vectors)


def letter_encoder(texts):
    """An encoder of another program: how often each of five letters occurs, and a constant."""
    rows = []
    for text in texts:
        counts = [text.count(letter) for letter in "aeiou"]
        rows.append([*counts, 1.0])
    return np.array(rows)


# ---- models --------------------------------------------------------------------------------------


# How the model of each folder of `models` is made, from the word vectors of the folder "words".
MODELS: dict[str, Callable[[WordVectors], object]] = {}


def model(name: str):
    """Adds a function to MODELS. It takes the word vectors, or nothing if it needs none."""

    def add(make):
        takes_words = bool(inspect.signature(make).parameters)
        MODELS[name] = make if takes_words else lambda words: make()
        return make

    return add


@model("words")
def _words(words):
    return words


@model("words-input-only")
def _words_input_only(words):
    return words.replace(output_vectors=None)


@model("words-half-precision")
def _words_half_precision(words):
    return words.astype(np.float16)


@model("words-compressed")
def _words_compressed(words):
    return compress(words, n_words=80, n_dims=6, bits=4)


@model("words-8-bits")
def _words_8_bits(words):
    return compress(words, bits=8)


@model("words-unicode")
def _unicode_words() -> WordVectors:
    names = ["東京", "café", "größe", "i", "_", "naïve", "данные", "🙂"]
    rng = np.random.default_rng(2)
    input_vectors = rng.normal(size=(len(names), 4)).astype(np.float32)
    return WordVectors(Vocabulary(names, normalize="unicode"), input_vectors)


@model("words-trained")
def _trained_words() -> WordVectors:
    trainer = SkipGram(4, n_epochs=1, min_count=3, subsample=0, n_jobs=1, random_state=3)
    return trainer.fit(Data().texts[:100]).word_vectors_


@model("words-fasttext")
def _words_fasttext():
    return pacsent.load(STORED / "formats" / "fasttext.bin")


@model("words-pieces")
def _words_of_pieces() -> WordVectors:
    return pacsent.load(STORED / "formats" / "static-model2vec")


@model("words-with-sentences")
def _words_with_sentences(words):
    average = make_encoder("Average", words, alpha=0.5).fit([])
    return words.replace(sentences=average)


@model("words-with-static-sentences")
def _words_with_static_sentences(words):
    return words.replace(sentences=_student())


def _fitted_encoder(name, words):
    encoder = make_encoder(name, words, n_jobs=1)
    if "random_state" in encoder.get_params():
        encoder.set_params(random_state=0)
    return encoder.fit(Data().texts[:60])


# Of the methods with importance sampling, three are enough.
_STORED_SAMPLED = ("i-Average", "i-PB-L2", "i-PB-neg")
for _name in list_encoders():
    if not _name.startswith("i-") or _name in _STORED_SAMPLED:
        MODELS[f"encoder-{_name}"] = partial(_fitted_encoder, _name)


@model("static")
def _student():
    teacher = ExternalEncoder(letter_encoder, name="letters")
    return distill(teacher, Data().texts, n_words=100, n_subwords=20, n_epochs=1, random_state=0)


@model("static-compressed")
def _compressed_student():
    return _student().compress(n_words=60, bits=4)


@model("external")
def _external():
    return ExternalEncoder(letter_encoder, name="letters").fit()


@model("concatenated")
def _concatenated(words):
    parts = [make_encoder("Average", words), make_encoder("PB-L2", words)]
    return ConcatenatedEncoder(parts, fade=5.0).fit([])


# ---- classifiers ---------------------------------------------------------------------------------


def _new_classifier(encoder=None, **options) -> TextClassifier:
    """A classifier by single words, not fitted: its file is small."""
    return TextClassifier(encoder, n_jobs=1, ngrams=(1, 1), characters=None, **options)


def _fit_40(classifier) -> TextClassifier:
    """The classifier, fitted on the first forty texts."""
    data = Data()
    return classifier.fit(data.texts[:40], data.labels[:40])


@model("classifier-few-labels")
def _classifier_few_labels():
    return _fit_40(TextClassifier(None, n_jobs=1))


@model("classifier-many-labels")
def _classifier_many_labels():
    data = Data()
    return _new_classifier().fit(data.texts[:260], data.labels[:260])


@model("classifier-two-classes")
def _classifier_two_classes():
    data = Data()
    is_food = [label == "food" for label in data.labels[:40]]
    return _new_classifier(class_weight="balanced").fit(data.texts[:40], is_food)


@model("classifier-numbers")
def _classifier_numbers():
    data = Data()
    lengths = [len(label) for label in data.labels[:40]]
    return _new_classifier(selection="folds").fit(data.texts[:40], lengths)


@model("classifier-words")
def _classifier_words(words):
    return _fit_40(_new_classifier(words))


@model("classifier-words-with-sentences")
def _classifier_words_with_sentences(words):
    with_sentences = words.replace(sentences=_student())
    return _fit_40(_new_classifier(with_sentences))


@model("classifier-encoder-list")
def _classifier_encoder_list(words):
    encoders = [make_encoder("IDF-Average", words), make_encoder("PB-L2", words)]
    return _fit_40(_new_classifier(encoders))


@model("classifier-external")
def _classifier_external():
    return _fit_40(_new_classifier(ExternalEncoder(letter_encoder, name="letters")))


@model("classifier-sets")
def _classifier_sets():
    data = Data()
    return _new_classifier().fit(data.texts[:60], data.sets[:60])


def _indicator() -> np.ndarray:
    """Which texts have the labels "food" and "money", shape (300, 2)."""
    rows = [["food" in labels, "money" in labels] for labels in Data().sets]
    return np.array(rows, int)


@model("classifier-indicator")
def _classifier_indicator():
    return _new_classifier().fit(Data().texts[:60], _indicator()[:60])


# ---- certified classifiers -----------------------------------------------------------------------


def _new_certified(estimator=None, calibration_size=0.6, **options) -> CertifiedClassifier:
    """A certified classifier by single words, not fitted."""
    estimator = _new_classifier() if estimator is None else estimator
    return CertifiedClassifier(
        estimator, random_state=0, calibration_size=calibration_size, **options
    )


def _fit_160(certified, **options) -> CertifiedClassifier:
    """The classifier, fitted on the first 160 texts."""
    data = Data()
    return certified.fit(data.texts[:160], data.labels[:160], **options)


@model("certified")
def _certified():
    return _fit_160(_new_certified(TextClassifier(None, n_jobs=1)))


@model("certified-simultaneous")
def _certified_simultaneous():
    return _fit_160(_new_certified(simultaneous=True, n_candidates=3))


@model("certified-randomized")
def _certified_randomized():
    return _fit_160(_new_certified(randomized_tests=True))


def _certified_with_repeats(repeats) -> CertifiedClassifier:
    data = Data()
    certified = _new_certified(repeats=repeats, calibration_size=0.5)
    return certified.fit(data.repeated[:200], data.repeated_labels[:200])


@model("certified-repeats-unknown")
def _certified_repeats_unknown():
    return _certified_with_repeats(None)


@model("certified-repeats-traffic")
def _certified_repeats_traffic():
    return _certified_with_repeats("traffic")


@model("certified-repeats-copies")
def _certified_repeats_copies():
    return _certified_with_repeats("copies")


@model("certified-groups")
def _certified_groups():
    return _fit_160(_new_certified(), groups=Data().groups[:160])


@model("certified-sets")
def _certified_sets():
    data = Data()
    return _new_certified().fit(data.texts[:160], data.sets[:160])


@model("certified-rare-class")
def _certified_rare():
    """One class has a single text: it is never predicted, and counts as an error."""
    data = Data()
    labels = [*data.labels[:159], "rare"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the class that is never predicted
        return _new_certified().fit(data.texts[:160], labels)


@model("certified-judge")
def _certified_judge():
    data = Data()
    judged = (data.texts[120:200], data.predictions[120:200])
    texts = data.texts[:120]
    labels = data.labels[:120]
    return _new_certified().fit(texts, labels, judge=judged)


# ---- indexes -------------------------------------------------------------------------------------


def _index(words, **options) -> Index:
    """Forty texts with their labels and numbers, of which two are deleted."""
    data = Data()
    index = Index(make_encoder("Average", words).fit([]), **options)
    labels = data.labels[:40]
    metadata = [{"label": label, "number": number} for number, label in enumerate(labels)]
    index.add(data.texts[:40], metadata=metadata)
    index.delete([3, 4])
    return index


@model("index-dense")
def _index_dense(words):
    return _index(words, lexical=False)


@model("index-hybrid")
def _index_hybrid(words):
    return _index(words, lexical=0.3)


@model("index-lexical")
def _index_lexical(words):
    return _index(words, lexical=1.0)


@model("index-chunked")
def _index_chunked(words):
    return _index(words, chunk=True)


@model("index-two-encoders")
def _index_two_encoders(words):
    return _index(words, query_encoder=make_encoder("PB-L2", words).fit([]))


def _first_words(text: str) -> str:
    words = text.split()
    return " ".join(words[:4])


@model("index-certified")
def _certified_index(words) -> Index:
    data = Data()
    index = Index(make_encoder("SIF-sum", words).fit([]))
    index.add(data.texts[:60])
    queries = [_first_words(text) for text in data.texts[:60]]
    index.certify(queries, range(60), k=3, random_state=0)
    return index


# Models that need an encoder of another program to answer.
EXTERNAL = {"external", "classifier-external"}
# Models that need the library tokenizers to cut text into subwords.
PIECES = {"words-pieces", "static-model2vec", "static-sentence-transformers"}


def open_model(name: str):
    """A stored model."""
    encoder = letter_encoder if name in EXTERNAL else None
    return pacsent.load(STORED / "models" / name, encoder=encoder)


# ---- questions -----------------------------------------------------------------------------------


def ask(model) -> dict:
    """What a model answers, as JSON has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts without known words
        if isinstance(model, WordVectors):
            answers = _ask_words(model)
        elif isinstance(model, CertifiedClassifier):
            answers = _ask_certified(model)
        elif isinstance(model, TextClassifier):
            answers = _ask_classifier(model)
        elif isinstance(model, Index):
            answers = _ask_index(model)
        else:
            answers = _ask_encoder(model)
    identity = {"class": type(model).__name__, "state": model.state().digest()}
    return as_json({**identity, **answers})


def _ask_words(words) -> dict:
    step = max(1, len(words.words) // 5)
    some_words = list(words.words[::step])
    average = make_encoder("Average", words, alpha=0.0).fit([])
    has_outputs = words.output_vectors is not None
    has_sentences = words.sentences is not None
    answers = {
        "words": some_words,
        "n_words": words.n_words,
        "digest": words.digest(),
        "counts": None if words.counts is None else words.counts[:5],
        "input": [words.input(word) for word in some_words],
        "output": [words.output(word) for word in some_words] if has_outputs else None,
        "most similar": words.most_similar(some_words[-1], 3),
        "means": average.transform(Data().new),
        "sentences": words.encode(Data().new) if has_sentences else None,
        "training": words.training,
        "corpus digest": words.corpus_digest,
    }
    if words.subwords is not None:
        answers["unknown word"] = words.subwords.vector("unheard")
    return answers


def _ask_encoder(encoder) -> dict:
    means, variances = encoder.posterior(Data().new)
    return {
        "method": encoder.method_name,
        "vectors": means,
        "variances": variances,
        "certificate": getattr(encoder, "certificate_", None),
    }


def _ask_classifier(classifier) -> dict:
    new = Data().new
    explanation = classifier.explain(new[0])
    return {
        "classes": classifier.classes_,
        "predictions": classifier.predict(new),
        "probabilities": classifier.predict_proba(new),
        "explanation": str(explanation).splitlines()[0],
        "selection": classifier.selection_,
    }


def _ask_certified(certified) -> dict:
    answers = _ask_classifier(certified.estimator_)
    answers |= {
        "all classes": certified.classes_,
        "all probabilities": certified.predict_proba(Data().new),
        "certificate": certified.certificate_.to_json(),
        "verified": repr(certified.certificate_.verify()),
        "thresholds of precision": _statement(certified.tune_thresholds, precision=0.7),
        "thresholds of recall": _statement(certified.tune_thresholds, recall=0.7),
    }
    if certified.target_type_ == "classes":
        return answers | _ask_one_class_per_text(certified)
    return answers | {
        "false negatives": _statement(certified.control_risk, false_negatives=0.3),
        "false discoveries": _statement(certified.control_risk, false_discoveries=0.3),
    }


def _ask_one_class_per_text(certified) -> dict:
    new_texts = Data().new
    odd_texts = [f"zzz{number} qqq{number}" for number in range(200)]
    monitor = DriftMonitor(certified, random_state=0)
    parts = [new_texts, Data().texts[200:], odd_texts]
    alarms = [monitor.update(part) for part in parts]
    return {
        "prediction sets": certified.predict_set(new_texts, error=0.2),
        "levels of prediction sets": certified.prediction_set_thresholds(error=0.2),
        "answers": _statement(certified.abstain, error=0.3),
        "answers at a chosen error": _statement(certified.abstain, error=None),
        "drift": [alarms, monitor.evidence, list(monitor.counts), monitor.n_compared],
    }


def _statement(function, **options) -> list:
    """What a choice of thresholds says and gives; the message where it is refused."""
    try:
        chosen = function(**options)
    except ValueError as error:
        return ["refused", str(error)]
    thresholds = getattr(chosen, "thresholds", None)
    if thresholds is None:
        thresholds = chosen.threshold
    else:
        thresholds = {str(name): value for name, value in thresholds.items()}
    predicted = chosen.predict(Data().new) if hasattr(chosen, "classifier") else None
    return [str(chosen), thresholds, predicted]


def _ask_index(index) -> dict:
    queries = [Data().new[0], Data().texts[3], "the hotel"]
    answers = {
        "n": len(index),
        "hits": [_hits(hits) for hits in index.search(queries, k=5)],
    }
    if index.certificate_ is not None:
        guaranteed = index.search(queries, guarantee=0.6)
        return answers | {
            "certificate": index.certificate_.to_json(),
            "guaranteed": [[hits.summary(), len(hits)] for hits in guaranteed],
        }
    where = {"label": "travel", "number": {">=": 20}}
    return answers | {
        "travel": [_hits(hits) for hits in index.search(queries, k=3, where=where)],
        "metadata": index.metadata(7),
    }


def _hits(hits) -> list:
    return [[hit.text, hit.score] for hit in hits]


def as_json(value):
    """A value as JSON gives it back: arrays are lists, and numbers have nine digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value


# ---- certificates from labels and predictions ----------------------------------------------------

# How each certificate is made of labels and predictions alone, with nothing fitted.
CERTIFICATES: dict[str, Callable] = {}


def certificate(name: str):
    """Adds a function to CERTIFICATES."""

    def add(make):
        CERTIFICATES[name] = make
        return make

    return add


def _of_predictions(rows=slice(None), **options):
    data = Data()
    options = {"texts": data.texts[rows], "random_state": 0, **options}
    return certify_predictions(data.labels[rows], data.predictions[rows], **options)


def _with_judge(**options):
    data = Data()
    labels = data.labels[:120]
    predictions = data.predictions[:120]
    judge = data.judge[:120]
    unlabelled = (data.predictions[120:], data.judge[120:])
    return certify_predictions(
        labels, predictions, judge=judge, unlabelled=unlabelled, random_state=0, **options
    )


def _of_repeats(repeats, **options):
    data = Data()
    labels = data.repeated_labels
    predictions = labels.copy()
    for row in range(0, len(labels), 11):
        predictions[row] = labels[(row + 1) % len(labels)]
    return certify_predictions(
        labels, predictions, texts=data.repeated, random_state=0, repeats=repeats, **options
    )


def _of_sets(**options):
    data = Data()
    options = {"classes": ["food", "money", "travel"], "random_state": 0, **options}
    return certify_predictions(data.sets, data.predicted_sets, **options)


@certificate("error-of-a-function")
def _of_a_function():
    data = Data()

    def predict(texts):
        predictions = zip(texts, data.predictions)
        return ["food" if "soup" in text else label for text, label in predictions]

    return certify(predict, data.texts, data.labels, per_class=True, random_state=0)


def _of_checked_labels(**options):
    data = Data()
    texts = [f"{text} number {copy}" for copy in range(4) for text in data.texts]
    right_labels = data.labels * 4
    machine_labels = data.predictions * 4

    scores = []
    for row, (right, machine) in enumerate(zip(right_labels, machine_labels)):
        scores.append(row % 13 + 20 * (right == machine))

    def answer(row, text):
        return None if row % 97 == 0 else right_labels[row]

    checked = check_labels(texts, machine_labels, scores, ask=answer, random_state=0, **options)
    return checked.certificate


@certificate("fidelity")
def _of_vectors():
    """Pairs of vectors with exact lengths, so that every machine finds the same cosines."""
    from pacsent.sentences.distillation_certificate import measure_fidelity

    pairs = np.array([(3, 4), (4, 3), (5, 12), (12, 5), (8, 15), (15, 8)])
    rows = np.arange(90)
    own = pairs[rows % 6]
    teacher = pairs[(rows + rows % 4) % 6]
    return measure_fidelity(own, teacher, teacher="pairs")


@certificate("stream")
def _of_stream():
    losses = np.arange(200) % 20 == 7
    return certify_stream(losses, n_training=100, n_duplicates=3)


@certificate("error")
def _certificate_of_error():
    return _of_predictions()


@certificate("error-without-texts")
def _certificate_of_error_without_texts():
    return _of_predictions(texts=None)


@certificate("error-candidates")
def _certificate_of_error_candidates():
    return _of_predictions(n_candidates=5, delta=0.01)


@certificate("error-per-class")
def _certificate_of_error_per_class():
    return _of_predictions(recall="all", precision="all")


@certificate("error-one-class")
def _certificate_of_error_one_class():
    return _of_predictions(recall=["food"], precision=["money"])


@certificate("error-groups")
def _certificate_of_error_groups():
    return _of_predictions(groups=Data().groups)


@certificate("error-few-groups")
def _certificate_of_error_few_groups():
    return _of_predictions(groups=[row % 4 for row in range(300)])


@certificate("error-batch")
def _certificate_of_error_batch():
    return _of_predictions(slice(100), unlabelled=200)


@certificate("error-judge")
def _certificate_of_error_judge():
    return _with_judge()


@certificate("error-judge-simultaneous")
def _certificate_of_error_judge_simultaneous():
    return _with_judge(simultaneous=True)


@certificate("error-repeats-unknown")
def _certificate_of_error_repeats_unknown():
    return _of_repeats(None)


@certificate("error-repeats-unknown-per-class")
def _certificate_of_error_repeats_unknown_per_class():
    return _of_repeats(None, recall="all", precision="all")


@certificate("error-repeats-traffic")
def _certificate_of_error_repeats_traffic():
    return _of_repeats("traffic")


@certificate("error-repeats-copies")
def _certificate_of_error_repeats_copies():
    return _of_repeats("copies")


@certificate("multilabel")
def _certificate_of_multilabel():
    return _of_sets()


@certificate("multilabel-texts")
def _certificate_of_multilabel_texts():
    return _of_sets(texts=Data().texts, n_candidates=2)


@certificate("multilabel-groups")
def _certificate_of_multilabel_groups():
    return _of_sets(groups=Data().groups)


@certificate("label-check")
def _certificate_of_label_check():
    return _of_checked_labels()


@certificate("label-check-candidates")
def _certificate_of_label_check_candidates():
    return _of_checked_labels(error=0.1, n_candidates=2)


# ---- certificates of encoders --------------------------------------------------------------------

# Stored and verified with the texts and the encoder, which measures everything again.
ENCODER_CERTIFICATES: dict[str, Callable] = {}


def encoder_certificate(name: str):
    """Adds a function to ENCODER_CERTIFICATES."""

    def add(make):
        ENCODER_CERTIFICATES[name] = make
        return make

    return add


def certified_texts(name: str):
    """The texts and the encoder that a certificate of an encoder is about."""
    words = pacsent.load(STORED / "models" / "words")
    n_texts = 200 if name == "encoder-heuristics" else 300
    return Data().texts[:n_texts], make_encoder("Average", words, n_jobs=1)


def _of_encoder(kind, **options):
    texts, encoder = certified_texts("encoder")
    return certify_encoder(encoder, texts, kind=kind, random_state=0, test_size=0.2, **options)


@encoder_certificate("encoder-heuristics")
def _of_heuristics():
    texts, encoder = certified_texts("encoder-heuristics")
    return certify_heuristics(encoder, texts, reference=Data().texts[200:], random_state=0)


@encoder_certificate("encoder-continuation")
def _certificate_of_encoder_continuation():
    return _of_encoder("continuation")


@encoder_certificate("encoder-words")
def _certificate_of_encoder_words():
    return _of_encoder("A")


@encoder_certificate("encoder-documents")
def _certificate_of_encoder_documents():
    return _of_encoder("B", posterior="prior")


@encoder_certificate("encoder-squared")
def _certificate_of_encoder_squared():
    return _of_encoder("C")


# ---- statements that are no certificates ---------------------------------------------------------


def statements() -> dict:
    """Comparisons and thresholds from given labels and scores."""
    data = Data()

    def first(texts):
        return data.predictions[:40]

    def second(texts):
        return data.judge[:40]

    first_half = _indicator()[:150].astype(bool)
    is_label = np.tile(first_half, (2, 1))  # (300, 2)
    numbers = np.arange(600).reshape(300, 2)
    noise = (numbers * 37 % 40) / 100
    scores = (is_label * 0.6 + noise).clip(0, 1)

    texts = data.texts[:40]
    comparison = compare(first, second, texts, data.labels[:40], random_state=0)
    repeated = data.repeated[:40]
    repeated_labels = data.repeated_labels[:40]
    comparison_with_repeats = compare(first, second, repeated, repeated_labels, random_state=0)
    false_negatives = control_risk(is_label, scores, false_negatives=0.2, random_state=0)
    false_discoveries = control_risk(is_label, scores, false_discoveries=0.3, random_state=0)
    return as_json(
        {
            "compare": str(comparison),
            "compare repeats": str(comparison_with_repeats),
            "false negatives": str(false_negatives),
            "false discoveries": str(false_discoveries),
        }
    )


# ---- what is held out ----------------------------------------------------------------------------

SPLITS: dict[str, Callable] = {}


def split(name: str):
    """Adds a function to SPLITS."""

    def add(make):
        SPLITS[name] = make
        return make

    return add


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that learns nothing, and notes which rows it was given by their weights."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.rows_ = None if sample_weight is None else np.asarray(sample_weight, int) - 2
        return self

    def predict_proba(self, X):
        """The answers of the machine of texts.json, with a confidence by the length of the text."""
        data = Data()
        answers = dict(zip(data.texts, data.predictions))
        scores = np.ones((len(X), len(self.classes_)))
        for row, text in enumerate(X):
            scores[row, self.classes_ == answers[text]] += 1 + len(text) % 7
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _split(texts, labels, *, groups=None, judge=None, random_state=0, **options):
    """What a classifier holds out of these rows, and what it concludes from it."""
    certified = CertifiedClassifier(Recorder(), random_state=random_state, **options)
    weights = np.arange(len(texts)) + 2
    certified.fit(texts, labels, sample_weight=weights, groups=groups, judge=judge)

    certificate = certified.certificate_.to_dict()
    del certificate["pacsent_version"]
    members = certified.calibration_.members
    return {
        "training rows": certified.estimator_.rows_.tolist(),
        "certificate": certificate,
        "levels of prediction sets": as_json(certified.prediction_set_thresholds(error=0.3)),
        "answers": as_json(certified.abstain(error=0.4).threshold),
        "planning labels": certified.out_of_fold_.labels.tolist(),
        "members": {name: rows.sum().item() for name, rows in members.items()},
    }


def _plain_split(**options):
    data = Data()
    return _split(data.texts, data.labels, **options)


def _repeated_split(**options):
    data = Data()
    return _split(data.repeated, data.repeated_labels, **options)


def _machine_labels():
    """The second half of the texts with the labels of the machine."""
    data = Data()
    return data.texts[150:], data.predictions[150:]


@split("machine labels")
def _split_with_judge():
    data = Data()
    return _split(data.texts[:150], data.labels[:150], judge=_machine_labels())


@split("machine labels, repeats unknown")
def _repeated_split_with_judge():
    data = Data()
    return _split(data.repeated[:150], data.repeated_labels[:150], judge=_machine_labels())


@split("no repeats")
def _split_of_no_repeats():
    return _plain_split()


@split("another seed")
def _split_of_another_seed():
    return _plain_split(random_state=1)


@split("a fraction")
def _split_of_a_fraction():
    return _plain_split(calibration_size=0.25)


@split("repeats unknown")
def _split_of_repeats_unknown():
    return _repeated_split()


@split("repeats unknown, more than half")
def _split_of_repeats_unknown_more_than_half():
    return _repeated_split(calibration_size=0.6)


@split("repeats traffic")
def _split_of_repeats_traffic():
    return _repeated_split(repeats="traffic")


@split("repeats copies")
def _split_of_repeats_copies():
    return _repeated_split(repeats="copies")


@split("groups")
def _split_of_groups():
    return _plain_split(groups=Data().groups)


@split("few groups")
def _split_of_few_groups():
    return _plain_split(groups=[row % 4 for row in range(300)])


# ---- folders that a program continues ------------------------------------------------------------


def write_corpus(folder) -> None:
    """A corpus of the texts."""
    Corpus.build(Data().texts[:60], folder, min_count=2, normalize="paper", n_jobs=1)


def ask_corpus(folder) -> dict:
    """What a stored corpus holds, and what training on it gives."""
    corpus = Corpus.open(folder)
    corpus.check()
    trainer = SkipGram(4, n_epochs=2, subsample=1e-2, n_jobs=1, random_state=0)
    vectors = trainer.fit(corpus).word_vectors_
    return as_json(
        {
            "corpus": repr(corpus),
            "digest": corpus.digest,
            "words": corpus.vocabulary.words[:10],
            "counts": corpus.vocabulary.counts[:10],
            "ids": corpus.ids[:20],
            "loss": trainer.loss_,
            "input": vectors.input_vectors[:4],
            "output": vectors.output_vectors[:4],
        }
    )


def ask_checkpoint(folder) -> dict:
    """The vectors of a training that is resumed from a stored checkpoint."""
    trainer = SkipGram.resume(folder, n_jobs=1)
    words = trainer.word_vectors_
    return as_json({"loss": trainer.loss_, "input": words.input_vectors[:4]})


class Interrupted(Exception):
    """Ends a training while it runs."""


def write_checkpoint(folder) -> None:
    """A training that is interrupted in its fourth chunk."""
    train_chunk = skipgram_training.ChunkTraining.train_chunk

    def train_or_stop(training, number):
        if number == 3:
            training.next_chunk = number
            training.save()
            raise Interrupted
        train_chunk(training, number)

    trainer = SkipGram(4, n_epochs=4, min_count=2, subsample=1e-2)
    trainer.set_params(n_jobs=1, random_state=0)
    trainer.set_params(checkpoint_dir=folder, checkpoint_every=1e9)
    with (
        patch.object(skipgram_training, "_MIN_CHUNK_TOKENS", 200),
        patch.object(skipgram_training.ChunkTraining, "train_chunk", train_or_stop),
        suppress(Interrupted),
    ):
        trainer.fit(Data().texts[:60])


def open_labelling(folder) -> Labelling:
    """The session of a stored journal of labelling."""
    data = Data()
    return Labelling(data.texts, ["food", "money", "travel"], folder, encoder=None)


def write_labelling(folder) -> None:
    """Two people label, skip and undo."""
    data = Data()
    classes = ["food", "money", "travel"]
    with Labelling(data.texts, classes, folder, encoder=None, random_state=4) as session:
        for count in range(40):
            who = "ann" if count % 3 else "ben"
            row = session.next(who).row
            is_skipped = count % 13 == 5
            session.answer(row, None if is_skipped else data.labels[row], who)
            if count % 17 == 8:
                session.undo(who)


def open_label_check(folder) -> LabelCheck:
    """The session of a stored journal of checking labels."""
    data = Data()
    scores = [row % 13 for row in range(300)]
    return LabelCheck(
        data.texts, data.predictions, folder, scores, [], error=0.2, delta=0.05, random_state=4
    )


def write_label_check(folder) -> None:
    """One person reads the first rows."""
    data = Data()
    with open_label_check(folder) as session:
        for _ in range(60):
            row = session.next("ann").row
            session.answer(row, data.labels[row], "ann")


def ask_session(session) -> dict:
    """The answers of a session, its counts, and which row is next."""
    with session:
        labels = dict(sorted(session.labels().items()))
        status = dict(session.status())
        return as_json(
            {"seed": session.seed, "labels": labels, "status": status, "next": session.next().row}
        )


# The folders that are continued, and what is asked of them.
FOLDERS = {
    "corpus": ask_corpus,
    "checkpoint": ask_checkpoint,
    "labelling": lambda folder: ask_session(open_labelling(folder)),
    "label-check": lambda folder: ask_session(open_label_check(folder)),
}

# ---- word vectors of other programs --------------------------------------------------------------

FORMATS = (
    "word2vec.txt",
    "word2vec.bin",
    "glove.txt",
    "fasttext.bin",
    "static-model2vec",
    "static-sentence-transformers",
)


def open_format(name: str) -> WordVectors:
    """Word vectors as another program wrote them."""
    return pacsent.load(STORED / "formats" / name)
