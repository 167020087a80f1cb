"""Make the screenshots of docs/figures from today's pages: demo, exported page, page of `check`,
explanation, and the panels of docs/printed.md. Needs chromium, playwright and matplotlib.

    python docs/make_screenshots.py [NAME ...] [--demo FOLDER]

Without names, all are made. The text of each page is written beside its picture (NAME.txt);
tests/test_docs.py compares it with what the programs print.
"""

import argparse
import csv
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from make_html import explained_message, live_classifier, write_live_classifier

from pacsent.datasets import load_banking

FIGURES = Path(__file__).parent / "figures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = (1100, 900), (390, 844)
N_SHOWN = 4  # texts of the exported page


class Browser:
    """Chromium, driven by playwright."""

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        path = next(filter(None, map(shutil.which, BROWSERS)), None)
        self.driver = sync_playwright().start()
        self.chromium = self.driver.chromium.launch(executable_path=path, args=["--no-sandbox"])

    def open(self, address: str, size: tuple[int, int]):
        """A page in the light scheme."""
        viewport = {"width": size[0], "height": size[1]}
        page = self.chromium.new_context(viewport=viewport, color_scheme="light").new_page()
        page.goto(address)
        return page

    def wait(self, page, expression: str) -> None:
        """Wait until an expression is true; a page's policy may forbid the driver's own way."""
        for _ in range(600):
            if page.evaluate(expression):
                return
            time.sleep(0.1)
        raise TimeoutError(expression)

    def close(self) -> None:
        self.chromium.close()
        self.driver.stop()


def save(page, name: str, *, height: int | None = None, text_of: str = "body") -> None:
    """The picture, of at most `height` points, and the text of an element."""
    options = {"path": FIGURES / f"{name}.png", "full_page": True}
    if height is not None:
        width = page.viewport_size["width"]
        options["clip"] = {"x": 0, "y": 0, "width": width, "height": height}
    page.screenshot(**options)
    text = page.evaluate(f"document.querySelector('{text_of}').innerText")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    (FIGURES / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def demo(browser: Browser, folder: Path, demo_folder: Path | None) -> None:
    """The first page of `pacsent demo`, on a desktop and on a phone."""
    if demo_folder is None:
        demo_folder = folder / "demo"
        command = [sys.executable, "-m", "pacsent", "demo", "-o", str(demo_folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    address = (demo_folder / "index.html").resolve().as_uri()
    for name, size, height in (("demo-desktop", (1000, 900), 2200), ("demo-phone", PHONE, 2600)):
        page = browser.open(address, size)
        time.sleep(2)  # charts
        save(page, name, height=height)


def html(browser: Browser, folder: Path, demo_folder: Path | None) -> None:
    """The live classifier of docs/html.md: its new messages, messages about other intents."""
    path = folder / "classifier.html"
    write_live_classifier(path)
    _, _, new_texts = live_classifier()
    all_texts, all_intents = map(np.array, load_banking())
    _, known = load_banking(n_classes=12)
    others = all_texts[~np.isin(all_intents, known)][: len(new_texts)]
    texts_of = {"html-desktop": new_texts, "html-drifted": others, "html-phone": new_texts}
    for name, texts in texts_of.items():
        page = browser.open(path.as_uri(), PHONE if name == "html-phone" else DESKTOP)
        browser.wait(page, "!document.getElementById('classify').disabled")
        file = folder / "messages.csv"
        with file.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["message"], *([text] for text in texts)])
        page.set_input_files("#file", file)
        browser.wait(page, "!document.getElementById('results').hidden")
        browser.wait(page, "document.getElementById('working').hidden")
        page.evaluate("document.getElementById('verify').click()")
        browser.wait(page, "document.querySelectorAll('#checks li').length > 0")
        page.evaluate("document.querySelectorAll('#rows button')[2].click()")
        browser.wait(page, "document.getElementById('explanation')?.hidden === false")
        rows = "[...document.querySelectorAll('#rows tr:not(#explanation)')]"
        page.evaluate(f"{rows}.slice({N_SHOWN}).forEach(row => {{ row.hidden = true }})")
        save(page, name)


def explanation(browser: Browser, folder: Path, demo_folder: Path | None) -> None:
    """What `explain` shows of a message to a bank."""
    path = folder / "explanation.html"
    path.write_text(explained_message().to_html(top=6), encoding="utf-8")
    save(browser.open(path.as_uri(), (760, 420)), "explanation")


def check(browser: Browser, folder: Path, demo_folder: Path | None) -> None:
    """The page of `pacsent check` on labels of a simulated machine."""
    texts, intents = map(np.array, load_banking())
    order = np.random.default_rng(0).permutation(len(texts))[:1500]
    table = folder / "labelled.csv"
    with table.open("w", newline="", encoding="utf-8") as stream:
        rows = [(texts[row], intents[row], 0.9) for row in order.tolist()]
        csv.writer(stream).writerows([("text", "llm", "confidence"), *rows])
    command = [sys.executable, "-m", "pacsent", "check", str(table), "--label-column", "llm"]
    command += ["--score-column", "confidence", "--port", "0", "-o", str(folder / "checked")]
    server = subprocess.Popen([*command, "--no-browser"], stderr=subprocess.PIPE, text=True)
    try:
        address = next(
            found[0] for line in server.stderr if (found := re.search(r"http://\S+", line))
        )
        page = browser.open(address, (1040, 560))
        time.sleep(2)
        save(page, "check-desktop", height=560)
    finally:
        server.terminate()
        server.wait()


def printed(browser: Browser, folder: Path, demo_folder: Path | None) -> None:
    """Eight differences between the paper as printed and corrected."""
    import matplotlib.pyplot as plt

    from pacsent.paper.printed import figures

    _, axes = plt.subplots(2, 4, figsize=(15.1, 7.15), layout="constrained")
    figures.draw(axes)
    plt.savefig(FIGURES / "printed.png", dpi=80, metadata={"Software": None})


SCREENSHOTS: dict[str, Callable[[Browser, Path, Path | None], None]] = {
    "demo": demo,
    "html": html,
    "explanation": explanation,
    "check": check,
    "printed": printed,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCREENSHOTS))
    parser.add_argument("--demo", type=Path, help="folder of `pacsent demo`, if there is one")
    given = parser.parse_args()
    browser = Browser()
    with tempfile.TemporaryDirectory() as made:
        for name in given.names or SCREENSHOTS:
            SCREENSHOTS[name](browser, Path(made), given.demo)
    browser.close()
