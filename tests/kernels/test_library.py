"""The compiled library: which file and which instruction set, what it refuses, life without it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pacsent.kernels import edits, library
from pacsent.kernels.library import (
    INT64,
    SIZE,
    Array,
    BoundArray,
    BoundStruct,
    Struct,
    entry_point,
)


def run(code, **variables):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


def test_the_kernels_are_compiled_and_a_level_is_chosen():
    assert library.is_available()
    assert library.level() in ("v2", "v3", "v4", "base")


def test_an_array_of_another_dtype_or_order_is_refused():
    floats = np.zeros(4)
    strided = np.zeros(8, np.int32)[::2]

    with pytest.raises(Exception, match="array of float64 was passed for one of int32"):
        edits._edit_distance(floats, 4, floats, 4, 1, np.zeros(5, np.int32))
    with pytest.raises(Exception, match="must be contiguous"):
        edits._edit_distance(strided, 4, strided, 4, 1, np.zeros(5, np.int32))
    with pytest.raises(TypeError, match="must be contiguous"):
        BoundArray(strided)


def test_a_bound_array_is_passed_like_the_array():
    a, b = np.array([1, 2, 3], np.int32), np.array([1, 5, 3], np.int32)
    room = np.zeros(4, np.int32)

    assert edits._edit_distance(BoundArray(a), 3, BoundArray(b), 3, 9, room) == 1
    with pytest.raises(Exception, match="array of float32 was passed for one of int64"):
        Array(np.int64).from_param(BoundArray(np.zeros(3, np.float32)))


def test_a_struct_holds_the_addresses_of_arrays_of_its_types():
    struct = Struct(words=INT64, n=SIZE)
    words = np.array([1, 2])
    words.flags.writeable = False

    bound = BoundStruct(struct, words=words, n=2)

    assert (bound.values.words, bound.values.n) == (words.ctypes.data, 2)
    assert struct.from_param(bound) is bound.pointer
    with pytest.raises(TypeError, match="array of float64 was passed for one of int64"):
        BoundStruct(struct, words=np.zeros(2), n=2)
    with pytest.raises(TypeError, match="members must be words, n"):
        BoundStruct(struct, words=words)
    with pytest.raises(TypeError, match="struct of words, n is needed"):
        struct.from_param(BoundStruct(Struct(n=SIZE), n=1))


def test_an_entry_point_that_does_not_exist_is_an_error():
    with pytest.raises(AttributeError, match="no_such_kernel"):
        entry_point("no_such_kernel", INT64, SIZE)


def test_a_level_that_the_processor_lacks_is_refused():
    done = run("import pacsent.kernels.edits", PACSENT_LEVEL="v9")

    assert "PACSENT_LEVEL=v9: this processor has" in done.stderr


@pytest.mark.skipif(not library._HOOK.exists(), reason="the sources of the kernels are not here")
def test_a_library_of_other_sources_is_an_error_that_names_the_command(tmp_path, monkeypatch):
    """An edited .c must never silently have no effect."""
    monkeypatch.delenv("PACSENT_LIBRARY", raising=False)
    monkeypatch.setattr(library, "_digest_of_sources", lambda: "another")

    with pytest.raises(library.KernelsMissing, match=r"older than their sources.*hatch_build\.py"):
        library.find_library()


@pytest.mark.skipif(not library._HOOK.exists(), reason="the sources of the kernels are not here")
def test_the_name_of_the_library_is_that_of_the_build_hook():
    sys.path.insert(0, str(library._HOOK.parent))
    try:
        import hatch_build
    finally:
        sys.path.pop(0)

    assert library._digest_of_sources() == hatch_build.digest()


def test_without_the_library_certificates_are_made_with_one_warning():
    code = """
import warnings
from pacsent.certify.near_duplicates import near_duplicate_clusters
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        print(near_duplicate_clusters(["a dull film with no plot", "a dull film with no end", "x"]))
print(len(caught), caught[0].message)
"""
    done = run(code, PACSENT_LIBRARY="none")

    *clusters, warning = done.stdout.splitlines()
    assert clusters == ["[0 0 1]", "[0 0 1]"]
    assert warning.startswith("1 The compiled kernels of pacsent could not be loaded")


def test_without_the_library_what_needs_it_says_what_to_install():
    code = "import numpy as np; from pacsent.kernels import edits; "
    code += "edits.edit_distance(np.arange(3), np.arange(3), 1)"

    done = run(code, PACSENT_LIBRARY="none")

    assert done.returncode != 0
    assert "needs the compiled kernels of pacsent" in done.stderr
    assert "a C compiler" in done.stderr


def test_a_damaged_library_counts_as_none(tmp_path):
    damaged = tmp_path / "_kernels-damaged.so"
    damaged.write_bytes(b"not a library")
    code = "from pacsent.kernels import library; print(library.is_available())"

    done = run(code, PACSENT_LIBRARY=str(damaged))

    assert done.stdout.strip() == "False"
