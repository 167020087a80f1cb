"""How many cores work is spread over."""

import os

from pacsent.threads import n_cores


def test_cores_are_those_that_this_process_may_use(tmp_path):
    assert 1 <= n_cores() <= os.cpu_count()
    every = n_cores(tmp_path)
    for text, cores in (
        ("max 100000\n", every),
        ("50000 100000\n", 1),
        ("99900000 100000\n", every),
        ("something else\n", every),
    ):
        folder = tmp_path / text.strip()  # a quota is read once a second
        folder.mkdir()
        (folder / "cpu.max").write_text(text)
        assert n_cores(folder) == cores
