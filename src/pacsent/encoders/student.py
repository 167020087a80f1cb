"""`Student`: a static encoder that `teach` makes, a table of word vectors taught by another."""

import copy
from typing import Any, ClassVar

import numpy as np

from pacsent._kernels import small_work
from pacsent.encoders.methods.closed_forms import ClosedForm, for_kernel, token_sums
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.guarantees.fidelity import FidelityCertificate
from pacsent.maths.arrays import frozen
from pacsent.storage import State, Tensors, checked_tensor
from pacsent.words.packing import compress
from pacsent.words.vectors import WordVectors


class Student(ClosedForm):
    """Sentence vectors taught by another encoder: the direction of the sum of word vectors.

        x_S = sum of A_hat over the words of S,  mu_S = x_S / |x_S|
        var_Q = sum of the words' variances / |x_S|^2

    Words outside the vocabulary are read as the pieces they consist of. It is made by
    `pacsent.teach`, is fitted from the start, and works wherever an encoder does.

    Parameters
    ----------
    word_vectors : WordVectors
        The taught table as input vectors.
    teacher : str, default="unknown"
        What the teacher is called.
    on_empty : {"warn", "error", "ignore"}, default="warn"
        What to do about texts without a known word: a vector of zeros, variance nan, and one
        warning; or stop.
    batch_size : int, default=1024
        Texts worked on at once. The result does not depend on it.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.

    Attributes
    ----------
    certificate_ : FidelityCertificate or None
        What is guaranteed about the cosines to the teacher on new texts.
    word_variances_ : array, shape (n_words,)
        Variance of each number of a word's vector.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors
    >>> vocabulary = Vocabulary(["good", "film", "##s"], unknown="pieces")
    >>> table = np.array([[1, 0], [0, 2], [0, 0.5]], dtype=np.float32)
    >>> student = Student(WordVectors(vocabulary, table))
    >>> student.encode(["films", "a good film"]).round(2)
    array([[0.  , 1.  ],
           [0.45, 0.89]], dtype=float32)
    """

    kind = "Student"
    learns_from_text: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "teacher": [str],
    }

    def __init__(
        self,
        word_vectors: WordVectors,
        *,
        teacher: str = "unknown",
        on_empty: str = "warn",
        batch_size: int = 1024,
        n_jobs: int | None = None,
    ):
        self.word_vectors = word_vectors
        self.teacher = teacher
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    certificate_: FidelityCertificate | None = None
    _fitted_on = None  # nothing was fitted on texts that could be replaced

    @property
    def word_variances_(self) -> np.ndarray:
        kept = self.__dict__.get("_word_variances")
        return np.zeros(self.word_vectors.n_words) if kept is None else kept

    @property
    def _paper_name(self) -> str:
        return "taught"

    def summed_table(self) -> np.ndarray:
        return self.word_vectors.input_vectors

    def _needs_prior_table(self) -> bool:
        return False

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> "Student":
        return copy.copy(self)  # it learns nothing from `fit`

    def _prepared(self):
        dtype, n_dims = self._dtype, self._n_features_out  # asked for once: a request is one text
        table, none = frozen(for_kernel(self._tables()[0])), np.empty(0, dtype)
        uncertain = self.word_variances_

        def posterior(encoded, out=None):
            n = encoded.n_sentences
            out = np.empty((n, n_dims), dtype) if out is None else out
            ones = np.ones(n, out.dtype)
            small_work.pool(encoded.ids, encoded.offsets, table, none, ones, out, False)
            squares = np.einsum("ij,ij->i", out, out)
            squares[squares == 0] = 1.0
            out *= (1.0 / np.sqrt(squares))[:, None]
            return out, token_sums(encoded, uncertain) / squares

        return posterior

    def compress(self, *, n_dims: int | None = None, bits: int | None = None) -> "Student":
        """A smaller student: fewer dimensions, fewer bits for each number.

        The table is rotated, so that its first columns hold most of every product, and cut; vectors
        are no longer in the teacher's space, cosines stay near those before. The certificate of the
        whole student is dropped; `certify_student` makes one for this.

        Parameters
        ----------
        n_dims : int or None
        bits : {1, 2, 4, 8} or None
        """
        made = Student(
            compress(self.word_vectors, n_dims=n_dims, bits=bits), **self._without_words()
        )
        made._word_variances = self.__dict__.get("_word_variances")
        return made

    def _without_words(self) -> dict[str, Any]:
        parameters = dict(self.get_params(deep=False))
        del parameters["word_vectors"]
        return parameters

    def state(self) -> State:
        """What `pacsent.save` writes: parameters, the certificate, the word vectors."""
        certificate = self.certificate_
        config = {
            "class": "Student",
            "parameters": self._without_words(),
            "certificate": None if certificate is None else certificate.to_json(),
        }
        tensors = Tensors({"word_variances": self.word_variances_.astype(np.float32)})
        return State(config, tensors, parts={"words": self.word_vectors})

    @classmethod
    def from_state(cls, state: State) -> "Student":
        """The inverse of `state`; the certificate is verified."""
        made = cls(state.parts["words"], **state.config["parameters"])
        made._validate_params()
        n_words = made.word_vectors.n_words
        variances = checked_tensor(state.tensors, "word_variances", np.float32, (n_words,), low=0)
        state.tensors.verify()
        made._word_variances = variances.astype(np.float64)
        text = state.config.get("certificate")
        if text is not None:
            made.certificate_ = FidelityCertificate.from_json(text)
            made.certificate_.verify()
        return made
