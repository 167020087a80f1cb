"""The labelling page in a real browser: sixty texts by keyboard, killed and resumed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
playwright = pytest.importorskip("playwright.sync_api")

from browsers import NEEDS_BROWSER  # noqa: E402
from test_labelling import TEXTS, right  # noqa: E402

pytestmark = NEEDS_BROWSER
PICTURES = os.environ.get("PACSENT_PICTURES")  # a folder for screenshots
HOSTILE = "</script><img src=x onerror='window.hacked = 1'> lovely <b>film</b>"


class Server:
    """`pacsent label`, which can be killed and started again at the same address."""

    def __init__(self, folder):
        texts = folder / "films.csv"
        lines = "".join(f'"{text}"\n' for text in [*TEXTS, HOSTILE])
        texts.write_text("text\n" + lines)
        self.command = [
            sys.executable, "-m", "pacsent", "label", texts, "--labels", "up,down", "--words",
            "none", "--port", "18766", "--no-browser", "--goal", "0.38", "--random-state", "4",
            "--annotator", "ann", "--annotator", "ben",
        ]  # fmt: skip
        self.folder = folder / "films-labels"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.addresses = []
        while len(self.addresses) < 2:
            line = self.process.stderr.readline()
            assert self.process.poll() is None
            if "Label at" in line:
                self.addresses.append(line.split()[2])

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(60)


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    if made.process.poll() is None:
        made.kill()


def opened(chromium, address, width=1280, height=800):
    page = chromium.new_context(viewport={"width": width, "height": height}).new_page()
    page.problems, page.asked = [], []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    for _ in range(100):
        try:
            page.goto(address)
            break
        except playwright.Error:
            page.wait_for_timeout(100)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    return page


def n_labels(page):
    return int(page.evaluate("document.body.dataset.n"))


def until(page, expression):
    """Wait until it is true; the page's policy forbids the driver's own way, an eval."""
    for _ in range(900):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(expression)


def label(page, n):
    for _ in range(n):
        shown, text = page.evaluate("document.body.dataset.shown"), page.inner_text("#text")
        page.keyboard.press("1" if "lovely" in text or right(text) == "up" else "2")
        until(page, f"document.body.dataset.shown > {shown}")


def pictured(page, name):
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"label-{name}.png"), full_page=True)


def test_sixty_texts_by_keyboard_killed_and_resumed(chromium, server):
    page = opened(chromium, server.addresses[0])
    label(page, 35)
    pictured(page, "desktop-first")
    server.kill()
    page.keyboard.press("1")  # nobody answers: the page says so, and the text stays
    page.wait_for_selector("#problem:not([hidden])")
    assert "The server does not answer" in page.inner_text("#problem")
    pictured(page, "desktop-stopped")
    server.start()
    page = opened(chromium, server.addresses[0])
    assert n_labels(page) == 35
    label(page, 60 - n_labels(page))
    page.keyboard.press("u")
    until(page, "document.body.dataset.n == 59")
    page.keyboard.press("s")
    until(page, "document.querySelector('#about').innerText.includes('1 skipped')")
    label(page, 3)
    assert "Certified: the error rate is at most" in page.inner_text("#certified")
    assert (
        page.inner_text("#goal").replace("\xa0", " ").startswith("Stop: at most 38.0 % with 95 %")
    )
    assert page.title() == "✓ Goal reached"
    pictured(page, "desktop")
    assert page.problems == [] and page.evaluate("window.hacked") is None
    assert all(url.startswith("http://127.0.0.1:18766/") for url in page.asked)  # no network
    server.kill(signal.SIGINT)
    assert (server.folder / "labels.csv").read_text().count(",judge") >= 28
    assert (server.folder / "certificate.json").exists()


def test_two_tabs_and_a_phone_get_different_texts(chromium, server):
    first = opened(chromium, server.addresses[0])
    second = opened(chromium, server.addresses[0])
    phone = opened(chromium, server.addresses[1], 390, 844)
    texts = {page.inner_text("#text") for page in (first, second, phone)}
    assert len(texts) == 3
    label(first, 1)
    label(second, 1)
    assert n_labels(second) == 2
    phone.locator("#answers button").first.click()
    until(phone, "document.body.dataset.n == 3")
    wide = phone.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide and phone.locator("#answers button").first.bounding_box()["height"] >= 40
    label(first, 45)
    phone.reload()
    phone.wait_for_selector("body[data-ready]")
    pictured(phone, "phone")
    assert first.problems == second.problems == phone.problems == []


def test_a_text_from_right_to_left_is_shown_so(chromium, server):
    page = opened(chromium, server.addresses[0], width=360)
    text = "الطعام لذيذ جدًا 👍🏽"
    page.evaluate(
        "text => show({text, pieces: [[text.slice(0, 6), 1], [text.slice(6), 0]], row: 0, "
        "guess: null, stream: 'teach'})", text,
    )  # fmt: skip
    assert page.evaluate("document.querySelector('#text').textContent") == text
    assert page.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "rtl"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.problems == []
