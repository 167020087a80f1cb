"""The books that come with the package, and the demo that reads them."""

from collections import Counter

import pytest
from click.testing import CliRunner

from pacsent import load
from pacsent.bench.books import books_demo as demo
from pacsent.bench.books import passages
from pacsent.cli import cli


def test_there_are_a_hundred_passages_of_each_of_thirty_books():
    shelf = passages()
    books = Counter((p.author, p.book) for p in shelf)
    assert len(books) == 30 and set(books.values()) == {100}
    assert set(Counter(author for author, _ in books).values()) == {3}
    assert all(50 <= len(p.text.split()) <= 150 for p in shelf)


def test_the_english_model_knows_the_words_of_the_books():
    assert load("english").vocabulary.encode([p.text for p in passages()]).coverage > 0.98


def test_the_splits_are_what_they_are_said_to_be():
    shelf = passages()
    old, new = demo._random_split(shelf, 0)
    assert len(old) == 2400 and len(new) == 600 and not set(old) & set(new)
    old, new = demo._other_books(shelf)
    assert not {p.book for p in old} & {p.book for p in new}
    assert {p.author for p in old} == {p.author for p in new} and len(new) == 1000


def test_passages_are_found_by_meaning():
    found = {e["query"]: e["passages"] for e in demo._search(load("english"), passages(), 1, print)}
    wolves = found["wolves and dogs in the frozen snow"]
    assert {p.author for p in wolves} == {"London"}


@pytest.mark.slow
def test_the_promise_holds_on_the_same_books_and_the_alarm_goes_off_on_others(tmp_path):
    done = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path / "demo"), "--quiet"])
    assert done.exit_code == 0, done.output
    same, other = done.stdout.splitlines()
    assert same.endswith("no alarm") and other.endswith(", alarm")
    promised, wrong = (float(part.split()[-1]) for part in same.split(",")[:2])
    assert wrong <= promised
    page = (tmp_path / "demo" / "index.html").read_text()
    assert "kept" in page and "broken" in page
    assert "<meta name='viewport'" in page  # readable on a phone
