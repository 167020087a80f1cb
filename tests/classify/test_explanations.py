"""Explanations of a prediction by words, and pages of them."""

import html
import re
import unicodedata

import numpy as np
import pytest

from pacsent import TextClassifier, Vocabulary, WordVectors, make_encoder
from review_data import BAD, GOOD, draw_reviews

# ---- Features of a class ----


@pytest.mark.parametrize("selection", ["loss", "folds"])
def test_top_features_are_the_words_of_the_class(words, selection):
    classifier = TextClassifier(words, selection=selection).fit(*draw_reviews(300))

    [(best_of_good, _), *_] = classifier.top_features("good", 3)
    features_of_bad = classifier.top_features("bad", 50)

    weights = [weight for _, weight in features_of_bad]
    assert best_of_good in GOOD
    assert features_of_bad[0][0] in BAD
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize("n", [-1, 0, 1.5, True, "x"])
def test_the_number_of_top_features_must_be_an_integer_of_at_least_1(reviewer, n):
    with pytest.raises(ValueError, match="n must be an integer of at least 1"):
        reviewer.top_features("good", n)


# ---- Parts of an explanation ----

ALPHABETS = {
    "letters": [*"aBIt ,.!'’", "İ", "ß", "ſ", "good ", "It ", "it ", "film"],
    "the whole of Unicode": [chr(i) for i in [*range(32, 0xD800, 7), *range(0xE000, 0x1FFFF, 31)]],
    "marks and spaces": [*" \t\n\u00a0\u3000\u0307\u0301\u200d.-–—\"'’", "é", "Ω", "Σ", "good"],
    "lone surrogates": ["\ud800", "\udfff", "good", " ", "é"],
}


@pytest.fixture(scope="module", params=["paper", "unicode", str.split])
def normalising(words, request):
    """A classifier whose words are normalised in one of these ways."""
    names = [*words.vocabulary.words, "It", "é", "日", "ß", "isn't"]
    table = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    vectors = WordVectors(Vocabulary(names, normalize=request.param), table, table)
    texts, labels = draw_reviews(60)
    texts += ["It it İ é ß Ω", "It 日 é"]
    return TextClassifier(vectors).fit(texts, [*labels, "good", "bad"])


@pytest.fixture(params=ALPHABETS)
def random_texts(request):
    """Twenty texts of random characters of an alphabet, each with a class to explain and its sign.

    Decision values are those of the class "good".
    """
    rng = np.random.default_rng(0)
    characters = ALPHABETS[request.param]
    texts = ["".join(rng.choice(characters, rng.integers(1, 40))) for _ in range(20)]
    return list(zip(texts, ["good", "bad"] * 10, [1, -1] * 10))


