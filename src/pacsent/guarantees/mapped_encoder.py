"""Any encoder in the coordinates of a word table, so that its vectors can be certified."""

import itertools
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pacsent.encoders.external_encoders import as_encoder
from pacsent.encoders.methods import ready
from pacsent.guarantees.calibration import cut_documents
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors, as_word_vectors

_ALPHAS = tuple(10.0**k for k in range(-3, 5))  # of the ridge, chosen by leaving one document out
_READ = 0.8  # share of a document that the encoder reads when the map is fitted


class MappedEncoder(TransformerMixin, BaseEstimator):
    """The vectors of another encoder, mapped linearly into the space of a word table.

    `fit` lets the encoder, anything that `pacsent.encoders.as_encoder` takes, read the first 80 %
    of each document, and learns by ridge regression the affine map to the average vector of all
    words of the document. It reads the words that are in the vocabulary, in their order.
    """

    learns_from_text = True

    def __init__(self, encoder: Any, word_vectors: Any = "english"):
        self.encoder = encoder
        self.word_vectors = word_vectors

    def fit(self, X: Any, y: Any = None) -> "MappedEncoder":
        """Learn the map from documents."""
        words = self._words()
        documents = X if isinstance(X, Encoded) else words.vocabulary.encode(X)
        documents = documents.take(np.flatnonzero(np.diff(documents.offsets)))
        if documents.n_sentences < 2:
            raise ValueError(
                "The map needs at least two documents with known words. Got "
                f"{documents.n_sentences} instead. Set more documents aside: split=0.3."
            )
        n_read = np.ceil(_READ * np.diff(documents.offsets)).astype(np.int64)
        head, _ = cut_documents(documents, n_read)
        target = ready("Average", words).set_params(on_empty="ignore").transform(documents)
        from sklearn.linear_model import RidgeCV  # a second to import

        self.map_ = RidgeCV(_ALPHAS).fit(self._read(head), target)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Vectors in the space of the table, (n, n_dims)."""
        check_is_fitted(self, "map_")
        encoded = X if isinstance(X, Encoded) else self._words().vocabulary.encode(X)
        return np.asarray(self.map_.predict(self._read(encoded)), np.float32)

    def _words(self) -> WordVectors:
        return as_word_vectors(self.word_vectors)

    def _read(self, encoded: Encoded) -> np.ndarray:
        """What the encoder makes of the known words, written out."""
        words, ids = self._words().words, encoded.ids.tolist()
        texts = [
            " ".join(words[i] for i in ids[start:stop])
            for start, stop in itertools.pairwise(encoded.offsets.tolist())
        ]
        return as_encoder(self.encoder).posterior(texts)[0]
