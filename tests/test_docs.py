"""The documents are tests: their code runs, their commands exist, their tables are generated."""

import ast
import json
import math
import os
import pkgutil
import platform
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import Parameter, isfunction, ismodule, signature
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import pacsent
from helpers import all_commands, run_python
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.pac_bayes import kl_inverse
from pacsent.bounds.rounding import rounded_up
from pacsent.cli import cli
from pacsent.kernels import library as kernel_library

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.S)


def _code_of_pages() -> dict[str, str]:
    """The Python of each page whose output is not checked by `docs/make_outputs.py`."""
    code = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = PYTHON_BLOCK.findall(text)
        if blocks and "```output" not in text:
            code[page.name] = "\n".join(blocks)
    return code


CODE = _code_of_pages()

RUNNER = """
import json, os, sys, traceback
import numpy, pandas, pacsent, pacsent.sentences.methods, pacsent.classify
for name, folder, code in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        out = os.open("output.txt", os.O_CREAT | os.O_WRONLY)
        os.dup2(out, 1), os.dup2(out, 2)
        try:
            exec(compile(code, name, "exec"), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(name, os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """Status and output of every page's code: each in a child of one process that has imported."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CODE}
    jobs = [(name, str(folder), CODE[name]) for name, folder in folders.items()]
    lines = run_python(RUNNER, input=json.dumps(jobs)).splitlines()

    results = {}
    for name, status in map(str.split, lines):
        output = (folders[name] / "output.txt").read_text("utf-8")
        results[name] = (int(status), output)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_the_python_of_a_page_runs_from_top_to_bottom(ran, name):
    status, output = ran[name]
    assert status == 0, output[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("*.py")), ids=lambda script: script.name
)
def test_an_example_runs_as_it_stands_and_prints_something(script, tmp_path):
    command = [sys.executable, script]
    assert subprocess.check_output(command, cwd=tmp_path, timeout=300).strip()


