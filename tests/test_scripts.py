"""Texts of every script in a real browser: direction, whole characters, no sideways scrolling."""

import pytest

from pacsent import TextClassifier, make_encoder
from pacsent.web import make_map, write_html

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


def test_a_map_shows_every_script(chromium, tmp_path):
    texts = [*TEXTS.values(), "a glass of red wine", "the cat slept", "shares fell"]
    vectorizer = make_encoder("SIF-sum", "english", on_empty="ignore").fit([])
    write_html(make_map(vectorizer, texts, ["class", "جيد"] * 4), tmp_path / "map.html")
    page = shown(chromium, tmp_path / "map.html")
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    for row, text in enumerate(texts):
        page.evaluate(f"map.pick({row})")
        seen = page.evaluate("document.querySelector('#picked').textContent")
        assert seen == f"{'جيد' if row % 2 else 'class'}: {text}"
        assert direction(page, "#picked") == ("rtl" if row == 0 else "ltr")
    assert fits(page)
    family = "👩‍👩‍👧‍👦"  # a shortened text ends with a whole character
    seen = page.evaluate("([text, most]) => shortened(text, most)", [f"ab{family}{family}", 20])
    assert seen == f"ab{family}…" and page.evaluate("shortened('abc', 3)") == "abc"
