"""Data and text inside HTML pages: the one place where either is escaped."""

import html
import json
import re
from typing import Any

_MARK = re.compile(r"@([A-Z]+)@")
# what could end or hide a script element, or end a line of JavaScript
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def script_json(data: Any) -> str:
    r"""JSON that may stand inside a <script> element, whatever texts it holds.

    >>> script_json({"text": "<!--<script>"})
    '{"text":"\\u003c!--\\u003cscript\\u003e"}'
    """
    return json.dumps(data, separators=(",", ":")).translate(_UNSAFE)


def fill(template: str, **parts: str) -> str:
    """Replace every mark such as @TITLE@ by its part, in one pass.

    Parts are inserted as they are, so a mark inside a part stays text. `escaped` makes HTML of
    plain text, `script_json` of data.

    >>> fill("<h1>@TITLE@</h1><p>@TEXT@</p>", TITLE="@TEXT@", TEXT=escaped("a < b"))
    '<h1>@TEXT@</h1><p>a &lt; b</p>'
    """
    return _MARK.sub(lambda mark: parts[mark[1]], template)


def escaped(text: Any) -> str:
    """Plain text as HTML, for elements and for attributes in quotes; invalid Unicode is replaced.

    >>> escaped('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(str(text).encode("utf-8", "replace").decode())
