"""Texts of every script in a real browser: direction, whole characters, no sideways scrolling."""

import pytest

from browsers import until
from pacsent import TextClassifier
from pacsent.web import make_map

pytestmark = pytest.mark.extra(needs="browser")
TEXTS = {
    "arabic": "الطعام لذيذ جدًا والخدمة سريعة 👍🏽",
    "japanese": "この店のラーメンは本当に美味しい！また行きたいです😋",
    "hindi": "खाना बहुत अच्छा था, सेवा भी अच्छी थी",
    "thai": "อาหารอร่อยมาก บริการดีเยี่ยม",
    "emoji": "Lovely café 👩‍👩‍👧‍👦 ❤️‍🔥 1️⃣ 🇯🇵, très bon",
}
BAD = [
    "الطعام سيئ والخدمة بطيئة", "この店はまずいし遅い、もう行かない", "खाना बुरा था, सेवा धीमी थी",
    "อาหารแย่มาก บริการช้า", "Awful café 😡, très mauvais",
]  # fmt: skip
CLUSTERS = "[...new Intl.Segmenter().segment({})].map(one => one.segment)"


@pytest.fixture(scope="module")
def classifier():
    texts = [*TEXTS.values(), *BAD] * 8
    return TextClassifier(None).fit(texts, (["جيد"] * 5 + ["悪い"] * 5) * 8)


def shown(chromium, path, width=360):
    page = chromium.new_page(viewport={"width": width, "height": 740})
    page.goto(path.as_uri())
    return page


def direction(page, selector):
    return page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).direction")


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("script", TEXTS)
def test_an_explanation_shows_every_script(chromium, classifier, tmp_path, script):
    text = TEXTS[script]
    path = tmp_path / "why.html"
    path.write_text(classifier.explain(text, "جيد").to_html(), encoding="utf-8")
    page = shown(chromium, path)
    assert page.evaluate("document.querySelector('p[lang=\"\"]').textContent") == text
    assert direction(page, 'p[lang=""]') == ("rtl" if script == "arabic" else "ltr")
    assert direction(page, "h1") == "rtl"
    assert page.locator("mark").count() >= 3
    pieces = "[...document.querySelector('p[lang=\"\"]').childNodes].map(one => one.textContent)"
    cut = page.evaluate(f"{pieces}.flatMap(piece => {CLUSTERS.format('piece')})")
    whole = page.evaluate(CLUSTERS.format("document.querySelector('p[lang=\"\"]').textContent"))
    assert cut == whole
    assert fits(page)


def test_a_report_and_the_features_name_classes_of_every_script(chromium, classifier, tmp_path):
    texts = [*TEXTS.values(), *BAD]
    labels = ["جيد"] * 5 + ["悪い"] * 5
    for name, page_ in {
        "report": classifier.report(texts, labels).to_html(),
        "features": classifier.top_features_html(),
    }.items():
        (tmp_path / f"{name}.html").write_text(page_, encoding="utf-8")
        page = shown(chromium, tmp_path / f"{name}.html")
        assert fits(page)
        for label in classifier.classes_:
            assert label in page.inner_text("body")
    assert direction(page, "h2") == "rtl"


@pytest.mark.parametrize("script", TEXTS)
def test_the_chart_of_a_map_shows_every_script(chromium, tmp_path, script):
    html = make_map("english", [TEXTS[script]], [TEXTS[script]])
    (tmp_path / "map.html").write_text(html, encoding="utf-8")
    page = shown(chromium, tmp_path / "map.html")
    until(page, "document.body.dataset.drawn === 'yes'")
    page.locator(".mark-symbol.role-mark path").hover(force=True)
    until(page, "document.querySelector('#vg-tooltip-element.visible')")
    cells = page.locator("#vg-tooltip-element td.value").all_inner_texts()
    assert cells == [TEXTS[script]] * 2
    assert fits(page)
