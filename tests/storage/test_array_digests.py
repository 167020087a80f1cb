"""Digests of arrays: of a mapped file they are computed once, and a change is always noticed."""

import hashlib
import os

import numpy as np
import pytest

from pacsent.storage import array_digests, read_tensors, write_tensors
from pacsent.storage.array_digests import hash_arrays


@pytest.fixture
def path(tmp_path):
    """A file of two arrays."""
    write_tensors(tmp_path / "arrays", {"a": np.arange(6.0), "b": np.eye(2, dtype=np.float32)})
    return tmp_path / "arrays"


@pytest.fixture
def n_hashed(monkeypatch):
    """The digests that were computed, as a list that grows."""
    computed = []
    compute = array_digests._hash

    def hash_and_record(*arguments):
        computed.append(compute(*arguments))
        return computed[-1]

    monkeypatch.setattr(array_digests, "_hash", hash_and_record)
    return computed


def test_the_digest_is_of_header_names_types_shapes_bytes_and_trailer(path):
    expected = hashlib.sha256(
        b"header"
        + b"a float64 (6,)"
        + np.arange(6.0).tobytes()
        + b"b float32 (2, 2)"
        + np.eye(2, dtype=np.float32).tobytes()
        + b"trailer"
    ).hexdigest()

    arrays = read_tensors(path)

    assert hash_arrays(b"header", arrays, b"trailer") == expected
    copies = {name: np.array(array) for name, array in arrays.items()}
    assert hash_arrays(b"header", copies, b"trailer") == expected


def test_arrays_of_a_mapped_file_are_hashed_once(path, n_hashed):
    arrays = read_tensors(path)

    first = hash_arrays(b"", arrays, b"")
    views = {name: np.asarray(array)[:] for name, array in arrays.items()}
    second = hash_arrays(b"", views, b"")

    assert first == second
    assert len(n_hashed) == 1


def test_arrays_that_can_be_changed_are_hashed_at_every_call(path, n_hashed):
    arrays = {name: np.array(array) for name, array in read_tensors(path).items()}
    locked = {name: np.array(array) for name, array in arrays.items()}
    for array in locked.values():
        array.flags.writeable = False  # its owner may undo this

    before = hash_arrays(b"", arrays, b"")
    arrays["a"][0] = 7.0
    locked["a"].flags.writeable = True
    locked["a"][0] = 7.0

    assert hash_arrays(b"", arrays, b"") != before
    assert hash_arrays(b"", locked, b"") != before
    assert len(n_hashed) == 3


def test_an_array_beside_those_of_a_mapped_file_may_change(path):
    arrays = read_tensors(path) | {"scale": np.ones(1)}

    before = hash_arrays(b"", arrays, b"")
    arrays["scale"][0] = 2.0

    assert hash_arrays(b"", arrays, b"") != before


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {"a": arrays["a"][::-1]},
        lambda arrays: arrays | {"a": arrays["a"][:5]},
        lambda arrays: arrays | {"a": arrays["a"].view(np.int64)},
        lambda arrays: arrays | {"a": arrays["a"].reshape(2, 3)},
        lambda arrays: {"a": arrays["a"]},
    ],
    ids=["order", "length", "type", "shape", "names"],
)
def test_other_arrays_of_the_same_file_have_another_digest(path, change):
    arrays = read_tensors(path)
    before = hash_arrays(b"", arrays, b"")

    changed = change(arrays)

    assert hash_arrays(b"", changed, b"") != before
    copies = {name: np.array(array) for name, array in changed.items()}
    assert hash_arrays(b"", changed, b"") == hash_arrays(b"", copies, b"")


def test_header_and_trailer_belong_to_the_digest(path):
    arrays = read_tensors(path)

    digests = {hash_arrays(b"x", arrays, b""), hash_arrays(b"", arrays, b"x")}

    assert len(digests | {hash_arrays(b"", arrays, b"")}) == 3


def test_a_file_that_another_program_writes_to_is_hashed_again(path):
    arrays = read_tensors(path)
    before = hash_arrays(b"", arrays, b"")

    with open(path, "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\1" * 8)
    os.utime(path, ns=(0, 0))

    assert hash_arrays(b"", arrays, b"") != before
