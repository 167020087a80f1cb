"""Folders of static embeddings: model2vec's, and sentence-transformers' StaticEmbedding.

A tokenizer.json and one row for each token in model.safetensors. Tokens that are whole words become
words; parts of words and special tokens do not occur as words and are left out, with a warning.
"""

import json
import os
import warnings
from pathlib import Path

import numpy as np

from pacsent.storage import TENSORS, read_tensors
from pacsent.words.formats.table_parts import Options, Parts

TOKENIZER = "tokenizer.json"
_PLACES = ("", "0_StaticEmbedding")  # sentence-transformers puts a module into a folder of its own
_TABLES = ("embeddings", "embedding.weight")  # as model2vec and as sentence-transformers say it
_MARKS = ("▁", "Ġ")  # before the first piece of a word, by the kind of tokenizer
_INNER = "##"  # before the others, in WordPiece


def static_folder(path: str | os.PathLike) -> Path | None:
    """The folder that holds the table and the tokenizer, or None."""
    for place in _PLACES:
        folder = Path(path) / place
        if (folder / TOKENIZER).is_file() and (folder / TENSORS).is_file():
            return folder
    return None


def read_static(path: Path, options: Options) -> Parts:
    """Word vectors of a folder as model2vec and sentence-transformers write static models."""
    folder = static_folder(path)
    if folder is None:
        raise ValueError(f"{path} must be a folder with {TOKENIZER} and {TENSORS}.")
    token_ids, special = _tokens(folder / TOKENIZER)
    table = _rows(folder / TENSORS)
    if bad := [token for token, i in token_ids.items() if not 0 <= i < len(table)]:
        raise ValueError(
            f"{folder / TENSORS} must hold a row for every token. It has {len(table):,} rows and "
            f"none for {bad[0]!r}. The two files are not of one model: copy both again."
        )
    words = _whole_words(token_ids, special)
    if not words:
        raise ValueError(f"{folder / TOKENIZER} must hold tokens that are words. It has none.")
    if left_out := len(token_ids) - len(words):
        warnings.warn(
            f"{path}: {left_out:,} of {len(token_ids):,} tokens are parts of words or special and "
            "were left out; a word that is made of parts there is unknown here.",
            stacklevel=3,
        )
    rows = np.fromiter(words.values(), np.int64, len(words))
    return Parts(path, list(words), table[rows], options)


def _tokens(path) -> tuple[dict[str, int], set[str]]:
    """(token -> row, special tokens) of any kind of tokenizer.json."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        model = content["model"]
        vocab = model["vocab"]
        if isinstance(vocab, list):  # Unigram: token and score
            vocab = {token: i for i, (token, _) in enumerate(vocab)}
        added = {entry["content"]: entry["id"] for entry in content.get("added_tokens") or []}
        special = {model.get("unk_token"), *added} - {None}
        tokens = {**vocab, **added}
        right = all(isinstance(t, str) and type(i) is int for t, i in tokens.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise ValueError(f"{path} must be a tokenizer with its tokens. It is none. Copy it again.")
    return tokens, special


def _rows(path) -> np.ndarray:
    """One row for each token: model2vec may share rows between tokens, and weigh them apart."""
    tensors = read_tensors(path)
    name = next((name for name in _TABLES if name in tensors), None)
    if name is None or tensors[name].ndim != 2:
        raise ValueError(
            f"{path} must hold a table named {' or '.join(_TABLES)}. It holds "
            f"{', '.join(tensors) or 'nothing'}."
        )
    table = tensors[name]
    for other in ("mapping", "weights"):
        if other in tensors and tensors[other].ndim != 1:
            raise ValueError(f"{path}: {other} must have one number for each token.")
    if "mapping" in tensors:
        mapping = np.asarray(tensors["mapping"], dtype=np.int64)
        if mapping.size and not 0 <= mapping.min() <= mapping.max() < len(table):
            raise ValueError(f"{path}: mapping must name rows of the table. Copy it again.")
        table = table[mapping]
    table = np.asarray(table, dtype=np.float32)
    if "weights" in tensors:
        if len(tensors["weights"]) != len(table):
            raise ValueError(f"{path}: weights must have one number for each token.")
        table = table * np.asarray(tensors["weights"], dtype=np.float32)[:, None]
    return table


def _whole_words(token_ids, special) -> dict[str, int]:
    """word -> row, in the order of the rows, without the marks that tokenizers put before words."""
    ordered = sorted((i, token) for token, i in token_ids.items() if token not in special)
    mark = next((m for m in _MARKS if any(token.startswith(m) for _, token in ordered)), "")
    return {
        token[len(mark) :]: i
        for i, token in ordered
        if token.startswith(mark) and not token.startswith(_INNER) and token[len(mark) :].strip()
    }
