"""Sentences: every method as a scikit-learn transformer from text to Gaussian posteriors."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "METHODS": "methods",
        "make": "methods",
        "SentenceVectorizer": "sentence_vectorizer",
        "EmptySentenceWarning": "sentence_vectorizer",
        "AverageVectorizer": "closed_forms",
        "IDFVectorizer": "closed_forms",
        "PBNegVectorizer": "pb_neg",
        "WordPBNegVectorizer": "w_pb_neg",
        "PVDBOWVectorizer": "pv_dbow",
        "PB01Vectorizer": "pb_01",
        "SIFVectorizer": "sif",
        "Index": "index",
        "export": "export",
        "Hit": "index",
        "SIFSumVectorizer": "sif",
        "BothVectorizer": "sif",
    },
)
