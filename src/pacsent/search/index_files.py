"""What `pacsent.save` writes of an `Index`, and back: arrays that are opened by memory map."""

import json
from typing import Any

import numpy as np

from pacsent.search.calibration import CalibrationQueries
from pacsent.search.faiss_index import InvertedLists
from pacsent.search.lexical import Postings
from pacsent.search.metadata import Columns
from pacsent.search.snapshot import Block, Snapshot, StoredTexts
from pacsent.storage import State, checked_tensor


def to_state(
    index: Any, snapshot: Snapshot, lists: InvertedLists | None, next_number: int
) -> State:
    """The arrays of an index and its encoder, without deleted texts."""
    block = snapshot.compacted(index.vectorizer._n_features_out)
    config: dict[str, Any] = {
        "n_texts": len(block.ids),
        "engine": index.engine,
        "lexical": index.lexical,
        "chunk": index.chunk,
        "columns": list(block.columns.codes),
    }
    if index.certificate_ is not None:
        config["certificate"] = index.certificate_.to_json()
    tensors = {
        "vectors": block.vectors,
        "ids": block.ids,
        "next_id": np.array(next_number, dtype=np.int64),
    }
    tensors["text_bytes"], tensors["text_offsets"] = StoredTexts.arrays(block.texts)
    if block.spans is not None:
        tensors["spans"] = block.spans
    if block.postings is not None:
        postings = block.postings
        tensors |= {
            "word_hashes": postings.hashes.view(np.int64),
            "word_ends": postings.ends,
            "word_rows": postings.rows,
            "word_counts": postings.counts,
            "word_lengths": postings.lengths,
        }
    for i, (name, codes) in enumerate(block.columns.codes.items()):
        values = list(map(json.dumps, block.columns.values[name]))
        tensors[f"column{i}_codes"] = codes
        tensors[f"column{i}_bytes"], tensors[f"column{i}_offsets"] = StoredTexts.arrays(values)
    if index.calibration_ is not None:
        tensors["calibration"] = np.array(index.calibration_)
    unchanged = not snapshot.deleted.size and np.array_equal(snapshot.ids, block.ids)
    if lists is not None and unchanged and len(lists) == len(snapshot):
        tensors["faiss"] = lists.to_array()
        tensors["faiss_n_learned"] = np.array(lists.n_learned, dtype=np.int64)
    return State(config, tensors, parts={"vectorizer": index.vectorizer})


def restore(state: State, lexical: float) -> tuple[int, Snapshot, CalibrationQueries | None]:
    """(next number, snapshot, queries of `certify`) of a saved index."""
    tensors, n_dims = state.tensors, state.parts["vectorizer"]._n_features_out
    ids = checked_tensor(tensors, "ids", np.int64, (None,), low=0)
    if (np.diff(ids) <= 0).any():
        raise ValueError("ids must increase")
    n = len(ids)
    low = int(ids[-1]) + 1 if n else 0
    next_number = int(checked_tensor(tensors, "next_id", np.int64, (), low=low))
    spans = None
    if state.config.get("chunk") is not None:
        spans = checked_tensor(tensors, "spans", np.int64, (None, 3), low=0)
        owners = spans[:, 0]
        if (np.diff(owners) < 0).any() or not np.array_equal(np.unique(owners), np.arange(n)):
            raise ValueError("spans must be those of every text, in their order")
    n_rows = n if spans is None else len(spans)
    vectors = checked_tensor(tensors, "vectors", np.float32, (n_rows, n_dims), finite=False)
    postings = None
    if lexical:
        hashes = checked_tensor(tensors, "word_hashes", np.int64, (None,)).view(np.uint64)
        ends = checked_tensor(tensors, "word_ends", np.int64, (len(hashes) + 1,), low=0)
        rows = checked_tensor(tensors, "word_rows", np.int32, (None,), low=0, below=max(n_rows, 1))
        counts = checked_tensor(tensors, "word_counts", np.float32, (len(rows),))
        lengths = checked_tensor(tensors, "word_lengths", np.float32, (n_rows,))
        if ends[0] != 0 or ends[-1] != len(rows) or (np.diff(ends) < 0).any():
            raise ValueError("word_ends must be the bounds of the words")
        if (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("word_hashes must increase")
        postings = Postings(hashes, ends, rows, counts, lengths)
    codes, values = {}, {}
    for i, name in enumerate(state.config.get("columns", [])):
        stored = _stored_texts(tensors, f"column{i}")
        values[str(name)] = [json.loads(text) for text in stored]
        below = max(len(stored), 1)
        codes[str(name)] = checked_tensor(
            tensors, f"column{i}_codes", np.int32, (n,), low=-1, below=below
        )
    texts = _stored_texts(tensors, "text", n + 1)
    block = Block(vectors, np.array(ids), texts, Columns(n, codes, values), spans, postings)
    calibration = None
    if "calibration" in tensors:
        scores = checked_tensor(tensors, "calibration", np.float64, (2, None), finite=False)
        calibration = CalibrationQueries(*scores)
    return next_number, Snapshot((block,) if n else ()), calibration


def restore_lists(state: State, snapshot: Snapshot) -> InvertedLists:
    """The inverted lists of a saved index."""
    data = checked_tensor(state.tensors, "faiss", np.uint8, (None,))
    n_learned = int(checked_tensor(state.tensors, "faiss_n_learned", np.int64, (), low=1))
    lists = InvertedLists.from_array(data, n_learned)
    if (len(lists), lists.n_dims) != (len(snapshot), snapshot.blocks[0].vectors.shape[1]):
        raise ValueError("faiss must contain the rows of the index")
    return lists


def _stored_texts(tensors, name: str, n_offsets: int | None = None) -> StoredTexts:
    data = checked_tensor(tensors, f"{name}_bytes", np.uint8, (None,))
    offsets = checked_tensor(tensors, f"{name}_offsets", np.int64, (n_offsets,))
    ends_meet = offsets.size and offsets[0] == 0 and offsets[-1] == data.size
    if not ends_meet or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}_offsets must be the bounds of the texts")
    return StoredTexts(data, offsets)
