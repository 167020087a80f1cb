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
    "TextClassifier CertifiedClassifier certify.certify certify_predictions",
    "CertifiedClassifier predict.Abstaining predict.ClassThresholds "
    "predict.LabelThreshold certify.DriftMonitor",
    "predict.control_risk predict.LabelThreshold predict.ClassThresholds",
    "certify.ErrorCertificate certify.MultilabelCertificate certify.Certificate "
    "certify.read_certificate certify_predictions certify.certify",
    "certify.compare certify.Comparison certify.certify",
    "certify.traffic_error_upper certify_predictions",
    "certify.certify_stream certify.AnytimeCertificate",
    "classify.check_labels classify.LabelCheckCertificate classify.suspicious_labels",
    "certify_encoder paper.ContinuationCertificate make_encoder",
    "distill sentences.StaticEncoder sentences.FidelityCertificate sentences.certify_student",
    "classify.Explanation classify.Diagnostics TextClassifier",
    "classify.audit classify.suspicious_labels classify.SuspiciousLabel classify.next_to_label",
    "classify.fit_learning_curve classify.LearningCurve classify.next_to_label",
    "Index search.Hit search.Hits search.rerank search.split_passages search.SearchCertificate",
    "search.clusters search.rerank Index web.make_map",
    "SkipGram Corpus Vocabulary WordVectors",
    "WordVectors words.compress words.Pieces words.train_pieces SkipGram",
    "make_encoder list_encoders evaluate sentences.SentenceVectorizer "
    "sentences.EmptySentenceWarning text.LowCoverageWarning",
    "web.export_html CertifiedClassifier classify.Diagnostics",
    "sentences.as_encoder sentences.ExternalEncoder sentences.RemoteEncoder make_encoder",
    "load save",
    "datasets.load_banking datasets.load_books",
    "sentences.AverageVectorizer sentences.IDFVectorizer sentences.SIFVectorizer "
    "sentences.SIFSumVectorizer sentences.ConcatVectorizer make_encoder",
    "sentences.PBNegVectorizer sentences.WordPBNegVectorizer sentences.PVDBOWVectorizer "
    "sentences.PB01Vectorizer make_encoder",
    "paper.certify_words paper.certify_documents paper.certify_squared_loss "
    "paper.certify_heuristics certify_encoder",
    "paper.generate paper.GenerativeCorpus paper.simulate paper.certify_words",
    "paper.printed.example paper.printed.product_prior paper.printed.kl_exact "
    "paper.printed.kl_printed paper.printed.l2_posterior paper.printed.idf_l2_posterior "
    "paper.printed.Example",
    "paper.printed.product_prior paper.printed.sum_prior paper.printed.sum_prior_posterior "
    "paper.printed.log_normaliser",
    "paper.printed.kl_exact paper.printed.kl_printed paper.printed.penalty_exact "
    "paper.printed.penalty_printed paper.printed.entropy",
    "paper.printed.l2_posterior paper.printed.squared_loss paper.printed.rescaled_loss_lambda",
    "paper.printed.negative_sampling_loss paper.printed.sampled_loss "
    "paper.printed.expected_loss paper.printed.PrintedPBNegVectorizer paper.printed.pv_dbow_loss",
    "paper.printed.PrintedPBNegVectorizer paper.printed.SGDPBNegVectorizer "
    "paper.printed.WeightedL2Vectorizer paper.printed.make_printed paper.printed.diverges "
    "sentences.PBNegVectorizer",
    "paper.printed.train_words paper.printed.train_pv_dbow paper.printed.word_variances "
    "paper.printed.lump paper.printed.decay sentences.WordPBNegVectorizer "
    "sentences.PVDBOWVectorizer",
    "paper.printed.draw_labelled_words paper.printed.labelled_words_of paper.printed.hypothesis "
    "paper.printed.zero_one_risk paper.printed.generalisation_example",
    "paper.printed.minimise_at_fixed_lambda paper.printed.minimise_theorem_1 "
    "paper.printed.minimise_kl_inverse paper.printed.problem_of paper.printed.simulate_bound "
    "paper.printed.BoundSimulation paper.certify_words",
    "paper.printed.train_pv_dbow paper.printed.pv_dbow_loss paper.printed.from_scratch",
    "paper.printed.diverges paper.printed.learning_rates paper.printed.SGDPBNegVectorizer",
    "paper.printed.family_spreads evaluate",
    "web.Labelling web.agreement certify.certify_stream classify.next_to_label",
    "scale.embed_shards scale.predict_shards scale.Manifest scale.on_ray scale.Embedder "
    "sentences.SentenceVectorizer",
    "web.serve web.ModelSource web.ServerSettings web.read_keys web.open_models web.ServedModel "
    "web.create_app",
    "text.read_labelled_texts text.stream_texts text.clean_files Corpus",
    "text.tokenise_paper text.tokenise_unicode text.clean_files text.Encoded Vocabulary",
    "words.formats.detect words.formats.read words.formats.write load WordVectors",
    "storage.check load save",
    "paper.benchmark_datasets.load paper.benchmark_datasets.load_word_vectors "
    "paper.benchmark_datasets.read_labelled paper.benchmark_datasets.Dataset "
    "paper.benchmark_datasets.Pairs evaluate",
)
THEOREMS = {
    "TextClassifier": ["gp"],
    "CertifiedClassifier": ["cp", "sets", "abstain", "precision", "dependent"],
    "certify_encoder": ["means", "continuation", "union"],
    "certify_predictions": ["cp", "dependent", "judge"],
    "distill": ["dependent"],
    "sentences.AverageVectorizer": ["experts", "l2"],
    "sentences.PBNegVectorizer": ["neg"],
    "sentences.WordPBNegVectorizer": ["words"],
    "sentences.PB01Vectorizer": ["gibbs"],
    "Index": ["search"],
    "predict.Abstaining": ["abstain"],
    "certify.AnytimeCertificate": ["labelling"],
    "predict.ClassThresholds": ["precision"],
    "certify.Comparison": ["compare"],
    "paper.ContinuationCertificate": ["continuation"],
    "certify.DriftMonitor": ["alarm"],
    "certify.ErrorCertificate": ["cp"],
    "sentences.FidelityCertificate": ["dependent"],
    "classify.LabelCheckCertificate": ["check"],
    "predict.LabelThreshold": ["labels"],
    "certify.MultilabelCertificate": ["f1", "ratio"],
    "search.SearchCertificate": ["search"],
    "certify.certify": ["cp", "dependent"],
    "certify.certify_stream": ["labelling"],
    "classify.check_labels": ["check"],
    "sentences.certify_student": ["dependent"],
    "certify.compare": ["compare"],
    "predict.control_risk": ["labels"],
    "certify.traffic_error_upper": ["ratio"],
    "paper.certify_documents": ["b"],
    "paper.certify_squared_loss": ["c"],
    "paper.certify_words": ["a"],
    "web.Labelling": ["labelling"],
}
PACKAGES = ("certify", "predict", "classify", "search", "words", "sentences", "datasets")


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
