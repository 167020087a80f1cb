"""What normalise="paper" drops, the slow way."""

import unicodedata

from pacsent.text.normalise import tokenise_paper


def count_dropped(text: str) -> int:
    """Parts between spaces of which no token remains, although they are words or symbols."""
    lost = [part for part in text.split() if not tokenise_paper(part)]
    return sum(bool({unicodedata.category(c)[0] for c in part} & set("LNS")) for part in lost)
