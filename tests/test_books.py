"""The books that come with the package, and the demo that reads them."""

import re
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import load, make
from pacsent.cli import cli
from pacsent.maths.arrays import unit_rows
from pacsent.paper.books import books_demo as demo
from pacsent.paper.books import books_page, passages


@pytest.fixture(scope="module")
def books():
    return passages()


@pytest.fixture(scope="module")
def vectorizer():
    return make("SIF-sum", "english", on_empty="ignore").fit([])


@pytest.fixture(scope="module")
def vectors(books, vectorizer):
    return unit_rows(vectorizer.transform([p.text for p in books]))


def test_there_are_a_hundred_passages_of_each_of_thirty_books(books):
    counts = Counter((p.author, p.book) for p in books)
    assert len(counts) == 30 and set(counts.values()) == {100}
    assert set(Counter(author for author, _ in counts).values()) == {3}
    assert all(50 <= len(p.text.split()) <= 150 for p in books)


def test_the_english_model_knows_the_words_of_the_books(books):
    assert load("english").vocabulary.encode([p.text for p in books]).coverage > 0.98


def test_splits_have_the_sizes_and_the_books_that_the_page_states(books):
    old, new = demo.random_split(books, 0)
    assert len(old) == 2400 and len(new) == 600 and not set(old) & set(new)
    old, new = demo.by_book(books)
    assert not {p.book for p in old} & {p.book for p in new}
    assert {p.author for p in old} == {p.author for p in new} and len(new) == 1000


def test_search_marks_the_words_that_make_up_the_cosine(books, vectorizer, vectors):
    [found] = demo.search(vectorizer, vectors, books, ["wolves and dogs in the frozen snow"])
    assert {hit["author"] for hit in found["hits"]} == {"London"}
    for hit in found["hits"]:
        assert len(hit["matching"]) == demo.N_MARKED
        assert all(word in hit["text"].lower() for word in hit["matching"])
    # the cosine falls when the marked words are left out, and more than without five others
    hit, direction = found["hits"][0], unit_rows(vectorizer.transform([found["query"]]))[0]
    words = re.findall(r"[a-z]+", hit["text"].lower())
    without = [w for w in words if w not in hit["matching"]]
    assert unit_rows(vectorizer.transform([" ".join(without)]))[0] @ direction < hit["cosine"]


@pytest.fixture(scope="module")
def made():
    row = {"bound": 0.17601, "error": 0.143, "n_fitted": 1800, "n_calibration": 600, "n_new": 600,
           "alarm": False, "changes": [],
           "reliability": [{"n": 600, "probability": 0.9, "right": 0.857}]}  # fmt: skip
    point = {"with vectors": 0.5, "n-grams alone": 0.4}
    hit = {"author": "<A>", "book": "B & C", "text": "<b>storm</b> & sea", "cosine": 0.5,
           "matching": ["sea", "storm"]}  # fmt: skip

    class Certificate:
        def _repr_html_(self):
            return "<section>certificate</section>"

    return {
        "words": {"<whale>": ["shark"]},
        "found": [{"query": "<i>", "hits": [hit]}],
        "curve": [{"n_labels": 100, **point}, {"n_labels": 900, **point}],
        "same_books": row,
        "other_books": {
            **row,
            "error": 0.487,
            "alarm": True,
            "changes": ["confidence"],
        },
        "certificate": Certificate(),
        "seconds": 40.0,
    }


PLACES = np.eye(2), ["<A>", "<A>"]


def test_the_page_has_every_part_of_the_tour_and_escapes_texts(made):
    html = books_page.page(made, *PLACES)
    for part in ("map", "search", "accuracy", "reliability", "guarantee", "certificate", "next"):
        assert f'id="{part}"' in html and f"href=#{part}" in html
    assert html.count("<svg") == 4 and "<script" not in html
    assert "<mark>storm</mark>" in html and "&lt;b&gt;<mark>" in html
    assert "<A>" not in html and "<whale>" not in html and "“<i>”" not in html


def test_the_page_rounds_bounds_up_and_explains_the_row_that_is_meant_to_fail(made):
    html = books_page.page(made, *PLACES)
    assert "at most 0.177" in html and "17.61\N{NO-BREAK SPACE}%" in html
    assert "meant to fail" in html and "raised an alarm: changed are confidence" in html
    assert "the guarantee holds" in html and "broken" not in html


def test_the_page_says_when_chance_was_against_it(made):
    unlucky = {**made, "same_books": {**made["same_books"], "error": 0.2}}
    html = books_page.page(unlucky, *PLACES)
    assert "the guarantee holds" not in html and "by chance in at most 5" in html
    quiet = {**made, "other_books": {**made["other_books"], "alarm": False}}
    assert "raised an alarm" not in books_page.page(quiet, *PLACES)


@pytest.mark.slow
def test_the_guarantee_holds_on_the_same_books_and_an_alarm_is_raised_on_others(books, tmp_path):
    done = CliRunner().invoke(cli, ["demo", "-o", str(tmp_path / "demo"), "--quiet"])
    assert done.exit_code == 0, done.output
    same, other = done.stdout.splitlines()
    assert same.endswith("no alarm") and other.endswith(", alarm")
    bound, error = (float(part.split()[-1]) for part in same.split(",")[:2])
    assert error <= bound
    assert "the guarantee holds" in (tmp_path / "demo" / "index.html").read_text()
    map_page = (tmp_path / "demo" / "map.html").read_text()
    for passage in (books[0], books[-1]):
        assert re.search(r"[a-z]+ [a-z]+ [a-z]+", passage.text)[0] in map_page
