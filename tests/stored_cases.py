"""Everything that can be stored: the models and certificates of tests/data/stored, and questions.

`scripts/write_stored_files.py` stores what `MODELS`, `CERTIFICATES` and the others make, with the
answers of that day. `tests/storage/test_stored_files.py` opens the stored files and asks again.
"""

import json
import warnings
from contextlib import suppress
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
    words, topics = content["words"], content["topics"]
    rng = np.random.default_rng(1)
    tables = rng.normal(0, 0.4, (2, len(words), 8))
    tables[:, np.arange(len(words)), topics] += 1
    tables = tables.astype(np.float32)
    counts = np.geomspace(5000, 5, len(words)).astype(int).tolist()
    return WordVectors(Vocabulary(words, counts, normalize="paper"), *tables)


def letter_encoder(texts):
    """An encoder of another program: how often each of five letters occurs, and a constant."""
    return np.array([[*(text.count(letter) for letter in "aeiou"), 1.0] for text in texts])


# ---- models --------------------------------------------------------------------------------------


def _unicode_words() -> WordVectors:
    names = ["東京", "café", "größe", "i", "_", "naïve", "данные", "🙂"]
    rng = np.random.default_rng(2)
    table = rng.normal(size=(len(names), 4)).astype(np.float32)
    return WordVectors(Vocabulary(names, normalize="unicode"), table)


def _trained_words() -> WordVectors:
    trainer = SkipGram(4, n_epochs=1, min_count=3, subsample=0, n_jobs=1, random_state=3)
    return trainer.fit(Data().texts[:100]).word_vectors_


def _words_of_pieces() -> WordVectors:
    return pacsent.load(STORED / "formats" / "static-model2vec")


def _words_with_sentences(words) -> WordVectors:
    return words.replace(sentences=make_encoder("Average", words, alpha=0.5).fit([]))


def _fitted_encoder(name, words):
    options = (
        {"random_state": 0} if "random_state" in make_encoder(name, words).get_params() else {}
    )
    return make_encoder(name, words, n_jobs=1, **options).fit(Data().texts[:60])


def _student():
    teacher = ExternalEncoder(letter_encoder, name="letters")
    return distill(teacher, Data().texts, n_words=100, n_subwords=20, n_epochs=1, random_state=0)


def _classifier(**options) -> TextClassifier:
    return TextClassifier(**{"encoder": None, "n_jobs": 1, **options})


def _plain_classifier(**options) -> TextClassifier:
    """A classifier by single words: its file is small."""
    return _classifier(ngrams=(1, 1), characters=None, **options)


def _certified(estimator=None, **options) -> CertifiedClassifier:
    data = Data()
    if estimator is None:
        estimator = _plain_classifier()
    certified = CertifiedClassifier(estimator, random_state=0, calibration_size=0.6, **options)
    return certified.fit(data.texts[:160], data.labels[:160])


def _unfitted(**options) -> CertifiedClassifier:
    estimator = _plain_classifier()
    return CertifiedClassifier(estimator, **{"random_state": 0, "calibration_size": 0.6, **options})


def _certified_with_repeats(repeats) -> CertifiedClassifier:
    data = Data()
    certified = _unfitted(repeats=repeats, calibration_size=0.5)
    return certified.fit(data.repeated[:200], data.repeated_labels[:200])


def _certified_groups() -> CertifiedClassifier:
    data = Data()
    return _unfitted().fit(data.texts[:160], data.labels[:160], groups=data.groups[:160])


def _certified_sets() -> CertifiedClassifier:
    data = Data()
    return _unfitted().fit(data.texts[:160], data.sets[:160])


def _certified_rare() -> CertifiedClassifier:
    """One class has a single text: it is never predicted, and counts as an error."""
    data = Data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the class that is never predicted
        return _unfitted().fit(data.texts[:160], [*data.labels[:159], "rare"])


def _certified_judge() -> CertifiedClassifier:
    data = Data()
    judge = data.texts[120:200], data.predictions[120:200]
    return _unfitted().fit(data.texts[:120], data.labels[:120], judge=judge)


def _indicator() -> np.ndarray:
    data = Data()
    return np.array([[name in labels for name in ("food", "money")] for labels in data.sets], int)


def _index(words, **options) -> Index:
    data = Data()
    index = Index(make_encoder("Average", words).fit([]), **options)
    metadata = [{"label": label, "number": n} for n, label in enumerate(data.labels[:40])]
    index.add(data.texts[:40], metadata=metadata)
    index.delete([3, 4])
    return index


def _certified_index(words) -> Index:
    data = Data()
    index = Index(make_encoder("SIF-sum", words).fit([]))
    index.add(data.texts[:60])
    queries = [" ".join(text.split()[:4]) for text in data.texts[:60]]
    index.certify(queries, range(60), k=3, random_state=0)
    return index


