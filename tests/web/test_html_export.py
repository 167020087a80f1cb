"""A classifier in one HTML file: what the page computes is what Python computes."""

import base64
import csv
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from browsers import open_page, until
from pacsent import CertifiedClassifier, TextClassifier, make_encoder
from pacsent.datasets import load_banking, load_books
from pacsent.predict.abstaining import AnswerRule
from pacsent.sentences.external_encoders import as_search_encoder
from pacsent.text.ngrams import is_empty
from pacsent.web import export_html

csv.field_size_limit(8 << 20)
MARKUP = '<img src=x onerror="document.title=1">'
HOSTILE = [
    " ",
    "'",
    "a''b 'c d'",
    "don’t DON'T",
    "İst ΣΑΣ ß ẞ ſ K",
    "x" * 5000,
    "card " * 3000,
    "👨‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷",
    "e\u0301 שלום ทำไม 我的卡丢了",
    "\u2028\x85\xa0card",
    MARKUP,
    "zq crdz 12",
    '"a", b\nc',
    "\tb;c",
    "\u200b\ufeff\u00ad",
    "ﬁ ℡ Ⅷ ½ ٣ €",
]
MALFORMED = {
    b'a,b\n"x,1\n': "Row 2: a quoted field is not closed. Check the quotes.",
    b'a,b\n"x"y,1\n': "Row 2: text after a closing quote. Double the quotes inside a field.",
    b"a;b\n1;2\n1;2;3\n": "Row 3 has 3 fields, row 1 has 2. Check its quotes and separators.",
    b"a,b\n": "The file has no rows below its header.",
    b"a,b\n\xff,1\n": "wrong.csv is no text in UTF-8. Save it as CSV (UTF-8).",
}


@pytest.fixture(scope="module", params=[None, pytest.param("english", marks=pytest.mark.slow)])
def case(request, tmp_path_factory):
    rows = np.column_stack(load_banking(n_classes=5))
    texts, labels = np.random.default_rng(0).permutation(rows).T.tolist()
    model = CertifiedClassifier(TextClassifier(request.param), random_state=0)
    path = tmp_path_factory.mktemp("page") / "classifier.html"
    export_html(model.fit(texts[:300], labels[:300]), path, title="a < b", error=0.2)
    return model, texts[300:500], path


def opened(chromium, path, width=1440):
    page = open_page(chromium, path.as_uri(), width)
    until(page, "!document.querySelector('#classify').disabled")
    return page


def classify(page, path, texts):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("label", "message"), *(("?", text) for text in texts)])
    page.set_input_files("#file", path)
    page.wait_for_selector("#results:visible", timeout=180_000)


@pytest.fixture(scope="module")
def html(case):
    """The page as it is written."""
    return case[-1].read_text(encoding="utf-8")


def test_the_policy_of_the_page_allows_its_own_scripts_and_styles_alone(html):
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html)[1]

    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for content in re.findall("<(?:script|style)>(.*?)</", html, flags=re.S):
        digest = hashlib.sha256(content.encode()).digest()
        assert base64.b64encode(digest).decode() in policy


def test_the_title_is_no_markup(html):
    assert "<title>a &lt; b</title>" in html


def test_the_page_contains_no_address(html):
    assert "://" not in re.sub('octet-stream">[^<]*', "", html)


def test_the_scripts_make_no_markup_of_texts_and_fetch_nothing(html):
    scripts = html[html.index('"engine"') :].replace("</script>", "")
    assert not re.search("innerHTML|insertAdjacent|document.write|eval|fetch", scripts)


FILMS = [f"{word} film {n}" for n in range(40) for word in ("good", "bad")]


def distilled_classifier():
    return TextClassifier(as_search_encoder("english")).fit(FILMS, [0, 1] * 40)


def sif_classifier():
    return TextClassifier(make_encoder("SIF", "english")).fit(FILMS, [0, 1] * 40)


def multilabel_classifier():
    return TextClassifier(None).fit(FILMS, [{"a"}, {"b"}] * 40)


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (multilabel_classifier, "one class per text"),
        (sif_classifier, "SIF"),
        (lambda: len, "Got"),
        (distilled_classifier, "distilled"),
    ],
)
def test_what_cannot_be_exported_is_rejected_in_one_line(tmp_path, make_model, message):
    model = make_model()
    with pytest.raises(ValueError, match=message):
        export_html(model, tmp_path / "page.html")


