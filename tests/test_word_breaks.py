"""Word boundaries against Unicode's own cases and against its rules, read one by one."""

import lzma
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacsent.text import word_breaks as breaks
from pacsent.text.word_breaks import _classes, characters_of, is_spaceless, words_of

CASES = Path(__file__).parent / "data" / "word_breaks.txt.xz"
# a character of each class, two where a class joins two properties
KINDS = "\r\n\x85\u0308\u00ad\u200dカא" + "aⓂ'\".:,1_🇦 😀?東"
# all segments, where the tokeniser looks for those that are words: WB3, WB3d
OTHER = f"W+{breaks._REST}|{breaks._WORD}|{breaks._FLAG}|.{breaks._REST}"
SEGMENT = re.compile(f"CL|[CLN]|(?:{OTHER}){breaks._GLUED}")


def word_segments(text):
    spans = (match.span() for match in SEGMENT.finditer(text.translate(_classes())))
    return [text[start:end] for start, end in spans]


def by_rules(text):
    """Segments as UAX 29 states its rules: for every place, the first rule that applies."""
    kinds = [_classes()[ord(c)] for c in text]
    # WB4: what the rules after it see, and where in the text it is
    seen = [i for i, k in enumerate(kinds) if k not in "XZ" or i == 0 or kinds[i - 1] in "CLN"]
    previous = {}
    for i, kind in enumerate(kinds):
        before_newline = i and kinds[i - 1] in "CLN"
        previous[i] = i if kind not in "XZ" or i == 0 or before_newline else previous[i - 1]

    def at(i, step):
        """Class of the visible character `step` places from the visible one at i."""
        place = seen.index(i) + step
        return kinds[seen[place]] if 0 <= place < len(seen) else ""

    def joined(i):
        left, right = kinds[i - 1], kinds[i]
        if left == "C" and right == "L":
            return True
        if left in "CLN" or right in "CLN":
            return False
        if (left == "Z" and right in "PB") or (left == right == "W") or right in "XZ":
            return True
        one, two, base = kinds[previous[i - 1]], right, previous[i - 1]
        before, after = at(base, -1), at(i, 1)
        letter = set("ABH")
        alike = one in letter | {"9"} and two in letter | {"9"}
        inside = (one in letter and two in "lbq" and after in letter) or (
            before in letter and one in "lbq" and two in letter
        )
        hebrew = (
            (one == "H" and two == "q")
            or (one == "H" and two == "d" and after == "H")
            or (before == "H" and one == "d" and two == "H")
        )
        number = (before == "9" and one in "mbq" and two == "9") or (
            one == "9" and two in "mbq" and after == "9"
        )
        wide = one == two == "K"
        under = (one in "ABH9KE" and two == "E") or (one == "E" and two in "ABH9K")
        flags = 0
        for k in reversed(seen[: seen.index(base) + 1]):
            if kinds[k] != "R":
                break
            flags += 1
        return alike or inside or hebrew or number or wide or under or (two == "R" and flags % 2)

    parts = [text[:1]]
    for i in range(1, len(text)):
        if joined(i):
            parts[-1] += text[i]
        else:
            parts.append(text[i])
    return parts if text else []


def test_all_cases_of_unicode_pass():
    lines = lzma.decompress(CASES.read_bytes()).decode().splitlines()[1:]
    assert len(lines) == 1823
    for line in lines:
        marks = [mark.split() for mark in line.strip("÷ ").split("÷")]
        parts = ["".join(chr(int(x, 16)) for x in mark if x != "×") for mark in marks]
        text = "".join(parts)
        assert word_segments(text) == parts == by_rules(text)


@settings(deadline=None, max_examples=300)
@given(st.text(st.sampled_from(KINDS), max_size=12))
@example("א'\u0308_")
@example("א'\u0308a")
@example("😀\u200dⓂa")
def test_segments_follow_the_rules(text):
    assert word_segments(text) == by_rules(text)


@settings(deadline=None)
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
