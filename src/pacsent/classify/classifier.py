"""TextClassifier: n-grams and sentence vectors in one linear model, for any number of labels."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pacsent import registry
from pacsent.classify import classifier_state, fitting, inputs, multilabel
from pacsent.classify.diagnostics import Diagnostics, report
from pacsent.classify.explanation import Explanation, explain, features_page
from pacsent.classify.linear_text import LinearText, fewest_texts
from pacsent.maths.checks import check_count
from pacsent.maths.temperature import log_probabilities
from pacsent.parameter_checks import StrOptions, fit_context
from pacsent.text.near_duplicates import text_units
from pacsent.text.ngrams import NGrams, unknown_shares, word_keys
from pacsent.text.texts import as_texts
from pacsent.threads import n_threads


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifier(ClassifierMixin, LinearText):
    """Classify texts by their n-grams and by their sentence vectors, together.

    Without `words` it needs no model of the language: a script without spaces between words
    (Chinese, Japanese, Thai) gives n-grams of characters.

    One linear model on the tf-idf of n-grams, unweighted or weighted by naive Bayes' log-ratios,
    together with sentence vectors. All candidates are solved together on folds of the training
    labels, and the best are averaged. With few labels, a Gaussian process, averaged over its scales
    with the evidence as weights, counts as much as these. Probabilities are calibrated on held-out
    texts. `pacsent.CertifiedClassifier` adds guarantees.

    Parameters
    ----------
    words : WordVectors, encoder, path, URL, a list of these, or None, default=None
        Vectors for the dense part (or the folder they are in, or "english" for those that are
        installed), or anything that `pacsent.encoders.as_encoder` takes: a method of pacsent, an
        object with `encode`, a function. Those of a list are put side by side. None: n-grams only,
        which costs accuracy where labels are few; `pacsent train` takes "english" by
        default.
    method : str, default="Average"
        Which of `METHODS` makes sentence vectors from word vectors. Where they come with an encoder
        of sentences, as "english" does, its vectors are put beside these.
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
        loss is clearly lower (`selection_["character_share"]`). It is larger for a text with more
        unknown words than nine in ten training texts have: words of no other training text and of
        no vocabulary of `words`. None: no second model. Unused with several labels a text.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.
    random_state : int, default=0
        Decides the folds.

    Attributes
    ----------
    classes_ : array
    selection_ : dict
        What was tried and chosen, and on how many texts.
    targets_ : {"classes", "sets", "indicator"}
        Whether texts have one class each, a set of labels, or a row of an indicator matrix.
    thresholds_ : array
        With several labels a text, the probability from which on each is given: between the one
        with its best F1 and one for all labels, chosen by F1 on texts left out.
    out_of_fold_ : OutOfFold
        `log_proba` and `labels` of training texts, predicted by models not fitted on them.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 3
    >>> classifier = TextClassifier().fit(texts, ["yes", "yes", "no", "no"] * 3)
    >>> classifier.predict(["good", "bad"])
    array(['yes', 'no'], dtype='<U3')

    Texts of a language without word vectors:

    >>> reviews = ["味道很好", "很好吃", "太难吃了", "不新鲜"] * 3
    >>> TextClassifier().fit(reviews, ["good", "good", "bad", "bad"] * 3).predict(["真好吃"])
    array(['good'], dtype='<U4')

    Several labels a text:

    >>> labels = [{"good", "film"}, {"good"}, {"film"}, set()] * 3
    >>> TextClassifier().fit(texts, labels).predict(["a good film", "really bad"])
    [('film', 'good'), ()]
    """

    weighting: str = "auto"
    selection: str = "auto"
    class_weight: str | dict | None = None
    characters: tuple[int, int] | None = (2, 5)

    only_texts: ClassVar[bool] = True  # rows are texts, never arrays or tables of numbers
    _parameter_constraints: ClassVar[dict] = {
        **LinearText._parameter_constraints,
        "weighting": [StrOptions({"auto", *fitting.WEIGHTINGS})],
        "selection": [StrOptions({"auto", "evidence", "folds"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "characters": [tuple, list, None],
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
        return self._fit_anew(X, y, sample_weight, groups)

    def _fit(self, texts, labels, sample_weight, groups):
        candidates = self._candidates(
            fitting.WEIGHTINGS if self.weighting == "auto" else (self.weighting,)
        )
        labels = inputs.counted(labels)
        sets = multilabel.label_matrix(labels, len(texts))
        self.targets_ = "classes"
        if sets is None:
            self.classes_, y = inputs.encoded_labels(labels, texts)
            weights = inputs.text_weights(sample_weight, self.class_weight, self.classes_, y)
        else:
            self._check_for_sets()
            self.targets_ = "sets" if sets.are_sets else "indicator"
            self.classes_, y = multilabel.encoded_sets(sets)
            weights = inputs.sample_weights(sample_weight, len(texts))
        together = inputs.as_groups(groups, len(texts)), text_units(texts)
        features = self._features(texts)
        rows = fitting.Labelled(features.X, features.E, y, self.classes_.size, weights)
        linear = self._solve(rows, candidates, n_threads(self.n_jobs), *together)
        if self.characters is not None and self.targets_ == "classes":
            linear = self._with_characters(texts, rows, linear, candidates, together)
        self._keep(features, linear)
        self.inverse_temperature_ = np.atleast_1d(linear.inverse_temperature)
        self.out_of_fold_ = self.selection_.pop("out_of_fold")

    def _with_characters(self, texts, rows, linear, candidates, together):
        """`linear` averaged with the same model on n-grams of characters."""
        threads = n_threads(self.n_jobs)
        sizes = inputs.as_ngram_sizes(self.characters, "characters")
        how = {"min_texts": fewest_texts(len(texts)), "n_threads": threads}
        ngrams = NGrams.of(texts, sizes, characters=True, **how)
        if len(ngrams) == 0:
            return linear
        E = np.zeros((len(texts), 0), np.float32)
        own = dataclasses.replace(rows, X=ngrams.tf_idf(texts, threads), E=E)
        candidates = dataclasses.replace(candidates, weightings=("tf-idf",))
        of_characters = self._solve(own, candidates, threads, *together)
        unknown = self._unknown_left_out(texts, rows.X, together)
        combined = fitting.with_characters(linear, of_characters, rows, unknown)
        if combined.characters is not None:
            self.characters_ = ngrams
        return combined

    def _unknown_left_out(self, texts, X, together):
        """The part of each text's words that no other text and no encoder knows, (n_texts,).

        Other texts are those of other groups, without copies of the text. None where the words of
        an encoder are not known.
        """
        of_vectors = self._encoder_words()
        if of_vectors is None or self.ngrams_.sizes[0] > 1:
            return None
        groups, copies = together
        units = copies if groups is None else groups
        columns = X.indices
        if np.unique(units).size < units.size:
            cells = np.repeat(units.astype(np.int64), np.diff(X.indptr)) * X.shape[1] + columns
            columns = np.unique(cells) % X.shape[1]
        n_units = np.bincount(columns, minlength=X.shape[1])
        known = word_keys(self.ngrams_.hashes[n_units > 1])
        return unknown_shares(texts, (known, of_vectors))

    def _check_for_sets(self):
        if self.class_weight is not None or self.selection == "evidence":
            name = "class_weight" if self.class_weight is not None else "selection"
            raise ValueError(
                f"{name} must be {'None' if name == 'class_weight' else 'auto or folds'} with "
                f"several labels a text. Got {getattr(self, name)!r} instead."
            )

    def _solve(self, rows, candidates, threads, groups, copies):
        if self.targets_ != "classes":
            how = candidates, threads, self.random_state, groups, copies
            linear, self.thresholds_, self.min_labels_ = multilabel.fit(rows, *how)
            return linear
        few = fitting.is_few(len(rows.labels), rows.n_classes)
        if self.selection == "folds" or not (few or self.selection == "evidence"):
            return fitting.fit_by_folds(
                rows, candidates, threads, self.random_state, groups, copies
            )
        rng = np.random.default_rng(self.random_state)
        folds = fitting.folds_for(rows.labels, rng, groups, copies)
        grouped = groups is not None or fitting.has_many_copies(rows.labels, copies)
        if self.selection == "evidence" or len(rows.labels) < fitting.MIN_FOLD_TEXTS:
            return fitting.fit_by_evidence(rows, threads, folds if grouped else None)
        return fitting.fit_by_both(rows, candidates, threads, folds, grouped)

    # ---- predicting ----------------------------------------------------------------------------

    def decision_function(self, texts: Iterable[str]) -> np.ndarray:
        """Log-odds of the second of two classes, (n,); one value for each of many, (n, k)."""
        values = self.decision_values(texts)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, texts: Iterable[str]) -> np.ndarray | list[tuple]:
        """The likeliest class of each text; with several labels a text, a tuple of them for each.

        After an indicator matrix, an indicator matrix.

        A label is given where its probability reaches `thresholds_`. Where every training text had
        a label, a text that reaches none gets the one that comes nearest.
        """
        check_is_fitted(self)
        if self.targets_ == "classes":
            return self.classes_[fitting.predicted(self.decision_values(texts))]
        given = self.given(self.predict_proba(texts))
        return multilabel.as_given(given, self.classes_, self.targets_)

    def given(self, proba: np.ndarray) -> np.ndarray:
        """Which labels are given at these probabilities, (n, n_labels) of bool."""
        return multilabel.given_labels(proba, self.thresholds_, self.min_labels_)

    def predict_with_scores(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """(labels, logarithms of `predict_proba`) in one pass; multi-label an indicator matrix."""
        log_proba = self.predict_log_proba(texts)
        if self.targets_ != "classes":
            return self.given(np.exp(log_proba)), log_proba
        return self.classes_[log_proba.argmax(axis=1)], log_proba

    def has_no_features(self, log_proba: np.ndarray) -> np.ndarray:
        """Which texts have no known n-gram and no known word, by their log-probabilities, (n,).

        Their decision values are the intercepts alone.
        """
        fraction, of_characters = self.character_share_.least, self.intercept_characters_
        intercept = self.intercept_ + fraction * (of_characters - self.intercept_)
        alone = log_probabilities(intercept[None, :], self.inverse_temperature_)
        return np.isclose(log_proba, alone, rtol=1e-12, atol=1e-12).all(axis=1)

    def predict_log_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        check_is_fitted(self)
        values = self.decision_values(texts)
        if self.targets_ != "classes":
            return log_expit(values)
        return log_probabilities(values, self.inverse_temperature_)

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Calibrated probabilities of all classes, (n_texts, n_classes).

        With several labels a text each column is about its own label, and rows do not sum to one.
        """
        return np.exp(self.predict_log_proba(texts))

    def score(
        self, texts: Iterable[str], labels: Sequence, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy; with several labels a text, the share whose labels are exactly right.

        A label that is none of the classes is refused.
        """
        check_is_fitted(self)
        texts = as_texts(texts)
        labels = inputs.counted(labels)
        if self.targets_ != "classes":
            y = multilabel.known_sets(self.classes_, labels, len(texts), self.classes_.size)
            hits = (self.given(self.predict_proba(texts)) == y).all(axis=1)
        else:
            y = inputs.positions(self.classes_, labels, len(texts))
            hits = fitting.predicted(self.decision_values(texts)) == y
        if not texts:
            raise ValueError("texts must hold at least one text. Got none instead.")
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.average(hits, weights=weights))

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
        position = inputs.position(self.classes_, label)
        if self.intercept_.size > 1:
            return self._strongest(position, 1, n)
        return self._strongest(0, 1 if position else -1, n)

    def top_features_html(self, n: int = 20) -> str:
        """A page with the `top_features` of every class."""
        return features_page({str(c): self.top_features(c, n) for c in self.classes_.tolist()})

    def report(self, texts: Iterable[str], labels: Sequence) -> Diagnostics:
        """How it does on labelled texts that it was not fitted on, as numbers and as a page.

        Returns `pacsent.classify.Diagnostics`, which a notebook shows as a page and `to_html`
        returns: confusion matrix, precision, recall and F1 with intervals, calibration, risk
        against coverage, words of each class.
        """
        check_is_fitted(self)
        return report(self, texts, labels)

    # ---- files ---------------------------------------------------------------------------------

    kind = "TextClassifier"

    def _arrays(self):
        return classifier_state.to_arrays(self)

    @staticmethod
    def _attributes(tensors, vectorizer):
        return classifier_state.from_arrays(tensors, vectorizer)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


registry.register("kind", TextClassifier.kind, TextClassifier.from_state)
