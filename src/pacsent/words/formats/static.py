"""Folders of static embeddings: model2vec's, and sentence-transformers' StaticEmbedding.

A tokenizer.json and one row for each token in model.safetensors. Text is read as the library that
wrote the folder reads it, so that sentence vectors are the same.
"""

import json
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.storage import CONFIG, TENSORS, read_tensors, static_modules
from pacsent.words.formats.streams import FileContents
from pacsent.words.pieces import Pieces

TOKENIZER_FILE = "tokenizer.json"
_PLACES = ("", "0_StaticEmbedding")  # sentence-transformers puts a module into a folder of its own
_MODEL2VEC = "embeddings"  # name of the table in model2vec's files
_TRANSFORMERS = "embedding.weight"  # and in sentence-transformers'
_MAX_LENGTH = 512  # tokens that model2vec reads where its config.json does not say


def static_folder(path: str | os.PathLike) -> Path | None:
    """The folder that holds the table and the tokenizer, or None."""
    for place in _PLACES:
        folder = Path(path) / place
        if (folder / TOKENIZER_FILE).is_file() and (folder / TENSORS).is_file():
            return folder
    return None


def read_static(path: Path, verbose: bool) -> FileContents:
    """Word vectors of a folder as model2vec and sentence-transformers write static models.

    The words are the tokens. As model2vec does, its own folders drop the token for OOV words
    and read the beginning of a long text only (`max_length`, 512 tokens where config.json is
    silent); sentence-transformers does neither.
    """
    folder = static_folder(path)
    if folder is None:
        raise ValueError(f"{path} must be a folder with {TOKENIZER_FILE} and {TENSORS}.")

    name, table = _read_rows(folder / TENSORS)
    try:
        pieces = Pieces((folder / TOKENIZER_FILE).read_text(encoding="utf-8"))
        tokens = sorted(pieces.token_ids, key=pieces.token_ids.__getitem__)
    except ValueError:
        raise ValueError(
            f"{folder / TOKENIZER_FILE} must be a tokenizer with its tokens. It is none. Copy it "
            "again."
        ) from None

    for token in tokens:
        if pieces.token_ids[token] >= len(table):
            raise ValueError(
                f"{folder / TENSORS} must have a row for every token. It has {len(table):,} rows "
                f"and none for {token!r}. The two files are not of one model: copy both again."
            )

    if name == _MODEL2VEC:
        config = _read_settings(folder / CONFIG)
        is_unit = bool(config.get("normalize", False))
        max_length = config.get("max_length", _MAX_LENGTH)
        normalize = _truncating_pieces(pieces, tokens, max_length)
        tokens = [token for token in tokens if token != pieces.unknown]
    else:
        normalize = pieces
        is_unit = "Normalize" in (static_modules(path) or [])

    if not tokens:
        raise ValueError(f"{folder / TOKENIZER_FILE} must have tokens. It has none.")
    rows = np.array([pieces.token_ids[token] for token in tokens])
    sentences = "unit" if is_unit else "mean"
    return FileContents(tokens, table[rows], normalize=normalize, sentences=sentences)


def _read_settings(path: Path) -> dict:
    """The JSON object of model2vec's config.json; empty if there is none."""
    if not path.exists():
        return {}

    try:
        settings = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must have one JSON object.")
    return settings


def _truncating_pieces(pieces: Pieces, tokens: list[str], max_length: Any) -> Pieces:
    """The tokenizer with model2vec's truncation: some characters first, then max_length tokens."""
    if max_length is not None and not (type(max_length) is int and max_length > 0):
        raise ValueError(f"max_length must be an integer above 0 or null. Got {max_length!r}.")

    truncation = None
    max_characters = None
    if max_length is not None:
        truncation = {
            "direction": "Right",
            "strategy": "LongestFirst",
            "stride": 0,
            "max_length": max_length,
        }
        median_length = int(statistics.median(map(len, tokens)))
        max_characters = max(1, max_length * median_length)

    content = json.loads(pieces.definition)
    content["truncation"] = truncation
    content["padding"] = None
    definition = json.dumps(content, ensure_ascii=False)
    return Pieces(definition, max_characters=max_characters)


def _read_rows(path: Path) -> tuple[str, np.ndarray]:
    """The name of the table, and one row for each token.

    In files of model2vec "mapping" names the row of each token, which others may have too, and
    "weights" is a factor for each token: both are applied here.
    """
    tensors = read_tensors(path)
    name = _TRANSFORMERS if _TRANSFORMERS in tensors else _MODEL2VEC
    if name not in tensors or tensors[name].ndim != 2:
        raise ValueError(
            f"{path} must have a table named {_MODEL2VEC} or {_TRANSFORMERS}. It holds "
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
        weights = np.asarray(tensors["weights"], dtype=np.float32)
        if len(weights) != len(table):
            raise ValueError(f"{path}: weights must have one number for each token.")
        table = table * weights[:, None]
    return name, table
