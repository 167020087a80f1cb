"""The compiled code as plain Python: every kernel file is reached, and what tests find there holds.

Compiled code hides reads beyond an array's end; plain Python does not. `make test-all` runs more.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
KERNELS = Path(TESTS.parent, "src", "pacsent", "kernels")
# quick ones that together reach every kernel file
SELECTED = [
    "test_negative_sampling.py::test_slopes_of_own_words_are_their_numpy_lines",
    "test_negative_sampling.py::test_word_training_takes_the_steps_of_the_formulas",
    "test_negative_sampling.py::test_the_penalty_over_time_is_the_golden_one",
    "test_text.py::test_the_filter_equals_its_rules_on_kept_text",
    "test_text.py::test_clean_keeps_words_of_any_script_when_told",
    "test_ngrams.py::test_tf_idf_rows_have_length_one_and_scores_are_their_product",
    "test_splitting.py::test_copies_with_invisible_characters_or_full_width_letters_are_copies",
    "test_hybrid.py::test_an_index_by_words_alone_returns_bm25_of_the_texts_that_share_words",
    "test_index.py::test_the_order_is_that_of_the_cosines_in_double_precision",
]
# runs pytest and prints which functions of which kernel file were called
RUN = f"""
import json, sys, threading
import pytest
called = {{}}
def note(frame, event, argument):
    folder, _, name = frame.f_code.co_filename.rpartition("/")
    if event == "call" and folder == {str(KERNELS)!r}:
        called.setdefault(name, set()).add(frame.f_code.co_name)
sys.setprofile(note)
threading.setprofile(note)
status = pytest.main(["-p", "no:cacheprovider", "-m", "not slow and not gpu", *sys.argv[1:]])
sys.setprofile(None)
print("CALLED", json.dumps({{name: sorted(found) for name, found in called.items()}}))
sys.exit(status)
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python already")
@pytest.mark.slow
def test_every_kernel_file_holds_as_plain_python():
    done = subprocess.run(
        [sys.executable, "-c", RUN, *SELECTED],
        cwd=TESTS,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "CI": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-500:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("CALLED ")]
    called = json.loads(line.removeprefix("CALLED "))
    files = {path.name for path in KERNELS.glob("*.py") if "njit" in path.read_text()}
    assert set(called) >= files, f"not reached: {sorted(files - set(called))}"
    hardly = {name: called[name] for name in files if len(called[name]) < 2}
    assert not hardly, "only imported, not called"
