"""The script that makes the multilingual model, on sentences and teachers of its own."""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "make_multilingual", raising=False)
    import make_multilingual

    return make_multilingual


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def test_collect_leaves_out_what_the_benchmark_asks(script, tmp_path):
    sentences = [f"Sentence number {i} is here." for i in range(200)]
    aside = [s for s in sentences if md5(s) < script.HELD_OUT]
    assert aside and len(aside) < 20
    for name in ("nlp", "de", "es", "fr", "it", "ja"):
        builds = tmp_path / f"{name}-corpus" / "builds"
        builds.mkdir(parents=True)
        rows = sentences if name == "nlp" else [[f"{name} {s}", md5(s)] for s in sentences]
        if name == "de":
            rows.append(["ohne Englisch", "f" * 32])
        (builds / "doc-0.json").write_text(json.dumps(rows))
    data = tmp_path / "tatoeba" / "data" / "test" / "deu-eng"
    data.mkdir(parents=True)
    lines = ["deu\teng\tEin Hund.\tA dog.", f"deu\teng\tNochmal.\t{aside[0]}", "deu\teng\tkurz"]
    lines += ["deu\tfra\tEin Hund.\tUn chien.", "deu\teng\tGemieden.\tTo be  avoided!"]
    (data / "test.txt").write_text("\n".join(lines))
    packed = gzip.compress(b"eng\tcmn_Hans\tA cat.\t\xe7\x8c\xab\n")
    (data.parent / "eng-zho").mkdir()
    (data.parent / "eng-zho" / "test.txt.gz").write_bytes(packed)
    script.collect(tmp_path, tmp_path / "tatoeba", tmp_path / "pairs", {"to be avoided"})
    german = (tmp_path / "pairs" / "de.tsv").read_text().splitlines()
    assert len(german) == 200 - len(aside) + 1
    assert german[-1] == "A dog.\tEin Hund."
    assert not {line.split("\t")[0] for line in german} & set(aside)
    assert (tmp_path / "pairs" / "zh.tsv").read_text() == "A cat.\t猫\n"
    texts, rows = script.read_pairs(tmp_path / "pairs", limit=3)
    assert texts[rows.max() + 1 :][0] == f"de {texts[rows[rows.max() + 1]]}"