# Which folder of `models` holds what. A function takes the word vectors of the folder "words".
MODELS = {
    "words": lambda words: words,
    "words-input-only": lambda words: words.replace(output_vectors=None),
    "words-half-precision": lambda words: words.astype(np.float16),
    "words-compressed": lambda words: compress(words, n_words=80, n_dims=6, bits=4),
    "words-8-bits": lambda words: compress(words, bits=8),
    "words-unicode": lambda words: _unicode_words(),
    "words-trained": lambda words: _trained_words(),
    "words-fasttext": lambda words: pacsent.load(STORED / "formats" / "fasttext.bin"),
    "words-pieces": lambda words: _words_of_pieces(),
    "words-with-sentences": _words_with_sentences,
    "words-with-static-sentences": lambda words: words.replace(sentences=_student()),
    **{
        f"encoder-{name}": lambda words, name=name: _fitted_encoder(name, words)
        for name in list_encoders()
        if not name.startswith("i-") or name in ("i-Average", "i-PB-L2", "i-PB-neg")
    },
    "static": lambda words: _student(),
    "static-compressed": lambda words: _student().compress(n_words=60, bits=4),
    "external": lambda words: ExternalEncoder(letter_encoder, name="letters").fit(),
    "concatenated": lambda words: ConcatenatedEncoder(
        [make_encoder("Average", words), make_encoder("PB-L2", words)], fade=5.0
    ).fit([]),
    "classifier-few-labels": lambda words: _classifier().fit(Data().texts[:40], Data().labels[:40]),
    "classifier-many-labels": lambda words: _plain_classifier().fit(
        Data().texts[:260], Data().labels[:260]
    ),
    "classifier-two-classes": lambda words: _plain_classifier(class_weight="balanced").fit(
        Data().texts[:40], [label == "food" for label in Data().labels[:40]]
    ),
    "classifier-numbers": lambda words: _plain_classifier(selection="folds").fit(
        Data().texts[:40], [len(label) for label in Data().labels[:40]]
    ),
    "classifier-words": lambda words: _plain_classifier(encoder=words).fit(
        Data().texts[:40], Data().labels[:40]
    ),
    "classifier-words-with-sentences": lambda words: _plain_classifier(
        encoder=words.replace(sentences=_student())
    ).fit(Data().texts[:40], Data().labels[:40]),
    "classifier-encoder-list": lambda words: _plain_classifier(
        encoder=[make_encoder("IDF-Average", words), make_encoder("PB-L2", words)]
    ).fit(Data().texts[:40], Data().labels[:40]),
    "classifier-external": lambda words: _plain_classifier(
        encoder=ExternalEncoder(letter_encoder, name="letters")
    ).fit(Data().texts[:40], Data().labels[:40]),
    "classifier-sets": lambda words: _plain_classifier().fit(Data().texts[:60], Data().sets[:60]),
    "classifier-indicator": lambda words: _plain_classifier().fit(
        Data().texts[:60], _indicator()[:60]
    ),
    "certified": lambda words: _certified(_classifier()),
    "certified-simultaneous": lambda words: _certified(simultaneous=True, n_candidates=3),
    "certified-randomized": lambda words: _certified(randomized_tests=True),
    "certified-repeats-unknown": lambda words: _certified_with_repeats(None),
    "certified-repeats-traffic": lambda words: _certified_with_repeats("traffic"),
    "certified-repeats-copies": lambda words: _certified_with_repeats("copies"),
    "certified-groups": lambda words: _certified_groups(),
    "certified-sets": lambda words: _certified_sets(),
    "certified-rare-class": lambda words: _certified_rare(),
    "certified-judge": lambda words: _certified_judge(),
    "index-dense": lambda words: _index(words, lexical=False),
    "index-hybrid": lambda words: _index(words, lexical=0.3),
    "index-lexical": lambda words: _index(words, lexical=1.0),
    "index-chunked": lambda words: _index(words, chunk=True),
    "index-two-encoders": lambda words: _index(
        words, query_encoder=make_encoder("PB-L2", words).fit([])
    ),
    "index-certified": _certified_index,
}
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
    return as_json({"class": type(model).__name__, "state": model.state().digest(), **answers})


