"""One served model: an encoder, a classifier, an index, certificates."""

import json
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pacsent.certify import Certificate, read_certificate
from pacsent.classify import TextClassifier
from pacsent.predict import CertifiedClassifier, abstaining
from pacsent.search import Index, SearchCertificate
from pacsent.sentences import SentenceVectorizer, as_encoder
from pacsent.text.encoded import Encoded
from pacsent.web.drift import ClientMonitors
from pacsent.web.together import Together

_WORD = re.compile(r"\w+")
_SCRIPT_RUNS = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]+")  # ASCII, and everything else
_MAX_RULES = 64  # error rates whose thresholds are cached


class Posteriors(NamedTuple):
    """Posteriors of texts, and how many of their words the model knows."""

    means: np.ndarray  # (n, n_dims)
    variances: np.ndarray  # (n,)
    n_known: np.ndarray  # (n,)
    n_unknown: np.ndarray  # (n,)


class _OpenVocabulary:
    """The vocabulary of an external encoder: every word is known."""

    def tokens(self, text: str) -> list[str]:
        return _WORD.findall(text)

    def encode(self, texts: Sequence) -> Encoded:
        """Token ids, all of them 0, of texts or of lists of words."""
        n_words = []
        for text in texts:
            words = self.tokens(text) if isinstance(text, str) else text
            n_words.append(len(words))
        ends = np.cumsum(n_words, dtype=np.int64)
        offsets = np.concatenate([[0], ends])  # (n + 1,)
        ids = np.zeros(offsets[-1], np.int32)
        n_unknown = np.zeros(len(texts), np.int64)
        return Encoded(ids, offsets, n_unknown)


def _answer_rule(
    classifier: Any, error: float | None, delta: float | None
) -> abstaining.AnswerRule:
    return abstaining.AnswerRule(classifier, error=error, delta=delta)


def _answer_together(rule: abstaining.AnswerRule) -> Together:
    return Together(rule.answer_each)


