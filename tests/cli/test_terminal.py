"""What commands print of other people's texts: nothing that a terminal obeys."""

import csv
import json
import unicodedata

import numpy as np
import pytest

import pacsent
from helpers import invoke
from pacsent import CertifiedClassifier, Index, TextClassifier

# Sets the title, clears the screen, writes backwards, and is an 8-bit control sequence.
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J red \u202ewine\u202c \x9b31m \x7f glass\r"


def controls(text):
    """The characters that a terminal may obey; tabs and line breaks are ours."""
    bidi = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    return {c for c in text if (unicodedata.category(c) == "Cc" and c not in "\t\n") or c in bidi}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts, a labelled table, a certified classifier and an index, with a hostile text each."""
    made = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(200)])
    texts = [" ".join(rng.choice(words, 6)) for _ in range(100)]
    labels = ["a", "b"] * 50
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    pacsent.save(classifier, made / "model")

    new = [HOSTILE, f"{HOSTILE} again", *(" ".join(rng.choice(words, 6)) for _ in range(10))]
    (made / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in new))
    with open(made / "labelled.csv", "w", newline="") as file:
        rows = [("text", "label"), *zip(new, ["a", f"b{HOSTILE}"] * 6)]
        csv.writer(file).writerows(rows)

    index = Index("english")
    index.add(new)
    pacsent.save(index, made / "index")
    return made


@pytest.mark.parametrize(
    "line",
    [
        "search @index wine",
        "search @index wine --json",
        "rerank wine @texts.jsonl",
        "cluster @texts.jsonl -k 2",
        "cluster @texts.jsonl -k 2 --json",
        "dedupe @texts.jsonl",
        "dedupe @texts.jsonl --json",
        "predict @model @texts.jsonl --keep-columns *",
        "predict @model @texts.jsonl --keep-columns * --json",
        "predict @model @labelled.csv --keep-columns * -o @answers.jsonl --overwrite",
        "evaluate @model @labelled.csv",
        "evaluate @model @labelled.csv --json",
        "audit @labelled.csv --encoder none",
        "explain @model HOSTILE",
        "explain @model HOSTILE --json",
        "certify @model @labelled.csv --per-class --details",
        "train @labelled.csv -o @new --encoder none --overwrite",
    ],
)
def test_control_characters_of_texts_do_not_reach_the_terminal(folder, line):
    words = [HOSTILE if w == "HOSTILE" else w.replace("@", f"{folder}/") for w in line.split()]
    output = invoke(*words).output
    assert output and not controls(output), repr(output)


def test_an_escaped_json_document_is_the_same_document(folder):
    printed = invoke("search", folder / "index", "wine", "--json", status=0).stdout
    texts = [hit["text"] for hits in json.loads(printed)["results"] for hit in hits]
    assert HOSTILE in texts


def test_an_error_message_with_a_cell_of_a_table_is_escaped(folder):
    (folder / "names.csv").write_text(f"text,{HOSTILE.strip()}\na,b\n")
    done = invoke("predict", folder / "model", folder / "names.csv", "--text-column", "none")
    assert done.exit_code and not controls(done.output)
