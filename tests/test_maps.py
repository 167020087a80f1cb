"""Maps of texts: one page that needs nothing but itself, and a table for another program."""

import json
import re

import numpy as np
import pytest

from browsers import open_page, until
from helpers import invoke
from pacsent import make_encoder
from pacsent.maths.weights import main_plane
from pacsent.web import TextMap, make_map, write_html

KINDS = ["drink", "drink", "cat", "cat", "</script>"]
TEXTS = ["a glass of red wine", "white wine and beer", "the cat slept", "a sleepy kitten", "zzqx"]


def test_the_plane_is_that_of_the_largest_singular_values():
    X = np.random.default_rng(0).normal(size=(50, 6)) * [9, 1, 4, 1, 1, 1]
    centred = X - X.mean(axis=0)
    U, s, _ = np.linalg.svd(centred)
    assert np.allclose(np.abs(main_plane(X)), np.abs(U[:, :2] * s[:2]), atol=1e-3)


def data_of(path):
    page = path.read_text()
    assert not re.search(r"(src|href)\s*=\s*[\"']|https?://(?!www\.w3)", page)
    return page, json.loads(re.search(r"const DATA = (.*);\n", page)[1])


def test_a_map_is_one_file_with_every_text(tmp_path):
    encoder = make_encoder("SIF-sum", "english", on_empty="ignore").fit([])
    places = make_map(encoder, TEXTS[:4]).places
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[0, 1] < apart[0, 2] and apart[2, 3] < apart[1, 3]
    lines = [f"{text}\t{kind}" for text, kind in zip(TEXTS, KINDS)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tkind", *lines]))
    columns = ("--text-column", "text", "--label-column", "kind")
    invoke(
        "map", "english", tmp_path / "texts.tsv", *columns, "-o", tmp_path / "map.html", status=0
    )
    _, data = data_of(tmp_path / "map.html")
    assert data["texts"] == TEXTS and data["classes"] == ["</script>", "cat", "drink"]


def test_marks_in_texts_stay_as_they_are_and_points_are_sized_by_spread(tmp_path):
    texts = ["@TITLE@ <!--<script>", "@DATA@ </script>", "c"]
    spread = np.array([0.01, 0.25, np.nan])
    made = TextMap(texts, np.zeros((3, 2)), spread, ["@MAP@", "@STYLE@", "c"])
    write_html(made, tmp_path / "map.html", title="@DATA@")
    page, data = data_of(tmp_path / "map.html")
    assert "<title>@DATA@</title>" in page and "<!--<script" not in page
    assert data["texts"] == texts and data["classes"] == ["@MAP@", "@STYLE@", "c"]
    assert data["size"][1] > data["size"][0]


def test_mistakes_are_reported(tmp_path):
    (tmp_path / "texts").write_text("a\n")
    assert "Missing option '-o'" in invoke("map", "english", tmp_path / "texts").output
    (tmp_path / "map.html").write_text("mine")
    again = invoke("map", "english", tmp_path / "texts", "-o", tmp_path / "map.html")
    assert again.exit_code == 1 and "--overwrite to replace it" in again.output
    with pytest.raises(ValueError, match="one for each of the 1 texts"):
        make_map(make_encoder("SIF-sum", "english").fit([]), ["a"], ["x", "y"])


@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.slow), 1440])
@pytest.mark.extra(needs="browser")
def test_a_hundred_thousand_points_are_searched_clicked_and_moved(chromium, tmp_path, width):
    rng = np.random.default_rng(0)
    n = 100_000
    texts = [f"text number {i} about {'tea' if i % 1000 else 'whales'}" for i in range(n)]
    labels = [str(i % 5) for i in range(n)]
    places = np.round(rng.normal(size=(n, 2)), 4)
    write_html(TextMap(texts, places, rng.random(n), labels), tmp_path / "map.html")
    page = open_page(chromium, (tmp_path / "map.html").as_uri(), width)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    page.fill("#find", "whales")
    until(page, "document.querySelector('#count').innerText === '100 found'")
    page.press("#find", "Enter")
    assert page.inner_text("#picked") == "0: text number 0 about whales"
    milliseconds = page.evaluate("""() => { const start = performance.now();
        for (let i = 0; i < 20; i++) { map.cx += .01; map.gl ? map.drawGL() : map.drawPlain(); }
        return (performance.now() - start) / 20; }""")
    assert milliseconds < 50
    page.locator("#legend input").first.uncheck()
    assert page.evaluate("map.hidden.has(0) && map.nearest(5, 5, 1e9) % 5 !== 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
