"""The vocabulary of the field, and names in docstrings that exist."""

import re
from pathlib import Path

import pytest

import pacsent

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pacsent.__file__).parent

# word -> what to write instead; whole words, in any case
INSTEAD = {
    r"promis(e|es|ed|ing)(?!\(|\.\w)": "guarantee, bound, certificate",
    r"rivals?|aloud|slips": "baseline; state it; errata",
    r"the house|rooms": "architecture, package",
    r"kept back|keeps? back|held back": "held out, calibration set",
    r"told|carried": "given, reported; passed through, extra columns",
    r"so many|nobody": "a number of; say who or what",
    r"label sets?|labels a text": "prediction set; multi-label",
    r"noise words?": "negative samples",
    r"pieces of words|(un)?known words?": "subwords; in-vocabulary, OOV rate",
    r"both tables|(the|an) (in|out)put tables?": "matrices, input and output vectors",
    r"judging|taught|teaching": "evaluation, training, distillation",
    r"must hold|95 %|processor time|turn by turn": "must have; 95%; CPU time; interleaved",
}
PROSE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff")]
PROSE += [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
FIGURES = list((ROOT / "docs" / "figures").glob("*.svg"))
CODE = [path for path in PACKAGE.rglob("*.*") if path.suffix in (".py", ".html", ".js", ".md")]


def offences(path):
    """`path:line: word` of every word that has a better one, also across a line break."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    text = re.sub("^<!-- from.*", "", text, flags=re.MULTILINE)  # columns of result files
    found = []
    for word, better in INSTEAD.items():
        space = r"\s+(?:# )?"  # a comment goes on with its mark
        pattern = rf"(?<![\w-])({word.replace(' ', space)})(?![\w-])"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            number = text.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{number}: {match[0]!r}, write: {better}")
    return found


@pytest.mark.parametrize("paths", [PROSE, FIGURES, CODE], ids=["documents", "figures", "src"])
def test_documents_figures_and_code_use_the_words_of_the_field(paths):
    found = [line for path in paths for line in offences(path)]
    assert not found, "\n" + "\n".join(found)


def test_a_word_that_has_a_better_one_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "A Promise.\nCompromises and unpromising are other words.\nIts rivals, the noise\n    words"
    )
    lines = [line.split(": ")[0] for line in offences(page)]
    assert lines == ["page.md:1", "page.md:3", "page.md:3"]
