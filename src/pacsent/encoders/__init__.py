"""Encoders: sentence methods as scikit-learn transformers from text to Gaussian posteriors."""

from pacsent.lazy import offer

_offered, __dir__ = offer(
    __name__,
    {
        "METHODS": "methods",
        "make": "methods",
        "SentenceVectorizer": "sentence_vectorizer",
        "ExternalEncoder": "external_encoders",
        "RemoteEncoder": "remote_encoder",
        "as_encoder": "external_encoders",
        "EmptySentenceWarning": "text_report",
        "StaticEncoder": "static_encoder",
        "fit_static_encoder": "distillation",
        "checked_vectors": "distillation",
    },
    ("export",),
)


def __getattr__(name):
    if name.endswith("Vectorizer") and name != "SentenceVectorizer":  # the class of a method
        from pacsent.encoders.methods import ESTIMATORS

        if name in ESTIMATORS:
            return ESTIMATORS[name]
    return _offered(name)