class ServedModel:
    """The models that answer requests with one value of `model`.

    The arguments are not changed. Every certificate is verified; those of the classifier, the index
    and the encoder are added to the given ones.

    Parameters
    ----------
    name : str
        The name in requests and responses.
    encoder : encoder, optional
        Whatever `as_encoder` takes; for vectors, posteriors and reranking.
    classifier : TextClassifier or CertifiedClassifier, optional
        For classes; one with a calibration set answers with guarantees.
    index : Index, optional
        For search.
    certificates : sequence of Certificate
        Further certificates to describe.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> model = ServedModel("english", make_encoder("SIF-sum", "english"))
    >>> model.posteriors(["a glass of wine"]).means.shape
    (1, 256)
    """

    def __init__(
        self,
        name: str,
        encoder: Any = None,
        classifier: TextClassifier | CertifiedClassifier | None = None,
        index: Index | None = None,
        certificates: Sequence[Certificate] = (),
    ) -> None:
        self.name = name
        self.encoder: Any = None if encoder is None else as_encoder(encoder)
        self.classifier: Any = classifier
        self.index: Any = index
        self.explainer: Any = classifier
        # when the classifier answers, and its prediction sets, for error and delta
        self.answer_rule = lru_cache(_MAX_RULES)(partial(_answer_rule, classifier))
        self._together = lru_cache(_MAX_RULES)(_answer_together)
        # drift monitors; None for a classifier without a calibration set
        self.drift: ClientMonitors | None = None
        if isinstance(classifier, CertifiedClassifier):
            self.explainer = classifier.estimator_
            self.drift = ClientMonitors(classifier)
        self._solve: Any = None  # from token ids to posteriors, for encoders with word vectors
        self._vocabulary: Any = _OpenVocabulary()
        self._encode = self._vocabulary.encode
        if self.encoder is not None:
            self._prepare_encoder()

        self.certificates = list(certificates)
        if isinstance(classifier, CertifiedClassifier):
            self.certificates.append(classifier.certificate_)
        if index is not None and index.certificate_ is not None:
            self.certificates.append(index.certificate_)
        if self.encoder is not None and self.encoder.certificate_ is not None:
            self.certificates.append(read_certificate(self.encoder.certificate_))
        for certificate in self.certificates:
            certificate.verify()

    def _prepare_encoder(self) -> None:
        if isinstance(self.encoder, SentenceVectorizer):
            if not self.encoder.is_fitted:
                self.encoder = clone(self.encoder).fit([])
            self._solve = self.encoder.prepared()
        self.n_dims = self.encoder.n_dims

        # Words are those of the first part that has word vectors.
        for part in self.encoder.parts:
            if part.word_vectors is not None:
                self._vocabulary = part.word_vectors.vocabulary
                self._encode = partial(self._vocabulary.encode, n_jobs=1)
                break

    def posteriors(self, texts: Sequence) -> Posteriors:
        """Compute the posteriors of texts.

        Parameters
        ----------
        texts : sequence of n str, or of n lists of words

        Returns
        -------
        posteriors : Posteriors
            With means of shape (n, n_dims).
        """
        encoded = self._encode(texts)
        if self._solve is not None:
            means, variances = self._solve(encoded)
        else:
            joined = [text if isinstance(text, str) else " ".join(text) for text in texts]
            means, variances = self.encoder.posterior(joined)
        n_known = np.diff(encoded.offsets)
        return Posteriors(means, variances, n_known, encoded.n_unknown)

    def answer(self, rule: abstaining.AnswerRule, texts: list[str]) -> abstaining.Answered:
        """Classify texts, together with those of other threads.

        Parameters
        ----------
        rule : AnswerRule
            One that `answer_rule(error, delta)` returned.
        texts : list of n str

        Returns
        -------
        answers : Answered
            A row for each text.
        """
        return self._together(rule)(texts)

    def n_tokens(self, texts: list[str]) -> int:
        """Return the number of words in all texts.

        Parameters
        ----------
        texts : list of str

        Returns
        -------
        int
        """
        if self.encoder is None:
            return sum(len(_WORD.findall(text)) for text in texts)
        encoded = self._encode(texts)
        return encoded.ids.size + int(encoded.n_unknown.sum())

    def words(self, text: str) -> list[str]:
        """Return the words of a text as the vocabulary reads them.

        Letters that the vocabulary's tokens omit, such as those of other scripts, are words too:
        the model does not know them.

        Parameters
        ----------
        text : str

        Returns
        -------
        words : list of str
        """
        words: list[str] = []
        for piece in text.split():
            tokens = list(self._vocabulary.tokens(piece))
            n_read = sum(map(len, tokens))  # characters
            n_alphanumeric = sum(map(str.isalnum, piece))
            if piece.isascii() or n_read >= n_alphanumeric:
                words += tokens
                continue
            for run in _SCRIPT_RUNS.findall(piece):
                run_tokens = list(self._vocabulary.tokens(run))
                if run_tokens:
                    words += run_tokens
                elif any(map(str.isalnum, run)):
                    words.append(run)
        return words

    def is_known(self, words: list[str]) -> list[bool]:
        """Return for each word whether the model knows it, by itself or by its subwords.

        Parameters
        ----------
        words : list of str

        Returns
        -------
        list of bool
        """
        encoded = self._encode([[word] for word in words])
        n_known = np.diff(encoded.offsets)  # (n_words,)
        return (n_known > 0).tolist()

    def description(self) -> dict[str, Any]:
        """Return the model's properties, for /v1/models.

        Returns
        -------
        dict
            Class, method, dimensions and words of the encoder; the classes of the classifier;
            the number of texts of the index.
        """
        about: dict[str, Any] = {"class": None}
        if self.encoder is not None:
            about["class"] = type(self.encoder).__name__
            about["method"] = self.encoder.method_name
            about["dimensions"] = self.n_dims
            if self._solve is not None:
                about["words"] = self.encoder.word_vectors.n_words
        if self.classifier is not None:
            classes = self.classifier.classes_.tolist()
            about["classes"] = [str(label) for label in classes]
        if self.index is not None:
            about["texts"] = len(self.index)
        return about

    def describe_certificates(self) -> list[dict[str, Any]]:
        """Describe each certificate: its subject, its sentence, and its numbers.

        Returns
        -------
        descriptions : list of dict
            For /certificates.
        """
        described = []
        for certificate in self.certificates:
            numbers = json.loads(certificate.to_json())
            about, subject = self._subject_of(certificate, numbers)
            described.append(
                {
                    "model": self.name,
                    "about": about,
                    "subject": subject,
                    "in_words": certificate.details(),
                    "certificate": numbers,
                }
            )
        return described

    def _subject_of(self, certificate: Certificate, numbers: dict[str, Any]) -> tuple[str, str]:
        """The part of the model that a certificate is about, and its description."""
        if isinstance(certificate, SearchCertificate):
            return "index", f"Search among {certificate.n_texts:,} texts"

        encoder = numbers.get("encoder") or numbers.get("teacher")
        if encoder:
            class_name, _, _ = encoder.partition("(")
            return "encoder", f"Sentence vectors of {class_name}"

        labels = [] if self.classifier is None else self.classifier.classes_.tolist()
        shown = [*map(str, labels[:5]), "..."]
        shown_labels = ", ".join(shown[: len(labels)])
        return "classifier", f"Classifier with the classes {shown_labels}"

    def warm_up(self) -> "ServedModel":
        """Do everything once, so that no request waits for compilation.

        Returns
        -------
        self : ServedModel
        """
        texts = ["warm water", "", "naïve — 東京"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.encoder is not None:
                self.posteriors(texts)
                self.posteriors(texts[:1])
            if self.classifier is not None:
                self.classifier.predict_log_proba(texts)
                self.explainer.explain(texts[0])
            if self.index is not None:
                self.index.search(texts, 1)
        return self
