"""What `pacsent.save` writes of an `Index`, and back: arrays that are opened by memory map."""

import json
from typing import Any

import numpy as np

from pacsent.search.faiss_index import InvertedLists
from pacsent.search.index_rows import IndexBlock, IndexRows, StoredTexts
from pacsent.search.lexical import Postings
from pacsent.search.metadata import Columns
from pacsent.search.search_certificate import Asked
from pacsent.storage import State, checked_tensor


def state(index: Any, held: IndexRows, lists: InvertedLists | None, next_id: int) -> State:
    """The arrays of an index and its vectorizer; deleted texts are left out."""
    block = held.kept(index.vectorizer._n_features_out)
    config: dict[str, Any] = {
        "n_texts": len(block.ids), "engine": index.engine, "lexical": index.lexical,
        "chunk": index.chunk, "columns": list(block.columns.codes),
    }  # fmt: skip
    if index.certificate_ is not None:
        config["certificate"] = index.certificate_.to_json()
    text_bytes, text_offsets = StoredTexts.arrays(block.texts)
    tensors = {
        "vectors": block.vectors,
        "ids": block.ids,
        "next_id": np.array(next_id, dtype=np.int64),
        "text_bytes": text_bytes,
        "text_offsets": text_offsets,
    }
    if block.spans is not None:
        tensors["spans"] = block.spans
    if block.words is not None:
        words = block.words
        tensors |= {"word_hashes": words.hashes.view(np.int64), "word_ends": words.ends,
                    "word_rows": words.rows, "word_counts": words.counts,
                    "word_lengths": words.lengths}  # fmt: skip
    for i, (name, codes) in enumerate(block.columns.codes.items()):
        values = list(map(json.dumps, block.columns.values[name]))
        tensors[f"column{i}_codes"] = codes
        tensors[f"column{i}_bytes"], tensors[f"column{i}_offsets"] = StoredTexts.arrays(values)
    if index.asked is not None:
        tensors["asked"] = np.array(index.asked)
    whole = not held.deleted.size and np.array_equal(held.ids, block.ids)
    if lists is not None and whole and len(lists) == len(held):
        tensors["centroids"], tensors["list_numbers"] = lists.centroids, lists.numbers
        tensors["lists_learned"] = np.array(lists.n_learned, dtype=np.int64)
    return State(config, tensors, parts={"vectorizer": index.vectorizer})


def restored(state: State, lexical: float) -> tuple[int, IndexRows, Asked | None]:
    """(next number, rows, queries of `certify`) of a saved index."""
    given, n_dims = state.tensors, state.parts["vectorizer"]._n_features_out
    ids = checked_tensor(given, "ids", np.int64, (None,), low=0)
    n = len(ids)
    next_id = int(checked_tensor(given, "next_id", np.int64, (), low=int(ids[-1]) + 1 if n else 0))
    if (np.diff(ids) <= 0).any():
        raise ValueError("ids must increase")
    spans = None
    if state.config.get("chunk") is not None:
        spans = checked_tensor(given, "spans", np.int64, (None, 3), low=0)
        if (np.diff(spans[:, 0]) < 0).any() or not np.array_equal(
            np.unique(spans[:, 0]), np.arange(n)
        ):
            raise ValueError("spans must be those of every text, in their order")
    n_rows = n if spans is None else len(spans)
    vectors = checked_tensor(given, "vectors", np.float32, (n_rows, n_dims), finite=False)
    words = None
    if lexical:
        hashes = checked_tensor(given, "word_hashes", np.int64, (None,)).view(np.uint64)
        ends = checked_tensor(given, "word_ends", np.int64, (len(hashes) + 1,), low=0)
        rows = checked_tensor(given, "word_rows", np.int32, (None,), low=0, below=max(n_rows, 1))
        counts = checked_tensor(given, "word_counts", np.float32, (len(rows),))
        lengths = checked_tensor(given, "word_lengths", np.float32, (n_rows,))
        if ends[0] != 0 or ends[-1] != len(rows) or (np.diff(ends) < 0).any():
            raise ValueError("word_ends must be the bounds of the words")
        if (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("word_hashes must increase")
        words = Postings(hashes, ends, rows, counts, lengths)
    block = IndexBlock(
        vectors, np.array(ids), _stored(given, "text", n), _columns(state, n), spans, words
    )
    asked = None
    if "asked" in given:
        asked = Asked(*checked_tensor(given, "asked", np.float64, (2, None), finite=False))
    return next_id, IndexRows((block,) if n else ()), asked


def restored_lists(state: State, held: IndexRows, at_once: int) -> InvertedLists:
    """The inverted lists of a saved index, filled with its rows."""
    [block] = held.blocks
    vectors, given = block.vectors, state.tensors
    n, n_dims = vectors.shape
    centroids = checked_tensor(given, "centroids", np.float32, (None, n_dims))
    numbers = checked_tensor(given, "list_numbers", np.int32, (n,), low=0, below=len(centroids))
    learned = int(checked_tensor(given, "lists_learned", np.int64, (), low=1))
    lists = InvertedLists(np.array(centroids), vectors[:: max(1, n // 100_000)], learned)
    for start in range(0, n, at_once):
        lists.add(vectors[start : start + at_once], numbers[start : start + at_once])
    return lists


def _columns(state: State, n: int) -> Columns:
    codes, values = {}, {}
    for i, name in enumerate(state.config.get("columns", [])):
        stored = _stored(state.tensors, f"column{i}", None)
        values[str(name)] = [json.loads(text) for text in stored]
        codes[str(name)] = checked_tensor(
            state.tensors, f"column{i}_codes", np.int32, (n,), low=-1, below=max(len(stored), 1)
        )
    return Columns(n, codes, values)


def _stored(given, name: str, n: int | None) -> StoredTexts:
    data = checked_tensor(given, f"{name}_bytes", np.uint8, (None,))
    size = None if n is None else n + 1
    offsets = checked_tensor(given, f"{name}_offsets", np.int64, (size,))
    if (
        not offsets.size
        or offsets[0] != 0
        or offsets[-1] != data.size
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError(f"{name}_offsets must be the bounds of the texts")
    return StoredTexts(data, offsets)
