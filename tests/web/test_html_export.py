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
HOSTILE = [" ", "'", "a''b 'c d'", "don’t DON'T", "İst ΣΑΣ ß ẞ ſ K", "x" * 5000, "card " * 3000]
HOSTILE += ["👨‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷", "e\u0301 שלום ทำไม 我的卡丢了", "\u2028\x85\xa0card"]
HOSTILE += [MARKUP, "zq crdz 12", '"a", b\nc', "\tb;c", "\u200b\ufeff\u00ad", "ﬁ ℡ Ⅷ ½ ٣ €"]
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


def test_the_file_is_one_page_with_a_strict_policy(case):
    html = case[-1].read_text(encoding="utf-8")
    policy = re.search('Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    for content in re.findall("<(?:script|style)>(.*?)</", html, flags=re.S):
        assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() in policy
    assert "<title>a &lt; b</title>" in html
    assert "://" not in re.sub('octet-stream">[^<]*', "", html)
    scripts = "".join(html[html.index('"engine"') :].split("</script>"))
    assert not re.search("innerHTML|insertAdjacent|document.write|eval|fetch", scripts)


def test_what_cannot_be_exported_is_rejected_in_one_line(tmp_path):
    texts, labels = [f"{word} film {n}" for n in range(40) for word in ("good", "bad")], [0, 1] * 40
    sif = TextClassifier(make_encoder("SIF", "english")).fit(texts, labels)
    sets = TextClassifier(None).fit(texts, [{"a"}, {"b"}] * 40)
    fading = TextClassifier(as_search_encoder("english")).fit(texts, labels)
    cases = (sets, "one class per text"), (sif, "SIF"), (len, "Got"), (fading, "distilled")
    for model, message in cases:
        with pytest.raises(ValueError, match=message):
            export_html(model, tmp_path / "page.html")


@pytest.mark.extra(needs="browser")
def test_the_page_answers_as_python_does_and_sends_nothing(chromium, case, tmp_path):
    model, new, path = case
    page, texts = opened(chromium, path), [*HOSTILE, *new]
    if model.estimator_.encoder_ is not None:  # many texts, and one of five megabytes
        texts += [f"{new[i % 200]} {i}" for i in range(100_000)] + [" ".join(new * 400)[: 5 << 20]]
    classify(page, tmp_path / "new.csv", texts)
    with page.expect_download() as download:
        page.click("#download")
    with Path(download.value.path()).open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [row["message"] for row in rows] == texts and rows[0]["label"] == "?"
    own = ("prediction", "probability", "set", "abstained")
    empty = [row for row, text in zip(rows, texts) if is_empty(text)]
    assert empty and all(row[name] == "" for row in empty for name in own)
    assert {row["reason"] for row in empty} == {"no text"}
    rows = [row for row, text in zip(rows, texts) if not is_empty(text)]
    texts = [text for text in texts if not is_empty(text)]
    rule = AnswerRule(model, error=0.2)
    answers = rule.answer(texts)
    sets = [row["set"] for row in rows]
    names = [set(row_set.split(",")) for row_set in sets]
    inside = np.array([[name in row_names for name in model.classes_] for row_names in names])
    # thresholds are lowered by 1e-5, as weights are rounded: only scores just below one may differ
    is_at_threshold = np.abs(model.predict_log_proba(texts) - rule.set_levels) < 2e-5
    assert (inside >= answers.inside).all() and is_at_threshold.sum() < 10
    assert np.array_equal(inside[~is_at_threshold], answers.inside[~is_at_threshold])
    assert [row["prediction"] for row in rows] == model.classes_[answers.best].tolist()
    assert np.abs([float(row["probability"]) for row in rows] - answers.probability).max() < 1e-5
    assert len(set(sets)) > 5
    assert [row["abstained"] == "yes" for row in rows] == answers.abstained.tolist()
    assert [row["reason"] == "" for row in rows] == answers.covered.tolist()
    page.click(f"#rows tr:nth-child({HOSTILE.index(MARKUP) + 1}) button")
    until(page, f"document.querySelector('#words')?.innerText === {MARKUP!r}")
    assert abs(float(page.inner_text("#decision")) - model.explain(MARKUP).decision) < 2e-3
    page.click("#verify")
    until(page, "document.querySelectorAll('#checks li.right').length >= 4")
    assert page.locator("#checks li.wrong").count() == 0
    for content, message in MALFORMED.items():
        (tmp_path / "wrong.csv").write_bytes(content)
        page.set_input_files("#file", tmp_path / "wrong.csv")
        until(page, f"problem.innerText === {message!r}")
    assert page.evaluate("fetch('https://example.org').catch(() => 'refused')") == "refused"
    assert {request.partition(":")[0] for request in page.requests} == {"file", "blob"}
    assert page.title() == "a < b" and not page.problems


@pytest.mark.extra(needs="browser")
def test_other_texts_and_a_changed_certificate_are_noticed(chromium, case, tmp_path, monkeypatch):
    changed = case[0].certificate_.to_dict() | {"n_errors": 0}
    monkeypatch.setattr(type(case[0].certificate_), "to_dict", lambda certificate: changed)
    export_html(case[0], tmp_path / "x.html", error=0.2)
    page = opened(chromium, tmp_path / "x.html", width=390)
    page.click("#verify")
    until(page, "document.querySelectorAll('#checks li.wrong').length === 2")
    classify(page, tmp_path / "books.csv", [passage.text for passage in load_books()[:400]])
    assert "These texts differ" in page.inner_text("#drift") and page.is_visible("#lost")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.uncheck("#header")
    until(page, "counts.innerText.includes('401 texts')")


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
    export_html(case[0], tmp_path / "page.html", error=0.2)
    first = case[0].classes_[0]
    assert f"<title>Text classifier: {first}, " in (tmp_path / "page.html").read_text()
