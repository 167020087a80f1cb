"""What the API page shows under "See also": related names, and the theorems that a name implements.

A relation is stated once and shown at both names. `conf.py` appends them to the docstrings;
tests/test_docs.py checks that every public name has some and that all targets exist.
"""

import re
from functools import cache
from pathlib import Path

import pacsent

# Names that belong together: each is related to all others of its row.
GROUPS = (
    "TextClassifier CertifiedClassifier guarantees.certify certify_predictions",
    "CertifiedClassifier guarantees.Abstaining guarantees.ClassThresholds "
    "guarantees.LabelThreshold guarantees.DriftMonitor",
    "guarantees.control_risk guarantees.LabelThreshold guarantees.ClassThresholds",
    "guarantees.ErrorCertificate guarantees.MultilabelCertificate guarantees.Certificate "
    "guarantees.read_certificate certify_predictions guarantees.certify",
    "guarantees.compare guarantees.Comparison guarantees.certify",
    "guarantees.traffic_error_upper certify_predictions",
    "guarantees.certify_stream guarantees.AnytimeCertificate",
    "guarantees.check_labels guarantees.LabelCheckCertificate classify.suspicious_labels",
    "certify_encoder guarantees.ContinuationCertificate make_encoder",
    "distill encoders.StaticEncoder guarantees.FidelityCertificate guarantees.certify_student",
    "classify.Explanation classify.Diagnostics TextClassifier",
    "classify.audit classify.suspicious_labels classify.SuspiciousLabel classify.next_to_label",
    "classify.fit_learning_curve classify.LearningCurve classify.next_to_label",
    "Index search.Hit search.Hits search.rerank search.split_passages guarantees.SearchCertificate",
    "search.clusters search.rerank Index web.make_map",
    "SkipGram Corpus Vocabulary WordVectors",
    "WordVectors words.compress words.Pieces words.train_pieces SkipGram",
    "make_encoder list_encoders evaluate encoders.SentenceVectorizer encoders.EmptySentenceWarning",
    "encoders.as_encoder encoders.ExternalEncoder encoders.RemoteEncoder make_encoder",
    "load save",
    "datasets.load_banking datasets.load_books",
    "encoders.AverageVectorizer encoders.IDFVectorizer encoders.SIFVectorizer "
    "encoders.SIFSumVectorizer encoders.ConcatVectorizer make_encoder",
    "encoders.PBNegVectorizer encoders.WordPBNegVectorizer encoders.PVDBOWVectorizer "
    "encoders.PB01Vectorizer make_encoder",
    "paper.certify_words paper.certify_documents paper.certify_squared_loss "
    "paper.certify_heuristics certify_encoder",
    "paper.generate paper.simulate paper.certify_words",
    "paper.printed.example paper.printed.product_prior paper.printed.kl_exact "
    "paper.printed.kl_printed paper.printed.l2_posterior paper.printed.idf_l2_posterior",
    "paper.printed.PrintedPBNegVectorizer paper.printed.SGDPBNegVectorizer "
    "paper.printed.WeightedL2Vectorizer paper.printed.make_printed paper.printed.diverges "
    "encoders.PBNegVectorizer",
    "paper.printed.train_words paper.printed.train_pv_dbow paper.printed.word_variances "
    "paper.printed.lump paper.printed.decay encoders.WordPBNegVectorizer encoders.PVDBOWVectorizer",
    "paper.printed.draw_labelled_words paper.printed.labelled_words_of paper.printed.hypothesis",
    "paper.printed.minimise_at_fixed_lambda paper.printed.minimise_theorem_1 "
    "paper.printed.minimise_kl_inverse paper.printed.simulate_bound paper.certify_words",
    "paper.printed.family_spreads evaluate",
    "web.Labelling web.agreement guarantees.certify_stream classify.next_to_label",
    "scale.embed_shards scale.predict_shards scale.Embedder encoders.SentenceVectorizer",
)
THEOREMS = {
    "TextClassifier": ["gp"],
    "CertifiedClassifier": ["cp", "sets", "abstain", "precision", "dependent"],
    "certify_encoder": ["means", "continuation", "union"],
    "certify_predictions": ["cp", "dependent", "judge"],
    "distill": ["dependent"],
    "encoders.AverageVectorizer": ["experts", "l2"],
    "encoders.PBNegVectorizer": ["neg"],
    "encoders.WordPBNegVectorizer": ["words"],
    "encoders.PB01Vectorizer": ["gibbs"],
    "Index": ["search"],
    "guarantees.Abstaining": ["abstain"],
    "guarantees.AnytimeCertificate": ["labelling"],
    "guarantees.ClassThresholds": ["precision"],
    "guarantees.Comparison": ["compare"],
    "guarantees.ContinuationCertificate": ["continuation"],
    "guarantees.DriftMonitor": ["alarm"],
    "guarantees.ErrorCertificate": ["cp"],
    "guarantees.FidelityCertificate": ["dependent"],
    "guarantees.LabelCheckCertificate": ["check"],
    "guarantees.LabelThreshold": ["labels"],
    "guarantees.MultilabelCertificate": ["f1", "ratio"],
    "guarantees.SearchCertificate": ["search"],
    "guarantees.certify": ["cp", "dependent"],
    "guarantees.certify_stream": ["labelling"],
    "guarantees.check_labels": ["check"],
    "guarantees.certify_student": ["dependent"],
    "guarantees.compare": ["compare"],
    "guarantees.control_risk": ["labels"],
    "guarantees.traffic_error_upper": ["ratio"],
    "paper.certify_documents": ["b"],
    "paper.certify_squared_loss": ["c"],
    "paper.certify_words": ["a"],
    "web.Labelling": ["labelling"],
}
PACKAGES = ("guarantees", "classify", "search", "words", "encoders", "datasets")


@cache
def theorem_titles() -> dict[str, str]:
    """Number and title of each theorem of the theory page, by its label."""
    text = Path(__file__).with_name("theory.md").read_text(encoding="utf-8")
    titles = r"^\(thm-(\w+)\)=\n\*\*(Theorem \d+ \([^)]+\))"
    return dict(re.findall(titles, text, re.M))


def public_names() -> dict[str, object]:
    """Public names of the package, the shortest of each object, and the objects."""
    from importlib import import_module
    from inspect import ismodule

    names = {name: getattr(pacsent, name) for name in pacsent.__all__ if name != "__version__"}
    names = {name: value for name, value in names.items() if not ismodule(value)}
    for package in PACKAGES:
        module = import_module(f"pacsent.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if not ismodule(value) and all(value is not other for other in names.values()):
                names[f"{package}.{name}"] = value
    return names


def related(name: str) -> list[str]:
    """Names of the groups that a public name is in, without itself."""
    rows = [row.split() for row in GROUPS if name in row.split()]
    return list(dict.fromkeys(other for row in rows for other in row if other != name))


def see_also(app, what, name, obj, options, lines) -> None:
    """Append "See also" to a docstring, after numpydoc has made reST of it."""
    short = name.removeprefix("pacsent.")
    links = [f":obj:`{other} <pacsent.{other}>`" for other in related(short)]
    labels = THEOREMS.get(short, ())
    links += [f":ref:`{theorem_titles()[label]} <thm-{label}>`" for label in labels]
    if links:
        lines += ["", f".. seealso:: {', '.join(links)}", ""]