def test_every_command_and_option_has_help_and_is_in_the_reference(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from make_cli import command_reference

    reference = command_reference()

    assert "Usage: pacsent " in reference
    for name, command in all_commands().items():
        assert command.help, name
        assert f"### `pacsent {name}`" in reference, name
        for parameter in command.params:
            spelling = parameter.opts[0]
            if spelling.startswith("--"):
                assert parameter.help, f"{name} {spelling}"


@pytest.mark.parametrize("name", cli.list_commands(None))
def test_every_command_is_on_the_page_of_the_command_line(name):
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")  # what a checkout shows

    purpose = cli.get_command(None, name).get_short_help_str(100).rstrip(".")

    assert f"\n| `{name}` | {purpose} |" in page


@pytest.mark.parametrize(
    "name",
    [
        *("card", "numbers", "overview", "items", "architecture"),
        *("growth_figure", "labels_figure", "drift_figure", "paper_figures"),
        *("guarantee_figures", "monitor_figures", "accuracy_figures"),
        pytest.param("methods", marks=pytest.mark.slow),
        pytest.param("outputs", marks=pytest.mark.slow),
    ],
)
def test_a_generated_page_is_up_to_date(name):
    command = [sys.executable, ROOT / "docs" / f"make_{name}.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FIGURES = ROOT / "docs" / "figures"


def test_every_figure_has_a_generator_and_a_page():
    scripts = [path.read_text("utf-8") for path in (ROOT / "docs").glob("make_*.py")]
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    for figure in sorted([*FIGURES.glob("*.svg"), *FIGURES.glob("*.png")]):
        stems = (figure.stem, figure.stem.removeprefix("method-"), figure.stem.rpartition("-")[0])
        named = [stem for stem in stems if stem and any(f'"{stem}' in text for text in scripts)]
        assert named or any(figure.name in text for text in scripts), figure.name
        assert f"figures/{figure.name}" in pages, figure.name


def _svg_figures() -> list[tuple[str, str]]:
    """Alternative text and file name of the figures that show result files."""
    drawn = []
    for name in ("guarantee_figures", "monitor_figures", "accuracy_figures", "labels_figure"):
        code = (ROOT / "docs" / f"make_{name}.py").read_text("utf-8")
        drawn += re.findall(r'"([\w-]+\.svg)"', code)
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    shown = re.findall(r"!\[([^]]+)\]\(figures/([\w-]+\.svg)\)", pages)
    return [(words, file) for words, file in shown if file in drawn]


@pytest.mark.parametrize(("words", "file"), _svg_figures(), ids=lambda value: value[-20:])
def test_numbers_in_the_alternative_text_of_a_figure_are_in_the_figure(words, file):
    figure = (FIGURES / file).read_text("utf-8")
    drawn_words = " ".join(re.findall(r"<(?:text|title)[^>]*>([^<]*)<", figure))

    numbers = re.findall(r"\d[\d,.]*\d|\d", words)

    drawn_numbers = re.findall(r"\d[\d,.]*\d|\d", drawn_words)
    assert set(numbers) <= set(drawn_numbers)


@pytest.mark.slow
def test_the_pictures_of_the_exported_page_show_its_certificate(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from make_html import live_classifier

    texts, labels, new_texts = live_classifier()
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)

    summary = classifier.certificate_.summary()
    page = (ROOT / "docs" / "html.md").read_text("utf-8")
    for name in ("html-desktop", "html-phone", "html-drifted"):
        assert summary in (FIGURES / f"{name}.txt").read_text("utf-8"), name
    assert f"{len(texts):,} messages" in page
    assert f"the {len(new_texts)} other messages" in page


@pytest.mark.slow
def test_the_picture_of_an_explanation_shows_its_numbers(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from make_html import explained_message

    explanation = explained_message()

    shown = (FIGURES / "explanation.txt").read_text("utf-8")
    assert shown.startswith(f"{explanation.label}\n")
    for word, value in explanation.by_word(3):
        assert f"{word} {value:+.3f}\n" in shown


@pytest.mark.slow
def test_the_readme_prints_the_same_with_other_kernels():
    """Without the instructions of this processor, sums round as on another one."""
    least = kernel_library.levels()[0]
    core = "ARMV8" if platform.machine() in ("aarch64", "arm64") else "PRESCOTT"
    blas = {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": core}
    environment = {**os.environ, **blas, "PACSENT_LEVEL": least}
    command = [sys.executable, ROOT / "docs" / "make_outputs.py", "--check", ROOT / "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def _one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_same_sentence_says_everywhere_what_pacsent_is():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = _one_line(readme.split("\n\n")[1])
    assert sentence.startswith("pacsent implements PAC-Bayes Analysis") and sentence.endswith(".")
    for place in ("docs/index.md", "CITATION.cff", "pyproject.toml"):
        text = (ROOT / place).read_text(encoding="utf-8")
        assert sentence in _one_line(text), place
    assert sentence in _one_line(pacsent.__doc__)
    assert sentence in _one_line(cli.help)


def test_the_readme_is_a_front_door():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)", text, re.M) == [
        "Your CSV",
        "The paper",
        "What can be certified",
        "Compared with other tools",
        "When not to use it",
        "More",
    ]
    before = text[: text.index("## Your CSV")]
    assert "```\nmake demo " in before and "\nmake test " in before
    assert "docs/figures/overview-dark.svg" in before and "overview-light.svg" in before


def test_the_readme_shows_a_certified_classifier_of_a_csv_file_in_three_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [session] = re.findall(r"```shell-session\n(.*?)```", text, re.S)
    assert session.startswith("$ pacsent train mine.csv -o model")
    assert session.count("\n$ ") == 2
    assert "With 95% confidence" in session
    assert "each by itself" in text


def test_the_readme_shows_the_paper_in_a_few_lines():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [code] = PYTHON_BLOCK.findall(text)
    statements = [line for line in code.splitlines() if line and "import" not in line]
    assert len(statements) <= 6
    assert "posterior(" in code and ".kl(" in code


def test_the_readme_compares_theorem_1_with_the_bound_of_its_example():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    n_errors, n = map(int, re.search(r"\((\d+) of\s+(\d+)\s+held-out", text).groups())
    error_upper = float(re.search(r"is at most (0\.\d+)", text)[1])
    theorem_1 = kl_inverse(n_errors / n, math.log(1 / 0.05) / n)  # at its best lambda
    numbers = rounded_up(theorem_1), rounded_up(error_upper)
    assert "at most {}, and {} by the exact".format(*numbers) in text


def test_the_readme_lists_the_tools_that_are_better():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S.*?) \| (0\.\d{3}) \|", text, re.M)
    accuracies = [float(accuracy) for _, accuracy in rows]
    assert accuracies == sorted(accuracies)
    place = [name.startswith("**pacsent") for name, _ in rows].index(True)
    assert place < len(rows) - 1


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


GROUPS_OF_PAGES = ("learn", "guides", "concepts", "paper", "reference")


def _pages_in_tables_of_contents(text: str) -> list[str]:
    """Pages of all toctrees of a page, in their order."""
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>", r"\1", entry) for entry in entries]


@pytest.mark.parametrize("group", [*GROUPS_OF_PAGES, "contributors"])
def test_a_landing_page_names_its_pages_in_their_order_each_with_a_sentence(group):
    text = (ROOT / "docs" / f"{group}.md").read_text(encoding="utf-8")
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    elsewhere = dict(re.findall(r'"(\S+)": "(\S+)\.(?:md|rst)"', settings))

    named = re.findall(r"^- \[.+?\]\(([^)]+)\)\S* (?=\w)", text, re.M)

    pages = [elsewhere.get(target, target.removesuffix(".md")) for target in named]
    assert pages == _pages_in_tables_of_contents(text)
    assert text.count(":hidden:") == text.count("{toctree}")


def test_every_page_is_in_one_group():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index", *GROUPS_OF_PAGES}
    landing = [(ROOT / "docs" / f"{group}.md").read_text("utf-8") for group in GROUPS_OF_PAGES]
    contributors = (ROOT / "docs" / "contributors.md").read_text("utf-8")

    listed = [page for text in landing for page in _pages_in_tables_of_contents(text)]
    listed += _pages_in_tables_of_contents(contributors)

    assert sorted(listed) == sorted({*pages, "gallery/index"})


def _lines_in_blocks(path: Path, block: str) -> Iterator[str]:
    """The lines of all blocks of a page; `block` is a pattern with one group."""
    for content in re.findall(block, path.read_text(encoding="utf-8"), re.S):
        yield from content.splitlines()


def _command_lines() -> Iterator[tuple[str, str]]:
    """Lines for the shell on our pages and in our templates, with the page that shows them."""
    for page in PAGES:
        for line in _lines_in_blocks(page, r"```[a-z-]*\n(.*?)```"):
            if re.match(r"(\$ )?pacsent [a-z]", line):
                yield page.name, line.removeprefix("$ ")
    for template in sorted((ROOT / "src" / "pacsent" / "templates").glob("*.html")):
        for line in _lines_in_blocks(template, r"<pre>(.*?)</pre>"):
            if line.startswith("pacsent "):
                yield template.name, line


def _name_of_command(words: list[str]) -> str | None:
    """The longest name of a command with which a line begins."""
    commands = all_commands()
    for n_words in (3, 2, 1):
        name = " ".join(words[:n_words])
        if name in commands:
            return name
    return None


def _is_help_of_a_group(words: list[str]) -> bool:
    return words[0] in cli.list_commands(None) and words[1].startswith("-")


def test_commands_on_pages_and_in_templates_exist_with_their_options():
    commands = all_commands()
    n_lines = 0
    for place, line in _command_lines():
        words = line.partition("#")[0].split()[1:]
        name = _name_of_command(words)
        if name is None and _is_help_of_a_group(words):
            continue

        assert name is not None, f"{place}: {line}"
        options = {option for parameter in commands[name].params for option in parameter.opts}
        used_options = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        assert used_options <= options | {"--help"}, f"{place}: {line}"
        n_lines += 1
    assert n_lines > 60


GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
# Programs that take less than about five seconds; the others have the marker `slow`.
FAST_PROGRAMS = ("plot_02", "plot_03", "plot_09", "plot_10")


class _PyplotWithoutPictures(MagicMock):
    """Stands for matplotlib, which only the site needs: accepts every call and draws nothing."""

    def subplots(self, n_rows: int = 1, n_columns: int = 1, **options):
        n_axes = n_rows * n_columns
        return MagicMock(), MagicMock() if n_axes == 1 else [MagicMock() for _ in range(n_axes)]


def _program(script: Path):
    marks = () if script.stem.startswith(FAST_PROGRAMS) else pytest.mark.slow
    return pytest.param(script, id=script.stem, marks=marks)


@pytest.mark.parametrize("script", map(_program, GALLERY))
def test_a_program_of_the_gallery_runs(script, monkeypatch, tmp_path):
    assert "plt.subplots" in script.read_text(encoding="utf-8")
    pyplot = _PyplotWithoutPictures()
    monkeypatch.setitem(sys.modules, "matplotlib", MagicMock(pyplot=pyplot))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))


MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
CITATION = re.compile(
    rf"\b(?!{MONTHS})([A-Z][a-z]+)(?: et al\.)?,? \(?((?:19|20)\d\d)\)"  # the name before the year
)


def test_every_cited_work_is_in_the_bibliography_once():
    bibliography = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
    entries = re.findall(
        r"^- \*\*(.+?)\*\*", _one_line(bibliography).replace(" - **", "\n- **"), re.M
    )
    places = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]

    cited = {
        (name, year)
        for path in places
        for name, year in CITATION.findall(_one_line(path.read_text(encoding="utf-8")))
    }
    missing = [
        f"{name} ({year})"
        for name, year in sorted(cited)
        if not any(name in entry and f"({year})" in entry for entry in entries)
    ]

    assert len(cited) > 20
    assert not missing
    assert entries == sorted(set(entries), key=lambda entry: entry.casefold())


NOTATION_MODULES = ("pacsent.sentences", "pacsent.certify", "pacsent.paper")
FORMULAS = {"pac_bayes": "pacsent.bounds", "gaussians": "pacsent.sentences.solvers"}
COMPUTED = re.compile(r"`(pacsent\.[\w.]+)`")
CHECKED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.fixture(scope="module")
def theory() -> str:
    """The page of theorems and proofs."""
    return (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")


def _numbers_of_theorems(theory: str) -> list[str]:
    return re.findall(r"^\*\*Theorem (\d+)", theory, re.M)


def test_theorems_are_numbered_from_one_on(theory):
    numbers = _numbers_of_theorems(theory)

    assert len(numbers) >= 27
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


def test_every_theorem_has_a_proof(theory):
    numbers = _numbers_of_theorems(theory)

    assert re.findall(r"^\*\*Proof of Theorem (\d+)", theory, re.M) == numbers
    assert theory.count("∎") == len(numbers)


def test_every_theorem_names_a_function_and_a_test(theory):
    rows = re.findall(r"^\|\[(\d+)\]\(#thm-\w+\)\|(.+)\|$", theory, re.M)

    assert [number for number, _ in rows] == _numbers_of_theorems(theory)
    for number, row in rows:
        assert COMPUTED.search(row), f"theorem {number} names no function"
        assert CHECKED.search(row), f"theorem {number} names no test"


def test_the_functions_and_tests_of_theorems_exist(theory):
    for name in COMPUTED.findall(theory):
        pkgutil.resolve_name(name)
    for path, test in CHECKED.findall(theory):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"def {test}\b", source), f"{path}::{test}"


