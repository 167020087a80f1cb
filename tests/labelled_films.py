"""Texts of films for labelling: the first word decides the right label."""

GOOD_WORDS = ("lovely", "warm", "great", "sweet", "bright")
BAD_WORDS = ("boring", "cold", "awful", "sour", "dim")
BEGINNINGS = ("sun", "tea", "rain", "sea", "fox")
ENDINGS = ("rise", "pot", "bow", "side", "trail", "land", "room", "light")
NOUNS = [beginning + ending for beginning in BEGINNINGS for ending in ENDINGS]


def _make_texts():
    texts = []
    for i, words in enumerate(zip(GOOD_WORDS, BAD_WORDS)):
        for j in range(20):
            first_noun = NOUNS[(7 * i + j) % 40]
            second_noun = NOUNS[(i + 11 * j) % 40]
            texts += [f"{word} {first_noun} near the {second_noun} {i}{j}" for word in words]
    return texts


FILMS = _make_texts()


def right_label(text):
    first_word = text.split()[0]
    return "up" if first_word in GOOD_WORDS else "down"