def _ask_words(words) -> dict:
    some = list(words.words[:: max(1, len(words.words) // 5)])
    answers = {
        "words": some,
        "n_words": words.n_words,
        "digest": words.digest(),
        "counts": None if words.counts is None else words.counts[:5],
        "input": [words.input(word) for word in some],
        "output": None if words.output_vectors is None else [words.output(word) for word in some],
        "most similar": words.most_similar(some[-1], 3),
        "means": make_encoder("Average", words, alpha=0.0).fit([]).transform(Data().new),
        "sentences": None if words.sentences is None else words.encode(Data().new),
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
    new = Data().new
    answers = _ask_classifier(certified.estimator_)
    answers |= {
        "all classes": certified.classes_,
        "all probabilities": certified.predict_proba(new),
        "certificate": certified.certificate_.to_json(),
        "verified": repr(certified.certificate_.verify()),
        "thresholds of precision": _statement(certified.tune_thresholds, precision=0.7),
        "thresholds of recall": _statement(certified.tune_thresholds, recall=0.7),
    }
    if certified.target_type_ != "classes":
        return answers | {
            "false negatives": _statement(certified.control_risk, false_negatives=0.3),
            "false discoveries": _statement(certified.control_risk, false_discoveries=0.3),
        }
    monitor = DriftMonitor(certified, random_state=0)
    odd = [f"zzz{number} qqq{number}" for number in range(200)]
    alarms = [monitor.update(part) for part in (new, Data().texts[200:], odd)]
    return answers | {
        "prediction sets": certified.predict_set(new, error=0.2),
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


def _of_predictions(rows=slice(None), **options):
    data = Data()
    options = {"texts": data.texts[rows], "random_state": 0, **options}
    return certify_predictions(data.labels[rows], data.predictions[rows], **options)


def _with_judge(**options):
    data = Data()
    return certify_predictions(
        data.labels[:120],
        data.predictions[:120],
        judge=data.judge[:120],
        unlabelled=(data.predictions[120:], data.judge[120:]),
        random_state=0,
        **options,
    )


def _of_repeats(repeats, **options):
    data = Data()
    wrong = [*data.repeated_labels[1:], data.repeated_labels[0]]
    predictions = [
        wrong[row] if row % 11 == 0 else label for row, label in enumerate(data.repeated_labels)
    ]
    options = {"texts": data.repeated, "random_state": 0, "repeats": repeats, **options}
    return certify_predictions(data.repeated_labels, predictions, **options)


def _of_sets(**options):
    data = Data()
    options = {"classes": ["food", "money", "travel"], "random_state": 0, **options}
    return certify_predictions(data.sets, data.predicted_sets, **options)


def _of_a_function():
    data = Data()

    def names_food(texts):
        return ["food" if "soup" in text else label for text, label in zip(texts, data.predictions)]

    return certify(names_food, data.texts, data.labels, per_class=True, random_state=0)


def _of_checked_labels(**options):
    data = Data()
    texts = [f"{text} number {copy}" for copy in range(4) for text in data.texts]
    right, machine = data.labels * 4, data.predictions * 4

    def answer(row, text):
        return None if row % 97 == 0 else right[row]

    scores = [row % 13 + 20 * (a == b) for row, (a, b) in enumerate(zip(right, machine))]
    checked = check_labels(texts, machine, scores, ask=answer, random_state=0, **options)
    return checked.certificate


def _of_vectors():
    """Pairs of vectors with exact lengths, so that every machine finds the same cosines."""
    from pacsent.sentences.distillation_certificate import measure_fidelity

    pairs = [(3, 4), (4, 3), (5, 12), (12, 5), (8, 15), (15, 8)]
    own = [pairs[row % 6] for row in range(90)]
    teacher = [pairs[(row + row % 4) % 6] for row in range(90)]
    return measure_fidelity(np.array(own), np.array(teacher), teacher="pairs")


# Each is made of labels and predictions alone, with nothing fitted.
CERTIFICATES = {
    "error": lambda: _of_predictions(),
    "error-without-texts": lambda: _of_predictions(texts=None),
    "error-candidates": lambda: _of_predictions(n_candidates=5, delta=0.01),
    "error-per-class": lambda: _of_predictions(recall="all", precision="all"),
    "error-one-class": lambda: _of_predictions(recall=["food"], precision=["money"]),
    "error-groups": lambda: _of_predictions(groups=Data().groups),
    "error-few-groups": lambda: _of_predictions(groups=[row % 4 for row in range(300)]),
    "error-batch": lambda: _of_predictions(slice(100), unlabelled=200),
    "error-judge": lambda: _with_judge(),
    "error-judge-simultaneous": lambda: _with_judge(simultaneous=True),
    "error-repeats-unknown": lambda: _of_repeats(None),
    "error-repeats-unknown-per-class": lambda: _of_repeats(None, recall="all", precision="all"),
    "error-repeats-traffic": lambda: _of_repeats("traffic"),
    "error-repeats-copies": lambda: _of_repeats("copies"),
    "error-of-a-function": _of_a_function,
    "multilabel": lambda: _of_sets(),
    "multilabel-texts": lambda: _of_sets(texts=Data().texts, n_candidates=2),
    "multilabel-groups": lambda: _of_sets(groups=Data().groups),
    "stream": lambda: certify_stream(np.arange(200) % 20 == 7, n_training=100, n_duplicates=3),
    "label-check": lambda: _of_checked_labels(),
    "label-check-candidates": lambda: _of_checked_labels(error=0.1, n_candidates=2),
    "fidelity": _of_vectors,
}


# ---- certificates of encoders --------------------------------------------------------------------


def certified_texts(name: str):
    """The texts and the encoder that a certificate of an encoder is about."""
    words = pacsent.load(STORED / "models" / "words")
    n_texts = 200 if name == "encoder-heuristics" else 300
    return Data().texts[:n_texts], make_encoder("Average", words, n_jobs=1)


def _of_encoder(kind, **options):
    texts, encoder = certified_texts("encoder")
    return certify_encoder(encoder, texts, kind=kind, random_state=0, test_size=0.2, **options)


def _of_heuristics():
    texts, encoder = certified_texts("encoder-heuristics")
    return certify_heuristics(encoder, texts, reference=Data().texts[200:], random_state=0)


# Stored and verified with the texts and the encoder, which measures everything again.
ENCODER_CERTIFICATES = {
    "encoder-continuation": lambda: _of_encoder("continuation"),
    "encoder-words": lambda: _of_encoder("A"),
    "encoder-documents": lambda: _of_encoder("B", posterior="prior"),
    "encoder-squared": lambda: _of_encoder("C"),
    "encoder-heuristics": _of_heuristics,
}

# ---- statements that are no certificates ---------------------------------------------------------


def statements() -> dict:
    """Comparisons and thresholds from given labels and scores."""
    data = Data()

    def first(texts):
        return data.predictions[:40]

    def second(texts):
        return data.judge[:40]

    has = np.tile(_indicator()[:150].astype(bool), (2, 1))
    scores = (has * 0.6 + (np.arange(600).reshape(300, 2) * 37 % 40) / 100).clip(0, 1)
    found = {
        "compare": str(compare(first, second, data.texts[:40], data.labels[:40], random_state=0)),
        "compare repeats": str(
            compare(first, second, data.repeated[:40], data.repeated_labels[:40], random_state=0)
        ),
        "false negatives": str(control_risk(has, scores, false_negatives=0.2, random_state=0)),
        "false discoveries": str(control_risk(has, scores, false_discoveries=0.3, random_state=0)),
    }
    return as_json(found)


# ---- what is held out ----------------------------------------------------------------------------


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


def _split(texts, labels, *, groups=None, judge=None, **options):
    certified = CertifiedClassifier(Recorder(), **{"random_state": 0, **options})
    weights = np.arange(len(texts)) + 2
    certified.fit(texts, labels, sample_weight=weights, groups=groups, judge=judge)
    return {
        "training rows": certified.estimator_.rows_.tolist(),
        "certificate": _without_version(certified.certificate_.to_dict()),
        "levels of prediction sets": as_json(certified.prediction_set_thresholds(error=0.3)),
        "answers": as_json(certified.abstain(error=0.4).threshold),
        "planning labels": certified.out_of_fold_.labels.tolist(),
        "members": {k: v.sum().item() for k, v in certified.calibration_.members.items()},
    }


def _without_version(values):
    return {name: value for name, value in values.items() if name != "pacsent_version"}


def _plain_split(**options):
    return _split(Data().texts, Data().labels, **options)


def _repeated_split(**options):
    return _split(Data().repeated, Data().repeated_labels, **options)


SPLITS = {
    "no repeats": lambda: _plain_split(),
    "another seed": lambda: _plain_split(random_state=1),
    "a fraction": lambda: _plain_split(calibration_size=0.25),
    "repeats unknown": lambda: _repeated_split(),
    "repeats unknown, more than half": lambda: _repeated_split(calibration_size=0.6),
    "repeats traffic": lambda: _repeated_split(repeats="traffic"),
    "repeats copies": lambda: _repeated_split(repeats="copies"),
    "groups": lambda: _plain_split(groups=Data().groups),
    "few groups": lambda: _plain_split(groups=[row % 4 for row in range(300)]),
    "machine labels": lambda: _split(
        Data().texts[:150],
        Data().labels[:150],
        judge=(Data().texts[150:], Data().predictions[150:]),
    ),
    "machine labels, repeats unknown": lambda: _split(
        Data().repeated[:150],
        Data().repeated_labels[:150],
        judge=(Data().texts[150:], Data().predictions[150:]),
    ),
}


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

    trainer = SkipGram(4, n_epochs=4, min_count=2, n_jobs=1, random_state=0, subsample=1e-2)
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
            session.answer(row, None if count % 13 == 5 else data.labels[row], who)
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