def test_the_first_theorems_have_the_numbers_of_the_paper(theory):
    statements = re.findall(r"^\((?:thm|cor)-([\w-]+)\)=\n\*\*(\w+ [\d.]+) ", theory, re.M)

    assert statements[:6] == [
        ("catoni", "Theorem 1"),
        ("experts", "Theorem 2"),
        ("average", "Corollary 2.1"),
        ("both", "Corollary 2.2"),
        ("pv-dbow", "Corollary 2.3"),
        ("words", "Theorem 3"),
    ]


def test_pages_name_theorems_by_their_numbers(theory):
    numbers = dict(re.findall(r"^\((thm-\w+)\)=\n\*\*Theorem (\d+) ", theory, re.M))

    n_links = 0
    for page in PAGES:
        page_text = page.read_text(encoding="utf-8")
        links = re.findall(r"\[(?:Theorem )?(\d+)\]\((?:theory\.md)?#(thm-\w+)\)", page_text)
        for number, label in links:
            assert numbers[label] == number, f"{page.name}: {label}"
        n_links += len(links)
    assert n_links > 40


def _names_on_the_api_page() -> list[str]:
    names = []
    module = ""
    for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        directive = re.match(r"\.\. currentmodule:: ([\w.]+)", line)
        if directive:
            module = directive[1]
        elif re.match(r"   \w+$", line):
            names.append(f"{module}.{line.strip()}")
    return names


