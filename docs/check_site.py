"""Look at a built site: links inside it lead somewhere, nothing is fetched from elsewhere.

python docs/check_site.py docs/_build/html
"""

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
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        fetches = tag != "link" or "stylesheet" in (found.get("rel") or "")
        if tag in FETCHING and fetches and found.get(FETCHING[tag]):
            self.fetched.append(found[FETCHING[tag]])


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
    wrong = mistakes(site)
    print("\n".join(wrong))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{len(list(site.rglob('*.html')))} pages, {size / 1e6:.1f} MB, {len(wrong)} mistakes")
    raise SystemExit(bool(wrong))
