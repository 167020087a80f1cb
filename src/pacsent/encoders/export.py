"""Export a method as one table, in a folder that sentence-transformers and model2vec open.

Both take the mean of the rows of the known tokens. A method is exported where that is what it does:
Average, SIF, uSIF, SIF-sum and concat, and PB-L2 with alpha or with lambda per token.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.files import replacing_folder
from pacsent.storage import write_tensors
from pacsent.words.vector_table import LEVELS, Packed

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_MARK = "▁"  # stands before every word, so that a part of an OOV word is never a known one


def as_table(vectorizer: Any) -> np.ndarray:
    """The rows whose plain mean over a text's in-vocabulary words is the text's vector.

    Raises ValueError for a method of which that is not true: the rows are the vectors of single
    words, and 200 texts drawn from 1,000 of them are compared.
    """
    words = vectorizer.word_vectors.words
    rng = np.random.default_rng(0)
    sampled = np.sort(rng.permutation(len(words))[:1000])  # first of all: some methods take long
    texts = [rng.integers(len(sampled), size=n) for n in rng.integers(2, 30, 200)]
    rows = vectorizer.transform([[words[i]] for i in sampled])
    vectors = vectorizer.transform([[words[i] for i in sampled[text]] for text in texts])
    means = np.stack([rows[text].mean(axis=0, dtype=float) for text in texts])
    if not np.allclose(vectors, means, rtol=1e-4, atol=1e-5 * np.abs(means).max()):
        raise ValueError(
            f"{type(vectorizer).__name__} with these settings is not the mean of one row for each "
            "word, so no table holds it. Export SIF-sum, SIF, uSIF, concat or Average."
        )
    return vectorizer.transform([[word] for word in words])


def export(vectorizer: Any, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Write a fitted method as a folder that another library opens.

    `SentenceTransformer(path)` opens it, and `StaticModel.from_pretrained(path)` of model2vec 0.8,
    whose `encode` reads the first 512 words of a text unless max_length is None.
    The vocabulary must be of normalize="paper", as that of `english` is.
    """
    vocabulary = vectorizer.word_vectors.vocabulary
    if vocabulary.normalize != "paper" or vocabulary.unknown != "drop":
        raise ValueError(
            "Only a vocabulary with normalize='paper' and unknown='drop' can be exported: other "
            "libraries read text in one way only."
        )
    path = Path(path)
    exported = overwrite and (path / "tokenizer.json").is_file()
    if path.exists() and any(path.iterdir()) and not exported:
        raise ValueError(
            f"{path} exists. Choose another name, or say overwrite=True to replace a folder that "
            "was exported."
        )
    table = np.asarray(as_table(vectorizer), dtype=np.float32)
    module = "sentence_transformers.models.StaticEmbedding"
    settings: dict = {"similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None}
    contents = {
        "tokenizer.json": tokenizer(vocabulary.words),
        "modules.json": [{"idx": 0, "name": "0", "path": "", "type": module}],
        "config_sentence_transformers.json": settings,
    }
    card = (
        f"# {type(vectorizer).__name__} of pacsent\n\n{table.shape[0]:,} words, {table.shape[1]} "
        "dimensions. The vector of a text is the mean of the rows of its in-vocabulary words.\n"
        "Text is read as letters a-z, digits spelled; OOV words are dropped.\n"
    )
    with replacing_folder(path) as folder:
        write_tensors(folder / "model.safetensors", {"embedding.weight": table})
        for name, content in contents.items():
            (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
    return path


def tokenizer(words: Sequence[str]) -> dict:
    """A tokenizer.json that splits text as `normalize="paper"` does and drops OOV words.

    Every word is one token with a mark before it. A word that is not in the vocabulary falls into
    its letters, none of which is a token, and so into nothing.
    """
    digits = [
        {"type": "Replace", "pattern": {"String": str(i)}, "content": f" {name} "}
        for i, name in enumerate(_DIGITS)
    ]
    other = {"type": "Replace", "pattern": {"Regex": "[^A-Za-z0-9]+"}, "content": " "}
    ends = {"type": "Strip", "strip_left": True, "strip_right": True}
    spaces = {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}
    normalizers = [other, {"type": "Lowercase"}, *digits, spaces, ends]
    marks = {"type": "Metaspace", "replacement": _MARK, "prepend_scheme": "always", "split": True}
    model = {"type": "BPE", "fuse_unk": False, "byte_fallback": False, "ignore_merges": True}
    vocabulary = {f"{_MARK}{word}": i for i, word in enumerate(words)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": marks,
        "post_processor": None,
        "decoder": None,
        "model": {**model, "vocab": vocabulary, "merges": []},
    }


def summed_parts(encoder: Any, complete: Any) -> dict[str, Any]:
    """The words and the table of an encoder, a part of `complete` or itself, that sums rows."""
    table: Any = encoder.summed_table() if hasattr(encoder, "summed_table") else None
    is_sum = table is not None and getattr(complete, "fade", None) is None
    if not is_sum or encoder.word_vectors.vocabulary.normalize != "paper":
        raise ValueError(
            "Only encoders that sum word vectors of normalize='paper' can be exported to HTML. Got "
            f"{complete.method_name} instead. Fit TextClassifier('english'), or with None."
        )
    vocabulary, tables = encoder.word_vectors.vocabulary, encoder.word_vectors.tables
    stored = tables["input"].stored
    part = {
        "words": "\n".join(vocabulary.words),
        "subwords": vocabulary.unknown == "pieces",
        "unit": complete is not encoder or not hasattr(encoder, "alpha"),
        "dims": table.shape[1],
    }
    if not isinstance(stored, Packed) or getattr(encoder, "swap_roles", False):
        n_words, n_dims = table.shape
        none, zeros, ones = np.empty(0, np.uint8), np.zeros(n_dims), np.ones(max(n_words, n_dims))
        part |= {"bits": 8, "levels": none, "codes": none, "head": np.asarray(table, np.float32)}
        return part | {"scales": ones[:n_words], "centre": zeros, "spread": ones[:n_dims]}
    levels = LEVELS.get(stored.bits, np.arange(256, dtype=np.uint8).view(np.int8))
    part |= {"bits": stored.bits, "levels": levels.astype(np.float32)}
    return part | stored.arrays() | {"scales": stored.scales.astype(np.float32)}
