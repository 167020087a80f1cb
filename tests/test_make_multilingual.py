"""The script that makes the multilingual model, on sentences and teachers of its own."""

import gzip
import hashlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pacsent.encoders import as_encoder

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


def test_ridge_map_finds_a_linear_map(script):
    x = np.random.default_rng(0).normal(size=(300, 4))
    found = script.ridge_map(x, 3.0 * x[:, :2] + 2.0, ridge=1e-9)
    assert np.allclose(found, [[3, 0], [0, 3], [0, 0], [0, 0], [2, 2]])


@pytest.fixture
def tokenizer(script, monkeypatch):
    pytest.importorskip("tokenizers")
    pieces = ["<unk>", "<s>", "</s>", "a", "b", "c", "▁", "▁Ka", "tze", "hund", "▁(", "▁hund", "猫"]
    scores = [0.0] * 6 + [-3.0, -5.0, -6.0, -7.0, -2.0, -7.0, -8.0]
    spelled = SimpleNamespace(_tokenizer=SimpleNamespace(_pieces=pieces, _scores=scores))
    monkeypatch.setattr(script, "_use", lambda: spelled)
    return script.make_tokenizer(["Der Schnee, der!", "der (SCHNEE)", "Regen 猫", "12 12"], 2)


@pytest.mark.extra(needs="subwords")
def test_words_come_before_pieces_and_unknown_ones_are_left_out(script, tokenizer):
    for text, tokens in {
        "Katzehund: (der) SCHNEE": ["▁ka", "tze", "hund", "▁der", "▁schnee"],
        "猫": ["▁", "猫"],
    }.items():
        assert tokenizer.encode(text).tokens == tokens
    names = set(tokenizer.get_vocab())
    assert "▁der" in names and not names & {"▁regen", "▁12", "▁(", "▁Ka"}
    found = script.Tokens(tokenizer, ["der Hund", "qqq", "Schnee"])
    part = found.take(np.array([2, 0]))
    assert [tokenizer.id_to_token(i) for i in part.ids] == ["▁schnee", "▁der", "▁hund"]
    assert part.offsets.tolist() == [0, 1, 3]
    assert found.sizes[1] <= 1  # the mark of a word's beginning, and no more


@pytest.mark.extra(needs="subwords")
def test_the_folder_gives_the_direction_of_the_sum(script, tokenizer, tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.setattr(script, "N_DIMS", 5)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(tokenizer.get_vocab_size(), 5)).astype(np.float32)
    table *= np.logspace(0, 3, len(table), dtype=np.float32)[:, None]
    texts = ["der Hund", "Schnee", "Katze im Schnee", "der Schnee der Hund"]
    tokens = script.Tokens(tokenizer, texts)
    sums = np.add.reduceat(table[tokens.ids], tokens.offsets[:-1])
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    script.write(table.copy(), sums, tokenizer, tmp_path / "model")
    found = as_encoder(str(tmp_path / "model")).encode(texts)
    assert np.allclose(found @ found.T, sums @ sums.T, atol=0.02)  # 8 bits
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    if find_spec("model2vec"):
        from model2vec import StaticModel

        theirs = StaticModel.from_pretrained(tmp_path / "model").encode(texts)
        assert np.allclose(found, theirs, atol=1e-5)