@pytest.mark.filterwarnings("ignore")
def test_the_explained_decision_is_that_of_the_classifier(normalising, random_texts):
    for text, label, sign in random_texts:
        explanation = normalising.explain(text, label)
        decision = normalising.decision_function([text])[0]
        assert explanation.decision == pytest.approx(sign * decision, abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_the_parts_of_vectors_and_intercept_have_the_weight_of_words(normalising, random_texts):
    coef = normalising.coef_dense_[:, 0].astype(float)

    for text, label, sign in random_texts:
        explanation = normalising.explain(text, label)
        vector = np.asarray(normalising.encoder_.transform([text]), float)[0]
        weight = normalising.fitted_.model.score_ngrams([text]).character_weights[0]
        from_words = (1 - weight) * normalising.intercept_
        intercept = from_words + weight * normalising.intercept_characters_

        from_vectors = (1 - weight) * sign * (vector @ coef)
        assert explanation.from_vectors == pytest.approx(from_vectors, abs=1e-6)
        assert explanation.intercept == pytest.approx(sign * intercept[0])


@pytest.mark.filterwarnings("ignore")
def test_the_values_of_words_add_up_to_those_of_features(normalising, random_texts):
    for text, label, _ in random_texts:
        explanation = normalising.explain(text, label)

        of_words = sum(value for _, value in explanation.words) + explanation.vector_remainder
        of_features = (
            explanation.from_ngrams + explanation.from_characters + explanation.from_vectors
        )
        assert of_words == pytest.approx(of_features)


@pytest.mark.filterwarnings("ignore")
def test_the_words_of_an_explanation_are_parts_of_the_text(normalising, random_texts):
    for text, label, _ in random_texts:
        explanation = normalising.explain(text, label)

        parts = [text[start:end] for start, end in explanation.spans]
        assert parts == [word for word, _ in explanation.words]
        assert explanation.to_terminal().plain == text


@pytest.mark.filterwarnings("ignore")
def test_the_predicted_class_is_explained_by_default(normalising, random_texts):
    for text, _, _ in random_texts:
        assert normalising.explain(text).label == normalising.predict([text])[0]


def test_a_mark_never_cuts_a_character():
    texts = ["สวัสดีครับ", "แย่มาก"] * 20
    classifier = TextClassifier(None).fit(texts, ["good", "bad"] * 20)
    text = "สวัสดีครับ 1️⃣ cafe\u0301"

    segments = [segment for segment, _, _ in classifier.explain(text).segments()]

    first_categories = {unicodedata.category(segment[0])[0] for segment in segments}
    assert "".join(segments) == text
    assert "M" not in first_categories


# ---- Words and other contributions ----


@pytest.fixture(scope="module")
def reviewer(words):
    """A classifier of 100 reviews."""
    return TextClassifier(words).fit(*draw_reviews(100))


def test_a_word_is_listed_once_whatever_its_case(reviewer):
    explanation = reviewer.explain("Good good GOOD film")

    values = dict(explanation.by_word())
    of_good = [value for _, value in explanation.words[:3]]
    ngrams = [name for name, _ in explanation.ngrams]
    assert sorted(values) == ["film", "good"]
    assert values["good"] == pytest.approx(sum(of_good))
    assert ngrams.count("good") <= 1


LONG_REVIEW = "a good film of town people and it was warm"


@pytest.mark.parametrize("top", [None, 2])
def test_contributions_add_up_to_the_decision(reviewer, top):
    explanation = reviewer.explain(LONG_REVIEW, "good")

    contributions = explanation.contributions() if top is None else explanation.contributions(top)

    total = sum(value for _, value in contributions)
    assert total == pytest.approx(explanation.decision, abs=1e-3)


def test_a_word_is_shown_with_its_contribution(reviewer):
    explanation = reviewer.explain(LONG_REVIEW, "good")

    value = dict(explanation.contributions())["good"]

    assert f"{value:+.3f}  good" in str(explanation)
    assert f"<td>{value:+.3f}</td>" in explanation.to_html()


def test_a_page_of_the_first_contributions_sums_up_the_others(reviewer):
    assert "other words" in reviewer.explain(LONG_REVIEW, "good").to_html(top=2)


def test_vectors_that_are_no_sums_of_words_are_a_contribution_of_no_word(words):
    classifier = TextClassifier(make_encoder("PB-L2", words)).fit(*draw_reviews(100))

    explanation = classifier.explain("a good film", "good")

    assert explanation.vector_remainder == pytest.approx(explanation.from_vectors) != 0
    assert "in no single word" in str(explanation)
    assert "in no single word" in explanation.to_html()


# ---- Pages ----

HOSTILE = "a good </script><b>film</b> & <!--<script>"


def test_texts_are_escaped_in_pages(reviewer):
    page = reviewer.explain(HOSTILE).to_html()

    shown = html.unescape(re.sub("<[^>]+>", "", page))
    assert HOSTILE in shown
    for tag in ("<b>", "<!--", "<script"):
        assert tag not in page


def luminance(rgb):
    """The relative luminance of a colour, by WCAG 2."""
    srgb = np.array(rgb) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def find_hex_color(css, name):
    digits = re.search(f"--{name}:#(\\w+)", css)[1]
    return np.array(list(bytes.fromhex(digits)), float)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("mark", ["for", "against"])
def test_marked_words_are_readable_in_both_colour_schemes(reviewer, scheme, mark):
    light, dark = reviewer.explain(HOSTILE).to_html().split("prefers-color-scheme:dark")
    css = {"light": light, "dark": dark}[scheme]
    ink = luminance(find_hex_color(css, "text"))
    page_color = find_hex_color(css, "page")
    mark_color = np.array(re.search(f"--{mark}:([\\d ]+)", css)[1].split(), float)

    for opacity in np.linspace(0, 1, 11):
        background = luminance(opacity * mark_color + (1 - opacity) * page_color)
        contrast = (max(ink, background) + 0.05) / (min(ink, background) + 0.05)
        assert contrast >= 4.5


def test_a_page_of_top_features_has_a_section_for_each_class(reviewer):
    page = reviewer.top_features_html(3)

    [(best, _)] = reviewer.top_features("bad", 1)
    assert page.count("<h2") == 2
    assert best in page
