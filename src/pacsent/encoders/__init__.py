"""Encoders: sentence methods as scikit-learn transformers from text to Gaussian posteriors."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "METHODS": "methods",
        "make": "methods",
        "SentenceVectorizer": "sentence_vectorizer",
        "EmptySentenceWarning": "text_report",
        "AverageVectorizer": "methods.closed_forms",
        "IDFVectorizer": "methods.closed_forms",
        "PBNegVectorizer": "methods.pb_neg",
        "WordPBNegVectorizer": "methods.w_pb_neg",
        "PVDBOWVectorizer": "methods.pv_dbow",
        "PB01Vectorizer": "methods.pb_01",
        "SIFVectorizer": "methods.sif",
        "SIFSumVectorizer": "methods.sif",
        "ConcatVectorizer": "methods.sif",
        "Index": "index",
        "Hit": "index",
        "export": "export",
    },
)
