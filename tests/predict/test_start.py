"""The start of `pacsent predict`: little is imported, and weights are hashed once."""

import numpy as np
import pytest

import pacsent
from helpers import run_python
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.storage import array_digests

# Runs the command line, and prints what modules of pacsent import, one in a line.
RECORD_IMPORTS = """
import builtins, sys
import pacsent.cli

requested = set()
import_module = builtins.__import__

def record(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if importer.partition(".")[0] == "pacsent":
        requested.add(name)
        requested.update(f"{name}.{item}" for item in fromlist or ())
    return import_module(name, globals, locals, fromlist, level)

builtins.__import__ = record
pacsent.cli.cli.main(sys.argv[1:], standalone_mode=False)
print(*sorted(requested), sep="\\n")
"""


def make_texts(n, seed=0):
    """n different texts of two kinds, and their labels."""
    words = np.random.default_rng(seed).integers(500, size=(n, 4))
    kinds = ["good", "bad"] * (n // 2)
    texts = [f"{kind} film {' '.join(map(str, row))}" for kind, row in zip(kinds, words)]
    return texts, kinds


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A saved classifier with a calibration set, from which it abstains."""
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(300))
    return pacsent.save(classifier, tmp_path_factory.mktemp("start") / "model")


def test_the_command_imports_neither_scipy_stats_nor_pandas(model_folder, tmp_path):
    """scikit-learn imports the first, and the second if it is installed; no module of ours does."""
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(make_texts(40, seed=1)[0]))
    answers = tmp_path / "answers.csv"

    shown = run_python(RECORD_IMPORTS, "predict", model_folder, texts, "-o", answers)

    requested = set(shown.splitlines())
    assert "scipy.special.betaincinv" in requested
    heavy = {name for name in requested if name.startswith(("scipy.stats", "pandas"))}
    assert heavy == set()
    assert len(answers.read_text().splitlines()) == 41


def test_weights_of_a_loaded_model_are_hashed_once(model_folder, monkeypatch):
    hashed = []
    compute = array_digests._hash

    def hash_and_record(header, arrays, trailer):
        hashed.append("coef_ngrams" in arrays)
        return compute(header, arrays, trailer)

    monkeypatch.setattr(array_digests, "_hash", hash_and_record)

    classifier = pacsent.load(model_folder)
    classifier.abstain(error=0.2)
    classifier.prediction_set_thresholds(error=0.2)

    assert hashed == [True]


def test_a_loaded_model_that_is_fitted_again_is_noticed(model_folder):
    classifier = pacsent.load(model_folder)
    classifier.abstain(error=0.2)

    classifier.estimator_.fit(*make_texts(60, seed=1))

    with pytest.raises(ValueError, match="was fitted or changed since"):
        classifier.abstain(error=0.2)
