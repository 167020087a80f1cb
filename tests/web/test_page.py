"""The server's page in a real browser: type, click, read the answer."""

import numpy as np
import pytest

pytest.importorskip("fastapi")

from browsers import open_page, until
from helpers import KEY, serve
from pacsent import CertifiedClassifier, Index, TextClassifier, make_encoder, save
from pacsent.web.settings import PAGE_FOLDER

pytestmark = pytest.mark.extra(needs="browser")
TEXTS = ["the cat slept on the sofa", "shares fell again in London", "a glass of red wine"]
HOSTILE = [
    "<!--<script> good film",
    "</script><script>window.hacked = 1</script> bad film",
    "<img src=x onerror='window.hacked = 1'> good",
    "@DATA@ @TITLE@ good film \u2028 line",
    "]]> --> </style></title> bad",
    "' \" ` ${window.hacked = 1} \\ \ud800 good",
]
FILMS = [  # with the same number of words of their own, so that no part of them differs
    f"a {k} film x{k[0]}{i} y{k[0]}{i} z{k[0]}{i}"
    for i in range(214)
    for k in ("good lovely", "bad boring")
]


@pytest.fixture(scope="module")
def encoder():
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


@pytest.fixture(scope="module")
def address(tmp_path_factory, encoder):
    """A server with an index and a calibrated classifier, which asks for a key."""
    folder = tmp_path_factory.mktemp("page")
    index = Index(encoder)
    index.add(TEXTS + [f"{word} number {i}" for i in range(60) for word in ("ship", "tea")])
    long_word = "y" * 300 + "@example.org"  # of an e-mail address
    index.add(["a good lovely film", f"a good film of {long_word}", "a lovely ship", *HOSTILE[:5]])
    save(index, folder / "index")
    plain = TextClassifier(None, ngrams=(1, 1))
    classifier = CertifiedClassifier(plain, calibration_size=0.4, random_state=0)
    save(classifier.fit(FILMS[:300], ["yes", "no"] * 150), folder / "classifier")
    (folder / "keys").write_text(KEY + "\n")
    models = [folder / "index", folder / "classifier"]
    server = serve(*models, "--api-key-file", folder / "keys")
    yield server.url + "/"
    server.end()


def opened(chromium, address, width=1440, scheme="light"):
    page = open_page(chromium, address, width, scheme=scheme)
    page.fill("#key", KEY)
    page.press("#key", "Enter")
    page.wait_for_selector("body[data-ready]", timeout=30_000)
    return page


def saved(chromium, path, html, **size):
    """A page that needs no server."""
    path.write_text(html, encoding="utf-8")
    return open_page(chromium, path.as_uri(), **size)


def test_typing_shows_words_class_neighbours_and_comparison(chromium, address):
    page = opened(chromium, address)
    page.fill("#text", "a good lovely zzqx cat")
    until(page, "document.querySelector('#words').innerText.includes('zzqx')")
    assert page.locator("#words .unknown").all_inner_texts() == ["zzqx"]
    until(page, "document.querySelector('#label').innerText.includes('yes')")
    assert "4 of 5 words are in the vocabulary" in page.inner_text("#spread")
    speaking = page.locator("#why tr td:first-child").all_inner_texts()
    assert {"good", "lovely"} & set(speaking[:2])
    until(page, "document.querySelector('#hits').innerText.includes('the cat slept')")
    page.fill("#other", "a good lovely zzqx cat")
    until(page, "document.querySelector('#compared').innerText.includes('1.000')")
    assert page.problems == []


