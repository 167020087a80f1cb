"""The paper's own certificates, its generative model, and a simulation that counts failures.

These are PAC-Bayes bounds on randomised (Gibbs) predictors: kind A is about words of the
certified documents, B about new documents by posteriors of words, C about the squared loss. The
guarantee for everyday use is `pacsent.certify_encoder`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "certification": ["certify_encoder"],
        "continuation": ["ContinuationCertificate"],
        "document_certificate": ["certify_documents"],
        "evaluation": ["evaluate"],
        "heuristic_certificate": ["certify_heuristics"],
        "generative": ["GenerativeCorpus", "generate"],
        "simulation": ["simulate"],
        "squared_certificate": ["certify_squared_loss"],
        "word_certificate": ["certify_words"],
    },
)