@pytest.fixture(scope="module")
def api_names() -> set[str]:
    """The full names on the page of the API."""
    return set(_names_on_the_api_page())


@pytest.fixture(scope="module")
def api_objects(api_names) -> dict[str, Any]:
    """What is on the page of the API, by full name, but modules."""
    objects = {name: pkgutil.resolve_name(name) for name in api_names}
    return {name: value for name, value in objects.items() if not ismodule(value)}


@pytest.fixture
def related(monkeypatch):
    """The module of the documentation that names related functions and theorems."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("related")


def _modules_with_public_names() -> list[Any]:
    """pacsent and every package and module of it that has a list of public names."""
    modules = []
    for path in sorted((ROOT / "src" / "pacsent").rglob("*.py")):
        if "__all__" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            modules.append(import_module(".".join(parts).removesuffix(".__init__")))
    return modules


def _is_package(value: Any) -> bool:
    return ismodule(value) and hasattr(value, "__path__")


def test_every_public_name_is_on_the_api_page(api_names):
    listed = [pkgutil.resolve_name(name) for name in api_names]

    missing = []
    for module in _modules_with_public_names():
        for name in module.__all__:
            value = getattr(module, name)
            is_listed = any(value is other for other in listed)
            if name != "__version__" and not is_listed and not _is_package(value):
                missing.append(f"{module.__name__}.{name}")

    assert missing == []


def test_names_with_relations_or_theorems_are_on_the_api_page(api_names, related):
    names_in_groups = " ".join(related.GROUPS).split()

    assert {f"pacsent.{name}" for name in (*related.THEOREMS, *names_in_groups)} <= api_names


def test_theorems_of_public_names_exist(theory, related):
    labels = chain.from_iterable(related.THEOREMS.values())

    assert all(f"(thm-{label})=" in theory for label in labels)


def test_every_name_on_the_api_page_has_related_names(api_objects, related):
    assert all(related.related(name.removeprefix("pacsent.")) for name in api_objects)


def test_every_name_on_the_api_page_has_an_example(api_objects):
    documented = {name for name, value in api_objects.items() if ">>>" in (value.__doc__ or "")}

    assert documented == set(api_objects)


def test_random_state_is_none_by_default_as_in_scikit_learn(api_objects):
    for name, value in api_objects.items():
        members = getattr(value, "__dict__", {}).values()
        for function in filter(isfunction, [value, *members]):
            parameter = signature(function).parameters.get("random_state")
            assert parameter is None or parameter.default in (None, Parameter.empty), name


def _notation_rows() -> list[list[str]]:
    text = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if "| `" in line]
    return [row.replace(r"\|", "").strip("| ").split(" | ") for row in rows]


def _find_public(name: str) -> Any:
    """The one object of that name in the packages of the notation."""
    packages = [pacsent, *map(import_module, NOTATION_MODULES)]
    values = [getattr(package, name) for package in packages if hasattr(package, name)]
    assert values, name
    assert all(value is values[0] for value in values), name
    return values[0]


def _has_attribute(cls: type, name: str) -> bool:
    """True if a class has, annotates or documents an attribute."""
    classes = cls.__mro__
    is_annotated = any(name in vars(base).get("__annotations__", {}) for base in classes)
    is_documented = any(f"\n    {name}" in (base.__doc__ or "") for base in classes)
    return hasattr(cls, name) or is_annotated or is_documented


@pytest.mark.parametrize("row", _notation_rows(), ids=lambda row: row[0])
def test_a_name_of_the_notation_exists(row):
    for name in re.findall(r"`([A-Z]\w+)`", row[-1]):
        assert _find_public(name)
    for module, name in re.findall(r"`(pac_bayes|gaussians)\.(\w+)`", row[-1]):
        assert hasattr(import_module(f"{FORMULAS[module]}.{module}"), name)
    for name, parameter in re.findall(r"`(\w+)\((\w+)\)`", row[1]):
        assert parameter in signature(_find_public(name)).parameters
    for name, attribute in re.findall(r"`(\w+)\.(\w+)`", row[1]):
        assert _has_attribute(_find_public(name), attribute)


PARTS_OF_A_METHOD = {
    "equation": r"^    .*=|^    .*\+ .*KL|^    .*softplus",
    "picture": r"^!\[.+\]\(figures/method-[\w-]+\.svg\)$",
    "use": r"^\*\*When\.\*\* \w",
    "cost": r"^\*\*Cost\.\*\* [`\w]",
}


def _section_of_method(name: str) -> tuple[str, str]:
    """The heading and the text of the section of a method."""
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", page, flags=re.M)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    [section] = [(head, text) for head, text in sections if name in re.split(r", | and ", head)]
    return section


@pytest.mark.parametrize("name", pacsent.list_encoders())
def test_every_method_has_its_equation_its_picture_when_to_use_it_and_its_cost(name):
    _, text = _section_of_method(name.removeprefix("i-"))

    for part, pattern in PARTS_OF_A_METHOD.items():
        assert re.search(pattern, text, re.M), part


INVERSE_METHODS = [name for name in pacsent.list_encoders() if name.startswith("i-")]


@pytest.mark.parametrize("name", INVERSE_METHODS)
def test_the_section_of_a_method_names_its_form_with_swapped_roles(name):
    heading, text = _section_of_method(name.removeprefix("i-"))

    assert " i-" in f" {heading}" or "i- form" in heading or "`i-" in text


def _public_modules() -> list[Path]:
    modules = []
    for path in sorted((ROOT / "src" / "pacsent").rglob("*.py")):
        private_parts = [part for part in path.parts[-3:] if part.startswith("_")]
        if set(private_parts) <= {"__init__.py"}:
            modules.append(path)
    return modules


def test_every_public_function_and_class_says_what_it_is_for():
    """At the top of every public module; the API's own names have examples as well."""
    undocumented = []
    for path in _public_modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if not is_definition or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                undocumented.append(f"{path}: {node.name}")
    assert not undocumented