def contrast(a, b):
    """The ratio of WCAG 2."""

    def light(color):
        parts = np.array(color[:3]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_phones_and_screens_by_day_and_night(chromium, address, width, scheme):
    page = opened(chromium, address, width, scheme)
    until(page, "document.querySelector('#label').innerText !== ''")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper, quiet = page.evaluate("""() => [["html", "color"], ["html", "backgroundColor"],
        [".quiet", "color"]].map(([part, name]) =>
        getComputedStyle(document.querySelector(part))[name].match(/\\d+/g).map(Number))""")
    assert (sum(ink) < sum(paper)) == (scheme == "light")
    assert contrast(ink, paper) > 7 and contrast(quiet, paper) > 4.5


def test_parts_are_named_and_nothing_comes_from_another_server(chromium, address):
    page = opened(chromium, address)
    assert "Classifier with the classes no, yes" in page.inner_text("#certificates h3")
    assert "confidence" in page.inner_text("#certificates")
    assert all(url.startswith(address) for url in page.requests)
    for path in PAGE_FOLDER.iterdir():
        text = path.read_text()
        assert "https://" not in text and "@import" not in text, path.name
    unnamed = page.evaluate("""[...document.querySelectorAll("input, textarea")]
        .filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)""")
    headless = page.evaluate("""[...document.querySelectorAll("section")]
        .filter(e => !document.getElementById(e.getAttribute("aria-labelledby"))).length""")
    assert unnamed == [] and headless == 0
    assert page.evaluate("document.querySelectorAll('[aria-live]').length") >= 6


def test_the_class_comes_first_and_one_word_is_one_reason(chromium, address):
    page = opened(chromium, address, width=360)
    page.fill("#text", "It was a good lovely film, it was good")
    until(page, "document.querySelector('#label').innerText.startsWith('yes, with probability')")
    words = [w.lower() for w in page.locator("#why tr td:first-child").all_inner_texts()]
    assert len(words) == len(set(words)) > 0
    page.fill("#text", "  ")
    until(page, "document.querySelector('#label').innerText === 'No class'")
    assert "empty" in page.inner_text("#abstained") and not page.is_visible("#reasons")
    page.fill("#text", "مرحبا 你好 wine")  # OOV words, in their direction
    until(page, "document.querySelectorAll('#words .unknown').length === 2")
    words = page.evaluate("[...document.querySelectorAll('#words .word')].map(w => w.textContent)")
    assert words == ["مرحبا", "你好", "wine"]
    for part in ("#text", "#words"):
        style = f"getComputedStyle(document.querySelector('{part}')).direction"
        assert page.evaluate(style) == "rtl"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.problems == []


def test_the_documentation_sends_requests(chromium, address):
    page = opened(chromium, address + "docs")
    section = page.locator("section", has_text="POST /classify")
    assert "true or false" in section.locator("table").inner_text()
    section.locator("summary").click()
    section.locator("textarea").fill('{"texts": "a good film", "error": 0.2}')
    section.locator("button").click()
    section.locator("pre").wait_for()
    assert '"label": "yes"' in section.locator("pre").inner_text()
    section.locator("textarea").fill('{"nonsense": 1}')
    section.locator("button").click()
    until(page, "document.body.innerText.includes('nonsense is not a field')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    assert page.problems == []


def test_the_guarantee_is_shown_with_its_comparison_and_not_for_other_topics(chromium, address):
    page = opened(chromium, address)
    likely = "of the answers to new texts from the same distribution are wrong"
    foreign = [f"refund order{i} of card{i} at shop{i}, bank{i} or till{i}" for i in range(128)]
    for texts, part, comparison in (
        (FILMS[:1], "#statement", "Not checked: no row has been compared yet."),
        (FILMS[300:], "#statement", "No alarm in"),
        (foreign, "#drift", "Guarantees do not apply"),
    ):
        page.evaluate("texts => ask('/classify', {texts})", texts)
        page.fill("#text", f"a good lovely film {len(texts)}")
        until(page, f"document.querySelector('{part}').innerText.includes({comparison!r})")
        assert (likely in page.inner_text("#statement")) == (part == "#statement")
    assert page.inner_text("#drift h3") == "No guarantee: the texts differ"
    red = "getComputedStyle(document.querySelector('#drift h3')).color"
    assert page.evaluate(red) == page.evaluate(red.replace("#drift h3", "#problem"))
    page.click("#reset")
    until(page, f"document.querySelector('#statement').innerText.includes({likely!r})")
    assert not page.is_visible("#drift") and page.problems == []


def test_a_long_word_does_not_widen_the_page_on_a_phone(chromium, address):
    page = opened(chromium, address, width=390)
    page.fill("#text", f"a good lovely film by {'x' * 400}@example.org")
    until(
        page,
        "document.querySelector('#words').innerText.includes('@') || "
        "document.querySelector('#words').innerText.includes('xxxx')",
    )
    until(page, "document.querySelector('#hits').innerText.includes('film')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_long_word_of_a_hit_does_not_widen_the_page_on_a_phone(chromium, address):
    page = opened(chromium, address, width=390)
    until(page, "document.querySelectorAll('#hits li').length > 0")
    page.evaluate("hitsInto($('hits'), [{text: `${'x'.repeat(300)}@example.org`, score: 0.5}])")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    hit = "document.querySelector('.hit')"
    assert page.evaluate(f"{hit}.scrollWidth <= {hit}.clientWidth")  # it wraps, nothing is cut


def test_a_hostile_text_is_only_text_on_the_page(chromium, address):
    page = opened(chromium, address)
    for text in HOSTILE[:5]:
        page.fill("#text", text)
        until(page, f"document.querySelector('#hits').innerText.includes({text.split()[0]!r})")
        assert page.evaluate("window.hacked") is None and page.problems == []


def test_a_hostile_text_is_only_text_in_an_explanation(chromium, tmp_path):
    plain = TextClassifier(None, ngrams=(1, 1))
    classifier = plain.fit(FILMS[:80], ["</h1><script>", "@DATA@"] * 40)
    for text in HOSTILE[:5]:
        page = saved(chromium, tmp_path / "why.html", classifier.explain(text).to_html())
        assert page.inner_text("h1").startswith(("</h1><script>", "@DATA@"))
        assert text.split()[0] in page.inner_text("body")
        assert page.evaluate("window.hacked") is None and page.problems == []


def test_class_names_of_a_report_are_readable_on_a_phone(chromium, tmp_path):
    names = ["card_payment_fee_charged", "transfer_not_received_by_recipient"]
    classifier = TextClassifier(None, ngrams=(1, 1)).fit(FILMS[:60], names * 30)
    html = classifier.report(FILMS[60:80], names * 10).to_html()
    page = saved(chromium, tmp_path / "report.html", html, width=390)
    cells = "[...document.querySelectorAll('td.left:first-child')]"
    assert page.evaluate(f"Math.min(...{cells}.map(cell => cell.offsetWidth))") >= 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