def texts_to_classify(case):
    """Hostile texts and new ones; for a model with vectors many more, and one of five megabytes."""
    model, new_texts, _ = case
    texts = [*HOSTILE, *new_texts]
    if model.estimator_.encoder_ is not None:
        texts += [f"{new_texts[i % 200]} {i}" for i in range(100_000)]
        texts.append(" ".join(new_texts * 400)[: 5 << 20])
    return texts


@pytest.fixture(scope="module")
def answered_page(chromium, case, tmp_path_factory):
    """The page after it has classified a file of these texts."""
    page = opened(chromium, case[-1])
    classify(page, tmp_path_factory.mktemp("answered") / "new.csv", texts_to_classify(case))
    return page


def downloaded_rows(page):
    """The rows of the file that the page offers for download."""
    with page.expect_download() as download:
        page.click("#download")
    with Path(download.value.path()).open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def rows(answered_page):
    """The rows of the file with the answers to these texts."""
    return downloaded_rows(answered_page)


@pytest.fixture(scope="module")
def rows_with_text(rows):
    return [row for row in rows if not is_empty(row["message"])]


@pytest.fixture(scope="module")
def rule(case):
    return AnswerRule(case[0], error=0.2)


@pytest.fixture(scope="module")
def answers(rule, case):
    """Python's answers to the texts that are not empty."""
    return rule.answer([text for text in texts_to_classify(case) if not is_empty(text)])


@pytest.mark.extra(needs="browser")
def test_the_page_returns_the_columns_and_rows_of_the_file(rows, case):
    assert [row["message"] for row in rows] == texts_to_classify(case)
    assert rows[0]["label"] == "?"


@pytest.mark.extra(needs="browser")
def test_a_row_without_text_has_a_reason_and_no_answer(rows):
    empty_rows = [row for row in rows if is_empty(row["message"])]

    assert empty_rows
    assert {row["reason"] for row in empty_rows} == {"no text"}
    assert {row["abstained"] for row in empty_rows} == {"yes"}
    for name in ("prediction", "probability", "set"):
        assert {row[name] for row in empty_rows} == {""}


@pytest.mark.extra(needs="browser")
def test_predictions_of_the_page_are_those_of_python(rows_with_text, answers, case):
    predictions = [row["prediction"] for row in rows_with_text]
    probabilities = np.array([float(row["probability"]) for row in rows_with_text])

    assert predictions == case[0].classes_[answers.best].tolist()
    assert np.abs(probabilities - answers.probability).max() < 1e-5


@pytest.mark.extra(needs="browser")
def test_abstentions_of_the_page_are_those_of_python(rows_with_text, answers):
    is_abstained = [row["abstained"] == "yes" for row in rows_with_text]
    has_no_reason = [row["reason"] == "" for row in rows_with_text]

    assert is_abstained == answers.abstained.tolist()
    assert has_no_reason == answers.covered.tolist()


@pytest.mark.extra(needs="browser")
def test_sets_of_the_page_are_those_of_python(rows_with_text, rule, answers, case):
    model = case[0]
    sets = [row["set"] for row in rows_with_text]
    assert len(set(sets)) > 5

    names_of_rows = [set(row_set.split(",")) for row_set in sets]
    inside = np.array([[name in names for name in model.classes_] for names in names_of_rows])

    # thresholds are lowered by 1e-5, as weights are rounded: only scores just below one may differ
    scores = model.predict_log_proba([row["message"] for row in rows_with_text])
    is_at_threshold = np.abs(scores - rule.set_levels) < 2e-5
    assert (inside >= answers.inside).all()
    assert is_at_threshold.sum() < 10
    assert np.array_equal(inside[~is_at_threshold], answers.inside[~is_at_threshold])


@pytest.mark.extra(needs="browser")
def test_the_page_explains_a_text_as_python_does(answered_page, case):
    row = HOSTILE.index(MARKUP) + 1

    answered_page.click(f"#rows tr:nth-child({row}) button")
    until(answered_page, f"document.querySelector('#words')?.innerText === {MARKUP!r}")

    decision = float(answered_page.inner_text("#decision"))
    assert abs(decision - case[0].explain(MARKUP).decision) < 2e-3


@pytest.mark.extra(needs="browser")
def test_the_page_verifies_its_certificates(answered_page):
    answered_page.click("#verify")
    until(answered_page, "document.querySelectorAll('#checks li.right').length >= 4")
    assert answered_page.locator("#checks li.wrong").count() == 0


@pytest.mark.extra(needs="browser")
def test_the_page_says_what_is_wrong_with_a_file(answered_page, tmp_path):
    path = tmp_path / "wrong.csv"
    for content, message in MALFORMED.items():
        path.write_bytes(content)
        answered_page.set_input_files("#file", path)
        until(answered_page, f"problem.innerText === {message!r}")


