"""The report: tables from result files only, one page that needs nothing but itself."""

import json
import re

import pytest
from markupsafe import escape

from browsers import open_page
from pacsent.paper import evaluation, figures, report, reproduction
from pacsent.paper.method_rows import ROWS


def classification(row, dataset, accuracy, lam=None):
    """A result of classification as `reproduce` writes it."""
    method = ROWS[row]
    score = {
        "seed": 0,
        "accuracy": accuracy,
        "cv_accuracy": accuracy,
        "C": 1.0,
        "normalize": False,
        "lam": lam,
    }
    lam_curve = [{"lam": at, "cv_accuracy": accuracy - 0.001 * at} for at in method.lams]
    return {
        "kind": "classification",
        "row": row,
        "label": method.label,
        "dataset": dataset,
        "accuracy": accuracy,
        "sd": 0.002,
        "scores": [score] * 3,
        "paper": evaluation.paper_score(method, dataset),
        "lam_curve": lam_curve,
        "seconds": {"fit": 1.0, "encode": 2.0, "search": 3.0, "final": 0.5},
        "details": {},
        "provenance": {"pacsent": "0", "words_digest": "ab" * 32},
    }


@pytest.fixture
def results():
    return make_results()


def make_results():
    """Results of every kind."""
    points = [{"n_labels": n, "accuracy": 0.8, "sd": 0.01, "draws": []} for n in (100, 300)]
    few_labels = {
        "kind": "few-labels",
        "row": "PB-L2",
        "label": "PB-L2",
        "dataset": "20news",
        "curve": points,
    }
    similarity = {
        "kind": "similarity",
        "row": "PB-L2",
        "label": "PB-L2",
        "dataset": "stsb",
        "spearman": 0.55,
        "pearson": 0.54,
    }
    certificate = {
        "kind": "certificate",
        "row": "PB-L2",
        "label": "PB-L2",
        "dataset": "generated",
        "risk_bound": 0.41,
        "held_out_risk": 0.4,
        "n": 1000,
        "delta": 0.05,
    }
    return [
        classification("Average-0", "20news", 0.731),
        classification("Average-0", "subj", 0.911),
        classification("PB-L2", "20news", 0.7602, lam=0.5),
        classification("tf-idf", "subj", 0.914),
        few_labels,
        similarity,
        certificate,
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of these results, drawn once: the figures take seconds."""
    return report.write(make_results(), tmp_path_factory.mktemp("report"))


@pytest.fixture
def no_figures(monkeypatch):
    """For tests of the page alone: the figures for papers take seconds."""
    monkeypatch.setattr(report, "figures", lambda results, titles: [])


def test_a_certificate_is_rounded_up(results):
    results[-1]["risk_bound"] = 0.41001

    _, rows = report.certificate_table(results)

    assert rows == [["PB-L2", "generated text", "0.4000", "0.4101", "1,000", "0.05"]]


def test_the_table_of_accuracies_has_the_papers_beside_them_in_its_order(results):
    table = report.accuracy_table(results[::-1])

    lines = report.format_table(table, "md").splitlines()

    assert [row[0] for row in table.rows] == ["Average α=0", "PB-L2", "tf-idf"]
    assert lines[0] == "| method | 20news | paper | SUBJ | paper |"
    assert "| Average α=0 | 0.731 ± 0.002 | 0.748 | 0.911 ± 0.002 | 0.908 |" in lines
    assert "| tf-idf |  |  | 0.914 ± 0.002 |  |" in lines


def test_the_table_of_accuracies_is_ascii_in_latex(results):
    latex = report.format_table(report.accuracy_table(results), "latex")

    assert r"Average $\alpha$=0 & 0.731 $\pm$ 0.002 & 0.748" in latex
    assert latex.isascii()
    assert latex.count(r"\\") == 4


def read_markup(path):
    """The page without its scripts."""
    return re.sub(r"<script>.*?</script>", "", path.read_text(), flags=re.S)


def test_the_page_is_one_file_that_needs_no_network(written):
    pytest.importorskip("altair")

    markup = read_markup(written)

    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:)", markup)
    assert "@import" not in markup
    assert "url(" not in markup
    assert "<script src" not in written.read_text()


def test_the_page_is_small_and_made_for_telephones_as_well(written):
    pytest.importorskip("altair")

    assert written.stat().st_size < 3_000_000
    assert "viewport" in written.read_text()


def test_the_table_is_beside_the_page_as_markdown_and_latex(written):
    folder = written.parent

    assert (folder / "table.md").read_text().startswith("| method")
    assert (folder / "table.tex").read_text().startswith(r"\begin{tabular}")


def test_the_page_has_every_figure(results, written):
    pytest.importorskip("altair")

    kinds = [figure.kind for figure in figures.figures(results, report.TITLES)]

    assert set(kinds) == {"accuracy", "few-labels", "lam"}
    assert read_markup(written).count("data-chart=") == len(kinds)


def test_figures_for_papers_are_beside_the_page(written):
    pytest.importorskip("altair")
    plots = written.parent / "plots"

    names = {path.name for path in plots.iterdir()}

    assert {"few-labels-20news.pdf", "lam-20news.pdf", "accuracy-subj.pdf"} <= names
    assert "Average" in (plots / "accuracy-20news.svg").read_text()


def test_findings_say_what_chance_explains(results):
    best, certified, reproduced = report.findings(results)

    assert best == (
        "Best accuracy on 20news: PB-L2 0.760, significantly ahead of every other method; "
        "on SUBJ: tf-idf 0.914, tied with 1 other (95% intervals overlap)."
    )
    for part in ("With 95% confidence", "at most 41.00%", "40.0%"):
        assert part in certified
    assert reproduced.startswith(
        "Of 3 accuracies that the paper prints, 3 are reproduced within 0.02"
    )


def test_findings_come_first_on_the_page(results, written):
    page = written.read_text()

    assert page.index("Findings") < page.index("Test accuracy")
    for sentence in report.findings(results):
        assert str(escape(sentence)) in page


def test_differences_from_the_paper_are_shown_in_two_colours(written):
    page = written.read_text()

    assert "paper 0.748 (-0.017)" in page
    assert "paper 0.753 (+0.007)" in page
    assert "rgba(var(--down)" in page
    assert "rgba(var(--up)" in page


def rename_dataset(results, **fields):
    """The results with the dataset "books" and other fields."""
    return [{**result, "dataset": "books", **fields} for result in results]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Best accuracy on books: PB-L2 0.760."),
        ({"n_test": 600}, "tied with 1 other (95% intervals overlap)"),
        ({"n_test": 10_000_000}, "significantly ahead"),
    ],
)
def test_a_difference_is_called_significant_if_the_number_of_test_texts_is_known_and_large(
    results, fields, sentence
):
    books = rename_dataset([results[0], results[2]], **fields)

    assert sentence in report.findings(books)[0]


@pytest.mark.parametrize(
    ("fields", "caption"),
    [
        ({}, "books: accuracy ± 2 sd over seeds"),
        ({"n_test": 600}, "books: accuracy with 95% intervals (600 test texts)"),
    ],
)
def test_captions_call_intervals_by_what_they_are(results, fields, caption):
    pytest.importorskip("altair")
    books = rename_dataset(results[:1], paper=None, **fields)

    assert figures.figures(books, {})[0].caption == caption


def test_the_command_of_the_page_is_that_of_its_data(results, tmp_path, no_figures):
    page = report.write(results, tmp_path).read_text()

    assert "pacsent paper reproduce --data DATA --encoder ENCODER -o OUT" in page


def test_the_command_of_the_page_names_another_dataset(results, tmp_path, no_figures):
    page = report.write(rename_dataset(results[:1]), tmp_path).read_text()

    assert "pacsent paper reproduce --data books -o OUT" in page


@pytest.mark.parametrize(("n_test", "n_best"), [(120, 4), (10_000_000, 2)])
def test_best_of_few_test_texts_is_not_alone_in_bold(results, tmp_path, no_figures, n_test, n_best):
    results = [{**result, "n_test": n_test} for result in results]

    page = report.write(results, tmp_path).read_text()

    assert page.count('<td class="best"') == n_best  # where intervals overlap


@pytest.mark.parametrize("name", ["<b>x</b>", "<!--<script>", "</script><script>alert(1)"])
def test_names_from_data_are_escaped(results, tmp_path, no_figures, name):
    results[0]["label"] = name

    page = report.write(results[:3], tmp_path).read_text()

    assert name not in page
    assert str(escape(name)) in page


def test_a_page_without_figures_names_the_extra(results, tmp_path, no_figures):
    assert "pacsent[report]" in report.write(results, tmp_path).read_text()


def test_figures_need_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ImportError, match=r"pacsent\[report\]"):
        figures.require_altair()


def test_a_report_needs_results(tmp_path):
    with pytest.raises(ValueError, match="needs results"):
        report.write(reproduction.read_results(tmp_path), tmp_path)


def test_results_are_read_back_in_order(results, tmp_path):
    for number, result in enumerate(results):
        reproduction.write_json(tmp_path / f"{number}.json", result)
    (tmp_path / "other.json").write_text(json.dumps({"rows": []}))

    read = reproduction.read_results(tmp_path)

    rows = [result["row"] for result in read if result["kind"] == "classification"]
    assert len(read) == len(results)
    assert rows[0] == "Average-0"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must contain one JSON object"),
        ('{"kind": "similarity", "row": "x"}', "a string label, a string dataset, a number spea"),
        ({"accuracy": "high"}, "must contain a number accuracy: the file is damaged"),
        ({"scores": None}, "must contain a list called scores"),
    ],
)
def test_a_damaged_result_is_named(results, tmp_path, content, message):
    text = content if isinstance(content, str) else json.dumps(results[0] | content)
    (tmp_path / "a.json").write_text(text)

    with pytest.raises(ValueError, match=message):
        reproduction.read_results(tmp_path)


@pytest.fixture
def open_drawn(chromium, written):
    """Opens the page in a browser window of a width and waits until its figures are drawn."""
    pytest.importorskip("altair")

    def open_at(width):
        page = open_page(chromium, written.as_uri(), width)
        page.wait_for_selector("body[data-drawn]", timeout=60_000)
        return page

    return open_at


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.extra(needs="browser")
def test_figures_are_drawn_within_the_width_of_the_page(open_drawn, width):
    page = open_drawn(width)

    widths = page.evaluate("""[...document.querySelectorAll("[data-chart]")]
        .map(e => e.querySelector("svg").getBoundingClientRect().width)""")

    assert widths
    assert min(widths) > 0.5 * min(width, 600)
    assert max(widths) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.extra(needs="browser")
def test_figures_are_filtered_and_hidden_without_network(open_drawn, written, width):
    page = open_drawn(width)
    before = page.inner_text("[data-chart='0']")

    page.fill("#wanted", "PB-L2")
    page.wait_for_timeout(500)
    after = page.inner_text("[data-chart='0']")
    page.uncheck("[data-toggle='subj']")

    assert "Average" in before
    assert "Average" not in after
    assert "PB-L2" in after
    assert not page.is_visible("figure[data-dataset='subj'] >> nth=0")
    assert not page.problems
    assert page.requests == [written.as_uri()]
