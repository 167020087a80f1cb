"""The labelling page in a real browser: sixty texts by keyboard, killed and resumed."""

import signal

import pytest

pytest.importorskip("fastapi")

from browsers import open_page, until
from helpers import Running
from test_labelling import TEXTS, right

pytestmark = pytest.mark.extra(needs="browser")
HOSTILE = "</script><img src=x onerror='window.hacked = 1'> lovely <b>film</b>"


@pytest.fixture
def run():
    """A function that starts a command with pages; it is killed in the end."""
    servers = []
    yield lambda *command, **how: servers.append(Running(*command, **how)) or servers[-1]
    for server in servers:
        server.end(signal.SIGKILL)


def correct(page):
    """Answer as a person who knows that the first 60 labels are wrong; Enter accepts a label."""
    shown, row = page.evaluate("document.body.dataset.shown"), int(page.inner_text("#text")[4:])
    is_accepted = row >= 60 and "machine's label:" in page.inner_text("#guess")
    page.keyboard.press("Enter" if is_accepted else "12"[(row % 2 == 1) == (row >= 60)])
    until(page, f"document.body.dataset.shown > {shown}")


def test_labels_of_a_machine_are_checked_killed_and_resumed(chromium, run, tmp_path):
    path, names = tmp_path / "m.csv", ",".join(f"x_{i:02}" for i in range(20))
    options = f"--score-column trust --error 0.02 --random-state 1 --labels {names} --port 0"
    lines = (f"{['down', 'up'][i % 2]},{i},row {i}\n" for i in range(2000))
    path.write_text("label,trust,text\n" + "".join(lines))
    command = ["check", path, *options.split(), "--no-browser"]
    server = run(*command)
    page = opened(chromium, server.urls[0])
    assert page.title() == "Checking a machine's labels" and page.is_visible("#skip")
    assert page.inner_text("#guess") == "" and "sample" in page.inner_text("#certified")
    while n_labels(page) < 40:
        correct(page)
    server.end(signal.SIGKILL)
    server = run(*command)
    page = opened(chromium, server.urls[0], width=390, height=844)
    assert n_labels(page) == 40 and page.evaluate("document.body.scrollWidth <= innerWidth")
    text, answers = (page.locator(name).bounding_box() for name in ("#text", "#answers"))
    assert text["y"] + text["height"] <= answers["y"] < 544 and answers["height"] < 430
    for key in ("/", *"X 07"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    until(page, "document.body.dataset.n == 41 && document.querySelector('#find').value === ''")
    page.keyboard.press("Escape")
    while page.get_attribute("body", "class") != "many reached":
        correct(page)
    assert page.inner_text("#goal").replace("\xa0", " ").startswith("Done: at most 1.9% of the")
    until(page, "document.querySelector('#written').textContent.includes('labels.csv')")
    assert server.process.wait(20) == 0  # it stops by itself
    table = (tmp_path / "m-checked" / "labels.csv").read_text()
    assert table.count(",machine,") == 2000 - table.count(",person,") > 1000
    assert "down,0,row 0,up,person" in table and ",x_07,person" in table and page.problems == []


@pytest.fixture
def start(run, tmp_path):
    """A function that starts `pacsent label` on the same texts, again after it was killed."""
    texts = tmp_path / "films.csv"
    texts.write_text("text\n" + "".join(f'"{text}"\n' for text in [*TEXTS, HOSTILE]))
    command = ["label", texts, "--labels", "up,down", "--encoder", "none", "--port", "0"]
    command += ["--no-browser", "--goal", "0.5", "--random-state", "1"]
    return lambda: run(*command, "--annotator", "ann", "--annotator", "ben", n_urls=2)


def opened(chromium, address, **size):
    page = open_page(chromium, address, **size)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    return page


def n_labels(page):
    return int(page.evaluate("document.body.dataset.n"))


def label(page, n):
    for _ in range(n):
        shown, text = page.evaluate("document.body.dataset.shown"), page.inner_text("#text")
        page.keyboard.press("1" if "lovely" in text or right(text) == "up" else "2")
        until(page, f"document.body.dataset.shown > {shown}")


def test_sixty_texts_by_keyboard_killed_and_resumed(chromium, start, tmp_path):
    server = start()
    page = opened(chromium, server.urls[0])
    label(page, 35)
    server.end(signal.SIGKILL)
    page.keyboard.press("1")  # nobody answers: the page says so, and the text stays
    page.wait_for_selector("#problem:not([hidden])")
    assert "Connection lost. Saved labels are safe." in page.inner_text("#problem")
    server = start()
    page = opened(chromium, server.urls[0])
    assert n_labels(page) == 35
    label(page, 60 - n_labels(page))
    page.keyboard.press("u")
    until(page, "document.body.dataset.n == 59")
    page.keyboard.press("s")
    until(page, "document.querySelector('#about').innerText.includes('1 skipped')")
    label(page, 3)
    assert "Certified: the error rate is at most" in page.inner_text("#certified")
    assert "Goal reached: at most 50.0% with 95%" in page.inner_text("#goal").replace("\xa0", " ")
    assert page.title() == "✓ Goal reached"
    assert page.problems == [] and page.evaluate("window.hacked") is None
    assert all(url.startswith(server.url) for url in page.requests)  # no network
    server.end(signal.SIGINT)
    assert (tmp_path / "films-labels" / "labels.csv").read_text().count(",evaluate") >= 28
    assert (tmp_path / "films-labels" / "certificate.json").exists()


def test_two_tabs_and_a_phone_get_different_texts(chromium, start):
    server = start()
    first, second = (opened(chromium, server.urls[0]) for _ in range(2))
    phone = opened(chromium, server.urls[1], width=390, height=844)
    assert len({page.inner_text("#text") for page in (first, second, phone)}) == 3
    label(first, 1)
    label(second, 1)
    assert n_labels(second) == 2
    phone.locator("#answers button").first.click()
    until(phone, "document.body.dataset.n == 3")
    assert phone.locator("#answers button").first.bounding_box()["height"] >= 40
    text = "الطعام لذيذ جدًا 👍🏽"  # is shown from right to left
    parts = "{text, pieces: [[text.slice(0, 6), 1], [text.slice(6), 0]], row: 0}"
    phone.evaluate(f"text => show({{...{parts}, guess: null, stream: 'train'}})", text)
    assert phone.evaluate("document.querySelector('#text').textContent") == text
    assert phone.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "rtl"
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert first.problems == second.problems == phone.problems == []
