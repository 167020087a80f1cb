"""The datasets that come with the package, and the demo."""

import html
import json
import re
from collections import Counter

import pytest

from helpers import invoke, run_python
from pacsent import load
from pacsent.datasets import load_banking, load_books


def test_there_are_a_hundred_passages_of_each_of_thirty_books():
    books = load_books()
    counts = Counter((p.author, p.book) for p in books)
    assert len(counts) == 30 and set(counts.values()) == {100}
    assert set(Counter(author for author, _ in counts).values()) == {3}
    assert all(50 <= len(p.text.split()) <= 150 for p in books)
    assert load("english").vocabulary.encode([p.text for p in books]).coverage > 0.98


def test_banking77_has_the_published_sizes():
    (texts, labels), (test_texts, test_labels) = load_banking(), load_banking("test")
    assert len(texts) == len(labels) == 10_003 and len(test_texts) == 3_080
    assert set(Counter(test_labels).values()) == {40} and set(labels) == set(test_labels)
    assert len(set(labels)) == 77 and all(texts)
    largest = Counter(labels).most_common(3)
    few_texts, few_labels = load_banking(n_classes=3)
    assert Counter(few_labels) == dict(largest) and len(few_texts) == len(few_labels)
    with pytest.raises(ValueError, match=r"part must be 'train' or 'test'. Got 'dev'"):
        load_banking("dev")


@pytest.mark.slow
def test_the_demo_certifies_an_error_that_holds_and_notices_other_intents(tmp_path):
    done = invoke("demo", "-o", tmp_path / "d", "--json", status=0)
    numbers = json.loads(done.stdout)
    assert numbers["test_error"] <= numbers["error_upper"] < 0.35
    assert numbers["answered_error"] <= numbers["error"] and numbers["answered"] > 0.5
    assert numbers["missed"] <= numbers["error"] and numbers["mean_set_size"] < 3
    assert list(numbers["alarms"]) == ["messages about other intents"]
    page = (tmp_path / "d" / "index.html").read_text()
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "ABOVE" not in page + done.stderr  # every guarantee on it holds
    assert re.findall(r"(?:src|href)\s*=[^>]*", markup) == ['href="classifier.html"']
    assert markup.count("<h2>") == 9 and (tmp_path / "d" / "classifier.html").exists()
    # The Python on the page prints what the page shows.
    blocks = re.findall(r'<pre class="(python|output)">(.*?)</pre>', markup, flags=re.S)
    code, shown = (
        "\n".join(html.unescape(text) for kind, text in blocks if kind == wanted)
        for wanted in ("python", "output")
    )
    assert run_python(code).split() == shown.split()
