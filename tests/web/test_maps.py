"""Maps of texts: one page with a chart that needs nothing but itself."""

import json
import re

import numpy as np
import pytest

from browsers import open_page, until
from helpers import invoke
from pacsent import make_encoder
from pacsent.sentences.solvers.weights import main_plane
from pacsent.web import make_map
from pacsent.web.text_map import distinct_colors

KINDS = ["drink", "drink", "cat", "cat", "</script>"]
TEXTS = ["a glass of red wine", "white wine and beer", "the cat slept", "a sleepy kitten", "zzqx"]
HOSTILE = [
    "<!--<script> good film",
    "</script><script>window.hacked = 1</script> bad film",
    "<img src=x onerror='window.hacked = 1'> good",
    "]]> --> </style></title> bad \u2028 line",
    "' \" ` ${window.hacked = 1} \\ \ud800 good",
]


@pytest.fixture(scope="module")
def encoder():
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


def points_of(page):
    start = "const CHARTS = "
    (line,) = [line for line in page.splitlines() if line.startswith(start)]
    (chart,) = json.loads(line.removeprefix(start).removesuffix(";"))
    layers = chart.get("layer", [chart])
    return layers[0].get("data", chart.get("data"))["values"]


def test_the_plane_is_that_of_the_largest_singular_values():
    X = np.random.default_rng(0).normal(size=(50, 6)) * [9, 1, 4, 1, 1, 1]
    centred = X - X.mean(axis=0)
    U, s, _ = np.linalg.svd(centred)
    assert np.allclose(np.abs(main_plane(X)), np.abs(U[:, :2] * s[:2]), atol=1e-3)


def test_texts_of_one_topic_are_near_each_other(encoder):
    places = np.array(
        [(point["x"], point["y"]) for point in points_of(make_map(encoder, TEXTS[:4]))]
    )
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert distances[0, 1] < distances[0, 2]
    assert distances[2, 3] < distances[1, 3]


def test_a_map_is_one_page_with_every_text_and_its_class(tmp_path):
    lines = [f"{text}\t{kind}" for text, kind in zip(TEXTS, KINDS)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tkind", *lines]))
    columns = ("--text-column", "text", "--label-column", "kind")
    invoke(
        "map", "english", tmp_path / "texts.tsv", *columns, "-o", tmp_path / "map.html", status=0
    )
    points = points_of((tmp_path / "map.html").read_text())
    assert [point["text"] for point in points] == TEXTS
    assert [point["class"] for point in points] == KINDS


def test_without_labels_the_classes_are_the_names_of_clusters(encoder):
    points = points_of(make_map(encoder, TEXTS, n_groups=2))
    names = [point["class"] for point in points]
    assert "wine" in names[0] and "kitten" in names[2]
    assert names[-1] == "no in-vocabulary word"


def test_every_class_has_a_colour_of_its_own(encoder):
    texts = ["red wine"] * 60
    labels = [f"class {number}" for number in range(60)]

    page = make_map(encoder, texts, labels)

    colors = re.findall(r'<i style="background: (#\w+)">', page)
    assert len(set(colors)) == 60


def test_the_first_colours_are_far_from_each_other():
    colors = distinct_colors(16)

    channels = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in colors])
    distances = np.linalg.norm(channels[:, None] - channels[None], axis=2)  # (16, 16)
    assert distances[~np.eye(16, dtype=bool)].min() > 50


def test_the_legend_names_every_class_and_counts_its_texts(encoder):
    page = make_map(encoder, TEXTS, KINDS)

    counts = re.findall(r"<span>(\S+)</span><small>(\d+)</small>", page)
    assert counts == [("cat", "2"), ("drink", "2"), ("&lt;/script&gt;", "1")]


def test_more_texts_than_altair_takes_from_a_table_are_drawn(encoder):
    assert len(points_of(make_map(encoder, ["red wine"] * 6000))) == 6000


def test_hostile_texts_do_not_end_the_script(encoder):
    page = make_map(encoder, HOSTILE, HOSTILE, title="@DATA@ <script>")
    assert "<title>@DATA@ &lt;script&gt;</title>" in page and "<!--<script" not in page
    assert [point["text"] for point in points_of(page)] == HOSTILE


def test_mistakes_are_reported(encoder, tmp_path):
    (tmp_path / "texts").write_text("a\n")
    assert "Missing option '-o'" in invoke("map", "english", tmp_path / "texts").output
    (tmp_path / "map.html").write_text("mine")
    again = invoke("map", "english", tmp_path / "texts", "-o", tmp_path / "map.html")
    assert again.exit_code == 1 and "--overwrite to replace it" in again.output
    with pytest.raises(ValueError, match="one for each of the 1 texts"):
        make_map(encoder, ["a"], ["x", "y"])


@pytest.fixture
def map_on_a_phone(chromium, encoder, tmp_path):
    """The map of a few texts of three classes, drawn."""
    path = tmp_path / "map.html"
    path.write_text(make_map(encoder, TEXTS, KINDS))
    page = open_page(chromium, path.as_uri(), 390)
    until(page, "document.body.dataset.drawn === 'yes'")
    return page


@pytest.mark.extra(needs="browser")
def test_a_class_of_the_legend_is_seen_alone_and_a_second_click_shows_all(map_on_a_phone):
    page = map_on_a_phone
    faded = "[...document.querySelectorAll('.mark-symbol.role-mark path')]"
    faded += ".filter(point => point.getAttribute('opacity') < 0.1).length"
    drink = page.locator(".legend button", has_text="drink")

    drink.click()
    until(page, f"{faded} === 3")
    drink.click()

    until(page, f"{faded} === 0")
    assert page.problems == []


@pytest.mark.extra(needs="browser")
def test_the_whole_legend_is_readable_on_a_phone(map_on_a_phone):
    page = map_on_a_phone

    boxes = [button.bounding_box() for button in page.locator(".legend button").all()]

    assert len(boxes) == 3
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.extra(needs="browser")
def test_the_chart_is_drawn_offline_and_hostile_texts_are_only_text(chromium, encoder, tmp_path):
    path = tmp_path / "map.html"
    path.write_text(make_map(encoder, HOSTILE, HOSTILE, title=HOSTILE[1]))
    page = open_page(chromium, path.as_uri(), 390)
    until(page, "document.body.dataset.drawn === 'yes'")
    assert page.locator(".mark-symbol.role-mark path").count() == len(HOSTILE)
    for point in page.locator(".mark-symbol.role-mark path").all():
        point.hover(force=True)
        until(page, "document.querySelector('#vg-tooltip-element.visible')")
        shown = page.locator("#vg-tooltip-element td.value").last.text_content()
        assert shown in HOSTILE
    assert page.evaluate("window.hacked") is None and page.problems == []
    assert page.requests == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
