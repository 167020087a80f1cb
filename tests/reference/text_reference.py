"""What normalize="paper" drops, the slow way."""

import unicodedata

from pacsent.text.normalize import tokenise_paper


def count_dropped(text: str) -> int:
    """Parts between spaces of which no token remains, although they are words or symbols."""
    lost = [part for part in text.split() if not tokenise_paper(part)]
    beyond = [[c for c in part if c > "\xbf" and not "\u2000" <= c <= "\u206f"] for part in lost]
    return sum(any(unicodedata.category(c)[0] in "LNS" for c in part) for part in beyond)
