"""TextClassifier: n-grams and sentence vectors in one linear model, for any number of labels."""

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, lru_cache, partial
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from pacsent import registry
from pacsent.bounds.checks import check_count
from pacsent.bounds.rounding import format_count
from pacsent.certify.columns import materialize, sample_weights, warn_caller
from pacsent.certify.labels import Labels, LabelSets, as_labels, class_index
from pacsent.certify.near_duplicates import sketches, text_units
from pacsent.certify.scores import log_probabilities
from pacsent.classify import classifier_state, fitting, multilabel
from pacsent.classify.diagnostics import Diagnostics, report
from pacsent.classify.explanation import Explanation, explain, named_features
from pacsent.classify.options import apply_class_weight, as_ngram_sizes, as_scales
from pacsent.parameter_checks import StrOptions, check_parameters, fit_context
from pacsent.sentences import SentenceVectorizer, make_encoder
from pacsent.sentences.external_encoders import ConcatenatedEncoder, as_encoder, is_stored
from pacsent.storage import State, is_model_name, load
from pacsent.text.ngrams import (
    NGrams,
    fingerprints,
    nonempty_rows,
    unknown_shares,
    word_hashes,
    word_keys,
)
from pacsent.text.pages import render
from pacsent.text.texts import as_sentences, as_texts
from pacsent.threads import in_order, n_threads
from pacsent.words.vectors import WordVectors

_MAX_NAMED = 200  # features per class whose names are kept
_BATCH_TEXTS = 1000  # few enough that encoders start no threads inside those of the batches
_MIN_TEXTS_FOR_PRUNING = 5_000  # from this number of texts on, an n-gram must occur in two of them
# From this number of texts, and characters per text, on, trigrams of words are features.
_MIN_TEXTS_FOR_TRIGRAMS, _MIN_LENGTH_FOR_TRIGRAMS = 5_000, 600
# A text is answered if at least this fraction of its words are known, by the training texts or as
# one of the most frequent words of the encoder (benchmarks/drift.py, "coverage": at most 0.1% of
# the texts of four sets have less; most texts of other languages do).
_MIN_COVERAGE = 0.4
N_COMMON_WORDS = 20_000
# The threshold is at most half of this quantile of the training texts' coverage by other texts.
_USUAL_COVERAGE_QUANTILE = 0.1


