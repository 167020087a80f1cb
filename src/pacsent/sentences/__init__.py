"""Encoders: sentence methods as scikit-learn transformers from text to Gaussian posteriors."""

import lazy_loader

_lazy_getattr, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["solvers"],
    submod_attrs={
        "distillation_certificate": ["FidelityCertificate", "certify_student", "distill"],
        "external_encoders": ["ExternalEncoder", "as_encoder"],
        "methods": ["list_encoders", "make_encoder"],
        "remote_encoder": ["RemoteEncoder"],
        "sentence_vectorizer": ["SentenceVectorizer"],
        "static_encoder": ["StaticEncoder"],
        "encoding": ["EmptySentenceWarning"],
    },
)


def __getattr__(name: str):
    if name.endswith("Vectorizer") and name != "SentenceVectorizer":  # the class of a method
        from pacsent.sentences.methods import ESTIMATORS

        if name in ESTIMATORS:
            return ESTIMATORS[name]
    return _lazy_getattr(name)