def test_outputs_that_differ_from_what_the_code_prints_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    for shown, status in (("b 1.250", 0), ("c 1.25", 1)):
        page.write_text(f"```python\nprint('b', 1.2501)\n```\n\n```output\n{shown}\n```\n")
        command = [sys.executable, ROOT / "docs" / "make_outputs.py", "--check", page]
        assert subprocess.run(command, capture_output=True).returncode == status
    subprocess.run([sys.executable, ROOT / "docs" / "make_outputs.py", page], check=True)
    assert "```output\nb 1.2501\n```" in page.read_text()


def test_the_site_check_notices_a_page_that_is_not_built_from_its_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import check_site

    docs, site = tmp_path / "docs", tmp_path / "site"
    for path, text in (
        (tmp_path / "other.md", "# The *other* page\n"),
        (docs / "search.md", "# Search by `meaning`\n\n```\n# no heading\n```\n\n## How\n"),
        (docs / "more.md", "```{include} ../other.md\n```\n"),
        (site / "search.html", "<h1>Search by <code>meaning</code><a>#</a></h1><h2>How</h2>"),
        (site / "more.html", "<h1>The <em>other</em> page</h1>"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert check_site.replaced(site, docs) == []
    (site / "search.html").write_text("<h1>Search</h1>")  # as the site's own search page
    (site / "more.html").unlink()
    wrong = [line.split(" is ")[0] for line in check_site.replaced(site, docs)]
    assert wrong == ["more.html", "search.html"]
