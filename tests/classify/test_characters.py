"""Characters of words: texts without spaces, inflected and misspelt words."""

import numpy as np
import pytest

import pacsent
from pacsent import TextClassifier
from pacsent.certify.drift_monitor import monitors_of
from review_data import OTHER, draw_reviews


def draw_texts(write, n, seed=0):
    """Texts that `write` makes up for random classes, and the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    return [write(rng, label) for label in labels], labels


# ---- Texts without spaces ----

KIND = ["味道好", "很喜欢", "送得快"]
UNKIND = ["太难吃", "不新鲜", "等很久"]


def write_chinese(rng, label):
    words = rng.choice((UNKIND, KIND)[label], 2)
    others = rng.choice([*"我们今天的饭店菜"], 5)
    return "".join([*words, *others])


@pytest.mark.parametrize("n", [40, 150, 1200])
def test_texts_without_spaces_are_learnt_without_a_model_of_the_language(n):
    classifier = TextClassifier(None).fit(*draw_texts(write_chinese, n))

    explanation = classifier.explain("今天的饭味道好", 1)

    values = [value for _, value in explanation.words]
    assert classifier.score(*draw_texts(write_chinese, 100, seed=1)) > 0.95
    assert "".join(word for word, _ in explanation.words) == explanation.text
    assert min(values[-3:]) > max(values[:3])


def test_a_drift_monitor_knows_the_words_of_a_script_without_spaces():
    classifier = TextClassifier(None).fit(*draw_texts(write_chinese, 60))

    monitors = monitors_of(classifier, ["味道好", "味道xyz糟"])

    assert monitors[:, 0].tolist() == [3, 4]
    assert monitors[:, 1].tolist() == [0.0, 0.5]


# ---- Parts of words ----


def write_inflected(rng, label):
    """A text whose class is a part of its words that never stands alone."""
    ending = ("ung", "heit")[label]
    stems = [rng.choice([*"abcdefgh"], 5) for _ in range(4)]
    return " ".join("".join([*stem, ending]) for stem in stems)


@pytest.fixture(scope="module", params=[40, 120, 1500])
def inflected(request):
    """Texts of inflected words, and a classifier of them."""
    texts, labels = draw_texts(write_inflected, request.param)
    return texts, labels, TextClassifier(None).fit(texts, labels)


def test_characters_are_used_where_texts_left_out_show_that_they_help(inflected):
    texts, labels, classifier = inflected
    new_texts, new_labels = draw_texts(write_inflected, 200, seed=1)

    without = TextClassifier(None, characters=None).fit(texts, labels)

    score_without = without.score(new_texts, new_labels)
    assert classifier.selection_["character_weight"] >= 0.25
    assert classifier.score(new_texts, new_labels) > 0.95 > score_without
    assert len(without.characters_) == 0
    assert "character_weight" not in without.selection_


@pytest.mark.parametrize(("label", "ending"), [(0, "ung"), (1, "heit")])
def test_the_best_features_of_a_class_end_as_its_words(inflected, label, ending):
    _, _, classifier = inflected

    names = [name for name, _ in classifier.top_features(label, 20)]

    assert all(name.endswith(ending) for name in names)


def test_an_unknown_word_is_explained_by_its_characters(inflected):
    _, _, classifier = inflected

    explanation = classifier.explain("xxxxxheit", 1)

    [(_, value), *_] = explanation.words
    decision = classifier.decision_function(["xxxxxheit"])[0]
    assert explanation.from_characters > 0
    assert value > 0
    assert explanation.decision == pytest.approx(decision)


# ---- Misspelt words ----


def swap_letters(texts, seed=0):
    """The texts with two letters swapped in every word of four letters or more."""
    rng = np.random.default_rng(seed)

    def swap(word):
        if len(word) <= 3:
            return word
        at = rng.integers(1, len(word) - 1)
        return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]

    return [" ".join(map(swap, text.split())) for text in texts]


LONG_WORDS = [
    ["wonderful", "excellent", "delightful", "marvellous", "enchanting", "fascinating"],
    ["terrible", "horrible", "dreadful", "disappointing", "tiresome", "unconvincing"],
]


def write_long_words(rng, label):
    return " ".join([*rng.choice(LONG_WORDS[label], 2), *rng.choice(OTHER, 6)])


class Misspelt:
    """Texts of two or three classes, a classifier of them, and new texts with and without errors.

    The third class, of every third text, has a word of its own; new texts are of the first two.
    """

    def __init__(self, n, n_classes):
        self.n_classes = n_classes
        self.texts, self.labels = draw_texts(write_long_words, n)
        self.new_texts, self.new_labels = draw_texts(write_long_words, 200, seed=1)
        if n_classes == 3:
            self.add_third_class()
        self.misspelt = swap_letters(self.new_texts)
        self.classifier = TextClassifier(None).fit(self.texts, self.labels)

    def add_third_class(self):
        n = len(self.texts)
        self.labels = np.where(np.arange(n) < n // 3, 2, self.labels)
        last_words = ["nevertheless" if label == 2 else "town" for label in self.labels]
        self.texts = [f"{text} {word}" for text, word in zip(self.texts, last_words)]
        self.new_texts = [f"{text} town" for text in self.new_texts]

    def character_weights(self, texts):
        return self.classifier.fitted_.model.score_ngrams(texts).character_weights


@pytest.fixture(scope="module", params=[(40, 2), (150, 3), (1200, 2)], ids=str)
def misspelt(request):
    return Misspelt(*request.param)


def test_misspelt_words_are_known_by_their_characters(misspelt):
    without = TextClassifier(None, characters=None).fit(misspelt.texts, misspelt.labels)

    def gain(texts):
        labels = misspelt.new_labels
        return misspelt.classifier.score(texts, labels) - without.score(texts, labels)

    assert gain(misspelt.misspelt) > 0.2
    assert gain(misspelt.new_texts) >= 0


def test_characters_weigh_more_in_texts_of_unknown_words(misspelt):
    least = misspelt.classifier.character_weight_.least

    assert misspelt.character_weights(misspelt.new_texts).max() == least
    assert misspelt.character_weights(misspelt.misspelt).max() > least


@pytest.mark.parametrize("row", range(5))
def test_the_parts_of_an_explanation_with_characters_add_up(misspelt, row):
    text = misspelt.misspelt[row]
    decisions = np.ravel(misspelt.classifier.decision_function([text]))
    # With two classes there is one decision value, that of class 1.
    decision = decisions[0] if misspelt.n_classes == 2 else decisions[1]

    explanation = misspelt.classifier.explain(text, 1)

    parts = [
        explanation.from_ngrams,
        explanation.from_characters,
        explanation.from_vectors,
        explanation.intercept,
    ]
    assert explanation.decision == pytest.approx(decision, abs=1e-5)  # sums in single precision
    assert sum(parts) == pytest.approx(explanation.decision)
    assert explanation.from_characters != 0


def test_misspelt_texts_have_the_same_probabilities_in_any_batch(misspelt):
    texts = misspelt.misspelt[:20] + misspelt.new_texts[:20]

    one_by_one = [misspelt.classifier.predict_proba([text]) for text in texts]

    assert np.array_equal(np.concatenate(one_by_one), misspelt.classifier.predict_proba(texts))


def test_a_saved_classifier_knows_misspelt_words(misspelt, tmp_path):
    loaded = pacsent.load(pacsent.save(misspelt.classifier, tmp_path / "model"))

    proba = misspelt.classifier.predict_proba(misspelt.misspelt)
    assert np.array_equal(loaded.predict_proba(misspelt.misspelt), proba)


class TwiceWithOddWords:
    """Reviews that are there twice, with a word that no encoder knows."""

    def __init__(self):
        texts, self.labels = draw_reviews(60)
        self.texts = [f"{text} zzz{row // 2}" for row, text in enumerate(texts)]
        self.texts[1::2] = self.texts[::2]
        self.labels[1::2] = self.labels[::2]


def test_words_that_an_encoder_has_are_no_unknown_words_of_a_copied_text(words):
    data = TwiceWithOddWords()

    classifier = TextClassifier(words).fit(data.texts, data.labels)

    scored = classifier.fitted_.model.score_ngrams(["good great fine"])
    assert classifier.character_weight_.usual == pytest.approx(1 / 12)
    assert scored.character_weights.tolist() == [classifier.character_weight_.least]


def test_an_encoder_whose_words_are_not_known_has_one_weight_for_all_texts():
    data = TwiceWithOddWords()

    classifier = TextClassifier(lambda texts: [[len(text)] for text in texts])
    classifier.fit(data.texts, data.labels)

    scored = classifier.fitted_.model.score_ngrams(swap_letters(data.texts))
    assert classifier.character_weight_.usual == 1.0
    assert np.unique(scored.character_weights) == [classifier.character_weight_.least]
