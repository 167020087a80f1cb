"""The report: tables from result files only, one page that needs nothing but itself."""

import json
import re

import pytest
from markupsafe import escape

from browsers import open_page
from pacsent.paper import evaluation, figures, report, reproduction
from pacsent.paper.method_rows import ROWS


def classification(row, dataset, accuracy, lam=None):
    known = ROWS[row]
    score = {"seed": 0, "accuracy": accuracy, "cv_accuracy": accuracy, "C": 1.0}
    about = {"kind": "classification", "row": row, "label": known.label, "dataset": dataset}
    return about | {
        "accuracy": accuracy,
        "sd": 0.002,
        "scores": [{**score, "normalize": False, "lam": lam}] * 3,
        "paper": evaluation.paper_score(known, dataset),
        "lam_curve": [{"lam": at, "cv_accuracy": accuracy - 0.001 * at} for at in known.lams],
        "seconds": {"fit": 1.0, "encode": 2.0, "search": 3.0, "final": 0.5},
        "details": {},
        "provenance": {"pacsent": "0", "words_digest": "ab" * 32},
    }


@pytest.fixture(name="results")
def _results():
    return make_results()


def make_results():
    pb_l2 = {"row": "PB-L2", "label": "PB-L2"}
    points = [{"n_labels": n, "accuracy": 0.8, "sd": 0.01, "draws": []} for n in (100, 300)]
    correlations = {"spearman": 0.55, "pearson": 0.54}
    certified = {"risk_bound": 0.41, "held_out_risk": 0.4}
    return [
        classification("Average-0", "20news", 0.731),
        classification("Average-0", "subj", 0.911),
        classification("PB-L2", "20news", 0.7602, lam=0.5),
        classification("tf-idf", "subj", 0.914),
        {"kind": "few-labels", **pb_l2, "dataset": "20news", "curve": points},
        {"kind": "similarity", **pb_l2, "dataset": "stsb", **correlations},
        {"kind": "certificate", **pb_l2, "dataset": "generated", **certified}
        | {"n": 1000, "delta": 0.05},
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
    _, (row,) = report.certificate_table(results)
    assert row == ["PB-L2", "generated text", "0.4000", "0.4101", "1,000", "0.05"]


def test_the_table_of_accuracies_has_the_papers_beside_them_in_its_order(results):
    table = report.accuracy_table(results[::-1])
    assert [row[0] for row in table.rows] == ["Average α=0", "PB-L2", "tf-idf"]
    lines = report.format_table(table, "md").splitlines()
    assert lines[0] == "| method | 20news | paper | SUBJ | paper |"
    assert "| Average α=0 | 0.731 ± 0.002 | 0.748 | 0.911 ± 0.002 | 0.908 |" in lines
    assert "| tf-idf |  |  | 0.914 ± 0.002 |  |" in lines
    latex = report.format_table(table, "latex")
    assert r"Average $\alpha$=0 & 0.731 $\pm$ 0.002 & 0.748" in latex
    assert latex.isascii() and latex.count(r"\\") == 4


def test_the_page_is_one_file_that_needs_no_network(results, written):
    pytest.importorskip("altair")
    page = written.read_text()
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:)", markup)
    assert "@import" not in markup and "url(" not in markup
    assert "<script src" not in page and written.stat().st_size < 3_000_000
    assert "viewport" in page
    assert (written.parent / "table.md").read_text().startswith("| method")
    assert (written.parent / "table.tex").read_text().startswith(r"\begin{tabular}")
    kinds = [figure.kind for figure in figures.figures(results, report.TITLES)]
    assert markup.count("data-chart=") == len(kinds)
    assert {"accuracy", "few-labels", "lam"} == set(kinds)
    plots = written.parent / "plots"  # for papers
    names = {path.name for path in plots.iterdir()}
    assert {"few-labels-20news.pdf", "lam-20news.pdf", "accuracy-subj.pdf"} <= names
    assert "Average" in (plots / "accuracy-20news.svg").read_text()


