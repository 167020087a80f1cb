"""Check a built site: links inside it work, nothing is fetched from elsewhere, and every page of
docs/ is the page that was built from it.

python docs/check_site.py docs/_build/html
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links, the anchors and what a browser would fetch."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[str] = []
        self._in_heading = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append("")
            self._in_heading = True
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        fetches = tag != "link" or "stylesheet" in (found.get("rel") or "")
        if tag in FETCHING and fetches and found.get(FETCHING[tag]):
            self.fetched.append(found[FETCHING[tag]])

    def handle_endtag(self, tag):
        if re.fullmatch("h[1-6]", tag):
            self._in_heading = False

    def handle_data(self, data):
        if self._in_heading:
            self.headings[-1] += data


def letters(text: str) -> str:
    """What is left of a heading in every notation: its letters and digits."""
    return "".join(filter(str.isalnum, text.casefold()))


def headings(source: Path) -> list[str]:
    """The headings of a page in Markdown, of the files that it includes too."""
    text = re.sub(
        r"^(```|~~~|:::).*?^\1", "", source.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    found = [
        re.sub(r"\]\([^)]*\)|\$.*?\$|\{.*?\}", "", line)
        for line in re.findall(r"^#{1,3} +(.+)$", text, re.M)
    ]
    for name in re.findall(r"^```\{include\} +(\S+)", source.read_text(encoding="utf-8"), re.M):
        found += headings(source.parent / name)
    return [letters(heading) for heading in found]


def replaced(site: Path, docs: Path) -> list[str]:
    """Pages that were not built, or that something else was written over."""
    found = []
    for source in sorted(docs.glob("*.md")):
        built = site / f"{source.stem}.html"
        if not built.exists():
            found.append(f"{built.name} is missing")
            continue
        there = [letters(heading) for heading in Page(built).headings]
        missing = [h for h in headings(source) if not any(h in other for other in there)]
        if missing:
            found.append(f"{built.name} is not built from {source.name}: it lacks {missing[0]!r}")
    return found


def mistakes(site: Path) -> list[str]:
    pages = {
        path.resolve(): Page(path) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        for link in page.fetched + page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                if link in page.fetched and not link.startswith("data:"):
                    found.append(f"{path.name} fetches {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                found.append(f"{path.name} links to {link}, which is missing")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                found.append(f"{path.name} links to {link}: there is no such place")
    return sorted(set(found))


if __name__ == "__main__":
    site = Path(sys.argv[1])
    wrong = mistakes(site) + replaced(site, Path(__file__).parent)
    print("\n".join(wrong))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{len(list(site.rglob('*.html')))} pages, {size / 1e6:.1f} MB, {len(wrong)} mistakes")
    raise SystemExit(bool(wrong))
