"""The labelling page in a real browser: sixty texts by keyboard, killed and resumed."""

import signal

import pytest

pytest.importorskip("fastapi")

from browsers import open_page, until
from helpers import Running
from labelled_films import FILMS, right_label

pytestmark = pytest.mark.extra(needs="browser")
HOSTILE = "</script><img src=x onerror='window.hacked = 1'> lovely <b>film</b>"


N_ROWS = 2000
N_WRONG = 60  # the machine's labels of the first rows are wrong, those of all others right
CLASSES = ("down", "up")


@pytest.fixture(scope="module")
def run():
    """A function that starts a command with pages; all of them are killed in the end."""
    servers = []

    def start_server(*command, **options):
        server = Running(*command, **options)
        servers.append(server)
        return server

    yield start_server
    for server in servers:
        server.end(signal.SIGKILL)


def answer(page):
    """Answer as a person who knows the right labels; Enter accepts the machine's label."""
    shown = page.evaluate("document.body.dataset.shown")
    row = int(page.inner_text("#text").removeprefix("row "))
    machine_is_right = row >= N_WRONG
    machine_label = row % 2
    right_label = machine_label if machine_is_right else 1 - machine_label

    shows_machine_label = "machine's label:" in page.inner_text("#guess")
    if machine_is_right and shows_machine_label:
        page.keyboard.press("Enter")
    else:
        page.keyboard.press(str(right_label + 1))  # the keys are counted from 1
    until(page, f"document.body.dataset.shown > {shown}")


def answer_by_name(page, name):
    """Find one of many labels by typing a part of its name."""
    page.keyboard.press("/")
    for key in name:
        page.keyboard.press(key)
    page.keyboard.press("Enter")


@pytest.fixture(scope="module")
def check_command(tmp_path_factory):
    """`pacsent check` of a table with 2,000 labels of a machine and twenty unused labels."""
    table = tmp_path_factory.mktemp("check") / "m.csv"
    rows = [f"{CLASSES[row % 2]},{row},row {row}\n" for row in range(N_ROWS)]
    table.write_text("label,trust,text\n" + "".join(rows))
    unused_labels = [f"x_{number:02}" for number in range(20)]
    options = ["--score-column", "trust", "--error", "0.02", "--random-state", "1"]
    options += ["--labels", ",".join([*CLASSES, *unused_labels]), "--port", "0", "--no-browser"]
    return ["check", table, *options]


@pytest.fixture(scope="module")
def first_page(chromium, run, check_command):
    """The page with forty answers; its server is killed without warning."""
    server = run(*check_command)
    page = opened(chromium, server.urls[0])
    page.first_title = page.title()
    page.first_guess = page.inner_text("#guess")
    page.first_statement = page.inner_text("#certified")
    page.offers_skip = page.is_visible("#skip")
    while n_labels(page) < 40:
        answer(page)
    server.end(signal.SIGKILL)
    return page


@pytest.fixture(scope="module")
def phone(chromium, run, check_command, first_page):
    """The same session on a phone, after the server was started again."""
    server = run(*check_command)
    page = opened(chromium, server.urls[0], width=390, height=844)
    page.server = server
    page.n_labels_at_start = n_labels(page)
    return page


@pytest.fixture(scope="module")
def labels_table(phone, check_command):
    """The table that is written when the goal is reached: one label by name, the others by key."""
    answer_by_name(phone, "X 07")
    until(phone, "document.body.dataset.n == 41 && document.querySelector('#find').value === ''")
    phone.keyboard.press("Escape")
    while phone.get_attribute("body", "class") != "many reached":
        answer(phone)
    until(phone, "document.querySelector('#written').textContent.includes('labels.csv')")
    table = check_command[1]
    return (table.parent / "m-checked" / "labels.csv").read_text()


def test_checking_begins_with_a_sample_that_does_not_show_the_machines_label(first_page):
    assert first_page.first_title == "Checking a machine's labels"
    assert first_page.first_guess == ""
    assert "sample" in first_page.first_statement
    assert first_page.offers_skip


def test_no_answer_is_lost_when_the_server_is_killed(phone):
    assert phone.n_labels_at_start == 40


def test_on_a_phone_text_and_answers_are_on_the_screen_and_do_not_overlap(phone):
    text = phone.locator("#text").bounding_box()
    answers = phone.locator("#answers").bounding_box()

    assert phone.evaluate("document.body.scrollWidth <= innerWidth")
    assert text["y"] + text["height"] <= answers["y"] < 544
    assert answers["height"] < 430


def test_a_label_is_found_by_a_part_of_its_name(labels_table):
    assert ",x_07,person" in labels_table