def test_findings_come_first_and_say_what_chance_explains(results, written):
    said = report.findings(results)
    assert said[0] == (
        "Best accuracy on 20news: PB-L2 0.760, significantly ahead of every other method; "
        "on SUBJ: tf-idf 0.914, tied with 1 other (95% intervals overlap)."
    )
    assert "With 95% confidence" in said[1] and "at most 41.00%" in said[1] and "40.0%" in said[1]
    assert said[2].startswith("Of 3 accuracies that the paper prints, 3 are reproduced within 0.02")
    page = written.read_text()
    assert page.index("Findings") < page.index("Test accuracy")
    assert all(str(escape(sentence)) in page for sentence in said)
    assert "paper 0.748 (-0.017)" in page and "paper 0.753 (+0.007)" in page
    assert "rgba(var(--down)" in page and "rgba(var(--up)" in page


def test_without_the_number_of_test_texts_no_difference_is_called_significant(results):
    books = [{**r, "dataset": "books"} for r in results[:1] + results[2:3]]
    assert report.findings(books)[0] == "Best accuracy on books: PB-L2 0.760."
    known = [{**r, "n_test": 600} for r in books]
    assert "tied with 1 other (95% intervals overlap)" in report.findings(known)[0]
    known = [{**r, "n_test": 10_000_000} for r in books]
    assert "significantly ahead" in report.findings(known)[0]


def test_captions_call_intervals_by_what_they_are(results):
    pytest.importorskip("altair")
    books = [{**r, "dataset": "books", "paper": None} for r in results[:1]]
    assert figures.figures(books, {})[0].caption == "books: accuracy ± 2 sd over seeds"
    known = [{**r, "n_test": 600} for r in books]
    caption = figures.figures(known, {})[0].caption
    assert caption == "books: accuracy with 95% intervals (600 test texts)"


def test_the_command_of_the_page_is_that_of_its_data(results, tmp_path, no_figures):
    page = report.write(results, tmp_path / "folder").read_text()
    assert "pacsent paper reproduce --data DATA --encoder ENCODER -o OUT" in page
    books = [{**r, "dataset": "books"} for r in results[:1]]
    page = report.write(books, tmp_path / "books").read_text()
    assert "pacsent paper reproduce --data books -o OUT" in page


@pytest.mark.parametrize(("n_test", "n_best"), [(120, 4), (10_000_000, 2)])
def test_best_of_few_test_texts_is_not_alone_in_bold(results, tmp_path, no_figures, n_test, n_best):
    page = report.write([{**r, "n_test": n_test} for r in results], tmp_path).read_text()
    assert page.count('<td class="best"') == n_best  # where intervals overlap


def test_names_and_texts_from_data_are_escaped(results, tmp_path, no_figures):
    names = ["<b>x</b>", "<!--<script>", "</script><script>alert(1)"]
    results = results[:3]
    for result, name in zip(results, names, strict=True):
        result["label"] = name
    page = report.write(results, tmp_path).read_text()
    for name in names:
        assert name not in page and str(escape(name)) in page


def test_without_the_extra_the_page_says_so(results, tmp_path, monkeypatch, no_figures):
    assert "pacsent[report]" in report.write(results, tmp_path).read_text()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pacsent\[report\]"):
        figures.require_altair()


def test_results_are_read_back_in_order(results, tmp_path):
    with pytest.raises(ValueError, match="needs results"):
        report.write(reproduction.read_results(tmp_path), tmp_path)
    for number, result in enumerate(results):
        reproduction.write_json(tmp_path / f"{number}.json", result)
    (tmp_path / "other.json").write_text(json.dumps({"rows": []}))
    found = reproduction.read_results(tmp_path)
    assert len(found) == len(results)
    assert next(r["row"] for r in found if r["kind"] == "classification") == "Average-0"


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


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.extra(needs="browser")
def test_figures_are_drawn_filtered_and_toggled_without_network(chromium, written, width):
    pytest.importorskip("altair")
    page = open_page(chromium, written.as_uri(), width)
    page.wait_for_selector("body[data-drawn]", timeout=60_000)
    drawn = page.evaluate("""[...document.querySelectorAll("[data-chart]")]
        .map(e => e.querySelector("svg").getBoundingClientRect().width)""")
    assert drawn and all(0.5 * min(width, 600) < w <= width for w in drawn)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    before = page.inner_text("[data-chart='0']")
    page.fill("#wanted", "PB-L2")
    page.wait_for_timeout(500)
    after = page.inner_text("[data-chart='0']")
    assert "Average" in before and "Average" not in after and "PB-L2" in after
    page.uncheck("[data-toggle='subj']")
    assert not page.is_visible("figure[data-dataset='subj'] >> nth=0")
    assert not page.problems and page.requests == [written.as_uri()]