@dataclass(eq=False, repr=False)
class TextClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by their n-grams and by their sentence vectors, together.

    With `encoder=None` it needs no model of the language: a script without spaces between words
    (Chinese, Japanese, Thai) gives n-grams of characters.

    One linear model on the tf-idf of n-grams, unweighted or weighted by naive Bayes' log-ratios,
    together with sentence vectors. All candidates are solved together on folds of the training
    labels, and the best are averaged. With few labels, a Gaussian process, averaged over its scales
    with the evidence as weights, counts as much as these. Probabilities are calibrated on held-out
    texts. `pacsent.CertifiedClassifier` adds guarantees.

    Parameters
    ----------
    encoder : WordVectors, encoder, path, URL, a list of these, or None, default="english"
        Vectors for the dense part (or the folder they are in, or "english" for those that are
        installed), or anything that `pacsent.sentences.as_encoder` takes: a method of pacsent, an
        object with `encode`, a function. Those of a list are put side by side. None: n-grams only,
        for texts in other languages; it costs accuracy where labels are few.
    method : str, default="Average"
        Method of `list_encoders()` that makes sentence vectors from word vectors. If they come with
        an encoder of sentences, as "english" does, its vectors are put beside these.
    ngrams : (int, int) or "auto", default="auto"
        Smallest and largest number of words in a row that make a feature. "auto" takes up to two,
        and up to three where there are at least 5,000 texts of 600 letters or more on average.
    weighting : {"auto", "tf-idf", "naive-bayes", "both"}, default="auto"
        How n-grams are weighted with many labels; "auto" tries all.
    selection : {"auto", "evidence", "folds"}, default="auto"
        How scales are chosen: by the evidence of a Gaussian process, or by accuracy on folds.
        "auto" takes folds with many labels, the mean of evidence and folds with few, evidence alone
        below 80.
    Cs, dense_scales : tuples of float
        Candidates: weight of the labels, and scale of the vectors relative to the n-grams.
    class_weight : dict, "balanced" or None, default=None
    characters : (int, int) or None, default=(2, 5)
        Smallest and largest number of characters in a row, inside a word or at its edges, that are
        features of a second model, for inflected and misspelt words. Its share in the decision,
        from none to all, is the one with the least loss on texts left out, and none unless the
        loss is clearly lower (`selection_["character_weight"]`). It is larger for a text with more
        OOV words than nine in ten training texts have: words of no other training text and of
        no vocabulary of `encoder`. None: no second model. Unused with several labels per text.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it: the same texts in the
        same order give the same classifier.

    Attributes
    ----------
    classes_ : array
    selection_ : dict
        What was tried and chosen, and on how many texts.
    target_type_ : {"classes", "sets", "indicator"}
        Whether texts have one class each, a set of labels, or a row of an indicator matrix.
    thresholds_ : array
        With several labels per text, the probability from which on each is given: between the one
        with its best F1 and one for all labels, chosen by F1 on texts left out.
    out_of_fold_ : OutOfFold
        `log_proba` and `labels` of training texts, predicted by models not fitted on them.
    min_coverage_ : float
        Fraction of its words that must be known for `CertifiedClassifier` to answer a text: see
        `are_covered`.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 3
    >>> classifier = TextClassifier().fit(texts, ["yes", "yes", "no", "no"] * 3)
    >>> classifier.predict(["good", "bad"])
    array(['yes', 'no'], dtype='<U3')

    Texts of a language without word vectors:

    >>> reviews = ["味道很好", "很好吃", "太难吃了", "不新鲜"] * 3
    >>> TextClassifier(None).fit(reviews, ["good", "good", "bad", "bad"] * 3).predict(["真好吃"])
    array(['good'], dtype='<U4')

    Several labels per text:

    >>> labels = [{"good", "film"}, {"good"}, {"film"}, set()] * 3
    >>> TextClassifier(None).fit(texts, labels).predict(["a good film", "really bad"])
    [('film', 'good'), ()]
    """

    encoder: Any = "english"
    _: KW_ONLY
    method: str = "Average"
    ngrams: str | tuple[int, int] = "auto"
    weighting: str = "auto"
    selection: str = "auto"
    Cs: Sequence[float] = fitting.CS
    dense_scales: Sequence[float] = fitting.DENSE_SCALES
    class_weight: str | dict | None = None
    characters: tuple[int, int] | None = (2, 5)
    n_jobs: int | None = None

    kind: ClassVar[str] = "TextClassifier"
    only_texts: ClassVar[bool] = True  # rows are texts, never arrays or tables of numbers
    _parameter_constraints: ClassVar[dict] = {
        "encoder": "no_validation",  # by `as_encoder`, which takes anything that encodes texts
        "method": [str],
        "ngrams": [tuple, list, StrOptions({"auto"})],
        "weighting": [StrOptions({"auto", *fitting.WEIGHTINGS})],
        "selection": [StrOptions({"auto", "evidence", "folds"})],
        "Cs": [tuple, list],
        "dense_scales": [tuple, list],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "characters": [tuple, list, None],
        "n_jobs": [Integral, None],
    }

    # ---- fitting -------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Iterable[str],
        y: Sequence,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
    ) -> "TextClassifier":
        """Learn from labelled texts.

        Parameters
        ----------
        X : iterable of str
        y : array of str or int, one for each text
            Or a set (list, tuple) of labels for each text, or an indicator matrix: a table of 0
            and 1 with a column for each label.
        sample_weight : array, optional
            How much each text counts.
        groups : array, one for each text, optional
            The book, the author, the day a text is from, where new texts will be of other groups:
            texts of a group are left out together in cross-validation.
        """
        # On a copy that takes the place of self at the end: a rejected fit changes nothing.
        texts, new = as_texts(X), copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        new._fit(texts, y, sample_weight, groups)
        self.__dict__ = new.__dict__
        return self

    def _fit(self, texts, labels, sample_weight, groups):
        weightings = fitting.WEIGHTINGS if self.weighting == "auto" else (self.weighting,)
        candidates = fitting.Candidates(
            as_scales(self.Cs, "Cs"),
            as_scales(self.dense_scales, "dense_scales"),
            weightings,
        )
        refuse_sets = None
        if self.class_weight is not None or self.selection == "evidence":
            refuse_sets = (
                "With several labels per text, class_weight must be None and selection auto or "
                f"folds. Got {self.class_weight!r} and {self.selection!r} instead."
            )
        labels = Labels.parse(materialize(labels), len(texts), refuse_sets=refuse_sets)
        weights = sample_weights(sample_weight, len(texts))
        labels = labels.with_groups(groups)

        rows = nonempty_rows(texts)
        if rows.size == 0:
            rows = np.arange(len(texts))
        elif rows.size < len(texts):
            warn_caller(f"{format_count(len(texts) - rows.size, 'empty text')} left out.")
        rows, labels = labels.learnable(rows)
        texts = [texts[row] for row in rows]
        weights = weights[rows]
        classes, y = labels.classes, labels.encoded
        if not labels.is_multilabel:
            weights = apply_class_weight(weights, self.class_weight, classes, y)

        self.target_type_ = labels.target_type
        self.classes_ = classes
        together = labels.groups, text_units(texts)

        are_long = sum(map(len, texts)) >= _MIN_LENGTH_FOR_TRIGRAMS * len(texts)
        auto = (1, 3) if are_long and len(texts) >= _MIN_TEXTS_FOR_TRIGRAMS else (1, 2)
        self.ngrams_ = self._count(texts, as_ngram_sizes(self.ngrams) or auto)
        if len(self.ngrams_) == 0:
            raise ValueError(
                "texts must have words. Got no word in any of them instead. Check which column "
                "holds the text."
            )
        X, lengths = self.ngrams_.tf_idf_and_lengths(texts, n_threads(self.n_jobs))
        # Vectors are centred and scaled to a mean square of 1.
        self.encoder_ = self._make_encoder(texts)
        E = self.dense_features(texts)
        mean = E.mean(axis=0, dtype=np.float64)
        E = E - mean.astype(np.float32)
        scale = np.sqrt(max(float((E.astype(np.float64) ** 2).sum(axis=1).mean()), 1e-30))
        E = np.ascontiguousarray(E * np.float32(1.0 / scale))

        rows = fitting.Labelled(X, E, y, self.classes_.size, weights)
        self.min_coverage_ = self._choose_min_coverage(texts, X, together)
        linear = self._solve(rows, candidates, *together)
        self.characters_ = NGrams((1, 1), np.zeros(0), np.zeros(0), characters=True)
        if self.characters is not None and not labels.is_multilabel:
            linear = self._with_characters(texts, rows, linear, candidates, together)
        self._keep(linear, mean, scale)
        self.selection_["n_texts"] = len(texts)
        self.named_features_ = named_features(self, texts, float(lengths.mean()), mean, _MAX_NAMED)
        self.training_fingerprints_ = np.unique(fingerprints(texts))
        has_all_pairs = self.ngrams_.sizes == (1, 2) and len(texts) < _MIN_TEXTS_FOR_PRUNING
        self.training_sketches_ = sketches(texts, (self.ngrams_, X) if has_all_pairs else None)

    def _count(self, texts, sizes, characters=False):
        min_texts = 2 if len(texts) >= _MIN_TEXTS_FOR_PRUNING else 1
        how = {"min_texts": min_texts, "n_threads": n_threads(self.n_jobs)}
        return NGrams.of(texts, sizes, characters=characters, **how)

    def _make_encoder(self, texts):
        return None if self.encoder is None else self._as_encoder(self.encoder).fit(texts)

    def _as_encoder(self, encoder):
        if isinstance(encoder, list | tuple) and not is_stored(encoder):
            return ConcatenatedEncoder([self._as_encoder(part) for part in encoder])
        if isinstance(encoder, str | Path) and is_model_name(encoder):
            encoder = _english() if encoder == "english" else load(encoder)
        if isinstance(encoder, WordVectors):
            averages = make_encoder(self.method, encoder, on_empty="ignore", n_jobs=self.n_jobs)
            averages.set_known_params(random_state=fitting.FOLD_SEED)
            if encoder.sentences is None:
                return averages
            distilled = clone(encoder.sentences).set_params(on_empty="ignore", n_jobs=self.n_jobs)
            if encoder.counts is None:  # static embeddings of another program
                return distilled
            return ConcatenatedEncoder([averages, distilled])
        if isinstance(encoder, SentenceVectorizer):
            return clone(encoder).set_params(on_empty="ignore")
        return as_encoder(encoder)

    def _solve(self, rows, candidates, groups, copies):
        threads = n_threads(self.n_jobs)
        how = candidates, threads, groups, copies
        if self.target_type_ != "classes":
            linear, self.thresholds_, self.min_labels_ = multilabel.fit(rows, *how)
            return linear
        few = fitting.is_few(len(rows.labels), rows.n_classes)
        if self.selection == "folds" or not (few or self.selection == "evidence"):
            return fitting.fit_by_folds(rows, *how)
        rng = np.random.default_rng(fitting.FOLD_SEED)
        folds = fitting.folds_for(rows.labels, rng, groups, copies)
        distinct = fitting.distinct_texts(rows.labels, copies)[0].size / len(rows.labels)
        grouped = groups is not None or distinct < fitting.MIN_DISTINCT_FRACTION
        if self.selection == "evidence" or len(rows.labels) < fitting.MIN_FOLD_TEXTS:
            return fitting.fit_by_evidence(rows, threads, folds if grouped else None)
        return fitting.fit_by_both(rows, candidates, threads, folds, grouped)

    def _with_characters(self, texts, rows, linear, candidates, together):
        """`linear` averaged with the same model on n-grams of characters."""
        sizes = as_ngram_sizes(self.characters, "characters")
        ngrams = self._count(texts, sizes, characters=True)
        if len(ngrams) == 0:
            return linear
        X, E = ngrams.tf_idf(texts, n_threads(self.n_jobs)), np.zeros((len(texts), 0), np.float32)
        candidates = dataclasses.replace(candidates, weightings=("tf-idf",))
        of_characters = self._solve(dataclasses.replace(rows, X=X, E=E), candidates, *together)

        # The fraction of each text's words that no text of another group, no text that is not a
        # copy, and no encoder contains; None if the encoder does not list its words.
        oov_rates, of_encoder = None, self._encoder_words()
        if of_encoder is not None and self.ngrams_.sizes[0] == 1:
            known = self._words_of_several(rows.X, together)
            oov_rates = unknown_shares(texts, (known, of_encoder))
        combined = fitting.with_characters(linear, of_characters, rows, oov_rates)
        if combined.characters is not None:
            self.characters_ = ngrams
        return combined

    def _words_of_several(self, X, together):
        """Keys of the n-grams that occur in several groups, or in texts that are no copies."""
        groups, copies = together
        clusters = copies if groups is None else groups
        columns, n_columns = X.indices, X.shape[1]
        if np.unique(clusters).size < clusters.size:
            cells = np.repeat(clusters.astype(np.int64), np.diff(X.indptr)) * n_columns
            columns = np.unique(cells + columns) % n_columns
        n_clusters = np.bincount(columns, minlength=n_columns)
        return word_keys(self.ngrams_.hashes[n_clusters > 1])

    def _choose_min_coverage(self, texts, X, together):
        """The least coverage with which a text is answered; 0 where one word is enough.

        It is smaller than `_MIN_COVERAGE` for training texts in a language, or of a kind, of which
        the encoder knows few words.
        """
        common = self._encoder_words(N_COMMON_WORDS)
        if self.encoder_ is None or common is None or self.ngrams_.sizes[0] > 1:
            return 0.0
        of_others = 1.0 - unknown_shares(texts, (self._words_of_several(X, together), common))
        usual = float(np.quantile(of_others, _USUAL_COVERAGE_QUANTILE))
        return min(_MIN_COVERAGE, usual / 2)

    def _keep(self, linear, mean, scale):
        """The weights of the model, for vectors that are neither centred nor scaled."""
        self.coef_ngrams_ = np.ascontiguousarray(linear.sparse, np.float32)
        self.coef_dense_ = np.ascontiguousarray(linear.dense / scale, np.float32)
        self.intercept_ = linear.intercept - mean @ self.coef_dense_.astype(np.float64)
        self.mean_vector_ = mean
        k = self.intercept_.size
        no_characters = np.zeros((0, k)), np.zeros(k), fitting.CharacterWeight()
        coef, intercept, self.character_weight_ = linear.characters or no_characters
        self.coef_characters_ = np.ascontiguousarray(coef, np.float32)
        self.intercept_characters_ = np.asarray(intercept, np.float64)
        self.inverse_temperature_ = np.array(linear.report.get("inverse_temperature", [1.0]))
        self.selection_ = dict(linear.report)
        self.out_of_fold_ = self.selection_.pop("out_of_fold")
        parts = self.coef_ngrams_, self.coef_characters_, self.coef_dense_, self.intercept_
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError(
                "The weights that were fitted must be finite. They are not: sample_weight, "
                "class_weight, Cs, dense_scales or the word vectors are too large or too small."
            )

    # ---- predicting ----------------------------------------------------------------------------

    def dense_features(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of the texts by the sentence encoder, (n, n_dims)."""
        if self.encoder_ is None:
            return np.zeros((len(texts), 0), np.float32)
        return np.asarray(self.encoder_.transform(texts), np.float32)

    def decision_values(self, X: Iterable[str]) -> np.ndarray:
        """Values of the linear model; one column for two classes or numbers, (n, n_columns)."""
        pieces = list(self.stream(X))
        return np.concatenate(pieces) if pieces else np.zeros((0, self.intercept_.size))

    def stream(self, X: Iterable[str]) -> Iterator[np.ndarray]:
        """`decision_values` in batches, in constant memory; X may be a generator."""
        check_is_fitted(self)
        X = iter(as_sentences(X, "texts"))

        def work(batch):
            shares, values, other = self._by_characters(batch)
            values += self.dense_features(batch) @ self.coef_dense_ + self.intercept_
            values += shares[:, None] * (other - values)
            return values

        batches = iter(lambda: as_texts(list(islice(X, _BATCH_TEXTS))), [])
        return in_order(work, batches, self.n_jobs)

    def _by_characters(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weight of the character model, and decision values of the word and the character model.

        (n_texts,) and (n_texts, n_columns). The weight of a text does not rise with its OOV rate
        where its characters are unknown as well.
        """
        share, known = self.character_weight_, self._encoder_words()
        if known is None or share.usual == 1.0:
            known = np.empty(0, np.uint64)
        of_words, unknown = self.ngrams_.scores_and_unknown(texts, self.coef_ngrams_, known)
        shares, values = share.of(unknown), np.zeros_like(of_words)
        rows = np.flatnonzero(shares)
        if rows.size:
            values[rows] = self.characters_.scores([texts[i] for i in rows], self.coef_characters_)
            shares[rows[~values[rows].any(axis=1)]] = share.least
        return shares, of_words, values + self.intercept_characters_

    def _encoder_words(self, n_words: int | None = None) -> np.ndarray | None:
        """The words that the encoder knows, for `unknown_shares`; None where they are not known.

        With `n_words` only that number of each vocabulary: the first ones, the most frequent.
        """
        parts = () if self.encoder_ is None else self.encoder_.parts
        all_words = [part.word_vectors for part in parts]
        if any(words is None for words in all_words):
            return None
        return _known_words(*(words.vocabulary for words in all_words), n_words=n_words)

    def decision_function(self, X: Iterable[str]) -> np.ndarray:
        """Log-odds of the second of two classes, (n,); one value for each of many, (n, k)."""
        values = self.decision_values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Iterable[str]) -> np.ndarray | list[tuple]:
        """The likeliest class of each text; with several labels per text, a tuple of them for each.

        After an indicator matrix, an indicator matrix.

        A label is given where its probability reaches `thresholds_`. Where every training text had
        a label, a text that reaches none gets the one that comes nearest.
        """
        check_is_fitted(self)
        if self.target_type_ == "classes":
            return self.classes_[fitting.predicted(self.decision_values(X))]
        given = self.assign_labels(self.predict_proba(X))
        return multilabel.as_given(given, self.classes_, self.target_type_)

    def assign_labels(self, proba: np.ndarray) -> np.ndarray:
        """Which labels are given at these probabilities, (n, n_labels) of bool."""
        return multilabel.given_labels(proba, self.thresholds_, self.min_labels_)

    def predict_with_scores(self, X: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """(labels, logarithms of `predict_proba`) in one pass; multi-label an indicator matrix."""
        log_proba = self.predict_log_proba(X)
        if self.target_type_ != "classes":
            return self.assign_labels(np.exp(log_proba)), log_proba
        return self.classes_[log_proba.argmax(axis=1)], log_proba

    def has_no_features(self, log_proba: np.ndarray) -> np.ndarray:
        """Which texts have no known n-gram and only OOV words, by their log-probabilities, (n,).

        Their decision values are the intercepts alone.
        """
        more = self.intercept_characters_ - self.intercept_
        intercept = self.intercept_ + self.character_weight_.least * more
        alone = log_probabilities(intercept[None, :], self.inverse_temperature_)
        return np.isclose(log_proba, alone, rtol=1e-12, atol=1e-12).all(axis=1)

    @property
    def lists_words(self) -> bool:
        """Whether it can say which words it knows: those of n-grams, and of the encoder if any."""
        return self.ngrams_.sizes[0] == 1 and self._encoder_words() is not None

    def coverage(self, X: Iterable[str]) -> np.ndarray:
        """The fraction of each text's words that the classifier knows, (n,).

        Known are the words of training texts, and the most frequent 20,000 words of the encoder:
        its rarer ones include words of other languages. 1 for a text without words.
        """
        check_is_fitted(self)
        common = self._encoder_words(N_COMMON_WORDS)
        known = [self.ngrams_.keys] if common is None else [self.ngrams_.keys, common]
        return 1.0 - unknown_shares(as_texts(X), known)

    def are_covered(self, X: Iterable[str]) -> np.ndarray:
        """Whether the classifier knows enough words of each text to answer it, (n,) of bool.

        At least `min_coverage_` of them if there is an encoder that lists its words: 0.4, or less
        if it knows few words of the training texts. Without an encoder, one word or one n-gram of
        characters. All texts are covered if the encoder does not list its words, or if the n-grams
        have no single words.
        """
        texts = as_texts(X)
        if not self.lists_words:
            return np.ones(len(texts), bool)
        fractions = self.coverage(texts)
        if self.encoder_ is not None:
            return fractions >= self.min_coverage_
        is_covered = fractions > 0
        rows = np.flatnonzero(~is_covered)
        if rows.size and len(self.characters_):
            values = self.characters_.scores([texts[i] for i in rows], self.coef_characters_)
            is_covered[rows] = values.any(axis=1)
        return is_covered

    def predict_log_proba(self, X: Iterable[str]) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        check_is_fitted(self)
        values = self.decision_values(X)
        if self.target_type_ != "classes":
            return log_expit(values)
        return log_probabilities(values, self.inverse_temperature_)

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:
        """Calibrated probabilities of all classes, (n_texts, n_classes).

        With several labels per text each column is about its own label, and rows do not sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def score(self, X: Iterable[str], y: Sequence, sample_weight: Any = None) -> float:
        """Accuracy; with several labels per text, the share whose labels are exactly right.

        A label that is none of the classes counts as an error.
        """
        check_is_fitted(self)
        X = as_texts(X)
        y = materialize(y)
        if self.target_type_ != "classes":
            right = LabelSets.of_classes(self.classes_, y, len(X))
            hits: Any = right.is_correct(self.assign_labels(self.predict_proba(X)))
        else:
            answers = self.classes_[fitting.predicted(self.decision_values(X))].tolist()
            hits = [a == b for a, b in zip(answers, as_labels(y, len(X)))]
        if not X:
            raise ValueError("texts must have at least one text. Got none instead.")
        return float(np.average(hits, weights=sample_weight))

    # ---- explanations --------------------------------------------------------------------------

    def explain(self, text: str, label: Any = None) -> Explanation:
        """The decision taken apart by words and n-grams; for the likeliest class by default."""
        check_is_fitted(self)
        return explain(self, as_texts([text], "text")[0], label)

    def top_features(self, label: Any, n: int = 20) -> list[tuple[str, float]]:
        """The n-grams that speak most for a class (at most 200 are kept).

        With each, what one occurrence adds to the decision in a text of average length, through
        the n-gram itself, the vector of the word and its characters.
        """
        check_is_fitted(self)
        check_count("n", n)
        index = class_index(self.classes_, label)
        names, values = self.named_features_
        weights = values[:, index] if values.shape[1] > 1 else values[:, 0] * (2 * index - 1)
        order = np.argsort(-weights, kind="stable")[: min(n, _MAX_NAMED)]
        return [(names[i], float(weights[i])) for i in order if weights[i] > 0]

    def top_features_html(self, n: int = 20) -> str:
        """A page with the `top_features` of every class."""
        features = {str(c): self.top_features(c, n) for c in self.classes_.tolist()}
        page = {"title": "Features of each class", "explanation": None, "features": features}
        return render("explanation.html", **page)

    def report(self, X: Iterable[str], y: Sequence) -> Diagnostics:
        """Evaluate on labelled texts that it was not fitted on: see `Diagnostics`.

        A label that is none of the classes counts as an error.
        """
        check_is_fitted(self)
        return report(self, X, y)

    # ---- files ---------------------------------------------------------------------------------

    def state(self) -> State:
        """What `pacsent.save` writes: parameters, what `fit` learned, the encoder."""
        check_is_fitted(self)
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "encoder"}
        parts = {} if self.encoder_ is None else {"encoder": self.encoder_}
        return State({"parameters": parameters}, classifier_state.to_arrays(self), parts)

    @classmethod
    def from_state(cls, state: State) -> "TextClassifier":
        """The inverse of `state`."""
        encoder = state.parts.get("encoder")
        classifier = cls(encoder, **state.config["parameters"])
        check_parameters(classifier)
        classifier.__dict__.update(classifier_state.from_arrays(state.tensors, encoder))
        return classifier

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags


# The word vectors that come with the package, opened and unpacked once in a process.
_english = cache(partial(load, "english"))


@lru_cache(maxsize=8)
def _known_words(*vocabularies: Any, n_words: int | None = None) -> np.ndarray:
    # Words that begin with ## are subwords.
    words = [w for v in vocabularies for w in v.words[:n_words] if not w.startswith("##")]
    hashes = np.unique(word_hashes(words))
    return word_keys(hashes[hashes > 0])


registry.register("model", TextClassifier.kind, TextClassifier.from_state)
