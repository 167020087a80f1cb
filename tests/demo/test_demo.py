"""The datasets that come with the package, and the demo."""

import html
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from browsers import open_page, until
from helpers import invoke, run_python
from pacsent import load
from pacsent.datasets import load_banking, load_books
from pacsent.demo import tutorial, write_tables
from pacsent.demo.books import posterior_path
from pacsent.demo.charts import guarantees
from pacsent.text.pages import render


def test_there_are_a_hundred_passages_of_each_of_thirty_books():
    books = load_books()
    counts = Counter((p.author, p.book) for p in books)
    assert len(counts) == 30
    assert set(counts.values()) == {100}


def test_there_are_three_books_of_each_author():
    books_and_authors = {(p.author, p.book) for p in load_books()}

    n_books = Counter(author for author, _ in books_and_authors)

    assert set(n_books.values()) == {3}


def test_a_passage_has_50_to_150_words():
    n_words = [len(p.text.split()) for p in load_books()]

    assert min(n_words) >= 50
    assert max(n_words) <= 150


def test_the_english_vocabulary_covers_the_books():
    texts = [p.text for p in load_books()]

    encoded = load("english").vocabulary.encode(texts)

    assert encoded.coverage > 0.98


def test_banking77_has_the_published_sizes():
    texts, labels = load_banking()
    test_texts, test_labels = load_banking("test")

    assert len(texts) == len(labels) == 10_003
    assert len(test_texts) == len(test_labels) == 3_080
    assert len(set(labels)) == 77


def test_banking77_tests_forty_messages_of_each_intent():
    _, labels = load_banking()
    _, test_labels = load_banking("test")

    assert set(Counter(test_labels).values()) == {40}
    assert set(labels) == set(test_labels)


def test_no_message_of_banking77_is_empty():
    texts, _ = load_banking()

    assert all(texts)


def test_few_classes_of_banking77_are_the_most_frequent_ones():
    _, labels = load_banking()
    largest = Counter(labels).most_common(3)

    few_texts, few_labels = load_banking(n_classes=3)

    assert Counter(few_labels) == dict(largest)
    assert len(few_texts) == len(few_labels)


