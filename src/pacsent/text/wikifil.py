"""The markup rules of wikifil.pl, the filter that Nozawa and Sato clean their texts with.

They are used for MediaWiki dumps by `pacsent.text.cleaning`, record by record, and for single texts
by `normalize="wikifil"`.
"""

import re

# The rules of wikifil.pl, in its order; each is applied to a whole record.
_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rb"&amp;", b"&"),
        (rb"&lt;", b"<"),
        (rb"&gt;", b">"),
        (rb"<ref[^<]*</ref>", b""),
        (rb"<[^>]*>", b""),
        (rb"\[http:[^\] ]*", b"["),
        (rb"(?i)\|thumb", b""),
        (rb"(?i)\|left", b""),
        (rb"(?i)\|right", b""),
        (rb"(?i)\|[0-9]+px", b""),
        (rb"(?i)\[\[image:[^\[\]]*\|", b""),
        (rb"(?i)\[\[category:([^|\]]*)[^\]]*\]\]", rb"[[\1]]"),
        (rb"\[\[[a-z-]*:[^\]]*\]\]", b""),
        (rb"\[\[[^|\]]*\|", b"[["),
        (rb"\{\{[^}]*\}\}", b""),
        (rb"\{[^}]*\}", b""),
        (rb"[\[\]]", b""),
        (rb"&[^;]*;", b" "),
    )
]
_TAG = re.compile(rb"<.*>")  # replaced once, before the rules
# A record ends with ">", as in the Perl program.
RECORD = re.compile(rb"[^>]*>|[^>]+\Z")


def remove_markup(record: bytes) -> bytes:
    """One record without tags, references, link targets, templates and entities."""
    text = _TAG.sub(b"", record, count=1)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def remove_markup_of_text(text: str) -> str:
    """A text without markup, one space between its records, and letters as they are.

    The program prints only what stands between <text> and </text> of a dump, so nothing of a review
    or a message; here that condition is left out.

    >>> remove_markup_of_text("A film.<br /><br />See [[Berlin|the city]] &amp; {{stub}} more.")
    'A film.  See the city &  more.'
    """
    records = RECORD.findall(text.encode("utf-8", "surrogatepass"))
    visible = b" ".join(remove_markup(record) for record in records)
    return visible.decode("utf-8", "surrogatepass")
