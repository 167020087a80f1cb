"""TextClassifier: n-grams and sentence vectors in one linear model, for any number of labels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from pacsent import registry
from pacsent.bounds.checks import check_count
from pacsent.certify.columns import materialize
from pacsent.certify.labels import LabelSets, as_labels, class_index
from pacsent.certify.near_duplicates import index_arrays, keep_index
from pacsent.classify import classifier_state, fitting, multilabel
from pacsent.classify.diagnostics import Diagnostics, report
from pacsent.classify.explanation import MAX_NAMED, Explanation, explain
from pacsent.classify.fitted_classifier import FittedTextClassifier
from pacsent.classify.training import fit_classifier
from pacsent.parameter_checks import StrOptions, check_before, check_parameters
from pacsent.storage import State
from pacsent.text.pages import render
from pacsent.text.texts import as_texts


def _fitted_attribute(path: str) -> Any:
    """A property of an estimator: a field of its fitted state, or of a part of it."""
    read_field = attrgetter(path)
    return property(lambda classifier: read_field(classifier._fitted_state()))


@dataclass(eq=False, repr=False)
class TextClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by their n-grams and by their sentence vectors, together.

    With `encoder=None` it needs no model of the language: a script without spaces between words
    (Chinese, Japanese, Thai) gives n-grams of characters.

    One linear model on the tf-idf of n-grams, unweighted or weighted by naive Bayes' log-ratios,
    together with sentence vectors. All candidates are solved together on folds of the training
    labels, and the best are averaged: with few labels more of them, with larger scales of the
    vectors. Probabilities are calibrated on held-out texts. `pacsent.CertifiedClassifier` adds
    guarantees.

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
        How n-grams are weighted; "auto" tries all, and with more than 100 classes tf-idf alone.
    selection : {"auto", "loss", "folds"}, default="auto"
        The candidates that are averaged: "loss" takes half of them and at most 16, those with the
        least loss on folds, with equal weights; "folds" takes at most eight, with weights that grow
        with their correct predictions on folds. "auto" takes "loss" up to 200 texts of one class
        each, and "folds" for more.
    Cs : tuple of float
        Candidates: weights of the labels against the penalty.
    dense_scales : tuple of float or "auto", default="auto"
        Candidates: scales of the vectors relative to the n-grams. "auto" takes 0.1, 0.2, 0.4 and
        0.8, and by loss 1.6, 3.2 and 6.4 too.
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
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> classifier = TextClassifier().fit(X, y)
    >>> classifier.predict(["my card was swallowed", "I was charged twice"]).tolist()
    ['declined_cash_withdrawal', 'transaction_charged_twice']
    >>> round(classifier.score(X_new, y_new), 3)
    0.91
    >>> print(classifier.explain("I was charged twice for my coffee"))
    transaction_charged_twice (probability 1.000, decision +2.750)
      +5.223  twice
      +1.640  charged
      +0.392  for
      +0.259  was
      -0.199  my
      -0.123  coffee
      -0.059  i
      -4.384  (the intercept)

    Texts of a language without word vectors:

    >>> reviews = ["味道很好", "很好吃", "太难吃了", "不新鲜"] * 3
    >>> TextClassifier(None).fit(reviews, ["good", "good", "bad", "bad"] * 3).predict(["真好吃"])
    array(['good'], dtype='<U4')

    Several labels per text:

    >>> texts = ["a good film", "so good", "a bad film", "really bad"] * 3
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
    dense_scales: str | Sequence[float] = "auto"
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
        "selection": [StrOptions({"auto", "loss", "folds"})],
        "Cs": [tuple, list],
        "dense_scales": [tuple, list, StrOptions({"auto"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "characters": [tuple, list, None],
        "n_jobs": [Integral, None],
    }

    # ---- what `fit` learned: fields of a `FittedTextClassifier` ---------------------------------

    classes_ = _fitted_attribute("classes")
    target_type_ = _fitted_attribute("target_type")
    selection_ = _fitted_attribute("selection")
    out_of_fold_ = _fitted_attribute("out_of_fold")
    min_coverage_ = _fitted_attribute("min_coverage")
    inverse_temperature_ = _fitted_attribute("inverse_temperatures")
    named_features_ = _fitted_attribute("named_features")
    training_fingerprints_ = _fitted_attribute("training_fingerprints")
    training_sketches_ = _fitted_attribute("training_sketches")
    ngrams_ = _fitted_attribute("model.ngrams")
    coef_ngrams_ = _fitted_attribute("model.coef_ngrams")
    encoder_ = _fitted_attribute("model.encoder")
    coef_dense_ = _fitted_attribute("model.coef_dense")
    intercept_ = _fitted_attribute("model.intercept")
    mean_vector_ = _fitted_attribute("model.mean_vector")
    characters_ = _fitted_attribute("model.characters")
    coef_characters_ = _fitted_attribute("model.coef_characters")
    intercept_characters_ = _fitted_attribute("model.intercept_characters")
    character_weight_ = _fitted_attribute("model.character_weight")

    @property
    def thresholds_(self) -> np.ndarray | None:
        """Probability from which on each label is given, (n_labels,); None for single-label."""
        thresholds = self._fitted_state().label_thresholds
        return None if thresholds is None else thresholds.values

    @property
    def min_labels_(self) -> int | None:
        """The fewest labels of a prediction, 0 or 1; None for single-label."""
        thresholds = self._fitted_state().label_thresholds
        return None if thresholds is None else thresholds.min_labels

    def _fitted_state(self) -> FittedTextClassifier:
        if "fitted_" not in vars(self):
            check_is_fitted(self)  # raises; it takes long to say that nothing is wrong
        return self.fitted_

    # ---- fitting -------------------------------------------------------------------------------

    @check_before
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

        Returns
        -------
        TextClassifier
            This object, fitted.
        """
        self.fitted_ = fit_classifier(
            as_texts(X), y, sample_weight, groups, **self.get_params(deep=False)
        )
        return self

    # ---- predicting ----------------------------------------------------------------------------

    def dense_features(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts by the sentence encoder.

        Parameters
        ----------
        texts : sequence of str

        Returns
        -------
        array of shape (n, n_dims)
        """
        return self._fitted_state().model.encode(texts)

    def decision_values(self, X: Iterable[str]) -> np.ndarray:
        """Values of the linear model.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n, n_columns)
            One column for two classes.
        """
        return self._fitted_state().model.decision_values(X, self.n_jobs)

    def stream(self, X: Iterable[str]) -> Iterator[np.ndarray]:
        """`decision_values` in batches, in constant memory.

        Parameters
        ----------
        X : iterable of str
            It may be a generator.

        Yields
        ------
        array of shape (n_batch, n_columns)
        """
        return self._fitted_state().model.stream(X, self.n_jobs)

    def decision_function(self, X: Iterable[str]) -> np.ndarray:
        """Decision values in the shape of scikit-learn's classifiers.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n,) or (n, n_classes)
            Log-odds of the second of two classes; one value for each of more.
        """
        values = self.decision_values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Iterable[str]) -> np.ndarray | list[tuple]:
        """Predict the likeliest class of each text, or its labels.

        A label is given where its probability reaches `thresholds_`. Where every training text had
        a label, a text that reaches none gets the one that comes nearest.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n,), list of tuples, or array of shape (n, n_labels)
            With several labels per text a tuple of them for each; after an indicator matrix, an
            indicator matrix.
        """
        fitted = self._fitted_state()
        if fitted.is_multilabel:
            assigned = self.assign_labels(self.predict_proba(X))
            return multilabel.format_labels(assigned, fitted.classes, fitted.target_type)
        return self._predict_classes(X)

    def _predict_classes(self, X: Iterable[str]) -> np.ndarray:
        indices = fitting.predict_classes(self.decision_values(X))
        return self.classes_[indices]

    def assign_labels(self, proba: np.ndarray) -> np.ndarray:
        """Assign the labels whose probabilities reach `thresholds_`.

        Parameters
        ----------
        proba : array of shape (n, n_labels)
            Of `predict_proba`.

        Returns
        -------
        array of bool of shape (n, n_labels)
        """
        thresholds = self._fitted_state().label_thresholds
        if thresholds is None:
            raise ValueError("assign_labels needs several labels per text. Got one class per text.")
        return thresholds.apply(proba)

    def predict_with_scores(self, X: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Predict classes and log-probabilities in one pass.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        labels : array of shape (n,), or (n, n_labels) of bool with several labels per text
        log_proba : array of shape (n, n_classes)
        """
        log_proba = self.predict_log_proba(X)
        fitted = self._fitted_state()
        if fitted.is_multilabel:
            return self.assign_labels(np.exp(log_proba)), log_proba
        return fitted.classes[log_proba.argmax(axis=1)], log_proba

    def has_no_features(self, log_proba: np.ndarray) -> np.ndarray:
        """Find texts with no known n-gram and only OOV words, by their log-probabilities.

        Their decision values are the intercepts alone.

        Parameters
        ----------
        log_proba : array of shape (n, n_classes)
            Of `predict_log_proba`.

        Returns
        -------
        array of bool of shape (n,)
        """
        return self._fitted_state().has_no_features(log_proba)

    @property
    def lists_words(self) -> bool:
        """True if it can list the words that it knows: those of n-grams and of an encoder."""
        return self._fitted_state().model.lists_words

    def coverage(self, X: Iterable[str]) -> np.ndarray:
        """The fraction of each text's words that the classifier knows.

        Known are the words of training texts, and the most frequent 20,000 words of the encoder:
        its rarer ones include words of other languages.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n,)
            1 for a text without words.
        """
        return self._fitted_state().model.coverage(as_texts(X))

    def are_covered(self, X: Iterable[str]) -> np.ndarray:
        """Find the texts of which the classifier knows enough words to answer them.

        At least `min_coverage_` of them if there is an encoder that lists its words: 0.4, or less
        if it knows few words of the training texts. Without an encoder, one word or one n-gram of
        characters. All texts are covered if the encoder does not list its words, or if the n-grams
        have no single words.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of bool of shape (n,)
        """
        return self._fitted_state().are_covered(as_texts(X))

    def predict_log_proba(self, X: Iterable[str]) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n, n_classes)
        """
        return self._fitted_state().predict_log_proba(X, self.n_jobs)

    def predict_log_proba_each(self, groups: Sequence[list[str]]) -> np.ndarray:
        """`predict_log_proba` of each group of texts, one after the other, in fewer passes.

        A call with few texts takes as long as one with many; the numbers are the same, bit for bit.

        Parameters
        ----------
        groups : sequence of lists of str

        Returns
        -------
        array of shape (n, n_classes)
            Of the texts of all groups.
        """
        return self._fitted_state().predict_log_proba_each(groups)

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:
        """Calibrated probabilities of all classes.

        With several labels per text each column is about its own label, and rows do not sum to one.

        Parameters
        ----------
        X : iterable of str

        Returns
        -------
        array of shape (n, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def score(self, X: Iterable[str], y: Sequence, sample_weight: Any = None) -> float:
        """Accuracy; with several labels per text, the fraction whose labels are exactly right.

        A label that is none of the classes counts as an error.

        Parameters
        ----------
        X : iterable of str
        y : labels, as for `fit`
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        fitted = self._fitted_state()
        X = as_texts(X)
        y = materialize(y)
        if fitted.is_multilabel:
            label_sets = LabelSets.of_classes(fitted.classes, y, len(X))
            assigned = self.assign_labels(self.predict_proba(X))
            is_right: Any = label_sets.is_correct(assigned)
        else:
            predictions = self._predict_classes(X).tolist()
            labels = as_labels(y, len(X))
            is_right = [prediction == label for prediction, label in zip(predictions, labels)]
        if not X:
            raise ValueError("texts must have at least one text. Got none instead.")
        return float(np.average(is_right, weights=sample_weight))

    # ---- explanations --------------------------------------------------------------------------

    def explain(self, text: str, label: Any = None) -> Explanation:
        """Explain a decision by the words and n-grams of the text.

        Parameters
        ----------
        text : str
        label : str or int, optional
            The class whose decision value is explained; the likeliest by default.

        Returns
        -------
        Explanation
        """
        checked_text = as_texts([text], "text")[0]
        return explain(self._fitted_state(), checked_text, label)

    def top_features(self, label: Any, n: int = 20) -> list[tuple[str, float]]:
        """The n-grams that support a class most.

        With each, what one occurrence adds to the decision in a text of average length, through
        the n-gram itself, the vector of the word and its characters.

        Parameters
        ----------
        label : str or int
        n : int, default=20
            At most 200 are kept; of over 100 classes, 20.

        Returns
        -------
        list of (str, float)
        """
        fitted = self._fitted_state()
        check_count("n", n)
        index = class_index(fitted.classes, label)
        names, values = fitted.named_features
        if values.shape[1] > 1:
            weights = values[:, index]
        else:  # the column is that of the second of two classes
            weights = values[:, 0] if index == 1 else -values[:, 0]
        n_shown = min(n, MAX_NAMED)
        largest_first = np.argsort(-weights, kind="stable")
        shown = [row for row in largest_first[:n_shown] if weights[row] > 0]
        return [(names[row], float(weights[row])) for row in shown]

    def top_features_html(self, n: int = 20) -> str:
        """A page with the `top_features` of every class.

        Parameters
        ----------
        n : int, default=20

        Returns
        -------
        str
            HTML.
        """
        features = {}
        for label in self.classes_.tolist():
            features[str(label)] = self.top_features(label, n)
        return render(
            "explanation.html",
            title="Features of each class",
            explanation=None,
            features=features,
        )

    def report(self, X: Iterable[str], y: Sequence) -> Diagnostics:
        """Evaluate on labelled texts that it was not fitted on.

        A label that is none of the classes counts as an error.

        Parameters
        ----------
        X : iterable of str
        y : array of str or int, one for each text

        Returns
        -------
        Diagnostics
        """
        check_is_fitted(self)
        return report(self, X, y)

    # ---- files ---------------------------------------------------------------------------------

    def state(self) -> State:
        """The content of a saved model: parameters, the fitted arrays, and the encoder.

        Returns
        -------
        State
        """
        fitted = self._fitted_state()
        parameters = self.get_params(deep=False)
        del parameters["encoder"]
        encoder = fitted.model.encoder
        parts = {} if encoder is None else {"encoder": encoder}
        return State(
            config={"parameters": parameters},
            tensors=classifier_state.to_arrays(fitted),
            parts=parts,
            derived=lambda: index_arrays(fitted.training_sketches),
        )

    @classmethod
    def from_state(cls, state: State) -> "TextClassifier":
        """The inverse of `state`.

        Parameters
        ----------
        state : State

        Returns
        -------
        TextClassifier
        """
        encoder = state.parts.get("encoder")
        parameters = dict(state.config["parameters"])
        # Older files may name the evidence of a Gaussian process, whose place "loss" took.
        if parameters.get("selection") == "evidence":
            parameters["selection"] = "loss"
        classifier = cls(encoder, **parameters)
        check_parameters(classifier)
        classifier.fitted_ = classifier_state.from_arrays(state.tensors, encoder)
        keep_index(classifier.fitted_.training_sketches, state.derived())
        return classifier

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags


registry.register("model", TextClassifier.kind, TextClassifier.from_state)