@pytest.mark.extra(needs="browser")
def test_the_page_sends_nothing(answered_page, rows):
    result = answered_page.evaluate("fetch('https://example.org').catch(() => 'refused')")

    schemes = {request.partition(":")[0] for request in answered_page.requests}
    assert result == "refused"
    assert schemes == {"file", "blob"}


@pytest.mark.extra(needs="browser")
def test_no_text_runs_as_a_script(answered_page, rows):
    assert answered_page.title() == "a < b"
    assert not answered_page.problems


@pytest.mark.extra(needs="browser")
def test_a_changed_certificate_is_noticed(chromium, case, tmp_path, monkeypatch):
    certificate = case[0].certificate_
    changed = certificate.to_dict() | {"n_errors": 0}
    monkeypatch.setattr(type(certificate), "to_dict", lambda certificate: changed)
    export_html(case[0], tmp_path / "x.html", error=0.2)

    page = opened(chromium, tmp_path / "x.html")
    page.click("#verify")

    until(page, "document.querySelectorAll('#checks li.wrong').length === 2")


@pytest.mark.extra(needs="browser")
def test_on_a_phone_other_texts_are_noticed(chromium, case, tmp_path):
    page = opened(chromium, case[-1], width=390)

    classify(page, tmp_path / "books.csv", [passage.text for passage in load_books()[:400]])

    assert "These texts differ" in page.inner_text("#drift")
    assert page.is_visible("#lost")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.uncheck("#header")
    until(page, "counts.innerText.includes('401 texts')")


@pytest.mark.extra(needs="browser")
def test_with_drift_every_row_of_the_download_says_that_it_has_no_guarantee(
    chromium, case, tmp_path
):
    page = opened(chromium, case[-1])
    passages = [passage.text for passage in load_books()[:400]]

    classify(page, tmp_path / "books.csv", [*passages, " "])

    *rows, empty_row = downloaded_rows(page)
    assert {row["abstained"] for row in rows} == {"yes"}
    assert {row["set"] for row in rows} == {""}
    assert all(row["prediction"] for row in rows)
    assert all(row["reason"].endswith("drift: no guarantee") for row in rows)
    assert empty_row["reason"] == "no text; drift: no guarantee"


def classified(page, path, content):
    """Open a file on the page; the numbers and names that it shows of it."""
    path.write_bytes(content)
    page.set_input_files("#file", path)
    until(page, f"document.querySelector('#counts').innerText.startsWith('{path.name}')")
    return page.inner_text("#counts")


@pytest.mark.extra(needs="browser")
def test_the_first_row_of_a_file_without_a_header_is_classified(chromium, case, tmp_path):
    page = opened(chromium, case[2])
    rows = [f"{number},my card has not arrived yet number {number}" for number in range(3)]

    without = "\n".join(rows).encode()
    assert "it has no header, 3 texts" in classified(page, tmp_path / "a.csv", without)
    assert not page.is_checked("#header")

    named = b"id,message\n" + without
    assert "the first row is its header, 3 texts" in classified(page, tmp_path / "b.csv", named)
    assert page.is_checked("#header") and page.problems == []


@pytest.mark.extra(needs="browser")
def test_the_line_that_names_the_separator_is_no_row(chromium, case, tmp_path):
    page = opened(chromium, case[2])
    content = b"sep=;\r\nid;text\r\n1;where is my card, please?\r\n"
    assert "the first row is its header, 1 text" in classified(page, tmp_path / "a.csv", content)
    options = page.locator("#column option").all_inner_texts()
    assert options == ["id", "text"]


@pytest.mark.extra(needs="browser")
@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_a_chosen_file_clears_the_box(chromium, case, tmp_path, name):
    page = opened(chromium, case[2])
    page.fill("#texts", "an old text")
    classified(page, tmp_path / name, b"text\nmy card has not arrived\n")
    assert page.input_value("#texts") == ""


def test_the_title_names_the_classes_unless_another_is_given(case, tmp_path):
    model = case[0]

    export_html(model, tmp_path / "page.html", error=0.2)

    html = (tmp_path / "page.html").read_text()
    title = re.search("<title>(.*?)</title>", html)[1]
    n_named = title.count(", ") + 1
    others = f" and {len(model.classes_) - n_named} others"
    assert title.startswith(f"Text classifier: {model.classes_[0]}")
    assert title.endswith(others)
