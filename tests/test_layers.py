"""Data flows one way: a module imports only what its row allows, and the docs keep the table."""

import ast
from pathlib import Path

import pytest

import pacsent

PACKAGE = Path(pacsent.__file__).parent

KERNELS = {"_kernels.text", "_kernels.skipgram", "_kernels.sentences", "_kernels.negative_sampling"}
WORDS = {"text", "vocabulary", "word_vectors"}
ALLOWED = {
    "__init__": None,
    "__main__": {"cli"},
    "_kernels.__init__": set(),
    "_kernels.text": set(),
    "_kernels.skipgram": set(),
    "_kernels.sentences": set(),
    "_kernels.formats": set(),
    "_kernels.negative_sampling": set(),
    "_kernels.risks": set(),
    "progress": set(),
    "text": {"_kernels.text", "progress"},
    "bounds": set(),
    "vocabulary": {"text", "_kernels.text", "progress"},
    "word_vectors": {"vocabulary"},
    "skipgram": {"_kernels.skipgram", "storage", "gpu", "progress"} | WORDS,
    "word_tasks": {"word_vectors"},
    "gpu.__init__": {"gpu"},
    "gpu.device": set(),
    "gpu.skipgram": {"gpu", "progress"},
    "gpu.sentences": {"gpu", "logistic_posterior"},
    "gpu.logistic": {"gpu", "logistic_grid"},
    "posterior": {"_kernels.sentences"},
    "logistic": set(),
    "logistic_posterior": {"logistic", "_kernels.negative_sampling"},
    "word_posterior": {"logistic", "logistic_posterior", "_kernels.negative_sampling"},
    "negative_sampling": {
        "logistic_posterior", "word_posterior", "_kernels.negative_sampling", "_kernels.sentences",
        "sentence_vectors", "progress", "gpu",
    } | WORDS,
    "sentence_vectors": {"posterior", "gpu", "_kernels.sentences", "progress"} | WORDS,
    "risks": {"_kernels.risks", "logistic"},
    "priors": {"bounds", "vocabulary"},
    "direct": {
        "bounds", "risks", "posterior", "sentence_vectors", "negative_sampling", "progress",
        "logistic_posterior",
    } | WORDS,
    "certificate": {"bounds"},
    "certifying": {
        "certificate", "posterior", "bounds", "risks", "priors", "direct", "negative_sampling",
        "progress",
    } | WORDS,
    "certificates": {"certificate", "certifying", "risks", "sentence_vectors"} | WORDS,
    "simulation": {
        "bounds", "certificates", "certifying", "datasets", "priors", "progress", "risks",
        "sentence_vectors",
    } | WORDS,
    "formats.__init__": {"formats", "word_vectors"},
    "formats.common": {"vocabulary", "word_vectors", "progress"},
    "formats.text_tables": {"formats", "_kernels.formats"},
    "formats.fasttext": {"formats", "word_vectors"},
    "formats.folders": {"formats", "storage"},
    "formats.detection": {"formats", "storage"},
    "formats.word2vec": {"formats"},
    "formats.gensim": {"vocabulary", "word_vectors"},
    "formats.reading": {"formats", "storage", "word_vectors"},
    "formats.writing": {"formats", "storage", "word_vectors", "progress"},
    "storage": {"vocabulary", "word_vectors", "sentence_vectors"},
    "vector_files": set(),
    "datasets": {"text", "vocabulary", "word_vectors"},
    "logistic_grid": set(),
    "rows": {"sentence_vectors"} | WORDS,
    "evaluation": {
        "rows", "logistic_grid", "sentence_vectors", "certificates", "datasets", "gpu", "posterior",
    } | WORDS,
    "reproduction": {"rows", "evaluation", "datasets", "logistic_grid", "progress"},
    "report": {"rows"},
    "demo": {
        "rows", "evaluation", "reproduction", "report", "certificates", "risks", "datasets",
        "sentence_vectors", "logistic_grid", "skipgram", "storage", "text",
    },
    "cli": None,
}  # fmt: skip


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imported(path):
    """Names of our own modules imported anywhere in the file, type-checking blocks left out."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] != "pacsent" or len(parts) < 2:
                continue
            found.add(".".join(parts[1:3]) if parts[1] == "_kernels" else parts[1])
    return found - {"__version__"}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_what_its_row_allows(path):
    name = name_of(path)
    assert name in ALLOWED, f"{name} has no row in the table of imports: add one"
    if ALLOWED[name] is not None:
        assert imported(path) <= ALLOWED[name]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nothing_imports_the_command_line(path):
    if name_of(path) != "__main__":
        assert "cli" not in imported(path)


def test_importing_is_light(tmp_path):
    import subprocess
    import sys

    code = "import sys, pacsent, pacsent.cli; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numba", "sklearn", "torch", "scipy", "rich", "matplotlib"} & set(loaded)