def test_a_corrected_label_is_the_persons_and_the_others_stay_the_machines(labels_table):
    n_by_person = labels_table.count(",person,")

    assert "down,0,row 0,up,person" in labels_table
    assert labels_table.count(",machine,") == N_ROWS - n_by_person > 1000


def test_the_server_ends_by_itself_when_the_goal_is_reached(labels_table, phone):
    goal = phone.inner_text("#goal").replace("\xa0", " ")

    assert goal.startswith("Done: at most 1.9% of the")
    assert phone.server.process.wait(20) == 0
    assert phone.problems == []


@pytest.fixture
def start(run, tmp_path):
    """A function that starts `pacsent label` on the same texts, again after it was killed."""
    texts = tmp_path / "films.csv"
    texts.write_text("text\n" + "".join(f'"{text}"\n' for text in [*FILMS, HOSTILE]))
    command = ["label", texts, "--labels", "up,down", "--encoder", "none", "--port", "0"]
    command += ["--no-browser", "--error", "0.5", "--random-state", "1"]
    return lambda: run(*command, "--annotator", "ann", "--annotator", "ben", n_urls=2)


def opened(chromium, address, **size):
    page = open_page(chromium, address, **size)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    return page


def n_labels(page):
    return int(page.evaluate("document.body.dataset.n"))


def label(page, n):
    """Answer n times as a person who knows the right labels."""
    for _ in range(n):
        shown = page.evaluate("document.body.dataset.shown")
        text = page.inner_text("#text")
        is_up = "lovely" in text or right_label(text) == "up"
        page.keyboard.press("1" if is_up else "2")
        until(page, f"document.body.dataset.shown > {shown}")


@pytest.fixture
def interrupted_page(chromium, start):
    """A page with 35 labels whose server is killed before one more is sent."""
    server = start()
    page = opened(chromium, server.urls[0])
    label(page, 35)
    server.end(signal.SIGKILL)
    page.keyboard.press("1")
    return page


def test_a_page_without_a_server_says_that_saved_labels_are_safe(interrupted_page):
    interrupted_page.wait_for_selector("#problem:not([hidden])")
    message = interrupted_page.inner_text("#problem")
    assert "Connection lost. Saved labels are safe." in message


def test_sixty_texts_by_keyboard_killed_and_resumed(chromium, start, interrupted_page, tmp_path):
    server = start()
    page = opened(chromium, server.urls[0])
    assert n_labels(page) == 35

    label(page, 25)
    page.keyboard.press("u")
    until(page, "document.body.dataset.n == 59")
    page.keyboard.press("s")
    until(page, "document.querySelector('#about').innerText.includes('1 skipped')")
    label(page, 3)

    goal = page.inner_text("#goal").replace("\xa0", " ")
    assert "Goal reached: at most 50.0% of new texts wrong, with 95% confidence." in goal
    assert "Certified: the error rate is at most" in page.inner_text("#certified")
    assert page.title() == "✓ Goal reached"
    assert page.problems == []
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith(server.url) for url in page.requests)  # no network

    server.end(signal.SIGINT)
    folder = tmp_path / "films-labels"
    assert (folder / "labels.csv").read_text().count(",evaluate") >= 28
    assert (folder / "certificate.json").exists()


@pytest.fixture
def tabs_and_phone(chromium, start):
    """Two pages of one annotator, and one of another on a phone."""
    server = start()
    first, second = (opened(chromium, server.urls[0]) for _ in range(2))
    phone = opened(chromium, server.urls[1], width=390, height=844)
    yield first, second, phone
    assert first.problems == second.problems == phone.problems == []


def test_two_tabs_and_a_phone_get_different_texts(tabs_and_phone):
    first, second, phone = tabs_and_phone
    assert len({page.inner_text("#text") for page in (first, second, phone)}) == 3

    label(first, 1)
    label(second, 1)

    assert n_labels(second) == 2


def test_on_a_phone_a_touch_answers(tabs_and_phone):
    phone = tabs_and_phone[2]
    button = phone.locator("#answers button").first

    button.click()

    until(phone, "document.body.dataset.n == 1")
    assert button.bounding_box()["height"] >= 40


def test_arabic_is_shown_from_right_to_left_with_its_marked_words(tabs_and_phone):
    phone = tabs_and_phone[2]
    text = "الطعام لذيذ جدًا 👍🏽"

    parts = "{text, pieces: [[text.slice(0, 6), 1], [text.slice(6), 0]], row: 0}"
    phone.evaluate(f"text => show({{...{parts}, guess: null, stream: 'train'}})", text)

    assert phone.evaluate("document.querySelector('#text').textContent") == text
    assert phone.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "rtl"
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
