"""The paper's own certificates, its generative model, and a simulation that counts failures.

These are PAC-Bayes bounds on randomised (Gibbs) predictors: kind A is about words of the
certified documents, B about new documents by posteriors of words, C about the squared loss. The
guarantee for everyday use is `pacsent.certify_encoder`.
"""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "evaluate": "evaluation",
        "certify_words": "word_certificate",
        "certify_documents": "document_certificate",
        "certify_squared_loss": "squared_certificate",
        "certificate_from_json": "certificate_reading",
        "simulate": "simulation",
        "generate": "generative",
        "GenerativeCorpus": "generative",
    },
)