def test_an_unknown_part_of_banking77_is_refused():
    with pytest.raises(ValueError, match=r"part must be 'train' or 'test'. Got 'dev'"):
        load_banking("dev")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of the demo and the numbers on its pages."""
    folder = tmp_path_factory.mktemp("demo") / "pages"
    done = invoke("demo", "-o", folder, "--json", status=0)
    return folder, json.loads(done.stdout)


def _markup(page):
    return re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.S)


def _blocks(page, wanted):
    blocks = re.findall(r'<pre class="(python|output)">(.*?)</pre>', _markup(page), flags=re.S)
    return "\n".join(html.unescape(text) for kind, text in blocks if kind == wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.html", "bank.html"])
def test_the_python_of_a_page_of_the_demo_prints_what_the_page_shows(demo, name):
    page = demo[0] / name
    assert run_python(_blocks(page, "python")).split() == _blocks(page, "output").split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("index.html", {"bank.html", "classifier.html"}),
        ("bank.html", {"index.html", "classifier.html"}),
    ],
)
def test_a_page_of_the_demo_needs_nothing_but_its_folder(demo, name, targets):
    links = re.findall(r'(?:src|href)\s*=\s*"([^"#][^"]*)"', _markup(demo[0] / name))
    assert set(links) == targets
    assert all((demo[0] / link).exists() for link in links)


@pytest.mark.slow
def test_the_first_page_has_its_sections_and_a_figure_in_each(demo):
    markup = _markup(demo[0] / "index.html")
    assert re.findall(r"<h2[^>]*><span>(\d)</span>", markup) == list("123456789")
    assert markup.count("data-chart=") == 7


@pytest.mark.slow
def test_the_bounds_of_the_first_page_hold(demo):
    numbers = demo[1]["books"]
    assert numbers["word_measured"] <= numbers["word_bound"] < 0.5
    assert numbers["test_error"] <= numbers["error_upper"] < numbers["theorem_1"] < 0.4


@pytest.mark.slow
def test_scores_of_unseen_words_are_between_those_of_own_words_and_negative_samples(demo):
    own, unseen, noise = demo[1]["books"]["recognised"].values()
    assert own > unseen > noise


@pytest.mark.slow
def test_the_classifier_of_messages_keeps_its_guarantees_and_notices_other_intents(demo):
    numbers = demo[1]["bank"]
    assert numbers["test_error"] <= numbers["error_upper"] < 0.35
    assert numbers["answered_error"] <= numbers["error"] and numbers["answered"] > 0.5
    assert numbers["missed"] <= numbers["error"] and numbers["mean_set_size"] < 3
    assert list(numbers["alarms"]) == ["messages about other intents"]


@pytest.mark.slow
def test_the_readme_states_the_error_rate_that_the_demo_measures(demo):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert f"{demo[1]['bank']['test_error']:.1%} of the predictions are wrong" in readme


def _one_line(text):
    return " ".join(text.split())


START = (Path(__file__).parents[2] / "docs" / "start.md").read_text("utf-8")


@pytest.mark.parametrize("step", tutorial.steps(), ids=lambda step: step.name)
def test_the_tutorial_of_the_documentation_has_the_text_and_code_of_each_step(step):
    [section] = re.findall(rf"^## {re.escape(step.title)}\n(.*?)(?=^## |\Z)", START, re.M | re.S)

    assert re.findall(r"```python\n(.*?)\n```", section, re.S) == [p.code for p in step.parts]
    for part in step.parts:
        assert part.text in _one_line(section)


def test_the_tutorial_of_the_documentation_has_the_steps_in_order_and_the_commands():
    titles = re.findall(r"^## (.+)", START, re.M)

    assert titles[: len(tutorial.steps())] == [step.title for step in tutorial.steps()]
    assert f"```\n{tutorial.SHELL}\n```" in START


def test_the_tutorial_of_the_documentation_ends_with_what_it_has_shown():
    [section] = re.findall(r"^## What you have seen\n(.*?)(?=^## )", START, re.M | re.S)

    shown = [text.lower() for text in re.findall(r"^- \[(.+)\]\(\S+\)", section, re.M)]
    assert shown == [text.lower() for _, text in tutorial.SEEN]


@pytest.mark.slow
def test_the_tutorial_of_the_documentation_prints_what_the_page_shows(demo):
    outputs = re.findall(r"```output\n(.*?)```", START, re.S)

    shown = _one_line(_blocks(demo[0] / "bank.html", "output"))
    number = re.compile(r"-?\d+(?:\.\d+)?")
    printed = _one_line(" ".join(outputs))
    assert number.sub("#", shown) == number.sub("#", printed)
    differences = [
        abs(float(one) - float(other))
        for one, other in zip(number.findall(shown), number.findall(printed), strict=True)
    ]
    assert max(differences) <= 0.011


RATES = {"test_error": 0.085, "error_upper": 0.2122, "answered_error": 0.15, "missed": 0.04}


def test_the_summary_of_a_page_rounds_guaranteed_rates_up():
    lines = guarantees(RATES, 0.1)

    assert [line.guaranteed for line in lines] == ["21.3%", "10.0%", "10.0%"]
    assert [line.measured for line in lines] == ["8.5%", "15.0%", "4.0%"]


def test_the_summary_of_a_page_marks_a_measured_rate_above_its_guarantee():
    assert [line.is_kept for line in guarantees(RATES, 0.1)] == [True, False, True]


@pytest.fixture
def page_of_messages(chromium, demo):
    """The second page of the demo in a browser that is as wide as a phone."""
    page = open_page(chromium, (demo[0] / "bank.html").as_uri(), width=390, height=844)
    until(page, "document.body.dataset.drawn === 'yes'")
    return page


@pytest.mark.slow
@pytest.mark.extra(needs="browser")
def test_the_code_of_the_demo_is_copied_by_a_button(page_of_messages):
    page = page_of_messages
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page.locator(".code button").first.click()

    until(page, "document.querySelector('.code button').textContent === 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == tutorial.steps()[0].parts[0].code


@pytest.mark.slow
@pytest.mark.extra(needs="browser")
def test_the_contents_of_the_demo_stay_in_view_and_show_the_place(page_of_messages):
    page = page_of_messages

    page.evaluate("document.getElementById('search').scrollIntoView({behavior: 'instant'})")

    until(page, "document.querySelector('[aria-current]')?.hash === '#search'")
    assert page.locator(".contents").bounding_box()["y"] == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.problems == []


def test_a_page_of_the_demo_without_charts_says_what_to_install():
    hint = "Run: pip install 'pacsent[report]'"

    page = render("demo.html", title="demo", contents=[], runtime="", install_hint=hint)

    assert f"no figures because Altair is not installed. {hint}" in html.unescape(page)


def test_the_tables_of_the_demo_are_for_the_shell(tmp_path):
    write_tables(tmp_path)
    mine = (tmp_path / "mine.csv").read_text().splitlines()
    new = (tmp_path / "new.csv").read_text().splitlines()
    assert (mine[0], len(mine)) == ("text,label", 501)
    assert (new[0], len(new)) == ("text", 1607)


def test_the_plane_of_a_sentence_is_the_same_for_the_same_seed():
    words = load("english")
    corpus = [passage.text for passage in load_books()[:50]]

    first = posterior_path(words, corpus, "the cat slept", 0)
    second = posterior_path(words, corpus, "the cat slept", 0)

    assert first == second
