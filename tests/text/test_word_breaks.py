"""Word boundaries against Unicode's own cases and against its rules, read one by one."""

import lzma
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacsent.text import word_breaks as breaks
from pacsent.text.word_breaks import _classes, characters_of, is_spaceless, words_of

CASES = Path(__file__).parents[1] / "data" / "word_breaks.txt.xz"
# a character of each class, two where a class joins two properties
KINDS = "\r\n\x85\u0308\u00ad\u200dカא" + "aⓂ'\".:,1_🇦 😀?東"
# all segments, where the tokeniser looks for those that are words: WB3, WB3d
OTHER = f"W+{breaks._REST}|{breaks._WORD}|{breaks._FLAG}|.{breaks._REST}"
SEGMENT = re.compile(f"CL|[CLN]|(?:{OTHER}){breaks._GLUED}")


def word_segments(text):
    spans = (match.span() for match in SEGMENT.finditer(text.translate(_classes())))
    return [text[start:end] for start, end in spans]


# The rules of UAX 29 as it states them, in its order: what stands left and right of a place, and
# whether it is inside a segment. WB4: those of VISIBLE do not see marks behind other characters.
RULES = [
    ("C$", "L", True), ("[CLN]$", "", False), ("", "[CLN]", False),  # WB3, WB3a, WB3b
    ("Z$", "[PB]", True), ("W$", "W", True), ("", "[XZ]", True),  # WB3c, WB3d, WB4
]  # fmt: skip
VISIBLE = [
    ("[ABH9]$", "[ABH9]"), ("[ABH]$", "[lbq][ABH]"), ("[ABH][lbq]$", "[ABH]"),  # WB5 to WB7
    ("H$", "q"), ("H$", "dH"), ("Hd$", "H"),  # WB7a to WB7c
    ("9[mbq]$", "9"), ("9$", "[mbq]9"), ("K$", "K"),  # WB11 to WB13
    ("[ABH9KE]$", "E"), ("E$", "[ABH9K]"), ("(^|[^R])(RR)*R$", "R"),  # WB13a to WB16
]  # fmt: skip


def by_rules(text):
    """Segments by the first rule that applies to each place."""

    def is_joined(left, right):
        for before, after, joined in RULES:
            if re.search(before, left) and re.match(after, right):
                return joined
        left, right = (re.sub("([^CLN])[XZ]+", r"\1", side) for side in (left, right))
        return any(re.search(before, left) and re.match(after, right) for before, after in VISIBLE)

    kinds = "".join(_classes()[ord(character)] for character in text)
    cuts = [i for i in range(1, len(text)) if not is_joined(kinds[:i], kinds[i:])]
    return [text[a:b] for a, b in pairwise([0, *cuts, len(text)])] if text else []


def test_all_cases_of_unicode_pass():
    lines = lzma.decompress(CASES.read_bytes()).decode().splitlines()[1:]
    assert len(lines) == 1823
    for line in lines:
        marks = [mark.split() for mark in line.strip("÷ ").split("÷")]
        parts = ["".join(chr(int(x, 16)) for x in mark if x != "×") for mark in marks]
        text = "".join(parts)
        assert word_segments(text) == parts == by_rules(text)


@settings(max_examples=300)
@given(st.text(st.sampled_from(KINDS), max_size=12))
@example("א'\u0308_")
@example("א'\u0308a")
@example("😀\u200dⓂa")
def test_segments_follow_the_rules(text):
    assert word_segments(text) == by_rules(text)


@given(st.text())
def test_segments_joined_are_the_text_and_words_are_segments(text):
    segments = word_segments(text)
    assert "".join(segments) == text
    words = words_of(text)
    if "\u200d" not in text:  # which may glue an emoji to a sign before it
        following = iter(segments)
        assert all(part in following for word in words for part in word_segments(word))
    for word in words:
        singles = [part for part in characters_of(word) if len(word_segments(part)) == 1]
        assert "".join(singles) == word


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("שלום עולם", ["שלום", "עולם"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("私はカメラ、アメリカ", ["私はカメラ", "アメリカ"]),
        ("ภาษา ไทย", ["ภาษา", "ไทย"]),
        ("カ_a 𠮷野家 x東京y", ["カ_a", "𠮷野家", "x", "東京", "y"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("naïve 👩‍🚀 🇩🇪🇫🇷 ok", ["naïve", "👩‍🚀", "🇩🇪", "🇫🇷", "ok"]),
    ],
)
def test_words_of_many_scripts(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("東京都", ["東", "東京", "京", "京都", "都"]),
        ("京", ["京"]),
        ("私はカメラを", ["私", "私は", "は", "カメラ", "を"]),
        ("カメラ", ["カメラ"]),
        ("ที่นี่", ["ที่", "ที่นี่", "นี่"]),  # vowels and tones above belong to their consonant
        ("l'été", ["l'été"]),
    ],
)
def test_a_run_without_spaces_gives_characters_and_pairs(word, parts):
    assert characters_of(word) == parts
    assert is_spaceless(word) == (word not in ("カメラ", "l'été"))
